// gated_delta.c - the gated delta rule: a memory of each head that forgets, corrects what it holds for a key, and answers.
//
// A device runs all steps as one op. Derivatives are those of the same steps composed of other ops.

#include "op/ops.h"

static const char *const function = "zl_fast_gated_delta_update";

enum { Q, K, V, GATE, BETA, STATE, MASK, MOST_INPUTS };

static bool update(int inputs, const zl_array *in, zl_array *out) {
    zl_array dense[MOST_INPUTS];
    for (int i = 0; i < inputs; i++)
        if (!(dense[i] = zl_contiguous(in[i], false)))
            return false;
    zl_dtype dtype = (zl_dtype)in[V]->dtype;
    struct array_spec spec[] = {{.dtype = dtype, .ndim = 4, .dim = in[V]->dim},
                                {.dtype = dtype, .ndim = 4, .dim = in[STATE]->dim}};
    zl_array y = graph_call(&op_gated_delta, inputs, dense, 0, NULL, 2, spec);
    if (!y)
        return false;
    out[0] = y;
    out[1] = call_output(y->call, 1);
    return true;
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return update(c->inputs, in, out);
}

// The steps, composed ------------------------------------------------------------------------------------------------

// Step t of an array (B, T, ...), with axes of size 1 added at the given places of what is left.
static zl_array step_of(zl_array x, int64_t t, zl_axes axes) {
    zl_array y = zl_take(x, zl_scalar_int(t), 1);
    return axes.count ? zl_expand_dims(y, axes) : y;
}

static zl_array sum_last(zl_array x) {
    return op_reduce_axes(function, REDUCE_SUM, x, ZL_AXES(-1), false);
}

// One step: state (B, N, E, D) before it becomes that after it; what it answers, (B, N, E).
static zl_array composed_step(const zl_array *in, int64_t t, zl_array mask, zl_array *state) {
    zl_array q = step_of(in[Q], t, ZL_AXES(2)), k = step_of(in[K], t, ZL_AXES(2)); // (B, N, 1, D)
    zl_array gate =
        in[GATE]->ndim == 3 ? step_of(in[GATE], t, ZL_AXES(2, 3)) : step_of(in[GATE], t, ZL_AXES(2));
    zl_array kept = zl_multiply(*state, gate);
    zl_array wrong = zl_subtract(step_of(in[V], t, ZL_AXES()), sum_last(zl_multiply(kept, k)));
    zl_array delta = zl_multiply(wrong, step_of(in[BETA], t, ZL_AXES(2)));
    zl_array next = zl_add(kept, zl_multiply(zl_expand_dims(delta, ZL_AXES(3)), k));
    zl_array y = sum_last(zl_multiply(next, q));
    if (!mask || !y) {
        *state = next;
        return y;
    }
    zl_array seen = step_of(mask, t, ZL_AXES(1, 2));
    y = zl_where(seen, y, op_number((zl_dtype)y->dtype, 0));
    *state = zl_where(zl_expand_dims(seen, ZL_AXES(3)), next, *state);
    return y;
}

static bool composed(const struct call *c, const zl_array *in, zl_array *out) {
    int64_t steps = in[Q]->dim[1];
    int repeats = (int)(in[V]->dim[2] / in[Q]->dim[2]);
    zl_array all[] = {zl_repeat(in[Q], repeats, 2), zl_repeat(in[K], repeats, 2), in[V], in[GATE], in[BETA]};
    zl_array mask = c->inputs > MASK ? in[MASK] : NULL, state = in[STATE];
    zl_array *y = memory_alloc(sizeof *y * (size_t)steps);
    bool ok = y && all[Q] && all[K];
    for (int64_t t = 0; ok && t < steps; t++)
        ok = (y[t] = composed_step(all, t, mask, &state));
    ok = ok && (out[0] = zl_stack(y, (int)steps, 1)) && (out[1] = state);
    memory_free(y);
    return ok;
}

// Rules --------------------------------------------------------------------------------------------------------------

// A batch of batches is a larger batch.
static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    int64_t batch = op_batch_size(c->inputs, in, axis);
    zl_array all[MOST_INPUTS];
    out_axis[0] = out_axis[1] = batch < 0 ? -1 : 0;
    if (batch < 0)
        return record(c, in, out);
    for (int i = 0; i < c->inputs; i++)
        if (!(all[i] = zl_flatten(op_batch_repeat(in[i], axis[i], batch), 0, 1)))
            return false;
    zl_shape two = ZL_SHAPE(batch, call_first(c)->dim[0]);
    return record(c, all, out) && (out[0] = zl_unflatten(out[0], 0, two)) &&
           (out[1] = zl_unflatten(out[1], 0, two));
}

static bool has_shape(zl_array x, int ndim, const int64_t *dim) {
    return shape_equal(x->ndim, x->dim, ndim, dim);
}

static bool fits(const struct call *c, const zl_array *in) {
    if (c->args != 0 || c->inputs < MASK || c->inputs > MOST_INPUTS)
        return false;
    zl_array q = in[Q], v = in[V];
    if (q->ndim != 4 || v->ndim != 4 || (q->dtype != ZL_FLOAT32 && q->dtype != ZL_FLOAT64))
        return false;
    for (int i = K; i < MASK; i++)
        if (in[i]->dtype != q->dtype)
            return false;
    int64_t batch = q->dim[0], time = q->dim[1], groups = q->dim[2], keys = q->dim[3], heads = v->dim[2];
    const int64_t gates[] = {batch, time, heads, keys}, state[] = {batch, heads, v->dim[3], keys};
    return time > 0 && keys > 0 && groups > 0 && heads % groups == 0 && has_shape(in[K], 4, q->dim) &&
           v->dim[0] == batch && v->dim[1] == time &&
           (has_shape(in[GATE], 3, gates) || has_shape(in[GATE], 4, gates)) &&
           has_shape(in[BETA], 3, gates) && has_shape(in[STATE], 4, state) &&
           (c->inputs == MASK || (in[MASK]->dtype == ZL_BOOL && has_shape(in[MASK], 2, gates)));
}

// Lanes threads have a row of the state, of which each holds so many elements; 0: the row is too long, and stays in memory.
static void kernel(const struct call *c, struct op_kernel *k) {
    enum { LANES = 32, HELD_MOST = 16 };
    const int64_t *q = c->in[Q]->dim, *v = c->in[V]->dim; // (B, T, heads, size)
    int64_t held = (q[3] + LANES - 1) / LANES;
    op_kernel_set(k, "gated_delta", "WIDE=%s,HELD=%d,BY_COLUMN=%d,MASKED=%d", op_kernel_type(c->in[V]),
                  held > HELD_MOST ? 0 : (int)held, c->in[GATE]->ndim == 4, c->inputs > MASK);
    const int64_t sizes[] = {q[1], q[2], v[2], q[3], v[3], v[0] * v[2] * v[3]};
    for (size_t i = 0; i < COUNT(sizes); i++)
        op_kernel_size(k, sizes[i]);
    if (c->inputs == MASK) // then nothing reads it
        k->in[k->inputs++] = c->in[STATE];
}

const struct op op_gated_delta = {
    .name = "gated_delta",
    .kind = OP_OTHER,
    .outputs = 2,
    .record = record,
    .fits = fits,
    .composed = composed,
    .vmap = vmap,
    .kernel = kernel,
};

// Public -------------------------------------------------------------------------------------------------------------

static bool check_shape(const char *what, zl_array x, int ndim, const int64_t *dim) {
    return !x || shape_equal(x->ndim, x->dim, ndim, dim) ||
           error_false(ZL_ERROR_SHAPE, "%s: %s of shape %s: %s is needed", function, what, array_text(x),
                       shape_text(ndim, dim));
}

static bool check_shapes(zl_array q, zl_array k, zl_array v, const zl_array *other) {
    bool ok = q->ndim == 4 && k->ndim == 4 && v->ndim == 4 && shape_equal(4, q->dim, 4, k->dim) &&
              shape_equal(2, q->dim, 2, v->dim) && q->dim[2] > 0 && q->dim[3] > 0 &&
              v->dim[2] % q->dim[2] == 0;
    if (!ok)
        return error_false(
            ZL_ERROR_SHAPE,
            "%s: q %s, k %s and v %s: (B, T, H, D), the same, and (B, T, N, E) are needed, N a "
            "multiple of H, and H and D not 0",
            function, array_text(q), array_text(k), array_text(v));
    const int64_t gates[] = {q->dim[0], q->dim[1], v->dim[2], q->dim[3]};
    const int64_t state[] = {q->dim[0], v->dim[2], v->dim[3], q->dim[3]};
    zl_array gamma = other[0];
    return check_shape("gamma", gamma, gamma->ndim == 4 ? 4 : 3, gates) &&
           check_shape("beta", other[1], 3, gates) && check_shape("initial_state", other[2], 4, state) &&
           check_shape("mask", other[3], 2, gates) && op_check_size(function, 4, state);
}

static bool check_dtypes(int count, const zl_array *in) {
    for (int i = 0; i < count; i++)
        if (in[i] && !dtype_is_float((zl_dtype)in[i]->dtype))
            return error_false(ZL_ERROR_DTYPE, "%s: %s is not possible; floats are", function,
                               zl_dtype_name((zl_dtype)in[i]->dtype));
    return true;
}

// in: state and mask may be NULL.
static bool run(zl_array *in, zl_array *out) {
    zl_dtype result = dtype_common(3, in), dtype = result == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
    const int64_t *q = in[Q]->dim, *v = in[V]->dim;
    if (!in[STATE] && !(in[STATE] = zl_zeros(ZL_SHAPE(q[0], v[2], v[3], q[3]), dtype)))
        return false;
    if (q[1] == 0) { // no step
        out[0] = zl_astype(in[V], result);
        return out[0] && (out[1] = zl_astype(in[STATE], dtype));
    }
    for (int i = 0; i < MASK; i++)
        if (!(in[i] = zl_astype(in[i], dtype)))
            return false;
    if (in[MASK] && !(in[MASK] = zl_astype(in[MASK], ZL_BOOL)))
        return false;
    return update(in[MASK] ? MOST_INPUTS : MASK, in, out) && (out[0] = zl_astype(out[0], result));
}

bool zl_fast_gated_delta_update(zl_array q, zl_array k, zl_array v, zl_array gamma, zl_array beta,
                                zl_array initial_state, zl_array mask, zl_array *out) {
    zl_array in[] = {q, k, v, gamma, beta, initial_state, mask};
    return op_check_out(function, 2, out) && q && k && v && gamma && beta &&
           op_check_optional(initial_state) && op_check_optional(mask) && check_shapes(q, k, v, in + GATE) &&
           check_dtypes(MASK, in) && run(in, out);
}
OP_SIGNATURE_BOOL(zl_fast_gated_delta_update, "fast",
                  "The gated delta rule: the state of each of N heads, E rows of D numbers, is multiplied by "
                  "gamma at every step; then "
                  "beta * (v - state k) k^T is added, so that it answers k with v, and out[0] at that step "
                  "is state q. q and k are "
                  "(B, T, H, D), v is (B, T, N, E), N / H heads share one of q and k; gamma is (B, T, N), or "
                  "(B, T, N, D) for each column "
                  "of the state, beta (B, T, N). initial_state, zeros if there is none, is (B, N, E, D); "
                  "out[1] is the state after the "
                  "last step. A step whose mask (B, T) is false changes nothing and gives 0. Computed in "
                  "float32 or float64.",
                  P_ARRAY(q), P_ARRAY(k), P_ARRAY(v), P_ARRAY(gamma), P_ARRAY(beta),
                  P_OPTIONAL(initial_state), P_OPTIONAL(mask), P_OUTPUTS(out, "2"));
