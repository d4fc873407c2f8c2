// test_window.c - windows and differences.

#include <limits.h>

#include "op/op_test.h"

TEST(windows_of_few_numbers) {
    zl_array (*const windows[])(int) = {zl_bartlett, zl_hanning, zl_hamming, zl_blackman};
    for (int i = 0; i < 4; i++) {
        CHECK_EMPTY(windows[i](-3), ZL_FLOAT32, ZL_SHAPE(0));
        CHECK_EMPTY(windows[i](0), ZL_FLOAT32, ZL_SHAPE(0));
        CHECK_ARRAY(windows[i](1), ZL_FLOAT32, ZL_SHAPE(1), 1);
    }
}

TEST(windows) {
    CHECK_ARRAY_NEAR(zl_bartlett(5), ZL_FLOAT32, ZL_SHAPE(5), 1e-6, 0, 0.5, 1, 0.5, 0);
    CHECK_ARRAY_NEAR(zl_hanning(5), ZL_FLOAT32, ZL_SHAPE(5), 1e-6, 0, 0.5, 1, 0.5, 0);
    CHECK_ARRAY_NEAR(zl_hamming(5), ZL_FLOAT32, ZL_SHAPE(5), 1e-6, 0.08, 0.54, 1, 0.54, 0.08);
    CHECK_ARRAY_NEAR(zl_blackman(5), ZL_FLOAT32, ZL_SHAPE(5), 1e-6, 0, 0.34, 1, 0.34, 0);
}

TEST(differences) {
    zl_array x = zl_square(op_test_range(ZL_SHAPE(2, 3), ZL_INT32));
    REQUIRE(zl_eval(x));
    CHECK_ARRAY(zl_diff(x, 1, -1), ZL_INT32, ZL_SHAPE(2, 2), 1, 3, 7, 9);
    CHECK_ARRAY(zl_diff(x, 2, 1), ZL_INT32, ZL_SHAPE(2, 1), 2, 2);
    CHECK_ARRAY(zl_diff(x, 1, 0), ZL_INT32, ZL_SHAPE(1, 3), 9, 15, 21);
    CHECK_ARRAY(zl_diff(x, 0, 0), ZL_INT32, ZL_SHAPE(2, 3), 0, 1, 4, 9, 16, 25);
    CHECK_EMPTY(zl_diff(x, INT_MAX, 0), ZL_INT32, ZL_SHAPE(0, 3));
    CHECK_ARRAY(zl_diff(zl_from_bool((bool[]){1, 1, 0}, ZL_SHAPE(3)), 1, 0), ZL_BOOL, ZL_SHAPE(2), 0, 1);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_diff(x, -1, 0));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_diff(x, 1, 2));
}

RULES(diff, ZL_SHAPE(2, 4), zl_square(zl_diff(x, 2, 1)))
