// test_delta_rule_vjp.c - gradients of the delta rule on the default device, compared with those of the
// recurrence in float64. Sequences are long enough for the kernel that computes in chunks, if the device has
// it (op_delta_form).

#include "test.h"

#include "op/ops.h"

#include <math.h>

enum { TIME = 37, HEADS = 2, WIDTH = 16, INPUTS = 6, RESULTS = 2, FOUND = INPUTS + RESULTS };

// Returns numbers from -1 to 1.
static zl_array numbers(zl_shape shape, int seed) {
    return zl_random_uniform(zl_scalar(-1), zl_scalar(1), shape, ZL_FLOAT32, zl_random_key(seed));
}

// Computes the gradients of a number made from both results, then the results, as float64, retained.
static bool gradients(const char *rule, zl_dtype dtype, zl_array *out) {
    const zl_shape vectors = ZL_SHAPE(1, TIME, HEADS, WIDTH), gates = ZL_SHAPE(1, TIME, HEADS);
    zl_array keys = zl_multiply(numbers(vectors, 2), zl_scalar(0.25)), result[RESULTS], grad[INPUTS];
    zl_array in[INPUTS] = {numbers(vectors, 1),
                           keys,
                           numbers(vectors, 3),
                           zl_negative(zl_abs(numbers(gates, 4))),
                           numbers(ZL_SHAPE(1, HEADS, WIDTH, WIDTH), 5),
                           zl_abs(numbers(gates, 6))};
    for (int i = 0; i < INPUTS; i++)
        in[i] = zl_astype(in[i], dtype);
    if (!zl_fast_delta_rule(rule, in[0], in[1], in[2], in[3], in[5], NULL, NULL, in[4], NULL, NULL, NULL,
                            NULL, 0.5, false, false, result))
        return false;
    zl_array loss = zl_scalar(0);
    for (int i = 0; i < RESULTS; i++) {
        zl_array slope = zl_astype(numbers(zl_shape_of(result[i]), 7 + i), dtype);
        loss = zl_add(loss, zl_sum(zl_multiply(result[i], slope)));
    }
    if (!zl_grad(loss, INPUTS, in, grad))
        return false;
    for (int i = 0; i < FOUND; i++)
        out[i] =
            zl_retain(zl_contiguous(zl_astype(i < INPUTS ? grad[i] : result[i - INPUTS], ZL_FLOAT64), false));
    return zl_eval_all(FOUND, out);
}

static double error_of(zl_array got, zl_array want) {
    const double *a = zl_data_f64(got), *b = zl_data_f64(want);
    double off = 0, all = 1e-300;
    for (int64_t i = 0; a && b && i < zl_size(want); i++) {
        off += (a[i] - b[i]) * (a[i] - b[i]);
        all += b[i] * b[i];
    }
    return a && b ? sqrt(off / all) : 1;
}

static void check_rule(const char *rule) {
    zl_array got[FOUND] = {0}, want[FOUND] = {0};
    CHECK(gradients(rule, ZL_FLOAT32, got));
    zl_scope scope = zl_scope_begin_on(zl_new_stream("cpu"));
    CHECK(gradients(rule, ZL_FLOAT64, want));
    for (int i = 0; i < FOUND; i++) {
        CHECK(got[i] && want[i] && error_of(got[i], want[i]) < 2e-5);
        zl_release(got[i]);
        zl_release(want[i]);
    }
    zl_scope_end(scope);
}

TEST(delta_rule_gradients_are_those_of_the_recurrence) {
    check_rule("gated_delta");
}
