// check.c - what a test may call: checks, skips, random numbers, a folder for its files.

#include "harness.h"

#include "device/cpu/cpu.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test_state test_state;

enum { PRINTED_MOST = 20 }; // failed checks of one test that are printed

static char last_error[512];

// Counts a failed check and says whether it is to be printed.
static bool fails(void) {
    if (test_state.muted)
        return false;
    int count = atomic_fetch_add(&test_state.failed, 1) + 1;
    if (count == PRINTED_MOST + 1)
        printf("  ... further failed checks of this test are not printed\n");
    return count <= PRINTED_MOST;
}

static bool say(bool holds, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// One printf a failure, so that threads do not mix their lines.
static bool say(bool holds, const char *file, int line, const char *format, ...) {
    if (holds || !fails())
        return holds;
    char text[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    printf("  %s:%d: %s: %s\n", file, line, test_state.name, text);
    return false;
}

bool test_check(const char *file, int line, bool holds, const char *what) {
    return say(holds, file, line, "%s", what);
}

bool test_equal_int(const char *file, int line, int64_t a, int64_t b, const char *a_text,
                    const char *b_text) {
    return say(a == b, file, line, "%s is %lld, but %s is %lld", a_text, (long long)a, b_text, (long long)b);
}

bool test_equal_f64(const char *file, int line, double a, double b, const char *a_text, const char *b_text) {
    return say(a == b || (isnan(a) && isnan(b)), file, line, "%s is %.17g, but %s is %.17g", a_text, a,
               b_text, b);
}

bool test_same_f64(const char *file, int line, double a, double b, const char *a_text, const char *b_text) {
    bool same = isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
    return say(same, file, line, "%s is %.17g, but %s is %.17g", a_text, a, b_text, b);
}

bool test_near(const char *file, int line, double a, double b, double bound, const char *a_text,
               const char *b_text) {
    bool near = a == b || fabs(a - b) <= bound || (isnan(a) && isnan(b));
    return say(near, file, line, "%s is %.17g, but %s is %.17g: %.3g apart, allowed %.3g", a_text, a, b_text,
               b, fabs(a - b), bound);
}

bool test_equal_str(const char *file, int line, const char *a, const char *b, const char *a_text,
                    const char *b_text) {
    bool same = a && b ? !strcmp(a, b) : a == b;
    return say(same, file, line, "%s is\n    %s\n  but %s is\n    %s", a_text, a ? a : "(NULL)", b_text,
               b ? b : "(NULL)");
}

bool test_has(const char *file, int line, const char *text, const char *part, const char *what) {
    return say(text && strstr(text, part), file, line, "%s has no \"%s\":\n    %s", what, part,
               text ? text : "(NULL)");
}

bool test_error(const char *file, int line, zl_error_kind kind, bool failed, const char *what) {
    zl_error_kind got = zl_error_which();
    snprintf(last_error, sizeof last_error, "%s", zl_error() ? zl_error() : "");
    zl_clear_error();
    if (!failed)
        return say(false, file, line, "%s should fail", what);
    return say(got == kind, file, line, "%s should fail with error %d, but gave %d: %s", what, (int)kind,
               (int)got, last_error);
}

const char *test_last_error(void) {
    return last_error;
}

void test_skip(const char *reason) {
    if (!test_state.muted)
        printf("  skipped %s: %s\n", test_state.name, reason);
    test_state.skipped = true;
}

void test_note(const char *format, ...) {
    if (test_state.muted)
        return;
    char text[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    printf("  %s: %s\n", test_state.name, text);
}

bool test_quick(void) {
    return test_state.quick;
}
bool test_brief(void) {
    return test_state.brief;
}
bool test_samples(int n) {
    return test_step(n) == 1 || test_between(1, n) == 1;
}
int test_step(int n) {
    return test_state.brief || test_state.sampled ? n : 1;
}
bool test_long(void) {
    return test_state.is_long;
}
uint64_t test_seed(void) {
    return test_state.seed;
}

// SplitMix64 over an atomic counter: threads draw from one sequence.
uint64_t test_random(void) {
    const uint64_t step = 0x9e3779b97f4a7c15;
    uint64_t x = atomic_fetch_add(&test_state.random, step) + step;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

double test_uniform(double lo, double hi) {
    return lo + (hi - lo) * ((double)(test_random() >> 11) * 0x1p-53);
}

int64_t test_between(int64_t lo, int64_t hi) {
    uint64_t span = (uint64_t)hi - (uint64_t)lo + 1; // 0: all of int64_t
    uint64_t x = test_random();
    return (int64_t)((uint64_t)lo + (span ? x % span : x));
}

const char *test_folder(void) {
    char *folder = test_state.folder;
    if (folder[0])
        return folder;
    const char *parent = getenv("TMPDIR");
    snprintf(folder, TEST_FOLDER_BYTES, "%s/zellige-test-XXXXXX", parent && parent[0] ? parent : "/tmp");
    if (mkdtemp(folder))
        return folder;
    folder[0] = 0;
    return NULL;
}

void test_setenv(const char *name, const char *value) {
    bool failed = zl_error();
    if (!zl_synchronize() && !failed)
        zl_clear_error();
    test_settle();
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

char *test_shell(const char *command, int *status) {
    struct text output = {0};
    char piece[4096];
    fflush(stdout);
    FILE *child = popen(command, "r");
    for (size_t bytes; child && (bytes = fread(piece, 1, sizeof piece, child));)
        text_bytes(&output, piece, (int)bytes);
    *status = child ? pclose(child) : -1;
    text_add(&output, "%s", "");
    return text_take(&output);
}

void test_settle(void) {
    cpu_kernels_settle();
}
