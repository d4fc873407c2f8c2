// kernels_group.c - groups of calls that become one kernel: what kernels of elements, lines and columns
// share.

#include "device/kernels/kernels_group.h"

// Finding ---------------------------------------------------------------------------------------------------

// Returns the index of an input that is read as a dtype, or as the inverse of a number, and adds it if it is
// new; -1 if there are too many inputs.
static int find_input(struct kernel_group *g, zl_array x, zl_dtype dtype, int inverse_of) {
    for (int i = 0; i < g->inputs; i++)
        if (g->input[i] == x && g->dtype[i] == dtype && g->inverse_of[i] == inverse_of)
            return i;
    if (g->inputs == KERNEL_OPERANDS)
        return -1;
    g->input[g->inputs] = x;
    g->dtype[g->inputs] = dtype;
    g->inverse_of[g->inputs] = inverse_of;
    return g->inputs++;
}

static int input_of(struct fuse_writer *w, int index, int k, int op) {
    struct kernel_group *g = (struct kernel_group *)w->g;
    const struct call *c = w->g->call[index];
    const uint8_t *dtype = fuse_step(w->g, index)->dtype;
    if (op == FUSE_QUOTIENT && k == 2)
        return find_input(g, c->in[1], ZL_FLOAT32, dtype[2]);
    bool is_inverse = op == TILE_MUL && op != (int)c->op->row && k == 1;
    return find_input(g, c->in[k], (zl_dtype)dtype[k + 1], is_inverse ? dtype[2] : GROUP_ITSELF);
}

bool kernel_group_write(struct kernel_group *g, struct fuse_recipe *r,
                        int (*divide)(const struct fuse_writer *w, int index)) {
    g->inputs = 0;
    return fuse_write(&(struct fuse_writer){.g = &g->f,
                                            .begin = g->f.begin,
                                            .end = g->f.end,
                                            .operands = KERNEL_OPERANDS,
                                            .r = r,
                                            .divide = divide,
                                            .input = input_of});
}

// Running ---------------------------------------------------------------------------------------------------

bool kernel_group_add_outputs(const struct kernel_place *p, struct kernel_call *k,
                              const struct kernel_group *g) {
    bool ok = true;
    for (int i = g->f.begin; ok && i < g->f.end; i++)
        if (fuse_is_output(&g->f, i))
            ok = kernel_add_array(p, k, fuse_output(&g->f, i));
    return ok;
}

bool kernel_group_add_input(const struct kernel_place *p, struct kernel_call *k, const struct kernel_group *g,
                            int at) {
    zl_array x = g->input[at];
    if (array_is(x, ARRAY_INLINE)) {
        union scalar room;
        if (g->inverse_of[at] == GROUP_ITSELF)
            scalar_write(x, g->dtype[at], &room);
        else
            dtype_convert(&room, g->dtype[at], &(double){1 / scalar_as(x, (zl_dtype)g->inverse_of[at]).f},
                          ZL_FLOAT64, 1);
        kernel_add(k, &room, zl_dtype_size(g->dtype[at]));
        return true;
    }
    return kernel_add_array(p, k, x);
}

int kernel_group_run(struct kernel_group *g, struct binding *b, fuse_body *body,
                     const struct kernel_place *p) {
    int calls = g->f.end - g->f.begin;
    g->place = p;
    if (p->batch)
        return body(&g->f), calls;
    counter_add(COUNTER_FUSED, calls > 1 ? calls : 0);
    return fuse_run_group(&g->f, b, body);
}
