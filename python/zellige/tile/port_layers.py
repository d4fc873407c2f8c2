"""Layers of language models that the TileLang port for SophGo's TPUs has as words, made of its others."""

from . import mathematics
from .bounds import known
from .combine import reduce
from .errors import fail
from .expr import Const, cast, select
from .port import element, fits, in_pairs, points, pointwise, silu_of
from .statements import allocate, copy, extents, side, store
from .tiles import transpose


def wide_copy(tile, name):
    """A tile in float32, and one of a number for each of its rows."""
    source = side(tile)
    wide = allocate("fragment", source.extent, "float32", name)
    copy(source, wide)
    return wide, allocate("fragment", [*source.extent[:-1], 1], "float32", f"{name}_row")


def ppl_rmsnorm(out, x, weight, epsilon=1e-5):
    """out = (x / sqrt(mean of x^2 of a row + epsilon)) weight, rounded before it is weighted."""
    what, target = "T.ppl_rmsnorm", side(out)
    wide, row = wide_copy(fits("T.ppl_rmsnorm", x, out), "square")
    pointwise(what, wide, lambda a: a * a, wide)
    reduce(wide, row, "sum")
    count = known(target.extent[-1]) or fail(f"{what}: the last axis of '{target.buffer.name}' {extents(target)} is not known")
    pointwise(what, row, lambda total: mathematics.rsqrt(total * (1 / count) + epsilon), row)
    pointwise(what, out, lambda a, scale, w: cast(cast(a, "float32") * scale, target.dtype) * w, x, row, weight)


def ppl_softmax(out, x):
    """Of each row, in float32."""
    what = "T.ppl_softmax"
    wide, row = wide_copy(fits(what, x, out), "weight")
    reduce(wide, row, "max")
    pointwise(what, wide, lambda a, most: mathematics.exp(a - most), wide, row)
    reduce(wide, row, "sum")
    pointwise(what, out, lambda a, total: a / total, wide, row)


def ppl_swiglu(out, gate, up):
    """out = silu(gate) up, rounded before it is multiplied."""
    dtype = side(out).dtype
    pointwise("T.ppl_swiglu", out, lambda a, b: cast(silu_of(a), dtype) * b, gate, up)


def ppl_rope(out, x, cos, sin):
    """Rotary embedding of neighbours: pairs of x as complex numbers, times cos + i sin, of which there is one for each pair."""
    what, target = "T.ppl_rope", side(out)
    source = fits(what, x, out)
    half = [*target.extent[:-1], (known(target.extent[-1]) or 0) // 2]
    cosines, sines = fits(what, cos, out, half), fits(what, sin, out, half)

    def formula(rest, i):
        a, b = (cast(element(source, *rest, i * 2 + step), "float32") for step in (0, 1))
        c, s = element(cosines, *rest, i), element(sines, *rest, i)
        return a * c - b * s, a * s + b * c
    in_pairs(what, out, formula)


def ppl_transpose(out, matrix):
    transpose(matrix, out)


def ppl_causal_mask(out, past):
    """out[i, j] = 0 up to j = i + past, behind it -inf."""
    target = side(out)
    for i, j in points(*target.extent):
        store(element(target, i, j), select(j > i + past, Const(float("-inf"), target.dtype), Const(0.0, target.dtype)))


def ppl_kv_cache_update(cache, rows, position):
    """Rows of a cache from a position on are replaced."""
    target, source = side(cache), side(rows)
    for i, j in points(*source.extent):
        store(element(target, i + position, j), element(source, i, j))


def ppl_repeat_kv(out, x, repeats, head):
    """Each head of a row, of so many elements, several times."""
    target, source = side(out), side(x)
    for i, j in points(*target.extent):
        store(element(target, i, j), element(source, i, j // (head * repeats) * head + j % head))


def ppl_dequant_gptq(out, weight, zero, scale, work=None, group_size=128, weight_bits=4, group_offset=0):
    """out = (weight - zero) scale of numbers of few bits, several in a byte, the first in the low bits. Each group of columns has a zero and
    a scale; group_offset is the number of the first, which tells where in its byte its zero is."""
    target, packed, zeros, scales = (side(tile) for tile in (out, weight, zero, scale))
    count = 8 // weight_bits

    def number(tile, i, at):
        bits = cast(element(tile, i, at // count), "int32") >> cast(at % count * weight_bits, "int32")
        return cast(bits & ((1 << weight_bits) - 1), target.dtype)
    for i, j in points(*target.extent):
        group = j // group_size
        difference = number(packed, i, j) - number(zeros, i, group + group_offset % count)
        store(element(target, i, j), difference * element(scales, i, group))


__all__ = [name for name in globals() if name.startswith("ppl_")]
