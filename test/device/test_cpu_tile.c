// test_cpu_tile.c - tile kernels compiled for the CPU, compared with the interpreter: every statement, edges,
// atomics, phases, and arguments that do not fit.

#include "test.h"
#include "tile_samples.h"
#include "tile_trial.h"

#include "device/cpu/cpu.h"
#include "tile/tile.h"
#include "zellige_tile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 6, DIMS = 4 };

struct argument {
    zl_dtype dtype;
    int ndim;
    int64_t dim[DIMS];
};

// A kernel, its arguments and the sizes in the order of its symbols.
struct sample {
    const char *text;
    int count;
    struct argument argument[PARAMETERS];
    int64_t symbol[4];
    double near; // largest relative difference from the interpreter's results; 0: the same bits
};

#define F32 ZL_FLOAT32
#define I32 ZL_INT32

static const struct sample samples[] = {
    {SAMPLE_SCALE, 3, {{F32, 1, {10000}}, {F32, 0, {0}}, {F32, 1, {10000}}}, {10000}},
    {SAMPLE_EDGES, 2, {{F32, 2, {37, 71}}, {ZL_FLOAT16, 2, {37, 71}}}, {37, 71}},
    {"kernel heads(a: f32[2, n, 3, m]) -> (y: f32[n, 3, m]) {\n"
     "  grid b in ceildiv(n, 16), h in 3 {\n"
     "    shared t: f32[16, 32]\n"
     "    copy a[1, b * 16 - 3, h, 0] of [1, 16, 1, 32] -> t else f32(h) - 2.5\n"
     "    copy t -> y[b * 16, h, 0] of [16, 1, 32]\n"
     "  }\n"
     "}",
     2,
     {{F32, 4, {2, 37, 3, 29}}, {F32, 3, {37, 3, 29}}},
     {37, 29}},
    // Maps, and reductions of the tiles that they store: kept or not, in place, of 16-bit floats, of lengths
    // that are not a multiple of the lanes, with rows that are reduced further.
    {"kernel norm(x: f32[6, 71], h: bf16[6, 71]) -> (y: f32[6, 71], z: f32[6]) {\n"
     "  grid b in 2 {\n"
     "    shared rows: f32[3, 71]\n"
     "    fragment squares: f32[3, 71]\n"
     "    fragment wide: f32[3, 71]\n"
     "    fragment total: f32[3]\n"
     "    fragment other: f32[3] = 0.5\n"
     "    copy x[b * 3, 0] of [3, 71] -> rows\n"
     "    map i in 3, j in 71 { squares[i, j] = rows[i, j] * rows[i, j] }\n"
     "    reduce add squares -> total axis 1\n"
     "    copy h[b * 3, 0] of [3, 71] -> wide\n"
     "    map i in 3, j in 71 { squares[i, j] = wide[i, j] * 0.5 + wide[i, j] * rows[i, j] }\n"
     "    reduce maximum squares -> other axis 1 accumulate\n"
     "    map i in 3, j in 71 { rows[i, j] = rows[i, j] / sqrt(total[i] + 1) }\n"
     "    copy rows -> y[b * 3, 0] of [3, 71]\n"
     "    copy other -> z[b * 3] of [3]\n"
     "  }\n"
     "}",
     4,
     {{F32, 2, {6, 71}}, {ZL_BFLOAT16, 2, {6, 71}}, {F32, 2, {6, 71}}, {F32, 1, {6}}},
     {0}},
    {"kernel softmax(x: f32[4, m]) -> (y: f32[4, m]) {\n"
     "  grid b in 2 {\n"
     "    fragment rows: f32[2, m]\n"
     "    fragment most: f32[2]\n"
     "    fragment total: f32[2]\n"
     "    copy x[b * 2, 0] of [2, m] -> rows\n"
     "    reduce maximum rows -> most axis 1\n"
     "    map i in 2, j in m { rows[i, j] = exp(rows[i, j] - most[i]) }\n"
     "    reduce add rows -> total axis 1\n"
     "    map i in 2, j in m { rows[i, j] = rows[i, j] / total[i] }\n"
     "    copy rows -> y[b * 2, 0] of [2, m]\n"
     "  }\n"
     "}",
     2,
     {{F32, 2, {4, 100}}, {F32, 2, {4, 100}}},
     {100}},
    {"kernel again(x: f32[6, 40]) -> (y: f32[6], z: f32[6]) {\n"
     "  grid b in 2 {\n"
     "    fragment rows: f32[3, 40] = 0.25\n"
     "    fragment total: f32[3]\n"
     "    reduce add rows -> total axis 1\n"
     "    copy total -> z[b * 3] of [3]\n"
     "    copy x[b * 3, 0] of [3, 40] -> rows\n"
     "    reduce add rows -> total axis 1\n"
     "    copy total -> y[b * 3] of [3]\n"
     "  }\n"
     "}",
     3,
     {{F32, 2, {6, 40}}, {F32, 1, {6}}, {F32, 1, {6}}},
     {0}},
    {"kernel sums(x: i32[64, 40], d: f64[40]) -> (y: i32[64], w: f64[1], t: i32[64, 40]) {\n"
     "  local part: i32[64, 40]\n"
     "  local line: f64[40]\n"
     "  map i in 64, j in 40 { part[i, j] = x[i, j] * 3 + 1 }\n"
     "  reduce add part -> y axis 1\n"
     "  map j in 40 { line[j] = where(d[j] < 0, 0 - d[j], d[j] * 2) }\n"
     "  reduce add line -> w axis 0\n"
     "  map i in 64, j in 40 { t[i, j] = part[i, j] }\n"
     "}",
     5,
     {{I32, 2, {64, 40}}, {ZL_FLOAT64, 1, {40}}, {I32, 1, {64}}, {ZL_FLOAT64, 1, {1}}, {I32, 2, {64, 40}}},
     {0}},
    {"kernel views(a: i32[n, 4], w: u8[64]) -> (y: i32[n, 8], z: i32[4, n]) {\n"
     "  view flat: i32[n * 4] of a\n"
     "  view halves: u16[n * 4, 2] of a\n"
     "  view words: u32[16] of w\n"
     "  grid b in n {\n"
     "    shared t: i32[2, 8]\n"
     "    view line: i32[16] of t\n"
     "    map i in 16 { line[i] = i32(i) }\n"
     "    map j in 8 { y[b, j] = i32(halves[b * 4 + j // 2, j % 2]) + i32(words[j]) % 16 + t[1, j] }\n"
     "  }\n"
     "  view turned: i32[n, 4] of z\n"
     "  map i in n, j in 4 { turned[i, j] = flat[i * 4 + j] }\n"
     "}",
     4,
     {{I32, 2, {9, 4}}, {ZL_UINT8, 1, {64}}, {I32, 2, {9, 8}}, {I32, 2, {4, 9}}},
     {9}},
    {"kernel sized(a: f32[n, m], b: f32[m, k]) -> (y: f32[n, m], c: f32[n, k]) {\n"
     "  grid g in ceildiv(n, 4) {\n"
     "    shared t: f32[4, m]\n"
     "    shared w: f32[m, k]\n"
     "    fragment sum: f32[4, k] = 0\n"
     "    copy a[g * 4, 0] of [4, m] -> t\n"
     "    copy b -> w\n"
     "    gemm t, w -> sum\n"
     "    for i in 2 { local last: f32[m + i]\n copy t[i, 0] of [1, m] -> last[i] of [m]\n t[i, 0] = last[m "
     "+ i - 1] }\n"
     "    copy t -> y[g * 4, 0] of [4, m]\n"
     "    copy sum -> c[g * 4, 0] of [4, k]\n"
     "  }\n"
     "}",
     4,
     {{F32, 2, {10, 7}}, {F32, 2, {7, 5}}, {F32, 2, {10, 7}}, {F32, 2, {10, 5}}},
     {10, 7, 5},
     1e-5},
    {"kernel softmax(x: f32[n, m]) -> (y: f32[n, m]) where m <= 1024 {\n"
     "  grid b in n {\n"
     "    fragment row: f32[1, 1024]\n"
     "    fragment most: f32[1]\n"
     "    fragment sum: f32[1]\n"
     "    copy x[b, 0] -> row\n"
     "    map j in 1024 { row[0, j] = where(j < m, row[0, j], -inf) }\n"
     "    reduce maximum row -> most axis 1\n"
     "    map j in 1024 { row[0, j] = exp(row[0, j] - most[0]) }\n"
     "    reduce add row -> sum axis 1\n"
     "    map j in m { y[b, j] = row[0, j] / sum[0] }\n"
     "  }\n"
     "}",
     2,
     {{F32, 2, {5, 333}}, {F32, 2, {5, 333}}},
     {5, 333}},
    {SAMPLE_SMALL, 3, {{F32, 1, {600}}, {F32, 2, {8, 256}}, {ZL_UINT8, 2, {8, 600}}}, {600}},
    {SAMPLE_SMALL_TILES,
     6,
     {{F32, 2, {64, 40}},
      {F32, 2, {32, 48}},
      {F32, 2, {64, 48}},
      {ZL_UINT8, 2, {64, 40}},
      {F32, 1, {64}},
      {F32, 1, {48}}},
     {0},
     1e-5},
    {SAMPLE_IM2COL, 3, {{F32, 4, {2, 8, 9, 3}}, {ZL_FLOAT16, 2, {72, 32}}, {F32, 2, {10, 30}}}, {8}},
    {SAMPLE_GEMM_RELU, 3, {{F32, 2, {50, 29}}, {F32, 2, {70, 29}}, {F32, 2, {50, 70}}}, {50, 29, 70}, 1e-5},
    {"kernel edges_of_products(A: f32[b, M, K], B: f32[N, K]) -> (C: f32[M, N], D: f32[M, N]) {\n"
     "  grid bx in ceildiv(N, 16), by in ceildiv(M, 16) {\n"
     "    shared a: f32[16, 8]\n"
     "    shared t: f32[8, 16]\n"
     "    shared v: f32[16, 8]\n"
     "    fragment acc: f32[16, 16] = 1\n"
     "    fragment other: f32[16, 16] = 2\n"
     "    for k in ceildiv(K, 8) + 1 {\n"
     "      copy A[1, by * 16 - 3, k * 8 - 5] -> a\n"
     "      copy B[bx * 16 + 2, k * 8 - 5] -> v\n"
     "      copy A[by + 1, bx, k * 8 - 2] of [1, 16, 8] -> a\n"
     "      gemm a, transpose v -> acc\n"
     "    }\n"
     "    for k in 2 {\n"
     "      copy A[2 * k, k * 8, by] of [1, 8, 16] -> t\n"
     "      copy B[bx * 16 + 2, k * 8 - 5] -> v\n"
     "      gemm transpose t, transpose v -> other clear\n"
     "    }\n"
     "    copy acc -> C[by * 16, bx * 16]\n"
     "    copy other -> D[by * 16, bx * 16]\n"
     "  }\n"
     "}",
     4,
     {{F32, 3, {2, 37, 29}}, {F32, 2, {40, 29}}, {F32, 2, {37, 40}}, {F32, 2, {37, 40}}},
     {2, 37, 29, 40},
     1e-5},
    {"kernel two_sums(A: f32[b, M, K], B: f32[K, N], E: f32[K, N]) -> (C: f32[M, N]) {\n"
     "  grid bx in ceildiv(N, 16), by in ceildiv(M, 16) {\n"
     "    shared a: f32[16, 8]\n"
     "    shared v: f32[8, 16]\n"
     "    shared w: f32[8, 16]\n"
     "    fragment acc: f32[16, 16] = 0\n"
     "    fragment gate: f32[16, 16] = 0\n"
     "    for k in ceildiv(K, 8) {\n"
     "      copy A[1, by * 16, k * 8 - 3] -> a\n"
     "      copy B[k * 8, bx * 16] -> v\n"
     "      copy E[k * 8 + 1, bx * 16 - 1] -> w\n"
     "      gemm a, v -> acc\n"
     "      gemm a, w -> gate\n"
     "    }\n"
     "    map i in 16, j in 16 { acc[i, j] = acc[i, j] * gate[i, j] }\n"
     "    copy acc -> C[by * 16, bx * 16]\n"
     "  }\n"
     "}",
     4,
     {{F32, 3, {2, 37, 29}}, {F32, 2, {29, 21}}, {F32, 2, {29, 21}}, {F32, 2, {37, 21}}},
     {2, 37, 29, 21},
     1e-4},
    {"kernel small_integers(A: i8[M, K], B: i8[K, N]) -> (C: i32[M, N]) {\n"
     "  grid bx in ceildiv(N, 16), by in ceildiv(M, 16) {\n"
     "    shared a: i8[16, 32]\n"
     "    shared v: i8[32, 16]\n"
     "    fragment acc: i32[16, 16] = 7\n"
     "    for k in ceildiv(K, 32) {\n"
     "      copy A[by * 16, k * 32] -> a\n"
     "      copy B[k * 32, bx * 16] -> v\n"
     "      gemm a, v -> acc\n"
     "    }\n"
     "    copy acc -> C[by * 16, bx * 16]\n"
     "  }\n"
     "}",
     3,
     {{ZL_INT8, 2, {37, 77}}, {ZL_INT8, 2, {77, 21}}, {I32, 2, {37, 21}}},
     {37, 77, 21}},
    {SAMPLE_HALF_GEMM,
     3,
     {{ZL_BFLOAT16, 2, {64, 32}}, {ZL_BFLOAT16, 2, {32, 48}}, {ZL_BFLOAT16, 2, {64, 48}}},
     {0},
     2e-2},
    {"kernel sums(a: i32[n, 8]) -> (y: i32[n, 8], total: i32[n], column: i32[8]) {\n"
     "  scan add a -> y axis 1 reverse exclusive\n"
     "  fill total = 1\n"
     "  reduce multiply a -> total axis 1 accumulate\n"
     "  reduce maximum a -> column axis 0\n"
     "}",
     4,
     {{I32, 2, {21, 8}}, {I32, 2, {21, 8}}, {I32, 1, {21}}, {I32, 1, {8}}},
     {21}},
    {"kernel lines(a: f16[n, 3, m], b: f32[n]) -> (y: f32[n, 3], most: f16[n, 3, 1], all: f32[1]) where m <= "
     "128 {\n"
     "  shared t: f16[3, 128]\n"
     "  grid i in n {\n"
     "    fragment part: f32[3] = 1.5\n"
     "    shared rows: f16[3, 100]\n"
     "    copy a[i, 0, 0] of [1, 3, 100] -> rows\n"
     "    reduce add rows -> part axis 1 accumulate\n"
     "    copy part -> y[i, 0]\n"
     "  }\n"
     "  reduce minimum a -> most axis 2\n"
     "  reduce multiply b -> all axis 0\n"
     "}",
     5,
     {{ZL_FLOAT16, 3, {7, 3, 90}},
      {F32, 1, {7}},
      {F32, 2, {7, 3}},
      {ZL_FLOAT16, 3, {7, 3, 1}},
      {F32, 1, {1}}},
     {7, 90}},
    {"kernel chains(a: f32[n, 40], w: f32[40]) -> (y: f32[n, 40], z: f32[n, 40]) {\n"
     "  grid b in n {\n"
     "    fragment t: f32[1, 40]\n"
     "    fragment u: f32[1, 40]\n"
     "    fragment s: f32[1]\n"
     "    copy a[b, 0] -> t\n"
     "    map i in 1, j in 40 { u[i, j] = t[i, j] * t[i, j] }\n"
     "    reduce add u -> s axis 1\n"
     "    map i in 1, j in 40 { t[i, j] = t[i, j] / s[i] }\n"
     "    map i in 1, j in 40 { t[i, j] = exp(t[i, j]) * w[j] }\n"
     "    map i in 1, j in 40 { u[i, j] = t[i, j] + 1.0 }\n"
     "    map i in 1, j in 40 { t[i, j] = t[i, j] * u[i, j] }\n"
     "    copy t -> y[b, 0]\n"
     "    copy u -> z[b, 0]\n"
     "  }\n"
     "}",
     4,
     {{F32, 2, {7, 40}}, {F32, 1, {40}}, {F32, 2, {7, 40}}, {F32, 2, {7, 40}}},
     {7}},
    {"kernel control(a: i32[n]) -> (y: i32[n], longest: i32[1]) {\n"
     "  longest[0] = 0\n"
     "  for i in n {\n"
     "    steps = 0i32\n"
     "    x = a[i]\n"
     "    while x > 1 {\n"
     "      if x % 2 == 0 { x = x // 2 } else { x = x * 3 + 1 }\n"
     "      steps = steps + 1\n"
     "      if steps > 50 { break }\n"
     "    }\n"
     "    y[i] = steps\n"
     "    atomic maximum longest[0], steps where steps <= 50\n"
     "    assert steps >= 0, \"a count is not negative\"\n"
     "  }\n"
     "}",
     3,
     {{I32, 1, {60}}, {I32, 1, {60}}, {I32, 1, {1}}},
     {60}},
    {"kernel histogram(a: i32[n]) -> (y: i32[16], h: f16[16]) {\n"
     "  fill y = 0\n"
     "  fill h = 0\n"
     "  grid b in n {\n"
     "    atomic add y[i64(a[b] % 16)], 1i32\n"
     "    atomic add h[i64(a[b] % 16)], 1f16\n"
     "  }\n"
     "}",
     3,
     {{I32, 1, {3000}}, {I32, 1, {16}}, {ZL_FLOAT16, 1, {16}}},
     {3000}},
    {"kernel places(a: i32[n]) -> (count: i32[4], y: i32[n], half: f16[1]) {\n"
     "  fill count = 0\n"
     "  fill half = 0\n"
     "  for i in n {\n"
     "    at = atomic add count[i64(a[i] % 4)], 1i32 where a[i] % 8 != 7\n"
     "    y[i] = at\n"
     "    at = atomic maximum count[3], at\n"
     "    y[i] = y[i] + at * 100\n"
     "    was = atomic add half[0], 0.5f16\n"
     "    y[i] = y[i] + i32(was) * 10000\n"
     "  }\n"
     "}",
     4,
     {{I32, 1, {60}}, {I32, 1, {4}}, {I32, 1, {60}}, {ZL_FLOAT16, 1, {1}}},
     {60}},
    {SAMPLE_WAVES, 2, {{ZL_COMPLEX64, 1, {100}}, {ZL_COMPLEX64, 1, {100}}}, {100}},
    {SAMPLE_ROOM, 2, {{F32, 1, {201}}, {F32, 1, {201}}}, {201}},
};

static int64_t bytes_of(const struct argument *a) {
    int64_t count = 1;
    for (int i = 0; i < a->ndim; i++)
        count *= a->dim[i];
    return count * (int64_t)zl_dtype_size(a->dtype);
}

static void fill_random(const struct argument *a, char *data) {
    int64_t count = bytes_of(a) / (int64_t)zl_dtype_size(a->dtype);
    ZL_SCOPE {
        double *values = malloc(sizeof *values * (size_t)(2 * count));
        for (int64_t i = 0; i < 2 * count; i++)
            values[i] =
                (double)test_between(-400, 400) / (a->dtype == I32 ? 1 : 128) + (a->dtype == I32 ? 400 : 0);
        zl_array x = zl_astype(zl_from_f64(values, ZL_SHAPE(a->dtype == ZL_COMPLEX64 ? 2 * count : count)),
                               a->dtype == ZL_COMPLEX64 ? F32 : a->dtype);
        REQUIRE(zl_copy_to(x, data, (size_t)bytes_of(a)));
        free(values);
    }
}

static double value_at(const struct argument *a, const char *data, int64_t i) {
    struct tile_type type = tile_type_of(a->dtype);
    uint64_t bits = 0;
    memcpy(&bits, data + i * tile_type_bytes(type), (size_t)tile_type_bytes(type));
    return tile_value_of(type, bits).f;
}

static bool is_same(const struct sample *s, const struct argument *a, const char *got, const char *want) {
    if (s->near == 0)
        return !memcmp(got, want, (size_t)bytes_of(a));
    for (int64_t i = 0; i < bytes_of(a) / (int64_t)zl_dtype_size(a->dtype); i++)
        if (fabs(value_at(a, got, i) - value_at(a, want, i)) > s->near * fmax(1, fabs(value_at(a, want, i))))
            return false;
    return true;
}

static void check_sample(const struct sample *s) {
    char *data[PARAMETERS] = {NULL}, *wanted[PARAMETERS] = {NULL};
    zl_kernel_buffer buffer[PARAMETERS];
    struct tile_kernel *tile = tile_parse(s->text, "sample");
    zl_kernel k = zl_kernel_compile(s->text, "sample", "c");
    REQUIRE(tile && k);
    for (int i = 0; i < s->count; i++) {
        const struct argument *a = &s->argument[i];
        size_t bytes = (size_t)bytes_of(a);
        data[i] = calloc(1, bytes), wanted[i] = malloc(bytes);
        fill_random(a, data[i]);
        memcpy(wanted[i], data[i], bytes);
        buffer[i] = (zl_kernel_buffer){data[i], a->dtype, a->ndim, a->dim, NULL};
    }
    CHECK(tile_interpret(tile, (void *const *)wanted, s->symbol));
    CHECK(zl_kernel_run(k, s->count, buffer));
    for (int i = 0; i < s->count; i++)
        if (!CHECK(is_same(s, &s->argument[i], data[i], wanted[i])))
            test_note("argument %d of:\n%s", i, s->text);
    for (int i = 0; i < s->count; i++)
        free(data[i]), free(wanted[i]);
    zl_kernel_release(k);
    tile_free(tile);
}

TEST(compiled_as_interpreted) {
    for (size_t i = 0; i < COUNT(samples); i++)
        check_sample(&samples[i]);
}

TEST(tables_as_interpreted) {
    tile_trial(SAMPLE_TABLES, "c", (int64_t[]){200}, 1e-5);
}

TEST(pieces_as_interpreted) {
    tile_trial(SAMPLE_PIECES, "c", (int64_t[]){5}, 1e-5);
}

// exp2() has the accuracy that doc/tile.md states, over its whole range, and the limits of 2^x.
TEST(quick_powers_of_two) {
    enum { MANY = 60000 };
    static float x[MANY], y[MANY];
    int64_t count = MANY;
    zl_kernel k = zl_kernel_compile("kernel f(x: f32[n]) -> (y: f32[n]) { map i in n { y[i] = exp2(x[i]) } }",
                                    "f", "c");
    REQUIRE(k);
    for (int i = 0; i < MANY; i++)
        x[i] = (float)(-130 + 260.0 * i / MANY);
    float ends[] = {-INFINITY, INFINITY, NAN, 1e30f, -1e30f, 129, 0, -0.0f, 1, -126, 127.9999f};
    memcpy(x, ends, sizeof ends);
    CHECK(zl_kernel_run(k, 2, (zl_kernel_buffer[]){{x, F32, 1, &count, NULL}, {y, F32, 1, &count, NULL}}));
    CHECK(y[0] == 0 && y[1] == INFINITY && y[2] != y[2] && y[3] == INFINITY && y[4] == 0 && y[5] == INFINITY);
    CHECK(y[6] == 1 && y[7] == 1 && y[8] == 2 && y[9] == 0x1p-126f);
    for (int i = 9; i < MANY; i++) {
        double wanted = exp2(x[i]), near = (2 + fabs(x[i])) * 0x1p-22 * wanted;
        bool is_small = wanted < 0x1p-126 && y[i] == 0, is_large = wanted >= 0x1p128 * (1 - 0x1p-15);
        if (!CHECK(is_small || is_large || fabs(y[i] - wanted) <= near))
            test_note("2^%.9g is %.9g, not %.9g", x[i], wanted, y[i]);
    }
    zl_kernel_release(k);
}

TEST(the_manual_runs) {
    tile_trial_of_manual("c");
}

TEST(kernels_on_arrays) {
    static const char text[] =
        "kernel twice(a: f32[n, m]) -> (y: f32[m, n]) { map i in n, j in m { y[j, i] = a[i, j] * 2.0 } }";
    zl_kernel k = zl_kernel_compile(text, "twice.tile", "c");
    REQUIRE(k);
    zl_array a = zl_reshape(zl_arange(0, 12, 1, F32), ZL_SHAPE(3, 4)), out = NULL;
    REQUIRE(zl_kernel_call(k, 1, &a, 1, &out));
    CHECK_EQ_INT(zl_dim(out, 0), 4);
    CHECK_EQ_F64(zl_data_f32(out)[1], 8);
    zl_release(out);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_call(k, 1, &a, 2, (zl_array[2]){NULL}));
    zl_array flat = zl_arange(0, 12, 1, F32), whole = zl_astype(a, I32);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_kernel_call(k, 1, &flat, 1, &out));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_kernel_call(k, 1, &whole, 1, &out));
    zl_kernel_release(k);
}

TEST(a_kernel_without_a_target_follows_its_arguments) {
    static const char text[] = "kernel f(a: f32[n]) -> (y: f32[n]) {\n  map i in n { y[i] = a[i] + 1 }\n}\n";
    float a[3] = {1, 2, 3}, y[3] = {0};
    zl_kernel_buffer buffer[] = {{a, ZL_FLOAT32, 1, (const int64_t[]){3}, NULL},
                                 {y, ZL_FLOAT32, 1, (const int64_t[]){3}, NULL}};
    zl_kernel k = zl_kernel_compile(text, "f", NULL), c = zl_kernel_compile(text, "f", "c"),
              read = zl_kernel_parse(text, "f");
    REQUIRE(k && c && read);
    CHECK(zl_kernel_run(k, 2, buffer) && y[2] == 4);
    CHECK(zl_kernel_prepare(k, "c") && zl_kernel_prepare(c, "c"));
    CHECK(!strcmp(zl_kernel_source_text(k), zl_kernel_source_text(c)));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_prepare(c, "opencl"));
    CHECK_HAS(test_last_error(), "kernel f was compiled for the target c alone, not for opencl");
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_prepare(read, "c"));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_prepare(k, NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_prepare(k, "abacus"));
    CHECK_HAS(test_last_error(), "there is no target 'abacus'; there are: auto, c, ");
    buffer[0].data = NULL;
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_run(k, 2, buffer));
    zl_kernel_release(k);
    zl_kernel_release(c);
    zl_kernel_release(read);
}

TEST(kernel_arguments_are_checked) {
    static const char text[] = "kernel f(a: f32[n, 4], b: f32[n]) -> (y: f32[n]) where n % 2 == 0 { map i in "
                               "n { y[i] = a[i, 0] + b[i] } }";
    zl_kernel k = zl_kernel_compile(text, "f.tile", "c"), read = zl_kernel_parse(text, "f.tile");
    float data[64] = {0};
    int64_t four[2] = {4, 4}, eight[2] = {8, 4}, three[2] = {3, 4}, wide[2] = {4, 5}, steps[2] = {8, 1};
    zl_kernel_buffer a = {data, F32, 2, four, NULL}, b = {data, F32, 1, four, NULL}, y = b,
                     other = {data, F32, 1, eight, NULL}, odd = {data, F32, 2, three, NULL},
                     five = {data, F32, 2, wide, NULL}, strided = {data, F32, 2, four, steps},
                     none = {NULL, F32, 2, four, NULL};
    REQUIRE(k && read);
    CHECK(zl_kernel_run(k, 3, (zl_kernel_buffer[]){a, b, y}));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_run(k, 2, (zl_kernel_buffer[]){a, b}));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_kernel_run(k, 3, (zl_kernel_buffer[]){a, other, y}));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_kernel_run(k, 3, (zl_kernel_buffer[]){odd, b, y}));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_kernel_run(k, 3, (zl_kernel_buffer[]){five, b, y}));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_kernel_run(k, 3, (zl_kernel_buffer[]){strided, b, y}));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_run(k, 3, (zl_kernel_buffer[]){none, b, y}));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_run(read, 3, (zl_kernel_buffer[]){a, b, y}));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_compile(text, "f.tile", "abacus"));
    zl_kernel_release(k), zl_kernel_release(read);
}

TEST(kernel_assertions_fail) {
    static const char text[] = "kernel f(a: f32[n]) -> (y: f32[n]) {\n  grid b in n {\n    assert a[b] >= 0, "
                               "\"negative\"\n    y[b] = sqrt(a[b])\n  }\n}";
    zl_kernel k = zl_kernel_compile(text, "f.tile", "c");
    zl_array a = zl_arange(-3, 3, 1, F32), out = NULL;
    REQUIRE(k);
    CHECK(!zl_kernel_call(k, 1, &a, 1, &out));
    CHECK_HAS(zl_error(), "line 3: negative");
    zl_clear_error();
    zl_kernel_release(k);
}

// With ZL_CHECK=1 an index outside of its buffer is reported, and that memory is not accessed.
static void check_outside(const char *text, const char *told) {
    float a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {0};
    int64_t four = 4;
    zl_kernel k = zl_kernel_compile(text, "f.tile", "c");
    REQUIRE(k);
    zl_kernel_buffer buffer[] = {{a, F32, 1, &four, NULL}, {y, F32, 1, &four, NULL}};
    CHECK(!zl_kernel_run(k, 2, buffer));
    CHECK_HAS(zl_error(), told);
    zl_clear_error();
    for (int i = 4; i < 8; i++)
        CHECK_EQ_F64(y[i], 0);
    zl_kernel_release(k);
}

TEST(kernels_are_checked) {
    test_setenv("ZL_CHECK", "1");
    check_outside("kernel f(a: f32[n]) -> (y: f32[n]) {\n  map i in n {\n    y[i + 1] = exp(a[i])\n  }\n}",
                  "kernel f, line 3: y has 4 elements along axis 0, and its index there is 4");
    check_outside("kernel f(a: f32[n]) -> (y: f32[n]) {\n  for i in n { y[i] = a[i - 1] }\n}",
                  "kernel f, line 2: a has 4 elements along axis 0, and its index there is -1");
    check_outside("kernel f(a: f32[n]) -> (y: f32[n]) {\n  grid b in n {\n    local t: f32[2]\n    t[b] = "
                  "a[b]\n    y[b] = t[b % 2]\n  }\n}",
                  "kernel f, line 4: t has 2 elements along axis 0, and its index there is ");
    check_outside("kernel f(a: f32[n]) -> (y: f32[n]) {\n  map i in n { atomic add y[i * 2], a[i] }\n}",
                  "line 2: y has 4");
    // Masks make such indices legal.
    zl_kernel k = zl_kernel_compile("kernel f(a: f32[n]) -> (y: f32[n]) {\n  map i in n { y[i + 1] = "
                                    "load(a[i - 1], i > 0, 0) where i + 1 < n }\n}",
                                    "f.tile", "c");
    zl_array a = zl_arange(0, 4, 1, F32), out = NULL;
    CHECK(zl_kernel_call(k, 1, &a, 1, &out));
    zl_release(out), zl_kernel_release(k);
    test_setenv("ZL_CHECK", NULL);
}

TEST(commands_are_refused_without_lanes) {
    zl_kernel k = zl_kernel_compile("kernel k(a: f32[4]) -> (y: f32[4]) {\n"
                                    "  grid b in 1 { command f(1, 2, 3, 4, 5, 6, 7, 8, 9, 10) }\n"
                                    "}",
                                    "sample", "c");
    if (!CHECK(!k && zl_error() && strstr(zl_error(), "line 2: target c has no command f")))
        test_note("%s", zl_error() ? zl_error() : "no error");
    zl_clear_error();
    zl_kernel_release(k);
}
