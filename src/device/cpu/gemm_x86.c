// gemm_x86.c - micro-kernels of x86_64: AVX2 and AVX-512.

#include "device/cpu/gemm.h"

#if defined(__x86_64__)

#define MICRO_NAME(part) part##_f32_avx2
#define MICRO_TYPE       float
#define MICRO_BYTES      32
#define MICRO_ROWS       6
#define MICRO_VECS       2
#define MICRO_TARGET     __attribute__((target("avx2,fma")))
#include "device/cpu/gemm_micro.h"

#define MICRO_NAME(part) part##_f64_avx2
#define MICRO_TYPE       double
#define MICRO_BYTES      32
#define MICRO_ROWS       6
#define MICRO_VECS       2
#define MICRO_TARGET     __attribute__((target("avx2,fma")))
#include "device/cpu/gemm_micro.h"

#define MICRO_NAME(part) part##_i32_avx2
#define MICRO_TYPE       uint32_t
#define MICRO_BYTES      32
#define MICRO_ROWS       6
#define MICRO_VECS       2
#define MICRO_TARGET     __attribute__((target("avx2")))
#include "device/cpu/gemm_micro.h"

#define MICRO_NAME(part) part##_f32_avx512
#define MICRO_TYPE       float
#define MICRO_BYTES      64
#define MICRO_ROWS       8
#define MICRO_VECS       3
#define MICRO_TARGET     __attribute__((target("avx512f")))
#include "device/cpu/gemm_micro.h"

#define MICRO_NAME(part) part##_f64_avx512
#define MICRO_TYPE       double
#define MICRO_BYTES      64
#define MICRO_ROWS       8
#define MICRO_VECS       3
#define MICRO_TARGET     __attribute__((target("avx512f")))
#include "device/cpu/gemm_micro.h"

const struct gemm_kernel gemm_kernels_x86[] = {
    {"f32 avx512", "avx512", ZL_FLOAT32, ZL_FLOAT32, 8, 48, 1, 1, micro_f32_avx512},
    {"f64 avx512", "avx512", ZL_FLOAT64, ZL_FLOAT64, 8, 24, 1, 1, micro_f64_avx512},
    {"f32 avx2", "avx2", ZL_FLOAT32, ZL_FLOAT32, 6, 16, 1, 1, micro_f32_avx2},
    {"f64 avx2", "avx2", ZL_FLOAT64, ZL_FLOAT64, 6, 8, 1, 1, micro_f64_avx2},
    {"i32 avx2", "avx2", ZL_INT32, ZL_INT32, 6, 16, 1, 1, micro_i32_avx2},
    {NULL},
};

#endif
