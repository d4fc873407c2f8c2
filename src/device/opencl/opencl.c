// opencl.c - the device opencl: OpenCL devices, by the shared build of kernels (device/kernels) over
// opencl_driver.c.

#include "device/kernels/kernels.h"
#include "device/opencl/opencl.h"
#include "device/profile/profile.h"

#include <stdio.h>

extern const struct device device_opencl;

enum { MARKS = 64 };

static struct unit {
    struct lock lock; // arguments belong to a kernel object until it is enqueued; also guards `timed`
    cl_event mark[MARKS];
    struct profile_ring timed; // launches that are timed, by their events
} units[OPENCL_DEVICES];

// Finding ---------------------------------------------------------------------------------------------------

static int open_opencl(const char **reason) {
    return opencl_open(reason);
}

static bool is_host(int unit) {
    return opencl_kind(unit) & OPENCL_KIND_CPU;
}

static bool describe(int unit, zl_device_info *out) {
    static char detail[OPENCL_DEVICES][320];
    struct opencl_device *d = opencl_device(unit);
    if (!d)
        return false;
    snprintf(detail[unit], sizeof detail[unit], "%s, %s%s", d->platform, d->version,
             d->unit.target.lacks & PASS_BIT(ZL_FLOAT64) ? ", no float64" : "");
    out->model = d->name;
    out->detail = detail[unit];
    out->cores = (int)d->units;
    out->memory = d->memory;
    out->is_host = is_host(unit);
    return true;
}

// The target ------------------------------------------------------------------------------------------------

static const char *identity(int unit) {
    struct opencl_device *d = opencl_device(unit);
    return d ? d->identity : "";
}

static bool compile(int unit, const struct text *source, struct text *code) {
    struct opencl_device *d = opencl_device(unit);
    return d && opencl_compile(d, source, code);
}

static bool load(int unit, const char *code, size_t bytes, int count, struct kernel_function *function) {
    struct opencl_device *d = opencl_device(unit);
    cl_program program = d ? opencl_load(d, code, bytes) : NULL;
    bool good = program;
    for (int i = 0; i < count && good; i++)
        good = (function[i].handle = opencl_function(program, function[i].symbol));
    for (int i = 0; i < count && !good; i++)
        if (function[i].handle)
            opencl_api()->clReleaseKernel(function[i].handle);
    opencl_drop(program); // the functions hold references to it
    return good;
}

// Profiles --------------------------------------------------------------------------------------------------

// Reads the device's clock as the time at which a marker was queued.
static bool time_now(int unit, int64_t *time) {
    const struct opencl_api *api = opencl_api();
    struct opencl_device *d = opencl_device(unit);
    cl_event event = NULL;
    int64_t begin, end;
    if (!d || api->clEnqueueMarkerWithWaitList(d->queue, 0, NULL, &event) != CL_DONE)
        return false;
    api->clWaitForEvents(1, &event);
    return opencl_times(event, time, &begin, &end);
}

static bool times_of(int unit, int place, uint64_t handle, int64_t *begin, int64_t *end) {
    (void)unit, (void)place;
    cl_event event = (cl_event)(uintptr_t)handle;
    int64_t queued;
    opencl_api()->clWaitForEvents(1, &event);
    return opencl_times(event, &queued, begin, end);
}

static const struct profile_driver profile_driver = {
    "opencl: the driver does not tell when kernels ran: they are not in the table", time_now, times_of};

static void profile_end(void) {
    for (int i = 0; i < OPENCL_DEVICES; i++) {
        lock_take(&units[i].lock);
        profile_ring_end(&units[i].timed, &profile_driver, i);
        lock_give(&units[i].lock);
    }
}

// Launching -------------------------------------------------------------------------------------------------

static bool launch(const struct kernel_place *p, const struct kernel_function *f, int64_t groups,
                   int arguments, const struct kernel_argument *argument) {
    const struct opencl_api *api = opencl_api();
    struct opencl_device *d = opencl_device(p->unit);
    size_t items = (size_t)groups * (size_t)f->threads, group = (size_t)f->threads;
    if (!d)
        return false;
    struct profile_ring *timed = &units[p->unit].timed;
    cl_event event = NULL;
    lock_take(&units[p->unit].lock);
    bool ok = true, is_timed = profile_ring_wants(timed, &profile_driver, p->unit);
    for (int i = 0; ok && i < arguments; i++)
        ok = opencl_check(api->clSetKernelArg(f->handle, (uint32_t)i, argument[i].bytes, argument[i].value),
                          "clSetKernelArg");
    ok = ok && opencl_check(api->clEnqueueNDRangeKernel(d->queue, f->handle, 1, NULL, &items, &group, 0, NULL,
                                                        is_timed ? &event : NULL),
                            "clEnqueueNDRangeKernel");
    if (ok && event)
        profile_ring_add(timed, (uintptr_t)event);
    lock_give(&units[p->unit].lock);
    return ok;
}

static const struct kernel_target target = {
    .device = &device_opencl,
    .identity = identity,
    .record = opencl_target,
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

static bool copy(int unit, int lane, void *to, const void *from, size_t bytes, bool to_host) {
    (void)lane;
    struct opencl_device *d = opencl_device(unit);
    if (!d)
        return false;
    return to_host ? opencl_read(d, to, (cl_memory)(uintptr_t)from, bytes) : opencl_write(d, to, from, bytes);
}

static void *alloc(int unit, size_t bytes) {
    struct opencl_device *d = opencl_device(unit);
    return d ? opencl_alloc(d, bytes) : NULL;
}

static void free_memory(int unit, void *memory) {
    (void)unit;
    opencl_free(memory);
}

static bool record(int unit, int lane, int place) {
    (void)lane;
    struct opencl_device *d = opencl_device(unit);
    cl_event event = NULL;
    if (!d || !opencl_check(opencl_api()->clEnqueueMarkerWithWaitList(d->queue, 0, NULL, &event),
                            "clEnqueueMarkerWithWaitList"))
        return false;
    opencl_api()->clFlush(d->queue);
    lock_take(&units[unit].lock);
    cl_event old = units[unit].mark[place];
    units[unit].mark[place] = event;
    lock_give(&units[unit].lock);
    if (old)
        opencl_api()->clReleaseEvent(old);
    return true;
}

static bool wait(int unit, int lane, int place) {
    (void)lane;
    const struct opencl_api *api = opencl_api();
    lock_take(&units[unit].lock);
    cl_event event = units[unit].mark[place];
    if (event)
        api->clRetainEvent(event);
    lock_give(&units[unit].lock);
    if (!event)
        return true;
    bool ok = opencl_check(api->clWaitForEvents(1, &event), "clWaitForEvents");
    api->clReleaseEvent(event);
    return ok;
}

const struct device device_opencl = {
    .name = "opencl",
    .open = open_opencl,
    .describe = describe,
    .has_hardware = device_has_gpu_file,
    .chip = opencl_chip,
    .is_host = is_host,
    .can = can,
    .build = build,
    .drop = kernels_drop,
    .fuses = kernels_fuses,
    .run = kernels_run,
    .copy = copy,
    .alloc = alloc,
    .free = free_memory,
    .record = record,
    .wait = wait,
    .profile_end = profile_end,
};
