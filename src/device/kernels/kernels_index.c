// kernels_index.c - elements that indices choose along an axis: take, and take_along_axis.

#include "device/kernels/kernels.h"

// l: axes of the result, with strides of x, but for the axis that is indexed, and of the indices, which are brought into range in integers
// that hold them and the size of the axis, with their sign.
static bool take(const struct kernel_place *p, const struct call *c, const struct kernel_layout *l,
                 int axis) {
    zl_array x = c->in[0], indices = c->in[1];
    struct tile_type which = tile_type_of((zl_dtype)indices->dtype);
    struct kernel_work w;
    work_open(&w, p, c->op->name);
    WORK_SIZES(&w, l->size, layout_inner(l));
    work_array(&w, x);
    work_array(&w, indices);
    WORK_SIZES(&w, x->dim[axis]);
    work_table(&w, l);
    work_int(&w, array_stride(x)[axis]);
    work_result(&w, call_first(c));
    return WORK_FILE(&w, "take",
                     which.kind == TILE_INT ? "ITEM=u%d,WHICH=%t,WIDE=i%d,%i"
                                            : "ITEM=u%d,WHICH=%t,WIDE=u%d,%i",
                     8 * (int32_t)array_item(x), indices->dtype, MAX_OF(which.bits, kernel_bits(w.wide)));
}

bool kernel_take(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], indices = c->in[1];
    int axis = (int)call_args(c)[0];
    struct kernel_layout l;
    layout_begin(&l, 2);
    for (int i = 0; i < axis; i++)
        layout_push(&l, x->dim[i], (const int64_t[]){array_stride(x)[i], 0});
    for (int i = 0; i < indices->ndim; i++)
        layout_push(&l, indices->dim[i], (const int64_t[]){0, array_stride(indices)[i]});
    for (int i = axis + 1; i < x->ndim; i++)
        layout_push(&l, x->dim[i], (const int64_t[]){array_stride(x)[i], 0});
    return take(p, c, &l, axis);
}

bool kernel_take_along(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], indices = c->in[1];
    int axis = (int)call_args(c)[0];
    struct kernel_layout l;
    layout_begin(&l, 2);
    for (int i = 0; i < x->ndim; i++)
        layout_push(&l, indices->dim[i],
                    (const int64_t[]){i == axis ? 0 : array_stride(x)[i], array_stride(indices)[i]});
    return take(p, c, &l, axis);
}
