// test_golden.c - kernels as text in every dialect: equal to the golden files, and accepted by compilers.
//
// golden/NAME.tile is the kernel, golden/NAME.<dialect> its text, without the prelude. If a text differs, it
// is left in <build>/golden: look at the difference, and copy it if it is intended.

#include "trial.h"

#include "device/cpu/tile/compiler.h"
#include "render/render.h"
#include "render/spirv/spirv.h"
#include "zellige_tile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[] = {"axpy", "mask", "rotate", "seldom", "total"};

static struct tile_kernel *read_kernel(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/render/golden/%s.tile", ZL_TEST_DIR, name);
    char *text = file_read(path, NULL);
    struct tile_kernel *kernel = text ? tile_parse(text, path) : NULL;
    memory_free(text);
    CHECK(kernel);
    return kernel;
}

// Returns only the function; SPIR-V as a disassembly.
static char *render(const char *name, const char *dialect) {
    struct text out = {0}, read = {0};
    struct tile_kernel *kernel = read_kernel(name);
    const struct target *target = render_target(dialect);
    bool good = kernel && CHECK(pass_run(kernel, target, NULL)) &&
                CHECK(render_function(&out, kernel, dialect, NULL)) &&
                CHECK(!target->spirv || spirv_disassemble(&read, out.data, (size_t)out.len));
    char *text = good ? text_take(target->spirv ? &read : &out) : NULL;
    tile_free(kernel);
    text_free(&out);
    text_free(&read);
    return text;
}

static void compare(const char *name, const char *dialect) {
    char path[512];
    char *text = render(name, dialect);
    if (!text)
        return;
    snprintf(path, sizeof path, "%s/render/golden/%s.%s", ZL_TEST_DIR, name, dialect);
    char *want = access(path, R_OK) ? NULL : file_read(path, NULL);
    if (!CHECK(want && !strcmp(want, text))) {
        mkdir(ZL_BUILD_DIR "/golden", 0777);
        snprintf(path, sizeof path, "%s/golden/%s.%s", ZL_BUILD_DIR, name, dialect);
        CHECK(file_write(path, text, strlen(text)));
        test_note("see %s", path);
    }
    memory_free(want);
    memory_free(text);
}

// The BM1690 has neither f64 nor complex numbers.
static bool lacks(const char *dialect, const char *name) {
    return !strncmp(dialect, "bm1690", 6) && (!strcmp(name, "mask") || !strcmp(name, "rotate"));
}

TEST(golden_texts) {
    for (size_t i = 0; i < COUNT(names); i++)
        for (int k = 0; render_dialect_name(k); k++)
            if (!lacks(render_dialect_name(k), names[i]))
                compare(names[i], render_dialect_name(k));
}

// Returns a file with the prelude and all golden kernels of a dialect.
static char *whole_file(const char *dialect) {
    struct text out = {0};
    text_add(&out, "%s\n", strcmp(dialect, "c") ? render_prelude(dialect) : "");
    for (size_t i = 0; i < COUNT(names); i++) {
        char *text = render(names[i], dialect);
        text_add(&out, "%s\n", text ? text : "");
        memory_free(text);
    }
    return text_take(&out);
}

static void check_run(const char *dialect) {
    char *source = whole_file(dialect);
    for (size_t i = 0; i < COUNT(names) && source; i++) {
        struct trial t;
        trial_fn *fn = (trial_fn *)cpu_jit(source, names[i]);
        if (CHECK(fn) && trial_open(&t, read_kernel(names[i]))) {
            for (int64_t n = 0; n < 80; n++)
                if (!CHECK(trial_check(&t, fn, n, false)))
                    break;
            trial_close(&t);
        }
    }
    memory_free(source);
}

TEST(golden_texts_compute_what_they_say) {
    check_run("c");
    check_run("c_scalar");
}

// Returns whether a shell command succeeds. Its output shows the reason if it does not.
static bool succeeds(const char *command) {
    return system(command) == 0;
}

static void check_compiler(const char *dialect, const char *program, const char *command,
                           const char *ending) {
    char path[512], line[1200];
    snprintf(line, sizeof line, "command -v %s >/dev/null 2>&1", program);
    if (!succeeds(line))
        SKIP("its compiler is not installed");
    char *source = whole_file(dialect);
    snprintf(path, sizeof path, "%s/golden.%s", test_folder(), ending);
    REQUIRE(source && file_write(path, source, strlen(source)));
    snprintf(line, sizeof line, command, path);
    CHECK(succeeds(line));
    memory_free(source);
}

TEST(golden_texts_for_cuda_compile) {
    if (test_quick())
        SKIP("nvcc takes seconds");
    check_compiler("cuda_tiles", "nvcc", "nvcc --fmad=false -arch=sm_80 -ptx -o /dev/null %s >/dev/null 2>&1",
                   "cu");
}

TEST(golden_texts_for_opencl_compile) {
    check_compiler(
        "opencl_tiles", "clang",
        "clang -x cl -cl-std=CL2.0 --target=spir64 -fsyntax-only -Wall -Wno-unused -Werror %s 2>/dev/null",
        "cl");
}

// The public side -------------------------------------------------------------------------------------------

TEST(kernel_stages) {
    static const char source[] =
        "kernel scale(a: f32[n]) -> (y: f32[n]) {\n  map i in n {\n    y[i] = square(a[i])\n  }\n}\n";
    CHECK_STR(zl_kernel_stage(0), "tile");
    CHECK_STR(zl_kernel_stage(-1), NULL);
    zl_kernel k = zl_kernel_parse(source, NULL);
    REQUIRE(k);
    int stages = 0;
    for (; zl_kernel_stage(stages); stages++) {
        char *text = zl_kernel_print(k, zl_kernel_stage(stages));
        CHECK_HAS(text, "scale");
        zl_free(text);
    }
    CHECK(stages > 8);
    char *first = zl_kernel_print(k, "tile"), *lowered = zl_kernel_print(k, "lower");
    CHECK_STR(first, source);
    CHECK_HAS(lowered, "a[i] * a[i]");
    zl_free(first);
    zl_free(lowered);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_print(k, "nothing"));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_print(k, NULL));
    zl_kernel_release(k);
    zl_kernel_release(NULL);
}

// The name of a target suffices, for programs and for rows.
TEST(kernels_of_blocks_are_shown_for_targets) {
    static const char *const target[] = {"c", "c_tiles", "cuda", "opencl", "hip"};
    zl_kernel k = zl_kernel_parse("kernel blocks(a: f32[n]) -> (y: f32[n]) {\n"
                                  "  grid b in ceildiv(n, 64) {\n"
                                  "    shared t: f32[64]\n"
                                  "    copy a[b * 64] -> t\n"
                                  "    copy t -> y[b * 64]\n"
                                  "  }\n"
                                  "}\n",
                                  NULL);
    REQUIRE(k);
    for (size_t i = 0; i < COUNT(target); i++) {
        char *text = zl_kernel_print(k, target[i]);
        CHECK_HAS(text, "blocks");
        zl_free(text);
    }
    CHECK_ERROR(ZL_ERROR_COMPILE, zl_kernel_print(k, "c_scalar"));
    zl_kernel_release(k);
}

TEST(kernel_errors) {
    CHECK_ERROR(ZL_ERROR_SYNTAX,
                zl_kernel_parse("kernel scale(a: f32[n]) -> (y: f32[n]) { y[i] = }", "x.tile"));
    CHECK_HAS(test_last_error(), "x.tile:1");
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_parse(NULL, NULL));
    CHECK(!zl_kernel_print(NULL, "c"));
    char *text = zl_kernel_of_op("arange", ZL_INT8, "tile"),
         *other = zl_kernel_of_op("random_bits", ZL_INT8, "c");
    CHECK_HAS(text, "y: i8[n]");
    CHECK_HAS(other, "random_bits");
    memory_free(text);
    memory_free(other);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_of_op("nothing", ZL_FLOAT32, "c"));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_kernel_of_op("exp", ZL_INT32, "c"));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_kernel_of_op("cast_f33", ZL_INT32, "c"));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_of_op("exp", ZL_DTYPE_COUNT, "c"));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_kernel_of_op(NULL, ZL_FLOAT32, "c"));
}

TEST(kernels_of_ops) {
    static const struct {
        const char *op;
        zl_dtype dtype;
        const char *stage, *part;
    } some[] = {
        {"add", ZL_FLOAT16, "c", "vec_add_f16("},       {"add", ZL_BFLOAT16, "c", "vec_bf16_of_f32("},
        {"cast_i8", ZL_FLOAT32, "c", "vec_i8_of_i16("}, {"reduce_add", ZL_FLOAT32, "c", "VEC_EACH_128(STEP)"},
        {"where", ZL_INT64, "opencl", "__kernel "},     {"exp", ZL_FLOAT32, "cuda", "__global__"},
        {"multiply", ZL_COMPLEX64, "complex", "pair("}, {"less", ZL_BOOL, "simplify", "!a[i] & b[i]"},
    };
    for (size_t i = 0; i < COUNT(some); i++) {
        char *text = zl_kernel_of_op(some[i].op, some[i].dtype, some[i].stage);
        CHECK_HAS(text, some[i].part);
        zl_free(text);
    }
}

// Whichever allocation fails, the result is NULL with an error, and nothing leaks.
TEST(kernel_survives_lack_of_memory) {
    static const struct {
        const char *op, *stage;
        zl_dtype dtype;
    } some[] = {{"remainder", "c", ZL_INT8},
                {"divide", "c_scalar", ZL_COMPLEX64},
                {"reduce_max", "c", ZL_FLOAT16},
                {"cast_i8", "c", ZL_FLOAT64}};
    for (size_t i = 0; i < COUNT(some); i++) {
        char *text = NULL;
        for (long at = 1; !text && at < 100000; at++) {
            memory_fail_at(at);
            text = zl_kernel_of_op(some[i].op, some[i].dtype, some[i].stage);
            memory_fail_at(0);
            if (!CHECK(text || zl_error_which() == ZL_ERROR_MEMORY))
                break;
            zl_clear_error();
        }
        CHECK(text);
        zl_free(text);
    }
}
