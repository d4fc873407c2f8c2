#!/usr/bin/env python3
"""model_ops.py [--check] - rotary positions, quantised products and convolutions of zellige.core beside MLX and, where it has them,
PyTorch: in turns, best of rounds, two threads.

`PYTHONPATH=build/python python bench/model_ops.py`. Times are milliseconds; the last column is the best of the others divided by
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
rng = np.random.default_rng(0)


def noise(*shape):
    return rng.standard_normal(shape, np.float32)


def rope(shape, dtype, traditional=False):
    data = noise(*shape)

    def make(m):
        x = m.array(data).astype(getattr(m, dtype))
        m.eval(x)
        return lambda: m.eval(m.fast.rope(x, shape[-1], traditional=traditional, base=10000.0, scale=1.0, offset=3))

    return make, None


def quantized(rows, n, k, bits, dtype, mode="affine", transpose=True):
    data, weights = noise(rows, k if transpose else n), noise(n, k)

    def make(m):
        w = m.quantize(m.array(weights).astype(getattr(m, dtype)), bits=bits, mode=mode, group_size=64 if mode == "affine" else 32)
        x = m.array(data).astype(getattr(m, dtype))
        m.eval(x, *w)
        return lambda: m.eval(m.quantized_matmul(x, *w, transpose=transpose, bits=bits, mode=mode,
                                                 group_size=64 if mode == "affine" else 32))

    return make, None


def gathered(experts, chosen, n, k):
    data, weights, which = noise(chosen, 1, k), noise(experts, n, k), rng.integers(0, experts, chosen).astype(np.uint32)

    def make(m):
        w = m.quantize(m.array(weights), bits=4, group_size=64)
        x, rhs = m.array(data), m.array(which)
        m.eval(x, rhs, *w)
        return lambda: m.eval(m.gather_qmm(x, *w, rhs_indices=rhs, transpose=True, bits=4, group_size=64))

    return make, None


def conv(batch, size, channels, out, kernel, dtype, groups=1, stride=1):
    data, weights = noise(batch, size, size, channels), noise(out, kernel, kernel, channels // groups)

    def make(m):
        x, w = (m.array(a).astype(getattr(m, dtype)) for a in (data, weights))
        m.eval(x, w)
        return lambda: m.eval(m.conv2d(x, w, stride=stride, padding=kernel // 2, groups=groups))

    x, w = (torch.from_numpy(a).to(getattr(torch, dtype)).permute(0, 3, 1, 2) for a in (data, weights))

    def by_torch():
        with torch.no_grad():
            torch.nn.functional.conv2d(x, w, stride=stride, padding=kernel // 2, groups=groups)

    return make, by_torch


CASES = {
    "rope (1, 8, 1024, 64) float32": rope((1, 8, 1024, 64), "float32"),
    "rope (1, 8, 1024, 64) bfloat16": rope((1, 8, 1024, 64), "bfloat16"),
    "rope (1, 8, 1024, 128) traditional": rope((1, 8, 1024, 128), "float32", True),
    "rope (1, 32, 1, 128) float32": rope((1, 32, 1, 128), "float32"),
    "quantized (1, 2048) 4 bits float32": quantized(1, 2048, 2048, 4, "float32"),
    "quantized (1, 4096) 4 bits bfloat16": quantized(1, 4096, 4096, 4, "bfloat16"),
    "quantized (1, 4096) 8 bits float16": quantized(1, 4096, 4096, 8, "float16"),
    "quantized (1, 2048) 6 bits float32": quantized(1, 2048, 2048, 6, "float32"),
    "quantized (1, 2048) mxfp4": quantized(1, 2048, 2048, 4, "float32", "mxfp4"),
    "quantized (64, 2048) 4 bits float32": quantized(64, 2048, 2048, 4, "float32"),
    "quantized (1, 2048) not transposed": quantized(1, 2048, 2048, 4, "float32", "affine", False),
    "gather_qmm 8 of 16 (1, 1024, 2048)": gathered(16, 8, 1024, 2048),
    "conv 8 x 56 x 56 x 64, 3 x 3 float32": conv(8, 56, 64, 64, 3, "float32"),
    "conv 8 x 56 x 56 x 64, 3 x 3 bfloat16": conv(8, 56, 64, 64, 3, "bfloat16"),
    "conv 1 x 224 x 224 x 3, 7 x 7 by 2": conv(1, 224, 3, 64, 7, "float32", 1, 2),
    "conv 8 x 28 x 28 x 256, 1 x 1": conv(8, 28, 256, 256, 1, "float32"),
    "conv 8 x 56 x 56 x 64, by channel": conv(8, 56, 64, 64, 3, "float32", 64),
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
    print(f"{'':38} {'zellige':>8} {'mlx':>8} {'torch':>8} {'ratio':>6}")
    for name, (make, by_torch) in CASES.items():
        calls = {"zellige": make(zellige), "mlx": make(mlx)}
        if by_torch:
            calls["torch"] = by_torch
        best = measure(calls)
        ratio = min(best[x] for x in best if x != "zellige") / best["zellige"]
        behind += ratio < 1
        columns = " ".join(f"{best[x]:8.3f}" if x in best else f"{'-':>8}" for x in ("zellige", "mlx", "torch"))
        print(f"{name:38} {columns} {ratio:6.2f}", flush=True)
    return 1 if behind and "--check" in sys.argv else 0


if __name__ == "__main__":
    usage.run(main)
