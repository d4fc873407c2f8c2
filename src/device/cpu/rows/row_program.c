// row_program.c - runs of calls as one pass over memory: their row kernels, one after the other, on each
// tile.
//
// What only calls of the group read stays in tiles in the nearest caches and never gets memory of its own.
// The rows are those that the calls would have run by themselves, on the same elements in the same order: not
// a bit differs.

#include "device/cpu/rows/operands.h"
#include "device/cpu/rows/reduce.h"
#include "device/cpu/rows/row_group.h"

#include <stdlib.h>
#include <string.h>

enum {
    TEMP_ROOM = 24576, // bytes of the tiles of temporaries
    TILE_LEAST = 128,  // elements
    TILE_MOST = 1024,
    LINE_ROOM = 131072, // the same for lines, which cannot be cut
    LINES_MOST = 64,    // lines at once
};

// Binding ---------------------------------------------------------------------------------------------------

// Whether lines of x jump from one line of the cache to the next, while another axis goes along them: single
// steps transpose such an array in blocks, which is faster than to gather it line by line.
static bool lies_across(zl_array x, int64_t item) {
    bool along = false;
    for (int i = 0; i + 1 < x->ndim; i++)
        along |= x->dim[i] >= 4 && array_stride(x)[i] > 0 && array_stride(x)[i] * item < LAYOUT_LINE;
    return along && x->dim[x->ndim - 1] >= 4 && llabs(array_stride(x)[x->ndim - 1]) * item >= LAYOUT_LINE;
}

// Lines, and what must be gathered of them, fit where they go.
static bool fits(struct group *g) {
    int64_t gathered = 0;
    for (int i = g->f.begin; i < g->f.end; i++) {
        if (fuse_is_output(&g->f, i) && !array_is(fuse_output(&g->f, i), ARRAY_CONTIGUOUS))
            return false;
        if (fuse_row(&g->f, i)->kind == ROW_PRODUCT)
            continue;
        for (int k = 0; k < fuse_step(&g->f, i)->inputs; k++) {
            zl_array x = g->b->call[i]->in[k];
            if (fuse_is_outside(&g->f, i, k) && lies_across(x, g->p->step[i].item[k + 1]))
                return false;
            bool strided = x->size > 1 && array_stride(x)[x->ndim - 1] != 1;
            gathered += fuse_is_outside(&g->f, i, k) && strided
                            ? g->f.line * g->p->step[i].item[k + 1] + LAYOUT_LINE
                            : 0;
        }
    }
    return gathered <= LAYOUT_GATHERED && g->f.line * g->temps * g->temp_item <= LINE_ROOM;
}

static int find_external(const struct group *g, zl_array x) {
    for (int k = 0; k < g->l.operands; k++)
        if (g->external[k] == x)
            return k;
    return -1;
}

static void add_output(struct group *g, int index) {
    zl_array out = fuse_output(&g->f, index);
    g->external[g->l.operands] = NULL;
    cpu_layout_add(&g->l, cpu_data(out), array_item(out), out->ndim, out->dim, array_stride(out));
}

// Where parts of one that is not stored are is known when they are there.
static void add_product(struct group *g) {
    zl_array product = fuse_output(&g->f, g->f.begin);
    int at = g->row[0].at[0] = (int8_t)g->l.operands;
    g->external[at] = product;
    if (g->f.row[0].stored)
        cpu_layout_add(&g->l, cpu_data(product), array_item(product), product->ndim, product->dim,
                       array_stride(product));
    else
        cpu_layout_add(&g->l, &g->room[at], array_item(product), 0, NULL, NULL);
}

// A weak scalar takes the dtype of the row that reads it, so it is an operand for each.
static int add_input(struct group *g, int index, int k) {
    zl_array x = g->b->call[index]->in[k];
    const struct step *s = &g->p->step[index];
    bool is_inline = array_is(x, ARRAY_INLINE);
    int at = is_inline ? -1 : find_external(g, x);
    if (at >= 0)
        return at;
    at = g->l.operands;
    g->external[at] = x;
    if (is_inline)
        cpu_write_scalar(s, x, k, &g->room[at]);
    const void *data = is_inline ? (const void *)&g->room[at] : cpu_data(x);
    cpu_layout_add(&g->l, data, s->item[k + 1], x->ndim, x->dim, array_stride(x));
    return at;
}

static void bind_operands(struct group *g) {
    int outputs = 0;
    for (int i = g->f.begin; i < g->f.end; i++)
        outputs += fuse_is_output(&g->f, i);
    cpu_layout_start(&g->l, g->f.ndim, g->f.dim, outputs);
    for (int i = g->f.begin; i < g->f.end; i++)
        if (fuse_is_output(&g->f, i))
            add_output(g, i);
    if (group_has_product(g))
        add_product(g);
    for (int i = g->f.begin; i < g->f.end; i++) {
        const struct step *s = &g->p->step[i];
        struct row *r = group_row(g, i);
        enum row_kind kind = fuse_row(&g->f, i)->kind;
        if (kind == ROW_VIEW || kind == ROW_PRODUCT)
            continue;
        r->at[2] = r->at[3] = r->at[0]; // a row does not read what it does not have
        for (int k = 0; k < s->is.inputs; k++)
            r->at[k + 1] =
                (int8_t)(fuse_is_outside(&g->f, i, k) ? add_input(g, i, k)
                                                      : group_row(g, fuse_source(&g->f, i, k))->at[0]);
    }
}

// Planning --------------------------------------------------------------------------------------------------

// Operands of a row: which of them are scalars, and which of those go on from run to run.
struct scalars {
    unsigned form;           // by input of the row
    unsigned operands, runs; // by operand of the layout
    bool has_runs;
};

static struct scalars scalars_of(const struct group *g, const struct step *s, const struct row *r,
                                 bool is_lines) {
    struct scalars found = {0};
    for (int k = 0; k < s->is.inputs; k++) {
        int at = r->at[k + 1];
        bool is_line = at < -GROUP_TEMPS, is_scalar = at >= 0 ? g->l.scalar >> at & 1 : is_line;
        if (is_lines)
            is_scalar = at >= 0 && g->l.access[at] == ACCESS_SCALAR;
        if (!is_scalar)
            continue;
        found.form |= 1u << k;
        found.operands |= at >= 0 ? 1u << at : 0;
        found.runs |= at >= 0 ? g->l.runs & 1u << at : 0;
        found.has_runs |= is_line || (g->l.runs >> at & 1);
    }
    return found;
}

// Operands of rows that have no form for these scalars must become vectors; 0: all have.
static unsigned choose_forms(struct group *g) {
    unsigned vectors = 0;
    for (int i = g->f.begin; i < g->f.end; i++) {
        const struct step *s = &g->p->step[i];
        struct row *r = group_row(g, i);
        enum row_kind kind = fuse_row(&g->f, i)->kind;
        if (kind != ROW_ELEMENTS && kind != ROW_LINES)
            continue;
        struct scalars scalars = scalars_of(g, s, r, kind == ROW_LINES);
        bool mixed = scalars.has_runs && scalars.operands != scalars.runs;
        r->has_runs = scalars.has_runs;
        r->fn = scalars.form & ~(unsigned)s->scalars || mixed ? NULL : s->forms[scalars.form];
        if (!r->fn)
            vectors |= scalars.runs ? scalars.runs : scalars.operands;
    }
    return vectors;
}

// A kernel that is the whole group needs no room for temporaries, and takes scalars of all kinds.
static bool plan_kernel(struct group *g) {
    cpu_layout_plan(&g->l, 0, 0);
    return row_group_find_kernels(g);
}

static void plan_elements(struct group *g) {
    int bytes = MAX_OF(g->temps * g->temp_item, 1);
    g->tile = MAX_OF(MIN_OF(TEMP_ROOM / bytes, TILE_MOST), TILE_LEAST) / 64 * 64;
    cpu_layout_plan(&g->l, 0, g->tile);
    for (unsigned vectors = 0, more; (more = choose_forms(g));) {
        vectors |= more;
        cpu_layout_plan(&g->l, vectors, g->tile);
    }
}

// Operands with all the elements of a line, though some be the same: those that are views say so by their
// shape.
static unsigned wide_operands(const struct group *g) {
    unsigned found = 0;
    for (int k = g->l.outputs; k < g->l.operands; k++) {
        zl_array x = g->external[k];
        found |= (unsigned)(x->ndim > 0 && x->dim[x->ndim - 1] == g->f.line) << k;
    }
    return found;
}

// Line by line what is the same for a line is a scalar like any other. Every row has a form for that, if one
// of its operands is a vector.
static bool plan_lines(struct group *g) {
    int bytes = MAX_OF(g->temps * g->temp_item, 1);
    int64_t most = MIN_OF(MIN_OF(TEMP_ROOM / bytes, 2 * TILE_MOST), LINES_MOST * g->f.line);
    bool fits = cpu_layout_plan_lines(&g->l, 0, most);
    if (!fits || choose_forms(g)) {
        fits = cpu_layout_plan_lines(&g->l, 0, 1);
        unsigned vectors = choose_forms(g) & wide_operands(g);
        if (vectors) {
            fits = cpu_layout_plan_lines(&g->l, vectors, 1);
            choose_forms(g);
        }
    }
    g->tile = MAX_OF(most, g->f.line);
    return fits;
}

// Running ---------------------------------------------------------------------------------------------------

static void call_row(const struct row *r, const char *const *at, int64_t n, int64_t run) {
    POINTERS(p, ROW_OPERANDS);
    for (int k = 0; k < ROW_OPERANDS; k++)
        p[k] = (char *)(uintptr_t)at[r->at[k]];
    r->fn(p, n, r->has_runs ? run : n);
}

static void call_stretch(const struct stretch *s, const char *const *at, int64_t n, int64_t run) {
    POINTERS(p, STRETCH_OPERANDS);
    for (int k = 0; k < s->operands; k++)
        p[k] = (char *)(uintptr_t)at[s->at[k]];
    s->fn(p, n, run);
}

// A line at a time.
static void call_lines(const struct stretch *s, const char *const *at, int64_t line, int64_t lines) {
    POINTERS(p, STRETCH_OPERANDS);
    for (int k = 0; k < s->operands; k++)
        p[k] = (char *)(uintptr_t)at[s->at[k]];
    for (int64_t i = 0; i < lines; i++) {
        s->fn(p, line, line);
        for (int k = 0; k < s->operands; k++)
            p[k] += s->next[k];
    }
}

static void run_kernel(const void *context, char *const *p, int64_t n, int64_t more) {
    const struct group *g = context;
    call_stretch(&g->stretch[0], (const char *const *)p, n, g->l.run ? g->l.run : n + more);
}

// Elements behind a line that the next ones will read from memory: those of an input, which lies in sequence.
static int64_t count_more(const struct group *g, const struct row *r, const char *from) {
    const int k = r->at[1];
    const int64_t bytes = g->l.size * r->by.item;
    if (k < 0 || g->l.access[k] != ACCESS_DIRECT || bytes <= cpu_cache_bytes(3))
        return 0;
    return MAX_OF((g->l.data[k] + bytes - from) / r->by.item - g->f.line, 0);
}

static void reduce_lines(const struct group *g, const struct row *r, char *to, const char *from,
                         int64_t lines) {
    _Alignas(64) char sum[LINES_MOST * REDUCE_WIDEST];
    for (int64_t i = 0; i < lines; i++, from += g->f.line * r->by.item)
        cpu_reduce_line(&r->by, from, g->f.line, count_more(g, r, from), sum + i * r->by.wide);
    cpu_reduce_store(&r->by, to, sum, lines);
}

// Rows, and stretches of lines, one after the other. Elements that are reduced nowhere are one line.
static void run_rows(const void *context, char *const *p, int64_t n, int64_t more) {
    (void)more;
    const struct group *g = context;
    const int64_t line = g->f.line ? g->f.line : n, run = g->f.line ? line : g->l.run;
    _Alignas(64) char room[LINE_ROOM], line_room[GROUP_TEMPS][LINES_MOST * 8];
    const char *place[LAYOUT_OPERANDS + 2 * GROUP_TEMPS], *const *at = place + 2 * GROUP_TEMPS;
    for (int k = 0; k < g->l.operands; k++)
        place[2 * GROUP_TEMPS + k] = p[k];
    for (int k = 0; k < g->temps; k++)
        place[2 * GROUP_TEMPS - 1 - k] = room + k * g->tile * g->temp_item;
    for (int k = 0; k < g->line_temps; k++)
        place[GROUP_TEMPS - 1 - k] = line_room[k];
    const struct stretch *next = g->stretch, *last = next + g->stretches;
    for (int i = 0; i < g->f.end - g->f.begin; i++) {
        const struct row *r = &g->row[i];
        enum row_kind kind = g->f.row[i].kind;
        if (next < last && next->begin == g->f.begin + i) {
            if (next->reduces)
                call_lines(next, at, line, n / line);
            else
                call_stretch(next, at, n, next->has_runs ? line : n);
            i = next++->end - g->f.begin - 1;
        } else if (kind == ROW_REDUCE)
            reduce_lines(g, r, (char *)(uintptr_t)at[r->at[0]], at[r->at[1]], n / line);
        else if (kind == ROW_ELEMENTS || kind == ROW_LINES)
            call_row(r, at, kind == ROW_LINES ? n / line : n, run);
    }
}

layout_body *row_group_plan(struct group *g) {
    if (g->f.line) {
        plan_lines(g);
        row_group_find_kernels(g);
        return run_rows;
    }
    if (plan_kernel(g))
        return run_kernel;
    g->stretches = 0; // operands become other vectors
    plan_elements(g);
    return run_rows;
}

static bool run(struct fuse_group *f) {
    struct group *g = (struct group *)f;
    double weight = 0;
    g->stretches = 0;
    bind_operands(g);
    for (int i = g->f.begin; i < g->f.end; i++)
        weight += g->p->step[i].weight;
    weight = weight / 2 + 1;
    if (group_has_product(g))
        return row_group_run_product(g, weight);
    cpu_layout_run(&g->l, weight, row_group_plan(g), g);
    counter_add(COUNTER_COMPILED, group_compiled(g));
    return true;
}

// What a group works on: of a reduction, its input.
static int64_t size_of(const struct call *c) {
    return c->op->kind == OP_REDUCE ? c->in[0]->size : call_output(c, 0)->size;
}

int cpu_run_group(const struct program *p, struct binding *b, int index) {
    if (LIKELY(size_of(b->call[index]) < GROUP_LEAST))
        return 0;
    struct group g;
    row_group_begin(&g, p, b, index);
    if (!row_group_find(&g, NULL) || (g.f.line && !fits(&g)))
        return 0;
    counter_add(COUNTER_FUSED, g.f.end - index);
    return fuse_run_group(&g.f, b, run);
}

// Explaining ------------------------------------------------------------------------------------------------

int cpu_fuses(int unit, const struct program *p, const struct segment *s, int index, struct text *why) {
    (void)unit;
    struct binding b = {.calls = s->calls, .call = s->call};
    struct group g;
    if (!p->step[index].begins)
        return 1;
    if (size_of(s->call[index]) < GROUP_LEAST) {
        text_add(why, "fewer than %d elements: they stay in the cache", GROUP_LEAST);
        return 1;
    }
    row_group_begin(&g, p, &b, index);
    return row_group_find(&g, why) ? g.f.end - g.f.begin : 1;
}
