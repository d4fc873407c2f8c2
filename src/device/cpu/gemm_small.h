// gemm_small.h - products that are not worth packing, included once a type: SMALL(name), SMALL_TYPE.

typedef SMALL_TYPE SMALL(vector) __attribute__((vector_size(16)));
typedef SMALL(vector) SMALL(memory) __attribute__((aligned(sizeof(SMALL_TYPE)), may_alias));

static inline SMALL(vector) SMALL(load)(const SMALL_TYPE *from) {
    return *(const SMALL(memory) *)from;
}

// Sum of a[i] * x[i].
GEMM_FUSED static SMALL_TYPE SMALL(dot)(const SMALL_TYPE *a, const SMALL_TYPE *x, int64_t n) {
    GEMM_CONTRACT
    enum { LANES = 16 / sizeof(SMALL_TYPE) };
    SMALL(vector) s0 = {0}, s1 = s0, s2 = s0, s3 = s0;
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        s0 += SMALL(load)(a + i) * SMALL(load)(x + i);
        s1 += SMALL(load)(a + i + LANES) * SMALL(load)(x + i + LANES);
        s2 += SMALL(load)(a + i + 2 * LANES) * SMALL(load)(x + i + 2 * LANES);
        s3 += SMALL(load)(a + i + 3 * LANES) * SMALL(load)(x + i + 3 * LANES);
    }
    s0 += s1 + (s2 + s3);
    SMALL_TYPE sum = 0;
    for (int k = 0; k < LANES; k++)
        sum += s0[k];
    for (; i < n; i++)
        sum += a[i] * x[i];
    return sum;
}

// y[i] += a[i] * x for four lines of a at once.
GEMM_FUSED static void SMALL(add_lines)(SMALL_TYPE *y, const SMALL_TYPE *a, int64_t line, const SMALL_TYPE *x,
                                        int lines, int64_t n) {
    GEMM_CONTRACT
    enum { LANES = 16 / sizeof(SMALL_TYPE) };
    int64_t i = 0;
    const SMALL_TYPE *a1 = a + (lines > 1) * line, *a2 = a + (lines > 2) * 2 * line, *a3 = a + (lines > 3) * 3 * line;
    SMALL_TYPE x0 = x[0], x1 = lines > 1 ? x[1] : 0, x2 = lines > 2 ? x[2] : 0, x3 = lines > 3 ? x[3] : 0;
    if (lines == 4)
        for (; i + LANES <= n; i += LANES) {
            SMALL(vector) sum = SMALL(load)(y + i) + x0 * SMALL(load)(a + i) + x1 * SMALL(load)(a1 + i);
            *(SMALL(memory) *)(y + i) = sum + (x2 * SMALL(load)(a2 + i) + x3 * SMALL(load)(a3 + i));
        }
    for (; i < n; i++) {
        SMALL_TYPE sum = y[i] + x0 * a[i];
        if (lines > 1)
            sum += x1 * a1[i];
        if (lines > 2)
            sum += x2 * a2[i];
        if (lines > 3)
            sum += x3 * a3[i];
        y[i] = sum;
    }
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
