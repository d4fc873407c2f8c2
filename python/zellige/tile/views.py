"""Other shapes of the same elements: T.reshape and T.view. Indices of the view become indices of the buffer."""

from .bounds import known
from .buffers import Buffer, Load, shape_of
from .dtypes import INDEX
from .errors import fail
from .expr import Const, cast


class View(Buffer):
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
        return self.base.element([at, *found])


def total(shape):
    count = 1
    for size in shape:
        count = count * size
    return known(count)


def reshape(src, shape):
    shape = shape_of(shape)
    if total(shape) is not None and total(src.shape) is not None and total(shape) != total(src.shape):
        fail(f"T.reshape: '{src.name}' has {total(src.shape)} elements and ({', '.join(map(str, shape))}) {total(shape)}")
    return View(src, shape)


class Recast(View):
    """Elements of the same size read as another type."""

    def __init__(self, base, shape, type_):
        super().__init__(base, shape)
        self.dtype = type_

    def element(self, indices):
        return RecastLoad(self, super().element(indices))


class RecastLoad(Load):
    __slots__ = ("under",)

    def __init__(self, view, under):
        super().__init__(under.buffer, under.indices)
        self.dtype, self.under = view.dtype, under

    def text(self, expected=None):
        return f"bits<{self.dtype.word}>({super().text()})"


def view(src, shape=None, dtype=None):
    type_ = src.dtype if dtype is None else type(src.dtype)(dtype)
    shape = src.shape if shape is None else shape
    if type_ == src.dtype:
        return reshape(src, shape)
    if type_.bits != src.dtype.bits:
        fail(f"T.view: {src.dtype!r} as {type_!r}, which has another size, is not possible yet")
    return Recast(src, shape_of(shape), type_)
