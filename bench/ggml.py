"""ggml.py - products with quantised matrices by llama.cpp's CPU kernels, called through the C API of its libraries."""

import ctypes
import pathlib

TYPES = {"f32": 0, "q4_0": 2, "q8_0": 8, "q4_K": 12, "q6_K": 14}


class Params(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


class Library:
    """The libraries below a folder in which llama.cpp, or its ggml, was built with BUILD_SHARED_LIBS."""

    def __init__(self, folder, threads):
        self.parts = [ctypes.CDLL(str(self.find(folder, name)), ctypes.RTLD_GLOBAL) for name in ("ggml-base", "ggml-cpu")]
        self.backend = self.call("ggml_backend_cpu_init")
        self.call("ggml_backend_cpu_set_n_threads", self.backend, ctypes.c_int(threads), result=None)

    @staticmethod
    def find(folder, name):
        found = sorted(pathlib.Path(folder).rglob(f"lib{name}.so"))
        if not found:
            raise SystemExit(f"ggml.py: no lib{name}.so below {folder}: build llama.cpp there with -DBUILD_SHARED_LIBS=ON")
        return found[0]

    def call(self, name, *args, result=ctypes.c_void_p):
        function = next(getattr(part, name) for part in self.parts if hasattr(part, name))
        function.restype = result
        return function(*(ctypes.c_void_p(a) if isinstance(a, int) or a is None else a for a in args))

    def buffer_types(self):
        """That of matrices as they are, and that in which they are brought into another order."""
        device = self.call("ggml_backend_get_device", self.backend)
        registry = self.call("ggml_backend_dev_backend_reg", device)
        address = self.call("ggml_backend_reg_get_proc_address", registry, ctypes.c_char_p(b"ggml_backend_dev_get_extra_bufts"))
        extra = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)(address)(device)
        return [self.call("ggml_backend_cpu_buffer_type")] + ([extra[0]] if extra and extra[0] else [])

    def context(self):
        return self.call("ggml_init", Params(1 << 20, None, True))

    def product(self, kind, weights, x, buffer_type):
        """A function that multiplies x (m, k) with weights (n, k), quantised as kind says."""
        (n, k), m, size = weights.shape, x.shape[0], ctypes.c_int64
        held, free = self.context(), self.context()
        w = self.call("ggml_new_tensor_2d", held, ctypes.c_int(TYPES[kind]), size(k), size(n))
        self.call("ggml_backend_alloc_ctx_tensors_from_buft", held, buffer_type)
        packed = ctypes.create_string_buffer(self.call("ggml_nbytes", w, result=ctypes.c_size_t))
        self.call("ggml_quantize_chunk", ctypes.c_int(TYPES[kind]), weights.ctypes.data, packed, size(0), size(n), size(k), None)
        self.call("ggml_backend_tensor_set", w, packed, ctypes.c_size_t(0), ctypes.c_size_t(len(packed)), result=None)
        given = self.call("ggml_new_tensor_2d", free, ctypes.c_int(TYPES["f32"]), size(k), size(m))
        graph = self.call("ggml_new_graph", free)
        self.call("ggml_build_forward_expand", graph, self.call("ggml_mul_mat", free, w, given), result=None)
        self.call("ggml_backend_alloc_ctx_tensors", free, self.backend)
        self.call("ggml_backend_tensor_set", given, x.ctypes.data, ctypes.c_size_t(0), ctypes.c_size_t(x.nbytes), result=None)
        return lambda: self.call("ggml_backend_graph_compute", self.backend, graph, result=ctypes.c_int)
