// test_cpu_jit.c - functions compiled at run time, and the folder that keeps them.

#include "test.h"

#include "device/cpu/cpu.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// One that compiles for the machine that the test runs on: under an emulator `cc` may be that of the host.
static bool has_compiler(void) {
    bool works = cpu_jit("int probe(void); int probe(void) { return 1; }", "probe");
    const char *reason = zl_error();
    bool foreign = reason && (strstr(reason, "-march") || strstr(reason, "cannot be loaded"));
    bool found = works || (cpu_compiler_version() && !foreign);
    zl_clear_error();
    return found;
}

static void use_folder(const char *folder) {
    setenv("ZL_CACHE_DIR", folder, 1);
}

// The cache with entries that need no compiler -----------------------------------------------------------------------

struct made {
    atomic_int times;
    bool fails;
    char text[64];
};

static bool make(const char *folder, void *context) {
    struct made *m = context;
    char path[4096], body[4096];
    atomic_fetch_add(&m->times, 1);
    if (m->fails)
        return error_false(ZL_ERROR_COMPILE, "it does not compile");
    snprintf(path, sizeof path, "%s/thing", folder);
    memset(body, 'x', sizeof body);
    memcpy(body, m->text, sizeof m->text);
    return file_write(path, body, sizeof body);
}

static void *use(const char *path, void *context) {
    struct made *m = context;
    char *text = file_read(path, NULL);
    bool same = text && !strcmp(text, m->text);
    memory_free(text);
    return same ? context : NULL;
}

static void *ask(struct made *m, const char *name) {
    char key[65];
    hash_sha256(name, strlen(name), key);
    snprintf(m->text, sizeof m->text, "%s", name);
    return device_cache_use(
        &(struct cache_entry){.key = key, .file = "thing", .make = make, .use = use, .context = m});
}

static int entries(const char *folder) {
    int count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        count += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count;
}

static void path_of(char *out, const char *folder, const char *name, const char *file) {
    char key[65];
    hash_sha256(name, strlen(name), key);
    snprintf(out, 4096, "%s/%s/%s", folder, key, file);
}

TEST(an_entry_is_made_once) {
    struct made m = {0};
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/deep/cache", test_folder());
    use_folder(folder);
    CHECK(ask(&m, "one"));
    CHECK(ask(&m, "one"));
    CHECK(ask(&m, "two"));
    CHECK_EQ_INT(atomic_load(&m.times), 2);
    CHECK_EQ_INT(entries(folder), 2);
    struct stat s;
    CHECK(stat(folder, &s) == 0 && (s.st_mode & 0777) == 0700);
}

TEST(a_damaged_entry_is_made_anew) {
    struct made m = {0};
    char path[4096];
    use_folder(test_folder());
    for (int round = 0; round < 3; round++) {
        CHECK(ask(&m, "one"));
        path_of(path, test_folder(), "one", round == 2 ? "sum" : "thing");
        if (round == 0)
            CHECK(truncate(path, 100) == 0);
        else
            CHECK(file_write(path, "other", 5));
    }
    CHECK(ask(&m, "one"));
    CHECK_EQ_INT(atomic_load(&m.times), 4);
    CHECK_EQ_INT(entries(test_folder()), 1);
}

TEST(what_cannot_be_made_leaves_nothing) {
    struct made m = {.fails = true};
    use_folder(test_folder());
    CHECK_ERROR(ZL_ERROR_COMPILE, ask(&m, "one"));
    CHECK_EQ_INT(entries(test_folder()), 0);
}

TEST(the_oldest_entries_go_first) {
    struct made m = {0};
    char name[32], path[4096];
    use_folder(test_folder());
    setenv("ZL_CACHE_SIZE", "100k", 1);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "entry %d", i);
        CHECK(ask(&m, name));
        usleep(2000);
        CHECK(ask(&m, "entry 0")); // used again and again, it stays
        usleep(2000);
    }
    unsetenv("ZL_CACHE_SIZE");
    CHECK(entries(test_folder()) < 15);
    path_of(path, test_folder(), "entry 0", "thing");
    CHECK(access(path, R_OK) == 0);
    path_of(path, test_folder(), "entry 1", "thing");
    CHECK(access(path, R_OK) != 0);
}

static void ignore(zl_log_level level, const char *line, void *context) {
    (void)level, (void)line;
    atomic_fetch_add((atomic_int *)context, 1);
}

TEST(a_folder_that_cannot_be_written) {
    struct made m = {0};
    atomic_int warnings = 0;
    char path[4096];
    snprintf(path, sizeof path, "%s/file", test_folder());
    CHECK(file_write(path, "", 0));
    zl_set_log(ignore, &warnings);
    strcat(path, "/cache");
    use_folder(path);
    CHECK(ask(&m, "one"));
    CHECK(ask(&m, "one"));
    zl_set_log(NULL, NULL);
    CHECK_EQ_INT(atomic_load(&m.times), 2);
    CHECK(atomic_load(&warnings) <= 1);
}

TEST(folders_of_others_are_not_read) {
    struct made m = {0};
    atomic_int warnings = 0;
    use_folder(test_folder());
    CHECK(ask(&m, "one"));
    CHECK(chmod(test_folder(), 0777) == 0);
    zl_set_log(ignore, &warnings);
    CHECK(ask(&m, "one"));
    zl_set_log(NULL, NULL);
    CHECK_EQ_INT(atomic_load(&m.times), 2);
}

TEST(an_earlier_error_stays) {
    struct made m = {0};
    use_folder(test_folder());
    error_set(ZL_ERROR_SHAPE, "earlier");
    CHECK(ask(&m, "one"));
    CHECK_EQ_INT(zl_error_which(), ZL_ERROR_SHAPE);
    zl_clear_error();
}

static void *race(void *data) {
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "race %d", i);
        struct made m = {0};
        if (ask(&m, name))
            atomic_fetch_add((atomic_int *)data, 1);
    }
    zl_clear_error();
    return NULL;
}

TEST(many_make_the_same) {
    pthread_t thread[4];
    atomic_int done = 0;
    use_folder(test_folder());
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&thread[i], NULL, race, &done) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQ_INT(atomic_load(&done), 80);
    CHECK_EQ_INT(entries(test_folder()), 20);
}

// The compiler -------------------------------------------------------------------------------------------------------

TEST(text_becomes_a_function) {
    use_folder(test_folder());
    if (!has_compiler())
        SKIP("no C compiler");
    int64_t compiles = zl_counter("compiles");
    char source[256];
    snprintf(source, sizeof source,
             "int triple(int x); int triple(int x) { return 3 * x + (int)sizeof(vec_f32) * 0; } /* %d %p */",
             getpid(), (void *)&compiles);
    int (*triple)(int);
    *(void **)&triple = cpu_jit(source, "triple");
    REQUIRE(triple);
    CHECK_EQ_INT(triple(14), 42);
    CHECK(cpu_jit(source, "triple") == *(void **)&triple);
    CHECK(zl_counter("compiles") <= compiles + 1);
    CHECK_ERROR(ZL_ERROR_COMPILE, cpu_jit(source, "quadruple"));
    CHECK_HAS(test_last_error(), "quadruple");
}

static const char child_variable[] = "ZL_TEST_CPU_JIT";

// The number makes it a kernel that nobody has compiled before.
static int call_kernel(int number) {
    char source[128];
    snprintf(source, sizeof source, "int kernel(void); int kernel(void) { return %d; }", number);
    int (*kernel)(void);
    *(void **)&kernel = cpu_jit(source, "kernel");
    return kernel ? kernel() : -1;
}

// In a process that was started with the variable set: calls the kernel, says how often it compiled, and ends.
__attribute__((constructor)) static void call_in_child(void) {
    const char *number = getenv(child_variable);
    if (!number)
        return;
    int result = call_kernel(atoi(number));
    printf("%d after %lld\n", result, (long long)zl_counter("compiles"));
    exit(0);
}

TEST(a_new_process_finds_what_was_compiled) {
    char program[4096] = "", command[8300], line[64] = "", want[64];
    int number = getpid();
    use_folder(test_folder());
    if (!has_compiler())
        SKIP("no C compiler");
    int64_t compiles = zl_counter("compiles");
    CHECK_EQ_INT(call_kernel(number), number);
    CHECK_EQ_INT(zl_counter("compiles"), compiles + 1);
    REQUIRE(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    snprintf(command, sizeof command, "%s=%d ASAN_OPTIONS=detect_leaks=0 '%s'", child_variable, number, program);
    fflush(stdout);
    FILE *child = popen(command, "r");
    bool started = child && fgets(line, sizeof line, child);
    if (child)
        pclose(child);
    if (!started)
        SKIP("this program cannot start itself (in an emulator)");
    snprintf(want, sizeof want, "%d after 0\n", number);
    CHECK_STR(line, want);
}

TEST(errors_of_the_compiler) {
    use_folder(test_folder());
    if (!has_compiler())
        SKIP("no C compiler");
    CHECK_ERROR(ZL_ERROR_COMPILE, cpu_jit("int f(void) { return undeclared_name; }", "f"));
    CHECK_HAS(test_last_error(), "undeclared_name");
}

TEST(no_compiler) {
    use_folder(test_folder());
    const char *set = getenv("ZL_CC"); // whoever runs the tests may have chosen a compiler
    char *old = set ? strdup(set) : NULL;
    setenv("ZL_CC", "no-such-compiler", 1);
    CHECK_ERROR(ZL_ERROR_COMPILE, cpu_jit("int f(void) { return 1; }", "f"));
    CHECK_HAS(test_last_error(), "ZL_CC");
    CHECK_HAS(test_last_error(), "install");
    if (old)
        setenv("ZL_CC", old, 1);
    else
        unsetenv("ZL_CC");
    free(old);
}
