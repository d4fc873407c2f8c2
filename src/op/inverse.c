// inverse.c - inverses of square and of triangular matrices.

#include "op/ops.h"

enum { TRIANGULAR, UPPER };

static zl_array invert(zl_array a, bool triangular, bool upper) {
    zl_array y;
    if (a->size == 0)
        return op_same(a);
    int64_t n = a->dim[a->ndim - 1];
    struct factor_output f = {(zl_dtype)a->dtype, 2, n, n};
    const char *function = triangular ? "zl_linalg_tri_inv" : "zl_linalg_inv";
    return op_factor(function, &op_inverse, a, 2, (int64_t[]){triangular, upper}, 1, &f, &y) ? y : NULL;
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = invert(in[0], call_args(c)[TRIANGULAR], call_args(c)[UPPER]));
}

// Returns the part of x that a triangular matrix has.
static zl_array part_of(const struct call *c, zl_array x) {
    if (!call_args(c)[TRIANGULAR])
        return x;
    return call_args(c)[UPPER] ? zl_triu(x, 0) : zl_tril(x, 0);
}

// For y = 1 / a, dy = -y da y.
static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    (void)input;
    zl_array transposed = zl_matrix_transpose(call_output(c, 0));
    return part_of(c, zl_negative(zl_matmul(transposed, zl_matmul(cotangent[0], transposed))));
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    zl_array y = call_output(c, 0);
    out[0] = tangent[0] ? zl_negative(zl_matmul(y, zl_matmul(part_of(c, tangent[0]), y))) : NULL;
    return out[0] || !tangent[0];
}

static bool fits(const struct call *c, const zl_array *in) {
    return op_fits_factor(c, in, 2, true, false);
}

static const struct op_field fields[] = {{"triangular", FIELD_BOOL}, {"upper", FIELD_BOOL}};
const struct op op_inverse = {
    .name = "inverse",
    .kind = OP_OTHER,
    .fields = 2,
    .field = fields,
    .record = record,
    .fits = fits,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = op_vmap_factor,
};

zl_array zl_linalg_inv(zl_array a) {
    return a && op_check_matrix("zl_linalg_inv", a, true, false) ? invert(a, false, false) : NULL;
}
OP_SIGNATURE(zl_linalg_inv, "linalg", "The inverses of the square matrices of a.", P_ARRAY(a));

zl_array zl_linalg_tri_inv(zl_array a, bool upper) {
    return a && op_check_matrix("zl_linalg_tri_inv", a, true, false) ? invert(a, true, upper) : NULL;
}
OP_SIGNATURE(zl_linalg_tri_inv, "linalg",
             "The inverses of the lower triangular matrices of a, of upper ones if upper.", P_ARRAY(a),
             P_BOOL(upper, "False"));
