// element_ops.h - operations on two elements of each type, for loops over single elements. Integers wrap
// around and NaN is propagated; 16-bit floats are computed in float and rounded.

#ifndef ELEMENT_OPS_H
#define ELEMENT_OPS_H

#include "graph/graph.h"

typedef struct {
    float re, im;
} complex64;
typedef uint16_t float16;
typedef uint16_t bfloat16;

#define SET_OF(a, b)    (b)
#define ADD_OF(a, b)    ((a) + (b))
#define PROD_OF(a, b)   ((a) * (b))
#define MAX_WINS(a, b)  ((a) < (b) || (b) != (b) ? (b) : (a))
#define MIN_WINS(a, b)  ((b) < (a) || (b) != (b) ? (b) : (a))
#define OR_OF(a, b)     ((a) | (b))
#define AND_OF(a, b)    ((a) & (b))
#define F16(operation)  half_from_float(operation(half_to_float(a), half_to_float(b)))
#define BF16(operation) bfloat_from_float(operation(bfloat_to_float(a), bfloat_to_float(b)))

static inline complex64 complex_add(complex64 a, complex64 b) {
    return (complex64){a.re + b.re, a.im + b.im};
}

static inline complex64 complex_prod(complex64 a, complex64 b) {
    return (complex64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static inline bool complex_is_nan(complex64 a) {
    return a.re != a.re || a.im != a.im;
}

// Compares the real parts, then the imaginary ones.
static inline bool complex_less(complex64 a, complex64 b) {
    return a.re < b.re || (a.re == b.re && a.im < b.im);
}

static inline complex64 complex_max(complex64 a, complex64 b) {
    return complex_is_nan(b) || (complex_less(a, b) && !complex_is_nan(a)) ? b : a;
}

static inline complex64 complex_min(complex64 a, complex64 b) {
    return complex_is_nan(b) || (complex_less(b, a) && !complex_is_nan(a)) ? b : a;
}

#endif
