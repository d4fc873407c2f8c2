"""Kernels by the C library, through the extension module."""

TARGETS = {"auto": "c", "cpu": "c", "llvm": "c"}  # TileLang's names, as ours; a target that is not here is an error of the library


def compile(text, name, target):
    from zellige.core import _tile
    wanted = str(target or "auto").split()[0]  # options may follow, as in "cuda -arch=sm_90"
    return _tile.compile(text, name, TARGETS.get(wanted, wanted))


def run(code, arguments):
    code.run(arguments)


def cost(code, sizes):
    return code.cost(sizes)


def source(code):
    return code.source
