// cholesky.c - the Cholesky factorisation of symmetric positive definite matrices.

#include "op/ops.h"

static zl_array factor(zl_array a, bool upper) {
    zl_array y;
    if (a->size == 0)
        return op_same(a);
    int64_t n = a->dim[a->ndim - 1];
    struct factor_output f = {(zl_dtype)a->dtype, 2, n, n};
    return op_factor("zl_linalg_cholesky", &op_cholesky, a, 1, (int64_t[]){upper}, 1, &f, &y) ? y : NULL;
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = factor(in[0], call_args(c)[0]));
}

// Returns the lower triangle of x with half of its diagonal.
static zl_array half_of(zl_array x) {
    zl_array strict = zl_tril(x, -1);
    return zl_multiply(zl_add(strict, zl_tril(x, 0)), op_number((zl_dtype)x->dtype, 0.5));
}

// With l the lower factor and p(x) = half_of(x), dl = l p(l^-1 da l^-T); the cotangent is the transpose of
// this map. The matrix a is taken as symmetric.
static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    (void)input;
    bool upper = call_args(c)[0];
    zl_array y = call_output(c, 0), g = cotangent[0];
    zl_array transposed = upper ? y : zl_matrix_transpose(y); // l^T
    // l^-1
    zl_array inverse = zl_linalg_tri_inv(y, upper), back = upper ? zl_matrix_transpose(inverse) : inverse;
    zl_array inner = zl_matmul(transposed, upper ? zl_matrix_transpose(g) : g);
    if (!inner)
        return NULL;
    zl_array x = zl_matmul(zl_matmul(zl_matrix_transpose(back), half_of(inner)), back);
    return zl_multiply(zl_add(x, zl_matrix_transpose(x)), op_number((zl_dtype)g->dtype, 0.5));
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    bool upper = call_args(c)[0];
    zl_array y = call_output(c, 0), t = tangent[0];
    out[0] = NULL;
    if (!t)
        return true;
    zl_array l = upper ? zl_matrix_transpose(y) : y, inverse = zl_linalg_tri_inv(l, false);
    zl_array inner = zl_matmul(zl_matmul(inverse, t), zl_matrix_transpose(inverse));
    zl_array dl = inner ? zl_matmul(l, half_of(inner)) : NULL;
    return (out[0] = upper ? zl_matrix_transpose(dl) : dl);
}

static bool fits(const struct call *c, const zl_array *in) {
    return op_fits_factor(c, in, 1, true, false);
}

static const struct op_field fields[] = {{"upper", FIELD_BOOL}};
const struct op op_cholesky = {
    .name = "cholesky",
    .kind = OP_OTHER,
    .fields = 1,
    .field = fields,
    .record = record,
    .fits = fits,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = op_vmap_factor,
};

zl_array zl_linalg_cholesky(zl_array a, bool upper) {
    return a && op_check_matrix("zl_linalg_cholesky", a, true, false) ? factor(a, upper) : NULL;
}
OP_SIGNATURE(
    zl_linalg_cholesky, "linalg",
    "The lower triangular matrix of which a, symmetric and positive definite, is the product with its "
    "transpose; the upper one if upper.",
    P_ARRAY(a), P_BOOL(upper, "False"));
