// division.c - the formulas of floor_divide, remainder and quotient (the rows' `lower` column).
//
// The remainder of floats is exact for all operands. While the quotient has no more bits than a mantissa, one
// rounded division and one fma give it. For larger quotients, a = x 2^i and b = m 2^j with whole x and m, and
// the remainder is 2^j times the remainder of x 2^(i - j) modulo m. The power of two is computed by repeated
// squaring modulo m; products of two floats are exact as a sum of two floats, of which fma gives the second.
// There is no loop over the bits of the quotient, so that targets can compute the formula in vectors.

#include "tile/notation.h"

#include <math.h>

static expr constant(expr like, double value) {
    return like ? tile_const(like->type, value) : NULL;
}

expr lower_floor_divide(expr a, expr b) {
    if (a && tile_type_is_bool(a->type))
        return AND(a, b);
    return a && tile_type_is_float(a->type) ? FLOOR(DIV(a, b)) : NULL;
}

// Bits of floats --------------------------------------------------------------------------------------------

static int fraction_bits(expr x) {
    return tile_is_f32(x) ? 23 : 52;
}

static int64_t bias(expr x) {
    return tile_is_f32(x) ? 127 : 1023;
}

static expr bits(expr x) {
    return tile_is_f32(x) ? AS_U32(x) : AS_U64(x);
}

static expr from_bits(expr u) {
    return u && u->type.bits == 32 ? AS_F32(u) : AS_F64(u);
}

static expr whole(expr like, uint64_t value) {
    return like ? tile_const_int(like->type, (int64_t)value) : NULL;
}

static expr sign_bit(expr x) {
    return whole(bits(x), tile_is_f32(x) ? UINT64_C(1) << 31 : UINT64_C(1) << 63);
}

// Returns x with its sign bit flipped where that bit is set in `sign`.
static expr flipped(expr x, expr sign) {
    return from_bits(XOR(bits(x), sign));
}

// Return, for a normal positive x: its exponent with the bias; the largest power of two that is at most x;
// and its mantissa as a whole number.
static expr exponent(expr x) {
    return SHR(bits(x), whole(bits(x), (uint64_t)fraction_bits(x)));
}

static expr power_below(expr x) {
    expr shift = whole(bits(x), (uint64_t)fraction_bits(x));
    return from_bits(SHL(exponent(x), shift));
}

static expr mantissa(expr x) {
    expr fraction = whole(bits(x), (UINT64_C(1) << fraction_bits(x)) - 1);
    expr unit = whole(bits(x), (uint64_t)(bias(x) + fraction_bits(x)) << fraction_bits(x));
    return from_bits(OR(AND(bits(x), fraction), unit));
}

// Returns 2^e as a float like `like`; e is an unsigned integer of the same width.
static expr power_of_two(expr like, expr e) {
    return from_bits(SHL(ADD(e, whole(e, (uint64_t)bias(like))), whole(e, (uint64_t)fraction_bits(like))));
}

// Modulo m --------------------------------------------------------------------------------------------------

// m is a whole number with as many bits as a mantissa. Residues are whole and centred: at most m / 2 in
// magnitude. A product of two residues divided by m then has two bits less than a mantissa, and differences
// are below m.

// Returns the centred residue of a whole r, which is at most m in magnitude.
static expr centred(expr r, expr m) {
    expr half = MUL(m, constant(m, 0.5));
    return SELECT(LT(half, r), SUB(r, m), SELECT(LT(r, NEG(half)), ADD(r, m), r));
}

static expr nearest_quotient(expr a, expr b) {
    return RINT(DIV(a, b));
}

// Returns a - quotient * b for the quotient of nearest_quotient. It is exact while the quotient is below 2^24
// (f64: 2^53) and b is finite: even where the rounded division chose the farther of two whole numbers, the
// result is less than b in magnitude and representable.
static expr nearest_remainder(expr a, expr b, expr quotient) {
    return FMA(quotient, NEG(b), a);
}

// Returns the residue of x * y, which equals high + low exactly.
static expr residue_of_product(expr x, expr y, expr m) {
    expr high = MUL(x, y), low = FMA(x, y, NEG(high));
    return centred(ADD(nearest_remainder(high, m, nearest_quotient(high, m)), low), m);
}

// Returns the residue of 2^k. It starts with the power for the upper bits of k, which is below 2^40 (f64:
// 2^66), and squares once for each of the 3 (f64: 5) remaining bits.
static expr residue_of_power(expr k, expr m) {
    int rest = tile_is_f32(m) ? 3 : 5;
    expr start = power_of_two(m, SHR(k, whole(k, (uint64_t)rest)));
    expr y = centred(nearest_remainder(start, m, nearest_quotient(start, m)), m);
    for (int i = rest - 1; i >= 0; i--) {
        expr bit = AND(SHR(k, whole(k, (uint64_t)i)), whole(k, 1));
        y = residue_of_product(y, y, m);
        y = centred(SELECT(NE(bit, whole(k, 0)), ADD(y, y), y), m);
    }
    return y;
}

// Remainders ------------------------------------------------------------------------------------------------

// Returns a remainder of a and b > 0 for a quotient of any size: a itself if it is less than b in magnitude,
// else a number of at most b / 2 in magnitude. It is NaN for an infinite a and for b = 0. A subnormal b is
// scaled to a normal number; a need not be, as it is normal wherever the quotient is large.
static expr remainder_of_any(expr a, expr b) {
    int scale = fraction_bits(a) + 1;
    expr size = ABS(a), zero = constant(a, 0), u = bits(a);
    expr is_tiny = LT(b, constant(b, tile_is_f32(b) ? 0x1p-126 : 0x1p-1022));
    expr n = MUL(b, SELECT(is_tiny, power_of_two(b, whole(u, (uint64_t)scale)), constant(b, 1)));
    expr m = mantissa(n);
    expr k = ADD(SUB(exponent(size), exponent(n)), SELECT(is_tiny, whole(u, (uint64_t)scale), whole(u, 0)));
    expr r = residue_of_product(centred(SUB(mantissa(size), m), m), residue_of_power(k, m), m);
    r = MUL(MUL(r, constant(r, tile_is_f32(r) ? 0x1p-23 : 0x1p-52)), power_below(n));
    r = MUL(r, SELECT(is_tiny, constant(r, tile_is_f32(r) ? 0x1p-24 : 0x1p-53), constant(r, 1)));
    r = SELECT(LT(size, b), a, flipped(r, AND(u, sign_bit(a))));
    return SELECT(AND(LT(size, constant(a, 1.0 / 0.0)), LT(zero, b)), r, constant(a, NAN));
}

// Returns whether the remainder r is exact: whether the quotient is below the limit and r is not NaN, as it
// is for an infinite b.
static expr is_exact_below(expr quotient, expr r, double limit) {
    return AND(LT(ABS(quotient), constant(quotient, limit)), EQ(r, r));
}

// Returns a remainder of a and b >= 0 that is near zero: less than b in magnitude, with either sign.
static expr small_remainder(expr a, expr b) {
    expr quotient = nearest_quotient(a, b), r = nearest_remainder(a, b, quotient);
    expr is_exact = is_exact_below(quotient, r, tile_is_f32(a) ? 0x1p24 : 0x1p53);
    return RARE(NOT(is_exact), remainder_of_any(a, b), r);
}

// If b is negative, computes with -a and -b and negates the result. A zero remainder has the sign of b too,
// as in NumPy.
static expr remainder_of_floats(expr a, expr b) {
    expr zero = constant(a, 0), sign = AND(bits(b), sign_bit(b)), size = ABS(b);
    expr r = small_remainder(flipped(a, sign), size);
    return flipped(ADD(r, SELECT(LT(r, zero), size, zero)), sign);
}

expr lower_remainder(expr a, expr b) {
    if (a && tile_type_is_bool(a->type))
        return AND(a, NOT(b));
    return a && tile_type_is_float(a->type) ? remainder_of_floats(a, b) : NULL;
}

// Returns the quotient as NumPy's divmod computes it, for b >= 0 and any remainder r of a and b: a minus the
// remainder that has the sign of a, divided by b, less 1 if that remainder is negative, and rounded to the
// nearest whole number. For b = 0 it is a / b.
static expr rounded_quotient(expr a, expr b, expr r) {
    expr zero = constant(a, 0), one = constant(a, 1), is_below = LT(a, zero);
    expr is_other = AND(NE(r, zero), NE(LT(r, zero), is_below));
    expr rest = SELECT(is_other, ADD(r, SELECT(is_below, NEG(b), b)), r); // with the sign of a
    expr q = DIV(SUB(a, rest), b);
    q = SELECT(LT(rest, zero), SUB(q, one), q);
    expr down = FLOOR(q), near = SELECT(LT(constant(a, 0.5), SUB(q, down)), ADD(down, one), down);
    return SELECT(EQ(b, zero), DIV(a, b), SELECT(EQ(q, zero), MUL(a, zero), near));
}

// A quotient with at least three bits less than a mantissa is known exactly, and NumPy's formula rounds to
// the same number.
expr lower_quotient(expr a, expr b) {
    if (!a || !b)
        return NULL;
    expr sign = AND(bits(b), sign_bit(b)), x = flipped(a, sign), size = ABS(b);
    expr q = nearest_quotient(x, size), r = nearest_remainder(x, size, q);
    expr down = SUB(q, SELECT(LT(r, constant(r, 0)), constant(q, 1), constant(q, 0)));
    expr is_exact = is_exact_below(q, r, tile_is_f32(a) ? 0x1p21 : 0x1p50);
    return RARE(NOT(is_exact), rounded_quotient(x, size, small_remainder(x, size)), down);
}
