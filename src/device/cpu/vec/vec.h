// vec.h - the vector layer, in which rendered kernels are written: the same names on every instruction set.
//
// A vec_f32 is one register of VEC_BYTES bytes; vec_<op>_<type> works on all lanes. Masks are signed integers
// of the lanes' width, all ones or all zeros. vec_f16 and vec_bf16 hold bits. Every level gives the same
// bits: nothing is contracted, reassociated or flushed to zero; only the payload and sign of a NaN may
// differ.
//
// vec_generic.h implements everything with the vector extensions of gcc and clang, vec_<level>.h replaces
// functions for which the level has better instructions, and vec_half.h builds the 16-bit floats on top.
// Instructions that no C expression stands for are written as one-line asm: the compilers' intrinsic headers
// take 0.13 s (arm_neon.h) to 0.33 s (immintrin.h) to read, which is too long for a kernel compiled at run
// time (gcc 12, Neoverse-V1, 2026-11).

#ifndef VEC_H
#define VEC_H

#include <stdint.h>

// The level is -DZL_LEVEL=<name in levels.def>, else the best one that the compiler's flags allow.
#ifndef ZL_LEVEL
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC) && defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
#define ZL_LEVEL neon_bf16
#elif defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
#define ZL_LEVEL neon_fp16
#elif defined(__aarch64__)
#define ZL_LEVEL neon
#elif defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define ZL_LEVEL avx512
#elif defined(__AVX2__) && defined(__F16C__) && defined(__FMA__)
#define ZL_LEVEL avx2
#elif defined(__SSE4_2__)
#define ZL_LEVEL sse42
#else
#define ZL_LEVEL scalar
#endif
#endif

#define VEC_LEVEL_scalar    0
#define VEC_LEVEL_neon      11
#define VEC_LEVEL_neon_fp16 12
#define VEC_LEVEL_neon_bf16 13
#define VEC_LEVEL_sse42     21
#define VEC_LEVEL_avx2      22
#define VEC_LEVEL_avx512    23

#define VEC_JOIN_(a, b) a##b
#define VEC_JOIN(a, b)  VEC_JOIN_(a, b)
#define VEC_LEVEL       VEC_JOIN(VEC_LEVEL_, ZL_LEVEL)
#define VEC_IS_NEON     (VEC_LEVEL / 10 == 1)
#define VEC_IS_X86      (VEC_LEVEL / 10 == 2)

#if VEC_LEVEL == VEC_LEVEL_avx512
#define VEC_BYTES 64
#elif VEC_LEVEL == VEC_LEVEL_avx2
#define VEC_BYTES 32
#elif !defined(VEC_BYTES) // other sizes can be tested at the level scalar
#define VEC_BYTES 16
#endif

#include "vec/vec_generic.h"

#if VEC_IS_NEON
#include "vec/vec_neon.h"
#endif
#if VEC_LEVEL == VEC_LEVEL_sse42
#include "vec/vec_sse42.h"
#elif VEC_LEVEL == VEC_LEVEL_avx2
#include "vec/vec_avx2.h"
#elif VEC_LEVEL == VEC_LEVEL_avx512
#include "vec/vec_avx512.h"
#endif

#include "vec/vec_half.h"

#if VEC_LEVEL >= VEC_LEVEL_neon_fp16 && VEC_IS_NEON
#include "vec/vec_neon_fp16.h"
#endif
#if VEC_LEVEL == VEC_LEVEL_neon_bf16
#include "vec/vec_neon_bf16.h"
#endif

#include "vec/vec_reduce.h"
#include "vec/vec_rest.h"

#endif
