// row_product.c - fused epilogues of matrix products. The thread that computed a part of the product runs the
// epilogue on it while it is in the caches. A product that nothing else reads never gets memory of its own.

#include "device/cpu/gemm/product.h"
#include "device/cpu/rows/operands.h"
#include "device/cpu/rows/row_group.h"

struct epilogue {
    const struct group *g;
    double weight;
    int product;         // operand of the layout that is the product's part; -1: the product is stored, and
                         // its address fixed
    atomic_int compiled; // calls of one part that ran in compiled kernels
};

// Runs the group's elementwise work on one part of the product.
static void run_part(void *context, const struct product_part *part) {
    struct epilogue *e = context;
    struct group g = *e->g;
    cpu_layout_crop(&g.l, part->batch, (int64_t[]){part->row, part->col},
                    (int64_t[]){part->rows, part->cols});
    if (e->product >= 0) {
        g.l.data[e->product] = part->data;
        g.l.axis[0].stride[e->product] = part->data_row * g.l.item[e->product];
        g.l.axis[1].stride[e->product] = g.l.item[e->product];
    }
    g.stretches = 0;
    cpu_layout_run(&g.l, e->weight, row_group_plan(&g), &g);
    atomic_store_explicit(&e->compiled, group_compiled(&g), memory_order_relaxed);
}

bool row_group_run_product(struct group *g, double weight) {
    bool is_stored = g->f.row[0].stored;
    struct epilogue e = {.g = g, .weight = weight, .product = is_stored ? -1 : g->row[0].at[0]};
    atomic_init(&e.compiled, 0);
    bool done = cpu_matmul_then(g->b->call[g->f.begin],
                                &(struct product_then){run_part, &e, is_stored, g->f.line > 0});
    counter_add(COUNTER_COMPILED, atomic_load(&e.compiled));
    return done;
}
