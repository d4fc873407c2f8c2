"""fuzz_rows.py [--seed N] [--count N] [--large] [--keep-going] - rows of products, attention and norms, alone and in batches: the same bits.

Each case draws dtype, sizes and layouts, computes a whole batch, and then some of its rows and matrices by themselves. With --large
sizes are also those for which ZL_BATCH_INVARIANT=1 is needed; without it products have a second factor of at most 256 KB, and
attention at most 64 keys. Exits with 1 after the first rows that differ, and says which.
"""

import argparse
import random
import sys

import numpy as np

import zellige.core as mx

FLOATS = (mx.float32, mx.float16, mx.bfloat16, mx.float64)
SMALL_BYTES, SMALL_KEYS = 1 << 18, 64


def bits(x):
    mx.eval(x)
    wide = x if x.dtype in (mx.float64, mx.float32) else x.astype(mx.float32)
    return np.array(wide).tobytes()


def noise(*shape, dtype=mx.float32):
    x = mx.random.normal(shape).astype(dtype)
    mx.eval(x)  # else a GPU fuses what makes it into what reads it
    return x


def matrix(rows, cols, dtype, batch=()):
    """A matrix, or several, whose lines lie along either axis, some of them with gaps."""
    if random.random() < 0.5:
        return mx.swapaxes(noise(*batch, cols, rows, dtype=dtype), -1, -2)
    gap = random.choice((1, 1, 2))
    return noise(*batch, rows, cols * gap, dtype=dtype)[..., ::gap]


def some_rows(count):
    """First and last of some neighbours, of which there are often few."""
    first = random.randrange(count)
    return first, min(count, first + random.choice((1, 1, 2, 3, 4, 6, 9, 15, 40)))


def size(*likely):
    return random.choice((*likely, random.randint(1, max(likely))))


def product(large):
    dtype = random.choice(FLOATS)
    m, n = size(2, 4, 7, 12, 17, 48, 64, 130), size(1, 2, 5, 8, 12, 16, 17, 64, 200, 300)
    k = size(1, 4, 16, 31, 64, 128, 256, 383, 384, 400, 410, 512, 700)
    if large:
        n, k = size(n, 1000, 2100), size(k, 1024, 1640, 2048, 3000)
    elif n * k * dtype.size > SMALL_BYTES:
        k = max(1, SMALL_BYTES // dtype.size // n)
    a, b = matrix(m, k, dtype), matrix(k, n, dtype)
    first, last = some_rows(m)
    return f"matmul {dtype} {m}x{n}x{k}, rows {first} to {last}", bits((a @ b)[first:last]), bits(a[first:last] @ b)


def batched_product(large):
    dtype, batch = random.choice(FLOATS), random.randint(2, 9)
    m, n, k = size(1, 2, 7, 33), size(1, 8, 33), size(1, 16, 65, 400)
    a, b = matrix(m, k, dtype, (batch,)), matrix(k, n, dtype, (batch,))
    i = random.randrange(batch)
    return f"matmul {dtype} {batch} times {m}x{n}x{k}, number {i}", bits((a @ b)[i]), bits(a[i] @ b[i])


def biased_product(large):
    dtype = random.choice(FLOATS)
    m, n, k = size(2, 7, 33), size(8, 17, 64), size(16, 64, 128)
    a, b, c = matrix(m, k, dtype), matrix(k, n, dtype), noise(n, dtype=dtype)
    first, last = some_rows(m)
    whole, part = mx.addmm(c, a, b, 0.5, 2.0), mx.addmm(c, a[first:last], b, 0.5, 2.0)
    return f"addmm {dtype} {m}x{n}x{k}, rows {first} to {last}", bits(whole[first:last]), bits(part)


def quantized_product(large):
    """Only with the setting: there is no fast way that is the same for one row and for many."""
    if not large:
        return batched_product(large)
    dtype, bits_each, group = random.choice(FLOATS[:3]), random.choice((2, 3, 4, 6, 8)), random.choice((32, 64, 128))
    m, n, k = size(2, 5, 12, 13, 33), size(8, 64, 200), group * random.randint(1, 8)
    w, scales, biases = mx.quantize(noise(n, k, dtype=dtype), group_size=group, bits=bits_each)
    x = noise(m, k, dtype=dtype)
    first, last = some_rows(m)

    def times(x):
        return mx.quantized_matmul(x, w, scales, biases, group_size=group, bits=bits_each)

    name = f"quantized_matmul {dtype} of {bits_each} bits, {m}x{n}x{k}, rows {first} to {last}"
    return name, bits(times(x)[first:last]), bits(times(x[first:last]))


def attention(large):
    dtype, batch, groups = random.choice(FLOATS[:3]), random.randint(1, 3), random.randint(1, 3)
    heads, dim = groups * random.choice((1, 2, 4)), random.choice((16, 32, 64, 80, 128))
    keys = size(1, 8, 33, 64, *((65, 200, 600, 1100) if large else ()))
    queries = size(1, 2, 7, 8, 13, 40, *((100, 300) if large else ()))
    q = noise(batch, heads, queries, dim, dtype=dtype) * random.choice((0.1, 1, 3))
    k, v = noise(batch, groups, keys, dim, dtype=dtype), noise(batch, groups, keys, dim, dtype=dtype)
    b, (first, last) = random.randrange(batch), some_rows(queries)
    mask = mx.random.uniform(shape=(queries, keys)) > 0.3 if random.random() < 0.4 else None

    def attend(q, k, v, mask):
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=dim**-0.5, mask=mask)

    whole = attend(q, k, v, mask)[b, :, first:last]
    part = attend(q[b:b + 1, :, first:last], k[b:b + 1], v[b:b + 1], None if mask is None else mask[first:last])[0]
    name = f"attention {dtype} {batch}x{heads}/{groups}x{queries}x{keys}x{dim}, mask {mask is not None}, batch {b}, queries {first} to {last}"
    return name, bits(whole), bits(part)


def norm(large):
    dtype = random.choice(FLOATS)
    rows, width = size(2, 3, 17, 100), size(1, 5, 16, 31, 32, 64, 100, 1000, 4096, 70000)
    x, weight, bias = noise(rows, width, dtype=dtype), noise(width, dtype=dtype), noise(width, dtype=dtype)
    first, last = some_rows(rows)
    name, of = random.choice((
        ("rms_norm", lambda x: mx.fast.rms_norm(x, weight, 1e-5)),
        ("layer_norm", lambda x: mx.fast.layer_norm(x, weight, bias, 1e-5)),
        ("softmax", lambda x: mx.softmax(x, axis=-1)),
        ("logsumexp", lambda x: mx.logsumexp(x, axis=-1)),
        ("mean of squares", lambda x: mx.mean(x * x, axis=-1)),
    ))
    return f"{name} {dtype} {rows}x{width}, rows {first} to {last}", bits(of(x)[first:last]), bits(of(x[first:last]))


CASES = (product, product, product, batched_product, biased_product, quantized_product, attention, attention, norm, norm)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--keep-going", action="store_true", help="say all rows that differ, not only the first")
    parser.add_argument("--large", action="store_true", help="sizes that need ZL_BATCH_INVARIANT=1")
    options = parser.parse_args()
    different = 0
    for i in range(options.count):
        random.seed(options.seed * 1_000_003 + i)
        mx.random.seed(options.seed * 1_000_003 + i)
        name, whole, part = random.choice(CASES)(options.large)
        if whole != part:
            values = [np.frombuffer(x, np.float64 if "float64" in name else np.float32) for x in (whole, part)]
            print(f"{name}: {(values[0] != values[1]).sum()} of {values[0].size} numbers differ; --seed {options.seed}, case {i}")
            different += 1
            if not options.keep_going:
                return 1
    if not different:
        print(f"{options.count} cases: rows do not depend on those beside them")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
