// segmented_mm.c - products of two matrices over segments of their inner axis.

#include "op/ops.h"

static zl_array segmented_mm(const zl_array *in) {
    zl_array a = in[0], b = in[1], segments = in[2];
    int ndim = segments->ndim + 1;
    OP_TEMP(int64_t, dim, ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < ndim - 2; i++)
        dim[i] = segments->dim[i];
    dim[ndim - 2] = a->dim[0];
    dim[ndim - 1] = b->dim[1];
    if (!op_check_size("zl_segmented_mm", ndim, dim))
        return NULL;
    return op_dense(&op_segmented_mm, 3, in, 0, NULL, (zl_dtype)a->dtype, ndim, dim);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    (void)c;
    return (out[0] = segmented_mm(in));
}

// Computes the products of a batch one after the other.
static bool vmap_each(const zl_array *in, const int *axis, int64_t batch, zl_array *out) {
    OP_TEMP(zl_array, list, batch);
    for (int64_t i = 0; list && i < batch; i++) {
        zl_array one[3];
        for (int k = 0; k < 3; k++)
            one[k] = axis[k] < 0 ? in[k] : zl_take(in[k], op_number(ZL_INT64, (double)i), axis[k]);
        if (!one[0] || !one[1] || !one[2] || !(list[i] = segmented_mm(one)))
            return false;
    }
    return list && (out[0] = zl_stack(list, (int)batch, 0));
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    int64_t batch = op_batch_size(3, in, axis);
    if (batch < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    out_axis[0] = 0;
    if (axis[0] >= 0 || axis[1] >= 0)
        return vmap_each(in, axis, batch, out);
    zl_array segments = op_batch_first(in[2], axis[2]);
    return segments && record(c, (zl_array[]){in[0], in[1], segments}, out);
}

static bool fits(const struct call *c, const zl_array *in) {
    return op_has(c, 3, 0) && in[0]->ndim == 2 && in[1]->ndim == 2 && in[0]->dtype == in[1]->dtype &&
           dtype_is_inexact((zl_dtype)in[0]->dtype) && in[0]->dim[1] == in[1]->dim[0] &&
           in[2]->dtype == ZL_UINT32 && in[2]->ndim >= 1 && in[2]->dim[in[2]->ndim - 1] == 2;
}

const struct op op_segmented_mm = {
    .name = "segmented_mm",
    .kind = OP_OTHER,
    .record = record,
    .fits = fits,
    .vmap = vmap,
};

static bool check(zl_array a, zl_array b, zl_array segments, zl_dtype dtype) {
    if (a->ndim != 2 || b->ndim != 2 || a->dim[1] != b->dim[0])
        return error_false(ZL_ERROR_SHAPE,
                           "zl_segmented_mm: %s times %s: two matrices with the same inner size are needed",
                           array_text(a), array_text(b));
    if (segments->ndim < 1 || segments->dim[segments->ndim - 1] != 2)
        return error_false(ZL_ERROR_SHAPE, "zl_segmented_mm: segments of shape %s: (..., 2) is needed",
                           array_text(segments));
    if (!dtype_is_float(dtype))
        return error_false(ZL_ERROR_DTYPE, "zl_segmented_mm: %s times %s: floating point is needed",
                           zl_dtype_name((zl_dtype)a->dtype), zl_dtype_name((zl_dtype)b->dtype));
    return dtype_is_integer((zl_dtype)segments->dtype) ||
           error_false(ZL_ERROR_DTYPE, "zl_segmented_mm: segments of %s: integers are needed",
                       zl_dtype_name((zl_dtype)segments->dtype));
}

zl_array zl_segmented_mm(zl_array a, zl_array b, zl_array segments) {
    if (!a || !b || !segments)
        return NULL;
    zl_dtype dtype = dtype_common(2, (zl_array[]){a, b});
    if (!check(a, b, segments, dtype))
        return NULL;
    zl_scope s = zl_scope_begin();
    zl_array in[] = {zl_astype(a, dtype), zl_astype(b, dtype), zl_astype(segments, ZL_UINT32)};
    return zl_scope_leave(s, in[0] && in[1] && in[2] ? segmented_mm(in) : NULL);
}
OP_SIGNATURE(zl_segmented_mm, "matmul",
             "For each pair of segments, (..., 2), the product of the columns of a from the first to before "
             "the second "
             "with those rows of b.",
             P_ARRAY(a), P_ARRAY(b), P_ARRAY(segments));
