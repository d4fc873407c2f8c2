"""array[key], array[key] = value, array.at[key] and iteration: by hand, and against NumPy with random keys.

ZL_LONG=1 tries 100,000 random keys instead of 2,000; ZL_SEED=n begins with another one.
"""

import gc
import os
import random
import sys
import unittest

import numpy as np

import zellige.core as mx

s_ = np.s_  # s_[1:, None] is the key of a[1:, None]
COUNT = 100_000 if os.environ.get("ZL_LONG") == "1" else 2_000
SEED = int(os.environ.get("ZL_SEED", "1"))


def both(*shape):
    """The same whole numbers as an array of ours and one of NumPy's."""
    a = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    return mx.array(a.ravel().tolist(), dtype=mx.int32).reshape(shape), a


def ours(key):
    """A key of NumPy's as one of ours: its arrays become arrays."""
    if isinstance(key, tuple):
        return tuple(ours(k) for k in key)
    if isinstance(key, np.ndarray):
        dtype = getattr(mx, key.dtype.name.replace("bool", "bool_"))
        return mx.array(key.ravel().tolist(), dtype=dtype).reshape(key.shape)
    return key


class Case(unittest.TestCase):
    def same(self, got, want, what=""):
        self.assertEqual(tuple(got.shape), want.shape, what)
        self.assertEqual(got.tolist(), want.tolist(), what)


class Reading(Case):
    def test_basic_keys(self):
        keys = [
            s_[0], s_[-1], s_[2], s_[:], s_[1:3], s_[::-1], s_[3:0:-2], s_[-2:], s_[5:2], s_[-100:100], s_[::7],
            s_[None], s_[...], s_[()], s_[0,], s_[0, 1], s_[0, 1, 2], s_[:, 1], s_[..., 1], s_[1, ...], s_[None, 0],
            s_[0, None, 1], s_[None, ..., None], s_[0:2, None, 1], s_[:, ::-1, 1::2], np.int64(1), np.array(1),
            np.uint8(2), s_[np.int32(1) :],
        ]  # fmt: skip
        a, n = both(4, 3, 5)
        for key in keys:
            self.same(a[key], n[key], repr(key))

    def test_arrays(self):
        i, j, two = np.array([0, 2]), np.array([1, -1]), np.array([[0], [2]])
        keys = [
            i, j, two, s_[i, j], s_[i, two], s_[:, i], s_[..., i], s_[0, i], s_[i, 0], s_[i, :, j], s_[0, :, i],
            s_[i, None, j], s_[None, i], s_[i, None], s_[1:3, i], s_[i, ::-1], s_[:, i, j], s_[i, j, two],
            s_[i, 1:2, None, two], s_[None, :, i, 1, None], s_[np.array(1), i], np.array(2), s_[:, np.array(-1)],
            s_[2:2, i], s_[:, :, two], s_[None, i, :, None, 1],
        ]  # fmt: skip
        a, n = both(4, 3, 5)
        for key in keys:
            self.same(a[ours(key)], n[key], repr(key))

    def test_index_dtypes(self):
        a, n = both(4, 3)
        for name in "uint8 uint16 uint32 uint64 int8 int16 int32 int64".split():
            self.same(a[mx.array([2, 0], dtype=getattr(mx, name))], n[[2, 0]], name)
        self.same(a[mx.array([-1, -4], dtype=mx.int8)], n[[-1, -4]])

    def test_lists(self):
        a, n = both(4, 3)
        self.same(a[[0, 2]], n[[0, 2]])
        self.same(a[[[0, 2], [1, 1]]], n[[[0, 2], [1, 1]]])
        self.same(a[:, [0, 2]], n[:, [0, 2]])
        self.same(a[[1, 0], [2, 2]], n[[1, 0], [2, 2]])

    def test_scalars_and_empty(self):
        s = mx.array(3)
        for key in (Ellipsis, (), None, (None, Ellipsis)):
            self.same(s[key], np.array(3)[key])
        for key in (0, slice(None), (0,), mx.array(0), [0], (Ellipsis, 0)):
            with self.assertRaises(ValueError):
                s[key]
        z, n = both(0, 3)
        for key in (slice(None), slice(0, 2), slice(None, None, -1), (Ellipsis, 1), np.zeros(0, np.int32)):
            self.same(z[ours(key)], n[key])

    def test_errors(self):
        a, _ = both(4, 3)
        for key in (4, -5, (0, 3), (0, -4), 2**40, -(2**70), (0, 0, 0), (mx.array([0]), 0, 0)):
            with self.assertRaises(IndexError):
                a[key]
            with self.assertRaises(ValueError):
                a[key]
        values = [
            1.0, "x", b"x", {1}, range(2), (0, (1, 2)), (0, 1.5), (..., ...), True, (0, True), np.array([0, 1]),
            (0, np.array([0, 1])), mx.array([True, False, True, True]), [True, False, True, True], mx.array(True),
            mx.array([0.5]), [0.5], ["x"], slice("a", None), s_[::0], s_[1.0:], s_[True:], object(),
            (0, mx.array([True, False, True])), (slice(None),) * 65, (None,) * 65,
        ]  # fmt: skip
        for key in values:
            with self.assertRaises(ValueError, msg=repr(key)):
                a[key]

    def test_views_share_memory(self):
        a = mx.arange(1_000_000)
        mx.eval(a)
        before = mx.get_active_memory()
        parts = [a[i : i + 10] for i in range(100)] + [a[i] for i in range(100)]
        mx.eval(*parts)
        self.assertLess(mx.get_active_memory() - before, 100_000)
        self.assertEqual(parts[7].tolist(), list(range(7, 17)))
        self.assertEqual(parts[107].item(), 7)


class Hostile(Case):
    """Objects that misbehave while a key is read."""

    def test_index_raises(self):
        class Bad:
            def __index__(self):
                raise KeyError("mine")

        a, _ = both(3, 4)
        for key in (Bad(), slice(Bad(), None), (0, Bad()), (mx.array([0]), Bad())):
            with self.assertRaises(KeyError):
                a[key]
            with self.assertRaises(KeyError):
                a[key] = 1

    def test_index_returns_nonsense(self):
        class Bad:
            def __index__(self):
                return "x"

        with self.assertRaises(TypeError):
            both(3)[0][Bad()]

    def test_index_assigns_the_array(self):
        a, _ = both(3, 4)
        index = mx.array([0, 1])

        class Bad:
            def __index__(self):
                a[...] = 7
                index[...] = 2
                gc.collect()
                return 1

        self.assertEqual(a[index, Bad()].tolist(), [7, 7])
        a, _ = both(3, 4)
        a[Bad()] = 5
        self.assertEqual(a.tolist(), [[7] * 4, [5] * 4, [7] * 4])

    def test_keys_in_themselves(self):
        a, _ = both(3)
        loop = []
        loop.append(loop)
        for use in (lambda: a[loop], lambda: a[0, loop], lambda: a.at[loop].add(1)):
            with self.assertRaises((ValueError, RecursionError)):
                use()
        at = a.at
        at[[at]]
        with self.assertRaises((ValueError, TypeError)):
            at.add(1)

    def test_empty_array_object(self):
        a = mx.array.__new__(mx.array)
        for use in (lambda: a[0], lambda: iter(a), lambda: a.at, lambda: a.__setitem__(0, 1), lambda: both(2)[0][a]):
            with self.assertRaises(Exception):
                use()

    def test_huge(self):
        a, n = both(3, 4)
        big = 2**31 - 1
        for s in (slice(-big, big), slice(big, -big, -1), slice(None, None, big), slice(None, None, -big - 1)):
            self.same(a[s], n[s])
        for number in (2**31, -(2**31) - 1, 2**32, sys.maxsize, 2**100, -(2**100)):
            for s in (slice(number), slice(number, None), slice(None, None, number)):
                with self.assertRaises(ValueError):
                    a[s]

    def test_references(self):
        a, _ = both(3, 4)
        i, key, value = mx.array([0, 1]), (slice(0, 2), [0, 1]), mx.array([7, 8])
        counts = [sys.getrefcount(o) for o in (a, i, key, value)]
        for _ in range(50):
            a[key], a[i], a[0], a[i, 1]
            a[key] = value
            a[i] = 3
            a.at[key].add(value)
            for use in (
                lambda: a[9],
                lambda: a["x"],
                lambda: a[i, "x"],
                lambda: a.at[9].add(1),
                lambda: a.__setitem__(0, mx.zeros((2, 2))),
            ):
                try:
                    use()
                except (ValueError, TypeError):
                    pass
            list(a)
        self.assertEqual([sys.getrefcount(o) for o in (a, i, key, value)], counts)


class Assigning(Case):
    def check(self, shape, key, value):
        a, n = both(*shape)
        a[ours(key)] = ours(value) if isinstance(value, np.ndarray) else value
        n[key] = value
        self.same(a, n, repr((key, value)))

    def test_basic_keys(self):
        keys = [
            s_[0], s_[-1], s_[:], s_[1:3], s_[::-1], s_[3:0:-2], s_[None], s_[...], s_[()], s_[0, 1], s_[0, 1, 2],
            s_[:, 1], s_[..., 1], s_[None, 0], s_[0, None, 1], s_[0:2, None, 1], s_[..., None], s_[5:2],
            s_[:, ::-1, 1::2], s_[1, :, 2], np.int64(1),
        ]  # fmt: skip
        for key in keys:
            shape = np.zeros((4, 3, 5))[key].shape
            for value in (7, -1, True, np.arange(1, 1 + int(np.prod(shape)), dtype=np.int32).reshape(shape)):
                self.check((4, 3, 5), key, value)
            if shape:
                self.check((4, 3, 5), key, np.array([9], dtype=np.int32))
                self.check((4, 3, 5), key, np.arange(shape[-1], dtype=np.int32).reshape((1, 1, 1, -1)))

    def test_arrays(self):
        i, j, two = np.array([0, 2]), np.array([1, -1]), np.array([[0], [2]])
        keys = [
            i, two, s_[i, j], s_[i, two], s_[:, i], s_[..., i], s_[0, i], s_[i, 0], s_[i, :, j], s_[0, :, i],
            s_[i, None, j], s_[None, i], s_[1:3, i], s_[i, ::-1], s_[::2, i, j], s_[i, j, two],
            s_[i, 1:2, None, two], np.array(2), s_[2:2, i], s_[:, :, two], [0, 2], s_[:, [0, 2]], s_[-2:, 1:9, i],
        ]  # fmt: skip
        for key in keys:
            shape = np.zeros((4, 3, 5))[key].shape
            self.check((4, 3, 5), key, 7)
            self.check((4, 3, 5), key, np.arange(1, 1 + int(np.prod(shape)), dtype=np.int32).reshape(shape))

    def test_casts_to_the_array(self):
        a = mx.array([1, 2, 3])
        a[0] = 1.7
        for number in (2**31, -(2**31) - 1, 2**64):
            with self.assertRaises((ValueError, OverflowError)):
                a[2] = number
            with self.assertRaises((ValueError, OverflowError)):
                a.at[2].add(number)
        a[mx.array([1])] = mx.array([9.5])
        self.assertEqual((a.tolist(), a.dtype), ([1, 9, 3], mx.int32))
        b = mx.array([1.0, 2.0], dtype=mx.float16)
        b[1] = np.float64(0.5)
        self.assertEqual((b.tolist(), b.dtype), ([1.0, 0.5], mx.float16))

    def test_masks(self):
        row = np.array([True, False, True, False])
        cases = [(row, 7), (row, np.array([1, 2, 3])), (row, np.arange(6).reshape(2, 3)), (~row & row, 7)]
        cases += [(np.arange(12).reshape(4, 3) % 3 == 1, np.array([9, 8, 7, 6]))]
        cases += [(np.array(True), 5), (np.array(False), 5)]
        for mask, value in cases:
            if isinstance(value, np.ndarray):
                value = value.astype(np.int32)
            self.check((4, 3), mask, value)
        for mask in (row, [True, False, True, False]):
            a, n = both(4, 3)
            a[mask] = 7
            n[mask] = 7
            self.same(a, n)
        a, _ = both(4, 3)
        a[True] = 1
        a[False] = 2
        self.assertEqual(a.tolist(), [[1] * 3] * 4)
        full = mx.array([True] * 4)
        for mask in (mx.array([True, False]), np.zeros((1, 3), bool), np.zeros((4, 3, 1), bool), (full,), (full, 0)):
            with self.assertRaises(ValueError):
                a[mask] = 0

    def test_errors(self):
        a, n = both(4, 3)
        values = [
            (0, mx.array([1, 2])), (0, mx.array([[1, 2, 3], [1, 2, 3]])), (s_[0:2], mx.zeros((3, 1))), (4, 1),
            (s_[0, 3], 1), (s_[0, 0, 0], 1), ("x", 1), ((0, "x"), 1), (1.5, 1), ((0, True), 1), (np.array([0, 1]), 1),
            (s_[..., ...], 1), (s_[::0], 1), (mx.array([0.5]), 1), (mx.array([0, 1]), mx.zeros((3, 3))), (0, "x"),
        ]  # fmt: skip
        for key, value in values:
            with self.assertRaises(ValueError, msg=repr((key, value))):
                a[key] = value
        with self.assertRaises((TypeError, ValueError)):
            a[0] = None
        with self.assertRaises((TypeError, AttributeError)):
            del a[0]
        self.same(a, n)

    def test_others_keep_their_value(self):
        a, _ = both(3)
        b, c = a + 0, a[:]
        a[0] = 9
        self.assertEqual((a.tolist(), b.tolist(), c.tolist()), ([9, 1, 2], [0, 1, 2], [0, 1, 2]))

    def test_scalars(self):
        for key in (Ellipsis, None, ()):
            s = mx.array(3)
            s[key] = 1
            self.assertEqual(s.item(), 1)
        with self.assertRaises(ValueError):
            s[0] = 1


class At(Case):
    OPS = ["add", "subtract", "multiply", "maximum", "minimum"]

    def test_against_numpy(self):
        i = np.array([0, 2, 0])
        one = np.array([1, 1, 1])
        keys = [0, s_[1:3], s_[:, 1], i, s_[i, one], s_[:, i], s_[0, i], s_[::2, i], s_[1:, i], (), ..., [0, 0]]
        for name in self.OPS:
            for key in keys:
                a, n = both(4, 3)
                m = n.copy()
                getattr(np, name).at(m, key, 2)
                self.same(getattr(a.at[ours(key)], name)(2), m, (name, key))
                self.same(a, n)

    def test_divide(self):
        a = mx.array([8.0, 4.0, 2.0])
        self.assertEqual(a.at[mx.array([0, 0, 1])].divide(2).tolist(), [2.0, 2.0, 2.0])
        self.assertEqual(a.at[1:].divide(mx.array([2.0, 4.0])).tolist(), [8.0, 2.0, 0.5])
        self.assertEqual(a.at[...].divide(2).tolist(), [4.0, 2.0, 1.0])
        whole = mx.array([6, 3])
        self.assertEqual(whole.at[0].divide(1.5).tolist(), [0, 3])  # times 1 / 1.5, cut off
        self.assertEqual(whole.at[...].divide(1.5).tolist(), [4.0, 2.0])

    def test_the_object(self):
        a, _ = both(3)
        at = a.at[0]
        a[0] = 100
        self.assertEqual(at.add(value=1).tolist(), [1, 1, 2])
        self.assertEqual(at[1].add(5).tolist(), [0, 6, 2])
        for use in (lambda: a.at.add(1), lambda: a.at[True].add(1), lambda: a.at[mx.array([True, False, True])].add(1)):
            with self.assertRaises(ValueError):
                use()
        for use in (lambda: mx.ArrayAt(), lambda: a.at[0].add(), lambda: a.at[0].add(1, 2)):
            with self.assertRaises(TypeError):
                use()


class Iterating(Case):
    def test_iteration(self):
        a, n = both(12, 2)
        got = list(a)
        self.assertEqual(len(got), 12)
        for x, y in zip(got, n):
            self.same(x, y)
        x, y = mx.array([[1, 2], [3, 4]])
        self.assertEqual((x.tolist(), y.tolist()), ([1, 2], [3, 4]))
        self.assertEqual([v.item() for v in mx.array([5, 6])], [5, 6])
        self.assertEqual(list(mx.zeros((0, 3))), [])

    def test_the_object(self):
        a, _ = both(2)
        it = iter(a)
        self.assertIs(iter(it), it)
        self.assertIsInstance(it, mx.ArrayIterator)
        a[0] = 9
        self.assertEqual([next(it).item(), next(it).item()], [0, 1])
        self.assertRaises(StopIteration, next, it)
        self.assertRaises(StopIteration, next, it)
        self.assertRaises(TypeError, mx.ArrayIterator)
        self.assertRaises(TypeError, iter, mx.array(1))
        self.assertRaises(TypeError, len, mx.array(1))
        self.assertEqual(len(mx.zeros((7, 2))), 7)


class Gradients(Case):
    def test_through_keys(self):
        a = mx.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        i = np.array([2, 2, 0])
        for key in (s_[0,], s_[:, 1], s_[:, ::-2], s_[i[2:],], s_[0, i], s_[..., i]):
            want = np.zeros((2, 3))
            np.add.at(want, key, 1)
            self.same(mx.grad(lambda x: x[ours(key)].sum())(a), want, repr(key))

    def test_through_assignment(self):
        def f(x, v):
            y = x * 2
            y[mx.array([0, 1]), 1] = v
            return (y * y).sum()

        a, v = mx.array([[1.0, 2.0], [3.0, 4.0]]), mx.array([5.0, 6.0])
        da, dv = mx.grad(f, argnums=(0, 1))(a, v)
        self.assertEqual((da.tolist(), dv.tolist()), ([[8.0, 0.0], [24.0, 0.0]], [10.0, 12.0]))


class Fuzz(Case):
    """Random keys: NumPy and we give the same answer, or both refuse."""

    def entry(self, r, size):
        kind = r.randrange(10)
        if kind < 3:
            low = -size - (r.random() < 0.02)
            return r.randrange(low, max(size, low + 1)) if size else 0
        if kind < 6:
            number = lambda: r.choice([None, None, r.randrange(-size - 2, size + 3)])
            return slice(number(), number(), r.choice([None, 1, 2, -1, -2, 3, r.randrange(1, 9)]))
        if kind < 8 and size:
            shape = r.choice([(), (2,), (3,), (1,), (2, 1), (1, 3), (2, 3), (0,)])
            name = r.choice(["int32", "int64", "int8", "uint32"])
            low = 0 if name[0] == "u" else -size
            return np.array([r.randrange(low, size) for _ in range(int(np.prod(shape)))], dtype=name).reshape(shape)
        if kind == 8 and size:
            return [r.randrange(-size, size) for _ in range(r.randrange(1, 4))]
        return slice(None)

    def key(self, r, shape):
        """Entries for the first axes, and perhaps an ellipsis and entries for the last.

        The ellipsis stands for an axis at least: one that does not separates arrays in NumPy, but not in MLX.
        """
        first = r.randrange(len(shape) + 1)
        entries = [self.entry(r, size) for size in shape[:first]]
        if first < len(shape) and r.random() < 0.3:
            last = r.randrange(len(shape) - first)
            entries += [Ellipsis] + [self.entry(r, size) for size in shape[len(shape) - last :]]
        for _ in range(r.choice([0, 0, 0, 1, 2])):
            entries.insert(r.randrange(len(entries) + 1), None)
        return entries[0] if len(entries) == 1 and r.random() < 0.5 else tuple(entries)

    def value(self, r, shape):
        if not shape or r.random() < 0.3:
            return r.randrange(100)
        dim = [1 if r.random() < 0.2 else size for size in shape]
        if dim and r.random() < 0.05:
            dim[r.randrange(len(dim))] += 1
        lead = 0
        while lead < len(dim) and r.random() < 0.2:
            lead += 1
        dim = [1] * r.choice([0, 0, 0, 1, 2]) + dim if not lead else dim[lead:]
        return np.array([r.randrange(1000) for _ in range(int(np.prod(dim)))], dtype=np.int32).reshape(dim)

    def attempt(self, f):
        try:
            return f()
        except (ValueError, IndexError) as e:
            return e

    def compare(self, got, want, what):
        if isinstance(want, Exception):
            self.assertIsInstance(got, Exception, what)
        else:
            self.assertNotIsInstance(got, Exception, f"{what}: {got}")
            self.same(got, np.asarray(want), what)

    def shape(self, r):
        return tuple(r.choice([1, 2, 3, 4, 5]) if r.random() < 0.97 else 0 for _ in range(r.randrange(1, 5)))

    def test_reading(self):
        for seed in range(SEED, SEED + COUNT // 2):
            r = random.Random(seed)
            shape = self.shape(r)
            a, n = both(*shape)
            key = self.key(r, shape)
            what = f"ZL_SEED={seed}: shape {shape}, key {key!r}"
            self.compare(self.attempt(lambda: a[ours(key)]), self.attempt(lambda: n[key]), what)

    def test_assigning(self):
        for seed in range(SEED, SEED + COUNT // 2):
            r = random.Random(-seed)
            shape = self.shape(r)
            a, n = both(*shape)
            key = self.key(r, shape)
            part = self.attempt(lambda: n[key])
            value = self.value(r, () if isinstance(part, Exception) else np.shape(part))
            what = f"ZL_SEED={seed}: shape {shape}, key {key!r}, value {value!r}"
            mine = ours(value) if isinstance(value, np.ndarray) else value

            def assign(x, k, v):
                x[k] = v
                return x

            got = self.attempt(lambda: assign(a, ours(key), mine))
            self.compare(got, self.attempt(lambda: assign(n, key, value)), what)

    def junk(self, r):
        """What has no business in a key, and positions that are not there."""
        far = [r.randrange(-(2**31), 2**31) for _ in range(r.randrange(4))]
        return r.choice([
            None, ..., True, 0, -1, 2**31, -(2**63), 2**200, 1.5, 1j, "0", b"0", (), [], [[]], [1.5], [None], {}, {0},
            int, len, object(), range(3), s_[: 2**40], s_[::0], slice("a"), s_[-(2**31) : 2**31 - 1 : -1], [far], far,
            np.zeros((2, 2)), np.array(1), np.int8(1), np.array(["a"]), np.True_, np.zeros(3, bool), memoryview(b"12"),
            mx.array(far or [0], dtype=mx.int64), mx.array(7, dtype=mx.uint64), mx.array(-9), mx.array([True, False]),
            mx.array(True), mx.array([]), mx.zeros((0,), dtype=mx.int32), mx.zeros((2, 0, 3), dtype=mx.int8),
            mx.array([1j]), mx.zeros((1,) * 40, dtype=mx.int32), Exception, float("nan"),
        ])  # fmt: skip

    def test_junk(self):
        allowed = (ValueError, IndexError, TypeError, OverflowError, RuntimeError)
        for seed in range(SEED, SEED + COUNT // 2):
            r = random.Random(seed)
            shape = self.shape(r)
            key = tuple(self.junk(r) for _ in range(r.randrange(5)))
            key = self.junk(r) if r.random() < 0.3 else key
            a, _ = both(*shape)
            odd = [0, 1.5, "x", None, [1], 2**70, np.zeros(2), a]
            value = r.choice(odd + [mx.array([]), mx.zeros((1,) * 70), mx.zeros((3, 1))])

            def assign():
                a[key] = value
                a.tolist()

            uses = [lambda: a[key], lambda: a.at[key].add(value), lambda: a.at[key].divide(value)]
            for use in [assign] + uses:
                try:
                    result = use()
                    result is None or result.tolist()
                except allowed:
                    pass
            self.assertEqual(tuple(a.shape), shape)


if __name__ == "__main__":
    unittest.main()
