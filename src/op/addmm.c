// addmm.c - a matrix product added to another matrix. For 16-bit floats it is an op of its own: the product
// is summed, scaled and added in float32 and rounded once. For other dtypes it is recorded as a product, two
// scalings and a sum.

#include "op/ops.h"

static const char *const function = "zl_addmm";

static double alpha_of(const struct call *c) {
    return op_arg_double(call_args(c)[ADDMM_ALPHA]);
}

static double beta_of(const struct call *c) {
    return op_arg_double(call_args(c)[ADDMM_BETA]);
}

static zl_array scale(double factor, zl_array x) {
    return factor == 1 ? x : zl_multiply(zl_scalar(factor), x);
}

// Returns alpha times a product; for 16-bit floats, it is rounded once.
static zl_array scaled_product(double alpha, zl_array a, zl_array b) {
    return alpha == 1 ? zl_matmul(a, b) : zl_addmm(op_number((zl_dtype)a->dtype, 0), a, b, alpha, 0);
}

// The op: 16-bit floats only --------------------------------------------------------------------------------

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = zl_addmm(in[2], in[0], in[1], alpha_of(c), beta_of(c)));
}

static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    if (input == 2)
        return op_unbroadcast(scale(beta_of(c), cotangent[0]), c->in[2]);
    zl_array other = zl_matrix_transpose(c->in[1 - input]), a = input == 0 ? cotangent[0] : other,
             b = input == 0 ? other : cotangent[0];
    return alpha_of(c) == 1 ? op_multiply_like(c->in[input], a, b) : scaled_product(alpha_of(c), a, b);
}

static zl_array sum_of(zl_array x, zl_array y) {
    return x && y ? zl_add(x, y) : x ? x : y;
}

// The added matrix may have fewer axes than the product: its tangent alone is broadcast to the shape of the
// product.
static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    zl_array by_a = tangent[0] ? scaled_product(alpha_of(c), tangent[0], c->in[1]) : NULL;
    zl_array by_b = tangent[1] ? scaled_product(alpha_of(c), c->in[0], tangent[1]) : NULL;
    zl_array by_c = tangent[2] ? scale(beta_of(c), tangent[2]) : NULL;
    if ((tangent[0] && !by_a) || (tangent[1] && !by_b) || (tangent[2] && !by_c))
        return false;
    out[0] = sum_of(by_a, by_b);
    if (by_c)
        out[0] = out[0] ? zl_add(out[0], by_c)
                        : op_stretch(function, 2, (zl_array[]){by_c, zl_matmul(c->in[0], c->in[1])}, 0);
    return out[0] || (!tangent[0] && !tangent[1] && !tangent[2]);
}

// Returns x with its batch axis first, followed by axes of size 1 up to the rank of the result.
static zl_array align(zl_array x, int axis, int rank) {
    x = op_batch_first(x, axis);
    while (x && x->ndim < rank + 1)
        x = zl_expand_dims(x, ZL_AXES(1));
    return x;
}

// The batch axes of a, b and c broadcast against each other, but c must broadcast to the product: if only c
// has the extra axis, a is repeated.
static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    int64_t batch = op_batch_size(c->inputs, in, axis);
    bool only_added = axis[0] < 0 && axis[1] < 0 && axis[2] >= 0;
    zl_array all[3];
    for (int k = 0; k < 2; k++)
        all[k] = axis[k] >= 0 ? op_batch_first(in[k], axis[k]) : in[k];
    if (only_added)
        all[0] = op_batch_repeat(in[0], -1, batch);
    all[2] = axis[2] < 0 ? in[2] : align(in[2], axis[2], call_first(c)->ndim);
    out_axis[0] = batch < 0 ? -1 : 0;
    return all[0] && all[1] && all[2] && record(c, all, out);
}

static bool fits(const struct call *c, const zl_array *in) {
    return op_has(c, 3, ADDMM_ARGS) && in[0]->dtype == in[1]->dtype && in[1]->dtype == in[2]->dtype;
}

static const struct op_field fields[] = {
    [ADDMM_ALPHA] = {"alpha", FIELD_DOUBLE}, [ADDMM_BETA] = {"beta", FIELD_DOUBLE}};
const struct op op_addmm = {
    .name = "addmm",
    .kind = OP_OTHER,
    .fields = ADDMM_ARGS,
    .field = fields,
    .record = record,
    .fits = fits,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
};

// Public ----------------------------------------------------------------------------------------------------

static zl_array add_once(zl_array c, zl_array a, zl_array b, double alpha, double beta) {
    const int64_t arg[] = {[ADDMM_ALPHA] = op_double_arg(alpha), [ADDMM_BETA] = op_double_arg(beta)};
    return op_multiply(&(struct op_product){.function = function,
                                            .op = &op_addmm,
                                            .args = ADDMM_ARGS,
                                            .arg = arg,
                                            .dtype = (zl_dtype)c->dtype,
                                            .added = c},
                       a, b);
}

static zl_array add_each(zl_array c, zl_array a, zl_array b, double alpha, double beta) {
    zl_array product = op_matmul_as(function, a, b);
    if (!product || !op_check_broadcast_to(function, c, product->ndim, product->dim))
        return NULL;
    return zl_add(scale(beta, c), scale(alpha, product));
}

// Returns whether to record the op that rounds once. If alpha or the inner size is 0, there is no product to
// round.
static bool is_once(zl_dtype dtype, zl_array a, double alpha) {
    return (dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16) && (float)alpha != 0 && a->dim[a->ndim - 1] > 0;
}

zl_array zl_addmm(zl_array c, zl_array a, zl_array b, double alpha, double beta) {
    if (!c || !a || !b || !op_check_product(function, a, b))
        return NULL;
    zl_dtype dtype = dtype_common(3, (zl_array[]){c, a, b});
    zl_array in[] = {zl_astype(c, dtype), zl_astype(a, dtype), zl_astype(b, dtype)};
    if (!in[0] || !in[1] || !in[2])
        return NULL;
    return (is_once(dtype, a, alpha) ? add_once : add_each)(in[0], in[1], in[2], alpha, beta);
}
OP_SIGNATURE(zl_addmm, "matmul",
             "beta * c + alpha * matmul(a, b); c broadcasts. Of float16 and bfloat16 it is computed in "
             "float32 and rounded "
             "once, and a beta of 0 leaves c out.",
             P_ARRAY(c), P_ARRAY(a), P_ARRAY(b), P_DOUBLE(alpha, "1.0"), P_DOUBLE(beta, "1.0"));
