"""Statements on elements and rectangles: stores, copy, fill, allocations."""

from .bounds import known
from .buffers import Buffer, Load, Region
from .builder import Variable, current
from .dtypes import INDEX, dtype
from .errors import fail
from .expr import Const, Expr, binary, cast, is_number, same, wrap
from .packed import Half, Packed, pack


# Elements -------------------------------------------------------------------------------------------------------------


def written(buffer):
    shared = buffer
    while shared is not None:
        shared.is_written = True
        shared = getattr(shared, "shares", None)
    return buffer


def store(element, value):
    written(element.buffer)
    if isinstance(element, Half):
        fail(f"'{element.buffer.name}' has two elements in a byte, which are written together: T.copy does")
    value = cast(value, element.dtype)
    if getattr(element.buffer, "reducer", None):
        from .combine import reduced
        if reduced(element, value):
            return
    mine(element.buffer)
    mask = element.mask()
    current("a store").emit(f"{element.place()} = {value.text(element.dtype)}" + (f" where {mask}" if mask else ""))


def mine(buffer):
    """Refuses memory of the block where each thread goes its own way: it would be the same for all."""
    launch = current("a store").launch
    if launch is not None and launch.bound and buffer.memory != "global" and buffer.threads == 0:
        fail(f"'{buffer.name}' is written by single threads and was allocated before the number of a thread was asked for")


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
        fail(f"'{region.buffer.name}' has {region.buffer.ndim} axes, fewer than the {len(other.extent)} "
             f"of '{other.buffer.name}'")
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
        fail(f"{what}: '{src.buffer.name}' {extents(src)} and '{dst.buffer.name}' {extents(dst)} "
             "do not have as many axes longer than 1")
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
    """Whether pairing from the last axis, as our copy statement does where one side only has an origin, pairs the right axes."""
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
    if isinstance(b.buffer, Packed):
        return pack(a, b)
    if not plain(a) or not plain(b) or not all(same(x, y) for x, y in zip(long_axes(a), long_axes(b))):
        return over(b, lambda point: store(b.at(point), a.at(point)))
    sized = not aligned(a, b) or not a.whole() and not b.whole()
    outside = cast(a.buffer.safe_value, a.dtype).text(a.dtype) if a.buffer.has_safe_value else None
    current("T.copy").emit(f"copy {a.text(sized)} -> {b.text(sized)}" + (f" else {outside}" if outside else ""))


def copy_variable(src, dst):
    if isinstance(dst, Variable):
        dst.assign(src if not isinstance(src, (Buffer, Region)) else element_of(src))
    else:
        store(element_of(dst), src)


def element_of(value):
    if isinstance(value, Load):
        return value
    region = side(value)
    if long_axes(region):
        fail(f"one element is expected, not '{region.buffer.name}' {extents(region)}")
    return region.at(())


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


# Allocation -----------------------------------------------------------------------------------------------------------


def allocate(memory, shape, type_, name=None):
    builder = current(f"T.alloc_{memory}")
    buffer = Buffer(shape, type_, memory)
    buffer.builder = builder
    buffer.threads = len(builder.launch.bound) if builder.launch else 0
    if name:
        buffer.given_name = builder.unique(name)
    builder.emit(lambda: f"{memory} {declaration(buffer)}", declares=lambda: buffer.name)
    return buffer


def declaration(buffer):
    from .expr import word
    sizes = ", ".join(wrap(s).text(INDEX) for s in buffer.shape)
    stride = f" stride [{', '.join(wrap(s).text(INDEX) for s in buffer.stride)}]" if buffer.stride else ""
    return f"{buffer.name}: {word(buffer.dtype)}[{sizes}]{stride}"
