// quantized_quad.c - four rows of whole numbers of 24 bits times four columns of codes, by instructions that multiply 2 x 8 bytes
// with 8 x 2: a vector of sums is of two columns and two rows, of one part of three.

#include "device/cpu/quantized.h"
#include "device/cpu/lanes.h"

#if defined(__aarch64__)

#define WITH_I8MM CPU_WITH("i8mm")
#define INLINE    WITH_I8MM static inline __attribute__((always_inline))

enum { COLUMNS = 4, BLOCK = 32 }; // codes of a column, which are four slices

INLINE floats4 floats_at(const float *from) {
    return *(const floats_memory *)from;
}

INLINE floats4 add(floats4 sum, floats4 a, floats4 b) {
    __asm__("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
}

// Groups of 32 and more -------------------------------------------------------------------------------------------------

// As machine code: what a compiler makes of it waits for the sums of a block before it starts the next. Here they are made floats
// and scaled while those of the next are made, of which they are as many again: v8..v19 and v20..v31, in turns. Of these
// twelve, four are of the first parts of the rows, then of the second and of the third.
//
// Columns are in v0 and v1, rows in v2 and v3, sums of all blocks in v4..v7. A sum is 256 times the first part plus the second
// plus a 256th of the third.
#define PART(MULTIPLY, at, a, b, c, d) \
    "ldp q2, q3, [%[x], #" #at "]\n" MULTIPLY(a, 0, 2) MULTIPLY(b, 1, 2) MULTIPLY(c, 0, 3) MULTIPLY(d, 1, 3)
#define UNITE(high, low)  "shl v" #high ".4s, v" #high ".4s, #8\nscvtf v" #low ".4s, v" #low ".4s, #8\n"
#define ADD(high, middle) "add v" #high ".4s, v" #high ".4s, v" #middle ".4s\nldr q" #middle ", [%[before]]\n"
#define CONVERT(high)     "scvtf v" #high ".4s, v" #high ".4s\n"
#define PAIR(zip, middle, high, low)                                                                    \
    zip " v" #middle ".4s, v" #middle ".4s, v" #middle ".4s\nfadd v" #high ".4s, v" #high ".4s, v" #low \
        ".4s\n"
#define SCALE(sum, high, middle, low)                                                           \
    "fmla v" #sum ".4s, v" #high ".4s, v" #middle ".4s\nmovi v" #high ".4s, #0\nmovi v" #middle \
    ".4s, #0\nmovi v" #low ".4s, #0\n"

// Products of a slice into p0..p11; one vector of the sums before is finished, of columns that zip tells.
#define SLICE(MULTIPLY, p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, zip, sum, high, middle, low) \
    "ldp q0, q1, [%[w]], #32\n" UNITE(high, low) PART(MULTIPLY, 0, p0, p1, p2, p3) ADD(high, middle)   \
        CONVERT(high) PART(MULTIPLY, 32, p4, p5, p6, p7) PAIR(zip, middle, high, low)                  \
            PART(MULTIPLY, 64, p8, p9, p10, p11) "add %[x], %[x], #96\n" SCALE(sum, high, middle, low)
#define FINISH(zip, sum, high, middle, low) \
    UNITE(high, low)                        \
    ADD(high, middle) CONVERT(high) PAIR(zip, middle, high, low) SCALE(sum, high, middle, low)

#define SLICES(M, P, Q)          \
    P(SLICE, M, Q(0, "zip1", 4)) \
    P(SLICE, M, Q(1, "zip2", 5)) P(SLICE, M, Q(2, "zip1", 6)) P(SLICE, M, Q(3, "zip2", 7))
#define CALL(DO, ...)         DO(__VA_ARGS__)
#define LOW_SUMS(DO, M, ...)  CALL(DO, M, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, __VA_ARGS__)
#define HIGH_SUMS(DO, M, ...) CALL(DO, M, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, __VA_ARGS__)
#define LOW_0                 8, 12, 16
#define LOW_1                 9, 13, 17
#define LOW_2                 10, 14, 18
#define LOW_3                 11, 15, 19
#define HIGH_0                20, 24, 28
#define HIGH_1                21, 25, 29
#define HIGH_2                22, 26, 30
#define HIGH_3                23, 27, 31
#define LOW(i, zip, sum)      zip, sum, LOW_##i
#define HIGH(i, zip, sum)     zip, sum, HIGH_##i
#define FINISH_ALL(Q)             \
    CALL(FINISH, Q(0, "zip1", 4)) \
    CALL(FINISH, Q(1, "zip2", 5)) CALL(FINISH, Q(2, "zip1", 6)) CALL(FINISH, Q(3, "zip2", 7))

// The scale of the block that was: a group is so many of them.
#define NEXT_SCALE                                                                              \
    "mov %[before], %[scale]\nsubs %[left], %[left], #1\ncsel %[left], %[times], %[left], eq\n" \
    "cset %[step], eq\nadd %[scale], %[scale], %[step], lsl #4\nsubs %[blocks], %[blocks], #1\n"
#define ZERO(a, b, c, d) \
    "movi v" #a ".4s, #0\nmovi v" #b ".4s, #0\nmovi v" #c ".4s, #0\nmovi v" #d ".4s, #0\n"
#define START          \
    ZERO(4, 5, 6, 7)   \
    ZERO(8, 9, 10, 11) \
    ZERO(12, 13, 14, 15) ZERO(16, 17, 18, 19) ZERO(20, 21, 22, 23) ZERO(24, 25, 26, 27) ZERO(28, 29, 30, 31)

#define MULTIPLY_ALL(name, MULTIPLY)                                                                        \
    WITH_I8MM static void name(const struct int_set *x, const struct int_columns *w, floats4 *sum) {        \
        const int8_t *row = x->code, *code = w->zipped;                                                     \
        const float *scale = w->scale, *before = scale;                                                     \
        int64_t times = w->group / BLOCK, left = times, blocks = x->groups * times, step;                   \
        __asm__ volatile(START "1:\n" SLICES(MULTIPLY, LOW_SUMS, HIGH) NEXT_SCALE                           \
                         "b.eq 2f\n" SLICES(MULTIPLY, HIGH_SUMS, LOW) NEXT_SCALE                            \
                         "b.ne 1b\n" FINISH_ALL(HIGH) "b 3f\n2:\n" FINISH_ALL(                              \
                             LOW) "3:\n"                                                                    \
                                  "stp q4, q5, [%[sum]]\nstp q6, q7, [%[sum], #32]\n"                       \
                         : [x] "+&r"(row), [w] "+&r"(code), [scale] "+&r"(scale), [before] "+&r"(before),   \
                           [left] "+&r"(left), [blocks] "+&r"(blocks), [step] "=&r"(step)                   \
                         : [times] "r"(times), [sum] "r"(sum)                                               \
                         : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", \
                           "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23",     \
                           "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "memory", "cc");         \
    }
#define UNSIGNED(sum, w, x) "usmmla v" #sum ".4s, v" #w ".16b, v" #x ".16b\n"
#define SIGNED(sum, w, x)   "smmla v" #sum ".4s, v" #w ".16b, v" #x ".16b\n"
MULTIPLY_ALL(multiply_unsigned, UNSIGNED)
MULTIPLY_ALL(multiply_signed, SIGNED)

// Groups of 16 ----------------------------------------------------------------------------------------------------------

INLINE ints4 multiply(bool is_signed, ints4 sum, bytes16 w, chars16 x) {
    if (is_signed)
        __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(w), "w"(x));
    else
        __asm__("usmmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(w), "w"(x));
    return sum;
}

INLINE void multiply_slice(bool is_signed, const chars16 *x, const bytes16 *w, ints4 (*part)[4]) {
#pragma GCC unroll 3
    for (int p = 0; p < 3; p++)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            part[p][i] = multiply(is_signed, part[p][i], w[i % 2], x[2 * p + i / 2]);
}

INLINE void multiply_short(bool is_signed, const struct int_set *x, const struct int_columns *w,
                           floats4 *sum) {
    const chars16 *row = (const chars16 *)(const void *)x->code;
    const bytes16 *code = (const bytes16 *)(const void *)w->zipped;
    floats4 high[4] = {{0}, {0}, {0}, {0}}, low[4] = {{0}, {0}, {0}, {0}};
    for (int64_t g = 0; g < x->groups; g++) {
        ints4 part[3][4] = {{{0}}};
#pragma GCC unroll 1 // else there are too few vectors
        for (int i = 0; i < 2; i++, row += 6, code += 2)
            multiply_slice(is_signed, row, code, part);
        const floats4 scale = floats_at(w->scale + g * 4);
        const floats4 by[2] = {__builtin_shufflevector(scale, scale, 0, 0, 1, 1),
                               __builtin_shufflevector(scale, scale, 2, 2, 3, 3)};
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            high[i] = add(high[i], __builtin_convertvector(part[0][i], floats4), by[i % 2]);
            low[i] = add(low[i], __builtin_convertvector((part[1][i] << 8) + part[2][i], floats4), by[i % 2]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        sum[i] = high[i] * 256 + low[i] * (1.0f / 256);
}

WITH_I8MM static void short_unsigned(const struct int_set *x, const struct int_columns *w, floats4 *sum) {
    multiply_short(false, x, w, sum);
}

WITH_I8MM static void short_signed(const struct int_set *x, const struct int_columns *w, floats4 *sum) {
    multiply_short(true, x, w, sum);
}

// Results ----------------------------------------------------------------------------------------------------------------

// Biases, which are float32, times the sums of a row's groups.
static float bias_of(const struct int_columns *w, const float *sum, int64_t from, int64_t to, int column) {
    const float *bias = (const float *)(const void *)w->bias[column];
    float all = 0;
    for (int64_t g = from; g < to; g++)
        all += bias[g] * sum[g];
    return all;
}

// Sums of the lanes of four vectors.
INLINE floats4 sums_of(const floats4 *x) {
    floats4 a =
        __builtin_shufflevector(x[0], x[1], 0, 2, 4, 6) + __builtin_shufflevector(x[0], x[1], 1, 3, 5, 7);
    floats4 b =
        __builtin_shufflevector(x[2], x[3], 0, 2, 4, 6) + __builtin_shufflevector(x[2], x[3], 1, 3, 5, 7);
    return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
}

// Those of four rows, some groups at a time.
WITH_I8MM static void add_four_biases(const struct int_set *x, const struct int_columns *w, int64_t groups,
                                      float *out, int64_t out_row) {
    floats4 all[4][COLUMNS] = {{{0}}};
    for (int64_t g = 0; g < groups; g += 4)
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++)
#pragma GCC unroll 4
            for (int i = 0; i < COLUMNS; i++)
                all[r][i] = add(all[r][i], floats_at((const float *)(const void *)w->bias[i] + g),
                                floats_at(x->sum + r * x->groups + g));
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++)
        *(floats_memory *)(out + r * out_row) += sums_of(all[r]);
}

static void add_biases(const struct int_set *x, const struct int_columns *w, float *out, int64_t out_row) {
    const int64_t whole = x->rows == 4 ? x->groups / 4 * 4 : 0;
    if (whole > 0)
        add_four_biases(x, w, whole, out, out_row);
    for (int r = 0; whole < x->groups && r < x->rows; r++)
        for (int i = 0; i < COLUMNS; i++)
            out[r * out_row + i] += bias_of(w, x->sum + r * x->groups, whole, x->groups, i);
}

void cpu_quad_i8mm(const struct int_set *x, const struct int_columns *w, float *out, int64_t out_row) {
    const bool is_long = w->group >= BLOCK;
    floats4 sum[4];
    if (w->bias[0])
        (is_long ? multiply_unsigned : short_unsigned)(x, w, sum);
    else
        (is_long ? multiply_signed : short_signed)(x, w, sum);
    for (int r = 0; r < x->rows; r++) {
        const floats4 *pair = sum + r / 2 * 2;
        floats4 four = r % 2 ? __builtin_shufflevector(pair[0], pair[1], 1, 3, 5, 7)
                             : __builtin_shufflevector(pair[0], pair[1], 0, 2, 4, 6);
        *(floats_memory *)(out + r * out_row) = four * (256 * x->factor[r]);
    }
    if (w->bias[0])
        add_biases(x, w, out, out_row);
}

#endif
