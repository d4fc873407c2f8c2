// cpu_quantize.c - quantises groups of numbers to a few bits each, and dequantises them.

#include "device/cpu/quantized/quantized.h"
#include "device/cpu/rows/lanes.h"
#include "device/cpu/rows/operands.h"
#include "op/ops.h"

#include <math.h>

enum { K_GROUPS_MOST = 16 };                // groups per block
enum { GROUP_MOST = 128, TRAFFIC = 65536 }; // TRAFFIC: bytes that are worth another thread

// Numbers ---------------------------------------------------------------------------------------------------

static const float fp4[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

static float fp8_to_float(uint8_t x) {
    float size = (x & 127) == 127 ? NAN : half_to_float((uint16_t)((x & 127) << 7)) * 256;
    return x & 128 ? -size : size;
}

// Returns the power of two with the biased exponent x (bias 127).
static float e8m0_to_float(uint8_t x) {
    uint32_t bits = x ? (uint32_t)x << 23 : 1u << 22;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double read_number(const char *p, zl_dtype dtype, int64_t at) {
    double value;
    if (LIKELY(dtype == ZL_FLOAT32))
        return (double)((const float *)(const void *)p)[at];
    dtype_convert(&value, ZL_FLOAT64, p + at * (int64_t)zl_dtype_size(dtype), dtype, 1);
    return value;
}

CPU_VECTORS static void unpack_4(const uint8_t *restrict p, int64_t count, uint8_t *restrict out) {
    for (int64_t i = 0; i < count / 2; i++) {
        out[2 * i] = p[i] & 15;
        out[2 * i + 1] = p[i] >> 4;
    }
}

CPU_VECTORS static void unpack_2(const uint8_t *restrict p, int64_t count, uint8_t *restrict out) {
    for (int64_t i = 0; i < count / 4; i++)
        for (int k = 0; k < 4; k++)
            out[4 * i + k] = p[i] >> 2 * k & 3;
}

// Codes of 3 or 5 bits are unpacked 16 at a time. Eight codes occupy as many bytes as a code has bits. Their
// halves are moved apart, then the halves of these, until each code has a byte of its own.

// Returns the bytes of eight codes as one number. They are not copied to memory first, because a load of what
// was just stored in parts has to wait.
static inline __attribute__((always_inline)) uint64_t eight_codes(const uint8_t *p, int bits) {
    return bits == 3 ? p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16
                     : p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
                           (uint64_t)p[4] << 32;
}

static inline __attribute__((always_inline)) void unpack_odd(const uint8_t *p, int bits, int64_t count,
                                                             uint8_t *out) {
    const uint64_t half = (1ull << 4 * bits) - 1, pairs = ((1ull << 2 * bits) - 1) * 0x0000000100000001ull;
    const uint64_t ones = ((1ull << bits) - 1) * 0x0001000100010001ull;
    for (int64_t i = 0; i < count / 16; i++) {
        longs2 all = {eight_codes(p + 2 * i * bits, bits), eight_codes(p + (2 * i + 1) * bits, bits)};
        all = (all & half) | all >> 4 * bits << 32;
        all = (all & pairs) | (all & pairs << 2 * bits) << (16 - 2 * bits);
        all = (all & ones) | (all & ones << bits) << (8 - bits);
        memcpy(out + 16 * i, &all, sizeof all);
    }
}

// Unpacks sixteen codes from twelve bytes: each code gets the two bytes that contain it, is shifted down in
// them, and keeps the lower one.

static inline __attribute__((always_inline)) void unpack_sixteen(bytes16 from, uint8_t *out) {
    const halves8 down = {0, 6, 4, 2, 0, 6, 4, 2};
    halves8 low =
        (halves8)__builtin_shufflevector(from, from, 0, 1, 0, 1, 1, 2, 2, 3, 3, 4, 3, 4, 4, 5, 5, 6) >> down;
    halves8 high =
        (halves8)__builtin_shufflevector(from, from, 6, 7, 6, 7, 7, 8, 8, 9, 9, 10, 9, 10, 10, 11, 11, 11) >>
        down;
    bytes16 all = __builtin_shufflevector((bytes16)low, (bytes16)high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20,
                                          22, 24, 26, 28, 30) &
                  63;
    memcpy(out, &all, sizeof all);
}

static void unpack_6(const uint8_t *p, int64_t count, uint8_t *out) {
    bytes16 from = {0};
    int64_t i = 0;
    for (; i + 32 <= count; i += 16, p += 12) { // the last four bytes belong to the next sixteen
        memcpy(&from, p, sizeof from);
        unpack_sixteen(from, out + i);
    }
    for (; i < count; i += 16, p += 12) {
        memcpy(&from, p, 12);
        unpack_sixteen(from, out + i);
    }
}

void cpu_unpack_codes(int bits, const char *words, int64_t count, uint8_t *out) {
    const uint8_t *p = (const uint8_t *)words;
    switch (bits) {
    case 8: memcpy(out, p, (size_t)count); return;
    case 4: unpack_4(p, count, out); return;
    case 2: unpack_2(p, count, out); return;
    case 3: unpack_odd(p, 3, count, out); return;
    case 5: unpack_odd(p, 5, count, out); return;
    default: unpack_6(p, count, out);
    }
}

#define AFFINE(name, type)                                                                       \
    CPU_VECTORS static void name(const uint8_t *restrict code, int group, type scale, type bias, \
                                 type *restrict out) {                                           \
        for (int i = 0; i < group; i++)                                                          \
            out[i] = (type)code[i] * scale + bias;                                               \
    }
AFFINE(affine_f32, float)
AFFINE(affine_f64, double)

static void affine_group(const struct unpacking *u, const uint8_t *code, const char *scales,
                         const char *biases, int64_t at, char *out) {
    double scale = read_number(scales, u->dtype, at), bias = biases ? read_number(biases, u->dtype, at) : 0;
    if (u->wide)
        affine_f64(code, u->group, scale, bias, (double *)(void *)out + at * u->group);
    else
        affine_f32(code, u->group, (float)scale, (float)bias, (float *)(void *)out + at * u->group);
}

static float scale_at(const struct unpacking *u, const char *scales, int64_t at) {
    uint8_t x = (uint8_t)scales[at];
    return (u->mode == QUANT_NVFP4 ? fp8_to_float(x) : e8m0_to_float(x)) * u->factor;
}

void cpu_unpack_scales(const struct unpacking *u, const char *scales, int64_t groups, float *out) {
    if (u->mode != QUANT_AFFINE)
        for (int64_t g = 0; g < groups; g++)
            out[g] = scale_at(u, scales, g);
    else if (u->dtype == ZL_FLOAT32)
        memcpy(out, scales, sizeof(float) * (size_t)groups);
    else
        cpu_call_row(cpu_level()->rows->cast[ZL_FLOAT32][u->dtype], out, scales, NULL, NULL, groups);
}

// Computes the scales and biases of some groups in mode gguf_k, from group `from` on.
static void k_numbers(const struct unpacking *u, const char *blocks, int64_t from, int64_t groups,
                      float *scale, float *bias) {
    const int each = op_k_groups(u->bits);
    for (int64_t g = from, n; g < from + groups; g += n) {
        const uint8_t *block = (const uint8_t *)blocks + g / each * op_k_bytes(u->bits);
        uint8_t whole[2][K_GROUPS_MOST];
        uint16_t d, least;
        n = MIN_OF(each - g % each, from + groups - g);
        quantized_k_halves(u->bits, block, &d, &least);
        quantized_k_whole(u->bits, block, whole[0], whole[1]);
        for (int64_t i = 0; i < n; i++) {
            const uint8_t *at = &whole[0][g % each + i];
            float *s = scale + g - from + i;
            *s = half_to_float(d) * (u->bits == 6 ? (float)(int8_t)*at : (float)*at);
            bias[g - from + i] =
                u->bits == 6 ? -32 * *s : -(half_to_float(least) * (float)whole[1][g % each + i]);
        }
    }
}

void cpu_unpack_k(const struct unpacking *u, const char *scales, int64_t groups, float *scale, float *bias) {
    k_numbers(u, scales, 0, groups, scale, bias);
}

static void k_group(const struct unpacking *u, const uint8_t *code, float scale, float bias, char *out,
                    int64_t at) {
    if (u->wide)
        affine_f64(code, u->group, (double)scale, (double)bias, (double *)(void *)out + at * u->group);
    else
        affine_f32(code, u->group, scale, bias, (float *)(void *)out + at * u->group);
}

static void float_group(const struct unpacking *u, const uint8_t *code, float scale, char *out, int64_t at) {
    for (int i = 0; i < u->group; i++) {
        float value = (u->bits == 4 ? fp4[code[i]] : fp8_to_float(code[i])) * scale;
        if (u->wide)
            ((double *)(void *)out)[at * u->group + i] = (double)value;
        else
            ((float *)(void *)out)[at * u->group + i] = value;
    }
}

void cpu_unpack(const struct unpacking *u, const char *words, const char *scales, const char *biases,
                int64_t groups, char *out) {
    uint8_t code[GROUP_MOST];
    float scale[K_GROUPS_MOST], bias[K_GROUPS_MOST];
    const int each = u->mode == QUANT_GGUF_K ? op_k_groups(u->bits) : 1;
    for (int64_t g = 0; g < groups; g++) {
        cpu_unpack_codes(u->bits, words + g * u->group * u->bits / 8, u->group, code);
        if (u->mode == QUANT_GGUF_K) {
            if (g % each == 0)
                k_numbers(u, scales, g, MIN_OF(each, groups - g), scale, bias);
            k_group(u, code, scale[g % each], bias[g % each], out, g);
        } else if (u->mode == QUANT_AFFINE) {
            affine_group(u, code, scales, biases, g, out);
        } else {
            float_group(u, code, scale_at(u, scales, g), out, g);
        }
    }
}

// Dequantise ------------------------------------------------------------------------------------------------

struct unpack_job {
    struct unpacking u;
    zl_dtype dtype; // of the result
    const char *words, *scales, *biases;
    char *out;
};

static struct unpacking unpacking_of(const int64_t *arg, zl_dtype scales, zl_dtype out) {
    return (struct unpacking){.mode = (int)arg[0],
                              .group = (int)arg[1],
                              .bits = (int)arg[2],
                              .dtype = scales,
                              .wide = out == ZL_FLOAT64,
                              .factor = 1};
}

// Dequantises a group to 16-bit floats, which are rounded after the product and after the sum, as separate
// ops on 16-bit floats would round.
static void unpack_half(const struct unpack_job *j, int64_t at) {
    const struct unpacking *u = &j->u;
    uint8_t code[GROUP_MOST];
    float wide[GROUP_MOST];
    row_fn *narrow = cpu_level()->rows->cast[j->dtype][ZL_FLOAT32],
           *widen = cpu_level()->rows->cast[ZL_FLOAT32][j->dtype];
    char *to = j->out + at * u->group * 2;
    cpu_unpack_codes(u->bits, j->words + at * u->group * u->bits / 8, u->group, code);
    if (u->mode == QUANT_AFFINE) {
        affine_f32(code, u->group, (float)read_number(j->scales, u->dtype, at), 0, wide);
        cpu_call_row(narrow, to, wide, NULL, NULL, u->group);
        cpu_call_row(widen, wide, to, NULL, NULL, u->group);
        float bias = (float)read_number(j->biases, u->dtype, at);
        for (int i = 0; i < u->group; i++)
            wide[i] += bias;
    } else if (u->mode == QUANT_GGUF_K) {
        float scale, bias;
        k_numbers(u, j->scales, at, 1, &scale, &bias);
        k_group(u, code, scale, bias, (char *)wide, 0);
    } else {
        float_group(u, code, scale_at(u, j->scales, at), (char *)wide, 0);
    }
    cpu_call_row(narrow, to, wide, NULL, NULL, u->group);
}

// Dequantises groups one by one, because `from` may be inside of a block of groups.
static void dequantize_k(const struct unpack_job *j, int64_t from, int64_t to) {
    const struct unpacking *u = &j->u;
    uint8_t code[GROUP_MOST];
    for (; from < to; from++) {
        float scale, bias;
        cpu_unpack_codes(u->bits, j->words + from * u->group * u->bits / 8, u->group, code);
        k_numbers(u, j->scales, from, 1, &scale, &bias);
        k_group(u, code, scale, bias, j->out, from);
    }
}

static void dequantize_groups(const void *context, int64_t from, int64_t to) {
    const struct unpack_job *j = context;
    const struct unpacking *u = &j->u;
    if (zl_dtype_size(j->dtype) == 2) {
        for (int64_t g = from; g < to; g++)
            unpack_half(j, g);
        return;
    }
    int64_t item = u->mode == QUANT_AFFINE ? (int64_t)zl_dtype_size(u->dtype) : 1;
    if (u->mode == QUANT_GGUF_K) {
        dequantize_k(j, from, to);
        return;
    }
    cpu_unpack(u, j->words + from * u->group * u->bits / 8, j->scales + from * item,
               j->biases ? j->biases + from * item : NULL, to - from,
               j->out + from * u->group * (u->wide ? 8 : 4));
}

bool cpu_dequantize(const struct call *c) {
    zl_array out = call_first(c), scales = c->in[1];
    union scalar room[3];
    struct unpack_job j = {.u = unpacking_of(call_args(c), (zl_dtype)scales->dtype, (zl_dtype)out->dtype),
                           .dtype = (zl_dtype)out->dtype,
                           .words = array_data(c->in[0], &room[0]),
                           .scales = array_data(scales, &room[1]),
                           .out = cpu_data(out)};
    const char *third = c->inputs > 2 ? array_data(c->in[2], &room[2]) : NULL;
    if (j.u.mode == QUANT_AFFINE)
        j.biases = third;
    else if (third)
        j.u.factor = (float)read_number(third, ZL_FLOAT32, 0) / (448 * 6);
    cpu_split(out->size / j.u.group, TRAFFIC / j.u.group, dequantize_groups, &j);
    return true;
}

// Quantise --------------------------------------------------------------------------------------------------

struct pack_job {
    int group, bits;
    zl_dtype dtype;
    const char *w;
    char *words, *scales, *biases;
};

static void find_range(const float *w, int group, float *scale, float *bias, float steps) {
    float low = INFINITY, high = -INFINITY;
    for (int i = 0; i < group; i++) {
        high = high < w[i] ? w[i] : high;
        low = w[i] < low ? w[i] : low;
    }
    bool negative = fabsf(low) > fabsf(high);
    float step = (high - low) / steps, edge = negative ? low : high;
    step = step < 1e-7f ? 1e-7f : step;
    *scale = negative ? step : -step;
    float code = rintf(edge / *scale);
    *bias = code != 0 ? edge : 0; // the edge, which has the largest magnitude, is represented exactly
    *scale = code != 0 ? edge / code : *scale;
}

// Packs eight codes into as many bytes as a code has bits.
static void pack_eight(int bits, const uint8_t *code, uint8_t *out) {
    uint64_t all = 0;
    for (int k = 0; k < 8; k++)
        all |= (uint64_t)code[k] << bits * k;
    memcpy(out, &all, (size_t)bits);
}

static void quantize_group(const struct pack_job *j, const float *w, int64_t at) {
    float scale, bias, steps = (float)((1 << j->bits) - 1);
    uint8_t code[GROUP_MOST];
    find_range(w, j->group, &scale, &bias, steps);
    for (int i = 0; i < j->group; i++) {
        float x = rintf((w[i] - bias) / scale);
        x = x > 0 ? x : 0; // also if it is NaN
        code[i] = (uint8_t)(x < steps ? x : steps);
    }
    for (int i = 0; i < j->group; i += 8)
        pack_eight(j->bits, code + i, (uint8_t *)j->words + (at * j->group + i) * j->bits / 8);
    int64_t item = (int64_t)zl_dtype_size(j->dtype);
    dtype_convert(j->scales + at * item, j->dtype, &scale, ZL_FLOAT32, 1);
    dtype_convert(j->biases + at * item, j->dtype, &bias, ZL_FLOAT32, 1);
}

static void quantize_groups(const void *context, int64_t from, int64_t to) {
    const struct pack_job *j = context;
    row_fn *widen = j->dtype == ZL_FLOAT32 ? NULL : cpu_level()->rows->cast[ZL_FLOAT32][j->dtype];
    float wide[GROUP_MOST];
    for (; from < to; from++) {
        const char *w = j->w + from * j->group * (int64_t)zl_dtype_size(j->dtype);
        if (widen)
            cpu_call_row(widen, wide, w, NULL, NULL, j->group);
        quantize_group(j, widen ? wide : (const float *)(const void *)w, from);
    }
}

bool cpu_quantize(const struct call *c) {
    const int64_t *arg = call_args(c);
    zl_array w = c->in[0], scales = call_output(c, 1);
    union scalar room;
    struct pack_job j = {.group = (int)arg[1],
                         .bits = (int)arg[2],
                         .dtype = (zl_dtype)w->dtype,
                         .w = array_data(w, &room),
                         .words = cpu_data(call_first(c)),
                         .scales = cpu_data(scales),
                         .biases = cpu_data(call_output(c, 2))};
    cpu_split(scales->size, TRAFFIC / j.group, quantize_groups, &j);
    return true;
}
