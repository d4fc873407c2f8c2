// cuda_compiler.c - compiles CUDA C with NVRTC, a library, or else with nvcc, a program. Neither needs a GPU
// or its driver.

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct nvrtc_program_ *nvrtc_program;

// name, parameters; all return 0 for success
#define NVRTC_FUNCTIONS(F)                                                                         \
    F(nvrtcVersion, (int *major, int *minor))                                                      \
    F(nvrtcCreateProgram, (nvrtc_program * out, const char *source, const char *name, int headers, \
                           const char *const *header, const char *const *include))                 \
    F(nvrtcCompileProgram, (nvrtc_program p, int options, const char *const *option))              \
    F(nvrtcGetCUBINSize, (nvrtc_program p, size_t * bytes))                                        \
    F(nvrtcGetCUBIN, (nvrtc_program p, char *out))                                                 \
    F(nvrtcGetProgramLogSize, (nvrtc_program p, size_t * bytes))                                   \
    F(nvrtcGetProgramLog, (nvrtc_program p, char *out))                                            \
    F(nvrtcDestroyProgram, (nvrtc_program * p))

static struct {
#define MEMBER(name, parameters) int(*name) parameters;
    NVRTC_FUNCTIONS(MEMBER)
#undef MEMBER
} nvrtc;

static struct {
    // options for the folders of NVIDIA's headers, which only texts that programs supply include
    char headers[2 * PATH_MAX + 32];
    bool has_nvrtc;
    char nvcc[PATH_MAX]; // path; "" if there is none
    char name[PATH_MAX + 32], stamp[PATH_MAX + 96];
} found;

// Finding ---------------------------------------------------------------------------------------------------

static bool bind(void *library) {
#define SYMBOL(name, parameters) {#name, (void **)(void *)&nvrtc.name},
    static const struct library_symbol symbols[] = {NVRTC_FUNCTIONS(SYMBOL)};
#undef SYMBOL
    const char *missing;
    return library && library_bind(library, symbols, COUNT(symbols), &missing);
}

static const char *const homes[] = {"", "/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda",
                                    "/usr"}; // the first: ZL_CUDA

static const char *home_at(size_t i) {
    return i ? homes[i] : setting_text(SETTING_CUDA);
}

static bool is_program(const char *folder, int len, const char *more) {
    snprintf(found.nvcc, sizeof found.nvcc, "%.*s%s/nvcc", len, folder, more);
    if (len > 0 && access(found.nvcc, X_OK) == 0)
        return true;
    found.nvcc[0] = 0;
    return false;
}

static bool find_nvcc(void) {
    for (size_t i = 0; i < COUNT(homes); i++)
        if (*home_at(i) && is_program(home_at(i), (int)strlen(home_at(i)), "/bin"))
            return true;
    for (const char *path = getenv("PATH"); path && *path;) {
        size_t len = strcspn(path, ":");
        if (is_program(path, (int)len, ""))
            return true;
        path += len + (path[len] != 0);
    }
    return false;
}

// Finds NVIDIA's headers, next to the library or in a Python package next to the library's.
static void find_headers(void) {
    static const char *const places[] = {"../include", "../../cuda_runtime/include"};
    Dl_info info;
    char path[PATH_MAX], real[PATH_MAX];
    if (!dladdr((void *)(uintptr_t)nvrtc.nvrtcVersion, &info) || !info.dli_fname ||
        !realpath(info.dli_fname, real))
        return;
    real[strrchr(real, '/') - real] = 0;
    for (size_t i = 0; !found.headers[0] && i < COUNT(places); i++) {
        int len = snprintf(path, sizeof path, "%s/%s/cuda_fp16.h", real, places[i]);
        if (len < (int)sizeof path && !strchr(path, ' ') && access(path, R_OK) == 0)
            snprintf(found.headers, sizeof found.headers, "-I%s/%s -I%s/%s/cccl", real, places[i], real,
                     places[i]);
    }
}

static void find(void) {
    int major = 0, minor = 0;
    void *library = cuda_library("nvrtc", (const int[CUDA_VERSIONS]){13, 12});
    found.has_nvrtc = bind(library) && !nvrtc.nvrtcVersion(&major, &minor);
    if (found.has_nvrtc) {
        snprintf(found.name, sizeof found.name, "NVRTC %d.%d", major, minor);
        find_headers();
    }
    else if (find_nvcc())
        snprintf(found.name, sizeof found.name, "%s", found.nvcc);
    struct stat s = {0};
    if (found.nvcc[0] && stat(found.nvcc, &s))
        s.st_size = 0;
    snprintf(found.stamp, sizeof found.stamp, "%s %lld %lld", found.name, (long long)s.st_size,
             (long long)s.st_mtime);
}

const char *cuda_compiler(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
    return found.name[0]
               ? found.name
               : error_set(
                     ZL_ERROR_COMPILE,
                     "cuda: no compiler: neither libnvrtc.so nor nvcc was found; install the CUDA toolkit "
                     "(or the package nvidia-cuda-nvrtc), or name its folder in ZL_CUDA");
}

const char *cuda_compiler_stamp(void) {
    return cuda_compiler() ? found.stamp : NULL;
}

// Compiling -------------------------------------------------------------------------------------------------

enum { OPTIONS = 16 };

// Lists the options of every compilation, then those of the caller, split at spaces. room holds their text.
// Returns their number, or -1 if memory runs out.
static int list_options(const char *architecture, const char *more, struct text *room, const char **option) {
    int count = 0;
    char *rest = NULL;
    text_add(room, "-arch=%s --fmad=false --std=c++17 %s %s", architecture, found.headers, more ? more : "");
    if (room->failed)
        return -1;
    for (char *word = strtok_r(room->data, " ", &rest); word && count < OPTIONS;
         word = strtok_r(NULL, " ", &rest))
        option[count++] = word;
    return count;
}

static bool report_log(nvrtc_program program, int failed) {
    size_t bytes = 0;
    nvrtc.nvrtcGetProgramLogSize(program, &bytes);
    char *log = memory_zero(bytes + 1);
    if (log)
        nvrtc.nvrtcGetProgramLog(program, log);
    error_set(ZL_ERROR_COMPILE, "cuda: NVRTC failed with code %d: %s", failed, log ? log : "");
    memory_free(log);
    return false;
}

static bool take_code(nvrtc_program program, struct text *code) {
    size_t bytes = 0;
    char *data = nvrtc.nvrtcGetCUBINSize(program, &bytes) ? NULL : memory_alloc(bytes + 1);
    bool done = data && !nvrtc.nvrtcGetCUBIN(program, data);
    if (done)
        text_bytes(code, data, (int)bytes);
    memory_free(data);
    return done || error_false(ZL_ERROR_COMPILE, "cuda: NVRTC gave no code");
}

static bool compile_here(const char *source, int options, const char *const *option, struct text *code) {
    nvrtc_program program = NULL;
    int failed = nvrtc.nvrtcCreateProgram(&program, source, "kernel.cu", 0, NULL, NULL);
    if (failed)
        return error_false(ZL_ERROR_COMPILE, "cuda: nvrtcCreateProgram failed with code %d", failed);
    failed = nvrtc.nvrtcCompileProgram(program, options, option);
    bool done = failed ? report_log(program, failed) : take_code(program, code);
    nvrtc.nvrtcDestroyProgram(&program);
    return done;
}

static bool run_nvcc(const char *folder, int options, const char *const *option) {
    char from[PATH_MAX], to[PATH_MAX];
    const char *word[OPTIONS + 8] = {found.nvcc, "-cubin", "-o", to, from};
    struct text output = {0};
    int reason = 0;
    snprintf(from, sizeof from, "%s/kernel.cu", folder);
    snprintf(to, sizeof to, "%s/kernel.cubin", folder);
    memcpy(word + 5, option, sizeof *option * (size_t)options);
    enum process_end end = process_run((char *const *)(uintptr_t)word, &output, &reason);
    if (end == PROCESS_NOT_STARTED)
        error_set(ZL_ERROR_COMPILE, "cuda: %s could not be started: %s", found.nvcc, strerror(reason));
    text_free(&output);
    return end == PROCESS_DONE;
}

static bool compile_by_program(const char *source, int options, const char *const *option,
                               struct text *code) {
    char folder[] = "/tmp/zellige-XXXXXX", path[64];
    size_t bytes = 0;
    if (!mkdtemp(folder))
        return error_false(ZL_ERROR_IO, "cuda: no folder to compile in: %m");
    snprintf(path, sizeof path, "%s/kernel.cu", folder);
    bool done = file_write(path, source, strlen(source)) && run_nvcc(folder, options, option);
    unlink(path);
    snprintf(path, sizeof path, "%s/kernel.cubin", folder);
    char *data = done ? file_read(path, &bytes) : NULL;
    if (data)
        text_bytes(code, data, (int)bytes);
    memory_free(data);
    unlink(path);
    rmdir(folder);
    return data;
}

bool cuda_compile(const char *source, const char *architecture, const char *options, struct text *code) {
    struct text room = {0};
    const char *option[OPTIONS];
    if (!cuda_compiler())
        return false;
    int count = list_options(architecture, options, &room, option);
    bool done = count >= 0 && (found.has_nvrtc ? compile_here(source, count, option, code)
                                               : compile_by_program(source, count, option, code));
    text_free(&room);
    return done;
}

void cuda_architecture(int unit, char *out, size_t room) {
    struct cuda_device *d = cuda_device(unit);
    *out = 0;
    if (d)
        snprintf(out, room, "sm_%d%d%s", d->major, d->minor, d->major >= 9 ? "a" : "");
}
