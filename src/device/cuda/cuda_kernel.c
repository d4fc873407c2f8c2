// cuda_kernel.c - tile kernels on the first GPU: rendered as CUDA C, compiled by NVRTC or nvcc, one launch a grid.
//
// Arguments may be in memory of the GPU, which kernels then work on, or of the host, which is copied there and back. Launches are
// on the default stream, so that they come after what other libraries of the process have begun there.

#include "device/cuda/cuda.h"
#include "device/group_kernel.h"

#include <string.h>

enum {
    POINTER_MEMORY = 2,
    MEMORY_OF_DEVICE = 2,
    DYNAMIC_SHARED = 8,
    COMMON_SHARED = 48 << 10,
    ALIGNMENT = 16
};

struct compiled {
    struct group_kernel group;
    struct cuda_device *device;
    cuda_module module;
    cuda_function *function; // one a launch
};

// Compiling -------------------------------------------------------------------------------------------------------------

static void release(void *compiled) {
    struct compiled *c = compiled;
    if (c->module && cuda_device(0))
        cuda_api()->cuModuleUnload(c->module);
    memory_free(c->function);
    group_kernel_close(&c->group);
    memory_free(c);
}

static bool prepare(const struct compiled *c, const struct render_launch *l, cuda_function f) {
    if (l->threads > c->device->threads)
        return error_false(ZL_ERROR_COMPILE, "cuda: kernel %s has blocks of %d threads; %s has %d at most",
                           c->group.kernel->name, l->threads, c->device->name, c->device->threads);
    if ((size_t)l->shared > c->device->shared)
        return error_false(ZL_ERROR_COMPILE,
                           "cuda: kernel %s has %lld bytes of shared memory; a block of %s has %zu",
                           c->group.kernel->name, (long long)l->shared, c->device->name, c->device->shared);
    return l->shared <= COMMON_SHARED ||
           cuda_check(cuda_api()->cuFuncSetAttribute(f, DYNAMIC_SHARED, (int)l->shared),
                      "cuFuncSetAttribute");
}

static bool find_functions(struct compiled *c) {
    c->function = memory_zero(sizeof *c->function * (size_t)(c->group.launches + 1));
    for (int i = 0; c->function && i < c->group.launches; i++) {
        struct text name = {0};
        text_add(&name, "%s_%d", c->group.kernel->name, i);
        bool good = !name.failed &&
                    cuda_check(cuda_api()->cuModuleGetFunction(&c->function[i], c->module, name.data),
                               "cuModuleGetFunction") &&
                    prepare(c, &c->group.launch[i], c->function[i]);
        text_free(&name);
        if (!good)
            return false;
    }
    return c->function;
}

static bool compile_text(const char *source, struct text *code, void *architecture) {
    return cuda_compile(source, architecture, NULL, code);
}

static void *load_code(const char *code, size_t bytes, void *context) {
    cuda_module module = NULL;
    (void)bytes, (void)context;
    return cuda_check(cuda_api()->cuModuleLoadData(&module, code), "cuModuleLoadData") ? module : NULL;
}

static bool build(struct compiled *c, const char *source) {
    char architecture[32];
    struct text identity = {0};
    cuda_architecture(0, architecture, sizeof architecture);
    const char *stamp = *architecture ? cuda_compiler_stamp() : NULL;
    text_add(&identity, "cuda tiles %s %s", architecture, stamp ? stamp : "");
    if (stamp && !identity.failed)
        c->module = kernel_code_use(&(struct kernel_code){identity.data, source, compile_text, load_code, architecture});
    text_free(&identity);
    return c->module;
}

static void *compile(struct tile_kernel *kernel, char **source) {
    struct compiled *c = memory_zero(sizeof *c);
    if (!c)
        return NULL;
    bool good = (c->device = cuda_device(0)) && (*source = render_kernel(kernel, "cuda_tiles")) &&
                group_kernel_open(&c->group, kernel) && build(c, *source) && find_functions(c);
    if (good)
        return c;
    release(c);
    return NULL;
}

// Arguments -------------------------------------------------------------------------------------------------------------

struct call {
    struct compiled *c;
    struct group_sizes sizes;
    void *const *address;
    const int64_t *symbol;
    cuda_address *memory; // of parameters, rooms, the status
    bool *is_ours;        // of memory: made for this call
    void **argument;
    int32_t *narrow; // symbols of 32 bits
};

static bool is_scalar(const struct call *k, int i) {
    return k->c->group.kernel->parameter[i].is_scalar;
}

static bool is_on_device(const void *address) {
    unsigned kind = 0;
    return !cuda_api()->cuPointerGetAttribute(&kind, POINTER_MEMORY, (cuda_address)(uintptr_t)address) &&
           kind == MEMORY_OF_DEVICE;
}

static bool make(struct call *k, int at, int64_t bytes) {
    k->is_ours[at] =
        cuda_check(cuda_api()->cuMemAlloc_v2(&k->memory[at], (size_t)MAX_OF(bytes, 1)), "cuMemAlloc");
    return k->is_ours[at];
}

static bool bring(struct call *k, int i) {
    void *address = k->address[i];
    if (is_on_device(address)) {
        k->memory[i] = (cuda_address)(uintptr_t)address;
        return k->memory[i] % ALIGNMENT == 0 ||
               error_false(
                   ZL_ERROR_VALUE,
                   "zl_kernel_run: argument '%s' begins at an address that is no multiple of %d bytes",
                   k->c->group.kernel->parameter[i].buffer->text, ALIGNMENT);
    }
    return make(k, i, k->sizes.bytes[i]) &&
           (!k->sizes.bytes[i] || cuda_check(cuda_api()->cuMemcpyHtoDAsync_v2(
                                                 k->memory[i], address, (size_t)k->sizes.bytes[i], NULL),
                                             "cuMemcpyHtoD"));
}

static bool make_memory(struct call *k) {
    const struct group_kernel *g = &k->c->group;
    static const int32_t fine = 0;
    int status = g->parameters + g->rooms;
    for (int i = 0; i < g->parameters; i++)
        if (!is_scalar(k, i) && !bring(k, i))
            return false;
    for (int i = 0; i < g->rooms; i++)
        if (!make(k, g->parameters + i, k->sizes.room[i]))
            return false;
    return make(k, status, sizeof fine) &&
           cuda_check(cuda_api()->cuMemcpyHtoDAsync_v2(k->memory[status], &fine, sizeof fine, NULL),
                      "cuMemcpyHtoD");
}

static void list_arguments(struct call *k) {
    const struct group_kernel *g = &k->c->group;
    int at = 0;
    for (int i = 0; i < g->parameters; i++)
        k->argument[at++] = is_scalar(k, i) ? k->address[i] : &k->memory[i];
    for (int i = 0; i < g->rooms; i++)
        k->argument[at++] = &k->memory[g->parameters + i];
    for (int i = 0; i < g->kernel->symbols; i++) {
        k->narrow[i] = (int32_t)k->symbol[i];
        k->argument[at++] =
            g->kernel->index_bits == 32 ? (void *)&k->narrow[i] : (void *)(uintptr_t)&k->symbol[i];
    }
    k->argument[at] = &k->memory[g->parameters + g->rooms];
}

static bool call_open(struct call *k) {
    const struct group_kernel *g = &k->c->group;
    size_t memories = (size_t)(g->parameters + g->rooms + 1), symbols = (size_t)g->kernel->symbols;
    k->memory = memory_zero(sizeof *k->memory * memories);
    k->is_ours = memory_zero(sizeof *k->is_ours * memories);
    k->argument = memory_zero(sizeof *k->argument * (memories + symbols));
    k->narrow = memory_zero(sizeof *k->narrow * (symbols + 1));
    if (!k->memory || !k->is_ours || !k->argument || !k->narrow || !cuda_device(0) ||
        !group_sizes_open(&k->sizes, &k->c->group, k->symbol) || !make_memory(k))
        return false;
    list_arguments(k);
    return true;
}

static void call_close(struct call *k) {
    const struct group_kernel *g = &k->c->group;
    for (int i = 0; k->is_ours && i <= g->parameters + g->rooms; i++)
        if (k->is_ours[i])
            cuda_api()->cuMemFree_v2(k->memory[i]);
    group_sizes_close(&k->sizes);
    memory_free(k->memory);
    memory_free(k->is_ours);
    memory_free(k->argument);
    memory_free(k->narrow);
}

// Running ---------------------------------------------------------------------------------------------------------------

static bool launch_all(struct call *k) {
    for (int i = 0; i < k->c->group.launches; i++) {
        const struct render_launch *l = &k->c->group.launch[i];
        if (k->sizes.groups[i] > INT32_MAX)
            return error_false(ZL_ERROR_VALUE, "cuda: kernel %s has %lld blocks, more than a launch can have",
                               k->c->group.kernel->name, (long long)k->sizes.groups[i]);
        if (k->sizes.groups[i] > 0 &&
            !cuda_check(cuda_api()->cuLaunchKernel(k->c->function[i], (unsigned)k->sizes.groups[i], 1, 1,
                                                   (unsigned)l->threads, 1, 1, (unsigned)l->shared, NULL,
                                                   k->argument, NULL),
                        "cuLaunchKernel"))
            return false;
    }
    return true;
}

static bool read_results(struct call *k) {
    const struct group_kernel *g = &k->c->group;
    int32_t line = 0;
    for (int i = 0; i < g->parameters; i++)
        if (k->is_ours[i] && g->kernel->parameter[i].buffer->is_output && k->sizes.bytes[i] &&
            !cuda_check(cuda_api()->cuMemcpyDtoHAsync_v2(k->address[i], k->memory[i],
                                                         (size_t)k->sizes.bytes[i], NULL),
                        "cuMemcpyDtoH"))
            return false;
    if (!cuda_check(
            cuda_api()->cuMemcpyDtoHAsync_v2(&line, k->memory[g->parameters + g->rooms], sizeof line, NULL),
            "cuMemcpyDtoH") ||
        !cuda_check(cuda_api()->cuStreamSynchronize(NULL), "cuStreamSynchronize"))
        return false;
    return !line || group_kernel_fail(g, line);
}

static bool run(void *compiled, void *const *address, const int64_t *symbol) {
    struct call k = {.c = compiled, .address = address, .symbol = symbol};
    bool good = call_open(&k) && launch_all(&k) && read_results(&k);
    call_close(&k);
    return good;
}

static bool measure(struct call *k, int repeats, double *seconds) {
    const struct cuda_api *cuda = cuda_api();
    cuda_event begin = NULL, end = NULL;
    float ms = 0;
    bool good = cuda_check(cuda->cuEventCreate(&begin, 0), "cuEventCreate") &&
                cuda_check(cuda->cuEventCreate(&end, 0), "cuEventCreate") &&
                cuda_check(cuda->cuEventRecord(begin, NULL), "cuEventRecord");
    for (int i = 0; i < repeats && good; i++)
        good = launch_all(k);
    good = good && cuda_check(cuda->cuEventRecord(end, NULL), "cuEventRecord") &&
           cuda_check(cuda->cuEventSynchronize(end), "cuEventSynchronize") &&
           cuda_check(cuda->cuEventElapsedTime(&ms, begin, end), "cuEventElapsedTime");
    if (begin)
        cuda->cuEventDestroy_v2(begin);
    if (end)
        cuda->cuEventDestroy_v2(end);
    *seconds = (double)ms / 1e3 / MAX_OF(repeats, 1);
    return good;
}

static bool time_runs(void *compiled, void *const *address, const int64_t *symbol, int repeats,
                      double *seconds) {
    struct call k = {.c = compiled, .address = address, .symbol = symbol};
    bool good = call_open(&k) && launch_all(&k) && measure(&k, repeats, seconds) && read_results(&k);
    call_close(&k);
    return good;
}

const struct kernel_driver kernel_driver_cuda = {
    .name = "cuda", .compile = compile, .run = run, .time = time_runs, .free = release};
