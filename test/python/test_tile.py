"""zellige.tile: TileLang programs of both styles, run on arrays of NumPy, torch and zellige; what mistakes in them say."""

import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np

import zellige.tile as tile
import zellige.tile.language as T

try:
    import torch
except ImportError:
    torch = None

random = np.random.default_rng(11)


def normal(*shape, dtype="float32"):
    return random.standard_normal(shape).astype(dtype)


def close(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(actual, "float64"), np.asarray(expected, "float64"), tolerance, tolerance)


# Programs -------------------------------------------------------------------------------------------------------------


@tile.jit(out_idx=[-1])
def row_reduce(rows, columns, kind, block=4, dtype=T.float32):
    @T.prim_func
    def main(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows,), dtype)):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
            part = T.alloc_fragment((block, columns), dtype)
            out = T.alloc_fragment((block,), dtype)
            T.copy(X[bx * block, 0], part)
            if kind == "max":
                T.reduce_max(part, out, dim=1)
            elif kind == "absmax":
                T.reduce_absmax(part, out, dim=1)
            else:
                T.reduce_sum(part, out, dim=-1)
            T.copy(out, Y[bx * block])
    return main


@tile.jit(out_idx=[-1])
def matmul_relu(M, N, K, block_M=16, block_N=16, block_K=8, dtype=T.float16, transpose_B=False):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K) if transpose_B else (K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K) if transpose_B else (block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                if transpose_B:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=transpose_B, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = T.max(C_local[i, j], 0)
            T.copy(C_local, C[by * block_M, bx * block_N])
    return main


@tile.jit
def softmax(X, block=2, dtype=T.float32):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], dtype]
    Y = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(M, block), threads=64) as bx:
        part = T.alloc_fragment((block, N), dtype)
        most = T.alloc_fragment((block,), dtype)
        total = T.alloc_fragment((block, 1), dtype)
        T.copy(X[bx * block, 0], part)
        T.reduce_max(part, most, dim=1)
        for i, j in T.Parallel(block, N):
            part[i, j] = T.exp2((part[i, j] - most[i]) * 1.4426950408889634)
        T.reduce_sum(part, total, dim=1)
        for i, j in T.Parallel(block, N):
            row = bx * block + i
            if row < M:
                Y[row, j] = part[i, j] / total[i, 0]
    return Y


@tile.jit(out_idx=[3])
def attention(batch, heads, length, dim, causal, block_M=8, block_N=8):
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    shape, dtype = [batch, length, heads, dim], T.float32

    @T.macro
    def rescale(acc: T.FragmentBuffer([block_M, dim], dtype), by: T.FragmentBuffer([block_M], dtype)):
        for i, j in T.Parallel(block_M, dim):
            acc[i, j] *= by[i]

    @T.prim_func
    def main(Q: T.Tensor(shape, dtype), K: T.Tensor(shape, dtype), V: T.Tensor(shape, dtype), O: T.Tensor(shape, dtype)):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=128) as (bx, by, bz):
            q, k, v = (T.alloc_shared([n, dim], dtype) for n in (block_M, block_N, block_N))
            scores = T.alloc_fragment([block_M, block_N], dtype)
            acc = T.alloc_fragment([block_M, dim], dtype)
            most, before, factor, part, total = (T.alloc_fragment([block_M], dtype) for _ in range(5))
            T.copy(Q[bz, bx * block_M:(bx + 1) * block_M, by, :], q)
            T.fill(acc, 0)
            T.fill(total, 0)
            T.fill(most, -T.infinity(dtype))
            steps = T.min(T.ceildiv(length, block_N), T.ceildiv((bx + 1) * block_M, block_N)) if causal else T.ceildiv(length, block_N)
            for step in T.Pipelined(steps, num_stages=2):
                T.copy(K[bz, step * block_N:(step + 1) * block_N, by, :], k)
                for i, j in T.Parallel(block_M, block_N):
                    if causal:
                        scores[i, j] = T.if_then_else(bx * block_M + i >= step * block_N + j, 0, -T.infinity(dtype))
                    else:
                        scores[i, j] = T.if_then_else(step * block_N + j >= length, -T.infinity(dtype), 0)
                T.gemm(q, k, scores, transpose_B=True)
                T.copy(most, before)
                T.reduce_max(scores, most, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    factor[i] = T.exp2(before[i] * scale - most[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - most[i] * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * factor[i] + part[i]
                rescale(acc, factor)
                T.copy(V[bz, step * block_N:(step + 1) * block_N, by, :], v)
                T.gemm(scores, v, acc)
            for i, j in T.Parallel(block_M, dim):
                acc[i, j] /= total[i]
            T.copy(acc, O[bz, bx * block_M:(bx + 1) * block_M, by, :])
    return main


@tile.jit(out_idx=[1])
def collatz():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), T.int32), Steps: T.Tensor((n,), T.int32)):
        with T.Kernel(n, threads=1) as bx:
            x = T.alloc_var(T.int32, init=A[bx])
            steps = T.alloc_var("int32")
            while x > 1:
                if x % 2 == 0:
                    x = x // 2
                else:
                    x = x * 3 + 1
                steps += 1
                if steps >= 50:
                    break
            Steps[bx] = steps
    return main


@tile.jit(out_idx=[1, 2])
def odd_ones(n):
    @T.prim_func
    def main(A: T.Tensor((n,), T.int32), Y: T.Tensor((n,), T.int32), Count: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=32) as _:
            Count[0] = 0
            for i in range(n):
                Y[i] = -1
                if A[i] % 2 == 0 or not A[i] < 100:
                    continue
                Y[i] = A[i] if 10 < A[i] <= 50 else i
                T.atomic_add(Count[0], 1)
    return main


@tile.jit(out_idx=[-1])
def shuffled(n, m):
    @T.prim_func
    def main(A: T.Tensor((n, m), T.float32), scale: T.float32, B: T.Tensor((m, n), T.float32)):
        with T.Kernel(1, threads=32) as _:
            part = T.alloc_shared((n, m), T.float32)
            running = T.alloc_fragment((n, m), T.float32)
            T.copy(A, part)
            T.cumsum(part, running, dim=1, reverse=True)
            flat = T.reshape(running, (n * m,))
            for i in T.Parallel(n * m):
                B[i % m, i // m] = flat[i] * scale
    return main


@tile.jit(out_idx=[1, 2, 3])
def quantised(n, dtype):
    @T.prim_func
    def main(A: T.Tensor((n, n), T.float32), B: T.Tensor((n, n), dtype), C: T.Tensor((n, n), T.float32), Most: T.Tensor((n,), T.float32)):
        with T.Kernel(1, threads=32) as _:
            small = T.alloc_shared((n, n), dtype)
            acc = T.alloc_fragment((n, n), T.float32)
            T.copy(A, small)
            T.copy(small, B)
            T.gemm(small, small, acc, transpose_B=True, clear_accum=True)
            T.copy(acc, C)
            total = T.alloc_fragment((n,), T.float32)
            T.reduce_absmax(small, total, dim=1)
            T.copy(total, Most)
    return main


@tile.jit(out_idx=[-1])
def decoded(dtype):
    @T.prim_func
    def main(A: T.Tensor((256,), dtype), B: T.Tensor((256,), T.float32)):
        with T.Kernel(1, threads=32) as _:
            T.copy(A, B)
    return main


@tile.jit(out_idx=[-1])
def dot(n):
    @T.prim_func
    def main(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32), C: T.Tensor((1,), T.float32)):
        with T.Kernel(1, threads=32) as _:
            total = T.alloc_reducer((1,), T.float32, op="sum")
            T.clear(total)
            for i in T.Parallel(n):
                total[0] += A[i] * B[i]
            T.finalize_reducer(total)
            C[0] = total[0]
    return main


def expected_attention(q, k, v, causal):
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhqk,bkhd->bqhd", weights / weights.sum(-1, keepdims=True), v)


def steps_of(x):
    count = 0
    while x > 1 and count < 50:
        x, count = (x // 2 if x % 2 == 0 else x * 3 + 1), count + 1
    return count


class Programs(unittest.TestCase):
    def test_reductions(self):
        x = normal(10, 37)
        for kind, expected in (("max", x.max(1)), ("sum", x.sum(1)), ("absmax", np.abs(x).max(1))):
            close(row_reduce(10, 37, kind)(x), expected)

    def test_matmul(self):
        a, b = normal(40, 50, dtype="float16"), normal(50, 24, dtype="float16")
        expected = np.maximum(a.astype("float32") @ b.astype("float32"), 0)
        close(matmul_relu(40, 24, 50)(a, b), expected, 2e-3)
        turned = np.ascontiguousarray(b.T)
        close(matmul_relu(40, 24, 50, transpose_B=True)(a, turned), expected, 2e-3)

    def test_compile(self):
        program = matmul_relu.get_tir(16, 16, 16, dtype="float32")
        kernel = tile.compile(program, out_idx=[2], target="auto")
        a, b = normal(16, 16), normal(16, 16)
        close(kernel(a, b), np.maximum(a @ b, 0), 1e-4)
        close(kernel[1, 1](A=a, B=b), np.maximum(a @ b, 0), 1e-4)
        with self.assertRaisesRegex(tile.TileError, r"launched over \(1, 1\) blocks, not \(2, 1\)"):
            kernel[2, 1](a, b)

    def test_eager_softmax(self):
        x = normal(5, 30)
        e = np.exp(x - x.max(1, keepdims=True))
        close(softmax(x), e / e.sum(1, keepdims=True))
        self.assertEqual(len(softmax.kernels), 1)
        softmax(normal(5, 30))
        self.assertEqual(len(softmax.kernels), 1)
        softmax(normal(6, 30))
        self.assertEqual(len(softmax.kernels), 2)
        self.assertEqual([p.name for p in softmax.compile(M=3, N=4).params], ["X", "Y"])

    def test_attention(self):
        q, k, v = (normal(2, 20, 2, 8) for _ in range(3))
        for causal in (False, True):
            close(attention(2, 2, 20, 8, causal)(q, k, v), expected_attention(q, k, v, causal), 1e-4)

    def test_dynamic_shape(self):
        kernel = matmul_relu(T.dynamic("m"), 16, T.dynamic("k"), dtype=T.float32)
        for m, k in ((3, 9), (33, 16)):
            a, b = normal(m, k), normal(k, 16)
            close(kernel(a, b), np.maximum(a @ b, 0), 1e-4)
        with self.assertRaisesRegex(tile.TileError, "'B' has size 5 along axis 0, but k is 4 by another argument"):
            kernel(normal(3, 4), normal(5, 16))

    def test_control_flow(self):
        numbers = np.array([1, 2, 3, 7, 27, 97, 12, 60], "int32")
        close(collatz()(numbers), [steps_of(int(x)) for x in numbers])
        y, count = odd_ones(8)(np.array([3, 4, 11, 50, 51, 101, 49, 7], "int32"))
        close(y, [0, -1, 11, -1, 4, -1, 49, 7])
        self.assertEqual(count[0], 5)

    def test_views_scans_scalars(self):
        a = normal(3, 4)
        close(shuffled(3, 4)(a, 2.5), np.cumsum(a[:, ::-1], 1)[:, ::-1].T * 2.5)

    def test_reducer(self):
        a, b = normal(50), normal(50)
        close(dot(50)(a, b)[0], a @ b, 1e-4)
        self.assertIn("atomic add total[0]", dot(50).get_host_source())

    def test_floats_of_8_bits(self):
        if torch is None:
            self.skipTest("torch is not installed, which has the same casts")
        a = torch.randn(64, 64) * 2.0 ** torch.randint(-14, 8, (64, 64))
        a[0, :4] = torch.tensor([0.0, -0.0, 2.0 ** -9, float("nan")])
        a = a.clamp(-448, 448)
        for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
            small, product, most = quantised(64, dtype)(a)
            expected = a.to(dtype)
            self.assertTrue(torch.equal(small.view(torch.uint8), expected.view(torch.uint8)))
            rows = expected.float()[1:]
            self.assertTrue(torch.equal(most[1:], rows.abs().amax(1)))
            torch.testing.assert_close(product[1:, 1:], rows @ rows.T, rtol=1e-4, atol=1e-3)

    def test_all_codes_of_8_bits(self):
        if torch is None:
            self.skipTest("torch is not installed, which has the same casts")
        codes = torch.arange(256).to(torch.uint8)
        for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"):
            small = codes.view(getattr(torch, name))
            wide = decoded(name)(small)
            self.assertTrue(torch.equal(torch.nan_to_num(wide), torch.nan_to_num(small.float())), name)
            self.assertTrue(torch.equal(wide.isnan(), small.float().isnan()), name)

    def test_words_of_the_language(self):
        """Conversions, sizes without sign and im2col are statements of the kernel's text, not formulas."""
        text = quantised(64, "float8_e4m3fn").get_host_source()
        for words in ("shared small: e4m3[64, 64]", "copy A -> small", "gemm small, transpose small -> acc", "reduce absmax small -> total"):
            self.assertIn(words, text)

    def test_profiler(self):
        kernel = row_reduce(8, 16, "sum")
        profiler = kernel.get_profiler(tensor_supply_type=tile.TensorSupplyType.Integer)
        (x,) = profiler._get_inputs()
        self.assertEqual(tuple(x.shape), (8, 16))
        self.assertEqual(profiler.run_once().shape, profiler(x).shape)
        profiler.assert_allclose(lambda x: x.sum(1))
        with self.assertRaisesRegex(AssertionError, "elements differ"):
            profiler.assert_allclose(lambda x: x.sum(1) + 1)
        low, high = profiler.do_bench(warmup=1, rep=2, quantiles=[0.1, 0.9])
        self.assertTrue(0 < low <= high)

    def test_normal_inputs_are_around_minus_one(self):
        kernel = row_reduce(64, 64, "sum")
        for kind, mean in (("Normal", -1), ("Randn", 0)):
            (x,) = kernel.get_profiler(tensor_supply_type=tile.TensorSupplyType[kind])._get_inputs()
            self.assertAlmostEqual(float(x.mean()), mean, delta=0.2)

    def test_autotune(self):
        configs = [{"block": 2}, {"block": 4}, {"block": "no number"}]
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, ZL_CACHE_DIR=folder):
            kernel = tile.autotune(configs=configs, warmup=1, rep=1)(row_reduce)(8, 16, "max")
            self.assertIn(kernel.config["block"], (2, 4))
            x = normal(8, 16)
            close(kernel(x), x.max(1))
            again = tile.autotune(configs=lambda *sizes: configs, warmup=1, rep=1)(row_reduce)(8, 16, "max")
            self.assertEqual((again.latency, again.config), (kernel.latency, kernel.config))  # from the disk
        with self.assertRaisesRegex(tile.TileError, "(?s)no configuration runs.*no number"):
            tile.autotune(configs=configs[2:])(row_reduce)(8, 16, "max")

    def test_sources(self):
        kernel = row_reduce(8, 16, "sum")
        self.assertIn("reduce add part -> out axis 1", kernel.get_host_source())
        self.assertTrue(kernel.get_kernel_source())


class Arrays(unittest.TestCase):
    def test_torch(self):
        if torch is None:
            self.skipTest("torch is not installed")
        x = torch.randn(6, 9)
        result = row_reduce(6, 9, "max")(x)
        self.assertIsInstance(result, torch.Tensor)
        self.assertTrue(torch.equal(result, x.max(1).values))
        a, b = torch.randn(16, 8).bfloat16(), torch.randn(8, 16).bfloat16()
        result = matmul_relu(16, 16, 8, dtype=torch.bfloat16)(a, b)
        self.assertEqual(result.dtype, torch.bfloat16)
        torch.testing.assert_close(result, (a @ b).relu(), rtol=2e-2, atol=2e-2)

    def test_zellige(self):
        import zellige.core as mx
        x = normal(6, 9)
        result = row_reduce(6, 9, "max")(mx.array(x))
        self.assertIsInstance(result, mx.array)
        close(np.array(result), x.max(1))

    def test_written_in_place(self):
        kernel = tile.compile(row_reduce.get_tir(4, 8, "sum"))
        x, y = normal(4, 8), np.zeros(4, "float32")
        self.assertIsNone(kernel(x, y))
        close(y, x.sum(1))

    def test_refused(self):
        kernel = row_reduce(4, 8, "sum")
        x = normal(4, 8)
        for wrong, message in (
            ((), r"takes 1 argument \(X"),
            ((None,), "argument 'X' is None"),
            ((3,), "argument 'X' is 3"),
            ((x[0],), "argument 'X' has 1 axis, "),
            ((x[:2],), r"argument 'X' has shape \(2, 8\), 2 along axis 0"),
            ((x.astype("float64"),), "argument 'X' is float64; float32 is needed"),
            ((np.asfortranarray(x),), r"argument 'X' has strides \(1, 4\)"),
            ((x, np.zeros(4, "float32"), x), r"takes 1 argument \(X\), and Y if it is to be filled, not 3"),
            ((x, np.zeros(5, "float32")), r"argument .Y. has shape \(5,\)"),
        ):
            with self.assertRaisesRegex(tile.TileError, message):
                kernel(*wrong)


class Errors(unittest.TestCase):
    def fails(self, body, message, line):
        """The body of a kernel is refused with that message, at that line of it."""
        source = "import zellige.tile.language as T\n@T.prim_func\ndef main(A: T.Tensor((8, 8), 'float32'), B: T.Tensor((8, 8), 'float32')):\n" \
                 "    with T.Kernel(2, threads=32) as bx:\n" + "".join(f"        {text}\n" for text in body)
        import linecache
        name = f"<{self.id()}-{line}-{len(linecache.cache)}>"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        with self.assertRaises(tile.TileError) as caught:
            exec(compile(source, name, "exec"), {"__name__": name})
        text = str(caught.exception)
        self.assertIn(message, text)
        self.assertTrue(text.startswith(f"{name}:{line + 4}:"), text)
        self.assertTrue(text.split("\n")[2].strip() == "^", text)

    def test_places(self):
        self.fails(["T.cpoy(A, B)"], "T.cpoy is not known here; did you mean T.copy?", 1)
        self.fails(["x = 1", "B[0] [0] [1] = A[bx, 0, 0]"], "'A' has 2 axes and 3 indices", 2)
        self.fails(["s = T.alloc_shared((4, 8), 'float32')", "T.gemm(s, s, s)"], "T.gemm: K of A and B differ, 8 and 4", 2)
        self.fails(["s = T.alloc_shared((4, 8), 'float32')", "T.copy(A, s)"], "'A' [8, 8] and 's' [4, 8] differ in shape", 2)
        self.fails(["for i in T.Parallel(8):", "    B[i, A[i, i]] = 0"], "an index is T.float32, not an integer", 2)
        self.fails(["s = T.alloc_fragment((8,), 'float32')", "T.reduce_sum(A[bx:bx + 1, 0:4], s, dim=1)"], "does not fit 's' [8]", 2)
        self.fails(["x = bx / 2"], "use // (rounded down) for integers", 1)
        self.fails(["x = min(bx, 2)"], "Python cannot branch on it here", 1)
        self.fails(["T.tma_copy(A, B)"], "of one GPU generation", 1)

    def test_no_kernel(self):
        with self.assertRaisesRegex(tile.TileError, "while a kernel is traced"):
            T.alloc_shared((4,), "float32")

    def test_from_the_library(self):
        @T.prim_func
        def main(A: T.Tensor((8,), T.float32), B: T.Tensor((8,), T.float32)):
            with T.Kernel(1) as _:
                for i in T.Parallel(8):
                    B[i] = A[i]

        main.text = main.text.replace("= A[i]", "= A[i, i]")
        with self.assertRaisesRegex(tile.TileError, r"(?s)test_tile.py:\d+:\d+: .*B\[i\] = A\[i\]\n +\^\nwhich became, in main.tile"):
            tile.compile(main)


class Import(unittest.TestCase):
    def test_nothing_heavy(self):
        code = "import sys, zellige.tile.language; print([m for m in ('numpy', 'torch', 'zellige.core') if m in sys.modules])"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(done.stdout.strip(), "[]", done.stderr)


if __name__ == "__main__":
    unittest.main()
