// test_cpu_reduce.c - reductions and searches over random layouts and axes, compared with a loop over
// positions.

#include "random_view.h"

#include "graph/graph.h"

#include <math.h>

static int rounds(int quick, int usual) {
    return test_quick() ? quick : test_long() ? 10 * usual : usual;
}

struct kind {
    const char *name;
    zl_array (*call)(zl_array x, zl_axes axes, bool keepdims);
    double start;
    double (*join)(double a, double b);
};
static double add(double a, double b) {
    return a + b;
}
static double most(double a, double b) {
    return fmax(a, b);
}
static double least(double a, double b) {
    return fmin(a, b);
}
static double both(double a, double b) {
    return a != 0 && b != 0;
}
static double either(double a, double b) {
    return a != 0 || b != 0;
}
static const struct kind kinds[] = {
    {"sum", zl_sum_axes, 0, add},          {"max", zl_max_axes, -INFINITY, most},
    {"min", zl_min_axes, INFINITY, least}, {"all", zl_all_axes, 1, both},
    {"any", zl_any_axes, 0, either},
};

// Returns the index in the result to which the element at `at` contributes.
static int64_t place(int ndim, const int64_t *dim, const int64_t *at, const bool *reduced) {
    int64_t index = 0;
    for (int i = 0; i < ndim; i++)
        if (!reduced[i])
            index = index * dim[i] + at[i];
    return index;
}

static int wrong_elements(const struct kind *kind, const struct view *x, zl_array y, const bool *reduced) {
    static double expected[50000];
    int64_t at[VIEW_AXES] = {0}, size = zl_size(y);
    int wrong = 0;
    for (int64_t i = 0; i < size; i++)
        expected[i] = kind->start;
    do {
        double *to = &expected[place(x->ndim, x->dim, at, reduced)];
        *to = kind->join(*to, view_at(x, x->ndim, at, 0));
    } while (next_position(x->ndim, x->dim, at));
    for (int64_t i = 0; i < size; i++)
        wrong += dense_at(y, i, 0) != expected[i];
    return wrong;
}

static void reduce_once(void) {
    int64_t dim[VIEW_AXES];
    bool reduced[VIEW_AXES] = {false};
    int axes[VIEW_AXES], count = 0, ndim = view_shape(40000, dim);
    const struct kind *kind = &kinds[test_between(0, COUNT(kinds) - 1)];
    zl_dtype dtype = (zl_dtype)test_between(0, ZL_FLOAT64);
    if (dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16)
        dim[0] = ndim ? MIN_OF(dim[0], 3) : 0; // short axes, so that sums stay exact
    for (int i = 0; i < ndim; i++)
        if ((reduced[i] = test_between(0, 1)))
            axes[count++] = i;
    struct view x = view_random(dtype, ndim, dim);
    zl_array y = kind->call(x.array, (zl_axes){axes, count}, test_between(0, 1));
    REQUIRE(y && zl_eval(y = zl_contiguous(y, false)));
    bool half = dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
    if (half && kind->join == add)
        return; // these sums are rounded: tested below
    if (!CHECK_EQ_INT(wrong_elements(kind, &x, y, reduced), 0))
        test_note("%s of %s %s strides %s, %d axes from %d", kind->name, zl_dtype_name(dtype),
                  array_text(x.array), shape_text(ndim, x.stride), count, count ? axes[0] : -1);
}

TEST(random_reductions) {
    for (int round = 0; round < rounds(80, 600); round++)
        ZL_SCOPE {
            reduce_once();
        }
}

// Shapes for every path of the driver, large enough to be divided.
TEST(large_reductions) {
    static const int64_t shapes[][3] = {{1, 1, 1000003}, {1, 1000, 1000}, {100000, 1, 8},
                                        {50000, 4, 5},   {1, 70001, 7},   {7, 50000, 3},
                                        {64, 64, 64},    {2, 300000, 1},  {3000, 5, 70}};
    for (size_t k = 0; k < COUNT(shapes); k++)
        for (int mask = 0; mask < 8; mask++) {
            ZL_SCOPE {
                const int64_t *d = shapes[k];
                int axes[3], count = 0;
                for (int i = 0; i < 3; i++)
                    if (mask >> i & 1)
                        axes[count++] = i;
                zl_array x = zl_reshape(
                    zl_remainder(zl_arange_int(0, d[0] * d[1] * d[2], 1, ZL_INT64), zl_scalar_int(1000)),
                    (zl_shape){d, 3});
                zl_array y = zl_sum_axes(x, (zl_axes){axes, count}, false);
                zl_array results[2] = {y, x};
                REQUIRE(zl_eval_all(2, results));
                const int64_t *from = zl_data_i64(x), *sum = zl_data_i64(y);
                int64_t *expected = memory_zero(sizeof(int64_t) * (size_t)zl_size(y)), wrong = 0, n = 0;
                REQUIRE(expected && from && sum);
                bool reduced[3] = {mask & 1, mask >> 1 & 1, mask >> 2 & 1};
                int64_t at[3] = {0};
                do {
                    expected[place(3, d, at, reduced)] += from[n++];
                } while (next_position(3, d, at));
                for (int64_t i = 0; i < zl_size(y); i++)
                    wrong += sum[i] != expected[i];
                memory_free(expected);
                if (!CHECK_EQ_INT(wrong, 0))
                    test_note("shape %zu, axes %d", k, mask);
            }
        }
}

// 16-bit floats are summed in float32: exact up to the last rounding, whereas a sum in f16 would stop at
// 2048.
TEST(half_sums_are_wide) {
    static const zl_dtype halves[] = {ZL_FLOAT16, ZL_BFLOAT16};
    for (int k = 0; k < 2; k++)
        for (int axis = 0; axis < 2; axis++) {
            zl_array x = zl_full(ZL_SHAPE(4096, 4096), zl_scalar(0.5), halves[k]);
            zl_array y = zl_max(zl_sum_axis(x, axis, false));
            CHECK_EQ_F64(zl_item(y), 2048);
        }
}

TEST(sums_are_accurate) {
    zl_array x = zl_full(ZL_SHAPE(1 << 24), zl_scalar(0.1), ZL_FLOAT32);
    CHECK_NEAR(zl_item(zl_sum(x)), (double)0.1f * (1 << 24), 2);
    zl_array rows = zl_full(ZL_SHAPE(1 << 20, 3), zl_scalar(0.1), ZL_FLOAT32);
    CHECK_NEAR(zl_item(zl_max(zl_sum_axis(rows, 0, false))), (double)0.1f * (1 << 20), 1);
}

// Searching -------------------------------------------------------------------------------------------------

static void search_once(void) {
    int64_t dim[VIEW_AXES], at[VIEW_AXES] = {0}, out[VIEW_AXES], i = 0;
    int ndim = view_shape(20000, dim);
    if (ndim == 0)
        return;
    int axis = (int)test_between(0, ndim - 1), wrong = 0;
    bool is_max = test_between(0, 1);
    struct view x = view_random((zl_dtype)test_between(0, ZL_FLOAT64), ndim, dim);
    zl_array y = is_max ? zl_argmax_axis(x.array, axis, true) : zl_argmin_axis(x.array, axis, true);
    REQUIRE(zl_eval(y));
    for (int k = 0; k < ndim; k++)
        out[k] = k == axis ? 1 : dim[k];
    do {
        int64_t best = 0;
        double value = 0;
        for (int64_t k = 0; k < dim[axis]; k++) {
            at[axis] = k;
            double next = view_at(&x, ndim, at, 0);
            if (k == 0 || (is_max ? next > value : next < value))
                best = k, value = next;
        }
        at[axis] = 0;
        wrong += (int64_t)dense_at(y, i++, 0) != best;
    } while (next_position(ndim, out, at));
    if (!CHECK_EQ_INT(wrong, 0))
        test_note("%s %s strides %s axis %d", zl_dtype_name(x.dtype), array_text(x.array),
                  shape_text(ndim, x.stride), axis);
}

TEST(random_searches) {
    for (int round = 0; round < rounds(80, 500); round++)
        ZL_SCOPE {
            search_once();
        }
}

TEST(nan_comes_first) {
    float x[5000];
    for (int i = 0; i < 5000; i++)
        x[i] = (float)(i % 1000);
    x[3000] = x[4000] = NAN;
    zl_array a = zl_from_f32(x, ZL_SHAPE(5000));
    CHECK_EQ_INT(zl_item_int(zl_argmax(a)), 3000);
    CHECK_EQ_INT(zl_item_int(zl_argmin(a)), 3000);
    CHECK(isnan(zl_item(zl_max(a))));
    x[3000] = x[4000] = 5;
    a = zl_from_f32(x, ZL_SHAPE(5000));
    CHECK_EQ_INT(zl_item_int(zl_argmax(a)), 999);
    CHECK_EQ_INT(zl_item_int(zl_argmin(a)), 0);
}

// Many searches in parallel columns, some with NaN, all with equal elements.
TEST(searches_down_columns) {
    enum { ROWS = 333, COLUMNS = 1100 };
    float *x = memory_alloc(sizeof(float) * ROWS * COLUMNS);
    REQUIRE(x);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)test_between(-500, 500);
    for (int i = 0; i < 100; i++)
        x[test_between(0, ROWS * COLUMNS - 1)] = NAN;
    zl_array a = zl_from_f32(x, ZL_SHAPE(ROWS, COLUMNS)), y = zl_argmax_axis(a, 0, false);
    const uint32_t *found = zl_data(y);
    for (int j = 0; found && j < COLUMNS; j++) {
        int best = 0;
        for (int i = 1; i < ROWS && !isnan(x[best * COLUMNS + j]); i++)
            if (x[i * COLUMNS + j] > x[best * COLUMNS + j] || isnan(x[i * COLUMNS + j]))
                best = i;
        CHECK_EQ_INT(found[j], best);
    }
    CHECK(found);
    memory_free(x);
}

TEST(long_search) {
    zl_array x =
        zl_negative(zl_abs(zl_subtract(zl_arange_int(0, 3000000, 1, ZL_INT32), zl_scalar_int(2222222))));
    CHECK_EQ_INT(zl_item_int(zl_argmax(x)), 2222222);
}
