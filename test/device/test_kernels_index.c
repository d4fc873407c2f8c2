// test_kernels_index.c - elements and slices chosen by indices, on every device that runs kernels, compared
// with the CPU; and sparse products.

#include "on_devices.h"

// Returns indices from `least` on, `count` different ones.
static zl_array indices(zl_shape shape, int least, int count, uint64_t seed) {
    zl_array x = zl_multiply(zl_add(values(shape, ZL_FLOAT32, seed), zl_scalar(2)), zl_scalar(count / 6.0));
    return zl_astype(zl_floor(zl_add(x, zl_scalar(least))), ZL_INT32);
}

// Scatters to rows of a matrix, some of them repeatedly, and some out of range.
static zl_array scattered(void *data) {
    zl_dtype dtype = *(zl_dtype *)data;
    zl_array at = indices(ZL_SHAPE(50), -3, 40, 3);
    return zl_scatter_add(values(ZL_SHAPE(33, 7), dtype, 1), (zl_array[]){at}, 1,
                          zl_round(values(ZL_SHAPE(50, 1, 7), dtype, 2), 0), ZL_AXES(0));
}

static zl_array scattered_last(void *data) {
    (void)data;
    zl_array i = indices(ZL_SHAPE(20, 60), 0, 9, 3),
             j = zl_matrix_transpose(indices(ZL_SHAPE(60, 20), 0, 11, 4));
    return zl_scatter(values(ZL_SHAPE(9, 3, 11), ZL_FLOAT32, 1), (zl_array[]){i, j}, 2,
                      values(ZL_SHAPE(20, 60, 1, 3, 1), ZL_FLOAT32, 2), ZL_AXES(0, 2));
}

static zl_array scattered_over(void *data) {
    (void)data;
    return zl_scatter_max(values(ZL_SHAPE(20, 5), ZL_INT32, 1), (zl_array[]){indices(ZL_SHAPE(6), 0, 20, 3)},
                          1, values(ZL_SHAPE(6, 4, 2), ZL_INT32, 2), ZL_AXES(0));
}

static zl_array gathered(void *data) {
    zl_dtype dtype = *(zl_dtype *)data;
    zl_array i = indices(ZL_SHAPE(4, 30), -2, 12, 3), j = indices(ZL_SHAPE(4, 30), 0, 20, 4);
    return zl_gather(zl_transpose(values(ZL_SHAPE(20, 6, 10), dtype, 1), ZL_AXES(2, 1, 0)),
                     (zl_array[]){i, j}, 2, ZL_AXES(0, 2), ZL_SHAPE(1, 3, 2));
}

static zl_array put_along(void *data) {
    zl_array at = indices(ZL_SHAPE(12, 30), 0, 20, 3);
    (void)data;
    return zl_put_along_axis(values(ZL_SHAPE(12, 20), ZL_FLOAT32, 1), at,
                             values(ZL_SHAPE(12, 30), ZL_FLOAT32, 2), 1);
}

// Indices that are numbers passed by value, not arrays in memory.
static zl_array by_numbers(void *data) {
    zl_dtype dtype = *(zl_dtype *)data;
    zl_array x = values(ZL_SHAPE(6, 20), dtype, 1), at = zl_scalar_int(2);
    zl_array row = zl_take(x, zl_scalar_int(-1), 0);
    zl_array cell = zl_gather(x, (zl_array[]){at, zl_scalar_int(5)}, 2, ZL_AXES(0, 1), ZL_SHAPE(1, 1));
    zl_array put = zl_scatter_add(x, (zl_array[]){at}, 1, zl_reshape(row, ZL_SHAPE(1, 20)), ZL_AXES(0));
    return zl_concatenate((zl_array[]){row, zl_flatten(cell, 0, -1), zl_flatten(put, 0, -1)}, 3, 0);
}

static void check_numbers(void) {
    static zl_dtype dtypes[] = {ZL_FLOAT32, ZL_INT64, ZL_BOOL, ZL_BFLOAT16};
    int64_t before = zl_counter("fallbacks");
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        agree("indices that are numbers", by_numbers, &dtypes[i], 0);
    CHECK_EQ_INT(zl_counter("fallbacks"), before);
}

TEST(numbers_are_indices_on_devices) {
    on_devices(check_numbers);
}

enum { ROWS = 60, COLUMNS = 40, ENTRIES = 120, LEFT_OVER = 3 };

// Multiplies a sparse matrix whose row i has i % 5 entries, with more entries after them that belong to no
// row. in: the values, and a vector or a matrix.
static zl_array sparse_product(const zl_array *in) {
    static int32_t begin[ROWS + 1], column[ENTRIES + LEFT_OVER];
    int count = 0;
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < i % 5; k++)
            column[count++] = (i * 7 + k * 11) % COLUMNS;
        begin[i + 1] = count;
    }
    return zl_csr_matmul(in[0], zl_from_i32(column, ZL_SHAPE(ENTRIES + LEFT_OVER)),
                         zl_from_i32(begin, ZL_SHAPE(ROWS + 1)), in[1]);
}

static void sparse_inputs(int width, zl_array *in) {
    in[0] = values(ZL_SHAPE(ENTRIES + LEFT_OVER), ZL_FLOAT32, 1);
    in[1] = values(ZL_SHAPE(COLUMNS, width), ZL_FLOAT32, 2);
}

static zl_array sparse(void *data) {
    zl_array in[2];
    sparse_inputs(*(int *)data, in);
    return sparse_product(in);
}

// Returns gradients with respect to the values and to the dense matrix, which need the transposed sparse
// matrix, concatenated.
static zl_array sparse_slopes(void *data) {
    zl_array in[2], grad[2];
    sparse_inputs(*(int *)data, in);
    if (!zl_grad(zl_sum(zl_square(sparse_product(in))), 2, in, grad))
        return NULL;
    return zl_concatenate((zl_array[]){grad[0], zl_flatten(grad[1], 0, -1)}, 2, 0);
}

// A column that is out of range is an error, which names it.
static void check_sparse_error(void) {
    static const int32_t begin[] = {0, 1, 2}, column[] = {1, 9};
    zl_array y = zl_csr_matmul(values(ZL_SHAPE(2), ZL_FLOAT32, 1), zl_from_i32(column, ZL_SHAPE(2)),
                               zl_from_i32(begin, ZL_SHAPE(3)), values(ZL_SHAPE(4, 1), ZL_FLOAT32, 2));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_eval(y));
    CHECK_HAS(test_last_error(), "indices[1] is 9");
}

static void check_sparse(void) {
    int64_t fallbacks = zl_counter("fallbacks");
    agree("csr_matmul", sparse, &(int){1}, 1e-6);
    agree("csr_matmul", sparse, &(int){3}, 1e-6);
    agree("slopes of csr_matmul", sparse_slopes, &(int){1}, 1e-5);
    agree("slopes of csr_matmul", sparse_slopes, &(int){3}, 1e-5);
    check_sparse_error();
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

TEST(sparse_on_devices) {
    on_devices(check_sparse);
}

// Losses of classifiers for targets that are not contiguous; both results.
static zl_array losses(void *data) {
    int64_t classes = *(int64_t *)data;
    zl_array x = values(ZL_SHAPE(6, 5, classes), classes % 2 ? ZL_BFLOAT16 : ZL_FLOAT32, 1);
    zl_array at =
        zl_subtract(zl_arange_int(0, 60, 1, ZL_INT64), op_number(ZL_INT64, 4)); // some are out of range
    at = zl_slice(zl_reshape(at, ZL_SHAPE(5, 12)), ZL_SHAPE(0, 0), ZL_SHAPE(5, 12), ZL_SHAPE(1, 2));
    zl_array loss = zl_fast_cross_entropy(x, zl_transpose(at, ZL_ALL)), grad;
    return zl_grad(zl_sum(loss), 1, &x, &grad) ? zl_add(grad, zl_expand_dims(loss, ZL_AXES(-1))) : NULL;
}

static void check_losses(void) {
    static const int64_t classes[] = {10, 2049};
    int64_t fallbacks = zl_counter("fallbacks");
    for (size_t i = 0; i < COUNT(classes); i++)
        ZL_SCOPE {
            agree("cross_entropy", losses, &(int64_t){classes[i]}, classes[i] % 2 ? 4e-3 : 2e-6);
        }
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

TEST(losses_on_devices) {
    on_devices(check_losses);
}

static zl_array sliced_at(void *data) {
    static const int32_t starts[] = {-3, 17};
    zl_array at = zl_from_i32(starts, ZL_SHAPE(2)), x = values(ZL_SHAPE(20, 5, 20), ZL_FLOAT32, 1);
    if (*(bool *)data)
        return zl_dynamic_slice(x, at, ZL_AXES(0, 2), ZL_SHAPE(4, 5, 6));
    return zl_dynamic_slice_update(x, values(ZL_SHAPE(4, 2, 6), ZL_FLOAT32, 2), at, ZL_AXES(0, 2));
}

static void check_indices(void) {
    int64_t fallbacks = zl_counter("fallbacks");
    agree("scatter_add", scattered, &(zl_dtype){ZL_FLOAT32}, 0);
    agree("scatter_add", scattered, &(zl_dtype){ZL_BFLOAT16}, 0);
    agree("scatter", scattered_last, NULL, 0);
    agree("scatter_max", scattered_over, NULL, 0);
    agree("gather", gathered, &(zl_dtype){ZL_INT8}, 0);
    agree("gather", gathered, &(zl_dtype){ZL_FLOAT32}, 0);
    agree("put_along_axis", put_along, NULL, 0);
    agree("dynamic_slice", sliced_at, &(bool){true}, 0);
    agree("dynamic_slice_update", sliced_at, &(bool){false}, 0);
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

TEST(indices_on_devices) {
    on_devices(check_indices);
}
