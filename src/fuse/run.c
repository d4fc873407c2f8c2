// run.c - runs the calls of a group as one: allocates their results, then publishes all of them or marks all
// of them as failed.

#include "fuse/fuse.h"

// Marks all calls of the group as failed, for the reason of the call `first`.
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

// Returns whether all arrays of `size` elements that the group reads from outside have one element per line.
static bool only_lines_have(const struct fuse_group *g, int64_t size) {
    for (int i = g->begin; i < g->end; i++)
        for (int k = 0; k < fuse_step(g, i)->inputs; k++) {
            zl_array x = g->call[i]->in[k];
            if (fuse_is_outside(g, i, k) && x->size == size && !fuse_has_line_shape(g, x))
                return false;
        }
    return true;
}

// Returns whether the result may overwrite an input. A pass over elements reads each element before it writes
// to its place, and a column is read completely before results are computed from its sums. But if a result
// has one element per line along the last axis, or follows a product, other results may be computed from the
// input later.
static bool may_be_in_place(const struct fuse_group *g, int index) {
    const struct fuse_row *r = fuse_row(g, index);
    if (r->kind == ROW_LINES)
        return g->columns && only_lines_have(g, fuse_output(g, index)->size);
    return r->kind == ROW_ELEMENTS && g->row[0].kind != ROW_PRODUCT;
}

static bool prepare(const struct fuse_group *g, struct binding *b) {
    for (int i = g->begin; i < g->end; i++) {
        const struct fuse_row *r = fuse_row(g, i);
        if (!r->stored && r->kind != ROW_ASIDE) // the kernel reads views of arrays from outside
            continue;
        bool in_place = may_be_in_place(g, i);
        if (in_place)
            b->take(b, g->begin, i);
        if (b->prepare(b, i, in_place ? UINT64_MAX : 0))
            continue;
        fail(g, b, i);
        return false;
    }
    return true;
}

// A call that fails releases its inputs, so the group's own results are retained until all of it is finished.
int fuse_run_group(struct fuse_group *g, struct binding *b, fuse_body *body) {
    for (int i = g->begin; i < g->end; i++)
        zl_retain(fuse_output(g, i));
    bool is_ready = prepare(g, b), done = is_ready && body(g);
    for (int i = g->begin; done && i < g->end; i++)
        b->finish(b, i);
    if (is_ready && !done)
        fail(g, b, g->begin);
    for (int i = g->begin; i < g->end; i++)
        zl_release(fuse_output(g, i));
    return g->end - g->begin;
}
