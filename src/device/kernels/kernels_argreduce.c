// kernels_argreduce.c - where the smallest and the largest elements along an axis are, by src/kernel/argreduce.tile.

#include "device/kernels/kernels.h"
#include "kernel/kernel.h"

enum { SUBGROUP = 32, FEW = 8 }; // of lines of few elements, each thread has one

struct recipe {
    char file[12];
    int32_t dtype, is_max, lanes, wide; // lanes: threads of a line
};

bool kernel_can_argreduce(const struct call *c) {
    zl_dtype dtype = (zl_dtype)c->in[0]->dtype;
    return !array_is(c->in[0], ARRAY_INLINE) && tile_row_takes(TILE_LT, dtype) &&
           c->in[0]->dim[call_args(c)[1]] < INT32_MAX;
}

static struct tile_kernel *make(const void *data) {
    const struct recipe *r = data;
    return kernel_built_in(r->file, "ITEM=%s,BETTER=%s,LANES=%d,ROUNDS=%d,%s",
                           kernel_type((zl_dtype)r->dtype), tile_op_name(r->is_max ? TILE_GT : TILE_LT),
                           r->lanes,
                           r->lanes == 1          ? 0
                           : r->lanes == SUBGROUP ? 5
                                                  : 8,
                           kernel_index_clauses(r->wide));
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
    struct kernel_call k;
    kernel_begin_call(&k);
    layout_begin(&l, 1);
    for (int i = 0; i < x->ndim; i++)
        if (i != axis)
            layout_push(&l, x->dim[i], &array_stride(x)[i]);
    if (!kernel_check_axes(&l, c->op->name))
        return false;
    struct recipe r = {"argreduce", x->dtype, call_args(c)[0] != 0, lanes_for(&l, step, n),
                       x->size > KERNEL_NARROW || kernel_elements(x) > KERNEL_NARROW || layout_is_wide(&l)};
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &r, sizeof r, make, &r);
    void *to = kernel_reach(p, call_first(c)), *from = kernel_reach(p, x);
    kernel_add_memory(&k, from);
    kernel_add_table(&k, &l, r.wide);
    kernel_add_int(&k, step, r.wide);
    kernel_add_memory(&k, to);
    return kernel && to && from &&
           kernel_launch_tiles(p, kernel, &k, 5,
                               (const int64_t[]){l.size, n, l.axes, kernel_elements(x), x->offset});
}
