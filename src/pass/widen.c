// widen.c - ops on 16-bit floats that the target does not spell are computed in f32 and rounded once.
//
// For +, -, *, / and square roots of f16 and bf16 that is the correctly rounded result. Ops with a formula of
// their own that the target does not spell are left to `lower`, which does the same.

#include "pass/pass.h"

static const struct tile_type f32 = {TILE_FLOAT, 32, 1};

// Returns a formula that is exact in the 16-bit type itself, if the op has one and the target its op; else
// NULL.
static expr on_half(const struct target *target, expr e) {
    expr x = e->arg[0];
    if (e->op == TILE_SQUARE && target_spells_op(target, TILE_MUL, x->type))
        return tile_binary(TILE_MUL, x, x);
    if (e->op == TILE_RECIP && target_spells_op(target, TILE_DIV, x->type))
        return tile_binary(TILE_DIV, tile_const(x->type, 1), x);
    return NULL;
}

static expr on_f32(expr e) {
    expr operand[3];
    for (int i = 0; i < e->args; i++)
        operand[i] = tile_type_is_half(e->arg[i]->type) ? tile_cast(f32, e->arg[i]) : e->arg[i];
    return tile_cast(e->type, tile_rebuild(e, operand));
}

static expr rule(const struct target *target, expr e) {
    bool is_op = tile_op_is_row(e->op) || e->op == TILE_RARE;
    expr last = is_op ? e->arg[e->args - 1] : NULL;
    if (!last || !tile_type_is_half(last->type) || target_spells(target, e))
        return e;
    expr exact = on_half(target, e);
    if (exact)
        return exact;
    bool has_formula = tile_lower(e->op, e->arg[0], e->arg[1], e->arg[2]);
    return has_formula && !target_spells_op(target, e->op, f32) ? e : on_f32(e);
}

bool pass_widen(struct tile_kernel *kernel, const struct target *target) {
    return pass_rewrite(kernel, target, rule);
}
