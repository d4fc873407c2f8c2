#!/usr/bin/env python3
"""docs.py BUILD - makes the site BUILD/site of the tree's documents: `make docs` runs it with an interpreter that has MkDocs.

doc/site/mkdocs.yml is the configuration. The pages are copied to BUILD/site-source as they lie in the tree, with the files that they
link to, and change there in three ways: blocks that name a file or an output show that as their title, what only the tests read
is left out, and two pages are made: every function (doc/api/all.md) and every command (doc/command-line.md). Any warning of
MkDocs, such as a link that leads nowhere, is an error.
"""

import fnmatch
import json
import logging
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONFIG = ROOT / "doc/site/mkdocs.yml"
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "doc/**/*.md", "bench/results/**/*.md")
MADE = ("doc/api/all.md", "doc/command-line.md")
LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")


def pages():
    """Paths in the tree of the pages of the site, but for those that are made."""
    return sorted({path.relative_to(ROOT).as_posix() for pattern in PAGES for path in ROOT.glob(pattern)})


def expand(entry, found_by):
    """A part of nav in which each pattern has become the pages that it stands for."""
    if isinstance(entry, dict):
        return {title: expand(below, found_by) for title, below in entry.items()}
    if isinstance(entry, list):
        found = []
        for below in entry:
            made = expand(below, found_by)
            found += made if isinstance(made, list) else [made]
        return found
    return [titled(name) for name in found_by[entry]] if "*" in entry else entry


def titled(name):
    """A page of ops is called by its group in the list of those; others by their first heading, which MkDocs finds."""
    heading = re.match(r"# Ops: (.*)\n", (ROOT / name).read_text())
    return {heading[1]: name} if heading else name


def entries(text):
    """The pages and patterns of nav, in order, as (line, text). Read by lines, as `make check` has no parser of YAML."""
    found, inside = [], False
    for number, line in enumerate(text.split("\n"), 1):
        inside = line.startswith("nav:") or inside and (not line or line[0] in " #")
        entry = re.match(r"\s+- (?:[^:]+: )?(\S+\.md)$", line) if inside else None
        if entry:
            found.append((number, entry[1]))
    return found


def assign(names, patterns):
    """For each pattern the pages that it stands for: each page goes to the longest of its folder's patterns that fits."""
    found = {pattern: [] for pattern in patterns}
    for name in names:
        fitting = [pattern for pattern in patterns if fnmatch.fnmatch(name, pattern)
                   and (name.count("/") == pattern.count("/"))]
        if fitting:
            found[max(fitting, key=len)].append(name)
    return found


def patterns():
    """For each pattern of nav the pages that it stands for: those that no line names."""
    names = [name for _, name in entries(CONFIG.read_text())]
    return assign([name for name in pages() if name not in names], [name for name in names if "*" in name])


def listed():
    """All pages that nav has, by name or by pattern."""
    return [name for _, name in entries(CONFIG.read_text()) if "*" not in name] + sum(patterns().values(), [])


def prepare(text):
    """The text of a page as the site shows it."""
    text = re.sub(r"^<!-- context:.*?-->\n", "", text, flags=re.M | re.S)
    text = re.sub(r"^(\s*```)(\w+) (\S+)$", r'\1\2 title="\3"', text, flags=re.M)
    return re.sub(r"^(\s*```)output$", r'\1text title="Output"', text, flags=re.M)


def copy(source):
    """All pages, and the files that they link to; links to folders lead to the page that lists what is in it."""
    known = set(pages())
    for name in sorted(known):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)

        def follow(link):
            at = (ROOT / name).parent / link[2]
            if at.resolve() == ROOT / "doc/api":
                return f"{link[1]}{link[2].rstrip('/')}/all.md{link[4]}"
            path = pathlib.PurePosixPath(os.path.relpath(at, ROOT)).as_posix()
            if at.is_file() and path not in known:
                (source / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(at, source / path)
            return link[0]

        target.write_text(LINK.sub(follow, prepare((ROOT / name).read_text())))
    for path in (ROOT / "doc/site").iterdir():
        (source / "doc/site").mkdir(parents=True, exist_ok=True)
        if path.suffix in (".css", ".js", ".svg"):
            shutil.copy(path, source / "doc/site")


def first_sentence(text):
    return re.split(r"[.:;](?: |$)", " ".join(text.split()), maxsplit=1)[0] + "."


def list_functions():
    """A page of every op with the first sentence of its description, in alphabetical order."""
    rows = {}
    for page in (ROOT / "doc/api").glob("*.md"):
        for name, text in re.findall(r"^### (zl_\w+)\n\n```.*?```\n\n(.*?)(?=\n\n|\Z)", page.read_text(), re.M | re.S):
            rows[name] = f"| [`{name}`]({page.name}#{name}) | {first_sentence(text).replace('|', '&#124;')} |\n"
    return "# Every op\n\n| function | what it returns |\n| --- | --- |\n" + "".join(rows[name] for name in sorted(rows))


def list_commands(program):
    """A page of what the program says about each of its commands."""
    text = "# The program `zellige`\n\n```text\n" + subprocess.check_output([program, "help"], text=True) + "```\n"
    for command in json.loads(subprocess.check_output([program, "help", "--json"]))["commands"]:
        words = command["name"].split()
        text += f"\n## {command['name']}\n\n```text\n{subprocess.check_output([program, 'help', *words], text=True)}```\n"
    return text


def main():
    # Not at the top: `make check` reads this file for the navigation, without these packages.
    from mkdocs.commands.build import build
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort

    folder = pathlib.Path(sys.argv[1]).resolve()
    source, site = folder / "site-source", folder / "site"
    shutil.rmtree(source, ignore_errors=True)
    copy(source)
    (source / MADE[0]).write_text(list_functions())
    (source / MADE[1]).write_text(list_commands(folder / "zellige"))
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    config = load_config(str(CONFIG), docs_dir=str(source), site_dir=str(site), strict=True)
    config.nav = expand(config.nav, patterns())
    try:
        build(config)
    except Abort as problem:
        sys.exit(f"docs.py: {problem}")
    print(f"docs: {sum(1 for _ in site.glob('**/*.html'))} pages; open {site / 'index.html'}")


if __name__ == "__main__":
    main()
