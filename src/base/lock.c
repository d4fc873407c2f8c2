// lock.c - the slow path of struct lock.

#include "base/base.h"

void lock_wait(struct lock *lock) {
    unsigned era = atomic_load_explicit(&fork_era, memory_order_relaxed) << LOCK_BITS;
    for (;;) {
        unsigned seen = atomic_load_explicit(&lock->word, memory_order_relaxed);
        bool is_free = seen == 0 || seen >> LOCK_BITS != era >> LOCK_BITS;
        if (seen != (era | LOCK_WANTED) &&
            !atomic_compare_exchange_strong_explicit(&lock->word, &seen, era | LOCK_WANTED,
                                                     memory_order_acquire, memory_order_relaxed))
            continue;
        if (is_free)
            return;
        pool_sleep(&lock->word, era | LOCK_WANTED);
    }
}
