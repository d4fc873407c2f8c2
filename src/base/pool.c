// pool.c - parallel work: the caller and some workers take the parts of a job in order.
//
// Jobs are in fixed slots, so a worker may look at a job that is over: it claims a part with one
// compare-and-swap, and reads the rest of the slot only after that, since a claimed part keeps the job alive.
// This path takes no lock. Idle workers sleep on `epoch`, which every new job changes. A caller wakes a few
// workers, and each of those wakes a few more while parts are left.

#include "base/base.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <string.h>

enum { JOBS = 32, SPIN_NS = 20000 };

// A wake keeps its caller busy for 1 us; the worker starts 20 us later. Of 2, 4, 8 and 15 wakes at once, 8
// had all of 15 workers running first: after 75 us, compared with 110 us for 2 (virtual machine with 16 x86
// cores, 2026-11).
enum { WAKE_AT_ONCE = 8 };

static const unsigned ASLEEP = 1u << 31; // in left: the caller sleeps and must be woken at the end

struct job {
    alignas(64) atomic_int unclaimed; // parts that no thread has taken yet; 0 while the slot is vacant
    int parts;
    void (*fn)(void *data, int part);
    void *data;
    int cpu;          // of the caller
    atomic_int error; // the kind of the first error in a worker; then its message
    char *message;
    alignas(64) atomic_uint left; // parts not done
};

static struct job jobs[JOBS];
static atomic_uint taken; // bit i: jobs[i] is in use

static atomic_int threads;   // 0: not decided yet
static atomic_uint epoch;    // changes when a job is published or workers are stopped
static atomic_int spinning;  // workers that look for work
static atomic_int parked;    // workers that sleep or are about to sleep
static atomic_bool stopping; // workers must end
static atomic_int started;   // workers alive
static atomic_uint changing; // held while workers are started or stopped
static bool refused;         // the system refused to start more threads; guarded by changing
static pthread_t worker[POOL_LARGEST];

static _Thread_local bool inside; // this thread runs a part

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Parts -----------------------------------------------------------------------------------------------------

// Claims a part and returns its number, or -1. Fields that were read before the swap must not be used, since
// the slot may have got another job since.
static int claim(struct job *job) {
    int left = atomic_load_explicit(&job->unclaimed, memory_order_relaxed);
    while (left > 0)
        if (atomic_compare_exchange_weak_explicit(&job->unclaimed, &left, left - 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return job->parts - left;
    return -1;
}

static void wake_workers(int useful) {
    useful -= atomic_load(&spinning);
    if (useful > 0 && atomic_load(&parked) > 0)
        pool_wake(&epoch, MIN_OF(useful, WAKE_AT_ONCE));
}

static unsigned run_parts(struct job *job, int part) {
    unsigned done = 0;
    for (; part >= 0; part = claim(job), done++)
        job->fn(job->data, part);
    return done;
}

// Reports parts as done. After this the slot may belong to another job and must not be read.
static void finish(struct job *job, unsigned done) {
    unsigned before = atomic_fetch_sub_explicit(&job->left, done, memory_order_acq_rel);
    if (before - done == ASLEEP)
        pool_wake(&job->left, 1);
}

// Workers ---------------------------------------------------------------------------------------------------

static void leave_error(struct job *job) {
    if (zl_error_which() == ZL_ERROR_NONE)
        return;
    zl_error_kind kind;
    char *message = error_take(&kind);
    int none = ZL_ERROR_NONE;
    if (atomic_compare_exchange_strong(&job->error, &none, (int)kind))
        job->message = message;
    else
        memory_free(message);
}

static bool help(struct job *job) {
    int part = claim(job);
    if (part < 0)
        return false;
    wake_workers(atomic_load_explicit(&job->unclaimed, memory_order_relaxed));
    int cpu = job->cpu;
    unsigned done = run_parts(job, part);
    leave_error(job);
    finish(job, done);
    pool_avoid_cpu(cpu);
    return true;
}

static bool help_any(void) {
    bool helped = false;
    for (unsigned rest = atomic_load(&taken); rest; rest &= rest - 1)
        helped |= help(&jobs[__builtin_ctz(rest)]);
    return helped;
}

// Returns true as soon as there is work or the workers must stop, and false after the time `until`.
static bool look_for_work(int64_t until) {
    atomic_fetch_add(&spinning, 1);
    bool found = false;
    while (!found && clock_ns() < until) {
        unsigned rest = atomic_load(&taken);
        while (rest && !atomic_load_explicit(&jobs[__builtin_ctz(rest)].unclaimed, memory_order_relaxed))
            rest &= rest - 1;
        found = rest || atomic_load(&stopping);
        relax();
    }
    atomic_fetch_sub(&spinning, 1);
    return found;
}

static void park(unsigned seen) {
    atomic_fetch_add(&parked, 1);
    pool_sleep(&epoch, seen);
    atomic_fetch_sub(&parked, 1);
}

// Reads the epoch before it looks for work: if a job is published after that, park does not sleep.
static void *work(void *data) {
    (void)data;
    inside = true;
    for (int64_t until = 0;;) {
        unsigned seen = atomic_load(&epoch);
        if (atomic_load(&stopping))
            return NULL;
        if (help_any())
            until = clock_ns() + SPIN_NS;
        else if (!look_for_work(until))
            park(seen);
    }
}

static bool try_change(void) {
    return atomic_exchange(&changing, 1) == 0;
}

static void end_change(void) {
    atomic_store(&changing, 0);
    pool_wake(&changing, 1);
}

// Forgets the workers in the child of a fork, which has only the thread that forked. The jobs of other
// threads are not continued there.
static void forget_workers(void) {
    for (int i = 0; i < JOBS; i++)
        atomic_store(&jobs[i].unclaimed, 0);
    atomic_store(&taken, 0);
    atomic_store(&spinning, 0);
    atomic_store(&parked, 0);
    atomic_store(&stopping, false);
    atomic_store(&started, 0);
    atomic_store(&changing, 0);
    refused = false;
}

ZL_AT_LOAD {
    fork_call(forget_workers);
}

// Starts a worker that leaves signals to the program's own threads. Only those that a thread raises itself,
// such as faults, are not blocked.
static bool start_worker(pthread_t *thread) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t others, old;
    sigfillset(&others);
    for (size_t i = 0; i < COUNT(own); i++)
        sigdelset(&others, own[i]);
    pthread_sigmask(SIG_SETMASK, &others, &old);
    bool running = pthread_create(thread, NULL, work, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return running;
}

// Starts workers until there are `wanted`. If another thread is starting or stopping workers, returns at
// once; the existing workers then do the work.
static void start_workers(int wanted) {
    if (atomic_load_explicit(&started, memory_order_relaxed) >= wanted || !try_change())
        return;
    int count = atomic_load(&started), most = MIN_OF(wanted, pool_threads() - 1);
    while (count < most && !refused) {
        refused = !start_worker(&worker[count]);
        if (refused)
            log_line(ZL_LOG_WARN, "only %d of %d threads could be started", count + 1, most + 1);
        else
            atomic_store(&started, ++count);
    }
    end_change();
}

static void stop_workers(void) {
    atomic_store(&stopping, true);
    atomic_fetch_add(&epoch, 1);
    pool_wake(&epoch, INT_MAX);
    for (int i = 0; i < atomic_load(&started); i++)
        pthread_join(worker[i], NULL);
    atomic_store(&started, 0);
    atomic_store(&stopping, false);
    refused = false;
}

// Callers ---------------------------------------------------------------------------------------------------

static struct job *take_slot(void) {
    unsigned seen = atomic_load_explicit(&taken, memory_order_relaxed);
    while (~seen) {
        unsigned bit = ~seen & (seen + 1);
        if (atomic_compare_exchange_weak_explicit(&taken, &seen, seen | bit, memory_order_acquire,
                                                  memory_order_relaxed))
            return &jobs[__builtin_ctz(bit)];
    }
    return NULL;
}

static void publish(struct job *job, int parts, void (*fn)(void *data, int part), void *data) {
    job->parts = parts;
    job->fn = fn;
    job->data = data;
    job->cpu = pool_this_cpu();
    job->message = NULL;
    atomic_store_explicit(&job->error, ZL_ERROR_NONE, memory_order_relaxed);
    atomic_store_explicit(&job->left, (unsigned)parts, memory_order_relaxed);
    atomic_store_explicit(&job->unclaimed, parts, memory_order_release);
    atomic_fetch_add(&epoch, 1);
}

static void wait_for_helpers(struct job *job) {
    unsigned left;
    int64_t end = clock_ns() + SPIN_NS;
    while ((left = atomic_load_explicit(&job->left, memory_order_acquire)) && clock_ns() < end)
        relax();
    if (!left)
        return;
    left = atomic_fetch_or_explicit(&job->left, ASLEEP, memory_order_acquire) | ASLEEP;
    while (left != ASLEEP) {
        pool_sleep(&job->left, left);
        left = atomic_load_explicit(&job->left, memory_order_acquire);
    }
}

static void close_slot(struct job *job) {
    zl_error_kind kind = (zl_error_kind)atomic_load_explicit(&job->error, memory_order_relaxed);
    char *message = job->message;
    atomic_fetch_and_explicit(&taken, ~(1u << (job - jobs)), memory_order_release);
    error_put(kind, message);
    memory_free(message);
}

static void run_shared(struct job *job) {
    inside = true;
    unsigned done = run_parts(job, claim(job));
    inside = false;
    unsigned before = atomic_fetch_sub_explicit(&job->left, done, memory_order_acq_rel);
    if (before != done)
        wait_for_helpers(job);
}

// Runs all parts on this thread. A single part does not count as parallel work: functions that it calls may
// use all threads.
static void run_alone(int parts, void (*fn)(void *data, int part), void *data) {
    bool before = inside;
    inside = inside || parts > 1;
    for (int part = 0; part < parts; part++)
        fn(data, part);
    inside = before;
}

void pool_run(int parts, void (*fn)(void *data, int part), void *data) {
    int useful = parts > 1 && !inside ? MIN_OF(parts, pool_threads()) - 1 : 0;
    struct job *job = useful > 0 ? take_slot() : NULL;
    if (!job) {
        run_alone(parts, fn, data);
        return;
    }
    start_workers(useful);
    publish(job, parts, fn, data);
    wake_workers(useful);
    run_shared(job);
    close_slot(job);
}

bool pool_inside(void) {
    return inside;
}

// Copies ----------------------------------------------------------------------------------------------------

enum { COPIED = 128 << 10, COPIED_LEAST = 512 << 10 }; // bytes: of a part; from which on there are several

struct copy {
    char *to;
    const char *from;
    size_t bytes;
};

static void copy_part(void *data, int part) {
    const struct copy *c = data;
    size_t at = (size_t)part * COPIED;
    memcpy(c->to + at, c->from + at, MIN_OF((size_t)COPIED, c->bytes - at));
}

void pool_copy(void *to, const void *from, size_t bytes) {
    size_t parts = bytes / COPIED + (bytes % COPIED != 0);
    if (bytes < COPIED_LEAST || parts > INT_MAX)
        memcpy(to, from, bytes);
    else
        pool_run((int)parts, copy_part, &(struct copy){to, from, bytes});
}

// Counts ----------------------------------------------------------------------------------------------------

static int initial_threads(void) {
    int64_t set = setting_number(SETTING_THREADS);
    return set > 0 ? (int)MIN_OF(set, POOL_LARGEST) : pool_allowed_cpus();
}

int pool_threads(void) {
    int count = atomic_load_explicit(&threads, memory_order_relaxed);
    if (UNLIKELY(count == 0)) {
        int first = initial_threads();
        if (atomic_compare_exchange_strong(&threads, &count, first)) // else pool_set_threads was faster
            count = first;
    }
    return count;
}

bool pool_set_threads(int count) {
    if (count < 1 || count > POOL_LARGEST)
        return error_false(ZL_ERROR_VALUE, "zl_set_threads: %d is not within 1..%d", count, POOL_LARGEST);
    if (inside)
        return error_false(ZL_ERROR_STATE, "zl_set_threads: called from inside parallel work");
    while (!try_change())
        pool_sleep(&changing, 1);
    if (count != pool_threads()) {
        stop_workers();
        atomic_store(&threads, count);
    }
    end_change();
    return true;
}

int zl_threads(void) {
    return pool_threads();
}

bool zl_set_threads(int count) {
    return pool_set_threads(count);
}
