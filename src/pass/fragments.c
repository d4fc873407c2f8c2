// fragments.c - decides where the buffers of a block are stored: fragments in registers if one layout suits
// all their uses, else in shared memory; local buffers in every thread, unless several threads write their
// elements.
//
// Products choose the layouts of their results; from there layouts spread over the statements that use two
// tiles. If two layouts disagree, one tile goes to shared memory, and the search begins again.

#include "pass/threads.h"

enum { REGISTER_BYTES = 1024 }; // of one tile in one thread, at most

static struct holding *held(struct group *g, const struct tile_buffer *b) {
    return &g->of[b->id];
}

static void each_stmt(struct group *g, const struct tile_stmt *body,
                      void (*visit)(struct group *, const struct tile_stmt *)) {
    for (; body; body = body->next) {
        visit(g, body);
        if (!thread_is_spread(body)) {
            each_stmt(g, body->body, visit);
            each_stmt(g, body->other, visit);
        }
    }
}

// Deciding --------------------------------------------------------------------------------------------------

struct deciding {
    bool changed, conflict;
};
static _Thread_local struct deciding deciding; // the state of this thread's search

static void to_shared(struct group *g, const struct tile_buffer *b) {
    if (fragments_is_held(g, b)) {
        held(g, b)->how = HELD_SHARED;
        deciding.conflict = true;
    }
}

static void settle(struct group *g, const struct tile_buffer *b, const struct layout *l) {
    struct holding *h = held(g, b);
    if (h->is_known && !layout_equal(&h->layout, l))
        to_shared(g, b);
    else if (!h->is_known && layout_registers(l) * tile_type_bytes(b->type) > REGISTER_BYTES)
        to_shared(g, b);
    else if (!h->is_known) {
        h->is_known = deciding.changed = true;
        h->layout = *l;
    }
}

// Gives all tiles of a statement the layout of the one that leads.
static void spread(struct group *g, const struct tile_stmt *s) {
    struct use use[USES];
    int count = fragments_uses(g, s, use);
    struct sweep w;
    if (!fragments_lead(g, s, count, use, &w))
        return;
    for (int i = 0; i < count; i++) {
        bool fits = w.has_layout && use[i].is_good;
        for (int var = 0; var < w.vars; var++)
            fits = fits && (use[i].to[var] == LAYOUT_COPIES || use[i].size[var] == w.covered[var]);
        struct layout part = fits ? layout_project(&w.layout, use[i].to) : w.layout;
        if (!fits)
            to_shared(g, use[i].buffer);
        else
            settle(g, use[i].buffer, &part);
    }
}

static void seed_product(struct group *g, const struct tile_stmt *s) {
    if (s->kind != TILE_GEMM)
        return;
    const struct tile_region *a = &s->region[0], *b = &s->region[1], *c = &s->region[2];
    struct product p = fragments_product(g, s);
    struct layout l;
    to_shared(g, b->buffer);
    for (int i = 0; i < 2; i++)
        if (p.is_matrix && s->region[i].buffer->id < g->buffers)
            g->of[s->region[i].buffer->id].is_operand = true;
    if (p.is_matrix && fragments_is_held(g, a->buffer)) {
        bool fits = a->buffer->ndim == 2 && !s->transpose[0] && fragments_is_whole(a, NULL) &&
                    layout_matrix(&l, p.rows, p.depth, p.down, 1);
        if (fits && p.across > 1 && l.threads < LAYOUT_DIGITS)
            l.thread[l.threads++] = (struct layout_digit){LAYOUT_COPIES, p.across, 0};
        if (fits)
            settle(g, a->buffer, &l);
        else
            to_shared(g, a->buffer);
    } else
        to_shared(g, a->buffer);
    if (!fragments_is_held(g, c->buffer))
        return;
    bool is_tile = c->buffer->ndim == 2 && fragments_is_whole(c, NULL) && p.rows > 0 && p.columns > 0;
    if (is_tile && (p.is_matrix ? layout_matrix(&l, p.rows, p.columns, p.down, p.across)
                                : layout_outer(&l, p.rows, p.columns, g->threads)))
        settle(g, c->buffer, &l);
    else
        to_shared(g, c->buffer);
}

static void share_access(struct group *g, const struct access *a, void *data) {
    (void)data;
    to_shared(g, a->buffer);
}

// Puts a tile into shared memory that a statement with USES of them uses besides these.
static void share_rest(struct group *g, const struct access *a, void *data) {
    const struct use *use = data;
    int i = 0;
    while (i < USES && use[i].buffer != a->buffer)
        i++;
    if (i == USES)
        to_shared(g, a->buffer);
}

// Puts tiles into shared memory that have uses which no layout suits: single elements by all threads, code of
// threads, scans, parts of tiles, reductions from other memory. Of more than USES tiles of one statement the
// rest is there too.
static void seed_shared(struct group *g, const struct tile_stmt *s) {
    struct use use[USES];
    expr root[TILE_STMT_EXPRS];
    bool is_tile =
        s->kind == TILE_COPY || s->kind == TILE_FILL || s->kind == TILE_REDUCE || s->kind == TILE_GEMM;
    if ((thread_is_spread(s) && s->kind != TILE_THREAD) || is_tile) {
        int count = fragments_uses(g, s, use);
        for (int i = 0; i < count; i++)
            if (!use[i].is_good)
                to_shared(g, use[i].buffer);
        if (count == USES)
            thread_accesses(g, s, share_rest, use);
        if (is_tile || thread_is_spread(s)) { // of what origins and extents read
            count = tile_stmt_exprs(s, root);
            thread_expr_accesses(g, count, root, share_access, NULL);
        }
        if (s->kind == TILE_REDUCE && !fragments_is_held(g, s->region[0].buffer))
            to_shared(g, s->region[1].buffer);
    } else
        thread_accesses(g, s, share_access, NULL);
}

// Returns the most threads along the last axis. If rows are reduced and there are enough of them, it is few
// threads per row, because threads of one subgroup need no barrier.
static int threads_along(const struct group *g, int64_t count, int64_t line) {
    int64_t lines = line > 0 ? count / line : 0;
    return g->by_lines && lines > 0 ? (int)MAX_OF(g->threads / lines, SUBGROUP) : g->threads;
}

static void choose_alone(struct group *g, const struct tile_buffer *b) {
    int64_t size[TILE_DIMS], count = 1;
    struct layout l;
    for (int i = 0; i < b->ndim; i++) {
        size[i] = pass_number(b->shape[i]);
        if (!tile_times(count, size[i], &count))
            count = 0;
    }
    // Vectors have 16 bytes or the tile's alignment, or fewer bytes if some threads would have none.
    int vector = MAX_OF((b->align ? MIN_OF(b->align, 16) : 16) / tile_type_bytes(b->type), 1);
    int along = threads_along(g, count, b->ndim ? size[b->ndim - 1] : 1);
    bool good = count > 0 && count < 1 << 20 && layout_blocked(&l, b->ndim, size, g->threads, along, vector);
    while (good && count >= g->threads && layout_copies(&l) > 1 && vector > 1)
        layout_blocked(&l, b->ndim, size, g->threads, along, vector /= 2);
    if (good && (count < g->threads || layout_copies(&l) == 1))
        settle(g, b, &l);
    else
        to_shared(g, b);
}

static bool decide_next(struct group *g, const struct tile_stmt *body, int wanted) {
    for (; body; body = body->next) {
        if (body->kind == TILE_ALLOC && fragments_is_held(g, body->buffer) &&
            !held(g, body->buffer)->is_known && body->buffer->ndim == wanted) {
            choose_alone(g, body->buffer);
            return true;
        }
        if (!thread_is_spread(body) &&
            (decide_next(g, body->body, wanted) || decide_next(g, body->other, wanted)))
            return true;
    }
    return false;
}

static void spread_all(struct group *g) {
    do {
        deciding.changed = false;
        each_stmt(g, g->body, spread);
    } while (deciding.changed && !deciding.conflict);
}

static void decide(struct group *g) {
    do {
        deciding = (struct deciding){0};
        for (int i = 0; i < g->buffers; i++)
            g->of[i].is_known = false;
        each_stmt(g, g->body, seed_shared);
        each_stmt(g, g->body, seed_product);
        spread_all(g);
        for (int axes = TILE_DIMS; axes >= 0 && !deciding.conflict; axes--)
            while (!deciding.conflict && decide_next(g, g->body, axes))
                spread_all(g);
    } while (deciding.conflict && !g->failed);
}

// What is held at first -------------------------------------------------------------------------------------

static void mark_sums(struct group *g, const struct tile_stmt *s) {
    if (s->kind == TILE_GEMM && s->region[2].buffer->id < g->buffers)
        g->of[s->region[2].buffer->id].is_sum = true;
}

static void mark_rows(struct group *g, const struct tile_stmt *s) {
    bool of_rows = s->kind == TILE_REDUCE && s->axis == s->region[0].buffer->ndim - 1 &&
                   s->region[0].buffer->id < g->buffers && g->of[s->region[0].buffer->id].is_sum;
    bool again = s->kind == TILE_GEMM && s->region[0].buffer->memory == TILE_FRAGMENT;
    g->by_rows = g->by_rows || of_rows || again;
    g->by_lines = g->by_lines || (s->kind == TILE_REDUCE && s->axis == s->region[0].buffer->ndim - 1);
}

static void share_write(struct group *g, const struct access *a, void *data) {
    (void)data;
    if (a->is_write && a->buffer->memory == TILE_REGISTER && a->buffer->id < g->buffers)
        g->of[a->buffer->id].how = HELD_SHARED;
}

// Puts a local buffer of the block into shared memory if threads write it at points of their own. One that is
// declared inside of such a statement belongs to each thread: hold_in_maps.
static void mark_local(struct group *g, const struct tile_stmt *s) {
    bool is_divided = thread_is_spread(s) || (s->kind >= TILE_COPY && s->kind <= TILE_GEMM);
    if (is_divided)
        thread_accesses(g, s, share_write, NULL);
}

static void hold_inner(struct group *g, const struct tile_stmt *body) {
    for (; body; body = body->next) {
        if (body->kind == TILE_ALLOC)
            g->of[body->buffer->id].how = HELD_BY_ALL;
        hold_inner(g, body->body);
        hold_inner(g, body->other);
    }
}

// Places a view: in shared memory, with the memory that it is a view of, or as the kernel says if that is the
// kernel's memory.
static void hold_view(struct group *g, const struct tile_buffer *b) {
    const struct tile_buffer *memory = tile_memory_of(b);
    bool is_here = memory->id < g->buffers && memory->parameter < 0 && g->of[memory->id].how != HELD_AS_IS;
    g->of[b->id].how = is_here ? HELD_SHARED : HELD_AS_IS;
    if (is_here) {
        g->of[memory->id].how = HELD_SHARED;
        g->of[memory->id].has_view = true;
    }
}

static void hold(struct group *g, const struct tile_stmt *s) {
    if (s->kind == TILE_ALLOC && s->buffer->base)
        hold_view(g, s->buffer);
    else if (s->kind == TILE_ALLOC)
        g->of[s->buffer->id].how = s->buffer->memory == TILE_FRAGMENT   ? HELD_IN_REGISTERS
                                   : s->buffer->memory == TILE_REGISTER ? HELD_BY_ALL
                                                                        : HELD_SHARED;
}

static void hold_in_maps(struct group *g, const struct tile_stmt *s) {
    if (thread_is_spread(s))
        hold_inner(g, s->body);
}

bool fragments_place(struct group *g) {
    each_stmt(g, g->body, hold);
    each_stmt(g, g->body, mark_local);
    each_stmt(g, g->body, hold_in_maps);
    each_stmt(g, g->body, mark_sums);
    each_stmt(g, g->body, mark_rows);
    decide(g);
    return !g->failed;
}
