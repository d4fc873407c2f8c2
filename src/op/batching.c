// batching.c - broadcasting, its transpose, and the batching rule of elementwise ops.

#include "op/op.h"

// Axes of x that were stretched from a shape: the leading ones it did not have, and those where it had 1.
static int stretched(zl_array x, int ndim, const int64_t *dim, int *axes) {
    int lead = x->ndim - ndim, count = 0;
    for (int i = 0; i < x->ndim; i++)
        if (i < lead || (dim[i - lead] == 1 && x->dim[i] != 1))
            axes[count++] = i;
    return count;
}

zl_array op_unbroadcast(zl_array x, int ndim, const int64_t *dim) {
    if (!x || shape_equal(x->ndim, x->dim, ndim, dim))
        return x;
    if (x->ndim < ndim) // a number that stands for an array of equal elements
        return zl_broadcast_to(x, (zl_shape){dim, ndim});
    int *axes = memory_alloc(sizeof(int) * (size_t)(x->ndim + 1));
    if (!axes)
        return NULL;
    int count = stretched(x, ndim, dim, axes);
    zl_array sum = zl_sum_axes(x, (zl_axes){axes, count}, true);
    memory_free(axes);
    return zl_broadcast_to(zl_reshape(sum, (zl_shape){sum ? sum->dim + (sum->ndim - ndim) : NULL, ndim}),
                           (zl_shape){dim, ndim});
}

bool op_broadcast(const char *function, int count, const zl_array *in, zl_array *out) {
    int rank = 0, ndim = 0;
    for (int i = 0; i < count; i++) {
        if (!in[i])
            return false;
        rank = MAX_OF(rank, in[i]->ndim);
    }
    int64_t *dim = memory_alloc(sizeof(int64_t) * (size_t)(rank + 1));
    bool ok = dim != NULL;
    for (int i = 0; ok && i < count; i++) {
        int next = shape_broadcast(ndim, dim, in[i]->ndim, in[i]->dim, dim);
        if (next < 0)
            ok = error_false(ZL_ERROR_SHAPE, "%s: shapes %s and %s do not broadcast: sizes must be equal or 1", function,
                             shape_text(ndim, dim), array_text(in[i]));
        ndim = next;
    }
    for (int i = 0; ok && i < count; i++)
        ok = (out[i] = zl_broadcast_to(in[i], (zl_shape){dim, ndim})) != NULL;
    memory_free(dim);
    return ok;
}

// x with its batch axis first and unit axes behind it, so that what follows has rank axes.
static zl_array batch_first(zl_array x, int axis, int rank) {
    x = zl_moveaxis(x, axis, 0);
    while (x && x->ndim < rank + 1)
        x = zl_expand_dims(x, ZL_AXES(1));
    return x;
}

bool op_vmap_elementwise(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    zl_array moved[3];
    int rank = 0;
    for (int i = 0; i < c->inputs; i++)
        rank = MAX_OF(rank, in[i]->ndim - (axis[i] >= 0));
    for (int i = 0; i < c->inputs; i++) {
        moved[i] = axis[i] >= 0 ? batch_first(in[i], axis[i], rank) : in[i];
        if (!moved[i])
            return false;
    }
    *out_axis = 0;
    return c->op->record(c, moved, out);
}
