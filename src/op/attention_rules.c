// attention_rules.c - attention and its derivatives composed of other ops: for float64, tangents, second
// derivatives, and gradients of masks and sinks. These store the matrix of all scores.
//
// Queries that share their keys are rows of one matrix: q is (B, M, R, D), scores are (B, M, R, S). A tangent
// or cotangent that is NULL is zero. 16-bit floats are computed in float32.

#include "op/ops.h"

struct rows {
    const struct attention *a;
    zl_array q, k, v, g; // g: cotangent of the result, in the backward pass
    zl_array p;          // the softmax
    zl_array rest;       // the softmax weights of the sinks, (B, M, R, 1); NULL: there are none
};

static zl_array wide(zl_array x) {
    return zl_astype(x, x->dtype == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32);
}

// Reshapes (B, N, T, ...) to (B, M, N / M * T, ...); as_heads reverses it.
static zl_array as_rows(const struct attention *a, zl_array x) {
    const int64_t *q = a->q->dim, heads = a->k->dim[1];
    return x ? zl_reshape(wide(x), ZL_SHAPE(q[0], heads, q[1] / heads * q[2], x->dim[3])) : NULL;
}

static zl_array as_heads(const struct attention *a, zl_array x) {
    const int64_t *q = a->q->dim;
    return x ? zl_reshape(x, ZL_SHAPE(q[0], q[1], q[2], x->dim[3])) : NULL;
}

static zl_array add(zl_array a, zl_array b) {
    return a && b ? zl_add(a, b) : a ? a : b;
}

static zl_array subtract(zl_array a, zl_array b) {
    return add(a, zl_negative(b));
}

static zl_array times(zl_array a, zl_array b) {
    return op_matmul_as("zl_fast_scaled_dot_product_attention", a, b);
}

static zl_array transposed(zl_array x) {
    return zl_matrix_transpose(x);
}

static zl_array row_sum(zl_array x) {
    return zl_sum_axis(x, -1, true);
}

static zl_array scaled(const struct attention *a, zl_array x) {
    return x ? zl_multiply(x, op_number((zl_dtype)x->dtype, a->scale)) : NULL;
}

// Returns a mask for queries that are the last ones of the sequence: each sees the keys up to its own
// position.
static zl_array causal_mask(int64_t queries, int64_t keys) {
    zl_array query = zl_arange_int(keys - queries, keys, 1, ZL_INT64),
             key = zl_arange_int(0, keys, 1, ZL_INT64);
    return zl_greater_equal(zl_expand_dims(query, ZL_AXES(1)), key);
}

// Replaces scores, (B, M, R, S), by the number `masked` where a bool mask, or the causal one, excludes them.
static zl_array mask_out(const struct attention *a, zl_array x, double masked) {
    bool by_mask = a->mask && a->mask->dtype == ZL_BOOL;
    if (!x || (!by_mask && !a->causal))
        return x;
    zl_array seen = by_mask ? a->mask : causal_mask(a->q->dim[2], a->k->dim[2]);
    return as_rows(a, zl_where(seen, as_heads(a, x), op_number((zl_dtype)x->dtype, masked)));
}

// Adds a mask of numbers to the scores.
static zl_array added(const struct attention *a, zl_array scores, zl_array mask) {
    if (!mask || mask->dtype == ZL_BOOL)
        return scores;
    const int64_t dim[] = {a->q->dim[0], a->q->dim[1], a->q->dim[2], a->k->dim[2]};
    return add(scores, as_rows(a, zl_broadcast_to(mask, (zl_shape){dim, 4})));
}

// Repeats the sinks, (B or 1, N), for every row.
static zl_array sink_rows(const struct attention *a, zl_array sinks) {
    const int64_t *q = a->q->dim;
    zl_array x = zl_expand_dims(sinks, ZL_AXES(2, 3));
    return x ? as_rows(a, zl_broadcast_to(x, ZL_SHAPE(q[0], q[1], q[2], 1))) : NULL;
}

static void softmax(struct rows *r, zl_array scores) {
    const struct attention *a = r->a;
    if (!a->sinks || !scores) {
        r->p = zl_softmax(scores, -1, true);
        return;
    }
    int64_t keys = scores->dim[3], *dim = scores->dim;
    zl_array all = zl_concatenate((zl_array[]){sink_rows(a, a->sinks), scores}, 2, -1);
    all = zl_softmax(all, -1, true);
    const zl_shape start = ZL_SHAPE(0, 0, 0, 1), step = ZL_SHAPE(1, 1, 1, 1);
    r->p = zl_slice(all, start, ZL_SHAPE(dim[0], dim[1], dim[2], keys + 1), step);
    r->rest = zl_slice(all, ZL_SHAPE(0, 0, 0, 0), ZL_SHAPE(dim[0], dim[1], dim[2], 1), step);
}

// Computes the softmax of a call. Returns false, with an error, if that fails.
static bool open_rows(struct rows *r, const struct attention *a) {
    *r = (struct rows){a, as_rows(a, a->q), wide(a->k), wide(a->v), as_rows(a, a->g)};
    zl_array scores = times(scaled(a, r->q), transposed(r->k));
    zl_dtype dtype = scores ? (zl_dtype)scores->dtype : ZL_FLOAT32;
    softmax(r, added(a, mask_out(a, scores, -op_largest(dtype)), a->mask));
    return r->p;
}

zl_array op_attention_composed(const struct attention *a) {
    struct rows r;
    if (!open_rows(&r, a))
        return NULL;
    return zl_astype(as_heads(a, times(r.p, r.v)), (zl_dtype)a->q->dtype);
}

// Cotangents ------------------------------------------------------------------------------------------------

// Returns the cotangent of the scores from that of the softmax. *less is the row sum that is subtracted, (B,
// M, R, 1).
static zl_array through_softmax(const struct rows *r, zl_array g, zl_array *less) {
    *less = row_sum(zl_multiply(r->p, g));
    return zl_multiply(r->p, zl_subtract(g, *less));
}

// Returns the cotangent of a mask from that of the scores.
static zl_array mask_of(const struct attention *a, zl_array ds) {
    return zl_astype(op_unbroadcast(as_heads(a, ds), a->mask), (zl_dtype)a->mask->dtype);
}

// Returns the cotangent of the sinks from that of their scores, (B, M, R, 1).
static zl_array sinks_of(const struct attention *a, zl_array x) {
    zl_array each = zl_sum_axes(as_heads(a, x), ZL_AXES(2, 3), false);
    return each ? zl_astype(op_unbroadcast(each, a->sinks), (zl_dtype)a->sinks->dtype) : NULL;
}

zl_array op_attention_mask_vjp(const struct attention *a) {
    struct rows r;
    zl_array less;
    if (!open_rows(&r, a))
        return NULL;
    return mask_of(a, through_softmax(&r, times(r.g, transposed(r.v)), &less));
}

// Writes the cotangents of q, k and v, in their dtypes and shapes.
static void put(const struct attention *a, zl_array dq, zl_array dk, zl_array dv, zl_array *out) {
    zl_dtype dtype = (zl_dtype)a->q->dtype;
    out[0] = zl_astype(as_heads(a, dq), dtype);
    out[1] = zl_astype(dk, dtype);
    out[2] = zl_astype(dv, dtype);
}

// Reshapes (B, N, T) to (B, M, R, 1).
static zl_array as_column(const struct attention *a, zl_array x) {
    return x ? as_rows(a, zl_expand_dims(x, ZL_AXES(-1))) : NULL;
}

// Computes second derivatives: the gradient of the sum of the backward pass's results, each multiplied by its
// cotangent. Sinks are one more column of scores, whose weights are `rest` and whose values are 0.
bool op_attention_vjp_vjp(const struct call *c, const bool *wanted, const zl_array *cotangent,
                          zl_array *out) {
    struct attention a = op_attention_read(c, c->in);
    struct rows r;
    (void)wanted;
    if (!open_rows(&r, &a))
        return false;
    zl_array aq = as_rows(&a, cotangent[0]), ak = cotangent[1] ? wide(cotangent[1]) : NULL,
             av = cotangent[2] ? wide(cotangent[2]) : NULL;
    zl_array w_sink = a.sinks ? as_column(&a, cotangent[3]) : NULL;
    zl_array less, dp = times(r.g, transposed(r.v)), ds = mask_out(&a, through_softmax(&r, dp, &less), 0);
    zl_array w = mask_out(&a, scaled(&a, add(times(aq, transposed(r.k)), times(r.q, transposed(ak)))), 0);
    zl_array w_less = add(row_sum(zl_multiply(r.p, w)), zl_multiply(r.rest, w_sink));
    zl_array x = zl_multiply(r.p, subtract(w, w_less)); // cotangent of dp
    zl_array g_p = subtract(zl_multiply(w, zl_subtract(dp, less)), zl_multiply(w_less, dp));
    g_p = add(g_p, times(r.g, transposed(av)));
    zl_array g_sink = zl_negative(zl_multiply(w_sink, less));
    zl_array p_less = add(row_sum(zl_multiply(r.p, g_p)), zl_multiply(r.rest, g_sink));
    zl_array g_s = zl_multiply(r.p, subtract(g_p, p_less)), shown = mask_out(&a, g_s, 0);
    zl_array gq = add(times(shown, r.k), times(ds, ak)),
             gk = add(times(transposed(shown), r.q), times(transposed(ds), aq));
    put(&a, scaled(&a, gq), scaled(&a, gk), times(transposed(x), r.g), out);
    if (a.mask && a.mask->dtype != ZL_BOOL && g_s)
        out[3] = mask_of(&a, g_s);
    if (a.sinks && p_less)
        out[a.mask ? 4 : 3] = sinks_of(&a, zl_multiply(r.rest, subtract(g_sink, p_less)));
    out[c->inputs - 1] = zl_astype(as_heads(&a, add(times(x, r.v), times(r.p, av))), (zl_dtype)a.g->dtype);
    return !zl_error();
}

// Tangents --------------------------------------------------------------------------------------------------

// Returns the tangent of the softmax from those of the inputs (NULL: zero). *sink becomes the tangent of the
// sinks' weights.
static zl_array softmax_tangent(const struct rows *r, const struct attention *t, zl_array *sink) {
    const struct attention *a = r->a;
    zl_array q = as_rows(a, t->q), k = t->k ? wide(t->k) : NULL,
             sinks = t->sinks ? sink_rows(a, t->sinks) : NULL;
    zl_array scores = mask_out(a, scaled(a, add(times(q, transposed(r->k)), times(r->q, transposed(k)))), 0);
    if (t->mask)
        scores = added(a, scores, t->mask);
    zl_array less = add(row_sum(zl_multiply(r->p, scores)), zl_multiply(r->rest, sinks));
    *sink = zl_multiply(r->rest, subtract(sinks, less));
    return zl_multiply(r->p, subtract(scores, less));
}

bool op_attention_jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    struct attention a = op_attention_read(c, c->in), t = op_attention_read(c, tangent);
    struct rows r;
    zl_array sink;
    if (!open_rows(&r, &a))
        return false;
    zl_array y = add(times(softmax_tangent(&r, &t, &sink), r.v), times(r.p, t.v ? wide(t.v) : NULL));
    out[0] = zl_astype(as_heads(&a, y), (zl_dtype)a.q->dtype);
    out[1] = NULL; // the state is read by the backward pass only, and the rules of that do not use its
                   // tangent
    return !zl_error();
}

bool op_attention_vjp_jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    struct attention a = op_attention_read(c, c->in), t = op_attention_read(c, tangent);
    struct rows r;
    if (!open_rows(&r, &a))
        return false;
    zl_array tg = as_rows(&a, t.g), tq = as_rows(&a, t.q), tk = t.k ? wide(t.k) : NULL,
             tv = t.v ? wide(t.v) : NULL;
    zl_array less, dp = times(r.g, transposed(r.v)), ds = mask_out(&a, through_softmax(&r, dp, &less), 0);
    zl_array sink, tp = softmax_tangent(&r, &t, &sink),
                   tdp = add(times(tg, transposed(r.v)), times(r.g, transposed(tv)));
    zl_array inner = add(zl_multiply(tp, dp), zl_multiply(r.p, tdp)), tless = row_sum(inner);
    zl_array tds = add(zl_multiply(tp, zl_subtract(dp, less)), zl_multiply(r.p, subtract(tdp, tless)));
    tds = mask_out(&a, tds, 0);
    zl_array dq = add(times(tds, r.k), times(ds, tk)),
             dk = add(times(transposed(tds), r.q), times(transposed(ds), tq));
    put(&a, scaled(&a, dq), scaled(&a, dk), add(times(transposed(tp), r.g), times(transposed(r.p), tg)), out);
    if (a.sinks) {
        zl_array each = as_heads(&a, zl_negative(add(zl_multiply(sink, less), zl_multiply(r.rest, tless))));
        out[3] = zl_squeeze(each, ZL_AXES(-1));
    }
    return !zl_error();
}
