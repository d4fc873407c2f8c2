// test_tile_threads.c - the code of threads: what the verifier refuses, what the interpreter finds, and that groups of threads give
// what tile statements say when the interpreter runs them thread by thread.

#include "test.h"

#include "device/tile_samples.h"
#include "device/tile_trial.h"
#include "pass/pass.h"
#include "render/render.h"

#include <stdio.h>
#include <string.h>

static void refuses(const char *body, const char *why) {
    char text[1000];
    snprintf(text, sizeof text,
             "kernel f(a: f32[n]) -> (y: f32[n]) {\n  grid b in n, threads 64 {\n    shared s: f32[64]\n%s\n "
             " }\n}\n",
             body);
    zl_kernel k = zl_kernel_parse(text, "f.tile");
    if (!CHECK(!k && zl_error() && strstr(zl_error(), why)))
        test_note("%s\n%s", body, zl_error() ? zl_error() : "no error");
    zl_clear_error();
    zl_kernel_release(k);
}

TEST(threads_that_make_no_sense_are_refused) {
    refuses("map i in 64 { s[i] = 0 ; barrier group }",
            "barrier: it stands in a map, whose points have no order");
    refuses("parallel i in 64 { if i > 3 { barrier subgroup } }", "barrier: it stands in a map");
    refuses("thread t in 64 { map i in 4 { barrier group } }", "barrier: it stands in a map");
    refuses("map i in 4 { thread t in 64 { s[t] = 0 } }", "thread: it stands in a grid, and in no map");
    refuses("thread t in 64 { thread u in 64 { s[t] = 0 } }", "thread: it stands in a grid");
    refuses("thread t in 32 { s[t] = 0 }", "the block has 64 threads, not 32");
    refuses("thread t in n { s[t] = 0 }", "a number of threads from 1 to 1024");
    refuses("thread t in 64, u in 2 { s[t] = 0 }", "it has one name");
    refuses("x = 1f32\nthread t in 64 { x = 2 }", "'x' is declared outside of the thread");
    refuses("thread t in 64 { fragment f: f32[4] }", "inside of a thread memory is local or shared");
    CHECK_ERROR(
        ZL_ERROR_SYNTAX,
        zl_kernel_parse("kernel f(a: f32[n]) -> (y: f32[n]) { thread t in 4 { y[t] = a[t] } }", "f.tile"));
    CHECK_ERROR(ZL_ERROR_SYNTAX,
                zl_kernel_parse(
                    "kernel f(a: f32[n]) -> (y: f32[n]) { grid b in 1 { thread t in 4 { y[t] = 0 } ; thread "
                    "t in 8 { y[t] = 0 } } }",
                    "f.tile"));
}

// A barrier that some threads do not reach would hang a GPU: the interpreter says so.
TEST(threads_that_part_before_a_barrier_are_found) {
    struct tile_kernel *k =
        tile_parse("kernel f(a: f32[n]) -> (y: f32[n]) {\n  grid b in 1 {\n    thread t in 4 {\n"
                   "      if a[t] > 0 { barrier group }\n      y[t] = a[t]\n    }\n  }\n}\n",
                   "f.tile");
    REQUIRE(k);
    float a[4] = {1, 1, -1, 1}, y[4] = {0};
    CHECK(!tile_interpret(k, (void *[]){a, y}, (int64_t[]){4}));
    CHECK_HAS(zl_error() ? zl_error() : "",
              "threads 0 and 2 go different ways, with a barrier on one of them");
    zl_clear_error();
    a[2] = 3;
    CHECK(tile_interpret(k, (void *[]){a, y}, (int64_t[]){4}) && y[2] == 3);
    tile_free(k);
}

// Without a barrier a thread reads what its neighbour has not written yet, since one thread runs after the other.
TEST(a_missing_barrier_shows) {
    for (int has_barrier = 0; has_barrier < 2; has_barrier++) {
        char text[400];
        snprintf(text, sizeof text,
                 "kernel f(a: f32[n]) -> (y: f32[n]) {\n  grid b in 1 {\n    shared s: f32[4]\n    thread t "
                 "in 4 {\n"
                 "      s[t] = a[t]\n      %s\n      y[t] = s[(t + 1) %% 4]\n    }\n  }\n}\n",
                 has_barrier ? "barrier group" : "");
        struct tile_kernel *k = tile_parse(text, "f.tile");
        REQUIRE(k);
        float a[4] = {1, 2, 3, 4}, y[4] = {0};
        CHECK(tile_interpret(k, (void *[]){a, y}, (int64_t[]){4}));
        CHECK((y[0] == 2) == has_barrier);
        tile_free(k);
    }
}

// What a target's groups of threads do with a kernel, run by the interpreter: layouts, barriers, exchanges between threads.
TEST(groups_of_threads_give_what_is_said) {
    static const struct {
        const char *text;
        int64_t sizes[4];
    } cases[] = {{SAMPLE_REDUCTIONS, {32}}, {SAMPLE_EDGES, {37, 71}}, {SAMPLE_GEMM_RELU, {50, 29, 70}}};
    static const char *const targets[] = {"opencl_tiles"};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t k = 0; k < COUNT(targets); k++)
            tile_trial_of_groups(cases[i].text, render_target(targets[k]), cases[i].sizes, 1e-5);
}
