// test_cuda_fake.c - the host side of the CUDA device: memory, copies, order, errors. It runs under the
// driver of test/fake, which has two devices, works as late as it is allowed to, and fails on request.

static const char *lacks_fake(void);
#define TEST_LACKS lacks_fake

#include "test.h"

#include "device/cuda/cuda_queue.h"
#include "op/ops.h"
#include "schedule/schedule.h"
#include "zellige_ops.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOST = 719, OUT_OF_MEMORY = 2, PIECE = 2 << 20 };

static struct {
    void (*fail)(const char *function, int after, int code);
    void (*heal)(void);
    int64_t (*calls)(const char *function);
    void (*memory)(size_t bytes);
    size_t (*used)(int device);
    const char *(*disorder)(void);
    int64_t (*overtaken)(void);
} fake;

static const char *lacks_fake(void) {
    static const char *const names[] = {"libcuda.so.1", NULL};
    void *library = library_open(names);
    const struct library_symbol symbols[] = {{"fake_fail", (void **)(void *)&fake.fail},
                                             {"fake_heal", (void **)(void *)&fake.heal},
                                             {"fake_calls", (void **)(void *)&fake.calls},
                                             {"fake_memory", (void **)(void *)&fake.memory},
                                             {"fake_used", (void **)(void *)&fake.used},
                                             {"fake_disorder", (void **)(void *)&fake.disorder},
                                             {"fake_overtaken", (void **)(void *)&fake.overtaken}};
    return library && library_bind(library, symbols, COUNT(symbols), NULL)
               ? NULL
               : "its driver is that of test/fake: device/test_cuda:host_side runs it so";
}

static zl_stream on(const char *device) {
    test_setenv("ZL_CACHE_DIR", test_folder());
    return zl_new_stream(device);
}

static void check_order(void) {
    const char *disorder = fake.disorder();
    if (!CHECK(!disorder))
        test_note("%s", disorder);
}

static void end(zl_scope scope) {
    zl_scope_end(scope);
    check_order();
    test_setenv("ZL_CACHE_DIR", NULL);
    zl_clear_cache();
}

// Copies ----------------------------------------------------------------------------------------------------

// Copies `bytes` bytes to the device and back, while a copy that comes later is already enqueued.
static void go_round(size_t bytes) {
    unsigned char *from = malloc(bytes + 1), *to = calloc(1, bytes + 1), *kept = malloc(bytes + 1);
    char *memory = cuda_alloc(0, 2 * bytes);
    for (size_t i = 0; i < bytes; i++)
        kept[i] = from[i] = (unsigned char)test_random();
    CHECK(cuda_write(0, 0, memory, from, bytes));
    memset(from, 1, bytes);
    CHECK(cuda_write(0, 0, memory + bytes, from, bytes) && cuda_read(0, 0, to, memory, bytes));
    CHECK(!memcmp(to, kept, bytes) && !to[bytes]);
    CHECK(cuda_read(0, 0, to, memory + bytes, bytes) && !memcmp(to, from, bytes));
    cuda_free(0, memory);
    free(from);
    free(to);
    free(kept);
}

TEST(copies_arrive_whole) {
    static const size_t sizes[] = {1,     100,       64 << 10,       (64 << 10) + 1, PIECE - 1,
                                   PIECE, PIECE + 1, 17 * PIECE + 3, 40 * PIECE};
    go_round(PIECE); // the pinned memory for copies exists now; other lanes have their own
    long before = (long)fake.calls("cuMemHostAlloc");
    for (size_t i = 0; i < COUNT(sizes); i++)
        go_round(sizes[i]);
    CHECK(before >= 1 && (long)fake.calls("cuMemHostAlloc") == before);
}

TEST(a_copy_that_fails_is_an_error) {
    char data[1000] = {0}, *big = calloc(1, 4 * PIECE);
    char *memory = cuda_alloc(0, 4 * PIECE);
    fake.fail("cuMemcpyDtoHAsync_v2", 1, 1);
    CHECK_ERROR(ZL_ERROR_DEVICE, cuda_read(0, 0, data, memory, sizeof data));
    fake.fail("cuMemcpyHtoDAsync_v2", 3, 1);
    CHECK_ERROR(ZL_ERROR_DEVICE, cuda_write(0, 0, memory, big, 4 * PIECE));
    fake.fail("cuEventSynchronize", 2, 1);
    CHECK_ERROR(ZL_ERROR_DEVICE, cuda_read(0, 0, big, memory, 4 * PIECE));
    CHECK(cuda_write(0, 0, memory, big, 4 * PIECE) && cuda_read(0, 0, big, memory, 4 * PIECE));
    cuda_free(0, memory);
    free(big);
}

// The driver does no work until something waits for it, so every wait is a long one.
TEST(a_long_wait_sleeps) {
    enum { QUERIES_MOST = 10000, POLLED_NS = 30000 };
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    zl_array x = zl_add(zl_arange(0, 1000, 1, ZL_FLOAT32), zl_scalar(1));
    REQUIRE(zl_async_eval(x));
    int64_t waits = fake.calls("cuEventSynchronize"), queries = fake.calls("cuEventQuery"),
            begin = clock_ns();
    const float *data = zl_data_f32(x);
    CHECK(data && data[999] == 1000 && clock_ns() - begin >= POLLED_NS);
    CHECK(fake.calls("cuEventSynchronize") > waits && fake.calls("cuEventQuery") > queries);
    CHECK(fake.calls("cuEventQuery") < queries + QUERIES_MOST);
    CHECK_EQ_INT(fake.calls("spinning"), 0);
    end(scope);
}

TEST(reading_out_keeps_no_copy) {
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    enum { N = 300000 };
    float *out = malloc(sizeof(float) * N);
    zl_array x = zl_retain(zl_add(zl_arange(0, N, 1, ZL_FLOAT32), zl_scalar(1)));
    REQUIRE(zl_eval(x));
    size_t before = zl_get_active_memory();
    int64_t orders = fake.calls("cuStreamWaitEvent");
    REQUIRE(zl_copy_to(x, out, sizeof(float) * N));
    CHECK(out[0] == 1 && out[N - 1] == N && zl_get_active_memory() == before);
    CHECK_EQ_INT(fake.calls("cuStreamWaitEvent"), orders); // it is known that the work is done
    zl_release(x);
    free(out);
    end(scope);
}

// Memory ----------------------------------------------------------------------------------------------------

TEST(memory_of_a_device_is_counted_and_kept) {
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    zl_clear_cache();
    size_t active = zl_get_active_memory(), used = fake.used(0);
    ZL_SCOPE {
        CHECK(zl_eval(zl_arange(0, 1 << 20, 1, ZL_FLOAT32)));
        CHECK(zl_get_active_memory() - active == 4 << 20 && fake.used(0) - used == 4 << 20);
    }
    CHECK(zl_get_active_memory() == active && zl_get_cache_memory() >= 4 << 20);
    int64_t allocations = fake.calls("cuMemAlloc_v2");
    ZL_SCOPE
        CHECK(zl_eval(zl_arange(0, 1 << 20, 1, ZL_FLOAT32)));
    CHECK(fake.calls("cuMemAlloc_v2") == allocations);
    zl_clear_cache();
    CHECK(fake.used(0) == used);
    size_t limit = zl_set_cache_limit(0);
    ZL_SCOPE
        CHECK(zl_eval(zl_arange(0, 1 << 20, 1, ZL_FLOAT32)));
    CHECK(fake.used(0) == used);
    zl_set_cache_limit(limit);
    end(scope);
}

// Free blocks that are kept depend on which tests ran in parallel, so they must not be counted as objects.
TEST(memory_that_is_kept_is_no_object) {
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    zl_array x[8];
    size_t live = 0;
    zl_clear_cache();
    for (int count = 1; count <= 8; count += 7) {
        ZL_SCOPE
            for (int i = 0; i < count; i++)
                CHECK((x[i] = zl_retain(zl_arange(0, 1000, 1, ZL_FLOAT32))) && zl_eval(x[i]));
        for (int i = 0; i < count; i++)
            zl_release(x[i]);
        live = slab_live() - live; // of the second turn: how many more than after the first
    }
    CHECK_EQ_INT(live, 0);
    end(scope);
}

TEST(memory_that_is_out_fails_the_array) {
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    zl_array big = zl_retain(zl_arange(0, 1 << 20, 1, ZL_FLOAT32)), more = zl_retain(zl_exp(big));
    zl_clear_cache();
    fake.memory(fake.used(0) + (1 << 20));
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_eval(more));
    CHECK_HAS(test_last_error(), "out of memory");
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_eval(big));
    CHECK(zl_item(zl_sum(zl_arange(0, 1000, 1, ZL_FLOAT32))) == 499500);
    fake.memory((size_t)1 << 30);
    zl_release(big);
    zl_release(more);
    size_t limit = zl_set_memory_limit(zl_get_active_memory() + (1 << 20));
    ZL_SCOPE
        CHECK_ERROR(ZL_ERROR_MEMORY, zl_eval(zl_arange(0, 1 << 20, 1, ZL_FLOAT32)));
    zl_set_memory_limit(limit);
    end(scope);
}

// Freed memory that is kept is released before an error of memory is reported.
TEST(what_was_kept_is_given_back_when_memory_is_out) {
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    ZL_SCOPE
        CHECK(zl_eval(zl_arange(0, 1 << 20, 1, ZL_FLOAT32)));
    fake.memory(fake.used(0) + (1 << 20));
    ZL_SCOPE
        CHECK(zl_eval(zl_arange(0, 5 << 18, 1, ZL_FLOAT32)));
    fake.memory((size_t)1 << 30);
    end(scope);
}

// Errors ----------------------------------------------------------------------------------------------------

TEST(a_launch_that_fails_fails_the_array) {
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    zl_array x = zl_retain(zl_arange(0, 100, 1, ZL_FLOAT32));
    REQUIRE(zl_eval(x));
    zl_array y = zl_retain(zl_exp(x)), z = zl_add(y, zl_scalar(1));
    fake.fail("cuLaunchKernel", 1, 1);
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(z));
    CHECK_HAS(test_last_error(), "cuLaunchKernel");
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(y));
    CHECK(zl_item(zl_sum(x)) == 4950);
    zl_release(x);
    zl_release(y);
    end(scope);
}

TEST(a_kernel_that_does_not_compile_fails_the_array) {
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    zl_array x = zl_retain(zl_arange(0, 100, 1, ZL_FLOAT32));
    CHECK(zl_item(zl_sum(x)) == 4950);
    test_setenv("FAKE_NVRTC_FAILS", "elements_0");
    CHECK(zl_item(zl_sum(x)) == 4950);
    CHECK_ERROR(ZL_ERROR_COMPILE, zl_eval(zl_sin(x)));
    CHECK_HAS(test_last_error(), "told to fail");
    test_setenv("FAKE_NVRTC_FAILS", NULL);
    CHECK(zl_eval(zl_sin(x)));
    zl_release(x);
    end(scope);
}

// Inputs in their own layouts and a number passed by value, an output that is filled first, and a last block
// that is not full.
TEST(a_kernel_of_a_program_runs) {
    static const char source[] =
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "if (i % 2 == 0 && i < x_shape[0] * x_shape[1])\n"
        "    y[i] = x[elem_to_loc(i, x_shape.data(), x_strides.data(), x_ndim)] + number[0] * N;\n";
    static const char *const in[] = {"x", "number"}, *const out[] = {"y"};
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    zl_array x = zl_reshape(zl_arange(0, 12, 1, ZL_FLOAT32), ZL_SHAPE(3, 4)), y = NULL;
    zl_array inputs[] = {zl_transpose(x, ZL_ALL), zl_astype(zl_scalar(2), ZL_FLOAT32)};
    zl_cpu_kernel_source k = {.name = "each",
                              .source = source,
                              .inputs = 2,
                              .outputs = 1,
                              .input = in,
                              .output = out,
                              .shape = &ZL_SHAPE(4, 3),
                              .dtype = (zl_dtype[]){ZL_FLOAT32},
                              .grid = {12, 1, 1},
                              .group = {8, 1, 1},
                              .arguments = 1,
                              .argument = &(zl_kernel_argument){"N", false, 100},
                              .init = (double[]){-1},
                              .strided = true};
    REQUIRE(zl_cuda_kernel(&k, 0, 2, inputs, &y));
    const float *data = zl_data_f32(y);
    for (int i = 0; data && i < 12; i++)
        CHECK_EQ_F64(data[i], i % 2 ? -1 : i % 3 * 4 + i / 3 + 200);
    CHECK(data);
    k.source = "y[0] = nothing;";
    zl_array again[] = {zl_zeros(ZL_SHAPE(4, 3), ZL_FLOAT32), zl_astype(zl_scalar(2), ZL_FLOAT32)};
    test_setenv("FAKE_NVRTC_FAILS", "nothing");
    REQUIRE(zl_cuda_kernel(&k, 0, 2, again, &y));
    CHECK_ERROR(ZL_ERROR_COMPILE, zl_eval(y));
    CHECK_HAS(test_last_error(), "told to fail");
    test_setenv("FAKE_NVRTC_FAILS", NULL);
    end(scope);
}

static bool turned_once(void *data, int count, const zl_array *in, zl_outputs *out) {
    static const char *const names[] = {"x", "y"};
    zl_cpu_kernel_source k = {
        .name = "once",
        .source = "y[threadIdx.x] = x[threadIdx.x] + (threadIdx.x > 0 ? x[threadIdx.x - 1] : 0);",
        .inputs = 1,
        .outputs = 1,
        .input = names,
        .output = names + 1,
        .shape = &ZL_SHAPE(2, 3),
        .dtype = (zl_dtype[]){ZL_FLOAT32},
        .grid = {6, 1, 1},
        .group = {6, 1, 1}};
    zl_array y;
    (void)data, (void)count;
    return zl_cuda_kernel(&k, 0, 1, in, &y) && zl_give(out, y);
}

// Also with an input whose layout is not that of the trace.
TEST(a_kernel_from_a_file_runs) {
    char path[4096];
    snprintf(path, sizeof path, "%s/f", test_folder());
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    zl_array x = zl_reshape(zl_arange(0, 6, 1, ZL_FLOAT32), ZL_SHAPE(2, 3));
    zl_array turned = zl_transpose(zl_from_f32((float[]){0, 3, 1, 4, 2, 5}, ZL_SHAPE(3, 2)), ZL_ALL);
    REQUIRE(zl_export(path, (zl_fn){.call = turned_once}, 1, &x, NULL));
    zl_imported *f = zl_import(path);
    REQUIRE(f);
    for (int i = 0; i < 2; i++) {
        zl_outputs *out = zl_outputs_new();
        CHECK(zl_imported_call(f, 1, i ? &turned : &x, 0, NULL, out));
        const float *data = zl_data_f32(zl_outputs_get(out, 0));
        for (int k = 0; data && k < 6; k++)
            CHECK_EQ_F64(data[k], k ? 2 * k - 1 : 0);
        CHECK(data);
        zl_outputs_free(out);
    }
    zl_imported_free(f);
    end(scope);
}

// A launch reads as many arguments as the kernel has, so their number must be right.
TEST(a_kernel_with_other_parameters_is_refused) {
    static const char *const texts[] = {
        "extern \"C\" __global__ void zl_kernel(float *y, float *z) { y[0] = 1; }\n",
        "extern \"C\" __global__ void zl_kernel() {}\n",
        "extern \"C\" __global__ void zl_kernel(int y) {}\n"};
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    for (size_t i = 0; i < COUNT(texts); i++) {
        zl_array in[] = {zl_from(texts[i], ZL_SHAPE((int64_t)strlen(texts[i])), ZL_UINT8),
                         zl_zeros(ZL_SHAPE(3), ZL_FLOAT32)};
        const int64_t arg[KERNEL_ARGS] = {1, 3, 1, 1, 1, 1, 1};
        zl_array y;
        REQUIRE(op_record_kernel(&op_cuda_kernel, 2, in, KERNEL_ARGS, arg, &y));
        CHECK_ERROR(ZL_ERROR_VALUE, zl_eval(y));
        CHECK_HAS(test_last_error(), "has other parameters than its 1 arguments");
    }
    end(scope);
}

TEST(a_fallback_that_is_not_wanted_names_the_op) {
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    test_setenv("ZL_NO_FALLBACK", "1");
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(zl_linalg_eigvals(zl_eye(3, 3, 0, ZL_FLOAT32))));
    CHECK_HAS(test_last_error(), "ZL_NO_FALLBACK");
    test_setenv("ZL_NO_FALLBACK", NULL);
    end(scope);
}

TEST(a_device_that_is_lost_says_so_and_the_host_goes_on) {
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    zl_array x = zl_retain(zl_arange(0, 100, 1, ZL_FLOAT32));
    REQUIRE(zl_eval(x));
    fake.fail("cuEventSynchronize", 1, LOST);
    zl_array y = zl_retain(zl_exp(x));
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(y));
    CHECK_HAS(test_last_error(), "launch failure");
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(zl_sqrt(x)));
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_data(y));
    zl_scope host = zl_scope_begin_on(zl_new_stream("cpu"));
    CHECK(zl_item(zl_sum(zl_arange(0, 100, 1, ZL_FLOAT32))) == 4950);
    zl_scope_end(host);
    fake.heal();
    zl_release(x);
    zl_release(y);
    end(scope);
}

// Work of libraries -----------------------------------------------------------------------------------------

struct sum_work {
    char *memory;
    float value;
    int32_t zero;
};

static int write_value(const void *data, cuda_stream s) {
    const struct sum_work *w = data;
    static float *pinned;
    if (!pinned && cuda_api()->cuMemHostAlloc((void **)&pinned, 64 * sizeof *pinned, 0))
        return 1;
    float *place = &pinned[(int)w->value % 64];
    *place = w->value;
    return cuda_api()->cuMemcpyHtoDAsync_v2((uintptr_t)w->memory, place, sizeof *place, s);
}

static bool ask_to_write(struct sum_work w) {
    struct cuda_range range = {(uintptr_t)w.memory, (uintptr_t)w.memory + sizeof w.value, true};
    struct cuda_library_work work = {write_value, "write_value", &w, sizeof w, 1, &range};
    return cuda_queue_work(0, 0, &work);
}

// Graphs ----------------------------------------------------------------------------------------------------

enum { LINKS = 45 };

// Adds, multiplies and subtracts in turns: one launch for each.
static zl_array chain(zl_array x, double step) {
    for (int i = 0; i < LINKS; i++)
        x = i % 3 == 0   ? zl_add(x, zl_scalar(step * i))
            : i % 3 == 1 ? zl_multiply(x, zl_scalar(i % 2 ? 2 : 0.5))
                         : zl_subtract(x, zl_scalar(step));
    return x;
}

static double chain_of(double x, double step) {
    for (int i = 0; i < LINKS; i++)
        x = i % 3 == 0 ? x + step * i : i % 3 == 1 ? x * (i % 2 ? 2 : 0.5) : x - step;
    return x;
}

// The numbers, the memory and the sizes differ in each call.
static void run_chain(int64_t n, double first, double step) {
    ZL_SCOPE {
        zl_array x = zl_full(ZL_SHAPE(n), zl_scalar(first), ZL_FLOAT32), held = zl_add(x, zl_scalar(0));
        REQUIRE(zl_eval(held));
        zl_array y = chain(held, step);
        REQUIRE(zl_eval(y));
        const float *data = zl_data_f32(y);
        CHECK(data && data[0] == (float)chain_of(first, step) && data[n - 1] == data[0]);
    }
}

static void run_chains(int times) {
    for (int i = 0; i < times; i++)
        run_chain(i % 4 == 3 ? 700 : 64 + i, i + 1, i % 5);
}

TEST(hot_programs_run_as_graphs) {
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    zl_set_compile_mode(ZL_COMPILE_NO_FUSE);
    run_chains(5);
    int64_t graphs = zl_counter("graphs"), launches = fake.calls("cuLaunchKernel");
    run_chains(10);
    CHECK(zl_counter("graphs") >= graphs + 10);
    CHECK(fake.calls("cuLaunchKernel") < launches + 10 * LINKS / 2);
    test_setenv("ZL_GRAPHS", "0");
    graphs = zl_counter("graphs");
    run_chains(3);
    CHECK_EQ_INT(zl_counter("graphs"), graphs);
    test_setenv("ZL_GRAPHS", NULL);
    zl_set_compile_mode(ZL_COMPILE_ENABLED);
    end(scope);
}

// Trains a linear model for a few steps, each on other rows. Returns the final weights.
static void train(float out[12]) {
    enum { ROWS = 8, WIDE = 12, STEPS = 14 };
    zl_array x = zl_retain(
        zl_reshape(zl_sin(zl_arange(0, ROWS * STEPS * WIDE, 1, ZL_FLOAT32)), ZL_SHAPE(ROWS * STEPS, WIDE)));
    zl_array w = zl_retain(zl_zeros(ZL_SHAPE(WIDE, 1), ZL_FLOAT32)),
             v = zl_retain(zl_zeros(ZL_SHAPE(WIDE, 1), ZL_FLOAT32));
    CHECK(zl_eval(x) && zl_eval(w) && zl_eval(v));
    for (int64_t i = 0; i < STEPS; i++)
        ZL_SCOPE {
            zl_array rows =
                         zl_slice(x, ZL_SHAPE(i * ROWS, 0), ZL_SHAPE(i * ROWS + ROWS, WIDE), ZL_SHAPE(1, 1)),
                     gradient;
            zl_array error = zl_subtract(zl_matmul(rows, w), zl_sum_axis(rows, 1, true));
            CHECK(zl_grad(zl_sum(zl_square(error)), 1, &w, &gradient));
            zl_array next_v = zl_add(zl_multiply(zl_scalar(0.5), v), gradient);
            zl_array next_w = zl_subtract(w, zl_multiply(zl_scalar(0.01), next_v));
            CHECK(zl_async_eval_all(2, (zl_array[]){next_w, next_v}));
            zl_release(w);
            zl_release(v);
            w = zl_retain(next_w);
            v = zl_retain(next_v);
        }
    CHECK(zl_copy_to(w, out, sizeof(float) * WIDE));
    zl_release(x);
    zl_release(w);
    zl_release(v);
}

TEST(graphs_change_no_result) {
    float with[12], without[12] = {0};
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    int64_t graphs = zl_counter("graphs");
    train(with);
    CHECK(zl_counter("graphs") >= graphs + 3);
    test_setenv("ZL_GRAPHS", "0");
    train(without);
    test_setenv("ZL_GRAPHS", NULL);
    for (int i = 0; i < 12; i++)
        CHECK_EQ_F64(with[i], without[i]);
    CHECK(fabsf(with[0]) > 0.01f);
    end(scope);
}

// Computes two sums and their product, and then values from these. The launches of a graph wait for those
// whose results they read and for those that read what they overwrite, but for no others.
static void run_branches(double first) {
    zl_array x = zl_full(ZL_SHAPE(300), zl_scalar(first), ZL_FLOAT32), y[2];
    for (int i = 0; i < 2; i++)
        y[i] = zl_sqrt(zl_square(zl_add(x, zl_scalar(i + 1))));
    zl_array z = zl_multiply(y[0], y[1]), all[] = {z, zl_subtract(y[0], z), zl_negative(y[1])};
    REQUIRE(zl_eval_all(3, all));
    const double a = first + 1, b = first + 2, expected[] = {a * b, a - a * b, -b};
    for (int i = 0; i < 3; i++) {
        const float *data = zl_data_f32(all[i]);
        CHECK(data && data[0] == (float)expected[i] && data[299] == data[0]);
    }
}

TEST(launches_of_a_graph_wait_for_what_they_share) {
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    zl_set_compile_mode(ZL_COMPILE_NO_FUSE);
    int64_t before = fake.overtaken();
    run_chains(12);
    CHECK_EQ_INT(fake.overtaken(), before);
    for (int i = 0; i < 24; i++)
        ZL_SCOPE {
            run_branches(i);
        }
    CHECK(fake.overtaken() > before + 20);
    zl_set_compile_mode(ZL_COMPILE_ENABLED);
    end(scope);
}

// The works of one program write to the same address and to different addresses, in turns. Only in the first
// case do they wait for each other.
TEST(works_of_a_graph_wait_for_what_they_share) {
    enum { WORKS = 6 };
    float out[WORKS];
    char *memory = cuda_alloc(0, sizeof out);
    static const struct program program = {.steps = {.count = WORKS}};
    for (int run = 0; run < 24; run++) {
        bool is_one = run % 2;
        cuda_queue_begin(0, 0, &program);
        for (int i = 0; i < WORKS; i++)
            CHECK(ask_to_write(
                (struct sum_work){memory + (is_one ? 0 : sizeof(float) * (size_t)i), (float)(i + 1), 0}));
        cuda_queue_end(0, 0);
        CHECK(cuda_read(0, 0, out, memory, sizeof out));
        for (int i = 0; i < (is_one ? 1 : WORKS); i++)
            CHECK_EQ_F64(out[i], is_one ? WORKS : i + 1);
    }
    cuda_queue_forget(&program);
    cuda_free(0, memory);
}

// If a graph cannot be made or launched, the kernels are launched one by one.
TEST(graphs_that_fail_are_launched) {
    static const char *const functions[] = {"cuGraphCreate",
                                            "cuGraphAddKernelNode_v2",
                                            "cuGraphInstantiateWithFlags",
                                            "cuGraphExecKernelNodeSetParams_v2",
                                            "cuGraphLaunch",
                                            "cuStreamCreate"};
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    zl_set_compile_mode(ZL_COMPILE_NO_FUSE);
    for (size_t i = 0; i < COUNT(functions); i++)
        for (int after = 1; after < 4; after++) {
            fake.fail(functions[i], after, 1);
            run_chains(7);
            fake.heal();
        }
    zl_set_compile_mode(ZL_COMPILE_ENABLED);
    end(scope);
}

// A launch of a recorded program fails late. Its array fails, and arrays that are computed from it, but no
// others.
TEST(a_launch_that_fails_late_fails_its_arrays_alone) {
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    zl_set_compile_mode(ZL_COMPILE_NO_FUSE);
    zl_array x = zl_retain(zl_arange(0, 64, 1, ZL_FLOAT32)), before = zl_retain(zl_exp(x));
    REQUIRE(zl_eval_all(2, (zl_array[]){x, before}));
    for (int i = 0; i < 12; i++) {
        zl_array y = zl_retain(chain(x, 1)), after = zl_retain(zl_add(y, zl_scalar(1)));
        if (i % 4 == 3) {
            fake.fail("cuGraphLaunch", 1, 1);
            fake.fail("cuLaunchKernel", 5, 1);
            CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(y));
            CHECK_HAS(test_last_error(), "cuLaunchKernel");
            fake.heal();
            CHECK_ERROR(ZL_ERROR_DEVICE, zl_data(y));
            CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(after));
        } else {
            CHECK(zl_eval(after));
            const float *data = zl_data_f32(after);
            CHECK(data && data[5] == (float)chain_of(5, 1) + 1);
        }
        CHECK(zl_item(zl_sum(zl_subtract(before, zl_exp(x)))) == 0);
        zl_release(y);
        zl_release(after);
    }
    zl_set_compile_mode(ZL_COMPILE_ENABLED);
    zl_release(x);
    zl_release(before);
    end(scope);
}

static void *run_beside(void *data) {
    (void)data;
    zl_scope scope = zl_scope_begin_on(zl_new_stream("cuda"));
    run_chains(20);
    zl_scope_end(scope);
    return NULL;
}

TEST(threads_share_a_device) {
    pthread_t threads[4];
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    zl_set_compile_mode(ZL_COMPILE_NO_FUSE);
    run_chains(4);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_create(&threads[i], NULL, run_beside, NULL);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    zl_set_compile_mode(ZL_COMPILE_ENABLED);
    end(scope);
}

// Work of libraries in graphs, which is recorded as it runs -------------------------------------------------

// Of five works only the last one changes: the other four become a graph.
TEST(work_of_libraries_is_part_of_graphs) {
    enum { WORKS = 5 };
    float out[WORKS];
    char *memory = cuda_alloc(0, sizeof out);
    static const struct program program = {.steps = {.count = WORKS}};
    int64_t graphs = zl_counter("graphs");
    for (int run = 0; run < 20; run++) {
        cuda_queue_begin(0, 0, &program);
        for (int i = 0; i < WORKS; i++) {
            struct sum_work w = {memory + sizeof(float) * (size_t)i, (float)(i == WORKS - 1 ? run + 20 : i),
                                 0};
            CHECK(ask_to_write(w));
        }
        cuda_queue_end(0, 0);
        CHECK(cuda_read(0, 0, out, memory, sizeof out));
        for (int i = 0; i < WORKS; i++)
            CHECK_EQ_F64(out[i], i == WORKS - 1 ? run + 20 : i);
    }
    CHECK(zl_counter("graphs") >= graphs + 4);
    cuda_queue_forget(&program);
    cuda_free(0, memory);
}

// Work that is enqueued again with the same memory becomes a graph, or is enqueued as it is if that fails.
static void write_in_turns(int times) {
    float out[2];
    char *memory = cuda_alloc(0, sizeof out);
    for (int i = 0; i < times; i++) {
        struct sum_work w = {memory + sizeof(float) * (size_t)(i % 2), (float)(i % 2 + 7), 0},
                        other = {memory, (float)(i % 50), 0};
        CHECK(ask_to_write(other));
        CHECK(ask_to_write(w));
        CHECK(cuda_read(0, 0, out, memory, sizeof out));
        CHECK_EQ_F64(out[i % 2], i % 2 + 7);
    }
    cuda_free(0, memory);
}

TEST(work_that_comes_again_is_a_graph) {
    static const char *const functions[] = {"cuStreamBeginCapture_v2", "cuStreamEndCapture",
                                            "cuGraphInstantiateWithFlags", "cuGraphLaunch"};
    int64_t graphs = zl_counter("graphs");
    write_in_turns(20);
    CHECK(zl_counter("graphs") >= graphs + 10);
    for (size_t i = 0; i < COUNT(functions); i++)
        for (int after = 1; after < 3; after++) {
            fake.fail(functions[i], after, 1);
            write_in_turns(10);
            fake.heal();
        }
}

TEST(a_launch_that_comes_again_is_a_graph) {
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    zl_array x = zl_retain(zl_arange(0, 100, 1, ZL_FLOAT32));
    REQUIRE(zl_eval(x));
    int64_t graphs = zl_counter("graphs"), launches = fake.calls("cuLaunchKernel");
    for (int i = 0; i < 40; i++)
        ZL_SCOPE {
            zl_array y = zl_add(x, zl_scalar(i < 30 ? 3 : i));
            CHECK(zl_eval(y));
            const float *data = zl_data_f32(y);
            CHECK(data && data[99] == 99 + (i < 30 ? 3 : i));
        }
    CHECK(zl_counter("graphs") >= graphs + 20);
    CHECK(fake.calls("cuLaunchKernel") < launches + 30);
    zl_release(x);
    end(scope);
}

// Streams ---------------------------------------------------------------------------------------------------

// Tests the driver itself: it detects work that ran too early, and accepts work that waited.
TEST(the_driver_sees_who_did_not_wait) {
    const struct cuda_api *api = cuda_api();
    struct cuda_device *d = cuda_device(0);
    float *pinned = NULL;
    cuda_event mark = NULL;
    char *memory = cuda_alloc(0, 64), *other = cuda_alloc(0, 64);
    REQUIRE(d && memory && other && !api->cuMemHostAlloc((void **)&pinned, 64, 0) &&
            !api->cuEventCreate(&mark, 2));
    for (int waits = 0; waits < 2; waits++)
        for (int writes = 0; writes < 2; writes++) {
            char *to = writes ? memory : other;
            CHECK(!api->cuStreamSynchronize(d->stream[0]) && !api->cuStreamSynchronize(d->stream[1]));
            CHECK(!api->cuMemcpyHtoDAsync_v2((uintptr_t)memory, pinned, 64, d->stream[0]));
            CHECK(!api->cuMemcpyDtoHAsync_v2(pinned, (uintptr_t)memory, 64, d->stream[0]));
            CHECK(!api->cuEventRecord(mark, d->stream[0]));
            CHECK(!waits || !api->cuStreamWaitEvent(d->stream[1], mark, 0));
            CHECK(!(writes ? api->cuMemcpyHtoDAsync_v2((uintptr_t)to, pinned, 64, d->stream[1])
                           : api->cuMemcpyDtoHAsync_v2(pinned, (uintptr_t)memory, 64, d->stream[1])));
            CHECK((fake.disorder() == NULL) == (waits == 1));
        }
    CHECK(!api->cuStreamSynchronize(d->stream[0]) && !api->cuStreamSynchronize(d->stream[1]));
    api->cuEventDestroy_v2(mark);
    api->cuMemFreeHost(pinned);
    cuda_free(0, memory);
    cuda_free(0, other);
}

static zl_array retained_on(zl_stream s, zl_array (*f)(zl_array x, zl_array y), zl_array x, zl_array y) {
    zl_scope scope = zl_scope_begin_on(s);
    zl_array z = zl_retain(f(x, y));
    zl_scope_end(scope);
    return z;
}

// Creates streams, consecutive ones on different lanes.
static bool make_streams(zl_stream s[3]) {
    for (int i = 0; i < 3; i++)
        s[i] = on("cuda");
    return CHECK(s[0] && s[1] && s[2] && s[0]->lane != s[1]->lane && s[1]->lane != s[2]->lane &&
                 s[0]->lane != s[2]->lane);
}

// One stream writes an array and another reads it: the device waits, not the host.
TEST(streams_wait_for_each_other_on_the_device) {
    enum { N = 1000 };
    zl_stream s[3];
    zl_scope scope = zl_scope_begin();
    REQUIRE(make_streams(s));
    zl_array x = zl_retain(zl_arange(0, N, 1, ZL_FLOAT32));
    REQUIRE(zl_eval(x));                    // on the host
    for (int turn = 0; turn < 12; turn++) { // after a few turns, as graphs
        int64_t waits = fake.calls("cuEventSynchronize"), follows = fake.calls("cuStreamWaitEvent");
        zl_array a = retained_on(s[0], zl_add, x, x), b, c, d;
        CHECK(zl_async_eval(a));
        b = retained_on(s[1], zl_multiply, a, a);
        CHECK(zl_async_eval(b));
        c = retained_on(s[2], zl_subtract, b, a);
        CHECK(zl_async_eval(c));
        d = retained_on(s[0], zl_add, c, b);
        CHECK(zl_async_eval(d));
        CHECK_EQ_INT(fake.calls("cuEventSynchronize"), waits);
        CHECK(fake.calls("cuStreamWaitEvent") >= follows + 4);
        zl_array all[] = {a, b, c, d};
        const float *data = zl_data_f32(d);
        for (int i = 0; data && i < N; i++)
            CHECK_EQ_F64(data[i], 4.0f * (float)i * (float)i - 2.0f * (float)i + 4.0f * (float)i * (float)i);
        CHECK(data);
        for (size_t i = 0; i < COUNT(all); i++)
            zl_release(all[i]);
        check_order();
    }
    zl_release(x);
    end(scope);
}

// Memory of one stream's arrays goes to another stream as soon as all work that uses it is done, and not
// before.
TEST(memory_goes_to_another_stream_when_it_is_done) {
    enum { N = 1 << 20 };
    zl_stream s[3];
    zl_scope scope = zl_scope_begin();
    REQUIRE(make_streams(s));
    zl_clear_cache();
    zl_array x = zl_retain(zl_arange(0, N, 1, ZL_FLOAT32));
    REQUIRE(zl_eval(x));
    zl_array a = retained_on(s[0], zl_add, x, x); // x is on the device now
    REQUIRE(zl_eval(a));
    zl_release(a);
    zl_clear_cache();
    size_t used = fake.used(0);
    a = retained_on(s[0], zl_add, x, x);
    CHECK(zl_async_eval(a));
    zl_release(a);
    zl_array b = retained_on(s[1], zl_multiply, x, x); // a's memory is still in use
    CHECK(zl_async_eval(b));
    CHECK_EQ_INT(fake.used(0), used + 2 * N * sizeof(float));
    CHECK(zl_eval(b) && zl_stream_synchronize(s[0]));
    zl_array c = retained_on(s[2], zl_subtract, x, b); // a's memory is free
    CHECK(zl_async_eval(c));
    CHECK_EQ_INT(fake.used(0), used + 2 * N * sizeof(float));
    zl_array d = retained_on(s[0], zl_add, c, x);
    CHECK(zl_async_eval(d));
    zl_release(c); // s[0] reads c: s[2] may reuse its memory only after that
    c = retained_on(s[2], zl_add, b, b);
    CHECK(zl_async_eval(c));
    CHECK_EQ_INT(fake.used(0), used + 3 * N * sizeof(float));
    const float *first = zl_data_f32(c), *second = zl_data_f32(d);
    CHECK(first && second && first[3] == 18 && second[3] == -3);
    zl_release(x);
    zl_release(b);
    zl_release(c);
    zl_release(d);
    end(scope);
}

// A result takes the memory of an input that another stream still reads.
TEST(what_another_stream_reads_is_not_written_over) {
    enum { N = 500 };
    zl_stream s[3];
    zl_scope scope = zl_scope_begin();
    REQUIRE(make_streams(s));
    for (int turn = 0; turn < 10; turn++) {
        zl_array x = zl_retain(zl_arange(0, N, 1, ZL_FLOAT32));
        REQUIRE(zl_eval(x));
        zl_array a = retained_on(s[0], zl_add, x, x);
        CHECK(zl_async_eval(a));
        zl_array b = retained_on(s[1], zl_multiply, a, x), c = retained_on(s[2], zl_multiply, a, a);
        CHECK(zl_async_eval(b) && zl_async_eval(c));
        int64_t donations = zl_counter("donations");
        zl_scope inner = zl_scope_begin_on(s[0]);
        zl_array d = zl_retain(zl_subtract(a, zl_scalar(7)));
        zl_scope_end(inner);
        zl_release(a); // only the last call holds it now
        CHECK(zl_async_eval(d));
        CHECK_EQ_INT(zl_counter("donations"), donations + 1);
        const float *p = zl_data_f32(d), *q = zl_data_f32(b), *r = zl_data_f32(c);
        CHECK(p && q && r && p[9] == 11 && q[9] == 162 && r[9] == 324);
        zl_release(x);
        zl_release(b);
        zl_release(c);
        zl_release(d);
        check_order();
    }
    end(scope);
}

// An array is uploaded for one stream and read by another; a download at the same time uses other buffers.
TEST(copies_of_streams_are_in_order) {
    enum { N = 1 << 20 };
    zl_stream s[3];
    zl_scope scope = zl_scope_begin();
    float *out = malloc(sizeof(float) * N);
    REQUIRE(make_streams(s));
    zl_array x = zl_retain(zl_arange(0, N, 1, ZL_FLOAT32)), y = zl_retain(zl_add(x, zl_scalar(1)));
    REQUIRE(zl_eval_all(2, (zl_array[]){x, y}));
    zl_array down = retained_on(s[1], zl_add, x, x);
    REQUIRE(zl_eval(down));
    zl_array a = retained_on(s[0], zl_add, y, y), b = retained_on(s[2], zl_subtract, y, x);
    CHECK(zl_async_eval(a) && zl_async_eval(b)); // y is uploaded
    CHECK(zl_copy_to(down, out, sizeof(float) * N) && out[N - 1] == 2 * (N - 1));
    CHECK(zl_copy_to(a, out, sizeof(float) * N));
    for (int i = 0; i < N; i++)
        if (!CHECK(out[i] == 2 * (float)(i + 1)))
            break;
    CHECK(zl_copy_to(b, out, sizeof(float) * N) && out[0] == 1 && out[N - 1] == 1);
    zl_array all[] = {x, y, down, a, b};
    for (size_t i = 0; i < COUNT(all); i++)
        zl_release(all[i]);
    free(out);
    end(scope);
}

// A launch of one stream fails late: arrays of other streams that are computed from its result fail too, and
// no others.
TEST(a_failure_of_one_stream_is_told_to_another) {
    zl_stream s[3];
    zl_scope scope = zl_scope_begin();
    REQUIRE(make_streams(s));
    zl_set_compile_mode(ZL_COMPILE_NO_FUSE);
    zl_array x = zl_retain(zl_arange(0, 64, 1, ZL_FLOAT32));
    REQUIRE(zl_eval(x));
    for (int i = 0; i < 12; i++) {
        bool fails = i % 4 == 3;
        zl_scope inner = zl_scope_begin_on(s[0]);
        zl_array y = zl_retain(chain(x, 1));
        zl_scope_end(inner);
        zl_array z = retained_on(s[1], zl_add, y, x), other = retained_on(s[1], zl_add, x, x);
        if (fails) {
            fake.fail("cuGraphLaunch", 1, 1);
            fake.fail("cuLaunchKernel", 5, 1);
        }
        CHECK(zl_async_eval(y));
        fake.heal();
        if (fails)
            CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(z));
        else
            CHECK(zl_eval(z) && zl_data_f32(z)[5] == (float)chain_of(5, 1) + 5);
        CHECK(zl_eval(other) && zl_data_f32(other)[5] == 10);
        zl_stream_synchronize(s[0]);
        zl_clear_error();
        zl_release(y);
        zl_release(z);
        zl_release(other);
    }
    zl_set_compile_mode(ZL_COMPILE_ENABLED);
    zl_release(x);
    end(scope);
}

// Whichever call of waiting fails, an array is either right or has an error.
TEST(waiting_that_fails_is_an_error_or_none) {
    static const char *const functions[] = {"cuStreamWaitEvent", "cuEventRecord", "cuEventQuery",
                                            "cuEventCreate"};
    zl_stream s[3];
    zl_scope scope = zl_scope_begin();
    REQUIRE(make_streams(s));
    zl_array x = zl_retain(zl_arange(0, 300, 1, ZL_FLOAT32));
    REQUIRE(zl_eval(x));
    for (size_t i = 0; i < COUNT(functions); i++)
        for (int after = 1; after < 6; after++) {
            fake.fail(functions[i], after, 1);
            zl_array a = retained_on(s[0], zl_add, x, x), b = retained_on(s[1], zl_add, a, x),
                     c = retained_on(s[2], zl_multiply, a, b);
            bool good = zl_async_eval(c) && zl_eval(c);
            zl_clear_error();
            fake.heal();
            const float *data = good ? zl_data_f32(c) : NULL;
            CHECK(!data || data[7] == 14 * 21);
            for (int k = 0; k < 3; k++)
                zl_stream_synchronize(s[k]);
            zl_clear_error();
            zl_release(a);
            zl_release(b);
            zl_release(c);
            check_order();
        }
    zl_release(x);
    end(scope);
}

// Views -----------------------------------------------------------------------------------------------------

// Makes queries, keys, values and a cotangent of attention: consecutive arrays, or side by side in one array
// in which the heads of a row are adjacent.
static bool lay_out(bool together, zl_array *out) {
    enum { BATCH = 2, HEADS = 3, LINES = 32, SIZE = 64 };
    zl_array x =
        zl_ones(together ? ZL_SHAPE(BATCH, LINES, 4, HEADS, SIZE) : ZL_SHAPE(4, BATCH, HEADS, LINES, SIZE),
                ZL_BFLOAT16);
    bool done = zl_eval(x) && zl_unstack(x, together ? 2 : 0, out);
    for (int i = 0; done && i < 4; i++)
        out[i] = together ? zl_transpose(out[i], ZL_AXES(0, 2, 1, 3)) : zl_contiguous(out[i], false);
    return done && zl_eval_all(4, out);
}

static bool attend(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    (void)count;
    return zl_give(out,
                   zl_fast_scaled_dot_product_attention(in[0], in[1], in[2], 0.125, NULL, NULL, "causal"));
}

static int64_t launches_of_attention(bool together) {
    zl_array in[4], grads[3];
    if (!CHECK(lay_out(together, in)))
        return -1;
    int64_t launches = fake.calls("cuLaunchKernel");
    CHECK(zl_vjp((zl_fn){.call = attend}, 3, in, 1, in + 3, NULL, grads) && zl_eval_all(3, grads));
    return fake.calls("cuLaunchKernel") - launches;
}

TEST(views_are_not_copied_for_attention) {
    test_setenv("FAKE_CUDA_IDLE", "1"); // results of matrix instructions are not checked
    zl_stream s = on("cuda:0");
    REQUIRE(s);
    zl_scope scope = zl_scope_begin_on(s);
    int64_t plain = launches_of_attention(false);
    CHECK(plain > 0);
    CHECK_EQ_INT(launches_of_attention(true), plain);
    end(scope);
    test_setenv("FAKE_CUDA_IDLE", NULL);
}

// Several devices -------------------------------------------------------------------------------------------

TEST(arrays_go_from_one_device_to_another) {
    zl_stream first = on("cuda:0"), second = on("cuda:1");
    REQUIRE(first && second);
    zl_scope scope = zl_scope_begin_on(first);
    size_t used = fake.used(1);
    zl_array x = zl_retain(zl_arange(0, 1 << 18, 1, ZL_FLOAT32));
    REQUIRE(zl_eval(x) && fake.used(1) == used);
    zl_scope inner = zl_scope_begin_on(second);
    zl_array y = zl_retain(zl_add(x, zl_scalar(1)));
    REQUIRE(zl_eval(y));
    CHECK(fake.used(1) > used);
    zl_scope_end(inner);
    CHECK_EQ_F64(zl_item(zl_sum(zl_subtract(y, x))), 1 << 18);
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_new_stream("cuda:2"));
    CHECK_HAS(test_last_error(), "there are cuda:0 to cuda:1");
    zl_release(x);
    zl_release(y);
    end(scope);
}
