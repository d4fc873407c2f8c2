// qr.c - QR factorisation: matrices as products of an orthogonal and a triangular one.

#include "op/ops.h"

static bool factor(zl_array a, zl_array *out) {
    int64_t m = a->dim[a->ndim - 2], n = a->dim[a->ndim - 1], k = MIN_OF(m, n);
    zl_dtype dtype = (zl_dtype)a->dtype;
    if (a->size == 0) {
        out[0] = op_eyes(a, m, k, dtype);
        out[1] = op_eyes(a, k, n, dtype);
        return out[0] && out[1];
    }
    const struct factor_output f[] = {{dtype, 2, m, k}, {dtype, 2, k, n}};
    return op_factor("zl_linalg_qr", &op_qr, a, 0, NULL, 2, f, out);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    (void)c;
    return factor(in[0], out);
}

static bool fits(const struct call *c, const zl_array *in) {
    return op_fits_factor(c, in, 0, false, false);
}

const struct op op_qr = {
    .name = "qr",
    .kind = OP_OTHER,
    .outputs = 2,
    .record = record,
    .fits = fits,
    .vmap = op_vmap_factor,
};

bool zl_linalg_qr(zl_array a, zl_array *out) {
    return op_check_out("zl_linalg_qr", 2, out) && a && op_check_matrix("zl_linalg_qr", a, false, false) &&
           factor(a, out);
}
OP_SIGNATURE_BOOL(
    zl_linalg_qr, "linalg",
    "q in out[0], whose columns are orthogonal and of length 1, and upper triangular r in out[1], such that "
    "q r = a.",
    P_ARRAY(a), P_OUTPUTS(out, "2"));
