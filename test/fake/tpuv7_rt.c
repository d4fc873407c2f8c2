// tpuv7_rt.c - a libtpuv7_rt.so for tests: SOPHGO's runtime with one chip whose memory is the host's. It does
// not run code of the chip; a launch prints its arguments, and computes what test_bm1690_chip.c expects of
// its kernel.

#include "tpuv7_rt.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tpuRtStream {
    int number;
};
struct tpuRtModule {
    char *code;
};

static struct {
    int used;
    bool has_failed;
    struct tpuRtStream stream;
} fake;

// With FAKE_TPU_FAIL=tpuRtMalloc:5, the first call of that function fails with that code.
static tpuRtStatus_t fails(const char *function) {
    const char *wanted = getenv("FAKE_TPU_FAIL");
    size_t len = strlen(function);
    if (fake.has_failed || !wanted || strncmp(wanted, function, len) != 0 || wanted[len] != ':')
        return tpuRtSuccess;
    fake.has_failed = true;
    return (tpuRtStatus_t)atoi(wanted + len + 1);
}

tpuRtStatus_t tpuRtInit(void) {
    return tpuRtSuccess;
}

tpuRtStatus_t tpuRtGetDeviceCount(int *count) {
    *count = getenv("FAKE_TPU_NONE") ? 0 : 1;
    return tpuRtSuccess;
}

tpuRtStatus_t tpuRtSetDevice(int device) {
    return device ? tpuRtErrParam : tpuRtSuccess;
}

tpuRtStatus_t tpuRtStreamCreate(tpuRtStream_t *out) {
    *out = &fake.stream;
    return tpuRtSuccess;
}

tpuRtStatus_t tpuRtStreamSynchronize(tpuRtStream_t stream) {
    return stream == &fake.stream ? fails("tpuRtStreamSynchronize") : tpuRtErrParam;
}

tpuRtStatus_t tpuRtMalloc(void **out, unsigned long long bytes, int parallel) {
    tpuRtStatus_t code = parallel ? tpuRtErrParam : fails("tpuRtMalloc");
    *out = code ? NULL : malloc(bytes);
    fake.used += *out != NULL;
    return code;
}

tpuRtStatus_t tpuRtFree(void **memory, int parallel) {
    free(*memory);
    fake.used--;
    return parallel ? tpuRtErrParam : tpuRtSuccess;
}

tpuRtStatus_t tpuRtMemcpyS2D(void *to, const void *from, unsigned long long bytes) {
    memcpy(to, from, bytes);
    return tpuRtSuccess;
}

tpuRtStatus_t tpuRtMemcpyD2S(void *to, const void *from, unsigned long long bytes) {
    memcpy(to, from, bytes);
    return tpuRtSuccess;
}

// Loads what the test's compiler writes: a marker, then the text.
tpuRtKernelModule_t tpuRtKernelLoadModule(const char *data, size_t bytes, tpuRtStream_t stream) {
    struct tpuRtModule *module = malloc(sizeof *module);
    if (module && stream && bytes > 4 && !memcmp(data, "\177ELF", 4) && (module->code = strndup(data, bytes)))
        return module;
    free(module);
    return NULL;
}

tpuRtKernelModule_t tpuRtKernelLoadModuleFile(const char *path, tpuRtStream_t stream) {
    char code[64];
    FILE *file = fopen(path, "r");
    size_t bytes = file ? fread(code, 1, sizeof code, file) : 0;
    if (file)
        fclose(file);
    return tpuRtKernelLoadModule(code, bytes, stream);
}

// The last call of a run: prints how many allocations are left.
tpuRtStatus_t tpuRtKernelUnloadModule(tpuRtKernelModule_t module, tpuRtStream_t stream) {
    free(module->code);
    free(module);
    fprintf(stderr, "unload, %d allocations\n", fake.used);
    return stream ? tpuRtSuccess : tpuRtErrParam;
}

// Runs the test's kernel, twice(a: f32[n]) -> (y: f32[n]), whose arguments are a, y, n; each core gets a copy
// of them.
tpuRtStatus_t tpuRtKernelLaunch(tpuRtKernelModule_t module, const char *name, void *arguments, uint32_t bytes,
                                uint64_t groups, uint64_t blocks, tpuRtStream_t stream) {
    struct {
        const float *a;
        float *y;
        int64_t n;
    } own;
    tpuRtStatus_t code = fails("tpuRtKernelLaunch");
    bool fits = stream && module && bytes == blocks * sizeof own;
    for (unsigned i = 1; fits && i < blocks; i++)
        fits = !memcmp(arguments, (char *)arguments + i * sizeof own, sizeof own);
    if (!fits)
        return tpuRtErrParam;
    memcpy(&own, arguments, sizeof own);
    fprintf(stderr, "launch %s on %d group of %d cores, n = %d, %d allocations\n", name, (int)groups,
            (int)blocks, (int)own.n, fake.used);
    for (int64_t i = 0; !code && i < own.n; i++)
        own.y[i] = 2 * own.a[i];
    return code;
}
