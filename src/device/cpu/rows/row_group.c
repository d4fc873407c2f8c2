// row_group.c - finds the calls that the CPU runs as one pass over memory, and where their results are stored
// in between.

#include "device/cpu/gemm/product.h"
#include "device/cpu/rows/operands.h"
#include "device/cpu/rows/reduce.h"
#include "device/cpu/rows/row_group.h"

enum {
    PART_LEAST = 8192,   // elements of a part of a product; below, an epilogue per part does not pay
    PART_MOST = 8 << 20, // bytes of a part that is not stored anywhere else
    PRODUCT_INNER = 16,  // k from which on products are fused: below, the epilogue takes longer than the
                         // product, and is better divided by itself
};

// Building --------------------------------------------------------------------------------------------------

bool cpu_group_steps(struct program *p, const struct segment *s) {
    if (!fuse_link_steps(&p->steps, s->call, s->needed))
        return false;
    for (int i = 0; i + 1 < s->calls; i++) {
        enum fuse_kind kind = p->step[i].is.kind, next = p->step[i + 1].is.kind;
        p->step[i].begins =
            kind != FUSE_OTHER && kind != FUSE_VIEW && next != FUSE_OTHER && next != FUSE_PRODUCT;
    }
    return true;
}

// Joining ---------------------------------------------------------------------------------------------------

// Returns whether an operand has different elements along a row.
static bool is_wide(const struct fuse_group *g, int index, int k) {
    zl_array x = g->call[index]->in[k];
    if (!fuse_is_outside(g, index, k))
        return !fuse_row(g, fuse_step(g, index)->source[k])->of_lines;
    return x->ndim > 0 && x->dim[x->ndim - 1] == g->line;
}

// Returns whether a call has a vector among its operands, as every row kernel needs.
static bool has_vector(const struct fuse_group *g, int index) {
    bool wide = g->line == 0;
    for (int k = 0; k < fuse_step(g, index)->inputs; k++)
        wide |= is_wide(g, index, k);
    return wide;
}

// Returns whether a call that computes one element per row can run as a row kernel over rows: its operands
// must have one contiguous element per row, or be a single element.
static bool has_lines(const struct fuse_group *g, int index) {
    bool some = false;
    for (int k = 0; k < fuse_step(g, index)->inputs; k++) {
        zl_array x = g->call[index]->in[k];
        bool is_outside = fuse_is_outside(g, index, k);
        if (is_outside && x->size == 1)
            continue;
        if (!fuse_has_line_shape(g, x) || (is_outside && !array_is(x, ARRAY_CONTIGUOUS)))
            return false;
        some = true;
    }
    return some && g->line;
}

// Returns whether a reduction can be part of the group: it needs contiguous rows, and a row kernel.
static bool is_reduction(struct group *g, int index) {
    const struct call *c = g->f.call[index];
    zl_array x = c->in[0];
    if (fuse_is_outside(&g->f, index, 0) && (array_is(x, ARRAY_INLINE) || !array_is(x, ARRAY_CONTIGUOUS)))
        return false;
    if (group_has_product(g) && !g->parts.whole_rows)
        return false;
    return cpu_reduce_choose(&group_row(g, index)->by, c->op->row, (zl_dtype)x->dtype);
}

// Returns whether a matrix product can begin the group: its parts must be large enough for an epilogue to
// pay.
static bool is_product(struct group *g) {
    const struct fuse_group *f = &g->f;
    const struct call *c = f->call[f->begin];
    g->parts = cpu_matmul_parts(c);
    return c->in[0]->dtype != ZL_COMPLEX64 && f->ndim >= 2 && f->dim[f->ndim - 1] > 1 &&
           f->dim[f->ndim - 2] > 1 && c->in[0]->dim[c->in[0]->ndim - 1] >= PRODUCT_INNER &&
           g->parts.rows * g->parts.cols >= PART_LEAST;
}

static bool joins(struct fuse_group *f, int index) {
    struct group *g = (struct group *)f;
    switch ((enum row_kind)fuse_row(f, index)->kind) {
    case ROW_ELEMENTS: return has_vector(f, index);
    case ROW_LINES: return has_lines(f, index);
    case ROW_REDUCE: return is_reduction(g, index);
    case ROW_PRODUCT: return is_product(g);
    case ROW_ASIDE:
    case ROW_VIEW: break;
    }
    return true;
}

// Counts inputs and outputs that have memory; an array that two calls read counts twice.
static enum fuse_end fits(struct fuse_group *g) {
    int count = 0;
    for (int i = g->begin; i < g->end; i++) {
        bool is_product = fuse_row(g, i)->kind == ROW_PRODUCT;
        count += fuse_is_output(g, i) || is_product;
        for (int k = 0; !is_product && k < fuse_step(g, i)->inputs; k++)
            count += fuse_is_outside(g, i, k);
    }
    return count > LAYOUT_OPERANDS ? FUSE_END_OPERANDS : FUSE_END_NONE;
}

static const struct fuse_limits limits = {.calls = FUSE_CALLS,
                                          .operands = LAYOUT_OPERANDS,
                                          .reductions = FUSE_CALLS,
                                          .line_least = REDUCE_LINE_LEAST,
                                          .line_most = REDUCE_LINE_MOST,
                                          .bitcasts = true,
                                          .products = true,
                                          .joins = joins,
                                          .fits = fits};

// Temporaries -----------------------------------------------------------------------------------------------

// Takes a temporary whose value is not needed any more, for the result of a call. It is reused only for
// elements of the same size: a kernel of several rows may store some of them before it has read all.
static int take_temp(struct group *g, int index) {
    const struct fuse_row *r = fuse_row(&g->f, index);
    int *used = r->of_lines ? &g->line_temps : &g->temps, first = r->of_lines ? GROUP_TEMPS : 0, at = 0;
    uint8_t item = g->p->step[index].item[0];
    while (at < *used && (g->temp[first + at].until >= index || g->temp[first + at].item != item))
        at++;
    if (at == GROUP_TEMPS)
        return -1;
    *used = MAX_OF(*used, at + 1);
    g->temp[first + at].until = r->until;
    g->temp[first + at].item = item;
    if (!r->of_lines)
        g->temp_item = MAX_OF(g->temp_item, item);
    return first + at;
}

// Numbers the outputs, which come first among the operands, before any input, and before the product, which
// rows only read. Returns false if there are too few temporaries.
static bool place_outputs(struct group *g) {
    int stored = 0;
    g->temps = g->line_temps = g->temp_item = 0;
    for (int i = g->f.begin; i < g->f.end; i++) {
        const struct fuse_row *r = fuse_row(&g->f, i);
        if (r->kind == ROW_VIEW || r->kind == ROW_PRODUCT)
            continue;
        int temp = r->stored ? 0 : take_temp(g, i);
        if (temp < 0)
            return false;
        group_row(g, i)->at[0] = (int8_t)(r->stored ? stored++ : -1 - temp);
    }
    return true;
}

// Finding ---------------------------------------------------------------------------------------------------

// Returns whether the group saves memory traffic: some result needs no memory.
static bool is_useful(const struct group *g) {
    int saved = 0;
    for (int i = g->f.begin; i < g->f.end; i++)
        saved += !fuse_row(&g->f, i)->stored && fuse_row(&g->f, i)->kind != ROW_VIEW;
    return g->f.end - g->f.begin > 1 && (saved > 0 || group_has_product(g));
}

// Returns whether there is space for the parts of a product that is not stored.
static bool has_room(const struct group *g) {
    if (!group_has_product(g) || g->f.row[0].stored)
        return true;
    return (size_t)(g->parts.rows * g->parts.cols) * array_item(fuse_output(&g->f, g->f.begin)) <= PART_MOST;
}

static void explain(const struct group *g, struct text *why) {
    bool is_several = g->f.end - g->f.begin > 1;
    if (is_several && !has_room(g))
        text_add(why, "parts of the product have more than %d MiB: they would not stay in the cache",
                 PART_MOST >> 20);
    else if (is_several && !is_useful(g))
        text_add(why, "every result is read elsewhere too");
    else
        fuse_explain(&g->f, why);
}

void row_group_begin(struct group *g, const struct program *p, struct binding *b, int index) {
    g->p = p;
    g->b = b;
    g->f.steps = &p->steps;
    g->f.call = b->call;
    g->f.limits = &limits;
    g->f.begin = index;
    g->f.columns = 0;
}

bool row_group_find(struct group *g, struct text *why) {
    if (!fuse_find(&g->f))
        return false;
    if (why)
        explain(g, why);
    return is_useful(g) && has_room(g) && place_outputs(g);
}
