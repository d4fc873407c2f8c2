// quantized_line.c - products of one row of x and a quantised matrix, read in place, on x86: by AVX-512 with
// VNNI, or AVX2.

#include "device/cpu/quantized/quantized.h"

#if defined(__x86_64__)

#include "device/cpu/quantized/quantized_avx2.h"

// A row, and the binary logarithm of the number of slots (quantized_line.h) that share a scale.
struct line {
    const struct quantized *q;
    const struct int_set *x;
    int shift;
};

static int line_shift(const struct unpacking *u) {
    int slots = u->group / (u->bits == 4 ? 32 : 16), shift = 0;
    while (1 << shift < slots)
        shift++;
    return shift;
}

// Returns the floats of the scales of one column: a multiple of whole registers, and slack that may be read
// past the end.
static int64_t line_floats(int64_t groups) {
    return (groups + 15) / 16 * 16 + 16;
}

bool cpu_can_line(const struct quantized *q) {
    bool mode = q->u.mode == QUANT_AFFINE || q->u.mode == QUANT_GGUF_K;
    return q->m == 1 && mode && q->u.bits >= 4 && q->u.group >= (q->u.bits == 4 ? 32 : 16) && q->k % 32 == 0;
}

// The bytes of 16 codes of six bits, four codes in three bytes, and of five bits, eight codes in five bytes,
// as shuffles that widen these to four and to eight bytes; -1 gives 0.
#define SIX_BYTES  0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1
#define FIVE_BYTES 0, 1, 2, 3, 4, -1, -1, -1, 5, 6, 7, 8, 9, -1, -1, -1

#define AVX2        __attribute__((target("avx2,fma,f16c")))
#define AVX2_INLINE AVX2 static inline __attribute__((always_inline))

// Computes the scales and biases of a block of mode gguf_k as float32.
AVX2_INLINE void line_k_block(int bits, const uint8_t *block, float *scale, float *bias) {
    uint16_t d, least;
    quantized_k_halves(bits, block, &d, &least);
    const __m256 times = _mm256_set1_ps(_cvtsh_ss(d)), less = _mm256_set1_ps(-_cvtsh_ss(least));
    if (bits == 6) {
        for (int g = 0; g < 16; g += 8) {
            const __m128i whole = _mm_loadl_epi64((const __m128i *)(const void *)(block + g));
            const __m256 s = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(whole)), times);
            _mm256_storeu_ps(scale + g, s);
            _mm256_storeu_ps(bias + g, _mm256_mul_ps(s, _mm256_set1_ps(-32)));
        }
        return;
    }
    uint8_t whole[2][8];
    quantized_k_whole(bits, block, whole[0], whole[1]);
    for (int i = 0; i < 2; i++) {
        const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)whole[i]);
        const __m256 numbers = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
        _mm256_storeu_ps(i ? bias : scale, _mm256_mul_ps(numbers, i ? less : times));
    }
}

// AVX-512 ---------------------------------------------------------------------------------------------------

#define VNNI        __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#define VNNI_INLINE VNNI static inline __attribute__((always_inline))

VNNI_INLINE __m512i vnni_sixes(const uint8_t *from) {
    const __m512i map = _mm512_set_epi32(0, 11, 10, 9, 0, 8, 7, 6, 0, 5, 4, 3, 0, 2, 1, 0);
    const __m512i bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(SIX_BYTES));
    __m512i all = _mm512_permutexvar_epi32(map, _mm512_maskz_loadu_epi32(0xfff, from));
    all = _mm512_shuffle_epi8(all, bytes);
    __m512i low = _mm512_or_si512(_mm512_and_si512(all, _mm512_set1_epi32(0x3f)),
                                  _mm512_and_si512(_mm512_slli_epi32(all, 2), _mm512_set1_epi32(0x3f00)));
    __m512i high =
        _mm512_or_si512(_mm512_and_si512(_mm512_slli_epi32(all, 4), _mm512_set1_epi32(0x3f0000)),
                        _mm512_and_si512(_mm512_slli_epi32(all, 6), _mm512_set1_epi32(0x3f000000)));
    return _mm512_or_si512(low, high);
}

VNNI_INLINE __m512i vnni_fives(const uint8_t *from) {
    const __m512i map = _mm512_set_epi16(0, 0, 0, 19, 18, 17, 16, 15, 0, 0, 0, 14, 13, 12, 11, 10, 0, 0, 0, 9,
                                         8, 7, 6, 5, 0, 0, 0, 4, 3, 2, 1, 0);
    const __m512i bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(FIVE_BYTES));
    __m512i all = _mm512_permutexvar_epi16(map, _mm512_maskz_loadu_epi16(0xfffff, from));
    all = _mm512_shuffle_epi8(all, bytes); // halves of 40 bits are moved apart, then their halves, and so on
    all = _mm512_or_si512(_mm512_and_si512(all, _mm512_set1_epi64(0xfffff)),
                          _mm512_slli_epi64(_mm512_srli_epi64(all, 20), 32));
    all = _mm512_or_si512(_mm512_and_si512(all, _mm512_set1_epi32(0x3ff)),
                          _mm512_slli_epi32(_mm512_srli_epi32(all, 10), 16));
    return _mm512_or_si512(_mm512_and_si512(all, _mm512_set1_epi16(0x1f)),
                           _mm512_slli_epi16(_mm512_srli_epi16(all, 5), 8));
}

VNNI_INLINE __m512 vnni_spread(const float *at, __m512i map) {
    return _mm512_permutexvar_ps(map, _mm512_castps128_ps512(_mm_loadu_ps(at)));
}

VNNI_INLINE __m512 vnni_halves(const char *from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

#define LINE_NAME(part)           vnni_line_##part
#define LINE_VECTOR               cpu_line_vnni
#define LINE_ARRANGE              cpu_arrange_vnni
#define LINE_BYTES                64
#define LINE_TARGET               VNNI
#define LINE_DOT(sum, w, x, wide) \
    ((vnni_line_ints)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(w), (__m512i)(x)))
#define LINE_SPREAD(at, map)      ((vnni_line_floats)vnni_spread(at, (__m512i)(map)))
#define LINE_HALVES(at)           ((vnni_line_floats)vnni_halves(at))
#define LINE_SIXES(at)            vnni_sixes(at)
#define LINE_FIVES(at)            vnni_fives(at)
#define LINE_SUM(x)               _mm512_reduce_add_ps((__m512)(x))
#include "device/cpu/quantized/quantized_line.h"

// AVX2 ------------------------------------------------------------------------------------------------------

// Loads two pieces of `bytes` bytes, one into each half of a register. The second is loaded such that it ends
// with its last byte, because nothing after it may be read.
AVX2_INLINE __m256i avx2_halves_of(const uint8_t *from, int bytes) {
    const __m128i low = _mm_loadu_si128((const __m128i *)(const void *)from);
    const __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(from + 2 * bytes - 16));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

AVX2_INLINE __m256i avx2_sixes(const uint8_t *from) {
    const __m256i bytes =
        _mm256_setr_epi8(SIX_BYTES, 4, 5, 6, -1, 7, 8, 9, -1, 10, 11, 12, -1, 13, 14, 15, -1);
    __m256i all = _mm256_shuffle_epi8(avx2_halves_of(from, 12), bytes);
    __m256i low = _mm256_or_si256(_mm256_and_si256(all, _mm256_set1_epi32(0x3f)),
                                  _mm256_and_si256(_mm256_slli_epi32(all, 2), _mm256_set1_epi32(0x3f00)));
    __m256i high =
        _mm256_or_si256(_mm256_and_si256(_mm256_slli_epi32(all, 4), _mm256_set1_epi32(0x3f0000)),
                        _mm256_and_si256(_mm256_slli_epi32(all, 6), _mm256_set1_epi32(0x3f000000)));
    return _mm256_or_si256(low, high);
}

AVX2_INLINE __m256i avx2_fives(const uint8_t *from) {
    const __m256i bytes =
        _mm256_setr_epi8(FIVE_BYTES, 6, 7, 8, 9, 10, -1, -1, -1, 11, 12, 13, 14, 15, -1, -1, -1);
    __m256i all = _mm256_shuffle_epi8(avx2_halves_of(from, 10), bytes);
    all = _mm256_or_si256(_mm256_and_si256(all, _mm256_set1_epi64x(0xfffff)),
                          _mm256_slli_epi64(_mm256_srli_epi64(all, 20), 32));
    all = _mm256_or_si256(_mm256_and_si256(all, _mm256_set1_epi32(0x3ff)),
                          _mm256_slli_epi32(_mm256_srli_epi32(all, 10), 16));
    return _mm256_or_si256(_mm256_and_si256(all, _mm256_set1_epi16(0x1f)),
                           _mm256_slli_epi16(_mm256_srli_epi16(all, 5), 8));
}

AVX2_INLINE __m256 avx2_spread(const float *at, __m256i map) {
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(at)), map);
}

AVX2_INLINE __m256 avx2_halves(const char *from) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

AVX2_INLINE float avx2_sum(__m256 x) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

#define LINE_NAME(part)           avx2_line_##part
#define LINE_VECTOR               cpu_line_avx2
#define LINE_ARRANGE              cpu_arrange_avx2
#define LINE_BYTES                32
#define LINE_TARGET               AVX2
#define LINE_DOT(sum, w, x, wide) \
    ((avx2_line_ints)quantized_dot_avx2((__m256i)(sum), (__m256i)(w), (__m256i)(x), wide))
#define LINE_SPREAD(at, map)      ((avx2_line_floats)avx2_spread(at, (__m256i)(map)))
#define LINE_HALVES(at)           ((avx2_line_floats)avx2_halves(at))
#define LINE_SIXES(at)            avx2_sixes(at)
#define LINE_FIVES(at)            avx2_fives(at)
#define LINE_SUM(x)               avx2_sum((__m256)(x))
#include "device/cpu/quantized/quantized_line.h"

#endif
