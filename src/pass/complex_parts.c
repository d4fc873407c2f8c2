// complex_parts.c - replaces complex numbers by pairs of floats, for targets that have none.
//
// Afterwards a complex value is pair(re, im), or re and im are taken of a value in memory: only loads,
// scalars and stored pairs have the complex type.

#include "pass/pass.h"

static const struct tile_type f32 = {TILE_FLOAT, 32, 1};

static bool is_complex(expr e) {
    return tile_type_is_complex(e->type);
}

// Returns a part of a complex node. op is TILE_RE or TILE_IM.
static expr part(enum tile_op op, expr x) {
    if (x->op == TILE_PAIR)
        return x->arg[op == TILE_IM];
    if (x->op == TILE_CONST)
        return tile_const_bits(f32, op == TILE_IM ? x->bits >> 32 : x->bits & 0xffffffff);
    return tile_unary(op, x);
}

static expr pair(expr re, expr im) {
    return tile_binary(TILE_PAIR, re, im);
}

static expr choose(expr e) {
    expr re = tile_ternary(e->op, e->arg[0], part(TILE_RE, e->arg[1]), part(TILE_RE, e->arg[2]));
    expr im = tile_ternary(e->op, e->arg[0], part(TILE_IM, e->arg[1]), part(TILE_IM, e->arg[2]));
    return pair(re, im);
}

// Converts from or to complex numbers. A bool is true if either part is not 0; other numbers get the real
// part.
static expr convert(expr e) {
    expr x = e->arg[0];
    if (is_complex(e))
        return pair(tile_cast(f32, x), tile_const(f32, 0));
    expr re = tile_cast(e->type, part(TILE_RE, x));
    return tile_type_is_bool(e->type) ? tile_binary(TILE_OR, re, tile_cast(e->type, part(TILE_IM, x))) : re;
}

// Returns the formula of an op on complex operands, or that of complex arithmetic.
static expr expand(expr e) {
    expr formula = tile_lower(e->op, e->arg[0], e->arg[1], e->arg[2]);
    if (!formula)
        formula = tile_lower_complex(e->op, e->arg[0], e->arg[1]);
    return formula
               ? formula
               : error_set(ZL_ERROR_COMPILE, "pass complex: %s has no form on parts", tile_op_name(e->op));
}

static expr rule(const struct target *target, expr e) {
    (void)target;
    switch (e->op) {
    case TILE_CONST: return is_complex(e) ? pair(part(TILE_RE, e), part(TILE_IM, e)) : e;
    case TILE_RE:
    case TILE_IM: return part(e->op, e->arg[0]);
    case TILE_SELECT:
    case TILE_RARE: return is_complex(e) ? choose(e) : e;
    case TILE_CAST: return is_complex(e) || is_complex(e->arg[0]) ? convert(e) : e;
    default: return tile_op_is_row(e->op) && is_complex(e->arg[0]) ? expand(e) : e;
    }
}

bool pass_complex(struct tile_kernel *kernel, const struct target *target) {
    return (target->op[TILE_MUL].dtypes & PASS_COMPLEX) || pass_rewrite(kernel, target, rule);
}
