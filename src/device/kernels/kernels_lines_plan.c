// kernels_lines_plan.c - decides which stage of a kernel of lines computes which values.

#include "device/kernels/kernels_lines.h"

int line_reduction(const struct line_recipe *r, int row) {
    for (int k = 0; k < r->reductions; k++)
        if (r->reduction[k] == row)
            return k;
    return -1;
}

bool line_divides(const struct line_recipe *r, int row) {
    const struct fuse_op *op = line_row(r, row);
    return op->kind == ROW_ELEMENTS && op->op == TILE_DIV && op->dtype == ZL_FLOAT32 &&
           fuse_is_row(op->arg[1]) && line_row(r, op->arg[1])->kind != ROW_ELEMENTS;
}

bool line_is_softmax(const struct line_recipe *r) {
    if (r->reductions != 2)
        return false;
    const struct fuse_op *most = line_row(r, r->reduction[0]), *sum = line_row(r, r->reduction[1]);
    if (most->op != TILE_MAX || sum->op != TILE_ADD || most->from != ZL_FLOAT32 || !fuse_is_row(sum->arg[0]))
        return false;
    const struct fuse_op *power = line_row(r, sum->arg[0]);
    if (power->op != TILE_EXP || power->dtype != ZL_FLOAT32 || !fuse_is_row(power->arg[0]))
        return false;
    const struct fuse_op *less = line_row(r, power->arg[0]);
    return less->op == TILE_SUB && less->dtype == ZL_FLOAT32 && less->arg[0] == most->arg[0] &&
           less->arg[1] == r->reduction[0];
}

// Returns whether it costs less to compute a row again, in a few instructions, than to keep a register per
// element.
static bool is_cheap(const struct line_recipe *r, const struct fuse_op *op) {
    switch ((enum tile_op)op->op) {
    case TILE_EXP: return r->rough;
    case TILE_ADD:
    case TILE_SUB:
    case TILE_MUL:
    case TILE_SQUARE:
    case TILE_NEG:
    case TILE_ABS:
    case TILE_MAX:
    case TILE_MIN:
    case TILE_CAST:
    case TILE_SELECT: return op->dtype != ZL_COMPLEX64;
    default: return false;
    }
}

static void find_levels(const struct line_recipe *r, struct line_plan *p) {
    for (int row = 0; row < r->f.rows; row++) {
        const struct fuse_op *op = line_row(r, row);
        p->level[row] = 0;
        for (int k = 0; k < op->inputs; k++)
            if (fuse_is_row(op->arg[k]))
                p->level[row] = MAX_OF(p->level[row], p->level[op->arg[k]]);
        p->level[row] = (int8_t)(p->level[row] + (op->kind == ROW_REDUCE));
        p->levels = MAX_OF(p->levels, p->level[row]);
    }
}

struct walk {
    const struct line_recipe *r;
    struct line_plan *p;
    struct line_function *f;
    int stage;
    uint32_t seen;
};

static void visit(struct walk *w, int reference);

static void visit_operands(struct walk *w, int row) {
    const struct fuse_op *op = line_row(w->r, row);
    for (int k = 0; k < op->inputs; k++)
        visit(w, op->arg[k]);
    if (line_divides(w->r, row))
        w->f->inverses |= 1u << op->arg[1];
}

static void visit(struct walk *w, int reference) {
    if (!fuse_is_row(reference)) {
        w->f->inputs |= 1u << (reference & ~FUSE_INPUT);
        return;
    }
    const struct fuse_op *op = line_row(w->r, reference);
    if (w->seen >> reference & 1)
        return;
    w->seen |= 1u << reference;
    if (op->kind == ROW_REDUCE)
        return;
    if (op->kind == ROW_LINES)
        w->f->rows |= 1u << reference;
    else if (w->r->packs && w->p->level[reference] < w->stage && !is_cheap(w->r, op))
        w->f->kept |= 1u << reference;
    else
        visit_operands(w, reference);
}

static void want(struct line_function *f, int reference) {
    f->wanted[f->count++] = (int16_t)reference;
}

static void list_wanted(const struct line_recipe *r, const struct line_plan *p, int stage,
                        struct line_function *f) {
    for (int k = 0; stage < p->levels && k < r->reductions; k++)
        if (p->level[r->reduction[k]] == stage + 1)
            want(f, line_row(r, r->reduction[k])->arg[0]);
    for (int row = 0; row < r->f.rows; row++)
        if (p->kept >> row & 1 && p->level[row] == stage)
            want(f, row);
    for (int k = 0; stage == p->levels && k < r->f.outputs; k++)
        if (!fuse_output_of_lines(&r->f, k))
            want(f, fuse_output_row(&r->f, k));
}

// The last stage is planned first, because earlier stages keep what it needs of them.
void line_plan(const struct line_recipe *r, struct line_plan *out) {
    *out = (struct line_plan){0};
    find_levels(r, out);
    for (int stage = out->levels; stage >= 0; stage--) {
        struct line_function *f = &out->stage[stage];
        list_wanted(r, out, stage, f);
        for (int k = 0; k < f->count; k++) {
            struct walk w = {r, out, f, stage, 0};
            visit(&w, f->wanted[k]);
        }
        out->kept |= f->kept;
        out->rows |= f->rows;
        out->inverse |= f->inverses;
    }
}
