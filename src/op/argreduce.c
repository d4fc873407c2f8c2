// argreduce.c - the positions of the smallest and the largest elements.

#include <limits.h>

#include "op/ops.h"

static zl_array locate(zl_array x, bool is_max, int axis) {
    OP_TEMP(int64_t, dim, x->ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < x->ndim; i++)
        dim[i] = i == axis ? 1 : x->dim[i];
    return op_dense(&op_argreduce, 1, &x, 2, (int64_t[]){is_max, axis}, ZL_UINT32, x->ndim, dim);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    int axis = (int)call_args(c)[1];
    if (in[0]->dim[axis] == 0)
        return error_false(ZL_ERROR_SHAPE, "%s: axis %d of shape %s is empty", c->op->name, axis,
                           array_text(in[0]));
    return (out[0] = locate(in[0], call_args(c)[0], axis));
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    zl_array x = op_batch_first(in[0], axis[0]);
    out_axis[0] = 0;
    return (out[0] = x ? locate(x, call_args(c)[0], (int)call_args(c)[1] + 1) : NULL);
}

static bool fits(const struct call *c, const zl_array *in) {
    return op_has(c, 1, 2) && op_is_among(call_args(c)[0], 2) && op_is_axis(in[0], call_args(c)[1]);
}

static const struct op_field fields[] = {{"is_max", FIELD_BOOL}, {"axis", FIELD_INT}};
const struct op op_argreduce = {
    .name = "argreduce",
    .kind = OP_OTHER,
    .fields = 2,
    .field = fields,
    .record = record,
    .fits = fits,
    .vjp = op_vjp_zero,
    .jvp = op_jvp_zero,
    .vmap = vmap,
};

static zl_array argreduce(const char *function, zl_array x, bool is_max, int axis, bool keepdims) {
    int at = x ? shape_axis(function, axis, x->ndim) : -1;
    if (at < 0)
        return NULL;
    if (x->size == 0)
        return error_set(ZL_ERROR_SHAPE, "%s: a of shape %s is empty", function, array_text(x));
    if (x->dim[at] - 1 > UINT32_MAX)
        return error_set(ZL_ERROR_OVERFLOW, "%s: axis %d of shape %s is too long: positions are uint32",
                         function, axis, array_text(x));
    zl_array y = locate(x, is_max, at);
    return keepdims ? y : zl_squeeze(y, ZL_AXES(at));
}

// Without an axis (INT_MIN), reduces all elements; keepdims then keeps every axis, with size 1.
static zl_array argreduce_any(const char *function, zl_array x, bool is_max, int axis, bool keepdims) {
    if (axis != INT_MIN || !x)
        return argreduce(function, x, is_max, axis, keepdims);
    zl_array y = argreduce(function, zl_flatten(x, 0, -1), is_max, 0, false);
    OP_TEMP(int64_t, ones, x->ndim);
    for (int i = 0; ones && i < x->ndim; i++)
        ones[i] = 1;
    return !keepdims ? y : ones ? zl_reshape(y, (zl_shape){ones, x->ndim}) : NULL;
}

zl_array zl_argmin(zl_array a) {
    return argreduce("zl_argmin", zl_flatten(a, 0, -1), false, 0, false);
}
OP_SIGNATURE(zl_argmin, "reduce", "The position of the first smallest element of a, flattened, as uint32.",
             P_ARRAY(a));

zl_array zl_argmin_axis(zl_array a, int axis, bool keepdims) {
    return argreduce_any("zl_argmin_axis", a, false, axis, keepdims);
}
OP_SIGNATURE(zl_argmin_axis, "reduce",
             "The positions of the first smallest elements along one axis, or of all if none is given; axes "
             "stay with size 1 if "
             "keepdims.",
             P_ARRAY(a), P_INT(axis, "None"), P_BOOL(keepdims, "False"));

zl_array zl_argmax(zl_array a) {
    return argreduce("zl_argmax", zl_flatten(a, 0, -1), true, 0, false);
}
OP_SIGNATURE(zl_argmax, "reduce", "The position of the first largest element of a, flattened, as uint32.",
             P_ARRAY(a));

zl_array zl_argmax_axis(zl_array a, int axis, bool keepdims) {
    return argreduce_any("zl_argmax_axis", a, true, axis, keepdims);
}
OP_SIGNATURE(zl_argmax_axis, "reduce",
             "The positions of the first largest elements along one axis, or of all if none is given; axes "
             "stay with size 1 if "
             "keepdims.",
             P_ARRAY(a), P_INT(axis, "None"), P_BOOL(keepdims, "False"));
