// group.c - finds which calls, starting at a given one, run as one pass over memory.
//
// The facts of the calls are found when a program is built; where a group ends is found at each run, when
// sizes are known.

#include "fuse/fuse.h"

static struct fuse_row *row_at(struct fuse_group *g, int index) {
    return &g->row[index - g->begin];
}

// Returns the row of the call that computes input k of the call at `index`.
static struct fuse_row *row_before(struct fuse_group *g, int index, int k) {
    return row_at(g, fuse_step(g, index)->source[k]);
}

int fuse_source(const struct fuse_group *g, int index, int k) {
    int source = fuse_step(g, index)->source[k];
    while (source >= g->begin && fuse_row(g, source)->kind == ROW_VIEW)
        source = fuse_step(g, source)->source[0];
    return source >= g->begin ? source : -1;
}

bool fuse_is_ready(const struct fuse_group *g, int index) {
    for (int k = 0; k < fuse_step(g, index)->inputs; k++) {
        enum array_state state = array_state(g->call[index]->in[k]);
        if (fuse_is_outside(g, index, k) && (state == ARRAY_FAILED || state == ARRAY_CONSUMED))
            return false;
    }
    return true;
}

// Joining ---------------------------------------------------------------------------------------------------

static bool is_along(const struct fuse_group *g, int axis) {
    return g->columns ? axis < g->columns : axis == g->ndim - 1;
}

// Returns the size of x along an axis of the group. The axes of x are the group's last ones; it has size 1
// along the others.
static int64_t dim_at(const struct fuse_group *g, zl_array x, int axis) {
    int at = axis - (g->ndim - x->ndim);
    return at < 0 ? 1 : x->dim[at];
}

// Returns whether all elements of a line read the same element of x, which may have fewer axes than the
// group.
static bool is_same_along(const struct fuse_group *g, zl_array x) {
    bool same = x->ndim <= g->ndim;
    for (int i = 0; same && i < g->ndim; i++)
        same = !is_along(g, i) || dim_at(g, x, i) == 1;
    return same;
}

bool fuse_has_line_shape(const struct fuse_group *g, zl_array x) {
    bool has = is_same_along(g, x) && (x->ndim == g->ndim || g->columns);
    for (int i = 0; has && i < g->ndim; i++)
        has = is_along(g, i) || dim_at(g, x, i) == g->dim[i];
    return has;
}

// Returns whether x has one element per line, contiguous and broadcast along the lines.
static bool is_stretched(const struct fuse_group *g, zl_array x) {
    int64_t expected = 1;
    if (!fuse_has_shape(g, x))
        return false;
    for (int i = g->ndim - 1; i >= 0; i--) {
        if (x->dim[i] != 1 && array_stride(x)[i] != (is_along(g, i) ? 0 : expected))
            return false;
        expected *= is_along(g, i) ? 1 : x->dim[i];
    }
    return true;
}

// Returns whether the call is a view of an earlier result: the same elements in the same order, or one
// element per line broadcast along the line.
static bool is_alias(struct fuse_group *g, int index, struct fuse_row *r) {
    zl_array out = fuse_output(g, index), x = g->call[index]->in[0];
    if (fuse_step(g, index)->inputs != 1 || fuse_is_outside(g, index, 0) || out->offset != 0 ||
        (out->dtype != x->dtype && !g->limits->bitcasts))
        return false;
    r->of_lines = row_before(g, index, 0)->of_lines;
    if (!r->of_lines)
        return fuse_has_shape(g, out) &&
               shape_same_layout(g->ndim, g->dim, array_stride(out), array_stride(x));
    return fuse_has_line_shape(g, out) ? array_is(out, ARRAY_CONTIGUOUS) : is_stretched(g, out);
}

static bool is_aside(const struct fuse_group *g, int index) {
    const struct call *c = g->call[index];
    return g->limits->asides && index > g->begin && c->inputs == 1 && c->outputs == 1 &&
           fuse_is_outside(g, index, 0);
}

static bool is_of_lines(struct fuse_group *g, int index, int k) {
    return fuse_is_outside(g, index, k) ? is_same_along(g, g->call[index]->in[k])
                                        : row_before(g, index, k)->of_lines;
}

// Returns whether the call is elementwise in the shape of the group. In a group of columns the sums are known
// only at the end of the pass, so no element may be computed from them.
static bool maps_elements(struct fuse_group *g, int index) {
    bool good = fuse_has_shape(g, fuse_output(g, index));
    for (int k = 0; good && g->columns && k < fuse_step(g, index)->inputs; k++)
        good = fuse_is_outside(g, index, k) || !row_before(g, index, k)->of_lines;
    return good;
}

// Returns whether the call computes one element per line, from inputs that have one per line or are constant
// along a line.
static bool maps_lines(struct fuse_group *g, int index) {
    bool good = g->limits->reductions && fuse_has_line_shape(g, fuse_output(g, index));
    for (int k = 0; good && k < fuse_step(g, index)->inputs; k++)
        good = is_of_lines(g, index, k);
    return good;
}

// Returns whether a reduction is over exactly the axes first, first + 1, ..., in order.
static bool is_over(const struct call *c, int first, int count) {
    bool is = c->args == count;
    for (int i = 0; is && i < count; i++)
        is = call_args(c)[i] == first + i;
    return is;
}

static int64_t line_of(const struct fuse_group *g) {
    int64_t line = 1;
    for (int i = 0; i < g->ndim; i++)
        line *= is_along(g, i) ? g->dim[i] : 1;
    return line;
}

static bool reduces_lines(struct fuse_group *g, int index) {
    const struct fuse_limits *most = g->limits;
    const struct call *c = g->call[index];
    zl_array x = c->in[0];
    if (g->reductions == most->reductions || !fuse_has_shape(g, x) ||
        !(g->columns ? is_over(c, 0, g->columns) : is_over(c, x->ndim - 1, 1)))
        return false;
    int64_t line = line_of(g);
    return line >= most->line_least && line <= most->line_most &&
           (fuse_is_outside(g, index, 0) || !row_before(g, index, 0)->of_lines);
}

// Returns whether the call at `index` can be the next of the group, and sets its row.
static bool join(struct fuse_group *g, int index) {
    struct fuse_row *r = row_at(g, index);
    bool joins = false;
    *r = (struct fuse_row){.kind = ROW_ELEMENTS};
    switch ((enum fuse_kind)fuse_step(g, index)->kind) {
    case FUSE_VIEW:
        r->kind = is_aside(g, index) ? ROW_ASIDE : ROW_VIEW;
        joins = r->kind == ROW_ASIDE || is_alias(g, index, r);
        break;
    case FUSE_REDUCE:
        *r = (struct fuse_row){.kind = ROW_REDUCE, .of_lines = true};
        joins = reduces_lines(g, index);
        break;
    case FUSE_MAP:
        joins = maps_elements(g, index);
        if (!joins) {
            *r = (struct fuse_row){.kind = ROW_LINES, .of_lines = true};
            joins = maps_lines(g, index);
        }
        break;
    case FUSE_PRODUCT:
        r->kind = ROW_PRODUCT;
        joins = g->limits->products && index == g->begin;
        break;
    case FUSE_OTHER: break;
    }
    if (!joins || !fuse_is_ready(g, index) || (g->limits->joins && !g->limits->joins(g, index)))
        return false;
    if (r->kind == ROW_REDUCE) {
        g->line = line_of(g);
        g->reductions++;
    }
    return true;
}

// The end ---------------------------------------------------------------------------------------------------

// A call that reads a view reads the result that it is a view of.
void fuse_find_uses(struct fuse_group *g) {
    g->outputs = 0;
    for (int i = g->begin; i < g->end; i++) {
        const struct fuse_step *s = fuse_step(g, i);
        row_at(g, i)->stored = s->needed || s->last >= g->end || g->end == g->begin + 1;
        row_at(g, i)->until = s->last;
    }
    for (int i = g->end - 1; i >= g->begin; i--) {
        const struct fuse_row *r = fuse_row(g, i);
        if (r->kind != ROW_VIEW)
            continue;
        struct fuse_row *source = row_before(g, i, 0);
        source->stored |= r->stored;
        source->until = MAX_OF(source->until, r->until);
    }
    for (int i = g->begin; i < g->end; i++)
        g->outputs += fuse_is_output(g, i);
}

// Returns what kept the call at g->end out of the group.
static enum fuse_end reason(const struct fuse_group *g) {
    if (g->end == g->steps->count)
        return FUSE_END_NONE;
    enum fuse_kind kind = fuse_step(g, g->end)->kind;
    if (kind == FUSE_OTHER || kind == FUSE_PRODUCT)
        return FUSE_END_OP;
    if (g->end - g->begin == g->limits->calls)
        return FUSE_END_CALLS;
    if (kind == FUSE_MAP)
        return fuse_has_shape(g, fuse_output(g, g->end)) ? FUSE_END_INPUTS : FUSE_END_SHAPE;
    return kind == FUSE_REDUCE ? FUSE_END_REDUCTION : FUSE_END_ORDER;
}

// Sets inputs[i] to the number of different arrays from outside that the calls up to call i read. Ends the
// group before the first call with too many.
static void count_inputs(struct fuse_group *g, int *inputs) {
    zl_array input[FUSE_OPERANDS];
    int count = 0;
    for (int i = g->begin; i < g->end; i++) {
        enum row_kind kind = (enum row_kind)fuse_row(g, i)->kind;
        int operands = kind == ROW_PRODUCT || kind == ROW_ASIDE ? 0 : fuse_step(g, i)->inputs;
        for (int k = 0; k < operands; k++) {
            int at = 0;
            if (!fuse_is_outside(g, i, k))
                continue;
            while (at < count && input[at] != g->call[i]->in[k])
                at++;
            if (at == g->limits->operands) {
                g->end = i;
                return;
            }
            input[at] = g->call[i]->in[k];
            count = MAX_OF(count, at + 1);
        }
        inputs[i - g->begin] = count;
    }
}

// Returns the number of results that are read after the group. Results that are read only through views are
// not counted.
static int count_outputs(const struct fuse_group *g) {
    int count = 0;
    for (int i = g->begin; i < g->end; i++) {
        const struct fuse_step *s = fuse_step(g, i);
        enum row_kind kind = (enum row_kind)fuse_row(g, i)->kind;
        bool has_memory = !row_is_view(kind) && kind != ROW_PRODUCT;
        count += has_memory && (s->needed || s->last >= g->end);
    }
    return count;
}

// Drops calls from the end while the group has more operands than any kernel can have, however these are
// counted. A program may have many unrelated calls of one shape, and asking the device about each possible
// end would be slow.
static void drop_surplus(struct fuse_group *g) {
    int inputs[FUSE_CALLS], end = g->end;
    count_inputs(g, inputs);
    while (g->end > g->begin + 1 && inputs[g->end - 1 - g->begin] + count_outputs(g) > g->limits->operands)
        g->end--;
    if (g->end < end)
        g->ended = FUSE_END_OPERANDS;
}

// Drops views from the end of the group: the kernel does not need them.
static enum fuse_end settle(struct fuse_group *g) {
    while (g->end > g->begin && row_is_view((enum row_kind)fuse_row(g, g->end - 1)->kind))
        g->end--;
    fuse_find_uses(g);
    return g->end > g->begin && g->limits->fits ? g->limits->fits(g) : FUSE_END_NONE;
}

static zl_array shape_of(const struct call *first) {
    return first->op->kind == OP_REDUCE ? first->in[0] : call_first(first);
}

int fuse_columns_ahead(const struct fuse_steps *s, struct call *const *call, int begin) {
    zl_array shape = shape_of(call[begin]);
    for (int i = begin; i < MIN_OF(s->count, begin + FUSE_CALLS); i++) {
        enum fuse_kind kind = (enum fuse_kind)fuse_step_at(s, i)->kind;
        if (kind == FUSE_OTHER || kind == FUSE_PRODUCT)
            break;
        if (kind != FUSE_REDUCE)
            continue;
        zl_array x = call[i]->in[0];
        bool leads = shape_equal(x->ndim, x->dim, shape->ndim, shape->dim) && call[i]->args < x->ndim &&
                     is_over(call[i], 0, call[i]->args);
        return leads ? call[i]->args : 0;
    }
    return 0;
}

bool fuse_find(struct fuse_group *g) {
    zl_array shape = shape_of(g->call[g->begin]);
    int most = MIN_OF(g->steps->count, g->begin + g->limits->calls);
    g->ndim = shape->ndim;
    g->dim = shape->dim;
    g->line = 0;
    g->reductions = 0;
    g->end = g->begin;
    while (g->end < most && join(g, g->end))
        g->end++;
    g->ended = reason(g);
    if (g->limits->operands)
        drop_surplus(g);
    for (enum fuse_end why; (why = settle(g)); g->ended = why)
        g->end--;
    return g->end > g->begin;
}

void fuse_explain(const struct fuse_group *g, struct text *out) {
    const struct fuse_limits *most = g->limits;
    switch (g->ended) {
    case FUSE_END_NONE: return;
    case FUSE_END_CALLS: text_add(out, "a kernel has %d calls at most", most->calls); return;
    case FUSE_END_OPERANDS: text_add(out, "a kernel has %d operands at most", most->operands); return;
    case FUSE_END_OP: text_add(out, "what follows is not elementwise"); return;
    case FUSE_END_SHAPE: text_add(out, "what follows has another shape"); return;
    case FUSE_END_ORDER: text_add(out, "what follows has its elements in another order"); return;
    case FUSE_END_INPUTS:
        text_add(out, "what follows reads no elements of lines, or what was consumed");
        return;
    case FUSE_END_REDUCTION: break;
    }
    text_add(out, "what follows reduces other axes, or lines of fewer than %lld elements",
             (long long)most->line_least);
    if (most->line_most < INT64_MAX)
        text_add(out, " or more than %lld", (long long)most->line_most);
    if (most->lines_least > 1)
        text_add(out, ", or fewer than %lld lines of more than %lld", (long long)most->lines_least,
                 (long long)most->line_short);
}
