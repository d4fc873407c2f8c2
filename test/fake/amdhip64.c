// amdhip64.c - a libamdhip64.so.6 for tests: one device whose memory is the host's. It does not run code of
// AMD's chips; a launch logs its arguments, and computes what test_hip.c expects of its kernels.

#include "fake.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static struct {
    void *memory[MOST];
    char log[256], wanted[32];
    int code;
} fake;

// Returns the log of the last launch.
const char *fake_hip_launch(void) {
    return fake.log;
}

// Makes the next call of the function fail with a code.
void fake_hip_fail(const char *function, int code) {
    snprintf(fake.wanted, sizeof fake.wanted, "%s", function);
    fake.code = code;
}

static int fails(const char *function) {
    if (strcmp(fake.wanted, function) != 0)
        return 0;
    fake.wanted[0] = 0;
    return fake.code;
}

int fake_hip_used(void) {
    int count = 0;
    for (int i = 0; i < MOST; i++)
        count += fake.memory[i] != NULL;
    return count;
}

int hipInit(unsigned flags) {
    return (int)flags;
}

int hipGetDeviceCount(int *count) {
    *count = 1;
    return 0;
}

int hipSetDevice(int device) {
    return device ? 101 : 0;
}

int hipDeviceGetName(char *out, int room, int device) {
    snprintf(out, (size_t)room, "fake %d", device);
    return 0;
}

int hipDeviceGetAttribute(int *out, int what, int device) {
    (void)device;
    *out = what == 56 ? 1024 : what == 74 ? 65536 : -1;
    return 0;
}

const char *hipGetErrorString(int code) {
    return code == 2 ? "out of memory" : "told to fail";
}

int hipMalloc(void **out, size_t bytes) {
    int code = fails("hipMalloc");
    for (int i = 0; !code && i < MOST; i++)
        if (!fake.memory[i]) {
            *out = fake.memory[i] = malloc(bytes);
            return 0;
        }
    return code ? code : 2;
}

int hipFree(void *memory) {
    for (int i = 0; i < MOST; i++)
        if (fake.memory[i] == memory)
            fake.memory[i] = NULL;
    free(memory);
    return 0;
}

int hipMemcpyHtoDAsync(void *to, const void *from, size_t bytes, void *stream) {
    (void)stream;
    memcpy(to, from, bytes);
    return 0;
}

int hipMemcpyDtoHAsync(void *to, void *from, size_t bytes, void *stream) {
    (void)stream;
    memcpy(to, from, bytes);
    return fails("hipMemcpyDtoHAsync");
}

int hipStreamSynchronize(void *stream) {
    (void)stream;
    return 0;
}

int hipPointerGetAttribute(void *out, int what, void *memory) {
    for (int i = 0; i < MOST; i++)
        if (memory && fake.memory[i] == memory && what == 2)
            return *(unsigned *)out = 2, 0;
    return 1;
}

// Accepts code for a chip, or for several in a bundle, as clang writes it.
int hipModuleLoadData(void **out, const void *code) {
    static const char bundle[] = "__CLANG_OFFLOAD_BUNDLE__";
    if (memcmp(code, "\177ELF", 4) != 0 && strncmp(code, bundle, sizeof bundle - 1) != 0)
        return 209;
    *out = strdup("module");
    return 0;
}

int hipModuleUnload(void *module) {
    free(module);
    return 0;
}

int hipModuleGetFunction(void **out, void *module, const char *name) {
    static char last[64];
    (void)module;
    snprintf(last, sizeof last, "%s", name);
    *out = last;
    return 0;
}

// Computes the kernels of test_hip.c. twice(a: f32[n]) -> (y: f32[n]) has the arguments a, y, n. `guarded` is
// the same with an assertion in line 3 that no number is negative; its additional argument is the memory for
// the line of a failed assertion. looked_up(t: table f32[4], a: f32[n]) -> (y: f32[n]) has the four numbers
// of t before a, and multiplies by them in turn.
int hipModuleLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **argument,
                          void **extra) {
    static const float plain[4] = {2, 2, 2, 2};
    bool has_table = !strcmp(function, "looked_up_0");
    const float *by = has_table ? argument[0] : plain;
    argument += has_table;
    const float *from = *(float **)argument[0];
    float *to = *(float **)argument[1];
    int64_t n = *(int64_t *)argument[2];
    int32_t *line = strcmp(function, "guarded_0") ? NULL : *(int32_t **)argument[3];
    (void)stream, (void)extra;
    snprintf(fake.log, sizeof fake.log, "%s %u %u %u, %u %u %u, %u; %lld%s", (char *)function, x, y, z,
             block_x, block_y, block_z, shared, (long long)n,
             !line   ? ""
             : *line ? ", failed"
                     : ", 0");
    for (int64_t i = 0; i < n; i++) {
        to[i] = by[i % 4] * from[i];
        if (line && from[i] < 0)
            *line = 3;
    }
    return fails("hipModuleLaunchKernel");
}

int hipEventCreateWithFlags(void **out, unsigned flags) {
    *out = malloc(1 + flags);
    return 0;
}

int hipEventRecord(void *event, void *stream) {
    (void)stream;
    return !event;
}

int hipEventSynchronize(void *event) {
    return !event;
}

int hipEventElapsedTime(float *ms, void *begin, void *end) {
    *ms = 3;
    return begin == end;
}

int hipEventDestroy(void *event) {
    free(event);
    return 0;
}
