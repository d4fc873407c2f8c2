// fast.c - the norms of mlx.core.fast.
//
// They are composed of other ops, so they have derivatives and batching; a device with a faster kernel
// recognises the calls. Sums and exponentials of 16-bit floats are computed in float32.

#include "op/ops.h"

static zl_dtype working_dtype(zl_dtype dtype) {
    return dtype == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
}

static bool check_float(const char *function, zl_dtype dtype) {
    return dtype_is_float(dtype) ||
           error_false(ZL_ERROR_DTYPE, "%s: %s is not possible; floats are", function, zl_dtype_name(dtype));
}

// Norms -----------------------------------------------------------------------------------------------------

// Checks that x has an axis, and that the weight and bias that are given have the size of its last axis.
static bool check_norm(const char *function, zl_array x, int count, const zl_array *given) {
    if (x->ndim == 0)
        return error_false(ZL_ERROR_SHAPE, "%s: x is a scalar: it needs an axis", function);
    for (int i = 0; i < count; i++)
        if (given[i] && (given[i]->ndim != 1 || given[i]->dim[0] != x->dim[x->ndim - 1]))
            return error_false(ZL_ERROR_SHAPE, "%s: a %s of shape %s for x of shape %s: (%lld,) is needed",
                               function, i ? "bias" : "weight", array_text(given[i]), array_text(x),
                               (long long)x->dim[x->ndim - 1]);
    return true;
}

static zl_array mean_last(const char *function, zl_array x) {
    if (!x)
        return NULL;
    zl_array sum = op_reduce_axes(function, REDUCE_SUM, x, ZL_AXES(-1), true);
    return zl_divide(sum, op_count(x, (zl_dtype)x->dtype, 1, (int[]){x->ndim - 1}, 0, false));
}

// Returns x divided by the root of its mean square, in this dtype.
static zl_array divide_by_root(const char *function, zl_array x, double eps, zl_dtype dtype) {
    zl_array mean = mean_last(function, zl_square(x));
    zl_array y = zl_multiply(x, zl_rsqrt(zl_add(mean, zl_scalar(eps))));
    return zl_astype(y, dtype);
}

static zl_array rms_norm(zl_array x, zl_array weight, double eps) {
    const char *function = "zl_fast_rms_norm";
    if (!x || !op_check_optional(weight) || !check_norm(function, x, 1, &weight))
        return NULL;
    zl_dtype dtype = weight ? dtype_common(2, (zl_array[]){x, weight}) : (zl_dtype)x->dtype;
    if (!check_float(function, dtype))
        return NULL;
    zl_array y = divide_by_root(function, zl_astype(x, working_dtype(dtype)), eps, dtype);
    return weight ? zl_multiply(y, zl_astype(weight, dtype)) : y;
}

zl_array zl_fast_rms_norm(zl_array x, zl_array weight, double eps) {
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, rms_norm(x, weight, eps));
}
OP_SIGNATURE(
    zl_fast_rms_norm, "fast",
    "x divided by the root of the mean of its squares along the last axis, with eps added to the mean, times "
    "weight if there is one.",
    P_ARRAY(x), P_NULLABLE(weight), P_DOUBLE(eps, NULL));

static zl_array layer_norm(zl_array x, zl_array weight, zl_array bias, double eps) {
    const char *function = "zl_fast_layer_norm";
    if (!x || !op_check_optional(weight) || !op_check_optional(bias) ||
        !check_norm(function, x, 2, (zl_array[]){weight, bias}))
        return NULL;
    zl_dtype dtype = weight ? dtype_common(bias ? 3 : 2, (zl_array[]){x, weight, bias}) : (zl_dtype)x->dtype;
    if (!check_float(function, dtype))
        return NULL;
    x = zl_astype(x, working_dtype(dtype));
    zl_array y = divide_by_root(function, zl_subtract(x, mean_last(function, x)), eps, dtype);
    y = weight ? zl_multiply(y, zl_astype(weight, dtype)) : y;
    return bias ? zl_add(y, zl_astype(bias, dtype)) : y;
}

zl_array zl_fast_layer_norm(zl_array x, zl_array weight, zl_array bias, double eps) {
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, layer_norm(x, weight, bias, eps));
}
OP_SIGNATURE(
    zl_fast_layer_norm, "fast",
    "x less its mean along the last axis, divided by its standard deviation, with eps added to the variance, "
    "times weight and plus bias if there are such.",
    P_ARRAY(x), P_NULLABLE(weight), P_NULLABLE(bias), P_DOUBLE(eps, NULL));
