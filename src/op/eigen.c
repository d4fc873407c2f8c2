// eigen.c - eigenvalues and eigenvectors.

#include <string.h>

#include "op/ops.h"

// Computes the values alone, or values and vectors.
static bool factor(const char *function, const struct op *op, zl_array a, zl_dtype values, zl_dtype vectors,
                   int args, const int64_t *arg, zl_array *out) {
    int64_t n = a->dim[a->ndim - 1];
    const struct factor_output f[] = {{values, 1, 1, n}, {vectors, 2, n, n}};
    bool both = arg[args - 1];
    if (a->size)
        return op_factor(function, op, a, args, arg, both ? 2 : 1, f, out);
    out[0] = zl_astype(zl_sum_axis(a, -1, false), values);
    if (both)
        out[1] = zl_astype(a, vectors);
    return out[0] && (!both || out[1]);
}

static bool factor_eigh(zl_array a, bool upper, bool vectors, zl_array *out) {
    zl_dtype real = a->dtype == ZL_COMPLEX64 ? ZL_FLOAT32 : (zl_dtype)a->dtype;
    const char *function = vectors ? "zl_linalg_eigh" : "zl_linalg_eigvalsh";
    return factor(function, &op_eigh, a, real, (zl_dtype)a->dtype, 2, (int64_t[]){upper, vectors}, out);
}

static bool factor_eig(zl_array a, bool vectors, zl_array *out) {
    const char *function = vectors ? "zl_linalg_eig" : "zl_linalg_eigvals";
    return factor(function, &op_eig, a, ZL_COMPLEX64, ZL_COMPLEX64, 1, (int64_t[]){vectors}, out);
}

static bool record_eigh(const struct call *c, const zl_array *in, zl_array *out) {
    return factor_eigh(in[0], call_args(c)[0], call_args(c)[1], out);
}

static bool record_eig(const struct call *c, const zl_array *in, zl_array *out) {
    return factor_eig(in[0], call_args(c)[0], out);
}

static bool fits_eigh(const struct call *c, const zl_array *in) {
    return op_fits_factor(c, in, 2, true, true) && c->outputs == (call_args(c)[1] ? 2 : 1);
}

static const struct op_field fields[] = {{"upper", FIELD_BOOL}, {"vectors", FIELD_BOOL}};
const struct op op_eigh = {
    .name = "eigh",
    .kind = OP_OTHER,
    .outputs = OP_OUTPUTS_VARY,
    .fields = 2,
    .field = fields,
    .record = record_eigh,
    .fits = fits_eigh,
    .vmap = op_vmap_factor,
};
static bool fits_eig(const struct call *c, const zl_array *in) {
    return op_fits_factor(c, in, 1, true, true) && c->outputs == (call_args(c)[0] ? 2 : 1);
}

const struct op op_eig = {
    .name = "eig",
    .kind = OP_OTHER,
    .outputs = OP_OUTPUTS_VARY,
    .fields = 1,
    .field = fields + 1,
    .record = record_eig,
    .fits = fits_eig,
    .vmap = op_vmap_factor,
};

// Public ----------------------------------------------------------------------------------------------------

static bool read_triangle(const char *function, const char *uplo, bool *upper) {
    *upper = uplo && (!strcmp(uplo, "U") || !strcmp(uplo, "u"));
    bool lower = uplo && (!strcmp(uplo, "L") || !strcmp(uplo, "l"));
    return *upper || lower || error_false(ZL_ERROR_VALUE, "%s: UPLO is '%s': 'L' or 'U' is needed", function,
                                          uplo ? uplo : "NULL");
}

bool zl_linalg_eigh(zl_array a, const char *UPLO, zl_array *out) {
    bool upper;
    return op_check_out("zl_linalg_eigh", 2, out) && a && op_check_matrix("zl_linalg_eigh", a, true, true) &&
           read_triangle("zl_linalg_eigh", UPLO, &upper) && factor_eigh(a, upper, true, out);
}
OP_SIGNATURE_BOOL(
    zl_linalg_eigh, "linalg",
    "The eigenvalues of symmetric or Hermitian a from the smallest on in out[0], and in the columns of "
    "out[1] vectors of length 1. The lower triangle of a is read if UPLO is 'L', the upper one if 'U'.",
    P_ARRAY(a), P_STRING(UPLO, "'L'"), P_OUTPUTS(out, "2"));

zl_array zl_linalg_eigvalsh(zl_array a, const char *UPLO) {
    bool upper;
    zl_array y;
    if (!a || !op_check_matrix("zl_linalg_eigvalsh", a, true, true) ||
        !read_triangle("zl_linalg_eigvalsh", UPLO, &upper))
        return NULL;
    return factor_eigh(a, upper, false, &y) ? y : NULL;
}
OP_SIGNATURE(zl_linalg_eigvalsh, "linalg",
             "The eigenvalues of symmetric or Hermitian a from the smallest on. The lower triangle of a is "
             "read if UPLO is "
             "'L', the upper one if 'U'.",
             P_ARRAY(a), P_STRING(UPLO, "'L'"));

bool zl_linalg_eig(zl_array a, zl_array *out) {
    return op_check_out("zl_linalg_eig", 2, out) && a && op_check_matrix("zl_linalg_eig", a, true, true) &&
           factor_eig(a, true, out);
}
OP_SIGNATURE_BOOL(
    zl_linalg_eig, "linalg",
    "The eigenvalues of a in out[0], and in the columns of out[1] vectors of length 1; both complex64.",
    P_ARRAY(a), P_OUTPUTS(out, "2"));

zl_array zl_linalg_eigvals(zl_array a) {
    zl_array y;
    return a && op_check_matrix("zl_linalg_eigvals", a, true, true) && factor_eig(a, false, &y) ? y : NULL;
}
OP_SIGNATURE(zl_linalg_eigvals, "linalg", "The eigenvalues of a, as complex64.", P_ARRAY(a));
