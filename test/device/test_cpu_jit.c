// test_cpu_jit.c - functions compiled at run time.

#include "test.h"

#include "device/cpu/tile/compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Returns whether there is a compiler for the machine that the test runs on: under an emulator `cc` may be
// that of the host.
static bool has_compiler(void) {
    bool works = cpu_jit("int probe(void); int probe(void) { return 1; }", "probe");
    const char *reason = zl_error();
    bool foreign = reason && (strstr(reason, "-march") || strstr(reason, "cannot be loaded"));
    bool found = works || (cpu_compiler_version() && !foreign);
    zl_clear_error();
    return found;
}

static void use_folder(const char *folder) {
    test_setenv("ZL_CACHE_DIR", folder);
}

// The compiler ----------------------------------------------------------------------------------------------

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

// The number makes the kernel a new one, which no cache has.
static int call_kernel(int number) {
    char source[128];
    snprintf(source, sizeof source, "int kernel(void); int kernel(void) { return %d; }", number);
    int (*kernel)(void);
    *(void **)&kernel = cpu_jit(source, "kernel");
    return kernel ? kernel() : -1;
}

// In a process that was started with the variable set: calls the kernel, prints how often it compiled, and
// exits.
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
    snprintf(command, sizeof command, "%s=%d ASAN_OPTIONS=detect_leaks=0 '%s'", child_variable, number,
             program);
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
    const char *set = getenv("ZL_CC"); // the user may have chosen a compiler
    char *old = set ? strdup(set) : NULL;
    test_setenv("ZL_CC", "no-such-compiler");
    CHECK_ERROR(ZL_ERROR_COMPILE, cpu_jit("int f(void) { return 1; }", "f"));
    CHECK_HAS(test_last_error(), "ZL_CC");
    CHECK_HAS(test_last_error(), "install");
    if (old)
        test_setenv("ZL_CC", old);
    else
        test_setenv("ZL_CC", NULL);
    free(old);
}
