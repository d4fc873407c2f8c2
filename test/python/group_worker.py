"""One rank of a test of groups: test_distributed.py starts as many as it needs, each in a process of its own.

group_worker.py CASE SEED: prints a line of JSON with what the parent compares between ranks, or "error: ..." of a collective that failed.
"""
import hashlib
import json
import os
import random
import sys
import time

import numpy as np

import zellige.core as mx

DTYPES = ("bool_", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
          "float16", "bfloat16", "float32", "float64", "complex64")
SHAPES = ((), (0,), (1,), (7,), (8, 3), (4, 0, 2), (5, 300), (16, 1025))
TOLERANCE = {"float16": 4e-3, "bfloat16": 4e-2, "float32": 1e-5, "float64": 1e-12, "complex64": 1e-5}


def numbers(rank, shape, dtype, seed):
    """What a rank contributes: the same on every machine, small enough that integers do not overflow differently."""
    r = np.random.default_rng((seed, rank, len(shape), sum(shape)))
    x = r.integers(0, 5, shape) if dtype not in TOLERANCE else r.standard_normal(shape)
    if dtype == "complex64":
        return (x + 1j * r.standard_normal(shape)).astype(np.complex64)
    wide = {"bool_": np.bool_, "bfloat16": np.float32}.get(dtype) or getattr(np, dtype)
    return (x % 2 if dtype == "bool_" else x).astype(wide)


def to_mlx(x, dtype):
    with mx.stream(mx.cpu):
        return mx.array(x).astype(getattr(mx, dtype))


def to_numpy(a, dtype):
    return np.array(a.astype(mx.float32) if dtype == "bfloat16" else a)


def rounded(x, dtype):
    return to_numpy(to_mlx(x, dtype), dtype)


def compare(got, want, dtype, what):
    assert got.shape == want.shape, (what, got.shape, want.shape)
    if dtype in TOLERANCE:
        np.testing.assert_allclose(got, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * 8, err_msg=str(what))
    else:
        np.testing.assert_array_equal(got, want, err_msg=str(what))


def reduced(parts, how, dtype):
    if dtype == "bool_":
        return np.logical_and.reduce(parts) if how == "all_min" else np.logical_or.reduce(parts)
    if how == "all_sum":
        wide = np.complex128 if dtype == "complex64" else np.float64 if dtype in TOLERANCE else parts[0].dtype
        return np.sum([p.astype(wide) for p in parts], axis=0).astype(parts[0].dtype)
    if dtype == "complex64":  # ordered by the real part, then by the imaginary one
        order = max if how == "all_max" else min
        flat = [p.reshape(-1) for p in parts]
        best = [order((f[i] for f in flat), key=lambda z: (z.real, z.imag)) for i in range(flat[0].size)]
        return np.array(best, np.complex64).reshape(parts[0].shape)
    return (np.maximum if how == "all_max" else np.minimum).reduce(parts)


def expected(op, parts, rank, dtype):
    n = len(parts)
    if op in ("all_sum", "all_max", "all_min"):
        return reduced(parts, op, dtype)
    if op == "all_gather":
        return np.concatenate([np.atleast_1d(p) for p in parts])
    if op == "sum_scatter":
        return np.split(reduced(parts, "all_sum", dtype), n)[rank]
    if op == "all_to_all":
        return np.concatenate([np.split(p, n)[rank] for p in parts])
    return parts[n - 1]  # broadcast


def layouts(x):
    """Arrays with these elements that lie in other ways."""
    yield x
    if x.ndim >= 2:
        yield mx.transpose(mx.contiguous(mx.transpose(x)))
        yield mx.concatenate([x, x], axis=1)[:, : x.shape[1]]


def call(op, x, g):
    return mx.distributed.broadcast(x, g.size() - 1, group=g) if op == "broadcast" else getattr(mx.distributed, op)(x, group=g)


OPS = ("all_sum", "all_max", "all_min", "all_gather", "sum_scatter", "all_to_all", "broadcast")


def case_values(g, seed, quick=True):
    digest = hashlib.sha256()
    pick = random.Random(seed)
    cases = [(op, dtype, shape) for op in OPS for dtype in DTYPES for shape in SHAPES
             if op not in ("sum_scatter", "all_to_all") or (shape and shape[0] % g.size() == 0)]
    for op, dtype, shape in pick.sample(cases, 160) if quick else cases:
        parts = [rounded(numbers(k, shape, dtype, seed), dtype) for k in range(g.size())]
        want = expected(op, parts, g.rank(), dtype)
        for x in layouts(to_mlx(parts[g.rank()], dtype)):
            with mx.stream(mx.cpu):
                y = call(op, x, g)
                mx.eval(y)
            compare(to_numpy(y, dtype), want, dtype, (op, dtype, shape))
            if op not in ("sum_scatter", "all_to_all"):
                digest.update(to_numpy(y, dtype).tobytes())
    return digest.hexdigest()


def case_large(g, seed):
    """Sizes that do not divide, and more than the buffers on the way hold."""
    digest = hashlib.sha256()
    for size in (1023, 65537, 3_000_001):
        parts = [numbers(k, (size,), "float32", seed) for k in range(g.size())]
        y = mx.distributed.all_sum(mx.array(parts[g.rank()]), group=g)
        compare(np.array(y), reduced(parts, "all_sum", "float32"), "float32", size)
        digest.update(np.array(y).tobytes())
        y = mx.distributed.all_gather(mx.array(parts[g.rank()]), group=g)
        compare(np.array(y), np.concatenate(parts), "float32", size)
    return digest.hexdigest()


def case_neighbours(g, seed):
    n, rank = g.size(), g.rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    for dtype in DTYPES:
        for shape in ((), (0,), (7,), (100, 1000)):
            mine = to_mlx(numbers(rank, shape, dtype, seed), dtype)
            want = rounded(numbers(left, shape, dtype, seed), dtype)
            if rank % 2 == 0:
                y = mx.distributed.send(mine, right, group=g)
                z = mx.distributed.recv_like(y, left, group=g)
            else:
                z = mx.distributed.recv_like(mine, left, group=g)
                y = mx.distributed.send(mine, right, group=g)
            mx.eval(y, z) if seed % 2 else mx.eval(z, y)
            compare(to_numpy(z, dtype), want, dtype, (dtype, shape))
            compare(to_numpy(y, dtype), rounded(numbers(rank, shape, dtype, seed), dtype), dtype, (dtype, shape))


def case_order(g, seed):
    """Independent collectives, evaluated in another order on each rank, and from inside a compiled function."""
    n, rank = g.size(), g.rank()
    pick = random.Random(seed * 100 + rank)
    for _ in range(20):
        ys = [mx.distributed.all_sum(mx.full((k + 1,), float(rank + k)), group=g) for k in range(12)]
        z = mx.ones((64, 64)) @ mx.ones((64, 64))
        order = list(range(12))
        pick.shuffle(order)
        mx.eval([ys[k] * 2 for k in order], z)
        for k in range(12):
            mx.eval(ys[k])
            assert ys[k].tolist() == [float(sum(range(n)) + n * k)] * (k + 1), (k, ys[k])

    @mx.compile
    def step(x):
        a, b = mx.distributed.all_sum(x, group=g), mx.distributed.all_max(x * 2, group=g)
        c = mx.distributed.all_gather(x + 1, group=g)
        return (c, b, a) if rank % 2 else (a, b, c)

    for k in range(4):
        out = step(mx.array([float(rank + k)]))
        mx.eval(*(out[::-1] if pick.random() < 0.5 else out))
        a, b, c = out[::-1] if rank % 2 else out
        assert a.item() == sum(range(n)) + n * k and b.item() == 2 * (n - 1 + k)
        assert c.tolist() == [float(r + k + 1) for r in range(n)]

    if n % 2 == 0:  # what a compiled function receives is new each time
        peer = rank ^ 1
        take = mx.compile(lambda x: x + mx.distributed.recv((2,), mx.float32, peer, group=g))
        for k in range(3):
            if rank % 2:
                mx.eval(mx.distributed.send(mx.full((2,), float(k)), peer, group=g))
            else:
                assert take(mx.zeros((2,))).tolist() == [k, k]


def case_derivatives(g, seed):
    n, rank = g.size(), g.rank()
    w = mx.array(numbers(0, (n * 2, 3), "float32", seed))
    x = mx.array(numbers(rank, (n * 2, 3), "float32", seed))
    all_x = np.stack([numbers(k, (n * 2, 3), "float32", seed) for k in range(n)])
    grad = mx.grad(lambda v: (w * mx.distributed.all_sum(v, group=g)).sum())(x)
    compare(np.array(grad), np.array(w), "float32", "all_sum")
    grad = mx.grad(lambda v: (w * mx.distributed.all_max(v, group=g)).sum())(x)
    compare(np.array(grad), np.where(all_x.max(0) == all_x[rank], np.array(w), 0), "float32", "all_max")
    for op in ("all_max", "all_min"):  # a tie of all ranks, of all but the first, and none
        sign = 1 if op == "all_max" else -1
        tied = mx.array([1.0, min(rank, 1), rank]) * sign
        extreme = lambda v, op=op: getattr(mx.distributed, op)(v, group=g)
        shares = mx.array([1 / n, (rank > 0) / (n - 1), float(rank == n - 1)])
        grad = mx.grad(lambda v: (mx.array([1.0, 10.0, 100.0]) * extreme(v)).sum())(tied)
        compare(np.array(grad), np.array(shares * mx.array([1.0, 10.0, 100.0])), "float32", op)
        _, t = mx.jvp(extreme, [tied], [mx.full((3,), float(rank))])  # the same shares, of what each rank has
        compare(np.array(t[0]), np.array([(n - 1) / 2, n / 2, n - 1], np.float32), "float32", op)
    many = mx.array(numbers(1, (n * n * 2, 3), "float32", seed))
    grad = mx.grad(lambda v: (many * mx.distributed.all_gather(v, group=g)).sum())(x)
    compare(np.array(grad), np.array(many)[rank * n * 2:(rank + 1) * n * 2], "float32", "all_gather")
    part = np.split(np.array(w), n)
    grad = mx.grad(lambda v: (mx.array(part[rank]) * mx.distributed.sum_scatter(v, group=g)).sum())(x)
    compare(np.array(grad), np.array(w), "float32", "sum_scatter")
    grad = mx.grad(lambda v: (mx.array(part[rank]) * mx.distributed.all_to_all(v, group=g)[:2]).sum())(x)
    want = np.concatenate([part[0 if rank == 0 else 0] * 0 for _ in range(n)])
    if rank == 0:  # every rank uses what rank 0 sent it: its cotangents come back here
        want = np.concatenate(part)
    compare(np.array(grad), want, "float32", "all_to_all")
    grad = mx.grad(lambda v: (w * mx.distributed.broadcast(v, 0, group=g)).sum())(x)
    compare(np.array(grad), np.array(w) * (rank == 0), "float32", "broadcast")
    for op in OPS:  # linear ones: the tangent goes the same way
        if op in ("all_max", "all_min"):
            continue
        y, t = mx.jvp(lambda v, op=op: call(op, v, g), [x], [x * 2])
        compare(np.array(t[0]), np.array(y[0]) * 2, "float32", op)
    y, t = mx.jvp(lambda v: mx.distributed.all_max(v, group=g), [x], [x * 2])
    compare(np.array(t[0]), np.array(y[0]) * 2, "float32", "all_max")
    for op in OPS:
        for axis in (0, 2):
            batch = mx.array(numbers(rank, (3, n * 2, 4) if axis == 0 else (n * 2, 4, 3), "float32", seed))
            y = mx.vmap(lambda v, op=op: call(op, v, g), in_axes=axis)(batch)
            each = [call(op, mx.take(batch, k, axis=axis), g) for k in range(3)]
            compare(np.array(y), np.stack([np.array(e) for e in each]), "float32", (op, axis))
    y = mx.vmap(lambda v: mx.distributed.all_gather(v, group=g))(mx.array([1.0, 2.0]) * (rank + 1))
    compare(np.array(y), np.array([[k + 1.0 for k in range(n)], [2 * k + 2.0 for k in range(n)]]), "float32", "scalars")


def case_training(g, seed):
    """A step of training on parts of a batch against one on all of it."""
    n, rank = g.size(), g.rank()
    x = mx.array(numbers(0, (8 * n, 5), "float64", seed).astype(np.float32))
    y = mx.array(numbers(1, (8 * n, 1), "float64", seed).astype(np.float32))
    w = mx.array(numbers(2, (5, 1), "float64", seed).astype(np.float32))
    loss = lambda w, x, y: mx.mean((x @ w - y) ** 2)
    own = slice(rank * 8, rank * 8 + 8)
    part = mx.distributed.all_sum(mx.grad(loss)(w, x[own], y[own]), group=g) / n
    compare(np.array(part), np.array(mx.grad(loss)(w, x, y)), "float32", "gradient")


def case_donation(g, seed):
    x = mx.random.normal((1 << 20,))
    mx.eval(x)
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    x = mx.distributed.all_sum(x * 2, group=g)
    mx.eval(x)
    assert mx.get_peak_memory() - before <= (4 << 20) + (1 << 16), mx.get_peak_memory() - before


def case_split(g, seed):
    n, rank = g.size(), g.rank()
    pairs = g.split(rank // 2)
    others = g.split(rank % 2, n - rank)
    assert pairs.size() == 2 and pairs.rank() == rank % 2 and others.size() == n // 2
    assert others.rank() == (n // 2 - 1) - rank // 2, (others.rank(), rank)
    y = mx.distributed.all_sum(mx.array([float(rank)]), group=pairs)
    z = mx.distributed.all_gather(y, group=others)
    want = [4.0 * k + 1 for k in range(n // 2)][::-1]
    assert z.tolist() == want, (z.tolist(), want)
    x = mx.distributed.all_sum(mx.array([1.0]), group=g)
    assert x.item() == n


def case_ends(g, seed):
    """The first rank to have sent its part ends, while the others still pass it on."""
    x = mx.full((200000 + seed,), 3.0)
    y = mx.distributed.broadcast(x if g.rank() == 0 else x * 0, 0, group=g)
    mx.eval(y)
    if g.rank() == 0:
        os._exit(0)
    assert mx.all(y == 3.0).item()


def case_unequal(g, seed):
    y = mx.distributed.all_sum(mx.zeros((3 + (g.rank() == 1),)), group=g)
    mx.eval(y)


def case_large_unequal(g, seed):
    mx.eval(mx.distributed.all_sum(mx.zeros((100000 + (g.rank() == 1),)), group=g))


def case_absent(g, seed):
    """Rank 1 never evaluates what the others wait for."""
    mx.eval(mx.distributed.all_sum(mx.zeros((3,)), group=g))
    if g.rank() == 1:
        sys.stdin.read()  # until the parent has seen the others fail
        return None
    mx.eval(mx.distributed.all_max(mx.zeros((3,)), group=g))


def case_unsent(g, seed):
    """Rank 1 waits for what rank 0 never sends; the others have no part in it."""
    if g.rank() == 1:
        mx.eval(mx.distributed.recv((3,), mx.float32, 0, group=g))
    sys.stdin.read()  # until the parent has seen it fail


def case_victim(g, seed):
    """Runs until something happens to a rank; says so when it begins."""
    print("running", flush=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        mx.eval(mx.distributed.all_sum(mx.zeros((50000,)), group=g))
    raise SystemExit("nothing happened to any rank")


def main():
    case, seed = sys.argv[1], int(sys.argv[2])
    try:
        g = mx.distributed.init(strict=True, backend=os.environ.get("TEST_ENGINE", "any"))
        result = globals()["case_" + case](g, seed)
        print(json.dumps({"rank": g.rank(), "size": g.size(), "result": result}), flush=True)
    except RuntimeError as e:
        print("error:", e, flush=True)
        sys.exit(3)


if __name__ == "__main__":
    main()
