// test_qqmm.c - products with both sides quantised, compared with products of the rounded sides.

#include <limits.h>

#include "base/base.h"
#include "op/op_test.h"

static const char *const float_modes[] = {"mxfp4", "mxfp8", "nvfp4"};

struct matrix {
    zl_array part[3]; // words, scales, unused
    const char *mode;
};

static struct matrix quantize(zl_array w, const char *mode) {
    struct matrix m = {.mode = mode};
    CHECK(zl_quantize(w, INT_MIN, INT_MIN, mode, NULL, m.part) && zl_eval_all(2, m.part));
    return m;
}

// Evaluates x, so that it can be used several times.
static zl_array ready(zl_array x) {
    return zl_eval(x) ? x : NULL;
}

static zl_array whole(const struct matrix *m) {
    return zl_dequantize(m->part[0], m->part[1], NULL, INT_MIN, INT_MIN, m->mode, NULL, ZL_FLOAT32);
}

static void check_near(zl_array a, zl_array b, double bound) {
    if (CHECK(a && b && zl_eval_all(2, (zl_array[]){a, b})) &&
        CHECK(shape_equal(a->ndim, a->dim, b->ndim, b->dim) && zl_dtype_of(a) == zl_dtype_of(b)) &&
        !CHECK(zl_item(zl_allclose(a, b, bound, bound, false)) == 1))
        test_note("they differ by %g", zl_item(zl_max(zl_abs(zl_subtract(a, b)))));
}

TEST(qqmm_is_a_product_of_rounded_matrices) {
    zl_array x = op_test_random(ZL_SHAPE(3, 32), ZL_FLOAT32, -1, 1),
             w = op_test_random(ZL_SHAPE(4, 32), ZL_FLOAT32, -1, 1);
    for (size_t i = 0; i < COUNT(float_modes); i++) {
        struct matrix a = quantize(x, float_modes[i]), b = quantize(w, float_modes[i]);
        zl_array expected = ready(zl_matmul(whole(&a), zl_matrix_transpose(whole(&b))));
        check_near(zl_qqmm(x, w, NULL, INT_MIN, INT_MIN, float_modes[i], NULL, NULL), expected, 1e-4);
        check_near(zl_qqmm(x, b.part[0], b.part[1], INT_MIN, INT_MIN, float_modes[i], NULL, NULL), expected,
                   1e-4);
    }
}

// Products with matrices chosen by indices, of x and w that are rounded before.
static void check_chosen(const char *mode, zl_array global_x, zl_array global_w, zl_dtype dtype,
                         double bound) {
    zl_array x = op_test_random(ZL_SHAPE(3, 2, 32), dtype, -1, 1),
             w = op_test_random(ZL_SHAPE(5, 4, 32), ZL_FLOAT32, -1, 1), a[3], b[3];
    zl_array left = zl_from_i32((int32_t[]){2, 0}, ZL_SHAPE(2, 1)),
             right = zl_from_i32((int32_t[]){4, 1, 1}, ZL_SHAPE(3));
    REQUIRE(zl_quantize(x, INT_MIN, INT_MIN, mode, global_x, a) &&
            zl_quantize(w, INT_MIN, INT_MIN, mode, global_w, b) && zl_eval_all(2, b));
    zl_array x_hat = ready(zl_dequantize(a[0], a[1], NULL, INT_MIN, INT_MIN, mode, global_x, ZL_FLOAT32)),
             w_hat = ready(zl_dequantize(b[0], b[1], NULL, INT_MIN, INT_MIN, mode, global_w, ZL_FLOAT32));
    zl_array both = ready(zl_matmul(zl_take(x_hat, left, 0), zl_matrix_transpose(zl_take(w_hat, right, 0)))),
             all = ready(zl_matmul(x_hat, zl_matrix_transpose(zl_take(w_hat, right, 0))));
    for (int packed = 0; packed < 2; packed++) {
        zl_array matrix = packed ? b[0] : w, scales = packed ? b[1] : NULL;
        zl_array y =
            zl_gather_qqmm(x, matrix, scales, left, right, INT_MIN, INT_MIN, mode, global_x, global_w, false);
        CHECK(zl_dtype_of(y) == dtype);
        check_near(zl_astype(y, ZL_FLOAT32), both, bound);
        y = zl_gather_qqmm(x, matrix, scales, NULL, right, INT_MIN, INT_MIN, mode, global_x, global_w, true);
        check_near(zl_astype(y, ZL_FLOAT32), all, bound);
    }
}

TEST(qqmm_of_chosen_matrices) {
    zl_array global[] = {ready(zl_astype(zl_scalar(0.9), ZL_FLOAT32)),
                         ready(zl_astype(zl_scalar(1.1), ZL_FLOAT32))};
    for (size_t i = 0; i < COUNT(float_modes); i++) {
        check_chosen(float_modes[i], NULL, NULL, ZL_FLOAT32, 1e-4);
        check_chosen(float_modes[i], NULL, NULL, ZL_BFLOAT16, 3e-2);
    }
    check_chosen("nvfp4", global[0], global[1], ZL_FLOAT32, 1e-4);
}

TEST(qqmm_refuses) {
    zl_array x = op_test_random(ZL_SHAPE(2, 3, 32), ZL_FLOAT32, -1, 1), one = zl_arange(0, 1, 1, ZL_FLOAT32),
             w = op_test_random(ZL_SHAPE(4, 32), ZL_FLOAT32, -1, 1);
#define GATHER(x, w, left, mode) \
    zl_gather_qqmm(x, w, NULL, left, NULL, INT_MIN, INT_MIN, mode, NULL, NULL, false)
    CHECK_ERROR(ZL_ERROR_VALUE, GATHER(x, w, NULL, "affine"));
    CHECK_ERROR(ZL_ERROR_VALUE, GATHER(x, w, NULL, "fp3"));
    CHECK_ERROR(ZL_ERROR_DTYPE, GATHER(x, w, one, "mxfp8"));
    CHECK_ERROR(ZL_ERROR_DTYPE, GATHER(zl_astype(x, ZL_FLOAT64), w, NULL, "mxfp8"));
    CHECK_ERROR(ZL_ERROR_SHAPE, GATHER(one, w, NULL, "mxfp8"));
    CHECK_ERROR(ZL_ERROR_SHAPE, GATHER(x, op_test_random(ZL_SHAPE(4, 64), ZL_FLOAT32, -1, 1), NULL, "mxfp8"));
    CHECK_ERROR(ZL_ERROR_SHAPE,
                GATHER(x, op_test_random(ZL_SHAPE(3, 4, 32), ZL_FLOAT32, -1, 1), NULL, "mxfp8"));
    CHECK(!GATHER(NULL, w, NULL, NULL) && !GATHER(x, NULL, NULL, NULL) && !zl_error());
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_qqmm(x, x, NULL, INT_MIN, INT_MIN, NULL, NULL, NULL));
#undef GATHER
}

// Derivatives treat rounding as the identity: they are those of the product of the rounded x and w.
TEST(gradients_of_products_of_rounded_matrices) {
    zl_array in[] = {op_test_random(ZL_SHAPE(2, 3, 32), ZL_FLOAT32, -1, 1),
                     op_test_random(ZL_SHAPE(2, 4, 32), ZL_FLOAT32, -1, 1)},
             g[2], want[2], hat[2], index = zl_from_i32((int32_t[]){1}, ZL_SHAPE(1));
    for (int i = 0; i < 2; i++) {
        struct matrix m = quantize(in[i], "mxfp8");
        hat[i] = ready(whole(&m));
    }
    zl_array y =
        zl_gather_qqmm(in[0], in[1], NULL, index, NULL, INT_MIN, INT_MIN, "mxfp8", NULL, NULL, false);
    REQUIRE(zl_grad(zl_sum(zl_sin(y)), 2, in, g));
    y = zl_gather_mm(hat[0], zl_matrix_transpose(hat[1]), index, NULL, false);
    REQUIRE(zl_grad(zl_sum(zl_sin(y)), 2, hat, want));
    for (int i = 0; i < 2; i++)
        check_near(g[i], want[i], 1e-5);
    struct matrix m = quantize(op_test_random(ZL_SHAPE(4, 32), ZL_FLOAT32, -1, 1), "mxfp8");
    y = zl_qqmm(in[0], m.part[0], m.part[1], INT_MIN, INT_MIN, "mxfp8", NULL, NULL);
    REQUIRE(zl_grad(zl_sum(zl_sin(y)), 1, in, g));
    REQUIRE(zl_grad(zl_sum(zl_sin(zl_matmul(hat[0], zl_matrix_transpose(whole(&m))))), 1, hat, want));
    check_near(g[0], want[0], 1e-5);
}
