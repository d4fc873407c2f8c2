"""Arrays of other libraries as memory: where their elements are, their shape and strides, and new ones like them.

torch, NumPy, zellige, and everything else that speaks DLPack; nothing is copied on the CPU, and no library is imported
that the caller has not imported.
"""

import ctypes
import sys

from .dtypes import dtype, name_of


class Memory:
    """An array's memory. strides are in elements, None for row-major. owner keeps it alive."""

    __slots__ = ("pointer", "shape", "strides", "dtype", "device", "owner", "is_readonly")

    def __init__(self, pointer, shape, strides, type_, device, owner, is_readonly=False):
        self.pointer, self.shape, self.strides, self.dtype = pointer, shape, strides, type_
        self.device, self.owner, self.is_readonly = device, owner, is_readonly

    def told(self, type_):
        """As the engine wants it; bytes may be declared as bool."""
        return self.pointer, "uint8" if type_.is_small else str.__str__(type_), self.shape, self.strides


def memory_of(array):
    """The memory of an array; None for what is no array."""
    if isinstance(array, Fresh):
        return array.memory()
    module = type(array).__module__.partition(".")[0]
    if module == "torch" or hasattr(array, "data_ptr"):
        return torch_memory(array)
    if module == "numpy" and hasattr(array, "__array_interface__"):
        return numpy_memory(array)
    if hasattr(array, "__dlpack__"):
        return dlpack_memory(array)
    return None


torch_names = {}


def torch_memory(tensor):
    type_ = torch_names.get(tensor.dtype)
    if type_ is None:
        type_ = torch_names[tensor.dtype] = str.__str__(name_of(tensor.dtype))
    tensor = tensor.detach() if tensor.requires_grad else tensor
    strides = None if tensor.is_contiguous() else tensor.stride()
    device = tensor.device.type + (f":{tensor.device.index}" if tensor.device.index else "")
    return Memory(tensor.data_ptr(), tuple(tensor.shape), strides, type_, device, tensor)


def numpy_memory(array):
    found = array.__array_interface__
    pointer, is_readonly = found["data"]
    strides = found["strides"] and tuple(s // array.itemsize for s in found["strides"])
    return Memory(pointer, array.shape, strides, name_of(array.dtype), "cpu", array, is_readonly)


# DLPack: the structure behind a capsule ---------------------------------------------------------------------------------


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 4: "opencl", 7: "vulkan", 8: "metal", 10: "cuda", 11: "cpu", 13: "cuda"}  # 10: ROCm's
KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


def dlpack_memory(array):
    capsule = array.__dlpack__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    t = DLTensor.from_address(get(capsule, b"dltensor"))
    shape = tuple(t.shape[i] for i in range(t.ndim))
    strides = tuple(t.strides[i] for i in range(t.ndim)) if t.strides else None
    type_ = "bool" if t.code == 6 else f"{KINDS[t.code]}{t.bits}"
    is_value = type(array).__module__.partition(".")[0] in ("zellige", "mlx", "jax", "jaxlib")
    device = DEVICES.get(t.device_type, f"device type {t.device_type} of DLPack")
    device = device if not t.device_id or device == "cpu" else f"{device}:{t.device_id}"
    return Memory((t.data or 0) + t.byte_offset, shape, strides, type_, device, (array, capsule), is_value)


def is_zellige(array):
    return type(array).__module__.partition(".")[0] == "zellige" and hasattr(array, "__dlpack__")


def zellige_memory(array):
    """What an array of zellige.core is, without its memory, which may be a device's or not there yet."""
    return Memory(None, tuple(array.shape), None, name_of(array.dtype), None, array, True)


# New arrays -----------------------------------------------------------------------------------------------------------


def library_of(arrays):
    """The library that results are made in: that of the first array, else torch if it is there, else NumPy."""
    for array in arrays:
        module = type(array).__module__.partition(".")[0]
        if module in ("torch", "numpy", "zellige"):
            return module
        if hasattr(array, "data_ptr"):
            return "torch"
    return "torch" if "torch" in sys.modules else "numpy"


def new_array(library, shape, type_, device=None, is_zero=False):
    """An array to be written, without values or of zeros; one of torch on a device."""
    if library == "torch":
        import torch
        return (torch.zeros if is_zero else torch.empty)(shape, dtype=getattr(torch, type_), device=device)
    if library == "zellige":
        return Fresh(shape, type_)
    import numpy
    make = numpy.zeros if is_zero else numpy.empty
    if type_ == "bfloat16" or type_.startswith("float8"):
        import ml_dtypes
        return make(shape, getattr(ml_dtypes, type_))
    return make(shape, str.__str__(dtype(type_)))


class Fresh:
    """Memory for a result, from which a zellige array is made: those have no memory that others may write."""

    def __init__(self, shape, type_):
        self.shape, self.dtype = shape, type_
        count = 1
        for size in shape:
            count *= size
        self.bytes = (ctypes.c_uint8 * (count * type_.itemsize))()

    def memory(self):
        return Memory(ctypes.addressof(self.bytes), self.shape, None, str.__str__(self.dtype), "cpu", self.bytes)

    def array(self):
        import zellige.core as mx
        size = {1: "B", 2: "H", 4: "I", 8: "Q"}[self.dtype.itemsize]
        found = mx.array(memoryview(self.bytes).cast("B").cast(size))
        return mx.reshape(mx.view(found, getattr(mx, self.dtype if self.dtype != "bool" else "bool_")), self.shape)


def finished(array):
    """A result as the library of its inputs has it."""
    return array.array() if isinstance(array, Fresh) else array
