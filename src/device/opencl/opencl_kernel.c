// opencl_kernel.c - tile kernels on the first OpenCL device: rendered as OpenCL C, compiled by its driver,
// with one launch per grid.

#include "device/tile_runtime/group_kernel.h"
#include "device/opencl/opencl.h"

#include <string.h>

struct compiled {
    struct group_kernel group;
    struct opencl_device *device;
    cl_program program;
    cl_function *function; // one per launch
    struct lock lock;      // held while arguments are set, which belong to the function
};

// Compiling -------------------------------------------------------------------------------------------------

static void release(void *compiled) {
    struct compiled *c = compiled;
    for (int i = 0; c->function && i < c->group.launches; i++)
        if (c->function[i])
            opencl_api()->clReleaseKernel(c->function[i]);
    opencl_drop(c->program);
    memory_free(c->function);
    device_group_kernel_close(&c->group);
    memory_free(c);
}

static bool find_functions(struct compiled *c) {
    c->function = memory_zero(sizeof *c->function * (size_t)(c->group.launches + 1));
    for (int i = 0; c->function && i < c->group.launches; i++) {
        struct text name = {0};
        text_add(&name, "%s_%d", c->group.kernel->name, i);
        bool good = !name.failed && (c->function[i] = opencl_function(c->program, name.data));
        text_free(&name);
        if (!good)
            return false;
    }
    return c->function;
}

static bool compile_text(const struct text *source, struct text *code, void *context) {
    return opencl_compile(context, source, code);
}

static void *load_code(const char *code, size_t bytes, void *context) {
    return opencl_load(context, code, bytes);
}

static bool build(struct compiled *c, const struct text *source) {
    struct opencl_device *d = c->device;
    c->program = kernel_code_use(&(struct kernel_code){d->identity, source, compile_text, load_code, d});
    if (!c->program) { // the driver may not return its code; otherwise the error recurs
        zl_clear_error();
        c->program = opencl_build(d, source->data, (size_t)source->len);
    }
    return c->program;
}

static void *compile(struct tile_kernel *kernel, struct text *source) {
    struct compiled *c = memory_zero(sizeof *c);
    if (!c)
        return NULL;
    bool good = (c->device = opencl_device(0)) && render_kernel(source, kernel, &c->device->unit.target) &&
                device_group_kernel_open(&c->group, kernel) && build(c, source) && find_functions(c);
    if (good)
        return c;
    release(c);
    return NULL;
}

// Running ---------------------------------------------------------------------------------------------------

static void *alloc(void *device, size_t bytes) {
    return opencl_alloc(device, bytes);
}

static bool copy_in(void *device, void *to, const void *from, size_t bytes) {
    return opencl_write(device, to, from, bytes);
}

static bool copy_out(void *device, void *to, const void *from, size_t bytes) {
    return opencl_read(device, to, (cl_memory)(uintptr_t)from, bytes);
}

static void free_memory(void *device, void *memory) {
    (void)device;
    opencl_free(memory);
}

static const struct group_memory memory_calls = {alloc, copy_in, copy_out, free_memory};

static bool set(cl_function f, uint32_t *at, size_t bytes, const void *value) {
    return opencl_check(opencl_api()->clSetKernelArg(f, (*at)++, bytes, value), "clSetKernelArg");
}

static bool set_arguments(const struct group_call *k, cl_function f) {
    const struct group_kernel *g = k->group;
    uint32_t at = 0;
    bool good = true;
    for (int i = 0; i < g->parameters && good; i++)
        good = device_group_call_is_value(k, i) ? set(f, &at, (size_t)k->sizes.bytes[i], k->address[i])
                                                : set(f, &at, sizeof k->memory[i], &k->memory[i]);
    for (int i = 0; i < g->rooms && good; i++)
        good = set(f, &at, sizeof *k->memory, &k->memory[g->parameters + i]);
    for (int i = 0; i < g->kernel->symbols && good; i++) {
        int32_t narrow = (int32_t)k->symbol[i];
        good =
            g->kernel->index_bits == 32 ? set(f, &at, sizeof narrow, &narrow) : set(f, &at, 8, &k->symbol[i]);
    }
    return good && (!g->has_status || set(f, &at, sizeof *k->memory, &k->memory[g->parameters + g->rooms]));
}

static bool launch_all(const struct compiled *c, const struct group_call *k) {
    for (int i = 0; i < c->group.launches; i++) {
        size_t group = (size_t)c->group.launch[i].threads, items = (size_t)k->sizes.groups[i] * group;
        if (items && (!set_arguments(k, c->function[i]) ||
                      !opencl_check(opencl_api()->clEnqueueNDRangeKernel(c->device->queue, c->function[i], 1,
                                                                         NULL, &items, &group, 0, NULL, NULL),
                                    "clEnqueueNDRangeKernel")))
            return false;
    }
    return true;
}

static bool run(void *compiled, void *const *address, const int64_t *symbol) {
    struct compiled *c = compiled;
    struct group_call k = {&c->group, &memory_calls, c->device, address, symbol};
    bool good = device_group_call_open(&k);
    if (good) {
        lock_take(&c->lock);
        good = launch_all(c, &k);
        lock_give(&c->lock);
    }
    good = good && opencl_check(opencl_api()->clFinish(c->device->queue), "clFinish") &&
           device_group_call_read(&k);
    device_group_call_close(&k, true);
    return good;
}

const struct kernel_driver kernel_driver_opencl = {
    .name = "opencl", .device = "opencl", .compile = compile, .run = run, .free = release};
