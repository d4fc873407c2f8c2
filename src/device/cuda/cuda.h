// cuda.h - CUDA as we use it: what we need of the driver and of NVRTC, opened at run time, and one stream a
// lane of a device.
//
// Nothing of NVIDIA is needed to build or to start. Handles are CUDA's own; a call that fails records an
// error that names the function and CUDA's own words.

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

struct cuda_node_launch { // CUDA_KERNEL_NODE_PARAMS of the second version
    cuda_function f;
    unsigned grid[3], block[3], shared;
    void **argument, **extra;
    void *kernel, *context;
};

// name in the library, parameters; all give a cuda_result
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
    int driver;            // 13000: of CUDA 13.0
    int units;             // multiprocessors
    size_t memory;         // bytes
    bool has_id;
    unsigned char id[16];  // of the chip
    struct target_unit unit;
};

// Opens the driver and finds its devices, once. How many there are; 0 with the reason.
int cuda_open(const char **reason);
const struct cuda_api *cuda_api(void); // after cuda_open gave more than 0
// The device, made current on this thread; NULL and an error.
struct cuda_device *cuda_device(int unit);
// what names the chip of a device that was found; false: not known
bool cuda_chip(int unit, unsigned char id[16]);
const struct target *cuda_target(int unit); // its record; NULL and an error
bool cuda_check(cuda_result code, const char *function); // code is 0; else false and an error

// Makes an event that the host may wait for without occupying a core; it records no time.
enum { CUDA_EVENT_BLOCKS = 1, CUDA_EVENT_WITHOUT_TIME = 2 };
cuda_result cuda_event_make(cuda_event *out);
// Waits for such an event: polls it for some microseconds, then sleeps until it is done. False and an error.
bool cuda_event_wait(cuda_event e);

// Memory of a device. NULL and an error.
void *cuda_alloc(int unit, size_t bytes);
void cuda_free(int unit, void *memory);

// cuda_copy.c: in the order of a lane's work. They return when the host's side may be used again.
bool cuda_write(int unit, int lane, void *to, const void *from, size_t bytes);
bool cuda_read(int unit, int lane, void *to, const void *from, size_t bytes);
// As of struct device: pages that the unit writes by itself, without the ring.
bool cuda_pin(int unit, void *pages, size_t bytes);
void cuda_unpin(int unit, void *pages);
bool cuda_receive(int unit, int lane, void *pages, const void *from, size_t bytes);

// Functions of compiled code, by their symbols; never let go. False and an error.
bool cuda_load(int unit, const char *code, int count, const char *const *symbol, cuda_function *out);
bool cuda_allow_shared(cuda_function f, int64_t bytes); // so many in each of its launches; false and an error
// Whether it has parameters of so many bytes each, and no others: a launch would read as many. Older drivers
// cannot tell: true.
bool cuda_has_parameters(cuda_function f, int count, const size_t *bytes);
struct cuda_launch {
    unsigned grid[3], block[3];
    unsigned shared; // bytes beyond what the kernel declares
};
bool cuda_launch(int unit, int lane, cuda_function f, const struct cuda_launch *l, void **argument);

// cuda_compiler.c -------------------------------------------------------------------------------------------

// CUDA C as code of an architecture ("sm_90a"), by NVRTC, else by nvcc. Options, which may be NULL, are
// behind those that all texts have: no contraction. False and an error: that of the compiler, or what to
// install.
bool cuda_compile(const char *source, const char *architecture, const char *options, struct text *code);
const char *cuda_compiler(void); // name and version; NULL and an error: there is none
const char *cuda_compiler_stamp(void); // another one for another program of the same name
void cuda_architecture(int unit, char *out, size_t room); // "" and an error

#endif
