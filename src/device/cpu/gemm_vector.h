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

// Four vectors.
static inline __attribute__((always_inline)) void GEMV(read)(const GEMV_FROM *from, GEMV(vector) *to) {
    GEMV_LOAD(from, to[0], to[1]);
    GEMV_LOAD(from + PAIR, to[2], to[3]);
}

// Lines `apart` elements from each other times x, to places `apart_y` from each other.
GEMM_FUSED static inline __attribute__((always_inline)) void GEMV(dots)(int rows, const GEMV_FROM *a, int64_t apart,
                                                                         const GEMV_TYPE *x, int64_t n, GEMV_TYPE *y,
                                                                         int64_t apart_y) {
    GEMM_CONTRACT
    GEMV(vector) sum[STREAMS][4] = {{{0}}};
    int64_t i = 0;
    for (; i + 2 * PAIR <= n; i += 2 * PAIR) {
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            GEMV(vector) part[4];
            GEMV(read)(a + r * apart + i, part);
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++)
                sum[r][v] += part[v] * READ(x + i + v * LANES);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        GEMV(vector) all = (sum[r][0] + sum[r][1]) + (sum[r][2] + sum[r][3]);
        GEMV_TYPE total = 0;
        for (int k = 0; k < LANES; k++)
            total += all[k];
        for (int64_t j = i; j < n; j++)
            total += GEMV(one)(a + r * apart + j) * x[j];
        y[r * apart_y] = total;
    }
}

// Lines along the vector: y[r] for count lines.
GEMM_FUSED static void GEMV(along)(const void *from, int64_t line, const void *vector, int64_t k, int64_t count, void *to) {
    GEMM_CONTRACT
    const int64_t each = count / STREAMS;
    const GEMV_FROM *a = from;
    GEMV_TYPE *y = to;
    for (int64_t i = 0; i < each; i++)
        GEMV(dots)(STREAMS, a + i * line, each * line, vector, k, y + i, each);
    for (int64_t i = STREAMS * each; i < count; i++)
        GEMV(dots)(1, a + i * line, 0, vector, k, y + i, 0);
}

// y[i] += the sum of elements of x, `apart_x` from each other, times lines `apart` from each other.
GEMM_FUSED static inline __attribute__((always_inline)) void GEMV(add)(int lines, GEMV_TYPE *y, const GEMV_FROM *a,
                                                                        int64_t apart, const GEMV_TYPE *x,
                                                                        int64_t apart_x, int64_t n) {
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

// Lines across the vector: y, of n elements, is the sum of k lines.
GEMM_FUSED static void GEMV(across)(const void *from, int64_t line, const void *vector, int64_t k, int64_t n, void *to) {
    GEMM_CONTRACT
    const int64_t each = k / STREAMS;
    const GEMV_FROM *a = from;
    const GEMV_TYPE *x = vector;
    memset(to, 0, (size_t)n * sizeof(GEMV_TYPE));
    for (int64_t i = 0; i < each; i++)
        GEMV(add)(STREAMS, to, a + i * line, each * line, x + i, each, n);
    for (int64_t i = STREAMS * each; i < k; i++)
        GEMV(add)(1, to, a + i * line, 0, x + i, 0, n);
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
