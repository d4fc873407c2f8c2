// quantized_vector.c - products of one row of whole numbers of 16 or 24 bits and columns of codes in place.
//
// Codes of four and eight bits are multiplied four columns at a time, by instructions that multiply 2 x 8 by
// 8 x 2 matrices of bytes: two columns by two parts of the row. Codes of six bits in groups of 16 are loaded
// as three vectors of every third byte, so that the lanes of a vector are four groups of a column, and four
// products at a time are added up in a lane.

#include "device/cpu/quantized/quantized.h"
#include "device/cpu/rows/lanes.h"

#if defined(__aarch64__)

#include <arm_neon.h>

enum { COLUMNS = 4 };

#define WITH_I8MM CPU_WITH("i8mm")
#define INLINE    WITH_I8MM static inline __attribute__((always_inline))

INLINE floats4 floats_at(const float *from) {
    return *(const floats_memory *)from;
}

INLINE floats4 add(floats4 sum, floats4 a, floats4 b) {
    __asm__("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
}

INLINE ints4 dot(ints4 sum, uint8x16_t w, chars16 x) {
    __asm__("usdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(w), "w"(x));
    return sum;
}

// Loads four numbers as f32. The source may be unaligned and shorter than 16 bytes.
INLINE floats4 numbers_at(zl_dtype dtype, const char *from) {
    floats4 r;
    uint64_t four;
    if (dtype == ZL_FLOAT32)
        return floats_at((const float *)(const void *)from);
    memcpy(&four, from, sizeof four);
    halves8 half = (halves8)(longs2){four};
    if (dtype == ZL_BFLOAT16)
        __asm__("shll %0.4s, %1.4h, #16" : "=w"(r) : "w"(half));
    else
        __asm__("fcvtl %0.4s, %1.4h" : "=w"(r) : "w"(half));
    return r;
}

// The addresses of four columns. Columns after the last repeat it.
struct columns {
    const uint8_t *code[COLUMNS];
    const char *scale[COLUMNS], *bias[COLUMNS];
};

// Four and eight bits ---------------------------------------------------------------------------------------

// Multiplies 32 codes of each of four columns by as many numbers of the row, in assembly: compiled code waits
// for the sums of a group before it reads the next. Here the sums of one group are finished while those of
// the next are computed, whose codes were read before.
//
// v0..v7: codes as they were read. v20..v27: pairs of columns, eight codes of each. v16..v19: the row. v28,
// v29: sums of two parts and two columns. v30, v31: those of the group before, while they are finished. v10:
// the scale of that group. v8: the sums of all groups.
#define READ_NIBBLES          \
    "ldr q0, [%[a], %[at]]\n" \
    "ldr q1, [%[b], %[at]]\n" \
    "ldr q2, [%[c], %[at]]\n" \
    "ldr q3, [%[d], %[at]]\n" \
    "add %[next], %[at], #16\n"
#define READ_BYTES                                     \
    "add %[next], %[at], #16\n"                        \
    "ldr q0, [%[a], %[at]]\nldr q1, [%[a], %[next]]\n" \
    "ldr q2, [%[b], %[at]]\nldr q3, [%[b], %[next]]\n" \
    "ldr q4, [%[c], %[at]]\nldr q5, [%[c], %[next]]\n" \
    "ldr q6, [%[d], %[at]]\nldr q7, [%[d], %[next]]\n" \
    "add %[next], %[at], #32\n"
#define ZIP(which, to, a, b) "zip" #which " v" #to ".2d, v" #a ".2d, v" #b ".2d\n"
#define PAIR_NIBBLES                                             \
    ZIP(1, 4, 0, 1)                                              \
    ZIP(1, 6, 2, 3)                                              \
    ZIP(2, 5, 0, 1)                                              \
    ZIP(2, 7, 2, 3)                                              \
    "and v20.16b, v4.16b, v9.16b\nand v24.16b, v6.16b, v9.16b\n" \
    "ushr v21.16b, v4.16b, #4\nushr v25.16b, v6.16b, #4\n"       \
    "and v22.16b, v5.16b, v9.16b\nand v26.16b, v7.16b, v9.16b\n" \
    "ushr v23.16b, v5.16b, #4\nushr v27.16b, v7.16b, #4\n"
#define PAIR_BYTES   \
    ZIP(1, 20, 0, 2) \
    ZIP(1, 24, 4, 6) \
    ZIP(2, 21, 0, 2) ZIP(2, 25, 4, 6) ZIP(1, 22, 1, 3) ZIP(1, 26, 5, 7) ZIP(2, 23, 1, 3) ZIP(2, 27, 5, 7)
#define MULTIPLY(sum, w, x) "usmmla v" #sum ".4s, v" #w ".16b, v" #x ".16b\n"
#define JOIN \
    "uzp1 v30.4s, v28.4s, v29.4s\nuzp2 v31.4s, v28.4s, v29.4s\nmovi v28.4s, #0\nmovi v29.4s, #0\n"
#define SHIFT               "shl v30.4s, v30.4s, #8\n"
#define UNITE               "add v30.4s, v30.4s, v31.4s\nscvtf v30.4s, v30.4s\n"
#define SCALE               "fmla v8.4s, v30.4s, v10.4s\n"

// With two parts per row.
#define TWO_ROW "ldp q16, q17, [%[x]]\nldp q18, q19, [%[x], #32]\nadd %[x], %[x], #64\n"
#define TWO_PRODUCTS                                                                          \
    MULTIPLY(28, 20, 16)                                                                      \
    MULTIPLY(29, 24, 16)                                                                      \
    MULTIPLY(28, 21, 17) MULTIPLY(29, 25, 17) UNITE MULTIPLY(28, 22, 18) MULTIPLY(29, 26, 18) \
        MULTIPLY(28, 23, 19) MULTIPLY(29, 27, 19)

// With three parts per row, next to a fourth that is 0. v16 and v17: the first and second part; v11 and v14:
// the others. v12, v13: sums of the third part. v18: those of the group before while they are finished,
// divided by 256.
#define THREE_ROW   "ldp q16, q11, [%[x]]\nldp q17, q14, [%[x], #32]\n"
#define THREE_JOIN  JOIN "uzp1 v18.4s, v12.4s, v13.4s\nmovi v12.4s, #0\nmovi v13.4s, #0\n"
#define THREE_UNITE UNITE "scvtf v18.4s, v18.4s, #8\nfadd v30.4s, v30.4s, v18.4s\n"
#define THREE_SLICE(a, c, x, low) \
    MULTIPLY(28, a, x) MULTIPLY(29, c, x) MULTIPLY(12, a, low) MULTIPLY(13, c, low)
#define THREE_PRODUCTS                                                                                      \
    THREE_SLICE(20, 24, 16, 11)                                                                             \
    "ldp q16, q11, [%[x], #64]\n" THREE_SLICE(                                                              \
        21, 25, 17, 14) "ldp q17, q14, [%[x], #96]\nadd %[x], %[x], #128\n" THREE_UNITE THREE_SLICE(22, 26, \
                                                                                                    16, 11) \
        THREE_SLICE(23, 27, 17, 14)

#define MULTIPLY_CODES(name, READ, PAIR, ROW, JOIN, PRODUCTS, UNITE)                                         \
    WITH_I8MM static floats4 name(const struct int_set *x, const struct columns *from, const float *scale,   \
                                  int64_t left) {                                                            \
        const int8_t *row = x->code;                                                                         \
        int64_t at = 0, next;                                                                                \
        floats4 sum;                                                                                         \
        __asm__ volatile(                                                                                    \
            "movi v8.4s, #0\nmovi v9.16b, #15\nmovi v10.4s, #0\nmovi v28.4s, #0\nmovi v29.4s, #0\n"          \
            "movi v12.4s, #0\nmovi v13.4s, #0\n" READ "1:\n" ROW JOIN PAIR                                   \
            "subs %[left], %[left], #1\ncsel %[at], %[next], xzr, ne\n" SHIFT READ PRODUCTS SCALE            \
            "ldr q10, [%[scale]], #16\nb.ne 1b\n" JOIN SHIFT UNITE SCALE "mov %[sum].16b, v8.16b\n"          \
            : [sum] "=&w"(sum), [x] "+r"(row), [scale] "+r"(scale), [left] "+r"(left), [at] "+r"(at),        \
              [next] "=&r"(next)                                                                             \
            : [a] "r"(from->code[0]), [b] "r"(from->code[1]), [c] "r"(from->code[2]), [d] "r"(from->code[3]) \
            : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", \
              "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",     \
              "v28", "v29", "v30", "v31", "memory", "cc");                                                   \
        return sum;                                                                                          \
    }
MULTIPLY_CODES(two_nibbles, READ_NIBBLES, PAIR_NIBBLES, TWO_ROW, JOIN, TWO_PRODUCTS, UNITE)
MULTIPLY_CODES(two_bytes, READ_BYTES, PAIR_BYTES, TWO_ROW, JOIN, TWO_PRODUCTS, UNITE)
MULTIPLY_CODES(three_nibbles, READ_NIBBLES, PAIR_NIBBLES, THREE_ROW, THREE_JOIN, THREE_PRODUCTS, THREE_UNITE)
MULTIPLY_CODES(three_bytes, READ_BYTES, PAIR_BYTES, THREE_ROW, THREE_JOIN, THREE_PRODUCTS, THREE_UNITE)

WITH_I8MM static floats4 multiply_codes(int bits, const struct int_set *x, const struct columns *c,
                                        const float *scale, int64_t left) {
    if (x->parts == 2)
        return (bits == 4 ? two_nibbles : two_bytes)(x, c, scale, left);
    return (bits == 4 ? three_nibbles : three_bytes)(x, c, scale, left) * 256;
}

// Repeats the scales of groups for every 32 codes, in place.
static void repeat_scales(float *scale, int64_t groups, int times) {
    for (int64_t g = groups - 1; times > 1 && g >= 0; g--)
        for (int i = times - 1; i >= 0; i--)
            memmove(scale + (g * times + i) * COLUMNS, scale + g * COLUMNS, COLUMNS * sizeof *scale);
}

// Returns the products of the biases of four columns and the sums of the row's groups.
INLINE floats4 multiply_biases(zl_dtype dtype, const struct columns *c, const float *sum, int64_t groups) {
    const int64_t item = dtype == ZL_FLOAT32 ? 4 : 2;
    floats4 all[COLUMNS] = {{0}};
    int64_t g = 0;
    for (; g + 4 <= groups; g += 4)
#pragma GCC unroll 4
        for (int i = 0; i < COLUMNS; i++)
            all[i] = add(all[i], numbers_at(dtype, c->bias[i] + g * item), floats_at(sum + g));
    for (; g < groups; g++)
        for (int i = 0; i < COLUMNS; i++) {
            float bias;
            dtype_convert(&bias, ZL_FLOAT32, c->bias[i] + g * item, dtype, 1);
            all[i][0] += bias * sum[g];
        }
    return lanes_sums_f32(all);
}

// Six bits --------------------------------------------------------------------------------------------------

// Unpacks 64 codes of a column: out[i] has codes i, i + 4, i + 8 and so on.
INLINE void read_sixes(const uint8_t *from, uint8x16_t *out) {
    const uint8x16x3_t three = vld3q_u8(from);
    const uint8x16_t a = three.val[0], b = three.val[1], c = three.val[2], six = vdupq_n_u8(63);
    out[0] = vandq_u8(a, six);
    out[1] = vandq_u8(vsliq_n_u8(vshrq_n_u8(a, 6), b, 2), six);
    out[2] = vandq_u8(vsliq_n_u8(vshrq_n_u8(b, 4), c, 4), six);
    out[3] = vshrq_n_u8(c, 2);
}

// Computes the scaled sums of groups, and of biases, of two columns, with four groups at a time in lanes. A
// row of three parts is stored with space for four.
INLINE void multiply_sixes(int parts, zl_dtype dtype, const struct int_set *x, const struct columns *from,
                           int first, floats4 *sum) {
    const struct columns c = *from;
    const int64_t item = dtype == ZL_FLOAT32 ? 4 : 2;
    const int step = parts == 3 ? 4 : 2;
    const chars16 *row = (const chars16 *)(const void *)x->code;
    floats4 sums[2] = {{0}, {0}}, more[2] = {{0}, {0}}, *biases = parts == 3 ? more : sums;
    for (int64_t g = 0; g < x->groups; g += 4, row += 4 * step) {
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            uint8x16_t code[4];
            ints4 part[3] = {{0}, {0}, {0}};
            read_sixes(c.code[first + i] + g * 12, code);
#pragma GCC unroll 4
            for (int n = 0; n < 4; n++)
#pragma GCC unroll 3
                for (int p = 0; p < parts; p++)
                    part[p] = dot(part[p], code[n], row[step * n + p]);
            floats4 all = __builtin_convertvector((part[0] << 8) + part[1], floats4);
            if (parts == 3)
                all += __builtin_convertvector(part[2], floats4) * (1.0f / 256);
            sums[i] = add(sums[i], all, numbers_at(dtype, c.scale[first + i] + g * item));
            biases[i] =
                add(biases[i], floats_at(x->sum + g), numbers_at(dtype, c.bias[first + i] + g * item));
        }
    }
    sum[0] = parts == 3 ? sums[0] * 256 + more[0] : sums[0];
    sum[1] = parts == 3 ? sums[1] * 256 + more[1] : sums[1];
}

INLINE floats4 four_of_sixes(zl_dtype dtype, const struct int_set *x, const struct columns *c) {
    floats4 sum[COLUMNS];
    if (x->parts == 3) {
        multiply_sixes(3, dtype, x, c, 0, sum);
        multiply_sixes(3, dtype, x, c, 2, sum + 2);
    } else {
        multiply_sixes(2, dtype, x, c, 0, sum);
        multiply_sixes(2, dtype, x, c, 2, sum + 2);
    }
    return lanes_sums_f32(sum);
}

// Columns ---------------------------------------------------------------------------------------------------

WITH_I8MM static floats4 biases_of(zl_dtype dtype, const struct columns *c, const float *sum,
                                   int64_t groups) {
    switch (dtype) {
    case ZL_FLOAT16: return multiply_biases(ZL_FLOAT16, c, sum, groups);
    case ZL_BFLOAT16: return multiply_biases(ZL_BFLOAT16, c, sum, groups);
    default: return multiply_biases(ZL_FLOAT32, c, sum, groups);
    }
}

WITH_I8MM static floats4 sixes_of(zl_dtype dtype, const struct int_set *x, const struct columns *c) {
    switch (dtype) {
    case ZL_FLOAT16: return four_of_sixes(ZL_FLOAT16, x, c);
    case ZL_BFLOAT16: return four_of_sixes(ZL_BFLOAT16, x, c);
    default: return four_of_sixes(ZL_FLOAT32, x, c);
    }
}

WITH_I8MM static floats4 one_of(const struct quantized *q, const struct int_set *x, const struct columns *c,
                                float *scale) {
    if (q->u.bits == 6)
        return sixes_of(q->u.dtype, x, c);
    cpu_int_i8mm.turn(q->u.dtype, c->scale, q->groups, scale);
    repeat_scales(scale, q->groups, q->u.group / 32);
    floats4 sum = multiply_codes(q->u.bits, x, c, scale, q->k / 32);
    return sum + biases_of(q->u.dtype, c, x->sum, q->groups);
}

// Returns four columns, of which the first is `first` and the others are `apart` columns from each other.
// Columns after the last repeat it.
static struct columns columns_at(const struct quantized *q, int64_t at, int64_t first, int64_t apart,
                                 int64_t last) {
    const int64_t codes = q->groups * q->u.group * q->u.bits / 8, numbers = q->groups * q->scale_item;
    struct columns c;
    for (int n = 0; n < COLUMNS; n++) {
        int64_t column = MIN_OF(first + n * apart, last);
        c.code[n] = quantized_words(q, at) + column * codes;
        c.scale[n] = q->scales + at * q->scale_item + column * numbers;
        c.bias[n] = q->biases + at * q->scale_item + column * numbers;
    }
    return c;
}

// Reads columns in four streams, each without gaps, which is fastest if they come from memory.
void cpu_vector_i8mm(const struct quantized *q, const struct int_set *x, int64_t at, int64_t columns,
                     float *scale, float *out) {
    const int64_t each = columns / COLUMNS;
    for (int64_t i = 0; i < each; i++) {
        struct columns c = columns_at(q, at, i, each, columns - 1);
        floats4 four = one_of(q, x, &c, scale) * x->factor[0];
        for (int n = 0; n < COLUMNS; n++)
            out[i + n * each] = four[n];
    }
    for (int64_t i = COLUMNS * each; i < columns; i += COLUMNS) {
        struct columns c = columns_at(q, at, i, 1, columns - 1);
        floats4 four = one_of(q, x, &c, scale) * x->factor[0];
        *(floats_memory *)(out + i) = four; // there is room for columns after the last
    }
}

bool cpu_can_vector_i8mm(const struct quantized *q) {
    bool even = q->u.bits == 4 || q->u.bits == 8;
    return q->m == 1 && q->u.mode == QUANT_AFFINE &&
           (even ? q->u.group >= 32 : q->u.bits == 6 && q->u.group == 16 && q->groups % 4 == 0);
}

#endif
