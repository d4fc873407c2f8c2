// sort.c - elements in order along an axis, and what is found by their order.
//
// NaN comes last, equal elements stay in the order in which they were. The kernels sort the last axis of
// row-major arrays; other axes are moved there and back.

#include <math.h>
#include <string.h>

#include "op/ops.h"

static zl_array sort(zl_array x) {
    x = zl_contiguous(x, false);
    return x ? op_dense(&op_sort, 1, &x, 0, NULL, (zl_dtype)x->dtype, x->ndim, x->dim) : NULL;
}

static zl_array argsort(zl_array x) {
    x = zl_contiguous(x, false);
    return x ? op_dense(&op_argsort, 1, &x, 0, NULL, ZL_UINT32, x->ndim, x->dim) : NULL;
}

static bool record_sort(const struct call *c, const zl_array *in, zl_array *out) {
    (void)c;
    return (out[0] = sort(in[0]));
}

static bool record_argsort(const struct call *c, const zl_array *in, zl_array *out) {
    (void)c;
    return (out[0] = argsort(in[0]));
}

// Constant to derivatives: a little change of x leaves them as they are.
static zl_array places(zl_array x) {
    return zl_stop_gradient(argsort(x));
}

static zl_array vjp_sort(const struct call *c, int input, const zl_array *cotangent) {
    (void)input;
    return zl_put_along_axis(op_zeros_of(c->in[0]), places(c->in[0]), cotangent[0], -1);
}

static bool jvp_sort(const struct call *c, const zl_array *tangent, zl_array *out) {
    out[0] = NULL;
    return !tangent[0] || (out[0] = zl_take_along_axis(tangent[0], places(c->in[0]), -1));
}

// The last axis stays the last.
static bool vmap_last(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                      int *out_axis) {
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    zl_array x = op_batch_first(in[0], axis[0]);
    out_axis[0] = 0;
    return x && c->op->record(c, &x, out);
}

OP(op_sort) = {
    .name = "sort",
    .kind = OP_OTHER,
    .record = record_sort,
    .fits = op_fits_sort,
    .vjp = vjp_sort,
    .jvp = jvp_sort,
    .vmap = vmap_last,
};

OP(op_argsort) = {
    .name = "argsort",
    .kind = OP_OTHER,
    .record = record_argsort,
    .fits = op_fits_sort,
    .vjp = op_vjp_zero,
    .jvp = op_jvp_zero,
    .vmap = vmap_last,
};

// Public functions ------------------------------------------------------------------------------------------

// Complex numbers are put in the order of their positions.
static zl_array sort_last(zl_array x) {
    return x && x->dtype == ZL_COMPLEX64 ? zl_take_along_axis(x, places(x), -1) : x ? sort(x) : NULL;
}

static zl_array argsort_last(zl_array x) {
    return x ? argsort(x) : NULL;
}

static zl_array along(const char *function, zl_array a, int axis, zl_array (*order)(zl_array)) {
    int at = a ? shape_axis(function, axis, a->ndim) : -1;
    if (at < 0)
        return NULL;
    if (a->dim[at] > UINT32_MAX)
        return error_set(ZL_ERROR_OVERFLOW, "%s: axis %d of shape %s is too long for positions of uint32",
                         function, axis, array_text(a));
    return zl_moveaxis(order(zl_moveaxis(a, at, -1)), -1, at);
}

// Whether an axis of a has an element kth, counted from the end if it is negative; else an error.
static bool check_kth(const char *function, zl_array a, int kth, int axis) {
    int at = a ? shape_axis(function, axis, a->ndim) : -1;
    if (at < 0)
        return false;
    int64_t position = kth < 0 ? kth + a->dim[at] : kth;
    return (position >= 0 && position < a->dim[at]) ||
           error_false(ZL_ERROR_VALUE, "%s: there is no element %d along axis %d of shape %s", function, kth,
                       axis, array_text(a));
}

#define NAN_LAST " NaN comes last; equal elements keep their order."
#define ORDER(function, order, doc)                                                                \
    zl_array function(zl_array a, int axis) {                                                      \
        return along(#function, a, axis, order);                                                   \
    }                                                                                              \
    OP_SIGNATURE(function, "sort", doc " along an axis." NAN_LAST, P_ARRAY(a), P_INT(axis, "-1")); \
    zl_array function##_flat(zl_array a) {                                                         \
        return along(#function "_flat", zl_flatten(a, 0, -1), 0, order);                           \
    }                                                                                              \
    OP_SIGNATURE(function##_flat, "sort", doc ", flattened." NAN_LAST, P_ARRAY(a))

ORDER(zl_sort, sort_last, "The elements of a from the smallest to the largest");
ORDER(zl_argsort, argsort_last, "The positions, as uint32, that put the elements of a in order");

#define PARTITION(function, order, doc)                                                                \
    zl_array function(zl_array a, int kth, int axis) {                                                 \
        return check_kth(#function, a, kth, axis) ? along(#function, a, axis, order) : NULL;           \
    }                                                                                                  \
    OP_SIGNATURE(function, "sort",                                                                     \
                 doc " along an axis: those before the kth are not larger than it, those behind "      \
                     "it not smaller. They are all in order here.",                                    \
                 P_ARRAY(a), P_INT(kth, NULL), P_INT(axis, "-1"));                                     \
    zl_array function##_flat(zl_array a, int kth) {                                                    \
        zl_array x = zl_flatten(a, 0, -1);                                                             \
        return check_kth(#function "_flat", x, kth, 0) ? along(#function "_flat", x, 0, order) : NULL; \
    }                                                                                                  \
    OP_SIGNATURE(function##_flat, "sort", doc ", flattened, as " #function ".", P_ARRAY(a), P_INT(kth, NULL))

PARTITION(zl_partition, sort_last, "The elements of a");
PARTITION(zl_argpartition, argsort_last, "The positions, as uint32, of the elements of a");

// The last count elements along an axis.
static zl_array last_of(zl_array x, int axis, int64_t count) {
    OP_ROOM(int64_t, list, 3 * x->ndim);
    if (!list)
        return NULL;
    for (int i = 0; i < x->ndim; i++) {
        list[i] = i == axis ? x->dim[i] - count : 0;
        list[x->ndim + i] = x->dim[i];
        list[2 * x->ndim + i] = 1;
    }
    return zl_slice(x, (zl_shape){list, x->ndim}, (zl_shape){list + x->ndim, x->ndim},
                    (zl_shape){list + 2 * x->ndim, x->ndim});
}

static zl_array topk(const char *function, zl_array a, int k, int axis) {
    int at = a ? shape_axis(function, axis, a->ndim) : -1;
    if (at < 0)
        return NULL;
    if (k < 0 || k > a->dim[at])
        return error_set(ZL_ERROR_VALUE, "%s: %d elements along axis %d of shape %s: 0 to %lld can be taken",
                         function, k, axis, array_text(a), (long long)a->dim[at]);
    if (k == a->dim[at])
        return op_same(a);
    zl_array sorted = along(function, a, at, sort_last);
    return sorted ? last_of(sorted, at, k) : NULL;
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

// The axes that are not given, then those that are, as one; *kept is how many the former are.
static zl_array flatten_last(zl_array a, int count, const int *axis, int *kept) {
    OP_ROOM(int, order, a->ndim);
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

// Along the last axis, which it leaves with size 1. One of many NaN is NaN.
static zl_array middle(const char *function, zl_array x) {
    int last = x->ndim - 1;
    int64_t n = x->dim[last];
    zl_dtype dtype = op_float_dtype((zl_dtype)x->dtype);
    if (n == 0)
        return error_set(ZL_ERROR_SHAPE, "%s: there is no median of no elements", function);
    zl_array sorted = along(function, x, last, sort_last);
    zl_array y = zl_astype(zl_take(sorted, zl_arange_int(n / 2, n / 2 + 1, 1, ZL_INT64), last), dtype);
    if (n % 2 == 0) {
        zl_array below = zl_take(sorted, zl_arange_int(n / 2 - 1, n / 2, 1, ZL_INT64), last);
        y = zl_multiply(zl_add(y, zl_astype(below, dtype)), op_number(dtype, 0.5));
    }
    if (!dtype_is_inexact((zl_dtype)x->dtype))
        return y;
    return zl_where(zl_any_axis(zl_isnan(x), last, true), op_number(dtype, NAN), y);
}

static zl_array median(const char *function, zl_array a, zl_axes axes, bool keepdims) {
    if (!a)
        return NULL;
    OP_ROOM(int, axis, a->ndim);
    int kept, count = axis ? op_axes(function, a, axes, axis) : -1;
    zl_array x = count < 0 ? NULL : flatten_last(a, count, axis, &kept);
    zl_array y = x ? zl_squeeze(middle(function, x), ZL_AXES(-1)) : NULL;
    return y && keepdims && count ? zl_expand_dims(y, (zl_axes){axis, count}) : y;
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

// searchsorted ----------------------------------------------------------------------------------------------

static zl_array search(zl_array sorted, zl_array values, int64_t right) {
    return op_dense(&op_searchsorted, 2, (zl_array[]){sorted, values}, 1, &right, ZL_UINT32, values->ndim,
                    values->dim);
}

static bool record_search(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = search(in[0], in[1], call_args(c)[0]));
}

static bool vmap_search(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                        int *out_axis) {
    if (axis[0] >= 0)
        return error_false(ZL_ERROR_VALUE,
                           "zl_searchsorted: only the values can be a batch, not the sorted sequence");
    out_axis[0] = axis[1];
    return record_search(c, in, out);
}

static const struct op_field search_field[] = {{"right", FIELD_BOOL}};
OP(op_searchsorted) = {
    .name = "searchsorted",
    .kind = OP_OTHER,
    .fields = 1,
    .field = search_field,
    .record = record_search,
    .fits = op_fits_searchsorted,
    .vjp = op_vjp_zero,
    .jvp = op_jvp_zero,
    .vmap = vmap_search,
};

zl_array zl_searchsorted(zl_array sorted_sequence, zl_array values, const char *side) {
    if (!sorted_sequence || !values)
        return NULL;
    bool right = side && !strcmp(side, "right");
    if (!right && (!side || strcmp(side, "left")))
        return error_set(ZL_ERROR_VALUE, "zl_searchsorted: side is \"%s\": \"left\" or \"right\" is needed",
                         side ? side : "NULL");
    if (sorted_sequence->ndim != 1 || sorted_sequence->size > UINT32_MAX)
        return error_set(ZL_ERROR_SHAPE,
                         "zl_searchsorted: a sequence of shape %s: one axis, of uint32 positions, is needed",
                         array_text(sorted_sequence));
    zl_dtype dtype = dtype_common(2, (zl_array[]){sorted_sequence, values});
    zl_array in[] = {zl_astype(sorted_sequence, dtype), zl_astype(values, dtype)};
    if (!in[0] || !in[1])
        return NULL;
    return in[0]->size ? search(in[0], in[1], right)
                       : zl_zeros((zl_shape){values->dim, values->ndim}, ZL_UINT32);
}
OP_SIGNATURE(
    zl_searchsorted, "sort",
    "The positions, as uint32, where values could be put into a sorted sequence so that it stays sorted: "
    "before "
    "equal elements if side is \"left\", behind them if it is \"right\". NaN is larger than all others.",
    P_ARRAY(sorted_sequence), P_ARRAY(values), P_STRING(side, "left"));
