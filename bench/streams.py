#!/usr/bin/env python3
"""streams.py - how far work of several streams of one GPU overlaps, beside PyTorch: milliseconds until all of it is done.

    ZL_DEVICE=cuda PYTHONPATH=build/python python3 bench/streams.py

Each stream has the same work, of which a GPU has room for several: 1.00 is as long as one stream takes alone. The best of rounds
counts. With ZL_LANES=1 nothing overlaps.
"""

import usage

usage.help_if_asked(__doc__)

import time

ROUNDS, STREAMS, LINKS, SIZE, CYCLES = 12, 4, 40, 512, 10_000_000


def best_of(ask, wait):
    """Milliseconds of what is asked for, until it is done."""
    best = 1e9
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        asked = ask()
        wait(asked)
        best = min(best, time.perf_counter() - begin)
    return best * 1e3


def print_row(name, times):
    ratios = "  ".join(f"{count} streams {ms / times[0]:.2f}" for count, ms in enumerate(times[1:], 2))
    print(f"{name:34} one stream {times[0]:7.3f} ms  {ratios}", flush=True)


def zellige_works(mx):
    source = """
        float v = x[threadIdx.x];
        for (int i = 0; i < N; i++)
            v = v * 0.5f + 1.0f;
        y[threadIdx.x] = v;
    """
    kernel = mx.fast.cuda_kernel(name="spin", input_names=["x"], output_names=["y"], source=source)
    zeros, matrix = mx.zeros((32,)), mx.random.normal((SIZE, SIZE)) / SIZE
    mx.eval(zeros, matrix)

    def spin():
        return kernel(inputs=[zeros], template=[("N", CYCLES // 8)], grid=(32, 1, 1), threadgroup=(32, 1, 1),
                      output_shapes=[(32,)], output_dtypes=[mx.float32])[0]

    def products():
        y = matrix
        for _ in range(LINKS):
            y = y @ matrix
        return y

    def exponentials():
        y = matrix
        for _ in range(LINKS):
            y = mx.softmax(mx.sin(y), axis=0)
        return y

    return {"one block": spin, f"{LINKS} products of {SIZE}": products, f"{LINKS} softmax of columns": exponentials}


def measure_zellige():
    import zellige.core as mx

    if not mx.is_available(mx.gpu):
        raise SystemExit("streams.py: there is no GPU here; `zellige devices` says why")
    streams = [mx.new_stream(mx.gpu) for _ in range(STREAMS)]
    for name, work in zellige_works(mx).items():
        def ask(count):
            results = []
            for s in streams[:count]:
                with mx.stream(s):
                    results.append(work())
                    mx.async_eval(results[-1])
            return results

        print_row(f"zellige, {name}", [best_of(lambda: ask(count), mx.eval) for count in range(1, STREAMS + 1)])


def measure_torch():
    try:
        import torch
    except ImportError:
        return
    if not torch.cuda.is_available():
        return
    streams = [torch.cuda.Stream() for _ in range(STREAMS)]
    matrix = torch.randn(SIZE, SIZE, device="cuda") / SIZE

    def spin():
        torch.cuda._sleep(CYCLES)

    def products():
        y = matrix
        for _ in range(LINKS):
            y = y @ matrix

    def exponentials():
        y = matrix
        for _ in range(LINKS):
            y = torch.softmax(torch.sin(y), 0)

    torch.cuda.synchronize()
    works = {"one block": spin, f"{LINKS} products of {SIZE}": products, f"{LINKS} softmax of columns": exponentials}
    for name, work in works.items():
        def ask(count):
            for s in streams[:count]:
                with torch.cuda.stream(s):
                    work()

        print_row(f"PyTorch, {name}", [best_of(lambda: ask(count), lambda _: torch.cuda.synchronize())
                                       for count in range(1, STREAMS + 1)])


measure_zellige()
measure_torch()
