// gemm_micro.h - the innermost part of a matrix product, included once a type and vector size.
//
// MICRO(k, a, b, c, c_row, add) multiplies a panel of MICRO_ROWS rows, stored column by column, with one of MICRO_VECS
// vectors of columns, stored row by row. All accumulators stay in registers. Products are added by fused operations:
// this is no formula of the program, and it would be half as fast without.

typedef MICRO_TYPE MICRO_NAME(vector) __attribute__((vector_size(MICRO_BYTES)));
typedef MICRO_NAME(vector) MICRO_NAME(memory) __attribute__((aligned(sizeof(MICRO_TYPE)), may_alias));

GEMM_FUSED MICRO_TARGET static void MICRO_NAME(micro)(int64_t k, const void *a_panel, const void *b_panel, void *c_tile,
                                                      int64_t c_row, bool add) {
    GEMM_CONTRACT
    enum { LANES = MICRO_BYTES / sizeof(MICRO_TYPE) };
    const MICRO_TYPE *a = a_panel, *b = b_panel;
    MICRO_TYPE *c = c_tile;
    MICRO_NAME(vector) sum[MICRO_ROWS][MICRO_VECS];
#pragma GCC unroll 16
    for (int i = 0; i < MICRO_ROWS; i++)
#pragma GCC unroll 16
        for (int j = 0; j < MICRO_VECS; j++)
            sum[i][j] = (MICRO_NAME(vector)){0};
    for (int64_t p = 0; p < k; p++, a += MICRO_ROWS, b += MICRO_VECS * LANES) {
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
#pragma GCC unroll 16
    for (int i = 0; i < MICRO_ROWS; i++, c += c_row)
#pragma GCC unroll 16
        for (int j = 0; j < MICRO_VECS; j++) {
            MICRO_NAME(memory) *to = (MICRO_NAME(memory) *)(c + j * LANES);
            if (add)
                sum[i][j] += *to;
            *to = sum[i][j];
        }
}

#undef MICRO_NAME
#undef MICRO_TYPE
#undef MICRO_BYTES
#undef MICRO_ROWS
#undef MICRO_VECS
#undef MICRO_TARGET
