// compare.c - whether arrays are equal, or nearly so.

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

// |a - b|. The difference of integers is taken so that unsigned ones do not wrap around.
static zl_array distance(zl_array a, zl_array b) {
    zl_dtype dtype = dtype_common(2, (zl_array[]){a, b});
    if (dtype_is_inexact(dtype))
        return zl_abs(zl_subtract(a, b));
    if (dtype == ZL_BOOL)
        return zl_bitwise_xor(a, b);
    return zl_subtract(zl_maximum(a, b), zl_minimum(a, b));
}

static zl_array isclose(const char *function, zl_array a, zl_array b, double rtol, double atol,
                        bool equal_nan) {
    if (!op_check_broadcast(function, a, b))
        return NULL;
    // Numbers of float32, not weak ones: in float16 an atol of 1e-8 would be 0.
    zl_array bound = zl_add(op_number(ZL_FLOAT32, atol), zl_multiply(op_number(ZL_FLOAT32, rtol), zl_abs(b)));
    zl_array close = zl_less_equal(distance(a, b), bound);
    close =
        zl_logical_or(zl_logical_and(close, zl_isfinite(b)), zl_equal(a, b)); // infinities: only when equal
    return equal_nan ? zl_logical_or(close, both_nan(a, b)) : close;
}

zl_array zl_isclose(zl_array a, zl_array b, double rtol, double atol, bool equal_nan) {
    return isclose("zl_isclose", a, b, rtol, atol, equal_nan);
}
OP_SIGNATURE(zl_isclose, "compare",
             "Whether |a - b| <= atol + rtol * |b|, element by element. Infinities are close when they are "
             "equal; NaN to NaN if equal_nan.",
             P_ARRAY(a), P_ARRAY(b), P_DOUBLE(rtol, "1e-05"), P_DOUBLE(atol, "1e-08"),
             P_BOOL(equal_nan, "False"));

zl_array zl_allclose(zl_array a, zl_array b, double rtol, double atol, bool equal_nan) {
    return zl_all(isclose("zl_allclose", a, b, rtol, atol, equal_nan));
}
OP_SIGNATURE(zl_allclose, "compare", "Whether zl_isclose holds for all elements.", P_ARRAY(a), P_ARRAY(b),
             P_DOUBLE(rtol, "1e-05"), P_DOUBLE(atol, "1e-08"), P_BOOL(equal_nan, "False"));
