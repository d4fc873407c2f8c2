// test_cuda_fake.c - what the CUDA device does on the host's side: memory, copies, order, errors. Under the driver of
// test/fake, which has two devices, does everything as late as it may and fails when it is told to.

static const char *lacks_fake(void);
#define TEST_LACKS lacks_fake

#include "test.h"

#include "device/cuda/cuda.h"
#include "device/device.h"
#include "zellige_ops.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { LOST = 719, OUT_OF_MEMORY = 2, PIECE = 512 << 10 };

static struct {
    void (*fail)(const char *function, int after, int code);
    void (*heal)(void);
    int64_t (*calls)(const char *function);
    void (*memory)(size_t bytes);
    size_t (*used)(int device);
} fake;

static const char *lacks_fake(void) {
    static const char *const names[] = {"libcuda.so.1", NULL};
    void *library = library_open(names);
    const struct library_symbol symbols[] = {{"fake_fail", (void **)(void *)&fake.fail},
                                             {"fake_heal", (void **)(void *)&fake.heal},
                                             {"fake_calls", (void **)(void *)&fake.calls},
                                             {"fake_memory", (void **)(void *)&fake.memory},
                                             {"fake_used", (void **)(void *)&fake.used}};
    return library && library_bind(library, symbols, COUNT(symbols), NULL)
               ? NULL
               : "its driver is that of test/fake: device/test_cuda:host_side runs it so";
}

static zl_stream on(const char *device) {
    setenv("ZL_CACHE_DIR", test_folder(), 1);
    return zl_new_stream(device);
}

static void end(zl_scope scope) {
    zl_scope_end(scope);
    unsetenv("ZL_CACHE_DIR");
    zl_clear_cache();
}

// Copies -----------------------------------------------------------------------------------------------------------

// There and back, with what comes after it already asked for.
static void go_round(size_t bytes) {
    unsigned char *from = malloc(bytes + 1), *to = calloc(1, bytes + 1), *kept = malloc(bytes + 1);
    char *memory = cuda_alloc(0, 2 * bytes);
    for (size_t i = 0; i < bytes; i++)
        kept[i] = from[i] = (unsigned char)test_random();
    CHECK(cuda_write(0, memory, from, bytes));
    memset(from, 1, bytes);
    CHECK(cuda_write(0, memory + bytes, from, bytes) && cuda_read(0, to, memory, bytes));
    CHECK(!memcmp(to, kept, bytes) && !to[bytes]);
    CHECK(cuda_read(0, to, memory + bytes, bytes) && !memcmp(to, from, bytes));
    cuda_free(0, memory);
    free(from);
    free(to);
    free(kept);
}

TEST(copies_arrive_whole) {
    static const size_t sizes[] = {1, 100, 64 << 10, (64 << 10) + 1, PIECE - 1, PIECE, PIECE + 1, 17 * PIECE + 3, 40 * PIECE};
    for (size_t i = 0; i < COUNT(sizes); i++)
        go_round(sizes[i]);
    CHECK(fake.calls("cuMemHostAlloc") == 1);
}

TEST(a_copy_that_fails_is_an_error) {
    char data[1000] = {0}, *big = calloc(1, 4 * PIECE);
    char *memory = cuda_alloc(0, 4 * PIECE);
    fake.fail("cuMemcpyDtoHAsync_v2", 1, 1);
    CHECK_ERROR(ZL_ERROR_DEVICE, cuda_read(0, data, memory, sizeof data));
    fake.fail("cuMemcpyHtoDAsync_v2", 3, 1);
    CHECK_ERROR(ZL_ERROR_DEVICE, cuda_write(0, memory, big, 4 * PIECE));
    fake.fail("cuEventSynchronize", 2, 1);
    CHECK_ERROR(ZL_ERROR_DEVICE, cuda_read(0, big, memory, 4 * PIECE));
    CHECK(cuda_write(0, memory, big, 4 * PIECE) && cuda_read(0, big, memory, 4 * PIECE));
    cuda_free(0, memory);
    free(big);
}

TEST(reading_out_keeps_no_copy) {
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    enum { N = 300000 };
    float *out = malloc(sizeof(float) * N);
    zl_array x = zl_retain(zl_add(zl_arange(0, N, 1, ZL_FLOAT32), zl_scalar(1)));
    REQUIRE(zl_eval(x));
    size_t before = zl_get_active_memory();
    REQUIRE(zl_copy_to(x, out, sizeof(float) * N));
    CHECK(out[0] == 1 && out[N - 1] == N && zl_get_active_memory() == before);
    zl_release(x);
    free(out);
    end(scope);
}

// Memory -----------------------------------------------------------------------------------------------------------

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

// What was freed goes back before memory is said to be out.
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

// Errors -----------------------------------------------------------------------------------------------------------

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
    setenv("FAKE_NVRTC_FAILS", "zl_kernel", 1);
    CHECK(zl_item(zl_sum(x)) == 4950);
    CHECK_ERROR(ZL_ERROR_COMPILE, zl_eval(zl_sin(x)));
    CHECK_HAS(test_last_error(), "told to fail");
    unsetenv("FAKE_NVRTC_FAILS");
    CHECK(zl_eval(zl_sin(x)));
    zl_release(x);
    end(scope);
}

TEST(a_fallback_that_is_not_wanted_names_the_op) {
    zl_scope scope = zl_scope_begin_on(on("cuda"));
    setenv("ZL_NO_FALLBACK", "1", 1);
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(zl_linalg_inv(zl_eye(3, 3, 0, ZL_FLOAT32))));
    CHECK_HAS(test_last_error(), "ZL_NO_FALLBACK");
    unsetenv("ZL_NO_FALLBACK");
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

// Several devices --------------------------------------------------------------------------------------------------

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
    CHECK(zl_item(zl_max(zl_subtract(y, x))) == 1);
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_new_stream("cuda:2"));
    CHECK_HAS(test_last_error(), "there are 2 of cuda");
    zl_release(x);
    zl_release(y);
    end(scope);
}
