# test_format.py - arrays as text.

import unittest

import numpy as np
import zellige.core as zl


class Arrays(unittest.TestCase):
    def test_numbers(self):
        for value, text in [(1.5, "array(1.5, dtype=float32)"), (True, "array(True, dtype=bool)"),
                            (7, "array(7, dtype=int32)"), ([1, 2], "array([1, 2], dtype=int32)"),
                            ([0.1, 1e-5, 1e5, 1e6, 123456789, -0.0], "array([0.1, 1e-05, 100000, 1e+06, 1.23457e+08, -0], "
                             "dtype=float32)"),
                            ([float("nan"), float("inf"), -float("inf")], "array([nan, inf, -inf], dtype=float32)"),
                            ([1 + 2j, -1 - 2j, complex(0, -0.0)], "array([1+2j, -1-2j, 0+-0j], dtype=complex64)"),
                            ([], "array([], dtype=float32)")]:
            self.assertEqual(repr(zl.array(value)), text)
            self.assertEqual(str(zl.array(value)), text)

    def test_dtypes(self):
        for dtype, text in [(zl.int8, "-5"), (zl.int64, "-5"), (zl.float16, "-5"), (zl.bfloat16, "-5"), (zl.float64, "-5"),
                            (zl.uint8, "251"), (zl.uint64, str(2**64 - 5)), (zl.bool_, "True"), (zl.complex64, "-5+0j")]:
            self.assertEqual(repr(zl.array(-5, dtype)), f"array({text}, dtype={repr(dtype)[9:]})")
        self.assertEqual(repr(zl.array([0.1], zl.float16)), "array([0.0999756], dtype=float16)")
        self.assertEqual(repr(zl.array([0.1], zl.bfloat16)), "array([0.100098], dtype=bfloat16)")

    def test_significant_digits_are_those_of_c(self):
        rng = np.random.default_rng(3)
        for value in rng.integers(0, 2**32, 2000, dtype=np.uint32).view(np.float32):
            if np.isfinite(value):
                self.assertEqual(repr(zl.array(float(value))), "array(%g, dtype=float32)" % value)

    def test_nesting(self):
        self.assertEqual(repr(zl.arange(6).reshape(2, 3)), "array([[0, 1, 2],\n       [3, 4, 5]], dtype=int32)")
        self.assertEqual(repr(zl.arange(4).reshape(2, 1, 2)), "array([[[0, 1]],\n       [[2, 3]]], dtype=int32)")
        self.assertEqual(repr(zl.zeros((1, 2, 2))), "array([[[0, 0],\n        [0, 0]]], dtype=float32)")
        self.assertEqual(repr(zl.zeros((2, 0))), "array([[],\n       []], dtype=float32)")
        self.assertEqual(repr(zl.zeros((0, 2))), "array([], dtype=float32)")

    def test_summaries(self):
        self.assertEqual(repr(zl.arange(6)), "array([0, 1, 2, 3, 4, 5], dtype=int32)")
        self.assertEqual(repr(zl.arange(7)), "array([0, 1, 2, ..., 4, 5, 6], dtype=int32)")
        rows = repr(zl.arange(80).reshape(8, 10)).split("\n")
        self.assertEqual(rows[0], "array([[0, 1, 2, ..., 7, 8, 9],")
        self.assertEqual(rows[3], "       ...,")
        self.assertEqual(rows[6], "       [70, 71, 72, ..., 77, 78, 79]], dtype=int32)")
        self.assertEqual(repr(zl.arange(80).reshape(10, 8).T).split("\n")[0], "array([[0, 8, 16, ..., 56, 64, 72],")

    def test_views_and_unevaluated(self):
        a = zl.arange(12).reshape(3, 4)
        self.assertEqual(repr(a[::2, 1]), "array([1, 9], dtype=int32)")
        self.assertEqual(repr(a[0] * 2 + 1), "array([1, 3, 5, 7], dtype=int32)")


class Formats(unittest.TestCase):
    def test_specs(self):
        self.assertEqual(f"{zl.array(1.5):.3f}", "1.500")
        self.assertEqual(f"{zl.array(2):d}", "2")
        self.assertEqual(f"{zl.array(1.5)}", "1.5")
        self.assertEqual(f"{zl.array([1.5])}", "array([1.5], dtype=float32)")
        for a in (zl.array([1.5]), zl.zeros((2, 2))):
            with self.assertRaises(TypeError):
                f"{a:.3f}"
        with self.assertRaises(ValueError):
            f"{zl.array(1.5):nonsense}"


class Options(unittest.TestCase):
    def tearDown(self):
        zl.set_printoptions()

    def test_precision(self):
        a = zl.array([3.14159265, 2.0])
        with zl.printoptions(precision=3):
            self.assertEqual(repr(a), "array([3.142, 2.000], dtype=float32)")
            with zl.printoptions(precision=0):
                self.assertEqual(repr(a), "array([3, 2], dtype=float32)")
            self.assertEqual(zl.get_printoptions().precision, 3)
        self.assertEqual(repr(a), "array([3.14159, 2], dtype=float32)")
        zl.set_printoptions(precision=1)
        self.assertEqual(repr(a), "array([3.1, 2.0], dtype=float32)")
        self.assertEqual(repr(zl.array([1.25 - 2j])), "array([1.2-2.0j], dtype=complex64)")
        self.assertEqual(repr(zl.array([1])), "array([1], dtype=int32)")

    def test_errors_leave_the_block(self):
        with self.assertRaises(KeyError):
            with zl.printoptions(precision=2):
                raise KeyError
        self.assertEqual(zl.get_printoptions().precision, -1)
        with self.assertRaises(TypeError):
            zl.set_printoptions("a")

    def test_objects(self):
        options = zl.PrintOptions(4)
        self.assertEqual(options.precision, 4)
        options.precision = 5
        self.assertEqual(options.precision, 5)
        self.assertEqual(zl.PrintOptions().precision, -1)


if __name__ == "__main__":
    unittest.main()
