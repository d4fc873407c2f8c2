#!/usr/bin/env python3
"""fourier.py [--check] - Fourier transforms of zellige.core beside MLX, PyTorch and NumPy: in turns, best of rounds, two threads.

`PYTHONPATH=build/python python bench/fourier.py`. Times are milliseconds; the last column is the best of the others divided by
zellige's. With --check the exit status says whether zellige is the quickest everywhere.
"""

import usage

usage.help_if_asked(__doc__)

import os

THREADS = "2"
os.environ.update(ZL_DEVICE="cpu", ZL_THREADS=THREADS, OMP_NUM_THREADS=THREADS, OPENBLAS_NUM_THREADS=THREADS)

import sys
import time

import mlx.core as mlx
import numpy as np
import torch
import zellige.core as zellige

torch.set_num_threads(int(THREADS))
ROUNDS, SECONDS = 40, 3  # of a case, whichever comes first
CASES = [
    ("fft", (1024,)), ("fft", (65536,)), ("fft", (1048576,)), ("fft", (4096, 256)), ("fft", (1024, 1024)), ("fft", (64, 65536)),
    ("fft", (16, 1000)), ("fft", (256, 3000)), ("fft", (64, 1021)), ("rfft", (1024,)), ("rfft", (1048576,)),
    ("rfft", (1024, 1024)), ("irfft", (1024, 513)), ("fft2", (512, 512)), ("fft2", (2048, 2048)), ("rfft2", (1024, 1024)),
    ("ifft", (1024, 1024)),
]


def calls_of(name, shape):
    rng = np.random.default_rng(0)
    data = rng.standard_normal(shape, np.float32)
    if not name.startswith("r"):
        data = (data + 1j * rng.standard_normal(shape, np.float32)).astype(np.complex64)
    a, b, c = mlx.array(data), zellige.array(data), torch.from_numpy(data)
    mlx.eval(a)
    zellige.eval(b)
    return {
        "zellige": lambda f=getattr(zellige.fft, name): zellige.eval(f(b)),
        "mlx": lambda f=getattr(mlx.fft, name): mlx.eval(f(a)),
        "torch": lambda f=getattr(torch.fft, name): f(c),
        "numpy": lambda f=getattr(np.fft, name): f(data),
    }


def measure(calls):
    """Milliseconds of each, the best of rounds in which all take turns."""
    best, end = {}, time.perf_counter() + SECONDS
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            took = (time.perf_counter() - start) * 1e3
            best[name] = min(best.get(name, took), took)
        if time.perf_counter() > end:
            break
    return best


def main():
    behind = 0
    print(f"{'':6} {'shape':14} {'zellige':>8} {'mlx':>8} {'torch':>8} {'numpy':>8} {'ratio':>6}")
    for name, shape in CASES:
        best = measure(calls_of(name, shape))
        ratio = min(best[x] for x in best if x != "zellige") / best["zellige"]
        behind += ratio < 1
        columns = " ".join(f"{best[x]:8.3f}" for x in ("zellige", "mlx", "torch", "numpy"))
        print(f"{name:6} {' '.join(map(str, shape)):14} {columns} {ratio:6.2f}", flush=True)
    return 1 if behind and "--check" in sys.argv else 0


if __name__ == "__main__":
    usage.run(main)
