// kernels_lines_plan.c - which stage of a kernel of lines computes what.

#include "device/kernels/kernels_lines.h"

int line_reduction(const struct line_recipe *r, int row) {
    for (int k = 0; k < r->reductions; k++)
        if (r->reduction[k] == row)
            return k;
    return -1;
}

static bool is_row(int reference) {
    return !(reference & GROUP_INPUT);
}

bool line_divides(const struct line_recipe *r, int row) {
    const int16_t *word = line_row(r, row);
    return word[0] == LINE_OF_ELEMENTS && word[1] == TILE_DIV && word[2] == ZL_FLOAT32 && is_row(word[6]) &&
           line_row(r, word[6])[0] != LINE_OF_ELEMENTS;
}

bool line_is_softmax(const struct line_recipe *r) {
    enum { OP = 1, DTYPE, FROM, FIRST = 5, SECOND };
    if (r->reductions != 2 || r->outputs != 1 || r->output[0] & 1)
        return false;
    int most = r->reduction[0], sum = r->reduction[1];
    const int16_t *top = line_row(r, most), *total = line_row(r, sum),
                  *quotient = line_row(r, r->output[0] >> 1);
    if (top[OP] != TILE_MAX || top[FROM] != ZL_FLOAT32 || total[OP] != TILE_ADD || !is_row(total[FIRST]) ||
        quotient[OP] != TILE_DIV || quotient[FIRST] != total[FIRST] || quotient[SECOND] != sum)
        return false;
    const int16_t *power = line_row(r, total[FIRST]);
    if (power[OP] != TILE_EXP || power[DTYPE] != ZL_FLOAT32 || !is_row(power[FIRST]))
        return false;
    const int16_t *less = line_row(r, power[FIRST]);
    return less[OP] == TILE_SUB && less[DTYPE] == ZL_FLOAT32 && less[FIRST] == top[FIRST] &&
           less[SECOND] == most;
}

// A few instructions, which cost less than a register for each element.
static bool is_cheap(const struct line_recipe *r, const int16_t *word) {
    switch ((enum tile_op)word[1]) {
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
    case TILE_SELECT: return word[2] != ZL_COMPLEX64;
    default: return false;
    }
}

static void find_levels(const struct line_recipe *r, struct line_plan *p) {
    for (int row = 0; row < r->rows; row++) {
        const int16_t *word = line_row(r, row);
        p->level[row] = 0;
        for (int k = 0; k < word[4]; k++)
            if (is_row(word[5 + k]))
                p->level[row] = MAX_OF(p->level[row], p->level[word[5 + k]]);
        p->level[row] = (int8_t)(p->level[row] + (word[0] == LINE_REDUCES));
        p->levels = MAX_OF(p->levels, p->level[row]);
    }
}

struct walk {
    const struct line_recipe *r;
    struct line_plan *p; // NULL: of a function of one element a line
    struct line_function *f;
    int stage;
    uint32_t seen;
};

static void visit(struct walk *w, int reference);

static void visit_operands(struct walk *w, int row) {
    const int16_t *word = line_row(w->r, row);
    for (int k = 0; k < word[4]; k++)
        visit(w, word[5 + k]);
    if (line_divides(w->r, row))
        w->f->inverses |= 1u << word[6];
}

static void visit(struct walk *w, int reference) {
    if (!is_row(reference)) {
        w->f->inputs |= 1u << (reference & ~GROUP_INPUT);
        return;
    }
    const int16_t *word = line_row(w->r, reference);
    if (w->seen >> reference & 1)
        return;
    w->seen |= 1u << reference;
    if (word[0] == LINE_REDUCES)
        w->f->reductions |= 1u << line_reduction(w->r, reference);
    else if (w->p && word[0] == LINE_OF_LINES)
        w->f->rows |= 1u << reference;
    else if (w->p && w->r->packs && w->p->level[reference] < w->stage && !is_cheap(w->r, word))
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
            want(f, line_row(r, r->reduction[k])[5]);
    for (int row = 0; row < r->rows; row++)
        if (p->kept >> row & 1 && p->level[row] == stage)
            want(f, row);
    for (int k = 0; stage == p->levels && k < r->outputs; k++)
        if (!(r->output[k] & 1))
            want(f, r->output[k] >> 1);
}

// The last stage first: what it wants of earlier ones is kept there.
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

void line_plan_row(const struct line_recipe *r, int row, struct line_function *out) {
    *out = (struct line_function){0};
    want(out, row);
    struct walk w = {r, NULL, out, 0, 0};
    visit(&w, row);
}
