// follow.c - ops that depend on the shapes of other arrays, while a function is traced for replay with other
// shapes.
//
// Then a size is not a constant yet. These calls stand for values computed from sizes. They are never
// evaluated: when replayed, they record plain views and numbers.

#include "op/ops.h"

bool op_follows(zl_array x) {
    return recorder.deferred && array_is_tracer(x);
}

static bool any_follows(int count, const zl_array *in) {
    for (int i = 0; i < count; i++)
        if (op_follows(in[i]))
            return true;
    return false;
}

// stretch_with ----------------------------------------------------------------------------------------------

// Writes the sizes to which all arrays broadcast, not counting their last axes, followed by the last axes of
// the first array. Returns their number, or -1.
static int common_shape(int count, const zl_array *in, int last, int64_t *dim) {
    int ndim = 0;
    for (int i = 0; i < count && ndim >= 0; i++)
        ndim = shape_broadcast(ndim, dim, in[i]->ndim - last, in[i]->dim, dim);
    for (int i = 0; ndim >= 0 && i < last; i++)
        dim[ndim + i] = in[0]->dim[in[0]->ndim - last + i];
    return ndim < 0 ? -1 : ndim + last;
}

static zl_array stretch(int count, const zl_array *in, int last, int ndim, const int64_t *dim) {
    zl_array view = zl_broadcast_to(in[0], (zl_shape){dim, ndim});
    if (!view || !any_follows(count, in))
        return view;
    return op_call(&op_stretch_with, count, in, 1, (int64_t[]){last},
                   &(struct array_spec){.dtype = (zl_dtype)view->dtype,
                                        .ndim = ndim,
                                        .dim = dim,
                                        .stride = array_stride(view),
                                        .offset = op_offset(view)});
}

zl_array op_stretch(const char *function, int count, const zl_array *in, int last) {
    int rank = 0;
    for (int i = 0; i < count; i++) {
        if (!in[i])
            return NULL;
        rank = MAX_OF(rank, in[i]->ndim);
    }
    OP_TEMP(int64_t, dim, rank);
    int ndim = dim ? common_shape(count, in, last, dim) : -1;
    if (dim && ndim < 0)
        error_set(ZL_ERROR_SHAPE, "%s: shapes %s and %s do not broadcast: sizes must be equal or 1", function,
                  array_text(in[0]), array_text(in[count - 1]));
    return ndim < 0 ? NULL : stretch(count, in, last, ndim, dim);
}

static bool record_stretch(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = op_stretch("zl_broadcast_arrays", c->inputs, in, (int)call_args(c)[0]));
}

static zl_array vjp_stretch(const struct call *c, int input, const zl_array *cotangent) {
    return input == 0 ? op_unbroadcast(cotangent[0], c->in[0]) : NULL;
}

static bool jvp_stretch(const struct call *c, const zl_array *tangent, zl_array *out) {
    out[0] = NULL;
    if (!tangent[0])
        return true;
    OP_TEMP(zl_array, in, c->inputs);
    for (int i = 0; in && i < c->inputs; i++)
        in[i] = i ? c->in[i] : tangent[0];
    return in && record_stretch(c, in, out);
}

// Returns x with its extra axis first, of size 1 if it has none, followed by `rank` axes.
static zl_array align(zl_array x, int axis, int rank) {
    x = op_batch_any(x, axis);
    while (x && x->ndim < rank + 1)
        x = zl_expand_dims(x, ZL_AXES(1));
    return x;
}

static bool vmap_stretch(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                         int *out_axis) {
    OP_TEMP(zl_array, aligned, c->inputs);
    for (int i = 0; aligned && i < c->inputs; i++)
        if (!(aligned[i] = align(in[i], axis[i], call_output(c, 0)->ndim)))
            return false;
    out_axis[0] = 0;
    return aligned && record_stretch(c, aligned, out);
}

static bool fits_stretch_with(const struct call *c, const zl_array *in) {
    if (c->inputs < 1 || c->args != 1 || call_args(c)[0] < 0)
        return false;
    for (int i = 0; i < c->inputs; i++)
        if (in[i]->ndim < call_args(c)[0])
            return false;
    return true;
}

static const struct op_field stretch_field[] = {{"last", FIELD_INT}};
const struct op op_stretch_with = {
    .name = "stretch_with",
    .kind = OP_VIEW,
    .fields = 1,
    .field = stretch_field,
    .record = record_stretch,
    .fits = fits_stretch_with,
    .vjp = vjp_stretch,
    .jvp = jvp_stretch,
    .vmap = vmap_stretch,
};

// element_count ---------------------------------------------------------------------------------------------

// arg: whether to return one divided by the number, how many to subtract, then the axes.
static double count_along(zl_array x, int args, const int64_t *arg) {
    double total = 1;
    for (int i = 2; i < args; i++)
        total *= (double)x->dim[arg[i]];
    total = MAX_OF(total - (double)arg[1], 0);
    return arg[0] ? 1 / total : total;
}

static bool record_count(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] =
                op_number((zl_dtype)call_output(c, 0)->dtype, count_along(in[0], c->args, call_args(c))));
}

// The number is the same for the whole batch, so the result has no extra axis.
static bool vmap_count(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                       int *out_axis) {
    zl_array x = op_batch_any(in[0], axis[0]);
    OP_TEMP(int, axes, c->args);
    for (int i = 2; axes && i < c->args; i++)
        axes[i - 2] = (int)call_args(c)[i] + 1;
    out_axis[0] = -1;
    return x && axes &&
           (out[0] = op_count(x, (zl_dtype)call_output(c, 0)->dtype, c->args - 2, axes, (int)call_args(c)[1],
                              call_args(c)[0]));
}

static bool fits_element_count(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    if (c->inputs != 1 || c->args < 2 || !op_is_among(arg[0], 2) || arg[1] < 0)
        return false;
    for (int i = 2; i < c->args; i++)
        if (arg[i] < 0 || arg[i] >= in[0]->ndim)
            return false;
    return dtype_is_inexact((zl_dtype)call_first(c)->dtype);
}

static const struct op_field count_field[] = {
    {"inverse", FIELD_BOOL}, {"less", FIELD_INT}, {"axes", FIELD_LIST}};
const struct op op_element_count = {
    .name = "element_count",
    .kind = OP_OTHER,
    .fields = 3,
    .field = count_field,
    .record = record_count,
    .fits = fits_element_count,
    .vjp = op_vjp_zero,
    .jvp = op_jvp_zero,
    .vmap = vmap_count,
};

zl_array op_count(zl_array x, zl_dtype dtype, int count, const int *axis, int less, bool inverse) {
    OP_TEMP(int64_t, arg, count + 2);
    if (!arg)
        return NULL;
    arg[0] = inverse;
    arg[1] = less;
    for (int i = 0; i < count; i++)
        arg[i + 2] = axis[i];
    return op_follows(x) ? op_dense(&op_element_count, 1, &x, count + 2, arg, dtype, 0, NULL)
                         : zl_scalar(count_along(x, count + 2, arg));
}
