"""Kernels by the C library, through the extension module."""

TARGETS = {"auto": "c", "cpu": "c", "c": "c", "llvm": "c"}


def compile(text, name, target):
    from zellige.core import _tile
    return _tile.compile(text, name, chosen(target, _tile.targets()))


def chosen(target, targets):
    """The target that is meant: TileLang's names for the CPU are ours, one that is not here is an error of the library."""
    name = str(target or "auto").split()[0].partition(" ")[0]
    return TARGETS.get(name, name) if name not in targets else name


def run(code, arguments):
    code.run(arguments)


def source(code):
    return code.source
