// test_edges.c - reductions and shape ops in corner cases: ten axes, none, no elements, one element, negative
// steps, every dtype; memory that is overwritten too early; data at unaligned addresses.
//
// An op along an axis is compared with what it does to one column of plain numbers, so that only rank and
// layout can make a difference.

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "test.h"

enum { MOST = 512, RANKS = 10, LARGEST = 91125 };

// Ops along an axis -----------------------------------------------------------------------------------------

// Rows: name, call, flags. NEEDS: there must be elements along the axis; NEEDS_ALL: the array must not be
// empty. ROUNDS: the result is not exact. ORDERS: not for complex numbers.
#define AXIS_OPS(ROW)                                                             \
    ROW(SUM, zl_sum_axis(x, axis, true), 0)                                       \
    ROW(PROD, zl_prod_axis(x, axis, true), 0)                                     \
    ROW(MIN, zl_min_axis(x, axis, true), NEEDS | ORDERS)                          \
    ROW(MAX, zl_max_axis(x, axis, true), NEEDS | ORDERS)                          \
    ROW(ALL, zl_all_axis(x, axis, true), 0)                                       \
    ROW(ANY, zl_any_axis(x, axis, true), 0)                                       \
    ROW(MEAN, zl_mean_axis(x, axis, true), ROUNDS)                                \
    ROW(VAR, zl_var_axis(x, axis, true, 0), ROUNDS | ORDERS)                      \
    ROW(COUNT_NONZERO, zl_count_nonzero_axis(x, axis, true), 0)                   \
    ROW(LOGSUMEXP, zl_logsumexp_axis(x, axis, true), NEEDS_ALL | ROUNDS | ORDERS) \
    ROW(ARGMIN, zl_argmin_axis(x, axis, true), NEEDS_ALL | ORDERS)                \
    ROW(ARGMAX, zl_argmax_axis(x, axis, true), NEEDS_ALL | ORDERS)                \
    ROW(SOFTMAX, zl_softmax(x, axis, false), ROUNDS | ORDERS)                     \
    ROW(FLIP, zl_flip(x, ZL_AXES(axis)), 0)                                       \
    ROW(BACK_BY_TWO, back_by_two(x, axis), 0)                                     \
    ROW(REPEAT, zl_repeat(x, 2, axis), 0)                                         \
    ROW(CONCATENATE, zl_concatenate((zl_array[]){x, x}, 2, axis), 0)              \
    ROW(TILE, tiled(x, axis), 0)                                                  \
    ROW(ROLL, zl_roll(x, ZL_SHAPE(1), ZL_AXES(axis)), 0)                          \
    ROW(PAD, padded(x, axis), 0)                                                  \
    ROW(TAKE, zl_take(x, zl_from_i32((int32_t[]){-1, 0}, ZL_SHAPE(2)), axis), NEEDS)

enum { NEEDS = 1, NEEDS_ALL = 2, ROUNDS = 4, ORDERS = 8 };

#define ROW(NAME, call, flags) NAME,
enum axis_op { AXIS_OPS(ROW) AXIS_OP_COUNT };
#undef ROW

#define ROW(NAME, call, flags) {#NAME, flags},
static const struct {
    const char *name;
    int flags;
} axis_ops[] = {AXIS_OPS(ROW)};
#undef ROW

static zl_array back_by_two(zl_array x, int axis) {
    int64_t start[RANKS], stop[RANKS], step[RANKS];
    int rank = zl_ndim(x);
    for (int i = 0; i < rank; i++) {
        start[i] = i == axis ? -1 : 0;
        stop[i] = i == axis ? INT64_MIN : zl_dim(x, i);
        step[i] = i == axis ? -2 : 1;
    }
    return zl_slice(x, (zl_shape){start, rank}, (zl_shape){stop, rank}, (zl_shape){step, rank});
}

static zl_array padded(zl_array x, int axis) {
    int64_t low[RANKS] = {0}, high[RANKS] = {0};
    low[axis] = 1;
    high[axis] = 2;
    return zl_pad(x, (zl_shape){low, zl_ndim(x)}, (zl_shape){high, zl_ndim(x)}, zl_scalar_int(1));
}

static zl_array tiled(zl_array x, int axis) {
    int64_t reps[RANKS];
    for (int i = 0; i < RANKS; i++)
        reps[i] = i == axis ? 2 : 1;
    return zl_tile(x, (zl_shape){reps, zl_ndim(x)});
}

// Applies the op to an array; a reduced axis stays, with size 1.
static zl_array apply(enum axis_op op, zl_array x, int axis) {
    switch (op) {
#define ROW(NAME, call, flags) \
    case NAME: return call;
        AXIS_OPS(ROW)
#undef ROW
    default: return NULL;
    }
}

// The same on plain numbers: a column is reduced to one, or its numbers go to other places ------------------

static double reduced(enum axis_op op, const double *in, int64_t count) {
    double sum = 0, product = 1, powers = 0, squares = 0, nonzero = 0;
    int64_t least = 0, most = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += in[i];
        product *= in[i];
        powers += exp(in[i]);
        squares += in[i] * in[i];
        nonzero += in[i] != 0;
        least = in[i] < in[least] ? i : least;
        most = in[i] > in[most] ? i : most;
    }
    double mean = sum / (double)count;
    switch (op) {
    case SUM: return sum;
    case PROD: return product;
    case MIN: return in[least];
    case MAX: return in[most];
    case ALL: return nonzero == (double)count;
    case ANY: return nonzero > 0;
    case MEAN: return mean;
    case VAR: return squares / (double)count - mean * mean;
    case COUNT_NONZERO: return nonzero;
    case LOGSUMEXP: return log(powers);
    case ARGMIN: return (double)least;
    default: return (double)most;
    }
}

static int64_t length(enum axis_op op, int64_t count) {
    switch (op) {
    case SOFTMAX:
    case FLIP:
    case ROLL: return count;
    case BACK_BY_TWO: return (count + 1) / 2;
    case REPEAT:
    case CONCATENATE:
    case TILE: return 2 * count;
    case PAD: return count + 3;
    case TAKE: return 2;
    default: return 1;
    }
}

// Returns the index of the number that moves to position i; -1: it is a new one.
static int64_t source(enum axis_op op, int64_t i, int64_t count) {
    switch (op) {
    case FLIP: return count - 1 - i;
    case BACK_BY_TWO: return count - 1 - 2 * i;
    case REPEAT: return i / 2;
    case ROLL: return (i + count - 1) % count;
    case PAD: return i > count ? -1 : i - 1;
    case TAKE: return i ? 0 : count - 1;
    default: return i % count;
    }
}

static double expected(enum axis_op op, const double *in, int64_t count, int64_t i) {
    if (op < SOFTMAX)
        return reduced(op, in, count);
    if (op == SOFTMAX)
        return exp(in[i] - reduced(LOGSUMEXP, in, count));
    int64_t from = source(op, i, count);
    return from < 0 ? 1 : in[from];
}

// Arrays of all kinds ---------------------------------------------------------------------------------------

static const struct {
    int rank;
    int64_t dim[RANKS];
} shapes[] = {
    {1, {1}},       {1, {0}},       {1, {37}},
    {2, {3, 4}},    {2, {17, 1}},   {2, {1, 0}},
    {3, {3, 0, 2}}, {3, {2, 3, 4}}, {10, {2, 1, 2, 1, 3, 1, 1, 2, 1, 2}},
};

enum layout { DENSE, BACKWARD, TRANSPOSED, SPREAD, LAYOUTS };

// Returns small integers that every dtype has, most of them 1, so that their product is exact.
static zl_array numbers(zl_shape shape, zl_dtype dtype) {
    double data[MOST];
    int64_t size;
    if (!shape_size(shape.ndim, shape.dim, &size) || size > MOST)
        return NULL;
    for (int64_t i = 0; i < size; i++)
        data[i] = i % 11 == 3 ? 2 : i % 13 == 7 ? 3 : i % 29 == 20 ? 0 : 1;
    return zl_astype(zl_from_f64(data, shape), dtype);
}

// Returns the elements of x with gaps: a view of every other element of an array, with zeros between them.
static zl_array spread(zl_array x) {
    int64_t start[RANKS + 1] = {0}, stop[RANKS + 1], step[RANKS + 1];
    zl_array twice = zl_stack((zl_array[]){zl_zeros_like(x, ZL_DTYPE_COUNT), x}, 2, -1);
    int rank = zl_ndim(twice);
    for (int i = 0; i < rank; i++) {
        stop[i] = zl_dim(twice, i);
        step[i] = 1;
    }
    start[rank - 1] = 1;
    zl_array odd = zl_slice(twice, (zl_shape){start, rank}, (zl_shape){stop, rank}, (zl_shape){step, rank});
    return zl_squeeze(odd, ZL_AXES(-1));
}

// Returns the elements of x in a layout that is not row-major.
static zl_array laid_out(zl_array x, enum layout how) {
    if (how == BACKWARD)
        return zl_flip(zl_contiguous(zl_flip(x, ZL_ALL), false), ZL_ALL);
    if (how == TRANSPOSED)
        return zl_transpose(zl_contiguous(zl_transpose(x, ZL_ALL), false), ZL_ALL);
    return how == SPREAD ? spread(x) : x;
}

static bool read_values(zl_array x, double *out) {
    char raw[MOST * 8 * 3];
    zl_dtype dtype = zl_dtype_of(x);
    if (zl_size(x) > 3 * MOST || !zl_copy_to(x, raw, zl_nbytes(x)))
        return false;
    for (int64_t i = 0; i < zl_size(x); i++)
        dtype_convert(&out[i], ZL_FLOAT64, raw + (size_t)i * zl_dtype_size(dtype), dtype, 1);
    return true;
}

// Number of elements before, along and after an axis.
struct split {
    int64_t outer, count, inner;
};

static struct split split_at(zl_array x, int axis) {
    struct split s = {1, zl_dim(x, axis), 1};
    for (int i = 0; i < axis; i++)
        s.outer *= zl_dim(x, i);
    for (int i = axis + 1; i < zl_ndim(x); i++)
        s.inner *= zl_dim(x, i);
    return s;
}

// Returns the largest relative difference between the op's result and the expected one; infinite if their
// sizes differ.
static double difference(enum axis_op op, struct split s, const double *in, zl_array y) {
    double got[3 * MOST], column[MOST], worst = 0;
    int64_t count = length(op, s.count);
    if (zl_size(y) != s.outer * count * s.inner || !read_values(y, got))
        return INFINITY;
    for (int64_t at = 0; at < s.outer * s.inner; at++) {
        int64_t o = at / s.inner, i = at % s.inner;
        for (int64_t k = 0; k < s.count; k++)
            column[k] = in[(o * s.count + k) * s.inner + i];
        for (int64_t k = 0; k < count; k++) {
            double want = expected(op, column, s.count, k), value = got[(o * count + k) * s.inner + i];
            if (!(isnan(value) && isnan(want)) && value != want)
                worst = fmax(worst, fabs(value - want) / fmax(fabs(want), 1e-3));
        }
    }
    return isnan(worst) ? INFINITY : worst;
}

static double allowed(enum axis_op op, zl_dtype dtype) {
    if (!(axis_ops[op].flags & ROUNDS))
        return 0;
    return dtype == ZL_FLOAT16 ? 2e-3 : dtype == ZL_BFLOAT16 ? 2e-2 : 2e-6;
}

static void check_axis_op(enum axis_op op, zl_array x, const double *in, int axis) {
    struct split s = split_at(x, axis);
    int flags = axis_ops[op].flags;
    if (((flags & NEEDS) && s.count == 0) || ((flags & NEEDS_ALL) && zl_size(x) == 0)) {
        if (!CHECK_ERROR(ZL_ERROR_SHAPE, apply(op, x, axis)))
            test_note("%s of no elements", axis_ops[op].name);
        return;
    }
    zl_array y = apply(op, x, axis);
    if (!CHECK(y != NULL) || !CHECK(difference(op, s, in, y) <= allowed(op, zl_dtype_of(x))))
        test_note("%s of %s %s along axis %d: %s", axis_ops[op].name, zl_dtype_name(zl_dtype_of(x)),
                  array_text(x), axis, zl_error() ? zl_error() : "other numbers");
    zl_clear_error();
}

static void check_axis_ops(zl_shape shape, zl_dtype dtype, enum layout how) {
    double in[MOST];
    zl_array x = laid_out(numbers(shape, dtype), how);
    if (!CHECK(zl_eval(x) && read_values(x, in)))
        return;
    for (int op = 0; op < AXIS_OP_COUNT; op++)
        for (int axis = 0; axis < shape.ndim; axis++)
            if (dtype != ZL_COMPLEX64 || !(axis_ops[op].flags & ORDERS))
                check_axis_op((enum axis_op)op, x, in, axis);
}

TEST(edges_along_each_axis) {
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (int d = 0; d < ZL_DTYPE_COUNT; d++)
            for (int how = 0; how < LAYOUTS; how++)
                if ((!test_quick() || test_between(0, 7) == 0) && test_samples(12))
                    ZL_SCOPE
                        check_axis_ops((zl_shape){shapes[i].dim, shapes[i].rank}, (zl_dtype)d,
                                       (enum layout)how);
}

TEST(edges_of_scalars) {
    for (int d = 0; d < ZL_DTYPE_COUNT; d++) {
        zl_array x = zl_full(ZL_SCALAR, zl_scalar_int(1), (zl_dtype)d);
        CHECK_EQ_F64(zl_item(zl_sum(x)), 1);
        CHECK_EQ_F64(zl_item(zl_prod(x)), 1);
        CHECK_EQ_F64(zl_item(zl_min(x)), 1);
        CHECK_EQ_F64(zl_item(zl_max(x)), 1);
        CHECK_EQ_F64(zl_item(zl_mean(x)), 1);
        CHECK_EQ_F64(zl_item(zl_var(x, 0)), 0);
        CHECK_EQ_INT(zl_item_int(zl_argmax(x)), 0);
        CHECK_EQ_INT(zl_item_int(zl_all(x)), 1);
        CHECK_EQ_F64(zl_item(zl_transpose(x, ZL_ALL)), 1);
        CHECK_EQ_F64(zl_item(zl_flip(x, ZL_ALL)), 1);
        CHECK_EQ_F64(zl_item(zl_reshape(x, ZL_SHAPE(1, 1, 1))), 1);
        CHECK_EQ_INT(zl_size(zl_broadcast_to(x, ZL_SHAPE(3, 0))), 0);
        CHECK_EQ_F64(zl_item(zl_sum(zl_stack((zl_array[]){x, x, x}, 3, 0))), 3);
        CHECK_ERROR(ZL_ERROR_AXIS, zl_sum_axis(x, 0, false));
        CHECK_ERROR(ZL_ERROR_AXIS, zl_flip(x, ZL_AXES(-1)));
        CHECK_ERROR(ZL_ERROR_AXIS, zl_concatenate((zl_array[]){x, x}, 2, 0));
    }
}

// An op over several axes at once gives the same as over one after the other.
TEST(edges_over_many_axes) {
    int64_t dim[RANKS] = {2, 1, 2, 1, 3, 1, 1, 2, 1, 2};
    for (int round = 0; round < 200; round++)
        if (test_samples(5))
            ZL_SCOPE {
                zl_array x = laid_out(numbers((zl_shape){dim, RANKS}, (zl_dtype)test_between(0, ZL_FLOAT64)),
                                      (enum layout)test_between(0, LAYOUTS - 1));
                int axes[RANKS], count = 0;
                zl_array sum = x, most = x;
                CHECK(zl_eval(x));
                for (int i = 0; i < RANKS; i++)
                    if (test_between(0, 1)) {
                        axes[count++] = test_between(0, 1) ? i : i - RANKS;
                        sum = zl_sum_axis(sum, i, true);
                        most = zl_max_axis(most, i, true);
                    }
                zl_axes all = {axes, count};
                CHECK_EQ_INT(zl_item_int(zl_array_equal(zl_sum_axes(x, all, true), sum, false)), 1);
                CHECK_EQ_INT(zl_item_int(zl_array_equal(zl_max_axes(x, all, true), most, false)), 1);
                CHECK_EQ_INT(zl_ndim(zl_max_axes(x, all, false)), RANKS - count);
            }
}

TEST(edges_of_arrays_without_elements) {
    for (int d = 0; d < ZL_DTYPE_COUNT; d++) {
        zl_array x = zl_zeros(ZL_SHAPE(3, 0, 2), (zl_dtype)d);
        CHECK_EQ_F64(zl_item(zl_sum(x)), 0);
        CHECK_EQ_F64(zl_item(zl_prod(x)), 1);
        CHECK_EQ_INT(zl_item_int(zl_all(x)), 1);
        CHECK_EQ_INT(zl_item_int(zl_any(x)), 0);
        CHECK(isnan(zl_item(zl_mean(x))));
        CHECK_EQ_INT(zl_size(zl_sum_axis(x, 1, false)), 6);
        CHECK_EQ_INT(zl_size(zl_sum_axis(x, 0, false)), 0);
        CHECK_EQ_INT(zl_size(zl_add(x, zl_ones(ZL_SHAPE(1, 1, 2), (zl_dtype)d))), 0);
        CHECK_EQ_INT(zl_size(zl_reshape(x, ZL_SHAPE(0, 7))), 0);
        CHECK_EQ_INT(zl_dim(zl_concatenate((zl_array[]){x, x}, 2, 0), 0), 6);
        CHECK_EQ_INT(zl_size(zl_take(x, zl_scalar_int(2), 0)), 0);
        CHECK(zl_eval(zl_transpose(x, ZL_ALL)) && zl_eval(zl_where(zl_equal(x, x), x, x)));
        CHECK_ERROR(ZL_ERROR_SHAPE, zl_max(x));
        CHECK_ERROR(ZL_ERROR_SHAPE, zl_argmin(x));
    }
    zl_array product = zl_matmul(zl_ones(ZL_SHAPE(2, 0), ZL_FLOAT32), zl_ones(ZL_SHAPE(0, 3), ZL_FLOAT32));
    CHECK_EQ_F64(zl_item(zl_sum(zl_equal(product, zl_scalar(0)))), 6);
}

// Memory that is used again ---------------------------------------------------------------------------------

static zl_array chain(zl_array x, int length) {
    for (int i = 0; i < length; i++)
        x = i % 2 ? zl_bitwise_invert(x) : zl_add(x, zl_scalar_int(1));
    return x;
}

// Returns results of x for which a careless evaluation would overwrite its memory.
static zl_array careless(zl_array x, int how) {
    switch (how) {
    case 0: return chain(x, 5);
    case 1: return chain(zl_slice(x, ZL_SHAPE(0), ZL_SHAPE(zl_size(x)), ZL_SHAPE(1)), 4);
    case 2: return zl_add(zl_reshape(zl_reshape(x, ZL_SHAPE(-1, 1)), ZL_SHAPE(-1)), x);
    case 3: return zl_subtract(chain(x, 3), zl_flip(x, ZL_ALL));
    case 4: return zl_where(zl_less(x, zl_scalar_int(7)), chain(x, 2), x);
    case 5: return zl_multiply(zl_stop_gradient(x), zl_stop_gradient(x));
    case 6: return chain(zl_view(zl_view(x, ZL_UINT8), zl_dtype_of(x)), 4);
    default: return zl_astype(chain(zl_astype(x, zl_dtype_of(x)), 3), ZL_INT8);
    }
}

static void check_kept(zl_dtype dtype, int64_t size, int how) {
    static char before[LARGEST * 8];
    zl_array x = zl_retain(zl_astype(zl_add(zl_arange_int(0, size, 1, ZL_INT32), zl_scalar_int(1)), dtype));
    bool ok = CHECK(zl_copy_to(x, before, zl_nbytes(x)));
    zl_array y = zl_retain(careless(x, how));
    ok = ok && CHECK(zl_eval(y)) && CHECK(!memcmp(zl_data(x), before, zl_nbytes(x)));
    ok = ok && CHECK_EQ_INT(zl_item_int(zl_array_equal(y, careless(x, how), false)), 1);
    if (!ok)
        test_note("way %d of %lld %s", how, (long long)size, zl_dtype_name(dtype));
    zl_release(x);
    zl_release(y);
}

TEST(edges_retained_arrays_are_not_written) {
    const zl_dtype dtypes[] = {ZL_UINT8, ZL_INT16, ZL_UINT32, ZL_INT32, ZL_INT64};
    for (size_t d = 0; d < COUNT(dtypes); d++)
        for (int how = 0; how < 8; how++)
            for (int64_t size = 1; size <= LARGEST; size *= 45)
                if (test_samples(8))
                    ZL_SCOPE
                        check_kept(dtypes[d], size, how);
}

TEST(edges_readers_before_a_writer_see_the_old_values) {
    zl_array x = zl_add(zl_arange(0, 1000, 1, ZL_FLOAT32), zl_scalar(0)); // held only by calls
    zl_array late = zl_negative(x), sum = zl_sum(x), back = zl_flip(x, ZL_ALL), both = zl_add(back, late);
    CHECK(zl_eval_all(2, (zl_array[]){both, sum}));
    CHECK_EQ_F64(zl_item(sum), 499500);
    for (int i = 0; i < 1000; i++)
        if (!CHECK_EQ_F64(zl_data_f32(both)[i], 999 - 2 * i))
            break;
}

// Data at odd addresses -------------------------------------------------------------------------------------

static bool same_results(zl_array a, zl_array b) {
    zl_array results[][2] = {
        {zl_add(a, a), zl_add(b, b)},
        {zl_less(a, zl_scalar_int(3)), zl_less(b, zl_scalar_int(3))},
        {zl_sum(a), zl_sum(b)},
        {zl_astype(a, ZL_FLOAT32), zl_astype(b, ZL_FLOAT32)},
        {zl_contiguous(zl_flip(a, ZL_ALL), false), zl_contiguous(zl_flip(b, ZL_ALL), false)},
        {zl_concatenate((zl_array[]){a, a}, 2, 0), zl_concatenate((zl_array[]){b, b}, 2, 0)},
    };
    for (size_t i = 0; i < COUNT(results); i++) {
        const void *x = zl_data(results[i][0]), *y = zl_data(results[i][1]);
        if (zl_error() || (zl_nbytes(results[i][0]) && memcmp(x, y, zl_nbytes(results[i][0]))))
            return false;
    }
    return true;
}

TEST(edges_of_foreign_data_at_any_element) {
    _Alignas(64) static char data[8 * 256];
    for (int d = 0; d < ZL_DTYPE_COUNT; d++) {
        size_t item = zl_dtype_size((zl_dtype)d);
        double numbers_in[200];
        for (int i = 0; i < 200; i++)
            numbers_in[i] = i % 5;
        dtype_convert(data, (zl_dtype)d, numbers_in, ZL_FLOAT64, 200);
        for (int64_t skip = 0; skip < 9; skip++)
            for (int64_t size = 0; size < 150; size += 1 + size / 3)
                if (test_samples(5))
                    ZL_SCOPE {
                        const char *start = data + (size_t)skip * item;
                        zl_array there = zl_from_foreign(start, ZL_SHAPE(size), (zl_dtype)d, NULL);
                        if (!CHECK(same_results(there, zl_from(start, ZL_SHAPE(size), (zl_dtype)d))))
                            test_note("%lld of %s, %lld elements in", (long long)size,
                                      zl_dtype_name((zl_dtype)d), (long long)skip);
                    }
    }
}

TEST(edges_of_data_between_elements) {
    static char data[8 * 65 + 1];
    for (int d = 0; d < ZL_DTYPE_COUNT; d++) {
        zl_array copy = zl_from(data + 1, ZL_SHAPE(64), (zl_dtype)d); // copied, so any address is allowed
        CHECK_EQ_F64(zl_item(zl_sum(copy)), 0);
        if (zl_dtype_size((zl_dtype)d) > 1)
            CHECK_ERROR(ZL_ERROR_VALUE,
                        zl_from_foreign(data + 1 + (uintptr_t)data % 2, ZL_SHAPE(64), (zl_dtype)d, NULL));
    }
}
