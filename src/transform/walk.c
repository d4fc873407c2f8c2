// walk.c - lists the calls between given arrays and results computed from them, without recursion, in time
// linear in the number of their inputs.

#include "transform/transform.h"

// Places ----------------------------------------------------------------------------------------------------

// Returns the key's slot, or the free slot where it belongs. The table always has a free slot.
static size_t find(const struct places *p, const void *key) {
    size_t mask = (size_t)p->cap - 1, at = ((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15u >> 20 & mask;
    while (p->key[at] && p->key[at] != key)
        at = (at + 1) & mask;
    return at;
}

static int place_of(const struct places *p, const void *key) {
    if (!p->count)
        return -1;
    size_t slot = find(p, key);
    return p->key[slot] ? p->at[slot] : -1;
}

static bool widen(struct places *p) {
    if (p->cap > INT32_MAX / 4)
        return error_false(ZL_ERROR_MEMORY, "a transform of more than %d calls", p->count);
    struct places wider = {.cap = p->cap ? 2 * p->cap : 64, .count = p->count};
    wider.key = memory_zero(sizeof *wider.key * (size_t)wider.cap);
    wider.at = memory_alloc(sizeof *wider.at * (size_t)wider.cap);
    bool ok = wider.key && wider.at;
    for (int i = 0; ok && i < p->cap; i++)
        if (p->key[i]) {
            size_t slot = find(&wider, p->key[i]);
            wider.key[slot] = p->key[i];
            wider.at[slot] = p->at[i];
        }
    struct places *dead = ok ? p : &wider;
    memory_free(dead->key);
    memory_free(dead->at);
    if (ok)
        *p = wider;
    return ok;
}

static bool put(struct places *p, const void *key, int at) {
    if (p->count >= p->cap / 2 && !widen(p))
        return false;
    size_t slot = find(p, key);
    p->count += !p->key[slot];
    p->key[slot] = key;
    p->at[slot] = at;
    return true;
}

// Numbers ---------------------------------------------------------------------------------------------------

static bool has_history(zl_array x) {
    return x->call && !x->call->detached;
}

int walk_call(const struct walk *w, zl_array x) {
    return has_history(x) && place_of(&w->places, x) < 0 ? place_of(&w->places, x->call) : -1;
}

int walk_number(const struct walk *w, zl_array x) {
    int number = place_of(&w->places, x);
    if (number >= 0 || !has_history(x))
        return number;
    int call = place_of(&w->places, x->call);
    return call < 0 ? -1 : w->first[call] + x->index;
}

bool walk_depends(const struct walk *w, zl_array x) {
    int number = walk_number(w, x);
    return number >= 0 && w->depends[number];
}

int walk_from(const struct walk *w, const struct call *c) {
    if (w->kind == WALK_ALL)
        return 0;
    if (c->op == &op_custom)
        return w->kind != WALK_BATCH || custom_has_vmap(c) ? c->outputs : 0;
    return w->kind != WALK_BATCH && c->op == &op_stop_gradient ? c->inputs : 0;
}

static bool depends_on_any(const struct walk *w, const struct call *c) {
    bool depends = false;
    for (int i = walk_from(w, c); !depends && i < c->inputs; i++)
        depends = walk_depends(w, c->in[i]);
    return depends;
}

// Listing ---------------------------------------------------------------------------------------------------

static bool add_number(struct walk *w, bool depends) {
    if (!memory_grow(&w->depends, &w->array_cap, w->arrays + 1, sizeof *w->depends))
        return false;
    w->depends[w->arrays++] = depends;
    return true;
}

// Keeps all outputs of a call alive in the transform's scope: rules may read outputs that the function has
// released.
static bool hold_siblings(struct call *c) {
    for (int i = 0; c->outputs > 1 && i < c->outputs; i++)
        if (!graph_lend_sibling(c, i))
            return false;
    return true;
}

// Appends a call. A collective always counts as dependent on the inputs of a function that is replayed,
// because data from other processes must be received again by each replay.
static bool append(struct walk *w, struct call *c) {
    bool depends = depends_on_any(w, c) || (w->kind == WALK_ALL && op_is_collective(c->op));
    if (depends && !hold_siblings(c))
        return false;
    if (!memory_grow(&w->call, &w->call_cap, w->calls + 1, sizeof *w->call) ||
        !memory_grow(&w->first, &w->first_cap, w->calls + 1, sizeof *w->first) ||
        !put(&w->places, c, w->calls))
        return false;
    w->call[w->calls] = c;
    w->first[w->calls++] = w->arrays;
    for (int i = 0; i < c->outputs; i++)
        if (!add_number(w, depends))
            return false;
    return true;
}

static bool push(struct walk *w, int *depth, zl_array x) {
    if (!has_history(x) || place_of(&w->places, x->call) >= 0)
        return true;
    if (w->kind != WALK_HISTORY && place_of(&w->places, x) >= 0)
        return true;
    if (!memory_grow(&w->stack, &w->stack_cap, *depth + 1, sizeof *w->stack))
        return false;
    w->stack[(*depth)++] = x->call;
    return true;
}

static bool list(struct walk *w, zl_array result) {
    int depth = 0;
    if (!push(w, &depth, result))
        return false;
    while (depth) {
        int top = depth;
        struct call *c = w->stack[top - 1];
        if (place_of(&w->places, c) >= 0) {
            depth--;
            continue;
        }
        for (int i = walk_from(w, c); i < c->inputs; i++)
            if (!push(w, &depth, c->in[i]))
                return false;
        if (depth == top && (depth--, !append(w, c)))
            return false;
    }
    return true;
}

bool walk_make(struct walk *w, int sources, const zl_array *source, int results, const zl_array *result) {
    for (int i = 0; i < sources; i++)
        if (place_of(&w->places, source[i]) < 0 &&
            (!put(&w->places, source[i], w->arrays) || !add_number(w, true)))
            return false;
    for (int i = 0; i < results; i++)
        if (!list(w, result[i]))
            return false;
    return true;
}

void walk_free(struct walk *w) {
    memory_free(w->call);
    memory_free(w->first);
    memory_free(w->depends);
    memory_free(w->places.key);
    memory_free(w->places.at);
    memory_free(w->stack);
    *w = (struct walk){0};
}
