// gemm_vnni.c - micro-kernels for x86_64 with dot products of bytes: AVX512-VNNI, or AVX-VNNI without
// AVX-512. The instruction needs one unsigned operand, which is b.

#include "device/cpu/gemm/gemm.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define MICRO_NAME(part)     part##_i8_avx512_vnni
#define MICRO_SUM            int
#define MICRO_VECTOR         __m512i
#define MICRO_BYTES          64
#define MICRO_ROWS           8
#define MICRO_VECS           3
#define MICRO_UNIT           4
#define MICRO_STEP           8
#define MICRO_ALL(unit)      _mm512_set1_epi32(unit)
#define MICRO_DOT(sum, b, a) _mm512_dpbusd_epi32(sum, b, a)
#define MICRO_UNSIGNED       1
#define MICRO_TARGET         __attribute__((target("avx512f,avx512bw,avx512vnni")))
#include "device/cpu/gemm/gemm_micro_dot.h"

#define MICRO_NAME(part)     part##_i8_avx_vnni
#define MICRO_SUM            int
#define MICRO_VECTOR         __m256i
#define MICRO_BYTES          32
#define MICRO_ROWS           4
#define MICRO_VECS           3
#define MICRO_UNIT           4
#define MICRO_STEP           8
#define MICRO_ALL(unit)      _mm256_set1_epi32(unit)
#define MICRO_DOT(sum, b, a) _mm256_dpbusd_avx_epi32(sum, b, a)
#define MICRO_UNSIGNED       1
#define MICRO_TARGET         __attribute__((target("avx2,avxvnni")))
#include "device/cpu/gemm/gemm_micro_dot.h"

// As in gemm_avx512.c.
enum { BLOCK_EIGHTHS = 32 };

const struct gemm_kernel gemm_kernels_vnni[] = {
    {"i8 avx512_vnni", "avx512_vnni", ZL_INT8, ZL_INT32, 8, 48, 4, 32, micro_i8_avx512_vnni, .flip = 0x80,
     .run_ahead = ahead_i8_avx512_vnni, .l1_eighths = BLOCK_EIGHTHS},
    {"i8 avx_vnni", "avx_vnni", ZL_INT8, ZL_INT32, 4, 24, 4, 32, micro_i8_avx_vnni, .flip = 0x80,
     .run_ahead = ahead_i8_avx_vnni, .l1_eighths = BLOCK_EIGHTHS},
    {NULL},
};

#endif
