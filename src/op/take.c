// take.c - takes elements by their positions along an axis.

#include "op/ops.h"

// The axes of indices replace the axis.
static zl_array take(zl_array x, zl_array indices, int axis) {
    int ndim = x->ndim - 1 + indices->ndim;
    OP_TEMP(int64_t, dim, ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < ndim; i++) {
        int at = i - axis;
        dim[i] = at < 0 ? x->dim[i] : at < indices->ndim ? indices->dim[at] : x->dim[i - indices->ndim + 1];
    }
    if (!op_check_size("zl_take", ndim, dim))
        return NULL;
    return op_dense(&op_take, 2, (zl_array[]){x, indices}, 1, (int64_t[]){axis}, (zl_dtype)x->dtype, ndim,
                    dim);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = zl_take(in[0], in[1], (int)call_args(c)[0]));
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    out[0] = NULL;
    return !tangent[0] || record(c, (zl_array[]){tangent[0], c->in[1]}, out);
}

// Converts positions in each array of the batch to positions in all of them concatenated: (B, ...).
static zl_array global_positions(zl_array indices, int64_t length) {
    zl_array start = zl_multiply(zl_arange_int(0, indices->dim[0], 1, ZL_INT64), zl_scalar_int(length));
    for (int i = 1; i < indices->ndim; i++)
        start = zl_expand_dims(start, ZL_AXES(-1));
    zl_array at = zl_astype(indices, ZL_INT64);
    zl_array wrapped = zl_where(zl_less(at, op_number(ZL_INT64, 0)), zl_add(at, zl_scalar_int(length)), at);
    return zl_add(wrapped, start);
}

// Takes from x (B, before, n, after) by indices (B, ...). Returns (B, before, ..., after).
static zl_array take_each(zl_array x, zl_array indices, int axis) {
    zl_array rows = zl_moveaxis(x, axis + 1, 1);
    zl_array y = zl_take(zl_flatten(rows, 0, 1), global_positions(indices, x->dim[axis + 1]), 0);
    // The axes before `axis` are now after those of indices: moves them back, in order.
    for (int i = 0; i < axis; i++)
        y = zl_moveaxis(y, indices->ndim + i, 1 + i);
    return y;
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    int along = (int)call_args(c)[0];
    zl_array x = axis[0] < 0 ? in[0] : op_batch_first(in[0], axis[0]);
    zl_array indices = axis[1] < 0 ? in[1] : op_batch_first(in[1], axis[1]);
    if (!x || !indices)
        return false;
    if (axis[0] >= 0 && axis[1] >= 0) {
        out_axis[0] = 0;
        return (out[0] = take_each(x, indices, along));
    }
    out_axis[0] = axis[0] >= 0 ? 0 : axis[1] >= 0 ? along : -1;
    return (out[0] = take(x, indices, along + (axis[0] >= 0)));
}

// Moves the axes of the cotangent that stand for indices to the front, as scattering needs them.
static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    zl_array x = c->in[0], indices = c->in[1], g = cotangent[0];
    const int64_t *axis = call_args(c);
    (void)input;
    for (int i = 0; i < indices->ndim; i++)
        g = zl_moveaxis(g, (int)*axis + i, i);
    g = zl_expand_dims(g, ZL_AXES((int)*axis + indices->ndim));
    zl_array zeros = op_zeros_of(x);
    return g && zeros ? op_scatter_slices(UPDATE_ADD, zeros, 1, &indices, g, axis) : NULL;
}

static bool fits(const struct call *c, const zl_array *in) {
    return op_has(c, 2, 1) && op_is_axis(in[0], call_args(c)[0]) && op_are_indices(1, in + 1) &&
           in[0]->ndim - 1 + in[1]->ndim <= UINT16_MAX;
}

static const struct op_field fields[] = {{"axis", FIELD_INT}};
const struct op op_take = {
    .name = "take",
    .kind = OP_OTHER,
    .fields = 1,
    .field = fields,
    .record = record,
    .fits = fits,
    .positions = {1, 1},
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
};

static zl_array check_and_take(const char *function, zl_array x, zl_array indices, int axis) {
    int at = x && indices ? shape_axis(function, axis, x->ndim) : -1;
    if (at < 0)
        return NULL;
    if (!op_check_integers(function, indices))
        return NULL;
    if (x->dim[at] == 0 && indices->size > 0)
        return error_set(ZL_ERROR_SHAPE, "%s: nothing can be taken from axis %d of shape %s", function, axis,
                         array_text(x));
    return take(x, indices, at);
}

zl_array zl_take(zl_array a, zl_array indices, int axis) {
    return check_and_take("zl_take", a, indices, axis);
}
OP_SIGNATURE(
    zl_take, "index",
    "The elements of a at the given positions along an axis, in whose place come the axes of indices. "
    "Negative positions count from the end; positions that a does not have are the caller's mistake.",
    P_ARRAY(a), P_ARRAY(indices), P_INT(axis, NULL));

zl_array zl_take_flat(zl_array a, zl_array indices) {
    return check_and_take("zl_take_flat", zl_flatten(a, 0, -1), indices, 0);
}
OP_SIGNATURE(zl_take_flat, "index", "The elements of a, flattened, at the given positions.", P_ARRAY(a),
             P_ARRAY(indices));
