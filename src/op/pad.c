// pad.c - arrays with a margin of one value.

#include "op/ops.h"

// arg: number of elements before x along each axis, then after it. value: a scalar of the same dtype.
static zl_array pad(zl_array x, zl_array value, const int64_t *arg) {
    OP_TEMP(int64_t, dim, x->ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < x->ndim; i++)
        dim[i] = x->dim[i] + arg[i] + arg[x->ndim + i];
    if (x->size == 0)
        return zl_full((zl_shape){dim, x->ndim}, value, (zl_dtype)x->dtype);
    return op_dense(&op_pad, 2, (zl_array[]){x, value}, 2 * x->ndim, arg, (zl_dtype)x->dtype, x->ndim, dim);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = pad(in[0], in[1], call_args(c)));
}

// Returns the part of y at the position of x.
static zl_array inside(const struct call *c, zl_array y) {
    int ndim = c->in[0]->ndim;
    OP_TEMP(int64_t, stop, 2 * ndim);
    if (!stop)
        return NULL;
    for (int i = 0; i < ndim; i++) {
        stop[i] = call_args(c)[i] + c->in[0]->dim[i];
        stop[ndim + i] = 1;
    }
    return zl_slice(y, (zl_shape){call_args(c), ndim}, (zl_shape){stop, ndim}, (zl_shape){stop + ndim, ndim});
}

static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    zl_array middle = inside(c, cotangent[0]);
    return input == 0 ? middle : zl_subtract(zl_sum(cotangent[0]), zl_sum(middle));
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    out[0] = NULL;
    if (!tangent[0] && !tangent[1])
        return true;
    zl_array x = tangent[0] ? tangent[0] : op_zeros_of(c->in[0]);
    zl_array value = tangent[1] ? tangent[1] : op_number((zl_dtype)c->in[1]->dtype, 0);
    return x && value && record(c, (zl_array[]){x, value}, out);
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    int ndim = c->in[0]->ndim;
    if (axis[1] >= 0) // as in MLX
        return error_false(ZL_ERROR_VALUE,
                           "zl_pad: a constant value for each of the batch: one for all is needed");
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    OP_TEMP(int64_t, arg, 2 * ndim + 2);
    zl_array x = arg ? op_batch_first(in[0], axis[0]) : NULL;
    if (!x)
        return false;
    out_axis[0] = 0;
    arg[0] = arg[ndim + 1] = 0;
    for (int i = 0; i < ndim; i++) {
        arg[1 + i] = call_args(c)[i];
        arg[ndim + 2 + i] = call_args(c)[ndim + i];
    }
    return (out[0] = pad(x, in[1], arg));
}

static bool fits(const struct call *c, const zl_array *in) {
    zl_array x = in[0];
    int64_t sum, *arg = call_args(c);
    if (!op_has(c, 2, 2 * x->ndim) || in[1]->ndim || in[1]->dtype != x->dtype)
        return false;
    for (int i = 0; i < x->ndim; i++)
        if (arg[i] < 0 || arg[x->ndim + i] < 0 || __builtin_add_overflow(arg[i], arg[x->ndim + i], &sum) ||
            __builtin_add_overflow(sum, x->dim[i], &sum))
            return false;
    return true;
}

static const struct op_field fields[] = {{"low_high", FIELD_LIST}};
const struct op op_pad = {
    .name = "pad",
    .kind = OP_OTHER,
    .fields = 1,
    .field = fields,
    .record = record,
    .fits = fits,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
};

static bool check(zl_array x, zl_shape low, zl_shape high, zl_array value) {
    if (!op_check_list("zl_pad", low) || !op_check_list("zl_pad", high))
        return false;
    if (low.ndim != x->ndim || high.ndim != x->ndim)
        return error_false(ZL_ERROR_SHAPE, "zl_pad: %d low and %d high sizes for shape %s: each needs %d",
                           low.ndim, high.ndim, array_text(x), x->ndim);
    if (value->size != 1)
        return error_false(ZL_ERROR_SHAPE, "zl_pad: a value of shape %s: one number is needed",
                           array_text(value));
    for (int i = 0; i < x->ndim; i++)
        if (low.dim[i] < 0 || high.dim[i] < 0)
            return error_false(ZL_ERROR_VALUE, "zl_pad: low %s and high %s: sizes cannot be negative",
                               shape_text(low.ndim, low.dim), shape_text(high.ndim, high.dim));
    return true;
}

zl_array zl_pad(zl_array a, zl_shape low, zl_shape high, zl_array constant_values) {
    if (!a || !constant_values || !check(a, low, high, constant_values))
        return NULL;
    OP_TEMP(int64_t, arg, 3 * a->ndim);
    if (!arg)
        return NULL;
    int64_t *dim = arg + 2 * a->ndim, added = 0;
    for (int i = 0; i < a->ndim; i++) {
        arg[i] = low.dim[i];
        arg[a->ndim + i] = high.dim[i];
        added |= low.dim[i] | high.dim[i];
        if (__builtin_add_overflow(a->dim[i], low.dim[i], &dim[i]) ||
            __builtin_add_overflow(dim[i], high.dim[i], &dim[i]))
            return error_set(ZL_ERROR_OVERFLOW, "zl_pad: axis %d of shape %s grows past 64 bits", i,
                             array_text(a));
    }
    if (!op_check_size("zl_pad", a->ndim, dim))
        return NULL;
    zl_array value = zl_astype(zl_reshape(constant_values, ZL_SCALAR), (zl_dtype)a->dtype);
    return added && value ? pad(a, value, arg) : value ? op_same(a) : NULL;
}
OP_SIGNATURE(zl_pad, "shape",
             "a with low elements before it and high elements after it along each axis, all equal to "
             "constant_values, which takes the dtype of a.",
             P_ARRAY(a), P_SHAPE(low), P_SHAPE(high), P_ARRAY_OR(constant_values, "0"));
