// test_opencl.c - the OpenCL driver alone: devices, memory, the compiler and its messages, times.

#include "on_devices.h"

#include "device/opencl/opencl.h"

#include <string.h>

TEST(opencl_describes_itself) {
    if (test_lacks_opencl())
        SKIP(test_lacks_opencl());
    struct opencl_device *d = opencl_device(0);
    REQUIRE(d);
    CHECK(d->name[0] && d->memory > 0 && d->units > 0 && d->unit.group.most_threads > 0 &&
          d->unit.group.most_shared > 0);
    CHECK_ERROR(ZL_ERROR_DEVICE, opencl_device(opencl_open(NULL)));
    CHECK_ERROR(ZL_ERROR_DEVICE, opencl_device(-1));
}

TEST(opencl_runs_a_kernel) {
    static const char text[] = "__kernel void twice(__global int *x, int n) {\n"
                               "    if ((int)get_global_id(0) < n)\n"
                               "        x[get_global_id(0)] *= 2;\n"
                               "}\n";
    if (test_lacks_opencl())
        SKIP(test_lacks_opencl());
    struct opencl_device *d = opencl_device(0);
    REQUIRE(d);
    const struct opencl_api *cl = opencl_api();
    int32_t data[100], n = 100;
    for (int i = 0; i < n; i++)
        data[i] = i;
    cl_memory memory = opencl_alloc(d, sizeof data);
    cl_program program = opencl_build(d, text, NULL);
    REQUIRE(memory && program && opencl_write(d, memory, data, sizeof data));
    cl_function twice = opencl_function(program, "twice");
    REQUIRE(twice);
    size_t items = 128, group = 32;
    cl_event event;
    CHECK(opencl_check(cl->clSetKernelArg(twice, 0, sizeof memory, &memory), "clSetKernelArg"));
    CHECK(opencl_check(cl->clSetKernelArg(twice, 1, sizeof n, &n), "clSetKernelArg"));
    CHECK(cl->clEnqueueNDRangeKernel(d->queue, twice, 1, NULL, &items, &group, 0, NULL, &event) == CL_DONE);
    CHECK(opencl_read(d, data, memory, sizeof data));
    CHECK_EQ_INT(data[99], 198);
    CHECK(opencl_time(event) > 0);
    CHECK_ERROR(ZL_ERROR_COMPILE, opencl_function(program, "thrice"));
    cl->clReleaseKernel(twice);
    opencl_drop(program);
    opencl_free(memory);
}

TEST(opencl_compiler_says_why) {
    if (test_lacks_opencl())
        SKIP(test_lacks_opencl());
    struct opencl_device *d = opencl_device(0);
    REQUIRE(d);
    CHECK(!opencl_build(d, "__kernel void f(__global int *x) { x[0] = unknown; }", NULL));
    CHECK_HAS(zl_error(), "unknown");
    zl_clear_error();
    CHECK_ERROR(ZL_ERROR_MEMORY, opencl_alloc(d, SIZE_MAX));
}
