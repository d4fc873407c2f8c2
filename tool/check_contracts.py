#!/usr/bin/env python3
"""check_contracts.py [--root ROOT] [HEADER...] - finds functions declared in headers whose comment does not begin with a verb.

What a function does is said by the comment above its declaration, the one at the end of its line, or that of the declarations right
before it, with no empty line between: "Returns", "Appends", "Waits"; "Return" of several functions. tool/verbs.txt lists the verbs.
Generated headers, and headers that are included several times to make functions, are left out. Writes HEADER:LINE for each.
"""

import argparse
import pathlib
import re
import subprocess
import sys

LEFT_OUT = re.compile(r"include/zellige_(\w*ops|checks)\.h|_micro\.h|/golden/")
DECLARED = re.compile(r"(?!typedef\b|static\b|struct \w+ \{|enum \w+ \{|union \w+ \{)[A-Za-z_][\w \t*]*?[ *](\w+)\(")


def headers(root):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "src/*.h", "model/*.h", "cli/*.h", "include/*.h"],
                            cwd=root, capture_output=True, text=True)
    found = listed.stdout.split() if listed.returncode == 0 and (root / ".git").exists() else [
        path.relative_to(root).as_posix() for folder in ("src", "model", "cli", "include") for path in (root / folder).rglob("*.h")]
    return sorted(name for name in found if not LEFT_OUT.search(name) and (root / name).is_file())


def first_words(lines, first, last):
    """Of the comment above the declaration in lines[first..last], else of the one at its end; None without both."""
    above = first
    while above and lines[above - 1].startswith("//"):
        above -= 1
    if above < first:
        return lines[above][2:].strip()
    return lines[last].split("//", 1)[1].strip() if "//" in lines[last] else None


def without_contract(text, verbs):
    """Pairs of a line and the function that is declared there."""
    lines, number, shared, found = text.split("\n"), 0, None, []
    while number < len(lines):
        line = lines[number]
        declared = DECLARED.match(line)
        last = number
        code = lambda at: lines[at].split("//")[0]
        while declared and ";" not in code(last) and last + 1 < len(lines) and "{" not in code(last):
            last += 1
        if not declared or "{" in code(last):
            shared = None if not line.strip() or line[0] in "}#" else shared
            number += 1
            continue
        said = first_words(lines, number, last)
        shared = said if said is not None else shared
        if shared is None or re.split(r"\W", shared, maxsplit=1)[0] not in verbs:
            found.append((number + 1, declared[1]))
        number = last + 1
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1])
    parser.add_argument("header", nargs="*")
    options = parser.parse_args()
    verbs = {line for line in (options.root / "tool/verbs.txt").read_text().split("\n") if line and line[0] != "#"}
    found = [f"{name}:{line}: {function}" for name in options.header or headers(options.root)
             for line, function in without_contract((options.root / name).read_text(), verbs)]
    for place in found:
        print(f"{place} has no sentence that begins with a verb (tool/verbs.txt)")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
