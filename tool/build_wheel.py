"""build_wheel.py - the build backend of pyproject.toml: scikit-build-core, with a line on the terminal that says how far it is.

pip shows nothing of what a backend prints unless it is called with -v, so that a build of some minutes looks as if it hung. The
line goes to the terminal itself; where there is none, as in CI, nothing is added.
"""

import contextlib
import os
import re
import threading
import time

from scikit_build_core import build as backend
from scikit_build_core.build import *  # noqa: F403 - the hooks that are as they were

STEP = re.compile(rb"\[\s*(\d+)/(\d+)\]|\[\s*(\d+)%\]")  # of ninja, of make
EVERY = 0.5  # seconds between two lines


def _open_terminal():
    try:
        return os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY)
    except OSError:
        return None


def _tell(line, terminal):
    """Rewrites the line of the terminal. The blanks at its end are for the spinner that pip turns there."""
    step = STEP.match(line)
    if step:
        done, all_steps, percent = (number and number.decode() for number in step.groups())
        text = f"{percent} %" if percent else f"{done} of {all_steps} steps"
        os.write(terminal, f"\r\033[K  Building zellige: {text}  ".encode())
    return bool(step)


def _pass_on(source, out, terminal):
    """Copies what is printed to where it went before, and tells of it from time to time."""
    last, rest = 0.0, b""
    while data := os.read(source, 65536):
        view = memoryview(data)
        while view:
            view = view[os.write(out, view):]
        *lines, rest = (rest + data).split(b"\n")
        if lines and time.monotonic() - last > EVERY and _tell(lines[-1], terminal):
            last = time.monotonic()


@contextlib.contextmanager
def _progress():
    """Reads the standard output of this process and of those that it starts, while the body runs."""
    terminal = _open_terminal()
    if terminal is None:
        yield
        return
    out = os.dup(1)
    source, sink = os.pipe()
    os.dup2(sink, 1)
    os.close(sink)
    reader = threading.Thread(target=_pass_on, args=(source, out, terminal))
    reader.start()
    try:
        yield
    finally:
        os.dup2(out, 1)  # the last end to write to: the reader ends
        reader.join()
        for file in (source, out, terminal):
            os.close(file)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    os.environ.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(len(os.sched_getaffinity(0))))  # make has one job by itself
    with _progress():
        return backend.build_wheel(wheel_directory, config_settings, metadata_directory)
