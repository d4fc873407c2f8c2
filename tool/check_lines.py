#!/usr/bin/env python3
"""check_lines.py [ROOT] - finds lines of C that have more than 110 columns, comments included. Writes FILE:LINE for each.

Left out are generated files, golden files, and what stands between `clang-format off` and `clang-format on` (tables with a row per
line).
"""

import pathlib
import re
import subprocess
import sys

WIDTH = 110
GENERATED = re.compile(r"include/zellige_(\w*ops|checks)\.h|unicode_table\.c|test/bm1690/device/|golden/")


def sources(root):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h"], cwd=root, capture_output=True, text=True)
    names = listed.stdout.split() if listed.returncode == 0 and (root / ".git").exists() else [
        path.relative_to(root).as_posix() for path in root.glob("[!b]*/**/*.[ch]")]
    return sorted(name for name in names if not GENERATED.search(name) and (root / name).is_file())


def long_lines(text):
    """The numbers of the lines that are too long."""
    formatted, found = True, []
    for number, line in enumerate(text.split("\n"), 1):
        formatted = (formatted or "clang-format on" in line) and "clang-format off" not in line
        if formatted and len(line.expandtabs(8)) > WIDTH:
            found.append(number)
    return found


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]).resolve()
    found = [f"{name}:{number}" for name in sources(root) for number in long_lines((root / name).read_text(errors="replace"))]
    for place in found:
        print(f"{place}: more than {WIDTH} columns (make format)")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
