// test_fuzz_after_fork.c - forks at random moments while other threads use the library: every child computes,
// and exits.
//
// Covers: evaluations on the callers' threads and on workers of streams, compiled functions, sorts and
// products on the pool, the memory cache, and the creation of streams, all at the same time; children that
// evaluate, read pending arrays, and fork again. An alarm ends a child that hangs.

#include "test.h"

#include "base/base.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, KINDS = 5, PATIENCE_S = 60 };

static atomic_bool stops;
static atomic_int wrong;
static zl_compiled compiled;

// An array that a thread may be computing, for children to read.
static struct {
    struct lock lock;
    zl_array array;
} pending;
ZL_AT_LOAD {
    fork_guard(&pending.lock);
}

static bool square_and_add(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    return zl_give(out, zl_add(zl_multiply(in[0], in[0]), zl_scalar(1)));
}

static double call_compiled(zl_array x) {
    zl_outputs *out = zl_outputs_new();
    bool done = out && zl_compiled_call(compiled, NULL, 0, 1, &x, out);
    double sum = done ? zl_item(zl_sum(zl_outputs_get(out, 0))) : -1;
    zl_outputs_free(out);
    return sum;
}

static double on_a_new_stream(zl_array x) {
    zl_scope scope = zl_scope_begin_on(zl_new_stream("cpu"));
    zl_array y = zl_sum(zl_cumsum(x, 1, false, true, ZL_FLOAT32));
    double sum = zl_async_eval(y) ? zl_item(y) : -1;
    zl_scope_end(scope);
    return sum;
}

// Does one kind of work whose result is known. Returns whether it is right.
static bool do_something(int kind, int64_t rows) {
    zl_array x = zl_full(ZL_SHAPE(rows, 64), zl_scalar(2), ZL_FLOAT32);
    double elements = 64.0 * (double)rows;
    switch (kind) {
    case 0: return zl_item(zl_sum(zl_matmul(x, zl_swapaxes(x, 0, 1)))) == 256.0 * (double)(rows * rows);
    case 1: return zl_item(zl_max(zl_exp(zl_subtract(x, x)))) == 1;
    case 2: return call_compiled(x) == 5 * elements;
    case 3:
        zl_clear_cache();
        return zl_item(zl_sum(zl_sort(zl_concatenate((zl_array[]){x, x}, 2, 0), 0))) == 4 * elements;
    default: return on_a_new_stream(x) == 65 * elements;
    }
}

static bool do_in_scope(int kind, int64_t rows) {
    zl_scope scope = zl_scope_begin();
    bool right = do_something(kind, rows);
    zl_scope_end(scope);
    return right;
}

// Begins a long evaluation on a worker, so that children may be forked while it runs.
static void begin_long(void) {
    zl_scope scope = zl_scope_begin();
    zl_array x = zl_multiply(zl_ones(ZL_SHAPE(200, 200), ZL_FLOAT32), zl_scalar(1.0 / 200));
    for (int i = 0; i < 20; i++)
        x = zl_matmul(x, x);
    zl_retain(x);
    bool begun = zl_async_eval(x);
    lock_take(&pending.lock);
    zl_array old = pending.array;
    pending.array = begun ? x : NULL;
    lock_give(&pending.lock);
    zl_release(old);
    zl_scope_end(scope);
}

static void *work(void *data) {
    unsigned state = *(unsigned *)data;
    while (!atomic_load(&stops)) {
        state = state * 1664525u + 1013904223u;
        int kind = (int)(state >> 16) % (KINDS + 1);
        if (kind == KINDS)
            begin_long();
        else if (!do_in_scope(kind, 40 + (int64_t)(state >> 20) % 100))
            atomic_fetch_add(&wrong, 1);
    }
    return NULL;
}

// Returns whether the pending array can be evaluated, or has the error that says why it cannot.
static bool read_pending(void) {
    zl_array x = pending.array;
    if (!x || zl_eval(x))
        return true;
    bool is_told = zl_error_which() == ZL_ERROR_STATE;
    zl_clear_error();
    return is_told;
}

static bool ends_well(pid_t child) {
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int run_child(int first, bool forks_again) {
    alarm(PATIENCE_S);
    for (int i = 0; i < KINDS; i++)
        if (!do_in_scope((first + i) % KINDS, 50 + first))
            return 1 + i;
    if (!read_pending())
        return 10;
    if (!forks_again)
        return 0;
    pid_t child = fork();
    if (child == 0)
        _exit(run_child(first + 1, false));
    return ends_well(child) ? 0 : 11;
}

TEST(forks_at_any_moment) {
#ifdef UNDER_TSAN
    SKIP("the sanitizer allows no threads after a fork");
#endif
    pthread_t thread[THREADS];
    unsigned seed[THREADS];
    atomic_store(&stops, false);
    atomic_store(&wrong, 0);
    REQUIRE(compiled = zl_compile((zl_fn){.call = square_and_add}, false));
    for (int i = 0; i < THREADS; i++) {
        seed[i] = (unsigned)test_random();
        REQUIRE(pthread_create(&thread[i], NULL, work, &seed[i]) == 0);
    }
    for (int i = 0, rounds = test_long() ? 3000 : test_quick() ? 8 : 60; i < rounds; i++) {
        usleep((unsigned)test_between(0, 3000));
        pid_t child = fork();
        if (child == 0)
            _exit(run_child(i % KINDS, i % 8 == 0));
        if (!CHECK(ends_well(child)))
            break;
    }
    atomic_store(&stops, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQ_INT(atomic_load(&wrong), 0);
    zl_release(pending.array);
    pending.array = NULL;
    zl_compiled_release(compiled);
}
