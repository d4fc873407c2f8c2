// test_take.c - taking elements by position.

#include "op/op_test.h"

#define RANGE(...) op_test_range(ZL_SHAPE(__VA_ARGS__), ZL_INT32)
#define INDICES(...)                      \
    zl_from_i32((int32_t[]){__VA_ARGS__}, \
                ZL_SHAPE((int64_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))))

TEST(take_along_axes) {
    zl_array x = RANGE(2, 3);
    CHECK_ARRAY(zl_take(x, INDICES(1, 0, -1), 0), ZL_INT32, ZL_SHAPE(3, 3), 3, 4, 5, 0, 1, 2, 3, 4, 5);
    CHECK_ARRAY(zl_take(x, INDICES(2, -3), 1), ZL_INT32, ZL_SHAPE(2, 2), 2, 0, 5, 3);
    CHECK_ARRAY(zl_take(x, zl_scalar_int(1), -1), ZL_INT32, ZL_SHAPE(2), 1, 4);
    CHECK_ARRAY(zl_take(x, zl_reshape(INDICES(0, 1, 1, 0), ZL_SHAPE(2, 2)), 1), ZL_INT32, ZL_SHAPE(2, 2, 2),
                0, 1, 1, 0, 3, 4, 4, 3);
    CHECK_ARRAY(zl_take(zl_transpose(x, ZL_ALL), INDICES(2, 0), 0), ZL_INT32, ZL_SHAPE(2, 2), 2, 5, 0, 3);
    CHECK_ARRAY(zl_take(zl_flip(x, ZL_ALL), zl_flip(INDICES(0, 1), ZL_ALL), 1), ZL_INT32, ZL_SHAPE(2, 2), 4,
                5, 1, 2);
    CHECK_ARRAY(zl_take_flat(x, INDICES(5, 0, -2)), ZL_INT32, ZL_SHAPE(3), 5, 0, 4);
    CHECK_EMPTY(zl_take(x, zl_zeros(ZL_SHAPE(0), ZL_INT32), 0), ZL_INT32, ZL_SHAPE(0, 3));
    CHECK_EMPTY(zl_take(RANGE(0, 3), zl_zeros(ZL_SHAPE(0), ZL_INT32), 0), ZL_INT32, ZL_SHAPE(0, 3));
    CHECK_EMPTY(zl_take(RANGE(2, 0), INDICES(1), 0), ZL_INT32, ZL_SHAPE(1, 0));
}

TEST(take_of_dtypes) {
    static const zl_dtype integers[] = {ZL_UINT8, ZL_UINT16, ZL_UINT32, ZL_UINT64,
                                        ZL_INT8,  ZL_INT16,  ZL_INT32,  ZL_INT64};
    for (int dtype = 0; dtype < ZL_DTYPE_COUNT; dtype++) {
        zl_array x = zl_full(ZL_SHAPE(3), zl_from_i32((int32_t[]){0, 1, 1}, ZL_SHAPE(3)), (zl_dtype)dtype);
        REQUIRE(zl_eval(x));
        for (size_t i = 0; i < COUNT(integers); i++)
            CHECK_ARRAY(zl_take(x, zl_astype(INDICES(2, 0), integers[i]), 0), (zl_dtype)dtype, ZL_SHAPE(2), 1,
                        0);
    }
}

TEST(take_refuses) {
    zl_array x = RANGE(2, 3);
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_take(x, zl_scalar(1), 0));
    CHECK_STR(test_last_error(), "zl_take: indices are float32: integers are needed");
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_take(x, zl_scalar_bool(true), 0));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_take(x, INDICES(0), 2));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_take(zl_scalar(1), INDICES(0), 0));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_take(RANGE(0, 3), INDICES(0), 0));
    zl_array many = zl_broadcast_to(zl_scalar_int(0), ZL_SHAPE(1ll << 40));
    CHECK_ERROR(ZL_ERROR_OVERFLOW, zl_take(zl_broadcast_to(x, ZL_SHAPE(1ll << 40, 2, 3)), many, 1));
    CHECK(!zl_take(NULL, x, 0) && !zl_take(x, NULL, 0) && !zl_take_flat(NULL, x) && !zl_error());
}

#define NUMBERS_OF(x) zl_astype(zl_multiply((x), zl_scalar(2)), ZL_INT32) // -4 to 3

BATCHING(take_of_x, ZL_SHAPE(2, 3), zl_take(x, INDICES(2, -1, 0, 0), 1))
BATCHING(take_by_x, ZL_SHAPE(3), zl_astype(zl_take(RANGE(2, 4), NUMBERS_OF(x), 1), ZL_FLOAT64))
BATCHING(take_of_x_by_x, ZL_SHAPE(2, 4), zl_take(zl_expand_dims(x, ZL_AXES(-1)), NUMBERS_OF(x), 1))
BATCHING(take_scalar_by_x, ZL_SHAPE(4), zl_take(x, NUMBERS_OF(zl_cos(zl_sum(x))), 0))
