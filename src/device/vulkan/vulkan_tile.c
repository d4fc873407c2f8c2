// vulkan_tile.c - the target vulkan: tile kernels as SPIR-V on the first chip, with one launch per grid.

#include "device/tile_runtime/group_kernel.h"
#include "device/vulkan/vulkan.h"

#include <stdio.h>

struct compiled {
    struct group_kernel group;
    struct vulkan_device *device;
    struct vulkan_function **function; // one per launch
    struct tile_kernel *kernel;        // before passes; NULL: it cannot be
    struct compiled *far;              // made of that, for arguments that need addresses; NULL: none did yet
};

// Compiling -------------------------------------------------------------------------------------------------

static void release(void *compiled) {
    struct compiled *c = compiled;
    if (c->far)
        release(c->far);
    tile_free(c->kernel);
    if (c->function)
        vulkan_unload(c->device, c->group.launches, c->function[0]);
    memory_free(c->function);
    device_group_kernel_close(&c->group);
    memory_free(c);
}

static bool compile_words(const struct text *source, struct text *code, void *context) {
    const struct compiled *c = context;
    return vulkan_compile(c->device, source, code);
}

static void *load_code(const char *code, size_t bytes, void *context) {
    struct compiled *c = context;
    return vulkan_load(c->device, code, bytes, c->group.launches, c->function) ? c : NULL;
}

static bool build(struct compiled *c, const struct text *source) {
    c->function = memory_zero(sizeof *c->function * (size_t)(c->group.launches + 1));
    return c->function &&
           kernel_code_use(&(struct kernel_code){c->device->identity, source, compile_words, load_code, c});
}

static struct compiled *compile_for(struct vulkan_device *d, bool is_far, struct tile_kernel *kernel,
                                    struct text *source) {
    struct compiled *c = memory_zero(sizeof *c);
    if (!c)
        return NULL;
    const struct target *target = is_far ? &d->far.target : &d->unit.target;
    c->device = d;
    if ((!target->far || (c->kernel = kernel_copy(kernel))) && render_kernel(source, kernel, target) &&
        device_group_kernel_open(&c->group, kernel) && build(c, source))
        return c;
    release(c);
    return NULL;
}

static void *compile(struct tile_kernel *kernel, struct text *source) {
    struct vulkan_device *d = vulkan_device(0);
    return d ? compile_for(d, false, kernel, source) : NULL;
}

// Returns the kernel, or its variant with 64-bit addresses if an argument is too large for a bound buffer.
// NULL and an error.
static struct compiled *fitting(struct compiled *c, const struct group_sizes *sizes) {
    static struct lock lock;
    struct text source = {0};
    if (!c->kernel || (uint64_t)device_group_sizes_most(sizes, &c->group) <= c->device->unit.target.reach)
        return c;
    lock_take(&lock);
    if (!c->far)
        c->far = compile_for(c->device, true, c->kernel, &source);
    c = c->far;
    lock_give(&lock);
    text_free(&source);
    return c;
}

// Running ---------------------------------------------------------------------------------------------------

static void *alloc(void *device, size_t bytes) {
    return vulkan_alloc(device, bytes);
}

static bool copy_in(void *device, void *to, const void *from, size_t bytes) {
    return vulkan_write(device, to, from, bytes);
}

static bool copy_out(void *device, void *to, const void *from, size_t bytes) {
    return vulkan_read(device, to, from, bytes, UINT64_MAX);
}

static void free_memory(void *device, void *memory) {
    vulkan_free(device, memory);
}

static const struct group_memory memory_calls = {alloc, copy_in, copy_out, free_memory};

struct call {
    struct group_call group;
    struct compiled *c;
    int repeats;
};

static void list_arguments(const struct group_call *k, struct vulkan_launch *l) {
    const struct group_kernel *g = k->group;
    for (int i = 0; i < g->parameters; i++)
        if (!device_group_call_is_value(k, i))
            vulkan_launch_buffer(l, k->memory[i], (uint64_t)k->sizes.bytes[i],
                                 g->kernel->parameter[i].buffer->is_output);
    for (int i = 0; i < g->rooms; i++)
        vulkan_launch_buffer(l, k->memory[g->parameters + i], (uint64_t)k->sizes.room[i], true);
    if (g->has_status)
        vulkan_launch_buffer(l, k->memory[g->parameters + g->rooms], sizeof(int32_t), true);
    vulkan_launch_block(l, k->device);
    for (int i = 0; i < g->parameters; i++)
        if (device_group_call_is_value(k, i))
            vulkan_launch_value(l, k->address[i], (size_t)k->sizes.bytes[i]);
    for (int i = 0; i < g->kernel->symbols; i++) {
        int32_t narrow = (int32_t)k->symbol[i];
        bool wide = g->kernel->index_bits == 64;
        vulkan_launch_value(l, wide ? (const void *)&k->symbol[i] : &narrow,
                            wide ? sizeof *k->symbol : sizeof narrow);
    }
}

static bool launch_all(void *data) {
    const struct call *k = data;
    struct vulkan_launch l;
    for (int turn = 0; turn < k->repeats; turn++)
        for (int i = 0; i < k->c->group.launches; i++) {
            vulkan_launch_begin(&l, k->c->function[i], k->group.sizes.groups[i]);
            list_arguments(&k->group, &l);
            if (l.groups && !vulkan_launch(k->c->device, &l))
                return false;
        }
    return true;
}

// Runs a kernel. With `seconds`, it first runs once to warm up, and then the time is that of one of many
// runs. Memory of a device that is lost is left to the driver.
static bool run_timed(struct compiled *c, void *const *address, const int64_t *symbol, int repeats,
                      double *seconds) {
    struct vulkan_device *d = vulkan_opened(vulkan_unit(c->device));
    struct call k = {{&c->group, &memory_calls, d, address, symbol}, c, 1};
    double ns = 0;
    if (!d)
        return false;
    bool good = device_group_call_open(&k.group) && (k.c = fitting(c, &k.group.sizes)) && launch_all(&k);
    k.repeats = repeats;
    if (good && seconds) {
        good = vulkan_time(d, launch_all, &k, &ns);
        *seconds = ns / 1e9 / MAX_OF(repeats, 1);
    }
    good = good && device_group_call_read(&k.group);
    bool had_error = zl_error(), is_done = vulkan_wait(d, vulkan_point(d));
    if (!had_error && !is_done)
        zl_clear_error();
    device_group_call_close(&k.group, is_done);
    return good;
}

static bool run(void *compiled, void *const *address, const int64_t *symbol) {
    return run_timed(compiled, address, symbol, 0, NULL);
}

static bool time_runs(void *compiled, void *const *address, const int64_t *symbol, int repeats,
                      double *seconds) {
    return run_timed(compiled, address, symbol, repeats, seconds);
}

// Rounding --------------------------------------------------------------------------------------------------

static bool run_once(struct tile_kernel *kernel, void *const *address, const int64_t *symbol, void *device) {
    struct text words = {0};
    struct compiled *c = compile_for(device, false, kernel, &words);
    bool good = c && run(c, address, symbol);
    if (c)
        release(c);
    text_free(&words);
    return good;
}

static bool try_rounding(struct vulkan_device *d) {
    const struct target_spirv *s = &d->unit.spirv;
    struct kernel_trial trial = {d->identity, &d->unit.target, &d->unit.spirv, run_once, d};
    if (!kernel_try_rounding(&trial))
        return false;
    d->far.spirv = d->unit.spirv;
    d->far.spirv.is_far = true;
    snprintf(d->whole_detail, sizeof d->whole_detail, "%s%s%s%s", d->detail,
             s->is_inexact ? ", does not round to the nearest" : "",
             s->flushes ? ", makes 0 of subnormal numbers" : "",
             s->fma_flushes && !s->flushes ? ", its fma makes 0 of subnormal numbers" : "");
    return true;
}

bool vulkan_know_rounding(struct vulkan_device *d) {
    static struct lock lock;
    if (LIKELY(atomic_load_explicit(&d->knows_rounding, memory_order_acquire)))
        return true;
    lock_take(&lock);
    bool good = atomic_load(&d->knows_rounding) || try_rounding(d);
    atomic_store_explicit(&d->knows_rounding, good, memory_order_release);
    lock_give(&lock);
    return good;
}

const struct kernel_driver kernel_driver_vulkan = {
    .name = "vulkan", .device = "vulkan", .compile = compile, .run = run, .time = time_runs, .free = release};
