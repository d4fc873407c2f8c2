#!/usr/bin/env python3
"""fuzz_pickles.py [SEED [COUNT]] - reads pickles that nobody honest wrote.

Covered: states of arrays with wrong types, lengths, dtype numbers, buffers, strides and sizes (__setstate__, also on arrays
that are in use); pickles that make objects of zellige.core with wrong arguments or leave them uninitialised; and good
pickles of arrays, dtypes and devices with bytes changed, cut and joined, read by an unpickler that knows only the names
such pickles have. What comes out is printed, evaluated and computed with.

A pickle may give anything or raise an ordinary exception. Found are: crashes, SystemError, UnicodeError raised by an
array, and pickles that take more than LIMIT seconds. `fuzz_pickles.py SEED 1` repeats one.
"""

import copyreg
import faulthandler
import io
import os
import pickle
import random
import sys

import numpy as np
from fuzz_calls import Call, LIMIT, limit_memory, mx

KNOWN = {"zellige", "zellige.core", "copyreg", "numpy", "numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric",
         "numpy._core.numeric", "_codecs"}
NAMES = {"array", "Dtype", "Device", "DeviceType", "DtypeCategory", "ndarray", "dtype", "_reconstruct", "_frombuffer", "scalar",
         "encode", "__newobj__", "_reconstructor", "core"}


class Reader(pickle.Unpickler):
    """Refuses every name that no pickle of ours has: changed bytes must not call what they hit upon."""

    def find_class(self, module, name):
        if module not in KNOWN or name.split(".")[-1] not in NAMES:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return super().find_class(module, name)


class Made:
    """Pickles as a call of what it is given."""

    def __init__(self, *reduced):
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


def elements(call):
    """What may stand for the NumPy array of a state."""
    r = call.random
    dtype = r.choice(["?", "i1", "u2", ">i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "S3", "U2", "O", "M8[s]", "V7", "i4,f8"])
    shape = r.choice([(), 0, 3, (2, 3), (0, 5), (2, 0, 1 << 40), (1,) * 32, (1 << 12,)])
    array = np.zeros(shape, dtype)
    return r.choice([lambda: array, lambda: array.T, lambda: array[..., ::-1] if array.ndim else array,
                     lambda: np.broadcast_to(np.float32(1), (1 << 40,)), lambda: np.broadcast_to(np.int8(1), (1 << 20, 1 << 20)),
                     lambda: np.lib.stride_tricks.as_strided(np.zeros(4, "f4"), (2, 2), (0, 4)),
                     lambda: array.tobytes() if dtype != "O" else b"", lambda: memoryview(b"abcdef")[::2], call.value])()


def state(call):
    r = call.random
    code = r.choice([r.randrange(-3, 20), r.randrange(14), call.number(), call.value()])
    return r.choice([lambda: (elements(call), code), lambda: (elements(call), code), lambda: (elements(call), code),
                     lambda: (elements(call),), lambda: (elements(call), code, 1), lambda: [elements(call), code], call.value])()


def set_states(call):
    """States given to a new array, or to one that is part of a computation."""
    array = mx.array.__new__(mx.array) if call.random.randrange(2) else call.array()
    pending = array + 1 if call.random.randrange(2) and array.size < 1000 else None
    try:
        array.__setstate__(state(call))
    finally:
        use(array)
        use(pending)


def read_made(call):
    """A pickle that makes objects by other calls than those that pickling writes."""
    r = call.random
    kind = r.choice([mx.array, mx.Dtype, mx.Device, mx.DeviceType, mx.Stream, mx.PrintOptions, mx.FunctionExporter, mx.ArrayAt])
    arguments = tuple(call.value() for _ in range(r.randrange(3)))
    made = r.choice([lambda: Made(copyreg.__newobj__, (kind, *arguments)), lambda: Made(kind, arguments),
                     lambda: Made(copyreg.__newobj__, (kind,), state(call)), lambda: Made(kind, (), state(call)),
                     lambda: Made(copyreg._reconstructor, (kind, object, None)),
                     lambda: Made(getattr, (mx.ones(3), r.choice(dir(mx.array)))),
                     lambda: Made(mx.array.__setstate__, (mx.ones(3), state(call)))])()
    use(pickle.loads(pickle.dumps(made, r.randrange(2, 6))))


def good(call):
    r = call.random
    array = call.array() if r.randrange(2) else mx.ones((2, 3), r.choice([mx.float32, mx.bfloat16, mx.int8]))
    if array.size > 1000:
        array = mx.ones(3)
    return pickle.dumps(r.choice([array, [array, {"w": array}], mx.float16, mx.integer, mx.Device(mx.cpu, 0), mx.cpu]),
                        r.randrange(2, 6))


def read_damaged(call):
    """A good pickle with bytes changed, cut out, or taken from another one."""
    r = call.random
    data = bytearray(good(call))
    for _ in range(r.randrange(1, 6)):
        at = r.randrange(len(data) + 1)
        kind = r.randrange(5)
        if kind == 0 and at < len(data):
            data[at] = r.randrange(256)
        elif kind == 1 and at < len(data):
            data[at] ^= 1 << r.randrange(8)
        elif kind == 2:
            del data[at:at + r.randrange(1, 9)]
        elif kind == 3:
            data[at:at] = r.choice([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\0" * 8, b"N.", b"\x85", b"\x86"])
        else:
            other = good(call)
            data[at:] = other[r.randrange(len(other)):]
    use(Reader(io.BytesIO(bytes(data))).load())


def use(value):
    if isinstance(value, (list, tuple)):
        for item in value[:3]:
            use(item)
    elif isinstance(value, mx.array) and value.shape is not None and value.size < 10000:
        str(value), value.dtype, value.nbytes
        (value + value).tolist()
    else:
        type(value).__repr__(value) if type(value).__module__.startswith("zellige") else None


def attempt(call):
    kind = call.random.choice([set_states, set_states, read_made, read_damaged])
    try:
        kind(call)
    except (SystemError, UnicodeError) as error:
        if isinstance(error, SystemError) or kind is set_states:
            return f"{kind.__name__}: {type(error).__name__}: {ascii(str(error))}"
    except (Exception, RecursionError):
        pass
    return None


def main():
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    faulthandler.enable()
    limit_memory()
    failures = 0
    for seed in range(first, first + count):
        if "ZL_FUZZ_LOG" in os.environ:
            os.pwrite(int(os.environ["ZL_FUZZ_LOG"]), b"%20d\n" % seed, 0)
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        found = attempt(Call(seed))
        faulthandler.cancel_dump_traceback_later()
        if found:
            failures += 1
            print(f"seed {seed}: {found}", flush=True)
    print(f"{count} pickles, {failures} failures")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
