#!/usr/bin/env python3
"""check_docs.py [ROOT] [FOLDER...] - what can be wrong with the documents without building them. Writes FILE:LINE and what it is for

- a link or picture whose file, folder or heading does not exist, in every .md file; only those within the tree are looked at;
- a path in `code` that begins with a folder of the tree and is not there, unless the page makes it;
- a line of doc/site/mkdocs.yml that names a page that is not there;
- a term that the glossary has twice;
- a retired word of tool/words.txt, in the .md files, or, where folders are named, in the sources of these: comments and messages.

Needs Python's standard library only, and no network.
"""

import importlib.util
import pathlib
import re
import subprocess
import sys

LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
SOURCES = (".c", ".h", ".def", ".py", ".sh", ".tile")


def documents(root):
    """Every .md file but those of builds: as git lists them, new ones too, or of a tree without git all."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=root, capture_output=True, text=True)
    if listed.returncode == 0 and (root / ".git").exists():
        found = [root / name for name in listed.stdout.split("\n") if name]
    else:
        found = [path for path in root.glob("**/*.md") if not re.match(r"build|\.", path.relative_to(root).as_posix())]
    return sorted(path for path in found if path.exists())


def prose(text):
    """The text with everything blank, but for the ends of lines, that is not prose: fenced blocks and comments."""
    blank = lambda part: re.sub(r"[^\n]", " ", part[0])
    text = re.sub(r"^( *)```.*?^ *```", blank, text, flags=re.M | re.S)
    return re.sub(r"<!--.*?-->", blank, text, flags=re.S)


def without_code(text):
    return re.sub(r"`[^`\n]*`", lambda code: " " * len(code[0]), prose(text))


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def anchors(text):
    """The ids of the headings of a page, as forges and the site make them."""
    found, count = set(), {}
    for line in prose(text).split("\n"):
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if not heading:
            continue
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
        name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        found.add(name + (f"-{count[name]}" if name in count else ""))
        count[name] = count.get(name, 0) + 1
    return found


def check_links(root, page, text, known):
    text = without_code(text)
    for link in LINK.finditer(text):
        target = link[1]
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        at = page.parent / name if name else page
        if not at.exists() or not at.resolve().is_relative_to(root):
            yield line_of(text, link.start(1)), f"no such file: {target}"
        elif anchor and at.suffix == ".md":
            if at not in known:
                known[at] = anchors(at.read_text())
            if anchor not in known[at]:
                yield line_of(text, link.start(1)), f"no such heading: {target}"


def check_paths(root, text):
    """Of `src/op/*.c` and `bench/{gemm,ops}.c`: that there are such files."""
    made = {pathlib.PurePosixPath(name).parent for name in re.findall(r"^ *```\w+ (\S+/\S+)$", text, re.M)}
    text = prose(text)
    for found in re.finditer(r"`([\w.-]+)/([\w./*{},-]+)`", text):
        name = f"{found[1]}/{found[2]}"
        if not (root / found[1]).is_dir() or found[1].startswith(("build", ".")) or pathlib.PurePosixPath(name).parent in made:
            continue
        several = re.fullmatch(r"(.*)\{(.*)\}(.*)", name)
        for one in [several[1] + part + several[3] for part in several[2].split(",")] if several else [name]:
            if not any(True for _ in root.glob(one.rstrip("/"))):
                yield line_of(text, found.start()), f"no such file in the tree: {one}"


def retired(root):
    """[(pattern, what to say instead, the line's own text)] of tool/words.txt."""
    found = []
    for line in (root / "tool/words.txt").read_text().split("\n"):
        if line.strip() and not line.startswith("#"):
            word, instead = (part.strip() for part in line.split(" => "))
            word = word.replace(" ", r"\s+")  # also across the end of a line
            found.append((re.compile(rf"\b(?:{word})\b", re.I), instead))
    return found


def check_words(text, words):
    for pattern, instead in words:
        for found in pattern.finditer(text):
            yield line_of(text, found.start()), f'"{" ".join(found[0].split())}" is retired: say {instead} (tool/words.txt)'


def of_source(path):
    """The comments and the strings of a source, each in its line."""
    mark, lines = "#" if path.suffix in (".py", ".sh", ".tile") else "//", []
    for line in path.read_text(errors="replace").split("\n"):
        strings = " ".join(re.findall(r'"(?:[^"\\]|\\.)*"', line))
        lines.append(strings + " " + line.partition(mark)[2])
    return "\n".join(lines)


def check_glossary(text):
    """Terms that stand there twice."""
    seen = set()
    for entry in re.finditer(r"^\| ([^|]+) \| [^-|]", text, re.M):
        if entry[1] != "term" and entry[1] in seen:
            yield line_of(text, entry.start()), f"{entry[1]} has an entry already"
        seen.add(entry[1])


def check_navigation(root):
    spec = importlib.util.spec_from_file_location("docs", root / "tool/docs.py")
    docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(docs)
    pages = docs.pages()
    for number, name in docs.entries(docs.CONFIG.read_text()):
        if "*" not in name and name not in docs.MADE and name not in pages:
            yield number, f"no such page: {name}"
    for name in sorted(set(pages) - set(docs.listed())):
        yield 1, f"nav has no line and no pattern for {name}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]).resolve()
    problems, known = [], {}
    report = lambda path, found: problems.extend(f"{path.relative_to(root)}:{number}: {what}" for number, what in found)
    words = retired(root) if (root / "tool/words.txt").exists() else []
    for page in documents(root):
        text = page.read_text()
        report(page, check_links(root, page, text, known))
        if page.name != "CHANGELOG.md":  # what versions before had
            report(page, check_paths(root, text))
        # What is made from sources, and what was said about past versions, follows the sources.
        if not re.match(r"doc/api/|doc/environment|CHANGELOG", page.relative_to(root).as_posix()):
            report(page, check_words(without_code(text), words))
        if page == root / "doc/glossary.md":
            report(page, check_glossary(text))
    for folder in sys.argv[2:]:
        for path in sorted(path for path in (root / folder).glob("**/*") if path.suffix in SOURCES):
            report(path, check_words(of_source(path), words))
    if (root / "doc/site/mkdocs.yml").exists():
        report(root / "doc/site/mkdocs.yml", check_navigation(root))
    print("\n".join(problems), end="\n" if problems else "")
    return len(problems) > 0


if __name__ == "__main__":
    sys.exit(main())
