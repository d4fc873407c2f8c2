// swap.c - substitutes expressions for loop variables, and a formula for the elements of a buffer.

#include "pass/pass.h"

// The replacements are remembered by id modulo KNOWN: formulas of functions share their parts, and can have
// too many paths to follow.
enum { KNOWN = 1024 };

struct swapper {
    const struct pass_swap *swap;
    expr from[KNOWN], to[KNOWN];
};

static expr element_of(const struct pass_swap *swap, const expr *index) {
    struct pass_swap at = {.names = swap->buffer->ndim, .name = swap->axis, .value = index};
    return pass_swap(&at, swap->element);
}

static expr swapped(void *data, expr e) {
    struct swapper *s = data;
    const struct pass_swap *swap = s->swap;
    int at = (int)((unsigned)e->id % KNOWN);
    if (s->from[at] == e)
        return s->to[at];
    for (int i = 0; e->op == TILE_INDEX && i < swap->names; i++)
        if (e->name == swap->name[i])
            return swap->value[i];
    expr made = pass_rebuild(e, swapped, data);
    if (made && e->op == TILE_LOAD && e->buffer == swap->buffer)
        made = element_of(swap, made->index);
    s->from[at] = e;
    s->to[at] = made;
    return made;
}

expr pass_swap(const struct pass_swap *swap, expr e) {
    struct swapper s = {.swap = swap};
    return swapped(&s, e);
}

struct swapping {
    struct swapper swapper; // for all expressions
    bool failed;
};

static void swap_place(expr *place, void *data) {
    struct swapping *s = data;
    expr e = swapped(&s->swapper, *place);
    s->failed |= !e;
    *place = e ? e : *place;
}

bool pass_swap_in(const struct pass_swap *swap, struct tile_stmt *body) {
    struct swapping s = {.swapper = {.swap = swap}};
    pass_each_expr(body, swap_place, &s);
    return !s.failed;
}
