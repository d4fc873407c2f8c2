// gemm_avx2.c - micro-kernels for x86_64 with AVX2 and fused multiply-adds. int8 is multiplied as int16: one
// instruction sums pairs of products, which cannot overflow.

#include "device/cpu/gemm/gemm.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define MICRO_NAME(part) part##_f32_avx2
#define MICRO_TYPE       float
#define MICRO_BYTES      32
#define MICRO_ROWS       6
#define MICRO_VECS       2
#define MICRO_AHEAD
#define MICRO_TARGET     __attribute__((target("avx2,fma")))
#include "device/cpu/gemm/gemm_micro.h"

#define MICRO_NAME(part) part##_f64_avx2
#define MICRO_TYPE       double
#define MICRO_BYTES      32
#define MICRO_ROWS       6
#define MICRO_VECS       2
#define MICRO_AHEAD
#define MICRO_TARGET     __attribute__((target("avx2,fma")))
#include "device/cpu/gemm/gemm_micro.h"

#define MICRO_NAME(part)     part##_i16_avx2
#define MICRO_SUM            int
#define MICRO_VECTOR         __m256i
#define MICRO_BYTES          32
#define MICRO_ROWS           4
#define MICRO_VECS           2
#define MICRO_UNIT           2
#define MICRO_ALL(unit)      _mm256_set1_epi32(unit)
#define MICRO_DOT(sum, b, a) _mm256_add_epi32(sum, _mm256_madd_epi16(b, a))
#define MICRO_UNSIGNED       0
#define MICRO_TARGET         __attribute__((target("avx2")))
#include "device/cpu/gemm/gemm_micro_dot.h"

// As in gemm_avx512.c.
enum { BLOCK_EIGHTHS = 8 };

const struct gemm_kernel gemm_kernels_avx2[] = {
    {"f32 avx2", "avx2", ZL_FLOAT32, ZL_FLOAT32, 6, 16, 1, 1, micro_f32_avx2, .run_ahead = ahead_f32_avx2,
     .l1_eighths = BLOCK_EIGHTHS},
    {"f64 avx2", "avx2", ZL_FLOAT64, ZL_FLOAT64, 6, 8, 1, 1, micro_f64_avx2, .run_ahead = ahead_f64_avx2,
     .l1_eighths = BLOCK_EIGHTHS},
    {"i16 avx2", "avx2", ZL_INT16, ZL_INT32, 4, 16, 2, 2, micro_i16_avx2, .run_ahead = ahead_i16_avx2,
     .l1_eighths = BLOCK_EIGHTHS},
    {NULL},
};

#endif
