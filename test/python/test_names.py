"""Names that no other test calls: constants, operators, contexts and the types behind functions."""

import math
import operator
import tempfile
import unittest

import zellige.core as mx


class Names(unittest.TestCase):
    def test_constants(self):
        self.assertEqual((mx.pi, mx.newaxis), (math.pi, None))
        self.assertAlmostEqual(mx.euler_gamma, 0.5772156649015329)
        self.assertRegex(mx.__version__, r"^\d+\.\d+\.\d+")

    def test_operators(self):
        a, b = mx.array([6, 3]), mx.array([1, 2])
        self.assertEqual((a >> b).tolist(), [3, 0])
        self.assertEqual((a ^ b).tolist(), [7, 1])
        self.assertEqual((a >= b).tolist(), [True, True])
        self.assertEqual((+a).tolist(), [6, 3])
        a >>= b
        a ^= b
        self.assertEqual(a.tolist(), [2, 2])
        self.assertEqual(operator.rshift(8, b).tolist(), [4, 2])
        self.assertEqual((bool(mx.array(0)), bool(mx.array(2.5))), (False, True))
        self.assertRaises(ValueError, bool, b)

    def test_views(self):
        a = mx.arange(24).reshape(2, 3, 4)
        self.assertEqual(a.mT.shape, (2, 4, 3))
        self.assertAlmostEqual(mx.matrix_norm(mx.array([[3.0, 0.0], [0.0, 4.0]])).item(), 5)

    def test_dtypes(self):
        self.assertEqual(hash(mx.float32), hash(mx.array(1.0).dtype))
        self.assertIsInstance(mx.float32, mx.Dtype)
        self.assertIn("floating", str(mx.DtypeCategory.floating))

    def test_array_like(self):
        class Two:
            def __mlx_array__(self):
                return mx.array([1.0, 2.0])

        like = mx.ArrayLike(Two())
        self.assertEqual((mx.array(1) + like).tolist(), [2, 3])
        self.assertEqual(mx.add(like, like).tolist(), [2, 4])
        self.assertRaises(TypeError, mx.ArrayLike)
        self.assertRaises(TypeError, mx.ArrayLike, arg=1)
        self.assertRaises(ValueError, mx.ArrayLike(object()).__mlx_array__)

        def annotated(x: mx.array | mx.ArrayLike) -> "mx.ArrayLike":
            return x

        self.assertIs(annotated(like), like)
        for _ in range(100000):
            like = mx.ArrayLike(like)
        self.assertRaises(RecursionError, like.__mlx_array__)

    def test_types_behind_functions(self):
        with tempfile.NamedTemporaryFile() as file, mx.exporter(file.name, lambda x: x + 1) as exporter:
            self.assertIsInstance(exporter, mx.FunctionExporter)
            exporter(mx.array(1.0))
        with mx.printoptions(precision=2):
            self.assertEqual(repr(mx.array(1.23456)), "array(1.23, dtype=float32)")
        self.assertIsInstance(mx.printoptions(precision=2), mx._PrintOptionsContext)
        self.assertIsInstance(mx.random.state, mx.random._RandomState)
        self.assertEqual(len(mx.random.state), len([key for key in mx.random.state]))
        self.assertEqual(mx.random.state[0].shape, (2,))
        self.assertIsInstance(mx.new_thread_local_stream(mx.cpu), mx.ThreadLocalStream)


if __name__ == "__main__":
    unittest.main()
