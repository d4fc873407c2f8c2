// compare.c - compares arrays: exactly, or within tolerances.

#include "op/ops.h"

static zl_array both_nan(zl_array a, zl_array b) {
    return zl_logical_and(zl_isnan(a), zl_isnan(b));
}

zl_array zl_array_equal(zl_array a, zl_array b, bool equal_nan) {
    if (!a || !b)
        return NULL;
    if (!shape_equal(a->ndim, a->dim, b->ndim, b->dim))
        return op_number(ZL_BOOL, 0);
    zl_array same = zl_equal(a, b);
    return zl_all(equal_nan ? zl_logical_or(same, both_nan(a, b)) : same);
}
OP_SIGNATURE(zl_array_equal, "compare",
             "Whether a and b have the same shape and equal elements; NaN equals NaN if equal_nan.",
             P_ARRAY(a), P_ARRAY(b), P_BOOL(equal_nan, "False"));

// Casts two integer arrays to float64, as NumPy does, because their differences could overflow and float32
// has too few digits. Other arrays are compared in their common dtype.
static bool comparable(zl_array *a, zl_array *b) {
    if (dtype_is_inexact((zl_dtype)(*a)->dtype) || dtype_is_inexact((zl_dtype)(*b)->dtype))
        return true;
    *a = zl_astype(*a, ZL_FLOAT64);
    *b = zl_astype(*b, ZL_FLOAT64);
    return *a && *b;
}

static zl_array isclose(const char *function, zl_array a, zl_array b, double rtol, double atol,
                        bool equal_nan) {
    if (!op_check_broadcast(function, a, b) || !comparable(&a, &b))
        return NULL;
    // The tolerances are not weak numbers, since in float16 an atol of 1e-8 would be 0.
    bool is_double = dtype_common(2, (zl_array[]){a, b}) == ZL_FLOAT64;
    zl_dtype dtype = is_double ? ZL_FLOAT64 : ZL_FLOAT32;
    zl_array bound = zl_add(op_number(dtype, atol), zl_multiply(op_number(dtype, rtol), zl_abs(b)));
    zl_array close = zl_less_equal(zl_abs(zl_subtract(a, b)), bound);
    // Infinities are close only if they are equal.
    close = zl_logical_or(zl_logical_and(close, zl_isfinite(b)), zl_equal(a, b));
    return equal_nan ? zl_logical_or(close, both_nan(a, b)) : close;
}

zl_array zl_isclose(zl_array a, zl_array b, double rtol, double atol, bool equal_nan) {
    return isclose("zl_isclose", a, b, rtol, atol, equal_nan);
}
OP_SIGNATURE(
    zl_isclose, "compare",
    "Whether |a - b| <= atol + rtol * |b|, element by element; of two integers in float64. Infinities are "
    "close when they are equal; NaN to NaN if equal_nan.",
    P_ARRAY(a), P_ARRAY(b), P_DOUBLE(rtol, "1e-05"), P_DOUBLE(atol, "1e-08"), P_BOOL(equal_nan, "False"));

zl_array zl_allclose(zl_array a, zl_array b, double rtol, double atol, bool equal_nan) {
    return zl_all(isclose("zl_allclose", a, b, rtol, atol, equal_nan));
}
OP_SIGNATURE(zl_allclose, "compare", "Whether zl_isclose holds for all elements.", P_ARRAY(a), P_ARRAY(b),
             P_DOUBLE(rtol, "1e-05"), P_DOUBLE(atol, "1e-08"), P_BOOL(equal_nan, "False"));
