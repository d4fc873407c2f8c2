#!/usr/bin/env python3
"""cuda_host.py - where the time of short calls and copies from Python goes on `cuda`, beside PyTorch: microseconds of one call.

    ZL_DEVICE=cuda PYTHONPATH=build/python python3 bench/cuda_host.py [TEXT]

"asked" is until the call returns, "done" until the device has computed all of them; the best of rounds counts. TEXT chooses cases.
"""

import usage

usage.help_if_asked(__doc__)

import sys
import time

import numpy as np

ROUNDS, CALLS = 12, 200
MEGABYTES = 4


def best_of(call, wait, calls=CALLS):
    """Microseconds of one call: until it returns, until all are done."""
    asked = done = 1e9
    call()
    wait()
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        middle = time.perf_counter()
        wait()
        end = time.perf_counter()
        asked, done = min(asked, (middle - begin) / calls), min(done, (end - begin) / calls)
    return asked * 1e6, done * 1e6


def floats():
    return np.random.default_rng(0).standard_normal(MEGABYTES << 18, np.float32)


def zellige_cases(mx):
    held = [None]

    def ask(f):
        def call():
            held[0] = f()
            mx.async_eval(held[0])
        return call

    def record(f):
        def call():
            held[0] = f()
        return call

    def wait():
        mx.eval(held[0])

    tiny = mx.zeros((16,)) + 1
    mx.eval(tiny)
    yield "record a sum of 16", record(lambda: tiny + 1), lambda: None, CALLS
    yield "sum of 16", ask(lambda: tiny + 1), wait, CALLS
    for side in (256, 512, 1024):
        a, b = (mx.random.normal((side, side)).astype(mx.bfloat16) for _ in range(2))
        mx.eval(a, b)
        yield f"record a product of {side}", record(lambda a=a, b=b: a @ b), lambda: None, CALLS
        yield f"product of {side}", ask(lambda a=a, b=b: a @ b), wait, CALLS

        def ten(a=a, b=b):
            held[0] = [a @ b for _ in range(10)]
            mx.async_eval(*held[0])
        yield f"ten products of {side}, one evaluation", ten, wait, CALLS // 10
    data = floats()
    results = [mx.array(data) for _ in range(CALLS)]
    mx.eval(results)
    into = np.empty_like(data)
    yield "host: copy into pages in use", lambda: np.copyto(into, data), lambda: None, 20
    yield "host: copy into new pages", lambda: np.array(data), lambda: None, 20
    yield "array of 4 MB", record(lambda: mx.array(data)), lambda: None, 20
    yield "array of 4 MB, + 1", record(lambda: mx.eval(mx.array(data) + 1)), lambda: None, 20
    yield "+ 1", lambda: mx.eval(results[0] + 1), lambda: None, 20
    for name, read in (("np.array", np.array), ("np.asarray", np.asarray), ("memoryview", memoryview)):
        def download(read=read):
            y = results[0] + 1
            mx.eval(y)
            read(y)
        yield f"+ 1, {name}", download, lambda: None, 20


def torch_cases(t):
    def wait():
        t.cuda.synchronize()

    tiny = t.zeros(16, device="cuda")
    yield "sum of 16", lambda: tiny + 1, wait, CALLS
    for side in (256, 512, 1024):
        a, b = (t.randn((side, side), device="cuda").to(t.bfloat16) for _ in range(2))
        yield f"product of {side}", lambda a=a, b=b: a @ b, wait, CALLS
    data = t.from_numpy(floats())
    x = data.cuda()

    def upload():
        data.cuda() + 1
        wait()
    yield "array of 4 MB, + 1", upload, wait, 20
    yield "+ 1, cpu()", lambda: (x + 1).cpu(), wait, 20


def show(library, cases):
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    for name, call, wait, calls in cases:
        if only in name:
            asked, done = best_of(call, wait, calls)
            print(f"{library:8} {name:40} {asked:8.2f} asked {done:8.2f} done", flush=True)


def main():
    import zellige.core as mx
    show("zellige", zellige_cases(mx))
    try:
        import torch
    except ImportError:
        return
    if torch.cuda.is_available():
        torch.set_grad_enabled(False)
        show("PyTorch", torch_cases(torch))


if __name__ == "__main__":
    main()
