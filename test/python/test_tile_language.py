"""Constructs of the tile language in Python, one kernel each, against NumPy."""

import unittest

import numpy as np

import zellige.tile as tile
import zellige.tile.errors
import zellige.tile.language as T

random = np.random.default_rng(3)


def normal(*shape):
    return random.standard_normal(shape).astype("float32")


def run(program, *arrays, **options):
    return tile.compile(program, **options)(*arrays)


def close(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(actual, "float64"), np.asarray(expected, "float64"), tolerance, tolerance)


class Loops(unittest.TestCase):
    def test_steps_and_nests(self):
        @T.prim_func
        def main(Y: T.Tensor((4, 12), T.int32)):
            with T.Kernel(1) as _:
                T.clear(Y)
                for i in T.serial(2, 12, 3):
                    Y[0, i] = i
                for i in range(11, 0, -4):
                    Y[1, i] = i
                for i, j in T.grid(2, 3):
                    Y[2, i * 3 + j] = i * 10 + j
                for k in T.unroll(4):
                    Y[3, k] += k * k
                for k in T.unroll(4, 11, unroll_factor=3):
                    Y[3, k] += k

        y = np.zeros((4, 12), "int32")
        run(main, y)
        expected = np.zeros((4, 12), "int32")
        expected[0, 2::3] = range(2, 12, 3)
        expected[1, [11, 7, 3]] = 11, 7, 3
        expected[2, :6] = 0, 1, 2, 10, 11, 12
        expected[3, :11] = 0, 1, 4, 9, *range(4, 11)
        np.testing.assert_array_equal(y, expected)

    def test_python_loops(self):
        @T.prim_func
        def main(Y: T.Tensor((6,), T.int32)):
            with T.Kernel(1) as _:
                for at, value in [(0, 5), (3, 7), (4, 9)]:
                    if at == 4:
                        break
                    Y[at] = value
                for name in ("a", "b"):
                    Y[5] = len(name)

        y = np.zeros(6, "int32")
        run(main, y)
        np.testing.assert_array_equal(y, [5, 0, 0, 7, 0, 1])

    def test_persistent(self):
        @T.prim_func
        def main(Y: T.Tensor((3, 5), T.int32)):
            with T.Kernel(4) as block:
                for i, j in T.Persistent([3, 5], 4, block):
                    Y[i, j] = i * 100 + j

        y = np.zeros((3, 5), "int32")
        run(main, y)
        np.testing.assert_array_equal(y, np.arange(3)[:, None] * 100 + np.arange(5))

    def test_variables(self):
        @T.macro
        def advance(a: T.Ref, b: T.Ref):
            a, b = b, a + b

        @T.prim_func
        def main(Y: T.Tensor((10,), T.int32)):
            with T.Kernel(1) as _:
                a = T.alloc_var(T.int32, init=0)
                b = T.alloc_var(T.int32, init=1)
                for i in range(10):
                    now = a
                    advance(a, b)
                    Y[i] = now

        y = np.zeros(10, "int32")
        run(main, y)
        np.testing.assert_array_equal(y, [0, 1, 1, 2, 3, 5, 8, 13, 21, 34])


class Memory(unittest.TestCase):
    def test_axes_of_one(self):
        @T.prim_func
        def main(X: T.Tensor((2, 10, 3, 4), T.float32), Y: T.Tensor((10, 4), T.float32)):
            with T.Kernel(3) as bx:
                part = T.alloc_shared((4, 4), T.float32)
                T.copy(X[1, bx * 4:(bx + 1) * 4, 2, :], part)
                T.copy(part, Y[bx * 4, 0])

        x = normal(2, 10, 3, 4)
        close(run(main, x, out_idx=1), x[1, :, 2])

    def test_outside(self):
        @T.prim_func
        def main(X: T.Tensor((5,), T.float32), I: T.Tensor((4,), T.int32), Y: T.Tensor((8,), T.float32), Z: T.Tensor((4,), T.float32)):
            with T.Kernel(1) as _:
                T.annotate_safe_value({X: -1.0})
                for i in T.Parallel(8):
                    Y[i] = X[i]
                for i in T.Parallel(6):
                    Z[i] = X[I[i]] + T.if_then_else(i > 0, X[i - 1], 10)

        x = normal(5)
        y, z = run(main, x, np.array([0, 4, 7, -2], "int32"), out_idx=[2, 3])
        close(y, [*x, -1, -1, -1])
        close(z, np.array([x[0], x[4], -1, -1]) + [10, x[0], x[1], x[2]])

    def test_regions(self):
        @T.prim_func
        def main(X: T.Tensor((4, 6), T.float32), Y: T.Tensor((4, 6), T.float32), S: T.Tensor((4,), T.float32)):
            with T.Kernel(1) as _:
                part = T.alloc_fragment((4, 6), T.float32)
                T.copy(X, part)
                T.fill(part[1:3, 0:2], 7)
                part[0, :] += 1.0
                part[3, :] *= part[0, :]
                T.copy(part, Y)
                T.reduce_sum(part[:, 2:5], S, dim=1)

        x = normal(4, 6)
        y, s = run(main, x, out_idx=[1, 2])
        expected = x.copy()
        expected[1:3, :2] = 7
        expected[0] += 1
        expected[3] *= expected[0]
        close(y, expected)
        close(s, expected[:, 2:5].sum(1))

    def test_views(self):
        @T.prim_func
        def main(X: T.Tensor((6, 4), T.float32), Y: T.Tensor((2, 12), T.int32), Z: T.Tensor((8, 3), T.float32)):
            with T.Kernel(1) as _:
                part = T.alloc_shared((6, 4), T.float32)
                T.copy(X, part)
                bits = T.view(part, (2, 12), T.int32)
                T.copy(bits, Y)
                T.copy(T.reshape(part, (8, 3)), Z)

        x = normal(6, 4)
        y, z = run(main, x, out_idx=[1, 2])
        np.testing.assert_array_equal(y, x.view("int32").reshape(2, 12))
        np.testing.assert_array_equal(z, x.reshape(8, 3))

    def test_views_of_other_sizes_and_edges(self):
        @T.prim_func
        def main(X: T.Tensor((5, 3, 6), T.float32), Y: T.Tensor((5, 3, 6), T.float32), Z: T.Tensor((15, 12), T.uint16)):
            with T.Kernel(2, 2) as (bx, by):
                rows = T.Tensor((15, 6), T.float32, X.data)
                out = T.Tensor((15, 6), T.float32, Y.data)
                part = T.alloc_shared((8, 4), T.float32)
                T.copy(rows[by * 8, bx * 4], part)
                T.copy(part, out[by * 8, bx * 4])
                T.copy(T.view(part, dtype=T.uint16), Z[by * 8, bx * 8])

        x = normal(5, 3, 6)
        y, z = run(main, x, out_idx=[1, 2])
        np.testing.assert_array_equal(y, x)
        np.testing.assert_array_equal(z, x.reshape(15, 6).view("uint16"))

    def test_atomics_give_what_was_there(self):
        @T.prim_func
        def main(X: T.Tensor((500,), T.int32), Count: T.Tensor((1,), T.int32), Y: T.Tensor((500,), T.int32)):
            with T.Kernel(500) as bx:
                if X[bx] > 0:
                    at = T.atomic_add(Count[0], 1, return_prev=True)
                    Y[at] = X[bx]

        x = np.random.default_rng(0).integers(-5, 6, 500).astype("int32")
        count, y = np.zeros(1, "int32"), np.zeros(500, "int32")
        run(main, x, count, y)
        np.testing.assert_array_equal(np.sort(y[:count[0]]), np.sort(x[x > 0]))
        self.assertFalse(y[count[0]:].any())

    def test_results_of_atomics_start_as_zero(self):
        @T.prim_func
        def main(X: T.Tensor((64, 8), T.float32), Sum: T.Tensor((8,), T.float32)):
            with T.Kernel(64) as bx:
                for i in T.Parallel(8):
                    T.atomic_add(Sum[i], X[bx, i])

        x = normal(64, 8)
        for _ in range(3):
            close(run(main, x, out_idx=[1]), x.sum(0))

    def test_elements_of_4_bits(self):
        @T.prim_func
        def main(A: T.Tensor((16, 32), T.int4), F: T.Tensor((16, 32), T.float4_e2m1fn), Y: T.Tensor((16, 32), T.int32),
                 Z: T.Tensor((16, 32), T.float32), B: T.Tensor((16, 32), T.uint4), G: T.Tensor((16, 32), T.float4_e2m1fn)):
            with T.Kernel(2) as bx:
                part = T.alloc_shared((8, 32), T.int4)
                wide = T.alloc_shared((8, 32), T.float32)
                T.copy(A[bx * 8, 0], part)
                T.copy(F[bx * 8, 0], wide)
                for i, j in T.Parallel(8, 32):
                    Y[bx * 8 + i, j] = T.cast(part[i, j], T.int32) * 3
                    Z[bx * 8 + i, j] = wide[i, j]
                T.copy(part, B[bx * 8, 0])
                T.copy(wide, G[bx * 8, 0])

        codes = np.random.default_rng(0).integers(0, 16, (16, 32))
        data = (codes[:, ::2] | codes[:, 1::2] << 4).astype("uint8")
        values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
        y, z, b, g = run(main, data, data.view("int8"), out_idx=[2, 3, 4, 5])
        np.testing.assert_array_equal(y, ((codes + 8) % 16 - 8) * 3)
        np.testing.assert_array_equal(z, values[codes & 7] * np.where(codes > 7, -1, 1))
        np.testing.assert_array_equal(b, data)
        np.testing.assert_array_equal(g.view("uint8"), data)

    def test_strides_that_are_known_at_each_call(self):
        rows, step = T.dynamic("rows, step")

        @T.prim_func
        def main(X: T.StridedTensor((rows, 8), (step, 1), T.float32), Y: T.Tensor((rows,), T.float32)):
            with T.Kernel(rows) as bx:
                part = T.alloc_fragment((1, 8), T.float32)
                T.copy(X[bx, 0], part)
                T.reduce_sum(part, Y[bx:bx + 1], dim=1)

        x = normal(6, 20)
        kernel = tile.compile(main, out_idx=[1])
        close(kernel(x[:, :8]), x[:, :8].sum(1))
        close(kernel(x[::2, 4:12]), x[::2, 4:12].sum(1))

    def test_assertions_point_at_the_program(self):
        @T.prim_func
        def main(X: T.Tensor((8,), T.float32), Y: T.Tensor((8,), T.float32)):
            with T.Kernel(8) as bx:
                T.device_assert(X[bx] > 0, "x is not positive")  # here
                Y[bx] = T.sqrt(X[bx])

        with self.assertRaisesRegex(tile.errors.TileError, r"test_tile_language.py:\d+:\d+: x is not positive\n.*# here"):
            run(main, -normal(8) ** 2, out_idx=[1])

    def test_cost(self):
        n = T.dynamic("n")

        @T.prim_func
        def main(A: T.Tensor((n, 32), T.float32), B: T.Tensor((32, 16), T.float32), C: T.Tensor((n, 16), T.float32)):
            with T.Kernel(T.ceildiv(n, 8)) as bx:
                a, b = T.alloc_shared((8, 32), T.float32), T.alloc_shared((32, 16), T.float32)
                c = T.alloc_fragment((8, 16), T.float32)
                T.copy(A[bx * 8, 0], a)
                T.copy(B, b)
                T.gemm(a, b, c, clear_accum=True)
                T.copy(c, C[bx * 8, 0])

        kernel = tile.compile(main)
        self.assertEqual(kernel.cost(n=64), (2 * 64 * 32 * 16, 4 * (64 * 32 + 32 * 16 + 64 * 16)))
        with self.assertRaisesRegex(KeyError, "the size 'n' is missing"):
            kernel.cost()

    def test_threads_on_their_own(self):
        @T.prim_func
        def main(X: T.Tensor((5, 100), T.float32), Y: T.Tensor((5, 100), T.float32)):
            with T.Kernel(5, threads=32) as bx:
                tx = T.get_thread_binding()
                total = T.alloc_local((1,), T.float32)
                total[0] = 0
                for i in T.serial(T.ceildiv(100, 32)):
                    at = i * 32 + tx
                    total[0] += X[bx, at]
                    Y[bx, at] = total[0]

        x = normal(5, 100)
        lanes = np.pad(x, ((0, 0), (0, 28))).reshape(5, 4, 32)
        close(run(main, x, out_idx=[1]), lanes.cumsum(1).reshape(5, 128)[:, :100])

    def test_threads_that_work_together_are_refused(self):
        def main(X: T.Tensor((32,), T.float32)):
            with T.Kernel(1, threads=32) as _:
                tx = T.get_thread_binding()
                X[tx] = 1.0
                T.sync_threads()
        with self.assertRaisesRegex(tile.errors.TileError, "T.sync_threads after the number of a thread was asked for"):
            T.prim_func(main)

    def test_blocks_wait_for_each_other(self):
        @T.prim_func
        def main(X: T.Tensor((8, 16), T.float32), Sums: T.Tensor((8,), T.float32), Y: T.Tensor((8,), T.float32)):
            with T.Kernel(8, threads=32) as bx:
                row = T.alloc_fragment((1, 16), T.float32)
                part = T.alloc_fragment((1,), T.float32)
                left = T.alloc_var(T.float32)
                other = 7 - bx
                T.copy(X[other, 0], row)
                T.reduce_sum(row, part, dim=1)
                Sums[other] = part[0]
                T.sync_grid()
                left = Sums[other] - Sums[bx]
                Y[bx] = left

        x = normal(8, 16)
        sums, y = run(main, x, out_idx=[1, 2])
        close(sums, x.sum(1))
        close(y, x.sum(1)[::-1] - x.sum(1))

    def test_memory_of_a_block_ends_where_blocks_wait(self):
        def main(X: T.Tensor((8,), T.float32)):
            with T.Kernel(8, threads=32) as bx:
                part = T.alloc_fragment((1,), T.float32)
                part[0] = X[bx]
                T.sync_grid()
                X[bx] = part[0]
        with self.assertRaisesRegex(tile.errors.TileError, "'part' is used before and after T.sync_grid"):
            T.prim_func(main)

    def test_atomics(self):
        @T.prim_func
        def main(X: T.Tensor((8, 4), T.float32), Sum: T.Tensor((4,), T.float32), Most: T.Tensor((1,), T.float32)):
            with T.Kernel(8) as bx:
                part = T.alloc_fragment((4,), T.float32)
                T.copy(X[bx, 0], part)
                T.atomic_add(Sum, part)
                for j in T.Parallel(4):
                    T.atomic_max(Most[0], X[bx, j])

        x = normal(8, 4)
        total, most = np.zeros(4, "float32"), np.full(1, -np.inf, "float32")
        run(main, x, total, most)
        close(total, x.sum(0), 1e-4)
        self.assertEqual(most[0], x.max())


class Values(unittest.TestCase):
    def test_a_word_that_is_no_dtype(self):
        with self.assertRaisesRegex(TypeError, "'f99' is no dtype; known: bool, float16, ") as refused:
            T.Tensor((4,), "f99")
        known = str(refused.exception).split("known: ")[1].split(", ")
        self.assertEqual(len(known), len(set(known)))

    def test_logic(self):
        @T.prim_func
        def main(X: T.Tensor((20,), T.int32), Y: T.Tensor((20,), T.int32)):
            with T.Kernel(1) as _:
                for i in T.Parallel(20):
                    inside = 3 < X[i] <= 12 and X[i] != 7
                    Y[i] = 1 if inside or X[i] == 0 else 2 if not inside and i % 2 == 0 else 3

        x = np.arange(20, dtype="int32")
        inside = (3 < x) & (x <= 12) & (x != 7)
        np.testing.assert_array_equal(run(main, x, out_idx=1), np.where(inside | (x == 0), 1, np.where(x % 2 == 0, 2, 3)))

    def test_types(self):
        @T.prim_func
        def main(H: T.Tensor((8,), T.float16), I: T.Tensor((8,), T.int8), B: T.Tensor((8,), T.bool), Y: T.Tensor((8,), T.float32),
                 Z: T.Tensor((8,), T.uint32)):
            with T.Kernel(1) as _:
                for i in T.Parallel(8):
                    Y[i] = H[i] * 2 + I[i] / T.float32(4) + T.cast(B[i], "float32") * i
                    Z[i] = (T.reinterpret(Y[i], "uint32") >> 23) & 0xff ^ T.cast(I[i], T.uint32)

        h, i, b = normal(8).astype("float16"), random.integers(-9, 9, 8).astype("int8"), random.integers(0, 2, 8).astype(bool)
        y, z = run(main, h, i, b, out_idx=[3, 4])
        expected = (h * np.float16(2)).astype("float32") + i / np.float32(4) + b * np.arange(8, dtype="float32")
        close(y, expected)
        np.testing.assert_array_equal(z, (y.view("uint32") >> 23) & 0xff ^ i.astype("uint32"))

    def test_functions(self):
        functions = [T.exp, T.exp2, T.log2, T.sqrt, T.rsqrt, T.tanh, T.sigmoid, T.sin, T.floor, T.round, T.abs, T.erf]
        others = [np.exp, np.exp2, np.log2, np.sqrt, lambda x: x ** -0.5, np.tanh, lambda x: 1 / (1 + np.exp(-x)), np.sin, np.floor,
                  lambda x: np.floor(x + 0.5), np.abs, None]
        x = np.abs(normal(16)) + 0.1
        for function, other in zip(functions, others):
            @T.prim_func
            def main(X: T.Tensor((16,), T.float32), Y: T.Tensor((16,), T.float32)):
                with T.Kernel(1) as _:
                    for i in T.Parallel(16):
                        Y[i] = function(X[i])

            y = run(main, x, out_idx=1)
            if other is not None:
                close(y, other(x), 1e-5)

    def test_fmod(self):
        @T.prim_func
        def main(X: T.Tensor((8,), T.float32), D: T.Tensor((8,), T.float32), Y: T.Tensor((8,), T.float32)):
            with T.Kernel(1) as _:
                for i in T.Parallel(8):
                    Y[i] = T.fmod(X[i], D[i])

        x = np.array([1e9, -1e9, 1, -7.5, 7.5, -0.0, 3e38, 5], "float32")
        d = np.array([7, 7, 1e-40, 2, -2, 3, 1e-3, np.inf], "float32")
        np.testing.assert_array_equal(run(main, x, d, out_idx=2).view("uint32"), np.fmod(x, d).view("uint32"))

    def test_im2col(self):
        @T.prim_func
        def main(X: T.Tensor((1, 5, 6, 2), T.float32), Y: T.Tensor((30, 18), T.float32)):
            with T.Kernel(2, 3) as (bx, by):
                part = T.alloc_shared((10, 9), T.float32)
                T.im2col(X, part, by, bx, 3, 1, 1, 1)
                T.copy(part, Y[by * 10, bx * 9])

        x = normal(1, 5, 6, 2)
        padded = np.pad(x[0], ((1, 1), (1, 1), (0, 0)))
        expected = [[padded[r + dy, c + dx, ch] for dy in range(3) for dx in range(3) for ch in range(2)] for r in range(5) for c in range(6)]
        close(run(main, x, out_idx=1), expected)


if __name__ == "__main__":
    unittest.main()
