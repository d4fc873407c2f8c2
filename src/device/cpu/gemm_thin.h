// gemm_thin.h - a few vectors times a matrix, included once a type: THIN(name), THIN_TYPE. `rows` vectors lie x_row elements
// apart, lines of the matrix `line`, and results of a vector y_row.

typedef THIN_TYPE THIN(vector) __attribute__((vector_size(16)));
typedef THIN(vector) THIN(memory) __attribute__((aligned(sizeof(THIN_TYPE)), may_alias));

#define LANES   ((int)(16 / sizeof(THIN_TYPE)))
#define READ(p) (*(const THIN(memory) *)(p))
#define INNER   GEMM_FUSED static inline __attribute__((always_inline))

// Each vector times each of some lines along it, `apart` elements from each other, to places `apart_y` from each other.
INNER void THIN(dots)(int rows, int lines, const THIN_TYPE *x, int64_t x_row, const THIN_TYPE *a, int64_t apart, int64_t k,
                      THIN_TYPE *y, int64_t y_row, int64_t apart_y) {
    GEMM_CONTRACT
    THIN(vector) sum[SIDE][STREAMS] = {{{0}}};
    int64_t i = 0;
    for (; i + LANES <= k; i += LANES) {
        THIN(vector) part[STREAMS];
#pragma GCC unroll 4
        for (int l = 0; l < lines; l++)
            part[l] = READ(a + l * apart + i);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int l = 0; l < lines; l++)
                sum[r][l] += READ(x + r * x_row + i) * part[l];
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int l = 0; l < lines; l++) {
            THIN_TYPE total = 0;
            for (int v = 0; v < LANES; v++)
                total += sum[r][l][v];
            for (int64_t j = i; j < k; j++)
                total += x[r * x_row + j] * a[l * apart + j];
            y[r * y_row + l * apart_y] = total;
        }
}

// y (rows x n) += lines across the vectors, `apart` of them from each other, each times its element of the vectors.
INNER void THIN(add)(int rows, int lines, const THIN_TYPE *x, int64_t x_row, const THIN_TYPE *a, int64_t line, int64_t apart,
                     int64_t n, THIN_TYPE *y, int64_t y_row) {
    GEMM_CONTRACT
    const int wide = rows > 2 ? 2 : 4; // vectors at a time
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

// n lines along `rows` vectors.
INNER void THIN(along)(int rows, const THIN_TYPE *x, int64_t x_row, const THIN_TYPE *a, int64_t line, int64_t k, int64_t n,
                       THIN_TYPE *y, int64_t y_row) {
    const int64_t each = n / STREAMS;
    for (int64_t j = 0; j < each; j++)
        THIN(dots)(rows, STREAMS, x, x_row, a + j * line, each * line, k, y + j, y_row, each);
    for (int64_t j = STREAMS * each; j < n; j++)
        THIN(dots)(rows, 1, x, x_row, a + j * line, 0, k, y + j, y_row, 0);
}

// k lines across them, added to y.
INNER void THIN(across)(int rows, const THIN_TYPE *x, int64_t x_row, const THIN_TYPE *a, int64_t line, int64_t k, int64_t n,
                        THIN_TYPE *y, int64_t y_row) {
    const int64_t each = k / STREAMS;
    for (int64_t p = 0; p < each; p++)
        THIN(add)(rows, STREAMS, x + p, x_row, a + p * line, line, each, n, y, y_row);
    for (int64_t p = STREAMS * each; p < k; p++)
        THIN(add)(rows, 1, x + p, x_row, a + p * line, line, 0, n, y, y_row);
}

// Up to SIDE vectors.
#define BY_ROWS(name)                                                                                                      \
    GEMM_FUSED static void THIN(few_##name)(int64_t rows, const void *vectors, int64_t x_row, const void *matrix,          \
                                            int64_t line, int64_t k, int64_t n, void *to, int64_t y_row) {                 \
        switch (rows) {                                                                                                    \
        case 1: THIN(name)(1, vectors, x_row, matrix, line, k, n, to, y_row); break;                                       \
        case 2: THIN(name)(2, vectors, x_row, matrix, line, k, n, to, y_row); break;                                       \
        case 3: THIN(name)(3, vectors, x_row, matrix, line, k, n, to, y_row); break;                                       \
        default: THIN(name)(SIDE, vectors, x_row, matrix, line, k, n, to, y_row);                                          \
        }                                                                                                                  \
    }
BY_ROWS(along)
BY_ROWS(across)

#undef LANES
#undef READ
#undef INNER
#undef BY_ROWS
#undef THIN
#undef THIN_TYPE
