// test_kernels_tiles.c - how tile kernels are loaded and launched on devices that run kernels: tested on a
// device that compiles nothing, and records the launches.

#include "test.h"

#include "device/kernels/kernels.h"
#include "kernel/kernel.h"
#include "op/ops.h"
#include "render/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A device that writes down ---------------------------------------------------------------------------------

static struct text said; // functions that were loaded and launched
static atomic_int made, compiled;
static struct target_unit the_unit;
static bool refuses; // launches fail

static const char *scribe_identity(int unit) {
    (void)unit;
    return "scribe";
}

static const struct target *scribe_record(int at) {
    (void)at;
    return &the_unit.target;
}

static bool scribe_compile(int at, const struct text *source, struct text *code) {
    (void)at;
    atomic_fetch_add(&compiled, 1);
    text_bytes(code, source->data, source->len);
    return true;
}

static bool scribe_load(int unit, const char *code, size_t bytes, int count,
                        struct kernel_function *function) {
    (void)unit;
    for (int i = 0; i < count; i++) {
        if (!memmem(code, bytes, function[i].symbol, strlen(function[i].symbol)))
            return error_false(ZL_ERROR_COMPILE, "no %s", function[i].symbol);
        function[i].handle = strdup(function[i].symbol); // kernels are never unloaded
    }
    return true;
}

static bool scribe_launch(const struct kernel_place *p, const struct kernel_function *f, int64_t groups,
                          int arguments, const struct kernel_argument *argument) {
    (void)p;
    if (refuses)
        return error_false(ZL_ERROR_DEVICE, "refused");
    text_add(&said, "%s: %lld by %d, %d;", (const char *)f->handle, (long long)groups, f->threads, f->shared);
    for (int i = 0; i < arguments; i++)
        if (argument[i].bytes > 8)
            text_add(&said, " %zu bytes", argument[i].bytes);
        else if (argument[i].bytes == 4)
            text_add(&said, " %d", *(const int32_t *)argument[i].value);
        else
            text_add(&said, " %s", *(void *const *)argument[i].value ? "memory" : "nothing");
    text_add(&said, "\n");
    return true;
}

static void *scribe_alloc(int unit, size_t bytes) {
    (void)unit;
    return calloc(1, bytes);
}

static void scribe_free(int unit, void *memory) {
    (void)unit;
    free(memory);
}

static int scribe_open(const char **reason) {
    (void)reason;
    return 1;
}

static const struct device scribe = {
    .name = "scribe", .open = scribe_open, .alloc = scribe_alloc, .free = scribe_free};

static const struct kernel_target target = {.device = &scribe,
                                            .identity = scribe_identity,
                                            .record = scribe_record,
                                            .compile = scribe_compile,
                                            .load = scribe_load,
                                            .launch = scribe_launch};

static struct kernel_place begin(void) {
    target_set_unit(&the_unit, render_target("opencl_tiles"), "scribe", 256, 48 << 10);
    refuses = false;
    atomic_store(&made, 0);
    atomic_store(&compiled, 0);
    test_setenv("ZL_CACHE_DIR", test_folder());
    return (struct kernel_place){.target = &target, .record = &the_unit.target};
}

static void end(void) {
    text_free(&said);
    said = (struct text){0};
    test_setenv("ZL_CACHE_DIR", NULL);
}

// Kernels ---------------------------------------------------------------------------------------------------

// Two grids, with global memory between them, and shared memory in the second.
static const char sums[] = "kernel sums index 32 <n, m>(a: f32[n, m]) -> (y: f32[n]) {\n"
                           "  global parts: f32[n, 4]\n"
                           "  grid b in n, q in 4, threads 64 {\n"
                           "    parts[b, q] = a[b, q]\n"
                           "  }\n"
                           "  grid b in ceildiv(n, 8), threads 128 {\n"
                           "    shared row: f32[8, 4]\n"
                           "    copy parts[b * 8, 0] -> row\n"
                           "    map i in 8 { y[b * 8 + i] = row[i, 0] + row[7 - i, 3] where b * 8 + i < n }\n"
                           "  }\n"
                           "}\n";

static struct tile_kernel *make(const void *data) {
    atomic_fetch_add(&made, 1);
    return tile_parse(data, "sums.tile");
}

static bool launch(const struct kernel_place *p, const struct kernel_tiles *t, int64_t n, int64_t m) {
    static float memory[64];
    struct kernel_call k;
    kernel_begin_call(&k);
    kernel_add_memory(&k, memory);
    kernel_add_memory(&k, memory + 32);
    return kernel_launch_tiles(p, t, &k, 2, (const int64_t[]){n, m});
}

TEST(grids_of_a_tile_kernel_are_launched_in_order) {
    struct kernel_place p = begin();
    const struct kernel_tiles *t = kernel_find_tiles(&p, "scribe sums", 11, make, sums);
    if (!CHECK(t && launch(&p, t, 20, 7)))
        test_note("%s", zl_error());
    CHECK_STR(said.data, "sums_0: 80 by 64, 0; memory memory memory 20 7\n"
                         "sums_1: 3 by 128, 128; memory memory memory 20 7\n");
    // A hit in the cache makes and compiles nothing.
    CHECK(kernel_find_tiles(&p, "scribe sums", 11, make, sums) == t && made == 1 && compiled == 1);
    // A grid without blocks is not launched.
    text_free(&said);
    said = (struct text){0};
    CHECK(launch(&p, t, 0, 7) && !said.len);
    refuses = true;
    CHECK_ERROR(ZL_ERROR_DEVICE, launch(&p, t, 20, 7));
    end();
}

// The largest number of bytes by value that the verifier allows.
TEST(tables_of_a_tile_kernel_are_passed_by_value) {
    static const char text[] =
        "kernel tables index 32 (a: table f64[128], b: table f64[128], c: table f64[128], d: table u8[905])"
        " -> (y: f64[n]) {\n"
        "  map i in n { y[i] = a[i] + b[i] + c[i] + f64(d[i]) }\n}\n";
    static const double numbers[128] = {1};
    struct kernel_place p = begin();
    struct kernel_call k;
    const struct kernel_tiles *t = kernel_find_tiles(&p, "scribe tables", 13, make, text);
    REQUIRE(t);
    kernel_begin_call(&k);
    for (int i = 0; i < 4; i++)
        kernel_add(&k, numbers, i < 3 ? sizeof numbers : 905);
    kernel_add_memory(&k, (void *)(uintptr_t)numbers);
    CHECK(kernel_launch_tiles(&p, t, &k, 1, (const int64_t[]){100}));
    CHECK_STR(said.data, "tables_0: 1 by 128, 0; 1024 bytes 1024 bytes 1024 bytes 905 bytes memory 100\n");
    end();
}

TEST(a_tile_kernel_is_found_on_disk) {
    struct kernel_place p = begin();
    CHECK(kernel_find_tiles(&p, "scribe disk 1", 13, make, sums) && compiled == 1);
    CHECK(kernel_find_tiles(&p, "scribe disk 2", 13, make, sums) && compiled == 1 && made == 2);
    end();
}

TEST(sizes_that_cannot_be_are_errors_of_a_launch) {
    struct kernel_place p = begin();
    const struct kernel_tiles *t = kernel_find_tiles(&p, "scribe sizes", 12, make, sums);
    struct kernel_call k;
    REQUIRE(t);
    CHECK_ERROR(ZL_ERROR_SHAPE, launch(&p, t, INT32_MAX, 7));
    CHECK_HAS(test_last_error(), "kernel sums: the size of a buffer or grid");
    kernel_begin_call(&k);
    CHECK_ERROR(ZL_ERROR_DEVICE, kernel_launch_tiles(&p, t, &k, 1, (const int64_t[]){1}));
    CHECK_HAS(test_last_error(), "kernel sums has 2 parameters and 2 sizes, and was given 0 and 1");
    CHECK(!said.len);
    end();
}

TEST(limits_of_a_unit_hold_for_tile_kernels) {
    struct kernel_place p = begin();
    the_unit.group.most_threads = 100;
    CHECK_ERROR(ZL_ERROR_COMPILE, kernel_find_tiles(&p, "scribe few", 10, make, sums));
    CHECK_HAS(test_last_error(), "opencl: kernel sums has groups of 128 threads and 128 bytes of "
                                 "shared memory; scribe has 100 and 49152 at most");
    the_unit.group.most_threads = 256;
    the_unit.group.most_shared = 100;
    CHECK_ERROR(ZL_ERROR_COMPILE, kernel_find_tiles(&p, "scribe few", 10, make, sums));
    CHECK_HAS(test_last_error(), "128 bytes of shared memory");
    static const char asserts[] =
        "kernel f(a: i32[n]) -> (y: i32[n]) {\n"
        "  map i in n { assert a[i] > 0, \"no\" }\n  map i in n { y[i] = a[i] }\n}\n";
    CHECK_ERROR(ZL_ERROR_COMPILE, kernel_find_tiles(&p, "scribe asserts", 14, make, asserts));
    CHECK_HAS(test_last_error(), "nothing reads assertions");
    CHECK(compiled == 0);
    end();
}

// Calls that compute with doubles, also in between, are left to the CPU; moving and sorting doubles is not,
// since it only handles their bits.
TEST(what_a_unit_lacks_is_asked_of_kernels) {
    begin();
    zl_array f = zl_ones(ZL_SHAPE(8), ZL_FLOAT32), d = zl_ones(ZL_SHAPE(8), ZL_FLOAT64),
             at = zl_zeros(ZL_SHAPE(8), ZL_INT32);
    const struct {
        const char *what;
        zl_array y;
        bool takes_doubles;
    } cases[] = {
        {"add of f32", zl_add(f, f), false},
        {"add of f64", zl_add(d, d), true},
        {"cast to f64", zl_astype(f, ZL_FLOAT64), true},
        {"take of f64", zl_take(d, at, 0), false},
        {"sort of f64", zl_sort(d, -1), false},
        {"cumsum of f32", zl_cumsum(f, 0, false, true, ZL_FLOAT32), false},
        {"cumsum of f64", zl_cumsum(d, 0, false, true, ZL_FLOAT64), true},
        {"arange of f32", zl_arange(0, 8, 0.5, ZL_FLOAT32), true},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct call *c = cases[i].y ? cases[i].y->call : NULL;
        if (!CHECK(c))
            continue;
        the_unit.target.lacks = 0;
        bool can = kernels_can(&target, 0, c);
        the_unit.target.lacks = PASS_BIT(ZL_FLOAT64);
        if (!CHECK(can && kernels_can(&target, 0, c) != cases[i].takes_doubles && !zl_error()))
            test_note("%s", cases[i].what);
    }
    CHECK(compiled == 0);
    end();
}

TEST(a_kernel_that_a_unit_lacks_something_for_is_refused) {
    struct kernel_place p = begin();
    static const char doubles[] =
        "kernel f(a: f64[n]) -> (y: f64[n]) {\n  map i in n { y[i] = a[i] * 2 }\n}\n",
                      counts[] =
                          "kernel f(a: i64[n]) -> (y: i64[1]) {\n  map i in n { atomic add y[0], a[i] }\n}\n";
    the_unit.target.lacks = PASS_BIT(ZL_FLOAT64);
    CHECK_ERROR(ZL_ERROR_COMPILE, kernel_find_tiles(&p, "scribe doubles", 14, make, doubles));
    CHECK_HAS(test_last_error(), "kernel f computes with f64, which scribe does not have");
    the_unit.target.lacks_wide_atomics = true;
    CHECK_ERROR(ZL_ERROR_COMPILE, kernel_find_tiles(&p, "scribe counts", 13, make, counts));
    CHECK_HAS(test_last_error(), "kernel f has atomics of 64 bits, which scribe does not have");
    end();
}

TEST(tile_kernels_of_a_batch_are_compiled_at_once) {
    struct kernel_place p = begin(), ahead = p;
    struct kernel_batch batch = {0};
    ahead.batch = &batch;
    for (int i = 0; i < 2; i++) { // the second time, all are in the batch already
        const struct kernel_tiles *a = kernel_find_tiles(&ahead, "scribe a", 8, make, sums),
                                  *b = kernel_find_tiles(&ahead, "scribe b", 8, make, sums);
        CHECK(a && b && launch(&ahead, a, 4, 4) && launch(&ahead, b, 4, 4));
    }
    CHECK(batch.count == 2 && made == 2 && compiled == 0);
    kernel_batch_compile(&batch, &p);
    CHECK(compiled >= 1 && !said.len); // both have the same text
    const struct kernel_tiles *a = kernel_find_tiles(&p, "scribe a", 8, make, sums);
    CHECK(a && made == 2 && launch(&p, a, 1, 4) && said.len);
    end();
}
