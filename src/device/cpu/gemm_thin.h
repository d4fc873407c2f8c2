// gemm_thin.h - a few vectors times a matrix, included once a type: THIN(name), THIN_TYPE. `rows` vectors lie x_row elements
// apart, lines of the matrix `line`, and results of a vector y_row.

typedef THIN_TYPE THIN(vector) __attribute__((vector_size(16)));
typedef THIN(vector) THIN(memory) __attribute__((aligned(sizeof(THIN_TYPE)), may_alias));

#define LANES   ((int)(16 / sizeof(THIN_TYPE)))
#define READ(p) (*(const THIN(memory) *)(p))
#define INNER   GEMM_FUSED static inline __attribute__((always_inline))

// Each vector times each of some lines along it.
INNER void THIN(dots)(int rows, int lines, const THIN_TYPE *x, int64_t x_row, const THIN_TYPE *a, int64_t line, int64_t k,
                      THIN_TYPE *y, int64_t y_row) {
    GEMM_CONTRACT
    THIN(vector) sum[SIDE][SIDE] = {{{0}}};
    int64_t i = 0;
    for (; i + LANES <= k; i += LANES) {
        THIN(vector) part[SIDE];
#pragma GCC unroll 4
        for (int l = 0; l < lines; l++)
            part[l] = READ(a + l * line + i);
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
                total += x[r * x_row + j] * a[l * line + j];
            y[r * y_row + l] = total;
        }
}

// y (rows x n) += the sum of `lines` lines across the vectors, each times its element of them.
INNER void THIN(add)(int rows, int lines, const THIN_TYPE *x, int64_t x_row, const THIN_TYPE *a, int64_t line, int64_t n,
                     THIN_TYPE *y, int64_t y_row) {
    GEMM_CONTRACT
    THIN(vector) by[SIDE][LINES];
    int64_t i = 0;
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int l = 0; l < lines; l += LANES)
            if (lines == 1)
                by[r][0] = (THIN(vector)){x[r * x_row]};
            else
                by[r][l / LANES] = READ(x + r * x_row + l);
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        THIN(vector) sum[SIDE][2];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            sum[r][0] = READ(y + r * y_row + i), sum[r][1] = READ(y + r * y_row + i + LANES);
#pragma GCC unroll 8
        for (int l = 0; l < lines; l++) {
            THIN(vector) low = READ(a + l * line + i), high = READ(a + l * line + i + LANES);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                sum[r][0] += by[r][l / LANES][l % LANES] * low;
                sum[r][1] += by[r][l / LANES][l % LANES] * high;
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            *(THIN(memory) *)(y + r * y_row + i) = sum[r][0];
            *(THIN(memory) *)(y + r * y_row + i + LANES) = sum[r][1];
        }
    }
    for (; i < n; i++)
        for (int r = 0; r < rows; r++)
            for (int l = 0; l < lines; l++)
                y[r * y_row + i] += x[r * x_row + l] * a[l * line + i];
}

// All vectors, four or fewer of them at a time.
#define BY_ROWS(DO)                                \
    switch (rows) {                                \
    case 1: DO(1); break;                          \
    case 2: DO(2); break;                          \
    case 3: DO(3); break;                          \
    default: DO(SIDE);                             \
    }

GEMM_FUSED static void THIN(along)(int64_t count, const void *vectors, int64_t x_row, const void *matrix, int64_t line,
                                   int64_t k, int64_t n, void *to, int64_t y_row) {
    for (int64_t j = 0; j < n; j += SIDE)
        for (int64_t i = 0; i < count; i += SIDE) {
            const int64_t rows = count - i;
            const THIN_TYPE *x = (const THIN_TYPE *)vectors + i * x_row, *a = (const THIN_TYPE *)matrix + j * line;
            THIN_TYPE *y = (THIN_TYPE *)to + i * y_row + j;
#define DOTS(rows) THIN(dots)(rows, SIDE, x, x_row, a, line, k, y, y_row)
#define DOT(rows)  THIN(dots)(rows, 1, x, x_row, a + l * line, line, k, y + l, y_row)
            if (n - j >= SIDE)
                BY_ROWS(DOTS)
            else
                for (int64_t l = 0; l < n - j; l++)
                    BY_ROWS(DOT)
        }
}

GEMM_FUSED static void THIN(across)(int64_t count, const void *vectors, int64_t x_row, const void *matrix, int64_t line,
                                    int64_t k, int64_t n, void *to, int64_t y_row) {
    for (int64_t p = 0; p < k; p += k - p >= LINES ? LINES : 1)
        for (int64_t i = 0; i < count; i += SIDE) {
            const int64_t rows = count - i;
            const THIN_TYPE *x = (const THIN_TYPE *)vectors + i * x_row + p, *a = (const THIN_TYPE *)matrix + p * line;
            THIN_TYPE *y = (THIN_TYPE *)to + i * y_row;
#define ADD_ALL(rows) THIN(add)(rows, LINES, x, x_row, a, line, n, y, y_row)
#define ADD_ONE(rows) THIN(add)(rows, 1, x, x_row, a, line, n, y, y_row)
            if (k - p >= LINES)
                BY_ROWS(ADD_ALL)
            else
                BY_ROWS(ADD_ONE)
        }
}

#undef LANES
#undef READ
#undef INNER
#undef BY_ROWS
#undef DOTS
#undef DOT
#undef ADD_ALL
#undef ADD_ONE
#undef THIN
#undef THIN_TYPE
