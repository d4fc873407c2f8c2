// matmul_fp8.c - matrix products of fp8 numbers (e4m3, as in fp8.c), summed in float32.

#include "op/ops.h"

static const char *const function = "zl_matmul_fp8";

static zl_array multiply(zl_array a, zl_array b, const int64_t *arg) {
    return op_multiply(&(struct op_product){.function = function,
                                            .op = &op_matmul_fp8,
                                            .args = FP8_ARGS,
                                            .arg = arg,
                                            .dtype = (zl_dtype)arg[FP8_DTYPE]},
                       a, b);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = multiply(in[0], in[1], call_args(c)));
}

static const char refusal[] =
    "zl_matmul_fp8: there is no gradient by codes of eight bits: use zl_stop_gradient on them";

static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    (void)c, (void)input, (void)cotangent;
    return error_set(ZL_ERROR_VALUE, "%s", refusal);
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    (void)c, (void)out;
    return (!tangent[0] && !tangent[1]) || error_false(ZL_ERROR_VALUE, "%s", refusal);
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    zl_array a = axis[0] < 0 ? in[0] : op_batch_first(in[0], axis[0]);
    zl_array b = axis[1] < 0 ? in[1] : op_batch_first(in[1], axis[1]);
    out_axis[0] = axis[0] < 0 && axis[1] < 0 ? -1 : 0;
    return a && b && record(c, (zl_array[]){a, b}, out);
}

static bool fits(const struct call *c, const zl_array *in) {
    if (!op_has(c, 2, FP8_ARGS) || !op_are_factors(in, ZL_UINT8))
        return false;
    int64_t dtype = call_args(c)[FP8_DTYPE];
    return dtype == ZL_BFLOAT16 || dtype == ZL_FLOAT16 || dtype == ZL_FLOAT32;
}

static const struct op_field fields[] = {
    [FP8_SCALE] = {"scale", FIELD_DOUBLE}, [FP8_DTYPE] = {"dtype", FIELD_DTYPE}};
const struct op op_matmul_fp8 = {
    .name = "matmul_fp8",
    .kind = OP_OTHER,
    .fields = FP8_ARGS,
    .field = fields,
    .record = record,
    .fits = fits,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
};

zl_array zl_matmul_fp8(zl_array a, zl_array b, double a_scale, double b_scale, zl_dtype dtype) {
    if (!a || !b || !op_check_dtype(function, dtype))
        return NULL;
    if (a->dtype != ZL_UINT8 || b->dtype != ZL_UINT8)
        return error_set(ZL_ERROR_DTYPE, "%s: %s times %s: both must be uint8, as zl_to_fp8 gives", function,
                         zl_dtype_name((zl_dtype)a->dtype), zl_dtype_name((zl_dtype)b->dtype));
    if (dtype != ZL_BFLOAT16 && dtype != ZL_FLOAT16 && dtype != ZL_FLOAT32)
        return error_set(ZL_ERROR_DTYPE, "%s: to %s: bfloat16, float16 and float32 are possible", function,
                         zl_dtype_name(dtype));
    const int64_t arg[] = {[FP8_SCALE] = op_double_arg(a_scale * b_scale), [FP8_DTYPE] = dtype};
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, op_check_product(function, a, b) ? multiply(a, b, arg) : NULL);
}
OP_SIGNATURE(zl_matmul_fp8, "matmul",
             "The matrix product of numbers of eight bits (e4m3) that a and b, uint8, hold as to_fp8 gives "
             "them: summed in "
             "float32, multiplied by a_scale * b_scale, rounded once to dtype (bfloat16, float16 or "
             "float32). Vectors and "
             "the axes before the last two are as of matmul. There is no gradient by a and b.",
             P_ARRAY(a), P_ARRAY(b), P_DOUBLE(a_scale, "1.0"), P_DOUBLE(b_scale, "1.0"),
             P_DTYPE(dtype, "bfloat16"));
