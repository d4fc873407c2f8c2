// element.c - loads, stores, rounds and converts elements of all dtypes; for the contracts see element.h.

#include "bm1690/element.h"

#include <math.h>

bool element_is_float(enum bm1690_dtype dtype) {
    return (BM1690_BIT(dtype) & (uint32_t)(BM1690_FLOATS | BM1690_FP8S)) != 0;
}

bool element_is_signed(enum bm1690_dtype dtype) {
    return dtype == BM1690_INT8 || dtype == BM1690_INT16 || dtype == BM1690_INT32;
}

// Integers --------------------------------------------------------------------------------------------------

int64_t element_load_int(const uint8_t *from, enum bm1690_dtype dtype) {
    uint16_t half;
    uint32_t word;
    switch (dtype) {
    case BM1690_INT8: return (int8_t)*from;
    case BM1690_UINT8: return *from;
    case BM1690_INT16: memcpy(&half, from, 2); return (int16_t)half;
    case BM1690_UINT16: memcpy(&half, from, 2); return half;
    case BM1690_INT32: memcpy(&word, from, 4); return (int32_t)word;
    default: memcpy(&word, from, 4); return word;
    }
}

void element_store_int(uint8_t *to, enum bm1690_dtype dtype, int64_t x) {
    uint32_t word = (uint32_t)x;
    uint16_t half = (uint16_t)x;
    switch (bm1690_dtype_bytes(dtype)) {
    case 1: *to = (uint8_t)x; break;
    case 2: memcpy(to, &half, 2); break;
    default: memcpy(to, &word, 4); break;
    }
}

void element_range(enum bm1690_dtype dtype, int64_t *least, int64_t *most) {
    int bits = bm1690_dtype_bytes(dtype) * 8;
    bool is_signed = element_is_signed(dtype);
    *least = is_signed ? -(INT64_C(1) << (bits - 1)) : 0;
    *most = (INT64_C(1) << (is_signed ? bits - 1 : bits)) - 1;
}

// Floats ----------------------------------------------------------------------------------------------------

// Fields of a small float. E4M3 has one NaN and no infinity.
struct format {
    int exponent_bits, fraction_bits;
    bool has_infinity;
};

static struct format format_of(enum bm1690_dtype dtype) {
    switch (dtype) {
    case BM1690_FP16: return (struct format){5, 10, true};
    case BM1690_BFP16: return (struct format){8, 7, true};
    case BM1690_FP8E5M2: return (struct format){5, 2, true};
    case BM1690_FP8E4M3: return (struct format){4, 3, false};
    default: return (struct format){8, 23, true};
    }
}

static float load_fp8(uint8_t bits, struct format f) {
    int bias = (1 << (f.exponent_bits - 1)) - 1,
        exponent = bits >> f.fraction_bits & ((1 << f.exponent_bits) - 1),
        fraction = bits & ((1 << f.fraction_bits) - 1);
    bool is_top = exponent == (1 << f.exponent_bits) - 1;
    float x;
    if (is_top && (f.has_infinity || fraction == (1 << f.fraction_bits) - 1))
        x = f.has_infinity && !fraction ? INFINITY : NAN;
    else if (exponent)
        x = ldexpf((float)(fraction | 1 << f.fraction_bits), exponent - bias - f.fraction_bits);
    else
        x = ldexpf((float)fraction, 1 - bias - f.fraction_bits);
    return bits & 0x80 ? -x : x;
}

float element_load(const uint8_t *from, enum bm1690_dtype dtype) {
    uint16_t half;
    float x;
    switch (dtype) {
    case BM1690_FP32: memcpy(&x, from, 4); return x;
    case BM1690_FP16: memcpy(&half, from, 2); return half_to_float(half);
    case BM1690_BFP16: memcpy(&half, from, 2); return bfloat_to_float(half);
    default: return load_fp8(*from, format_of(dtype));
    }
}

double element_round(double x, int mode) {
    double below = floor(x), rest = x - below;
    switch (mode) {
    case ROUND_AWAY: return round(x);
    case ROUND_ZERO: return trunc(x);
    case ROUND_DOWN: return below;
    case ROUND_UP: return ceil(x);
    case ROUND_HALF_UP: return rest >= 0.5 ? below + 1 : below;
    case ROUND_HALF_DOWN: return rest > 0.5 ? below + 1 : below;
    default: return nearbyint(x);
    }
}

// Returns the bits of x in a format, rounded. Numbers that are too large become the largest finite number if
// `saturates`, else infinity.
static uint32_t float_bits(double x, struct format f, int mode, bool saturates) {
    int bias = (1 << (f.exponent_bits - 1)) - 1, top = (1 << f.exponent_bits) - 1, exponent;
    uint32_t fraction_mask = (1u << f.fraction_bits) - 1, infinity = (uint32_t)top << f.fraction_bits,
             sign = signbit(x) ? 1u << (f.exponent_bits + f.fraction_bits) : 0,
             largest = f.has_infinity ? infinity - 1 : infinity + fraction_mask - 1,
             beyond = saturates ? largest : largest + 1;
    if (isnan(x))
        return sign | infinity | fraction_mask;
    if (isinf(x))
        return sign | beyond;
    if (x == 0)
        return sign;
    frexp(x, &exponent);
    exponent = MAX_OF(exponent - 1, 1 - bias);
    uint32_t digits = (uint32_t)fabs(element_round(ldexp(x, f.fraction_bits - exponent), mode));
    if (digits >> f.fraction_bits == 2) { // rounded up to the next power of two
        digits /= 2;
        exponent++;
    }
    if (exponent + bias > top)
        return sign | beyond;
    uint32_t bits = digits >> f.fraction_bits
                        ? (uint32_t)(exponent + bias) << f.fraction_bits | (digits & fraction_mask)
                        : digits;
    return sign | MIN_OF(bits, beyond);
}

void element_store(uint8_t *to, enum bm1690_dtype dtype, float x) {
    uint16_t half;
    switch (dtype) {
    case BM1690_FP32: memcpy(to, &x, 4); break;
    case BM1690_FP16:
        half = half_from_float(x);
        memcpy(to, &half, 2);
        break;
    case BM1690_BFP16:
        half = bfloat_from_float(x);
        memcpy(to, &half, 2);
        break;
    default: *to = (uint8_t)float_bits(x, format_of(dtype), ROUND_EVEN, false); break;
    }
}

void element_result(uint8_t *to, enum bm1690_dtype dtype, float x) {
    static const uint8_t ones[] = {0xff, 0xff, 0xff, 0xff};
    int last = bm1690_dtype_bytes(dtype) - 1;
    if (x == x) {
        element_store(to, dtype, element_flush(x));
        return;
    }
    memcpy(to, ones, (size_t)last);
    to[last] = 0x7f;
}

void element_keep(uint8_t *to, const uint8_t *from, enum bm1690_dtype dtype) {
    int bytes = bm1690_dtype_bytes(dtype);
    bool is_zero = bytes > 1 && dtype != BM1690_FP16 && element_operand(from, dtype) == 0;
    uint8_t sign = from[bytes - 1] & 0x80;
    if (!is_zero) {
        memmove(to, from, (size_t)bytes);
        return;
    }
    memset(to, 0, (size_t)bytes);
    to[bytes - 1] = sign;
}

void element_load_row(float *out, const uint8_t *row, int64_t stride, int count, enum bm1690_dtype dtype) {
    int64_t step = stride * bm1690_dtype_bytes(dtype);
    if (dtype == BM1690_FP32 && stride == 1) {
        memcpy(out, row, (size_t)count * 4);
        return;
    }
    for (int i = 0; i < count; i++)
        out[i] = element_load(row + i * step, dtype);
}

void element_store_row(uint8_t *row, int64_t stride, int count, enum bm1690_dtype dtype, const float *x) {
    int64_t step = stride * bm1690_dtype_bytes(dtype);
    if (dtype == BM1690_FP32 && stride == 1) {
        memcpy(row, x, (size_t)count * 4);
        return;
    }
    for (int i = 0; i < count; i++)
        element_store(row + i * step, dtype, x[i]);
}

// Casts -----------------------------------------------------------------------------------------------------

static void cast_to_int(uint8_t *to, enum bm1690_dtype dtype, double x, int mode) {
    int64_t least, most;
    element_range(dtype, &least, &most);
    double rounded = isnan(x) ? 0 : element_round(x, mode);
    element_store_int(to, dtype,
                      rounded <= (double)least  ? least
                      : rounded >= (double)most ? most
                                                : (int64_t)rounded);
}

// Returns whether numbers that are too large, and infinities, become the largest finite number: for casts
// from f32, and to 8 bits.
static bool cast_saturates(enum bm1690_dtype to, enum bm1690_dtype from) {
    return element_is_float(from) && to != BM1690_FP32 &&
           (from == BM1690_FP32 || bm1690_dtype_bytes(to) == 1);
}

static void cast_to_float(uint8_t *to, enum bm1690_dtype dtype, double x, int mode, bool saturates) {
    uint32_t bits = float_bits(x, format_of(dtype), mode, saturates);
    memcpy(to, &bits, (size_t)bm1690_dtype_bytes(dtype));
}

void element_cast(uint8_t *to, enum bm1690_dtype to_dtype, const uint8_t *from, enum bm1690_dtype from_dtype,
                  int mode) {
    double x = element_is_float(from_dtype) ? (double)element_load(from, from_dtype)
                                            : (double)element_load_int(from, from_dtype);
    bool is_wide = from_dtype == BM1690_FP32 || from_dtype == BM1690_BFP16;
    if (to_dtype == from_dtype) {
        memmove(to, from, (size_t)bm1690_dtype_bytes(to_dtype));
    } else if (from_dtype == BM1690_BFP16 && to_dtype == BM1690_FP32) {
        element_store(to, to_dtype, (float)x);
    } else if (element_is_float(to_dtype)) {
        // Numbers below the smallest normal one of f32 are zero.
        double kept = is_wide && fabs(x) < 0x1p-126 ? copysign(0, x) : x;
        cast_to_float(to, to_dtype, kept, mode, cast_saturates(to_dtype, from_dtype));
    } else {
        cast_to_int(to, to_dtype, x, mode);
    }
}

// Casts between f32 and 16-bit floats, rounded to the nearest even. These are the casts of most kernels, and
// need no doubles here. Returns false for subnormal numbers and NaN.
static bool cast_quickly(uint8_t *to, enum bm1690_dtype to_dtype, const uint8_t *from,
                         enum bm1690_dtype from_dtype) {
    float x = element_load(from, from_dtype);
    uint32_t size = bits_of_float(x) & 0x7fffffff;
    float most = to_dtype == BM1690_FP16 ? 65504.0f : float_of_bits(0x7f7f0000);
    if (size > 0x7f800000 || (size && size < 0x00800000))
        return false;
    if (to_dtype != BM1690_FP32)
        x = x > most ? most : x < -most ? -most : x;
    element_store(to, to_dtype, x);
    return true;
}

void element_cast_row(uint8_t *to, int64_t to_stride, enum bm1690_dtype to_dtype, const uint8_t *from,
                      int64_t from_stride, enum bm1690_dtype from_dtype, int count, int mode) {
    int64_t to_step = to_stride * bm1690_dtype_bytes(to_dtype),
            from_step = from_stride * bm1690_dtype_bytes(from_dtype);
    bool is_usual = mode == ROUND_EVEN &&
                    ((from_dtype == BM1690_FP32 && (to_dtype == BM1690_FP16 || to_dtype == BM1690_BFP16)) ||
                     (to_dtype == BM1690_FP32 && (from_dtype == BM1690_FP16 || from_dtype == BM1690_BFP16)));
    for (int i = 0; i < count; i++)
        if (!is_usual || !cast_quickly(to + i * to_step, to_dtype, from + i * from_step, from_dtype))
            element_cast(to + i * to_step, to_dtype, from + i * from_step, from_dtype, mode);
}
