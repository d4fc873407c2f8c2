// logic.c - truth values, tests of numbers, and small formulas composed of elementwise rows; divmod.

#include <float.h>
#include <math.h>

#include "op/ops.h"

// Truth -----------------------------------------------------------------------------------------------------

zl_array zl_logical_not(zl_array x) {
    return zl_bitwise_invert(zl_astype(x, ZL_BOOL));
}
OP_SIGNATURE(zl_logical_not, "logic", "Whether x is zero.", P_ARRAY(x));

zl_array zl_logical_and(zl_array a, zl_array b) {
    if (!op_check_broadcast("zl_logical_and", a, b))
        return NULL;
    return zl_bitwise_and(zl_astype(a, ZL_BOOL), zl_astype(b, ZL_BOOL));
}
OP_SIGNATURE(zl_logical_and, "logic", "Whether neither a nor b is zero.", P_ARRAY(a), P_ARRAY(b));

zl_array zl_logical_or(zl_array a, zl_array b) {
    if (!op_check_broadcast("zl_logical_or", a, b))
        return NULL;
    return zl_bitwise_or(zl_astype(a, ZL_BOOL), zl_astype(b, ZL_BOOL));
}
OP_SIGNATURE(zl_logical_or, "logic", "Whether a or b differs from zero.", P_ARRAY(a), P_ARRAY(b));

zl_array zl_logical_xor(zl_array a, zl_array b) {
    if (!op_check_broadcast("zl_logical_xor", a, b))
        return NULL;
    return zl_bitwise_xor(zl_astype(a, ZL_BOOL), zl_astype(b, ZL_BOOL));
}
OP_SIGNATURE(zl_logical_xor, "logic", "Whether exactly one of a and b differs from zero.", P_ARRAY(a),
             P_ARRAY(b));

// Tests of numbers ------------------------------------------------------------------------------------------

static zl_array truth_like(zl_array x, bool value) {
    return zl_full((zl_shape){x->dim, x->ndim}, op_number(ZL_BOOL, value), ZL_BOOL);
}

static bool is_exact(zl_array x) {
    return !dtype_is_inexact((zl_dtype)x->dtype);
}

zl_array zl_isnan(zl_array x) {
    if (!x)
        return NULL;
    return is_exact(x) ? truth_like(x, false) : zl_not_equal(x, x);
}
OP_SIGNATURE(zl_isnan, "logic", "Whether x is NaN; of a complex x, whether a part is.", P_ARRAY(x));

zl_array zl_isinf(zl_array x) {
    if (!x)
        return NULL;
    if (x->dtype == ZL_COMPLEX64)
        return zl_logical_or(zl_isinf(zl_real(x)), zl_isinf(zl_imag(x)));
    return is_exact(x) ? truth_like(x, false) : zl_equal(zl_abs(x), zl_scalar(INFINITY));
}
OP_SIGNATURE(zl_isinf, "logic", "Whether x is infinite; of a complex x, whether a part is.", P_ARRAY(x));

zl_array zl_isfinite(zl_array x) {
    if (!x)
        return NULL;
    if (x->dtype == ZL_COMPLEX64)
        return zl_logical_and(zl_isfinite(zl_real(x)), zl_isfinite(zl_imag(x)));
    return is_exact(x) ? truth_like(x, true) : zl_less(zl_abs(x), zl_scalar(INFINITY));
}
OP_SIGNATURE(zl_isfinite, "logic", "Whether x is neither infinite nor NaN.", P_ARRAY(x));

zl_array zl_isposinf(zl_array x) {
    if (!x)
        return NULL;
    return is_exact(x) ? truth_like(x, false) : zl_equal(x, zl_scalar(INFINITY));
}
OP_SIGNATURE(zl_isposinf, "logic", "Whether x is positive infinity.", P_ARRAY(x));

zl_array zl_isneginf(zl_array x) {
    if (!x)
        return NULL;
    return is_exact(x) ? truth_like(x, false) : zl_equal(x, zl_scalar(-INFINITY));
}
OP_SIGNATURE(zl_isneginf, "logic", "Whether x is negative infinity.", P_ARRAY(x));

static double largest(zl_dtype dtype) {
    switch (dtype) {
    case ZL_FLOAT16: return 65504;
    case ZL_BFLOAT16: return 0x1.fep127;
    case ZL_FLOAT64: return DBL_MAX;
    default: return FLT_MAX;
    }
}

zl_array zl_nan_to_num(zl_array x, double nan, double posinf, double neginf) {
    if (!x || is_exact(x))
        return op_same(x);
    zl_dtype dtype = (zl_dtype)x->dtype;
    if (dtype == ZL_COMPLEX64)
        return error_set(ZL_ERROR_DTYPE, "zl_nan_to_num: complex64 is not possible; real numbers are");
    zl_array high = op_number(dtype, isnan(posinf) ? largest(dtype) : posinf);
    zl_array low = op_number(dtype, isnan(neginf) ? -largest(dtype) : neginf);
    zl_array y = zl_where(zl_isnan(x), op_number(dtype, nan), x);
    return zl_where(zl_isneginf(x), low, zl_where(zl_isposinf(x), high, y));
}
OP_SIGNATURE(zl_nan_to_num, "logic",
             "x with NaN and the infinities replaced by numbers. A posinf or neginf that is NaN stands for "
             "the largest or the smallest number of the dtype.",
             P_ARRAY(x), P_DOUBLE(nan, "0"), P_DOUBLE(posinf, "nan"), P_DOUBLE(neginf, "nan"));

// Small formulas --------------------------------------------------------------------------------------------

zl_array zl_positive(zl_array x) {
    return op_same(x);
}
OP_SIGNATURE(zl_positive, "logic", "x itself.", P_ARRAY(x));

zl_array zl_clip(zl_array x, zl_array a_min, zl_array a_max) {
    if (!op_check_broadcast("zl_clip", x, a_min) || !op_check_broadcast("zl_clip", x, a_max) ||
        !op_check_broadcast("zl_clip", a_min, a_max))
        return NULL;
    return zl_minimum(zl_maximum(x, a_min), a_max);
}
OP_SIGNATURE(zl_clip, "logic",
             "x, but not below a_min nor above a_max. With one bound only it is zl_maximum or zl_minimum.",
             P_ARRAY(x), P_ARRAY(a_min), P_ARRAY(a_max));

// At 0 decimals the rows do it. Else the number is scaled, in float32 for integers, as MLX does.
zl_array zl_round(zl_array x, int decimals) {
    if (x && x->dtype == ZL_COMPLEX64)
        return error_set(ZL_ERROR_DTYPE, "zl_round: complex64 is not possible; real numbers are");
    if (!x || (decimals == 0 && is_exact(x)))
        return op_same(x);
    if (decimals == 0)
        return zl_rint(x);
    zl_dtype dtype = (zl_dtype)x->dtype;
    double power = pow(10, decimals);
    zl_array scaled = zl_multiply(zl_astype(x, op_float_dtype(dtype)), zl_scalar(power));
    return zl_astype(zl_multiply(zl_rint(scaled), zl_scalar(1 / power)), dtype);
}
OP_SIGNATURE(zl_round, "logic",
             "x rounded to a number of decimals, to the even one of two that are as near; negative decimals "
             "round to tens, hundreds and so on.",
             P_ARRAY(x), P_INT(decimals, "0"));

static zl_array scaled_by(zl_array x, double factor) {
    return x ? zl_multiply(zl_astype(x, op_float_dtype((zl_dtype)x->dtype)), zl_scalar(factor)) : NULL;
}

zl_array zl_degrees(zl_array x) {
    return scaled_by(x, 180 / M_PI);
}
OP_SIGNATURE(zl_degrees, "logic", "An angle of x radians in degrees.", P_ARRAY(x));

zl_array zl_radians(zl_array x) {
    return scaled_by(x, M_PI / 180);
}
OP_SIGNATURE(zl_radians, "logic", "An angle of x degrees in radians.", P_ARRAY(x));

// divmod: a call with two outputs ---------------------------------------------------------------------------

// a and b of one shape and dtype. out[0]: quotient, out[1]: remainder.
static bool divide(zl_array a, zl_array b, zl_array *out) {
    struct array_spec spec = {.dtype = (zl_dtype)a->dtype, .ndim = a->ndim, .dim = a->dim};
    out[0] = graph_call(&op_divmod, 2, (zl_array[]){a, b}, 0, NULL, 2, (struct array_spec[]){spec, spec});
    out[1] = out[0] ? call_output(out[0]->call, 1) : NULL;
    return out[0] != NULL;
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    (void)c;
    zl_array pair[2];
    return op_broadcast("zl_divmod", 2, in, pair) && divide(pair[0], pair[1], out);
}

// The quotient is constant in pieces; a - q * b remains.
static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    if (!cotangent[1])
        return NULL;
    return input == 0 ? op_same(cotangent[1]) : zl_negative(zl_multiply(cotangent[1], call_output(c, 0)));
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    zl_array da = tangent[0], qdb = tangent[1] ? zl_multiply(tangent[1], call_output(c, 0)) : NULL;
    out[0] = NULL;
    out[1] = da;
    if (tangent[1])
        out[1] = da ? zl_subtract(da, qdb) : zl_negative(qdb);
    return out[1] || (!tangent[0] && !tangent[1]);
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    if (!op_vmap_elementwise(c, in, axis, out, out_axis))
        return false;
    out_axis[1] = out_axis[0];
    return true;
}

const struct op op_divmod = {
    .name = "divmod",
    .kind = OP_OTHER,
    .record = record,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
};

bool zl_divmod(zl_array a, zl_array b, zl_array *out) {
    if (!op_check_out("zl_divmod", 2, out) || !a || !b)
        return false;
    zl_dtype dtype = dtype_common(2, (zl_array[]){a, b});
    if (dtype == ZL_COMPLEX64)
        return error_false(ZL_ERROR_DTYPE, "zl_divmod: complex64 is not possible; real numbers are");
    zl_array pair[2] = {zl_astype(a, dtype), zl_astype(b, dtype)};
    return op_broadcast("zl_divmod", 2, pair, pair) && divide(pair[0], pair[1], out);
}
OP_SIGNATURE_BOOL(zl_divmod, "logic",
                  "floor_divide(a, b) in out[0] and remainder(a, b) in out[1], computed together.",
                  P_ARRAY(a), P_ARRAY(b), P_OUTPUT(out));
