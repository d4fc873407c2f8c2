// slice.c - views of a part of an array: slices with steps of either sign, flips, and views with explicit
// strides.

#include "op/ops.h"

static int64_t clamp(int64_t at, int64_t size, int64_t low, int64_t high) {
    at += at < 0 ? size : 0;
    return at < low ? low : at > high ? high : at;
}

// Follows Python: negative numbers count from the end, and positions out of range are clamped.
struct slice_run op_slice_run(int64_t size, int64_t start, int64_t stop, int64_t step) {
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
    start = clamp(start, size, low, high);
    stop = clamp(stop, size, low, high);
    uint64_t span = step < 0 ? (uint64_t)(start - stop) : (uint64_t)(stop - start);
    uint64_t stride = step < 0 ? 0 - (uint64_t)step : (uint64_t)step;
    if (step < 0 ? start <= stop : start >= stop)
        return (struct slice_run){0, 1, 0};
    int64_t count = (int64_t)((span - 1) / stride + 1);
    return (struct slice_run){start, count == 1 ? 1 : step, count};
}

struct slice_run op_slice_along(zl_array x, const int64_t *arg, int axis) {
    return op_slice_run(x->dim[axis], arg[axis], arg[x->ndim + axis], arg[2 * x->ndim + axis]);
}

static zl_array slice(zl_array x, const int64_t *arg) {
    OP_TEMP(int64_t, dim, 2 * x->ndim);
    if (!dim)
        return NULL;
    int64_t offset = 0;
    bool whole = true;
    for (int i = 0; i < x->ndim; i++) {
        struct slice_run run = op_slice_along(x, arg, i);
        dim[i] = run.count;
        dim[x->ndim + i] = run.step * array_stride(x)[i];
        offset += run.start * array_stride(x)[i];
        whole = whole && run.count == x->dim[i] && run.step > 0;
    }
    if (whole && !op_follows(x))
        return op_same(x);
    return op_view(&op_slice, x, 3 * x->ndim, arg, x->ndim, dim, dim + x->ndim, op_offset(x) + offset);
}

static bool record_slice(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = slice(in[0], call_args(c)));
}

// Inserts step - 1 zeros between adjacent elements along an axis.
static zl_array interleave(zl_array x, int axis, int64_t step) {
    int ndim = x->ndim + 1;
    int64_t length = (x->dim[axis] - 1) * step + 1;
    OP_TEMP(int64_t, low, 3 * ndim);
    if (!low)
        return NULL;
    int64_t *high = low + ndim, *ones = high + ndim;
    for (int i = 0; i < ndim; i++) {
        low[i] = 0;
        high[i] = i == axis + 1 ? step - 1 : 0;
        ones[i] = 1;
    }
    x = zl_pad(zl_expand_dims(x, ZL_AXES(axis + 1)), (zl_shape){low, ndim}, (zl_shape){high, ndim},
               op_number((zl_dtype)x->dtype, 0));
    x = zl_flatten(x, axis, axis + 1);
    for (int i = 0; x && i < x->ndim; i++)
        high[i] = i == axis ? length : x->dim[i];
    return x ? zl_slice(x, (zl_shape){low, ndim - 1}, (zl_shape){high, ndim - 1}, (zl_shape){ones, ndim - 1})
             : NULL;
}

// Puts the cotangent back at its positions among zeros: flips it for a negative step, spreads it, and pads
// it.
static zl_array vjp_slice(const struct call *c, int input, const zl_array *cotangent) {
    (void)input;
    zl_array x = c->in[0], g = cotangent[0];
    OP_TEMP(int64_t, low, 2 * x->ndim);
    if (!low)
        return NULL;
    for (int i = 0; g && i < x->ndim; i++) {
        struct slice_run run = op_slice_along(x, call_args(c), i);
        int64_t span = run.count ? (run.count - 1) * run.step : 0; // distance from the first to the last
                                                                   // element
        low[i] = run.start + MIN_OF(span, 0);
        low[x->ndim + i] = x->dim[i] - low[i] - (span < 0 ? -span : span) - (run.count ? 1 : 0);
        if (run.step < 0)
            g = zl_flip(g, ZL_AXES(i));
        if (g && (run.step > 1 || run.step < -1))
            g = interleave(g, i, run.step < 0 ? -run.step : run.step);
    }
    return zl_pad(g, (zl_shape){low, x->ndim}, (zl_shape){low + x->ndim, x->ndim},
                  op_number((zl_dtype)x->dtype, 0));
}

static bool vmap_slice(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                       int *out_axis) {
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    static const int64_t all[] = {0, INT64_MAX, 1};
    int ndim = c->args / 3;
    OP_TEMP(int64_t, arg, c->args + 3);
    zl_array x = op_batch_first(in[0], axis[0]);
    if (!arg || !x)
        return false;
    for (int part = 0; part < 3; part++) {
        arg[part * (ndim + 1)] = all[part];
        for (int i = 0; i < ndim; i++)
            arg[part * (ndim + 1) + 1 + i] = call_args(c)[part * ndim + i];
    }
    out_axis[0] = 0;
    return (out[0] = slice(x, arg));
}

static bool fits_slice(const struct call *c, const zl_array *in) {
    int ndim = in[0]->ndim;
    return op_has(c, 1, 3 * ndim) && op_has_steps(ndim, call_args(c) + 2 * ndim);
}

static const struct op_field slice_field[] = {{"start_stop_step", FIELD_LIST}};
const struct op op_slice = {
    .name = "slice",
    .kind = OP_VIEW,
    .fields = 1,
    .field = slice_field,
    .record = record_slice,
    .fits = fits_slice,
    .vjp = vjp_slice,
    .jvp = op_jvp_linear,
    .vmap = vmap_slice,
};

zl_array zl_slice(zl_array a, zl_shape start, zl_shape stop, zl_shape step) {
    if (!a || !op_check_list("zl_slice", start) || !op_check_list("zl_slice", stop) ||
        !op_check_list("zl_slice", step))
        return NULL;
    if (start.ndim != a->ndim || stop.ndim != a->ndim || step.ndim != a->ndim)
        return error_set(ZL_ERROR_SHAPE,
                         "zl_slice: %d starts, %d stops and %d steps for shape %s: each needs %d", start.ndim,
                         stop.ndim, step.ndim, array_text(a), a->ndim);
    OP_TEMP(int64_t, arg, 3 * a->ndim);
    if (!arg)
        return NULL;
    for (int i = 0; i < a->ndim; i++) {
        if (!step.dim[i])
            return error_set(ZL_ERROR_VALUE, "zl_slice: the step of axis %d is 0", i);
        arg[i] = start.dim[i];
        arg[a->ndim + i] = stop.dim[i];
        arg[2 * a->ndim + i] = step.dim[i];
    }
    return slice(a, arg);
}
OP_SIGNATURE(zl_slice, "view",
             "The elements of a from start to stop, stop not included, step apart along each axis. Numbers "
             "mean what they do in Python: negative ones count from the end, steps may be negative, and what "
             "is out of range is cut off; INT64_MAX and INT64_MIN are past both ends.",
             P_ARRAY(a), P_SHAPE(start), P_SHAPE(stop), P_SHAPE(step));

zl_array zl_flip(zl_array a, zl_axes axis) {
    if (!a)
        return NULL;
    OP_TEMP(int, each, a->ndim);
    OP_TEMP(int64_t, arg, 3 * a->ndim);
    int count = each && arg ? op_axes("zl_flip", a, axis, each) : -1;
    if (count < 0)
        return NULL;
    for (int i = 0, next = 0; i < a->ndim; i++) {
        bool turns = next < count && each[next] == i;
        arg[i] = turns ? INT64_MAX : 0;
        arg[a->ndim + i] = turns ? INT64_MIN : INT64_MAX;
        arg[2 * a->ndim + i] = turns ? -1 : 1;
        next += turns;
    }
    return slice(a, arg);
}
OP_SIGNATURE(zl_flip, "view", "a with the order of its elements along the given axes reversed.", P_ARRAY(a),
             P_AXES(axis, "None"));

// as_strided ------------------------------------------------------------------------------------------------

// arg: offset, then the sizes, then the strides. x is row-major.
static zl_array as_strided(zl_array x, int ndim, const int64_t *arg) {
    return op_view(&op_as_strided, x, 1 + 2 * ndim, arg, ndim, arg + 1, arg + 1 + ndim,
                   op_offset(x) + arg[0]);
}

static bool record_as_strided(const struct call *c, const zl_array *in, zl_array *out) {
    int ndim = c->args / 2;
    const int64_t *arg = call_args(c);
    return (out[0] =
                zl_as_strided(in[0], (zl_shape){arg + 1, ndim}, (zl_shape){arg + 1 + ndim, ndim}, arg[0]));
}

static bool vmap_as_strided(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                            int *out_axis) {
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    int ndim = c->args / 2;
    OP_TEMP(int64_t, arg, c->args + 2);
    zl_array x = zl_contiguous(op_batch_first(in[0], axis[0]), false);
    if (!arg || !x)
        return false;
    arg[0] = call_args(c)[0];
    arg[1] = x->dim[0];
    arg[ndim + 2] = c->in[0]->size;
    for (int i = 0; i < ndim; i++) {
        arg[2 + i] = call_args(c)[1 + i];
        arg[ndim + 3 + i] = call_args(c)[1 + ndim + i];
    }
    out_axis[0] = 0;
    return (out[0] = as_strided(x, ndim + 1, arg));
}

// Returns the cotangent of any view, by adding the cotangent of each element at its position in x.
static zl_array scatter_view(zl_array x, zl_array g, int ndim, const int64_t *arg) {
    zl_array counted = zl_arange_int(0, x->size, 1, ZL_INT64);
    zl_array at = zl_flatten(counted ? as_strided(counted, ndim, arg) : NULL, 0, -1);
    zl_array zeros = zl_zeros(ZL_SHAPE(x->size), (zl_dtype)x->dtype);
    g = zl_expand_dims(zl_flatten(g, 0, -1), ZL_AXES(1));
    if (!at || !g || !zeros)
        return NULL;
    return zl_reshape(op_scatter_slices(UPDATE_ADD, zeros, 1, &at, g, &(int64_t){0}),
                      (zl_shape){x->dim, x->ndim});
}

// A view may show an element several times.
static zl_array vjp_as_strided(const struct call *c, int input, const zl_array *cotangent) {
    zl_array x = c->in[0], out, g = cotangent[0];
    int ndim = c->args / 2;
    const int64_t *arg = call_args(c);
    (void)input;
    if (call_output(c, 0)->size == 0)
        return op_zeros_of(x);
    if (dtype_is_inexact((zl_dtype)x->dtype) && op_fold_view(g, x, ndim, arg, &out))
        return out;
    return scatter_view(x, g, ndim, arg);
}

// Checks that all elements that the strides reach are in x.
static bool fits_as_strided(const struct call *c, const zl_array *in) {
    int ndim = c->args / 2;
    const int64_t *dim = call_args(c) + 1, *stride = dim + ndim;
    int64_t size, reach;
    if (!op_has(c, 1, 1 + 2 * ndim) || !shape_size(ndim, dim, &size))
        return false;
    int64_t low = call_args(c)[0], high = low;
    for (int i = 0; size && i < ndim; i++)
        if (__builtin_mul_overflow(dim[i] - 1, stride[i], &reach) ||
            __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
            return false;
    return low >= 0 && (size ? high < in[0]->size : high <= in[0]->size);
}

static const struct op_field strided_field[] = {{"offset", FIELD_INT}, {"shape_strides", FIELD_LIST}};
const struct op op_as_strided = {
    .name = "as_strided",
    .kind = OP_VIEW,
    .fields = 2,
    .field = strided_field,
    .record = record_as_strided,
    .fits = fits_as_strided,
    .vjp = vjp_as_strided,
    .jvp = op_jvp_linear,
    .vmap = vmap_as_strided,
};

// Returns whether all positions that arg reaches are less than size.
static bool reaches_within(int ndim, const int64_t *arg, int64_t size) {
    int64_t low = arg[0], high = arg[0];
    for (int i = 0; i < ndim; i++) {
        int64_t extent, *end = arg[1 + ndim + i] < 0 ? &low : &high;
        if (__builtin_mul_overflow(arg[1 + i] - 1, arg[1 + ndim + i], &extent) ||
            __builtin_add_overflow(*end, extent, end))
            return false;
    }
    return low >= 0 && high < size;
}

static zl_array strided(zl_array a, zl_shape shape, zl_shape strides, int64_t offset) {
    if (!op_check_shape("zl_as_strided", shape) || !op_check_list("zl_as_strided", strides))
        return NULL;
    if (strides.ndim != shape.ndim)
        return error_set(ZL_ERROR_SHAPE, "zl_as_strided: %d strides for a shape of %d axes", strides.ndim,
                         shape.ndim);
    OP_TEMP(int64_t, arg, 1 + 2 * shape.ndim);
    if (!arg)
        return NULL;
    int64_t size;
    shape_size(shape.ndim, shape.dim, &size);
    arg[0] = size ? offset : 0;
    for (int i = 0; i < shape.ndim; i++) {
        arg[1 + i] = shape.dim[i];
        arg[1 + shape.ndim + i] = strides.dim[i];
    }
    if (size && !reaches_within(shape.ndim, arg, a->size))
        return error_set(ZL_ERROR_VALUE,
                         "zl_as_strided: shape %s with strides %s from %lld on leaves the %lld elements of a",
                         shape_text(shape.ndim, shape.dim), shape_text(strides.ndim, strides.dim),
                         (long long)offset, (long long)a->size);
    a = zl_contiguous(a, false);
    return a ? as_strided(a, shape.ndim, arg) : NULL;
}

zl_array zl_as_strided(zl_array a, zl_shape shape, zl_shape strides, int64_t offset) {
    if (!a)
        return NULL;
    if (shape.ndim == -1)
        shape = zl_shape_of(a);
    OP_TEMP(int64_t, dense, MAX_OF(shape.ndim, 0));
    if (!dense)
        return NULL;
    if (strides.ndim == -1 && op_check_shape("zl_as_strided", shape)) {
        shape_row_major(shape.ndim, shape.dim, dense);
        strides = (zl_shape){dense, shape.ndim};
    }
    return strided(a, shape, strides, offset);
}
OP_SIGNATURE(
    zl_as_strided, "view",
    "A view of the elements of a in row-major order: any shape and strides, in elements, from "
    "offset on. All that it reaches must be in a. Not given, the shape is that of a and the strides are "
    "row-major.",
    P_ARRAY(a), P_SHAPE_OR(shape, "None"), P_SHAPE_OR(strides, "None"), P_INT64(offset, "0"));
