// test_pjrt_open.c - plugins that are missing, for another machine, too old, newer, silent or in use. Each is
// tested in a process of its own, since a process opens only one. test/fake/pjrt.c implements them.

#include "test.h"

#include "base/base.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

#define NEEDS_PROGRAM         \
    if (test_lacks_program()) \
    SKIP(test_lacks_program())

static const char plugin[] = ZL_BUILD_DIR "/fake/libpjrt.so";

// Returns what `zellige devices` prints with such a plugin.
static char *list_devices(const char *path, const char *fake) {
    char command[1000];
    int status;
    snprintf(command, sizeof command,
             "ZL_DEVICE=cpu ZL_PJRT='%s' FAKE_PJRT='%s' '%s/zellige' devices --json 2>&1", path, fake,
             ZL_BUILD_DIR);
    char *output = test_shell(command, &status);
    CHECK_EQ_INT(status, 0);
    return output;
}

static void check_says(const char *path, const char *fake, const char *part) {
    char *output = list_devices(path, fake);
    if (!CHECK_HAS(output, part))
        test_note("%s of a plugin with '%s'", output, fake);
    memory_free(output);
}

TEST(versions) {
    NEEDS_PROGRAM;
    check_says(plugin, "", "fake plugin of the tests, PJRT 0.81");
    check_says(plugin, "minor=40", "PJRT 0.40");
    check_says(plugin, "minor=39", "has interface 0.39: 0.40 or later of the same major version is needed");
    check_says(plugin, "major=1,minor=2", "has interface 1.2: 0.40");
    check_says(plugin, "minor=200,grown", "PJRT 0.200");
}

TEST(tables_that_end_early) {
    NEEDS_PROGRAM;
    check_says(plugin, "short=1", "interface 0.81");
    check_says(plugin, "short=3", "has no Plugin_Initialize: it is too old");
    check_says(plugin, "short=20", "has no Device_GetDescription: it is too old");
    check_says(plugin, "without=10", "has no Client_Create: it is too old");
    check_says(plugin, "null", "its GetPjrtApi returns nothing");
}

TEST(any_call_of_opening_may_fail) {
    NEEDS_PROGRAM;
    char fake[32];
    for (int i = 1; i <= 9; i++) {
        snprintf(fake, sizeof fake, "fail=%d", i);
        check_says(plugin, fake, "was told to fail");
    }
    check_says(plugin, "fail=2,mute", "Client_Create of the PJRT plugin: it failed, and does not say why");
    check_says(plugin, "fail=10", "fake chip");
}

TEST(a_chip_in_use) {
    NEEDS_PROGRAM;
    check_says(plugin, "busy", "another process has the TPU, which serves one at a time");
    check_says(plugin, "busy", "pid 4711");
}

TEST(what_is_no_plugin) {
    NEEDS_PROGRAM;
    check_says("/nowhere/libtpu.so", "", "the PJRT plugin /nowhere/libtpu.so cannot be read: No such file");
    check_says(ZL_TEST_DIR "/test.h", "", "the PJRT plugin cannot be opened");
    check_says(ZL_BUILD_DIR "/fake/libnvrtc.so.13", "", "is no PJRT plugin: it has no GetPjrtApi");
}

// A copy of the plugin whose header names another machine.
TEST(a_plugin_of_another_machine) {
    NEEDS_PROGRAM;
    char path[300];
    Elf64_Ehdr head;
    snprintf(path, sizeof path, "%s/libtpu.so", test_folder());
    FILE *from = fopen(plugin, "rb"), *to = fopen(path, "wb");
    REQUIRE(from && to && fread(&head, sizeof head, 1, from) == 1);
    head.e_machine = head.e_machine == EM_X86_64 ? EM_AARCH64 : EM_X86_64;
    CHECK(fwrite(&head, sizeof head, 1, to) == 1);
    fclose(from);
    fclose(to);
    check_says(path, "",
               head.e_machine == EM_X86_64 ? "libtpu.so is for x86_64, and this is aarch64"
                                           : "libtpu.so is for aarch64, and this is x86_64");
}

// Runs tests in a process that uses this plugin.
static void run_under(const char *fake, const char *options) {
    char command[1000];
    int status;
    snprintf(command, sizeof command, "ZL_PJRT='%s' FAKE_PJRT='%s' %s/test device/test_pjrt_fake %s 2>&1",
             plugin, fake, ZL_BUILD_DIR, options);
    char *output = test_shell(command, &status);
    if (!CHECK(status == 0 && output && strstr(output, " 0 failed, 0 skipped")))
        test_note("with '%s': %s", fake, output);
    memory_free(output);
}

TEST(under_the_fake_plugin) {
    if (test_lacks_itself())
        SKIP(test_lacks_itself());
    run_under("", "");
    run_under("grown,minor=200", "");
    run_under("late", "");
    run_under("mute", "");
    run_under("profiler", "");
    run_under("profiler=streams", "");
    run_under("profiler=lost", "--except fail");
    run_under("minor=40,short=71", "--except ahead --except lone"); // this plugin lacks the functions for
                                                                    // compiling ahead
}
