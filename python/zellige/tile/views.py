"""Other shapes of the same elements, and their bytes as other types: T.reshape, T.view, T.Tensor(..., data=)."""

from .bounds import known, simplified
from .buffers import Buffer, Load, shape_of
from .builder import current
from .dtypes import INDEX
from .errors import fail
from .expr import Const, cast, word, wrap


class Alias(Buffer):
    """A view of a buffer whose elements are contiguous: a view statement of the kernel."""

    def __init__(self, base, shape, type_):
        super().__init__(shape, type_, base.memory)
        self.shares = base
        self.builder = base.builder
        self.safe_value = base.safe_value if type_ == base.dtype else 0

    def declare(self):
        sizes = ", ".join(wrap(s).text(INDEX) for s in self.shape)
        return f"view {self.name}: {word(self.dtype)}[{sizes}] of {self.shares.name}"


class View(Buffer):
    """Another shape of a buffer with strides: indices of the view become indices of the buffer."""

    def __init__(self, base, shape):
        super().__init__(shape, base.dtype, base.memory)
        self.base = base
        self.builder = base.builder
        self.given_name = base.name
        self.safe_value = base.safe_value

    def element(self, indices):
        at = Const(0, INDEX)
        for index, size in zip(indices, self.shape):
            at = at * size + cast(index, INDEX)
        found = []
        for size in reversed(self.base.shape[1:]):
            found.insert(0, at % size)
            at = at // size
        return ViewLoad(self, indices, self.base.element([at, *found]))


class ViewLoad(Load):
    """An element of a view: inside of it where it is inside of the view's own shape."""

    __slots__ = ("at",)

    def __init__(self, view, indices, under):
        super().__init__(under.buffer, under.indices)
        self.at = Load(view, indices)

    def mask(self):
        return self.at.mask()


def total(shape, bits):
    count = bits
    for size in shape:
        count = count * size
    return known(simplified(count))


def scaled(shape, old, new):
    """The shape of the same bits as elements of another size."""
    if old.bits == new.bits:
        return shape
    last = shape[-1] * old.bits
    if known(last) is not None and known(last) % new.bits:
        fail(f"T.view: {known(last) // old.bits} elements of {old!r} are not a whole number of {new!r}")
    return (*shape[:-1], last // new.bits)


def view(src, shape=None, dtype=None):
    if not isinstance(src, Buffer):
        fail(f"T.view is of a buffer, not of {src!r}")
    type_ = src.dtype if dtype is None else type(src.dtype)(dtype)
    shape = shape_of(scaled(src.shape, src.dtype, type_) if shape is None else shape)
    have, want = total(src.shape, src.dtype.bits), total(shape, type_.bits)
    if have is not None and want is not None and have != want:
        fail(f"T.view: '{src.name}' has {have // 8} bytes and ({', '.join(map(str, shape))}) of {type_!r} {want // 8}")
    if src.stride or getattr(src, "base", None):
        return View(src, shape) if type_ == src.dtype else fail(f"T.view: '{src.name}' has strides and stays {src.dtype!r}")
    made = Alias(src, shape, type_)
    current("T.view").emit(made.declare, declares=lambda: made.name, is_repeated=True)
    return made


def reshape(src, shape):
    return view(src, shape)
