// map_reduce.c - joins a map and the reduction of the rows that it stores in one loop over rows: each row is
// reduced while it is in the cache, and a tile that only passes rows on becomes a buffer of one row. For
// targets whose blocks are loops of one thread.

#include "pass/pass.h"

// A map, and the loop after it that reduces rows of what it stores.
struct pair {
    struct tile_stmt *map, *loop;
    struct tile_stmt *store, *reduce; // the last store of the map; the reduction in the loop
    int lines;                        // axes of the loop
};

static bool is_name(expr e, const struct tile_name *name) {
    return e->op == TILE_INDEX && e->name == name;
}

static struct tile_stmt *last_of(struct tile_stmt *body) {
    while (body && body->next)
        body = body->next;
    return body;
}

// Returns whether a statement is a loop over rows that begins with the allocation of a result and its
// reduction. For one row, this is an `if` whose condition is true.
static bool is_loop(const struct tile_stmt *s) {
    bool is_one = s->kind == TILE_IF && !s->other && s->mask->op == TILE_CONST && s->mask->bits;
    return (s->kind == TILE_MAP || is_one) && s->body && s->body->kind == TILE_ALLOC && s->body->next &&
           s->body->next->kind == TILE_REDUCE;
}

static bool have_same_lines(const struct pair *p) {
    bool same = p->map->indices == p->lines + 1;
    for (int i = 0; same && i < p->lines; i++)
        same = p->map->extent[i] == p->loop->extent[i] &&
               tile_type_equal(p->map->name[i]->type, p->loop->name[i]->type);
    return same;
}

// Returns whether the loop reduces, row by row, what the map stores last.
static bool is_that_line(const struct pair *p) {
    const struct tile_region *r = &p->reduce->region[0];
    bool same = r->buffer == p->store->buffer && r->buffer->ndim == p->lines + 1 && r->origin && r->extent &&
                p->reduce->axis == p->lines && pass_number(r->origin[p->lines]) == 0 &&
                r->extent[p->lines] == p->map->extent[p->lines];
    for (int i = 0; same && i < p->lines; i++)
        same = is_name(r->origin[i], p->loop->name[i]) && pass_number(r->extent[i]) == 1;
    for (int i = 0; same && i <= p->lines; i++)
        same = is_name(p->store->index[i], p->map->name[i]);
    return same;
}

// Returns whether the loop stores after the reduction only to memory that the map does not use, without
// touching what the map stores, and whether the map has only one store into the tile.
static bool is_apart(const struct pair *p) {
    for (const struct tile_stmt *s = p->reduce->next; s; s = s->next) {
        if (s->kind != TILE_STORE || pass_uses(p->map->body, tile_memory_of(s->buffer)))
            return false;
        for (const struct tile_stmt *b = p->map->body; b; b = b->next)
            if (pass_touches(s, tile_memory_of(b->buffer)))
                return false;
    }
    for (const struct tile_stmt *b = p->map->body; b != p->store; b = b->next)
        if (tile_memory_of(b->buffer) == tile_memory_of(p->store->buffer))
            return false;
    return true;
}

static bool is_pair(struct pair *p, struct tile_stmt *first) {
    *p = (struct pair){.map = first, .loop = first->next};
    if (!pass_is_plain_map(first) || !first->next || !is_loop(first->next))
        return false;
    p->store = last_of(first->body);
    p->reduce = first->next->body->next;
    p->lines = first->next->kind == TILE_MAP ? first->next->indices : 0;
    return have_same_lines(p) && is_that_line(p) && is_apart(p);
}

// Reduces the map to one row, with the names of the loop.
static bool take_line(const struct pair *p) {
    expr value[TILE_DIMS];
    for (int i = 0; i < p->lines; i++)
        if (!(value[i] = tile_name_value(p->loop->name[i], TILE_INDEX)))
            return false;
    struct pass_swap swap = {.names = p->lines, .name = p->map->name, .value = value};
    if (!pass_swap_in(&swap, p->map->body))
        return false;
    p->map->name += p->lines;
    p->map->extent += p->lines;
    p->map->indices = 1;
    return true;
}

// Moves the stores before the last one to a map of their own: only the last one is reduced.
static bool split(struct tile_kernel *kernel, const struct pair *p) {
    if (p->map->body == p->store)
        return true;
    struct tile_stmt *others = arena_alloc(&kernel->arena, sizeof *others), *last;
    if (!others)
        return false;
    *others = *p->map;
    for (last = others->body; last->next != p->store; last = last->next)
        ;
    last->next = NULL;
    p->map->body = p->store;
    others->next = p->map;
    p->loop->body = others;
    return true;
}

static bool is_of_loop(const struct tile_stmt *list, const struct pair *p) {
    const struct tile_buffer *tile = p->store->buffer;
    bool is_seen = pass_loads(p->store->value, tile);
    for (const struct tile_stmt *s = list; s && !is_seen; s = s->next)
        is_seen = s != p->loop && (s->kind != TILE_ALLOC || s->buffer != tile) && pass_touches(s, tile);
    return !is_seen && pass_is_made_in(list, tile);
}

// Moves the allocation of the tile into the loop if nothing outside uses it.
static void take_tile(struct tile_stmt **list, const struct pair *p) {
    if (!is_of_loop(*list, p))
        return;
    struct tile_stmt *alloc = pass_take_alloc(list, p->store->buffer);
    alloc->next = p->loop->body;
    p->loop->body = alloc;
}

static void merge(struct tile_kernel *kernel, struct tile_stmt **list, const struct pair *p) {
    struct tile_stmt **at = list;
    while (*at != p->map)
        at = &(*at)->next;
    *at = p->loop;
    p->map->next = p->loop->body;
    p->loop->body = p->map;
    kernel->failed |= !take_line(p) || !split(kernel, p);
    if (p->loop->body == p->map)
        take_tile(list, p);
}

static void lines_of_list(struct tile_kernel *kernel, const struct target *target, struct tile_stmt **list) {
    struct pair p;
    for (struct tile_stmt *s = *list, *next; s && !kernel->failed; s = next) {
        next = s->next;
        if (is_pair(&p, s))
            merge(kernel, list, &p);
        else {
            lines_of_list(kernel, target, &s->body);
            lines_of_list(kernel, target, &s->other);
        }
    }
}

bool pass_map_reduce(struct tile_kernel *kernel, const struct target *target) {
    return pass_simple_lists(kernel, target, lines_of_list);
}
