"""Floats of 8 and 4 bits: kept as bytes, computed with as float32. Loads and stores move the bytes; a cast is a formula on them.

A format is its exponent and mantissa bits, its bias, and the largest finite value, at which casts saturate.
"""

import math

from .builder import peek
from .dtypes import dtype
from .expr import Cast, Const, Expr, Op, cast, select, wrap

U32, F32 = dtype("uint32"), dtype("float32")


class Format:
    def __init__(self, mantissa, bias, largest, nan, bits=8):
        self.mantissa, self.bias, self.largest, self.nan, self.bits = mantissa, bias, largest, nan, bits
        self.sign = 1 << (bits - 1)
        self.shift = 23 - mantissa
        self.normal = 2.0 ** (1 - bias)             # the smallest normal number
        self.step = 2.0 ** (bias - 1 + mantissa)    # 1 / the smallest number


FORMATS = {"float8_e4m3fn": Format(3, 7, 448.0, 0x7f), "float8_e5m2": Format(2, 15, 57344.0, 0x7f),
           "float8_e4m3fnuz": Format(3, 8, 240.0, 0x80), "float8_e5m2fnuz": Format(2, 16, 57344.0, 0x80),
           "float4_e2m1fn": Format(1, 1, 6.0, 0x7, bits=4)}  # it has no NaN: that becomes the largest


class Bytes(Expr):
    """A value of 8 bits as the byte that it is."""

    __slots__ = ("children",)

    def __init__(self, byte, type_):
        super().__init__(type_, byte.level)
        self.children = [byte]

    def text(self, expected=None):
        return self.children[0].text(dtype("uint8"))


class Byte(Bytes):
    """The byte of a value of 8 bits."""

    def __init__(self, value):
        super().__init__(value, dtype("uint8"))

    def text(self, expected=None):
        return self.children[0].text()


def kept(name, e):
    """e under a name, since a formula uses it more than once."""
    builder = peek()
    return e if builder is None or len(builder.blocks) == 1 else builder.named(name, e)


def decoded(e):
    """The float32 that a value of 8 bits is."""
    if e.dtype == "float8_e8m0fnu":
        return Cast(cast(Byte(e), U32) << 23, F32, bits=True)
    form = FORMATS[e.dtype]
    byte = kept("byte", cast(Byte(e), U32))
    bits = ((byte & form.sign) << (32 - form.bits)) | ((byte & (form.sign - 1)) << form.shift)
    value = Cast(bits, F32, bits=True) * Const(2.0 ** (127 - form.bias), F32)
    if form.bits == 4:
        return value
    if form.nan == 0x80:
        return select(byte == 0x80, math.nan, value)
    if form.mantissa == 2:  # infinities: the exponent of all ones is theirs and that of NaN
        value = select((byte & 0x7f) == 0x7c, select(byte >= 0x80, -math.inf, math.inf), value)
        return select((byte & 0x7f) > 0x7c, math.nan, value)
    return select((byte & 0x7f) == 0x7f, math.nan, value)


def encoded(e, type_):
    """The byte nearest to a float32, saturated."""
    if type_ == "float8_e8m0fnu":
        return Bytes(cast((Cast(e, U32, bits=True) >> 23) & 0xff, "uint8"), type_)
    form = FORMATS[type_]
    x = kept("x", cast(e, F32))
    size = kept("size", Op("minimum", [Op("abs", [x], F32), Const(form.largest, F32)], F32))
    bits = kept("bits_of", Cast(size, U32, bits=True))
    rounded = (bits + ((1 << (form.shift - 1)) - 1) + ((bits >> form.shift) & 1)) >> form.shift
    normal = rounded - ((127 - form.bias) << form.mantissa)
    small = cast(Op("rint", [size * form.step], F32), U32)
    sign = (Cast(x, U32, bits=True) >> (32 - form.bits)) & form.sign
    byte = select(size < form.normal, small, normal)
    if form.nan == 0x80:
        sign = select(byte == 0, 0, sign)
    byte = select(Op("!=", [x, x], dtype("bool")), form.nan, byte | sign)
    return Bytes(cast(byte, "uint8"), type_)


def encoded_number(value, type_):
    """The byte of a number that is known now."""
    if type_ == "float8_e8m0fnu":
        return 0 if value <= 0 else max(0, min(254, math.floor(math.log2(value)) + 127))
    form = FORMATS[type_]
    if math.isnan(value):
        return form.nan
    size, sign = min(abs(value), form.largest), form.sign if math.copysign(1, value) < 0 else 0
    if size < form.normal:
        return sign | round(size * form.step)
    exponent = math.floor(math.log2(size))
    fraction = round(size / 2.0 ** exponent * (1 << form.mantissa))
    return sign | ((exponent + form.bias - 1) << form.mantissa) + fraction


def cast_small(e, type_):
    e = wrap(e)
    if e.dtype.is_small:
        return cast(decoded(e), type_)
    return encoded(e, type_)
