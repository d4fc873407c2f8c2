#!/usr/bin/env python3
"""doc_samples.py BUILD - compiles every ```c block of README.md, CONTRIBUTING.md and doc/*.md (doc/api is made from headers).

A block with `int main` is compiled, linked with the shared library and run; if a block ```output follows it, that is
what it must print. Any other block is compiled only: as it stands, or as the body of a function. What it needs but
does not show stands in a comment before it, which readers do not see:

    <!-- context: zl_array x, w, b; -->

A block may include internal headers, then it is compiled as a part of src/. Text that is not C is another kind of
block: ```sh, ```text, ```def. A ```python block runs with zellige.core, where the build has it. A block that names a file, as in ```c src/device/echo/echo.c, is that file's text or, for
a .def, a row of it: follow_docs.py puts it there in a copy of the tree.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("ZL_DEVICE", "cpu")  # also on a machine with a GPU
PREAMBLE = "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <zellige.h>\n"
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wno-unused", "-Werror", f"-I{ROOT}/include", f"-I{ROOT}/model"]


def blocks(text):
    """Yields (line, kind, body, context) of each fenced block; context is the comment before it."""
    context, lines, at = "", text.split("\n"), 0
    while at < len(lines):
        fence = re.match(r"^(\s*)```(.*)", lines[at])
        if fence:
            start = at + 1
            at = start
            while at < len(lines) and not lines[at].strip().startswith("```"):
                at += 1
            body = "\n".join(line[len(fence[1]):] for line in lines[start:at])
            yield start, fence[2].strip(), body, context
            context = ""
        elif lines[at].startswith("<!-- context:"):
            start = at
            while "-->" not in lines[at]:
                at += 1
            context = "\n".join(lines[start:at + 1])[len("<!-- context:"):].replace("-->", "")
        elif lines[at].strip():
            context = ""
        at += 1


def compile_c(source, out, *more):
    path = out.with_suffix(".c")
    path.write_text(source)
    # A sample of internals has to build for the implementation language and see internal headers.
    inside = [f"-I{ROOT}/src", "-DZL_PLAIN_CALLS"] if re.search(r'#include "(?!zellige)', source) else []
    return subprocess.run(["cc", *FLAGS, *inside, str(path), *more], capture_output=True, text=True)


def judge(ran, expected):
    if ran.returncode:
        return f"exit status {ran.returncode}: {ran.stdout}{ran.stderr}"
    if expected is not None and ran.stdout.strip() != expected.strip():
        return f"it printed\n{ran.stdout}but the page says\n{expected}"
    return None


def run_python(body, expected, build):
    """With the interpreter that the module was built for: tests make an environment of it with NumPy."""
    own = build / "venv" / "bin" / "python"
    env = dict(os.environ, PYTHONPATH=str(build / "python"))
    return judge(subprocess.run([str(own) if own.exists() else "python3", "-c", body], capture_output=True, text=True,
                                timeout=120, env=env), expected)


def run_program(body, expected, build, out):
    made = compile_c(body, out, "-o", str(out), f"-L{build}", "-lzellige", "-lm", f"-Wl,-rpath,{build}")
    if made.returncode:
        return made.stderr
    # Programs of one page may write files that the next ones read.
    return judge(subprocess.run([str(out)], capture_output=True, text=True, timeout=120, cwd=out.parent), expected)


def compile_fragment(body, context, out):
    includes = "\n".join(re.findall(r"^ *#include.*$", context, re.M))
    context = re.sub(r"^ *#include.*$", "", context, flags=re.M)
    at_file_scope = compile_c(f"{PREAMBLE}{includes}\n{context}\n{body}\n", out, "-fsyntax-only")
    if at_file_scope.returncode == 0:
        return None
    in_function = f"{PREAMBLE}{includes}\nvoid sample_(void);\nvoid sample_(void) {{\n{context}\n{body}\n}}\n"
    in_body = compile_c(in_function, out, "-fsyntax-only", "-Wno-uninitialized", "-Wno-maybe-uninitialized")
    return in_body.stderr if in_body.returncode else None


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "doc").glob("*.md"))]
    passed = failed = skipped = 0
    has_python = any((build / "python" / "zellige").glob("core.*.so"))
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "sample"
        for page in (page for page in pages if page.exists()):
            found = list(blocks(page.read_text()))
            for index, (line, kind, body, context) in enumerate(found):
                if kind not in ("c", "python"):
                    continue
                after = found[index + 1] if index + 1 < len(found) else None
                expected = after[2] if after and after[1] == "output" else None
                if kind == "python" and not has_python:
                    print(f"skipped {page.relative_to(ROOT)}:{line}: this build has no zellige.core")
                    skipped += 1
                    continue
                if kind == "python":
                    wrong = run_python(body, expected, build)
                elif re.search(r"\bint main\b", body):
                    wrong = run_program(body, expected, build, out)
                else:
                    wrong = compile_fragment(body, context, out)
                passed, failed = passed + (not wrong), failed + bool(wrong)
                if wrong:
                    print(f"FAILED {page.relative_to(ROOT)}:{line}:\n" + re.sub("^", "    ", wrong.strip(), flags=re.M))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


sys.exit(main())
