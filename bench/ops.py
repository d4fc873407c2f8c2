#!/usr/bin/env python3
"""ops.py BUILD [--json FILE] [--only WORD...] [--seconds S] [--cpu] [--check RATIO] - every op of the table beside MLX, NumPy and PyTorch.

All libraries compute the same in turns, with two threads each; the best of many rounds counts. Printed is how many times faster
zellige.core is than MLX and than the best of all, the slowest first. MLX is given OpenBLAS, if the system has it: what MLX brings
along is slow. With --cpu the CPU time of all threads counts, for machines that others use too. With --check the exit status says whether zellige.core is at least RATIO as fast as MLX everywhere.
"""

import argparse
import ctypes.util
import json
import os
import sys
import time

import usage

THREADS = "2"
SETTINGS = {"ZL_DEVICE": "cpu", "ZL_THREADS": THREADS, "OMP_NUM_THREADS": THREADS, "OPENBLAS_NUM_THREADS": THREADS,
            "OMP_WAIT_POLICY": "passive",
            "GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=8192"}  # the library is loaded twice: as a module, and for its table


def start_anew():
    """Threads and the BLAS are chosen when a process starts."""
    blas = ctypes.util.find_library("openblas")
    if os.environ.get("ZL_BENCH_OPS"):
        return
    preload = {"LD_PRELOAD": blas} if blas else {}
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | SETTINGS | preload | {"ZL_BENCH_OPS": "1"})


if __name__ == "__main__":
    usage.help_if_asked(__doc__)
    start_anew()

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "test", "python"))
import mlx.core as mlx
import op_cases
import zellige.core as zellige
from oracle import lib

try:
    import torch
    torch.set_num_threads(int(THREADS))
except ImportError:
    torch = None


# Libraries ---------------------------------------------------------------------------------------------------------

class Lazy:
    """Modules with the API of MLX."""

    def __init__(self, module):
        self.module = module
        module.set_default_device(module.cpu)

    def array(self, values, dtype):
        a = self.module.array(values)
        a = a if dtype == values.dtype.name else a.astype(getattr(self.module, dtype))
        self.module.eval(a)
        return a

    def run(self, result):
        self.module.eval(result)
        return result


class NumPyModule:
    """NumPy's names for what it has. Others are missing, which is an AttributeError."""

    def __init__(self):
        r = np.random.default_rng(1)
        self.linalg, self.fft = np.linalg, np.fft
        self.random = type("", (), {
            "uniform": lambda shape: r.random(shape, "float32"), "normal": lambda shape: r.standard_normal(shape, "float32"),
            "randint": lambda low, high, shape: r.integers(low, high, shape, "int32"), "permutation": r.permutation,
            "bits": lambda shape: r.integers(0, 1 << 32, shape, "uint32")})
        self.cummax, self.cummin, self.logcumsumexp = (self.accumulate(f) for f in (np.maximum, np.minimum, np.logaddexp))
        self.contiguous = np.ascontiguousarray

    @staticmethod
    def accumulate(f):
        return lambda x, axis: f.accumulate(x.ravel() if axis is None else x, axis or 0)

    def __getattr__(self, name):
        if name in ("array", "topk"):
            raise AttributeError(name)
        return getattr(np, name)


class TorchModule:
    """PyTorch's names for the same."""

    def __init__(self):
        t = torch
        self.linalg, self.fft = t.linalg, t.fft
        self.random = type("", (), {
            "uniform": lambda shape: t.rand(shape), "normal": lambda shape: t.randn(shape),
            "randint": lambda low, high, shape: t.randint(low, high, shape, dtype=t.int32), "permutation": lambda n: t.randperm(n)})
        self.power, self.equal, self.contiguous = t.pow, t.eq, t.Tensor.contiguous
        self.max, self.min = self.reduced(t.amax, t.max), self.reduced(t.amin, t.min)
        self.conv1d = self.conv2d = self.conv3d = None
        for name in ("sort", "argsort", "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "softmax", "median", "prod", "logsumexp"):
            setattr(self, name, self.along(getattr(t, name)))

    @staticmethod
    def reduced(over_axes, of_all):
        return lambda x, axis: of_all(x) if axis is None else over_axes(x, axis)

    @staticmethod
    def along(f):
        """A result is alone, or the first of two; of all elements means flattened."""
        def call(x, axis):
            y = f(x.flatten(), 0) if axis is None else f(x, axis)
            return y if isinstance(y, torch.Tensor) else y[0]

        return call

    def take(self, x, i, axis=None):
        return torch.take(x, i) if axis is None else torch.index_select(x, axis, i)

    def take_along_axis(self, x, i, axis):
        return torch.take_along_dim(x, i, axis)

    def topk(self, x, k, axis):
        return torch.topk(x.flatten() if axis is None else x, k, -1 if axis is None else axis, sorted=False)[0]

    def __getattr__(self, name):
        if name in ("array", "transpose", "norm"):
            raise AttributeError(name)
        return getattr(torch, name)


class Eager:
    """Libraries that compute at once. Their own type of indices is int64."""

    def __init__(self, module, convert):
        self.module, self.convert = module, convert

    def array(self, values, dtype):
        return self.convert(values.astype("int64") if dtype == "uint32" else values, dtype)

    def run(self, result):
        return result


def numpy_array(values, dtype):
    if dtype == "bfloat16":
        raise TypeError("NumPy has no bfloat16")
    return values


def torch_array(values, dtype):
    return torch.from_numpy(values).to(getattr(torch, dtype) if dtype == "bfloat16" else None)


LIBRARIES = {"zellige": Lazy(zellige), "mlx": Lazy(mlx), "numpy": Eager(NumPyModule(), numpy_array)}
if torch:
    LIBRARIES["torch"] = Eager(TorchModule(), torch_array)


# Measuring -----------------------------------------------------------------------------------------------------------

def shapes(result):
    results = result if isinstance(result, (list, tuple)) else [result]
    return [tuple(r.shape) for r in results]


def dtypes(result):
    results = result if isinstance(result, (list, tuple)) else [result]
    return [str(r.dtype).rsplit(".", 1)[-1] for r in results]


def prepare(case):
    """What each library that can computes, by name. A result of another shape is another function, and of MLX one of another dtype."""
    _, data, call = case
    values = [d.values() for d in data]
    ready, wanted, dtype = {}, None, None
    for name, library in LIBRARIES.items():
        try:
            arrays = [d.view(library.array(v, d.dtype)) for d, v in zip(data, values)]
            thunk = lambda f=call, l=library, a=arrays: l.run(f(l.module, *a))
            result = thunk()
            found = shapes(result)
        except Exception as reason:
            if name in ("zellige", "mlx"):
                return None, f"{name}: {type(reason).__name__}: {reason}"
            continue
        wanted, dtype = wanted or found, dtypes(result) if name == "zellige" else dtype
        if name == "mlx" and dtypes(result) != dtype:
            return None, f"MLX gives {dtypes(result)}"
        if found == wanted:
            ready[name] = thunk
    return ready, None


clock = time.perf_counter


def timed(thunk, calls):
    start = clock()
    for _ in range(calls):
        thunk()
    return (clock() - start) / calls


def measure(ready, seconds):
    """The best time of each, in microseconds: rounds in turns, five at least, until the seconds are over."""
    calls = {name: max(1, min(200, int(3e-4 / timed(thunk, 1)))) for name, thunk in ready.items()}
    best, end, rounds = dict.fromkeys(ready, float("inf")), time.perf_counter() + seconds, 0
    while rounds < 5 or time.perf_counter() < end:
        for name, thunk in ready.items():
            best[name] = min(best[name], timed(thunk, calls[name]))
        rounds += 1
    return {name: 1e6 * best[name] for name in best}


def table(only):
    """Every case of every op, and the ops that have none."""
    cases, without = [], []
    for name, info in lib.info.items():
        found = op_cases.HAND.get(name)
        found = op_cases.by_rule(name, info) if found is None else found
        if found is None and name not in op_cases.NONE:
            without.append(name)
        cases += [(name, case) for case in found or [] if any(word in f"{name} {case[0]}" for word in only)]
    return cases, without


def report(rows):
    names = list(LIBRARIES)
    print(f"{'us per call':44}" + "".join(f"{name:>12}" for name in names) + f"{'to mlx':>9}{'to best':>9}")
    for row in sorted(rows, key=lambda row: row["to_mlx"]):
        print(f"{row['op'] + ', ' + row['variant']:44}" + "".join(f"{row['us'].get(n, float('nan')):12.1f}" for n in names)
              + f"{row['to_mlx']:9.2f}{row['to_best']:9.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--json")
    parser.add_argument("--only", nargs="*", default=[""], help="cases with one of these words in their name")
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--check", type=float)
    options = parser.parse_args()
    if options.cpu:
        global clock
        clock = time.process_time
    cases, without = table(options.only)
    rows = []
    for at, (name, case) in enumerate(cases):
        print(f"\r{at}/{len(cases)} {name:30}", end="", file=sys.stderr, flush=True)
        ready, reason = prepare(case)
        if not ready:
            print(f"not measured: {name}, {case[0]}: {reason}")
            continue
        us = measure(ready, options.seconds)
        others = [t for n, t in us.items() if n != "zellige"]
        rows.append({"op": name, "variant": case[0], "us": us, "to_mlx": us["mlx"] / us["zellige"], "to_best": min(others) / us["zellige"]})
    print(file=sys.stderr)
    report(rows)
    print(f"ops without a case: {' '.join(without) or 'none'}")
    behind = [row for row in rows if row["to_mlx"] < (options.check or 1)]
    print(f"{len(rows)} cases, {len(behind)} behind MLX")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    return options.check is not None and bool(behind)


if __name__ == "__main__":
    usage.run(main)
