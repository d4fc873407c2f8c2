// lockstep.c - runs the threads of a block in the interpreter; each has its own names and local memory.
//
// Between two points where threads meet (barriers, shuffles, allocations of shared memory) they run one after
// the other. Conditions and bounds around such points must be the same for all threads: threads that took
// different ways would wait for each other forever.

#include "tile/interpret.h"

#include <string.h>

struct crew {
    struct machine *m;
    int64_t count;
    union tile_value *name; // of thread 0, then of thread 1, ...
    struct cells *cells;
};

static void become(struct crew *c, int64_t thread) {
    c->m->name = c->name + thread * c->m->kernel->names;
    c->m->cells = c->cells + thread * c->m->kernel->buffers;
}

// Allocates shared memory: the first thread does, and owns it; the others get the same address.
static bool run_shared(struct crew *c, const struct tile_stmt *s) {
    become(c, 0);
    if (!machine_run(c->m, s, s->next))
        return false;
    struct cells made = c->m->cells[s->buffer->id];
    made.is_owned = false;
    for (int64_t i = 1; i < c->count; i++)
        c->cells[i * c->m->kernel->buffers + s->buffer->id] = made;
    return true;
}

// Evaluates what all threads must agree on: a condition, or the bounds of a loop. Fails if two threads
// differ.
static bool agree(struct crew *c, const struct tile_stmt *s, struct operands *out) {
    for (int64_t i = 0; i < c->count; i++) {
        struct operands own = {0};
        become(c, i);
        c->m->at = s;
        if (!machine_evaluate(c->m, s, i ? &own : out))
            return false;
        bool same = !i || (s->kind == TILE_FOR ? own.begin == out->begin && own.step == out->step &&
                                                     own.extent[0] == out->extent[0]
                                               : own.mask.b == out->mask.b);
        if (!same)
            return machine_fail(c->m, "threads 0 and %lld go different ways, with a barrier on one of them",
                                (long long)i);
    }
    return true;
}

static int64_t source_of(const struct tile_stmt *s, int64_t thread, uint64_t step) {
    int64_t size = s->threads, lane = thread % size, by = (int64_t)(step & (uint64_t)(size - 1));
    int64_t from = s->shuffle == TILE_SHUFFLE_XOR    ? (lane ^ by)
                   : s->shuffle == TILE_SHUFFLE_FROM ? by
                                                     : lane - by;
    return thread - lane + (from < 0 ? lane : from);
}

// Evaluates the values of all threads before it assigns any result.
static bool run_shuffle(struct crew *c, const struct tile_stmt *s) {
    struct operands *o = memory_zero(sizeof *o * (size_t)c->count);
    bool good = o;
    for (int64_t i = 0; i < c->count && good; i++) {
        become(c, i);
        c->m->at = s;
        good = machine_evaluate(c->m, s, &o[i]);
    }
    for (int64_t i = 0; i < c->count && good; i++)
        c->name[i * c->m->kernel->names + s->old->id] = o[source_of(s, i, (uint64_t)o[i].step)].value;
    memory_free(o);
    return good;
}

static bool run_list(struct crew *c, const struct tile_stmt *body);

static bool run_turns(struct crew *c, const struct tile_stmt *s) {
    struct operands o = {0};
    if (!agree(c, s, &o))
        return false;
    for (int64_t i = o.begin; o.step && (o.step > 0 ? i < o.extent[0] : i > o.extent[0]) && !c->m->broke;) {
        for (int64_t k = 0; k < c->count; k++)
            c->name[k * c->m->kernel->names + s->name[0]->id].i = i;
        if (!run_list(c, s->body))
            return false;
        if (__builtin_add_overflow(i, o.step, &i))
            break;
    }
    c->m->broke = false;
    return o.step || machine_fail(c->m, "the step is 0");
}

static bool run_together(struct crew *c, const struct tile_stmt *s) {
    struct operands o = {0};
    switch (s->kind) {
    case TILE_ALLOC: return run_shared(c, s);
    case TILE_SHUFFLE: return run_shuffle(c, s);
    case TILE_BREAK: return c->m->broke = true;
    case TILE_FOR: return run_turns(c, s);
    case TILE_IF: return agree(c, s, &o) && run_list(c, o.mask.b ? s->body : s->other);
    case TILE_WHILE:
        while (!c->m->broke && agree(c, s, &o) && o.mask.b)
            if (!run_list(c, s->body))
                return false;
        c->m->broke = false;
        return !c->m->failed;
    default: return true;
    }
}

static bool run_list(struct crew *c, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body, *end; s && !c->m->broke; s = end) {
        for (end = s; end && !tile_is_meeting(end);)
            end = end->next;
        for (int64_t i = 0; i < c->count && end != s; i++) {
            become(c, i);
            if (!machine_run(c->m, s, end))
                return false;
        }
        if (end && !run_together(c, end))
            return false;
        end = end ? end->next : NULL;
    }
    return true;
}

bool machine_threads(struct machine *m, const struct tile_stmt *s, const struct operands *o) {
    struct crew c = {.m = m, .count = o->extent[0]};
    union tile_value *name = m->name;
    struct cells *cells = m->cells;
    size_t names = (size_t)m->kernel->names, buffers = (size_t)m->kernel->buffers, count = (size_t)c.count;
    c.name = memory_zero((names * count + 1) * sizeof *c.name);
    c.cells = memory_zero((buffers * count + 1) * sizeof *c.cells);
    for (size_t i = 0; c.name && c.cells && i < count; i++) {
        memcpy(c.name + i * names, name, names * sizeof *name);
        c.name[i * names + (size_t)s->name[0]->id].i = (int64_t)i;
        memcpy(c.cells + i * buffers, cells, buffers * sizeof *cells);
        for (size_t k = 0; k < buffers; k++)
            c.cells[i * buffers + k].is_owned = false;
    }
    bool good = c.name && c.cells && run_list(&c, s->body);
    for (size_t i = 0; c.cells && i < buffers * count; i++)
        if (c.cells[i].is_owned)
            memory_free(c.cells[i].data);
    memory_free(c.name);
    memory_free(c.cells);
    m->name = name;
    m->cells = cells;
    return good;
}
