// vec_avx2.h - x86-64-v3: AVX2, FMA and F16C.

#ifndef VEC_AVX2_H
#define VEC_AVX2_H

#define X86_V          "v"
#define X86_ROUND_NAME "vroundp"
#define X86_UNARY(name, T, instruction)                    \
    VEC_FN vec_##T name(vec_##T a) {                       \
        vec_##T r;                                         \
        __asm__(instruction " %1, %0" : "=x"(r) : "x"(a)); \
        return r;                                          \
    }
#define X86_BINARY(name, T, instruction)                               \
    VEC_FN vec_##T name(vec_##T a, vec_##T b) {                        \
        vec_##T r;                                                     \
        __asm__(instruction " %2, %1, %0" : "=x"(r) : "x"(a), "x"(b)); \
        return r;                                                      \
    }
#include "vec/vec_x86.h"

#define vec_f64_of_u64 x86_f64_of_u64
#define vec_f64_of_i64 x86_f64_of_i64
#define vec_f32_of_u32 x86_f32_of_u32

#define AVX2_FMA(T, s)                                                    \
    VEC_FN vec_##T avx2_fma_##T(vec_##T a, vec_##T b, vec_##T c) {        \
        __asm__("vfmadd231p" s " %2, %1, %0" : "+x"(c) : "x"(a), "x"(b)); \
        return c;                                                         \
    }
AVX2_FMA(f32, "s")
AVX2_FMA(f64, "d")
#define vec_fma_f32 avx2_fma_f32
#define vec_fma_f64 avx2_fma_f64

VEC_FN int avx2_any(vec_u64 x) {
    int any;
    __asm__("vptest %1, %1" : "=@ccnz"(any) : "x"(x));
    return any;
}
#define vec_any avx2_any

VEC_FN vec_f32 avx2_f32_of_f16(vec_f16 x, int part) {
    vec_half_f16 half = part ? __builtin_shufflevector(x, x, VEC_ORDER(HIGH, 16))
                             : __builtin_shufflevector(x, x, VEC_ORDER(LOW, 16));
    vec_f32 r;
    __asm__("vcvtph2ps %1, %0" : "=x"(r) : "x"(half));
    return r;
}
VEC_FN vec_f16 avx2_f16_of_f32(vec_f32 a, vec_f32 b) {
    vec_half_f16 low, high;
    __asm__("vcvtps2ph $0, %1, %0" : "=x"(low) : "x"(a));
    __asm__("vcvtps2ph $0, %1, %0" : "=x"(high) : "x"(b));
    return __builtin_shufflevector(low, high, VEC_ORDER(BOTH, 16));
}
#define vec_f32_of_f16 avx2_f32_of_f16
#define vec_f16_of_f32 avx2_f16_of_f32

#endif
