// diagonal.c - diagonals of matrices, and grids of coordinates.

#include <stdlib.h>
#include <string.h>

#include "op/ops.h"

// Checks that a has two different axes of these numbers, and writes them to out as non-negative numbers.
static bool check_axes(const char *function, zl_array a, int axis1, int axis2, int *out) {
    if (!a)
        return false;
    if (a->ndim < 2)
        return error_false(ZL_ERROR_SHAPE, "%s: shape %s has no diagonal: two axes are needed", function,
                           array_text(a));
    out[0] = shape_axis(function, axis1, a->ndim);
    out[1] = out[0] < 0 ? -1 : shape_axis(function, axis2, a->ndim);
    if (out[1] < 0)
        return false;
    return out[0] != out[1] ||
           error_false(ZL_ERROR_AXIS, "%s: axis %d is given twice: two are needed", function, axis1);
}

// Returns the elements of a at (first + i, second + i) of two axes, for i below count, as the last axis.
static zl_array along(zl_array a, const int *axis, int64_t first, int64_t second, int64_t count) {
    OP_TEMP(int64_t, size, a->ndim);
    if (!size)
        return NULL;
    for (int i = 0; i < a->ndim; i++)
        size[i] = i == axis[0] || i == axis[1] ? MIN_OF(1, a->dim[i]) : a->dim[i];
    zl_array index[] = {zl_arange_int(first, first + count, 1, ZL_INT64),
                        zl_arange_int(second, second + count, 1, ZL_INT64)};
    zl_array y = zl_gather(a, index, 2, (zl_axes){axis, 2}, (zl_shape){size, a->ndim});
    y = count ? zl_squeeze(y, ZL_AXES(axis[0] + 1, axis[1] + 1)) : y;
    return zl_moveaxis(y, 0, -1);
}

static bool again_diagonal(const union op_value *v, zl_array *out) {
    return (out[0] = zl_diagonal(v[0].array, v[1].number, v[2].number, v[3].number));
}

// The diagonal is as long as the part of the shorter axis after its first element.
static zl_array diagonal(const char *function, zl_array a, int64_t offset, int axis1, int axis2) {
    int axis[2];
    zl_array y;
    if (op_again(&y, "zl_diagonal", again_diagonal, a, (int)offset, axis1, axis2))
        return y;
    if (!check_axes(function, a, axis1, axis2, axis))
        return NULL;
    int64_t first = MAX_OF(-offset, 0), second = MAX_OF(offset, 0);
    int64_t count = MIN_OF(a->dim[axis[0]] - first, a->dim[axis[1]] - second);
    if (count > 0)
        return along(a, axis, first, second, count);
    OP_TEMP(int64_t, dim, a->ndim);
    if (!dim)
        return NULL;
    int ndim = 0;
    for (int i = 0; i < a->ndim; i++)
        if (i != axis[0] && i != axis[1])
            dim[ndim++] = a->dim[i];
    dim[ndim++] = 0;
    return zl_zeros((zl_shape){dim, ndim}, (zl_dtype)a->dtype);
}

zl_array zl_diagonal(zl_array a, int offset, int axis1, int axis2) {
    return diagonal("zl_diagonal", a, offset, axis1, axis2);
}
OP_SIGNATURE(
    zl_diagonal, "index",
    "The diagonal of the matrices that two axes of a span, as the last axis of the result. An offset above 0 "
    "is a diagonal above the main one.",
    P_ARRAY(a), P_INT(offset, "0"), P_INT(axis1, "0"), P_INT(axis2, "1"));

// Returns a square matrix with a on its k-th diagonal.
static zl_array matrix_of(zl_array a, int64_t k) {
    int64_t first = MAX_OF(-k, 0), second = MAX_OF(k, 0), n = a->size + first + second;
    zl_array zeros = zl_zeros(ZL_SHAPE(n, n), (zl_dtype)a->dtype);
    zl_array index[] = {zl_arange_int(first, first + a->size, 1, ZL_INT64),
                        zl_arange_int(second, second + a->size, 1, ZL_INT64)};
    return zl_scatter(zeros, index, 2, zl_reshape(a, ZL_SHAPE(a->size, MIN_OF(n, 1), MIN_OF(n, 1))),
                      ZL_AXES(0, 1));
}

static bool again_diag(const union op_value *v, zl_array *out) {
    return (out[0] = zl_diag(v[0].array, v[1].number));
}

zl_array zl_diag(zl_array a, int k) {
    zl_array y;
    if (op_again(&y, "zl_diag", again_diag, a, k))
        return y;
    if (!a)
        return NULL;
    if (a->ndim == 1 &&
        op_check_size("zl_diag", 2, (int64_t[]){a->size + llabs((int64_t)k), a->size + llabs((int64_t)k)}))
        return matrix_of(a, k);
    if (a->ndim == 2)
        return diagonal("zl_diag", a, k, 0, 1);
    return a->ndim == 1
               ? NULL
               : error_set(ZL_ERROR_SHAPE, "zl_diag: shape %s: one or two axes are needed", array_text(a));
}
OP_SIGNATURE(zl_diag, "index",
             "Of a matrix its k-th diagonal; of a list the square matrix that has it there and zeros "
             "elsewhere. k > 0 is "
             "above the main diagonal.",
             P_ARRAY(a), P_INT(k, "0"));

zl_array zl_trace(zl_array a, int offset, int axis1, int axis2, zl_dtype dtype) {
    if (!a || !op_check_dtype("zl_trace", dtype = op_dtype_or(dtype, (zl_dtype)a->dtype)))
        return NULL;
    zl_array y = zl_astype(diagonal("zl_trace", a, offset, axis1, axis2), dtype);
    return y ? zl_sum_axis(y, -1, false) : NULL;
}
OP_SIGNATURE(zl_trace, "reduce",
             "The sum of a diagonal of the matrices that two axes of a span, in dtype, by default that of a.",
             P_ARRAY(a), P_INT(offset, "0"), P_INT(axis1, "0"), P_INT(axis2, "1"), P_DTYPE(dtype, "None"));

// meshgrid --------------------------------------------------------------------------------------------------

// Reshapes x to `count` axes, all of size 1 except `axis`.
static zl_array stand(zl_array x, int count, int axis) {
    OP_TEMP(int64_t, dim, count);
    for (int i = 0; dim && i < count; i++)
        dim[i] = i == axis ? x->size : 1;
    return dim ? zl_reshape(x, (zl_shape){dim, count}) : NULL;
}

static bool check_grid(const zl_array *arrays, int count) {
    OP_TEMP(int64_t, dim, count);
    for (int i = 0; dim && i < count; i++)
        dim[i] = arrays[i]->size;
    return dim && op_check_size("zl_meshgrid", count, dim);
}

static bool fill_grid(const zl_array *arrays, int count, bool sparse, bool swap, zl_array *out) {
    if (!sparse && !check_grid(arrays, count))
        return false;
    for (int i = 0; i < count; i++)
        if (!(out[i] = stand(arrays[i], count, swap && i < 2 ? 1 - i : i)))
            return false;
    return sparse || op_broadcast("zl_meshgrid", count, out, out);
}

static bool again_meshgrid(const union op_value *v, zl_array *out) {
    return zl_meshgrid(v[0].arrays.list, v[0].arrays.count, v[1].number, v[2].string, out);
}

bool zl_meshgrid(const zl_array *arrays, int count, bool sparse, const char *indexing, zl_array *out) {
    bool ok;
    if (!op_check_inputs("zl_meshgrid", arrays, count) || !op_check_out("zl_meshgrid", count, out))
        return false;
    if (op_again_all(&ok, count, out, "zl_meshgrid", again_meshgrid, arrays, count, sparse, indexing))
        return ok;
    bool swap = indexing && !strcmp(indexing, "xy");
    if (!swap && (!indexing || strcmp(indexing, "ij")))
        return error_false(ZL_ERROR_VALUE, "zl_meshgrid: indexing is \"%s\": \"xy\" or \"ij\" is needed",
                           indexing ? indexing : "NULL");
    ok = fill_grid(arrays, count, sparse, swap && count > 1, out);
    for (int i = 0; !ok && i < count; i++)
        out[i] = NULL;
    return ok;
}
OP_SIGNATURE_BOOL(
    zl_meshgrid, "create",
    "The coordinates of a grid: one array for each of those given, with an axis for each, along one of "
    "which it changes. The first two axes are swapped if indexing is \"xy\", and not if it is \"ij\". "
    "sparse leaves the other axes with size 1.",
    P_ARRAYS(arrays), P_BOOL(sparse, "False"), P_STRING(indexing, "xy"), P_OUTPUT(out));
