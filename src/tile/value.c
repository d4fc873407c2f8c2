// value.c - scalar values of the IR: their bits, rounding and conversion.

#include "tile/tile.h"

#include <math.h>
#include <string.h>

// Bits of floating point numbers ----------------------------------------------------------------------------

static uint64_t f64_bits(double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static double f64_of(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

// These copy the bits of a NaN: a conversion by the machine would make a signalling NaN quiet.
static double widen_nan(uint64_t sign, uint64_t fraction, int fraction_bits) {
    return f64_of(sign << 63 | (uint64_t)0x7ff << 52 | fraction << (52 - fraction_bits));
}

static uint64_t narrow_nan(double v, int exponent_bits, int fraction_bits) {
    uint64_t bits = f64_bits(v), fraction = (bits << 12 >> 12) >> (52 - fraction_bits);
    uint64_t quiet = (uint64_t)1 << (fraction_bits - 1), exponent = ((uint64_t)1 << exponent_bits) - 1;
    return (bits >> 63) << (exponent_bits + fraction_bits) | exponent << fraction_bits |
           (fraction ? fraction : quiet);
}

static double value_of_f32(uint32_t bits) {
    bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return is_nan ? widen_nan(bits >> 31, bits & 0x7fffff, 23) : (double)float_of_bits(bits);
}

static double value_of_f16(uint32_t bits) {
    bool is_nan = (bits & 0x7fff) > 0x7c00;
    return is_nan ? widen_nan(bits >> 15, bits & 1023, 10) : (double)half_to_float((uint16_t)bits);
}

static uint32_t bits_of_f32(double v) {
    return isnan(v) ? (uint32_t)narrow_nan(v, 8, 23) : bits_of_float((float)v);
}

// v is an f16 or a NaN.
static uint32_t bits_of_f16(double v) {
    return isnan(v) ? (uint32_t)narrow_nan(v, 5, 10) : half_from_float((float)v);
}

// Rounding --------------------------------------------------------------------------------------------------

double tile_round(struct tile_type type, double value) {
    if (tile_type_is_small_float(type))
        return tile_small_value(type, tile_small_bits(type, value));
    if (type.bits == 64 || isnan(value))
        return value;
    float single = (float)value; // 16-bit floats are rounded from f32 on every target
    if (type.bits == 32)
        return single;
    return type.kind == TILE_BFLOAT ? bfloat_to_float(bfloat_from_float(single))
                                    : half_to_float(half_from_float(single));
}

// Values and bits -------------------------------------------------------------------------------------------

static uint64_t wrap(struct tile_type type, uint64_t u) {
    int unused = 64 - type.bits;
    return type.kind == TILE_INT ? (uint64_t)((int64_t)(u << unused) >> unused) : u << unused >> unused;
}

union tile_value tile_value_of(struct tile_type type, uint64_t bits) {
    union tile_value v = {.u = 0};
    if (type.kind == TILE_COMPLEX)
        v.c.re = float_of_bits((uint32_t)bits), v.c.im = float_of_bits((uint32_t)(bits >> 32));
    else if (tile_type_is_small_float(type))
        v.f = tile_small_value(type, bits);
    else if (type.kind == TILE_BFLOAT)
        v.f = value_of_f32((uint32_t)bits << 16);
    else if (type.kind == TILE_FLOAT)
        v.f = type.bits == 64   ? f64_of(bits)
              : type.bits == 32 ? value_of_f32((uint32_t)bits)
                                : value_of_f16((uint32_t)bits);
    else
        v.u = type.kind == TILE_BOOL ? bits != 0 : wrap(type, bits);
    return v;
}

uint64_t tile_bits_of(struct tile_type type, union tile_value value) {
    if (type.kind == TILE_COMPLEX)
        return bits_of_float(value.c.re) | (uint64_t)bits_of_float(value.c.im) << 32;
    if (tile_type_is_small_float(type))
        return tile_small_bits(type, value.f);
    if (type.kind == TILE_BFLOAT)
        return bits_of_f32(value.f) >> 16;
    if (type.kind == TILE_FLOAT)
        return type.bits == 64   ? f64_bits(value.f)
               : type.bits == 32 ? bits_of_f32(value.f)
                                 : bits_of_f16(value.f);
    if (type.kind == TILE_BOOL)
        return value.b;
    int unused = 64 - type.bits;
    return value.u << unused >> unused;
}

// Conversion ------------------------------------------------------------------------------------------------

// Truncates and saturates; NaN gives 0. The bounds are powers of two, so comparisons with them are exact.
static uint64_t integer_of(struct tile_type type, double f) {
    bool is_signed = type.kind == TILE_INT;
    double above = ldexp(1, type.bits - is_signed), lowest = is_signed ? -above : 0;
    uint64_t largest = UINT64_MAX >> (64 - type.bits + is_signed);
    if (isnan(f))
        return 0;
    if (f >= above)
        return largest;
    if (f <= lowest)
        return is_signed ? ~largest : 0;
    return is_signed ? (uint64_t)(int64_t)f : (uint64_t)f;
}

// Rounds an integer once to f32 or f64; to 16 bits from f32.
static double float_of(struct tile_type to, struct tile_type from, union tile_value v) {
    bool is_signed = from.kind == TILE_INT;
    if (to.bits == 64)
        return is_signed ? (double)v.i : (double)v.u;
    return tile_round(to, (double)(is_signed ? (float)v.i : (float)v.u));
}

static union tile_value convert_real(struct tile_type to, struct tile_type from, union tile_value v) {
    bool from_float = tile_type_is_float(from) || tile_type_is_small_float(from);
    if (to.kind == TILE_BOOL)
        return (union tile_value){.u = from_float ? v.f != 0 : v.u != 0};
    if (tile_type_is_float(to) || tile_type_is_small_float(to))
        return (union tile_value){.f = from_float ? tile_round(to, v.f) : float_of(to, from, v)};
    return (union tile_value){.u = from_float ? integer_of(to, v.f) : wrap(to, v.u)};
}

union tile_value tile_convert(struct tile_type to, struct tile_type from, union tile_value value) {
    static const struct tile_type f32 = {TILE_FLOAT, 32, 1};
    if (from.kind == TILE_BOOL)
        value.u = value.b;
    if (from.kind == TILE_COMPLEX && to.kind == TILE_COMPLEX)
        return value;
    if (from.kind == TILE_COMPLEX && to.kind == TILE_BOOL)
        return (union tile_value){.u = value.c.re != 0 || value.c.im != 0};
    if (from.kind == TILE_COMPLEX)
        return convert_real(to, f32, (union tile_value){.f = value.c.re});
    if (to.kind != TILE_COMPLEX)
        return convert_real(to, from, value);
    float re = (float)convert_real(f32, from, value).f;
    return (union tile_value){.c = {re, 0}};
}
