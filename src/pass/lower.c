// lower.c - replaces ops of the table by simpler ones, by their formulas, until the target spells what is
// left.
//
// Ops without a formula stay: those on bool are left to `booleans`; the end of the pipeline reports any that
// no pass replaced.

#include "pass/pass.h"

#include "tile/math.h"
#include "tile/notation.h"

// Divides integers as floats with enough digits: while a < 2^24 (f32) or 2^53 (f64), rounding a / b never
// reaches a whole number that it does not equal, so its floor is right. The least number divided by -1 wraps
// around in the conversion back.
static expr floor_divide(expr a, expr b) {
    int bits = a->type.bits < 32 ? 32 : 64;
    struct tile_type wide = {TILE_FLOAT, (uint8_t)bits, 1}, whole = {TILE_INT, (uint8_t)bits, 1};
    expr quotient = tile_binary(TILE_DIV, tile_cast(wide, a), tile_cast(wide, b));
    expr floored = tile_cast(a->type, tile_cast(whole, tile_unary(TILE_FLOOR, quotient)));
    expr zero = tile_const_int(a->type, 0);
    return tile_ternary(TILE_SELECT, tile_binary(TILE_EQ, b, zero), zero, floored);
}

static expr divide_integers(enum tile_op op, expr a, expr b) {
    if (!a || !tile_type_is_integer(a->type))
        return NULL;
    if (op == TILE_REM)
        return tile_binary(TILE_SUB, a, tile_binary(TILE_MUL, b, tile_binary(TILE_FLOORDIV, a, b)));
    return op == TILE_FLOORDIV && a->type.bits <= 32 ? floor_divide(a, b) : NULL;
}

// Divides narrow integers as integers of 32 bits, which chips with lanes can divide.
static expr divide_narrow(enum tile_op op, expr a, expr b) {
    struct tile_type wide = {TILE_INT, 32, 1};
    return tile_cast(a->type, tile_binary(op, tile_cast(wide, a), tile_cast(wide, b)));
}

// Formulas of remainders and of floored quotients rely on exact divisions and fma, which chips with lanes
// compute by several ops.
enum { KNOWN = 1024 };

struct exact {
    expr a, b;                   // the operands, which stay
    expr from[KNOWN], to[KNOWN]; // by id modulo KNOWN
};

static expr exactly(void *data, expr e) {
    struct exact *x = data;
    int at = (int)((unsigned)e->id % KNOWN);
    if (e == x->a || e == x->b)
        return e;
    if (x->from[at] == e)
        return x->to[at];
    expr made = pass_rebuild(e, exactly, x);
    if (made && e->op == TILE_DIV)
        made = math_exact_div_f32(made->arg[0], made->arg[1]);
    else if (made && e->op == TILE_FMA)
        made = math_exact_fma_f32(made->arg[0], made->arg[1], made->arg[2]);
    x->from[at] = e;
    x->to[at] = made;
    return made;
}

static bool needs_exact(expr e) {
    return (e->op == TILE_FLOORDIV || e->op == TILE_REM || e->op == TILE_QUOT) && tile_type_is_float(e->type);
}

// Corrects the floor of a quotient between 2^-150 and 1 in magnitude, which is 0 or -1: the chip rounds
// quotients below 2^-126 to 0.
static expr floor_of_small(expr a, expr b, expr floored) {
    expr size = ABS(b), is_above = LT(MUL(size, F32(0x1p-75)), MUL(ABS(a), F32(0x1p75)));
    expr is_less = AND(AND(LT(F32(0), ABS(a)), LT(ABS(a), size)), AND(is_above, LT(size, F32(1.0 / 0.0))));
    expr differ = NE(LT(a, F32(0)), LT(b, F32(0)));
    return SELECT(is_less, SELECT(differ, F32(-1), F32(0)), floored);
}

// Computes a remainder or floored quotient of f32. Products and differences lose no bits if both operands are
// far from the ends of the range. So if the divisor is small, or both numbers are large, both are multiplied
// by a power of two first. This does not change quotients; remainders are divided by it.
static expr divide_exactly(enum tile_op op, expr a, expr b) {
    expr is_small = AND(LT(ABS(a), F32(0x1p60)), LT(ABS(b), F32(0x1p-30)));
    expr is_large = AND(LE(F32(0x1p120), ABS(a)), LE(F32(1), ABS(b)));
    expr scale = SELECT(is_small, F32(0x1p64), SELECT(is_large, F32(0x1p-8), F32(1)));
    struct exact x = {.a = MUL(a, scale), .b = MUL(b, scale)};
    expr formula = x.a && x.b ? tile_lower(op, x.a, x.b, NULL) : NULL;
    expr made = formula ? exactly(&x, formula) : NULL;
    if (made && op == TILE_FLOORDIV)
        made = floor_of_small(a, b, made);
    if (made && op == TILE_REM)
        made = MUL(made, SELECT(is_small, F32(0x1p-64), SELECT(is_large, F32(0x1p8), F32(1))));
    return made;
}

// Computes the same for f32 and for 16 bits, in f32.
static expr divide_on_lanes(enum tile_op op, expr a, expr b) {
    struct tile_type f32 = {TILE_FLOAT, 32, 1};
    expr made = divide_exactly(op, tile_cast(f32, a), tile_cast(f32, b));
    return made ? tile_cast(a->type, made) : NULL;
}

static expr rule(const struct target *target, expr e) {
    if (e->op == TILE_EXP2 && !target_spells(target, e))
        return math_quick_exp2_f32(e->arg[0]);
    if (!tile_op_is_row(e->op) || target_spells(target, e))
        return e;
    if (target->lanes && tile_type_is_integer(e->type) && (e->op == TILE_FLOORDIV || e->op == TILE_REM))
        return divide_narrow(e->op, e->arg[0], e->arg[1]);
    bool is_exact = target->lanes && needs_exact(e) && e->type.bits <= 32;
    expr formula = is_exact ? divide_on_lanes(e->op, e->arg[0], e->arg[1])
                            : tile_lower(e->op, e->arg[0], e->arg[1], e->arg[2]);
    if (!formula)
        formula = divide_integers(e->op, e->arg[0], e->arg[1]);
    return formula ? formula : e;
}

bool pass_lower(struct tile_kernel *kernel, const struct target *target) {
    return pass_rewrite(kernel, target, rule);
}
