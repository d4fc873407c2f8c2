"""Kernels by the C library, through the extension module."""

import sys

TARGETS = {"cpu": "c", "llvm": "c", "tpu": "bm1690"}  # TileLang's names, as ours; a target that is not here is an error of the library
HOST_STAGES = {"bm1690": "bm1690_host"}  # of targets that have a text for the host: the stage that prints it


def our_name(target):
    wanted = str(target or "auto").split()[0]  # options may follow, as in "cuda -arch=sm_90"
    return TARGETS.get(wanted, wanted)


def expected(target):
    """The target; instead of "auto" the one that a kernel will most likely have: that of torch's tensors on a GPU, if it has one."""
    name, torch = our_name(target), sys.modules.get("torch")
    if name != "auto":
        return name
    has_gpu = torch is not None and torch.cuda.is_available()
    return our_name("hip" if torch.version.hip else "cuda") if has_gpu else "c"


def compile(text, name, target):
    """A kernel. One that follows its arguments is compiled for the target that is expected, so that mistakes are told at once."""
    from zellige.core import _tile
    code = _tile.compile(text, name, our_name(target))
    if our_name(target) == "auto":
        code.prepare(expected(target))
    return code


def stamp(target):
    """A target, and the device that times of its kernels are about."""
    import zellige.core as mx
    name = expected(target)
    device = "modelled" if is_modelled(name) else mx.device_info(mx.cpu if name == "c" else mx.gpu).get("device_name", "")
    return f"{mx.__version__} {name} {device}"


def write_file(path, data):
    from zellige.core import _tile
    _tile.write_file(path, data)


def run(code, arguments):
    code.run(arguments)


def call(code, arrays):
    return code.call(arrays)


def time(code, arguments, repeats):
    return code.time(arguments, repeats)


def is_modelled(target):
    from zellige.core import _tile
    return our_name(target) in _tile.targets() and _tile.is_modelled(our_name(target))


def report(code, arguments):
    return code.report(arguments)


def cost(code, sizes):
    return code.cost(sizes)


def source(code):
    return code.source
