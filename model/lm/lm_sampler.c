// lm_sampler.c - draws the next id from logits on the device; nothing but the id is copied to the host.
//
// The steps are in mlx-lm's order: bias, penalties, log-softmax, top-p, min-p, XTC, top-k, temperature.

#include "lm.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Below it, scores divided by the temperature would leave the range of float32.
static const double least_temperature = 1e-6;

static bool in_range(double x, double least, double most) {
    return x >= least && x <= most; // false for NaN
}

static bool check(const zl_sampling *s, int vocabulary, struct lm_error *error) {
    if (!in_range(s->temperature, 0, INFINITY) || isinf(s->temperature))
        return lm_fail(error, "temperature %g: wanted a number from 0", s->temperature);
    if (s->top_k < 0)
        return lm_fail(error, "top_k %d: wanted a count from 0", s->top_k);
    if (!in_range(s->top_p, 0, 1) || !in_range(s->min_p, 0, 1))
        return lm_fail(error, "top_p %g, min_p %g: wanted probabilities from 0 to 1", s->top_p, s->min_p);
    if (!in_range(s->xtc_probability, 0, 1) || !in_range(s->xtc_threshold, 0, 0.5))
        return lm_fail(error, "xtc_probability %g, xtc_threshold %g: wanted 0 to 1, and 0 to 0.5",
                       s->xtc_probability, s->xtc_threshold);
    if (!in_range(s->repetition_penalty, 0, 1e6) || !in_range(fabs(s->presence_penalty), 0, 1e6) ||
        !in_range(fabs(s->frequency_penalty), 0, 1e6) || s->penalty_window < 0)
        return lm_fail(error, "penalties %g, %g, %g over %d ids are out of range", s->repetition_penalty,
                       s->presence_penalty, s->frequency_penalty, s->penalty_window);
    for (int i = 0; i < s->biases; i++)
        if (s->bias_id[i] < 0 || s->bias_id[i] >= vocabulary || !in_range(s->bias[i], -INFINITY, 1e30))
            return lm_fail(error, "bias %g of id %d: wanted ids from 0 to %d, and numbers up to 1e30",
                           s->bias[i], s->bias_id[i], vocabulary - 1);
    return true;
}

static zl_array dense_bias(const zl_sampling *s, int vocabulary) {
    float *all = calloc((size_t)vocabulary, sizeof *all);
    zl_array bias = NULL;
    for (int i = 0; all && i < s->biases; i++)
        all[s->bias_id[i]] += (float)s->bias[i];
    if (all)
        ZL_SCOPE {
            bias = zl_retain(zl_from_f32(all, ZL_SHAPE(vocabulary)));
        }
    free(all);
    return bias;
}

static int64_t clock_seed(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * INT64_C(1000000007) ^ t.tv_nsec;
}

static bool has_penalties(const zl_sampling *s) {
    return (s->repetition_penalty && s->repetition_penalty != 1) || s->presence_penalty ||
           s->frequency_penalty;
}

bool lm_sampler_new(struct lm_sampler *sampler, const zl_sampling *options, int vocabulary,
                    struct lm_error *error) {
    *sampler = (struct lm_sampler){0};
    sampler->options = options ? *options : (zl_sampling){0};
    zl_sampling *s = &sampler->options;
    if (!check(s, vocabulary, error))
        return false;
    s->penalty_window = s->penalty_window ? s->penalty_window : 64;
    if (s->temperature < least_temperature)
        s->temperature = 0;
    sampler->bias = s->biases ? dense_bias(s, vocabulary) : NULL;
    ZL_SCOPE {
        sampler->key = zl_retain(zl_random_key(s->seed < 0 ? clock_seed() : s->seed));
    }
    s->bias_id = NULL, s->bias = NULL; // pointers of the caller, which may not live as long
    if (sampler->key && (!s->biases || sampler->bias))
        return true;
    lm_sampler_free(sampler);
    return lm_fail(error, "%s", zl_error() ? zl_error() : "out of memory");
}

void lm_sampler_free(struct lm_sampler *sampler) {
    zl_release(sampler->key);
    zl_release(sampler->history);
    zl_release(sampler->bias);
    *sampler = (struct lm_sampler){0};
}

void lm_sampler_copy(struct lm_sampler *to, const struct lm_sampler *from) {
    *to = *from;
    zl_retain(to->key);
    zl_retain(to->history);
    zl_retain(to->bias);
}

void lm_sampler_forget(struct lm_sampler *sampler) {
    zl_release(sampler->history);
    sampler->history = NULL;
}

void lm_sampler_see(struct lm_sampler *sampler, zl_array ids) {
    int64_t window = sampler->options.penalty_window;
    if (!has_penalties(&sampler->options))
        return;
    ZL_SCOPE {
        zl_array before =
            sampler->history ? sampler->history : zl_full(ZL_SHAPE(window), zl_scalar_int(-1), ZL_INT32);
        zl_array all = zl_concatenate((zl_array[]){before, ids}, 2, 0);
        all = zl_retain(lm_slice(all, 0, zl_size(all) - window, zl_size(all)));
        zl_release(sampler->history);
        sampler->history = all;
    }
}

int lm_sampler_arrays(const struct lm_sampler *sampler, zl_array *list) {
    int count = 0;
    if (sampler->options.temperature)
        list[count++] = sampler->key;
    if (sampler->history)
        list[count++] = sampler->history;
    return count;
}

int lm_sampler_put(struct lm_sampler *sampler, const zl_array *list) {
    int count = 0;
    zl_array *mine[] = {sampler->options.temperature ? &sampler->key : NULL,
                        sampler->history ? &sampler->history : NULL};
    for (int i = 0; i < LM_SAMPLER_ARRAYS; i++)
        if (mine[i]) {
            zl_retain(list[count]);
            zl_release(*mine[i]);
            *mine[i] = list[count++];
        }
    return count;
}

// Returns how often each id is in the history, float32 (vocabulary). Empty places of the history, -1, are
// counted in an extra element, which is cut off.
static zl_array counts(const struct lm_sampler *sampler, zl_array logits) {
    int64_t vocabulary = zl_size(logits);
    zl_array one = zl_ones(zl_shape_of(sampler->history), ZL_FLOAT32);
    zl_array updates = zl_expand_dims(one, ZL_AXES(1));
    zl_array all = zl_scatter_add(zl_zeros(ZL_SHAPE(vocabulary + 1), ZL_FLOAT32), &sampler->history, 1,
                                  updates, ZL_AXES(0));
    return lm_slice(all, 0, 0, vocabulary);
}

static zl_array penalised(const struct lm_sampler *sampler, zl_array logits) {
    const zl_sampling *s = &sampler->options;
    if (!sampler->history || !has_penalties(s))
        return logits;
    zl_array count = counts(sampler, logits), seen = zl_greater(count, zl_scalar(0));
    if (s->repetition_penalty && s->repetition_penalty != 1) {
        zl_array factor = zl_scalar(s->repetition_penalty);
        zl_array less =
            zl_where(zl_less(logits, zl_scalar(0)), zl_multiply(logits, factor), zl_divide(logits, factor));
        logits = zl_where(seen, less, logits);
    }
    if (s->presence_penalty)
        logits = zl_subtract(logits, zl_where(seen, zl_scalar(s->presence_penalty), zl_scalar(0)));
    return s->frequency_penalty ? zl_subtract(logits, zl_multiply(count, zl_scalar(s->frequency_penalty)))
                                : logits;
}

static zl_array keep_where(zl_array kept, zl_array scores) {
    return zl_where(kept, scores, zl_scalar(-INFINITY));
}

// Keeps the smallest set of the likeliest ids whose probabilities add up to top_p: those before which less
// than that lies. So the likeliest is always kept.
static zl_array top_p(zl_array scores, double p) {
    zl_array order = zl_argsort(scores, -1); // the least likely first
    zl_array before = zl_cumsum(zl_exp(zl_take(scores, order, 0)), 0, true, false, ZL_FLOAT32);
    zl_array kept = zl_less(before, zl_scalar(fmax(p, FLT_MIN)));
    return keep_where(zl_take(kept, zl_argsort(order, -1), 0), scores);
}

static zl_array min_p(zl_array scores, double p) {
    zl_array least = zl_add(zl_max(scores), zl_scalar(log(p)));
    return keep_where(zl_greater_equal(scores, least), scores);
}

static zl_array top_k(zl_array scores, int k) {
    int64_t size = zl_size(scores);
    if (k >= size)
        return scores;
    zl_array order = zl_argpartition(zl_negative(scores), k - 1, -1);
    zl_array rest = lm_slice(order, 0, k, size);
    return zl_put_along_axis(scores, rest, zl_scalar(-INFINITY), -1);
}

// Excludes top choices (XTC): with probability xtc_probability, drops all ids more likely than xtc_threshold
// except the least likely of them.
static zl_array xtc(zl_array scores, const zl_sampling *s, zl_array key) {
    zl_array p = zl_exp(scores), likely = zl_greater(p, zl_scalar(s->xtc_threshold));
    zl_array least = zl_min(zl_where(likely, p, zl_scalar(INFINITY)));
    zl_array left_out = zl_greater(p, least);
    zl_array happens = zl_less(zl_random_uniform(zl_scalar(0), zl_scalar(1), ZL_SCALAR, ZL_FLOAT32, key),
                               zl_scalar(s->xtc_probability));
    return keep_where(zl_logical_not(zl_logical_and(zl_logical_and(likely, left_out), happens)), scores);
}

// Splits the key, and returns the half for the next random numbers; NULL after an error.
static zl_array next_key(struct lm_sampler *sampler) {
    zl_array both = zl_random_split(sampler->key, 2);
    zl_array kept = zl_retain(zl_take(both, zl_scalar_int(0), 0));
    if (!kept)
        return NULL;
    zl_release(sampler->key);
    sampler->key = kept;
    return zl_take(both, zl_scalar_int(1), 0);
}

static zl_array draw(struct lm_sampler *sampler, zl_array scores) {
    const zl_sampling *s = &sampler->options;
    if (!s->temperature)
        return zl_argmax_axis(scores, -1, true);
    if (s->top_p > 0 && s->top_p < 1)
        scores = top_p(scores, s->top_p);
    if (s->min_p > 0)
        scores = min_p(scores, s->min_p);
    if (s->xtc_probability > 0)
        scores = xtc(scores, s, next_key(sampler));
    if (s->top_k > 0)
        scores = top_k(scores, s->top_k);
    zl_array warm = zl_divide(scores, zl_scalar(s->temperature));
    return zl_random_categorical(warm, -1, ZL_NO_SHAPE, INT_MIN, next_key(sampler));
}

bool lm_sampler_is_plain(const struct lm_sampler *sampler) {
    return !sampler->options.temperature && !sampler->bias && !has_penalties(&sampler->options);
}

zl_array lm_sample_plain(zl_array logits, zl_array *log_probability) {
    zl_scope scope = zl_scope_begin();
    zl_array x = zl_astype(logits, ZL_FLOAT32);
    zl_array likely = zl_max_axes(x, ZL_AXES(-1), false), all = zl_logsumexp_axes(x, ZL_AXES(-1), false);
    *log_probability = zl_retain(zl_subtract(likely, all));
    zl_array id = zl_scope_leave(scope, zl_astype(zl_argmax_axis(x, -1, false), ZL_INT32));
    if (!*log_probability || !id)
        zl_release(*log_probability), *log_probability = NULL;
    return *log_probability ? id : NULL;
}

zl_array lm_sample(struct lm_sampler *sampler, zl_array logits, zl_array *log_probability) {
    if (lm_sampler_is_plain(sampler))
        return lm_sample_plain(zl_expand_dims(logits, ZL_AXES(0)), log_probability);
    zl_scope scope = zl_scope_begin();
    zl_array raw = zl_astype(logits, ZL_FLOAT32), x = raw;
    if (sampler->bias)
        x = zl_add(x, sampler->bias);
    x = penalised(sampler, x);
    bool same = x == raw;
    x = zl_subtract(x, zl_logsumexp(x));
    zl_array id = zl_reshape(zl_astype(draw(sampler, x), ZL_INT32), ZL_SHAPE(1));
    zl_array own = same ? x : zl_subtract(raw, zl_logsumexp(raw));
    *log_probability = zl_retain(zl_take(own, id, 0));
    id = zl_scope_leave(scope, id);
    if (!*log_probability || !id)
        zl_release(*log_probability), *log_probability = NULL;
    return *log_probability ? id : NULL;
}
