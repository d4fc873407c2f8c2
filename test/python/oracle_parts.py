"""oracle_parts.py - cases of oracle_ops.py: frames of signals, losses, the gated delta rule and different elements."""

import itertools
import math

from oracle import *  # the whole of it is what cases are written in

NONE = -2**31  # a number that is not given


def number(x):
    return NONE if x is None else x


def frames():
    window = (np.hanning(32) + 0.1).astype("float32")
    signals = [(data_of((2, 100), "float32"), "float32"), (data_of((100,), "complex64"), "complex64"), (data_of((2, 3, 40), "int16"), "int16")]
    for (d, t), n, hop, length, w, center, mode, norm, half in itertools.product(
            signals, (32, 33, 0), (None, 9), (None, 20), (None, window), (True, False), ("reflect", "edge", "constant", "wrap"),
            ("backward", "ortho", "none"), (None, True, False)):
        check(f"stft {t}{d.shape} {n} {hop} {length} {center} {mode} {norm} {half}",
              lambda: zl.fft_stft(lib.array(d, t), n, number(hop), number(length), None if w is None else lib.array(w, "float32"), center,
                                  mode, norm, number(half)),
              lambda: mx.fft.stft(mlx_array(d, t), n, hop, length, None if w is None else mx.array(w), center, mode, norm, half), 1e-3)
    y = np.array(mx.fft.stft(mx.array(data_of((2, 100), "float32")), 32, window=mx.array(window)))
    for n, hop, length, w, center, norm, half, size in itertools.product(
            (None, 33, -1), (None, 9, 0), (None, 20), (None, window), (True, False), ("backward", "forward", "none"), (None, True, False),
            (None, 0, 200)):
        check(f"istft {n} {hop} {length} {center} {norm} {half} {size}",
              lambda: zl.fft_istft(lib.array(y, "complex64"), number(n), number(hop), number(length),
                                   None if w is None else lib.array(w, "float32"), center, norm, number(half), number(size)),
              lambda: mx.fft.istft(mx.array(y), n, hop, length, None if w is None else mx.array(w), center, norm, half, size), 1e-3)


def losses():
    for t, u, s in itertools.product(DTYPES, ("int32", "uint8", "int64", "float32", "bool"), [(3, 4, 7), (7,), (2, 3000)]):
        d, e = data_of(s, t), data_of(s[:-1], u, 0, 2)
        bound = 2e-2 if t in ("float16", "bfloat16") else 1e-4
        check(f"cross_entropy {t}{s} {u}", lambda: zl.fast_cross_entropy(lib.array(d, t), lib.array(e, u)),
              lambda: mx.fast.cross_entropy(mlx_array(d, t), mlx_array(e, u)), bound)
    d = data_of((3, 4), "float32")
    check("cross_entropy of other targets", lambda: zl.fast_cross_entropy(lib.array(d, "float32"), lib.array(d[0].astype("int32"), "int32")),
          lambda: mx.fast.cross_entropy(mx.array(d), mx.array(d[0].astype("int32"))))


def delta_rules():
    def some(*shape):
        return (random.standard_normal(shape) / 4).astype("float32")

    for (b, t, h, d, n, e), wide, state, mask in itertools.product(
            [(1, 1, 1, 32, 1, 1), (2, 5, 2, 32, 4, 8), (1, 9, 1, 64, 3, 4)], (False, True), (False, True), (False, True)):
        data = [some(b, t, h, d), some(b, t, h, d), some(b, t, n, e), np.abs(some(*((b, t, n, d) if wide else (b, t, n)))), np.abs(some(b, t, n)),
                some(b, n, e, d) if state else None, random.random((b, t)) > 0.4 if mask else None]
        check(f"gated_delta_update {(b, t, h, d, n, e)} {wide} {state} {mask}",
              lambda: zl.fast_gated_delta_update(*(x if x is None else lib.array(x, x.dtype.name) for x in data), outputs=2),
              lambda: mx.fast.gated_delta_update(*(x if x is None else mx.array(x) for x in data)), 1e-4)


def different():
    for t, s, size, fill, wanted in itertools.product(DTYPES, [(5,), (4, 6), (), (0, 3), (200,)], (-1, 0, 1, 3, 40), (None, 1), itertools.product((False, True), repeat=3)):
        d = data_of(s, t, 0, 5)
        check(f"unique {t}{s} {size} {fill} {wanted}",
              lambda: zl.unique(lib.array(d, t), size, *wanted, fill if fill is None else lib.array(np.array(fill), t), outputs=1 + sum(wanted)),
              lambda: mx.unique(mlx_array(d, t), size, *wanted, fill_value=fill))
    for t in FLOATS:
        d = np.array([3, math.nan, 1, math.nan, -0.0, 0.0, math.inf], "float32")
        check(f"unique odd {t}", lambda: zl.unique(lib.array(d, t), 9, True, True, True, None, outputs=4),
              lambda: mx.unique(mlx_array(d, t), 9, True, True, True))


FAMILIES = [frames, losses, delta_rules, different]
