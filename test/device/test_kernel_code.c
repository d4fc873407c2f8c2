// test_kernel_code.c - code of tile kernels on disk: compiled once per text and compiler, loaded afterwards.

#include "test.h"

#include "device/device.h"
#include "device/tile_runtime/group_kernel.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int compiles, loads;

static bool compile(const struct text *source, struct text *code, void *context) {
    compiles++;
    text_add(code, "%s compiled by %s", source->data, (const char *)context);
    return strcmp(source->data, "wrong") || error_false(ZL_ERROR_COMPILE, "this text is wrong");
}

static void *load(const char *code, size_t bytes, void *context) {
    (void)context;
    loads++;
    char *copy = memory_zero(bytes + 1);
    return copy ? memcpy(copy, code, bytes) : NULL;
}

static void check(const char *identity, const char *source, int compiled, const char *expected) {
    int before = compiles, loaded = loads;
    struct text text = {.data = (char *)(uintptr_t)source, .len = (int)strlen(source)};
    char *code =
        kernel_code_use(&(struct kernel_code){identity, &text, compile, load, (void *)(uintptr_t)identity});
    CHECK_STR(code, expected);
    CHECK_EQ_INT(compiles - before, compiled);
    CHECK_EQ_INT(loads - loaded, expected != NULL);
    memory_free(code);
}

TEST(kernel_code_is_compiled_once) {
    char one[80], other[100], expected[160];
    struct timespec now; // makes texts that no earlier run had
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(one, sizeof one, "one %ld %ld %d", (long)now.tv_sec, now.tv_nsec, (int)getpid());
    snprintf(other, sizeof other, "other%s", one + 3);
    snprintf(expected, sizeof expected, "text compiled by %s", one);
    check(one, "text", 1, expected);
    check(one, "text", 0, expected);
    snprintf(expected, sizeof expected, "text compiled by %s", other);
    check(other, "text", 1, expected);
    check(one, "wrong", 1, NULL);
    CHECK_HAS(zl_error(), "this text is wrong");
    zl_clear_error();
}
