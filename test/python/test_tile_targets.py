"""test_tile_targets.py - tile programs on every target that runs here: by decorator and by compile(), profiled, against PyTorch."""

import unittest

import fake_gpus

try:
    import torch
except ImportError:
    torch = None

import zellige.tile as tilelang
import zellige.tile.language as T
from zellige.core import _tile

SCALE = "kernel scale(a: f32[4]) -> (y: f32[4]) { map i in 4 { y[i] = a[i] * 2.0 } }"


def lacks(target):
    """Why a target does not run here; None: it does."""
    if torch is None:
        return "torch is not installed"
    try:
        _tile.compile(SCALE, "scale.tile", target)
    except Exception as e:
        return str(e)
    return None


def reduce_max(m, n):
    return reduce_rows("max", m, n, 8, 256)


def reduce_sum(m, n):
    return reduce_rows("sum", m, n, 4, 1024)


def matmul(m, n, k):
    return matmul_program(m, n, k, 64, 64, 32)


def reduce_rows(kind, rows, columns, block_rows, block_columns, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((rows, columns), dtype), B: T.Tensor((rows,), dtype)):
        with T.Kernel(T.ceildiv(rows, block_rows), threads=128) as bx:
            tile = T.alloc_fragment((block_rows, block_columns), dtype)
            part = T.alloc_fragment((block_rows,), dtype)
            total = T.alloc_fragment((block_rows,), dtype)
            T.fill(total, 0 if kind == "sum" else -T.infinity(dtype))
            for k in T.serial(T.ceildiv(columns, block_columns)):
                for i, j in T.Parallel(block_rows, block_columns):
                    tile[i, j] = T.if_then_else(k * block_columns + j < columns, A[bx * block_rows + i, k * block_columns + j],
                                                0 if kind == "sum" else -T.infinity(dtype))
                if kind == "sum":
                    T.reduce_sum(tile, part, dim=1)
                else:
                    T.reduce_max(tile, part, dim=1)
                for i in T.Parallel(block_rows):
                    total[i] = total[i] + part[i] if kind == "sum" else T.max(total[i], part[i])
            T.copy(total, B[bx * block_rows])
    return main


def matmul_program(M, N, K, block_M, block_N, block_K, dtype="float16", accumulator="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            a = T.alloc_shared((block_M, block_K), dtype)
            b = T.alloc_shared((block_K, block_N), dtype)
            c = T.alloc_fragment((block_M, block_N), accumulator)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], a)
                T.copy(B[k * block_K, bx * block_N], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * block_M, bx * block_N])
    return main


FOLLOWS = """
import ctypes, types
import zellige.core as mx
import zellige.tile as tilelang
import zellige.tile.language as T
from zellige.tile.errors import TileError

@T.prim_func
def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[i] = A[i] * 2

def target(kernel):
    return "cuda" if "__global__" in kernel.get_kernel_source() else "c"
"""


class Follows(unittest.TestCase):
    """Kernels without a target, where the driver of test/fake has GPUs."""

    def words(self, script, **environment):
        return fake_gpus.words_of(self, FOLLOWS + script, **environment)

    def test_arrays(self):
        """Arrays of zellige.core: where their values are, else on the default device."""
        script = """
kernel = tilelang.compile(main, out_idx=-1)
x = mx.arange(64, dtype=mx.float32)
mx.eval(x)
y = kernel(x)
print(target(kernel), y.dtype, bool((y == 2 * x).all()), bool((kernel(x[::-1]) == 2 * x[::-1]).all()))
given = tilelang.compile(main, out_idx=-1)
print(given(mx.array([1.0] * 64))[5].item(), target(given))
"""
        self.assertEqual(self.words(script), ["cuda", "mlx.core.float32", "True", "True", "2.0", "cuda"])
        self.assertEqual(self.words(script, ZL_DEVICE="cpu"), ["c", "mlx.core.float32", "True", "True", "2.0", "c"])

    def test_memory(self):
        """NumPy's on the CPU, without a driver; a GPU's there; of two devices, or of the second GPU, on none."""
        script = """
import numpy as np

class Tensor:  # as torch's, on a GPU
    dtype, shape, requires_grad = "float32", (64,), False

    def __init__(self, index=0):
        self.device = types.SimpleNamespace(type="cuda", index=index)
        self.memory = ctypes.c_size_t()
        assert driver.cuMemAlloc_v2(ctypes.byref(self.memory), ctypes.c_size_t(256)) == 0

    def data_ptr(self):
        return self.memory.value

    def is_contiguous(self):
        return True

def is_open():
    with open("/proc/self/maps") as file:
        return "libcuda" in file.read()

kernel = tilelang.compile(main)
a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
kernel(a, b)
print(target(kernel), bool((b == 2 * a).all()), is_open())
mx.device_count(mx.gpu)
driver = ctypes.CDLL("libcuda.so.1")
c, d = Tensor(), Tensor()
driver.cuMemcpyHtoDAsync_v2(c.memory, ctypes.c_void_p(a.ctypes.data), ctypes.c_size_t(256), None)
kernel(c, d)
b[:] = 0
driver.cuMemcpyDtoHAsync_v2(ctypes.c_void_p(b.ctypes.data), d.memory, ctypes.c_size_t(256), None)
driver.cuStreamSynchronize(None)
print(target(kernel), bool((b == 2 * a).all()))
for arguments in ((c, b), (a, d), (Tensor(1), d)):
    try:
        kernel(*arguments)
    except TileError as error:
        print(str(error).replace(" ", "_"))
"""
        mixed = "main:_the_arguments_are_on_different_devices:_'A'_is_on_%s,_'B'_is_on_%s;_copy_them_to_one,_or_compile_the_kernel_for_a_target"
        second = "main:_argument_'A'_is_on_the_device_'cuda:1';_kernels_follow_arguments_on_the_CPU_and_on_the_first_GPU,_'cuda'"
        self.assertEqual(self.words(script), ["c", "True", "False", "cuda", "True", mixed % ("cuda", "cpu"), mixed % ("cpu", "cuda"), second])

    def test_target(self):
        """A kernel for a target stays there, and refuses what it cannot read."""
        script = """
kernel = tilelang.compile(main, out_idx=-1, target="c")
x = mx.arange(64, dtype=mx.float32)
mx.eval(x)
print(bool((kernel(x) == 2 * x).all()), target(kernel))
"""
        self.assertEqual(self.words(script), ["True", "c"])


class OnTarget:
    target = device = None

    def setUp(self):
        reason = lacks(self.target)
        if reason:
            self.skipTest(reason)

    def random(self, *shape, dtype=None):
        return torch.randn(*shape, device=self.device).to(dtype or torch.float32)

    def check_both(self, program, sizes, grid, reference, rtol, atol):
        """By decorator and by compile(): as PyTorch, profiled, refused where the call is wrong."""
        made = (tilelang.jit(out_idx=[-1], target=self.target)(program)(*sizes),
                tilelang.compile(program(*sizes), out_idx=[-1], target=self.target))
        for kernel in made:
            profiler = kernel.get_profiler(tensor_supply_type=tilelang.TensorSupplyType.Normal)
            inputs = profiler._get_inputs()
            self.assertEqual({x.device.type for x in inputs}, {self.device})
            wanted = reference(*inputs)
            for given in (kernel(*inputs), profiler(*inputs), kernel[grid](*inputs)):
                self.assertEqual(given.device.type, self.device)
                torch.testing.assert_close(given.float(), wanted.float(), rtol=rtol, atol=atol)
            self.assertEqual(profiler.run_once().shape, wanted.shape)
            profiler.assert_allclose(reference, inputs, rtol=max(rtol, 1e-6), atol=max(atol, 1e-6))
            with self.assertRaisesRegex(AssertionError, "elements differ"):
                profiler.assert_allclose(lambda *x: reference(*x) + 1000, inputs)
            with self.assertRaisesRegex(tilelang.TileError, "is launched over"):
                kernel[(3, 5)](*inputs)
            self.check_refusals(kernel, inputs)
        slow, quick = profiler.do_bench(n_warmup=1, n_repeat=3, input_tensors=inputs, quantiles=[0.9, 0.1])
        self.assertGreaterEqual(slow, quick)
        self.assertGreater(quick, 0)
        self.assertGreater(profiler.do_bench(reference, n_warmup=1, n_repeat=3, input_tensors=inputs), 0)

    def check_refusals(self, kernel, inputs):
        first, name = inputs[0], kernel.params[0].name
        wrong = ((None, "is None"), (first.double(), "is float64"), (first[:-1], "has shape"), (first[0], "has 1 axis, "),
                 (first.repeat(1, 2)[:, ::2], "has strides"), (first.to("meta"), "is on the device 'meta'"), ([1.0], r"is \[1.0\]"))
        for value, why in wrong:
            with self.assertRaisesRegex(tilelang.TileError, f"argument '{name}' {why}"):
                kernel(value, *inputs[1:])
        with self.assertRaisesRegex(tilelang.TileError, "takes [12] argument"):
            kernel()
        with self.assertRaisesRegex(tilelang.TileError, "if it is to be filled, not"):
            kernel(*inputs, first, first)

    def test_reduce_max(self):
        self.check_both(reduce_max, (8192, 1020), 1024, lambda x: x.amax(1), 0, 0)

    def test_reduce_sum(self):
        self.check_both(reduce_sum, (8192, 8192), (2048,), lambda x: x.sum(1), 1e-4, 1e-2)

    def test_matmul(self):
        self.check_both(matmul, (200, 136, 96), (3, 4), lambda a, b: (a.float() @ b.float()).half(), 1e-2, 5e-2)

    def test_matmul_of_bfloat16(self):
        kernel = tilelang.compile(matmul_program(128, 128, 64, 64, 64, 32, "bfloat16"), out_idx=[2], target=self.target)
        a, b = self.random(128, 64, dtype=torch.bfloat16), self.random(64, 128, dtype=torch.bfloat16)
        torch.testing.assert_close(kernel(a, b).float(), a.float() @ b.float(), rtol=2e-2, atol=2e-1)
        self.assertIn("main", kernel.get_kernel_source())


class OnCPU(OnTarget, unittest.TestCase):
    target, device = "c", "cpu"


class OnOpenCL(OnTarget, unittest.TestCase):
    target, device = "opencl", "cpu"


class OnCuda(OnTarget, unittest.TestCase):
    target, device = "cuda", "cuda"


if __name__ == "__main__":
    unittest.main()
