// vec_avx512.h - x86-64-v4: AVX-512 with BW, DQ and VL. Its conversions of f32 to bf16 are not used: they
// flush subnormals.

#ifndef VEC_AVX512_H
#define VEC_AVX512_H

#define X86_V          "v"
#define X86_ROUND_NAME "vrndscalep"
#define X86_UNARY(name, T, instruction)                    \
    VEC_FN vec_##T name(vec_##T a) {                       \
        vec_##T r;                                         \
        __asm__(instruction " %1, %0" : "=v"(r) : "v"(a)); \
        return r;                                          \
    }
#define X86_BINARY(name, T, instruction)                               \
    VEC_FN vec_##T name(vec_##T a, vec_##T b) {                        \
        vec_##T r;                                                     \
        __asm__(instruction " %2, %1, %0" : "=v"(r) : "v"(a), "v"(b)); \
        return r;                                                      \
    }
#include "vec/vec_x86.h"

X86_ORDERED(i64, "sq")
X86_ORDERED(u64, "uq")
X86_UNARY(x86_abs_i64, i64, "vpabsq")
#define vec_max_i64 x86_max_i64
#define vec_max_u64 x86_max_u64
#define vec_min_i64 x86_min_i64
#define vec_min_u64 x86_min_u64
#define vec_abs_i64 x86_abs_i64

#define AVX512_FMA(T, s)                                                  \
    VEC_FN vec_##T avx512_fma_##T(vec_##T a, vec_##T b, vec_##T c) {      \
        __asm__("vfmadd231p" s " %2, %1, %0" : "+v"(c) : "v"(a), "v"(b)); \
        return c;                                                         \
    }
AVX512_FMA(f32, "s")
AVX512_FMA(f64, "d")
#define vec_fma_f32 avx512_fma_f32
#define vec_fma_f64 avx512_fma_f64

VEC_FN int avx512_any(vec_u64 x) {
    int any;
    __asm__("vptestmq %1, %1, %%k1\n\tkortestb %%k1, %%k1" : "=@ccnz"(any) : "v"(x) : "k1");
    return any;
}
#define vec_any avx512_any

#define AVX512_CONVERT(name, R, T, instruction)            \
    VEC_FN vec_##R name(vec_##T x) {                       \
        vec_##R r;                                         \
        __asm__(instruction " %1, %0" : "=v"(r) : "v"(x)); \
        return r;                                          \
    }
AVX512_CONVERT(avx512_f64_of_i64, f64, i64, "vcvtqq2pd")
AVX512_CONVERT(avx512_f64_of_u64, f64, u64, "vcvtuqq2pd")
AVX512_CONVERT(avx512_f32_of_u32, f32, u32, "vcvtudq2ps")
#define vec_f64_of_i64 avx512_f64_of_i64
#define vec_f64_of_u64 avx512_f64_of_u64
#define vec_f32_of_u32 avx512_f32_of_u32

VEC_FN vec_f32 avx512_f32_of_f16(vec_f16 x, int part) {
    vec_half_f16 half = part ? __builtin_shufflevector(x, x, VEC_ORDER(HIGH, 16))
                             : __builtin_shufflevector(x, x, VEC_ORDER(LOW, 16));
    vec_f32 r;
    __asm__("vcvtph2ps %1, %0" : "=v"(r) : "v"(half));
    return r;
}
VEC_FN vec_f16 avx512_f16_of_f32(vec_f32 a, vec_f32 b) {
    vec_half_f16 low, high;
    __asm__("vcvtps2ph $0, %1, %0" : "=v"(low) : "v"(a));
    __asm__("vcvtps2ph $0, %1, %0" : "=v"(high) : "v"(b));
    return __builtin_shufflevector(low, high, VEC_ORDER(BOTH, 16));
}
#define vec_f32_of_f16 avx512_f32_of_f16
#define vec_f16_of_f32 avx512_f16_of_f32

#endif
