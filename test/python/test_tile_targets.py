"""test_tile_targets.py - tile programs on every target that runs here: by decorator and by compile(), profiled, against PyTorch."""

import unittest

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


class OnTarget:
    target = device = None

    def setUp(self):
        reason = lacks(self.target)
        if reason:
            self.skipTest(reason)

    def random(self, *shape, dtype=None):
        return torch.randn(*shape, device=self.device).to(dtype or torch.float32)

    def test_reduce_max(self):
        kernel = tilelang.compile(reduce_rows("max", 8192, 1020, 8, 256), out_idx=[1], target=self.target)
        x = self.random(8192, 1020)
        torch.testing.assert_close(kernel(x), x.amax(1), rtol=0, atol=0)

    def test_reduce_sum(self):
        @tilelang.jit(out_idx=[1], target=self.target)
        def rows(m, n):
            return reduce_rows("sum", m, n, 4, 1024)
        x = self.random(8192, 8192)
        torch.testing.assert_close(rows(8192, 8192)(x), x.sum(1), rtol=1e-4, atol=1e-2)

    def test_matmul_by_decorator(self):
        @tilelang.jit(out_idx=[2], target=self.target)
        def matmul(m, n, k):
            return matmul_program(m, n, k, 64, 64, 32)
        a, b = self.random(200, 96, dtype=torch.float16), self.random(96, 136, dtype=torch.float16)
        torch.testing.assert_close(matmul(200, 136, 96)(a, b).float(), a.float() @ b.float(), rtol=1e-2, atol=5e-2)

    def test_matmul_by_compile(self):
        kernel = tilelang.compile(matmul_program(128, 128, 64, 64, 64, 32, "bfloat16"), out_idx=[2], target=self.target)
        a, b = self.random(128, 64, dtype=torch.bfloat16), self.random(64, 128, dtype=torch.bfloat16)
        torch.testing.assert_close(kernel(a, b).float(), a.float() @ b.float(), rtol=2e-2, atol=2e-1)
        self.assertIn("matmul" if "matmul" in kernel.get_kernel_source() else "main", kernel.get_kernel_source())

    def test_profiler(self):
        kernel = tilelang.compile(matmul_program(128, 128, 64, 64, 64, 32), out_idx=[2], target=self.target)
        profiler = kernel.get_profiler(tensor_supply_type=tilelang.TensorSupplyType.Normal)
        inputs = profiler._get_inputs()
        self.assertEqual([tuple(x.shape) for x in inputs], [(128, 64), (64, 128)])
        profiler.assert_allclose(lambda a, b: (a.float() @ b.float()).half(), rtol=1e-2, atol=5e-2)
        self.assertGreater(profiler.do_bench(warmup=1, rep=5), 0)


class OnOpenCL(OnTarget, unittest.TestCase):
    target, device = "opencl", "cpu"


class OnCuda(OnTarget, unittest.TestCase):
    target, device = "cuda", "cuda"


if __name__ == "__main__":
    unittest.main()
