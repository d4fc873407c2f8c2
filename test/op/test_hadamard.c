// test_hadamard.c - Hadamard transforms.

#include <math.h>

#include "op/op_test.h"

TEST(hadamard_of_small_orders) {
    zl_array x = zl_from_f32((float[]){1, 2, 3, 4}, ZL_SHAPE(4));
    CHECK_ARRAY(zl_hadamard_transform(x, 1), ZL_FLOAT32, ZL_SHAPE(4), 10, -2, -4, 0);
    CHECK_ARRAY(zl_hadamard_transform(zl_astype(x, ZL_INT32), NAN), ZL_FLOAT32, ZL_SHAPE(4), 5, -1, -2, 0);
    CHECK_ARRAY(zl_hadamard_transform(zl_reshape(x, ZL_SHAPE(2, 2)), 1), ZL_FLOAT32, ZL_SHAPE(2, 2), 3, -1, 7,
                -1);
    CHECK_ARRAY(zl_hadamard_transform(zl_scalar_int(3), NAN), ZL_INT32, ZL_SCALAR, 3);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_hadamard_transform(zl_zeros(ZL_SHAPE(6), ZL_FLOAT32), 1));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_hadamard_transform(zl_zeros(ZL_SHAPE(0), ZL_FLOAT32), 1));
}

// The rows of the matrix are orthogonal, for every kind of order.
TEST(hadamard_keeps_lengths) {
    static const int64_t orders[] = {2, 12, 20, 24, 28, 40, 64, 112, 128, 256, 12 * 32};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        ZL_SCOPE {
            int64_t n = orders[i];
            zl_array h = zl_hadamard_transform(zl_eye(n, n, 0, ZL_FLOAT64), NAN);
            zl_array same = zl_matmul(h, zl_matrix_transpose(h));
            if (!CHECK(zl_item_int(zl_allclose(same, zl_eye(n, n, 0, ZL_FLOAT64), 1e-9, 1e-9, false)) == 1))
                test_note("order %d", (int)n);
        }
}

RULES(hadamard, ZL_SHAPE(2, 24), zl_square(zl_hadamard_transform(x, 0.5)))
