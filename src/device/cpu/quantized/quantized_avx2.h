// quantized_avx2.h - dot products of bytes by AVX2, which has no single instruction for them. Only for
// x86_64.

#ifndef CPU_QUANTIZED_AVX2_H
#define CPU_QUANTIZED_AVX2_H

#include <immintrin.h>
#include <stdbool.h>

// Adds dot products of four bytes. A sum of two products fits into 16 bits only if the highest bit of codes
// of eight bits (`wide`) is multiplied separately.
__attribute__((target("avx2"))) static inline __attribute__((always_inline)) __m256i
quantized_dot_avx2(__m256i sum, __m256i w, __m256i x, bool wide) {
    const __m256i ones = _mm256_set1_epi16(1), low = _mm256_set1_epi8(127);
    if (!wide)
        return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), ones));
    __m256i a = _mm256_maddubs_epi16(_mm256_and_si256(w, low), x),
            b = _mm256_maddubs_epi16(_mm256_andnot_si256(low, w), x);
    return _mm256_add_epi32(sum, _mm256_add_epi32(_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones)));
}

#endif
