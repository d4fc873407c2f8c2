// range.c - a part of an array's elements, and which part of its inputs a call needs to compute it.
//
// A part is a range of one axis, or of each period of an axis: rows of several matrices that are consecutive
// along it. Ops that are not listed here are computed as a whole.

#include "op/ops.h"
#include "schedule/schedule.h"

bool range_is_same(const struct range *a, const struct range *b) {
    return a->axis == b->axis && a->period == b->period && a->start == b->start && a->count == b->count;
}

int64_t range_size(zl_array x, int axis, const struct range *r) {
    return axis == r->axis ? x->dim[axis] / r->period * r->count : x->dim[axis];
}

// Returns the range of an input that broadcasts to the output.
static struct range of_operand(zl_array out, zl_array in, struct range r) {
    r.axis -= out->ndim - in->ndim;
    if (r.axis < 0 || in->dim[r.axis] == 1)
        r.axis = -1;
    return r;
}

// Sets *to to the same elements, in row-major order, under other sizes. Returns false if they are not a range
// of one axis.
static bool of_reshaped(zl_array out, zl_array in, const struct range *r, struct range *to) {
    int64_t unit = 1, size = 1;
    for (int i = r->axis + 1; i < out->ndim; i++)
        unit *= out->dim[i];
    int64_t period = r->period * unit, start = r->start * unit, count = r->count * unit;
    for (int i = in->ndim - 1; i >= 0; size *= in->dim[i--])
        if (start % size == 0 && count % size == 0 && period % size == 0 && size * in->dim[i] % period == 0) {
            *to = (struct range){i, period / size, start / size, count / size};
            return true;
        }
    return false;
}

// Returns whether a range of columns keeps b's rows at multiples of 16 bytes: otherwise reading them takes
// longer than computing columns that are not needed.
static bool is_aligned(zl_array b, const struct range *r) {
    int64_t step = array_stride(b)[b->ndim - 1] * (int64_t)array_item(b);
    return r->period == b->dim[b->ndim - 1] && r->start * step % 16 == 0 &&
           (step > 16 || r->count * step % 16 == 0);
}

static bool of_factor(const struct call *c, int k, const struct range *r, struct range *to) {
    zl_array out = call_first(c);
    bool is_row = r->axis == out->ndim - 2, is_column = r->axis == out->ndim - 1;
    *to = k == 2 ? of_operand(out, c->in[k], *r) : *r;
    if ((is_row && k == 1) || (is_column && k == 0))
        to->axis = -1;
    return !is_column || is_aligned(c->in[1], r);
}

// Returns whether all reduced axes come after `axis`. Such sums do not depend on the number of rows; sums
// over an earlier axis may.
static bool reduces_inside(const struct call *c, int axis) {
    for (int i = 0; i < c->args; i++)
        if (call_args(c)[i] <= axis)
            return false;
    return true;
}

static bool takes_all_along(const struct call *c, int axis) {
    struct slice_run run = op_slice_along(c->in[0], call_args(c), axis);
    return run.start == 0 && run.step == 1 && run.count == c->in[0]->dim[axis];
}

// Returns the axis of a squeeze's input that corresponds to an axis of its output. With direction -1, does
// the same for expand_dims, whose arguments are axes of the output.
static int axis_across(const struct call *c, int axis, int direction) {
    int moved = axis;
    for (int i = 0; i < c->args; i++)
        if (call_args(c)[i] <= (direction > 0 ? moved : axis))
            moved += direction;
    return moved;
}

static bool of_view(const struct call *c, const struct range *r, struct range *to) {
    *to = *r;
    if (c->inputs != 1 || c->outputs != 1)
        return false;
    if (c->op == &op_reshape || c->op == &op_flatten || c->op == &op_unflatten)
        return of_reshaped(call_first(c), c->in[0], r, to);
    if (c->op == &op_transpose)
        to->axis = (int)call_args(c)[r->axis];
    else if (c->op == &op_squeeze)
        to->axis = axis_across(c, r->axis, 1);
    else if (c->op == &op_expand_dims)
        to->axis = axis_across(c, r->axis, -1);
    else if (c->op == &op_broadcast_to)
        *to = of_operand(call_first(c), c->in[0], *r);
    else
        return c->op == &op_stop_gradient || (c->op == &op_slice && takes_all_along(c, r->axis));
    return true;
}

bool range_of_input(const struct call *c, int k, const struct range *r, struct range *to) {
    *to = *r;
    switch (c->op->kind) {
    case OP_ELEMENTWISE:
    case OP_CAST:
    case OP_COPY: *to = of_operand(call_first(c), c->in[k], *r); return true;
    case OP_VIEW: return of_view(c, r, to);
    case OP_REDUCE: return reduces_inside(c, r->axis);
    case OP_OTHER: break;
    }
    if (c->op == &op_matmul || c->op == &op_addmm)
        return of_factor(c, k, r, to);
    to->axis = k == 0 ? 0 : -1;
    return c->op == &op_quantized_matmul && c->in[0]->ndim == 2 && r->axis == 0;
}

// Slices ----------------------------------------------------------------------------------------------------

bool range_of_slice(const struct call *c, struct range *r) {
    zl_array x = c->in[0];
    r->axis = -1;
    for (int i = 0; i < x->ndim; i++) {
        struct slice_run run = op_slice_along(x, call_args(c), i);
        if (run.count == 0)
            return false;
        bool is_less =
            r->axis < 0 || (double)run.count * (double)r->period < (double)r->count * (double)x->dim[i];
        if (run.step == 1 && run.count <= x->dim[i] / 2 && is_less)
            *r = (struct range){i, x->dim[i], run.start, run.count};
    }
    return r->axis >= 0;
}

static zl_array slice_axis(zl_array x, int axis, int64_t start, int64_t count) {
    OP_TEMP(int64_t, at, 3 * x->ndim);
    for (int i = 0; at && i < x->ndim; i++) {
        at[i] = i == axis ? start : 0;
        at[x->ndim + i] = i == axis ? start + count : x->dim[i];
        at[2 * x->ndim + i] = 1;
    }
    return at ? zl_slice(x, (zl_shape){at, x->ndim}, (zl_shape){at + x->ndim, x->ndim},
                         (zl_shape){at + 2 * x->ndim, x->ndim})
              : NULL;
}

zl_array range_slice(zl_array x, const struct range *r) {
    if (r->axis < 0 || !x)
        return x;
    if (r->period == x->dim[r->axis])
        return slice_axis(x, r->axis, r->start, r->count);
    x = zl_unflatten(x, r->axis, ZL_SHAPE(x->dim[r->axis] / r->period, r->period));
    x = x ? slice_axis(x, r->axis + 1, r->start, r->count) : NULL;
    return zl_flatten(x, r->axis, r->axis + 1);
}
