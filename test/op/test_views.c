// test_views.c - views: the positions of their elements, invalid arguments, their rules.

#include "op/op_test.h"

#define RANGE(...) op_test_range(ZL_SHAPE(__VA_ARGS__), ZL_INT32)

TEST(transpose_orders_axes) {
    zl_array x = RANGE(2, 3);
    CHECK_ARRAY(zl_transpose(x, ZL_ALL), ZL_INT32, ZL_SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    CHECK_ARRAY(zl_transpose(x, ZL_AXES(0, 1)), ZL_INT32, ZL_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    CHECK_ARRAY(zl_transpose(x, ZL_AXES(-1, 0)), ZL_INT32, ZL_SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    CHECK_ARRAY(zl_swapaxes(x, 0, -1), ZL_INT32, ZL_SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    CHECK_ARRAY(zl_matrix_transpose(RANGE(2, 1, 3)), ZL_INT32, ZL_SHAPE(2, 3, 1), 0, 1, 2, 3, 4, 5);
    CHECK_ARRAY(zl_transpose(zl_transpose(x, ZL_ALL), ZL_ALL), ZL_INT32, ZL_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    CHECK_ARRAY(zl_transpose(zl_scalar_int(7), ZL_ALL), ZL_INT32, ZL_SCALAR, 7);
    CHECK_IS_VIEW(zl_transpose(x, ZL_ALL), x);
    CHECK(zl_is_transposed(zl_transpose(x, ZL_ALL)));
}

TEST(moveaxis_keeps_the_order_of_the_others) {
    zl_array x = RANGE(2, 3, 4);
    static const int64_t want[3][3][3] = {{{2, 3, 4}, {3, 2, 4}, {3, 4, 2}},
                                          {{3, 2, 4}, {2, 3, 4}, {2, 4, 3}},
                                          {{4, 2, 3}, {2, 4, 3}, {2, 3, 4}}};
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++) {
            zl_array y = zl_moveaxis(x, from - 3, to);
            for (int i = 0; i < 3; i++)
                CHECK_EQ_INT(zl_dim(y, i), want[from][to][i]);
        }
    CHECK_ARRAY(zl_moveaxis(RANGE(2, 3), 0, 1), ZL_INT32, ZL_SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
}

TEST(transpose_refuses) {
    zl_array x = RANGE(2, 3);
    CHECK_ERROR(ZL_ERROR_AXIS, zl_transpose(x, ZL_AXES(0)));
    CHECK_STR(test_last_error(),
              "zl_transpose: 1 axes for an array of shape (2, 3): each of its 2 is needed");
    CHECK_ERROR(ZL_ERROR_AXIS, zl_transpose(x, ZL_AXES(0, 2)));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_transpose(x, ZL_AXES(0, -2)));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_swapaxes(x, 0, 2));
    CHECK_HAS(test_last_error(), "zl_swapaxes: axis 2");
    CHECK_ERROR(ZL_ERROR_AXIS, zl_moveaxis(x, -3, 0));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_matrix_transpose(RANGE(3)));
    CHECK(!zl_transpose(NULL, ZL_ALL) && !zl_swapaxes(NULL, 0, 0) && !zl_moveaxis(NULL, 0, 0) && !zl_error());
}

TEST(squeeze_and_expand_dims) {
    zl_array x = RANGE(1, 3, 1);
    CHECK_ARRAY(zl_squeeze(x, ZL_ALL), ZL_INT32, ZL_SHAPE(3), 0, 1, 2);
    CHECK_ARRAY(zl_squeeze(x, ZL_AXES(-1)), ZL_INT32, ZL_SHAPE(1, 3), 0, 1, 2);
    CHECK_ARRAY(zl_squeeze(x, (zl_axes){NULL, 0}), ZL_INT32, ZL_SHAPE(1, 3, 1), 0, 1, 2);
    CHECK_ARRAY(zl_expand_dims(RANGE(3), ZL_AXES(0, -1)), ZL_INT32, ZL_SHAPE(1, 3, 1), 0, 1, 2);
    CHECK_ARRAY(zl_expand_dims(RANGE(3), ZL_AXES(3, 1, 0)), ZL_INT32, ZL_SHAPE(1, 1, 3, 1), 0, 1, 2);
    CHECK_ARRAY(zl_expand_dims(zl_scalar(2), ZL_AXES(0)), ZL_FLOAT32, ZL_SHAPE(1), 2);
    CHECK_ARRAY(zl_atleast_1d(zl_scalar(2)), ZL_FLOAT32, ZL_SHAPE(1), 2);
    CHECK_ARRAY(zl_atleast_2d(RANGE(3)), ZL_INT32, ZL_SHAPE(1, 3), 0, 1, 2);
    CHECK_ARRAY(zl_atleast_2d(zl_scalar_int(3)), ZL_INT32, ZL_SHAPE(1, 1), 3);
    CHECK_ARRAY(zl_atleast_3d(RANGE(3)), ZL_INT32, ZL_SHAPE(1, 3, 1), 0, 1, 2);
    CHECK_ARRAY(zl_atleast_3d(RANGE(1, 2)), ZL_INT32, ZL_SHAPE(1, 2, 1), 0, 1);
    CHECK_ARRAY(zl_atleast_3d(zl_scalar_int(3)), ZL_INT32, ZL_SHAPE(1, 1, 1), 3);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_squeeze(x, ZL_AXES(1)));
    CHECK_STR(test_last_error(),
              "zl_squeeze: axis 1 of shape (1, 3, 1) has size 3: only size 1 can be dropped");
    CHECK_ERROR(ZL_ERROR_AXIS, zl_squeeze(x, ZL_AXES(0, -3)));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_expand_dims(x, ZL_AXES(0, -5)));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_expand_dims(x, ZL_AXES(4)));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_expand_dims(x, ZL_ALL));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_expand_dims(x, (zl_axes){(int[]){0}, INT32_MAX}));
}

TEST(broadcast_stretches) {
    zl_array x = RANGE(2, 1);
    CHECK_ARRAY(zl_broadcast_to(x, ZL_SHAPE(2, 3)), ZL_INT32, ZL_SHAPE(2, 3), 0, 0, 0, 1, 1, 1);
    CHECK_ARRAY(zl_broadcast_to(x, ZL_SHAPE(2, 2, 1)), ZL_INT32, ZL_SHAPE(2, 2, 1), 0, 1, 0, 1);
    CHECK_ARRAY(zl_broadcast_to(zl_scalar(0.5), ZL_SHAPE(2)), ZL_FLOAT32, ZL_SHAPE(2), 0.5, 0.5);
    CHECK_EMPTY(zl_broadcast_to(RANGE(1), ZL_SHAPE(0)), ZL_INT32, ZL_SHAPE(0));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_broadcast_to(RANGE(0), ZL_SHAPE(1)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_broadcast_to(RANGE(2, 2), ZL_SHAPE(2)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_broadcast_to(x, ZL_SHAPE(2, -1)));
    CHECK_ERROR(ZL_ERROR_OVERFLOW, zl_broadcast_to(x, ZL_SHAPE(INT64_MAX, 2, 2)));
    CHECK_HAS(test_last_error(), "zl_broadcast_to: ");
    zl_array both[2];
    REQUIRE(zl_broadcast_arrays((zl_array[]){x, RANGE(3)}, 2, both));
    CHECK_ARRAY(both[0], ZL_INT32, ZL_SHAPE(2, 3), 0, 0, 0, 1, 1, 1);
    CHECK_ARRAY(both[1], ZL_INT32, ZL_SHAPE(2, 3), 0, 1, 2, 0, 1, 2);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_broadcast_arrays((zl_array[]){RANGE(2), RANGE(3)}, 2, both));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_broadcast_arrays(NULL, 0, both));
}

// Computes the elements of a slice by Python's rule, step by step.
static int python_slice(int64_t size, int64_t start, int64_t stop, int64_t step, double *out) {
    int count = 0;
    if (start < 0)
        start = start + size < 0 ? (step < 0 ? -1 : 0) : start + size;
    if (stop < 0)
        stop = stop + size < 0 ? (step < 0 ? -1 : 0) : stop + size;
    int64_t top = step < 0 ? size - 1 : size;
    start = start > top ? top : start;
    stop = stop > top ? top : stop;
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step)
        out[count++] = (double)i;
    return count;
}

TEST(slice_follows_python) {
    for (int64_t size = 0; size < 4; size++)
        for (int64_t start = -5; start < 6; start++)
            for (int64_t stop = -5; stop < 6; stop++)
                for (int64_t step = -3; step < 4; step++) {
                    double want[8];
                    if (step == 0)
                        continue;
                    int count = python_slice(size, start, stop, step, want);
                    zl_scope scope = zl_scope_begin();
                    zl_array y = zl_slice(RANGE(size), ZL_SHAPE(start), ZL_SHAPE(stop), ZL_SHAPE(step));
                    if (!op_test_array(__FILE__, __LINE__, "slice", y, ZL_INT32, ZL_SHAPE(count), 0, count,
                                       want))
                        test_note("%lld[%lld:%lld:%lld]", (long long)size, (long long)start, (long long)stop,
                                  (long long)step);
                    zl_scope_end(scope);
                }
}

TEST(slice_of_several_axes) {
    zl_array x = RANGE(3, 4);
    CHECK_ARRAY(zl_slice(x, ZL_SHAPE(1, 0), ZL_SHAPE(3, 4), ZL_SHAPE(1, 2)), ZL_INT32, ZL_SHAPE(2, 2), 4, 6,
                8, 10);
    CHECK_ARRAY(zl_slice(x, ZL_SHAPE(INT64_MAX, -1), ZL_SHAPE(INT64_MIN, 0), ZL_SHAPE(-2, -2)), ZL_INT32,
                ZL_SHAPE(2, 2), 11, 9, 3, 1);
    CHECK_ARRAY(zl_slice(x, ZL_SHAPE(1, 1), ZL_SHAPE(9, 9), ZL_SHAPE(INT64_MAX, INT64_MAX)), ZL_INT32,
                ZL_SHAPE(1, 1), 5);
    CHECK_ARRAY(zl_slice(x, ZL_SHAPE(1, 1), ZL_SHAPE(-9, -9), ZL_SHAPE(INT64_MIN, INT64_MIN)), ZL_INT32,
                ZL_SHAPE(1, 1), 5);
    CHECK_EMPTY(zl_slice(x, ZL_SHAPE(2, 0), ZL_SHAPE(1, 4), ZL_SHAPE(1, 1)), ZL_INT32, ZL_SHAPE(0, 4));
    CHECK_ARRAY(zl_flip(RANGE(2, 2), ZL_ALL), ZL_INT32, ZL_SHAPE(2, 2), 3, 2, 1, 0);
    CHECK_ARRAY(zl_flip(RANGE(2, 2), ZL_AXES(-1)), ZL_INT32, ZL_SHAPE(2, 2), 1, 0, 3, 2);
    CHECK_EMPTY(zl_flip(RANGE(0, 2), ZL_ALL), ZL_INT32, ZL_SHAPE(0, 2));
    CHECK_IS_VIEW(zl_flip(x, ZL_ALL), x);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_slice(x, ZL_SHAPE(0, 0), ZL_SHAPE(1, 1), ZL_SHAPE(1, 0)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_slice(x, ZL_SHAPE(0), ZL_SHAPE(1, 1), ZL_SHAPE(1, 1)));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_slice(x, (zl_shape){NULL, 2}, ZL_SHAPE(1, 1), ZL_SHAPE(1, 1)));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_flip(x, ZL_AXES(2)));
}

TEST(as_strided_stays_inside) {
    zl_array x = RANGE(2, 3);
    CHECK_ARRAY(zl_as_strided(x, ZL_SHAPE(4, 3), ZL_SHAPE(1, 1), 0), ZL_INT32, ZL_SHAPE(4, 3), 0, 1, 2, 1, 2,
                3, 2, 3, 4, 3, 4, 5);
    CHECK_ARRAY(zl_as_strided(x, ZL_SHAPE(3), ZL_SHAPE(-2), 5), ZL_INT32, ZL_SHAPE(3), 5, 3, 1);
    CHECK_ARRAY(zl_as_strided(zl_transpose(x, ZL_ALL), ZL_SHAPE(2), ZL_SHAPE(1), 0), ZL_INT32, ZL_SHAPE(2), 0,
                3);
    CHECK_EMPTY(zl_as_strided(x, ZL_SHAPE(2, 0), ZL_SHAPE(INT64_MAX, 1), INT64_MAX), ZL_INT32,
                ZL_SHAPE(2, 0));
    CHECK_ARRAY(zl_as_strided(x, ZL_SHAPE(2, 2), ZL_NO_SHAPE, 1), ZL_INT32, ZL_SHAPE(2, 2), 1, 2, 3, 4);
    CHECK_ARRAY(zl_as_strided(x, ZL_NO_SHAPE, ZL_SHAPE(0, 1), 0), ZL_INT32, ZL_SHAPE(2, 3), 0, 1, 2, 0, 1, 2);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_as_strided(x, ZL_SHAPE(3), ZL_SHAPE(3), 0));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_as_strided(x, ZL_SHAPE(3), ZL_SHAPE(-1), 1));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_as_strided(x, ZL_SHAPE(3), ZL_SHAPE(INT64_MAX), 1));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_as_strided(x, ZL_SHAPE(3), ZL_SHAPE(1, 1), 0));
}

TEST(reshape_views_where_it_can) {
    zl_array x = RANGE(2, 6), t = zl_transpose(x, ZL_ALL);
    CHECK_ARRAY(zl_reshape(x, ZL_SHAPE(3, -1)), ZL_INT32, ZL_SHAPE(3, 4), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
                11);
    CHECK_ARRAY(zl_reshape(t, ZL_SHAPE(12)), ZL_INT32, ZL_SHAPE(12), 0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11);
    CHECK_ARRAY(zl_reshape(t, ZL_SHAPE(2, 3, 2)), ZL_INT32, ZL_SHAPE(2, 3, 2), 0, 6, 1, 7, 2, 8, 3, 9, 4, 10,
                5, 11);
    CHECK_ARRAY(zl_reshape(RANGE(1), ZL_SCALAR), ZL_INT32, ZL_SCALAR, 0);
    CHECK_ARRAY(zl_reshape(zl_scalar_int(4), ZL_SHAPE(1, 1)), ZL_INT32, ZL_SHAPE(1, 1), 4);
    CHECK_EMPTY(zl_reshape(RANGE(0, 2), ZL_SHAPE(3, -1)), ZL_INT32, ZL_SHAPE(3, 0));
    CHECK_IS_VIEW(zl_reshape(x, ZL_SHAPE(12)), x);
    CHECK_IS_VIEW(zl_reshape(t, ZL_SHAPE(2, 3, 2)), x);
    CHECK(!op_test_is_view(zl_reshape(t, ZL_SHAPE(12)), x));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_reshape(x, ZL_SHAPE(5)));
    CHECK_STR(test_last_error(), "zl_reshape: 12 elements do not fit shape (5,)");
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_reshape(x, ZL_SHAPE(5, -1)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_reshape(x, ZL_SHAPE(-1, -1)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_reshape(x, ZL_SHAPE(-2, -6)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_reshape(RANGE(0), ZL_SHAPE(0, -1)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_reshape(x, ZL_SHAPE(INT64_MAX, INT64_MAX)));
}

TEST(flatten_and_unflatten) {
    zl_array x = RANGE(2, 3, 2);
    CHECK_ARRAY(zl_flatten(x, 0, -1), ZL_INT32, ZL_SHAPE(12), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    CHECK_ARRAY(zl_flatten(x, 1, 2), ZL_INT32, ZL_SHAPE(2, 6), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    CHECK_ARRAY(zl_flatten(x, -9, 1), ZL_INT32, ZL_SHAPE(6, 2), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    CHECK_ARRAY(zl_flatten(x, 2, 9), ZL_INT32, ZL_SHAPE(2, 3, 2), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    CHECK_ARRAY(zl_flatten(zl_scalar_int(5), 0, -1), ZL_INT32, ZL_SHAPE(1), 5);
    CHECK_ARRAY(zl_unflatten(RANGE(2, 4), 1, ZL_SHAPE(2, -1)), ZL_INT32, ZL_SHAPE(2, 2, 2), 0, 1, 2, 3, 4, 5,
                6, 7);
    CHECK_ARRAY(zl_unflatten(zl_transpose(RANGE(2, 2), ZL_ALL), -1, ZL_SHAPE(2, 1)), ZL_INT32,
                ZL_SHAPE(2, 2, 1), 0, 2, 1, 3);
    CHECK_ERROR(ZL_ERROR_AXIS, zl_flatten(x, 2, 1));
    CHECK_ERROR(ZL_ERROR_OVERFLOW, zl_flatten(zl_zeros(ZL_SHAPE(0, INT64_MAX, 4), ZL_FLOAT32), 1, 2));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_unflatten(x, 0, ZL_SHAPE(3, -1)));
    CHECK_HAS(test_last_error(), "zl_unflatten: 2 elements do not fit shape (3, -1)");
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_unflatten(x, 0, ZL_SCALAR));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_unflatten(x, 3, ZL_SHAPE(1)));
}

TEST(contiguous_copies_only_what_is_not) {
    zl_array x = RANGE(2, 3);
    CHECK(zl_contiguous(x, false) == x);
    CHECK_ARRAY(zl_contiguous(zl_transpose(x, ZL_ALL), false), ZL_INT32, ZL_SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    CHECK(zl_is_contiguous(zl_contiguous(zl_flip(x, ZL_ALL), false)));
    CHECK(!zl_contiguous(NULL, false) && !zl_error());
}

// Checks copies of transposed arrays that begin at element `first`: element (b, i, j) is (b, j, i) of the
// original.
static void check_transposed(zl_dtype dtype, int64_t batch, int64_t rows, int64_t columns, int64_t first) {
    int64_t count = batch * rows * columns;
    zl_array flat = zl_astype(op_test_range(ZL_SHAPE(count + first), ZL_INT32), dtype);
    zl_array x = zl_reshape(zl_slice(flat, ZL_SHAPE(first), ZL_SHAPE(count + first), ZL_SHAPE(1)),
                            ZL_SHAPE(batch, rows, columns));
    zl_array y = zl_contiguous(zl_matrix_transpose(x), false);
    const double *from = op_test_values(x), *to = op_test_values(y);
    int wrong = 0;
    for (int64_t i = 0; from && to && i < count; i++) {
        int64_t b = i / (rows * columns), at = i % (rows * columns);
        wrong += to[i] != from[b * rows * columns + at % rows * columns + at / rows];
    }
    if (!CHECK(from && to && !wrong))
        test_note("%d of %s (%d, %d, %d) from %d on", wrong, zl_dtype_name(dtype), (int)batch, (int)rows,
                  (int)columns, (int)first);
}

TEST(contiguous_of_transposed_axes) {
    static const zl_dtype dtypes[] = {ZL_UINT8, ZL_BFLOAT16, ZL_FLOAT32, ZL_INT64};
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        check_transposed(dtypes[i], 1, 48, 80, 0);
        check_transposed(dtypes[i], 1, 48, 80, 1);
        check_transposed(dtypes[i], 2, 24, 72, 16);
        check_transposed(dtypes[i], 2, 37, 19, 0);
    }
}

TEST(view_reads_bytes_as_another_dtype) {
    zl_array x = RANGE(2, 2);
    CHECK_ARRAY(zl_view(x, ZL_INT16), ZL_INT16, ZL_SHAPE(2, 4), 0, 0, 1, 0, 2, 0, 3, 0);
    CHECK_ARRAY(zl_view(zl_transpose(x, ZL_ALL), ZL_INT16), ZL_INT16, ZL_SHAPE(2, 4), 0, 0, 2, 0, 1, 0, 3, 0);
    CHECK_ARRAY(zl_view(zl_view(x, ZL_UINT8), ZL_INT64), ZL_INT64, ZL_SHAPE(2, 1), 0x100000000, 0x300000002);
    CHECK_ARRAY(zl_view(zl_scalar(1), ZL_INT32), ZL_INT32, ZL_SCALAR, 0x3f800000);
    CHECK_ARRAY(zl_view(zl_transpose(RANGE(2, 2), ZL_ALL), ZL_UINT32), ZL_UINT32, ZL_SHAPE(2, 2), 0, 2, 1, 3);
    CHECK_EMPTY(zl_view(RANGE(2, 0), ZL_INT64), ZL_INT64, ZL_SHAPE(2, 0));
    zl_array odd = zl_slice(RANGE(5), ZL_SHAPE(1), ZL_SHAPE(5), ZL_SHAPE(1)); // begins in the middle of an
                                                                              // aligned int64
    CHECK_ARRAY(zl_view(odd, ZL_INT64), ZL_INT64, ZL_SHAPE(2), 0x200000001, 0x400000003);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_view(RANGE(3), ZL_INT64));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_view(zl_scalar(1), ZL_INT64));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_view(x, ZL_DTYPE_COUNT));
}

TEST(views_of_many_axes) {
    int64_t dim[40];
    int axes[40];
    for (int i = 0; i < 40; i++) {
        dim[i] = i == 3 || i == 36 ? 2 : 1;
        axes[i] = 39 - i;
    }
    zl_array x = zl_reshape(RANGE(4), (zl_shape){dim, 40});
    zl_array y = zl_flip(zl_transpose(x, (zl_axes){axes, 40}), ZL_AXES(-1, 3));
    CHECK_ARRAY(zl_squeeze(y, ZL_ALL), ZL_INT32, ZL_SHAPE(2, 2), 1, 3, 0, 2);
    CHECK_ARRAY(zl_reshape(zl_broadcast_to(x, (zl_shape){dim, 40}), ZL_SHAPE(4)), ZL_INT32, ZL_SHAPE(4), 0, 1,
                2, 3);
    CHECK_ARRAY(zl_sum(x), ZL_INT32, ZL_SCALAR, 6);
    CHECK_ARRAY(zl_flatten(zl_expand_dims(x, ZL_AXES(0)), 0, -1), ZL_INT32, ZL_SHAPE(4), 0, 1, 2, 3);
}

TEST(stop_gradient_stops_it) {
    zl_array x = op_test_range(ZL_SHAPE(3), ZL_FLOAT32), g;
    zl_array y = zl_sum(zl_multiply(x, zl_stop_gradient(x)));
    REQUIRE(zl_grad(y, 1, &x, &g));
    CHECK_ARRAY(g, ZL_FLOAT32, ZL_SHAPE(3), 0, 1, 2);
    CHECK_ARRAY(zl_stop_gradient(x), ZL_FLOAT32, ZL_SHAPE(3), 0, 1, 2);
    CHECK_ARRAY(zl_depends(x, (zl_array[]){zl_exp(x), y}, 2), ZL_FLOAT32, ZL_SHAPE(3), 0, 1, 2);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_depends(x, NULL, 0));
}

#define DEPEND(x) zl_depends(zl_square(x), (zl_array[]){zl_exp(x)}, 1)

RULES(transpose, ZL_SHAPE(2, 3, 2), zl_square(zl_transpose(x, ZL_AXES(2, 0, 1))))
RULES(swapaxes, ZL_SHAPE(2, 3), zl_swapaxes(zl_exp(x), 0, 1))
RULES(squeeze, ZL_SHAPE(2, 1, 3, 1), zl_square(zl_squeeze(x, ZL_AXES(1, 3))))
RULES(expand_dims, ZL_SHAPE(2, 3), zl_square(zl_expand_dims(x, ZL_AXES(0, 2))))
RULES(broadcast_to, ZL_SHAPE(3, 1), zl_square(zl_broadcast_to(x, ZL_SHAPE(2, 3, 4))))
RULES(slice, ZL_SHAPE(4, 5), zl_square(zl_slice(x, ZL_SHAPE(1, 0), ZL_SHAPE(3, 9), ZL_SHAPE(1, 2))))
RULES(slice_back, ZL_SHAPE(7, 5), zl_slice(zl_square(x), ZL_SHAPE(-1, 3), ZL_SHAPE(0, -9), ZL_SHAPE(-3, -1)))
RULES(slice_empty, ZL_SHAPE(4), zl_sum(zl_slice(x, ZL_SHAPE(2), ZL_SHAPE(2), ZL_SHAPE(1))))
RULES(flip, ZL_SHAPE(2, 3), zl_square(zl_flip(x, ZL_AXES(1))))
RULES(reshape, ZL_SHAPE(2, 3, 2), zl_square(zl_reshape(zl_transpose(x, ZL_ALL), ZL_SHAPE(4, -1))))
RULES(flatten, ZL_SHAPE(2, 3, 2), zl_square(zl_flatten(x, 1, 2)))
RULES(unflatten, ZL_SHAPE(2, 6), zl_square(zl_unflatten(x, 1, ZL_SHAPE(3, -1))))
RULES(contiguous, ZL_SHAPE(2, 3), zl_contiguous(zl_transpose(zl_square(x), ZL_ALL), false))
RULES(depends, ZL_SHAPE(2, 3), DEPEND(x))
BATCHING(stop_gradient, ZL_SHAPE(2, 3), zl_stop_gradient(zl_square(x)))
BATCHING(as_strided, ZL_SHAPE(2, 3), zl_as_strided(x, ZL_SHAPE(3, 3), ZL_SHAPE(1, -1), 2))
BATCHING(view, ZL_SHAPE(2, 3), zl_astype(zl_view(x, ZL_INT32), ZL_FLOAT64))
