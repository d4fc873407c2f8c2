// gemm_micro.h - the innermost loop of a matrix product, included once per type and vector size.
//
// MICRO_NAME(micro) multiplies a panel of MICRO_ROWS rows, stored column by column, with a panel of
// MICRO_VECS vectors of columns, stored row by row. All sums stay in registers. Products are added with fused
// multiply-adds, which is allowed because no formula of the user's program is changed; without them the
// kernel would be half as fast.
//
// MICRO_AHEAD also defines MICRO_NAME(ahead), and MICRO_PACKING defines MICRO_NAME(packing): run_ahead and
// run_packing of struct gemm_kernel.

typedef MICRO_TYPE MICRO_NAME(vector) __attribute__((vector_size(MICRO_BYTES)));
typedef MICRO_NAME(vector) MICRO_NAME(memory) __attribute__((aligned(sizeof(MICRO_TYPE)), may_alias));

// Adds the products of one element of k to all sums.
GEMM_FUSED MICRO_TARGET static inline __attribute__((always_inline)) void MICRO_NAME(step)(
    const MICRO_TYPE *a, const MICRO_TYPE *b, MICRO_NAME(vector) sum[MICRO_ROWS][MICRO_VECS]) {
    GEMM_CONTRACT
    enum { LANES = MICRO_BYTES / sizeof(MICRO_TYPE) };
#ifdef MICRO_BY_LANE // instructions that multiply by one lane of a register: a's rows are loaded as vectors
    MICRO_NAME(vector) rows[MICRO_ROWS / LANES];
#pragma GCC unroll 16
    for (int i = 0; i < MICRO_ROWS / LANES; i++)
        rows[i] = *(const MICRO_NAME(memory) *)(a + i * LANES);
#pragma GCC unroll 16
    for (int i = 0; i < MICRO_ROWS; i++)
#pragma GCC unroll 16
        for (int j = 0; j < MICRO_VECS; j++)
            sum[i][j] += rows[i / LANES][i % LANES] * *(const MICRO_NAME(memory) *)(b + j * LANES);
#else
#pragma GCC unroll 16
    for (int i = 0; i < MICRO_ROWS; i++)
#pragma GCC unroll 16
        for (int j = 0; j < MICRO_VECS; j++)
            sum[i][j] += a[i] * *(const MICRO_NAME(memory) *)(b + j * LANES);
#endif
}

#define INNER GEMM_FUSED MICRO_TARGET static inline __attribute__((always_inline))

// Copies a row of b to a panel.
INNER void MICRO_NAME(pack)(const char *b, MICRO_TYPE *to) {
    enum { LANES = MICRO_BYTES / sizeof(MICRO_TYPE) };
#pragma GCC unroll 4
    for (int j = 0; j < MICRO_VECS; j++)
        *(MICRO_NAME(memory) *)(to + j * LANES) =
            *(const MICRO_NAME(memory) *)(const void *)(b + j * MICRO_BYTES);
}

// Computes a tile. ahead: what to prefetch; NULL: nothing.
INNER void MICRO_NAME(multiply)(int64_t k, const MICRO_TYPE *a, const void *b_from, MICRO_TYPE *c,
                                int64_t c_row, bool add, bool packs, const struct gemm_ahead *ahead) {
    enum { LANES = MICRO_BYTES / sizeof(MICRO_TYPE), PANEL_ROW = MICRO_VECS * MICRO_BYTES };
    const char *b = b_from, *next = ahead ? ahead->from : NULL;
    const int64_t b_row = packs ? ahead->b_row : PANEL_ROW, apart = ahead ? ahead->apart : 0;
    MICRO_TYPE *to = packs ? ahead->pack : NULL;
    MICRO_NAME(vector) sum[MICRO_ROWS][MICRO_VECS];
#pragma GCC unroll 16
    for (int i = 0; i < MICRO_ROWS; i++)
#pragma GCC unroll 16
        for (int j = 0; j < MICRO_VECS; j++)
            sum[i][j] = (MICRO_NAME(vector)){0};
    int64_t p = 0;
    for (int i = 0; ahead && p + GEMM_AHEAD_STEPS <= k; p += GEMM_AHEAD_STEPS, next += apart, i++) {
        gemm_fetch_row(next, i < MICRO_ROWS ? c + i * c_row : NULL, PANEL_ROW);
#pragma GCC unroll 1
        for (int u = 0; u < GEMM_AHEAD_STEPS; u++, a += MICRO_ROWS, b += b_row) {
            MICRO_NAME(step)(a, (const MICRO_TYPE *)(const void *)b, sum);
            if (packs)
                MICRO_NAME(pack)(b, to), to += MICRO_VECS * LANES;
        }
    }
    for (; p < k; p++, a += MICRO_ROWS, b += b_row) {
        MICRO_NAME(step)(a, (const MICRO_TYPE *)(const void *)b, sum);
        if (packs)
            MICRO_NAME(pack)(b, to), to += MICRO_VECS * LANES;
    }
#pragma GCC unroll 16
    for (int i = 0; i < MICRO_ROWS; i++, c += c_row)
#pragma GCC unroll 16
        for (int j = 0; j < MICRO_VECS; j++) {
            MICRO_NAME(memory) *row = (MICRO_NAME(memory) *)(c + j * LANES);
            if (add)
                sum[i][j] += *row;
            *row = sum[i][j];
        }
}

GEMM_FUSED MICRO_TARGET static void MICRO_NAME(micro)(int64_t k, const void *a, const void *b, void *c,
                                                      int64_t c_row, bool add) {
    MICRO_NAME(multiply)(k, a, b, c, c_row, add, false, NULL);
}

#ifdef MICRO_AHEAD
GEMM_FUSED MICRO_TARGET static void MICRO_NAME(ahead)(int64_t k, const void *a, const void *b, void *c,
                                                      int64_t c_row, bool add,
                                                      const struct gemm_ahead *ahead) {
    MICRO_NAME(multiply)(k, a, b, c, c_row, add, false, ahead);
}
#undef MICRO_AHEAD
#endif

#ifdef MICRO_PACKING
GEMM_FUSED MICRO_TARGET static void MICRO_NAME(packing)(int64_t k, const void *a, const void *b, void *c,
                                                        int64_t c_row, bool add,
                                                        const struct gemm_ahead *ahead) {
    MICRO_NAME(multiply)(k, a, b, c, c_row, add, true, ahead);
}
#undef MICRO_PACKING
#endif

#undef INNER
#undef MICRO_NAME
#undef MICRO_TYPE
#undef MICRO_BYTES
#undef MICRO_ROWS
#undef MICRO_VECS
#undef MICRO_TARGET
