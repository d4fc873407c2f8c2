// batching.c - broadcasting, its transpose, and the batching rule of elementwise ops.

#include "op/ops.h"

// Lists the axes of x along which an array of shape `dim` was stretched: leading ones that the shape lacks,
// and those of size 1 in it. Returns their number.
static int stretched(zl_array x, int ndim, const int64_t *dim, int *axes) {
    int lead = x->ndim - ndim, count = 0;
    for (int i = 0; i < x->ndim; i++)
        if (i < lead || (dim[i - lead] == 1 && x->dim[i] != 1))
            axes[count++] = i;
    return count;
}

zl_array op_unbroadcast(zl_array x, zl_array like) {
    if (!x || shape_equal(x->ndim, x->dim, like->ndim, like->dim))
        return x;
    if (x->ndim >= like->ndim) { // else x is a number that stands for an array of equal elements
        OP_TEMP(int, axes, x->ndim);
        int lead = x->ndim - like->ndim, count = axes ? stretched(x, like->ndim, like->dim, axes) : -1;
        x = count < 0 ? NULL
                      : zl_squeeze(zl_sum_axes(x, (zl_axes){axes, count}, true), (zl_axes){axes, lead});
    }
    if (!x || shape_equal(x->ndim, x->dim, like->ndim, like->dim))
        return x;
    return op_stretch("zl_broadcast_to", 2, (zl_array[]){x, like}, 0);
}

bool op_broadcast(const char *function, int count, const zl_array *in, zl_array *out) {
    OP_TEMP(zl_array, list, (int64_t)count + 1); // each array in turn, followed by all of them
    for (int i = 0; list && i < count; i++)
        list[i + 1] = in[i];
    bool ok = list;
    for (int i = 0; ok && i < count; i++) {
        list[0] = in[i];
        ok = (out[i] = op_stretch(function, count + 1, list, 0));
    }
    return ok;
}

// Returns x with its batch axis first, followed by axes of size 1, so that the axes after the first are
// `rank`.
static zl_array batch_first(zl_array x, int axis, int rank) {
    x = zl_moveaxis(x, axis, 0);
    while (x && x->ndim < rank + 1)
        x = zl_expand_dims(x, ZL_AXES(1));
    return x;
}

bool op_vmap_elementwise(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                         int *out_axis) {
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
