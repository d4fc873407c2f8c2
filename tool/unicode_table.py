#!/usr/bin/env python3
"""unicode_table.py - writes model/text/unicode_table.c: the classes of characters that tokenizers split by.

Needs Debian's `unicode-data`, for the ages of characters, and `unicodedata2==16.0.0` of PyPI: the version of Unicode that the regular expressions of Hugging Face tokenizers have today. The
file is committed, so nobody else needs it. Their normal form C is that of Unicode 9: characters that are newer stay as they are. The table has two
stages: the page of a character's upper bits, then the class in that page. Bits are named in model/text/text_inside.h.
"""

import pathlib
import sys

import unicodedata2 as ud

LETTER, MARK, NUMBER, SPACE, COMPOSES, WORD, NEWER = 1, 2, 4, 8, 16, 32, 64
PAGE = 128  # characters
SPACES = [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
# Alphabetic, but neither a letter, a mark nor a number: circled and squared Latin letters.
OTHER_ALPHABETIC = [*range(0x24B6, 0x24EA), *range(0x1F130, 0x1F14A), *range(0x1F150, 0x1F16A), *range(0x1F170, 0x1F18A)]
JOIN_CONTROLS = [0x200C, 0x200D]


def second_of_pairs():
    """Characters that may compose with the one before them: second in a canonical pair, and vowels and finals of Hangul."""
    found = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    for code in range(sys.maxunicode + 1):
        parts = ud.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            found.add(int(parts[1], 16))
    return found


def known_to_unicode_9():
    known = set()
    for line in open("/usr/share/unicode/DerivedAge.txt"):
        fields = line.split("#")[0].split(";")
        if len(fields) == 2 and float(fields[1]) <= 9:
            first, _, last = fields[0].strip().partition("..")
            known.update(range(int(first, 16), int(last or first, 16) + 1))
    return known - {0x0EBA}  # which became a combining character in Unicode 12


def classes():
    second, known = second_of_pairs(), known_to_unicode_9()
    for code in range(sys.maxunicode + 1):
        c = chr(code)
        category = ud.category(c)
        if 0xD800 <= code < 0xE000:
            yield 0
            continue
        bits = {"L": LETTER, "M": MARK, "N": NUMBER}.get(category[0], 0)
        if code in SPACES:
            bits |= SPACE
        if code in second or ud.combining(c) or ud.normalize("NFC", c) != c:
            bits |= COMPOSES if code in known else NEWER
        if category[0] in "LM" or category in ("Nd", "Nl", "Pc") or code in OTHER_ALPHABETIC or code in JOIN_CONTROLS:
            bits |= WORD
        yield bits


def rows(values, per_line):
    for at in range(0, len(values), per_line):
        yield "    " + ", ".join(str(v) for v in values[at : at + per_line]) + ","


def main():
    all_bits = list(classes())
    pages, index = {}, []
    for at in range(0, len(all_bits), PAGE):
        index.append(pages.setdefault(tuple(all_bits[at : at + PAGE]), len(pages)))
    lines = [
        f"// unicode_table.c - classes of characters of Unicode {ud.unidata_version}; written by tool/unicode_table.py.",
        "",
        '#include "text_inside.h"',
        "",
        "// clang-format off",
        "const uint16_t text_unicode_page[TEXT_UNICODE_PAGES] = {",
        *rows(index, 24),
        "};",
        f"const uint8_t text_unicode_class[][{PAGE}] = {{",
    ]
    for page in pages:
        lines += ["    {", *("    " + row for row in rows(page, 32)), "    },"]
    lines += ["};", "// clang-format on", ""]
    path = pathlib.Path(__file__).parent.parent / "model/text/unicode_table.c"
    path.write_text("\n".join(lines))
    print(f"{path.name}: Unicode {ud.unidata_version}, {len(pages)} pages of {PAGE}")


main()
