#!/usr/bin/env python3
"""coverage.py BUILD [--list] [NAMES] - every public name of mlx.core: what stands for it in C, and a test that calls it.

Names are in tool/mlx_names.txt, or in the file NAMES. Those that are not here, or that no test calls, must have a reason below. Prints what lacks
one and fails; --list prints all. C functions are found in the tables that zellige-gen makes, tests by searching test/.
"""

import fnmatch
import importlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Why a name is not here, or does nothing: by pattern.
REASONS = {
    "metal.*": "Metal is Apple's: the functions say that it is not here",
    "cuda.*": "MLX's CUDA back end: it says that it is not here",
    "fast.metal_kernel": "Metal is Apple's: it raises an error that says so",
    "fast.*cuda_kernel": "MLX's CUDA back end: it raises an error that says so",
    "core._gc_func": "private to MLX",
    "_gc_func.*": "private to MLX",
}

# Methods that syntax calls: what a test writes.
SYNTAX = {
    "add": r" \+ ", "sub": " - ", "mul": r" \* ", "truediv": " / ", "div": " / ", "floordiv": " // ", "mod": " % ",
    "pow": r" \*\* ", "matmul": " @ ", "and": " & ", "or": r" \| ", "xor": r" \^ ", "lshift": " << ", "rshift": " >> ",
    "eq": " == ", "ne": " != ", "lt": " < ", "le": " <= ", "gt": " > ", "ge": " >= ", "neg": r"[(, ]-[a-z]\w*\b",
    "pos": r"[(, ]\+[a-z]\w*\b", "invert": "~", "abs": r"\babs\(", "bool": r"\bbool\(", "int": r"\bint\(",
    "float": r"\bfloat\(", "complex": r"\bcomplex\(", "index": "index", "len": r"\blen\(", "iter": r"\bfor \w+ in ",
    "next": r"\bnext\(", "getitem": r"\w\[", "setitem": r"\w\] = ", "repr": r"\b(repr|str)\(", "str": r"\bstr\(",
    "format": r"\bf\"|format\(", "hash": r"\bhash\(", "array": r"np\.a(s)?array\(", "bytes": r"\bbytes\(",
    "copy": r"\bcopy\(", "deepcopy": r"\bdeepcopy\(", "getstate": "pickle", "setstate": "pickle", "init": "",
    "call": r"\w\(", "enter": r"\bwith ", "exit": r"\bwith ", "getattribute": r"\.",
}


def read_names(path):
    """Pairs of a module or class and a name in it; the module itself is core."""
    group = None
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            group, line = line.split(": ", 1)
        for name in line.split():
            yield group, name


def read_bindings(build):
    """C functions by (module, name), as zellige-gen bound them; and the other names of the same."""
    text = (build / "gen/bindings.c").read_text()
    found = {}
    for block in re.finditer(r"ext_variant variant_([a-z]*?)_(\w+)\[\] = \{(.*?)\n\};", text, re.S):
        found[block[1] or "core", block[2]] = re.findall(r'\.name = "(\w+)"', block[3])
    for other, name in re.findall(r'\{"(\w+)", "(\w+)"\}', (ROOT / "python/ext/call.c").read_text()):
        found["core", other] = found.get(("core", name), [])
    return found


def read_sources(*patterns):
    return {path.relative_to(ROOT): path.read_text() for pattern in patterns for path in sorted(ROOT.glob(pattern))}


class Coverage:
    def __init__(self, build):
        sys.path.insert(0, str(build / "python"))
        self.module = importlib.import_module("zellige.core")
        self.bindings = read_bindings(build)
        self.headers = "".join(read_sources("include/*.h").values())
        self.rows = (ROOT / "src/op/elementwise.def").read_text()
        self.ext = read_sources("python/ext/*.c")
        self.c_tests = read_sources("test/**/*.c")
        self.python_tests = read_sources("test/python/*.py")

    def is_here(self, group, name):
        thing = self.module
        for part in ([] if group == "core" else group.split(".")) + [name]:
            if not hasattr(thing, part):
                return False
            thing = getattr(thing, part)
        return True

    def functions(self, group, name):
        """The C functions that a name calls: of the tables, else of the header by its name."""
        module = "core" if group == "array" else group
        bound = self.bindings.get((module, name))
        prefix = "zl_" if module == "core" else f"zl_{module}_"
        return bound or [f for f in [prefix + name] if re.search(rf"\b{f}\(", self.headers)]

    def source(self, name):
        """The file of the extension that defines a name."""
        for path, text in self.ext.items():
            if f'"{name}"' in text:
                return str(path)
        return "python/ext"

    def test(self, group, name, functions):
        for f in functions:
            if f" {f}," in self.rows:
                return "test/op/test_elementwise.c"
            for path, text in self.c_tests.items():
                if re.search(rf"\b{f}\b", text):
                    return str(path)
        is_special = name.startswith("__") and name.endswith("__")
        base = re.sub("^[ri](?=add|sub|mul|truediv|div|floordiv|mod|pow|matmul|and|or|xor|lshift|rshift)", "", name.strip("_"))
        known = SYNTAX.get(name.strip("_"), SYNTAX.get(base)) if is_special else None
        called = known if known is not None else rf"[.\"'(]{re.escape(name)}\b"
        for path, text in self.python_tests.items():
            if re.search(called, text) and (not is_special or group.split(".")[-1] in text):
                return str(path)
        return None


def reason_for(group, name):
    for pattern, reason in REASONS.items():
        if fnmatch.fnmatchcase(f"{group}.{name}", pattern):
            return reason
    return None


def main():
    arguments = [a for a in sys.argv[1:] if a != "--list"]
    if not arguments:
        sys.exit(__doc__)
    names = pathlib.Path(arguments[1]) if len(arguments) > 1 else ROOT / "tool/mlx_names.txt"
    try:
        coverage = Coverage(pathlib.Path(arguments[0]).resolve())
    except (ImportError, FileNotFoundError) as why:
        print(f"skipped: zellige.core was not built for this Python ({why})")
        return 0
    lacking = total = excused = 0
    for group, name in read_names(names):
        functions = coverage.functions(group, name)
        here, test, reason = coverage.is_here(group, name), coverage.test(group, name, functions), reason_for(group, name)
        lacks = not reason and not (here and test)
        total, excused, lacking = total + 1, excused + bool(reason), lacking + lacks
        if lacks or "--list" in sys.argv:
            full = name if group == "core" else f"{group}.{name}"
            what = "missing" if not here else " ".join(functions) or coverage.source(name)
            print(f"{full}\t{what}\t{reason or test or 'no test calls it'}")
    print(f"{total} names, {excused} with a reason, {lacking} missing or without a test")
    return lacking > 0


if __name__ == "__main__":
    sys.exit(main())
