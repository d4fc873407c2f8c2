// kernels_pair.c - divmod: two results of the same operands, by src/kernel/divmod.tile.

#include "device/kernels/kernels.h"
#include "kernel/kernel.h"
#include "op/ops.h"

struct recipe {
    char file[8];
    int32_t dtype, wide;
};

bool kernel_can_divmod(const struct call *c) {
    return !array_is(c->in[0], ARRAY_INLINE) && !array_is(c->in[1], ARRAY_INLINE) &&
           tile_row_takes(TILE_REM, (zl_dtype)c->in[0]->dtype);
}

static struct tile_kernel *make(const void *data) {
    const struct recipe *r = data;
    zl_dtype dtype = (zl_dtype)r->dtype;
    return kernel_built_in(r->file, "ITEM=%s,QUOTIENT=%s,%s", kernel_type(dtype),
                           tile_op_name(op_quotient_row(dtype)), kernel_index_clauses(r->wide));
}

// Results are row-major: both have to lie alike.
bool kernel_divmod(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c), a = c->in[0], b = c->in[1];
    struct kernel_layout l;
    struct kernel_call k;
    kernel_begin_call(&k);
    layout_begin(&l, 2);
    for (int i = 0; i < y->ndim; i++)
        layout_push(&l, y->dim[i], (const int64_t[]){array_stride(a)[i], array_stride(b)[i]});
    if (!kernel_check_axes(&l, c->op->name))
        return false;
    struct recipe r = {"divmod", y->dtype,
                       layout_is_wide(&l) || MAX_OF(kernel_elements(a), kernel_elements(b)) > KERNEL_NARROW};
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &r, sizeof r, make, &r);
    void *from = kernel_reach(p, a), *by = kernel_reach(p, b), *to = kernel_reach(p, y),
         *rest = kernel_reach(p, call_output(c, 1));
    kernel_add_memory(&k, from);
    kernel_add_memory(&k, by);
    kernel_add_table(&k, &l, r.wide);
    kernel_add_memory(&k, to);
    kernel_add_memory(&k, rest);
    return kernel && from && by && to && rest &&
           kernel_launch_tiles(p, kernel, &k, 6,
                               (const int64_t[]){y->size, l.axes, kernel_elements(a), a->offset,
                                                 kernel_elements(b), b->offset});
}
