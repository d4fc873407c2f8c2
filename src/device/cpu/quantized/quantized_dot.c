// quantized_dot.c - products of rows of whole numbers and columns of codes, by instructions that add four
// products of bytes to a number, for CPUs that have no instructions for matrices of bytes. Chooses the best
// kind for this CPU.

#include "device/cpu/rows/operands.h"
#include "device/cpu/quantized/quantized.h"

enum { SLICE = 4, CODES = 256, ROWS_MOST = 8 }; // CODES are unpacked at once

// Returns the difference between codes and their zipped form: unsigned codes may have to be signed there, or
// signed ones unsigned.
static inline int dot_shift(const struct int_columns *w, bool has_sign) {
    if (!w->bias[0])
        return has_sign ? 0 : -12;
    return has_sign && w->bits == 8 ? 128 : 0;
}

typedef uint8_t codes16 __attribute__((vector_size(16)));
typedef uint32_t words4 __attribute__((vector_size(16)));
typedef float floats4 __attribute__((vector_size(16)));
typedef float floats4_memory __attribute__((vector_size(16), aligned(4), may_alias));

static inline void dot_add_biases(const struct int_columns *w, const float *sum, int64_t groups, int columns,
                                  float *out) {
    for (int i = 0; w->bias[0] && i < columns; i++) {
        const float *bias = (const float *)(const void *)w->bias[i];
        floats4 part = {0};
        int64_t g = 0;
        for (; g + 4 <= groups; g += 4)
            part += *(const floats4_memory *)(bias + g) * *(const floats4_memory *)(sum + g);
        for (; g < groups; g++)
            part[0] += bias[g] * sum[g];
        out[i] += (part[0] + part[1]) + (part[2] + part[3]);
    }
}

// Unpacks some codes of one column to the form in which they are multiplied.
static inline void dot_codes(const struct unpacking *u, const uint8_t *row, int bits, int count,
                             bool has_sign, uint8_t *out) {
    static const int8_t fp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    cpu_unpack_codes(bits, (const char *)row, count, out);
    if (u->mode != QUANT_AFFINE)
        for (int i = 0; i < count; i++)
            out[i] = (uint8_t)(fp4[out[i]] + (has_sign ? 0 : 12));
}

// Stores 16 codes of four columns as four slices, which are `step` bytes apart.
static inline void dot_turn_codes(const uint8_t (*code)[CODES], int at, uint8_t flip, int64_t step,
                                  int8_t *out) {
    words4 row[4];
    for (int i = 0; i < 4; i++) {
        codes16 x;
        memcpy(&x, code[i] + at, sizeof x);
        row[i] = (words4)(x ^ flip);
    }
    words4 a = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5),
           b = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
    words4 c = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7),
           d = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
    words4 slice[] = {__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7),
                      __builtin_shufflevector(c, d, 0, 1, 4, 5), __builtin_shufflevector(c, d, 2, 3, 6, 7)};
    for (int i = 0; i < 4; i++)
        memcpy(out + i * step, &slice[i], sizeof slice[i]);
}

static inline void dot_zip(const struct unpacking *u, const uint8_t *const *row, int bits, int64_t k,
                           int columns, bool has_sign, int8_t *out) {
    uint8_t code[4][CODES], flip = u->mode == QUANT_AFFINE && u->bits == 8 && has_sign ? 128 : 0;
    for (int64_t at = 0; at < k; at += CODES)
        for (int c = 0; c < columns; c += 4) {
            int count = (int)MIN_OF(CODES, k - at);
            for (int i = 0; i < 4; i++)
                dot_codes(u, row[c + i] + at * bits / 8, bits, count, has_sign, code[i]);
            for (int i = 0; i < count; i += 16)
                dot_turn_codes(code, i, flip, columns * SLICE, out + (at + i) * columns + c * SLICE);
        }
}

static inline void dot_turn(zl_dtype dtype, const char *const *column, int64_t groups, int columns,
                            float *out) {
    int64_t item = (int64_t)zl_dtype_size(dtype);
    row_fn *widen = dtype == ZL_FLOAT32 ? NULL : cpu_level()->rows->cast[ZL_FLOAT32][dtype];
    float wide[CODES];
    for (int c = 0; c < columns; c++)
        for (int64_t g = 0, n; g < groups; g += n) {
            n = MIN_OF(CODES, groups - g);
            if (widen)
                cpu_call_row(widen, wide, column[c] + g * item, NULL, NULL, n);
            else
                memcpy(wide, column[c] + g * item, sizeof(float) * (size_t)n);
            for (int64_t i = 0; i < n; i++)
                out[(g + i) * columns + c] = wide[i];
        }
}

#define KIND(name, prefix, count, ...)                                                                    \
    {                                                                                                     \
        .level = (name), .slice = SLICE, .columns = (count), .rows_most = ROWS_MOST, .zip = prefix##_zip, \
        .turn = prefix##_turn, .run = prefix##_run, __VA_ARGS__                                           \
    }

#if defined(__aarch64__)

CPU_WITH("dotprod")
static inline __attribute__((always_inline)) int32_t __attribute__((vector_size(16)))
sdot(int32_t __attribute__((vector_size(16))) sum, int32_t __attribute__((vector_size(16))) w,
     int32_t __attribute__((vector_size(16))) x) {
    __asm__("sdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(w), "w"(x));
    return sum;
}

#define DOT_NAME(part)       sdot_##part
#define DOT_COLUMNS          4
#define DOT_TARGET           CPU_WITH("dotprod")
#define DOT_SIGNED           true
#define DOT(sum, w, x, wide) ((void)(wide), sdot(sum, w, x))
#include "device/cpu/quantized/quantized_dot.h"

static const struct int_kind sdot_kind = KIND("neon_fp16", sdot, 4, .direct = false);

const struct int_kind *cpu_int_kind(void) {
    const struct int_kind *const kinds[] = {&cpu_int_i8mm, &sdot_kind};
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (!strcmp(cpu_level()->name, kinds[i]->level))
            return kinds[i];
    return NULL;
}

#elif defined(__x86_64__)

#include "device/cpu/quantized/quantized_avx2.h"

#define DOT_NAME(part)       avx2_##part
#define DOT_COLUMNS          8
#define DOT_TARGET           __attribute__((target("avx2,fma")))
#define DOT_SIGNED           false
#define DOT(sum, w, x, wide) ((avx2_ints)quantized_dot_avx2((__m256i)(sum), (__m256i)(w), (__m256i)(x), wide))
#include "device/cpu/quantized/quantized_dot.h"

#define VNNI __attribute__((target("avx2,fma,avx512f,avx512vl,avx512vnni")))

VNNI static inline __attribute__((always_inline)) __m256i dot_vnni(__m256i sum, __m256i w, __m256i x) {
    return _mm256_dpbusd_epi32(sum, w, x);
}

#define DOT_NAME(part)       vnni_##part
#define DOT_COLUMNS          8
#define DOT_TARGET           VNNI
#define DOT_SIGNED           false
#define DOT(sum, w, x, wide) ((void)(wide), (vnni_ints)dot_vnni((__m256i)(sum), (__m256i)(w), (__m256i)(x)))
#include "device/cpu/quantized/quantized_dot.h"

#define LINE(name) .can_vector = cpu_can_line, .vector = cpu_line_##name, .arrange = cpu_arrange_##name
static const struct int_kind avx2_kind = KIND("avx2", avx2, 8, LINE(avx2)),
                             vnni_kind = KIND("avx512", vnni, 8, LINE(vnni));

const struct int_kind *cpu_int_kind(void) {
    if (!strcmp(cpu_level()->name, vnni_kind.level))
        return __builtin_cpu_supports("avx512vnni") ? &vnni_kind : &avx2_kind;
    return !strcmp(cpu_level()->name, avx2_kind.level) ? &avx2_kind : NULL;
}

#else

const struct int_kind *cpu_int_kind(void) {
    return NULL;
}

#endif
