// row_program.c - runs groups of calls as one pass over memory: all their row kernels run in turn on each
// tile.
//
// Results that only the group reads stay in tiles in the nearest caches and never get memory of their own.
// The row kernels are those that the calls would run by themselves, on the same elements in the same order,
// so every bit is the same.

#include "device/cpu/rows/operands.h"
#include "device/cpu/rows/reduce.h"
#include "device/cpu/rows/row_group.h"

#include <stdlib.h>
#include <string.h>

enum {
    TEMP_ROOM = 24576, // bytes of the tiles of temporaries
    TILE_LEAST = 128,  // elements of a tile
    TILE_MOST = 1024,
    LINE_ROOM = 131072, // bytes of the temporaries of rows, which cannot be divided
    LINES_MOST = 64,    // rows at once
};

// Binding ---------------------------------------------------------------------------------------------------

// Returns whether the elements of a row of x are in different cache lines while another axis is nearly
// contiguous. A step outside of a group transposes such an array in blocks, which is faster than gathering it
// row by row.
static bool lies_across(zl_array x, int64_t item) {
    bool along = false;
    for (int i = 0; i + 1 < x->ndim; i++)
        along |= x->dim[i] >= 4 && array_stride(x)[i] > 0 && array_stride(x)[i] * item < LAYOUT_LINE;
    return along && x->dim[x->ndim - 1] >= 4 && llabs(array_stride(x)[x->ndim - 1]) * item >= LAYOUT_LINE;
}

// Returns whether rows fit the temporaries, and operands that must be gathered fit the tiles.
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

// Adds the product as an operand. If it is not stored, the addresses of its parts are set when they are
// computed.
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

// Adds an input as an operand, and returns its number. A weak scalar takes the dtype of the row that reads
// it, so it is a separate operand for each row.
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
        r->at[2] = r->at[3] = r->at[0]; // unused inputs, which row kernels do not read
        for (int k = 0; k < s->is.inputs; k++)
            r->at[k + 1] =
                (int8_t)(fuse_is_outside(&g->f, i, k) ? add_input(g, i, k)
                                                      : group_row(g, fuse_source(&g->f, i, k))->at[0]);
    }
}

// Planning --------------------------------------------------------------------------------------------------

// Which operands of a row are scalars, and which of these have an element per run.
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

// Chooses the row kernels. Returns the operands that must become vectors, because a row kernel has no form
// for these scalars; 0: all have one.
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

// Plans a group that is one compiled kernel, which needs no temporaries and takes scalars of all kinds.
// Returns false if there is no such kernel.
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

// Returns the operands that have all elements of a row by their shape, even if they are views that repeat one
// element.
static unsigned wide_operands(const struct group *g) {
    unsigned found = 0;
    for (int k = g->l.outputs; k < g->l.operands; k++) {
        zl_array x = g->external[k];
        found |= (unsigned)(x->ndim > 0 && x->dim[x->ndim - 1] == g->f.line) << k;
    }
    return found;
}

// Plans a group that works on rows. If several rows at a time do not fit or lack a form, it runs row by row:
// an operand with one element per row is then a plain scalar, for which every row kernel has a form, if one
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

// Runs a stretch that ends with a reduction, row by row.
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

// Returns how many elements after a row will be read next from memory: those of a contiguous input.
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

// Runs the rows and stretches of a tile in turn. Without a reduction, the whole tile is one row.
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
    g->stretches = 0; // the plan below may turn operands into vectors
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

// Returns the number of elements that a group works on: for a reduction, those of its input.
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
