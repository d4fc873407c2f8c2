// test_streams.c - streams of one GPU: their work overlaps, and accesses to shared memory are in order.
//
// Runs on a GPU, or under the driver of test/fake, which detects work that did not wait, but cannot overlap
// work.

static const char *lacks_gpu(void);
#define TEST_LACKS lacks_gpu

#include "test.h"

#include "schedule/schedule.h"
#include "zellige_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS = 3 };

static bool is_fake(void) {
    static const char *const names[] = {"libcuda.so.1", NULL};
    void *library = library_open(names), *found = NULL;
    const struct library_symbol symbol = {"fake_fail", &found};
    return library && library_bind(library, &symbol, 1, NULL);
}

static const char *lacks_gpu(void) {
    static char why[256];
    zl_stream s = zl_new_stream("cuda");
    snprintf(why, sizeof why, "%s", s ? "" : zl_error());
    zl_clear_error();
    return s ? NULL : why;
}

static bool make_streams(zl_stream *s, const char *device) {
    bool made = true;
    for (int i = 0; i < STREAMS; i++)
        made &= (s[i] = zl_new_stream(device)) != NULL;
    return CHECK(made);
}

// Random graphs ---------------------------------------------------------------------------------------------

enum { NODES = 6, STEPS = 40 };

// A graph on square matrices of integers: results do not depend on the order in which they are computed.
struct graph {
    uint64_t random;
    int64_t n;
    zl_stream stream[STREAMS];
    zl_array node[NODES];
};

static int64_t below(struct graph *g, int64_t most) {
    g->random += 0x9e3779b97f4a7c15;
    return (int64_t)(hash_bytes(&g->random, sizeof g->random, 1) % (uint64_t)most);
}

static zl_array leaf(struct graph *g) {
    zl_array x = zl_arange_int(0, g->n * g->n, 1, ZL_UINT32);
    return zl_reshape(zl_multiply(x, zl_astype(zl_scalar_int(below(g, 1000) + 1), ZL_UINT32)),
                      ZL_SHAPE(g->n, g->n));
}

// Multiplies numbers that are so small that float32 sums are exact.
static zl_array product(zl_array x, zl_array y) {
    zl_array seven = zl_astype(zl_scalar_int(7), ZL_UINT32);
    x = zl_astype(zl_bitwise_and(x, seven), ZL_FLOAT32);
    y = zl_astype(zl_bitwise_and(y, seven), ZL_FLOAT32);
    return zl_astype(zl_matmul(x, y), ZL_UINT32);
}

static zl_array combine(struct graph *g) {
    zl_array x = g->node[below(g, NODES)], y = g->node[below(g, NODES)];
    switch (below(g, 9)) {
    case 0: return zl_add(x, y);
    case 1: return zl_subtract(x, y);
    case 2: return zl_multiply(x, y);
    case 3: return zl_bitwise_xor(x, zl_matrix_transpose(y));
    case 4: return zl_matrix_transpose(x);
    case 5: return zl_add(zl_sum_axis(x, 0, true), y);
    case 6: return zl_add(zl_multiply(x, y), zl_sum_axis(y, 1, true));
    case 7: {
        const zl_array halves[] = {zl_slice(x, ZL_SHAPE(g->n / 2, 0), ZL_SHAPE(g->n, g->n), ZL_SHAPE(1, 1)),
                                   zl_slice(y, ZL_SHAPE(0, 0), ZL_SHAPE(g->n / 2, g->n), ZL_SHAPE(1, 1))};
        return zl_concatenate(halves, 2, 0);
    }
    default: return product(x, y);
    }
}

// Replaces a node by another, whose memory is freed while streams still use it; some nodes are evaluated at
// once.
static void step(struct graph *g) {
    int at = (int)below(g, NODES), what = (int)below(g, 8);
    zl_scope scope = zl_scope_begin_on(g->stream[below(g, STREAMS)]);
    zl_array next = zl_retain(combine(g));
    zl_scope_end(scope);
    zl_release(g->node[at]);
    g->node[at] = next;
    if (what == 0)
        CHECK(zl_eval(next));
    else if (what < 4)
        CHECK(zl_async_eval(next));
    else if (what == 4)
        CHECK(zl_async_eval_all(NODES, g->node));
}

// Computes a graph. Returns the nodes at the end, one after the other.
static uint32_t *compute(uint64_t seed, int64_t n, const zl_stream *stream) {
    struct graph g = {.random = seed, .n = n};
    uint32_t *out = malloc(sizeof *out * (size_t)(NODES * n * n));
    memcpy(g.stream, stream, sizeof g.stream);
    for (int i = 0; i < NODES; i++) {
        zl_scope scope = zl_scope_begin_on(g.stream[i % STREAMS]);
        g.node[i] = zl_retain(leaf(&g));
        zl_scope_end(scope);
    }
    for (int i = 0; i < STEPS; i++)
        step(&g);
    for (int i = 0; i < NODES; i++) {
        CHECK(zl_copy_to(g.node[i], out + i * n * n, sizeof *out * (size_t)(n * n)));
        zl_release(g.node[i]);
    }
    return out;
}

TEST(random_graphs_over_streams_give_what_the_cpu_gives) {
    zl_stream device[STREAMS], host[STREAMS];
    bool fake = is_fake();
    int graphs = test_long() ? 1000 : test_quick() ? 3 : fake ? 20 : 60;
    REQUIRE(make_streams(device, "cuda") && make_streams(host, "cpu"));
    test_setenv("ZL_CACHE_DIR", test_folder());
    for (int i = 0; i < graphs; i++) {
        uint64_t seed = test_random();
        int64_t n = fake ? 4 + 2 * (int64_t)(seed % 8) : 1 << (3 + seed % 7);
        zl_set_compile_mode(fake || i % 16 ? ZL_COMPILE_NO_FUSE
                                           : ZL_COMPILE_ENABLED); // the same kernels for all graphs, or fused
                                                                  // ones for each graph
        uint32_t *got = compute(seed, n, device), *want = compute(seed, n, host);
        if (!CHECK(!memcmp(got, want, sizeof *got * (size_t)(NODES * n * n))))
            test_note("the graph of seed %llu, matrices of %lld", (unsigned long long)seed, (long long)n);
        free(got);
        free(want);
    }
    zl_set_compile_mode(ZL_COMPILE_ENABLED);
    test_setenv("ZL_CACHE_DIR", NULL);
    zl_clear_cache();
}

// Libraries -------------------------------------------------------------------------------------------------

enum { LIBRARIES = 5, TURNS = 10 };

// Computes on 256 x 256 numbers by a library: cuBLASLt with a fused addition, cuFFT, cuSOLVER, or cuDNN in
// two ways.
static zl_array by_library(int which, zl_array x) {
    switch (which % LIBRARIES) {
    case 0: return zl_add(zl_matmul(x, x), zl_sum_axis(x, 0, false));
    case 1: return zl_real(zl_fft_fft(x, 256, 1, "backward"));
    case 2: return zl_linalg_inv(zl_add(x, zl_multiply(zl_scalar(64), zl_eye(256, 256, 0, ZL_FLOAT32))));
    case 3: {
        zl_array w = zl_slice(zl_flatten(x, 0, -1), ZL_SHAPE(0), ZL_SHAPE(2304), ZL_SHAPE(1));
        return zl_conv2d(zl_reshape(x, ZL_SHAPE(1, 64, 64, 16)), zl_reshape(w, ZL_SHAPE(16, 3, 3, 16)),
                         ZL_SHAPE(1), ZL_SHAPE(1), ZL_SHAPE(1), 1);
    }
    default: {
        zl_array q = zl_reshape(zl_astype(x, ZL_FLOAT16), ZL_SHAPE(1, 8, 128, 64));
        return zl_astype(zl_fast_scaled_dot_product_attention(q, q, q, 0.125, NULL, NULL, "causal"),
                         ZL_FLOAT32);
    }
    }
}

// The same library on all streams at once, or a different one on each: handles and workspaces are not shared.
TEST(libraries_on_streams_give_what_the_cpu_gives) {
    zl_stream s[STREAMS];
    zl_array want[LIBRARIES], y[STREAMS * LIBRARIES];
    if (is_fake())
        SKIP("the driver of test/fake has no libraries");
    REQUIRE(make_streams(s, "cuda"));
    zl_array x = zl_retain(zl_reshape(zl_sin(zl_arange(0, 256 * 256, 1, ZL_FLOAT32)), ZL_SHAPE(256, 256)));
    for (int i = 0; i < LIBRARIES; i++)
        REQUIRE((want[i] = zl_retain(by_library(i, x))) && zl_eval(want[i]));
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < STREAMS * LIBRARIES; i++) {
            zl_scope scope = zl_scope_begin_on(s[i % STREAMS]);
            y[i] = zl_retain(by_library(i / STREAMS + turn % 2 * (i % STREAMS), x));
            CHECK(zl_async_eval(y[i]));
            zl_scope_end(scope);
        }
        for (int i = 0; i < STREAMS * LIBRARIES; i++) {
            int which = (i / STREAMS + turn % 2 * (i % STREAMS)) % LIBRARIES;
            if (!CHECK_EQ_INT(zl_item_int(zl_allclose(y[i], want[which], 3e-3, 3e-3, false)), 1))
                test_note("library %d, stream %d, turn %d", which, i % STREAMS, turn);
            zl_release(y[i]);
        }
    }
    for (int i = 0; i < LIBRARIES; i++)
        zl_release(want[i]);
    zl_release(x);
}

// Overlap ---------------------------------------------------------------------------------------------------

// Returns work of one block, which takes some milliseconds; a GPU can run many of them at the same time.
static zl_array long_work(zl_array x) {
    static const char source[] = "float v = x[threadIdx.x];\n"
                                 "for (int i = 0; i < N; i++)\n"
                                 "    v = v * 0.5f + 1.0f;\n"
                                 "y[threadIdx.x] = v;\n";
    static const char *const in[] = {"x"}, *const out[] = {"y"};
    zl_array y = NULL;
    zl_cpu_kernel_source k = {.name = "slow",
                              .source = source,
                              .inputs = 1,
                              .outputs = 1,
                              .input = in,
                              .output = out,
                              .shape = &ZL_SHAPE(32),
                              .dtype = (zl_dtype[]){ZL_FLOAT32},
                              .grid = {32, 1, 1},
                              .group = {32, 1, 1},
                              .arguments = 1,
                              .argument = &(zl_kernel_argument){"N", false, 1 << 21}};
    return zl_cuda_kernel(&k, 0, 1, &x, &y) ? y : NULL;
}

// Returns the milliseconds until the work of `count` streams is done.
static double time_streams(const zl_stream *s, int count, zl_array x) {
    zl_array y[STREAMS];
    int64_t begin = clock_ns();
    for (int i = 0; i < count; i++) {
        zl_scope scope = zl_scope_begin_on(s[i]);
        y[i] = zl_retain(long_work(x));
        CHECK(y[i] && zl_async_eval(y[i]));
        zl_scope_end(scope);
    }
    for (int i = 0; i < count; i++)
        CHECK(zl_eval(y[i]));
    double ms = (double)(clock_ns() - begin) * 1e-6;
    for (int i = 0; i < count; i++) {
        const float *data = zl_data_f32(y[i]);
        CHECK(data && data[0] == 2 && data[31] == 2);
        zl_release(y[i]);
    }
    return ms;
}

static double best_time(const zl_stream *s, int count, zl_array x) {
    double best = time_streams(s, count, x);
    for (int i = 0; i < 4; i++) {
        double ms = time_streams(s, count, x);
        best = ms < best ? ms : best;
    }
    return best;
}

TEST(work_of_streams_overlaps) {
    zl_stream s[STREAMS];
    if (is_fake())
        SKIP("the driver of test/fake has no time");
    REQUIRE(make_streams(s, "cuda"));
    zl_array x = zl_retain(zl_zeros(ZL_SHAPE(32), ZL_FLOAT32));
    REQUIRE(zl_eval(x));
    double one = best_time(s, 1, x), two = best_time(s, 2, x), three = best_time(s, 3, x);
    if (!CHECK(two < 1.6 * one && three < 1.6 * one))
        test_note("one stream took %.2f ms, two %.2f, three %.2f", one, two, three);
    zl_release(x);
}

// Work on one stream does not wait for long work on another.
TEST(short_work_of_a_stream_is_done_before_long_work_of_another) {
    zl_stream s[STREAMS];
    double best = 1;
    if (is_fake())
        SKIP("the driver of test/fake has no time");
    REQUIRE(make_streams(s, "cuda"));
    zl_array x = zl_retain(zl_zeros(ZL_SHAPE(32), ZL_FLOAT32));
    REQUIRE(zl_eval(x));
    double whole = best_time(s, 1, x);
    for (int i = 0; i < 5; i++) {
        zl_scope scope = zl_scope_begin_on(s[0]);
        zl_array slow = zl_retain(long_work(x));
        CHECK(zl_async_eval(slow));
        zl_scope_end(scope);
        scope = zl_scope_begin_on(s[1]);
        int64_t begin = clock_ns();
        zl_array quick = zl_retain(zl_add(x, zl_scalar(1)));
        CHECK(zl_eval(quick));
        double ms = (double)(clock_ns() - begin) * 1e-6;
        best = ms / whole < best ? ms / whole : best;
        zl_scope_end(scope);
        CHECK(zl_data_f32(quick)[3] == 1 && zl_data_f32(slow)[3] == 2);
        zl_release(quick);
        zl_release(slow);
    }
    if (!CHECK(best < 0.5))
        test_note("it took %.3f of the time of the long work, %.2f ms", best, whole);
    zl_release(x);
}
