// test_cuda_default.c - consequences of having a GPU: it is the default device, and kernels without a target
// run where their arguments are. It runs under the driver of test/fake, which has two devices.

static const char *lacks_fake(void);
#define TEST_LACKS lacks_fake

#include "test.h"

#include "device/cuda/cuda_queue.h"
#include "op/ops.h"
#include "schedule/schedule.h"
#include "zellige_ops.h"
#include "zellige_tile.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char *lacks_fake(void) {
    static const char *const names[] = {"libcuda.so.1", NULL};
    void *library = library_open(names);
    return library && dlsym(library, "fake_fail")
               ? NULL
               : "its driver is that of test/fake: device/test_cuda:default_device runs it so";
}

// Finds the default stream of a thread that has none yet.
static void *find_default(void *data) {
    char *name = data;
    int unit = -1;
    zl_stream s = zl_default_stream(), first = s ? zl_default_stream_of("cuda:0") : NULL;
    const char *device = s ? zl_stream_device(s, &unit) : "none";
    snprintf(name, 64, "%s:%d%s", device, unit, s == first ? "" : " apart");
    return NULL;
}

TEST(the_first_gpu_is_the_default_device) {
    static const char *const settings[] = {"", "cpu", "cuda:1"}, *const devices[] = {"cuda:0", "cpu:0 apart",
                                                                                     "cuda:1 apart"};
    for (size_t i = 0; i < COUNT(settings); i++) {
        char name[64];
        pthread_t thread;
        test_setenv("ZL_DEVICE", settings[i]);
        REQUIRE(!pthread_create(&thread, NULL, find_default, name));
        pthread_join(thread, NULL);
        if (!CHECK(!strcmp(name, devices[i])))
            test_note("ZL_DEVICE=%s: %s", settings[i], name);
    }
    test_setenv("ZL_DEVICE", "cpu");
    zl_device_info info;
    for (int i = 0; zl_device(i, &info); i++) {
        bool may_be =
            !strcmp(info.device, "opencl") || !strcmp(info.device, "vulkan"); // a real one, besides the fake
                                                                              // one
        CHECK(info.is_gpu == (info.available && !strcmp(info.device, "cuda")) || (may_be && !info.is_host));
    }
}

// Kernels that follow their arguments -----------------------------------------------------------------------

static const char twice[] =
    "kernel twice(a: f32[n], by: f32) -> (y: f32[n]) {\n  map i in n { y[i] = a[i] * by }\n}\n";
enum { TWICE_COUNT = 100 };

static bool run_twice(zl_kernel k, void *from, void *to) {
    static const int64_t dim = TWICE_COUNT;
    float by = 2;
    zl_kernel_buffer buffer[] = {
        {from, ZL_FLOAT32, 1, &dim, NULL}, {&by, ZL_FLOAT32, 0, NULL, NULL}, {to, ZL_FLOAT32, 1, &dim, NULL}};
    return zl_kernel_run(k, 3, buffer);
}

static bool is_for_cuda(zl_kernel k) {
    const char *text = zl_kernel_source_text(k);
    return text && strstr(text, "__global__");
}

TEST(kernels_follow_memory) {
    static const char *const targets[] = {"auto", NULL};
    float from[TWICE_COUNT], to[TWICE_COUNT] = {0}, back[TWICE_COUNT] = {0};
    test_setenv("ZL_CACHE_DIR", test_folder());
    char *a = cuda_alloc(0, sizeof from), *y = cuda_alloc(0, sizeof from);
    for (int i = 0; i < TWICE_COUNT; i++)
        from[i] = (float)i;
    REQUIRE(cuda_write(0, 0, a, from, sizeof from) && cuda_read(0, 0, back, a, sizeof back));
    for (size_t i = 0; i < COUNT(targets); i++) {
        zl_kernel k = zl_kernel_compile(twice, NULL, targets[i]);
        CHECK(k && run_twice(k, from, to) && to[TWICE_COUNT - 1] == 2 * (TWICE_COUNT - 1) && !is_for_cuda(k));
        CHECK(run_twice(k, a, y) && is_for_cuda(k) && cuda_read(0, 0, back, y, sizeof back));
        CHECK(!memcmp(back, to, sizeof to));
        CHECK_ERROR(ZL_ERROR_VALUE, run_twice(k, a, to));
        CHECK_HAS(test_last_error(),
                  "the arguments of kernel twice are on different devices: 'a' is on cuda, 'y' is on cpu");
        zl_kernel_release(k);
    }
    cuda_free(0, a);
    cuda_free(0, y);
    test_setenv("ZL_CACHE_DIR", NULL);
}

// Doubles the elements of x from the first on. Returns whether the result is right, and only on the device.
static bool call_twice(zl_kernel k, zl_array x, const struct device *home) {
    zl_array in[] = {x, zl_scalar(2)}, y = NULL;
    bool right = zl_kernel_call(k, 2, in, 1, &y) && device_home(y->storage) == home;
    right = right && zl_item(zl_array_equal(y, zl_multiply(x, zl_scalar(2)), false));
    zl_release(y);
    return right;
}

TEST(kernels_follow_arrays) {
    test_setenv("ZL_CACHE_DIR", test_folder());
    zl_stream gpu = zl_new_stream("cuda");
    zl_scope scope = zl_scope_begin();
    zl_kernel k = zl_kernel_compile(twice, NULL, "auto"), fixed = zl_kernel_compile(twice, NULL, "cuda");
    const struct device *cuda = device_find("cuda", NULL);
    float data[TWICE_COUNT] = {1, 2, 3};
    zl_array host = zl_from_f32(data, ZL_SHAPE(TWICE_COUNT));
    REQUIRE(k && fixed && cuda);
    CHECK(call_twice(k, host, NULL) && !is_for_cuda(k)); // the default device is the CPU
    CHECK(call_twice(fixed, host, cuda));
    zl_scope inner = zl_scope_begin_on(gpu);
    zl_array x = zl_add(zl_arange(0, TWICE_COUNT, 1, ZL_FLOAT32), zl_scalar(1));
    CHECK(zl_eval(zl_retain(x)));
    CHECK(call_twice(k, x, cuda) && is_for_cuda(k));
    zl_array late = zl_slice(x, ZL_SHAPE(1), ZL_SHAPE(TWICE_COUNT), ZL_SHAPE(1));
    CHECK(call_twice(k, late, cuda)); // does not begin where its memory begins
    CHECK(call_twice(k, host, cuda)); // the default device is the GPU
    zl_release(x);
    zl_scope_end(inner);
    zl_kernel_release(k);
    zl_kernel_release(fixed);
    zl_scope_end(scope);
    test_setenv("ZL_CACHE_DIR", NULL);
    zl_clear_cache();
}
