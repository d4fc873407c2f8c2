// gemm_vector.h - matrix-vector products, included once per dtype of the matrix: GEMV(name), GEMV_FROM,
// GEMV_TYPE (of vectors and sums), GEMV_LOAD(from, low, high), which reads two vectors, GEMV_ONE(from), which
// reads one element, GEMV_DOTS: whether chains are summed side by side, and GEMV_TARGET: the CPUs that it is
// compiled for, or nothing for all of them. Sums have the order of gemm_order.c.

#ifndef GEMV_TARGET
#define GEMV_TARGET
#endif

typedef GEMV_TYPE GEMV(vector) __attribute__((vector_size(16)));
typedef GEMV(vector) GEMV(memory) __attribute__((aligned(sizeof(GEMV_TYPE)), may_alias));

#define LANES    ((int)(16 / sizeof(GEMV_TYPE)))
#define PAIR     (2 * LANES)
#define READ(p)  (*(const GEMV(memory) *)(p))
#define WRITE(p) (*(GEMV(memory) *)(p))

GEMV_TARGET static inline GEMV_TYPE GEMV(one)(const GEMV_FROM *from) {
    return (GEMV_TYPE)GEMV_ONE(from);
}

// Reads four vectors.
GEMV_TARGET static inline __attribute__((always_inline)) void GEMV(read)(const GEMV_FROM *from,
                                                                         GEMV(vector) * to) {
    GEMV_LOAD(from, to[0], to[1]);
    GEMV_LOAD(from + PAIR, to[2], to[3]);
}

#if GEMV_DOTS

// Multiplies four vectors of each of some lines, `apart` elements from each other, with those of x: each lane
// of a sum is a chain.
GEMM_FUSED GEMV_TARGET static inline __attribute__((always_inline)) void
GEMV(step)(int rows, const GEMV_FROM *a, int64_t apart, const GEMV_TYPE *x, GEMV(vector) * sum) {
    GEMM_CONTRACT
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        GEMV(vector) part[4];
        GEMV(read)(a + r * apart, part);
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++)
            sum[r] += part[v] * READ(x + v * LANES);
    }
}

// Multiplies such lines with all of x; the results are apart_y elements from each other. The last elements
// are padded with zeros.
GEMM_FUSED GEMV_TARGET static inline __attribute__((always_inline)) void
GEMV(dots)(int rows, const GEMV_FROM *a, int64_t apart, const GEMV_TYPE *x, const struct gemm_order *o,
           GEMV_TYPE *y, int64_t apart_y) {
    GEMM_CONTRACT
    GEMV(vector) total = {0};
    for (int64_t from = 0; from < o->k; from += o->span) {
        const int64_t end = MIN_OF(from + o->span, o->k);
        GEMV(vector) sum[STREAMS] = {{0}};
        int64_t i = from;
        for (; i + 2 * PAIR <= end; i += 2 * PAIR)
            GEMV(step)(rows, a + i, apart, x + i, sum);
        if (i < end) {
            GEMV_FROM rest[STREAMS * 2 * PAIR] = {0};
            GEMV_TYPE by[2 * PAIR] = {0};
            for (int r = 0; r < rows; r++)
                memcpy(rest + r * 2 * PAIR, a + r * apart + i, (size_t)(end - i) * sizeof *a);
            memcpy(by, x + i, (size_t)(end - i) * sizeof *x);
            GEMV(step)(rows, rest, 2 * PAIR, by, sum);
        }
        total = lanes_add_chains(from == 0, sum, total);
    }
    for (int r = 0; r < rows; r++)
        y[r * apart_y] = total[r];
}

// Multiplies `count` rows along the vector; y has a result for each.
GEMM_FUSED GEMV_TARGET static void GEMV(along)(const void *from, int64_t line, const void *vector,
                                               const struct gemm_order *o, int64_t count, void *to) {
    GEMM_CONTRACT
    const int64_t each = count / STREAMS;
    const GEMV_FROM *a = from;
    GEMV_TYPE *y = to;
    for (int64_t i = 0; i < each; i++)
        GEMV(dots)(STREAMS, a + i * line, each * line, vector, o, y + i, each);
    for (int64_t i = STREAMS * each; i < count; i++)
        GEMV(dots)(1, a + i * line, 0, vector, o, y + i, 0);
}

#endif

// Adds rows, `apart` elements from each other, times elements of x to y, in order. The rows that follow are
// prefetched, unless the rows are streams, which the processor prefetches by itself.
GEMM_FUSED GEMV_TARGET static inline __attribute__((always_inline)) void
GEMV(add)(int lines, GEMV_TYPE *y, const GEMV_FROM *a, int64_t apart, const GEMV_TYPE *x, int64_t apart_x,
          bool streams, int64_t n) {
    GEMM_CONTRACT
    int64_t i = 0;
    GEMV_TYPE by[STREAMS];
    for (int r = 0; r < lines; r++)
        by[r] = x[r * apart_x];
    for (; i + 2 * PAIR <= n; i += 2 * PAIR) {
        GEMV(vector) sum[4];
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++)
            sum[v] = READ(y + i + v * LANES);
#pragma GCC unroll 4
        for (int r = 0; r < lines; r++) {
            GEMV(vector) part[4];
            if (!streams)
                gemm_fetch(a, ((r + lines) * apart + i) * (int64_t)sizeof *a);
            GEMV(read)(a + r * apart + i, part);
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++)
                sum[v] += by[r] * part[v];
        }
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++)
            WRITE(y + i + v * LANES) = sum[v];
    }
    for (; i < n; i++)
        for (int r = 0; r < lines; r++)
            y[i] += by[r] * GEMV(one)(a + r * apart + i);
}

// Sums k rows across the vector into the n elements of y.
GEMM_FUSED GEMV_TARGET static void GEMV(across)(const void *from, int64_t line, const void *vector, int64_t k,
                                                int64_t n, bool streams, void *to) {
    GEMM_CONTRACT
    const int64_t steps = k / STREAMS;
    const GEMV_FROM *a = from;
    const GEMV_TYPE *x = vector;
    memset(to, 0, (size_t)n * sizeof(GEMV_TYPE));
    for (int64_t i = 0; i < steps; i++)
        if (streams)
            GEMV(add)(STREAMS, to, a + i * line, steps * line, x + i, steps, true, n);
        else
            GEMV(add)(STREAMS, to, a + i * STREAMS * line, line, x + i * STREAMS, 1, false, n);
    for (int64_t i = steps * STREAMS; i < k; i++)
        GEMV(add)(1, to, a + i * line, 0, x + i, 0, true, n);
}

#if GEMV_DOTS

// Adds CHAIN_LINES rows of each chain of a group, times their elements of x, to the sums y of the chains,
// which are `apart` elements from each other. Prefetches the rows `ahead` elements further.
GEMM_FUSED GEMV_TARGET static inline __attribute__((always_inline)) void
GEMV(add_chains)(GEMV_TYPE *y, int64_t apart, const GEMV_FROM *a, int64_t line, const GEMV_TYPE *const *x,
                 int64_t ahead, int64_t n) {
    GEMM_CONTRACT
    int64_t i = 0;
    GEMV_TYPE by[GROUP][CHAIN_LINES];
    for (int c = 0; c < GROUP; c++)
        for (int r = 0; r < CHAIN_LINES; r++)
            by[c][r] = x[c][r];
    for (; i + 2 * PAIR <= n; i += 2 * PAIR)
#pragma GCC unroll 2
        for (int c = 0; c < GROUP; c++) {
            GEMV(vector) sum[4];
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++)
                sum[v] = READ(y + c * apart + i + v * LANES);
#pragma GCC unroll 4
            for (int r = 0; r < CHAIN_LINES; r++) {
                GEMV(vector) part[4];
                const GEMV_FROM *from = a + (r * GEMM_CHAINS + c) * line + i;
                gemm_fetch(from, ahead * (int64_t)sizeof *a);
                GEMV(read)(from, part);
#pragma GCC unroll 4
                for (int v = 0; v < 4; v++)
                    sum[v] += by[c][r] * part[v];
            }
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++)
                WRITE(y + c * apart + i + v * LANES) = sum[v];
        }
    for (; i < n; i++)
        for (int c = 0; c < GROUP; c++)
            for (int r = 0; r < CHAIN_LINES; r++)
                y[c * apart + i] += by[c][r] * GEMV(one)(a + (r * GEMM_CHAINS + c) * line + i);
}

// Sums a group of chains of rows across the vector, side by side, so that adjacent rows are read together.
// count: rows of each chain; `vectors` has the elements of x for each chain. The sums, of n elements each,
// are `apart` elements from each other.
GEMM_FUSED GEMV_TARGET static void GEMV(chains)(const void *from, int64_t line, const void *const *vectors,
                                                const int64_t *count, int64_t n, void *to, int64_t apart) {
    GEMM_CONTRACT
    const GEMV_FROM *a = from;
    const int64_t step = CHAIN_LINES * GEMM_CHAINS * line, least = count[GROUP - 1];
    GEMV_TYPE *y = to;
    int64_t i = 0;
    for (int c = 0; c < GROUP; c++)
        memset(y + c * apart, 0, (size_t)n * sizeof *y);
    for (; i + CHAIN_LINES <= least; i += CHAIN_LINES) {
        const GEMV_TYPE *x[GROUP];
        for (int c = 0; c < GROUP; c++)
            x[c] = (const GEMV_TYPE *)vectors[c] + i;
        GEMV(add_chains)
        (y, apart, a + i * GEMM_CHAINS * line, line, x, i + 2 * CHAIN_LINES <= least ? step : 0, n);
    }
    for (int c = 0; c < GROUP; c++)
        for (int64_t j = i; j < count[c]; j++)
            GEMV(add)
            (1, y + c * apart, a + (j * GEMM_CHAINS + c) * line, 0, (const GEMV_TYPE *)vectors[c] + j, 0,
             true, n);
}

#endif

#undef LANES
#undef PAIR
#undef READ
#undef WRITE
#undef GEMV
#undef GEMV_FROM
#undef GEMV_TYPE
#undef GEMV_LOAD
#undef GEMV_ONE
#undef GEMV_DOTS
#undef GEMV_TARGET
