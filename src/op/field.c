// field.c - arrays of C structs: records as bytes, and their fields as strided views.

#include "op/ops.h"

static bool record(const struct call *call, const zl_array *in, zl_array *out) {
    zl_array old = call_output(call, 0);
    int outer = call->in[0]->ndim - 1;
    out[0] = zl_field(in[0], (size_t)call_args(call)[0], (zl_dtype)old->dtype,
                      (zl_shape){old->dim + outer, old->ndim - outer});
    return out[0] != NULL;
}

static bool vmap(const struct call *call, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    out_axis[0] = axis[0] < 0 ? -1 : 0;
    return record(call, (zl_array[]){axis[0] < 0 ? in[0] : zl_moveaxis(in[0], axis[0], 0)}, out);
}

static bool fits(const struct call *c, const zl_array *in) {
    return op_has(c, 1, 1) && in[0]->ndim >= 1 && call_output(c, 0)->ndim >= in[0]->ndim - 1;
}

// There are no derivatives, because the input is bytes.
static const struct op_field fields[] = {{"offset", FIELD_INT}};
const struct op op_field_view = {
    .name = "view_field",
    .kind = OP_VIEW,
    .fields = 1,
    .field = fields,
    .record = record,
    .fits = fits,
    .vmap = vmap,
};

// Writes sizes and strides of the field: those of the records, then its own, row-major inside a record.
static bool layout(zl_array x, zl_dtype dtype, zl_shape inner, int64_t *dim, int64_t *stride) {
    int64_t item = (int64_t)zl_dtype_size(dtype);
    int outer = x->ndim - 1;
    for (int i = 0; i < outer; i++) {
        dim[i] = x->dim[i];
        if (array_stride(x)[i] % item)
            return error_false(
                ZL_ERROR_VALUE,
                "zl_field: records are %lld bytes apart, which is no multiple of the %lld of %s",
                (long long)array_stride(x)[i], (long long)item, zl_dtype_name(dtype));
        stride[i] = array_stride(x)[i] / item;
    }
    for (int i = 0; i < inner.ndim; i++)
        dim[outer + i] = inner.dim[i];
    shape_row_major(inner.ndim, inner.dim, stride + outer);
    return true;
}

static bool check(zl_array x, int64_t offset, zl_dtype dtype, zl_shape inner) {
    int64_t count;
    if ((unsigned)dtype >= ZL_DTYPE_COUNT)
        return error_false(ZL_ERROR_DTYPE, "zl_field: dtype %d: a dtype is 0 to %d", (int)dtype,
                           ZL_DTYPE_COUNT - 1);
    if (x->dtype != ZL_UINT8 || x->ndim < 1 || (x->dim[x->ndim - 1] > 1 && array_stride(x)[x->ndim - 1] != 1))
        return error_false(
            ZL_ERROR_VALUE,
            "zl_field: %s of shape %s is not an array of records: make one with zl_from_records",
            zl_dtype_name((zl_dtype)x->dtype), array_text(x));
    int64_t record_bytes = x->dim[x->ndim - 1], item = (int64_t)zl_dtype_size(dtype);
    if (inner.ndim < 0 || (inner.ndim && !inner.dim) || !shape_size(inner.ndim, inner.dim, &count) ||
        count > record_bytes / item || offset < 0 || offset > record_bytes - count * item)
        return error_false(
            ZL_ERROR_VALUE,
            "zl_field: %s of shape %s at offset %lld does not lie inside a record of %lld bytes",
            zl_dtype_name(dtype), shape_text(inner.ndim, inner.dim), (long long)offset,
            (long long)record_bytes);
    if ((op_offset(x) + offset) % item)
        return error_false(ZL_ERROR_VALUE,
                           "zl_field: offset %lld is not aligned for %s: a multiple of %lld is needed",
                           (long long)offset, zl_dtype_name(dtype), (long long)item);
    return true;
}

zl_array zl_field(zl_array records, size_t offset, zl_dtype dtype, zl_shape inner) {
    int64_t at = offset > INT64_MAX ? INT64_MAX : (int64_t)offset;
    if (!records || !check(records, at, dtype, inner))
        return NULL;
    int ndim = records->ndim - 1 + inner.ndim;
    int64_t *dim = memory_alloc(sizeof(int64_t) * 2 * (size_t)(ndim + 1));
    if (!dim)
        return NULL;
    zl_array view = NULL;
    if (layout(records, dtype, inner, dim, dim + ndim))
        view = op_view_as(
            &op_field_view, records, 1, &at,
            &(struct array_spec){.dtype = dtype,
                                 .ndim = ndim,
                                 .dim = dim,
                                 .stride = dim + ndim,
                                 .offset = (op_offset(records) + at) / (int64_t)zl_dtype_size(dtype)});
    memory_free(dim);
    return view;
}

static bool check_records(zl_shape shape, size_t record_bytes, const zl_foreign_options *options) {
    if (shape.ndim < 0 || (shape.ndim && !shape.dim))
        return error_false(ZL_ERROR_SHAPE, "zl_from_records: a shape of %d axes without sizes", shape.ndim);
    if (!record_bytes || record_bytes > INT64_MAX / 16)
        return error_false(ZL_ERROR_VALUE, "zl_from_records: records of %zu bytes", record_bytes);
    if (options && options->strides)
        return error_false(ZL_ERROR_VALUE,
                           "zl_from_records: strides are those of the records: leave options->strides NULL");
    return true;
}

zl_array zl_from_records(const void *data, zl_shape shape, size_t record_bytes,
                         const zl_foreign_options *options) {
    int64_t *dim = NULL;
    if (!check_records(shape, record_bytes, options) ||
        !(dim = memory_alloc(sizeof(int64_t) * (size_t)(shape.ndim + 1))))
        return graph_refuse_foreign(options);
    for (int i = 0; i < shape.ndim; i++)
        dim[i] = shape.dim[i];
    dim[shape.ndim] = (int64_t)record_bytes;
    zl_array records = zl_from_foreign(data, (zl_shape){dim, shape.ndim + 1}, ZL_UINT8, options);
    memory_free(dim);
    return records;
}
