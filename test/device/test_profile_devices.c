// test_profile_devices.c - profiles of devices that run kernels asynchronously: when launches ran, in graphs
// and outside of them, and their cost.
//
// Vulkan and OpenCL are real devices, if there are any; CUDA is the driver and the CUPTI of test/fake, under
// which device/test_cuda:profiles runs this file.

#include "device/profile/profile.h"
#include "schedule/schedule.h"
#include "test.h"
#include "zellige_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_fake(void) {
    static const char *const names[] = {"libcupti.so.13", NULL};
    const char *path = getenv("LD_LIBRARY_PATH");
    return path && strstr(path, "/fake") && library_open(names);
}

// Returns a stream of the device; NULL if it is not available. CUDA only counts with the libraries of
// test/fake.
static zl_stream on(const char *device) {
    bool is_there = false;
    zl_device_info info;
    for (int i = 0; zl_device(i, &info); i++)
        is_there |= !strcmp(info.device, device) && info.available;
    if (!is_there || (!strcmp(device, "cuda") && !has_fake()))
        return NULL;
    test_setenv("ZL_CACHE_DIR", test_folder());
    return zl_new_stream(device);
}

static const char *const devices[] = {"vulkan", "opencl", "cuda"};

static char *timeline(void) {
    static char path[512];
    snprintf(path, sizeof path, "%s/profile.json", test_folder());
    return path;
}

// Returns how many lines of the timeline contain both words.
static int count_lines(const char *text, const char *a, const char *b) {
    int count = 0;
    for (const char *at = text; *at;) {
        char line[1024];
        int len = (int)strcspn(at, "\n");
        snprintf(line, sizeof line, "%.*s", len, at);
        count += strstr(line, a) && strstr(line, b);
        at += len + (at[len] != 0);
    }
    return count;
}

static void run_chain(zl_array x) {
    ZL_SCOPE {
        zl_array y = zl_exp(x), z = zl_matmul(y, zl_add(y, zl_scalar(1)));
        CHECK(zl_eval(zl_sum(zl_multiply(z, y))));
    }
}

// Checks that each launch of a program is in the timeline once, with its ops, whether or not it belongs to a
// graph.
static void check_chains(const char *device, int runs) {
    zl_stream s = on(device);
    if (!s)
        return;
    zl_scope scope = zl_scope_begin_on(s);
    zl_array x = zl_full(ZL_SHAPE(24, 24), zl_scalar(0.5), ZL_FLOAT32); // too small for product.tile
    CHECK(zl_eval(x));
    REQUIRE(zl_profile_begin(timeline()));
    int64_t launches = zl_counter("launches"), graphs = zl_counter("graphs"), begin = clock_ns();
    for (int i = 0; i < runs; i++)
        run_chain(x);
    launches = zl_counter("launches") - launches;
    graphs = zl_counter("graphs") - graphs;
    char *table = zl_profile_end(), *text = file_read(timeline(), NULL);
    double lasted = (double)(clock_ns() - begin) * 1e-3;
    REQUIRE(table && text);
    if (!CHECK_EQ_INT(count_lines(text, "\"ph\":\"X\",\"pid\":10", "\"cat\":\"kernel\""), launches))
        test_note("%s", table);
    CHECK_EQ_INT(count_lines(text, "\"ph\":\"X\",\"pid\":10", "\"op\":\"matmul\""), runs);
    CHECK_EQ_INT(count_lines(text, "\"ph\":\"s\"", "launch"), launches);
    CHECK_EQ_INT(count_lines(text, "\"ph\":\"f\"", "launch"), launches);
    CHECK_EQ_INT(graphs > 0, !strcmp(device, "cuda") && runs > 5);
    CHECK_HAS(table, device);
    CHECK_HAS(table, "matmul [matmul]");
    // Launches and kernels use one clock: no kernel ran before the profile began, or ended after it.
    for (char *at = text; (at = strstr(at, "\"pid\":10,\"tid\":1,\"ts\":")); at++) {
        double ts = atof(at + strlen("\"pid\":10,\"tid\":1,\"ts\":"));
        if (!CHECK(ts > -1 && ts < lasted))
            break;
    }
    zl_free(table);
    memory_free(text);
    zl_scope_end(scope);
}

TEST(profile_of_launches) {
    for (size_t i = 0; i < COUNT(devices); i++)
        check_chains(devices[i], 2);
}

TEST(profile_of_graphs) {
    for (size_t i = 0; i < COUNT(devices); i++)
        check_chains(devices[i], 40); // more launches than OpenCL keeps events for
}

// Operations and bytes are those of the kernel's IR at the given sizes.
TEST(profile_of_known_kernels) {
    for (size_t i = 0; i < COUNT(devices); i++) {
        zl_stream s = on(devices[i]);
        if (!s)
            continue;
        zl_scope scope = zl_scope_begin_on(s);
        zl_array x = zl_full(ZL_SHAPE(4096), zl_scalar(0.5), ZL_FLOAT32),
                 y = zl_full(ZL_SHAPE(4096), zl_scalar(2), ZL_FLOAT32);
        CHECK(zl_eval(x) && zl_eval(y));
        REQUIRE(zl_profile_begin(timeline()));
        CHECK(zl_eval(zl_maximum(zl_multiply(zl_add(x, y), y), x)));
        char *table = zl_profile_end(), *text = file_read(timeline(), NULL);
        REQUIRE(table && text);
        if (!CHECK_EQ_INT(count_lines(text, "\"ph\":\"X\",\"pid\":10",
                                      "\"read\":32768,\"written\":16384,\"flops\":12288"),
                          1))
            test_note("%s", text);
        CHECK_HAS(text, "\"op\":\"add + multiply + maximum\",\"calls\":3");
        zl_free(table);
        memory_free(text);
        zl_scope_end(scope);
    }
}

// A call that the device cannot run appears as a fallback, with the copies it needs.
TEST(profile_of_fallbacks) {
    for (size_t i = 0; i < COUNT(devices); i++) {
        zl_stream s = on(devices[i]);
        if (!s)
            continue;
        zl_scope scope = zl_scope_begin_on(s);
        zl_array x = zl_add(zl_eye(8, 8, 0, ZL_FLOAT32), zl_scalar(1));
        CHECK(zl_eval(x));
        REQUIRE(zl_profile_begin(timeline()));
        bool ran = zl_eval(zl_linalg_eigvalsh(x, "L"));
        zl_clear_error();
        char *table = zl_profile_end();
        REQUIRE(table);
        if (ran && zl_counter("fallback_runs")) {
            CHECK(!strstr(table, "fallbacks: 0"));
            CHECK(!strstr(table, ", 0 B to the host"));
        }
        zl_free(table);
        zl_scope_end(scope);
    }
}

// If CUPTI does not work, launches are timed by events, without graphs, and the table says so.
TEST(profile_without_cupti) {
    zl_stream s = on("cuda");
    if (!s)
        SKIP("CUDA's driver is that of test/fake: device/test_cuda:profiles runs it so");
    zl_scope scope = zl_scope_begin_on(s);
    zl_array x = zl_full(ZL_SHAPE(32, 32), zl_scalar(0.5), ZL_FLOAT32);
    CHECK(zl_eval(x));
    test_setenv("FAKE_CUPTI_BUSY", "1");
    REQUIRE(zl_profile_begin(timeline()));
    int64_t launches = zl_counter("launches"), graphs = zl_counter("graphs");
    for (int i = 0; i < 40; i++)
        run_chain(x);
    launches = zl_counter("launches") - launches;
    CHECK_EQ_INT(zl_counter("graphs"), graphs);
    char *table = zl_profile_end(), *text = file_read(timeline(), NULL);
    test_setenv("FAKE_CUPTI_BUSY", NULL);
    CHECK_HAS(table, "cuda: CUPTI refuses to time kernels");
    CHECK_EQ_INT(count_lines(text, "\"ph\":\"X\",\"pid\":10", "\"cat\":\"kernel\""), launches);
    CHECK_EQ_INT(count_lines(text, "\"ph\":\"X\",\"pid\":10", "\"dur\":1000.000"),
                 launches); // the time that the driver of test/fake reports for everything
    zl_free(table);
    memory_free(text);
    zl_scope_end(scope);
}
