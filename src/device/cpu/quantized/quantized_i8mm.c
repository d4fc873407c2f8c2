// quantized_i8mm.c - products of rows of whole numbers and four columns of codes, by instructions that
// multiply 2 x 8 by 8 x 2 matrices of bytes (i8mm).

#include "device/cpu/quantized/quantized.h"
#include "device/cpu/rows/lanes.h"

#if defined(__aarch64__)

enum { SLICE = 8, COLUMNS = 4, LINES_MOST = 8 };

#define WITH_I8MM CPU_WITH("i8mm")
#define INLINE    WITH_I8MM static inline __attribute__((always_inline))

INLINE bytes16 codes_at(const void *from) {
    return *(const bytes_memory *)from;
}

INLINE floats4 floats_at(const void *from) {
    return *(const floats_memory *)from;
}

INLINE floats4 add(floats4 sum, floats4 a, floats4 b) {
    __asm__("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
}

INLINE bytes16 zip_low(bytes16 a, bytes16 b) {
    return (bytes16)__builtin_shufflevector((longs2)a, (longs2)b, 0, 2);
}

INLINE bytes16 zip_high(bytes16 a, bytes16 b) {
    return (bytes16)__builtin_shufflevector((longs2)a, (longs2)b, 1, 3);
}

// Columns ---------------------------------------------------------------------------------------------------

// Returns twice the values of fp4 codes, which are whole numbers.
INLINE bytes16 fp4_of(bytes16 code) {
    const chars16 table = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    bytes16 r;
    __asm__("tbl %0.16b, {%1.16b}, %2.16b" : "=w"(r) : "w"(table), "w"(code));
    return r;
}

// Unpack two columns, of 32 four-bit or 16 eight-bit codes each, to four or two slices.
INLINE void nibbles_of(bytes16 a, bytes16 b, bytes16 *out) {
    bytes16 low = zip_low(a, b), high = zip_high(a, b);
    out[0] = low & 15, out[1] = low >> 4;
    out[2] = high & 15, out[3] = high >> 4;
}

INLINE void bytes_of(bytes16 a, bytes16 b, bytes16 *out) {
    out[0] = zip_low(a, b), out[1] = zip_high(a, b);
}

// Zips a chunk of the codes of four columns, from byte `at` on. The last chunk of four-bit codes may have
// only 16 of them.
INLINE void zip_chunk(int bits, bool fp4, const uint8_t *const *row, int64_t at, int slices, int less,
                      int8_t *out) {
#pragma GCC unroll 2
    for (int p = 0; p < 2; p++) {
        bytes16 slice[4], a = {0}, b = {0}, *to = (bytes16 *)(void *)out + p;
        memcpy(&a, row[2 * p] + at, (size_t)(bits == 4 ? 4 * slices : 16));
        memcpy(&b, row[2 * p + 1] + at, (size_t)(bits == 4 ? 4 * slices : 16));
        if (bits == 4)
            nibbles_of(a, b, slice);
        else
            bytes_of(a, b, slice);
#pragma GCC unroll 4
        for (int s = 0; s < slices; s++)
            to[2 * s] = fp4 ? fp4_of(slice[s]) : slice[s] - (uint8_t)less;
    }
}

INLINE void zip_all(int bits, bool fp4, const uint8_t *const *row, int64_t k, int less, int8_t *out) {
    const int slices = bits == 4 ? 4 : 2, chunk = slices * SLICE;
    int64_t at = 0;
    for (; at + chunk <= k; at += chunk)
        zip_chunk(bits, fp4, row, at * bits / 8, slices, less, out + at * COLUMNS);
    if (at < k)
        zip_chunk(bits, fp4, row, at * bits / 8, 2, less, out + at * COLUMNS);
}

WITH_I8MM static void zip(const struct unpacking *u, const uint8_t *const *row, int bits, int64_t k, int less,
                          int8_t *out) {
    if (u->mode != QUANT_AFFINE)
        zip_all(4, true, row, k, less, out);
    else if (bits == 4)
        zip_all(4, false, row, k, less, out);
    else
        zip_all(8, false, row, k, less, out);
}

// Widens four 16-bit floats to f32.
INLINE floats4 widen(zl_dtype dtype, halves8 x, bool high) {
    floats4 r;
    if (dtype == ZL_BFLOAT16 && high)
        __asm__("shll2 %0.4s, %1.8h, #16" : "=w"(r) : "w"(x));
    else if (dtype == ZL_BFLOAT16)
        __asm__("shll %0.4s, %1.4h, #16" : "=w"(r) : "w"(x));
    else if (high)
        __asm__("fcvtl2 %0.4s, %1.8h" : "=w"(r) : "w"(x));
    else
        __asm__("fcvtl %0.4s, %1.4h" : "=w"(r) : "w"(x));
    return r;
}

// Widens the numbers of eight groups of four columns, and stores them group by group.
INLINE void turn_halves(zl_dtype dtype, const char *const *column, int64_t at, float *out) {
    halves8 row[COLUMNS];
    floats_memory *to = (floats_memory *)out;
#pragma GCC unroll 4
    for (int i = 0; i < COLUMNS; i++)
        row[i] = *(const halves_memory *)(column[i] + at);
#pragma GCC unroll 2
    for (int part = 0; part < 2; part++) {
        words4 a = (words4)(part ? __builtin_shufflevector(row[0], row[1], 4, 12, 5, 13, 6, 14, 7, 15)
                                 : __builtin_shufflevector(row[0], row[1], 0, 8, 1, 9, 2, 10, 3, 11));
        words4 b = (words4)(part ? __builtin_shufflevector(row[2], row[3], 4, 12, 5, 13, 6, 14, 7, 15)
                                 : __builtin_shufflevector(row[2], row[3], 0, 8, 1, 9, 2, 10, 3, 11));
        halves8 c = (halves8)__builtin_shufflevector(a, b, 0, 4, 1, 5),
                d = (halves8)__builtin_shufflevector(a, b, 2, 6, 3, 7);
        to[4 * part] = widen(dtype, c, false), to[4 * part + 1] = widen(dtype, c, true);
        to[4 * part + 2] = widen(dtype, d, false), to[4 * part + 3] = widen(dtype, d, true);
    }
}

// Stores the numbers of four groups of four columns group by group.
INLINE void turn_floats(const char *const *column, int64_t at, float *out) {
    floats_memory *to = (floats_memory *)out;
    floats4 a = floats_at(column[0] + at), b = floats_at(column[1] + at), c = floats_at(column[2] + at),
            d = floats_at(column[3] + at);
    floats4 ac = __builtin_shufflevector(a, c, 0, 4, 1, 5), bd = __builtin_shufflevector(b, d, 0, 4, 1, 5);
    to[0] = __builtin_shufflevector(ac, bd, 0, 4, 1, 5), to[1] = __builtin_shufflevector(ac, bd, 2, 6, 3, 7);
    ac = __builtin_shufflevector(a, c, 2, 6, 3, 7), bd = __builtin_shufflevector(b, d, 2, 6, 3, 7);
    to[2] = __builtin_shufflevector(ac, bd, 0, 4, 1, 5), to[3] = __builtin_shufflevector(ac, bd, 2, 6, 3, 7);
}

WITH_I8MM static void turn(zl_dtype dtype, const char *const *column, int64_t groups, float *out) {
    int64_t g = 0, item = dtype == ZL_FLOAT32 ? 4 : 2;
    if (dtype == ZL_FLOAT16)
        for (; g + 8 <= groups; g += 8)
            turn_halves(ZL_FLOAT16, column, g * item, out + g * COLUMNS);
    else if (dtype == ZL_BFLOAT16)
        for (; g + 8 <= groups; g += 8)
            turn_halves(ZL_BFLOAT16, column, g * item, out + g * COLUMNS);
    else
        for (; g + 4 <= groups; g += 4)
            turn_floats(column, g * item, out + g * COLUMNS);
    for (; g < groups; g++)
        for (int i = 0; i < COLUMNS; i++)
            dtype_convert(out + g * COLUMNS + i, ZL_FLOAT32, column[i] + g * item, dtype, 1);
}

// Products --------------------------------------------------------------------------------------------------

enum form { NIBBLES, BYTES, ZIPPED, SIGNED }; // of columns; the last two are zipped, unsigned and signed

INLINE ints4 multiply(enum form form, ints4 sum, bytes16 w, chars16 x) {
    if (form == SIGNED)
        __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(w), "w"(x));
    else
        __asm__("usmmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(w), "w"(x));
    return sum;
}

// The addresses of the codes of the next group.
struct codes {
    const uint8_t *row[COLUMNS];
    const bytes16 *zipped;
    const chars16 *x;
    int64_t ahead; // bytes to the next four columns
};

// Reads slices of columns 2 p and 2 p + 1.
INLINE void read_slices(enum form form, int slices, const struct codes *c, int p, bytes16 *out) {
    const uint8_t *a = c->row[2 * p], *b = c->row[2 * p + 1];
    if (form == NIBBLES) {
        nibbles_of(codes_at(a), codes_at(b), out);
    } else if (form == BYTES) {
        bytes_of(codes_at(a), codes_at(b), out);
        if (slices == 4)
            bytes_of(codes_at(a + 16), codes_at(b + 16), out + 2);
    } else {
#pragma GCC unroll 4
        for (int s = 0; s < slices; s++)
            out[s] = c->zipped[2 * s + p];
    }
}

// Adds the products of some slices. The sums of each pair of lines are two vectors, each with two columns.
INLINE void multiply_slices(enum form form, int slices, int pairs, struct codes *c, ints4 (*all)[2]) {
    bytes16 w[2][4];
    read_slices(form, slices, c, 0, w[0]);
    read_slices(form, slices, c, 1, w[1]);
#pragma GCC unroll 4
    for (int s = 0; s < slices; s++)
#pragma GCC unroll 4
        for (int i = 0; i < pairs; i++) {
            chars16 x = c->x[s * pairs + i];
            all[i][0] = multiply(form, all[i][0], w[0][s], x);
            all[i][1] = multiply(form, all[i][1], w[1][s], x);
        }
    c->x += slices * pairs;
    c->zipped += slices * 2;
    if (form == NIBBLES || form == BYTES)
#pragma GCC unroll 4
        for (int i = 0; i < COLUMNS; i++)
            __builtin_prefetch(c->row[i] + c->ahead);
#pragma GCC unroll 4
    for (int i = 0; i < COLUMNS; i++)
        c->row[i] += form == NIBBLES ? 16 : slices * SLICE;
}

INLINE void multiply_group(enum form form, int pairs, struct codes *c, int group, ints4 (*all)[2]) {
#pragma GCC unroll 4
    for (int i = 0; i < pairs; i++)
        all[i][0] = all[i][1] = (ints4){0};
    if (group == 16) // not with nibbles, which are zipped then
        multiply_slices(form, 2, pairs, c, all);
    else
        for (int at = 0; at < group; at += 4 * SLICE)
            multiply_slices(form, 4, pairs, c, all);
}

// Returns the sums of the first or the second line of a pair, for four columns.
INLINE ints4 line_of(ints4 *all, bool second) {
    return second ? __builtin_shufflevector(all[0], all[1], 1, 3, 5, 7)
                  : __builtin_shufflevector(all[0], all[1], 0, 2, 4, 6);
}

// Adds the sums of a group, times its scales. high: sums of the highest of three parts, which are multiplied
// by 2^16 at the end.
INLINE void add_group(int parts, int rows, ints4 (*all)[2], floats4 scale, floats4 *sum, floats4 *high) {
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        ints4 first = line_of(all[r], false), second = line_of(all[r], true);
        if (parts == 2) {
            sum[r] = add(sum[r], __builtin_convertvector((first << 8) + second, floats4), scale);
        } else {
            ints4 third = line_of(all[rows + r / 2], r % 2);
            high[r] = add(high[r], __builtin_convertvector(first, floats4), scale);
            sum[r] = add(sum[r], __builtin_convertvector((second << 8) + third, floats4), scale);
        }
    }
}

// Loads four groups of biases, widened to f32.
INLINE floats4 biases_at(zl_dtype dtype, const char *column, int64_t g) {
    uint64_t four;
    if (dtype == ZL_FLOAT32)
        return floats_at(column + 4 * g);
    memcpy(&four, column + 2 * g, sizeof four);
    halves8 half = (halves8)(longs2){four};
    return widen(dtype, half, false);
}

// Returns the products of the biases of four columns and the sums of a row's groups.
INLINE floats4 add_biases(zl_dtype dtype, const struct int_columns *w, const float *sum, int64_t groups) {
    floats4 all[COLUMNS] = {{0}};
    int64_t g = 0;
    for (; g + 4 <= groups; g += 4)
#pragma GCC unroll 4
        for (int i = 0; i < COLUMNS; i++)
            all[i] = add(all[i], biases_at(dtype, w->bias[i], g), floats_at(sum + g));
    floats4 r = lanes_sums_f32(all);
    for (; g < groups; g++)
        for (int i = 0; i < COLUMNS; i++) {
            float bias;
            dtype_convert(&bias, ZL_FLOAT32, w->bias[i] + g * (dtype == ZL_FLOAT32 ? 4 : 2), dtype, 1);
            r[i] += bias * sum[g];
        }
    return r;
}

WITH_I8MM static floats4 biases_of(const struct int_columns *w, const float *sum, int64_t groups) {
    switch (w->dtype) {
    case ZL_FLOAT16: return add_biases(ZL_FLOAT16, w, sum, groups);
    case ZL_BFLOAT16: return add_biases(ZL_BFLOAT16, w, sum, groups);
    default: return add_biases(ZL_FLOAT32, w, sum, groups);
    }
}

INLINE void run_set(enum form form, int parts, int rows, const struct int_set *x, const struct int_columns *w,
                    float *out, int64_t out_row) {
    const int pairs = (parts * rows + 1) / 2;
    struct codes c = {.zipped = (const bytes16 *)(const void *)w->zipped,
                      .x = (const chars16 *)(const void *)x->code};
    floats4 sum[INT_ROWS_MOST], high[INT_ROWS_MOST];
    for (int i = 0; i < COLUMNS; i++)
        c.row[i] = w->row[i];
    if (w->bits == 4 || w->bits == 8) // else codes were unpacked, and no others follow them
        c.ahead = x->groups * w->group * w->bits / 8 * COLUMNS;
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
        sum[r] = high[r] = (floats4){0};
    for (int64_t g = 0; g < x->groups; g++) {
        ints4 all[LINES_MOST / 2][2];
        multiply_group(form, pairs, &c, w->group, all);
        add_group(parts, rows, all, floats_at(w->scale + g * COLUMNS), sum, high);
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        floats4 factor = (floats4){0} + x->factor[r];
        sum[r] = (parts == 3 ? add(sum[r], high[r], (floats4){0} + 65536) : sum[r]) * factor;
        if (form != SIGNED)
            sum[r] += biases_of(w, x->sum + r * x->groups, x->groups);
        *(floats_memory *)(out + r * out_row) = sum[r];
    }
}

#define RUN(name, form, parts, rows)                                                             \
    WITH_I8MM static void name(const struct int_set *x, const struct int_columns *w, float *out, \
                               int64_t out_row) {                                                \
        run_set(form, parts, rows, x, w, out, out_row);                                          \
    }
#define RUNS(name, form)        \
    RUN(name##_2_1, form, 2, 1) \
    RUN(name##_2_2, form, 2, 2) \
    RUN(name##_2_3, form, 2, 3) \
    RUN(name##_2_4, form, 2, 4) RUN(name##_3_1, form, 3, 1) RUN(name##_3_2, form, 3, 2)
RUNS(run_nibbles, NIBBLES)
RUNS(run_bytes, BYTES)
RUNS(run_zipped, ZIPPED)
RUNS(run_signed, SIGNED)

typedef void run_fn(const struct int_set *x, const struct int_columns *w, float *out, int64_t out_row);
#define ROW(name)                                           \
    {                                                       \
        {name##_2_1, name##_2_2, name##_2_3, name##_2_4}, { \
            name##_3_1, name##_3_2                          \
        }                                                   \
    }

static void run(const struct int_set *x, const struct int_columns *w, float *out, int64_t out_row) {
    static run_fn *const runs[4][2][INT_ROWS_MOST] = {ROW(run_nibbles), ROW(run_bytes), ROW(run_zipped),
                                                      ROW(run_signed)};
    enum form form = w->zipped ? (w->bias[0] ? ZIPPED : SIGNED) : w->bits == 4 ? NIBBLES : BYTES;
    runs[form][x->parts - 2][x->rows - 1](x, w, out, out_row);
}

const struct int_kind cpu_int_i8mm = {.level = "neon_bf16",
                                      .slice = SLICE,
                                      .columns = COLUMNS,
                                      .even = true,
                                      .apart = true,
                                      .direct = true,
                                      .rows_most = INT64_MAX,
                                      .zip = zip,
                                      .turn = turn,
                                      .run = run,
                                      .shares = cpu_shares_i8mm,
                                      .dozen = cpu_dozen_i8mm,
                                      .dozen_results = cpu_dozen_results_i8mm,
                                      .can_vector = cpu_can_vector_i8mm,
                                      .vector = cpu_vector_i8mm};

#endif
