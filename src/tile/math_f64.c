// math_f64.c - the transcendental functions of f64, each written once as an expression.
//
// It is math_f32.c with f64, i64 and u64, and the comments there apply here. The differences: the logarithm
// uses a quotient, because a polynomial alone would need twenty terms; the arc tangent has two ranges; pi has
// three parts; erf uses exp.

#include "tile/math.h"
#include "tile/notation.h"

#define POLY(x, c) math_polynomial(x, c, (int)(sizeof(c) / sizeof *(c)))
#define STEPS(x, c) \
    math_polynomial_by_steps(x, c, (int)(sizeof(c) / sizeof *(c))) // for the smallest rounding error

static const double infinity = 1.0 / 0.0;
static const double round_bias = 0x1.8p52; // adding it rounds to an integer, which is then in the low bits
static const double log2_e = 1.4426950408889634;
static const double ln2_hi = 0.69314718055989033, ln2_lo = 5.4979230187083712e-14;
static const double half_pi_hi = 1.5707963267948966, half_pi_lo = 6.123233995736766e-17;
static const double pi_hi = 3.1415926535897931, pi_lo = 1.2246467991473532e-16;

struct pair {
    expr hi, lo;
};

static expr nan_f64(void) {
    return AS_F64(U64(0x7ff8000000000000));
}

static expr sign_bit(expr x) {
    return AND(AS_U64(x), U64(0x8000000000000000));
}

// Returns y >= 0 with the sign of x. Odd functions end with it, which also keeps -0.
static expr with_sign(expr y, expr x) {
    return AS_F64(OR(AS_U64(y), sign_bit(x)));
}

static expr flip_sign(expr y, expr bit) {
    return AS_F64(XOR(AS_U64(y), bit));
}

static expr zero_as_is(expr x, expr y) {
    return SELECT(EQ(x, F64(0)), x, y);
}

// Arithmetic with unevaluated sums hi + lo ------------------------------------------------------------------

static struct pair fast_sum(expr a, expr b) {
    expr s = ADD(a, b);
    return (struct pair){s, ADD(SUB(a, s), b)};
}

static expr upper_half(expr x) {
    return AS_F64(AND(AS_U64(x), U64(0xfffffffff8000000)));
}

// Returns a * b to 2^-105, as a sum of two floats: the upper halves have 26 bits, the lower ones 27.
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
    // (e^r - 1 - r)/r^2, |r| <= ln2/2: 2^-57.4
    0.50000000000000111,    0.1666666666666636,     0.041666666666524722,   0.0083333333334718492,
    0.0013888888945874417,  0.00019841269645529483, 2.4801489932835175e-05, 2.7557397157720039e-06,
    2.7631643670760907e-07, 2.5077489775935467e-08,
};

// The reduction x = k ln2 + hi - lo. k * ln2_hi is exact (11 + 42 bits). The low bits of `bits` hold k +
// bias; n is k as a float.
struct exponent {
    expr bits, n, hi, lo;
};

static struct exponent split_exponent(expr x, int bias) {
    expr magic = F64(round_bias + bias), t = ADD(MUL(x, F64(log2_e)), magic), n = SUB(t, magic);
    return (struct exponent){AS_I64(t), n, SUB(x, MUL(n, F64(ln2_hi))), MUL(n, F64(ln2_lo))};
}

static expr exp_tail(expr r) {
    return MUL(MUL(POLY(r, exp_c), r), r);
}

// Returns y 2^k for bits = k + 2046. It multiplies by two factors, so that neither overflows or underflows
// before the product does.
static expr scale(expr y, expr bits) {
    expr half = SHR(bits, I64(1)), rest = SUB(bits, half), to = I64(52);
    return MUL(MUL(y, AS_F64(SHL(half, to))), AS_F64(SHL(rest, to)));
}

static expr exp_reduced(expr r, expr bits) {
    return scale(ADD(ADD(exp_tail(r), r), F64(1)), bits);
}

// Returns e^x 2^shift for an x that was clamped.
static expr exp_clamped(expr x, int shift) {
    struct exponent e = split_exponent(x, 2046 + shift);
    return exp_reduced(SUB(e.hi, e.lo), e.bits);
}

expr math_exp_f64(expr x) {
    return exp_clamped(MIN(MAX(x, F64(-746)), F64(710)), 0);
}

static const double exp2_c[] = {
    // (2^r - 1)/r, |r| <= 1/2: 2^-57.1
    0.69314718055994529,    0.24022650695910172,    0.055504108664824574,   0.0096181291075770892,
    0.0013333558145567042,  0.00015403530478823991, 1.5252734738724037e-05, 1.3215424499602195e-06,
    1.0177655694799557e-07, 7.0756137658275692e-09, 4.519380450481213e-10,
};

// Splits an x that was clamped: x - rint(x) is exact, and rint(x) + 2046 is in the low bits of the second
// part.
static struct pair split_exponent2(expr x) {
    expr magic = F64(round_bias + 2046), t = ADD(x, magic);
    return (struct pair){SUB(x, SUB(t, magic)), AS_I64(t)};
}

static expr exp2_reduced(expr r, expr bits) {
    return scale(ADD(MUL(POLY(r, exp2_c), r), F64(1)), bits);
}

expr math_exp2_f64(expr x) {
    struct pair e = split_exponent2(MIN(MAX(x, F64(-1076)), F64(1025)));
    return exp2_reduced(e.hi, e.lo);
}

// Returns (e^x - 1)/2 for x away from 0, where k != 0. It is half of the result, so that only the doubling
// overflows.
static expr expm1_half(struct exponent e, expr tail) {
    expr s = AS_F64(SHL(e.bits, I64(52)));
    return ADD(ADD(MUL(s, e.hi), SUB(s, F64(0.5))), MUL(s, tail));
}

static expr expm1_clamped(expr x) {
    struct exponent e = split_exponent(x, 1022);
    expr tail = SUB(exp_tail(SUB(e.hi, e.lo)), e.lo), half = expm1_half(e, tail);
    return SELECT(EQ(e.n, F64(0)), ADD(x, tail), ADD(half, half));
}

expr math_expm1_f64(expr x) {
    return with_sign(expm1_clamped(MIN(MAX(x, F64(-50)), F64(710))), x);
}

// Computes |t/(t + 2)| with t = e^(+-2|x|) - 1. The minus sign is used for small |x|, where it makes the
// error of the divisor smaller. From |x| = 19.1 on the result is 1.
expr math_tanh_f64(expr x) {
    expr a = ABS(x), twice = MUL(a, SELECT(LT(a, F64(0.17)), F64(-2), F64(2)));
    expr t = expm1_clamped(MIN(twice, F64(42)));
    return with_sign(ABS(DIV(t, ADD(t, F64(2)))), x);
}

// Computes from e^-|x|, which never overflows, so that the results for very negative x may be subnormal.
expr math_sigmoid_f64(expr x) {
    expr z = exp_clamped(MAX(NEG(ABS(x)), F64(-746)), 0);
    return DIV(SELECT(LT(x, F64(0)), z, F64(1)), ADD(z, F64(1)));
}

static expr half_exp(expr a) {
    return exp_clamped(MIN(a, F64(711)), -1);
}

static const double sinh_c[] = {
    // (sinh x - x)/x^3 in x^2, |x| <= 1: 2^-61.8
    0.16666666666666669,   0.0083333333333329117,  0.00019841269841593427, 2.7557319106744721e-06,
    2.505213100187368e-08, 1.6056658808873344e-10, 7.7766151600373634e-13,
};

expr math_sinh_f64(expr x) {
    expr a = ABS(x), z = MUL(x, x), e = half_exp(a);
    expr small = ADD(MUL(MUL(POLY(z, sinh_c), z), a), a);
    return with_sign(SELECT(LT(a, F64(1)), small, SUB(e, DIV(F64(0.25), e))), x);
}

expr math_cosh_f64(expr x) {
    expr e = half_exp(ABS(x));
    return ADD(e, DIV(F64(0.25), e));
}

// Logarithms ------------------------------------------------------------------------------------------------

static const double log_c[] = {
    // (log((1+s)/(1-s)) - 2s)/s^3 in s^2, |s| <= 3 - sqrt(8): 2^-58.5
    0.6666666666666734,  0.39999999999416574, 0.28571428742055111, 0.22222198601315316,
    0.18183563087510321, 0.15314077865050063, 0.14795711603211023,
};

// The split x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), of a positive normal x.
struct mantissa {
    expr e, f;
};

static struct mantissa split_normal(expr x) {
    expr e = SHR(SUB(AS_I64(x), I64(0x3fe6a09e667f3bcd)), I64(52));
    return (struct mantissa){e, SUB(AS_F64(SUB(AS_I64(x), SHL(e, I64(52)))), F64(1))};
}

static struct mantissa split_mantissa(expr x) {
    expr tiny = LT(x, F64(0x1p-1022));
    struct mantissa m = split_normal(SELECT(tiny, MUL(x, F64(0x1p54)), x));
    m.e = ADD(m.e, SELECT(tiny, I64(-54), I64(0)));
    return m;
}

// Returns log(1+f) - f, from s = f/(2+f): log(1+f) = f - f^2/2 + s (f^2/2 + s^2 P(s^2)).
static expr log_tail(expr f) {
    expr s = DIV(f, ADD(f, F64(2))), z = MUL(s, s), square = MUL(MUL(f, F64(0.5)), f);
    return SUB(MUL(s, ADD(square, MUL(POLY(z, log_c), z))), square);
}

// Returns e ln2 + log(1 + f); e ln2_hi is exact.
static expr log_sum(struct mantissa m) {
    expr e = TO_F64(m.e), low = ADD(MUL(e, F64(ln2_lo)), log_tail(m.f));
    return ADD(MUL(e, F64(ln2_hi)), ADD(m.f, low));
}

static expr log_special(expr x, expr y) {
    y = SELECT(LT(x, F64(infinity)), y, x);
    return SELECT(GT(x, F64(0)), y, SELECT(EQ(x, F64(0)), F64(-infinity), nan_f64()));
}

expr math_log_f64(expr x) {
    return log_special(x, log_sum(split_mantissa(x)));
}

// f/ln2 = f + 0.4427 f: the larger part is exact.
expr math_log2_f64(expr x) {
    struct mantissa m = split_mantissa(x);
    expr low = ADD(MUL(m.f, F64(0.44269504088896339)), MUL(log_tail(m.f), F64(log2_e)));
    return log_special(x, ADD(TO_F64(m.e), ADD(m.f, low)));
}

// f/ln10 = f/2 - 0.0657 f: the larger part is exact.
expr math_log10_f64(expr x) {
    struct mantissa m = split_mantissa(x);
    expr e = TO_F64(m.e), tail = MUL(log_tail(m.f), F64(0.43429448190325182));
    expr low = ADD(MUL(m.f, F64(-0.065705518096748169)), ADD(MUL(e, F64(2.8363394551044964e-14)), tail));
    return log_special(x, ADD(MUL(e, F64(0.30102999566395283)), ADD(MUL(m.f, F64(0.5)), low)));
}

// Returns log(2^more (u + c)), where c is the rounding error of a sum that gave u. If e = 0, 1 + f + c is the
// sum before it was rounded.
static expr log_corrected(expr u, expr c, expr more) {
    struct mantissa m = split_normal(u);
    expr unit = AS_F64(SHL(MAX(SUB(I64(1023), m.e), I64(0)), I64(52))); // 2^-e; 0 where c is negligible
    return log_sum((struct mantissa){ADD(m.e, more), ADD(m.f, MUL(c, unit))});
}

static expr log1p_finite(expr x) {
    expr u = ADD(x, F64(1));
    return log_corrected(u, SUB(x, SUB(u, F64(1))), I64(0));
}

expr math_log1p_f64(expr x) {
    expr y = SELECT(LT(x, F64(infinity)), log1p_finite(x), x);
    y = SELECT(GT(x, F64(-1)), y, SELECT(EQ(x, F64(-1)), F64(-infinity), nan_f64()));
    return zero_as_is(x, y);
}

static struct pair exact_sum(expr a, expr b) {
    expr s = ADD(a, b), t = SUB(s, a);
    return (struct pair){s, ADD(SUB(a, SUB(s, t)), SUB(b, t))};
}

// Returns max + log(1 + e^d). d = min - max keeps its rounding error, which e^d would magnify |d| times.
expr math_logaddexp_f64(expr a, expr b) {
    expr max = MAX(a, b), limit = F64(-746);
    struct pair d = exact_sum(MIN(a, b), NEG(max));
    expr lo = SELECT(GT(d.hi, limit), d.lo, F64(0));
    struct exponent e = split_exponent(MAX(SELECT(EQ(a, b), F64(0), d.hi), limit), 2046); // avoids inf - inf
    return ADD(max, log1p_finite(exp_reduced(ADD(SUB(e.hi, e.lo), lo), e.bits)));
}

// Returns log(1 + w) for a moderate a. For a large one, whose w would be too coarse or overflow, returns
// log(2a).
static expr log1p_or_double(expr a, expr w) {
    expr large = GT(a, F64(0x1p28)), u = ADD(w, F64(1)), c = SUB(w, SUB(u, F64(1)));
    return log_corrected(SELECT(large, a, u), SELECT(large, F64(0), c), SELECT(large, I64(1), I64(0)));
}

// Computes log(1 + w), where w = |x| + sqrt(x^2 + 1) - 1 in a form without cancellation.
expr math_asinh_f64(expr x) {
    expr a = ABS(x), z = MUL(x, x), root = SQRT(ADD(z, F64(1)));
    expr y = log1p_or_double(a, ADD(a, DIV(z, ADD(root, F64(1)))));
    return with_sign(SELECT(LT(a, F64(infinity)), y, a), x);
}

expr math_acosh_f64(expr x) {
    expr t = SUB(x, F64(1)), w = ADD(t, SQRT(MUL(t, ADD(t, F64(2)))));
    expr y = SELECT(LT(x, F64(infinity)), log1p_or_double(x, w), x);
    return SELECT(LT(x, F64(1)), nan_f64(), y);
}

// Computes log(1 + w)/2, where w = 2a/(1-a) in a form whose rounding errors stay small for small a.
expr math_atanh_f64(expr x) {
    expr a = ABS(x), b = ADD(a, a), w = ADD(b, DIV(MUL(b, a), SUB(F64(1), a)));
    expr y = SELECT(LT(a, F64(1)), MUL(log1p_finite(w), F64(0.5)), F64(infinity));
    return with_sign(SELECT(LE(a, F64(1)), y, nan_f64()), x);
}

// Circular functions ----------------------------------------------------------------------------------------

static const double sin_c[] = {
    // (sin r - r)/r^3 in r^2, |r| <= pi/2: 2^-61.5
    -0.16666666666666666,    0.0083333333333332066,  -0.00019841269841212476, 2.7557319211568398e-06,
    -2.5052106904256732e-08, 1.6058940990126138e-10, -7.6430189441765831e-13, 2.721413784604198e-15,
};
static const double sin_quarter_c[] = {
    // the same function, |r| <= pi/4: 2^-57.9
    -0.1666666666666663,    0.0083333333333218424,   -0.00019841269829361312,
    2.7557313539886177e-06, -2.5050734656701688e-08, 1.5895451349986503e-10,
};
static const double cos_quarter_c[] = {
    // (cos r - 1 + r^2/2)/r^4 in r^2, |r| <= pi/4: 2^-63.9
    0.041666666666666595,    -0.0013888888888873325, 2.4801587288983749e-05,
    -2.7557314210118294e-07, 2.087570427990304e-09,  -1.1358683936428918e-11,
};

// Below this limit pi is split into parts of 33 bits, whose products with the multiple (20 bits) are exact.
static const double cody_limit = 1e6;

static expr beyond(expr x) {
    return NOT(LT(ABS(x), F64(cody_limit)));
}

// Returns x - n pi as a pair; lo is still to be subtracted from hi.
static struct pair minus_pi(expr x, expr n) {
    expr t = SUB(x, MUL(n, F64(3.1415926534682512))), second = MUL(n, F64(1.2154201012607932e-10));
    return (struct pair){SUB(t, second), MUL(n, F64(4.0445324975919012e-21))};
}

static expr sin_half(expr r) {
    expr z = MUL(r, r);
    return ADD(MUL(MUL(POLY(z, sin_c), z), r), r);
}

// The bits of 2/pi after 64 zero bits.
static const uint64_t two_over_pi[20] = {
    0,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
};

// Sets w[0] to w[3] to words index .. index + 3 of 2/pi: moves the table down by 16, 8, 4, 2 and 1 words, for
// the bits that are set in index.
static void pi_words(expr index, expr w[35]) {
    for (int i = 0; i < 35; i++)
        w[i] = U64(i < 20 ? two_over_pi[i] : 0);
    for (int step = 16; step > 0; step /= 2) {
        expr take = NE(AND(index, U64((uint64_t)step)), U64(0));
        for (int i = 0; i < step + 3; i++)
            w[i] = SELECT(take, w[i + step], w[i]);
    }
}

// Returns the 64 bits from bit `shift` of word a on; b is the next word. It shifts right twice, because the
// count may be 64.
static expr join(expr a, expr b, expr shift) {
    return OR(SHL(a, shift), SHR(SHR(b, SUB(U64(63), shift)), U64(1)));
}

static expr high_product(expr a, expr b) {
    expr low = U64(0xffffffff), k = U64(32);
    expr al = AND(a, low), bl = AND(b, low), ah = SHR(a, k), bh = SHR(b, k);
    expr mid = ADD(MUL(ah, bl), SHR(MUL(al, bl), k)), cross = ADD(MUL(al, bh), AND(mid, low));
    return ADD(MUL(ah, bh), ADD(SHR(mid, k), SHR(cross, k)));
}

static expr carry(expr sum, expr part) {
    return SELECT(LT(sum, part), U64(1), U64(0));
}

// Returns |x|/2pi modulo 1 as a 128-bit fraction, for |x| >= 2^19.
static struct pair turns(expr x) {
    expr bits = AND(AS_U64(x), U64(0x7fffffffffffffff));
    expr m = OR(AND(bits, U64(0xfffffffffffff)), U64(0x10000000000000));
    expr at = SUB(SHR(bits, U64(52)), U64(1013)), shift = AND(at, U64(63)), w[35];
    pi_words(SHR(at, U64(6)), w);
    expr w0 = join(w[0], w[1], shift), w1 = join(w[1], w[2], shift), w2 = join(w[2], w[3], shift);
    expr low = MUL(m, w1), lo = ADD(low, high_product(m, w2));
    return (struct pair){ADD(ADD(MUL(m, w0), high_product(m, w1)), carry(lo, low)), lo};
}

// Converts a 128-bit fraction to the sum of two floats, from pieces of 53, 53 and 22 bits.
static struct pair fraction(expr hi, expr lo) {
    expr a = SHR(hi, U64(11)), b = OR(SHL(AND(hi, U64(0x7ff)), U64(42)), SHR(lo, U64(22)));
    expr c = MUL(TO_F64(AS_I64(AND(lo, U64(0x3fffff)))), F64(0x1p-128));
    struct pair s = fast_sum(MUL(TO_F64(AS_I64(a)), F64(0x1p-53)), MUL(TO_F64(AS_I64(b)), F64(0x1p-106)));
    return fast_sum(s.hi, ADD(s.lo, c));
}

// Returns unit times the angle t (modulo 1, nearest to 0), which is a 128-bit fraction. Its one's complement
// negates it.
static struct pair angle(struct pair t, struct pair unit) {
    expr mask = AS_U64(SHR(AS_I64(t.hi), I64(63))), sign = AND(mask, U64(0x8000000000000000));
    struct pair r = product_pair(fraction(XOR(t.hi, mask), XOR(t.lo, mask)), unit);
    r = fast_sum(r.hi, r.lo);
    return (struct pair){flip_sign(r.hi, sign), flip_sign(r.lo, sign)};
}

static struct pair shift_turns(struct pair t, uint64_t n) {
    return (struct pair){OR(SHL(t.hi, U64(n)), SHR(t.lo, U64(64 - n))), SHL(t.lo, U64(n))};
}

// Returns sin(|x| + quarter * pi/2) for a huge x; NaN for infinity and NaN.
static expr sin_huge(expr x, uint64_t quarter) {
    struct pair t = turns(x);
    t.hi = ADD(t.hi, U64(quarter << 62));
    struct pair r = angle(shift_turns(t, 1), (struct pair){F64(pi_hi), F64(pi_lo)});
    expr odd = AND(ADD(t.hi, U64(0x4000000000000000)), U64(0x8000000000000000));
    return ADD(flip_sign(sin_half(r.hi), odd), SUB(x, x));
}

// x = k pi + r, |r| <= pi/2; the parity of k gives the sign.
expr math_sin_f64(expr x) {
    expr magic = F64(round_bias), t = ADD(MUL(x, F64(0.31830988618379069)), magic);
    struct pair r = minus_pi(x, SUB(t, magic));
    expr y = flip_sign(sin_half(SUB(r.hi, r.lo)), SHL(AS_U64(t), U64(63)));
    return RARE(beyond(x), flip_sign(sin_huge(x, 0), sign_bit(x)), zero_as_is(x, y));
}

// x = (k + 1/2) pi + r; cos x = sin r for odd k, which is why the magic number is odd.
expr math_cos_f64(expr x) {
    expr magic = F64(round_bias + 1), t = ADD(SUB(MUL(x, F64(0.31830988618379069)), F64(0.5)), magic);
    struct pair r = minus_pi(x, ADD(SUB(t, magic), F64(0.5)));
    expr y = flip_sign(sin_half(SUB(r.hi, r.lo)), SHL(AS_U64(t), U64(63)));
    return RARE(beyond(x), sin_huge(x, 1), y);
}

// Returns tan(r + n pi/2) for |r| <= pi/4, as one quotient.
static expr tan_quarter(struct pair r, expr n) {
    expr z = MUL(r.hi, r.hi), hz = MUL(z, F64(0.5)), w = SUB(F64(1), hz);
    expr s = ADD(r.hi, ADD(MUL(MUL(POLY(z, sin_quarter_c), z), r.hi), r.lo));
    expr tail = SUB(MUL(MUL(POLY(z, cos_quarter_c), z), z), MUL(r.hi, r.lo));
    expr c = ADD(w, ADD(SUB(SUB(F64(1), w), hz), tail)), odd = NE(AND(n, U64(1)), U64(0));
    return DIV(SELECT(odd, NEG(c), s), SELECT(odd, s, c));
}

static expr tan_huge(expr x) {
    struct pair t = turns(x), r = angle(shift_turns(t, 2), (struct pair){F64(half_pi_hi), F64(half_pi_lo)});
    expr y = tan_quarter(r, SHR(ADD(t.hi, U64(0x2000000000000000)), U64(62)));
    return ADD(flip_sign(y, sign_bit(x)), SUB(x, x));
}

// The reduced argument keeps its rounding error in lo, because the quotient adds errors of its own.
expr math_tan_f64(expr x) {
    expr magic = F64(round_bias), t = ADD(MUL(x, F64(0.63661977236758138)), magic), n = SUB(t, magic);
    expr head = SUB(x, MUL(n, F64(1.5707963267341256))), second = MUL(n, F64(6.077100506303966e-11));
    expr hi = SUB(head, second);
    expr lo = SUB(SUB(SUB(head, hi), second), MUL(n, F64(2.0222662487959506e-21)));
    expr y = zero_as_is(x, tan_quarter(fast_sum(hi, lo), AS_U64(t)));
    return RARE(beyond(x), tan_huge(x), y);
}

static const double asin_c[] = {
    // (asin x - x)/x^3 in x^2, |x| <= 1/2: 2^-55.9
    0.16666666666665408,   0.075000000003371162, 0.044642856828250116,  0.030381959140152581,
    0.022371757974051904,  0.017359705908524023, 0.013885224336034556,  0.012169282843818029,
    0.0065276775159498123, 0.019529048558310062, -0.016225429340817367, 0.03191303905413486,
};

// asin s = s + tail. For a <= 1/2, s is a; for a `large` one it is sqrt((1-a)/2), and asin a = pi/2 - 2 asin
// s.
struct arc {
    expr large, s, tail;
};

static struct arc arc_of(expr a) {
    expr large = GT(a, F64(0.5)), z = SELECT(large, MUL(SUB(F64(1), a), F64(0.5)), MUL(a, a));
    expr s = SELECT(large, SQRT(z), a);
    return (struct arc){large, s, MUL(MUL(POLY(z, asin_c), z), s)};
}

expr math_asin_f64(expr x) {
    struct arc c = arc_of(ABS(x));
    expr rest = SUB(F64(half_pi_lo), ADD(c.tail, c.tail));
    expr y = ADD(SUB(F64(half_pi_hi), ADD(c.s, c.s)), rest);
    return with_sign(SELECT(c.large, y, ADD(c.s, c.tail)), x);
}

expr math_acos_f64(expr x) {
    struct arc c = arc_of(ABS(x));
    expr negative = LT(x, F64(0)), y = ADD(c.s, c.tail), twice = ADD(y, y);
    expr s = flip_sign(c.s, sign_bit(x)), tail = flip_sign(c.tail, sign_bit(x));
    expr large = SELECT(negative, SUB(F64(pi_hi), SUB(twice, F64(pi_lo))), twice);
    return SELECT(c.large, large, SUB(F64(half_pi_hi), ADD(s, SUB(tail, F64(half_pi_lo)))));
}

static const double atan_c[] = {
    // (atan t - t)/t^3 in t^2, |t| <= 3/7, a little beyond tan(pi/8): 2^-58
    -0.33333333333333059,  0.19999999999912718,  -0.14285714276033212,  0.1111111057456222,
    -0.090908917620174987, 0.076919541878068945, -0.066619095014318064, 0.058392944200574379,
    -0.050010792475896647, 0.037107337294712404, -0.016875226783501163,
};

// Returns atan(min/max); if `inverse`, pi/2 less that. Quotients beyond tan(pi/8) are rotated by pi/4 first.
static expr atan_core(expr min, expr max, expr inverse) {
    expr middle = GE(MUL(min, F64(2.414213562373095)), max);
    expr t = DIV(SELECT(middle, SUB(min, max), min), SELECT(middle, ADD(min, max), max)), z = MUL(t, t);
    expr tail = MUL(MUL(POLY(z, atan_c), z), t);
    expr hi = SELECT(middle, F64(half_pi_hi / 2), SELECT(inverse, F64(half_pi_hi), F64(0)));
    expr lo = SELECT(middle, F64(half_pi_lo / 2), SELECT(inverse, F64(half_pi_lo), F64(0)));
    return ADD(hi, ADD(SELECT(inverse, NEG(t), t), ADD(SELECT(inverse, NEG(tail), tail), lo)));
}

expr math_atan_f64(expr x) {
    expr a = ABS(x), one = F64(1);
    return with_sign(atan_core(MIN(a, one), MAX(a, one), GT(a, one)), x);
}

// The case of equal magnitudes includes the quotients that do not exist, 0/0 and inf/inf. Huge arguments are
// scaled down, so that min + max does not overflow.
expr math_atan2_f64(expr y, expr x) {
    expr a = ABS(x), b = ABS(y), same = EQ(a, b), max = MAX(a, b);
    expr unit = SELECT(GT(max, F64(0x1p1000)), F64(0.25), F64(1));
    expr min = SELECT(same, SELECT(EQ(a, F64(0)), F64(0), F64(1)), MUL(MIN(a, b), unit));
    expr t = atan_core(min, SELECT(same, F64(1), MUL(max, unit)), GT(b, a));
    expr left = SUB(F64(pi_hi), SUB(t, F64(pi_lo)));
    return with_sign(SELECT(LT(AS_I64(x), I64(0)), left, t), y);
}

// Power -----------------------------------------------------------------------------------------------------

static const double log2_c[] = {
    // (log2((1+s)/(1-s)) - C0 s - C1 s^3)/s^5 in s^2: 2^-66.3
    0.57707801635561795, 0.41219858309194074, 0.32059890227342269, 0.26230770113305812,
    0.22198399773635055, 0.19125515282789998, 0.19038558578806949,
};

// Returns s = f/(2+f) with its rounding error.
static struct pair log_quotient(expr f) {
    expr m = ADD(f, F64(1)), d = ADD(m, F64(1)), rest = SUB(m, SUB(d, F64(1)));
    expr inverse = DIV(F64(1), d), s = MUL(f, inverse);
    struct pair p = product(s, d);
    return (struct pair){s, MUL(SUB(SUB(SUB(f, p.hi), p.lo), MUL(s, rest)), inverse)};
}

// Returns C0 + C1 z + z^2 P(z) for z = s^2; the first two terms keep their rounding errors.
static struct pair log2_series(struct pair s) {
    struct pair z = product(s.hi, s.hi), c1 = product(z.hi, F64(0.96179669392597555));
    z.lo = ADD(z.lo, MUL(ADD(s.hi, s.hi), s.lo));
    expr low = MUL(MUL(POLY(z.hi, log2_c), z.hi), z.hi);
    low = ADD(low, ADD(MUL(z.lo, F64(0.96179669392597555)), MUL(z.hi, F64(5.0577616648125907e-17))));
    struct pair g = fast_sum(F64(2.8853900817779268), c1.hi);
    return (struct pair){g.hi, ADD(g.lo, ADD(c1.lo, ADD(low, F64(4.0710547481862066e-17))))};
}

// Returns log2 x to about 2^-65, for a positive finite x.
static struct pair log2_pair(expr x) {
    struct mantissa m = split_mantissa(x);
    struct pair s = log_quotient(m.f), l = product_pair(s, log2_series(s)), y = fast_sum(TO_F64(m.e), l.hi);
    return fast_sum(y.hi, ADD(y.lo, l.lo));
}

// Returns a^b for a >= 0, which may be infinite but not NaN. b is clamped to 2^70, beyond which the result
// does not change.
static expr pow_positive(expr a, expr b) {
    expr c = MIN(MAX(b, F64(-0x1p70)), F64(0x1p70));
    struct pair l = log2_pair(a), p = product(l.hi, c);
    expr hi = MIN(MAX(p.hi, F64(-1100)), F64(1030)), lo = ADD(p.lo, MUL(l.lo, c));
    struct pair e = split_exponent2(hi);
    expr y = exp2_reduced(ADD(e.hi, SELECT(EQ(hi, p.hi), lo, F64(0))), e.lo);
    expr zero = EQ(a, F64(0)), end = SELECT(XOR(zero, LT(b, F64(0))), F64(0), F64(infinity));
    return SELECT(OR(zero, EQ(a, F64(infinity))), end, y);
}

static expr is_whole(expr x) {
    return EQ(RINT(x), x);
}

expr math_pow_f64(expr a, expr b) {
    expr m = ABS(a), y = pow_positive(m, b), whole = is_whole(b);
    expr odd = AND(whole, NOT(is_whole(MUL(b, F64(0.5)))));
    y = SELECT(AND(LT(AS_I64(a), I64(0)), odd), NEG(y), y);
    expr invalid = AND(LT(a, F64(0)), AND(LT(m, F64(infinity)), NOT(whole)));
    y = SELECT(OR(invalid, OR(NE(a, a), NE(b, b))), nan_f64(), y);
    return SELECT(OR(EQ(b, F64(0)), EQ(a, F64(1))), F64(1), y);
}

expr math_rsqrt_f64(expr x) {
    return DIV(F64(1), SQRT(x));
}

// Error function --------------------------------------------------------------------------------------------

static const double erf_c[] = {
    // erf(x)/x - 1 in x^2, |x| <= 1: 2^-56.3
    0.12837916709551259,    -0.37612638903184098,   0.11283791670971111,    -0.026866170648035766,
    0.0052239776527585966,  -0.0008548328540738606, 0.00012055386412909232, -1.4926887630138921e-05,
    1.6481171242079271e-06, -1.655845540126569e-07, 1.6022999992314249e-08, -1.6505629942579337e-09,
    1.4417704000334425e-10,
};

static const double erfcx_c[] = {
    // erfc(x) e^(x^2) in t = (x-3)/(x+3), 1 <= x <= 6: 2^-61.3 of 1
    0.17900115118139001,     -0.32623356004316267,   0.24560380170780627,    -0.1501159365457429,
    0.071665837439557789,    -0.024392489975670513,  0.004269232694188798,   0.00070830543939444054,
    -0.0005950003257263254,  5.0218185577970138e-05, 7.1623660004956194e-05, -6.4411663565386187e-06,
    -6.5794557006424255e-06,
};

// For |x| >= 1 the result is 1 - e^-x^2 P(t). The rounding error of x^2 does not matter, because erfc is
// small against 1.
expr math_erf_f64(expr x) {
    expr a = ABS(x), near = ADD(MUL(POLY(MUL(x, x), erf_c), a), a), b = MIN(a, F64(6));
    expr t = DIV(SUB(b, F64(3)), ADD(b, F64(3))), e = exp_clamped(NEG(MUL(b, b)), 0);
    return with_sign(SELECT(LT(a, F64(1)), near, SUB(F64(1), MUL(POLY(t, erfcx_c), e))), x);
}

// erfinv(x)/x - 1 as a function of w = -log(1 - x^2). In the tails the polynomials are its difference to
// sqrt(w) - 1, which is close to it.
static const double erfinv_c[] = {
    // in w - 3.125, w <= 6.25: 2^-58.2
    0.65365456268310274,     0.24015818242558834,     -0.0060336708714269962,  -0.00074070253415455412,
    0.00018673420802052895,  -1.3882523394197789e-05, -1.3654691772634279e-06, 4.2347881712124565e-07,
    -2.9070389895890413e-08, -4.1126606435479841e-09, 1.0512225669475361e-09,  -5.4142945922677607e-11,
    -1.2978504143055684e-11, 2.6305033513548165e-12,  -8.0792931015399068e-14, -4.0015877461458298e-14,
    6.5333448460614255e-15,  -3.9880543620065273e-17, -1.2344908866961136e-16, 1.5545397780464128e-17,
    6.9569144469272022e-19,  -3.4877357775061727e-19, 1.6538158728900151e-20,  3.2195341150920276e-21,
    -3.0013975379255261e-22,
};
static const double erfinv_tail_c[] = {
    // in sqrt(w) - 3.25, 6.25 <= w <= 16: 2^-59.8
    -0.16611438950777924,    0.0052589676941654506,   0.0053709145535550907,   -0.003751208508223807,
    0.0024914420979534574,   -0.0016882755354780744,  0.00095328934166227374,  -0.00035503781336749813,
    2.403151187583228e-05,   6.8287114160864754e-05,  -4.7320673905238987e-05, 1.2465042899576412e-05,
    2.9325504617519843e-06,  -3.9857462052063893e-06, 1.481669300301946e-06,   -2.7551549450168659e-08,
    -2.4560829606340317e-07, 1.3152817515873107e-07,  -2.0820882498527293e-08, -1.5283470541565817e-08,
    7.6464092778653508e-09,
};
static const double erfinv_end_c[] = {
    // in sqrt(w) - 5, 16 <= w <= 36.2: 2^-57.3
    -0.15009359859141558,   0.010300464864545278,    -0.00013871931838044591, -0.00021503011982871055,
    7.5995278102590442e-05, -1.9681770685706134e-05, 4.5260524868430404e-06,  -9.9302950307547385e-07,
    2.290529236870601e-07,  -6.755567943441428e-08,  2.9018596698246978e-08,  -1.525631404207051e-08,
    7.8211224806616922e-09, -3.4696849335116185e-09, 1.3166855158306549e-09,  -4.3867046069129343e-10,
    6.8997555661217264e-11, 4.3166738079184341e-11,  -2.0219855837783478e-11,
};

// Adds to the root its rounding error, because s >= 4 may have an ulp twice as large as the result's.
static expr erfinv_tail(expr w) {
    expr s = SQRT(w), near = STEPS(SUB(s, F64(3.25)), erfinv_tail_c),
         far = STEPS(SUB(s, F64(5)), erfinv_end_c);
    struct pair square = product(s, s);
    expr rest = MUL(SUB(SUB(w, square.hi), square.lo), DIV(F64(0.5), s));
    return ADD(SUB(s, F64(1)), ADD(SELECT(GT(w, F64(16)), far, near), rest));
}

expr math_erfinv_f64(expr x) {
    expr w = NEG(log_sum(split_normal(MUL(SUB(F64(1), x), ADD(F64(1), x)))));
    expr p = RARE(GT(w, F64(6.25)), erfinv_tail(w), STEPS(SUB(w, F64(3.125)), erfinv_c));
    expr a = ABS(x), y = ADD(MUL(p, a), a);
    y = SELECT(LT(a, F64(1)), y, SELECT(EQ(a, F64(1)), F64(infinity), nan_f64()));
    return with_sign(y, x);
}
