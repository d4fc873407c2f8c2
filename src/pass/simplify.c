// simplify.c - folds constants, and removes ops that change nothing. Every rule gives the same bits for every
// input, signed zeros and NaN among them.

#include "pass/pass.h"

static bool is_const(expr e) {
    return e->op == TILE_CONST;
}

static bool is_bits(expr e, uint64_t bits) {
    return is_const(e) && e->bits == bits;
}

static bool is_value(expr e, double value) {
    if (!is_const(e) || tile_type_is_complex(e->type))
        return false;
    expr wanted = tile_const(e->type, value);
    return wanted && wanted->bits == e->bits;
}

static bool is_all_ones(expr e) {
    return is_bits(e, UINT64_MAX >> (64 - e->type.bits));
}

// Returns whether e is a zero with x + e = x for every x: -0 of floats, 0 of integers.
static bool is_nothing_added(expr e) {
    return tile_type_is_float(e->type) ? is_value(e, -0.0) : is_bits(e, 0);
}

// Constants -------------------------------------------------------------------------------------------------

static expr folded(expr e) {
    union tile_value arg[3];
    if (!e->args || e->op == TILE_LOAD || tile_type_is_complex(e->type))
        return NULL;
    for (int i = 0; i < e->args; i++) {
        if (!is_const(e->arg[i]))
            return NULL;
        arg[i] = tile_value_of(e->arg[i]->type, e->arg[i]->bits);
    }
    if (tile_op_is_row(e->op) && tile_lower(e->op, e->arg[0], e->arg[1], e->arg[2]))
        return NULL; // tile_apply computes base ops alone
    union tile_value v = tile_apply(e->op, e->type, e->arg[e->args - 1]->type, arg);
    return tile_const_bits(e->type, tile_bits_of(e->type, v));
}

// Rules: what e is, or NULL ---------------------------------------------------------------------------------

static expr add(expr e) {
    if (is_nothing_added(e->arg[1]))
        return e->arg[0];
    return is_nothing_added(e->arg[0]) ? e->arg[1] : NULL;
}

static expr subtract(expr e) {
    return is_bits(e->arg[1], 0) ? e->arg[0] : NULL;
}

static expr multiply(expr e) {
    if (is_value(e->arg[1], 1))
        return e->arg[0];
    return is_value(e->arg[0], 1) ? e->arg[1] : NULL;
}

static expr divide(expr e) {
    return is_value(e->arg[1], 1) ? e->arg[0] : NULL;
}

static expr undo(expr e) {
    return e->arg[0]->op == e->op ? e->arg[0]->arg[0] : NULL;
}

static expr absolute(expr e) {
    if (e->arg[0]->op == TILE_ABS)
        return e->arg[0];
    return e->arg[0]->op == TILE_NEG ? tile_unary(TILE_ABS, e->arg[0]->arg[0]) : NULL;
}

static expr same_twice(expr e) {
    return e->arg[0] == e->arg[1] ? e->arg[0] : NULL;
}

// x & 0 and x | ones are the constant; x & ones and x | 0 are x.
static expr and_or_bits(expr e) {
    bool is_and = e->op == TILE_AND;
    for (int i = 0; i < 2; i++) {
        if (is_bits(e->arg[i], 0))
            return e->arg[is_and ? i : !i];
        if (is_all_ones(e->arg[i]))
            return e->arg[is_and ? !i : i];
    }
    return same_twice(e);
}

static expr xor_bits(expr e) {
    for (int i = 0; i < 2; i++) {
        if (is_bits(e->arg[i], 0))
            return e->arg[!i];
        if (is_all_ones(e->arg[i]))
            return tile_unary(TILE_NOT, e->arg[!i]);
    }
    return NULL;
}

static expr shift(expr e) {
    return is_bits(e->arg[1], 0) ? e->arg[0] : NULL;
}

static expr choose(expr e) {
    expr mask = e->arg[0], a = e->arg[1], b = e->arg[2];
    if (is_const(mask))
        return mask->bits ? a : b;
    if (a == b)
        return a;
    return mask->op == TILE_NOT && e->op == TILE_SELECT ? tile_ternary(TILE_SELECT, mask->arg[0], b, a)
                                                        : NULL;
}

// Returns whether every value of the type `small` is one of `large`.
static bool holds(struct tile_type large, struct tile_type small) {
    if (tile_type_is_integer(large) && large.kind == small.kind)
        return large.bits >= small.bits;
    if (large.kind == TILE_INT && small.kind == TILE_UINT)
        return large.bits > small.bits;
    if (large.kind == TILE_FLOAT && tile_type_is_float(small))
        return large.bits > small.bits;
    return large.kind == TILE_FLOAT && large.bits >= 32 && tile_type_is_integer(small) &&
           small.bits * 2 <= large.bits;
}

// Removes conversions to a type that holds every value, and back.
static expr convert(expr e) {
    expr x = e->arg[0];
    bool is_return =
        x->op == TILE_CAST && tile_type_equal(x->arg[0]->type, e->type) && holds(x->type, e->type);
    return is_return ? x->arg[0] : NULL;
}

static expr reinterpret(expr e) {
    return e->arg[0]->op == TILE_BITCAST ? tile_bitcast(e->type, e->arg[0]->arg[0]) : NULL;
}

static expr part(expr e) {
    return e->arg[0]->op == TILE_PAIR ? e->arg[0]->arg[e->op == TILE_IM] : NULL;
}

static expr pair(expr e) {
    expr re = e->arg[0], im = e->arg[1];
    bool is_whole = re->op == TILE_RE && im->op == TILE_IM && re->arg[0] == im->arg[0];
    return is_whole ? re->arg[0] : NULL;
}

static expr (*const rules[TILE_OP_COUNT])(expr e) = {
    [TILE_ADD] = add,         [TILE_SUB] = subtract,   [TILE_MUL] = multiply,
    [TILE_DIV] = divide,      [TILE_NEG] = undo,       [TILE_NOT] = undo,
    [TILE_ABS] = absolute,    [TILE_MAX] = same_twice, [TILE_MIN] = same_twice,
    [TILE_AND] = and_or_bits, [TILE_OR] = and_or_bits, [TILE_XOR] = xor_bits,
    [TILE_SHL] = shift,       [TILE_SHR] = shift,      [TILE_SELECT] = choose,
    [TILE_RARE] = choose,     [TILE_CAST] = convert,   [TILE_RE] = part,
    [TILE_IM] = part,         [TILE_PAIR] = pair,      [TILE_BITCAST] = reinterpret,
};

static expr rule(const struct target *target, expr e) {
    (void)target;
    expr constant = folded(e);
    expr simpler = constant || !rules[e->op] ? constant : rules[e->op](e);
    return simpler ? simpler : e;
}

bool pass_simplify(struct tile_kernel *kernel, const struct target *target) {
    return pass_rewrite(kernel, target, rule);
}
