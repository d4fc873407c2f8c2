// cuda_driver.c - opens the CUDA driver, finds its devices, and wraps the calls that can fail.

#include "device/cuda/cuda.h"

#include "render/render.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { // values from CUDA's header
    MOST_THREADS = 1,
    PROCESSORS = 16,
    MAJOR = 75,
    MINOR = 76,
    SHARED_BY_CHOICE = 97,
    DYNAMIC_SHARED = 8, // attribute of a function: bytes of shared memory that a launch may have
    STREAM_ALONE = 1,   // the stream does not wait for the default stream
    SHARED_COMMON = 48 << 10,
    POLLED_NS = 30000, // about the time that a blocked thread takes to wake up
};

static struct cuda_api api;
static struct cuda_device devices[CUDA_DEVICES];
static int device_count;
static char why_none[256] = "the CUDA driver finds no device";
static struct lock context_lock;
static unsigned opened_in; // the value of fork_era when the driver was opened
static cuda_result (*parameter_info)(cuda_function f, size_t i, size_t *at,
                                     size_t *bytes); // NULL: the driver is older than CUDA 12.4

// Opening ---------------------------------------------------------------------------------------------------

static bool bind(void) {
    static const char *const names[] = {"libcuda.so.1", "libcuda.so", NULL};
#define SYMBOL(name, parameters) {#name, (void **)(void *)&api.name},
    static const struct library_symbol symbols[] = {CUDA_FUNCTIONS(SYMBOL)};
#undef SYMBOL
    static const struct library_symbol later = {"cuFuncGetParamInfo", (void **)(void *)&parameter_info};
    const char *missing = NULL;
    void *library = library_open(names);
    if (library)
        library_bind(library, &later, 1, NULL);
    if (library && library_bind(library, symbols, COUNT(symbols), &missing))
        return true;
    if (library)
        snprintf(why_none, sizeof why_none, "libcuda.so.1 has no %s: the driver is too old", missing);
    else
        snprintf(why_none, sizeof why_none, "libcuda.so.1, the NVIDIA driver, is not installed");
    return false;
}

static int attribute(cuda_ordinal d, int what) {
    int value = 0;
    api.cuDeviceGetAttribute(&value, what, d);
    return value;
}

static void describe(struct cuda_device *d) {
    if (api.cuDeviceGetName(d->name, sizeof d->name, d->ordinal))
        snprintf(d->name, sizeof d->name, "?");
    d->has_id = !api.cuDeviceGetUuid(d->id, d->ordinal);
    api.cuDeviceTotalMem_v2(&d->memory, d->ordinal);
    api.cuDriverGetVersion(&d->driver);
    d->major = attribute(d->ordinal, MAJOR);
    d->minor = attribute(d->ordinal, MINOR);
    d->units = attribute(d->ordinal, PROCESSORS);
    target_set_unit(&d->unit, render_target("cuda_tiles"), d->name, attribute(d->ordinal, MOST_THREADS),
                    attribute(d->ordinal, SHARED_BY_CHOICE));
    if (d->major < 8) {
        d->unit.target.multiplies = NULL;
        d->unit.group.has_async = false;
    }
    if (d->major < 9)
        d->unit.group.cluster = 0;
    if (d->major != 9) // the instructions of a warpgroup (wgmma) exist on compute capability 9 only
        d->unit.group.joined = 0;
}

static void find_devices(void) {
    int count = 0;
    opened_in = atomic_load(&fork_era);
    if (!bind())
        return;
    cuda_result failed = api.cuInit(0);
    if (!failed)
        failed = api.cuDeviceGetCount(&count);
    if (failed) {
        const char *text = NULL;
        api.cuGetErrorString(failed, &text);
        snprintf(why_none, sizeof why_none, "the CUDA driver does not start: %s", text ? text : "no reason");
        return;
    }
    for (int i = 0; i < count && device_count < CUDA_DEVICES; i++)
        if (!api.cuDeviceGet(&devices[device_count].ordinal, i))
            describe(&devices[device_count++]);
}

int cuda_open(const char **reason) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_devices);
    if (!device_count && reason)
        *reason = why_none;
    return device_count;
}

bool cuda_chip(int unit, unsigned char id[16]) {
    memcpy(id, devices[unit].id, sizeof devices[unit].id);
    return devices[unit].has_id;
}

const struct cuda_api *cuda_api(void) {
    return &api;
}

bool cuda_check(cuda_result code, const char *function) {
    const char *name = NULL, *text = NULL;
    if (LIKELY(code == 0))
        return true;
    api.cuGetErrorName(code, &name);
    api.cuGetErrorString(code, &text);
    return error_false(code == CUDA_OUT_OF_MEMORY ? ZL_ERROR_MEMORY : ZL_ERROR_DEVICE, "cuda: %s: %s (%s)",
                       function, text ? text : "failed", name ? name : "?");
}

static bool start(struct cuda_device *d) {
    if (d->stream[CUDA_STREAMS - 1])
        return true;
    if (!d->context &&
        !cuda_check(api.cuDevicePrimaryCtxRetain(&d->context, d->ordinal), "cuDevicePrimaryCtxRetain"))
        return false;
    if (!cuda_check(api.cuCtxSetCurrent(d->context), "cuCtxSetCurrent"))
        return false;
    for (int i = 0; i < CUDA_STREAMS; i++)
        if (!d->stream[i] && !cuda_check(api.cuStreamCreate(&d->stream[i], STREAM_ALONE), "cuStreamCreate"))
            return false;
    return true;
}

// Other code may set another context for a thread, so that each call checks it.
struct cuda_device *cuda_device(int unit) {
    static _Thread_local int current = -1;
    const char *reason = "fewer were found";
    int count = cuda_open(&reason);
    if (unit < 0 || unit >= count)
        return error_set(ZL_ERROR_DEVICE, "cuda: there is no device %d: %s", unit, reason);
    struct cuda_device *d = &devices[unit];
    if (!fork_spares("cuda", opened_in))
        return NULL;
    if (LIKELY(current == unit))
        return d;
    lock_take(&context_lock);
    bool ready = start(d);
    lock_give(&context_lock);
    if (!ready || !cuda_check(api.cuCtxSetCurrent(d->context), "cuCtxSetCurrent"))
        return NULL;
    current = unit;
    return d;
}

const struct target *cuda_target(int unit) {
    struct cuda_device *d = cuda_device(unit);
    return d ? &d->unit.target : NULL;
}

// Events ----------------------------------------------------------------------------------------------------

cuda_result cuda_event_make(cuda_event *out) {
    return api.cuEventCreate(out, CUDA_EVENT_BLOCKS | CUDA_EVENT_WITHOUT_TIME);
}

// Polls for a short time before it blocks: waking up a sleeping thread would slow short programs down.
bool cuda_event_wait(cuda_event e) {
    cuda_result state = api.cuEventQuery(e);
    int64_t begin = state == CUDA_NOT_READY ? clock_ns() : 0;
    while (state == CUDA_NOT_READY && clock_ns() - begin < POLLED_NS)
        state = api.cuEventQuery(e);
    return state == CUDA_NOT_READY ? cuda_check(api.cuEventSynchronize(e), "cuEventSynchronize")
                                   : cuda_check(state, "cuEventQuery");
}

// Memory ----------------------------------------------------------------------------------------------------

void *cuda_alloc(int unit, size_t bytes) {
    cuda_address memory = 0;
    bool done =
        cuda_device(unit) && cuda_check(api.cuMemAlloc_v2(&memory, MAX_OF(bytes, (size_t)1)), "cuMemAlloc");
    return done ? (void *)(uintptr_t)memory : NULL;
}

void cuda_free(int unit, void *memory) {
    if (memory && cuda_device(unit))
        api.cuMemFree_v2((uintptr_t)memory); // waits for the work that uses it
}

// Kernels ---------------------------------------------------------------------------------------------------

bool cuda_load(int unit, const char *code, int count, const char *const *symbol, cuda_function *out) {
    cuda_module module = NULL;
    bool good = cuda_device(unit) && cuda_check(api.cuModuleLoadData(&module, code), "cuModuleLoadData");
    for (int i = 0; i < count && good; i++)
        good = cuda_check(api.cuModuleGetFunction(&out[i], module, symbol[i]), "cuModuleGetFunction");
    if (module && !good)
        api.cuModuleUnload(module);
    return good;
}

bool cuda_allow_shared(cuda_function f, int64_t bytes) {
    return bytes <= SHARED_COMMON ||
           cuda_check(api.cuFuncSetAttribute(f, DYNAMIC_SHARED, (int)bytes), "cuFuncSetAttribute");
}

// Returns whether parameter i of a function has so many bytes; 0: whether there is no such parameter.
static bool has_parameter(cuda_function f, size_t i, size_t bytes) {
    size_t at, found;
    return parameter_info(f, i, &at, &found) ? !bytes : found == bytes;
}

bool cuda_has_parameters(cuda_function f, int count, const size_t *bytes) {
    for (int i = 0; parameter_info && i < count; i++)
        if (!has_parameter(f, (size_t)i, bytes[i]))
            return false;
    return !parameter_info || has_parameter(f, (size_t)count, 0);
}

bool cuda_launch(int unit, int lane, cuda_function f, const struct cuda_launch *l, void **argument) {
    struct cuda_device *d = cuda_device(unit);
    if (!d || !cuda_allow_shared(f, l->shared))
        return false;
    return cuda_check(api.cuLaunchKernel(f, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                                         l->block[2], l->shared, d->stream[lane], argument, NULL),
                      "cuLaunchKernel");
}
