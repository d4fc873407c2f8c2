// gemm_avx512.c - micro-kernels for x86_64 with the AVX-512 of x86-64-v4.

#include "device/cpu/gemm/gemm.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define MICRO_NAME(part) part##_f32_avx512
#define MICRO_TYPE       float
#define MICRO_BYTES      64
#define MICRO_ROWS       8
#define MICRO_VECS       3
#define MICRO_AHEAD
#define MICRO_PACKING
#define MICRO_TARGET     __attribute__((target("avx512f")))
#include "device/cpu/gemm/gemm_micro.h"

#define MICRO_NAME(part) part##_f32_avx512_32
#define MICRO_TYPE       float
#define MICRO_BYTES      64
#define MICRO_ROWS       12
#define MICRO_VECS       2
#define MICRO_AHEAD
#define MICRO_PACKING
#define MICRO_TARGET     __attribute__((target("avx512f")))
#include "device/cpu/gemm/gemm_micro.h"

#define MICRO_NAME(part) part##_f64_avx512
#define MICRO_TYPE       double
#define MICRO_BYTES      64
#define MICRO_ROWS       8
#define MICRO_VECS       3
#define MICRO_AHEAD
#define MICRO_PACKING
#define MICRO_TARGET     __attribute__((target("avx512f")))
#include "device/cpu/gemm/gemm_micro.h"

#define MICRO_NAME(part)     part##_i16_avx512
#define MICRO_SUM            int
#define MICRO_VECTOR         __m512i
#define MICRO_BYTES          64
#define MICRO_ROWS           8
#define MICRO_VECS           3
#define MICRO_UNIT           2
#define MICRO_ALL(unit)      _mm512_set1_epi32(unit)
#define MICRO_DOT(sum, b, a) _mm512_add_epi32(sum, _mm512_madd_epi16(b, a))
#define MICRO_UNSIGNED       0
#define MICRO_TARGET         __attribute__((target("avx512f,avx512bw")))
#include "device/cpu/gemm/gemm_micro_dot.h"

// Blocks of k are longer than fits L1: L2 delivers panels of b as fast as they are needed, and sums are
// loaded and stored less often.
enum { BLOCK_EIGHTHS = 32 };

const struct gemm_kernel gemm_kernels_avx512[] = {
    {"f32 avx512", "avx512", ZL_FLOAT32, ZL_FLOAT32, 8, 48, 1, 1, micro_f32_avx512,
     .run_ahead = ahead_f32_avx512, .run_packing = packing_f32_avx512, .l1_eighths = BLOCK_EIGHTHS},
    {"f32 avx512, 32 columns", "avx512", ZL_FLOAT32, ZL_FLOAT32, 12, 32, 1, 1, micro_f32_avx512_32,
     .run_ahead = ahead_f32_avx512_32, .run_packing = packing_f32_avx512_32, .like = gemm_kernels_avx512},
    {"f64 avx512", "avx512", ZL_FLOAT64, ZL_FLOAT64, 8, 24, 1, 1, micro_f64_avx512,
     .run_ahead = ahead_f64_avx512, .run_packing = packing_f64_avx512, .l1_eighths = BLOCK_EIGHTHS},
    {"i16 avx512", "avx512", ZL_INT16, ZL_INT32, 8, 48, 2, 2, micro_i16_avx512,
     .run_ahead = ahead_i16_avx512, .l1_eighths = BLOCK_EIGHTHS},
    {NULL},
};

#endif
