// test_pjrt_fake.c - the pjrt device when its plugin fails: each call in turn, at once or later, or because
// memory runs out. It runs under the plugin of test/fake, which counts objects that are not given back.

static const char *lacks_fake(void);
#define TEST_LACKS lacks_fake

#include "test.h"

#include "device/pjrt/pjrt.h"
#include "zellige_ahead.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 6, INVALID = 3, EXHAUSTED = 8, INTERNAL = 13 };

static struct {
    void (*fail)(const char *function, int after, int code);
    void (*heal)(void);
    int64_t (*calls)(void);
    int64_t (*alive)(const char *kind);
    void (*memory)(size_t bytes);
    void (*meet)(int compiles);
    const char *(*disorder)(void);
} fake;

// The plugin may be loaded without being the one in use.
static const char *lacks_fake(void) {
    static const char *const names[] = {ZL_BUILD_DIR "/fake/libpjrt.so", NULL};
    void *library = library_open(names);
    const struct library_symbol symbols[] = {
        {"fake_fail", (void **)(void *)&fake.fail},        {"fake_heal", (void **)(void *)&fake.heal},
        {"fake_calls", (void **)(void *)&fake.calls},      {"fake_alive", (void **)(void *)&fake.alive},
        {"fake_meet", (void **)(void *)&fake.meet},        {"fake_memory", (void **)(void *)&fake.memory},
        {"fake_disorder", (void **)(void *)&fake.disorder}};
    return library && library_bind(library, symbols, COUNT(symbols), NULL) && pjrt_open(NULL) &&
                   !strcmp(pjrt_platform(), "fake")
               ? NULL
               : "its plugin is that of test/fake: device/test_pjrt_open:under_the_fake_plugin runs it so";
}

// Returns the plugin's part of an error message; a plugin that gives none has a replacement.
static const char *plugins_words(const char *words) {
    const char *is = getenv("FAKE_PJRT");
    return is && strstr(is, "mute") ? "of the PJRT plugin: it failed, and does not say why" : words;
}

static const float numbers[ELEMENTS] = {1, -2, 3, 0.5F, 8, 0};

static zl_array from_host(void) {
    return zl_from_f32(numbers, ZL_SHAPE(2, 3));
}

// Checks what an evaluation leaves in the plugin: programs outlive plans, and executions are waited for when
// the next ones start. Nothing that was freed may have been used.
static void check_nothing_is_left(void) {
    zl_synchronize();
    CHECK(pjrt_record(0, 0, 0) && pjrt_wait(0, 0, 0));
    zl_clear_error();
    CHECK_EQ_INT(fake.alive("buffer"), 0);
    CHECK_EQ_INT(fake.alive("error"), 0);
    CHECK_EQ_INT(fake.alive("event"), 0);
    if (!CHECK(!fake.disorder()))
        test_note("%s", fake.disorder());
}

// Returns 2 x + round, for x in host memory; each round is another program, and so uses every call of the
// plugin.
static zl_array twice(zl_array x, int round) {
    zl_array y = zl_add(zl_multiply(x, zl_scalar(2)), zl_scalar(round));
    for (int i = 0; i < round % 7; i++)
        y = zl_negative(zl_negative(y));
    return y;
}

static bool is_twice(zl_array y, int round) {
    const float *at = zl_data_f32(y);
    for (int i = 0; at && i < ELEMENTS; i++)
        CHECK_EQ_F64(at[i], 2 * numbers[i] + round);
    return at;
}

TEST(computes) {
    ZL_SCOPE {
        REQUIRE(zl_use_device("pjrt"));
        zl_array y = twice(from_host(), 3);
        CHECK(zl_eval(y) && is_twice(y, 3));
        CHECK_EQ_INT(zl_counter("fallbacks"), 0);
    }
    check_nothing_is_left();
}

// More axes than the device supports.
static const zl_shape many_axes = {(const int64_t[]){2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3}, 14};

// A call on the CPU comes between two programs: the plugin compiles both at the same time, and they are the
// ones that run.
TEST(programs_of_an_evaluation_compile_beside_each_other) {
    ZL_SCOPE {
        REQUIRE(zl_use_device("pjrt"));
        int64_t compiles = zl_counter("compiles"), launches = zl_counter("launches");
        zl_array x = zl_reshape(zl_multiply(from_host(), zl_scalar(2)), many_axes);
        zl_array y = zl_reshape(zl_square(x), ZL_SHAPE(2, 3));
        y = zl_add(y, zl_scalar(1));
        fake.meet(2);
        CHECK(zl_eval(y));
        fake.meet(0);
        const float *at = zl_data_f32(y);
        for (int i = 0; at && i < ELEMENTS; i++)
            CHECK_EQ_F64(at[i], 4 * numbers[i] * numbers[i] + 1);
        CHECK(at);
        CHECK_EQ_INT(zl_counter("compiles") - compiles, 2);
        CHECK_EQ_INT(zl_counter("launches") - launches, 2);
    }
    check_nothing_is_left();
}

// Checks the message of an array: it names one of its ops, and what failed.
static void check_message(const char *words) {
    const char *message = zl_error(), *part = plugins_words(words);
    REQUIRE(message);
    bool names = strstr(message, "add") || strstr(message, "multiply") || strstr(message, "negative");
    if (!CHECK(names && strstr(message, part)))
        test_note("%s", message);
    zl_clear_error();
}

// Whichever call fails, the arrays that could not be computed have an error, and so have those computed from
// them, and no others. An array that existed before stays, and the same computation succeeds once the plugin
// works again.
static void check_any_failure(int code, int which, const char *words) {
    int failures = 0, more = 1;
    for (int at = 1; more && at < 1000; at++) {
        ZL_SCOPE {
            REQUIRE(zl_use_device("pjrt"));
            zl_array before = twice(from_host(), 1), x = from_host();
            REQUIRE(zl_eval(before));
            int64_t calls = fake.calls();
            fake.fail("", at, code);
            zl_array y = twice(x, at);
            bool good = zl_eval(y) && is_twice(y, at);
            more = fake.calls() - calls >= at;
            fake.heal();
            failures += !good;
            if (!good) {
                CHECK_EQ_INT(zl_error_which(), which);
                check_message(words);
                zl_array z = zl_add(y, zl_scalar(1));
                if (!zl_eval(y)) // otherwise only reading it failed
                    CHECK_ERROR(which, zl_eval(z));
                zl_clear_error();
            }
            CHECK(!zl_error());
            CHECK(is_twice(before, 1));
            zl_array again = twice(x, at);
            CHECK(zl_eval(again) && is_twice(again, at));
        }
        check_nothing_is_left();
    }
    CHECK(failures >= 5);
}

TEST(any_call_may_fail) {
    check_any_failure(INTERNAL, ZL_ERROR_DEVICE, "of the PJRT plugin: INTERNAL");
}

TEST(any_call_may_want_memory) {
    check_any_failure(EXHAUSTED, ZL_ERROR_MEMORY, "of the PJRT plugin: RESOURCE_EXHAUSTED");
}

// An error only affects the array whose call failed, of two arrays of two evaluations.
TEST(a_failure_stays_with_its_arrays) {
    ZL_SCOPE {
        REQUIRE(zl_use_device("pjrt"));
        zl_array x = from_host(), bad = zl_multiply(x, zl_scalar(5)), good = twice(x, 2);
        fake.fail("LoadedExecutable_Execute", 1, INVALID);
        CHECK(!zl_eval(bad));
        CHECK_HAS(zl_error(), "multiply on the pjrt device");
        zl_clear_error();
        CHECK(zl_eval(good) && is_twice(good, 2));
        CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(zl_add(good, bad)));
        CHECK_HAS(test_last_error(), "multiply");
    }
    check_nothing_is_left();
}

// The plugin accepts an execution, and reports its failure when its results are read: then there is an error,
// and no numbers.
TEST(an_execution_may_fail_later) {
    ZL_SCOPE {
        REQUIRE(zl_use_device("pjrt"));
        zl_array x = from_host(), y = twice(x, 4);
        fake.fail("Execution", 1, INTERNAL);
        CHECK(!zl_eval(y) || !zl_data_f32(y));
        CHECK(zl_error());
        zl_clear_error();
        fake.heal();
        zl_array again = twice(x, 4);
        CHECK(zl_eval(again) && is_twice(again, 4));
    }
    check_nothing_is_left();
}

// Arrays that fit into memory are computed, those that do not have an error of memory; when these are
// released, there is room again.
TEST(memory_may_run_out) {
    enum { LARGE = 4096 };
    fake.memory(3 * LARGE * sizeof(float));
    ZL_SCOPE {
        REQUIRE(zl_use_device("pjrt"));
        zl_array kept[6];
        int made = 0;
        for (bool good = true; good && made < 6; made += good) {
            kept[made] = zl_add(zl_zeros(ZL_SHAPE(LARGE), ZL_FLOAT32), zl_scalar(made));
            good = zl_eval(kept[made]);
        }
        CHECK(made > 0 && made < 6);
        CHECK_EQ_INT(zl_error_which(), ZL_ERROR_MEMORY);
        check_message("add");
        for (int i = 0; i < made; i++)
            CHECK(zl_data_f32(kept[i]) && zl_data_f32(kept[i])[LARGE - 1] == i);
    }
    check_nothing_is_left();
    ZL_SCOPE {
        REQUIRE(zl_use_device("pjrt"));
        CHECK(zl_eval(zl_add(zl_zeros(ZL_SHAPE(LARGE), ZL_FLOAT32), zl_scalar(1))));
    }
    fake.memory(SIZE_MAX / 2);
    check_nothing_is_left();
}

// Ops that the plugin's compiler rejects: its message becomes that of the array.
TEST(a_compiler_may_refuse) {
    ZL_SCOPE {
        REQUIRE(zl_use_device("pjrt"));
        zl_array y = zl_exp(from_host());
        CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(y));
        CHECK_HAS(test_last_error(), "exp on the pjrt device: Client_Compile of the PJRT plugin");
        CHECK_HAS(test_last_error(), plugins_words("stablehlo.exponential"));
    }
    check_nothing_is_left();
}

// Compiling ahead -------------------------------------------------------------------------------------------

// Compiles ahead of time. Returns whether that succeeded, in which case the results have to be right.
static bool compile_ahead(void) {
    zl_ahead *a = zl_ahead_open("v6e:1x1");
    zl_ahead_program p = {0};
    bool good = false;
    ZL_SCOPE {
        zl_array y = a ? twice(from_host(), 3) : NULL;
        good = a && zl_ahead_compile(a, 1, &y, &p);
    }
    if (good) {
        CHECK_HAS(p.program, "stablehlo.multiply");
        CHECK_HAS(p.optimized, "ROOT %fusion = f32[8] fusion(), estimated_cycles=1234");
        CHECK_EQ_F64(p.cycles, 1234);
        CHECK_EQ_INT(p.code_bytes, 4096);
        CHECK_EQ_INT(p.temporary_bytes, 0);
    }
    zl_ahead_program_free(&p);
    zl_ahead_close(a);
    return good;
}

TEST(compiles_ahead) {
    REQUIRE(zl_use_device("cpu"));
    CHECK(compile_ahead());
    zl_ahead *a = zl_ahead_open("v6e:1x1");
    zl_ahead_program p;
    zl_array doubles = zl_add(zl_ones(ZL_SHAPE(2), ZL_FLOAT64), zl_scalar(1)), ready = from_host();
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_ahead_compile(a, 1, &doubles, &p));
    CHECK_HAS(test_last_error(), "of float64 runs on the CPU");
    zl_ahead_program_free(&p);
    REQUIRE(zl_eval(doubles));
    zl_array narrowed = zl_astype(doubles, ZL_FLOAT32); // only reads them
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_ahead_compile(a, 1, &narrowed, &p));
    CHECK_HAS(test_last_error(), "of float64 runs on the CPU");
    zl_ahead_program_free(&p);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_ahead_compile(a, 1, &ready, &p));
    CHECK_HAS(test_last_error(), "nothing is to be computed");
    zl_ahead_program_free(&p);
    zl_array unknown = zl_exp(from_host());
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_ahead_compile(a, 1, &unknown, &p));
    CHECK_HAS(test_last_error(), plugins_words("stablehlo.exponential"));
    zl_ahead_program_free(&p);
    zl_ahead_close(a);
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_ahead_open("x9"));
    CHECK_HAS(test_last_error(), plugins_words("unknown topology x9"));
    CHECK_EQ_INT(fake.alive("topology"), 0);
    CHECK_EQ_INT(fake.alive("compiled"), 0);
}

// libtpu is told not to ask the metadata server where there is no TPU, unless the user has said something.
TEST(compiling_ahead_asks_no_metadata_server) {
    const char *is = getenv("TPU_SKIP_MDS_QUERY");
    char *before = is ? strdup(is) : NULL;
    REQUIRE(zl_use_device("cpu"));
    test_setenv("TPU_SKIP_MDS_QUERY", NULL);
    zl_ahead_close(zl_ahead_open("v6e:1x1"));
    CHECK_STR(getenv("TPU_SKIP_MDS_QUERY"), pjrt_has_hardware() ? NULL : "1");
    test_setenv("TPU_SKIP_MDS_QUERY", "0");
    zl_ahead_close(zl_ahead_open("v6e:1x1"));
    CHECK_STR(getenv("TPU_SKIP_MDS_QUERY"), "0");
    test_setenv("TPU_SKIP_MDS_QUERY", before);
    free(before);
}

// A product with one row or column would be a loop without the matrix unit, so zeros are added to it.
static void check_lone_rows(const char *topology) {
    static const struct {
        int rows, columns;
        const char *type; // of the product
    } sizes[] = {{1, 3, "tensor<8x3xf32>"}, {2, 1, "tensor<2x8xf32>"}, {2, 3, "tensor<2x3xf32>"}};
    REQUIRE(zl_use_device("cpu"));
    zl_ahead *a = zl_ahead_open(topology);
    REQUIRE(a);
    for (size_t i = 0; i < COUNT(sizes); i++)
        ZL_SCOPE {
            zl_ahead_program p;
            zl_array y = zl_matmul(zl_ones(ZL_SHAPE(sizes[i].rows, 4), ZL_FLOAT32),
                                   zl_ones(ZL_SHAPE(4, sizes[i].columns), ZL_FLOAT32));
            zl_ahead_compile(a, 1, &y, &p); // the plugin compiles no products: only the text matters
            zl_clear_error();
            const char *at = p.program ? strstr(p.program, "dot_general") : NULL;
            CHECK_HAS(at ? at : "", sizes[i].type);
            CHECK((p.program && strstr(p.program, "stablehlo.pad")) ==
                  (sizes[i].rows == 1 || sizes[i].columns == 1));
            zl_ahead_program_free(&p);
        }
    zl_ahead_close(a);
}

TEST(lone_rows_and_columns_get_zeros) {
    static const char *const topologies[] = {"v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:1x1"},
                             *const chips[] = {"TPU v4", "TPU v5 lite", "TPU v5", "TPU v6 lite"};
    for (size_t i = 0; i < COUNT(topologies); i++) {
        check_lone_rows(topologies[i]);
        CHECK(hlo_target_of(chips[i]) && hlo_target_of(chips[i]) == hlo_target_of(topologies[i]));
    }
    CHECK(!hlo_target_of("TPU7x") && !hlo_target_of("tpu7x:1x1x1") && !hlo_target_of("fake chip"));
    CHECK(hlo_target_of("cpu") && !hlo_target_of("cpu")->least_lines);
}

// A call that frees something may fail unnoticed; a call that only makes an estimate may leave it out.
TEST(any_call_may_fail_ahead) {
    REQUIRE(zl_use_device("cpu"));
    int failures = 0, more = 1;
    for (int at = 1; more && at < 100; at++) {
        int64_t calls = fake.calls();
        fake.fail("", at, INTERNAL);
        bool good = compile_ahead();
        more = fake.calls() - calls >= at;
        fake.heal();
        failures += !good;
        CHECK(good == !zl_error());
        zl_clear_error();
        CHECK_EQ_INT(fake.alive("topology"), 0);
        CHECK_EQ_INT(fake.alive("compiled"), 0);
        CHECK_EQ_INT(fake.alive("error"), 0);
    }
    CHECK(failures >= 4);
}

// Times of executions ---------------------------------------------------------------------------------------

static bool has_profiler(const char *word) {
    const char *is = getenv("FAKE_PJRT"), *at = is ? strstr(is, "profiler") : NULL;
    return at && (!*word || (at[8] == '=' && !strncmp(at + 9, word, strlen(word))));
}

// Runs a program three times under a profile. Stores the profile's table and timeline, which the caller
// frees.
static void profile_three_runs(char **table, char **timeline) {
    char path[300];
    snprintf(path, sizeof path, "%s/timeline.json", test_folder());
    ZL_SCOPE {
        REQUIRE(zl_use_device("pjrt") && zl_eval(twice(from_host(), 3)));
        REQUIRE(zl_profile_begin(path));
        for (int i = 0; i < 3; i++) {
            zl_array y = twice(from_host(), 3);
            CHECK(is_twice(y, 3));
        }
        *table = zl_profile_end();
        *timeline = file_read(path, NULL);
    }
    REQUIRE(*table && *timeline);
    check_nothing_is_left();
    CHECK_EQ_INT(fake.alive("profiler"), 0);
}

// Returns how often a part occurs in a text.
static int count_of(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        count++;
    return count;
}

TEST(the_profiler_times_executions) {
    static const char event[] = "\"cat\":\"kernel\",\"name\":\"XLA program\"";
    char *table = NULL, *timeline = NULL;
    profile_three_runs(&table, &timeline);
    bool streams = has_profiler("streams"), lost = has_profiler("lost");
    CHECK_EQ_INT(count_of(timeline, event), !has_profiler("") || lost ? 0 : streams ? 6 : 3);
    if (!has_profiler(""))
        CHECK_HAS(table, "pjrt: the plugin has no profiler");
    else if (lost)
        CHECK_HAS(table, "shows more or less than was executed");
    else
        for (int i = 1; i <= 3; i++) {
            char took[32];
            snprintf(took, sizeof took, "\"dur\":%d.%03d,", streams ? i / 2 : i, streams ? i % 2 * 500 : 0);
            if (!CHECK(strstr(timeline, took)))
                test_note("no %s in %s", took, timeline);
        }
    memory_free(table);
    memory_free(timeline);
}

TEST(a_profiler_may_fail) {
    static const char *const functions[] = {"Profiler_Create", "Profiler_Start", "Profiler_Stop",
                                            "Profiler_CollectData", "Profiler_Destroy"};
    for (size_t i = 0; has_profiler("") && i < COUNT(functions); i++) {
        char *table = NULL, *timeline = NULL;
        fake.fail(functions[i], 1, INTERNAL);
        profile_three_runs(&table, &timeline);
        fake.heal();
        CHECK_HAS(table, "pjrt: the plugin's profiler fails, so that nothing has a time: INTERNAL: ");
        memory_free(table);
        memory_free(timeline);
    }
}
