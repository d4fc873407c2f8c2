// test_fast.c - norms and attention compared with their formulas.

#include <math.h>

#include "op/op_test.h"

TEST(norms) {
    zl_array x = zl_from_f32((float[]){1, -1, 7, 1, 2, 3}, ZL_SHAPE(2, 3));
    zl_array weight = zl_from_f32((float[]){1, 2, 3}, ZL_SHAPE(3)),
             bias = zl_from_f32((float[]){0, 0, 1}, ZL_SHAPE(3));
    double r = 1 / sqrt(17), s = 1 / sqrt(14.0 / 3);
    CHECK_ARRAY_NEAR(zl_fast_rms_norm(x, NULL, 0), ZL_FLOAT32, ZL_SHAPE(2, 3), 1e-6, r, -r, 7 * r, s, 2 * s,
                     3 * s);
    CHECK_ARRAY_NEAR(zl_fast_rms_norm(x, weight, 0), ZL_FLOAT32, ZL_SHAPE(2, 3), 1e-6, r, -2 * r, 21 * r, s,
                     4 * s, 9 * s);
    double t = 1 / sqrt(2.0 / 3);
    zl_array row = zl_slice(x, ZL_SHAPE(1, 0), ZL_SHAPE(2, 3), ZL_SHAPE(1, 1));
    CHECK_ARRAY_NEAR(zl_fast_layer_norm(row, weight, bias, 0), ZL_FLOAT32, ZL_SHAPE(1, 3), 1e-6, -t, 0,
                     3 * t + 1);
    CHECK_ARRAY_NEAR(zl_fast_layer_norm(row, NULL, bias, 0), ZL_FLOAT32, ZL_SHAPE(1, 3), 1e-6, -t, 0, t + 1);
    CHECK_EQ_INT(zl_dtype_of(zl_fast_rms_norm(zl_astype(x, ZL_FLOAT16), NULL, 0)), ZL_FLOAT16);
    CHECK_EQ_INT(zl_dtype_of(zl_fast_rms_norm(zl_astype(x, ZL_FLOAT16), weight, 0)), ZL_FLOAT32);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_fast_rms_norm(x, row, 0));
    CHECK_STR(test_last_error(),
              "zl_fast_rms_norm: a weight of shape (1, 3) for x of shape (2, 3): (3,) is needed");
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_fast_layer_norm(zl_scalar(1), NULL, NULL, 0));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_fast_layer_norm(zl_astype(x, ZL_INT32), NULL, NULL, 0));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_fast_rms_norm(x, zl_flip(x, ZL_AXES(2)), 0)); // an invalid argument is an
                                                                                // error, not an absent one
}

// Computes the formula for one head, with its own mask.
static zl_array one_head(zl_array q, zl_array k, zl_array v, double scale, zl_array mask) {
    zl_array scores = zl_multiply(zl_matmul(q, zl_matrix_transpose(k)), zl_scalar(scale));
    return zl_matmul(zl_softmax(mask ? zl_add(scores, mask) : scores, -1, true), v);
}

static zl_array head(zl_array x, int64_t which) {
    return zl_take(zl_take(x, zl_scalar_int(which), 1), zl_scalar_int(0), 0);
}

TEST(attention_of_shared_heads) {
    zl_array q = op_test_ready(op_test_random(ZL_SHAPE(1, 4, 3, 5), ZL_FLOAT32, -1, 1));
    zl_array k = op_test_ready(op_test_random(ZL_SHAPE(1, 2, 4, 5), ZL_FLOAT32, -1, 1));
    zl_array v = op_test_ready(op_test_random(ZL_SHAPE(1, 2, 4, 2), ZL_FLOAT32, -1, 1));
    zl_array mask = op_test_ready(op_test_random(ZL_SHAPE(3, 4), ZL_FLOAT32, -1, 1));
    zl_array seen = op_test_ready(zl_tri(3, 4, 1, ZL_BOOL)),
             never = op_test_ready(zl_where(seen, zl_scalar(0), zl_scalar(-1e30)));
    zl_array plain = op_test_ready(zl_fast_scaled_dot_product_attention(q, k, v, 0.4, NULL, NULL, NULL));
    zl_array added = op_test_ready(zl_fast_scaled_dot_product_attention(q, k, v, 0.4, mask, NULL, ""));
    zl_array truth = op_test_ready(zl_fast_scaled_dot_product_attention(q, k, v, 0.4, seen, NULL, NULL));
    zl_array causal = op_test_ready(zl_fast_scaled_dot_product_attention(q, k, v, 0.4, NULL, NULL, "causal"));
    for (int i = 0; i < 4; i++) {
        CHECK(op_test_near(head(plain, i), one_head(head(q, i), head(k, i / 2), head(v, i / 2), 0.4, NULL)));
        CHECK(op_test_near(head(added, i), one_head(head(q, i), head(k, i / 2), head(v, i / 2), 0.4, mask)));
        CHECK(op_test_near(head(truth, i), one_head(head(q, i), head(k, i / 2), head(v, i / 2), 0.4, never)));
    }
    CHECK(op_test_near(truth, causal));
    zl_array low = zl_full(ZL_SHAPE(4), zl_scalar(-1e30), ZL_FLOAT32),
             high = zl_full(ZL_SHAPE(4), zl_scalar(80), ZL_FLOAT32);
    CHECK(op_test_near(zl_fast_scaled_dot_product_attention(q, k, v, 0.4, NULL, low, NULL), plain));
    zl_array drained = zl_fast_scaled_dot_product_attention(q, k, v, 0.4, NULL, high, NULL);
    CHECK(zl_item(zl_max(zl_abs(drained))) < 1e-20);
}

TEST(attention_refuses) {
    zl_array q = zl_zeros(ZL_SHAPE(1, 4, 3, 5), ZL_FLOAT16), k = zl_zeros(ZL_SHAPE(1, 2, 4, 5), ZL_FLOAT16);
    zl_array odd = zl_zeros(ZL_SHAPE(1, 3, 4, 5), ZL_FLOAT16), mask = zl_zeros(ZL_SHAPE(3, 4), ZL_FLOAT16);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_fast_scaled_dot_product_attention(q, odd, odd, 1, NULL, NULL, NULL));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_fast_scaled_dot_product_attention(q, k, odd, 1, NULL, NULL, NULL));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_fast_scaled_dot_product_attention(mask, k, k, 1, NULL, NULL, NULL));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_fast_scaled_dot_product_attention(q, k, k, 1, odd, NULL, NULL));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_fast_scaled_dot_product_attention(q, k, k, 1, NULL, mask, NULL));
    CHECK_ERROR(ZL_ERROR_DTYPE,
                zl_fast_scaled_dot_product_attention(q, k, k, 1, zl_astype(mask, ZL_FLOAT32), NULL, NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_fast_scaled_dot_product_attention(q, k, k, 1, mask, NULL, "causal"));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_fast_scaled_dot_product_attention(q, k, k, 1, NULL, NULL, "full"));
    CHECK_HAS(test_last_error(), "mask_mode 'full' without a mask");
}

#define LAST(x)  zl_sum_axis((x), 0, false)
#define HEADS(x) zl_reshape((x), ZL_SHAPE(1, 4, 2, 2))
#define KEYS(x)  zl_reshape(zl_square(x), ZL_SHAPE(1, 2, 4, 2))
#define ATTENTION(x)                                                                                      \
    zl_fast_scaled_dot_product_attention(HEADS(x), KEYS(x), KEYS(x), 0.7, NULL, zl_sum_axis(x, 1, false), \
                                         "causal")

RULES(rms_norm, ZL_SHAPE(2, 3), zl_fast_rms_norm(x, LAST(x), 1e-5))
RULES(layer_norm, ZL_SHAPE(2, 3), zl_fast_layer_norm(x, LAST(x), zl_square(LAST(x)), 1e-5))
RULES(attention, ZL_SHAPE(4, 4), ATTENTION(x))
