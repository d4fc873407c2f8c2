// gated_delta.c - fast.gated_delta_update: MLX's gated delta rule as a call of the recurrence of delta.c.
//
// MLX's decay is a factor, which may be 0 or negative, and its state is transposed. The transposition is a
// view: from call to call, the state keeps the layout that kernels want.

#include "op/ops.h"

static const char *const function = "zl_fast_gated_delta_update";

enum { Q, K, V, GATE, BETA, STATE, MASK };

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

// Returns x, with `fill` for masked tokens; x itself without a mask.
static zl_array seen(zl_array mask, zl_array x, double fill) {
    if (!mask || !x)
        return x;
    return zl_where(zl_expand_dims(mask, x->ndim == 4 ? ZL_AXES(2, 3) : ZL_AXES(2)), x,
                    op_number((zl_dtype)x->dtype, fill));
}

// in: state and mask may be NULL.
static bool run(zl_array *in, zl_array *out) {
    zl_dtype result = dtype_common(3, in), dtype = result == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
    const int64_t *q = in[Q]->dim, *v = in[V]->dim;
    if (!in[STATE] && !(in[STATE] = zl_swapaxes(zl_zeros(ZL_SHAPE(q[0], v[2], q[3], v[3]), dtype), -1, -2)))
        return false;
    if (q[1] == 0) { // no tokens
        out[0] = zl_astype(in[V], result);
        return out[0] && (out[1] = zl_astype(in[STATE], dtype));
    }
    for (int i = 0; i < MASK; i++)
        if (!(in[i] = zl_astype(in[i], dtype)))
            return false;
    if (in[MASK] && !(in[MASK] = zl_astype(in[MASK], ZL_BOOL)))
        return false;
    zl_array key = seen(in[MASK], in[K], 0);
    struct delta_rule r = {.q = seen(in[MASK], in[Q], 0),
                           .w = key,
                           .x = in[V],
                           .g = seen(in[MASK], in[GATE], 1),
                           .state = zl_swapaxes(in[STATE], -1, -2),
                           .e = key,
                           .beta = in[BETA],
                           .factors = true,
                           .scale = 1};
    return r.q && r.w && r.x && r.g && r.state && r.e && op_delta(&r, &out[1], &out[0]) &&
           (out[0] = zl_astype(out[0], result)) && (out[1] = zl_swapaxes(out[1], -1, -2));
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
