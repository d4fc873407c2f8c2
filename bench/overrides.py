#!/usr/bin/env python3
"""overrides.py - what the overrides of the device cuda gain: calls with NVIDIA's libraries beside the same calls without them.

    PYTHONPATH=build/python python3 bench/overrides.py [--only TEXT] [--turns N]

`zellige kernel overrides` lists the overrides and says what runs their ops otherwise. Two processes, one of them with
ZL_CUDA_LIBRARIES=0, measure each case in turns; the best time of each counts. Needs a GPU of NVIDIA.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import usage

SLICE, CALLS_MOST = 0.1, 200  # seconds that a measurement may last if one call does not, and calls in it


def cases(mx):
    """Name of the override, of the case, floating-point operations of a call or None, and what computes it."""
    def normal(*shape, dtype=mx.float32):
        return mx.random.normal(shape, key=mx.random.key(len(shape))).astype(dtype)

    def attention(q):
        return mx.fast.scaled_dot_product_attention(q, q, q, scale=128 ** -0.5)

    a, q = normal(4096, 4096, dtype=mx.float16), normal(1, 32, 8192, 128, dtype=mx.bfloat16)
    yield "cublaslt", "product of float16, 4096 x 4096 x 4096", 2 * 4096 ** 3, lambda: a @ a
    yield "cudnn_attention", "bfloat16, 1 x 32 x 8192 x 128", 4 * 32 * 8192 ** 2 * 128, lambda: attention(q)
    for dtype in (mx.float32, mx.bfloat16):
        x, w = normal(32, 56, 56, 64, dtype=dtype), normal(64, 3, 3, 64, dtype=dtype)
        name = f"{str(dtype).split('.')[-1]}, 32 x 56 x 56 x 64 by 64 x 3 x 3"
        yield "cudnn_convolution", name, 2 * 32 * 56 * 56 * 64 * 64 * 9, lambda: mx.conv2d(x, w, padding=1)
    for shape in ((4096, 4096), (64, 65536), (1 << 20,)):
        x = normal(*shape).astype(mx.complex64)
        yield "cufft", "lines of " + " x ".join(str(n) for n in shape), None, lambda: mx.fft.fft(x)
    for n in (1024, 4096):
        x = normal(n, n)
        spd = x @ x.T / n + mx.eye(n)
        yield "cusolver", f"cholesky {n}", None, lambda: mx.linalg.cholesky(spd)
        yield "cusolver", f"lu_factor {n}", None, lambda: mx.linalg.lu_factor(x)
        yield "cusolver", f"inv {n}", None, lambda: mx.linalg.inv(x)
        yield "cusolver", f"qr {n}", None, lambda: mx.linalg.qr(x)
    x = normal(1024, 1024)
    symmetric = x + x.T
    yield "cusolver", "eigh 1024", None, lambda: mx.linalg.eigh(symmetric)
    yield "cusolver", "svd 1024", None, lambda: mx.linalg.svd(x)


def work(only):
    """Answers each line on standard input with the seconds of a call; before the first one of a case with its name."""
    import zellige.core as mx
    try:
        mx.set_default_device(mx.gpu)
    except ValueError as e:
        sys.exit(f"overrides.py: {e}")

    def measure(f, count):
        begin = time.perf_counter()
        for _ in range(count):
            y = f()
            mx.async_eval(y)
        mx.eval(y)
        return (time.perf_counter() - begin) / count

    for override, name, operations, f in cases(mx):
        if only not in f"{override} {name}":
            continue
        measure(f, 1)
        one = min(measure(f, 1) for _ in range(2))
        count = max(1, min(CALLS_MOST, int(SLICE / one)))
        print(json.dumps([override, name, operations]), flush=True)
        for line in sys.stdin:
            if line == "next\n":
                break
            print(json.dumps(measure(f, count)), flush=True)
    print(json.dumps(None), flush=True)


def open_worker(libraries, only):
    env = dict(os.environ, ZL_CUDA_LIBRARIES=libraries)
    return subprocess.Popen([sys.executable, __file__, "--worker", "--only", only], env=env, text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)


def answer(worker):
    line = worker.stdout.readline()
    if not line:
        sys.exit(worker.wait() or 1)  # which said why
    return json.loads(line)


def ask(worker, order):
    worker.stdin.write(order + "\n")
    worker.stdin.flush()
    return answer(worker)


def show(seconds, operations):
    return f"{seconds * 1e6:.0f} us" + (f", {operations / seconds / 1e12:.3g} TFLOP/s" if operations else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help="cases with this text in their name")
    parser.add_argument("--turns", type=int, default=5, help="how often each of the two measures a case")
    options = parser.parse_args()
    if options.worker:
        return work(options.only)
    workers = [open_worker(libraries, options.only) for libraries in ("1", "0")]
    print("| override | case | with | without | ratio |\n| --- | --- | --- | --- | --- |", flush=True)
    case = [answer(w) for w in workers][0]
    while case:
        override, name, operations = case
        seconds = [min(times) for times in zip(*[[ask(w, "run") for w in workers] for _ in range(options.turns)])]
        cells = [override, name] + [show(s, operations) for s in seconds] + [f"{seconds[1] / seconds[0]:.1f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
        case = [ask(w, "next") for w in workers][0]
    for worker in workers:
        worker.stdin.close()
        worker.wait()


if __name__ == "__main__":
    usage.run(main)
