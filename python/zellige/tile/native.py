"""Kernels by the C library, through the extension module."""

TARGETS = {"auto": "c", "cpu": "c", "llvm": "c"}  # TileLang's names, as ours; a target that is not here is an error of the library


def our_name(target):
    wanted = str(target or "auto").split()[0]  # options may follow, as in "cuda -arch=sm_90"
    return TARGETS.get(wanted, wanted)


def compile(text, name, target):
    from zellige.core import _tile
    return _tile.compile(text, name, our_name(target))


def stamp(target):
    """A target, and the device that times of its kernels are about."""
    import zellige.core as mx
    name = our_name(target)
    return f"{mx.__version__} {name} {mx.device_info(mx.cpu if name == 'c' else mx.gpu).get('device_name', '')}"


def write_file(path, data):
    from zellige.core import _tile
    _tile.write_file(path, data)


def run(code, arguments):
    code.run(arguments)


def time(code, arguments, repeats):
    return code.time(arguments, repeats)


def cost(code, sizes):
    return code.cost(sizes)


def source(code):
    return code.source
