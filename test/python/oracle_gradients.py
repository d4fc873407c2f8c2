"""Derivatives of the ops against MLX's, in both directions; tests in C compare them with differences.

What MLX has no rule for is passed over: ours must have one where MLX does.
"""

import unittest

import numpy as np

import zellige.core as zl

try:
    import mlx.core as mx
except ImportError:
    raise unittest.SkipTest("MLX is not installed") from None

mx.set_default_device(mx.cpu)
random = np.random.default_rng(5)


def floats(*shape, low=0.2, high=0.9):
    return random.uniform(low, high, shape).astype("float32")


def places(high, *shape):
    return random.integers(0, high, shape).astype("int32")


def complexes(*shape):
    return (floats(*shape) + 1j * floats(*shape)).astype("complex64")


def positive(n):
    """A symmetric matrix whose eigenvalues are far from 0."""
    a = floats(n, n)
    return a @ a.T + n * np.eye(n, dtype="float32")


ONE, ROWS, CUBE = floats(7), floats(4, 6), floats(2, 3, 4)

# name: [data that have derivatives], call(m, *arrays). MLX leaves elements of partitions where it likes: they are sorted again;
# and its tangents of addmm leave out alpha and beta.
UNARY = """abs arccos arcsin arcsinh arctan arctanh cos cosh degrees erf erfinv exp expm1 log log10 log1p log2 negative radians
reciprocal rsqrt sigmoid sign sin sinh sqrt square tan tanh floor ceil nan_to_num logsumexp sum mean prod max min var std
cumsum cumprod cummax cummin logcumsumexp sort transpose flatten softmax trace tril triu diag real imag conjugate""".split()
BINARY = "add subtract multiply divide power maximum minimum logaddexp arctan2 remainder inner outer kron".split()
AXIS = "sum mean prod max min var std logsumexp cumsum cumprod cummax cummin logcumsumexp sort softmax median".split()

CASES = {
    **{name: ([ROWS], lambda m, x, n=name: getattr(m, n)(x)) for name in UNARY},
    **{f"{name} along {k}": ([CUBE], lambda m, x, n=name, k=k: getattr(m, n)(x, axis=k)) for name in AXIS for k in (0, 1, -1)},
    **{f"{name} backwards": ([CUBE], lambda m, x, n=name: getattr(m, n)(x, axis=1, reverse=True, inclusive=False))
       for name in ("cumsum", "cumprod", "cummax", "logcumsumexp")},
    **{name: ([ROWS, floats(4, 6)], lambda m, x, y, n=name: getattr(m, n)(x, y)) for name in BINARY},
    **{f"{name} of a row": ([ROWS, floats(6)], lambda m, x, y, n=name: getattr(m, n)(x, y)) for name in BINARY[:9]},
    **{f"{name} of complex": ([complexes(3, 4)], lambda m, x, n=name: getattr(m, n)(x))
       for name in "exp log sin cos abs square sqrt negative sum mean cumsum real imag conjugate".split()},
    "arccosh": ([1 + ROWS], lambda m, x: m.arccosh(x)),
    "multiply of complex": ([complexes(3), complexes(3)], lambda m, x, y: x * y),
    "divide of complex": ([complexes(3), complexes(3)], lambda m, x, y: x / y),
    "where": ([ROWS, floats(4, 6)], lambda m, x, y: m.where(x > 0.5, x, y)),
    "clip": ([ROWS], lambda m, x: m.clip(x, 0.4, 0.7)),
    "partition": ([ROWS], lambda m, x: m.sort(m.partition(x, 3, axis=-1)[:, :3])),
    "topk": ([ROWS], lambda m, x: m.sort(m.topk(x, 2, axis=-1))),
    # shapes
    "reshape": ([ROWS], lambda m, x: m.reshape(x, (8, 3))), "moveaxis": ([CUBE], lambda m, x: m.moveaxis(x, 0, 2)),
    "broadcast_to": ([ONE], lambda m, x: m.broadcast_to(x, (3, 7))), "squeeze": ([floats(1, 3)], lambda m, x: m.squeeze(x)),
    "concatenate": ([ROWS, floats(2, 6)], lambda m, x, y: m.concatenate([x, y])), "stack": ([ROWS, ROWS], lambda m, x, y: m.stack([x, y], axis=1)),
    "split": ([ROWS], lambda m, x: m.split(x, 3, axis=1)[1]), "pad": ([ROWS], lambda m, x: m.pad(x, ((1, 2), (0, 3)))),
    "pad with edges": ([ROWS], lambda m, x: m.pad(x, 2, mode="edge")), "roll": ([ROWS], lambda m, x: m.roll(x, 2, axis=1)),
    "repeat": ([ROWS], lambda m, x: m.repeat(x, 3, axis=1)), "tile": ([ROWS], lambda m, x: m.tile(x, (2, 3))),
    "as_strided": ([ROWS], lambda m, x: m.as_strided(x, (3, 4), (2, 1), 1)), "slice": ([ROWS], lambda m, x: x[1:, ::-2]),
    "diagonal": ([CUBE], lambda m, x: m.diagonal(x, 1, 1, 2)), "astype": ([ROWS], lambda m, x: x.astype(m.float16).astype(m.float32)),
    # indices
    "take": ([ROWS], lambda m, x: m.take(x, m.array([3, 0, 3, -1]), axis=0)), "take of all": ([ROWS], lambda m, x: m.take(x, m.array([[3, 20], [3, -1]]))),
    "take_along_axis": ([ROWS], lambda m, x: m.take_along_axis(x, m.array([[0, 0], [1, 5], [2, 2], [3, 0]]), axis=1)),
    "put_along_axis": ([ROWS, floats(4, 2)], lambda m, x, v: m.put_along_axis(x, m.array([[0, 1], [1, 5], [2, 3], [3, 0]]), v, axis=1)),
    "x[i, j]": ([ROWS], lambda m, x: x[m.array([0, 3, 0]), m.array([1, 1, 1])]), "x[:, i]": ([CUBE], lambda m, x: x[:, m.array([2, 0, 0])]),
    "set rows": ([ROWS, floats(2, 6)], lambda m, x, v: assigned(m, x, m.array([1, 3]), v)), "set a slice": ([ROWS, floats(2, 3)], lambda m, x, v: assigned(m, x, (slice(1, 3), slice(0, 6, 2)), v)),
    **{f"at.{name}": ([ROWS, floats(3, 6)], lambda m, x, v, n=name: getattr(x.at[m.array([1, 3, 1])], n)(v))
       for name in ("add", "subtract")},
    **{f"at.{name}": ([ROWS, floats(2, 6)], lambda m, x, v, n=name: getattr(x.at[m.array([1, 3])], n)(v))
       for name in ("multiply", "maximum", "minimum")},
    # products
    "matmul": ([floats(2, 3, 4), floats(4, 5)], lambda m, x, y: x @ y), "matmul .T": ([ROWS, floats(5, 6)], lambda m, x, y: x @ y.T),
    "vector times matrix": ([floats(4), ROWS], lambda m, x, y: x @ y), "addmm": ([floats(5), ROWS, floats(6, 5)], lambda m, c, x, y: m.addmm(c, x, y)),
    "tensordot": ([CUBE, floats(4, 3)], lambda m, x, y: m.tensordot(x, y, [[2, 1], [0, 1]])),
    "einsum": ([CUBE, floats(4, 5)], lambda m, x, y: m.einsum("bij,jk->bki", x, y)),
    "gather_mm": ([floats(4, 3, 5), floats(3, 5, 2)], lambda m, x, y: m.gather_mm(x, y, m.array([0, 3]), m.array([2, 2]))),
    "block_masked_mm": ([floats(32, 32), floats(32, 32)], lambda m, x, y: m.block_masked_mm(x, y, 32, m.array([[True]]))),
    "hadamard_transform": ([floats(3, 8)], lambda m, x: m.hadamard_transform(x)),
    **{f"conv{n}d": ([floats(2, *[7] * n, 2), floats(4, *[3] * n, 1)], lambda m, x, w, n=n: getattr(m, f"conv{n}d")(x, w, stride=2, padding=1, groups=2))
       for n in (1, 2)},
    "conv3d": ([floats(1, 4, 4, 4, 2), floats(3, 2, 2, 2, 2)], lambda m, x, w: m.conv3d(x, w, padding=1)),
    "conv_transpose2d": ([floats(1, 4, 4, 2), floats(3, 3, 3, 2)], lambda m, x, w: m.conv_transpose2d(x, w, stride=2, padding=1)),
    "conv_general": ([floats(1, 8, 2), floats(3, 3, 2)], lambda m, x, w: m.conv_general(x, w, 1, ([1], [2]), kernel_dilation=2, input_dilation=2, flip=True)),
    # linalg, fft
    "inv": ([positive(4)], lambda m, x: m.linalg.inv(x, stream=m.cpu)), "cholesky": ([positive(4)], lambda m, x: m.linalg.cholesky(x, stream=m.cpu)),
    "norm": ([ROWS], lambda m, x: m.linalg.norm(x)), "norm of rows": ([ROWS], lambda m, x: m.linalg.norm(x, 3, axis=1)),
    "cross": ([floats(2, 3), floats(2, 3)], lambda m, x, y: m.linalg.cross(x, y)),
    **{f"fft.{name}": ([floats(3, 8)], lambda m, x, n=name: getattr(m.fft, n)(x)) for name in ("fft", "ifft", "rfft", "fft2", "rfftn", "fftshift")},
    **{f"fft.{name} of complex": ([complexes(3, 5)], lambda m, x, n=name: getattr(m.fft, n)(x)) for name in ("fft", "ifft", "irfft", "irfft2")},
    # fast
    "rms_norm": ([ROWS, floats(6)], lambda m, x, w: m.fast.rms_norm(x, w, 1e-5)),
    "layer_norm": ([ROWS, floats(6), floats(6)], lambda m, x, w, b: m.fast.layer_norm(x, w, b, 1e-5)),
    "rope": ([floats(1, 2, 3, 8)], lambda m, x: m.fast.rope(x, 8, traditional=False, base=1e4, scale=1.0, offset=2)),
    **{f"attention {mask}": ([floats(1, 4, 5, 8), floats(1, 2, 5, 8), floats(1, 2, 5, 8)],
                             lambda m, q, k, v, mask=mask: m.fast.scaled_dot_product_attention(q, k, v, scale=0.3, mask=mask)) for mask in (None, "causal")},
    "quantized_matmul": ([floats(3, 64)], lambda m, x: m.quantized_matmul(x, *m.quantize(m.array(WEIGHTS)), transpose=True)),
}
WEIGHTS = floats(32, 64)


def assigned(m, x, where, v):
    y = m.array(x) if m is zl else x * 1
    y[where] = v
    return y


def derivatives(m, call, data):
    """Results of vjp and of jvp, for a cotangent and tangents that are the same for every module; None: there is no rule."""
    arrays = [m.array(d) for d in data]
    y = call(m, *arrays)
    weights = np.cos(np.arange(y.size)).reshape(y.shape).astype("float32")
    cotangent = m.array(weights).astype(y.dtype)
    try:
        backward = [np.array(g) for g in m.vjp(lambda *x: [call(m, *x)], arrays, [cotangent])[1]]
    except (ValueError, RuntimeError) as reason:
        backward = reason
    tangents = [m.array((np.sin(np.arange(d.size)).reshape(d.shape)).astype(d.dtype)) for d in data]
    try:
        forward = np.array(m.jvp(lambda *x: [call(m, *x)], arrays, tangents)[1][0])
    except (ValueError, RuntimeError) as reason:
        forward = reason
    return backward, forward


class Derivatives(unittest.TestCase):
    def check(self, ours, theirs):
        self.assertEqual((ours.shape, ours.dtype), (theirs.shape, theirs.dtype))
        np.testing.assert_allclose(ours, theirs, 2e-4, 2e-4 * max(1, float(np.abs(theirs).max(initial=0))))

    def test_as_in_mlx(self):
        compared = 0
        for name, (data, call) in CASES.items():
            theirs = derivatives(mx, call, data)
            ours = derivatives(zl, call, data)
            with self.subTest(name, way="back"):
                if not isinstance(theirs[0], Exception):
                    self.assertNotIsInstance(ours[0], Exception)
                    for a, b in zip(ours[0], theirs[0]):
                        self.check(a, b)
                    compared += 1
            with self.subTest(name, way="forward"):
                if not isinstance(theirs[1], Exception):
                    self.assertNotIsInstance(ours[1], Exception)
                    self.check(ours[1], theirs[1])
                    compared += 1
        self.assertGreater(compared, 250)


if __name__ == "__main__":
    unittest.main()
