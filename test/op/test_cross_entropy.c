// test_cross_entropy.c - the cross entropy loss compared with sums of exponentials that are written out, its
// gradients, invalid input.

#include <math.h>
#include <string.h>

#include "op/op_test.h"

OP_RULES_HERE(zl_fast_cross_entropy);

enum { ROWS = 5, CLASSES = 7, LONG = 4000 }; // LONG: more than a tile of the kernel

static zl_array some_targets(int64_t classes) {
    int32_t at[ROWS];
    for (int i = 0; i < ROWS; i++)
        at[i] = (int32_t)test_between(0, classes - 1);
    return zl_from_i32(at, ZL_SHAPE(ROWS));
}

// Returns log(sum(exp(x))) of n numbers.
static double log_sum(const double *x, int64_t n) {
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i] - top);
    return top + log(sum);
}

static void check_losses(zl_dtype dtype, int64_t classes, double spread) {
    zl_array x = op_test_random(ZL_SHAPE(ROWS, classes), dtype, -spread, spread), at = some_targets(classes);
    zl_array y = zl_fast_cross_entropy(x, at);
    REQUIRE(y && zl_eval(y));
    CHECK_EQ_INT(y->dtype, ZL_FLOAT32);
    const double *logit = op_test_values(x), *target = op_test_values(at), *loss = op_test_values(y);
    for (int64_t i = 0; i < ROWS; i++) {
        double sum = log_sum(logit + i * classes, classes);
        CHECK_NEAR(loss[i], sum - logit[i * classes + (int64_t)target[i]], 2e-6 * (1 + fabs(sum)));
    }
}

TEST(cross_entropy_is_its_formula) {
    static const zl_dtype dtypes[] = {ZL_FLOAT16, ZL_BFLOAT16, ZL_FLOAT32, ZL_FLOAT64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (test_samples(3))
            ZL_SCOPE {
                check_losses(dtypes[i], 1, 3);
                check_losses(dtypes[i], CLASSES, 3);
                check_losses(dtypes[i], 800, 80);
            }
}

// Rows of more than one tile, ascending or descending: the running maximum changes, or does not.
TEST(cross_entropy_of_long_lines) {
    for (int sign = -1; sign < 2; sign += 2)
        ZL_SCOPE {
            zl_array line = zl_multiply(zl_arange(0, LONG, 1, ZL_FLOAT64), zl_scalar(sign * 0.1));
            zl_array y = zl_fast_cross_entropy(zl_astype(line, ZL_FLOAT32), zl_scalar_int(3));
            double want = log_sum(op_test_values(line), LONG) - sign * 0.3;
            CHECK_NEAR(zl_item(y), want, 1e-6 * (1 + fabs(want)));
        }
}

TEST(cross_entropy_of_odd_numbers) {
    const float inf = INFINITY;
    zl_array x = zl_from_f32((float[]){-inf, 1, inf, 1, -inf, -inf, NAN, 1}, ZL_SHAPE(4, 2));
    CHECK_ARRAY(zl_fast_cross_entropy(x, zl_from_i32((int32_t[]){1, 1, 1, 1}, ZL_SHAPE(4))), ZL_FLOAT32,
                ZL_SHAPE(4), 0, inf, NAN, NAN);
    CHECK_ARRAY(zl_fast_cross_entropy(x, zl_from_i32((int32_t[]){0, -2, 0, 0}, ZL_SHAPE(4))), ZL_FLOAT32,
                ZL_SHAPE(4), inf, NAN, NAN, NAN);
    zl_array none = zl_zeros(ZL_SHAPE(0, 3), ZL_FLOAT32);
    CHECK_EMPTY(zl_fast_cross_entropy(none, zl_zeros(ZL_SHAPE(0), ZL_INT32)), ZL_FLOAT32, ZL_SHAPE(0));
}

// A constant added to all logits does not matter, however large it is.
TEST(cross_entropy_of_large_numbers) {
    static const float common[] = {0, 1e4F, 1e6F, -1e6F};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        ZL_SCOPE {
            zl_array x = zl_from_f32((float[]){common[i] + 2, common[i] - 1}, ZL_SHAPE(1, 2));
            CHECK_NEAR(zl_item(zl_fast_cross_entropy(x, zl_zeros(ZL_SHAPE(1), ZL_INT32))), log1p(exp(-3)),
                       1e-6);
        }
}

TEST(cross_entropy_takes_any_layout) {
    zl_array x = op_test_random(ZL_SHAPE(CLASSES, ROWS), ZL_FLOAT32, -2, 2), at = some_targets(CLASSES);
    zl_array turned = zl_transpose(x, ZL_ALL), flipped = zl_flip(at, ZL_ALL);
    zl_array y = zl_fast_cross_entropy(turned, flipped);
    zl_array z = zl_fast_cross_entropy(zl_contiguous(turned, false), zl_contiguous(flipped, false));
    CHECK_EQ_INT(zl_item_int(zl_array_equal(y, z, false)), 1);
}

// Rules -----------------------------------------------------------------------------------------------------

struct targets {
    zl_array at;
};

static bool losses(void *data, int count, const zl_array *in, zl_outputs *out) {
    const struct targets *t = data;
    (void)count;
    return zl_give(out, zl_fast_cross_entropy(in[0], t->at));
}

// The gradient is the softmax, minus one at the target.
static double slope(const double *row, int64_t target, int64_t at) {
    return exp(row[at] - log_sum(row, CLASSES)) - (at == target);
}

TEST(cross_entropy_slope_is_softmax_less_one) {
    zl_array x = op_test_random(ZL_SHAPE(ROWS, CLASSES), ZL_FLOAT64, -2, 2), grad;
    zl_array w = op_test_random(ZL_SHAPE(ROWS), ZL_FLOAT32, -1, 1);
    struct targets targets = {some_targets(CLASSES)};
    REQUIRE(zl_vjp((zl_fn){.call = losses, .data = &targets}, 1, &x, 1, &w, NULL, &grad));
    const double *logit = op_test_values(x), *target = op_test_values(targets.at),
                 *weight = op_test_values(w);
    const double *got = op_test_values(grad);
    for (int64_t i = 0; i < ROWS * CLASSES; i++) {
        int64_t row = i / CLASSES;
        CHECK_NEAR(got[i], weight[row] * slope(logit + row * CLASSES, (int64_t)target[row], i % CLASSES),
                   1e-9);
    }
}

TEST(cross_entropy_moves_along_its_slope) {
    zl_array x = op_test_random(ZL_SHAPE(ROWS, CLASSES), ZL_FLOAT64, -2, 2);
    zl_array t = op_test_random(ZL_SHAPE(ROWS, CLASSES), ZL_FLOAT64, -1, 1);
    struct targets targets = {some_targets(CLASSES)};
    zl_outputs *tangents = zl_outputs_new();
    REQUIRE(zl_jvp((zl_fn){.call = losses, .data = &targets}, 1, &x, &t, NULL, tangents));
    const double *logit = op_test_values(x), *target = op_test_values(targets.at), *step = op_test_values(t);
    const double *moved = op_test_values(zl_outputs_get(tangents, 0));
    for (int64_t i = 0; i < ROWS; i++) {
        double sum = 0;
        for (int64_t k = 0; k < CLASSES; k++)
            sum += slope(logit + i * CLASSES, (int64_t)target[i], k) * step[i * CLASSES + k];
        CHECK_NEAR(moved[i], sum, 1e-6);
    }
    zl_outputs_free(tangents);
}

static zl_array penalty(zl_array x) { // of a batch, summed with weights
    static const int32_t at[] = {2, 0, -1};
    return zl_fast_cross_entropy(x, zl_from_i32(at, ZL_SHAPE(3)));
}
BATCHING(cross_entropy, ZL_SHAPE(3, 4), penalty(x))

static bool each(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    return zl_give(out, zl_fast_cross_entropy(in[0], in[1]));
}

TEST(cross_entropy_of_batches_of_targets) {
    zl_array in[] = {op_test_random(ZL_SHAPE(CLASSES), ZL_FLOAT32, -2, 2), some_targets(CLASSES)};
    zl_outputs *out = zl_outputs_new();
    REQUIRE(zl_vmap((zl_fn){.call = each}, 2, in, (int[]){-1, 0}, 1, NULL, out));
    zl_array whole = zl_fast_cross_entropy(zl_broadcast_to(in[0], ZL_SHAPE(ROWS, CLASSES)), in[1]);
    CHECK_EQ_INT(zl_item_int(zl_array_equal(zl_outputs_get(out, 0), whole, false)), 1);
    zl_outputs_free(out);
}

TEST(cross_entropy_refuses_what_does_not_fit) {
    zl_array x = op_test_random(ZL_SHAPE(ROWS, CLASSES), ZL_FLOAT32, -2, 2), at = some_targets(CLASSES);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_fast_cross_entropy(x, zl_scalar_int(1)));
    CHECK_STR(test_last_error(),
              "zl_fast_cross_entropy: targets of shape () for logits of shape (5, 7): (5,) is needed");
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_fast_cross_entropy(zl_scalar(1), zl_scalar_int(1)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_fast_cross_entropy(zl_zeros(ZL_SHAPE(ROWS, 0), ZL_FLOAT32), at));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_fast_cross_entropy(x, zl_astype(at, ZL_FLOAT32)));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_fast_cross_entropy(zl_astype(x, ZL_INT32), at));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_fast_cross_entropy(zl_astype(x, ZL_COMPLEX64), at));
    CHECK(zl_fast_cross_entropy(NULL, at) == NULL && zl_fast_cross_entropy(x, NULL) == NULL);
}
