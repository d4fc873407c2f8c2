// fp8.c - conversion from and to fp8 in the format e4m3, stored in uint8: four bits of exponent, three of
// mantissa, no infinities, and NaN if all seven are set.

#include <math.h>

#include "op/ops.h"

static zl_array bits(uint32_t value) {
    return op_number(ZL_UINT32, value);
}

// Returns x as float32. The seven bits below the sign are those of a float16 whose exponent is 8 too small.
static zl_array widen(zl_array x) {
    zl_array low = zl_bitwise_and(zl_astype(x, ZL_UINT16), op_number(ZL_UINT16, 127));
    zl_array half = zl_view(zl_left_shift(low, op_number(ZL_UINT16, 7)), ZL_FLOAT16);
    zl_array size = zl_multiply(zl_astype(half, ZL_FLOAT32), op_number(ZL_FLOAT32, 256));
    size = zl_where(zl_equal(low, op_number(ZL_UINT16, 127)), op_number(ZL_FLOAT32, NAN), size);
    return zl_where(zl_greater(x, op_number(ZL_UINT8, 127)), zl_negative(size), size);
}

zl_array zl_from_fp8(zl_array x, zl_dtype dtype) {
    if (!x || !op_check_dtype("zl_from_fp8", dtype))
        return NULL;
    if (x->dtype != ZL_UINT8 || !dtype_is_float(dtype))
        return error_set(ZL_ERROR_DTYPE, "zl_from_fp8: %s to %s: uint8 to floating point is possible",
                         zl_dtype_name((zl_dtype)x->dtype), zl_dtype_name(dtype));
    return zl_astype(widen(x), dtype);
}
OP_SIGNATURE(zl_from_fp8, "quantized", "The numbers of eight bits (e4m3) that x, uint8, holds.", P_ARRAY(x),
             P_DTYPE(dtype, "bfloat16"));

enum { FP8_MOST = 543u << 21, FP8_NORMAL = 121u << 23, FP8_DENORMAL = 141u << 23 }; // as bits of float32

// Rounds to nearest, ties to even. Numbers that are too large, and NaN, become the largest number.
zl_array zl_to_fp8(zl_array x) {
    if (!x)
        return NULL;
    if (!dtype_is_float((zl_dtype)x->dtype))
        return error_set(ZL_ERROR_DTYPE, "zl_to_fp8: %s: floating point is needed",
                         zl_dtype_name((zl_dtype)x->dtype));
    zl_array word = zl_view(zl_astype(x, ZL_FLOAT32), ZL_UINT32);
    zl_array sign = zl_bitwise_and(word, bits(0x80000000u)), size = zl_bitwise_xor(word, sign);
    // Adding a number whose last mantissa bit is the smallest subnormal of e4m3 rounds to a multiple of that.
    zl_array moved = zl_add(zl_view(size, ZL_FLOAT32), zl_view(bits(FP8_DENORMAL), ZL_FLOAT32));
    zl_array small = zl_subtract(zl_view(moved, ZL_UINT32), bits(FP8_DENORMAL));
    zl_array odd = zl_bitwise_and(zl_right_shift(size, bits(20)), bits(1));
    zl_array big = zl_right_shift(
        zl_add(zl_add(size, bits((uint32_t)(7 - 127) << 23)), zl_add(odd, bits(0x7ffff))), bits(20));
    zl_array code = zl_where(zl_less(size, bits(FP8_NORMAL)), small, big);
    code = zl_where(zl_greater_equal(size, bits(FP8_MOST)), bits(0x7e), code);
    return zl_astype(zl_bitwise_or(code, zl_right_shift(sign, bits(24))), ZL_UINT8);
}
OP_SIGNATURE(zl_to_fp8, "quantized",
             "x as numbers of eight bits (e4m3), rounded to the nearest, in uint8; at most 448 in size.",
             P_ARRAY(x));
