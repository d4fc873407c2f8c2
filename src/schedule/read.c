// read.c - reads the data of arrays: evaluates them first, and waits only for the array that is read.

#include "schedule/schedule.h"

static const void *read_dense(const char *function, zl_array a) {
    static _Thread_local union scalar room[8]; // values of inline scalars, for the next eight reads
    static _Thread_local unsigned turn;
    if (!eval_read(function, a))
        return NULL;
    if (!array_is(a, ARRAY_CONTIGUOUS))
        return error_set(ZL_ERROR_STATE,
                         "%s: this array of shape %s has strides %s and is not row-major: use "
                         "zl_contiguous or zl_copy_to",
                         function, array_text(a), shape_text(a->ndim, array_stride(a)));
    return array_data(a, &room[turn++ % 8]);
}

static const void *read_typed(const char *function, zl_array a, zl_dtype dtype) {
    if (a && a->dtype != dtype)
        return error_set(ZL_ERROR_DTYPE, "%s: the array is %s: use zl_data, or zl_astype first", function,
                         zl_dtype_name((zl_dtype)a->dtype));
    return read_dense(function, a);
}

const void *zl_data(zl_array a) {
    return read_dense("zl_data", a);
}

const float *zl_data_f32(zl_array a) {
    return read_typed("zl_data_f32", a, ZL_FLOAT32);
}

const double *zl_data_f64(zl_array a) {
    return read_typed("zl_data_f64", a, ZL_FLOAT64);
}

const int32_t *zl_data_i32(zl_array a) {
    return read_typed("zl_data_i32", a, ZL_INT32);
}

const int64_t *zl_data_i64(zl_array a) {
    return read_typed("zl_data_i64", a, ZL_INT64);
}

const bool *zl_data_bool(zl_array a) {
    return read_typed("zl_data_bool", a, ZL_BOOL);
}

// Returns whether only a device has the data, from the beginning of its memory, so that it can be copied to
// the program without a host replica.
static bool is_elsewhere(zl_array a) {
    return device_has_memory() && !array_is(a, ARRAY_INLINE) && array_is(a, ARRAY_CONTIGUOUS) && a->storage &&
           !a->storage->data && a->offset == 0;
}

bool zl_copy_to(zl_array a, void *out, size_t bytes) {
    bool ok = a != NULL;
    if (ok && (bytes != zl_nbytes(a) || (bytes && !out)))
        return error_false(ZL_ERROR_VALUE, "zl_copy_to: %s room of %zu bytes for an array of %zu",
                           out ? "a" : "no", bytes, zl_nbytes(a));
    ZL_SCOPE {
        zl_array whole = a ? zl_contiguous(a, false) : NULL;
        if (whole && !eval_arrays("zl_copy_to", 1, &whole, true)) {
            ok = false;
        } else if (whole && bytes && is_elsewhere(whole)) {
            ok = device_download(whole->storage, out, bytes);
        } else {
            const void *data = read_dense("zl_copy_to", whole);
            ok = data || (ok && !bytes && !zl_error());
            if (data && bytes)
                pool_copy(out, data, bytes);
        }
    }
    return ok;
}

// Returns the address of the only element of a, or NULL and an error.
static const void *read_one(const char *function, zl_array a, union scalar *room) {
    if (a && a->size != 1)
        return error_set(ZL_ERROR_SHAPE, "%s: an array of shape %s has %lld elements: one is needed",
                         function, array_text(a), (long long)a->size);
    return eval_read(function, a) ? array_data(a, room) : NULL;
}

double zl_item(zl_array a) {
    union scalar room;
    double value = 0;
    const void *data = read_one("zl_item", a, &room);
    if (data)
        dtype_convert(&value, ZL_FLOAT64, data, (zl_dtype)a->dtype, 1);
    return value;
}

int64_t zl_item_int(zl_array a) {
    union scalar room;
    int64_t value = 0;
    const void *data = read_one("zl_item_int", a, &room);
    if (data)
        dtype_convert(&value, ZL_INT64, data, (zl_dtype)a->dtype, 1);
    return value;
}

bool zl_assign(zl_array *owned, zl_array value) {
    if (!owned)
        return error_false(ZL_ERROR_VALUE, "zl_assign: the place to assign to is NULL");
    if (!eval_arrays("zl_assign", 1, &value, true))
        return false;
    zl_array old = *owned;
    *owned = zl_retain(value);
    zl_release(old);
    return true;
}
