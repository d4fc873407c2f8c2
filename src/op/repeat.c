// repeat.c - arrays that repeat elements, or roll them: composed of views and copies.

#include <limits.h>

#include "op/ops.h"

static bool check_repeats(const char *function, zl_array x, int64_t repeats, int64_t size, int64_t *out) {
    if (repeats < 0)
        return error_false(ZL_ERROR_VALUE, "%s: %lld times: it cannot be less than 0", function,
                           (long long)repeats);
    if (__builtin_mul_overflow(repeats, size, out))
        return error_false(ZL_ERROR_OVERFLOW, "%s: shape %s %lld times is too big", function, array_text(x),
                           (long long)repeats);
    return true;
}

static bool again_repeat(const union op_value *v, zl_array *out) {
    return (out[0] = zl_repeat(v[0].array, v[1].wide, v[2].number));
}

zl_array zl_repeat(zl_array array, int64_t repeats, int axis) {
    zl_array y;
    if (op_again(&y, "zl_repeat", again_repeat, array, repeats, axis))
        return y;
    if (axis == INT_MIN)
        return zl_repeat(zl_flatten(array, 0, -1), repeats, 0);
    int at = array ? shape_axis("zl_repeat", axis, array->ndim) : -1;
    if (at < 0)
        return NULL;
    OP_TEMP(int64_t, dim, 2 * array->ndim + 1);
    if (!dim)
        return NULL;
    // result: the sizes of the result; dim: the same with an extra axis for the copies of an element
    int64_t *result = dim + array->ndim + 1;
    for (int i = 0; i < array->ndim; i++)
        dim[i + (i > at)] = result[i] = array->dim[i];
    dim[at + 1] = repeats;
    if (!check_repeats("zl_repeat", array, repeats, array->dim[at], &result[at]) ||
        !op_check_size("zl_repeat", array->ndim, result))
        return NULL;
    zl_array all = zl_broadcast_to(zl_expand_dims(array, ZL_AXES(at + 1)), (zl_shape){dim, array->ndim + 1});
    return zl_flatten(all, at, at + 1);
}
OP_SIGNATURE(
    zl_repeat, "shape",
    "Every element of array several times in a row along an axis; of array, flattened, if none is given.",
    P_ARRAY(array), P_INT64(repeats, NULL), P_INT(axis, "None"));

static bool again_tile(const union op_value *v, zl_array *out) {
    return (out[0] = zl_tile(v[0].array, v[1].shape));
}

zl_array zl_tile(zl_array a, zl_shape reps) {
    zl_array y;
    if (op_again(&y, "zl_tile", again_tile, a, reps))
        return y;
    if (!a || !op_check_list("zl_tile", reps))
        return NULL;
    int ndim = MAX_OF(a->ndim, reps.ndim);
    OP_TEMP(int64_t, dim, 5 * ndim); // for every axis two sizes: copies and size, then 1 and size; then the
                                     // sizes of the result
    if (!dim)
        return NULL;
    int64_t *split = dim + 2 * ndim, *result = split + 2 * ndim;
    for (int i = 0; i < ndim; i++) {
        int at_x = i - (ndim - a->ndim), at_reps = i - (ndim - reps.ndim);
        dim[2 * i] = at_reps < 0 ? 1 : reps.dim[at_reps];
        dim[2 * i + 1] = split[2 * i + 1] = at_x < 0 ? 1 : a->dim[at_x];
        split[2 * i] = 1;
        if (!check_repeats("zl_tile", a, dim[2 * i], dim[2 * i + 1], &result[i]))
            return NULL;
    }
    if (!op_check_size("zl_tile", ndim, result) || !op_check_size("zl_tile", 2 * ndim, dim))
        return NULL;
    zl_array all = zl_broadcast_to(zl_reshape(a, (zl_shape){split, 2 * ndim}), (zl_shape){dim, 2 * ndim});
    return zl_reshape(all, (zl_shape){result, ndim});
}
OP_SIGNATURE(
    zl_tile, "shape",
    "a several times along each axis, as reps says; the shorter of shape and reps gets ones in front.",
    P_ARRAY(a), P_SHAPE(reps));

// Rolls an axis: its last `shift` elements come first. shift: 0 to size - 1.
static zl_array roll(zl_array x, int axis, int64_t shift) {
    zl_array parts[2];
    if (shift == 0)
        return op_same(x);
    if (!zl_split_at(x, ZL_SHAPE(x->dim[axis] - shift), axis, parts))
        return NULL;
    return zl_concatenate((zl_array[]){parts[1], parts[0]}, 2, axis);
}

// Returns shift modulo size, not negative.
static int64_t reduce_shift(int64_t shift, int64_t size) {
    int64_t rest = size ? shift % size : 0;
    return rest < 0 ? rest + size : rest;
}

// Returns the sum of all shifts, modulo size.
static int64_t total_shift(zl_shape shift, int64_t size) {
    int64_t total = 0;
    for (int i = 0; i < shift.ndim; i++)
        total = size ? (total + reduce_shift(shift.dim[i], size)) % size : 0;
    return total;
}

static zl_array roll_flat(zl_array x, zl_shape shift) {
    zl_array flat = zl_flatten(x, 0, -1);
    return flat ? zl_reshape(roll(flat, 0, total_shift(shift, x->size)), (zl_shape){x->dim, x->ndim}) : NULL;
}

static bool again_roll(const union op_value *v, zl_array *out) {
    return (out[0] = zl_roll(v[0].array, v[1].shape, v[2].axes));
}

zl_array zl_roll(zl_array a, zl_shape shift, zl_axes axis) {
    zl_array y;
    if (op_again(&y, "zl_roll", again_roll, a, shift, axis))
        return y;
    if (!a || !op_check_list("zl_roll", shift))
        return NULL;
    if (shift.ndim != 1 && shift.ndim < axis.count)
        return error_set(ZL_ERROR_VALUE, "zl_roll: %d shifts for %d axes: one each, or one for all",
                         shift.ndim, axis.count);
    if (axis.count < 0)
        return roll_flat(a, shift);
    if (axis.count && !axis.axis)
        return error_set(ZL_ERROR_AXIS, "zl_roll: %d axes, but no list of them", axis.count);
    for (int i = 0; i < axis.count; i++)
        if (shape_axis("zl_roll", axis.axis[i], a->ndim) < 0)
            return NULL;
    y = op_same(a);
    for (int i = 0; y && i < axis.count; i++) {
        int at = axis.axis[i] < 0 ? axis.axis[i] + a->ndim : axis.axis[i];
        zl_shape by = axis.count == 1 ? shift : (zl_shape){shift.dim + (shift.ndim == 1 ? 0 : i), 1};
        y = roll(y, at, total_shift(by, a->dim[at]));
    }
    return y;
}
OP_SIGNATURE(
    zl_roll, "shape",
    "a with its elements moved on by shift places along each of the axes; what leaves at the end comes in at "
    "the start. One shift serves all axes. ZL_ALL: along the flattened a, by the sum of the shifts.",
    P_ARRAY(a), P_SHAPE(shift), P_AXES(axis, "None"));
