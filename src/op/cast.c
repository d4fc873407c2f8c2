// cast.c - the same values in another dtype, or in row-major order.

#include "op/op.h"

static bool record_cast(const struct call *call, const zl_array *in, zl_array *out) {
    out[0] = zl_astype(in[0], (zl_dtype)call_output(call, 0)->dtype);
    return out[0] != NULL;
}

// As in MLX, derivatives pass through casts to and from integers, as if these were continuous; through casts
// to bool they do not.
static bool is_smooth(const struct call *call) {
    return call_output(call, 0)->dtype != ZL_BOOL;
}

static zl_array vjp_cast(const struct call *call, int input, const zl_array *cotangent) {
    return is_smooth(call) ? zl_astype(cotangent[0], (zl_dtype)call->in[input]->dtype) : NULL;
}

static bool jvp_cast(const struct call *call, const zl_array *tangent, zl_array *out) {
    bool flows = tangent[0] && is_smooth(call);
    out[0] = flows ? zl_astype(tangent[0], (zl_dtype)call_output(call, 0)->dtype) : NULL;
    return !flows || out[0];
}

const struct op op_cast = {.name = "astype",
                           .kind = OP_CAST,
                           .record = record_cast,
                           .vjp = vjp_cast,
                           .jvp = jvp_cast,
                           .vmap = op_vmap_elementwise};

OP_SIGNATURE(
    zl_astype, "elementwise",
    "a in another dtype. Floats become integers by truncation, out of range saturates and NaN is 0; integers "
    "wrap around; of complex numbers the real part is kept.",
    P_ARRAY(a), P_DTYPE(dtype, NULL));
zl_array zl_astype(zl_array a, zl_dtype dtype) {
    if (!a)
        return NULL;
    if ((unsigned)dtype >= ZL_DTYPE_COUNT)
        return error_set(ZL_ERROR_DTYPE, "zl_astype: dtype %d: a dtype is 0 to %d", (int)dtype,
                         ZL_DTYPE_COUNT - 1);
    if (array_is(a, ARRAY_WEAK)) // a number: the result is a number too
        return graph_inline_from(&op_cast, a, dtype, scalar_as(a, dtype), 0);
    if (a->dtype == dtype)
        return op_same(a);
    return op_call(&op_cast, 1, &a, 0, NULL,
                   &(struct array_spec){.dtype = dtype, .ndim = a->ndim, .dim = a->dim,
                                        .stride = op_common_stride(1, &a, a->ndim, a->dim)});
}

static bool record_copy(const struct call *call, const zl_array *in, zl_array *out) {
    (void)call;
    out[0] = op_dense(&op_copy, 1, in, 0, NULL, (zl_dtype)in[0]->dtype, in[0]->ndim, in[0]->dim);
    return out[0] != NULL;
}

static zl_array vjp_copy(const struct call *call, int input, const zl_array *cotangent) {
    (void)call, (void)input;
    return cotangent[0];
}

static bool jvp_copy(const struct call *call, const zl_array *tangent, zl_array *out) {
    (void)call;
    out[0] = tangent[0];
    return true;
}

const struct op op_copy = {.name = "copy",
                           .kind = OP_COPY,
                           .record = record_copy,
                           .vjp = vjp_copy,
                           .jvp = jvp_copy,
                           .vmap = op_vmap_elementwise};
