"""op_cases.py - what ops.py calls each op with: by the table of signatures, and where that does not say enough, by hand.

A case is (variant, data, call): call(m, *arrays) calls the op of module m. Data are NumPy's elements, with the dtype and the
view that every library is to have them in.
"""

import numpy as np

LONG, SIDE = 1 << 20, 1024


class Data:
    """Elements, which make(generator) makes when they are needed, the dtype to hold them in, and a view of them."""

    def __init__(self, make, dtype, view=lambda x: x):
        self.make, self.dtype, self.view = make, dtype, view

    def values(self):
        return self.make(np.random.default_rng(7))

    def seen(self, view):
        return Data(self.make, self.dtype, view)

    @property
    def T(self):
        return self.seen(lambda x: x.T)


def floats(*shape, low=0.1, high=0.9, dtype="float32"):
    return Data(lambda r: r.uniform(low, high, shape).astype("float32"), dtype)


def integers(high, *shape, dtype="int32", low=0):
    return Data(lambda r: r.integers(low, high, shape).astype(dtype), dtype)


def complexes(*shape):
    return Data(lambda r: (r.random(shape) + 1j * r.random(shape)).astype("complex64"), "complex64")


def bools(*shape):
    return Data(lambda r: r.random(shape) < 0.5, "bool")


def places(*shape, high=SIDE):
    return integers(high, *shape, dtype="uint32")


def in_order(count):
    return Data(lambda r: np.sort(r.random(count).astype("float32")), "float32")


def matrix(n):
    return Data(lambda r: (r.standard_normal((n, n)) + 4 * n ** 0.5 * np.eye(n)).astype("float32"), "float32")


def symmetric(n):
    return Data(lambda r: np.cov(r.standard_normal((n, 4 * n))).astype("float32"), "float32")


def big(**more):
    return floats(SIDE, SIDE, **more)


# By rules ----------------------------------------------------------------------------------------------------------

INTEGERS = {"left_shift", "right_shift", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert"}
COMPLEX = {"real", "imag", "conjugate"}
ABOVE_ONE = {"arccosh"}


def operand(name, *shape, dtype="float32"):
    if name in COMPLEX:
        return complexes(*shape)
    if name in INTEGERS or dtype == "int32":
        return integers(30, *shape, low=1)
    above = 1 if name in ABOVE_ONE else 0
    return floats(*shape, low=0.1 + above, high=0.9 + above, dtype=dtype)


def function(name, **keywords):
    return lambda m, *arrays: getattr(m, name)(*arrays, **keywords)


def by_elements(name, count):
    """Functions of arrays of one shape."""
    call = function({"rint": "round"}.get(name, name))

    def data(*shape, **more):
        return [operand(name, *shape, **more) for _ in range(count)]

    yield "1M", data(SIDE, SIDE), call
    yield "1K", data(32, 32), call
    first, *others = data(SIDE, SIDE)
    yield "1M .T", [first.T, *others], call
    yield "1M [:, ::2]", [x.seen(lambda x: x[:, ::2]) for x in data(SIDE, 2 * SIDE)], call
    if count > 1:
        yield "1M and a row", [operand(name, SIDE, SIDE), *(operand(name, SIDE) for _ in others)], call
    if name not in INTEGERS | COMPLEX:
        yield "1M bfloat16", data(SIDE, SIDE, dtype="bfloat16"), call
        yield "1M int32", data(SIDE, SIDE, dtype="int32"), call


def over_axes(name, form, call=None):
    """Functions of an array along an axis, over axes, or of all its elements."""
    call = call or (lambda **keywords: function(name, **keywords))
    if form == "flat":
        whole = call(axis=None)
        yield "1M", [floats(LONG)], whole
        yield "1K", [floats(1024)], whole
        yield "1M .T", [big().T], whole
        yield "1M bfloat16", [floats(LONG, dtype="bfloat16")], whole
        yield "1M int32", [integers(1 << 30, LONG, low=-1 << 30)], whole
    elif form == "axis":
        for axis in (0, -1):
            yield f"1M axis {axis}", [big()], call(axis=axis)
            yield f"1M bfloat16 axis {axis}", [big(dtype="bfloat16")], call(axis=axis)
            yield f"1M .T axis {axis}", [big().T], call(axis=axis)
        yield "1M int32 axis 0", [integers(1000, SIDE, SIDE)], call(axis=0)
        yield "64K rows of 16", [floats(65536, 16)], call(axis=-1)
        yield "16 rows of 64K, axis 0", [floats(16, 65536)], call(axis=0)
        yield "1K axis -1", [floats(32, 32)], call(axis=-1)
    else:
        yield "1M axes 0, 2", [floats(64, 256, 64)], call(axis=(0, 2))


FORMS = (("_axes", "axes"), ("_axis", "axis"), ("_flat", "flat"))


def by_rule(name, info):
    """The cases of an op that its signature tells, or None."""
    family, given = info.family.decode(), [p for p in info.param[: info.params] if p.name != b"out"]
    types, names = [p.type for p in given], [p.name.decode() for p in given]
    if family in ("elementwise", "logic", "compare") and set(types[:2]) == {0} and name not in ("round", "astype"):
        return by_elements(name, types.count(0))
    if family in ("reduce", "scan", "sort") and types[0] == 0 and (len(names) == 1 or names[1] in ("axis", "reverse", "ddof")):
        base, form = next(((name[: -len(end)], form) for end, form in FORMS if name.endswith(end)), (name, None))
        return over_axes(base, form or ("axis" if "axis" in names else "flat"))
    return None


# By hand -----------------------------------------------------------------------------------------------------------

def one(data, call, variant="1M"):
    return [(variant, data, call)]


def selected(name):
    """Partitions and the largest elements."""
    def call(k):
        return lambda axis: lambda m, x: getattr(m, name)(x, k, axis=axis)

    yield "1M middle", [floats(LONG)], call(LONG // 2)(None)
    yield "1M 10", [floats(LONG)], call(10)(None)
    yield "1M int32 middle", [integers(1 << 30, LONG)], call(LONG // 2)(None)
    yield "1K middle", [floats(1024)], call(512)(None)
    for axis in (0, -1):
        yield f"1M 512, axis {axis}", [big()], call(512)(axis)
        yield f"1M 10, axis {axis}", [big()], call(10)(axis)
    yield "64K rows of 16", [floats(65536, 16)], call(8)(-1)


def updates(name):
    """x.at[...].add and its like; set is an assignment."""
    def call(m, x, i, v):
        return getattr(x.at[i], name)(v)

    yield "1M elements of 1M", [floats(LONG), places(LONG, high=LONG), floats(LONG)], call
    yield "1M elements of 1K", [floats(SIDE), places(LONG), floats(LONG)], call
    yield "rows", [big(), places(SIDE), big()], call
    yield "short rows", [floats(65536, 16), places(65536, high=65536), floats(65536, 16)], call


def assignment(m, x, i, v):
    y = m.array(x)
    y[i] = v
    return y


def slice_of(name):
    def call(m, x, v):
        part = x.at[1:1001, ::2]
        return getattr(part, name)(v)

    return one([big(), floats(1000, SIDE // 2)], call)


def slice_set(m, x, v):
    y = m.array(x)
    y[1:1001, ::2] = v
    return y


def random_of(name, *arguments, **keywords):
    return [(variant, [], lambda m, s=shape: getattr(m.random, name)(*arguments, shape=s, **keywords))
            for variant, shape in (("1M", (SIDE, SIDE)), ("1K", (32, 32)))]


def linalg(name, data, **keywords):
    return one(data, lambda m, *x: getattr(m.linalg, name)(*x, **keywords), "256")


def fft(name, data=None, **keywords):
    return one([data or big()], lambda m, x: getattr(m.fft, name)(x, **keywords))


def conv(name, x, w, **keywords):
    return one([floats(*x), floats(*w)], function(name, **keywords), "x".join(map(str, x)))


def creation(call):
    return one([], call)


# Measured under another name, or nothing that MLX's module has.
NONE = {"partition_flat", "argpartition_flat", "topk_flat", "softmax_axes", "tensordot_axes", "conv_general", "flip", "depends", "random_bits",
        "scatter_add_axis", "matmul_int8", "matmul_fp8", "qqmm", "gather_qqmm", "csr_from_dense", "csr_to_dense", "csr_matmul", "csr_matvec"}

HAND = {
    "astype": [(f"1M {t} to {u}", [big(dtype=t) if t != "int32" else integers(99, SIDE, SIDE)], lambda m, x, u=u: x.astype(getattr(m, u)))
               for t, u in (("float32", "bfloat16"), ("bfloat16", "float32"), ("float32", "int32"), ("int32", "float32"), ("float32", "float16"))],
    "round": one([big()], lambda m, x: m.round(x, 2)),
    "clip": one([big()], lambda m, x: m.clip(x, 0.2, 0.7)),
    "nan_to_num": one([big()], function("nan_to_num")),
    # index
    "take_flat": [("1M of 1M", [floats(LONG), places(LONG, high=LONG)], function("take")),
                  ("1M of 16M", [floats(16 * LONG), places(LONG, high=16 * LONG)], function("take")),
                  ("1K of 1M", [floats(LONG), places(1024, high=LONG)], function("take")),
                  ("1M of 1M, x[i]", [floats(LONG), places(LONG, high=LONG)], lambda m, x, i: x[i])],
    "take": [("rows", [big(), places(SIDE)], function("take", axis=0)), ("columns", [big(), places(SIDE)], function("take", axis=1)),
             ("rows of 16", [floats(65536, 16), places(65536, high=65536)], function("take", axis=0)),
             ("rows bfloat16", [big(dtype="bfloat16"), places(SIDE)], function("take", axis=0)),
             ("rows .T", [big().T, places(SIDE)], function("take", axis=0))],
    "gather": [("1M x[i, j]", [big(), places(SIDE, SIDE), places(SIDE, SIDE)], lambda m, x, i, j: x[i, j]),
               ("x[:, i]", [big(), places(SIDE)], lambda m, x, i: x[:, i])],
    "take_along_axis": [(f"axis {k}", [big(), places(SIDE, SIDE)], function("take_along_axis", axis=k)) for k in (0, -1)],
    "take_along_axis_flat": one([floats(LONG), places(LONG, high=LONG)], function("take_along_axis", axis=None)),
    "put_along_axis": [(f"axis {k}", [big(), places(SIDE, SIDE), big()], function("put_along_axis", axis=k)) for k in (0, -1)],
    "put_along_axis_flat": one([floats(LONG), places(LONG, high=LONG), floats(LONG)], function("put_along_axis", axis=None)),
    "scatter": [("1M elements of 1M", [floats(LONG), places(LONG, high=LONG), floats(LONG)], assignment), ("rows", [big(), places(SIDE), big()], assignment)],
    "scatter_add": list(updates("add")), "scatter_prod": list(updates("multiply")), "scatter_max": list(updates("maximum")),
    "scatter_min": list(updates("minimum")),
    "masked_scatter": one([big(), bools(SIDE, SIDE), Data(lambda r: np.ones(np.sum(r.random((SIDE, SIDE)) < 0.5), "float32"), "float32")], assignment),
    "slice_update": one([big(), floats(1000, SIDE // 2)], slice_set),
    "slice_update_add": slice_of("add"), "slice_update_prod": slice_of("multiply"), "slice_update_max": slice_of("maximum"),
    "slice_update_min": slice_of("minimum"),
    "dynamic_slice": one([big(), integers(20, 2)], lambda m, x, i: m.slice(x, i, axes=(0, 1), slice_size=(1000, 1000))),
    "dynamic_slice_update": one([big(), floats(1000, 1000), integers(20, 2)], lambda m, x, v, i: m.slice_update(x, v, i, axes=(0, 1))),
    "diag": [("matrix", [big()], function("diag")), ("vector", [floats(SIDE)], function("diag"))],
    "diagonal": one([big()], function("diagonal")),
    # sort
    "sort_flat": [("1M", [floats(LONG)], function("sort", axis=None)), ("64K", [floats(65536)], function("sort", axis=None)),
                  ("1K", [floats(1024)], function("sort", axis=None)), ("1M sorted", [in_order(LONG)], function("sort", axis=None)),
                  ("1M int32", [integers(1 << 30, LONG, low=-1 << 30)], function("sort", axis=None)),
                  ("1M of 1000 numbers", [integers(1000, LONG)], function("sort", axis=None)),
                  ("1M bfloat16", [floats(LONG, dtype="bfloat16")], function("sort", axis=None)),
                  ("1M int64", [integers(1 << 60, LONG, dtype="int64")], function("sort", axis=None))],
    **{name: list(selected(name)) for name in ("partition", "argpartition", "topk")},
    "searchsorted": [("1M in 1M", [in_order(LONG), floats(LONG)], function("searchsorted")), ("1M in 1K", [in_order(1024), floats(LONG)], function("searchsorted")),
                     ("1M sorted in 1M", [in_order(LONG), in_order(LONG)], function("searchsorted"))],
    # shape
    "split": one([big()], lambda m, x: [p + 0 for p in m.split(x, 4, axis=1)]), "split_at": one([big()], lambda m, x: [p + 0 for p in m.split(x, [100, 500], axis=1)]),
    "unstack": one([floats(16, 65536)], lambda m, x: [p + 0 for p in m.unstack(x)]),
    "stack": [(f"axis {k}", [big(), big()], lambda m, x, y, k=k: m.stack([x, y], axis=k)) for k in (0, 1, 2)],
    "concatenate": [(f"axis {k}", [big(), big()], lambda m, x, y, k=k: m.concatenate([x, y], axis=k)) for k in (0, 1)],
    "pad": one([big()], lambda m, x: m.pad(x, ((1, 2), (3, 4)))),
    "roll": [("1M axis 1", [big()], lambda m, x: m.roll(x, 5, 1)), ("1M flat", [big()], lambda m, x: m.roll(x, 5))],
    "tile": one([floats(256, 256)], lambda m, x: m.tile(x, (4, 4))),
    "repeat": [(f"axis {k}", [floats(512, 512)], lambda m, x, k=k: m.repeat(x, 4, axis=k)) for k in (0, 1)],
    "diff": [(f"axis {k}", [big()], lambda m, x, k=k: m.diff(x, axis=k)) for k in (0, 1)],
    "contiguous": [(name, [big().seen(view)], function("contiguous")) for name, view in
                   ((".T", lambda x: x.T), ("[::-1]", lambda x: x[::-1]), ("[:, ::2]", lambda x: x[:, ::2]), ("[:, ::-1]", lambda x: x[:, ::-1]))],
    # create
    "triu": one([big()], function("triu")), "tril": one([big()], function("tril")),
    "tri": creation(lambda m: m.tri(SIDE)), "identity": creation(lambda m: m.identity(SIDE)), "eye": creation(lambda m: m.eye(SIDE)),
    "linspace": creation(lambda m: m.linspace(0, 1, LONG)), "arange": creation(lambda m: m.arange(0.0, LONG, 1.0)),
    "arange_int": creation(lambda m: m.arange(LONG)), "ones": creation(lambda m: m.ones((SIDE, SIDE))), "zeros": creation(lambda m: m.zeros((SIDE, SIDE))),
    "full": creation(lambda m: m.full((SIDE, SIDE), 2.0)),
    "ones_like": one([big()], function("ones_like")), "zeros_like": one([big()], function("zeros_like")), "full_like": one([big()], lambda m, x: m.full_like(x, 3.0)),
    "meshgrid": one([floats(SIDE), floats(SIDE)], lambda m, x, y: m.concatenate(m.meshgrid(x, y))),
    **{name: one([], lambda m, n=name: getattr(m, n)(LONG)) for name in ("blackman", "hamming", "hanning", "bartlett")},
    # reduce
    "trace": one([big()], function("trace")), "softmax": list(over_axes("softmax", "axis")),
    # matmul
    "matmul": [("512", [floats(512, 512), floats(512, 512)], function("matmul")), ("64", [floats(64, 64), floats(64, 64)], function("matmul")),
               ("1 x 1K x 1K", [floats(1, SIDE), big()], function("matmul")), ("1K x 1K x 1", [big(), floats(SIDE, 1)], function("matmul")),
               ("64 of 64", [floats(64, 64, 64), floats(64, 64, 64)], function("matmul")),
               ("512 .T", [floats(512, 512).T, floats(512, 512)], function("matmul")),
               ("512 bfloat16", [floats(512, 512, dtype="bfloat16"), floats(512, 512, dtype="bfloat16")], function("matmul"))],
    "addmm": one([floats(512, 512), floats(512, 512), floats(512, 512)], function("addmm"), "512"),
    "inner": one([floats(LONG), floats(LONG)], function("inner")), "outer": one([floats(SIDE), floats(SIDE)], function("outer")),
    "kron": one([floats(32, 32), floats(32, 32)], function("kron")), "vecdot": one([big(), big()], function("vecdot")),
    "tensordot": one([floats(64, 64, 64), floats(64, 64, 64)], lambda m, x, y: m.tensordot(x, y, 2), "64"),
    "einsum": one([floats(64, 64, 64), floats(64, 64, 64)], lambda m, x, y: m.einsum("bij,bjk->bik", x, y), "64"),
    "hadamard_transform": one([big()], function("hadamard_transform")),
    "block_masked_mm": one([floats(256, 256), floats(256, 256), bools(4, 4)], lambda m, x, y, k: m.block_masked_mm(x, y, 64, k), "256"),
    "gather_mm": one([floats(8, 64, 64), floats(8, 64, 64), places(8, high=8)], lambda m, x, y, i: m.gather_mm(x, y, i, i), "8 of 64"),
    "segmented_mm": one([floats(64, 512), floats(512, 64), Data(lambda r: np.array([[0, 128], [128, 512]], "uint32"), "uint32")], function("segmented_mm"), "64"),
    # conv
    "conv1d": conv("conv1d", (8, 512, 32), (32, 5, 32)), "conv2d": conv("conv2d", (4, 64, 64, 32), (32, 3, 3, 32), padding=1),
    "conv3d": conv("conv3d", (1, 16, 32, 32, 16), (16, 3, 3, 3, 16)),
    "conv_transpose1d": conv("conv_transpose1d", (8, 512, 32), (32, 5, 32)), "conv_transpose2d": conv("conv_transpose2d", (4, 32, 32, 32), (32, 3, 3, 32)),
    "conv_transpose3d": conv("conv_transpose3d", (1, 8, 16, 16, 16), (16, 3, 3, 3, 16)),
    "convolve": one([floats(65536), floats(64)], function("convolve"), "64K"),
    # fast
    "fast_rms_norm": one([big(), floats(SIDE)], lambda m, x, w: m.fast.rms_norm(x, w, 1e-5)),
    "fast_layer_norm": one([big(), floats(SIDE), floats(SIDE)], lambda m, x, w, b: m.fast.layer_norm(x, w, b, 1e-5)),
    "fast_rope": one([floats(4, 16, 256, 64)], lambda m, x: m.fast.rope(x, 64, traditional=False, base=10000.0, scale=1.0, offset=0)),
    "fast_cross_entropy": one([big(), places(SIDE)], lambda m, x, t: m.fast.cross_entropy(x, t)),
    "fast_gated_delta_update": one([floats(1, 128, 4, 64)] * 3 + [floats(1, 128, 4)] * 2, lambda m, *x: m.fast.gated_delta_update(*x), "128 of 64"),
    "fast_scaled_dot_product_attention": one([floats(1, 8, 256, 64)] * 3, lambda m, q, k, v: m.fast.scaled_dot_product_attention(q, k, v, scale=0.125), "256"),
    # fft
    **{f"fft_{n}": fft(n) for n in ("fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn", "fftshift", "ifftshift")},
    "fft_fftfreq": creation(lambda m: m.fft.fftfreq(LONG)), "fft_rfftfreq": creation(lambda m: m.fft.rfftfreq(LONG)),
    # quantized
    "quantize": one([big()], function("quantize")),
    "dequantize": one([places(SIDE, SIDE // 8, high=1 << 32), floats(SIDE, 16), floats(SIDE, 16)], function("dequantize")),
    "quantized_matmul": [(f"{n} x 1K x 1K", [floats(n, SIDE), places(SIDE, SIDE // 8, high=1 << 32), floats(SIDE, 16), floats(SIDE, 16)],
                          function("quantized_matmul")) for n in (1, 32)],
    "gather_qmm": one([floats(8, 1, SIDE), places(8, SIDE, SIDE // 8, high=1 << 32), floats(8, SIDE, 16), floats(8, SIDE, 16), places(8, high=8)],
                      lambda m, x, w, s, b, i: m.gather_qmm(x, w, s, b, i, i), "8 of 1 x 1K x 1K"),
    "to_fp8": one([big()], function("to_fp8")), "from_fp8": one([integers(126, SIDE, SIDE, dtype="uint8")], lambda m, x: m.from_fp8(x, m.float32)),
    # random
    "random_uniform": random_of("uniform"), "random_normal": random_of("normal"), "random_gumbel": random_of("gumbel"), "random_laplace": random_of("laplace"),
    "random_randint": random_of("randint", 0, 1000), "random_bernoulli": random_of("bernoulli", 0.3),
    "random_truncated_normal": random_of("truncated_normal", -1.0, 1.0),
    "random_categorical": one([floats(SIDE, SIDE)], lambda m, x: m.random.categorical(x)),
    "random_permutation": one([big()], lambda m, x: m.random.permutation(x)), "random_permutation_int": creation(lambda m: m.random.permutation(LONG)),
    "random_multivariate_normal": one([floats(16), symmetric(16)], lambda m, x, c: m.random.multivariate_normal(x, c, shape=(65536,)), "64K"),
    "random_split": creation(lambda m: m.random.split(m.random.key(0), 65536)), "random_key": creation(lambda m: m.random.key(7)),
    # linalg
    **{f"linalg_{n}": linalg(n, [matrix(256)]) for n in ("inv", "det", "slogdet", "lu", "lu_factor", "qr", "svd", "eig", "eigvals", "pinv", "norm", "tri_inv", "cholesky_inv")},
    **{f"linalg_{n}": linalg(n, [symmetric(256)]) for n in ("cholesky", "eigh", "eigvalsh")},
    "linalg_solve": linalg("solve", [matrix(256), floats(256, 256)]), "linalg_solve_triangular": linalg("solve_triangular", [matrix(256), floats(256, 256)]),
    "linalg_cross": one([floats(65536, 3), floats(65536, 3)], lambda m, x, y: m.linalg.cross(x, y), "64K"),
    "fft_stft": one([floats(LONG)], lambda m, x: m.fft.stft(x, 1024)),
    "fft_istft": one([complexes(513, 1000)], lambda m, x: m.fft.istft(x, 1024)),
    "unique": [("1M of 1000 numbers", [integers(1000, LONG)], lambda m, x: m.unique(x, 1000)), ("1M", [floats(LONG)], lambda m, x: m.unique(x, LONG))],
    # views: made, and copied where that is all there is to see
    "view": one([big()], lambda m, x: m.view(x, m.int32)), "unflatten": one([big()], lambda m, x: m.unflatten(x, 0, (32, 32))),
    "flatten": [("1M", [big()], function("flatten")), ("1M .T", [big().T], function("flatten"))], "reshape": [("1M", [big()], lambda m, x: m.reshape(x, (LONG,))),
    ("1M .T", [big().T], lambda m, x: m.reshape(x, (LONG,)))],
    "as_strided": one([big()], lambda m, x: m.as_strided(x, (512, 512), (1, 2), 0)),
    "slice": one([big()], lambda m, x: x[1:, ::2]),
    "stop_gradient": one([big()], function("stop_gradient")),
    "broadcast_arrays": one([big(), floats(SIDE)], lambda m, x, y: list(m.broadcast_arrays(x, y))), "broadcast_to": one([floats(SIDE)], lambda m, x: m.broadcast_to(x, (SIDE, SIDE))),
    **{f"atleast_{n}d": one([floats(SIDE)], function(f"atleast_{n}d")) for n in (1, 2, 3)},
    "expand_dims": one([big()], lambda m, x: m.expand_dims(x, 1)), "squeeze": one([floats(1, SIDE)], function("squeeze")),
    "matrix_transpose": one([big()], lambda m, x: x.T), "moveaxis": one([big()], lambda m, x: m.moveaxis(x, 0, 1)),
    "swapaxes": one([big()], lambda m, x: m.swapaxes(x, 0, 1)), "transpose": one([big()], function("transpose")),
}
