// matmul.c - matrix products.

#include "op/ops.h"

// Records the call: (..., m, k) times (..., k, n), with the same batch axes; for k = 0, returns zeros.
static zl_array multiply(const struct op_product *p, zl_array a, zl_array b) {
    OP_TEMP(int64_t, dim, a->ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < a->ndim; i++)
        dim[i] = a->dim[i];
    dim[a->ndim - 1] = b->dim[b->ndim - 1];
    if (!op_check_size(p->function, a->ndim, dim) ||
        (p->added && !op_check_broadcast_to(p->function, p->added, a->ndim, dim)))
        return NULL;
    if (a->dim[a->ndim - 1] == 0)
        return zl_zeros((zl_shape){dim, a->ndim}, p->dtype);
    return op_dense(p->op, p->added ? 3 : 2, (zl_array[]){a, b, p->added}, p->args, p->arg, p->dtype, a->ndim,
                    dim);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    (void)c;
    return (out[0] = zl_matmul(in[0], in[1]));
}

// Returns the conjugate transpose, by which cotangents are multiplied.
static zl_array adjoint(zl_array x) {
    return zl_matrix_transpose(x->dtype == ZL_COMPLEX64 ? zl_conjugate(x) : x);
}

static bool has_contiguous_columns(zl_array x) {
    const int64_t *stride = array_stride(x) + x->ndim - 2, *dim = x->dim + x->ndim - 2;
    return stride[0] == 1 && stride[1] != 1 && dim[0] > 1 && dim[1] > 1;
}

zl_array op_multiply_like(zl_array like, zl_array a, zl_array b) {
    return has_contiguous_columns(like)
               ? zl_matrix_transpose(zl_matmul(zl_matrix_transpose(b), zl_matrix_transpose(a)))
               : zl_matmul(a, b);
}

static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    zl_array other = adjoint(c->in[1 - input]);
    return input == 0 ? op_multiply_like(c->in[0], cotangent[0], other)
                      : op_multiply_like(c->in[1], other, cotangent[0]);
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    zl_array by_a = tangent[0] ? zl_matmul(tangent[0], c->in[1]) : NULL;
    zl_array by_b = tangent[1] ? zl_matmul(c->in[0], tangent[1]) : NULL;
    out[0] = by_a && by_b ? zl_add(by_a, by_b) : by_a ? by_a : by_b;
    return out[0] || (!tangent[0] && !tangent[1]);
}

// Batch axes broadcast, so an operand without the extra axis stays as it is.
static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    (void)c;
    zl_array a = axis[0] < 0 ? in[0] : op_batch_first(in[0], axis[0]);
    zl_array b = axis[1] < 0 ? in[1] : op_batch_first(in[1], axis[1]);
    out_axis[0] = axis[0] < 0 && axis[1] < 0 ? -1 : 0;
    return (out[0] = zl_matmul(a, b));
}

static bool fits(const struct call *c, const zl_array *in) {
    (void)in;
    return op_has(c, 2, 0);
}

const struct op op_matmul = {
    .name = "matmul",
    .kind = OP_OTHER,
    .record = record,
    .fits = fits,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
};

bool op_check_product(const char *function, zl_array a, zl_array b) {
    if (a->ndim == 0 || b->ndim == 0)
        return error_false(ZL_ERROR_SHAPE, "%s: %s times %s: scalars are multiplied by zl_multiply", function,
                           array_text(a), array_text(b));
    if (a->dim[a->ndim - 1] != b->dim[MAX_OF(b->ndim - 2, 0)])
        return error_false(ZL_ERROR_SHAPE, "%s: inner sizes differ: %s times %s", function, array_text(a),
                           array_text(b));
    return true;
}

static zl_array multiply_batches(const struct op_product *p, zl_array a, zl_array b) {
    OP_TEMP(int64_t, dim, MAX_OF(a->ndim, b->ndim));
    if (!dim)
        return NULL;
    int batch = shape_broadcast(a->ndim - 2, a->dim, b->ndim - 2, b->dim, dim);
    if (batch < 0)
        return error_set(ZL_ERROR_SHAPE, "%s: the batch axes of %s and %s do not broadcast", p->function,
                         array_text(a), array_text(b));
    zl_array left = op_stretch(p->function, 2, (zl_array[]){a, b}, 2);
    zl_array right = op_stretch(p->function, 2, (zl_array[]){b, a}, 2);
    return left && right ? multiply(p, left, right) : NULL;
}

// Multiplies many matrices by one, as the rows of one long matrix.
static zl_array multiply_rows(const struct op_product *p, zl_array a, zl_array b) {
    struct op_product own = *p;
    zl_array flat = zl_flatten(a, 0, -2);
    if (own.added && own.added->ndim > 1 && !(own.added = zl_flatten(own.added, 0, -2)))
        return NULL;
    zl_array y = flat ? multiply(&own, flat, b) : NULL;
    return zl_unflatten(y, 0, (zl_shape){a->dim, a->ndim - 1});
}

// Returns whether the added array is the same for all rows of a, or has a row for each.
static bool adds_to_rows(zl_array added, zl_array a) {
    bool one = true, each = added->ndim == a->ndim;
    for (int i = 0; i < added->ndim - 1; i++) {
        one &= added->dim[i] == 1;
        each &= added->dim[i] == a->dim[i];
    }
    return added->ndim <= a->ndim && (one || each);
}

static zl_array multiply_matrices(const struct op_product *p, zl_array a, zl_array b) {
    if (!a || !b)
        return NULL;
    if (a->ndim == 2 && b->ndim == 2)
        return multiply(p, a, b);
    bool by_rows = b->ndim == 2 && a->size && !op_follows(a) && !op_follows(b) &&
                   (!p->added || (!op_follows(p->added) && adds_to_rows(p->added, a)));
    return by_rows ? multiply_rows(p, a, b) : multiply_batches(p, a, b);
}

// Gives the added array the axis that a vector gets.
static bool add_axis(struct op_product *p, zl_array vector, int axis) {
    if (p->added && vector->ndim == 1 && p->added->ndim)
        return (p->added = zl_expand_dims(p->added, ZL_AXES(axis)));
    return true;
}

// A vector becomes a row on the left and a column on the right.
zl_array op_multiply(const struct op_product *p, zl_array a, zl_array b) {
    struct op_product own = *p;
    if (!a || !b || !add_axis(&own, a, -2) || !add_axis(&own, b, -1))
        return NULL;
    zl_array y = multiply_matrices(&own, a->ndim == 1 ? zl_expand_dims(a, ZL_AXES(0)) : a,
                                   b->ndim == 1 ? zl_expand_dims(b, ZL_AXES(1)) : b);
    if (y && a->ndim == 1)
        y = zl_squeeze(y, ZL_AXES(-2));
    return y && b->ndim == 1 ? zl_squeeze(y, ZL_AXES(-1)) : y;
}

static zl_array matmul(const char *function, zl_array a, zl_array b, zl_dtype dtype) {
    if (!a || !b || !op_check_product(function, a, b))
        return NULL;
    if (!dtype_is_inexact(dtype))
        return error_set(ZL_ERROR_DTYPE,
                         "%s: %s times %s gives %s: only floating point and complex numbers are possible; "
                         "convert with zl_astype",
                         function, zl_dtype_name((zl_dtype)a->dtype), zl_dtype_name((zl_dtype)b->dtype),
                         zl_dtype_name(dtype));
    struct op_product p = {.function = function, .op = &op_matmul, .dtype = dtype};
    return op_multiply(&p, zl_astype(a, dtype), zl_astype(b, dtype));
}

zl_array op_matmul_as(const char *function, zl_array a, zl_array b) {
    return a && b ? matmul(function, a, b, dtype_common(2, (zl_array[]){a, b})) : NULL;
}

zl_array zl_matmul(zl_array a, zl_array b) {
    return op_matmul_as("zl_matmul", a, b);
}
OP_SIGNATURE(zl_matmul, "matmul",
             "The matrix product over the last two axes; the axes before them broadcast. A vector on the "
             "left is a row, on the right a column, and the axis it lacks is not in the result. Floating "
             "point and complex numbers only.",
             P_ARRAY(a), P_ARRAY(b));

zl_array zl_outer(zl_array a, zl_array b) {
    if (!a || !b || !op_check_size("zl_outer", 2, (int64_t[]){a->size, b->size}))
        return NULL;
    return zl_multiply(zl_expand_dims(zl_flatten(a, 0, -1), ZL_AXES(1)), zl_flatten(b, 0, -1));
}
OP_SIGNATURE(zl_outer, "matmul", "The products of every element of a, flattened, with every element of b.",
             P_ARRAY(a), P_ARRAY(b));

// Reshapes y to the sizes of a and b, without the last of each.
static zl_array reshape_inner(zl_array y, zl_array a, zl_array b) {
    int first = a->ndim - 1, second = b->ndim - 1;
    OP_TEMP(int64_t, dim, first + second);
    if (!dim)
        return NULL;
    for (int i = 0; i < first + second; i++)
        dim[i] = i < first ? a->dim[i] : b->dim[i - first];
    return zl_reshape(y, (zl_shape){dim, first + second});
}

static zl_array as_rows(zl_array x) {
    return x->ndim == 1 ? zl_expand_dims(x, ZL_AXES(0)) : zl_flatten(x, 0, -2);
}

zl_array zl_inner(zl_array a, zl_array b) {
    if (!a || !b)
        return NULL;
    if (a->ndim == 0 || b->ndim == 0)
        return zl_multiply(a, b);
    if (a->dim[a->ndim - 1] != b->dim[b->ndim - 1])
        return error_set(ZL_ERROR_SHAPE, "zl_inner: the last sizes differ: %s and %s", array_text(a),
                         array_text(b));
    zl_array y =
        matmul("zl_inner", as_rows(a), zl_matrix_transpose(as_rows(b)), dtype_common(2, (zl_array[]){a, b}));
    return y ? reshape_inner(y, a, b) : NULL;
}
OP_SIGNATURE(zl_inner, "matmul", "The sum of products over the last axes of a and b.", P_ARRAY(a),
             P_ARRAY(b));
