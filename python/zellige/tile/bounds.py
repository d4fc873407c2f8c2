"""What is known about integers before a kernel runs: linear forms, to see that (i + 1) * 64 - i * 64 is 64, and ranges, to
see which accesses stay inside of their buffers and need no mask."""

from .expr import Cast, Const, Expr, Name, Op, same, wrap

NOTHING = (None, None)


# Linear forms: {text of a part: (part, factor)} and a constant ---------------------------------------------------------


def linear(value):
    if not isinstance(value, Expr):
        return {}, int(value)
    if isinstance(value, Const):
        return {}, int(value.value)
    if isinstance(value, Op) and value.op in ("+", "-") and len(value.children) == 2:
        return combine(linear(value.children[0]), linear(value.children[1]), 1 if value.op == "+" else -1)
    if isinstance(value, Op) and value.op == "*":
        (a, n), (b, m) = (linear(x) for x in value.children)
        if not a:
            return scaled((b, m), n)
        if not b:
            return scaled((a, n), m)
    return {value.text(): (value, 1)}, 0


def scaled(form, factor):
    parts, constant = form
    return {text: (e, n * factor) for text, (e, n) in parts.items() if n * factor}, constant * factor


def combine(a, b, sign):
    parts = dict(a[0])
    for text, (e, n) in b[0].items():
        total = parts.get(text, (e, 0))[1] + sign * n
        parts[text] = (e, total)
        if not total:
            del parts[text]
    return parts, a[1] + sign * b[1]


def difference(a, b):
    """a - b, as a Python int where that is known."""
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return a - b
    parts, constant = combine(linear(a), linear(b), -1)
    if not parts:
        return constant
    if not isinstance(b, Expr) and b == 0:
        return a
    total = None
    for e, n in parts.values():
        term = e if n == 1 else e * n
        total = term if total is None else total + term
    return total + constant


def simplified(value):
    """An int if value is one, else value."""
    if not isinstance(value, Expr):
        return value
    parts, constant = linear(value)
    return value if parts else constant


def known(value):
    """value as an int, None if it is known only when the kernel runs."""
    value = simplified(value)
    return None if isinstance(value, Expr) else int(value)


# Ranges: (least, most), each None if unknown ----------------------------------------------------------------------------


def bounds(value):
    if not isinstance(value, Expr):
        return int(value), int(value)
    if isinstance(value, Const):
        return (value.value, value.value) if value.dtype.is_integer else NOTHING
    if isinstance(value, Name):
        return value.bounds
    if isinstance(value, Cast):
        return bounds(value.children[0]) if value.dtype.is_integer and value.children[0].dtype.is_integer else NOTHING
    if isinstance(value, Op) and len(value.children) == 3 and value.op == "where":
        a, b = (bounds(c) for c in value.children[1:])
        return lowest(a[0], b[0]), highest(a[1], b[1])
    if isinstance(value, Op) and len(value.children) == 2:
        rule = RULES.get(value.op)
        return rule(*(bounds(c) for c in value.children)) if rule else NOTHING
    return NOTHING


def lowest(*values):
    return None if None in values else min(values)


def highest(*values):
    return None if None in values else max(values)


def plus(a, b):
    return None if a is None or b is None else a + b


def add(a, b):
    return plus(a[0], b[0]), plus(a[1], b[1])


def subtract(a, b):
    return plus(a[0], None if b[1] is None else -b[1]), plus(a[1], None if b[0] is None else -b[0])


def multiply(a, b):
    if None in a or None in b:
        below_zero = [x[0] is None or x[0] < 0 for x in (a, b)]
        return (None if any(below_zero) else a[0] * b[0]), None
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def divide(a, b):
    if None in b or b[0] <= 0:
        return (0, a[1]) if b[0] is not None and b[0] > 0 and a[0] is not None and a[0] >= 0 else NOTHING
    low = None if a[0] is None else min(a[0] // b[0], a[0] // b[1])
    return low, None if a[1] is None else max(a[1] // b[0], a[1] // b[1])


def remainder(a, b):
    if b[0] is None or b[0] <= 0:
        return NOTHING
    most = None if b[1] is None else b[1] - 1
    if a[0] is not None and a[0] >= 0 and a[1] is not None:
        most = a[1] if most is None else min(most, a[1])
    return 0, most


def bit_and(a, b):
    positive = [x[1] for x in (a, b) if x[0] is not None and x[0] >= 0]
    return (0, min((m for m in positive if m is not None), default=None)) if positive else NOTHING


def least(a, b):
    known_most = [x for x in (a[1], b[1]) if x is not None]
    return lowest(a[0], b[0]), min(known_most, default=None)


def most(a, b):
    known_least = [x for x in (a[0], b[0]) if x is not None]
    return max(known_least, default=None), highest(a[1], b[1])


RULES = {"+": add, "-": subtract, "*": multiply, "//": divide, "%": remainder, "&": bit_and, "minimum": least, "maximum": most}


def is_below(index, limit):
    """Whether index < limit is certain."""
    top, floor = bounds(index)[1], bounds(limit)[0]
    if top is not None and floor is not None and top < floor:
        return True
    if isinstance(index, Name) and index.extent is not None and same(index.extent, limit):
        return True
    if not isinstance(limit, Expr):
        return False
    gap = bounds(difference(wrap(limit), index))[0]
    return gap is not None and gap > 0


def is_not_negative(index):
    low = bounds(index)[0]
    return low is not None and low >= 0
