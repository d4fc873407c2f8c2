// contract.c - checks calls that no public function has checked: read from a file, or replayed on other
// shapes.
//
// Recording trusts the checks of the public functions, and kernels trust recorded calls. Calls from other
// sources are checked against the same contracts, those of ops.def, by the column `fits` of each op. This
// file has what these columns share, and op_replay, which calls them.

#include "op/ops.h"

bool op_are_axes(int limit, int count, const int64_t *axis, bool sorted) {
    for (int i = 0; i < count; i++) {
        if (!op_is_among(axis[i], limit))
            return false;
        for (int k = 0; k < i; k++)
            if (axis[k] == axis[i] || (sorted && axis[k] > axis[i]))
                return false;
    }
    return true;
}

bool op_same_shape(zl_array a, zl_array b) {
    return shape_equal(a->ndim, a->dim, b->ndim, b->dim);
}

bool op_same_but_along(zl_array a, zl_array b, int64_t axis) {
    if (a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (i != axis && a->dim[i] != b->dim[i])
            return false;
    return true;
}

bool op_are_indices(int count, const zl_array *in) {
    for (int i = 0; i < count; i++)
        if (!dtype_is_integer((zl_dtype)in[i]->dtype) || !op_same_shape(in[0], in[i]))
            return false;
    return true;
}

bool op_are_within(zl_array x, const int64_t *size) {
    for (int i = 0; i < x->ndim; i++)
        if (size[i] < 0 || size[i] > x->dim[i])
            return false;
    return true;
}

bool op_has_steps(int ndim, const int64_t *step) {
    for (int i = 0; i < ndim; i++)
        if (!step[i])
            return false;
    return true;
}

bool op_are_updates(zl_array a, zl_array updates, int lead, const int64_t *dim) {
    return updates->dtype == a->dtype && updates->ndim == lead + a->ndim &&
           shape_equal(lead, updates->dim, lead, dim) && op_are_within(a, updates->dim + lead);
}

bool op_are_factors(const zl_array *in, zl_dtype dtype) {
    if (in[0]->dtype != dtype || in[1]->dtype != dtype || in[0]->ndim != in[1]->ndim || in[0]->ndim < 2)
        return false;
    int last = in[0]->ndim - 1;
    return shape_equal(last - 1, in[0]->dim, last - 1, in[1]->dim) &&
           in[0]->dim[last] == in[1]->dim[last - 1];
}

bool op_is_small_float(zl_dtype dtype) {
    return dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16 || dtype == ZL_FLOAT32;
}

static bool has_outputs(const struct call *c) {
    return c->op->outputs == OP_OUTPUTS_VARY || c->outputs == MAX_OF(c->op->outputs, 1);
}

static bool fits(const struct call *c, const zl_array *in) {
    if (!has_outputs(c))
        return false;
    switch (c->op->kind) {
    case OP_ELEMENTWISE: return op_has(c, tile_op_arity(c->op->row), 0);
    case OP_CAST:
    case OP_COPY: return op_has(c, 1, 0);
    default:
        return c->op->fits && (c->inputs || c->op == &op_arange || c->op == &op_arange_int) &&
               c->op->fits(c, in);
    }
}

// Returns whether the outputs have the dtypes of those of c, and no output with elements comes from an input
// without elements: kernels rely on both.
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
    error_set(ZL_ERROR_VALUE, "%s: %s, with %d arguments, does not fit inputs %s and %d results", function,
              c->op->name, c->args, list.data ? list.data : "()", c->outputs);
    text_free(&list);
    return false;
}

bool op_replay(const char *function, const struct call *c, const zl_array *in, zl_array *out) {
    if (!fits(c, in))
        return refuse(function, c, in);
    return c->op->record(c, in, out) && (is_sound(c, in, out) || refuse(function, c, in));
}
