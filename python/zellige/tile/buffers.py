"""Buffers, their elements and rectangles of them; T.Tensor and its like, which describe parameters."""

import os

from .bounds import difference, is_below, is_not_negative, known, simplified
from .dtypes import INDEX, dtype
from .errors import fail
from .expr import Const, Expr, cast, unreached, wrap


def shape_of(shape):
    sizes = shape if isinstance(shape, (tuple, list)) else [shape]
    return [size_of(s) for s in sizes]


def size_of(value):
    if isinstance(value, Expr) or hasattr(value, "as_scalar"):
        return simplified(cast(value, INDEX))
    if isinstance(value, float) and not value.is_integer():
        fail(f"a size is a whole number, not {value}")
    return int(value)


class Buffer:
    """Memory with a shape and a dtype: a parameter of the kernel, or allocated in it. Its name comes with assignment."""

    def __init__(self, shape, type_, memory, stride=None, name=None):
        self.shape, self.dtype, self.memory, self.stride = tuple(shape_of(shape)), dtype(type_), memory, stride
        self.given_name = name
        self.builder = None
        self.is_written = False
        self.is_combined = False  # atomics add to what it holds
        self.threads = 0     # how many numbers of threads were asked for before it was made
        self.safe_value = 0  # what reads outside of it give

    @property
    def name(self):
        if self.given_name is None:
            self.given_name = self.builder.unique(self.memory)
        return self.given_name

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def has_safe_value(self):
        return isinstance(self.safe_value, Expr) or self.safe_value != 0

    @property
    def strides(self):
        if self.stride is not None:
            return list(self.stride)
        strides = [1]
        for size in reversed(self.shape[1:]):
            strides.insert(0, strides[0] * size)
        return strides

    @property
    def data(self):
        return self

    def scope(self):
        return {"fragment": "local.fragment", "shared": "shared.dyn"}.get(self.memory, self.memory)

    def __repr__(self):
        return f"{self.given_name or self.memory}: {self.dtype}[{', '.join(map(str, self.shape))}]"

    def __getitem__(self, key):
        keys = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in [k for k in keys if k is Ellipsis]:
            at = next(i for i, k in enumerate(keys) if k is Ellipsis)
            keys[at:at + 1] = [slice(None)] * (self.ndim - len(keys) + 1)
        if len(keys) > self.ndim:
            fail(f"'{self.name}' has {self.ndim} axes and {len(keys)} indices")
        keys += [slice(None)] * (self.ndim - len(keys))
        if any(isinstance(k, slice) for k in keys):
            return Region(self, *zip(*(rectangle(k, size) for k, size in zip(keys, self.shape))))
        return self.element([index_of(k, size) for k, size in zip(keys, self.shape)])

    def element(self, indices):
        return Load(self, indices)

    def __setitem__(self, key, value):
        if isinstance(value, Region) and value is getattr(self, "updated", None):
            return
        target = self[key]
        from . import statements
        if isinstance(target, Region):
            statements.assign_region(target, value)
        else:
            statements.store(target, value)

    def __iter__(self):
        fail(f"'{self.name}' is a buffer: its elements are reached by indices")

    # Python's arithmetic on a buffer of one element means that element, as TileLang has it.
    def as_scalar(self):
        if any(known(s) != 1 for s in self.shape):
            fail(f"'{self.name}' is a buffer of shape ({', '.join(map(str, self.shape))}), not a number: index it")
        return self.element([Const(0, INDEX)] * self.ndim)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "lt", "le", "gt", "ge", "and", "or", "xor", "lshift", "rshift",
              "radd", "rsub", "rmul", "rtruediv", "rfloordiv", "rmod", "neg", "invert"):
    setattr(Buffer, f"__{_name}__", lambda self, *args, _op=f"__{_name}__": getattr(self.as_scalar(), _op)(*args))


def index_of(key, size):
    if isinstance(key, Expr) or hasattr(key, "as_scalar"):
        e = wrap(key)
        return e if e.dtype.is_integer else fail(f"an index is {e.dtype!r}, not an integer")
    if isinstance(key, float) and not key.is_integer():
        fail(f"an index is a whole number, not {key}")
    at = int(key)
    return Const(at, INDEX) if at >= 0 else wrap(size + at)


def rectangle(key, size):
    """(origin, extent) of one axis."""
    if not isinstance(key, slice):
        return index_of(key, size), 1
    if key.step not in (None, 1):
        fail("a region has no step")
    start = 0 if key.start is None else key.start
    stop = size if key.stop is None else key.stop
    start, stop = (simplified(v + size if not isinstance(v, Expr) and v < 0 else v) for v in (start, stop))
    return cast(start, INDEX), difference(stop, start)


class Load(Expr):
    """An element of a buffer: where it may lie outside, reading it gives the buffer's safe value."""

    __slots__ = ("buffer", "indices", "other")

    def __init__(self, buffer, indices):
        super().__init__(buffer.dtype)
        self.buffer, self.indices, self.other = buffer, indices, None

    @property
    def children(self):
        return self.indices

    def place(self):
        return f"{self.buffer.name}[{', '.join(i.text(INDEX) for i in self.indices)}]"

    def mask(self):
        """That it lies inside, as text; empty when that is certain, or tested when the kernel runs."""
        if is_tested(self.buffer):
            return ""
        return " & ".join(part for i, size in zip(self.indices, self.buffer.shape) for part in outside_of(i, size, self.buffer))

    def text(self, expected=None):
        mask = self.mask()
        if not mask:
            return self.place()
        return f"load({self.place()}, {mask}, {cast(self.buffer.safe_value, self.buffer.dtype).text(self.buffer.dtype)})"


def is_tested(buffer):
    """With ZL_CHECK=1 elements outside of a tile are errors: only arrays may be left, as the last blocks of a grid do."""
    return (os.environ.get("ZL_CHECK", "0") in ("1", "true", "yes", "on") and buffer.memory in ("shared", "fragment", "local")
            and not buffer.has_safe_value and not unreached)


def outside_of(index, size, buffer):
    builder = buffer.builder
    low, high = index >= 0, wrap(index) < size
    if not is_not_negative(index) and not (builder and builder.knows(low)):
        yield low.text()
    if not is_below(index, size) and not (builder and builder.knows(high)):
        yield high.text()


class Region:
    """A rectangle of a buffer."""

    def __init__(self, buffer, origin, extent):
        self.buffer, self.origin, self.extent = buffer, list(origin), list(extent)

    @property
    def dtype(self):
        return self.buffer.dtype

    @property
    def shape(self):
        return tuple(self.extent)

    @property
    def ndim(self):
        return len(self.extent)

    def whole(self):
        return all(known(o) == 0 and difference(e, s) == 0 if known(difference(e, s)) is not None else False
                   for o, e, s in zip(self.origin, self.extent, self.buffer.shape))

    def text(self, sized=True):
        if self.whole():
            return self.buffer.name
        origin = f"{self.buffer.name}[{', '.join(o.text(INDEX) for o in self.origin)}]"
        return f"{origin} of [{', '.join(wrap(e).text(INDEX) for e in self.extent)}]" if sized else origin

    def at(self, point):
        """The element at a point of it, which has an index for every axis that is longer than 1."""
        point = iter(point)
        return self.buffer.element([o if known(e) == 1 else o + next(point) for o, e in zip(self.origin, self.extent)])

    def __repr__(self):
        return self.text()

    def __iadd__(self, value): return self.update("+", value)
    def __isub__(self, value): return self.update("-", value)
    def __imul__(self, value): return self.update("*", value)
    def __itruediv__(self, value): return self.update("/", value)

    def update(self, op, value):
        from . import statements
        statements.update_region(self, op, value)
        self.buffer.updated = self
        return self


# Parameters -----------------------------------------------------------------------------------------------------------


class Spec:
    """What a parameter is: T.Tensor((M, K), T.float16), also T.Tensor[[M, K], T.float16]."""

    def __init__(self, shape, type_="float32", stride=None, **_):
        if isinstance(type_, PointerMaker):
            fail("arrays of addresses are not possible here")
        self.shape, self.dtype, self.stride = tuple(shape_of(shape)), dtype(type_), stride

    def __repr__(self):
        return f"T.Tensor(({', '.join(map(str, self.shape))}), {self.dtype!r})"


class Pointer:
    """T.ptr: an address, whose shape T.make_tensor says."""

    def __init__(self, type_="float32"):
        self.dtype = dtype(type_)


class PointerMaker:
    def __call__(self, type_="float32", *hints):
        return Pointer(type_)

    def __or__(self, other):
        return self

    __ror__ = __or__


class SpecMaker:
    def __call__(self, shape, dtype="float32", data=None, strides=None, **options):
        if isinstance(data, Buffer):
            from .views import view
            return view(data, shape, dtype)
        return Spec(shape, dtype, strides)

    def __or__(self, other):
        return self

    def __getitem__(self, key):
        if isinstance(key, tuple) and len(key) == 2 and is_type(key[1]):
            return self(*key)
        return self(key)


class StridedMaker(SpecMaker):
    def __call__(self, shape, strides, dtype="float32", **options):
        return Spec(shape, dtype, tuple(shape_of(strides)))

    def __getitem__(self, key):
        return self(*key)


def is_type(value):
    try:
        dtype(value)
    except TypeError:
        return False
    return not isinstance(value, int)
