// interrupt.c - lets the program stop a long evaluation between two calls, by a check that it sets.

#include "schedule/schedule.h"

enum {
    CALLS = 64,        // small calls between two readings of the clock
    LARGE = 65536,     // elements from which on a call is not small
    PAUSE = 50000000,  // ns between two checks
};

static struct lock guard;
ZL_AT_LOAD {
    fork_guard(&guard);
}

static struct {
    bool (*function)(void *context);
    void *context;
} check;
static atomic_bool has_check;

void zl_set_interrupt(bool (*function)(void *context), void *context) {
    lock_take(&guard);
    check.function = function;
    check.context = context;
    atomic_store(&has_check, function != NULL);
    lock_give(&guard);
}

bool interrupt_wanted(void) {
    if (!atomic_load_explicit(&has_check, memory_order_relaxed))
        return false;
    lock_take(&guard);
    bool (*function)(void *) = check.function;
    void *context = check.context;
    lock_give(&guard);
    return function && function(context) && !error_false(ZL_ERROR_STATE, "the evaluation was interrupted");
}

bool interrupt_between_calls(int64_t elements) {
    static _Thread_local int calls;
    static _Thread_local int64_t last;
    if (LIKELY(elements < LARGE && ++calls < CALLS))
        return false;
    calls = 0;
    if (!atomic_load_explicit(&has_check, memory_order_relaxed))
        return false;
    int64_t now = clock_ns();
    if (now - last < PAUSE)
        return false;
    last = now;
    return interrupt_wanted();
}
