// condense.c - reduces matrices to tridiagonal, bidiagonal or Hessenberg form, which has the same eigenvalues
// or singular values.

#include "device/cpu/linalg/linalg.h"

#include <math.h>

#define CONDENSE(name)   name##_f32
#define CONDENSE_TYPE    float
#define CONDENSE_NOTHING 0x1p-220
#include "device/cpu/linalg/condense_values.h"
#define CONDENSE(name)   name##_f64
#define CONDENSE_TYPE    double
#define CONDENSE_NOTHING 0x1p-1000
#include "device/cpu/linalg/condense_values.h"

void cpu_tridiagonal(zl_dtype dtype, int n, void *a, const struct condensed *c) {
    if (dtype == ZL_FLOAT64)
        tridiagonal_f64(n, a, c->d, c->e, c->tau, c->workspace);
    else
        tridiagonal_f32(n, a, c->d, c->e, c->tau, c->workspace);
}

void cpu_bidiagonal(zl_dtype dtype, int m, int n, void *a, const struct condensed *c) {
    if (dtype == ZL_FLOAT64)
        bidiagonal_f64(m, n, a, c->d, c->e, c->tau, c->tau_row, c->workspace);
    else
        bidiagonal_f32(m, n, a, c->d, c->e, c->tau, c->tau_row, c->workspace);
}

void cpu_hessenberg(zl_dtype dtype, int64_t n, void *a, void *workspace) {
    if (dtype == ZL_FLOAT64)
        hessenberg_f64(n, a, workspace);
    else
        hessenberg_f32(n, a, workspace);
}

#define NORMALIZE(name, type, magnitude, most)                               \
    static int name(type *a, int64_t count) {                                \
        type largest = 0;                                                    \
        for (int64_t i = 0; i < count; i++)                                  \
            largest = magnitude(a[i]) > largest ? magnitude(a[i]) : largest; \
        int exponent = largest > 0 ? ilogb((double)largest) : 0;             \
        if (-(most) < exponent && exponent < (most))                         \
            return 0;                                                        \
        for (int64_t i = 0; i < count; i++)                                  \
            a[i] = (type)scalbn((double)a[i], -exponent);                    \
        return exponent;                                                     \
    }
NORMALIZE(normalize_f32, float, fabsf, 48)
NORMALIZE(normalize_f64, double, fabs, 400)

int cpu_normalize(zl_dtype dtype, void *a, int64_t count) {
    return dtype == ZL_FLOAT64 ? normalize_f64(a, count) : normalize_f32(a, count);
}

void cpu_scale_back(zl_dtype dtype, void *values, int64_t count, int exponent) {
    for (int64_t i = 0; exponent && i < count; i++)
        if (dtype == ZL_FLOAT64)
            ((double *)values)[i] = scalbn(((double *)values)[i], exponent);
        else
            ((float *)values)[i] = scalbnf(((float *)values)[i], exponent);
}
