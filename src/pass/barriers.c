// barriers.c - inserts a barrier before a statement that reads what other threads may have written since the
// last barrier, or writes what they may have read or written. Two statements that divide their points in the
// same way, and touch only the element of their own point, need none.

#include "pass/threads.h"

#include <string.h>

// Which threads touched a buffer; other numbers are ways to divide points. Atomics do not conflict with each
// other.
enum { NOBODY = 0, EVERYBODY = 1, FIRST_THREAD = 2, ATOMICALLY = 3 };

struct touched {
    uint32_t read, write, flying; // flying: written by asynchronous copies without a wait so far
};

struct placing {
    struct group *g;
    struct touched *of; // by id of buffer
    const struct tile_stmt *at;
    uint32_t way; // how its points are divided
    bool conflict, records;
};

// Ways ------------------------------------------------------------------------------------------------------

static uint32_t mix(uint32_t hash, const void *data, size_t bytes) {
    const unsigned char *at = data;
    while (bytes--)
        hash = (hash ^ *at++) * 16777619u;
    return hash;
}

static uint32_t way_of(struct group *g, const struct tile_stmt *s) {
    if (s->kind == TILE_STORE || s->kind == TILE_ATOMIC || s->kind == TILE_ASSERT || s->kind == TILE_PRINT)
        return FIRST_THREAD;
    if ((!thread_is_spread(s) && s->kind != TILE_COPY && s->kind != TILE_FILL) || s->kind == TILE_THREAD)
        return EVERYBODY;
    struct sweep w = fragments_sweep(g, s);
    uint32_t hash = 2166136261u;
    for (int i = 0; i < w.vars; i++) {
        int64_t extent = pass_number(w.extent[i]);
        hash = mix(hash, &extent, sizeof extent);
        if (extent < 0)
            return EVERYBODY;
    }
    if (w.has_layout) {
        hash = mix(hash, w.layout.thread, sizeof *w.layout.thread * (size_t)w.layout.threads);
        hash = mix(hash, w.layout.slot, sizeof *w.layout.slot * (size_t)w.layout.slots);
    } else if (s->kind == TILE_COPY) // it may be by vectors
        return EVERYBODY;
    else if (s->kind != TILE_FILL) {
        bool is_sure;
        int64_t run = thread_map_run(g, s, &is_sure);
        if (!is_sure)
            return EVERYBODY;
        hash = run > 1 ? mix(hash, &run, sizeof run) : hash;
    }
    return hash | 4;
}

// Returns whether an access of a statement touches only the element of its own point.
static bool is_own(const struct tile_stmt *s, const struct access *a) {
    if (a->region)
        return (s->kind == TILE_COPY || s->kind == TILE_FILL) && !a->buffer->base &&
               fragments_is_whole(a->region, NULL);
    if (!a->index || a->buffer->base || !thread_is_spread(s) || a->buffer->ndim != s->indices)
        return false;
    for (int i = 0; i < s->indices; i++) {
        expr e = thread_without_casts(a->index[i]);
        if (e->op != TILE_INDEX || e->name != s->name[i])
            return false;
    }
    return true;
}

// Conflicts -------------------------------------------------------------------------------------------------

static bool clashes(uint32_t before, uint32_t now) {
    return before != NOBODY && (before != now || now == EVERYBODY);
}

static void note(uint32_t *who, uint32_t way) {
    *who = *who == NOBODY || *who == way ? way : EVERYBODY;
}

// Returns whether threads share memory: that of the workgroup, and what the kernel writes.
static bool is_common(const struct group *g, const struct tile_buffer *b) {
    if (b->parameter >= 0)
        return b->is_output;
    return b->id < g->buffers && (g->of[b->id].how == HELD_SHARED || g->of[b->id].how == HELD_AS_IS);
}

static void look(struct group *g, const struct access *a, void *data) {
    struct placing *p = data;
    const struct tile_buffer *memory = tile_memory_of(a->buffer);
    if (!is_common(g, memory))
        return;
    const struct holding *h = memory->id < g->buffers ? &g->of[memory->id] : NULL;
    bool is_lent = h && (h->lends || h->lender); // elements of two buffers have the same address
    struct touched *t = &p->of[h && h->lender ? h->lender->id : memory->id];
    uint32_t way = is_lent                                      ? EVERYBODY
                   : a->is_atomic                               ? ATOMICALLY
                   : p->way <= FIRST_THREAD || is_own(p->at, a) ? p->way
                                                                : EVERYBODY;
    if (!p->records && !(a->is_write && p->at->is_ahead))
        p->conflict = p->conflict || clashes(t->write, way) || (a->is_write && clashes(t->read, way));
    else if (p->records && a->is_write)
        note(p->at->is_async ? &t->flying : &t->write, way);
    else if (p->records)
        note(&t->read, way);
}

static void visit(struct placing *p, const struct tile_stmt *s, bool records) {
    expr root[TILE_STMT_EXPRS];
    p->records = records;
    p->at = s;
    bool is_control = !thread_is_spread(s) &&
                      (s->body || s->kind == TILE_IF || s->kind == TILE_WHILE || s->kind == TILE_FOR);
    if (is_control) {
        p->way = EVERYBODY;
        thread_expr_accesses(p->g, tile_stmt_exprs(s, root), root, look, p);
    } else {
        p->way = way_of(p->g, s);
        thread_accesses(p->g, s, look, p);
    }
}

static void forget(struct placing *p) {
    for (int i = 0; i < p->g->buffers; i++)
        p->of[i].read = p->of[i].write = NOBODY;
}

// Notes what asynchronous copies wrote as written, after a wait.
static void land(struct placing *p) {
    for (int i = 0; i < p->g->buffers; i++)
        if (p->of[i].flying) {
            note(&p->of[i].write, p->of[i].flying);
            p->of[i].flying = NOBODY;
        }
}

static void unite(struct placing *p, const struct touched *other) {
    for (int i = 0; i < p->g->buffers; i++) {
        if (other[i].read)
            note(&p->of[i].read, other[i].read);
        if (other[i].write)
            note(&p->of[i].write, other[i].write);
        if (other[i].flying)
            note(&p->of[i].flying, other[i].flying);
    }
}

// Placing ---------------------------------------------------------------------------------------------------

static void place(struct placing *p, struct tile_stmt **body, bool is_trial);

static struct touched *copy_state(struct placing *p) {
    struct touched *copy = memory_zero(sizeof *copy * (size_t)(p->g->buffers + 1));
    if (copy)
        memcpy(copy, p->of, sizeof *copy * (size_t)p->g->buffers);
    else
        p->g->failed = true;
    return copy;
}

static void insert(struct group *g, struct tile_stmt **link) {
    struct tile_kernel *kernel = tile_current();
    struct tile_stmt *barrier = kernel ? arena_alloc(&kernel->arena, sizeof *barrier) : NULL;
    if (!barrier) {
        g->failed = true;
        return;
    }
    *barrier = (struct tile_stmt){.kind = TILE_BARRIER, .scope = TILE_GROUP, .next = *link};
    *link = barrier;
}

// Looks at the condition of a loop again after an iteration, which may have written what the condition reads.
static void revisit_condition(struct placing *p, struct tile_stmt *s, bool is_trial) {
    p->conflict = false;
    visit(p, s, false);
    if (p->conflict && s->kind == TILE_WHILE) {
        forget(p);
        struct tile_stmt **end = &s->body;
        while (*end)
            end = &(*end)->next;
        if (!is_trial)
            insert(p->g, end);
    }
    visit(p, s, true);
}

// Places barriers in a loop. An iteration begins with the accesses of the one before.
static void place_loop(struct placing *p, struct tile_stmt *s, bool is_trial) {
    struct touched *before = copy_state(p);
    if (!before)
        return;
    place(p, &s->body, true);
    revisit_condition(p, s, true);
    unite(p, before);
    place(p, &s->body, is_trial);
    revisit_condition(p, s, is_trial);
    unite(p, before);
    memory_free(before);
}

static void place_branches(struct placing *p, struct tile_stmt *s, bool is_trial) {
    struct touched *before = copy_state(p), *first = NULL;
    if (!before)
        return;
    place(p, &s->body, is_trial);
    first = copy_state(p);
    memcpy(p->of, before, sizeof *before * (size_t)p->g->buffers);
    place(p, &s->other, is_trial);
    if (first)
        unite(p, first);
    memory_free(first);
    memory_free(before);
}

// Places barriers in a list of statements. A wait ends the asynchronous copies before it.
static void place(struct placing *p, struct tile_stmt **body, bool is_trial) {
    for (struct tile_stmt **link = body; *link && !p->g->failed; link = &(*link)->next) {
        struct tile_stmt *s = *link;
        if (s->kind == TILE_BARRIER)
            forget(p);
        if (s->kind == TILE_WAIT)
            land(p);
        p->conflict = false;
        visit(p, s, false);
        if (p->conflict) {
            forget(p);
            if (!is_trial) {
                insert(p->g, link);
                link = &(*link)->next;
            }
        }
        visit(p, s, true);
        if (thread_is_spread(s))
            continue;
        if (s->kind == TILE_FOR || s->kind == TILE_WHILE)
            place_loop(p, s, is_trial);
        else if (s->kind == TILE_IF)
            place_branches(p, s, is_trial);
    }
}

void barriers_place(struct group *g, struct tile_stmt **body) {
    struct placing p = {.g = g, .of = memory_zero(sizeof *p.of * (size_t)(g->buffers + 1))};
    if (p.of)
        place(&p, body, false);
    else
        g->failed = true;
    memory_free(p.of);
}
