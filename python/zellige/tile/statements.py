"""Statements on elements and rectangles: stores, copy, fill, gemm, reduce, scans, atomics."""

from .bounds import difference, known
from .buffers import Buffer, Load, Region
from .builder import Variable, current
from .dtypes import INDEX, dtype
from .errors import fail
from .expr import Cast, Const, Expr, binary, call, cast, is_number, same, truth, wrap


# Elements -------------------------------------------------------------------------------------------------------------


def written(buffer):
    buffer.is_written = True
    return buffer


def store(element, value):
    written(element.buffer)
    value = cast(value, element.dtype)
    if getattr(element.buffer, "reducer", None) and reduces(element, value):
        return atomic(COMBINE[element.buffer.reducer], element, next(c for c in value.children if not is_same(c, element)))
    mask = element.mask()
    current("a store").emit(f"{element.place()} = {value.text(element.dtype)}" + (f" where {mask}" if mask else ""))


def is_same(e, element):
    return isinstance(e, Load) and e.buffer is element.buffer and e.place() == element.place()


def reduces(element, value):
    """Whether value combines a reducer's element with something: points of a loop may do that at once."""
    op = STEP.get(element.buffer.reducer, COMBINE[element.buffer.reducer])
    return getattr(value, "op", None) == op and sum(is_same(c, element) for c in value.children) == 1


def over(region, body):
    """A map over the axes of a region that are longer than 1."""
    from .loops import Points
    extents = [e for e in region.extent if known(e) != 1]
    if not extents:
        body(())
        return
    for point in Points(extents).run(None):
        body(point if isinstance(point, tuple) else (point,))


def assign_region(target, value):
    if isinstance(value, (Buffer, Region)):
        copy(value, target)
    else:
        fill(target, value)


def update_region(target, op, value):
    other = side(value) if isinstance(value, (Buffer, Region)) else None

    def body(point):
        element = target.at(point)
        store(element, binary(op, element, other.at(point) if other else value))
    over(target, body)


# Rectangles -----------------------------------------------------------------------------------------------------------


def whole(buffer):
    return Region(buffer, [Const(0, INDEX)] * buffer.ndim, buffer.shape)


def side(value, what="a buffer"):
    """value as a region; of an element, which only says where one begins, None are the extents."""
    if isinstance(value, Region):
        return value
    if isinstance(value, Buffer):
        return whole(value)
    if isinstance(value, Load):
        return Region(value.buffer, value.indices, [None] * value.buffer.ndim)
    return fail(f"{what} is expected, not {value!r}")


def is_sized(region):
    return None not in region.extent


def take_extents(region, other):
    """The extents of a region that has only an origin, from the other side, paired from the last axis."""
    less = region.buffer.ndim - len(other.extent)
    lost = other.extent[:-less] if less < 0 else []
    if any(known(e) != 1 for e in lost):
        fail(f"'{region.buffer.name}' has {region.buffer.ndim} axes, fewer than the {len(other.extent)} of '{other.buffer.name}'")
    region.extent = [1] * less + list(other.extent) if less >= 0 else list(other.extent[-less:])


def long_axes(region):
    return [e for e in region.extent if known(e) != 1]


def paired(src, dst, what):
    """Makes the two sides agree: their axes longer than 1 are paired in order."""
    if not is_sized(src):
        take_extents(src, dst)
    if not is_sized(dst):
        take_extents(dst, src)
    a, b = long_axes(src), long_axes(dst)
    if len(a) != len(b):
        fail(f"{what}: '{src.buffer.name}' {extents(src)} and '{dst.buffer.name}' {extents(dst)} do not have as many axes longer than 1")
    smaller = [shorter(x, y, src, dst, what) for x, y in zip(a, b)]
    for region in (src, dst):
        left = iter(smaller)
        region.extent = [e if known(e) == 1 else next(left) for e in region.extent]


def shorter(a, b, src, dst, what):
    if known(a) is None or known(b) is None:
        return a if known(b) is None else b
    return min(known(a), known(b))


def extents(region):
    return f"[{', '.join(map(str, region.extent))}]"


def aligned(src, dst):
    """Whether pairing from the last axis, as our copy statement does, pairs the right axes."""
    a, b = list(reversed(src.extent)), list(reversed(dst.extent))
    for i in range(max(len(a), len(b))):
        if not same(a[i] if i < len(a) else 1, b[i] if i < len(b) else 1):
            return False
    return True


def copy(src, dst, **hints):
    if isinstance(src, Variable) or isinstance(dst, Variable):
        return copy_variable(src, dst)
    if isinstance(src, Load) and isinstance(dst, Load):
        return store(dst, src)
    if is_number(src) or (isinstance(src, Expr) and not isinstance(src, Load)):
        return fill(dst, src)
    a, b = side(src, "T.copy: a source"), side(dst, "T.copy: a destination")
    if isinstance(src, Buffer) and isinstance(dst, Buffer) and not sizes_fit(src, dst):
        fail(f"T.copy: '{src.name}' {list(src.shape)} and '{dst.name}' {list(dst.shape)} differ in shape")
    paired(a, b, "T.copy")
    written(b.buffer)
    converts = a.dtype != b.dtype and (a.dtype.is_small or b.dtype.is_small)
    if converts or not aligned(a, b) or not plain(a) or not plain(b) or a.buffer.safe_value:
        return over(b, lambda point: store(b.at(point), a.at(point)))
    sized = not a.whole() and not b.whole()
    current("T.copy").emit(f"copy {a.text(sized)} -> {b.text(sized)}")


def copy_variable(src, dst):
    if isinstance(dst, Variable):
        dst.assign(src if not isinstance(src, (Buffer, Region)) else element_of(src))
    else:
        store(element_of(dst), src)


def element_of(value):
    if isinstance(value, Load):
        return value
    region = side(value)
    return region.at(()) if not long_axes(region) else fail(f"one element is expected, not '{region.buffer.name}' {extents(region)}")


def sizes_fit(a, b):
    long_a, long_b = ([s for s in x.shape if known(s) != 1] for x in (a, b))
    return len(long_a) == len(long_b) and all(same(x, y) for x, y in zip(long_a, long_b))


def plain(region):
    return getattr(region.buffer, "base", None) is None


def fill(target, value, **hints):
    if isinstance(target, Variable):
        return target.assign(value)
    if isinstance(target, Load):
        return store(target, value)
    region = side(target, "T.fill: a buffer")
    written(region.buffer)
    if not plain(region):
        return over(region, lambda point: store(region.at(point), value))
    text = cast(value, region.dtype).text(region.dtype)
    current("T.fill").emit(f"fill {region.text()} = {text}")


def clear(target, **hints):
    return fill(target, Const(0, dtype(target.dtype)))


# Products -------------------------------------------------------------------------------------------------------------


def matrix(value, what):
    """An operand of gemm, whose last two axes are the matrix; a copy where they are not."""
    region = side(value, f"T.gemm: {what}")
    if not is_sized(region):
        fail(f"T.gemm: how much of '{region.buffer.name}' is not said")
    if region.dtype.is_small:
        region = widened(region)
    leading = region.extent[:-2]
    if region.buffer.ndim < 2:
        fail(f"T.gemm: '{region.buffer.name}' has {region.buffer.ndim} axes and is no matrix")
    if all(known(e) == 1 for e in leading) and plain(region):
        return region
    sizes = long_axes(region)
    if len(sizes) != 2 or what == "C":
        fail(f"T.gemm: '{region.buffer.name}' {extents(region)} is no matrix")
    packed = allocate("fragment", sizes, region.dtype, f"{region.buffer.name}_packed")
    copy(region, packed)
    return whole(packed)


def widened(region):
    """A copy of floats of 8 bits as float16, which holds them exactly."""
    wide = whole(allocate("fragment", region.extent, "float16", f"{region.buffer.name}_wide"))
    copy(region, wide.buffer)
    return wide


def gemm(A, B, C, transpose_A=False, transpose_B=False, policy=None, clear_accum=False, **hints):
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
            clear(C)
        always = False
    transposed = ["transpose " if t else "" for t in (transpose_A, transpose_B)]
    builder.emit(f"gemm {transposed[0]}{a.text()}, {transposed[1]}{b.text()} -> {c.text()}" + (" clear" if always else ""))


# Allocation -----------------------------------------------------------------------------------------------------------


def allocate(memory, shape, type_, name=None):
    builder = current(f"T.alloc_{memory}")
    buffer = Buffer(shape, type_, memory)
    buffer.builder = builder
    if name:
        buffer.given_name = builder.unique(name)
    builder.emit(lambda: f"{memory} {declaration(buffer)}")
    return buffer


def declaration(buffer):
    from .expr import word
    sizes = ", ".join(wrap(s).text(INDEX) for s in buffer.shape)
    stride = f" stride [{', '.join(wrap(s).text(INDEX) for s in buffer.stride)}]" if buffer.stride else ""
    return f"{buffer.name}: {word(buffer.dtype)}[{sizes}]{stride}"


# Reductions and scans ---------------------------------------------------------------------------------------------------


COMBINE = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "multiply", "bitand": "bitwise_and", "bitor": "bitwise_or",
           "bitxor": "bitwise_xor", "all": "bitwise_and", "any": "bitwise_or"}


def axis_of(dim, ndim, what):
    axis = known(dim)
    if axis is None or not -ndim <= axis < ndim:
        fail(f"{what}: there is no axis {dim} in {ndim} axes")
    return axis % ndim


def reduce(buffer, out, reduce_type, dim=-1, clear=True, **hints):
    what = f"T.reduce_{reduce_type}"
    src = side(buffer, f"{what}: a source")
    axis = axis_of(dim, src.buffer.ndim, what)
    if reduce_type.startswith("abs"):
        made = allocate("fragment", src.extent, src.dtype, f"{src.buffer.name}_abs")
        over(whole(made), lambda point: store(whole(made).at(point), call("abs", src.at(point))))
        src, reduce_type = whole(made), reduce_type[3:]
    if isinstance(out, Variable):
        return reduce_to_variable(src, out, reduce_type, axis, clear)
    dst = side(out, f"{what}: a destination")
    if not is_sized(dst):
        dst.extent = [1] * dst.buffer.ndim
    kept = [e for i, e in enumerate(src.extent) if i != axis]
    if not fits(kept, dst.extent):
        fail(f"{what}: '{src.buffer.name}' {extents(src)} without axis {axis} does not fit '{dst.buffer.name}' {extents(dst)}")
    written(dst.buffer)
    if dst.buffer.ndim not in (src.buffer.ndim, src.buffer.ndim - 1) or not plain(src) or not plain(dst):
        return reduce_by_loop(src, dst, reduce_type, axis, clear)
    current(what).emit(f"reduce {COMBINE[reduce_type]} {src.text()} -> {dst.text()} axis {axis}" + ("" if clear else " accumulate"))


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

    def body(point):
        to = dst.at(point)
        if clear:
            store(to, Const(IDENTITY[reduce_type](to.dtype), to.dtype))
        for r in serial(src.extent[axis]).run("r"):
            at = iter(point)
            value = src.at([r if i == axis else next(at) for i in long])
            store(to, binary(STEP[reduce_type], to, value) if reduce_type in STEP else call(COMBINE[reduce_type], to, cast(value, to.dtype)))
    over(dst, body)


def scan(op, src, dst=None, dim=0, reverse=False, **hints):
    dst = src if dst is None else dst
    a, b = side(src), side(dst)
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
    if isinstance(value, (Buffer, Region)) and not is_scalar(value) or isinstance(dst, (Buffer, Region)) and not is_scalar(dst):
        return atomic_region(op, dst, value)
    element = element_of(dst)
    written(element.buffer)
    before = builder.named("before", element) if return_prev else None
    value = element_of(value) if isinstance(value, (Buffer, Region)) else value
    mask = element.mask()
    builder.emit(f"atomic {op} {element.place()}, {cast(value, element.dtype).text(element.dtype)}" + (f" where {mask}" if mask else ""))
    return before


def is_scalar(value):
    return not long_axes(side(value))


def atomic_region(op, dst, value):
    b = side(dst)
    if is_number(value) or isinstance(value, Expr) and not (isinstance(value, Load) and is_sized(b) is False):
        return over(b, lambda point: atomic(op, b.at(point), value))
    a = side(value)
    paired(a, b, "an atomic")
    over(b, lambda point: atomic(op, b.at(point), a.at(point)))


def bit_cast(type_, value):
    e = wrap(value)
    type_ = dtype(type_)
    if e.dtype.bits != type_.bits:
        fail(f"T.reinterpret: {e.dtype!r} has {e.dtype.bits} bits and {type_!r} {type_.bits}")
    return e if e.dtype == type_ else Cast(e, type_, bits=True)


