// vulkan.c - the device vulkan: chips with a Vulkan driver, by the shared build of kernels (device/kernels)
// over vulkan_queue.c.

#include "device/kernels/kernels.h"
#include "device/vulkan/vulkan.h"

#include <string.h>

extern const struct device device_vulkan;

enum { MARKS = 64 };

// Values of the timeline: those of the marks, and the one that copies on the extra lane wait for.
static struct unit { atomic_ullong mark[MARKS], aside; } units[VULKAN_DEVICES];

// Finding ---------------------------------------------------------------------------------------------------

static bool chip(int unit, unsigned char id[DEVICE_CHIP_ID]) {
    const struct vulkan_device *d = vulkan_chip(unit);
    if (d)
        memcpy(id, d->id, DEVICE_CHIP_ID);
    return d;
}

static bool describe(int unit, zl_device_info *out) {
    const struct vulkan_device *d = vulkan_chip(unit);
    if (!d)
        return false;
    out->model = d->name;
    out->detail = atomic_load(&d->knows_rounding) ? d->whole_detail : d->detail;
    out->memory = d->memory;
    out->is_host = d->is_host;
    return true;
}

// The target ------------------------------------------------------------------------------------------------

static const char *identity(int unit) {
    const struct vulkan_device *d = vulkan_chip(unit);
    return d ? d->identity : "";
}

static bool compile(int unit, const struct text *source, struct text *code) {
    struct vulkan_device *d = vulkan_device(unit);
    return d && vulkan_compile(d, source, code);
}

static bool load(int unit, const char *code, size_t bytes, int count, struct kernel_function *function) {
    struct vulkan_device *d = vulkan_device(unit);
    struct vulkan_function *f[KERNEL_GRIDS];
    bool good = d && vulkan_load(d, code, bytes, count, f);
    for (int i = 0; i < count && good; i++)
        function[i].handle = f[i];
    return good;
}

static bool launch(const struct kernel_place *p, const struct kernel_function *f, int64_t groups,
                   int arguments, const struct kernel_argument *argument) {
    struct vulkan_device *d = vulkan_device(p->unit);
    struct vulkan_launch l;
    if (!d)
        return false;
    vulkan_launch_begin(&l, f->handle, groups);
    for (int i = 0; i < arguments; i++)
        if (argument[i].access != KERNEL_VALUE)
            vulkan_launch_buffer(&l, *(void *const *)argument[i].value, argument[i].reach,
                                 argument[i].access == KERNEL_WRITTEN);
    vulkan_launch_block(&l, d);
    for (int i = 0; i < arguments; i++)
        if (argument[i].access == KERNEL_VALUE)
            vulkan_launch_value(&l, argument[i].value, argument[i].bytes);
    return vulkan_launch(d, &l);
}

static const struct kernel_target target = {
    .device = &device_vulkan,
    .identity = identity,
    .record = vulkan_target,
    .compile = compile,
    .load = load,
    .launch = launch,
};

// The table -------------------------------------------------------------------------------------------------

static bool can(int unit, const struct call *c) {
    return kernels_can(&target, unit, c);
}

static struct program *build(int unit, const struct segment *s) {
    return kernels_build(&target, unit, s);
}

static void run(int unit, struct program *p, struct binding *b) {
    struct vulkan_device *d = vulkan_device(unit);
    kernels_run(unit, p, b);
    if (d)
        vulkan_submit_if_idle(d);
}

static void *alloc(int unit, size_t bytes) {
    struct vulkan_device *d = vulkan_device(unit);
    return d ? vulkan_alloc(d, bytes) : NULL;
}

// Frees memory when the device has finished using it. If the device is lost, the memory is left to the
// driver.
static void free_memory(int unit, void *memory) {
    bool had_error = zl_error();
    struct vulkan_device *d = vulkan_device(unit);
    if (d && vulkan_wait(d, vulkan_point(d)))
        vulkan_free(d, memory);
    else if (!had_error)
        zl_clear_error();
}

static bool copy(int unit, int lane, void *to, const void *from, size_t bytes, bool to_host) {
    struct vulkan_device *d = vulkan_device(unit);
    if (!d)
        return false;
    if (!to_host)
        return vulkan_write(d, to, from, bytes);
    return vulkan_read(d, to, from, bytes,
                       lane == DEVICE_LANES ? atomic_load(&units[unit].aside) : UINT64_MAX);
}

// Submits the open batch and records its point as the mark's. If the device rejects the batch, vulkan_good
// reports it.
static bool record(int unit, int lane, int place) {
    (void)lane;
    bool had_error = zl_error();
    struct vulkan_device *d = vulkan_device(unit);
    if (!d)
        return false;
    if (!vulkan_submit(d) && !had_error)
        zl_clear_error();
    atomic_store(&units[unit].mark[place], vulkan_point(d));
    return true;
}

static bool wait(int unit, int lane, int place) {
    (void)lane;
    struct vulkan_device *d = vulkan_device(unit);
    return d && vulkan_wait(d, atomic_load(&units[unit].mark[place]));
}

// Makes later work of a lane wait for a mark. All work has one order, so only the extra lane for copies has
// to be told; waiting for more than necessary does no harm.
static bool follow(int unit, int lane, int other, int place) {
    (void)other;
    unsigned long long mark = atomic_load(&units[unit].mark[place]), before = atomic_load(&units[unit].aside);
    while (lane == DEVICE_LANES && before < mark &&
           !atomic_compare_exchange_weak(&units[unit].aside, &before, mark))
        ;
    return true;
}

static bool done(int unit, int lane, int place) {
    (void)lane;
    struct vulkan_device *d = vulkan_device(unit);
    return d && vulkan_is_done(d, atomic_load(&units[unit].mark[place]));
}

static bool good(int unit, int lane) {
    (void)lane;
    return vulkan_good(unit);
}

const struct device device_vulkan = {
    .name = "vulkan",
    .open = vulkan_open,
    .describe = describe,
    .has_hardware = device_has_gpu_file,
    .chip = chip,
    .is_host = vulkan_is_host,
    .can = can,
    .build = build,
    .drop = kernels_drop,
    .fuses = kernels_fuses,
    .run = run,
    .copy = copy,
    .alloc = alloc,
    .free = free_memory,
    .record = record,
    .wait = wait,
    .good = good,
    .lanes = 1,
    .reads_aside = true,
    .follow = follow,
    .done = done,
    .profile_end = vulkan_profile_end,
};
