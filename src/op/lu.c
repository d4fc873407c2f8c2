// lu.c - LU factorisation: matrices as products of a lower and an upper triangular one, with swapped rows;
// determinants.

#include <math.h>

#include "op/ops.h"

enum { FACTORS, SWAPS, ROWS, OUTPUTS };

static bool factor(zl_array a, zl_array *out) {
    int64_t m = a->dim[a->ndim - 2], n = a->dim[a->ndim - 1];
    const struct factor_output f[] = {
        {(zl_dtype)a->dtype, 2, m, n}, {ZL_UINT32, 1, 1, MIN_OF(m, n)}, {ZL_UINT32, 1, 1, m}};
    if (a->size)
        return op_factor("zl_linalg_lu", &op_lu, a, 0, NULL, OUTPUTS, f, out);
    out[FACTORS] = op_same(a);
    out[SWAPS] = zl_squeeze(op_eyes(a, 1, f[SWAPS].cols, ZL_UINT32), ZL_AXES(-2));
    out[ROWS] =
        zl_add(zl_squeeze(op_eyes(a, m, 1, ZL_UINT32), ZL_AXES(-1)), zl_arange_int(0, m, 1, ZL_UINT32));
    return out[FACTORS] && out[SWAPS] && out[ROWS];
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    (void)c;
    return factor(in[0], out);
}

static bool fits(const struct call *c, const zl_array *in) {
    return op_fits_factor(c, in, 0, false, false);
}

const struct op op_lu = {
    .name = "lu",
    .kind = OP_OTHER,
    .outputs = 3,
    .record = record,
    .fits = fits,
    .vmap = op_vmap_factor,
};

bool zl_linalg_lu_factor(zl_array a, zl_array *out) {
    zl_array part[OUTPUTS];
    if (!op_check_out("zl_linalg_lu_factor", 2, out) || !a ||
        !op_check_matrix("zl_linalg_lu_factor", a, false, false) || !factor(a, part))
        return false;
    out[0] = part[FACTORS];
    out[1] = part[SWAPS];
    return true;
}
OP_SIGNATURE_BOOL(
    zl_linalg_lu_factor, "linalg",
    "Both triangular factors of a in out[0], the ones of the lower one's diagonal left out, and in out[1], "
    "as uint32, which row each row was swapped with, one after the other.",
    P_ARRAY(a), P_OUTPUTS(out, "2"));

// Returns the first `count` elements along an axis, a negative number that counts from the end.
static zl_array first_of(zl_array x, int axis, int64_t count) {
    zl_array part[2];
    if (!x || x->dim[x->ndim + axis] == count)
        return x;
    return zl_split_at(x, ZL_SHAPE(count), axis, part) ? part[0] : NULL;
}

static bool again_linalg_lu(const union op_value *v, zl_array *out) {
    return zl_linalg_lu(v[0].array, out);
}

bool zl_linalg_lu(zl_array a, zl_array *out) {
    bool ok;
    zl_array part[OUTPUTS];
    if (!op_check_out("zl_linalg_lu", 3, out))
        return false;
    if (op_again_all(&ok, 3, out, "zl_linalg_lu", again_linalg_lu, a))
        return ok;
    if (!a || !op_check_matrix("zl_linalg_lu", a, false, false) || !factor(a, part))
        return false;
    int64_t m = a->dim[a->ndim - 2], k = MIN_OF(m, a->dim[a->ndim - 1]);
    out[0] = part[ROWS];
    out[1] = zl_add(first_of(zl_tril(part[FACTORS], -1), -1, k), zl_eye(m, k, 0, (zl_dtype)a->dtype));
    out[2] = first_of(zl_triu(part[FACTORS], 0), -2, k);
    return out[1] && out[2];
}
OP_SIGNATURE_BOOL(
    zl_linalg_lu, "linalg",
    "For each row of a the row of the lower factor that makes it, as uint32, in out[0], the lower factor in "
    "out[1] and the upper one in out[2].",
    P_ARRAY(a), P_OUTPUTS(out, "3"));

// Determinants ----------------------------------------------------------------------------------------------

// Returns element (row, col) of the matrices of a.
static zl_array element(zl_array a, int row, int col) {
    zl_array line = zl_take(a, op_number(ZL_INT32, row), -2);
    return line ? zl_take(line, op_number(ZL_INT32, col), -1) : NULL;
}

// Returns a[0, i] times the determinant of rows 1 and 2 in columns j and k.
static zl_array term(zl_array a, int i, int j, int k) {
    zl_array minor = zl_subtract(zl_multiply(element(a, 1, j), element(a, 2, k)),
                                 zl_multiply(element(a, 1, k), element(a, 2, j)));
    return zl_multiply(element(a, 0, i), minor);
}

static zl_array small_det(zl_array a) {
    switch (a->dim[a->ndim - 1]) {
    case 0: return zl_ones((zl_shape){a->dim, a->ndim - 2}, (zl_dtype)a->dtype);
    case 1: return element(a, 0, 0);
    case 2:
        return zl_subtract(zl_multiply(element(a, 0, 0), element(a, 1, 1)),
                           zl_multiply(element(a, 0, 1), element(a, 1, 0)));
    default: return zl_add(zl_subtract(term(a, 0, 1, 2), term(a, 1, 0, 2)), term(a, 2, 0, 1));
    }
}

// Returns the number of true elements along the last axis.
static zl_array count_true(zl_array x) {
    return zl_sum_axis(zl_astype(x, ZL_INT32), -1, false);
}

static bool large_slogdet(zl_array a, zl_array *out) {
    zl_array part[OUTPUTS];
    zl_dtype dtype = (zl_dtype)a->dtype;
    if (!factor(a, part))
        return false;
    zl_array zero = op_number(dtype, 0), diagonal = zl_diagonal(part[FACTORS], 0, -2, -1);
    zl_array swaps =
        count_true(zl_not_equal(part[SWAPS], zl_arange_int(0, a->dim[a->ndim - 1], 1, ZL_UINT32)));
    zl_array odd = zl_remainder(zl_add(swaps, count_true(zl_less(diagonal, zero))), op_number(ZL_INT32, 2));
    zl_array sign =
        zl_astype(zl_subtract(op_number(ZL_INT32, 1), zl_multiply(odd, op_number(ZL_INT32, 2))), dtype);
    zl_array logarithm = zl_sum_axis(zl_log(zl_abs(diagonal)), -1, false);
    zl_array singular = zl_any_axis(zl_equal(diagonal, zero), -1, false);
    out[0] = zl_where(singular, zero, sign);
    out[1] = zl_where(singular, op_number(dtype, -INFINITY), logarithm);
    return out[0] && out[1];
}

static bool slogdet(zl_array a, zl_array *out) {
    if (a->dim[a->ndim - 1] > 3)
        return large_slogdet(a, out);
    zl_array det = small_det(a);
    out[0] = zl_sign(det);
    out[1] = zl_log(zl_abs(det));
    return out[0] && out[1];
}

// Casts a to a dtype for which determinants are computed (16-bit floats to float32) and checks it. Returns
// NULL, with an error, if that fails.
static zl_array read_square(const char *function, zl_array a) {
    if (!a)
        return NULL;
    zl_dtype dtype = op_float_dtype((zl_dtype)a->dtype);
    zl_array x = zl_astype(a, dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16 ? ZL_FLOAT32 : dtype);
    return x && op_check_matrix(function, x, true, false) ? x : NULL;
}

static zl_array in_dtype_of(zl_array a, zl_array y) {
    return zl_astype(y, op_float_dtype((zl_dtype)a->dtype));
}

static bool again_linalg_slogdet(const union op_value *v, zl_array *out) {
    return zl_linalg_slogdet(v[0].array, out);
}

bool zl_linalg_slogdet(zl_array a, zl_array *out) {
    bool ok;
    if (!op_check_out("zl_linalg_slogdet", 2, out))
        return false;
    if (op_again_all(&ok, 2, out, "zl_linalg_slogdet", again_linalg_slogdet, a))
        return ok;
    zl_array x = read_square("zl_linalg_slogdet", a);
    if (!x || !slogdet(x, out))
        return false;
    for (int i = 0; i < 2; i++)
        out[i] = in_dtype_of(a, out[i]);
    return out[0] && out[1];
}
OP_SIGNATURE_BOOL(
    zl_linalg_slogdet, "linalg",
    "The sign of the determinant of a, 0 if it is 0, in out[0], and the logarithm of its absolute value in "
    "out[1].",
    P_ARRAY(a), P_OUTPUTS(out, "2"));

static zl_array det(zl_array a) {
    zl_array part[2];
    if (a->dim[a->ndim - 1] <= 3)
        return small_det(a);
    return slogdet(a, part) ? zl_multiply(part[0], zl_exp(part[1])) : NULL;
}

static bool again_linalg_det(const union op_value *v, zl_array *out) {
    return (out[0] = zl_linalg_det(v[0].array));
}

zl_array zl_linalg_det(zl_array a) {
    zl_array again;
    if (op_again(&again, "zl_linalg_det", again_linalg_det, a))
        return again;
    zl_scope s = zl_scope_begin();
    zl_array x = read_square("zl_linalg_det", a);
    return zl_scope_leave(s, x ? in_dtype_of(a, det(x)) : NULL);
}
OP_SIGNATURE(zl_linalg_det, "linalg", "The determinants of the square matrices of a.", P_ARRAY(a));
