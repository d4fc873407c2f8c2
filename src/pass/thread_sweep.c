// thread_sweep.c - divides the points of maps, copies and fills among the threads of a workgroup.
//
// If tiles are in registers, their layout says which points belong to a thread, which runs an unrolled loop
// over its registers. Otherwise points are numbered, and thread t of n takes the points t, t + n, t + 2 n,
// ...

#include "pass/threads.h"

#include <string.h>

enum { UNROLLED_TURNS = 8 };

static const struct tile_name *counter(struct tile_type type, int64_t size) {
    struct tile_name *name = (struct tile_name *)box_local("s", type);
    if (name) {
        name->low = 0;
        name->high = size > 0 ? size - 1 : INT64_MAX;
    }
    return name;
}

static expr open_turns(struct points *p, int64_t count) {
    if (count == 1)
        return thread_number(0);
    const struct tile_name *s = counter(p->g->thread->type, count);
    tile_open_for(s, NULL, thread_number(count), NULL, TILE_UNROLLED);
    p->opened++;
    return box_point(s);
}

static void open_guard(struct points *p, expr mask) {
    if (!mask)
        return;
    tile_open_if(mask);
    p->opened++;
}

// Points ----------------------------------------------------------------------------------------------------

static void open_layout(struct points *p) {
    const struct layout *l = &p->sweep.layout;
    for (int i = l->slots - 1; i >= 0; i--)
        p->digit[i] = open_turns(p, l->slot[i].size);
    expr guard = NULL;
    for (int i = 0; i < p->sweep.vars; i++) {
        p->point[i] = box_index(layout_index(l, i, p->g->thread, p->digit));
        if (pass_number(p->sweep.extent[i]) != p->sweep.covered[i])
            guard = box_both(guard, LT(p->point[i], box_index(p->sweep.extent[i])));
    }
    open_guard(p, guard);
    p->first = layout_first(l, p->g->thread);
}

// Sets the point to the digits of a number in the radix of the extents.
static void split(struct points *p, expr number, const expr *extent) {
    for (int i = p->sweep.vars - 1; i >= 0; i--) {
        bool is_last = i == 0;
        expr digit = is_last ? number : REM(number, extent[i]);
        p->point[i] = box_index(digit);
        if (!is_last)
            number = FLOORDIV(number, extent[i]);
    }
}

// Does the same with thread + turn * threads. Digits in which the turns do not differ are computed from the
// thread alone, and so only once.
static void split_turns(struct points *p, expr turn) {
    expr rest = p->g->thread;
    int64_t step = turn ? p->g->threads : 0;
    for (int i = p->sweep.vars - 1; i >= 0; i--) {
        int64_t size = pass_number(p->sweep.extent[i]);
        if (step && (i == 0 || step % size)) {
            rest = ADD(rest, MUL(turn, thread_number(step)));
            step = 0;
        }
        p->point[i] = box_index(i ? REM(rest, thread_number(size)) : rest);
        rest = i ? FLOORDIV(rest, thread_number(size)) : rest;
        step /= size;
    }
}

static void open_counted(struct points *p, int64_t count) {
    int64_t turns = (count + p->g->threads - 1) / p->g->threads;
    expr turn = NULL;
    if (turns > 1) {
        const struct tile_name *s = counter(p->g->thread->type, turns);
        tile_open_for(s, NULL, thread_number(turns), NULL,
                      turns <= UNROLLED_TURNS ? TILE_UNROLLED : TILE_SERIAL);
        p->opened++;
        turn = box_point(s);
    }
    expr number = p->g->thread;
    if (turn)
        number = ADD(number, MUL(turn, thread_number(p->g->threads)));
    if (count % p->g->threads)
        open_guard(p, LT(number, thread_number(count)));
    split_turns(p, turn);
}

// Writes the extents in index type. Returns their product.
static expr extents_of(const struct points *p, expr *extent) {
    expr count = NULL;
    for (int i = 0; i < p->sweep.vars; i++) {
        extent[i] = box_index(p->sweep.extent[i]);
        count = count ? MUL(count, extent[i]) : extent[i];
    }
    return count;
}

static void open_any(struct points *p) {
    expr extent[TILE_DIMS], count = extents_of(p, extent);
    const struct tile_name *s = counter(tile_index_type(), 0);
    tile_open_for(s, box_index(p->g->thread), count, box_number(p->g->threads), TILE_SERIAL);
    p->opened++;
    split(p, box_point(s), extent);
}

// Opens the points of a flat grid, each of which belongs to one thread of one workgroup. If another version
// of the code goes by runs, a workgroup has as many points here, of which a thread takes every threads-th.
static void open_flat(struct points *p) {
    expr extent[TILE_DIMS], count = extents_of(p, extent), threads = box_number(p->g->threads),
                            number = box_index(p->g->thread);
    if (p->g->each > 1 && !p->sweep.is_by_runs) {
        expr most = box_number(p->g->each * p->g->threads), begin = MUL(p->g->flat, most);
        const struct tile_name *s = counter(tile_index_type(), 0);
        expr end = MIN(ADD(begin, most), count);
        tile_open_for(s, ADD(begin, number), end, threads, TILE_SERIAL);
        p->opened++;
        number = box_point(s);
    } else {
        number = ADD(MUL(p->g->flat, threads), number);
        open_guard(p, LT(number, count));
    }
    split(p, number, extent);
}

bool thread_open_points(struct group *g, struct points *p, const struct sweep *sweep) {
    *p = (struct points){.g = g, .sweep = *sweep};
    map_free(&g->rewritten);
    int64_t known = pass_product(sweep->vars, sweep->extent), count = known > INT32_MAX / 2 ? -1 : known;
    if (g->flat)
        open_flat(p);
    else if (sweep->has_layout)
        open_layout(p);
    else if (count > 0)
        open_counted(p, count);
    else if (count < 0)
        open_any(p);
    return count != 0;
}

void thread_close_points(struct points *p) {
    while (p->opened-- > 0)
        tile_close();
}

// Expressions -----------------------------------------------------------------------------------------------

expr thread_slot(struct points *p, const struct tile_buffer *b, const int *to) {
    return layout_register(&p->g->of[b->id].layout, &p->sweep.layout, to, p->digit);
}

// Writes which axis of a tile each variable indexes, in the way of fragments.c.
static void axes_of(const struct points *p, const struct tile_buffer *b, const expr *index, int *to) {
    for (int var = 0; var < TILE_DIMS; var++)
        to[var] = LAYOUT_COPIES;
    for (int axis = 0; axis < b->ndim; axis++) {
        expr e = thread_without_casts(index[axis]);
        for (int var = 0; e->op == TILE_INDEX && pass_number(b->shape[axis]) > 1 && var < p->sweep.vars;
             var++)
            if (p->sweep.name[var] == e->name)
                to[var] = axis;
    }
}

static const struct tile_buffer *held_element(struct points *p, const struct tile_buffer *b, const int *to,
                                              expr *at, int *indices) {
    at[0] = box_number(0);
    at[1] = box_index(thread_slot(p, b, to));
    *indices = 2;
    return thread_now(p->g, b);
}

const struct tile_buffer *thread_element(struct points *p, const struct tile_buffer *b, const expr *index,
                                         expr *at, int *indices) {
    int to[TILE_DIMS];
    if (thread_is_held(p->g, b)) {
        axes_of(p, b, index, to);
        return held_element(p, b, to, at, indices);
    }
    *indices = b->ndim;
    for (int i = 0; i < b->ndim; i++)
        at[i] = thread_rewrite(p, index[i]);
    return thread_now(p->g, b);
}

static expr rewrite(void *points, expr e) {
    return thread_rewrite(points, e);
}

static expr rewrite_load(struct points *p, expr e) {
    expr held = thread_run_load(p, e);
    if (held != e)
        return held;
    expr at[TILE_DIMS], mask = e->args ? thread_rewrite(p, e->arg[0]) : NULL;
    int indices;
    const struct tile_buffer *b = thread_element(p, e->buffer, e->index, at, &indices);
    return tile_load(b, indices, at, mask, e->args ? thread_rewrite(p, e->arg[1]) : NULL);
}

expr thread_rewrite(struct points *p, expr e) {
    if (!e || e->op == TILE_CONST)
        return e;
    for (int i = 0; e->op == TILE_INDEX && i < p->sweep.vars; i++)
        if (p->sweep.name[i] == e->name)
            return p->point[i];
    expr known = map_get(&p->g->rewritten, &e, sizeof e);
    if (known)
        return known;
    expr result = e->op == TILE_LOAD ? rewrite_load(p, e) : pass_rebuild(e, rewrite, p);
    if (!result || !map_set(&p->g->rewritten, &e, sizeof e, (void *)result))
        p->g->failed = true;
    return result;
}

// Maps ------------------------------------------------------------------------------------------------------

static void emit_element(struct points *p, const struct tile_stmt *s) {
    if (thread_run_store(p, s))
        return;
    expr at[TILE_DIMS];
    struct tile_stmt next = *s;
    next.buffer = thread_element(p, s->buffer, s->index, at, &next.indices);
    next.index = at;
    next.value = thread_rewrite(p, s->value);
    next.mask = thread_rewrite(p, s->mask);
    next.is_once = s->is_once && next.buffer->memory == TILE_GLOBAL;
    bool is_own = next.buffer->memory == TILE_REGISTER;
    if (!is_own && p->first)
        next.mask = box_both(p->first, next.mask);
    tile_append(next);
}

static void emit_other(struct points *p, const struct tile_stmt *s) {
    struct tile_stmt next = *s;
    for (int i = 0; i < 3; i++)
        if (s->region[i].buffer)
            next.region[i].buffer = thread_now(p->g, s->region[i].buffer);
    pass_emit_as(&next, rewrite, p);
}

static bool has_shuffle(const struct group *g, const struct tile_stmt *s) {
    return s->threads <= g->target->group->subgroup;
}

// Makes the slots that shuffles in these statements need.
static void make_slots(struct group *g, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        if (s->kind == TILE_SHUFFLE && !has_shuffle(g, s)) {
            const struct tile_buffer **slots = &g->slots[tile_dtype_of(s->value->type)];
            *slots = *slots ? *slots : thread_registers("slots", s->value->type, TILE_SHARED, g->threads);
        }
        make_slots(g, s->body);
        make_slots(g, s->other);
    }
}

// Generates a shuffle through shared memory. All threads have to reach it together, because of the barriers.
static void emit_by_slots(struct points *p, const struct tile_stmt *s) {
    const struct tile_buffer *slots = p->g->slots[tile_dtype_of(s->value->type)];
    expr thread = box_index(p->g->thread), step = box_index(thread_rewrite(p, s->step));
    if (!slots || !thread || !step)
        return; // what made them NULL has marked the kernel as failed
    thread_store(slots, thread, thread_rewrite(p, s->value));
    thread_barrier();
    tile_assign(s->old, thread_load(slots, box_shuffle_source(s, thread, step)));
    thread_barrier();
}

static void emit_inner(struct points *p, const struct tile_stmt *s) {
    switch (s->kind) {
    case TILE_STORE:
    case TILE_ATOMIC: emit_element(p, s); return;
    case TILE_WAIT: return; // copies in maps are synchronous
    case TILE_SHUFFLE:
        if (has_shuffle(p->g, s))
            emit_other(p, s);
        else
            emit_by_slots(p, s);
        return;
    case TILE_FOR:
        if (thread_run_loop(p, s))
            return; // fallthrough
    default:
        emit_other(p, s);
        pass_emit_bodies(s, thread_body, p);
        return;
    }
}

void thread_body(void *points, const struct tile_stmt *body) {
    for (; body; body = body->next)
        emit_inner(points, body);
}

// Returns whether statements store nothing in tiles of registers and contain nothing that all threads have to
// reach together. One thread per point then suffices.
static bool keeps_nothing(struct group *g, const struct tile_stmt *body) {
    bool is_kept = false;
    for (const struct tile_stmt *s = body; s && !is_kept; s = s->next) {
        bool stores = s->kind == TILE_STORE || s->kind == TILE_ATOMIC;
        is_kept = tile_is_meeting(s) || (stores && thread_is_held(g, s->buffer)) ||
                  !keeps_nothing(g, s->body) || !keeps_nothing(g, s->other);
    }
    return !is_kept;
}

// Generates a map point by point. If several threads have the same point, only the first executes it where
// possible; the others might read what it has written already.
static void map_elements(struct group *g, const struct tile_stmt *s) {
    struct points p;
    struct sweep w = fragments_sweep(g, s);
    if (thread_open_points(g, &p, &w)) {
        if (p.first && keeps_nothing(g, s->body)) {
            open_guard(&p, p.first);
            p.first = NULL;
        }
        thread_body(&p, s->body);
    }
    thread_close_points(&p);
}

void thread_map(struct group *g, const struct tile_stmt *s) {
    if (!thread_run_map(g, s, map_elements))
        map_elements(g, s);
}

void thread_code(struct group *g, const struct tile_stmt *s) {
    struct points p = {.g = g, .sweep = {.vars = 1, .name = {s->name[0]}}, .point = {box_index(g->thread)}};
    memset(g->slots, 0, sizeof g->slots);
    make_slots(g, s->body);
    thread_body(&p, s->body);
}

void thread_alone(struct group *g, const struct tile_stmt *s) {
    struct points p = {.g = g};
    if (s->kind == TILE_STORE || s->kind == TILE_ATOMIC)
        emit_element(&p, s);
    else
        emit_other(&p, s);
}

// Copies and fills ------------------------------------------------------------------------------------------

struct tile_region thread_region(struct group *g, const struct tile_region *r, expr *origin) {
    struct points none = {.g = g};
    for (int i = 0; r->origin && i < r->buffer->ndim; i++)
        origin[i] = box_index(thread_rewrite(&none, r->origin[i]));
    return (struct tile_region){thread_now(g, r->buffer), r->origin ? origin : NULL, r->extent};
}

void thread_place(const struct sweep *w, int which, const struct tile_region *r, const expr *point,
                  expr *index) {
    for (int i = 0; i < r->buffer->ndim; i++) {
        int var = w->pair[which][i];
        expr origin = box_origin(r, i);
        index[i] = var < 0 ? origin : r->origin ? ADD(origin, point[var]) : point[var];
    }
}

void thread_axes(const struct sweep *w, int which, const struct tile_buffer *b, int *to) {
    for (int var = 0; var < TILE_DIMS; var++)
        to[var] = LAYOUT_COPIES;
    for (int axis = 0; axis < b->ndim; axis++)
        if (w->pair[which][axis] >= 0 && pass_number(b->shape[axis]) > 1)
            to[w->pair[which][axis]] = axis;
}

// Writes the indices of the element of a region at a point, and returns its buffer. Sets *inside to the test
// whether the element is in the buffer; NULL: it is.
static const struct tile_buffer *region_element(struct points *p, const struct tile_stmt *s, int which,
                                                expr *at, int *indices, expr *inside) {
    const struct tile_region *r = &s->region[which];
    expr origin[TILE_DIMS];
    int to[TILE_DIMS];
    *inside = NULL;
    if (thread_is_held(p->g, r->buffer)) {
        thread_axes(&p->sweep, which, r->buffer, to);
        return held_element(p, r->buffer, to, at, indices);
    }
    struct tile_region here = thread_region(p->g, r, origin);
    thread_place(&p->sweep, which, &here, p->point, at);
    *indices = r->buffer->ndim;
    *inside = box_holds(&here, at);
    return here.buffer;
}

static void store_at(struct points *p, const struct tile_stmt *s, expr value) {
    expr at[TILE_DIMS], inside;
    int indices;
    const struct tile_buffer *b = region_element(p, s, 1, at, &indices, &inside);
    if (b->memory != TILE_REGISTER && p->first)
        inside = box_both(p->first, inside);
    struct tile_stmt *store = tile_store(b, indices, at, value, inside);
    if (store)
        store->is_once = s->is_once && b->memory == TILE_GLOBAL;
}

static void copy_elements(struct group *g, const struct tile_stmt *s) {
    struct points p;
    struct sweep w = fragments_sweep(g, s);
    if (thread_open_points(g, &p, &w)) {
        expr at[TILE_DIMS], inside;
        int indices;
        const struct tile_buffer *b = region_element(&p, s, 0, at, &indices, &inside);
        struct points none = {.g = g};
        expr value = tile_load(b, indices, at, inside, inside ? thread_rewrite(&none, s->value) : NULL);
        store_at(&p, s, value ? tile_cast(s->region[1].buffer->type, value) : NULL);
    }
    thread_close_points(&p);
}

void thread_copy(struct group *g, const struct tile_stmt *s) {
    if (!thread_vector_copy(g, s, copy_elements))
        copy_elements(g, s);
}

void thread_fill(struct group *g, const struct tile_stmt *s) {
    struct points p;
    struct sweep w = fragments_sweep(g, s);
    if (thread_open_points(g, &p, &w)) {
        struct points none = {.g = g};
        store_at(&p, s, thread_rewrite(&none, s->value));
    }
    thread_close_points(&p);
}
