// test_cpu_faults.c - allocations fail at every place of an evaluation: it fails with a reason, or succeeds,
// and nothing leaks.

#include "test.h"

#include "graph/graph.h"

// Runs work() with the first, second, ... allocation failing, until work() needs fewer.
static void survive(bool (*work)(void)) {
    for (long at = 1; at < 2000; at++) {
        zl_clear_cache();
        memory_fail_at(at);
        bool done = false;
        ZL_SCOPE
            done = work();
        long used = memory_allocations();
        memory_fail_at(0);
        if (!done && !CHECK(zl_error_which() == ZL_ERROR_MEMORY))
            test_note("at %ld: %s", at, zl_error() ? zl_error() : "no error");
        zl_clear_error();
        if (used < at) {
            CHECK(done);
            return;
        }
    }
    CHECK(!"it ends");
}

static bool together(void) {
    zl_array x = zl_zeros(ZL_SHAPE(100, 200), ZL_FLOAT32);
    zl_array a = zl_add(x, zl_scalar(1)), b = zl_multiply(a, a), c = zl_exp(zl_negative(b));
    zl_array results[3] = {c, a, zl_add(c, zl_arange(0, 200, 1, ZL_FLOAT32))};
    return zl_eval_all(3, results) && zl_data_f32(results[0]);
}

static bool reductions(void) {
    zl_array x = zl_ones(ZL_SHAPE(300, 3, 400), ZL_FLOAT32);
    zl_array results[4] = {zl_sum(x), zl_sum_axis(x, 0, false), zl_max_axis(x, 2, false),
                           zl_argmax_axis(x, 0, false)};
    return zl_eval_all(4, results) && zl_item(results[0]) == 360000;
}

static bool products(void) {
    zl_array a = zl_ones(ZL_SHAPE(2, 40, 300), ZL_FLOAT32), h = zl_astype(a, ZL_BFLOAT16);
    zl_array results[3] = {zl_matmul(a, zl_swapaxes(a, 1, 2)), zl_matmul(h, zl_swapaxes(h, 1, 2)),
                           zl_matmul(h, zl_ones(ZL_SHAPE(2, 300, 1), ZL_BFLOAT16))};
    return zl_eval_all(3, results);
}

// Calls that follow a product run on its parts, for which allocations may fail.
static bool epilogues(void) {
    zl_array x = zl_ones(ZL_SHAPE(200, 100), ZL_FLOAT32), h = zl_astype(x, ZL_BFLOAT16);
    zl_array y = zl_exp(zl_add(zl_matmul(x, zl_matrix_transpose(x)), zl_scalar(-100)));
    zl_array z = zl_softmax(zl_negative(zl_matmul(h, zl_matrix_transpose(h))), -1, false);
    return zl_eval_all(2, (zl_array[]){y, z}) && zl_data_f32(y);
}

// Only the calls that read an intermediate result hold it: it must not be freed too early.
static bool unheld(void) {
    zl_array y = NULL;
    ZL_SCOPE {
        zl_array x = zl_ones(ZL_SHAPE(100, 100), ZL_FLOAT32);
        zl_array rows = zl_exp(zl_negative(zl_add(zl_matmul(x, x), zl_scalar(1))));
        y = zl_retain(zl_tanh(zl_matmul(zl_sqrt(zl_abs(zl_sin(rows))), rows)));
    }
    bool done = y && zl_eval(y);
    zl_release(y);
    return done;
}

static bool indexing(void) {
    zl_array x = zl_reshape(zl_arange_int(0, 600, 1, ZL_INT32), ZL_SHAPE(20, 30));
    zl_array index = zl_arange_int(0, 10, 1, ZL_INT16);
    zl_array results[3] = {zl_take(zl_matrix_transpose(x), index, 1),
                           zl_concatenate((zl_array[]){x, x}, 2, 1),
                           zl_pad(x, ZL_SHAPE(1, 2), ZL_SHAPE(3, 0), zl_scalar_int(5))};
    return zl_eval_all(3, results);
}

TEST(calls_that_run_together) {
    survive(together);
}
TEST(reductions_and_searches) {
    survive(reductions);
}
TEST(matrix_products) {
    survive(products);
}
TEST(products_and_what_follows) {
    survive(epilogues);
}
TEST(results_that_nothing_else_holds) {
    survive(unheld);
}
TEST(indexing_and_joining) {
    survive(indexing);
}
