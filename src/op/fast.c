// fast.c - the composed functions of mlx.core.fast: norms and rotary positions.
//
// They are formulas of other ops, so that they have derivatives and batching; a device that can do better sees the same
// calls. Sums and exponentials of 16-bit floats are taken in float32.

#include <math.h>

#include "op/ops.h"

static zl_dtype working_dtype(zl_dtype dtype) {
    return dtype == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
}

static bool check_float(const char *function, zl_dtype dtype) {
    return dtype_is_float(dtype) ||
           error_false(ZL_ERROR_DTYPE, "%s: %s is not possible; floats are", function, zl_dtype_name(dtype));
}

// Norms -----------------------------------------------------------------------------------------------------

// x has an axis, and what is given of the others is as long as its last.
static bool check_norm(const char *function, zl_array x, int count, const zl_array *given) {
    if (x->ndim == 0)
        return error_false(ZL_ERROR_SHAPE, "%s: x is a scalar: it needs an axis", function);
    for (int i = 0; i < count; i++)
        if (given[i] && (given[i]->ndim != 1 || given[i]->dim[0] != x->dim[x->ndim - 1]))
            return error_false(ZL_ERROR_SHAPE, "%s: a %s of shape %s for x of shape %s: (%lld,) is needed",
                               function, i ? "bias" : "weight", array_text(given[i]), array_text(x),
                               (long long)x->dim[x->ndim - 1]);
    return true;
}

static zl_array mean_last(const char *function, zl_array x) {
    if (!x)
        return NULL;
    zl_array sum = op_reduce_axes(function, REDUCE_SUM, x, ZL_AXES(-1), true);
    return zl_divide(sum, op_count(x, (zl_dtype)x->dtype, 1, (int[]){x->ndim - 1}, 0, false));
}

// x divided by the root of its mean square, as dtype.
static zl_array divide_by_root(const char *function, zl_array x, double eps, zl_dtype dtype) {
    zl_array mean = mean_last(function, zl_square(x));
    zl_array y = zl_multiply(x, zl_rsqrt(zl_add(mean, zl_scalar(eps))));
    return zl_astype(y, dtype);
}

static zl_array rms_norm(zl_array x, zl_array weight, double eps) {
    const char *function = "zl_fast_rms_norm";
    if (!x || !op_check_optional(weight) || !check_norm(function, x, 1, &weight))
        return NULL;
    zl_dtype dtype = weight ? dtype_common(2, (zl_array[]){x, weight}) : (zl_dtype)x->dtype;
    if (!check_float(function, dtype))
        return NULL;
    zl_array y = divide_by_root(function, zl_astype(x, working_dtype(dtype)), eps, dtype);
    return weight ? zl_multiply(y, zl_astype(weight, dtype)) : y;
}

zl_array zl_fast_rms_norm(zl_array x, zl_array weight, double eps) {
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, rms_norm(x, weight, eps));
}
OP_SIGNATURE(
    zl_fast_rms_norm, "fast",
    "x divided by the root of the mean of its squares along the last axis, with eps added to the mean, times "
    "weight if there is one.",
    P_ARRAY(x), P_NULLABLE(weight), P_DOUBLE(eps, NULL));

static zl_array layer_norm(zl_array x, zl_array weight, zl_array bias, double eps) {
    const char *function = "zl_fast_layer_norm";
    if (!x || !op_check_optional(weight) || !op_check_optional(bias) ||
        !check_norm(function, x, 2, (zl_array[]){weight, bias}))
        return NULL;
    zl_dtype dtype = weight ? dtype_common(bias ? 3 : 2, (zl_array[]){x, weight, bias}) : (zl_dtype)x->dtype;
    if (!check_float(function, dtype))
        return NULL;
    x = zl_astype(x, working_dtype(dtype));
    zl_array y = divide_by_root(function, zl_subtract(x, mean_last(function, x)), eps, dtype);
    y = weight ? zl_multiply(y, zl_astype(weight, dtype)) : y;
    return bias ? zl_add(y, zl_astype(bias, dtype)) : y;
}

zl_array zl_fast_layer_norm(zl_array x, zl_array weight, zl_array bias, double eps) {
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, layer_norm(x, weight, bias, eps));
}
OP_SIGNATURE(
    zl_fast_layer_norm, "fast",
    "x less its mean along the last axis, divided by its standard deviation, with eps added to the variance, "
    "times weight and plus bias if there are such.",
    P_ARRAY(x), P_NULLABLE(weight), P_NULLABLE(bias), P_DOUBLE(eps, NULL));

// Rotary positions ------------------------------------------------------------------------------------------

static bool check_rope(zl_array a, int dims, double base, zl_array offset, zl_array freqs) {
    if (a->ndim < 3)
        return error_false(ZL_ERROR_SHAPE, "zl_fast_rope: a of shape %s: at least three axes are needed",
                           array_text(a));
    if (offset->ndim > 1 || (offset->size != 1 && offset->size != a->dim[0]))
        return error_false(ZL_ERROR_SHAPE,
                           "zl_fast_rope: an offset of shape %s: one number, or %lld, are needed",
                           array_text(offset), (long long)a->dim[0]);
    if (!dtype_is_integer((zl_dtype)offset->dtype))
        return error_false(ZL_ERROR_DTYPE, "zl_fast_rope: the offset is %s: integers are needed",
                           zl_dtype_name((zl_dtype)offset->dtype));
    if (dims <= 0 || dims % 2 || dims > a->dim[a->ndim - 1])
        return error_false(ZL_ERROR_VALUE,
                           "zl_fast_rope: %d of the last axis of shape %s: an even number from it is needed",
                           dims, array_text(a));
    bool has_base = !isnan(base);
    if (has_base == (freqs != NULL))
        return error_false(ZL_ERROR_VALUE,
                           "zl_fast_rope: a base of %g %s frequencies: one of the two must be given", base,
                           freqs ? "and" : "without");
    return !freqs || (freqs->ndim == 1 && freqs->dim[0] == dims / 2) ||
           error_false(ZL_ERROR_SHAPE, "zl_fast_rope: frequencies of shape %s: (%d,) is needed",
                       array_text(freqs), dims / 2);
}

// x from one place of its last axis to another.
static zl_array part(zl_array x, int64_t from, int64_t to, int64_t step) {
    int last = x->ndim - 1;
    int64_t start[4] = {0}, stop[4], steps[4] = {1, 1, 1, 1};
    for (int i = 0; i <= last; i++)
        stop[i] = x->dim[i];
    start[last] = from;
    stop[last] = to;
    steps[last] = step;
    return zl_slice(x, (zl_shape){start, last + 1}, (zl_shape){stop, last + 1}, (zl_shape){steps, last + 1});
}

// Angles of `count` positions: (count, half), or (B, 1, count, half) with an offset for each of a batch.
static zl_array angles(int64_t count, int half, double base, double scale, zl_array offset, zl_array freqs,
                       zl_dtype dtype) {
    if (offset->size > 1)
        offset = zl_expand_dims(offset, ZL_AXES(-1, -2));
    zl_array place = zl_add(zl_arange(0, (double)count, 1, dtype), zl_astype(offset, dtype));
    place = zl_multiply(place, op_number(dtype, scale));
    zl_array turn =
        freqs ? zl_reciprocal(zl_astype(freqs, dtype))
              : zl_exp(zl_multiply(zl_arange(0, -half, -1, dtype), op_number(dtype, log(base) / half)));
    return zl_multiply(zl_expand_dims(place, ZL_AXES(-1)), turn);
}

// x: (B, N, T, D), of whose last axis `dims` are turned, in pairs of neighbours or of halves.
static zl_array rotate(zl_array x, int dims, bool traditional, zl_array angle) {
    int64_t half = dims / 2, end = x->dim[3];
    zl_array a = traditional ? part(x, 0, dims, 2) : part(x, 0, half, 1);
    zl_array b = traditional ? part(x, 1, dims, 2) : part(x, half, dims, 1);
    zl_dtype dtype = (zl_dtype)x->dtype;
    zl_array cosine = zl_astype(zl_cos(angle), dtype), sine = zl_astype(zl_sin(angle), dtype);
    zl_array turned[] = {zl_subtract(zl_multiply(a, cosine), zl_multiply(b, sine)),
                         zl_add(zl_multiply(a, sine), zl_multiply(b, cosine))};
    zl_array y = traditional ? zl_flatten(zl_stack(turned, 2, -1), -2, -1) : zl_concatenate(turned, 2, -1);
    return dims == end ? y : zl_concatenate((zl_array[]){y, part(x, dims, end, 1)}, 2, -1);
}

static zl_array rope(zl_array a, int dims, bool traditional, double base, double scale, zl_array offset,
                     zl_array freqs) {
    if (!a || !offset || !op_check_optional(freqs) || !check_float("zl_fast_rope", (zl_dtype)a->dtype) ||
        !check_rope(a, dims, base, offset, freqs))
        return NULL;
    zl_array x = a->ndim == 3  ? zl_expand_dims(a, ZL_AXES(1))
                 : a->ndim > 4 ? zl_flatten(a, 1, a->ndim - 3)
                               : a;
    zl_dtype dtype = working_dtype((zl_dtype)a->dtype);
    zl_array angle = x ? angles(x->dim[2], dims / 2, base, scale, offset, freqs, dtype) : NULL;
    return angle ? zl_reshape(rotate(x, dims, traditional, angle), zl_shape_of(a)) : NULL;
}

static bool again_fast_rope(const union op_value *v, zl_array *out) {
    return (out[0] = zl_fast_rope(v[0].array, v[1].number, v[2].number, v[3].real, v[4].real, v[5].array,
                                  v[6].array));
}

zl_array zl_fast_rope(zl_array a, int dims, bool traditional, double base, double scale, zl_array offset,
                      zl_array freqs) {
    zl_array again;
    if (op_again(&again, "zl_fast_rope", again_fast_rope, a, dims, traditional, base, scale, offset, freqs))
        return again;
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, rope(a, dims, traditional, base, scale, offset, freqs));
}
OP_SIGNATURE(
    zl_fast_rope, "fast",
    "a, of shape (B, ..., T, D), with pairs of its first dims features turned by angles that grow with the "
    "position along T: rotary positions. Pairs are neighbours if traditional, else one from each half. "
    "Positions start at offset, one or a number for each of B, and are multiplied by scale. Either base, or "
    "the wave lengths freqs, is given; a base that is not is NaN.",
    P_ARRAY(a), P_INT(dims, NULL), P_BOOL(traditional, NULL), P_DOUBLE(base, "None"), P_DOUBLE(scale, NULL),
    P_ARRAY(offset), P_OPTIONAL(freqs));
