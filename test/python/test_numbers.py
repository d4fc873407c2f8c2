"""Numbers far apart, with NumPy as the oracle: division with remainder, comparisons, statistics and other composed ops.

Operands are all pairs of each dtype's extremes, subnormal numbers, infinities, powers of two and small numbers. Division is
compared bit by bit, integers exactly.
"""

import itertools
import operator
import unittest

import numpy as np

import zellige.core as mx

FLOATS = ["float16", "float32", "float64"]
NATURALS = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = NATURALS + ["int8", "int16", "int32", "int64"]


def extremes(dtype):
    if dtype == "bool":
        return np.array([False, True])
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        near = [x for x in (-3, -2, -1, 0, 1, 2, 3, 7, 100) if x >= info.min]
        powers = [2**k + d for k in range(0, info.bits, 3) for d in (-1, 0, 1)]
        return np.array([x for x in near + powers + [info.min, info.min + 1, info.max // 2, info.max - 1, info.max] if x <= info.max], dtype)
    info = np.finfo(dtype)
    least = info.smallest_subnormal
    digits = 2.0 ** (info.nmant + 1)
    sizes = [0, 1, 2, 3, 7, 0.1, 0.5, 1.5, 6.25, 1000, 1e9, 1e18, 1e-40, 1e-7, digits - 1, digits, digits + 2, info.max, info.max / 2,
             float(info.max) * 0.75, info.tiny, info.tiny * 1.5, least, 3 * least, 1 - info.epsneg, 1 + info.eps, np.inf, np.nan]
    with np.errstate(all="ignore"):
        return np.array(sizes + [-x for x in sizes]).astype(dtype)


def pairs(dtype, other=None):
    return [x.ravel() for x in np.meshgrid(extremes(dtype), extremes(other or dtype))]


def array(x):
    """An array of that dtype: as in MLX, one of float64 becomes one of float32 unless its dtype is given."""
    return mx.array(x, getattr(mx, "bool_" if x.dtype == bool else x.dtype.name))


def assert_same(got, want, what, a, b):
    """The same bits; one NaN is as good as another."""
    got = np.array(got)
    assert got.dtype == want.dtype, f"{what}: {got.dtype} instead of {want.dtype}"
    same = (got == want) & (np.signbit(got) == np.signbit(want)) if want.dtype.kind == "f" else got == want
    if want.dtype.kind == "f":
        same |= np.isnan(got) & np.isnan(want)
    for i in np.flatnonzero(~same)[:1]:
        raise AssertionError(f"{what} of {a[i]!r} and {b[i]!r}: {got[i]!r} instead of {want[i]!r}; {np.sum(~same)} of {same.size} differ")


class Division(unittest.TestCase):
    def test_floats(self):
        for dtype in FLOATS:
            a, b = pairs(dtype)
            with np.errstate(all="ignore"):
                quotient, rest = np.divmod(a, b)
                assert_same(mx.remainder(array(a), array(b)), np.remainder(a, b), f"remainder {dtype}", a, b)
                assert_same(array(a) % array(b), a % b, f"% {dtype}", a, b)
                for what, both in [("mx.divmod", mx.divmod), ("divmod", divmod)]:
                    got = both(array(a), array(b))
                    assert_same(got[0], quotient, f"{what} {dtype}, quotient", a, b)
                    assert_same(got[1], rest, f"{what} {dtype}, remainder", a, b)
                if dtype != "float16":  # which is divided in float32, not rounded in between
                    assert_same(array(a) // array(b), np.floor(a / b), f"// {dtype}, as in MLX", a, b)

    def test_one_number_for_all(self):
        for dtype in FLOATS:
            a = extremes(dtype)
            for x in a:
                with np.errstate(all="ignore"):
                    assert_same(mx.remainder(array(a), array(x)), np.remainder(a, x), f"remainder {dtype}", a, np.full_like(a, x))
                    assert_same(mx.remainder(array(x), array(a)), np.remainder(x, a), f"remainder {dtype}", np.full_like(a, x), a)

    def test_bfloat16_is_rounded_float32(self):
        a, b = (np.array(array(x).astype(mx.bfloat16).astype(mx.float32)) for x in pairs("float32"))
        with np.errstate(all="ignore"):
            for got, want in zip(mx.divmod(array(a).astype(mx.bfloat16), array(b).astype(mx.bfloat16)), np.divmod(a, b)):
                want = np.array(array(want).astype(mx.bfloat16).astype(mx.float32))
                assert_same(got.astype(mx.float32), want, "divmod bfloat16", a, b)

    def test_compiled_and_fused(self):
        a, b = pairs("float32")
        f = mx.compile(lambda a, b: (a * 1) % (b * 1) * 1)
        with np.errstate(all="ignore"):
            for _ in range(3):
                assert_same(f(array(a), array(b)), a % b, "compiled remainder", a, b)

    def test_slope_by_the_divisor(self):
        a, b = pairs("float32")
        quotient = mx.divmod(array(a), array(b))[0]
        slope = mx.grad(lambda b: mx.remainder(array(a), b).sum())(array(b))
        assert_same(slope, -np.array(quotient), "slope", a, b)

    def test_integers(self):
        for dtype in INTEGERS:
            a, b = pairs(dtype)
            with np.errstate(all="ignore"):
                quotient, rest = np.divmod(a, b)
            rest = np.where(b == 0, a, rest)  # ours by zero: the quotient is 0, the rest is a
            for got in [mx.divmod(array(a), array(b)), (array(a) // array(b), array(a) % array(b))]:
                assert_same(got[0], quotient, f"quotient {dtype}", a, b)
                assert_same(got[1], rest, f"remainder {dtype}", a, b)


class Closeness(unittest.TestCase):
    def test_integers(self):
        tolerances = [(1e-5, 1e-8), (0, 0), (0, 1), (0.5, 0)]
        for t, u in itertools.product(["bool"] + INTEGERS, repeat=2):
            a, b = pairs(t, u)
            for rtol, atol in tolerances:
                want = np.isclose(a, b, rtol, atol)
                assert_same(mx.isclose(array(a), array(b), rtol, atol), want, f"isclose {t} {u} {rtol} {atol}", a, b)
                self.assertEqual(mx.allclose(array(a), array(b), rtol, atol).item(), bool(want.all()))

    def test_floats_and_complex(self):
        for dtype in ["float32", "float64"]:
            a, b = pairs(dtype)
            for equal_nan in [False, True]:
                with np.errstate(all="ignore"):
                    want = np.isclose(a, b, equal_nan=equal_nan)
                assert_same(mx.isclose(array(a), array(b), equal_nan=equal_nan), want, f"isclose {dtype}", a, b)
        parts = np.array([0, 1, -1, 1 + 1e-7, 1e30, -1e30], "float32")
        re, im = (x.ravel() for x in np.meshgrid(parts, parts))
        a, b = (x.ravel() for x in np.meshgrid((re + 1j * im).astype("complex64"), (re + 1j * im).astype("complex64")))
        assert_same(mx.isclose(array(a), array(b)), np.isclose(a, b), "isclose complex64", a, b)


class Integers(unittest.TestCase):
    """Composed ops whose mathematics does not wrap around."""

    def test_order(self):
        for dtype in INTEGERS:
            a, b = pairs(dtype)
            for f, g in [(mx.maximum, np.maximum), (mx.minimum, np.minimum), (operator.lt,) * 2, (operator.ge,) * 2, (operator.eq,) * 2]:
                assert_same(f(array(a), array(b)), g(a, b), f"{g.__name__} {dtype}", a, b)
            low, high = np.minimum(a, b), np.maximum(a, b)
            x = np.resize(extremes(dtype), a.shape)
            assert_same(mx.clip(array(x), array(low), array(high)), np.clip(x, low, high), f"clip {dtype}", low, high)
            assert_same(mx.sign(array(a)), np.sign(a), f"sign {dtype}", a, a)

    def test_statistics(self):
        for dtype in INTEGERS:
            x = extremes(dtype)[:-1]
            exact = x.astype("float64")
            self.near(mx.mean(array(x)), exact.mean(), f"mean {dtype}")
            self.near(mx.median(array(x)), np.median(exact), f"median {dtype}")
            for order in [1, np.inf, -np.inf]:
                self.near(mx.linalg.norm(array(x), order), np.linalg.norm(exact, order), f"norm {dtype} {order}")
            self.near(mx.linalg.norm(array(x[:6].reshape(2, 3)), 1), np.linalg.norm(exact[:6].reshape(2, 3), 1), f"norm {dtype} of a matrix")
            if x.dtype.itemsize < 8:  # squares of larger ones are beyond float32
                self.near(mx.var(array(x)), exact.var(), f"var {dtype}")
                self.near(mx.std(array(x)), exact.std(), f"std {dtype}")
                self.near(mx.linalg.norm(array(x)), np.linalg.norm(exact), f"norm {dtype}")

    def test_means_of_many(self):
        for dtype, count in [("uint8", 2**25), ("int16", 2**17), ("uint16", 2**17)]:
            top = np.iinfo(dtype).max
            self.near(mx.mean(mx.full((count,), top, getattr(mx, dtype))), top, f"mean of {count} {dtype}")

    def near(self, got, want, what):
        self.assertTrue(np.isclose(got.item(), want, 1e-5), f"{what}: {got.item()} instead of {want}")

    def test_ranges(self):
        for dtype in INTEGERS:
            info = np.iinfo(dtype)
            t = getattr(mx, dtype)
            high = min(info.max, 2**63 - 1)  # arguments are numbers of 64 bits with a sign
            self.assertEqual(mx.arange(high - 5, high, 2, dtype=t).tolist(), [high - 5, high - 3, high - 1])
            self.assertEqual(mx.arange(info.min + 3, info.min, -1, dtype=t).tolist(), [info.min + 3, info.min + 2, info.min + 1])


if __name__ == "__main__":
    unittest.main()
