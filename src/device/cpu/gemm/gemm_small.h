// gemm_small.h - products that are not worth packing, included once per type: SMALL(name), SMALL_TYPE. Rows
// of b and c are contiguous.

typedef SMALL_TYPE SMALL(vector) __attribute__((vector_size(16)));
typedef SMALL(vector) SMALL(memory) __attribute__((aligned(sizeof(SMALL_TYPE)), may_alias));

#define LANES ((int)(16 / sizeof(SMALL_TYPE)))
#define INNER GEMM_FUSED static inline __attribute__((always_inline))

// Computes a tile of some rows and vectors of columns that begins at (row, col).
INNER void SMALL(tile)(int rows, int vectors, const struct gemm *g, int64_t row, int64_t col) {
    GEMM_CONTRACT
    const SMALL_TYPE *a = (const SMALL_TYPE *)(const void *)g->a + row * g->a_row;
    const SMALL_TYPE *b = (const SMALL_TYPE *)(const void *)g->b + col;
    SMALL_TYPE *c = (SMALL_TYPE *)(void *)g->c + row * g->c_row + col;
    SMALL(vector) sum[SMALL_ROWS][SMALL_MOST] = {{{0}}};
    for (int64_t p = 0; p < g->k; p++, a += g->a_col, b += g->b_row) {
        SMALL(vector) part[SMALL_MOST];
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++)
            part[v] = *(const SMALL(memory) *)(b + v * LANES);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 16
            for (int v = 0; v < vectors; v++)
                sum[r][v] += a[r * g->a_row] * part[v];
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++)
            *(SMALL(memory) *)(c + r * g->c_row + v * LANES) = sum[r][v];
}

// Computes all columns of some rows. Columns after the last whole vector are computed by a vector that begins
// earlier.
INNER void SMALL(strip)(int rows, int vectors, const struct gemm *g, int64_t row) {
    int64_t j = 0;
    for (; j + vectors * LANES <= g->n; j += vectors * LANES)
        SMALL(tile)(rows, vectors, g, row, j);
    for (; j + SMALL_VECTORS / 2 * LANES <= g->n; j += SMALL_VECTORS / 2 * LANES)
        SMALL(tile)(rows, SMALL_VECTORS / 2, g, row, j);
    for (; j + 2 * LANES <= g->n; j += 2 * LANES)
        SMALL(tile)(rows, 2, g, row, j);
    for (; j < g->n; j += LANES)
        SMALL(tile)(rows, 1, g, row, MIN_OF(j, g->n - LANES));
}

// Computes a product with fewer columns than a vector has lanes.
GEMM_FUSED static void SMALL(narrow)(const struct gemm *g) {
    GEMM_CONTRACT
    const SMALL_TYPE *a = (const SMALL_TYPE *)(const void *)g->a, *b = (const SMALL_TYPE *)(const void *)g->b;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            SMALL_TYPE sum = 0;
            for (int64_t p = 0; p < g->k; p++)
                sum += a[i * g->a_row + p * g->a_col] * b[p * g->b_row + j];
            ((SMALL_TYPE *)(void *)g->c)[i * g->c_row + j] = sum;
        }
}

#define STRIPS(rows, vectors)                                                       \
    GEMM_FUSED static void SMALL(strip_##rows)(const struct gemm *g, int64_t row) { \
        SMALL(strip)(rows, vectors, g, row);                                        \
    }
STRIPS(1, SMALL_MOST)
STRIPS(2, SMALL_VECTORS)
STRIPS(3, SMALL_VECTORS / 2)
STRIPS(4, SMALL_VECTORS / 2)

static void SMALL(tiny)(const struct gemm *g) {
    if (g->n < LANES) {
        SMALL(narrow)(g);
        return;
    }
    int64_t i = 0;
    for (; i + SMALL_ROWS <= g->m; i += SMALL_ROWS)
        SMALL(strip_4)(g, i);
    switch (g->m - i) {
    case 1: SMALL(strip_1)(g, i); break;
    case 2: SMALL(strip_2)(g, i); break;
    case 3: SMALL(strip_3)(g, i); break;
    }
}

#undef LANES
#undef INNER
#undef STRIPS
#undef SMALL
#undef SMALL_TYPE
