// statistics.c - mean, variance, standard deviation and counts, composed of reductions.

#include "op/ops.h"

// Returns the number of elements of x along the axes, minus `less`, or one divided by that: a number to
// multiply a sum by. Returns NULL, with an error, for axes that x does not have.
static zl_array elements(const char *function, zl_array x, zl_axes axes, int less, bool inverse) {
    OP_TEMP(int, axis, x->ndim);
    int count = axis ? op_axes(function, x, axes, axis) : -1;
    return count < 0 ? NULL : op_count(x, op_float_dtype((zl_dtype)x->dtype), count, axis, less, inverse);
}

// Casts x to a dtype whose sums do not overflow: int64 for integers of up to 32 bits, float64 for those of 64
// bits. Bools are counted in 32 bits, unless there are too many.
static zl_array to_sum(zl_array x) {
    zl_dtype dtype = (zl_dtype)x->dtype;
    if (dtype_is_inexact(dtype) || (dtype == ZL_BOOL && x->size <= INT32_MAX))
        return x;
    return zl_astype(x, zl_dtype_size(dtype) == 8 ? ZL_FLOAT64 : ZL_INT64);
}

// Multiplies by 1 / n, as MLX does: the mean of no elements is 0 times infinity, NaN.
static zl_array mean(const char *function, zl_array x, zl_axes axes, bool keepdims) {
    zl_array share = x ? elements(function, x, axes, 0, true) : NULL;
    if (!share)
        return NULL;
    zl_array sum = op_reduce_axes(function, REDUCE_SUM, to_sum(x), axes, keepdims);
    return zl_multiply(zl_astype(sum, op_float_dtype((zl_dtype)x->dtype)), share);
}

zl_array zl_mean(zl_array a) {
    return mean("zl_mean", a, ZL_ALL, false);
}
OP_SIGNATURE(zl_mean, "reduce", "The mean of the elements of a; of integers, as float32.", P_ARRAY(a));

zl_array zl_mean_axis(zl_array a, int axis, bool keepdims) {
    return mean("zl_mean_axis", a, ZL_AXES(axis), keepdims);
}
OP_SIGNATURE(zl_mean_axis, "reduce", "The mean of a along one axis, which stays with size 1 if keepdims.",
             P_ARRAY(a), P_INT(axis, NULL), P_BOOL(keepdims, "False"));

zl_array zl_mean_axes(zl_array a, zl_axes axis, bool keepdims) {
    return mean("zl_mean_axes", a, axis, keepdims);
}
OP_SIGNATURE(zl_mean_axes, "reduce", "The mean of a over the axes, which stay with size 1 if keepdims.",
             P_ARRAY(a), P_AXES(axis, "None"), P_BOOL(keepdims, "False"));

// Returns the squared distance from the mean, for complex numbers that of the modulus.
static zl_array squares(zl_array x, zl_array mu) {
    zl_array d = zl_subtract(x, mu);
    return x->dtype == ZL_COMPLEX64 ? zl_real(zl_multiply(d, zl_conjugate(d))) : zl_square(d);
}

static zl_array variance(const char *function, zl_array x, zl_axes axes, bool keepdims, int ddof) {
    zl_array mu = mean(function, x, axes, true);
    if (!mu)
        return NULL;
    zl_array part = squares(x, mu);
    zl_array sum = op_reduce_axes(function, REDUCE_SUM, part, axes, keepdims);
    zl_array total = part ? elements(function, part, axes, ddof, ddof == 0) : NULL;
    return ddof == 0 ? zl_multiply(sum, total) : zl_divide(sum, total);
}

zl_array zl_var(zl_array a, int ddof) {
    return variance("zl_var", a, ZL_ALL, false, ddof);
}
OP_SIGNATURE(zl_var, "reduce",
             "The variance of the elements of a: the sum of squares divided by their number less ddof.",
             P_ARRAY(a), P_INT(ddof, "0"));

zl_array zl_var_axis(zl_array a, int axis, bool keepdims, int ddof) {
    return variance("zl_var_axis", a, ZL_AXES(axis), keepdims, ddof);
}
OP_SIGNATURE(zl_var_axis, "reduce", "The variance of a along one axis, which stays with size 1 if keepdims.",
             P_ARRAY(a), P_INT(axis, NULL), P_BOOL(keepdims, "False"), P_INT(ddof, "0"));

zl_array zl_var_axes(zl_array a, zl_axes axis, bool keepdims, int ddof) {
    return variance("zl_var_axes", a, axis, keepdims, ddof);
}
OP_SIGNATURE(zl_var_axes, "reduce", "The variance of a over the axes, which stay with size 1 if keepdims.",
             P_ARRAY(a), P_AXES(axis, "None"), P_BOOL(keepdims, "False"), P_INT(ddof, "0"));

zl_array zl_std(zl_array a, int ddof) {
    return zl_sqrt(variance("zl_std", a, ZL_ALL, false, ddof));
}
OP_SIGNATURE(zl_std, "reduce", "The standard deviation of the elements of a: the root of zl_var.", P_ARRAY(a),
             P_INT(ddof, "0"));

zl_array zl_std_axis(zl_array a, int axis, bool keepdims, int ddof) {
    return zl_sqrt(variance("zl_std_axis", a, ZL_AXES(axis), keepdims, ddof));
}
OP_SIGNATURE(zl_std_axis, "reduce",
             "The standard deviation of a along one axis, which stays with size 1 if keepdims.", P_ARRAY(a),
             P_INT(axis, NULL), P_BOOL(keepdims, "False"), P_INT(ddof, "0"));

zl_array zl_std_axes(zl_array a, zl_axes axis, bool keepdims, int ddof) {
    return zl_sqrt(variance("zl_std_axes", a, axis, keepdims, ddof));
}
OP_SIGNATURE(zl_std_axes, "reduce",
             "The standard deviation of a over the axes, which stay with size 1 if keepdims.", P_ARRAY(a),
             P_AXES(axis, "None"), P_BOOL(keepdims, "False"), P_INT(ddof, "0"));

static zl_array nonzero(zl_array x) {
    return zl_astype(zl_astype(x, ZL_BOOL), ZL_INT32);
}

zl_array zl_count_nonzero(zl_array a) {
    return op_reduce_axes("zl_count_nonzero", REDUCE_SUM, nonzero(a), ZL_ALL, false);
}
OP_SIGNATURE(zl_count_nonzero, "reduce", "How many elements of a differ from zero, as int32.", P_ARRAY(a));

zl_array zl_count_nonzero_axis(zl_array a, int axis, bool keepdims) {
    return op_reduce_axes("zl_count_nonzero_axis", REDUCE_SUM, nonzero(a), ZL_AXES(axis), keepdims);
}
OP_SIGNATURE(zl_count_nonzero_axis, "reduce", "How many elements along one axis differ from zero, as int32.",
             P_ARRAY(a), P_INT(axis, NULL), P_BOOL(keepdims, "False"));

zl_array zl_count_nonzero_axes(zl_array a, zl_axes axis, bool keepdims) {
    return op_reduce_axes("zl_count_nonzero_axes", REDUCE_SUM, nonzero(a), axis, keepdims);
}
OP_SIGNATURE(zl_count_nonzero_axes, "reduce", "How many elements over the axes differ from zero, as int32.",
             P_ARRAY(a), P_AXES(axis, "None"), P_BOOL(keepdims, "False"));

static bool minmax(const char *function, zl_array x, zl_axes axes, bool keepdims, zl_array *out) {
    if (!op_check_out(function, 2, out))
        return false;
    out[0] = op_reduce_axes(function, REDUCE_MIN, x, axes, keepdims);
    out[1] = out[0] ? op_reduce_axes(function, REDUCE_MAX, x, axes, keepdims) : NULL;
    return out[1] != NULL;
}

bool zl_minmax(zl_array a, zl_array *out) {
    return minmax("zl_minmax", a, ZL_ALL, false, out);
}
OP_SIGNATURE_BOOL(zl_minmax, "reduce", "The smallest and the largest element of a, in out[0] and out[1].",
                  P_ARRAY(a), P_OUTPUTS(out, "2"));

bool zl_minmax_axis(zl_array a, int axis, bool keepdims, zl_array *out) {
    return minmax("zl_minmax_axis", a, ZL_AXES(axis), keepdims, out);
}
OP_SIGNATURE_BOOL(zl_minmax_axis, "reduce", "The smallest and the largest elements of a along one axis.",
                  P_ARRAY(a), P_INT(axis, NULL), P_BOOL(keepdims, "False"), P_OUTPUTS(out, "2"));

bool zl_minmax_axes(zl_array a, zl_axes axis, bool keepdims, zl_array *out) {
    return minmax("zl_minmax_axes", a, axis, keepdims, out);
}
OP_SIGNATURE_BOOL(zl_minmax_axes, "reduce", "The smallest and the largest elements of a over the axes.",
                  P_ARRAY(a), P_AXES(axis, "None"), P_BOOL(keepdims, "False"), P_OUTPUTS(out, "2"));
