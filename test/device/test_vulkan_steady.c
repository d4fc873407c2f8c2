// test_vulkan_steady.c - the cost of programs of arrays on Vulkan when they are repeated: submissions,
// compilations, memory. And random programs on several streams, compared with the CPU.

#define TEST_LACKS test_lacks_vulkan

#include "on_devices.h"

#include "device/vulkan/vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static zl_scope begin(void) {
    return zl_scope_begin_on(zl_new_stream("vulkan"));
}

static zl_compile_mode unfused(void) {
    zl_compile_mode before = zl_get_compile_mode();
    zl_set_compile_mode(ZL_COMPILE_NO_FUSE);
    return before;
}

TEST(small_ops_share_submissions) {
    zl_scope scope = begin();
    zl_compile_mode before = unfused();
    zl_array first = zl_retain(zl_ones(ZL_SHAPE(100), ZL_FLOAT32)), x = first;
    REQUIRE(zl_eval(zl_negative(x)));
    struct vulkan_counts start = vulkan_counts(0);
    for (int i = 0; i < 100; i++)
        x = zl_negative(x);
    CHECK(zl_eval(x));
    CHECK_EQ_INT(vulkan_counts(0).launches - start.launches, 100);
    CHECK(vulkan_counts(0).submissions - start.submissions <= 3);
    zl_set_compile_mode(before);
    zl_release(first);
    zl_scope_end(scope);
}

// Compiling -------------------------------------------------------------------------------------------------

// another_process_compiles_nothing reads this test's output.
TEST(compiles_some_kernels) {
    zl_scope scope = begin();
    zl_array x = zl_sin(zl_arange(0, 3000, 1, ZL_FLOAT32)), m = zl_reshape(x, ZL_SHAPE(30, 100));
    CHECK(zl_eval_all(4, (zl_array[]){zl_matmul(m, zl_transpose(m, ZL_ALL)), zl_softmax(m, 1, false),
                                      zl_cumsum(x, 0, false, true, ZL_FLOAT32), zl_sort(x, 0)}));
    printf("%lld were compiled\n", (long long)counter_value(COUNTER_COMPILES));
    zl_scope_end(scope);
}

TEST(another_process_compiles_nothing) {
    char command[1000];
    if (test_quick())
        SKIP("takes longer than a quick run");
    snprintf(command, sizeof command,
             "ZL_CACHE_DIR=%s %s/test --no-fork device/test_vulkan_steady:compiles_some_kernels",
             test_folder(), ZL_BUILD_DIR);
    for (int i = 0; i < 2; i++) {
        int status;
        char *output = test_shell(command, &status);
        bool nothing = output && strstr(output, "\n0 were compiled");
        CHECK(status == 0 && output && strstr(output, " were compiled") && nothing == (i == 1));
        memory_free(output);
    }
}

// Memory ----------------------------------------------------------------------------------------------------

// Frees buffers of the sizes that steps use, full of NaN, so that reading one before it is written gives NaN.
static bool spoil(void) {
    zl_array x[4];
    for (int i = 0; i < 4; i++)
        x[i] = zl_full(i < 3 ? ZL_SHAPE(1000) : ZL_SCALAR, zl_scalar(NAN), ZL_FLOAT32);
    return zl_eval_all(4, x);
}

static bool step(zl_array *x) {
    bool done = false;
    ZL_SCOPE
        done = spoil();
    ZL_SCOPE {
        zl_array y = zl_add(zl_multiply(*x, zl_scalar(0.5)), zl_sum(zl_sin(*x)));
        done = done && zl_assign(x, zl_divide(y, zl_max(y)));
    }
    return done;
}

static int64_t resident_pages(void) {
    long long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    bool known = file && fscanf(file, "%lld %lld", &size, &pages) == 2;
    if (file)
        fclose(file);
    return known ? pages : 0;
}

TEST(steps_allocate_nothing) {
    int64_t steps = test_quick()  ? 200
                    : test_long() ? 100000
                                  : 10000,
            warm = steps / 2, blocks = 0, pages = 0;
    size_t cached = 0, active = 0;
    zl_scope scope = begin();
    zl_array x = zl_retain(zl_ones(ZL_SHAPE(1000), ZL_FLOAT32));
    for (int64_t i = 0; i < steps; i++) {
        if (i == 10) {
            blocks = vulkan_blocks_made(0);
            cached = zl_get_cache_memory();
            active = zl_get_active_memory();
        }
        if (i == warm)
            pages = resident_pages();
        REQUIRE(step(&x));
    }
    CHECK_EQ_INT(vulkan_blocks_made(0), blocks);
    CHECK_EQ_INT((int64_t)zl_get_cache_memory(), (int64_t)cached);
    CHECK_EQ_INT((int64_t)zl_get_active_memory(), (int64_t)active);
    CHECK_EQ_F64(zl_item(zl_max(x)), 1);
#ifdef ZL_SANITIZED
    pages = resident_pages(); // sanitizers keep freed memory
#endif
    if (!CHECK(resident_pages() - pages < (8 << 20) / sysconf(_SC_PAGESIZE)))
        test_note("%lld pages more in the second half", (long long)(resident_pages() - pages));
    zl_release(x);
    zl_scope_end(scope);
}

// Random programs -------------------------------------------------------------------------------------------

enum { LEAVES = 3, NODES = 20, STREAMS = 4 };

// The numbers are integers below 256, so that all results are exact.
struct program {
    uint64_t random;
    zl_stream stream[STREAMS];
    bool is_async; // some results are evaluated meanwhile, and some are released
    zl_array node[NODES];
};

static uint64_t draw(struct program *p, uint64_t count) {
    p->random += 0x9e3779b97f4a7c15;
    return hash_bytes(&p->random, sizeof p->random, 1) % count;
}

static zl_array leaf(struct program *p) {
    static const int64_t sizes[] = {1, 7, 256, 1000};
    int64_t n = sizes[draw(p, COUNT(sizes))];
    zl_array x = zl_arange((double)draw(p, 100), (double)n * 1000, 1, ZL_FLOAT32);
    return zl_remainder(zl_slice(x, ZL_SHAPE(0), ZL_SHAPE(n), ZL_SHAPE(1)), zl_scalar(199));
}

// Repeats or cuts y to the length n.
static zl_array fit(zl_array y, int64_t n) {
    zl_array index = zl_remainder(zl_arange_int(0, n, 1, ZL_INT32), zl_scalar_int((int)zl_size(y)));
    return zl_size(y) == n || zl_size(y) == 1 ? y : zl_take(y, index, 0);
}

static zl_array node(struct program *p, zl_array x, zl_array y) {
    int64_t n = zl_size(x), half = n / 2;
    zl_array z = fit(y, n);
    switch (draw(p, 11)) {
    case 0: return zl_subtract(x, z);
    case 1: return zl_maximum(zl_negative(x), z);
    case 2: return zl_multiply(x, zl_sum(zl_less(y, zl_scalar(9))));
    case 3: return zl_flip(x, ZL_ALL);
    case 4: return zl_sort(x, 0);
    case 5: return zl_cumsum(x, 0, draw(p, 2), true, ZL_FLOAT32);
    case 6: return zl_astype(zl_astype(x, draw(p, 2) ? ZL_INT16 : ZL_INT64), ZL_FLOAT32);
    case 7: return zl_slice_update(x, zl_scalar(5), ZL_SHAPE(half), ZL_SHAPE(n), ZL_SHAPE(1));
    case 8: return zl_scatter_add_axis(x, zl_astype(zl_remainder(z, zl_scalar((double)n)), ZL_INT32), z, 0);
    case 9: return zl_where(zl_greater(x, z), x, zl_max(y));
    default:
        return zl_concatenate((zl_array[]){zl_slice(x, ZL_SHAPE(half), ZL_SHAPE(n), ZL_SHAPE(1)),
                                           zl_slice(x, ZL_SHAPE(0), ZL_SHAPE(half), ZL_SHAPE(1))},
                              2, 0);
    }
}

// Computes nodes, each on a random stream from random earlier nodes.
static bool run(struct program *p) {
    bool done = true;
    for (int i = 0; i < NODES; i++) {
        zl_scope scope = zl_scope_begin_on(p->stream[draw(p, STREAMS)]);
        zl_array x = i < LEAVES ? NULL : p->node[draw(p, (uint64_t)i)],
                 y = x ? p->node[draw(p, (uint64_t)i)] : NULL;
        zl_array made =
            x ? zl_remainder(zl_broadcast_to(node(p, x, y), zl_shape_of(x)), zl_scalar(251)) : leaf(p);
        p->node[i] = zl_retain(made);
        bool asks = draw(p, 4) == 0;
        done = done && made && (!asks || !p->is_async || zl_async_eval(made));
        zl_scope_end(scope);
    }
    return done && zl_eval_all(NODES, p->node);
}

static void check_program(uint64_t seed, const zl_stream *device, zl_stream cpu) {
    struct program all[2] = {{.random = seed, .is_async = true}, {.random = seed}};
    bool same = true;
    for (int i = 0; i < STREAMS; i++) {
        all[0].stream[i] = i < STREAMS - 1 ? device[i] : cpu;
        all[1].stream[i] = cpu;
    }
    same = CHECK(run(&all[0])) && CHECK(run(&all[1]));
    for (int i = 0; same && i < NODES; i++) {
        zl_array a = all[0].node[i], b = all[1].node[i];
        same = CHECK(zl_nbytes(a) == zl_nbytes(b) && !memcmp(zl_data(a), zl_data(b), zl_nbytes(a)));
        if (!same)
            test_note("node %d of program %llu", i, (unsigned long long)seed);
    }
    for (int i = 0; i < 2 * NODES; i++)
        zl_release(all[i / NODES].node[i % NODES]);
}

TEST(random_programs_on_streams) {
    int64_t count = test_quick() ? 20 : test_long() ? 10000 : 150;
    zl_stream device[STREAMS - 1], cpu = zl_new_stream("cpu");
    zl_compile_mode before = unfused(); // otherwise a kernel would be compiled for each program
    for (int i = 0; i < STREAMS - 1; i++)
        device[i] = zl_new_stream("vulkan");
    for (int64_t i = 0; i < count; i++)
        ZL_SCOPE
            check_program(test_random(), device, cpu);
    zl_set_compile_mode(before);
}
