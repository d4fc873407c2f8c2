"""Element types: TileLang's names for them, the words of our tile language, and the objects of array libraries.

A dtype is a string, its TileLang name, so that T.float16, "float16" and torch.float16 are one thing once read.
"""

import re

WORDS = {
    "bool": "bool", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "complex64": "c64",
    **{f"{'u' * unsigned}int{bits}": f"{'ui'[not unsigned]}{bits}" for unsigned in (0, 1) for bits in (8, 16, 32, 64)},
}
SMALL = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "float8_e4m3fnuz": "e4m3fnuz", "float8_e5m2fnuz": "e5m2fnuz",
         "float8_e8m0fnu": "e8m0", "float4_e2m1fn": "e2m1"}  # kept and converted, computed with as float32
ALIASES = {"float": "float32", "half": "float16", "double": "float64", "int": "int32", "uint": "uint32", "long": "int64",
           "short": "int16", "char": "int8", "tfloat32": "float32", "boolean": "bool", "float8_e4m3": "float8_e4m3fn",
           "e4m3_float8": "float8_e4m3fn", "e5m2_float8": "float8_e5m2"}
BITS = {"bool": 8, "bfloat16": 16, "complex64": 64, "float4_e2m1fn": 4, "handle": 64,
        "float8_e4m3fn": 8, "float8_e5m2": 8, "float8_e4m3fnuz": 8, "float8_e5m2fnuz": 8, "float8_e8m0fnu": 8}
INFINITY = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38,
            "float64": 1.7976931348623157e308, "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0,
            "float4_e2m1fn": 6.0}


class dtype(str):
    """The type of an element. Called on a value it converts it: T.float32(x)."""

    __slots__ = ()

    def __new__(cls, spelling="float32"):
        return str.__new__(cls, name_of(spelling))

    def __call__(self, value=0):
        from .expr import cast
        return cast(value, self)

    @property
    def bits(self):
        return BITS.get(self) or int(re.search(r"\d+", self).group())

    @property
    def itemsize(self):
        return (self.bits + 7) // 8

    bytes = itemsize
    lanes = 1

    @property
    def word(self):
        """The type in our tile language, None where it has none."""
        return SMALL.get(self) or {"int4": "i8", "uint4": "u8"}.get(self) or WORDS.get(self)

    @property
    def is_small(self):
        """Whether it is a float of 8 or 4 bits."""
        return self in SMALL

    @property
    def is_packed(self):
        """Whether two elements of a parameter share a byte."""
        return self in ("int4", "uint4", "float4_e2m1fn")

    @property
    def is_float(self):
        return "float" in self

    @property
    def is_integer(self):
        return "int" in self

    @property
    def is_unsigned(self):
        return self.startswith("uint")

    @property
    def largest(self):
        if self.is_float:
            return INFINITY[self]
        return 1 if self == "bool" else (1 << (self.bits - (not self.is_unsigned))) - 1

    @property
    def smallest(self):
        if self.is_float:
            return -INFINITY[self]
        return -(1 << (self.bits - 1)) if self.is_integer and not self.is_unsigned else 0

    def as_torch(self):
        import torch
        return getattr(torch, self)

    def __repr__(self):
        return f"T.{str.__str__(self)}"


def name_of(spelling):
    """The TileLang name of a dtype in any spelling: ours, a string, torch's, NumPy's, zellige's, a Python type."""
    if isinstance(spelling, dtype):
        return str.__str__(spelling)
    if isinstance(spelling, type) and spelling in (int, float, bool):
        return {int: "int32", float: "float32", bool: "bool"}[spelling]
    named_so = getattr(spelling, "name", None) or getattr(spelling, "__name__", None) or str(spelling)
    text = (spelling if isinstance(spelling, str) else named_so).rsplit(".", 1)[-1]
    text = ALIASES.get(text.rstrip("_"), text)
    text = text[:-1] if text.endswith("_") else text
    if text in WORDS or text in BITS or re.fullmatch(r"u?int[1-4]", text):
        return text
    raise TypeError(f"{spelling!r} is no dtype; known: {', '.join(dict.fromkeys([*WORDS, *BITS]))}")


def named():
    """Every dtype by the names that T has for it."""
    every = {name: dtype(name) for name in [*WORDS, *BITS, "int4", "uint4", "uint1", "uint2", "int2"]}
    return {**every, **{alias: every[name] for alias, name in ALIASES.items()}}


INDEX = dtype("int64")  # of loop variables and sizes; its values are small, so that TileLang's int32 is the same
BOOL = dtype("bool")
