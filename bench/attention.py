#!/usr/bin/env python3
"""attention.py [--cpu] [--check] [--only TEXT] - attention of zellige.core beside MLX, PyTorch and NumPy: in turns, best of
rounds, two threads.

`PYTHONPATH=build/python python bench/attention.py`. Times are milliseconds; ratio is the best of the others divided by zellige's,
and limit what it would be if nothing but products and exp took time, at the peak of their instructions (peaks.py): no ratio can
be larger. With --cpu they are CPU time of one thread each, which other programs hardly change. With --check the exit status says
whether zellige is the quickest everywhere; with --only those cases run whose line has the text.
"""

import usage

usage.help_if_asked(__doc__)

import os
import sys

CPU = "--cpu" in sys.argv
THREADS = "1" if CPU else "2"
os.environ.update(ZL_DEVICE="cpu", ZL_THREADS=THREADS, OMP_NUM_THREADS=THREADS, OPENBLAS_NUM_THREADS=THREADS)

import time

import mlx.core as mlx
import numpy as np
import peaks
import torch
import zellige.core as zellige

torch.set_num_threads(int(THREADS))
clock = time.process_time if CPU else time.perf_counter
ONLY = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
ROUNDS, SLOW = 40, 2  # of one that takes ten times as long as the quickest
# Batch, heads, heads of keys, queries, keys, size of a head, causal.
SHAPES = [
    (1, 8, 8, 512, 512, 64, False),
    (1, 8, 8, 1024, 1024, 64, False),
    (1, 8, 8, 1024, 1024, 64, True),
    (1, 8, 8, 1024, 1024, 128, False),
    (1, 16, 16, 2048, 2048, 64, False),
    (1, 16, 16, 2048, 2048, 64, True),
    (1, 8, 8, 1024, 1024, 128, True),
    (4, 8, 2, 256, 256, 64, True),
    (4, 8, 2, 512, 512, 64, True),
    (2, 12, 12, 384, 384, 80, False),
    (1, 16, 16, 777, 777, 64, True),
    (1, 8, 8, 256, 2048, 96, False),
    (8, 8, 8, 128, 128, 32, True),
    (1, 8, 8, 1, 2048, 64, False),
    (1, 32, 8, 1, 2048, 128, False),
    (1, 32, 8, 1, 4096, 128, False),
    (8, 32, 8, 1, 1024, 128, False),
]
GRADIENTS = SHAPES[:4] + [
    (1, 8, 1, 1024, 1024, 64, True),
    (2, 8, 2, 512, 512, 64, True),
    (2, 12, 12, 384, 384, 80, False),
    (1, 4, 4, 777, 777, 96, True),
    (1, 4, 4, 512, 512, 256, False),
]


def numbers(shape, rng):
    b, n, m, t, s, d, _ = shape
    return [rng.standard_normal(x, np.float32) for x in ((b, n, t, d), (b, m, s, d), (b, m, s, d))]


def limit_of(shape, dtype, gradient):
    """Milliseconds; None: not known."""
    b, n, _, t, s, d, causal = shape
    seconds = peaks.attention_limit(dtype, b, n, t, s, d, causal, gradient, CPU)
    return seconds and seconds * 1e3


def by_arrays(module, shape, dtype, data, gradient):
    q, k, v = (module.array(x).astype(getattr(module, dtype)) for x in data)
    module.eval(q, k, v)
    scale, mask = shape[5] ** -0.5, "causal" if shape[6] else None

    def attend(q, k, v):
        return module.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask)

    if not gradient:
        return lambda: module.eval(attend(q, k, v))
    grad = module.grad(lambda q, k, v: attend(q, k, v).sum(), argnums=(0, 1, 2))
    return lambda: module.eval(grad(q, k, v))


def by_torch(shape, dtype, data, gradient):
    q, k, v = (torch.from_numpy(x).to(getattr(torch, dtype)).requires_grad_(gradient) for x in data)

    def attend():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=shape[6], enable_gqa=shape[1] != shape[2])

    def with_gradient():
        torch.autograd.grad(attend().sum(), (q, k, v))

    def plain():
        with torch.no_grad():
            attend()

    return with_gradient if gradient else plain


def by_numpy(shape, data):
    q, k, v = data
    q = q * np.float32(shape[5] ** -0.5)
    k, v = (np.repeat(x, shape[1] // shape[2], axis=1) for x in (k, v))
    hidden = np.triu(np.full((shape[3], shape[4]), -np.inf, np.float32), 1) if shape[6] else 0

    def attend():
        p = q @ k.swapaxes(-1, -2) + hidden
        p = np.exp(p - p.max(-1, keepdims=True))
        return (p / p.sum(-1, keepdims=True)) @ v

    return attend


def measure(calls):
    """Milliseconds of each, the best of rounds in which all take turns."""
    best = {}
    for i in range(ROUNDS):
        for name, call in calls.items():
            if i >= SLOW and best[name] > 10 * min(best.values()):
                continue
            start = clock()
            call()
            took = (clock() - start) * 1e3
            best[name] = min(best.get(name, took), took)
    return best


def cases():
    for shape in SHAPES:
        for dtype in ("float32", "bfloat16", "float16"):
            yield shape, dtype, False
    for shape in GRADIENTS:
        for dtype in ("float32", "bfloat16", "float16"):
            yield shape, dtype, True


def main():
    behind = 0
    print(f"{'B N M T S D causal':28} {'dtype':9} {'':5} {'zellige':>8} {'mlx':>8} {'torch':>8} {'numpy':>8} {'ratio':>6} {'limit':>6}")
    for shape, dtype, gradient in cases():
        label = f"{' '.join(map(str, shape)):28} {dtype:9} {'grad' if gradient else '':5}"
        if ONLY not in label:
            continue
        data = numbers(shape, np.random.default_rng(0))
        calls = {"zellige": by_arrays(zellige, shape, dtype, data, gradient),
                 "mlx": by_arrays(mlx, shape, dtype, data, gradient), "torch": by_torch(shape, dtype, data, gradient)}
        if dtype == "float32" and not gradient:
            calls["numpy"] = by_numpy(shape, data)
        best = measure(calls)
        rival, limit = min(best[x] for x in best if x != "zellige"), limit_of(shape, dtype, gradient)
        ratio = rival / best["zellige"]
        behind += ratio < 1
        columns = " ".join(f"{best[x]:8.3f}" if x in best else f"{'-':>8}" for x in ("zellige", "mlx", "torch", "numpy"))
        print(f"{label} {columns} {ratio:6.2f} {f'{rival / limit:6.2f}' if limit else '     -'}", flush=True)
    return 1 if behind and "--check" in sys.argv else 0


if __name__ == "__main__":
    usage.run(main)
