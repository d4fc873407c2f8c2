// test_slices.c - slices that are gathered from, scattered to and updated in arrays; elements along an axis;
// diagonals.

#include "op/op_test.h"

#define RANGE(...) op_test_range(ZL_SHAPE(__VA_ARGS__), ZL_INT32)
#define INDICES(...)                      \
    zl_from_i32((int32_t[]){__VA_ARGS__}, \
                ZL_SHAPE((int64_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))))
#define LIST(...) (zl_array[]){__VA_ARGS__}, (int)(sizeof((zl_array[]){__VA_ARGS__}) / sizeof(zl_array))
#define NONE      NULL, 0
#define NO_AXES   ((zl_axes){NULL, 0})

static const zl_dtype integers[] = {ZL_UINT8, ZL_UINT16, ZL_UINT32, ZL_UINT64,
                                    ZL_INT8,  ZL_INT16,  ZL_INT32,  ZL_INT64};

// Gather ----------------------------------------------------------------------------------------------------

TEST(gather_slices) {
    zl_array x = RANGE(3, 4);
    CHECK_ARRAY(zl_gather(x, LIST(INDICES(2, -3)), ZL_AXES(0), ZL_SHAPE(1, 4)), ZL_INT32, ZL_SHAPE(2, 1, 4),
                8, 9, 10, 11, 0, 1, 2, 3);
    CHECK_ARRAY(zl_gather(x, LIST(INDICES(0, 2), INDICES(1, -1)), ZL_AXES(0, 1), ZL_SHAPE(1, 1)), ZL_INT32,
                ZL_SHAPE(2, 1, 1), 1, 11);
    CHECK_ARRAY(zl_gather(x, LIST(INDICES(1), INDICES(0, 2)), ZL_AXES(1, 0), ZL_SHAPE(1, 2)), ZL_INT32,
                ZL_SHAPE(2, 1, 2), 1, 2, 9, 10);
    CHECK_ARRAY(zl_gather(zl_transpose(x, ZL_ALL), LIST(zl_scalar_int(1)), ZL_AXES(1), ZL_SHAPE(4, 1)),
                ZL_INT32, ZL_SHAPE(4, 1), 4, 5, 6, 7);
    CHECK_ARRAY(zl_gather(x, NONE, NO_AXES, ZL_SHAPE(1, 2)), ZL_INT32, ZL_SHAPE(1, 2), 0, 1);
    CHECK_ARRAY(zl_gather(zl_scalar_int(5), NONE, NO_AXES, ZL_SCALAR), ZL_INT32, ZL_SCALAR, 5);
    CHECK_EMPTY(zl_gather(x, LIST(zl_zeros(ZL_SHAPE(0), ZL_INT32)), ZL_AXES(0), ZL_SHAPE(1, 4)), ZL_INT32,
                ZL_SHAPE(0, 1, 4));
    CHECK_EMPTY(zl_gather(RANGE(0, 3), LIST(INDICES(7)), ZL_AXES(1), ZL_SHAPE(0, 1)), ZL_INT32,
                ZL_SHAPE(1, 0, 1));
}

TEST(gather_stays_within_its_array) {
    zl_array x = RANGE(5), at = zl_from_i64((int64_t[]){9, -9, INT64_MAX, INT64_MIN}, ZL_SHAPE(4));
    CHECK_ARRAY(zl_gather(x, LIST(at), ZL_AXES(0), ZL_SHAPE(1)), ZL_INT32, ZL_SHAPE(4, 1), 4, 0, 4, 0);
    CHECK_ARRAY(zl_gather(x, LIST(at), ZL_AXES(0), ZL_SHAPE(2)), ZL_INT32, ZL_SHAPE(4, 2), 3, 4, 0, 1, 3, 4,
                0, 1);
    zl_array most = zl_from(&(uint64_t){UINT64_MAX}, ZL_SHAPE(1), ZL_UINT64);
    CHECK_ARRAY(zl_gather(x, LIST(most), ZL_AXES(0), ZL_SHAPE(1)), ZL_INT32, ZL_SHAPE(1, 1), 4);
}

TEST(slices_of_dtypes) {
    for (int dtype = 0; dtype < ZL_DTYPE_COUNT; dtype++)
        for (size_t i = 0; i < COUNT(integers); i++) {
            zl_array x = zl_astype(INDICES(0, 1, 1), (zl_dtype)dtype),
                     at = zl_astype(INDICES(2, 0), integers[i]);
            REQUIRE(zl_eval_all(2, (zl_array[]){x, at}));
            CHECK_ARRAY(zl_gather(x, LIST(at), ZL_AXES(0), ZL_SHAPE(1)), (zl_dtype)dtype, ZL_SHAPE(2, 1), 1,
                        0);
            CHECK_ARRAY(zl_take_along_axis(x, at, 0), (zl_dtype)dtype, ZL_SHAPE(2), 1, 0);
            CHECK_ARRAY(zl_scatter(x, LIST(at),
                                   zl_astype(zl_reshape(INDICES(0, 1), ZL_SHAPE(2, 1)), ZL_FLOAT32),
                                   ZL_AXES(0)),
                        (zl_dtype)dtype, ZL_SHAPE(3), 1, 1, 0);
            CHECK_ARRAY(zl_scatter_add(x, LIST(at), zl_reshape(INDICES(0, 1), ZL_SHAPE(2, 1)), ZL_AXES(0)),
                        (zl_dtype)dtype, ZL_SHAPE(3), 1, 1, 1);
            CHECK_ARRAY(zl_put_along_axis(x, at, INDICES(0, 1), 0), (zl_dtype)dtype, ZL_SHAPE(3), 1, 1, 0);
            CHECK_ARRAY(zl_dynamic_slice(x, zl_astype(INDICES(1), integers[i]), ZL_AXES(0), ZL_SHAPE(2)),
                        (zl_dtype)dtype, ZL_SHAPE(2), 1, 1);
        }
}

TEST(gather_refuses) {
    zl_array x = RANGE(2, 3), at = INDICES(0);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_gather(x, LIST(at), ZL_AXES(0, 1), ZL_SHAPE(1, 1)));
    CHECK_STR(test_last_error(), "zl_gather: 1 arrays of indices for 2 axes: one for each is needed");
    CHECK_ERROR(ZL_ERROR_AXIS, zl_gather(x, LIST(at, at), ZL_AXES(1, -1), ZL_SHAPE(1, 1)));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_gather(x, LIST(at), ZL_AXES(2), ZL_SHAPE(1, 1)));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_gather(x, LIST(zl_scalar(1)), ZL_AXES(0), ZL_SHAPE(1, 1)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_gather(x, LIST(at), ZL_AXES(0), ZL_SHAPE(1, 4)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_gather(x, LIST(at), ZL_AXES(0), ZL_SHAPE(1)));
    CHECK_ERROR(ZL_ERROR_SHAPE,
                zl_gather(x, LIST(INDICES(0, 1), INDICES(0, 1, 1)), ZL_AXES(0, 1), ZL_SHAPE(1, 1)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_gather(RANGE(0), LIST(at), ZL_AXES(0), ZL_SHAPE(1)));
    CHECK(!zl_gather(NULL, LIST(at), ZL_AXES(0), ZL_SHAPE(1)) && !zl_error());
    CHECK(!zl_gather(x, LIST(NULL), ZL_AXES(0), ZL_SHAPE(1, 1)) && !zl_error());
}

// Scatter ---------------------------------------------------------------------------------------------------

#define UPDATES(...) zl_reshape(INDICES(__VA_ARGS__), ZL_SHAPE(-1, 1))

TEST(scatter_in_order) {
    zl_array x = RANGE(4), at = INDICES(1, -1, 1, 1);
    CHECK_ARRAY(zl_scatter(x, LIST(at), UPDATES(5, 6, 7, 8), ZL_AXES(0)), ZL_INT32, ZL_SHAPE(4), 0, 8, 2, 6);
    CHECK_ARRAY(zl_scatter_add(x, LIST(at), UPDATES(5, 6, 7, 8), ZL_AXES(0)), ZL_INT32, ZL_SHAPE(4), 0, 21, 2,
                9);
    CHECK_ARRAY(zl_scatter_prod(x, LIST(at), UPDATES(5, 6, 7, 8), ZL_AXES(0)), ZL_INT32, ZL_SHAPE(4), 0, 280,
                2, 18);
    CHECK_ARRAY(zl_scatter_max(x, LIST(at), UPDATES(0, 6, -7, 2), ZL_AXES(0)), ZL_INT32, ZL_SHAPE(4), 0, 2, 2,
                6);
    CHECK_ARRAY(zl_scatter_min(x, LIST(at), UPDATES(0, 6, -7, 2), ZL_AXES(0)), ZL_INT32, ZL_SHAPE(4), 0, -7,
                2, 3);
    CHECK_ARRAY(x, ZL_INT32, ZL_SHAPE(4), 0, 1, 2, 3);
}

TEST(scatter_leaves_out_what_lies_outside) {
    zl_array x = RANGE(3, 2), at = zl_from_i64((int64_t[]){3, -4, INT64_MAX, INT64_MIN, 1}, ZL_SHAPE(5));
    zl_array updates = zl_full(ZL_SHAPE(5, 1, 2), zl_scalar_int(9), ZL_INT32);
    CHECK_ARRAY(zl_scatter(x, LIST(at), updates, ZL_AXES(0)), ZL_INT32, ZL_SHAPE(3, 2), 0, 1, 9, 9, 4, 5);
    CHECK_ARRAY(
        zl_scatter(x, LIST(INDICES(2)), zl_full(ZL_SHAPE(1, 2, 2), zl_scalar_int(9), ZL_INT32), ZL_AXES(0)),
        ZL_INT32, ZL_SHAPE(3, 2), 0, 1, 2, 3, 4, 5);
    CHECK_ARRAY(zl_put_along_axis(x, zl_reshape(INDICES(3, -4), ZL_SHAPE(2, 1)), zl_scalar_int(9), 0),
                ZL_INT32, ZL_SHAPE(3, 2), 0, 1, 2, 3, 4, 5);
}

TEST(scatter_slices) {
    zl_array x = zl_full(ZL_SHAPE(2, 3), zl_scalar_int(0), ZL_INT32);
    REQUIRE(zl_eval(x));
    CHECK_ARRAY(zl_scatter_add(x, LIST(INDICES(2, 0)), zl_reshape(INDICES(1, 2, 3, 4), ZL_SHAPE(2, 2, 1)),
                               ZL_AXES(1)),
                ZL_INT32, ZL_SHAPE(2, 3), 3, 0, 1, 4, 0, 2);
    CHECK_ARRAY(zl_scatter(x, LIST(INDICES(1, 0), INDICES(2, 1)),
                           zl_reshape(INDICES(5, 6), ZL_SHAPE(2, 1, 1)), ZL_AXES(0, 1)),
                ZL_INT32, ZL_SHAPE(2, 3), 0, 6, 0, 0, 0, 5);
    CHECK_ARRAY(
        zl_scatter(x, LIST(INDICES(1, 0)), zl_broadcast_to(zl_scalar_int(4), ZL_SHAPE(2, 2, 1)), ZL_AXES(1)),
        ZL_INT32, ZL_SHAPE(2, 3), 4, 4, 0, 4, 4, 0);
    CHECK_ARRAY(zl_scatter_max(x, NONE, zl_transpose(RANGE(2, 2), ZL_ALL), NO_AXES), ZL_INT32, ZL_SHAPE(2, 3),
                0, 2, 0, 1, 3, 0);
    CHECK_ARRAY(zl_scatter(zl_scalar_int(1), NONE, zl_scalar_int(5), NO_AXES), ZL_INT32, ZL_SCALAR, 5);
    CHECK_ARRAY(zl_scatter(RANGE(2), LIST(zl_zeros(ZL_SHAPE(0), ZL_INT8)), zl_zeros(ZL_SHAPE(0, 1), ZL_INT32),
                           ZL_AXES(0)),
                ZL_INT32, ZL_SHAPE(2), 0, 1);
    CHECK_EMPTY(zl_scatter(RANGE(0), LIST(zl_zeros(ZL_SHAPE(0), ZL_INT8)), zl_zeros(ZL_SHAPE(0, 0), ZL_INT32),
                           ZL_AXES(0)),
                ZL_INT32, ZL_SHAPE(0));
}

TEST(scatter_refuses) {
    zl_array x = RANGE(3), at = INDICES(0, 1);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_scatter(x, LIST(at), INDICES(1, 2), ZL_AXES(0)));
    CHECK_STR(test_last_error(),
              "zl_scatter: updates of shape (2,): the shape of the indices (2,) is needed, then that "
              "of a slice of (3,), size by size");
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_scatter_max(x, LIST(at), RANGE(2, 4), ZL_AXES(0)));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_scatter_add(x, LIST(zl_scalar_bool(true)), RANGE(1), ZL_AXES(0)));
    CHECK(!zl_scatter(x, LIST(at), NULL, ZL_AXES(0)) && !zl_scatter_min(NULL, LIST(at), x, ZL_AXES(0)) &&
          !zl_error());
}

// An array that nothing else reads is updated in place; one that is read again is copied.
TEST(updates_take_over_what_dies) {
    zl_array big = zl_add(zl_zeros(ZL_SHAPE(1000), ZL_FLOAT32), zl_scalar(1));
    int64_t before = zl_counter("donations");
    zl_array y = zl_slice_update(big, zl_scalar(5), ZL_SHAPE(0), ZL_SHAPE(1), ZL_SHAPE(1));
    CHECK(zl_eval(y) && zl_counter("donations") > before);
    zl_array counted = zl_retain(op_test_range(ZL_SHAPE(6), ZL_FLOAT32));
    zl_array backward = zl_slice_update(counted, counted, ZL_SHAPE(5), ZL_SHAPE(-9), ZL_SHAPE(-1));
    CHECK_ARRAY(backward, ZL_FLOAT32, ZL_SHAPE(6), 5, 4, 3, 2, 1, 0);
    zl_array fresh = zl_add(counted, zl_scalar(0));
    CHECK_ARRAY(zl_slice_update(fresh, fresh, ZL_SHAPE(5), ZL_SHAPE(-9), ZL_SHAPE(-1)), ZL_FLOAT32,
                ZL_SHAPE(6), 5, 4, 3, 2, 1, 0);
    CHECK_ARRAY(counted, ZL_FLOAT32, ZL_SHAPE(6), 0, 1, 2, 3, 4, 5);
    zl_release(counted);
}

// Many threads give the same as one: updates of the same element are applied in order.
TEST(large_scatters) {
    enum { ROWS = 300, WIDE = 64, COUNT_OF = 4000 };
    static double want[ROWS];
    static int32_t at[COUNT_OF];
    for (int i = 0; i < ROWS; i++)
        want[i] = 0;
    for (int i = 0; i < COUNT_OF; i++) {
        at[i] = (int32_t)test_between(-ROWS, ROWS - 1);
        want[at[i] < 0 ? at[i] + ROWS : at[i]] = i;
    }
    zl_array numbers = zl_reshape(zl_arange(0, COUNT_OF, 1, ZL_FLOAT32), ZL_SHAPE(COUNT_OF, 1, 1));
    zl_array updates = zl_broadcast_to(numbers, ZL_SHAPE(COUNT_OF, 1, WIDE));
    zl_array index = zl_from_i32(at, ZL_SHAPE(COUNT_OF)), zeros = zl_zeros(ZL_SHAPE(ROWS, WIDE), ZL_FLOAT32);
    REQUIRE(zl_eval_all(2, (zl_array[]){zeros, updates}));
    zl_array y = zl_scatter(zeros, LIST(index), zl_contiguous(updates, false), ZL_AXES(0));
    const double *got = op_test_values(zl_max_axis(y, 1, false));
    REQUIRE(got);
    for (int i = 0; i < ROWS; i++)
        CHECK_EQ_F64(got[i], want[i]);
    zl_array sums = zl_scatter_add(zeros, LIST(index), updates, ZL_AXES(0));
    CHECK_EQ_F64(zl_item(zl_sum(sums)), (double)WIDE * (COUNT_OF - 1) * COUNT_OF / 2);
}

// Slice updates ---------------------------------------------------------------------------------------------

TEST(slice_updates) {
    zl_array x = RANGE(6);
    CHECK_ARRAY(zl_slice_update(x, INDICES(9, 8), ZL_SHAPE(1), ZL_SHAPE(4), ZL_SHAPE(2)), ZL_INT32,
                ZL_SHAPE(6), 0, 9, 2, 8, 4, 5);
    CHECK_ARRAY(zl_slice_update(x, INDICES(7, 8, 9), ZL_SHAPE(-1), ZL_SHAPE(-99), ZL_SHAPE(-2)), ZL_INT32,
                ZL_SHAPE(6), 0, 9, 2, 8, 4, 7);
    CHECK_ARRAY(zl_slice_update_add(x, zl_scalar(2), ZL_SHAPE(2), ZL_SHAPE(-1), ZL_SHAPE(1)), ZL_INT32,
                ZL_SHAPE(6), 0, 1, 4, 5, 6, 5);
    CHECK_ARRAY(zl_slice_update_prod(x, INDICES(2, 3), ZL_SHAPE(4), ZL_SHAPE(6), ZL_SHAPE(1)), ZL_INT32,
                ZL_SHAPE(6), 0, 1, 2, 3, 8, 15);
    CHECK_ARRAY(zl_slice_update_max(x, zl_scalar_int(3), ZL_SHAPE(0), ZL_SHAPE(5), ZL_SHAPE(4)), ZL_INT32,
                ZL_SHAPE(6), 3, 1, 2, 3, 4, 5);
    CHECK_ARRAY(zl_slice_update_min(x, zl_scalar_int(3), ZL_SHAPE(0), ZL_SHAPE(6), ZL_SHAPE(1)), ZL_INT32,
                ZL_SHAPE(6), 0, 1, 2, 3, 3, 3);
    CHECK_ARRAY(zl_slice_update(x, x, ZL_SHAPE(0), ZL_SHAPE(9), ZL_SHAPE(1)), ZL_INT32, ZL_SHAPE(6), 0, 1, 2,
                3, 4, 5);
    CHECK_ARRAY(zl_slice_update(x, zl_scalar(9), ZL_SHAPE(4), ZL_SHAPE(2), ZL_SHAPE(1)), ZL_INT32,
                ZL_SHAPE(6), 0, 1, 2, 3, 4, 5);
    CHECK_ARRAY(zl_slice_update(zl_transpose(RANGE(2, 2), ZL_ALL), INDICES(8, 9), ZL_SHAPE(0, 0),
                                ZL_SHAPE(1, 2), ZL_SHAPE(1, 1)),
                ZL_INT32, ZL_SHAPE(2, 2), 8, 9, 1, 3);
}

TEST(slice_updates_refuse) {
    zl_array x = RANGE(4);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_slice_update(x, RANGE(3), ZL_SHAPE(0), ZL_SHAPE(2), ZL_SHAPE(1)));
    CHECK_STR(test_last_error(), "zl_slice_update: an update of shape (3,) does not broadcast to shape (2,)");
    CHECK_ERROR(ZL_ERROR_VALUE, zl_slice_update_add(x, x, ZL_SHAPE(0), ZL_SHAPE(2), ZL_SHAPE(0)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_slice_update_max(x, x, ZL_SHAPE(0, 0), ZL_SHAPE(2), ZL_SHAPE(1)));
    CHECK(!zl_slice_update(x, NULL, ZL_SHAPE(0), ZL_SHAPE(2), ZL_SHAPE(1)) && !zl_error());
}

TEST(dynamic_slices) {
    zl_array x = RANGE(3, 4);
    CHECK_ARRAY(zl_dynamic_slice(x, INDICES(1, 2), ZL_AXES(0, 1), ZL_SHAPE(2, 2)), ZL_INT32, ZL_SHAPE(2, 2),
                6, 7, 10, 11);
    CHECK_ARRAY(zl_dynamic_slice(x, INDICES(-1), ZL_AXES(1), ZL_SHAPE(1, 3)), ZL_INT32, ZL_SHAPE(1, 3), 1, 2,
                3);
    CHECK_ARRAY(zl_dynamic_slice(x, zl_scalar_int(9), ZL_AXES(0), ZL_SHAPE(1, 4)), ZL_INT32, ZL_SHAPE(1, 4),
                8, 9, 10, 11);
    CHECK_ARRAY(zl_dynamic_slice(x, zl_zeros(ZL_SHAPE(0), ZL_INT32), NO_AXES, ZL_SHAPE(1, 1)), ZL_INT32,
                ZL_SHAPE(1, 1), 0);
    CHECK_ARRAY(
        zl_dynamic_slice_update(x, zl_reshape(INDICES(50, 60), ZL_SHAPE(1, 2)), INDICES(2, 1), ZL_AXES(0, 1)),
        ZL_INT32, ZL_SHAPE(3, 4), 0, 1, 2, 3, 4, 5, 6, 7, 8, 50, 60, 11);
    CHECK_ARRAY(zl_dynamic_slice_update(x, INDICES(50), INDICES(3), ZL_AXES(1)), ZL_INT32, ZL_SHAPE(3, 4), 0,
                1, 2, 50, 4, 5, 6, 50, 8, 9, 10, 50);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_dynamic_slice(x, INDICES(1, 2), ZL_AXES(0), ZL_SHAPE(2, 2)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_dynamic_slice(x, INDICES(1), ZL_AXES(0), ZL_SHAPE(4, 2)));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_dynamic_slice(x, zl_scalar(1), ZL_AXES(0), ZL_SHAPE(1, 2)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_dynamic_slice_update(x, RANGE(5, 1, 1), INDICES(1), ZL_AXES(0)));
    CHECK(!zl_dynamic_slice(NULL, x, ZL_AXES(0), ZL_SHAPE(1)) && !zl_error());
}

// Along an axis ---------------------------------------------------------------------------------------------

TEST(along_axes) {
    zl_array x = RANGE(2, 3), at = zl_reshape(INDICES(2, 0, -1, 1), ZL_SHAPE(2, 2));
    CHECK_ARRAY(zl_take_along_axis(x, at, 1), ZL_INT32, ZL_SHAPE(2, 2), 2, 0, 5, 4);
    CHECK_ARRAY(zl_take_along_axis(x, zl_reshape(INDICES(1, 0, 1), ZL_SHAPE(1, 3)), 0), ZL_INT32,
                ZL_SHAPE(1, 3), 3, 1, 5);
    CHECK_ARRAY(zl_take_along_axis(x, zl_reshape(INDICES(9, -9), ZL_SHAPE(1, 2)), 1), ZL_INT32,
                ZL_SHAPE(2, 2), 2, 0, 5, 3);
    CHECK_ARRAY(zl_take_along_axis_flat(x, INDICES(5, 0)), ZL_INT32, ZL_SHAPE(2), 5, 0);
    CHECK_ARRAY(zl_put_along_axis(x, at, zl_scalar(9), 1), ZL_INT32, ZL_SHAPE(2, 3), 9, 1, 9, 3, 9, 9);
    CHECK_ARRAY(zl_put_along_axis(x, zl_reshape(INDICES(1, 1), ZL_SHAPE(1, 2)), INDICES(7, 8), -1), ZL_INT32,
                ZL_SHAPE(2, 3), 0, 8, 2, 3, 8, 5);
    CHECK_ARRAY(zl_put_along_axis_flat(x, INDICES(4, 0), INDICES(7, 8)), ZL_INT32, ZL_SHAPE(2, 3), 8, 1, 2, 3,
                7, 5);
    CHECK_ARRAY(zl_scatter_add_axis(x, zl_reshape(INDICES(1, 1, 0), ZL_SHAPE(1, 3)), zl_scalar_int(10), 0),
                ZL_INT32, ZL_SHAPE(2, 3), 0, 1, 12, 13, 14, 5);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_take_along_axis(x, INDICES(1), 1));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_take_along_axis(x, RANGE(3, 1), 1));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_take_along_axis(RANGE(2, 0), at, 1));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_put_along_axis(x, at, RANGE(2, 2, 2), 1));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_scatter_add_axis(x, zl_astype(at, ZL_FLOAT32), x, 1));
    CHECK(!zl_put_along_axis(x, at, NULL, 1) && !zl_take_along_axis_flat(NULL, at) && !zl_error());
}

TEST(long_rows_along_an_axis) {
    enum { N = 1 << 17 };
    zl_array back = zl_arange_int(N - 1, -1, -1, ZL_INT32), x = zl_arange_int(0, N, 1, ZL_INT32);
    REQUIRE(zl_eval_all(2, (zl_array[]){back, x}));
    CHECK_EQ_INT(zl_item_int(zl_array_equal(zl_take_along_axis(x, back, 0), back, false)), 1);
    CHECK_EQ_INT(zl_item_int(zl_array_equal(zl_put_along_axis(x, back, x, 0), back, false)), 1);
    zl_array wide = zl_reshape(x, ZL_SHAPE(2, N / 2)), swap = zl_reshape(INDICES(1, 0), ZL_SHAPE(2, 1));
    CHECK_EQ_INT(
        zl_item_int(zl_array_equal(zl_put_along_axis(wide, swap, wide, 0), zl_flip(wide, ZL_AXES(0)), false)),
        1);
}

// Diagonals -------------------------------------------------------------------------------------------------

TEST(diagonals_of_matrices) {
    zl_array x = RANGE(2, 3), cube = RANGE(2, 2, 2), out[3];
    CHECK_ARRAY(zl_diagonal(x, 0, 0, 1), ZL_INT32, ZL_SHAPE(2), 0, 4);
    CHECK_ARRAY(zl_diagonal(x, 2, 0, 1), ZL_INT32, ZL_SHAPE(1), 2);
    CHECK_EMPTY(zl_diagonal(x, -2, 0, 1), ZL_INT32, ZL_SHAPE(0));
    CHECK_ARRAY(zl_diagonal(cube, 0, 0, 2), ZL_INT32, ZL_SHAPE(2, 2), 0, 5, 2, 7);
    CHECK_ARRAY(zl_diag(INDICES(1, 2), -1), ZL_INT32, ZL_SHAPE(3, 3), 0, 0, 0, 1, 0, 0, 0, 2, 0);
    CHECK_ARRAY(zl_diag(x, 1), ZL_INT32, ZL_SHAPE(2), 1, 5);
    CHECK_EMPTY(zl_diag(RANGE(0), 0), ZL_INT32, ZL_SHAPE(0, 0));
    CHECK_ARRAY(zl_trace(x, 0, 0, 1, ZL_FLOAT32), ZL_FLOAT32, ZL_SCALAR, 4);
    REQUIRE(zl_meshgrid(LIST(INDICES(1, 2, 3), INDICES(7, 8)), false, "xy", out));
    CHECK_ARRAY(out[0], ZL_INT32, ZL_SHAPE(2, 3), 1, 2, 3, 1, 2, 3);
    CHECK_ARRAY(out[1], ZL_INT32, ZL_SHAPE(2, 3), 7, 7, 7, 8, 8, 8);
    REQUIRE(zl_meshgrid(LIST(INDICES(1, 2, 3), INDICES(7, 8)), true, "ij", out));
    CHECK_ARRAY(out[1], ZL_INT32, ZL_SHAPE(1, 2), 7, 8);
    REQUIRE(zl_unstack(x, 1, out));
    CHECK_ARRAY(out[2], ZL_INT32, ZL_SHAPE(2), 2, 5);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_meshgrid(LIST(x), true, "yx", out));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_diag(cube, 0));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_diagonal(RANGE(2), 0, 0, 1));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_trace(x, 0, 1, -1, ZL_INT32));
}

// Rules -----------------------------------------------------------------------------------------------------

#define PLACES      INDICES(2, 0, 2)
#define WHERE_OF(x) zl_astype(zl_multiply((x), zl_scalar(1.5)), ZL_INT32) // -3 to 2

RULES(take, ZL_SHAPE(2, 3, 2), zl_take(x, zl_reshape(INDICES(2, 0, 2, 1), ZL_SHAPE(2, 2)), 1))
RULES(as_strided, ZL_SHAPE(2, 4), zl_as_strided(x, ZL_SHAPE(3, 2, 2), ZL_SHAPE(1, 2, 1), 1))
RULES(gather, ZL_SHAPE(3, 4), zl_gather(x, LIST(PLACES, INDICES(1, 1, 0)), ZL_AXES(0, 1), ZL_SHAPE(1, 2)))
BATCHING(gather_by_x, ZL_SHAPE(3),
         zl_astype(zl_gather(RANGE(4, 5), LIST(WHERE_OF(x), PLACES), ZL_AXES(1, 0), ZL_SHAPE(1, 2)),
                   ZL_FLOAT64))
BATCHING(gather_of_x_by_x, ZL_SHAPE(4, 3),
         zl_gather(x, LIST(WHERE_OF(zl_sum_axis(x, 1, false))), ZL_AXES(1), ZL_SHAPE(4, 1)))
RULES(scatter_into, ZL_SHAPE(3, 2),
      zl_scatter(x, LIST(PLACES), zl_ones(ZL_SHAPE(3, 1, 2), ZL_FLOAT64), ZL_AXES(0)))
RULES(scatter_of, ZL_SHAPE(2, 1, 2),
      zl_scatter(zl_ones(ZL_SHAPE(3, 2), ZL_FLOAT64), LIST(INDICES(2, 0)), x, ZL_AXES(0)))
RULES(scatter_add, ZL_SHAPE(3),
      zl_scatter_add(x, LIST(PLACES), zl_reshape(zl_square(x), ZL_SHAPE(3, 1)), ZL_AXES(0)))
BATCHING(scatter_by_x, ZL_SHAPE(3),
         zl_scatter_add(zl_ones(ZL_SHAPE(4, 2), ZL_FLOAT64), LIST(WHERE_OF(x)),
                        zl_broadcast_to(zl_reshape(x, ZL_SHAPE(3, 1, 1)), ZL_SHAPE(3, 1, 2)), ZL_AXES(0)))
BATCHING(scatter_max, ZL_SHAPE(3),
         zl_scatter_max(x, LIST(PLACES), zl_reshape(zl_negative(x), ZL_SHAPE(3, 1)), ZL_AXES(0)))
RULES(slice_update, ZL_SHAPE(3, 4),
      zl_slice_update(zl_exp(x), zl_slice(x, ZL_SHAPE(0, 0), ZL_SHAPE(3, 2), ZL_SHAPE(1, 1)), ZL_SHAPE(0, 3),
                      ZL_SHAPE(3, -9), ZL_SHAPE(1, -2)))
RULES(slice_update_add, ZL_SHAPE(3),
      zl_slice_update_add(zl_ones(ZL_SHAPE(2, 6), ZL_FLOAT64), x, ZL_SHAPE(0, 0), ZL_SHAPE(2, 6),
                          ZL_SHAPE(1, 2)))
RULES(dynamic_slice, ZL_SHAPE(3, 4), zl_dynamic_slice(x, INDICES(2, 9), ZL_AXES(1, 0), ZL_SHAPE(2, 2)))
BATCHING(dynamic_slice_at_x, ZL_SHAPE(2),
         zl_astype(zl_dynamic_slice(RANGE(3, 4), WHERE_OF(x), ZL_AXES(1, 0), ZL_SHAPE(2, 2)), ZL_FLOAT64))
BATCHING(dynamic_slice_of_x_at_x, ZL_SHAPE(4),
         zl_dynamic_slice(x, zl_take(WHERE_OF(x), INDICES(1), 0), ZL_AXES(0), ZL_SHAPE(2)))
RULES(dynamic_slice_update, ZL_SHAPE(2, 2),
      zl_dynamic_slice_update(zl_exp(zl_tile(x, ZL_SHAPE(2, 2))), x, INDICES(1), ZL_AXES(1)))
BATCHING(dynamic_slice_update_at_x, ZL_SHAPE(2),
         zl_dynamic_slice_update(zl_ones(ZL_SHAPE(3, 4), ZL_FLOAT64), zl_reshape(x, ZL_SHAPE(1, 2)),
                                 WHERE_OF(x), ZL_AXES(1, 0)))
RULES(take_along_axis, ZL_SHAPE(3, 2),
      zl_take_along_axis(x, zl_reshape(INDICES(2, 0, 2, 1), ZL_SHAPE(2, 2)), 0))
BATCHING(take_along_x, ZL_SHAPE(3, 2), zl_take_along_axis(x, WHERE_OF(x), 0))
RULES(put_along_axis, ZL_SHAPE(3, 2),
      zl_put_along_axis(zl_exp(x), zl_reshape(INDICES(2, 0), ZL_SHAPE(1, 2)), zl_sum_axis(x, 0, true), 0))
RULES(scatter_add_axis, ZL_SHAPE(3, 2),
      zl_scatter_add_axis(zl_exp(x), zl_reshape(INDICES(2, 0, 2, 1), ZL_SHAPE(2, 2)), zl_sum_axis(x, 0, true),
                          0))
BATCHING(put_along_x, ZL_SHAPE(3, 2),
         zl_put_along_axis(zl_ones(ZL_SHAPE(4, 2), ZL_FLOAT64), WHERE_OF(x), x, 0))
RULES(diagonal, ZL_SHAPE(3, 4, 2), zl_diagonal(x, 1, 0, 1))
RULES(diag, ZL_SHAPE(3), zl_diag(x, -1))
RULES(trace, ZL_SHAPE(3, 3), zl_trace(x, 0, 0, 1, ZL_FLOAT64))

// Computes gradients of ops without a forward derivative.
static zl_array gradient_of(zl_array y, zl_array x) {
    zl_array g = NULL;
    return zl_grad(zl_sum(y), 1, &x, &g) ? g : NULL;
}

TEST(gradients_of_extremes_and_products) {
    zl_array x = zl_from_f32((float[]){1, 5, 3}, ZL_SHAPE(3)), five = zl_ones(ZL_SHAPE(2, 1), ZL_FLOAT32);
    five = zl_multiply(five, zl_scalar(4));
    REQUIRE(zl_eval(five));
    CHECK_ARRAY(gradient_of(zl_scatter_max(x, LIST(INDICES(0, 1)), five, ZL_AXES(0)), x), ZL_FLOAT32,
                ZL_SHAPE(3), 0, 1, 1);
    CHECK_ARRAY(gradient_of(zl_scatter_min(x, LIST(INDICES(0, 1)), five, ZL_AXES(0)), five), ZL_FLOAT32,
                ZL_SHAPE(2, 1), 0, 1);
    CHECK_ERROR(ZL_ERROR_VALUE, gradient_of(zl_scatter_prod(x, LIST(INDICES(0, 1)), five, ZL_AXES(0)), x));
    zl_array two = zl_from_f32((float[]){2, 7}, ZL_SHAPE(2));
    zl_array y = zl_slice_update_prod(x, two, ZL_SHAPE(1), ZL_SHAPE(3), ZL_SHAPE(1));
    CHECK_ARRAY(gradient_of(y, x), ZL_FLOAT32, ZL_SHAPE(3), 1, 2, 7);
    y = zl_slice_update_prod(x, two, ZL_SHAPE(1), ZL_SHAPE(3), ZL_SHAPE(1));
    CHECK_ARRAY(gradient_of(y, two), ZL_FLOAT32, ZL_SHAPE(2), 5, 3);
    y = zl_slice_update_max(x, two, ZL_SHAPE(1), ZL_SHAPE(3), ZL_SHAPE(1));
    CHECK_ARRAY(gradient_of(y, x), ZL_FLOAT32, ZL_SHAPE(3), 1, 1, 0);
    y = zl_slice_update_max(x, two, ZL_SHAPE(1), ZL_SHAPE(3), ZL_SHAPE(1));
    CHECK_ARRAY(gradient_of(y, two), ZL_FLOAT32, ZL_SHAPE(2), 0, 1);
}
