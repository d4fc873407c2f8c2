"""Scalar functions of T: each is an op of our tile language, or a formula in them."""

import builtins
import math

from .bounds import difference, known
from .dtypes import BOOL, INDEX, dtype
from .errors import fail
from .expr import Const, Expr, Op, agree, binary, call, cast, is_number, promote, select, truth, wrap
from .statements import bit_cast


def is_python(*values):
    return all(is_number(v) for v in values)


def of_float(op, x):
    e = wrap(x, dtype("float32"))
    e = e if e.dtype.is_float and not e.dtype.is_small else cast(e, "float32")
    return Op(op, [e], e.dtype)


def elementary(op, python=None):
    def function(x, *hints, **named_hints):
        return python(x) if python and is_python(x) else of_float(op, x)
    function.__name__ = op
    return function


exp = elementary("exp", math.exp)
log, log1p = elementary("log"), elementary("log1p")
log2, log10 = elementary("log2"), elementary("log10")
sin, cos, tan = elementary("sin"), elementary("cos"), elementary("tan")
asin, acos, atan = elementary("arcsin"), elementary("arccos"), elementary("arctan")
sinh, cosh, tanh = elementary("sinh"), elementary("cosh"), elementary("tanh")
asinh, acosh, atanh = elementary("arcsinh"), elementary("arccosh"), elementary("arctanh")
sqrt, rsqrt, sigmoid, erf = elementary("sqrt", math.sqrt), elementary("rsqrt"), elementary("sigmoid"), elementary("erf")
floor, ceil, trunc = elementary("floor", math.floor), elementary("ceil", math.ceil), elementary("trunc", math.trunc)
nearbyint = elementary("rint")


def round(x, *hints):
    """To the nearest whole number, halves away from zero."""
    e = of_float("trunc", x).children[0]
    return Op("trunc", [e + select(e < 0, -0.5, 0.5)], e.dtype)


def exp2(x, *hints):
    return 2.0 ** x if is_python(x) else of_float("exp", wrap(x, dtype("float32")) * math.log(2))


def exp10(x, *hints):
    return of_float("exp", wrap(x, dtype("float32")) * math.log(10))


def pow(x, y):
    return x ** y if is_python(x, y) else call("power", x, y)


def abs(x):
    return builtins.abs(x) if is_python(x) else call("abs", x)


def max(a, b):
    return builtins.max(a, b) if is_python(a, b) else call("maximum", a, b)


def min(a, b):
    return builtins.min(a, b) if is_python(a, b) else call("minimum", a, b)


def clamp(x, least, most):
    return min(max(x, least), most)


def fmod(x, y):
    x, y = agree(x, y)
    return x - y * call("trunc", x / y)


def atan2(y, x):
    return call("arctan2", y, x)


def fma(a, b, c):
    return call("fma", a, b, c)


def ceildiv(a, b):
    if is_python(a, b):
        return -(-a // b)
    a, b = agree(a, b)
    if known(b) is not None:
        return (a + (known(b) - 1)) // b
    return (a + (b - 1)) // b


def floordiv(a, b):
    return a // b if is_python(a, b) else binary("//", a, b)


def floormod(a, b):
    return a % b if is_python(a, b) else binary("%", a, b)


def truncdiv(a, b):
    if is_python(a, b):
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


def both(*conditions):
    total = truth(conditions[0])
    for c in conditions[1:]:
        total = Op("&", [total, truth(c)], BOOL)
    return total


def either(*conditions):
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


def cast_to(value, type_):
    if isinstance(value, (str, dtype)) and not isinstance(type_, str):  # T.Cast(dtype, value)
        value, type_ = type_, value
    return cast(value, type_)


def Cast(type_, value):
    return cast(value, type_)


def reinterpret(a, b=None, **hints):
    """Either order: reinterpret(value, dtype), reinterpret(dtype, value)."""
    if isinstance(a, str):
        a, b = b, a
    return bit_cast(b, a)


def infinity(type_="float32"):
    return Const(float("inf"), dtype(type_))


def max_value(type_):
    t = dtype(type_)
    return Const(t.largest, t)


def min_value(type_):
    t = dtype(type_)
    return Const(t.smallest, t)


def isnan(x):
    e = wrap(x)
    return Op("!=", [e, e], BOOL)


def isinf(x):
    e = wrap(x)
    return Op("==", [call("abs", e), Const(float("inf"), e.dtype)], BOOL)


def isfinite(x):
    e = wrap(x)
    return Op("<", [call("abs", e), Const(float("inf"), e.dtype)], BOOL)


def const_of(value, type_):
    return Const(value, dtype(type_))


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


__all__ = [name for name in globals() if not name.startswith("_") and name not in
           {"builtins", "math", "difference", "known", "BOOL", "INDEX", "dtype", "fail", "Const", "Expr", "Op", "agree", "binary",
            "call", "cast", "is_number", "promote", "select", "truth", "wrap", "bit_cast", "is_python", "of_float", "elementary",
            "const_of", "cast_to", "both", "either"}]
