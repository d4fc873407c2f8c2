// delta_rules.c - the rules of the delta family, rows of delta.def, as calls of the one recurrence of
// delta.c.

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "op/ops.h"

static const char *const function = "zl_fast_delta_rule";

enum gate { NONE, HEAD, CHANNEL, VALUE_CHANNEL, RETENTION };
enum factor {
    NOTHING,
    ZERO,
    KEY,
    VALUE,
    BETA_KEY,
    BETA_V,
    A_KEY,
    B_V,
    BETA_A,
    MINUS_A,
    OF_A,
    OF_B,
    SCALED,
    RATE_KEY
};
enum way { AFTER, BEFORE, NORMALIZED, LOW_RANK, PRODUCT, OJA, MOMENTUM };

static const struct rule {
    const char *name;
    enum gate gate;
    enum factor e, w, x;
    enum way way;
} rules[] = {
#define DELTA(name, gate, e, w, x, way, says) {#name, gate, e, w, x, way},
#include "op/delta.def"
};

static const char names[] =
#define DELTA(name, gate, e, w, x, way, says) " " #name
#include "op/delta.def"
    ;

// The arguments of a call, checked, in the dtype of the computation.
struct given {
    const struct rule *rule;
    zl_array q, k, v, g, beta, a, b, state, mask, offsets;
    double scale;
    zl_dtype wide, result;
    int64_t batch, time, heads, keys, values, sequences, updates; // updates: per token, 1 except for products
    int64_t rows; // rows of a state: as many as keys, twice as many with momentum
};

// Numbers ---------------------------------------------------------------------------------------------------

static zl_array wide_number(const struct given *d, double value) {
    return op_number(d->wide, value);
}

static zl_array sum_last(zl_array x) {
    return op_reduce_axes(function, REDUCE_SUM, x, ZL_AXES(-1), true);
}

static zl_array zeros_of_shape(const struct given *d, int64_t tokens, int64_t heads, int64_t last) {
    return zl_zeros(ZL_SHAPE(d->batch, tokens, heads, last), d->wide);
}

// Returns the products of x and y, (B, T, heads, D or 1), one of which may have fewer heads.
static zl_array times(zl_array x, zl_array y) {
    if (!x || !y)
        return NULL;
    int64_t heads = MAX_OF(x->dim[2], y->dim[2]);
    return zl_multiply(zl_repeat(x, heads / x->dim[2], 2), zl_repeat(y, heads / y->dim[2], 2));
}

static zl_array column(zl_array x) {
    return zl_expand_dims(x, ZL_AXES(-1));
}

// Returns one of the two numbers per head in b of a rule with momentum: the logarithm of the momentum's
// decay, or the writing rate.
static zl_array of_momentum(const struct given *d, int which) {
    return zl_squeeze(op_slice_axis(d->b, 3, which, which + 1), ZL_AXES(3));
}

// Returns x, with `fill` for masked tokens.
static zl_array seen(const struct given *d, zl_array x, double fill) {
    if (!d->mask || !x)
        return x;
    zl_array mask = zl_expand_dims(d->mask, x->ndim == 4 ? ZL_AXES(2, 3) : ZL_AXES(2));
    int64_t more = x->dim[1] / d->time; // updates per token
    return zl_where(zl_repeat(mask, more, 1), x, op_number((zl_dtype)x->dtype, fill));
}

// Returns the keys multiplied by 1.5^(-r / (1 + |r|)). Here r is the logarithm of the sum that a channel has
// collected, of b k^2 decaying by exp(a), less its usual value. The sums are computed by a delta rule with
// states of one key.
static zl_array preconditioned(const struct given *d) {
    enum { FLOOR_EXPONENT = -6 };
    const double usual = -0.2, base = log(1.5), least = pow(10, FLOOR_EXPONENT);
    zl_array square = times(column(d->b), zl_multiply(d->k, d->k)), y, state;
    bool by_channel = d->a->ndim == 4;
    int64_t heads = square ? square->dim[2] : 0;
    if (by_channel)
        square = column(zl_flatten(square, 2, 3));
    zl_array one = zl_ones(ZL_SHAPE(d->batch, d->time, 1, 1), d->wide);
    zl_array start =
        square ? zl_zeros(ZL_SHAPE(d->sequences, square->dim[2], 1, square->dim[3]), d->wide) : NULL;
    zl_array g = by_channel ? zl_flatten(d->a, 2, 3) : d->a;
    struct delta_rule r = {.q = one,
                           .w = seen(d, one, 0),
                           .x = square,
                           .g = seen(d, g, 0),
                           .state = start,
                           .offsets = d->offsets,
                           .scale = 1};
    if (!start || !r.w || !r.g || !op_delta(&r, &state, &y))
        return NULL;
    y = by_channel ? zl_unflatten(zl_squeeze(y, ZL_AXES(3)), 2, ZL_SHAPE(heads, d->keys)) : y;
    zl_array log = zl_subtract(zl_log(zl_add(y, wide_number(d, least))), wide_number(d, usual));
    zl_array part = zl_divide(log, zl_add(wide_number(d, 1), zl_abs(log)));
    return times(d->k, zl_exp(zl_multiply(part, wide_number(d, -base))));
}

static zl_array factor(const struct given *d, enum factor which) {
    switch (which) {
    case NOTHING: return NULL;
    case ZERO: return zeros_of_shape(d, d->time, d->heads, d->values);
    case KEY: return d->k;
    case VALUE: return d->v;
    case BETA_KEY: return d->k;
    case BETA_V: return d->v;
    case A_KEY: return times(d->a, d->k);
    case B_V: return times(d->b, d->v);
    case BETA_A: return d->a;
    case MINUS_A: return zl_negative(d->a);
    case OF_A: return d->a;
    case OF_B: return d->b;
    case RATE_KEY: return times(column(of_momentum(d, 1)), d->k);
    case SCALED: return preconditioned(d);
    }
    return NULL;
}

static zl_array gate_of(const struct given *d) {
    zl_shape shape = ZL_SHAPE(d->batch, d->time, d->heads);
    if (d->rule->gate == NONE)
        return zl_zeros(shape, d->wide);
    if (d->rule->gate != RETENTION)
        return d->g;
    zl_array place = zl_subtract(wide_number(d, -5), zl_arange(0, (double)d->heads, 1, d->wide));
    zl_array power = zl_exp(zl_multiply(place, wide_number(d, log(2))));
    return zl_broadcast_to(zl_log1p(zl_negative(power)), shape);
}

// Ways ------------------------------------------------------------------------------------------------------

// Returns x (B, T, ...) with `count` tokens for each token: x at `place`, and 0 at the others.
static zl_array spread(zl_array x, int64_t place, int64_t count) {
    if (!x || count == 1)
        return x;
    int64_t low[] = {0, 0, place, 0, 0}, high[] = {0, 0, count - 1 - place, 0, 0};
    zl_array all = zl_pad(zl_expand_dims(x, ZL_AXES(2)), (zl_shape){low, x->ndim + 1},
                          (zl_shape){high, x->ndim + 1}, op_number((zl_dtype)x->dtype, 0));
    return zl_flatten(all, 1, 2);
}

static zl_array in_turn(zl_array first, zl_array second) {
    return zl_flatten(zl_stack((zl_array[]){first, second}, 2, 2), 1, 2);
}

// Returns the results after the last of the updates of each token.
static zl_array last_of(zl_array y, int64_t count) {
    return count == 1
               ? y
               : zl_squeeze(op_slice_axis(zl_unflatten(y, 1, ZL_SHAPE(-1, count)), 2, count - 1, count),
                            ZL_AXES(2));
}

static bool run_updates(const struct given *d, struct delta_rule *r, int64_t updates, zl_array *out) {
    if (r->offsets && updates > 1)
        r->offsets = zl_multiply(r->offsets, op_number(ZL_INT32, (double)updates));
    return r->q && r->w && r->x && r->g && (r->offsets || !d->offsets) && op_delta(r, &out[1], &out[0]) &&
           (out[0] = last_of(out[0], updates));
}

// Each token decays once, has several updates, and is read after the last.
static bool run_product(const struct given *d, struct delta_rule *r, zl_array *out) {
    r->q = spread(r->q, d->updates - 1, d->updates);
    r->g = spread(r->g, 0, d->updates);
    return run_updates(d, r, d->updates, out);
}

// Each token has two updates: b (a^T S), and k v^T, which erases nothing.
static bool run_low_rank(const struct given *d, struct delta_rule *r, zl_array *out) {
    r->pre = true;
    r->q = spread(r->q, 1, 2);
    r->g = spread(r->g, 0, 2);
    r->e = spread(r->e, 0, 2);
    zl_array k = zl_repeat(seen(d, d->k, 0), d->heads / d->k->dim[2], 2);
    r->w = in_turn(zl_repeat(r->w, d->heads / d->b->dim[2], 2), k);
    r->x = in_turn(r->x, d->v);
    return r->e && run_updates(d, r, 2, out);
}

// The sum of keys is computed as one more column of the state, whose values are 1.
static bool run_normalized(const struct given *d, struct delta_rule *r, zl_array *out) {
    zl_array one = zl_ones(ZL_SHAPE(d->batch, d->time, d->heads, 1), d->wide);
    zl_array none = zl_zeros(ZL_SHAPE(d->sequences, d->heads, d->keys, 1), d->wide);
    r->x = zl_concatenate((zl_array[]){r->x, one}, 2, 3);
    r->state = zl_concatenate((zl_array[]){r->state, none}, 2, 3);
    if (!r->state || !run_updates(d, r, 1, out))
        return false;
    zl_array sum = zl_add(op_slice_axis(out[0], 3, d->values, d->values + 1), wide_number(d, 1e-10));
    out[0] = zl_divide(op_slice_axis(out[0], 3, 0, d->values), sum);
    return (out[1] = op_slice_axis(out[1], 3, 0, d->values));
}

// The transposed state holds a key for each value. A first run looks up each token's v (in a step that writes
// nothing) and gives the differences to write; a second run, with a head per value channel, reads with q.
static bool run_oja(const struct given *d, struct delta_rule *r, zl_array *out) {
    zl_array found[2], key = zl_repeat(d->k, d->heads / d->k->dim[2], 2);
    zl_array beta_v = times(column(d->beta), r->x), g = d->g;
    struct delta_rule dual = {.q = spread(d->v, 0, 2),
                              .e = spread(d->v, 1, 2),
                              .w = spread(seen(d, beta_v, 0), 1, 2),
                              .x = spread(key, 1, 2),
                              .g = spread(seen(d, g, 0), 0, 2),
                              .state = zl_swapaxes(r->state, -1, -2),
                              .offsets = d->offsets,
                              .scale = 1};
    if (dual.offsets)
        dual.offsets = zl_multiply(dual.offsets, op_number(ZL_INT32, 2));
    if (!dual.q || !dual.e || !dual.w || !dual.x || !dual.g || !dual.state ||
        !op_delta(&dual, &found[1], &found[0]))
        return false;
    zl_array first =
        zl_squeeze(op_slice_axis(zl_unflatten(found[0], 1, ZL_SHAPE(-1, 2)), 2, 0, 1), ZL_AXES(2));
    struct delta_rule read = {.q = r->q,
                              .w = seen(d, zl_subtract(key, first), 0),
                              .x = column(zl_flatten(beta_v, 2, 3)),
                              .g = zl_flatten(seen(d, g, 0), 2, 3),
                              .state = column(zl_flatten(zl_swapaxes(r->state, -1, -2), 1, 2)),
                              .offsets = d->offsets,
                              .scale = r->scale};
    zl_array y, state;
    if (!read.q || !read.w || !read.x || !read.g || !read.state || !op_delta(&read, &state, &y))
        return false;
    out[0] = zl_unflatten(zl_squeeze(y, ZL_AXES(3)), 2, ZL_SHAPE(d->heads, d->values));
    return out[0] && (out[1] = zl_swapaxes(found[1], -1, -2));
}

// For a masked token, nothing is written, nothing decays, and S takes nothing from M.
static bool run_momentum(const struct given *d, struct delta_rule *r, zl_array *out) {
    zl_array mu = seen(d, of_momentum(d, 0), 0);
    r->beta = seen(d, d->beta, 0);
    return mu && r->beta && r->x && op_delta_momentum(r, mu, &out[1], &out[0]);
}

// Returns whether a rule is one recurrence of the given vectors, which then have the dtype of the result.
// Other rules are computed in the wide dtype.
static bool is_plain(const struct rule *r) {
    return (r->way == AFTER || r->way == BEFORE || r->way == PRODUCT) && r->w == KEY &&
           (r->x == VALUE || r->x == BETA_V) && r->e != A_KEY;
}

static zl_array narrow(const struct given *d, zl_array x) {
    return is_plain(d->rule) ? zl_astype(x, d->result) : x;
}

static bool run_rule(const struct given *d, zl_array *out) {
    const struct rule *rule = d->rule;
    struct delta_rule r = {.q = seen(d, narrow(d, d->q), 0),
                           .w = seen(d, narrow(d, factor(d, rule->w)), 0),
                           .x = narrow(d, factor(d, rule->x)),
                           .g = seen(d, gate_of(d), 0),
                           .beta = rule->way == OJA ? NULL : d->beta,
                           .state = d->state,
                           .offsets = d->offsets,
                           .pre = rule->way == BEFORE,
                           .scale = d->scale};
    if (rule->e != NOTHING) // w of a masked token is 0, so e may be anything
        r.e = rule->e == BETA_KEY && rule->w == KEY ? r.w : narrow(d, factor(d, rule->e));
    if (!r.q || !r.w || !r.x || !r.g || !r.state || (!r.e && rule->e != NOTHING))
        return false;
    switch (rule->way) {
    case PRODUCT: return run_product(d, &r, out);
    case LOW_RANK: return run_low_rank(d, &r, out);
    case NORMALIZED: return run_normalized(d, &r, out);
    case OJA: return run_oja(d, &r, out);
    case MOMENTUM: return run_momentum(d, &r, out);
    default: return run_updates(d, &r, 1, out);
    }
}

// Checks ----------------------------------------------------------------------------------------------------

static const struct rule *find_rule(const char *name) {
    for (size_t i = 0; name && i < COUNT(rules); i++)
        if (!strcmp(rules[i].name, name))
            return &rules[i];
    error_set(ZL_ERROR_VALUE, "%s: no rule '%s'; there are%s", function, name ? name : "", names);
    return NULL;
}

static bool bad_shape(const char *what, zl_array x, const char *needed) {
    return error_false(ZL_ERROR_SHAPE, "%s: %s of shape %s: %s is needed", function, what, array_text(x),
                       needed);
}

// Checks that x is (B, T, heads that divide N[, last]).
static bool check_heads(const struct given *d, const char *what, zl_array x, int64_t time, int64_t last,
                        const char *needed) {
    bool ok = x->ndim == (last < 0 ? 3 : 4) && x->dim[0] == d->batch && x->dim[1] == time && x->dim[2] > 0 &&
              d->heads % x->dim[2] == 0 && (last < 0 || x->dim[3] == last);
    return ok || bad_shape(what, x, needed);
}

static bool check_given(const char *what, zl_array x, bool wanted) {
    if ((x != NULL) == wanted)
        return true;
    return error_false(ZL_ERROR_VALUE, "%s: this rule %s %s", function, wanted ? "needs" : "does not take",
                       what);
}

static bool uses(const struct rule *r, enum factor a, enum factor b, enum factor c) {
    return r->e == a || r->x == a || r->e == b || r->x == b || r->w == b || r->e == c || r->w == c ||
           r->x == c;
}

static bool check_inputs(const struct given *d) {
    const struct rule *r = d->rule;
    bool by_beta = r->way == MOMENTUM || uses(r, BETA_KEY, BETA_V, BETA_A), scaled = r->w == SCALED;
    int64_t updates = d->time * d->updates;
    if (!check_given("g", d->g, r->gate != NONE && r->gate != RETENTION) ||
        !check_given("beta", d->beta, by_beta) ||
        !check_given("a", d->a, scaled || uses(r, A_KEY, BETA_A, MINUS_A) || r->e == OF_A) ||
        !check_given("b", d->b, scaled || uses(r, B_V, OF_B, RATE_KEY)))
        return false;
    if (d->g &&
        (d->g->ndim != (r->gate == HEAD ? 3 : 4) || d->g->dim[0] != d->batch || d->g->dim[1] != d->time ||
         d->g->dim[2] != d->heads || (r->gate == CHANNEL && d->g->dim[3] != d->keys) ||
         (r->gate == VALUE_CHANNEL && d->g->dim[3] != d->values)))
        return bad_shape("g", d->g,
                         r->gate == HEAD      ? "(B, T, N)"
                         : r->gate == CHANNEL ? "(B, T, N, K)"
                                              : "(B, T, N, V)");
    if (d->beta && !(d->beta->ndim == 3 && d->beta->dim[0] == d->batch && d->beta->dim[1] == updates &&
                     d->beta->dim[2] == d->heads))
        return bad_shape("beta", d->beta, "(B, T, N)");
    if (scaled)
        return check_heads(d, "a", d->a, d->time, d->a->ndim == 4 ? d->keys : -1,
                           "(B, T, H) or (B, T, H, K)") &&
               check_heads(d, "b", d->b, d->time, -1, "(B, T, H)") &&
               (d->a->dim[2] == d->b->dim[2] && d->a->dim[2] == d->k->dim[2]
                    ? true
                    : bad_shape("a", d->a, "the heads of k"));
    if (r->w == RATE_KEY && !(d->b->ndim == 4 && d->b->dim[0] == d->batch && d->b->dim[1] == d->time &&
                              d->b->dim[2] == d->heads && d->b->dim[3] == 2))
        return bad_shape("b", d->b, "(B, T, N, 2)");
    return (!d->a || check_heads(d, "a", d->a, d->time, d->keys, "(B, T, H, K)")) &&
           (!d->b || r->w == RATE_KEY ||
            check_heads(d, "b", d->b, d->time, r->x == B_V ? d->values : d->keys,
                        r->x == B_V ? "(B, T, N, V)" : "(B, T, H, K)"));
}

static bool check_sequences(const struct given *d) {
    if (d->offsets && (d->offsets->ndim != 1 || d->offsets->dim[0] < 2 || d->batch != 1))
        return bad_shape("offsets", d->offsets, "(S + 1), for q, k and v of batch 1,");
    if (d->offsets && !op_check_integers(function, d->offsets))
        return false;
    if (d->mask && !(d->mask->ndim == 2 && d->mask->dim[0] == d->batch && d->mask->dim[1] == d->time))
        return bad_shape("mask", d->mask, "(B, T)");
    const int64_t state[] = {d->sequences, d->heads, d->rows, d->values};
    return !d->state || shape_equal(4, state, d->state->ndim, d->state->dim) ||
           bad_shape("initial_state", d->state,
                     d->rows == d->keys ? "(B, N, K, V), one for each sequence,"
                                        : "(B, N, 2 K, V), one for each sequence,");
}

static bool read_sizes(struct given *d) {
    zl_array q = d->q, k = d->k, v = d->v;
    bool ok = q->ndim == 4 && k->ndim == 4 && v->ndim == 4 && q->dim[0] == v->dim[0] &&
              k->dim[0] == v->dim[0] && k->dim[1] == v->dim[1] && k->dim[3] == q->dim[3] && q->dim[3] > 0 &&
              q->dim[2] > 0 && k->dim[2] > 0 && v->dim[2] % q->dim[2] == 0 && v->dim[2] % k->dim[2] == 0;
    int64_t time = ok ? q->dim[1] : 0;
    bool product = d->rule->way == PRODUCT;
    ok = ok && (product && time ? k->dim[1] > 0 && k->dim[1] % time == 0 : k->dim[1] == time);
    if (!ok)
        return error_false(
            ZL_ERROR_SHAPE,
            "%s: q %s, k %s and v %s: (B, T, H, K), (B, T, H, K) and (B, T, N, V) are needed, N a multiple "
            "of H, and H and K not 0%s",
            function, array_text(q), array_text(k), array_text(v),
            product ? "; k and v may have several tokens for each of q" : "");
    d->batch = v->dim[0], d->time = time, d->heads = v->dim[2], d->keys = q->dim[3], d->values = v->dim[3];
    d->updates = time ? k->dim[1] / time : 1;
    d->rows = d->rule->way == MOMENTUM ? 2 * d->keys : d->keys;
    d->sequences = d->offsets && d->offsets->ndim == 1 ? d->offsets->dim[0] - 1 : d->batch;
    if (time * d->updates > INT32_MAX / 4)
        return error_false(ZL_ERROR_SHAPE, "%s: %" PRId64 " tokens are too many", function, time);
    return check_inputs(d) && check_sequences(d) &&
           op_check_size(function, 4, (int64_t[]){d->sequences, d->heads, d->rows, d->values});
}

// Preparation -----------------------------------------------------------------------------------------------

static bool cast_all(struct given *d) {
    enum { VECTORS = 3 };
    zl_array *each[] = {&d->q, &d->k, &d->v, &d->g, &d->beta, &d->a, &d->b, &d->state};
    for (size_t i = 0; i < COUNT(each); i++)
        if (*each[i]) {
            if (!dtype_is_float((zl_dtype)(*each[i])->dtype))
                return error_false(ZL_ERROR_DTYPE, "%s: %s is not possible; floats are", function,
                                   zl_dtype_name((zl_dtype)(*each[i])->dtype));
        }
    d->result = dtype_common(3, (zl_array[]){d->q, d->k, d->v});
    d->wide = d->result == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
    for (size_t i = 0; i < COUNT(each); i++) {
        zl_dtype own = i < VECTORS && is_plain(d->rule) ? d->result : d->wide;
        if (*each[i] && !(*each[i] = zl_astype(*each[i], own)))
            return false;
    }
    if (!d->state)
        d->state = zl_zeros(ZL_SHAPE(d->sequences, d->heads, d->rows, d->values), d->wide);
    return d->state && (!d->mask || (d->mask = zl_astype(d->mask, ZL_BOOL)));
}

static zl_array unit_length(const struct given *d, zl_array x) {
    x = zl_astype(x, d->wide);
    return zl_multiply(x, zl_rsqrt(zl_add(sum_last(zl_multiply(x, x)), wide_number(d, 1e-6))));
}

// Computes the decay gate -exp(A_log) * softplus(g + dt_bias). A_log and dt_bias have one number per head, or
// per channel of all heads.
static zl_array raw_gate(const struct given *d, zl_array A_log, zl_array dt_bias) {
    zl_array g = d->g;
    bool by_head = g->ndim == 4;
    zl_array rate = A_log ? zl_exp(zl_astype(A_log, d->wide)) : NULL;
    zl_array bias = dt_bias ? zl_astype(dt_bias, d->wide) : NULL;
    if (rate && by_head && rate->ndim == 1)
        rate = column(rate);
    if (bias && by_head && bias->ndim == 1)
        bias = zl_unflatten(bias, 0, ZL_SHAPE(g->dim[2], g->dim[3]));
    zl_array sum = bias ? zl_add(g, bias) : g;
    zl_array soft = zl_logaddexp(sum, wide_number(d, 0));
    return zl_negative(rate ? zl_multiply(rate, soft) : soft);
}

static bool check_raw_gate(const struct given *d, zl_array A_log, zl_array dt_bias) {
    if (!A_log && !dt_bias)
        return true;
    if (!d->g)
        return error_false(ZL_ERROR_VALUE, "%s: this rule has no g for A_log and dt_bias", function);
    int64_t channels = d->g->ndim == 4 ? d->g->dim[3] : 1;
    if (A_log && !(A_log->ndim == 1 && A_log->dim[0] == d->heads))
        return bad_shape("A_log", A_log, "(N)");
    return !dt_bias || (dt_bias->ndim == 1 && dt_bias->dim[0] == d->heads * channels) ||
           bad_shape("dt_bias", dt_bias, "(N), or (N * K) of gates of channels,");
}

static bool run(struct given *d, zl_array A_log, zl_array dt_bias, bool l2_norm, bool sigmoid,
                zl_array *out) {
    if (!read_sizes(d) || !check_raw_gate(d, A_log, dt_bias) || !cast_all(d))
        return false;
    if (A_log || dt_bias)
        d->g = raw_gate(d, A_log, dt_bias);
    if (sigmoid && d->beta)
        d->beta = zl_sigmoid(d->beta);
    if (l2_norm) {
        d->q = unit_length(d, d->q);
        d->k = unit_length(d, d->k);
        if (d->rule->e == BETA_A || d->rule->e == OF_A)
            d->a = unit_length(d, d->a);
    }
    if (d->time == 0) { // no tokens
        out[0] = zl_astype(d->v, d->result);
        return out[0] && (out[1] = d->state);
    }
    if (d->offsets && !(d->offsets = op_whole_offsets(d->offsets, d->time)))
        return false;
    return d->q && d->k && run_rule(d, out) && (out[0] = zl_astype(out[0], d->result));
}

bool zl_fast_delta_rule(const char *rule, zl_array q, zl_array k, zl_array v, zl_array g, zl_array beta,
                        zl_array a, zl_array b, zl_array initial_state, zl_array mask, zl_array offsets,
                        zl_array A_log, zl_array dt_bias, double scale, bool l2_norm, bool sigmoid,
                        zl_array *out) {
    zl_array optional[] = {g, beta, a, b, initial_state, mask, offsets, A_log, dt_bias};
    if (!op_check_out(function, 2, out) || !q || !k || !v)
        return false;
    for (size_t i = 0; i < COUNT(optional); i++)
        if (!op_check_optional(optional[i]))
            return false;
    struct given d = {.rule = find_rule(rule),
                      .q = q,
                      .k = k,
                      .v = v,
                      .g = g,
                      .beta = beta,
                      .a = a,
                      .b = b,
                      .state = initial_state,
                      .mask = mask,
                      .offsets = offsets};
    d.scale = isnan(scale) && q->ndim == 4 && q->dim[3] > 0 ? 1 / sqrt((double)q->dim[3]) : scale;
    return d.rule && run(&d, A_log, dt_bias, l2_norm, sigmoid, out);
}
OP_SIGNATURE_BOOL(
    zl_fast_delta_rule, "fast",
    "Linear attention with a state, of the delta rule and its relatives. Each of N heads has a "
    "state S of K rows and V columns. At "
    "every token S becomes Diag(exp(g)) S, then S + w (x - S^T e) where w, x and e are made of "
    "k, v, beta, a and b as `rule` "
    "says, and out[0] is scale * S^T q. Rules: linear, linear_normalized, retention, "
    "simple_gla, gla, delta, gated_delta, kda, gdn2, "
    "precond_gated_delta, precond_kda, comba, dplr, iplr, gated_delta_product, gated_oja, momentum_delta. q "
    "and k are (B, T, H, K), v is (B, T, N, V), "
    "N / H heads share one of q and k; g, logarithms of the decay, is (B, T, N), or (B, T, N, "
    "K) of gla, kda, gdn2 and dplr, (B, T, N, "
    "V) of gated_oja; beta is (B, T, N). a and b: of gdn2 the gates that erase (B, T, N, K) "
    "and write (B, T, N, V); of comba a is "
    "the key that erases; of dplr and iplr they are the vectors of the low rank; of precond "
    "rules the gate and weight of the "
    "preconditioner, (B, T, H); of momentum_delta a, (B, T, H, K), is the key that erases and b, (B, T, N, "
    "2), has the logarithm of mu and the rate eta: M becomes mu M - eta k (v - S^T a)^T, then S "
    "becomes exp(g) S - beta M, and a state is S above M, (2 K, V). k, v and beta of gated_delta_product "
    "have some updates for "
    "each token of q. initial_state, zeros if "
    "there is none, is (B, N, K, V); out[1] is that after the last token, float32, or float64 "
    "if the inputs are. A token whose mask "
    "(B, T) is false changes nothing and gives 0. With offsets, S + 1 numbers from 0 to T, a "
    "batch of 1 holds S sequences after each "
    "other, each with a state. With A_log (N) or dt_bias, g is -exp(A_log) * softplus(g + "
    "dt_bias); l2_norm divides q and k by "
    "their lengths, and sigmoid takes that of beta. scale is 1 / sqrt(K) if it is not given.",
    P_STRING(rule, NULL), P_ARRAY(q), P_ARRAY(k), P_ARRAY(v), P_OPTIONAL(g), P_OPTIONAL(beta), P_OPTIONAL(a),
    P_OPTIONAL(b), P_OPTIONAL(initial_state), P_OPTIONAL(mask), P_OPTIONAL(offsets), P_OPTIONAL(A_log),
    P_OPTIONAL(dt_bias), P_DOUBLE(scale, "None"), P_BOOL(l2_norm, "False"), P_BOOL(sigmoid, "False"),
    P_OUTPUTS(out, "2"));
