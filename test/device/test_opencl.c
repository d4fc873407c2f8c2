// test_opencl.c - the OpenCL driver alone: devices, memory, the compiler and its messages, timing.

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

static const char twice_text[] = "__kernel void twice(__global int *x, int n) {\n"
                                 "    if ((int)get_global_id(0) < n)\n"
                                 "        x[get_global_id(0)] *= 2;\n"
                                 "}\n";

TEST(opencl_runs_a_kernel) {
    if (test_lacks_opencl())
        SKIP(test_lacks_opencl());
    struct opencl_device *d = opencl_device(0);
    REQUIRE(d);
    const struct opencl_api *cl = opencl_api();
    int32_t data[100], n = 100;
    for (int i = 0; i < n; i++)
        data[i] = i;
    cl_memory memory = opencl_alloc(d, sizeof data);
    cl_program program = opencl_build(d, twice_text, strlen(twice_text));
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

TEST(opencl_keeps_texts_or_code) {
    if (test_lacks_opencl())
        SKIP(test_lacks_opencl());
    struct opencl_device *d = opencl_device(0);
    REQUIRE(d);
    bool keeps_code = d->keeps_code;
    for (int own = 0; own < 2; own++) {
        struct text source = {0}, code = {0};
        d->keeps_code = own;
        text_add(&source, "%s", twice_text);
        if (CHECK(opencl_compile(d, &source, &code))) {
            CHECK((code.len == source.len && !memcmp(code.data, source.data, (size_t)code.len)) == own);
            cl_program program = opencl_load(d, code.data, (size_t)code.len);
            cl_function twice = program ? opencl_function(program, "twice") : NULL;
            CHECK(twice);
            if (twice)
                opencl_api()->clReleaseKernel(twice);
            opencl_drop(program);
        }
        text_free(&source);
        text_free(&code);
    }
    d->keeps_code = keeps_code;
}

TEST(opencl_compiler_says_why) {
    if (test_lacks_opencl())
        SKIP(test_lacks_opencl());
    struct opencl_device *d = opencl_device(0);
    REQUIRE(d);
    const char *wrong = "__kernel void f(__global int *x) { x[0] = unknown; }";
    CHECK(!opencl_build(d, wrong, strlen(wrong)));
    CHECK_HAS(zl_error(), "unknown");
    zl_clear_error();
    CHECK_ERROR(ZL_ERROR_MEMORY, opencl_alloc(d, SIZE_MAX));
}
