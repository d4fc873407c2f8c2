// matmul_int8.c - matrix products of int8, summed in int32.

#include "op/ops.h"

static const struct op_product product = {
    .function = "zl_matmul_int8", .op = &op_matmul_int8, .dtype = ZL_INT32};

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    (void)c;
    return (out[0] = op_multiply(&product, in[0], in[1]));
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    zl_array a = axis[0] < 0 ? in[0] : op_batch_first(in[0], axis[0]);
    zl_array b = axis[1] < 0 ? in[1] : op_batch_first(in[1], axis[1]);
    out_axis[0] = axis[0] < 0 && axis[1] < 0 ? -1 : 0;
    return a && b && record(c, (zl_array[]){a, b}, out);
}

static bool fits(const struct call *c, const zl_array *in) {
    return op_has(c, 2, 0) && op_are_factors(in, ZL_INT8);
}

const struct op op_matmul_int8 = {
    .name = "matmul_int8",
    .kind = OP_OTHER,
    .record = record,
    .fits = fits,
    .vjp = op_vjp_zero,
    .jvp = op_jvp_zero,
    .vmap = vmap,
};

zl_array zl_matmul_int8(zl_array a, zl_array b) {
    if (!a || !b)
        return NULL;
    if (a->dtype != ZL_INT8 || b->dtype != ZL_INT8)
        return error_set(ZL_ERROR_DTYPE, "%s: %s times %s: both must be int8", product.function,
                         zl_dtype_name((zl_dtype)a->dtype), zl_dtype_name((zl_dtype)b->dtype));
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, op_check_product(product.function, a, b) ? op_multiply(&product, a, b) : NULL);
}
OP_SIGNATURE(
    zl_matmul_int8, "matmul",
    "The matrix product of int8 over the last two axes as int32, which wraps around; vectors and the axes "
    "before them are as of matmul.",
    P_ARRAY(a), P_ARRAY(b));
