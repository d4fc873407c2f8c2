// elide.c - copy elision: a tile that only copies a rectangle of an input for maps and reductions is removed,
// and they read the input in place. For targets whose blocks are loops of one thread. A later map that
// overwrites the whole tile begins a new tile.

#include "pass/pass.h"

enum { READS = 4 }; // of a tile, at most: each reads the input instead

// A tile during the search through its uses.
struct tile {
    const struct target *target;
    const struct tile_stmt *map; // the map that fills it
    const struct tile_buffer *buffer;
    expr value; // of an element, in the names of the map
    int reads;
    struct tile_stmt *end; // the map that overwrites all of it; NULL: none
};

// Whether a tile is one -------------------------------------------------------------------------------------

static bool is_input(const struct tile_buffer *b) {
    return b->parameter >= 0 && !b->is_output;
}

// Returns whether the value of a node depends on where in the list it is computed.
static bool changes(expr e, const void *data) {
    (void)data;
    return e->op == TILE_LOCAL || (e->op == TILE_LOAD && (!is_input(e->buffer) || e->args));
}

static expr load_of(expr value) {
    return value->op == TILE_CAST ? value->arg[0] : value;
}

static bool is_dense(const struct tile_buffer *b) {
    return !b->stride || pass_range(b->stride[b->ndim - 1]).high == 1;
}

// Returns whether a value is an element in a row of an input, at most converted.
static bool is_row_of_input(expr value, const struct tile_name *along) {
    expr load = load_of(value);
    if (load->op != TILE_LOAD || !load->indices || pass_any(load, changes, NULL) || !is_dense(load->buffer))
        return false;
    for (int i = 0; i + 1 < load->indices; i++)
        if (pass_step_of(load->index[i], along) != PASS_FIXED)
            return false;
    return pass_step_of(load->index[load->indices - 1], along) == PASS_UNIT;
}

static bool is_at_names(int indices, const expr *index, const struct tile_stmt *map) {
    bool same = indices == map->indices;
    for (int i = 0; same && i < indices; i++)
        same = index[i]->op == TILE_INDEX && index[i]->name == map->name[i];
    return same;
}

static bool covers(const struct tile_stmt *map, const struct tile_buffer *b) {
    bool all = map->indices == b->ndim;
    for (int i = 0; all && i < b->ndim; i++) {
        int64_t size = pass_number(b->shape[i]);
        all = map->extent[i] == b->shape[i] || (size >= 0 && pass_number(map->extent[i]) == size);
    }
    return all;
}

static bool is_tile(const struct tile_stmt *list, const struct tile_stmt *map, const struct tile_stmt *s) {
    return s->buffer->memory != TILE_GLOBAL && pass_is_made_in(list, s->buffer) && covers(map, s->buffer) &&
           is_at_names(s->indices, s->index, map) && is_row_of_input(s->value, map->name[map->indices - 1]);
}

// Its uses --------------------------------------------------------------------------------------------------

static bool is_of(const struct tile *t, const struct tile_buffer *b) {
    return b && tile_memory_of(b) == t->buffer;
}

static bool writes(const struct tile_stmt *s, const void *tile) {
    bool at_element = s->kind == TILE_STORE || s->kind == TILE_ATOMIC || s->kind == TILE_ALLOC;
    return (at_element && is_of(tile, s->buffer)) ||
           is_of(tile, s->region[s->kind == TILE_GEMM ? 2 : 1].buffer);
}

// Returns whether all loads of the tile are unmasked and in its own shape and, unless `map` is NULL, at the
// point of the map. Counts them.
static bool has_good_loads(struct tile *t, expr e, const struct tile_stmt *map) {
    bool good = true;
    if (e->op == TILE_LOAD && is_of(t, e->buffer)) {
        good = e->buffer == t->buffer && !e->args && (!map || is_at_names(e->indices, e->index, map));
        t->reads++;
    }
    for (int i = 0; good && i < tile_operands(e); i++)
        good = has_good_loads(t, tile_operand(e, i), map);
    return good;
}

// Returns whether a statement reduces a row of the tile that is a row of the input.
static bool is_good_reduction(struct tile *t, const struct tile_stmt *s) {
    const struct tile_region *r = &s->region[0];
    const struct tile_buffer *to = s->region[1].buffer;
    expr load = load_of(t->value);
    int more = load->buffer->ndim - to->ndim;
    bool good = s->kind == TILE_REDUCE && r->buffer == t->buffer && r->origin && r->extent &&
                s->axis == r->buffer->ndim - 1 && (more == 0 || more == 1) && t->target->reduces &&
                t->target->reduces(s->combine, tile_dtype_of(load->buffer->type), tile_dtype_of(to->type));
    for (int i = 0; good && i < s->axis; i++)
        good = pass_range(r->extent[i]).high == 1;
    t->reads++;
    return good;
}

static bool has_good_uses(struct tile *t, const struct tile_stmt *s, const struct tile_stmt *map) {
    expr root[TILE_STMT_EXPRS];
    int count = tile_stmt_exprs(s, root);
    bool good = true;
    for (int i = 0; good && i < count; i++)
        good = !root[i] || has_good_loads(t, root[i], map);
    for (int i = 0; good && i < 3; i++)
        if (is_of(t, s->region[i].buffer))
            good = i == 0 && is_good_reduction(t, s);
    return good;
}

// Returns whether all uses in a list can read the input. Uses in loops cannot, because they would read it
// again and again.
static bool are_good_uses(struct tile *t, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        bool is_loop = s->kind == TILE_FOR || s->kind == TILE_WHILE;
        if (is_loop && (pass_uses(s->body, t->buffer) || pass_uses(s->other, t->buffer)))
            return false;
        if (!has_good_uses(t, s, NULL) || !are_good_uses(t, s->body) || !are_good_uses(t, s->other))
            return false;
    }
    return true;
}

// Returns whether a map overwrites the whole tile by its last store.
static bool is_good_end(struct tile *t, const struct tile_stmt *s) {
    if (!pass_is_plain_map(s) || !covers(s, t->buffer))
        return false;
    for (const struct tile_stmt *b = s->body; b; b = b->next) {
        bool is_last = !b->next;
        if (is_of(t, b->buffer) != is_last || !has_good_uses(t, b, s) ||
            (is_last && (b->buffer != t->buffer || !is_at_names(b->indices, b->index, s))))
            return false;
    }
    return true;
}

static bool can_leave_out(struct tile *t) {
    for (struct tile_stmt *s = t->map->next; s && !t->end; s = s->next) {
        struct tile_stmt alone = *s;
        alone.next = NULL;
        if (pass_find(&alone, writes, t)) {
            if (!is_good_end(t, s))
                return false;
            t->end = s;
        } else if (!are_good_uses(t, &alone))
            return false;
    }
    return t->reads <= READS;
}

// Leaving it out --------------------------------------------------------------------------------------------

static bool redirect(const struct tile *t, struct tile_stmt *s) {
    struct tile_region *r = &s->region[0];
    expr load = load_of(t->value);
    int ndim = load->buffer->ndim;
    expr *list = arena_alloc(&tile_current()->arena, 2 * (size_t)ndim * sizeof *list);
    struct pass_swap at = {.names = t->map->indices, .name = t->map->name, .value = r->origin};
    for (int i = 0; list && i < ndim; i++) {
        list[i] = pass_swap(&at, load->index[i]);
        list[ndim + i] = i + 1 < ndim ? tile_const_int(tile_index_type(), 1) : r->extent[s->axis];
        if (!list[i] || !list[ndim + i])
            return false;
    }
    *r = (struct tile_region){load->buffer, list, list + ndim};
    s->axis = ndim - 1;
    return list;
}

static bool redirect_all(const struct tile *t, struct tile_stmt *body) {
    for (struct tile_stmt *s = body; s; s = s->next)
        if ((s->region[0].buffer == t->buffer && !redirect(t, s)) || !redirect_all(t, s->body) ||
            !redirect_all(t, s->other))
            return false;
    return true;
}

static bool leave_out(const struct tile *t) {
    struct pass_swap swap = {.buffer = t->buffer, .axis = t->map->name, .element = t->value};
    struct tile_stmt *after = t->end ? t->end->next : NULL, *last = t->map->next;
    while (last && last->next != after)
        last = last->next;
    if (!last)
        return true;
    last->next = NULL;
    bool done = redirect_all(t, t->map->next) && pass_swap_in(&swap, t->map->next);
    last->next = after;
    return done;
}

// Returns whether nothing else in a map touches the tile that a statement stores.
static bool is_alone(const struct tile_stmt *map, const struct tile_stmt *store) {
    for (const struct tile_stmt *s = map->body; s; s = s->next)
        if (s != store && pass_touches(s, store->buffer))
            return false;
    return true;
}

// Returns whether a statement other than its map still touches a tile.
static bool is_touched(const struct tile_stmt *list, const struct tile *t) {
    for (const struct tile_stmt *s = list; s; s = s->next)
        if (s != t->map && (s->kind != TILE_ALLOC || s->buffer != t->buffer) && pass_touches(s, t->buffer))
            return true;
    return false;
}

static bool try_store(struct tile_kernel *kernel, const struct target *target, struct tile_stmt **list,
                      const struct tile_stmt *map, const struct tile_stmt *store) {
    struct tile t = {target, map, store->buffer, store->value, 0, NULL};
    if (!is_tile(*list, map, store) || !is_alone(map, store) || !can_leave_out(&t))
        return false;
    kernel->failed |= !leave_out(&t);
    if (!is_touched(*list, &t))
        pass_take_alloc(list, t.buffer);
    return true;
}

static void carry_list(struct tile_kernel *kernel, const struct target *target, struct tile_stmt **list) {
    for (struct tile_stmt **at = list; *at && !kernel->failed;) {
        struct tile_stmt *s = *at, **store = &s->body;
        bool is_plain = pass_is_plain_map(s);
        carry_list(kernel, target, &s->other);
        if (!is_plain)
            carry_list(kernel, target, &s->body);
        while (is_plain && *store)
            if (try_store(kernel, target, list, s, *store))
                *store = (*store)->next;
            else
                store = &(*store)->next;
        for (at = list; *at != s; at = &(*at)->next) // an allocation before it may be gone
            ;
        if (is_plain && !s->body)
            *at = s->next;
        else
            at = &s->next;
    }
}

bool pass_elide(struct tile_kernel *kernel, const struct target *target) {
    return pass_simple_lists(kernel, target, carry_list);
}
