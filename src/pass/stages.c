// stages.c - pipelined loops: copies from global to shared memory run ahead of the iteration that needs them.
//
//     pipeline k in n stages 3 { copy A[k] -> a ; gemm a, b -> c }
//
// becomes, with room for three stages of a,
//
//     t = copy_async A[0] -> a[0] ; t = copy_async A[1] -> a[1]
//     for k in n {
//       wait t keep 1 ; barrier group
//       if k + 2 < n { t = copy_async A[k + 2] -> a[(k + 2) % 3] }
//       gemm a[k % 3], b -> c
//     }
//
// If the target has no asynchronous copies, threads load what the next iteration needs into registers while
// the current one computes. With room for two stages of a (with one, another barrier precedes the last copy):
//
//     copy A[0] -> a[0]
//     for k in n {
//       barrier group
//       if k + 1 < n { copy A[k + 1] -> next }
//       gemm a[k % 2], b -> c
//       if k + 1 < n { copy next -> a[(k + 1) % 2] }
//     }
//
// In each grid one loop is pipelined: the first that can be.

#include "pass/threads.h"

enum { COPIES = 8 };

struct stages {
    const struct target *target;
    const struct tile_stmt *body;  // the kernel's
    const struct tile_stmt *block; // the grid's
    const struct tile_stmt *loop;  // the one that is being pipelined
    int copies;                    // in the loop: those that run ahead
    const struct tile_stmt *copy[COPIES];
    const struct tile_buffer *now[COPIES];  // the buffers with stages that replace their destinations
    const struct tile_buffer *next[COPIES]; // registers for the next iteration, if copies are synchronous
    expr turn;                              // the variable of the loop; NULL: outside of it
    int count;                              // of stages
    struct group g;                         // for rewriting
};

// Which copies can run ahead --------------------------------------------------------------------------------

struct usage {
    const struct tile_buffer *buffer;
    int uses, writes;
};

static void count_use(struct group *g, const struct access *a, void *data) {
    struct usage *u = data;
    (void)g;
    bool is_it = tile_memory_of(a->buffer) == u->buffer;
    u->uses += is_it;
    u->writes += is_it && (a->is_write || a->buffer != u->buffer); // a view would not follow the stages
}

// Returns whether memory keeps the values that it has when the grid begins: it is an input, or an earlier
// grid wrote it and this one does not.
static bool is_constant(struct stages *t, const struct tile_buffer *b) {
    if (b->parameter >= 0 && !b->is_output)
        return true;
    struct usage u = {b, 0, 0};
    if (b->memory != TILE_GLOBAL || b->base || (b->parameter < 0 && !pass_is_made_in(t->body, b)))
        return false;
    thread_all_accesses(&t->g, t->block, count_use, &u);
    return u.writes == 0;
}

static bool assigns(const struct tile_stmt *s, const void *name) {
    return (s->kind == TILE_ASSIGN && s->name[0] == name) || s->old == name;
}

// Returns whether a node depends on what the loop computes. The place of a source may only depend on the
// number of the iteration.
static bool is_computed(expr e, const void *data) {
    const struct stages *t = data;
    return (e->op == TILE_LOCAL && pass_find(t->loop->body, assigns, e->name)) ||
           (e->op == TILE_LOAD && (e->buffer->parameter < 0 || e->buffer->is_output));
}

static bool runs_ahead(struct stages *t, const struct tile_stmt *s) {
    const struct tile_region *from = &s->region[0], *to = &s->region[1];
    if (s->kind != TILE_COPY || s->is_async || to->buffer->memory != TILE_SHARED ||
        to->buffer->ndim >= TILE_DIMS || to->buffer->stride || to->buffer->base || s->value ||
        !tile_type_equal(from->buffer->type, to->buffer->type) || !fragments_is_whole(to, from) ||
        !is_constant(t, from->buffer))
        return false;
    for (int i = 0; from->origin && i < from->buffer->ndim; i++)
        if (pass_any(from->origin[i], is_computed, t))
            return false;
    struct usage all = {to->buffer, 0, 0}, here = all;
    thread_all_accesses(&t->g, t->block, count_use, &all);
    thread_all_accesses(&t->g, t->loop->body, count_use, &here);
    return all.uses == here.uses && here.writes == 1;
}

// Returns the bytes of a tile, or `most` for one larger than the memory of any workgroup: sums of such
// numbers, times the stages of a loop, fit into 64 bits.
static int64_t bytes_of(const struct target *target, const struct tile_buffer *b) {
    static const int64_t most = 1 << 26;
    int64_t count = tile_type_bytes(b->type);
    for (int i = b->ndim - 1; i >= 0; i--) {
        if (!tile_times(count, MAX_OF(pass_number(b->shape[i]), 0), &count) || count > most)
            return most;
        count = i == b->ndim - 1 ? target_row_bytes(target, count) : count;
    }
    return MIN_OF(count, most);
}

static int64_t block_bytes(const struct target *target, const struct tile_stmt *body) {
    int64_t bytes = 0;
    for (; body; body = body->next) {
        if (body->kind == TILE_ALLOC && body->buffer->memory == TILE_SHARED)
            bytes += bytes_of(target, body->buffer);
        bytes += block_bytes(target, body->body) + block_bytes(target, body->other);
    }
    return bytes;
}

// Finds the copies of a loop that can run ahead, and uses as many stages as there is room for. Returns false
// if there is no such copy, or no room.
static bool plan(struct stages *t, const struct tile_stmt *loop) {
    int64_t copied = 0;
    t->loop = loop;
    t->copies = 0;
    if (loop->stages < 2 || pass_number(loop->begin) != 0 || pass_number(loop->step) != 1)
        return false;
    for (const struct tile_stmt *s = loop->body; s && t->copies < COPIES; s = s->next)
        if (runs_ahead(t, s)) {
            copied += bytes_of(t->target, s->region[1].buffer);
            t->now[t->copies] = NULL;
            t->copy[t->copies++] = s;
        }
    int64_t rest = block_bytes(t->target, t->block) - copied;
    int least = target_copies_ahead(t->target) ? 2 : 1;
    int64_t room = target_staged_bytes(t->target);
    t->count = target_most_stages(t->target, loop->stages);
    while (t->count > least && rest + copied * t->count > room)
        t->count--;
    return t->copies && rest + copied * t->count <= room;
}

// Making ----------------------------------------------------------------------------------------------------

static int copied_at(const struct stages *t, const struct tile_buffer *b) {
    int at = 0;
    while (at < t->copies && t->copy[at]->region[1].buffer != b)
        at++;
    return at;
}

static expr stage_of(const struct stages *t, expr turn) {
    return box_index(REM(tile_cast(tile_type_of(ZL_UINT32), turn), thread_number(t->count)));
}

// Writes the indices of an element of a buffer, or of its first one if `index` is NULL, in the stage of an
// iteration.
static void at_stage(const struct stages *t, expr turn, const struct tile_buffer *b, const expr *index,
                     expr *out) {
    out[0] = stage_of(t, turn);
    for (int i = 0; i < b->ndim; i++)
        out[i + 1] = index ? box_index(index[i]) : box_number(0);
}

static struct tile_region region_at(const struct stages *t, expr turn, int which, const struct tile_region *r,
                                    expr *origin, expr *extent) {
    at_stage(t, turn, r->buffer, r->origin, origin);
    extent[0] = box_number(1);
    for (int i = 0; i < r->buffer->ndim; i++)
        extent[i + 1] = box_region_size(r, i);
    bool as_other = r->origin && !r->extent;
    return (struct tile_region){t->now[which], origin, as_other ? NULL : extent};
}

static expr rewrite(void *data, expr e) {
    struct stages *t = data;
    expr known = map_get(&t->g.rewritten, &e, sizeof e), at[TILE_DIMS + 1];
    if (known)
        return known;
    int which = e->op == TILE_LOAD ? copied_at(t, e->buffer) : t->copies;
    expr result = pass_rebuild(e, rewrite, t);
    if (result && which < t->copies) {
        expr mask = e->args ? result->arg[0] : NULL;
        at_stage(t, t->turn, e->buffer, result->index, at);
        result = tile_load(t->now[which], e->indices + 1, at, mask, mask ? result->arg[1] : NULL);
    }
    if (!result || !map_set(&t->g.rewritten, &e, sizeof e, (void *)result))
        return NULL;
    return result;
}

static void block(void *data, const struct tile_stmt *body);

// Emits a statement of the loop's body, with the buffers that have stages.
static void in_loop(struct stages *t, const struct tile_stmt *s) {
    expr origin[3][TILE_DIMS + 1], size[3][TILE_DIMS + 1];
    struct tile_stmt next = *s;
    for (int i = 0; i < 3 && s->region[i].buffer; i++) {
        int which = copied_at(t, s->region[i].buffer);
        if (which < t->copies)
            next.region[i] = region_at(t, t->turn, which, &s->region[i], origin[i], size[i]);
    }
    map_free(&t->g.rewritten);
    pass_emit_as(&next, rewrite, t);
    map_free(&t->g.rewritten);
    pass_emit_bodies(s, block, t);
}

// Emits the copies of a later iteration, to its stage or, with to_next, to registers.
static void begin_copies(struct stages *t, expr turn, int token, bool to_next) {
    for (int i = 0; i < t->copies; i++) {
        const struct tile_stmt *s = t->copy[i];
        struct points p = {.g = &t->g, .sweep = {.vars = 1, .name = {t->loop->name[0]}}, .point = {turn}};
        expr from[TILE_DIMS], size[TILE_DIMS], origin[TILE_DIMS + 1], extent[TILE_DIMS + 1];
        struct tile_stmt next = *s;
        map_free(&t->g.rewritten);
        for (int k = 0; k < s->region[0].buffer->ndim; k++) {
            from[k] = s->region[0].origin ? thread_rewrite(&p, s->region[0].origin[k]) : NULL;
            size[k] = s->region[0].extent ? thread_rewrite(&p, s->region[0].extent[k]) : NULL;
        }
        next.region[0] = (struct tile_region){s->region[0].buffer, s->region[0].origin ? from : NULL,
                                              s->region[0].extent ? size : NULL};
        next.region[1] = region_at(t, turn, i, &s->region[1], origin, extent);
        next.region[1].extent = extent;
        if (to_next)
            next.region[1] = (struct tile_region){.buffer = t->next[i]};
        next.is_async = !to_next;
        next.token = to_next ? 0 : token;
        tile_append(next);
    }
    map_free(&t->g.rewritten);
}

// Emits the copies from registers to the stage of an iteration.
static void end_copies(struct stages *t, expr turn) {
    for (int i = 0; i < t->copies; i++) {
        expr origin[TILE_DIMS + 1], extent[TILE_DIMS + 1];
        struct tile_stmt copy = {
            .kind = TILE_COPY, .region[0] = {.buffer = t->next[i]}, .is_ahead = t->count > 1};
        copy.region[1] = region_at(t, turn, i, &t->copy[i]->region[1], origin, extent);
        copy.region[1].extent = extent;
        tile_append(copy);
    }
}

static void wait_for(const struct stages *t, int token, int turns) {
    tile_append((struct tile_stmt){.kind = TILE_WAIT, .token = token, .keep = turns * t->copies});
}

static expr is_before_end(const struct stages *t, expr turn) {
    return LT(turn, box_index(t->loop->extent[0]));
}

// Allocates the buffer with stages of a destination where the destination is declared, or before the loop if
// it is declared in the loop. Returns whether the statement declares a destination.
static bool declare(struct stages *t, const struct tile_stmt *s) {
    int which = s->kind == TILE_ALLOC ? copied_at(t, s->buffer) : t->copies;
    if (which == t->copies || t->now[which])
        return which < t->copies;
    expr shape[TILE_DIMS + 1] = {box_number(t->count)};
    for (int i = 0; i < s->buffer->ndim; i++)
        shape[i + 1] = s->buffer->shape[i];
    struct tile_buffer *now =
        tile_alloc(s->buffer->text, s->buffer->type, TILE_SHARED, s->buffer->ndim + 1, shape);
    if (now)
        now->align = s->buffer->align;
    t->now[which] = now;
    return true;
}

static void make_loop(struct stages *t) {
    const struct tile_stmt *loop = t->loop;
    struct tile_kernel *kernel = tile_current();
    bool by_registers = !target_copies_ahead(t->target);
    int token = kernel ? ++kernel->tokens : 0, ahead = by_registers ? 1 : t->count - 1;
    for (const struct tile_stmt *s = loop->body; s; s = s->next)
        declare(t, s);
    for (int i = 0; by_registers && i < t->copies; i++) {
        const struct tile_buffer *to = t->copy[i]->region[1].buffer;
        t->next[i] = tile_alloc("next", to->type, TILE_FRAGMENT, to->ndim, to->shape);
    }
    for (int k = 0; k < ahead; k++) {
        expr turn = box_number(k);
        bool is_there = pass_range(loop->extent[0]).low > k;
        expr test = is_there ? NULL : is_before_end(t, turn);
        box_open_if(test);
        begin_copies(t, turn, token, false);
        box_close_if(test);
    }
    tile_open_for(loop->name[0], loop->begin, loop->extent[0], loop->step, TILE_SERIAL);
    t->turn = box_point(loop->name[0]);
    expr later = ADD(box_index(t->turn), box_number(ahead));
    if (ahead > 1) {
        tile_open_if(is_before_end(t, ADD(box_index(t->turn), box_number(ahead - 1))));
        wait_for(t, token, ahead - 1);
        tile_else();
    }
    wait_for(t, token, 0);
    if (ahead > 1)
        tile_close();
    thread_barrier();
    tile_open_if(is_before_end(t, later));
    expr last = SUB(box_index(loop->extent[0]), box_number(1));
    begin_copies(t, MIN(later, last), token, by_registers); // MIN gives bounds to range analysis
    tile_close();
    block(t, loop->body);
    if (by_registers) {
        tile_open_if(is_before_end(t, later));
        end_copies(t, later);
        tile_close();
    }
    tile_close();
    t->turn = NULL;
}

static bool is_made_ahead(const struct stages *t, const struct tile_stmt *s) {
    for (int i = 0; t->turn && i < t->copies; i++)
        if (t->copy[i] == s)
            return true;
    return false;
}

static void block(void *data, const struct tile_stmt *body) {
    struct stages *t = data;
    for (; body && tile_current() && !tile_current()->failed; body = body->next) {
        if (is_made_ahead(t, body) || declare(t, body))
            continue;
        if (body == t->loop)
            make_loop(t);
        else
            in_loop(t, body);
    }
}

static bool is_planned(const struct tile_stmt *s, const void *stages) {
    struct stages *t = (struct stages *)stages;
    return s->kind == TILE_FOR && s->loop == TILE_PIPELINED && plan(t, s);
}

// Pipelines the first loop of a grid that asks for it and has copies that can run ahead, if there is room.
// The others run one iteration after the other: stages of several loops would have to share the memory of a
// block.
static void make_block(struct stages *t, const struct tile_stmt *grid) {
    if (!pass_find(grid->body, is_planned, t))
        t->copies = 0, t->loop = NULL;
    tile_open(*grid);
    block(t, grid->body);
    tile_close();
}

// Replaces an `if` whose condition is known, for instance by a param, by its statements.
static void choose_known(struct tile_stmt **link) {
    while (*link) {
        struct tile_stmt *s = *link, **end = link;
        choose_known(&s->body);
        choose_known(&s->other);
        if (s->kind == TILE_IF && s->mask->op == TILE_CONST) {
            for (*link = s->mask->bits ? s->body : s->other; *end;)
                end = &(*end)->next;
            *end = s->next;
            link = end;
        } else
            link = &s->next;
    }
}

bool pass_stages(struct tile_kernel *kernel, const struct target *target) {
    if (!target->group && !target->lanes)
        return true;
    choose_known(&kernel->body);
    pass_learn(kernel->body);
    if (!target_staged_bytes(target))
        return true;
    struct stages t = {.target = target, .g = {.target = target, .ids = kernel->ids}};
    t.g.seen = memory_zero(sizeof *t.g.seen * (size_t)(kernel->ids + 1));
    if (!t.g.seen)
        return false;
    tile_resume(kernel);
    t.body = tile_take_body();
    for (const struct tile_stmt *s = t.body; s; s = s->next) {
        t.block = s->body;
        if (s->kind == TILE_GRID)
            make_block(&t, s);
        else {
            t.copies = 0;
            t.loop = NULL;
            in_loop(&t, s);
        }
    }
    tile_suspend();
    map_free(&t.g.rewritten);
    memory_free(t.g.seen);
    return !kernel->failed;
}
