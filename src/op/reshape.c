// reshape.c - the same elements with other sizes: views if the strides allow it, else views of a copy.

#include "op/ops.h"

// Returns x with other sizes. If its strides cannot be split that way, x is copied to row-major order first.
static zl_array view_as(const struct op *op, zl_array x, int args, const int64_t *arg, int ndim,
                        const int64_t *dim) {
    OP_TEMP(int64_t, stride, ndim);
    if (!stride)
        return NULL;
    bool splits = x->size > 0 && shape_view(x->ndim, x->dim, array_stride(x), ndim, dim, stride);
    if (!splits) {
        x = zl_contiguous(x, false);
        shape_row_major(ndim, dim, stride);
    }
    return op_view(op, x, args, arg, ndim, dim, stride, x ? op_offset(x) : 0);
}

// Copies the sizes; one that is -1 becomes what remains of `size`. Returns false, with an error, if they do
// not fit.
static bool infer(const char *function, int64_t size, int ndim, const int64_t *given, int64_t *dim) {
    int unknown = -1;
    int64_t known = 1;
    bool fits = true, empty = false; // empty: a size is 0, so there are no elements, however large the others
                                     // are
    for (int i = 0; i < ndim; i++) {
        dim[i] = given[i];
        if (given[i] == -1 && unknown >= 0)
            return error_false(ZL_ERROR_SHAPE, "%s: shape %s: only one size can be -1", function,
                               shape_text(ndim, given));
        if (given[i] == -1)
            unknown = i;
        else if (given[i] < 0)
            return error_false(ZL_ERROR_SHAPE, "%s: shape %s has a negative size", function,
                               shape_text(ndim, given));
        else
            fits = !__builtin_mul_overflow(known, given[i], &known) && fits;
        empty |= given[i] == 0;
    }
    if (empty) {
        known = 0;
        fits = true;
    }
    if (unknown >= 0 && known == 0)
        return error_false(ZL_ERROR_SHAPE, "%s: shape %s: -1 could be any size, as another is 0", function,
                           shape_text(ndim, given));
    if (unknown >= 0 && fits)
        known *= dim[unknown] = size / known;
    if (fits && known == size)
        return true;
    return error_false(ZL_ERROR_SHAPE, "%s: %lld elements do not fit shape %s", function, (long long)size,
                       shape_text(ndim, given));
}

// reshape ---------------------------------------------------------------------------------------------------

static zl_array reshape(zl_array x, int ndim, const int64_t *given) {
    OP_TEMP(int64_t, dim, ndim);
    if (!dim || !infer("zl_reshape", x->size, ndim, given, dim))
        return NULL;
    if (shape_equal(x->ndim, x->dim, ndim, dim))
        return op_same(x);
    return view_as(&op_reshape, x, ndim, given, ndim, dim);
}

static bool record_reshape(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = reshape(in[0], c->args, call_args(c)));
}

static zl_array vjp_reshape(const struct call *c, int input, const zl_array *cotangent) {
    (void)input;
    return cotangent[0] ? reshape(cotangent[0], c->in[0]->ndim, c->in[0]->dim) : NULL;
}

static bool vmap_reshape(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                         int *out_axis) {
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    zl_array x = op_batch_first(in[0], axis[0]), y = call_output(c, 0);
    OP_TEMP(int64_t, dim, y->ndim + 1);
    if (!dim || !x)
        return false;
    dim[0] = x->dim[0];
    for (int i = 0; i < y->ndim; i++)
        dim[i + 1] = y->dim[i];
    out_axis[0] = 0;
    return (out[0] = reshape(x, y->ndim + 1, dim));
}

static bool fits_reshape(const struct call *c, const zl_array *in) {
    (void)in;
    return c->inputs == 1;
}

static const struct op_field shape_field[] = {{"shape", FIELD_LIST}};
const struct op op_reshape = {
    .name = "reshape",
    .kind = OP_VIEW,
    .fields = 1,
    .field = shape_field,
    .record = record_reshape,
    .fits = fits_reshape,
    .vjp = vjp_reshape,
    .jvp = op_jvp_linear,
    .vmap = vmap_reshape,
};

zl_array zl_reshape(zl_array a, zl_shape shape) {
    return a && op_check_list("zl_reshape", shape) ? reshape(a, shape.ndim, shape.dim) : NULL;
}
OP_SIGNATURE(
    zl_reshape, "view",
    "The elements of a in row-major order under another shape. One size may be -1: it is what is left.",
    P_ARRAY(a), P_SHAPE(shape));

// flatten ---------------------------------------------------------------------------------------------------

static zl_array flatten(zl_array x, int64_t start, int64_t end) {
    int joined = (int)(end - start), ndim = x->ndim - joined;
    OP_TEMP(int64_t, dim, ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < ndim; i++)
        dim[i] = x->dim[i <= start ? i : i + joined];
    for (int i = 1; i <= joined; i++) // the sizes of an empty x may have a product that overflows
        if (__builtin_mul_overflow(dim[start], x->dim[start + i], &dim[start]))
            return error_set(ZL_ERROR_OVERFLOW,
                             "zl_flatten: axes %d to %d of shape %s are too long to be joined", (int)start,
                             (int)end, array_text(x));
    return view_as(&op_flatten, x, 2, (int64_t[]){start, end}, ndim, dim);
}

static bool record_flatten(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = flatten(in[0], call_args(c)[0], call_args(c)[1]));
}

static zl_array vjp_flatten(const struct call *c, int input, const zl_array *cotangent) {
    (void)input;
    int start = (int)call_args(c)[0], end = (int)call_args(c)[1];
    return zl_unflatten(cotangent[0], start, (zl_shape){c->in[0]->dim + start, end - start + 1});
}

static bool vmap_flatten(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                         int *out_axis) {
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    zl_array x = op_batch_first(in[0], axis[0]);
    out_axis[0] = 0;
    return (out[0] = x ? flatten(x, call_args(c)[0] + 1, call_args(c)[1] + 1) : NULL);
}

static bool fits_flatten(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    return op_has(c, 1, 2) && op_is_axis(in[0], arg[0]) && op_is_axis(in[0], arg[1]) && arg[0] <= arg[1];
}

static const struct op_field flatten_field[] = {{"start_axis", FIELD_INT}, {"end_axis", FIELD_INT}};
const struct op op_flatten = {
    .name = "flatten",
    .kind = OP_VIEW,
    .fields = 2,
    .field = flatten_field,
    .record = record_flatten,
    .fits = fits_flatten,
    .vjp = vjp_flatten,
    .jvp = op_jvp_linear,
    .vmap = vmap_flatten,
};

zl_array zl_flatten(zl_array a, int start_axis, int end_axis) {
    if (!a)
        return NULL;
    if (a->ndim == 0)
        return zl_expand_dims(a, ZL_AXES(0));
    int64_t start = start_axis < 0 ? (int64_t)start_axis + a->ndim : start_axis;
    int64_t end = end_axis < 0 ? (int64_t)end_axis + a->ndim : end_axis;
    start = MAX_OF(start, 0);
    end = MIN_OF(end, a->ndim - 1);
    if (end < start)
        return error_set(ZL_ERROR_AXIS,
                         "zl_flatten: axes %d to %d of shape %s: there are none from the first to the last",
                         start_axis, end_axis, array_text(a));
    return start == end ? op_same(a) : flatten(a, start, end);
}
OP_SIGNATURE(zl_flatten, "view",
             "a with the axes from start_axis to end_axis, both included, joined into one.", P_ARRAY(a),
             P_INT(start_axis, "0"), P_INT(end_axis, "-1"));

// unflatten -------------------------------------------------------------------------------------------------

// arg: the axis, then the sizes that it is split into.
static zl_array unflatten(zl_array x, int args, const int64_t *arg) {
    int axis = (int)arg[0], parts = args - 1, ndim = x->ndim + parts - 1;
    OP_TEMP(int64_t, dim, ndim);
    if (!dim || !infer("zl_unflatten", x->dim[axis], parts, arg + 1, dim + axis))
        return NULL;
    for (int i = 0; i < x->ndim; i++)
        if (i != axis)
            dim[i < axis ? i : i + parts - 1] = x->dim[i];
    return view_as(&op_unflatten, x, args, arg, ndim, dim);
}

static bool record_unflatten(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = unflatten(in[0], c->args, call_args(c)));
}

static zl_array vjp_unflatten(const struct call *c, int input, const zl_array *cotangent) {
    (void)input;
    int axis = (int)call_args(c)[0];
    return zl_flatten(cotangent[0], axis, axis + c->args - 2);
}

static bool vmap_unflatten(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                           int *out_axis) {
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    zl_array x = op_batch_first(in[0], axis[0]);
    OP_TEMP(int64_t, arg, c->args);
    if (!arg || !x)
        return false;
    for (int i = 0; i < c->args; i++)
        arg[i] = call_args(c)[i] + (i == 0);
    out_axis[0] = 0;
    return (out[0] = unflatten(x, c->args, arg));
}

static bool fits_unflatten(const struct call *c, const zl_array *in) {
    return c->inputs == 1 && c->args >= 2 && op_is_axis(in[0], call_args(c)[0]) &&
           in[0]->ndim + c->args - 2 <= UINT16_MAX;
}

static const struct op_field unflatten_field[] = {{"axis", FIELD_INT}, {"shape", FIELD_LIST}};
const struct op op_unflatten = {
    .name = "unflatten",
    .kind = OP_VIEW,
    .fields = 2,
    .field = unflatten_field,
    .record = record_unflatten,
    .fits = fits_unflatten,
    .vjp = vjp_unflatten,
    .jvp = op_jvp_linear,
    .vmap = vmap_unflatten,
};

zl_array zl_unflatten(zl_array a, int axis, zl_shape shape) {
    if (!a || !op_check_list("zl_unflatten", shape))
        return NULL;
    int at = shape_axis("zl_unflatten", axis, a->ndim);
    if (at < 0)
        return NULL;
    if (shape.ndim == 0)
        return error_set(ZL_ERROR_SHAPE, "zl_unflatten: the shape to split axis %d into has no sizes", axis);
    OP_TEMP(int64_t, arg, shape.ndim + 1);
    if (!arg)
        return NULL;
    arg[0] = at;
    for (int i = 0; i < shape.ndim; i++)
        arg[i + 1] = shape.dim[i];
    return unflatten(a, shape.ndim + 1, arg);
}
OP_SIGNATURE(zl_unflatten, "view",
             "a with one axis split into several of the given sizes, one of which may be -1.", P_ARRAY(a),
             P_INT(axis, NULL), P_SHAPE(shape));

// contiguous ------------------------------------------------------------------------------------------------

static bool is_column_major(zl_array a) {
    int64_t expected = 1;
    for (int i = 0; i < a->ndim; i++) {
        if (a->dim[i] != 1 && array_stride(a)[i] != expected)
            return false;
        expected *= a->dim[i];
    }
    return true;
}

zl_array zl_contiguous(zl_array a, bool allow_col_major) {
    if (!a || array_is(a, ARRAY_CONTIGUOUS) || (allow_col_major && is_column_major(a)))
        return op_same(a);
    return op_dense(&op_copy, 1, &a, 0, NULL, (zl_dtype)a->dtype, a->ndim, a->dim);
}
OP_SIGNATURE(zl_contiguous, "view",
             "a itself if its elements lie in row-major order without gaps, or in column-major order if "
             "allow_col_major; else a copy in row-major order.",
             P_ARRAY(a), P_BOOL(allow_col_major, "False"));
