// update.c - replaces a part of an array, or combines it with other numbers: a slice with constant bounds, or
// one whose start is an array.

#include "op/ops.h"

// slice_update ----------------------------------------------------------------------------------------------

static const char *const names[] = {"zl_slice_update", "zl_slice_update_add", "zl_slice_update_prod",
                                    "zl_slice_update_max", "zl_slice_update_min"};

// Returns one axis of the slice of x in arg, which has how, then starts, stops and steps.
static struct slice_run run_of(zl_array x, const int64_t *arg, int axis) {
    const int64_t *at = arg + 1 + axis;
    return op_slice_run(x->dim[axis], at[0], at[x->ndim], at[2 * x->ndim]);
}

static zl_array combine(enum update how, zl_array x, zl_array update) {
    switch (how) {
    case UPDATE_SET: return op_same(update);
    case UPDATE_ADD: return zl_add(x, update);
    case UPDATE_PROD: return zl_multiply(x, update);
    case UPDATE_MAX: return zl_maximum(x, update);
    default: return zl_minimum(x, update);
    }
}

// Broadcasts the update, which has the dtype of x, to the slice, and records the call.
static zl_array update_slice(zl_array x, zl_array update, const int64_t *arg) {
    OP_TEMP(int64_t, dim, x->ndim);
    if (!dim)
        return NULL;
    bool whole = true;
    for (int i = 0; i < x->ndim; i++) {
        struct slice_run run = run_of(x, arg, i);
        dim[i] = run.count;
        whole = whole && run.count == x->dim[i] && run.step > 0;
    }
    if (!op_check_broadcast_to(names[arg[0]], update, x->ndim, dim))
        return NULL;
    update = zl_broadcast_to(update, (zl_shape){dim, x->ndim});
    if (!update || whole)
        return update ? combine((enum update)arg[0], x, update) : NULL;
    if (update->size == 0)
        return op_same(x);
    return op_dense(&op_slice_update, 2, (zl_array[]){x, update}, 1 + 3 * x->ndim, arg, (zl_dtype)x->dtype,
                    x->ndim, x->dim);
}

static bool record_update(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = update_slice(in[0], in[1], call_args(c)));
}

static zl_array slice_of(const struct call *c, zl_array x) {
    const int64_t *start = call_args(c) + 1, *stop = start + x->ndim;
    return zl_slice(x, (zl_shape){start, x->ndim}, (zl_shape){stop, x->ndim},
                    (zl_shape){stop + x->ndim, x->ndim});
}

static zl_array vjp_of_x(const struct call *c, zl_array g) {
    switch (call_args(c)[0]) {
    case UPDATE_SET: return update_slice(g, op_number((zl_dtype)g->dtype, 0), call_args(c));
    case UPDATE_ADD: return g;
    case UPDATE_PROD: return update_slice(g, c->in[1], call_args(c));
    default: return op_winners(call_output(c, 0), c->in[0], g);
    }
}

static zl_array vjp_update(const struct call *c, int input, const zl_array *cotangent) {
    zl_array g = input ? slice_of(c, cotangent[0]) : NULL;
    if (!input)
        return vjp_of_x(c, cotangent[0]);
    switch (call_args(c)[0]) {
    case UPDATE_SET:
    case UPDATE_ADD: return g;
    case UPDATE_PROD: return zl_multiply(g, slice_of(c, c->in[0]));
    default: return op_winners(slice_of(c, call_output(c, 0)), c->in[1], g);
    }
}

static bool jvp_update(const struct call *c, const zl_array *tangent, zl_array *out) {
    out[0] = NULL;
    if (!tangent[0] && !tangent[1])
        return true;
    if (call_args(c)[0] != UPDATE_SET && call_args(c)[0] != UPDATE_ADD)
        return error_false(ZL_ERROR_VALUE, "%s has no forward derivative", names[call_args(c)[0]]);
    zl_array x = tangent[0] ? tangent[0] : op_zeros_of(c->in[0]);
    zl_array update = tangent[1] ? tangent[1] : op_zeros_of(c->in[1]);
    return x && update && record_update(c, (zl_array[]){x, update}, out);
}

static bool vmap_update(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                        int *out_axis) {
    static const int64_t all[] = {0, INT64_MAX, 1};
    int ndim = c->in[0]->ndim;
    int64_t batch = op_batch_size(2, in, axis);
    OP_TEMP(int64_t, arg, c->args + 3);
    out_axis[0] = batch < 0 ? -1 : 0;
    if (!arg || batch < 0)
        return arg && record_update(c, in, out);
    arg[0] = call_args(c)[0];
    for (int part = 0; part < 3; part++) {
        int64_t *to = arg + 1 + part * (ndim + 1);
        to[0] = all[part];
        for (int i = 0; i < ndim; i++)
            to[i + 1] = call_args(c)[1 + part * ndim + i];
    }
    zl_array x = op_batch_repeat(in[0], axis[0], batch), update = op_batch_any(in[1], axis[1]);
    return x && update && (out[0] = update_slice(x, update, arg));
}

static bool fits_slice_update(const struct call *c, const zl_array *in) {
    int ndim = in[0]->ndim;
    return op_has(c, 2, 1 + 3 * ndim) && op_is_among(call_args(c)[0], UPDATE_MIN + 1) &&
           in[1]->dtype == in[0]->dtype && op_has_steps(ndim, call_args(c) + 1 + 2 * ndim);
}

static const struct op_field update_field[] = {{"how", FIELD_INT}, {"start_stop_step", FIELD_LIST}};
const struct op op_slice_update = {
    .name = "slice_update",
    .kind = OP_OTHER,
    .fields = 2,
    .field = update_field,
    .record = record_update,
    .fits = fits_slice_update,
    .vjp = vjp_update,
    .jvp = jvp_update,
    .vmap = vmap_update,
};

static bool check_bounds(const char *function, zl_array x, zl_shape start, zl_shape stop, zl_shape step) {
    if (!op_check_list(function, start) || !op_check_list(function, stop) || !op_check_list(function, step))
        return false;
    if (start.ndim != x->ndim || stop.ndim != x->ndim || step.ndim != x->ndim)
        return error_false(ZL_ERROR_SHAPE, "%s: %d starts, %d stops and %d steps for shape %s: each needs %d",
                           function, start.ndim, stop.ndim, step.ndim, array_text(x), x->ndim);
    for (int i = 0; i < x->ndim; i++)
        if (!step.dim[i])
            return error_false(ZL_ERROR_VALUE, "%s: the step of axis %d is 0", function, i);
    return true;
}

static zl_array check_and_update(enum update how, zl_array x, zl_array update, zl_shape start, zl_shape stop,
                                 zl_shape step) {
    if (!x || !update || !check_bounds(names[how], x, start, stop, step))
        return NULL;
    OP_TEMP(int64_t, arg, 1 + 3 * x->ndim);
    if (!arg)
        return NULL;
    arg[0] = how;
    for (int i = 0; i < x->ndim; i++) {
        arg[1 + i] = start.dim[i];
        arg[1 + x->ndim + i] = stop.dim[i];
        arg[1 + 2 * x->ndim + i] = step.dim[i];
    }
    update = zl_astype(update, (zl_dtype)x->dtype);
    return update ? update_slice(x, update, arg) : NULL;
}

#define SLICE_UPDATE(function, HOW, doc)                                                               \
    zl_array function(zl_array src, zl_array update, zl_shape start, zl_shape stop, zl_shape step) {   \
        return check_and_update(UPDATE_##HOW, src, update, start, stop, step);                         \
    }                                                                                                  \
    OP_SIGNATURE(function, "index", doc, P_ARRAY(src), P_ARRAY(update), P_SHAPE(start), P_SHAPE(stop), \
                 P_SHAPE(step))

SLICE_UPDATE(
    zl_slice_update, SET,
    "src with the slice from start to stop, step apart, replaced by update, which is broadcast to it. "
    "Numbers mean what they do in zl_slice.");
SLICE_UPDATE(zl_slice_update_add, ADD, "src with update added to a slice; else as zl_slice_update.");
SLICE_UPDATE(zl_slice_update_prod, PROD, "src with a slice multiplied by update; else as zl_slice_update.");
SLICE_UPDATE(zl_slice_update_max, MAX,
             "src with the larger of the elements of a slice and update; NaN if one is. Else as "
             "zl_slice_update.");
SLICE_UPDATE(zl_slice_update_min, MIN,
             "src with the smaller of the elements of a slice and update; NaN if one is. Else as "
             "zl_slice_update.");

// dynamic_slice ---------------------------------------------------------------------------------------------

// arg: number of axes, the axes, then the sizes.
static zl_array slice_at(zl_array a, zl_array start, const int64_t *arg) {
    return op_dense(&op_dynamic_slice, 2, (zl_array[]){a, start}, 1 + (int)arg[0] + a->ndim, arg,
                    (zl_dtype)a->dtype, a->ndim, arg + 1 + arg[0]);
}

// arg: the axes.
static zl_array update_at(zl_array a, zl_array update, zl_array start, const int64_t *arg) {
    if (update->size == 0)
        return op_same(a);
    return op_dense(&op_dynamic_slice_update, 3, (zl_array[]){a, update, start}, (int)start->size, arg,
                    (zl_dtype)a->dtype, a->ndim, a->dim);
}

static bool record_slice(const struct call *c, const zl_array *in, zl_array *out) {
    int count = (int)call_args(c)[0];
    OP_TEMP(int, axes, count);
    if (!axes)
        return false;
    op_axes_of(count, call_args(c) + 1, axes);
    return (out[0] = zl_dynamic_slice(in[0], in[1], (zl_axes){axes, count},
                                      (zl_shape){call_args(c) + 1 + count, in[0]->ndim}));
}

static bool record_update_at(const struct call *c, const zl_array *in, zl_array *out) {
    OP_TEMP(int, axes, c->args);
    if (!axes)
        return false;
    op_axes_of(c->args, call_args(c), axes);
    return (out[0] = zl_dynamic_slice_update(in[0], in[1], in[2], (zl_axes){axes, c->args}));
}

static zl_array vjp_slice(const struct call *c, int input, const zl_array *cotangent) {
    if (input > 0)
        return op_refuse_positions(c);
    zl_array zeros = op_zeros_of(c->in[0]);
    return zeros ? update_at(zeros, cotangent[0], c->in[1], call_args(c) + 1) : NULL;
}

// As in MLX, the start may depend on differentiated inputs only if the array does too; its own tangent is
// then ignored.
static bool jvp_slice(const struct call *c, const zl_array *tangent, zl_array *out) {
    out[0] = NULL;
    if (!tangent[0])
        return !tangent[1] || op_refuse_positions(c);
    return (out[0] = slice_at(tangent[0], c->in[1], call_args(c)));
}

static zl_array vjp_update_at(const struct call *c, int input, const zl_array *cotangent) {
    zl_array g = cotangent[0], update = c->in[1];
    OP_TEMP(int64_t, arg, 1 + c->args + g->ndim);
    if (!arg)
        return NULL;
    if (input == 0) {
        zl_array zeros = op_zeros_of(update);
        return zeros ? update_at(g, zeros, c->in[2], call_args(c)) : NULL;
    }
    arg[0] = c->args;
    for (int i = 0; i < c->args; i++)
        arg[1 + i] = call_args(c)[i];
    for (int i = 0; i < g->ndim; i++)
        arg[1 + c->args + i] = update->dim[i];
    return slice_at(g, c->in[2], arg);
}

static bool jvp_update_at(const struct call *c, const zl_array *tangent, zl_array *out) {
    out[0] = NULL;
    if (!tangent[0] && !tangent[1])
        return true;
    zl_array a = tangent[0] ? tangent[0] : op_zeros_of(c->in[0]);
    zl_array update = tangent[1] ? tangent[1] : op_zeros_of(c->in[1]);
    return a && update && (out[0] = update_at(a, update, c->in[2], call_args(c)));
}

// Batching uses one array of indices per axis, and one for the batch; each batch element has its own slice.

// Returns the start along axis k of each batch element, clamped such that a slice of this size is inside;
// starts: (batch, axes).
static zl_array starts_of(zl_array starts, int k, int64_t dim, int64_t size) {
    zl_array at = zl_astype(zl_take(starts, zl_scalar_int(k), 1), ZL_INT64);
    at = zl_where(zl_less(at, op_number(ZL_INT64, 0)), zl_add(at, zl_scalar_int(dim)), at);
    return zl_maximum(zl_minimum(at, zl_scalar_int(dim - size)), op_number(ZL_INT64, 0));
}

// Writes indices and axes for slices of the given sizes (of one batch element). The batch itself is indexed
// last if it is an axis of a.
static bool batch_places(zl_array a, zl_array starts, bool is_batch, int count, const int64_t *axes,
                         const int64_t *size, zl_array *index, int *out_axes) {
    for (int k = 0; k < count; k++) {
        out_axes[k] = (int)axes[k] + is_batch;
        if (!(index[k] = starts_of(starts, k, a->dim[out_axes[k]], size[axes[k]])))
            return false;
    }
    out_axes[count] = 0;
    return (index[count] = zl_arange_int(0, starts->dim[0], 1, ZL_INT64));
}

static zl_array batch_starts(zl_array start, int axis, int64_t batch) {
    zl_array starts = op_batch_repeat(start, axis, batch);
    return starts && starts->ndim == 1 ? zl_expand_dims(starts, ZL_AXES(1)) : starts;
}

static zl_array slice_each(const struct call *c, zl_array a, bool is_batch, zl_array starts) {
    int count = (int)call_args(c)[0];
    const int64_t *sizes = call_args(c) + 1 + count;
    OP_TEMP(zl_array, index, count + 1);
    OP_TEMP(int, axes, count + 1);
    OP_TEMP(int64_t, size, a->ndim);
    if (!index || !axes || !size ||
        !batch_places(a, starts, is_batch, count, call_args(c) + 1, sizes, index, axes))
        return NULL;
    for (int i = 0; i < a->ndim; i++)
        size[i] = is_batch ? (i ? sizes[i - 1] : 1) : sizes[i];
    zl_array y =
        zl_gather(a, index, count + is_batch, (zl_axes){axes, count + is_batch}, (zl_shape){size, a->ndim});
    return is_batch ? zl_squeeze(y, ZL_AXES(1)) : y;
}

// Slices all batch elements at the same start: the batch is one more axis.
static zl_array slice_together(const struct call *c, zl_array a, zl_array start) {
    int count = (int)call_args(c)[0];
    OP_TEMP(int64_t, arg, c->args + 1);
    if (!arg)
        return NULL;
    arg[0] = count;
    for (int i = 0; i < count; i++)
        arg[1 + i] = call_args(c)[1 + i] + 1;
    for (int i = 0; i < a->ndim; i++)
        arg[1 + count + i] = i ? call_args(c)[count + i] : a->dim[0];
    return slice_at(a, start, arg);
}

static bool vmap_slice(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                       int *out_axis) {
    int64_t batch = op_batch_size(2, in, axis);
    out_axis[0] = batch < 0 ? -1 : 0;
    if (batch < 0)
        return record_slice(c, in, out);
    zl_array a = axis[0] < 0 ? in[0] : op_batch_first(in[0], axis[0]);
    zl_array starts = batch_starts(in[1], axis[1], batch);
    if (!a || !starts)
        return false;
    return (out[0] = axis[1] < 0 ? slice_together(c, a, in[1]) : slice_each(c, a, axis[0] >= 0, starts));
}

static bool vmap_update_at(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                           int *out_axis) {
    int64_t batch = op_batch_size(3, in, axis);
    out_axis[0] = batch < 0 ? -1 : 0;
    if (batch < 0)
        return record_update_at(c, in, out);
    zl_array a = op_batch_repeat(in[0], axis[0], batch), update = op_batch_repeat(in[1], axis[1], batch);
    zl_array starts = batch_starts(in[2], axis[2], batch);
    OP_TEMP(zl_array, index, c->args + 1);
    OP_TEMP(int, axes, c->args + 1);
    if (!a || !update || !starts || !index || !axes ||
        !batch_places(a, starts, true, c->args, call_args(c), c->in[1]->dim, index, axes))
        return false;
    return (out[0] = zl_scatter(a, index, c->args + 1, zl_expand_dims(update, ZL_AXES(1)),
                                (zl_axes){axes, c->args + 1}));
}

static bool are_starts(zl_array start, int64_t count) {
    return dtype_is_integer((zl_dtype)start->dtype) && start->ndim <= 1 && start->size == count;
}

static bool fits_dynamic_slice(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    return c->inputs == 2 && c->args >= 1 + in[0]->ndim && arg[0] == c->args - 1 - in[0]->ndim &&
           op_are_axes(in[0]->ndim, (int)arg[0], arg + 1, false) && are_starts(in[1], arg[0]) &&
           op_are_within(in[0], arg + 1 + arg[0]);
}

static const struct op_field slice_field[] = {{"count", FIELD_INT}, {"axes_sizes", FIELD_LIST}};
const struct op op_dynamic_slice = {
    .name = "dynamic_slice",
    .kind = OP_OTHER,
    .fields = 2,
    .field = slice_field,
    .record = record_slice,
    .fits = fits_dynamic_slice,
    .vjp = vjp_slice,
    .jvp = jvp_slice,
    .vmap = vmap_slice,
};

static bool fits_dynamic_slice_update(const struct call *c, const zl_array *in) {
    return c->inputs == 3 && op_are_axes(in[0]->ndim, c->args, call_args(c), false) &&
           are_starts(in[2], c->args) && op_are_updates(in[0], in[1], 0, NULL);
}

static const struct op_field update_at_field[] = {{"axes", FIELD_LIST}};
const struct op op_dynamic_slice_update = {
    .name = "dynamic_slice_update",
    .kind = OP_OTHER,
    .fields = 1,
    .field = update_at_field,
    .record = record_update_at,
    .fits = fits_dynamic_slice_update,
    .positions = {2, 2},
    .vjp = vjp_update_at,
    .jvp = jvp_update_at,
    .vmap = vmap_update_at,
};

static bool check_starts(const char *function, zl_array a, zl_array start, zl_axes axes, int64_t *out) {
    if (axes.count < 0 || start->ndim > 1 || start->size != axes.count)
        return error_false(ZL_ERROR_SHAPE,
                           "%s: starts of shape %s for %d axes: a list with one for each is needed", function,
                           array_text(start), axes.count);
    return op_check_integers(function, start) && op_read_axes(function, a, axes, out);
}

zl_array zl_dynamic_slice(zl_array a, zl_array start_indices, zl_axes axes, zl_shape slice_size) {
    static const char name[] = "zl_dynamic_slice";
    if (!a || !start_indices || !op_check_shape(name, slice_size))
        return NULL;
    OP_TEMP(int64_t, arg, 1 + MAX_OF(axes.count, 0) + (int64_t)a->ndim);
    if (!arg || !check_starts(name, a, start_indices, axes, arg + 1))
        return NULL;
    bool fits = slice_size.ndim == a->ndim;
    for (int i = 0; fits && i < a->ndim; i++)
        fits = (arg[1 + axes.count + i] = slice_size.dim[i]) <= a->dim[i];
    if (!fits)
        return error_set(ZL_ERROR_SHAPE,
                         "%s: a slice of shape %s of an array of shape %s: a size for each axis, "
                         "at most its own, is needed",
                         name, shape_text(slice_size.ndim, slice_size.dim), array_text(a));
    arg[0] = axes.count;
    return slice_at(a, start_indices, arg);
}
OP_SIGNATURE(
    zl_dynamic_slice, "index",
    "The slice of a of the given size along each axis that begins, along the given axes, where "
    "start_indices says, and at 0 along the others. Negative starts count from the end; a slice that "
    "would leave a is moved back into it.",
    P_ARRAY(a), P_ARRAY(start_indices), P_AXES(axes, NULL), P_SHAPE(slice_size));

// Broadcasts the update to the rank of a. Along leading axes that it lacks, it is repeated to the size of a,
// or has size 1 if they have a start.
static zl_array fit_update(const char *function, zl_array a, zl_array update, zl_axes axes,
                           const int64_t *at) {
    int lead = a->ndim - update->ndim;
    OP_TEMP(int64_t, dim, a->ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < a->ndim; i++)
        dim[i] = i < lead ? a->dim[i] : MIN_OF(update->dim[i - MAX_OF(lead, 0)], a->dim[i]);
    for (int i = 0; lead > 0 && i < axes.count; i++)
        if (at[i] < lead)
            dim[at[i]] = MIN_OF(a->dim[at[i]], 1);
    if (!op_check_broadcast_to(function, update, a->ndim, dim))
        return NULL;
    return zl_broadcast_to(zl_astype(update, (zl_dtype)a->dtype), (zl_shape){dim, a->ndim});
}

zl_array zl_dynamic_slice_update(zl_array a, zl_array update, zl_array start_indices, zl_axes axes) {
    static const char name[] = "zl_dynamic_slice_update";
    if (!a || !update || !start_indices)
        return NULL;
    OP_TEMP(int64_t, arg, MAX_OF(axes.count, 0));
    if (!arg || !check_starts(name, a, start_indices, axes, arg))
        return NULL;
    update = fit_update(name, a, update, axes, arg);
    return update ? update_at(a, update, start_indices, arg) : NULL;
}
OP_SIGNATURE(zl_dynamic_slice_update, "index",
             "a with update written over a part of it that begins, along the given axes, where start_indices "
             "says, and at 0 along the others. Negative starts count from the end; a part that would leave a "
             "is moved back into it.",
             P_ARRAY(a), P_ARRAY(update), P_ARRAY(start_indices), P_AXES(axes, NULL));
