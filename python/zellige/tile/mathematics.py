"""Scalar functions of T: each is an op of our tile language, or a formula in them."""

import builtins
import math

from .bounds import known
from .dtypes import BOOL, dtype
from .errors import fail
from .expr import Cast as _Cast
from .expr import Const, Op, agree, binary, call, cast, is_number, select, truth, wrap


def _is_python(*values):
    return all(is_number(v) for v in values)


def _of_float(op, x):
    e = wrap(x, dtype("float32"))
    e = e if e.dtype.is_float and not e.dtype.is_small else cast(e, "float32")
    return Op(op, [e], e.dtype)


def _elementary(op, python=None):
    def function(x, *hints, **named_hints):
        return python(x) if python and _is_python(x) else _of_float(op, x)
    function.__name__ = op
    return function


exp = _elementary("exp", math.exp)
log, log1p = _elementary("log"), _elementary("log1p")
log2, log10 = _elementary("log2"), _elementary("log10")
sin, cos, tan = _elementary("sin"), _elementary("cos"), _elementary("tan")
asin, acos, atan = _elementary("arcsin"), _elementary("arccos"), _elementary("arctan")
sinh, cosh, tanh = _elementary("sinh"), _elementary("cosh"), _elementary("tanh")
asinh, acosh, atanh = _elementary("arcsinh"), _elementary("arccosh"), _elementary("arctanh")
sqrt, rsqrt, sigmoid, erf = _elementary("sqrt", math.sqrt), _elementary("rsqrt"), _elementary("sigmoid"), _elementary("erf")
floor, ceil, trunc = _elementary("floor", math.floor), _elementary("ceil", math.ceil), _elementary("trunc", math.trunc)
nearbyint = _elementary("rint")


def round(x, *hints):
    """To the nearest whole number, halves away from zero."""
    e = _of_float("trunc", x).children[0]
    return Op("trunc", [e + select(e < 0, -0.5, 0.5)], e.dtype)


def exp2(x, *hints):
    if _is_python(x):
        return 2.0 ** x
    e = _of_float("exp2", x)
    return e if e.dtype == "float32" else _of_float("exp", e.children[0] * math.log(2))


def exp10(x, *hints):
    return _of_float("exp", wrap(x, dtype("float32")) * math.log(10))


def pow(x, y):
    return x ** y if _is_python(x, y) else call("power", x, y)


def abs(x):
    return builtins.abs(x) if _is_python(x) else call("abs", x)


def max(a, b):
    return builtins.max(a, b) if _is_python(a, b) else call("maximum", a, b)


def min(a, b):
    return builtins.min(a, b) if _is_python(a, b) else call("minimum", a, b)


def clamp(x, least, most):
    return min(max(x, least), most)


def fmod(x, y):
    """The exact remainder with the sign of x, as C has it."""
    x, y = agree(x, y)
    rest = call("remainder", abs(x), abs(y))
    return select(x < 0, -rest, min(x, rest))  # the least of a zero x and 0 has the sign of x


def atan2(y, x):
    return call("arctan2", y, x)


def fma(a, b, c):
    return call("fma", a, b, c)


def ceildiv(a, b):
    if _is_python(a, b):
        return -(-a // b)
    a, b = agree(a, b)
    if known(b) is not None:
        return (a + (known(b) - 1)) // b
    return (a + (b - 1)) // b


def floordiv(a, b):
    return a // b if _is_python(a, b) else binary("//", a, b)


def floormod(a, b):
    return a % b if _is_python(a, b) else binary("%", a, b)


def truncdiv(a, b):
    if _is_python(a, b):
        return int(a / b)
    a, b = agree(a, b)
    return select((a < 0) == (b < 0), call("abs", a) // call("abs", b), -(call("abs", a) // call("abs", b)))


def truncmod(a, b):
    return a - truncdiv(a, b) * b


def shift_left(a, b):
    return a << b


def shift_right(a, b):
    return a >> b


def bitwise_and(a, b):
    return a & b


def bitwise_or(a, b):
    return a | b


def bitwise_xor(a, b):
    return a ^ b


def bitwise_not(a):
    return ~a


def popcount(x):
    e = wrap(x)
    total = None
    for bit in range(e.dtype.bits):
        one = (e >> bit) & 1
        total = one if total is None else total + one
    return total


def And(*conditions):
    total = truth(conditions[0])
    for c in conditions[1:]:
        total = Op("&", [total, truth(c)], BOOL)
    return total


def Or(*conditions):
    total = truth(conditions[0])
    for c in conditions[1:]:
        total = Op("|", [total, truth(c)], BOOL)
    return total


def Not(a):
    return Op("!", [truth(a)], BOOL)


def if_then_else(condition, a, b, *hints):
    if isinstance(condition, (bool, int)) or isinstance(condition, Const):
        return a if (condition.value if isinstance(condition, Const) else condition) else b
    return select(condition, a, b)


def Select(condition, a, b):
    return if_then_else(condition, a, b)


def Cast(type_, value):
    return cast(value, type_)


def reinterpret(a, b=None, **hints):
    """Either order: reinterpret(value, dtype), reinterpret(dtype, value)."""
    if isinstance(a, str):
        a, b = b, a
    return _bit_cast(b, a)


def _bit_cast(type_, value):
    e = wrap(value)
    type_ = dtype(type_)
    if e.dtype.bits != type_.bits:
        fail(f"T.reinterpret: {e.dtype!r} has {e.dtype.bits} bits and {type_!r} {type_.bits}")
    if e.dtype == type_:
        return e
    if type_.bits == 4:
        from .packed import bits_of_four
        return bits_of_four(e, type_)
    return _Cast(e, type_, bits=True)


def infinity(type_="float32"):
    return Const(float("inf"), dtype(type_))


def max_value(type_):
    t = dtype(type_)
    return Const(t.largest, t)


def min_value(type_):
    t = dtype(type_)
    return Const(t.smallest, t)


def _computed(x):
    e = wrap(x)
    return cast(e, "float32") if e.dtype.is_small else e


def isnan(x):
    e = _computed(x)
    return Op("!=", [e, e], BOOL)


def isinf(x):
    e = _computed(x)
    return Op("==", [call("abs", e), Const(float("inf"), e.dtype)], BOOL)


def isfinite(x):
    e = _computed(x)
    return Op("<", [call("abs", e), Const(float("inf"), e.dtype)], BOOL)


def fast_rcp(x):
    return wrap(1.0, wrap(x).dtype) / x


def index_to_coordinates(index, shape):
    found = []
    for size in reversed(shape):
        found.insert(0, index % size)
        index = index // size
    return found


def linear_index(*args):
    count = (len(args) + 1) // 2
    total = args[0]
    for at, size in zip(args[1:count], args[count:]):
        total = total * size + at
    return total


__all__ = [name for name, value in globals().items() if getattr(value, "__module__", "") == __name__ and name[0] != "_"]
