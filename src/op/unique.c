// unique.c - the distinct elements of an array, sorted, and their positions.
//
// A sorted element that differs from the one before it begins a run; a scatter collects the positions where
// runs begin. The number of runs depends on the elements: either the caller gives the number of results, or
// the runs are evaluated to count them.

#include "op/ops.h"

static const char *const function = "zl_unique";

struct runs {
    zl_array flat, sorted;
    zl_array order; // positions of the sorted elements in flat; NULL: not needed
    zl_array first; // whether a sorted element begins a run
    zl_array run;   // by sorted element: the number of its run
    zl_array count; // number of runs
};

static zl_array part(zl_array x, int64_t from, int64_t to) {
    return zl_slice(x, ZL_SHAPE(from), ZL_SHAPE(to), ZL_SHAPE(1));
}

// Finds the runs of a, which is not empty.
static bool find_runs(struct runs *r, zl_array a, bool with_order) {
    r->flat = zl_flatten(a, 0, -1);
    r->order = with_order ? zl_stop_gradient(zl_argsort(r->flat, 0)) : NULL;
    r->sorted = with_order ? zl_take(r->flat, r->order, 0) : zl_sort(r->flat, 0);
    if (!r->sorted)
        return false;
    int64_t n = a->size;
    zl_array differ = zl_not_equal(part(r->sorted, 1, n), part(r->sorted, 0, n - 1));
    // The positions where runs begin are constants to derivatives.
    r->first = zl_stop_gradient(zl_concatenate((zl_array[]){zl_ones(ZL_SHAPE(1), ZL_BOOL), differ}, 2, 0));
    zl_array begun = zl_cumsum(zl_astype(r->first, ZL_INT64), 0, false, true, ZL_INT64);
    r->run = zl_subtract(begun, op_number(ZL_INT64, 1));
    r->count = zl_take(begun, zl_scalar_int(-1), 0);
    return r->run && r->count;
}

// Returns where the first `size` runs begin; 0 after the last run.
static zl_array starts_of(const struct runs *r, int64_t size) {
    // Elements that begin no run get a position past the end, where nothing is written, as do later runs.
    zl_array to = zl_where(r->first, r->run, op_number(ZL_INT64, (double)size));
    zl_array at = zl_expand_dims(zl_arange_int(0, r->flat->size, 1, ZL_INT64), ZL_AXES(1));
    return zl_scatter(zl_zeros(ZL_SHAPE(size), ZL_INT64), &to, 1, at, ZL_AXES(0));
}

static zl_array values_of(const struct runs *r, zl_array starts, int64_t size, zl_array fill) {
    zl_array values = zl_take(r->sorted, starts, 0);
    if (!fill || !values)
        return values;
    zl_array is_there = zl_less(zl_arange_int(0, size, 1, ZL_INT64), r->count);
    return zl_where(is_there, values, zl_astype(zl_reshape(fill, ZL_SCALAR), (zl_dtype)values->dtype));
}

// Returns the run of each element of a; for runs that are left out, the last one.
static zl_array inverse_of(const struct runs *r, zl_array a, int64_t size) {
    zl_array run = zl_minimum(r->run, op_number(ZL_INT64, (double)MAX_OF(size - 1, 0)));
    zl_array updates = zl_expand_dims(zl_astype(run, ZL_UINT32), ZL_AXES(1));
    zl_array each = zl_scatter(zl_zeros(ZL_SHAPE(a->size), ZL_UINT32), &r->order, 1, updates, ZL_AXES(0));
    return zl_reshape(each, zl_shape_of(a));
}

static zl_array counts_of(const struct runs *r, int64_t size) {
    zl_array ones = zl_ones(ZL_SHAPE(r->flat->size, 1), ZL_INT32);
    return zl_scatter_add(zl_zeros(ZL_SHAPE(size), ZL_INT32), &r->run, 1, ones, ZL_AXES(0));
}

// Writes the wanted results to consecutive elements of out.
static bool give(const struct runs *r, zl_array a, int64_t size, const bool *wanted, zl_array fill,
                 zl_array *out) {
    zl_array starts = starts_of(r, size);
    if (!starts || !(*out++ = values_of(r, starts, size, fill)))
        return false;
    if (wanted[0] && !(*out++ = zl_take(r->order, starts, 0)))
        return false;
    if (wanted[1] && !(*out++ = inverse_of(r, a, size)))
        return false;
    return !wanted[2] || (*out = counts_of(r, size));
}

// Gives the results for an empty array, or for size 0.
static bool give_nothing(zl_array a, int64_t size, const bool *wanted, zl_array fill, zl_array *out) {
    if (size > 0 && !fill)
        return error_false(ZL_ERROR_VALUE, "%s: %lld elements of an empty array: they need a fill_value",
                           function, (long long)size);
    zl_shape shape = ZL_SHAPE(size);
    zl_array value = fill ? zl_reshape(fill, ZL_SCALAR) : zl_scalar(0);
    if (!(*out++ = zl_full(shape, value, (zl_dtype)a->dtype)))
        return false;
    if (wanted[0] && !(*out++ = zl_zeros(shape, ZL_UINT32)))
        return false;
    if (wanted[1] && !(*out++ = zl_zeros(zl_shape_of(a), ZL_UINT32)))
        return false;
    return !wanted[2] || (*out = zl_zeros(shape, ZL_INT32));
}

static bool check(zl_array a, int64_t size, zl_array fill) {
    if (size < 0 && size != INT64_MIN)
        return error_false(ZL_ERROR_VALUE, "%s: a size of %lld: not less than 0 is possible", function,
                           (long long)size);
    if (fill && fill->size != 1)
        return error_false(ZL_ERROR_SHAPE, "%s: a fill_value of shape %s: one number is needed", function,
                           array_text(fill));
    if (a->size > UINT32_MAX)
        return error_false(ZL_ERROR_OVERFLOW,
                           "%s: a of shape %s has too many elements for positions of uint32", function,
                           array_text(a));
    return size == INT64_MIN || op_check_size(function, 1, &size);
}

// Counts the runs. Evaluates with the count all arrays that are used again.
static bool count_runs(const struct runs *r, zl_array a, int64_t *size) {
    zl_array list[] = {a, r->sorted, r->first, r->run, r->order, r->count};
    if (!r->order)
        list[4] = a;
    return op_read_number(function, 6, list, size);
}

bool zl_unique(zl_array a, int64_t size, bool return_index, bool return_inverse, bool return_counts,
               zl_array fill_value, zl_array *out) {
    const bool wanted[] = {return_index, return_inverse, return_counts};
    struct runs r;
    if (!op_check_out(function, 1 + return_index + return_inverse + return_counts, out) || !a ||
        !op_check_optional(fill_value) || !check(a, size, fill_value))
        return false;
    if (a->size == 0 || size == 0)
        return give_nothing(a, MAX_OF(size, 0), wanted, fill_value, out);
    return find_runs(&r, a, return_index || return_inverse) &&
           (size != INT64_MIN || count_runs(&r, a, &size)) && give(&r, a, size, wanted, fill_value, out);
}
OP_SIGNATURE_BOOL(zl_unique, "sort",
                  "The different elements of a, flattened, from the smallest to the largest, in out[0]; "
                  "behind it, if they are asked for, "
                  "as uint32 where in a each was first, and for each element of a which of them it is, and "
                  "as int32 how often each is in "
                  "a. How many they are depends on a: if size is not given, a is evaluated, which cannot be "
                  "while a function is mapped, "
                  "compiled or exported. With a size nothing is: the first so many are taken, and "
                  "fill_value, by default the smallest, "
                  "follows where there are less, with a count of 0. Every NaN is another element.",
                  P_ARRAY(a), P_INT64(size, "None"), P_BOOL(return_index, "False"),
                  P_BOOL(return_inverse, "False"), P_BOOL(return_counts, "False"), P_OPTIONAL(fill_value),
                  P_OUTPUT(out));
