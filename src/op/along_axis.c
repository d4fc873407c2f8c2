// along_axis.c - takes and puts elements along one axis, with separate indices for each position of the other
// axes.

#include "op/ops.h"

// Broadcasts arrays of one rank against each other, except along axis, where each keeps its size.
static bool broadcast_others(const char *function, int count, zl_array *in, int axis) {
    int ndim = in[0]->ndim;
    OP_TEMP(int64_t, dim, ndim);
    if (!dim)
        return false;
    for (int k = 0; k < ndim; k++)
        dim[k] = in[0]->dim[k];
    for (int i = 1; i < count; i++)
        for (int k = 0; k < ndim; k++) {
            int64_t size = in[i]->dim[k];
            if (k != axis && dim[k] != size && dim[k] != 1 && size != 1)
                return error_false(ZL_ERROR_SHAPE,
                                   "%s: shapes %s and %s: sizes must be equal or 1 but along axis %d",
                                   function, array_text(in[0]), array_text(in[i]), axis);
            dim[k] = dim[k] == 1 ? size : dim[k];
        }
    for (int i = 0; i < count; i++) {
        dim[axis] = in[i]->dim[axis];
        if (!op_check_size(function, ndim, dim) || !(in[i] = zl_broadcast_to(in[i], (zl_shape){dim, ndim})))
            return false;
    }
    return true;
}

// Returns the axis as a non-negative number if a and the indices have the same rank, else -1 and an error.
static int check_axis(const char *function, zl_array a, zl_array indices, int axis) {
    int at = a && indices ? shape_axis(function, axis, a->ndim) : -1;
    if (at < 0 || !op_check_integers(function, indices))
        return -1;
    if (indices->ndim == a->ndim)
        return at;
    error_set(ZL_ERROR_SHAPE, "%s: indices of shape %s for an array of shape %s: %d axes are needed",
              function, array_text(indices), array_text(a), a->ndim);
    return -1;
}

// take_along_axis -------------------------------------------------------------------------------------------

// The shapes must be equal except along axis.
static zl_array take_along(zl_array a, zl_array indices, int64_t axis) {
    return op_dense(&op_take_along, 2, (zl_array[]){a, indices}, 1, &axis, (zl_dtype)a->dtype, indices->ndim,
                    indices->dim);
}

static bool record_take(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = zl_take_along_axis(in[0], in[1], (int)call_args(c)[0]));
}

static zl_array vjp_take(const struct call *c, int input, const zl_array *cotangent) {
    (void)input;
    return zl_scatter_add_axis(op_zeros_of(c->in[0]), c->in[1], cotangent[0], (int)call_args(c)[0]);
}

static bool jvp_take(const struct call *c, const zl_array *tangent, zl_array *out) {
    out[0] = NULL;
    return !tangent[0] || (out[0] = take_along(tangent[0], c->in[1], call_args(c)[0]));
}

static bool vmap_take(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                      int *out_axis) {
    out_axis[0] = op_batch_size(2, in, axis) < 0 ? -1 : 0;
    if (out_axis[0] < 0)
        return record_take(c, in, out);
    return (out[0] = zl_take_along_axis(op_batch_any(in[0], axis[0]), op_batch_any(in[1], axis[1]),
                                        (int)call_args(c)[0] + 1));
}

static bool fits_take_along(const struct call *c, const zl_array *in) {
    return op_has(c, 2, 1) && op_is_axis(in[0], call_args(c)[0]) && op_are_indices(1, in + 1) &&
           op_same_but_along(in[0], in[1], call_args(c)[0]);
}

static const struct op_field take_field[] = {{"axis", FIELD_INT}};
const struct op op_take_along = {
    .name = "take_along_axis",
    .kind = OP_OTHER,
    .fields = 1,
    .field = take_field,
    .record = record_take,
    .fits = fits_take_along,
    .positions = {1, 1},
    .vjp = vjp_take,
    .jvp = jvp_take,
    .vmap = vmap_take,
};

static zl_array check_and_take(const char *function, zl_array a, zl_array indices, int axis) {
    int at = check_axis(function, a, indices, axis);
    zl_array both[] = {a, indices};
    if (at < 0 || !broadcast_others(function, 2, both, at))
        return NULL;
    if (a->dim[at] == 0 && both[1]->size > 0)
        return error_set(ZL_ERROR_SHAPE, "%s: nothing can be taken from axis %d of shape %s", function, axis,
                         array_text(a));
    return take_along(both[0], both[1], at);
}

zl_array zl_take_along_axis(zl_array a, zl_array indices, int axis) {
    return check_and_take("zl_take_along_axis", a, indices, axis);
}
OP_SIGNATURE(zl_take_along_axis, "index",
             "The elements of a at positions along an axis that are given for each place of the other axes: "
             "a and indices are broadcast against each other but along that axis. Negative positions count "
             "from the end; of those out of range the nearest is taken.",
             P_ARRAY(a), P_ARRAY(indices), P_INT(axis, "-1"));

zl_array zl_take_along_axis_flat(zl_array a, zl_array indices) {
    return check_and_take("zl_take_along_axis_flat", zl_flatten(a, 0, -1), indices, 0);
}
OP_SIGNATURE(zl_take_along_axis_flat, "index",
             "The elements of a, flattened, at the positions of indices, which has one axis.", P_ARRAY(a),
             P_ARRAY(indices));

// put_along_axis, scatter_add_axis --------------------------------------------------------------------------

// arg: axis, enum update. Indices and values have the same shape, which is that of a except along axis.
static zl_array put_along(zl_array a, zl_array indices, zl_array values, const int64_t *arg) {
    if (indices->size == 0)
        return op_same(a);
    return op_dense(&op_put_along, 3, (zl_array[]){a, indices, values}, 2, arg, (zl_dtype)a->dtype, a->ndim,
                    a->dim);
}

static bool record_put(const struct call *c, const zl_array *in, zl_array *out) {
    int axis = (int)call_args(c)[0];
    return (out[0] = call_args(c)[1] == UPDATE_ADD ? zl_scatter_add_axis(in[0], in[1], in[2], axis)
                                                   : zl_put_along_axis(in[0], in[1], in[2], axis));
}

static zl_array vjp_put(const struct call *c, int input, const zl_array *cotangent) {
    const int64_t *arg = call_args(c);
    if (input == 2)
        return take_along(cotangent[0], c->in[1], arg[0]);
    if (arg[1] == UPDATE_ADD)
        return cotangent[0];
    zl_array zeros = op_zeros_of(c->in[2]);
    return zeros ? put_along(cotangent[0], c->in[1], zeros, arg) : NULL;
}

static bool jvp_put(const struct call *c, const zl_array *tangent, zl_array *out) {
    out[0] = NULL;
    if (!tangent[0] && !tangent[2])
        return true;
    zl_array a = tangent[0] ? tangent[0] : op_zeros_of(c->in[0]);
    zl_array values = tangent[2] ? tangent[2] : op_zeros_of(c->in[2]);
    return a && values && (out[0] = put_along(a, c->in[1], values, call_args(c)));
}

static bool vmap_put(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                     int *out_axis) {
    out_axis[0] = op_batch_size(3, in, axis) < 0 ? -1 : 0;
    if (out_axis[0] < 0)
        return record_put(c, in, out);
    zl_array a = op_batch_any(in[0], axis[0]), indices = op_batch_any(in[1], axis[1]);
    zl_array values = op_batch_any(in[2], axis[2]);
    int along = (int)call_args(c)[0] + 1;
    return (out[0] = call_args(c)[1] == UPDATE_ADD ? zl_scatter_add_axis(a, indices, values, along)
                                                   : zl_put_along_axis(a, indices, values, along));
}

static bool fits_put_along(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    return op_has(c, 3, 2) && op_is_axis(in[0], arg[0]) && (arg[1] == UPDATE_SET || arg[1] == UPDATE_ADD) &&
           op_are_indices(1, in + 1) && op_same_but_along(in[0], in[1], arg[0]) &&
           op_same_shape(in[1], in[2]) && in[2]->dtype == in[0]->dtype;
}

static const struct op_field put_field[] = {{"axis", FIELD_INT}, {"how", FIELD_INT}};
const struct op op_put_along = {
    .name = "put_along_axis",
    .kind = OP_OTHER,
    .fields = 2,
    .field = put_field,
    .record = record_put,
    .fits = fits_put_along,
    .positions = {1, 1},
    .vjp = vjp_put,
    .jvp = jvp_put,
    .vmap = vmap_put,
};

// Removes leading axes of size 1 until values has at most ndim axes.
static zl_array fit_rank(zl_array values, int ndim) {
    while (values && values->ndim > ndim)
        values = zl_squeeze(values, ZL_AXES(0));
    return values;
}

static zl_array check_and_put(const char *function, enum update how, zl_array a, zl_array indices,
                              zl_array values, int axis) {
    int at = values ? check_axis(function, a, indices, axis) : -1;
    if (at < 0)
        return NULL;
    for (int i = 0; i < values->ndim - indices->ndim; i++)
        if (values->dim[i] != 1)
            return error_set(ZL_ERROR_SHAPE, "%s: values of shape %s do not fit indices of shape %s",
                             function, array_text(values), array_text(indices));
    zl_array pair[] = {indices, fit_rank(zl_astype(values, (zl_dtype)a->dtype), indices->ndim)}, all[3];
    if (!op_broadcast(function, 2, pair, all + 1))
        return NULL;
    all[0] = a;
    return broadcast_others(function, 3, all, at) ? put_along(all[0], all[1], all[2], (int64_t[]){at, how})
                                                  : NULL;
}

zl_array zl_put_along_axis(zl_array a, zl_array indices, zl_array values, int axis) {
    return check_and_put("zl_put_along_axis", UPDATE_SET, a, indices, values, axis);
}
OP_SIGNATURE(zl_put_along_axis, "index",
             "a with the elements at positions along an axis, given for each place of the other axes, "
             "replaced by values, which are broadcast to the indices. Negative positions count from the end; "
             "those out of range are left out; of two values for one element the later stays.",
             P_ARRAY(a), P_ARRAY(indices), P_ARRAY(values), P_INT(axis, NULL));

static bool again_put_along_axis_flat(const union op_value *v, zl_array *out) {
    return (out[0] = zl_put_along_axis_flat(v[0].array, v[1].array, v[2].array));
}

zl_array zl_put_along_axis_flat(zl_array a, zl_array indices, zl_array values) {
    zl_array again;
    if (op_again(&again, "zl_put_along_axis_flat", again_put_along_axis_flat, a, indices, values))
        return again;
    if (a && values && indices && indices->size == 0)
        return op_same(a); // whatever dtype the values have
    zl_array y =
        check_and_put("zl_put_along_axis_flat", UPDATE_SET, zl_flatten(a, 0, -1), indices, values, 0);
    return y ? zl_reshape(y, (zl_shape){a->dim, a->ndim}) : NULL;
}
OP_SIGNATURE(zl_put_along_axis_flat, "index",
             "a with its elements at positions in the flattened array replaced by values; indices has one "
             "axis.",
             P_ARRAY(a), P_ARRAY(indices), P_ARRAY(values));

zl_array zl_scatter_add_axis(zl_array a, zl_array indices, zl_array values, int axis) {
    return check_and_put("zl_scatter_add_axis", UPDATE_ADD, a, indices, values, axis);
}
OP_SIGNATURE(zl_scatter_add_axis, "index",
             "a with values added to the elements at positions along an axis, one after the other; else as "
             "zl_put_along_axis.",
             P_ARRAY(a), P_ARRAY(indices), P_ARRAY(values), P_INT(axis, NULL));
