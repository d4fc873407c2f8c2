// math_c64.c - the complex functions, built from those of f32, and the choice of a function by the type of
// its argument.
//
// Errors are below 1e-6 of the modulus of the result, not of each part. Branch cuts follow the sign of a zero
// as in C and NumPy: a negative zero is kept where it decides the side (hence NEG(y), never 0 - y).

#include "tile/math.h"
#include "tile/notation.h"

static const double infinity = 1.0 / 0.0;

struct complex {
    expr re, im;
};

static struct complex parts(expr z) {
    return (struct complex){RE(z), IM(z)};
}

static expr join(struct complex z) {
    return COMPLEX(z.re, z.im);
}

static struct complex times_i(struct complex z) {
    return (struct complex){NEG(z.im), z.re};
}

static struct complex over_i(struct complex z) {
    return (struct complex){z.im, NEG(z.re)};
}

static expr half(expr x) {
    return MUL(x, F32(0.5));
}

static expr is_zero(expr x) {
    return EQ(x, F32(0));
}

static expr is_infinite(expr x) {
    return EQ(ABS(x), F32(infinity));
}

static struct complex plus(struct complex z, double x) {
    return (struct complex){ADD(z.re, F32(x)), z.im};
}

static struct complex scaled(struct complex z, double by) {
    return (struct complex){MUL(z.re, F32(by)), MUL(z.im, F32(by))};
}

static expr with_sign(expr y, expr x) {
    return AS_F32(OR(AND(AS_U32(y), U32(0x7fffffff)), AND(AS_U32(x), U32(0x80000000))));
}

// Returns x*y, which is 0 for x = 0 even if y is infinite.
static expr product(expr x, expr y) {
    return MUL(x, SELECT(is_zero(x), with_sign(F32(1), y), y));
}

// Modulus ---------------------------------------------------------------------------------------------------

// re| and |im| in order, and their quotient; it is 1 if they are equal, also for 0/0 and inf/inf.
struct modulus {
    expr max, min, ratio;
};

static struct modulus modulus(struct complex z) {
    expr a = ABS(z.re), b = ABS(z.im), max = MAX(a, b), min = MIN(a, b);
    return (struct modulus){max, min, SELECT(EQ(a, b), F32(1), DIV(min, max))};
}

static expr stretch(struct modulus m) {
    return SQRT(ADD(MUL(m.ratio, m.ratio), F32(1)));
}

expr math_abs_c64(expr x) {
    struct complex z = parts(x);
    struct modulus m = modulus(z);
    expr infinite = OR(is_infinite(z.re), is_infinite(z.im)); // even if the other part is NaN
    return SELECT(infinite, F32(infinity), MUL(m.max, stretch(m)));
}

static expr unit_part(expr x, expr max, expr stretch) {
    return DIV(SELECT(EQ(ABS(x), max), with_sign(F32(1), x), DIV(x, max)), stretch);
}

expr math_sign_c64(expr x) {
    struct complex z = parts(x);
    struct modulus m = modulus(z);
    expr h = stretch(m), zero = is_zero(m.max);
    expr re = unit_part(z.re, m.max, h), im = unit_part(z.im, m.max, h);
    return COMPLEX(SELECT(zero, F32(0), re), SELECT(zero, F32(0), im));
}

// Returns 1/(a + ib) = (1 - ir)/(a + br) with r = b/a for |a| >= |b|; else the same with the parts exchanged.
static struct complex inverse(struct complex z) {
    expr a = ABS(z.re), b = ABS(z.im), wide = GE(a, b);
    expr big = SELECT(wide, z.re, z.im), small = SELECT(wide, z.im, z.re);
    expr unit = with_sign(F32(1), AS_F32(XOR(AS_U32(z.re), AS_U32(z.im))));
    expr r = SELECT(EQ(a, b), unit, DIV(small, big)), first = DIV(F32(1), ADD(big, MUL(small, r)));
    expr second = MUL(r, first);
    return (struct complex){SELECT(wide, first, second), NEG(SELECT(wide, second, first))};
}

// Computes the square root from t = sqrt((|re| + |z|)/2): it is t + i im/2t, with the parts exchanged left of
// the imaginary axis. Tiny arguments are scaled up, because a subnormal intermediate value would lose bits.
// t/2 is computed first, because |z| may overflow.
static struct complex root(struct complex z) {
    expr tiny = LT(MAX(ABS(z.re), ABS(z.im)), F32(0x1p-100)), up = SELECT(tiny, F32(0x1p24), F32(1));
    struct complex w = {MUL(z.re, up), MUL(z.im, up)};
    struct modulus m = modulus(w);
    expr eighth = F32(0.125), size = MUL(m.max, MUL(stretch(m), eighth));
    expr h = SQRT(ADD(MUL(ABS(w.re), eighth), size)), t = ADD(h, h);
    expr u = SELECT(is_zero(t), w.im, DIV(w.im, ADD(t, t))), back = SELECT(tiny, F32(0x1p-12), F32(1));
    expr left = LT(w.re, F32(0)), endless = is_infinite(z.im);
    expr re = MUL(SELECT(left, ABS(u), t), back), im = MUL(SELECT(left, with_sign(t, z.im), u), back);
    return (struct complex){SELECT(endless, F32(infinity), re), SELECT(endless, z.im, im)};
}

expr math_sqrt_c64(expr x) {
    return join(root(parts(x)));
}

expr math_rsqrt_c64(expr x) {
    return join(inverse(root(parts(x))));
}

// Exponentials ----------------------------------------------------------------------------------------------

// Returns h^2 (cos + i sin)(angle). It multiplies by h twice, because h^2 may overflow where its product with
// a small cosine does not.
static struct complex polar(expr h, expr angle) {
    expr re = MUL(MUL(math_cos_f32(angle), h), h);
    expr im = SELECT(is_zero(angle), angle, MUL(MUL(math_sin_f32(angle), h), h));
    return (struct complex){re, im};
}

expr math_exp_c64(expr x) {
    struct complex z = parts(x), y = polar(math_exp_f32(half(z.re)), z.im);
    expr nothing = EQ(z.re, F32(-infinity)); // for every angle
    return COMPLEX(SELECT(nothing, F32(0), y.re), SELECT(nothing, F32(0), y.im));
}

static struct complex sinh_parts(struct complex z) {
    expr c = math_cos_f32(z.im), s = math_sin_f32(z.im);
    return (struct complex){product(math_sinh_f32(z.re), c), product(s, math_cosh_f32(z.re))};
}

static struct complex cosh_parts(struct complex z) {
    expr sh = math_sinh_f32(z.re), s = math_sin_f32(z.im);
    return (struct complex){MUL(math_cosh_f32(z.re), math_cos_f32(z.im)),
                            SELECT(is_zero(sh), MUL(sh, s), product(s, sh))};
}

// Returns (sinh a cosh a + i sin b cos b)/(sinh^2 a + cos^2 b). a is clamped to 40, beyond which only a
// vanishing imaginary part changes.
static struct complex tanh_parts(struct complex z) {
    expr a = MIN(MAX(z.re, F32(-40)), F32(40)), sh = math_sinh_f32(a), ch = math_cosh_f32(a);
    expr s = math_sin_f32(z.im), c = math_cos_f32(z.im), d = ADD(MUL(sh, sh), MUL(c, c));
    expr end = is_infinite(z.re), re = DIV(MUL(sh, ch), d), im = DIV(MUL(s, c), d);
    return (struct complex){SELECT(end, with_sign(F32(1), z.re), re),
                            SELECT(end, with_sign(F32(0), z.im), im)};
}

expr math_sinh_c64(expr x) {
    return join(sinh_parts(parts(x)));
}

expr math_cosh_c64(expr x) {
    return join(cosh_parts(parts(x)));
}

expr math_tanh_c64(expr x) {
    return join(tanh_parts(parts(x)));
}

expr math_sin_c64(expr x) {
    return join(over_i(sinh_parts(times_i(parts(x)))));
}

expr math_cos_c64(expr x) {
    return join(cosh_parts(times_i(parts(x))));
}

expr math_tan_c64(expr x) {
    return join(over_i(tanh_parts(times_i(parts(x)))));
}

// Logarithms ------------------------------------------------------------------------------------------------

// Returns log|z|; near the unit circle from |z|^2 - 1 = (max-1)(max+1) + min^2. `less` is |re| - 1, which
// log1p computes exactly.
static expr log_modulus(struct complex z, expr less) {
    expr a = ABS(z.re), b = ABS(z.im);
    struct modulus m = modulus(z);
    expr near = AND(GT(m.max, F32(0.5)), LT(m.max, F32(2))), top = SELECT(GE(a, b), less, SUB(b, F32(1)));
    expr square = ADD(MUL(top, ADD(top, F32(2))), MUL(m.min, m.min));
    expr u = SELECT(near, square, MUL(m.ratio, m.ratio)), y = half(math_log1p_f32(u));
    return SELECT(near, y, ADD(y, math_log_f32(m.max)));
}

static struct complex log_parts(struct complex z) {
    return (struct complex){log_modulus(z, SUB(ABS(z.re), F32(1))), math_atan2_f32(z.im, z.re)};
}

expr math_log_c64(expr x) {
    return join(log_parts(parts(x)));
}

expr math_log2_c64(expr x) {
    return join(scaled(log_parts(parts(x)), 1.44269504));
}

expr math_log10_c64(expr x) {
    return join(scaled(log_parts(parts(x)), 0.434294482));
}

expr math_log1p_c64(expr x) {
    struct complex z = parts(x), w = plus(z, 1);
    expr less = SELECT(GT(z.re, F32(-1)), z.re, SUB(ABS(w.re), F32(1)));
    return COMPLEX(log_modulus(w, less), math_atan2_f32(w.im, w.re));
}

// Returns max + log(1 + e^(min - max)); max is the argument with the larger real part or, if these are equal,
// the larger imaginary part. Unlike in the real function, the rounding error of the difference is not
// corrected. Where the difference would be inf - inf, the result is max itself.
expr math_logaddexp_c64(expr a, expr b) {
    struct complex x = parts(a), y = parts(b);
    expr later = OR(GT(x.re, y.re), AND(EQ(x.re, y.re), GT(x.im, y.im)));
    struct complex max = {SELECT(later, x.re, y.re), SELECT(later, x.im, y.im)};
    struct complex min = {SELECT(later, y.re, x.re), SELECT(later, y.im, x.im)};
    expr end = AND(OR(EQ(min.re, F32(-infinity)), EQ(max.re, F32(infinity))), LE(min.re, max.re));
    struct complex more =
        parts(math_log1p_c64(math_exp_c64(COMPLEX(SUB(min.re, max.re), SUB(min.im, max.im)))));
    return COMPLEX(SELECT(end, max.re, ADD(max.re, more.re)), SELECT(end, max.im, ADD(max.im, more.im)));
}

// Returns e^(b log a); for a = 0, 1 if b = 0, 0 if b has a positive real part, else NaN.
expr math_pow_c64(expr a, expr b) {
    struct complex l = log_parts(parts(a)), n = parts(b);
    expr re = SUB(MUL(n.re, l.re), MUL(n.im, l.im)), im = ADD(MUL(n.re, l.im), MUL(n.im, l.re));
    struct complex y = polar(math_exp_f32(half(re)), im);
    expr zero = AND(is_zero(RE(a)), is_zero(IM(a))), one = AND(is_zero(n.re), is_zero(n.im));
    expr end = SELECT(GT(n.re, F32(0)), F32(0), AS_F32(U32(0x7fc00000)));
    re = SELECT(one, F32(1), SELECT(zero, end, y.re));
    return COMPLEX(re, SELECT(one, F32(0), SELECT(zero, end, y.im)));
}

// Inverse functions -----------------------------------------------------------------------------------------

// W. Kahan's formulas compute each part from the square roots of z - 1 and z + 1 without cancellation.
// Arguments beyond 2^100 are scaled by 2^-24, and infinities are replaced by 2^126; `extra` is added to the
// logarithm, which is too small by that.
struct tame {
    struct complex z;
    expr extra;
};

static expr tame_part(expr x, expr large) {
    expr y = SELECT(large, MUL(x, F32(0x1p-24)), x);
    return MIN(MAX(y, F32(-0x1p126)), F32(0x1p126));
}

static struct tame tame(struct complex z) {
    expr max = MAX(ABS(z.re), ABS(z.im)), large = GT(max, F32(0x1p100));
    expr extra = SELECT(EQ(max, F32(infinity)), max, SELECT(large, F32(16.6355323), F32(0)));
    return (struct tame){{tame_part(z.re, large), tame_part(z.im, large)}, extra};
}

static expr asinh_tamed(expr x, expr extra) {
    expr y = math_asinh_f32(x);
    return ADD(y, with_sign(extra, x));
}

struct roots {
    struct complex minus, plus; // sqrt(1 - z), sqrt(1 + z)
    expr extra;
};

static struct roots roots(struct complex z) {
    struct tame t = tame(z);
    struct complex minus = {SUB(F32(1), t.z.re), NEG(t.z.im)};
    return (struct roots){root(minus), root(plus(t.z, 1)), t.extra};
}

static expr asin_imaginary(struct roots r) {
    return asinh_tamed(SUB(MUL(r.minus.re, r.plus.im), MUL(r.minus.im, r.plus.re)), r.extra);
}

static struct complex asin_parts(struct complex z) {
    struct roots r = roots(z);
    expr across = SUB(MUL(r.minus.re, r.plus.re), MUL(r.minus.im, r.plus.im));
    return (struct complex){math_atan2_f32(tame(z).z.re, across), asin_imaginary(r)};
}

expr math_asin_c64(expr x) {
    return join(asin_parts(parts(x)));
}

expr math_asinh_c64(expr x) {
    return join(over_i(asin_parts(times_i(parts(x)))));
}

expr math_acos_c64(expr x) {
    struct roots r = roots(parts(x));
    expr re = math_atan2_f32(r.minus.re, r.plus.re);
    return COMPLEX(ADD(re, re), NEG(asin_imaginary(r)));
}

expr math_acosh_c64(expr x) {
    struct tame t = tame(parts(x));
    struct complex p = root(plus(t.z, -1)), q = root(plus(t.z, 1));
    expr re = asinh_tamed(ADD(MUL(p.re, q.re), MUL(p.im, q.im)), t.extra), im = math_atan2_f32(p.im, q.re);
    return COMPLEX(re, ADD(im, im));
}

// Returns log1p(4a/((1-a)^2 + b^2))/4. At the pole, where b^2 may underflow, it is log(2/b)/2, computed from
// 2^-24 * 2/b, because 2/b may overflow.
static expr atanh_real(expr a, expr b) {
    expr d = SUB(F32(1), a), pole = AND(is_zero(d), LT(b, F32(0x1p-60)));
    expr up = SELECT(pole, F32(0x1p-23), MUL(a, F32(4))), down = SELECT(pole, b, ADD(MUL(d, d), MUL(b, b)));
    expr l = math_log1p_f32(DIV(up, down));
    return SELECT(pole, ADD(half(l), F32(8.31776617)), MUL(l, F32(0.25)));
}

// The imaginary part is half the angle of (1-a)(1+a) - b^2 + 2ib. a and b are clamped to 2^120, beyond which
// the result does not change.
static struct complex atanh_parts(struct complex z) {
    expr limit = F32(0x1p120), a = MIN(ABS(z.re), limit), b = MIN(ABS(z.im), limit);
    expr angle = math_atan2_f32(ADD(b, b), SUB(MUL(SUB(F32(1), a), ADD(F32(1), a)), MUL(b, b)));
    return (struct complex){with_sign(atanh_real(a, b), z.re), with_sign(half(angle), z.im)};
}

expr math_atanh_c64(expr x) {
    return join(atanh_parts(parts(x)));
}

expr math_atan_c64(expr x) {
    return join(over_i(atanh_parts(times_i(parts(x)))));
}

// The choice ------------------------------------------------------------------------------------------------

#define REAL_UNARY(fn)                                                   \
    expr math_##fn(expr x) {                                             \
        return tile_is_f64(x) ? math_##fn##_f64(x) : math_##fn##_f32(x); \
    }
#define REAL_BINARY(fn)                                                        \
    expr math_##fn(expr a, expr b) {                                           \
        return tile_is_f64(a) ? math_##fn##_f64(a, b) : math_##fn##_f32(a, b); \
    }
#define ANY_BINARY(fn)                                                         \
    expr math_##fn(expr a, expr b) {                                           \
        if (tile_is_c64(a))                                                    \
            return math_##fn##_c64(a, b);                                      \
        return tile_is_f64(a) ? math_##fn##_f64(a, b) : math_##fn##_f32(a, b); \
    }
#define ANY_UNARY(fn)                                                    \
    static expr real_##fn(expr x) {                                      \
        return tile_is_f64(x) ? math_##fn##_f64(x) : math_##fn##_f32(x); \
    }                                                                    \
    expr math_##fn(expr x) {                                             \
        return tile_is_c64(x) ? math_##fn##_c64(x) : real_##fn(x);       \
    }

MATH_REAL_UNARY(REAL_UNARY)
MATH_REAL_BINARY(REAL_BINARY)
MATH_UNARY(ANY_UNARY)
MATH_BINARY(ANY_BINARY)
