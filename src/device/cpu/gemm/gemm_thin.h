// gemm_thin.h - a few vectors times a matrix, included once per type: THIN(name), THIN_TYPE, and THIN_DOTS:
// whether chains are summed side by side. `rows` vectors are x_row elements apart, rows of the matrix `line`
// elements, and the results of different vectors y_row. Sums have the order of gemm_order.c.

typedef THIN_TYPE THIN(vector) __attribute__((vector_size(16)));
typedef THIN(vector) THIN(memory) __attribute__((aligned(sizeof(THIN_TYPE)), may_alias));

#define LANES   ((int)(16 / sizeof(THIN_TYPE)))
#define READ(p) (*(const THIN(memory) *)(p))
#define INNER   GEMM_FUSED static inline __attribute__((always_inline))

#if THIN_DOTS

// Multiplies LANES elements of some vectors with those of some lines: each lane of a sum is a chain.
INNER void THIN(step)(int rows, int lines, const THIN_TYPE *x, int64_t x_row, const THIN_TYPE *a,
                      int64_t apart, THIN(vector) sum[SIDE][STREAMS]) {
    GEMM_CONTRACT
    THIN(vector) part[STREAMS];
#pragma GCC unroll 4
    for (int l = 0; l < lines; l++)
        part[l] = READ(a + l * apart);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int l = 0; l < lines; l++)
            sum[r][l] += READ(x + r * x_row) * part[l];
}

// Multiplies each vector with some lines along it, which are `apart` elements from each other; the results of
// a vector are apart_y from each other. The last elements are padded with zeros.
INNER void THIN(dots)(int rows, int lines, const THIN_TYPE *x, int64_t x_row, const THIN_TYPE *a,
                      int64_t apart, const struct gemm_order *o, THIN_TYPE *y, int64_t y_row,
                      int64_t apart_y) {
    GEMM_CONTRACT
    THIN(vector) total[STREAMS] = {{0}};
    for (int64_t from = 0; from < o->k; from += o->span) {
        const int64_t end = MIN_OF(from + o->span, o->k);
        THIN(vector) sum[SIDE][STREAMS] = {{{0}}};
        int64_t i = from;
        for (; i + LANES <= end; i += LANES)
            THIN(step)(rows, lines, x + i, x_row, a + i, apart, sum);
        if (i < end) {
            THIN_TYPE rest[STREAMS * LANES] = {0}, by[SIDE * LANES] = {0};
            for (int l = 0; l < lines; l++)
                memcpy(rest + l * LANES, a + l * apart + i, (size_t)(end - i) * sizeof *a);
            for (int r = 0; r < rows; r++)
                memcpy(by + r * LANES, x + r * x_row + i, (size_t)(end - i) * sizeof *x);
            THIN(step)(rows, lines, by, LANES, rest, LANES, sum);
        }
#pragma GCC unroll 4
        for (int l = 0; l < lines; l++) { // each lane of a total belongs to one vector
            THIN(vector) lane[SIDE] = {sum[0][l], sum[1][l], sum[2][l], sum[3][l]};
            total[l] = lanes_add_chains(from == 0, lane, total[l]);
        }
    }
#pragma GCC unroll 4
    for (int l = 0; l < lines; l++)
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            y[r * y_row + l * apart_y] = total[l][r];
}

// Multiplies n lines along the vectors with `rows` vectors.
INNER void THIN(along)(int rows, const THIN_TYPE *x, int64_t x_row, const THIN_TYPE *a, int64_t line,
                       const struct gemm_order *o, int64_t n, THIN_TYPE *y, int64_t y_row) {
    const int64_t each = n / STREAMS;
    for (int64_t j = 0; j < each; j++)
        THIN(dots)(rows, STREAMS, x, x_row, a + j * line, each * line, o, y + j, y_row, each);
    for (int64_t j = STREAMS * each; j < n; j++)
        THIN(dots)(rows, 1, x, x_row, a + j * line, 0, o, y + j, y_row, 0);
}

// Multiplies n lines along the vectors with up to SIDE vectors.
GEMM_FUSED static void THIN(few_along)(int64_t rows, const void *vectors, int64_t x_row, const void *matrix,
                                       int64_t line, const struct gemm_order *o, int64_t n, void *to,
                                       int64_t y_row) {
    switch (rows) {
    case 1: THIN(along)(1, vectors, x_row, matrix, line, o, n, to, y_row); break;
    case 2: THIN(along)(2, vectors, x_row, matrix, line, o, n, to, y_row); break;
    case 3: THIN(along)(3, vectors, x_row, matrix, line, o, n, to, y_row); break;
    default: THIN(along)(SIDE, vectors, x_row, matrix, line, o, n, to, y_row);
    }
}

#endif

// Multiplies some lines along k with a panel of SIDE vectors, in the order of k: each lane sums the products
// of one vector.
INNER void THIN(meet)(const THIN_TYPE *const *line, const THIN_TYPE *panel, const struct gemm_order *o,
                      THIN(vector) total[PANEL_LINES][SIDE / LANES]) {
    GEMM_CONTRACT
    for (int64_t from = 0; from < o->k; from += o->span) {
        const int64_t end = MIN_OF(from + o->span, o->k);
        THIN(vector) sum[PANEL_LINES][SIDE / LANES] = {{{0}}};
        int64_t i = from;
        for (; i + LANES <= end; i += LANES) {
            THIN(vector) part[PANEL_LINES];
#pragma GCC unroll 8
            for (int l = 0; l < PANEL_LINES; l++)
                part[l] = READ(line[l] + i);
#pragma GCC unroll 4
            for (int j = 0; j < LANES; j++)
#pragma GCC unroll 2
                for (int v = 0; v < SIDE / LANES; v++) {
                    const THIN(vector) by = READ(panel + (i + j) * SIDE + v * LANES);
#pragma GCC unroll 8
                    for (int l = 0; l < PANEL_LINES; l++)
                        sum[l][v] += by * part[l][j];
                }
        }
        for (; i < end; i++)
#pragma GCC unroll 8
            for (int l = 0; l < PANEL_LINES; l++)
#pragma GCC unroll 2
                for (int v = 0; v < SIDE / LANES; v++)
                    sum[l][v] += READ(panel + i * SIDE + v * LANES) * line[l][i];
#pragma GCC unroll 8
        for (int l = 0; l < PANEL_LINES; l++)
#pragma GCC unroll 2
            for (int v = 0; v < SIDE / LANES; v++)
                total[l][v] = from ? sum[l][v] + total[l][v] : sum[l][v];
    }
}

// Multiplies n lines with a panel of `rows` vectors; the last line takes the place of missing ones.
GEMM_FUSED static void THIN(few_in_order)(int64_t rows, const void *panel, int64_t x_row, const void *matrix,
                                          int64_t line, const struct gemm_order *o, int64_t n, void *to,
                                          int64_t y_row) {
    THIN_TYPE *y = to;
    (void)x_row;
    for (int64_t j = 0; j < n; j += PANEL_LINES) {
        const THIN_TYPE *lines[PANEL_LINES];
        THIN(vector) total[PANEL_LINES][SIDE / LANES] = {{{0}}};
        for (int l = 0; l < PANEL_LINES; l++)
            lines[l] = (const THIN_TYPE *)matrix + MIN_OF(j + l, n - 1) * line;
        THIN(meet)(lines, panel, o, total);
        for (int64_t l = 0; l < PANEL_LINES && j + l < n; l++)
            for (int64_t r = 0; r < rows && r < SIDE; r++)
                y[r * y_row + j + l] = total[l][r / LANES][r % LANES];
    }
}

// Adds rows across the vectors, which are `apart` rows from each other and are each multiplied with their
// elements of the vectors, to y (rows x n), in order. The rows that follow are prefetched, unless the rows
// are streams (gemm_vector.h).
INNER void THIN(add)(int rows, int lines, const THIN_TYPE *x, int64_t x_row, const THIN_TYPE *a, int64_t line,
                     int64_t apart, bool streams, int64_t n, THIN_TYPE *y, int64_t y_row) {
    GEMM_CONTRACT
    const int wide = rows > 2 ? 2 : 4; // vectors of sums at a time
    THIN_TYPE by[SIDE][STREAMS];
    int64_t i = 0;
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int l = 0; l < lines; l++)
            by[r][l] = x[r * x_row + l * apart];
    for (; i + wide * LANES <= n; i += wide * LANES) {
        THIN(vector) sum[SIDE][4];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < wide; v++)
                sum[r][v] = READ(y + r * y_row + i + v * LANES);
#pragma GCC unroll 4
        for (int l = 0; l < lines; l++) {
            THIN(vector) part[4];
            if (!streams)
                gemm_fetch(a, ((l + lines) * line + i) * (int64_t)sizeof *a);
#pragma GCC unroll 4
            for (int v = 0; v < wide; v++)
                part[v] = READ(a + l * apart * line + i + v * LANES);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
                for (int v = 0; v < wide; v++)
                    sum[r][v] += by[r][l] * part[v];
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < wide; v++)
                *(THIN(memory) *)(y + r * y_row + i + v * LANES) = sum[r][v];
    }
    for (; i < n; i++)
        for (int r = 0; r < rows; r++)
            for (int l = 0; l < lines; l++)
                y[r * y_row + i] += by[r][l] * a[l * apart * line + i];
}

// Adds k rows across the vectors to y.
INNER void THIN(across)(int rows, const THIN_TYPE *x, int64_t x_row, const THIN_TYPE *a, int64_t line,
                        int64_t k, bool streams, int64_t n, THIN_TYPE *y, int64_t y_row) {
    const int64_t steps = k / STREAMS;
    for (int64_t p = 0; p < steps; p++)
        if (streams)
            THIN(add)(rows, STREAMS, x + p, x_row, a + p * line, line, steps, true, n, y, y_row);
        else
            THIN(add)
            (rows, STREAMS, x + p * STREAMS, x_row, a + p * STREAMS * line, line, 1, false, n, y, y_row);
    for (int64_t p = STREAMS * steps; p < k; p++)
        THIN(add)(rows, 1, x + p, x_row, a + p * line, line, 0, true, n, y, y_row);
}

// Adds k rows across up to SIDE vectors to the results.
GEMM_FUSED static void THIN(few_across)(int64_t rows, const void *vectors, int64_t x_row, const void *matrix,
                                        int64_t line, int64_t k, bool streams, int64_t n, void *to,
                                        int64_t y_row) {
    switch (rows) {
    case 1: THIN(across)(1, vectors, x_row, matrix, line, k, streams, n, to, y_row); break;
    case 2: THIN(across)(2, vectors, x_row, matrix, line, k, streams, n, to, y_row); break;
    case 3: THIN(across)(3, vectors, x_row, matrix, line, k, streams, n, to, y_row); break;
    default: THIN(across)(SIDE, vectors, x_row, matrix, line, k, streams, n, to, y_row);
    }
}

#undef LANES
#undef READ
#undef INNER
#undef THIN
#undef THIN_TYPE
#undef THIN_DOTS
