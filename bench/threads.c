// threads.c - what it costs to put threads to work: waking the pool beside waking a thread by a bare futex,
// in turns, and a job for workers that are still awake.
//
//   build/bench/threads [--quick] [--bars] [--json]

#include "bench.h"

#include "base/base.h"

#include <sched.h>

enum { TURNS = 2000, QUICK = 300 };
enum { REST_NS = 200000 };              // after which all have gone to sleep
enum { PATIENCE_NS = 5 * 1000 * 1000 }; // what a part waits for the other

static void rest(void) {
    nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double share_of(double *all, int count, double share) {
    qsort(all, (size_t)count, sizeof *all, by_size);
    return all[(int)(share * (count - 1))];
}

// A bare futex ----------------------------------------------------------------------------------------------

static atomic_uint order;          // counts what the thread is woken for
static _Atomic int64_t bare_awake; // when it was
static _Atomic int bare_cpu;       // where it was

static void *sleeper(void *data) {
    (void)data;
    for (unsigned seen = 0;; seen = atomic_load(&order)) {
        while (atomic_load(&order) == seen)
            pool_sleep(&order, seen);
        atomic_store(&bare_cpu, sched_getcpu());
        atomic_store(&bare_awake, clock_ns());
    }
    return NULL;
}

// A thread that pushes its waker aside is awake in no time, and of no use: it has another CPU.
static void keep_apart(pthread_t thread) {
    cpu_set_t allowed;
    need(pthread_getaffinity_np(pthread_self(), sizeof allowed, &allowed) == 0);
    CPU_CLR((size_t)sched_getcpu(), &allowed);
    need(pthread_setaffinity_np(thread, sizeof allowed, &allowed) == 0);
}

// Nanoseconds from the call until the other thread runs; 0: not on another CPU.
static double wake_bare(void) {
    rest();
    atomic_store(&bare_awake, 0);
    int64_t start = clock_ns(), end = start + PATIENCE_NS;
    atomic_fetch_add(&order, 1);
    pool_wake(&order, 1);
    while (!atomic_load(&bare_awake) && clock_ns() < end)
        ;
    return atomic_load(&bare_cpu) == sched_getcpu() ? 0 : (double)(atomic_load(&bare_awake) - start);
}

// The pool --------------------------------------------------------------------------------------------------

static pthread_t caller;
static _Atomic int64_t pool_awake; // when a worker had a part

static void meet(void *data, int part) {
    (void)data, (void)part;
    if (!pthread_equal(pthread_self(), caller)) {
        atomic_store(&pool_awake, clock_ns());
        return;
    }
    int64_t end = clock_ns() + PATIENCE_NS;
    while (!atomic_load(&pool_awake) && clock_ns() < end)
        ;
}

static double wake_pool(void) {
    rest();
    atomic_store(&pool_awake, 0);
    int64_t start = clock_ns();
    pool_run(2, meet, NULL);
    return (double)(atomic_load(&pool_awake) - start);
}

static void nothing(void *data, int part) {
    (void)data, (void)part;
}

// A job of two empty parts, for workers that are still awake.
static double run_awake(void) {
    enum { JOBS = 50 };
    int64_t start = clock_ns();
    for (int i = 0; i < JOBS; i++)
        pool_run(2, nothing, NULL);
    return (double)(clock_ns() - start) / JOBS;
}

// -----------------------------------------------------------------------------------------------------------

int main(int argc, char **argv) {
    static double bare[TURNS], pool[TURNS], awake[TURNS];
    struct bench_options o = {0};
    pthread_t thread;
    if (!bench_read_options(argc, argv, &o))
        return 2;
    if (zl_threads() < 2) {
        printf("one CPU: there is nobody to wake\n");
        return 0;
    }
    caller = pthread_self();
    need(pthread_create(&thread, NULL, sleeper, NULL) == 0);
    keep_apart(thread);
    int turns = o.quick ? QUICK : TURNS, kept = 0;
    for (int i = 0; i < turns; i++) {
        double a = wake_bare(), b = wake_pool(), c = run_awake();
        if (a <= 0 || b <= 0)
            continue; // one of them had no CPU for 5 ms, or both the same
        bare[kept] = a, pool[kept] = b, awake[kept++] = c;
    }
    need(kept > turns / 2);
    double ratio = share_of(pool, kept, 0.5) / share_of(bare, kept, 0.5);
    bool low = ratio > 1.3;
    if (o.json)
        printf("{\"wake_bare_ns\": %.0f, \"wake_pool_ns\": %.0f, \"ratio\": %.3f, \"job_awake_ns\": %.0f}\n",
               share_of(bare, kept, 0.5), share_of(pool, kept, 0.5), ratio, share_of(awake, kept, 0.5));
    else
        printf("%-34s %8s %8s\n%-34s %8.1f %8.1f us\n%-34s %8.1f %8.1f us  %.2f of a bare futex, %s "
               "1.3\n%-34s %8.2f %8.2f us\n",
               "", "median", "90 %", "wake a thread by a futex", share_of(bare, kept, 0.5) / 1e3,
               share_of(bare, kept, 0.9) / 1e3, "wake the pool", share_of(pool, kept, 0.5) / 1e3,
               share_of(pool, kept, 0.9) / 1e3, ratio, low ? "LOW: above" : "ok: at most",
               "a job while it is awake", share_of(awake, kept, 0.5) / 1e3, share_of(awake, kept, 0.9) / 1e3);
    return o.bars && low;
}
