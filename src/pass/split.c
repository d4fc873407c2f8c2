// split.c - replaces `thread` by loops over threads, for targets whose blocks are one thread.
//
// The code is cut where threads meet, and each piece becomes a map over all threads. What a thread keeps from
// piece to piece is stored in memory of the block: a variable becomes a buffer with an element per thread,
// and local memory gets a first axis for the threads. Conditions and bounds around meeting places are
// computed for the first thread, since they are the same for all.

#include "pass/boxes.h"

#include <string.h>

struct split {
    const struct tile_name *thread;
    expr count, now; // of threads; the thread whose code is generated
    const struct tile_buffer **memory,
        **variable; // the replacements of local buffers and of variables, by id; NULL: there is none
    int buffers, names;
    struct map rewritten; // expressions of the thread `now`
    bool failed;
};

static void fail(struct split *t, const struct tile_stmt *s, const char *what, const char *name) {
    if (!t->failed)
        error_set(ZL_ERROR_COMPILE, "kernel %s, line %d: in a thread %s%s", tile_current()->name,
                  s->place.line, what, name);
    t->failed = true;
}

// Expressions -----------------------------------------------------------------------------------------------

static const struct tile_buffer *memory_of(const struct split *t, const struct tile_buffer *b) {
    return b->id < t->buffers ? t->memory[b->id] : NULL;
}

static const struct tile_buffer *variable_of(const struct split *t, const struct tile_name *name) {
    return name->id < t->names ? t->variable[name->id] : NULL;
}

static expr rewrite(void *data, expr e) {
    struct split *t = data;
    expr known = map_get(&t->rewritten, &e, sizeof e);
    if (known)
        return known;
    const struct tile_buffer *own = e->op == TILE_LOAD ? memory_of(t, e->buffer) : NULL;
    expr result = pass_rebuild(e, rewrite, t);
    if (e->op == TILE_INDEX && e->name == t->thread)
        result = t->now;
    else if (e->op == TILE_LOCAL && variable_of(t, e->name))
        result = tile_load(variable_of(t, e->name), 1, &t->now, NULL, NULL);
    else if (own && result) {
        expr at[1 + TILE_DIMS] = {t->now}, mask = e->args ? result->arg[0] : NULL;
        memcpy(at + 1, result->index, sizeof *at * (size_t)e->indices);
        result = tile_load(own, e->indices + 1, at, mask, mask ? result->arg[1] : NULL);
    }
    if (!result || !map_set(&t->rewritten, &e, sizeof e, (void *)result))
        t->failed = true;
    return result;
}

static void become(struct split *t, expr thread) {
    map_free(&t->rewritten);
    t->now = thread;
}

// Statements ------------------------------------------------------------------------------------------------

// Emits a statement with its expressions rewritten for the current thread. Leaves one with a body open.
static struct tile_stmt *emit_alone(struct split *t, const struct tile_stmt *s) {
    const struct tile_buffer *own = s->index ? memory_of(t, s->buffer) : NULL;
    expr at[1 + TILE_DIMS] = {t->now};
    struct tile_stmt next = *s;
    if (own) {
        memcpy(at + 1, s->index, sizeof *at * (size_t)s->indices);
        next.buffer = own;
        next.index = at;
        next.indices++;
    }
    for (int i = 0; i < 3 && s->region[i].buffer; i++)
        if (memory_of(t, s->region[i].buffer))
            fail(t, s, "products and reductions have shared memory, not local: ", s->region[i].buffer->text);
    return t->failed ? NULL : pass_emit_as(&next, rewrite, t);
}

static void emit(struct split *t, const struct tile_stmt *s);

static void emit_all(void *data, const struct tile_stmt *body) {
    struct split *t = data;
    for (; body && !t->failed; body = body->next)
        emit(t, body);
}

static void emit(struct split *t, const struct tile_stmt *s) {
    const struct tile_name *assigned = s->kind == TILE_ASSIGN ? s->name[0] : s->old;
    if (s->kind == TILE_ALLOC)
        return;
    if (s->kind == TILE_ASSIGN)
        tile_store(variable_of(t, assigned), 1, &t->now, rewrite(t, s->value), NULL);
    else if (emit_alone(t, s)) {
        pass_emit_bodies(s, emit_all, t);
        if (assigned)
            tile_store(variable_of(t, assigned), 1, &t->now, tile_name_value(assigned, TILE_LOCAL), NULL);
    }
}

static bool is_cut(const struct tile_stmt *s) {
    return tile_is_meeting(s) || (s->kind == TILE_ALLOC && s->buffer->base);
}

// Emits a shuffle through memory with an element per thread: one map writes what the next one reads.
static void emit_shuffle(struct split *t, const struct tile_stmt *s) {
    struct tile_buffer *given = tile_alloc("given", s->value->type, TILE_REGISTER, 1, &t->count);
    for (int turn = 0; turn < 2 && given; turn++) {
        const struct tile_name *thread = box_variable(t->count);
        tile_open_map(1, &thread, &t->count);
        become(t, box_point(thread));
        if (turn == 0) {
            tile_store(given, 1, &t->now, rewrite(t, s->value), NULL);
        } else {
            expr from = box_shuffle_source(s, t->now, box_index(rewrite(t, s->step)));
            tile_store(variable_of(t, s->old), 1, &t->now, tile_load(given, 1, &from, NULL, NULL), NULL);
        }
        tile_close();
    }
}

static void emit_pieces(void *data, const struct tile_stmt *body);

static void emit_meeting(struct split *t, const struct tile_stmt *s) {
    become(t, box_number(0));
    if (s->kind == TILE_FOR || s->kind == TILE_IF || s->kind == TILE_WHILE) {
        if (emit_alone(t, s))
            pass_emit_bodies(s, emit_pieces, t);
    } else if (s->kind == TILE_SHUFFLE)
        emit_shuffle(t, s);
    else if (s->kind != TILE_BARRIER && !(s->kind == TILE_ALLOC && memory_of(t, s->buffer)))
        tile_append(*s);
}

static void emit_pieces(void *data, const struct tile_stmt *body) {
    struct split *t = data;
    for (const struct tile_stmt *s = body, *end; s && !t->failed; s = end) {
        for (end = s; end && !is_cut(end);)
            end = end->next;
        if (end != s) {
            const struct tile_name *thread = box_variable(t->count);
            tile_open_map(1, &thread, &t->count);
            become(t, box_point(thread));
            for (; s != end && !t->failed; s = s->next)
                emit(t, s);
            tile_close();
        }
        if (end)
            emit_meeting(t, end);
        end = end ? end->next : NULL;
    }
}

// Memory ----------------------------------------------------------------------------------------------------

// Returns the bytes of local memory, or of a view of it; -1: they are not known.
static int64_t bytes_of(const struct tile_buffer *b) {
    int64_t bytes;
    bool is_known =
        !b->stride && tile_times(pass_product(b->ndim, b->shape), tile_type_bytes(b->type), &bytes);
    return is_known ? bytes : -1;
}

// Replaces local memory, or a view of it, by memory with a first axis for the threads. A view has to be as
// large as its memory, so that this axis is the same in both.
static void keep_buffer(struct split *t, const struct tile_stmt *s) {
    expr shape[1 + TILE_DIMS] = {t->count};
    const struct tile_buffer *b = s->buffer, *base = b->base ? memory_of(t, b->base) : NULL;
    bool is_known = b->ndim < TILE_DIMS && bytes_of(b) >= 0;
    for (int i = 0; i < b->ndim && is_known; i++)
        shape[1 + i] = b->shape[i];
    if (!is_known)
        fail(t, s,
             "the size of local memory is a number, without strides, and it has at most 7 axes: ", b->text);
    else if (b->base && bytes_of(b) != bytes_of(b->base))
        fail(t, s, "a view of local memory has as many bytes as that: ", b->text);
    else
        t->memory[b->id] = b->base ? tile_view(b->text, b->type, base, b->ndim + 1, shape)
                                   : tile_alloc(b->text, b->type, TILE_REGISTER, b->ndim + 1, shape);
}

static void keep(struct split *t, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s && !t->failed; s = s->next) {
        const struct tile_name *name = s->kind == TILE_ASSIGN ? s->name[0] : s->old;
        if (name && !t->variable[name->id])
            t->variable[name->id] = tile_alloc(name->text, name->type, TILE_REGISTER, 1, &t->count);
        if (s->kind == TILE_ALLOC && s->buffer->memory == TILE_REGISTER)
            keep_buffer(t, s);
        keep(t, s->body);
        keep(t, s->other);
    }
}

static bool threads(const struct tile_stmt *s) {
    struct tile_kernel *kernel = tile_current();
    struct split t = {
        .thread = s->name[0], .count = s->extent[0], .buffers = kernel->buffers, .names = kernel->names};
    t.memory = memory_zero(sizeof *t.memory * (size_t)(t.buffers + 1));
    t.variable = memory_zero(sizeof *t.variable * (size_t)(t.names + 1));
    bool good = t.memory && t.variable;
    if (good) {
        keep(&t, s->body);
        emit_pieces(&t, s->body);
    }
    map_free(&t.rewritten);
    memory_free(t.memory);
    memory_free(t.variable);
    return good && !t.failed;
}

static bool emit_block(void *data, const struct tile_stmt *s) {
    if (s->kind != TILE_THREAD)
        return false;
    *(bool *)data &= threads(s);
    return true;
}

bool pass_split(struct tile_kernel *kernel, const struct target *target) {
    bool good = true;
    return target->group || !pass_find_kind(kernel->body, TILE_THREAD) ||
           (pass_emit_kernel(kernel, emit_block, &good) && good);
}
