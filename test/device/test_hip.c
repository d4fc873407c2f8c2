// test_hip.c - the host side of the target hip: what is missing is reported, clang compiles kernels for the
// chip, launches get their arguments, memory is freed. It runs under the library of test/fake, without a GPU
// of AMD.

static const char *lacks_hip(void);
#define TEST_LACKS lacks_hip

#include "test.h"

#include "base/base.h"
#include "zellige_tile.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *(*launch)(void);
    void (*fail)(const char *function, int code);
    int (*used)(void);
    int (*alloc)(void **out, size_t bytes);
    int (*free)(void *memory);
} fake;

static const char twice[] = "kernel twice(a: f32[n]) -> (y: f32[n]) { map i in n { y[i] = a[i] * 2.0 } }";

static const char *lacks_hip(void) {
    static const char *const installed[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so", NULL};
    const struct library_symbol symbols[] = {{"fake_hip_launch", (void **)(void *)&fake.launch},
                                             {"fake_hip_fail", (void **)(void *)&fake.fail},
                                             {"fake_hip_used", (void **)(void *)&fake.used},
                                             {"hipMalloc", (void **)(void *)&fake.alloc},
                                             {"hipFree", (void **)(void *)&fake.free}};
    void *library = dlopen(ZL_BUILD_DIR "/fake/libamdhip64.so.6", RTLD_NOW); // library_open finds it by its
                                                                             // name from now on
    if (!library || !library_bind(library_open(installed), symbols, COUNT(symbols), NULL))
        return "another libamdhip64.so is installed";
    test_setenv("HSA_OVERRIDE_GFX_VERSION", "9.0.10");
    test_setenv("ZL_CACHE_DIR", test_folder());
    if (system("clang --print-targets 2>/dev/null | grep amdgcn >/dev/null"))
        return "no clang for amdgcn is installed";
    if (system("[ -x \"$(clang -print-prog-name=lld)\" ] && [ -x \"$(clang "
               "-print-prog-name=clang-offload-bundler)\" ]"))
        return "lld or clang-offload-bundler, which clang needs for amdgcn, is not installed";
    return NULL;
}

TEST(hip_kernels_are_launched) {
    float a[1000], y[1000] = {0};
    int64_t n = 1000;
    double seconds = 0;
    zl_kernel_buffer buffer[] = {{a, ZL_FLOAT32, 1, &n, NULL}, {y, ZL_FLOAT32, 1, &n, NULL}};
    zl_kernel k = zl_kernel_compile(twice, "twice.tile", "hip");
    REQUIRE(k);
    for (int i = 0; i < 1000; i++)
        a[i] = (float)i;
    CHECK(zl_kernel_run(k, 2, buffer));
    CHECK_STR(fake.launch(), "twice_0 1 1 1, 256 1 1, 0; 1000");
    CHECK(y[0] == 0 && y[999] == 1998);
    CHECK(zl_kernel_time(k, 2, buffer, 3, &seconds));
    CHECK_EQ_F64(seconds, 1e-3);
    CHECK_HAS(zl_kernel_source_text(k), "__global__");
    CHECK_EQ_INT(fake.used(), 0);
    zl_kernel_release(k);
}

// Only kernels with assertions get memory for the line of a failed one.
TEST(hip_assertions_are_told) {
    static const char text[] = "kernel guarded(a: f32[n]) -> (y: f32[n]) {\n  map i in n {\n"
                               "    assert a[i] >= 0, \"not negative\"\n    y[i] = a[i] * 2.0\n  }\n}\n";
    float a[4] = {0, 1, 2, 3}, y[4] = {0};
    int64_t n = 4;
    zl_kernel_buffer buffer[] = {{a, ZL_FLOAT32, 1, &n, NULL}, {y, ZL_FLOAT32, 1, &n, NULL}};
    zl_kernel k = zl_kernel_compile(text, "guarded.tile", "hip");
    REQUIRE(k);
    CHECK(zl_kernel_run(k, 2, buffer));
    CHECK_HAS(fake.launch(), "; 4, 0");
    CHECK(y[3] == 6);
    a[2] = -1;
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_run(k, 2, buffer));
    CHECK_HAS(test_last_error(), "kernel guarded, line 3: not negative");
    CHECK_EQ_INT(fake.used(), 0);
    zl_kernel_release(k);
}

// A launch gets the numbers of a table by value, from memory of the host or of the device.
TEST(hip_tables_are_values) {
    static const char text[] = "kernel looked_up(t: table f32[4], a: f32[n]) -> (y: f32[n]) {\n"
                               "  map i in n { y[i] = a[i] * t[i % 4] }\n}\n";
    float a[6] = {1, 1, 1, 1, 1, 2}, y[6] = {0}, table[4] = {5, 6, 7, 8};
    int64_t n = 6, four = 4;
    zl_kernel_buffer buffer[] = {
        {table, ZL_FLOAT32, 1, &four, NULL}, {a, ZL_FLOAT32, 1, &n, NULL}, {y, ZL_FLOAT32, 1, &n, NULL}};
    zl_kernel k = zl_kernel_compile(text, "looked_up.tile", "hip");
    REQUIRE(k);
    CHECK(zl_kernel_run(k, 3, buffer));
    CHECK(y[0] == 5 && y[3] == 8 && y[5] == 12);
    REQUIRE(fake.alloc(&buffer[0].data, sizeof table) == 0);
    memcpy(buffer[0].data, (float[]){-1, -2, -3, -4}, sizeof table);
    CHECK(zl_kernel_run(k, 3, buffer));
    CHECK(y[0] == -1 && y[3] == -4 && y[5] == -4);
    fake.fail("hipMemcpyDtoHAsync", 719);
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_kernel_run(k, 3, buffer));
    fake.free(buffer[0].data);
    CHECK_EQ_INT(fake.used(), 0);
    zl_kernel_release(k);
}

TEST(hip_calls_that_fail_are_errors) {
    float a[4] = {0}, y[4];
    int64_t n = 4;
    zl_kernel_buffer buffer[] = {{a, ZL_FLOAT32, 1, &n, NULL}, {y, ZL_FLOAT32, 1, &n, NULL}};
    zl_kernel k = zl_kernel_compile(twice, "twice.tile", "hip");
    REQUIRE(k);
    fake.fail("hipMalloc", 2);
    CHECK_ERROR(ZL_ERROR_MEMORY, zl_kernel_run(k, 2, buffer));
    CHECK_HAS(test_last_error(), "hip: hipMalloc: out of memory");
    fake.fail("hipModuleLaunchKernel", 719);
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_kernel_run(k, 2, buffer));
    CHECK_HAS(test_last_error(), "hipModuleLaunchKernel: told to fail");
    CHECK_EQ_INT(fake.used(), 0);
    zl_kernel_release(k);
    CHECK_ERROR(
        ZL_ERROR_COMPILE,
        zl_kernel_compile("kernel f(a: f32[n]) -> (y: f32[n]) { grid b in 1, threads 2048 { y[0] = a[0] } }",
                          "f", "hip"));
    CHECK_HAS(test_last_error(), "hip: kernel f has groups of 2048 threads and 0 bytes of shared "
                                 "memory; fake 0 has 1024 and 65536 at most");
}
