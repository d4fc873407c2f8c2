// test_pjrt_compiles.c - how often programs of a PJRT plugin are compiled, whose memory they take over, and
// which threads wait meanwhile.

#define TEST_LACKS lacks_plugin

static const char *lacks_plugin(void);

#include "test.h"

#include "device/pjrt/pjrt.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char *lacks_plugin(void) {
    const char *reason = NULL;
    return pjrt_open(&reason) ? NULL : reason;
}

// Uses an empty folder for the cache, so that programs of earlier test runs are not found.
static bool start(void) {
    test_setenv("ZL_CACHE_DIR", test_folder());
    return zl_use_device("pjrt");
}

static int64_t compiles(void) {
    return zl_counter("compiles");
}

static zl_array numbers(zl_shape shape, double step) {
    int64_t size = 1;
    for (int i = 0; i < shape.ndim; i++)
        size *= shape.dim[i];
    return zl_reshape(zl_multiply(zl_arange(0, (double)size, 1, ZL_FLOAT32), zl_scalar(step)), shape);
}

// Numbers ---------------------------------------------------------------------------------------------------

TEST(starts_of_slices_are_arguments) {
    REQUIRE(start());
    zl_array x = zl_retain(numbers(ZL_SHAPE(120, 3), 1));
    REQUIRE(zl_eval(x));
    int64_t before = compiles(), plans = zl_counter("plans");
    for (int i = 0; i < 100; i++)
        ZL_SCOPE {
            zl_array y =
                zl_sum_axis(zl_slice(x, ZL_SHAPE(i, 0), ZL_SHAPE(i + 7, 3), ZL_SHAPE(1, 1)), 1, false);
            REQUIRE(zl_eval(y));
            CHECK_EQ_F64(zl_data_f32(y)[6], 9 * (i + 6) + 3);
        }
    CHECK(compiles() - before <= 1);
    CHECK(zl_counter("plans") - plans <= 1);
    zl_release(x);
}

// Starts of consecutive updates, and of ranges that are read later in the same evaluation.
TEST(starts_of_updates_are_in_no_plan) {
    REQUIRE(start());
    zl_array x = zl_retain(numbers(ZL_SHAPE(40), 1)), u = zl_retain(numbers(ZL_SHAPE(2), -1));
    REQUIRE(zl_eval_all(2, (zl_array[]){x, u}));
    int64_t plans = zl_counter("plans");
    for (int i = 0; i < 60; i++)
        ZL_SCOPE {
            int at = i * 7 % 38, from = i * 5 % 30;
            zl_array y = zl_slice_update(x, u, ZL_SHAPE(at), ZL_SHAPE(at + 2), ZL_SHAPE(1));
            zl_array z =
                zl_multiply(zl_slice(y, ZL_SHAPE(from), ZL_SHAPE(from + 10), ZL_SHAPE(1)), zl_scalar(2));
            REQUIRE(zl_eval(z));
            for (int k = 0; k < 10; k++) {
                int place = from + k;
                CHECK_EQ_F64(zl_data_f32(z)[k], 2.0 * (place == at ? 0 : place == at + 1 ? -1 : place));
            }
        }
    CHECK(zl_counter("plans") - plans <= 2);
    zl_release(x);
    zl_release(u);
}

// Starts of updates, and of ranges with steps; updating a whole array needs none.
TEST(starts_of_updates_and_ranges_are_arguments) {
    REQUIRE(start());
    int64_t before = 0;
    for (int i = 1; i < 40; i++)
        ZL_SCOPE {
            zl_array x = zl_zeros(ZL_SHAPE(50), ZL_FLOAT32), u = zl_arange(i, i + 3 * 5, 3, ZL_FLOAT32);
            zl_array y =
                zl_slice_update(zl_add(x, zl_scalar(1)), u, ZL_SHAPE(i), ZL_SHAPE(i + 10), ZL_SHAPE(2));
            REQUIRE(zl_eval(y));
            for (int k = 0; k < 5; k++)
                CHECK_EQ_F64(zl_data_f32(y)[i + 2 * k], i + 3 * k);
            CHECK(zl_data_f32(y)[i - 1] == 1 && zl_data_f32(y)[i + 1] == 1 && zl_data_f32(y)[i + 9] == 1);
            before = i == 1 ? compiles() : before;
        }
    CHECK_EQ_INT(compiles() - before, 0);
}

TEST(learning_rates_are_arguments) {
    REQUIRE(start());
    zl_array w = zl_retain(numbers(ZL_SHAPE(5, 4), 0.5)), g = zl_retain(numbers(ZL_SHAPE(5, 4), 0.25));
    REQUIRE(zl_eval_all(2, (zl_array[]){w, g}));
    int64_t before = compiles();
    for (int i = 0; i < 100; i++)
        ZL_SCOPE {
            zl_array y = zl_subtract(w, zl_multiply(zl_scalar(0.01 * i), g));
            REQUIRE(zl_eval(y));
            CHECK_NEAR(zl_data_f32(y)[19], 9.5 - 0.01 * i * 4.75, 1e-6);
        }
    CHECK(compiles() - before <= 1);
    zl_release(w);
    zl_release(g);
}

// One graph with many sizes, strides and offsets in turn: each has the right numbers.
TEST(sizes_that_alternate_are_right) {
    enum { SIZES = 200 };
    REQUIRE(start());
    zl_array x = zl_retain(numbers(ZL_SHAPE(4000), 1));
    REQUIRE(zl_eval(x));
    for (int i = 0; i < (test_quick() ? SIZES / 4 : SIZES); i++)
        ZL_SCOPE {
            int n = 1 + i * 7 % 25, step = 1 + i % 3, at = i * 37 % 400, back = i % 2;
            int64_t first = at, last = at + (int64_t)step * (n - 1);
            zl_array y = back ? zl_slice(x, ZL_SHAPE(last), ZL_SHAPE(first - 1 < 0 ? -4001 : first - 1),
                                         ZL_SHAPE(-step))
                              : zl_slice(x, ZL_SHAPE(first), ZL_SHAPE(last + 1), ZL_SHAPE(step));
            y = zl_multiply(zl_expand_dims(y, ZL_AXES(1)), zl_full(ZL_SHAPE(1, 2), zl_scalar(3), ZL_FLOAT32));
            REQUIRE(zl_eval(y) && zl_dim(y, 0) == n);
            for (int k = 0; k < n; k++)
                CHECK_EQ_F64(zl_data_f32(y)[2 * k + 1], 3.0 * (back ? last - k * step : first + k * step));
        }
    zl_release(x);
}

// Segments --------------------------------------------------------------------------------------------------

// A call that the CPU has to run only splits what depends on it: everything before it is one execution, and
// everything after it another.
TEST(calls_of_the_cpu_split_little) {
    enum { PARTS = 4 };
    zl_array out[2][PARTS];
    for (int on = 0; on < 2; on++) {
        if (on)
            REQUIRE(start());
        else
            REQUIRE(zl_use_device("cpu"));
        for (int again = 0; again < 2; again++) {
            int64_t launches = zl_counter("launches"), before = compiles();
            for (int i = 0; i < PARTS; i++) {
                zl_array x = zl_add(zl_eye(3, 3, 0, ZL_FLOAT32),
                                    zl_multiply(zl_exp(numbers(ZL_SHAPE(3, 3), 0.1)), zl_scalar(0.1 * i)));
                zl_array y = zl_linalg_inv(zl_transpose(x, ZL_AXES(1, 0)));
                out[on][i] = zl_multiply(zl_sum_axis(zl_transpose(y, ZL_AXES(1, 0)), 0, false), zl_sum(x));
            }
            REQUIRE(zl_eval_all(PARTS, out[on]));
            CHECK_EQ_INT(zl_counter("launches") - launches, 2 * on);
            if (on) // the second program was begun before its inputs existed
                CHECK_EQ_INT(compiles() - before, again ? 0 : 2);
        }
    }
    for (int i = 0; i < PARTS; i++)
        for (int k = 0; k < 3; k++)
            CHECK_NEAR(zl_data_f32(out[1][i])[k], zl_data_f32(out[0][i])[k], 1e-4);
}

// Training --------------------------------------------------------------------------------------------------

enum { LAYERS = 3, PARAMETERS = 2 * LAYERS, STEPS = 40, POINTS = 32 };

static zl_array forward(zl_array x, const zl_array *parameter) {
    for (int i = 0; i < LAYERS; i++) {
        x = zl_add(zl_matmul(x, parameter[2 * i]), parameter[2 * i + 1]);
        x = i < LAYERS - 1 ? zl_tanh(x) : x;
    }
    return x;
}

static void replace(zl_array *owned, zl_array by) {
    zl_array old = *owned;
    *owned = zl_retain(by);
    zl_release(old);
}

// Replaces the parameters by those of the next step, which are not evaluated yet, and are the only readers of
// the old ones. Returns the loss.
static zl_array record_step(zl_array x, zl_array y, zl_array *parameter, double rate) {
    zl_array gradient[PARAMETERS], error = zl_subtract(forward(x, parameter), y);
    zl_array loss = zl_mean(zl_multiply(error, error));
    zl_grad(loss, PARAMETERS, parameter, gradient);
    for (int i = 0; i < PARAMETERS; i++)
        replace(&parameter[i], zl_subtract(parameter[i], zl_multiply(zl_scalar(rate), gradient[i])));
    return zl_retain(loss);
}

static double step(zl_array x, zl_array y, zl_array *parameter, double rate) {
    zl_array loss = NULL, all[PARAMETERS + 1];
    ZL_SCOPE
        loss = record_step(x, y, parameter, rate);
    for (int i = 0; i < PARAMETERS; i++)
        all[i] = parameter[i];
    all[PARAMETERS] = loss;
    bool ok = zl_eval_all(PARAMETERS + 1, all);
    double value = ok ? zl_item(loss) : -1;
    zl_release(loss);
    return value;
}

// Trains on a batch: a slice of the data, at another place each time.
static double batch(zl_array x, zl_array y, zl_array *parameter, int i) {
    double loss = -1;
    ZL_SCOPE {
        int64_t from = i % 8 * POINTS;
        zl_array in = zl_slice(x, ZL_SHAPE(from, 0), ZL_SHAPE(from + POINTS, 4), ZL_SHAPE(1, 1)),
                 out = zl_slice(y, ZL_SHAPE(from, 0), ZL_SHAPE(from + POINTS, 1), ZL_SHAPE(1, 1));
        loss = step(in, out, parameter, 0.05 / (1 + i));
    }
    return loss;
}

TEST(training_is_one_execution_for_a_step) {
    static const int width[LAYERS + 1] = {4, 16, 16, 1};
    zl_array parameter[PARAMETERS], x, y;
    REQUIRE(start());
    x = zl_retain(zl_sin(numbers(ZL_SHAPE(8 * POINTS, 4), 0.7)));
    y = zl_retain(zl_sum_axis(x, 1, true));
    for (int i = 0; i < PARAMETERS; i++)
        parameter[i] = i % 2 ? zl_retain(zl_zeros(ZL_SHAPE(width[i / 2 + 1]), ZL_FLOAT32))
                             : zl_retain(zl_sin(numbers(ZL_SHAPE(width[i / 2], width[i / 2 + 1]), 1.3)));
    REQUIRE(zl_eval_all(2, (zl_array[]){x, y}) && zl_eval_all(PARAMETERS, parameter));
    int64_t before = compiles();
    double first = batch(x, y, parameter, 0), last = first;
    batch(x, y, parameter, 1);
    int64_t launches = zl_counter("launches"), donations = zl_counter("donations");
    size_t memory = zl_get_active_memory();
    for (int i = 2; i < STEPS; i++)
        last = batch(x, y, parameter, i);
    CHECK(last >= 0 && last < first);
    CHECK(compiles() - before <= 4);
    CHECK_EQ_INT(zl_counter("launches") - launches, STEPS - 2);
    CHECK_EQ_INT(zl_counter("donations") - donations, (STEPS - 2) * PARAMETERS);
    CHECK_EQ_INT((int64_t)zl_get_active_memory(), (int64_t)memory);
    for (int i = 0; i < PARAMETERS; i++)
        zl_release(parameter[i]);
    zl_release(x);
    zl_release(y);
}

// An array that is still held, or a view of which is read later, keeps its memory.
TEST(what_is_held_is_not_donated) {
    REQUIRE(start());
    zl_array x = zl_retain(numbers(ZL_SHAPE(64), 1)), last = NULL;
    REQUIRE(zl_eval(x));
    for (int i = 0; i < 4; i++)
        ZL_SCOPE {
            zl_array y = zl_add(x, zl_scalar(i)), shown = zl_reshape(x, ZL_SHAPE(8, 8));
            if (i == 2) // from now on only the view holds it
                replace(&x, y);
            REQUIRE(zl_eval_all(2, (zl_array[]){y, shown}));
            CHECK_EQ_F64(zl_data_f32(y)[5], i == 3 ? 10 : 5 + i);
            CHECK_EQ_F64(zl_data_f32(zl_contiguous(shown, false))[63], i == 3 ? 65 : 63);
        }
    int64_t before = zl_counter("donations");
    ZL_SCOPE {
        zl_array y = zl_retain(zl_multiply(x, x));
        replace(&x, NULL);
        REQUIRE(zl_eval(y));
        last = y;
    }
    CHECK_EQ_INT(zl_counter("donations") - before, 1);
    CHECK_EQ_F64(zl_data_f32(last)[3], 25);
    zl_release(last);
}

// Other threads ---------------------------------------------------------------------------------------------

static atomic_bool has_ended;

// Compiles a program that takes long, with a text that no other run has.
static void *compile_much(void *data) {
    (void)data;
    zl_use_device("pjrt");
    ZL_SCOPE {
        zl_array x = numbers(ZL_SHAPE(3, 5, 7), 0.001);
        for (int i = 0; i < 12; i++)
            x = zl_add(zl_softmax(zl_add(zl_sort(x, i % 3), zl_cumsum(x, 1, false, true, ZL_DTYPE_COUNT)), -1,
                                  false),
                       zl_matmul(x, zl_matmul(zl_swapaxes(x, 1, 2), x)));
        CHECK(zl_eval(x));
    }
    atomic_store(&has_ended, true);
    return NULL;
}

static int64_t own_ns(void) { // processor time of this thread
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// Evaluates something small. Returns the processor time that this thread needed.
static int64_t small_step(zl_array x, double number) {
    int64_t from = own_ns();
    ZL_SCOPE
        CHECK(zl_eval(zl_add(x, zl_scalar(number))));
    return own_ns() - from;
}

TEST(others_do_not_wait_while_a_program_compiles) {
    pthread_t thread;
    REQUIRE(start());
    REQUIRE(zl_use_device("cpu"));
    zl_array x = zl_retain(zl_zeros(ZL_SHAPE(16), ZL_FLOAT32));
    REQUIRE(zl_eval(zl_add(x, zl_scalar(1))));
    enum { ALONE = 20000 };
    int64_t alone = 0;
    for (int i = 0; i < ALONE; i++)
        alone += small_step(x, i);
    int64_t before = compiles(), begin = clock_ns(), longest = 0, count = 0, own = 0;
    atomic_store(&has_ended, false);
    REQUIRE(pthread_create(&thread, NULL, compile_much, NULL) == 0);
    while (!atomic_load(&has_ended)) {
        int64_t from = clock_ns();
        own += small_step(x, (double)count++);
        longest = MAX_OF(longest, clock_ns() - from);
    }
    pthread_join(thread, NULL);
    int64_t took = clock_ns() - begin;
    CHECK(compiles() - before >= 1);
    if (!CHECK(own * ALONE < 2 * alone * count)) // another thread in parallel costs some of the caches
        test_note("%.2f us of a step alone, %.2f us beside a compiler", (double)alone / ALONE / 1e3,
                  (double)own / (double)count / 1e3);
    if (!CHECK(longest < took / 2))
        test_note("one evaluation took %.0f ms of %.0f ms", (double)longest / 1e6, (double)took / 1e6);
    zl_release(x);
}

// Other processes -------------------------------------------------------------------------------------------

static const char child_variable[] = "ZL_TEST_PJRT_PROGRAM";

static zl_array some_program(void) {
    zl_array x = numbers(ZL_SHAPE(6, 5), 0.1);
    return zl_sum(zl_softmax(zl_matmul(x, zl_transpose(x, ZL_AXES(1, 0))), -1, false));
}

// Computes the program and exits, in a process that the test below starts.
__attribute__((constructor(65535))) static void be_another_process(void) {
    if (!getenv(child_variable))
        return;
    double value = zl_use_device("pjrt") ? zl_item(some_program()) : 0;
    printf("%.3f after %lld of %lld\n", value, (long long)compiles(), (long long)zl_counter("launches"));
    exit(0);
}

// Computes the program in another process with these variables, and checks what that prints. Returns false if
// this program cannot start itself.
static bool check_another(const char *variables, const char *prints) {
    char program[4096] = "", command[8300], line[64] = "";
    if (!CHECK(readlink("/proc/self/exe", program, sizeof program - 1) > 0))
        return false;
    snprintf(command, sizeof command, "%s %s=1 ASAN_OPTIONS=detect_leaks=0 '%s'", variables, child_variable,
             program);
    fflush(stdout);
    FILE *child = popen(command, "r");
    bool started = child && fgets(line, sizeof line, child);
    if (child)
        pclose(child);
    if (started)
        CHECK_STR(line, prints);
    return started;
}

// Options of the compiler are part of what a program is kept under.
TEST(a_second_process_compiles_nothing) {
    REQUIRE(start());
    CHECK_NEAR(zl_item(some_program()), 6, 1e-4);
    if (!check_another("", "6.000 after 0 of 1\n"))
        SKIP("this program cannot start itself (in an emulator)");
    check_another("XLA_FLAGS=--xla_cpu_enable_fast_math=false", "6.000 after 1 of 1\n");
}
