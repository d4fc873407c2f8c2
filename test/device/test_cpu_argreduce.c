// test_cpu_argreduce.c - extremes of rows compared with a loop, and extremes of columns with those of the
// same numbers in rows.

#include "graph/graph.h"
#include "test.h"

#include <math.h>

// Small numbers, of which some are equal; a few floats are NaN.
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

// Returns the index of the first of equal extremes, or of the first NaN if there is any.
static int64_t naive(const double *value, int64_t n, bool is_max) {
    int64_t best = 0;
    for (int64_t i = 1; i < n && !isnan(value[best]); i++)
        if (isnan(value[i]) || (is_max ? value[i] > value[best] : value[i] < value[best]))
            best = i;
    return best;
}

// Fills a row with zeros of both signs, which are equal, or such that the last element is the largest, or
// NaN.
static void fill_line(double *value, int64_t n, zl_dtype dtype, int kind) {
    bool is_float = dtype_is_inexact(dtype);
    for (int64_t i = 0; i < n; i++)
        value[i] = kind == 0 ? (is_float && test_between(0, 1) ? -0.0 : 0)
                             : (double)test_between(dtype_is_signed(dtype) || is_float ? -20 : 0, 20);
    if (kind == 2 && dtype != ZL_BOOL)
        value[n - 1] = 21;
    if (kind == 3 && is_float)
        value[n - 1] = value[n / 2] = NAN;
    for (int64_t i = 0; dtype == ZL_BOOL && i < n; i++)
        value[i] = value[i] != 0;
}

static void check_line(zl_dtype dtype, int64_t n, int kind) {
    static double value[2 * 3000], line[3000];
    int step = 1 + (int)test_between(0, 1);
    fill_line(value, step * n, dtype, kind);
    zl_array x = zl_astype(zl_from_f64(value, ZL_SHAPE(step * n)), dtype);
    x = zl_contiguous(x, false);
    if (step == 2)
        x = zl_slice(x, ZL_SHAPE(1), ZL_SHAPE(2 * n), ZL_SHAPE(2));
    for (int64_t i = 0; i < n; i++)
        line[i] = value[step == 2 ? 2 * i + 1 : i];
    REQUIRE(zl_eval(x));
    CHECK_EQ_INT(zl_item_int(zl_argmax_axis(x, 0, false)), naive(line, n, true));
    if (!CHECK_EQ_INT(zl_item_int(zl_argmin_axis(x, 0, false)), naive(line, n, false)))
        test_note("%lld elements of %s, kind %d, step %d", (long long)n, zl_dtype_name(dtype), kind, step);
}

// Lengths around those of vectors, groups of vectors, and blocks.
TEST(extremes_of_lines) {
    static const int64_t lengths[] = {1,  2,  7,  8,   15,   16,   17,   31,  33,
                                      63, 64, 65, 129, 1023, 1024, 1025, 3000};
    for (int dtype = ZL_BOOL; dtype < ZL_DTYPE_COUNT; dtype++)
        for (size_t i = 0; i < COUNT(lengths); i++)
            for (int kind = 0; kind < 4; kind++)
                ZL_SCOPE
                    check_line((zl_dtype)dtype, lengths[i], kind);
}
