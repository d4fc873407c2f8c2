"""Results of autotune on disk: which of a set of kernels was the fastest, by the kernels' texts."""

import hashlib
import json
import os

from . import engine
from .native import stamp, write_file
from .profiler import Modelled


def folder():
    base = os.environ.get("ZL_CACHE_DIR")
    if not base:
        base = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "zellige")
    return os.path.join(base, "zellige-tuned")


def path_of(made):
    """One file for each set of programs, for a target on so many threads."""
    settings = [os.environ.get(name, "") for name in ("ZL_THREADS", "ZL_ISA", "ZL_CHECK")]
    texts = [f"{stamp(kernel.target)} {kernel.program.text}" for _, kernel in made] + [str(os.cpu_count()), *settings]
    return os.path.join(folder(), hashlib.sha256("\0".join(texts).encode()).hexdigest() + ".json")


def load(made):
    """The result that was found before for these kernels, None if there is none."""
    from .autotune import Result
    try:
        with open(path_of(made)) as file:
            found = json.load(file)
        row, kernel = made[found["at"]]
        if engine.is_modelled(kernel.target):  # whose times say so, which JSON has no place for
            for one in (found, *(one for one in found["rows"] if "latency" in one)):
                one["latency"] = Modelled(one["latency"])
        return Result(kernel, found["latency"], row["config"], found["ref_latency"], found["rows"])
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None


def plain(value):
    """What JSON has for it: keys and values of other kinds, as options of other compilers have them, by their names."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def save(made, best):
    """A folder that cannot be written is no error."""
    at = next(i for i, (_, kernel) in enumerate(made) if kernel is best.kernel)
    text = json.dumps({"at": at, "latency": best.latency, "ref_latency": best.ref_latency, "rows": plain(best.rows)})
    try:
        os.makedirs(folder(), exist_ok=True)
        write_file(path_of(made), text.encode())
    except OSError:
        pass
