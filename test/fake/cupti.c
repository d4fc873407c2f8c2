// cupti.c - CUPTI's activities for the driver of test/fake: links and kernels, with a clock that is far ahead
// of the host's.

#include "fake.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RECORDS = 1 << 16, KINDS = 64, KERNEL = 10, LINK = 39, DRIVER = 4, END = 12, INVALID = 1, DEPTH = 8 };
static const uint64_t ahead = 1000000000000000; // ns

// Records with the sizes that they have in CUDA 13.
struct kernel {
    uint32_t kind, unused[3];
    uint64_t begin, end, completed;
    uint32_t device, context, stream, sizes[10], correlation;
    int64_t grid;
    const char *name;
    char rest[104];
};
struct link {
    uint32_t kind, link_kind;
    uint64_t number;
    uint32_t correlation, unused;
};
_Static_assert(sizeof(struct kernel) == 216 && sizeof(struct link) == 24, "sizes of CUPTI's records");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_on[KINDS];
static struct {
    bool is_kernel;
    struct kernel kernel;
    struct link link;
} record[RECORDS];
static int records;
static void (*wanted)(uint8_t **buffer, size_t *bytes, size_t *most);
static void (*full)(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid);
static _Thread_local uint64_t stack[DEPTH];
static _Thread_local int depth;

// Makes a link at the same time as the record of a call of the driver.
static void on_call(uint32_t number) {
    pthread_mutex_lock(&lock);
    if (is_on[LINK] && is_on[DRIVER] && depth && records < RECORDS)
        record[records++].link = (struct link){LINK, 3, stack[depth - 1], number, 0};
    pthread_mutex_unlock(&lock);
}

static void on_kernel(uint32_t number, const char *name, uint64_t begin, uint64_t end) {
    pthread_mutex_lock(&lock);
    if (is_on[KERNEL] && records < RECORDS) {
        record[records].is_kernel = true;
        record[records++].kernel = (struct kernel){
            .kind = KERNEL, .begin = begin + ahead, .end = end + ahead, .correlation = number, .name = name};
    }
    pthread_mutex_unlock(&lock);
}

int cuptiActivityRegisterCallbacks(void (*want)(uint8_t **, size_t *, size_t *),
                                   void (*take)(void *, uint32_t, uint8_t *, size_t, size_t)) {
    static const struct fake_observer observer = {on_call, on_kernel};
    wanted = want;
    full = take;
    fake_observe(&observer);
    return 0;
}

int cuptiActivityEnable(int kind) {
    if (getenv("FAKE_CUPTI_BUSY"))
        return INVALID;
    is_on[kind] = true;
    return 0;
}

int cuptiActivityDisable(int kind) {
    is_on[kind] = false;
    return 0;
}

static size_t put(uint8_t *to, int i) {
    size_t bytes = record[i].is_kernel ? sizeof record[i].kernel : sizeof record[i].link;
    memcpy(to, record[i].is_kernel ? (void *)&record[i].kernel : (void *)&record[i].link, bytes);
    return bytes;
}

int cuptiActivityFlushAll(uint32_t how) {
    (void)how;
    for (int i = 0; i < records;) {
        uint8_t *buffer = NULL;
        size_t bytes = 0, most = 0, used = 0;
        wanted(&buffer, &bytes, &most);
        if (!buffer)
            return INVALID;
        while (i < records && used + sizeof(struct kernel) <= bytes)
            used += put(buffer + used, i++);
        full(NULL, 0, buffer, bytes, used);
    }
    memset(record, 0, sizeof record[0] * (size_t)records);
    records = 0;
    return 0;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **at) {
    uint32_t kind = 0;
    if (*at)
        memcpy(&kind, *at, sizeof kind);
    uint8_t *next =
        !*at ? buffer : (uint8_t *)*at + (kind == KERNEL ? sizeof(struct kernel) : sizeof(struct link));
    if (next >= buffer + valid)
        return END;
    *at = next;
    return 0;
}

int cuptiActivityPushExternalCorrelationId(int kind, uint64_t number) {
    if (kind != 3 || depth == DEPTH)
        return INVALID;
    stack[depth++] = number;
    return 0;
}

int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *number) {
    if (kind != 3 || !depth)
        return INVALID;
    *number = stack[--depth];
    return 0;
}

int cuptiGetTimestamp(uint64_t *ns) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + ahead;
    return 0;
}
