// attention_bf16.c - the products of attention of bfloat16, by instructions that multiply 2 x 4 numbers with 4 x 2.
//
// A panel has eight rows: four columns of each of them, then the next four. Values are panels of columns, with keys in the
// place of columns. Results of a panel lie in squares of two by two, as the instruction leaves them, until they are done.

#include "device/cpu/attention.h"
#include "device/cpu/lanes.h"

enum { STEP = 4, PAIRS = PANEL / 2 };

size_t cpu_attention_half_bytes(int64_t rows, int64_t cols) {
    return (size_t)(attention_panels(rows) * ((cols + STEP - 1) / STEP * STEP) * 2);
}

// Rows of x, contiguous bytes: where they are, or in room.
static const char *read_row(const struct attention_input *x, int64_t b, int64_t m, int64_t row, char *room) {
    const char *from = attention_row(x, b, m, row);
    if (x->stride[3] == x->item)
        return from;
    cpu_move((size_t)x->item, room, (struct stride2){0, x->item}, from, (struct stride2){0, x->stride[3]}, 1,
             x->cols);
    return room;
}

void cpu_attention_half_rows(const struct attention_input *x, int64_t b, int64_t m, int64_t first,
                             int64_t count, float *room, char *to) {
    const int64_t line = PANEL * STEP * 2, part = STEP * 2, whole = x->cols / STEP, rest = x->cols % STEP * 2;
    int64_t panel = line * (whole + (rest > 0));
    if (rest || count % PANEL)
        memset(to, 0, (size_t)(attention_panels(count) / PANEL * panel));
    for (int64_t i = 0; i < count; i++) {
        const char *from = read_row(x, b, m, first + i, (char *)room);
        char *at = to + i / PANEL * panel + i % PANEL * part;
        for (int64_t k = 0; k < whole; k++)
            memcpy(at + k * line, from + k * part, (size_t)part);
        memcpy(at + whole * line, from + whole * part, (size_t)rest);
    }
}

#if defined(__aarch64__)

#define WITH_BF16 CPU_WITH("bf16")
#define INLINE    WITH_BF16 static inline __attribute__((always_inline))

bool cpu_attention_has_half(zl_dtype dtype) {
    return dtype == ZL_BFLOAT16 && !strcmp(cpu_level()->name, "neon_bf16");
}

// Four lines of eight numbers as pairs of lines of four.
INLINE void turn(const halves8 *row, halves8 *to) {
    words4 a = (words4)__builtin_shufflevector(row[0], row[1], 0, 8, 1, 9, 2, 10, 3, 11);
    words4 b = (words4)__builtin_shufflevector(row[2], row[3], 0, 8, 1, 9, 2, 10, 3, 11);
    words4 c = (words4)__builtin_shufflevector(row[0], row[1], 4, 12, 5, 13, 6, 14, 7, 15);
    words4 d = (words4)__builtin_shufflevector(row[2], row[3], 4, 12, 5, 13, 6, 14, 7, 15);
    to[0] = (halves8)__builtin_shufflevector(a, b, 0, 4, 1, 5);
    to[1] = (halves8)__builtin_shufflevector(a, b, 2, 6, 3, 7);
    to[2] = (halves8)__builtin_shufflevector(c, d, 0, 4, 1, 5);
    to[3] = (halves8)__builtin_shufflevector(c, d, 2, 6, 3, 7);
}

WITH_BF16 void cpu_attention_half_values(const struct attention_input *x, int64_t b, int64_t m, int64_t first,
                                         int64_t count, float *room, char *to) {
    int64_t steps = (count + STEP - 1) / STEP;
    for (int64_t i = 0; i < count; i += STEP) {
        const char *from[STEP];
        for (int k = 0; k < STEP; k++)
            from[k] = i + k < count ? read_row(x, b, m, first + i + k, (char *)room + k * x->cols * 2) : NULL;
        for (int64_t e = 0; e < x->cols; e += PANEL) {
            halves8 row[STEP] = {{0}};
            int64_t n = MIN_OF(PANEL, x->cols - e);
            for (int k = 0; k < STEP; k++)
                if (from[k] && n == PANEL)
                    row[k] = *(const halves_memory *)(const void *)(from[k] + e * 2);
                else if (from[k])
                    memcpy(&row[k], from[k] + e * 2, (size_t)n * 2);
            turn(row, (halves8 *)(void *)(to + (e * steps + i / STEP * PANEL) * STEP * 2));
        }
    }
}

INLINE floats4 multiply_pairs(floats4 sum, halves8 a, halves8 b) {
    __asm__("bfmmla %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
}

INLINE void add_products(int64_t steps, const char *a, const char *b, floats4 sum[PAIRS][PAIRS]) {
    const halves8 *x = (const halves8 *)(const void *)a, *y = (const halves8 *)(const void *)b;
    for (int64_t k = 0; k < steps; k++, x += PAIRS, y += PAIRS) {
#pragma GCC unroll 4
        for (int i = 0; i < PAIRS; i++)
#pragma GCC unroll 4
            for (int j = 0; j < PAIRS; j++)
                sum[i][j] = multiply_pairs(sum[i][j], x[i], y[j]);
    }
}

WITH_BF16 void cpu_attention_half_scores(int64_t cols, const char *keys, const char *queries, float scale,
                                         float *out) {
    floats4 sum[PAIRS][PAIRS];
#pragma GCC unroll 4
    for (int i = 0; i < PAIRS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < PAIRS; j++)
            sum[i][j] = (floats4){0};
    add_products((cols + STEP - 1) / STEP, keys, queries, sum);
#pragma GCC unroll 4
    for (int i = 0; i < PAIRS; i++, out += 2 * PANEL)
#pragma GCC unroll 2
        for (int j = 0; j < PAIRS; j += 2) {
            doubles2 a = (doubles2)(sum[i][j] * scale), b = (doubles2)(sum[i][j + 1] * scale);
            *(floats_memory *)(out + 2 * j) = (floats4)__builtin_shufflevector(a, b, 0, 2);
            *(floats_memory *)(out + PANEL + 2 * j) = (floats4)__builtin_shufflevector(a, b, 1, 3);
        }
}

INLINE halves8 narrow(const float *x) {
    halves8 r;
    __asm__("bfcvtn %0.4h, %1.4s" : "=w"(r) : "w"(*(const floats_memory *)x));
    __asm__("bfcvtn2 %0.8h, %1.4s" : "+w"(r) : "w"(*(const floats_memory *)(x + 4)));
    return r;
}

WITH_BF16 void cpu_attention_half_weights(const float *weights, int64_t keys, char *to) {
    for (int64_t j = 0; j < keys; j += STEP, to += PANEL * STEP * 2) {
        halves8 row[STEP] = {{0}};
        for (int k = 0; k < MIN_OF(STEP, keys - j); k++)
            row[k] = narrow(weights + (j + k) * PANEL);
        turn(row, (halves8 *)(void *)to);
    }
}

WITH_BF16 void cpu_attention_half_add(int64_t keys, const char *weights, const char *values, float *squares) {
    floats4 sum[PAIRS][PAIRS], *to = (floats4 *)(void *)squares;
#pragma GCC unroll 4
    for (int i = 0; i < PAIRS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < PAIRS; j++)
            sum[i][j] = to[i * PAIRS + j];
    add_products((keys + STEP - 1) / STEP, weights, values, sum);
#pragma GCC unroll 4
    for (int i = 0; i < PAIRS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < PAIRS; j++)
            to[i * PAIRS + j] = sum[i][j];
}

void cpu_attention_half_correct(float *squares, const float *factor) {
    for (int i = 0; i < PAIRS; i++) {
        floats4 by = {factor[2 * i], factor[2 * i], factor[2 * i + 1], factor[2 * i + 1]};
        for (int j = 0; j < PAIRS; j++)
            *(floats4 *)(void *)(squares + (i * PAIRS + j) * 4) *= by;
    }
}

#else

bool cpu_attention_has_half(zl_dtype dtype) {
    (void)dtype;
    return false;
}

void cpu_attention_half_values(const struct attention_input *x, int64_t b, int64_t m, int64_t first,
                               int64_t count, float *room, char *to) {
    (void)x, (void)b, (void)m, (void)first, (void)count, (void)room, (void)to;
}

void cpu_attention_half_scores(int64_t cols, const char *keys, const char *queries, float scale, float *out) {
    (void)cols, (void)keys, (void)queries, (void)scale, (void)out;
}

void cpu_attention_half_weights(const float *weights, int64_t keys, char *to) {
    (void)weights, (void)keys, (void)to;
}

void cpu_attention_half_add(int64_t keys, const char *weights, const char *values, float *squares) {
    (void)keys, (void)weights, (void)values, (void)squares;
}

void cpu_attention_half_correct(float *squares, const float *factor) {
    (void)squares, (void)factor;
}

#endif
