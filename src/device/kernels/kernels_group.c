// kernels_group.c - calls that become one kernel: what kernels of elements and of lines have in common.

#include "device/kernels/kernels_group.h"

// Finding ----------------------------------------------------------------------------------------------------------

struct fuse_steps kernel_steps(const struct program *program) {
    const struct kernel_step *first = program->step;
    return (struct fuse_steps){(char *)(uintptr_t)first, sizeof *first, program->steps};
}

bool group_is_ready(struct fuse_group *g, int index) {
    for (int k = 0; k < fuse_step(g, index)->inputs; k++) {
        enum array_state state = array_state(g->call[index]->in[k]);
        if (fuse_is_outside(g, index, k) && (state == ARRAY_FAILED || state == ARRAY_CONSUMED))
            return false;
    }
    return true;
}

int group_input(struct kernel_group *g, zl_array x, zl_dtype dtype, int inverse_of) {
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

// Running ----------------------------------------------------------------------------------------------------------

bool group_add_outputs(const struct kernel_place *p, struct kernel_call *k, const struct kernel_group *g) {
    bool ok = true;
    for (int i = g->f.begin; ok && i < g->f.end; i++)
        if (fuse_is_output(&g->f, i)) {
            void *memory = kernel_reach(p, fuse_output(&g->f, i));
            kernel_add_memory(k, memory);
            ok = memory;
        }
    return ok;
}

bool group_add_input(const struct kernel_place *p, struct kernel_call *k, const struct kernel_group *g,
                     int at, int64_t offset) {
    zl_array x = g->input[at];
    if (array_is(x, ARRAY_INLINE)) {
        union scalar room;
        if (g->inverse_of[at] == GROUP_ITSELF)
            scalar_write(x, g->dtype[at], &room);
        else
            dtype_convert(&room, g->dtype[at], &(double){1 / scalar_as(x, (zl_dtype)g->inverse_of[at]).f}, ZL_FLOAT64, 1);
        kernel_add(k, &room, zl_dtype_size(g->dtype[at]));
        return true;
    }
    void *memory = kernel_reach(p, x);
    kernel_add_memory(k, memory);
    kernel_add_int(k, x->offset + offset, true);
    return memory;
}

// All calls of the group fail for the reason of one.
static void fail(const struct fuse_group *g, struct binding *b, int first) {
    zl_array reason = fuse_output(g, first);
    if (array_state(reason) != ARRAY_FAILED)
        b->fail(b, first);
    for (int i = g->begin; i < g->end; i++)
        if (array_state(fuse_output(g, i)) != ARRAY_FAILED) {
            error_put(reason->failure->kind, reason->failure->message);
            b->fail(b, i);
        }
}

// A thread reads all of its elements before it writes one; of lines, and of a product, others may still read.
static bool prepare(const struct fuse_group *g, struct binding *b) {
    for (int i = g->begin; i < g->end; i++) {
        const struct fuse_row *r = fuse_row_of(g, i);
        bool in_place = r->kind == ROW_ELEMENTS && g->row[0].kind != ROW_PRODUCT;
        if (!r->stored)
            continue;
        if (in_place)
            b->take(b, g->begin, i);
        if (b->prepare(b, i, in_place ? UINT64_MAX : 0))
            continue;
        fail(g, b, i);
        return false;
    }
    return true;
}

// A call that fails lets its inputs go: those that the group computes are held until all of it is finished.
int group_run(struct kernel_group *group, struct binding *b, group_body *body, const struct kernel_place *p) {
    const struct fuse_group *g = &group->f;
    int calls = g->end - g->begin;
    if (p->batch)
        return body(p, group), calls;
    for (int i = g->begin; i < g->end; i++)
        zl_retain(fuse_output(g, i));
    if (prepare(g, b)) {
        if (body(p, group))
            for (int i = g->begin; i < g->end; i++)
                b->finish(b, i);
        else
            fail(g, b, g->begin);
        counter_add(COUNTER_FUSED, calls > 1 ? calls : 0);
    }
    for (int i = g->begin; i < g->end; i++)
        zl_release(fuse_output(g, i));
    return calls;
}
