// nn_mixer.c - layers in which tokens see those before them: softmax attention, and all delta rules with the
// layer around them.
//
// The inputs of a rule are read from its row of delta.def, so a new row is a new mixer.

#include "nn.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct rule {
    const char *name, *gate, *e, *w, *x, *way; // columns of delta.def
} rules[] = {
#define DELTA(name, gate, e, w, x, way, ...) {#name, #gate, #e, #w, #x, #way},
#include "op/delta.def"
};

const char zl_nn_mixers[] = "attention"
#define DELTA(name, ...) " " #name
#include "op/delta.def"
    ;

static const struct rule *find_rule(const char *name) {
    for (size_t i = 0; name && i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(rules[i].name, name))
            return &rules[i];
    return NULL;
}

static bool is_attention(const char *name) {
    return name && !strcmp(name, "attention");
}

bool zl_nn_is_mixer(const char *rule) {
    return is_attention(rule) || find_rule(rule);
}

// Returns whether one of the rule's columns e, w and x has one of these words.
static bool takes(const struct rule *r, const char *a, const char *b, const char *c) {
    const char *has[] = {r->e, r->w, r->x}, *word[] = {a, b, c};
    for (int i = 0; i < 9; i++)
        if (!strcmp(has[i / 3], word[i % 3]))
            return true;
    return false;
}

// The sizes of a layer, with defaults filled in.
struct mixer {
    zl_nn nn; // the layer's place
    const struct rule *rule;
    zl_array x;  // input of products whose outputs are divided along tensor
    zl_array in; // the layer's input
    int heads, shared, key, value, conv, updates; // over all ranks
    int parts; // number of ranks along tensor, among which the heads are divided
};

// Splits the last axis of x into this rank's share of the heads.
static zl_array heads_of(const struct mixer *m, zl_array x, int heads, int dim) {
    return zl_unflatten(x, -1, ZL_SHAPE(heads / m->parts, dim));
}

static zl_array silu(zl_array x) {
    return zl_multiply(x, zl_sigmoid(x));
}

static zl_array unit_length(zl_array x) {
    zl_array square = zl_sum_axes(zl_square(x), ZL_AXES(-1), true);
    return zl_multiply(x, zl_rsqrt(zl_add(square, zl_scalar(1e-6))));
}

// Computes a projection, (batch, time, heads * dim), then the convolution, unless there is none, and SiLU.
static zl_array projected(const struct mixer *m, const char *name, int outputs) {
    zl_array y = nn_linear(m->nn, name, m->x, outputs, false, true);
    if (m->conv < 1)
        return y;
    return silu(zl_nn_causal_conv(zl_nn_at(m->nn, "%s", name), "conv", y, m->conv));
}

// Does the same for keys and values, of which a rule may have several per token. Returns (batch, time *
// updates, heads, dim).
static zl_array each_update(const struct mixer *m, const char *name, int heads, int dim) {
    zl_array y = projected(m, name, m->updates * heads * dim);
    return zl_flatten(zl_unflatten(y, -1, ZL_SHAPE(m->updates, heads / m->parts, dim)), 1, 2);
}

static zl_array linear(const struct mixer *m, const char *name, int outputs) {
    return nn_linear(m->nn, name, m->x, outputs, false, true);
}

// Softmax attention -----------------------------------------------------------------------------------------

static zl_array for_attention(const struct mixer *m, const char *name, int heads, double rope_base,
                              bool rotates) {
    zl_array y = zl_swapaxes(heads_of(m, projected(m, name, heads * m->key), heads, m->key), 1, 2);
    return rotates && y ? zl_fast_rope(y, m->key, false, rope_base, 1, zl_scalar_int(0), NULL) : y;
}

static zl_array attention(const struct mixer *m, double rope_base) {
    double base = rope_base > 0 ? rope_base : 10000;
    zl_array q = for_attention(m, "q", m->heads, base, rope_base >= 0);
    zl_array k = for_attention(m, "k", m->shared, base, rope_base >= 0);
    zl_array v = for_attention(m, "v", m->shared, base, false);
    zl_array y = q && k && v
                     ? zl_fast_scaled_dot_product_attention(q, k, v, 1 / sqrt(m->key), NULL, NULL, "causal")
                     : NULL;
    return zl_nn_linear(m->nn, "o", zl_flatten(zl_swapaxes(y, 1, 2), -2, -1), (int)zl_dim(m->in, -1), false);
}

// Delta rules -----------------------------------------------------------------------------------------------

// The inputs of a delta rule: q, k and v, and those that only some rules have.
struct inputs {
    zl_array q, k, v, g, beta, a, b, A_log, dt_bias;
    bool l2_norm;
};

// The decay is -exp(A) softplus(g + dt). Initially A lies between 1 and 16 and softplus(dt) between 0.001 and
// 0.1, both evenly on a logarithmic scale.
static void make_gate(const struct mixer *m, struct inputs *in) {
    const char *gate = m->rule->gate;
    int dim = !strcmp(gate, "CHANNEL") ? m->key : !strcmp(gate, "VALUE_CHANNEL") ? m->value : 1;
    if (!strcmp(gate, "NONE") || !strcmp(gate, "RETENTION"))
        return;
    if (dim > 1) // a product of low rank, whose first factor all heads share
        in->g = heads_of(m,
                         zl_nn_linear(m->nn, "decay", zl_nn_linear(m->nn, "decay_in", m->in, m->key, false),
                                      m->heads * dim, false),
                         m->heads, dim);
    else
        in->g = linear(m, "decay", m->heads);
    double most = log(16), slow = log(0.001), fast = log(0.1);
    in->A_log = zl_nn_parameter(m->nn, "A_log", ZL_SHAPE(m->heads),
                                (zl_nn_init){.mean = most / 2, .spread = most / 2});
    in->dt_bias = zl_nn_parameter(m->nn, "dt_bias", ZL_SHAPE(m->heads * dim),
                                  (zl_nn_init){.mean = (slow + fast) / 2, .spread = (fast - slow) / 2});
}

// Makes the rule's inputs a and b. According to the rule they are gates that erase and write each channel;
// the key that erases; the factors of an update of low rank; the decay and the rate of a momentum; or the
// gate and the weight of a preconditioner.
static void make_a_and_b(const struct mixer *m, struct inputs *in) {
    if (takes(m->rule, "A_KEY", "B_V", "B_V")) {
        in->a = heads_of(m, zl_sigmoid(linear(m, "erase", m->heads * m->key)), m->heads, m->key);
        in->b = heads_of(m, zl_sigmoid(linear(m, "write", m->heads * m->value)), m->heads, m->value);
    }
    if (takes(m->rule, "BETA_A", "BETA_A", "BETA_A")) {
        zl_array share = zl_nn_parameter(m->nn, "erase", ZL_SHAPE(m->shared, 1), (zl_nn_init){.mean = 2});
        in->a = zl_multiply(unit_length(in->k), zl_sigmoid(share));
    }
    if (takes(m->rule, "MINUS_A", "OF_B", "OF_B")) {
        zl_array rate = heads_of(m, zl_sigmoid(linear(m, "erase", m->shared * m->key)), m->shared, m->key);
        in->q = unit_length(in->q), in->k = unit_length(in->k), in->l2_norm = false;
        in->a = zl_negative(in->k);
        in->k = in->b = zl_multiply(in->k, rate);
    }
    if (takes(m->rule, "RATE_KEY", "RATE_KEY", "RATE_KEY")) {
        zl_array stay = zl_negative(linear(m, "momentum", m->heads)), rate = linear(m, "rate", m->heads);
        in->a = in->k;
        in->b = zl_stack((zl_array[]){zl_negative(zl_logaddexp(stay, zl_scalar(0))), zl_sigmoid(rate)}, 2, 3);
    }
    if (takes(m->rule, "SCALED", "SCALED", "SCALED")) {
        zl_array gathered = linear(m, "gather", m->shared);
        in->a = zl_negative(zl_logaddexp(zl_negative(linear(m, "forget", m->shared)), zl_scalar(0)));
        in->b = zl_sigmoid(gathered);
    }
}

// Normalises the values of each head, with one gain for all heads. If the heads are divided, each rank has a
// part of the gain's gradient.
static zl_array norm(const struct mixer *m, zl_array x) {
    zl_nn here = m->parts > 1 ? zl_nn_at(m->nn, "norm") : NULL;
    if (m->parts == 1)
        return zl_nn_rms_norm(m->nn, "norm", x);
    zl_array gain = zl_nn_parameter(here, "weight", ZL_SHAPE(m->value), (zl_nn_init){.mean = 1});
    return x && gain ? zl_fast_rms_norm(x, nn_enter(here, gain), 1e-6) : NULL;
}

static zl_array delta(const struct mixer *m) {
    struct inputs in = {.q = heads_of(m, projected(m, "q", m->shared * m->key), m->shared, m->key),
                        .k = each_update(m, "k", m->shared, m->key),
                        .v = each_update(m, "v", m->heads, m->value),
                        .l2_norm = true};
    zl_array out[2] = {NULL};
    make_gate(m, &in);
    if (takes(m->rule, "BETA_KEY", "BETA_V", "BETA_A") || !strcmp(m->rule->way, "MOMENTUM"))
        in.beta = zl_flatten(zl_unflatten(linear(m, "beta", m->updates * m->heads), -1,
                                          ZL_SHAPE(m->updates, m->heads / m->parts)),
                             1, 2);
    make_a_and_b(m, &in);
    if (!strcmp(m->rule->way, "OJA")) // Oja's rule takes the values as the keys of its state
        in.v = unit_length(in.v);
    if (!strcmp(m->rule->way, "NORMALIZED")) { // sums of positive numbers cannot vanish
        in.q = zl_softmax(in.q, -1, true), in.k = zl_softmax(in.k, -1, true);
        in.l2_norm = false;
    }
    zl_array z = linear(m, "z", m->heads * m->value);
    if (!in.q || !in.k || !in.v || !z ||
        !zl_fast_delta_rule(m->rule->name, in.q, in.k, in.v, in.g, in.beta, in.a, in.b, NULL, NULL, NULL,
                            in.A_log, in.dt_bias, NAN, in.l2_norm, in.beta != NULL, out))
        return NULL;
    zl_array y = zl_multiply(norm(m, out[0]), silu(heads_of(m, z, m->heads, m->value)));
    return zl_nn_linear(m->nn, "o", zl_flatten(y, -2, -1), (int)zl_dim(m->in, -1), false);
}

static bool check(const struct mixer *m, const zl_nn_mixer_options *o) {
    if (!zl_nn_is_mixer(o->rule))
        return nn_fail(m->nn, "zl_nn_mixer: no rule '%s': there are %s", o->rule ? o->rule : "",
                       zl_nn_mixers);
    if (zl_ndim(m->in) != 3)
        return nn_fail(m->nn, "zl_nn_mixer: x of %d axes: (batch, time, width) is needed", zl_ndim(m->in));
    if (m->heads < 1 || m->shared < 1 || m->heads % m->shared || m->key < 1 || m->value < 1 || m->updates < 1)
        return nn_fail(
            m->nn,
            "zl_nn_mixer: %d heads, %d of them shared, of %d keys and %d values, and %d updates: all at "
            "least 1, and heads a multiple of those that are shared, is needed",
            m->heads, m->shared, m->key, m->value, m->updates);
    if (is_attention(o->rule) && m->value != m->key)
        return nn_fail(m->nn, "zl_nn_mixer: attention has %d keys and %d values; they must be as many",
                       m->key, m->value);
    if (m->heads % m->parts || m->shared % m->parts || (m->parts > 1 && m->updates > 1))
        return nn_fail(
            m->nn,
            "zl_nn_mixer: %d heads, %d of them shared, with %d updates of a token, on tensor=%d: heads "
            "must divide by it, with one update",
            m->heads, m->shared, m->updates, m->parts);
    return true;
}

zl_array zl_nn_mixer(zl_nn nn, const char *name, zl_array x, const zl_nn_mixer_options *o) {
    struct mixer m = {.nn = x ? zl_nn_at(nn, "%s", name) : NULL, .rule = find_rule(o->rule), .in = x};
    if (!m.nn)
        return NULL;
    m.parts = nn_parts(m.nn, "q.weight", 0);
    m.x = m.parts > 1 ? nn_enter(m.nn, x) : x;
    bool product = m.rule && !strcmp(m.rule->way, "PRODUCT");
    m.heads = o->heads ? o->heads : 1;
    m.shared = o->shared_heads ? o->shared_heads : m.heads;
    m.key = o->key_dim ? o->key_dim : m.heads > 0 ? (int)zl_dim(x, -1) / m.heads : 0;
    m.value = o->value_dim ? o->value_dim : m.key;
    m.conv = o->conv ? o->conv : m.rule ? 4 : 0;
    m.updates = !product ? 1 : o->updates ? o->updates : 2;
    if (!check(&m, o))
        return NULL;
    return m.rule ? delta(&m) : attention(&m, o->rope_base);
}
