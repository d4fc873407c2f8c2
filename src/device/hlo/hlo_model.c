// hlo_model.c - renders ops of models: attention, and the loss of classifiers.

#include "device/hlo/hlo.h"

#include <float.h>
#include <math.h>

// Reduces the last axis to size 1.
static struct hlo_tensor reduce_last(struct hlo_module *m, enum tile_op op, struct hlo_tensor x) {
    int64_t last = x.ndim - 1;
    struct hlo_tensor y = hlo_reduce(m, op, x, 1, &last);
    x.dim[last] = 1;
    return hlo_reshape(m, y, x.ndim, x.dim);
}

// Returns exp(x - largest) of each row, and the largest elements.
static struct hlo_tensor exponentials(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor *largest) {
    *largest = reduce_last(m, TILE_MAX, x);
    return hlo_unary(m, TILE_EXP, hlo_binary(m, TILE_SUB, x, *largest));
}

// Attention -------------------------------------------------------------------------------------------------

// Returns which keys a query sees: query i, counted from the end, sees the keys up to its own position.
static struct hlo_tensor causal(struct hlo_module *m, const struct hlo_tensor *scores) {
    const int64_t *dim = scores->dim + 2;
    struct hlo_tensor query = hlo_iota(m, ZL_INT32, 2, dim, 0), key = hlo_iota(m, ZL_INT32, 2, dim, 1);
    struct hlo_tensor count[2];
    for (int i = 0; i < 2; i++) {
        count[i] = hlo_number(m, ZL_INT32, (double)dim[i]);
        if (scores->real[2 + i])
            count[i].name = scores->real[2 + i] - 1;
    }
    query = hlo_binary(m, TILE_ADD, query, hlo_binary(m, TILE_SUB, count[1], count[0]));
    return hlo_binary(m, TILE_LE, key, query);
}

// Makes queries that share their keys rows of one matrix: (B, N, T, x) becomes (B, M, N / M * T, x).
static struct hlo_tensor as_rows(struct hlo_module *m, struct hlo_tensor x, int64_t heads) {
    int64_t dim[] = {x.dim[0], heads, x.dim[1] / heads * x.dim[2], x.dim[3]};
    return hlo_reshape(m, x, 4, dim);
}

// Replaces scores (B, N, T, S) that a boolean or causal mask excludes by another number.
static struct hlo_tensor mask_out(struct hlo_module *m, const struct attention *a,
                                  const struct hlo_tensor *in, struct hlo_tensor scores, double masked) {
    struct hlo_tensor number = hlo_number(m, ZL_FLOAT32, masked);
    if (a->mask && in[3].dtype == ZL_BOOL)
        scores = hlo_choose(m, in[3], scores, number);
    return a->causal ? hlo_choose(m, causal(m, &scores), scores, number) : scores;
}

static struct hlo_tensor transposed(struct hlo_module *m, struct hlo_tensor x) {
    return hlo_transpose(m, x, (const int64_t[]){0, 1, 3, 2});
}

static struct hlo_tensor scores_of(struct hlo_module *m, const struct attention *a,
                                   const struct hlo_tensor *in) {
    struct hlo_tensor q = in[0], k = in[1], rows = as_rows(m, q, k.dim[1]);
    int64_t dim[] = {q.dim[0], q.dim[1], q.dim[2], k.dim[2]};
    struct hlo_tensor s = hlo_multiply(m, rows, transposed(m, k), ZL_FLOAT32);
    s = hlo_binary(m, TILE_MUL, hlo_reshape(m, s, 4, dim), hlo_number(m, ZL_FLOAT32, a->scale));
    s = mask_out(m, a, in, s, -FLT_MAX);
    return a->mask && in[3].dtype != ZL_BOOL ? hlo_binary(m, TILE_ADD, s, hlo_cast(m, in[3], ZL_FLOAT32)) : s;
}

// Returns the sinks, (B or 1, N), as a column of scores.
static struct hlo_tensor sinks_of(struct hlo_module *m, const struct attention *a,
                                  const struct hlo_tensor *in) {
    struct hlo_tensor x = hlo_cast(m, in[a->mask ? 4 : 3], ZL_FLOAT32);
    return hlo_reshape(m, x, 4, (const int64_t[]){x.dim[0], x.dim[1], 1, 1});
}

static struct hlo_tensor less_exp(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor less) {
    return hlo_unary(m, TILE_EXP, hlo_binary(m, TILE_SUB, x, less));
}

// Renders attention. A sink is one more score, without a value.
bool hlo_attention(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                   struct hlo_tensor *out) {
    struct attention a = op_attention_read(c, c->in);
    zl_array y = call_first(c);
    struct hlo_tensor scores = scores_of(m, &a, in), state[2] = {reduce_last(m, TILE_MAX, scores)}, sinks;
    if (a.sinks) {
        sinks = sinks_of(m, &a, in);
        state[0] = hlo_binary(m, TILE_MAX, state[0], sinks);
    }
    struct hlo_tensor p = less_exp(m, scores, state[0]);
    state[1] = reduce_last(m, TILE_ADD, p);
    if (a.sinks)
        state[1] = hlo_binary(m, TILE_ADD, state[1], less_exp(m, sinks, state[0]));
    struct hlo_tensor sum =
        hlo_multiply(m, as_rows(m, p, in[1].dim[1]), hlo_cast(m, in[2], ZL_FLOAT32), ZL_FLOAT32);
    sum = hlo_reshape(m, sum, y->ndim, y->dim);
    out[0] = hlo_cast(m, hlo_binary(m, TILE_DIV, sum, state[1]), (zl_dtype)y->dtype);
    out[1] = hlo_join(m, 2, state, 3);
    return true;
}

// Renders the cotangents of q, k and v, and what each query contributes to those of the sinks. The weights of
// the forward pass are computed again, from the maximum and the sum that it kept.
bool hlo_attention_vjp(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                       struct hlo_tensor *out) {
    struct attention a = op_attention_read(c, c->in);
    int64_t heads = in[1].dim[1], last = c->inputs - 1;
    struct hlo_tensor wide[3], y = hlo_cast(m, in[last - 2], ZL_FLOAT32), state = in[last - 1],
                               g = hlo_cast(m, in[last], ZL_FLOAT32);
    struct hlo_tensor most = hlo_cut(m, state, 3, 0, 1), sum = hlo_cut(m, state, 3, 1, 2);
    for (int i = 0; i < 3; i++)
        wide[i] = hlo_cast(m, in[i], ZL_FLOAT32);
    struct hlo_tensor p = hlo_binary(m, TILE_DIV, less_exp(m, scores_of(m, &a, in), most), sum);
    struct hlo_tensor less = reduce_last(m, TILE_ADD, hlo_binary(m, TILE_MUL, g, y));
    struct hlo_tensor g_rows = as_rows(m, g, heads),
                      dscores = hlo_multiply(m, g_rows, transposed(m, wide[2]), ZL_FLOAT32);
    dscores = hlo_binary(m, TILE_SUB, hlo_reshape(m, dscores, 4, p.dim), less);
    dscores = mask_out(m, &a, in, hlo_binary(m, TILE_MUL, p, dscores), 0);
    dscores = as_rows(m, hlo_binary(m, TILE_MUL, dscores, hlo_number(m, ZL_FLOAT32, a.scale)), heads);
    out[0] = hlo_multiply(m, dscores, wide[1], ZL_FLOAT32);
    out[1] = hlo_multiply(m, transposed(m, dscores), as_rows(m, wide[0], heads), ZL_FLOAT32);
    out[2] = hlo_multiply(m, transposed(m, as_rows(m, p, heads)), g_rows, ZL_FLOAT32);
    for (int i = 0; i < 3; i++)
        out[i] = hlo_cast(m, hlo_reshape(m, out[i], 4, in[i].dim), in[i].dtype);
    if (a.sinks) {
        struct hlo_tensor rest = hlo_binary(m, TILE_DIV, less_exp(m, sinks_of(m, &a, in), most), sum);
        rest = hlo_unary(m, TILE_NEG, hlo_binary(m, TILE_MUL, rest, less));
        out[3] = hlo_reshape(m, rest, 3, rest.dim);
    }
    return true;
}

// Loss ------------------------------------------------------------------------------------------------------

// Renders the logarithm of the sum of exponentials, minus the logit of the target.
bool hlo_cross_entropy(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                       struct hlo_tensor *out) {
    zl_array y = call_first(c);
    zl_dtype wide = (zl_dtype)y->dtype;
    int last = in[0].ndim - 1;
    int64_t column[HLO_RANK], classes = in[0].dim[last];
    if (in[0].real[last]) // targets count from the end of the classes
        return hlo_refuse(m, "cross entropy of a number of classes that varies");
    struct hlo_tensor x = hlo_cast(m, in[0], wide), largest, e = exponentials(m, x, &largest);
    struct hlo_tensor rest = hlo_unary(m, TILE_LOG, reduce_last(m, TILE_ADD, e)),
                      zero = hlo_number(m, wide, 0);
    struct hlo_tensor is_finite =
        hlo_binary(m, TILE_LT, hlo_unary(m, TILE_ABS, largest), hlo_number(m, wide, INFINITY));
    rest = hlo_choose(m, is_finite, rest, zero); // if a logit is infinite, it is the result
    struct hlo_tensor at = hlo_positions(m, in[1], classes);
    at = hlo_binary(m, TILE_MAX, at, hlo_number(m, at.dtype, 0));
    at = hlo_binary(m, TILE_MIN, at, hlo_number(m, at.dtype, (double)(classes - 1)));
    for (int i = 0; i < x.ndim; i++)
        column[i] = i == last ? 1 : x.dim[i];
    struct hlo_tensor is_target = hlo_binary(m, TILE_EQ, hlo_iota(m, at.dtype, x.ndim, x.dim, last),
                                             hlo_reshape(m, at, x.ndim, column));
    struct hlo_tensor target = reduce_last(m, TILE_ADD, hlo_choose(m, is_target, x, zero));
    out[0] = hlo_reshape(m, hlo_binary(m, TILE_ADD, hlo_binary(m, TILE_SUB, largest, target), rest), y->ndim,
                         y->dim);
    out[1] = hlo_reshape(m, hlo_binary(m, TILE_ADD, largest, rest), y->ndim, y->dim);
    return true;
}
