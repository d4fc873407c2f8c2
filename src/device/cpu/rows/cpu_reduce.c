// cpu_reduce.c - reductions over any axes of any layout.
//
// The reduction goes by rows if the reduced elements are closer together in memory, and by columns if the
// kept ones are. 16-bit floats are accumulated in float32. The division of work, and so the order of all
// operations, depends on shapes and strides alone: the number of threads does not change any bit.

#include "device/cpu/rows/operands.h"
#include "device/cpu/rows/reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t cpu_reduce_segment(const struct reduction *r, int64_t segment) {
    int64_t size = r->reduced.size, each = size / r->segments, more = size % r->segments;
    return segment * each + MIN_OF(segment, more);
}

void cpu_reduce_load(const struct reduce_rows *by, char *accumulators, const char *elements, int64_t n) {
    if (by->widen)
        cpu_call_row(by->widen, accumulators, elements, NULL, NULL, n);
    else
        memcpy(accumulators, elements, (size_t)(n * by->item));
}

void cpu_reduce_store(const struct reduce_rows *by, char *elements, const char *accumulators, int64_t n) {
    if (by->narrow)
        cpu_call_row(by->narrow, elements, accumulators, NULL, NULL, n);
    else
        memcpy(elements, accumulators, (size_t)(n * by->item));
}

// Setting up ------------------------------------------------------------------------------------------------

static void add_axis(struct layout *l, int64_t dim, int64_t first, int64_t second) {
    struct layout_axis *a = &l->axis[l->axes++];
    a->dim = dim;
    a->step = 1;
    a->stride[0] = first;
    a->stride[1] = second;
    l->size *= dim;
}

static void reverse(struct layout *l) {
    for (int i = 0, j = l->axes - 1; i < j; i++, j--) {
        struct layout_axis a = l->axis[i];
        l->axis[i] = l->axis[j];
        l->axis[j] = a;
    }
}

// Divides the axes of x into those kept, in order, and those reduced.
static void split_axes(struct reduction *r, const struct call *c, zl_array x) {
    const int64_t *args = call_args(c);
    int at = c->args - 1;
    int64_t out = r->by.item;
    for (int i = x->ndim - 1; i >= 0; i--) {
        bool is_reduced = at >= 0 && args[at] == i;
        at -= is_reduced;
        if (x->dim[i] == 1)
            continue;
        int64_t stride = array_stride(x)[i] * r->by.item;
        if (is_reduced) {
            add_axis(&r->reduced, x->dim[i], stride, 0);
        } else {
            add_axis(&r->kept, x->dim[i], out, stride);
            out *= x->dim[i];
        }
    }
    reverse(&r->kept);
    reverse(&r->reduced);
}

// Returns whether axis a goes outside of axis b. Broadcast axes go outermost, then come axes by decreasing
// stride: the order of the reduced elements is free, and this order has the longest runs.
static bool goes_before(const struct layout_axis *a, const struct layout_axis *b) {
    if (a->stride[0] == 0 || b->stride[0] == 0)
        return a->stride[0] == 0 && b->stride[0] != 0;
    return llabs(a->stride[0]) > llabs(b->stride[0]);
}

static void sort_reduced(struct layout *l) {
    for (int i = 0; i < l->axes; i++) {
        struct layout_axis a = l->axis[i];
        if (a.stride[0] < 0) {
            l->data[0] += a.stride[0] * (a.dim - 1);
            a.stride[0] = -a.stride[0];
        }
        int j = i;
        for (; j > 0 && goes_before(&a, &l->axis[j - 1]); j--)
            l->axis[j] = l->axis[j - 1];
        l->axis[j] = a;
    }
}

// Adds a kept axis of one element if a single short row is reduced. It is then reduced by columns, like one
// of several rows, so that its bits do not depend on the number of rows.
static void keep_short_line(struct reduction *r) {
    const struct layout_axis *line = &r->reduced.axis[0];
    if (r->kept.axes == 0 && r->reduced.axes == 1 && line->dim < REDUCE_LINE_LEAST)
        add_axis(&r->kept, 1, r->by.item, line->dim * line->stride[0]);
}

static bool is_by_rows(const struct reduction *r) {
    if (r->kept.axes == 0)
        return true;
    const struct layout_axis *reduced = &r->reduced.axis[r->reduced.axes - 1];
    int64_t kept = llabs(r->kept.axis[r->kept.axes - 1].stride[REDUCE_IN]);
    return reduced->dim >= REDUCE_LINE_LEAST && reduced->stride[0] &&
           (kept == 0 || reduced->stride[0] < kept);
}

// For booleans, the maximum is OR, and the minimum is AND.
row_fn *cpu_reduce_row(enum tile_op op, zl_dtype dtype) {
    if (dtype == ZL_BOOL)
        op = op == TILE_MAX ? TILE_OR : op == TILE_MIN ? TILE_AND : op;
    return cpu_level()->rows->reduce[op][dtype];
}

bool cpu_reduce_choose(struct reduce_rows *rows, enum tile_op op, zl_dtype dtype) {
    const struct row_table *table = cpu_level()->rows;
    bool half = dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
    zl_dtype wide = half ? ZL_FLOAT32 : dtype;
    rows->row = cpu_reduce_row(op, dtype);
    rows->join = cpu_reduce_row(op, wide);
    rows->combine = table->op[op][wide][0];
    rows->widen = half ? table->cast[wide][dtype] : NULL;
    rows->narrow = half ? table->cast[dtype][wide] : NULL;
    rows->item = (int64_t)zl_dtype_size(dtype);
    rows->wide = (int64_t)zl_dtype_size(wide);
    return rows->row && rows->join && rows->combine;
}

// Fills the output with the identity of the op, which is the result for an empty input.
static bool fill_identity(zl_array out, enum tile_op op) {
    char value[REDUCE_WIDEST];
    double identity = op == TILE_MUL || op == TILE_AND ? 1
                      : op == TILE_MAX                 ? -INFINITY
                      : op == TILE_MIN                 ? INFINITY
                                                       : 0;
    dtype_convert(value, (zl_dtype)out->dtype, &identity, ZL_FLOAT64, 1);
    cpu_fill(array_item(out), cpu_data(out), value, out->size);
    return true;
}

bool cpu_reduce(const struct call *c) {
    struct reduction r;
    union scalar room;
    zl_array x = c->in[0], out = call_output(c, 0);
    if (x->size == 0)
        return fill_identity(out, c->op->row);
    if (!cpu_reduce_choose(&r.by, c->op->row, (zl_dtype)x->dtype))
        return error_false(ZL_ERROR_DEVICE, "the cpu device has no kernel for %s of %s", c->op->name,
                           zl_dtype_name((zl_dtype)x->dtype));
    const char *from = array_data(x, &room);
    r.partial = NULL;
    r.kept.axes = r.reduced.axes = 0;
    r.kept.size = r.reduced.size = 1;
    r.kept.operands = 2;
    r.reduced.operands = 1;
    split_axes(&r, c, x);
    r.kept.data[REDUCE_OUT] = cpu_data(out);
    r.reduced.data[0] = r.kept.data[REDUCE_IN] = (char *)(uintptr_t)from;
    if (r.reduced.axes == 0) {
        cpu_copy((size_t)r.by.item, x->ndim, x->dim, cpu_data(out), array_stride(out), from, array_stride(x));
        return true;
    }
    sort_reduced(&r.reduced);
    r.kept.data[REDUCE_IN] =
        r.reduced.data[0]; // the first element that is reduced, also if strides were negative
    cpu_layout_merge(&r.kept);
    cpu_layout_merge(&r.reduced);
    keep_short_line(&r);
    return is_by_rows(&r) ? cpu_reduce_by_rows(&r) : cpu_reduce_by_columns(&r);
}
