// gemm_vector.h - matrix times vector, included once a dtype of the matrix: GEMV(name), GEMV_FROM, GEMV_TYPE (of vectors and
// sums), and GEMV_LOAD(from, low, high), which reads two vectors.

typedef GEMV_TYPE GEMV(vector) __attribute__((vector_size(16)));
typedef GEMV(vector) GEMV(memory) __attribute__((aligned(sizeof(GEMV_TYPE)), may_alias));

#define LANES    ((int)(16 / sizeof(GEMV_TYPE)))
#define PAIR     (2 * LANES)
#define READ(p)  (*(const GEMV(memory) *)(p))
#define WRITE(p) (*(GEMV(memory) *)(p))

static inline GEMV_TYPE GEMV(one)(const GEMV_FROM *from) {
    return (GEMV_TYPE)GEMV_ONE(from);
}

// sum[r] = line r of a times x, for `rows` lines side by side: several streams are read faster than one.
GEMM_FUSED static inline __attribute__((always_inline)) void GEMV(dots)(int rows, const GEMV_FROM *a, int64_t line,
                                                                         const GEMV_TYPE *x, int64_t n, GEMV_TYPE *sum) {
    GEMM_CONTRACT
    GEMV(vector) low[GEMV_ROWS] = {{0}}, high[GEMV_ROWS] = {{0}};
    int64_t i = 0;
    for (; i + PAIR <= n; i += PAIR) {
        GEMV(vector) x0 = READ(x + i), x1 = READ(x + i + LANES);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            GEMV(vector) a0, a1;
            GEMV_LOAD(a + r * line + i, a0, a1);
            low[r] += a0 * x0;
            high[r] += a1 * x1;
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        GEMV(vector) both = low[r] + high[r];
        GEMV_TYPE total = 0;
        for (int k = 0; k < LANES; k++)
            total += both[k];
        for (int64_t j = i; j < n; j++)
            total += GEMV(one)(a + r * line + j) * x[j];
        sum[r] = total;
    }
}

// Lines along the vector: y[r] for count lines.
GEMM_FUSED static void GEMV(along)(const void *from, int64_t line, const void *vector, int64_t k, int64_t count, void *to) {
    GEMM_CONTRACT
    const GEMV_FROM *a = from;
    GEMV_TYPE *y = to;
    for (; count >= GEMV_ROWS; count -= GEMV_ROWS, a += GEMV_ROWS * line, y += GEMV_ROWS)
        GEMV(dots)(GEMV_ROWS, a, line, vector, k, y);
    for (; count > 0; count--, a += line, y++)
        GEMV(dots)(1, a, line, vector, k, y);
}

// y[i] += the sum of x[r] times line r, for `lines` of them side by side.
GEMM_FUSED static inline __attribute__((always_inline)) void GEMV(add)(int lines, GEMV_TYPE *y, const GEMV_FROM *a,
                                                                        int64_t line, const GEMV_TYPE *x, int64_t n) {
    GEMM_CONTRACT
    int64_t i = 0;
    GEMV_TYPE by[GEMV_LINES];
    for (int r = 0; r < lines; r++)
        by[r] = x[r];
    for (; i + PAIR <= n; i += PAIR) {
        GEMV(vector) y0 = READ(y + i), y1 = READ(y + i + LANES);
#pragma GCC unroll 8
        for (int r = 0; r < lines; r++) {
            GEMV(vector) a0, a1;
            GEMV_LOAD(a + r * line + i, a0, a1);
            y0 += by[r] * a0;
            y1 += by[r] * a1;
        }
        WRITE(y + i) = y0;
        WRITE(y + i + LANES) = y1;
    }
    for (; i < n; i++)
        for (int r = 0; r < lines; r++)
            y[i] += x[r] * GEMV(one)(a + r * line + i);
}

// Lines across the vector: y, of n elements, is the sum of k lines.
GEMM_FUSED static void GEMV(across)(const void *from, int64_t line, const void *vector, int64_t k, int64_t n, void *to) {
    GEMM_CONTRACT
    const GEMV_FROM *a = from;
    const GEMV_TYPE *x = vector;
    memset(to, 0, (size_t)n * sizeof(GEMV_TYPE));
    for (; k >= GEMV_LINES; k -= GEMV_LINES, a += GEMV_LINES * line, x += GEMV_LINES)
        GEMV(add)(GEMV_LINES, to, a, line, x, n);
    for (; k > 0; k--, a += line, x++)
        GEMV(add)(1, to, a, line, x, n);
}

#undef LANES
#undef PAIR
#undef READ
#undef WRITE
#undef GEMV
#undef GEMV_FROM
#undef GEMV_TYPE
#undef GEMV_LOAD
#undef GEMV_ONE
