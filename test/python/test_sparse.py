"""Sparse matrices: csr_from_dense, csr_to_dense, csr_matvec and csr_matmul against dense ones."""

import unittest

import numpy as np

import zellige.core as mx

random = np.random.default_rng(9)


def some_matrix(rows, columns):
    return (random.standard_normal((rows, columns)) * (random.random((rows, columns)) < 0.3)).astype("float32")


class Sparse(unittest.TestCase):
    def test_products(self):
        a, x, b = some_matrix(30, 20), random.standard_normal(20).astype("float32"), random.standard_normal((20, 40)).astype("float32")
        parts = mx.csr_from_dense(mx.array(a))
        np.testing.assert_array_equal(np.array(mx.csr_to_dense(*parts, 20)), a)
        np.testing.assert_allclose(np.array(mx.csr_matvec(*parts, mx.array(x))), a @ x, 1e-4, 1e-4)
        np.testing.assert_allclose(np.array(mx.csr_matmul(*parts, mx.array(b))), a @ b, 1e-4, 1e-4)

    def test_gradients(self):
        a, b = some_matrix(9, 6), mx.array(random.standard_normal((6, 3)).astype("float32"))
        values, indices, pointers = mx.csr_from_dense(mx.array(a))
        sparse = lambda v, b: (mx.csr_matmul(v, indices, pointers, b) ** 2).sum()  # noqa: E731
        dense = lambda v, b: ((mx.csr_to_dense(v, indices, pointers, 6) @ b) ** 2).sum()  # noqa: E731
        for ours, theirs in zip(mx.grad(sparse, (0, 1))(values, b), mx.grad(dense, (0, 1))(values, b)):
            np.testing.assert_allclose(np.array(ours), np.array(theirs), 1e-4, 1e-4)

    def test_batches(self):
        a, x = np.stack([some_matrix(7, 5) for _ in range(3)]), random.standard_normal((3, 5)).astype("float32")
        parts = mx.vmap(lambda a: mx.csr_from_dense(a, 35))(mx.array(a))
        np.testing.assert_allclose(np.array(mx.vmap(mx.csr_matvec)(*parts, mx.array(x))), np.einsum("bij,bj->bi", a, x), 1e-4, 1e-4)
        with self.assertRaisesRegex(ValueError, "zl_csr_from_dense: how much it gives was not said"):
            mx.vmap(mx.csr_from_dense)(mx.array(a))

    def test_a_wrong_matrix(self):
        values, indices, pointers = mx.csr_from_dense(mx.array(some_matrix(7, 5)))
        with self.assertRaisesRegex(ValueError, "the matrix has 5 columns"):
            mx.eval(mx.csr_matvec(values, indices + 5, pointers, mx.ones(5)))
        with self.assertRaisesRegex(ValueError, "indptr"):
            mx.eval(mx.csr_matvec(values, indices, pointers + 1, mx.ones(5)))


if __name__ == "__main__":
    unittest.main()
