// test_gather_mm.c - products of chosen matrices, of parts of the inner axis, with masked blocks, and of
// int8, compared with the equivalent products.

#include "op/op_test.h"

OP_RULES_HERE(zl_gather_mm);
OP_RULES_HERE(zl_segmented_mm);
OP_RULES_HERE(zl_matmul_int8);
OP_RULES_HERE(zl_block_masked_mm);

static zl_array numbers(zl_shape shape) {
    return op_test_random(shape, ZL_FLOAT32, -1, 1);
}

static bool close_to(zl_array x, zl_array y) {
    return zl_item_int(zl_allclose(x, y, 1e-4, 1e-4, false)) == 1;
}

static zl_array indices(zl_shape shape, int64_t below) {
    return op_test_random(shape, ZL_INT32, 0, (double)below);
}

TEST(gathered_products) {
    zl_array a = numbers(ZL_SHAPE(2, 3, 4, 5)), b = zl_matrix_transpose(numbers(ZL_SHAPE(4, 7, 5)));
    zl_array lhs = indices(ZL_SHAPE(2, 3), 6), rhs = indices(ZL_SHAPE(3), 4);
    zl_array chosen = zl_matmul(zl_take(zl_flatten(a, 0, 1), lhs, 0), zl_take(b, rhs, 0));
    REQUIRE(zl_eval_all(2, (zl_array[]){b, chosen}));
    CHECK(close_to(zl_gather_mm(a, b, lhs, rhs, false), chosen));
    zl_array all = zl_matmul(a, zl_take(b, rhs, 0));
    CHECK(close_to(zl_gather_mm(a, b, NULL, rhs, true), all));
    zl_array one = zl_scalar_int(-1); // the last matrix
    CHECK(close_to(zl_gather_mm(a, b, one, one, false),
                   zl_matmul(zl_take(zl_flatten(a, 0, 1), one, 0), zl_take(b, one, 0))));
    zl_array half = zl_gather_mm(zl_astype(a, ZL_FLOAT16), zl_astype(b, ZL_FLOAT16), lhs, rhs, false);
    CHECK_EQ_INT(zl_dtype_of(half), ZL_FLOAT16);
    CHECK_EQ_INT(zl_item_int(zl_allclose(half, chosen, 1e-2, 1e-2, false)), 1);
    zl_array none = zl_zeros(ZL_SHAPE(0), ZL_INT32);
    CHECK_EMPTY(zl_gather_mm(a, b, none, none, false), ZL_FLOAT32, ZL_SHAPE(0, 4, 7));
}

TEST(gathered_products_refuse) {
    zl_array a = numbers(ZL_SHAPE(2, 3, 4)), at = indices(ZL_SHAPE(2), 2);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_gather_mm(a, a, at, at, false));
    CHECK_ERROR(ZL_ERROR_DTYPE,
                zl_gather_mm(a, zl_matrix_transpose(a), zl_astype(at, ZL_FLOAT32), at, false));
    zl_array whole = zl_ones(ZL_SHAPE(2, 2, 2), ZL_INT32);
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_gather_mm(whole, whole, at, at, false));
    CHECK(!zl_gather_mm(NULL, a, at, at, false) && !zl_error());
}

TEST(gathered_products_have_no_gradient_by_positions) {
    zl_array a = numbers(ZL_SHAPE(3, 2, 2)), order = numbers(ZL_SHAPE(3)), g;
    zl_array at = zl_argsort(order, 0), y = zl_sum(zl_gather_mm(a, a, at, at, false));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_grad(y, 1, &order, &g));
    CHECK_HAS(test_last_error(), "gather_mm: there is no gradient by the positions");
    CHECK(zl_grad(y, 1, &a, &g));
}

TEST(products_of_segments) {
    zl_array a = numbers(ZL_SHAPE(4, 9)), b = zl_transpose(numbers(ZL_SHAPE(5, 9)), ZL_ALL);
    REQUIRE(zl_eval(b));
    const int32_t ends[][2] = {{0, 3}, {3, 3}, {5, 2}, {2, 9}, {7, 40}};
    zl_array y = zl_segmented_mm(a, b, zl_from_i32(&ends[0][0], ZL_SHAPE(5, 2)));
    REQUIRE(y && zl_eval(y));
    for (int i = 0; i < 5; i++) {
        int64_t from = ends[i][0], to = ends[i][1] > 9 ? 9 : ends[i][1];
        zl_array left = zl_slice(a, ZL_SHAPE(0, from), ZL_SHAPE(4, to), ZL_SHAPE(1, 1));
        zl_array right = zl_slice(b, ZL_SHAPE(from, 0), ZL_SHAPE(to, 5), ZL_SHAPE(1, 1));
        CHECK(close_to(zl_take(y, zl_scalar_int(i), 0), zl_matmul(left, right)));
    }
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_segmented_mm(a, b, zl_from_i32(&ends[0][0], ZL_SHAPE(2, 5))));
    CHECK_ERROR(ZL_ERROR_SHAPE,
                zl_segmented_mm(zl_expand_dims(a, ZL_AXES(0)), b, zl_zeros(ZL_SHAPE(1, 2), ZL_INT32)));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_segmented_mm(a, b, zl_zeros(ZL_SHAPE(1, 2), ZL_FLOAT32)));
}

// Expands a mask of two by two blocks of 32 to one of 40 by 50 elements.
static zl_array elements(zl_array mask) {
    zl_array all = zl_repeat(zl_repeat(mask, 32, 0), 32, 1);
    return zl_slice(all, ZL_SHAPE(0, 0), ZL_SHAPE(40, 50), ZL_SHAPE(1, 1));
}

TEST(products_of_masked_blocks) {
    zl_array a = numbers(ZL_SHAPE(40, 50)), b = numbers(ZL_SHAPE(50, 40));
    zl_array mask = zl_from((bool[]){true, false, true, true}, ZL_SHAPE(2, 2), ZL_BOOL);
    zl_array scale = zl_from_f32((float[]){0.5f, 2, 0, -1}, ZL_SHAPE(2, 2));
    zl_array left = zl_where(elements(mask), a, zl_scalar(0)),
             right = zl_multiply(zl_matrix_transpose(elements(scale)), b);
    REQUIRE(zl_eval_all(2, (zl_array[]){left, right}));
    CHECK(close_to(zl_block_masked_mm(a, b, 32, NULL, mask, NULL), zl_matmul(left, b)));
    CHECK(close_to(zl_block_masked_mm(a, b, 32, NULL, mask, zl_matrix_transpose(scale)),
                   zl_matmul(left, right)));
    zl_array out = zl_slice(elements(scale), ZL_SHAPE(0, 0), ZL_SHAPE(40, 40), ZL_SHAPE(1, 1));
    CHECK(close_to(zl_block_masked_mm(a, b, 32, scale, NULL, NULL), zl_multiply(zl_matmul(a, b), out)));
    CHECK(close_to(zl_block_masked_mm(a, b, 64, NULL, NULL, NULL), zl_matmul(a, b)));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_block_masked_mm(a, b, 16, mask, NULL, NULL));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_block_masked_mm(a, b, 64, NULL, mask, NULL));
}

TEST(products_of_int8) {
    zl_array a = op_test_random(ZL_SHAPE(2, 1, 3, 5), ZL_INT8, -128, 127),
             b = op_test_random(ZL_SHAPE(4, 7, 5), ZL_INT8, -128, 127);
    REQUIRE(zl_eval(b = zl_matrix_transpose(b)));
    zl_array exact = zl_matmul(zl_astype(a, ZL_FLOAT64), zl_astype(b, ZL_FLOAT64)), y = zl_matmul_int8(a, b);
    CHECK_EQ_INT(zl_dtype_of(y), ZL_INT32);
    CHECK_EQ_INT(zl_item_int(zl_array_equal(zl_astype(y, ZL_FLOAT64), exact, false)), 1);
    CHECK_ARRAY(zl_matmul_int8(zl_zeros(ZL_SHAPE(1, 0), ZL_INT8), zl_zeros(ZL_SHAPE(0, 1), ZL_INT8)),
                ZL_INT32, ZL_SHAPE(1, 1), 0);
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_matmul_int8(a, zl_astype(b, ZL_INT32)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_matmul_int8(a, a));
    zl_array u = zl_from((int8_t[]){1, -2, 100}, ZL_SHAPE(3), ZL_INT8),
             m = op_test_range(ZL_SHAPE(2, 3), ZL_INT8);
    CHECK_ARRAY(zl_matmul_int8(m, u), ZL_INT32, ZL_SHAPE(2), 198, 495);
    CHECK_ARRAY(zl_matmul_int8(u, zl_matrix_transpose(m)), ZL_INT32, ZL_SHAPE(2), 198, 495);
}

static zl_array bytes(zl_shape shape, uint64_t seed) {
    zl_array x = zl_random_normal(shape, ZL_FLOAT32, NULL, NULL, zl_random_key(seed));
    return zl_astype(zl_multiply(x, zl_scalar(20)), ZL_INT8);
}

// Few rows, or few columns, and a matrix that is contiguous along k, with several groups of 64 columns, of
// which the last is not full.
TEST(products_of_int8_with_few_vectors) {
    static const int64_t sizes[][3] = {
        {1, 64, 64}, {16, 131, 200}, {17, 190, 129}, {33, 300, 1000}, {60, 70, 65}};
    for (size_t i = 0; i < COUNT(sizes); i++)
        ZL_SCOPE {
            const int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
            zl_array a = bytes(ZL_SHAPE(m, k), 1), b = bytes(ZL_SHAPE(n, k), 2);
            REQUIRE(zl_eval(a) && zl_eval(b));
            zl_array wide = zl_astype(a, ZL_FLOAT64), other = zl_astype(b, ZL_FLOAT64);
            zl_array rows = zl_matmul(wide, zl_matrix_transpose(other)),
                     columns = zl_matmul(other, zl_matrix_transpose(wide));
            zl_array y = zl_matmul_int8(a, zl_matrix_transpose(b)),
                     z = zl_matmul_int8(b, zl_matrix_transpose(a));
            CHECK_EQ_INT(zl_item_int(zl_array_equal(zl_astype(y, ZL_FLOAT64), rows, false)), 1);
            CHECK_EQ_INT(zl_item_int(zl_array_equal(zl_astype(z, ZL_FLOAT64), columns, false)), 1);
        }
}

TEST(permutations_keep_what_they_permute) {
    zl_array key = zl_random_key(3), x = op_test_range(ZL_SHAPE(4, 5), ZL_INT32);
    CHECK_ARRAY(zl_sort(zl_random_permutation_int(6, key), -1), ZL_UINT32, ZL_SHAPE(6), 0, 1, 2, 3, 4, 5);
    for (int axis = 0; axis < 2; axis++)
        CHECK_EQ_INT(
            zl_item_int(zl_array_equal(zl_sort(zl_random_permutation(x, axis, key), axis), x, false)), 1);
    CHECK_EMPTY(zl_random_permutation_int(0, key), ZL_UINT32, ZL_SHAPE(0));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_random_permutation_int(-1, key));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_random_permutation(x, 2, key));
}

TEST(vectors_of_a_covariance) {
    if (test_lacks_lapack())
        SKIP(test_lacks_lapack());
    zl_array cov = zl_from_f32((float[]){2, 1, 1, 3}, ZL_SHAPE(2, 2)),
             mean = zl_from_f32((float[]){1, -1}, ZL_SHAPE(2));
    zl_array x = zl_random_multivariate_normal(mean, cov, ZL_SHAPE(40000), ZL_FLOAT32, zl_random_key(1));
    REQUIRE(x && zl_eval(x));
    zl_array d = zl_subtract(x, mean),
             seen = zl_divide(zl_matmul(zl_transpose(d, ZL_ALL), d), zl_scalar(40000));
    CHECK_ARRAY_NEAR(zl_mean_axis(x, 0, false), ZL_FLOAT32, ZL_SHAPE(2), 0.04, 1, -1);
    CHECK_ARRAY_NEAR(seen, ZL_FLOAT32, ZL_SHAPE(2, 2), 0.08, 2, 1, 1, 3);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_random_multivariate_normal(mean, mean, ZL_SHAPE(1), ZL_FLOAT32, NULL));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_random_multivariate_normal(mean, cov, ZL_SHAPE(1), ZL_FLOAT64, NULL));
}

static zl_array some(int64_t a, int64_t b) {
    int64_t n = a * b;
    return zl_reshape(zl_sin(zl_arange(0, (double)n, 1, ZL_FLOAT64)), ZL_SHAPE(a, b));
}

static zl_array pick(int32_t a, int32_t b) {
    return zl_from_i32((int32_t[]){a, b}, ZL_SHAPE(2));
}

RULES(gather_mm_left, ZL_SHAPE(2, 3, 4), zl_gather_mm(x, some(4, 2), pick(1, 1), zl_scalar_int(0), false))
RULES(gather_mm_right, ZL_SHAPE(2, 4, 3), zl_gather_mm(some(2, 4), x, zl_scalar_int(0), pick(0, 1), false))
RULES(gather_mm_both, ZL_SHAPE(3, 2, 2),
      zl_gather_mm(x, zl_square(x), pick(2, -1), zl_expand_dims(pick(0, 1), ZL_AXES(1)), false))
RULES(gather_mm_one, ZL_SHAPE(2, 2), zl_gather_mm(x, x, zl_scalar_int(0), zl_scalar_int(0), false))
RULES(block_masked_mm, ZL_SHAPE(3, 3),
      zl_block_masked_mm(x, zl_square(x), 32, zl_full(ZL_SHAPE(1, 1), zl_scalar(2), ZL_FLOAT64), NULL, NULL))
BATCHING(segmented_mm, ZL_SHAPE(3, 3), zl_segmented_mm(x, zl_square(x), zl_zeros(ZL_SHAPE(1, 2), ZL_INT32)))
