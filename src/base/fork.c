// fork.c - keeps the library usable in a child of fork(), which has one thread and a copy of all memory.
//
// During a fork, the thread that forks holds every guarded lock, so that the data they guard is consistent in
// the child. It takes all locks or none, repeatedly, so that they need no order. If a lock stays taken, by
// this thread itself or by one that waits for something that this thread holds, it gives up after
// PATIENCE_NS, and the fork goes on without the locks.
//
// Other locks may be held in the child by threads that do not exist there. Locks contain the era in which
// they were taken, and each fork begins a new era in the child: lock_wait takes over locks of an earlier era.

#include "base/base.h"

#include <pthread.h>
#include <time.h>

enum { GUARDED_MOST = 64, CALLED_MOST = 16, PATIENCE_NS = 2000000000, PAUSE_NS = 50000 };

atomic_uint fork_era;

static struct lock *guarded[GUARDED_MOST];
static void (*called[CALLED_MOST])(void);
static int guards, calls;
static _Thread_local bool held; // this thread has all guarded locks

static void give_all(int count) {
    while (count > 0)
        lock_give(guarded[--count]);
}

static bool try_all(void) {
    for (int i = 0; i < guards; i++)
        if (!lock_try(guarded[i])) {
            give_all(i);
            return false;
        }
    return true;
}

static void before(void) {
    int64_t end = clock_ns() + PATIENCE_NS;
    while (!(held = try_all()) && clock_ns() < end)
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

static void in_parent(void) {
    if (held)
        give_all(guards);
    held = false;
}

static void in_child(void) {
    atomic_fetch_add(&fork_era, 1);
    in_parent();
    for (int i = 0; i < calls; i++)
        called[i]();
}

static void watch(void) {
    if (guards + calls == 0)
        pthread_atfork(before, in_parent, in_child);
}

// Needs no lock, since a single thread makes all registrations while the library is loaded.
void fork_guard(struct lock *lock) {
    watch();
    if (guards < GUARDED_MOST)
        guarded[guards++] = lock;
}

void fork_call(void (*in_the_child)(void)) {
    watch();
    if (calls < CALLED_MOST)
        called[calls++] = in_the_child;
}

bool fork_spares(const char *device, unsigned era) {
    static const char why[] =
        "was opened before this process was forked, and its driver works only in the process that "
        "opened it: fork before the device is first used, or start new processes "
        "(multiprocessing.set_start_method(\"spawn\"))";
    return LIKELY(era == atomic_load_explicit(&fork_era, memory_order_relaxed)) ||
           error_false(ZL_ERROR_DEVICE, "device \"%s\" %s", device, why);
}
