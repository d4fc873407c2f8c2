// view.c - views that reorder, remove or add axes: new sizes and strides over the same storage.

#include "op/ops.h"

static const struct op_field axes_field[] = {{"axes", FIELD_LIST}};

// Returns the axes of a call plus one, for arrays with a new first axis.
static void shift_axes(const struct call *c, int64_t *out) {
    for (int i = 0; i < c->args; i++)
        out[i] = call_args(c)[i] + 1;
}

// transpose -------------------------------------------------------------------------------------------------

// axes: a permutation of the axes of x.
static zl_array transpose(zl_array x, const int64_t *axes) {
    OP_TEMP(int64_t, dim, 2 * x->ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < x->ndim; i++) {
        dim[i] = x->dim[axes[i]];
        dim[x->ndim + i] = array_stride(x)[axes[i]];
    }
    return op_view(&op_transpose, x, x->ndim, axes, x->ndim, dim, dim + x->ndim, op_offset(x));
}

static bool record_transpose(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = transpose(in[0], call_args(c)));
}

static zl_array vjp_transpose(const struct call *c, int input, const zl_array *cotangent) {
    (void)input;
    OP_TEMP(int64_t, inverse, c->args);
    if (!inverse)
        return NULL;
    for (int i = 0; i < c->args; i++)
        inverse[call_args(c)[i]] = i;
    return transpose(cotangent[0], inverse);
}

static bool vmap_transpose(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                           int *out_axis) {
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    OP_TEMP(int64_t, axes, c->args + 1);
    zl_array x = op_batch_first(in[0], axis[0]);
    if (!axes || !x)
        return false;
    axes[0] = out_axis[0] = 0;
    shift_axes(c, axes + 1);
    return (out[0] = transpose(x, axes));
}

static bool fits_transpose(const struct call *c, const zl_array *in) {
    return op_has(c, 1, in[0]->ndim) && op_are_axes(in[0]->ndim, c->args, call_args(c), false);
}

const struct op op_transpose = {
    .name = "transpose",
    .kind = OP_VIEW,
    .fields = 1,
    .field = axes_field,
    .record = record_transpose,
    .fits = fits_transpose,
    .vjp = vjp_transpose,
    .jvp = op_jvp_linear,
    .vmap = vmap_transpose,
};

static bool read_permutation(zl_array x, zl_axes axes, int64_t *out) {
    OP_TEMP(int, sorted, x->ndim);
    if (!sorted)
        return false;
    if (axes.count != x->ndim)
        return error_false(ZL_ERROR_AXIS,
                           "zl_transpose: %d axes for an array of shape %s: each of its %d is needed",
                           axes.count, array_text(x), x->ndim);
    if (op_axes("zl_transpose", x, axes, sorted) < 0)
        return false;
    for (int i = 0; i < axes.count; i++)
        out[i] = axes.axis[i] + (axes.axis[i] < 0 ? x->ndim : 0);
    return true;
}

zl_array zl_transpose(zl_array a, zl_axes axes) {
    if (!a)
        return NULL;
    OP_TEMP(int64_t, order, a->ndim);
    if (!order)
        return NULL;
    for (int i = 0; i < a->ndim; i++)
        order[i] = a->ndim - 1 - i;
    if (axes.count >= 0 && !read_permutation(a, axes, order))
        return NULL;
    return transpose(a, order);
}
OP_SIGNATURE(zl_transpose, "view", "a with its axes in the given order, each named once. ZL_ALL: in reverse.",
             P_ARRAY(a), P_AXES(axes, "None"));

zl_array zl_swapaxes(zl_array a, int axis1, int axis2) {
    if (!a)
        return NULL;
    int first = shape_axis("zl_swapaxes", axis1, a->ndim);
    int second = first < 0 ? -1 : shape_axis("zl_swapaxes", axis2, a->ndim);
    OP_TEMP(int64_t, order, a->ndim);
    if (second < 0 || !order)
        return NULL;
    for (int i = 0; i < a->ndim; i++)
        order[i] = i == first ? second : i == second ? first : i;
    return transpose(a, order);
}
OP_SIGNATURE(zl_swapaxes, "view", "a with two of its axes exchanged.", P_ARRAY(a), P_INT(axis1, NULL),
             P_INT(axis2, NULL));

zl_array zl_moveaxis(zl_array a, int source, int destination) {
    if (!a)
        return NULL;
    int from = shape_axis("zl_moveaxis", source, a->ndim);
    int to = from < 0 ? -1 : shape_axis("zl_moveaxis", destination, a->ndim);
    OP_TEMP(int64_t, order, a->ndim);
    if (to < 0 || !order)
        return NULL;
    if (from == to)
        return op_same(a);
    int next = 0;
    for (int i = 0; i < a->ndim; i++) {
        next += next == from;
        order[i] = i == to ? from : next++;
    }
    return transpose(a, order);
}
OP_SIGNATURE(zl_moveaxis, "view", "a with one axis moved to another place; the others keep their order.",
             P_ARRAY(a), P_INT(source, NULL), P_INT(destination, NULL));

zl_array zl_matrix_transpose(zl_array a) {
    if (!a)
        return NULL;
    if (a->ndim < 2)
        return error_set(ZL_ERROR_SHAPE,
                         "zl_matrix_transpose: a of shape %s is no matrix: it needs two axes or more",
                         array_text(a));
    OP_TEMP(int64_t, order, a->ndim);
    for (int i = 0; order && i < a->ndim - 2; i++)
        order[i] = i;
    if (!order)
        return NULL;
    order[a->ndim - 2] = a->ndim - 1;
    order[a->ndim - 1] = a->ndim - 2;
    return transpose(a, order);
}
OP_SIGNATURE(zl_matrix_transpose, "view", "a with its last two axes exchanged.", P_ARRAY(a));

// squeeze and expand_dims -----------------------------------------------------------------------------------

// axes: sorted axes of x, of size 1.
static zl_array squeeze(zl_array x, int count, const int64_t *axes) {
    int ndim = x->ndim - count;
    OP_TEMP(int64_t, dim, 2 * ndim);
    if (!dim)
        return NULL;
    for (int i = 0, next = 0; i < x->ndim; i++) {
        bool drops = next < count && axes[next] == i;
        if (!drops) {
            dim[i - next] = x->dim[i];
            dim[ndim + i - next] = array_stride(x)[i];
        }
        next += drops;
    }
    return op_view(&op_squeeze, x, count, axes, ndim, dim, dim + ndim, op_offset(x));
}

// axes: sorted axes of the result.
static zl_array expand_dims(zl_array x, int count, const int64_t *axes) {
    int ndim = x->ndim + count;
    OP_TEMP(int64_t, dim, 2 * ndim);
    if (!dim)
        return NULL;
    for (int i = 0, next = 0; i < ndim; i++) {
        bool adds = next < count && axes[next] == i;
        dim[i] = adds ? 1 : x->dim[i - next];
        dim[ndim + i] = adds ? 0 : array_stride(x)[i - next];
        next += adds;
    }
    return op_view(&op_expand_dims, x, count, axes, ndim, dim, dim + ndim, op_offset(x));
}

static bool refuse_squeeze(zl_array x, int axis) {
    return error_false(ZL_ERROR_SHAPE,
                       "zl_squeeze: axis %d of shape %s has size %lld: only size 1 can be dropped", axis,
                       array_text(x), (long long)x->dim[axis]);
}

static bool record_squeeze(const struct call *c, const zl_array *in, zl_array *out) {
    for (int i = 0; i < c->args; i++)
        if (in[0]->dim[call_args(c)[i]] != 1)
            return refuse_squeeze(in[0], (int)call_args(c)[i]);
    return (out[0] = squeeze(in[0], c->args, call_args(c)));
}

static bool record_expand_dims(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = expand_dims(in[0], c->args, call_args(c)));
}

static zl_array vjp_squeeze(const struct call *c, int input, const zl_array *cotangent) {
    (void)input;
    return expand_dims(cotangent[0], c->args, call_args(c));
}

static zl_array vjp_expand_dims(const struct call *c, int input, const zl_array *cotangent) {
    (void)input;
    return squeeze(cotangent[0], c->args, call_args(c));
}

static bool vmap_axes(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                      int *out_axis) {
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    OP_TEMP(int64_t, axes, c->args);
    zl_array x = op_batch_first(in[0], axis[0]);
    if (!axes || !x)
        return false;
    out_axis[0] = 0;
    shift_axes(c, axes);
    return (out[0] = c->op == &op_squeeze ? squeeze(x, c->args, axes) : expand_dims(x, c->args, axes));
}

static bool fits_squeeze(const struct call *c, const zl_array *in) {
    if (!op_has(c, 1, c->args) || !op_are_axes(in[0]->ndim, c->args, call_args(c), true))
        return false;
    for (int i = 0; i < c->args; i++)
        if (in[0]->dim[call_args(c)[i]] != 1)
            return false;
    return true;
}

const struct op op_squeeze = {
    .name = "squeeze",
    .kind = OP_VIEW,
    .fields = 1,
    .field = axes_field,
    .record = record_squeeze,
    .fits = fits_squeeze,
    .vjp = vjp_squeeze,
    .jvp = op_jvp_linear,
    .vmap = vmap_axes,
};
static bool fits_expand_dims(const struct call *c, const zl_array *in) {
    return op_has(c, 1, c->args) && in[0]->ndim + c->args <= UINT16_MAX &&
           op_are_axes(in[0]->ndim + c->args, c->args, call_args(c), true);
}

const struct op op_expand_dims = {
    .name = "expand_dims",
    .kind = OP_VIEW,
    .fields = 1,
    .field = axes_field,
    .record = record_expand_dims,
    .fits = fits_expand_dims,
    .vjp = vjp_expand_dims,
    .jvp = op_jvp_linear,
    .vmap = vmap_axes,
};

// Writes those of the axes that have size 1 to out, and returns their number. If the axes were named, all
// must have size 1; returns -1 and an error if not.
static int ones(zl_array x, int count, const int *axis, bool named, int64_t *out) {
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (x->dim[axis[i]] == 1) {
            out[kept++] = axis[i];
        } else if (named) {
            refuse_squeeze(x, axis[i]);
            return -1;
        }
    }
    return kept;
}

zl_array zl_squeeze(zl_array a, zl_axes axis) {
    if (!a)
        return NULL;
    OP_TEMP(int, each, a->ndim);
    OP_TEMP(int64_t, dropped, a->ndim);
    if (!each || !dropped)
        return NULL;
    int count = op_axes("zl_squeeze", a, axis, each);
    count = count < 0 ? -1 : ones(a, count, each, axis.count >= 0, dropped);
    if (count < 0)
        return NULL;
    return count ? squeeze(a, count, dropped) : op_same(a);
}
OP_SIGNATURE(zl_squeeze, "view",
             "a without the given axes, each of size 1. ZL_ALL: without every axis of size 1.", P_ARRAY(a),
             P_AXES(axis, "None"));

// Writes the axes of the result, sorted, to out. Returns false, with an error, if one is out of range or
// given twice.
static bool read_new_axes(zl_axes axes, int ndim, int64_t *out) {
    if (axes.count && !axes.axis)
        return error_false(ZL_ERROR_AXIS, "zl_expand_dims: a list of %d axes is not there", axes.count);
    for (int i = 0; i < axes.count; i++) {
        int64_t axis = shape_axis("zl_expand_dims", axes.axis[i], ndim);
        int at = i;
        if (axis < 0)
            return false;
        for (; at > 0 && out[at - 1] >= axis; at--) {
            if (out[at - 1] == axis)
                return error_false(ZL_ERROR_AXIS, "zl_expand_dims: axis %d is given twice", (int)axis);
            out[at] = out[at - 1];
        }
        out[at] = axis;
    }
    return true;
}

zl_array zl_expand_dims(zl_array a, zl_axes axis) {
    if (!a)
        return NULL;
    if (axis.count < 0)
        return error_set(ZL_ERROR_AXIS, "zl_expand_dims: ZL_ALL: name the axis that the result has more");
    if (axis.count > UINT16_MAX - a->ndim)
        return error_set(ZL_ERROR_SHAPE, "zl_expand_dims: %d axis more than the %d of a are too many",
                         axis.count, a->ndim);
    OP_TEMP(int64_t, added, axis.count);
    if (!added || !read_new_axes(axis, a->ndim + axis.count, added))
        return NULL;
    return axis.count ? expand_dims(a, axis.count, added) : op_same(a);
}
OP_SIGNATURE(zl_expand_dims, "view", "a with new axes of size 1, which are axes of the result.", P_ARRAY(a),
             P_AXES(axis, NULL));

zl_array zl_atleast_1d(zl_array a) {
    return a && a->ndim == 0 ? zl_expand_dims(a, ZL_AXES(0)) : op_same(a);
}
OP_SIGNATURE(zl_atleast_1d, "view", "a, or a scalar a with one axis.", P_ARRAY(a));

zl_array zl_atleast_2d(zl_array a) {
    if (!a || a->ndim >= 2)
        return op_same(a);
    return zl_expand_dims(a, a->ndim ? ZL_AXES(0) : ZL_AXES(0, 1));
}
OP_SIGNATURE(zl_atleast_2d, "view", "a, with new first axes if it has less than two.", P_ARRAY(a));

zl_array zl_atleast_3d(zl_array a) {
    if (!a || a->ndim >= 3)
        return op_same(a);
    return zl_expand_dims(a, a->ndim == 2 ? ZL_AXES(2) : a->ndim ? ZL_AXES(0, 2) : ZL_AXES(0, 1, 2));
}
OP_SIGNATURE(zl_atleast_3d, "view",
             "a, with three axes if it has less: (n,) becomes (1, n, 1), (m, n) (m, n, 1).", P_ARRAY(a));
