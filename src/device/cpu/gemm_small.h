// gemm_small.h - products that are not worth packing, included once a type: SMALL(name), SMALL_TYPE.

typedef SMALL_TYPE SMALL(vector) __attribute__((vector_size(16)));
typedef SMALL(vector) SMALL(memory) __attribute__((aligned(sizeof(SMALL_TYPE)), may_alias));

static inline SMALL(vector) SMALL(load)(const SMALL_TYPE *from) {
    return *(const SMALL(memory) *)from;
}

// A whole product; rows of b and c are contiguous.
GEMM_FUSED static void SMALL(tiny)(const struct gemm *g) {
    GEMM_CONTRACT
    enum { LANES = 16 / sizeof(SMALL_TYPE) };
    for (int64_t i = 0; i < g->m; i++) {
        const SMALL_TYPE *a = (const SMALL_TYPE *)(const void *)g->a + i * g->a_row;
        const SMALL_TYPE *b = (const SMALL_TYPE *)(const void *)g->b;
        SMALL_TYPE *c = (SMALL_TYPE *)(void *)g->c + i * g->c_row;
        int64_t j = 0;
        for (; j + 2 * LANES <= g->n; j += 2 * LANES) {
            SMALL(vector) s0 = {0}, s1 = s0;
            for (int64_t p = 0; p < g->k; p++) {
                s0 += a[p * g->a_col] * SMALL(load)(b + p * g->b_row + j);
                s1 += a[p * g->a_col] * SMALL(load)(b + p * g->b_row + j + LANES);
            }
            *(SMALL(memory) *)(c + j) = s0;
            *(SMALL(memory) *)(c + j + LANES) = s1;
        }
        for (; j < g->n; j++) {
            SMALL_TYPE sum = 0;
            for (int64_t p = 0; p < g->k; p++)
                sum += a[p * g->a_col] * b[p * g->b_row + j];
            c[j] = sum;
        }
    }
}

#undef SMALL
#undef SMALL_TYPE
