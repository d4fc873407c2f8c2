// tensordot.c - tensor products over given axes, as one matrix product; Kronecker products.

#include <string.h>

#include "op/ops.h"

// Computes the product of `count` sizes. Returns false, with an error, if it is too large.
static bool product(const char *function, int count, const int64_t *dim, int64_t *size) {
    return op_check_size(function, count, dim) && shape_size(count, dim, size);
}

// Writes the axes of x to sum over, in the order given, then the other axes to out. Returns false, with an
// error, if they are invalid.
static bool read_axes(const char *function, zl_array x, zl_axes axes, int *out) {
    OP_TEMP(int, sorted, x->ndim);
    int count = sorted ? op_axes(function, x, axes, sorted) : -1;
    if (count < 0)
        return false;
    for (int i = 0; i < count; i++)
        out[i] = axes.axis[i] + (axes.axis[i] < 0 ? x->ndim : 0);
    for (int i = 0, next = 0, at = count; i < x->ndim; i++) {
        bool summed = next < count && sorted[next] == i;
        if (!summed)
            out[at++] = i;
        next += summed;
    }
    return true;
}

// Returns x as a matrix; the axes to sum over become its columns if `summed_last`, else its rows. axes: from
// read_axes. Writes the sizes of the other axes to `free`.
static zl_array as_matrix(const char *function, zl_array x, int summed, const int *axes, bool summed_last,
                          int64_t *free) {
    int stays = x->ndim - summed;
    int64_t kept, inner;
    OP_TEMP(int, order, x->ndim);
    OP_TEMP(int64_t, dim, summed);
    if (!order || !dim)
        return NULL;
    memcpy(order + (summed_last ? stays : 0), axes, sizeof *order * (size_t)summed);
    memcpy(order + (summed_last ? 0 : summed), axes + summed, sizeof *order * (size_t)stays);
    for (int i = 0; i < summed; i++)
        dim[i] = x->dim[axes[i]];
    for (int i = 0; i < stays; i++)
        free[i] = x->dim[axes[summed + i]];
    if (!product(function, stays, free, &kept) || !product(function, summed, dim, &inner))
        return NULL;
    zl_array y = zl_transpose(x, (zl_axes){order, x->ndim});
    return zl_reshape(y, summed_last ? ZL_SHAPE(kept, inner) : ZL_SHAPE(inner, kept));
}

static bool check_sizes(const char *function, zl_array a, zl_array b, int count, const int *axes_a,
                        const int *axes_b) {
    for (int i = 0; i < count; i++)
        if (a->dim[axes_a[i]] != b->dim[axes_b[i]])
            return error_false(ZL_ERROR_SHAPE,
                               "%s: axis %d of shape %s and axis %d of shape %s differ in size", function,
                               axes_a[i], array_text(a), axes_b[i], array_text(b));
    return true;
}

static zl_array tensordot(const char *function, zl_array a, zl_array b, zl_axes axes_a, zl_axes axes_b) {
    int summed = axes_a.count, ndim = a->ndim + b->ndim - 2 * summed;
    OP_TEMP(int, order_a, a->ndim);
    OP_TEMP(int, order_b, b->ndim);
    if (!order_a || !order_b || !read_axes(function, a, axes_a, order_a) ||
        !read_axes(function, b, axes_b, order_b))
        return NULL;
    OP_TEMP(int64_t, dim, ndim);
    if (!dim || !check_sizes(function, a, b, summed, order_a, order_b))
        return NULL;
    zl_array left = as_matrix(function, a, summed, order_a, true, dim);
    zl_array right = left ? as_matrix(function, b, summed, order_b, false, dim + a->ndim - summed) : NULL;
    if (!right || !op_check_size(function, ndim, dim))
        return NULL;
    return zl_reshape(op_matmul_as(function, left, right), (zl_shape){dim, ndim});
}

static bool again_tensordot_axes(const union op_value *v, zl_array *out) {
    return (out[0] = zl_tensordot_axes(v[0].array, v[1].array, v[2].axes, v[3].axes));
}

zl_array zl_tensordot_axes(zl_array a, zl_array b, zl_axes axes_a, zl_axes axes_b) {
    zl_array again;
    if (op_again(&again, "zl_tensordot_axes", again_tensordot_axes, a, b, axes_a, axes_b))
        return again;
    if (!a || !b)
        return NULL;
    if (axes_a.count != axes_b.count || axes_a.count < 0 || (axes_a.count && (!axes_a.axis || !axes_b.axis)))
        return error_set(ZL_ERROR_AXIS,
                         "zl_tensordot_axes: %d axes of a and %d of b: as many of each must be named",
                         axes_a.count, axes_b.count);
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, tensordot("zl_tensordot_axes", a, b, axes_a, axes_b));
}
OP_SIGNATURE(
    zl_tensordot_axes, "matmul",
    "The sum of products over axes of a and, one for one, of b. The axes that are left are those of a, then "
    "those of b.",
    P_ARRAY(a), P_ARRAY(b), P_AXES(axes_a, NULL), P_AXES(axes_b, NULL));

zl_array zl_tensordot(zl_array a, zl_array b, int axes) {
    if (!a || !b)
        return NULL;
    if (axes < 0 || axes > MIN_OF(a->ndim, b->ndim))
        return error_set(ZL_ERROR_AXIS, "zl_tensordot: %d axes of shapes %s and %s: 0 to %d are possible",
                         axes, array_text(a), array_text(b), MIN_OF(a->ndim, b->ndim));
    OP_TEMP(int, list, 2 * axes);
    if (!list)
        return NULL;
    for (int i = 0; i < axes; i++) {
        list[i] = i - axes;
        list[axes + i] = i;
    }
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(
        s, tensordot("zl_tensordot", a, b, (zl_axes){list, axes}, (zl_axes){list + axes, axes}));
}
OP_SIGNATURE(zl_tensordot, "matmul",
             "The sum of products over the last axes of a and as many first axes of b.", P_ARRAY(a),
             P_ARRAY(b), P_INT(axes, "2"));

// The axis counts from the same end in both arrays.
zl_array zl_vecdot(zl_array a, zl_array b, int axis) {
    if (!a || !b)
        return NULL;
    int at = shape_axis("zl_vecdot", axis, a->ndim),
        other = at < 0 ? -1 : shape_axis("zl_vecdot", axis, b->ndim);
    if (other < 0)
        return NULL;
    if (at != other || a->dim[at] != b->dim[other])
        return error_set(ZL_ERROR_SHAPE,
                         "zl_vecdot: axis %d of shapes %s and %s is not the same axis, of one size", axis,
                         array_text(a), array_text(b));
    if (!op_check_broadcast("zl_vecdot", a, b))
        return NULL;
    zl_scope s = zl_scope_begin();
    zl_array left = a->dtype == ZL_COMPLEX64 ? zl_conjugate(a) : a;
    return zl_scope_leave(s,
                          op_reduce_axes("zl_vecdot", REDUCE_SUM, zl_multiply(left, b), ZL_AXES(at), false));
}
OP_SIGNATURE(zl_vecdot, "matmul",
             "The sum of products of a, conjugated, and b along one axis; the others broadcast.", P_ARRAY(a),
             P_ARRAY(b), P_INT(axis, "-1"));

// Reshapes x so that its sizes are at every other place of dim, from `first` on, with ones at the other
// places.
static zl_array spread(zl_array x, int ndim, int first, int64_t *dim) {
    for (int i = 0; i < 2 * ndim; i++) {
        int axis = i / 2 - (ndim - x->ndim);
        dim[i] = i % 2 == first && axis >= 0 ? x->dim[axis] : 1;
    }
    return zl_reshape(x, (zl_shape){dim, 2 * ndim});
}

static zl_array kron(zl_array a, zl_array b) {
    int ndim = MAX_OF(a->ndim, b->ndim);
    OP_TEMP(int64_t, dim, 3 * ndim);
    if (!dim)
        return NULL;
    int64_t *result = dim + 2 * ndim;
    for (int i = 0; i < ndim; i++) {
        int at_a = i - (ndim - a->ndim), at_b = i - (ndim - b->ndim);
        int64_t pair[] = {at_a < 0 ? 1 : a->dim[at_a], at_b < 0 ? 1 : b->dim[at_b]};
        if (!product("zl_kron", 2, pair, &result[i]))
            return NULL;
    }
    if (!op_check_size("zl_kron", ndim, result))
        return NULL;
    zl_array left = spread(a, ndim, 0, dim), right = spread(b, ndim, 1, dim);
    return zl_reshape(zl_multiply(left, right), (zl_shape){result, ndim});
}

static bool again_kron(const union op_value *v, zl_array *out) {
    return (out[0] = zl_kron(v[0].array, v[1].array));
}

zl_array zl_kron(zl_array a, zl_array b) {
    zl_array y;
    if (op_again(&y, "zl_kron", again_kron, a, b))
        return y;
    if (!a || !b)
        return NULL;
    if (a->size == 0 || b->size == 0)
        return error_set(ZL_ERROR_SHAPE, "zl_kron: one of shapes %s and %s is empty", array_text(a),
                         array_text(b));
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, kron(a, b));
}
OP_SIGNATURE(zl_kron, "matmul",
             "The Kronecker product: b times every element of a, side by side as these are.", P_ARRAY(a),
             P_ARRAY(b));
