#!/usr/bin/env python3
"""wrap_comments.py [--check] [FILE...] - keeps // comments within 110 columns, in the files named, or in all C files of the tree that are not
generated.

A paragraph of comment lines of which one is too long is filled again; a comment behind code that does not fit goes above the
code. Indented samples, rules of dashes, and paragraphs that fit stay as they are. --check changes nothing and writes FILE:LINE for
each comment that is too long; it fails if there is one.
"""

import re
import subprocess
import sys
import textwrap

WIDTH = 110
LINE = re.compile(r"^(\s*)// ?(.*)$")
ITEM = re.compile(r"^([-*]|\d+[.)]) ")
RULE = re.compile(r"-{4,}$")


def columns(line):
    return len(line.expandtabs(8))


def is_text(body):
    """Whether a line of a comment belongs to a paragraph that may be filled: no sample, no rule, no empty line."""
    return bool(body) and not body.startswith(" ") and not RULE.search(body) and not body.startswith("clang-format")


def fill(indent, bodies):
    item = ITEM.match(bodies[0])
    hang = " " * len(item[0]) if item else ""
    text = " ".join(body.strip() for body in bodies)
    filled = textwrap.wrap(text, WIDTH, initial_indent=f"{indent}// ", subsequent_indent=f"{indent}// {hang}",
                           break_long_words=False, break_on_hyphens=False)
    return filled


def paragraph(lines, at):
    """The end of the paragraph of comment lines that begins at a line, and its indentation and texts; None where there is none."""
    match = LINE.match(lines[at])
    if not match or not is_text(match[2]):
        return None
    indent, bodies = match[1], [match[2]]
    hang = len(ITEM.match(match[2])[0]) if ITEM.match(match[2]) else 0
    end = at + 1
    while end < len(lines):
        follow = LINE.match(lines[end])
        if not follow or follow[1] != indent:
            break
        body = follow[2]
        inside = hang and body.startswith(" " * hang) and not body.startswith(" " * (hang + 1))
        if not (inside or is_text(body)) or ITEM.match(body):
            break
        bodies.append(body)
        end += 1
    return end, indent, bodies


def behind_code(line):
    """The code of a line and the comment behind it; None where a comment is all of it, or there is none."""
    quoted = None
    for at, letter in enumerate(line):
        if quoted:
            if letter == quoted and line[at - 1] != "\\":
                quoted = None
        elif letter in "\"'":
            quoted = letter
        elif line.startswith("//", at):
            code = line[:at].rstrip()
            return (code, line[at + 2:].strip()) if code.strip() else None
        elif line.startswith("/*", at):
            return None
    return None


def wrapped(text):
    lines, out, at = text.split("\n"), [], 0
    while at < len(lines):
        line = lines[at]
        found = paragraph(lines, at)
        if found:
            end, indent, bodies = found
            long = any(columns(part) > WIDTH for part in lines[at:end])
            out += fill(indent, bodies) if long else lines[at:end]
            at = end
            continue
        parts = behind_code(line) if columns(line) > WIDTH and not (at and lines[at - 1].endswith("\\")) else None
        if parts and not line.endswith("\\"):
            indent = re.match(r"\s*", line)[0]
            bodies, end = [parts[1]], at + 1
            deep = line.index("//", len(parts[0]))
            while end < len(lines) and re.match(rf" {{{deep}}}// ", lines[end]):  # the rest of the comment, below
                bodies.append(lines[end].strip()[3:])
                end += 1
            out += fill(indent, bodies) + [parts[0]]
            at = end
            continue
        if RULE.search(line) and LINE.match(line) and columns(line) > WIDTH:
            line = line[:WIDTH]
        out.append(line)
        at += 1
    return "\n".join(out)


def sources():
    """The C files that git knows, without those that programs write."""
    listed = subprocess.run(["git", "ls-files", "*.c", "*.h"], capture_output=True, text=True, check=True)
    written = re.compile(r"include/zellige_(\w*ops|checks)\.h|unicode_table\.c|test/bm1690/device/|test/golden/")
    return [name for name in listed.stdout.split() if not written.search(name)]


def main():
    check = sys.argv[1:2] == ["--check"]
    failed = False
    for name in sys.argv[1 + check:] or sources():
        with open(name, encoding="utf-8") as file:
            text = file.read()
        new = wrapped(text)
        if new == text:
            continue
        if not check:
            with open(name, "w", encoding="utf-8") as file:
                file.write(new)
            continue
        failed = True
        for number, line in enumerate(text.split("\n"), 1):
            if columns(line) > WIDTH and "//" in line:
                print(f"{name}:{number}: a comment has more than {WIDTH} columns (make format)")
    return failed


if __name__ == "__main__":
    sys.exit(main())
