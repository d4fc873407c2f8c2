// row_group.c - finds which calls, from one on, run as one pass over memory.
//
// Which calls lie next to each other is found when a program is built; how far a group goes, at each run, when sizes are
// known.

#include "device/cpu/row_group.h"
#include "op/ops.h"

enum {
    PART_LEAST = 8192,   // elements of a part of a product with which it pays to go on at once
    PART_MOST = 8 << 20, // bytes of one that is kept nowhere else
    PRODUCT_INNER = 16,  // sums of fewer products: the rest is the longer work, and is split by itself
};

// Building -------------------------------------------------------------------------------------------------------

static bool find_sources(struct program *p, const struct segment *s) {
    struct map calls = {0};
    bool done = true;
    for (int i = 0; done && i < s->calls; i++) {
        const struct call *c = s->call[i];
        struct step *step = &p->step[i];
        step->needed = s->needed[i];
        step->last = -1;
        for (int k = 0; k < c->inputs; k++) {
            const struct call *from = c->in[k]->call;
            uintptr_t at = from ? (uintptr_t)map_get(&calls, &from, sizeof from) : 0;
            if (at)
                p->step[at - 1].last = i;
            if (k < 3)
                step->source[k] = (int32_t)at - 1;
        }
        done = map_set(&calls, &c, sizeof c, (void *)(uintptr_t)(i + 1));
    }
    map_free(&calls);
    return done;
}

static bool may_join(const struct call *c) {
    switch (c->op->kind) {
    case OP_ELEMENTWISE:
    case OP_CAST:
    case OP_REDUCE: return true;
    case OP_VIEW: return c->inputs == 1;
    default: return false;
    }
}

bool cpu_group_steps(struct program *p, const struct segment *s) {
    if (!find_sources(p, s))
        return false;
    for (int i = s->calls - 1, after = 0; i >= 0; i--) {
        const struct op *op = s->call[i]->op;
        int count = MIN_OF(after + 1, GROUP_CALLS);
        after = may_join(s->call[i]) ? count : 0;
        p->step[i].group = (uint16_t)(op_is_product(op) ? count : op->kind == OP_VIEW ? 0 : after);
    }
    return true;
}

// Kinds ----------------------------------------------------------------------------------------------------------

static bool has_shape(const struct group *g, zl_array x) {
    return shape_equal(x->ndim, x->dim, g->ndim, g->dim);
}

// One element a line: the group's shape, with 1 for the last axis.
static bool has_line_shape(const struct group *g, zl_array x) {
    return x->ndim == g->ndim && x->dim[g->ndim - 1] == 1 &&
           shape_equal(g->ndim - 1, x->dim, g->ndim - 1, g->dim);
}

// An operand that differs along a line.
static bool is_wide(struct group *g, int index, int k) {
    zl_array x = g->b->call[index]->in[k];
    if (!group_is_external(g, index, k))
        return !group_row(g, g->p->step[index].source[k])->of_lines;
    return x->ndim > 0 && x->dim[x->ndim - 1] == g->line;
}

// Every row has a vector among its operands.
static bool is_of_elements(struct group *g, int index) {
    bool wide = g->line == 0;
    for (int k = 0; k < g->p->step[index].inputs; k++)
        wide |= is_wide(g, index, k);
    return wide;
}

// A row of one element a line reads such, or the same for all of them.
static bool is_of_lines(struct group *g, int index) {
    bool some = false;
    for (int k = 0; k < g->p->step[index].inputs; k++) {
        zl_array x = g->b->call[index]->in[k];
        if (!group_is_external(g, index, k)) {
            if (!group_row(g, g->p->step[index].source[k])->of_lines || !has_line_shape(g, x))
                return false;
            some = true;
        } else if (x->size != 1) {
            if (!has_line_shape(g, x) || !array_is(x, ARRAY_CONTIGUOUS))
                return false;
            some = true;
        }
    }
    return some;
}

// Lines of the group's shape that lie behind each other, each reduced to one element.
static bool is_reduction(struct group *g, int index, struct row *r) {
    const struct call *c = g->b->call[index];
    zl_array x = c->in[0];
    int64_t line = x->ndim ? x->dim[x->ndim - 1] : 0;
    if (!has_shape(g, x) || c->args != 1 || call_args(c)[0] != x->ndim - 1 || line < REDUCE_LINE_LEAST ||
        line > REDUCE_LINE_MOST)
        return false;
    if (group_is_external(g, index, 0) ? array_is(x, ARRAY_INLINE) || !array_is(x, ARRAY_CONTIGUOUS)
                                       : group_row(g, g->p->step[index].source[0])->of_lines)
        return false;
    if (group_has_product(g) && !g->parts.whole_rows)
        return false;
    g->line = line;
    return cpu_reduce_choose(&r->by, c->op->row, (zl_dtype)x->dtype);
}

// A view of a result with the same elements in the same order, or of one element a line for all its elements.
static bool is_alias(struct group *g, int index, struct row *r) {
    zl_array out = group_output(g, index), x = g->b->call[index]->in[0];
    if (group_is_external(g, index, 0) || out->offset != 0)
        return false;
    r->of_lines = group_row(g, g->p->step[index].source[0])->of_lines;
    if (!r->of_lines)
        return has_shape(g, out) && shape_lies_alike(g->ndim, g->dim, array_stride(out), array_stride(x));
    if (has_line_shape(g, out))
        return array_is(out, ARRAY_CONTIGUOUS);
    if (!has_shape(g, out) || array_stride(out)[g->ndim - 1] != 0)
        return false;
    int64_t expected = 1;
    for (int i = g->ndim - 2; i >= 0; i--) {
        if (out->dim[i] != 1 && array_stride(out)[i] != expected)
            return false;
        expected *= out->dim[i];
    }
    return true;
}

// A product of matrices whose parts are worth going on with.
static bool is_product(struct group *g, int index, struct row *r) {
    const struct call *c = g->b->call[index];
    r->kind = ROW_PRODUCT;
    r->of_lines = false;
    g->parts = cpu_matmul_parts(c);
    return c->in[0]->dtype != ZL_COMPLEX64 && g->ndim >= 2 && g->dim[g->ndim - 1] > 1 &&
           g->dim[g->ndim - 2] > 1 && c->in[0]->dim[c->in[0]->ndim - 1] >= PRODUCT_INNER &&
           g->parts.rows * g->parts.cols >= PART_LEAST;
}

// Whether a call can be the next of the group; what its row is then.
static bool join(struct group *g, int index) {
    struct row *r = group_row(g, index);
    zl_array out = group_output(g, index);
    r->of_lines = false;
    switch (g->b->call[index]->op->kind) {
    case OP_REDUCE:
        r->kind = ROW_REDUCE;
        r->of_lines = true;
        return is_reduction(g, index, r);
    case OP_VIEW: r->kind = ROW_VIEW; return is_alias(g, index, r);
    default: break;
    }
    if (has_shape(g, out)) {
        r->kind = ROW_ELEMENTS;
        return is_of_elements(g, index);
    }
    r->kind = ROW_LINES;
    r->of_lines = true;
    return g->line && has_line_shape(g, out) && is_of_lines(g, index);
}

// The end --------------------------------------------------------------------------------------------------------

// Something reads the result that does not belong to the group.
static bool is_read_outside(const struct group *g, int index) {
    const struct step *s = &g->p->step[index];
    return s->needed || s->last >= g->end;
}

// What is stored, and until when results are read: a view passes both on to what it is one of.
static void find_uses(struct group *g) {
    for (int i = g->begin; i < g->end; i++) {
        group_row(g, i)->stored = is_read_outside(g, i);
        group_row(g, i)->until = g->p->step[i].last;
    }
    for (int i = g->end - 1; i >= g->begin; i--) {
        struct row *r = group_row(g, i);
        if (r->kind != ROW_VIEW)
            continue;
        struct row *source = group_row(g, g->p->step[i].source[0]);
        source->stored |= r->stored;
        source->until = MAX_OF(source->until, r->until);
    }
}

// Inputs and outputs with memory, counting an array twice if two calls read it.
static int count_operands(struct group *g) {
    int count = 0;
    find_uses(g);
    for (int i = g->begin; i < g->end; i++) {
        const struct row *r = group_row(g, i);
        count += group_is_output(g, i) || r->kind == ROW_PRODUCT;
        for (int k = 0; k < g->p->step[i].inputs; k++)
            count += group_is_external(g, i, k);
    }
    return count;
}

// What kept the call at the end of the group from joining it.
static const char *why_it_ends(struct group *g, int most) {
    if (g->end == g->p->steps)
        return NULL;
    if (g->end == most)
        return may_join(g->b->call[g->end]) ? "a kernel has 32 calls at most"
                                            : "what follows is not elementwise";
    if (g->b->call[g->end]->op->kind == OP_REDUCE)
        return "what follows reduces other axes, or lines of fewer than 32 elements or more than 65536";
    if (g->b->call[g->end]->op->kind == OP_VIEW)
        return "what follows has its elements in another order";
    return has_shape(g, group_output(g, g->end)) ? "a kernel has 16 operands at most"
                                                 : "what follows has another shape";
}

static void find_end(struct group *g, const char **why) {
    int most = g->begin + g->p->step[g->begin].group;
    g->end = g->begin + 1;
    while (g->end < most && join(g, g->end))
        g->end++;
    *why = why_it_ends(g, most);
    while (g->end > g->begin + 1 && count_operands(g) > LAYOUT_OPERANDS) {
        g->end--;
        *why = "a kernel has 16 operands at most";
    }
    while (g->end > g->begin + 1 && group_row(g, g->end - 1)->kind == ROW_VIEW)
        g->end--;
    find_uses(g);
}

// Temporaries ----------------------------------------------------------------------------------------------------

// A temporary that nothing reads any more, for the result of a call. One is only used again for elements of the same
// size: a kernel of several rows may write some of them before it has read all.
static int take_temp(struct group *g, int index) {
    const struct row *r = group_row(g, index);
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

// Outputs come first among the operands: they are numbered before any input is. The product is the first of those: rows only
// read it.
static bool place_outputs(struct group *g) {
    int stored = 0, outputs = 0;
    g->temps = g->line_temps = g->temp_item = 0;
    for (int i = g->begin; i < g->end; i++)
        outputs += group_is_output(g, i);
    for (int i = g->begin; i < g->end; i++) {
        struct row *r = group_row(g, i);
        if (r->kind == ROW_VIEW || r->kind == ROW_PRODUCT) {
            bool is_view = r->kind == ROW_VIEW;
            r->at[0] = is_view ? group_row(g, g->p->step[i].source[0])->at[0] : (int8_t)outputs;
            continue;
        }
        int temp = r->stored ? 0 : take_temp(g, i);
        if (temp < 0)
            return false;
        r->at[0] = (int8_t)(r->stored ? stored++ : -1 - temp);
    }
    return true;
}

// -----------------------------------------------------------------------------------------------------------------

// Whether it is worth it: some result needs no memory.
static bool is_useful(struct group *g) {
    int saved = 0;
    for (int i = g->begin; i < g->end; i++)
        saved += !group_row(g, i)->stored && group_row(g, i)->kind != ROW_VIEW;
    return g->end - g->begin > 1 && (saved > 0 || group_has_product(g));
}

// A product that is kept nowhere has room for its parts.
static bool has_room(const struct group *g) {
    if (!group_has_product(g) || g->row[0].stored)
        return true;
    return (size_t)(g->parts.rows * g->parts.cols) * array_item(group_output(g, g->begin)) <= PART_MOST;
}

bool group_find(struct group *g, const char **why) {
    const char *ended;
    const struct op *op = g->b->call[g->begin]->op;
    bool reduces = op->kind == OP_REDUCE;
    zl_array shape = reduces ? g->b->call[g->begin]->in[0] : group_output(g, g->begin);
    *(why ? why : &ended) = NULL;
    g->ndim = shape->ndim;
    g->dim = shape->dim;
    g->line = 0;
    if (op_is_product(op) ? !is_product(g, g->begin, g->row) : !join(g, g->begin))
        return false;
    find_end(g, &ended);
    if (g->end - g->begin > 1 && !is_useful(g))
        ended = "every result is read elsewhere too";
    if (g->end - g->begin > 1 && !has_room(g))
        ended = "parts of the product have more than 8 MiB: they would not stay in the cache";
    if (why)
        *why = ended;
    return is_useful(g) && has_room(g) && place_outputs(g);
}
