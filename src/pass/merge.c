// merge.c - replaces a loop of products along k, which are added to the same tile, by one product along all
// of k, since the sums in a product have no defined order; and lets a product that is added to zeros
// overwrite them. For targets whose matrix unit takes any length.

#include "pass/pass.h"

static int64_t number_of(expr e) {
    return e->op == TILE_CONST ? tile_value_of(e->type, e->bits).i : 0;
}

// Splits e into name * factor + rest. The rest is an expression of the current kernel. Returns false if e is
// no such sum.
static bool split(expr e, const struct tile_name *name, int64_t *factor, expr *rest) {
    expr a = e->args ? e->arg[0] : NULL, b = e->args > 1 ? e->arg[1] : NULL,
         zero = tile_const_int(e->type, 0);
    *factor = 0;
    *rest = zero;
    if (!pass_depends(e, name)) {
        *rest = e;
        return true;
    }
    if (e->op == TILE_INDEX) {
        *factor = 1;
        return true;
    }
    if (e->op == TILE_MUL && (a->op == TILE_CONST || b->op == TILE_CONST)) {
        expr other = a->op == TILE_CONST ? b : a;
        *factor = number_of(a->op == TILE_CONST ? a : b);
        return other->op == TILE_INDEX && other->name == name;
    }
    if (e->op != TILE_ADD)
        return false;
    bool in_a = pass_depends(a, name), in_b = pass_depends(b, name);
    if ((in_a && in_b) || !split(in_a ? a : b, name, factor, rest))
        return false;
    *rest = tile_binary(TILE_ADD, *rest, in_a ? b : a);
    return true;
}

// Returns the axis of a factor that is summed.
static int sum_axis(const struct tile_stmt *s, int at) {
    bool is_last = at == 0 ? !s->transpose[0] : s->transpose[1];
    return s->region[at].buffer->ndim - 1 - !is_last;
}

// Returns whether the iterations of a loop read adjacent parts of a factor along k: the origin moves by the
// extent. Sets *rest to the origin of the first iteration.
static bool is_along(const struct tile_stmt *s, int at, const struct tile_name *k, expr *rest) {
    const struct tile_region *r = &s->region[at];
    int64_t factor;
    if (!r->origin || !r->extent)
        return false;
    for (int i = 0; i < r->buffer->ndim; i++)
        if (i != sum_axis(s, at) && (pass_depends(r->origin[i], k) || pass_depends(r->extent[i], k)))
            return false;
    expr size = r->extent[sum_axis(s, at)];
    return split(r->origin[sum_axis(s, at)], k, &factor, rest) && factor > 0 && size->op == TILE_CONST &&
           number_of(size) == factor;
}

static bool is_fixed(const struct tile_region *r, const struct tile_name *k) {
    for (int i = 0; i < r->buffer->ndim; i++)
        if ((r->origin && pass_depends(r->origin[i], k)) || (r->extent && pass_depends(r->extent[i], k)))
            return false;
    return true;
}

static bool is_same_memory(const struct tile_stmt *s, int i, const struct tile_stmt *other, int j) {
    const struct tile_buffer *a = s->region[i].buffer, *b = other->region[j].buffer;
    return a && b && tile_memory_of(a) == tile_memory_of(b);
}

static bool is_sum(const struct tile_stmt *s, const struct tile_name *k) {
    expr rest;
    return s->kind == TILE_GEMM && !s->clear && !s->token && is_along(s, 0, k, &rest) &&
           is_along(s, 1, k, &rest) && is_fixed(&s->region[2], k) && !is_same_memory(s, 0, s, 2) &&
           !is_same_memory(s, 1, s, 2);
}

// Returns whether a statement before s in the same body sums into the same tile.
static bool is_repeated(const struct tile_stmt *body, const struct tile_stmt *s) {
    for (const struct tile_stmt *other = body; other != s; other = other->next)
        if (is_same_memory(other, 2, s, 2))
            return true;
    return false;
}

static bool can_merge(const struct tile_stmt *loop) {
    if (loop->kind != TILE_FOR || number_of(loop->step) != 1 || loop->begin->op != TILE_CONST ||
        number_of(loop->begin) != 0 || !loop->body)
        return false;
    for (const struct tile_stmt *s = loop->body; s; s = s->next)
        if (s->kind != TILE_BARRIER && (!is_sum(s, loop->name[0]) || is_repeated(loop->body, s)))
            return false;
    return true;
}

// Extends a product to all iterations: it begins where the first one does, and is as many times as long.
static void lengthen(const struct tile_stmt *loop, struct tile_stmt *s) {
    for (int i = 0; i < 2; i++) {
        int axis = sum_axis(s, i);
        expr rest, rounds = tile_cast(tile_index_type(), loop->extent[0]);
        if (!is_along(s, i, loop->name[0], &rest) || !rounds)
            return;
        rounds = tile_binary(TILE_MAX, rounds, tile_const_int(rounds->type, 0));
        s->region[i].origin[axis] = rest;
        s->region[i].extent[axis] = tile_binary(TILE_MUL, rounds, s->region[i].extent[axis]);
    }
}

static void merge_block(struct tile_stmt **at) {
    for (; *at; at = &(*at)->next) {
        struct tile_stmt *s = *at;
        merge_block(&s->body);
        merge_block(&s->other);
        if (!can_merge(s))
            continue;
        struct tile_stmt *last = s->body;
        for (struct tile_stmt *one = s->body; one; last = one, one = one->next)
            if (one->kind == TILE_GEMM)
                lengthen(s, one);
        last->next = s->next;
        *at = s->body;
    }
}

// Clearing --------------------------------------------------------------------------------------------------

static bool is_all(const struct tile_region *r) {
    return !r->origin && !r->extent;
}

static bool is_cleared(const struct tile_stmt *s) {
    return s->kind == TILE_FILL && is_all(&s->region[1]) && s->value->op == TILE_CONST && s->value->bits == 0;
}

// Returns the product that is next added to the tile that a fill has cleared; NULL: something else may access
// the tile before.
static struct tile_stmt *product_after(const struct tile_stmt *fill) {
    const struct tile_buffer *b = fill->region[1].buffer;
    for (struct tile_stmt *s = fill->next; s; s = s->next) {
        bool is_simple =
            s->kind == TILE_ALLOC || s->kind == TILE_FILL || s->kind == TILE_COPY || s->kind == TILE_GEMM;
        bool is_result = s->kind == TILE_GEMM && s->region[2].buffer == b && is_all(&s->region[2]);
        if (is_result && !is_same_memory(fill, 1, s, 0) && !is_same_memory(fill, 1, s, 1))
            return s->clear || s->token ? NULL : s;
        for (int i = 0; i < 3; i++)
            is_simple &= !is_same_memory(fill, 1, s, i);
        if (!is_simple)
            return NULL;
    }
    return NULL;
}

// Returns whether a product sets all of its tile; else the rest would not be cleared.
static bool is_filled_by(const struct tile_stmt *s) {
    const struct tile_region *a = &s->region[0], *b = &s->region[1];
    const struct tile_buffer *c = s->region[2].buffer;
    int row = a->buffer->ndim - 2 + s->transpose[0], col = b->buffer->ndim - 1 - s->transpose[1];
    int64_t m = pass_number(tile_region_size(a, row)), n = pass_number(tile_region_size(b, col));
    return c->ndim == 2 && m >= 0 && n >= 0 && pass_number(c->shape[0]) == m && pass_number(c->shape[1]) == n;
}

// Lets products that are added to zeros overwrite the old elements, and removes the fills.
static void clear_block(struct tile_stmt **at) {
    while (*at) {
        struct tile_stmt *s = *at, *product = is_cleared(s) ? product_after(s) : NULL;
        clear_block(&s->body);
        clear_block(&s->other);
        if (product && is_filled_by(product)) {
            product->clear = true;
            *at = s->next;
        } else {
            at = &s->next;
        }
    }
}

bool pass_merge(struct tile_kernel *kernel, const struct target *target) {
    if (!target->packs)
        return true;
    tile_resume(kernel);
    merge_block(&kernel->body);
    clear_block(&kernel->body);
    tile_suspend();
    return !kernel->failed;
}
