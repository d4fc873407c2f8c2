// logic.c - logical ops, tests such as isnan, small formulas composed of elementwise ops, and divmod.

#include <math.h>

#include "op/ops.h"

// Truth -----------------------------------------------------------------------------------------------------

zl_array zl_logical_not(zl_array a) {
    return zl_bitwise_invert(zl_astype(a, ZL_BOOL));
}
OP_SIGNATURE(zl_logical_not, "logic", "Whether a is zero.", P_ARRAY(a));

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

zl_array zl_isnan(zl_array a) {
    if (!a)
        return NULL;
    return is_exact(a) ? truth_like(a, false) : zl_not_equal(a, a);
}
OP_SIGNATURE(zl_isnan, "logic", "Whether a is NaN; of a complex a, whether a part is.", P_ARRAY(a));

zl_array zl_isinf(zl_array a) {
    if (!a)
        return NULL;
    if (a->dtype == ZL_COMPLEX64)
        return zl_logical_or(zl_isinf(zl_real(a)), zl_isinf(zl_imag(a)));
    return is_exact(a) ? truth_like(a, false) : zl_equal(zl_abs(a), zl_scalar(INFINITY));
}
OP_SIGNATURE(zl_isinf, "logic", "Whether a is infinite; of a complex a, whether a part is.", P_ARRAY(a));

zl_array zl_isfinite(zl_array a) {
    if (!a)
        return NULL;
    if (a->dtype == ZL_COMPLEX64)
        return zl_logical_and(zl_isfinite(zl_real(a)), zl_isfinite(zl_imag(a)));
    return is_exact(a) ? truth_like(a, true) : zl_less(zl_abs(a), zl_scalar(INFINITY));
}
OP_SIGNATURE(zl_isfinite, "logic", "Whether a is neither infinite nor NaN.", P_ARRAY(a));

zl_array zl_isposinf(zl_array a) {
    if (!a)
        return NULL;
    return is_exact(a) ? truth_like(a, false) : zl_equal(a, zl_scalar(INFINITY));
}
OP_SIGNATURE(zl_isposinf, "logic", "Whether a is positive infinity.", P_ARRAY(a));

zl_array zl_isneginf(zl_array a) {
    if (!a)
        return NULL;
    return is_exact(a) ? truth_like(a, false) : zl_equal(a, zl_scalar(-INFINITY));
}
OP_SIGNATURE(zl_isneginf, "logic", "Whether a is negative infinity.", P_ARRAY(a));

zl_array zl_nan_to_num(zl_array a, double nan, double posinf, double neginf) {
    if (!a || is_exact(a))
        return op_same(a);
    zl_dtype dtype = (zl_dtype)a->dtype;
    if (dtype == ZL_COMPLEX64)
        return error_set(ZL_ERROR_DTYPE, "zl_nan_to_num: complex64 is not possible; real numbers are");
    zl_array high = op_number(dtype, isnan(posinf) ? op_largest(dtype) : posinf);
    zl_array low = op_number(dtype, isnan(neginf) ? -op_largest(dtype) : neginf);
    zl_array y = zl_where(zl_isnan(a), op_number(dtype, nan), a);
    return zl_where(zl_isneginf(a), low, zl_where(zl_isposinf(a), high, y));
}
OP_SIGNATURE(zl_nan_to_num, "logic",
             "a with NaN and the infinities replaced by numbers. A posinf or neginf that is NaN stands for "
             "the largest or the smallest number of the dtype.",
             P_ARRAY(a), P_DOUBLE(nan, "0"), P_DOUBLE(posinf, "None"), P_DOUBLE(neginf, "None"));

// Small formulas --------------------------------------------------------------------------------------------

zl_array zl_positive(zl_array a) {
    return op_same(a);
}
OP_SIGNATURE(zl_positive, "logic", "a itself.", P_ARRAY(a));

zl_array zl_clip(zl_array a, zl_array a_min, zl_array a_max) {
    if (!a || !op_check_optional(a_min) || !op_check_optional(a_max))
        return NULL;
    if (!a_min && !a_max)
        return error_set(ZL_ERROR_VALUE, "zl_clip: neither a_min nor a_max is given: one bound is needed");
    if ((a_min && !op_check_broadcast("zl_clip", a, a_min)) ||
        (a_max && !op_check_broadcast("zl_clip", a, a_max)) ||
        (a_min && a_max && !op_check_broadcast("zl_clip", a_min, a_max)))
        return NULL;
    zl_array y = a_min ? zl_maximum(a, a_min) : a;
    return a_max ? zl_minimum(y, a_max) : y;
}
OP_SIGNATURE(zl_clip, "logic",
             "a, but not below a_min nor above a_max. One of the bounds may be NULL: there is none.",
             P_ARRAY(a), P_NULLABLE(a_min), P_NULLABLE(a_max));

// With 0 decimals, this is the elementwise op. Otherwise the number is scaled, for integers in float32 as in
// MLX.
zl_array zl_round(zl_array a, int decimals) {
    if (!a || (decimals == 0 && is_exact(a)))
        return op_same(a);
    if (a->dtype == ZL_COMPLEX64) {
        zl_array parts = zl_view(zl_expand_dims(zl_stop_gradient(a), ZL_AXES(-1)), ZL_FLOAT32);
        return zl_squeeze(zl_view(zl_round(parts, decimals), ZL_COMPLEX64), ZL_AXES(-1));
    }
    if (decimals == 0)
        return zl_rint(a);
    zl_dtype dtype = (zl_dtype)a->dtype;
    double power = pow(10, decimals);
    zl_array scaled = zl_multiply(zl_astype(a, op_float_dtype(dtype)), zl_scalar(power));
    return zl_astype(zl_multiply(zl_rint(scaled), zl_scalar(1 / power)), dtype);
}
OP_SIGNATURE(zl_round, "logic",
             "a rounded to a number of decimals, to the even one of two that are as near; negative decimals "
             "round to tens, hundreds and so on.",
             P_ARRAY(a), P_INT(decimals, "0"));

static zl_array scaled_by(zl_array x, double factor) {
    return x ? zl_multiply(zl_astype(x, op_float_dtype((zl_dtype)x->dtype)), zl_scalar(factor)) : NULL;
}

zl_array zl_degrees(zl_array a) {
    return scaled_by(a, 180 / M_PI);
}
OP_SIGNATURE(zl_degrees, "logic", "An angle of a radians in degrees.", P_ARRAY(a));

zl_array zl_radians(zl_array a) {
    return scaled_by(a, M_PI / 180);
}
OP_SIGNATURE(zl_radians, "logic", "An angle of a degrees in radians.", P_ARRAY(a));

// divmod: a call with two outputs ---------------------------------------------------------------------------

enum tile_op op_quotient_row(zl_dtype dtype) {
    return tile_row_takes(TILE_QUOT, dtype) ? TILE_QUOT : TILE_FLOORDIV;
}

// a and b have the same shape and dtype. out[0]: quotient, out[1]: remainder.
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

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    if (!op_vmap_elementwise(c, in, axis, out, out_axis))
        return false;
    out_axis[1] = out_axis[0];
    return true;
}

static bool fits(const struct call *c, const zl_array *in) {
    return op_has(c, 2, 0) && in[0]->dtype == in[1]->dtype && in[0]->dtype != ZL_COMPLEX64 &&
           in[0]->dtype != ZL_BOOL;
}

const struct op op_divmod = {
    .name = "divmod",
    .kind = OP_OTHER,
    .outputs = 2,
    .record = record,
    .fits = fits,
    .vjp = op_vjp_zero, // as in MLX, also for the remainder
    .jvp = op_jvp_zero,
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
OP_SIGNATURE_BOOL(
    zl_divmod, "logic",
    "In out[0] how many times b goes into a, rounded down, in out[1] zl_remainder(a, b), computed together; "
    "constants to gradients. out[0] is zl_quotient(a, b) of floats, zl_floor_divide(a, b) of integers.",
    P_ARRAY(a), P_ARRAY(b), P_OUTPUTS(out, "2"));
