"""The C library behind kernels: text in, something that runs out. What it says about the text is told in terms of the
user's Python."""

import re

from .errors import TileError, describe

compiler = None  # native, or what a test brings: compile(text, name, target), run(code, arguments), source(code)


def library():
    global compiler
    if compiler is None:
        from . import native
        compiler = native
    return compiler


def compile_text(program, target):
    name = f"{program.name}.tile"
    try:
        return library().compile(program.text, name, target)
    except TileError:
        raise
    except Exception as error:
        raise TileError(explained(str(error), program)) from None


def follows(target):
    """Whether a kernel of the target runs where its arguments are."""
    from . import native
    return native.our_name(target) == "auto"


def device_of(target):
    """The device, in torch's words, whose memory kernels of a target work on, or are expected to."""
    from . import native
    return "cuda" if native.expected(target) in ("cuda", "hip") else "cpu"  # PyTorch calls GPUs of AMD so, too


watched = None  # where the modelled seconds of kernels go that run while do_bench looks on; None: nobody does


def is_modelled(target):
    """Whether the times of a target's kernels are those of a model, not of a clock."""
    from . import native
    return native.is_modelled(target)


def run(code, arguments, program, repeats=0):
    """arguments: (address, dtype, shape, strides) of each parameter of the text, or a number. With repeats: the seconds of one
    of so many runs, by the clock of the device."""
    try:
        return library().time(code, arguments, repeats) if repeats else library().run(code, arguments)
    except ValueError as error:
        raise TileError(located(str(error), program)) from None


def call(code, arrays, program):
    """The outputs, arrays of zellige.core as the arguments are."""
    try:
        return library().call(code, arrays)
    except ValueError as error:
        raise TileError(located(str(error), program)) from None


def report(code, arguments, program):
    """What the engines of a modelled chip do in a run, by name: milliseconds, shares, commands and what was counted of them."""
    try:
        return library().report(code, arguments)
    except ValueError as error:
        raise TileError(located(str(error), program)) from None


def cost(code, sizes):
    return library().cost(code, sizes)


def source(code, program):
    return library().source(code)


def place_in_python(program, line):
    """(file, line) of the Python that made a line of the text, or None."""
    lines = program.text.split("\n")
    comment = next((c for c in (re.search(r"# (?:(.*):)?(\d+)$", line) for line in lines[line - 1::-1]) if c), None)
    return comment and (comment.group(1) or program.file, int(comment.group(2)))


def explained(message, program):
    """A message about line 5 of the text, as one about the line of Python that made it."""
    found = re.search(r"\.tile:(\d+):(\d+): ", message)
    place = found and place_in_python(program, int(found.group(1)))
    if not place:
        return message
    return describe(*place, None, message[found.end():].split("\n")[0]) + f"\nwhich became, in {message}"


def located(message, program):
    """What a run says about line 5 of the text: an assertion, an index outside of its buffer."""
    found = re.match(r"kernel \w+, line (\d+): ", message)
    place = found and place_in_python(program, int(found.group(1)))
    return describe(*place, None, message[found.end():]) if place else message
