// cuda.c - the device cuda: NVIDIA GPUs, by the shared build of kernels over cuda_driver.c.

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"
#include "device/cuda/cuda_queue.h"
#include "op/ops.h"

#include <stdio.h>

extern const struct device device_cuda;

enum { MARKS = 64 };
_Static_assert((int)CUDA_LANES == (int)DEVICE_LANES,
               "the lane DEVICE_LANES is the one that only copies to the host");

static struct unit {
    struct lock lock; // guards what is made at its first use
    cuda_event mark[CUDA_LANES][MARKS];
    char identity[512];
} units[CUDA_DEVICES];

// Finding ---------------------------------------------------------------------------------------------------

// Opens the device. A missing compiler is reported as the reason, because there are no kernels without one,
// and a user can install it.
static int open_cuda(const char **reason) {
    bool had_error = zl_error();
    int count = cuda_open(reason);
    if (!count || cuda_compiler())
        return count;
    if (!had_error)
        zl_clear_error();
    *reason = "there is a GPU, but neither libnvrtc.so nor nvcc: install the CUDA toolkit, or name its "
              "folder in ZL_CUDA";
    return 0;
}

static bool describe(int unit, zl_device_info *out) {
    static char detail[CUDA_DEVICES][320];
    struct cuda_device *d = cuda_device(unit);
    if (!d)
        return false;
    snprintf(detail[unit], sizeof detail[unit], "compute capability %d.%d, driver for CUDA %d.%d, %s",
             d->major, d->minor, d->driver / 1000, d->driver % 1000 / 10, cuda_compiler());
    out->model = d->name;
    out->detail = detail[unit];
    out->cores = d->units;
    out->memory = d->memory;
    return true;
}

// The target ------------------------------------------------------------------------------------------------

static const char *identity(int unit) {
    struct cuda_device *d = cuda_device(unit);
    struct unit *u = &units[unit];
    lock_take(&u->lock);
    if (d && !u->identity[0])
        snprintf(u->identity, sizeof u->identity, "cuda %s %d.%d driver %d %s", d->name, d->major, d->minor,
                 d->driver, cuda_compiler());
    lock_give(&u->lock);
    return u->identity;
}

static bool compile(int unit, const struct text *source, struct text *code) {
    char architecture[16];
    cuda_architecture(unit, architecture, sizeof architecture);
    return *architecture && cuda_compile(source->data, architecture, NULL, code);
}

static bool load(int unit, const char *code, size_t bytes, int count, struct kernel_function *function) {
    const char *symbol[KERNEL_GRIDS] = {NULL};
    cuda_function f[KERNEL_GRIDS];
    (void)bytes;
    for (int i = 0; i < count; i++)
        symbol[i] = function[i].symbol;
    bool good = cuda_load(unit, code, count, symbol, f);
    for (int i = 0; i < count && good; i++) {
        function[i].handle = f[i];
        good = cuda_allow_shared(f[i], function[i].shared);
    }
    return good;
}

static bool launch(const struct kernel_place *p, const struct kernel_function *f, int64_t groups,
                   int arguments, const struct kernel_argument *argument) {
    return cuda_queue_launch(p->unit, p->lane, f, groups, arguments, argument);
}

static const struct kernel_target target = {
    .device = &device_cuda,
    .identity = identity,
    .record = cuda_target,
    .compile = compile,
    .load = load,
    .launch = launch,
    .take = cuda_take,
    .takes = cuda_takes,
    .fuse = cuda_lt_fuse,
    .count = cuda_lt_count,
};

// The table -------------------------------------------------------------------------------------------------

static bool can(int unit, const struct call *c) {
    return kernels_can(&target, unit, c);
}

static struct program *build(int unit, const struct segment *s) {
    return kernels_build(&target, unit, s);
}

static void run(int unit, struct program *p, struct binding *b) {
    cuda_queue_begin(unit, b->lane, p);
    kernels_run(unit, p, b);
    cuda_queue_end(unit, b->lane);
}

static void drop(struct program *p) {
    cuda_queue_forget(p);
    kernels_drop(p);
}

static void free_memory(int unit, void *memory) {
    for (int lane = 0; lane < CUDA_LANES; lane++)
        cuda_queue_flush(unit, lane);
    cuda_free(unit, memory);
}

static bool copy(int unit, int lane, void *to, const void *from, size_t bytes, bool to_host) {
    cuda_queue_flush(unit, lane);
    return to_host ? cuda_read(unit, lane, to, from, bytes) : cuda_write(unit, lane, to, from, bytes);
}

static bool receive(int unit, int lane, void *pages, const void *from, size_t bytes) {
    cuda_queue_flush(unit, lane);
    return cuda_receive(unit, lane, pages, from, bytes);
}

// Returns an event of a lane, which is made at its first use, or NULL and an error.
static cuda_event mark_at(int unit, int lane, int place) {
    struct unit *u = &units[unit];
    cuda_event *mark = &u->mark[lane][place];
    lock_take(&u->lock);
    if (!*mark)
        cuda_check(cuda_event_make(mark), "cuEventCreate");
    lock_give(&u->lock);
    return *mark;
}

static bool record(int unit, int lane, int place) {
    struct cuda_device *d = cuda_device(unit);
    cuda_event mark = d ? mark_at(unit, lane, place) : NULL;
    cuda_queue_flush(unit, lane);
    return mark && cuda_check(cuda_api()->cuEventRecord(mark, d->stream[lane]), "cuEventRecord");
}

static bool wait(int unit, int lane, int place) {
    cuda_event mark = cuda_device(unit) ? mark_at(unit, lane, place) : NULL;
    return mark && cuda_event_wait(mark);
}

// Work that the lane has recorded but not submitted also waits for the mark, which does no harm.
static bool follow(int unit, int lane, int other, int place) {
    struct cuda_device *d = cuda_device(unit);
    cuda_event mark = d ? mark_at(unit, other, place) : NULL;
    return mark && cuda_check(cuda_api()->cuStreamWaitEvent(d->stream[lane], mark, 0), "cuStreamWaitEvent");
}

static bool done(int unit, int lane, int place) {
    cuda_event mark = cuda_device(unit) ? mark_at(unit, lane, place) : NULL;
    return mark && !cuda_api()->cuEventQuery(mark);
}

static void *library(int unit, const char *name, int version) {
    return cuda_device(unit) ? cuda_library(name, (const int[CUDA_VERSIONS]){version}) : NULL;
}

const struct device device_cuda = {
    .name = "cuda",
    .open = open_cuda,
    .describe = describe,
    .chip = cuda_chip,
    .can = can,
    .build = build,
    .drop = drop,
    .fuses = kernels_fuses,
    .run = run,
    .copy = copy,
    .alloc = cuda_alloc,
    .free = free_memory,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .receive = receive,
    .record = record,
    .wait = wait,
    .good = cuda_queue_good,
    .lanes = CUDA_LANES,
    .reads_aside = true,
    .follow = follow,
    .done = done,
    .library = library,
    .profile_end = cuda_profile_end,
    .override = cuda_override,
};
