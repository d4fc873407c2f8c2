// fit.c - whether calls make sense that nobody has checked: read from a file, or replayed on other shapes.
//
// Recording trusts what the public functions have checked, and kernels trust what was recorded. What comes in another
// way is held against the same contracts here: those of ops.h. Nothing is said but yes or no; op_replay says the error.

#include "op/fit.h"

static bool is_axis(zl_array x, int64_t axis) {
    return axis >= 0 && axis < x->ndim;
}

static bool is_among(int64_t value, int64_t count) {
    return value >= 0 && value < count;
}

// Each below limit, none twice; one after the other if sorted.
static bool are_axes(int limit, int count, const int64_t *axis, bool sorted) {
    for (int i = 0; i < count; i++) {
        if (!is_among(axis[i], limit))
            return false;
        for (int k = 0; k < i; k++)
            if (axis[k] == axis[i] || (sorted && axis[k] > axis[i]))
                return false;
    }
    return true;
}

static bool same_shape(zl_array a, zl_array b) {
    return shape_equal(a->ndim, a->dim, b->ndim, b->dim);
}

static bool same_but_along(zl_array a, zl_array b, int64_t axis) {
    if (a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (i != axis && a->dim[i] != b->dim[i])
            return false;
    return true;
}

static bool are_indices(int count, const zl_array *in) {
    for (int i = 0; i < count; i++)
        if (!dtype_is_integer((zl_dtype)in[i]->dtype) || !same_shape(in[0], in[i]))
            return false;
    return true;
}

// Sizes of a part of x, one for each axis.
static bool are_within(zl_array x, const int64_t *size) {
    for (int i = 0; i < x->ndim; i++)
        if (size[i] < 0 || size[i] > x->dim[i])
            return false;
    return true;
}

static bool steps_are_there(int ndim, const int64_t *step) {
    for (int i = 0; i < ndim; i++)
        if (!step[i])
            return false;
    return true;
}

// Views --------------------------------------------------------------------------------------------------------------

bool op_fits_transpose(const struct call *c, const zl_array *in) {
    return has(c, 1, in[0]->ndim) && are_axes(in[0]->ndim, c->args, call_args(c), false);
}

bool op_fits_squeeze(const struct call *c, const zl_array *in) {
    if (!has(c, 1, c->args) || !are_axes(in[0]->ndim, c->args, call_args(c), true))
        return false;
    for (int i = 0; i < c->args; i++)
        if (in[0]->dim[call_args(c)[i]] != 1)
            return false;
    return true;
}

bool op_fits_expand_dims(const struct call *c, const zl_array *in) {
    return has(c, 1, c->args) && in[0]->ndim + c->args <= UINT16_MAX &&
           are_axes(in[0]->ndim + c->args, c->args, call_args(c), true);
}

bool op_fits_broadcast_to(const struct call *c, const zl_array *in) {
    zl_array x = in[0];
    int added = c->args - x->ndim;
    int64_t size;
    if (!has(c, 1, c->args) || added < 0 || !shape_size(c->args, call_args(c), &size))
        return false;
    for (int i = 0; i < x->ndim; i++)
        if (x->dim[i] != 1 && x->dim[i] != call_args(c)[added + i])
            return false;
    return true;
}

bool op_fits_identity(const struct call *c, const zl_array *in) {
    (void)in;
    return c->inputs >= 1 && c->args == 0;
}

bool op_fits_slice(const struct call *c, const zl_array *in) {
    int ndim = in[0]->ndim;
    return has(c, 1, 3 * ndim) && steps_are_there(ndim, call_args(c) + 2 * ndim);
}

// All that the strides reach lies in x.
bool op_fits_as_strided(const struct call *c, const zl_array *in) {
    int ndim = c->args / 2;
    const int64_t *dim = call_args(c) + 1, *stride = dim + ndim;
    int64_t size, reach;
    if (!has(c, 1, 1 + 2 * ndim) || !shape_size(ndim, dim, &size))
        return false;
    int64_t low = call_args(c)[0], high = low;
    for (int i = 0; size && i < ndim; i++)
        if (__builtin_mul_overflow(dim[i] - 1, stride[i], &reach) ||
            __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
            return false;
    return low >= 0 && (size ? high < in[0]->size : high <= in[0]->size);
}

bool op_fits_reshape(const struct call *c, const zl_array *in) {
    (void)in;
    return c->inputs == 1;
}

bool op_fits_flatten(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    return has(c, 1, 2) && is_axis(in[0], arg[0]) && is_axis(in[0], arg[1]) && arg[0] <= arg[1];
}

bool op_fits_unflatten(const struct call *c, const zl_array *in) {
    return c->inputs == 1 && c->args >= 2 && is_axis(in[0], call_args(c)[0]) &&
           in[0]->ndim + c->args - 2 <= UINT16_MAX;
}

bool op_fits_bitcast(const struct call *c, const zl_array *in) {
    zl_array x = in[0];
    if (!has(c, 1, 1) || !is_among(call_args(c)[0], ZL_DTYPE_COUNT))
        return false;
    int64_t from = (int64_t)array_item(x), to = (int64_t)zl_dtype_size((zl_dtype)call_args(c)[0]);
    return from == to || (x->ndim && (to < from || x->dim[x->ndim - 1] % (to / from) == 0));
}

bool op_fits_field_view(const struct call *c, const zl_array *in) {
    return has(c, 1, 1) && in[0]->ndim >= 1 && call_output(c, 0)->ndim >= in[0]->ndim - 1;
}

// Reductions, scans, sorting -----------------------------------------------------------------------------------------

bool op_fits_reduce(const struct call *c, const zl_array *in) {
    zl_array x = in[0];
    bool truths = c->op == &op_reduce[REDUCE_ALL] || c->op == &op_reduce[REDUCE_ANY];
    return c->inputs == 1 && are_axes(x->ndim, c->args, call_args(c), true) &&
           (truths ? x->dtype == ZL_BOOL : x->dtype == call_output(c, 0)->dtype);
}

bool op_fits_argreduce(const struct call *c, const zl_array *in) {
    return has(c, 1, 2) && is_among(call_args(c)[0], 2) && is_axis(in[0], call_args(c)[1]);
}

bool op_fits_scan(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    return has(c, 1, 4) && is_among(arg[0], SCAN_LOGADDEXP + 1) && is_axis(in[0], arg[1]) &&
           is_among(arg[2], 2) && is_among(arg[3], 2);
}

bool op_fits_sort(const struct call *c, const zl_array *in) {
    return has(c, 1, 0) && in[0]->ndim >= 1 && (c->op == &op_argsort || in[0]->dtype != ZL_COMPLEX64);
}

// A text, an array like each output, then what the kernel reads.
static bool is_kernel(const struct call *c, const zl_array *in, int args) {
    return c->args == args && call_args(c)[KERNEL_OUTPUTS] == c->outputs && c->outputs < c->inputs &&
           in[0]->dtype == ZL_UINT8 && in[0]->ndim == 1;
}

bool op_fits_custom_kernel(const struct call *c, const zl_array *in) {
    return is_kernel(c, in, KERNEL_FILLS);
}

// A file brings no code that the CPU would run.
bool op_fits_cpu_kernel(const struct call *c, const zl_array *in) {
    (void)c, (void)in;
    return false;
}

// The text was made for the sizes that the file says: nothing in it need follow others.
bool op_fits_cuda_kernel(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    if (!is_kernel(c, in, KERNEL_ARGS) || in[0]->size == 0 || in[0]->size > INT32_MAX / 2 ||
        !is_among(arg[KERNEL_FILLS], 2) || !is_among(arg[KERNEL_STRIDED], 2) || arg[KERNEL_SHARED] < 0 ||
        arg[KERNEL_SHARED] > INT32_MAX)
        return false;
    for (int i = 0; i < 3; i++)
        if (arg[KERNEL_GRID + i] < 0 || arg[KERNEL_GRID + i] > INT64_MAX / 2 || arg[KERNEL_GROUP + i] < 1 ||
            arg[KERNEL_GROUP + i] > INT32_MAX)
            return false;
    for (int i = 1 + c->outputs; i < c->inputs; i++)
        if (in[i]->ndim > KERNEL_AXES_MOST || in[i]->dtype != c->in[i]->dtype || !same_shape(in[i], c->in[i]))
            return false;
    return true;
}

bool op_fits_partition(const struct call *c, const zl_array *in) {
    struct op_window w;
    return has(c, 1, 3) && in[0]->ndim >= 1 && (c->op == &op_argpartition || in[0]->dtype != ZL_COMPLEX64) &&
           op_partition_window(call_args(c), in[0]->dim[in[0]->ndim - 1], &w);
}

bool op_fits_searchsorted(const struct call *c, const zl_array *in) {
    return has(c, 2, 1) && is_among(call_args(c)[0], 2) && in[0]->ndim == 1 && in[0]->size > 0 &&
           in[0]->size <= UINT32_MAX && in[0]->dtype == in[1]->dtype;
}

// Making and joining -------------------------------------------------------------------------------------------------

bool op_fits_arange(const struct call *c, const zl_array *in) {
    (void)in;
    zl_array y = call_output(c, 0);
    return has(c, 0, 3) && y->ndim == 1 && y->dtype != ZL_BOOL &&
           dtype_is_integer((zl_dtype)y->dtype) == (c->op == &op_arange_int);
}

bool op_fits_random_bits(const struct call *c, const zl_array *in) {
    zl_array keys = in[0];
    int64_t size;
    zl_dtype dtype = (zl_dtype)call_output(c, 0)->dtype;
    return c->inputs == 1 && keys->ndim >= 1 && keys->dim[keys->ndim - 1] == 2 && keys->dtype == ZL_UINT32 &&
           (dtype == ZL_UINT8 || dtype == ZL_UINT16 || dtype == ZL_UINT32) &&
           shape_size(c->args, call_args(c), &size);
}

bool op_fits_concatenate(const struct call *c, const zl_array *in) {
    if (c->inputs < 1 || c->args != 1 || !is_axis(in[0], call_args(c)[0]))
        return false;
    for (int i = 1; i < c->inputs; i++)
        if (in[i]->dtype != in[0]->dtype || !same_but_along(in[0], in[i], call_args(c)[0]))
            return false;
    return true;
}

bool op_fits_pad(const struct call *c, const zl_array *in) {
    zl_array x = in[0];
    int64_t sum, *arg = call_args(c);
    if (!has(c, 2, 2 * x->ndim) || in[1]->ndim || in[1]->dtype != x->dtype)
        return false;
    for (int i = 0; i < x->ndim; i++)
        if (arg[i] < 0 || arg[x->ndim + i] < 0 || __builtin_add_overflow(arg[i], arg[x->ndim + i], &sum) ||
            __builtin_add_overflow(sum, x->dim[i], &sum))
            return false;
    return true;
}

// Arithmetic ---------------------------------------------------------------------------------------------------------

bool op_fits_divmod(const struct call *c, const zl_array *in) {
    return has(c, 2, 0) && c->outputs == 2 && in[0]->dtype == in[1]->dtype && in[0]->dtype != ZL_COMPLEX64 &&
           in[0]->dtype != ZL_BOOL;
}

bool op_fits_matmul(const struct call *c, const zl_array *in) {
    (void)in;
    return has(c, 2, 0);
}

bool op_fits_addmm(const struct call *c, const zl_array *in) {
    return has(c, 3, ADDMM_ARGS) && in[0]->dtype == in[1]->dtype && in[1]->dtype == in[2]->dtype;
}

// Indexing -----------------------------------------------------------------------------------------------------------

bool op_fits_take(const struct call *c, const zl_array *in) {
    return has(c, 2, 1) && is_axis(in[0], call_args(c)[0]) && are_indices(1, in + 1) &&
           in[0]->ndim - 1 + in[1]->ndim <= UINT16_MAX;
}

bool op_fits_take_along(const struct call *c, const zl_array *in) {
    return has(c, 2, 1) && is_axis(in[0], call_args(c)[0]) && are_indices(1, in + 1) &&
           same_but_along(in[0], in[1], call_args(c)[0]);
}

bool op_fits_put_along(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    return has(c, 3, 2) && is_axis(in[0], arg[0]) && (arg[1] == UPDATE_SET || arg[1] == UPDATE_ADD) &&
           are_indices(1, in + 1) && same_but_along(in[0], in[1], arg[0]) && same_shape(in[1], in[2]) &&
           in[2]->dtype == in[0]->dtype;
}

bool op_fits_gather(const struct call *c, const zl_array *in) {
    int count = c->inputs - 1;
    const int64_t *arg = call_args(c);
    return count >= 0 && c->args == 1 + count + in[0]->ndim && arg[0] == count &&
           are_axes(in[0]->ndim, count, arg + 1, false) && are_indices(count, in + 1) &&
           are_within(in[0], arg + 1 + count) && (count ? in[1]->ndim : 0) + in[0]->ndim <= UINT16_MAX;
}

// Updates are slices of the rank of a, in the shape of the indices.
static bool are_updates(zl_array a, zl_array updates, int lead, const int64_t *dim) {
    return updates->dtype == a->dtype && updates->ndim == lead + a->ndim &&
           shape_equal(lead, updates->dim, lead, dim) && are_within(a, updates->dim + lead);
}

bool op_fits_scatter(const struct call *c, const zl_array *in) {
    int count = c->inputs - 2;
    const int64_t *arg = call_args(c);
    return count >= 0 && c->args == 1 + count && is_among(arg[0], UPDATE_MIN + 1) &&
           are_axes(in[0]->ndim, count, arg + 1, false) && are_indices(count, in + 1) &&
           are_updates(in[0], in[count + 1], count ? in[1]->ndim : 0, in[1]->dim);
}

bool op_fits_slice_update(const struct call *c, const zl_array *in) {
    int ndim = in[0]->ndim;
    return has(c, 2, 1 + 3 * ndim) && is_among(call_args(c)[0], UPDATE_MIN + 1) &&
           in[1]->dtype == in[0]->dtype && steps_are_there(ndim, call_args(c) + 1 + 2 * ndim);
}

static bool are_starts(zl_array start, int64_t count) {
    return dtype_is_integer((zl_dtype)start->dtype) && start->ndim <= 1 && start->size == count;
}

bool op_fits_dynamic_slice(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    return c->inputs == 2 && c->args >= 1 + in[0]->ndim && arg[0] == c->args - 1 - in[0]->ndim &&
           are_axes(in[0]->ndim, (int)arg[0], arg + 1, false) && are_starts(in[1], arg[0]) &&
           are_within(in[0], arg + 1 + arg[0]);
}

bool op_fits_dynamic_slice_update(const struct call *c, const zl_array *in) {
    return c->inputs == 3 && are_axes(in[0]->ndim, c->args, call_args(c), false) &&
           are_starts(in[2], c->args) && are_updates(in[0], in[1], 0, NULL);
}

// Replaying ----------------------------------------------------------------------------------------------------------

static bool fits(const struct call *c, const zl_array *in) {
    switch (c->op->kind) {
    case OP_ELEMENTWISE: return has(c, tile_op_arity(c->op->row), 0);
    case OP_CAST:
    case OP_COPY: return has(c, 1, 0);
    default:
        return c->op->fits && (c->inputs || c->op == &op_arange || c->op == &op_arange_int) &&
               c->op->fits(c, in);
    }
}

// Outputs have the dtypes that c says. A result with elements has no input without: kernels rely on it.
static bool is_sound(const struct call *c, const zl_array *in, const zl_array *out) {
    for (int i = 0; i < c->outputs; i++) {
        if (out[i]->dtype != call_output(c, i)->dtype)
            return false;
        for (int k = 0; k < c->inputs && c->op != &op_concatenate && c->op != &op_depends; k++)
            if (out[i]->size && !in[k]->size && out[i]->call && out[i]->call->op == c->op)
                return false;
    }
    return true;
}

static bool refuse(const char *function, const struct call *c, const zl_array *in) {
    struct text list = {0};
    for (int i = 0; i < c->inputs && i < 8; i++)
        text_add(&list, "%s%s %s", i ? ", " : "", zl_dtype_name((zl_dtype)in[i]->dtype), array_text(in[i]));
    error_set(ZL_ERROR_VALUE, "%s: %s, with %d arguments, does not fit inputs %s", function, c->op->name,
              c->args, list.data ? list.data : "()");
    text_free(&list);
    return false;
}

bool op_replay(const char *function, const struct call *c, const zl_array *in, zl_array *out) {
    if (!fits(c, in))
        return refuse(function, c, in);
    return c->op->record(c, in, out) && (is_sound(c, in, out) || refuse(function, c, in));
}
