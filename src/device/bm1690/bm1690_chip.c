// bm1690_chip.c - drives a BM1690 through the vendor's runtime, libtpuv7_rt.so, which is opened at run time.

#include "device/bm1690/bm1690_tools.h"

#include "device/tile_runtime/group_kernel.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NO_MEMORY = 5, MEMORY_ALLOCATION = 15 }; // error codes of the runtime

// F(name, return type, parameters)
#define RUNTIME_FUNCTIONS(F)                                                                              \
    F(tpuRtInit, int, (void))                                                                             \
    F(tpuRtGetDeviceCount, int, (int *count))                                                             \
    F(tpuRtSetDevice, int, (int device))                                                                  \
    F(tpuRtMalloc, int, (void **out, unsigned long long bytes, int parallel))                             \
    F(tpuRtFree, int, (void **memory, int parallel))                                                      \
    F(tpuRtMemcpyS2D, int, (void *to, const void *from, unsigned long long bytes))                        \
    F(tpuRtMemcpyD2S, int, (void *to, const void *from, unsigned long long bytes))                        \
    F(tpuRtStreamCreate, int, (void **out))                                                               \
    F(tpuRtStreamSynchronize, int, (void *stream))                                                        \
    F(tpuRtKernelLoadModule, void *, (const char *data, size_t bytes, void *stream))                      \
    F(tpuRtKernelUnloadModule, int, (void *module, void *stream))                                         \
    F(tpuRtKernelLaunch, int,                                                                             \
      (void *module, const char *name, void *arguments, uint32_t bytes, uint64_t groups, uint64_t blocks, \
       void *stream))

static struct {
#define MEMBER(name, result, parameters) result(*name) parameters;
    RUNTIME_FUNCTIONS(MEMBER)
#undef MEMBER
} rt;

static struct {
    struct bm1690_tools tools;
    bool is_used;
    char says[PATH_MAX + 512];
    void *stream; // of the first chip
    unsigned era; // the value of fork_era when it was opened
} found;

// Finding ---------------------------------------------------------------------------------------------------

// Opens the runtime and the first chip. Returns NULL, or the reason why there is no chip.
static const char *open_chip(void) {
    static const char *const libraries[] = {"libtpuv7_rt.so", "/opt/tpuv7/tpuv7-current/lib/libtpuv7_rt.so",
                                            NULL};
#define SYMBOL(name, result, parameters) {#name, (void **)(void *)&rt.name},
    const struct library_symbol symbols[] = {RUNTIME_FUNCTIONS(SYMBOL)};
#undef SYMBOL
    int count = 0;
    void *library = library_open(libraries);
    if (!library)
        return "libtpuv7_rt.so, SophGo's runtime, is not installed";
    if (!library_bind(library, symbols, COUNT(symbols), NULL))
        return "libtpuv7_rt.so lacks functions that are needed: it is of another release";
    if (rt.tpuRtInit() || rt.tpuRtGetDeviceCount(&count) || !count)
        return "SophGo's runtime finds no chip";
    return rt.tpuRtSetDevice(0) || rt.tpuRtStreamCreate(&found.stream)
               ? "SophGo's runtime does not open the first chip"
               : NULL;
}

static void find(void) {
    const char *wanted = setting_text(SETTING_BM1690);
    found.era = atomic_load(&fork_era);
    if (!strcmp(wanted, "emulator")) {
        snprintf(found.says, sizeof found.says, "emulator: ZL_BM1690 says so");
        return;
    }
    const char *why = open_chip();
    bm1690_tools_find(&found.tools);
    if (!why && *found.tools.missing)
        why = found.tools.missing;
    found.is_used = !why || !strcmp(wanted, "chip");
    if (why)
        snprintf(found.says, sizeof found.says, "%s: %s", found.is_used ? "chip" : "emulator", why);
    else
        snprintf(found.says, sizeof found.says, "chip: by libtpuv7_rt.so, with the tools of %s",
                 found.tools.root);
}

static void open_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
}

bool bm1690_chip_is_used(void) {
    open_once();
    return found.is_used;
}

const char *bm1690_chip_says(void) {
    open_once();
    return found.says;
}

// Opens the chip on first use, and checks that it can run kernels and was not opened before a fork().
static bool use_chip(void) {
    open_once();
    if (!found.stream || *found.tools.missing)
        return error_false(ZL_ERROR_DEVICE, "bm1690: ZL_BM1690 wants a %s", found.says);
    return fork_spares("bm1690", found.era);
}

static bool check(int code, const char *function) {
    return code == 0 ||
           error_false(code == NO_MEMORY || code == MEMORY_ALLOCATION ? ZL_ERROR_MEMORY : ZL_ERROR_DEVICE,
                       "bm1690: %s: the runtime's code %d", function, code);
}

// Compiling -------------------------------------------------------------------------------------------------

struct bm1690_chip_module {
    void *module; // the runtime's handle
};

static bool run_compiler(const char *from, const char *to) {
    const struct bm1690_tools *t = &found.tools;
    char include[BM1690_HEADER_FOLDERS][PATH_MAX + 8];
    for (int i = 0; i < BM1690_HEADER_FOLDERS; i++)
        snprintf(include[i], sizeof include[i], "-I%s", t->include[i]);
    const char *word[] = {t->compiler,
                          "-O2",
                          "-fPIC",
                          "-shared",
                          "-w",
                          "-D__bm1690__",
                          "-D__sg2260__",
                          include[0],
                          include[1],
                          include[2],
                          "-o",
                          to,
                          from,
                          "-Wl,--whole-archive",
                          t->archive,
                          "-Wl,--no-whole-archive",
                          "-Wl,--no-undefined",
                          "-ldl",
                          "-lm",
                          NULL};
    struct text output = {0};
    int reason = 0;
    enum process_end end = process_run((char *const *)(uintptr_t)word, &output, &reason);
    if (end == PROCESS_NOT_STARTED)
        error_set(ZL_ERROR_COMPILE, "bm1690: %s could not be started: %s", t->compiler, strerror(reason));
    text_free(&output);
    return end == PROCESS_DONE;
}

static bool compile_text(const struct text *source, struct text *code, void *unused) {
    (void)unused;
    return process_compile("bm1690", source, "kernel.c", "libkernel.so", run_compiler, code);
}

static void *load_code(const char *code, size_t bytes, void *unused) {
    struct bm1690_chip_module *m = memory_zero(sizeof *m);
    (void)unused;
    if (m && (m->module = rt.tpuRtKernelLoadModule(code, bytes, found.stream)))
        return m;
    if (m)
        error_set(ZL_ERROR_DEVICE, "bm1690: tpuRtKernelLoadModule does not take the compiled kernel");
    memory_free(m);
    return NULL;
}

struct bm1690_chip_module *bm1690_chip_load(const struct text *source) {
    struct text identity = {0};
    text_add(&identity, "bm1690 %s %s", found.tools.compiler, found.tools.archive);
    struct bm1690_chip_module *m =
        use_chip() && !identity.failed
            ? kernel_code_use(&(struct kernel_code){
                  .identity = identity.data, .source = source, .compile = compile_text, .load = load_code})
            : NULL;
    text_free(&identity);
    return m;
}

void bm1690_chip_unload(struct bm1690_chip_module *module) {
    if (module)
        rt.tpuRtKernelUnloadModule(module->module, found.stream);
    memory_free(module);
}

// Memory and launches ---------------------------------------------------------------------------------------

void *bm1690_chip_alloc(size_t bytes) {
    void *memory = NULL;
    return use_chip() && check(rt.tpuRtMalloc(&memory, bytes, 0), "tpuRtMalloc") ? memory : NULL;
}

bool bm1690_chip_write(void *to, const void *from, size_t bytes) {
    return check(rt.tpuRtMemcpyS2D(to, from, bytes), "tpuRtMemcpyS2D");
}

bool bm1690_chip_read(void *to, const void *from, size_t bytes) {
    return check(rt.tpuRtMemcpyD2S(to, from, bytes), "tpuRtMemcpyD2S");
}

void bm1690_chip_free(void *memory) {
    if (memory)
        rt.tpuRtFree(&memory, 0);
}

bool bm1690_chip_launch(struct bm1690_chip_module *module, const char *entry, const void *arguments,
                        size_t bytes, int cores) {
    char *copies = use_chip() ? memory_alloc(bytes * (size_t)cores + 1) : NULL;
    for (int i = 0; copies && i < cores; i++)
        memcpy(copies + bytes * (size_t)i, arguments, bytes);
    bool good = copies &&
                check(rt.tpuRtKernelLaunch(module->module, entry, copies, (uint32_t)(bytes * (size_t)cores),
                                           1, (uint64_t)cores, found.stream),
                      "tpuRtKernelLaunch") &&
                check(rt.tpuRtStreamSynchronize(found.stream), "tpuRtStreamSynchronize");
    memory_free(copies);
    return good;
}
