// linalg.c - functions that matrix factorisations share, and functions composed of factorisations.

#include "op/ops.h"

static bool has_numbers(zl_dtype dtype, bool may_be_complex) {
    return dtype == ZL_FLOAT32 || dtype == ZL_FLOAT64 || (may_be_complex && dtype == ZL_COMPLEX64);
}

bool op_check_matrix(const char *function, zl_array a, bool square, bool may_be_complex) {
    zl_dtype dtype = (zl_dtype)a->dtype;
    if (a->ndim < 2 || (square && a->dim[a->ndim - 1] != a->dim[a->ndim - 2]))
        return error_false(ZL_ERROR_SHAPE, "%s: shape %s: %smatrices in the last two axes are needed",
                           function, array_text(a), square ? "square " : "");
    return has_numbers(dtype, may_be_complex) ||
           error_false(ZL_ERROR_DTYPE, "%s: a matrix of %s: float32%s float64%s is needed", function,
                       zl_dtype_name(dtype), may_be_complex ? "," : " or",
                       may_be_complex ? " or complex64" : "");
}

bool op_fits_factor(const struct call *c, const zl_array *in, int args, bool square, bool may_be_complex) {
    if (!op_has(c, 1, args))
        return false;
    for (int i = 0; i < args; i++)
        if (!op_is_among(call_args(c)[i], 2))
            return false;
    zl_array a = in[0];
    return has_numbers((zl_dtype)a->dtype, may_be_complex) && a->ndim >= 2 && a->size > 0 &&
           (!square || a->dim[a->ndim - 1] == a->dim[a->ndim - 2]);
}

static void fill_spec(zl_array a, const struct factor_output *f, int64_t *dim, struct array_spec *spec) {
    int batch = a->ndim - 2;
    for (int i = 0; i < batch; i++)
        dim[i] = a->dim[i];
    dim[batch] = f->last == 2 ? f->rows : f->cols;
    dim[batch + 1] = f->cols;
    *spec = (struct array_spec){.dtype = f->dtype, .ndim = batch + f->last, .dim = dim};
}

bool op_factor(const char *function, const struct op *op, zl_array a, int args, const int64_t *arg,
               int outputs, const struct factor_output *f, zl_array *out) {
    struct array_spec spec[3];
    OP_TEMP(int64_t, dim, (int64_t)outputs * a->ndim);
    if (!dim)
        return false;
    for (int i = 0; i < outputs; i++) {
        fill_spec(a, &f[i], dim + i * a->ndim, &spec[i]);
        if (!op_check_size(function, spec[i].ndim, spec[i].dim))
            return false;
    }
    if (!(out[0] = graph_call(op, 1, &a, args, arg, outputs, spec)))
        return false;
    for (int i = 1; i < outputs; i++)
        out[i] = call_output(out[0]->call, i);
    return true;
}

bool op_vmap_factor(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    zl_array a = axis[0] < 0 ? in[0] : op_batch_first(in[0], axis[0]);
    for (int i = 0; i < c->outputs; i++)
        out_axis[i] = axis[0] < 0 ? -1 : 0;
    return a && c->op->record(c, &a, out);
}

zl_array op_eyes(zl_array a, int64_t rows, int64_t cols, zl_dtype dtype) {
    OP_TEMP(int64_t, dim, a->ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < a->ndim - 2; i++)
        dim[i] = a->dim[i];
    dim[a->ndim - 2] = rows;
    dim[a->ndim - 1] = cols;
    return zl_broadcast_to(zl_eye(rows, cols, 0, dtype), (zl_shape){dim, a->ndim});
}

// Inverses by other factors ---------------------------------------------------------------------------------

static zl_array cholesky_inv(zl_array a, bool upper) {
    zl_array inverse = zl_linalg_tri_inv(a, upper), transposed = zl_matrix_transpose(inverse);
    return upper ? zl_matmul(inverse, transposed) : zl_matmul(transposed, inverse);
}

zl_array zl_linalg_cholesky_inv(zl_array a, bool upper) {
    if (!a || !op_check_matrix("zl_linalg_cholesky_inv", a, true, false))
        return NULL;
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, cholesky_inv(a, upper));
}
OP_SIGNATURE(zl_linalg_cholesky_inv, "linalg",
             "The inverse of the matrix of which a is the Cholesky factor, the upper one if upper.",
             P_ARRAY(a), P_BOOL(upper, "False"));

// Returns the first rows and columns of the matrices of x.
static zl_array corner(zl_array x, int64_t rows, int64_t cols) {
    OP_TEMP(int64_t, list, 3 * (int64_t)zl_ndim(x));
    if (!x || !list)
        return NULL;
    int ndim = x->ndim;
    for (int i = 0; i < ndim; i++) {
        list[i] = 0;
        list[ndim + i] = i == ndim - 2 ? rows : i == ndim - 1 ? cols : x->dim[i];
        list[2 * ndim + i] = 1;
    }
    return zl_slice(x, (zl_shape){list, ndim}, (zl_shape){list + ndim, ndim},
                    (zl_shape){list + 2 * ndim, ndim});
}

// Computes the pseudo-inverse by SVD. Singular values that are only rounding errors of others count as 0.
static zl_array pinv(zl_array a) {
    int64_t m = a->dim[a->ndim - 2], n = a->dim[a->ndim - 1], k = MIN_OF(m, n);
    zl_dtype dtype = (zl_dtype)a->dtype;
    zl_array part[3];
    if (a->size == 0)
        return zl_zeros_like(zl_matrix_transpose(a), dtype);
    if (!zl_linalg_svd(a, true, part))
        return NULL;
    zl_array u = zl_matrix_transpose(corner(part[0], m, k)), v = zl_matrix_transpose(corner(part[2], k, n));
    zl_array s = zl_expand_dims(part[1], ZL_AXES(-2));
    double small = 10.0 * (double)MAX_OF(m, n) * (dtype == ZL_FLOAT64 ? 0x1p-52 : 0x1p-23);
    zl_array least = zl_multiply(zl_max_axis(s, -1, true), op_number(dtype, small));
    zl_array inverse = zl_where(zl_greater(s, least), zl_reciprocal(s), op_number(dtype, 0));
    return zl_matmul(zl_multiply(v, inverse), u);
}

static bool again_linalg_pinv(const union op_value *v, zl_array *out) {
    return (out[0] = zl_linalg_pinv(v[0].array));
}

zl_array zl_linalg_pinv(zl_array a) {
    zl_array again;
    if (op_again(&again, "zl_linalg_pinv", again_linalg_pinv, a))
        return again;
    if (!a || !op_check_matrix("zl_linalg_pinv", a, false, false))
        return NULL;
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, pinv(a));
}
OP_SIGNATURE(zl_linalg_pinv, "linalg", "The Moore-Penrose inverse of the matrices of a.", P_ARRAY(a));

// Solving ---------------------------------------------------------------------------------------------------

// Casts a and b to one dtype; b becomes a matrix of columns.
static bool read_equations(const char *function, zl_array a, zl_array b, zl_array *out) {
    zl_dtype dtype = dtype_common(2, (zl_array[]){a, b});
    if (dtype != ZL_FLOAT32 && dtype != ZL_FLOAT64)
        return error_false(ZL_ERROR_DTYPE, "%s: %s and %s: together they must make float32 or float64",
                           function, zl_dtype_name((zl_dtype)a->dtype), zl_dtype_name((zl_dtype)b->dtype));
    zl_array matrix = zl_astype(a, dtype);
    if (!matrix || !op_check_matrix(function, matrix, true, false))
        return false;
    if (b->ndim < 1 || b->dim[MAX_OF(b->ndim - 2, 0)] != a->dim[a->ndim - 1])
        return error_false(ZL_ERROR_SHAPE,
                           "%s: %s for equations of shape %s: as many rows as these have are needed",
                           function, array_text(b), array_text(a));
    out[0] = matrix;
    out[1] = zl_astype(b->ndim == 1 ? zl_expand_dims(b, ZL_AXES(1)) : b, dtype);
    return out[1];
}

static zl_array drop_column(zl_array x, zl_array b) {
    return x && b->ndim == 1 ? zl_squeeze(x, ZL_AXES(-1)) : x;
}

// Returns the rows of b in the order of the factors.
static zl_array reorder(zl_array rows, zl_array b) {
    zl_array order = zl_stop_gradient(zl_expand_dims(zl_argsort(rows, -1), ZL_AXES(-1)));
    OP_TEMP(int64_t, dim, MAX_OF(zl_ndim(order), b->ndim));
    if (!order || !dim)
        return NULL;
    int ndim = shape_broadcast(order->ndim, order->dim, b->ndim, b->dim, dim);
    if (ndim < 0)
        return error_set(ZL_ERROR_SHAPE, "zl_linalg_solve: the batch axes of %s and %s do not broadcast",
                         array_text(rows), array_text(b));
    zl_shape all = {dim, ndim};
    return zl_take_along_axis(zl_broadcast_to(b, all), zl_broadcast_to(order, all), -2);
}

static zl_array solve(zl_array a, zl_array b) {
    zl_array in[2], part[3];
    if (!read_equations("zl_linalg_solve", a, b, in) || !zl_linalg_lu(in[0], part))
        return NULL;
    zl_array x = reorder(part[0], in[1]);
    x = x ? zl_linalg_solve_triangular(part[1], x, false) : NULL;
    return x ? drop_column(zl_linalg_solve_triangular(part[2], x, true), b) : NULL;
}

static bool again_linalg_solve(const union op_value *v, zl_array *out) {
    return (out[0] = zl_linalg_solve(v[0].array, v[1].array));
}

zl_array zl_linalg_solve(zl_array a, zl_array b) {
    zl_array again;
    if (op_again(&again, "zl_linalg_solve", again_linalg_solve, a, b))
        return again;
    if (!a || !b)
        return NULL;
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, solve(a, b));
}
OP_SIGNATURE(zl_linalg_solve, "linalg",
             "x such that a x = b, for square matrices a and vectors or matrices b.", P_ARRAY(a), P_ARRAY(b));

static zl_array solve_triangular(zl_array a, zl_array b, bool upper) {
    zl_array in[2];
    if (!read_equations("zl_linalg_solve_triangular", a, b, in))
        return NULL;
    zl_array x = op_matmul_as("zl_linalg_solve_triangular", zl_linalg_tri_inv(in[0], upper), in[1]);
    return drop_column(x, b);
}

zl_array zl_linalg_solve_triangular(zl_array a, zl_array b, bool upper) {
    if (!a || !b)
        return NULL;
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, solve_triangular(a, b, upper));
}
OP_SIGNATURE(
    zl_linalg_solve_triangular, "linalg",
    "x such that a x = b, for lower triangular matrices a, upper ones if upper, and vectors or matrices b.",
    P_ARRAY(a), P_ARRAY(b), P_BOOL(upper, "False"));
