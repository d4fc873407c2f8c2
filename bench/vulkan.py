#!/usr/bin/env python3
"""vulkan.py - the device vulkan beside the device cuda on one GPU, in one run: each case with its bar.

    PYTHONPATH=build/python python3 bench/vulkan.py [--check] [--only TEXT] [--seed N] [--turns N] [--json FILE]

Each device has a process of its own, and they measure a case in turns, of which each begins untimed, so that neither is timed at the clocks
that the other's load left behind; medians count. A figure is the rate of vulkan by that of cuda, whose products are cuBLASLt's. Seven of the
ten shapes of products are drawn by the seed. A group's bar is for the median of its cases. With --check the exit status says whether all bars
were reached. All of it takes three minutes on an H200.
"""

import argparse
import json
import pathlib
import statistics
import time

import cuda
import usage
from cuda_cases import ROWS, SIDE, TINY, Case, gemm_shapes

READY_MS, TINY_US, SCORES = 150, 5.0, 32 * 8192 * 8192 * 2  # SCORES: bytes of all scores of the attention below
HEADER = ["case", "unit", "cuda", "vulkan", "ratio", "bar", "verdict"]


def cases(seed):
    number = SIDE * SIDE
    for kind, dtype, arrays in (("add", "float32", 3), ("exp", "float32", 2), ("gelu", "bfloat16", 2)):
        yield Case(f"{kind} {dtype}", kind, (dtype,), number * arrays * (4 if dtype == "float32" else 2), "TB/s", 1e12, 0.9)
    for kind, arrays in (("softmax", 2), ("layer_norm", 2), ("sum", 1), ("cumsum", 2), ("transpose", 2)):
        for length in ROWS:
            yield Case(f"{kind} float32 {length}", kind, ("float32", length), number * arrays * 4, "TB/s", 1e12, 0.8)
    for dtype, bar in (("float16", 0.35), ("bfloat16", 0.35), ("float32", 0.4)):
        for m, n, k in gemm_shapes(seed):
            yield Case(f"gemm {dtype} {m}x{n}x{k}", "gemm", (dtype, m, n, k), 2 * m * n * k, "TFLOP/s", 1e12, bar, group=f"gemm {dtype}")
    yield Case("attention bfloat16 1x32x8192x128", "attention", (1, 32, 8192, 8192, 128, False), 4 * 32 * 8192 * 8192 * 128,
               "TFLOP/s", 1e12)
    yield Case("tiny launches", "tiny", (), TINY, "us each", 1e-6, TINY_US, less=True)


def verdict(reached):
    return cuda.REACHED if reached else cuda.MISSED


class Table:
    def __init__(self):
        self.missed, self.data = [], []

    def add(self, cells, reached):
        """reached None: the case has no bar of its own."""
        if reached is False:
            self.missed.append(cells[0])
        self.data.append(dict(zip(HEADER, cells)))
        print(cuda.row(cells + ["" if reached is None else verdict(reached)]), flush=True)


def measure_case(table, case, pair, turns):
    """The ratio of the case; 0 if it could not be measured."""
    seconds, why = cuda.measure_pair(case, pair, turns)
    if not seconds:
        table.add([case.name, case.unit, "–", "–", why, ""], False)
        return 0
    ratio, rates = seconds[0] / seconds[1], [cuda.rate(case, s) for s in seconds]
    reached = None if case.group or not case.bar else rates[1] <= case.bar if case.less else ratio >= case.bar
    bar = "" if reached is None else f"≤ {case.bar:g} us" if case.less else f"≥ {case.bar:g}"
    table.add([case.name, case.unit] + [f"{r:.3g}" for r in rates] + [f"{ratio:.2f}", bar], reached)
    return ratio


def measure_once(table, worker):
    """What is not a rate: how soon the device is ready, and the memory that attention needs."""
    answer = worker.ask(do="ready")
    milliseconds = answer.get("milliseconds")
    table.add(["ready", "ms", "", f"{milliseconds:.0f}", "", f"≤ {READY_MS}"], milliseconds <= READY_MS)
    answer = worker.ask(do="peak", kind="attention", arguments=(1, 32, 8192, 8192, 128, False))
    if "failed" in answer:
        return table.add(["memory of attention 1x32x8192x128", "MB", "", "–", answer["failed"], ""], False)
    more = answer["peak"] - answer["before"]
    table.add(["memory of attention 1x32x8192x128", "MB", "", f"{more / 1e6:.0f}", "", f"< {SCORES / 1e6:.0f}"], more < SCORES / 8)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar is not reached")
    parser.add_argument("--only", default="", help="cases whose name has one of these texts, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--turns", type=int, default=5, help="how often each device measures a case")
    parser.add_argument("--json")
    return parser.parse_args()


def main():
    options, began = read_options(), time.perf_counter()
    chosen = [c for c in cases(options.seed) if any(t in c.name for t in options.only.split(","))]
    names = ("zellige", "vulkan", "zellige_unfused", "vulkan_unfused")
    workers = {name: cuda.Worker(name) for name in names}
    for worker in workers.values():
        worker.opened()
        if worker.failed:
            raise SystemExit(f"vulkan.py: {worker.name}: {worker.failed}")
    about = f"seed {options.seed}, {options.turns} turns, {time.strftime('%Y-%m-%d')}, {cuda.clocks()}"
    print("\n".join([about, "", cuda.row(HEADER), cuda.row(["---"] * len(HEADER))]), flush=True)
    table, groups = Table(), {}
    if not options.only:
        measure_once(table, workers["vulkan"])
    for case in chosen:
        pair = [workers[n] for n in (names[2:] if case.kind == "tiny" else names[:2])]
        ratio = measure_case(table, case, pair, options.turns)
        if case.group:
            groups.setdefault((case.group, case.bar), []).append(ratio)
    for (group, bar), ratios in groups.items():
        median = statistics.median(ratios)
        table.add([f"{group}, median of {len(ratios)}", "", "", "", f"{median:.2f}", f"≥ {bar:g}"], median >= bar)
    print(f"\n{time.perf_counter() - began:.0f} s; bars not reached: {len(table.missed)}" + "".join(f"\n- {n}" for n in table.missed))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"about": about, "cases": table.data}, indent=1) + "\n")
    return 1 if options.check and table.missed else 0


if __name__ == "__main__":
    usage.run(main)
