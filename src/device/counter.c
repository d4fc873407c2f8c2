// counter.c - counts of what happened, for tests and zl_counter().

#include "device/device.h"

#include <string.h>

atomic_llong counter_values[COUNTER_COUNT];

static const char *const names[] = {
#define COUNTER(NAME, text) text,
#include "device/counters.def"
};

void counter_add(enum counter which, int64_t by) {
    atomic_fetch_add_explicit(&counter_values[which], by, memory_order_relaxed);
}

int64_t zl_counter(const char *name) {
    for (int i = 0; name && i < COUNTER_COUNT; i++)
        if (!strcmp(names[i], name))
            return counter_value((enum counter)i);
    return -1;
}
