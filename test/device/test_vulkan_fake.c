// test_vulkan_fake.c - the Vulkan device when its driver fails, under the driver of test/fake.

static const char *lacks_fake(void);
#define TEST_LACKS lacks_fake

#include "on_devices.h"
#include "vulkan_add.h"

#include "zellige_tile.h"

#include <stdio.h>
#include <string.h>

enum { ELEMENTS = 1000, OUT_OF_MEMORY = VK_NO_DEVICE_MEMORY };

static struct {
    void (*fail)(const char *function, int after, int code);
    int64_t (*calls)(void);
} fake;

// The driver may be loaded without being the one in use.
static const char *lacks_fake(void) {
    static const char *const names[] = {ZL_BUILD_DIR "/fake/libvulkan.so.fake", NULL};
    void *library = library_open(names);
    const struct library_symbol symbols[] = {{"fake_fail", (void **)(void *)&fake.fail},
                                             {"fake_calls", (void **)(void *)&fake.calls}};
    return library && library_bind(library, symbols, COUNT(symbols), NULL) && vulkan_open(NULL) &&
                   !strncmp(vulkan_chip(0)->name, "fake", 4)
               ? NULL
               : "its driver is that of test/fake: device/test_vulkan:behind_other_drivers runs it so";
}

// device/test_vulkan:one_chip_is_one_gpu reads this test's output.
TEST(lists_gpus) {
    zl_device_info info;
    for (int i = 0; zl_device(i, &info); i++)
        if (info.is_gpu)
            printf("%s %d is a GPU\n", info.device, info.unit);
}

// Allocates memory, copies in both directions, and launches until the ring is full. Returns whether all of it
// worked.
static bool do_all(struct vulkan_device *d) {
    uint32_t many = 5 << 20;
    void *x = vulkan_zeros(d, ELEMENTS), *y = vulkan_zeros(d, ELEMENTS), *z = vulkan_zeros(d, many);
    bool good = x && y && z;
    for (uint32_t i = 0; i < 120 && good; i++)
        good = vulkan_add(d, i % 2 ? y : x, i % 2 ? x : y, ELEMENTS, 1);
    good = good && vulkan_add(d, z, z, ELEMENTS, 5);
    good = good && vulkan_last(d, x, ELEMENTS) == 120 && vulkan_last(d, z, ELEMENTS) == 5 &&
           vulkan_last(d, z, many) == 0;
    vulkan_wait(d, vulkan_point(d));
    vulkan_free(d, x);
    vulkan_free(d, y);
    vulkan_free(d, z);
    return good;
}

TEST(a_trial_that_fails_is_an_error_and_made_again) {
    struct vulkan_device *d = vulkan_opened(0);
    REQUIRE(d);
    test_setenv("ZL_CACHE_DIR", test_folder());
    atomic_store(&d->knows_rounding, false);
    fake.fail("vkQueueSubmit", 1, OUT_OF_MEMORY);
    CHECK_ERROR(ZL_ERROR_MEMORY, vulkan_device(0));
    vulkan_good(0);
    zl_clear_error();
    CHECK(vulkan_device(0) == d && d->unit.spirv.has_exact_root);
    test_setenv("ZL_CACHE_DIR", NULL);
}

// Must run before any other object exists: whichever call fails, there is an error, and the next attempt
// works.
TEST(any_call_may_fail) {
    struct vulkan_device *d = vulkan_opened(0);
    REQUIRE(d);
    int failures = 0, more = 1;
    for (int at = 1; more; at++) {
        int64_t before = fake.calls();
        fake.fail("", at, OUT_OF_MEMORY);
        bool good = do_all(d);
        more = fake.calls() - before >= at;
        failures += !good;
        CHECK(good == !zl_error());
        zl_clear_error();
        vulkan_good(0);
        zl_clear_error();
        fake.fail("", 0, 0);
        if (at % 8 == 0)
            CHECK(do_all(d));
    }
    CHECK(failures > 10);
    CHECK(do_all(d));
}

TEST(a_pipeline_that_cannot_be_made_is_an_error) {
    struct vulkan_device *d = vulkan_device(0);
    struct text source = {0}, code = {0};
    REQUIRE(d);
    text_bytes(&source, (const char *)vulkan_add_words, 4 * 290);
    fake.fail("vkCreateComputePipelines", 1, -13);
    CHECK_ERROR(ZL_ERROR_COMPILE, vulkan_compile(d, &source, &code));
    text_free(&code);
    code = (struct text){0};
    CHECK(vulkan_compile(d, &source, &code));
    text_free(&source);
    text_free(&code);
}

// Arrays that needed the failed call have its error; other arrays and the next attempt work.
TEST(arrays_have_the_errors) {
    static const struct {
        const char *function;
        int code;
    } given[] = {{"vkCreateComputePipelines", -13},
                 {"vkQueueSubmit", OUT_OF_MEMORY},
                 {"vkEndCommandBuffer", OUT_OF_MEMORY},
                 {"vkBeginCommandBuffer", OUT_OF_MEMORY}};
    test_setenv("ZL_CACHE_DIR", test_folder());
    zl_scope scope = zl_scope_begin_on(zl_new_stream("vulkan"));
    for (size_t i = 0; i < COUNT(given); i++) {
        zl_array x = zl_arange(0, 10 + (double)i, 1, ZL_FLOAT32);
        CHECK(zl_eval(x));
        fake.fail(given[i].function, 1, given[i].code);
        zl_array y = i ? zl_add(x, x) : zl_sinh(x); // no pipeline exists for it yet
        bool good = zl_eval(y) && zl_data(y);
        fake.fail("", 0, 0);
        CHECK(!good && zl_error());
        zl_clear_error();
        CHECK_EQ_F64(zl_item(zl_sum(zl_add(x, x))), (9.0 + (double)i) * (10 + (double)i));
    }
    zl_scope_end(scope);
    test_setenv("ZL_CACHE_DIR", NULL);
}

// Checks that the error contains what was needed, and the driver's limit.
static void check_refusal(const char *needed, uint32_t limit) {
    char most[32];
    snprintf(most, sizeof most, "%u at most", limit);
    CHECK(zl_error() && strstr(zl_error(), needed) && strstr(zl_error(), most));
    CHECK(zl_error() && strstr(zl_error(), "no buffer addresses"));
    zl_clear_error();
}

// Arrays larger than a binding of the driver, if its limit is small; also a view of their last elements.
TEST(arrays_larger_than_a_binding) {
    struct vulkan_device *d = vulkan_device(0);
    REQUIRE(d);
    bool is_small = d->storage_range < 1 << 20;
    int64_t n = is_small ? d->storage_range / 4 + ELEMENTS : ELEMENTS;
    zl_scope scope = zl_scope_begin_on(zl_new_stream("vulkan"));
    zl_array x = zl_arange(0, (double)n, 1, ZL_FLOAT32), y = zl_add(x, x);
    if (is_small && !d->has_addresses) {
        CHECK(!zl_eval(y) || !zl_data(y));
        check_refusal("bytes", d->storage_range);
    } else {
        CHECK(zl_eval(y));
        CHECK_EQ_F64(zl_item(zl_sum(y)), (double)(n * (n - 1)));
        CHECK_EQ_F64(zl_item(zl_max(zl_slice(y, ZL_SHAPE(n - 10), ZL_SHAPE(n), ZL_SHAPE(1)))),
                     (double)(2 * (n - 1)));
    }
    zl_scope_end(scope);
}

// A kernel with more buffers than the smallest devices allow per stage.
TEST(kernels_of_many_buffers) {
    static const char text[] =
        "kernel many(a: f32[n], b: f32[n], c: f32[n], d: f32[n], e: f32[n], f: f32[n], g: u8[n], h: i64[n]) "
        "-> (y: f32[n]) {\n"
        "  map i in n { y[i] = a[i] + b[i] + c[i] + d[i] + e[i] + f[i] + f32(g[i]) + f32(h[i]) }\n}\n";
    enum { BUFFERS = 9 };
    struct vulkan_device *d = vulkan_device(0);
    REQUIRE(d);
    zl_kernel k = zl_kernel_compile(text, "many", "vulkan");
    if (d->stage_buffers < BUFFERS && !d->has_addresses) {
        CHECK(!k);
        check_refusal("9 buffers", d->stage_buffers);
        return;
    }
    float in[6][ELEMENTS], out[ELEMENTS];
    uint8_t bytes[ELEMENTS];
    int64_t wide[ELEMENTS], dim = ELEMENTS, stride = 1;
    zl_kernel_buffer buffer[BUFFERS];
    for (int i = 0; i < ELEMENTS; i++) {
        for (int j = 0; j < 6; j++)
            in[j][i] = (float)(i + j);
        bytes[i] = (uint8_t)i;
        wide[i] = -i;
    }
    for (int j = 0; j < 6; j++)
        buffer[j] = (zl_kernel_buffer){in[j], ZL_FLOAT32, 1, &dim, &stride};
    buffer[6] = (zl_kernel_buffer){bytes, ZL_UINT8, 1, &dim, &stride};
    buffer[7] = (zl_kernel_buffer){wide, ZL_INT64, 1, &dim, &stride};
    buffer[8] = (zl_kernel_buffer){out, ZL_FLOAT32, 1, &dim, &stride};
    bool is_refused = ELEMENTS * sizeof *wide > d->storage_range && !d->has_addresses;
    CHECK(k && zl_kernel_run(k, BUFFERS, buffer) == !is_refused);
    if (is_refused)
        check_refusal("bytes", d->storage_range);
    for (int i = 0; i < ELEMENTS && !is_refused; i++)
        CHECK_EQ_F64(out[i], 5 * i + 15 + i % 256);
    zl_kernel_release(k);
}

// Must be the last test: nothing works on the device afterwards.
TEST(z_lost_device_is_an_error) {
    struct vulkan_device *d = vulkan_device(0);
    REQUIRE(d);
    void *x = vulkan_zeros(d, ELEMENTS);
    REQUIRE(x && vulkan_add(d, x, x, ELEMENTS, 1));
    fake.fail("vkWaitSemaphores", 1, VK_LOST);
    CHECK_ERROR(ZL_ERROR_DEVICE, vulkan_wait(d, vulkan_point(d)));
    CHECK_HAS(test_last_error(), "lost");
    CHECK_ERROR(ZL_ERROR_DEVICE, vulkan_device(0));
    zl_scope scope = zl_scope_begin_on(zl_new_stream("cpu"));
    CHECK_EQ_F64(zl_item(zl_add(zl_scalar(1), zl_scalar(2))), 3);
    zl_scope_end(scope);
}
