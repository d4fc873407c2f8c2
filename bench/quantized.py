#!/usr/bin/env python3
"""quantized.py [--ggml FOLDER] [--rows 1,128] [--kinds q4_0,q6_K] [--cpu] - products with quantised matrices at the shapes of Qwen3-0.6B: in
turns, best of rounds, with ZL_THREADS threads or two.

`PYTHONPATH=build/python python bench/quantized.py`. Each row has microseconds for x of float32, float16 and bfloat16, the bytes
that are read a second for the last, and that as a part of the rate at which as many bytes can be summed. With a folder in which
llama.cpp was built as shared libraries, its times follow: matrices as they are, as its test-backend-ops has them, and in the
order that it prefers; then the best of ours divided into each.
"""

import os

os.environ["ZL_DEVICE"] = "cpu"
THREADS = int(os.environ.setdefault("ZL_THREADS", "2"))

import argparse
import time

import numpy as np
import zellige.core as zl
from ggml import Library

SHAPES = [(1024, 3072), (3072, 1024), (1024, 2048), (2048, 1024), (1024, 1024), (1024, 151936)]
KINDS = {"q4_0": (4, 32), "q8_0": (8, 32), "q4_K": (4, 32), "q6_K": (6, 16)}
DTYPES = ["float32", "float16", "bfloat16"]
ROUNDS, SECONDS = 200, 1.5  # of a case, whichever comes first
rng = np.random.default_rng(0)


def measure(functions, clock):
    """The best time of each, in turns."""
    best, start = [float("inf")] * len(functions), time.perf_counter()
    for turn in range(ROUNDS):
        for i, function in enumerate(functions):
            began = clock()
            function()
            best[i] = min(best[i], clock() - began)
        if turn > 2 and time.perf_counter() - start > SECONDS:
            break
    return best


def ours(kind, weights, x):
    """Functions for each dtype of x, and the bytes of the matrix; scales as a file of that kind has them."""
    bits, group = KINDS[kind]
    w, scales, biases = zl.quantize(zl.array(weights), group_size=group, bits=bits)
    own = zl.float16 if kind.endswith("_0") else zl.float32
    if kind != "q4_K":
        biases = -(2 ** (bits - 1)) * scales
    functions = []
    for dtype in DTYPES:
        s, b = scales.astype(own), biases.astype(own)
        if dtype == "bfloat16":  # else all would be float32
            s, b = s.astype(zl.bfloat16), b.astype(zl.bfloat16)
        given = zl.array(x).astype(getattr(zl, dtype))
        zl.eval(w, s, b, given)
        functions.append(lambda g=given, s=s, b=b: zl.eval(zl.quantized_matmul(g, w, s, b, group_size=group, bits=bits)))
    return functions, w.nbytes + s.nbytes + b.nbytes


def reading(bytes_):
    data = zl.ones((bytes_ // 4,), zl.float32)
    zl.eval(data)
    return lambda: zl.eval(zl.sum(data))


def case(kind, k, n, rows, library, clock):
    weights, x = rng.standard_normal((n, k), np.float32), rng.standard_normal((rows, k), np.float32)
    functions, bytes_ = ours(kind, weights, x)
    others = [library.product(kind, weights, x, t) for t in library.buffer_types()] if library else []
    times = measure(functions + [reading(bytes_)] + others, clock)
    mine, read, theirs = times[:3], times[3], times[4:]
    cells = [f"{kind} {k} x {n}", str(rows)] + [f"{t * 1e6:.0f}" for t in mine]
    cells += [f"{bytes_ / mine[2] * 1e-9:.1f}", f"{read / mine[2]:.2f}", f"{2 * rows * n * k / min(mine) * 1e-9:.0f}"]
    cells += [f"{t * 1e6:.0f}" for t in theirs] + [f"{t / min(mine):.2f}" for t in theirs]
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ggml")
    parser.add_argument("--rows", default="1,128")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--cpu", action="store_true", help="processor time: steadier where other programs run")
    args = parser.parse_args()
    clock = time.process_time if args.cpu else time.perf_counter
    library = Library(args.ggml, THREADS) if args.ggml else None
    head = ["matrix", "rows", *DTYPES, "GB/s", "of reading", "GFLOP/s"]
    head += ["llama.cpp", "in its order", "ratio", "ratio"] if library else []
    print("| " + " | ".join(head) + " |\n| " + " | ".join(["---"] + ["---:"] * (len(head) - 1)) + " |")
    for kind in args.kinds.split(","):
        for rows in map(int, args.rows.split(",")):
            for k, n in SHAPES:
                if rows <= 8 or n < 100000:
                    case(kind, k, n, rows, library, clock)


main()
