// math_f32.c - the transcendental functions of f32, each written once as an expression.
//
// The formulas use f32, i32, u32 and bool only, no tables, and fma only in polynomials, where error bounds
// hold without it too (and in math_short_exp_f32). So every device uses the same formula. Polynomials are
// minimax fits (Remez, relative error, coefficients rounded one by one and the rest refitted). The comment in
// front of their coefficients has the function that is fitted, its variable if that is not r or x itself, the
// range, and the error of the fit. Sums are ordered so that the large exact term comes last: every error is
// below 3 ulp.

#include "tile/math.h"
#include "tile/notation.h"

#define POLY(x, c)  math_polynomial(x, c, (int)(sizeof(c) / sizeof *(c)))
#define STEPS(x, c) math_polynomial_by_steps(x, c, (int)(sizeof(c) / sizeof *(c)))

static const double infinity = 1.0 / 0.0;
static const double round_bias = 0x1.8p23; // adding it rounds to an integer, which is then in the low bits
static const double log2_e = 1.44269502, ln2_hi = 0.693145752, ln2_lo = 1.42860677e-06;
static const double half_pi_hi = 1.57079637, half_pi_lo = -4.37113883e-08;
static const double pi_hi = 3.14159274, pi_lo = -8.74227766e-08;

struct pair {
    expr hi, lo;
};

static expr nan_f32(void) {
    return AS_F32(U32(0x7fc00000));
}

static expr sign_bit(expr x) {
    return AND(AS_U32(x), U32(0x80000000));
}

// Returns y >= 0 with the sign of x. Odd functions end with it, which also keeps -0.
static expr with_sign(expr y, expr x) {
    return AS_F32(OR(AS_U32(y), sign_bit(x)));
}

static expr flip_sign(expr y, expr bit) {
    return AS_F32(XOR(AS_U32(y), bit));
}

static expr zero_as_is(expr x, expr y) {
    return SELECT(EQ(x, F32(0)), x, y);
}

// Arithmetic with unevaluated sums hi + lo ------------------------------------------------------------------

static struct pair fast_sum(expr a, expr b) {
    expr s = ADD(a, b);
    return (struct pair){s, ADD(SUB(a, s), b)};
}

static expr upper_half(expr x) {
    return AS_F32(AND(AS_U32(x), U32(0xfffff000)));
}

// Returns a * b exactly, as a sum of two floats (Dekker): the halves have 12 bits, so their products are
// exact.
static struct pair product(expr a, expr b) {
    expr ah = upper_half(a), bh = upper_half(b), al = SUB(a, ah), bl = SUB(b, bh), p = MUL(a, b);
    expr e = ADD(ADD(SUB(MUL(ah, bh), p), MUL(ah, bl)), MUL(al, bh));
    return (struct pair){p, ADD(e, MUL(al, bl))};
}

static struct pair product_pair(struct pair a, struct pair b) {
    struct pair p = product(a.hi, b.hi);
    return (struct pair){p.hi, ADD(p.lo, ADD(MUL(a.hi, b.lo), MUL(a.lo, b.hi)))};
}

// Exponentials ----------------------------------------------------------------------------------------------

static const double exp_c[] = {
    // (e^r - 1 - r)/r^2, |r| <= ln2/2: 2^-28.2
    0.49999994, 0.166665137, 0.0416680612, 0.00836954638, 0.00138437015,
};

// The reduction x = k ln2 + hi - lo. k * ln2_hi is exact (8 + 16 bits). The low bits of `bits` hold k + bias;
// n is k as a float.
struct exponent {
    expr bits, n, hi, lo;
};

static struct exponent split_exponent(expr x, int bias) {
    expr magic = F32(round_bias + bias), t = ADD(MUL(x, F32(log2_e)), magic), n = SUB(t, magic);
    return (struct exponent){AS_I32(t), n, SUB(x, MUL(n, F32(ln2_hi))), MUL(n, F32(ln2_lo))};
}

static expr exp_tail(expr r) {
    return MUL(MUL(POLY(r, exp_c), r), r);
}

// Returns y 2^k for bits = k + 254. It multiplies by two factors, so that neither overflows or underflows
// before the product does.
static expr scale(expr y, expr bits) {
    expr half = SHR(bits, I32(1)), rest = SUB(bits, half), to = I32(23);
    return MUL(MUL(y, AS_F32(SHL(half, to))), AS_F32(SHL(rest, to)));
}

static expr exp_reduced(expr r, expr bits) {
    return scale(ADD(ADD(exp_tail(r), r), F32(1)), bits);
}

// Returns e^x 2^shift for an x that was clamped.
static expr exp_clamped(expr x, int shift) {
    struct exponent e = split_exponent(x, 254 + shift);
    return exp_reduced(SUB(e.hi, e.lo), e.bits);
}

expr math_exp_f32(expr x) {
    return exp_clamped(MIN(MAX(x, F32(-104)), F32(89)), 0);
}

static const double exp2_c[] = {
    // (2^r - 1)/r, |r| <= 1/2: 2^-26.3
    0.693147182, 0.240225941, 0.0555036627, 0.00962544419, 0.0013387925, 0.00013333137,
};

// Splits an x that was clamped: x - rint(x) is exact, and rint(x) + 254 is in the low bits of the second
// part.
static struct pair split_exponent2(expr x) {
    expr magic = F32(round_bias + 254), t = ADD(x, magic);
    return (struct pair){SUB(x, SUB(t, magic)), AS_I32(t)};
}

static expr exp2_reduced(expr r, expr bits) {
    return scale(ADD(MUL(POLY(r, exp2_c), r), F32(1)), bits);
}

expr math_exp2_f32(expr x) {
    struct pair e = split_exponent2(MIN(MAX(x, F32(-151)), F32(129)));
    return exp2_reduced(e.hi, e.lo);
}

static const double quick_exp2_c[] = {
    // 2^r, |r| <= 1/2: 2^-26.3; 2^-16 up to r = 1
    1, 0.693147182, 0.240225941, 0.0555036627, 0.00962544419, 0.0013387925, 0.00013333137,
};

// Computes 2^t (1 + s ln2), where t + s = x / ln2.
expr math_short_exp_f32(expr x, bool is_rough) {
    const double rest = 1.92596299e-08; // 1 / ln2 less log2_e
    if (is_rough)
        return tile_unary(TILE_EXP2, MUL(x, F32(log2_e)));
    x = MIN(MAX(x, F32(-110)), F32(100));
    expr t = MUL(x, F32(log2_e));
    expr s = FMA(x, F32(rest), FMA(x, F32(log2_e), NEG(t)));
    expr y = tile_unary(TILE_EXP2, t);
    return FMA(y, MUL(s, F32(0.693147182)), y);
}

// Multiplies by one factor 2^k, with k from -127, where the factor is 0, to 127. For larger x, r grows until
// the product overflows.
expr math_quick_exp2_f32(expr x) {
    expr least = MAX(x, F32(-127)), magic = F32(round_bias + 127), t = ADD(MIN(least, F32(127)), magic);
    return MUL(POLY(SUB(least, SUB(t, magic)), quick_exp2_c), AS_F32(SHL(AS_I32(t), I32(23))));
}

// Returns (e^x - 1)/2 for x away from 0, where k != 0. It is half of the result, so that only the doubling
// overflows.
static expr expm1_half(struct exponent e, expr tail) {
    expr s = AS_F32(SHL(e.bits, I32(23)));
    return ADD(ADD(MUL(s, e.hi), SUB(s, F32(0.5))), MUL(s, tail));
}

static expr expm1_clamped(expr x) {
    struct exponent e = split_exponent(x, 126);
    expr tail = SUB(exp_tail(SUB(e.hi, e.lo)), e.lo), half = expm1_half(e, tail);
    return SELECT(EQ(e.n, F32(0)), ADD(x, tail), ADD(half, half));
}

expr math_expm1_f32(expr x) {
    return with_sign(expm1_clamped(MIN(MAX(x, F32(-30)), F32(89))), x);
}

static const double tanh_c[] = {
    // (tanh(x)/x - 1)/x^2 in x^2, |x| <= 0.625: 2^-27.8 of tanh(x)/x
    -0.333332819, 0.133314422, -0.0537397133, 0.020639081, -0.00570497965,
};
static const double tanh_exp2_c[] = {
    // 2^f, |f| <= 0.5: 2^-23.4
    1, 0.693146978, 0.240222421, 0.0555073374, 0.00967151265, 0.00132647271,
};

// Near 0 the last step is a sum and not an fma, because some GPUs' fma makes 0 of subnormal numbers.
// Elsewhere it is 1 - 2/(e^2|x| + 1): the quotient is small, so that the power need not be exact. From |x| =
// 9.02 on the result is 1.
expr math_tanh_f32(expr x) {
    expr a = ABS(x), s = MUL(a, a), near = ADD(MUL(MUL(POLY(s, tanh_c), s), a), a);
    expr t = MUL(MIN(a, F32(9.02)), F32(2 * log2_e)), magic = F32(round_bias + 127), n = ADD(t, magic);
    expr f = SUB(t, SUB(n, magic)), power = AS_F32(SHL(AS_I32(n), I32(23)));
    expr e = MUL(POLY(f, tanh_exp2_c), power);
    expr far = SUB(F32(1), DIV(F32(2), ADD(e, F32(1))));
    return with_sign(SELECT(LT(a, F32(0.625)), near, far), x);
}

// Computes from e^-|x|, which never overflows, so that the results for very negative x may be subnormal.
expr math_sigmoid_f32(expr x) {
    expr z = exp_clamped(MAX(NEG(ABS(x)), F32(-104)), 0);
    return DIV(SELECT(LT(x, F32(0)), z, F32(1)), ADD(z, F32(1)));
}

static expr half_exp(expr a) {
    return exp_clamped(MIN(a, F32(90)), -1);
}

static const double sinh_c[] = {
    // (sinh x - x)/x^3 in x^2, |x| <= 1: 2^-31.6
    0.166666672,
    0.00833331048,
    0.000198428956,
    2.78221319e-06,
};

expr math_sinh_f32(expr x) {
    expr a = ABS(x), z = MUL(x, x), e = half_exp(a);
    expr small = ADD(MUL(MUL(POLY(z, sinh_c), z), a), a);
    return with_sign(SELECT(LT(a, F32(1)), small, SUB(e, DIV(F32(0.25), e))), x);
}

expr math_cosh_f32(expr x) {
    expr e = half_exp(ABS(x));
    return ADD(e, DIV(F32(0.25), e));
}

// Logarithms ------------------------------------------------------------------------------------------------

static const double log_c[] = {
    // (log(1+f) - f)/f^2, sqrt(1/2) - 1 <= f <= sqrt(2) - 1: 2^-27.8
    -0.499999881, 0.333333224,  -0.250016093, 0.20002228,    -0.166086018,
    0.141761497,  -0.132412881, 0.129428595,  -0.0767531246,
};

// The split x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), of a positive normal x.
struct mantissa {
    expr e, f;
};

static struct mantissa split_normal(expr x) {
    expr e = SHR(SUB(AS_I32(x), I32(0x3f3504f3)), I32(23));
    return (struct mantissa){e, SUB(AS_F32(SUB(AS_I32(x), SHL(e, I32(23)))), F32(1))};
}

static struct mantissa split_mantissa(expr x) {
    expr tiny = LT(x, F32(0x1p-126));
    struct mantissa m = split_normal(SELECT(tiny, MUL(x, F32(0x1p24)), x));
    m.e = ADD(m.e, SELECT(tiny, I32(-24), I32(0)));
    return m;
}

static expr log_tail(expr f) {
    return MUL(MUL(POLY(f, log_c), f), f);
}

// Returns e ln2 + log(1 + f); e ln2_hi is exact.
static expr log_sum(struct mantissa m) {
    expr e = TO_F32(m.e), low = ADD(MUL(e, F32(ln2_lo)), log_tail(m.f));
    return ADD(MUL(e, F32(ln2_hi)), ADD(m.f, low));
}

static expr log_special(expr x, expr y) {
    y = SELECT(LT(x, F32(infinity)), y, x);
    return SELECT(GT(x, F32(0)), y, SELECT(EQ(x, F32(0)), F32(-infinity), nan_f32()));
}

expr math_log_f32(expr x) {
    return log_special(x, log_sum(split_mantissa(x)));
}

// f/ln2 = f + 0.4427 f: the larger part is exact.
expr math_log2_f32(expr x) {
    struct mantissa m = split_mantissa(x);
    expr low = ADD(MUL(m.f, F32(0.442695051)), MUL(log_tail(m.f), F32(log2_e)));
    return log_special(x, ADD(TO_F32(m.e), ADD(m.f, low)));
}

// f/ln10 = f/2 - 0.0657 f: the larger part is exact.
expr math_log10_f32(expr x) {
    struct mantissa m = split_mantissa(x);
    expr e = TO_F32(m.e), low = ADD(MUL(e, F32(-3.02435546e-06)), MUL(log_tail(m.f), F32(0.434294492)));
    low = ADD(MUL(m.f, F32(-0.0657055154)), low);
    return log_special(x, ADD(MUL(e, F32(0.30103302)), ADD(MUL(m.f, F32(0.5)), low)));
}

// Returns log(2^more (u + c)), where c is the rounding error of a sum that gave u. If e = 0, 1 + f + c is the
// sum before it was rounded.
static expr log_corrected(expr u, expr c, expr more) {
    struct mantissa m = split_normal(u);
    expr unit = AS_F32(SHL(MAX(SUB(I32(127), m.e), I32(0)), I32(23))); // 2^-e; 0 where c is negligible
    return log_sum((struct mantissa){ADD(m.e, more), ADD(m.f, MUL(c, unit))});
}

static expr log1p_finite(expr x) {
    expr u = ADD(x, F32(1));
    return log_corrected(u, SUB(x, SUB(u, F32(1))), I32(0));
}

expr math_log1p_f32(expr x) {
    expr y = SELECT(LT(x, F32(infinity)), log1p_finite(x), x);
    y = SELECT(GT(x, F32(-1)), y, SELECT(EQ(x, F32(-1)), F32(-infinity), nan_f32()));
    return zero_as_is(x, y);
}

static struct pair exact_sum(expr a, expr b) {
    expr s = ADD(a, b), t = SUB(s, a);
    return (struct pair){s, ADD(SUB(a, SUB(s, t)), SUB(b, t))};
}

// These two are for chips whose fma rounds twice and whose division errs by some ulp. The lower half of a
// small b would underflow, so b is scaled up and a down.
expr math_exact_fma_f32(expr a, expr b, expr c) {
    expr is_small = LT(ABS(b), F32(0x1p-60));
    a = MUL(a, SELECT(is_small, F32(0x1p-64), F32(1)));
    b = MUL(b, SELECT(is_small, F32(0x1p64), F32(1)));
    struct pair p = product(a, b), s = exact_sum(p.hi, c);
    return ADD(s.hi, ADD(s.lo, p.lo));
}

expr math_exact_div_f32(expr a, expr b) {
    expr q = DIV(a, b), r = math_exact_fma_f32(NEG(q), b, a);
    expr is_left = AND(LT(F32(0), ABS(r)), LT(ABS(r), F32(infinity)));
    return SELECT(is_left, ADD(q, DIV(r, b)), q);
}

// Returns max + log(1 + e^d). d = min - max keeps its rounding error, which e^d would magnify |d| times.
expr math_logaddexp_f32(expr a, expr b) {
    expr max = MAX(a, b), limit = F32(-104);
    struct pair d = exact_sum(MIN(a, b), NEG(max));
    expr lo = SELECT(GT(d.hi, limit), d.lo, F32(0));
    struct exponent e = split_exponent(MAX(SELECT(EQ(a, b), F32(0), d.hi), limit), 254); // avoids inf - inf
    return ADD(max, log1p_finite(exp_reduced(ADD(SUB(e.hi, e.lo), lo), e.bits)));
}

// Returns log(1 + w) for a moderate a. For a large one, whose w would be too coarse or overflow, returns
// log(2a).
static expr log1p_or_double(expr a, expr w) {
    expr large = GT(a, F32(0x1p13)), u = ADD(w, F32(1)), c = SUB(w, SUB(u, F32(1)));
    return log_corrected(SELECT(large, a, u), SELECT(large, F32(0), c), SELECT(large, I32(1), I32(0)));
}

// Computes log(1 + w), where w = |x| + sqrt(x^2 + 1) - 1 in a form without cancellation.
expr math_asinh_f32(expr x) {
    expr a = ABS(x), z = MUL(x, x), root = SQRT(ADD(z, F32(1)));
    expr y = log1p_or_double(a, ADD(a, DIV(z, ADD(root, F32(1)))));
    return with_sign(SELECT(LT(a, F32(infinity)), y, a), x);
}

expr math_acosh_f32(expr x) {
    expr t = SUB(x, F32(1)), w = ADD(t, SQRT(MUL(t, ADD(t, F32(2)))));
    expr y = SELECT(LT(x, F32(infinity)), log1p_or_double(x, w), x);
    return SELECT(LT(x, F32(1)), nan_f32(), y);
}

// Computes log(1 + w)/2, where w = 2a/(1-a) in a form whose rounding errors stay small for small a.
expr math_atanh_f32(expr x) {
    expr a = ABS(x), b = ADD(a, a), w = ADD(b, DIV(MUL(b, a), SUB(F32(1), a)));
    expr y = SELECT(LT(a, F32(1)), MUL(log1p_finite(w), F32(0.5)), F32(infinity));
    return with_sign(SELECT(LE(a, F32(1)), y, nan_f32()), x);
}

// Circular functions ----------------------------------------------------------------------------------------

static const double sin_c[] = {
    // (sin r - r)/r^3 in r^2, |r| <= pi/2: 2^-27.3
    -0.166666597,
    0.00833306927,
    -0.000198097739,
    2.60608158e-06,
};
static const double sin_quarter_c[] = {
    // the same function, |r| <= pi/4: 2^-27.9
    -0.166666552,
    0.00833218824,
    -0.000195180954,
};
static const double cos_quarter_c[] = {
    // (cos r - 1 + r^2/2)/r^4 in r^2, |r| <= pi/4: 2^-33.0
    0.0416666456,
    -0.00138873095,
    2.44323273e-05,
};

// Below this limit the argument is reduced as by Cody and Waite: pi is split into parts of 11 bits, whose
// products with the multiple (13 bits) are exact. Above it, infinity and NaN included, the fraction of a turn
// comes from the bits of 2/pi, as by Payne and Hanek.
static const double cody_limit = 12000;

static expr beyond(expr x) {
    return NOT(LT(ABS(x), F32(cody_limit)));
}

// Returns x - n pi as a pair; lo is still to be subtracted from hi.
static struct pair minus_pi(expr x, expr n) {
    expr t = SUB(x, MUL(n, F32(3.140625))), second = MUL(n, F32(0.00096750259399414062));
    expr hi = SUB(SUB(t, second), MUL(n, F32(1.5099067240953445e-07)));
    return (struct pair){hi, MUL(n, F32(5.1266881365141792e-12))};
}

static expr sin_half(expr r) {
    expr z = MUL(r, r);
    return ADD(MUL(MUL(POLY(z, sin_c), z), r), r);
}

// The bits of 2/pi after 32 zero bits.
static const uint32_t two_over_pi[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                       0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};

static expr pi_word(expr index, int offset) {
    expr w = U32(two_over_pi[offset]);
    for (int i = 1; i < 5; i++)
        w = SELECT(EQ(index, U32((uint64_t)i)), U32(two_over_pi[i + offset]), w);
    return w;
}

// Returns the 32 bits of 2/pi from bit 32 * (index + offset) + shift on. It shifts right twice, because the
// count may be 32.
static expr pi_bits(expr index, expr shift, int offset) {
    expr next = SHR(SHR(pi_word(index, offset + 1), SUB(U32(31), shift)), U32(1));
    return OR(SHL(pi_word(index, offset), shift), next);
}

static expr high_product(expr a, expr b) {
    expr low = U32(0xffff), k = U32(16), al = AND(a, low), bl = AND(b, low), ah = SHR(a, k), bh = SHR(b, k);
    expr mid = ADD(MUL(ah, bl), SHR(MUL(al, bl), k)), cross = ADD(MUL(al, bh), AND(mid, low));
    return ADD(MUL(ah, bh), ADD(SHR(mid, k), SHR(cross, k)));
}

static expr carry(expr sum, expr part) {
    return SELECT(LT(sum, part), U32(1), U32(0));
}

// Returns |x|/2pi modulo 1 as a 64-bit fraction, for |x| >= 2^13: the mantissa times the bits of 2/pi that
// contribute to the fraction.
static struct pair turns(expr x) {
    expr bits = AND(AS_U32(x), U32(0x7fffffff)), m = OR(AND(bits, U32(0x7fffff)), U32(0x800000));
    expr at = SUB(SHR(bits, U32(23)), U32(120)), index = SHR(at, U32(5)), shift = AND(at, U32(31));
    expr w0 = pi_bits(index, shift, 0), w1 = pi_bits(index, shift, 1), w2 = pi_bits(index, shift, 2);
    expr low = MUL(m, w1), lo = ADD(low, high_product(m, w2));
    return (struct pair){ADD(ADD(MUL(m, w0), high_product(m, w1)), carry(lo, low)), lo};
}

// Converts a 64-bit fraction to the sum of two floats, from pieces of 24, 24 and 16 bits.
static struct pair fraction(expr hi, expr lo) {
    expr a = SHR(hi, U32(8)), b = OR(SHL(AND(hi, U32(0xff)), U32(16)), SHR(lo, U32(16)));
    expr c = MUL(TO_F32(AS_I32(AND(lo, U32(0xffff)))), F32(0x1p-64));
    struct pair s = fast_sum(MUL(TO_F32(AS_I32(a)), F32(0x1p-24)), MUL(TO_F32(AS_I32(b)), F32(0x1p-48)));
    return fast_sum(s.hi, ADD(s.lo, c));
}

// Returns unit times the angle t (modulo 1, nearest to 0), which is a 64-bit fraction. Its one's complement
// negates it.
static struct pair angle(struct pair t, struct pair unit) {
    expr mask = AS_U32(SHR(AS_I32(t.hi), I32(31))), sign = AND(mask, U32(0x80000000));
    struct pair r = product_pair(fraction(XOR(t.hi, mask), XOR(t.lo, mask)), unit);
    r = fast_sum(r.hi, r.lo);
    return (struct pair){flip_sign(r.hi, sign), flip_sign(r.lo, sign)};
}

static struct pair shift_turns(struct pair t, uint64_t n) {
    return (struct pair){OR(SHL(t.hi, U32(n)), SHR(t.lo, U32(32 - n))), SHL(t.lo, U32(n))};
}

// Returns sin(|x| + quarter * pi/2) for a huge x; NaN for infinity and NaN.
static expr sin_huge(expr x, uint64_t quarter) {
    struct pair t = turns(x);
    t.hi = ADD(t.hi, U32(quarter << 30));
    struct pair r = angle(shift_turns(t, 1), (struct pair){F32(pi_hi), F32(pi_lo)});
    expr odd = AND(ADD(t.hi, U32(0x40000000)), U32(0x80000000));
    return ADD(flip_sign(sin_half(r.hi), odd), SUB(x, x));
}

// x = k pi + r, |r| <= pi/2; the parity of k gives the sign.
expr math_sin_f32(expr x) {
    expr magic = F32(round_bias), t = ADD(MUL(x, F32(0.318309873)), magic);
    struct pair r = minus_pi(x, SUB(t, magic));
    expr y = flip_sign(sin_half(SUB(r.hi, r.lo)), SHL(AS_U32(t), U32(31)));
    return RARE(beyond(x), flip_sign(sin_huge(x, 0), sign_bit(x)), zero_as_is(x, y));
}

// x = (k + 1/2) pi + r; cos x = sin r for odd k, which is why the magic number is odd.
expr math_cos_f32(expr x) {
    expr magic = F32(round_bias + 1), t = ADD(SUB(MUL(x, F32(0.318309873)), F32(0.5)), magic);
    struct pair r = minus_pi(x, ADD(SUB(t, magic), F32(0.5)));
    expr y = flip_sign(sin_half(SUB(r.hi, r.lo)), SHL(AS_U32(t), U32(31)));
    return RARE(beyond(x), sin_huge(x, 1), y);
}

// Returns tan(r + n pi/2) for |r| <= pi/4, as one quotient.
static expr tan_quarter(struct pair r, expr n) {
    expr z = MUL(r.hi, r.hi), hz = MUL(z, F32(0.5)), w = SUB(F32(1), hz);
    expr s = ADD(r.hi, ADD(MUL(MUL(POLY(z, sin_quarter_c), z), r.hi), r.lo));
    expr tail = SUB(MUL(MUL(POLY(z, cos_quarter_c), z), z), MUL(r.hi, r.lo));
    expr c = ADD(w, ADD(SUB(SUB(F32(1), w), hz), tail)), odd = NE(AND(n, U32(1)), U32(0));
    return DIV(SELECT(odd, NEG(c), s), SELECT(odd, s, c));
}

static expr tan_huge(expr x) {
    struct pair t = turns(x), r = angle(shift_turns(t, 2), (struct pair){F32(half_pi_hi), F32(half_pi_lo)});
    expr y = tan_quarter(r, SHR(ADD(t.hi, U32(0x20000000)), U32(30)));
    return ADD(flip_sign(y, sign_bit(x)), SUB(x, x));
}

// The reduced argument keeps its rounding error in lo, because the quotient adds errors of its own.
expr math_tan_f32(expr x) {
    expr magic = F32(round_bias), t = ADD(MUL(x, F32(0.636619747)), magic), n = SUB(t, magic);
    expr head = SUB(SUB(x, MUL(n, F32(1.5703125))), MUL(n, F32(0.00048375129699707031)));
    expr third = MUL(n, F32(7.5495336204767227e-08)), hi = SUB(head, third);
    expr lo = SUB(SUB(SUB(head, hi), third), MUL(n, F32(2.5633440682570896e-12)));
    expr y = zero_as_is(x, tan_quarter(fast_sum(hi, lo), AS_U32(t)));
    return RARE(beyond(x), tan_huge(x), y);
}

static const double asin_c[] = {
    // (asin x - x)/x^3 in x^2, |x| <= 1/2: 2^-27.6
    0.166667521, 0.0749530941, 0.0454691537, 0.0241847523, 0.0421583503,
};

// asin s = s + tail. For a <= 1/2, s is a; for a `large` one it is sqrt((1-a)/2), and asin a = pi/2 - 2 asin
// s.
struct arc {
    expr large, s, tail;
};

static struct arc arc_of(expr a) {
    expr large = GT(a, F32(0.5)), z = SELECT(large, MUL(SUB(F32(1), a), F32(0.5)), MUL(a, a));
    expr s = SELECT(large, SQRT(z), a);
    return (struct arc){large, s, MUL(MUL(POLY(z, asin_c), z), s)};
}

expr math_asin_f32(expr x) {
    struct arc c = arc_of(ABS(x));
    expr rest = SUB(F32(half_pi_lo), ADD(c.tail, c.tail));
    expr y = ADD(SUB(F32(half_pi_hi), ADD(c.s, c.s)), rest);
    return with_sign(SELECT(c.large, y, ADD(c.s, c.tail)), x);
}

expr math_acos_f32(expr x) {
    struct arc c = arc_of(ABS(x));
    expr negative = LT(x, F32(0)), y = ADD(c.s, c.tail), twice = ADD(y, y);
    expr s = flip_sign(c.s, sign_bit(x)), tail = flip_sign(c.tail, sign_bit(x));
    expr large = SELECT(negative, SUB(F32(pi_hi), SUB(twice, F32(pi_lo))), twice);
    return SELECT(c.large, large, SUB(F32(half_pi_hi), ADD(s, SUB(tail, F32(half_pi_lo)))));
}

static const double atan_c[] = {
    // (atan t - t)/t^3 in t^2, t <= 1: 2^-28.5
    -0.333332986, 0.199985296,   -0.142640159, 0.109508783,    -0.0839928314,
    0.057880491,  -0.0310953595, 0.0108673014, -0.00178237318,
};

// Returns atan t for 0 <= t <= 1; if `inverse`, pi/2 less that.
static expr atan_core(expr t, expr inverse) {
    expr z = MUL(t, t), tail = MUL(MUL(POLY(z, atan_c), z), t);
    return SELECT(inverse, SUB(F32(half_pi_hi), ADD(t, SUB(tail, F32(half_pi_lo)))), ADD(t, tail));
}

expr math_atan_f32(expr x) {
    expr a = ABS(x), one = F32(1);
    return with_sign(atan_core(DIV(MIN(a, one), MAX(a, one)), GT(a, one)), x);
}

// The case of equal magnitudes includes the quotients that do not exist, 0/0 and inf/inf.
expr math_atan2_f32(expr y, expr x) {
    expr a = ABS(x), b = ABS(y), equal = SELECT(EQ(a, F32(0)), F32(0), F32(1));
    expr t = atan_core(SELECT(EQ(a, b), equal, DIV(MIN(a, b), MAX(a, b))), GT(b, a));
    expr left = SUB(F32(pi_hi), SUB(t, F32(pi_lo)));
    return with_sign(SELECT(LT(AS_I32(x), I32(0)), left, t), y);
}

// Power -----------------------------------------------------------------------------------------------------

static const double log2_c[] = {
    // (log2((1+s)/(1-s)) - C0 s - C1 s^3)/s^5 in s^2: 2^-36.8
    0.57708019,
    0.411849886,
    0.33782205,
};

// Returns s = f/(2+f) with its rounding error.
static struct pair log_quotient(expr f) {
    expr m = ADD(f, F32(1)), d = ADD(m, F32(1)), rest = SUB(m, SUB(d, F32(1)));
    expr inverse = DIV(F32(1), d), s = MUL(f, inverse);
    struct pair p = product(s, d);
    return (struct pair){s, MUL(SUB(SUB(SUB(f, p.hi), p.lo), MUL(s, rest)), inverse)};
}

// Returns C0 + C1 z + z^2 P(z) for z = s^2; the first two terms keep their rounding errors.
static struct pair log2_series(struct pair s) {
    struct pair z = product(s.hi, s.hi), c1 = product(z.hi, F32(0.961796701));
    z.lo = ADD(z.lo, MUL(ADD(s.hi, s.hi), s.lo));
    expr low = MUL(MUL(POLY(z.hi, log2_c), z.hi), z.hi);
    low = ADD(low, ADD(MUL(z.lo, F32(0.961796701)), MUL(z.hi, F32(-7.02846181e-09))));
    struct pair g = fast_sum(F32(2.88539004), c1.hi);
    return (struct pair){g.hi, ADD(g.lo, ADD(c1.lo, ADD(low, F32(3.85192607e-08))))};
}

// Returns log2 x to about 2^-35, for a positive finite x.
static struct pair log2_pair(expr x) {
    struct mantissa m = split_mantissa(x);
    struct pair s = log_quotient(m.f), l = product_pair(s, log2_series(s)), y = fast_sum(TO_F32(m.e), l.hi);
    return fast_sum(y.hi, ADD(y.lo, l.lo));
}

// Returns a^b for a >= 0, which may be infinite but not NaN. b is clamped to 2^40, beyond which the result
// does not change.
static expr pow_positive(expr a, expr b) {
    expr c = MIN(MAX(b, F32(-0x1p40)), F32(0x1p40));
    struct pair l = log2_pair(a), p = product(l.hi, c);
    expr hi = MIN(MAX(p.hi, F32(-160)), F32(130)), lo = ADD(p.lo, MUL(l.lo, c));
    struct pair e = split_exponent2(hi);
    expr y = exp2_reduced(ADD(e.hi, SELECT(EQ(hi, p.hi), lo, F32(0))), e.lo);
    expr zero = EQ(a, F32(0)), end = SELECT(XOR(zero, LT(b, F32(0))), F32(0), F32(infinity));
    return SELECT(OR(zero, EQ(a, F32(infinity))), end, y);
}

static expr is_whole(expr x) {
    return EQ(RINT(x), x);
}

expr math_pow_f32(expr a, expr b) {
    expr m = ABS(a), y = pow_positive(m, b), whole = is_whole(b);
    expr odd = AND(whole, NOT(is_whole(MUL(b, F32(0.5)))));
    y = SELECT(AND(LT(AS_I32(a), I32(0)), odd), NEG(y), y);
    expr invalid = AND(LT(a, F32(0)), AND(LT(m, F32(infinity)), NOT(whole)));
    y = SELECT(OR(invalid, OR(NE(a, a), NE(b, b))), nan_f32(), y);
    return SELECT(OR(EQ(b, F32(0)), EQ(a, F32(1))), F32(1), y);
}

expr math_rsqrt_f32(expr x) {
    return DIV(F32(1), SQRT(x));
}

// Error function --------------------------------------------------------------------------------------------

static const double erfc_root_c[] = {
    // 4 (1 - erfc(x)^(1/4))/x - 1, x <= 4.05: 2^-25.8 of erf
    0.128379151,   0.477466196,     -0.0618658438,   -0.0744308457,  0.0047364994,
    0.00793005805, -0.000913601194, -0.000511553779, 0.000142787467, -1.09298408e-05,
};

// Computes 1 - (1 - d/4)^4, where 1 - d/4 is the fourth root of erfc: one formula for small and large x. From
// |x| = 4.01 on the result is 1. The last steps are sums and not fma, as in tanh.
expr math_erf_f32(expr x) {
    expr a = MIN(ABS(x), F32(4.05)), d = ADD(MUL(STEPS(a, erfc_root_c), a), a);
    d = ADD(MUL(MUL(d, F32(-0.125)), d), d); // 2 - 2 (1 - d/4)^2
    return with_sign(ADD(MUL(MUL(d, F32(-0.25)), d), d), x);
}

static const double short_erf_c[] = {
    // erf(x)/x in x^2, x <= 2.21, where bfloat16 has 1: 2^-15.3
    1.12835211, -0.375624037, 0.111223512, -0.0248229845, 0.00391685058, -0.000381644499, 1.68462252e-05,
};

// The result is within 0.51 ulp of bf16. Few registers are needed, because no sign is kept until the end.
expr math_short_erf_f32(expr x) {
    expr a = MAX(MIN(x, F32(2.203125)), F32(-2.203125));
    return MUL(a, STEPS(MUL(a, a), short_erf_c));
}

// erfinv(x)/x - 1 as a function of w = -log(1 - x^2). In the tail the polynomial is its difference to sqrt(w)
// - 1, which is close to it.
static const double erfinv_c[] = {
    // in w - 2.5, w <= 5: 2^-27.2
    0.501409352,     0.24664028,      -0.00417736778, -0.00125273236, 0.000218332731,
    -4.96790426e-06, -3.46011666e-06, 4.67032436e-07, 2.30445334e-08, -8.84729978e-09,
};
static const double erfinv_tail_c[] = {
    // in sqrt(w) - 3, 5 <= w <= 16: 2^-26.7
    -0.167023182,  0.00167512894, 0.00944495481,   -0.00764021045,  0.00568732154,
    -0.0035848543, 0.00148714858, -7.67820529e-05, -0.000312408141, 0.000126686515,
};

expr math_erfinv_f32(expr x) {
    expr w = NEG(log_sum(split_normal(MUL(SUB(F32(1), x), ADD(F32(1), x)))));
    expr s = SQRT(w), tail = ADD(SUB(s, F32(1)), POLY(SUB(s, F32(3)), erfinv_tail_c));
    expr p = RARE(GT(w, F32(5)), tail, POLY(SUB(w, F32(2.5)), erfinv_c));
    expr a = ABS(x), y = ADD(MUL(p, a), a);
    y = SELECT(LT(a, F32(1)), y, SELECT(EQ(a, F32(1)), F32(infinity), nan_f32()));
    return with_sign(y, x);
}
