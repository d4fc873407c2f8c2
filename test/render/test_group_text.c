// test_group_text.c - kernels of groups of threads as text: every kernel of render/kernels and of the manual
// compiles, for CUDA by NVRTC or nvcc and for HIP by clang. A run compiles a tenth of them, chosen by the
// seed; a long run all.

#include "test.h"

#include "device/tile_trial.h"

#include "device/cuda/cuda.h"
#include "kernel/kernel.h"
#include "pass/pass.h"
#include "render/render.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void text_visit(const char *name, const char *text, void *data);

static void each_of_folder(text_visit *visit, void *data) {
    char path[512];
    DIR *folder = opendir(ZL_TEST_DIR "/render/kernels");
    REQUIRE(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!strstr(entry->d_name, ".tile"))
            continue;
        snprintf(path, sizeof path, "%s/render/kernels/%s", ZL_TEST_DIR, entry->d_name);
        char *text = file_read(path, NULL);
        if (CHECK(text))
            visit(entry->d_name, text, data);
        memory_free(text);
    }
    closedir(folder);
}

static void each_of_manual(text_visit *visit, void *data) {
    char *text = file_read(ZL_TEST_DIR "/../doc/tile.md", NULL);
    REQUIRE(text);
    for (char *at = strstr(text, "```tile\n"), *end; at && (end = strstr(at + 8, "```"));
         at = strstr(end + 3, "```tile\n")) {
        *end = 0;
        visit("doc/tile.md", at + 8, data);
    }
    memory_free(text);
}

static char *render(const char *name, const char *text, const char *dialect) {
    struct tile_kernel *kernel = tile_parse(text, name);
    char *source = kernel ? tile_rendered(kernel, dialect) : NULL;
    if (!CHECK(source))
        test_note("%s for %s: %s", name, dialect, zl_error() ? zl_error() : "?");
    tile_free(kernel);
    return source;
}

static int count_of(const char *text, const char *word) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)); at++)
        count++;
    return count;
}

static bool is_drawn(void) {
    return test_long() || test_between(0, 9) == 0;
}

// CUDA ------------------------------------------------------------------------------------------------------

static void compile_for_cuda(const char *name, const char *text, void *data) {
    static const char *const architectures[] = {"sm_80", "sm_90a", "sm_100"};
    int *count = data;
    char *source = render(name, text, "cuda_tiles");
    for (size_t i = 0; source && i < COUNT(architectures); i++) {
        struct text code = {0};
        if (!is_drawn())
            continue;
        if (!CHECK(cuda_compile(source, architectures[i], NULL, &code)))
            test_note("%s for %s: %s", name, architectures[i], zl_error() ? zl_error() : "?");
        zl_clear_error();
        text_free(&code);
        ++*count;
    }
    memory_free(source);
}

TEST(cuda_texts_of_groups_compile) {
    int count = 0;
    if (test_quick())
        SKIP("its compiler takes seconds");
    if (!cuda_compiler()) {
        zl_clear_error();
        SKIP("neither NVRTC nor nvcc is installed");
    }
    each_of_folder(compile_for_cuda, &count);
    each_of_manual(compile_for_cuda, &count);
    CHECK(count > 0 || !test_long());
}

// Products become matrix instructions, copies of pipelines cp.async, reductions of rows shuffles, with one
// barrier per turn.
TEST(cuda_attention_stays_in_registers) {
    char *text = file_read(ZL_TEST_DIR "/render/kernels/attention.tile", NULL);
    char *source = text ? render("attention", text, "cuda_tiles") : NULL,
         *body = source ? strstr(source, "__global__") : NULL;
    REQUIRE(body);
    CHECK_EQ_INT(count_of(body, "zl_multiply_f16("), 2);
    CHECK_EQ_INT(count_of(body, "ZL_BARRIER;"), 1);
    CHECK_HAS(body, "ZL_SHUFFLE_XOR(");
    CHECK_HAS(body, "zl_async_16(");
    memory_free(source);
    memory_free(text);
}

// Outputs of an earlier grid are copied ahead like inputs. Memory that the grid itself writes is not: the
// copy would come before the write.
TEST(cuda_pipelines_copy_ahead_what_a_grid_does_not_write) {
    static const struct {
        const char *last;
        int ahead;
    } cases[] = {{"copy a -> y[t * 64] of [64]", 2}, {"copy a -> room[t * 64 + 64] of [64]", 0}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[700];
        snprintf(
            text, sizeof text,
            "kernel twice(x: f32[4096]) -> (y: f32[4096]) {\n  global room: f32[4096]\n"
            "  grid b in 64, threads 64 {\n    map i in 64 { room[b * 64 + i] = x[b * 64 + i] * 2 }\n  }\n"
            "  grid b in 1, threads 64 {\n    shared a: f32[64]\n"
            "    pipeline t in 63 stages 2 {\n      copy room[t * 64] of [64] -> a\n      %s\n    }\n  "
            "}\n}\n",
            cases[i].last);
        char *source = render("twice", text, "cuda_tiles"),
             *body = source ? strstr(source, "twice_1(") : NULL;
        REQUIRE(body);
        CHECK_EQ_INT(count_of(body, "zl_async_"), cases[i].ahead);
        memory_free(source);
    }
}

// A pipeline whose copy has to wait for its own loop keeps none behind it from running ahead.
TEST(cuda_pipelines_the_first_loop_that_can_be) {
    char *source = render("twice",
                          "kernel twice(x: f32[4096]) -> (y: f32[4096]) {\n  global room: f32[4096]\n"
                          "  grid b in 1, threads 64 {\n    shared a: f32[64]\n    shared c: f32[64]\n"
                          "    pipeline t in 63 stages 2 {\n      copy room[t * 64] of [64] -> a\n"
                          "      copy a -> room[t * 64 + 64] of [64]\n    }\n"
                          "    pipeline t in 64 stages 2 {\n      copy x[t * 64] of [64] -> c\n"
                          "      copy c -> y[t * 64] of [64]\n    }\n  }\n}\n",
                          "cuda_tiles");
    const char *body = source ? strstr(source, "twice_0(") : NULL;
    if (CHECK(body))
        CHECK_EQ_INT(count_of(body, "zl_async_"), 2);
    memory_free(source);
}

// Two 16-bit numbers are packed such that the compiler rounds both at once; 8-bit numbers are moved as words.
// Rows of a larger array are copied 16 bytes at a time, asynchronously, if their distance is known to be a
// multiple of that, or is found to be one at run time.
TEST(cuda_copies_strided_lines_by_vectors) {
    static const struct {
        const char *known;
        bool asks;
    } cases[] = {{"where apart % 8 == 0 ", false}, {"", true}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[500];
        snprintf(
            text, sizeof text,
            "kernel sums(x: bf16[n, 64] stride [apart, 1]) -> (y: f32[n, 64]) %s{\n  grid b in 1, threads 64 "
            "{\n"
            "    shared s: bf16[16, 64]\n    fragment a: f32[16, 64] = 0\n    pipeline t in 4 stages 2 {\n"
            "      copy x[t * 16, 0] of [16, 64] -> s\n"
            "      map i in 16, j in 64 { a[i, j] = a[i, j] + f32(s[i, j]) }\n    }\n    copy a -> y[0, 0] "
            "of [16, 64]\n  }\n}\n",
            cases[i].known);
        char *source = render("sums", text, "cuda_tiles"), *body = source ? strstr(source, "sums_0(") : NULL;
        REQUIRE(body);
        CHECK_HAS(body, "zl_async_or_zero_16(");
        CHECK((strstr(body, "& (i64)0x7u") != NULL) == cases[i].asks);
        memory_free(source);
    }
}

// Several threads hold the largest element of a row. Only one of them reads and writes shared memory; the
// others could read what it has already overwritten.
TEST(cuda_maps_of_copies_read_in_one_thread) {
    char *source =
        render("lower",
               "kernel lower(x: f32[16, 64]) -> (y: f32[16]) {\n  grid b in 1, threads 128 {\n"
               "    fragment a: f32[16, 64]\n    fragment most: f32[16]\n    shared t: f32[16]\n"
               "    copy x -> a\n    reduce maximum a -> most axis 1\n    map i in 16 { t[i] = 1 }\n"
               "    map i in 16 { t[i] = t[i] - most[i] }\n    copy t -> y\n  }\n}\n",
               "cuda_tiles");
    const char *body = source ? strstr(source, "lower_0(") : NULL,
               *minus = body ? strstr(body, " - v") : NULL, *store = minus ? strstr(minus, "] = ") : NULL,
               *test = minus ? strstr(minus, "if (") : NULL;
    CHECK(store && (!test || test > store));
    memory_free(source);
}

// A copy that rounds packs pairs; a map whose values were computed in more steps does not.
TEST(cuda_stores_pairs_of_halves) {
    static const struct {
        const char *type, *last, *word;
    } cases[] = {{"f16", "copy t -> y[b * 1024]", "= zl_pairs("},
                 {"bf16", "copy t -> y[b * 1024]", "= zl_pairs("},
                 {"bf16", "map i in 1024 { y[b * 1024 + i] = bf16(t[i]) * 2 }", "= zl_words("},
                 {"i8", "copy t -> y[b * 1024]", "= zl_words("},
                 {"f32", "copy t -> y[b * 1024]", "= *"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[400];
        snprintf(
            text, sizeof text,
            "kernel twice(x: f32[4096]) -> (y: %s[4096]) {\n  grid b in 4, threads 64 {\n"
            "    fragment t: f32[1024]\n    map i in 1024 { t[i] = x[b * 1024 + i] * 2 }\n    %s\n  }\n}\n",
            cases[i].type, cases[i].last);
        char *source = render("twice", text, "cuda_tiles"),
             *body = source ? strstr(source, "twice_0(") : NULL;
        REQUIRE(body);
        CHECK_HAS(body, cases[i].word);
        memory_free(source);
    }
}

// A group of 256 threads has eight subgroups: five shuffles, a slot per subgroup, three shuffles, and one
// barrier; two barriers if a loop reuses the slots. Without shuffles one thread of each sixteen combines
// their slots, and all threads combine the results.
TEST(groups_reduce_in_two_levels) {
    static const struct {
        const char *dialect, *loop;
        int shuffles, barriers;
    } cases[] = {{"cuda_tiles", "", 8, 1},
                 {"cuda_tiles", "for k in 2 ", 8, 2},
                 {"hip_tiles", "", 8, 1},
                 {"opencl_tiles", "", 0, 2}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[400];
        snprintf(
            text, sizeof text,
            "kernel total(x: f32[n, 1024]) -> (y: f32[n]) {\n  grid b in n, threads 256 {\n"
            "    fragment row: f32[1024]\n    fragment sum: f32[1]\n    copy x[b, 0] of [1, 1024] -> row\n"
            "    %s{ reduce add row -> sum axis 0 }\n    copy sum -> y[b]\n  }\n}\n",
            *cases[i].loop ? cases[i].loop : "if n > 0 ");
        char *source = render("total", text, cases[i].dialect),
             *body = source ? strstr(source, "total_0(") : NULL;
        REQUIRE(body);
        CHECK_EQ_INT(count_of(body, "ZL_SHUFFLE_XOR("), cases[i].shuffles);
        CHECK_EQ_INT(count_of(body, "ZL_BARRIER;"), cases[i].barriers);
        memory_free(source);
    }
}

// Rows that are reduced are divided among the threads of a subgroup, if there are enough of them: without a
// barrier, and by vectors if the tile is aligned.
TEST(short_lines_are_reduced_by_subgroups) {
    static const char text[] =
        "kernel total(x: f32[n, 256]) -> (y: f32[n]) where n %% 8 == 0 {\n"
        "  grid b in n // 8, threads 256 {\n"
        "    fragment row: f32[8, 256]%s\n    fragment sum: f32[8]\n"
        "    map i in 8, j in 256 { row[i, j] = x[b * 8 + i, j] once }\n"
        "    reduce add row -> sum axis 1\n    map i in 8 { y[b * 8 + i] = sum[i] }\n  }\n}\n";
    for (int i = 0; i < 2; i++) {
        char filled[600];
        snprintf(filled, sizeof filled, text, i ? " align 8" : "");
        char *source = render("total", filled, "cuda_tiles"),
             *body = source ? strstr(source, "total_0(") : NULL;
        REQUIRE(body);
        CHECK_EQ_INT(count_of(body, "ZL_BARRIER;"), 0);
        CHECK_EQ_INT(count_of(body, "ZL_SHUFFLE_XOR("), 5);
        CHECK_EQ_INT(count_of(body, i ? "ZL_LOAD_ONCE(*(const zl_8 *)" : "ZL_LOAD_ONCE(*(const zl_16 *)"), 1);
        memory_free(source);
    }
}

// A block of several groups (a cluster): each group writes its sums to the memory of all groups, and waits
// for the others once; other targets have one group.
TEST(clusters_reduce_together) {
    static const char text[] = "kernel total(x: f32[n, 8192]) -> (y: f32[n, 8192]) {\n"
                               "  grid b in n, threads 256, cluster 8, resident 2 {\n"
                               "    fragment row: f32[1, 8192]\n    fragment sum: f32[1]\n"
                               "    map i in 1, j in 8192 { row[i, j] = x[b, j] }\n"
                               "    reduce add row -> sum axis 1\n"
                               "    map i in 1, j in 8192 { y[b, j] = row[i, j] / sum[i] }\n  }\n}\n";
    static const struct {
        const char *dialect;
        int clusters, barriers;
    } cases[] = {{"cuda_tiles", 1, 0}, {"hip_tiles", 0, 1}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *source = render("total", text, cases[i].dialect),
             *body = source ? strstr(source, "void ZL_BOUNDS(256") : NULL;
        REQUIRE(body);
        CHECK_EQ_INT(count_of(body, "ZL_CLUSTER(8)"), cases[i].clusters);
        CHECK_EQ_INT(count_of(body, "ZL_PUT("), cases[i].clusters);
        CHECK_EQ_INT(count_of(body, "ZL_CLUSTER_ARRIVE;"), 2 * cases[i].clusters);
        CHECK_EQ_INT(count_of(body, "ZL_CLUSTER_AWAIT;"), 2 * cases[i].clusters);
        CHECK_EQ_INT(count_of(body, "ZL_BARRIER;"), cases[i].barriers);
        memory_free(source);
    }
}

// With a loose maximum, groups wait once for it and for the sum of the exponentials. Otherwise they wait for
// each.
TEST(clusters_exchange_loose_maxima_with_sums) {
    static const char text[] =
        "kernel soft(x: f32[n, 8192]) -> (y: f32[n, 8192]) {\n"
        "  grid b in n, threads 256, cluster 8 {\n"
        "    fragment row: f32[1, 8192]\n    fragment most: f32[1]\n    fragment sum: f32[1]\n"
        "    map i in 1, j in 8192 { row[i, j] = x[b, j] }\n"
        "    reduce maximum row -> most axis 1 %s\n"
        "    map i in 1, j in 8192 { row[i, j] = exp(row[i, j] - most[i]) }\n"
        "    reduce add row -> sum axis 1\n"
        "    map i in 1, j in 8192 { y[b, j] = row[i, j] / sum[i] }\n  }\n}\n";
    for (int is_loose = 0; is_loose < 2; is_loose++) {
        char kernel[800];
        snprintf(kernel, sizeof kernel, text, is_loose ? "loose" : "");
        char *source = render("soft", kernel, "cuda_tiles"),
             *body = source ? strstr(source, "void ZL_BOUNDS(256") : NULL;
        REQUIRE(body);
        CHECK_EQ_INT(count_of(body, "ZL_PUT("), 2);
        CHECK_EQ_INT(count_of(body, "ZL_CLUSTER_ARRIVE;"), 3 - is_loose);
        CHECK_EQ_INT(count_of(body, "ZL_CLUSTER_AWAIT;"), 3 - is_loose);
        memory_free(source);
    }
}

// Statements that groups of a cluster cannot execute together are errors.
TEST(clusters_refuse_what_they_cannot_share) {
    static const struct {
        const char *statement, *reason;
    } cases[] = {
        {"shared some: f32[64]; fill some = 1; map i in 64 { y[b, i] = some[63 - i] }", "'some' is no tile"},
        {"for k in 2 { reduce add row -> sum axis 1 }", "in no loop and no branch"},
        {"if n > 3 { reduce add row -> sum axis 1 }", "in no loop and no branch"},
        {"if n > 3 { y[b, 0] = 1 } else { reduce add row -> sum axis 1 }", "in no loop and no branch"},
        {"reduce maximum row -> sum axis 1 loose", "no sum comes after the loose maximum 'sum'"},
        {"reduce maximum row -> sum axis 1 loose; reduce maximum row -> sum axis 1",
         "no sum of the same lines comes after"},
        {"barrier group", "has no barrier"},
        {"thread t in 256 { y[b, t] = 1 }", "has no thread"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[600];
        snprintf(
            text, sizeof text,
            "kernel total(x: f32[n, 8192]) -> (y: f32[n, 8192]) {\n  grid b in n, threads 256, cluster 8 {\n"
            "    fragment row: f32[1, 8192]\n    fragment sum: f32[1] = 0\n"
            "    map i in 1, j in 8192 { row[i, j] = x[b, j] }\n    %s\n  }\n}\n",
            cases[i].statement);
        struct tile_kernel *kernel = tile_parse(text, "total");
        REQUIRE(kernel);
        char *source = tile_rendered(kernel, "cuda_tiles");
        if (!CHECK(!source && zl_error() && strstr(zl_error(), cases[i].reason)))
            test_note("%s: %s", cases[i].statement, zl_error() ? zl_error() : "no error");
        zl_clear_error();
        memory_free(source);
        tile_free(kernel);
    }
}

// Finding a thread's point along four axes takes three divisions: unsigned ones, of 32 bits if sizes are
// known to be small, and without a test for 0 if they are known not to be 0.
TEST(positions_are_divided_without_guards) {
    static const struct {
        const char *facts, *has, *lacks;
    } cases[] = {{"", "zl_floordiv_u64(", "zl_floordiv_i64("},
                 {"where a >= 1, b >= 1, c >= 1, d >= 1", " / ", "zl_floordiv_"},
                 {"where a <= 64, b <= 64, c <= 64, d <= 64", "zl_floordiv_u32(", "zl_floordiv_u64("}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "kernel turn(x: f32[d, c, b, a]) -> (y: f32[a, b, c, d]) %s {\n"
                 "  map i in a, j in b, k in c, l in d { y[i, j, k, l] = x[l, k, j, i] }\n}\n",
                 cases[i].facts);
        char *source = render("turn", text, "cuda_tiles"), *body = source ? strstr(source, "turn_0(") : NULL;
        REQUIRE(body);
        CHECK_HAS(body, cases[i].has);
        CHECK(!strstr(body, cases[i].lacks));
        memory_free(source);
    }
}

// Hints that change the code but not the result: accesses that are not repeated, resident blocks per
// multiprocessor, parts of loops.
TEST(hints_are_in_the_text) {
    static const char text[] = "kernel hints(x: f32[n, 512]) -> (y: f32[n, 512], z: c64[n]) {\n  grid b in "
                               "n, threads 128, resident 8 {\n"
                               "    fragment row: f32[512]\n    copy x[b, 0] of [1, 512] -> row once\n"
                               "    unroll 4 k in n { map j in 512 { y[b, j] = row[j] * 2 once } }\n"
                               "    unroll k in 3 { z[b] = pair(row[0], 1) where k > 0 once }\n"
                               "    copy x[b, 1] of [1, 511] -> y[b, 0] once\n  }\n}\n";
    static const struct {
        const char *dialect, *bounds;
        int loads, stores;
    } cases[] = {{"cuda_tiles", "ZL_BOUNDS(128, 8)", 1, 4},
                 {"hip_tiles", "ZL_BOUNDS(128, 8)", 1, 4},
                 {"opencl_tiles", "reqd_work_group_size(128, 1, 1)", 1, 4},
                 {"c_tiles", "#pragma GCC unroll 4", 0, 0}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *source = render("hints", text, cases[i].dialect),
             *body = source ? strstr(source, cases[i].bounds) : NULL;
        REQUIRE(body);
        CHECK_EQ_INT(count_of(body, "ZL_LOAD_ONCE("), cases[i].loads);
        CHECK_EQ_INT(count_of(body, "ZL_STORE_ONCE("), cases[i].stores);
        CHECK_EQ_INT(count_of(body, "ZL_UNROLL_SOME(4)"), i < 3);
        CHECK(i == 3 ? strstr(source, "#pragma GCC unroll 3") != NULL
                     : count_of(body, "    ZL_UNROLL\n") > 0);
        memory_free(source);
    }
}

// Rows of unknown length have two forms of code, of which that for short rows has no barrier. A thread of a
// CPU scans along a row.
TEST(scans_choose_by_the_length_of_lines) {
    static const struct {
        const char *dialect, *size;
        int shuffles, barriers;
    } cases[] = {{"cuda_tiles", "m", 13, 2},      {"cuda_tiles", "300", 7, 0},
                 {"cuda_tiles", "4096", 6, 2},    {"opencl_tiles", "m", 0, 5},
                 {"opencl_cpu_tiles", "m", 0, 0}, {"opencl_cpu_tiles", "4096", 0, 0}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[200];
        snprintf(text, sizeof text,
                 "kernel running(x: f32[n, %s]) -> (y: f32[n, %s]) {\n  scan add x -> y axis 1\n}\n",
                 cases[i].size, cases[i].size);
        char *source = render("running", text, cases[i].dialect),
             *body = source ? strstr(source, "running_0(") : NULL;
        REQUIRE(body);
        CHECK_EQ_INT(count_of(body, "ZL_SHUFFLE_"), cases[i].shuffles);
        CHECK_EQ_INT(count_of(body, "ZL_BARRIER;"), cases[i].barriers);
        memory_free(source);
    }
}

// A kernel is valid after every pass, in every build: asynchronous statements that become synchronous leave
// no wait without a token.
static void verify_passes(const char *name, const char *text, void *data) {
    static const char *const targets[] = {"c_tiles", "cuda_tiles", "hip_tiles", "opencl_tiles"};
    (void)data;
    for (size_t k = 0; k < COUNT(targets); k++)
        for (int i = 0; pass_name(i); i++) {
            struct tile_kernel *kernel = tile_parse(text, name);
            bool runs = kernel && pass_run(kernel, render_target(targets[k]), pass_name(i));
            bool is_shuffle = strstr(text, " shuffle ") && !strcmp(targets[k], "opencl_tiles");
            if (!CHECK(is_shuffle || (runs && tile_verify(kernel))))
                test_note("%s after %s for %s: %s\n%s", name, pass_name(i), targets[k],
                          zl_error() ? zl_error() : "?", text);
            zl_clear_error();
            tile_free(kernel);
        }
}

TEST(kernels_are_sound_after_every_pass) {
    static const char waits[] =
        "kernel waits(x: f16[n, 48], w: f16[48, 16]) -> (y: f32[n, 16]) where n % 16 == 0 {\n"
        "  grid b in n // 16 {\n    shared rows: f16[16, 48]\n    shared columns: f32[48, 16]\n"
        "    shared narrow: f16[48, 16]\n    fragment sum: f32[16, 16] = 0\n"
        "    first = copy_async x[b * 16, 0] -> rows\n    second = copy_async w -> columns\n"
        "    wait first keep 1\n    wait second\n    copy columns -> narrow\n"
        "    product = gemm_async rows, narrow -> sum\n    wait product\n    copy sum -> y[b * 16, 0]\n  "
        "}\n}\n";
    verify_passes("waits", waits, NULL);
    each_of_folder(verify_passes, NULL);
    each_of_manual(verify_passes, NULL);
    // Waits count groups of copies: each asynchronous statement has one, even if it is empty.
    char *source = render("waits", waits, "cuda_tiles"), *body = source ? strstr(source, "waits_0(") : NULL;
    REQUIRE(body);
    CHECK_EQ_INT(count_of(body, "ZL_COMMIT;"), 3);
    memory_free(source);
}

// Checks that a kernel has the argument for assertions if and only if it has an assertion, however deep.
TEST(only_assertions_have_a_status) {
    static const char *const dialects[] = {"cuda_tiles", "hip_tiles", "opencl_tiles"};
    static const char with[] = "kernel k(a: f32[n]) -> (y: f32[n]) {\n  grid b in n {\n    for i in 3 {\n"
                               "      if a[b] > 0 { y[b] = a[b] } else { assert a[b] < 1 }\n    }\n  }\n}\n";
    static const char without[] = "kernel k(a: f32[n]) -> (y: f32[n]) {\n  grid b in n { y[b] = a[b] }\n}\n";
    for (size_t i = 0; i < COUNT(dialects); i++) {
        char *asserts = render("with", with, dialects[i]), *plain = render("without", without, dialects[i]);
        CHECK(asserts && strstr(asserts, "i32 *zl_status)"));
        CHECK(plain && !strstr(plain, "i32 *zl_status)"));
        memory_free(asserts);
        memory_free(plain);
    }
}

// A launch passes tables by value; their elements are read in place.
TEST(tables_are_passed_by_value) {
    static const struct {
        const char *dialect, *argument;
    } cases[] = {{"cuda_tiles", "const __grid_constant__ struct tables_b1 b1"},
                 {"hip_tiles", "const __grid_constant__ struct tables_b1 b1"},
                 {"opencl_tiles", "const struct tables_b1 b1"}};
    char *text = file_read(ZL_TEST_DIR "/render/kernels/tables.tile", NULL);
    REQUIRE(text);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *source = render("tables", text, cases[i].dialect);
        CHECK_HAS(source, "struct tables_b1 {\n    i32 at[16];\n};\n");
        CHECK_HAS(source, "struct tables_b2 {\n    f16 at[64];\n};\n");
        CHECK_EQ_INT(count_of(source, cases[i].argument), 2); // functions, one per grid
        CHECK_HAS(source, "= b1.at[");
        CHECK(!strstr(source, "&b1"));
        memory_free(source);
    }
    char *c = render("tables", text, "c_tiles");
    CHECK_HAS(c, "const i32 *b1 = (const i32 *)run->p[1];");
    memory_free(c);
    memory_free(text);
}

TEST(narrow_tiles_stay_in_registers) {
    static const struct {
        const char *type, *access;
    } cases[] = {{"f32", "((zl_8 *)(b1 + "}, {"f16", "((zl_4 *)(b1 + "}, {"i8", NULL}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[400];
        snprintf(
            text, sizeof text,
            "kernel rows(x: %s[n, 512]) -> (y: %s[n, 512]) {\n  grid b in n, threads 256 {\n"
            "    fragment row: %s[512]\n    copy x[b, 0] of [1, 512] -> row\n"
            "    map j in 512 { row[j] = row[j] * row[j] }\n    copy row -> y[b, 0] of [1, 512]\n  }\n}\n",
            cases[i].type, cases[i].type, cases[i].type);
        char *source = render("rows", text, "cuda_tiles"), *body = source ? strstr(source, "rows_0(") : NULL;
        REQUIRE(body);
        CHECK_EQ_INT(count_of(body, "ZL_BARRIER;"), 0);
        CHECK(!strstr(body, "zl_memory"));
        if (cases[i].access)
            CHECK_HAS(body, cases[i].access);
        memory_free(source);
    }
}

// A map stores a tile in registers 16 bytes at a time; if rows may not be whole vectors, after a test.
TEST(maps_store_vectors) {
    static const struct {
        const char *columns, *index;
        int vectors, elements;
    } cases[] = {{"1024", "j", 1, 0},
                 {"1024", "j + 4", 1, 0},
                 {"m", "j", 1, 1},
                 {"1024", "j + b", 1, 1},
                 {"1024", "1023 - j", 0, 1}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "kernel rows(x: f32[n, 1024]) -> (y: f32[n, %s]) {\n  grid b in n, threads 256 {\n"
                 "    fragment row: f32[1024]\n    copy x[b, 0] of [1, 1024] -> row\n"
                 "    map j in 1024 { y[b, %s] = row[j] * 2 }\n  }\n}\n",
                 cases[i].columns, cases[i].index);
        char *source = render("rows", text, "cuda_tiles"), *body = source ? strstr(source, "rows_0(") : NULL;
        REQUIRE(body);
        CHECK_EQ_INT(count_of(body, "((zl_16 *)(b1 + "), cases[i].vectors);
        CHECK_EQ_INT(count_of(body, "    b1["), cases[i].elements);
        memory_free(source);
    }
}

// Cross entropy and its gradient read and write 16 bytes at a time, since the bytes of the logits limit their
// speed.
TEST(losses_move_vectors) {
    static const char *const names[] = {"cross_entropy", "cross_entropy_vjp"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct tile_kernel *kernel = kernel_built_in(names[i], "ITEM=bf16,RUN=8,QUICK=1");
        char *source = kernel ? tile_rendered(kernel, "cuda_tiles") : NULL;
        REQUIRE(source);
        CHECK_EQ_INT(count_of(source, "*(const zl_16 *)&b0["), 1);
        CHECK_EQ_INT(count_of(source, "((zl_16 *)(b5 + "), (int)i);
        memory_free(source);
        tile_free(kernel);
    }
}

// Maps and short loops over adjacent elements load and store vectors if these are aligned, which is known or
// tested; everything else stays unchanged. The numbers are the vector and single loads and stores in the
// text.
TEST(neighbours_move_by_vectors) {
    static const struct {
        const char *facts, *body;
        int loads, stores, single_loads, single_stores;
    } cases[] = {
        {"", "grid b in n, threads 64 { map j in 256 { y[b, j] = x[b, j] * w[j] } }", 2, 1, 0, 0},
        {"", "grid b in n, threads 64 { map j in 256 { y[b, j] = x[b, j + 4] * w[j] } }", 2, 1, 0, 0},
        {"", "grid b in n, threads 64 { map j in 252 { y[b, j] = x[b, j + 1] * w[j] } }", 0, 0, 2, 1},
        {"", "grid b in n, threads 64 { map j in 255 { y[b, j] = x[b, j] } }", 0, 0, 1, 1},
        {"", "grid b in n, threads 64 { map j in 256 { y[b, j] = x[b, 255 - j] } }", 0, 0, 1, 1},
        {"", "grid b in n, threads 64 { map j in 256 { y[b, j] = load(x[b, j], j < 9, 0) } }", 0, 0, 0, 1},
        {"", "grid b in n, threads 64 { map j in 256 { y[b, j] = x[b, j] where j > 9 } }", 0, 0, 1, 1},
        {"", "grid b in n, threads 64 { map j in 256 { y[b, j] = y[b, j] + w[3] } }", 1, 1, 1, 0},
        {"", "grid b in n, threads 64 { map j in m { y[b, j] = x[b, j] } }", 1, 1, 1, 1},
        {"where m % 4 == 0", "grid b in n, threads 64 { map j in m { y[b, j] = x[b, j] } }", 1, 1, 0, 0},
        {"", "map i in n, j in 256 { y[i, j] = x[i, j] * w[j]\n z[i, j] = x[i, j] + 1 }", 2, 2, 0, 0},
        {"", "map j in m { y[0, j] = w[j] }", 1, 1, 1, 1}, // except for the last group
        {"where m % 4 == 0", "map j in m { y[0, j] = w[j] }", 1, 1, 0, 0},
        {"", "map i in n { unroll k in 4 { y[i, k] = x[i, k + 8] } }", 1, 1, 0, 0},
        {"", "map i in n { for k in 8 { y[i, k] = x[i, k] } }", 2, 2, 0, 0},
        {"",
         "map b in n { t = 0f32 ; for i in 0 .. 256 step 8 { unroll k in 4 { t = t + x[b, i + k] * w[i // 2 "
         "+ k] } } ; y[b, 0] = t }",
         2, 0, 0, 1},
        {"", "map i in n { for k in 3 { y[i, k] = x[i, k] } }", 0, 0, 1, 1},
        {"", "map i in n { for k in 4 { y[i, k + 1] = y[i, k] + x[i, k] } }", 1, 0, 1, 1},
        {"", "map i in n { o = 0 ; for k in 4 { y[i, k] = x[i, o * 4 + k] ; o = o + 1 } }", 0, 1, 1, 0},
        {"", "grid b in n { thread t in 32 { unroll k in 4 { y[b, t * 4 + k] = x[b, t * 4 + k] } } }", 1, 1,
         0, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[500];
        snprintf(
            text, sizeof text,
            "kernel f <n, m>(x: f32[n, 256], w: f32[m]) -> (y: f32[n, 256], z: f32[n, 256]) %s {\n  %s\n}\n",
            cases[i].facts, cases[i].body);
        char *source = render("f", text, "cuda_tiles"), *body = source ? strstr(source, "f_0(") : NULL;
        REQUIRE(body);
        int loads = count_of(body, "*(const zl_16 *)&b0[") + count_of(body, "*(const zl_16 *)&b1[") +
                    count_of(body, "*(const zl_16 *)&b2["),
            stores = count_of(body, "((zl_16 *)(b2 + ") + count_of(body, "((zl_16 *)(b3 + "),
            single_loads = count_of(body, " = b0[") + count_of(body, " = b1[") + count_of(body, " = b2["),
            single_stores = count_of(body, "    b2[") + count_of(body, "    b3[");
        bool good = CHECK_EQ_INT(loads, cases[i].loads);
        good = CHECK_EQ_INT(stores, cases[i].stores) && good;
        good = CHECK_EQ_INT(single_loads, cases[i].single_loads) && good;
        if (!(CHECK_EQ_INT(single_stores, cases[i].single_stores) && good))
            test_note("%s %s", cases[i].facts, cases[i].body);
        memory_free(source);
    }
}

// Four subgroups multiply together if rows of b have 128 bytes; a is read from shared memory if each of them
// has 16 rows.
TEST(cuda_products_of_four_subgroups) {
    static const struct {
        int rows, columns;
        const char *has; // NULL: none
        bool is_described;
    } cases[] = {{64, 128, "m64n128k16", true}, {128, 64, "m64n64k16", false}, {64, 32, NULL, false}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        int m = cases[i].rows, n = cases[i].columns;
        char text[600];
        snprintf(
            text, sizeof text,
            "kernel product(A: f16[%d, 64], B: f16[64, %d]) -> (C: f16[%d, %d]) {\n"
            "  grid b in 1, threads 128 {\n"
            "    shared x: f16[%d, 64]\n    shared y: f16[64, %d]\n    fragment sum: f32[%d, %d] = 0\n"
            "    copy A[0, 0] -> x\n    copy B[0, 0] -> y\n    gemm x, y -> sum\n    copy sum -> C[0, 0]\n"
            "  }\n}\n",
            m, n, m, n, m, n, m, n);
        char *source = render("product", text, "cuda_tiles"),
             *body = source ? strstr(source, "__global__") : NULL;
        REQUIRE(body);
        CHECK_EQ_INT(strstr(body, "wgmma.mma_async") != NULL, cases[i].has != NULL);
        if (cases[i].has)
            CHECK_HAS(body, cases[i].has);
        CHECK_EQ_INT(strstr(body, "zl_from_a") != NULL, cases[i].is_described);
        CHECK_HAS(body, "ZL_FENCE; ZL_BARRIER;");
        CHECK_HAS(body, "zl_multiply_f16(");
        memory_free(source);
    }
}

// If a loop has two products, the next turn's copies begin while the first of them, by four subgroups, runs;
// otherwise before the products.
TEST(cuda_copies_begin_while_products_run) {
    char *text = file_read(ZL_TEST_DIR "/render/kernels/attention.tile", NULL);
    char *source = text ? render("attention", text, "cuda_tiles") : NULL,
         *body = source ? strstr(source, "__global__") : NULL,
         *others = body ? strstr(body, "#ifndef ZL_WARPS") : NULL;
    REQUIRE(others);
    char *product = strstr(others, "wgmma.mma_async"), *copy = product ? strstr(product, "zl_async_") : NULL,
         *end = product ? strstr(product, "ZL_MATRICES_END;") : NULL;
    CHECK(strstr(others, "zl_async_") < strstr(others, "#endif"));
    CHECK(copy && end && copy < end);
    memory_free(source);
    memory_free(text);
}

// HIP -------------------------------------------------------------------------------------------------------

static bool succeeds(const char *command) {
    return system(command) == 0;
}

static void compile_for_hip(const char *name, const char *text, void *data) {
    char path[512], line[1200];
    (void)data;
    if (!is_drawn())
        return;
    char *source = render(name, text, "hip_tiles");
    snprintf(path, sizeof path, "%s/kernel.hip", test_folder());
    snprintf(line, sizeof line,
             "clang -x hip --offload-arch=gfx90a --cuda-device-only -nogpulib -nogpuinc -O1 "
             "-ffp-contract=off -S -o "
             "/dev/null %s 2>/dev/null",
             path);
    if (source && CHECK(file_write(path, source, strlen(source))) && !CHECK(succeeds(line)))
        test_note("%s: see %s", name, path);
    memory_free(source);
}

TEST(hip_texts_of_groups_compile) {
    if (test_quick())
        SKIP("its compiler takes seconds");
    if (!succeeds("clang --print-targets 2>/dev/null | grep amdgcn >/dev/null"))
        SKIP("no clang with the target amdgcn is installed");
    each_of_folder(compile_for_hip, NULL);
    each_of_manual(compile_for_hip, NULL);
}

// Whichever allocation fails, the result is NULL with an error, and nothing leaks.
static void fail_everywhere(const char *name, const char *text, void *data) {
    (void)data;
    if (!strstr(text, "grid") || (test_quick() && !is_drawn()))
        return;
    for (long at = 1;; at += test_long() ? 1 : test_between(1, 5)) {
        struct tile_kernel *kernel = tile_parse(text, name);
        REQUIRE(kernel);
        memory_fail_at(at);
        char *source = tile_rendered(kernel, "cuda_tiles");
        bool is_past = memory_allocations() < at;
        memory_fail_at(0);
        CHECK(source || zl_error());
        zl_clear_error();
        memory_free(source);
        tile_free(kernel);
        if (is_past)
            return;
    }
}

TEST(groups_survive_lack_of_memory) {
    each_of_folder(fail_everywhere, NULL);
}
