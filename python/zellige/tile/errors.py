"""Errors in tile programs: what is wrong, with the file, line and column of the user's Python and a caret below it."""

import contextlib
import linecache
import os
import sys

HERE = tuple(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), name, "") for name in ("tile", "tilelang"))
shifts = {}  # code object: columns by which its source was moved to the left when it was parsed


class TileError(ValueError):
    """A mistake in a tile program, or in what it was called with."""


class UnknownName(TileError, AttributeError):
    """T has nothing of that name."""


def user_frame():
    """The innermost frame that is not of this package."""
    frame = sys._getframe(1)
    while frame and (frame.f_code.co_filename.startswith(HERE) or frame.f_code.co_filename == contextlib.__file__):
        frame = frame.f_back
    return frame


def place():
    """(file, line) of the user's statement that is being traced."""
    frame = user_frame()
    return (frame.f_code.co_filename, frame.f_lineno) if frame else ("?", 0)


def column_of(frame):
    positions = getattr(frame.f_code, "co_positions", None)
    if not positions or frame.f_lasti < 0:
        return None
    for at, (_, _, column, _) in enumerate(positions()):
        if at == frame.f_lasti // 2:
            return None if column is None else column + shifts.get(frame.f_code, 0)
    return None


def describe(file, line, column, message):
    source = linecache.getline(file, line).rstrip("\n")
    if not source.strip():
        return f"{file}:{line}: {message}"
    if column is None:
        column = len(source) - len(source.lstrip())
    caret = "".join("\t" if c == "\t" else " " for c in source[:column]) + "^"
    return f"{file}:{line}:{column + 1}: {message}\n{source}\n{caret}"


def fail(message, kind=TileError):
    """Raises an error at the user's statement."""
    frame = user_frame()
    if frame is None:
        raise kind(message)
    error = kind(describe(frame.f_code.co_filename, frame.f_lineno, column_of(frame), message))
    error.reason = message
    raise error
