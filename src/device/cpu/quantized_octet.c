// quantized_octet.c - eight rows of whole numbers times eight columns of signed codes, by instructions that multiply 2 x 8 bytes
// with 8 x 2: a vector of sums is of two columns and two rows.
//
// The parts of the numbers of a row go into the same sums, the highest first: in between, a sum is multiplied by 256. So it has
// to fit 32 bits, and becomes a float once a block. Where it would not, the last part has sums of its own.

#include "device/cpu/quantized.h"
#include "device/cpu/lanes.h"

#if defined(__aarch64__)

#define WITH_I8MM CPU_WITH("i8mm")
#define INLINE    WITH_I8MM static inline __attribute__((always_inline))

enum { SLICE = 8, PAIRS = 4 }; // of rows, and of columns
enum { ROW_LEAST = 4 };        // rows that take half the time

typedef ints4 int_tile[PAIRS][PAIRS]; // [rows][columns]
typedef floats4 float_tile[PAIRS][PAIRS];

INLINE floats4 add(floats4 sum, floats4 a, floats4 b) {
    __asm__("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
}

INLINE ints4 multiply(ints4 sum, chars16 w, chars16 x) {
    __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(w), "w"(x));
    return sum;
}

// The first of a sum. Zeros of the compiler's are copies, which take time.
INLINE ints4 start(chars16 w, chars16 x) {
    ints4 sum;
    __asm__("movi %0.4s, #0\nsmmla %0.4s, %1.16b, %2.16b" : "=&w"(sum) : "w"(w), "w"(x));
    return sum;
}

// Of four columns' numbers those of each pair, each twice.
INLINE void twice(const float *const *from, int64_t at, floats4 *out) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        floats4 four = *(const floats_memory *)(from[i] + at);
        out[2 * i] = __builtin_shufflevector(four, four, 0, 0, 1, 1);
        out[2 * i + 1] = __builtin_shufflevector(four, four, 2, 2, 3, 3);
    }
}

// The numbers of a pair of rows, twice.
INLINE floats4 both(const float *from) {
    floats4 r;
    __asm__("ld1r {%0.2d}, [%1]" : "=w"(r) : "r"(from), "m"(*(const char(*)[8])(const void *)from));
    return r;
}

// Sums -------------------------------------------------------------------------------------------------------------------

// A product of some groups.
struct octet {
    const struct int_set *x;
    const struct int_columns *const *w;
    int64_t from, to;
};

enum turn { FIRST, SHIFTED, LATER }; // of a block; of a part; another

INLINE void add_slice(int pairs, enum turn turn, const chars16 *x, const chars16 *const *w, int64_t at,
                      int_tile sum) {
    const chars16 column[PAIRS] = {w[0][at], w[0][at + 1], w[1][at], w[1][at + 1]};
#pragma GCC unroll 4
    for (int r = 0; r < pairs; r++)
#pragma GCC unroll 4
        for (int c = 0; c < PAIRS; c++)
            sum[r][c] = turn == FIRST
                            ? start(column[c], x[r])
                            : multiply(turn == SHIFTED ? sum[r][c] << 8 : sum[r][c], column[c], x[r]);
}

// Sums of a block of so many slices. A slice of x is `step` vectors, of which those of the first part are at x.
INLINE void multiply_block(int pairs, int parts, int slices, int step, const chars16 *x,
                           const chars16 *const *w, int64_t at, int_tile sum) {
#pragma GCC unroll 3
    for (int p = 0; p < parts; p++)
#pragma GCC unroll 4
        for (int s = 0; s < slices; s++) {
            add_slice(pairs, s ? LATER : p ? SHIFTED : FIRST, x + s * step + p * PAIRS, w, at + 2 * s, sum);
            __asm__ volatile(
                "" ::
                    : "memory"); // else slices are read too early for as many vectors as there are
        }
}

INLINE void add_block(int pairs, int_tile sum, const floats4 *scale, float_tile all) {
#pragma GCC unroll 4
    for (int r = 0; r < pairs; r++)
#pragma GCC unroll 4
        for (int c = 0; c < PAIRS; c++)
            all[r][c] = add(all[r][c], __builtin_convertvector(sum[r][c], floats4), scale[c]);
}

// Adds the products of some parts of so many, from one on, and of some groups.
INLINE void multiply_parts(int pairs, int parts, int of, int slices, int part, const struct octet *o,
                           float_tile all) {
    const int step = of * PAIRS;
    const struct int_columns *const *w = o->w;
    const int64_t before = o->from * w[0]->group / SLICE;
    const chars16 *row = (const chars16 *)(const void *)o->x->code + before * step + part * PAIRS;
    const chars16 *const column[2] = {(const chars16 *)(const void *)w[0]->zipped,
                                      (const chars16 *)(const void *)w[1]->zipped};
    const float *const scales[2] = {w[0]->scale, w[1]->scale};
    int64_t at = 2 * before;
    for (int64_t g = o->from; g < o->to; g++)
        for (int i = 0; i < w[0]->group; i += slices * SLICE, row += slices * step, at += 2 * slices) {
            int_tile sum;
            floats4 scale[PAIRS];
            multiply_block(pairs, parts, slices, step, row, column, at, sum);
            twice(scales, g * 4, scale);
            add_block(pairs, sum, scale, all);
        }
}

typedef void parts_fn(int part, const struct octet *o, float_tile all);
#define PARTS(pairs, parts, of, slices)                                                              \
    WITH_I8MM static void parts_##pairs##_##parts##_##of##_##slices(int part, const struct octet *o, \
                                                                    float_tile all) {                \
        multiply_parts(pairs, parts, of, slices, part, o, all);                                      \
    }
#define ALL_PARTS(pairs, slices) \
    PARTS(pairs, 1, 3, slices)   \
    PARTS(pairs, 2, 3, slices)   \
    PARTS(pairs, 3, 3, slices) PARTS(pairs, 2, 2, slices)
// Of three parts so many; all of two.
#define ROW(pairs, slices)                                                                        \
    {                                                                                             \
        parts_##pairs##_2_2_##slices, parts_##pairs##_1_3_##slices, parts_##pairs##_2_3_##slices, \
            parts_##pairs##_3_3_##slices                                                          \
    }
ALL_PARTS(2, 2)
ALL_PARTS(2, 4)
ALL_PARTS(4, 2)
ALL_PARTS(4, 4)

// Brings biases and sums of groups, which are read in the end, into the cache while there is something else to do.
static void fetch_biases(const struct int_set *x, const struct int_columns *const *w) {
    for (int64_t i = 0; i < x->groups * 4; i += 16) {
        __builtin_prefetch(w[0]->offset + i);
        __builtin_prefetch(w[1]->offset + i);
        __builtin_prefetch(x->sum + 2 * i);
        __builtin_prefetch(x->sum + 2 * i + 16);
    }
}

void cpu_octet_i8mm(const struct int_set *x, const struct int_columns *const *w, int64_t from, int64_t to,
                    struct int_sums *sum) {
    static parts_fn *const kernels[2][2][4] = {{ROW(2, 2), ROW(2, 4)}, {ROW(4, 2), ROW(4, 4)}};
    parts_fn *const *kernel = kernels[x->rows > ROW_LEAST][w[0]->group > 2 * SLICE];
    const struct octet o = {x, w, from, to};
    if (to == x->groups && (w[0]->is_offset || w[1]->is_offset))
        fetch_biases(x, w);
    kernel[x->parts == 2 ? 0 : x->together](0, &o, (floats4(*)[PAIRS])(void *)sum->all);
    if (x->together < x->parts)
        kernel[1](x->together, &o, (floats4(*)[PAIRS])(void *)sum->low);
}

// Results ----------------------------------------------------------------------------------------------------------------

// Biases times the sums of the rows' groups.
WITH_I8MM static void add_biases(const struct int_set *x, const struct int_columns *const *w,
                                 float_tile out) {
    const float *const biases[2] = {w[0]->offset, w[1]->offset};
    float_tile all = {{{0}}};
    for (int64_t g = 0; g < x->groups; g++) {
        floats4 bias[PAIRS];
        twice(biases, g * 4, bias);
#pragma GCC unroll 4
        for (int r = 0; r < PAIRS; r++) {
            floats4 sum = both(x->sum + g * INT_OCTET + 2 * r);
#pragma GCC unroll 4
            for (int c = 0; c < PAIRS; c++)
                all[r][c] = add(all[r][c], bias[c], sum);
        }
    }
    memcpy(out, all, sizeof all);
}

static void write_rows(const struct int_set *x, float_tile all, float *out, int64_t out_row) {
    for (int r = 0; r < x->rows; r++) {
        const floats4 *four = all[r / 2];
        for (int half = 0; half < 2; half++, four += 2)
            *(floats_memory *)(out + r * out_row + 4 * half) =
                r % 2 ? __builtin_shufflevector(four[0], four[1], 1, 3, 5, 7)
                      : __builtin_shufflevector(four[0], four[1], 0, 2, 4, 6);
    }
}

WITH_I8MM void cpu_octet_results_i8mm(const struct int_set *x, const struct int_columns *const *w,
                                      const struct int_sums *sum, float *out, int64_t out_row) {
    const floats4 *high = (const floats4 *)(const void *)sum->all,
                  *low = (const floats4 *)(const void *)sum->low;
    float_tile all, bias = {{{0}}};
    if (w[0]->is_offset || w[1]->is_offset)
        add_biases(x, w, bias);
    for (int r = 0; r < PAIRS; r++)
        for (int c = 0; c < PAIRS; c++, high++, low++) {
            floats4 numbers = x->together < x->parts ? *high * 256 + *low : *high;
            all[r][c] = numbers * both(x->factor + 2 * r) + bias[r][c];
        }
    write_rows(x, all, out, out_row);
}

#endif
