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


def run(code, arguments):
    """arguments: (address, dtype, shape, strides) of each parameter of the text, or a number."""
    library().run(code, arguments)


def source(code, program):
    return library().source(code)


def explained(message, program):
    """A message about line 5 of the text, as one about the line of Python that made it."""
    found = re.search(r"\.tile:(\d+):(\d+): ", message)
    if not found:
        return message
    lines = program.text.split("\n")
    at = int(found.group(1)) - 1
    comment = next((c for c in (re.search(r"# (?:(.*):)?(\d+)$", line) for line in lines[at::-1]) if c), None)
    if not comment:
        return message
    file, line = comment.group(1) or program.file, int(comment.group(2))
    return describe(file, line, None, message[found.end():].split("\n")[0]) + f"\nwhich became, in {message}"
