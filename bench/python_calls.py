#!/usr/bin/env python3
"""python_calls.py [--check] - what calls from Python cost: zellige.core beside MLX and NumPy, in turns, best of rounds.

`make bench-python` makes an environment for it. With --check the exit status says whether the budgets hold.
"""

import usage

usage.help_if_asked(__doc__)

import os

os.environ["ZL_DEVICE"] = "cpu"

import sys
import timeit

import mlx.core as mlx
import numpy as np
import zellige.core as zellige

ROUNDS, CALLS = 40, 2000


def cases(m):
    a, b, matrix = m.array([1.0] * 8), m.array([2.0] * 8), m.ones((4, 8))
    m.eval(a, b, matrix)
    return {
        "add two arrays of 8 and evaluate": lambda: m.eval(a + b),
        "record an addition": lambda: a + b,
        "add a number": lambda: a * 2.0,
        "transpose view": lambda: matrix.T,
        "matrix[0]": lambda: matrix[0],
        "matrix[1:3, ::2]": lambda: matrix[1:3, ::2],
        "sum over an axis": lambda: m.sum(matrix, axis=0),
        "array of a list of 8": lambda: m.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
        "item()": lambda: a[0].item(),
    }


def numpy_cases():
    a, b, matrix = np.ones(8, np.float32), np.ones(8, np.float32), np.ones((4, 8), np.float32)
    return {
        "add two arrays of 8 and evaluate": lambda: a + b,
        "add a number": lambda: a * 2.0,
        "transpose view": lambda: matrix.T,
        "matrix[0]": lambda: matrix[0],
        "matrix[1:3, ::2]": lambda: matrix[1:3, ::2],
        "sum over an axis": lambda: np.sum(matrix, axis=0),
        "array of a list of 8": lambda: np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], np.float32),
        "item()": lambda: a[0].item(),
    }


def measure():
    """Nanoseconds a call, by case and library."""
    libraries = {"zellige": cases(zellige), "mlx": cases(mlx), "numpy": numpy_cases()}
    best = {}
    for _ in range(ROUNDS):
        for library, table in libraries.items():
            for name, call in table.items():
                calls = CALLS // 20 if library == "mlx" else CALLS
                took = timeit.timeit(call, number=calls) / calls * 1e9
                best[name, library] = min(best.get((name, library), took), took)
    return best


def main():
    best = measure()
    print(f"{'':36} {'zellige':>9} {'mlx':>9} {'numpy':>9}   ns; to mlx")
    for name in cases(zellige):
        ours, theirs, other = (best.get((name, library)) for library in ("zellige", "mlx", "numpy"))
        print(f"{name:36} {ours:9.0f} {theirs:9.0f} {other and f'{other:9.0f}' or '        -'}   {ours / theirs:.3f}")
    add, view = "add two arrays of 8 and evaluate", "transpose view"
    budgets = {
        "add and evaluate, at most 0.15 of MLX": best[add, "zellige"] / best[add, "mlx"] <= 0.15,
        "add and evaluate, at most NumPy + 200 ns": best[add, "zellige"] <= best[add, "numpy"] + 200,
        "transpose view, at most 0.5 of MLX": best[view, "zellige"] / best[view, "mlx"] <= 0.5,
    }
    for name, holds in budgets.items():
        print(f"{'ok ' if holds else 'LOW'} {name}")
    return "--check" in sys.argv and not all(budgets.values())


if __name__ == "__main__":
    usage.run(main)
