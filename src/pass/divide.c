// divide.c - simplifies integer divisions of numbers that are not negative, or by powers of two.
//
// x // y rounds down, x // 0 is 0 and x % y has the sign of y: signed division needs tests for all of that. A
// division by a power of two becomes a shift or a mask, also of negative numbers. A division of numbers that
// are not negative becomes unsigned, in 32 bits if they fit and the target divides such; renderers leave out
// the last test, for 0, if they know that the divisor is positive.

#include "pass/pass.h"

static bool is_power(expr e, int *shift) {
    if (e->op != TILE_CONST || e->type.lanes > 1)
        return false;
    uint64_t sign = UINT64_C(1) << (e->type.bits - 1);
    if (!e->bits || (e->bits & (e->bits - 1)) || (e->type.kind == TILE_INT && e->bits == sign))
        return false;
    *shift = __builtin_ctzll(e->bits);
    return true;
}

static expr by_power(expr e, int shift) {
    if (e->op == TILE_FLOORDIV)
        return tile_binary(TILE_SHR, e->arg[0], tile_const_int(e->type, shift));
    return tile_binary(TILE_AND, e->arg[0], tile_const_bits(e->type, (UINT64_C(1) << shift) - 1));
}

// Returns the type to divide in, which is that of the operands if there is no better one.
static struct tile_type type_for(const struct target *target, expr e, struct pass_range a,
                                 struct pass_range b) {
    struct tile_type type = {TILE_UINT, e->type.bits, 1}, small = {TILE_UINT, 32, 1};
    bool fits = a.high <= UINT32_MAX && b.high <= UINT32_MAX;
    if (e->type.bits == 64 && fits && target_spells_op(target, TILE_FLOORDIV, small))
        return small;
    return target_spells_op(target, TILE_FLOORDIV, type) ? type : e->type;
}

static expr rule(const struct target *target, expr e) {
    int shift;
    if ((e->op != TILE_FLOORDIV && e->op != TILE_REM) || !tile_type_is_integer(e->type) || e->type.lanes > 1)
        return e;
    if (is_power(e->arg[1], &shift))
        return by_power(e, shift);
    struct pass_range a = pass_certain_range(e->arg[0]), b = pass_certain_range(e->arg[1]);
    if (a.low < 0 || b.low < 0)
        return e;
    if (a.high < b.low)
        return e->op == TILE_REM ? e->arg[0] : tile_const_int(e->type, 0);
    struct tile_type type = type_for(target, e, a, b);
    if (tile_type_equal(type, e->type))
        return e;
    return tile_cast(e->type, tile_binary(e->op, tile_cast(type, e->arg[0]), tile_cast(type, e->arg[1])));
}

bool pass_divide(struct tile_kernel *kernel, const struct target *target) {
    if (target->group)
        pass_learn(kernel->body);
    return pass_rewrite(kernel, target, rule);
}
