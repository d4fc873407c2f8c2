// test_bm1690_tile.c - tile kernels on the BM1690's emulator, compared with the interpreter.

#include "tile_samples.h"
#include "tile_trial.h"

#include "test.h"

#include "tile/tile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

// The chip's exp, division and roots have errors of some ULPs, and sums are added pairwise (doc/bm1690.md),
// so results only have to be near.
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
    // 64-bit sums that carry into the upper words; products of complex matrices, of parts of tiles, and with
    // a transposed factor; reductions by formulas.
    {"kernel sums(a: i64[n], z: c64[n], t: c64[20, 24], u: f64[6, 7], s: f32[n, 40]) -> (y: i64[4], w: "
     "c64[4], p: c64[16, 16], q: "
     "f64[6], r: f32[n]) {\n"
     "  fill y = 0\n"
     "  fill w = 0\n"
     "  grid b in n {\n"
     "    atomic add y[b % 4], (a[b] << 40) + 0x7fffffff\n"
     "    atomic add w[b % 4], z[b]\n"
     "  }\n"
     "  grid b in 1 {\n"
     "    shared m: c64[16, 24]\n"
     "    shared x: c64[16, 24]\n"
     "    fragment acc: c64[16, 16] = 0\n"
     "    copy t[0, 0] -> m\n"
     "    copy t[2, 0] -> x\n"
     "    gemm m, transpose x -> acc\n"
     "    copy acc -> p\n"
     "  }\n"
     "  reduce add u -> q axis 1\n"
     "  reduce logaddexp s -> r axis 1\n"
     "}",
     {37},
     1e-4},
    {SAMPLE_WAVES, {40}, 1e-5},
    {SAMPLE_SCANS, {9, 70}, 1e-4},
    {SAMPLE_PIECES, {3}, 1e-5},
    {SAMPLE_TABLES, {100}, 1e-5},
    // Products of 16-bit floats, with the second factor transposed, and with the first; rows and columns
    // beyond the edges of the arrays.
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
    // One map that combines a vector along a lane with vectors across lanes, and a tile with a transposed
    // one; a part of a tile.
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
    // Vectors across the lanes and along them, and conversions between both; integer division; masks.
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
    size_t step = (size_t)test_step(3);
    for (size_t i = test_random() % step; i < COUNT(samples); i += step)
        tile_trial(samples[i].text, "bm1690", samples[i].sizes, samples[i].near);
}

// Products of bytes, which a command of their own computes exactly, and of small floats; both with transposes
// and edges.
#define BYTE_PRODUCTS(NAME, TYPE, OTHER, SUM)                                               \
    "kernel " NAME "(A: " TYPE "[M, K], B: " OTHER "[K, N], Bt: " OTHER "[N, K], At: " TYPE \
    "[K, M]) -> (C: " SUM "[M, N], D: " SUM "[M, N], E: f32[M, N]) {\n"                     \
    "  grid bx in ceildiv(N, 64), by in ceildiv(M, 96) {\n"                                 \
    "    shared a: " TYPE "[96, 64]\n"                                                      \
    "    shared at: " TYPE "[64, 96]\n"                                                     \
    "    shared b: " OTHER "[64, 64]\n"                                                     \
    "    shared bt: " OTHER "[64, 64]\n"                                                    \
    "    fragment c: " SUM "[96, 64] = 0\n"                                                 \
    "    fragment d: " SUM "[96, 64] = 1\n"                                                 \
    "    fragment e: f32[96, 64] = 0\n"                                                     \
    "    pipeline k in ceildiv(K, 64) stages 2 {\n"                                         \
    "      copy A[by * 96, k * 64] -> a\n"                                                  \
    "      copy At[k * 64, by * 96] -> at\n"                                                \
    "      copy B[k * 64, bx * 64] -> b\n"                                                  \
    "      copy Bt[bx * 64, k * 64] -> bt\n"                                                \
    "      gemm a, b -> c\n"                                                                \
    "      gemm transpose at, transpose bt -> d\n"                                          \
    "      gemm a, transpose bt -> e\n"                                                     \
    "    }\n"                                                                               \
    "    copy c -> C[by * 96, bx * 64]\n"                                                   \
    "    copy d -> D[by * 96, bx * 64]\n"                                                   \
    "    copy e -> E[by * 96, bx * 64]\n"                                                   \
    "  }\n"                                                                                 \
    "}"

static const struct {
    struct sample sample;
    const char *command;
} byte_products[] = {
    {{BYTE_PRODUCTS("signed", "i8", "i8", "i32"), {100, 130, 70}, 0}, "tpu_bdc_int8_zp_mm("},
    {{BYTE_PRODUCTS("unsigned", "u8", "u8", "i32"), {100, 70, 65}, 0}, "tpu_bdc_int8_zp_mm_R_trans("},
    {{BYTE_PRODUCTS("floats", "e4m3", "e4m3", "f32"), {100, 130, 70}, 1e-6}, "tpu_bdc_fp8_mm("},
    {{BYTE_PRODUCTS("mixed", "e5m2", "e4m3", "bf16"), {100, 70, 65}, 2e-2}, "tpu_bdc_fp8_mm_R_trans("},
};

TEST(products_of_bytes_have_their_own_command) {
    size_t every = test_quick() ? 2 : 1;
    for (size_t i = test_random() % every; i < COUNT(byte_products); i += every) {
        const struct sample *s = &byte_products[i].sample;
        tile_trial(s->text, "bm1690", s->sizes, s->near);
        zl_kernel k = zl_kernel_compile(s->text, "sample", "bm1690");
        const char *text = k ? zl_kernel_source_text(k) : "";
        CHECK(strstr(text, byte_products[i].command) && !strstr(text, "tpu_bdc_fp32_mm"));
        zl_kernel_release(k);
    }
}

// Gathers by indices in tiles: rows and elements of device memory, from tables of any size, some of them
// masked; columns of tiles. The control program reads no element.
static const struct sample gathers[] = {
    {"kernel g1(x: f32[m, 100], idx: i32[n], big: f32[70000, 3], far: i32[n]) -> (y: f32[n, 100], z: f32[n, "
     "100], w: f32[n, 100], v: f32[n, 2]) {\n"
     "  grid b in ceildiv(n, 64) {\n"
     "    shared id: i32[64]\n"
     "    shared t: f32[64, 100]\n"
     "    copy idx[b * 64] -> id\n"
     "    map i in 64, j in 100 { t[i, j] = x[id[i] % 37, j] * 2 }\n"
     "    copy t -> y[b * 64, 0]\n"
     "    map i in 64, j in 100 { t[i, j] = load(x[i64(id[i]) % m, j], j < 90, 3) }\n"
     "    copy t -> z[b * 64, 0]\n"
     "    map i in 64, j in 100 { t[i, j] = x[b, (id[i] + i32(j) * 7) % 100] }\n"
     "    copy t -> w[b * 64, 0]\n"
     "    map i in 64, j in 2 { v[b * 64 + i, j] = load(big[load(far[b * 64 + i], b * 64 + i < n) * 690, j], "
     "b * 64 + i < n) where "
     "b * 64 + i < n }\n"
     "  }\n"
     "}\n",
     {37, 100},
     0},
    {"kernel g3(c: u8[100, 90], lut: f32[16], x: f32[100, 60], p: i32[100, 90]) -> (y: f32[100, 90], z: "
     "f32[100, 90], v: f16[100, 90]) {\n"
     "  grid b in 2 {\n"
     "    shared code: u8[64, 90]\n"
     "    shared table: f32[16]\n"
     "    shared half: f16[16]\n"
     "    shared t: f32[64, 90]\n"
     "    shared h: f16[64, 90]\n"
     "    shared rows: f32[64, 60]\n"
     "    shared at: i32[64, 90]\n"
     "    copy c[b * 64, 0] -> code\n"
     "    copy lut -> table\n"
     "    copy x[b * 64, 0] -> rows\n"
     "    copy p[b * 64, 0] -> at\n"
     "    map i in 16 { half[i] = f16(table[i]) * 2 }\n"
     "    map i in 64, j in 90 { t[i, j] = table[code[i, j] & 15] * 3 }\n"
     "    map i in 64, j in 90 { h[i, j] = half[code[i, j] >> 5] }\n"
     "    copy t -> y[b * 64, 0]\n"
     "    copy h -> v[b * 64, 0]\n"
     "    map i in 64, j in 90 { t[i, j] = load(rows[i, at[i, j] - 10], at[i, j] >= 10 & at[i, j] < 70, 5) "
     "}\n"
     "    copy t -> z[b * 64, 0]\n"
     "  }\n"
     "}\n",
     {0},
     0},
    // Indices with variables that have one value.
    {"kernel g4(x: f32[37, 100], idx: i32[n]) -> (y: f32[n, 100], z: f32[n, 100]) {\n"
     "  grid b in ceildiv(n, 64) {\n"
     "    shared t: f32[64, 100]\n"
     "    map i in 64, j in 100 {\n"
     "      at: i32 = load(idx[b * 64 + i], b * 64 + i < n, -1) % 50\n"
     "      before: i32 = at - 2\n"
     "      t[i, j] = load(x[at, j], at < 37, 3) + load(x[before, j], before >= 0 & before < 37) * f32(at)\n"
     "    }\n"
     "    copy t -> y[b * 64, 0]\n"
     "    map i in 64, j in 100 { to: i32 = i32(i); t[i, j] = x[to % 37, j] }\n"
     "    copy t -> z[b * 64, 0]\n"
     "  }\n"
     "}\n",
     {100},
     0},
};

// Indices with variables that have several values, or whose source was written later, and variables in the
// index of a store.
TEST(variables_in_indices_have_their_values) {
    const char *text =
        "kernel v(x: f32[37, 100], idx: i32[64]) -> (y: f32[64, 100], z: f32[64], w: f32[64, 100]) {\n"
        "  grid b in 1 {\n"
        "    shared id: i32[64]\n"
        "    shared t: f32[64, 100]\n"
        "    copy idx -> id\n"
        "    map i in 64, j in 100 {\n"
        "      at: i32 = id[i] % 36\n"
        "      first = x[at, j]\n"
        "      at = at + 1\n"
        "      t[i, j] = x[at, j] - first * 2\n"
        "    }\n"
        "    copy t -> y\n"
        "    map i in 64 {\n"
        "      at: i32 = id[i] % 37\n"
        "      id[i] = at + 1\n"
        "      z[i] = x[at, 5]\n"
        "    }\n"
        "    map i in 64, j in 100 {\n"
        "      to: i32 = 63 - i32(i)\n"
        "      w[to, j] = x[to % 37, j]\n"
        "    }\n"
        "  }\n"
        "}\n";
    int64_t sizes[1] = {0};
    tile_trial(text, "bm1690", sizes, 0);
}

TEST(gathers_are_commands) {
    for (size_t i = 0; i < COUNT(gathers); i++) {
        tile_trial(gathers[i].text, "bm1690", gathers[i].sizes, gathers[i].near);
        zl_kernel k = zl_kernel_compile(gathers[i].text, "sample", "bm1690");
        CHECK(k && !strstr(zl_kernel_source_text(k), "_mem_addr"));
        zl_kernel_release(k);
    }
}

// Rows are added at places that a tile holds: the control program reads the place once per row, not per
// element. Rows that are read from places, counted from a number that the control program has read, are a
// gather.
TEST(places_are_read_once_in_a_row) {
    const char *text =
        "kernel rows(x: f32[m, 48], at: i32[64], from: i32[1]) -> (y: f32[m, 48], z: f32[64, 48]) {\n"
        "  fill y = 1\n"
        "  grid b in 2 {\n"
        "    shared id: i32[32]\n"
        "    shared t: f32[32, 48]\n"
        "    first: i32 = from[0] % 9\n"
        "    copy at[b * 32] -> id\n"
        "    map i in 32, j in 48 {\n"
        "      to: i32 = id[i] % 40 - 3\n"
        "      t[i, j] = load(x[first + to, j], to > -1 & first + to < i32(m), 7)\n"
        "    }\n"
        "    copy t -> z[b * 32, 0]\n"
        "    map i in 32, j in 48 {\n"
        "      to: i32 = id[i] % 40 - 3\n"
        "      if to > -1 & first + to < i32(m) { atomic add y[first + to, j], t[i, j] + f32(to) }\n"
        "    }\n"
        "  }\n"
        "}";
    enum { M = 40, BLOCKS = 2 };
    static float x[M * 48], y[M * 48], z[64 * 48];
    static int32_t at[64], from[1];
    int64_t sizes[1] = {M}, rows[2] = {M, 48}, taken[2] = {64, 48}, places = 64, one = 1;
    zl_kernel_buffer buffer[] = {{x, ZL_FLOAT32, 2, rows, NULL},
                                 {at, ZL_INT32, 1, &places, NULL},
                                 {from, ZL_INT32, 1, &one, NULL},
                                 {y, ZL_FLOAT32, 2, rows, NULL},
                                 {z, ZL_FLOAT32, 2, taken, NULL}};
    zl_device_c_report report = {0};
    tile_trial(text, "bm1690", sizes, 1e-5);
    zl_kernel k = zl_kernel_compile(text, "sample", "bm1690");
    if (!CHECK(k && zl_kernel_report(k, COUNT(buffer), buffer, &report) && report.scalars == 64 + BLOCKS &&
               strstr(zl_kernel_source_text(k), "tpu_gdma_h_gather_S2L")))
        test_note("%lld are read one at a time: %s", (long long)report.scalars,
                  k ? zl_kernel_source_text(k) : zl_error());
    zl_kernel_release(k);
}

// A table of lengths: the control program reads an element once per statement, even if the statement uses it
// several times.
TEST(elements_are_read_once_in_a_statement) {
    const char *text = "kernel lengths(x: f32[128, 100], row: i32[8]) -> (y: f32[8, 100]) {\n"
                       "  grid b in 8 {\n"
                       "    shared t: f32[100]\n"
                       "    copy x[i64(row[b]), 0] of [1, 100] -> t\n"
                       "    copy t -> y[b, 0] of [1, 100]\n"
                       "  }\n"
                       "}";
    int64_t sizes[1] = {0};
    tile_trial(text, "bm1690", sizes, 1e-6);
    zl_kernel k = zl_kernel_compile(text, "sample", "bm1690");
    const char *first = k ? strstr(zl_kernel_source_text(k), "_mem_addr") : NULL;
    if (!CHECK(first && !strstr(first + 1, "_mem_addr")))
        test_note("%s", k ? zl_kernel_source_text(k) : zl_error());
    zl_kernel_release(k);
}

// Tiles that are too large for the lanes are computed strip by strip.
static const struct sample large[] = {
    // Reductions along other axes and along the one that is divided into strips; statements without strips
    // before and after the loop.
    {"kernel sums(a: f32[n, 2, 100]) -> (y: f32[n, 2], z: f32[n, 2, 100], w: f32[2, 100], v: f16[2, 100], u: "
     "f32[2, 100]) {\n"
     "  grid b in ceildiv(n, 448) {\n"
     "    shared t: f32[448, 2, 100]\n"
     "    shared o: f32[448, 2, 100]\n"
     "    fragment most: f32[448, 2]\n"
     "    fragment sum: f32[448, 2]\n"
     "    fragment least: f32[2, 100]\n"
     "    fragment small: f16[2, 100] = 1\n"
     "    fragment bias: f32[2, 100]\n"
     "    copy a[b * 448, 0, 0] -> t\n"
     "    reduce maximum t -> most axis 2\n"
     "    map i in 2, j in 100 { bias[i, j] = f32(i + j) / 50 }\n"
     "    map k in 448, i in 2, j in 100 { t[k, i, j] = exp(t[k, i, j] - most[k, i]) + bias[i, j] * f32(k % "
     "3) }\n"
     "    reduce add t -> sum axis 2\n"
     "    map k in 448, i in 2, j in 100 { o[k, i, j] = t[k, i, j] / sum[k, i] * f32(k + b) }\n"
     "    reduce minimum o -> least axis 0\n"
     "    reduce add t -> small axis 0 accumulate\n"
     "    copy o -> z[b * 448, 0, 0]\n"
     "    copy sum -> y[b * 448, 0]\n"
     "    if b == 0 { copy least -> w }\n"
     "    if b == 0 { copy small -> v }\n"
     "    map i in 2, j in 100 { bias[i, j] = bias[i, j] + least[i, j] }\n"
     "    if b == 0 { copy bias -> u }\n"
     "  }\n"
     "}",
     {700},
     2e-3},
    // A sum along the axis that is divided, because there is no other; a row that is too large for a lane.
    {"kernel rows(a: f32[2, 98304]) -> (y: f32[2], z: f16[2, 98304]) {\n"
     "  grid b in 1 {\n"
     "    shared t: f32[2, 98304]\n"
     "    fragment s: f32[2]\n"
     "    copy a -> t\n"
     "    map i in 2, j in 98304 { t[i, j] = t[i, j] * 2 + f32(j % 5) }\n"
     "    reduce add t -> s axis 1\n"
     "    map i in 2, j in 98304 { z[i, j] = f16(t[i, j]) }\n"
     "    copy s -> y\n"
     "  }\n"
     "}",
     {0},
     1e-4},
    // Products in strips of columns: the first factor is copied for each strip.
    {"kernel product(A: f16[4, 32], B: f16[32, 49152]) -> (C: f32[4, 49152]) {\n"
     "  grid g in 1 {\n"
     "    shared a: f16[4, 16]\n"
     "    shared b: f16[16, 49152]\n"
     "    fragment c: f32[4, 49152] = 0\n"
     "    for k in 2 {\n"
     "      copy A[0, k * 16] -> a\n"
     "      copy B[k * 16, 0] -> b\n"
     "      gemm a, b -> c\n"
     "    }\n"
     "    map i in 4, j in 49152 { c[i, j] = max(c[i, j], 0) }\n"
     "    copy c -> C\n"
     "  }\n"
     "}",
     {0},
     1e-3},
};

TEST(large_tiles_go_strip_by_strip) {
    size_t step = (size_t)test_step(2);
    for (size_t i = test_random() % step; i < COUNT(large); i += step)
        tile_trial(large[i].text, "bm1690", large[i].sizes, large[i].near);
}

// Sums of a tile that fills the lanes completely: the control program reads no element.
TEST(strips_are_moved_by_commands) {
    zl_kernel k = zl_kernel_compile("kernel sums(a: f32[8192, 8192]) -> (y: f32[8192]) {\n"
                                    "  grid b in 16 {\n"
                                    "    shared t: f32[512, 8192]\n"
                                    "    fragment s: f32[512]\n"
                                    "    copy a[b * 512, 0] -> t\n"
                                    "    reduce add t -> s axis 1\n"
                                    "    copy s -> y[b * 512]\n"
                                    "  }\n"
                                    "}",
                                    "sample", "bm1690");
    if (!CHECK(k && strstr(zl_kernel_source_text(k), "tpu_gdma_cpy_S2L") &&
               !strstr(zl_kernel_source_text(k), "_mem_addr")))
        test_note("%s", zl_error() ? zl_error() : zl_kernel_source_text(k));
    zl_kernel_release(k);
}

// Maps with more points than the tiles that they read and write, with conditions for the others; a conversion
// between arrays in device memory that needs all lanes.
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

// All kernels of the manual, except those that need something that the chip lacks, and one whose 8-bit codes
// are rounded from quotients: between two codes the chip's division rounds differently.
TEST(the_manual_on_the_emulator) {
    tile_trial_of_manual("bm1690");
}

// Checks that a kernel takes at most a tenth more memory of the lanes than it uses at once.
static void check_room(const char *text) {
    zl_kernel k = zl_kernel_compile(text, "sample", "bm1690");
    const char *said = k ? strstr(zl_kernel_source_text(k), "// Tiles take ") : NULL;
    long long taken = 0, used = 0;
    if (!CHECK(said && sscanf(said, "// Tiles take %lld bytes of each lane; %lld", &taken, &used) == 2 &&
               taken * 10 <= used * 11))
        test_note("%lld bytes are taken, %lld used at once: %s", taken, used, k ? text : zl_error());
    zl_kernel_release(k);
}

TEST(tiles_take_little_more_than_is_in_use) {
    for (size_t i = 0; i < COUNT(samples); i++)
        check_room(samples[i].text);
    for (size_t i = 0; i < COUNT(large); i++)
        check_room(large[i].text);
    for (size_t i = 0; i < COUNT(gathers); i++)
        check_room(gathers[i].text);
    for (size_t i = 0; i < COUNT(byte_products); i++)
        check_room(byte_products[i].sample.text);
    char *text = file_read(ZL_TEST_DIR "/../doc/tile.md", NULL);
    REQUIRE(text);
    for (char *at = strstr(text, "```tile\n"), *end; at && (end = strstr(at + 8, "```"));
         at = strstr(end + 3, "```tile\n")) {
        *end = 0;
        if (!strstr(at, "c64"))
            check_room(at + 8);
    }
    memory_free(text);
}

// Views ----------------------------------------------------------------------------------------------------

// A tile with its rows across the lanes, and a view of it with other rows.
#define NAMES_OF_ONE_TILE                                             \
    "kernel names(x: f32[64, 64], n: i32[1]) -> (y: f32[64, 64]) {\n" \
    "  grid g in 1 {\n"                                               \
    "    shared a: f16[64, 64]\n"                                     \
    "    view b: f32[32, 64] of a\n"                                  \
    "    fragment c: f32[64, 64] = 0\n"                               \
    "    fragment d: f32[64, 64] = 0\n"

// Each name is read only after all of it was written, so the view only reuses the tile's memory.
static const char *const reused[] = {
    "    for s in 3 {\n"
    "      map i in 64, j in 64 { a[i, j] = f16(x[i, j]) * f16(s) }\n"
    "      copy a -> c\n"
    "      for h in 2 {\n"
    "        map i in 64, j in 64 { if i < 32 & 64 > j { b[i, j] = c[i + h * 32, j] * 2 } }\n"
    "        map i in 32, j in 64 { d[h * 32 + i, j] = d[h * 32 + i, j] + b[i, j] }\n"
    "      }\n"
    "    }\n"
    "    copy d -> y\n",
    "    fill a = 2\n"
    "    copy a -> d\n"
    "    if n[0] > 5 { copy x[0, 0] of [32, 64] -> b }\n"
    "    else { map i in 32, j in 64 { b[i, j] = 3 where i <= 31 } }\n"
    "    map i in 32, j in 64 { b[i, j] = b[i, j] + d[i, j] }\n"
    "    copy x -> a\n"
    "    gemm a, transpose a -> c\n"
    "    copy c -> y\n",
};

// On some path, a name is read that has values written through the other name, or that was only partly
// written.
static const char *const looked_through[] = {
    "    copy x -> a\n    copy b -> y[0, 0]\n",
    "    copy x -> a\n    map i in 31, j in 64 { b[i, j] = 1 }\n    copy b -> y[0, 0]\n",
    "    copy x -> a\n    map i in 64, j in 64 { if i < i64(n[0]) { b[i, j] = 1 } }\n    copy b -> y[0, 0]\n",
    "    copy x -> a\n    map i in 32, j in 64 { b[31 - i, j] = x[i, j] }\n    copy b -> y[0, 0]\n",
    "    copy x -> a\n    copy x[0, 0] of [16, 64] -> b\n    copy b -> y[0, 0]\n",
    "    copy x -> a\n    reduce add x[0, 0] of [64, 16] -> b axis 0\n    copy b -> y[0, 0]\n",
    "    copy x -> a\n    gemm c[0, 0] of [16, 64], c -> b clear\n    copy b -> y[0, 0]\n",
    "    copy x -> a\n    fill b = 1\n    copy a -> y\n",
    "    copy x -> a\n    if n[0] > 5 { fill b = 1 }\n    copy b -> y[0, 0]\n",
    "    fill b = 1\n    for s in 2 { copy b -> y[0, 0]\n fill a = 2 }\n",
    "    fill b = 1\n    for s in 2 { fill a = 2; if n[0] > 5 { break }; fill b = 3 }\n    copy b -> y",
    "    fill a = 1\n    reduce add x -> b axis 0 accumulate\n    copy b -> y[0, 0]\n",
    "    copy x -> a\n    map i in 32, j in 64 { b[i, j] = f32(a[i, j]) }\n    copy b -> y[0, 0]\n",
};

TEST(views_that_only_use_memory_again_are_tiles) {
    char text[2000];
    for (size_t i = 0; i < COUNT(reused); i++) {
        snprintf(text, sizeof text, "%s%s  }\n}", NAMES_OF_ONE_TILE, reused[i]);
        tile_trial(text, "bm1690", (int64_t[]){0}, 2e-2);
        check_room(text);
    }
    for (size_t i = 0; i < COUNT(looked_through); i++) {
        snprintf(text, sizeof text, "%s%s  }\n}", NAMES_OF_ONE_TILE, looked_through[i]);
        zl_kernel k = zl_kernel_compile(text, "sample", "bm1690");
        if (!CHECK(!k && zl_error() && strstr(zl_error(), "'b', a view of 'a' that cuts across its lanes")))
            test_note("%s\n%s", text, zl_error() ? zl_error() : "no error");
        zl_clear_error();
        zl_kernel_release(k);
    }
}

// Tiles of one axis lie in rows across the lanes if statements use them element by element, or reduce all of
// them; not if a part of the tile is copied, or a map reads it in reverse.
TEST(tiles_of_one_axis_have_all_lanes) {
    static const char *const texts[] = {
        "kernel fl(a: f32[8192], b: f16[8192]) -> (y: f32[8192], z: f16[8192]) {\n"
        "  grid g in 8 {\n"
        "    shared t: f32[1024]\n"
        "    shared h: f16[1024]\n"
        "    fragment o: f32[1024] = 1\n"
        "    shared one: f32[512]\n"
        "    fragment sum: f32[1]\n"
        "    copy a[g * 1024] -> t\n"
        "    copy b[g * 1024] -> h\n"
        "    copy a[g * 1024] of [512] -> one\n"
        "    reduce add one -> sum axis 0\n"
        "    map i in 1024 { o[i] = o[i] + t[i] * f32(h[i]) + f32(i % 7) + sum[0] * 0 }\n"
        "    map i in 1024 { z[g * 1024 + i] = f16(o[i]) }\n"
        "    map i in 1024 { o[i] = o[i] * a[g * 1024 + i] }\n"
        "    copy o -> y[g * 1024]\n"
        "  }\n"
        "}\n",
        // A row that is too large for a lane; then 16-bit sums accumulated into an array, and blocks beyond
        // the last row.
        "kernel row(x: f32[n, 98304]) -> (y: f32[n, 98304], m: f32[n, 2]) {\n"
        "  grid g in n {\n"
        "    shared t: f32[1, 98304]\n"
        "    fragment most: f32[1]\n"
        "    fragment sum: f32[1, 1]\n"
        "    copy x[g, 0] -> t else -inf\n"
        "    reduce maximum t -> most axis 1\n"
        "    map i in 1, j in 98304 { t[i, j] = exp(t[i, j] - most[i]) }\n"
        "    reduce add t -> sum axis 1\n"
        "    map j in 98304 { y[g, j] = t[0, j] / sum[0, 0] }\n"
        "    m[g, 0] = most[0]\n"
        "    m[g, 1] = sum[0, 0]\n"
        "  }\n"
        "}\n",
        "kernel halves(x: f16[n, 512]) -> (y: f16[n, 512], m: f32[n]) {\n"
        "  grid g in ceildiv(n, 3) {\n"
        "    shared t: f16[512]\n"
        "    fragment sum: f16[1] = 3\n"
        "    for k in 3 {\n"
        "      copy x[g * 3 + k, 0] of [1, 512] -> t else 0.25\n"
        "      reduce add t -> sum axis 0 accumulate\n"
        "      map j in 512 { t[j] = t[j] * sum[0] }\n"
        "      copy t -> y[g * 3 + k, 0] of [1, 512]\n"
        "    }\n"
        "    m[g] = f32(sum[0])\n"
        "  }\n"
        "}\n",
        "kernel edge(a: f32[n]) -> (y: f32[n]) {\n"
        "  grid g in ceildiv(n, 512) {\n"
        "    shared t: f32[512]\n"
        "    shared o: f32[512]\n"
        "    copy a[g * 512] -> t\n"
        "    map i in 512 { o[i] = t[511 - i] }\n"
        "    map i in 512 { t[i] = o[i] + t[i] where i % 3 > 0 }\n"
        "    copy t -> y[g * 512]\n"
        "  }\n"
        "}"};
    static const int64_t sizes[COUNT(texts)] = {0, 2, 7, 1000};
    for (size_t i = 0; i < COUNT(texts); i++)
        tile_trial(texts[i], "bm1690", &sizes[i], i == 2 ? 2e-2 : i == 1 ? 2e-5 : 1e-6);
    zl_kernel k = zl_kernel_compile(texts[0], "sample", "bm1690");
    if (!CHECK(k && strstr(zl_kernel_source_text(k), "&(dim4){1, 64, 1, 16}")))
        test_note("%s", k ? zl_kernel_source_text(k) : zl_error());
    zl_kernel_release(k);
}

// A map of one variable outside of grids uses all lanes of all cores, with an edge: it is limited by the
// bandwidth of device memory.
TEST(maps_of_one_variable_have_all_lanes) {
    enum { N = 1 << 22 };
    const char *text = "kernel sums(a: f32[n], b: f32[n]) -> (y: f32[n]) { map i in n { y[i] = a[i] * 2 + "
                       "b[i] * f32(i % 5) } }";
    int64_t sizes[3] = {20001, 64, 31}, dim = N, count = N - 3;
    for (size_t i = 0; i < COUNT(sizes); i++)
        tile_trial(text, "bm1690", &sizes[i], 1e-6);
    float *memory = calloc(3, sizeof *memory * N);
    REQUIRE(memory);
    zl_device_c_argument arguments[4] = {
        {.memory = {memory, ZL_FLOAT32, 1, &dim, NULL}},
        {.memory = {memory + N, ZL_FLOAT32, 1, &dim, NULL}},
        {.memory = {memory + 2 * N, ZL_FLOAT32, 1, &dim, NULL}, .is_output = true},
        {.memory = {&count, ZL_INT64, 0, NULL, NULL}}};
    zl_device_c_options options = {.entry = "sums_kernel", .cores = 8, .counts_only = true};
    zl_device_c_report report = {0};
    zl_kernel k = zl_kernel_compile(text, "sample", "bm1690");
    if (!CHECK(k && zl_device_c_run(zl_kernel_source_text(k), "bm1690", &options, 4, arguments, &report) &&
               report.lanes > 0.9 && report.copy_seconds < 1.1 * 12 * N / (8 * 68.3e9)))
        test_note("%g of the lanes, %g s: %s", report.lanes, report.copy_seconds,
                  zl_error() ? zl_error() : "no error");
    zl_kernel_release(k);
    free(memory);
}

// The factors and the sum of a product are in different banks.
TEST(operands_of_products_share_no_bank) {
    enum { N = 256 };
    const char *text = "kernel product(A: f16[256, 256], B: f16[256, 256]) -> (C: f32[256, 256]) {\n"
                       "  grid b in 2 {\n"
                       "    shared x: f16[128, 64]\n"
                       "    shared y: f16[64, 256]\n"
                       "    fragment z: f32[128, 256] = 0\n"
                       "    pipeline k in 4 stages 2 {\n"
                       "      copy A[b * 128, k * 64] -> x\n"
                       "      copy B[k * 64, 0] -> y\n"
                       "      gemm x, y -> z\n"
                       "    }\n"
                       "    copy z -> C[b * 128, 0]\n"
                       "  }\n"
                       "}";
    static uint16_t a[N * N], b[N * N];
    static float c[N * N];
    int64_t dim[2] = {N, N};
    zl_device_c_argument arguments[3] = {{.memory = {a, ZL_FLOAT16, 2, dim, NULL}},
                                         {.memory = {b, ZL_FLOAT16, 2, dim, NULL}},
                                         {.memory = {c, ZL_FLOAT32, 2, dim, NULL}, .is_output = true}};
    zl_device_c_options options = {.entry = "product_kernel", .cores = 8, .counts_only = true};
    zl_device_c_report report = {0};
    zl_kernel k = zl_kernel_compile(text, "sample", "bm1690");
    if (!CHECK(k && zl_device_c_run(zl_kernel_source_text(k), "bm1690", &options, 3, arguments, &report) &&
               report.commands > 0 && report.bank_conflicts == 0))
        test_note("%lld commands share banks: %s", (long long)report.bank_conflicts,
                  zl_error() ? zl_error() : "no error");
    zl_kernel_release(k);
}

// The entry has the kernel's name with the suffix _kernel, which is not doubled.
TEST(the_ending_of_an_entry_is_not_doubled) {
    static const char *const names[] = {"twice", "twice_kernel", "kernel_of_twice"},
                             *const entries[] = {"twice_kernel", "twice_kernel", "kernel_of_twice_kernel"};
    int64_t n = 70;
    for (size_t i = 0; i < COUNT(names); i++) {
        char text[200], line[100];
        snprintf(text, sizeof text, "kernel %s(a: f32[n]) -> (y: f32[n]) { map i in n { y[i] = a[i] * 2 } }",
                 names[i]);
        snprintf(line, sizeof line, "TPUKERNEL_FUNC_REGISTER(%s)\n", entries[i]);
        tile_trial(text, "bm1690", &n, 0);
        zl_kernel k = zl_kernel_compile(text, "sample", "bm1690");
        if (CHECK(k))
            CHECK_HAS(zl_kernel_source_text(k), line);
        zl_kernel_release(k);
    }
}

static const struct {
    const char *text, *why;
} refused[] = {
    {"kernel most(a: i64[n]) -> (y: i64[1]) {\n"
     "  grid b in n { atomic maximum y[0], a[b] }\n"
     "}",
     "line 2: atomic: the target has no commands for atomic maximum of i64"},
    {"kernel fused(a: f64[n]) -> (y: f64[n]) { map i in n { y[i] = fma(a[i], a[i], a[i]) } }",
     "the target has no commands for fma of f64"},
    {"kernel large(a: f32[n, 4096], y: f32[n, 4096]) -> (z: f32[n, 4096]) {\n"
     "  grid b in n // 2048 {\n"
     "    shared s: f32[2048, 4096]\n"
     "    copy a[b * 2048, 0] -> s\n"
     "    map i in 2048, j in 4096 { z[i, j] = s[2047 - i, 4095 - j] }\n"
     "  }\n"
     "}",
     "line 4: command: target bm1690 has 262144 bytes in each lane, and tpu_bdc_set_C needs 524288, of "
     "which 's' "
     "takes 524288"},
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

// Time, modelled --------------------------------------------------------------------------------------------

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

// Returns the report of a product of size^3, which is counted but not computed.
static zl_device_c_report report_of_size(const char *params, int64_t size) {
    size_t bytes = 2 * (size_t)(size * size);
    uint8_t *memory = memory_zero(3 * bytes);
    int64_t dim[2] = {size, size};
    zl_device_c_report report = {0};
    zl_kernel_buffer buffer[3];
    zl_kernel k = zl_kernel_compile_with(product, "product", "bm1690", params);
    for (int i = 0; memory && i < 3; i++)
        buffer[i] = (zl_kernel_buffer){memory + (size_t)i * bytes, ZL_FLOAT16, 2, dim, NULL};
    if (!CHECK(memory && k && zl_kernel_report(k, 3, buffer, &report)))
        test_note("%s", zl_error());
    zl_kernel_release(k);
    memory_free(memory);
    return report;
}

static zl_device_c_report report_of(const char *params) {
    return report_of_size(params, SIZE);
}

// Checks against the peaks: 32 x 4 multiply-adds per lane and cycle, 68.3 bytes of device memory per core and
// cycle.
TEST(no_modelled_time_is_above_a_peak) {
    static const char *const params[] = {"BM=128", "BM=256,BN=256", "BM=512,BN=512,BK=32", "STAGES=1",
                                         "BK=128,STAGES=3"};
    double products = (double)SIZE * SIZE * SIZE;
    for (size_t i = 0; i < COUNT(params); i++) {
        zl_device_c_report r = report_of(params[i]);
        double cycles = r.seconds * 1e9;
        CHECK(cycles * CORES * 64 * 128 >= products);
        CHECK(cycles * CORES * 68.3 >= 3.0 * 2 * SIZE * SIZE);
        CHECK(cycles * CORES * 128 >= (double)r.bytes); // some bytes are fills of local memory
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

// Uses the blocks that tuning finds for 4096^3.
TEST(the_best_blocks_keep_the_matrix_unit_busy) {
    zl_device_c_report r = report_of_size("BM=1024,BN=1024,BK=32", 4096);
    double products = 4096.0 * 4096 * 4096, least = products / (CORES * 64 * 128) * 1e-9;
    CHECK(r.compute_seconds >= least);
    if (!CHECK(least >= 0.8 * r.seconds) ||
        !CHECK(r.seconds <= 1.1 * MAX_OF(r.compute_seconds, r.copy_seconds)))
        test_note("%g us, of which products take %g, all computing %g and copies %g", r.seconds * 1e6,
                  least * 1e6, r.compute_seconds * 1e6, r.copy_seconds * 1e6);
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

// Returns the processor time from text to a launch with an empty cache: that of this process and of the
// compiler it starts.
static double cold_seconds(const char *name) {
    struct rusage before, after;
    struct text text = {0};
    static char memory[3][2 * SIZE * SIZE];
    int64_t dim[2] = {SIZE, SIZE};
    zl_kernel_buffer buffer[3];
    zl_device_c_report report = {0};
    text_add(&text, "kernel %s%s", name, product + strlen("kernel product"));
    for (int i = 0; i < 3; i++)
        buffer[i] = (zl_kernel_buffer){memory[i], ZL_FLOAT16, 2, dim, NULL};
    getrusage(RUSAGE_CHILDREN, &before);
    clock_t own = clock();
    zl_kernel k = zl_kernel_compile(text.data, "product", "bm1690");
    if (!CHECK(k && zl_kernel_report(k, 3, buffer, &report)))
        test_note("%s", zl_error());
    own = clock() - own;
    getrusage(RUSAGE_CHILDREN, &after);
    zl_kernel_release(k);
    text_free(&text);
    double seconds = (double)own / CLOCKS_PER_SEC;
    seconds += (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec -
                        before.ru_stime.tv_sec);
    return seconds + 1e-6 * (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec +
                                     after.ru_stime.tv_usec - before.ru_stime.tv_usec);
}

// A product of 1024^3 is compiled and run within half a second of processor time, of this process and the
// compiler's. Takes the best of three kernels with new names, which no cache has.
TEST(source_runs_within_half_a_second) {
    double best = INFINITY;
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "cold_%llx_%d", (unsigned long long)clock_ns(), i);
        best = fmin(best, cold_seconds(name));
    }
    if (!CHECK(best <= 0.5) || test_long())
        test_note("%.3f s of processor time", best);
}
