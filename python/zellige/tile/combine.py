"""Statements that combine: gemm, reductions, scans, atomics."""

from .bounds import difference, known
from .buffers import Buffer, Load, Region
from .builder import Frozen, Variable, current
from .dtypes import INDEX
from .errors import fail
from .expr import Const, Expr, binary, call, cast, is_number, truth
from .loops import together
from .statements import (allocate, clear as cleared, copy, element_of, extents, fill, is_sized, long_axes, over, paired, plain, side,
                         store, whole, written)

# Products -------------------------------------------------------------------------------------------------------------


def matrix(value, what):
    """An operand of gemm, whose last two axes are the matrix; a copy where they are not."""
    region = side(value, f"T.gemm: {what}")
    if not is_sized(region):
        fail(f"T.gemm: how much of '{region.buffer.name}' is not said")
    leading = region.extent[:-2]
    if region.buffer.ndim < 2:
        fail(f"T.gemm: '{region.buffer.name}' has {region.buffer.ndim} axes and is no matrix")
    if all(known(e) == 1 for e in leading) and plain(region):
        return region
    sizes = long_axes(region)
    if len(sizes) != 2 or what == "C":
        fail(f"T.gemm: '{region.buffer.name}' {extents(region)} is no matrix")
    matrix_of = allocate("fragment", sizes, region.dtype, f"{region.buffer.name}_matrix")
    copy(region, matrix_of)
    return whole(matrix_of)


def gemm(A, B, C, transpose_A=False, transpose_B=False, policy=None, clear_accum=False, **hints):
    together("T.gemm")
    a, b, c = matrix(A, "A"), matrix(B, "B"), matrix(C, "C")
    m, k = a.extent[-2:][::-1] if transpose_A else a.extent[-2:]
    k_b, n = b.extent[-2:][::-1] if transpose_B else b.extent[-2:]
    for what, x, y in (("K of A and B", k, k_b), ("M of A and C", m, c.extent[-2]), ("N of B and C", n, c.extent[-1])):
        if known(x) is not None and known(y) is not None and known(x) != known(y):
            fail(f"T.gemm: {what} differ, {x} and {y}: A '{a.buffer.name}' {extents(a)}{' transposed' * bool(transpose_A)}, "
                 f"B '{b.buffer.name}' {extents(b)}{' transposed' * bool(transpose_B)}, C '{c.buffer.name}' {extents(c)}")
    written(c.buffer)
    builder = current("T.gemm")
    always = clear_accum.value if isinstance(clear_accum, Const) else clear_accum
    if isinstance(always, Expr):
        with builder.block(f"if {truth(always).text()}"):
            cleared(C)
        always = False
    transposed = ["transpose " if t else "" for t in (transpose_A, transpose_B)]
    builder.emit(f"gemm {transposed[0]}{a.text()}, {transposed[1]}{b.text()} -> {c.text()}" + (" clear" if always else ""))


# Reductions and scans ---------------------------------------------------------------------------------------------------


COMBINE = {"absmax": "absmax", "abssum": "abssum", "sum": "add", "max": "maximum", "min": "minimum", "prod": "multiply", "bitand": "bitwise_and", "bitor": "bitwise_or",
           "bitxor": "bitwise_xor", "all": "bitwise_and", "any": "bitwise_or"}


def axis_of(dim, ndim, what):
    axis = known(dim)
    if axis is None or not -ndim <= axis < ndim:
        fail(f"{what}: there is no axis {dim} in {ndim} axes")
    return axis % ndim


def reduce(buffer, out, reduce_type, dim=-1, clear=True, **hints):
    what = f"T.reduce_{reduce_type}"
    together(what)
    src = side(buffer, f"{what}: a source")
    axis = axis_of(dim, src.buffer.ndim, what)
    if isinstance(out, Variable):
        return reduce_to_variable(src, out, reduce_type, axis, clear)
    dst = side(out, f"{what}: a destination")
    if not is_sized(dst):
        dst.extent = [1] * dst.buffer.ndim
    kept = [e for i, e in enumerate(src.extent) if i != axis]
    if not fits(kept, dst.extent):
        fail(f"{what}: '{src.buffer.name}' {extents(src)} without axis {axis} does not fit "
             f"'{dst.buffer.name}' {extents(dst)}")
    written(dst.buffer)
    if dst.buffer.ndim not in (src.buffer.ndim, src.buffer.ndim - 1) or not plain(src) or not plain(dst):
        return reduce_by_loop(src, dst, reduce_type, axis, clear)
    how = "" if clear else " accumulate"
    current(what).emit(f"reduce {COMBINE[reduce_type]} {src.text()} -> {dst.text()} axis {axis}{how}")


def fits(kept, found):
    a, b = ([e for e in x if known(e) != 1] for x in (kept, found))
    return len(a) == len(b) and all(known(difference(x, y)) in (0, None) for x, y in zip(a, b))


def reduce_to_variable(src, variable, reduce_type, axis, clear):
    if len(long_axes(src)) > 1:
        fail(f"T.reduce_{reduce_type}: '{src.buffer.name}' {extents(src)} does not become one number")
    part = allocate("local", [1] * src.buffer.ndim, variable.dtype, f"{src.buffer.name}_{reduce_type}")
    if not clear:
        fill(part, variable)
    reduce(src, part, reduce_type, axis, clear)
    variable.assign(part.element([Const(0, INDEX)] * part.ndim))


IDENTITY = {"sum": lambda t: 0, "prod": lambda t: 1, "max": lambda t: float("-inf") if t.is_float else t.smallest,
            "min": lambda t: float("inf") if t.is_float else t.largest, "bitand": lambda t: -1, "bitor": lambda t: 0,
            "bitxor": lambda t: 0, "any": lambda t: 0, "all": lambda t: 1}
STEP = {"sum": "+", "prod": "*", "bitand": "&", "bitor": "|", "bitxor": "^", "any": "|", "all": "&"}


def reduce_by_loop(src, dst, reduce_type, axis, clear):
    """The same by elements, for buffers that a reduce statement cannot name."""
    from .loops import serial
    long = [i for i, e in enumerate(src.extent) if known(e) != 1]
    is_absolute = reduce_type.startswith("abs")
    kind = reduce_type[3:] if is_absolute else reduce_type

    def body(point):
        to = dst.at(point)
        if clear:
            store(to, Const(IDENTITY[kind](to.dtype), to.dtype))
        for r in serial(src.extent[axis]).run("r"):
            at = iter(point)
            value = src.at([r if i == axis else next(at) for i in long])
            value = call("abs", cast(value, to.dtype)) if is_absolute else value
            step = STEP.get(kind)
            store(to, binary(step, to, value) if step else call(COMBINE[kind], to, cast(value, to.dtype)))
    over(dst, body)


def scan(op, src, dst=None, dim=0, reverse=False, **hints):
    together("a scan")
    dst = src if dst is None else dst
    a, b = side(src), side(dst)
    if b.dtype.is_small:
        fail("scans are not computed in floats of 8 bits: their destination is float32, say")
    axis = axis_of(dim, a.buffer.ndim, f"a scan by {op}")
    written(b.buffer)
    target = b
    if a.buffer is b.buffer:
        target = whole(allocate("fragment", a.extent, b.dtype, f"{b.buffer.name}_running"))
    current("a scan").emit(f"scan {op} {a.text()} -> {target.text()} axis {axis}" + (" reverse" if reverse else ""))
    if target is not b:
        copy(target, b)


def cumsum(src, dst=None, dim=0, reverse=False, **hints):
    scan("add", src, dst, dim, reverse)


def cummax(src, dst=None, dim=0, reverse=False, **hints):
    scan("maximum", src, dst, dim, reverse)


# Atomics --------------------------------------------------------------------------------------------------------------


def atomic(op, dst, value, return_prev=False):
    builder = current("an atomic")
    if any(isinstance(x, (Buffer, Region)) and long_axes(side(x)) for x in (dst, value)):
        return atomic_region(op, dst, value)
    element = element_of(dst)
    written(element.buffer).is_combined = True
    value = element_of(value) if isinstance(value, (Buffer, Region)) else value
    mask = element.mask()
    text = f"atomic {op} {element.place()}, {cast(value, element.dtype).text(element.dtype)}" + (f" where {mask}" if mask else "")
    if not return_prev:
        return builder.emit(text)
    before = Variable(builder, element.dtype, None)
    before.given = builder.unique("before")
    builder.emit(f"{before.given} = {text}")
    return Frozen(before)


def atomic_region(op, dst, value):
    b = side(dst)
    if is_number(value) or isinstance(value, Expr) and not (isinstance(value, Load) and is_sized(b) is False):
        return over(b, lambda point: atomic(op, b.at(point), value))
    a = side(value)
    paired(a, b, "an atomic")
    over(b, lambda point: atomic(op, b.at(point), a.at(point)))


# Reducers: points of a loop may combine into one element at once -------------------------------------------------------


def is_same(e, element):
    return isinstance(e, Load) and e.buffer is element.buffer and e.place() == element.place()


def reduces(element, value):
    """Whether value combines a reducer's element with something: points of a loop may do that at once."""
    op = STEP.get(element.buffer.reducer, COMBINE[element.buffer.reducer])
    return getattr(value, "op", None) == op and sum(is_same(c, element) for c in value.children) == 1


def reduced(element, value):
    """Makes the update of a reducer's element an atomic one; False if it is another kind of store."""
    if not reduces(element, value):
        return False
    other = next(c for c in value.children if not is_same(c, element))
    atomic(COMBINE[element.buffer.reducer], element, other)
    return True
