// test_desk.c - runs the tests of ops whose kernels are tile IR with these kernels on the host: in the
// interpreter, and compiled for the target `c`, which checks every index.

#include "device/desk.h"
#include "device/spirv_files.h"
#include "on_devices.h"
#include "test.h"

#include "device/cuda/cuda_conv.h"
#include "device/cuda/cuda_solver.h"
#include "kernel/kernel.h"
#include "op/op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char kernels[600]; // names of the files whose kernels were run

// Tests of the ops that desk.c lists.
static const char *const tests[] = {"op/test_create:",
                                    "op/test_matmul:matmul_of_few",
                                    "op/test_reduce_ops:",
                                    "op/test_scan:running",
                                    "op/test_random:",
                                    "op/test_take:",
                                    "op/test_shape_ops:",
                                    "op/test_conv:rules_",
                                    "op/test_conv:conv_is_a_sum",
                                    "op/test_conv:conv_of_inputs_with_gaps",
                                    "op/test_fold:",
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
                                    "op/test_attention:attention_of_few",
                                    "op/test_attention:attention_of_nan",
                                    "op/test_attention:attention_of_views",
                                    "op/test_attention:attention_of_whole",
                                    "op/test_attention:attention_of_parts",
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

// A rule of delta.def that is computed by array ops, with hundreds of products per derivative.
static const char without_kernel[] = " --except delta_with_momentum";

// Runs tests in processes in which the device of these tests is the default: as many as there are CPUs, since
// these tests take the longest.
static void run_tests(const char *how, int maps, const char *names) {
    struct text command = {0};
    int status;
    text_add(&command,
             "ZL_TEST_KERNELS='%s' ZL_TEST_MAPS=%d ZL_CHECK=1 %s/test --quick --on %s --jobs %d %s%s 2>&1",
             kernels, maps, ZL_BUILD_DIR, how, pool_threads(), names, maps ? "" : without_kernel);
    char *output = command.failed ? NULL : test_shell(command.data, &status);
    if (!CHECK(output && status == 0 && strstr(output, " 0 failed")))
        test_note("%s", output);
    memory_free(output);
    text_free(&command);
}

// Runs the tests of ops that have a kernel of their own, each in the file of its name. A quick run takes one
// of `part` files.
static void run_ops(const char *how, int part) {
    struct text names = {0};
    const struct op *op;
    for (size_t i = 0; i < COUNT(tests); i++)
        if (test_samples(part))
            text_add(&names, "%s ", tests[i]);
    for (int i = 0; (op = op_at(i)); i++)
        if (op->kernel && test_samples(part))
            text_add(&names, "op/test_%s: ", op->name);
    if (CHECK(!names.failed))
        run_tests(how, 0, names.data);
    text_free(&names);
    run_tests(how, 1, "op/test_logic: op/test_views:");
}

// Converts all codes, transposed.
static void run_from_fp8(const struct kernel_place *p, zl_dtype dtype) {
    static const struct tile_type e4m3 = {TILE_E4M3, 8, 1};
    zl_array x = zl_matrix_transpose(zl_reshape(zl_arange(0, 256, 1, ZL_UINT8), ZL_SHAPE(8, 32)));
    size_t item = zl_dtype_size(dtype);
    char *got = memory_zero(256 * item);
    CHECK(got && zl_eval(x) && kernel_from_fp8(p, x, dtype, got));
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

// Tests products of transposed sparse matrices, which sort their entries first; the desk need not be able to
// sort. In the matrix {{5, 7}, {0, 2}} the entry of the first column comes last, and an additional entry
// belongs to no row.
static void run_csr_transposed(const struct kernel_place *p) {
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
        kernel_find_tiles(p, "transposed", sizeof "transposed", make_transposed, NULL);
    CHECK(kernel && kernel_launch_tiles(p, kernel, &k, 7, (const int64_t[]){4, 2, 4, 4, 0, 4, 0}));
    CHECK(y[0] == 5 && y[1] == 50 && y[2] == 207 && y[3] == 2070);
}

static struct tile_kernel *make_rounding(const void *data) {
    (void)data;
    return kernel_built_in("rounding", "%s", "");
}

// Computes what a device computes to find out how it rounds, here with numbers that need no rounding.
static void run_rounding(const struct kernel_place *p) {
    float operand[3][2] = {{9, -16}, {3, 4}, {1, -1}}, result[5][2];
    static const float expected[5][2] = {{12, -12}, {27, -64}, {3, -4}, {3, 4}, {28, -65}};
    struct kernel_call k;
    kernel_begin_call(&k);
    kernel_add_memory(&k, operand);
    kernel_add_memory(&k, result);
    const struct kernel_tiles *kernel =
        kernel_find_tiles(p, "rounding", sizeof "rounding", make_rounding, NULL);
    CHECK(kernel && kernel_launch_tiles(p, kernel, &k, 1, (const int64_t[]){2}));
    CHECK(!memcmp(result, expected, sizeof expected));
}

// More than a block of threads, and not a multiple of the elements per thread.
enum { MANY = 1027 };

static void run_pairs(const struct kernel_place *p) {
    static const float numbers[] = {1, -0.0f, NAN, INFINITY, -2.5f};
    float x[MANY], y[2 * MANY];
    double wide[3] = {1, 0x1.fffffffffffffp-3, -4}, pairs[6];
    for (int i = 0; i < MANY; i++)
        x[i] = numbers[i % (int)COUNT(numbers)];
    CHECK(cuda_pair_up(p, ZL_FLOAT32, MANY, x, 1, y) && cuda_pair_up(p, ZL_FLOAT64, 3, wide, 0, pairs));
    for (int i = 0; i < MANY; i++)
        CHECK(!memcmp(&y[2 * i], &x[i], sizeof x[i]) && y[2 * i + 1] == 1);
    for (int i = 0; i < 3; i++)
        CHECK(pairs[2 * i] == wide[i] && pairs[2 * i + 1] == 0);
}

// Launches a kernel of a file with a number of four bytes, or memory, before its last argument.
static bool run_on(const struct kernel_place *p, struct cuda_file file, const void *number, void *from,
                   void *y, int64_t n) {
    struct kernel_call k;
    kernel_begin_call(&k);
    if (number)
        kernel_add(&k, number, sizeof(float));
    if (from)
        kernel_add_memory(&k, from);
    kernel_add_memory(&k, y);
    return cuda_run_file(p, file, &k, 1, &n);
}

static void run_elements(const struct kernel_place *p) {
    static const float factor = 0x1.555556p-10f;
    float x[2 * MANY], y[MANY];
    int counts[3] = {0};
    for (int64_t n = MANY - 3; n <= MANY; n++) { // the last threads have one to four elements
        for (int i = 0; i < MANY; i++)
            y[i] = (float)(i - 100);
        CHECK(run_on(p, (struct cuda_file){"scale", ZL_FLOAT32}, &factor, NULL, y, n));
        for (int i = 0; i < MANY; i++)
            CHECK(y[i] == (i < n ? (float)(i - 100) * factor : (float)(i - 100)));
    }
    CHECK(run_on(p, (struct cuda_file){"signs", ZL_FLOAT32}, NULL, NULL, y, MANY));
    for (uint32_t i = 0; i < MANY; i++) {
        int sign = (int)((i * 2654435761u >> 29) % 3) - 1;
        CHECK(y[i] == (float)sign);
        counts[sign + 1]++;
    }
    CHECK(counts[0] > MANY / 4 && counts[1] > MANY / 4 && counts[2] > MANY / 5);
    for (int i = 0; i < 2 * MANY; i++)
        x[i] = i % 2 ? (float)(1 + i % 50) : (float)(i % 77 - 30);
    CHECK(run_on(p, (struct cuda_file){"log_sums", ZL_FLOAT32}, NULL, x, y, MANY));
    for (int i = 0; i < MANY; i++)
        CHECK_NEAR(y[i], x[2 * i] + log((double)x[2 * i + 1]), 4e-6);
}

// Ones and zeros that are written differ in their bits from the threes that were there; complex ones have two
// parts.
static void run_triangles(const struct kernel_place *p, zl_dtype dtype) {
    enum { BATCH = 3, ROWS = 9, COLUMNS = 13, ALL = BATCH * ROWS * COLUMNS };
    static const struct {
        int64_t rows, columns;
    } sizes[] = {{ROWS, COLUMNS}, {COLUMNS, ROWS}, {ROWS, ROWS}, {1, 1}};
    int parts = dtype == ZL_COMPLEX64 ? 2 : 1;
    zl_dtype part = dtype == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
    double y[2 * ALL], before[2 * ALL];
    ZL_SCOPE {
        zl_array x = zl_zeros(ZL_SHAPE(1, 1), dtype);
        struct solving s = {.p = p, .c = zl_matmul(x, x)->call, .batch = BATCH};
        for (int run = 0; run < 3 * (int)COUNT(sizes); run++) {
            int64_t rows = sizes[run / 3].rows, columns = sizes[run / 3].columns;
            enum solving_fill how = (enum solving_fill)(run % 3);
            for (int i = 0; i < 2 * ALL; i++)
                before[i] = 3;
            dtype_convert(y, part, before, ZL_FLOAT64, parts * ALL);
            CHECK(solving_fill(&s, y, rows, columns, how));
            dtype_convert(before, ZL_FLOAT64, y, part, parts * ALL);
            for (int64_t i = 0; i < BATCH * rows * columns * parts; i++) {
                int64_t at = i / parts, row = at / columns % rows, column = at % columns;
                bool kept = how == FILL_ABOVE ? column <= row : how == FILL_BELOW && column >= row;
                CHECK(before[i] == (kept ? 3 : how == FILL_UNIT && row == column && i % parts == 0));
            }
        }
    }
}

// Applies row interchanges in the order of LAPACK, and checks where each row ends.
static void run_pivots(const struct kernel_place *p, int64_t k, int64_t m) {
    enum { BATCH = 300, MOST = 8 };
    int64_t pivot[BATCH * MOST];
    uint32_t swaps[BATCH * MOST], rows[BATCH * MOST];
    void *memory[] = {pivot, swaps, rows};
    struct kernel_call call;
    kernel_begin_call(&call);
    for (size_t i = 0; i < COUNT(memory); i++)
        kernel_add_memory(&call, memory[i]);
    for (int64_t i = 0; i < BATCH * k; i++)
        pivot[i] = test_between(i % k, m - 1) + 1;
    CHECK(
        cuda_run_file(p, (struct cuda_file){"pivots", ZL_UINT32}, &call, 3, (const int64_t[]){BATCH, k, m}));
    for (int64_t b = 0; b < BATCH; b++) {
        uint32_t order[MOST];
        for (int64_t i = 0; i < m; i++)
            order[i] = (uint32_t)i;
        for (int64_t i = 0; i < k; i++) {
            int64_t with = pivot[b * k + i] - 1;
            uint32_t row = order[i];
            order[i] = order[with];
            order[with] = row;
            CHECK(swaps[b * k + i] == with);
        }
        for (int64_t i = 0; i < m; i++)
            CHECK(rows[b * m + order[i]] == i);
    }
}

// Writes zeros to every second element of rows, except for one row; and rounds complex numbers of two
// doubles, transposed.
static void run_layouts(const struct kernel_place *p) {
    float x[3 * 10], y[2 * 5 * 4 * 2];
    double from[COUNT(y)];
    for (int i = 0; i < (int)COUNT(x); i++)
        x[i] = (float)(i + 1);
    CHECK(kernel_fill(p, ZL_FLOAT32, 2, (const int64_t[]){3, 2}, x, (const int64_t[]){10, 4}, &(float){-7}));
    for (int i = 0; i < (int)COUNT(x); i++)
        CHECK(x[i] == (float)(i % 10 == 0 || i % 10 == 4 ? -7 : i + 1));
    CHECK(kernel_fill(p, ZL_FLOAT32, 1, (const int64_t[]){7}, x, (const int64_t[]){1}, &(float){0}) &&
          x[6] == 0 && x[7] == 8);
    for (int i = 0; i < (int)COUNT(from); i++)
        from[i] = i + 1 + 0x1p-40; // not representable in f32
    CHECK(kernel_convert(p, 4, (const int64_t[]){2, 5, 4, 2}, ZL_FLOAT32, y, (const int64_t[]){40, 8, 2, 1},
                         ZL_FLOAT64, from, (const int64_t[]){40, 2, 10, 1}));
    for (int i = 0; i < (int)COUNT(y); i++)
        CHECK(y[i] == (float)(i / 40 * 40 + i / 8 % 5 * 2 + i / 2 % 4 * 10 + i % 2 + 1));
}

// Kernels that calls of libraries need before and after them, on other devices.
static void run_for_libraries(const char *how) {
    struct kernel_place p = desk_place(how);
    run_from_fp8(&p, ZL_FLOAT32);
    run_from_fp8(&p, ZL_FLOAT16);
    run_csr_transposed(&p);
    run_rounding(&p);
    run_pairs(&p);
    run_elements(&p);
    run_triangles(&p, ZL_FLOAT32);
    run_triangles(&p, ZL_FLOAT64);
    run_triangles(&p, ZL_COMPLEX64);
    run_pivots(&p, 5, 5);
    run_pivots(&p, 3, 8);
    run_pivots(&p, 1, 1);
    run_layouts(&p);
}

TEST(kernels_for_libraries_on_opencl) {
    if (test_lacks_opencl())
        SKIP(test_lacks_opencl());
    run_for_libraries("opencl");
}

// Makes the kernels for convolutions by matrix products of libraries; test_cuda_conv.c tests their results.
static void make_patches(void) {
    struct kernel_place p = desk_place("interpreter");
    struct conv_patches_key keys[] = {{"desk", 0, 4}, {"desk", 1, 1}}; // used by no other test
    for (size_t i = 0; i < COUNT(keys); i++)
        CHECK(kernel_find_tiles(&p, &keys[i], sizeof keys[i], cuda_conv_patches_make, &keys[i]));
}

// Checks that every file was used.
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

enum { ONE_OF = 4 }; // files, in a quick run

TEST(kernels_of_ops_in_the_interpreter) {
    bool has_val = !spirv_files_lack(), starts = !test_lacks_itself();
    snprintf(kernels, sizeof kernels, "%s/kernels", test_folder());
    test_setenv("ZL_TEST_KERNELS", kernels);
    test_setenv("ZL_TEST_SPIRV", has_val ? test_folder() : NULL);
    run_for_libraries("interpreter");
    make_patches();
    test_setenv("ZL_TEST_KERNELS", NULL);
    if (starts)
        run_ops("interpreter", ONE_OF);
    if (starts && test_step(ONE_OF) == 1)
        check_files();
    test_setenv("ZL_TEST_SPIRV", NULL);
    if (has_val)
        spirv_files_check(test_folder());
    if (!starts)
        SKIP("this program cannot start itself (in an emulator)");
}

TEST(kernels_of_ops_compiled_for_c) {
    if (test_quick())
        SKIP("its compiler takes seconds");
    run_for_libraries("c");
    if (test_lacks_itself())
        SKIP("this program cannot start itself (in an emulator)");
    snprintf(kernels, sizeof kernels, "%s/kernels", test_folder());
    run_ops("c", 1);
}
