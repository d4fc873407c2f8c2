// test_create.c - creation of arrays.

#include <math.h>

#include "op/op_test.h"

TEST(filled_arrays) {
    CHECK_ARRAY(zl_zeros(ZL_SHAPE(2, 2), ZL_INT8), ZL_INT8, ZL_SHAPE(2, 2), 0, 0, 0, 0);
    CHECK_ARRAY(zl_ones(ZL_SHAPE(3), ZL_BFLOAT16), ZL_BFLOAT16, ZL_SHAPE(3), 1, 1, 1);
    CHECK_ARRAY(zl_ones(ZL_SCALAR, ZL_COMPLEX64), ZL_COMPLEX64, ZL_SCALAR, 1);
    CHECK_ARRAY(zl_full(ZL_SHAPE(2, 3), op_test_range(ZL_SHAPE(3), ZL_INT32), ZL_FLOAT16), ZL_FLOAT16,
                ZL_SHAPE(2, 3), 0, 1, 2, 0, 1, 2);
    CHECK_ARRAY(zl_full(ZL_SHAPE(2), zl_scalar(2.7), ZL_INT32), ZL_INT32, ZL_SHAPE(2), 2, 2);
    CHECK_EMPTY(zl_zeros(ZL_SHAPE(0, 3), ZL_FLOAT32), ZL_FLOAT32, ZL_SHAPE(0, 3));
    zl_array x = op_test_range(ZL_SHAPE(2), ZL_UINT8);
    CHECK_ARRAY(zl_zeros_like(x, ZL_DTYPE_COUNT), ZL_UINT8, ZL_SHAPE(2), 0, 0);
    CHECK_ARRAY(zl_ones_like(x, ZL_DTYPE_COUNT), ZL_UINT8, ZL_SHAPE(2), 1, 1);
    CHECK_ARRAY(zl_full_like(x, zl_scalar(1.5), ZL_FLOAT32), ZL_FLOAT32, ZL_SHAPE(2), 1.5, 1.5);
    CHECK(zl_is_contiguous(zl_zeros(ZL_SHAPE(2, 2), ZL_INT8)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_zeros(ZL_SHAPE(-1), ZL_FLOAT32));
    CHECK_HAS(test_last_error(), "zl_zeros: shape (-1,) has a negative size");
    CHECK_ERROR(ZL_ERROR_OVERFLOW, zl_ones(ZL_SHAPE(INT64_MAX, 3), ZL_FLOAT32));
    CHECK_HAS(test_last_error(), "zl_ones: ");
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_zeros(ZL_SHAPE(1), (zl_dtype)99));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_full(ZL_SHAPE(3), x, ZL_FLOAT32));
    CHECK(!zl_full(ZL_SHAPE(1), NULL, ZL_FLOAT32) && !zl_zeros_like(NULL, ZL_DTYPE_COUNT) &&
          !zl_full_like(x, NULL, ZL_INT8) && !zl_error());
}

TEST(arange_counts) {
    CHECK_ARRAY(zl_arange(0, 3, 1, ZL_FLOAT32), ZL_FLOAT32, ZL_SHAPE(3), 0, 1, 2);
    CHECK_ARRAY(zl_arange(5, 0, -2, ZL_INT32), ZL_INT32, ZL_SHAPE(3), 5, 3, 1);
    CHECK_ARRAY(zl_arange(0, 1, 0.25, ZL_FLOAT64), ZL_FLOAT64, ZL_SHAPE(4), 0, 0.25, 0.5, 0.75);
    CHECK_ARRAY(zl_arange(0, 10, 2.5, ZL_INT32), ZL_INT32, ZL_SHAPE(4), 0, 2, 4, 6);
    CHECK_ARRAY(zl_arange(0.5, 10, 2.5, ZL_INT32), ZL_INT32, ZL_SHAPE(4), 0, 3, 6, 9);
    CHECK_ARRAY(zl_arange(1, 3, 1, ZL_COMPLEX64), ZL_COMPLEX64, ZL_SHAPE(2), 1, 2);
    CHECK_ARRAY(zl_arange(5, 0, -INFINITY, ZL_FLOAT32), ZL_FLOAT32, ZL_SHAPE(1), 5);
    CHECK_EMPTY(zl_arange(5, 0, INFINITY, ZL_FLOAT32), ZL_FLOAT32, ZL_SHAPE(0));
    CHECK_EMPTY(zl_arange(3, 3, 1, ZL_INT32), ZL_INT32, ZL_SHAPE(0));
    CHECK_ARRAY(zl_arange(0, 2052, 2051, ZL_FLOAT16), ZL_FLOAT16, ZL_SHAPE(2), 0, 2052); // float16 does not
                                                                                         // have 2051
    zl_array tenth = zl_arange(0, 1000, 0.1, ZL_FLOAT32);
    CHECK_EQ_INT(zl_size(tenth), 10000);
    CHECK_EQ_F64(zl_data_f32(tenth)[9999], (float)(9999 * 0.1));
    int64_t big = (1ll << 53) + 1;
    zl_array exact = zl_arange_int(big, big + 3, 1, ZL_INT64);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(zl_data_i64(exact)[i], big + i);
    CHECK_ARRAY(zl_arange_int(254, 258, 1, ZL_UINT8), ZL_UINT8, ZL_SHAPE(4), 254, 255, 0, 1);
    CHECK_ARRAY(zl_arange_int(INT64_MAX, INT64_MIN, INT64_MIN, ZL_INT32), ZL_INT32, ZL_SHAPE(2), -1, -1);
    CHECK_ARRAY(zl_arange_int(3, 0, -1, ZL_FLOAT16), ZL_FLOAT16, ZL_SHAPE(3), 3, 2, 1);
}

TEST(arange_refuses) {
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_arange(0, 3, 1, ZL_BOOL));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_arange(0, 3, 0, ZL_FLOAT32));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_arange(0, INFINITY, 1, ZL_FLOAT32));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_arange(NAN, 1, 1, ZL_FLOAT32));
    CHECK_ERROR(ZL_ERROR_OVERFLOW, zl_arange(0, 1e300, 1e-300, ZL_FLOAT32));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_arange_int(0, 3, 0, ZL_INT32));
    CHECK_ERROR(ZL_ERROR_OVERFLOW, zl_arange_int(INT64_MIN, INT64_MAX, 1, ZL_INT64));
}

TEST(linspace_hits_both_ends) {
    CHECK_ARRAY(zl_linspace(0, 1, 5, true, ZL_FLOAT32), ZL_FLOAT32, ZL_SHAPE(5), 0, 0.25, 0.5, 0.75, 1);
    CHECK_ARRAY(zl_linspace(0, 10, 4, false, ZL_FLOAT32), ZL_FLOAT32, ZL_SHAPE(4), 0, 2.5, 5, 7.5);
    CHECK_ARRAY(zl_linspace(3, 1, 1, true, ZL_FLOAT64), ZL_FLOAT64, ZL_SHAPE(1), 3);
    CHECK_ARRAY(zl_linspace(0, 10, 4, true, ZL_INT32), ZL_INT32, ZL_SHAPE(4), 0, 3, 6, 10);
    CHECK_EMPTY(zl_linspace(0, 1, 0, true, ZL_FLOAT32), ZL_FLOAT32, ZL_SHAPE(0));
    zl_array x = zl_linspace(-0.1, 0.3, 77, true, ZL_FLOAT32);
    CHECK_EQ_F64(zl_data_f32(x)[0], -0.1f);
    CHECK_EQ_F64(zl_data_f32(x)[76], 0.3f);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_linspace(0, 1, -1, true, ZL_FLOAT32));
    CHECK_ERROR(ZL_ERROR_OVERFLOW, zl_linspace(0, 1, INT64_MAX, true, ZL_FLOAT32));
}

TEST(diagonals_and_triangles) {
    CHECK_ARRAY(zl_eye(2, 3, 1, ZL_FLOAT32), ZL_FLOAT32, ZL_SHAPE(2, 3), 0, 1, 0, 0, 0, 1);
    CHECK_ARRAY(zl_eye(2, 2, -1, ZL_INT32), ZL_INT32, ZL_SHAPE(2, 2), 0, 0, 1, 0);
    CHECK_ARRAY(zl_eye(2, 2, INT64_MAX, ZL_INT32), ZL_INT32, ZL_SHAPE(2, 2), 0, 0, 0, 0);
    CHECK_ARRAY(zl_identity(2, ZL_FLOAT16), ZL_FLOAT16, ZL_SHAPE(2, 2), 1, 0, 0, 1);
    CHECK_ARRAY(zl_tri(2, 3, 0, ZL_FLOAT32), ZL_FLOAT32, ZL_SHAPE(2, 3), 1, 0, 0, 1, 1, 0);
    CHECK_ARRAY(zl_tri(2, 3, -1, ZL_FLOAT32), ZL_FLOAT32, ZL_SHAPE(2, 3), 0, 0, 0, 1, 0, 0);
    CHECK_ARRAY(zl_tri(2, 2, INT64_MIN, ZL_FLOAT32), ZL_FLOAT32, ZL_SHAPE(2, 2), 0, 0, 0, 0);
    CHECK_EMPTY(zl_eye(0, 3, 0, ZL_FLOAT32), ZL_FLOAT32, ZL_SHAPE(0, 3));
    CHECK_EMPTY(zl_tri(-1, 3, 0, ZL_FLOAT32), ZL_FLOAT32, ZL_SHAPE(0, 3));
    CHECK_ARRAY(zl_eye(2, INT64_MIN, 0, ZL_INT8), ZL_INT8, ZL_SHAPE(2, 2), 1, 0, 0, 1); // m is not given
    CHECK_ARRAY(zl_tri(2, INT64_MIN, 0, ZL_DTYPE_COUNT), ZL_FLOAT32, ZL_SHAPE(2, 2), 1, 0, 1, 1);
    zl_array x = op_test_range(ZL_SHAPE(3, 3), ZL_INT32), truth = zl_ones(ZL_SHAPE(2, 2), ZL_BOOL);
    CHECK_ARRAY(zl_tril(x, 0), ZL_INT32, ZL_SHAPE(3, 3), 0, 0, 0, 3, 4, 0, 6, 7, 8);
    CHECK_ARRAY(zl_triu(x, 1), ZL_INT32, ZL_SHAPE(3, 3), 0, 1, 2, 0, 0, 5, 0, 0, 0);
    CHECK_ARRAY(zl_triu(x, INT64_MIN), ZL_INT32, ZL_SHAPE(3, 3), 0, 1, 2, 3, 4, 5, 6, 7, 8);
    CHECK_ARRAY(zl_tril(truth, 0), ZL_BOOL, ZL_SHAPE(2, 2), 1, 0, 1, 1);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_eye(-1, 2, 0, ZL_FLOAT32));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_tril(op_test_range(ZL_SHAPE(3), ZL_INT32), 0));
    CHECK_HAS(test_last_error(), "zl_tril: x of shape (3,) is no matrix");
}

TEST(dtypes_that_are_not_given) {
    zl_array x = op_test_range(ZL_SHAPE(2), ZL_INT16);
    CHECK_ARRAY(zl_arange(0, 2, 1, ZL_DTYPE_COUNT), ZL_FLOAT32, ZL_SHAPE(2), 0, 1);
    CHECK_ARRAY(zl_arange_int(0, 2, 1, ZL_DTYPE_COUNT), ZL_INT32, ZL_SHAPE(2), 0, 1);
    CHECK_ARRAY(zl_full(ZL_SHAPE(1, 2), x, ZL_DTYPE_COUNT), ZL_INT16, ZL_SHAPE(1, 2), 0, 1);
    CHECK_ARRAY(zl_full_like(x, zl_scalar(3), ZL_DTYPE_COUNT), ZL_INT16, ZL_SHAPE(2), 3, 3);
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_zeros(ZL_SHAPE(2), ZL_DTYPE_COUNT)); // a dtype is required here
}

RULES(tril, ZL_SHAPE(2, 3, 3), zl_square(zl_tril(x, 0)))
RULES(full, ZL_SHAPE(3), zl_full(ZL_SHAPE(2, 3), zl_square(x), ZL_FLOAT64))
