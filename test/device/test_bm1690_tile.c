// test_bm1690_tile.c - tile kernels as commands of the BM1690, on its emulator, against the interpreter.

#include "tile_samples.h"
#include "tile_trial.h"

#include "test.h"

#include "tile/tile.h"

#include <string.h>

// The chip's exp, division and roots are some units in the last place off, and sums are folded in halves: doc/bm1690.md.
static const struct sample {
    const char *text;
    int64_t sizes[4];
    double near;
} samples[] = {
    {SAMPLE_SCALE, {10000}, 2e-6},
    {SAMPLE_EDGES, {37, 71}, 0},
    {SAMPLE_IM2COL, {8}, 0},
    {SAMPLE_REDUCTIONS, {48}, 1e-4},
    {SAMPLE_LINES, {37, 100}, 1e-4},
    {SAMPLE_STORES, {3, 1032}, 0},
    {SAMPLE_STORES, {3, 1031}, 0},
    {SAMPLE_RUNS, {3, 256}, 1e-4},
    {SAMPLE_GEMM_RELU, {50, 29, 70}, 1e-5},
    {SAMPLE_INNER_TILES, {5}, 1e-4},
    {SAMPLE_WHILE, {5}, 0},
    {SAMPLE_SMALL_PRODUCT, {0}, 1e-4},
    {SAMPLE_HALF_GEMM, {0}, 2e-2},
    {SAMPLE_ROOM, {201}, 0},
    {SAMPLE_SMALL, {600}, 0},
    {SAMPLE_SMALL_TILES, {0}, 1e-5},
    // Products of halves, with a second factor that is transposed, and a first one that is; rows and columns that leave the arrays.
    {"kernel products(A: f16[M, K], B: f16[K, N], Bt: f16[N, K], At: f16[K, M]) -> (C: f32[M, N], D: f16[M, "
     "N], E: f32[M, N]) {\n"
     "  grid bx in ceildiv(N, 64), by in ceildiv(M, 96), threads 128 {\n"
     "    shared a: f16[96, 32]\n"
     "    shared at: f16[32, 96]\n"
     "    shared b: f16[32, 64]\n"
     "    shared bt: f16[64, 32]\n"
     "    fragment c: f32[96, 64] = 0\n"
     "    fragment d: f16[96, 64] = 1\n"
     "    fragment e: f32[96, 64] = 0\n"
     "    pipeline k in ceildiv(K, 32) stages 3 {\n"
     "      copy A[by * 96, k * 32] -> a\n"
     "      copy At[k * 32, by * 96] -> at\n"
     "      copy B[k * 32, bx * 64] -> b\n"
     "      copy Bt[bx * 64, k * 32] -> bt\n"
     "      gemm a, b -> c\n"
     "      gemm a, transpose bt -> d\n"
     "      gemm transpose at, transpose bt -> e\n"
     "    }\n"
     "    copy c -> C[by * 96, bx * 64]\n"
     "    copy d -> D[by * 96, bx * 64]\n"
     "    copy e -> E[by * 96, bx * 64]\n"
     "  }\n"
     "}",
     {200, 70, 150},
     2e-2},
    // A vector that lies along a lane takes what is across them, and a tile what is transposed, in one map; a part of a tile.
    {"kernel mixed(x: f32[64, 48]) -> (y: f32[48, 64], z: f32[64], w: f32[64, 48]) {\n"
     "  grid b in 1 {\n"
     "    shared t: f32[64, 48]\n"
     "    shared turned: f32[48, 64]\n"
     "    shared line: f32[64]\n"
     "    copy x -> t\n"
     "    map i in 64, j in 48 {\n"
     "      t[i, j] = t[i, j] + 1\n"
     "      turned[j, i] = t[i, j] * 2\n"
     "    }\n"
     "    map i in 64 { line[i] = t[i, 5] where i % 2 == 0 }\n"
     "    map i in 64 { line[i] = line[63 - i] * 0 + t[i, 7] where i < 9 }\n"
     "    copy turned -> y\n"
     "    copy t -> w\n"
     "    map i in 64 { z[i] = where(i % 2 == 0 | i < 9, line[i], 3) }\n"
     "  }\n"
     "}",
     {0},
     0},
    // Vectors across the lanes and along them, one turned into the other; whole numbers divided; masks.
    {"kernel turns(x: f32[n, 96], w: f32[96], v: i32[n]) -> (y: f32[n, 96], c: f32[96], z: i32[n], q: "
     "f32[96, n]) where n % 32 == 0 {\n"
     "  grid b in n // 32 {\n"
     "    shared t: f32[32, 96]\n"
     "    shared row: f32[96]\n"
     "    fragment most: f32[32]\n"
     "    fragment sum: f32[96]\n"
     "    shared count: i32[32]\n"
     "    copy x[b * 32, 0] -> t\n"
     "    copy w -> row\n"
     "    copy v[b * 32] -> count\n"
     "    reduce maximum t -> most axis 1\n"
     "    reduce add t -> sum axis 0\n"
     "    map i in 32, j in 96 {\n"
     "      if (i + j) % 3 == 0 { t[i, j] = t[i, j] * row[j] - most[i] } else { t[i, j] = f32(count[i] // 7) "
     "+ f32(b * 32 + i) }\n"
     "    }\n"
     "    map i in 32 { count[i] = where(count[i] % 5 > 2, -count[i], count[i] & 12) }\n"
     "    copy t -> y[b * 32, 0]\n"
     "    map j in 96 { c[j] = sum[j] }\n"
     "    map i in 32, j in 96 { q[95 - j, b * 32 + i] = t[i, j] }\n"
     "    copy count -> z[b * 32]\n"
     "  }\n"
     "}",
     {32},
     1e-5},
};

TEST(tile_kernels_on_the_emulator) {
    for (size_t i = 0; i < COUNT(samples); i++)
        tile_trial(samples[i].text, "bm1690", samples[i].sizes, samples[i].near);
}

// Kernels of the manual, but for those that need what the chip lacks, and for one whose codes of 8 bits are rounded from quotients: where
// these lie between two codes the chip's division decides otherwise.
TEST(the_manual_on_the_emulator) {
    tile_trial_of_manual("bm1690");
}

static const struct {
    const char *text, *why;
} refused[] = {
    {SAMPLE_WAVES, "line 2: map: target bm1690 has no tiles of c64"},
    {SAMPLE_SCANS, "has no tiles of i64"},
    {SAMPLE_TABLES, "does not compute with f64"},
    {"kernel large(a: f32[n, 4096]) -> (y: f32[n, 4096]) {\n"
     "  grid b in n // 1024 {\n"
     "    shared s: f32[1024, 4096]\n"
     "    shared t: f32[1024, 4096]\n"
     "    copy a[b * 1024, 0] -> s\n"
     "    copy a[b * 1024, 0] -> t\n"
     "    map i in 1024, j in 4096 { s[i, j] = s[i, j] + t[i, j] }\n"
     "    copy s -> y[b * 1024, 0]\n"
     "  }\n"
     "}",
     "has 262144 bytes in each lane, and the tiles that are used at once need more"},
};

TEST(what_the_chip_lacks_is_said) {
    for (size_t i = 0; i < COUNT(refused); i++) {
        zl_kernel k = zl_kernel_compile(refused[i].text, "sample", "bm1690");
        if (!CHECK(!k && zl_error() && strstr(zl_error(), refused[i].why)))
            test_note("%s", zl_error() ? zl_error() : "no error");
        zl_clear_error();
        zl_kernel_release(k);
    }
}

// Time, modelled ----------------------------------------------------------------------------------------------------

enum { SIZE = 1024, CORES = 8 };

static const char product[] = "kernel product(A: f16[M, K], B: f16[K, N]) -> (C: f16[M, N]) {\n"
                              "  param BM = 128, BN = 128, BK = 64, STAGES = 2\n"
                              "  grid bx in ceildiv(N, BN), by in ceildiv(M, BM) {\n"
                              "    shared a: f16[BM, BK]\n"
                              "    shared b: f16[BK, BN]\n"
                              "    fragment c: f32[BM, BN] = 0\n"
                              "    pipeline k in ceildiv(K, BK) stages STAGES {\n"
                              "      copy A[by * BM, k * BK] -> a\n"
                              "      copy B[k * BK, bx * BN] -> b\n"
                              "      gemm a, b -> c\n"
                              "    }\n"
                              "    copy c -> C[by * BM, bx * BN]\n"
                              "  }\n"
                              "}";

static zl_device_c_report report_of(const char *params) {
    static char memory[3][2 * SIZE * SIZE];
    int64_t dim[2] = {SIZE, SIZE};
    zl_device_c_report report = {0};
    zl_kernel_buffer buffer[3];
    zl_kernel k = zl_kernel_compile_with(product, "product", "bm1690", params);
    for (int i = 0; i < 3; i++)
        buffer[i] = (zl_kernel_buffer){memory[i], ZL_FLOAT16, 2, dim, NULL};
    if (!CHECK(k && zl_kernel_report(k, 3, buffer, &report)))
        test_note("%s", zl_error());
    zl_kernel_release(k);
    return report;
}

// 32 x 4 multiply-adds per lane and cycle, 68.3 bytes of device memory per core and cycle: nothing is faster.
TEST(no_modelled_time_is_above_a_peak) {
    static const char *const params[] = {"BM=128", "BM=256,BN=256", "BM=512,BN=512,BK=32", "STAGES=1",
                                         "BK=128,STAGES=3"};
    double products = (double)SIZE * SIZE * SIZE;
    for (size_t i = 0; i < COUNT(params); i++) {
        zl_device_c_report r = report_of(params[i]);
        double cycles = r.seconds * 1e9;
        CHECK(cycles * CORES * 64 * 128 >= products);
        CHECK(cycles * CORES * 68.3 >= 3.0 * 2 * SIZE * SIZE);
        CHECK(cycles * CORES * 128 >= (double)r.bytes); // some are fills of local memory
        CHECK(r.seconds >= r.compute_seconds && r.seconds >= r.copy_seconds);
        CHECK(r.seconds <= (r.compute_seconds + r.copy_seconds) * 1.001);
        CHECK(r.scalars == 0 && r.lanes > 0 && r.lanes <= 1);
    }
}

TEST(two_stages_take_as_long_as_the_busier_engine) {
    static const char *const params[] = {"BM=128,BN=128,BK=64", "BM=256,BN=256,BK=64", "BM=512,BN=256,BK=32"};
    for (size_t i = 0; i < COUNT(params); i++) {
        zl_device_c_report r = report_of(params[i]);
        double busier = MAX_OF(r.compute_seconds, r.copy_seconds);
        if (!CHECK(r.seconds <= 1.1 * busier))
            test_note("%s: %g us, of which %g compute and %g copies", params[i], r.seconds * 1e6,
                      r.compute_seconds * 1e6, r.copy_seconds * 1e6);
    }
}

TEST(profiles_show_what_engines_do) {
    REQUIRE(zl_profile_begin(NULL));
    report_of("BM=256,BN=256");
    report_of("BM=256,BN=256");
    char *table = zl_profile_end();
    CHECK_HAS(table, "bm1690, modelled");
    CHECK_HAS(table, "bank conflicts  one at a time");
    CHECK_HAS(table, "  product                                                 2 ");
    zl_free(table);
}
