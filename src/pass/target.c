// target.c - questions to a target's record.

#include "pass/pass.h"

static bool has(uint32_t set, struct tile_type type) {
    zl_dtype dtype = tile_dtype_of(type);
    return dtype < ZL_DTYPE_COUNT && (set & PASS_BIT(dtype));
}

bool target_spells_op(const struct target *target, enum tile_op op, struct tile_type operand) {
    return has(target->op[op].dtypes, operand);
}

bool target_casts(const struct target *target, struct tile_type to, struct tile_type from) {
    zl_dtype dtype = tile_dtype_of(to);
    return dtype < ZL_DTYPE_COUNT && has(target->cast[dtype], from);
}

bool target_spells(const struct target *target, expr e) {
    if (e->op == TILE_CAST)
        return target_casts(target, e->type, e->arg[0]->type);
    if (tile_op_is_row(e->op) || e->op == TILE_FMA || e->op == TILE_RARE || e->op == TILE_EXP2)
        return target_spells_op(target, e->op, e->arg[e->args - 1]->type);
    return true;
}
