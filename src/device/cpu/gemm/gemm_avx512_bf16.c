// gemm_avx512_bf16.c - the micro-kernel for x86_64 with dot products of bfloat16.

#include "device/cpu/gemm/gemm.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define MICRO_NAME(part)     part##_bf16_avx512
#define MICRO_SUM            float
#define MICRO_VECTOR         __m512
#define MICRO_BYTES          64
#define MICRO_ROWS           8
#define MICRO_VECS           3
#define MICRO_UNIT           2
#define MICRO_ALL(unit)      ((__m512)_mm512_set1_epi32(unit))
#define MICRO_DOT(sum, b, a) _mm512_dpbf16_ps(sum, (__m512bh)(b), (__m512bh)(a))
#define MICRO_UNSIGNED       0
#define MICRO_TARGET         __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#include "device/cpu/gemm/gemm_micro_dot.h"

// As in gemm_avx512.c.
enum { BLOCK_EIGHTHS = 32 };

const struct gemm_kernel gemm_kernels_avx512_bf16[] = {
    {"bf16 avx512_bf16", "avx512_bf16", ZL_BFLOAT16, ZL_FLOAT32, 8, 48, 2, 2, micro_bf16_avx512,
     .run_ahead = ahead_bf16_avx512, .l1_eighths = BLOCK_EIGHTHS},
    {NULL},
};

#endif
