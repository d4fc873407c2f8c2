"""tile_kernels.py - what bench/tile.py times: kernels as programs for TileLang write them, with blocks that suit a CPU."""

import zellige.tile as tile
import zellige.tile.language as T


@tile.jit
def gemm(M, N, K, dtype, sums="float32", block_M=128, block_N=128, block_K=32):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), sums)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), sums)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])
    return main


@tile.jit
def attention(batch, heads, length, dim, dtype, is_causal, block_M=128, block_N=256):
    scale = dim**-0.5 * 1.44269504  # exp(x) is exp2(x * log2(e))
    shape, sums = (batch, heads, length, dim), "float32"

    @T.prim_func
    def main(Q: T.Tensor(shape, dtype), K: T.Tensor(shape, dtype), V: T.Tensor(shape, dtype), O: T.Tensor(shape, dtype)):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            scores = T.alloc_fragment((block_M, block_N), sums)
            weights = T.alloc_fragment((block_M, block_N), dtype)
            result = T.alloc_fragment((block_M, dim), sums)
            most = T.alloc_fragment((block_M,), sums)
            most_before = T.alloc_fragment((block_M,), sums)
            factor = T.alloc_fragment((block_M,), sums)
            added = T.alloc_fragment((block_M,), sums)
            total = T.alloc_fragment((block_M,), sums)
            T.copy(Q[bz, by, bx * block_M:(bx + 1) * block_M, :], Q_shared)
            T.fill(result, 0)
            T.fill(total, 0)
            T.fill(most, -T.infinity(sums))
            blocks = T.min(T.ceildiv(length, block_N), T.ceildiv((bx + 1) * block_M, block_N)) if is_causal else T.ceildiv(length, block_N)
            for k in T.Pipelined(blocks, num_stages=1):
                T.copy(K[bz, by, k * block_N:(k + 1) * block_N, :], K_shared)
                if is_causal:
                    for i, j in T.Parallel(block_M, block_N):
                        scores[i, j] = T.if_then_else(bx * block_M + i >= k * block_N + j, 0, -T.infinity(sums))
                else:
                    T.clear(scores)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True)
                T.copy(most, most_before)
                T.reduce_max(scores, most, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    factor[i] = T.exp2(most_before[i] * scale - most[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - most[i] * scale)
                T.reduce_sum(scores, added, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * factor[i] + added[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block_M, dim):
                    result[i, j] *= factor[i]
                T.copy(V[bz, by, k * block_N:(k + 1) * block_N, :], V_shared)
                T.gemm(weights, V_shared, result)
            for i, j in T.Parallel(block_M, dim):
                result[i, j] /= total[i]
            T.copy(result, O[bz, by, bx * block_M:(bx + 1) * block_M, :])
    return main


@tile.jit
def softmax(M, N, block_M=2):
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            rows = T.alloc_fragment((block_M, N), "float32")
            most = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], rows)
            T.reduce_max(rows, most, dim=1)
            for i, j in T.Parallel(block_M, N):
                rows[i, j] = T.exp(rows[i, j] - most[i])
            T.reduce_sum(rows, total, dim=1)
            for i in T.Parallel(block_M):
                total[i] = 1.0 / total[i]
            for i, j in T.Parallel(block_M, N):
                rows[i, j] *= total[i]
            T.copy(rows, Y[bx * block_M, 0])
    return main


@tile.jit
def rms_norm(M, N, block_M=1):
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            rows = T.alloc_shared((block_M, N), "float32")
            squares = T.alloc_fragment((block_M, N), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], rows)
            for i, j in T.Parallel(block_M, N):
                squares[i, j] = rows[i, j] * rows[i, j]
            T.reduce_sum(squares, total, dim=1)
            for i in T.Parallel(block_M):
                total[i] = T.rsqrt(total[i] / N + 1e-5)
            for i, j in T.Parallel(block_M, N):
                rows[i, j] *= total[i]
            T.copy(rows, Y[bx * block_M, 0])
    return main
