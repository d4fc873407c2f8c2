"""T: the names of TileLang's language. `import zellige.tile.language as T`."""

from . import hints as _hints
from . import statements as _statements
from .buffers import Buffer as _Buffer
from .buffers import PointerMaker as _PointerMaker
from .buffers import SpecMaker as _SpecMaker
from .buffers import StridedMaker as _StridedMaker
from .builder import current as _current
from .builder import is_word as _is_word
from .dtypes import INDEX as _INDEX
from .dtypes import dtype
from .dtypes import dtype as _dtype
from .dtypes import named as _named
from .errors import UnknownName as _UnknownName
from .errors import fail as _fail
from .expr import Name as _Name
from .expr import cast, truth as _truth, wrap as _wrap
from .loops import (Kernel, Parallel, Persistent, Pipelined, get_block_binding, get_block_bindings, get_block_extent,
                    get_thread_binding, get_thread_bindings, get_thread_extent, grid, serial, thread_binding, unroll, vectorized)
from .mathematics import *  # noqa: F403
from .port import *  # noqa: F403
from .port_layers import *  # noqa: F403
from .programs import Macro, Ref, empty, macro, prim_func
from .combine import COMBINE as _COMBINE
from .combine import IDENTITY as _IDENTITY
from .combine import atomic as _atomic
from .combine import cummax, cumsum, gemm, reduce
from .statements import clear, copy, fill
from .tiles import PersistentTileScheduler, all_of, any_of, dp4a, im2col, rng_init, rng_rand, transpose
from .views import reshape, view

globals().update(_named())
Tensor = SharedBuffer = FragmentBuffer = LocalBuffer = Buffer = _SpecMaker()
StridedTensor = _StridedMaker()
Serial, Unroll, Vectorized, parallel = serial, unroll, vectorized, Parallel
Var = Ref
inline = macro
c2d_im2col = im2col
async_copy = copy
GemmWarpPolicy = _hints.GemmWarpPolicy
Layout, Fragment = _hints.Layout, _hints.Layout


ptr = _PointerMaker()


def make_tensor(pointer, shape, dtype="float32", strides=None):
    return _current("T.make_tensor").shape_pointer(pointer, shape, dtype, strides)


def match_buffer(value, shape, dtype="float32", **hints):
    return make_tensor(value, shape, dtype)


# Sizes ----------------------------------------------------------------------------------------------------------------


def _split(names):
    return names.replace(",", " ").split()


def dynamic(names, dtype="int32"):
    """Sizes that are known at each call, from the shapes of the arguments."""
    found = tuple(_Name(f"{n}_" if _is_word(n) else n, _INDEX, "symbol", bounds=(0, None)) for n in _split(names))
    return found if len(found) > 1 or "," in names else found[0]


symbolic = dyn = dynamic


def const(names, dtype="int32"):
    """Sizes of an eager function, known when it is compiled, from the shapes of the arguments."""
    builder = _current("T.const")
    found = tuple(builder.constant(n) for n in _split(names))
    return found if len(found) > 1 or "," in names else found[0]


# Allocations ----------------------------------------------------------------------------------------------------------


def alloc_shared(shape, dtype="float32", scope="shared.dyn"):
    return _statements.allocate("shared", shape, dtype)


def alloc_fragment(shape, dtype="float32", scope="local.fragment"):
    return _statements.allocate("fragment", shape, dtype)


def alloc_local(shape, dtype="float32", scope="local"):
    return _statements.allocate("local", shape, dtype)


def alloc_global(shape, dtype="float32", scope="global"):
    return _statements.allocate("global", shape, dtype)


def alloc_buffer(shape, dtype="float32", scope="local", **hints):
    kinds = ("shared", "fragment", "local", "global")
    return _statements.allocate(next(k for k in kinds if k in scope), shape, dtype)


def alloc_var(dtype, *args, scope="local.var", init=None):
    for value in args:
        init = value if not isinstance(value, str) else init
    return _current("T.alloc_var").variable(None, 0 if init is None else init, _dtype(dtype))


def alloc_reducer(shape, dtype="float32", op="sum", replication=None):
    buffer = _statements.allocate("fragment", shape, dtype)
    buffer.reducer = op
    return buffer


def reducer_init(reducer, init=None):
    kind = getattr(reducer, "reducer", "sum")
    fill(reducer, _IDENTITY[kind](reducer.dtype) if init is None else init)


def reducer_update(target, value):
    kind = getattr(target.buffer, "reducer", "sum")
    _atomic(_COMBINE[kind], target, value)


def finalize_reducer(reducer, **hints):
    pass


# Reductions and atomics -------------------------------------------------------------------------------------------------


def _reduction(kind):
    def function(buffer, out, dim=-1, clear=True, **hints):
        reduce(buffer, out, kind, dim, clear)
    function.__name__ = f"reduce_{kind}"
    return function


reduce_sum, reduce_max, reduce_min = _reduction("sum"), _reduction("max"), _reduction("min")
reduce_abssum, reduce_absmax = _reduction("abssum"), _reduction("absmax")
reduce_bitand, reduce_bitor, reduce_bitxor = _reduction("bitand"), _reduction("bitor"), _reduction("bitxor")
reduce_any, reduce_all, reduce_prod = _reduction("any"), _reduction("all"), _reduction("prod")


def _atomic_op(op):
    def function(dst, value, memory_order=None, return_prev=False, use_tma=False, annotations=None):
        return _atomic(op, dst, value, return_prev)
    return function


atomic_add, atomic_max, atomic_min, atomic_or = map(_atomic_op, ("add", "maximum", "minimum", "bitwise_or"))


def _atomic_run(count):
    """An atomic add of neighbours along the last axis."""
    def function(dst, value, return_prev=False):
        for i in range(count):
            _atomic("add", _neighbour(dst, i), _neighbour(value, i))
    return function


def _neighbour(element, step):
    *leading, last = element.indices
    return element.buffer.element([*leading, last + step])


atomic_addx2, atomic_addx4 = _atomic_run(2), _atomic_run(4)


def atomic_load(src, memory_order="seq_cst"):
    return _statements.element_of(src)


def atomic_store(dst, src, memory_order="seq_cst"):
    _statements.store(_statements.element_of(dst), src)


# Checks ---------------------------------------------------------------------------------------------------------------


def device_assert(condition, message="", *hints):
    _current("T.device_assert").emit(f'assert {_truth(condition).text()}, "{message}"'.replace(', ""', ""))


def print(value=None, msg="", **hints):  # noqa: A001
    builder = _current("T.print")
    if isinstance(value, _Buffer):
        return  # whole buffers are not printed
    builder.emit(f'print "{msg}"' + ("" if value is None else f", {_wrap(value).text()}"))


def evaluate(value):
    return value


def assume(condition):
    """What the user promises; nothing is derived from it."""


def annotate_safe_value(values):
    """What reads outside of a buffer give."""
    for buffer, value in values.items():
        buffer.safe_value = value


def access_ptr(value, *hints, **named_hints):
    return value


address_of = region = access_ptr


def meta_class(cls):
    return cls


def sync_threads(*args, **hints):
    """All threads of a block wait for each other: they are one here."""
    launch = _current("T.sync_threads").launch
    if launch is not None and launch.bound:
        _fail("T.sync_threads after the number of a thread was asked for: threads that hand values to each other are not possible here")


sync_warp = sync_threads


def sync_grid(*args, **hints):
    """All blocks wait for each other: the launch ends, and another begins."""
    launch = _current("T.sync_grid").launch
    if launch is None:
        _fail("T.sync_grid belongs inside of a T.Kernel")
    launch.cut()


def use_swizzle(*args, **hints):
    return None


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    found = _hints.find(name)
    if found is not None:
        return found
    import difflib
    reason = _hints.missing(name)
    near = [] if reason else difflib.get_close_matches(name, globals(), 3)
    hint = f"; did you mean {' or '.join('T.' + n for n in near)}?" if near else ""
    _fail(f"T.{name} is not known here" + (f": {reason}" if reason else "") + hint, _UnknownName)


__all__ = [n for n in globals() if not n.startswith("_")]
