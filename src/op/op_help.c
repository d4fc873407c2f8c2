// op_help.c - checks and rules that the families share.

#include "op/ops.h"

bool op_check_size(const char *function, int ndim, const int64_t *dim) {
    int64_t size;
    if (shape_size(ndim, dim, &size) && size <= INT64_MAX / 16)
        return true;
    return error_false(ZL_ERROR_OVERFLOW, "%s: an array of shape %s is too big", function,
                       shape_text(ndim, dim));
}

bool op_check_list(const char *function, zl_shape list) {
    if (list.ndim >= 0 && (list.ndim == 0 || list.dim))
        return true;
    return error_false(ZL_ERROR_VALUE, "%s: a list of %d numbers is not there", function, list.ndim);
}

bool op_check_out(const char *function, int count, zl_array *out) {
    if (!out)
        return error_false(ZL_ERROR_VALUE, "%s: out is NULL: it needs room for the results", function);
    for (int i = 0; i < count; i++)
        out[i] = NULL;
    return true;
}

bool op_check_shape(const char *function, zl_shape shape) {
    if (!op_check_list(function, shape))
        return false;
    for (int i = 0; i < shape.ndim; i++)
        if (shape.dim[i] < 0)
            return error_false(ZL_ERROR_SHAPE, "%s: shape %s has a negative size", function,
                               shape_text(shape.ndim, shape.dim));
    return op_check_size(function, shape.ndim, shape.dim);
}

bool op_check_dtype(const char *function, zl_dtype dtype) {
    if ((unsigned)dtype < ZL_DTYPE_COUNT)
        return true;
    return error_false(ZL_ERROR_DTYPE, "%s: dtype %d: a dtype is 0 to %d", function, (int)dtype,
                       ZL_DTYPE_COUNT - 1);
}

bool op_check_broadcast(const char *function, zl_array a, zl_array b) {
    if (!a || !b)
        return false;
    OP_ROOM(int64_t, dim, MAX_OF(a->ndim, b->ndim));
    if (!dim)
        return false;
    if (shape_broadcast(a->ndim, a->dim, b->ndim, b->dim, dim) >= 0)
        return true;
    return error_false(ZL_ERROR_SHAPE, "%s: shapes %s and %s do not broadcast: sizes must be equal or 1",
                       function, array_text(a), array_text(b));
}

bool op_check_optional(zl_array x) {
    return x || zl_error_which() == ZL_ERROR_NONE;
}

bool op_check_inputs(const char *function, const zl_array *arrays, int count) {
    if (count < 1 || !arrays)
        return error_false(ZL_ERROR_VALUE, "%s: %d arrays: at least one is needed", function,
                           arrays ? count : 0);
    for (int i = 0; i < count; i++)
        if (!arrays[i])
            return false;
    return true;
}

zl_dtype op_float_dtype(zl_dtype dtype) {
    return dtype_is_inexact(dtype) ? dtype : ZL_FLOAT32;
}

zl_dtype op_dtype_or(zl_dtype dtype, zl_dtype other) {
    return dtype == ZL_DTYPE_COUNT ? other : dtype;
}

zl_array op_number(zl_dtype dtype, double value) {
    if (dtype == ZL_COMPLEX64)
        return graph_inline(dtype, (union scalar){.c = {(float)value, 0}}, 0);
    if (dtype_is_inexact(dtype))
        return graph_inline(dtype, (union scalar){.f = value}, 0);
    return graph_inline(dtype, (union scalar){.i = (int64_t)value}, 0);
}

zl_array op_zeros_of(zl_array x) {
    return zl_zeros((zl_shape){x->dim, x->ndim}, (zl_dtype)x->dtype);
}

zl_array op_batch_first(zl_array x, int axis) {
    return zl_moveaxis(x, axis, 0);
}

bool op_jvp_linear(const struct call *c, const zl_array *tangent, zl_array *out) {
    out[0] = NULL;
    return !tangent[0] || c->op->record(c, tangent, out);
}

zl_array op_vjp_zero(const struct call *c, int input, const zl_array *cotangent) {
    (void)c, (void)input, (void)cotangent;
    return NULL;
}

bool op_jvp_zero(const struct call *c, const zl_array *tangent, zl_array *out) {
    (void)tangent;
    for (int i = 0; i < c->outputs; i++)
        out[i] = NULL;
    return true;
}

bool op_vmap_same(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    out_axis[0] = axis[0];
    return c->op->record(c, in, out);
}
