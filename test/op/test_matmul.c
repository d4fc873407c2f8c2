// test_matmul.c - matrix products: values compared with naive sums, shapes, dtypes, rules.

#include <math.h>

#include "op/op_test.h"

#define FLOATS(...) op_test_range(ZL_SHAPE(__VA_ARGS__), ZL_FLOAT32)

TEST(matmul_of_ranks) {
    zl_array a = FLOATS(2, 2), v = FLOATS(2);
    CHECK_ARRAY(zl_matmul(a, a), ZL_FLOAT32, ZL_SHAPE(2, 2), 2, 3, 6, 11);
    CHECK_ARRAY(zl_matmul(a, v), ZL_FLOAT32, ZL_SHAPE(2), 1, 3);
    CHECK_ARRAY(zl_matmul(v, a), ZL_FLOAT32, ZL_SHAPE(2), 2, 3);
    CHECK_ARRAY(zl_matmul(v, v), ZL_FLOAT32, ZL_SCALAR, 1);
    CHECK_ARRAY(zl_matmul(FLOATS(2, 1, 2), a), ZL_FLOAT32, ZL_SHAPE(2, 1, 2), 2, 3, 6, 11);
    CHECK_ARRAY(zl_matmul(FLOATS(2, 1, 2), v), ZL_FLOAT32, ZL_SHAPE(2, 1), 1, 3);
    CHECK_ARRAY(zl_matmul(a, FLOATS(2, 2, 1)), ZL_FLOAT32, ZL_SHAPE(2, 2, 1), 1, 3, 3, 13);
    CHECK_ARRAY(zl_matmul(FLOATS(2, 1, 1, 1), FLOATS(2, 1, 1)), ZL_FLOAT32, ZL_SHAPE(2, 2, 1, 1), 0, 0, 0, 1);
    CHECK_ARRAY(zl_matmul(FLOATS(2, 0), FLOATS(0, 2)), ZL_FLOAT32, ZL_SHAPE(2, 2), 0, 0, 0, 0);
    CHECK_EMPTY(zl_matmul(FLOATS(0, 2), a), ZL_FLOAT32, ZL_SHAPE(0, 2));
    CHECK_EMPTY(zl_matmul(FLOATS(0, 3, 2), a), ZL_FLOAT32, ZL_SHAPE(0, 3, 2));
}

TEST(matmul_dtypes) {
    zl_array a = FLOATS(2, 2), n = op_test_range(ZL_SHAPE(2, 2), ZL_INT32);
    CHECK_ARRAY(zl_matmul(n, zl_astype(a, ZL_FLOAT16)), ZL_FLOAT16, ZL_SHAPE(2, 2), 2, 3, 6, 11);
    CHECK_ARRAY(zl_matmul(zl_astype(a, ZL_BFLOAT16), zl_astype(a, ZL_FLOAT16)), ZL_FLOAT32, ZL_SHAPE(2, 2), 2,
                3, 6, 11);
    CHECK_ARRAY(zl_matmul(zl_astype(a, ZL_FLOAT64), a), ZL_FLOAT64, ZL_SHAPE(2, 2), 2, 3, 6, 11);
    zl_array i = zl_multiply(a, zl_scalar_complex(0, 1));
    CHECK_ARRAY(zl_matmul(i, i), ZL_COMPLEX64, ZL_SHAPE(2, 2), -2, -3, -6, -11);
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_matmul(n, n));
    CHECK_STR(test_last_error(),
              "zl_matmul: int32 times int32 gives int32: only floating point and complex numbers are "
              "possible; convert with zl_astype");
}

TEST(matmul_refuses) {
    zl_array a = FLOATS(3, 4);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_matmul(a, FLOATS(5, 6)));
    CHECK_STR(test_last_error(), "zl_matmul: inner sizes differ: (3, 4) times (5, 6)");
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_matmul(a, FLOATS(3)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_matmul(zl_scalar(1), a));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_matmul(FLOATS(5, 2, 2, 3), FLOATS(4, 3, 7)));
    CHECK_HAS(test_last_error(), "the batch axes of (5, 2, 2, 3) and (4, 3, 7)");
    zl_array tall = zl_broadcast_to(zl_scalar(1), ZL_SHAPE(1ll << 40, 1));
    CHECK_ERROR(ZL_ERROR_OVERFLOW, zl_matmul(tall, zl_transpose(tall, ZL_ALL)));
    CHECK(!zl_matmul(NULL, a) && !zl_inner(NULL, a) && !zl_outer(a, NULL) && !zl_addmm(a, NULL, a, 1, 1) &&
          !zl_error());
}

static void check_product(int64_t m, int64_t k, int64_t n, bool turn_a, bool turn_b) {
    zl_array a = op_test_random(turn_a ? ZL_SHAPE(k, m) : ZL_SHAPE(m, k), ZL_FLOAT32, -1, 1);
    zl_array b = op_test_random(turn_b ? ZL_SHAPE(n, k) : ZL_SHAPE(k, n), ZL_FLOAT32, -1, 1);
    a = turn_a ? zl_transpose(a, ZL_ALL) : a;
    b = turn_b ? zl_transpose(b, ZL_ALL) : b;
    zl_array y = zl_matmul(a, b);
    REQUIRE(zl_eval_all(3, (zl_array[]){a, b, y}));
    const double *va = op_test_values(a), *vb = op_test_values(b), *vy = op_test_values(y);
    REQUIRE(va && vb && vy);
    for (int64_t i = 0; i < m * n; i++) {
        long double want = 0;
        for (int64_t j = 0; j < k; j++)
            want += (long double)va[i / n * k + j] * (long double)vb[j * n + i % n];
        CHECK_NEAR(vy[i], (double)want, 1e-6 * (double)(k + 1));
    }
}

TEST(matmul_against_sums) {
    static const int64_t sizes[][3] = {{1, 1, 1},   {1, 64, 1},   {5, 7, 3},  {16, 16, 16},
                                       {17, 33, 9}, {3, 100, 40}, {40, 2, 50}};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int turn = 0; turn < 4; turn++) {
            zl_scope scope = zl_scope_begin();
            check_product(sizes[i][0], sizes[i][1], sizes[i][2], turn & 1, turn & 2);
            zl_scope_end(scope);
        }
}

// Rows with gaps are gathered and converted to float32, an odd number of elements at a time: sanitizers
// detect whether the reads are aligned.
TEST(vectors_times_half_floats_with_gaps) {
    static const zl_dtype dtypes[] = {ZL_FLOAT16, ZL_BFLOAT16};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        zl_array wide = op_test_range(ZL_SHAPE(3, 10), dtypes[d]);
        zl_array a = zl_slice(wide, ZL_SHAPE(0, 0), ZL_SHAPE(3, 10), ZL_SHAPE(1, 2));
        CHECK_ARRAY(zl_matmul(a, zl_ones(ZL_SHAPE(5), dtypes[d])), dtypes[d], ZL_SHAPE(3), 20, 70, 120);
    }
}

// Few rows times contiguous columns, for which devices have a kernel of its own.
TEST(matmul_of_few_rows) {
    for (int64_t m = 1; m <= 5; m += 2)
        ZL_SCOPE
            check_product(m, m == 5 ? 128 : 132 + 32 * m, 6 + m, false, true);
}

// The cotangent of a transposed matrix is row-major, so that an update of the matrix reads both in the same
// order.
static bool sum_of_product(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    return zl_give(out, zl_sum(zl_square(zl_matmul(in[0], zl_transpose(in[1], ZL_ALL)))));
}

TEST(cotangents_of_transposed_matrices_are_row_major) {
    zl_array in[] = {op_test_random(ZL_SHAPE(5, 7), ZL_FLOAT32, -1, 1),
                     op_test_random(ZL_SHAPE(3, 7), ZL_FLOAT32, -1, 1)},
             grad = NULL;
    zl_outputs *values = zl_outputs_new();
    REQUIRE(zl_value_and_grad((zl_fn){.call = sum_of_product}, 2, in, 1, (int[]){1}, values, &grad));
    zl_array y = zl_matmul(in[0], zl_transpose(in[1], ZL_ALL));
    zl_array want = zl_matmul(zl_transpose(zl_multiply(y, zl_scalar(2)), ZL_ALL), in[0]);
    CHECK(array_is(grad, ARRAY_CONTIGUOUS));
    CHECK_EQ_F64(zl_item(zl_allclose(grad, want, 1e-5, 1e-6, false)), 1);
    zl_outputs_free(values);
}

TEST(other_products) {
    zl_array a = FLOATS(2, 2), v = FLOATS(2), n = op_test_range(ZL_SHAPE(2), ZL_INT32);
    CHECK_ARRAY(zl_addmm(zl_ones(ZL_SHAPE(2), ZL_FLOAT32), a, a, 0.5, 2), ZL_FLOAT32, ZL_SHAPE(2, 2), 3, 3.5,
                5, 7.5);
    CHECK_ARRAY(zl_addmm(zl_ones(ZL_SHAPE(2), ZL_INT32), a, a, 1, 1), ZL_FLOAT32, ZL_SHAPE(2, 2), 3, 4, 7,
                12);
    CHECK_ARRAY(zl_inner(a, v), ZL_FLOAT32, ZL_SHAPE(2), 1, 3);
    CHECK_ARRAY(zl_inner(FLOATS(1, 1, 2), a), ZL_FLOAT32, ZL_SHAPE(1, 1, 2), 1, 3);
    CHECK_ARRAY(zl_inner(zl_scalar(2), v), ZL_FLOAT32, ZL_SHAPE(2), 0, 2);
    CHECK_ARRAY(zl_outer(n, n), ZL_INT32, ZL_SHAPE(2, 2), 0, 0, 0, 1);
    CHECK_ARRAY(zl_outer(FLOATS(1, 2), zl_scalar(3)), ZL_FLOAT32, ZL_SHAPE(2, 1), 0, 3);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_inner(a, FLOATS(3)));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_inner(n, n));
    CHECK_HAS(test_last_error(), "zl_inner: ");
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_addmm(FLOATS(3), a, a, 1, 1));
    CHECK_HAS(test_last_error(), "zl_addmm: ");
}

TEST(gradient_of_complex_products) {
    zl_array a = zl_from((float[]){1, 2, 3, -1}, ZL_SHAPE(1, 2), ZL_COMPLEX64);
    zl_array b = zl_from((float[]){0, 1, 2, 2}, ZL_SHAPE(2, 1), ZL_COMPLEX64), g;
    // The real part of (1+2i)i + (3-i)(2+2i): its gradient with respect to a is the conjugate of b.
    REQUIRE(zl_grad(zl_sum(zl_real(zl_matmul(a, b))), 1, &a, &g));
    zl_array parts[2] = {zl_real(g), zl_imag(g)};
    REQUIRE(zl_eval_all(2, parts));
    CHECK_ARRAY(parts[0], ZL_FLOAT32, ZL_SHAPE(1, 2), 0, 2);
    CHECK_ARRAY(parts[1], ZL_FLOAT32, ZL_SHAPE(1, 2), -1, -2);
}

#define FIXED(...) zl_cos(op_test_range(ZL_SHAPE(__VA_ARGS__), ZL_FLOAT64))

RULES(matmul_left, ZL_SHAPE(2, 3), zl_square(zl_matmul(x, FIXED(3, 2))))
RULES(matmul_right, ZL_SHAPE(3, 2), zl_square(zl_matmul(FIXED(2, 3), x)))
RULES(matmul_itself, ZL_SHAPE(2, 2), zl_matmul(x, zl_transpose(x, ZL_ALL)))
RULES(matmul_vectors, ZL_SHAPE(3), zl_matmul(x, zl_square(x)))
RULES(matmul_rows, ZL_SHAPE(2, 2, 3), zl_square(zl_matmul(x, FIXED(3, 2))))
RULES(matmul_one_for_all, ZL_SHAPE(3, 2), zl_square(zl_matmul(FIXED(2, 2, 3), x)))
RULES(matmul_batches, ZL_SHAPE(2, 1, 2, 3), zl_square(zl_matmul(x, FIXED(2, 3, 2))))
RULES(addmm, ZL_SHAPE(2, 2), zl_addmm(x, zl_square(x), x, 0.5, 2))
RULES(inner, ZL_SHAPE(2, 3), zl_inner(x, zl_square(x)))
RULES(outer, ZL_SHAPE(3), zl_outer(x, zl_square(x)))
