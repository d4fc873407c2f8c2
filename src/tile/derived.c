// derived.c - helpers of the rows' `lower` column that are not transcendental: signs and powers. Division is
// in division.c.

#include "tile/math.h"
#include "tile/notation.h"

#include <math.h>

static expr constant(expr like, double value) {
    return like ? tile_const(like->type, value) : NULL;
}

expr lower_imag(expr x) {
    return tile_is_c64(x) ? IM(x) : constant(x, 0);
}

static expr sign_of_complex(expr x) {
    expr size = ABS(x), one = constant(size, 1);
    expr divisor = SELECT(EQ(size, constant(size, 0)), one, size);
    return COMPLEX(DIV(RE(x), divisor), DIV(IM(x), divisor));
}

// If x is neither negative nor positive, the result is |x|: 0 for both zeros, NaN for NaN.
expr lower_sign(expr x) {
    if (!x || tile_type_is_bool(x->type))
        return x;
    if (tile_is_c64(x))
        return sign_of_complex(x);
    expr zero = constant(x, 0), one = constant(x, 1);
    if (x->type.kind == TILE_UINT)
        return MIN(x, one);
    return SELECT(LT(x, zero), constant(x, -1), SELECT(LT(zero, x), one, ABS(x)));
}

// Powers ----------------------------------------------------------------------------------------------------

// Repeated squaring over all bits of the exponent: even the last square matters, because products wrap
// around. Most exponents have no more than the first COMMON bits; only larger ones need the rest.
static expr power_of_integers(expr a, expr b) {
    enum { COMMON = 4 };
    expr zero = constant(a, 0), one = constant(a, 1), result = one, square = a, common = NULL;
    bool is_signed = a->type.kind == TILE_INT;
    int bits = a->type.bits - is_signed;
    for (int i = 0; i < bits; i++) {
        expr bit = AND(SHR(b, tile_const_int(a->type, i)), one);
        common = i == COMMON ? result : common;
        result = SELECT(NE(bit, zero), MUL(result, square), result);
        square = MUL(square, square);
    }
    result = RARE(LT(constant(a, (1 << COMMON) - 1), b), result, common);
    if (!is_signed)
        return result;
    return SELECT(LT(b, zero), zero, result); // also for a = 1 and a = -1, as in MLX
}

// Returns exp(b log a); for a = 0, 1 if b = 0, 0 if b has a positive real part, else NaN.
static expr power_of_complex(expr a, expr b) {
    expr zero = constant(a, 0), one = constant(a, 1), none = F32(0);
    expr at_zero = SELECT(LT(none, RE(b)), zero, constant(a, NAN));
    expr power = SELECT(EQ(a, zero), at_zero, EXP(MUL(b, LOG(a))));
    return SELECT(EQ(b, zero), one, power);
}

// Squares and cubes are the most frequent powers, and need no logarithm.
static expr power_of_real(expr a, expr b) {
    expr two = EQ(b, tile_const(b->type, 2)), three = EQ(b, tile_const(b->type, 3)), square = MUL(a, a);
    return RARE(NOT(OR(two, three)), math_pow(a, b), SELECT(two, square, MUL(square, a)));
}

expr lower_power(expr a, expr b) {
    if (!a || !b)
        return NULL;
    if (tile_type_is_bool(a->type))
        return OR(a, NOT(b));
    if (tile_type_is_integer(a->type))
        return power_of_integers(a, b);
    return tile_is_c64(a) ? power_of_complex(a, b) : power_of_real(a, b);
}
