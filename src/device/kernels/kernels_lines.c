// kernels_lines.c - calls with reductions of the last axis among them, as one kernel: softmax, norms.
//
// Some threads have a line, and hold its elements in registers: each reads its part of the inputs once, in packs, and the stages
// between reductions compute from that. Of lines too long for this they go along once a stage, and compute anew from the
// inputs, which the caches hold by then. So memory is read and written once.

#include "device/kernels/kernels_lines.h"

#include <stdlib.h>
#include <string.h>

enum {
    LINE_LEAST = 128, // elements of a line from which a group of threads is busy
    LINES_LEAST = 32, // lines from which the device is
    PACK_BYTES = 16,  // that a thread reads at once
    LINE_SHORT = 4096,
    HELD_LEAST = 16,  // elements that a thread of a short line holds; or four packs
    HELD_MOST = 32,   // that a thread holds; twice as many if all are of 16 bits and from one input
    WARP = 32,        // threads that a line has at least
    CLUSTER_MOST = 8, // groups that have a line
};

struct lines {
    struct kernel_group g;
    bool of_lines[KERNEL_CALLS]; // the result is one element a line
    struct line_recipe r;
    struct kernel_layout l;        // of the inputs, over lines
    int64_t step[KERNEL_OPERANDS]; // from an element of a line to the next
};

// Finding ----------------------------------------------------------------------------------------------------------

static bool is_reduction(const struct kernel_group *g, int index) {
    return g->call[index]->op->kind == OP_REDUCE;
}

static bool has_line_shape(const struct kernel_group *g, zl_array x) {
    return x->ndim == g->ndim && x->dim[g->ndim - 1] == 1 &&
           shape_equal(g->ndim - 1, x->dim, g->ndim - 1, g->dim);
}

static bool of_lines(const struct lines *m, int index) {
    return m->of_lines[index - m->g.begin];
}

// One element a line, for all elements of the line.
static bool is_stretched(const struct kernel_group *g, zl_array x) {
    int64_t expected = 1;
    if (!group_has_shape(g, x) || array_stride(x)[g->ndim - 1])
        return false;
    for (int i = g->ndim - 2; i >= 0; i--) {
        if (x->dim[i] != 1 && array_stride(x)[i] != expected)
            return false;
        expected *= x->dim[i];
    }
    return true;
}

// Another name of all of a result.
static bool is_alias(struct lines *m, int index) {
    const struct kernel_group *g = &m->g;
    zl_array out = group_output(g, index);
    int source = group_step(g, index)->source[0];
    if (group_step(g, index)->inputs != 1 || source < g->begin || out->offset ||
        out->dtype != group_output(g, source)->dtype)
        return false;
    m->of_lines[index - g->begin] = of_lines(m, source);
    if (!of_lines(m, source))
        return group_has_shape(g, out) && array_is(out, ARRAY_CONTIGUOUS) &&
               array_is(group_output(g, source), ARRAY_CONTIGUOUS);
    return has_line_shape(g, out) ? array_is(out, ARRAY_CONTIGUOUS) : is_stretched(g, out);
}

// Of one element a line: from such, or from what is the same along a line.
static bool is_of_lines(const struct lines *m, int index) {
    const struct kernel_step *s = group_step(&m->g, index);
    for (int k = 0; k < s->inputs; k++) {
        zl_array x = m->g.call[index]->in[k];
        if (s->source[k] >= m->g.begin ? !of_lines(m, s->source[k]) : x->ndim && x->dim[x->ndim - 1] != 1)
            return false;
    }
    return true;
}

static bool reduces_lines(const struct lines *m, int index) {
    const struct kernel_group *g = &m->g;
    const struct call *c = g->call[index];
    int source = group_step(g, index)->source[0];
    return m->r.reductions < LINE_REDUCTIONS && c->args == 1 && call_args(c)[0] == g->ndim - 1 &&
           group_has_shape(g, c->in[0]) && (source < g->begin || !of_lines(m, source));
}

static bool joins(struct lines *m, int index) {
    const struct kernel_group *g = &m->g;
    const struct kernel_step *s = group_step(g, index);
    bool *lines = &m->of_lines[index - g->begin];
    *lines = is_reduction(g, index);
    if (s->kind == STEP_VIEW)
        return is_alias(m, index);
    if (!group_is_ready(g, index))
        return false;
    if (*lines) {
        bool good = reduces_lines(m, index);
        m->r.reductions = (int16_t)(m->r.reductions + good);
        return good;
    }
    *lines = !group_has_shape(g, group_output(g, index));
    return s->kind == STEP_MAP &&
           (!*lines || (has_line_shape(g, group_output(g, index)) && is_of_lines(m, index)));
}

static int op_of(const struct call *c) {
    if (c->op->kind == OP_REDUCE)
        return (int)kernel_combines(c);
    return c->op->kind == OP_ELEMENTWISE ? (int)c->op->row : TILE_CAST;
}

static bool add_row(struct lines *m, int index) {
    struct kernel_group *g = &m->g;
    const struct kernel_step *s = group_step(g, index);
    const struct call *c = g->call[index];
    bool reduces = is_reduction(g, index);
    struct line_recipe *r = &m->r;
    int from = reduces ? c->in[0]->dtype : s->dtype[s->inputs];
    if (r->words + 10 > LINE_WORDS)
        return false;
    g->row[index - g->begin] = r->rows;
    if (reduces)
        r->reduction[r->reductions++] = r->rows;
    r->rows++;
    const int16_t kind = reduces ? LINE_REDUCES : of_lines(m, index) ? LINE_OF_LINES : LINE_OF_ELEMENTS;
    const int16_t head[] = {kind, (int16_t)op_of(c), call_first(c)->dtype, (int16_t)from, s->inputs};
    memcpy(r->word + r->words, head, sizeof head);
    r->words = (int16_t)(r->words + (int)COUNT(head));
    for (int k = 0; k < s->inputs; k++) {
        int source = group_source(g, index, k);
        int input = source < 0
                        ? group_input(g, c->in[k], (zl_dtype)(reduces ? from : s->dtype[k + 1]), GROUP_ITSELF)
                        : 0;
        if (input < 0)
            return false;
        r->word[r->words++] = (int16_t)(source < 0 ? GROUP_INPUT | input : g->row[source - g->begin]);
    }
    return true;
}

// What the group computes; false: it has too many operands, or a result that is not row-major.
static bool write_rows(struct lines *m) {
    struct kernel_group *g = &m->g;
    struct line_recipe *r = &m->r;
    int outputs = group_find_stored(g);
    g->inputs = 0;
    r->words = r->rows = r->outputs = r->reductions = 0;
    for (int i = g->begin; i < g->end; i++) {
        g->in_place[i - g->begin] = !of_lines(m, i); // a thread writes elements where it alone reads
        if (group_step(g, i)->kind != STEP_VIEW && (!add_row(m, i) || g->inputs + outputs > KERNEL_OPERANDS))
            return false;
    }
    for (int i = g->begin; i < g->end; i++)
        if (group_has_output(g, i)) {
            r->output[r->outputs++] = (int16_t)(g->row[i - g->begin] << 1 | of_lines(m, i));
            if (!array_is(group_output(g, i), ARRAY_CONTIGUOUS))
                return false;
        }
    r->inputs = (int16_t)g->inputs;
    return true;
}

// False: there is no such group here.
static bool find(struct lines *m, int calls) {
    struct kernel_group *g = &m->g;
    zl_array shape = is_reduction(g, g->begin) ? g->call[g->begin]->in[0] : group_output(g, g->begin);
    int most = MIN_OF(calls, g->begin + KERNEL_CALLS);
    g->ndim = shape->ndim;
    g->dim = shape->dim;
    g->end = g->begin;
    if (!g->ndim || g->dim[g->ndim - 1] < LINE_LEAST ||
        (shape->size / g->dim[g->ndim - 1] < LINES_LEAST && !device_batch_invariant()))
        return false;
    while (g->end < most && joins(m, g->end))
        g->end++;
    while (g->end > g->begin && group_step(g, g->end - 1)->kind == STEP_VIEW)
        g->end--;
    return m->r.reductions && g->end - g->begin > 1 && write_rows(m) && m->r.reductions && m->r.rows > 1;
}

// Layout -----------------------------------------------------------------------------------------------------------

static int64_t stride_at(zl_array x, int ndim, int axis) {
    int at = axis - (ndim - x->ndim);
    return at < 0 || x->dim[at] == 1 ? 0 : array_stride(x)[at];
}

static enum line_form form_of(zl_array x, int64_t step) {
    if (array_is(x, ARRAY_INLINE))
        return LINE_VALUE;
    return step == 0 ? LINE_SAME : step == 1 ? LINE_FLAT : LINE_STRIDED;
}

// False: lines lie along more axes than kernels walk.
static bool lay_out(struct lines *m) {
    const struct kernel_group *g = &m->g;
    layout_begin(&m->l, g->inputs);
    for (int i = 0; i < g->ndim - 1; i++) {
        int64_t stride[KERNEL_OPERANDS];
        for (int k = 0; k < g->inputs; k++)
            stride[k] = stride_at(g->input[k], g->ndim, i);
        layout_push(&m->l, g->dim[i], stride);
    }
    for (int k = 0; k < g->inputs; k++) {
        m->step[k] = stride_at(g->input[k], g->ndim, g->ndim - 1);
        m->r.input[k] = (int16_t)((int)form_of(g->input[k], m->step[k]) | (int)g->dtype[k] << 4);
        m->r.wide |= llabs(m->step[k]) * g->dim[g->ndim - 1] > INT32_MAX / 2;
    }
    m->r.wide |= layout_is_wide(&m->l) || m->l.size * g->dim[g->ndim - 1] > INT32_MAX / 2;
    return m->l.axes <= KERNEL_AXES;
}

// Packs and threads ------------------------------------------------------------------------------------------------

// Elements of a pack: as many as 16 bytes hold of the widest, if all that lies behind each other begins with whole ones.
static int width_for(const struct lines *m) {
    const struct kernel_group *g = &m->g;
    size_t item = 1;
    for (int i = 0; i < g->inputs; i++)
        if (m->r.input[i] % 16 == LINE_FLAT)
            item = MAX_OF(item, zl_dtype_size(g->dtype[i]));
    for (int i = g->begin; i < g->end; i++)
        if (group_has_output(g, i) && !of_lines(m, i))
            item = MAX_OF(item, array_item(group_output(g, i)));
    int width = PACK_BYTES / (int)item;
    bool fits = g->dim[g->ndim - 1] % width == 0;
    for (int i = 0; i < g->inputs && fits; i++) {
        if (m->r.input[i] % 16 != LINE_FLAT)
            continue;
        fits = g->input[i]->offset % width == 0;
        for (int axis = 0; axis < m->l.axes; axis++)
            fits = fits && m->l.stride[i][axis] % width == 0;
    }
    return fits ? width : 1;
}

static bool is_rough(const struct lines *m) {
    const struct kernel_group *g = &m->g;
    bool rough = true;
    for (int i = 0; i < g->inputs; i++)
        if (m->r.input[i] % 16 <= LINE_STRIDED)
            rough = rough && tile_type_is_half(tile_type_of(g->dtype[i]));
    for (int i = g->begin; i < g->end; i++)
        if (group_has_output(g, i))
            rough = rough && tile_type_is_half(tile_type_of((zl_dtype)group_output(g, i)->dtype));
    return rough;
}

static int64_t packs_of(int64_t line, int threads, int width) {
    return (line + (int64_t)threads * width - 1) / ((int64_t)threads * width);
}

// Lines that the registers of a group do not hold: many small groups, of which the device has several at once, so that there is
// always another line to wait for. 1: no cluster holds it.
static int cluster_for(const struct kernel_place *p, int64_t line, int width, int most, int *threads) {
    for (int each = LINE_CLUSTER_LEAST; p->limits.has_clusters && each < LINE_THREADS; each *= 2)
        for (int groups = 2; groups <= CLUSTER_MOST; groups *= 2)
            if (packs_of(line, each * groups, width) * width <= most) {
                *threads = each;
                return groups;
            }
    return 1;
}

// Along the line, several times: with many threads few lines are under way at once, and those stay in the caches.
static int threads_along(const struct kernel_place *p, int64_t line) {
    int threads = KERNEL_THREADS;
    while (threads < LINE_THREADS && threads < line / 8 && 2 * threads <= p->limits.threads)
        threads *= 2;
    return threads;
}

// Few elements a thread, so that many lines are under way; of long lines more, so that its threads wait for fewer others.
static void choose(const struct kernel_place *p, struct lines *m) {
    int64_t line = m->g.dim[m->g.ndim - 1];
    int inputs = 0; // that vary along a line
    for (int i = 0; i < m->g.inputs; i++)
        inputs += m->r.input[i] % 16 <= LINE_STRIDED;
    m->r.rough = is_rough(m);
    int width = width_for(m), threads = WARP, most = m->r.rough && inputs == 1 ? 2 * HELD_MOST : HELD_MOST;
    int each = line <= LINE_SHORT ? MAX_OF(HELD_LEAST, MIN_OF(4 * width, most)) : most;
    while (threads < LINE_THREADS && (int64_t)threads * each < line && 2 * threads <= p->limits.threads)
        threads *= 2;
    bool held = packs_of(line, threads, width) * width <= most;
    int groups = held ? 1 : cluster_for(p, line, width, most, &threads);
    if (!held && groups == 1)
        threads = threads_along(p, line);
    m->r.width = (int16_t)width;
    m->r.packs = (int16_t)(held || groups > 1 ? packs_of(line, threads * groups, width) : 0);
    m->r.threads = (int16_t)threads;
    m->r.groups = (int16_t)groups;
    m->r.full = groups > 1 && (int64_t)m->r.packs * groups * threads * width == line;
    m->r.at_once = groups > 1 && !m->r.rough && line_is_softmax(&m->r);
}

// Running ----------------------------------------------------------------------------------------------------------

static bool run(const struct kernel_place *p, struct kernel_group *g) {
    struct lines *m = (struct lines *)g;
    struct line_writer w = {&m->r, p->target->dialect};
    struct kernel_call k;
    choose(p, m);
    int group = MAX_OF(m->r.threads, KERNEL_THREADS),
        lines = group / m->r.threads; // threads, and lines they have
    kernel_begin_call(&k);
    unsigned strided = 0;
    size_t bytes = offsetof(struct line_recipe, word) + sizeof m->r.word[0] * (size_t)m->r.words;
    void *kernel = kernel_find(p, &m->r, bytes, kernel_write_lines, &w);
    bool ok = kernel && group_add_outputs(p, &k, g);
    for (int i = 0; ok && i < g->inputs; i++) {
        ok = group_add_input(p, &k, g, i, 0);
        if (m->r.input[i] % 16 == LINE_VALUE)
            continue;
        kernel_add_int(&k, m->step[i], m->r.wide);
        strided |= 1u << i;
    }
    kernel_add_int(&k, g->dim[g->ndim - 1], m->r.wide);
    kernel_add_int(&k, m->l.size, m->r.wide);
    kernel_add_axes(&k, &m->l, strided, m->r.wide);
    kernel_add_int(&k, m->l.axes, false);
    return ok && kernel_launch_by(p, kernel, (m->l.size + lines - 1) / lines * m->r.groups, group, &k);
}

int kernel_run_lines(const struct kernel_place *p, const struct program *program, struct binding *b,
                     int index) {
    struct lines m = {.g = {.program = program, .call = b->call, .begin = index}, .r = {.name = "lines"}};
    return find(&m, b->calls) && lay_out(&m) ? group_run(&m.g, b, run, p) : 0;
}

int kernel_count_lines(const struct program *program, struct call *const *call, int calls, int index) {
    struct lines m = {.g = {.program = program, .call = call, .begin = index}};
    return find(&m, calls) && lay_out(&m) ? m.g.end - m.g.begin : 0;
}
