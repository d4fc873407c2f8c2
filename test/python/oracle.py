"""oracle.py - what compares the library with MLX: it is called through its own table of signatures, by ctypes.

Cases are in oracle_ops.py. Importing this opens BUILD/libzellige.so, the first argument of the program, as `lib`; without it,
or without MLX, the program ends with the reason and one skipped.
"""

import ctypes as c
import itertools
import sys


def skip(reason):
    print(f"skipped: {reason}")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)


try:
    import mlx.core as mx
    import numpy as np
except ImportError as reason:
    skip(f"{reason}: pip install 'mlx[cpu]==0.32.*' numpy")

mx.set_default_device(mx.cpu)

DTYPES = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16",
          "float32", "float64", "complex64"]
FLOATS = DTYPES[9:13]
SHAPES = [(), (1,), (5,), (2, 3), (3, 1, 4), (2, 3, 4), (0,), (2, 0, 3)]
# MLX computes many functions of float64 in float32.
BOUND = {"float16": 4e-3, "bfloat16": 4e-2, "float32": 2e-5, "float64": 1e-6, "complex64": 2e-5}


# The library -----------------------------------------------------------------------------------------------------

class Shape(c.Structure):
    _fields_ = [("dim", c.POINTER(c.c_int64)), ("ndim", c.c_int)]


class Axes(c.Structure):
    _fields_ = [("axis", c.POINTER(c.c_int)), ("count", c.c_int)]


class Param(c.Structure):
    _fields_ = [("name", c.c_char_p), ("type", c.c_int), ("fallback", c.c_char_p)]


class Info(c.Structure):
    _fields_ = [("name", c.c_char_p), ("family", c.c_char_p), ("doc", c.c_char_p), ("param", Param * 18),
                ("params", c.c_int), ("returns_bool", c.c_bool)]


class Scope(c.Structure):
    _fields_ = [("height", c.c_int), ("open", c.c_bool), ("stream", c.c_void_p)]


ARRAY, ARRAYS, INT, INT64, DOUBLE, BOOL, DTYPE, SHAPE, AXES, OUTPUT, OPTIONAL, STRING = range(12)  # zl_param_type
C_TYPE = {ARRAY: c.c_void_p, INT: c.c_int, INT64: c.c_int64, DOUBLE: c.c_double, BOOL: c.c_bool, DTYPE: c.c_int,
          SHAPE: Shape, AXES: Axes, OUTPUT: c.c_void_p, OPTIONAL: c.c_void_p, STRING: c.c_char_p}


def shape_of(sizes):
    if sizes is None:
        return Shape(None, -1)
    return Shape((c.c_int64 * len(sizes))(*sizes), len(sizes))


def dtype_of(name):
    return len(DTYPES) if name is None else DTYPES.index(name)


def axes_of(axes):
    if axes is None:
        return Axes(None, -1)
    axes = (axes,) if isinstance(axes, int) else axes
    return Axes((c.c_int * len(axes))(*axes), len(axes))


class Refused(Exception):
    pass


class Library:
    """lib.sum_axis(x, 0, True) calls zl_sum_axis; arrays are handles; outputs=n asks for a list of n results."""

    def __init__(self, path):
        self.c = c.CDLL(path)
        for name, result, arguments in [
            ("zl_from", c.c_void_p, [c.c_void_p, Shape, c.c_int]), ("zl_copy_to", c.c_bool, [c.c_void_p, c.c_void_p, c.c_size_t]),
            ("zl_error", c.c_char_p, []), ("zl_clear_error", None, []), ("zl_op", c.POINTER(Info), [c.c_int]),
            ("zl_dtype_of", c.c_int, [c.c_void_p]), ("zl_shape_of", Shape, [c.c_void_p]), ("zl_eval", c.c_bool, [c.c_void_p]),
            ("zl_eval_all", c.c_bool, [c.c_int, c.c_void_p]), ("zl_scope_begin", Scope, []), ("zl_scope_end", None, [Scope]),
            ("zl_einsum_path", c.c_char_p, [c.c_char_p, c.c_void_p, c.c_int]),
            ("zl_random_seed", None, [c.c_int64]), ("zl_random_state_get", c.c_void_p, []),
            ("zl_scalar", c.c_void_p, [c.c_double]), ("zl_scalar_int", c.c_void_p, [c.c_int64]),
        ]:
            function = getattr(self.c, name)
            function.restype, function.argtypes = result, arguments
        self.info = {}
        for index in itertools.count():
            info = self.c.zl_op(index)
            if not info:
                break
            self.info[info.contents.name.decode()[3:]] = info.contents
        self.functions = {name: self.bind(info) for name, info in self.info.items()}

    def __getattr__(self, name):
        try:
            return self.functions[name]
        except KeyError:
            raise AttributeError(f"the library has no op zl_{name}") from None

    def bind(self, info):
        function = getattr(self.c, info.name.decode())
        types = [info.param[i].type for i in range(info.params)]
        function.restype = c.c_bool if info.returns_bool else c.c_void_p
        function.argtypes = [t for kind in types for t in ([c.c_void_p, c.c_int] if kind == ARRAYS else [C_TYPE[kind]])]

        def call(*values, outputs=0):
            if len(values) + (OUTPUT in types) != len(types):
                raise TypeError(f"{info.name.decode()} takes {len(types)} arguments")
            out = (c.c_void_p * max(outputs, 1))()
            passed, given = [], iter(values)
            for kind in types:
                value = out if kind == OUTPUT else next(given)
                if kind == ARRAYS:
                    passed += [(c.c_void_p * len(value))(*value), len(value)]
                elif kind in (SHAPE, AXES, DTYPE):
                    passed.append({SHAPE: shape_of, AXES: axes_of, DTYPE: dtype_of}[kind](value))
                else:
                    passed.append(value.encode() if isinstance(value, str) else value)
            result = function(*passed)
            if not result:
                raise Refused((self.c.zl_error() or b"no message").decode())
            return list(out) if info.returns_bool else result

        return call

    def array(self, data, dtype):
        data = np.array(data, order="C")
        handle = self.c.zl_from(data.ctypes.data, shape_of(data.shape), DTYPES.index(data.dtype.name))
        return handle if data.dtype.name == dtype else self.astype(handle, dtype)

    def read(self, handle):
        dtype = DTYPES[self.c.zl_dtype_of(handle)]
        shape = self.c.zl_shape_of(handle)
        shape = tuple(shape.dim[i] for i in range(shape.ndim))
        plain = self.astype(handle, "float32") if dtype == "bfloat16" else handle
        data = np.empty(shape, "float32" if dtype == "bfloat16" else dtype)
        if not self.c.zl_copy_to(plain, data.ctypes.data, data.nbytes):
            raise Refused(self.c.zl_error().decode())
        return dtype, data


# Comparing -------------------------------------------------------------------------------------------------------

score = {True: 0, False: 0}  # calls that agree, and that do not
seen = set()  # ops that were called
shown = {}    # op: failures printed


def mlx_array(data, dtype):
    return mx.array(data, getattr(mx, "bool_" if dtype == "bool" else dtype))


def mlx_read(value, values):
    dtype = str(value.dtype).rsplit(".", 1)[-1].rstrip("_")
    if not values:
        return dtype, np.empty(value.shape)
    return dtype, np.array(value.astype(mx.float32) if dtype == "bfloat16" else value)


def attempt(function):
    try:
        result = function()
        return list(result) if isinstance(result, (list, tuple)) else [result], None
    except (ValueError, IndexError, RuntimeError, TypeError, OverflowError, Refused) as refusal:
        return None, str(refusal).split("\n")[0]


def difference(ours, theirs, bound, values):
    (dtype, mine), (want_dtype, want) = ours, theirs
    if dtype != want_dtype or mine.shape != want.shape:
        return f"{dtype}{mine.shape} instead of {want_dtype}{want.shape}"
    if not values:
        return None
    with np.errstate(all="ignore"):
        wide = "complex128" if dtype == "complex64" else "float64"
        a, b = (mine, want) if dtype in ("int64", "uint64") else (mine.astype(wide), want.astype(wide))
        bound = BOUND.get(dtype, 0) if bound is None else bound
        close = (a == b) | ((a != a) & (b != b)) | (np.abs(a - b) <= bound * np.maximum(1, np.abs(b)))
    return None if np.all(close) else f"{mine.ravel()[:8]} instead of {want.ravel()[:8]}"


def check(what, ours, theirs, bound=None, values=True):
    """Calls both; they must agree, or both refuse. Without values, MLX's result is not evaluated."""
    scope = lib.c.zl_scope_begin()
    mine, refusal = attempt(ours)
    want, refused = attempt(theirs)
    problem = None
    if mine is None or want is None:
        if (mine is None) != (want is None):
            problem = f"refused: {refusal}" if mine is None else f"not refused, but MLX says: {refused}"
    else:
        lib.c.zl_eval_all(len(mine), (c.c_void_p * len(mine))(*mine))
        found = (difference(lib.read(a), mlx_read(b, values), bound, values) for a, b in zip(mine, want, strict=True))
        problem = next((p for p in found if p), None)
    lib.c.zl_scope_end(scope)
    lib.c.zl_clear_error()
    score[problem is None] += 1
    if problem:
        op = what.split()[0]
        shown[op] = shown.get(op, 0) + 1
        if shown[op] <= 3:
            print(f"  {what}: {problem}")


class Spy:
    """The library as cases see it: notes which ops are called."""

    def __getattr__(self, name):
        seen.add(name)
        return getattr(lib, name)


zl = Spy()
random = np.random.default_rng(7)


def data_of(shape, dtype, low=-4, high=5):
    """Small numbers, many of them equal, that every dtype holds exactly."""
    if dtype == "bool" or dtype.startswith("u"):
        low = max(low, 0)
    values = random.integers(low, high, shape)
    if dtype in FLOATS:
        return np.asarray(values / 4, "float64" if dtype == "float64" else "float32")
    if dtype == "complex64":
        return np.asarray(values + 1j * random.integers(low, high, shape), "complex64")
    return np.asarray(values % 2 == 0 if dtype == "bool" else values, dtype)


LAYOUTS = [("", lambda l, x: x, lambda x: x),
           (".T", lambda l, x: l.transpose(x, None), mx.transpose),
           ("[::-1]", lambda l, x: l.flip(x, None), lambda x: mx.flip(x) if 0 not in x.shape else x)]


def pairs(dtypes=DTYPES, shapes=SHAPES, layouts=LAYOUTS):
    """Arrays of both libraries over dtypes, shapes and layouts: what, ours(), theirs."""
    for dtype, shape, (name, mine, want) in itertools.product(dtypes, shapes, layouts):
        if (len(shape) < 2 and name == ".T") or (name and dtype not in ("uint8", "bfloat16", "float32", "complex64")):
            continue  # items of 1, 2, 4 and 8 bytes
        data = data_of(shape, dtype)
        yield (f"{dtype}{shape}{name}", lambda d=data, t=dtype, m=mine: m(lib, lib.array(d, t)),
               want(mlx_array(data, dtype)), want(mx.zeros(shape)).ndim)


try:
    lib = Library(f"{sys.argv[1] if len(sys.argv) > 1 else 'build'}/libzellige.so")
except OSError as reason:
    skip(reason)
