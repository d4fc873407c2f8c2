"""test_tile_port.py - programs in the forms of TileLang's port for SophGo's chips, on every target that runs here, against PyTorch."""

import math
import os
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

try:
    import torch
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import zellige.core as mx
import zellige.tile as tilelang
import zellige.tile.language as T
from test_tile_targets import lacks
from zellige.tile import engine, native
from zellige.tile.errors import TileError

IS_LONG = bool(os.environ.get("ZL_LONG"))


# Programs ---------------------------------------------------------------------------------------------------------------


def rows_program(word, rows, columns, block):
    @T.prim_func
    def rows_main(X: T.Tensor((rows, columns), "float32"), Y: T.Tensor((rows, 1), "float32")):
        with T.Kernel(1, T.ceildiv(rows, block), is_cpu=True) as (_, by):
            tile = T.alloc_shared((block, columns), "float32")
            part = T.alloc_shared((block, 1), "float32")
            T.ppl_fill(part, T.float32(0))
            T.ppl_copy(X[by * block, 0], tile)
            word(tile, part, 1)
            T.ppl_copy(part, Y[by * block, 0])
    return rows_main


def reduce_max(rows, columns, block):
    return rows_program(T.ppl_reduce_max, rows, columns, block)


def reduce_sum(rows, columns, block):
    return rows_program(T.ppl_reduce_sum, rows, columns, block)


def matmul(M, N, K, block_M, block_N, block_K, dtype="float16", transposed=False):
    @T.prim_func
    def matmul_main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K) if transposed else (K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), is_cpu=True) as (bx, by):
            a = T.alloc_shared((block_M, block_K), dtype)
            b = T.alloc_shared((block_N, block_K) if transposed else (block_K, block_N), dtype)
            c = T.alloc_shared((block_M, block_N), "float32")
            rounded = T.alloc_shared((block_M, block_N), dtype)
            T.ppl_clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.ppl_copy(A[by * block_M, k * block_K], a)
                if transposed:
                    T.ppl_copy(B[bx * block_N, k * block_K], b)
                else:
                    T.ppl_copy(B[k * block_K, bx * block_N], b)
                T.ppl_gemm(a, b, c, transpose_B=transposed)
            T.ppl_copy(c, rounded)
            T.ppl_copy(rounded, C[by * block_M, bx * block_N])
    return matmul_main


def softmax(M, N, block):
    @T.prim_func
    def softmax_main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block), is_cpu=True) as (bx,):
            x = T.alloc_shared((block, N), "float32")
            part = T.alloc_shared((block, 1), "float32")
            work0, work1 = T.alloc_shared((block, N), "float32"), T.alloc_shared((block, N), "float32")
            coeff, table = T.alloc_shared((64, 32), "float32"), T.alloc_shared((64, 192), "float32")
            T.ppl_copy(X[bx * block, 0], x)
            T.ppl_reduce_max(x, part, dim=1)
            T.ppl_subtract(x, x, part)
            T.ppl_exp2(x, work0, work1, coeff, table)
            T.ppl_reduce_sum(x, part, dim=1)
            T.ppl_div(x, x, part)
            T.ppl_copy(x, Y[bx * block, 0])
    return softmax_main


def rms_norm(M, N, block, dtype="float16"):
    @T.prim_func
    def rms_norm_main(X: T.Tensor((M, N), dtype), W: T.Tensor((1, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block), is_cpu=True) as (bx,):
            x, w = T.alloc_shared((block, N), dtype), T.alloc_shared((1, N), dtype)
            wide, square = T.alloc_shared((block, N), "float32"), T.alloc_shared((block, N), "float32")
            part = T.alloc_shared((block, 1), "float32")
            T.copy(X[bx * block, 0], x)
            T.copy(W, w)
            T.copy(x, wide)
            T.mul(square, wide, wide)
            T.reduce_sum(square, part, dim=1)
            T.mul_C(part, part, T.float32(1 / N))
            T.add_C(part, part, 1e-6)
            T.rsqrt(part, part)
            T.mul(wide, wide, part)
            T.copy(wide, x)
            T.mul(x, x, w)
            T.copy(x, Y[bx * block, 0])
    return rms_norm_main


def gelu(M, N, block, dtype="float16"):
    """x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), which is the form with tanh."""
    @T.prim_func
    def gelu_main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), is_cpu=True) as (bx, by):
            x = T.alloc_shared((block, block), dtype)
            wide, inner = T.alloc_shared((block, block), "float32"), T.alloc_shared((block, block), "float32")
            T.ppl_copy(X[by * block, bx * block], x)
            T.ppl_copy(x, wide)
            T.ppl_mul(inner, wide, wide)
            T.ppl_mul_C(inner, inner, 0.044715)
            T.ppl_add_C(inner, inner, 1.0)
            T.ppl_mul(inner, inner, wide)
            T.ppl_mul_C(inner, inner, 2 * math.sqrt(2 / math.pi))
            T.ppl_sigmoid(inner, inner)
            T.ppl_mul(wide, wide, inner)
            T.ppl_copy(wide, x)
            T.ppl_copy(x, Y[by * block, bx * block])
    return gelu_main


def attention(batch, heads, length, dim, is_causal, block_M=16, block_N=16):
    shape, scale = (batch, length, heads, dim), dim ** -0.5

    @T.macro
    def weigh(scores, wide, most, before, factor, part, total):
        """The scores of a block as weights, and the factor of what was summed before it."""
        T.copy(most, before)
        T.ppl_reduce_max(scores, most, dim=1, clear=False)
        T.ppl_subtract(factor, before, most)
        T.ppl_exp2(factor)
        T.ppl_subtract(scores, scores, most)
        T.ppl_exp2(scores)
        T.ppl_reduce_sum(scores, part, dim=1)
        T.ppl_mul(total, total, factor)
        T.ppl_add(total, total, part)
        T.ppl_mul(wide, wide, factor)

    @T.prim_func
    def attention_main(Q: T.Tensor(shape, "float16"), K: T.Tensor(shape, "float16"), V: T.Tensor(shape, "float16"),
                       O: T.Tensor(shape, "float16")):  # noqa: E741
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, is_cpu=True) as (bx, by, bz):
            q, out = T.alloc_shared((block_M, dim), "float16"), T.alloc_shared((block_M, dim), "float16")
            k, v = T.alloc_shared((block_N, dim), "float16"), T.alloc_shared((block_N, dim), "float16")
            scores, weights = T.alloc_shared((block_M, block_N), "float32"), T.alloc_shared((block_M, block_N), "float16")
            wide = T.alloc_shared((block_M, dim), "float32")
            most, before = T.alloc_shared((block_M, 1), "float32"), T.alloc_shared((block_M, 1), "float32")
            factor, part = T.alloc_shared((block_M, 1), "float32"), T.alloc_shared((block_M, 1), "float32")
            total = T.alloc_shared((block_M, 1), "float32")
            T.ppl_copy(Q[bz, bx * block_M:(bx + 1) * block_M, by, :], q)
            T.ppl_fill(wide, T.float32(0))
            T.ppl_fill(total, T.float32(0))
            T.ppl_fill(most, -T.infinity("float32"))
            blocks = T.ceildiv((bx + 1) * block_M, block_N) if is_causal else T.ceildiv(length, block_N)
            for n in T.Pipelined(blocks, num_stages=2):
                T.ppl_copy(K[bz, n * block_N:(n + 1) * block_N, by, :], k)
                T.ppl_clear(scores)
                T.ppl_gemm(q, k, scores, transpose_B=True)
                T.ppl_mul_C(scores, scores, scale)
                if is_causal:
                    for i, j in T.Parallel(block_M, block_N):
                        scores[i, j] = T.if_then_else(bx * block_M + i >= n * block_N + j, scores[i, j], -T.infinity("float32"))
                weigh(scores, wide, most, before, factor, part, total)
                T.ppl_copy(scores, weights)
                T.ppl_copy(V[bz, n * block_N:(n + 1) * block_N, by, :], v)
                T.ppl_gemm(weights, v, wide)
            T.ppl_div(wide, wide, total)
            T.ppl_copy(wide, out)
            T.ppl_copy(out, O[bz, bx * block_M:(bx + 1) * block_M, by, :])
    return attention_main


def linear_attention(heads, length, dim, chunk):
    """O = tril(Q K^T) V by chunks, with the state of the chunks before."""
    shape = (heads, length, dim)

    @T.prim_func
    def linear_main(Q: T.Tensor(shape, "float16"), K: T.Tensor(shape, "float16"), V: T.Tensor(shape, "float16"),
                    O: T.Tensor(shape, "float16")):  # noqa: E741
        with T.Kernel(heads, is_cpu=True) as (bx,):
            q, k, v = (T.alloc_shared((chunk, dim), "float16") for _ in range(3))
            scores, weights = T.alloc_shared((chunk, chunk), "float32"), T.alloc_shared((chunk, chunk), "float16")
            state, rounded = T.alloc_shared((dim, dim), "float32"), T.alloc_shared((dim, dim), "float16")
            wide, out = T.alloc_shared((chunk, dim), "float32"), T.alloc_shared((chunk, dim), "float16")
            T.ppl_clear(state)
            for n in T.serial(length // chunk):
                T.ppl_copy(Q[bx, n * chunk:(n + 1) * chunk, :], q)
                T.ppl_copy(K[bx, n * chunk:(n + 1) * chunk, :], k)
                T.ppl_copy(V[bx, n * chunk:(n + 1) * chunk, :], v)
                T.ppl_gemm(q, k, scores, transpose_B=True, accumulate=False)
                for i, j in T.Parallel(chunk, chunk):
                    scores[i, j] = T.if_then_else(i >= j, scores[i, j], 0)
                T.ppl_copy(scores, weights)
                T.ppl_copy(state, rounded)
                T.ppl_gemm(weights, v, wide, accumulate=False)
                T.ppl_gemm(q, rounded, wide, accumulate=True)
                T.ppl_gemm(k, v, state, transpose_A=True)
                T.ppl_copy(wide, out)
                T.ppl_copy(out, O[bx, n * chunk:(n + 1) * chunk, :])
    return linear_main


def gelu_reference(x):
    return torch.nn.functional.gelu(x.float(), approximate="tanh").to(x.dtype)


def rms_norm_reference(x, w):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + 1e-6)).to(x.dtype) * w


def attention_reference(is_causal):
    def reference(*inputs):
        q, k, v = (x.float().transpose(1, 2) for x in inputs)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal).transpose(1, 2).half()
    return reference


def linear_reference(q, k, v):
    return ((q.float() @ k.float().mT).tril() @ v.float()).half()


# Words: of two tiles, of a tile and a number, of one tile ------------------------------------------------------------------

BINARY = [(T.ppl_add, torch.add), (T.ppl_subtract, torch.sub), (T.ppl_mul, torch.mul), (T.ppl_div, torch.div),
          (T.ppl_max, torch.maximum), (T.ppl_min, torch.minimum), (T.add, torch.add), (T.subtract, torch.sub), (T.mul, torch.mul),
          (T.div, torch.div), (T.max, torch.maximum), (T.min, torch.minimum)]
WITH_NUMBER = [(T.ppl_add_C, torch.add), (T.ppl_sub_C, torch.sub), (T.ppl_mul_C, torch.mul), (T.ppl_div_C, torch.div),
               (T.ppl_max_C, lambda x, c: x.clamp(min=c)), (T.ppl_min_C, lambda x, c: x.clamp(max=c)), (T.add_C, torch.add)]
UNARY = [(T.ppl_rsqrt, torch.rsqrt), (T.rsqrt, torch.rsqrt), (T.ppl_sqrt, torch.sqrt), (T.ppl_sigmoid, torch.sigmoid),
         (T.sigmoid, torch.sigmoid), (T.ppl_silu, torch.nn.functional.silu), (T.silu, torch.nn.functional.silu)]
IN_PLACE = [(T.ppl_exp2, torch.exp), (T.ppl_exp, torch.exp), (T.exp, torch.exp), (T.ppl_exp_compute, torch.exp)]


def words_program(words, arity, dtype, other=(8, 16)):
    """Y[n] = words[n] of A and B, each a tile (8, 16)."""
    @T.prim_func
    def words_main(A: T.Tensor((8, 16), dtype), B: T.Tensor(other, dtype), Y: T.Tensor((len(words), 8, 16), dtype)):
        with T.Kernel(1, is_cpu=True) as _:
            a, b, y = T.alloc_shared((8, 16), dtype), T.alloc_shared(other, dtype), T.alloc_shared((8, 16), dtype)
            T.ppl_copy(A, a)
            T.ppl_copy(B, b)
            for at, word in enumerate(words):
                if arity == "in place":
                    T.ppl_copy(a, y)
                    word(y)
                else:
                    word(y, a, *{"two": [b], "number": [T.float32(0.75)], "one": []}[arity])
                T.ppl_copy(y, Y[at, 0, 0])
    return words_main


def layer_program(word, rows, columns, dtype):
    """Y = word(X, W), of whole tiles."""
    @T.prim_func
    def layer_main(X: T.Tensor((rows, columns), dtype), W: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
        with T.Kernel(1, is_cpu=True) as _:
            x, w, y = (T.alloc_shared((rows, columns), dtype) for _ in range(3))
            T.ppl_copy(X, x)
            T.ppl_copy(W, w)
            word(y, x, w)
            T.ppl_copy(y, Y)
    return layer_main


class OnTarget:
    target, block = None, 512  # rows of a block, of the port's sizes

    def setUp(self):
        reason = lacks(native.our_name(self.target))
        if reason:
            self.skipTest(reason)
        torch.manual_seed(1)

    def check(self, kernel, reference, inputs, rtol=1e-2, atol=1e-2, singles=0):
        """Every form of a call gives what PyTorch computes, in the array that was passed, if one was. A chip's control program reads no
        element itself, but for so many."""
        wanted = reference(*inputs)
        out = kernel.params[-1].name
        named = {p.name: x for p, x in zip(kernel.params, inputs)}
        profiler = kernel.get_profiler()
        forms = (lambda y: kernel(*inputs, y), lambda y: kernel[(1,)](*inputs, y), lambda y: kernel[1](*inputs, **{out: y}),
                 lambda y: kernel(**named, **{out: y}), lambda y: profiler(*inputs, y))
        for form in forms:
            given = torch.full_like(wanted, 7)
            self.assertIs(form(given), given)
            torch.testing.assert_close(given.float(), wanted.float(), rtol=rtol, atol=atol)
        for made in kernel(*inputs), kernel[(1,)](*inputs), kernel(**named), kernel(*inputs, None):
            torch.testing.assert_close(made.float(), wanted.float(), rtol=rtol, atol=atol)
        if engine.is_modelled(kernel.target):
            self.assertEqual(kernel.report(*inputs)["scalars"], singles)

    def compiled(self, program):
        return tilelang.compile(program, out_idx=-1, target=self.target, execution_backend="cython", mode="cmodel", verbose=False)

    def test_reduce_max(self):
        rows = 8192 if IS_LONG else 1024
        kernel = tilelang.jit(out_idx=[-1], target=self.target)(reduce_max)(rows, 1020, self.block)
        self.check(kernel, lambda x: x.amax(1, keepdim=True), [torch.randn(rows, 1020)], 0, 0)

    def test_reduce_max_by_decorator(self):
        @tilelang.jit(out_idx=-1, target=self.target)
        @T.prim_func
        def largest(X: T.Tensor((64, 100), "float32"), Y: T.Tensor((64, 1), "float32")):
            with T.Kernel(4, is_cpu=True) as (bx,):
                tile, part = T.alloc_shared((16, 100), "float32"), T.alloc_shared((16, 1), "float32")
                T.ppl_copy(X[bx * 16, 0], tile)
                T.ppl_reduce_max(tile, part, 1, True)
                T.ppl_copy(part, Y[bx * 16, 0])
        self.check(largest, lambda x: x.amax(1, keepdim=True), [torch.randn(64, 100)], 0, 0)

    def test_eager(self):
        @tilelang.jit(out_idx=[-1], target=self.target)
        def largest(X, Y, block=8):
            M, N = T.const("M, N")
            X: T.Tensor[[M, N], T.float32]  # noqa: F821
            Y: T.Tensor[[M, 1], T.float32]  # noqa: F821
            with T.Kernel(T.ceildiv(M, block), is_cpu=True) as bx:
                tile, part = T.alloc_shared((block, N), "float32"), T.alloc_shared((block, 1), "float32")
                T.ppl_copy(X[bx * block, 0], tile)
                T.ppl_reduce_max(tile, part, 1)
                T.ppl_copy(part, Y[bx * block, 0])
        x, y = torch.randn(32, 20), torch.zeros(32, 1)
        wanted = x.amax(1, keepdim=True)
        self.assertIs(largest[(1,)](x, y), y)
        for given in y, largest(x), largest[4](x), largest[(1,)](x), largest(x, torch.zeros(32, 1)):
            torch.testing.assert_close(given, wanted, rtol=0, atol=0)
        with self.assertRaisesRegex(TileError, r"launched over \(4,\) blocks, not \(3,\)"):
            largest[3](x)
        with self.assertRaisesRegex(TileError, "reduce_max makes kernels"):
            tilelang.jit(reduce_max)[(1,)](64, 64, 16)

    def test_reduce_sum(self):
        rows, columns = (8192, 8192) if IS_LONG else (1024, 1024)
        kernel = self.compiled(reduce_sum(rows, columns, self.block))
        self.check(kernel, lambda x: x.sum(1, keepdim=True), [torch.randn(rows, columns)], 1e-4, 1e-2)

    def test_matmul(self):
        for dtype, transposed in (("float16", False), ("float16", True), ("bfloat16", False), ("float32", False)):
            kernel = self.compiled(matmul(96, 64, 80, 32, 32, 16, dtype, transposed))
            a, b = (torch.randn(*s).to(getattr(torch, dtype)) for s in ((96, 80), (64, 80) if transposed else (80, 64)))
            self.check(kernel, lambda a, b: (a.float() @ (b.float().T if transposed else b.float())).to(a.dtype), [a, b], 2e-2, 5e-2)

    def test_softmax(self):
        self.check(self.compiled(softmax(48, 100, 16)), lambda x: torch.softmax(x, 1), [torch.randn(48, 100)], 1e-4, 1e-6)

    def test_rms_norm(self):
        inputs = [torch.randn(40, 96).half(), torch.randn(1, 96).half()]
        self.check(self.compiled(rms_norm(40, 96, 16)), rms_norm_reference, inputs)

    def test_gelu(self):
        self.check(self.compiled(gelu(40, 72, 32)), gelu_reference, [torch.randn(40, 72).half()], 2e-3, 2e-3)

    def test_attention(self):
        inputs = [torch.randn(2, 48, 2, 32).half() for _ in range(3)]
        for is_causal in False, True:
            self.check(self.compiled(attention(2, 2, 48, 32, is_causal)), attention_reference(is_causal), inputs)

    def test_linear_attention(self):
        inputs = [torch.randn(2, 64, 16).half() / 4 for _ in range(3)]
        self.check(self.compiled(linear_attention(2, 64, 16, 16)), linear_reference, inputs)

    def test_words(self):
        a, b = torch.rand(8, 16) + 0.5, torch.rand(8, 16) + 0.5
        for dtype, rtol in (("float32", 1e-5), ("float16", 4e-3)):
            x, y, column = (t.to(getattr(torch, dtype)) for t in (a, b, b[:, :1].contiguous()))
            for rows, arity, other in ((BINARY, "two", y), (BINARY, "two", column), (WITH_NUMBER, "number", y), (UNARY, "one", y),
                                       (IN_PLACE, "in place", y)):
                kernel = self.compiled(words_program([word for word, _ in rows], arity, dtype, tuple(other.shape)))
                more = {"two": [other], "number": [0.75]}.get(arity, [])
                for got, (word, formula) in zip(kernel(x, other), rows):
                    torch.testing.assert_close(got, formula(x, *more), rtol=rtol, atol=rtol, msg=lambda m, w=word: f"{w.__name__}: {m}")

    def test_rows_by_number(self):
        @T.prim_func
        def rows_main(Table: T.Tensor((12, 5), "float32"), Index: T.Tensor((4, 1), "int32"), Y: T.Tensor((4, 5), "float32"),
                      Z: T.Tensor((12, 5), "float32")):
            with T.Kernel(1, 1, is_cpu=True) as (bx, by):
                T.ppl_gather(Y, Table, Index, 12)
                T.ppl_scatter(Z, Y, Index, 4)
        kernel = tilelang.compile(rows_main, out_idx=[2, 3], target=self.target)
        table, index = torch.randn(12, 5), torch.tensor([[3], [0], [11], [7]], dtype=torch.int32)
        y, z = torch.zeros(4, 5), torch.zeros(12, 5)
        given = kernel(table, index, y, z)
        self.assertTrue(given[0] is y and given[1] is z)
        rows = index[:, 0].long()
        torch.testing.assert_close(y, table[rows], rtol=0, atol=0)
        torch.testing.assert_close(z[rows], table[rows], rtol=0, atol=0)
        self.assertEqual(int((z != 0).any(1).sum()), 4)

    def test_blocks_by_number(self):
        @T.prim_func
        def pages_main(Table: T.Tensor((12, 5), "float32"), Pages: T.Tensor((2, 1), "uint32"), Y: T.Tensor((6, 5), "float32")):
            with T.Kernel(1, 1, is_cpu=True) as (bx, by):
                T.ppl_gather_block(Y, Table, Pages, 4, 2, 3 * 5)
        table = torch.randn(12, 5)
        self.check(self.compiled(pages_main), lambda t, p: torch.cat([t[9:12], t[3:6]]),
                   [table, torch.tensor([[3], [1]], dtype=torch.uint32)], 0, 0, singles=6)  # the number of each of 6 rows

    def test_topk(self):
        def program(descends):
            @T.prim_func
            def topk_main(X: T.Tensor((16,), "float32"), V: T.Tensor((4,), "float32"), I: T.Tensor((4,), "int32")):  # noqa: E741
                with T.Kernel(1, is_cpu=True) as _:
                    T.ppl_topk(V, I, X, 4, descends, 16)
            return topk_main
        x = torch.randn(16)
        for descends in True, False:
            values, indices = tilelang.compile(program(descends), out_idx=[1, 2], target=self.target)(x)
            wanted = torch.topk(x, 4, largest=descends)
            torch.testing.assert_close(values, wanted.values, rtol=0, atol=0)
            self.assertEqual(indices.tolist(), wanted.indices.tolist())

    def test_rope(self):
        @T.prim_func
        def rope_main(X: T.Tensor((8, 16), "float32"), C: T.Tensor((8, 16), "float32"), S: T.Tensor((8, 16), "float32"),
                      Y: T.Tensor((8, 16), "float32")):
            with T.Kernel(2, is_cpu=True) as (bx,):
                x, c, s, negative = (T.alloc_shared((4, 16), "float32") for _ in range(4))
                T.ppl_copy(X[bx * 4, 0], x)
                T.ppl_copy(C[bx * 4, 0], c)
                T.ppl_copy(S[bx * 4, 0], s)
                T.ppl_mul(c, x, c)
                T.ppl_mul(s, x, s)
                T.ppl_mul_C(negative, s, -1.0)
                T.ppl_rope_add(s, c, negative, c, s)  # also where the result is one of the terms
                T.ppl_copy(s, Y[bx * 4, 0])
        x, angle = torch.randn(8, 16), torch.randn(8, 8).repeat_interleave(2, 1)
        turned = torch.stack([-x[:, 1::2], x[:, ::2]], 2).reshape(8, 16)
        self.check(self.compiled(rope_main), lambda x, c, s: x * c + turned * s, [x, angle.cos(), angle.sin()], 1e-5, 1e-5)

    def test_layers(self):
        """Words for layers of language models, in three dtypes, as the formulas that round between their steps."""
        silu = torch.nn.functional.silu
        for dtype, rtol in ((torch.float32, 1e-5), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)):
            x, w = torch.randn(5, 24).to(dtype), torch.randn(5, 24).to(dtype)
            x[:, 20:] = -30
            norm = (x.float() * torch.rsqrt(x.float().square().mean(1, keepdim=True) + 1e-5)).to(dtype) * w
            layers = ((T.ppl_rmsnorm, norm), (lambda y, x, w: T.ppl_softmax(y, x), x.float().softmax(1).to(dtype)),
                      (lambda y, x, w: T.ppl_silu(y, x), silu(x.float()).to(dtype)), (T.ppl_swiglu, silu(x.float()).to(dtype) * w))
            for word, wanted in layers:
                kernel = self.compiled(layer_program(word, 5, 24, str(dtype).split(".")[1]))
                torch.testing.assert_close(kernel(x, w), wanted, rtol=rtol, atol=rtol)

    def test_rope_by_angles(self):
        @T.prim_func
        def rope_main(X: T.Tensor((5, 16), "float16"), C: T.Tensor((5, 8), "float32"), S: T.Tensor((5, 8), "float32"),
                      Y: T.Tensor((5, 16), "float16")):
            with T.Kernel(1, is_cpu=True) as _:
                x, c, s = T.alloc_shared((5, 16), "float16"), T.alloc_shared((5, 8), "float32"), T.alloc_shared((5, 8), "float32")
                T.ppl_copy(X, x)
                T.ppl_copy(C, c)
                T.ppl_copy(S, s)
                T.ppl_rope(x, x, c, s)
                T.ppl_copy(x, Y)

        def reference(x, c, s):
            return torch.view_as_real(torch.view_as_complex(x.float().reshape(5, 8, 2)) * torch.complex(c, s)).reshape(5, 16).half()
        angle = torch.randn(5, 8)
        self.check(self.compiled(rope_main), reference, [torch.randn(5, 16).half(), angle.cos(), angle.sin()], 1e-3, 1e-3)

    def test_moves(self):
        @T.prim_func
        def moves_main(X: T.Tensor((5, 8), "float16"), Turned: T.Tensor((8, 5), "float16"), Mask: T.Tensor((5, 7), "float16"),
                       Cache: T.Tensor((9, 8), "float16"), Heads: T.Tensor((5, 24), "float16")):
            with T.Kernel(1, is_cpu=True) as _:
                T.ppl_transpose(Turned, X)
                T.ppl_causal_mask(Mask, 2)
                T.ppl_kv_cache_update(Cache, X, 3)
                T.ppl_repeat_kv(Heads, X, 3, 4)
        x, cache = torch.randn(5, 8).half(), torch.zeros(9, 8).half()
        kernel = tilelang.compile(moves_main, out_idx=[1, 2, 3, 4], target=self.target)
        turned, mask, filled, heads = kernel(x, Cache=cache)
        self.assertIs(filled, cache)
        wanted = torch.full((5, 7), float("-inf")).triu(3).half()
        for got, expected in ((turned, x.T), (mask, wanted), (cache, torch.cat([torch.zeros(3, 8), x, torch.zeros(1, 8)]).half()),
                              (heads, x.reshape(5, 2, 4).repeat_interleave(3, 1).reshape(5, 24))):
            torch.testing.assert_close(got, expected.contiguous(), rtol=0, atol=0)

    def test_dequantised(self):
        """Numbers of 4 bits whose groups begin in the middle of a byte."""
        def program(first):
            @T.prim_func
            def dequant_main(W: T.Tensor((6, 16), "uint8"), Z: T.Tensor((6, 2), "uint8"), S: T.Tensor((6, 2), "float16"),
                             Y: T.Tensor((6, 32), "float16")):
                with T.Kernel(1, is_cpu=True) as _:
                    w, z = T.alloc_shared((6, 16), "uint8"), T.alloc_shared((6, 2), "uint8")
                    s, y, work = (T.alloc_shared(shape, "float16") for shape in ((6, 2), (6, 32), (6, 2)))
                    T.ppl_copy(W, w)
                    T.ppl_copy(Z, z)
                    T.ppl_copy(S, s)
                    T.ppl_dequant_gptq(y, w, z, s, work, group_size=16, weight_bits=4, group_offset=first)
                    T.ppl_copy(y, Y)
            return dequant_main
        w, z = (torch.randint(0, 256, (6, n), dtype=torch.uint8) for n in (16, 2))
        s = torch.rand(6, 2).half()
        unpack = lambda x: torch.stack([x & 15, x >> 4], 2).reshape(6, -1).half()  # noqa: E731
        for first in 2, 3:
            zeros = unpack(z)[:, first % 2:][:, :2].repeat_interleave(16, 1)
            self.check(self.compiled(program(first)), lambda w, z, s: (unpack(w) - zeros) * s.repeat_interleave(16, 1), [w, z, s], 0, 0)

    def test_scaled_weights(self):
        """Weights of 8 bits with one scale, which is repeated over the rows of a tile."""
        @T.prim_func
        def scaled_main(X: T.Tensor((32, 16), "bfloat16"), W: T.Tensor((16, 16), "e4m3_float8"), S: T.Tensor((1, 1), "bfloat16"),
                        Y: T.Tensor((32, 16), "bfloat16")):
            with T.Kernel(1, 1, is_cpu=True) as (bx, _):
                w, wide, scaled = (T.alloc_shared((16, 16), dtype) for dtype in ("e4m3_float8", "bfloat16", "bfloat16"))
                scale, scales = T.alloc_shared((1, 1), "bfloat16"), T.alloc_shared((16, 1), "bfloat16")
                x, y, rounded = (T.alloc_shared((16, 16), dtype) for dtype in ("bfloat16", "float32", "bfloat16"))
                T.ppl_copy(W[bx * 16, 0], w)
                T.ppl_copy(w, wide)
                T.ppl_copy(S[0, 0], scale)
                T.ppl_npu_bcast(scales, scale)
                T.ppl_mul(scaled, wide, scales)
                for m in T.serial(2, annotations={"tilelang.tpu_core_parallel": True}):
                    T.ppl_copy(X[m * 16, 0], x)
                    T.ppl_gemm(x, scaled, y, transpose_B=True, add_result=False)
                    T.ppl_copy(y, rounded)
                    T.ppl_copy(rounded, Y[m * 16, bx * 16])

        def reference(x, w, s):
            return (x.float() @ (w.to(torch.bfloat16) * s).float().T).bfloat16()
        inputs = [torch.randn(32, 16).bfloat16(), torch.randn(16, 16).to(torch.float8_e4m3fn), torch.rand(1, 1).bfloat16()]
        self.check(self.compiled(scaled_main), reference, inputs, 1e-2, 1e-2)

    def test_product_that_nothing_began(self):
        """C of the port's product with transposed B need not be cleared: it overwrites."""
        @T.prim_func
        def sums_main(A: T.Tensor((16, 64), "float16"), B: T.Tensor((16, 64), "float16"), C: T.Tensor((16, 16), "float32")):
            with T.Kernel(1, is_cpu=True) as _:
                a, b = T.alloc_shared((16, 16), "float16"), T.alloc_shared((16, 16), "float16")
                part, total = T.alloc_shared((16, 16), "float32"), T.alloc_shared((16, 16), "float32")
                T.ppl_fill(total, 0)
                for k in T.serial(4):
                    T.ppl_copy(A[0, k * 16], a)
                    T.ppl_copy(B[0, k * 16], b)
                    T.ppl_gemm(a, b, part, transpose_B=True)
                    T.ppl_add(total, total, part)
                    T.ppl_gemm(b, a, part, transpose_B=True)
                    T.ppl_add(total, total, part)
                    T.ppl_copy(total, part)  # for the next turn another value
                T.ppl_gemm(b, a, part, transpose_B=True)  # C has one: it adds
                T.ppl_subtract(total, total, part)
                T.ppl_copy(total, C)

        def reference(a, b):
            a, b = a.float(), b.float()
            return -b[:, 48:] @ a[:, 48:].T
        inputs = [torch.randn(16, 64).half() for _ in range(2)]
        self.check(self.compiled(sums_main), reference, inputs, 1e-3, 1e-2)

    def test_profiler(self):
        """Every supply type and every method."""
        program = matmul(64, 64, 32, 32, 32, 16)
        kernel = self.compiled(program)
        reference = lambda a, b: (a.float() @ b.float()).half()  # noqa: E731
        for kind in tilelang.TensorSupplyType:
            profiler = kernel.get_profiler(tensor_supply_type=kind)
            inputs = profiler._get_inputs()
            self.assertEqual([(tuple(x.shape), x.dtype) for x in inputs], [((64, 32), torch.float16), ((32, 64), torch.float16)])
            expected = {tilelang.TensorSupplyType.Zero: 0, tilelang.TensorSupplyType.One: 1}.get(kind)
            self.assertTrue(all(bool(((x == expected) if expected is not None else x != x[0, 0]).any()) for x in inputs))
            profiler.assert_allclose(reference, inputs)
            profiler.assert_allclose(reference)
        self.assertEqual(len(profiler._get_inputs(with_output=True)), 3)
        self.assertEqual(kernel(*profiler._get_inputs(with_output=True)).shape, (64, 64))
        self.assertEqual(profiler.run_once().shape, (64, 64))
        profiler.assert_consistent(repeat=2)
        self.assertGreater(profiler.do_bench(n_warmup=1, n_repeat=2), 0)
        self.assertGreater(profiler.do_bench(reference, n_warmup=1, n_repeat=2, input_tensors=inputs), 0)
        self.assertEqual(len(profiler.do_bench(n_warmup=1, n_repeat=2, quantiles=[0.2, 0.8])), 2)

    def test_sources(self):
        program = matmul(64, 64, 32, 32, 32, 16)
        kernel, lowered = self.compiled(program), tilelang.lower(program, target=self.target)
        self.assertIsInstance(lowered, str)
        self.assertEqual(lowered, kernel.get_kernel_source())
        self.assertEqual(lowered.kernel_source, kernel.kernel_source)
        self.assertEqual([p.name for p in lowered.params], ["A", "B", "C"])
        self.assertIn("matmul_main", lowered)
        if native.our_name(self.target) == "bm1690":
            self.assertIn("matmul_main_kernel", kernel.get_host_source())
            self.assertEqual(kernel.host_source, kernel.get_host_source())
        else:
            self.assertEqual(kernel.host_source, str(program))

    def test_next_process_compiles_nothing(self):
        source = f"""
import ctypes
import test_tile_port as programs
import zellige.core
import zellige.tile as tilelang
for program in (programs.softmax(32, 32, 16), programs.matmul(64, 64, 32, 32, 32, 16)):
    tilelang.compile(program, out_idx=-1, target={self.target!r}, mode="cmodel").run_once()
counter = ctypes.CDLL(zellige.core.__file__).zl_counter
counter.restype = ctypes.c_int64
print(counter(b"compiles"))
"""
        with tempfile.TemporaryDirectory() as folder:
            where = {**os.environ, "ZL_CACHE_DIR": folder, "PYTHONPATH": os.pathsep.join(sys.path)}
            done = [subprocess.run([sys.executable, "-c", source], env=where, capture_output=True, text=True) for _ in range(2)]
        self.assertEqual([d.stderr for d in done], ["", ""])
        first, second = (int(d.stdout) for d in done)
        self.assertGreater(first, 0)
        self.assertEqual(second, 0)


class OnCPU(OnTarget, unittest.TestCase):
    target = "cpu"


class OnOpenCL(OnTarget, unittest.TestCase):
    target, block = "opencl", 16  # a group has no memory for more


class OnTPU(OnTarget, unittest.TestCase):
    target = "tpu"


class Refusals(unittest.TestCase):
    """What a program or a call has wrong is told by name."""

    def test_tiles_that_do_not_fit(self):
        with self.assertRaisesRegex(TileError, r"T.ppl_add: 'b' \[16, 8\] does not fit 'y' \[8, 16\]"):
            words_program([T.ppl_add], "two", "float32", (16, 8))

    def test_rows_and_pairs(self):
        def program(word):
            @T.prim_func
            def wrong_main(A: T.Tensor((6, 5), "float32"), I: T.Tensor((2, 1), "int32"), Y: T.Tensor((4, 4), "float32")):  # noqa: E741
                with T.Kernel(1, is_cpu=True) as _:
                    word(A, I, Y)
        for word, why in ((lambda a, i, y: T.ppl_gather(y, a, i), "T.ppl_gather is of rows of two matrices"),
                          (lambda a, i, y: T.ppl_gather_block(a, a, i, 2, 2, 7), "7 elements are not rows of 'A'"),
                          (lambda a, i, y: T.ppl_rope_add(a, a, a, a, a), "is not of pairs"),
                          (lambda a, i, y: T.ppl_rope_add(y, a, y, y, y), "does not fit 'Y'")):
            with self.assertRaisesRegex(TileError, why):
                program(word)

    def test_results_that_are_passed(self):
        kernel = tilelang.compile(softmax(32, 32, 16), out_idx=-1, target="c")
        x = torch.randn(32, 32)
        for wrong, why in ((torch.zeros(32, 31), "argument 'Y' has shape"), (torch.zeros(32, 32).half(), "argument 'Y' is float16"),
                           (mx.zeros((32, 32)), "argument 'Y' is written by the kernel and may only be read")):
            with self.assertRaisesRegex(TileError, why):
                kernel(x, wrong)
        with self.assertRaisesRegex(TileError, r"takes 1 argument \(X\), and Y if it is to be filled, not 3"):
            kernel(x, x, x)
        with self.assertRaisesRegex(TileError, "there is no argument 'Z'; there are X, Y"):
            kernel(x, Z=x)

    def test_name_of_the_chip(self):
        """Both names are one target."""
        for name in "tpu", "bm1690":
            self.assertEqual(native.our_name(name), "bm1690")
            reason = lacks("bm1690")
            if reason:
                with self.assertRaisesRegex(TileError, reason.split(":")[1].strip().split(";")[0]):
                    tilelang.compile(softmax(32, 32, 16), out_idx=-1, target=name)


class HostPart(unittest.TestCase):
    def test_it_launches_the_kernel_by_the_runtime(self):
        if lacks("bm1690"):
            self.skipTest(lacks("bm1690"))
        kernel = tilelang.compile(softmax(32, 32, 16), out_idx=-1, target="tpu")
        self.assertIn('tpuRtKernelLaunch(module, "softmax_main_kernel", copies, sizeof copies, 1, 8, stream)', kernel.get_host_source())
        self.assertIn("int softmax_main_kernel(const void *arguments)", kernel.get_kernel_source())


class Modelled(unittest.TestCase):
    def test_one_run_tells_the_time(self):
        """Times of a model are the same in every run."""
        runs = []
        stub = types.SimpleNamespace(compile=lambda text, name, target: target, time=lambda *args: runs.append(args) or 0.5)
        with unittest.mock.patch.object(engine, "compiler", stub):
            profiler = tilelang.compile(softmax(32, 32, 16), out_idx=-1, target="tpu").get_profiler()
            self.assertEqual(profiler.do_bench(), 500.0)
            self.assertEqual(profiler.do_bench(quantiles=[0.1, 0.9]), [500.0, 500.0])
        self.assertEqual(len(runs), 2)

    def test_times_say_that_they_are_modelled(self):
        if lacks("bm1690"):
            self.skipTest(lacks("bm1690"))
        kernel = tilelang.compile(matmul(256, 256, 256, 128, 128, 64), out_idx=-1, target="tpu")
        profiler = kernel.get_profiler()
        ms = profiler.do_bench()
        self.assertRegex(f"{ms} {ms:.3f}", r"^[\d.e-]+ \(modelled\) [\d.]+$")
        a, b = profiler._get_inputs()
        self.assertEqual(tilelang.do_bench(lambda: (kernel(a, b), kernel(a, b))), 2 * ms)
        self.assertNotIn("modelled", str(tilelang.do_bench(lambda: a + b, rep=1)))
        report = profiler.report()
        self.assertAlmostEqual(report["milliseconds"], ms)
        self.assertTrue(0 < report["compute"] <= 1 and 0 < report["copies"] <= 1 and report["lanes"] == 1)
        self.assertEqual(report["scalars"], 0)
        self.assertGreater(report["commands"], 10)

    def test_only_models_report(self):
        kernel = tilelang.compile(softmax(32, 32, 16), out_idx=-1, target="c")
        with self.assertRaisesRegex(TileError, "measured, not modelled"):
            kernel.get_profiler().report()


if __name__ == "__main__":
    unittest.main()
