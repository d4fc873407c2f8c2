// work_delta.c - rules of the delta family, and causal attention for comparison, of (batch, length, heads,
// width): forward, with gradients of all inputs, and decoding of one token per sequence. A rule decodes from
// its state, attention from `length` keys and values.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum pass { FORWARD, BACKWARD, DECODE };
enum gate { NONE, HEAD, CHANNEL };
enum more { NOTHING, GATES, WEIGHTS, KEY, LOW_RANK, MOMENTUM }; // the meaning of a rule's inputs a and b
enum { Q, K, V, INPUTS = 8, TOKENS = 64 };                      // TOKENS: at most so many are verified

// The inputs that a rule has besides q, k and v, and its updates of the state per token.
static const struct rule {
    const char *name;
    enum gate gate;
    bool beta;
    enum more more;
    int updates;
} rules[] = {
    {"attention", NONE, false, NOTHING, 0},
    {"linear", NONE, false, NOTHING, 1},
    {"linear_normalized", NONE, false, NOTHING, 1},
    {"retention", NONE, false, NOTHING, 1},
    {"simple_gla", HEAD, false, NOTHING, 1},
    {"gla", CHANNEL, false, NOTHING, 1},
    {"delta", NONE, true, NOTHING, 1},
    {"gated_delta", HEAD, true, NOTHING, 1},
    {"kda", CHANNEL, true, NOTHING, 1},
    {"gdn2", CHANNEL, false, GATES, 1},
    {"precond_gated_delta", HEAD, true, WEIGHTS, 1},
    {"precond_kda", CHANNEL, true, WEIGHTS, 1},
    {"comba", HEAD, true, KEY, 1},
    {"dplr", CHANNEL, false, LOW_RANK, 2},
    {"iplr", NONE, false, LOW_RANK, 2},
    {"gated_delta_product", HEAD, true, NOTHING, 2},
    {"gated_oja", CHANNEL, true, NOTHING, 2},
    {"momentum_delta", HEAD, true, MOMENTUM, 2},
};

// w->data: the rule, and the indices of inputs that not every rule has; 0: the rule does not have it.
struct delta {
    const struct rule *rule;
    enum pass pass;
    int g, beta, a, b, state;
};

static const struct rule *find_rule(const char *name) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(rules[i].name, name))
            return &rules[i];
    return NULL;
}

// Inputs ----------------------------------------------------------------------------------------------------

static zl_array normal(const struct bench_work *w, zl_shape shape) {
    return w->zeros ? zl_zeros(shape, ZL_FLOAT32) : zl_random_normal(shape, ZL_FLOAT32, NULL, NULL, NULL);
}

// Keeps x in the configuration's dtype among the inputs. Returns its index; 0 after an error.
static int hold(struct bench_work *w, zl_array x) {
    int at = w->inputs;
    return bench_hold(w, zl_astype(x, bench_dtype_of_arrays(w->config->dtype))) ? at : 0;
}

// Returns logarithms of decays, a little below 0.
static zl_array decays(zl_array x) {
    return zl_multiply(zl_abs(x), zl_scalar(-0.1));
}

static zl_array unit(zl_array x) {
    zl_array sum = zl_sum_axes(zl_square(x), ZL_AXES(-1), true);
    return zl_multiply(x, zl_rsqrt(zl_add(sum, zl_scalar(1e-6))));
}

// Returns, for each head, the logarithm of the decay of a momentum, and the rate of writing.
static zl_array rates(const struct bench_work *w, zl_shape heads) {
    return zl_stack((zl_array[]){decays(normal(w, heads)), zl_sigmoid(normal(w, heads))}, 2, -1);
}

static bool hold_more(struct bench_work *w, struct delta *d, zl_shape heads, zl_shape channels) {
    zl_array x;
    switch (d->rule->more) {
    case NOTHING: return true;
    case GATES:
        return (d->a = hold(w, zl_sigmoid(normal(w, channels)))) &&
               (d->b = hold(w, zl_sigmoid(normal(w, channels))));
    case WEIGHTS:
        return (d->a = hold(w, decays(normal(w, heads)))) && (d->b = hold(w, zl_sigmoid(normal(w, heads))));
    case KEY: return (d->a = hold(w, normal(w, channels)));
    case LOW_RANK: // erases half of what the state has for a key
        x = unit(normal(w, channels));
        return zl_eval(x) && (d->a = hold(w, zl_negative(x))) &&
               (d->b = hold(w, zl_multiply(x, zl_scalar(0.5))));
    case MOMENTUM: return (d->a = hold(w, normal(w, channels))) && (d->b = hold(w, rates(w, heads)));
    }
    return false;
}

static bool hold_rule(struct bench_work *w, struct delta *d) {
    const struct rule *r = d->rule;
    const int64_t *dim = w->config->dim, time = d->pass == DECODE ? 1 : dim[1];
    int64_t updates = !strcmp(r->name, "gated_delta_product") ? r->updates : 1; // with a key each
    zl_shape token = ZL_SHAPE(dim[0], time, dim[2], dim[3]),
             key = ZL_SHAPE(dim[0], time * updates, dim[2], dim[3]);
    zl_shape heads = ZL_SHAPE(dim[0], time, dim[2]), betas = ZL_SHAPE(dim[0], time * updates, dim[2]);
    int64_t rows = r->more == MOMENTUM ? 2 * dim[3] : dim[3];
    bool is_positive = !strcmp(r->name, "linear_normalized"); // otherwise its divisor may be 0
    zl_array q = normal(w, token), k = normal(w, key);
    if (!bench_hold(w, zl_astype(is_positive ? zl_abs(q) : q, bench_dtype_of_arrays(w->config->dtype))) ||
        !hold(w, is_positive ? zl_abs(k) : k) || !hold(w, normal(w, key)))
        return false;
    if (r->gate != NONE && !(d->g = hold(w, decays(normal(w, r->gate == HEAD ? heads : token)))))
        return false;
    if (r->beta && !(d->beta = hold(w, normal(w, betas))))
        return false;
    return hold_more(w, d, heads, token) &&
           (d->state =
                bench_hold(w, zl_multiply(normal(w, ZL_SHAPE(dim[0], dim[2], rows, dim[3])), zl_scalar(0.1)))
                    ? w->inputs - 1
                    : 0);
}

static bool hold_attention(struct bench_work *w, enum pass pass) {
    const int64_t *dim = w->config->dim;
    return bench_random(w, ZL_SHAPE(dim[0], dim[2], pass == DECODE ? 1 : dim[1], dim[3])) &&
           bench_random(w, ZL_SHAPE(dim[0], dim[2], dim[1], dim[3])) &&
           bench_random(w, ZL_SHAPE(dim[0], dim[2], dim[1], dim[3]));
}

// Counts operations as the op does: each update reads, decays and writes each number of a state, 7
// operations. A gradient costs as much as two forward passes, in addition to the forward pass.
static void count_rule(struct bench_work *w, const struct delta *d) {
    const int64_t *dim = w->config->dim;
    double size = (double)zl_dtype_size(bench_dtype_of_arrays(w->config->dtype)),
           time = d->pass == DECODE ? 1 : (double)dim[1];
    double lines = (double)(dim[0] * dim[2]), width = (double)dim[3], bytes = 0,
           way = d->pass == BACKWARD ? 3 : 1;
    for (int i = 0; i < w->inputs; i++)
        bytes += (double)zl_nbytes(w->in[i]);
    w->flops = way * 7 * d->rule->updates * lines * time * width * width;
    w->bytes = way * (bytes + lines * (time * width * size + width * width * sizeof(float)));
}

static void count_attention(struct bench_work *w, enum pass pass) {
    const int64_t *dim = w->config->dim;
    double lines = (double)(dim[0] * dim[2]), length = (double)dim[1], width = (double)dim[3];
    double size = (double)zl_dtype_size(bench_dtype_of_arrays(w->config->dtype));
    double pairs = pass == DECODE ? length : length * length / 2, queries = pass == DECODE ? 1 : length;
    w->flops = (pass == BACKWARD ? 3.5 : 1) * 4 * lines * pairs * width;
    w->bytes = (pass == BACKWARD ? 3 : 1) * lines * width * size * (2 * length + 2 * queries);
}

static bool prepare(struct bench_work *w, enum pass pass) {
    const struct bench_config *c = w->config;
    const struct rule *rule = find_rule(c->op[0] ? c->op : "gated_delta");
    if (c->dims != 4 || !rule || c->dtype == BENCH_INT8)
        return bench_fail(
            w,
            "%s takes four sizes: batch, length, heads, width, of floats; and an op that is attention or a "
            "rule of fast.delta_rule",
            w->kind->name);
    struct delta *d = w->data = calloc(1, sizeof *d);
    if (!d)
        return bench_fail(w, "out of memory");
    *d = (struct delta){.rule = rule, .pass = pass};
    bool is_attention = !rule->updates, held = is_attention ? hold_attention(w, pass) : hold_rule(w, d);
    if (is_attention)
        count_attention(w, pass);
    else
        count_rule(w, d);
    return held;
}

static bool prepare_forward(struct bench_work *w) {
    return prepare(w, FORWARD);
}

static bool prepare_backward(struct bench_work *w) {
    return prepare(w, BACKWARD);
}

static bool prepare_decode(struct bench_work *w) {
    return prepare(w, DECODE);
}

// Runs ------------------------------------------------------------------------------------------------------

static zl_array given(const zl_array *in, int at) {
    return at ? in[at] : NULL;
}

// Computes the result and the last state; attention has no state. Returns how many arrays these are.
static int apply(const struct delta *d, const zl_array *in, zl_array *out) {
    if (!d->rule->updates) {
        double scale = 1 / sqrt((double)zl_dim(in[Q], 3));
        out[0] = zl_fast_scaled_dot_product_attention(in[Q], in[K], in[V], scale, NULL, NULL,
                                                      d->pass == DECODE ? "" : "causal");
        return out[0] ? 1 : 0;
    }
    return zl_fast_delta_rule(d->rule->name, in[Q], in[K], in[V], given(in, d->g), given(in, d->beta),
                              given(in, d->a), given(in, d->b), given(in, d->state), NULL, NULL, NULL, NULL,
                              NAN, d->rule->more != LOW_RANK, true, out)
               ? 2
               : 0;
}

// Records one run: the results, or the gradients of the sum of the first result. Returns the number of
// arrays; 0 after an error.
static int record(const struct delta *d, int inputs, const zl_array *in, zl_array *out) {
    zl_array result[2];
    if (d->pass != BACKWARD)
        return apply(d, in, out);
    return apply(d, in, result) && zl_grad(zl_sum(result[0]), inputs, in, out) ? inputs : 0;
}

static bool run(struct bench_work *w, int count) {
    const struct delta *d = w->data;
    bool done = true;
    for (int i = 0; i < count && done; i++)
        ZL_SCOPE {
            zl_array out[INPUTS];
            int results = record(d, w->inputs, w->in, out);
            if (d->pass == DECODE && results == 2) { // the next run continues from this state, which may
                                                     // reuse the memory of the last one
                zl_release(w->in[d->state]);
                w->in[d->state] = zl_retain(out[1]);
            }
            done = results && (w->is_async ? zl_async_eval_all : zl_eval_all)(results, out);
        }
    return (!w->is_async || zl_synchronize()) && done;
}

// Verification: the first head of the first sequence, at most so many tokens, against the same in float64 ---

// Returns the first `most` elements of an axis, or all if there are fewer.
static zl_array first_of(zl_array x, int axis, int64_t most) {
    int64_t start[4] = {0}, stop[4], step[4] = {1, 1, 1, 1};
    for (int i = 0; i < zl_ndim(x); i++)
        stop[i] = zl_dim(x, i);
    if (stop[axis] > most)
        stop[axis] = most;
    return zl_slice(x, (zl_shape){start, zl_ndim(x)}, (zl_shape){stop, zl_ndim(x)},
                    (zl_shape){step, zl_ndim(x)});
}

static zl_array sample(const struct bench_work *w, int at) {
    const struct delta *d = w->data;
    zl_array x = first_of(w->in[at], 0, 1);
    if (!d->rule->updates)
        return first_of(first_of(x, 1, 1), 2, TOKENS);
    if (at == d->state)
        return first_of(x, 1, 1);
    int64_t time = zl_dim(w->in[Q], 1), each = zl_dim(w->in[at], 1) / time;
    return first_of(first_of(x, 1, TOKENS * each), 2, 1);
}

// Returns the root of the mean square of a - b, relative to that of b plus 0.001. It evaluates the arrays.
static double distance(zl_array a, zl_array b) {
    zl_array wide = zl_astype(b, ZL_FLOAT64), less = zl_subtract(zl_astype(a, ZL_FLOAT64), wide);
    zl_array mean[] = {zl_mean(zl_square(less)), zl_mean(zl_square(wide))};
    return zl_eval_all(2, mean) ? sqrt(zl_item(mean[0])) / (sqrt(zl_item(mean[1])) + 1e-3) : NAN;
}

static bool verify(struct bench_work *w) {
    const struct delta *d = w->data;
    zl_array in[INPUTS], wide[INPUTS], out[INPUTS], wanted[INPUTS];
    for (int i = 0; i < w->inputs; i++) {
        in[i] = sample(w, i);
        wide[i] = zl_astype(in[i], ZL_FLOAT64);
        if (!zl_eval_all(2, (zl_array[]){in[i], wide[i]}))
            return false;
    }
    int results = record(d, w->inputs, in, out);
    if (!results || record(d, w->inputs, wide, wanted) != results || !zl_eval_all(results, out) ||
        !zl_eval_all(results, wanted))
        return false;
    double worst = 0, allowed = 4 * fmax(bench_dtype_epsilon(w->config->dtype), 0x1p-15);
    for (int i = 0; i < results; i++) {
        double off = distance(out[i], wanted[i]);
        worst = off <= worst ? worst : off;
    }
    return worst <= allowed ||
           bench_fail(w, "wrong result: off by %.3g of it, allowed is %.3g", worst, allowed);
}

const struct bench_work_kind bench_work_delta = {
    .name = "delta",
    .unit = "FLOP",
    .summary = "rules of the delta family, and attention",
    .prepare = prepare_forward,
    .run = run,
    .verify = verify,
};

const struct bench_work_kind bench_work_delta_backward = {
    .name = "delta_backward",
    .unit = "FLOP",
    .summary = "the same with gradients of all inputs",
    .prepare = prepare_backward,
    .run = run,
    .verify = verify,
};

const struct bench_work_kind bench_work_delta_decode = {
    .name = "delta_decode",
    .unit = "FLOP",
    .summary = "one token of each sequence, from its state",
    .prepare = prepare_decode,
    .run = run,
    .verify = verify,
};
