"""Functions of T that are written in others: any_of, all_of, transpose, im2col, dp4a, tile schedulers, random numbers."""

from .bounds import known
from .errors import fail
from .expr import Const, Op, cast, truth
from .dtypes import BOOL, INDEX
from .builder import current
from .statements import extents, long_axes, over, plain, side, store, written


def gathered(value, op, start):
    """All elements of a small region combined, element by element."""
    region = side(value)
    total = Const(start, BOOL)
    sizes = [known(e) for e in region.extent]
    if None in sizes:
        fail("T.any_of and T.all_of need a region whose size is known")
    points = [()]
    for size in (s for s in sizes if s != 1):
        points = [p + (Const(i, INDEX),) for p in points for i in range(size)]
    for point in points:
        total = Op(op, [total, truth(region.at(point))], BOOL)
    return total


def any_of(value):
    return gathered(value, "|", False)


def all_of(value):
    return gathered(value, "&", True)


def transpose(src, dst):
    a, b = side(src), side(dst)
    if len(long_axes(a)) != 2:
        fail("T.transpose is of matrices")
    over(b, lambda point: store(b.at(point), a.at(point[::-1])))


def im2col(img, col, nhw_step, c_step, kernel, stride, dilation, pad, **hints):
    """A tile of the matrix that turns a convolution of img (N, H, W, C) into a product: rows are output points, columns
    taps and channels."""
    image, target = side(img, "T.im2col: an image"), side(col, "T.im2col: a tile")
    if image.buffer.ndim != 4 or not image.whole() or target.buffer.ndim != 2 or not plain(image) or not plain(target):
        fail(f"T.im2col: '{image.buffer.name}' {extents(image)} is not a whole buffer (N, H, W, C), or '{target.buffer.name}' "
             f"{extents(target)} no matrix")
    numbers = {"window": kernel, "stride": stride, "dilation": dilation, "pad": pad}
    for name, value in numbers.items():
        if known(value) is None:
            fail(f"T.im2col: {name} is {value}, not a number that is known when the kernel is made")
    at = ", ".join(cast(step * size, INDEX).text(INDEX) for step, size in zip((nhw_step, c_step), target.extent))
    written(target.buffer)
    current("T.im2col").emit(f"im2col {image.text()} -> {target.text()} at [{at}] " +
                             " ".join(f"{name} {known(value)}" for name, value in numbers.items()))


def dp4a(a, b, c):
    """c += the dot product of four bytes of a and b."""
    total = c
    region_a, region_b = side(a), side(b)
    for i in range(4):
        at = [o + i if axis == len(region_a.origin) - 1 else o for axis, o in enumerate(region_a.origin)]
        bt = [o + i if axis == len(region_b.origin) - 1 else o for axis, o in enumerate(region_b.origin)]
        total = total + cast(region_a.buffer.element(at), "int32") * cast(region_b.buffer.element(bt), "int32")
    store(c, total)


class PersistentTileScheduler:
    """Tiles of a problem dealt out to blocks that stay: the order is free, so each takes every n-th."""

    def __init__(self, *args, **kwargs):
        fail("T.PersistentTileScheduler is not possible yet; write the loop over tiles with T.Persistent")


def rng_init(*args, **kwargs):
    fail("T.rng_init gives the numbers of one vendor's library; it is not possible here")


rng_rand = rng_init
