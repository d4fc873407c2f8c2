// opencl.h - OpenCL, opened at run time: the parts of its API that are used, and one queue per device.
//
// Nothing of a vendor is needed to build or to start. Handles are OpenCL's own; a call that fails sets an
// error with the function and OpenCL's code.

#ifndef OPENCL_H
#define OPENCL_H

#include "base/base.h"
#include "pass/pass.h"

// The API ---------------------------------------------------------------------------------------------------

typedef struct cl_platform_ *cl_platform;
typedef struct cl_device_ *cl_device;
typedef struct cl_context_ *cl_context;
typedef struct cl_queue_ *cl_queue;
typedef struct cl_memory_ *cl_memory;
typedef struct cl_program_ *cl_program;
typedef struct cl_function_ *cl_function; // a kernel
typedef struct cl_event_ *cl_event;

enum { CL_DONE = 0, CL_NOT_FOUND = -1, CL_OUT_OF_MEMORY = -4 };

// type, name, parameters
#define OPENCL_FUNCTIONS(F)                                                                                  \
    F(int32_t, clGetPlatformIDs, (uint32_t room, cl_platform *out, uint32_t *count))                         \
    F(int32_t, clGetPlatformInfo, (cl_platform p, uint32_t what, size_t room, void *out, size_t *size))      \
    F(int32_t, clGetDeviceIDs, (cl_platform p, uint64_t kind, uint32_t room, cl_device *out,                 \
                                uint32_t *count))                                                            \
    F(int32_t, clGetDeviceInfo, (cl_device d, uint32_t what, size_t room, void *out, size_t *size))          \
    F(cl_context, clCreateContext, (const intptr_t *properties, uint32_t count, const cl_device *d,          \
                                    void (*notify)(const char *, const void *, size_t, void *), void *data,  \
                                    int32_t *code))                                                          \
    F(cl_queue, clCreateCommandQueue, (cl_context c, cl_device d, uint64_t properties, int32_t *code))       \
    F(cl_memory, clCreateBuffer, (cl_context c, uint64_t flags, size_t bytes, void *host, int32_t *code))    \
    F(int32_t, clReleaseMemObject, (cl_memory m))                                                            \
    F(int32_t, clEnqueueReadBuffer, (cl_queue q, cl_memory m, uint32_t wait, size_t offset, size_t bytes,    \
                                     void *to,                                                               \
                                     uint32_t events, const cl_event *after, cl_event *event))               \
    F(int32_t, clEnqueueWriteBuffer, (cl_queue q, cl_memory m, uint32_t wait, size_t offset, size_t bytes,   \
                                      const void *from, uint32_t events, const cl_event *after,              \
                                          cl_event *event))                                                  \
    F(int32_t, clEnqueueCopyBuffer, (cl_queue q, cl_memory from, cl_memory to, size_t at, size_t to_at,      \
                                     size_t bytes,                                                           \
                                     uint32_t events, const cl_event *after, cl_event *event))               \
    F(cl_program, clCreateProgramWithSource, (cl_context c, uint32_t count, const char **text,               \
                                              const size_t *len,                                             \
                                              int32_t *code))                                                \
    F(int32_t, clBuildProgram, (cl_program p, uint32_t count, const cl_device *d, const char *options,       \
                                void (*notify)(cl_program, void *), void *data))                             \
    F(int32_t, clGetProgramBuildInfo, (cl_program p, cl_device d, uint32_t what, size_t room, void *out,     \
                                       size_t *size))                                                        \
    F(int32_t, clGetProgramInfo, (cl_program p, uint32_t what, size_t room, void *out, size_t *size))        \
    F(cl_program, clCreateProgramWithBinary, (cl_context c, uint32_t count, const cl_device *d,              \
                                              const size_t *bytes,                                           \
                                              const unsigned char **binary, int32_t *status, int32_t *code)) \
    F(int32_t, clReleaseProgram, (cl_program p))                                                             \
    F(cl_function, clCreateKernel, (cl_program p, const char *name, int32_t *code))                          \
    F(int32_t, clReleaseKernel, (cl_function f))                                                             \
    F(int32_t, clSetKernelArg, (cl_function f, uint32_t at, size_t bytes, const void *value))                \
    F(int32_t, clEnqueueNDRangeKernel, (cl_queue q, cl_function f, uint32_t axes, const size_t *offset,      \
                                        const size_t *items, const size_t *group, uint32_t events,           \
                                        const cl_event *after, cl_event *event))                             \
    F(int32_t, clFlush, (cl_queue q))                                                                        \
    F(int32_t, clFinish, (cl_queue q))                                                                       \
    F(int32_t, clWaitForEvents, (uint32_t count, const cl_event *event))                                     \
    F(int32_t, clGetEventInfo, (cl_event e, uint32_t what, size_t room, void *out, size_t *size))            \
    F(int32_t, clGetEventProfilingInfo, (cl_event e, uint32_t what, size_t room, void *out, size_t *size))   \
    F(int32_t, clEnqueueMarkerWithWaitList, (cl_queue q, uint32_t events, const cl_event *after,             \
                                             cl_event *event))                                               \
    F(int32_t, clRetainEvent, (cl_event e))                                                                  \
    F(int32_t, clReleaseEvent, (cl_event e))

struct opencl_api {
#define MEMBER(type, name, parameters) type(*name) parameters;
    OPENCL_FUNCTIONS(MEMBER)
#undef MEMBER
};

// opencl_driver.c -------------------------------------------------------------------------------------------

enum { OPENCL_DEVICES = 16, OPENCL_KIND_CPU = 1 << 1 };

// A device of any platform, with a context and a queue, in order and with times, of its own.
struct opencl_device {
    cl_device device;
    cl_context context;
    cl_queue queue;
    char name[128], platform[128], version[128];
    char identity[512]; // facts that compiled kernels depend on besides their text
    uint64_t memory, largest; // bytes: of the device, of one buffer
    uint32_t units, clock;    // compute units; MHz
    bool has_id;
    unsigned char id[16];     // of the chip
    uint64_t kind;            // OPENCL_KIND_CPU; bit 2 GPU, 3 accelerator
    // The driver, PoCL, caches compiled code itself. To return code, it would compile each kernel a second
    // time, for workgroups of any size, so the text is kept on disk instead.
    bool keeps_code;
    struct target_unit unit;
};

// Opens the library and finds the devices of all platforms, once. Returns their number, or 0 with the reason
// in *reason, which may be NULL.
int opencl_open(const char **reason);
// Returns the functions of the library, which are valid once opencl_open has returned more than 0.
const struct opencl_api *opencl_api(void);
// Returns the kind bits of a device that opencl_open found, without opening it.
uint64_t opencl_kind(int unit);
// Writes the id of the chip of a device that opencl_open found; returns false if the id is not known.
bool opencl_chip(int unit, unsigned char id[16]);
// Returns a device, with its context and queue, which are created at the first call. Returns NULL, with an
// error, if there is no such unit, its queue cannot be created, or a fork has lost it.
struct opencl_device *opencl_device(int unit);
// Returns the target record of a device, or NULL and an error as opencl_device does.
const struct target *opencl_target(int unit);

// Returns whether `code` is CL_DONE; sets an error that names the function if it is not.
bool opencl_check(int32_t code, const char *function);

// Returns memory of the device, at least 1 byte, or NULL and an error. The caller frees it with opencl_free.
cl_memory opencl_alloc(struct opencl_device *d, size_t bytes);
// Releases memory; NULL is allowed.
void opencl_free(cl_memory memory);
// Copies from the host to the device and waits; returns false, with an error, if that fails.
bool opencl_write(struct opencl_device *d, cl_memory to, const void *from, size_t bytes);
// Copies from the device to the host and waits; returns false, with an error, if that fails.
bool opencl_read(struct opencl_device *d, void *to, cl_memory from, size_t bytes);

// Compiles a text. Returns a program, which the caller releases with opencl_drop, or NULL and an error with
// the compiler's log.
cl_program opencl_build(struct opencl_device *d, const char *source, size_t bytes);
// Compiles a text and appends to `code` what opencl_load makes a program of, in this process or another: the
// binary, or the text itself if keeps_code. Returns false, with an error, if that fails.
bool opencl_compile(struct opencl_device *d, const struct text *source, struct text *code);
// Returns a program from the code of opencl_compile, which the caller releases with opencl_drop, or NULL and
// an error.
cl_program opencl_load(struct opencl_device *d, const char *code, size_t bytes);
// Releases a program; NULL is allowed.
void opencl_drop(cl_program program);
// Returns a new kernel object for the kernel of that name, or NULL and an error. The caller releases it with
// clReleaseKernel.
cl_function opencl_function(cl_program program, const char *name);

// Stores when a finished command was queued, began and ended, in ns of the device's clock, and releases the
// event. Returns false, without an error, if the times are not known.
bool opencl_times(cl_event event, int64_t *queued, int64_t *begin, int64_t *end);
// Returns the ns that a finished command took, or -1 if that is not known, and releases the event.
int64_t opencl_time(cl_event event);

#endif
