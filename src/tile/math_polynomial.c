// math_polynomial.c - evaluates polynomials with short dependency chains, so that CPUs do not wait for each
// step.

#include "tile/math.h"
#include "tile/notation.h"

enum { TERMS = 32, SHORT = 4 };

expr math_polynomial_by_steps(expr x, const double *c, int n) {
    expr p = x ? tile_const(x->type, c[n - 1]) : NULL;
    for (int i = n - 2; p && i >= 0; i--)
        p = FMA(p, x, tile_const(x->type, c[i]));
    return p;
}

// Estrin's scheme: each two neighbouring terms become one term of a polynomial in x^2, until one is left.
static expr by_pairs(expr x, const double *c, int n) {
    expr term[TERMS];
    for (int i = 0; i < n; i++)
        term[i] = tile_const(x->type, c[i]);
    for (; n > 1; n = (n + 1) / 2, x = n > 1 ? MUL(x, x) : x)
        for (int i = 0; i < (n + 1) / 2; i++)
            term[i] = 2 * i + 1 < n ? FMA(term[2 * i + 1], x, term[2 * i]) : term[2 * i];
    return term[0];
}

// The last step is kept apart, because its rounding is that of the result.
expr math_polynomial(expr x, const double *c, int n) {
    if (!x)
        return NULL;
    if (n <= SHORT || n > TERMS)
        return math_polynomial_by_steps(x, c, n);
    return FMA(by_pairs(x, c + 1, n - 1), x, tile_const(x->type, c[0]));
}
