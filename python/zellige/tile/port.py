"""Words of the TileLang port for SophGo's TPUs (T.ppl_add and its like): statements on whole tiles, made of those that all programs have.

The result comes first: T.ppl_add(out, a, b). Later versions of the port leave the prefix out, as T.add(out, a, b) and T.exp(tile) do;
T.exp, T.rsqrt, T.sigmoid, T.max and T.min are functions of numbers as well. Scratch tiles of the port's device code are taken and not used.
"""

from . import mathematics
from .bounds import difference, known
from .buffers import Buffer, Region
from .builder import current
from .combine import gemm, reduce
from .dtypes import INDEX
from .errors import fail
from .expr import Const, binary, cast, same, select
from .loops import Points, serial
from .statements import clear, copy, extents, fill, long_axes, over, side, store


def is_tile(value):
    return isinstance(value, (Buffer, Region))


# Elementwise ----------------------------------------------------------------------------------------------------------


def operand(value, target, what):
    """A function that gives an operand's element at a point of the target. Axes are paired from the last one; those of length 1 are
    repeated."""
    if not is_tile(value):
        return lambda point: value
    source = side(value)
    less = len(target.extent) - len(source.extent)
    picked = []  # of each axis of the source that is longer than 1: the place of its index in a point
    long = [axis for axis, extent in enumerate(target.extent) if known(extent) != 1]
    for axis, extent in enumerate(source.extent):
        if known(extent) == 1:
            continue
        at = axis + less
        if at not in long or known(difference(extent, target.extent[at])) not in (0, None):
            fail(f"{what}: '{source.buffer.name}' {extents(source)} does not fit '{target.buffer.name}' {extents(target)}")
        picked.append(long.index(at))
    return lambda point: source.at([point[i] for i in picked])


def pointwise(what, out, formula, *operands):
    """out = formula(operands), element by element."""
    target = side(out, f"{what}: a result")
    sources = [operand(value, target, what) for value in operands]
    over(target, lambda point: store(target.at(point), formula(*(source(point) for source in sources))))


def of_tiles(name, formula):
    def function(out, a, b):
        pointwise(f"T.{name}", out, formula, a, b)
    function.__name__ = name
    return function


def of_tile_and_number(name, formula):
    """A number has the dtype of the tile, in which the chip computes."""
    def function(out, a, value):
        pointwise(f"T.{name}", out, lambda x: formula(x, cast(value, x.dtype)), a)
    function.__name__ = name
    return function


BINARY = {"add": lambda a, b: binary("+", a, b), "subtract": lambda a, b: binary("-", a, b), "mul": lambda a, b: binary("*", a, b),
          "div": lambda a, b: binary("/", a, b), "max": mathematics.max, "min": mathematics.min}

ppl_add, ppl_subtract, ppl_mul, ppl_div, ppl_max, ppl_min = (of_tiles(f"ppl_{name}", formula) for name, formula in BINARY.items())
ppl_add_C, ppl_subtract_C, ppl_mul_C, ppl_div_C, ppl_max_C, ppl_min_C = (
    of_tile_and_number(f"ppl_{name}_C", formula) for name, formula in BINARY.items())
ppl_sub, ppl_sub_C = ppl_subtract, ppl_subtract_C


def of_one(name, formula):
    """out = formula(inp), of the port's words that name both."""
    def function(out, inp, *scratch):
        pointwise(f"T.{name}", out, formula, inp)
    function.__name__ = name
    return function


def silu_of(x):
    wide = cast(x, "float32")
    return binary("*", wide, mathematics.sigmoid(wide))


ppl_rsqrt, ppl_sqrt = of_one("ppl_rsqrt", mathematics.rsqrt), of_one("ppl_sqrt", mathematics.sqrt)
ppl_sigmoid, ppl_silu = of_one("ppl_sigmoid", mathematics.sigmoid), of_one("ppl_silu", silu_of)
ppl_npu_bcast = of_one("ppl_npu_bcast", lambda x: x)


def ppl_exp(tile, *scratch):
    """tile = e^tile."""
    pointwise("T.ppl_exp", tile, mathematics.exp, tile)


ppl_exp2 = ppl_exp_compute = ppl_exp  # of the base e, too, whatever the name says: the port's device code has no other


def ppl_exp_load_coeff(*scratch):
    """Prepares the tables of the port's exponential, of which we need none."""


def element(region, *indices):
    return region.buffer.element([origin + index for origin, index in zip(region.origin, indices)])


def points(*extents_):
    """Loops over all points of a rectangle, once, with an index for every axis."""
    for point in Points(extents_).run(None):
        yield point if isinstance(point, tuple) else (point,)


def in_pairs(what, out, formula):
    """out[..., 2i] and out[..., 2i + 1] are formula(the other indices, i)'s two values, which are computed before either is stored."""
    target = side(out, f"{what}: a result")
    width = known(target.extent[-1])
    if width is None or width % 2:
        fail(f"{what}: the last axis of '{target.buffer.name}' {extents(target)} is not of pairs")
    for *rest, i in points(*target.extent[:-1], width // 2):
        even, odd = (current(what).named(name, value) for name, value in zip(("even", "odd"), formula(rest, i)))
        store(element(target, *rest, i * 2), even)
        store(element(target, *rest, i * 2 + 1), odd)


def fits(what, value, out, shape=None):
    """value as a region, which has the shape of out, or another one."""
    found, target = side(value, f"{what}: an operand"), side(out)
    wanted = target.extent if shape is None else shape
    if len(found.extent) != len(wanted) or not all(map(same, found.extent, wanted)):
        fail(f"{what}: '{found.buffer.name}' {extents(found)} does not fit '{target.buffer.name}' {extents(target)}")
    return found


def ppl_rope_add(out, even, even_cross, odd, odd_cross):
    """Rotary embedding of neighbours, from products: out[2i] = even[2i] + even_cross[2i + 1], out[2i + 1] = odd[2i + 1] + odd_cross[2i]."""
    tiles = [fits("T.ppl_rope_add", tile, out) for tile in (even, even_cross, odd, odd_cross)]

    def formula(rest, i):
        a, a_cross, b, b_cross = (element(t, *rest, i * 2 + step) for t, step in zip(tiles, (0, 1, 1, 0)))
        return a + a_cross, b + b_cross
    in_pairs("T.ppl_rope_add", out, formula)


# What TileLang has under other names ------------------------------------------------------------------------------------


def ppl_copy(src, dst):
    copy(src, dst)


def ppl_fill(tile, value):
    fill(tile, value)


def ppl_clear(tile):
    clear(tile)


def ppl_gemm(A, B, C, transpose_A=False, transpose_B=False, accumulate=None, add_result=None):
    """C += A B, or C = A B with accumulate=False. Without a word about it the port's product with transposed B overwrites, which programs
    rely on that never clear C: so does this one where nothing but such products has written C before."""
    tile = side(C, "T.ppl_gemm: C").buffer
    accumulate = add_result if accumulate is None else accumulate  # which is its older name
    adds = tile.is_written if accumulate is None else accumulate
    gemm(A, B, C, transpose_A, transpose_B, clear_accum=not adds)
    if accumulate is None and transpose_B and tile.memory != "global":
        tile.is_written = adds


def ppl_reduce_max(src, out, dim=-1, clear=True):
    reduce(src, out, "max", dim, clear)


def ppl_reduce_sum(src, out, dim=-1, clear=True):
    reduce(src, out, "sum", dim, clear)


def tpu_workitem_index():
    """The number of this core in a launch: programs that deal out work by it are one core here, and blocks of a grid run side by side."""
    return Const(0, INDEX)


def tpu_workitem_num():
    return Const(1, INDEX)


# Rows by their numbers, and the largest of many ---------------------------------------------------------------------------


def numbered(index, i):
    """The number of a row in an array (rows,) or (rows, 1)."""
    return cast(side(index).at([i] if known(index.shape[0]) != 1 else []), INDEX)


def move_rows(what, rows, table, place_of, store_row):
    """store_row(element of rows, element of table in the row place_of(row)) for all elements of rows."""
    a, b = side(rows, f"{what}: rows"), side(table, f"{what}: a table")
    if a.ndim != 2 or b.ndim != 2 or known(difference(a.extent[1], b.extent[1])) not in (0, None):
        fail(f"{what} is of rows of two matrices, not of '{a.buffer.name}' {extents(a)} and '{b.buffer.name}' {extents(b)}")
    for i, j in points(*a.extent):
        store_row(element(a, i, j), element(b, place_of(i), j))


def ppl_gather(out, table, index, *sizes):
    """out[i] = table[index[i]] for each row of out; sizes tell the shapes again."""
    move_rows("T.ppl_gather", out, table, lambda i: numbered(index, i), store)


def ppl_gather_block(out, table, index, table_blocks, out_blocks, block_elements):
    """The same by blocks of rows, as of a paged cache: block i of out is block index[i] of the table."""
    rows, rest = divmod(known(block_elements), known(side(out).extent[-1]))
    if rest or not rows:
        fail(f"T.ppl_gather_block: {block_elements} elements are not rows of '{side(out).buffer.name}' {extents(side(out))}")
    move_rows("T.ppl_gather_block", out, table, lambda i: numbered(index, i // rows) * rows + i % rows, store)


def ppl_scatter(table, rows, index, *sizes):
    """table[index[i]] = rows[i] for each row, in any order."""
    move_rows("T.ppl_scatter", rows, table, lambda i: numbered(index, i), lambda row, place: store(place, row))


ppl_embedding = ppl_gather


def ppl_topk(values, indices, src, K, descended, length):
    """The first K of src in order, and where they were; of equal ones the first. The rank of an element is the number of those before it."""
    source, count = side(src), known(length)

    def body(point):
        i = point[0]
        mine = source.at([i])
        rank = current("T.ppl_topk").variable("rank", 0, INDEX)
        for j in serial(count).run("j"):
            other = source.at([j])
            is_before = binary(">" if descended else "<", other, mine)
            is_earlier = mathematics.And(binary("==", other, mine), j < i)
            rank.assign(rank + select(mathematics.Or(is_before, is_earlier), Const(1, INDEX), Const(0, INDEX)))
        place_ranked(values, indices, rank, mine, i, K)
    over(Region(source.buffer, source.origin, [count]), body)


def place_ranked(values, indices, rank, value, at, K):
    builder = current("T.ppl_topk")
    with builder.block(f"if {(rank < K).text()}"):
        store(side(values).at([rank]), value)
        store(side(indices).at([rank]), at)


# Names without the prefix -------------------------------------------------------------------------------------------------


def is_number(value):
    """Whether it is no tile, or one that programs use as a variable: T.alloc_local([1])."""
    return not is_tile(value) or side(value).buffer.memory == "local" and not long_axes(side(value))


def either(of_tile, of_number, needs):
    """A word that is a statement on tiles if it has as many as it needs, else a function of numbers."""
    def function(*args, **hints):
        is_statement = len(args) >= needs and not any(map(is_number, args[:needs]))
        return (of_tile if is_statement else of_number)(*args, **hints)
    function.__name__ = of_number.__name__
    return function


exp = either(ppl_exp, mathematics.exp, 1)
rsqrt, sigmoid = either(ppl_rsqrt, mathematics.rsqrt, 2), either(ppl_sigmoid, mathematics.sigmoid, 2)
max, min = either(ppl_max, mathematics.max, 3), either(ppl_min, mathematics.min, 3)  # noqa: A001
add, subtract, mul, div = ppl_add, ppl_subtract, ppl_mul, ppl_div
add_C, mul_C, silu, rope_add, gather, topk = ppl_add_C, ppl_mul_C, ppl_silu, ppl_rope_add, ppl_gather, ppl_topk

__all__ = [name for name in globals() if name.startswith(("ppl_", "tpu_"))] + [
    "add", "add_C", "div", "exp", "gather", "max", "min", "mul", "mul_C", "rope_add", "rsqrt", "sigmoid", "silu", "subtract", "topk"]
