// test_after_fork.c - children of fork(): locks that other threads held, evaluations that were pending,
// devices that were open.
//
// An alarm ends a child that hangs; its exit status tells what went wrong.

#include "test.h"

#include "device/device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef UNDER_TSAN
#define NEEDS_THREADS SKIP("the sanitizer allows no threads after a fork")
#else
#define NEEDS_THREADS (void)0
#endif

enum { PATIENCE_S = 60 };

// Returns whether the function returns 0 in a child, in time.
static bool in_child(int (*run)(void *data), void *data) {
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE_S);
        _exit(run(data));
    }
    int status = -1;
    bool ended = child > 0 && waitpid(child, &status, 0) == child;
    if (ended && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    test_note(WIFSIGNALED(status) ? "the child ended by signal %d" : "the child ended with %d",
              WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return false;
}

// Evaluates something new, with work for several threads.
static int compute(void *data) {
    (void)data;
    zl_array x = zl_ones(ZL_SHAPE(300, 300), ZL_FLOAT32), sum = zl_sum(zl_add(zl_matmul(x, x), x));
    return zl_item(sum) == 301.0 * 300 * 300 ? 0 : 1;
}

// Locks -----------------------------------------------------------------------------------------------------

static struct lock plain;
static struct {
    struct lock lock;
    long first, second; // equal while the lock is not held
} pair;
ZL_AT_LOAD {
    fork_guard(&pair.lock);
}
static atomic_bool stops;

static void *hold(void *data) {
    lock_take(&plain);
    atomic_store((atomic_bool *)data, true);
    while (!atomic_load(&stops))
        usleep(1000);
    lock_give(&plain);
    return NULL;
}

static int take_plain(void *data) {
    (void)data;
    lock_take(&plain);
    lock_give(&plain);
    lock_take(&plain);
    return 0;
}

TEST(locks_of_other_threads_after_fork) {
    pthread_t thread;
    atomic_bool is_held = false;
    atomic_store(&stops, false);
    REQUIRE(pthread_create(&thread, NULL, hold, &is_held) == 0);
    while (!atomic_load(&is_held))
        usleep(100);
    CHECK(in_child(take_plain, NULL));
    atomic_store(&stops, true);
    pthread_join(thread, NULL);
}

// Holds the lock most of the time, but not always: a fork waits for it, so it must be free at times even on a
// busy machine.
static void *change_pair(void *data) {
    (void)data;
    while (!atomic_load(&stops)) {
        lock_take(&pair.lock);
        pair.first++;
        usleep(20);
        pair.second++;
        lock_give(&pair.lock);
        usleep(20);
    }
    return NULL;
}

static int compare_pair(void *data) {
    (void)data;
    lock_take(&pair.lock);
    return pair.first != pair.second;
}

TEST(guarded_locks_are_whole_after_fork) {
    pthread_t thread[2];
    atomic_store(&stops, false);
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&thread[i], NULL, change_pair, NULL) == 0);
    for (int i = 0; i < (test_quick() ? 10 : 60); i++)
        if (!CHECK(in_child(compare_pair, NULL)))
            break;
    atomic_store(&stops, true);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
}

// Evaluations -----------------------------------------------------------------------------------------------

// Returns an array that takes a worker long to compute.
static zl_array begin_long(void) {
    zl_array x = zl_multiply(zl_ones(ZL_SHAPE(300, 300), ZL_FLOAT32), zl_scalar(1.0 / 300));
    for (int i = 0; i < 100; i++)
        x = zl_matmul(x, x);
    return zl_async_eval(x) ? x : NULL;
}

struct pending {
    zl_array array, reader;
};

static int read_pending(void *data) {
    struct pending *p = data;
    if (compute(NULL))
        return 1;
    if (zl_eval(p->array) || zl_error_which() != ZL_ERROR_STATE ||
        !strstr(zl_error(), "when the process forked"))
        return 2;
    zl_clear_error();
    if (zl_eval(p->reader) || zl_error_which() != ZL_ERROR_STATE)
        return 3;
    zl_clear_error();
    zl_release(p->array), zl_release(p->reader);
    zl_array again = begin_long();
    if (!again || !zl_synchronize() || !zl_eval(again))
        return 4;
    return compute(NULL) ? 5 : in_child(compute, NULL) ? 0 : 6;
}

TEST(pending_evaluations_after_fork) {
    NEEDS_THREADS;
    for (int i = 0; i < (test_quick() ? 2 : 10); i++) {
        zl_scope scope = zl_scope_begin();
        struct pending p = {.array = begin_long()};
        REQUIRE(p.array);
        p.reader = zl_retain(zl_add(p.array, zl_scalar(1)));
        zl_retain(p.array);
        CHECK(in_child(read_pending, &p));
        CHECK(zl_eval(p.reader)); // here it is completed
        zl_release(p.array), zl_release(p.reader);
        zl_scope_end(scope);
    }
}

// Evaluates on other threads while this one forks.
static void *evaluate(void *data) {
    zl_scope scope = zl_scope_begin();
    while (!atomic_load(&stops)) {
        zl_scope inner = zl_scope_begin();
        if (compute(NULL))
            atomic_fetch_add((atomic_int *)data, 1);
        zl_scope_end(inner);
    }
    zl_scope_end(scope);
    return NULL;
}

TEST(evaluations_of_other_threads_after_fork) {
    NEEDS_THREADS;
    pthread_t thread[3];
    atomic_int wrong = 0;
    atomic_store(&stops, false);
    for (int i = 0; i < 3; i++)
        REQUIRE(pthread_create(&thread[i], NULL, evaluate, &wrong) == 0);
    for (int i = 0; i < (test_quick() ? 10 : 60); i++)
        if (!CHECK(in_child(compute, NULL)))
            break;
    atomic_store(&stops, true);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQ_INT(atomic_load(&wrong), 0);
}

// Devices ---------------------------------------------------------------------------------------------------

static int use_lost(void *data) {
    zl_array on_device = data;
    if (zl_use_device("opencl") || zl_error_which() != ZL_ERROR_DEVICE || !strstr(zl_error(), "forked"))
        return 1;
    zl_clear_error();
    if (zl_data(on_device) || zl_error_which() != ZL_ERROR_DEVICE)
        return 2;
    zl_clear_error();
    zl_array more = zl_add(on_device, on_device); // records the device's stream
    if (zl_eval(more) || zl_error_which() != ZL_ERROR_DEVICE)
        return 3;
    zl_clear_error();
    zl_release(on_device);
    zl_clear_cache();
    if (!zl_use_device("cpu"))
        return 4;
    return compute(NULL);
}

TEST(devices_after_fork) {
    NEEDS_THREADS;
    if (!zl_use_device("opencl")) {
        zl_clear_error();
        SKIP("no OpenCL device");
    }
    zl_array x = zl_retain(zl_add(zl_ones(ZL_SHAPE(1000), ZL_FLOAT32), zl_scalar(1)));
    CHECK(zl_eval(x));
    CHECK(in_child(use_lost, x));
    CHECK_EQ_F64(((const float *)zl_data(x))[0], 2);
    zl_release(x);
    zl_use_device("cpu");
}
