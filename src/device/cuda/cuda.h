// cuda.h - CUDA, opened at run time: the parts of the driver and of NVRTC that are used, and one stream per
// lane of a device.
//
// Nothing of NVIDIA is needed to build or to start. Handles are CUDA's own; a call that fails sets an error
// with the function and CUDA's own message.

#ifndef CUDA_H
#define CUDA_H

#include "base/base.h"
#include "pass/pass.h"

// The driver ------------------------------------------------------------------------------------------------

typedef int cuda_result; // 0: success
typedef int cuda_ordinal;
typedef unsigned long long cuda_address;
typedef struct cuda_context_ *cuda_context;
typedef struct cuda_stream_ *cuda_stream;
typedef struct cuda_module_ *cuda_module;
typedef struct cuda_function_ *cuda_function;
typedef struct cuda_event_ *cuda_event;
typedef struct cuda_graph_ *cuda_graph;
typedef struct cuda_graph_exec_ *cuda_graph_exec;
typedef struct cuda_graph_node_ *cuda_graph_node;

enum { CUDA_OUT_OF_MEMORY = 2, CUDA_NOT_READY = 600 };

struct cuda_node_launch { // CUDA_KERNEL_NODE_PARAMS, version 2
    cuda_function f;
    unsigned grid[3], block[3], shared;
    void **argument, **extra;
    void *kernel, *context;
};

// name in the library, parameters; all return a cuda_result
#define CUDA_FUNCTIONS(F)                                                                                    \
    F(cuInit, (unsigned flags))                                                                              \
    F(cuDriverGetVersion, (int *version))                                                                    \
    F(cuGetErrorName, (cuda_result code, const char **text))                                                 \
    F(cuGetErrorString, (cuda_result code, const char **text))                                               \
    F(cuDeviceGetCount, (int *count))                                                                        \
    F(cuDeviceGet, (cuda_ordinal *out, int at))                                                              \
    F(cuDeviceGetName, (char *out, int room, cuda_ordinal d))                                                \
    F(cuDeviceGetUuid, (unsigned char *out, cuda_ordinal d))                                                 \
    F(cuDeviceGetAttribute, (int *out, int what, cuda_ordinal d))                                            \
    F(cuDeviceTotalMem_v2, (size_t *bytes, cuda_ordinal d))                                                  \
    F(cuDevicePrimaryCtxRetain, (cuda_context *out, cuda_ordinal d))                                         \
    F(cuCtxSetCurrent, (cuda_context c))                                                                     \
    F(cuStreamCreate, (cuda_stream *out, unsigned flags))                                                    \
    F(cuStreamQuery, (cuda_stream s))                                                                        \
    F(cuStreamSynchronize, (cuda_stream s))                                                                  \
    F(cuStreamWaitEvent, (cuda_stream s, cuda_event e, unsigned flags))                                      \
    F(cuMemAlloc_v2, (cuda_address *out, size_t bytes))                                                      \
    F(cuMemFree_v2, (cuda_address memory))                                                                   \
    F(cuMemHostAlloc, (void **out, size_t bytes, unsigned flags))                                            \
    F(cuMemFreeHost, (void *memory))                                                                         \
    F(cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))                                    \
    F(cuMemHostUnregister, (void *memory))                                                                   \
    F(cuMemcpyHtoDAsync_v2, (cuda_address to, const void *from, size_t bytes, cuda_stream s))                \
    F(cuMemcpyDtoHAsync_v2, (void *to, cuda_address from, size_t bytes, cuda_stream s))                      \
    F(cuPointerGetAttribute, (void *out, int what, cuda_address memory))                                     \
    F(cuModuleLoadData, (cuda_module * out, const void *code))                                               \
    F(cuModuleUnload, (cuda_module m))                                                                       \
    F(cuModuleGetFunction, (cuda_function * out, cuda_module m, const char *name))                           \
    F(cuFuncSetAttribute, (cuda_function f, int what, int value))                                            \
    F(cuLaunchKernel, (cuda_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
                       unsigned block_y, unsigned block_z, unsigned shared, cuda_stream s, void **argument,  \
                       void **extra))                                                                        \
    F(cuEventCreate, (cuda_event * out, unsigned flags))                                                     \
    F(cuEventRecord, (cuda_event e, cuda_stream s))                                                          \
    F(cuEventSynchronize, (cuda_event e))                                                                    \
    F(cuEventQuery, (cuda_event e))                                                                          \
    F(cuEventElapsedTime, (float *ms, cuda_event begin, cuda_event end))                                     \
    F(cuEventDestroy_v2, (cuda_event e))                                                                     \
    F(cuStreamBeginCapture_v2, (cuda_stream s, int mode))                                                    \
    F(cuStreamEndCapture, (cuda_stream s, cuda_graph *out))                                                  \
    F(cuGraphInstantiateWithFlags, (cuda_graph_exec *out, cuda_graph g, unsigned long long flags))           \
    F(cuGraphCreate, (cuda_graph *out, unsigned flags))                                                      \
    F(cuGraphAddKernelNode_v2, (cuda_graph_node *out, cuda_graph g, const cuda_graph_node *after,            \
                                size_t count,                                                                \
                                const struct cuda_node_launch *l))                                           \
    F(cuGraphAddChildGraphNode, (cuda_graph_node *out, cuda_graph g, const cuda_graph_node *after,           \
                                 size_t count,                                                               \
                                 cuda_graph child))                                                          \
    F(cuGraphExecKernelNodeSetParams_v2, (cuda_graph_exec g, cuda_graph_node n,                              \
                                          const struct cuda_node_launch *l))                                 \
    F(cuGraphLaunch, (cuda_graph_exec g, cuda_stream s))                                                     \
    F(cuGraphExecDestroy, (cuda_graph_exec g))                                                               \
    F(cuGraphDestroy, (cuda_graph g))

struct cuda_api {
#define MEMBER(name, parameters) cuda_result(*name) parameters;
    CUDA_FUNCTIONS(MEMBER)
#undef MEMBER
};

// cuda_driver.c ---------------------------------------------------------------------------------------------

// the last stream only copies to the host
enum { CUDA_DEVICES = 16, CUDA_LANES = 4, CUDA_STREAMS = CUDA_LANES + 1 };

struct cuda_device {
    cuda_ordinal ordinal;
    cuda_context context;
    cuda_stream stream[CUDA_STREAMS];
    char name[128];
    int major, minor;      // compute capability
    int driver;            // 13000 is CUDA 13.0
    int units;             // multiprocessors
    size_t memory;         // bytes
    bool has_id;
    unsigned char id[16];  // of the chip
    struct target_unit unit;
};

// Opens the driver and finds its devices, once. Returns how many there are; of 0, *reason says why, unless
// reason is NULL.
int cuda_open(const char **reason);
// Returns the driver's functions, which may be called once cuda_open() has returned more than 0.
const struct cuda_api *cuda_api(void);
// Returns the device, with its context current on this thread, or NULL and an error.
struct cuda_device *cuda_device(int unit);
// Writes the 16 bytes that name the chip of a device that was found. Returns false if they are unknown.
bool cuda_chip(int unit, unsigned char id[16]);
// Returns the record that passes compile for, which lives as long as the process, or NULL and an error.
const struct target *cuda_target(int unit);
// Returns whether code is 0; else it sets an error that names the function.
bool cuda_check(cuda_result code, const char *function);

enum { CUDA_EVENT_BLOCKS = 1, CUDA_EVENT_WITHOUT_TIME = 2 };
// Makes an event that the host may wait for without occupying a core; it records no time.
cuda_result cuda_event_make(cuda_event *out);
// Waits for such an event: polls it for some microseconds, then sleeps until it is done. Returns false, with
// an error, if it failed.
bool cuda_event_wait(cuda_event e);

// Allocates memory of a device, at least one byte. Returns NULL and an error if it cannot.
void *cuda_alloc(int unit, size_t bytes);
// Frees it, after all work that uses it is done; memory may be NULL.
void cuda_free(int unit, void *memory);

// cuda_copy.c: copies in the order of a lane's work. They return false, with an error, if they fail.

// Copies from the host to the device, and returns when `from` may be changed.
bool cuda_write(int unit, int lane, void *to, const void *from, size_t bytes);
// Copies from the device to the host, and returns when `to` has been written.
bool cuda_read(int unit, int lane, void *to, const void *from, size_t bytes);
// Locks pages of the host, so that the unit can write to them directly. Returns false, with or without an
// error, if it cannot.
bool cuda_pin(int unit, void *pages, size_t bytes);
// Releases such pages.
void cuda_unpin(int unit, void *pages);
// Copies from the device to such pages, and returns when they have been written.
bool cuda_receive(int unit, int lane, void *pages, const void *from, size_t bytes);

// Loads compiled code and finds its functions by their symbols; the code is never unloaded. Returns false,
// with an error, if that fails.
bool cuda_load(int unit, const char *code, int count, const char *const *symbol, cuda_function *out);
// Lets each launch of f have so many bytes of shared memory. Returns false, with an error, if that fails.
bool cuda_allow_shared(cuda_function f, int64_t bytes);
// Returns whether f has exactly `count` parameters of these sizes; true if the driver is too old to tell.
bool cuda_has_parameters(cuda_function f, int count, const size_t *bytes);
struct cuda_launch {
    unsigned grid[3], block[3];
    unsigned shared; // bytes beyond what the kernel declares
};
// Launches f on the lane's stream. Returns false, with an error, if that fails.
bool cuda_launch(int unit, int lane, cuda_function f, const struct cuda_launch *l, void **argument);

// cuda_compiler.c -------------------------------------------------------------------------------------------

// Compiles CUDA C for an architecture ("sm_90a"), by NVRTC, else by nvcc. Options, which may be NULL, follow
// those that all sources have: no contraction. Returns false, with an error: the compiler's messages, or what
// to install.
bool cuda_compile(const char *source, const char *architecture, const char *options, struct text *code);
// Returns the compiler's name and version, or NULL and an error if there is none.
const char *cuda_compiler(void);
// Returns text that differs between two programs of the same name, or NULL and an error if there is none.
const char *cuda_compiler_stamp(void);
// Writes the architecture that code for the unit is compiled for ("sm_90a"); "", with an error, if there is
// no such unit.
void cuda_architecture(int unit, char *out, size_t room);

#endif
