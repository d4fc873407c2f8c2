// test_cpu_argreduce.c - extremes of columns against those of the same numbers in rows.

#include "graph/graph.h"
#include "test.h"

#include <math.h>

// Small numbers, so that some are equal; of floats, a few are NaN.
static zl_array draw(zl_dtype dtype, int64_t rows, int64_t cols) {
    static double value[70 * 1100];
    bool is_float = dtype_is_inexact(dtype);
    for (int64_t i = 0; i < rows * cols; i++)
        value[i] = is_float && !test_between(0, 300)
                       ? NAN
                       : (double)test_between(dtype_is_signed(dtype) || is_float ? -20 : 0, 20);
    return zl_astype(zl_from_f64(value, ZL_SHAPE(rows, cols)), dtype);
}

static void check_columns(zl_dtype dtype, int64_t rows, int64_t cols) {
    zl_array x = draw(dtype, rows, cols), across = zl_contiguous(zl_transpose(x, ZL_ALL), false);
    REQUIRE(zl_eval_all(2, (zl_array[]){x, across}));
    zl_array is_equal[] = {
        zl_array_equal(zl_argmax_axis(x, 0, false), zl_argmax_axis(across, 1, false), false),
        zl_array_equal(zl_argmin_axis(x, 0, false), zl_argmin_axis(across, 1, false), false)};
    for (int k = 0; k < 2; k++)
        if (!CHECK_EQ_INT(zl_item_int(is_equal[k]), 1))
            test_note("%s of %lld x %lld %s", k ? "argmin" : "argmax", (long long)rows, (long long)cols,
                      zl_dtype_name(dtype));
}

TEST(extremes_of_columns) {
    static const int64_t rows[] = {1, 2, 70}, cols[] = {15, 16, 17, 63, 511, 512, 513, 1100};
    int threads = zl_threads();
    for (int count = 1; count <= 2; count++) {
        REQUIRE(zl_set_threads(count));
        for (int dtype = ZL_BOOL; dtype < ZL_COMPLEX64; dtype++)
            for (size_t i = 0; i < COUNT(rows); i++)
                for (size_t k = 0; k < COUNT(cols); k++)
                    ZL_SCOPE
                        check_columns((zl_dtype)dtype, rows[i], cols[k]);
    }
    REQUIRE(zl_set_threads(threads));
}
