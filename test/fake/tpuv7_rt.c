// tpuv7_rt.c - a libtpuv7_rt.so for tests: SophGo's runtime with one chip whose memory is the host's. It does not run code of the chip; a
// launch prints what it was given, and does what test_bm1690_chip.c expects of its kernel.

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    int used;
    bool has_stream, has_failed;
} fake;

// FAKE_TPU_FAIL=tpuRtMalloc:5 lets the first call of a function fail with a code.
static int fails(const char *function) {
    const char *wanted = getenv("FAKE_TPU_FAIL");
    size_t len = strlen(function);
    if (fake.has_failed || !wanted || strncmp(wanted, function, len) != 0 || wanted[len] != ':')
        return 0;
    fake.has_failed = true;
    return atoi(wanted + len + 1);
}

int tpuRtInit(void) {
    return 0;
}

int tpuRtGetDeviceCount(int *count) {
    *count = getenv("FAKE_TPU_NONE") ? 0 : 1;
    return 0;
}

int tpuRtSetDevice(int device) {
    return device ? 11 : 0;
}

int tpuRtStreamCreate(void **out) {
    fake.has_stream = true;
    *out = &fake.has_stream;
    return 0;
}

int tpuRtStreamSynchronize(void *stream) {
    return stream == &fake.has_stream ? fails("tpuRtStreamSynchronize") : 12;
}

int tpuRtMalloc(void **out, unsigned long long bytes, int parallel) {
    int code = parallel ? 4 : fails("tpuRtMalloc");
    *out = code ? NULL : malloc(bytes);
    fake.used += *out != NULL;
    return code;
}

int tpuRtFree(void **memory, int parallel) {
    free(*memory);
    fake.used--;
    return parallel;
}

int tpuRtMemcpyS2D(void *to, const void *from, unsigned long long bytes) {
    memcpy(to, from, bytes);
    return 0;
}

int tpuRtMemcpyD2S(void *to, const void *from, unsigned long long bytes) {
    memcpy(to, from, bytes);
    return 0;
}

// What the compiler of the test makes: a mark, then the text.
void *tpuRtKernelLoadModule(const char *data, size_t bytes, void *stream) {
    return bytes > 4 && !memcmp(data, "\177ELF", 4) && stream ? strndup(data, bytes) : NULL;
}

// The last call of a run: all memory is back.
int tpuRtKernelUnloadModule(void *module, void *stream) {
    free(module);
    fprintf(stderr, "unload, %d allocations\n", fake.used);
    return !stream;
}

// The kernel of the test, twice(a: f32[n]) -> (y: f32[n]), has the arguments a, y, n; each core gets a copy of them.
int tpuRtKernelLaunch(void *module, const char *name, void *arguments, unsigned bytes,
                      unsigned long long groups, unsigned long long blocks, void *stream) {
    struct {
        const float *a;
        float *y;
        long long n;
    } own;
    int code = fails("tpuRtKernelLaunch");
    bool fits = stream && module && bytes == blocks * sizeof own;
    for (unsigned i = 1; fits && i < blocks; i++)
        fits = !memcmp(arguments, (char *)arguments + i * sizeof own, sizeof own);
    if (!fits)
        return 4;
    memcpy(&own, arguments, sizeof own);
    fprintf(stderr, "launch %s on %llu group of %llu cores, n = %lld, %d allocations\n", name, groups, blocks,
            own.n, fake.used);
    for (long long i = 0; !code && i < own.n; i++)
        own.y[i] = 2 * own.a[i];
    return code;
}
