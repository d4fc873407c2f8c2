// test_tile_threads.c - the code of threads: what the verifier refuses, what the interpreter detects, and
// that groups of threads, run thread by thread in the interpreter, give the results of the tile statements.

#include "test.h"

#include "device/tile_samples.h"
#include "device/tile_trial.h"
#include "pass/pass.h"
#include "render/render.h"

#include <stdio.h>
#include <stdlib.h>
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
    refuses("thread t in n { s[t] = 0 }", "a number of threads from 1 to 65536");
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
    CHECK_ERROR(
        ZL_ERROR_SYNTAX,
        zl_kernel_parse("kernel f(a: f32[n]) -> (y: f32[n]) { grid b in 1, threads 65537 { y[0] = a[0] } }",
                        "f.tile"));
    CHECK_HAS(test_last_error(), "grid: it has 65537 threads; 65536 are possible");
}

// Words that do not change results.
TEST(hints_that_make_no_sense_are_refused) {
    refuses("copy s -> s once", "once is said of memory outside of the block, and 's' is inside");
    refuses("map i in 64 { s[i] = 0 once }", "once is said of memory outside of the block");
    refuses("fill s = 0 once", "'once' is a word of the language");
    refuses("unroll 0 k in 4 { s[k] = 0 }", "0 is out of range");
    refuses("for 4 k in 4 { s[k] = 0 }", "a loop variable");
    static const char *const grids[] = {"threads 64, resident 0", "threads 64, resident",
                                        "threads 64, b in 3", "resident 4"};
    for (size_t i = 0; i < COUNT(grids); i++) {
        char text[200];
        snprintf(text, sizeof text, "kernel f(a: f32[n]) -> (y: f32[n]) { grid b in n, %s { y[b] = a[b] } }",
                 grids[i]);
        CHECK_ERROR(ZL_ERROR_SYNTAX, zl_kernel_parse(text, "f.tile"));
    }
}

// A barrier that some threads do not reach would hang a GPU: the interpreter reports it.
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

// Without a barrier a thread reads what its neighbour has not written yet, since the interpreter runs one
// thread after the other.
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

static const char of_all_types[] =
    "kernel types(x: f32[n]) -> (a: c64[3], b: i64[3], c: bool[3], d: f16[3], e: u8[3]) {\n"
    "  grid g in 3, threads 128 {\n"
    "    shared z: c64[300]\n    shared w: i64[300]\n    shared t: bool[300]\n    shared h: f16[300]\n    "
    "shared m: u8[300]\n"
    "    shared za: c64[1]\n    shared wa: i64[1]\n    shared ta: bool[1]\n    shared ha: f16[1]\n    shared "
    "ma: u8[1]\n"
    "    map i in 300 {\n      z[i] = pair(x[i], x[299 - i] * f32(g))\n      w[i] = i64(i) << (30 + g)\n"
    "      t[i] = i != 17\n      h[i] = f16(x[i])\n      m[i] = u8(i * 7)\n    }\n"
    "    reduce add z -> za axis 0\n    reduce add w -> wa axis 0\n    reduce bitwise_and t -> ta axis 0\n"
    "    reduce minimum h -> ha axis 0\n    reduce bitwise_or m -> ma axis 0\n"
    "    a[g] = pair(re(za[0]), im(za[0]))\n    b[g] = wa[0]\n    c[g] = ta[0]\n    d[g] = ha[0]\n    e[g] = "
    "ma[0]\n  }\n}\n";

// A tile with two numbers per thread.
static const char narrow[] =
    "kernel narrow(x: f32[n, 512]) -> (y: f32[n, 512], z: f16[n, 256]) {\n  grid b in n, threads 256 {\n"
    "    fragment row: f32[512]\n    fragment sum: f32[1]\n    fragment half: f16[256]\n"
    "    copy x[b, 0] of [1, 512] -> row\n    reduce add row -> sum axis 0\n"
    "    map j in 512 { row[j] = row[j] / (2 + abs(sum[0])) }\n    copy row -> y[b, 0] of [1, 512]\n"
    "    copy x[b, 100] of [1, 256] -> half\n    copy half -> z[b, 0] of [1, 256]\n  }\n}\n";

// Runs kernels, as they are for a target's groups of threads, in the interpreter: layouts, barriers,
// exchanges between threads.
TEST(groups_of_threads_give_what_is_said) {
    static const struct {
        const char *text;
        int64_t sizes[4];
    } cases[] = {{SAMPLE_REDUCTIONS, {16}},
                 {SAMPLE_EDGES, {37, 71}},
                 {SAMPLE_GEMM_RELU, {50, 29, 70}},
                 {SAMPLE_INNER_TILES, {5}},
                 {SAMPLE_WHILE, {5}},
                 {of_all_types, {300}},
                 {narrow, {5}},
                 {SAMPLE_STORES, {2, 1032}},
                 {SAMPLE_STORES, {2, 1031}},
                 {SAMPLE_RUNS, {3, 256}},
                 {SAMPLE_RUNS, {3, 257}},
                 {SAMPLE_RUNS, {2, 1026}},
                 {SAMPLE_SCANS, {8, 1300}},
                 {SAMPLE_SCANS, {70, 100}},
                 {SAMPLE_LINES, {37, 100}},
                 {SAMPLE_LINES, {3, 512}},
                 {SAMPLE_LINES, {3, 1100}}};
    static const char *const targets[] = {"cuda_tiles", "hip_tiles", "opencl_tiles", "opencl_cpu_tiles"};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t k = 0; k < COUNT(targets); k++)
            tile_trial_of_groups(cases[i].text, render_target(targets[k]), cases[i].sizes, 1e-4);
}

// Maps of more tiles in registers, and of more vectors along their axes, than fit a list of a fixed length.
TEST(maps_use_any_number_of_fragments) {
    enum { TILES = 40, AXES = 8 };
    struct text many = {0}, deep = {0};
    text_add(&many, "kernel many(x: f32[%d, 64]) -> (y: f32[64]) {\n  grid b in 1, threads 32 {\n", TILES);
    for (int i = 0; i < TILES; i++)
        text_add(&many, "    fragment t%d: f32[64]\n    copy x[%d, 0] of [1, 64] -> t%d\n", i, i, i);
    text_add(&many, "    map i in 64 { y[i] = t0[i]");
    for (int i = 1; i < TILES; i++)
        text_add(&many, " + t%d[%s]", i, i + 1 < TILES ? "i" : "63 - i");
    text_add(&many, " }\n  }\n}\n");
    text_add(&deep, "kernel deep(x: f32[%d, 4]) -> (y: f32[65536]) {\n  grid b in 1, threads 2 {\n", AXES);
    for (int i = 0; i < AXES; i++)
        text_add(&deep, "    fragment t%d: f32[4] align 8\n    copy x[%d, 0] of [1, 4] -> t%d\n", i, i, i);
    text_add(&deep, "    map ");
    for (int i = 0; i < AXES; i++)
        text_add(&deep, "%sp%d in 4", i ? ", " : "", i);
    text_add(&deep, " { y[");
    for (int i = 0; i < AXES; i++)
        text_add(&deep, "%sp%d * %d", i ? " + " : "", i, 1 << 2 * i);
    text_add(&deep, "] = ");
    for (int i = 0; i < AXES; i++)
        text_add(&deep, "%st%d[p%d]", i ? " + " : "", i, i);
    text_add(&deep, " }\n  }\n}\n");
    tile_trial_of_groups(many.data, render_target("cuda_tiles"), (int64_t[]){0}, 1e-4);
    tile_trial_of_groups(deep.data, render_target("cuda_tiles"), (int64_t[]){0}, 1e-4);
    text_free(&many);
    text_free(&deep);
}

// Two tiles that are used one after the other, and one that is used together with the second.
static const char phases[] =
    "kernel phases(x: f32[n, 64, 64]) -> (y: f32[n, 64, 64], z: f32[n, 64, 64]) {\n"
    "  grid b in n, threads 64 {\n"
    "    shared first: f32[64, 64]\n    shared half: f16[64, 64]\n    shared second: f32[64, 64]\n"
    "    copy x[b, 0, 0] of [1, 64, 64] -> first\n"
    "    map i in 64, j in 64 { y[b, i, j] = first[j, i] }\n"
    "    map i in 64, j in 64 { second[i, j] = x[b, j, i] * 2 }\n"
    "    map i in 64, j in 64 { half[i, j] = f16(second[63 - i, j]) }\n"
    "    map i in 64, j in 64 { z[b, i, j] = f32(half[j, i]) + second[j, i] }\n"
    "  }\n}\n";

TEST(tiles_share_memory_where_there_is_little) {
    struct target target = *render_target("cuda_tiles");
    struct target_group group = *target.group;
    group.most_threads = 1024;
    target.group = &group;
    for (int enough = 0; enough < 2; enough++) {
        group.most_shared = enough ? 40 << 10 : 24 << 10;
        tile_trial_of_groups(phases, &target, (int64_t[]){3}, 1e-3);
        struct tile_kernel *k = tile_parse(phases, "phases.tile");
        struct render_launch launch = {.shared = -1};
        struct text source = {0};
        if (CHECK(k && render_kernel(&source, k, &target)))
            CHECK_EQ_INT(render_launches(k, &launch, 1), 1);
        CHECK_EQ_INT(launch.shared, group.most_shared);
        text_free(&source);
        tile_free(k);
    }
}

// A result that is read in another shape is in memory, but is still computed by matrix instructions, which
// the interpreter lacks.
TEST(results_in_memory_go_through_registers) {
    struct tile_kernel *k = tile_parse(SAMPLE_SMALL_PRODUCT, "small_product.tile");
    char *source = k ? tile_rendered(k, "cuda_tiles") : NULL;
    const char *body = source ? strstr(source, " small_product_0(") : NULL;
    CHECK(body && strstr(body, "zl_multiply_f16(") && strstr(body, "view"));
    memory_free(source);
    tile_free(k);
    struct target target = *render_target("cuda_tiles");
    target.multiplies = NULL;
    tile_trial_of_groups(SAMPLE_SMALL_PRODUCT, &target, (int64_t[]){0}, 1e-4);
}

// A thread that evaluates the loop's condition might run ahead of the thread that writes what the condition
// reads.
TEST(a_condition_is_asked_after_a_barrier) {
    struct tile_kernel *k = tile_parse(SAMPLE_WHILE, "rounds.tile");
    char *source = k ? tile_rendered(k, "cuda_tiles") : NULL;
    const char *loop = source ? strstr(source, "    for (;;) {") : NULL;
    const char *end = loop ? strstr(loop, "\n    }\n") : NULL;
    static const char barrier[] = "ZL_BARRIER;";
    if (CHECK(end))
        CHECK(strncmp(end - strlen(barrier), barrier, strlen(barrier)) == 0);
    memory_free(source);
    tile_free(k);
}

// Subgroups of a target may have 2 to 64 threads.
TEST(subgroups_have_any_size) {
    for (int size = TILE_SUBGROUP_LEAST; size <= TILE_SUBGROUP_MOST; size *= test_long() ? 2 : 4) {
        struct target target = *render_target("cuda_tiles");
        struct target_group group = *target.group;
        group.subgroup = size;
        target.group = &group;
        tile_trial_of_groups(SAMPLE_REDUCTIONS, &target, (int64_t[]){16}, 1e-4);
        tile_trial_of_groups(of_all_types, &target, (int64_t[]){300}, 1e-4);
        tile_trial_of_groups(SAMPLE_SCANS, &target, (int64_t[]){8, 300}, 1e-4);
    }
}

static const char shuffles[] =
    "kernel shuffles(a: i32[n], k: u32[n]) -> (x: i32[n], u: i32[n], f: i32[n], h: f16[n], w: i64[n]) where "
    "n % 96 == 0 {\n"
    "  grid b in n // 96 {\n    thread t in 96 {\n      let i = b * 96 + t\n      mine = a[i]\n"
    "      p = shuffle xor mine, k[i] of 32\n      q = shuffle up mine + 1, k[i] of 16\n"
    "      r = shuffle from mine, k[i] of 8\n      mine = shuffle up mine, 1 of 2\n"
    "      s = shuffle xor f16(mine), 3 of 4\n      v = shuffle from i64(mine) << 40, u32(t) of 32\n"
    "      g = shuffle xor mine > 50, 1 of 2\n"
    "      x[i] = p\n      u[i] = q\n      f[i] = where(g, r, -r)\n      h[i] = s\n      w[i] = v\n    }\n  "
    "}\n}\n";

// Compares with the definition in tile.h, also on `c`, where threads are loops.
TEST(shuffles_take_from_other_threads) {
    enum { N = 96 };
    int32_t a[N], x[N], u[N], f[N];
    uint32_t step[N];
    uint16_t h[N];
    int64_t w[N];
    for (int i = 0; i < N; i++) {
        a[i] = test_between(0, 100);
        step[i] = (uint32_t)test_between(0, 70);
    }
    struct tile_kernel *k = tile_parse(shuffles, "shuffles.tile");
    REQUIRE(k && CHECK(tile_interpret(k, (void *[]){a, step, x, u, f, h, w}, (int64_t[]){N})));
    for (int i = 0; i < N; i++) {
        int by = (int)step[i], lane = i % 16;
        CHECK_EQ_INT(x[i], a[i / 32 * 32 + (i % 32 ^ by % 32)]);
        CHECK_EQ_INT(u[i], a[i - (lane >= by % 16 ? by % 16 : 0)] + 1);
        CHECK_EQ_INT(abs(f[i]), a[i / 8 * 8 + by % 8]);
        CHECK_EQ_INT(w[i] >> 40, a[(i % 96) & ~1]);
    }
    tile_free(k);
    tile_trial(shuffles, "c", (int64_t[]){4 * N}, 0);
}

TEST(shuffles_that_make_no_sense_are_refused) {
    refuses("x = shuffle xor a[0], 1 of 32", "shuffle: it stands in a thread");
    refuses("map i in 64 { x = shuffle xor a[i], 1 of 32 }", "shuffle: it stands in a thread");
    refuses("thread t in 64 { map i in 4 { x = shuffle up a[i], 1 of 32 } }", "shuffle: it stands in a map");
    refuses("thread t in 64 { x = shuffle xor a[t], 1 of 24 }",
            "among 24 threads: it is a power of two from 2 to 64");
    refuses("thread t in 64 { x = shuffle xor a[t], 1 of 128 }", "among 128 threads");
    refuses("thread t in 64 { x = shuffle xor a[t], 1.5f32 of 32 }", "this is f32 and must be u32");
    refuses("thread t in 64 { x = shuffle down a[t], 1 of 32 }", "xor, up or from is expected, not down");
    refuses("thread t in 64 { x = shuffle xor pair(a[t], 0), 1 of 32 }", "take re(x) and im(x)");
    refuses("thread t in 64 { x = shuffle xor e4m3(a[t]), 1 of 32 }",
            "of e4m3: take numbers of 8 bits or more");
    refuses("thread t in 64 { x = 1i32 ; x = shuffle xor a[t], 1 of 32 }", "this is f32 and must be i32");
    refuses("thread t in 64 { t = shuffle xor a[t], 1 of 32 }", "'t' is no variable");
    refuses("x = 1f32\nthread t in 64 { x = shuffle xor a[t], 1 of 32 }",
            "'x' is declared outside of the thread");
    refuses("y[0] = shuffle(a[0], 1)", "shuffle");
}

// If a target has no subgroups with that many threads, values are exchanged through shared memory.
TEST(shuffles_that_a_target_does_not_have_go_through_memory) {
    static const struct {
        const char *dialect;
        int size;
        bool by_memory;
    } cases[] = {{"opencl_tiles", 2, true},
                 {"cuda_tiles", 64, true},
                 {"cuda_tiles", 32, false},
                 {"hip_tiles", 4, false}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[300];
        snprintf(text, sizeof text,
                 "kernel f(a: f32[n]) -> (y: f32[n]) {\n  grid b in 1 {\n    thread t in 64 {\n"
                 "      x = shuffle xor a[t], 1 of %d\n      y[t] = x\n    }\n  }\n}\n",
                 cases[i].size);
        struct tile_kernel *k = tile_parse(text, "f.tile");
        char *source = k ? tile_rendered(k, cases[i].dialect) : NULL;
        const char *body = source ? strstr(source, " f_0(") : NULL;
        if (CHECK(body)) {
            CHECK_EQ_INT(strstr(body, "ZL_BARRIER") != NULL, cases[i].by_memory);
            CHECK_EQ_INT(strstr(body, "ZL_SHUFFLE") != NULL, !cases[i].by_memory);
        }
        memory_free(source);
        tile_free(k);
    }
}
