// complex.c - arithmetic and comparison of complex numbers as ops on their parts.
//
// Targets without complex numbers use these formulas; targets with complex numbers must give the same bits.

#include "tile/notation.h"

struct parts {
    expr re, im;
};

static struct parts parts_of(expr x) {
    return (struct parts){RE(x), IM(x)};
}

static expr multiply(struct parts a, struct parts b) {
    return COMPLEX(SUB(MUL(a.re, b.re), MUL(a.im, b.im)), ADD(MUL(a.re, b.im), MUL(a.im, b.re)));
}

// Division --------------------------------------------------------------------------------------------------

static expr with_sign_of(expr size, expr x) {
    return AS_F32(OR(AS_U32(size), AND(AS_U32(x), U32(0x80000000))));
}

static expr is_infinite(expr x) {
    return EQ(ABS(x), F32(1.0 / 0.0));
}
static expr is_finite(expr x) {
    return LT(ABS(x), F32(1.0 / 0.0));
}

// Returns 1 / 2^e for the exponent e of size: a power of two that scales size into [1, 2), or close to it if
// it is tiny or huge.
static expr scale_of(expr size) {
    expr exponent = AND(AS_U32(size), U32(0x7f800000));
    expr bounded = MIN(MAX(exponent, U32(0x00800000)), U32(0x7e800000));
    return AS_F32(SUB(U32(0x7f000000), bounded));
}

static expr unit_if_infinite(expr x) {
    return with_sign_of(SELECT(is_infinite(x), F32(1), F32(0)), x);
}

// Return a / b in the special cases of C's annex G: division by zero gives an infinity, by an infinity zero.
static struct parts divide_by_zero(struct parts a, struct parts b) {
    expr infinity = with_sign_of(F32(1.0 / 0.0), b.re);
    return (struct parts){MUL(infinity, a.re), MUL(infinity, a.im)};
}

static struct parts divide_by_infinity(struct parts a, struct parts b) {
    struct parts unit = {unit_if_infinite(b.re), unit_if_infinite(b.im)};
    return (struct parts){MUL(F32(0), ADD(MUL(a.re, unit.re), MUL(a.im, unit.im))),
                          MUL(F32(0), SUB(MUL(a.im, unit.re), MUL(a.re, unit.im)))};
}

static struct parts choose(expr mask, struct parts a, struct parts b) {
    return (struct parts){SELECT(mask, a.re, b.re), SELECT(mask, a.im, b.im)};
}

static expr divide(struct parts a, struct parts b) {
    expr scale = scale_of(MAX(ABS(b.re), ABS(b.im)));
    struct parts s = {MUL(b.re, scale), MUL(b.im, scale)};
    expr norm = ADD(MUL(s.re, s.re), MUL(s.im, s.im));
    struct parts usual = {MUL(DIV(ADD(MUL(a.re, s.re), MUL(a.im, s.im)), norm), scale),
                          MUL(DIV(SUB(MUL(a.im, s.re), MUL(a.re, s.im)), norm), scale)};
    expr by_zero = EQ(norm, F32(0));
    expr by_infinity = AND(OR(is_infinite(b.re), is_infinite(b.im)), AND(is_finite(a.re), is_finite(a.im)));
    struct parts q = choose(by_infinity, divide_by_infinity(a, b), usual);
    q = choose(by_zero, divide_by_zero(a, b), q);
    return COMPLEX(q.re, q.im);
}

// Comparison: lexicographic ---------------------------------------------------------------------------------

static expr equal(struct parts a, struct parts b) {
    return AND(EQ(a.re, b.re), EQ(a.im, b.im));
}

static expr before(struct parts a, struct parts b, expr last) {
    return OR(LT(a.re, b.re), AND(EQ(a.re, b.re), last));
}

static expr less(struct parts a, struct parts b) {
    return before(a, b, LT(a.im, b.im));
}

static expr is_nan(struct parts a) {
    return OR(NE(a.re, a.re), NE(a.im, a.im));
}

// Returns a if it is NaN, else b if it is NaN or b_wins, else a.
static expr extreme(expr a, expr b, expr b_wins) {
    return SELECT(AND(NOT(is_nan(parts_of(a))), OR(is_nan(parts_of(b)), b_wins)), b, a);
}

// -----------------------------------------------------------------------------------------------------------

static expr lower_unary(enum tile_op op, expr x) {
    struct parts p = parts_of(x);
    return op == TILE_NEG ? COMPLEX(NEG(p.re), NEG(p.im)) : NULL;
}

expr tile_lower_complex(enum tile_op op, expr a, expr b) {
    if (!tile_is_c64(a))
        return NULL;
    if (tile_op_arity(op) == 1)
        return lower_unary(op, a);
    if (tile_op_arity(op) != 2 || !tile_is_c64(b))
        return NULL;
    struct parts p = parts_of(a), q = parts_of(b);
    switch (op) {
    case TILE_ADD: return COMPLEX(ADD(p.re, q.re), ADD(p.im, q.im));
    case TILE_SUB: return COMPLEX(SUB(p.re, q.re), SUB(p.im, q.im));
    case TILE_MUL: return multiply(p, q);
    case TILE_DIV: return divide(p, q);
    case TILE_EQ: return equal(p, q);
    case TILE_NE: return NOT(equal(p, q));
    case TILE_LT: return less(p, q);
    case TILE_LE: return before(p, q, LE(p.im, q.im));
    case TILE_MAX: return extreme(a, b, less(p, q));
    case TILE_MIN: return extreme(a, b, less(q, p));
    default: return NULL;
    }
}
