// quantized_dozen.c - products of twelve rows of whole numbers and four columns of signed codes, by
// instructions that multiply 2 x 8 by 8 x 2 matrices of bytes: a vector has the sums of two columns and two
// rows.
//
// All parts of the numbers of a row are added to the same sums, the highest part first: in between, a sum is
// multiplied by 256. So it has to fit into 32 bits. Once per block, it is multiplied by the block's share:
// its scale divided by the column's unit, as an integer of which 2^31 is 1. The upper half of the product is
// added to a total. That takes one instruction, where floats would take three. With codes of eight bits, the
// last of three parts has sums of its own, as they would not fit otherwise.
//
// It is written in assembly, as gemm_neon.c is: v8..v19 hold totals, v20..v31 sums, v0 and v1 codes of
// columns, v2 and v3 codes of rows, which are read right before they are used, v4..v7 shares. The sums of a
// block are added to the totals between the first products of the next block.

#include "device/cpu/quantized/quantized.h"
#include "device/cpu/rows/lanes.h"

#include <float.h>
#include <math.h>

#if defined(__aarch64__)

#if defined(__clang__)
#define WITH_I8MM __attribute__((target("i8mm,rdm")))
#else
#define WITH_I8MM CPU_WITH("i8mm")
#endif
#define INLINE WITH_I8MM static inline __attribute__((always_inline))

enum { SLICE = 8, BLOCK = 4 * SLICE, COLUMNS = 4, PAIRS = INT_DOZEN / 2, VECTORS_OF_PAIR = COLUMNS / 2 };
enum { LOW_BITS = 4 }; // bits by which shares are shifted for separate sums of the last part

typedef ints4 ints_memory __attribute__((aligned(4), may_alias));

#define SHARE_MOST (1 - 0x1p-16) // rounding makes sums a little larger

// Shares ----------------------------------------------------------------------------------------------------

// Finds, for each of four columns, the largest magnitude of a scale, and the largest sum of the magnitudes of
// `step` scales, whose groups are multiplied at once.
INLINE void sizes_of(const float *scale, int64_t groups, int64_t step, floats4 *largest, floats4 *most) {
    *largest = *most = (floats4){0};
    for (int64_t from = 0; from < groups; from += step) {
        floats4 sum = {0};
        for (int64_t g = from; g < MIN_OF(from + step, groups); g++) {
            floats4 size = *(const floats_memory *)(scale + g * COLUMNS);
            __asm__("fabs %0.4s, %0.4s" : "+w"(size));
            sum += size;
            __asm__("fmax %0.4s, %0.4s, %1.4s" : "+w"(*largest) : "w"(size));
        }
        __asm__("fmax %0.4s, %0.4s, %1.4s" : "+w"(*most) : "w"(sum));
    }
}

// Returns what the scales of each column are multiplied by, and sets its unit. The products, which are the
// shares, are then less than 1. So are totals in units of 2^31 times `one`: sums of shares times sums of
// groups, which are at most `products`.
INLINE floats4 times_of(const float *scale, int64_t groups, int64_t step, double products, double one,
                        float *unit) {
    floats4 largest, most, times;
    sizes_of(scale, groups, step, &largest, &most);
    for (int c = 0; c < COLUMNS; c++) {
        double size = (double)largest[c], sum = MIN_OF((double)most[c], size * (double)step);
        double all = SHARE_MOST / MAX_OF(size, sum * products / one * 0x1p-31);
        times[c] = size > 0 && size < INFINITY ? (float)MIN_OF(all, (double)FLT_MAX) : 0;
        unit[c] = times[c] > 0 ? (float)(one / (double)times[c])
                               : largest[c]; // 0, or not finite, so that results are not either
    }
    return times;
}

WITH_I8MM void cpu_shares_i8mm(const float *scale, int64_t groups, int group, double product, bool low,
                               int32_t *share, float *unit) {
    const int64_t step = MAX_OF(INT_CODES_MOST / group, 1);
    const floats4 times = times_of(scale, groups, step, product * group, low ? 1 << LOW_BITS : 1, unit);
    ints_memory *to = (ints_memory *)share;
    for (int64_t g = 0; g < groups; g++) {
        ints4 part, below;
        __asm__("fcvtzs %0.4s, %1.4s, #31"
                : "=w"(part)
                : "w"(*(const floats_memory *)(scale + g * COLUMNS) * times));
        below = part >> LOW_BITS;
        for (int at = 0; at < group; at += BLOCK) {
            *to++ = __builtin_shufflevector(part, part, 0, 0, 1, 1);
            *to++ = __builtin_shufflevector(part, part, 2, 2, 3, 3);
            if (low) {
                *to++ = __builtin_shufflevector(below, below, 0, 0, 1, 1);
                *to++ = __builtin_shufflevector(below, below, 2, 2, 3, 3);
            }
        }
    }
}

// Totals ----------------------------------------------------------------------------------------------------

// LOAD_X loads the codes of a pair of rows at a part and a slice, LOAD_W those of two columns at a slice.
#define LOAD_X(reg, part, slice, pair) \
    "ldr q" #reg ", [%[x], #(" #slice " * %c[step] + " #part " * 96 + " #pair " * 16)]\n"
#define LOAD_W(reg, slice) "ldr q" #reg ", [%[w], #(" #slice " * 32 + " #reg " * 16)]\n"
#define SMMLA(sum, w, x)   "smmla v" #sum ".4s, v" #w ".16b, v" #x ".16b\n"

// What is done to a sum before the first product of the next part, interleaved with other products so that
// they do not wait for it.
#define ADD_TO(total, sum, share)                             \
    "sqrdmlah v" #total ".4s, v" #sum ".4s, v" #share ".4s\n" \
    "movi v" #sum ".4s, #0\n"
#define TIMES(sum, bits)    "shl v" #sum ".4s, v" #sum ".4s, #" #bits "\n"
#define TOTAL_0(total, sum) ADD_TO(total, sum, 6)
#define TOTAL_1(total, sum) ADD_TO(total, sum, 7)
#define LOW_0(total, sum)   ADD_TO(total, sum, 4)
#define LOW_1(total, sum)   ADD_TO(total, sum, 5)
#define KEEP(total, sum, w)
#define SHIFT(total, sum, w)   TIMES(sum, 8)
#define TOTAL(total, sum, w)   TOTAL_##w(total, sum)
#define LOW(total, sum, w)     LOW_##w(total, sum)
#define SHIFTED(total, sum, w) TIMES(sum, 4) TOTAL_##w(total, sum)

// PAIR multiplies a pair of rows, whose codes are in register x, by four columns. In between, it applies DO
// to the sums of another pair and loads what comes next.
#define PAIR(x, s0, s1, next, DO, t0, t1, sum0, sum1) \
    DO(t0, sum0, 0) SMMLA(s0, 0, x) next DO(t1, sum1, 1) SMMLA(s1, 1, x)
#define LAST(s0, s1, part, slice, DO, t0, t1, sum0, sum1) \
    PAIR(3, s0, s1, LOAD_X(2, part, slice, 0) LOAD_W(0, slice), DO, t0, t1, sum0, sum1) LOAD_W(1, slice)

// Multiplies one slice of 2, 4 or 6 pairs of rows, and loads what the next slice begins with. DO is applied
// to the previous sums of this slice, NEXT to those of the next one.
#define SLICE_2(DO, p, s, NEXT, next_p, next_s)             \
    PAIR(2, 20, 21, LOAD_X(3, p, s, 1), DO, 10, 11, 22, 23) \
    LAST(22, 23, next_p, next_s, NEXT, 8, 9, 20, 21)
#define SLICE_4(DO, p, s, NEXT, next_p, next_s)             \
    PAIR(2, 20, 21, LOAD_X(3, p, s, 1), DO, 12, 13, 24, 25) \
    PAIR(3, 22, 23, LOAD_X(2, p, s, 2), DO, 14, 15, 26, 27) \
    PAIR(2, 24, 25, LOAD_X(3, p, s, 3), NEXT, 8, 9, 20, 21) \
    LAST(26, 27, next_p, next_s, NEXT, 10, 11, 22, 23)
#define SLICE_6(DO, p, s, NEXT, next_p, next_s)             \
    PAIR(2, 20, 21, LOAD_X(3, p, s, 1), DO, 12, 13, 24, 25) \
    PAIR(3, 22, 23, LOAD_X(2, p, s, 2), DO, 14, 15, 26, 27) \
    PAIR(2, 24, 25, LOAD_X(3, p, s, 3), DO, 16, 17, 28, 29) \
    PAIR(3, 26, 27, LOAD_X(2, p, s, 4), DO, 18, 19, 30, 31) \
    PAIR(2, 28, 29, LOAD_X(3, p, s, 5), NEXT, 8, 9, 20, 21) \
    LAST(30, 31, next_p, next_s, NEXT, 10, 11, 22, 23)

// PART_2 and PART_4 multiply a part of a block of two or four slices. What follows is another part or, as
// slice 2 or 4, the next block. READ loads shares.
#define PART_2(SLICE, DO, READ, p, NEXT, next_p, next_s) \
    SLICE(DO, p, 0, KEEP, p, 1) READ SLICE(KEEP, p, 1, NEXT, next_p, next_s)
#define PART_4(SLICE, DO, READ, p, NEXT, next_p, next_s) \
    SLICE(DO, p, 0, KEEP, p, 1)                          \
    READ SLICE(KEEP, p, 1, KEEP, p, 2) SLICE(KEEP, p, 2, KEEP, p, 3) SLICE(KEEP, p, 3, NEXT, next_p, next_s)

// These multiply all parts of a block: two; three; or three, of which the last comes first and has its own
// sums.
#define READ_SHARES "ldp q6, q7, [%[share]], #32\n" FETCH
#define READ_BOTH   "ldp q6, q7, [%[share]]\nldp q4, q5, [%[share], #32]\nadd %[share], %[share], #64\n" FETCH
#define FETCH       "prfm pldl2keep, [%[next]]\nprfm pldl2keep, [%[next], #64]\nadd %[next], %[next], #128\n"
#define TWO(slices, S) \
    PART_##slices(S, TOTAL, READ_SHARES, 0, SHIFT, 1, 0) PART_##slices(S, SHIFT, "", 1, TOTAL, 0, slices)
#define THREE(slices, S)                                                                             \
    PART_##slices(S, TOTAL, READ_SHARES, 0, SHIFT, 1, 0) PART_##slices(S, SHIFT, "", 1, SHIFT, 2, 0) \
        PART_##slices(S, SHIFT, "", 2, TOTAL, 0, slices)
#define APART(slices, S)                                                                         \
    PART_##slices(S, SHIFTED, READ_BOTH, 2, LOW, 0, 0) PART_##slices(S, LOW, "", 0, SHIFT, 1, 0) \
        PART_##slices(S, SHIFT, "", 1, SHIFTED, 2, slices)
#define START_TWO   0
#define START_THREE 0
#define START_APART 2

#define EACH_PAIR(DO) \
    DO(8, 9, 20, 21)  \
    DO(10, 11, 22, 23) DO(12, 13, 24, 25) DO(14, 15, 26, 27) DO(16, 17, 28, 29) DO(18, 19, 30, 31)
#define ZERO_PAIR(t0, t1, s0, s1)                  \
    "movi v" #t0 ".4s, #0\nmovi v" #t1 ".4s, #0\n" \
    "movi v" #s0 ".4s, #0\nmovi v" #s1 ".4s, #0\n"
#define STORE_PAIR(t0, t1, s0, s1)  "stp q" #t0 ", q" #t1 ", [%[out]], #32\n"
#define END_TOTAL(t0, t1, s0, s1)   TOTAL(t0, s0, 0) TOTAL(t1, s1, 1)
#define END_SHIFTED(t0, t1, s0, s1) SHIFTED(t0, s0, 0) SHIFTED(t1, s1, 1)
#define END_TWO                     END_TOTAL
#define END_THREE                   END_TOTAL
#define END_APART                   END_SHIFTED

#define CLOBBERED                                                                                         \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", \
        "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", \
        "v30", "v31", "memory", "cc"

typedef void totals_fn(int64_t blocks, const void *x, const void *w, const int32_t *share, const void *next,
                       ints4 *out);
#define KERNEL(pairs, WAY, slices, parts)                                                                    \
    WITH_I8MM static void totals_##pairs##_##WAY##_##slices(                                                 \
        int64_t blocks, const void *x, const void *w, const int32_t *share, const void *next, ints4 *out) {  \
        __asm__ volatile(                                                                                    \
            EACH_PAIR(ZERO_PAIR) "movi v6.4s, #0\nmovi v7.4s, #0\n" START(                                   \
                START_##WAY) ".p2align 6\n"                                                                  \
                             "1:\n" WAY(slices, SLICE_##pairs) "add %[x], %[x], #(" #slices " * %c[step])\n" \
                                                               "add %[w], %[w], #(" #slices " * 32)\n"       \
                                                               "subs %[blocks], %[blocks], #1\n"             \
                                                               "b.ne 1b\n" EACH_PAIR(END_##WAY)              \
                                                                   EACH_PAIR(STORE_PAIR)                     \
            : [blocks] "+r"(blocks), [x] "+r"(x), [w] "+r"(w), [share] "+r"(share), [next] "+r"(next),       \
              [out] "+r"(out)                                                                                \
            : [step] "i"((parts)*INT_DOZEN * SLICE)                                                          \
            : CLOBBERED);                                                                                    \
    }
#define START(part)    START_AT(part)
#define START_AT(part) LOAD_X(2, part, 0, 0) LOAD_W(0, 0) LOAD_W(1, 0)
#define KERNELS(pairs)         \
    KERNEL(pairs, TWO, 2, 2)   \
    KERNEL(pairs, TWO, 4, 2)   \
    KERNEL(pairs, THREE, 2, 3) \
    KERNEL(pairs, THREE, 4, 3) KERNEL(pairs, APART, 2, 3) KERNEL(pairs, APART, 4, 3)
#define ROW(pairs)                                                  \
    {                                                               \
        {totals_##pairs##_TWO_2, totals_##pairs##_TWO_4},           \
            {totals_##pairs##_THREE_2, totals_##pairs##_THREE_4}, { \
            totals_##pairs##_APART_2, totals_##pairs##_APART_4      \
        }                                                           \
    }
KERNELS(2)
KERNELS(4)
KERNELS(6)

// Prefetches the biases and the sums of groups, which are read at the end.
static void fetch_biases(const struct int_set *x, const struct int_columns *w) {
    for (int64_t i = 0; i < x->groups * COLUMNS; i += 16)
        __builtin_prefetch(w->offset + i);
    for (int64_t i = 0; i < x->groups * INT_DOZEN; i += 16)
        __builtin_prefetch(x->sum + i);
}

void cpu_dozen_i8mm(const struct int_set *x, const struct int_columns *w, int64_t from, int64_t to,
                    int64_t ahead, float *sum) {
    static totals_fn *const kernels[PAIRS / 2][3][2] = {ROW(2), ROW(4), ROW(6)};
    const int way = x->parts == 2 ? 0 : w->bits < 8 ? 1 : 2, block = MIN_OF(w->group, BLOCK);
    const int64_t first = from * w->group, blocks = (to - from) * w->group / block;
    const int8_t *code = x->code + first * x->parts * INT_DOZEN;
    ints4 total[PAIRS * VECTORS_OF_PAIR];
    if (w->is_offset && to == x->groups)
        fetch_biases(x, w);
    kernels[(x->rows - 1) / 4][way][block == BLOCK](
        blocks, code, w->zipped + first * COLUMNS,
        w->share + first / block * (way == 2 ? 4 * COLUMNS : 2 * COLUMNS), code + ahead, total);
    floats4 *all = (floats4 *)(void *)sum;
    for (int i = 0; i < PAIRS * VECTORS_OF_PAIR; i++)
        all[i] += __builtin_convertvector(total[i], floats4);
}

// Results ---------------------------------------------------------------------------------------------------

#define ADD_LANE(sum, bias, x, lane) \
    __asm__("fmla %0.4s, %1.4s, %2.s[" #lane "]" : "+w"(sum) : "w"(bias), "w"(x))

// Multiplies the biases by the sums of the rows' groups, row by row.
WITH_I8MM static void multiply_biases(const struct int_set *x, const struct int_columns *w, floats4 *out) {
    const floats4 *sum = (const floats4 *)(const void *)x->sum;
    floats4 all[INT_DOZEN] = {{0}};
    for (int64_t g = 0; g < x->groups; g++) {
        const floats4 bias = *(const floats_memory *)(w->offset + g * COLUMNS);
#pragma GCC unroll 3
        for (int i = 0; i < INT_DOZEN; i += 4) {
            const floats4 four = *sum++;
            ADD_LANE(all[i], bias, four, 0);
            ADD_LANE(all[i + 1], bias, four, 1);
            ADD_LANE(all[i + 2], bias, four, 2);
            ADD_LANE(all[i + 3], bias, four, 3);
        }
    }
    memcpy(out, all, sizeof all);
}

WITH_I8MM void cpu_dozen_results_i8mm(const struct int_set *x, const struct int_columns *w, const float *sum,
                                      float *out, int64_t out_row) {
    const floats4 *total = (const floats4 *)(const void *)sum;
    const float *unit = w->unit;
    const floats4 first = {unit[0], unit[0], unit[1], unit[1]}, second = {unit[2], unit[2], unit[3], unit[3]};
    floats4 bias[INT_DOZEN] = {{0}};
    if (w->is_offset)
        multiply_biases(x, w, bias);
    for (int r = 0; r < x->rows; r += 2, total += 2, out += 2 * out_row) {
        const float *factor = x->factor + r;
        const floats4 both = {factor[0], factor[1], factor[0], factor[1]};
        const floats4 a = total[0] * both * first, b = total[1] * both * second;
        *(floats_memory *)out = __builtin_shufflevector(a, b, 0, 2, 4, 6) + bias[r];
        if (r + 1 < x->rows)
            *(floats_memory *)(out + out_row) = __builtin_shufflevector(a, b, 1, 3, 5, 7) + bias[r + 1];
    }
}

#endif
