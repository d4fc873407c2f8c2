// exact.c - ops that a target rounds otherwise than once, to the nearest, or does not have, by those that it
// has. Their bits are those of the one op, so that a target may use them wherever it has to.

#include "tile/notation.h"

static expr constant(expr like, double value) {
    return like ? tile_const(like->type, value) : NULL;
}

static expr is_negative(expr x) {
    return tile_is_f32(x) ? LT(AS_I32(x), I32(0)) : LT(AS_I64(x), I64(0));
}

// Sums and products -----------------------------------------------------------------------------------------

// What rounding took from a sum or a product: their value is exactly result + rest.
static expr rest_of_sum(expr a, expr b, expr sum) {
    expr of_b = SUB(sum, a), of_a = SUB(sum, of_b);
    return ADD(SUB(a, of_a), SUB(b, of_b));
}

// x as a number of half its digits; the rest has the others.
static expr upper_half(expr x) {
    expr scaled = MUL(x, constant(x, tile_is_f32(x) ? 0x1p12 + 1 : 0x1p27 + 1));
    return SUB(scaled, SUB(scaled, x));
}

static expr rest_of_product(expr a, expr b, expr product) {
    expr a_high = upper_half(a), b_high = upper_half(b), a_low = SUB(a, a_high), b_low = SUB(b, b_high);
    expr rest = ADD(SUB(MUL(a_high, b_high), product), MUL(a_high, b_low));
    return ADD(ADD(rest, MUL(a_low, b_high)), MUL(a_low, b_low));
}

// A sum, given with its rest, as the neighbour with an odd last digit where there is a rest: what is added to
// it, or a rounding to fewer digits, then rounds as the exact sum would.
static expr round_to_odd(expr sum, expr rest) {
    bool is_wide = tile_is_f64(sum);
    expr bits = is_wide ? AS_U64(sum) : AS_U32(sum), zero = constant(rest, 0);
    expr one = is_wide ? U64(1) : U32(1), minus = is_wide ? U64(UINT64_MAX) : U32(UINT32_MAX);
    expr is_even = EQ(AND(bits, one), is_wide ? U64(0) : U32(0));
    expr moves = AND(OR(LT(rest, zero), GT(rest, zero)), is_even);
    expr next = ADD(bits, SELECT(XOR(is_negative(sum), is_negative(rest)), minus, one));
    return SELECT(moves, is_wide ? AS_F64(next) : AS_F32(next), sum);
}

// A product of f32 is exact in f64.
expr tile_fma_in_f64(const expr *x) {
    expr product = MUL(TO_F64(x[0]), TO_F64(x[1])), c = TO_F64(x[2]), sum = ADD(product, c);
    return TO_F32(round_to_odd(sum, rest_of_sum(product, c, sum)));
}

// Boldo and Melquiond's: of the parts, the small ones are added as an odd number. Where a part overflows, so
// that there is no number, the plain ops are close enough.
expr tile_fma_in_parts(const expr *x) {
    expr c = x[2], product = MUL(x[0], x[1]), low = rest_of_product(x[0], x[1], product);
    expr first = ADD(c, low), first_rest = rest_of_sum(c, low, first);
    expr second = ADD(product, first), second_rest = rest_of_sum(product, first, second);
    expr small = ADD(first_rest, second_rest);
    expr exact = ADD(second, round_to_odd(small, rest_of_sum(first_rest, second_rest, small)));
    return SELECT(NE(exact, exact), ADD(product, c), exact);
}

// Quotients -------------------------------------------------------------------------------------------------

// Whether the exponent of an f32, with its bias, is one of so many from `least` on.
static expr exponent_within(expr x, uint32_t least, uint32_t count) {
    expr exponent = AND(AS_U32(x), U32(0x7f800000));
    return LT(SUB(exponent, U32(least << 23)), U32(count << 23));
}

// Markstein's: an inverse and a quotient that fma corrects, by what is left of 1 and of a; the last
// correction rounds as the quotient does. Where exponents are such that something of it could leave the range
// of f32, in f64.
expr tile_quotient(const expr *x) {
    expr a = x[0], b = x[1], minus = NEG(b), about = DIV(F32(1), b);
    expr inverse = FMA(about, FMA(minus, about, F32(1)), about), quotient = MUL(a, inverse);
    for (int i = 0; i < 2; i++)
        quotient = FMA(inverse, FMA(minus, quotient, a), quotient);
    expr fits = AND(exponent_within(a, 63, 128), exponent_within(b, 67, 120));
    return RARE(NOT(fits), TO_F32(DIV(TO_F64(a), TO_F64(b))), quotient);
}

// Floats of 16 bits, as words of 32 that hold their bits ----------------------------------------------------

// Subnormal ones are whole numbers times 2^-24.
expr tile_from_half(const expr *x) {
    expr rest = AND(*x, U32(0x7fff)), sign = SHL(AND(*x, U32(0x8000)), U32(16)), wide = SHL(rest, U32(13));
    expr small = AS_U32(MUL(TO_F32(rest), F32(0x1p-24)));
    expr quiet = SELECT(GT(rest, U32(0x7c00)), U32(0x400000), U32(0));
    expr bits = SELECT(LT(rest, U32(0x400)), small, ADD(wide, U32(112u << 23)));
    bits = SELECT(GE(rest, U32(0x7c00)), OR(OR(wide, U32(0x7f800000)), quiet), bits);
    return AS_F32(OR(bits, sign));
}

// Small ones are rounded by adding 1/2, whose last digit is theirs.
expr tile_to_half(const expr *x) {
    expr all = AS_U32(*x), bits = AND(all, U32(0x7fffffff)), sign = AND(SHR(all, U32(16)), U32(0x8000));
    expr small = SUB(AS_U32(ADD(AS_F32(bits), F32(0.5))), U32(0x3f000000)), cut = SHR(bits, U32(13));
    expr nan = OR(AND(cut, U32(0x3ff)), U32(0x7e00));
    expr normal = SHR(ADD(bits, ADD(AND(cut, U32(1)), U32(0xfff - 0x38000000u))), U32(13));
    expr large = SELECT(GT(bits, U32(0x7f800000)), nan, U32(0x7c00));
    expr result = SELECT(LT(bits, U32(0x38800000)), small, normal);
    return OR(SELECT(GE(bits, U32(0x47800000)), large, result), sign);
}

expr tile_to_brain(const expr *x) {
    expr bits = AS_U32(*x), last = AND(SHR(bits, U32(16)), U32(1));
    expr rounded = ADD(ADD(bits, U32(0x7fff)), last);
    return SHR(SELECT(NE(*x, *x), OR(bits, U32(0x400000)), rounded), U32(16));
}
