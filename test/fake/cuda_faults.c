// cuda_faults.c - makes functions of the driver in cuda.c fail, and counts their calls.

#include "cuda_faults.h"
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 64 };

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    char name[48];
    int64_t calls;
    int fails_after, code; // code 0: it does not fail
} functions[NAMES];
static int lost; // the code that all calls return from now on

static int entry_of(const char *name) {
    int at = 0;
    while (at < NAMES - 1 && functions[at].name[0] && strcmp(functions[at].name, name) != 0)
        at++;
    if (!functions[at].name[0])
        snprintf(functions[at].name, sizeof functions[at].name, "%s", name);
    return at;
}

int fake_begin(const char *name) {
    pthread_mutex_lock(&fake_lock);
    int at = entry_of(name), code = lost;
    functions[at].calls++;
    if (!code && functions[at].code && functions[at].fails_after-- <= 1) {
        code = functions[at].code;
        functions[at].code = 0;
        if (code >= 700) // errors of this kind are permanent
            lost = code;
    }
    return code;
}

int fake_end(int code) {
    pthread_mutex_unlock(&fake_lock);
    return code;
}

void fake_count(const char *name) {
    functions[entry_of(name)].calls++;
}

void fake_fail(const char *name, int after, int code) {
    pthread_mutex_lock(&fake_lock);
    int at = entry_of(name);
    functions[at].fails_after = after;
    functions[at].code = code;
    pthread_mutex_unlock(&fake_lock);
}

int64_t fake_calls(const char *name) {
    pthread_mutex_lock(&fake_lock);
    int64_t calls = functions[entry_of(name)].calls;
    pthread_mutex_unlock(&fake_lock);
    return calls;
}

// With FAKE_CUDA_COUNTS=1, prints how often each function was called.
__attribute__((destructor)) static void show_counts(void) {
    for (int i = 0; getenv("FAKE_CUDA_COUNTS") && i < NAMES && functions[i].name[0]; i++)
        fprintf(stderr, "%-36s %lld\n", functions[i].name, (long long)functions[i].calls);
}

void fake_heal(void) {
    pthread_mutex_lock(&fake_lock);
    lost = 0;
    for (int i = 0; i < NAMES; i++)
        functions[i].code = 0;
    pthread_mutex_unlock(&fake_lock);
}
