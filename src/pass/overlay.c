// overlay.c - if a block needs more shared memory than a workgroup can have, buffers whose uses do not
// overlap in time share memory.
//
// A buffer is in use from the first statement of the block that touches it to the last. The largest buffers
// come first: each takes the memory of an earlier one, if it is never in use together with that one or its
// other borrowers.

#include "pass/threads.h"

struct uses {
    const struct tile_buffer *buffer; // NULL: it is not declared in the block itself, or cannot share
    int64_t bytes;
    int first, last; // numbers of statements; first -1: none touches it
};

struct rooms {
    struct group *g;
    struct uses *of; // by id
    int at;          // the number of the current statement
};

static void note_use(struct group *g, const struct access *a, void *data) {
    struct rooms *r = data;
    const struct tile_buffer *memory = tile_memory_of(a->buffer);
    if (memory->id >= g->buffers)
        return;
    struct uses *u = &r->of[memory->id];
    u->first = u->first < 0 ? r->at : u->first;
    u->last = r->at;
}

static int64_t bytes_of(const struct tile_buffer *b) {
    int64_t count = pass_product(b->ndim, b->shape), bytes;
    return tile_times(MAX_OF(count, 0), tile_type_bytes(b->type), &bytes) ? bytes : INT64_MAX / 2;
}

// Finds the uses of all buffers. Returns the bytes of shared memory that the block has.
static int64_t find_uses(struct rooms *r) {
    int64_t all = 0;
    for (int i = 0; i < r->g->buffers; i++)
        r->of[i].first = -1;
    for (const struct tile_stmt *s = r->g->body; s; s = s->next) {
        struct tile_stmt alone = *s;
        alone.next = NULL;
        r->at++;
        thread_all_accesses(r->g, &alone, note_use, r);
        if (s->kind != TILE_ALLOC || s->buffer->base || r->g->of[s->buffer->id].how != HELD_SHARED)
            continue;
        struct uses *u = &r->of[s->buffer->id];
        u->bytes = bytes_of(s->buffer);
        u->buffer = s->buffer->stride ? NULL : s->buffer;
        all = MIN_OF(all + u->bytes, INT64_MAX / 4);
    }
    return all;
}

static bool overlap(const struct uses *a, const struct uses *b) {
    return a->first <= b->last && b->first <= a->last;
}

// Returns whether no buffer in the memory of `lender` is in use together with u.
static bool is_free(const struct rooms *r, const struct tile_buffer *lender, const struct uses *u) {
    for (int i = 0; i < r->g->buffers; i++)
        if (r->of[i].buffer && (r->of[i].buffer == lender || r->g->of[i].lender == lender) &&
            overlap(&r->of[i], u))
            return false;
    return true;
}

static struct uses *largest(const struct rooms *r, const bool *is_done) {
    struct uses *best = NULL;
    for (int i = 0; i < r->g->buffers; i++)
        if (r->of[i].buffer && r->of[i].first >= 0 && !is_done[i] && (!best || r->of[i].bytes > best->bytes))
            best = &r->of[i];
    return best;
}

static void share(struct rooms *r, bool *is_done) {
    struct group *g = r->g;
    for (struct uses *u; (u = largest(r, is_done));) {
        const struct tile_buffer *lender = NULL;
        struct holding *h = &g->of[u->buffer->id];
        for (int i = 0; i < g->buffers && !lender && !h->has_view; i++)
            if (is_done[i] && !g->of[i].lender && is_free(r, r->of[i].buffer, u))
                lender = r->of[i].buffer;
        is_done[u->buffer->id] = true;
        h->lender = lender;
        if (lender)
            g->of[lender->id].lends = true;
    }
}

void overlay_share(struct group *g) {
    const struct target_group *t = g->target->group;
    struct rooms r = {.g = g, .of = memory_zero(sizeof *r.of * (size_t)(g->buffers + 1))};
    bool *is_done = memory_zero((size_t)g->buffers + 1);
    g->failed = g->failed || !r.of || !is_done;
    if (!g->failed && t->most_threads && find_uses(&r) > t->most_shared)
        share(&r, is_done);
    memory_free(r.of);
    memory_free(is_done);
}
