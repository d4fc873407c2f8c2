// swap.c - formulas with other expressions instead of loop variables, or instead of what a buffer holds.

#include "pass/pass.h"

static expr element_of(const struct pass_swap *swap, const expr *index) {
    struct pass_swap at = {.names = swap->buffer->ndim, .name = swap->axis, .value = index};
    return pass_swap(&at, swap->element);
}

// Paths are walked: for formulas of simple kernels.
static expr swapped(void *data, expr e) {
    const struct pass_swap *swap = data;
    for (int i = 0; e->op == TILE_INDEX && i < swap->names; i++)
        if (e->name == swap->name[i])
            return swap->value[i];
    expr made = pass_rebuild(e, swapped, data);
    return made && e->op == TILE_LOAD && e->buffer == swap->buffer ? element_of(swap, made->index) : made;
}

expr pass_swap(const struct pass_swap *swap, expr e) {
    return swapped((void *)swap, e);
}

struct swapping {
    const struct pass_swap *swap;
    bool failed;
};

static void swap_place(expr *place, void *data) {
    struct swapping *s = data;
    expr e = pass_swap(s->swap, *place);
    s->failed |= !e;
    *place = e ? e : *place;
}

bool pass_swap_in(const struct pass_swap *swap, struct tile_stmt *body) {
    struct swapping s = {swap, false};
    pass_each_expr(body, swap_place, &s);
    return !s.failed;
}
