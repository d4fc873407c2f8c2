// runner.c - runs the tests: build/test [option...] [word...]
//
// The tests run in one child process, or in as many as --jobs says, each of which takes the next file of
// tests when it is done with one. When a child crashes or hangs, the test that it was in has failed, and a
// new child goes on with the rest of that file. Results are in memory that all processes see. Several
// children write what they have to say into a temporary file for each file of tests, and the parent prints
// these in order: the output is that of one child.

#include "device/desk.h"
#include "harness.h"

#include "base/base.h"
#include "schedule/schedule.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum result { NOT_RUN, PASSED, FAILED, SKIPPED };

enum { TESTS_MOST = 20000, JOBS_MOST = 16, EXCEPT_MOST = 32, PATH_BYTES = 600 };

// A child, as the parent sees it.
struct job {
    pid_t process;  // 0: there is none
    int current;    // index of the test that is running
    double started; // when it was
    bool finished;  // no test is left for it
    char folder[TEST_FOLDER_BYTES];
};

static struct shared {
    atomic_int next; // index of the first test of the files that no child has taken
    enum result result[TESTS_MOST];
    float processor[TESTS_MOST]; // seconds of it that a test took, with those of its children
    atomic_bool
        is_done[TESTS_MOST]; // by the index of the first test of a file: all that it has to say is written
    struct job job[JOBS_MOST];
} * shared;

static struct job *self;                    // in a child: what it is
static char output[TEST_FOLDER_BYTES] = ""; // folder for what children say; "": they print it themselves

#ifdef ZL_SANITIZED
// PoCL loses some memory where it looks for the code of a kernel that it compiled. What we do not release is
// still told.
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"), used)) const char *__lsan_default_suppressions(void) {
    return "leak:pocl_check_kernel_disk_cache\n"
           "leak:libstdc++.so\n" // nothing of ours is C++; who kept 16 bytes in it is not known
           // which keeps 48 bytes of a pipeline; ours that are lost lose memory of our own, too
           "leak:libvulkan_lvp.so\n";
}

// Lavapipe, which is not built with TSan, ends its own mutexes while its own threads may look at them.
const char *__tsan_default_suppressions(void);
__attribute__((visibility("default"), used)) const char *__tsan_default_suppressions(void) {
    return "race:libvulkan_lvp.so\n";
}
#endif

static struct options {
    bool list, verbose, no_fork;
    double timeout; // seconds that one test may take
    int jobs;
    int times; // how many files and tests that took most are named
    const char *except[EXCEPT_MOST]; // tests with one of these words are left out
    int except_count;
    const char *sampled[EXCEPT_MOST]; // tests with one of these words take samples
    int sampled_count;
    bool quick; // all do
    const char *
        // how a device of the tests runs kernels (device/desk.h); NULL: tests run on the CPU, or where
        // ZL_DEVICE says
        on;
    char **words;
    int word_count;
} options = {.timeout = 600, .jobs = 1};

static struct test *registered;
static struct test *selected[TESTS_MOST];
static int selected_count;

void test_register(struct test *test) {
    test->next = registered;
    registered = test;
}

// Selection -------------------------------------------------------------------------------------------------

// "unit/graph" of "/somewhere/test/unit/graph.c"
static void group_of(const struct test *test, char *out, size_t bytes) {
    const char *start = test->file;
    for (const char *at = start; (at = strstr(at, "test/")); at++)
        if (at == test->file || at[-1] == '/')
            start = at + strlen("test/");
    snprintf(out, bytes, "%s", start);
    char *dot = strrchr(out, '.');
    if (dot)
        *dot = 0;
}

static void name_of(const struct test *test, char *out, size_t bytes) {
    char group[128];
    group_of(test, group, sizeof group);
    snprintf(out, bytes, "%s:%s", group, test->name);
}

static bool has_word(const struct test *test, const char *word) {
    char name[256];
    name_of(test, name, sizeof name);
    return strstr(name, word);
}

static bool is_wanted(const struct test *test) {
    for (int i = 0; i < options.except_count; i++)
        if (has_word(test, options.except[i]))
            return false;
    for (int i = 0; i < options.word_count; i++)
        if (has_word(test, options.words[i]))
            return true;
    return options.word_count == 0;
}

static bool is_sampled(const struct test *test) {
    for (int i = 0; i < options.sampled_count; i++)
        if (has_word(test, options.sampled[i]))
            return true;
    return false;
}

static const char *word_without_tests(const char *const *words, int count) {
    for (int i = 0; i < count; i++) {
        const struct test *test = registered;
        while (test && !has_word(test, words[i]))
            test = test->next;
        if (!test)
            return words[i];
    }
    return NULL;
}

// NULL: every word has its tests.
static const char *word_of_none(void) {
    const char *word = word_without_tests((const char *const *)options.words, options.word_count);
    return word ? word : word_without_tests(options.sampled, options.sampled_count);
}

static int by_place(const void *a, const void *b) {
    const struct test *x = *(struct test *const *)a, *y = *(struct test *const *)b;
    int file = strcmp(x->file, y->file);
    return file ? file : x->line - y->line;
}

static bool select_tests(void) {
    for (struct test *test = registered; test; test = test->next) {
        if (!is_wanted(test))
            continue;
        if (selected_count == TESTS_MOST) {
            fprintf(stderr, "test: more than %d tests: raise TESTS_MOST\n", TESTS_MOST);
            return false;
        }
        selected[selected_count++] = test;
    }
    qsort(selected, (size_t)selected_count, sizeof *selected, by_place);
    return true;
}

// One test --------------------------------------------------------------------------------------------------

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

// Seconds of processor time of this process and of its children that ended.
static double processor_time(void) {
    struct rusage own, children;
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    return seconds_of(own.ru_utime) + seconds_of(own.ru_stime) + seconds_of(children.ru_utime) +
           seconds_of(children.ru_stime);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info, (void)kind, (void)place;
    return remove(path);
}

static void remove_folder(char *folder) {
    if (folder[0])
        nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    folder[0] = 0;
}

const char *test_lacks_lapack(void) {
    static int found = -1;
    if (found < 0) {
        zl_scope scope = zl_scope_begin();
        zl_array y = zl_linalg_inv(zl_eye(1, 1, 0, ZL_FLOAT32));
        found = y && zl_eval(y);
        zl_clear_error();
        zl_scope_end(scope);
    }
    return found ? NULL : "there is no LAPACK here: Debian's libopenblas0-pthread or liblapack3 has one";
}

const char *test_lacks_program(void) {
    return access(ZL_BUILD_DIR "/zellige", X_OK) ? "the program zellige is not part of this build" : NULL;
}

const char *test_lacks_itself(void) {
    int status;
    memory_free(test_shell(ZL_BUILD_DIR "/test --list", &status));
    return status ? "this program cannot start itself anew: an emulator runs it" : NULL;
}

// Runs the body in a scope of its own; returns by how many slab objects the process grew.
static long run_body(const struct test *test) {
    size_t before = slab_live();
    atomic_store(&test_state.random, hash_bytes(test_state.name, strlen(test_state.name), test_state.seed));
    test_state.skipped = false;
    const char *lacks = test->lacks ? test->lacks() : NULL;
    zl_scope scope = options.on ? zl_scope_begin_on(desk_stream(options.on)) : zl_scope_begin();
    if (lacks)
        test_skip(lacks);
    else
        test->run();
    zl_scope_end(scope);
    if (zl_error()) {
        test_check(test->file, test->line, false, "the test left an error behind");
        test_note("the error: %s", zl_error());
    }
    zl_clear_error();
    test_settle();
    remove_folder(self->folder);
    return (long)(slab_live() - before);
}

// Caches may grow once. The second run makes the same calls, so what still grows is a leak.
static void check_leaks(const struct test *test, long grown) {
    bool skipped = test_state.skipped;
    test_state.muted = true;
    long again = run_body(test);
    test_state.muted = false;
    test_state.skipped = skipped;
    if (grown > 0 && again > 0) {
        test_check(test->file, test->line, false, "the test leaves objects alive");
        test_note("%ld slab objects more after the first run, %ld more after the second", grown, again);
    }
}

static enum result run_test(const struct test *test) {
    memset(&test_state.name, 0, sizeof test_state.name);
    name_of(test, test_state.name, sizeof test_state.name);
    atomic_store(&test_state.failed, 0);
    test_state.sampled = is_sampled(test);
    test_state.quick = options.quick || test_state.sampled;
    test_state.folder = self->folder;
    double start = now();
    long grown = run_body(test);
    double seconds = now() - start;
    if (grown > 0 && !atomic_load(&test_state.failed) && seconds < 5)
        check_leaks(test, grown);
    enum result result = atomic_load(&test_state.failed) ? FAILED : test_state.skipped ? SKIPPED : PASSED;
    if (options.verbose || result == FAILED)
        printf("%s %s (%.2f s)\n",
               result == FAILED    ? "FAILED"
               : result == SKIPPED ? "skipped"
                                   : "passed",
               test_state.name, seconds);
    return result;
}

// All tests -------------------------------------------------------------------------------------------------

static int count(enum result result, int from, int to) {
    int total = 0;
    for (int i = from; i < to; i++)
        total += shared->result[i] == result;
    return total;
}

static void print_sum(int from, int to, int more_failed) {
    printf("%d passed, %d failed, %d skipped\n", count(PASSED, from, to),
           count(FAILED, from, to) + more_failed, count(SKIPPED, from, to));
}

// The tests of a file are from the first to before the last.
static int first_of_file(int i) {
    while (i > 0 && !strcmp(selected[i - 1]->file, selected[i]->file))
        i--;
    return i;
}

static int end_of_file(int i) {
    const char *file = selected[i]->file;
    while (i < selected_count && !strcmp(selected[i]->file, file))
        i++;
    return i;
}

static void path_of_output(int first, char *out) {
    snprintf(out, PATH_BYTES, "%s/%d", output, first);
}

static void speak_into(int out, int err) {
    if (out < 0 || err < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) {
        perror("test: output");
        _exit(1);
    }
}

// From here on the child says everything in the file's place.
static void redirect(int first) {
    char path[PATH_BYTES];
    path_of_output(first, path);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    speak_into(file, file);
    close(file);
}

// The tests of one file, from i on.
static void run_file(int i) {
    int first = first_of_file(i), end = end_of_file(i);
    double started = now();
    if (output[0])
        redirect(first);
    recorder.stream = NULL; // tests of another file may have chosen a device in this process
    for (; i < end; i++) {
        self->current = i;
        self->started = now();
        double before = processor_time();
        shared->result[i] = run_test(selected[i]);
        shared->processor[i] = (float)(processor_time() - before);
        fflush(stdout);
    }
    char group[128];
    group_of(selected[first], group, sizeof group);
    printf("%-28s %6.2f s  ", group, now() - started);
    print_sum(first, end, 0);
    fflush(stdout);
    atomic_store(&shared->is_done[first], true);
}

// What took most processor time. Other processes do not lengthen it, as they do the seconds by the clock.
static float *times_to_sort;

static int by_time(const void *a, const void *b) {
    float x = times_to_sort[*(const int *)a], y = times_to_sort[*(const int *)b];
    return (x < y) - (x > y);
}

static void print_slowest(const char *what, void (*name)(const struct test *, char *, size_t), int *index,
                          int total) {
    double sum = 0;
    qsort(index, (size_t)total, sizeof *index, by_time);
    for (int i = 0; i < total; i++)
        sum += times_to_sort[index[i]];
    printf("processor time of %d %s: %.1f s, of these\n", total, what, sum);
    for (int i = 0; i < MIN_OF(total, options.times); i++) {
        char text[256];
        name(selected[index[i]], text, sizeof text);
        printf("%8.2f s  %s\n", times_to_sort[index[i]], text);
    }
}

static void print_times(void) {
    static float of_file[TESTS_MOST];
    static int files[TESTS_MOST], tests[TESTS_MOST];
    int file_count = 0;
    for (int i = 0; i < selected_count; i++) {
        int first = first_of_file(i);
        if (first == i)
            files[file_count++] = i;
        of_file[first] += shared->processor[i];
        tests[i] = i;
    }
    times_to_sort = of_file;
    print_slowest("files", group_of, files, file_count);
    times_to_sort = shared->processor;
    print_slowest("tests", name_of, tests, selected_count);
}

// The index of the first test of a file that no child had; selected_count: there is none.
static int take_file(void) {
    int first = atomic_load(&shared->next);
    while (first < selected_count && !atomic_compare_exchange_weak(&shared->next, &first, end_of_file(first)))
        ;
    return first;
}

// The rest of the file of test i, if it is not -1, then files that no other child takes.
static void run_files(int i) {
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3), err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (i < 0)
        i = take_file();
    for (; i < selected_count; i = take_file())
        run_file(i);
    speak_into(out, err); // what a sanitizer says at the end
    self->finished = true;
}

// Prints what was said about files up to one that is not done yet.
static void print_outputs(void) {
    static int printed;
    while (output[0] && printed < selected_count && atomic_load(&shared->is_done[printed])) {
        char path[PATH_BYTES], text[4096];
        path_of_output(printed, path);
        FILE *file = fopen(path, "r");
        for (size_t bytes; file && (bytes = fread(text, 1, sizeof text, file));)
            fwrite(text, 1, bytes, stdout);
        if (file)
            fclose(file);
        remove(path);
        fflush(stdout);
        printed = end_of_file(printed);
    }
}

// Says something about the test that a child is in, where the child says it.
static void say_of(const struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say_of(const struct job *job, const char *format, ...) {
    char path[PATH_BYTES];
    FILE *file = NULL;
    if (output[0]) {
        path_of_output(first_of_file(job->current), path);
        file = fopen(path, "a");
    }
    va_list list;
    va_start(list, format);
    vfprintf(file ? file : stdout, format, list);
    va_end(list);
    if (file)
        fclose(file);
}

static bool start(struct job *job, int from, const sigset_t *signals) {
    fflush(stdout);
    job->current = MAX_OF(from, 0);
    job->started = now();
    pid_t child = fork(); // which sees the job too: only the parent writes there what it got
    if (child == 0) {
        sigprocmask(SIG_SETMASK, signals, NULL);
        self = job;
        run_files(from);
        exit(0);
    }
    if (child < 0)
        perror("test: fork");
    job->process = MAX_OF(child, 0);
    return child > 0;
}

// A child that ended: a new one goes on after the test that it was in. Returns how many failures belong to no
// test: a bad end after the last one, such as leaks that a sanitizer found, and a child that cannot be
// started.
static int follow(struct job *job, int status, const sigset_t *signals) {
    char how[64], name[256];
    bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    int at = job->current;
    job->process = 0;
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "%s", strsignal(WTERMSIG(status)));
    else
        snprintf(how, sizeof how, "exit status %d", WEXITSTATUS(status));
    if (job->finished) {
        if (!clean)
            printf("FAILED after the last test: %s\n", how);
        return !clean;
    }
    name_of(selected[at], name, sizeof name);
    say_of(job, "CRASHED %s: %s (%s:%d)\n", name, how, selected[at]->file, selected[at]->line);
    shared->result[at] = FAILED;
    remove_folder(job->folder);
    bool is_last = at + 1 == end_of_file(at);
    if (is_last)
        atomic_store(&shared->is_done[first_of_file(at)], true);
    return !start(job, is_last ? -1 : at + 1, signals);
}

static void kill_if_late(struct job *job) {
    if (job->finished || now() - job->started <= options.timeout)
        return;
    say_of(job, "  no end after %.0f s: killed\n", options.timeout);
    kill(job->process, SIGABRT);
    job->started = now();
}

// Returns the failures that belong to no test.
static int run_in_children(void) {
    sigset_t child_signal, old;
    int more_failed = 0, running = 0;
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_signal, &old);
    for (int i = 0; i < options.jobs; i++)
        more_failed += !start(&shared->job[i], -1, &old);
    do {
        running = 0;
        for (int i = 0; i < options.jobs; i++) {
            struct job *job = &shared->job[i];
            int status;
            if (job->process > 0 && waitpid(job->process, &status, WNOHANG) == job->process)
                more_failed += follow(job, status, &old);
            if (job->process > 0) {
                kill_if_late(job);
                running++;
            }
        }
        print_outputs();
        if (running)
            sigtimedwait(&child_signal, NULL, &(struct timespec){.tv_sec = 1});
    } while (running);
    return more_failed;
}

// Command line ----------------------------------------------------------------------------------------------

static const char usage[] =
    "usage: build/test [option...] [word...]\n"
    "Runs the tests whose name, as \"unit/graph:add_broadcasts\", contains one of "
    "the words; all without words.\n"
    "  --quick      seeded samples instead of whole ranges\n"
    "  --brief      the same, and few cases of what takes long on a slow device\n"
    "  --long       the largest sizes and all values\n"
    "  --seed N     another start for the random numbers (default 1)\n"
    "  --except W   leave out the tests whose name contains W; may be given several times\n"
    "  --sample W   only seeded samples in the tests whose name contains W; may be given several times\n"
    "  --on HOW     run kernels of ops by the `interpreter`, or as compiled for the target "
    "`c`\n"
    "  --jobs N     that many processes, each of which takes one file of tests after the other (default 1)\n"
    "  --timeout S  seconds that one test may take (default 600)\n"
    "  --times N    at the end, print the N files and the N tests that took most processor time\n"
    "  --list       print the names only\n"
    "  --no-fork    run in this process, for a debugger\n"
    "  -v           print every test and its time\n";

static bool parse(int argc, char **argv) {
    test_state.seed = 1;
    options.words = argv; // words are moved to the front, over arguments that were read already
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        bool has_value = i + 1 < argc;
        if (!strcmp(arg, "--quick"))
            options.quick = true;
        else if (!strcmp(arg, "--brief"))
            options.quick = test_state.brief = true;
        else if (!strcmp(arg, "--long"))
            test_state.is_long = true;
        else if (!strcmp(arg, "--list"))
            options.list = true;
        else if (!strcmp(arg, "--no-fork"))
            options.no_fork = true;
        else if (!strcmp(arg, "-v"))
            options.verbose = true;
        else if (!strcmp(arg, "--seed") && has_value)
            test_state.seed = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(arg, "--except") && has_value && options.except_count < EXCEPT_MOST)
            options.except[options.except_count++] = argv[++i];
        else if (!strcmp(arg, "--sample") && has_value && options.sampled_count < EXCEPT_MOST)
            options.sampled[options.sampled_count++] = argv[++i];
        else if (!strcmp(arg, "--on") && has_value && desk_stream(argv[i + 1]))
            options.on = argv[++i];
        else if (!strcmp(arg, "--jobs") && has_value && atoi(argv[i + 1]) > 0)
            options.jobs = atoi(argv[++i]);
        else if (!strcmp(arg, "--times") && has_value && atoi(argv[i + 1]) > 0)
            options.times = atoi(argv[++i]);
        else if (!strcmp(arg, "--timeout") && has_value)
            options.timeout = atof(argv[++i]);
        else if (arg[0] == '-')
            return false;
        else
            options.words[options.word_count++] = argv[i];
    }
    options.jobs = MIN_OF(options.jobs, JOBS_MOST);
    return true;
}

static void list_tests(void) {
    for (int i = 0; i < selected_count; i++) {
        char name[256];
        name_of(selected[i], name, sizeof name);
        puts(name);
    }
}

int main(int argc, char **argv) {
    if (!parse(argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    if (!select_tests())
        return 1;
    setenv("ZL_DEVICE", "cpu", 0); // also where there is a GPU: what runs there is asked for by name
    if (!device_has_gpu_file())    // lavapipe, which compiles for CPUs that have more than this one may show
        setenv("VK_DRIVER_FILES", ZL_BUILD_DIR "/fake/vulkan.json", 0);
    if (options.list) {
        list_tests();
        return 0;
    }
    const char *of_none = word_of_none();
    if (of_none) {
        fprintf(stderr, "test: no test has '%s' in its name\n", of_none);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("test: mmap");
        return 1;
    }
    printf("seed %llu%s\n", (unsigned long long)test_state.seed,
           test_state.brief     ? ", brief"
           : options.quick      ? ", quick"
           : test_state.is_long ? ", long"
                                : "");
    if (options.no_fork) {
        self = &shared->job[0];
        run_files(-1);
        if (options.times)
            print_times();
        print_sum(0, selected_count, 0);
        return count(FAILED, 0, selected_count) > 0;
    }
    test_state.folder = output;
    if (options.jobs > 1 && !test_folder()) {
        perror("test: a folder for the output");
        return 1;
    }
    int more_failed = run_in_children();
    remove_folder(output);
    if (options.times)
        print_times();
    print_sum(0, selected_count, more_failed);
    fflush(stdout);
    _exit(count(FAILED, 0, selected_count) + more_failed > 0); // the child looked for leaks at its end
}
