// thread_accesses.c - finds what a statement of a block reads and writes.

#include "pass/threads.h"

bool thread_is_spread(const struct tile_stmt *s) {
    bool is_any_order = s->kind == TILE_FOR && (s->loop == TILE_PARALLEL || s->loop == TILE_VECTOR);
    return s->kind == TILE_MAP || s->kind == TILE_THREAD ||
           (is_any_order && pass_number(s->begin) == 0 && pass_number(s->step) == 1);
}

bool thread_is_private(const struct group *g, const struct tile_buffer *b) {
    return b->memory == TILE_REGISTER && (b->id >= g->buffers || g->of[b->id].how == HELD_BY_ALL);
}

bool thread_is_held(const struct group *g, const struct tile_buffer *b) {
    return b->id < g->buffers && g->of[b->id].how == HELD_IN_REGISTERS;
}

const struct tile_buffer *thread_now(const struct group *g, const struct tile_buffer *b) {
    return b->id < g->buffers && g->of[b->id].now ? g->of[b->id].now : b;
}

expr thread_without_casts(expr e) {
    while (e->op == TILE_CAST)
        e = e->arg[0];
    return e;
}

struct search {
    access_visit *visit;
    void *data;
};

// Visits the loads of an expression, each node once per statement.
static void in_expr(struct group *g, expr e, const struct search *s) {
    if (e->id < g->ids) {
        if (g->seen[e->id] == g->stamp)
            return;
        g->seen[e->id] = g->stamp;
    }
    for (int i = 0; i < tile_operands(e); i++)
        in_expr(g, tile_operand(e, i), s);
    if (e->op == TILE_LOAD)
        s->visit(g, &(struct access){.buffer = e->buffer, .index = e->index, .load = e}, s->data);
}

static void in_region(struct group *g, const struct tile_region *r, bool is_write, const struct search *s) {
    if (r->buffer)
        s->visit(g, &(struct access){.buffer = r->buffer, .region = r, .is_write = is_write}, s->data);
}

static void in_regions(struct group *g, const struct tile_stmt *t, const struct search *s) {
    int last = t->kind == TILE_GEMM ? 2 : 1;
    for (int i = 0; i <= last; i++)
        in_region(g, &t->region[i], i == last, s);
    bool adds = (t->kind == TILE_GEMM || t->kind == TILE_REDUCE) && !t->clear;
    if (adds)
        in_region(g, &t->region[last], false, s);
}

static void in_stmt(struct group *g, const struct tile_stmt *t, const struct search *s) {
    expr root[TILE_STMT_EXPRS];
    int count = t->kind == TILE_ALLOC ? 0 : tile_stmt_exprs(t, root);
    g->stamp++;
    for (int i = 0; i < count; i++)
        in_expr(g, root[i], s);
    if (t->kind == TILE_STORE || t->kind == TILE_ATOMIC)
        s->visit(g,
                 &(struct access){.buffer = t->buffer,
                                  .index = t->index,
                                  .is_write = true,
                                  .is_atomic = t->kind == TILE_ATOMIC},
                 s->data);
    else if (t->kind != TILE_ALLOC)
        in_regions(g, t, s);
}

static void in_body(struct group *g, const struct tile_stmt *body, const struct search *s) {
    for (; body; body = body->next) {
        in_stmt(g, body, s);
        in_body(g, body->body, s);
        in_body(g, body->other, s);
    }
}

void thread_accesses(struct group *g, const struct tile_stmt *s, access_visit *visit, void *data) {
    struct search search = {visit, data};
    in_stmt(g, s, &search);
    if (thread_is_spread(s))
        in_body(g, s->body, &search);
}

void thread_all_accesses(struct group *g, const struct tile_stmt *body, access_visit *visit, void *data) {
    for (; body; body = body->next) {
        thread_accesses(g, body, visit, data);
        if (thread_is_spread(body))
            continue;
        thread_all_accesses(g, body->body, visit, data);
        thread_all_accesses(g, body->other, visit, data);
    }
}

void thread_expr_accesses(struct group *g, int count, const expr *root, access_visit *visit, void *data) {
    struct search search = {visit, data};
    g->stamp++;
    for (int i = 0; i < count; i++)
        in_expr(g, root[i], &search);
}
