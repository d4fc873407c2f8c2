// forward.c - lets products read parameters in place: a tile that only copies a rectangle of an input for
// products is removed, for targets whose matrix unit packs its operands. Elements outside of the parameter
// are 0 either way.

#include "pass/pass.h"

#include <string.h>

// How a buffer is used.
struct use {
    int writes;   // statements that write it
    int operands; // factors of products that are the whole buffer
    int others;
    struct tile_stmt *copy; // the last copy that writes all of it
    bool is_left_out;
};

struct forward {
    struct use *use; // by id of the buffer
};

// Counting --------------------------------------------------------------------------------------------------

static void count_load(expr e, void *data) {
    struct forward *f = data;
    if (e->op == TILE_LOAD)
        f->use[e->buffer->id].others++;
}

static bool is_whole(const struct tile_region *r) {
    return !r->origin && !r->extent;
}

static bool is_factor(const struct tile_stmt *s, int at) {
    return s->kind == TILE_GEMM && at < 2 && is_whole(&s->region[at]);
}

static void count_statement(struct forward *f, struct tile_stmt *s) {
    if (s->buffer && s->kind != TILE_ALLOC)
        f->use[s->buffer->id].others++;
    if (s->kind == TILE_ALLOC && s->buffer->base) // a view may access all of it
        f->use[tile_memory_of(s->buffer)->id].others++, f->use[s->buffer->id].others++;
    for (int i = 0; i < 3; i++) {
        struct use *u = s->region[i].buffer ? &f->use[s->region[i].buffer->id] : NULL;
        if (u && is_factor(s, i)) {
            u->operands++;
        } else if (u && s->kind == TILE_COPY && i == 1 && is_whole(&s->region[1])) {
            u->writes++;
            u->copy = s;
        } else if (u) {
            u->others++;
        }
    }
}

static void count_block(struct forward *f, struct tile_stmt *body) {
    for (struct tile_stmt *s = body; s; s = s->next) {
        count_statement(f, s);
        count_block(f, s->body);
        count_block(f, s->other);
    }
}

// Deciding --------------------------------------------------------------------------------------------------

// Returns whether a node may have another value at the product than at the copy.
static bool changes(expr e, const void *data) {
    (void)data;
    return e->op == TILE_LOAD || e->op == TILE_LOCAL;
}

// Returns whether a region is a rectangle of an input, with the size and axes of the tile that it is copied
// to.
static bool is_input(const struct tile_region *from, const struct tile_buffer *tile) {
    const struct tile_buffer *b = from->buffer;
    if (b->memory != TILE_GLOBAL || b->parameter < 0 || b->is_output || b->ndim < 2 || tile->ndim != 2 ||
        !tile_type_equal(b->type, tile->type))
        return false;
    for (int i = 0; i < b->ndim; i++) {
        int axis = i - b->ndim + 2;
        expr size = from->extent ? from->extent[i] : from->origin ? NULL : b->shape[i];
        struct pass_range wanted = axis < 0 ? (struct pass_range){1, 1} : pass_range(tile->shape[axis]);
        struct pass_range given = size ? pass_range(size) : wanted;
        if (given.low != wanted.low || given.high != wanted.low ||
            (from->origin && pass_any(from->origin[i], changes, NULL)))
            return false;
    }
    return true;
}

// Returns how many factors in these statements are the tile.
static int factors_in(const struct tile_stmt *body, const struct tile_buffer *tile) {
    int count = 0;
    for (const struct tile_stmt *s = body; s; s = s->next) {
        for (int i = 0; i < 2; i++)
            count += is_factor(s, i) && s->region[i].buffer == tile;
        count += factors_in(s->body, tile) + factors_in(s->other, tile);
    }
    return count;
}

// Returns whether a tile can be removed: all its products follow the copy in the same block, so that each
// reads what the copy wrote in the same iteration.
static bool can_forward(const struct use *u, const struct tile_buffer *tile) {
    return u->copy && u->writes == 1 && !u->others && u->operands && !u->copy->token && !u->copy->is_async &&
           !u->copy->value && is_input(&u->copy->region[0], tile) &&
           factors_in(u->copy->next, tile) == u->operands;
}

static void decide(struct forward *f, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        struct use *u = s->kind == TILE_COPY ? &f->use[s->region[1].buffer->id] : NULL;
        if (u && u->copy == s)
            u->is_left_out = can_forward(u, s->region[1].buffer);
        decide(f, s->body);
        decide(f, s->other);
    }
}

// Rewriting -------------------------------------------------------------------------------------------------

static expr index_of(expr e) {
    return e ? tile_cast(tile_index_type(), e) : NULL;
}

static bool set_rectangle(struct tile_kernel *kernel, struct tile_region *r, const struct tile_region *from,
                          const struct tile_buffer *tile) {
    int ndim = from->buffer->ndim;
    expr *list = arena_alloc(&kernel->arena, 2 * (size_t)ndim * sizeof *list);
    if (!list)
        return false;
    for (int i = 0; i < ndim; i++) {
        int axis = i - ndim + 2;
        list[i] = from->origin ? index_of(from->origin[i]) : tile_const_int(tile_index_type(), 0);
        list[ndim + i] = axis < 0 ? tile_const_int(tile_index_type(), 1) : index_of(tile->shape[axis]);
    }
    *r = (struct tile_region){from->buffer, list, list + ndim};
    return true;
}

static bool rewrite_factors(struct forward *f, struct tile_kernel *kernel, struct tile_stmt *s) {
    for (int i = 0; i < 2; i++) {
        const struct tile_buffer *tile = s->region[i].buffer;
        const struct use *u = is_factor(s, i) ? &f->use[tile->id] : NULL;
        if (u && u->is_left_out && !set_rectangle(kernel, &s->region[i], &u->copy->region[0], tile))
            return false;
    }
    return true;
}

static bool is_left_out(const struct forward *f, const struct tile_stmt *s) {
    if (s->kind == TILE_ALLOC)
        return f->use[s->buffer->id].is_left_out;
    return s->kind == TILE_COPY && f->use[s->region[1].buffer->id].is_left_out;
}

static bool rewrite_block(struct forward *f, struct tile_kernel *kernel, struct tile_stmt **at) {
    while (*at) {
        struct tile_stmt *s = *at;
        if (is_left_out(f, s)) {
            *at = s->next;
            continue;
        }
        if (!rewrite_factors(f, kernel, s) || !rewrite_block(f, kernel, &s->body) ||
            !rewrite_block(f, kernel, &s->other))
            return false;
        at = &s->next;
    }
    return true;
}

bool pass_forward(struct tile_kernel *kernel, const struct target *target) {
    if (!target->packs)
        return true;
    struct forward f = {memory_zero(sizeof *f.use * (size_t)(kernel->buffers + 1))};
    bool done = f.use && pass_each_node(kernel, count_load, &f);
    if (done) {
        count_block(&f, kernel->body);
        decide(&f, kernel->body);
        tile_resume(kernel);
        done = rewrite_block(&f, kernel, &kernel->body);
        tile_suspend();
    }
    memory_free(f.use);
    return done && !kernel->failed;
}
