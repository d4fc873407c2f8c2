// leaf.c - makes arrays from the program's data, and returns what is known of an array without computing it.

#include "graph/graph.h"

static bool check_data(const char *function, const void *data, zl_shape shape, zl_dtype dtype,
                       int64_t *size) {
    if ((unsigned)dtype >= ZL_DTYPE_COUNT)
        return error_false(ZL_ERROR_DTYPE, "%s: dtype %d: a dtype is 0 to %d", function, (int)dtype,
                           ZL_DTYPE_COUNT - 1);
    if (shape.ndim < 0 || (shape.ndim > 0 && !shape.dim))
        return error_false(ZL_ERROR_SHAPE, "%s: a shape of %d axes without sizes", function, shape.ndim);
    for (int i = 0; i < shape.ndim; i++)
        if (shape.dim[i] < 0)
            return error_false(ZL_ERROR_SHAPE, "%s: shape %s has a negative size", function,
                               shape_text(shape.ndim, shape.dim));
    if (!shape_size(shape.ndim, shape.dim, size) || *size > INT64_MAX / 16)
        return error_false(ZL_ERROR_OVERFLOW, "%s: an array of shape %s is too big", function,
                           shape_text(shape.ndim, shape.dim));
    if (!data && *size)
        return error_false(ZL_ERROR_VALUE, "%s: data is NULL, but shape %s has %lld elements", function,
                           shape_text(shape.ndim, shape.dim), (long long)*size);
    return true;
}

zl_array zl_from(const void *data, zl_shape shape, zl_dtype dtype) {
    int64_t size;
    if (!check_data("zl_from", data, shape, dtype, &size))
        return NULL;
    size_t bytes = (size_t)size * zl_dtype_size(dtype);
    struct storage *s = storage_new(bytes);
    if (!s)
        return NULL;
    if (bytes)
        pool_copy(s->data, data, bytes);
    return graph_leaf(&(struct array_spec){.dtype = dtype, .ndim = shape.ndim, .dim = shape.dim}, s);
}

zl_array zl_from_f32(const float *data, zl_shape shape) {
    return zl_from(data, shape, ZL_FLOAT32);
}

zl_array zl_from_f64(const double *data, zl_shape shape) {
    return zl_from(data, shape, ZL_FLOAT64);
}

zl_array zl_from_i32(const int32_t *data, zl_shape shape) {
    return zl_from(data, shape, ZL_INT32);
}

zl_array zl_from_i64(const int64_t *data, zl_shape shape) {
    return zl_from(data, shape, ZL_INT64);
}

zl_array zl_from_bool(const bool *data, zl_shape shape) {
    return zl_from(data, shape, ZL_BOOL);
}

zl_array zl_scalar(double value) {
    return graph_inline(ZL_FLOAT32, (union scalar){.f = value}, ARRAY_WEAK);
}

zl_array zl_scalar_int(int64_t value) {
    bool small = value >= INT32_MIN && value <= INT32_MAX;
    return graph_inline(small ? ZL_INT32 : ZL_INT64, (union scalar){.i = value}, ARRAY_WEAK);
}

zl_array zl_scalar_bool(bool value) {
    return graph_inline(ZL_BOOL, (union scalar){.i = value}, ARRAY_WEAK);
}

zl_array zl_scalar_complex(double re, double im) {
    return graph_inline(ZL_COMPLEX64, (union scalar){.c = {(float)re, (float)im}}, ARRAY_WEAK);
}

// Foreign memory --------------------------------------------------------------------------------------------

void *graph_refuse_foreign(const zl_foreign_options *options) {
    if (options && options->release)
        options->release(options->context);
    return NULL;
}

// Sets how many elements are before and after data[0]. Returns false if the strides reach further than 64
// bits.
static bool reach(int ndim, const int64_t *dim, const int64_t *stride, int64_t *before, int64_t *after) {
    *before = *after = 0;
    for (int i = 0; i < ndim; i++) {
        int64_t span;
        if (dim[i] == 0)
            continue;
        if (__builtin_mul_overflow(dim[i] - 1, stride[i], &span) ||
            __builtin_add_overflow(span < 0 ? *before : *after, span, span < 0 ? before : after))
            return false;
    }
    return *before > -INT64_MAX / 16 && *after < INT64_MAX / 16;
}

static bool check_alignment(const void *data, zl_dtype dtype) {
    size_t align = dtype == ZL_COMPLEX64 ? 4 : zl_dtype_size(dtype);
    if ((uintptr_t)data % align == 0)
        return true;
    return error_false(ZL_ERROR_VALUE,
                       "zl_from_foreign: data at %p is not aligned for %s: %zu bytes are needed", data,
                       zl_dtype_name(dtype), align);
}

zl_array zl_from_foreign(const void *data, zl_shape shape, zl_dtype dtype,
                         const zl_foreign_options *options) {
    int64_t size, before = 0, after;
    const int64_t *stride = options ? options->strides : NULL;
    if (!check_data("zl_from_foreign", data, shape, dtype, &size) || !check_alignment(data, dtype))
        return graph_refuse_foreign(options);
    after = size - 1;
    if (stride && !reach(shape.ndim, shape.dim, stride, &before, &after)) {
        error_set(ZL_ERROR_OVERFLOW, "zl_from_foreign: strides %s over shape %s reach too far",
                  shape_text(shape.ndim, stride), shape_text(shape.ndim, shape.dim));
        return graph_refuse_foreign(options);
    }
    int64_t item = (int64_t)zl_dtype_size(dtype);
    size_t bytes = size ? (size_t)((after - before + 1) * item) : 0;
    struct storage *s = storage_foreign((const char *)data + before * item, bytes,
                                        options ? options->release : NULL, options ? options->context : NULL);
    if (!s)
        return graph_refuse_foreign(options);
    return graph_leaf(
        &(struct array_spec){
            .dtype = dtype, .ndim = shape.ndim, .dim = shape.dim, .stride = stride, .offset = -before},
        s);
}

// Looking ---------------------------------------------------------------------------------------------------

zl_dtype zl_dtype_of(zl_array a) {
    return a ? (zl_dtype)a->dtype : ZL_FLOAT32;
}

int zl_ndim(zl_array a) {
    return a ? a->ndim : 0;
}

int64_t zl_dim(zl_array a, int axis) {
    int at = a ? shape_axis("zl_dim", axis, a->ndim) : -1;
    return at < 0 ? -1 : a->dim[at];
}

int64_t zl_size(zl_array a) {
    return a ? a->size : 0;
}

size_t zl_nbytes(zl_array a) {
    return a ? (size_t)a->size * array_item(a) : 0;
}

zl_shape zl_shape_of(zl_array a) {
    return a ? (zl_shape){a->dim, a->ndim} : ZL_SCALAR;
}

zl_shape zl_strides_of(zl_array a) {
    return a ? (zl_shape){array_stride(a), a->ndim} : ZL_SCALAR;
}

bool zl_is_contiguous(zl_array a) {
    return a && array_is(a, ARRAY_CONTIGUOUS);
}

bool zl_is_transposed(zl_array a) {
    if (!a || a->ndim < 2)
        return false;
    const int64_t *stride = array_stride(a);
    int rows = a->ndim - 2, columns = a->ndim - 1;
    if (stride[rows] != 1 || stride[columns] != a->dim[rows] || a->size == 0)
        return false;
    int64_t expected = a->dim[rows] * a->dim[columns];
    for (int i = rows - 1; i >= 0; i--) {
        if (a->dim[i] != 1 && stride[i] != expected)
            return false;
        expected *= a->dim[i];
    }
    return true;
}

bool zl_is_available(zl_array a) {
    return a && !array_is_pending(a);
}
