// attention.c - scaled dot-product attention: softmax(scale * q k^T + mask) v.
//
// The device computes it without storing the matrix of all scores. So does the backward pass, which
// recomputes the scores from two numbers per query that the forward pass keeps. Rare cases (second
// derivatives, tangents, gradients of masks, float64) are composed of other ops.

#include "op/ops.h"

#include <string.h>

static const char *const function = "zl_fast_scaled_dot_product_attention";

enum { SCALE, CAUSAL, MASKED, SINKS, ARGS };
enum { INPUTS_MOST = 8 };

struct attention op_attention_read(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    struct attention a = {in[0], in[1], in[2], .scale = op_arg_double(arg[SCALE]), .causal = arg[CAUSAL]};
    int at = 3;
    a.mask = arg[MASKED] ? in[at++] : NULL;
    a.sinks = arg[SINKS] ? in[at++] : NULL;
    if (c->op == &op_attention_vjp) {
        a.y = in[at++];
        a.state = in[at++];
        a.g = in[at];
    }
    return a;
}

// Lists inputs and arguments as op_attention_read expects them. Returns the number of inputs.
static int list_inputs(const struct attention *a, zl_array *in, int64_t *arg) {
    const zl_array all[] = {a->q, a->k, a->v, a->mask, a->sinks, a->y, a->state, a->g};
    int count = 0;
    for (int i = 0; i < INPUTS_MOST; i++)
        if (all[i])
            in[count++] = all[i];
    arg[SCALE] = op_double_arg(a->scale);
    arg[CAUSAL] = a->causal;
    arg[MASKED] = a->mask != NULL;
    arg[SINKS] = a->sinks != NULL;
    return count;
}

// Returns strides for a result (B, N, T, D) with the layout of x: if the heads of a query are adjacent in x,
// they are adjacent in the result too, so that merging them into one axis is a view. NULL: row-major.
static const int64_t *lie_like(zl_array x, const int64_t *dim, int64_t *stride) {
    const int64_t *of = array_stride(x);
    if (dim[1] == 1 || dim[2] == 1 || of[1] <= 0 || of[1] >= of[2] || of[3] != 1)
        return NULL;
    stride[3] = 1;
    stride[1] = dim[3];
    stride[2] = dim[1] * dim[3];
    stride[0] = dim[2] * stride[2];
    return stride;
}

static bool attend(const struct attention *a, zl_array *out) {
    zl_array in[INPUTS_MOST];
    int64_t arg[ARGS], dim[] = {a->q->dim[0], a->q->dim[1], a->q->dim[2], a->v->dim[3]};
    int64_t state[] = {dim[0], dim[1], dim[2], 2}, stride[4];
    int count = list_inputs(a, in, arg);
    const struct array_spec spec[] = {
        {.dtype = (zl_dtype)a->q->dtype, .ndim = 4, .dim = dim, .stride = lie_like(a->q, dim, stride)},
        {.dtype = ZL_FLOAT32, .ndim = 4, .dim = state}};
    out[0] = graph_call(&op_attention, count, in, ARGS, arg, 2, spec);
    out[1] = out[0] ? call_output(out[0]->call, 1) : NULL;
    return out[0];
}

static bool attend_back(const struct attention *from, zl_array *out) {
    zl_array in[INPUTS_MOST];
    int64_t arg[ARGS], stride[3][4];
    struct attention a = *from;
    if (!(a.state = zl_contiguous(a.state, false)))
        return false;
    int count = list_inputs(&a, in, arg);
    int outputs = a.sinks ? 4 : 3;
    struct array_spec spec[4] = {[3] = {.dtype = ZL_FLOAT32, .ndim = 3, .dim = a.q->dim}};
    for (int i = 0; i < 3; i++)
        spec[i] = (struct array_spec){.dtype = (zl_dtype)in[i]->dtype,
                                      .ndim = 4,
                                      .dim = in[i]->dim,
                                      .stride = lie_like(in[i], in[i]->dim, stride[i])};
    out[0] = graph_call(&op_attention_vjp, count, in, ARGS, arg, outputs, spec);
    for (int i = 1; i < outputs; i++)
        out[i] = out[0] ? call_output(out[0]->call, i) : NULL;
    return out[0];
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    struct attention a = op_attention_read(c, in);
    return (c->op == &op_attention ? attend : attend_back)(&a, out);
}

// Derivatives -----------------------------------------------------------------------------------------------

// Sums the cotangents of the sinks over queries; `each` is (B, N, T).
static zl_array sum_sinks(const struct attention *a, zl_array each) {
    zl_array sum = op_unbroadcast(zl_sum_axis(each, -1, false), a->sinks);
    return zl_astype(sum, (zl_dtype)a->sinks->dtype);
}

static bool vjp_all(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out) {
    struct attention a = op_attention_read(c, c->in);
    zl_array grad[4];
    int sinks = a.mask ? 4 : 3;
    bool drained = a.sinks && wanted[sinks];
    if (!cotangent[0])
        return true;
    a.y = call_output(c, 0);
    a.state = call_output(c, 1);
    a.g = cotangent[0];
    if ((wanted[0] || wanted[1] || wanted[2] || drained) && !attend_back(&a, grad))
        return false;
    for (int i = 0; i < 3; i++)
        out[i] = wanted[i] ? grad[i] : NULL;
    if (drained && !(out[sinks] = sum_sinks(&a, grad[3])))
        return false;
    bool masked = a.mask && wanted[3] && a.mask->dtype != ZL_BOOL;
    return !masked || (out[3] = op_attention_mask_vjp(&a));
}

// Merges the extra axis with the batch axis, of size `before`. An array that is the same for the whole batch
// stays as it is.
static zl_array merge(zl_array x, int axis, int64_t batch, int64_t before) {
    if (axis < 0 && x->dim[0] == 1 && before != 1)
        return x;
    x = op_batch_repeat(x, axis, batch);
    if (x && x->dim[1] != before) {
        int64_t dim[5] = {batch, before};
        for (int i = 2; i < x->ndim; i++)
            dim[i] = x->dim[i];
        x = zl_broadcast_to(x, (zl_shape){dim, x->ndim});
    }
    return x ? zl_flatten(x, 0, 1) : NULL;
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    zl_array merged[INPUTS_MOST];
    int64_t batch = op_batch_size(c->inputs, in, axis);
    for (int i = 0; i < c->outputs; i++)
        out_axis[i] = batch < 0 ? -1 : 0;
    if (batch < 0)
        return record(c, in, out);
    int64_t before = c->in[0]->dim[0];
    for (int i = 0; i < c->inputs; i++)
        if (!(merged[i] = merge(in[i], axis[i], batch, before)))
            return false;
    if (!record(c, merged, out))
        return false;
    for (int i = 0; i < c->outputs; i++)
        if (!(out[i] = zl_unflatten(out[i], 0, ZL_SHAPE(batch, before))))
            return false;
    return true;
}

static bool stretches_to(zl_array x, int ndim, const int64_t *dim) {
    if (x->ndim != ndim)
        return false;
    for (int i = 0; i < ndim; i++)
        if (x->dim[i] != 1 && x->dim[i] != dim[i])
            return false;
    return true;
}

// Inputs: q, k, v, then mask and sinks if the arguments say so; for the backward pass also the result, the
// state of the softmax and the cotangent.
static bool fits(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    bool back = c->op == &op_attention_vjp;
    if (c->args != 4 || !op_is_among(arg[1], 2) || !op_is_among(arg[2], 2) || !op_is_among(arg[3], 2) ||
        (arg[1] && arg[2]) || c->inputs != 3 + (int)arg[2] + (int)arg[3] + 3 * back ||
        (back && c->outputs != 3 + (int)arg[3]) || in[0]->ndim != 4 || in[1]->ndim != 4 || in[2]->ndim != 4)
        return false;
    struct attention a = op_attention_read(c, in);
    const int64_t *q = a.q->dim, *k = a.k->dim, *v = a.v->dim, scores[] = {q[0], q[1], q[2], k[2]};
    const int64_t result[] = {q[0], q[1], q[2], v[3]}, state[] = {q[0], q[1], q[2], 2};
    bool agree = q[0] == k[0] && k[0] == v[0] && q[3] == k[3] && k[1] == v[1] && k[2] == v[2] && k[1] &&
                 q[1] % k[1] == 0 && a.q->size && a.k->size && a.v->size &&
                 op_is_small_float((zl_dtype)a.q->dtype) && a.q->dtype == a.k->dtype &&
                 a.q->dtype == a.v->dtype;
    bool masked = !a.mask || (stretches_to(a.mask, 4, scores) &&
                              (a.mask->dtype == ZL_BOOL || a.mask->dtype == a.q->dtype));
    bool drained =
        !a.sinks || (stretches_to(a.sinks, 2, q) && a.sinks->dim[1] == q[1] && a.sinks->dtype == a.q->dtype);
    return agree && masked && drained &&
           (!back || (shape_equal(4, result, a.y->ndim, a.y->dim) &&
                      shape_equal(4, state, a.state->ndim, a.state->dim) &&
                      shape_equal(4, result, a.g->ndim, a.g->dim) && a.y->dtype == a.q->dtype &&
                      a.g->dtype == a.q->dtype && a.state->dtype == ZL_FLOAT32));
}

static const struct op_field fields[] = {
    {"scale", FIELD_DOUBLE}, {"causal", FIELD_BOOL}, {"masked", FIELD_BOOL}, {"sinks", FIELD_BOOL}};
const struct op op_attention = {
    .name = "attention",
    .kind = OP_OTHER,
    .outputs = 2,
    .fields = ARGS,
    .field = fields,
    .record = record,
    .fits = fits,
    .vjp_all = vjp_all,
    .jvp = op_attention_jvp,
    .vmap = vmap,
};
const struct op op_attention_vjp = {
    .name = "attention_vjp",
    .kind = OP_OTHER,
    .outputs = OP_OUTPUTS_VARY,
    .fields = ARGS,
    .field = fields,
    .record = record,
    .fits = fits,
    .vjp_all = op_attention_vjp_vjp,
    .jvp = op_attention_vjp_jvp,
    .vmap = vmap,
};

// The public function ---------------------------------------------------------------------------------------

static bool check_heads(zl_array q, zl_array k, zl_array v) {
    if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4)
        return error_false(ZL_ERROR_SHAPE, "%s: q, k and v of shapes %s, %s and %s: each needs four axes",
                           function, array_text(q), array_text(k), array_text(v));
    bool fits = q->dim[0] == k->dim[0] && k->dim[0] == v->dim[0] && q->dim[3] == k->dim[3] &&
                k->dim[1] == v->dim[1] && k->dim[2] == v->dim[2];
    if (!fits || k->dim[1] == 0 || q->dim[1] % k->dim[1])
        return error_false(
            ZL_ERROR_SHAPE,
            "%s: q %s, k %s and v %s: (B, N, T, D), (B, M, S, D) and (B, M, S, E) are needed, N a "
            "multiple of M",
            function, array_text(q), array_text(k), array_text(v));
    return op_check_size(function, 4, (int64_t[]){q->dim[0], q->dim[1], q->dim[2], k->dim[2] + 1});
}

static bool check_promotes(const char *what, zl_array x, zl_dtype dtype) {
    return zl_result_type((zl_dtype)x->dtype, dtype) == dtype ||
           error_false(ZL_ERROR_DTYPE, "%s: %s of %s for numbers of %s: it must not need a wider dtype",
                       function, what, zl_dtype_name((zl_dtype)x->dtype), zl_dtype_name(dtype));
}

// shape: the shape of the scores.
static bool check_mask(zl_array mask, const char *mode, zl_dtype dtype, const int64_t *shape) {
    bool causal = mode && !strcmp(mode, "causal");
    if ((mode && *mode && strcmp(mode, "array") && !causal) || (causal && mask))
        return error_false(ZL_ERROR_VALUE,
                           "%s: mask_mode '%s' %s a mask: 'causal' without one is possible, or none",
                           function, mode, mask ? "with" : "without");
    if (!mask)
        return true;
    int64_t dim[4];
    bool fits = mask->ndim <= 4 && shape_broadcast(4, shape, mask->ndim, mask->dim, dim) == 4 &&
                shape_equal(4, dim, 4, shape);
    return (fits ||
            error_false(ZL_ERROR_SHAPE, "%s: a mask of shape %s does not stretch to scores of shape %s",
                        function, array_text(mask), shape_text(4, shape))) &&
           check_promotes("a mask", mask, dtype);
}

static bool check_sinks(zl_array sinks, zl_dtype dtype, int64_t heads) {
    if (!sinks)
        return true;
    if (sinks->ndim != 1 || sinks->dim[0] != heads)
        return error_false(ZL_ERROR_SHAPE, "%s: sinks of shape %s: (%lld,) is needed", function,
                           array_text(sinks), (long long)heads);
    return check_promotes("sinks", sinks, dtype);
}

static zl_array with_four_axes(zl_array x) {
    while (x && x->ndim < 4)
        x = zl_expand_dims(x, ZL_AXES(0));
    return x;
}

// Casts all inputs to one dtype. Returns false, with an error, if that fails.
static bool prepare(struct attention *a, zl_dtype dtype) {
    a->q = zl_astype(a->q, dtype);
    a->k = zl_astype(a->k, dtype);
    a->v = zl_astype(a->v, dtype);
    if (!a->q || !a->k || !a->v)
        return false;
    if (a->mask &&
        !(a->mask = with_four_axes(a->mask->dtype == ZL_BOOL ? a->mask : zl_astype(a->mask, dtype))))
        return false;
    return !a->sinks || (a->sinks = zl_expand_dims(zl_astype(a->sinks, dtype), ZL_AXES(0)));
}

static zl_array attention(struct attention a, const char *mode) {
    if (!a.q || !a.k || !a.v || !op_check_optional(a.mask) || !op_check_optional(a.sinks) ||
        !check_heads(a.q, a.k, a.v))
        return NULL;
    zl_dtype dtype = dtype_common(3, (zl_array[]){a.q, a.k, a.v});
    const int64_t shape[] = {a.q->dim[0], a.q->dim[1], a.q->dim[2], a.k->dim[2]};
    if (!dtype_is_float(dtype))
        return error_set(ZL_ERROR_DTYPE, "%s: %s is not possible; floats are", function,
                         zl_dtype_name(dtype));
    a.causal = mode && !strcmp(mode, "causal");
    if (!check_mask(a.mask, mode, dtype, shape) || !check_sinks(a.sinks, dtype, shape[1]) ||
        !prepare(&a, dtype))
        return NULL;
    zl_array out[2];
    if (dtype == ZL_FLOAT64 || a.q->size == 0 || a.v->size == 0 || a.k->size == 0)
        return op_attention_composed(&a);
    return attend(&a, out) ? out[0] : NULL;
}

zl_array zl_fast_scaled_dot_product_attention(zl_array q, zl_array k, zl_array v, double scale, zl_array mask,
                                              zl_array sinks, const char *mask_mode) {
    zl_scope s = zl_scope_begin();
    struct attention a = {.q = q, .k = k, .v = v, .mask = mask, .sinks = sinks, .scale = scale};
    return zl_scope_leave(s, attention(a, mask_mode));
}
OP_SIGNATURE(zl_fast_scaled_dot_product_attention, "fast",
             "softmax(scale * q k^T + mask) v for each head: q is (B, N, T, D), k and v are (B, M, S, D), "
             "and N / M heads "
             "of q share one of k and v. A mask stretches to (B, N, T, S): of bool, what is not seen is "
             "false. mask_mode "
             "'causal' lets a query see the keys up to its own, the last query up to the last key. sinks, "
             "one a head, are "
             "scores more that only take part in the softmax's sum.",
             P_ARRAY(q), P_ARRAY(k), P_ARRAY(v), P_DOUBLE(scale, NULL), P_OPTIONAL(mask), P_OPTIONAL(sinks),
             P_STRING(mask_mode, "None"));
