// gemm_micro_dot.h - the innermost loop of a matrix product with an instruction that sums products of
// adjacent elements along k, included once per instruction.
//
// It is like gemm_micro.h, but a unit of a line has four bytes, which MICRO_DOT(sum, b, a) multiplies lane by
// lane: b is a vector of units, and a is one unit in all lanes. Sums are vectors of MICRO_SUM, which are cast
// to MICRO_VECTOR for MICRO_DOT.
//
// If MICRO_UNSIGNED, b has unsigned bytes that are 128 too large (`flip` of struct gemm_kernel), so 128 times
// the sum of the units of a is subtracted again. MICRO_STEP units of all rows of a are whole vectors.

typedef MICRO_SUM MICRO_NAME(sums) __attribute__((vector_size(MICRO_BYTES)));
typedef MICRO_NAME(sums) MICRO_NAME(memory) __attribute__((aligned(sizeof(MICRO_SUM)), may_alias));
typedef int MICRO_NAME(unit) __attribute__((aligned(1), may_alias));

// Sets of[i] to 128 times the sum of row i of a.
#if MICRO_UNSIGNED
MICRO_TARGET static void MICRO_NAME(add_lines)(int64_t units, const char *a, int32_t *of) {
    enum { VECTORS = MICRO_STEP * MICRO_ROWS * 4 / MICRO_BYTES, LANES = MICRO_BYTES / 4 };
    MICRO_NAME(sums) sum[VECTORS], half = (MICRO_NAME(sums)){0} + (int)0x80808080;
    for (int v = 0; v < VECTORS; v++)
        sum[v] = (MICRO_NAME(sums)){0};
    for (int64_t p = 0; p < units; p += MICRO_STEP, a += VECTORS * MICRO_BYTES)
#pragma GCC unroll 16
        for (int v = 0; v < VECTORS; v++)
            sum[v] = (MICRO_NAME(sums))MICRO_DOT(
                (MICRO_VECTOR)sum[v], (MICRO_VECTOR)half,
                (MICRO_VECTOR)(*(const MICRO_NAME(memory) *)(const void *)(a + v * MICRO_BYTES)));
    for (int i = 0; i < MICRO_ROWS; i++)
        of[i] = 0;
    for (int i = 0; i < VECTORS * LANES; i++)
        of[i % MICRO_ROWS] += sum[i / LANES][i % LANES];
}
#endif

// Adds the products of one unit of each line to all sums.
MICRO_TARGET static inline __attribute__((always_inline)) void MICRO_NAME(step)(
    const MICRO_NAME(unit) *a, const MICRO_NAME(memory) *b, MICRO_NAME(sums) sum[MICRO_ROWS][MICRO_VECS]) {
#pragma GCC unroll 16
    for (int i = 0; i < MICRO_ROWS; i++) {
        MICRO_VECTOR one = MICRO_ALL(a[i]);
#pragma GCC unroll 16
        for (int j = 0; j < MICRO_VECS; j++)
            sum[i][j] = (MICRO_NAME(sums))MICRO_DOT((MICRO_VECTOR)sum[i][j], (MICRO_VECTOR)b[j], one);
    }
}

MICRO_TARGET static void MICRO_NAME(ahead)(int64_t k, const void *a_panel, const void *b_panel, void *c_tile,
                                           int64_t c_row, bool add, const struct gemm_ahead *ahead) {
    enum { LANES = MICRO_BYTES / 4 };
    const int64_t units = k / MICRO_UNIT;
    const MICRO_NAME(unit) *a = a_panel;
    const MICRO_NAME(memory) *b = b_panel;
    const char *next = ahead ? ahead->from : NULL;
    const int64_t apart = ahead ? ahead->apart : 0;
    MICRO_SUM *c = c_tile;
    MICRO_NAME(sums) sum[MICRO_ROWS][MICRO_VECS];
#pragma GCC unroll 16
    for (int i = 0; i < MICRO_ROWS; i++)
#pragma GCC unroll 16
        for (int j = 0; j < MICRO_VECS; j++)
            sum[i][j] = (MICRO_NAME(sums)){0};
    int64_t p = 0;
    for (int i = 0; next && p + GEMM_AHEAD_STEPS <= units; p += GEMM_AHEAD_STEPS, next += apart, i++) {
        gemm_fetch_row(next, i < MICRO_ROWS ? c + i * c_row : NULL, MICRO_VECS * MICRO_BYTES);
#pragma GCC unroll 4
        for (int u = 0; u < GEMM_AHEAD_STEPS; u++, a += MICRO_ROWS, b += MICRO_VECS)
            MICRO_NAME(step)(a, b, sum);
    }
    for (; p < units; p++, a += MICRO_ROWS, b += MICRO_VECS)
        MICRO_NAME(step)(a, b, sum);
#if MICRO_UNSIGNED
    int32_t more[MICRO_ROWS];
    MICRO_NAME(add_lines)(units, a_panel, more);
#endif
#pragma GCC unroll 16
    for (int i = 0; i < MICRO_ROWS; i++, c += c_row)
#pragma GCC unroll 16
        for (int j = 0; j < MICRO_VECS; j++) {
            MICRO_NAME(memory) *to = (MICRO_NAME(memory) *)(void *)(c + j * LANES);
#if MICRO_UNSIGNED
            sum[i][j] -= more[i];
#endif
            if (add)
                sum[i][j] += *to;
            *to = sum[i][j];
        }
}

MICRO_TARGET static void MICRO_NAME(micro)(int64_t k, const void *a, const void *b, void *c, int64_t c_row,
                                           bool add) {
    MICRO_NAME(ahead)(k, a, b, c, c_row, add, NULL);
}

#undef MICRO_NAME
#undef MICRO_SUM
#undef MICRO_VECTOR
#undef MICRO_BYTES
#undef MICRO_ROWS
#undef MICRO_VECS
#undef MICRO_UNIT
#undef MICRO_STEP
#undef MICRO_ALL
#undef MICRO_DOT
#undef MICRO_UNSIGNED
#undef MICRO_TARGET
