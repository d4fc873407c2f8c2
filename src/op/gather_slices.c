// gather_slices.c - takes slices of an array at positions given by arrays of indices.

#include "op/ops.h"

// arg: number of indices, their axes, then the sizes of a slice. All indices have the same shape.
static zl_array gather(zl_array a, int count, const zl_array *indices, const int64_t *arg) {
    int lead = count ? indices[0]->ndim : 0, ndim = lead + a->ndim;
    OP_TEMP(int64_t, dim, ndim);
    OP_TEMP(zl_array, in, count + 1);
    if (!dim || !in)
        return NULL;
    in[0] = a;
    for (int i = 0; i < count; i++)
        in[i + 1] = indices[i];
    for (int i = 0; i < ndim; i++)
        dim[i] = i < lead ? indices[0]->dim[i] : arg[1 + count + i - lead];
    if (!op_check_size("zl_gather", ndim, dim))
        return NULL;
    return op_dense(&op_gather, count + 1, in, 1 + count + a->ndim, arg, (zl_dtype)a->dtype, ndim, dim);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    int count = c->inputs - 1;
    OP_TEMP(int, axes, count);
    if (!axes)
        return false;
    op_axes_of(count, call_args(c) + 1, axes);
    return (out[0] = zl_gather(in[0], in + 1, count, (zl_axes){axes, count},
                               (zl_shape){call_args(c) + 1 + count, in[0]->ndim}));
}

static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    (void)input;
    zl_array zeros = op_zeros_of(c->in[0]);
    return zeros ? op_scatter_slices(UPDATE_ADD, zeros, c->inputs - 1, c->in + 1, cotangent[0],
                                     call_args(c) + 1)
                 : NULL;
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    out[0] = NULL;
    return !tangent[0] || (out[0] = gather(tangent[0], c->inputs - 1, c->in + 1, call_args(c)));
}

// Returns 0, 1, 2, ... along the first of ndim axes: the index of each batch element.
static zl_array batch_numbers(int64_t batch, int ndim) {
    zl_array at = zl_arange_int(0, batch, 1, ZL_INT64);
    for (int i = 1; i < ndim; i++)
        at = zl_expand_dims(at, ZL_AXES(-1));
    return at;
}

// Gathers from a batch of arrays, whose batch axis is the first. It is taken whole or, with one more array of
// indices, one element at a time.
static zl_array gather_batch(const struct call *c, zl_array a, int count, zl_array *indices, int64_t size) {
    int own = c->inputs - 1;
    OP_TEMP(int, axes, count);
    OP_TEMP(int64_t, sizes, a->ndim);
    if (!axes || !sizes)
        return NULL;
    for (int i = 0; i < count; i++)
        axes[i] = i < own ? (int)call_args(c)[1 + i] + 1 : 0;
    for (int i = 0; i < a->ndim; i++)
        sizes[i] = i == 0 ? size : call_args(c)[own + i];
    return zl_gather(a, indices, count, (zl_axes){axes, count}, (zl_shape){sizes, a->ndim});
}

static bool batch_indices(const struct call *c, const zl_array *in, const int *axis, zl_array *out) {
    for (int i = 1; i < c->inputs; i++)
        if (!(out[i - 1] = op_batch_any(in[i], axis[i])))
            return false;
    return true;
}

// Gathers with batched indices, which put the batch axis first.
static zl_array gather_each(const struct call *c, const zl_array *in, const int *axis) {
    int count = c->inputs - 1, ndim = c->in[1]->ndim + 1;
    OP_TEMP(zl_array, indices, count + 1);
    OP_TEMP(int, axes, count);
    if (!indices || !axes || !batch_indices(c, in, axis, indices))
        return NULL;
    if (axis[0] >= 0) {
        zl_array a = op_batch_first(in[0], axis[0]);
        if (!a || !(indices[count] = batch_numbers(a->dim[0], ndim)))
            return NULL;
        return zl_squeeze(gather_batch(c, a, count + 1, indices, 1), ZL_AXES(ndim));
    }
    for (int i = 0; i < count; i++)
        axes[i] = (int)call_args(c)[1 + i];
    return zl_gather(in[0], indices, count, (zl_axes){axes, count},
                     (zl_shape){call_args(c) + 1 + count, in[0]->ndim});
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    int count = c->inputs - 1;
    if (op_batch_size(count, in + 1, axis + 1) >= 0) {
        out_axis[0] = 0;
        return (out[0] = gather_each(c, in, axis));
    }
    out_axis[0] = axis[0] < 0 ? -1 : count ? in[1]->ndim : 0;
    if (axis[0] < 0)
        return record(c, in, out);
    zl_array a = op_batch_first(in[0], axis[0]);
    OP_TEMP(zl_array, indices, count);
    if (!a || !indices)
        return false;
    for (int i = 0; i < count; i++)
        indices[i] = in[i + 1];
    return (out[0] = gather_batch(c, a, count, indices, a->dim[0]));
}

static bool fits(const struct call *c, const zl_array *in) {
    int count = c->inputs - 1;
    const int64_t *arg = call_args(c);
    return count >= 0 && c->args == 1 + count + in[0]->ndim && arg[0] == count &&
           op_are_axes(in[0]->ndim, count, arg + 1, false) && op_are_indices(count, in + 1) &&
           op_are_within(in[0], arg + 1 + count) && (count ? in[1]->ndim : 0) + in[0]->ndim <= UINT16_MAX;
}

static const struct op_field fields[] = {{"count", FIELD_INT}, {"axes_sizes", FIELD_LIST}};
const struct op op_gather = {
    .name = "gather",
    .kind = OP_OTHER,
    .fields = 2,
    .field = fields,
    .record = record,
    .fits = fits,
    .positions = {1, -1},
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
};

static bool check_sizes(zl_array a, zl_shape sizes) {
    if (!op_check_list("zl_gather", sizes))
        return false;
    bool fits = sizes.ndim == a->ndim;
    for (int i = 0; fits && i < a->ndim; i++)
        fits = sizes.dim[i] >= 0 && sizes.dim[i] <= a->dim[i];
    return fits || error_false(ZL_ERROR_SHAPE,
                               "zl_gather: slices of shape %s of an array of shape %s: a size "
                               "for each axis, at most its own, is needed",
                               shape_text(sizes.ndim, sizes.dim), array_text(a));
}

zl_array zl_gather(zl_array a, const zl_array *indices, int count, zl_axes axes, zl_shape slice_sizes) {
    if (!a || !check_sizes(a, slice_sizes))
        return NULL;
    OP_TEMP(zl_array, list, MAX_OF(count, 0));
    OP_TEMP(int64_t, arg, MAX_OF(count, 0) + 1 + (int64_t)a->ndim);
    if (!list || !arg || !op_check_indices("zl_gather", a, indices, count, axes, list, arg + 1))
        return NULL;
    arg[0] = count;
    for (int i = 0; i < a->ndim; i++)
        arg[1 + count + i] = slice_sizes.dim[i];
    return gather(a, count, list, arg);
}
OP_SIGNATURE(zl_gather, "index",
             "Slices of a, of the given size along each axis, that begin where the indices say: one array of "
             "indices for each of the axes, 0 for the other axes. The indices are broadcast against each "
             "other; their shape comes first in the result, then that of a slice. Negative indices count "
             "from the end; a slice that would leave a is moved back into it.",
             P_ARRAY(a), P_ARRAYS(indices), P_AXES(axes, NULL), P_SHAPE(slice_sizes));
