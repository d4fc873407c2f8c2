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

// Maps with more points than the tiles that they store and read, the others under conditions; a conversion from device memory to device
// memory that needs all lanes.
TEST(points_outside_of_tiles_are_not_touched) {
    tile_trial("kernel halves(x: f32[32, 48]) -> (y: f32[2, 16, 48], z: bf16[64, 576]) {\n"
               "  grid b in 1 {\n"
               "    shared all: f32[32, 48]\n"
               "    shared half: f32[16, 48]\n"
               "    copy x -> all\n"
               "    for s in 2 {\n"
               "      map i in 32, j in 48 { if i < 16 { half[i, j] = all[i + s * 16, j] * 2 } }\n"
               "      map i in 16, j in 48 { y[s, i, j] = half[i, j] }\n"
               "    }\n"
               "  }\n"
               "  grid b in 1 { map i in 64, j in 576 { z[i, j] = bf16(f32(i) * 3e38) where i < 60 } }\n"
               "}",
               "bm1690", (int64_t[]){0}, 0);
    tile_trial("kernel converts(x: f32[64, 576]) -> (y: bf16[64, 576]) { grid b in 1 { copy x -> y } }",
               "bm1690", (int64_t[]){0}, 0);
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
