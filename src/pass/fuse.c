// fuse.c - fuses consecutive maps over the same points: what the first has computed is not loaded again, and
// not stored if nothing else reads it. For targets whose blocks are loops of one thread.

#include "pass/pass.h"

// SHORT: formulas with fewer nodes may be computed twice. STORES: maps with as many stores are not fused.
enum { SHORT = 6, STORES = 16 };

// What becomes of a store of the first map.
enum fate {
    STAYS,    // the second map loads what it has stored
    REPEATED, // the second map computes the value again
    MOVED,    // the second map computes the value, and nothing else reads it
};

// Renaming --------------------------------------------------------------------------------------------------

// Rewrites expressions of one map with the names of another, and with the values that it stored in place of
// loads.
struct renaming {
    const struct tile_stmt *to, *from; // maps
    const struct tile_stmt *stored;    // stores of `to`; NULL: loads stay
    const enum fate *fate;             // of each store
    expr *memo;                        // by id of an expression: its replacement
    int ids;
};

static expr stored_value(const struct renaming *r, expr load) {
    expr found = NULL;
    int at = 0;
    for (const struct tile_stmt *s = r->stored; s && at < STORES; s = s->next, at++) {
        bool same = s->buffer == load->buffer && !load->args;
        for (int i = 0; same && i < s->indices; i++)
            same = s->index[i] == load->index[i];
        if (same)
            found = r->fate[at] == STAYS ? NULL : s->value;
    }
    return found;
}

static expr rename(void *data, expr e) {
    struct renaming *r = data;
    if (e->id < r->ids && r->memo[e->id])
        return r->memo[e->id];
    expr made = pass_rebuild(e, rename, r);
    for (int i = 0; e->op == TILE_INDEX && i < r->to->indices; i++)
        if (e->name == r->from->name[i])
            made = tile_name_value(r->to->name[i], TILE_INDEX);
    expr value = made && made->op == TILE_LOAD ? stored_value(r, made) : NULL;
    made = value ? value : made;
    if (e->id < r->ids)
        r->memo[e->id] = made;
    return made;
}

// Whether it may be done ------------------------------------------------------------------------------------

static bool have_same_points(const struct tile_stmt *a, const struct tile_stmt *b) {
    bool same = a->indices == b->indices;
    for (int i = 0; same && i < a->indices; i++)
        same = a->extent[i] == b->extent[i] && tile_type_equal(a->name[i]->type, b->name[i]->type);
    return same;
}

// An access, in the names of the first map.
struct access {
    const struct tile_buffer *buffer;
    expr index[TILE_DIMS];
};

// Returns whether every point of a map has an element of its own.
static bool is_of_one_point(const struct access *a, const struct tile_stmt *map) {
    for (int i = 0; i < map->indices; i++) {
        bool found = false;
        for (int k = 0; k < a->buffer->ndim; k++)
            found |= pass_step_of(a->index[k], map->name[i]) == PASS_UNIT;
        if (!found)
            return false;
    }
    return true;
}

struct accesses {
    struct renaming *r;
    const struct access *wanted; // all accesses of its memory must be this one
    bool good;
};

static bool is_other(const struct accesses *a, const struct tile_buffer *b) {
    return tile_memory_of(b) != tile_memory_of(a->wanted->buffer);
}

static void check_access(struct accesses *a, const struct tile_buffer *b, const expr *index) {
    if (is_other(a, b))
        return;
    a->good &= b == a->wanted->buffer;
    for (int i = 0; a->good && i < b->ndim; i++)
        a->good = (a->r ? rename(a->r, index[i]) : index[i]) == a->wanted->index[i];
}

static void check_loads(struct accesses *a, expr e) {
    if (e->op == TILE_LOAD)
        check_access(a, e->buffer, e->index);
    for (int i = 0; a->good && i < tile_operands(e); i++)
        check_loads(a, tile_operand(e, i));
}

// Returns whether all accesses of a map to the memory of the wanted access are that one. Formulas are small
// trees here, because functions are not lowered yet.
static bool all_are(const struct access *wanted, const struct tile_stmt *map, struct renaming *r) {
    struct accesses a = {r, wanted, true};
    for (const struct tile_stmt *s = map->body; s && a.good; s = s->next) {
        check_access(&a, s->buffer, s->index);
        check_loads(&a, s->value);
        for (int i = 0; i < s->indices && a.good; i++)
            check_loads(&a, s->index[i]);
    }
    return a.good;
}

static bool store_the_same(const struct tile_stmt *first, const struct tile_stmt *second) {
    for (const struct tile_stmt *a = first->body; a; a = a->next)
        for (const struct tile_stmt *b = second->body; b; b = b->next)
            if (tile_memory_of(a->buffer) == tile_memory_of(b->buffer))
                return true;
    return false;
}

// Returns whether two maps can be fused: whatever one of them stores, both touch at the same point only.
static bool can_fuse(const struct tile_stmt *first, const struct tile_stmt *second, struct renaming *r) {
    if (store_the_same(first, second))
        return false;
    for (int at = 0; at < 2; at++)
        for (const struct tile_stmt *s = (at ? second : first)->body; s; s = s->next) {
            struct access wanted = {.buffer = s->buffer};
            for (int i = 0; i < s->indices; i++)
                if (!(wanted.index[i] = at ? rename(r, s->index[i]) : s->index[i]))
                    return false;
            if (!is_of_one_point(&wanted, first) || !all_are(&wanted, first, NULL) ||
                !all_are(&wanted, second, r))
                return false;
        }
    return true;
}

// Doing it --------------------------------------------------------------------------------------------------

// Appends the statements of the second map to the first. They are renamed before they are linked, because
// renaming looks at the stores of the first map.
static bool append_renamed(struct renaming *r, struct tile_stmt *first, struct tile_stmt *second) {
    struct tile_stmt **tail = &first->body;
    while (*tail)
        tail = &(*tail)->next;
    for (struct tile_stmt *s = second->body; s; s = s->next) {
        for (int i = 0; i < s->indices; i++)
            if (!(s->index[i] = rename(r, s->index[i])))
                return false;
        if (!(s->value = rename(r, s->value)))
            return false;
    }
    *tail = second->body;
    first->next = second->next;
    return true;
}

// Who else reads --------------------------------------------------------------------------------------------

// Returns whether a store writes memory that is allocated in this list and that nothing after the next map
// reads.
static bool is_last_seen(const struct tile_stmt *list, const struct tile_stmt *store,
                         const struct tile_stmt *next) {
    const struct tile_buffer *memory = tile_memory_of(store->buffer);
    return memory->memory != TILE_GLOBAL && pass_is_made_in(list, memory) && !pass_uses(next->next, memory);
}

static int nodes_of(expr e) {
    int count = 1;
    for (int i = 0; i < e->args && count < SHORT; i++)
        count += nodes_of(e->arg[i]);
    return count;
}

// Returns whether a formula loads memory that one of the stores, other than `but`, changes: it would have
// another value later.
static bool is_changed(const struct tile_stmt *stores, expr value, const struct tile_stmt *but) {
    for (const struct tile_stmt *s = stores; s; s = s->next)
        if (s != but && pass_loads(value, tile_memory_of(s->buffer)))
            return true;
    return false;
}

// Returns whether another statement of the map uses the memory of a store.
static bool is_shared(const struct tile_stmt *stores, const struct tile_stmt *store) {
    for (const struct tile_stmt *s = stores; s; s = s->next) {
        const struct tile_buffer *memory = tile_memory_of(store->buffer);
        if (s != store && (tile_memory_of(s->buffer) == memory || pass_loads(s->value, memory)))
            return true;
    }
    return false;
}

static enum fate fate_of(const struct tile_stmt *list, const struct tile_stmt *first,
                         const struct tile_stmt *s) {
    if (is_changed(first->next->body, s->value, NULL))
        return STAYS;
    if (is_last_seen(list, s, first->next) && !is_shared(first->body, s) &&
        !is_changed(first->body, s->value, s))
        return MOVED;
    bool is_short = nodes_of(s->value) < SHORT;
    return is_short && !is_changed(first->body, s->value, NULL) ? REPEATED : STAYS;
}

static void drop_moved(struct tile_stmt *map, const enum fate *fate, int count) {
    struct tile_stmt **at = &map->body;
    for (int i = 0; i < count; i++) {
        if (fate[i] == MOVED)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
}

static bool start_memo(struct tile_kernel *kernel, struct renaming *r) {
    r->memo = memory_zero(sizeof *r->memo * (size_t)r->ids);
    kernel->failed |= !r->memo;
    return r->memo;
}

static bool fuse_pair(struct tile_kernel *kernel, const struct tile_stmt *list, struct tile_stmt *first) {
    enum fate fate[STORES];
    struct renaming r = {.to = first, .from = first->next, .fate = fate, .ids = kernel->ids + 1};
    int count = 0;
    for (const struct tile_stmt *s = first->body; s && count < STORES; s = s->next)
        fate[count++] = fate_of(list, first, s);
    if (count == STORES || !start_memo(kernel, &r))
        return false;
    bool fused = can_fuse(first, first->next, &r);
    memory_free(r.memo);
    if (!fused || !start_memo(kernel, &r))
        return false;
    r.stored = first->body;
    fused = append_renamed(&r, first, first->next);
    memory_free(r.memo);
    if (fused)
        drop_moved(first, fate, count);
    return fused;
}

static void fuse_list(struct tile_kernel *kernel, const struct target *target, struct tile_stmt **list) {
    for (struct tile_stmt *s = *list; s && !kernel->failed; s = s->next) {
        fuse_list(kernel, target, &s->body);
        fuse_list(kernel, target, &s->other);
        while (s->next && pass_is_plain_map(s) && pass_is_plain_map(s->next) &&
               have_same_points(s, s->next) && fuse_pair(kernel, *list, s))
            ;
    }
}

bool pass_fuse(struct tile_kernel *kernel, const struct target *target) {
    return pass_simple_lists(kernel, target, fuse_list);
}
