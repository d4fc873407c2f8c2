// math.h - functions that build the expression of a transcendental function.
//
// math_<fn>_f32, _f64 and _c64 are the formulas; math_<fn> chooses one by the type of its (first) argument.

#ifndef MATH_H
#define MATH_H

#include "tile/tile.h"

// Functions of all types; of real types alone; of c64 alone, where the real ones are ops (abs gives f32).
#define MATH_UNARY(X) \
    X(exp) X(log) X(log2) X(log10) X(log1p) X(sin) X(cos) X(tan) X(sinh) X(cosh) X(tanh) \
    X(asin) X(acos) X(atan) X(asinh) X(acosh) X(atanh) X(rsqrt)
#define MATH_REAL_UNARY(X)    X(exp2) X(expm1) X(sigmoid) X(erf) X(erfinv)
#define MATH_COMPLEX_UNARY(X) X(sqrt) X(abs) X(sign)
#define MATH_BINARY(X)        X(pow) X(logaddexp)
#define MATH_REAL_BINARY(X)   X(atan2)

#define MATH_DECLARE_UNARY(fn)   expr math_##fn(expr x), math_##fn##_f32(expr x), math_##fn##_f64(expr x);
#define MATH_DECLARE_BINARY(fn) \
    expr math_##fn(expr a, expr b), math_##fn##_f32(expr a, expr b), math_##fn##_f64(expr a, expr b);
#define MATH_DECLARE_COMPLEX(fn) expr math_##fn##_c64(expr x);
MATH_UNARY(MATH_DECLARE_UNARY)
MATH_UNARY(MATH_DECLARE_COMPLEX)
MATH_REAL_UNARY(MATH_DECLARE_UNARY)
MATH_COMPLEX_UNARY(MATH_DECLARE_COMPLEX)
MATH_BINARY(MATH_DECLARE_BINARY)
MATH_REAL_BINARY(MATH_DECLARE_BINARY)

// Returns 2^x as doc/tile.md says of exp2(): not to the last place.
expr math_quick_exp2_f32(expr x);
// Returns e^x by TILE_EXP2, within 2 ulp, or with 17 bits if `is_rough`; a result below 2^-126 may be 0.
expr math_short_exp_f32(expr x, bool is_rough);
// Returns erf(x) of an f32 that was converted from bf16, exact enough for a result in bf16.
expr math_short_erf_f32(expr x);
// Return a * b + c, and a / b, rounded once, from sums, products and a division that errs by some ulp.
expr math_exact_fma_f32(expr a, expr b, expr c), math_exact_div_f32(expr a, expr b);
// Return a to the power of b, and log(e^a + e^b), of complex numbers.
expr math_pow_c64(expr a, expr b), math_logaddexp_c64(expr a, expr b);

// Returns c[0] + c[1] x + ... of n terms, with constants of the type of x, in a form with short dependency
// chains; NULL if x is NULL.
expr math_polynomial(expr x, const double *c, int n);
// Returns the same by one fma after the other, which is slower and rounds less.
expr math_polynomial_by_steps(expr x, const double *c, int n);
#undef MATH_DECLARE_UNARY
#undef MATH_DECLARE_BINARY
#undef MATH_DECLARE_COMPLEX

#endif
