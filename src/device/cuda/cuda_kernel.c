// cuda_kernel.c - the target cuda: runs tile kernels as CUDA C, compiled by NVRTC or nvcc, on the first GPU.

#include "device/cuda/cuda.h"
#include "device/tile_runtime/module_kernel.h"

#include <pthread.h>

static const struct module_names names = {.alloc = "cuMemAlloc_v2",
                                          .free = "cuMemFree_v2",
                                          .copy_in = "cuMemcpyHtoDAsync_v2",
                                          .copy_out = "cuMemcpyDtoHAsync_v2",
                                          .wait = "cuStreamSynchronize",
                                          .pointer = "cuPointerGetAttribute",
                                          .load = "cuModuleLoadData",
                                          .unload = "cuModuleUnload",
                                          .find = "cuModuleGetFunction",
                                          .launch = "cuLaunchKernel",
                                          .event_make = "cuEventCreate",
                                          .event_record = "cuEventRecord",
                                          .event_wait = "cuEventSynchronize",
                                          .event_between = "cuEventElapsedTime",
                                          .event_free = "cuEventDestroy_v2"};
static struct module_calls calls;
static const char *missing;

static const char *const libraries[] = {"libcuda.so.1", "libcuda.so", NULL};

static void bind(void) {
    void *library = library_open(libraries);
    if (!library)
        missing = names.alloc;
    else if (module_bind(library, &names, &calls, &missing))
        missing = NULL;
}

static const struct target *open_device(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct target *unit = cuda_target(0);
    if (!unit)
        return NULL;
    pthread_once(&once, bind);
    return !missing
               ? unit
               : error_set(ZL_ERROR_DEVICE, "cuda: libcuda.so.1 has no %s: the driver is too old", missing);
}

static bool identify(struct text *out) {
    char architecture[32];
    cuda_architecture(0, architecture, sizeof architecture);
    const char *stamp = *architecture ? cuda_compiler_stamp() : NULL;
    text_add(out, "%s %s", architecture, stamp ? stamp : "");
    return stamp;
}

static bool compile_text(const struct text *source, struct text *code, void *unused) {
    char architecture[32];
    (void)unused;
    cuda_architecture(0, architecture, sizeof architecture);
    return *architecture && cuda_compile(source->data, architecture, NULL, code);
}

static bool allow_shared(void *function, int64_t bytes) {
    return cuda_allow_shared(function, bytes);
}

static const struct module_target target = {.name = "cuda",
                                            .names = &names,
                                            .calls = &calls,
                                            .open = open_device,
                                            .check = cuda_check,
                                            .identify = identify,
                                            .compile = compile_text,
                                            .allow_shared = allow_shared};

static void *compile(struct tile_kernel *kernel, struct text *source) {
    return module_compile(&target, kernel, source);
}

static bool is_loaded(void) {
    return library_is_loaded(libraries);
}

static bool holds(const void *address) {
    return module_holds(&target, address);
}

const struct kernel_driver kernel_driver_cuda = {.name = "cuda",
                                                 .device = "cuda",
                                                 .compile = compile,
                                                 .run = module_run,
                                                 .time = module_time,
                                                 .free = module_free,
                                                 .is_loaded = is_loaded,
                                                 .holds = holds};
