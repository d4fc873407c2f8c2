// gemm_vector_half.h - matrix times vector of half floats by instructions that multiply them as they are and sum in float32,
// included once a dtype: HALF(name), HALF_TARGET, HALF_ADD(low, high, a, x), which adds products of eight elements to two
// vectors, HALF_ONE(from), and HALF_PAIRS: low has the sums of even elements, high those of odd ones; else four and four.

typedef float HALF(vector) __attribute__((vector_size(16)));
typedef HALF(vector) HALF(memory) __attribute__((aligned(4), may_alias));

enum { HALF(LANES) = 8 };

// As in gemm_vector.h.
HALF_TARGET static inline __attribute__((always_inline)) void HALF(dots)(int rows, const uint16_t *a, int64_t apart,
                                                                          const uint16_t *x, int64_t n, float *y,
                                                                          int64_t apart_y) {
    HALF(vector) low[STREAMS] = {{0}}, high[STREAMS] = {{0}};
    int64_t i = 0;
    for (; i + HALF(LANES) <= n; i += HALF(LANES)) {
        halves8 by = *(const halves8_memory *)(x + i);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            halves8 from = *(const halves8_memory *)(a + r * apart + i);
            HALF_ADD(low[r], high[r], from, by);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        HALF(vector) both = low[r] + high[r];
        float sum = (both[0] + both[1]) + (both[2] + both[3]);
        for (int64_t j = i; j < n; j++)
            sum += HALF_ONE(a + r * apart + j) * HALF_ONE(x + j);
        y[r * apart_y] = sum;
    }
}

HALF_TARGET static void HALF(along)(const void *from, int64_t line, const void *vector, int64_t k, int64_t count,
                                    void *to) {
    const int64_t each = count / STREAMS;
    const uint16_t *a = from;
    float *y = to;
    for (int64_t i = 0; i < each; i++)
        HALF(dots)(STREAMS, a + i * line, each * line, vector, k, y + i, each);
    for (int64_t i = STREAMS * each; i < count; i++)
        HALF(dots)(1, a + i * line, 0, vector, k, y + i, 0);
}

HALF_TARGET static inline __attribute__((always_inline)) void HALF(add)(int lines, float *y, const uint16_t *a,
                                                                         int64_t apart, const uint16_t *x,
                                                                         int64_t apart_x, int64_t n) {
    int64_t i = 0;
    halves8 by[STREAMS];
#pragma GCC unroll 4
    for (int r = 0; r < lines; r++)
        by[r] = x[r * apart_x] - (halves8){0};
    for (; i + HALF(LANES) <= n; i += HALF(LANES)) {
        HALF(vector) low = *(HALF(memory) *)(y + i), high = *(HALF(memory) *)(y + i + 4);
#pragma GCC unroll 4
        for (int r = 0; r < lines; r++) {
            halves8 from = *(const halves8_memory *)(a + r * apart + i);
            HALF_ADD(low, high, from, by[r]);
        }
        *(HALF(memory) *)(y + i) = low;
        *(HALF(memory) *)(y + i + 4) = high;
    }
    for (; i < n; i++)
        for (int r = 0; r < lines; r++)
            y[i] += HALF_ONE(x + r * apart_x) * HALF_ONE(a + r * apart + i);
}

HALF_TARGET static void HALF(across)(const void *from, int64_t line, const void *vector, int64_t k, int64_t n,
                                     void *to) {
    const int64_t each = k / STREAMS;
    const uint16_t *a = from, *x = vector;
    float *y = to;
    memset(to, 0, (size_t)n * sizeof(float));
    for (int64_t i = 0; i < each; i++)
        HALF(add)(STREAMS, y, a + i * line, each * line, x + i, each, n);
    for (int64_t i = STREAMS * each; i < k; i++)
        HALF(add)(1, y, a + i * line, 0, x + i, 0, n);
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
