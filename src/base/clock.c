// clock.c - a monotonic clock.

#include "base/base.h"

#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>

enum { POWER_LEAF = 0x80000007, INVARIANT = 1 << 8 };

bool clock_has_ticks;
ZL_AT_LOAD {
    unsigned a, b, c, d;
    clock_has_ticks = __get_cpuid(POWER_LEAF, &a, &b, &c, &d) && d & INVARIANT;
}
#elif defined(__aarch64__)
bool clock_has_ticks = true;
#else
bool clock_has_ticks;
#endif

int64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
