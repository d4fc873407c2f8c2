// cpu_matmul_fp8.c - products of 8-bit floats (e4m3), computed as products of bfloat16, which represents all
// of them: elements are widened when factors are packed.

#include "device/cpu/gemm/gemm.h"
#include "device/cpu/rows/operands.h"
#include "op/ops.h"

// Converts e4m3 to bfloat16. The bits below the sign are an exponent, to which 120 is added, and the
// fraction. Subnormals, which have exponent 0, are shifted until their leading bit is implicit. All bits set
// are NaN.
static inline uint16_t widen(uint16_t code) {
    uint16_t low = code & 127, bits = (uint16_t)((low << 4) + (120 << 7));
    bits = low < 8 ? (uint16_t)((low << 5) + (119 << 7)) : bits;
    bits = low < 4 ? (uint16_t)((low << 6) + (118 << 7)) : bits;
    bits = low < 2 ? (uint16_t)((low << 7) + (117 << 7)) : bits;
    bits = low == 0 ? 0 : bits;
    bits = low == 127 ? 0x7fc0 : bits;
    return (uint16_t)(bits | (code & 128) << 8);
}

CPU_VECTORS static void widen_row(char *const *p, int64_t n, int64_t run) {
    uint16_t *restrict to = (uint16_t *)(void *)p[0];
    const uint8_t *restrict from = (const uint8_t *)p[1];
    (void)run;
    for (int64_t i = 0; i < n; i++)
        to[i] = widen(from[i]);
}

CPU_VECTORS static void widen_row_to_float32(char *const *p, int64_t n, int64_t run) {
    uint32_t *restrict to = (uint32_t *)(void *)p[0];
    const uint8_t *restrict from = (const uint8_t *)p[1];
    (void)run;
    for (int64_t i = 0; i < n; i++)
        to[i] = (uint32_t)widen(from[i]) << 16;
}

bool cpu_matmul_fp8(const struct call *c) {
    const struct gemm_kernel *kernel = gemm_kernel_for(ZL_BFLOAT16);
    float scale = (float)op_arg_double(call_args(c)[FP8_SCALE]);
    struct gemm_work how = {
        .dtype = ZL_UINT8,
        .out = (zl_dtype)call_args(c)[FP8_DTYPE],
        .kernel = kernel,
        .widen = kernel->dtype == ZL_BFLOAT16 ? widen_row : widen_row_to_float32,
        .scale = scale == 1 ? NULL : &scale,
    };
    return gemm_batches(c, &how);
}
