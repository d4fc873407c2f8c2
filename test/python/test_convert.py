# test_convert.py - Python values to arrays and back: dtypes of numbers and lists, errors, tolist and item.

import random
import unittest

import numpy as np
import zellige.core as zl

DTYPES = {
    zl.bool_: np.bool_, zl.uint8: np.uint8, zl.uint16: np.uint16, zl.uint32: np.uint32, zl.uint64: np.uint64,
    zl.int8: np.int8, zl.int16: np.int16, zl.int32: np.int32, zl.int64: np.int64, zl.float16: np.float16,
    zl.float32: np.float32, zl.float64: np.float64, zl.complex64: np.complex64,
}


class Numbers(unittest.TestCase):
    def test_own_dtypes(self):
        for value, dtype in [(True, zl.bool_), (1, zl.int32), (2**31 - 1, zl.int32), (2**31, zl.int64), (-(2**31), zl.int32),
                             (-(2**31) - 1, zl.int64), (1.5, zl.float32), (1j, zl.complex64), (np.float64(1), zl.float32),
                             (np.int8(1), zl.int8), (np.uint64(1), zl.uint64), (np.float16(1), zl.float16)]:
            for made in (zl.array(value), zl.asarray(value)):
                self.assertEqual(made.dtype, dtype, value)
                self.assertEqual(made.shape, ())
                self.assertEqual(made.item(), value)

    def test_given_dtypes(self):
        for dtype, numpy in DTYPES.items():
            for value in (True, 3, 2.75):
                made = zl.array(value, dtype)
                self.assertEqual(made.dtype, dtype)
                self.assertEqual(made.item(), np.array(value).astype(numpy).item())

    def test_numbers_wrap(self):
        self.assertEqual(zl.array(300, zl.uint8).item(), 44)
        self.assertEqual(zl.array(-1, zl.uint16).item(), 65535)
        self.assertEqual(zl.array([-1, 2**40 + 5], zl.int8).tolist(), [-1, 5])

    def test_too_big(self):
        for value in (2**63, -(2**63) - 1, 2**200):
            with self.assertRaises(OverflowError):
                zl.array(value)
            with self.assertRaises(OverflowError):
                zl.array([1, value])
            with self.assertRaises(OverflowError):
                zl.add(zl.array(1), value)
        self.assertEqual(zl.array([2**63, 1], zl.uint64).tolist(), [2**63, 1])
        self.assertEqual(zl.array([2**100, 0.5]).tolist(), [2.0**100, 0.5])
        self.assertEqual(zl.array(1e300).item(), float("inf"))

    def test_short_floats_round_as_numpy(self):
        rng = np.random.default_rng(0)
        bits = rng.integers(0, 2**32, 20000, dtype=np.uint32).view(np.float32)
        ties = (np.arange(0, 2**16, dtype=np.uint32) << 13).view(np.float32) + np.float32(0)
        values = np.concatenate([bits[np.isfinite(bits)], ties[np.isfinite(ties)],
                                 np.float32([65504, 65519.99, 65520, 65536, 6e-8, 2.98e-8, 2.981e-8, -0.0])])
        made = zl.array(values.tolist(), zl.float16)
        with np.errstate(over="ignore"):
            expected = values.astype(np.float16)
        np.testing.assert_array_equal(np.array(made).view(np.uint16), expected.view(np.uint16))
        whole = np.arange(2**16, dtype=np.uint16).view(np.float16)
        whole = whole[~np.isnan(whole)]
        back = zl.array(whole).tolist()
        np.testing.assert_array_equal(np.array(back, np.float32), whole.astype(np.float32))

    def test_bfloat16(self):
        self.assertEqual(zl.array([1.0, 1.00390625, 1.01171875, 3e38], zl.bfloat16).tolist()[:3], [1.0, 1.0, 1.015625])
        self.assertTrue(np.isnan(zl.array(float("nan"), zl.bfloat16).item()))

    def test_weak_numbers_keep_the_dtype_of_the_array(self):
        a = zl.array([1, 2], zl.float16)
        for number in (2, 2.5, True, np.float64(2), np.float32(2), np.int64(2)):
            self.assertEqual((a * number).dtype, zl.float16)
        self.assertEqual((a * 1j).dtype, zl.complex64)
        self.assertEqual((zl.array([1, 2], zl.int8) + 1).dtype, zl.int8)


class Lists(unittest.TestCase):
    def test_own_dtypes(self):
        for value, dtype in [([True], zl.bool_), ([True, 2], zl.int32), ([1, 2.5], zl.float32), ([True, 2.5], zl.float32),
                             ([1, 1j], zl.complex64), ([2**31], zl.int64), ([2**31, 1.0], zl.float32), ([], zl.float32),
                             ([[], []], zl.float32), ((1, 2), zl.int32), ([np.float32(1), 2], zl.float32),
                             ([np.int64(5)], zl.int32), ([np.bool_(1)], zl.bool_)]:
            self.assertEqual(zl.array(value).dtype, dtype, value)

    def test_shapes(self):
        for value in ([], [[]], [[], []], [1, 2], [[1], [2]], ((1, 2), [3, 4]), [[[1, 2]] * 3] * 4, [[[[5]]]]):
            made = zl.array(value)
            self.assertEqual(made.shape, np.array(value).shape)
            self.assertEqual(made.tolist(), np.array(value).tolist())

    def test_values(self):
        rng = random.Random(1)
        for size in (0, 1, 2, 255, 256, 257, 1000):
            floats = [rng.uniform(-1e5, 1e5) for _ in range(size)]
            np.testing.assert_array_equal(np.array(zl.array(floats)), np.array(floats, np.float32))
            mixed = [rng.choice([True, 7, 2.5]) for _ in range(size)] + [0.5]
            np.testing.assert_array_equal(np.array(zl.array(mixed)), np.array(mixed, np.float32))
            whole = [rng.randint(-(2**62), 2**62) for _ in range(size)] + [2**62]
            np.testing.assert_array_equal(np.array(zl.array(whole)), np.array(whole, np.int64))

    def test_given_dtypes(self):
        for dtype, numpy in DTYPES.items():
            for value in ([True, False], [1, 2, 100], [0.25, 2.75], [[1, 2.5]]):
                made = zl.array(value, dtype)
                self.assertEqual(made.dtype, dtype)
                self.assertEqual(made.tolist(), np.array(value).astype(numpy).tolist())
        self.assertEqual(zl.array([1.1], zl.float64).tolist(), [1.1])

    def test_arrays_inside(self):
        a = zl.array([1, 2])
        self.assertEqual(zl.array([a, a * 2]).tolist(), [[1, 2], [2, 4]])
        self.assertEqual(zl.array([a, [3, 4]]).tolist(), [[1, 2], [3, 4]])
        self.assertEqual(zl.array([a, [3, 4.5]]).dtype, zl.float32)
        self.assertEqual(zl.array([[zl.array(1), 2], [3, 4]]).tolist(), [[1, 2], [3, 4]])
        self.assertEqual(zl.array([a, a], zl.float16).dtype, zl.float16)
        self.assertEqual(zl.array([zl.array(2), 2**40]).dtype, zl.int64)

    def test_ragged(self):
        a = zl.array([1, 2])
        for value in ([[1], [2, 3]], [[1], 2], [1, [2]], [[1, 2], 3], [a, [1, 2, 3]], [a, 1], [1, a], [[a], [a, a]]):
            with self.assertRaises(ValueError):
                zl.array(value)

    def test_invalid(self):
        class Index:
            def __index__(self):
                return 1

        for value in (["a"], [None], "a", {1: 2}, {1}, range(3), [b"1"], object(), Index(), [Index()], [np.ones(2)]):
            with self.assertRaises(ValueError, msg=repr(value)):
                zl.array(value)
        for arguments in ((None,), (), (1, 2), (1, "float32")):
            with self.assertRaises(TypeError):
                zl.array(*arguments)
        with self.assertRaises(ValueError):
            zl.add([1, 2], 1)

    def test_hostile_lists(self):
        loop = []
        loop.append(loop)
        deep = 1
        for _ in range(100000):
            deep = [deep]
        for value in (loop, deep):
            with self.assertRaises(ValueError):
                zl.array(value)
        while isinstance(deep, list):  # split here: Python's own recursion is not what is tested
            deep = deep[0]

    def test_subclasses(self):
        class L(list):
            def __len__(self):
                return 100

            def __iter__(self):
                raise AssertionError

        class F(float):
            pass

        self.assertEqual(zl.array(L([1, F(2.5)])).tolist(), [1, 2.5])


class Objects(unittest.TestCase):
    def test_mlx_array_method(self):
        class Wrapper:
            def __mlx_array__(self):
                return zl.array([1, 2]) + 1

        self.assertEqual(zl.array(Wrapper()).tolist(), [2, 3])
        self.assertEqual(zl.array(Wrapper(), zl.float16).dtype, zl.float16)
        self.assertEqual(zl.add(Wrapper(), zl.array(1)).tolist(), [3, 4])

    def test_methods_that_fail(self):
        class Wrong:
            def __mlx_array__(self):
                return 5

        class Raises:
            def __mlx_array__(self):
                raise KeyError("no")

        class WrongNumpy:
            def __array__(self):
                return "no"

        with self.assertRaises(TypeError):
            zl.array(Wrong())
        with self.assertRaises(KeyError):
            zl.array(Raises())
        with self.assertRaises(TypeError):
            zl.array(WrongNumpy())

    def test_arrays(self):
        a = zl.array([1, 2])
        b = zl.array(a)
        self.assertIsNot(a, b)
        a += 1
        self.assertEqual((a.tolist(), b.tolist()), ([2, 3], [1, 2]))
        self.assertEqual(zl.array(a, zl.float32).dtype, zl.float32)


class Back(unittest.TestCase):
    def test_lists_of_every_dtype(self):
        for dtype, numpy in DTYPES.items():
            reference = (np.arange(24).reshape(2, 3, 4) % 7).astype(numpy)
            made = zl.array(reference, dtype)
            self.assertEqual(made.tolist(), reference.tolist())
            self.assertEqual(made.T.tolist(), reference.T.tolist())
            self.assertEqual(made[:, ::2, 1].tolist(), reference[:, ::2, 1].tolist())
            self.assertIs(type(made[0, 0, 0].item()), type(reference[0, 0, 0].item()))

    def test_extremes(self):
        for dtype in (zl.uint64, zl.int64, zl.int8, zl.uint8):
            info = zl.iinfo(dtype)
            self.assertEqual(zl.array([info.min, info.max], dtype).tolist(), [info.min, info.max])

    def test_items(self):
        self.assertEqual(zl.array([[5]]).item(), 5)
        for a in (zl.array([]), zl.array([1, 2])):
            with self.assertRaises(ValueError):
                a.item()
        self.assertEqual(zl.array(7).tolist(), 7)
        self.assertEqual(zl.zeros((2, 0)).tolist(), [[], []])
        self.assertEqual(zl.zeros((0, 2)).tolist(), [])

    def test_unevaluated(self):
        a = zl.array([1.0, 2.0]) * 3
        self.assertEqual(a.tolist(), [3, 6])
        self.assertEqual(zl.sum(a).item(), 9)


class Arguments(unittest.TestCase):
    def test_sizes(self):
        class Index:
            def __index__(self):
                return 3

        for shape, expected in [(3, (3,)), ((2, 3), (2, 3)), ([2, 3], (2, 3)), ((np.int64(2), Index()), (2, 3)), ((), ()),
                                ([1] * 20, (1,) * 20)]:
            self.assertEqual(zl.zeros(shape).shape, expected)
        for shape in (2.5, (2.5,), "ab", (None,), {"a": 1}):
            with self.assertRaises((TypeError, ValueError)):
                zl.zeros(shape)
        with self.assertRaises(OverflowError):
            zl.zeros((2**70,))

    def test_arrays_as_lists(self):
        x = zl.ones((2, 3))
        self.assertEqual(zl.broadcast_to(zl.ones((3,)), zl.array([2, 3])).shape, (2, 3))
        self.assertEqual(zl.reshape(x, zl.array([3, -1])).shape, (3, 2))
        self.assertEqual(zl.sum(x, zl.array([0, 1])).item(), 6)
        self.assertEqual(zl.sum(x, zl.array(1)).tolist(), [3, 3])
        self.assertEqual(zl.sum(x, zl.array([], zl.int32)).shape, (2, 3))
        with self.assertRaises(TypeError):
            zl.sum(x, zl.array([1.0]))

    def test_arrays_of_what_makes_them(self):
        """Items that nothing else holds."""
        x = zl.arange(6).reshape(2, 3)
        self.assertEqual(zl.stack(x).tolist(), x.tolist())
        self.assertEqual(zl.concatenate(x).tolist(), list(range(6)))
        self.assertEqual(zl.stack(row + 1 for row in x).tolist(), (x + 1).tolist())
        self.assertEqual(zl.einsum("i,i->", *(row * 1 for row in x)).item(), 14)
        with self.assertRaisesRegex(TypeError, "list or tuple of arrays"):
            zl.stack(3)

    def test_list_that_changes_while_it_is_read(self):
        class Clears:
            def __init__(self, to):
                self.to = to

            def __mlx_array__(self):
                self.to.clear()
                return zl.array([7, 8])

        for function in (zl.stack, zl.concatenate, zl.broadcast_arrays):
            items = [zl.arange(2) + 1, zl.arange(2) * 3]
            items.append(Clears(items))
            first = zl.array(function(items)[0])
            self.assertEqual(first.flatten()[0].item(), 1)

    def test_computed_sizes_fit_32_bits(self):
        big, side = zl.zeros(2**30), zl.zeros(2**16)
        for size, make in [(3 * 2**30, lambda: zl.concatenate([big] * 3)), (2**31, lambda: zl.repeat(big, 2)),
                           (2**32, lambda: zl.kron(side, side))]:
            with self.assertRaisesRegex(OverflowError, str(size)):
                make()
        self.assertEqual(zl.broadcast_to(big, (4, 2**30)).shape, (4, 2**30))  # each by itself

    def test_index_that_changes_its_list(self):
        sizes = [2, None, 3]

        class Index:
            def __index__(self):
                sizes.clear()
                return 2

        sizes[1] = Index()
        self.assertEqual(zl.zeros(sizes).shape, (2, 2, 3))


if __name__ == "__main__":
    unittest.main()
