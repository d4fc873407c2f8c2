// test_profile.c - profiles: what is recorded of programs, threads, failures and forks, and what is reported.

#include "device/profile/profile.h"
#include "schedule/schedule.h"
#include "test.h"
#include "zellige_ops.h"
#include "zellige_tile.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static zl_array ones(int64_t rows, int64_t columns) {
    zl_array x = zl_ones(ZL_SHAPE(rows, columns), ZL_FLOAT32);
    CHECK(zl_eval(x));
    return x;
}

static const char *timeline(char out[static 512]) {
    snprintf(out, 512, "%s/profile.json", test_folder());
    return out;
}

// Returns the first event of a name, up to the end of its line, to be freed; "" if there is none.
static char *event_of(const char *path, const char *name) {
    char wanted[128];
    snprintf(wanted, sizeof wanted, "\"name\":\"%s\"", name);
    char *text = file_read(path, NULL), *at = text ? strstr(text, wanted) : NULL;
    char *line = memory_copy_text("");
    if (at) {
        memory_free(line);
        at[strcspn(at, "\n")] = 0;
        line = memory_copy_text(at);
    }
    memory_free(text);
    return line;
}

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        count++;
    return count;
}

// What is recorded ------------------------------------------------------------------------------------------

TEST(profile_has_ops_bytes_and_operations) {
    char path[512];
    zl_array x = ones(64, 32), w = ones(32, 16);
    REQUIRE(zl_profile_begin(timeline(path)));
    CHECK(zl_eval(zl_matmul(x, w)));
    char *table = zl_profile_end(), *event = event_of(path, "matmul");
    REQUIRE(table);
    CHECK_HAS(table, "matmul");
    CHECK_HAS(table, "cpu 0");
    CHECK_HAS(table, "host: 1 evaluation,");
    CHECK_HAS(event, "\"read\":10240,\"written\":4096,\"flops\":65536");
    CHECK_HAS(event, "\"op\":\"matmul\",\"calls\":1,\"dtype\":\"float32\"");
    zl_free(table);
    memory_free(event);
}

// A fused group is one kernel: values between its calls are neither read nor written.
TEST(profile_of_a_fused_group) {
    char path[512];
    zl_array x = ones(512, 1024), y = ones(512, 1024);
    REQUIRE(zl_profile_begin(timeline(path)));
    CHECK(zl_eval(zl_add(zl_multiply(x, y), x)));
    char *table = zl_profile_end(), *event = event_of(path, "multiply + add");
    REQUIRE(table);
    CHECK_HAS(table, "multiply + add");
    CHECK_HAS(event, "\"read\":4194304,\"written\":2097152,\"flops\":1048576");
    zl_free(table);
    memory_free(event);
}

// Comparisons have the dtype of their operands, not bool.
TEST(profile_has_the_dtype_that_is_computed_with) {
    char path[512];
    zl_array x = ones(512, 1024);
    REQUIRE(zl_profile_begin(timeline(path)));
    CHECK(zl_eval(zl_greater(zl_multiply(x, x), zl_scalar(2))));
    zl_free(zl_profile_end());
    char *event = event_of(path, "multiply + greater");
    CHECK_HAS(event, "\"dtype\":\"float32\"");
    memory_free(event);
}

TEST(profile_names_groups_as_explain_does) {
    zl_array x = ones(300, 1000);
    zl_array y = zl_sum_axis(zl_exp(zl_multiply(x, zl_scalar(2))), -1, false);
    char *words = zl_explain(y);
    REQUIRE(words && zl_profile_begin(NULL));
    CHECK(zl_eval(y));
    char *table = zl_profile_end(), *first = strstr(words, "1. ");
    REQUIRE(table && first);
    char *of = strstr(first, " of ");
    if (of)
        *of = 0;
    CHECK_HAS(table, first + 3);
    zl_free(table);
    zl_free(words);
}

// Kernels of the program also have rows, with the costs of their IR, even if they are released before the
// profile ends.
TEST(profile_of_a_tile_kernel) {
    char path[512];
    float x[1000] = {0}, y[1000];
    int64_t n = 1000;
    zl_kernel k = zl_kernel_compile(
        "kernel half(x: f32[n]) -> (y: f32[n]) { map i in n { y[i] = x[i] * 0.5 + 1.0 } }", "half.tile", "c");
    if (!k) {
        zl_clear_error();
        SKIP("no compiler is here");
    }
    zl_kernel_buffer buffer[] = {{x, ZL_FLOAT32, 1, &n, NULL}, {y, ZL_FLOAT32, 1, &n, NULL}};
    REQUIRE(zl_profile_begin(timeline(path)));
    CHECK(zl_kernel_run(k, 2, buffer));
    CHECK(zl_kernel_run(k, 2, buffer));
    zl_kernel_release(k);
    char *table = zl_profile_end(), *event = event_of(path, "half");
    REQUIRE(table);
    CHECK_HAS(table, "half                                             f32          2 ");
    CHECK_HAS(event, "\"read\":4000,\"written\":4000,\"flops\":2000");
    zl_free(table);
    memory_free(event);
}

TEST(profile_has_views_in_no_row) {
    zl_array x = ones(8, 4);
    REQUIRE(zl_profile_begin(NULL));
    CHECK(zl_eval(zl_exp(zl_transpose(x, ZL_ALL))));
    char *table = zl_profile_end();
    REQUIRE(table);
    CHECK_HAS(table, "exp");
    CHECK(!strstr(table, "transpose"));
    zl_free(table);
}

TEST(profile_of_nothing) {
    char path[512];
    REQUIRE(zl_profile_begin(timeline(path)));
    char *table = zl_profile_end();
    CHECK_HAS(table, "nothing was evaluated");
    CHECK(access(path, F_OK) != 0);
    zl_free(table);
    REQUIRE(zl_profile_begin(NULL));
    CHECK(!zl_reshape(ones(2, 2), ZL_SHAPE(3))); // an earlier error is no reason to fail
    table = zl_profile_end();
    CHECK(table);
    zl_clear_error();
    zl_free(table);
}

TEST(profile_of_an_evaluation_that_fails) {
    char path[512];
    zl_array x = ones(64, 64);
    size_t limit = zl_set_memory_limit(zl_get_active_memory() + 4096);
    REQUIRE(zl_profile_begin(timeline(path)));
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_eval(zl_exp(zl_tile(x, ZL_SHAPE(64, 64)))));
    zl_set_memory_limit(limit);
    CHECK(zl_eval(zl_negative(x)));
    char *table = zl_profile_end(), *text = file_read(path, NULL);
    REQUIRE(table && text);
    CHECK_HAS(table, "negative");
    CHECK_HAS(text, "\"failed\":true");
    zl_free(table);
    memory_free(text);
}

// Begin and end ---------------------------------------------------------------------------------------------

TEST(profile_refuses_what_cannot_be) {
    CHECK_ERROR(ZL_ERROR_STATE, zl_profile_end());
    CHECK_HAS(test_last_error(), "no profile is being recorded");
    CHECK_ERROR(ZL_ERROR_IO, zl_profile_begin("/nonexistent/folder/profile.json"));
    CHECK_HAS(test_last_error(), "zl_profile_begin: cannot write /nonexistent");
    REQUIRE(zl_profile_begin(NULL));
    CHECK_ERROR(ZL_ERROR_STATE, zl_profile_begin(NULL));
    zl_free(zl_profile_end());
}

TEST(profile_has_the_process_in_its_name) {
    char path[600], wanted[600];
    snprintf(path, sizeof path, "%s/100%%-%%p.json", test_folder());
    snprintf(wanted, sizeof wanted, "%s/100%%-%ld.json", test_folder(), (long)getpid());
    zl_array x = ones(2, 2);
    REQUIRE(zl_profile_begin(path));
    CHECK(zl_eval(zl_exp(x)));
    zl_free(zl_profile_end());
    CHECK(access(wanted, F_OK) == 0);
}

TEST(profiles_one_after_the_other) {
    zl_array x = ones(4, 4);
    for (int i = 0; i < 3; i++) {
        REQUIRE(zl_profile_begin(NULL));
        CHECK(zl_eval(i ? zl_sin(x) : zl_exp(x)));
        char *table = zl_profile_end();
        CHECK_HAS(table, i ? "sin" : "exp");
        CHECK(!table || !strstr(table, i ? "exp" : "sin"));
        zl_free(table);
    }
}

TEST(profile_keeps_to_its_memory_and_says_so) {
    test_setenv("ZL_PROFILE_MEMORY", "128k");
    zl_array x = ones(2, 2);
    REQUIRE(zl_profile_begin(NULL));
    for (int i = 0; i < 5000; i++)
        ZL_SCOPE
            CHECK(zl_eval(zl_exp(x)));
    CHECK(profile_used() <= 128 << 10);
    char *table = zl_profile_end();
    CHECK_HAS(table, "records did not fit into 131 kB");
    CHECK_EQ_INT((int64_t)profile_used(), 0);
    zl_free(table);
    test_setenv("ZL_PROFILE_MEMORY", "");
}

// Peaks give fractions of the roofline.
TEST(profile_shares_of_the_roofline) {
    zl_array x = ones(64, 64);
    REQUIRE(zl_profile_begin(NULL));
    CHECK(zl_eval(zl_matmul(x, x)));
    test_setenv("ZL_PROFILE_PEAKS", "cuda.bytes=1,cpu.bytes=1e30,cpu.float32=1e30");
    char *table = zl_profile_end();
    CHECK_HAS(table, " 0.0 %\n");
    zl_free(table);
    REQUIRE(zl_profile_begin(NULL));
    CHECK(zl_eval(zl_matmul(x, x)));
    test_setenv("ZL_PROFILE_PEAKS", "");
    table = zl_profile_end();
    CHECK_HAS(table, "        -\n");
    zl_free(table);
}

// The texts of repeated work are recorded once: 72 bytes per step instead of 224.
TEST(records_of_what_repeats_itself_are_small) {
    enum { TIMES = 800, CALLS = 20 };
    int unit;
    uintptr_t op[CALLS];
    for (int i = 0; i < CALLS; i++)
        op[i] = (uintptr_t)&op_elementwise[i % 2 ? TILE_NEG : TILE_SQRT];
    struct profile_record step = {
        .kind = PROFILE_OPS, .words = CALLS, .calls = CALLS, .device = device_find_unit("cpu", &unit)};
    REQUIRE(zl_profile_begin(NULL));
    for (int i = 0; i < TIMES; i++)
        profile_add(&step, op);
    CHECK_EQ_INT((int64_t)profile_used(), 64 << 10);
    char *table = zl_profile_end();
    CHECK_HAS(table, "sqrt + negative + sqrt");
    zl_free(table);
}

// Threads ---------------------------------------------------------------------------------------------------

enum { THREADS = 4, EVALS = 200 };

static void *evaluate(void *data) {
    for (int i = 0; i < EVALS; i++)
        ZL_SCOPE
            CHECK(zl_eval(zl_exp(data)));
    return NULL;
}

TEST(profile_of_threads) {
    char path[512];
    pthread_t thread[THREADS];
    zl_array x = ones(3, 5);
    REQUIRE(zl_profile_begin(timeline(path)));
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&thread[i], NULL, evaluate, x));
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    char *table = zl_profile_end(), *text = file_read(path, NULL);
    REQUIRE(table && text);
    CHECK_HAS(table, "host: 800 evaluations");
    CHECK_EQ_INT(count_of(text, "\"name\":\"exp\""), THREADS * EVALS);
    CHECK_EQ_INT(count_of(text, "thread_name"), THREADS);
    CHECK_EQ_INT((int64_t)profile_used(), 0);
    zl_free(table);
    memory_free(text);
}

static atomic_bool goes_on;

static void *evaluate_on(void *data) {
    while (atomic_load(&goes_on))
        ZL_SCOPE
            CHECK(zl_eval(zl_exp(data)));
    return NULL;
}

// Threads record while profiles begin and end.
TEST(profiles_while_threads_evaluate) {
    pthread_t thread[THREADS];
    zl_array x = ones(3, 5);
    atomic_store(&goes_on, true);
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&thread[i], NULL, evaluate_on, x));
    for (int i = 0; i < (test_quick() ? 20 : 200); i++) {
        CHECK(zl_profile_begin(NULL));
        usleep(500);
        char *table = zl_profile_end();
        CHECK(table);
        zl_free(table);
    }
    atomic_store(&goes_on, false);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQ_INT((int64_t)profile_used(), 0);
}

TEST(profile_of_work_that_nobody_waits_for) {
    zl_array x = ones(64, 64), y = zl_retain(zl_exp(x));
    REQUIRE(zl_profile_begin(NULL));
    CHECK(zl_async_eval(y));
    char *table = zl_profile_end(); // waits
    CHECK_HAS(table, "exp");
    zl_free(table);
    zl_release(y);
}

// Forks -----------------------------------------------------------------------------------------------------

// A child of fork() has no profile, and may begin its own; that of its parent continues.
TEST(profile_after_a_fork) {
#ifdef UNDER_TSAN
    SKIP("this build allows no threads in a child");
#endif
    char path[512];
    zl_array x = ones(8, 8);
    REQUIRE(zl_profile_begin(timeline(path)));
    CHECK(zl_eval(zl_exp(x)));
    pid_t child = fork();
    if (child == 0) {
        bool good = !zl_profile_end();
        zl_clear_error();
        good = good && zl_profile_begin(NULL) && zl_eval(zl_sin(x));
        char *table = good ? zl_profile_end() : NULL;
        _exit(table && strstr(table, "sin") && !strstr(table, "exp") ? 0 : 1);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_EQ_INT(status, 0);
    char *table = zl_profile_end();
    CHECK_HAS(table, "exp");
    zl_free(table);
}

// Memory that is out ----------------------------------------------------------------------------------------

// Whichever allocation fails, the program continues, and the profile reports what is missing, or that there
// is none.
TEST(profile_while_memory_fails) {
    char path[512];
    zl_array x = ones(8, 8);
    for (long at = 1; at < 400; at++) {
        bool begun = false;
        memory_fail_at(at);
        ZL_SCOPE {
            begun = zl_profile_begin(timeline(path));
            zl_clear_error();
            zl_eval(zl_exp(x));
            zl_clear_error();
        }
        char *table = begun ? zl_profile_end() : NULL;
        bool was_last = memory_allocations() < at;
        memory_fail_at(0);
        CHECK(table || zl_error_which() == ZL_ERROR_MEMORY || !begun);
        zl_clear_error();
        CHECK(!profile_is_on());
        zl_free(table);
        if (was_last)
            return;
    }
    CHECK(false); // more allocations than expected
}
