// attention_micro.h - the inner loops of attention, included once per vector size with CODE(name), CODE_BYTES
// and CODE_TARGET defined.

typedef float CODE(vector) __attribute__((vector_size(CODE_BYTES)));
typedef CODE(vector) CODE(memory) __attribute__((aligned(4), may_alias));
typedef int32_t CODE(whole) __attribute__((vector_size(CODE_BYTES)));
#define VECTOR   CODE(vector)
#define WHOLE    CODE(whole)
#define AT(p)    (*(CODE(memory) *)(p))
#define GIVEN(p) (*(const CODE(memory) *)(p))
#define LANES    ((int)(CODE_BYTES / 4))
#define INNER    GEMM_FUSED CODE_TARGET static inline __attribute__((always_inline))
#define OUTER    GEMM_FUSED CODE_TARGET static

// Returns the larger of a and b; NaN if b is NaN.
INNER VECTOR CODE(larger)(VECTOR a, VECTOR b) {
#if defined(__aarch64__)
    __asm__("fmax %0.4s, %0.4s, %1.4s" : "+w"(a) : "w"(b));
    return a;
#elif CODE_BYTES == 64
    return (VECTOR)_mm512_max_ps((__m512)a, (__m512)b);
#else
    WHOLE more = a > b;
    return (VECTOR)(((WHOLE)a & more) | ((WHOLE)b & ~more));
#endif
}

// Returns 2^r for an r between -0.5 and 0.5.
INNER VECTOR CODE(power_of)(VECTOR r) {
    GEMM_CONTRACT
    VECTOR low = r * 0.693146967f + 1.0f, middle = r * 0.0555071327f + 0.240221197f,
           high = r * 0.0013276472f + 0.00967554133f, square = r * r;
    return (high * square + middle) * square + low;
}

// Returns exp(x) for x that are hardly positive; 0 below -88. exp(x) is 2^n * 2^r with a whole n, and 2^r a
// polynomial. The error is at most 2 ULP.
INNER VECTOR CODE(exp)(VECTOR x) {
    GEMM_CONTRACT
    // a number plus `shift` has its whole part plus the exponent bias in its last bits
    const float shift = 12582912 + 127;
    x = CODE(larger)((VECTOR){0} - 88.03f, x);
    VECTOR n = x * 1.44269504f + shift;
    VECTOR power = (VECTOR)((WHOLE)n << 23);
    return CODE(power_of)(x * 1.44269504f + (shift - n)) * power;
}

// STRIPS runs DO for all columns, on one to three vectors of columns at a time. DO reads all of these vectors
// before the next row.
#define EACH(vectors) _Pragma("GCC unroll 4") for (int v = 0; v < (vectors); v++)
#define STRIPS(c, cols, DO)                     \
    for (int64_t c = 0, rest; c < cols;) {      \
        rest = (cols - c) / LANES;              \
        if (rest % 3 == 0) {                    \
            DO(3);                              \
            c += 3 * LANES;                     \
        } else if (rest % 2 == 0) {             \
            DO(2);                              \
            c += 2 * LANES;                     \
        } else {                                \
            DO(1);                              \
            c += LANES;                         \
        }                                       \
    }

INNER void CODE(max_strip)(int vectors, const float *scores, int64_t keys, int64_t cols, VECTOR *top) {
    VECTOR most[3][4];
    int64_t j = 0;
    EACH(vectors) most[v][0] = most[v][1] = most[v][2] = most[v][3] = GIVEN(scores + v * LANES);
    for (; j + 4 <= keys; j += 4)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            EACH(vectors) most[v][i] = CODE(larger)(GIVEN(scores + (j + i) * cols + v * LANES), most[v][i]);
    for (; j < keys; j++)
        EACH(vectors) most[v][0] = CODE(larger)(GIVEN(scores + j * cols + v * LANES), most[v][0]);
    EACH(vectors)
    top[v] = CODE(larger)(CODE(larger)(most[v][0], most[v][1]), CODE(larger)(most[v][2], most[v][3]));
}

OUTER bool CODE(raise_max)(const float *scores, int64_t keys, int64_t cols, float scale, float *most,
                           float *sum, float *factor) {
    GEMM_CONTRACT
    VECTOR top[GEMM_COLS_MOST / LANES];
    WHOLE changed = {0};
#define RAISE_MAX(vectors) CODE(max_strip)(vectors, scores + c, keys, cols, top + c / LANES)
    STRIPS(c, cols, RAISE_MAX)
    for (int64_t c = 0; c < cols; c += LANES) {
        VECTOR before = GIVEN(most + c), after = CODE(larger)(top[c / LANES], before);
        VECTOR by = CODE(exp)((before - after) * scale);
        changed |= after != before;
        AT(most + c) = after;
        AT(sum + c) *= by;
        AT(factor + c) = by;
    }
    int any = 0;
    for (int i = 0; i < LANES; i++)
        any |= changed[i];
    return any;
}

INNER void CODE(exp_sum_strip)(int vectors, float *scores, int64_t keys, int64_t cols, float scale,
                               const float *most, float *sum) {
    GEMM_CONTRACT
    VECTOR top[3], total[3];
    EACH(vectors) top[v] = GIVEN(most + v * LANES), total[v] = GIVEN(sum + v * LANES);
    for (int64_t j = 0; j < keys; j++, scores += cols)
        EACH(vectors) {
            VECTOR e = CODE(exp)((GIVEN(scores + v * LANES) - top[v]) * scale);
            AT(scores + v * LANES) = e;
            total[v] += e;
        }
    EACH(vectors) AT(sum + v * LANES) = total[v];
}

OUTER void CODE(exp_sum)(float *scores, int64_t keys, int64_t cols, float scale, const float *most,
                         float *sum, float *room) {
#if defined(__aarch64__)
    if (cols == 12 && keys % 4 == 0) {
        cpu_attention_exp_sum_neon(scores, keys, scale, most, sum, room);
        return;
    }
#endif
    (void)room;
#define EXP_SUM(vectors) CODE(exp_sum_strip)(vectors, scores + c, keys, cols, scale, most + c, sum + c)
    STRIPS(c, cols, EXP_SUM)
}

INNER void CODE(power_strip)(int vectors, float *scores, int64_t keys, int64_t cols, float top, float *sum) {
    VECTOR total[3];
    EACH(vectors) total[v] = GIVEN(sum + v * LANES);
    for (int64_t j = 0; j < keys; j++, scores += cols)
        EACH(vectors) {
            VECTOR x = GIVEN(scores + v * LANES), n = x + ATTENTION_SHIFT(top);
            VECTOR e = CODE(power_of)(x - (n - ATTENTION_SHIFT(top))) * (VECTOR)((WHOLE)n << 23);
            AT(scores + v * LANES) = e;
            total[v] += e;
        }
    EACH(vectors) AT(sum + v * LANES) = total[v];
}

OUTER void CODE(power)(float *scores, int64_t keys, int64_t cols, float top, float *sum) {
#if defined(__aarch64__)
    if (cols == 12 && keys % 4 == 0) {
        cpu_attention_power_neon(scores, keys, top, sum);
        return;
    }
#endif
#define POWER(vectors) CODE(power_strip)(vectors, scores + c, keys, cols, top, sum + c)
    STRIPS(c, cols, POWER)
}

#if defined(__aarch64__)
#define EXP_SUM_BF16 cpu_attention_exp_sum_bf16
#elif CODE_BYTES == 64
// Computes the weights of some vectors of columns, two keys at a time: the weights of a column for both keys
// become a pair of bf16 numbers of the panel.
INNER CODE_PAIRS_TARGET void CODE(pairs_strip)(int vectors, const float *scores, int64_t keys, int64_t cols,
                                               float scale, const float *most, float *sum, char *to,
                                               int64_t row) {
    GEMM_CONTRACT
    static const uint16_t turn[] = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23,
                                    8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i alternate = _mm512_loadu_si512(turn);
    VECTOR top[2], total[2];
    EACH(vectors) top[v] = GIVEN(most + v * LANES), total[v] = GIVEN(sum + v * LANES);
    for (int64_t j = 0; j < keys; j += 2, scores += 2 * cols, to += row)
        EACH(vectors) {
            VECTOR first = CODE(exp)((GIVEN(scores + v * LANES) - top[v]) * scale),
                   second = CODE(exp)((GIVEN(scores + cols + v * LANES) - top[v]) * scale);
            total[v] += first;
            total[v] += second;
            __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
            _mm512_storeu_si512(to + v * CODE_BYTES, _mm512_permutexvar_epi16(alternate, both));
        }
    EACH(vectors) AT(sum + v * LANES) = total[v];
}

static CODE_PAIRS_TARGET GEMM_FUSED void CODE(exp_sum_bf16)(float *scores, int64_t keys,
                                                            const struct gemm_kernel *u, float scale,
                                                            const float *most, float *sum, float *room,
                                                            char *to) {
    const int64_t part = u->b_cols ? u->b_cols : u->cols, row = 2 * part * 2; // bytes per pair of keys
    (void)room;
    for (int64_t c = 0; c < u->cols; c += LANES)
        CODE(pairs_strip)(1, scores + c, keys, u->cols, scale, most + c, sum + c,
                          to + c / part * part * keys * 2 + c % part * 4, row);
}
#define EXP_SUM_BF16 CODE(exp_sum_bf16)
#else
#define EXP_SUM_BF16 NULL
#endif

// Scores that do not fill a vector are padded with numbers whose exponential is 0.
OUTER bool CODE(softmax_row)(float *scores, int64_t keys, float *most, float *sum, float *factor) {
    GEMM_CONTRACT
    float before = *most, after = before;
    int64_t whole = keys / LANES * LANES;
    VECTOR top = (VECTOR){0} + before, total = {0};
    for (int64_t j = 0; j < whole; j += LANES)
        top = CODE(larger)(GIVEN(scores + j), top);
    for (int i = 0; i < LANES; i++)
        after = top[i] > after ? top[i] : after;
    for (int64_t j = whole; j < keys; j++)
        after = scores[j] > after ? scores[j] : after;
    for (int64_t j = 0; j < whole; j += LANES) {
        VECTOR e = CODE(exp)(GIVEN(scores + j) - after);
        AT(scores + j) = e;
        total += e;
    }
    VECTOR rest = (VECTOR){0} + MASKED * 2;
    for (int64_t j = whole; j < keys; j++)
        rest[j - whole] = scores[j] - after;
    rest = CODE(exp)(rest);
    for (int64_t j = whole; j < keys; j++)
        scores[j] = rest[j - whole];
    total += rest;
    *factor = CODE(exp)((VECTOR){0} + (before - after))[0];
    *sum *= *factor;
    for (int i = 0; i < LANES; i++)
        *sum += total[i];
    *most = after;
    return after != before;
}

INNER void CODE(weigh_strip)(int vectors, float *scores, float *dscores, int64_t keys, int64_t cols,
                             const float *most, const float *inverse, const float *less) {
    GEMM_CONTRACT
    VECTOR top[3], by[3], minus[3];
    EACH(vectors)
    top[v] = GIVEN(most + v * LANES),
    by[v] = GIVEN(inverse + v * LANES), minus[v] = GIVEN(less + v * LANES);
    for (int64_t j = 0; j < keys; j++, scores += cols, dscores += cols)
        EACH(vectors) {
            VECTOR s = GIVEN(scores + v * LANES), p = CODE(exp)(s - top[v]) * by[v];
            AT(scores + v * LANES) = p;
            AT(dscores + v * LANES) =
                (VECTOR)((WHOLE)(p * (GIVEN(dscores + v * LANES) - minus[v])) & (s != MASKED));
        }
}

OUTER void CODE(weigh)(float *scores, float *dscores, int64_t keys, int64_t cols, const float *most,
                       const float *inverse, const float *less){
#define WEIGH(vectors) \
    CODE(weigh_strip)(vectors, scores + c, dscores + c, keys, cols, most + c, inverse + c, less + c)
    STRIPS(c, cols, WEIGH)}

INNER void CODE(softmax_vjp_strip)(int vectors, const float *weights, float *dscores, int64_t keys,
                                   int64_t cols, const float *less) {
    VECTOR minus[3];
    EACH(vectors) minus[v] = GIVEN(less + v * LANES);
    for (int64_t j = 0; j < keys; j++, weights += cols, dscores += cols)
        EACH(vectors)
        AT(dscores + v * LANES) = GIVEN(weights + v * LANES) * (GIVEN(dscores + v * LANES) - minus[v]);
}

OUTER void CODE(softmax_vjp)(const float *weights, float *dscores, int64_t keys, int64_t cols,
                             const float *less) {
#define SOFTMAX_VJP(vectors) CODE(softmax_vjp_strip)(vectors, weights + c, dscores + c, keys, cols, less + c)
    STRIPS(c, cols, SOFTMAX_VJP)
}

OUTER void CODE(add)(float *scores, const float *mask, int64_t count) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        AT(scores + i) += GIVEN(mask + i);
    for (; i < count; i++)
        scores[i] += mask[i];
}

OUTER void CODE(mask_out)(float *scores, const float *mask, int64_t count) {
    const VECTOR masked = (VECTOR){0} + MASKED;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        WHOLE seen = GIVEN(mask + i) != 0.0f;
        AT(scores + i) = (VECTOR)(((WHOLE)GIVEN(scores + i) & seen) | ((WHOLE)masked & ~seen));
    }
    for (; i < count; i++)
        scores[i] = mask[i] ? scores[i] : MASKED;
}

OUTER void CODE(scale)(float *x, int64_t count, float factor) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        AT(x + i) *= factor;
    for (; i < count; i++)
        x[i] *= factor;
}

OUTER void CODE(scale_cols)(float *x, int64_t rows, int64_t cols, const float *factor) {
    for (int64_t c = 0; c < cols; c += LANES) {
        VECTOR by = GIVEN(factor + c);
        for (int64_t i = 0; i < rows; i++)
            AT(x + i * cols + c) *= by;
    }
}

// One row ---------------------------------------------------------------------------------------------------

// Returns the sum of the lanes of each of the four vectors.
INNER quad CODE(lane_sums)(quad a, quad b, quad c, quad d) {
    quad ab = __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
    quad cd = __builtin_shufflevector(c, d, 0, 2, 4, 6) + __builtin_shufflevector(c, d, 1, 3, 5, 7);
    return __builtin_shufflevector(ab, cd, 0, 2, 4, 6) + __builtin_shufflevector(ab, cd, 1, 3, 5, 7);
}

OUTER void CODE(dots)(const float *rows, int64_t row, int64_t count, const float *x, int64_t cols,
                      float *out) {
    GEMM_CONTRACT
    int64_t j = 0;
    for (; j + 8 <= count; j += 8, rows += 8 * row) {
        quad s[8] = {{0}};
        int64_t i = 0;
        for (; i + 4 <= cols; i += 4) {
            quad y = *(const quad_memory *)(x + i);
#pragma GCC unroll 8
            for (int k = 0; k < 8; k++)
                s[k] += y * *(const quad_memory *)(rows + k * row + i);
        }
        *(quad_memory *)(out + j) = CODE(lane_sums)(s[0], s[1], s[2], s[3]);
        *(quad_memory *)(out + j + 4) = CODE(lane_sums)(s[4], s[5], s[6], s[7]);
        for (; i < cols; i++)
            for (int k = 0; k < 8; k++)
                out[j + k] += x[i] * rows[k * row + i];
    }
    for (; j < count; j++, rows += row) {
        quad s[2] = {{0}};
        int64_t i = 0;
        for (; i + 8 <= cols; i += 8) {
            s[0] += *(const quad_memory *)(x + i) * *(const quad_memory *)(rows + i);
            s[1] += *(const quad_memory *)(x + i + 4) * *(const quad_memory *)(rows + i + 4);
        }
        s[0] += s[1];
        float sum = (s[0][0] + s[0][2]) + (s[0][1] + s[0][3]);
        for (; i < cols; i++)
            sum += x[i] * rows[i];
        out[j] = sum;
    }
}

OUTER float CODE(longest)(const float *rows, int64_t row, int64_t count, int64_t cols) {
    GEMM_CONTRACT
    float most = 0;
    for (int64_t j = 0, n; j < count; j += n, rows += n * row) {
        quad s[4] = {{0}}, sums;
        int64_t i = 0;
        n = MIN_OF(4, count - j);
        for (; n == 4 && i + 4 <= cols; i += 4)
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++)
                s[k] +=
                    *(const quad_memory *)(rows + k * row + i) * *(const quad_memory *)(rows + k * row + i);
        sums = CODE(lane_sums)(s[0], s[1], s[2], s[3]);
        for (; i < cols; i++)
            for (int k = 0; k < n; k++)
                sums[k] += rows[k * row + i] * rows[k * row + i];
        for (int k = 0; k < n; k++)
            most = sums[k] <= most ? most : sums[k];
        if (most != most)
            break;
    }
    return most;
}

// Keeps some vectors of the sum in registers while it adds all rows to them.
#define ADD_STRIPE(vectors)                                                      \
    for (; i + 4 * vectors <= cols; i += 4 * vectors) {                          \
        quad s[vectors];                                                         \
        _Pragma("GCC unroll 16") for (int k = 0; k < vectors; k++)               \
            s[k] = *(quad_memory *)(y + i + 4 * k);                              \
        for (int64_t j = 0; j < count; j++)                                      \
            _Pragma("GCC unroll 16") for (int k = 0; k < vectors; k++)           \
                s[k] += weights[j] * *(const quad_memory *)(rows + j * row + i + 4 * k); \
        _Pragma("GCC unroll 16") for (int k = 0; k < vectors; k++)               \
            *(quad_memory *)(y + i + 4 * k) = s[k];                              \
    }

OUTER void CODE(add_rows)(const float *rows, int64_t row, int64_t count, const float *weights, int64_t cols,
                          float *y) {
    GEMM_CONTRACT
    int64_t i = 0;
    ADD_STRIPE(16)
    ADD_STRIPE(4)
    for (; i < cols; i++)
        for (int64_t j = 0; j < count; j++)
            y[i] += weights[j] * rows[j * row + i];
}

OUTER void CODE(dots_of_four)(const float *rows, int64_t row, int64_t count, const float *x, int64_t cols,
                              float *out, int64_t apart, const float *next) {
    GEMM_CONTRACT
    int64_t j = 0;
    for (; cols % 4 == 0 && j + FOUR <= count; j += FOUR) {
        quad s[FOUR][FOUR] = {{{0}}};
        for (int64_t i = 0; i < cols; i += 4) {
            __builtin_prefetch(next + j * cols + i * FOUR);
#pragma GCC unroll 4
            for (int k = 0; k < FOUR; k++) {
                quad y = *(const quad_memory *)(rows + (j + k) * row + i);
#pragma GCC unroll 4
                for (int q = 0; q < FOUR; q++)
                    s[q][k] += y * *(const quad_memory *)(x + q * cols + i);
            }
        }
#pragma GCC unroll 4
        for (int q = 0; q < FOUR; q++)
            *(quad_memory *)(out + q * apart + j) = CODE(lane_sums)(s[q][0], s[q][1], s[q][2], s[q][3]);
    }
    for (int q = 0; q < FOUR && j < count; q++)
        CODE(dots)(rows + j * row, row, count - j, x + q * cols, cols, out + q * apart + j);
}

OUTER void CODE(add_rows_to_four)(const float *rows, int64_t row, int64_t count, const float *weights,
                                  int64_t apart, int64_t cols, float *y, const float *next) {
    GEMM_CONTRACT
    int64_t i = 0;
    for (; i + 16 <= cols; i += 16, next += 16 * count) {
        quad s[FOUR][4];
#pragma GCC unroll 16
        for (int k = 0; k < 16; k++)
            s[k / 4][k % 4] = *(quad_memory *)(y + k / 4 * cols + i + k % 4 * 4);
        for (int64_t j = 0; j < count; j++) {
            __builtin_prefetch(next + j * 16);
#pragma GCC unroll 16
            for (int k = 0; k < 16; k++)
                s[k / 4][k % 4] +=
                    weights[k / 4 * apart + j] * *(const quad_memory *)(rows + j * row + i + k % 4 * 4);
        }
#pragma GCC unroll 16
        for (int k = 0; k < 16; k++)
            *(quad_memory *)(y + k / 4 * cols + i + k % 4 * 4) = s[k / 4][k % 4];
    }
    for (int q = 0; q < FOUR && i < cols; q++)
        CODE(add_rows)(rows + i, row, count, weights + q * apart, cols - i, y + q * cols + i);
}

static const struct attention_code CODE(code) = {LANES,
                                                 CODE(raise_max),
                                                 CODE(exp_sum),
                                                 EXP_SUM_BF16,
                                                 CODE(power),
                                                 CODE(longest),
                                                 CODE(softmax_row),
                                                 CODE(weigh),
                                                 CODE(softmax_vjp),
                                                 CODE(add),
                                                 CODE(mask_out),
                                                 CODE(scale),
                                                 CODE(scale_cols),
                                                 CODE(dots),
                                                 CODE(add_rows),
                                                 CODE(dots_of_four),
                                                 CODE(add_rows_to_four)};

#undef VECTOR
#undef WHOLE
#undef AT
#undef GIVEN
#undef LANES
#undef EACH
#undef STRIPS
#undef RAISE_MAX
#undef EXP_SUM
#undef POWER
#undef EXP_SUM_BF16
#undef WEIGH
#undef SOFTMAX_VJP
#undef INNER
#undef OUTER
#undef ADD_STRIPE
#undef CODE
#undef CODE_BYTES
#undef CODE_TARGET
#undef CODE_PAIRS_TARGET
