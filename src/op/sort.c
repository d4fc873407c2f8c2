// sort.c - sorting along an axis, and searching in sorted arrays.
//
// NaN comes last, and equal elements keep their order. The kernels sort the last axis of row-major arrays;
// other axes are moved to the end and back.

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

// Returns the positions of the sorted elements, as constants to derivatives: small changes of x do not move
// them.
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

bool op_vmap_last(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    zl_array x = op_batch_first(in[0], axis[0]);
    out_axis[0] = 0;
    return x && c->op->record(c, &x, out);
}

static bool fits_sort(const struct call *c, const zl_array *in) {
    return op_has(c, 1, 0) && in[0]->ndim >= 1 && (c->op == &op_argsort || in[0]->dtype != ZL_COMPLEX64);
}

const struct op op_sort = {
    .name = "sort",
    .kind = OP_OTHER,
    .record = record_sort,
    .fits = fits_sort,
    .vjp = vjp_sort,
    .jvp = jvp_sort,
    .vmap = op_vmap_last,
};

const struct op op_argsort = {
    .name = "argsort",
    .kind = OP_OTHER,
    .record = record_argsort,
    .fits = fits_sort,
    .vjp = op_vjp_zero,
    .jvp = op_jvp_zero,
    .vmap = op_vmap_last,
};

// Public functions ------------------------------------------------------------------------------------------

// Complex numbers are sorted by their positions.
static zl_array sort_last(zl_array x, const int64_t *arg) {
    (void)arg;
    return x->dtype == ZL_COMPLEX64 ? zl_take_along_axis(x, places(x), -1) : sort(x);
}

static zl_array argsort_last(zl_array x, const int64_t *arg) {
    (void)arg;
    return argsort(x);
}

zl_array op_order(const char *function, zl_array a, int axis, op_order_fn *order, const int64_t *arg) {
    int at = a ? shape_axis(function, axis, a->ndim) : -1;
    if (at < 0)
        return NULL;
    if (a->dim[at] > UINT32_MAX)
        return error_set(ZL_ERROR_OVERFLOW, "%s: axis %d of shape %s is too long for positions of uint32",
                         function, axis, array_text(a));
    zl_array x = zl_moveaxis(a, at, -1);
    return x ? zl_moveaxis(order(x, arg), -1, at) : NULL;
}

#define NAN_LAST " NaN comes last; equal elements keep their order."
#define ORDER(function, order, doc)                                                                \
    zl_array function(zl_array a, int axis) {                                                      \
        return op_order(#function, a, axis, order, NULL);                                          \
    }                                                                                              \
    OP_SIGNATURE(function, "sort", doc " along an axis." NAN_LAST, P_ARRAY(a), P_INT(axis, "-1")); \
    zl_array function##_flat(zl_array a) {                                                         \
        return op_order(#function "_flat", zl_flatten(a, 0, -1), 0, order, NULL);                  \
    }                                                                                              \
    OP_SIGNATURE(function##_flat, "sort", doc ", flattened." NAN_LAST, P_ARRAY(a))

ORDER(zl_sort, sort_last, "The elements of a from the smallest to the largest");
ORDER(zl_argsort, argsort_last, "The positions, as uint32, that put the elements of a in order");

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

static bool fits_searchsorted(const struct call *c, const zl_array *in) {
    return op_has(c, 2, 1) && op_is_among(call_args(c)[0], 2) && in[0]->ndim == 1 && in[0]->size > 0 &&
           in[0]->size <= UINT32_MAX && in[0]->dtype == in[1]->dtype;
}

static const struct op_field search_field[] = {{"right", FIELD_BOOL}};
const struct op op_searchsorted = {
    .name = "searchsorted",
    .kind = OP_OTHER,
    .fields = 1,
    .field = search_field,
    .record = record_search,
    .fits = fits_searchsorted,
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
