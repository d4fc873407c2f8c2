// test_group_tile.c - tile kernels on OpenCL and Vulkan, compared with the interpreter: every statement,
// layouts of fragments, edges, barriers.

#include "on_devices.h"
#include "tile_samples.h"
#include "tile_trial.h"

#include "base/base.h"
#include "tile/tile.h"

#include <math.h>
#include <string.h>

static const struct sample {
    const char *text;
    int64_t sizes[4];
    double near;
} samples[] = {
    {SAMPLE_SCALE, {10000}, 0},
    {SAMPLE_EDGES, {37, 71}, 0},
    {SAMPLE_SMALL, {600}, 0},
    {SAMPLE_SMALL_TILES, {0}, 1e-5},
    {SAMPLE_IM2COL, {8}, 0},
    {SAMPLE_REDUCTIONS, {48}, 1e-4},
    {SAMPLE_SCANS, {11, 5000}, 1e-4},
    {SAMPLE_LINES, {37, 100}, 1e-4},
    {SAMPLE_LINES, {3, 3000}, 1e-4},
    {SAMPLE_SCANS, {8, 1}, 1e-4},
    {SAMPLE_STORES, {3, 1032}, 0},
    {SAMPLE_STORES, {3, 1031}, 0},
    {SAMPLE_RUNS, {3, 256}, 1e-4},
    {SAMPLE_RUNS, {3, 1027}, 1e-4},
    {SAMPLE_GEMM_RELU, {50, 29, 70}, 1e-5},
    {SAMPLE_INNER_TILES, {5}, 1e-4},
    {SAMPLE_WHILE, {5}, 0},
    {SAMPLE_SMALL_PRODUCT, {0}, 1e-4},
    {SAMPLE_HALF_GEMM, {0}, 2e-2},
    {SAMPLE_WAVES, {100}, 0},
    {"kernel histogram(a: i32[n]) -> (y: i32[16], h: f16[16], w: i64[1]) {\n"
     "  fill y = 0\n"
     "  fill h = 0\n"
     "  fill w = 0\n"
     "  grid b in n {\n"
     "    atomic add y[i64(a[b] % 16)], 1i32\n"
     "    atomic add h[i64(a[b] % 16)], 1f16\n"
     "    atomic maximum w[0], i64(a[b])\n"
     "  }\n"
     "}",
     {1000},
     0},
    {SAMPLE_TABLES, {200}, 1e-5},
    {SAMPLE_PIECES, {5}, 1e-5},
    {SAMPLE_ROOM, {201}, 0},
    // Rows of a fragment, reduced and used again; transposed through shared memory; elements of neighbours.
    {"kernel rows(x: f32[n, 64]) -> (y: f32[n, 64], t: f32[64, n], s: f32[n]) where n % 32 == 0 {\n"
     "  grid b in n // 32, threads 64 {\n"
     "    fragment tile: f32[32, 64]\n"
     "    fragment most: f32[32]\n"
     "    fragment sum: f32[32]\n"
     "    shared turned: f32[64, 32]\n"
     "    copy x[b * 32, 0] -> tile\n"
     "    reduce maximum tile -> most axis 1\n"
     "    map i in 32, j in 64 { tile[i, j] = exp(tile[i, j] - most[i]) }\n"
     "    reduce add tile -> sum axis 1\n"
     "    map i in 32, j in 64 { tile[i, j] = tile[i, j] / sum[i] }\n"
     "    map i in 32 { sum[i] = sum[i] + most[i] }\n"
     "    copy tile -> y[b * 32, 0]\n"
     "    map i in 32, j in 64 { turned[j, i] = tile[i, j] }\n"
     "    map i in 64, j in 32 { t[i, b * 32 + j] = turned[i, 31 - j] + turned[63 - i, j] }\n"
     "    copy sum -> s[b * 32]\n"
     "  }\n"
     "}",
     {96},
     1e-5},
    // Reductions along the other axis, accumulated, into memory; of rows in shared and global memory.
    {"kernel columns(x: i32[n, 40]) -> (y: i32[40], z: i32[n], w: i32[40, 1]) {\n"
     "  fill y = 7\n"
     "  grid b in 1 {\n"
     "    fragment f: i32[16, 40]\n"
     "    shared s: i32[16, 40]\n"
     "    copy x of [16, 40] -> f\n"
     "    copy x of [16, 40] -> s\n"
     "    reduce add f -> y axis 0 accumulate\n"
     "    map i in 16, j in 40 { s[i, j] = s[i, j] + f[i, j] }\n"
     "    reduce minimum x -> z axis 1\n"
     "    map j in 40 { w[j, 0] = 0 }\n"
     "    for r in 3 { map j in 40 { w[j, 0] = w[j, 0] + s[r, j] } }\n"
     "  }\n"
     "}",
     {16},
     0},
    // Shuffles of several types and sizes, in a loop and under a condition that is the same for all threads.
    // OpenCL has none, so they use shared memory.
    {"kernel shuffles(a: i32[n]) -> (x: i32[n], h: f16[n], w: i64[n]) where n % 64 == 0 {\n"
     "  grid b in n // 64 {\n"
     "    thread t in 64 {\n"
     "      mine = a[b * 64 + t]\n"
     "      for k in 5 {\n"
     "        below = shuffle up mine, 1u32 << u32(k) of 32\n"
     "        mine = where(t % 32 >= 1 << k, mine + below, mine)\n"
     "      }\n"
     "      if n > 64 { last = shuffle from mine, 63 of 64 ; mine = mine - last }\n"
     "      half = shuffle xor f16(t), 3 of 4\n"
     "      wide = shuffle from i64(mine) << 32, u32(t) + 1 of 16\n"
     "      x[b * 64 + t] = mine\n"
     "      h[b * 64 + t] = half\n"
     "      w[b * 64 + t] = wide\n"
     "    }\n"
     "  }\n"
     "}",
     {256},
     0},
    // Uniform code: variables from shared memory, loops whose bounds are data, single elements that one
    // thread stores.
    {"kernel uniform(a: i32[n]) -> (y: i32[n], c: i32[4]) where n <= 64 {\n"
     "  grid b in 1, threads 32 {\n"
     "    shared s: i32[64]\n"
     "    local mine: i32[2]\n"
     "    mine[0] = 5\n"
     "    mine[1] = mine[0] + 1\n"
     "    copy a -> s[0] of [n]\n"
     "    total = 0i32\n"
     "    for i in n { total = total + s[i] }\n"
     "    while total > 100 { s[0] = total ; total = total - s[0] // 2 - 1 }\n"
     "    if total > 10 { map i in n { y[i] = s[i] + total } } else { map i in n { y[i] = mine[1] } }\n"
     "    c[0] = total\n"
     "    c[1] = c[0] + y[n - 1]\n"
     "    c[2] = c[1] * 2\n"
     "    c[3] = s[0]\n"
     "  }\n"
     "}",
     {50},
     0},
    {"kernel scans(a: i32[n, 8]) -> (y: i32[n, 8], z: i32[n, 8]) {\n"
     "  scan add a -> y axis 0\n"
     "  grid b in 1 {\n"
     "    shared s: i32[16, 8]\n"
     "    copy a[0, 0] -> s\n"
     "    scan maximum s -> s axis 1\n"
     "    copy s[0, 0] of [n, 8] -> z\n"
     "  }\n"
     "}",
     {13},
     0},
    // Numbers that were extended to 64 bits, compared with constants.
    {"kernel extended(a: i32[n], u: u8[n]) -> (y: i64[n], z: i32[n]) {\n"
     "  grid b in n {\n"
     "    from = i64(a[b] - 4)\n"
     "    from = where(from < 0, from + i64(n), from)\n"
     "    y[b] = minimum(maximum(from, 0), i64(n - 1))\n"
     "    z[b] = i32(i64(u[b]) < 3) + 2 * i32(i64(a[b] - 5) >= -1) + 4 * i32(u64(u[b]) > 200)\n"
     "  }\n"
     "}",
     {100},
     0},
};

// Calls `check` for each target with groups that is available.
static void on_targets(void (*check)(const char *target)) {
    const char *lacks_opencl = test_lacks_opencl(), *lacks_vulkan = test_lacks_vulkan();
    if (lacks_opencl && lacks_vulkan)
        SKIP(lacks_opencl);
    if (!lacks_opencl)
        check("opencl");
    if (!lacks_vulkan)
        check("vulkan");
}

static void compute_powers(const char *target) {
    static const char text[] =
        "kernel powers(a: f32[n]) -> (y: f32[n]) { map i in n { y[i] = exp2(a[i] * 8) } }";
    tile_trial(text, target, (int64_t[]){1000}, 1e-5);
    CHECK_ERROR(
        ZL_ERROR_SYNTAX,
        zl_kernel_parse("kernel f(a: f64[n]) -> (y: f64[n]) { map i in n { y[i] = exp2(a[i]) } }", "f"));
}

TEST(powers_of_two_as_interpreted) {
    compute_powers("c");
    on_targets(compute_powers);
}

static void run_as_interpreted(const char *target) {
    for (size_t i = 0; i < COUNT(samples); i++)
        tile_trial(samples[i].text, target, samples[i].sizes, samples[i].near);
}

TEST(groups_run_as_interpreted) {
    on_targets(run_as_interpreted);
}

static void run_the_manual(const char *target) {
    tile_trial_of_manual(target);
}

TEST(groups_run_the_manual) {
    on_targets(run_the_manual);
}

static void fail_by_assertions(const char *target) {
    static const char text[] = "kernel f(a: f32[n]) -> (y: f32[n]) {\n  grid b in n {\n    assert a[b] >= 0, "
                               "\"negative\"\n    y[b] = sqrt(a[b])\n  }\n}";
    zl_kernel k = zl_kernel_compile(text, "f.tile", target);
    zl_array a = zl_arange(-3, 3, 1, ZL_FLOAT32), out = NULL;
    REQUIRE(k);
    CHECK(!zl_kernel_call(k, 1, &a, 1, &out));
    CHECK_HAS(zl_error(), "line 3: negative");
    zl_clear_error();
    zl_kernel_release(k);
}

TEST(groups_fail_by_assertions) {
    on_targets(fail_by_assertions);
}

// Limits of groups are checked before a kernel runs.
static void have_limits(const char *target) {
    CHECK_ERROR(
        ZL_ERROR_COMPILE,
        zl_kernel_compile("kernel f(a: f32[n]) -> (y: f32[n]) { grid b in 1, threads 65536 { y[0] = a[0] } }",
                          "f.tile", target));
    CHECK_HAS(test_last_error(), "65536 threads");
    CHECK_ERROR(
        ZL_ERROR_COMPILE,
        zl_kernel_compile(
            "kernel f(a: f32[n]) -> (y: f32[n]) { grid b in 1 { shared s: f32[1000000000]\n s[0] = a[0] "
            "\n y[0] = s[0] } }",
            "f.tile", target));
    CHECK_HAS(test_last_error(), "4000000000 bytes of shared memory");
    CHECK_ERROR(
        ZL_ERROR_COMPILE,
        zl_kernel_compile("kernel f(a: f32[n]) -> (y: f32[n]) { grid b in 1 { shared s: f32[n]\n s[0] = a[0] "
                          "\n y[0] = s[0] } }",
                          "f.tile", target));
    CHECK_HAS(test_last_error(), "must be a number");
}

TEST(groups_have_limits) {
    on_targets(have_limits);
}

// An integer that is passed by value determines the number of blocks of a grid.
static void follow_values(const char *target) {
    static const char text[] =
        "kernel f(a: i32[n], most: i32) -> (y: i32[n]) {\n"
        "  grid b in ceildiv(i64(most), 4) { map i in 4 { y[b * 4 + i] = a[b * 4 + i] + 1 "
        "} }\n}";
    static const int32_t values[] = {0, 5, 64, -3};
    zl_kernel k = zl_kernel_compile(text, "f.tile", target);
    REQUIRE(k);
    for (size_t v = 0; v < COUNT(values); v++) {
        int32_t a[64], y[64] = {0}, most = values[v];
        int64_t n = 64;
        for (int i = 0; i < 64; i++)
            a[i] = i;
        zl_kernel_buffer buffer[] = {
            {a, ZL_INT32, 1, &n, NULL}, {&most, ZL_INT32, 0, NULL, NULL}, {y, ZL_INT32, 1, &n, NULL}};
        CHECK(zl_kernel_run(k, 3, buffer));
        for (int i = 0; i < 64; i++)
            CHECK_EQ_INT(y[i], i < (most + 3) / 4 * 4 ? i + 1 : 0);
    }
    zl_kernel_release(k);
    CHECK_ERROR(ZL_ERROR_COMPILE,
                zl_kernel_compile("kernel f(a: i32[n]) -> (y: i32[n]) { grid b in i64(a[0]) { y[b] = 1 } }",
                                  "f.tile", target));
    CHECK_HAS(test_last_error(), "integers that are passed by value");
}

TEST(grids_of_groups_follow_values) {
    on_targets(follow_values);
}

static void are_timed(const char *target) {
    static const char text[] = "kernel twice(a: f32[n]) -> (y: f32[n]) { map i in n { y[i] = a[i] * 2.0 } }";
    zl_kernel k = zl_kernel_compile(text, "twice.tile", target);
    float a[64] = {1}, y[64] = {0};
    int64_t n = 64;
    zl_kernel_buffer buffer[] = {{a, ZL_FLOAT32, 1, &n, NULL}, {y, ZL_FLOAT32, 1, &n, NULL}};
    double seconds = 0;
    REQUIRE(k);
    CHECK(zl_kernel_time(k, 2, buffer, 3, &seconds));
    CHECK(seconds > 0 && y[0] == 2);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_time(k, 2, buffer, 0, &seconds));
    zl_kernel_release(k);
}

TEST(groups_are_timed) {
    on_targets(are_timed);
}
