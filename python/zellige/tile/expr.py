"""Expressions of tile programs: typed nodes with Python's operators, and their text in our tile language.

Our language promotes nothing, TileLang promotes as TVM does: operands are made to agree here, by casts that the text
shows. A Python number takes the type of what it meets. The text of a node is made when a statement uses it, since
buffers get their names only once the user's assignment has been seen.
"""

import math

from .dtypes import BOOL, INDEX, dtype
from .errors import fail

INFIX = {"|": 1, "^": 2, "&": 3, "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "<<": 5, ">>": 5, "+": 6, "-": 6,
         "*": 7, "/": 7, "//": 7, "%": 7}
COMPARE, PREFIX, PRIMARY = 4, 8, 9


class Expr:
    """A value that is known when the kernel runs. Subclasses have text(expected), level, and children."""

    __slots__ = ("dtype", "level")
    __array_priority__ = 1000

    def __init__(self, type_, level=PRIMARY):
        self.dtype = type_
        self.level = level

    children = ()

    def __repr__(self):
        return self.text()

    def __bool__(self):
        fail(f"'{self.text()}' is known only when the kernel runs: Python cannot branch on it here; use T.if_then_else, "
             "or an if statement inside of the kernel itself")

    __hash__ = object.__hash__

    def __add__(self, other): return binary("+", self, other)
    def __radd__(self, other): return binary("+", other, self)
    def __sub__(self, other): return binary("-", self, other)
    def __rsub__(self, other): return binary("-", other, self)
    def __mul__(self, other): return binary("*", self, other)
    def __rmul__(self, other): return binary("*", other, self)
    def __truediv__(self, other): return binary("/", self, other)
    def __rtruediv__(self, other): return binary("/", other, self)
    def __floordiv__(self, other): return binary("//", self, other)
    def __rfloordiv__(self, other): return binary("//", other, self)
    def __mod__(self, other): return binary("%", self, other)
    def __rmod__(self, other): return binary("%", other, self)
    def __lshift__(self, other): return binary("<<", self, other)
    def __rlshift__(self, other): return binary("<<", other, self)
    def __rshift__(self, other): return binary(">>", self, other)
    def __rrshift__(self, other): return binary(">>", other, self)
    def __and__(self, other): return binary("&", self, other)
    def __rand__(self, other): return binary("&", other, self)
    def __or__(self, other): return binary("|", self, other)
    def __ror__(self, other): return binary("|", other, self)
    def __xor__(self, other): return binary("^", self, other)
    def __rxor__(self, other): return binary("^", other, self)
    def __pow__(self, other): return call("power", self, other)
    def __rpow__(self, other): return call("power", other, self)
    def __lt__(self, other): return binary("<", self, other)
    def __le__(self, other): return binary("<=", self, other)
    def __gt__(self, other): return binary(">", self, other)
    def __ge__(self, other): return binary(">=", self, other)
    def __eq__(self, other): return other is not None and binary("==", self, other)
    def __ne__(self, other): return other is None or binary("!=", self, other)
    def __neg__(self): return call("-", self)
    def __pos__(self): return self
    def __abs__(self): return call("abs", self)
    def __invert__(self): return Op("!", [self], self.dtype)

    def astype(self, type_):
        return cast(self, type_)


class Const(Expr):
    """A number of a settled type."""

    __slots__ = ("value",)

    def __init__(self, value, type_):
        super().__init__(type_)
        self.value = value

    def text(self, expected=None):
        if self.dtype.is_small:
            return f"{word(self.dtype)}({number(self.value, dtype('float32'))})"
        bare = number(self.value, self.dtype)
        default = INDEX if self.dtype.is_integer else dtype("float32")
        if self.dtype == (expected or default) or self.dtype == BOOL:
            return bare
        if bare.lstrip("-") in ("inf", "nan"):
            return f"{bare}_{word(self.dtype)}"
        return bare + word(self.dtype)


class Name(Expr):
    """A loop variable, size, scalar parameter or named expression. extent: it counts up to this; bounds: its range."""

    __slots__ = ("name", "kind", "extent", "bounds")

    def __init__(self, name, type_, kind, extent=None, bounds=(None, None)):
        super().__init__(type_)
        self.name, self.kind, self.extent, self.bounds = name, kind, extent, bounds

    def text(self, expected=None):
        return self.name


unreached = []  # operators being written whose operands a program may mean only where the others say so


class Op(Expr):
    """An operator or function on operands that agree."""

    __slots__ = ("op", "children")

    def __init__(self, op, children, type_):
        prefix = op in ("-", "!") and len(children) == 1
        super().__init__(type_, PREFIX if prefix else INFIX.get(op, PRIMARY))
        self.op, self.children = op, children

    def __bool__(self):
        if self.op in ("==", "!="):  # as TVM: whether both sides are the same expression
            return same(*self.children) == (self.op == "==")
        return super().__bool__()

    def text(self, expected=None):
        if self.op not in ("where", "&", "|"):
            return self.written(expected)
        unreached.append(self)
        try:
            return self.written(expected)
        finally:
            unreached.pop()

    def written(self, expected):
        if len(self.children) == 1 and self.op in ("-", "!"):
            return self.op + inside(self.children[0], PREFIX, expected or self.dtype)
        if self.level < PREFIX:
            return f" {self.op} ".join(self.operand(at) for at in (0, 1))
        typed = any(not isinstance(c, Const) and c.dtype == self.dtype for c in self.children)
        known = self.dtype if typed or self.dtype == expected else None
        return f"{self.op}({', '.join(c.text(known if c.dtype == known else None) for c in self.children)})"

    def operand(self, at):
        here, other = self.children[at], self.children[1 - at]
        level = self.level + (at == 1 or self.level == COMPARE)
        return inside(here, level, other.dtype if not isinstance(other, Const) else None)


class Cast(Expr):
    __slots__ = ("children", "bits")

    def __init__(self, value, type_, bits=False):
        super().__init__(type_)
        self.children, self.bits = [value], bits

    def text(self, expected=None):
        name = f"bits<{word(self.dtype)}>" if self.bits else word(self.dtype)
        return f"{name}({self.children[0].text()})"


class Renamed(Expr):
    """A value whose type has the same word: 4 bits in a byte."""

    __slots__ = ("children",)

    def __init__(self, value, type_):
        super().__init__(type_, value.level)
        self.children = [value]

    def text(self, expected=None):
        return self.children[0].text()


def inside(e, level, expected=None):
    text = e.text(expected)
    return f"({text})" if e.level < level else text


def number(value, type_):
    if type_ == BOOL:
        return "true" if value else "false"
    if type_.is_float:
        value = float(value)
        return repr(value) if math.isfinite(value) else "nan" if math.isnan(value) else "-inf" if value < 0 else "inf"
    return str(int(value))


def word(type_):
    return type_.word or fail(f"{type_!r} has no arithmetic here yet")


# Making expressions agree ---------------------------------------------------------------------------------------------


def is_number(value):
    return isinstance(value, (int, float)) or type(value).__module__ == "numpy" and getattr(value, "shape", None) == ()


def wrap(value, like=None):
    """value as an expression; a Python number is of the type `like` if that can hold it."""
    if isinstance(value, Expr):
        return value
    scalar = getattr(value, "as_scalar", None)
    if scalar is not None:
        return scalar()
    if not is_number(value):
        fail(f"a number or a value of the kernel is expected, not {value!r} ({type(value).__name__})")
    if not isinstance(value, (int, float, bool)):
        value = value.item()
    if like is None or (isinstance(value, float) and not like.is_float) or (like == BOOL and not isinstance(value, bool)):
        like = BOOL if isinstance(value, bool) else INDEX if isinstance(value, int) else dtype("float32")
    return Const(value, like)


def promote(a, b):
    """The type that both become, as TVM decides it; an index is no wider than what it meets."""
    if a.is_small or b.is_small:
        return dtype("float32") if a.is_small == b.is_small or not (a.is_float and b.is_float) else b if a.is_small else a
    if a == b:
        return a
    for one, other in ((a, b), (b, a)):
        if one == BOOL:
            return other
        if one == INDEX and other.is_unsigned and other.bits >= 32:
            return other
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    if a.is_float:
        return dtype("float32")
    return a if a.is_unsigned else b


def agree(*values):
    known = [v for v in values if isinstance(v, Expr) or hasattr(v, "as_scalar")]
    like = None
    for v in known:
        like = wrap(v).dtype if like is None else promote(like, wrap(v).dtype)
    wrapped = [wrap(v, like) for v in values]
    for v in wrapped:
        like = v.dtype if like is None else promote(like, v.dtype)
    like = dtype("float32") if like.is_small else like
    return [cast(v, like) for v in wrapped]


def cast(value, type_):
    type_ = dtype(type_)
    e = wrap(value, type_)
    if e.dtype == type_:
        return e
    if isinstance(e, Const) and e.dtype.is_small:
        e = Const(e.value, dtype("float32"))
    if isinstance(e, Const):
        return cast_number(e, type_)
    if type_ == "int4":
        return Renamed((cast(e, "int8") << 4) >> 4, type_)
    if type_ == "uint4":
        return Renamed(cast(e, "uint8") & 15, type_)
    return Cast(e, type_)


def cast_number(e, type_):
    if type_ == BOOL:
        return Const(bool(e.value), type_)
    if type_.is_float:
        return Const(e.value, type_)
    return Const(math.trunc(e.value), type_) if math.isfinite(e.value) else Cast(e, type_)


def binary(op, a, b):
    if op in ("<<", ">>"):
        a = wrap(a, wrap(b).dtype)
        a, b = a, cast(wrap(b, a.dtype), a.dtype)
    else:
        a, b = agree(a, b)
    if op == "/" and not a.dtype.is_float:
        fail("'/' is of floats; use // (rounded down) for integers")
    if op in ("&", "|", "^", "<<", ">>") and a.dtype.is_float:
        fail(f"'{op}' is of integers and bool, not {a.dtype!r}")
    folded = fold(op, a, b)
    if folded is not None:
        return folded
    return Op(op, [a, b], BOOL if INFIX[op] == COMPARE else a.dtype)


def fold(op, a, b):
    """What x + 0, x * 1 and their like are without computing; None for everything else."""
    if isinstance(a, Const) and isinstance(b, Const) and a.dtype == INDEX and op in "+-*":
        return Const({"+": a.value + b.value, "-": a.value - b.value, "*": a.value * b.value}[op], INDEX)
    if a.dtype.is_float:
        return None
    if isinstance(b, Const) and ((b.value == 0 and op in ("+", "-", "<<", ">>")) or (b.value == 1 and op in ("*", "//"))):
        return a
    if isinstance(a, Const) and ((a.value == 0 and op == "+") or (a.value == 1 and op == "*")):
        return b
    if op == "*" and any(isinstance(x, Const) and x.value == 0 for x in (a, b)):
        return Const(0, a.dtype)
    return None


def call(op, *values):
    """A function of our language on operands that agree and give their own type."""
    operands = agree(*values)
    return Op(op, operands, operands[0].dtype)


def select(condition, a, b):
    kept = isinstance(a, Expr) and isinstance(b, Expr) and a.dtype == b.dtype
    a, b = (a, b) if kept else agree(a, b)
    return Op("where", [truth(condition), a, b], a.dtype)


def truth(value):
    e = wrap(value)
    if e.dtype == BOOL:
        return e
    return Const(e.value != 0, BOOL) if isinstance(e, Const) else Op("!=", [e, Const(0, e.dtype)], BOOL)


def same(a, b):
    """Whether two values are the same number or the same expression."""
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return a == b
    a, b = wrap(a), wrap(b)
    return a is b or (a.dtype == b.dtype and a.text() == b.text())
