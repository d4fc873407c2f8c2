// test_source_kernel.c - kernels given as C source: what their bodies may use, transforms, errors.

#include "op_test.h"

#include "device/cpu/tile/compiler.h"
#include "op/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Returns whether there is a compiler for the machine that the test runs on.
static bool has_compiler(void) {
    test_setenv("ZL_CACHE_DIR", test_folder());
    bool works = cpu_jit_alone("int probe(void); int probe(void) { return 1; }", "-w", "probe");
    zl_clear_error();
    return works;
}

#define NEEDS_COMPILER   \
    if (!has_compiler()) \
    SKIP("no C compiler")

#define CHECK_SAME(x, y) CHECK(zl_item(zl_array_equal((x), (y), false)) == 1)

static const char *const one_in[] = {"a"}, *const one_out[] = {"out"};

// Returns a kernel with one input and one output of its shape and dtype, and one position per element.
static zl_cpu_kernel_source simple(const char *source, const zl_shape *shape, const zl_dtype *dtype) {
    int64_t size = 1;
    for (int i = 0; i < shape->ndim; i++)
        size *= shape->dim[i];
    return (zl_cpu_kernel_source){.name = "simple",
                                  .source = source,
                                  .inputs = 1,
                                  .outputs = 1,
                                  .input = one_in,
                                  .output = one_out,
                                  .shape = shape,
                                  .dtype = dtype,
                                  .grid = {size, 1, 1}};
}

static zl_array run_simple(const char *source, zl_array a) {
    zl_shape shape = zl_shape_of(a);
    zl_dtype dtype = zl_dtype_of(a);
    zl_cpu_kernel_source k = simple(source, &shape, &dtype);
    zl_array y = NULL;
    return zl_cpu_kernel(&k, 1, &a, &y) ? y : NULL;
}

static const char square_source[] = "int64_t i = thread_position_in_grid.x;\nout[i] = a[i] * a[i];\n";

TEST(source_kernels_run) {
    NEEDS_COMPILER;
    for (int64_t n = 1; n <= 300000; n = n * 7 + 3) { // on one thread, then on all
        zl_array x = zl_astype(zl_arange_int(0, n, 1, ZL_INT64), ZL_FLOAT32);
        CHECK_SAME(run_simple(square_source, x), zl_square(x));
    }
    zl_scope scope = zl_scope_begin_on(zl_new_stream("cpu")); // other devices would compile the ops around it
    int64_t compiles = zl_counter("compiles");
    zl_array x = op_test_range(ZL_SHAPE(4, 5), ZL_FLOAT32);
    CHECK_SAME(run_simple(square_source, zl_transpose(x, ZL_ALL)), zl_square(zl_transpose(x, ZL_ALL)));
    CHECK_EQ_INT(zl_counter("compiles"), compiles); // sizes and ranks are not part of the code
    zl_scope_end(scope);
}

TEST(source_kernels_of_each_dtype) {
    NEEDS_COMPILER;
    for (int d = 0; d < ZL_DTYPE_COUNT; d++) {
        zl_array x = zl_astype(op_test_range(ZL_SHAPE(33), ZL_FLOAT32), (zl_dtype)d);
        CHECK_SAME(run_simple("int64_t i = thread_position_in_grid.x; out[i] = a[i];", x), x);
    }
}

// Compares the conversions of the prelude with ours, in both directions, for all 16-bit floats.
TEST(source_kernels_convert_half_floats) {
    NEEDS_COMPILER;
    static const char source[] = "int64_t i = thread_position_in_grid.x; wide[i] = to_float(a[i]);"
                                 "back[i] = from_float(T, to_float(a[i]) * 1.001f);";
    static const char *const names[] = {"wide", "back"};
    for (int which = 0; which < 2; which++) {
        int d = which ? ZL_FLOAT16 : ZL_BFLOAT16;
        zl_array a = zl_view(zl_arange_int(0, 65536, 1, ZL_UINT16), (zl_dtype)d), y[2];
        zl_shape shape[] = {ZL_SHAPE(65536), ZL_SHAPE(65536)};
        zl_dtype dtype[] = {ZL_FLOAT32, (zl_dtype)d};
        zl_kernel_argument type = {"T", true, d};
        zl_cpu_kernel_source k = simple(source, shape, dtype);
        k.arguments = 1;
        k.outputs = 2;
        k.output = names;
        k.argument = &type;
        REQUIRE(zl_cpu_kernel(&k, 1, &a, y));
        zl_array wide = zl_astype(a, ZL_FLOAT32),
                 back = zl_astype(zl_multiply(wide, zl_scalar(1.001f)), (zl_dtype)d);
        CHECK(zl_item(zl_all(zl_logical_or(zl_equal(y[0], wide), zl_isnan(wide)))) == 1);
        CHECK(zl_item(zl_all(zl_logical_or(zl_equal(y[1], back), zl_isnan(wide)))) == 1);
        CHECK(zl_item(zl_all(zl_equal(zl_isnan(y[1]), zl_isnan(wide)))) == 1);
    }
}

// Names -----------------------------------------------------------------------------------------------------

TEST(source_kernels_know_their_inputs) {
    NEEDS_COMPILER;
    static const char source[] = "int64_t i = thread_position_in_grid.x, at = 0, left = i;\n"
                                 "for (int k = a_ndim - 1; k >= 0; k--) {\n"
                                 "    at += left % a_shape[k] * a_strides[k];\n"
                                 "    left /= a_shape[k];\n"
                                 "}\n"
                                 "out[i] = a[at];\n";
    zl_array x = zl_slice(op_test_range(ZL_SHAPE(6, 5, 4), ZL_INT32), ZL_SHAPE(5, 0, 1), ZL_SHAPE(0, 5, 4),
                          ZL_SHAPE(-2, 1, 2));
    x = zl_broadcast_to(zl_swapaxes(x, 0, 2), ZL_SHAPE(3, 2, 5, 3));
    zl_shape shape = zl_shape_of(x);
    zl_dtype dtype = ZL_INT32;
    zl_cpu_kernel_source k = simple(source, &shape, &dtype);
    zl_array y;
    for (int strided = 0; strided < 2; strided++) {
        k.strided = strided;
        REQUIRE(zl_cpu_kernel(&k, 1, &x, &y));
        CHECK_SAME(y, x);
    }
}

TEST(source_kernels_have_places) {
    NEEDS_COMPILER;
    static const char source[] =
        "int64_t x = thread_position_in_grid.x, y = thread_position_in_grid.y, z = "
        "thread_position_in_grid.z;\n"
        "out[(z * threads_per_grid.y + y) * threads_per_grid.x + x] =\n"
        "    threadgroup_position_in_grid.y * 1000 + thread_position_in_threadgroup.x * 100 +\n"
        "    threads_per_threadgroup.z * 10 + z;\n";
    zl_shape shape = ZL_SHAPE(3, 4, 5);
    zl_dtype dtype = ZL_INT64;
    zl_cpu_kernel_source k = simple(source, &shape, &dtype);
    memcpy(k.grid, (int64_t[]){5, 4, 3}, sizeof k.grid);
    memcpy(k.group, (int64_t[]){2, 2, 7}, sizeof k.group);
    k.inputs = 0;
    zl_array y;
    REQUIRE(zl_cpu_kernel(&k, 0, NULL, &y));
    const int64_t *data = zl_data(y);
    REQUIRE(data);
    for (int64_t i = 0; i < 60; i++)
        CHECK_EQ_INT(data[i], i / 5 % 4 / 2 * 1000 + i % 5 % 2 * 100 + 3 * 10 + i / 20);
}

TEST(source_kernels_take_arguments) {
    NEEDS_COMPILER;
    static const char header[] = "static T scaled(T x) { return PLUS ? x * N + by_two(x) : x; }\n";
    static const char before[] = "static T by_two(T x) { return 2 * x; }\n";
    char both[sizeof header + sizeof before];
    snprintf(both, sizeof both, "%s%s", before, header);
    const zl_kernel_argument list[] = {{"T", true, ZL_FLOAT64}, {"N", false, -3}, {"PLUS", false, 1}};
    static const char *const names[] = {"a", "number"};
    zl_shape shape = ZL_SHAPE(4);
    zl_dtype dtype = ZL_FLOAT64;
    zl_cpu_kernel_source k =
        simple("int64_t i = thread_position_in_grid.x; if (i == 2) return; out[i] = scaled(a[i]) + number;",
               &shape, &dtype);
    double init = 7;
    k.header = both;
    k.arguments = 3;
    k.argument = list;
    k.inputs = 2;
    k.input = names;
    k.init = &init;
    zl_array in[] = {op_test_range(shape, ZL_FLOAT64), zl_scalar(0.5)}, y;
    REQUIRE(zl_cpu_kernel(&k, 2, in, &y));
    const double *a = zl_data(in[0]), *got = zl_data(y);
    REQUIRE(a && got);
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(got[i], i == 2 ? 7 : 0.5 - a[i], 1e-12);
}

TEST(source_kernels_of_nothing) {
    NEEDS_COMPILER;
    zl_shape shape[] = {ZL_SHAPE(0), ZL_SHAPE(2)};
    zl_dtype dtype[] = {ZL_FLOAT32, ZL_INT32};
    static const char *const names[] = {"none", "out"};
    zl_cpu_kernel_source k = simple("out[thread_position_in_grid.x] = 5;", shape, dtype);
    k.inputs = 0;
    k.outputs = 2;
    k.output = names;
    k.grid[0] = 2;
    zl_array y[2];
    REQUIRE(zl_cpu_kernel(&k, 0, NULL, y));
    CHECK(zl_item(zl_sum(y[1])) == 10);
    double init = 3;
    k.init = &init;
    k.grid[0] = 0; // without positions the initial values stay
    REQUIRE(zl_cpu_kernel(&k, 0, NULL, y));
    CHECK(zl_item(zl_sum(y[1])) == 6 && zl_size(y[0]) == 0);
}

// Transforms ------------------------------------------------------------------------------------------------

static bool square(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    return zl_give(out, run_simple(square_source, in[0]));
}

// The derivative of a square, as another kernel.
static bool square_vjp(void *data, int count, const zl_array *in, int results, const zl_array *result,
                       const zl_array *cotangent, zl_outputs *out) {
    (void)data, (void)count, (void)results, (void)result;
    static const char *const names[] = {"a", "g"};
    zl_shape shape = zl_shape_of(in[0]);
    zl_dtype dtype = zl_dtype_of(in[0]);
    zl_cpu_kernel_source k =
        simple("int64_t i = thread_position_in_grid.x; out[i] = 2 * a[i] * g[i];", &shape, &dtype);
    k.inputs = 2;
    k.input = names;
    zl_array y;
    return zl_cpu_kernel(&k, 2, (zl_array[]){in[0], cotangent[0]}, &y) && zl_give(out, y);
}

static bool loss(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_outputs *y = zl_outputs_new();
    bool ok = y && zl_custom(data, count, in, y) && zl_give(out, zl_sum(zl_outputs_get(y, 0)));
    zl_outputs_free(y);
    return ok;
}

TEST(source_kernels_get_derivatives_from_rules) {
    NEEDS_COMPILER;
    zl_array x = op_test_range(ZL_SHAPE(3, 4), ZL_FLOAT32), g;
    zl_custom_fn with_rule = {.f = {.call = square}, .vjp = square_vjp}, without = {.f = {.call = square}};
    int argnum = 0;
    REQUIRE(zl_value_and_grad((zl_fn){.call = loss, .data = &with_rule}, 1, &x, 1, &argnum, NULL, &g));
    CHECK_SAME(g, zl_multiply(zl_scalar(2), x));
    CHECK_ERROR(ZL_ERROR_VALUE,
                zl_value_and_grad((zl_fn){.call = loss, .data = &without}, 1, &x, 1, &argnum, NULL, &g));
    CHECK_HAS(test_last_error(), "zl_custom");
    zl_outputs *tangents = zl_outputs_new();
    CHECK_ERROR(ZL_ERROR_VALUE, zl_jvp((zl_fn){.call = square}, 1, &x, &x, NULL, tangents));
    zl_outputs_free(tangents);
}

TEST(source_kernels_are_mapped) {
    NEEDS_COMPILER;
    zl_array x = op_test_range(ZL_SHAPE(3, 4, 2), ZL_FLOAT32);
    for (int axis = 0; axis < 3; axis++) {
        zl_outputs *out = zl_outputs_new();
        REQUIRE(zl_vmap((zl_fn){.call = square}, 1, &x, &axis, 1, &axis, out));
        CHECK_SAME(zl_outputs_get(out, 0), zl_square(x));
        zl_outputs_free(out);
    }
    zl_array none = zl_zeros(ZL_SHAPE(0, 3), ZL_FLOAT32);
    zl_outputs *out = zl_outputs_new();
    REQUIRE(zl_vmap((zl_fn){.call = square}, 1, &none, (int[]){0}, 1, NULL, out));
    CHECK_EQ_INT(zl_dim(zl_outputs_get(out, 0), 1), 3);
    zl_outputs_free(out);
}

TEST(source_kernels_are_compiled_with_functions) {
    NEEDS_COMPILER;
    zl_array x = op_test_range(ZL_SHAPE(5), ZL_FLOAT32), more = zl_negative(zl_exp(x));
    zl_compiled c = zl_compile((zl_fn){.call = square}, false),
                shapeless = zl_compile((zl_fn){.call = square}, true);
    for (int i = 0; i < 2; i++) {
        zl_outputs *out = zl_outputs_new();
        zl_array in = i ? more : x;
        REQUIRE(zl_compiled_call(c, NULL, 0, 1, &in, out));
        CHECK_SAME(zl_outputs_get(out, 0), zl_square(in));
        zl_outputs_free(out);
    }
    zl_outputs *out = zl_outputs_new();
    CHECK_ERROR(ZL_ERROR_VALUE, zl_compiled_call(shapeless, NULL, 0, 1, &x, out));
    CHECK_HAS(test_last_error(), "shapeless");
    zl_outputs_free(out);
    zl_compiled_release(c);
    zl_compiled_release(shapeless);
    char path[4096];
    snprintf(path, sizeof path, "%s/f", test_folder());
    CHECK_ERROR(ZL_ERROR_VALUE, zl_export(path, (zl_fn){.call = square}, 1, &x, NULL));
    CHECK_HAS(test_last_error(), "cannot be exported");
}

// Errors ----------------------------------------------------------------------------------------------------

TEST(source_kernels_that_do_not_compile) {
    NEEDS_COMPILER;
    zl_array x = op_test_range(ZL_SHAPE(3), ZL_FLOAT32);
    CHECK_ERROR(ZL_ERROR_COMPILE, zl_eval(run_simple("int i = 0;\n\n  out[i] = b[i];\n", x)));
    CHECK_HAS(test_last_error(), "zl_cpu_kernel: simple: ");
    CHECK_HAS(test_last_error(), "simple:3:12: error");
    CHECK_ERROR(ZL_ERROR_COMPILE, zl_eval(run_simple("out[0] = unknown(1);", x)));
    CHECK_HAS(test_last_error(), "unknown");
    zl_shape shape = ZL_SHAPE(3);
    zl_dtype dtype = ZL_FLOAT32;
    zl_cpu_kernel_source k = simple(square_source, &shape, &dtype);
    k.header = "int f(void) {\n    return wrong;\n}";
    zl_array y;
    CHECK_ERROR(ZL_ERROR_COMPILE, zl_cpu_kernel(&k, 1, &x, &y) && zl_eval(y));
    CHECK_HAS(test_last_error(), "simple (header):2:12");
}

TEST(source_kernels_without_a_compiler) {
    test_setenv("ZL_CACHE_DIR", test_folder());
    const char *set = getenv("ZL_CC");
    char *old = set ? strdup(set) : NULL;
    test_setenv("ZL_CC", "no-such-compiler");
    zl_array y = run_simple("out[thread_position_in_grid.x] = 11;", op_test_range(ZL_SHAPE(2), ZL_FLOAT32));
    CHECK_ERROR(ZL_ERROR_COMPILE, zl_eval(y));
    CHECK_HAS(test_last_error(), "zl_cpu_kernel: simple: no C compiler");
    if (old)
        test_setenv("ZL_CC", old);
    else
        test_setenv("ZL_CC", NULL);
    free(old);
}

// Calls the kernel with one wrong argument, and checks the message.
static bool call_with(const zl_cpu_kernel_source *k, int count, zl_array *in, const char *message) {
    zl_array y;
    bool refused =
        CHECK_ERROR(ZL_ERROR_VALUE, zl_cpu_kernel(k, count, in, &y)) && CHECK_HAS(test_last_error(), message);
    return refused && CHECK_HAS(test_last_error(), "zl_cpu_kernel: ");
}

TEST(source_kernels_refuse) {
    zl_array x = op_test_range(ZL_SHAPE(3), ZL_FLOAT32), y;
    zl_shape shape = ZL_SHAPE(3), wrong = ZL_SHAPE(-1);
    zl_dtype dtype = ZL_FLOAT32;
    const zl_cpu_kernel_source good = simple(square_source, &shape, &dtype);
    zl_cpu_kernel_source k = good;
    call_with(NULL, 0, NULL, "are needed");
    call_with(&k, 0, NULL, "has 1 inputs, but is given 0");
    k.name = "2nd";
    call_with(&k, 1, &x, "'2nd' is not a name");
    k = good;
    k.output = one_in;
    call_with(&k, 1, &x, "the name a is given twice");
    k = good;
    k.grid[1] = -1;
    call_with(&k, 1, &x, "(3, -1, 1)");
    k = good;
    k.outputs = 0;
    call_with(&k, 1, &x, "are needed");
    k = good;
    k.shape = &wrong;
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_cpu_kernel(&k, 1, &x, &y));
    k = good;
    k.argument = &(zl_kernel_argument){"T", true, 99};
    k.arguments = 1;
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_cpu_kernel(&k, 1, &x, &y));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_cpu_kernel(&good, 1, &x, NULL));
}

// From files ------------------------------------------------------------------------------------------------

// Calls a kernel op as a file may contain it, with one output and an input of three elements.
static bool replays(const struct op *op, int args, const int64_t *arg, int outputs) {
    zl_array x = zl_ones(ZL_SHAPE(3), ZL_FLOAT32), in[] = {zl_ones(ZL_SHAPE(4), ZL_UINT8), x, x, x, x},
             out[4];
    struct array_spec spec = {.dtype = ZL_FLOAT32, .ndim = 1, .dim = x->dim};
    zl_array y = graph_call(op, COUNT(in), in, args, arg, outputs, (struct array_spec[]){spec, spec});
    bool ok = y && op_replay("f", y->call, in, out);
    zl_clear_error();
    return ok;
}

TEST(calls_of_kernels_are_held_against_what_they_say) {
    static const struct {
        int at;
        int64_t value;
    } wrong[] = {{KERNEL_OUTPUTS, 0},        {KERNEL_OUTPUTS, 2},      {KERNEL_OUTPUTS, 3},
                 {KERNEL_GRID, -1},          {KERNEL_GRID, INT64_MAX}, {KERNEL_GROUP, 0},
                 {KERNEL_GROUP + 2, -1},     {KERNEL_FILLS, 2},        {KERNEL_STRIDED, -1},
                 {KERNEL_SHARED, INT64_MAX}, {KERNEL_SHARED, -1}};
    const int64_t good[KERNEL_ARGS] = {1, 3, 1, 1, 1, 1, 1};
    CHECK(replays(&op_cuda_kernel, KERNEL_ARGS, good, 1) &&
          replays(&op_custom_kernel, KERNEL_FILLS, good, 1));
    CHECK(!replays(&op_cpu_kernel, KERNEL_ARGS, good, 1) && !replays(&op_cuda_kernel, KERNEL_FILLS, good, 1));
    for (size_t i = 0; i < COUNT(wrong); i++) {
        int64_t arg[KERNEL_ARGS];
        memcpy(arg, good, sizeof arg);
        arg[wrong[i].at] = wrong[i].value;
        CHECK(!replays(&op_cuda_kernel, KERNEL_ARGS, arg, 1));
        CHECK(wrong[i].at != KERNEL_OUTPUTS || !replays(&op_custom_kernel, KERNEL_FILLS, arg, 1));
    }
}
