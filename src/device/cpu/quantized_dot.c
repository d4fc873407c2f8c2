// quantized_dot.c - a row of float32 times rows of a quantised matrix, by instructions that multiply bytes.
//
// Each group of the row is taken as whole numbers of 24 bits, which are three bytes each: what is lost is less than float32
// rounds by. Codes are bytes anyway. So a product of sixteen numbers is three instructions, and nothing is unpacked further.

#include "device/cpu/cpu.h"
#include "op/ops.h"

#include <float.h>
#include <math.h>

enum { PARTS = 3, CHUNK = 16, ROWS = 4, GROUP_MOST = 128, SCALES_MOST = 64 };

// How codes become bytes.
enum format { NIBBLES, FP4, BYTES, UNPACKED };

static enum format format_of(const struct unpacking *u) {
    if (u->mode != QUANT_AFFINE)
        return FP4;
    return u->bits == 4 ? NIBBLES : u->bits == 8 ? BYTES : UNPACKED;
}

// The row ------------------------------------------------------------------------------------------------------------

// For each group: what its whole numbers are multiplied by, the sum of its numbers, and their bytes, highest first.
struct whole {
    float factor, sum;
    _Alignas(16) int8_t part[PARTS][GROUP_MOST];
};

size_t cpu_dot_bytes(int64_t groups) {
    return sizeof(struct whole) * (size_t)groups;
}

// Nibbles of a byte are neighbours: of 32 numbers, those at even places come first.
static int place_of(enum format format, int i) {
    return format == NIBBLES || format == FP4 ? i / 32 * 32 + i % 2 * CHUNK + i % 32 / 2 : i;
}

static void put_parts(struct whole *w, int at, int32_t x) {
    for (int k = PARTS - 1; k > 0; k--) {
        int32_t low = ((x + 128) & 255) - 128;
        w->part[k][at] = (int8_t)low;
        x = (x - low) / 256;
    }
    w->part[0][at] = (int8_t)x;
}

bool cpu_dot_prepare(const struct unpacking *u, const float *x, int64_t groups, char *out) {
    const float most = 127 * 65536;
    struct whole *w = (struct whole *)(void *)out;
    enum format format = format_of(u);
    for (int64_t g = 0; g < groups; g++, w++, x += u->group) {
        float largest = 0, sum = 0;
        for (int i = 0; i < u->group; i++) {
            largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
            sum += x[i];
        }
        if (!isfinite(sum)) // also where a number is not
            return false;
        bool tiny = largest < FLT_MIN * most;
        float times = tiny ? 0 : most / largest;
        w->factor = tiny ? 0 : largest / most;
        w->sum = sum;
        for (int i = 0; i < u->group; i++)
            put_parts(w, place_of(format, i), (int32_t)lrintf(x[i] * times));
    }
    return true;
}

// Products -----------------------------------------------------------------------------------------------------------

#if defined(__aarch64__)

#define WITH_DOT CPU_WITH("dotprod")

typedef int8_t bytes16 __attribute__((vector_size(16)));
typedef uint8_t codes16 __attribute__((vector_size(16)));
typedef int32_t ints4 __attribute__((vector_size(16)));
typedef float floats4 __attribute__((vector_size(16)));
typedef codes16 codes_memory __attribute__((aligned(1), may_alias));

bool cpu_can_dot(const struct unpacking *u) {
    const char *level = cpu_level()->name; // those of which have the instructions
    bool has = !strcmp(level, "neon_fp16") || !strcmp(level, "neon_bf16");
    return has && !u->wide && u->mode != QUANT_MXFP8 && (u->mode == QUANT_AFFINE || u->group % 32 == 0);
}

#define INLINE WITH_DOT static inline __attribute__((always_inline))

INLINE ints4 dot(ints4 sum, bytes16 a, bytes16 b) {
    __asm__("sdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
}

// Twice the numbers of four bits.
INLINE bytes16 fp4_of(codes16 code) {
    const bytes16 table = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    bytes16 r;
    __asm__("tbl %0.16b, {%1.16b}, %2.16b" : "=w"(r) : "w"(table), "w"(code));
    return r;
}

// Chunk number c of a group.
INLINE bytes16 read_chunk(enum format format, const uint8_t *group, int c) {
    if (format == BYTES)
        return (bytes16)(*(const codes_memory *)(group + c * CHUNK) ^ 128);
    if (format == UNPACKED)
        return (bytes16) * (const codes_memory *)(group + c * CHUNK);
    codes16 pair = *(const codes_memory *)(group + c / 2 * CHUNK), code = c % 2 ? pair >> 4 : pair & 15;
    return format == FP4 ? fp4_of(code) : (bytes16)code;
}

struct rows {
    const uint8_t *words[ROWS];
    const float *scales[ROWS];
    int64_t bytes; // of a group
    int group;
};

// Adds the products of one group with those of four rows.
INLINE void add_group(enum format format, const struct whole *x, int group, const uint8_t *const *code,
                      ints4 *high, ints4 *low) {
    ints4 middle[ROWS] = {{0}}, last[ROWS] = {{0}};
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; i++)
        high[i] = (ints4){0};
    for (int c = 0; c < group / CHUNK; c++) {
        bytes16 a = *(const bytes16 *)(const void *)(x->part[0] + c * CHUNK);
        bytes16 b = *(const bytes16 *)(const void *)(x->part[1] + c * CHUNK);
        bytes16 d = *(const bytes16 *)(const void *)(x->part[2] + c * CHUNK);
#pragma GCC unroll 4
        for (int i = 0; i < ROWS; i++) {
            bytes16 w = read_chunk(format, code[i], c);
            high[i] = dot(high[i], w, a);
            middle[i] = dot(middle[i], w, b);
            last[i] = dot(last[i], w, d);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; i++)
        low[i] = (middle[i] << 8) + last[i];
}

INLINE void multiply_four(enum format format, const struct unpacking *u, const struct whole *x,
                          const struct rows *r, int64_t groups, floats4 *out) {
    uint8_t room[ROWS][GROUP_MOST];
    floats4 sum[ROWS];
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; i++)
        sum[i] = out[i];
    for (int64_t g = 0; g < groups; g++, x++) {
        const uint8_t *code[ROWS];
        ints4 high[ROWS], low[ROWS];
#pragma GCC unroll 4
        for (int i = 0; i < ROWS; i++) {
            code[i] = r->words[i] + g * r->bytes;
            if (format == UNPACKED) {
                cpu_unpack_codes(u, (const char *)code[i], room[i]);
                code[i] = room[i];
            }
        }
        add_group(format, x, r->group, code, high, low);
#pragma GCC unroll 4
        for (int i = 0; i < ROWS; i++) {
            floats4 all =
                __builtin_convertvector(high[i], floats4) * 65536 + __builtin_convertvector(low[i], floats4);
            sum[i] += all * (r->scales[i][g] * x->factor);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; i++)
        out[i] = sum[i];
}

WITH_DOT static void multiply_rows(const struct unpacking *u, const struct whole *x, const struct rows *r,
                                   int64_t groups, floats4 *sum) {
    switch (format_of(u)) {
    case NIBBLES: multiply_four(NIBBLES, u, x, r, groups, sum); return;
    case FP4: multiply_four(FP4, u, x, r, groups, sum); return;
    case BYTES: multiply_four(BYTES, u, x, r, groups, sum); return;
    case UNPACKED: multiply_four(UNPACKED, u, x, r, groups, sum); return;
    }
}

// Scales of some groups, and of each the sum of what does not depend on codes. Codes of eight bits are taken as less by 128.
static float read_scales(const struct unpacking *u, const struct whole *x, const char *scales,
                         const char *biases, int64_t groups, float *out) {
    float bias[SCALES_MOST], sum = 0;
    cpu_unpack_scales(u, scales, groups, out);
    if (!biases) {
        for (int64_t g = 0; g < groups; g++)
            out[g] *= 0.5f; // of the table of fp4
        return 0;
    }
    cpu_unpack_scales(u, biases, groups, bias);
    for (int64_t g = 0; g < groups; g++)
        sum += (bias[g] + (u->bits == 8 ? 128 * out[g] : 0)) * x[g].sum;
    return sum;
}

static void dot_four(const struct unpacking *u, const struct whole *x, const char *words, const char *scales,
                     const char *biases, int rows, int64_t groups, float *out) {
    float scale[ROWS][SCALES_MOST];
    int64_t item = u->mode == QUANT_AFFINE ? (int64_t)zl_dtype_size(u->dtype) : 1,
            bytes = u->group * u->bits / 8;
    floats4 sum[ROWS] = {{0}};
    float rest[ROWS] = {0};
    for (int64_t from = 0, n; from < groups; from += n) {
        n = MIN_OF(SCALES_MOST, groups - from);
        struct rows r = {.bytes = bytes, .group = u->group};
        for (int i = 0; i < ROWS; i++) {
            int64_t at = MIN_OF(i, rows - 1) * groups + from;
            r.words[i] = (const uint8_t *)words + at * bytes;
            r.scales[i] = scale[i];
            rest[i] +=
                read_scales(u, x + from, scales + at * item, biases ? biases + at * item : NULL, n, scale[i]);
        }
        multiply_rows(u, x + from, &r, n, sum);
    }
    for (int i = 0; i < rows; i++)
        out[i] = rest[i] + ((sum[i][0] + sum[i][1]) + (sum[i][2] + sum[i][3]));
}

void cpu_dot_rows(const struct unpacking *u, const char *prepared, const char *words, const char *scales,
                  const char *biases, int64_t rows, int64_t groups, float *out) {
    int64_t item = u->mode == QUANT_AFFINE ? (int64_t)zl_dtype_size(u->dtype) : 1,
            bytes = u->group * u->bits / 8;
    for (int64_t i = 0; i < rows; i += ROWS) {
        int64_t at = i * groups;
        dot_four(u, (const struct whole *)(const void *)prepared, words + at * bytes, scales + at * item,
                 biases ? biases + at * item : NULL, (int)MIN_OF(ROWS, rows - i), groups, out + i);
    }
}

#else

bool cpu_can_dot(const struct unpacking *u) {
    (void)u;
    return false;
}

void cpu_dot_rows(const struct unpacking *u, const char *prepared, const char *words, const char *scales,
                  const char *biases, int64_t rows, int64_t groups, float *out) {
    (void)u, (void)prepared, (void)words, (void)scales, (void)biases, (void)rows, (void)groups, (void)out;
}

#endif
