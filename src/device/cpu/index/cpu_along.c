// cpu_along.c - take_along_axis and put_along_axis.
//
// The shape of the indices is walked row by row. The indexed axis of the array has stride 0 in this walk;
// each index is added as an offset.

#include "device/cpu/index/index.h"
#include "device/cpu/rows/operands.h"
#include "op/ops.h"

enum { INDEX, ARRAY, OTHER }; // operands; OTHER: the result of take, or the values of put

struct along {
    struct layout layout;
    zl_dtype dtype;    // of indices
    int64_t dim, step; // of the indexed axis: elements, bytes
    gather_fn *gather;
    scatter_fn *scatter;
    take_fn *take; // for contiguous indices; NULL: indices are converted first
    put_fn *put;
    int apart; // an axis of the layout whose positions have no elements of the array in common; -1: none
};

typedef void along_row(const struct along *a, char *array, char *other, int64_t *index, int64_t n);

static void take_row(const struct along *a, char *array, char *other, int64_t *index, int64_t n) {
    const struct layout_axis *x = &a->layout.axis[a->layout.axes - 1];
    for (int64_t i = 0; i < n; i++)
        index[i] = i * x->stride[ARRAY] + cpu_position(index[i], a->dim, a->dim - 1) * a->step;
    if (x->stride[OTHER] == a->layout.item[ARRAY] || n == 1)
        a->gather(other, array, index, n);
    else
        for (int64_t i = 0; i < n; i++)
            a->gather(other + i * x->stride[OTHER], array, index + i, 1);
}

// Writes a row. Elements with an index out of range are skipped.
static void put_row(const struct along *a, char *array, char *other, int64_t *index, int64_t n) {
    const struct layout_axis *x = &a->layout.axis[a->layout.axes - 1];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = index[i] < 0 ? index[i] + a->dim : index[i];
        bool within = at >= 0 && at < a->dim;
        index[i] = within ? i * x->stride[ARRAY] + at * a->step : -1;
    }
    a->scatter(array, index, other, x->stride[OTHER], n);
}

// Takes or puts a row of the layout, block by block.
static void run_row(const struct along *a, const struct walk *w, along_row *row) {
    const struct layout_axis *x = &a->layout.axis[a->layout.axes - 1];
    struct indexed axis = {w->data[ARRAY], a->dim, a->step, x->stride[ARRAY]};
    if (a->take || a->put) {
        if (a->take)
            a->take(w->data[OTHER], &axis, w->data[INDEX], x->dim);
        else
            a->put(w->data[OTHER], &axis, w->data[INDEX], x->dim);
        return;
    }
    int64_t index[INDICES_BLOCK];
    for (int64_t i = 0, n; i < x->dim; i += n) {
        n = MIN_OF(x->dim - i, INDICES_BLOCK);
        cpu_indices_read(w->data[INDEX] + i * x->stride[INDEX], x->stride[INDEX], a->dtype, n, index);
        row(a, w->data[ARRAY] + i * x->stride[ARRAY], w->data[OTHER] + i * x->stride[OTHER], index, n);
    }
}

static void add_operand(struct layout *l, zl_array like, zl_array x, const char *data,
                        const int64_t *stride) {
    cpu_layout_add(l, data, array_item(x), like->ndim, like->dim, stride);
}

// Sets up the layout but for its third operand. stride: space for one number per axis.
static void plan(struct along *a, zl_array array, const char *data, zl_array indices, union scalar *room,
                 int axis, int64_t *stride) {
    for (int i = 0; i < array->ndim; i++)
        stride[i] = i == axis ? 0 : array_stride(array)[i];
    a->dtype = (zl_dtype)indices->dtype;
    a->dim = array->dim[axis];
    a->step = array_stride(array)[axis] * (int64_t)array_item(array);
    cpu_layout_start(&a->layout, indices->ndim, indices->dim, 0);
    add_operand(&a->layout, indices, indices, array_data(indices, room), array_stride(indices));
    add_operand(&a->layout, indices, array, data, stride);
}

// Makes the last axis the row that one step handles. If there is no axis, the single element is a row.
static void plan_rows(struct layout *l) {
    if (l->axes == 0)
        l->axis[l->axes++] = (struct layout_axis){.dim = 1};
    l->loops = l->axes - 1;
    for (int j = 0; j < l->axes; j++)
        l->axis[j].step = 1;
}

// Returns whether the indices of a row, and the elements of the other operand, are contiguous.
static bool is_dense(const struct along *a) {
    const struct layout_axis *x = &a->layout.axis[a->layout.axes - 1];
    return x->stride[INDEX] == a->layout.item[INDEX] && x->stride[OTHER] == a->layout.item[OTHER];
}

static void take_rows(const struct layout *l, struct walk *w, int64_t tiles, const void *context) {
    const struct along *a = context;
    for (;;) {
        run_row(a, w, take_row);
        if (--tiles == 0)
            return;
        cpu_walk_next(l, w);
    }
}

// Splits a single long row into pieces, so that threads can share it.
static void cut_row(struct layout *l) {
    enum { PIECE = 16384 };
    int64_t whole = l->axis[0].dim / PIECE;
    if (l->axes != 1 || l->axis[0].dim % PIECE || whole < 2)
        return;
    l->axis[1] = l->axis[0];
    l->axis[0].dim = whole;
    l->axis[1].dim = PIECE;
    for (int k = 0; k < l->operands; k++)
        l->axis[0].stride[k] *= PIECE;
    l->axes = 2;
}

bool cpu_take_along(const struct call *c) {
    union scalar room[2];
    zl_array x = c->in[0], out = call_output(c, 0);
    OP_TEMP(int64_t, stride, x->ndim);
    struct along a;
    if (!stride)
        return false;
    a.gather = cpu_gather_elements(array_item(x));
    plan(&a, x, array_data(x, &room[0]), c->in[1], &room[1], (int)call_args(c)[0], stride);
    add_operand(&a.layout, out, out, cpu_data(out), array_stride(out));
    cpu_layout_merge(&a.layout);
    cut_row(&a.layout);
    plan_rows(&a.layout);
    a.take = is_dense(&a) ? cpu_take_elements(a.dtype, array_item(x)) : NULL;
    a.put = NULL;
    cpu_walk(&a.layout, (double)out->size * (double)(16 + 2 * array_item(x)), take_rows, &a);
    return true;
}

// Puts positions [from, to) of the axis that threads share. Writes to the same element are in order.
static void put_part(const void *context, int64_t from, int64_t to) {
    struct along a = *(const struct along *)context;
    struct layout *l = &a.layout;
    struct walk w;
    if (a.apart >= 0) {
        l->axis[a.apart].dim = to - from;
        for (int k = 0; k < l->operands; k++)
            l->data[k] += l->axis[a.apart].stride[k] * from;
    }
    int64_t rows = 1;
    for (int j = 0; j < l->loops; j++)
        rows *= l->axis[j].dim;
    cpu_walk_to(l, &w, 0);
    for (;;) {
        run_row(&a, &w, put_row);
        if (--rows == 0)
            return;
        cpu_walk_next(l, &w);
    }
}

static void run_put(struct along *a) {
    const struct layout *l = &a->layout;
    a->apart = -1;
    for (int j = l->axes - 1; j >= 0; j--)
        a->apart = l->axis[j].stride[ARRAY] && l->axis[j].dim > 1 ? j : a->apart;
    int64_t count = a->apart < 0 ? 1 : l->axis[a->apart].dim, bytes = l->size / count * 32 + 1;
    cpu_split(count, CPU_SPLIT / bytes + 1, put_part, a);
}

bool cpu_put_along(const struct call *c) {
    union scalar room[2];
    zl_array out = call_output(c, 0), values = c->in[2];
    OP_TEMP(int64_t, stride, out->ndim);
    if (!stride)
        return false;
    struct along a;
    a.scatter = cpu_scatter_elements((int)call_args(c)[1], (zl_dtype)out->dtype);
    plan(&a, out, cpu_copy_input(c), c->in[1], &room[0], (int)call_args(c)[0], stride);
    add_operand(&a.layout, values, values, array_data(values, &room[1]), array_stride(values));
    cpu_layout_merge(&a.layout);
    plan_rows(&a.layout);
    a.take = NULL;
    a.put = call_args(c)[1] == UPDATE_SET && is_dense(&a) ? cpu_put_elements(a.dtype, array_item(out)) : NULL;
    run_put(&a);
    return true;
}
