// kernels_pair.c - divmod: two results of the same operands, by src/kernel/divmod.tile.

#include "device/kernels/kernels.h"
#include "op/ops.h"

bool kernel_can_divmod(const struct call *c) {
    return tile_row_takes(TILE_REM, (zl_dtype)c->in[0]->dtype);
}

// Both results are row-major, so that they have the same layout.
bool kernel_divmod(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c), a = c->in[0], b = c->in[1];
    struct kernel_layout l;
    struct kernel_work w;
    kernel_layout_begin(&l, 2);
    for (int i = 0; i < y->ndim; i++)
        kernel_layout_push(&l, y->dim[i], (const int64_t[]){array_stride(a)[i], array_stride(b)[i]});
    work_open(&w, p, c->op->name);
    WORK_SIZES(&w, y->size, layout_inner(&l));
    work_array(&w, a);
    work_array(&w, b);
    work_table(&w, &l);
    work_result(&w, y);
    work_result(&w, call_output(c, 1));
    return WORK_FILE(&w, "divmod", "ITEM=%t,QUOTIENT=%o,%i", y->dtype, op_quotient_row((zl_dtype)y->dtype));
}
