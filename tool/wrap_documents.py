#!/usr/bin/env python3
"""wrap_documents.py [--check] [FILE...] - keeps paragraphs and items of Markdown within 110 columns, in the
files named, or in all documents of the tree that no program writes.

A paragraph of which a line is too long is filled again. Code, links and their targets stay in one piece, so
that a line may be longer where such a piece is. Samples, tables, headings and HTML stay as they are. --check
changes nothing and writes FILE:LINE for each paragraph that would change; it fails if there is one.
"""

import pathlib
import re
import subprocess
import sys
import textwrap

WIDTH = 110
GENERATED = re.compile(r"doc/api/|doc/environment\.md|compatibility\.md|^test/")
FENCE = re.compile(r"^\s*(```+|~~~+)")
ASIDE = re.compile(r"^\s*(\||#|<|\[[^\]]+\]:|---+\s*$|===+\s*$|!\[)")  # tables, headings, HTML, targets, rules
ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])(\s+)")
PIECE = re.compile(r"``.+?``|`[^`\n]+`|!?\[[^\[\]]*\]\([^()\s]*\)")
# Words that would begin something else at the start of a line.
SIGN = re.compile(r" (?=([-+*#>|=~:]+|\d+[.)])(\s|$))")


def is_quote(line):
    return line.lstrip().startswith(">")


def fill(lines):
    """The lines of a paragraph, none longer than need be. Hard line breaks are kept by keeping it as it is."""
    if all(len(line) <= WIDTH for line in lines) or any(line.endswith(("  ", "\\")) for line in lines):
        return lines
    item = ITEM.match(lines[0])
    lead = item[0] if item else re.match(r"\s*(> )?", lines[0])[0]
    hang = lead
    if item:
        hang = re.match(r"\s*", lines[1])[0] if len(lines) > 1 else ""
        hang = hang or " " * len(lead)
    rest = [re.sub(r"^>\s?", "", line.strip()) if is_quote(lines[0]) else line.strip() for line in lines[1:]]
    text = " ".join([lines[0][len(lead):], *rest])
    text = SIGN.sub("\0", PIECE.sub(lambda piece: piece[0].replace(" ", "\0"), text))
    filled = textwrap.wrap(text, WIDTH, initial_indent=lead, subsequent_indent=hang, break_long_words=False,
                           break_on_hyphens=False)
    return [line.replace("\0", " ") for line in filled]


def paragraphs(text):
    """(number of the first line, lines, whether they are a paragraph) of all lines of a document."""
    block, start, fence, html = [], 0, None, False
    for number, line in enumerate(text.split("\n"), 1):
        opens = FENCE.match(line)
        is_text = bool(line.strip()) and not (fence or html or opens or ASIDE.match(line)
                                              or not block and re.match(r"    |\t", line))
        if block and (not is_text or ITEM.match(line) or is_quote(line) != is_quote(block[0])):
            yield start, block, True
            block = []
        if is_text:
            start = start if block else number
            block.append(line)
            continue
        yield number, [line], False
        if fence:
            fence = None if line.strip().startswith(fence) else fence
        elif opens:
            fence = opens[1]
        else:
            html = (html or line.lstrip().startswith("<!--")) and "-->" not in line
    if block:
        yield start, block, True


def documents(root):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=root,
                            capture_output=True, text=True)
    names = listed.stdout.split() if listed.returncode == 0 else []
    return [root / name for name in names if not GENERATED.search(name) and (root / name).is_file()]


def main():
    words = sys.argv[1:]
    check = words[:1] == ["--check"]
    root = pathlib.Path(__file__).parents[1].resolve()
    found = 0
    for path in [pathlib.Path(name) for name in words[check:]] or documents(root):
        text, out = path.read_text(), []
        for number, lines, is_paragraph in paragraphs(text):
            filled = fill(lines) if is_paragraph else lines
            out += filled
            if check and filled != lines:
                found += 1
                print(f"{path}:{number}: a paragraph is wider than {WIDTH} columns (make format)")
        if not check and "\n".join(out) != text:
            path.write_text("\n".join(out))
    return found > 0


if __name__ == "__main__":
    sys.exit(main())
