// partition.c - functions that need only a partial order of the elements: partitions, the largest elements,
// medians.
//
// A partition has the elements that come before the kth, then those equal to it, then the others, each of the
// three in their original order. The result is a part of that: one element, all, or those from some position
// on.

#include <math.h>

#include "op/ops.h"

bool op_partition_window(const int64_t *arg, int64_t n, struct op_window *w) {
    w->kth = arg[0] + (arg[0] < 0 ? n : 0);
    w->first = arg[1] + (arg[1] < 0 ? n : 0);
    w->count = arg[2] < 0 ? n - w->first : arg[2];
    return w->kth >= 0 && w->kth < n && w->first >= 0 && w->first <= n && w->count >= 0 &&
           w->count <= n - w->first;
}

static zl_array call_partition(const struct op *op, zl_array x, const int64_t *arg) {
    struct op_window w;
    x = zl_contiguous(x, false);
    if (!x)
        return NULL;
    int64_t n = x->dim[x->ndim - 1];
    if (!op_partition_window(arg, n, &w))
        return error_set(ZL_ERROR_SHAPE,
                         "%s: there is no element %lld, or are no %lld from %lld on, among %lld", op->name,
                         (long long)arg[0], (long long)arg[2], (long long)arg[1], (long long)n);
    OP_TEMP(int64_t, dim, x->ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < x->ndim; i++)
        dim[i] = i < x->ndim - 1 ? x->dim[i] : w.count;
    return op_dense(op, 1, &x, 3, arg, op == &op_argpartition ? ZL_UINT32 : (zl_dtype)x->dtype, x->ndim, dim);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = call_partition(c->op, in[0], call_args(c)));
}

// Returns the positions of the elements, as constants to derivatives: small changes of the input do not move
// them.
static zl_array places(const struct call *c) {
    return zl_stop_gradient(call_partition(&op_argpartition, c->in[0], call_args(c)));
}

static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    (void)input;
    return zl_put_along_axis(op_zeros_of(c->in[0]), places(c), cotangent[0], -1);
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    out[0] = NULL;
    return !tangent[0] || (out[0] = zl_take_along_axis(tangent[0], places(c), -1));
}

static bool fits(const struct call *c, const zl_array *in) {
    struct op_window w;
    return op_has(c, 1, 3) && in[0]->ndim >= 1 &&
           (c->op == &op_argpartition || in[0]->dtype != ZL_COMPLEX64) &&
           op_partition_window(call_args(c), in[0]->dim[in[0]->ndim - 1], &w);
}

static const struct op_field field[] = {{"kth", FIELD_INT}, {"first", FIELD_INT}, {"count", FIELD_INT}};
const struct op op_partition = {
    .name = "partition",
    .kind = OP_OTHER,
    .fields = 3,
    .field = field,
    .record = record,
    .fits = fits,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = op_vmap_last,
};

const struct op op_argpartition = {
    .name = "argpartition",
    .kind = OP_OTHER,
    .fields = 3,
    .field = field,
    .record = record,
    .fits = fits,
    .vjp = op_vjp_zero,
    .jvp = op_jvp_zero,
    .vmap = op_vmap_last,
};

// Public functions ------------------------------------------------------------------------------------------

static zl_array argpartition_last(zl_array x, const int64_t *arg) {
    return call_partition(&op_argpartition, x, arg);
}

// Complex numbers are partitioned by their positions.
static zl_array partition_last(zl_array x, const int64_t *arg) {
    return x->dtype == ZL_COMPLEX64 ? zl_take_along_axis(x, zl_stop_gradient(argpartition_last(x, arg)), -1)
                                    : call_partition(&op_partition, x, arg);
}

// Returns whether an axis of a has an element kth, which counts from the end if it is negative; if not, sets
// an error.
static bool check_kth(const char *function, zl_array a, int kth, int axis) {
    int at = a ? shape_axis(function, axis, a->ndim) : -1;
    if (at < 0)
        return false;
    int64_t position = kth < 0 ? kth + a->dim[at] : kth;
    return (position >= 0 && position < a->dim[at]) ||
           error_false(ZL_ERROR_VALUE, "%s: there is no element %d along axis %d of shape %s", function, kth,
                       axis, array_text(a));
}

#define PARTITION(function, order, doc)                                                                      \
    static zl_array function##_of(const char *name, zl_array a, int kth, int axis) {                         \
        return check_kth(name, a, kth, axis) ? op_order(name, a, axis, order, (int64_t[]){kth, 0, -1})       \
                                             : NULL;                                                         \
    }                                                                                                        \
    zl_array function(zl_array a, int kth, int axis) {                                                       \
        return function##_of(#function, a, kth, axis);                                                       \
    }                                                                                                        \
    OP_SIGNATURE(                                                                                            \
        function, "sort",                                                                                    \
        doc " along an axis: those less than the kth, those equal to it, then the others, each of these as " \
            "they were. NaN is the largest.",                                                                \
        P_ARRAY(a), P_INT(kth, NULL), P_INT(axis, "-1"));                                                    \
    zl_array function##_flat(zl_array a, int kth) {                                                          \
        return function##_of(#function "_flat", zl_flatten(a, 0, -1), kth, 0);                               \
    }                                                                                                        \
    OP_SIGNATURE(function##_flat, "sort", doc ", flattened, as " #function ".", P_ARRAY(a), P_INT(kth, NULL))

PARTITION(zl_partition, partition_last, "The elements of a");
PARTITION(zl_argpartition, argpartition_last, "The positions, as uint32, of the elements of a");

static zl_array topk(const char *function, zl_array a, int k, int axis) {
    int at = a ? shape_axis(function, axis, a->ndim) : -1;
    if (at < 0)
        return NULL;
    int64_t n = a->dim[at];
    if (k < 0 || k > n)
        return error_set(ZL_ERROR_VALUE, "%s: %d elements along axis %d of shape %s: 0 to %lld can be taken",
                         function, k, axis, array_text(a), (long long)n);
    if (k == n)
        return op_same(a);
    return op_order(function, a, at, partition_last, k ? (int64_t[]){-k, -k, -1} : (int64_t[]){0, 0, 0});
}

zl_array zl_topk(zl_array a, int k, int axis) {
    return topk("zl_topk", a, k, axis);
}
OP_SIGNATURE(zl_topk, "sort", "The k largest elements of a along an axis, in no order that can be relied on.",
             P_ARRAY(a), P_INT(k, NULL), P_INT(axis, "-1"));

zl_array zl_topk_flat(zl_array a, int k) {
    return topk("zl_topk_flat", zl_flatten(a, 0, -1), k, 0);
}
OP_SIGNATURE(zl_topk_flat, "sort",
             "The k largest elements of a, flattened, in no order that can be relied on.", P_ARRAY(a),
             P_INT(k, NULL));

// Median ----------------------------------------------------------------------------------------------------

// Moves the given axes to the end as one axis. *kept is the number of the others.
static zl_array flatten_last(zl_array a, int count, const int *axis, int *kept) {
    OP_TEMP(int, order, a->ndim);
    if (!order)
        return NULL;
    int others = 0, next = 0;
    for (int i = 0; i < a->ndim; i++)
        if (next < count && axis[next] == i)
            order[a->ndim - count + next++] = i;
        else
            order[others++] = i;
    *kept = others;
    zl_array x = zl_transpose(a, (zl_axes){order, a->ndim});
    return count ? zl_flatten(x, others, -1) : zl_expand_dims(x, ZL_AXES(-1));
}

// Returns the element that would be at this position of the sorted last axis.
static zl_array element(const char *function, zl_array x, int64_t at) {
    return op_order(function, x, -1, partition_last, (int64_t[]){at, at, 1});
}

// Computes the median along the last axis, which stays with size 1. If there is a NaN, which sorts last, the
// median is NaN.
static zl_array middle(const char *function, zl_array x) {
    int last = x->ndim - 1;
    int64_t n = x->dim[last];
    zl_dtype dtype = op_float_dtype((zl_dtype)x->dtype);
    if (n == 0)
        return error_set(ZL_ERROR_SHAPE, "%s: there is no median of no elements", function);
    zl_array y = zl_astype(element(function, x, n / 2), dtype);
    if (n % 2 == 0)
        y = zl_multiply(zl_add(y, zl_astype(element(function, x, n / 2 - 1), dtype)), op_number(dtype, 0.5));
    if (!dtype_is_inexact((zl_dtype)x->dtype))
        return y;
    return zl_where(zl_isnan(zl_max_axis(x, last, true)), op_number(dtype, NAN), y);
}

static op_again_fn again_median;

static zl_array median(const char *function, zl_array a, zl_axes axes, bool keepdims) {
    zl_array y;
    if (op_again(&y, "zl_median_axes", again_median, a, axes, keepdims))
        return y;
    if (!a)
        return NULL;
    OP_TEMP(int, axis, a->ndim);
    int kept, count = axis ? op_axes(function, a, axes, axis) : -1;
    zl_array x = count < 0 ? NULL : flatten_last(a, count, axis, &kept);
    y = x ? zl_squeeze(middle(function, x), ZL_AXES(-1)) : NULL;
    return y && keepdims && count ? zl_expand_dims(y, (zl_axes){axis, count}) : y;
}

static bool again_median(const union op_value *v, zl_array *out) {
    return (out[0] = zl_median_axes(v[0].array, v[1].axes, v[2].number));
}

zl_array zl_median(zl_array a) {
    return median("zl_median", a, ZL_ALL, false);
}
OP_SIGNATURE(zl_median, "reduce", "The median of the elements of a; NaN if one is; of integers, as float32.",
             P_ARRAY(a));

zl_array zl_median_axis(zl_array a, int axis, bool keepdims) {
    return median("zl_median_axis", a, ZL_AXES(axis), keepdims);
}
OP_SIGNATURE(zl_median_axis, "reduce", "The median of a along one axis, which stays with size 1 if keepdims.",
             P_ARRAY(a), P_INT(axis, NULL), P_BOOL(keepdims, "False"));

zl_array zl_median_axes(zl_array a, zl_axes axis, bool keepdims) {
    return median("zl_median_axes", a, axis, keepdims);
}
OP_SIGNATURE(zl_median_axes, "reduce", "The median of a over the axes, which stay with size 1 if keepdims.",
             P_ARRAY(a), P_AXES(axis, "None"), P_BOOL(keepdims, "False"));
