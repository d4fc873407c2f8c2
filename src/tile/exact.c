// exact.c - formulas for ops that a target lacks, or does not round correctly, in ops that it has. A formula
// gives the same bits as the op rounded once to nearest, so a target may use it wherever it has to.

#include "tile/notation.h"

static expr constant(expr like, double value) {
    return like ? tile_const(like->type, value) : NULL;
}

static expr is_negative(expr x) {
    return tile_is_f32(x) ? LT(AS_I32(x), I32(0)) : LT(AS_I64(x), I64(0));
}

// Sums and products -----------------------------------------------------------------------------------------

// Return the rounding error of a sum (Knuth's TwoSum) or of a product (Dekker's product): the exact value is
// the result + the error.
static expr rest_of_sum(expr a, expr b, expr sum) {
    expr of_b = SUB(sum, a), of_a = SUB(sum, of_b);
    return ADD(SUB(a, of_a), SUB(b, of_b));
}

// Returns x rounded to half its digits (Veltkamp's splitting); the difference to x has the other half.
static expr upper_half(expr x) {
    expr scaled = MUL(x, constant(x, tile_is_f32(x) ? 0x1p12 + 1 : 0x1p27 + 1));
    return SUB(scaled, SUB(scaled, x));
}

static expr rest_of_product(expr a, expr b, expr product) {
    expr a_high = upper_half(a), b_high = upper_half(b), a_low = SUB(a, a_high), b_low = SUB(b, b_high);
    expr rest = ADD(SUB(MUL(a_high, b_high), product), MUL(a_high, b_low));
    return ADD(ADD(rest, MUL(a_low, b_high)), MUL(a_low, b_low));
}

// Returns the exact sum + rest rounded to odd: if rest is not 0 and the last digit of `sum` is even, that is
// the neighbour of `sum` on the side of the exact value. If that is rounded again, in a sum or to fewer
// digits, the result is the exact value rounded once.
static expr round_to_odd(expr sum, expr rest) {
    bool is_wide = tile_is_f64(sum);
    expr bits = is_wide ? AS_U64(sum) : AS_U32(sum), zero = constant(rest, 0);
    expr one = is_wide ? U64(1) : U32(1), minus = is_wide ? U64(UINT64_MAX) : U32(UINT32_MAX);
    expr is_even = EQ(AND(bits, one), is_wide ? U64(0) : U32(0));
    expr moves = AND(OR(LT(rest, zero), GT(rest, zero)), is_even);
    expr next = ADD(bits, SELECT(XOR(is_negative(sum), is_negative(rest)), minus, one));
    return SELECT(moves, is_wide ? AS_F64(next) : AS_F32(next), sum);
}

// The product of two f32 is exact in f64.
expr tile_fma_in_f64(const expr *x) {
    expr product = MUL(TO_F64(x[0]), TO_F64(x[1])), c = TO_F64(x[2]), sum = ADD(product, c);
    return TO_F32(round_to_odd(sum, rest_of_sum(product, c, sum)));
}

// The algorithm of Boldo and Melquiond, which emulates fma by rounding to odd: the exact result is a sum of
// three parts, and the two small ones are added with rounding to odd. Where an intermediate value overflows
// and the result is NaN, the plain product and sum are close enough.
expr tile_fma_in_parts(const expr *x) {
    expr c = x[2], product = MUL(x[0], x[1]), low = rest_of_product(x[0], x[1], product);
    expr first = ADD(c, low), first_rest = rest_of_sum(c, low, first);
    expr second = ADD(product, first), second_rest = rest_of_sum(product, first, second);
    expr small = ADD(first_rest, second_rest);
    expr exact = ADD(second, round_to_odd(small, rest_of_sum(first_rest, second_rest, small)));
    return SELECT(NE(exact, exact), ADD(product, c), exact);
}

// Quotients -------------------------------------------------------------------------------------------------

// Returns whether the exponent of an f32, with its bias, is in least .. least + count - 1.
static expr exponent_within(expr x, uint32_t least, uint32_t count) {
    expr exponent = AND(AS_U32(x), U32(0x7f800000));
    return LT(SUB(exponent, U32(least << 23)), U32(count << 23));
}

// Markstein's division: approximates 1 / b and a / b, and corrects both by fma with their residuals, 1 - b *
// inverse and a - b * quotient; the last correction rounds as the quotient itself does. Where exponents are
// such that an intermediate value could leave the range of f32, it divides in f64.
expr tile_quotient(const expr *x) {
    expr a = x[0], b = x[1], minus = NEG(b), about = DIV(F32(1), b);
    expr inverse = FMA(about, FMA(minus, about, F32(1)), about), quotient = MUL(a, inverse);
    for (int i = 0; i < 2; i++)
        quotient = FMA(inverse, FMA(minus, quotient, a), quotient);
    expr fits = AND(exponent_within(a, 63, 128), exponent_within(b, 67, 120));
    return RARE(NOT(fits), TO_F32(DIV(TO_F64(a), TO_F64(b))), quotient);
}

// Floats of 16 bits, as words of 32 that hold their bits ----------------------------------------------------

// A subnormal f16 is a whole number times 2^-24.
expr tile_from_half(const expr *x) {
    expr rest = AND(*x, U32(0x7fff)), sign = SHL(AND(*x, U32(0x8000)), U32(16)), wide = SHL(rest, U32(13));
    expr small = AS_U32(MUL(TO_F32(rest), F32(0x1p-24)));
    expr quiet = SELECT(GT(rest, U32(0x7c00)), U32(0x400000), U32(0));
    expr bits = SELECT(LT(rest, U32(0x400)), small, ADD(wide, U32(112u << 23)));
    bits = SELECT(GE(rest, U32(0x7c00)), OR(OR(wide, U32(0x7f800000)), quiet), bits);
    return AS_F32(OR(bits, sign));
}

// Numbers below the normal range of f16 are rounded by adding 0.5: the last digit of the sum has the value
// 2^-24, as has that of a subnormal f16.
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
