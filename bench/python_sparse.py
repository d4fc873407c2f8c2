#!/usr/bin/env python3
"""python_sparse.py - products of sparse matrices beside SciPy's, in one run: milliseconds, the best of many rounds.

PYTHONPATH=build/python python3 bench/python_sparse.py [--check]: with --check, fails if one is slower than SciPy's.
"""

import usage

usage.help_if_asked(__doc__)

import os

os.environ["ZL_DEVICE"] = "cpu"

import sys
import time

import numpy as np
import scipy.sparse

import zellige.core as mx

ROUNDS = 30
random = np.random.default_rng(1)


def cycle(rows, each):
    columns = np.arange(rows)[:, None] + ([1] if each == 1 else [-1, 1])
    return scipy.sparse.csr_matrix((np.ones(rows * each, "float32"), columns.ravel() % rows, np.arange(rows + 1) * each), (rows, rows))


def scattered(rows, columns, each):
    pointers = np.concatenate([[0], np.cumsum(random.integers(0, 2 * each, rows))])
    indices = random.integers(0, columns, pointers[-1])
    return scipy.sparse.csr_matrix((random.standard_normal(pointers[-1]).astype("float32"), indices, pointers), (rows, columns))


def once(f):
    start = time.perf_counter()
    f()
    return 1e3 * (time.perf_counter() - start)


def compare(name, a, width):
    dense = random.standard_normal((a.shape[1], width)).astype("float32")
    dense = dense[:, 0].copy() if width == 1 else dense
    parts = [mx.array(x) for x in (a.data, a.indices.astype("int32"), a.indptr.astype("int32"), dense)]
    product = mx.csr_matvec if width == 1 else mx.csr_matmul
    np.testing.assert_allclose(np.array(product(*parts)), a @ dense, 1e-3, 1e-3)
    ours, theirs = zip(*((once(lambda: mx.eval(product(*parts))), once(lambda: a @ dense)) for _ in range(ROUNDS)))
    ratio = min(theirs) / min(ours)
    print(f"{name:34} {min(ours):8.3f} {min(theirs):8.3f} {ratio:6.2f}")
    return ratio


def main():
    print(f"{'':34} {'zellige':>8} {'SciPy':>8} {'times':>6}")
    ratios = [compare("cycle, 1 M rows, one a row", cycle(1 << 20, 1), 1),
              compare("cycle, 1 M rows, two a row", cycle(1 << 20, 2), 1),
              compare("random, 1 M rows, 8 a row", scattered(1 << 20, 1 << 20, 8), 1),
              compare("random, 10 k rows, 100 a row", scattered(10000, 10000, 100), 1),
              compare("random, 100 k rows, 8 a row, by 64", scattered(100000, 100000, 8), 64)]
    return "--check" in sys.argv and min(ratios) < 1


if __name__ == "__main__":
    usage.run(main)
