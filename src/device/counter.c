// counter.c - counts of what happened, for tests and zl_counter().

#include "device/device.h"

#include <string.h>

static atomic_llong values[COUNTER_COUNT];

static const char *const names[] = {
#define COUNTER(NAME, text) text,
#include "device/counters.def"
};

void counter_add(enum counter which, int64_t by) {
    atomic_fetch_add_explicit(&values[which], by, memory_order_relaxed);
}

void counter_add_alone(enum counter which, int64_t by) {
    atomic_store_explicit(&values[which], counter_value(which) + by, memory_order_relaxed);
}

int64_t counter_value(enum counter which) {
    return atomic_load_explicit(&values[which], memory_order_relaxed);
}

int64_t zl_counter(const char *name) {
    for (int i = 0; name && i < COUNTER_COUNT; i++)
        if (!strcmp(names[i], name))
            return counter_value((enum counter)i);
    return -1;
}
