#!/usr/bin/env python3
"""check_names.py [ROOT] - finds names in comments that nothing in the tree bears. Writes FILE:LINE and the name for each.

A name is a word with an underscore (`row_group`), a word followed by `()`, or a file name (`rows.c`), in a comment of a C, Python,
shell or tile source, or in `code` of a document. It must occur in the code of some file, strings included, or be the name of a file,
with or without its suffix. A part that stands for any text makes a pattern: `detect_`, `vec_x`, `NAME_room`.
tool/foreign_names.txt lists names that belong to other systems or come into being when the program runs.

Needs Python's standard library only.
"""

import pathlib
import re
import subprocess
import sys

C = (".c", ".h", ".def")
SCRIPTS = (".py", ".sh", ".tile", ".pyi", ".cmake", ".toml", ".yml", ".run")
DATA = (".txt", ".cu", ".cl", ".mlir", ".json", ".in", ".ll")
FOREIGN = "tool/foreign_names.txt"
# What was written about past versions or measurements keeps the names of its time.
PAST = re.compile(r"CHANGELOG|bench/results/|doc/api/|doc/environment")

# Comments, and strings, in which a comment cannot begin.
C_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'', re.S)
SCRIPT_COMMENT = re.compile(r"(?:^|(?<=\s))#(?!!|include|define).*", re.M)
INCLUDED = re.compile(r"#\s*include\s*<([^>]+)>")
TESTS = re.compile(r"build/test|_|test_")  # what selects tests by parts of their names, and names of tests of MLX
CODE_SPAN = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^( *)```.*?^ *```", re.M | re.S)
WORD = re.compile(r"[A-Za-z_]\w*")
FILE = re.compile(r"(?<![\w./>*}-])(?:[\w-]+/)*[\w-]+\.(?:c|h|def|py|pyi|sh|tile)\b(?![\w(.])")
NAME = re.compile(r"(?<![\w$%])[A-Za-z_]\w*(?:\(\))?(?![\w*{<])")
FORMULA = re.compile(r"[a-z]_[a-z0-9]")  # x_t, w_0: a letter with an index


def files(root):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True)
    names = listed.stdout.split("\n") if listed.returncode == 0 and (root / ".git").exists() else [
        path.relative_to(root).as_posix() for path in root.glob("**/*") if not path.relative_to(root).parts[0].startswith("build")]
    return sorted(name for name in names if name and (root / name).is_file())


def separate(text, comment):
    """The text without its comments, and the comments as (offset, text)."""
    code, comments, at = [], [], 0
    for found in comment.finditer(text):
        if found[0][0] in "\"'":
            continue
        code.append(text[at:found.start()])
        comments.append((found.start(), found[0]))
        at = found.end()
    return " ".join(code + [text[at:]]), comments


class Known:
    """What the tree has: words of its code, files and folders."""

    def __init__(self, names):
        self.words, self.files, self.foreign, self.used = set(), set(), set(), set()
        for name in names:
            parts = name.split("/")
            self.files.update("/".join(parts[i:]) for i in range(len(parts)))
            self.files.update(".".join(parts[i:-1]) for i in range(len(parts)))  # a package of Python
            self.words.update(part for folder in parts for part in re.split(r"[.-]", folder) + [folder.split(".")[0]])

    def close(self):
        """To be called when all words are there: what the patterns look in."""
        self.all = "\n".join(self.words)

    def is_foreign(self, name):
        self.used.add(name)
        return name in self.foreign

    def has_word(self, word):
        # vec_fma_##T: the rest is pasted to it; `build/test fuzz_text` runs what is called test_fuzz_text.
        if self.words & {word, word + "_", "test_" + word} or FORMULA.fullmatch(word):
            return True
        pattern = re.sub(r"NAME|(?<=_)[a-z](?=_*$)|(?<=_)n(?=_)", r"\\w+", word)
        begin, end = r"\w+" if word[0] == "_" else "", r"\w+" if word[-1] == "_" else ""
        return any(made != word and re.search(rf"^{made}$", self.all, re.M) for made in (pattern, begin + pattern + end)) \
            or self.is_foreign(word)

    def has_file(self, name):
        last = name.split("/")[-1]
        return last.split(".")[0].isupper() or name.removeprefix("build/") in self.files or self.is_foreign(last)


def problems(known, comment):
    """(offset, name) of what a comment names and the tree does not have."""
    for found in FILE.finditer(comment):
        if not known.has_file(found[0]):
            yield found.start(), found[0]
    comment = FILE.sub(lambda found: " " * len(found[0]), comment)
    for found in NAME.finditer(comment):
        word = found[0].removesuffix("()")
        if ("_" in word.strip("_") or word != found[0]) and not known.has_word(word):
            yield found.start(), found[0]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]).resolve()
    names = files(root)
    known, comments = Known(names), []
    for name in names:
        suffix = pathlib.PurePosixPath(name).suffix
        if not suffix or suffix in C + SCRIPTS + DATA + (".md",):
            text = (root / name).read_text(errors="replace")
        else:
            continue
        if suffix == ".md":
            if not PAST.match(name):
                prose = FENCED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
                comments += [(name, text, span.start(1), span[1]) for span in CODE_SPAN.finditer(prose) if not TESTS.match(span[1])]
            code = "".join(found[0] for found in FENCED.finditer(text))
            known.files.update(re.findall(r"^ *```\w+ (\S+)$", text, re.M))  # a file that the page makes
        elif suffix in C:
            code, found = separate(text, C_TOKEN)
            comments += [(name, text, *comment) for comment in found]
        elif suffix in DATA:
            code = text
            if name == FOREIGN:
                known.foreign.update(re.sub(r"#.*", "", text).split())
                continue
        else:
            code, found = separate(text, SCRIPT_COMMENT)
            comments += [(name, text, *comment) for comment in found]
        known.words.update(WORD.findall(code))
        known.files.update(INCLUDED.findall(code))
    known.close()
    failed, judged = False, {}
    for name, text, start, comment in comments:
        if comment not in judged:
            judged[comment] = list(problems(known, comment))
        for at, what in judged[comment]:
            print(f"{name}:{text.count(chr(10), 0, start + at) + 1}: nothing is called {what}")
            failed = True
    for name in sorted(known.foreign - known.used):
        print(f"{FOREIGN}: no comment needs {name}")
        failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
