// half.c - conversions between 16-bit floats and f32; nothing else defines them.

#include "base/base.h"

float half_to_float(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = bits & 0x7fff;
    if (rest >= 0x7c00)
        return float_of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13 | (rest > 0x7c00 ? 0x400000 : 0));
    float value = (rest & 0x7c00) ? float_of_bits((rest << 13) + 0x38000000) : (float)rest * 0x1p-24f;
    return float_of_bits(bits_of_float(value) | sign);
}

uint16_t half_from_float(float x) {
    uint32_t bits = bits_of_float(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x477ff000) // rounds to 65520 or more
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) // below 2^-14: adding 0.5 shifts the mantissa into place, rounded
        return (uint16_t)(sign | (bits_of_float(float_of_bits(rest) + 0.5f) - 0x3f000000));
    return (uint16_t)(sign | (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13);
}

float bfloat_to_float(uint16_t bits) {
    return float_of_bits((uint32_t)bits << 16);
}

uint16_t bfloat_from_float(float x) {
    uint32_t bits = bits_of_float(x);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Public ----------------------------------------------------------------------------------------------------

float zl_float16_to_float(uint16_t bits) {
    return half_to_float(bits);
}

uint16_t zl_float16_from_float(float x) {
    return half_from_float(x);
}

float zl_bfloat16_to_float(uint16_t bits) {
    return bfloat_to_float(bits);
}

uint16_t zl_bfloat16_from_float(float x) {
    return bfloat_from_float(x);
}
