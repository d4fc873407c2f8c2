// thread.c - functions that are called when a thread ends, and sleeping until a word changes.

#include "base/base.h"

#include <pthread.h>
#include <stdlib.h>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

struct farewell {
    void (*fn)(void *data);
    void *data;
    struct farewell *next;
};

static pthread_key_t farewells;
static bool have_key;

// Calls the functions registered for the end of the thread. Each is removed before it is called, so that
// those which it registers run too.
static void say_all(void *list) {
    for (struct farewell *first = list; first; first = pthread_getspecific(farewells)) {
        pthread_setspecific(farewells, first->next);
        first->fn(first->data);
        memory_free(first);
    }
}

// Runs at exit, since destructors of keys do not run for a thread that returns from main or calls exit.
static void say_all_at_exit(void) {
    say_all(pthread_getspecific(farewells));
}

static void make_key(void) {
    have_key = pthread_key_create(&farewells, say_all) == 0 && atexit(say_all_at_exit) == 0;
}

bool base_thread_at_exit(void (*fn)(void *data), void *data) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    if (!have_key)
        return error_false(ZL_ERROR_MEMORY, "out of memory: no key for data of threads");
    struct farewell *farewell = memory_alloc(sizeof *farewell);
    if (!farewell)
        return false;
    *farewell = (struct farewell){fn, data, pthread_getspecific(farewells)};
    if (pthread_setspecific(farewells, farewell) == 0)
        return true;
    memory_free(farewell);
    return error_false(ZL_ERROR_MEMORY, "out of memory: data of a thread");
}

#ifdef __linux__

void pool_sleep(atomic_uint *word, unsigned value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

void pool_wake(atomic_uint *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

#else

// One lock serves all words: threads that wait for other words wake up in vain, which the contract allows.
static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sleep_end = PTHREAD_COND_INITIALIZER;

void pool_sleep(atomic_uint *word, unsigned value) {
    pthread_mutex_lock(&sleep_lock);
    if (atomic_load(word) == value)
        pthread_cond_wait(&sleep_end, &sleep_lock);
    pthread_mutex_unlock(&sleep_lock);
}

void pool_wake(atomic_uint *word, int count) {
    (void)word;
    (void)count;
    pthread_mutex_lock(&sleep_lock);
    pthread_cond_broadcast(&sleep_end);
    pthread_mutex_unlock(&sleep_lock);
}

#endif
