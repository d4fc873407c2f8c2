// gemm_vector_half.h - matrix-vector products of f16 and bf16 on aarch64, with the same instructions as the
// kernels in gemm_neon.c, so that sums have the same bits. Included by gemm_vector.c.

// f16 by fmlal, which rounds once, to float32 ---------------------------------------------------------------

#define FMLAL(sum, a, x)  __asm__("fmlal %0.4s, %1.4h, %2.4h" : "+w"(sum) : "w"(a), "w"(x))
#define FMLAL2(sum, a, x) __asm__("fmlal2 %0.4s, %1.4h, %2.4h" : "+w"(sum) : "w"(a), "w"(x))

enum { HALVES = 8 }; // per vector

static inline float widen_f16(const uint16_t *from) {
    return (float)*(const __fp16 *)(const void *)from;
}

// Multiplies like GEMV(dots) in gemm_vector.h.
CPU_WITH("fp16fml")
static inline __attribute__((always_inline)) void dots_fmlal(int rows, const uint16_t *a, int64_t apart,
                                                             const uint16_t *x, const struct gemm_order *o,
                                                             float *y, int64_t apart_y) {
    floats4 total = {0};
    for (int64_t from = 0; from < o->k; from += o->span) {
        const int64_t end = MIN_OF(from + o->span, o->k);
        floats4 sum[STREAMS] = {{0}};
        int64_t i = from;
        for (; i + HALVES <= end; i += HALVES) {
            const halves8 by = *(const halves8_memory *)(x + i);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                const halves8 part = *(const halves8_memory *)(a + r * apart + i);
                FMLAL(sum[r], part, by);
                FMLAL2(sum[r], part, by);
            }
        }
        if (i < end) {
            halves8 by = {0};
            memcpy(&by, x + i, (size_t)(end - i) * sizeof *x);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                halves8 part = {0};
                memcpy(&part, a + r * apart + i, (size_t)(end - i) * sizeof *a);
                FMLAL(sum[r], part, by);
                FMLAL2(sum[r], part, by);
            }
        }
        total = lanes_add_chains(from == 0, sum, total);
    }
    for (int r = 0; r < rows; r++)
        y[r * apart_y] = total[r];
}

CPU_WITH("fp16fml")
static void along_fmlal(const void *from, int64_t line, const void *vector, const struct gemm_order *o,
                        int64_t count, void *to) {
    const int64_t each = count / STREAMS;
    const uint16_t *a = from;
    float *y = to;
    for (int64_t i = 0; i < each; i++)
        dots_fmlal(STREAMS, a + i * line, each * line, vector, o, y + i, each);
    for (int64_t i = STREAMS * each; i < count; i++)
        dots_fmlal(1, a + i * line, 0, vector, o, y + i, 0);
}

CPU_WITH("fp16fml")
static inline __attribute__((always_inline)) void add_fmlal(int lines, float *y, const uint16_t *a,
                                                            int64_t apart, const uint16_t *x, int64_t apart_x,
                                                            bool streams, int64_t n) {
    int64_t i = 0;
    halves8 by[STREAMS];
#pragma GCC unroll 4
    for (int r = 0; r < lines; r++)
        by[r] = x[r * apart_x] - (halves8){0};
    for (; i + HALVES <= n; i += HALVES) {
        floats4 low = *(floats_memory *)(y + i), high = *(floats_memory *)(y + i + 4);
#pragma GCC unroll 4
        for (int r = 0; r < lines; r++) {
            const halves8 part = *(const halves8_memory *)(a + r * apart + i);
            if (!streams)
                gemm_fetch(a, ((r + lines) * apart + i) * (int64_t)sizeof *a);
            FMLAL(low, part, by[r]);
            FMLAL2(high, part, by[r]);
        }
        *(floats_memory *)(y + i) = low;
        *(floats_memory *)(y + i + 4) = high;
    }
    for (; i < n; i++)
        for (int r = 0; r < lines; r++)
            y[i] += widen_f16(x + r * apart_x) * widen_f16(a + r * apart + i);
}

CPU_WITH("fp16fml")
static void across_fmlal(const void *from, int64_t line, const void *vector, int64_t k, int64_t n,
                         bool streams, void *to) {
    const int64_t steps = k / STREAMS;
    const uint16_t *a = from, *x = vector;
    memset(to, 0, (size_t)n * sizeof(float));
    for (int64_t i = 0; i < steps; i++)
        if (streams)
            add_fmlal(STREAMS, to, a + i * line, steps * line, x + i, steps, true, n);
        else
            add_fmlal(STREAMS, to, a + i * STREAMS * line, line, x + i * STREAMS, 1, false, n);
    for (int64_t i = steps * STREAMS; i < k; i++)
        add_fmlal(1, to, a + i * line, 0, x + i, 0, true, n);
}

// bf16 by bfmmla, which multiplies two lines of four elements with two others: here with the vector, twice --

#define BFMMLA(sum, a, x) __asm__("bfmmla %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(a), "w"(x))

enum { QUAD = 4, BF16_PAIRS = 4, BF16_LINES = 2 * BF16_PAIRS, ACROSS_QUADS = 2, BF16_COLUMNS = 2048 };

static inline halves8 quads_of(halves8 a, halves8 b, bool low) {
    const longs2 x = (longs2)a, y = (longs2)b;
    return (halves8)(low ? __builtin_shufflevector(x, y, 0, 2) : __builtin_shufflevector(x, y, 1, 3));
}

// Multiplies eight elements of BF16_LINES lines with those of the vector, and adds the products to sum.
CPU_WITH("bf16")
static inline __attribute__((always_inline)) void add_quads(const uint16_t *const *line, int64_t at,
                                                            halves8 by, floats4 *sum) {
    const halves8 low = quads_of(by, by, true), high = quads_of(by, by, false);
#pragma GCC unroll 4
    for (int p = 0; p < BF16_PAIRS; p++) {
        const halves8 even = *(const halves8_memory *)(line[2 * p] + at),
                      odd = *(const halves8_memory *)(line[2 * p + 1] + at);
        BFMMLA(sum[p], quads_of(even, odd, true), low);
        BFMMLA(sum[p], quads_of(even, odd, false), high);
    }
}

// Multiplies BF16_LINES lines. Elements 0 and 2 of total[p] are the results of lines 2 p and 2 p + 1.
CPU_WITH("bf16")
static void lines_bfmmla(const uint16_t *const *line, const uint16_t *x, const struct gemm_order *o,
                         floats4 *total) {
    for (int64_t from = 0; from < o->k; from += o->span) {
        const int64_t end = MIN_OF(from + o->span, o->k);
        floats4 sum[BF16_PAIRS] = {{0}};
        int64_t i = from;
        for (; i + HALVES <= end; i += HALVES)
            add_quads(line, i, *(const halves8_memory *)(x + i), sum);
        if (i < end) {
            halves8 rest[BF16_LINES + 1] = {{0}};
            const uint16_t *at[BF16_LINES];
            for (int l = 0; l < BF16_LINES; l++)
                at[l] = memcpy(&rest[l], line[l] + i, (size_t)(end - i) * sizeof **line);
            memcpy(&rest[BF16_LINES], x + i, (size_t)(end - i) * sizeof *x);
            add_quads(at, 0, rest[BF16_LINES], sum);
        }
#pragma GCC unroll 4
        for (int p = 0; p < BF16_PAIRS; p++)
            total[p] = from ? sum[p] + total[p] : sum[p];
    }
}

CPU_WITH("bf16")
static void along_bfmmla(const void *from, int64_t line, const void *vector, const struct gemm_order *o,
                         int64_t count, void *to) {
    const int64_t each = count / BF16_LINES;
    float *y = to;
    for (int64_t i = 0; i < count; i += BF16_LINES) {
        const bool whole = i / BF16_LINES < each; // pairs of adjacent rows, in BF16_PAIRS streams
        const int64_t first = whole ? i / BF16_PAIRS : i, apart = whole ? 2 * each : 2;
        const uint16_t *lines[BF16_LINES];
        floats4 total[BF16_PAIRS] = {{0}};
        for (int l = 0; l < BF16_LINES; l++)
            lines[l] = (const uint16_t *)from + MIN_OF(first + l / 2 * apart + l % 2, count - 1) * line;
        lines_bfmmla(lines, vector, o, total);
        for (int l = 0; l < BF16_LINES; l++)
            if (first + l / 2 * apart + l % 2 < count)
                y[first + l / 2 * apart + l % 2] = total[l / 2][l % 2 * 2];
    }
}

// Transposes four rows of eight columns into quads of columns, two per vector.
static inline __attribute__((always_inline)) void transpose_quads(const halves8 *line, halves8 *quads) {
    const halves8 even_low = __builtin_shufflevector(line[0], line[2], 0, 8, 1, 9, 2, 10, 3, 11),
                  even_high = __builtin_shufflevector(line[0], line[2], 4, 12, 5, 13, 6, 14, 7, 15),
                  odd_low = __builtin_shufflevector(line[1], line[3], 0, 8, 1, 9, 2, 10, 3, 11),
                  odd_high = __builtin_shufflevector(line[1], line[3], 4, 12, 5, 13, 6, 14, 7, 15);
    quads[0] = __builtin_shufflevector(even_low, odd_low, 0, 8, 1, 9, 2, 10, 3, 11);
    quads[1] = __builtin_shufflevector(even_low, odd_low, 4, 12, 5, 13, 6, 14, 7, 15);
    quads[2] = __builtin_shufflevector(even_high, odd_high, 0, 8, 1, 9, 2, 10, 3, 11);
    quads[3] = __builtin_shufflevector(even_high, odd_high, 4, 12, 5, 13, 6, 14, 7, 15);
}

// Adds ACROSS_QUADS quads of rows to the sums of eight columns, each of which bfmmla computes twice.
CPU_WITH("bf16")
static inline __attribute__((always_inline)) void add_columns(const uint16_t *a, int64_t line,
                                                              const halves8 *by, float *sums) {
    floats4 sum[QUAD];
#pragma GCC unroll 4
    for (int v = 0; v < QUAD; v++)
        sum[v] = *(floats_memory *)(sums + v * 4);
#pragma GCC unroll 2
    for (int q = 0; q < ACROSS_QUADS; q++) {
        halves8 lines[QUAD], quads[QUAD];
#pragma GCC unroll 4
        for (int l = 0; l < QUAD; l++) {
            lines[l] = *(const halves8_memory *)(a + (q * QUAD + l) * line);
            gemm_fetch(a,
                       (ACROSS_QUADS + q) * QUAD * line * (int64_t)sizeof *a + l * line * (int64_t)sizeof *a);
        }
        transpose_quads(lines, quads);
#pragma GCC unroll 4
        for (int v = 0; v < QUAD; v++)
            BFMMLA(sum[v], quads[v], by[q]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < QUAD; v++)
        *(floats_memory *)(sums + v * 4) = sum[v];
}

// Adds rows or columns that do not fill a step, through a copy that is padded with zeros.
CPU_WITH("bf16")
static void add_padded(const uint16_t *a, int64_t line, const halves8 *by, int64_t lines, int64_t cols,
                       float *sums) {
    uint16_t room[ACROSS_QUADS * QUAD * HALVES] = {0};
    for (int64_t l = 0; l < lines; l++)
        memcpy(room + l * HALVES, a + l * line, (size_t)cols * sizeof *a);
    add_columns(room, HALVES, by, sums);
}

CPU_WITH("bf16")
static void columns_bfmmla(const uint16_t *a, int64_t line, const uint16_t *x, int64_t k, int64_t n,
                           float *y) {
    enum { LINES = ACROSS_QUADS * QUAD };
    float sums[BF16_COLUMNS * 2 + 2 * HALVES]; // each sum twice
    memset(sums, 0, (size_t)(n + HALVES) * 2 * sizeof *sums);
    for (int64_t p = 0; p < k; p += LINES, a += LINES * line) {
        const int64_t lines = MIN_OF(LINES, k - p);
        uint16_t part[LINES] = {0};
        halves8 by[ACROSS_QUADS];
        memcpy(part, x + p, (size_t)lines * sizeof *x);
        const halves8 both = *(const halves8_memory *)part;
        by[0] = quads_of(both, both, true), by[1] = quads_of(both, both, false);
        int64_t i = 0;
        for (; lines == LINES && i + HALVES <= n; i += HALVES)
            add_columns(a + i, line, by, sums + 2 * i);
        for (; i < n; i += HALVES)
            add_padded(a + i, line, by, lines, MIN_OF(HALVES, n - i), sums + 2 * i);
    }
    for (int64_t i = 0; i < n; i++)
        y[i] = sums[2 * i];
}

CPU_WITH("bf16")
static void across_bfmmla(const void *from, int64_t line, const void *vector, int64_t k, int64_t n,
                          bool streams, void *to) {
    (void)streams; // the rows are not read as streams: four consecutive ones are multiplied at once
    for (int64_t i = 0; i < n; i += BF16_COLUMNS)
        columns_bfmmla((const uint16_t *)from + i, line, vector, k, MIN_OF(BF16_COLUMNS, n - i),
                       (float *)to + i);
}
