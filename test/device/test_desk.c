// test_desk.c - the tests of ops whose kernels are tile IR, with these kernels run on the host: in the interpreter, and compiled for the
// target `c`, which looks at every index.

#include "device/desk.h"
#include "test.h"

#include "kernel/kernel.h"
#include "op/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char kernels[600]; // names of the files of kernels that were run

static bool can_start_itself(void) {
    int status;
    memory_free(test_shell(ZL_BUILD_DIR "/test --list", &status));
    return status == 0;
}

// Tests of the ops that desk.c names.
static const char *const tests[] = {"op/test_create:",
                                    "op/test_reduce_ops:",
                                    "op/test_scan:running",
                                    "op/test_random:",
                                    "op/test_take:",
                                    "op/test_shape_ops:",
                                    "op/test_conv:rules_",
                                    "op/test_conv:conv_is_a_sum",
                                    "op/test_conv:conv_of_inputs_with_gaps",
                                    "op/test_reduce_ops:positions",
                                    "op/test_logic:divmod",
                                    "op/test_sort:sorted_",
                                    "op/test_sort:sorts_of_long",
                                    "op/test_sort:partitions",
                                    "op/test_sort:searches",
                                    "op/test_sort:medians",
                                    "op/test_slices:gather",
                                    "op/test_slices:slice",
                                    "op/test_slices:scatter",
                                    "op/test_slices:updates",
                                    "op/test_slices:dynamic",
                                    "op/test_slices:along",
                                    "op/test_slices:rules",
                                    "op/test_slices:batching",
                                    "op/test_sparse:sparse_products_are_sums",
                                    "op/test_sparse:sparse_of",
                                    "op/test_sparse:sparse_matrices_are_checked",
                                    "op/test_sparse:sparse_batches",
                                    "op/test_attention:attention_that_sees",
                                    "op/test_attention:attention_of_few_keys",
                                    "op/test_attention:attention_of_nan",
                                    "op/test_attention:attention_of_views",
                                    "op/test_quantized:quantized_codes",
                                    "op/test_quantized:quantized_zeros",
                                    "op/test_quantized:quantized_floats",
                                    "op/test_quantized:quantized_products_of_batches",
                                    "op/test_quantized:quantized_products_that_indices",
                                    "op/test_matmul:matmul_of_ranks",
                                    "op/test_matmul:other_products",
                                    "op/test_matmul_fp8:fp8_products_of_vectors",
                                    "op/test_gather_mm:gathered_products",
                                    "op/test_gather_mm:products_of_"};

// In a process of its own, in which the device of the tests is the default.
static void run_tests(const char *how, int maps, const char *name) {
    char command[2000];
    int status;
    snprintf(command, sizeof command,
             "ZL_TEST_KERNELS='%s' ZL_TEST_MAPS=%d ZL_CHECK=1 %s/test --quick --on %s %s 2>&1", kernels, maps,
             ZL_BUILD_DIR, how, name);
    char *output = test_shell(command, &status);
    if (!CHECK(status == 0 && output && strstr(output, " 0 failed")))
        test_note("%s: %s", name, output);
    memory_free(output);
}

// Each in a process. An op that has a kernel of its own is tested by the file of its name.
static void run_ops(const char *how) {
    char name[100];
    for (size_t i = 0; i < COUNT(tests); i++)
        run_tests(how, 0, tests[i]);
    const struct op *op;
    for (int i = 0; (op = op_at(i)); i++) {
        snprintf(name, sizeof name, "op/test_%s:", op->name);
        if (op->kernel)
            run_tests(how, 0, name);
    }
    run_tests(how, 1, "op/test_logic:");
    run_tests(how, 1, "op/test_views:");
}

// Products of libraries ask for it, on other devices: all codes, turned.
static void run_from_fp8(zl_dtype dtype) {
    static const struct tile_type e4m3 = {TILE_E4M3, 8, 1};
    struct kernel_place p = desk_place();
    zl_array x = zl_matrix_transpose(zl_reshape(zl_arange(0, 256, 1, ZL_UINT8), ZL_SHAPE(8, 32)));
    size_t item = zl_dtype_size(dtype);
    char *got = memory_zero(256 * item);
    CHECK(got && zl_eval(x) && kernel_from_fp8(&p, x, dtype, got));
    for (int i = 0; got && i < 256; i++) {
        double value = tile_small_value(e4m3, (uint64_t)(i % 8 * 32 + i / 8)), found;
        dtype_convert(&found, ZL_FLOAT64, got + (size_t)i * item, dtype, 1);
        CHECK_SAME_F64(found, value);
    }
    memory_free(got);
}

static struct tile_kernel *make_transposed(const void *data) {
    (void)data;
    return kernel_built_in("csr_transposed", "ITEM=f32");
}

// Products of transposed sparse matrices sort entries first, which the desk need not be able to. Of the matrix {{5, 7}, {0, 2}} an
// entry of the first column comes last, and one more entry belongs to no row.
static void run_csr_transposed(void) {
    struct kernel_place p = desk_place();
    float values[] = {7, 5, 2, 9}, x[] = {1, 10, 100, 1000}, y[4] = {0};
    int32_t rows[] = {0, 0, 1, 2};
    int64_t places[] = {1, 0, 1, 2};
    uint32_t order[] = {1, 0, 2, 3};
    void *memory[] = {values, x, rows, places, order, y};
    struct kernel_call k;
    kernel_begin_call(&k);
    for (size_t i = 0; i < COUNT(memory); i++)
        kernel_add_memory(&k, memory[i]);
    const struct kernel_tiles *kernel =
        kernel_find_tiles(&p, "transposed", sizeof "transposed", make_transposed, NULL);
    CHECK(kernel && kernel_launch_tiles(&p, kernel, &k, 7, (const int64_t[]){4, 2, 4, 4, 0, 4, 0}));
    CHECK(y[0] == 5 && y[1] == 50 && y[2] == 207 && y[3] == 2070);
}

// Something asks for every file.
static void check_files(void) {
    size_t bytes;
    char *seen = file_read(kernels, &bytes);
    if (!CHECK(seen))
        return;
    for (const struct kernel_text *t = kernel_texts; t->name; t++)
        if (!CHECK(strstr(seen, t->name)))
            test_note("no test asks for %s", t->name);
    memory_free(seen);
}

TEST(kernels_of_ops_in_the_interpreter) {
    snprintf(kernels, sizeof kernels, "%s/kernels", test_folder());
    setenv("ZL_TEST_KERNELS", kernels, 1);
    run_from_fp8(ZL_FLOAT32);
    run_from_fp8(ZL_FLOAT16);
    run_csr_transposed();
    unsetenv("ZL_TEST_KERNELS");
    if (!can_start_itself())
        SKIP("this program cannot start itself (in an emulator)");
    run_ops("interpreter");
    check_files();
}

TEST(kernels_of_ops_compiled_for_c) {
    if (test_quick())
        SKIP("its compiler takes seconds");
    if (!can_start_itself())
        SKIP("this program cannot start itself (in an emulator)");
    snprintf(kernels, sizeof kernels, "%s/kernels", test_folder());
    run_ops("c");
}
