// scan.c - cumulative sums, products, extremes and logarithms of sums along an axis, and functions built on
// them.

#include "op/ops.h"

// arg: enum scan, axis, reverse, inclusive.
enum { WHICH, AXIS, REVERSE, INCLUSIVE, ARGS };

// The result has the strides of x, so that nothing is transposed.
static zl_array scan(zl_array x, const int64_t *arg) {
    return op_call(&op_scan, 1, &x, ARGS, arg,
                   &(struct array_spec){.dtype = (zl_dtype)x->dtype,
                                        .ndim = x->ndim,
                                        .dim = x->dim,
                                        .stride = op_common_stride(1, &x, x->ndim, x->dim)});
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = scan(in[0], call_args(c)));
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    const int64_t *arg = call_args(c);
    zl_array x = op_batch_first(in[0], axis[0]);
    out_axis[0] = 0;
    return x && (out[0] = scan(x, (int64_t[]){arg[WHICH], arg[AXIS] + 1, arg[REVERSE], arg[INCLUSIVE]}));
}

// Derivatives -----------------------------------------------------------------------------------------------

// A scan that excludes the element itself is an inclusive scan, shifted by one. The rules below are for
// inclusive scans.

// Returns the cotangent of x, given that of y, or the tangent of y, given that of x.
typedef zl_array rule(const struct call *c, zl_array x, zl_array y, zl_array g);

static zl_array scan_as(zl_array x, enum scan which, const int64_t *like, bool reversed) {
    return x ? scan(x, (int64_t[]){which, like[AXIS], reversed ? !like[REVERSE] : like[REVERSE], true})
             : NULL;
}

// Shifts x by one along the axis, to the front or the back; the free place becomes 0.
static zl_array move_by_one(zl_array x, int axis, bool to_front) {
    OP_TEMP(int64_t, list, 5 * x->ndim);
    if (!list)
        return NULL;
    int64_t *start = list, *stop = start + x->ndim, *one = stop + x->ndim, *low = one + x->ndim,
            *high = low + x->ndim;
    for (int i = 0; i < x->ndim; i++) {
        start[i] = i == axis && to_front;
        stop[i] = x->dim[i] - (i == axis && !to_front);
        one[i] = 1;
        low[i] = i == axis && !to_front;
        high[i] = i == axis && to_front;
    }
    zl_array part =
        zl_slice(x, (zl_shape){start, x->ndim}, (zl_shape){stop, x->ndim}, (zl_shape){one, x->ndim});
    return zl_pad(part, (zl_shape){low, x->ndim}, (zl_shape){high, x->ndim},
                  op_number((zl_dtype)x->dtype, 0));
}

// Returns the position, along the axis, of the element that is the extreme so far; of equal elements, the
// last one.
static zl_array owners(const struct call *c, zl_array x, zl_array y) {
    const int64_t *arg = call_args(c);
    int64_t n = x->dim[arg[AXIS]];
    zl_array at = zl_arange_int(0, n, 1, ZL_INT64);
    for (int64_t i = arg[AXIS] + 1; i < x->ndim; i++)
        at = zl_expand_dims(at, ZL_AXES(-1));
    at = zl_where(zl_equal(x, y), at, op_number(ZL_INT64, arg[REVERSE] ? (double)n : -1));
    return zl_stop_gradient(scan_as(at, arg[REVERSE] ? SCAN_MIN : SCAN_MAX, arg, false));
}

static zl_array vjp_extreme(const struct call *c, zl_array x, zl_array y, zl_array g) {
    zl_array at = owners(c, x, y);
    return at ? zl_scatter_add_axis(op_zeros_of(x), at, g, (int)call_args(c)[AXIS]) : NULL;
}

static zl_array first_zeros(zl_array x, const int64_t *arg) {
    zl_array is_zero = zl_equal(x, op_number((zl_dtype)x->dtype, 0));
    zl_array met = scan_as(zl_astype(is_zero, ZL_INT32), SCAN_SUM, arg, false);
    return zl_logical_and(is_zero, zl_equal(met, op_number(ZL_INT32, 1)));
}

// Before the first 0, the cotangent of an element is the sum of y g from there on, divided by the element.
// That of the first 0 is the same sum as if this element were 1. Later elements have 0.
static zl_array vjp_prod(const struct call *c, zl_array x, zl_array y, zl_array g) {
    const int64_t *arg = call_args(c);
    zl_array zero = op_number((zl_dtype)x->dtype, 0), one = op_number((zl_dtype)x->dtype, 1);
    zl_array gone = zl_equal(y, zero);
    zl_array is_first = first_zeros(x, arg);
    zl_array without = scan_as(zl_where(is_first, one, x), SCAN_PROD, arg, false);
    zl_array rest = scan_as(zl_multiply(y, g), SCAN_SUM, arg, true);
    zl_array first = scan_as(zl_multiply(without, g), SCAN_SUM, arg, true);
    zl_array usual = zl_where(gone, zero, zl_divide(rest, zl_where(gone, one, x)));
    return zl_where(is_first, first, usual);
}

// Returns exp(x) times the sum of g / exp(y) from there on, computed in logarithms.
static zl_array part_of_logs(const struct call *c, zl_array x, zl_array y, zl_array log_g) {
    zl_array logs = zl_subtract(log_g, y);
    return zl_exp(zl_add(scan_as(logs, SCAN_LOGADDEXP, call_args(c), true), x));
}

// Applies a rule that takes the logarithm of g. For real numbers, it is applied to the positive and to the
// negative part, and the results are subtracted.
static zl_array by_logs(rule *part, const struct call *c, zl_array x, zl_array y, zl_array g) {
    if (g->dtype == ZL_COMPLEX64)
        return part(c, x, y, zl_log(g));
    zl_array zero = op_number((zl_dtype)g->dtype, 0);
    return zl_subtract(part(c, x, y, zl_log(zl_maximum(g, zero))),
                       part(c, x, y, zl_log(zl_maximum(zl_negative(g), zero))));
}

static zl_array vjp_logs(const struct call *c, zl_array x, zl_array y, zl_array g) {
    if (g->dtype != ZL_COMPLEX64)
        return by_logs(part_of_logs, c, x, y, g);
    zl_array conjugate = zl_conjugate(g);
    return conjugate ? zl_conjugate(by_logs(part_of_logs, c, x, y, conjugate)) : NULL;
}

static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    static rule *const rules[] = {[SCAN_PROD] = vjp_prod,
                                  [SCAN_MAX] = vjp_extreme,
                                  [SCAN_MIN] = vjp_extreme,
                                  [SCAN_LOGADDEXP] = vjp_logs};
    const int64_t *arg = call_args(c);
    zl_array x = c->in[0], y = call_output(c, 0), g = cotangent[0];
    (void)input;
    if (arg[WHICH] == SCAN_SUM)
        return scan(g, (int64_t[]){SCAN_SUM, arg[AXIS], !arg[REVERSE], arg[INCLUSIVE]});
    if (!arg[INCLUSIVE]) {
        y = scan_as(x, (enum scan)arg[WHICH], arg, false);
        g = move_by_one(g, (int)arg[AXIS], !arg[REVERSE]);
    }
    return y && g ? rules[arg[WHICH]](c, x, y, g) : NULL;
}

static zl_array jvp_extreme(const struct call *c, zl_array x, zl_array y, zl_array t) {
    zl_array at = owners(c, x, y);
    return at ? zl_take_along_axis(t, at, (int)call_args(c)[AXIS]) : NULL;
}

// Before the first 0, the tangent is the sum of t / x so far, times the product. From there on, only the
// tangent of that 0 counts.
static zl_array jvp_prod(const struct call *c, zl_array x, zl_array y, zl_array t) {
    const int64_t *arg = call_args(c);
    zl_array zero = op_number((zl_dtype)x->dtype, 0), one = op_number((zl_dtype)x->dtype, 1);
    zl_array is_first = first_zeros(x, arg);
    zl_array without = scan_as(zl_where(is_first, one, x), SCAN_PROD, arg, false);
    zl_array sum = scan_as(zl_divide(t, zl_where(zl_equal(x, zero), one, x)), SCAN_SUM, arg, false);
    zl_array first = scan_as(zl_where(is_first, t, zero), SCAN_SUM, arg, false);
    zl_array gone = scan_as(zl_astype(is_first, ZL_INT32), SCAN_SUM, arg, false);
    return zl_where(gone, zl_multiply(without, first), zl_multiply(y, sum));
}

// Returns the sum of exp(x) t so far, divided by exp(y), computed in logarithms.
static zl_array tangent_of_logs(const struct call *c, zl_array x, zl_array y, zl_array log_t) {
    zl_array logs = zl_add(log_t, x);
    return zl_exp(zl_subtract(scan_as(logs, SCAN_LOGADDEXP, call_args(c), false), y));
}

static zl_array jvp_logs(const struct call *c, zl_array x, zl_array y, zl_array t) {
    return by_logs(tangent_of_logs, c, x, y, t);
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    static rule *const rules[] = {[SCAN_PROD] = jvp_prod,
                                  [SCAN_MAX] = jvp_extreme,
                                  [SCAN_MIN] = jvp_extreme,
                                  [SCAN_LOGADDEXP] = jvp_logs};
    const int64_t *arg = call_args(c);
    zl_array x = c->in[0], y = call_output(c, 0);
    out[0] = NULL;
    if (!tangent[0])
        return true;
    if (arg[WHICH] == SCAN_SUM)
        return record(c, tangent, out);
    if (!arg[INCLUSIVE] && !(y = scan_as(x, (enum scan)arg[WHICH], arg, false)))
        return false;
    out[0] = rules[arg[WHICH]](c, x, y, tangent[0]);
    if (out[0] && !arg[INCLUSIVE])
        out[0] = move_by_one(out[0], (int)arg[AXIS], arg[REVERSE]);
    return out[0];
}

static bool fits(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    return op_has(c, 1, 4) && op_is_among(arg[0], SCAN_LOGADDEXP + 1) && op_is_axis(in[0], arg[1]) &&
           op_is_among(arg[2], 2) && op_is_among(arg[3], 2);
}

static const struct op_field fields[] = {
    {"which", FIELD_INT}, {"axis", FIELD_INT}, {"reverse", FIELD_BOOL}, {"inclusive", FIELD_BOOL}};
const struct op op_scan = {
    .name = "scan",
    .kind = OP_OTHER,
    .fields = 4,
    .field = fields,
    .record = record,
    .fits = fits,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
};

// Public functions ------------------------------------------------------------------------------------------

static zl_array check_and_scan(const char *function, enum scan which, zl_array a, int axis, bool reverse,
                               bool inclusive) {
    int at = a ? shape_axis(function, axis, a->ndim) : -1;
    return at < 0 ? NULL : scan(a, (int64_t[]){which, at, reverse, inclusive});
}

static zl_array prod_dtype(const char *function, zl_array a, zl_dtype dtype) {
    if (!a || dtype == ZL_DTYPE_COUNT)
        return a;
    return op_check_dtype(function, dtype) ? zl_astype(a, dtype) : NULL;
}

// Bools are counted as int32.
static zl_array sum_dtype(const char *function, zl_array a, zl_dtype dtype) {
    zl_array x = prod_dtype(function, a, dtype);
    return x && x->dtype == ZL_BOOL ? zl_astype(x, ZL_INT32) : x;
}

#define HOW " Backwards if reverse; each element without itself unless inclusive."
#define SCAN_DTYPE(function, WHICH_OF, prepare, doc)                                                      \
    zl_array function(zl_array a, int axis, bool reverse, bool inclusive, zl_dtype dtype) {               \
        return check_and_scan(#function, SCAN_##WHICH_OF, prepare(#function, a, dtype), axis, reverse,    \
                              inclusive);                                                                 \
    }                                                                                                     \
    OP_SIGNATURE(function, "scan", doc " along an axis, in dtype, by default that of a." HOW, P_ARRAY(a), \
                 P_INT(axis, NULL), P_BOOL(reverse, "False"), P_BOOL(inclusive, "True"),                  \
                 P_DTYPE(dtype, "None"));                                                                 \
    zl_array function##_flat(zl_array a, bool reverse, bool inclusive, zl_dtype dtype) {                  \
        zl_array x = prepare(#function "_flat", zl_flatten(a, 0, -1), dtype);                             \
        return check_and_scan(#function "_flat", SCAN_##WHICH_OF, x, 0, reverse, inclusive);              \
    }                                                                                                     \
    OP_SIGNATURE(function##_flat, "scan", doc ", flattened, in dtype, by default that of a." HOW,         \
                 P_ARRAY(a), P_BOOL(reverse, "False"), P_BOOL(inclusive, "True"), P_DTYPE(dtype, "None"))

SCAN_DTYPE(zl_cumsum, SUM, sum_dtype, "The running sum of the elements of a");
SCAN_DTYPE(zl_cumprod, PROD, prod_dtype, "The running product of the elements of a");

static zl_array as_it_is(zl_array a) {
    return a;
}

static zl_array as_float(zl_array a) {
    return a ? zl_astype(a, op_float_dtype((zl_dtype)a->dtype)) : NULL;
}

#define SCAN_SAME(function, WHICH_OF, prepare, doc)                                                     \
    zl_array function(zl_array a, int axis, bool reverse, bool inclusive) {                             \
        return check_and_scan(#function, SCAN_##WHICH_OF, prepare(a), axis, reverse, inclusive);        \
    }                                                                                                   \
    OP_SIGNATURE(function, "scan", doc " along an axis." HOW, P_ARRAY(a), P_INT(axis, NULL),            \
                 P_BOOL(reverse, "False"), P_BOOL(inclusive, "True"));                                  \
    zl_array function##_flat(zl_array a, bool reverse, bool inclusive) {                                \
        zl_array x = prepare(zl_flatten(a, 0, -1));                                                     \
        return check_and_scan(#function "_flat", SCAN_##WHICH_OF, x, 0, reverse, inclusive);            \
    }                                                                                                   \
    OP_SIGNATURE(function##_flat, "scan", doc ", flattened." HOW, P_ARRAY(a), P_BOOL(reverse, "False"), \
                 P_BOOL(inclusive, "True"))

SCAN_SAME(zl_cummax, MAX, as_it_is, "The largest of the elements of a so far, NaN after the first NaN,");
SCAN_SAME(zl_cummin, MIN, as_it_is, "The smallest of the elements of a so far, NaN after the first NaN,");
SCAN_SAME(zl_logcumsumexp, LOGADDEXP, as_float,
          "The logarithm of the running sum of exp(a), without overflow; of integers, as float32,");

// masked_scatter --------------------------------------------------------------------------------------------

static bool check_mask(zl_array a, zl_array mask, zl_array src) {
    int rest = a->ndim - mask->ndim;
    if (mask->dtype != ZL_BOOL)
        return error_false(ZL_ERROR_DTYPE, "zl_masked_scatter: the mask is %s: bool is needed",
                           zl_dtype_name((zl_dtype)mask->dtype));
    if (rest < 0 || !shape_equal(mask->ndim, mask->dim, mask->ndim, a->dim))
        return error_false(ZL_ERROR_SHAPE,
                           "zl_masked_scatter: a mask of shape %s for shape %s: its first sizes are needed",
                           array_text(mask), array_text(a));
    bool fits = src->ndim <= rest + 1;
    for (int i = src->ndim - 1, k = a->ndim - 1; fits && i >= 0 && k >= mask->ndim; i--, k--)
        fits = src->dim[i] == 1 || src->dim[i] == a->dim[k];
    return fits || error_false(ZL_ERROR_SHAPE,
                               "zl_masked_scatter: src of shape %s: a list of elements of shape %s, or one "
                               "of them, is needed",
                               array_text(src), shape_text(rest, a->dim + mask->ndim));
}

// Returns an array like a with the elements of src that go to the places of the mask: each place takes the
// element whose index is the number of true places before it.
static zl_array spread(zl_array a, zl_array mask, zl_array src) {
    OP_TEMP(int64_t, dim, src->ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < src->ndim; i++)
        dim[i] = i ? a->dim[mask->ndim + i - 1] : src->dim[0];
    zl_array list = zl_flatten(zl_broadcast_to(src, (zl_shape){dim, src->ndim}), 0, -1);
    zl_dtype wide = a->size > INT32_MAX ? ZL_INT64 : ZL_INT32;
    zl_array full = zl_flatten(mask, 0, -1), at = zl_cumsum(full, 0, false, false, wide);
    int64_t each = mask->size ? a->size / mask->size : 1;
    if (src->ndim > 1) // each place of the mask is a slice
        at = zl_add(zl_expand_dims(zl_multiply(at, zl_scalar_int(each)), ZL_AXES(1)),
                    zl_arange_int(0, each, 1, wide));
    return zl_reshape(zl_take(list, zl_stop_gradient(at), 0), (zl_shape){a->dim, a->ndim});
}

zl_array zl_masked_scatter(zl_array a, zl_array mask, zl_array src) {
    if (!a || !mask || !src || !check_mask(a, mask, src))
        return NULL;
    int rest = a->ndim - mask->ndim;
    src = zl_astype(src, (zl_dtype)a->dtype);
    if (!src || a->size == 0 || src->size == 0)
        return src ? op_same(a) : NULL;
    zl_array values = src->ndim > rest ? spread(a, mask, src) : src;
    for (int i = 0; i < rest; i++)
        mask = zl_expand_dims(mask, ZL_AXES(-1));
    return zl_where(mask, values, a);
}
OP_SIGNATURE(
    zl_masked_scatter, "index",
    "a with the elements where mask, which has the first sizes of a, is true replaced by those of src, in "
    "order: src is a list of them, or one for all, in the dtype of a. If src is too short its last element "
    "is used "
    "again, and an empty src changes nothing.",
    P_ARRAY(a), P_ARRAY(mask), P_ARRAY(src));
