// steps.c - finds the facts of a program's calls from which groups are found: their kinds and dtypes, and
// which calls compute and read each result.

#include "fuse/fuse.h"
#include "op/ops.h"

static enum fuse_kind kind_of(const struct op *op) {
    switch (op->kind) {
    case OP_VIEW: return FUSE_VIEW;
    case OP_ELEMENTWISE:
    case OP_CAST:
    case OP_COPY: return FUSE_MAP;
    case OP_REDUCE: return FUSE_REDUCE;
    default: return op_is_product(op) ? FUSE_PRODUCT : FUSE_OTHER;
    }
}

void fuse_set_step(struct fuse_step *s, const struct call *c) {
    *s = (struct fuse_step){
        .kind = (uint8_t)kind_of(c->op), .inputs = (uint8_t)MIN_OF(c->inputs, 3), .last = -1};
    if (s->kind != FUSE_MAP && s->kind != FUSE_REDUCE)
        return;
    zl_dtype dtype = c->op->kind == OP_ELEMENTWISE ? op_computes_in(c) : (zl_dtype)c->in[0]->dtype;
    s->dtype[0] = call_first(c)->dtype;
    for (int k = 0; k < c->inputs; k++)
        s->dtype[k + 1] = (uint8_t)(c->inputs == 3 && k == 0 ? ZL_BOOL : dtype);
}

bool fuse_link_steps(const struct fuse_steps *s, struct call *const *call, const uint8_t *needed) {
    struct map calls = {0};
    bool done = true;
    for (int i = 0; done && i < s->count; i++) {
        const struct call *c = call[i];
        struct fuse_step *step = fuse_step_at(s, i);
        step->needed = needed[i];
        step->last = -1;
        for (int k = 0; k < c->inputs; k++) {
            const struct call *from = c->in[k]->call;
            uintptr_t at = from ? (uintptr_t)map_get(&calls, &from, sizeof from) : 0;
            if (at)
                fuse_step_at(s, (int)at - 1)->last = i;
            if (k < 3)
                step->source[k] = (int32_t)at - 1;
        }
        done = map_set(&calls, &c, sizeof c, (void *)(uintptr_t)(i + 1));
    }
    map_free(&calls);
    return done;
}

// On booleans, the maximum is a logical or, and the minimum a logical and.
enum tile_op fuse_combines(const struct call *c) {
    enum tile_op op = c->op->row;
    if (c->in[0]->dtype == ZL_BOOL)
        op = op == TILE_MAX ? TILE_OR : op == TILE_MIN ? TILE_AND : op;
    return op;
}
