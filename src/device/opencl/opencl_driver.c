// opencl_driver.c - opens the OpenCL loader, finds the devices of all platforms, and wraps the calls that can
// fail.

#include "device/opencl/opencl.h"

#include "render/render.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { // values from OpenCL's header
    PROGRAM_BINARY_SIZES = 0x1165,
    PROGRAM_BINARIES = 0x1166,
    PLATFORM_NAME = 0x0902,
    DEVICE_TYPE = 0x1000,
    DEVICE_UNITS = 0x1002,
    DEVICE_THREADS = 0x1004,
    DEVICE_CLOCK = 0x100C,
    DEVICE_LARGEST = 0x1010,
    DEVICE_MEMORY = 0x101F,
    DEVICE_SHARED = 0x1023,
    DEVICE_NAME = 0x102B,
    DEVICE_VERSION = 0x102F,
    DEVICE_EXTENSIONS = 0x1030,
    DEVICE_UUID = 0x106A,
    BUILD_LOG = 0x1183,
    EVENT_QUEUED = 0x1280,
    EVENT_BEGIN = 0x1282,
    EVENT_END = 0x1283,
    QUEUE_WITH_TIMES = 1 << 1,
    READ_AND_WRITE = 1 << 0,
};
static const uint64_t every_kind = 0xFFFFFFFF;

static struct opencl_api api;
static struct opencl_device devices[OPENCL_DEVICES];
static int device_count;
static const char *why_none;
static struct lock queue_lock;
static unsigned opened_in; // the value of fork_era when OpenCL was opened

// Opening ---------------------------------------------------------------------------------------------------

static bool bind(const char **reason) {
    static const char *const names[] = {"libOpenCL.so.1", "libOpenCL.so", NULL};
#define SYMBOL(type, name, parameters) {#name, (void **)(void *)&api.name},
    static const struct library_symbol symbols[] = {OPENCL_FUNCTIONS(SYMBOL)};
#undef SYMBOL
    static char message[128];
    const char *missing = NULL;
    void *library = library_open(names);
    if (!library) {
        *reason = "libOpenCL.so.1, the OpenCL loader, is not installed";
        return false;
    }
    if (library_bind(library, symbols, COUNT(symbols), &missing))
        return true;
    snprintf(message, sizeof message, "libOpenCL.so.1 has no %s", missing);
    *reason = message;
    return false;
}

static void text_info(cl_device d, uint32_t what, char *out, size_t room) {
    if (api.clGetDeviceInfo(d, what, room - 1, out, NULL) != CL_DONE)
        snprintf(out, room, "?");
}

static bool has_extension(cl_device d, const char *name) {
    char list[8192] = "";
    return api.clGetDeviceInfo(d, DEVICE_EXTENSIONS, sizeof list - 1, list, NULL) == CL_DONE &&
           strstr(list, name);
}

static void set_unit(struct opencl_device *d) {
    uint64_t shared = 0;
    size_t threads = 0;
    api.clGetDeviceInfo(d->device, DEVICE_SHARED, sizeof shared, &shared, NULL);
    api.clGetDeviceInfo(d->device, DEVICE_THREADS, sizeof threads, &threads, NULL);
    target_set_unit(&d->unit, render_target(d->kind & OPENCL_KIND_CPU ? "opencl_cpu_tiles" : "opencl_tiles"),
                    d->name, (int)MIN_OF(threads, (size_t)INT_MAX),
                    (int64_t)MIN_OF(shared, (uint64_t)INT64_MAX));
    if (!has_extension(d->device, "cl_khr_fp64"))
        d->unit.target.lacks = PASS_BIT(ZL_FLOAT64);
    d->unit.target.lacks_wide_atomics = !has_extension(d->device, "cl_khr_int64_base_atomics");
}

// Compiler options of all kernels. The second makes rounding follow doc/tile.md.
#define COMMON_OPTIONS "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt -w"

static const char *options_of(const struct opencl_device *d) {
    return d->kind & OPENCL_KIND_CPU ? COMMON_OPTIONS " -DZL_CPU" : COMMON_OPTIONS;
}

static void describe(struct opencl_device *d, cl_platform platform, cl_device device) {
    d->device = device;
    if (api.clGetPlatformInfo(platform, PLATFORM_NAME, sizeof d->platform - 1, d->platform, NULL) != CL_DONE)
        d->platform[0] = 0;
    d->keeps_code = !strcmp(d->platform, "Portable Computing Language");
    text_info(device, DEVICE_NAME, d->name, sizeof d->name);
    text_info(device, DEVICE_VERSION, d->version, sizeof d->version);
    api.clGetDeviceInfo(device, DEVICE_TYPE, sizeof d->kind, &d->kind, NULL);
    api.clGetDeviceInfo(device, DEVICE_MEMORY, sizeof d->memory, &d->memory, NULL);
    api.clGetDeviceInfo(device, DEVICE_LARGEST, sizeof d->largest, &d->largest, NULL);
    api.clGetDeviceInfo(device, DEVICE_UNITS, sizeof d->units, &d->units, NULL);
    api.clGetDeviceInfo(device, DEVICE_CLOCK, sizeof d->clock, &d->clock, NULL);
    d->has_id = has_extension(device, "cl_khr_device_uuid") &&
                api.clGetDeviceInfo(device, DEVICE_UUID, sizeof d->id, d->id, NULL) == CL_DONE;
    set_unit(d);
    char identity[sizeof d->identity]; // a separate buffer, because gcc 12 warns that members of d may
                                       // overlap
    snprintf(identity, sizeof identity, "opencl %s %s %s %s%s", d->platform, d->name, d->version,
             options_of(d), d->keeps_code ? ", text" : "");
    memcpy(d->identity, identity, sizeof identity);
}

static void find_devices(void) {
    cl_platform platform[OPENCL_DEVICES];
    uint32_t platforms = 0;
    opened_in = atomic_load(&fork_era);
    if (!bind(&why_none))
        return;
    why_none = "the OpenCL loader finds no device";
    if (api.clGetPlatformIDs(OPENCL_DEVICES, platform, &platforms) != CL_DONE)
        return;
    for (uint32_t i = 0; i < MIN_OF(platforms, (uint32_t)OPENCL_DEVICES); i++) {
        cl_device device[OPENCL_DEVICES];
        uint32_t room = (uint32_t)(OPENCL_DEVICES - device_count), count = 0;
        if (!room || api.clGetDeviceIDs(platform[i], every_kind, room, device, &count) != CL_DONE)
            continue;
        for (uint32_t k = 0; k < MIN_OF(count, room); k++)
            describe(&devices[device_count++], platform[i], device[k]);
    }
}

int opencl_open(const char **reason) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_devices);
    if (!device_count && reason)
        *reason = why_none;
    return device_count;
}

const struct target *opencl_target(int unit) {
    struct opencl_device *d = opencl_device(unit);
    return d ? &d->unit.target : NULL;
}

const struct opencl_api *opencl_api(void) {
    return &api;
}

static bool make_queue(struct opencl_device *d) {
    int32_t code;
    d->context = api.clCreateContext(NULL, 1, &d->device, NULL, NULL, &code);
    if (!d->context)
        return opencl_check(code, "clCreateContext");
    d->queue = api.clCreateCommandQueue(d->context, d->device, QUEUE_WITH_TIMES, &code);
    return d->queue || opencl_check(code, "clCreateCommandQueue");
}

uint64_t opencl_kind(int unit) {
    return devices[unit].kind;
}

bool opencl_chip(int unit, unsigned char id[16]) {
    memcpy(id, devices[unit].id, sizeof devices[unit].id);
    return devices[unit].has_id;
}

struct opencl_device *opencl_device(int unit) {
    const char *reason = NULL;
    int count = opencl_open(&reason);
    if (unit < 0 || unit >= count)
        return error_set(ZL_ERROR_DEVICE, "opencl: there is no device %d: %s", unit,
                         count ? "fewer were found" : reason);
    if (!fork_spares("opencl", opened_in))
        return NULL;
    lock_take(&queue_lock);
    bool ready = devices[unit].queue || make_queue(&devices[unit]);
    lock_give(&queue_lock);
    return ready ? &devices[unit] : NULL;
}

// Calls -----------------------------------------------------------------------------------------------------

bool opencl_check(int32_t code, const char *function) {
    if (code == CL_DONE)
        return true;
    return error_false(code == CL_OUT_OF_MEMORY ? ZL_ERROR_MEMORY : ZL_ERROR_DEVICE,
                       "opencl: %s failed with code %d", function, (int)code);
}

cl_memory opencl_alloc(struct opencl_device *d, size_t bytes) {
    int32_t code;
    if (bytes > d->largest)
        return error_set(ZL_ERROR_MEMORY, "opencl: %zu bytes are more than a buffer of %s can have, %llu",
                         bytes, d->name, (unsigned long long)d->largest);
    cl_memory m = api.clCreateBuffer(d->context, READ_AND_WRITE, MAX_OF(bytes, (size_t)1), NULL, &code);
    if (!m)
        opencl_check(code, "clCreateBuffer");
    return m;
}

void opencl_free(cl_memory memory) {
    if (memory)
        api.clReleaseMemObject(memory);
}

bool opencl_write(struct opencl_device *d, cl_memory to, const void *from, size_t bytes) {
    return !bytes || opencl_check(api.clEnqueueWriteBuffer(d->queue, to, true, 0, bytes, from, 0, NULL, NULL),
                                  "clEnqueueWriteBuffer");
}

bool opencl_read(struct opencl_device *d, void *to, cl_memory from, size_t bytes) {
    return !bytes || opencl_check(api.clEnqueueReadBuffer(d->queue, from, true, 0, bytes, to, 0, NULL, NULL),
                                  "clEnqueueReadBuffer");
}

static void report_log(struct opencl_device *d, cl_program program, int32_t code) {
    size_t bytes = 0;
    api.clGetProgramBuildInfo(program, d->device, BUILD_LOG, 0, NULL, &bytes);
    char *log = memory_zero(bytes + 1);
    if (log)
        api.clGetProgramBuildInfo(program, d->device, BUILD_LOG, bytes, log, NULL);
    error_set(ZL_ERROR_COMPILE, "opencl: clBuildProgram failed with code %d: %s", (int)code, log ? log : "");
    memory_free(log);
}

cl_program opencl_build(struct opencl_device *d, const char *source, size_t bytes) {
    int32_t code;
    cl_program program = api.clCreateProgramWithSource(d->context, 1, &source, &bytes, &code);
    if (!program) {
        opencl_check(code, "clCreateProgramWithSource");
        return NULL;
    }
    code = api.clBuildProgram(program, 1, &d->device, options_of(d), NULL, NULL);
    if (code == CL_DONE)
        return program;
    report_log(d, program, code);
    api.clReleaseProgram(program);
    return NULL;
}

static bool read_code(cl_program program, struct text *code) {
    size_t bytes = 0;
    if (!opencl_check(api.clGetProgramInfo(program, PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL),
                      "clGetProgramInfo"))
        return false;
    char *data = memory_alloc(bytes + 1);
    bool done =
        data && opencl_check(api.clGetProgramInfo(program, PROGRAM_BINARIES, sizeof data, &data, NULL),
                             "clGetProgramInfo");
    if (done)
        text_bytes(code, data, (int)bytes);
    memory_free(data);
    return done;
}

bool opencl_compile(struct opencl_device *d, const struct text *source, struct text *code) {
    if (d->keeps_code) {
        text_bytes(code, source->data, source->len);
        return !code->failed;
    }
    cl_program program = opencl_build(d, source->data, (size_t)source->len);
    bool done = program && read_code(program, code);
    opencl_drop(program);
    return done;
}

static cl_program load_binary(struct opencl_device *d, const char *code, size_t bytes) {
    int32_t status = 0, failed = 0;
    const unsigned char *binary = (const unsigned char *)code;
    cl_program program =
        api.clCreateProgramWithBinary(d->context, 1, &d->device, &bytes, &binary, &status, &failed);
    if (!program) {
        opencl_check(failed, "clCreateProgramWithBinary");
        return NULL;
    }
    if (opencl_check(api.clBuildProgram(program, 1, &d->device, options_of(d), NULL, NULL), "clBuildProgram"))
        return program;
    opencl_drop(program);
    return NULL;
}

cl_program opencl_load(struct opencl_device *d, const char *code, size_t bytes) {
    return d->keeps_code ? opencl_build(d, code, bytes) : load_binary(d, code, bytes);
}

void opencl_drop(cl_program program) {
    if (program)
        api.clReleaseProgram(program);
}

cl_function opencl_function(cl_program program, const char *name) {
    int32_t code;
    cl_function function = api.clCreateKernel(program, name, &code);
    if (!function)
        error_set(ZL_ERROR_COMPILE, "opencl: clCreateKernel failed for '%s' with code %d", name, (int)code);
    return function;
}

bool opencl_times(cl_event event, int64_t *queued, int64_t *begin, int64_t *end) {
    bool known = api.clGetEventProfilingInfo(event, EVENT_QUEUED, sizeof *queued, queued, NULL) == CL_DONE &&
                 api.clGetEventProfilingInfo(event, EVENT_BEGIN, sizeof *begin, begin, NULL) == CL_DONE &&
                 api.clGetEventProfilingInfo(event, EVENT_END, sizeof *end, end, NULL) == CL_DONE;
    api.clReleaseEvent(event);
    return known && *end >= *begin;
}

int64_t opencl_time(cl_event event) {
    int64_t queued, begin, end;
    return opencl_times(event, &queued, &begin, &end) ? end - begin : -1;
}
