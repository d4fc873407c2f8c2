// random_view.c - arrays of random layout in foreign memory.

#include "random_view.h"

#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

int view_shape(int64_t most, int64_t *dim) {
    static const int64_t sizes[] = {1, 2, 3, 5, 8, 16, 17, 40, 130, 257, 600, 2100};
    int ndim = (int)test_between(0, VIEW_AXES - 1);
    int64_t size = 1;
    for (int i = 0; i < ndim; i++) {
        int64_t d = sizes[test_between(0, 11)];
        while (size * d > most && d > 1)
            d = d / 2;
        dim[i] = d;
        size *= d;
    }
    return ndim;
}

// Small integers, which are exact in every dtype, as are their sums.
static void fill(char *data, zl_dtype dtype, int64_t count) {
    bool is_unsigned = dtype == ZL_BOOL || (dtype_is_integer(dtype) && !dtype_is_signed(dtype));
    int64_t parts = dtype == ZL_COMPLEX64 ? 2 : 1;
    zl_dtype element = dtype == ZL_COMPLEX64 ? ZL_FLOAT32 : dtype;
    for (int64_t i = 0; i < count * parts; i++) {
        double value = (double)test_between(is_unsigned ? 0 : -4, dtype == ZL_BOOL ? 1 : 4);
        dtype_convert(data + i * (int64_t)zl_dtype_size(element), element, &value, ZL_FLOAT64, 1);
    }
}

static void shuffle(int count, int *order) {
    for (int i = 0; i < count; i++)
        order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        int j = (int)test_between(0, i), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

// Draws the strides of the view. Returns the number of elements that it spans, and sets *first to the place
// of element 0 among them.
static int64_t draw_strides(struct view *v, int64_t *first) {
    enum { PLAIN, PERMUTED, STEPPED, REVERSED, REPEATED, KINDS };
    int order[VIEW_AXES], kind = (int)test_between(0, KINDS - 1);
    int64_t step = kind == STEPPED ? test_between(2, 3) : 1, before = 0, after = 0;
    for (int i = 0; i < v->ndim; i++)
        order[i] = i;
    if (kind != PLAIN)
        shuffle(v->ndim, order);
    for (int i = v->ndim - 1; i >= 0; i--) {
        int axis = order[i];
        v->stride[axis] = kind == REPEATED && test_between(0, 1)   ? 0
                          : kind == REVERSED && test_between(0, 1) ? -step
                                                                   : step;
        int64_t span = v->stride[axis] * (v->dim[axis] - 1);
        *(span < 0 ? &before : &after) += span;
        if (v->stride[axis])
            step *= v->dim[axis];
    }
    *first = -before;
    return after - before + 1;
}

struct view view_random(zl_dtype dtype, int ndim, const int64_t *dim) {
    struct view v = {.dtype = dtype, .ndim = ndim};
    memcpy(v.dim, dim, sizeof(int64_t) * (size_t)ndim);
    int64_t first, count = draw_strides(&v, &first);
    size_t item = zl_dtype_size(dtype);
    char *data = malloc((size_t)count * item);
    if (!data)
        return v;
    fill(data, dtype, count);
    v.first = data + first * (int64_t)item;
    v.array = zl_from_foreign(v.first, (zl_shape){v.dim, ndim}, dtype,
                              &(zl_foreign_options){.strides = v.stride, .release = free, .context = data});
    return v;
}

struct view view_broadcast(zl_dtype dtype, int ndim, const int64_t *dim) {
    int64_t own[VIEW_AXES];
    int skip = test_between(0, 2) ? 0 : (int)test_between(0, ndim);
    for (int i = skip; i < ndim; i++)
        own[i - skip] = test_between(0, 3) ? dim[i] : 1;
    return view_random(dtype, ndim - skip, own);
}

static double read_element(const char *from, zl_dtype dtype, int part) {
    double value;
    if (dtype == ZL_COMPLEX64)
        dtype_convert(&value, ZL_FLOAT64, from + 4 * part, ZL_FLOAT32, 1);
    else
        dtype_convert(&value, ZL_FLOAT64, from, dtype, 1);
    return value;
}

double view_at(const struct view *v, int ndim, const int64_t *at, int part) {
    int64_t offset = 0;
    for (int i = 0; i < v->ndim; i++)
        offset += v->dim[i] == 1 ? 0 : at[ndim - v->ndim + i] * v->stride[i];
    return read_element(v->first + offset * (int64_t)zl_dtype_size(v->dtype), v->dtype, part);
}

bool next_position(int ndim, const int64_t *dim, int64_t *at) {
    for (int i = ndim - 1; i >= 0; i--) {
        if (++at[i] < dim[i])
            return true;
        at[i] = 0;
    }
    return false;
}

double dense_at(zl_array a, int64_t index, int part) {
    const char *data = zl_data(a);
    return data ? read_element(data + index * (int64_t)array_item(a), (zl_dtype)a->dtype, part) : 0;
}
