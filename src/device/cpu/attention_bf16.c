// attention_bf16.c - weights of attention as bfloat16, where a micro-kernel multiplies 2 x 4 of them with 4 x 2.

#include "device/cpu/attention.h"
#include "device/cpu/lanes.h"

#if defined(__aarch64__)

enum { COLS = 12, UNIT = 4, STEP = 8 }; // of the kernel

#define WITH_BF16 GEMM_FUSED CPU_WITH("bf16")
#define INLINE    WITH_BF16 static inline __attribute__((always_inline))

// exp(x), as attention_micro.h has it, to within 2^-13.
INLINE floats4 soft(floats4 x) {
    GEMM_CONTRACT
    const float shift = 12582912 + 127;
    const floats4 least = (floats4){0} - 88.03f;
    __asm__("fmax %0.4s, %0.4s, %1.4s" : "+w"(x) : "w"(least));
    floats4 n = x * 1.44269504f + shift, r = x * 1.44269504f + (shift - n);
    floats4 high = r * 0.0551716691f + 0.242611122f, low = r * 0.693260985f + 0.999928074f;
    return (high * (r * r) + low) * (floats4)((words4)n << 23);
}

INLINE halves8 narrow(floats4 low, floats4 high) {
    halves8 r;
    __asm__("bfcvtn %0.4h, %1.4s" : "=w"(r) : "w"(low));
    __asm__("bfcvtn2 %0.8h, %1.4s" : "+w"(r) : "w"(high));
    return r;
}

// Four keys of four columns: a unit of each column.
INLINE void put(const floats4 *e, char *to) {
    halves8 a = narrow(e[0], e[1]), b = narrow(e[2], e[3]);
    halves8 even = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11),
            odd = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    halves_memory *at = (halves_memory *)(void *)to;
    at[0] = __builtin_shufflevector(even, odd, 0, 8, 1, 9, 2, 10, 3, 11);
    at[1] = __builtin_shufflevector(even, odd, 4, 12, 5, 13, 6, 14, 7, 15);
}

// One unit of four columns, of which there are n keys; their sum.
INLINE floats4 soften_unit(const float *scores, int64_t n, int64_t cols, float scale, floats4 less,
                           char *to) {
    GEMM_CONTRACT
    floats4 e[UNIT];
#pragma GCC unroll 4
    for (int i = 0; i < UNIT; i++)
        e[i] = i < n ? soft(*(const floats_memory *)(scores + i * cols) * scale + less) : (floats4){0};
    put(e, to);
    return (e[0] + e[1]) + (e[2] + e[3]);
}

WITH_BF16 void cpu_attention_soften_half(const float *scores, int64_t keys, float scale, const float *most,
                                         float *sum, char *to) {
    floats4 less[COLS / 4], total[COLS / 4];
    for (int c = 0; c < COLS / 4; c++)
        less[c] = -*(const floats_memory *)(most + 4 * c), total[c] = *(const floats_memory *)(sum + 4 * c);
    int64_t j = 0;
    for (; j + UNIT <= keys; j += UNIT)
#pragma GCC unroll 3
        for (int c = 0; c < COLS / 4; c++)
            total[c] += soften_unit(scores + j * COLS + 4 * c, UNIT, COLS, scale, less[c],
                                    to + (j * COLS + c * 4 * UNIT) * 2);
    for (; j < attention_round(keys, STEP); j += UNIT)
        for (int c = 0; c < COLS / 4; c++)
            total[c] += soften_unit(scores + j * COLS + 4 * c, keys - j, COLS, scale, less[c],
                                    to + (j * COLS + c * 4 * UNIT) * 2);
    for (int c = 0; c < COLS / 4; c++)
        *(floats_memory *)(sum + 4 * c) = total[c];
}

#else

void cpu_attention_soften_half(const float *scores, int64_t keys, float scale, const float *most, float *sum,
                               char *to) {
    (void)scores, (void)keys, (void)scale, (void)most, (void)sum, (void)to;
}

#endif
