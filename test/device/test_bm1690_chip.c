// test_bm1690_chip.c - the host side of the target bm1690 with the vendor's tools: finding them, reporting
// what is missing, compiling and launching kernels. It runs under the library of test/fake and with a package
// that contains little but file names, without a chip.

#include "test.h"

#include "base/base.h"
#include "device/bm1690/bm1690_tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Makes a package like one unpacked in a home folder. Its compiler records its arguments, and writes a marker
// and the text.
static bool make_package(void) {
    static const char make[] =
        "cd '%s' && mkdir -p ppl_v1/deps/chip/tpub_7_1/TPU1686/kernel/include ppl_v1/deps/chip/tpub_7_1/lib "
        "ppl_v1/tools/Xuantie-900-V2.6.1/bin old/runtime/bm1690/TPU1686/kernel/include && "
        "touch ppl_v1/deps/chip/tpub_7_1/lib/libfirmware_core.a && "
        "cat >ppl_v1/tools/Xuantie-900-V2.6.1/bin/riscv64-unknown-linux-gnu-gcc <<'END'\n"
        "#!/bin/sh\n"
        "echo \"$@\" >>'%s/words.txt'\n"
        "for word; do case $word in *.c) from=$word ;; *.so) to=$word ;; esac; done\n"
        "grep -q refused \"$from\" && { echo 'kernel.c: it is refused'; exit 1; }\n"
        "{ printf '\\177ELF'; cat \"$from\"; } >\"$to\"\n"
        "END\n"
        "chmod +x ppl_v1/tools/Xuantie-900-V2.6.1/bin/*; "
        "printf '#!/bin/bash\\nexit 3\\nexport PPL_PROJECT_ROOT=\"$(cd \"$(dirname x)\" && pwd)\"\\n"
        "export CROSS_TOOLCHAINS=${PPL_PROJECT_ROOT}/tools\\n' >ppl_v1/envsetup.sh\n";
    struct text command = {0};
    text_add(&command, make, test_folder(), test_folder());
    bool made = !command.failed && system(command.data) == 0;
    text_free(&command);
    return made;
}

static char *path_in_folder(char *out, const char *name) {
    snprintf(out, PATH_MAX, "%.3000s/%s", test_folder(), name);
    return out;
}

TEST(tools_are_found_without_running_a_script) {
    struct bm1690_tools t;
    char root[PATH_MAX], old[PATH_MAX], *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    REQUIRE(make_package());
    test_setenv("HOME", test_folder());
    bm1690_tools_find(&t);
    CHECK_STR(t.root, path_in_folder(root, "ppl_v1"));
    CHECK_STR(t.missing, "");
    CHECK_HAS(t.compiler, "/ppl_v1/tools/Xuantie-900-V2.6.1/bin/riscv64-unknown-linux-gnu-gcc");
    CHECK_HAS(t.include[0], "/ppl_v1/deps/chip/tpub_7_1/TPU1686/kernel/include");
    test_setenv("PPL_PROJECT_ROOT", path_in_folder(old, "old"));
    bm1690_tools_find(&t);
    CHECK_HAS(t.missing, "/old/runtime/bm1690/lib/libbm1690.a is not there");
    test_setenv("PPL_PROJECT_ROOT", "/nowhere");
    bm1690_tools_find(&t);
    CHECK_HAS(t.missing, "/nowhere, which is to be SophGo's PPL, has no deps/chip");
    test_setenv("PPL_PROJECT_ROOT", NULL);
    test_setenv("HOME", "/nowhere");
    bm1690_tools_find(&t);
    CHECK_HAS(t.missing, "name its folder in PPL_PROJECT_ROOT");
    test_setenv("HOME", home);
    free(home);
}

// Builds with sanitizers and for other machines contain only the tests, not the program.
#define NEEDS_PROGRAM         \
    if (test_lacks_program()) \
    SKIP(test_lacks_program())

// Runs twice.tile in another process, since a process opens the runtime only once. Checks that its output
// contains `part`.
static void check_run(const char *environment, const char *words, const char *part) {
    struct text command = {0};
    int status;
    text_add(
        &command,
        "env -u PPL_PROJECT_ROOT -u CROSS_TOOLCHAINS -u ZL_BM1690 HOME='%s' ZL_CACHE_DIR='%s' ZL_DEVICE=cpu "
        "LD_LIBRARY_PATH='%s/fake' %s '%s/zellige' %s 2>&1",
        test_folder(), test_folder(), ZL_BUILD_DIR, environment, ZL_BUILD_DIR, words);
    char *said = test_shell(command.data, &status);
    CHECK_HAS(said, part);
    memory_free(said);
    text_free(&command);
}

static void run_twice(const char *environment, const char *part) {
    struct text words = {0};
    text_add(&words, "kernel run '%s/twice.tile' --size n=5 --target bm1690", test_folder());
    check_run(environment, words.data, part);
    text_free(&words);
}

static void write_twice(const char *name) {
    char path[PATH_MAX];
    struct text text = {0};
    text_add(&text, "kernel %s(a: f32[n]) -> (y: f32[n]) { map i in n { y[i] = a[i] * 2.0 } }\n", name);
    CHECK(file_write(path_in_folder(path, "twice.tile"), text.data, (size_t)text.len));
    text_free(&text);
}

TEST(kernels_run_on_a_chip) {
    NEEDS_PROGRAM;
    char path[PATH_MAX], *words;
    REQUIRE(make_package());
    write_twice("twice");
    run_twice("", "launch twice_kernel on 1 group of 8 cores, n = 5, 2 allocations\nunload, 0 allocations\n");
    words = file_read(path_in_folder(path, "words.txt"), NULL);
    CHECK_HAS(words, "-D__bm1690__");
    CHECK_HAS(words, "-Wl,--whole-archive");
    memory_free(words);
    CHECK_EQ_INT(remove(path), 0);
    run_twice("", "launch twice_kernel"); // the compiled kernel is in the disk cache
    CHECK(access(path, F_OK) != 0);
    check_run("", "devices",
              "bm1690   -  tile kernels only, on the chip: by libtpuv7_rt.so, with the tools of ");
    run_twice("ZL_BM1690=chip", "launch twice_kernel");
}

TEST(times_of_a_chip_are_measured) {
    NEEDS_PROGRAM;
    struct text words = {0};
    REQUIRE(make_package());
    write_twice("twice");
    text_add(&words, "kernel bench '%s/twice.tile' --size n=5 --target bm1690 --json", test_folder());
    check_run("", words.data, "\"is_modelled\": false");
    check_run("ZL_BM1690=emulator", words.data, "\"is_modelled\": true");
    text_free(&words);
}

TEST(calls_that_fail_are_errors) {
    NEEDS_PROGRAM;
    REQUIRE(make_package());
    write_twice("twice");
    run_twice("FAKE_TPU_FAIL=tpuRtMalloc:5", "bm1690: tpuRtMalloc: the runtime's code 5");
    run_twice("FAKE_TPU_FAIL=tpuRtKernelLaunch:3",
              "bm1690: tpuRtKernelLaunch: the runtime's code 3\nunload, 0");
    run_twice("FAKE_TPU_FAIL=tpuRtStreamSynchronize:3", "tpuRtStreamSynchronize: the runtime's code 3");
    write_twice("refused");
    run_twice("", "it is refused");
}

TEST(what_is_missing_is_told) {
    NEEDS_PROGRAM;
    REQUIRE(make_package());
    write_twice("twice");
    check_run("ZL_BM1690=emulator", "devices", "on the emulator: ZL_BM1690 says so");
    check_run("FAKE_TPU_NONE=1", "devices", "on the emulator: SophGo's runtime finds no chip");
    check_run("PPL_PROJECT_ROOT=/nowhere", "devices", "on the emulator: /nowhere, which is to be");
    run_twice("ZL_BM1690=chip FAKE_TPU_NONE=1",
              "bm1690: ZL_BM1690 wants a chip: SophGo's runtime finds no chip");
    run_twice("PPL_PROJECT_ROOT=/nowhere", "y, sum");
}

// Compiles the text for the host as the vendor's tools would, and runs the kernel by the runtime.
TEST(the_host_part_runs_a_kernel) {
    NEEDS_PROGRAM;
    struct text command = {0};
    int status;
    REQUIRE(make_package());
    write_twice("twice");
    text_add(
        &command,
        "cd '%s' && '%s/zellige' kernel show twice.tile --stage bm1690_host >host.c && cat >main.c <<'END'\n"
        "#include \"host.c\"\n"
        "#include <stdio.h>\n"
        "int main(void) {\n"
        "    float a[5] = {1, 2, 3, 4, 5}, y[5] = {0};\n"
        "    tpuRtKernelModule_t module;\n"
        "    tpuRtStream_t stream;\n"
        "    int status = zl_open(\"kernel.so\", &module, &stream);\n"
        "    status = status ? status : (int)twice_run(module, stream, a, y, 5);\n"
        "    printf(\"status %%d, y %%g %%g %%g\\n\", status, y[0], y[3], y[4]);\n"
        "    return tpuRtKernelUnloadModule(module, stream);\n"
        "}\n"
        "END\n"
        "printf '\\177ELFx' >kernel.so && cc -Wall -Wextra -Werror -o main main.c -I'%s/fake' -L'%s/fake' "
        "-ltpuv7_rt -Wl,-rpath,'%s/fake' && ./main 2>&1",
        test_folder(), ZL_BUILD_DIR, ZL_TEST_DIR, ZL_BUILD_DIR, ZL_BUILD_DIR);
    char *said = test_shell(command.data, &status);
    CHECK_HAS(said, "launch twice_kernel on 1 group of 8 cores, n = 5, 2 allocations\n");
    CHECK_HAS(said, "unload, 0 allocations\n");
    CHECK_HAS(said, "status 0, y 2 8 10\n");
    memory_free(said);
    text_free(&command);
}
