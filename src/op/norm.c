// norm.c - norms of vectors and matrices, and products of vectors.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/ops.h"

static const char *const function = "zl_linalg_norm";

// Returns |a| as floats. Integers are converted first, because the smallest integer has no positive
// counterpart.
static zl_array sizes(zl_array a) {
    return zl_abs(zl_astype(a, op_float_dtype((zl_dtype)a->dtype)));
}

static zl_array lengths(zl_array a, zl_axes axes, bool keepdims) {
    zl_array x = a->dtype == ZL_COMPLEX64 ? zl_abs(a) : zl_astype(a, op_float_dtype((zl_dtype)a->dtype));
    return zl_sqrt(op_reduce_axes(function, REDUCE_SUM, zl_square(x), axes, keepdims));
}

static zl_array vector_norm(zl_array a, double ord, zl_axes axes, bool keepdims) {
    if (ord == 2)
        return lengths(a, axes, keepdims);
    zl_array size = sizes(a);
    if (!size)
        return NULL;
    zl_dtype dtype = (zl_dtype)size->dtype;
    if (ord == 0)
        return zl_astype(
            op_reduce_axes(function, REDUCE_SUM, zl_not_equal(a, zl_scalar_int(0)), axes, keepdims), dtype);
    if (isinf(ord))
        return op_reduce_axes(function, ord > 0 ? REDUCE_MAX : REDUCE_MIN, size, axes, keepdims);
    if (ord == 1)
        return op_reduce_axes(function, REDUCE_SUM, size, axes, keepdims);
    zl_array sum =
        op_reduce_axes(function, REDUCE_SUM, zl_power(size, op_number(dtype, ord)), axes, keepdims);
    return zl_power(sum, op_number(dtype, 1 / ord));
}

// Returns the singular values, as the last axis in place of the two axes.
static zl_array singular_values(zl_array a, const int64_t *axis) {
    int rows = (int)axis[0], cols = (int)axis[1];
    zl_array x = rows > cols ? zl_moveaxis(zl_moveaxis(a, rows, -1), cols, -1)
                             : zl_moveaxis(zl_moveaxis(a, cols, -1), rows, -2);
    zl_array values;
    if (!x || !op_check_matrix(function, x, false, true) || !zl_linalg_svd(x, false, &values))
        return NULL;
    return values;
}

static zl_array reduce_values(zl_array a, enum reduce which, const int64_t *axis, bool keepdims) {
    zl_array y = op_reduce_axes(function, which, singular_values(a, axis), ZL_AXES(-1), false);
    return y && keepdims ? zl_expand_dims(y, ZL_AXES((int)axis[0], (int)axis[1])) : y;
}

// Returns the largest, or smallest, of the sums along one axis.
static zl_array extreme_sum(zl_array a, bool largest, int summed, int other, bool keepdims) {
    zl_array sums = op_reduce_axes(function, REDUCE_SUM, sizes(a), ZL_AXES(summed), true);
    zl_array y = op_reduce_axes(function, largest ? REDUCE_MAX : REDUCE_MIN, sums, ZL_AXES(other), true);
    return y && !keepdims ? zl_squeeze(y, ZL_AXES(summed, other)) : y;
}

static zl_array matrix_norm(zl_array a, double ord, const int64_t *axis, bool keepdims) {
    if (isinf(ord))
        return extreme_sum(a, ord > 0, (int)axis[1], (int)axis[0], keepdims);
    if (ord == 1 || ord == -1)
        return extreme_sum(a, ord > 0, (int)axis[0], (int)axis[1], keepdims);
    if (ord == 2 || ord == -2)
        return reduce_values(a, ord > 0 ? REDUCE_MAX : REDUCE_MIN, axis, keepdims);
    return error_set(ZL_ERROR_VALUE, "%s: order %g of a matrix: 1, -1, 2, -2, inf and -inf are possible",
                     function, ord);
}

// Reads ord: a number into *number, or one of the names of matrix norms.
static bool read_order(const char *ord, double *number, bool *is_name) {
    char *end;
    *number = strtod(ord, &end);
    *is_name = end == ord || *end;
    bool known = !strcmp(ord, "f") || !strcmp(ord, "fro") || !strcmp(ord, "nuc");
    return !*is_name || known ||
           error_false(ZL_ERROR_VALUE, "%s: order '%s': a number, 'fro' or 'nuc' is needed", function, ord);
}

static zl_array norm_of_order(zl_array a, const char *ord, const int64_t *axis, int count, bool keepdims) {
    double number;
    bool is_name;
    if (!read_order(ord, &number, &is_name))
        return NULL;
    if (is_name && count != 2)
        return error_set(ZL_ERROR_VALUE, "%s: '%s' over %d axes: two are needed, those of matrices", function,
                         ord, count);
    if (count != 1 && count != 2)
        return error_set(ZL_ERROR_VALUE, "%s: order %s over %d axes: one or two are possible", function, ord,
                         count);
    if (!is_name && count == 1)
        return vector_norm(a, number, ZL_AXES((int)axis[0]), keepdims);
    if (!is_name)
        return matrix_norm(a, number, axis, keepdims);
    return *ord == 'n' ? reduce_values(a, REDUCE_SUM, axis, keepdims)
                       : lengths(a, ZL_AXES((int)axis[0], (int)axis[1]), keepdims);
}

static zl_array norm(zl_array a, const char *ord, zl_axes axis, bool keepdims) {
    int count = axis.count < 0 ? a->ndim : axis.count;
    OP_TEMP(int64_t, list, count);
    if (!list || (axis.count >= 0 && !op_read_axes(function, a, axis, list)))
        return NULL;
    for (int i = 0; axis.count < 0 && i < count; i++)
        list[i] = i;
    if (ord)
        return norm_of_order(a, ord, list, count, keepdims);
    if (axis.count > 2)
        return error_set(ZL_ERROR_VALUE, "%s: %d axes: one or two are possible, or all", function,
                         axis.count);
    return lengths(a, axis, keepdims);
}

zl_array zl_linalg_norm(zl_array a, const char *ord, zl_axes axis, bool keepdims) {
    if (!a)
        return NULL;
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, norm(a, ord, axis, keepdims));
}
OP_SIGNATURE(zl_linalg_norm, "linalg",
             "A norm of vectors along one axis, or of matrices in two: of order ord, a number such as \"1\" "
             "or \"-inf\", "
             "for matrices also \"fro\" and \"nuc\". NULL: the root of the sum of all squares. The axes stay "
             "with size 1 "
             "if keepdims.",
             P_ARRAY(a), P_STRING(ord, "None"), P_AXES(axis, "None"), P_BOOL(keepdims, "False"));

// cross -----------------------------------------------------------------------------------------------------

// Writes the three components of x along its axis, each with size 1 there. If there are two, the third is
// NULL and stands for 0.
static bool components(zl_array x, int axis, zl_array *out) {
    int at = x ? shape_axis("zl_linalg_cross", axis, x->ndim) : -1;
    if (at < 0)
        return false;
    if (x->dim[at] != 2 && x->dim[at] != 3)
        return error_false(ZL_ERROR_SHAPE, "zl_linalg_cross: axis %d of shape %s: 2 or 3 elements are needed",
                           axis, array_text(x));
    out[2] = NULL;
    return zl_split(x, (int)x->dim[at], axis, out);
}

// Returns a * b - c * d, where NULL is 0.
static zl_array difference(zl_array a, zl_array b, zl_array c, zl_array d, zl_array zero) {
    zl_array first = a && b ? zl_multiply(a, b) : NULL, second = c && d ? zl_multiply(c, d) : NULL;
    if (first && second)
        return zl_subtract(first, second);
    return first ? first : second ? zl_negative(second) : zero;
}

static zl_array cross(zl_array a, zl_array b, int axis) {
    zl_dtype dtype = dtype_common(2, (zl_array[]){a, b});
    zl_array x[3], y[3], out[3];
    if (!components(zl_astype(a, dtype), axis, x) || !components(zl_astype(b, dtype), axis, y) ||
        !op_check_broadcast("zl_linalg_cross", x[0], y[0]))
        return NULL;
    if (dtype == ZL_BOOL && !x[2] != !y[2])
        return error_set(
            ZL_ERROR_DTYPE,
            "zl_linalg_cross: 2 elements by 3 need a negative, which bool has not; numbers have");
    zl_array last = difference(x[0], y[1], x[1], y[0], NULL);
    zl_array zero = last ? op_zeros_of(last) : NULL;
    for (int i = 0; i < 3 && zero; i++)
        out[i] = i == 2 ? last
                        : difference(x[(i + 1) % 3], y[(i + 2) % 3], x[(i + 2) % 3], y[(i + 1) % 3], zero);
    // The axis is counted in a and b, which may have fewer axes than the result.
    if (axis >= 0 && zero)
        axis += zero->ndim - MAX_OF(a->ndim, b->ndim);
    return zero ? zl_concatenate(out, 3, axis) : NULL;
}

zl_array zl_linalg_cross(zl_array a, zl_array b, int axis) {
    if (!a || !b)
        return NULL;
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, cross(a, b, axis));
}
OP_SIGNATURE(zl_linalg_cross, "linalg",
             "The cross product of vectors of 3 elements along an axis; of 2, the third is 0. The other axes "
             "broadcast.",
             P_ARRAY(a), P_ARRAY(b), P_INT(axis, "-1"));
