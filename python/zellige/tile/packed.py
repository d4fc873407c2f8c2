"""Parameters of 4-bit elements: two in a byte, the first in the low half. Inside of a kernel each has a byte of its own."""

from .bounds import known
from .buffers import Buffer, Load, Region
from .dtypes import INDEX, dtype
from .errors import fail
from .expr import Cast, Expr, Renamed, cast

U8 = dtype("uint8")


class Packed(Buffer):
    """A parameter with 4-bit elements. bytes: the buffer of bytes that it is in the kernel's text."""

    def __init__(self, shape, type_, name, builder):
        super().__init__(shape, type_, "global", None, name)
        if known(self.shape[-1]) is not None and known(self.shape[-1]) % 2:
            fail(f"'{name}' has {self.shape[-1]} elements of 4 bits along its last axis: two make a byte")
        self.builder = self.base = builder  # base: statements on whole buffers go element by element
        self.bytes = Buffer((*self.shape[:-1], self.shape[-1] // 2), U8, "global", None, name)
        self.bytes.builder = builder

    @property
    def is_written(self):
        return self.bytes.is_written

    @is_written.setter
    def is_written(self, value):
        if hasattr(self, "bytes"):
            self.bytes.is_written = value

    def element(self, indices):
        return Half(self, indices)


class Half(Load):
    """An element of a packed parameter: a half of a byte, which can be read."""

    __slots__ = ("formula",)

    def __init__(self, buffer, indices):
        super().__init__(buffer, indices)
        *leading, last = indices
        byte = Byte(buffer, [*leading, cast(last, INDEX) // 2], self)
        self.formula = Four(byte >> cast((cast(last, INDEX) % 2) * 4, U8), buffer.dtype)

    def text(self, expected=None):
        return self.formula.text(expected)


class Four(Expr):
    """The low 4 bits of a byte as a value of a type of 4 bits."""

    __slots__ = ("children",)

    def __init__(self, byte, type_):
        super().__init__(type_)
        self.children = [byte]

    def text(self, expected=None):
        low = f"u4({self.children[0].text(U8)})"
        return {"int4": f"i8(bits<i4>({low}))", "uint4": f"u8({low})"}.get(self.dtype) or f"bits<e2m1>({low})"


class Code(Expr):
    """The 4 bits of a float, in a byte."""

    __slots__ = ("children",)

    def __init__(self, value):
        super().__init__(U8)
        self.children = [value]

    def text(self, expected=None):
        return f"u8(bits<u4>({self.children[0].text()}))"


class Byte(Load):
    """The byte of a half, under the half's mask."""

    __slots__ = ("half",)

    def __init__(self, packed, indices, half):
        super().__init__(packed.bytes, indices)
        self.half = half

    def mask(self):
        return Load.mask(self.half)


def code(value, type_):
    """The 4 bits of a value, in a byte."""
    e = cast(value, type_)
    return Code(e) if type_.is_small else Cast(e, U8) & 15


def bits_of_four(e, type_):
    """The same 4 bits as another type."""
    if type_.is_small:
        return Four(Cast(e, U8), type_)
    return Renamed(Code(e), type_) if e.dtype.is_small and type_ == "uint4" else Four(Code(e) if e.dtype.is_small else Cast(e, U8), type_)


def pack(src, dst):
    """Copies a region into one of a packed parameter, byte by byte."""
    from .statements import over, store
    if known(dst.extent[-1] % 2) != 0 or known(dst.origin[-1] % 2) not in (0, None):
        fail(f"'{dst.buffer.name}' has two elements in a byte: copies to it begin and end at bytes")
    bytes_ = Region(dst.buffer.bytes, [*dst.origin[:-1], dst.origin[-1] // 2], [*dst.extent[:-1], dst.extent[-1] // 2])

    def body(point):
        low, high = (src.at([*point[:-1], point[-1] * 2 + i]) for i in (0, 1))
        store(bytes_.at(point), code(low, dst.dtype) | (code(high, dst.dtype) << 4))
    over(bytes_, body)
