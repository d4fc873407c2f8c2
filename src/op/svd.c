// svd.c - singular values and vectors.

#include "op/ops.h"

static zl_dtype real_of(zl_array a) {
    return a->dtype == ZL_COMPLEX64 ? ZL_FLOAT32 : (zl_dtype)a->dtype;
}

static bool of_nothing(zl_array a, const struct factor_output *s, bool vectors, zl_array *out) {
    zl_array values = zl_squeeze(op_eyes(a, 1, s->cols, s->dtype), ZL_AXES(-2));
    out[vectors] = values;
    if (vectors) {
        out[0] = op_eyes(a, a->dim[a->ndim - 2], a->dim[a->ndim - 2], (zl_dtype)a->dtype);
        out[2] = op_eyes(a, a->dim[a->ndim - 1], a->dim[a->ndim - 1], (zl_dtype)a->dtype);
    }
    return values && (!vectors || (out[0] && out[2]));
}

static bool factor(zl_array a, bool vectors, zl_array *out) {
    int64_t m = a->dim[a->ndim - 2], n = a->dim[a->ndim - 1];
    const struct factor_output f[] = {
        {(zl_dtype)a->dtype, 2, m, m}, {real_of(a), 1, 1, MIN_OF(m, n)}, {(zl_dtype)a->dtype, 2, n, n}};
    if (a->size == 0)
        return of_nothing(a, &f[1], vectors, out);
    return op_factor("zl_linalg_svd", &op_svd, a, 1, (int64_t[]){vectors}, vectors ? 3 : 1,
                     vectors ? f : &f[1], out);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return factor(in[0], call_args(c)[0], out);
}

static bool fits(const struct call *c, const zl_array *in) {
    return op_fits_factor(c, in, 1, false, true) && c->outputs == (call_args(c)[0] ? 3 : 1);
}

static const struct op_field fields[] = {{"vectors", FIELD_BOOL}};
const struct op op_svd = {
    .name = "svd",
    .kind = OP_OTHER,
    .outputs = OP_OUTPUTS_VARY,
    .fields = 1,
    .field = fields,
    .record = record,
    .fits = fits,
    .vmap = op_vmap_factor,
};

bool zl_linalg_svd(zl_array a, bool compute_uv, zl_array *out) {
    return op_check_out("zl_linalg_svd", compute_uv ? 3 : 1, out) && a &&
           op_check_matrix("zl_linalg_svd", a, false, true) && factor(a, compute_uv, out);
}
OP_SIGNATURE_BOOL(
    zl_linalg_svd, "linalg",
    "Orthogonal u in out[0], singular values from the largest on in out[1], and orthogonal v, transposed, in "
    "out[2], of which a is the product; the values alone, in out[0], if not compute_uv.",
    P_ARRAY(a), P_BOOL(compute_uv, "True"), P_OUTPUT(out));
