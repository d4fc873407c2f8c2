// lm_rope.c - wave lengths of rotary positions, scaled for models that are used with more positions than they
// were trained on.

#include "lm.h"

#include <math.h>
#include <stdlib.h>

static const double turn = 6.283185307179586;

// Llama 3.1: long waves are stretched by the factor, short ones stay, and lengths between are interpolated.
static double llama3_length(const struct lm_rope *rope, double length) {
    double waves = (double)rope->original / (turn * length); // number of periods within the original
                                                             // positions
    if (waves <= rope->low_frequency)
        return length * rope->factor;
    if (waves >= rope->high_frequency)
        return length;
    double smooth = (waves - rope->low_frequency) / (rope->high_frequency - rope->low_frequency);
    return 1 / ((1 - smooth) / (rope->factor * length) + smooth / length);
}

// Returns the (fractional) pair of features whose wave makes `turns` periods within the original positions.
static double yarn_pair(const struct lm_rope *rope, double turns) {
    return rope->dims * log((double)rope->original / (turns * turn)) / (2 * log(rope->theta));
}

// YaRN (arXiv 2309.00071): stretching grows linearly from none at pair `low` to the whole factor at pair
// `high`.
static double yarn_length(const struct lm_rope *rope, int pair, double length) {
    double first = yarn_pair(rope, rope->beta_fast), last = yarn_pair(rope, rope->beta_slow);
    double low = fmax(rope->whole_pairs ? floor(first) : first, 0);
    double high = fmin(rope->whole_pairs ? ceil(last) : last, rope->dims - 1);
    double share = (pair - low) / (high == low ? 0.001 : high - low);
    share = fmin(fmax(share, 0), 1);
    return 1 / (share / (rope->factor * length) + (1 - share) / length);
}

static double length_of(const struct lm_rope *rope, int pair) {
    double own = pow(rope->theta, 2.0 * pair / rope->dims);
    return rope->kind == LM_ROPE_YARN     ? yarn_length(rope, pair, own)
           : rope->kind == LM_ROPE_LLAMA3 ? llama3_length(rope, own)
                                          : own;
}

// Returns the wave lengths of all pairs, times `factors` unless that is NULL.
static zl_array lengths_of(const struct lm_rope *rope, zl_array factors) {
    int pairs = rope->dims / 2;
    float *length = malloc((size_t)pairs * sizeof *length);
    zl_array all = NULL;
    for (int i = 0; length && i < pairs; i++)
        length[i] = (float)length_of(rope, i);
    if (length)
        ZL_SCOPE {
            zl_array own = zl_from_f32(length, ZL_SHAPE(pairs));
            all = zl_retain(factors ? zl_multiply(own, zl_astype(factors, ZL_FLOAT32)) : own);
        }
    free(length);
    return all;
}

zl_array lm_rope_frequencies(const struct lm_rope *rope) {
    bool plain = rope->kind == LM_ROPE_DEFAULT || rope->kind == LM_ROPE_LINEAR;
    return plain ? NULL : lengths_of(rope, NULL);
}

zl_array lm_rope_stretched(const struct lm_rope *rope, zl_array factors) {
    return lengths_of(rope, factors);
}
