// show.c - arrays as text: array([[1, 2], [3, 4]], dtype=float32), long axes shortened in the middle.

#include <math.h>

#include "schedule/schedule.h"

enum {
    EDGE = 3,
    LONGEST = 1000
}; // elements shown at each end of a long axis; elements that zl_print shows without shortening

static void add_float(struct text *out, double x) {
    if (isnan(x))
        text_add(out, "nan");
    else
        text_add(out, isinf(x) ? (x > 0 ? "inf" : "-inf") : "%.6g", x);
}

static void add_element(struct text *out, zl_dtype dtype, const char *at) {
    double value[2] = {0};
    int64_t whole;
    if (dtype == ZL_COMPLEX64) {
        const float *c = (const float *)(const void *)at;
        add_float(out, c[0]);
        text_add(out, c[1] < 0 || signbit(c[1]) ? "-" : "+");
        add_float(out, fabs((double)c[1]));
        text_add(out, "j");
    } else if (dtype_is_float(dtype)) {
        dtype_convert(value, ZL_FLOAT64, at, dtype, 1);
        add_float(out, value[0]);
    } else {
        dtype_convert(&whole, ZL_INT64, at, dtype, 1);
        if (dtype == ZL_BOOL)
            text_add(out, whole ? "True" : "False");
        else
            text_add(out, dtype == ZL_UINT64 ? "%llu" : "%lld", (long long)whole);
    }
}

static void add_axis(struct text *out, zl_array a, int axis, const char *data, bool shorten) {
    size_t item = array_item(a);
    if (axis == a->ndim) {
        add_element(out, (zl_dtype)a->dtype, data);
        return;
    }
    int64_t count = a->dim[axis], step = array_stride(a)[axis] * (int64_t)item;
    text_add(out, "[");
    for (int64_t i = 0; i < count && !out->failed; i++) {
        if (i)
            text_add(out, axis == a->ndim - 1 ? ", " : ",\n%*s", axis == a->ndim - 1 ? 0 : axis + 7, "");
        if (shorten && count > 2 * EDGE && i == EDGE) {
            text_add(out, axis == a->ndim - 1 ? "..., " : "...,\n%*s", axis == a->ndim - 1 ? 0 : axis + 7,
                     "");
            i = count - EDGE;
        }
        add_axis(out, a, axis + 1, data + i * step, shorten);
    }
    text_add(out, "]");
}

static char *print(const char *function, zl_array a, int64_t most) {
    union scalar room;
    struct text out = {0};
    if (!eval_read(function, a))
        return NULL;
    text_add(&out, "array(");
    const char *data = array_data(a, &room);
    if (a->size)
        add_axis(&out, a, 0, data, a->size > most);
    else
        text_add(&out, "[]");
    text_add(&out, ", dtype=%s)", zl_dtype_name((zl_dtype)a->dtype));
    return text_take(&out);
}

char *zl_print(zl_array a) {
    return print("zl_print", a, LONGEST);
}

char *zl_print_most(zl_array a, int64_t most) {
    return print("zl_print_most", a, most);
}
