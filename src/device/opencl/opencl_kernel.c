// opencl_kernel.c - tile kernels on OpenCL's first device: rendered as OpenCL C, compiled by its driver, one launch a grid.

#include "device/group_kernel.h"
#include "device/opencl/opencl.h"

#include <string.h>

struct compiled {
    struct group_kernel group;
    struct opencl_device *device;
    cl_program program;
    cl_function *function; // one a launch
    struct lock lock;      // arguments belong to a function
};

// Compiling -------------------------------------------------------------------------------------------------------------

static void release(void *compiled) {
    struct compiled *c = compiled;
    for (int i = 0; c->function && i < c->group.launches; i++)
        if (c->function[i])
            opencl_api()->clReleaseKernel(c->function[i]);
    opencl_drop(c->program);
    memory_free(c->function);
    group_kernel_close(&c->group);
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
    if (!c->program) { // a driver that does not give its code away; else the same error
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
                group_kernel_open(&c->group, kernel) && build(c, source) && find_functions(c);
    if (good)
        return c;
    release(c);
    return NULL;
}

// Running ---------------------------------------------------------------------------------------------------------------

struct call {
    struct compiled *c;
    struct group_sizes sizes;
    void *const *address;
    const int64_t *symbol;
    cl_memory *memory; // of parameters that are buffers, of rooms, of the status where there is one
};

static bool is_value(const struct compiled *c, int i) {
    return tile_is_by_value(&c->group.kernel->parameter[i]);
}

static bool make_memory(struct call *k) {
    const struct group_kernel *g = &k->c->group;
    int32_t status = 0;
    for (int i = 0; i < g->parameters; i++)
        if (!is_value(k->c, i) &&
            (!(k->memory[i] = opencl_alloc(k->c->device, (size_t)k->sizes.bytes[i])) ||
             !opencl_write(k->c->device, k->memory[i], k->address[i], (size_t)k->sizes.bytes[i])))
            return false;
    for (int i = 0; i < g->rooms; i++)
        if (!(k->memory[g->parameters + i] = opencl_alloc(k->c->device, (size_t)k->sizes.room[i])))
            return false;
    cl_memory *last = &k->memory[g->parameters + g->rooms];
    return !g->has_status || ((*last = opencl_alloc(k->c->device, sizeof status)) &&
                              opencl_write(k->c->device, *last, &status, sizeof status));
}

static bool set(cl_function f, uint32_t *at, size_t bytes, const void *value) {
    return opencl_check(opencl_api()->clSetKernelArg(f, (*at)++, bytes, value), "clSetKernelArg");
}

static bool set_arguments(struct call *k, cl_function f) {
    const struct group_kernel *g = &k->c->group;
    uint32_t at = 0;
    bool good = true;
    for (int i = 0; i < g->parameters && good; i++)
        good = is_value(k->c, i) ? set(f, &at, (size_t)k->sizes.bytes[i], k->address[i])
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

static bool launch_all(struct call *k) {
    struct compiled *c = k->c;
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

static bool read_results(struct call *k) {
    const struct group_kernel *g = &k->c->group;
    int32_t status = 0;
    for (int i = 0; i < g->parameters; i++)
        if (!is_value(k->c, i) && g->kernel->parameter[i].buffer->is_output &&
            !opencl_read(k->c->device, k->address[i], k->memory[i], (size_t)k->sizes.bytes[i]))
            return false;
    bool done = g->has_status
                    ? opencl_read(k->c->device, &status, k->memory[g->parameters + g->rooms], sizeof status)
                    : opencl_check(opencl_api()->clFinish(k->c->device->queue), "clFinish");
    if (!done)
        return false;
    return !status || group_kernel_fail(g, status);
}

static bool run(void *compiled, void *const *address, const int64_t *symbol) {
    struct call k = {.c = compiled, .address = address, .symbol = symbol};
    int count = k.c->group.parameters + k.c->group.rooms + 1;
    k.memory = memory_zero(sizeof *k.memory * (size_t)count);
    bool good = k.memory && group_sizes_open(&k.sizes, &k.c->group, symbol, address) && make_memory(&k);
    if (good) {
        lock_take(&k.c->lock);
        good = launch_all(&k);
        lock_give(&k.c->lock);
    }
    good = good && read_results(&k);
    for (int i = 0; k.memory && i < count; i++)
        opencl_free(k.memory[i]);
    memory_free(k.memory);
    group_sizes_close(&k.sizes);
    return good;
}

const struct kernel_driver kernel_driver_opencl = {
    .name = "opencl", .device = "opencl", .compile = compile, .run = run, .free = release};
