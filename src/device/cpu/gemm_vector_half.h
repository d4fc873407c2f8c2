// gemm_vector_half.h - matrix times vector of half floats by instructions that multiply them as they are and sum in float32,
// included once a dtype: HALF(name), HALF_TARGET, HALF_ADD(low, high, a, x), which adds products of eight elements to two
// vectors, HALF_ONE(from), and HALF_PAIRS: low has the sums of even elements, high those of odd ones; else four and four.

typedef float HALF(vector) __attribute__((vector_size(16)));
typedef HALF(vector) HALF(memory) __attribute__((aligned(4), may_alias));

enum { HALF(LANES) = 8 };

HALF_TARGET static inline __attribute__((always_inline)) void HALF(dots)(int rows, const uint16_t *a, int64_t line,
                                                                          const uint16_t *x, int64_t n, float *sum) {
    HALF(vector) low[HALF_ROWS] = {{0}}, high[HALF_ROWS] = {{0}};
    int64_t i = 0;
    for (; i + HALF(LANES) <= n; i += HALF(LANES)) {
        halves8 by = *(const halves8_memory *)(x + i);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            halves8 from = *(const halves8_memory *)(a + r * line + i);
            HALF_ADD(low[r], high[r], from, by);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        HALF(vector) both = low[r] + high[r];
        sum[r] = (both[0] + both[1]) + (both[2] + both[3]);
        for (int64_t j = i; j < n; j++)
            sum[r] += HALF_ONE(a + r * line + j) * HALF_ONE(x + j);
    }
}

HALF_TARGET static void HALF(along)(const void *from, int64_t line, const void *vector, int64_t k, int64_t count,
                                    void *to) {
    const uint16_t *a = from;
    float *y = to;
    for (; count >= HALF_ROWS; count -= HALF_ROWS, a += HALF_ROWS * line, y += HALF_ROWS)
        HALF(dots)(HALF_ROWS, a, line, vector, k, y);
    for (; count > 0; count--, a += line, y++)
        HALF(dots)(1, a, line, vector, k, y);
}

HALF_TARGET static inline __attribute__((always_inline)) void HALF(add)(int lines, float *y, const uint16_t *a,
                                                                         int64_t line, const uint16_t *x, int64_t n) {
    int64_t i = 0;
    halves8 by[GEMV_LINES];
#pragma GCC unroll 8
    for (int r = 0; r < lines; r++)
        by[r] = x[r] - (halves8){0};
    for (; i + HALF(LANES) <= n; i += HALF(LANES)) {
        HALF(vector) low = *(HALF(memory) *)(y + i), high = *(HALF(memory) *)(y + i + 4);
#pragma GCC unroll 8
        for (int r = 0; r < lines; r++) {
            halves8 from = *(const halves8_memory *)(a + r * line + i);
            HALF_ADD(low, high, from, by[r]);
        }
        *(HALF(memory) *)(y + i) = low;
        *(HALF(memory) *)(y + i + 4) = high;
    }
    for (; i < n; i++)
        for (int r = 0; r < lines; r++)
            y[i] += HALF_ONE(x + r) * HALF_ONE(a + r * line + i);
}

HALF_TARGET static void HALF(across)(const void *from, int64_t line, const void *vector, int64_t k, int64_t n,
                                     void *to) {
    const uint16_t *a = from, *x = vector;
    float *y = to;
    memset(to, 0, (size_t)n * sizeof(float));
    for (; k >= GEMV_LINES; k -= GEMV_LINES, a += GEMV_LINES * line, x += GEMV_LINES)
        HALF(add)(GEMV_LINES, y, a, line, x, n);
    for (; k > 0; k--, a += line, x++)
        HALF(add)(1, y, a, line, x, n);
    for (int64_t i = 0; HALF_PAIRS && i + HALF(LANES) <= n; i += HALF(LANES)) {
        HALF(vector) even = *(HALF(memory) *)(y + i), odd = *(HALF(memory) *)(y + i + 4);
        *(HALF(memory) *)(y + i) = __builtin_shufflevector(even, odd, 0, 4, 1, 5);
        *(HALF(memory) *)(y + i + 4) = __builtin_shufflevector(even, odd, 2, 6, 3, 7);
    }
}

#undef HALF
#undef HALF_TARGET
#undef HALF_ADD
#undef HALF_ONE
#undef HALF_PAIRS
