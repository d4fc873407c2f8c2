// test_cuda.c - the CUDA driver, if there is one, and texts for CUDA, which NVRTC or nvcc compile without a
// driver.
//
// A device called `paper` has CUDA's dialect and compiler, but no memory of its own and no launches:
// everything that it should run is compiled for several architectures.

#include "test.h"
#include "tile_samples.h"
#include "tile_trial.h"

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"
#include "device/kernels/kernels_quantized.h"
#include "kernel/kernel.h"
#include "render/render.h"
#include "schedule/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Paper -----------------------------------------------------------------------------------------------------

static const char *const architectures[] = {"sm_80", "sm_90a", "sm_100"};
static int compiled, turn, waits; // waits: number of waits for clusters in the last text
static bool has_clusters;         // the device has clusters, which sm_80 lacks

static const char *paper_identity(int unit) {
    (void)unit;
    return "paper";
}

static const struct target *paper_record(int unit) {
    static struct target_unit records[2];
    struct target_unit *r = &records[has_clusters];
    (void)unit;
    target_set_unit(r, render_target("cuda_tiles"), "paper", 1024, 160 << 10);
    r->group.joined = 0; // which only sm_90a has
    if (!has_clusters)
        r->group.cluster = 0;
    return &r->target;
}

// Compiles for one architecture after the other in turn, so that in the long run all are used.
static bool paper_compile(int unit, const struct text *source, struct text *code) {
    (void)unit;
    waits = 0;
    for (const char *at = source->data; (at = strstr(at, "ZL_CLUSTER_AWAIT;")); at++)
        waits++;
    for (size_t i = 0; i < COUNT(architectures); i++) {
        if ((!test_long() && !has_clusters && (turn + (int)i) % (int)COUNT(architectures)) ||
            (has_clusters && i == 0))
            continue;
        if (!cuda_compile(source->data, architectures[i], NULL, code))
            return false;
        compiled++;
    }
    turn++;
    return true;
}

// Checks that each function is in the code under its name.
static bool paper_load(int unit, const char *code, size_t bytes, int count,
                       struct kernel_function *function) {
    (void)unit;
    for (int i = 0; i < count; i++) {
        function[i].handle = (void *)(uintptr_t)code;
        if (bytes <= 100 || !memmem(code, bytes, function[i].symbol, strlen(function[i].symbol)))
            return error_false(ZL_ERROR_COMPILE, "no code of %s", function[i].symbol);
    }
    return true;
}

static bool paper_launch(const struct kernel_place *p, const struct kernel_function *f, int64_t groups,
                         int arguments, const struct kernel_argument *argument) {
    (void)p, (void)argument;
    return f->handle && groups > 0 && f->threads > 0 && arguments > 0;
}

static int paper_open(const char **reason) {
    (void)reason;
    return 1;
}

static bool paper_copy(int unit, int lane, void *to, const void *from, size_t bytes, bool to_host) {
    (void)unit, (void)lane, (void)to_host;
    return memcpy(to, from, bytes);
}

static void *paper_alloc(int unit, size_t bytes) {
    (void)unit;
    return calloc(1, bytes);
}

static void paper_free(int unit, void *memory) {
    (void)unit;
    free(memory);
}

extern const struct device paper;
static const struct kernel_target target = {
    .device = &paper,
    .identity = paper_identity,
    .record = paper_record,
    .compile = paper_compile,
    .load = paper_load,
    .launch = paper_launch,
};

static bool paper_can(int unit, const struct call *c) {
    return kernels_can(&target, unit, c);
}

static struct program *paper_build(int unit, const struct segment *s) {
    return kernels_build(&target, unit, s);
}

const struct device paper = {
    .name = "paper",
    .open = paper_open,
    .can = paper_can,
    .build = paper_build,
    .drop = kernels_drop,
    .run = kernels_run,
    .copy = paper_copy,
    .alloc = paper_alloc,
    .free = paper_free,
};

static zl_stream on_paper(void) {
    static struct zl_stream_ stream;
    if (!stream.device) {
        stream.device = &paper;
        pthread_mutex_init(&stream.lock, NULL);
        pthread_cond_init(&stream.changed, NULL);
    }
    stream.owner = pthread_self();
    test_setenv("ZL_CACHE_DIR", test_folder());
    compiled = 0;
    turn = (int)(test_random() % COUNT(architectures));
    return &stream;
}

static bool has_compiler(void) {
    if (cuda_compiler())
        return true;
    test_skip(zl_error());
    zl_clear_error();
    return false;
}

static void end_paper(zl_scope scope) {
    zl_scope_end(scope);
    test_setenv("ZL_CACHE_DIR", NULL);
    zl_clear_cache();
}

// Texts -----------------------------------------------------------------------------------------------------

static void compile_row(enum tile_op op, zl_dtype dtype, int64_t n) {
    int arity = tile_op_arity(op);
    zl_array in[3];
    for (int k = 0; k < arity; k++)
        in[k] = zl_zeros(ZL_SHAPE(n), op == TILE_SELECT && k == 0 ? ZL_BOOL : dtype);
    zl_array y = op_dense(&op_elementwise[op], arity, in, 0, NULL, tile_row_gives(op, dtype), 1, &n);
    if (!CHECK(zl_eval(y)))
        test_note("%s of %s", tile_op_name(op), zl_dtype_name(dtype));
}

// Compiles a file with the values that its clauses give.
static void compile_file(const struct kernel_text *t) {
    struct text code = {0};
    struct tile_kernel *kernel = tile_parse(t->text, t->name);
    char *source = kernel ? tile_rendered(kernel, "cuda_tiles") : NULL;
    if (!CHECK(source && cuda_compile(source, "sm_90a", NULL, &code)))
        test_note("%s: %s", t->name, zl_error());
    text_free(&code);
    memory_free(source);
    tile_free(kernel);
}

TEST(files_of_kernels_compile_for_cuda) {
    if (!has_compiler())
        return;
    int every = test_quick() ? 5 : 1, at = (int)(test_random() % (unsigned)every);
    for (const struct kernel_text *t = kernel_texts; t->name; t++)
        if (at++ % every == 0)
            compile_file(t);
}

TEST(rows_compile_for_cuda) {
    if (!has_compiler())
        return;
    zl_scope scope = zl_scope_begin_on(on_paper());
    int every = test_quick() ? 301 : test_long() ? 1 : 10, at = (int)(test_random() % (unsigned)every);
    for (int op = 0; op < TILE_CONST; op++)
        for (int d = 0; d < ZL_DTYPE_COUNT; d++)
            if (tile_row_takes((enum tile_op)op, (zl_dtype)d) && at++ % every == 0)
                ZL_SCOPE
                    compile_row((enum tile_op)op, (zl_dtype)d, at % 2 ? 5000 : 50);
    CHECK(compiled > 0);
    end_paper(scope);
}

TEST(layouts_and_reductions_compile_for_cuda) {
    if (!has_compiler())
        return;
    zl_scope scope = zl_scope_begin_on(on_paper());
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_BFLOAT16, ZL_COMPLEX64, ZL_BOOL, ZL_INT64};
    for (size_t d = 0; d < (test_quick() ? 1 : COUNT(dtypes)); d++) {
        zl_array x = zl_retain(zl_zeros(ZL_SHAPE(40, 300), dtypes[d])),
                 y = zl_retain(zl_zeros(ZL_SHAPE(300, 40), dtypes[d]));
        CHECK(zl_eval(zl_equal(zl_matrix_transpose(x), y)));
        CHECK(zl_eval(op_reduce_axes("test", REDUCE_MAX, x, ZL_ALL, false)));
        CHECK(zl_eval(op_reduce_axes("test", REDUCE_SUM, x, (zl_axes){(const int[]){0}, 1}, false)));
        CHECK(zl_eval(op_reduce_axes("test", REDUCE_SUM, x, (zl_axes){(const int[]){1}, 1}, false)));
        if (d < 2) {
            CHECK(zl_eval(zl_matmul(x, zl_matrix_transpose(x))));
            CHECK(zl_eval(zl_addmm(zl_zeros(ZL_SHAPE(40, 1), dtypes[d]), x, y, 0.5, 2)));
            CHECK(zl_eval(zl_softmax(x, -1, false)));
            CHECK(zl_eval(zl_fast_cross_entropy(x, zl_zeros(ZL_SHAPE(40), ZL_INT32))));
            zl_array heads = zl_reshape(x, ZL_SHAPE(2, 4, 15, 100));
            zl_array out = zl_fast_scaled_dot_product_attention(heads, heads, heads, 1, NULL, NULL, "causal"),
                     g;
            CHECK(zl_eval(out));
            CHECK(zl_grad(zl_sum(out), 1, &heads, &g) && zl_eval(g));
        }
        if (d < 2 && !test_quick()) {
            CHECK(zl_eval(zl_concatenate((zl_array[]){x, zl_matrix_transpose(y)}, 2, 0)));
            CHECK(zl_eval(zl_take(x, zl_arange(0, 10, 1, ZL_INT32), 1)));
            CHECK(zl_eval(zl_random_bits(ZL_SHAPE(100), 4, zl_random_key(1))));
            CHECK(zl_eval(zl_cumsum(x, d ? 0 : 1, false, true, ZL_DTYPE_COUNT)));
            CHECK(zl_eval(zl_argmax_axis(x, 1, false)));
            CHECK(zl_eval(zl_topk(x, 3, 1)));
            CHECK(zl_eval(zl_put_along_axis(x, zl_argsort(x, 1), x, 1)));
        }
        zl_release(x);
        zl_release(y);
    }
    CHECK(compiled > 0);
    end_paper(scope);
}

// Codes of any size, within words and across their ends; one row of x and many.
TEST(quantized_matrices_compile_for_cuda) {
    static const struct {
        const char *mode;
        int group, bits;
        zl_dtype dtype;
        int64_t lines;
    } cases[] = {{"affine", 64, 4, ZL_BFLOAT16, 1}, {"affine", 128, 3, ZL_FLOAT32, 8},
                 {"affine", 16, 6, ZL_FLOAT64, 2},  {"affine", 32, 8, ZL_FLOAT16, 3},
                 {"mxfp4", 32, 4, ZL_BFLOAT16, 1},  {"mxfp8", 32, 8, ZL_FLOAT16, 1},
                 {"nvfp4", 16, 4, ZL_FLOAT32, 5}};
    if (!has_compiler())
        return;
    zl_scope scope = zl_scope_begin_on(on_paper());
    size_t step = test_long() ? 1 : test_quick() ? COUNT(cases) : 3, at = test_random() % step;
    for (size_t i = at; i < COUNT(cases); i += step)
        for (int transpose = 0; transpose < 2; transpose++)
            ZL_SCOPE {
                zl_array part[3], w = zl_zeros(ZL_SHAPE(256, 256), cases[i].dtype);
                REQUIRE(zl_quantize(w, cases[i].group, cases[i].bits, cases[i].mode, NULL, part));
                zl_array x = zl_zeros(ZL_SHAPE(cases[i].lines, 256), cases[i].dtype);
                zl_array y = zl_quantized_matmul(x, part[0], part[1], part[2], transpose, cases[i].group,
                                                 cases[i].bits, cases[i].mode);
                zl_array back = zl_dequantize(part[0], part[1], part[2], cases[i].group, cases[i].bits,
                                              cases[i].mode, NULL, cases[i].dtype);
                CHECK(zl_eval_all(2, (zl_array[]){y, back}));
            }
    CHECK(compiled > 0);
    end_paper(scope);
}

TEST(long_lines_compile_for_cuda) {
    if (!has_compiler())
        return;
    zl_scope scope = zl_scope_begin_on(on_paper());
    has_clusters = true;
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_BFLOAT16};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        int64_t line = d ? 200000 : 65536;
        zl_array x = zl_retain(zl_zeros(ZL_SHAPE(32, line), dtypes[d])),
                 weight = zl_retain(zl_ones(ZL_SHAPE(line), dtypes[d]));
        CHECK(zl_eval_all(2, (zl_array[]){x, weight}));
        compiled = 0; // other tests may have compiled zeros and ones
        CHECK(zl_eval(zl_softmax(x, -1, false)));
        CHECK(
            zl_eval(zl_softmax(zl_slice(x, ZL_SHAPE(0, 16), ZL_SHAPE(32, line), ZL_SHAPE(1, 1)), -1, false)));
        CHECK(zl_eval(zl_fast_layer_norm(x, weight, weight, 1e-5)));
        CHECK(compiled >= (d ? 4 : 6)); // rows that are too long to be held need no kernel per alignment
        zl_release(x);
        zl_release(weight);
    }
    has_clusters = false;
    end_paper(scope);
}

// Blocks of a cluster wait for each other to begin, and then once for both the maximum and the sum of a
// softmax, for rows of any length. They wait for the maximum separately if something other than exponentials
// uses it, and if numbers computed from zeros come after the ends of rows.
TEST(softmax_of_long_lines_waits_once) {
    if (!has_compiler())
        return;
    zl_scope scope = zl_scope_begin_on(on_paper());
    has_clusters = true;
    static const int64_t lines[] = {
        131072, 120000}; // used by no other test, whose kernels would not be compiled again
    for (size_t i = 0; i < COUNT(lines); i++)
        ZL_SCOPE {
            zl_array x = zl_zeros(ZL_SHAPE(32, lines[i]), ZL_FLOAT32);
            REQUIRE(zl_eval(x));
            CHECK(zl_eval(zl_softmax(x, -1, false)));
            CHECK_EQ_INT(waits, 2);
            CHECK(zl_eval(zl_softmax(zl_add(x, zl_scalar(1)), -1, false)));
            CHECK_EQ_INT(waits, i ? 3 : 2);
            zl_array less = zl_subtract(x, zl_max_axis(x, -1, true)), power = zl_exp(less);
            zl_array y = zl_divide(power, zl_sum_axis(power, -1, true)), z = zl_multiply(y, zl_tanh(less));
            CHECK(zl_eval(z));
            CHECK_EQ_INT(waits, 3);
        }
    has_clusters = false;
    end_paper(scope);
}

TEST(quantized_lines_compile_for_cuda) {
    static const struct quantized_key keys[] = {{QUANT_AFFINE, 64, 4, ZL_BFLOAT16},
                                                {QUANT_AFFINE, 128, 4, ZL_FLOAT32},
                                                {QUANT_AFFINE, 32, 4, ZL_FLOAT16},
                                                {QUANT_MXFP4, 32, 4, ZL_UINT8}};
    if (!has_compiler())
        return;
    for (size_t i = 0; i < 2 * COUNT(keys); i++)
        for (size_t a = test_long() ? 0 : i % COUNT(architectures); a < COUNT(architectures);
             a += test_long() ? 1 : COUNT(architectures)) {
            struct text source = {0}, code = {0};
            zl_dtype dtype = i / 2 % 2 ? ZL_FLOAT16 : ZL_BFLOAT16;
            CHECK(cuda_quantized_source(&keys[i / 2], dtype, i % 2, &source) &&
                  cuda_compile(source.data, architectures[a], NULL, &code));
            text_free(&source);
            text_free(&code);
        }
}

// The body of a kernel that uses everything it may use, as a program would write it.
TEST(a_kernel_of_a_program_compiles_for_cuda) {
    static const char source[] =
        "auto i = cooperative_groups::this_grid().thread_rank();\n"
        "auto at = elem_to_loc(i, x_shape.data(), x_strides.data(), x_ndim);\n"
        "y[i] = T(float(x[at]) + number[0] * N + WARP_SIZE + cg::this_thread_block().size());\n";
    static const char *const in[] = {"x", "number"}, *const out[] = {"y"};
    if (!has_compiler())
        return;
    ZL_SCOPE {
        zl_array inputs[] = {zl_zeros(ZL_SHAPE(3, 4), ZL_FLOAT32), zl_astype(zl_scalar(2), ZL_FLOAT32)};
        zl_kernel_argument arguments[] = {{"T", true, ZL_FLOAT32}, {"N", false, 3}};
        zl_cpu_kernel_source k = {.name = "mixed",
                                  .source = source,
                                  .inputs = 2,
                                  .outputs = 1,
                                  .input = in,
                                  .output = out,
                                  .shape = &ZL_SHAPE(3, 4),
                                  .dtype = (zl_dtype[]){ZL_FLOAT32},
                                  .arguments = 2,
                                  .argument = arguments};
        char *text = zl_cuda_kernel_text(&k, 2, inputs);
        struct text code = {0};
        CHECK(text && cuda_compile(text, "sm_90a", NULL, &code));
        text_free(&code);
        zl_free(text);
    }
}

TEST(a_text_that_is_wrong_is_an_error) {
    if (!has_compiler())
        return;
    struct text code = {0};
    CHECK_ERROR(ZL_ERROR_COMPILE,
                cuda_compile("extern \"C\" __global__ void f() { nothing; }", "sm_90a", NULL, &code));
    CHECK_HAS(test_last_error(), "nothing");
    text_free(&code);
}

// A device --------------------------------------------------------------------------------------------------

TEST(cuda_devices) {
    const char *reason = NULL;
    int count = cuda_open(&reason);
    if (!count)
        SKIP(reason);
    for (int i = 0; i < count; i++) {
        struct cuda_device *d = cuda_device(i);
        REQUIRE(d);
        CHECK(d->major > 0 && d->units > 0 && d->memory > 0 && d->unit.group.most_threads >= 256);
    }
    CHECK_ERROR(ZL_ERROR_DEVICE, cuda_device(count));
    CHECK_ERROR(ZL_ERROR_MEMORY, cuda_alloc(0, (size_t)1 << 50));
}

TEST(a_cuda_kernel_runs) {
    static const char source[] = "extern \"C\" __global__ void twice(int *x) { x[threadIdx.x] *= 2; }";
    const char *reason = NULL;
    char architecture[16];
    if (!cuda_open(&reason))
        SKIP(reason);
    if (!has_compiler())
        return;
    int data[] = {1, 2, 3, 4};
    struct text code = {0};
    cuda_architecture(0, architecture, sizeof architecture);
    REQUIRE(cuda_compile(source, architecture, NULL, &code));
    cuda_function f;
    void *memory = cuda_alloc(0, sizeof data);
    REQUIRE(cuda_load(0, code.data, 1, (const char *[]){"twice"}, &f) && memory &&
            cuda_write(0, 0, memory, data, sizeof data));
    CHECK(cuda_launch(0, 0, f, &(struct cuda_launch){.grid = {1, 1, 1}, .block = {4, 1, 1}},
                      (void *[]){&memory}));
    CHECK(cuda_read(0, 0, data, memory, sizeof data) && data[0] == 2 && data[3] == 8);
    CHECK_ERROR(ZL_ERROR_DEVICE, cuda_load(0, code.data, 1, (const char *[]){"thrice"}, &f));
    cuda_free(0, memory);
    text_free(&code);
}

TEST(cuda_runs_the_manual) {
    const char *reason = NULL;
    if (!cuda_open(&reason))
        SKIP(reason);
    if (has_compiler())
        tile_trial_of_manual("cuda");
}

TEST(cuda_groups_as_interpreted) {
    const char *reason = NULL;
    if (!cuda_open(&reason))
        SKIP(reason);
    if (has_compiler()) {
        tile_trial(SAMPLE_INNER_TILES, "cuda", (int64_t[]){500}, 1e-4);
        tile_trial(SAMPLE_WHILE, "cuda", (int64_t[]){500}, 0);
        tile_trial(SAMPLE_SMALL_PRODUCT, "cuda", (int64_t[]){0}, 1e-4);
        tile_trial(SAMPLE_REDUCTIONS, "cuda", (int64_t[]){48}, 1e-4);
        tile_trial(SAMPLE_SCANS, "cuda", (int64_t[]){11, 50000}, 1e-4);
        tile_trial(SAMPLE_LINES, "cuda", (int64_t[]){3000, 100}, 1e-4);
        tile_trial(SAMPLE_LINES, "cuda", (int64_t[]){30, 10000}, 1e-4);
        tile_trial(SAMPLE_STORES, "cuda", (int64_t[]){5, 1032}, 0);
        tile_trial(SAMPLE_STORES, "cuda", (int64_t[]){5, 1031}, 0);
        tile_trial(SAMPLE_RUNS, "cuda", (int64_t[]){5, 2048}, 1e-4);
        tile_trial(SAMPLE_RUNS, "cuda", (int64_t[]){5, 2047}, 1e-4);
    }
}

// Runs tests in a process that finds the drivers of test/fake before those of the system; all have to pass.
static void run_under_fake(const char *settings, const char *tests) {
    char command[1000];
    int status;
    snprintf(command, sizeof command, "LD_LIBRARY_PATH=%s/fake %s %s/test %s 2>&1", ZL_BUILD_DIR, settings,
             ZL_BUILD_DIR, tests);
    char *output = test_shell(command, &status);
    if (!CHECK(status == 0 && output && strstr(output, " 0 failed, 0 skipped")))
        test_note("%s", output);
    memory_free(output);
}

static const char *lacks_fake(void) {
#ifdef ZL_SANITIZED
    return "threads of a block are contexts, which sanitizers cannot follow";
#endif
    return test_quick()                          ? "takes longer than a quick run"
           : system("command -v c++ >/dev/null") ? "no c++ here, which kernels are compiled by"
                                                 : NULL;
}

TEST(host_side) {
    if (lacks_fake())
        SKIP(lacks_fake());
    run_under_fake("ZL_CUDA_LIBRARIES=0", "device/test_cuda_fake device/test_cuda_rooms "
                                          "device/test_cuda_steady device/test_streams:random");
}

TEST(collectives) {
    if (lacks_fake())
        SKIP(lacks_fake());
    run_under_fake("ZL_DEVICE=cpu ZL_CUDA_LIBRARIES=0", "device/test_nccl_fake");
}

TEST(default_device) {
    if (lacks_fake())
        SKIP(lacks_fake());
    run_under_fake("ZL_DEVICE=cpu ZL_CUDA_LIBRARIES=0", "device/test_cuda_default");
}

TEST(profiles) {
    if (lacks_fake())
        SKIP(lacks_fake());
    run_under_fake("ZL_CUDA_LIBRARIES=0", "device/test_profile_devices");
}

// Calls of libraries, which here compute on the host, with our kernels before and after them.
TEST(calls_of_libraries) {
    if (lacks_fake())
        SKIP(lacks_fake());
    run_under_fake("FAKE_CUDNN=1 ZL_CUDA=" ZL_BUILD_DIR "/fake",
                   "device/test_cuda_libraries:attention_of_parts device/test_cuda_libraries:cotangents_of");
    run_under_fake("ZL_CUDA=" ZL_BUILD_DIR "/fake",
                   "device/test_cuda_libraries:transforms device/test_cuda_libraries:triangular "
                   "device/test_cuda_libraries:eigenvalues device/test_cuda_libraries:factors_that_do_not");
}
