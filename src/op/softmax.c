// softmax.c - softmax and logsumexp, composed of other ops so that no intermediate result overflows.
//
// 16-bit floats are exponentiated and summed in f32, and rounded once at the end.

#include "op/ops.h"

static zl_dtype working_dtype(zl_dtype dtype) {
    return dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16 ? ZL_FLOAT32 : op_float_dtype(dtype);
}

// Returns the largest element as a constant to gradients: subtracting it does not change the result.
static zl_array ceiling(const char *function, zl_array x, zl_axes axes) {
    return zl_stop_gradient(op_reduce_axes(function, REDUCE_MAX, x, axes, true));
}

static zl_array softmax(const char *function, zl_array x, zl_axes axes) {
    if (!x)
        return NULL;
    zl_dtype dtype = (zl_dtype)x->dtype, result = op_float_dtype(dtype);
    if (x->size == 0)
        return op_reduce_axes(function, REDUCE_SUM, x, axes, true) ? zl_astype(x, result) : NULL;
    x = zl_astype(x, working_dtype(dtype));
    zl_array e = zl_exp(zl_subtract(x, ceiling(function, x, axes)));
    return zl_astype(zl_divide(e, op_reduce_axes(function, REDUCE_SUM, e, axes, true)), result);
}

zl_array zl_softmax(zl_array a, int axis, bool precise) {
    (void)precise;
    return softmax("zl_softmax", a, ZL_AXES(axis));
}
OP_SIGNATURE(
    zl_softmax, "reduce",
    "exp(a) divided by its sum along one axis, without overflow; of integers, as float32. It is always "
    "precise: 16-bit floats are summed in float32.",
    P_ARRAY(a), P_INT(axis, "-1"), P_BOOL(precise, "False"));

zl_array zl_softmax_axes(zl_array a, zl_axes axis, bool precise) {
    (void)precise;
    return softmax("zl_softmax_axes", a, axis);
}
OP_SIGNATURE(zl_softmax_axes, "reduce",
             "exp(a) divided by its sum over the axes, without overflow. It is "
             "always precise: 16-bit floats are summed in float32.",
             P_ARRAY(a), P_AXES(axis, "None"), P_BOOL(precise, "False"));

static zl_array logsumexp(const char *function, zl_array x, zl_axes axes, bool keepdims) {
    if (!x)
        return NULL;
    zl_dtype result = op_float_dtype((zl_dtype)x->dtype);
    if (x->size == 0)
        return error_set(ZL_ERROR_SHAPE, "%s: a of shape %s is empty", function, array_text(x));
    x = zl_astype(x, working_dtype((zl_dtype)x->dtype));
    zl_array top = ceiling(function, x, axes);
    zl_array sum = op_reduce_axes(function, REDUCE_SUM, zl_exp(zl_subtract(x, top)), axes, true);
    zl_array y = zl_add(zl_log(sum), top);
    y = zl_astype(zl_where(zl_isinf(top), top, y), result); // infinity minus infinity would be NaN
    return keepdims || !y ? y : zl_squeeze(y, axes.count < 0 ? ZL_ALL : axes);
}

zl_array zl_logsumexp(zl_array a) {
    return logsumexp("zl_logsumexp", a, ZL_ALL, false);
}
OP_SIGNATURE(zl_logsumexp, "reduce", "log(sum(exp(a))) of all elements, without overflow.", P_ARRAY(a));

zl_array zl_logsumexp_axis(zl_array a, int axis, bool keepdims) {
    return logsumexp("zl_logsumexp_axis", a, ZL_AXES(axis), keepdims);
}
OP_SIGNATURE(zl_logsumexp_axis, "reduce",
             "log(sum(exp(a))) along one axis, which stays with size 1 if keepdims.", P_ARRAY(a),
             P_INT(axis, NULL), P_BOOL(keepdims, "False"));

zl_array zl_logsumexp_axes(zl_array a, zl_axes axis, bool keepdims) {
    return logsumexp("zl_logsumexp_axes", a, axis, keepdims);
}
OP_SIGNATURE(zl_logsumexp_axes, "reduce",
             "log(sum(exp(a))) over the axes, which stay with size 1 if keepdims.", P_ARRAY(a),
             P_AXES(axis, "None"), P_BOOL(keepdims, "False"));
