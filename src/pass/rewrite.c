// rewrite.c - replaces the expressions of a kernel by a rule, each node once.

#include "pass/pass.h"

#include <string.h>

struct rewriter {
    const struct target *target;
    pass_rule *rule;
    expr *memo; // by id: the replacement of the node
    int cap;
    bool failed;
};

static expr *memo_of(struct rewriter *r, int id) {
    if (id >= r->cap) {
        int old = r->cap;
        if (!memory_grow(&r->memo, &r->cap, id + 1, sizeof *r->memo)) {
            r->failed = true;
            return NULL;
        }
        memset(r->memo + old, 0, (size_t)(r->cap - old) * sizeof *r->memo);
    }
    return &r->memo[id];
}

expr pass_rebuild(expr e, pass_replacement *of, void *data) {
    expr operand[3 + TILE_DIMS];
    bool is_new = false;
    for (int i = 0; i < tile_operands(e); i++) {
        if (!(operand[i] = of(data, tile_operand(e, i))))
            return NULL;
        is_new |= operand[i] != tile_operand(e, i);
    }
    return is_new ? tile_rebuild(e, operand) : e;
}

static void remember(struct rewriter *r, expr e, expr result) {
    expr *place = memo_of(r, e->id);
    if (place)
        *place = result;
}

static expr rewrite(void *data, expr e) {
    struct rewriter *r = data;
    expr *known = e && !r->failed ? memo_of(r, e->id) : NULL;
    if (!known)
        return NULL;
    if (*known)
        return *known;
    expr next = pass_rebuild(e, rewrite, r), result = next ? r->rule(r->target, next) : NULL;
    if (result && result != next)
        result = rewrite(r, result);
    if (!result) {
        r->failed = true;
        return NULL;
    }
    remember(r, e, result);
    remember(r, next, result);
    remember(r, result, result);
    return result;
}

// Places ----------------------------------------------------------------------------------------------------

static void each_of(expr *list, int count, void (*visit)(expr *place, void *data), void *data) {
    for (int i = 0; list && i < count; i++)
        visit(&list[i], data);
}

static void each_in_statement(struct tile_stmt *s, void (*visit)(expr *place, void *data), void *data) {
    each_of(s->index, s->indices, visit, data);
    each_of(s->extent, s->indices, visit, data);
    expr *const single[] = {&s->begin, &s->step, &s->mask, &s->value};
    for (size_t i = 0; i < COUNT(single); i++)
        if (*single[i])
            visit(single[i], data);
    for (size_t i = 0; i < COUNT(s->region); i++) {
        int ndim = s->region[i].buffer ? s->region[i].buffer->ndim : 0;
        each_of(s->region[i].origin, ndim, visit, data);
        each_of(s->region[i].extent, ndim, visit, data);
    }
}

void pass_each_expr(struct tile_stmt *body, void (*visit)(expr *place, void *data), void *data) {
    for (struct tile_stmt *s = body; s; s = s->next) {
        each_in_statement(s, visit, data);
        pass_each_expr(s->body, visit, data);
        pass_each_expr(s->other, visit, data);
    }
}

static void replace(expr *place, void *data) {
    expr e = rewrite(data, *place);
    if (e)
        *place = e;
}

bool pass_simple_lists(struct tile_kernel *kernel, const struct target *target,
                       void (*change)(struct tile_kernel *kernel, const struct target *target,
                                      struct tile_stmt **list)) {
    if (!target->packs || !pass_is_simple(kernel) || kernel->failed)
        return !kernel->failed;
    tile_resume(kernel);
    change(kernel, target, &kernel->body);
    tile_suspend();
    return !kernel->failed;
}

bool pass_rewrite(struct tile_kernel *kernel, const struct target *target, pass_rule *rule) {
    struct rewriter r = {.target = target, .rule = rule};
    tile_resume(kernel);
    pass_each_expr(kernel->body, replace, &r);
    tile_suspend();
    memory_free(r.memo);
    return !r.failed && !kernel->failed;
}
