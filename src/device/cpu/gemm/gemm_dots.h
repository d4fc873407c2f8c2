// gemm_dots.h - rows of a matrix along k times a few vectors, as dot products, included once per dtype and
// vector size: DOTS(name), DOTS_FROM (an element), DOTS_BYTES (of a register), DOTS_TARGET, DOTS_LOAD(from),
// which reads as many elements as a register has lanes, as float32, and DOTS_FOLD(a, b), the sums of adjacent
// lanes of both.

typedef float DOTS(vector) __attribute__((vector_size(DOTS_BYTES)));
typedef DOTS(vector) DOTS(memory) __attribute__((aligned(sizeof(float)), may_alias));

enum { DOTS(LANES) = DOTS_BYTES / sizeof(float), DOTS(LINES) = DOTS_BYTES / sizeof(float) / SIDE };

#define LANES DOTS(LANES)
#define LINES DOTS(LINES)
#define INNER GEMM_FUSED DOTS_TARGET static inline __attribute__((always_inline))

// Multiplies LANES elements of some vectors with those of LINES lines, and adds the products to sum.
INNER void DOTS(step)(int rows, const float *x, int64_t x_row, const DOTS_FROM *const *line, int64_t at,
                      DOTS(vector) sum[SIDE][LINES]) {
    GEMM_CONTRACT
    DOTS(vector) part[LINES];
#pragma GCC unroll 4
    for (int l = 0; l < LINES; l++)
        part[l] = DOTS_LOAD(line[l] + at);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        const DOTS(vector) by = *(const DOTS(memory) *)(x + r * x_row);
#pragma GCC unroll 4
        for (int l = 0; l < LINES; l++)
            sum[r][l] += by * part[l];
    }
}

// Returns a register whose lane i is the sum of all lanes of register i.
INNER DOTS(vector) DOTS(fold)(DOTS(vector) sum[SIDE][LINES]) {
    DOTS(vector) part[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        part[i] = sum[i / LINES][i % LINES];
#pragma GCC unroll 4
    for (int count = LANES / 2; count > 0; count /= 2)
#pragma GCC unroll 8
        for (int i = 0; i < count; i++)
            part[i] = DOTS_FOLD(part[2 * i], part[2 * i + 1]);
    return part[0];
}

// Returns the sums of k elements of some vectors times those of LINES lines. Prefetches meanwhile, beginning
// `ahead` bytes after the start of each line and advancing `pace` bytes per step.
INNER DOTS(vector) DOTS(meet)(int rows, const float *x, int64_t x_row, const DOTS_FROM *const *line,
                              int64_t k, int64_t ahead, int64_t pace) {
    DOTS(vector) sum[SIDE][LINES] = {{{0}}};
    int64_t i = 0;
    for (; i + LANES <= k; i += LANES, ahead += pace) {
#pragma GCC unroll 4
        for (int l = 0; l < LINES; l++)
            gemm_fetch(line[l], ahead);
        DOTS(step)(rows, x + i, x_row, line, i, sum);
    }
    if (i < k) {
        DOTS_FROM rest[LINES][LANES] = {{0}};
        const DOTS_FROM *at[LINES];
        for (int l = 0; l < LINES; l++)
            at[l] = memcpy(rest[l], line[l] + i, (size_t)(k - i) * sizeof(DOTS_FROM));
        DOTS(step)(rows, x + i, x_row, at, 0, sum);
    }
    return DOTS(fold)(sum);
}

// Multiplies n lines with some vectors: as many as possible in LINES streams, then those that are left, where
// the last line takes the place of missing ones.
INNER void DOTS(block)(int rows, const struct dots *d, const float *x, const char *a, int64_t n, char *y,
                       bool add, const struct ahead *ahead) {
    const int64_t pace = LANES * (int64_t)sizeof(DOTS_FROM) / ahead->slower, each = n / LINES;
    for (int64_t j = 0; j < n; j += LINES) {
        const bool whole = j / LINES < each;
        const int64_t first = whole ? j / LINES : j, apart = whole ? each : 1;
        const DOTS_FROM *line[LINES];
        for (int l = 0; l < LINES; l++)
            line[l] = (const DOTS_FROM *)(const void *)(a + MIN_OF(first + l * apart, n - 1) * d->line);
        const DOTS(vector) sum = DOTS(meet)(rows, x, d->x_row, line, d->k, ahead->from, pace);
        for (int r = 0; r < rows; r++)
            for (int l = 0; l < LINES && first + l * apart < n; l++) {
                float *to = (float *)(void *)(y + r * d->y_row + (first + l * apart) * d->y_col);
                *to = add ? *to + sum[r * LINES + l] : sum[r * LINES + l];
            }
    }
}

GEMM_FUSED DOTS_TARGET static void DOTS(dots)(const struct dots *d, int64_t rows, const float *x,
                                              const char *a, int64_t n, char *y, bool add,
                                              const struct ahead *ahead) {
    switch (rows) {
    case 1: DOTS(block)(1, d, x, a, n, y, add, ahead); break;
    case 2: DOTS(block)(2, d, x, a, n, y, add, ahead); break;
    case 3: DOTS(block)(3, d, x, a, n, y, add, ahead); break;
    default: DOTS(block)(SIDE, d, x, a, n, y, add, ahead);
    }
}

#undef LANES
#undef LINES
#undef INNER
#undef DOTS
#undef DOTS_FROM
#undef DOTS_LOAD
