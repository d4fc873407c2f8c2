// hip_kernel.c - the target hip: tile kernels rendered as HIP and compiled by clang, for the first AMD GPU.
//
// The text declares everything it uses and needs no header, so any clang that supports the chip will do,
// ROCm's or the system's. The chip's name is read from the kernel driver in /sys.

#include "device/tile_runtime/module_kernel.h"

#include "render/render.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { // values from HIP's header
    MOST_THREADS = 56,
    SHARED_OF_BLOCK = 74,
    OUT_OF_MEMORY = 2,
};

// name, return type, parameters
#define HIP_FUNCTIONS(F)                                       \
    F(hipInit, int, (unsigned flags))                          \
    F(hipGetDeviceCount, int, (int *count))                    \
    F(hipSetDevice, int, (int device))                         \
    F(hipDeviceGetName, int, (char *out, int room, int d))     \
    F(hipDeviceGetAttribute, int, (int *out, int what, int d)) \
    F(hipGetErrorString, const char *, (int code))

static struct {
#define MEMBER(name, result, parameters) result(*name) parameters;
    HIP_FUNCTIONS(MEMBER)
#undef MEMBER
} hip;

static const struct module_names names = {.alloc = "hipMalloc",
                                          .free = "hipFree",
                                          .copy_in = "hipMemcpyHtoDAsync",
                                          .copy_out = "hipMemcpyDtoHAsync",
                                          .wait = "hipStreamSynchronize",
                                          .pointer = "hipPointerGetAttribute",
                                          .load = "hipModuleLoadData",
                                          .unload = "hipModuleUnload",
                                          .find = "hipModuleGetFunction",
                                          .launch = "hipModuleLaunchKernel",
                                          .event_make = "hipEventCreateWithFlags",
                                          .event_record = "hipEventRecord",
                                          .event_wait = "hipEventSynchronize",
                                          .event_between = "hipEventElapsedTime",
                                          .event_free = "hipEventDestroy"};
static struct module_calls calls;
#define HIP_LIBRARIES "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"

static struct {
    char why_none[256]; // "": there is a device
    char name[128], chip[16];
    struct target_unit unit;
    char clang[PATH_MAX], libraries[PATH_MAX + 64]; // the compiler option for ROCm's device libraries;
                                                    // "-nogpulib" without them
    long long stamp;
    unsigned era; // the value of fork_era when it was opened
} found;

// Finding ---------------------------------------------------------------------------------------------------

static const char *home(void) {
    const char *own = setting_text(SETTING_ROCM);
    return *own ? own : "/opt/rocm";
}

static bool bind(void) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/lib/libamdhip64.so", home());
    const char *const libraries[] = {HIP_LIBRARIES, path, NULL};
#define SYMBOL(name, result, parameters) {#name, (void **)(void *)&hip.name},
    const struct library_symbol symbols[] = {HIP_FUNCTIONS(SYMBOL)};
#undef SYMBOL
    const char *missing = NULL;
    void *library = library_open(libraries);
    if (!library)
        snprintf(found.why_none, sizeof found.why_none,
                 "libamdhip64.so, of ROCm, is not installed; ZL_ROCM may name its folder");
    else if (!library_bind(library, symbols, COUNT(symbols), &missing) ||
             !module_bind(library, &names, &calls, &missing))
        snprintf(found.why_none, sizeof found.why_none, "libamdhip64.so has no %s: it is too old", missing);
    return !*found.why_none;
}

// Sets the chip's name from its version: 9.0.10, also written as 90010, is gfx90a.
static bool name_chip(int major, int minor, int step) {
    snprintf(found.chip, sizeof found.chip, "gfx%d%x%x", major, (unsigned)minor & 15, (unsigned)step & 15);
    return major > 0;
}

static int version_of_node(int node) {
    char path[96], line[128];
    int version = -1;
    snprintf(path, sizeof path, "/sys/class/kfd/kfd/topology/nodes/%d/properties", node);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "gfx_target_version %d", &version) == 1)
            break;
    if (file)
        fclose(file);
    return version;
}

static bool find_chip(void) {
    const char *told = getenv("HSA_OVERRIDE_GFX_VERSION"); // ROCm's variable for treating a chip as another
                                                           // one
    int major, minor, step, version = 0;
    if (told && sscanf(told, "%d.%d.%d", &major, &minor, &step) == 3)
        return name_chip(major, minor, step);
    for (int node = 0; node < 64 && version == 0; node++) // nodes of CPUs have version 0
        version = version_of_node(node);
    return version > 0 && name_chip(version / 10000, version / 100 % 100, version % 100);
}

static bool is_clang(const char *folder, int len, const char *more) {
    struct stat s;
    snprintf(found.clang, sizeof found.clang, "%.*s%s/clang", len, folder, more);
    if (len > 0 && access(found.clang, X_OK) == 0 && stat(found.clang, &s) == 0) {
        found.stamp = (long long)s.st_size ^ (long long)s.st_mtime;
        return true;
    }
    found.clang[0] = 0;
    return false;
}

static void find_clang(void) {
    char bitcode[PATH_MAX];
    snprintf(bitcode, sizeof bitcode, "%s/amdgcn/bitcode", home());
    bool has_libraries = access(bitcode, R_OK) == 0;
    snprintf(found.libraries, sizeof found.libraries, "%s%s",
             has_libraries ? "--rocm-device-lib-path=" : "-nogpulib", has_libraries ? bitcode : "");
    if (is_clang(home(), (int)strlen(home()), "/llvm/bin"))
        return;
    for (const char *path = getenv("PATH"); path && *path;) {
        size_t len = strcspn(path, ":");
        if (is_clang(path, (int)len, ""))
            return;
        path += len + (path[len] != 0);
    }
}

static void describe(void) {
    int threads = 0, shared = 0;
    hip.hipDeviceGetName(found.name, sizeof found.name, 0);
    hip.hipDeviceGetAttribute(&threads, MOST_THREADS, 0);
    hip.hipDeviceGetAttribute(&shared, SHARED_OF_BLOCK, 0);
    target_set_unit(&found.unit, render_target("hip_tiles"), found.name, threads, shared);
}

static void find(void) {
    found.era = atomic_load(&fork_era);
    int count = 0;
    if (!bind())
        return;
    int failed = hip.hipInit(0);
    if (!failed)
        failed = hip.hipGetDeviceCount(&count);
    if (failed || !count)
        snprintf(found.why_none, sizeof found.why_none, "%s",
                 failed ? hip.hipGetErrorString(failed) : "HIP finds none");
    else if (!find_chip())
        snprintf(found.why_none, sizeof found.why_none,
                 "/sys/class/kfd does not tell which chip it is; HSA_OVERRIDE_GFX_VERSION may, as in 9.0.10");
    if (*found.why_none)
        return;
    describe();
    find_clang();
}

static bool check(int code, const char *function) {
    return code == 0 || error_false(code == OUT_OF_MEMORY ? ZL_ERROR_MEMORY : ZL_ERROR_DEVICE, "hip: %s: %s",
                                    function, hip.hipGetErrorString(code));
}

static const struct target *open_device(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
    if (*found.why_none)
        return error_set(ZL_ERROR_DEVICE, "hip: there is no device: %s", found.why_none);
    return fork_spares("hip", found.era) && check(hip.hipSetDevice(0), "hipSetDevice") ? &found.unit.target
                                                                                       : NULL;
}

// Compiling -------------------------------------------------------------------------------------------------

static bool identify(struct text *out) {
    text_add(out, "%s %s %lld %s", found.chip, found.clang, found.stamp, found.libraries);
    return *found.clang || error_false(ZL_ERROR_COMPILE,
                                       "hip: no compiler: there is no clang in %s/llvm/bin or PATH; install "
                                       "ROCm's or the system's, or name ROCm's folder in ZL_ROCM",
                                       home());
}

static bool run_clang(const char *from, const char *to) {
    char chip[32];
    const char *word[] = {found.clang,
                          "-x",
                          "hip",
                          "--cuda-device-only",
                          chip,
                          "-nogpuinc",
                          found.libraries,
                          "-O3",
                          "-ffp-contract=off",
                          "-o",
                          to,
                          from,
                          NULL};
    struct text output = {0};
    int reason = 0;
    snprintf(chip, sizeof chip, "--offload-arch=%s", found.chip);
    enum process_end end = process_run((char *const *)(uintptr_t)word, &output, &reason);
    if (end == PROCESS_NOT_STARTED)
        error_set(ZL_ERROR_COMPILE, "hip: %s could not be started: %s", found.clang, strerror(reason));
    text_free(&output);
    return end == PROCESS_DONE;
}

static bool compile_text(const struct text *source, struct text *code, void *unused) {
    (void)unused;
    return process_compile("hip", source, "kernel.hip", "kernel.hsaco", run_clang, code);
}

static const struct module_target target = {.name = "hip",
                                            .names = &names,
                                            .calls = &calls,
                                            .open = open_device,
                                            .check = check,
                                            .identify = identify,
                                            .compile = compile_text};

static void *compile(struct tile_kernel *kernel, struct text *source) {
    return module_compile(&target, kernel, source);
}

static bool is_loaded(void) {
    static const char *const libraries[] = {HIP_LIBRARIES, NULL};
    return library_is_loaded(libraries);
}

static bool holds(const void *address) {
    return module_holds(&target, address);
}

const struct kernel_driver kernel_driver_hip = {.name = "hip",
                                                .device = "hip",
                                                .compile = compile,
                                                .run = module_run,
                                                .time = module_time,
                                                .free = module_free,
                                                .is_loaded = is_loaded,
                                                .holds = holds};
