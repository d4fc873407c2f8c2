// vec_x86.h - functions that the levels of x86 share. Before a level includes this file, it defines how its
// instructions are written: X86_V is "" or "v", and X86_UNARY and X86_BINARY define a function of one
// instruction.

#ifndef VEC_X86_H
#define VEC_X86_H

// Floats ----------------------------------------------------------------------------------------------------

// For two zeros, and for NaN, the instruction returns its second operand. Combining the results for both
// orders of the operands gives the right sign; NaN becomes all ones.
#define X86_FLOAT(T, m, s)                                                                   \
    X86_UNARY(x86_sqrt_##T, T, X86_V "sqrtp" s)                                              \
    X86_BINARY(x86_maxp_##T, T, X86_V "maxp" s)                                              \
    X86_BINARY(x86_minp_##T, T, X86_V "minp" s)                                              \
    VEC_FN vec_##T x86_max_##T(vec_##T a, vec_##T b) {                                       \
        vec_##m nan = (vec_##m)(a != a) | (vec_##m)(b != b);                                 \
        return (vec_##T)(((vec_##m)x86_maxp_##T(a, b) & (vec_##m)x86_maxp_##T(b, a)) | nan); \
    }                                                                                        \
    VEC_FN vec_##T x86_min_##T(vec_##T a, vec_##T b) {                                       \
        vec_##m nan = (vec_##m)(a != a) | (vec_##m)(b != b);                                 \
        return (vec_##T)((vec_##m)x86_minp_##T(a, b) | (vec_##m)x86_minp_##T(b, a) | nan);   \
    }
X86_FLOAT(f32, i32, "s")
X86_FLOAT(f64, i64, "d")
#define vec_sqrt_f32 x86_sqrt_f32
#define vec_sqrt_f64 x86_sqrt_f64
#define vec_max_f32  x86_max_f32
#define vec_max_f64  x86_max_f64
#define vec_min_f32  x86_min_f32
#define vec_min_f64  x86_min_f64

#define X86_ROUND(T, s)                                  \
    X86_UNARY(x86_rint_##T, T, X86_ROUND_NAME s " $8,")  \
    X86_UNARY(x86_floor_##T, T, X86_ROUND_NAME s " $9,") \
    X86_UNARY(x86_ceil_##T, T, X86_ROUND_NAME s " $10,") \
    X86_UNARY(x86_trunc_##T, T, X86_ROUND_NAME s " $11,")
X86_ROUND(f32, "s")
X86_ROUND(f64, "d")
#define vec_rint_f32  x86_rint_f32
#define vec_rint_f64  x86_rint_f64
#define vec_floor_f32 x86_floor_f32
#define vec_floor_f64 x86_floor_f64
#define vec_ceil_f32  x86_ceil_f32
#define vec_ceil_f64  x86_ceil_f64
#define vec_trunc_f32 x86_trunc_f32
#define vec_trunc_f64 x86_trunc_f64

// Integers --------------------------------------------------------------------------------------------------

#define X86_ORDERED(T, s)                      \
    X86_BINARY(x86_max_##T, T, X86_V "pmax" s) \
    X86_BINARY(x86_min_##T, T, X86_V "pmin" s)
X86_ORDERED(i8, "sb")
X86_ORDERED(u8, "ub")
X86_ORDERED(i16, "sw")
X86_ORDERED(u16, "uw")
X86_ORDERED(i32, "sd")
X86_ORDERED(u32, "ud")
#define vec_max_i8  x86_max_i8
#define vec_max_u8  x86_max_u8
#define vec_max_i16 x86_max_i16
#define vec_max_u16 x86_max_u16
#define vec_max_i32 x86_max_i32
#define vec_max_u32 x86_max_u32
#define vec_min_i8  x86_min_i8
#define vec_min_u8  x86_min_u8
#define vec_min_i16 x86_min_i16
#define vec_min_u16 x86_min_u16
#define vec_min_i32 x86_min_i32
#define vec_min_u32 x86_min_u32

X86_UNARY(x86_abs_i8, i8, X86_V "pabsb")
X86_UNARY(x86_abs_i16, i16, X86_V "pabsw")
X86_UNARY(x86_abs_i32, i32, X86_V "pabsd")
#define vec_abs_i8  x86_abs_i8
#define vec_abs_i16 x86_abs_i16
#define vec_abs_i32 x86_abs_i32

// Integers to floats, below AVX-512 -------------------------------------------------------------------------

// Each half becomes the low bits of a large float, whose exponent is a constant; only the sum of both rounds.
VEC_FN vec_f64 x86_f64_of_u64(vec_u64 x) {
    vec_f64 high = (vec_f64)((x >> 32) | 0x4530000000000000u);
    vec_f64 low = (vec_f64)((x & 0xffffffff) | 0x4330000000000000u);
    return (high - (0x1p84 + 0x1p52)) + low;
}
VEC_FN vec_f64 x86_f64_of_i64(vec_i64 x) {
    vec_u64 upper = ((vec_u64)x >> 32) ^ 0x80000000u;
    vec_f64 high = (vec_f64)(upper | 0x4530000000000000u);
    vec_f64 low = (vec_f64)(((vec_u64)x & 0xffffffff) | 0x4330000000000000u);
    return (high - (0x1p84 + 0x1p63 + 0x1p52)) + low;
}
VEC_FN vec_f32 x86_f32_of_u32(vec_u32 x) {
    vec_f32 high = __builtin_convertvector((vec_i32)(x >> 16), vec_f32);
    vec_f32 low = __builtin_convertvector((vec_i32)(x & 0xffff), vec_f32);
    return high * 0x1p16f + low;
}

#endif
