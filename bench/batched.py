#!/usr/bin/env python3
"""batched.py - many small products at once: GFLOP/s of processor time of one thread, in turns with NumPy and PyTorch.

`ZL_THREADS=1 PYTHONPATH=build/python python bench/batched.py`
"""

import usage

usage.help_if_asked(__doc__)

import os

os.environ["ZL_DEVICE"] = "cpu"
THREADS = os.environ.setdefault("ZL_THREADS", "1")
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = THREADS

import time

import numpy as np
import torch
import zellige.core as zl

SIZES = [(4096, 8, 8, 8), (1024, 16, 16, 16), (1024, 12, 20, 30), (1024, 32, 32, 32), (256, 64, 64, 64), (64, 128, 128, 128),
         (512, 8, 64, 64), (512, 64, 8, 64), (1024, 1, 64, 64)]
SECONDS = 0.4  # of a case
rng = np.random.default_rng(0)


def measure(functions):
    """The best time of each."""
    best, end = dict.fromkeys(functions, float("inf")), time.monotonic() + SECONDS
    while time.monotonic() < end or float("inf") in best.values():
        for name, function in functions.items():
            start = time.process_time()
            function()
            best[name] = min(best[name], time.process_time() - start)
    return best


def functions_of(dtype, batch, m, n, k):
    a, b = rng.standard_normal((batch, m, k), np.float32), rng.standard_normal((batch, k, n), np.float32)
    x, y = (zl.array(v).astype(getattr(zl, dtype)) for v in (a, b))
    s, t = (torch.from_numpy(v).to(getattr(torch, dtype)) for v in (a, b))
    out = torch.empty((batch, m, n), dtype=s.dtype)
    zl.eval(x, y)
    functions = {"zellige": lambda: zl.eval(zl.matmul(x, y)), "torch": lambda: torch.matmul(s, t, out=out)}
    if dtype == "float32":
        result = np.empty((batch, m, n), np.float32)
        functions["numpy"] = lambda: np.matmul(a, b, out=result)
    return functions


def main():
    torch.set_num_threads(int(THREADS))
    for dtype in ("float32", "bfloat16"):
        for batch, m, n, k in SIZES:
            best = measure(functions_of(dtype, batch, m, n, k))
            rates = " ".join(f"{name} {2e-9 * batch * m * n * k / t:6.1f}" for name, t in best.items())
            ratio = min(t for name, t in best.items() if name != "zellige") / best["zellige"]
            print(f"{dtype:9}{batch:5} of {m} x {n} x {k:<5}{rates}  ratio {ratio:.2f}", flush=True)


main()
