// test_cross_entropy_vjp.c - the gradient of cross entropy as one op: compared with the same composed of
// other ops, for logits that were converted to float32, and its own rules.

#include "op/op_test.h"
#include "op/ops.h"

enum { ROWS = 5 };

static zl_array some_logits(int64_t classes, zl_dtype dtype) {
    zl_array x = zl_sin(zl_arange(0, (double)(ROWS * classes), 1, ZL_FLOAT64));
    x = zl_astype(zl_reshape(zl_multiply(x, zl_scalar(3)), ZL_SHAPE(ROWS, classes)), dtype);
    CHECK(zl_eval(x));
    return x;
}

// Some targets count from the end, and some are out of range.
static zl_array some_targets(int64_t classes) {
    return zl_from_i64((int64_t[]){0, classes - 1, -1, classes + 9, -classes - 9}, ZL_SHAPE(ROWS));
}

// Returns the gradient of the sum of losses, each with its own weight.
static zl_array gradient(zl_array x, zl_array loss) {
    zl_array weight =
        zl_subtract(zl_arange(1, ROWS + 1, 1, (zl_dtype)loss->dtype), op_number((zl_dtype)loss->dtype, 2.5));
    zl_array grad;
    return zl_grad(zl_sum(zl_multiply(loss, weight)), 1, &x, &grad) ? grad : NULL;
}

static void check_gradient(int64_t classes, zl_dtype dtype) {
    zl_array x = some_logits(classes, dtype), composed;
    zl_array grad = gradient(x, zl_fast_cross_entropy(x, some_targets(classes)));
    REQUIRE(grad && grad->call->op == &op_cross_entropy_vjp);
    CHECK_EQ_INT(grad->dtype, dtype);
    REQUIRE(op_cross_entropy_vjp.composed(grad->call, grad->call->in, &composed));
    double bound = zl_dtype_size(dtype) == 2 ? 0x1p-7 : 0; // 16-bit results may be rounded to the
                                                           // neighbouring number
    CHECK_EQ_INT(zl_item_int(zl_allclose(grad, composed, bound, bound * 1e-6, false)), 1);
}

// Rows that begin at multiples of 16 bytes, and others; rows of more than a tile.
TEST(cross_entropy_gradient_is_its_formula) {
    static const zl_dtype dtypes[] = {ZL_FLOAT16, ZL_BFLOAT16, ZL_FLOAT32, ZL_FLOAT64};
    static const int64_t classes[] = {1, 7, 16, 2056};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (size_t k = 0; k < sizeof classes / sizeof *classes; k++)
            if (test_samples(5))
                ZL_SCOPE {
                    check_gradient(classes[k], dtypes[i]);
                }
}

// Logits that were converted to float32 are read in their original dtype, in which the gradient is written
// too.
TEST(cross_entropy_of_widened_logits) {
    static const zl_dtype dtypes[] = {ZL_FLOAT16, ZL_BFLOAT16};
    for (int i = 0; i < 2; i++)
        ZL_SCOPE {
            zl_array x = some_logits(24, dtypes[i]), at = some_targets(24), wide = zl_astype(x, ZL_FLOAT32);
            zl_array loss = zl_fast_cross_entropy(wide, at), narrow = zl_fast_cross_entropy(x, at);
            CHECK(loss->call->in[0] == x);
            zl_array grad = gradient(x, loss);
            CHECK(grad && grad->dtype == dtypes[i] && grad->call->op == &op_cross_entropy_vjp);
            zl_array same = zl_logical_and(zl_array_equal(loss, narrow, false),
                                           zl_array_equal(grad, gradient(x, narrow), false));
            CHECK_EQ_INT(zl_item_int(same), 1);
        }
}

// The same if they were reshaped or sliced after the conversion.
TEST(cross_entropy_of_parts_of_widened_logits) {
    zl_array x = some_logits(24, ZL_BFLOAT16), at = some_targets(16);
    zl_array wide = zl_reshape(zl_astype(x, ZL_FLOAT32), ZL_SHAPE(1, ROWS, 24));
    wide = zl_slice(wide, ZL_SHAPE(0, 0, 8), ZL_SHAPE(1, ROWS, 24), ZL_SHAPE(1, 1, 1));
    zl_array loss = zl_fast_cross_entropy(zl_reshape(wide, ZL_SHAPE(ROWS, 16)), at);
    CHECK_EQ_INT(loss->call->in[0]->dtype, ZL_BFLOAT16);
    zl_array part = zl_slice(x, ZL_SHAPE(0, 8), ZL_SHAPE(ROWS, 24), ZL_SHAPE(1, 1));
    zl_array grad = gradient(x, loss), other = gradient(x, zl_fast_cross_entropy(part, at));
    CHECK_EQ_INT(zl_item_int(zl_array_equal(grad, other, false)), 1);
}

// The gradient with respect to the converted logits also exists; if these are already computed, they are
// read.
TEST(cross_entropy_of_wide_logits) {
    zl_array x = some_logits(24, ZL_BFLOAT16), at = some_targets(24), wide = zl_astype(x, ZL_FLOAT32), kept;
    CHECK((kept = zl_retain(wide)) && zl_eval(kept));
    zl_array loss = zl_fast_cross_entropy(kept, at), grad = gradient(kept, loss);
    CHECK(loss->call->in[0] == kept && grad && grad->dtype == ZL_FLOAT32);
    CHECK(zl_eval(grad));
    zl_release(kept);
}

static zl_array slopes(zl_array x) {
    zl_array loss = zl_fast_cross_entropy(x, zl_from_i32((int32_t[]){2, 0, -1}, ZL_SHAPE(3))), grad;
    return zl_grad(zl_sum(loss), 1, &x, &grad) ? grad : NULL;
}
RULES(cross_entropy_slopes, ZL_SHAPE(3, 4), slopes(x))
