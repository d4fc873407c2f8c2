// op_help.c - checks and rules that several files of ops share.

#include <float.h>
#include <stdio.h>

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
    OP_TEMP(int64_t, dim, MAX_OF(a->ndim, b->ndim));
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

bool op_check_integers(const char *function, zl_array indices) {
    if (dtype_is_integer((zl_dtype)indices->dtype))
        return true;
    return error_false(ZL_ERROR_DTYPE, "%s: indices are %s: integers are needed", function,
                       zl_dtype_name((zl_dtype)indices->dtype));
}

bool op_check_broadcast_to(const char *function, zl_array x, int ndim, const int64_t *dim) {
    bool fits = x->ndim <= ndim;
    for (int i = 0; fits && i < x->ndim; i++)
        fits = x->dim[i] == 1 || x->dim[i] == dim[ndim - x->ndim + i];
    return fits || error_false(ZL_ERROR_SHAPE, "%s: an update of shape %s does not broadcast to shape %s",
                               function, array_text(x), shape_text(ndim, dim));
}

void op_axes_of(int count, const int64_t *arg, int *out) {
    for (int i = 0; i < count; i++)
        out[i] = (int)arg[i];
}

bool op_read_axes(const char *function, zl_array a, zl_axes axes, int64_t *out) {
    if (axes.count > 0 && !axes.axis)
        return error_false(ZL_ERROR_AXIS, "%s: %d axes, but no list of them", function, axes.count);
    for (int i = 0; i < axes.count; i++) {
        int axis = shape_axis(function, axes.axis[i], a->ndim);
        if (axis < 0)
            return false;
        for (int k = 0; k < i; k++)
            if (out[k] == axis)
                return error_false(ZL_ERROR_AXIS, "%s: axis %d is given twice", function, axis);
        out[i] = axis;
    }
    return true;
}

bool op_check_indices(const char *function, zl_array a, const zl_array *indices, int count, zl_axes axes,
                      zl_array *out, int64_t *out_axes) {
    if (count < 0 || count != axes.count || (count && (!indices || !axes.axis)))
        return error_false(ZL_ERROR_VALUE, "%s: %d arrays of indices for %d axes: one for each is needed",
                           function, indices ? count : 0, axes.axis ? axes.count : 0);
    if (count && !op_check_inputs(function, indices, count))
        return false;
    for (int i = 0; i < count; i++)
        if (!op_check_integers(function, indices[i]))
            return false;
    return op_read_axes(function, a, axes, out_axes) && op_broadcast(function, count, indices, out);
}

zl_dtype op_float_dtype(zl_dtype dtype) {
    return dtype_is_inexact(dtype) ? dtype : ZL_FLOAT32;
}

zl_dtype op_dtype_or(zl_dtype dtype, zl_dtype other) {
    return dtype == ZL_DTYPE_COUNT ? other : dtype;
}

double op_largest(zl_dtype dtype) {
    switch (dtype) {
    case ZL_FLOAT16: return 65504;
    case ZL_BFLOAT16: return 0x1.fep127;
    case ZL_FLOAT64: return DBL_MAX;
    default: return FLT_MAX;
    }
}

zl_array op_number(zl_dtype dtype, double value) {
    if (dtype == ZL_COMPLEX64)
        return graph_inline(dtype, (union scalar){.c = {(float)value, 0}}, 0);
    if (dtype_is_inexact(dtype))
        return graph_inline(dtype, (union scalar){.f = value}, 0);
    int64_t whole;
    dtype_convert(&whole, ZL_INT64, &value, ZL_FLOAT64, 1);
    return graph_inline(dtype, (union scalar){.i = whole}, 0);
}

zl_array op_zeros_of(zl_array x) {
    return zl_zeros_like(x, ZL_DTYPE_COUNT);
}

zl_array op_slice_axis(zl_array x, int axis, int64_t from, int64_t to) {
    enum { MOST = 16 };
    int64_t start[MOST] = {0}, stop[MOST], step[MOST];
    if (!x)
        return NULL;
    for (int i = 0; i < x->ndim; i++) {
        stop[i] = x->dim[i];
        step[i] = 1;
    }
    start[axis] = from;
    stop[axis] = to;
    return zl_slice(x, (zl_shape){start, x->ndim}, (zl_shape){stop, x->ndim}, (zl_shape){step, x->ndim});
}

zl_array op_whole_offsets(zl_array offsets, int64_t time) {
    int64_t n = offsets->dim[0];
    zl_array end = op_number(ZL_INT64, (double)time), zero = op_number(ZL_INT64, 0);
    zl_array inner = op_slice_axis(zl_astype(offsets, ZL_INT64), 0, 1, n - 1);
    if (n > 2)
        inner = zl_cummax(zl_clip(inner, zero, end), 0, false, true);
    zl_array ends[] = {zl_expand_dims(zero, ZL_AXES(0)), inner, zl_expand_dims(end, ZL_AXES(0))};
    return zl_astype(zl_stop_gradient(zl_concatenate(ends, 3, 0)), ZL_INT32);
}

bool op_read_number(const char *function, int count, const zl_array *arrays, int64_t *number) {
    bool is_first = zl_error_which() == ZL_ERROR_NONE;
    if (zl_eval_all(count, arrays)) {
        *number = zl_item_int(arrays[count - 1]);
        return true;
    }
    if (is_first) {
        char why[256];
        zl_error_kind kind = zl_error_which();
        snprintf(why, sizeof why, "%s", zl_error());
        zl_clear_error();
        error_set(kind, "%s: how much it gives was not said, and depends on values: %s", function, why);
    }
    return false;
}

zl_array op_winners(zl_array result, zl_array x, zl_array cotangent) {
    return cotangent ? zl_where(zl_equal(result, x), cotangent, op_number((zl_dtype)cotangent->dtype, 0))
                     : NULL;
}

zl_array op_batch_first(zl_array x, int axis) {
    return zl_moveaxis(x, axis, 0);
}

zl_array op_batch_any(zl_array x, int axis) {
    return axis < 0 ? zl_expand_dims(x, ZL_AXES(0)) : op_batch_first(x, axis);
}

int64_t op_batch_size(int count, const zl_array *in, const int *axis) {
    for (int i = 0; i < count; i++)
        if (axis[i] >= 0)
            return in[i]->dim[axis[i]];
    return -1;
}

zl_array op_batch_repeat(zl_array x, int axis, int64_t batch) {
    if (axis >= 0)
        return op_batch_first(x, axis);
    OP_TEMP(int64_t, dim, x->ndim + 1);
    if (!dim)
        return NULL;
    dim[0] = batch;
    for (int i = 0; i < x->ndim; i++)
        dim[i + 1] = x->dim[i];
    return zl_broadcast_to(x, (zl_shape){dim, x->ndim + 1});
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

bool op_is_position(const struct call *c, int input) {
    struct op_positions p = c->op->positions;
    int last = p.last < 0 ? p.last + c->inputs : p.last;
    return p.first && input >= p.first && input <= last;
}

zl_array op_refuse_positions(const struct call *c) {
    return error_set(
        ZL_ERROR_VALUE,
        "%s: there is no gradient by the positions that it is given: use zl_stop_gradient on them",
        c->op->name);
}

bool op_vmap_same(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    out_axis[0] = axis[0];
    return c->op->record(c, in, out);
}
