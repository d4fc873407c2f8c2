"""What stopped earlier ports of MLX to Vulkan, under the names of MLX's tests, with NumPy as the oracle.

It runs on whatever ZL_DEVICE names, and there without falling back to the CPU: test/scripts/vulkan_native.sh runs it on lavapipe. Bounds are
the same everywhere.
"""

import itertools
import math
import os
import threading
import unittest
from unittest import mock

import numpy as np

import zellige.core as mx

BOUNDS = {"float32": 1e-5, "float16": 2e-3}  # of sums of products, relative to their sizes
DTYPES = [mx.bool_, mx.uint8, mx.uint16, mx.uint32, mx.uint64, mx.int8, mx.int16, mx.int32, mx.int64,
          mx.float16, mx.bfloat16, mx.float32, mx.float64, mx.complex64]


def setUpModule():
    global native
    native = mock.patch.dict(os.environ, {"ZL_NO_FALLBACK": "1"})
    native.start()


def tearDownModule():
    native.stop()


def falling_back():
    """A context in which calls may run on the CPU, because the device cannot."""
    return mock.patch.dict(os.environ, {"ZL_NO_FALLBACK": "0"})


class Case(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(0)

    def some(self, shape, dtype="float32"):
        return self.random.normal(0, 1, shape).astype(dtype)

    def check(self, got, want, bound=1e-5):
        got = np.array(got)
        self.assertEqual(got.shape, want.shape)
        np.testing.assert_allclose(got, want, rtol=bound, atol=bound * max(1.0, float(np.abs(want).max(initial=0))))

    def check_product(self, a, b, mine=None):
        x, y = mine or (mx.array(a), mx.array(b))
        self.check(x @ y, (a.astype("float64") @ b.astype("float64")).astype(a.dtype), BOUNDS[str(a.dtype)])


class Products(Case):
    def test_matmul_batched(self):
        a, b, c = self.some((8, 32, 16)), self.some((8, 16, 16)), self.some((16, 16))
        self.check_product(a, b)
        self.check_product(a, c)
        self.check_product(a, np.swapaxes(a, 1, 2), (mx.array(a), mx.swapaxes(mx.array(a), 1, 2)))
        wide = mx.broadcast_to(mx.array(c), (5, 16, 16))
        self.check_product(np.broadcast_to(c, (5, 16, 16)), np.broadcast_to(c, (5, 16, 16)), (wide, wide))
        self.check_product(self.some((2, 1, 5, 7)), self.some((3, 7, 4)))
        self.assertEqual((mx.zeros((0, 3, 4)) @ mx.zeros((0, 4, 5))).shape, (0, 3, 5))
        self.assertEqual((mx.zeros((2, 3, 0)) @ mx.zeros((2, 0, 5))).tolist(), np.zeros((2, 3, 5)).tolist())

    def test_matmul_shapes(self):
        shapes = [(1, 2, 1, 1), (1, 1, 2, 1), (2, 23, 57, 3), (1, 64, 64, 200), (1, 33, 17, 129)]
        for dtype, (batch, m, n, k), (left, right) in itertools.product(BOUNDS, shapes, itertools.product((0, 1), repeat=2)):
            with self.subTest(dtype=dtype, shape=(batch, m, n, k), transposed=(left, right)):
                a, b = self.some((batch, m, k), dtype), self.some((batch, k, n), dtype)
                x = mx.swapaxes(mx.array(np.swapaxes(a, 1, 2).copy()), 1, 2) if left else mx.array(a)
                y = mx.swapaxes(mx.array(np.swapaxes(b, 1, 2).copy()), 1, 2) if right else mx.array(b)
                self.check_product(a, b, (x, y))

    def test_matrix_vector_batched(self):
        for dtype in BOUNDS:
            for left, right in [((8, 32, 64), (8, 64, 1)), ((32, 64), (8, 64, 1)), ((8, 32, 64), (64, 1)),
                                ((2, 1, 4, 1, 6, 32), (2, 1, 4, 4, 32, 1)), ((8, 1, 32), (8, 32, 64)), ((8, 1, 32), (32, 64)),
                                ((1, 32), (8, 32, 64)), ((1, 8, 4, 1, 32), (1, 8, 1, 32, 6))]:
                with self.subTest(dtype=dtype, left=left, right=right):
                    self.check_product(self.some(left, dtype), self.some(right, dtype))

    def test_gather_mm_sorted(self):
        a, b = self.some((40, 1, 20)), self.some((8, 20, 20))
        rhs = np.sort(self.random.integers(0, 8, 40))
        for transposed in (False, True):
            y = mx.swapaxes(mx.array(b), -1, -2) if transposed else mx.array(b)
            z = np.swapaxes(b, -1, -2) if transposed else b
            got = mx.gather_mm(mx.array(a), y, rhs_indices=mx.array(rhs), sorted_indices=True)
            self.check(got, (a.astype("float64") @ z[rhs]).astype("float32"))


class Functions(Case):
    def check_function(self, name, values):
        for dtype, bound in (("float32", 1e-6), ("float16", 1e-3)):
            x = np.array(values, dtype)
            self.check(getattr(mx, name)(mx.array(x)), getattr(np, name)(x.astype("float64")).astype(dtype), bound)
        self.check(getattr(mx, name)(mx.array(1.0) + 2j), np.array(getattr(np, name)(1 + 2j), "complex64"), 1e-6)

    ANGLES = [0, math.pi / 4, math.pi / 2, math.pi, 3 * math.pi / 4, 2 * math.pi, -1, 100]

    def test_sin(self):
        self.check_function("sin", self.ANGLES)
        large = np.array([1e8, 1e9, 1e10, 1e20, 1e30], "float32")
        for name in ("sin", "cos"):
            self.check(getattr(mx, name)(mx.array(large)), getattr(np, name)(large.astype("float64")), 1e-6)

    def test_cos(self):
        self.check_function("cos", self.ANGLES)

    def test_log2(self):
        self.check_function("log2", [0.5, 1, 2, 10, 16])

    def test_log10(self):
        self.check_function("log10", [0.1, 1, 10, 20, 100])

    def test_rsqrt(self):
        x = np.array([0.1, 0.5, 1, 10, 1e-4], "float32")
        self.check(mx.rsqrt(mx.array(x)), (1 / np.sqrt(x.astype("float64"))).astype("float32"), 1e-6)

    def test_gradients_of_inverse_functions(self):
        slopes = {"arcsin": (lambda x: 1 / np.sqrt(1 - x**2), [-0.9, -0.3, 0, 0.5, 0.99]),
                  "arccos": (lambda x: -1 / np.sqrt(1 - x**2), [-0.9, -0.3, 0, 0.5, 0.99]),
                  "arcsinh": (lambda x: 1 / np.sqrt(x**2 + 1), [-30, -0.5, 0, 0.5, 30]),
                  "arccosh": (lambda x: 1 / np.sqrt(x**2 - 1), [1.01, 1.5, 2, 30, 1000])}
        for name, (slope, values) in slopes.items():
            with self.subTest(name):
                got = mx.grad(lambda x: getattr(mx, name)(x).sum())(mx.array(values))
                self.check(got, slope(np.array(values, "float32").astype("float64")).astype("float32"), 1e-5)

    def test_unary_ops_from_non_array(self):
        for name in ("abs exp log square sqrt sin cos tan sinh cosh tanh sign negative expm1 arcsin arccos arctan arcsinh arctanh degrees "
                     "radians log2 log10 log1p floor ceil").split():
            x = 0.5
            self.check(getattr(mx, name)(x), np.array(getattr(np, name)(x), "float32"), 1e-6)

    def test_arange_corner_cases_cast(self):
        for arguments, want in [((0, 3, 0.2), [0] * 15), ((-1, -4, -0.9), [-1] * 4), ((-1, -20, -1.2), list(range(-1, -17, -1)))]:
            got = mx.arange(*arguments, dtype=mx.int32)
            self.assertEqual((got.tolist(), got.dtype), (want, mx.int32))
        self.assertEqual(mx.arange(0, 5, 2, dtype=mx.bfloat16).tolist(), [0, 2, 4])
        for empty in (mx.arange(0), mx.arange(5, 1)):
            self.assertEqual(empty.size, 0)


class Evaluation(Case):
    def test_async_eval(self):
        x = mx.array([1, 2, 3])
        y = 2 * x
        mx.async_eval(y)
        z = 2 * y
        mx.async_eval(z)
        self.assertEqual((y.tolist(), z.tolist()), ([2, 4, 6], [4, 8, 12]))

    def test_async_eval_twice(self):
        for _ in range(200):
            x = mx.array(1) + mx.array([1]) + mx.array(1)
            mx.async_eval(x)
            y = x + 1
            mx.async_eval(y)
            self.assertEqual((x.item(), y.item()), (3, 4))

    def test_async_eval_in_trace(self):
        def run(x):
            y = x + 1.0
            mx.async_eval(y)
            return mx.exp(y)

        for transformed, x in ((mx.grad(run), mx.array(1.0)), (mx.vmap(run), mx.ones((2, 2)))):
            with self.assertRaises(ValueError):
                transformed(x)

    def test_async_eval_error_in_synchronize(self):
        singular = mx.linalg.inv(mx.array([[1.0, 2.0], [2.0, 4.0]]), stream=mx.cpu)
        mx.async_eval(singular)
        with self.assertRaises(RuntimeError):
            mx.synchronize(mx.cpu)
        self.assertEqual((mx.full((512,), 2.0) + 1).sum().item(), 1536)

    def test_async_eval_into_eval(self):
        y = mx.array([1]) + 1
        mx.async_eval(y)
        self.assertEqual(mx.abs(y - 10).item(), 8)

    def test_async_eval_into_eval_diff_stream(self):
        cpu = mx.new_stream(mx.cpu)
        y = mx.array([0]) - 5
        mx.async_eval(y)
        self.assertEqual(mx.abs(y, stream=cpu).item(), 5)

    def test_async_eval_with_multiple_streams(self):
        x, other = mx.array([1.0]), mx.new_stream(mx.default_device())
        for _ in range(20):
            for _ in range(10):
                x = x + mx.array([1.0])
            mx.async_eval(x)
            mx.eval(mx.add(mx.array([1.0]), mx.array([1.0]), stream=other))
        self.assertEqual(x.item(), 201)

    def test_races_between_streams(self):
        """Threads and streams that read each other's results, again and again."""
        for _ in range(20):
            x = mx.arange(1000, dtype=mx.float32)
            mx.async_eval(x)
            results = [None] * 4

            def run(i):
                streams = [mx.new_stream(device) for device in (mx.default_device(),) * 3 + (mx.cpu,)]
                y = x
                for k in range(12):
                    y = mx.add(mx.multiply(y, 0.5, stream=streams[(i + k) % 4]), x, stream=streams[(i + k + 1) % 4])
                    if k % 4 == 3:
                        mx.async_eval(y)
                results[i] = np.array(y)

            threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            want = np.arange(1000, dtype="float32")
            for _ in range(12):
                want = want * np.float32(0.5) + np.arange(1000, dtype="float32")
            for result in results:
                np.testing.assert_array_equal(result, want)

    def test_fallbacks_of_what_is_in_flight(self):
        """The CPU waits for what it reads, also of the stream that falls back, and the device for what the CPU wrote."""
        with falling_back():
            for i in range(20):
                x = mx.arange(64, dtype=mx.float32) + i
                for _ in range(10):
                    x = x * 2 - x
                mx.async_eval(x)
                y = mx.fft.ifft(mx.fft.fft(x * 1)).real + x
                mx.async_eval(y)
                self.check(y * 0.5, np.arange(64, dtype="float32") + i)

    def test_arrays_of_no_elements(self):
        for shape in ((0,), (0, 3), (3, 0), (2, 0, 4)):
            x = mx.zeros(shape)
            self.assertEqual(mx.exp(x).tolist(), np.zeros(shape).tolist())
            self.assertEqual((x + mx.zeros(shape)).shape, shape)
            self.assertEqual(mx.concatenate([x, x]).shape, np.concatenate([np.zeros(shape)] * 2).shape)
            self.assertEqual(mx.sum(x).item(), 0)
            self.assertEqual(mx.sort(x.astype(mx.int32)).shape, shape)
            self.assertEqual(np.array(mx.cumsum(x, axis=-1)).shape, shape)
        self.assertEqual(mx.take(mx.arange(5), mx.array([], mx.int32)).shape, (0,))
        with falling_back():
            self.assertEqual(np.array(mx.fft.fft(mx.zeros((0, 4)))).shape, (0, 4))
            self.assertEqual(np.array(mx.linalg.inv(mx.zeros((0, 3, 3)))).shape, (0, 3, 3))

    def test_copies_of_every_dtype(self):
        """To the device and back; of views; by another dtype; and between streams."""
        numbers, cpu = np.arange(-20, 20).reshape(5, 8), mx.new_stream(mx.cpu)
        for dtype in DTYPES:
            with self.subTest(dtype=dtype):
                with mx.stream(cpu):
                    x = mx.array(numbers).astype(dtype)
                    want = np.array(x.astype(mx.complex64 if dtype == mx.complex64 else mx.float64))
                wide = mx.complex64 if dtype == mx.complex64 else mx.float32
                for got, view in [(x + mx.zeros((), dtype), want), (mx.contiguous(x.T), want.T), (x[::2, 1:], want[::2, 1:]),
                                  (mx.concatenate([x, x]), np.concatenate([want, want]))]:
                    self.assertEqual(got.dtype, dtype)
                    np.testing.assert_array_equal(np.array(got.astype(wide)), view.astype("complex64" if wide == mx.complex64 else "float32"))
                for other in DTYPES:
                    with mx.stream(cpu):
                        same = x.astype(other)
                    self.assertTrue(mx.array_equal(x.astype(other), same).item(), other)


if __name__ == "__main__":
    unittest.main()
