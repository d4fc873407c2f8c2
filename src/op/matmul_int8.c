// matmul_int8.c - matrix products of int8 that are added up in int32.

#include "op/ops.h"

static const char *const function = "zl_matmul_int8";

// Sizes of x with other batch axes in front of its last two.
static zl_array stretch(zl_array x, int batch, int64_t *dim) {
    dim[batch] = x->dim[x->ndim - 2];
    dim[batch + 1] = x->dim[x->ndim - 1];
    return zl_broadcast_to(x, (zl_shape){dim, batch + 2});
}

static zl_array multiply(zl_array a, zl_array b) {
    OP_ROOM(int64_t, dim, MAX_OF(a->ndim, b->ndim));
    if (!dim)
        return NULL;
    int batch = shape_broadcast(a->ndim - 2, a->dim, b->ndim - 2, b->dim, dim);
    if (batch < 0)
        return error_set(ZL_ERROR_SHAPE, "%s: the batch axes of %s and %s do not broadcast", function, array_text(a),
                         array_text(b));
    zl_array in[] = {stretch(a, batch, dim), stretch(b, batch, dim)};
    dim[batch] = a->dim[a->ndim - 2];
    if (!in[0] || !in[1] || !op_check_size(function, batch + 2, dim))
        return NULL;
    return op_dense(&op_matmul_int8, 2, in, 0, NULL, ZL_INT32, batch + 2, dim);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    (void)c;
    return (out[0] = multiply(in[0], in[1]));
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    zl_array a = axis[0] < 0 ? in[0] : op_batch_first(in[0], axis[0]);
    zl_array b = axis[1] < 0 ? in[1] : op_batch_first(in[1], axis[1]);
    out_axis[0] = axis[0] < 0 && axis[1] < 0 ? -1 : 0;
    return a && b && record(c, (zl_array[]){a, b}, out);
}

OP(op_matmul_int8) = {
    .name = "matmul_int8",
    .kind = OP_OTHER,
    .record = record,
    .fits = op_fits_matmul_int8,
    .vjp = op_vjp_zero,
    .jvp = op_jvp_zero,
    .vmap = vmap,
};

zl_array zl_matmul_int8(zl_array a, zl_array b) {
    if (!a || !b)
        return NULL;
    if (a->dtype != ZL_INT8 || b->dtype != ZL_INT8)
        return error_set(ZL_ERROR_DTYPE, "%s: %s times %s: both must be int8", function,
                         zl_dtype_name((zl_dtype)a->dtype), zl_dtype_name((zl_dtype)b->dtype));
    if (a->ndim < 2 || b->ndim < 2 || a->dim[a->ndim - 1] != b->dim[b->ndim - 2])
        return error_set(ZL_ERROR_SHAPE, "%s: %s times %s: matrices with the same inner size are needed", function,
                         array_text(a), array_text(b));
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, multiply(a, b));
}
OP_SIGNATURE(zl_matmul_int8, "matmul",
             "The matrix product of int8 over the last two axes as int32, which wraps around; the axes before them "
             "broadcast.",
             P_ARRAY(a), P_ARRAY(b));
