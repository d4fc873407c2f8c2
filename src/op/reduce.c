// reduce.c - reductions over axes: the rows of reduce.def, and their derivatives.

#include <math.h>

#include "op/ops.h"

enum gives { WIDE, SAME, TRUTHS };

static const struct {
    const char *name;
    enum gives gives;
    double empty;
} row[] = {
#define REDUCE(NAME, name, combine, gives, empty, ...) {#name, gives, empty},
#include "op/reduce.def"
};

// Records the call. Axes are sorted, and x has the dtype of the result; the axes stay, with size 1.
static zl_array over(const struct op *op, zl_array x, int count, const int64_t *axes) {
    OP_TEMP(int64_t, dim, x->ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < x->ndim; i++)
        dim[i] = x->dim[i];
    for (int i = 0; i < count; i++)
        dim[axes[i]] = 1;
    if (x->size == 0)
        return zl_full((zl_shape){dim, x->ndim}, op_number((zl_dtype)x->dtype, row[op - op_reduce].empty),
                       (zl_dtype)x->dtype);
    return op_dense(op, 1, &x, count, axes, (zl_dtype)x->dtype, x->ndim, dim);
}

static zl_array sum_over_same(const struct call *c, zl_array x) {
    return x ? over(&op_reduce[REDUCE_SUM], x, c->args, call_args(c)) : NULL;
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = over(c->op, in[0], c->args, call_args(c)));
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    zl_array x = op_batch_first(in[0], axis[0]);
    OP_TEMP(int64_t, axes, c->args);
    if (!axes || !x)
        return false;
    for (int i = 0; i < c->args; i++)
        axes[i] = call_args(c)[i] + 1;
    out_axis[0] = 0;
    return (out[0] = over(c->op, x, c->args, axes));
}

// Derivatives: weights such that the tangent of the result is sum(weight * tangent of x) --------------------

// The elements that equal the extreme share its derivative. They are counted in bytes if at most 255 elements
// are reduced to one, because the counts take memory while they are added.
static zl_array extreme_weights(const struct call *c) {
    zl_array x = c->in[0], y = call_output(c, 0);
    zl_dtype dtype = (zl_dtype)x->dtype;
    bool few = y->size && x->size / y->size <= UINT8_MAX && !op_follows(x);
    zl_array hit = zl_equal(x, y);
    zl_array hits = sum_over_same(c, zl_astype(hit, few ? ZL_UINT8 : ZL_INT32));
    zl_array share = zl_astype(zl_divide(op_number(ZL_FLOAT32, 1), hits), dtype);
    return zl_where(hit, share, op_number(dtype, 0));
}

// Shifts x by some places along its last axis, away from its start (or its end); ones take the free places.
static zl_array shift(zl_array x, int64_t places, bool from_end) {
    if (!x)
        return NULL;
    int last = x->ndim - 1;
    OP_TEMP(int64_t, start, 4 * x->ndim);
    if (!start)
        return NULL;
    int64_t *stop = start + x->ndim, *step = stop + x->ndim, *none = step + x->ndim;
    for (int i = 0; i <= last; i++) {
        start[i] = i == last && from_end ? places : 0;
        stop[i] = i == last && !from_end ? x->dim[i] - places : x->dim[i];
        step[i] = 1;
        none[i] = 0;
    }
    zl_array y =
        zl_slice(x, (zl_shape){start, last + 1}, (zl_shape){stop, last + 1}, (zl_shape){step, last + 1});
    start[last] = places;
    return zl_pad(y, (zl_shape){from_end ? none : start, last + 1},
                  (zl_shape){from_end ? start : none, last + 1}, op_number((zl_dtype)x->dtype, 1));
}

// Returns the product of the elements before each element (or after it) along the last axis, in log2(length)
// steps.
static zl_array running_product(zl_array x, bool from_end) {
    int64_t length = x->dim[x->ndim - 1];
    zl_array y = shift(x, 1, from_end);
    for (int64_t places = 1; y && places < length; places *= 2)
        y = zl_multiply(y, shift(y, places, from_end));
    return y;
}

// Returns for each element the product of all others. A division would fail at zeros.
static zl_array product_weights(const struct call *c) {
    zl_array x = c->in[0];
    OP_TEMP(int, order, 2 * x->ndim);
    if (!order)
        return NULL;
    int *back = order + x->ndim, kept = 0, reduced = 0;
    for (int i = 0; i < x->ndim; i++) { // the reduced axes become the last
        bool is_reduced = reduced < c->args && call_args(c)[reduced] == i;
        int at = is_reduced ? x->ndim - c->args + reduced : kept;
        order[at] = i;
        back[i] = at;
        reduced += is_reduced;
        kept += !is_reduced;
    }
    zl_array moved = zl_transpose(x, (zl_axes){order, x->ndim});
    zl_array flat = zl_flatten(moved, kept, -1);
    if (!flat)
        return NULL;
    zl_array others = zl_multiply(running_product(flat, false), running_product(flat, true));
    return zl_transpose(zl_reshape(others, zl_shape_of(moved)), (zl_axes){back, x->ndim});
}

static zl_array weights(const struct call *c) {
    return c->op == &op_reduce[REDUCE_PROD] ? product_weights(c) : extreme_weights(c);
}

static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    (void)input;
    if (c->op == &op_reduce[REDUCE_SUM])
        return op_stretch("zl_sum", 2, (zl_array[]){cotangent[0], c->in[0]}, 0);
    zl_array w = weights(c);
    return zl_multiply(cotangent[0], c->in[0]->dtype == ZL_COMPLEX64 ? zl_conjugate(w) : w);
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    out[0] = NULL;
    if (!tangent[0])
        return true;
    bool is_sum = c->op == &op_reduce[REDUCE_SUM];
    return (out[0] = sum_over_same(c, is_sum ? tangent[0] : zl_multiply(weights(c), tangent[0])));
}

// Public functions ------------------------------------------------------------------------------------------

static const struct op_field axes_field[] = {{"axes", FIELD_LIST}};

static bool fits(const struct call *c, const zl_array *in) {
    zl_array x = in[0];
    bool truths = c->op == &op_reduce[REDUCE_ALL] || c->op == &op_reduce[REDUCE_ANY];
    return c->inputs == 1 && op_are_axes(x->ndim, c->args, call_args(c), true) &&
           (truths ? x->dtype == ZL_BOOL : x->dtype == call_output(c, 0)->dtype);
}

const struct op op_reduce[] = {
#define REDUCE(NAME, name_, combine, gives, ...)                   \
    [REDUCE_##NAME] = {.name = #name_,                             \
                       .kind = OP_REDUCE,                          \
                       .row = TILE_##combine,                      \
                       .fields = 1,                                \
                       .field = axes_field,                        \
                       .record = record,                           \
                       .fits = fits,                               \
                       .vjp = gives == TRUTHS ? op_vjp_zero : vjp, \
                       .jvp = gives == TRUTHS ? op_jvp_zero : jvp, \
                       .vmap = vmap},
#include "op/reduce.def"
};

static zl_dtype wide(zl_dtype dtype) {
    if (dtype_is_inexact(dtype) || zl_dtype_size(dtype) == 8)
        return dtype;
    return dtype_is_integer(dtype) && !dtype_is_signed(dtype) ? ZL_UINT32 : ZL_INT32;
}

static zl_array prepare(enum gives gives, zl_array x) {
    return gives == SAME ? x : zl_astype(x, gives == WIDE ? wide((zl_dtype)x->dtype) : ZL_BOOL);
}

static bool check_empty(const char *function, enum reduce which, zl_array x, int count, const int *axis) {
    for (int i = 0; isnan(row[which].empty) && i < count; i++)
        if (x->dim[axis[i]] == 0)
            return error_false(ZL_ERROR_SHAPE, "%s: axis %d of shape %s is empty: it has no %s", function,
                               axis[i], array_text(x), row[which].name);
    return true;
}

// Returns whether all reduced axes have size 1, so that there is nothing to combine. A traced function may be
// replayed with larger sizes.
static bool is_trivial(zl_array x, int count, const int *axis) {
    for (int i = 0; i < count; i++)
        if (x->dim[axis[i]] != 1)
            return false;
    return recorder.trace_depth == 0;
}

zl_array op_reduce_axes(const char *function, enum reduce which, zl_array x, zl_axes axes, bool keepdims) {
    if (!x)
        return NULL;
    OP_TEMP(int, axis, x->ndim);
    OP_TEMP(int64_t, arg, x->ndim);
    int count = axis && arg ? op_axes(function, x, axes, axis) : -1;
    if (count < 0 || !check_empty(function, which, x, count, axis))
        return NULL;
    for (int i = 0; i < count; i++)
        arg[i] = axis[i];
    // As in MLX, a reduction over no axes does not even change the dtype.
    bool as_it_is = count == 0 && row[which].gives == WIDE;
    zl_array y = as_it_is ? op_same(x) : prepare(row[which].gives, x);
    if (y && count && !is_trivial(x, count, axis))
        y = over(&op_reduce[which], y, count, arg);
    return keepdims ? op_same(y) : zl_squeeze(y, (zl_axes){axis, count});
}

#define REDUCE(NAME, name, combine, gives, empty, doc, note)                                    \
    zl_array zl_##name(zl_array a) {                                                            \
        return op_reduce_axes("zl_" #name, REDUCE_##NAME, a, ZL_ALL, false);                    \
    }                                                                                           \
    OP_SIGNATURE(zl_##name, "reduce", doc "." note, P_ARRAY(a));                                \
    zl_array zl_##name##_axis(zl_array a, int axis, bool keepdims) {                            \
        return op_reduce_axes("zl_" #name "_axis", REDUCE_##NAME, a, ZL_AXES(axis), keepdims);  \
    }                                                                                           \
    OP_SIGNATURE(zl_##name##_axis, "reduce",                                                    \
                 doc ", along one axis, which stays with size 1 if keepdims." note, P_ARRAY(a), \
                 P_INT(axis, NULL), P_BOOL(keepdims, "False"));                                 \
    zl_array zl_##name##_axes(zl_array a, zl_axes axis, bool keepdims) {                        \
        return op_reduce_axes("zl_" #name "_axes", REDUCE_##NAME, a, axis, keepdims);           \
    }                                                                                           \
    OP_SIGNATURE(zl_##name##_axes, "reduce",                                                    \
                 doc ", over the axes, which stay with size 1 if keepdims." note, P_ARRAY(a),   \
                 P_AXES(axis, "None"), P_BOOL(keepdims, "False"));
#include "op/reduce.def"
