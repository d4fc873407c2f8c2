// attention_micro.h - the inner loops of attention, included once a vector size: CODE(name), CODE_BYTES, CODE_TARGET.

#define MICRO_NAME(part) CODE(part)
#define MICRO_TYPE       float
#define MICRO_BYTES      CODE_BYTES
#define MICRO_ROWS       PANEL
#define MICRO_VECS       (PANEL * 4 / CODE_BYTES)
#define MICRO_TARGET     CODE_TARGET
#include "device/cpu/gemm_micro.h"

typedef int32_t CODE(whole) __attribute__((vector_size(CODE_BYTES)));
#define VECTOR   CODE(vector)
#define WHOLE    CODE(whole)
#define AT(p)    (*(CODE(memory) *)(p))
#define GIVEN(p) (*(const CODE(memory) *)(p))
#define LANES    ((int)(CODE_BYTES / 4))
#define VECS     (PANEL / LANES)
#define EACH     _Pragma("GCC unroll 8") for (int v = 0; v < VECS; v++)
#define INNER    GEMM_FUSED CODE_TARGET static inline __attribute__((always_inline))
#define OUTER    GEMM_FUSED CODE_TARGET static

INNER VECTOR CODE(larger)(VECTOR a, VECTOR b) {
    WHOLE more = a > b;
    return (VECTOR)(((WHOLE)a & more) | ((WHOLE)b & ~more));
}

// exp(x) of x that are not positive, 0 from -87 on: 2^n times a polynomial of what is left, within 2 units in the last place.
INNER VECTOR CODE(exp)(VECTOR x) {
    GEMM_CONTRACT
    const float shift = 12582912 + 127; // the last bits of what is added to it are a whole number, then an exponent
    VECTOR n = x * 1.44269504f + shift;
    VECTOR power = (VECTOR)((WHOLE)n << 23);
    n -= shift;
    VECTOR r = x - n * 0.693359375f + n * 2.12194440e-4f;
    VECTOR p = r * 0.00831252523f + 0.0418901145f;
    p = p * r + 0.166671142f;
    p = p * r + 0.499992311f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return (VECTOR)((WHOLE)(p * power) & ~(x < -87.0f));
}

OUTER bool CODE(soften)(float *scores, int64_t keys, float *most, float *sum, float *factor) {
    GEMM_CONTRACT
    VECTOR top[VECS], total[VECS], by[VECS];
    WHOLE changed = {0};
    EACH total[v] = (VECTOR){0}, top[v] = GIVEN(most + v * LANES);
    int64_t j = 0;
    for (; j + 2 <= keys; j += 2)
        EACH {
            const float *at = scores + j * PANEL + v * LANES;
            top[v] = CODE(larger)(CODE(larger)(GIVEN(at), GIVEN(at + PANEL)), top[v]);
        }
    if (j < keys)
        EACH top[v] = CODE(larger)(GIVEN(scores + j * PANEL + v * LANES), top[v]);
    for (j = 0; j < keys; j++)
        EACH {
            VECTOR e = CODE(exp)(GIVEN(scores + j * PANEL + v * LANES) - top[v]);
            AT(scores + j * PANEL + v * LANES) = e;
            total[v] += e;
        }
    EACH {
        by[v] = CODE(exp)(GIVEN(most + v * LANES) - top[v]);
        changed |= top[v] != GIVEN(most + v * LANES);
        AT(sum + v * LANES) = GIVEN(sum + v * LANES) * by[v] + total[v];
        AT(most + v * LANES) = top[v];
        AT(factor + v * LANES) = by[v];
    }
    int any = 0;
    for (int i = 0; i < LANES; i++)
        any |= changed[i];
    return any;
}

// Numbers that do not fill a vector are taken as one with others that do not count.
OUTER bool CODE(soften_row)(float *scores, int64_t keys, float *most, float *sum, float *factor) {
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
    VECTOR rest = (VECTOR){0} + HIDDEN * 2;
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

OUTER void CODE(weigh)(float *scores, float *slopes, int64_t keys, const float *most, const float *inverse,
                       const float *less) {
    GEMM_CONTRACT
    for (int64_t j = 0; j < keys; j++)
        EACH {
            int at = v * LANES;
            VECTOR s = GIVEN(scores + j * PANEL + at);
            VECTOR p = CODE(exp)(s - GIVEN(most + at)) * GIVEN(inverse + at);
            VECTOR slope = p * (GIVEN(slopes + j * PANEL + at) - GIVEN(less + at));
            AT(scores + j * PANEL + at) = p;
            AT(slopes + j * PANEL + at) = (VECTOR)((WHOLE)slope & (s != HIDDEN));
        }
}

OUTER void CODE(add)(float *scores, const float *mask, int64_t count) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        AT(scores + i) += GIVEN(mask + i);
    for (; i < count; i++)
        scores[i] += mask[i];
}

OUTER void CODE(hide)(float *scores, const float *mask, int64_t count) {
    const VECTOR hidden = (VECTOR){0} + HIDDEN;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        WHOLE seen = GIVEN(mask + i) != 0.0f;
        AT(scores + i) = (VECTOR)(((WHOLE)GIVEN(scores + i) & seen) | ((WHOLE)hidden & ~seen));
    }
    for (; i < count; i++)
        scores[i] = mask[i] ? scores[i] : HIDDEN;
}

OUTER void CODE(scale)(float *x, int64_t count, float factor) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        AT(x + i) *= factor;
    for (; i < count; i++)
        x[i] *= factor;
}

// One row ------------------------------------------------------------------------------------------------------------

// Sums of the four lanes of four vectors.
INNER quad CODE(lane_sums)(quad a, quad b, quad c, quad d) {
    quad ab = __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
    quad cd = __builtin_shufflevector(c, d, 0, 2, 4, 6) + __builtin_shufflevector(c, d, 1, 3, 5, 7);
    return __builtin_shufflevector(ab, cd, 0, 2, 4, 6) + __builtin_shufflevector(ab, cd, 1, 3, 5, 7);
}

OUTER void CODE(dots)(const float *rows, int64_t row, int64_t count, const float *x, int64_t cols, float *out) {
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
        float sum = 0;
        for (int64_t i = 0; i < cols; i++)
            sum += x[i] * rows[i];
        out[j] = sum;
    }
}

// Some vectors of the sum stay in registers while all rows go by.
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

OUTER void CODE(add_rows)(const float *rows, int64_t row, int64_t count, const float *weights, int64_t cols, float *y) {
    GEMM_CONTRACT
    int64_t i = 0;
    ADD_STRIPE(16)
    ADD_STRIPE(4)
    for (; i < cols; i++)
        for (int64_t j = 0; j < count; j++)
            y[i] += weights[j] * rows[j * row + i];
}

static const struct attention_code CODE(code) = {CODE(micro), CODE(soften), CODE(soften_row), CODE(weigh), CODE(add),
                                                 CODE(hide), CODE(scale), CODE(dots), CODE(add_rows)};

#undef VECTOR
#undef WHOLE
#undef AT
#undef GIVEN
#undef LANES
#undef VECS
#undef EACH
#undef INNER
#undef OUTER
#undef ADD_STRIPE
#undef CODE
#undef CODE_BYTES
#undef CODE_TARGET
