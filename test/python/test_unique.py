"""unique: without a size as NumPy's; with one as MLX's, with which oracle_parts.py compares it."""

import unittest

import numpy as np

import zellige.core as mx

random = np.random.default_rng(7)
ARRAYS = [np.array([2, 1, 2, 3, 1]), random.integers(0, 9, (4, 5)), np.array(3), np.array([True, False, True]),
          random.integers(0, 5, 1000).astype("uint8"), np.array([1 + 2j, 1 + 1j, 1 + 2j], "complex64")]


class Unique(unittest.TestCase):
    def test_as_numpy(self):
        for a in ARRAYS:
            everything = dict(return_index=True, return_inverse=True, return_counts=True)
            for ours, theirs in zip(mx.unique(mx.array(a), **everything), np.unique(a, **everything), strict=True):
                np.testing.assert_array_equal(np.array(ours).reshape(-1), theirs.reshape(-1))
            np.testing.assert_array_equal(np.array(mx.unique(mx.array(a))), np.unique(a))
        values, counts = mx.unique(mx.array([3, 3, 1]), return_counts=True)
        self.assertEqual((values.tolist(), counts.tolist()), ([1, 3], [1, 2]))

    def test_of_a_size(self):
        values, index, inverse, counts = mx.unique(mx.array([2, 1, 2, 3, 1]), 4, True, True, True, fill_value=0)
        self.assertEqual((values.tolist(), index.tolist()), ([1, 2, 3, 0], [1, 0, 3, 1]))
        self.assertEqual((inverse.tolist(), counts.tolist()), ([1, 0, 1, 2, 0], [2, 2, 1, 0]))
        self.assertEqual((inverse.dtype, counts.dtype), (mx.uint32, mx.int32))
        self.assertRaises(ValueError, mx.unique, mx.array([1]), -1)

    def test_transforms(self):
        x = mx.array([2.0, 1.0, 2.0, 5.0])
        self.assertEqual(mx.grad(lambda x: (mx.unique(x) * mx.array([1, 2, 3])).sum())(x).tolist(), [2, 1, 0, 3])
        self.assertEqual(mx.vmap(lambda x: mx.unique(x, 3))(mx.array([[2, 1, 2], [4, 4, 4]])).tolist(), [[1, 2, 1], [4, 4, 4]])
        self.assertEqual(mx.compile(lambda x: mx.unique(x, 3))(x).tolist(), [1, 2, 5])
        with self.assertRaisesRegex(ValueError, "zl_unique: how much it gives was not said"):
            mx.vmap(mx.unique)(mx.array([[2, 1, 2]]))
        with self.assertRaisesRegex(ValueError, "zl_unique: how much it gives was not said"):
            mx.compile(mx.unique)(x)


if __name__ == "__main__":
    unittest.main()
