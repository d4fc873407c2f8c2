// vec_neon.h - functions for which the instructions of every aarch64 processor are better than the generic
// code.

#ifndef VEC_NEON_H
#define VEC_NEON_H

// Defines a function of one instruction on whole registers; `of` is the arrangement of lanes, as in "4s".
#define NEON_UNARY(name, T, instruction, of)                          \
    VEC_FN vec_##T name(vec_##T a) {                                  \
        vec_##T r;                                                    \
        __asm__(instruction " %0." of ", %1." of : "=w"(r) : "w"(a)); \
        return r;                                                     \
    }
#define NEON_BINARY(name, T, instruction, of)                                            \
    VEC_FN vec_##T name(vec_##T a, vec_##T b) {                                          \
        vec_##T r;                                                                       \
        __asm__(instruction " %0." of ", %1." of ", %2." of : "=w"(r) : "w"(a), "w"(b)); \
        return r;                                                                        \
    }

// Floats ----------------------------------------------------------------------------------------------------

#define NEON_FLOAT(T, of)                                                        \
    NEON_UNARY(neon_sqrt_##T, T, "fsqrt", of)                                    \
    NEON_UNARY(neon_abs_##T, T, "fabs", of)                                      \
    NEON_UNARY(neon_floor_##T, T, "frintm", of)                                  \
    NEON_UNARY(neon_ceil_##T, T, "frintp", of)                                   \
    NEON_UNARY(neon_rint_##T, T, "frintn", of)                                   \
    NEON_UNARY(neon_trunc_##T, T, "frintz", of)                                  \
    NEON_BINARY(neon_max_##T, T, "fmax", of)                                     \
    NEON_BINARY(neon_min_##T, T, "fmin", of)                                     \
    VEC_FN vec_##T neon_fma_##T(vec_##T a, vec_##T b, vec_##T c) {               \
        __asm__("fmla %0." of ", %1." of ", %2." of : "+w"(c) : "w"(a), "w"(b)); \
        return c;                                                                \
    }
NEON_FLOAT(f32, "4s")
NEON_FLOAT(f64, "2d")
#define vec_sqrt_f32  neon_sqrt_f32
#define vec_sqrt_f64  neon_sqrt_f64
#define vec_abs_f32   neon_abs_f32
#define vec_abs_f64   neon_abs_f64
#define vec_floor_f32 neon_floor_f32
#define vec_floor_f64 neon_floor_f64
#define vec_ceil_f32  neon_ceil_f32
#define vec_ceil_f64  neon_ceil_f64
#define vec_rint_f32  neon_rint_f32
#define vec_rint_f64  neon_rint_f64
#define vec_trunc_f32 neon_trunc_f32
#define vec_trunc_f64 neon_trunc_f64
#define vec_max_f32   neon_max_f32
#define vec_max_f64   neon_max_f64
#define vec_min_f32   neon_min_f32
#define vec_min_f64   neon_min_f64
#define vec_fma_f32   neon_fma_f32
#define vec_fma_f64   neon_fma_f64

// fmla overwrites its addend. A constant addend is loaded from memory each time, because a copy between
// registers would use the units that compute.
#define NEON_ADDEND(T, ...)                                                     \
    (__extension__({                                                            \
        static const vec_##T neon_constant = {__VA_ARGS__};                     \
        vec_##T neon_copy;                                                      \
        __asm__ volatile("ldr %q0, %1" : "=w"(neon_copy) : "m"(neon_constant)); \
        neon_copy;                                                              \
    }))
#define vec_addend_f32(x) NEON_ADDEND(f32, x, x, x, x)
#define vec_addend_f64(x) NEON_ADDEND(f64, x, x)

// Integers --------------------------------------------------------------------------------------------------

#define NEON_ORDERED(T, sign, of)                \
    NEON_BINARY(neon_max_##T, T, sign "max", of) \
    NEON_BINARY(neon_min_##T, T, sign "min", of)
NEON_ORDERED(i8, "s", "16b")
NEON_ORDERED(u8, "u", "16b")
NEON_ORDERED(i16, "s", "8h")
NEON_ORDERED(u16, "u", "8h")
NEON_ORDERED(i32, "s", "4s")
NEON_ORDERED(u32, "u", "4s")
#define vec_max_i8  neon_max_i8
#define vec_max_u8  neon_max_u8
#define vec_max_i16 neon_max_i16
#define vec_max_u16 neon_max_u16
#define vec_max_i32 neon_max_i32
#define vec_max_u32 neon_max_u32
#define vec_min_i8  neon_min_i8
#define vec_min_u8  neon_min_u8
#define vec_min_i16 neon_min_i16
#define vec_min_u16 neon_min_u16
#define vec_min_i32 neon_min_i32
#define vec_min_u32 neon_min_u32

NEON_UNARY(neon_abs_i8, i8, "abs", "16b")
NEON_UNARY(neon_abs_i16, i16, "abs", "8h")
NEON_UNARY(neon_abs_i32, i32, "abs", "4s")
NEON_UNARY(neon_abs_i64, i64, "abs", "2d")
#define vec_abs_i8  neon_abs_i8
#define vec_abs_i16 neon_abs_i16
#define vec_abs_i32 neon_abs_i32
#define vec_abs_i64 neon_abs_i64

// There is no instruction for 64-bit products: the product of the low halves, plus the cross products shifted
// up.
VEC_FN vec_u64 neon_mul_u64(vec_u64 a, vec_u64 b) {
    vec_u32 swapped, cross;
    vec_u64 low, high, r;
    __asm__("rev64 %0.4s, %1.4s" : "=w"(swapped) : "w"(b));
    __asm__("mul %0.4s, %1.4s, %2.4s" : "=w"(cross) : "w"(a), "w"(swapped));
    __asm__("uaddlp %0.2d, %1.4s" : "=w"(high) : "w"(cross));
    __asm__("xtn %0.2s, %1.2d" : "=w"(low) : "w"(a));
    __asm__("xtn %0.2s, %1.2d" : "=w"(swapped) : "w"(b));
    r = high << 32;
    __asm__("umlal %0.2d, %1.2s, %2.2s" : "+w"(r) : "w"(low), "w"(swapped));
    return r;
}
VEC_FN vec_i64 neon_mul_i64(vec_i64 a, vec_i64 b) { return (vec_i64)neon_mul_u64((vec_u64)a, (vec_u64)b); }
#define vec_mul_u64 neon_mul_u64
#define vec_mul_i64 neon_mul_i64

// Masks -----------------------------------------------------------------------------------------------------

VEC_FN int neon_any(vec_u64 x) {
    vec_u32 r;
    __asm__("umaxp %0.4s, %1.4s, %1.4s" : "=w"(r) : "w"(x));
    return ((vec_u64)r)[0] != 0;
}
#define vec_any neon_any

// Widening and narrowing ------------------------------------------------------------------------------------

// part is a constant, so only one of the two instructions remains.
#define NEON_WIDEN(W, N, instruction, to, half, full, immediate)                       \
    VEC_FN vec_##W neon_##W##_of_##N(vec_##N x, int part) {                            \
        vec_##W r;                                                                     \
        if (part)                                                                      \
            __asm__(instruction "2 %0." to ", %1." full immediate : "=w"(r) : "w"(x)); \
        else                                                                           \
            __asm__(instruction " %0." to ", %1." half immediate : "=w"(r) : "w"(x));  \
        return r;                                                                      \
    }
NEON_WIDEN(i16, i8, "sshll", "8h", "8b", "16b", ", #0")
NEON_WIDEN(u16, u8, "ushll", "8h", "8b", "16b", ", #0")
NEON_WIDEN(i32, i16, "sshll", "4s", "4h", "8h", ", #0")
NEON_WIDEN(u32, u16, "ushll", "4s", "4h", "8h", ", #0")
NEON_WIDEN(i64, i32, "sshll", "2d", "2s", "4s", ", #0")
NEON_WIDEN(u64, u32, "ushll", "2d", "2s", "4s", ", #0")
NEON_WIDEN(f64, f32, "fcvtl", "2d", "2s", "4s", "")
NEON_WIDEN(f32, f16, "fcvtl", "4s", "4h", "8h", "")
NEON_WIDEN(f32, bf16, "shll", "4s", "4h", "8h", ", #16")
#define vec_i16_of_i8  neon_i16_of_i8
#define vec_u16_of_u8  neon_u16_of_u8
#define vec_i32_of_i16 neon_i32_of_i16
#define vec_u32_of_u16 neon_u32_of_u16
#define vec_i64_of_i32 neon_i64_of_i32
#define vec_u64_of_u32 neon_u64_of_u32
#define vec_f64_of_f32 neon_f64_of_f32
#define vec_f32_of_f16 neon_f32_of_f16
#define vec_f32_of_bf16 neon_f32_of_bf16

VEC_FN vec_f64 neon_f64_of_i32(vec_i32 x, int part) { return vec_f64_of_i64(neon_i64_of_i32(x, part)); }
VEC_FN vec_f64 neon_f64_of_u32(vec_u32 x, int part) { return vec_f64_of_u64(neon_u64_of_u32(x, part)); }
#define vec_f64_of_i32 neon_f64_of_i32
#define vec_f64_of_u32 neon_f64_of_u32

#define NEON_NARROW(name, N, W, instruction, half, full, from)             \
    VEC_FN vec_##N name(vec_##W a, vec_##W b) {                            \
        vec_##N r;                                                         \
        __asm__(instruction " %0." half ", %1." from : "=w"(r) : "w"(a));  \
        __asm__(instruction "2 %0." full ", %1." from : "+w"(r) : "w"(b)); \
        return r;                                                          \
    }
NEON_NARROW(neon_f32_of_f64, f32, f64, "fcvtn", "2s", "4s", "2d")
NEON_NARROW(neon_f16_of_f32, f16, f32, "fcvtn", "4h", "8h", "4s")
NEON_NARROW(neon_saturate_i32, i32, i64, "sqxtn", "2s", "4s", "2d")
NEON_NARROW(neon_saturate_u32, u32, u64, "uqxtn", "2s", "4s", "2d")
#define vec_f32_of_f64     neon_f32_of_f64
#define vec_f16_of_f32     neon_f16_of_f32

// Float to integer saturates, NaN gives 0 -------------------------------------------------------------------

#define NEON_TO_INT(I, F, instruction, of)                            \
    VEC_FN vec_##I neon_##I##_of_##F(vec_##F x) {                     \
        vec_##I r;                                                    \
        __asm__(instruction " %0." of ", %1." of : "=w"(r) : "w"(x)); \
        return r;                                                     \
    }
NEON_TO_INT(i32, f32, "fcvtzs", "4s")
NEON_TO_INT(u32, f32, "fcvtzu", "4s")
NEON_TO_INT(i64, f64, "fcvtzs", "2d")
NEON_TO_INT(u64, f64, "fcvtzu", "2d")
#define vec_i32_of_f32 neon_i32_of_f32
#define vec_u32_of_f32 neon_u32_of_f32
#define vec_i64_of_f64 neon_i64_of_f64
#define vec_u64_of_f64 neon_u64_of_f64

VEC_FN vec_i32 neon_i32_of_f64(vec_f64 a, vec_f64 b) {
    return neon_saturate_i32(neon_i64_of_f64(a), neon_i64_of_f64(b));
}
VEC_FN vec_u32 neon_u32_of_f64(vec_f64 a, vec_f64 b) {
    return neon_saturate_u32(neon_u64_of_f64(a), neon_u64_of_f64(b));
}
#define vec_i32_of_f64 neon_i32_of_f64
#define vec_u32_of_f64 neon_u32_of_f64

#endif
