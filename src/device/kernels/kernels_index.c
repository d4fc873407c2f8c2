// kernels_index.c - elements that indices choose along an axis: take, and take_along_axis.

#include "device/kernels/kernels.h"
#include "kernel/kernel.h"

struct recipe {
    char file[8];
    int32_t bytes, index, wide; // of an element; dtype of the indices
};

// Indices are brought into range in integers that hold them and the size of the axis, with their sign.
static struct tile_kernel *make(const void *data) {
    const struct recipe *r = data;
    struct tile_type which = tile_type_of((zl_dtype)r->index);
    return kernel_built_in(r->file, "ITEM=u%d,WHICH=%s,WIDE=%c%d,%s", 8 * r->bytes, tile_type_name(which),
                           which.kind == TILE_INT ? 'i' : 'u', MAX_OF((int)which.bits, kernel_bits(r->wide)),
                           kernel_index_clauses(r->wide));
}

// l: axes of the result, with strides of x, but for the axis that is indexed, and of the indices.
static bool take(const struct kernel_place *p, const struct call *c, const struct kernel_layout *l,
                 int axis) {
    zl_array x = c->in[0], indices = c->in[1];
    struct kernel_call k;
    kernel_begin_call(&k);
    if (!kernel_check_axes(l, c->op->name))
        return false;
    struct recipe r = {"take", (int32_t)array_item(x), indices->dtype,
                       layout_is_wide(l) || x->dim[axis] > KERNEL_NARROW ||
                           kernel_elements(x) > KERNEL_NARROW || kernel_elements(indices) > KERNEL_NARROW};
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &r, sizeof r, make, &r);
    void *to = kernel_reach(p, call_first(c)), *from = kernel_reach(p, x), *which = kernel_reach(p, indices);
    kernel_add_memory(&k, from);
    kernel_add_memory(&k, which);
    kernel_add_table(&k, l, r.wide);
    kernel_add_int(&k, array_stride(x)[axis], r.wide);
    kernel_add_memory(&k, to);
    return kernel && to && from && which &&
           kernel_launch_tiles(p, kernel, &k, 7,
                               (const int64_t[]){l->size, l->axes, kernel_elements(x), x->offset,
                                                 kernel_elements(indices), indices->offset, x->dim[axis]});
}

// Numbers that lie in no memory are rare here.
bool kernel_can_take(const struct call *c) {
    return !array_is(c->in[0], ARRAY_INLINE) && !array_is(c->in[1], ARRAY_INLINE);
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
