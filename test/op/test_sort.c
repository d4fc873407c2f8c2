// test_sort.c - sorting: values and positions compared with a naive sort, partitions, medians, searches.

#include "op/op_test.h"

#include <math.h>
#include <stdlib.h>

#define RANGE(...) op_test_range(ZL_SHAPE(__VA_ARGS__), ZL_INT32)
#define NUMBERS_OF(...) \
    zl_from_f32((float[]){__VA_ARGS__}, ZL_SHAPE((int64_t)(sizeof((float[]){__VA_ARGS__}) / sizeof(float))))

TEST(sorted_along_axes) {
    zl_array x = zl_reshape(NUMBERS_OF(3, 1, 2, 0, 5, 4), ZL_SHAPE(2, 3));
    CHECK_ARRAY(zl_sort(x, -1), ZL_FLOAT32, ZL_SHAPE(2, 3), 1, 2, 3, 0, 4, 5);
    CHECK_ARRAY(zl_sort(x, 0), ZL_FLOAT32, ZL_SHAPE(2, 3), 0, 1, 2, 3, 5, 4);
    CHECK_ARRAY(zl_sort_flat(x), ZL_FLOAT32, ZL_SHAPE(6), 0, 1, 2, 3, 4, 5);
    CHECK_ARRAY(zl_argsort(x, 1), ZL_UINT32, ZL_SHAPE(2, 3), 1, 2, 0, 0, 2, 1);
    CHECK_ARRAY(zl_argsort(zl_transpose(x, ZL_ALL), 0), ZL_UINT32, ZL_SHAPE(3, 2), 1, 0, 2, 2, 0, 1);
    CHECK_ARRAY(zl_argsort_flat(zl_scalar(2)), ZL_UINT32, ZL_SHAPE(1), 0);
    CHECK_EMPTY(zl_sort(RANGE(2, 0), 1), ZL_INT32, ZL_SHAPE(2, 0));
    CHECK_EMPTY(zl_argsort(RANGE(2, 0), 0), ZL_UINT32, ZL_SHAPE(2, 0));
}

TEST(sorted_odd_numbers) {
    zl_array x = NUMBERS_OF(NAN, 1, -INFINITY, -0.0f, -NAN, 0, INFINITY, -1);
    for (int d = ZL_FLOAT16; d <= ZL_FLOAT64; d++) {
        CHECK_ARRAY(zl_sort(zl_astype(x, (zl_dtype)d), 0), (zl_dtype)d, ZL_SHAPE(8), -INFINITY, -1, 0, 0, 1,
                    INFINITY, NAN, NAN);
        CHECK_ARRAY(zl_argsort(zl_astype(x, (zl_dtype)d), 0), ZL_UINT32, ZL_SHAPE(8), 2, 7, 3, 5, 1, 6, 0, 4);
    }
    zl_array i = zl_from_i64((int64_t[]){INT64_MAX, 0, INT64_MIN, -1}, ZL_SHAPE(4));
    CHECK_ARRAY(zl_argsort(i, 0), ZL_UINT32, ZL_SHAPE(4), 2, 3, 1, 0);
    zl_array re = NUMBERS_OF(1, 0, 1, NAN), im = NUMBERS_OF(2, 9, 1, 0);
    zl_array z = zl_add(re, zl_multiply(im, zl_sqrt(zl_astype(zl_scalar(-1), ZL_COMPLEX64))));
    REQUIRE(zl_eval(z));
    CHECK_ARRAY(zl_argsort(z, 0), ZL_UINT32, ZL_SHAPE(4), 1, 2, 0, 3);
    CHECK_ARRAY(zl_real(zl_sort(z, 0)), ZL_FLOAT32, ZL_SHAPE(4), 0, 1, 1, NAN);
}

// Compares with insertion sort, for numbers many of which are equal, in short and long rows.
static void sort_once(zl_dtype dtype, int n) {
    static double value[3000], got[3000];
    static int order[3000];
    for (int i = 0; i < n; i++)
        value[i] = (double)test_between(dtype_is_signed(dtype) || dtype_is_inexact(dtype) ? -100 : 0,
                                        dtype == ZL_BOOL ? 1 : 100);
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && value[order[at - 1]] > value[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    zl_array x = zl_astype(zl_from_f64(value, ZL_SHAPE(n)), dtype), sorted = zl_sort(x, 0),
             at = zl_argsort(x, 0);
    REQUIRE(zl_eval_all(2, (zl_array[]){sorted, at}));
    const double *mine = op_test_values(sorted), *position = op_test_values(at);
    REQUIRE(mine && position);
    int wrong = 0;
    for (int i = 0; i < n; i++) {
        got[i] = mine[i];
        wrong += got[i] != value[order[i]] || position[i] != order[i];
    }
    if (!CHECK_EQ_INT(wrong, 0))
        test_note("%d elements of %s", n, zl_dtype_name(dtype));
}

TEST(sorts_are_stable) {
    static const int sizes[] = {1, 2, 31, 32, 33, 257};
    for (int dtype = 0; dtype < ZL_DTYPE_COUNT; dtype++)
        for (size_t i = 0; i < COUNT(sizes); i++)
            if (test_samples(8))
                ZL_SCOPE
                    sort_once((zl_dtype)dtype, sizes[i]);
}

// More than one tile on devices, whose runs are merged; short keys are sorted digit by digit.
TEST(sorts_of_long_lines_are_stable) {
    for (int dtype = 0; dtype < ZL_DTYPE_COUNT; dtype++)
        if (!test_quick() || dtype == ZL_UINT8 || dtype == ZL_FLOAT32 || dtype == ZL_INT64)
            if (test_samples(2))
                ZL_SCOPE
                    sort_once((zl_dtype)dtype, 2500);
}

TEST(many_lines_in_order) {
    int64_t lines = test_brief() ? 12 : 300;
    zl_array x = zl_reshape(zl_sin(zl_arange(0, (double)lines * 400, 1, ZL_FLOAT32)), ZL_SHAPE(lines, 400));
    REQUIRE(zl_eval(x));
    for (int axis = 0; axis < 2; axis++) {
        zl_array y = zl_sort(x, axis), back = zl_take_along_axis(x, zl_argsort(x, axis), axis);
        CHECK_EQ_INT(zl_item_int(zl_array_equal(y, back, false)), 1);
        y = zl_sort(x, axis);
        CHECK_EQ_INT(zl_item_int(zl_array_equal(zl_cummax(y, axis, false, true), y, false)), 1);
    }
}

// One long row: within each group elements keep their order.
TEST(partitions_of_long_lines) {
    enum { N = 2300, KTH = 1500 };
    zl_array x = zl_floor(zl_multiply(zl_sin(zl_arange(0, N, 1, ZL_FLOAT32)), zl_scalar(50)));
    zl_array pivot = zl_take(zl_sort(x, 0), zl_scalar_int(KTH), 0);
    zl_array group =
        zl_add(zl_astype(zl_greater(x, pivot), ZL_INT32), zl_astype(zl_greater_equal(x, pivot), ZL_INT32));
    zl_array want = zl_argsort(group, 0), got = zl_argpartition(x, KTH, 0);
    CHECK_EQ_INT(zl_item_int(zl_array_equal(got, want, false)), 1);
}

TEST(partitions) {
    zl_array x = NUMBERS_OF(5, 1, 4, 2, 3);
    CHECK_ARRAY(zl_partition(x, 2, 0), ZL_FLOAT32, ZL_SHAPE(5), 1, 2, 3, 5, 4);
    CHECK_ARRAY(zl_argpartition_flat(x, -1), ZL_UINT32, ZL_SHAPE(5), 1, 2, 3, 4, 0);
    CHECK_ARRAY(zl_topk(x, 2, -1), ZL_FLOAT32, ZL_SHAPE(2), 4, 5);
    CHECK_ARRAY(zl_topk_flat(x, 5), ZL_FLOAT32, ZL_SHAPE(5), 5, 1, 4, 2, 3);
    CHECK_EMPTY(zl_topk(x, 0, 0), ZL_FLOAT32, ZL_SHAPE(0));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_partition(x, 5, 0));
    CHECK_STR(test_last_error(), "zl_partition: there is no element 5 along axis 0 of shape (5,)");
    CHECK_ERROR(ZL_ERROR_VALUE, zl_argpartition(x, -6, 0));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_topk(x, 6, 0));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_sort(x, 1));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_argsort(zl_scalar(1), 0));
    CHECK(!zl_sort(NULL, 0) && !zl_topk_flat(NULL, 1) && !zl_partition(NULL, 0, 0) && !zl_median(NULL) &&
          !zl_error());
}

TEST(medians) {
    zl_array x = zl_reshape(NUMBERS_OF(3, 1, 2, 0, 5, NAN), ZL_SHAPE(2, 3));
    CHECK_ARRAY(zl_median_axis(x, 1, true), ZL_FLOAT32, ZL_SHAPE(2, 1), 2, NAN);
    CHECK_ARRAY(zl_median_axis(x, 0, false), ZL_FLOAT32, ZL_SHAPE(3), 1.5, 3, NAN);
    CHECK_ARRAY(zl_median(RANGE(2, 3)), ZL_FLOAT32, ZL_SCALAR, 2.5);
    CHECK_ARRAY(zl_median_axes(RANGE(2, 3), ZL_AXES(0, 1), true), ZL_FLOAT32, ZL_SHAPE(1, 1), 2.5);
    CHECK_ARRAY(zl_median(zl_scalar(4)), ZL_FLOAT32, ZL_SCALAR, 4);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_median(RANGE(0)));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_median_axis(x, 2, false));
}

TEST(searches) {
    zl_array x = NUMBERS_OF(-1, 0, 0, 2, NAN), values = NUMBERS_OF(-2, -0.0f, 1, 2, 9, NAN);
    CHECK_ARRAY(zl_searchsorted(x, values, "left"), ZL_UINT32, ZL_SHAPE(6), 0, 1, 3, 3, 4, 4);
    CHECK_ARRAY(zl_searchsorted(x, values, "right"), ZL_UINT32, ZL_SHAPE(6), 0, 3, 3, 4, 4, 5);
    CHECK_ARRAY(zl_searchsorted(zl_flip(RANGE(4), ZL_ALL), zl_scalar(-1), "left"), ZL_UINT32, ZL_SCALAR, 0);
    CHECK_ARRAY(zl_searchsorted(RANGE(0), RANGE(2), "left"), ZL_UINT32, ZL_SHAPE(2), 0, 0);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_searchsorted(x, x, "middle"));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_searchsorted(x, x, NULL));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_searchsorted(RANGE(2, 2), x, "left"));
    CHECK(!zl_searchsorted(NULL, x, "left") && !zl_searchsorted(x, NULL, "left") && !zl_error());
}

// Every number occurs twice, adjacent or three apart, in rows in which kernels first look at a sample of
// elements.
TEST(searches_in_long_lines) {
    static const int sizes[] = {1023, 4096, 4097, 9001};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int apart = 1; apart <= 3; apart += 2) {
            int size = sizes[i];
            zl_array value = zl_arange(0, size / 2 + 9, 1, ZL_FLOAT32),
                     all = zl_floor_divide(zl_arange(0, size * apart, 1, ZL_FLOAT32), zl_scalar(2 * apart)),
                     line = zl_slice(all, ZL_SHAPE(0), ZL_SHAPE(size * apart), ZL_SHAPE(apart)),
                     twice = zl_add(value, value), most = zl_scalar(size);
            zl_array left = zl_minimum(twice, most), right = zl_minimum(zl_add(twice, zl_scalar(2)), most);
            REQUIRE(zl_eval_all(4, (zl_array[]){line, value, left, right}));
            CHECK_EQ_INT(zl_item_int(zl_array_equal(zl_searchsorted(line, value, "left"),
                                                    zl_astype(left, ZL_UINT32), false)),
                         1);
            CHECK_EQ_INT(zl_item_int(zl_array_equal(zl_searchsorted(line, value, "right"),
                                                    zl_astype(right, ZL_UINT32), false)),
                         1);
        }
    int many = test_quick() ? 3000 : (1 << 19) + 3; // threads divide the values
    zl_array value = zl_remainder(zl_arange(0, many, 1, ZL_INT32), zl_astype(zl_scalar(3000), ZL_INT32));
    REQUIRE(zl_eval(value));
    CHECK_EQ_INT(zl_item_int(zl_array_equal(zl_searchsorted(zl_arange(0, 3000, 1, ZL_INT32), value, "left"),
                                            zl_astype(value, ZL_UINT32), false)),
                 1);
}

RULES(sort, ZL_SHAPE(2, 5), zl_sort(x, 1))
RULES(sort_first, ZL_SHAPE(4, 2), zl_sort(x, 0))
RULES(partition, ZL_SHAPE(2, 5), zl_partition(x, 2, 1))
RULES(topk, ZL_SHAPE(2, 5), zl_topk(x, 2, 1))
RULES(median, ZL_SHAPE(2, 4), zl_median_axis(x, 1, false))
BATCHING(argsort, ZL_SHAPE(2, 5), zl_astype(zl_argsort(x, 0), ZL_FLOAT64))
BATCHING(argpartition, ZL_SHAPE(2, 5), zl_astype(zl_argpartition(x, -2, 1), ZL_FLOAT64))
BATCHING(searchsorted, ZL_SHAPE(2, 3),
         zl_astype(zl_searchsorted(NUMBERS_OF(-1, 0, 1), x, "left"), ZL_FLOAT64))
