// test_reduce_ops.c - reductions: values compared with naive sums, dtypes, empty arrays and unusual shapes,
// rules.

#include <math.h>

#include "op/op_test.h"

#define RANGE(...)  op_test_range(ZL_SHAPE(__VA_ARGS__), ZL_INT32)
#define FLOATS(...) op_test_range(ZL_SHAPE(__VA_ARGS__), ZL_FLOAT32)
#define NONE        ((zl_axes){NULL, 0})

TEST(sums_over_axes) {
    zl_array x = RANGE(2, 3);
    CHECK_ARRAY(zl_sum(x), ZL_INT32, ZL_SCALAR, 15);
    CHECK_ARRAY(zl_sum_axis(x, 0, false), ZL_INT32, ZL_SHAPE(3), 3, 5, 7);
    CHECK_ARRAY(zl_sum_axis(x, -1, true), ZL_INT32, ZL_SHAPE(2, 1), 3, 12);
    CHECK_ARRAY(zl_sum_axes(x, ZL_AXES(1, 0), true), ZL_INT32, ZL_SHAPE(1, 1), 15);
    CHECK_ARRAY(zl_sum_axes(x, ZL_ALL, false), ZL_INT32, ZL_SCALAR, 15);
    CHECK_ARRAY(zl_sum_axes(x, NONE, false), ZL_INT32, ZL_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    CHECK_ARRAY(zl_sum(zl_transpose(x, ZL_ALL)), ZL_INT32, ZL_SCALAR, 15);
    CHECK_ARRAY(zl_sum_axis(zl_transpose(x, ZL_ALL), 0, false), ZL_INT32, ZL_SHAPE(2), 3, 12);
    CHECK_ARRAY(zl_sum_axis(zl_flip(x, ZL_ALL), 0, false), ZL_INT32, ZL_SHAPE(3), 7, 5, 3);
    CHECK_ARRAY(zl_sum(zl_broadcast_to(zl_scalar(2), ZL_SHAPE(5, 2))), ZL_FLOAT32, ZL_SCALAR, 20);
    CHECK_ARRAY(zl_sum_axes(RANGE(2, 2, 2), ZL_AXES(0, 2), false), ZL_INT32, ZL_SHAPE(2), 10, 18);
    CHECK_ARRAY(zl_sum_axis(RANGE(3, 1), 1, false), ZL_INT32, ZL_SHAPE(3), 0, 1, 2);
}

TEST(other_reductions) {
    zl_array x = zl_add(RANGE(2, 3), zl_scalar_int(1));
    CHECK_ARRAY(zl_prod(x), ZL_INT32, ZL_SCALAR, 720);
    CHECK_ARRAY(zl_prod_axis(zl_add(RANGE(2, 3), zl_scalar_int(1)), 1, false), ZL_INT32, ZL_SHAPE(2), 6, 120);
    CHECK_ARRAY(zl_min_axis(RANGE(2, 3), 0, false), ZL_INT32, ZL_SHAPE(3), 0, 1, 2);
    CHECK_ARRAY(zl_max_axes(RANGE(2, 3), ZL_AXES(0), true), ZL_INT32, ZL_SHAPE(1, 3), 3, 4, 5);
    CHECK_ARRAY(zl_max(zl_negative(FLOATS(4))), ZL_FLOAT32, ZL_SCALAR, 0);
    CHECK_ARRAY(zl_all_axis(RANGE(2, 2), 0, false), ZL_BOOL, ZL_SHAPE(2), 0, 1);
    CHECK_ARRAY(zl_any_axis(RANGE(2, 1), 1, false), ZL_BOOL, ZL_SHAPE(2), 0, 1);
    CHECK_ARRAY(zl_any(zl_zeros(ZL_SHAPE(3), ZL_FLOAT32)), ZL_BOOL, ZL_SCALAR, 0);
    CHECK_ARRAY(zl_all(zl_from_f32((float[]){0.1f, NAN}, ZL_SHAPE(2))), ZL_BOOL, ZL_SCALAR, 1);
    zl_array nan = zl_from_f32((float[]){1, NAN, 2}, ZL_SHAPE(3));
    CHECK_ARRAY(zl_max(nan), ZL_FLOAT32, ZL_SCALAR, NAN);
    CHECK_ARRAY(zl_min(nan), ZL_FLOAT32, ZL_SCALAR, NAN);
    zl_array both[2];
    REQUIRE(zl_minmax_axis(RANGE(2, 3), 1, false, both));
    CHECK_ARRAY(both[0], ZL_INT32, ZL_SHAPE(2), 0, 3);
    CHECK_ARRAY(both[1], ZL_INT32, ZL_SHAPE(2), 2, 5);
    CHECK_ARRAY(zl_count_nonzero(RANGE(2, 3)), ZL_INT32, ZL_SCALAR, 5);
    CHECK_ARRAY(zl_count_nonzero_axis(RANGE(2, 2), 0, true), ZL_INT32, ZL_SHAPE(1, 2), 1, 2);
}

TEST(dtypes_of_sums) {
    static const struct {
        zl_dtype x, sum;
    } rows[] = {
        {ZL_BOOL, ZL_INT32},      {ZL_UINT8, ZL_UINT32},        {ZL_UINT16, ZL_UINT32},
        {ZL_UINT32, ZL_UINT32},   {ZL_UINT64, ZL_UINT64},       {ZL_INT8, ZL_INT32},
        {ZL_INT16, ZL_INT32},     {ZL_INT32, ZL_INT32},         {ZL_INT64, ZL_INT64},
        {ZL_FLOAT16, ZL_FLOAT16}, {ZL_BFLOAT16, ZL_BFLOAT16},   {ZL_FLOAT32, ZL_FLOAT32},
        {ZL_FLOAT64, ZL_FLOAT64}, {ZL_COMPLEX64, ZL_COMPLEX64},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        zl_dtype dtype = rows[i].x;
        zl_array x = zl_full(ZL_SHAPE(4), zl_scalar_int(1), dtype);
        REQUIRE(zl_eval(x));
        CHECK_ARRAY(zl_sum(x), rows[i].sum, ZL_SCALAR, 4);
        CHECK_ARRAY(zl_prod(x), rows[i].sum, ZL_SCALAR, 1);
        CHECK_ARRAY(zl_max(x), dtype, ZL_SCALAR, 1);
        CHECK_ARRAY(zl_all(x), ZL_BOOL, ZL_SCALAR, 1);
        CHECK_ARRAY(zl_mean(x), dtype_is_inexact(dtype) ? dtype : ZL_FLOAT32, ZL_SCALAR, 1);
        CHECK_ARRAY(zl_argmax(x), ZL_UINT32, ZL_SCALAR, 0);
        CHECK_ARRAY(zl_sum(zl_astype(zl_scalar_int(1), dtype)), dtype, ZL_SCALAR, 1); // without axes the
                                                                                      // value is unchanged
    }
    CHECK_ARRAY(zl_sum(zl_full(ZL_SHAPE(4), zl_scalar_int(100), ZL_INT8)), ZL_INT32, ZL_SCALAR, 400);
    CHECK_ARRAY(zl_var(zl_full(ZL_SHAPE(2), zl_scalar_int(3), ZL_COMPLEX64), 0), ZL_FLOAT32, ZL_SCALAR, 0);
}

TEST(nothing_reduced) {
    zl_array x = zl_zeros(ZL_SHAPE(2, 0), ZL_FLOAT32);
    CHECK_ARRAY(zl_sum_axis(x, 1, false), ZL_FLOAT32, ZL_SHAPE(2), 0, 0);
    CHECK_ARRAY(zl_prod_axis(x, 1, true), ZL_FLOAT32, ZL_SHAPE(2, 1), 1, 1);
    CHECK_ARRAY(zl_all_axis(x, 1, false), ZL_BOOL, ZL_SHAPE(2), 1, 1);
    CHECK_ARRAY(zl_any(x), ZL_BOOL, ZL_SCALAR, 0);
    CHECK_ARRAY(zl_mean_axis(x, 1, false), ZL_FLOAT32, ZL_SHAPE(2), NAN, NAN);
    CHECK_EMPTY(zl_max_axis(x, 0, false), ZL_FLOAT32, ZL_SHAPE(0));
    CHECK_EMPTY(zl_softmax(x, 1, false), ZL_FLOAT32, ZL_SHAPE(2, 0));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_max_axis(x, 1, false));
    CHECK_STR(test_last_error(), "zl_max_axis: axis 1 of shape (2, 0) is empty: it has no max");
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_min(x));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_argmax(x));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_argmin_axis(x, 0, false));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_logsumexp(x));
}

TEST(reductions_refuse_axes) {
    zl_array x = RANGE(2, 3);
    CHECK_ERROR(ZL_ERROR_AXIS, zl_sum_axis(x, 2, false));
    CHECK_HAS(test_last_error(), "zl_sum_axis: axis 2");
    CHECK_ERROR(ZL_ERROR_AXIS, zl_max_axes(x, ZL_AXES(0, -2), false));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_mean_axis(x, -3, false));
    CHECK_HAS(test_last_error(), "zl_mean_axis: ");
    CHECK_ERROR(ZL_ERROR_AXIS, zl_softmax(x, 2, false));
    CHECK_HAS(test_last_error(), "zl_softmax: ");
    CHECK_ERROR(ZL_ERROR_AXIS, zl_argmax_axis(x, 2, false));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_logsumexp_axis(x, 5, false));
    CHECK(!zl_sum(NULL) && !zl_mean(NULL) && !zl_var(NULL, 0) && !zl_std(NULL, 0) && !zl_argmax(NULL) &&
          !zl_error());
    CHECK(!zl_softmax(NULL, 0, false) && !zl_logsumexp(NULL) && !zl_minmax(NULL, (zl_array[2]){0}) &&
          !zl_error());
}

// Compares sums with long double, over layouts that take different paths in a driver.
static void check_sum(zl_array x, int axis) {
    int64_t inner = 1, outer = 1, size = zl_dim(x, axis);
    for (int i = 0; i < x->ndim; i++)
        (void)(i < axis ? (outer *= x->dim[i]) : i > axis ? (inner *= x->dim[i]) : 0);
    zl_array y = zl_sum_axis(x, axis, false);
    REQUIRE(zl_eval_all(2, (zl_array[]){x, y}));
    const double *value = op_test_values(x), *sum = op_test_values(y);
    REQUIRE(value && sum);
    for (int64_t i = 0; i < outer * inner; i++) {
        long double want = 0;
        for (int64_t k = 0; k < size; k++)
            want += (long double)value[i / inner * size * inner + k * inner + i % inner];
        CHECK_NEAR(sum[i], (double)want, 1e-5 * (double)size);
    }
}

TEST(sums_of_many_layouts) {
    static const int64_t shapes[][3] = {{1, 1, 9},   {3, 5, 7},   {2, 33, 17}, {16, 4, 3},  {70, 2, 9},
                                        {4, 1, 300}, {1, 40, 17}, {90, 2, 16}, {4, 16, 64}, {1, 2048, 2}};
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (int axis = 0; axis < 3; axis++) {
            zl_scope scope = zl_scope_begin();
            zl_array x = op_test_random((zl_shape){shapes[i], 3}, ZL_FLOAT32, -1, 1);
            check_sum(x, axis);
            check_sum(zl_transpose(x, ZL_AXES(2, 0, 1)), axis);
            check_sum(zl_flip(x, ZL_AXES(axis)), axis);
            zl_scope_end(scope);
        }
}

// Drivers divide rows that are few and long.
TEST(sums_of_long_lines) {
    zl_array x = zl_reshape(zl_arange(0, 40000, 1, ZL_INT32), ZL_SHAPE(2, 20000));
    REQUIRE(zl_eval(x));
    CHECK_EQ_F64(zl_item(zl_sum(x)), 799980000);
    CHECK_EQ_F64(zl_item(zl_max(x)), 39999);
    CHECK_ARRAY(zl_sum_axis(x, 1, false), ZL_INT32, ZL_SHAPE(2), 199990000, 599990000);
    CHECK_ARRAY(zl_min_axis(x, 1, false), ZL_INT32, ZL_SHAPE(2), 0, 20000);
    CHECK_ARRAY(zl_sum_axis(zl_matrix_transpose(x), 0, false), ZL_INT32, ZL_SHAPE(2), 199990000, 599990000);
    CHECK_ARRAY(zl_sum_axis(zl_reshape(x, ZL_SHAPE(20000, 2)), 0, false), ZL_INT32, ZL_SHAPE(2), 399980000,
                400000000);
}

TEST(statistics) {
    zl_array x = zl_from_f32((float[]){1, 2, 4, 9}, ZL_SHAPE(2, 2));
    CHECK_ARRAY(zl_mean(x), ZL_FLOAT32, ZL_SCALAR, 4);
    CHECK_ARRAY(zl_mean_axis(RANGE(2, 3), 0, true), ZL_FLOAT32, ZL_SHAPE(1, 3), 1.5, 2.5, 3.5);
    CHECK_ARRAY(zl_var(x, 0), ZL_FLOAT32, ZL_SCALAR, 9.5);
    CHECK_ARRAY_NEAR(zl_var(x, 1), ZL_FLOAT32, ZL_SCALAR, 1e-6, 38.0 / 3);
    CHECK_ARRAY(zl_var(x, 7), ZL_FLOAT32, ZL_SCALAR, INFINITY);
    CHECK_ARRAY(zl_var_axis(x, 1, false, 0), ZL_FLOAT32, ZL_SHAPE(2), 0.25, 6.25);
    CHECK_ARRAY(zl_std_axes(x, ZL_AXES(1), true, 0), ZL_FLOAT32, ZL_SHAPE(2, 1), 0.5, 2.5);
    CHECK_ARRAY(zl_var_axes(x, NONE, false, 0), ZL_FLOAT32, ZL_SHAPE(2, 2), 0, 0, 0, 0);
    CHECK_ARRAY(zl_mean(zl_from_i64((int64_t[]){1, 2}, ZL_SHAPE(2))), ZL_FLOAT32, ZL_SCALAR, 1.5);
}

TEST(softmax_and_logsumexp) {
    zl_array x = zl_from_f32((float[]){1000, 1000, -INFINITY, 0}, ZL_SHAPE(2, 2));
    CHECK_ARRAY_NEAR(zl_softmax(x, -1, false), ZL_FLOAT32, ZL_SHAPE(2, 2), 1e-6, 0.5, 0.5, 0, 1);
    CHECK_ARRAY_NEAR(zl_softmax_axes(zl_zeros(ZL_SHAPE(2, 2), ZL_INT32), ZL_ALL, true), ZL_FLOAT32,
                     ZL_SHAPE(2, 2), 1e-6, 0.25, 0.25, 0.25, 0.25);
    CHECK_ARRAY_NEAR(zl_logsumexp_axis(x, 1, false), ZL_FLOAT32, ZL_SHAPE(2), 1e-6, 1000 + log(2), 0);
    CHECK_ARRAY(zl_logsumexp(zl_full(ZL_SHAPE(3), zl_scalar(-INFINITY), ZL_FLOAT32)), ZL_FLOAT32, ZL_SCALAR,
                -INFINITY);
    CHECK_ARRAY_NEAR(zl_logsumexp(RANGE(2)), ZL_FLOAT32, ZL_SCALAR, 1e-6, log(1 + exp(1)));
    CHECK_ARRAY(zl_logsumexp(zl_scalar(3)), ZL_FLOAT32, ZL_SCALAR, 3);
    CHECK_ARRAY_NEAR(zl_softmax(zl_astype(RANGE(2), ZL_FLOAT16), 0, true), ZL_FLOAT16, ZL_SHAPE(2), 1e-3,
                     0.26894, 0.73106);
}

TEST(positions_of_extremes) {
    zl_array x = zl_from_f32((float[]){1, 5, 5, -2, 7, -2}, ZL_SHAPE(2, 3));
    CHECK_ARRAY(zl_argmax(x), ZL_UINT32, ZL_SCALAR, 4);
    CHECK_ARRAY(zl_argmin(x), ZL_UINT32, ZL_SCALAR, 3);
    CHECK_ARRAY(zl_argmax_axis(x, 1, false), ZL_UINT32, ZL_SHAPE(2), 1, 1);
    CHECK_ARRAY(zl_argmin_axis(x, 1, true), ZL_UINT32, ZL_SHAPE(2, 1), 0, 0);
    CHECK_ARRAY(zl_argmax_axis(x, 0, false), ZL_UINT32, ZL_SHAPE(3), 0, 1, 0);
    CHECK_ARRAY(zl_argmax_axis(zl_transpose(x, ZL_ALL), 0, false), ZL_UINT32, ZL_SHAPE(2), 1, 1);
    CHECK_ARRAY(zl_argmax(zl_from_f32((float[]){1, NAN, 9}, ZL_SHAPE(3))), ZL_UINT32, ZL_SCALAR, 1);
    CHECK_ARRAY(zl_argmin(zl_scalar(3)), ZL_UINT32, ZL_SCALAR, 0);
    CHECK_ERROR(ZL_ERROR_OVERFLOW, zl_argmax(zl_broadcast_to(zl_scalar(1), ZL_SHAPE(1ll << 33))));
}

// Draws rows of n elements along an axis, and checks that the first of equal extremes, or the first NaN, is
// found.
static void extremes_once(zl_dtype dtype, int lines, int n, int axis) {
    static double value[50000];
    for (int i = 0; i < lines * n; i++)
        value[i] = dtype == ZL_BOOL ? (double)test_between(0, 1) : (double)test_between(1, 9);
    for (int i = 0; dtype_is_inexact(dtype) && i < lines; i += 3)
        value[i * n + n / 2] = value[i * n + n - 1] = NAN;
    zl_array x = zl_astype(zl_from_f64(value, ZL_SHAPE(lines, n)), dtype);
    x = axis ? x : zl_contiguous(zl_transpose(x, ZL_ALL), false);
    REQUIRE(zl_eval(x));
    const double *got[] = {op_test_values(zl_argmin_axis(x, axis, false)),
                           op_test_values(zl_argmax_axis(x, axis, false))};
    REQUIRE(got[0] && got[1]);
    for (int i = 0; i < 2 * lines; i++) {
        const double *line = value + i / 2 * n;
        int best = 0;
        for (int j = 1; j < n; j++)
            if (!isnan(line[best]) &&
                (isnan(line[j]) || (i % 2 ? line[j] > line[best] : line[j] < line[best])))
                best = j;
        CHECK_EQ_F64(got[i % 2][i / 2], best);
    }
}

TEST(positions_of_extremes_of_lines) {
    static const int sizes[] = {1, 5, 33, 500, 1100};
    for (int dtype = 0; dtype < ZL_DTYPE_COUNT; dtype++)
        for (size_t i = 0; i < COUNT(sizes); i++)
            if (!test_quick() || (dtype + (int)i) % 4 == 0)
                ZL_SCOPE
                    extremes_once((zl_dtype)dtype, 10, sizes[i], (dtype / 2 + (int)i) % 2);
    ZL_SCOPE {
        extremes_once(ZL_FLOAT32, 40, 1100, 1);
        extremes_once(ZL_FLOAT32, 300, 33, 0);
    }
}

TEST(gradient_of_extremes_is_shared) {
    zl_array x = zl_from_f32((float[]){3, 1, 3, 2}, ZL_SHAPE(4)), g;
    REQUIRE(zl_grad(zl_max(x), 1, &x, &g));
    CHECK_ARRAY(g, ZL_FLOAT32, ZL_SHAPE(4), 0.5, 0, 0.5, 0);
    zl_array zero = zl_from_f32((float[]){0, 3, 0, 2}, ZL_SHAPE(2, 2)), p;
    REQUIRE(zl_grad(zl_sum(zl_prod_axis(zero, 1, false)), 1, &zero, &p));
    CHECK_ARRAY(p, ZL_FLOAT32, ZL_SHAPE(2, 2), 3, 0, 2, 0);
}

// For up to 255 elements, a byte counts how many are equal.
TEST(gradient_of_many_extremes_is_shared) {
    for (int64_t n = 255; n <= 257; n++) {
        zl_array x = op_test_ready(zl_ones(ZL_SHAPE(2, n), ZL_FLOAT32)), grad;
        REQUIRE(zl_grad(zl_sum(zl_max_axis(x, 1, false)), 1, &x, &grad));
        const double *got = op_test_values(grad);
        CHECK_SAME_F64(got[0], (double)(1 / (float)n));
        CHECK_SAME_F64(got[2 * n - 1], got[0]);
    }
}

TEST(nearly_equal) {
    zl_array a = zl_from_f32((float[]){1, INFINITY, NAN, INFINITY, 0}, ZL_SHAPE(5));
    zl_array b = zl_from_f32((float[]){1.000001f, INFINITY, NAN, -INFINITY, 1e-9f}, ZL_SHAPE(5));
    CHECK_ARRAY(zl_isclose(a, b, 1e-5, 1e-8, false), ZL_BOOL, ZL_SHAPE(5), 1, 1, 0, 0, 1);
    CHECK_ARRAY(zl_isclose(a, b, 1e-5, 1e-8, true), ZL_BOOL, ZL_SHAPE(5), 1, 1, 1, 0, 1);
    CHECK_ARRAY(zl_allclose(a, a, 1e-5, 1e-8, true), ZL_BOOL, ZL_SCALAR, 1);
    CHECK_ARRAY(zl_array_equal(a, a, false), ZL_BOOL, ZL_SCALAR, 0);
    CHECK_ARRAY(zl_array_equal(a, a, true), ZL_BOOL, ZL_SCALAR, 1);
    CHECK_ARRAY(zl_array_equal(RANGE(2), RANGE(2, 1), false), ZL_BOOL, ZL_SCALAR, 0);
    zl_array u = zl_from((uint8_t[]){1, 9}, ZL_SHAPE(2), ZL_UINT8);
    CHECK_ARRAY(zl_isclose(u, zl_add(u, zl_scalar_int(1)), 0, 1, false), ZL_BOOL, ZL_SHAPE(2), 1, 1);
    zl_array low = zl_from_i32((int32_t[]){INT32_MIN, -2, INT32_MAX}, ZL_SHAPE(3));
    zl_array high = zl_from_i32((int32_t[]){INT32_MAX, INT32_MAX, INT32_MAX - 1}, ZL_SHAPE(3));
    CHECK_ARRAY(zl_isclose(low, high, 0, 1, false), ZL_BOOL, ZL_SHAPE(3), 0, 0, 1);
    CHECK_ARRAY(zl_isclose(high, low, 0, 0, false), ZL_BOOL, ZL_SHAPE(3), 0, 0, 0);
    CHECK_ARRAY(zl_allclose(low, high, 1e-5, 1e-8, false), ZL_BOOL, ZL_SCALAR, 0);
    zl_array natural = zl_from((uint64_t[]){UINT64_MAX, 16777217}, ZL_SHAPE(2), ZL_UINT64);
    zl_array whole = zl_from_i64((int64_t[]){-1, 16777216}, ZL_SHAPE(2));
    CHECK_ARRAY(zl_isclose(natural, whole, 0, 0, false), ZL_BOOL, ZL_SHAPE(2), 0, 0);
    zl_array truth = zl_from((bool[]){true, false}, ZL_SHAPE(2), ZL_BOOL);
    CHECK_ARRAY(zl_isclose(truth, zl_from_i64((int64_t[]){1, 2}, ZL_SHAPE(2)), 0, 0, false), ZL_BOOL,
                ZL_SHAPE(2), 1, 0);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_allclose(RANGE(2), RANGE(3), 0, 0, false));
    CHECK_HAS(test_last_error(), "zl_allclose: shapes (2,) and (3,)");
}

RULES(sum, ZL_SHAPE(2, 3), zl_square(zl_sum_axis(x, 0, false)))
RULES(sum_axes, ZL_SHAPE(2, 3, 2), zl_square(zl_sum_axes(x, ZL_AXES(0, 2), true)))
RULES(max, ZL_SHAPE(3, 4), zl_square(zl_max_axis(x, 1, false)))
RULES(min, ZL_SHAPE(3, 4), zl_square(zl_min_axes(x, ZL_ALL, true)))
RULES(prod, ZL_SHAPE(2, 5), zl_prod_axis(x, 1, false))
RULES(prod_axes, ZL_SHAPE(2, 2, 3), zl_prod_axes(x, ZL_AXES(0, 2), false))
RULES(mean, ZL_SHAPE(2, 3), zl_square(zl_mean_axis(x, 1, true)))
RULES(var, ZL_SHAPE(2, 3), zl_var_axis(x, 1, false, 1))
RULES(std, ZL_SHAPE(2, 3), zl_std_axis(x, 0, false, 0))
RULES(softmax, ZL_SHAPE(2, 3), zl_softmax(x, 1, false))
RULES(logsumexp, ZL_SHAPE(2, 3), zl_logsumexp_axis(x, 0, false))
BATCHING(all, ZL_SHAPE(2, 3), zl_astype(zl_all_axis(zl_greater(x, zl_scalar(0)), 1, false), ZL_FLOAT64))
BATCHING(argmax, ZL_SHAPE(2, 3), zl_astype(zl_argmax_axis(x, 1, true), ZL_FLOAT64))
