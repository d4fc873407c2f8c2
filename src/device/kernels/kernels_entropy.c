// kernels_entropy.c - losses of classifiers, by src/kernel/cross_entropy.tile. Some threads have a line, about a quarter as many as it
// has classes.

#include "device/kernels/kernels.h"
#include "kernel/kernel.h"
#include "op/ops.h"

enum { LOGITS = 0, TARGETS = 1, CLASSES_EACH = 4 };

struct recipe {
    char file[16];
    int32_t dtype, target, lanes, wide;
};

bool kernel_can_cross_entropy(const struct call *c) {
    return !array_is(c->in[LOGITS], ARRAY_INLINE) && !array_is(c->in[TARGETS], ARRAY_INLINE);
}

static struct tile_kernel *make(const void *data) {
    const struct recipe *r = data;
    return kernel_built_in(r->file, "ITEM=%s,WIDE=%s,TARGET=%s,LANES=%d,%s", kernel_type((zl_dtype)r->dtype),
                           r->dtype == ZL_FLOAT64 ? "f64" : "f32", kernel_type((zl_dtype)r->target), r->lanes,
                           kernel_index_clauses(r->wide));
}

static int lanes_for(int64_t classes) {
    int lanes = 1;
    while (lanes < KERNEL_THREADS && (int64_t)lanes * CLASSES_EACH < classes)
        lanes *= 2;
    return lanes;
}

bool kernel_cross_entropy(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[LOGITS], targets = c->in[TARGETS];
    int64_t classes = x->dim[x->ndim - 1];
    struct kernel_layout l;
    struct kernel_call k;
    kernel_begin_call(&k);
    layout_begin(&l, 1);
    for (int i = 0; i < targets->ndim; i++)
        layout_push(&l, targets->dim[i], &array_stride(targets)[i]);
    if (!kernel_check_axes(&l, c->op->name))
        return false;
    struct recipe r = {"cross_entropy", x->dtype, targets->dtype, lanes_for(classes),
                       kernel_elements(x) > KERNEL_NARROW || kernel_elements(targets) > KERNEL_NARROW ||
                           layout_is_wide(&l)};
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &r, sizeof r, make, &r);
    void *from = kernel_reach(p, x), *which = kernel_reach(p, targets);
    void *loss = kernel_reach(p, call_first(c)), *sums = kernel_reach(p, call_output(c, 1));
    kernel_add_memory(&k, from);
    kernel_add_memory(&k, which);
    kernel_add_table(&k, &l, r.wide);
    kernel_add_memory(&k, loss);
    kernel_add_memory(&k, sums);
    return kernel && from && which && loss && sums &&
           kernel_launch_tiles(p, kernel, &k, 7,
                               (const int64_t[]){l.size, classes, l.axes, kernel_elements(x), x->offset,
                                                 kernel_elements(targets), targets->offset});
}
