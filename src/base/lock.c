// lock.c - the slow side of struct lock.

#include "base/base.h"

void lock_wait(struct lock *lock) {
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
        pool_sleep(&lock->word, 2);
}
