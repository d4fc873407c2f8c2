"""Products of quantized matrices under the names of MLX's test_quantized.py, small, with NumPy as the oracle.

As test_native.py, it runs on whatever ZL_DEVICE names, and there without falling back to the CPU.
"""

import unittest

import numpy as np

import zellige.core as mx
from test_native import Case, setUpModule, tearDownModule  # noqa: F401 (unittest calls the latter two)

AFFINE = [("affine", 32, 2), ("affine", 64, 3), ("affine", 128, 4), ("affine", 64, 4), ("affine", 32, 5), ("affine", 128, 6), ("affine", 64, 8)]
FLOATS = [("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)]
FEW = [("affine", 64, 4), ("mxfp4", 32, 4)]
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


class Quantized(Case):
    def parts(self, kind, shape, dtype="float32"):
        """Words, what else names them, and the numbers that they stand for, as float64."""
        mode, group, bits = kind
        parts = mx.quantize(mx.array(self.some(shape, dtype)), group_size=group, bits=bits, mode=mode)
        named = dict(zip(("scales", "biases"), parts[1:]), group_size=group, bits=bits, mode=mode)
        return parts[0], named, np.array(mx.dequantize(parts[0], **named).astype(mx.float32)).astype("float64")

    def check_product(self, kind, rows, columns, depth, transpose=True, dtype="float32", batch=()):
        with self.subTest(kind=kind, shape=(*batch, rows, columns, depth), transpose=transpose, dtype=dtype):
            words, named, w = self.parts(kind, (columns, depth) if transpose else (depth, columns), dtype)
            x = self.some((*batch, rows, depth), dtype)
            got = mx.quantized_matmul(mx.array(x), words, transpose=transpose, **named).astype(mx.float32)
            want = (x.astype("float64") @ (w.T if transpose else w)).astype("float32")
            self.check(got, want, 1e-4 if dtype == "float32" else 5e-3)

    def check_gather(self, kind, x, w, lhs=None, rhs=None, transpose=True, **options):
        with self.subTest(kind=kind, x=x, w=w, transpose=transpose, **options):
            words, named, w = self.parts(kind, w)
            x, lhs, rhs = self.some(x), *(None if at is None else np.array(at, "uint32") for at in (lhs, rhs))
            given = [None if at is None else mx.array(at) for at in (lhs, rhs)]
            got = mx.gather_qmm(mx.array(x), words, lhs_indices=given[0], rhs_indices=given[1], transpose=transpose, **options, **named)
            left, right = x if lhs is None else x[lhs], w if rhs is None else w[rhs]
            self.check(got, (left @ (np.swapaxes(right, -1, -2) if transpose else right)).astype("float32"), 1e-4)

    # Numbers ------------------------------------------------------------------------------------------------------

    def test_quantize_dequantize(self):
        for kind in AFFINE + FLOATS:
            with self.subTest(kind):
                self.random = np.random.default_rng(1)
                _, _, got = self.parts(kind, (24, 128))
                self.random = np.random.default_rng(1)
                want = self.some((24, 128))
                self.assertLess(np.abs(got - want).max() / np.abs(want).max(), 1.5 / 2 ** min(kind[2], 3))

    def check_exact(self, mode, group, bits, numbers):
        """Numbers of the format times a power of two, each group with the largest of them, come back as they are."""
        numbers = np.array(numbers)
        w = self.random.choice(np.concatenate([numbers, -numbers]), (8, 4 * group))
        w[:, ::group] = numbers.max()
        w = (w * np.repeat([0.5, 1, 2, 4], group)).astype("float32")
        words, scales = mx.quantize(mx.array(w), mode=mode)
        got = mx.dequantize(words, scales, group_size=group, bits=bits, mode=mode, dtype=mx.float32)
        np.testing.assert_array_equal(np.array(got), w)

    def test_mxfp4_quantize_dequantize(self):
        self.check_exact("mxfp4", 32, 4, E2M1)

    def test_mxfp8_quantize_dequantize(self):
        self.check_exact("mxfp8", 32, 8, [0, 1, 1.125, 240, 256, 288, 416, 448])

    def test_nvfp4_quantize_dequantize(self):
        self.check_exact("nvfp4", 16, 4, E2M1)

    def test_quantize_strided(self):
        words, scales = mx.quantize(mx.array(self.some((32, 64))), mode="nvfp4")
        same = mx.broadcast_to(mx.array(56, mx.uint8), scales.shape)
        got = mx.dequantize(words, same, mode="nvfp4")
        self.assertTrue(mx.array_equal(got, mx.dequantize(words, mx.contiguous(same), mode="nvfp4")).item())
        w = self.some((64, 32))
        for a, b in zip(mx.quantize(mx.array(w).T, group_size=32), mx.quantize(mx.array(w.T.copy()), group_size=32)):
            self.assertTrue(mx.array_equal(a, b).item())

    # Products -----------------------------------------------------------------------------------------------------

    def test_qmm(self):
        for i, kind in enumerate(AFFINE + FLOATS):
            self.check_product(kind, (9, 33)[i % 2], 24, 128)

    def test_qmm_large_dims(self):
        self.check_product(("affine", 64, 4), 2, 8, 4160)
        self.check_product(("affine", 64, 4), 2, 4100, 64)

    def test_qmm_non_transposed(self):
        for kind in AFFINE[1:4] + FLOATS:
            self.check_product(kind, 9, 128, 24, transpose=False)

    def test_qmm_small_m_block(self):
        for rows in (2, 5, 8, 15, 17):
            self.check_product(("affine", 64, 4), rows, 40, 128)

    def test_qmm_shapes(self):
        for kind in FEW:
            for batch in ((3,), (2, 1), (2, 0)):
                self.check_product(kind, 5, 16, 64, batch=batch)

    def test_qmm_fp_type(self):
        for dtype in ("float16", "float32"):
            for transpose in (True, False):
                self.check_product(("affine", 64, 4), 4, 64, 64, transpose, dtype)

    def test_qmv(self):
        for kind in AFFINE:
            self.check_product(kind, 1, 40, 256)

    def test_fp_qmv(self):
        for kind in FLOATS:
            self.check_product(kind, 1, 40, 256)

    def test_fp_qmv_large_output(self):
        for kind in FLOATS:
            self.check_product(kind, 1, 2100, 64)

    def test_qmv_wide(self):
        for kind in FEW:
            self.check_product(kind, 1, 8, 4096)

    def test_qvm(self):
        for kind in AFFINE[::2]:
            self.check_product(kind, 1, 256, 40, transpose=False)

    def test_qvm_splitk(self):
        self.check_product(("affine", 64, 4), 1, 64, 2048, transpose=False)

    def test_qvm_splitk_multi_row(self):
        self.check_product(("affine", 64, 4), 3, 64, 2048, transpose=False)

    def test_fp_qvm(self):
        for kind in FLOATS:
            self.check_product(kind, 1, 128, 40, transpose=False)

    def test_small_matrix(self):
        for kind in AFFINE[:2] + FLOATS:
            for rows in (1, 2):
                self.check_product(kind, rows, 1, kind[1])
                self.check_product(kind, rows, 8, kind[1])

    def test_non_multiples(self):
        for kind in FEW:
            for rows, columns in ((3, 33), (33, 7)):
                self.check_product(kind, rows, columns, 192)
                self.check_product(kind, rows, 64, 33, transpose=False)

    def test_qmv_small_non_multiples(self):
        for bits in (2, 3, 4, 5, 6, 8):
            self.check_product(("affine", 32, bits), 1, 5, 96)
            self.check_product(("affine", 32, bits), 1, 3, 32)

    # Both sides quantized -----------------------------------------------------------------------------------------

    def quantized_and_back(self, shape, mode):
        x = mx.array(self.some(shape))
        parts = mx.quantize(x, mode=mode)
        return x, parts, np.array(mx.dequantize(*parts, mode=mode, dtype=mx.float32)).astype("float64")

    def check_both(self, rows, columns, depth):
        for mode in ("nvfp4", "mxfp8"):
            with self.subTest(mode=mode, shape=(rows, columns, depth)):
                x, _, left = self.quantized_and_back((rows, depth), mode)
                _, parts, right = self.quantized_and_back((columns, depth), mode)
                self.check(mx.qqmm(x, *parts, mode=mode), (left @ right.T).astype("float32"), 1e-4)

    def test_qqmv(self):
        self.check_both(1, 67, 64)

    def test_qqmm(self):
        self.check_both(8, 32, 64)
        self.check_both(33, 16, 128)

    def test_gather_qqmm(self):
        for mode in ("nvfp4", "mxfp8"):
            x, _, left = self.quantized_and_back((3, 4, 32), mode)
            _, parts, right = self.quantized_and_back((2, 16, 32), mode)
            got = mx.gather_qqmm(x, *parts, mx.array([0, 2]), mx.array([1, 0]), mode=mode)
            self.check(got, (left[[0, 2]] @ np.swapaxes(right[[1, 0]], 1, 2)).astype("float32"), 1e-4)

    # Of chosen matrices -------------------------------------------------------------------------------------------

    def test_gather_qmm(self):
        for kind in AFFINE[2:3] + FLOATS:
            self.check_gather(kind, (6, 1, 128), (4, 8, 128), rhs=[3, 0, 0, 2, 1, 3])
        self.check_gather(("affine", 64, 4), (3, 4, 24), (2, 24, 64), [0, 2], [1, 0], transpose=False)

    def test_gather_qmm_matrix_path(self):
        self.check_gather(("affine", 64, 4), (3, 20, 64), (4, 24, 64), [2, 0, 1], [3, 1, 1])

    def test_gather_qmm_sorted(self):
        for kind in FEW:
            self.check_gather(kind, (24, 1, 64), (4, 16, 64), rhs=np.sort(self.random.integers(0, 4, 24)), sorted_indices=True)

    def test_gather_qmm_sorted_sliced_weight(self):
        parts = mx.quantize(mx.array(self.some((4, 32, 64))), group_size=64, bits=4)
        x, at = mx.array(self.some((16, 1, 64))), mx.array(np.sort(self.random.integers(0, 4, 16)).astype("uint32"))
        for rows in (slice(0, 16), slice(16, 32)):
            view = [part[:, rows] for part in parts]
            got, want = (mx.gather_qmm(x, *some, rhs_indices=at, transpose=True, group_size=64, bits=4, sorted_indices=True)
                         for some in (view, [mx.contiguous(part) for part in view]))
            self.check(got, np.array(want), 1e-5)

    # Gradients ----------------------------------------------------------------------------------------------------

    def test_qmm_vjp(self):
        words, named, w = self.parts(("affine", 64, 4), (24, 128))
        x, g = self.some((2, 128)), self.some((2, 24))
        _, grads = mx.vjp(lambda x: mx.quantized_matmul(x, words, transpose=True, **named), [mx.array(x)], [mx.array(g)])
        self.check(grads[0], (g @ w).astype("float32"), 1e-4)

    def test_qmm_jvp(self):
        words, named, w = self.parts(("affine", 64, 4), (24, 128))
        x, tangent = self.some((2, 128)), self.some((2, 128))
        _, got = mx.jvp(lambda x: mx.quantized_matmul(x, words, transpose=True, **named), [mx.array(x)], [mx.array(tangent)])
        self.check(got[0], (tangent @ w.T).astype("float32"), 1e-4)

    def test_vjp_scales_biases(self):
        words, scales, biases = mx.quantize(mx.array(self.some((16, 128))), group_size=64, bits=4)
        x, ones = self.some((3, 128)), np.ones((16, 2), "float32")
        digits = np.array(mx.dequantize(words, mx.array(ones), mx.array(0 * ones), group_size=64, bits=4))
        of_scales, of_biases = mx.grad(lambda s, b: mx.quantized_matmul(mx.array(x), words, s, b, group_size=64, bits=4).sum(),
                                       argnums=(0, 1))(scales, biases)
        self.check(of_scales, (x.sum(0) * digits).reshape(16, 2, 64).sum(-1), 1e-4)
        self.check(of_biases, np.broadcast_to(x.sum(0).reshape(2, 64).sum(-1), (16, 2)), 1e-4)

    def test_gather_matmul_grad(self):
        words, named, w = self.parts(("affine", 64, 4), (3, 16, 64))
        x, lhs, rhs = self.some((4, 2, 64)), np.array([3, 0], "uint32"), np.array([2, 0], "uint32")
        got = mx.grad(lambda x: mx.gather_qmm(x, words, lhs_indices=mx.array(lhs), rhs_indices=mx.array(rhs), transpose=True,
                                              **named).sum())(mx.array(x))
        want = np.zeros(x.shape)
        for i, k in zip(lhs, rhs):
            want[i] += w[k].sum(0)
        self.check(got, want.astype("float32"), 1e-4)

    def test_gather_qmm_grad(self):
        words, scales, biases = mx.quantize(mx.array(self.some((3, 16, 64))), group_size=64, bits=4)
        at = mx.array(np.array([0, 0, 1, 2], "uint32"))
        x, g = mx.array(self.some((4, 1, 64))), mx.array(self.some((4, 1, 16)))
        together = mx.vjp(lambda x, s, b: mx.gather_qmm(x, words, s, b, rhs_indices=at, transpose=True, sorted_indices=True), [x, scales, biases], [g])
        apart = mx.vjp(lambda x, s, b: mx.quantized_matmul(x, words[at], s[at], b[at], transpose=True), [x, scales, biases], [g])
        for got, want in zip(together[0] + together[1], apart[0] + apart[1]):
            self.check(got, np.array(want), 1e-4)

    # Errors -------------------------------------------------------------------------------------------------------

    def test_fp_vjp_scales_throws(self):
        for mode, _, _ in FLOATS:
            words, scales = mx.quantize(mx.array(self.some((32, 64))), mode=mode)
            x = mx.array(self.some((2, 64)))
            with self.assertRaises(ValueError):
                mx.eval(mx.grad(lambda s: mx.quantized_matmul(x, words, s, mode=mode).sum())(scales))
            with self.assertRaises(ValueError):
                mx.eval(mx.grad(lambda s: mx.gather_qmm(x, words, s, rhs_indices=mx.array(0), mode=mode).sum())(scales))

    def test_mode_error_cases(self):
        x, w = mx.array(self.some((1, 64))), mx.array(self.some((32, 64)))
        words, scales, biases = mx.quantize(w, bits=4, group_size=32)
        whole = mx.zeros(scales.shape, mx.int32)
        named = {"bits": 4, "group_size": 32}
        calls = [lambda: mx.quantize(w, mode="xyz"), lambda: mx.quantize(mx.zeros((32, 64), mx.int32)),
                 lambda: mx.quantize(mx.zeros((32, 64), mx.int32), mode="mxfp4")]
        for parts in ((scales, None), (whole, whole)):
            calls += [lambda parts=parts: mx.dequantize(words, *parts, **named),
                      lambda parts=parts: mx.quantized_matmul(x, words, *parts, **named),
                      lambda parts=parts: mx.gather_qmm(x, words, *parts, rhs_indices=mx.array(0), **named)]
        calls += [lambda: mx.dequantize(words, scales, biases, mode="xyz", **named),
                  lambda: mx.quantized_matmul(x, words, scales, biases, mode="xyz", **named)]
        for call in calls:
            with self.assertRaises(ValueError):
                call()

    def test_throw(self):
        x = mx.array(self.some((10, 128)))
        words, scales, biases = mx.quantize(mx.array(self.some((32, 128))))
        for parts in ((words.T, scales, biases), (words.T, scales.T, biases), (words, scales, biases, False), (words, scales.T, biases.T)):
            with self.assertRaises(ValueError):
                mx.quantized_matmul(x, *parts)
        self.assertEqual(np.array(mx.quantized_matmul(x, words, scales, biases, True)).shape, (10, 32))


if __name__ == "__main__":
    unittest.main()
