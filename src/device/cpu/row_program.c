// row_program.c - runs of elementwise calls as one pass over memory: their row kernels, one after the other, on each
// tile.
//
// What only calls of the group read stays in tiles in L1 and never gets memory of its own. The rows are those that the
// calls would have run by themselves, on the same elements: not a bit differs. Which calls lie next to each other is
// found when a program is built; how far a group goes, at each run, when sizes are known.

#include "device/cpu/cpu.h"

#include <string.h>

enum {
    CALLS = 32,        // of a group
    LEAST = 8192,      // elements from which it pays
    TEMPS = 16,        // results at once that nothing but the group reads
    TEMP_ROOM = 24576, // bytes of their tiles
    TILE_LEAST = 128,  // elements
    TILE_MOST = 1024,
    OPERANDS = 4, // of a row: output and inputs
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

static bool is_row(const struct segment *s, int index) {
    enum op_kind kind = s->call[index]->op->kind;
    return kind == OP_ELEMENTWISE || kind == OP_CAST;
}

bool cpu_group_steps(struct program *p, const struct segment *s) {
    if (!find_sources(p, s))
        return false;
    for (int i = s->calls - 1, count = 0; i >= 0; i--) {
        count = is_row(s, i) ? MIN_OF(count + 1, CALLS) : 0;
        p->step[i].group = (uint16_t)count;
    }
    return true;
}

// Binding --------------------------------------------------------------------------------------------------------

// Where a row finds an operand: operand of the layout, or temporary - 1 - at.
struct row {
    row_fn *fn;
    int8_t at[OPERANDS];
    bool has_runs;
};

struct group {
    const struct program *p;
    struct binding *b;
    int begin, end;
    struct layout l;
    zl_array external[LAYOUT_OPERANDS]; // by operand; NULL: an output
    union scalar room[LAYOUT_OPERANDS];
    struct row row[CALLS];
    bool stored[CALLS]; // the result gets memory
    int temps;
    int temp_item; // bytes of their largest element
    int temp_until[TEMPS];
    int64_t tile; // elements
};

// Something reads the result that does not belong to the group.
static bool is_read_outside(const struct group *g, int index) {
    const struct step *s = &g->p->step[index];
    return s->needed || s->last >= g->end;
}

static bool is_stored(const struct group *g, int index) {
    return g->stored[index - g->begin];
}

static zl_array output(const struct group *g, int index) {
    return call_output(g->b->call[index], 0);
}

// The input is made outside the group.
static bool is_external(const struct group *g, int index, int k) {
    return g->p->step[index].source[k] < g->begin;
}

// Inputs and outputs with memory that calls [begin, end) have, counting an array twice if two calls read it.
static int count_operands(const struct group *g) {
    int count = 0;
    for (int i = g->begin; i < g->end; i++) {
        count += is_read_outside(g, i);
        for (int k = 0; k < g->p->step[i].inputs; k++)
            count += is_external(g, i, k);
    }
    return count;
}

// As many calls as have results of one shape and operands that fit.
static void find_end(struct group *g) {
    zl_array first = output(g, g->begin);
    int most = g->begin + g->p->step[g->begin].group;
    g->end = g->begin + 1;
    while (g->end < most) {
        zl_array next = output(g, g->end);
        if (!shape_equal(first->ndim, first->dim, next->ndim, next->dim))
            break;
        g->end++;
    }
    while (g->end > g->begin + 1 && count_operands(g) > LAYOUT_OPERANDS)
        g->end--;
    for (int i = g->begin; i < g->end; i++)
        g->stored[i - g->begin] = is_read_outside(g, i);
}

// Whether it is worth it: some result needs no memory.
static bool is_useful(const struct group *g) {
    int saved = 0;
    for (int i = g->begin; i < g->end; i++)
        saved += !is_stored(g, i);
    return g->end - g->begin > 1 && saved > 0;
}

// Whether it is possible: all inputs are there.
static bool is_possible(const struct group *g) {
    for (int i = g->begin; i < g->end; i++) {
        const struct call *c = g->b->call[i];
        for (int k = 0; k < c->inputs; k++)
            if (is_external(g, i, k) && array_state(c->in[k]) != ARRAY_READY)
                return false;
    }
    return true;
}

// A temporary that nothing reads any more, for a result that is read until call `until`. A row does not write over its
// own input: elements may be of other sizes.
static int take_temp(struct group *g, int index, int until, int item) {
    int at = 0;
    while (at < g->temps && g->temp_until[at] >= index)
        at++;
    if (at == TEMPS)
        return -1;
    g->temps = MAX_OF(g->temps, at + 1);
    g->temp_until[at] = until;
    g->temp_item = MAX_OF(g->temp_item, item);
    return at;
}

static int find_external(const struct group *g, zl_array x) {
    for (int k = 0; k < g->l.operands; k++)
        if (g->external[k] == x)
            return k;
    return -1;
}

// Outputs come first among the operands: they are numbered before any input is.
static bool place_outputs(struct group *g) {
    int stored = 0;
    g->temps = g->temp_item = 0;
    for (int i = g->begin; i < g->end; i++) {
        const struct step *s = &g->p->step[i];
        int temp = is_stored(g, i) ? 0 : take_temp(g, i, s->last, s->item[0]);
        if (temp < 0)
            return false;
        g->row[i - g->begin].at[0] = (int8_t)(is_stored(g, i) ? stored++ : -1 - temp);
    }
    return true;
}

static void add_output(struct group *g, int index) {
    zl_array out = output(g, index);
    g->external[g->l.operands] = NULL;
    cpu_layout_add(&g->l, cpu_data(out), g->p->step[index].item[0], out->ndim, out->dim, array_stride(out));
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
        scalar_write(x, (zl_dtype)s->dtype[k + 1], &g->room[at]);
    const void *data = is_inline ? (const void *)&g->room[at] : cpu_data(x);
    cpu_layout_add(&g->l, data, s->item[k + 1], x->ndim, x->dim, array_stride(x));
    return at;
}

static void bind_operands(struct group *g) {
    zl_array first = output(g, g->begin);
    int outputs = 0;
    for (int i = g->begin; i < g->end; i++)
        outputs += is_stored(g, i);
    cpu_layout_start(&g->l, first->ndim, first->dim, outputs);
    for (int i = g->begin; i < g->end; i++)
        if (is_stored(g, i))
            add_output(g, i);
    for (int i = g->begin; i < g->end; i++) {
        const struct step *s = &g->p->step[i];
        struct row *r = &g->row[i - g->begin];
        r->at[2] = r->at[3] = r->at[0]; // a row does not read what it does not have
        for (int k = 0; k < s->inputs; k++)
            r->at[k + 1] =
                (int8_t)(is_external(g, i, k) ? add_input(g, i, k) : g->row[s->source[k] - g->begin].at[0]);
    }
}

// Operands of rows that have no form for these scalars must become vectors; 0: all have.
static unsigned choose_forms(struct group *g) {
    unsigned vectors = 0;
    for (int i = g->begin; i < g->end; i++) {
        const struct step *s = &g->p->step[i];
        struct row *r = &g->row[i - g->begin];
        unsigned form = 0, operands = 0, runs;
        for (int k = 0; k < s->inputs; k++) {
            int at = r->at[k + 1];
            if (at >= 0 && g->l.scalar >> at & 1)
                form |= 1u << k, operands |= 1u << at;
        }
        runs = operands & g->l.runs;
        r->has_runs = runs;
        r->fn = form & ~(unsigned)s->scalars || (runs && runs != operands) ? NULL : s->forms[form];
        if (!r->fn)
            vectors |= runs ? runs : operands;
    }
    return vectors;
}

static void plan(struct group *g) {
    int bytes = MAX_OF(g->temps * g->temp_item, 1);
    g->tile = MAX_OF(MIN_OF(TEMP_ROOM / bytes, TILE_MOST), TILE_LEAST) / 64 * 64;
    cpu_layout_plan(&g->l, 0, g->tile);
    for (unsigned vectors = 0, more; (more = choose_forms(g));) {
        vectors |= more;
        cpu_layout_plan(&g->l, vectors, g->tile);
    }
}

// Running --------------------------------------------------------------------------------------------------------

static void run_rows(const void *context, char *const *p, int64_t n) {
    const struct group *g = context;
    _Alignas(64) char room[TEMPS * TILE_LEAST * 8 > TEMP_ROOM ? TEMPS * TILE_LEAST * 8 : TEMP_ROOM];
    const char *place[LAYOUT_OPERANDS + TEMPS];
    for (int k = 0; k < g->l.operands; k++)
        place[TEMPS + k] = p[k];
    for (int k = 0; k < g->temps; k++)
        place[TEMPS - 1 - k] = room + k * g->tile * g->temp_item;
    for (int i = 0; i < g->end - g->begin; i++) {
        const struct row *r = &g->row[i];
        const char **at = place + TEMPS;
        POINTERS(row, OPERANDS);
        for (int k = 0; k < OPERANDS; k++)
            row[k] = (char *)(uintptr_t)at[r->at[k]];
        r->fn(row, n, r->has_runs ? g->l.run : n);
    }
}

// Gives stored results their memory. When that is out, what comes from there on fails, and the group ends before.
static int prepare(struct group *g) {
    int end = g->end;
    for (int i = g->begin; i < end; i++) {
        if (!is_stored(g, i))
            continue;
        g->b->take(g->b, g->begin, i);
        if (g->b->prepare(g->b, i, UINT64_MAX))
            continue;
        for (int k = i; k < end; k++) {
            error_set(ZL_ERROR_MEMORY, "out of memory: the results of %d calls did not fit", end - g->begin);
            g->b->fail(g->b, k);
        }
        return i;
    }
    return end;
}

static void finish(struct group *g, int end) {
    double weight = 0;
    if (end > g->begin) {
        g->end = end;
        bind_operands(g);
        plan(g);
        for (int i = g->begin; i < end; i++)
            weight += g->p->step[i].weight;
        cpu_layout_run(&g->l, weight / 2 + 1, run_rows, g);
    }
    for (int i = g->begin; i < end; i++)
        g->b->finish(g->b, i);
    counter_add(COUNTER_FUSED, end - g->begin);
}

int cpu_run_group(const struct program *p, struct binding *b, int index) {
    if (LIKELY(call_output(b->call[index], 0)->size < LEAST))
        return 0;
    struct group g;
    g.p = p;
    g.b = b;
    g.begin = index;
    find_end(&g);
    if (!is_useful(&g) || !is_possible(&g) || !place_outputs(&g))
        return 0;
    int calls = g.end - g.begin;
    finish(&g, prepare(&g));
    return calls;
}

// Explaining -----------------------------------------------------------------------------------------------------

static const char *why_it_ends(const struct group *g) {
    if (g->end == g->p->steps)
        return NULL;
    if (g->end == g->begin + g->p->step[g->begin].group)
        return g->p->step[g->end].group ? "a kernel has 32 calls at most" : "what follows is not elementwise";
    zl_array a = output(g, g->begin), b = output(g, g->end);
    return shape_equal(a->ndim, a->dim, b->ndim, b->dim) ? "a kernel has 16 operands at most"
                                                         : "what follows has another shape";
}

int cpu_fuses(int unit, const struct program *p, const struct segment *s, int index, const char **why) {
    (void)unit;
    struct binding b = {.calls = s->calls, .call = s->call};
    struct group g = {.p = p, .b = &b, .begin = index};
    if (!p->step[index].run || p->step[index].group < 2)
        return *why = NULL, 1;
    if (output(&g, index)->size < LEAST)
        return *why = "fewer than 8192 elements: they stay in the cache", 1;
    find_end(&g);
    if (!is_useful(&g))
        return *why = g.end - g.begin > 1 ? "every result is read elsewhere too" : why_it_ends(&g), 1;
    return *why = why_it_ends(&g), g.end - g.begin;
}
