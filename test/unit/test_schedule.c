// test_schedule.c - evaluation: order, plans, donation, memory counters, streams, threads, and errors of
// arrays.

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/schedule.h"
#include "test.h"

static zl_array counting(int64_t n) {
    return zl_arange(0, (double)n, 1, ZL_FLOAT32);
}

// Walking ---------------------------------------------------------------------------------------------------

TEST(eval_of_a_chain_of_a_million) {
    int64_t n = test_quick() ? 50000 : 1000000;
    zl_array x = zl_from_f32((float[]){0}, ZL_SHAPE(1));
    for (int64_t i = 0; i < n; i++)
        x = zl_add(x, zl_scalar(i % 2 ? 1 : 2));
    CHECK(zl_eval(x));
    CHECK_EQ_F64(zl_item(x), 1.5 * (double)n);
}

TEST(eval_computes_shared_nodes_once) {
    zl_array x = counting(4), shared = zl_exp(x);
    int64_t before = zl_counter("kernels");
    zl_array y = zl_add(zl_multiply(shared, shared), shared);
    CHECK(zl_eval(y));
    CHECK_EQ_INT(zl_counter("kernels") - before, 4); // arange, exp, multiply, add
}

TEST(eval_all_takes_several_and_ready_ones) {
    zl_array x = counting(3), a = zl_negative(x), b = zl_square(x);
    CHECK(zl_eval_all(3, (zl_array[]){x, a, b}));
    CHECK(zl_eval_all(3, (zl_array[]){x, a, b}));
    CHECK_EQ_F64(zl_data_f32(a)[2], -2);
    CHECK_EQ_F64(zl_data_f32(b)[2], 4);
    CHECK(zl_eval_all(0, NULL));
}

// Plans -----------------------------------------------------------------------------------------------------

static double step(zl_array x, double rate) {
    double value = 0;
    ZL_SCOPE
        value = zl_item(zl_sum(zl_multiply(zl_add(x, x), zl_scalar(rate))));
    return value;
}

TEST(plans_are_found_again_for_other_sizes_and_numbers) {
    plan_clear(); // other tests may have made the same plans
    step(counting(8), 1);
    int64_t plans = zl_counter("plans"), hits = zl_counter("plan_hits");
    for (int n = 2; n < 20; n++) {
        zl_array x = counting(n);
        zl_eval(x);
        step(x, 0.5 * n);
    }
    CHECK_EQ_INT(zl_counter("plans") - plans,
                 2); // one for `counting`, and one for a step on existing data
    CHECK(zl_counter("plan_hits") - hits >= 34);
}

TEST(a_forgotten_plan_is_made_again) {
    zl_array x = counting(8);
    CHECK(zl_eval(x));
    CHECK_EQ_F64(step(x, 1), 56);
    int64_t plans = zl_counter("plans"), hits = zl_counter("plan_hits");
    CHECK_EQ_F64(step(x, 1), 56);
    CHECK_EQ_INT(zl_counter("plan_hits") - hits, 1);
    plan_clear(); // this thread still holds the plan
    CHECK_EQ_F64(step(x, 1), 56);
    CHECK_EQ_INT(zl_counter("plans") - plans, 1);
}

// Computes one step of a language model: appends a key and a value, then attends to all of them.
static bool attend(zl_array *keys, zl_array *values) {
    enum { HEADS = 4, WIDTH = 32 };
    bool ok = false;
    ZL_SCOPE {
        zl_array new = zl_full(ZL_SHAPE(HEADS, 1, WIDTH), zl_scalar(0.5), ZL_FLOAT32);
        zl_array k = zl_retain(zl_concatenate((zl_array[]){*keys, new}, 2, 1));
        zl_array v = zl_retain(zl_concatenate((zl_array[]){*values, zl_negative(new)}, 2, 1));
        zl_array scores = zl_multiply(zl_matmul(new, zl_transpose(k, ZL_AXES(0, 2, 1))), zl_scalar(0.125));
        zl_array weights = zl_exp(zl_subtract(scores, zl_max_axis(scores, -1, true)));
        weights = zl_divide(weights, zl_sum_axis(weights, -1, true));
        zl_array y = zl_tanh(zl_add(zl_matmul(weights, v), zl_mean_axis(zl_multiply(k, v), 1, true)));
        ok = zl_eval_all(3, (zl_array[]){y, k, v});
        zl_release(*keys), zl_release(*values);
        *keys = k, *values = v;
    }
    return ok;
}

// Kernels that are made because a plan runs often serve all lengths too.
TEST(plans_are_found_again_for_growing_sequences) {
    zl_array keys = zl_retain(zl_zeros(ZL_SHAPE(4, 1, 32), ZL_FLOAT32)), values = zl_retain(keys);
    CHECK(zl_eval(keys));
    for (int i = 0; i < 3; i++)
        CHECK(attend(&keys, &values));
    int64_t plans = zl_counter("plans"), compiles = zl_counter("compiles");
    for (int i = 0; i < 200; i++) // from 512 elements of keys to 25,984
        CHECK(attend(&keys, &values));
    CHECK_EQ_INT(zl_counter("plans"), plans);
    CHECK(zl_counter("compiles") - compiles <= 8); // kernels of one plan
    zl_release(keys), zl_release(values);
}

// Donation and memory ---------------------------------------------------------------------------------------

TEST(donation_of_intermediates) {
    ZL_SCOPE {
        zl_array x = counting(100000);
        zl_eval(x);
        size_t before = zl_get_active_memory();
        zl_reset_peak_memory();
        int64_t donations = zl_counter("donations");
        zl_array y = x;
        for (int i = 0; i < 5; i++)
            y = zl_reshape(zl_reshape(zl_exp(zl_negative(y)), ZL_SHAPE(100, 1000)), ZL_SHAPE(100000));
        zl_eval(y);
        CHECK(zl_counter("donations") > donations || zl_counter("fused") > 0);
        CHECK(zl_get_peak_memory() <= before + 2 * 425984); // never more than two arrays besides x
        CHECK_EQ_F64(zl_data_f32(x)[1], 1);                 // x is held by the scope outside, and unchanged
    }
}

TEST(donation_through_views_leaves_retained_arrays_alone) {
    zl_array x = zl_retain(zl_add(counting(1000), zl_scalar(0)));
    zl_array view = zl_slice(x, ZL_SHAPE(0), ZL_SHAPE(1000), ZL_SHAPE(1));
    zl_array y = zl_negative(view);
    CHECK(zl_eval(y));
    CHECK_EQ_F64(zl_data_f32(x)[999], 999);
    CHECK_EQ_F64(zl_data_f32(y)[999], -999);
    zl_release(x);
}

// Results computed from random bits: each is completed before the bits of the next one are drawn.
TEST(many_results_hold_little_else) {
    enum { COUNT_OF = 40, SIZE = 100000 };
    size_t before = zl_get_active_memory();
    ZL_SCOPE {
        zl_array all[COUNT_OF];
        for (int i = 0; i < COUNT_OF; i++)
            all[i] = zl_astype(
                zl_exp(zl_random_uniform(zl_scalar(0), zl_scalar(1), ZL_SHAPE(SIZE), ZL_FLOAT32, NULL)),
                ZL_BFLOAT16);
        zl_reset_peak_memory();
        REQUIRE(zl_eval_all(COUNT_OF, all));
        CHECK(zl_get_peak_memory() <= before + (size_t)SIZE * (2 * COUNT_OF + 4 * 8));
    }
}

// A state that three calls read is updated in place after the other calls have read it, which cannot be
// noticed.
TEST(what_several_read_is_written_in_place) {
    enum { SIZE = 100000 };
    zl_array w = NULL;
    ZL_SCOPE
        w = zl_retain(zl_add(counting(SIZE), zl_scalar(0)));
    REQUIRE(zl_eval(w));
    const void *place = zl_data_f32(w);
    ZL_SCOPE {
        zl_array sum = zl_sum(zl_square(w)), most = zl_max(w);
        zl_array next = zl_retain(zl_subtract(w, zl_multiply(zl_scalar(0.5), zl_divide(most, sum))));
        zl_release(w);
        REQUIRE(zl_eval(next));
        CHECK(zl_data_f32(next) == place);
        CHECK(fabs(zl_data_f32(next)[SIZE - 1] - (SIZE - 1)) < 1);
        zl_release(next);
    }
}

TEST(memory_counters_are_exact) {
    size_t active = zl_get_active_memory();
    zl_array x = zl_retain(zl_zeros(ZL_SHAPE(1024, 1024), ZL_FLOAT32));
    CHECK(zl_eval(x));
    CHECK_EQ_INT(zl_get_active_memory() - active, 4 << 20);
    zl_reset_peak_memory();
    CHECK_EQ_INT(zl_get_peak_memory(), zl_get_active_memory());
    zl_clear_cache();
    CHECK_EQ_INT(zl_get_cache_memory(), 0);
    zl_release(x);
}

TEST(memory_of_a_released_array_is_cached) {
    size_t active = zl_get_active_memory();
    zl_clear_cache();
    ZL_SCOPE
        CHECK(zl_eval(zl_zeros(ZL_SHAPE(1 << 20), ZL_UINT8)));
    CHECK_EQ_INT(zl_get_active_memory(), active);
    CHECK_EQ_INT(zl_get_cache_memory(), 1 << 20);
    ZL_SCOPE
        CHECK(zl_eval(zl_zeros(ZL_SHAPE(1 << 20), ZL_UINT8)));
    CHECK_EQ_INT(zl_get_cache_memory(), 1 << 20);
    zl_clear_cache();
}

TEST(memory_limit_holds) {
    size_t old = zl_set_memory_limit(zl_get_active_memory() + (1 << 20));
    zl_array big = zl_zeros(ZL_SHAPE(1 << 22), ZL_UINT8);
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_eval(big));
    CHECK_HAS(test_last_error(), "memory limit");
    CHECK(zl_eval(zl_zeros(ZL_SHAPE(1 << 18), ZL_UINT8)));
    zl_set_memory_limit(old);
}

// Memory of a unit other than the host: the unit reports itself when it has no more, unless a limit is set.
TEST(memory_of_units_has_no_limit_of_the_host) {
    static const int64_t much = (int64_t)1 << 60;
    size_t active = zl_get_active_memory(), peak = zl_get_peak_memory();
    CHECK_ERROR(ZL_ERROR_MEMORY, allocator_count(much, false));
    CHECK(allocator_count(much, true));
    CHECK_EQ_INT(zl_get_active_memory(), (int64_t)active + much);
    CHECK(zl_eval(zl_zeros(ZL_SHAPE(1 << 18), ZL_UINT8)));
    allocator_count(-much, true);
    size_t old = zl_set_memory_limit((size_t)1 << 40);
    CHECK_ERROR(ZL_ERROR_MEMORY, allocator_count(much, true));
    zl_set_memory_limit(old);
    CHECK(allocator_count(much, true)); // there was no limit before
    allocator_count(-much, true);
    CHECK(allocator_keep(much, true));
    allocator_keep(-much, true);
    CHECK(!allocator_keep(much, false));
    CHECK(zl_get_peak_memory() >= (size_t)much && (size_t)much > peak);
    zl_reset_peak_memory();
}

TEST(over_the_memory_goal_nothing_is_kept_and_evaluations_wait) {
    zl_clear_cache();
    size_t old = zl_set_memory_goal(1000);
    CHECK_EQ_INT(zl_get_memory_goal(), 1000);
    zl_array held = zl_retain(zl_zeros(ZL_SHAPE(1 << 20), ZL_UINT8)),
             x = zl_retain(zl_exp(counting(1 << 16)));
    CHECK(zl_eval(held));
    CHECK(zl_async_eval(x));
    CHECK(zl_is_available(x));
    zl_release(x);
    zl_release(held);
    CHECK_EQ_INT(zl_get_cache_memory(), 0);
    CHECK_EQ_INT(zl_set_memory_goal(old), 1000);
}

TEST(consumed_intermediates_say_so) {
    zl_array middle = zl_exp(counting(5)), y = zl_negative(middle);
    CHECK(zl_eval(y));
    CHECK_ERROR(ZL_ERROR_STATE, zl_data(middle));
    CHECK_HAS(test_last_error(), "retain it");
    CHECK_ERROR(ZL_ERROR_STATE, zl_eval(zl_negative(middle)));
}

TEST(retained_intermediates_keep_their_data) {
    zl_array middle = zl_retain(zl_exp(counting(5))), y = zl_negative(middle);
    CHECK(zl_eval(y));
    CHECK_NEAR(zl_data_f32(middle)[1], exp(1), 1e-6);
    zl_release(middle);
}

TEST(intermediates_that_others_still_need_are_kept) {
    zl_array middle = zl_exp(counting(5)), y = zl_negative(middle), z = zl_square(middle);
    CHECK(zl_eval(y));
    CHECK(zl_eval(z));
    CHECK_NEAR(zl_data_f32(z)[1], exp(2), 1e-5);
}

// Asynchronous work and streams -----------------------------------------------------------------------------

TEST(async_eval_then_read) {
    zl_array x = counting(100000), y = zl_sum(zl_square(x));
    CHECK(zl_async_eval(y));
    zl_array z = zl_add(y, zl_scalar(1));
    CHECK(zl_item(z) > 0);
    CHECK(zl_is_available(y));
    CHECK(zl_synchronize());
}

TEST(synchronize_says_what_failed) {
    size_t old = zl_set_memory_limit(1 << 16);
    zl_array big = zl_add(counting(1 << 20), zl_scalar(1)), other = zl_add(counting(1 << 20), zl_scalar(2));
    CHECK(zl_async_eval(big));
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_synchronize());
    CHECK(zl_synchronize()); // reported once
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_eval(big));
    CHECK(zl_async_eval(other));
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_eval(other));
    CHECK(zl_synchronize()); // already reported
    zl_set_memory_limit(old);
}

TEST(devices_that_are_not_here_are_named_with_those_that_are) {
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_new_stream("abacus"));
    CHECK_HAS(test_last_error(), "there is no device \"abacus\"; there are: cpu, ");
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_new_stream("cpu:1"));
    CHECK_HAS(test_last_error(), "device \"cpu:1\": there is only cpu:0");
    const char *set = getenv("ZL_DEVICE"); // the tests may run on another device
    char *old = set ? strdup(set) : NULL;
    test_setenv("ZL_DEVICE", "abacus");
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_new_stream(NULL));
    CHECK_HAS(test_last_error(), "ZL_DEVICE: there is no device \"abacus\"");
    if (old)
        test_setenv("ZL_DEVICE", old);
    else
        test_setenv("ZL_DEVICE", NULL);
    free(old);
}

TEST(a_thread_has_one_default_stream_of_a_device) {
    zl_stream cpu = zl_default_stream_of("cpu"), other = zl_new_stream("cpu"), before = zl_default_stream();
    CHECK(cpu && other != cpu && zl_default_stream_of("cpu") == cpu && zl_default_stream_of("cpu:0") == cpu);
    CHECK(zl_use_device("cpu") && zl_default_stream() == cpu);
    CHECK(zl_set_default_stream(before));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_default_stream_of(NULL));
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_default_stream_of("abacus"));
}

TEST(stream_results_flow_between_streams) {
    zl_stream one = zl_new_stream("cpu"), two = zl_new_stream("cpu");
    REQUIRE(one && two);
    zl_array x = counting(1000), y = NULL;
    for (int i = 0; i < 20; i++) {
        zl_scope s = zl_scope_begin_on(i % 2 ? one : two);
        y = zl_scope_leave(s, zl_add(i ? y : x, zl_scalar(1)));
    }
    CHECK(zl_async_eval(y));
    CHECK_EQ_F64(zl_data_f32(y)[0], 20);
    CHECK(zl_stream_synchronize(one) && zl_stream_synchronize(two));
}

// Two streams share only x, which nothing else holds: the one that finishes first must not overwrite it while
// the other reads it.
TEST(what_two_streams_read_stays_until_both_have) {
    zl_stream one = zl_new_stream("cpu"), two = zl_new_stream("cpu");
    REQUIRE(one && two);
    for (int i = 0; i < (test_quick() ? 20 : 200); i++) {
        zl_array y[2];
        ZL_SCOPE {
            zl_array x = zl_sqrt(counting(1 << 15));
            zl_scope s = zl_scope_begin_on(one);
            y[0] = zl_retain(
                zl_add(zl_multiply(zl_sum(zl_sin(counting(1 << 18))), zl_scalar(0)), x)); // reads x late
            zl_scope_end(s);
            s = zl_scope_begin_on(two);
            y[1] = zl_retain(zl_multiply(x, zl_scalar(0)));
            zl_scope_end(s);
        }
        CHECK(zl_eval_all(2, y));
        const float *first = zl_data_f32(y[0]), *second = zl_data_f32(y[1]);
        CHECK(first && second && second[4] == 0 && first[4] - first[0] == 2);
        zl_release(y[0]);
        zl_release(y[1]);
    }
}

static void *use_stream(void *data) {
    bool refused = !zl_set_default_stream(data) && zl_error_which() == ZL_ERROR_STATE;
    return refused ? data : NULL;
}

TEST(stream_of_another_thread_is_refused) {
    pthread_t thread;
    void *result = NULL;
    zl_stream mine = zl_new_stream("cpu");
    pthread_create(&thread, NULL, use_stream, mine);
    pthread_join(thread, &result);
    CHECK(result == mine);
}

struct sharing {
    zl_array root;
    double sum;
};

static void *eval_shared(void *data) {
    struct sharing *s = data;
    ZL_SCOPE
        s->sum = zl_item(zl_sum(zl_add(s->root, zl_scalar(1))));
    return NULL;
}

TEST(threads_share_unevaluated_nodes) {
    for (int round = 0; round < (test_quick() ? 20 : 200); round++) {
        zl_array root = zl_retain(zl_sqrt(zl_square(counting(5000))));
        struct sharing s[4];
        pthread_t thread[4];
        for (int i = 0; i < 4; i++) {
            s[i] = (struct sharing){.root = root};
            pthread_create(&thread[i], NULL, eval_shared, &s[i]);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(thread[i], NULL);
            CHECK_EQ_F64(s[i].sum, 12497500 + 5000);
        }
        zl_release(root);
    }
}

static void *eval_own(void *data) {
    int id = *(int *)data;
    for (int i = 0; i < 200; i++)
        ZL_SCOPE {
            zl_array x = zl_full(ZL_SHAPE(100 + i), zl_scalar(id), ZL_FLOAT32), y = zl_add(x, x);
            if (i % 3 == 0)
                zl_async_eval(y);
            CHECK_EQ_F64(zl_item(zl_sum(y)), 2.0 * id * (100 + i));
        }
    return NULL;
}

TEST(threads_evaluate_different_graphs) {
    pthread_t thread[4];
    int id[4] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, eval_own, &id[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

// Errors ----------------------------------------------------------------------------------------------------

TEST(failed_arrays_keep_the_message_and_so_do_those_made_from_them) {
    size_t old = zl_set_memory_limit(zl_get_active_memory() + 1000);
    zl_array big = zl_retain(zl_zeros(ZL_SHAPE(1 << 20), ZL_UINT8)),
             next = zl_negative(zl_astype(big, ZL_INT8));
    CHECK(zl_async_eval(next));
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_data(next));
    zl_set_memory_limit(old);
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_eval(zl_add(next, next)));
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_data(big));
    zl_release(big);
}

TEST(null_flows) {
    zl_array bad = zl_reshape(counting(6), ZL_SHAPE(4));
    CHECK(bad == NULL);
    CHECK(zl_add(bad, zl_exp(bad)) == NULL);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_eval(zl_sum(bad)));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_eval(NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_eval_all(2, NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_synchronize() && zl_stream_synchronize(NULL));
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_new_stream("abacus"));
    CHECK_HAS(test_last_error(), "cpu");
}

TEST(reading_asks_for_the_right_dtype_and_layout) {
    zl_array x = zl_retain(zl_reshape(counting(6), ZL_SHAPE(2, 3)));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_data_i32(x));
    CHECK_ERROR(ZL_ERROR_STATE, zl_data_f32(zl_transpose(x, ZL_ALL)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_item(x) != 0);
    float out[6];
    CHECK_ERROR(ZL_ERROR_VALUE, zl_copy_to(x, out, 5));
    CHECK(zl_copy_to(zl_transpose(x, ZL_ALL), out, sizeof out));
    CHECK_EQ_F64(out[1], 3);
    zl_release(x);
}

TEST(assign_swaps_what_is_owned) {
    zl_array w = zl_retain(zl_zeros(ZL_SHAPE(3), ZL_FLOAT32));
    for (int i = 0; i < 10; i++)
        ZL_SCOPE
            CHECK(zl_assign(&w, zl_add(w, zl_scalar(1))));
    CHECK_EQ_F64(zl_data_f32(w)[2], 10);
    zl_release(w);
}

// The null device -------------------------------------------------------------------------------------------

TEST(null_device_runs_everything_above_the_metal) {
    zl_stream s = zl_new_stream("null");
    REQUIRE(s);
    zl_scope scope = zl_scope_begin_on(s);
    zl_array y = zl_matmul(zl_zeros(ZL_SHAPE(8, 8), ZL_FLOAT32), zl_ones(ZL_SHAPE(8, 8), ZL_FLOAT32));
    CHECK(zl_eval(y));
    CHECK_EQ_INT(zl_dim(y, 0), 8);
    zl_scope_end(scope);
}

// Printing --------------------------------------------------------------------------------------------------

TEST(print_shows_values_and_dtype) {
    char *text = zl_print(zl_reshape(zl_arange(0, 6, 1, ZL_INT32), ZL_SHAPE(2, 3)));
    CHECK_STR(text, "array([[0, 1, 2],\n       [3, 4, 5]], dtype=int32)");
    zl_free(text);
    text = zl_print_most(zl_arange(0, 8, 1, ZL_INT32), 7);
    CHECK_STR(text, "array([0, 1, 2, ..., 5, 6, 7], dtype=int32)");
    zl_free(text);
    text = zl_print_most(zl_arange(0, 8, 1, ZL_INT32), 8);
    CHECK_STR(text, "array([0, 1, 2, 3, 4, 5, 6, 7], dtype=int32)");
    zl_free(text);
    text = zl_print(zl_from_f32((float[]){1.5f, INFINITY, -0.25f}, ZL_SHAPE(3)));
    CHECK_STR(text, "array([1.5, inf, -0.25], dtype=float32)");
    zl_free(text);
}

static zl_array owned_counting(int n) { // held only by the caller
    zl_array x = NULL;
    ZL_SCOPE
        x = zl_retain(zl_add(counting(n), zl_scalar(1)));
    return zl_eval(x) ? x : NULL;
}

// Calls that run together: both results are needed, and an input is last read by the first call.
TEST(results_of_a_row_program_do_not_share_memory) {
    zl_array x = owned_counting(10000);
    ZL_SCOPE {
        zl_array a = zl_retain(zl_multiply(x, zl_scalar(2)));
        zl_release(x); // only a needs it now
        zl_array b = zl_retain(zl_add(zl_negative(zl_exp(zl_multiply(a, zl_scalar(0)))), a));
        zl_array both[2] = {a, b};
        REQUIRE(zl_eval_all(2, both));
        CHECK_EQ_F64(zl_data_f32(a)[7], 16);
        CHECK_EQ_F64(zl_data_f32(b)[7], 15);
        CHECK(zl_data(a) != zl_data(b));
        zl_release(a);
        zl_release(b);
    }
}
