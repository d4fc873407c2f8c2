// booleans.c - arithmetic on bool becomes and, or, xor, not; ops without effect on their type are removed.
//
// bool is an integer of one bit, except that 1 + 1 is 1.

#include "pass/pass.h"

#include "tile/notation.h"

static expr on_bool(expr e) {
    expr a = e->arg[0], b = e->arg[1];
    switch (e->op) {
    case TILE_NEG:
    case TILE_ABS: return a;
    case TILE_ADD:
    case TILE_MAX: return OR(a, b);
    case TILE_MUL:
    case TILE_MIN: return AND(a, b);
    case TILE_SUB:
    case TILE_NE: return XOR(a, b);
    case TILE_EQ: return NOT(XOR(a, b));
    case TILE_LT: return AND(NOT(a), b);
    case TILE_LE: return OR(NOT(a), b);
    case TILE_GT:
    case TILE_SHL:
    case TILE_SHR: return AND(a, NOT(b));
    case TILE_GE: return OR(a, NOT(b));
    default: return e;
    }
}

// (c and a) or (not c and b)
static expr choose(expr e) {
    return OR(AND(e->arg[0], e->arg[1]), AND(NOT(e->arg[0]), e->arg[2]));
}

static bool is_nothing(expr e) {
    switch (e->op) {
    case TILE_FLOOR:
    case TILE_CEIL:
    case TILE_RINT:
    case TILE_TRUNC: return !tile_type_is_float(e->type);
    case TILE_CONJ:
    case TILE_REAL_PART: return !tile_type_is_complex(e->arg[0]->type);
    case TILE_ABS: return e->type.kind == TILE_UINT;
    default: return false;
    }
}

static expr rule(const struct target *target, expr e) {
    (void)target;
    if (is_nothing(e))
        return e->arg[0];
    if ((e->op == TILE_SELECT || e->op == TILE_RARE) && tile_type_is_bool(e->type))
        return choose(e);
    return tile_op_is_row(e->op) && tile_type_is_bool(e->arg[0]->type) ? on_bool(e) : e;
}

bool pass_booleans(struct tile_kernel *kernel, const struct target *target) {
    return pass_rewrite(kernel, target, rule);
}
