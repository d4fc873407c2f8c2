// bitcast.c - the same bytes read as another dtype.

#include "op/ops.h"

// A change of element size; `ratio` is the larger size divided by the smaller.
struct recast {
    int64_t ratio;
    bool grows; // the new elements are the larger ones
};

static int64_t scale(int64_t value, struct recast r) {
    return r.grows ? value / r.ratio : value * r.ratio;
}

// Returns whether elements of the new dtype can be read in the memory of x without a copy. Strides of axes of
// size 1 do not matter.
static bool lies_well(zl_array x, struct recast r) {
    int last = x->ndim - 1;
    if (r.ratio == 1)
        return true;
    if (x->dim[last] > 1 && array_stride(x)[last] != 1)
        return false;
    if (!r.grows)
        return true;
    for (int i = 0; i < last; i++)
        if (x->dim[i] > 1 && array_stride(x)[i] % r.ratio)
            return false;
    return op_offset(x) % r.ratio == 0 && x->dim[last] % r.ratio == 0;
}

static zl_array bitcast(zl_array x, zl_dtype dtype) {
    int64_t from = (int64_t)array_item(x), to = (int64_t)zl_dtype_size(dtype);
    struct recast r = {to > from ? to / from : from / to, to > from};
    if (!lies_well(x, r)) // also copies contiguous arrays that start in the middle of a new element
        x = op_dense(&op_copy, 1, &x, 0, NULL, (zl_dtype)x->dtype, x->ndim, x->dim);
    if (!x)
        return NULL;
    OP_TEMP(int64_t, dim, 2 * x->ndim);
    if (!dim)
        return NULL;
    int64_t *stride = dim + x->ndim;
    for (int i = 0; i < x->ndim; i++) {
        bool last = i == x->ndim - 1;
        dim[i] = last ? scale(x->dim[i], r) : x->dim[i];
        stride[i] = last && r.ratio > 1 ? 1 : scale(array_stride(x)[i], r);
    }
    if (!op_check_size("zl_view", x->ndim, dim))
        return NULL;
    return op_view_as(&op_bitcast, x, 1, (int64_t[]){dtype},
                      &(struct array_spec){.dtype = dtype,
                                           .ndim = x->ndim,
                                           .dim = dim,
                                           .stride = x->size ? stride : NULL,
                                           .offset = scale(op_offset(x), r)});
}

static bool record_bitcast(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = zl_view(in[0], (zl_dtype)call_args(c)[0]));
}

static bool vmap_bitcast(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                         int *out_axis) {
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    zl_array x = op_batch_first(in[0], axis[0]);
    out_axis[0] = 0;
    return (out[0] = x ? bitcast(x, (zl_dtype)call_args(c)[0]) : NULL);
}

static bool fits(const struct call *c, const zl_array *in) {
    zl_array x = in[0];
    if (!op_has(c, 1, 1) || !op_is_among(call_args(c)[0], ZL_DTYPE_COUNT))
        return false;
    int64_t from = (int64_t)array_item(x), to = (int64_t)zl_dtype_size((zl_dtype)call_args(c)[0]);
    return from == to || (x->ndim && (to < from || x->dim[x->ndim - 1] % (to / from) == 0));
}

static const struct op_field dtype_field[] = {{"dtype", FIELD_DTYPE}};
const struct op op_bitcast = {
    .name = "view",
    .kind = OP_VIEW,
    .fields = 1,
    .field = dtype_field,
    .record = record_bitcast,
    .fits = fits,
    .vmap = vmap_bitcast,
};

zl_array zl_view(zl_array a, zl_dtype dtype) {
    if (!a || !op_check_dtype("zl_view", dtype))
        return NULL;
    int64_t from = (int64_t)array_item(a), to = (int64_t)zl_dtype_size(dtype);
    if (dtype == (zl_dtype)a->dtype)
        return op_same(a);
    if (a->ndim == 0 && from != to)
        return error_set(ZL_ERROR_DTYPE,
                         "zl_view: a scalar of %s as %s: a scalar needs a dtype of the same size",
                         zl_dtype_name((zl_dtype)a->dtype), zl_dtype_name(dtype));
    if (to > from && a->dim[a->ndim - 1] % (to / from))
        return error_set(
            ZL_ERROR_SHAPE, "zl_view: shape %s of %s as %s: the last size must be a multiple of %lld",
            array_text(a), zl_dtype_name((zl_dtype)a->dtype), zl_dtype_name(dtype), (long long)(to / from));
    return bitcast(a, dtype);
}
OP_SIGNATURE(
    zl_view, "view",
    "The bytes of a as another dtype. The last axis grows or shrinks where the dtypes differ in size.",
    P_ARRAY(a), P_DTYPE(dtype, NULL));
