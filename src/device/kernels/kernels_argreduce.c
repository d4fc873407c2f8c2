// kernels_argreduce.c - where the smallest and the largest elements along an axis are, by src/kernel/argreduce.tile.

#include "device/kernels/kernels.h"

enum { SUBGROUP = 32, FEW = 8 }; // of lines of few elements, each thread has one

bool kernel_can_argreduce(const struct call *c) {
    zl_dtype dtype = (zl_dtype)c->in[0]->dtype;
    return !array_is(c->in[0], ARRAY_INLINE) && tile_row_takes(TILE_LT, dtype) &&
           c->in[0]->dim[call_args(c)[1]] < INT32_MAX;
}

// Neighbouring threads read neighbouring elements: of one line, or of lines beside each other.
static int lanes_for(const struct kernel_layout *lines, int64_t step, int64_t n) {
    bool columns =
        lines->axes && lines->stride[0][lines->axes - 1] == 1 && step != 1 && lines->size >= KERNEL_THREADS;
    return columns || n <= FEW ? 1 : n <= 16 * SUBGROUP ? SUBGROUP : KERNEL_THREADS;
}

bool kernel_argreduce(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0];
    int axis = (int)call_args(c)[1];
    int64_t n = x->dim[axis], step = array_stride(x)[axis];
    struct kernel_layout l;
    struct kernel_work w;
    layout_begin(&l, 1);
    for (int i = 0; i < x->ndim; i++)
        if (i != axis)
            layout_push(&l, x->dim[i], &array_stride(x)[i]);
    int lanes = lanes_for(&l, step, n);
    work_open(&w, p, c->op->name);
    WORK_SIZES(&w, l.size, n, layout_inner(&l));
    work_array(&w, x);
    work_table(&w, &l);
    work_int(&w, step);
    work_result(&w, call_first(c));
    w.wide |= x->size > KERNEL_NARROW;
    return WORK_FILE(&w, "argreduce", "ITEM=%t,BETTER=%o,LANES=%d,ROUNDS=%d,%i", x->dtype,
                     call_args(c)[0] ? TILE_GT : TILE_LT, lanes,
                     lanes == 1          ? 0
                     : lanes == SUBGROUP ? 5
                                         : 8);
}
