// vec_neon_fp16.h - arithmetic of f16 by instructions (armv8.2-a+fp16), with the same bits as by way of f32.

#ifndef VEC_NEON_FP16_H
#define VEC_NEON_FP16_H

#define FP16_UNARY(op, instruction) NEON_UNARY(neon_##op##_f16, f16, instruction, "8h")
FP16_UNARY(sqrt, "fsqrt")
FP16_UNARY(floor, "frintm")
FP16_UNARY(ceil, "frintp")
FP16_UNARY(rint, "frintn")
FP16_UNARY(trunc, "frintz")
#define vec_sqrt_f16  neon_sqrt_f16
#define vec_floor_f16 neon_floor_f16
#define vec_ceil_f16  neon_ceil_f16
#define vec_rint_f16  neon_rint_f16
#define vec_trunc_f16 neon_trunc_f16

#define FP16_BINARY(op, instruction) NEON_BINARY(neon_##op##_f16, f16, instruction, "8h")
FP16_BINARY(add, "fadd")
FP16_BINARY(sub, "fsub")
FP16_BINARY(mul, "fmul")
FP16_BINARY(div, "fdiv")
FP16_BINARY(max, "fmax")
FP16_BINARY(min, "fmin")
#define vec_add_f16 neon_add_f16
#define vec_sub_f16 neon_sub_f16
#define vec_mul_f16 neon_mul_f16
#define vec_div_f16 neon_div_f16
#define vec_max_f16 neon_max_f16
#define vec_min_f16 neon_min_f16

NEON_BINARY(neon_equal_f16, f16, "fcmeq", "8h")
NEON_BINARY(neon_greater_f16, f16, "fcmgt", "8h")
NEON_BINARY(neon_not_less_f16, f16, "fcmge", "8h")
VEC_FN vec_i16 neon_eq_f16(vec_f16 a, vec_f16 b) { return (vec_i16)neon_equal_f16(a, b); }
VEC_FN vec_i16 neon_ne_f16(vec_f16 a, vec_f16 b) { return (vec_i16)~neon_equal_f16(a, b); }
VEC_FN vec_i16 neon_lt_f16(vec_f16 a, vec_f16 b) { return (vec_i16)neon_greater_f16(b, a); }
VEC_FN vec_i16 neon_le_f16(vec_f16 a, vec_f16 b) { return (vec_i16)neon_not_less_f16(b, a); }
#define vec_eq_f16 neon_eq_f16
#define vec_ne_f16 neon_ne_f16
#define vec_lt_f16 neon_lt_f16
#define vec_le_f16 neon_le_f16

#endif
