// test_cpu_steady.c - repeated evaluation makes no system calls but those for sleeping and waking: no memory,
// no files, no threads. A seccomp filter allows futex, and turns every other call into a signal, which counts
// it.

#include "test.h"

#include "device/cpu/cpu.h"

#ifdef __linux__

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { WARM = 400, ROUNDS = 50 };
enum { DONE, REFUSED, FAILED }; // exit codes of the child

static volatile int *seen; // number of calls, and the last one, in memory shared with the child

static void count_call(int signal, siginfo_t *info, void *context) {
    (void)signal;
    ucontext_t *at = context;
    seen[0]++;
    seen[1] = info->si_syscall;
#if defined(__aarch64__)
    at->uc_mcontext.regs[0] = (unsigned long long)-ENOSYS;
#elif defined(__x86_64__)
    at->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
#endif
}

// Installs the filter in all threads. Returning from the signal and exiting must be allowed.
static bool watch_calls(void) {
#define PASS(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        PASS(SYS_futex),
        PASS(SYS_sched_setaffinity), // a worker leaves the caller's CPU: base/cpus.c
        PASS(SYS_sched_getaffinity), // the first time
        PASS(SYS_rt_sigreturn),
        PASS(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {COUNT(filter), filter};
    struct sigaction action = {.sa_sigaction = count_call, .sa_flags = SA_SIGINFO | SA_NODEFER};
    return sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

// A training step written out: products and what follows them, reductions, an update. Large enough for all
// threads.
static bool step(zl_array x, zl_array w, zl_array *state) {
    bool done = false;
    ZL_SCOPE {
        zl_array y = zl_maximum(zl_matmul(x, *state), zl_scalar(0));
        zl_array loss = zl_mean(zl_square(zl_subtract(y, w)));
        zl_array gradient = zl_matmul(zl_matrix_transpose(x), zl_subtract(y, w));
        zl_array next = zl_retain(zl_subtract(*state, zl_multiply(gradient, zl_scalar(1e-6))));
        done = zl_eval_all(3, (zl_array[]){next, loss, zl_softmax(y, -1, false)});
        zl_release(*state);
        *state = next;
    }
    return done;
}

static int count_in_child(void) {
    if (prctl(PR_GET_SECCOMP) < 0) // checked before the work, which takes minutes in an emulator
        return REFUSED;
    test_setenv("ZL_HOT", "0"); // without the thread that compiles, which would start and end
    // system calls of a BLAS library do not matter here: BLIS allocates and frees memory now and then
    test_setenv("ZL_BLAS", "none");
    zl_array x = zl_retain(zl_random_normal(ZL_SHAPE(512, 256), ZL_FLOAT32, NULL, NULL, NULL));
    zl_array w = zl_retain(zl_random_normal(ZL_SHAPE(512, 256), ZL_FLOAT32, NULL, NULL, NULL));
    zl_array state = zl_retain(zl_random_normal(ZL_SHAPE(256, 256), ZL_FLOAT32, NULL, NULL, NULL));
    for (int i = 0; i < WARM; i++) // until all threads have allocated what they need
        if (!step(x, w, &state))
            return FAILED;
    if (!watch_calls())
        return REFUSED;
    for (int i = 0; i < ROUNDS; i++)
        if (!step(x, w, &state))
            return FAILED;
    return DONE;
}

TEST(steady_state_makes_no_system_calls) {
#ifdef ZL_SANITIZED
    SKIP("sanitizers make calls of their own");
#endif
    seen = mmap(NULL, 2 * sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(seen != MAP_FAILED);
    pid_t child = fork();
    if (child == 0)
        _exit(count_in_child());
    int status = 0;
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == REFUSED)
        SKIP("no seccomp filter can be set here, as in emulators");
    CHECK(WEXITSTATUS(status) == DONE);
    if (!CHECK_EQ_INT(seen[0], 0))
        test_note("the last was system call %d", seen[1]);
    munmap((void *)(uintptr_t)seen, 2 * sizeof *seen);
}

#endif
