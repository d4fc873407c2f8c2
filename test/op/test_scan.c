// test_scan.c - running sums and similar ops, and assignments under a mask.

#include "op/op_test.h"

#include <math.h>

#define RANGE(...) op_test_range(ZL_SHAPE(__VA_ARGS__), ZL_INT32)
#define NUMBERS_OF(...) \
    zl_from_f32((float[]){__VA_ARGS__}, ZL_SHAPE((int64_t)(sizeof((float[]){__VA_ARGS__}) / sizeof(float))))

TEST(running_sums) {
    zl_array x = RANGE(2, 3);
    CHECK_ARRAY(zl_cumsum(x, 1, false, true, ZL_INT32), ZL_INT32, ZL_SHAPE(2, 3), 0, 1, 3, 3, 7, 12);
    CHECK_ARRAY(zl_cumsum(x, 0, true, true, ZL_INT32), ZL_INT32, ZL_SHAPE(2, 3), 3, 5, 7, 3, 4, 5);
    CHECK_ARRAY(zl_cumsum(x, -1, false, false, ZL_INT32), ZL_INT32, ZL_SHAPE(2, 3), 0, 0, 1, 0, 3, 7);
    CHECK_ARRAY(zl_cumsum(x, 1, true, false, ZL_INT32), ZL_INT32, ZL_SHAPE(2, 3), 3, 2, 0, 9, 5, 0);
    CHECK_ARRAY(zl_cumsum_flat(x, false, true, ZL_INT32), ZL_INT32, ZL_SHAPE(6), 0, 1, 3, 6, 10, 15);
    CHECK_ARRAY(zl_cumsum(zl_transpose(x, ZL_ALL), 0, false, true, ZL_FLOAT32), ZL_FLOAT32, ZL_SHAPE(3, 2), 0,
                3, 1, 7, 3, 12);
    CHECK_ARRAY(zl_cumsum(zl_greater(x, zl_scalar(1)), 1, false, true, ZL_BOOL), ZL_INT32, ZL_SHAPE(2, 3), 0,
                0, 1, 1, 2, 3);
    CHECK_ARRAY(zl_cumsum_flat(zl_scalar_int(3), false, true, ZL_INT32), ZL_INT32, ZL_SHAPE(1), 3);
    CHECK_EMPTY(zl_cumsum(RANGE(2, 0), 1, false, true, ZL_INT32), ZL_INT32, ZL_SHAPE(2, 0));
    CHECK_ARRAY(zl_cumprod(RANGE(4), 0, true, true, ZL_INT32), ZL_INT32, ZL_SHAPE(4), 0, 6, 6, 3);
    CHECK_ARRAY(zl_cumprod(RANGE(4), 0, true, false, ZL_INT32), ZL_INT32, ZL_SHAPE(4), 6, 6, 3, 1);
}

TEST(running_extremes) {
    zl_array x = NUMBERS_OF(1, 3, 2, NAN, 5);
    CHECK_ARRAY(zl_cummax(x, 0, false, true), ZL_FLOAT32, ZL_SHAPE(5), 1, 3, 3, NAN, NAN);
    CHECK_ARRAY(zl_cummin(x, 0, true, true), ZL_FLOAT32, ZL_SHAPE(5), NAN, NAN, NAN, NAN, 5);
    CHECK_ARRAY(zl_cummax(x, 0, false, false), ZL_FLOAT32, ZL_SHAPE(5), -INFINITY, 1, 3, 3, NAN);
    CHECK_ARRAY(zl_cummin(RANGE(3), 0, false, false), ZL_INT32, ZL_SHAPE(3), INT32_MAX, 0, 0);
    zl_array first = zl_cummax(zl_astype(RANGE(1), ZL_COMPLEX64), 0, false, false);
    CHECK_ARRAY(zl_imag(first), ZL_FLOAT32, ZL_SHAPE(1), -INFINITY);
    CHECK_ARRAY(zl_cummax_flat(zl_flip(RANGE(2, 2), ZL_ALL), true, true), ZL_INT32, ZL_SHAPE(4), 3, 2, 1, 0);
    CHECK_ARRAY_NEAR(zl_logcumsumexp(NUMBERS_OF(0, 0, 100), 0, false, true), ZL_FLOAT32, ZL_SHAPE(3), 1e-6, 0,
                     0.69314718, 100);
    CHECK_ARRAY_NEAR(zl_logcumsumexp_flat(RANGE(2), false, false), ZL_FLOAT32, ZL_SHAPE(2), 1e-6, -INFINITY,
                     0);
}

// Rows and columns of all dtypes: running sums of 1, 1, 1, ...
TEST(scans_of_dtypes) {
    for (int dtype = ZL_BOOL; dtype < ZL_DTYPE_COUNT; dtype++) {
        if (!test_samples(4))
            continue;
        zl_array ones = zl_full(ZL_SHAPE(5, 20), zl_scalar_int(1), (zl_dtype)dtype);
        zl_dtype sums = dtype == ZL_BOOL ? ZL_INT32 : (zl_dtype)dtype;
        REQUIRE(zl_eval(ones));
        for (int axis = 0; axis < 2; axis++) {
            zl_array y = zl_cumsum(ones, axis, false, false, (zl_dtype)dtype);
            zl_array line = zl_take(y, zl_scalar_int(3), 1 - axis);
            CHECK_ARRAY(zl_slice(line, ZL_SHAPE(0), ZL_SHAPE(5), ZL_SHAPE(1)), sums, ZL_SHAPE(5), 0, 1, 2, 3,
                        4);
            CHECK_EQ_F64(
                zl_item(zl_sum(zl_astype(zl_cumprod(ones, axis, true, true, (zl_dtype)dtype), ZL_FLOAT32))),
                100);
            CHECK_EQ_F64(zl_item(zl_sum(zl_astype(zl_cummax(ones, axis, true, true), ZL_FLOAT32))), 100);
            CHECK_EQ_F64(zl_item(zl_sum(zl_astype(zl_cummin(ones, axis, false, true), ZL_FLOAT32))), 100);
        }
    }
}

// Running sums of 16-bit floats are kept in float32, along both axes.
TEST(scans_of_small_floats) {
    zl_array ones = zl_full(ZL_SHAPE(4000, 16), zl_scalar_int(1), ZL_FLOAT16);
    REQUIRE(zl_eval(ones));
    zl_array rows = zl_cumsum(ones, 0, false, true, ZL_FLOAT16);
    zl_array lines = zl_cumsum(zl_contiguous(zl_transpose(ones, ZL_ALL), false), 1, false, true, ZL_FLOAT16);
    REQUIRE(zl_eval_all(2, (zl_array[]){rows, lines}));
    CHECK_EQ_INT(zl_item_int(zl_array_equal(rows, zl_transpose(lines, ZL_ALL), false)), 1);
    CHECK_EQ_F64(zl_item(zl_max(rows)), 4000);
}

// Drivers divide rows among different numbers of threads, depending on their lengths, and divide rows that
// are few and long.
static void check_running_sums(int rows, int columns, int axis, bool reverse, bool inclusive) {
    zl_scope scope = zl_scope_begin();
    zl_array x = zl_reshape(zl_arange(0, rows * columns, 1, ZL_INT32), ZL_SHAPE(rows, columns));
    zl_array y = zl_cumsum(x, axis, reverse, inclusive, ZL_INT32);
    const int32_t *sum = zl_eval(y) ? zl_data(y) : NULL;
    REQUIRE(sum);
    int n = axis ? columns : rows, step = axis ? 1 : columns, wrong = 0;
    for (int line = 0; line < rows * columns / n; line++) {
        uint32_t want = 0;
        for (int k = 0; k < n; k++) {
            int at = (axis ? line * columns : line) + (reverse ? n - 1 - k : k) * step;
            uint32_t next = want + (uint32_t)at;
            wrong += (uint32_t)sum[at] != (inclusive ? next : want);
            want = next;
        }
    }
    CHECK_EQ_INT(wrong, 0);
    zl_scope_end(scope);
}

TEST(running_sums_of_any_length) {
    static const int shapes[][3] = {{70, 16, 1},   {9, 100, 1},   {3, 301, 1},
                                    {2, 20000, 1}, {2, 16500, 1}, {600, 66, 0}};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        check_running_sums(shapes[i][0], shapes[i][1], shapes[i][2], false, true);
        check_running_sums(shapes[i][0], shapes[i][1], shapes[i][2], true, i % 2);
    }
}

TEST(scans_refuse) {
    zl_array x = RANGE(2, 2);
    CHECK_ERROR(ZL_ERROR_AXIS, zl_cumsum(x, 2, false, true, ZL_INT32));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_cummax(zl_scalar(1), 0, false, true));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_cumprod(x, 0, false, true, (zl_dtype)99));
    CHECK(!zl_cumsum_flat(NULL, false, true, ZL_INT32) && !zl_logcumsumexp(NULL, 0, false, true) &&
          !zl_error());
}

// Rules -----------------------------------------------------------------------------------------------------

RULES(cumsum, ZL_SHAPE(2, 4), zl_cumsum(x, 1, false, false, ZL_FLOAT64))
RULES(cumsum_reverse, ZL_SHAPE(3, 2), zl_cumsum(x, 0, true, true, ZL_FLOAT64))
RULES(cummax, ZL_SHAPE(5, 2), zl_cummax(x, 0, false, true))
RULES(cummax_without, ZL_SHAPE(2, 5),
      zl_slice(zl_cummax(x, 1, true, false), ZL_SHAPE(0, 0), ZL_SHAPE(2, 4), ZL_SHAPE(1, 1)))
RULES(cummin, ZL_SHAPE(2, 5), zl_cummin(x, 1, true, true))
BATCHING(cumprod, ZL_SHAPE(2, 5), zl_cumprod(x, 1, true, true, ZL_FLOAT64))
BATCHING(logcumsumexp, ZL_SHAPE(5, 2), zl_logcumsumexp(x, 0, false, true))

// Compares gradients of ops without a forward derivative with differences.
static void check_slopes(op_test_function *f, const double *at, int n) {
    double moved[8];
    zl_array x = zl_from_f64(at, ZL_SHAPE(n)), g = NULL;
    zl_array weights = zl_add(zl_cos(zl_arange(0, n, 1, ZL_FLOAT64)), zl_scalar(0.1));
    REQUIRE(zl_eval(weights));
    REQUIRE(zl_grad(zl_sum(zl_multiply(f(x), weights)), 1, &x, &g));
    const double *gradient = op_test_values(g);
    for (int i = 0; gradient && i < n; i++) {
        double loss[2];
        for (int side = 0; side < 2; side++) {
            for (int k = 0; k < n; k++)
                moved[k] = at[k] + (k == i ? (side ? 1e-5 : -1e-5) : 0);
            loss[side] = zl_item(zl_sum(zl_multiply(f(zl_from_f64(moved, ZL_SHAPE(n))), weights)));
        }
        CHECK_NEAR(gradient[i], (loss[1] - loss[0]) / 2e-5, 1e-6);
    }
}

static zl_array product(zl_array x) {
    return zl_cumprod(x, 0, false, true, ZL_FLOAT64);
}
static zl_array product_back(zl_array x) {
    return zl_cumprod(x, 0, true, false, ZL_FLOAT64);
}
static zl_array logs(zl_array x) {
    return zl_logcumsumexp(x, 0, false, true);
}
static zl_array logs_back(zl_array x) {
    zl_array y = zl_logcumsumexp(x, 0, true, false); // the last result is minus infinity
    return zl_slice_update(y, zl_scalar(0), ZL_SHAPE(-1), ZL_SHAPE(99), ZL_SHAPE(1));
}

static bool complex_logs(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    return count == 1 && zl_give(out, zl_logcumsumexp(in[0], 0, false, true));
}

// log(exp(1 + i) + exp(2 - 2i)), and its derivatives with respect to both.
TEST(running_logs_of_complex_numbers) {
    const float numbers[] = {1, 1, 2, -2}, weights[] = {0, 0, 0, 1};
    zl_array x = zl_from_foreign(numbers, ZL_SHAPE(2), ZL_COMPLEX64, NULL), g, t;
    zl_array w = zl_from_foreign(weights, ZL_SHAPE(2), ZL_COMPLEX64, NULL),
             y = zl_logcumsumexp(x, 0, false, true);
    REQUIRE(zl_eval(y));
    CHECK_ARRAY_NEAR(zl_real(y), ZL_FLOAT32, ZL_SHAPE(2), 1e-5, 1, 1.5504546);
    CHECK_ARRAY_NEAR(zl_imag(y), ZL_FLOAT32, ZL_SHAPE(2), 1e-5, 1, -1.9185277);
    zl_outputs *tangents = zl_outputs_new();
    zl_fn f = {.call = complex_logs};
    REQUIRE(zl_vjp(f, 1, &x, 1, &w, NULL, &g) && zl_jvp(f, 1, &x, &w, NULL, tangents));
    zl_array slope = zl_exp(zl_subtract(x, zl_slice(y, ZL_SHAPE(1), ZL_SHAPE(2), ZL_SHAPE(1))));
    REQUIRE(zl_eval(slope));
    t = zl_outputs_get(tangents, 0);
    CHECK_EQ_INT(zl_item_int(zl_allclose(g, zl_multiply(zl_conjugate(slope), zl_scalar_complex(0, 1)), 1e-4,
                                         1e-5, false)),
                 1);
    CHECK_EQ_INT(zl_item_int(zl_allclose(t, zl_multiply(slope, w), 1e-4, 1e-5, false)), 1);
    zl_outputs_free(tangents);
}

TEST(gradients_of_products_and_logs) {
    check_slopes(product, (double[]){1.5, -2, 0.5, 3}, 4);
    check_slopes(product, (double[]){1.5, 0, 0.5, 3}, 4);
    check_slopes(product, (double[]){2, 0, 0.5, 0, 3}, 5);
    check_slopes(product_back, (double[]){1.5, -2, 0, 3}, 4);
    check_slopes(logs, (double[]){1.5, -2, 0.5, 3}, 4);
    check_slopes(logs_back, (double[]){1.5, -2, 0.5, 3}, 4);
}

// Masks -----------------------------------------------------------------------------------------------------

static zl_array truths(int count, const int32_t *list) {
    return zl_astype(zl_from_i32(list, ZL_SHAPE(count)), ZL_BOOL);
}

TEST(masked_scatters) {
    zl_array x = RANGE(4), mask = truths(4, (int32_t[]){0, 1, 0, 1});
    REQUIRE(zl_eval(mask));
    CHECK_ARRAY(zl_masked_scatter(x, mask, NUMBERS_OF(7, 8, 9)), ZL_INT32, ZL_SHAPE(4), 0, 7, 2, 8);
    CHECK_ARRAY(zl_masked_scatter(x, mask, zl_scalar(5)), ZL_INT32, ZL_SHAPE(4), 0, 5, 2, 5);
    CHECK_ARRAY(zl_masked_scatter(x, mask, NUMBERS_OF(7)), ZL_INT32, ZL_SHAPE(4), 0, 7, 2, 7);
    CHECK_ARRAY(zl_masked_scatter(x, mask, zl_zeros(ZL_SHAPE(0), ZL_INT32)), ZL_INT32, ZL_SHAPE(4), 0, 1, 2,
                3);
    zl_array rows = RANGE(4, 2);
    CHECK_ARRAY(zl_masked_scatter(rows, mask, zl_negative(RANGE(2, 2))), ZL_INT32, ZL_SHAPE(4, 2), 0, 1, 0,
                -1, 4, 5, -2, -3);
    CHECK_ARRAY(zl_masked_scatter(rows, mask, zl_negative(RANGE(2))), ZL_INT32, ZL_SHAPE(4, 2), 0, 1, 0, -1,
                4, 5, 0, -1);
    CHECK_ARRAY(zl_masked_scatter(rows, mask, zl_negative(RANGE(2, 1))), ZL_INT32, ZL_SHAPE(4, 2), 0, 1, 0, 0,
                4, 5, -1, -1);
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_masked_scatter(x, x, x));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_masked_scatter(RANGE(3), mask, x));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_masked_scatter(x, zl_expand_dims(mask, ZL_AXES(1)), x));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_masked_scatter(rows, mask, RANGE(2, 3)));
    CHECK(!zl_masked_scatter(NULL, mask, x) && !zl_masked_scatter(x, mask, NULL) && !zl_error());
}

RULES(masked_scatter, ZL_SHAPE(4),
      zl_masked_scatter(zl_exp(x), truths(4, (int32_t[]){1, 0, 0, 1}), zl_multiply(x, zl_scalar(3))))
BATCHING(masked_scatter_by_x, ZL_SHAPE(4), zl_masked_scatter(x, zl_greater(x, zl_scalar(0)), zl_square(x)))
