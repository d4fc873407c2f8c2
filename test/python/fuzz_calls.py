#!/usr/bin/env python3
"""fuzz_calls.py [SEED [COUNT]] - calls everything that zellige.core has with arguments it was not made for.

Covered: every function of zellige.core and of its submodules, every method and operator of arrays and of the other
classes, and the functions that transforms return. Arguments are arrays, among them broadcast, empty and uninitialised
ones, numbers far beyond 64 bits, texts with NULs and lone surrogates, NumPy arrays of strange dtypes, lists that contain
themselves, and objects whose __index__, __len__, __iter__, __float__, __eq__, ... raise, lie, answer differently each
time, or give the arrays of the call other values meanwhile. Left out is what takes addresses (DLPack capsules, _tile),
what compiles (cpu_kernel and cuda_kernel called), and what ends or slows the process for all (streams, memory limits).

A call may return anything or raise an ordinary exception. Found are: crashes, SystemError (NULL without an exception, or
an exception beside a result), UnicodeError (text cut or not checked), and calls that take more than LIMIT seconds.
The first argument is the seed of the first call; each call has its own, so that `fuzz_calls.py SEED 1` repeats it.
"""

import faulthandler
import fractions
import inspect
import os
import random
import resource
import sys
import tempfile

import numpy as np

os.environ.setdefault("ZL_MEMORY_LIMIT", str(1 << 30))
import zellige.core as mx  # noqa: E402

LIMIT = 60  # seconds that a call may take, on a busy machine with a sanitizer
MEMORY = 2 << 30  # bytes of address space beyond what there is at the start
LEFT_OUT = {"_tile", "from_dlpack", "clear_streams", "new_stream", "new_thread_local_stream", "new_thread_unsafe_stream",
            "set_memory_limit", "set_cache_limit", "set_wired_limit", "set_default_device", "set_default_stream",
            "disable_compile", "start_capture", "_gc_func"}


class Failure(Exception):
    """What a hostile method raises."""


class Hostile:
    """An object whose special methods do what the next number says: each call anew."""

    def __init__(self, call):
        self.call = call
        self.left = 200  # then it only raises: a function that asks for ever ends

    def answer(self, ordinary):
        """Raises, changes the arrays of the call, or lies; else what an honest object would give."""
        self.left -= 1
        choice = self.call.random.randrange(8) if self.left > 0 else 0
        if choice == 0:
            raise self.call.random.choice([Failure, TypeError, ValueError, IndexError, StopIteration])("no")
        if choice == 1:
            for array in self.call.arrays:
                array.__setstate__((np.full(self.call.random.choice([(), 0, 3, (2, 2)]), 7, np.float32), 10))
            mx.eval(mx.ones(5) + 1)
        if choice == 2:
            return self.call.number()
        if choice == 3:
            return self.call.random.choice(["text", None, 1.5, [], (), mx.array(1), self])
        return ordinary

    def __index__(self):
        return self.answer(self.call.random.randrange(-2, 3))

    def __int__(self):
        return self.answer(1)

    def __float__(self):
        return self.answer(0.5)

    def __complex__(self):
        return self.answer(1j)

    def __bool__(self):
        return self.answer(True)

    def __len__(self):
        return self.answer(self.call.random.randrange(4))

    def __getitem__(self, key):
        if isinstance(key, int) and key > 3:
            raise IndexError(key)
        return self.answer(1)

    def __iter__(self):
        return self.answer(iter([self.call.number(), self, 1]))

    def __hash__(self):
        return self.answer(1)

    def __eq__(self, other):
        return self.answer(True)

    def __str__(self):
        return self.answer("x")

    def __repr__(self):
        return self.answer("x")

    def __fspath__(self):
        return self.answer("x.npy")

    def __call__(self, *arguments, **named):
        return self.answer(arguments[0] if arguments else 1)


class Indexable:
    """Only __index__, so that it counts as a number and not as a sequence."""

    def __init__(self, hostile):
        self.hostile = hostile

    def __index__(self):
        return self.hostile.__index__()


class Converted:
    """An object that becomes an array in one of the ways that there are."""

    def __init__(self, hostile, way):
        self.hostile = hostile
        setattr(self, way, lambda *arguments, **named: hostile.answer(hostile.call.array()))


class Text(str):
    def __hash__(self):
        return 1

    def __eq__(self, other):
        return True


class Sequence(list):
    def __len__(self):
        return 5


class Call:
    """One call: its random choices, and the arrays that hostile arguments may change."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.arrays = []

    def number(self):
        r = self.random
        return r.choice([0, 1, -1, 2, 3, 7, -2, r.randrange(-9, 9), 64, 65, 255, 256, 2**15, 2**31 - 1, -2**31, 2**31, 2**32,
                         2**53 + 1, 2**63 - 1, -2**63, 2**63, 2**64, 2**70, -2**70, 10**60, True, False])

    def text(self):
        r = self.random
        return r.choice(["", "x", "é", "\udc80", "a\0b", "ij,jk->ik", "é" * 300, "f" * 5000, "xy", "causal", "affine", "%s%n%d",
                         "ij->\U0001f600", "../x", "fro", "float32", "mean", "constant", "x.npy", "x.npz", "x.gguf",
                         Text("axis"), Text("é")])

    def array(self):
        r = self.random
        kind = r.randrange(8)
        if kind == 0:
            return mx.broadcast_to(mx.array(r.choice([0.5, 1, True])), r.choice([(100000, 100000), (3, 1 << 20), (1 << 31) - 1]))
        if kind == 1:
            return mx.array.__new__(mx.array)
        dtype = r.choice([mx.bool_, mx.uint8, mx.int32, mx.int64, mx.uint64, mx.float16, mx.bfloat16, mx.float32, mx.float64,
                          mx.complex64])
        shape = r.choice([(), (0,), (1,), (3,), (2, 3), (3, 2), (2, 0, 3), (1, 2, 3), (4, 4), (1, 2, 4, 8), (1,) * 12])
        array = mx.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
        if kind == 2:
            array = array.T
        self.arrays.append(array)
        return array

    def foreign(self):
        r = self.random
        return r.choice([lambda: np.arange(6.0).reshape(2, 3)[::-1, ::2], lambda: np.array([None, 1], object),
                         lambda: np.array(["a"]), lambda: np.zeros(2, [("a", "i4"), ("b", "f8")]), lambda: np.float64(2),
                         lambda: np.int8(-3), lambda: np.array(5), lambda: np.zeros((0, 3)), lambda: np.arange(3, dtype=">i4"),
                         lambda: np.array([1 + 2j]), lambda: np.datetime64("2020"), lambda: b"bytes", lambda: bytearray(5),
                         lambda: memoryview(b"abcd"), lambda: np.bool_(True), lambda: np.zeros((1,) * 32)])()

    def function(self):
        r = self.random
        return r.choice([lambda *a, **k: a[0].sum(), lambda *a, **k: a, lambda *a, **k: k, lambda *a, **k: None,
                         lambda *a, **k: [x * 2 for x in a], Hostile(self), print_nothing, mx.sum, mx.array, max])

    def container(self, depth):
        r = self.random
        items = [self.value(depth + 1) for _ in range(r.randrange(4))]
        kind = r.randrange(7)
        if kind == 0:
            items.append(items)
        if kind == 1:
            return tuple(items)
        if kind == 2:
            return {self.text() if r.randrange(4) else self.number(): item for item in items}
        if kind == 3:
            return Sequence(items)
        if kind == 4:
            return (item for item in items)
        if kind == 5:
            return {"axis": items}
        return items

    def value(self, depth=0):
        r = self.random
        kind = r.randrange(16)
        if kind < 4:
            return self.array()
        if kind < 6:
            return self.number()
        if kind == 6:
            return self.text()
        if kind == 7:
            return Hostile(self)
        if kind == 8:
            return Indexable(Hostile(self))
        if kind == 9 and depth < 3:
            return self.container(depth)
        if kind == 10:
            return self.foreign()
        if kind == 11:
            return self.function()
        if kind == 12:
            return Converted(Hostile(self), r.choice(["__mlx_array__", "__array__", "__dlpack__", "__array_interface__"]))
        if kind == 13:
            return r.choice([mx.float32, mx.int8, mx.cpu, mx.gpu, mx.default_stream(mx.cpu), mx.Device(mx.cpu, 0), mx.integer,
                             int, float, mx.array, np.float32, np.dtype("f4")])
        if kind == 14:
            return r.choice([None, Ellipsis, slice(None, None, -1), slice(0, 2**40), slice(Indexable(Hostile(self))), 0.5,
                             float("nan"), float("inf"), -1e308, 1j, fractions.Fraction(1, 3), object(), NotImplemented])
        return r.choice([None, 0, 1, -1, 1.0, [0], (0, 1), [1, -1]])

    def named(self, names):
        return {self.random.choice(names) if names and self.random.randrange(8) else self.text(): self.value()
                for _ in range(self.random.randrange(3))}


def print_nothing(*arguments):
    return ""


def names_of(function):
    try:
        return [name for name in inspect.signature(function).parameters if name.isidentifier()]
    except (TypeError, ValueError):
        return []


def public(module, prefix, into):
    """Every callable of a module and its submodules, and every method of its classes, by name."""
    for name in sorted(dir(module)):
        value = getattr(module, name)
        if name in LEFT_OUT or (name.startswith("__") and prefix.count(".") == 0):
            continue
        if inspect.ismodule(value):
            public(value, f"{prefix}{name}.", into)
        elif isinstance(value, type) and not issubclass(value, BaseException):
            into.append((f"{prefix}{name}", value, None))
            methods(value, f"{prefix}{name}.", into)
        elif callable(value):
            into.append((f"{prefix}{name}", value, None))


def methods(kind, prefix, into):
    skipped = {"__class__", "__init_subclass__", "__subclasshook__", "__new__", "__dir__", "__getattribute__", "__setattr__",
               "__delattr__", "__sizeof__", "__reduce__", "__reduce_ex__"}
    for name in sorted(vars(kind)):
        if name in skipped or name in LEFT_OUT:
            continue
        value = getattr(kind, name)
        if callable(value):
            into.append((f"{prefix}{name}", value, kind))


def small(value):
    return isinstance(value, mx.array) and value.size < 10000


def look(result, call, depth=0):
    """Uses what a call gave: evaluates and prints arrays, calls functions."""
    if isinstance(result, mx.array):
        repr(result) if small(result) or call.random.randrange(2) == 0 and result.ndim < 4 else result.shape
    elif isinstance(result, (list, tuple)) and depth < 2:
        for item in result[:5]:
            look(item, call, depth + 1)
    elif callable(result) and not isinstance(result, type) and depth == 0 and not isinstance(result, Hostile):
        if type(result).__name__ not in ("SourceKernel",):
            look(result(*[call.value() for _ in range(call.random.randrange(1, 4))], **call.named(["z"])), call, 1)


def attempt(call, targets):
    name, function, kind = call.random.choice(targets)
    arguments = [call.value() for _ in range(call.random.choice([0, 1, 1, 2, 2, 3, 3, 4, 5]))]
    if kind is mx.array and call.random.randrange(20):
        arguments.insert(0, call.array())
    elif arguments and call.random.randrange(3):
        arguments[0] = call.function() if function in (mx.grad, mx.value_and_grad, mx.vmap, mx.compile, mx.checkpoint,
                                                       mx.custom_function, mx.vjp, mx.jvp) else call.array()
    named = call.named(names_of(function))
    try:
        look(function(*arguments, **named), call)
    except (SystemError, UnicodeError) as error:
        if not isinstance(error, UnicodeError) or not from_hostile(error):
            return f"{name}: {type(error).__name__}: {ascii(str(error))}"
    except RecursionError:
        pass
    except Exception as error:
        str(error).encode("utf-8", "surrogatepass")
    return None


def from_hostile(error):
    """Whether Python itself raised: bytes() and open() may speak of text in their own words."""
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    return os.path.basename(trace.tb_frame.f_code.co_filename) != os.path.basename(__file__)


def limit_memory():
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    if "asan" not in os.environ.get("LD_PRELOAD", ""):
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def main():
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    faulthandler.enable()
    limit_memory()
    targets = []
    public(mx, "", targets)
    default, stream = mx.default_device(), mx.default_stream(mx.default_device())
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        log = os.open("now", os.O_RDWR | os.O_CREAT)
        for seed in range(first, first + count):
            os.pwrite(int(os.environ.get("ZL_FUZZ_LOG", log)), b"%20d\n" % seed, 0)  # which one a crash was in
            faulthandler.dump_traceback_later(LIMIT, exit=True)
            found = attempt(Call(seed), targets)
            faulthandler.cancel_dump_traceback_later()
            mx.set_printoptions()
            if found:
                failures += 1
                print(f"seed {seed}: {found}", flush=True)
        os.chdir("/")
    mx.set_default_device(default)
    mx.set_default_stream(stream)
    print(f"{count} calls of {len(targets)} functions, {failures} failures")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
