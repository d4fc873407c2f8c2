// arithmetic.c - computes base ops on values. It defines the results that every target has to give.

#include "tile/tile.h"

#include <math.h>

typedef union tile_value value;

static value truth(bool b) {
    return (value){.u = b};
}
static value number(struct tile_type type, double f) {
    return (value){.f = tile_round(type, f)};
}

static value wrapped(struct tile_type type, uint64_t u) {
    int unused = 64 - type.bits;
    return type.kind == TILE_INT ? (value){.i = (int64_t)(u << unused) >> unused}
                                 : (value){.u = u << unused >> unused};
}

// Floating point --------------------------------------------------------------------------------------------

// Returns the larger number; NaN if one of them is NaN. -0 is less than 0.
static double larger(double a, double b) {
    if (isnan(a) || a > b)
        return a;
    return a == b && signbit(b) ? a : b;
}

static double fused(struct tile_type type, const value *arg) {
    if (type.bits == 64)
        return fma(arg[0].f, arg[1].f, arg[2].f);
    return fmaf((float)arg[0].f, (float)arg[1].f, (float)arg[2].f);
}

// Computes in f64 and then rounds. For + - * / and sqrt of numbers with at most 24 bits, that equals rounding
// once.
static value apply_float(enum tile_op op, struct tile_type type, const value *arg) {
    const double a = arg[0].f;
    switch (op) {
    case TILE_NEG: return (value){.f = -a};
    case TILE_ABS: return (value){.f = fabs(a)};
    case TILE_SQRT: return number(type, sqrt(a));
    case TILE_FLOOR: return (value){.f = floor(a)};
    case TILE_CEIL: return (value){.f = ceil(a)};
    case TILE_RINT: return (value){.f = rint(a)};
    case TILE_TRUNC: return (value){.f = trunc(a)};
    case TILE_ADD: return number(type, a + arg[1].f);
    case TILE_SUB: return number(type, a - arg[1].f);
    case TILE_MUL: return number(type, a * arg[1].f);
    case TILE_DIV: return number(type, a / arg[1].f);
    case TILE_MAX: return (value){.f = larger(a, arg[1].f)};
    case TILE_MIN: return (value){.f = -larger(-a, -arg[1].f)};
    case TILE_FMA: return number(type, fused(type, arg));
    case TILE_EQ: return truth(a == arg[1].f);
    case TILE_NE: return truth(a != arg[1].f);
    case TILE_LT: return truth(a < arg[1].f);
    case TILE_LE: return truth(a <= arg[1].f);
    default: return (value){.f = a}; // conjugate, real part
    }
}

// Integers and bool -----------------------------------------------------------------------------------------

static bool is_less(struct tile_type from, value a, value b) {
    return from.kind == TILE_INT ? a.i < b.i : a.u < b.u;
}

static uint64_t floor_divide(struct tile_type from, value a, value b) {
    if (b.u == 0)
        return 0;
    if (from.kind != TILE_INT)
        return a.u / b.u;
    if (b.i == -1)
        return 0 - a.u; // the most negative number wraps
    return (uint64_t)(a.i / b.i - (a.i % b.i != 0 && (a.i < 0) != (b.i < 0)));
}

static uint64_t shift_left(struct tile_type from, value a, value b) {
    return b.u < from.bits ? a.u << b.u : 0; // a negative count is a huge b.u
}

static uint64_t shift_right(struct tile_type from, value a, value b) {
    if (from.kind == TILE_INT)
        return (uint64_t)(a.i >> (b.u < from.bits ? b.u : 63));
    return b.u < from.bits ? a.u >> b.u : 0;
}

// Computes bool as an integer of one bit, except that 1 + 1 is 1.
static value apply_integer(enum tile_op op, struct tile_type from, const value *arg) {
    const value a = arg[0], *b = arg + 1; // not valid if the op has one operand
    switch (op) {
    case TILE_NEG: return wrapped(from, 0 - a.u);
    case TILE_ABS: return wrapped(from, from.kind == TILE_INT && a.i < 0 ? 0 - a.u : a.u);
    case TILE_NOT: return wrapped(from, ~a.u);
    case TILE_ADD: return wrapped(from, from.kind == TILE_BOOL ? a.u | b->u : a.u + b->u);
    case TILE_SUB: return wrapped(from, a.u - b->u);
    case TILE_MUL: return wrapped(from, a.u * b->u);
    case TILE_FLOORDIV: return wrapped(from, floor_divide(from, a, *b));
    case TILE_REM: return wrapped(from, a.u - b->u * floor_divide(from, a, *b));
    case TILE_MAX: return is_less(from, a, *b) ? *b : a;
    case TILE_MIN: return is_less(from, *b, a) ? *b : a;
    case TILE_EQ: return truth(a.u == b->u);
    case TILE_NE: return truth(a.u != b->u);
    case TILE_LT: return truth(is_less(from, a, *b));
    case TILE_LE: return truth(!is_less(from, *b, a));
    case TILE_AND: return wrapped(from, a.u & b->u);
    case TILE_OR: return wrapped(from, a.u | b->u);
    case TILE_XOR: return wrapped(from, a.u ^ b->u);
    case TILE_SHL: return wrapped(from, shift_left(from, a, *b));
    case TILE_SHR: return wrapped(from, shift_right(from, a, *b));
    default: return a; // rounding ops, conjugate, real part
    }
}

// -----------------------------------------------------------------------------------------------------------

union tile_value tile_apply(enum tile_op op, struct tile_type type, struct tile_type from,
                            const union tile_value *arg) {
    switch (op) {
    case TILE_SELECT:
    case TILE_RARE: return arg[0].b ? arg[1] : arg[2];
    case TILE_EXP2: return number(type, exp2(arg[0].f));
    case TILE_CAST: return tile_convert(type, from, arg[0]);
    case TILE_BITCAST: return tile_value_of(type, tile_bits_of(from, arg[0]));
    case TILE_RE: return (value){.f = arg[0].c.re};
    case TILE_IM: return (value){.f = arg[0].c.im};
    case TILE_PAIR: return (value){.c = {(float)arg[0].f, (float)arg[1].f}};
    default: return tile_type_is_float(from) ? apply_float(op, type, arg) : apply_integer(op, from, arg);
    }
}
