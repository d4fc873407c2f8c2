// split.c - `thread` as loops over the threads, for targets whose blocks are one thread.
//
// The code is cut where threads meet, and each piece becomes a map over all threads. What a thread keeps from piece to piece is an
// element of the block's memory: a variable becomes a buffer of as many elements as there are threads, and local memory gets a first
// axis. Conditions and bounds around meeting places are the first thread's, since all threads have the same.

#include "pass/boxes.h"

#include <string.h>

struct split {
    const struct tile_name *thread;
    expr count, now; // of threads; the one whose code is made
    const struct tile_buffer **memory,
        **variable; // what stands for local buffers and for variables, by id; NULL: itself
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

// Expressions -----------------------------------------------------------------------------------------------------------

static const struct tile_buffer *memory_of(const struct split *t, const struct tile_buffer *b) {
    return b->id < t->buffers ? t->memory[b->id] : NULL;
}

static const struct tile_buffer *variable_of(const struct split *t, const struct tile_name *name) {
    return name->id < t->names ? t->variable[name->id] : NULL;
}

static expr rewrite(struct split *t, expr e) {
    expr known = e ? map_get(&t->rewritten, &e, sizeof e) : NULL, operand[4 + TILE_DIMS], result = e;
    if (!e || known)
        return known;
    const struct tile_buffer *own = e->op == TILE_LOAD ? memory_of(t, e->buffer) : NULL;
    for (int i = 0; i < tile_operands(e); i++)
        operand[i] = rewrite(t, tile_operand(e, i));
    if (e->op == TILE_INDEX && e->name == t->thread)
        result = t->now;
    else if (e->op == TILE_LOCAL && variable_of(t, e->name))
        result = tile_load(variable_of(t, e->name), 1, &t->now, NULL, NULL);
    else if (own) {
        expr at[1 + TILE_DIMS] = {t->now};
        memcpy(at + 1, operand + e->args, sizeof *at * (size_t)e->indices);
        result = tile_load(own, e->indices + 1, at, e->args ? operand[0] : NULL, e->args ? operand[1] : NULL);
    } else if (tile_operands(e))
        result = tile_rebuild(e, operand);
    if (!result || !map_set(&t->rewritten, &e, sizeof e, (void *)result))
        t->failed = true;
    return result;
}

static void become(struct split *t, expr thread) {
    map_free(&t->rewritten);
    t->now = thread;
}

// Statements ------------------------------------------------------------------------------------------------------------

static void emit_all(struct split *t, const struct tile_stmt *body, const struct tile_stmt *end);

static void list(struct split *t, const expr *from, int count, expr *to) {
    for (int i = 0; from && i < count; i++)
        to[i] = rewrite(t, from[i]);
}

// With the thread's own numbers in its expressions; at, extent, origin, size: room for lists.
struct room {
    expr at[1 + TILE_DIMS], extent[TILE_DIMS], origin[3][TILE_DIMS], size[3][TILE_DIMS];
};

static struct tile_stmt rewritten(struct split *t, const struct tile_stmt *s, struct room *r) {
    struct tile_stmt next = *s;
    const struct tile_buffer *own = s->index ? memory_of(t, s->buffer) : NULL;
    list(t, s->index, s->indices, r->at + (own != NULL));
    if (own) {
        r->at[0] = t->now;
        next.buffer = own;
        next.indices++;
    }
    next.index = s->index ? r->at : NULL;
    list(t, s->extent, s->indices, r->extent);
    next.extent = s->extent ? r->extent : NULL;
    next.value = rewrite(t, s->value);
    next.mask = rewrite(t, s->mask);
    next.begin = rewrite(t, s->begin);
    next.step = rewrite(t, s->step);
    for (int i = 0; i < 3 && s->region[i].buffer; i++) {
        const struct tile_region *from = &s->region[i];
        if (memory_of(t, from->buffer))
            fail(t, s, "products and reductions have shared memory, not local: ", from->buffer->text);
        list(t, from->origin, from->buffer->ndim, r->origin[i]);
        list(t, from->extent, from->buffer->ndim, r->size[i]);
        next.region[i] = (struct tile_region){from->buffer, from->origin ? r->origin[i] : NULL,
                                              from->extent ? r->size[i] : NULL};
    }
    return next;
}

static void emit(struct split *t, const struct tile_stmt *s) {
    struct room room;
    struct tile_stmt next = rewritten(t, s, &room);
    const struct tile_name *assigned = s->kind == TILE_ASSIGN ? s->name[0] : s->old;
    if (s->kind == TILE_ALLOC || t->failed)
        return;
    if (s->kind == TILE_ASSIGN)
        tile_store(variable_of(t, assigned), 1, &t->now, next.value, NULL);
    else if (s->body || s->other) {
        tile_open(next);
        emit_all(t, s->body, NULL);
        if (s->other) {
            tile_else();
            emit_all(t, s->other, NULL);
        }
        tile_close();
    } else if (tile_append(next) && assigned)
        tile_store(variable_of(t, assigned), 1, &t->now, tile_name_value(assigned, TILE_LOCAL), NULL);
}

static void emit_all(struct split *t, const struct tile_stmt *body, const struct tile_stmt *end) {
    for (; body != end && !t->failed; body = body->next)
        emit(t, body);
}

static bool is_cut(const struct tile_stmt *s) {
    return tile_is_meeting(s) || (s->kind == TILE_ALLOC && s->buffer->base);
}

// Through memory of all threads: one map writes what the next one reads.
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

static void emit_pieces(struct split *t, const struct tile_stmt *body);

static void emit_meeting(struct split *t, const struct tile_stmt *s) {
    struct room room;
    become(t, box_number(0));
    if (s->kind == TILE_FOR || s->kind == TILE_IF || s->kind == TILE_WHILE) {
        tile_open(rewritten(t, s, &room));
        emit_pieces(t, s->body);
        if (s->other) {
            tile_else();
            emit_pieces(t, s->other);
        }
        tile_close();
    } else if (s->kind == TILE_SHUFFLE)
        emit_shuffle(t, s);
    else if (s->kind != TILE_BARRIER && !(s->kind == TILE_ALLOC && memory_of(t, s->buffer)))
        tile_append(*s);
}

static void emit_pieces(struct split *t, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body, *end; s && !t->failed; s = end) {
        for (end = s; end && !is_cut(end);)
            end = end->next;
        if (end != s) {
            const struct tile_name *thread = box_variable(t->count);
            tile_open_map(1, &thread, &t->count);
            become(t, box_point(thread));
            emit_all(t, s, end);
            tile_close();
        }
        if (end)
            emit_meeting(t, end);
        end = end ? end->next : NULL;
    }
}

// Memory ----------------------------------------------------------------------------------------------------------------

// Returns the bytes of local memory, or of a view of it; -1: they are not known.
static int64_t bytes_of(const struct tile_buffer *b) {
    int64_t bytes = b->stride ? -1 : tile_type_bytes(b->type);
    for (int i = 0; i < b->ndim && bytes >= 0; i++) {
        struct pass_range size = pass_range(b->shape[i]);
        if (size.low != size.high || !tile_times(bytes, size.low, &bytes))
            bytes = -1;
    }
    return bytes;
}

// A view has all of its memory, so that a first axis of both is that of the threads.
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

static bool has_threads(const struct tile_stmt *s) {
    for (; s; s = s->next)
        if (s->kind == TILE_THREAD || has_threads(s->body) || has_threads(s->other))
            return true;
    return false;
}

static bool emit_block(const struct tile_stmt *body) {
    bool good = true;
    for (const struct tile_stmt *s = body; s && good; s = s->next) {
        if (s->kind == TILE_THREAD)
            good = threads(s);
        else if (s->body || s->other) {
            tile_open(*s);
            good = emit_block(s->body);
            if (s->other) {
                tile_else();
                good = good && emit_block(s->other);
            }
            tile_close();
        } else
            tile_append(*s);
    }
    return good;
}

bool pass_split(struct tile_kernel *kernel, const struct target *target) {
    if (target->group || !has_threads(kernel->body))
        return true;
    tile_resume(kernel);
    bool good = emit_block(tile_take_body());
    tile_suspend();
    return good && !kernel->failed;
}
