// test_export.c - functions in files: a loaded function computes what the saved one did, and damaged files
// are rejected.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/op_test.h"
#include "op/ops.h"
#include "transform/function_file.h"

static const char *path_of(const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    return path;
}

static zl_array call_one(const zl_imported *f, int count, const zl_array *in) {
    zl_outputs *out = zl_outputs_new();
    zl_array y = zl_imported_call(f, count, in, 0, NULL, out) ? op_same(zl_outputs_get(out, 0)) : NULL;
    zl_outputs_free(out);
    return y;
}

// The registry ----------------------------------------------------------------------------------------------

TEST(every_op_is_found_by_its_name) {
    int count = 0;
    for (const struct op *op; (op = op_at(count)); count++)
        if (!CHECK(op_find(op->name, strlen(op->name)) == op))
            test_note("%s is the name of two", op->name);
    CHECK(count > 80);
    CHECK(op_find("take", 3) == NULL);
    CHECK(op_find("custom", 6) == NULL);
}

TEST(every_op_can_be_replayed) {
    const struct op *op;
    for (int i = 0; (op = op_at(i)); i++)
        if (!CHECK(op->record &&
                   (op->fits || op->kind == OP_ELEMENTWISE || op->kind == OP_CAST || op->kind == OP_COPY)))
            test_note("%s", op->name);
}

// Round trips -----------------------------------------------------------------------------------------------

typedef zl_array function_of_one(zl_array x);

static bool call_of_one(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)count;
    return zl_give(out, ((function_of_one *)data)(in[0]));
}

// Stores a function pointer as data, which POSIX allows; strict C would need a pointer to it.
static zl_fn fn_of(function_of_one *f) {
    return (zl_fn){.call = call_of_one, .data = (void *)(uintptr_t)f};
}

static void check_same(zl_array y, zl_array z) {
    REQUIRE(y && z);
    CHECK(zl_dtype_of(y) == zl_dtype_of(z));
    zl_array same = zl_array_equal(y, z, true);
    CHECK(same && zl_item_int(same));
}

static void check_trip(function_of_one *f, zl_array x) {
    REQUIRE(zl_export(path_of("f"), fn_of(f), 1, &x, NULL));
    zl_imported *g = zl_import(path_of("f"));
    REQUIRE(g);
    check_same(f(x), call_one(g, 1, &x));
    zl_imported_free(g);
}

#define TRIP(id, shape, dtype, expression)                      \
    static zl_array trip_##id(zl_array x) {                     \
        return (void)x, expression;                             \
    }                                                           \
    TEST(export_##id) {                                         \
        check_trip(trip_##id, op_test_range((shape), (dtype))); \
    }

static zl_array divided(zl_array x) {
    zl_array pair[2];
    return zl_divmod(x, zl_scalar_int(3), pair) ? zl_add(pair[0], pair[1]) : NULL;
}

static zl_array joined(zl_array x) {
    zl_array list[] = {x, zl_flip(x, ZL_AXES(0)), zl_roll(x, ZL_SHAPE(1), ZL_AXES(1))};
    return zl_concatenate(list, 3, 1);
}

static zl_array picked(zl_array x) {
    zl_array at = zl_from_i32((int32_t[]){2, 0, -1}, ZL_SHAPE(3));
    return zl_scatter_add(zl_take(x, at, 1), &at, 1, zl_ones(ZL_SHAPE(3, 1, 3), ZL_FLOAT32), ZL_AXES(0));
}

static zl_array along(zl_array x) {
    zl_array order = zl_argsort(zl_negative(x), 1);
    return zl_put_along_axis(x, order, zl_take_along_axis(x, order, 1), 1);
}

static zl_array moved(zl_array x) {
    zl_array start = zl_from_i32((int32_t[]){1}, ZL_SHAPE(1));
    zl_array part = zl_dynamic_slice(x, start, ZL_AXES(1), ZL_SHAPE(4, 2));
    return zl_dynamic_slice_update(x, zl_negative(part), start, ZL_AXES(0));
}

static zl_array sparse(zl_array x) {
    zl_array at = zl_from_i32((int32_t[]){0, 2, 1}, ZL_SHAPE(3)),
             rows = zl_from_i32((int32_t[]){0, 1, 1, 3}, ZL_SHAPE(4)), g;
    zl_array values = zl_ones(ZL_SHAPE(3), ZL_FLOAT32), y = zl_csr_matmul(values, at, rows, x);
    bool ok = zl_grad(zl_sum(zl_square(y)), 1, &x, &g);
    return ok ? zl_add(g, zl_csr_to_dense(zl_sum_axis(x, 1, false), at, rows, 3)) : NULL;
}

static zl_array losses(zl_array x) {
    zl_array loss = zl_fast_cross_entropy(x, zl_from_i32((int32_t[]){2, 0, 1}, ZL_SHAPE(3))), g;
    return zl_grad(zl_sum(loss), 1, &x, &g) ? zl_add(g, loss) : NULL;
}

static zl_array remembered(zl_array x) {
    zl_array k = zl_reshape(x, ZL_SHAPE(1, 3, 1, 3)),
             half = zl_full(ZL_SHAPE(1, 3, 1), zl_scalar(0.5), ZL_FLOAT32), out[2];
    return zl_fast_gated_delta_update(k, k, k, half, half, NULL, NULL, out) ? zl_add(out[0], zl_sum(out[1]))
                                                                            : NULL;
}

// The gradient of kernels in groups is a convolution with groups in its batch.
static zl_array kernel_slopes(zl_array x) {
    zl_array w = zl_ones(ZL_SHAPE(4, 2, 1), ZL_FLOAT32), g;
    return zl_grad(zl_sum(zl_square(zl_conv1d(x, w, 1, 1, 1, 4))), 1, &w, &g) ? g : NULL;
}

TRIP(elementwise, ZL_SHAPE(3, 4), ZL_FLOAT32,
     zl_exp(zl_negative(zl_where(zl_less(x, zl_scalar(4)), x, zl_scalar(2)))))
TRIP(casts, ZL_SHAPE(5), ZL_INT32,
     zl_astype(zl_multiply(zl_astype(x, ZL_FLOAT16), zl_scalar(0.5)), ZL_COMPLEX64))
TRIP(views, ZL_SHAPE(3, 4), ZL_FLOAT32,
     zl_reshape(zl_transpose(zl_slice(x, ZL_SHAPE(2, 0), ZL_SHAPE(-9, 4), ZL_SHAPE(-1, 2)), ZL_ALL),
                ZL_SHAPE(3, -1)))
TRIP(axes, ZL_SHAPE(3, 1, 4), ZL_FLOAT32,
     zl_expand_dims(zl_squeeze(zl_flatten(x, 1, 2), ZL_ALL), ZL_AXES(0, 2)))
TRIP(strides, ZL_SHAPE(3, 4), ZL_FLOAT32, zl_as_strided(x, ZL_SHAPE(3, 2), ZL_SHAPE(3, 1), 2))
TRIP(bytes, ZL_SHAPE(3, 4), ZL_FLOAT32, zl_view(x, ZL_UINT16))
TRIP(reductions, ZL_SHAPE(3, 4), ZL_FLOAT32, zl_add(zl_max_axis(x, 0, true), zl_var_axis(x, 1, true, 0)))
TRIP(products, ZL_SHAPE(2, 3, 4), ZL_FLOAT32,
     zl_matmul(x, zl_transpose(zl_slice(x, ZL_SHAPE(0, 0, 0), ZL_SHAPE(1, 3, 4), ZL_SHAPE(1, 1, 1)),
                               ZL_AXES(0, 2, 1))))
TRIP(sums_of_products, ZL_SHAPE(3, 3), ZL_FLOAT16,
     zl_addmm(zl_max_axis(x, 0, false), x, zl_transpose(x, ZL_ALL), 0.5, 2))
TRIP(pairs, ZL_SHAPE(7), ZL_INT32, divided(x))
TRIP(joins, ZL_SHAPE(3, 4), ZL_FLOAT32, joined(x))
TRIP(indices, ZL_SHAPE(4, 3), ZL_FLOAT32, picked(x))
TRIP(along_axis, ZL_SHAPE(4, 3), ZL_FLOAT32, along(x))
TRIP(sparse_matrices, ZL_SHAPE(3, 3), ZL_FLOAT32, sparse(x))
TRIP(cross_entropy, ZL_SHAPE(3, 3), ZL_FLOAT32, losses(x))
TRIP(convolutions_in_groups, ZL_SHAPE(2, 5, 4), ZL_FLOAT32, kernel_slopes(x))
TRIP(gated_delta, ZL_SHAPE(3, 3), ZL_FLOAT32, remembered(x))
TRIP(dynamic_slices, ZL_SHAPE(4, 4), ZL_FLOAT32, moved(x))
TRIP(scans, ZL_SHAPE(4, 3), ZL_FLOAT32, zl_cumsum(zl_sort(x, 0), 1, true, false, ZL_DTYPE_COUNT))
TRIP(padding, ZL_SHAPE(4, 3), ZL_FLOAT32, zl_pad(x, ZL_SHAPE(1, 0), ZL_SHAPE(0, 2), zl_scalar(7)))
TRIP(random_numbers, ZL_SHAPE(4), ZL_FLOAT32,
     zl_add(x, zl_random_normal(ZL_SHAPE(4), ZL_FLOAT32, NULL, NULL, zl_random_key(3))))
TRIP(its_input, ZL_SHAPE(4), ZL_FLOAT32, x)
TRIP(nothing_of_its_input, ZL_SHAPE(4), ZL_FLOAT32, zl_arange(0, 5, 1, ZL_FLOAT32))
TRIP(stopped_gradients, ZL_SHAPE(4), ZL_FLOAT32, zl_stop_gradient(zl_square(x)))
TRIP(empty_arrays, ZL_SHAPE(0, 3), ZL_FLOAT32, zl_add(zl_sum_axis(x, 0, false), zl_scalar(1)))

// Kernels from source ---------------------------------------------------------------------------------------

static const char *const one_in[] = {"a"}, *const one_out[] = {"out"};

static zl_array with_kernel(zl_array x,
                            bool (*make)(const zl_cpu_kernel_source *k, zl_array x, zl_array *y)) {
    zl_shape shape = ZL_SHAPE(3, 4);
    zl_cpu_kernel_source k = {.name = "doubled",
                              .source = "int i = threadIdx.x;\nout[i] = 2 * a[i];\n",
                              .inputs = 1,
                              .outputs = 1,
                              .input = one_in,
                              .output = one_out,
                              .shape = &shape,
                              .dtype = (zl_dtype[]){ZL_FLOAT32},
                              .grid = {12, 1, 1},
                              .group = {4, 1, 1}};
    zl_array y;
    return make(&k, zl_negative(x), &y) ? zl_add(y, x) : NULL;
}

static bool in_cuda(const zl_cpu_kernel_source *k, zl_array x, zl_array *y) {
    return zl_cuda_kernel(k, 64, 1, &x, y);
}

static bool in_c(const zl_cpu_kernel_source *k, zl_array x, zl_array *y) {
    return zl_cpu_kernel(k, 1, &x, y);
}

static zl_array with_cuda_kernel(zl_array x) {
    return with_kernel(x, in_cuda);
}

static zl_array with_c_kernel(zl_array x) {
    return with_kernel(x, in_c);
}

// Returns the call of the kernel from which an array was computed.
static const struct call *kernel_behind(zl_array y) {
    for (int i = 0; y && y->call && i < y->call->inputs; i++)
        if (y->call->in[i]->call && y->call->in[i]->call->op == &op_cuda_kernel)
            return y->call->in[i]->call;
    return NULL;
}

TEST(kernels_in_cuda_are_exported) {
    zl_scope scope = zl_scope_begin_on(zl_new_stream("cpu"));
    zl_array x = op_test_range(ZL_SHAPE(3, 4), ZL_FLOAT32);
    REQUIRE(zl_export(path_of("f"), fn_of(with_cuda_kernel), 1, &x, NULL));
    zl_imported *f = zl_import(path_of("f"));
    REQUIRE(f);
    zl_array here = with_cuda_kernel(x), there = call_one(f, 1, &x);
    const struct call *a = kernel_behind(here), *b = kernel_behind(there);
    REQUIRE(a && b);
    check_same(a->in[0], b->in[0]);
    CHECK(a->args == b->args && !memcmp(call_args(a), call_args(b), sizeof(int64_t) * (size_t)a->args));
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(there));
    CHECK_HAS(test_last_error(), "stream of the device cuda");
    zl_array turned = zl_transpose(op_test_range(ZL_SHAPE(4, 3), ZL_FLOAT32), ZL_ALL);
    CHECK(call_one(f, 1, &turned));
    zl_imported_free(f);
    zl_scope_end(scope);
}

TEST(kernels_of_files_can_be_refused) {
    zl_array x = op_test_range(ZL_SHAPE(3, 4), ZL_FLOAT32);
    REQUIRE(zl_export(path_of("f"), fn_of(with_cuda_kernel), 1, &x, NULL));
    test_setenv("ZL_FILE_KERNELS", "0");
    CHECK_ERROR(ZL_ERROR_VALUE, zl_import(path_of("f")));
    CHECK_HAS(test_last_error(), "brings a kernel in CUDA C++, which ZL_FILE_KERNELS=0 refuses");
    test_setenv("ZL_FILE_KERNELS", NULL);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_export(path_of("f"), fn_of(with_c_kernel), 1, &x, NULL));
    CHECK_HAS(test_last_error(), "cannot be exported");
}

// A kernel has the sizes of the trace.
TEST(kernels_do_not_take_other_sizes) {
    zl_array x = op_test_range(ZL_SHAPE(3, 4), ZL_FLOAT32), y = op_test_range(ZL_SHAPE(5, 4), ZL_FLOAT32);
    REQUIRE(zl_export(path_of("f"), fn_of(with_cuda_kernel), 1, &x, &(zl_export_options){.shapeless = true}));
    zl_imported *f = zl_import(path_of("f"));
    REQUIRE(f);
    CHECK(call_one(f, 1, &x));
    CHECK_ERROR(ZL_ERROR_VALUE, call_one(f, 1, &y));
    CHECK_HAS(test_last_error(), "cuda_kernel, with 10 arguments, does not fit");
    zl_imported_free(f);
}

// Several traces, names, metadata ---------------------------------------------------------------------------

static bool difference(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    return zl_give(out, zl_subtract(in[0], in[count - 1])) && zl_give(out, in[0]);
}

TEST(exporter_keeps_traces_and_names) {
    zl_exporter *e =
        zl_exporter_new(path_of("f"), (zl_fn){.call = difference}, &(zl_export_options){.metadata = "m"});
    zl_array a = zl_from_f32((float[]){5, 7}, ZL_SHAPE(2)), b = zl_scalar_int(2), in[] = {a, a};
    const char *names[] = {"x", "y"}, *turned[] = {"y", "x"}, *wrong[] = {"x", "z"};
    CHECK(zl_exporter_trace(e, 1, &b, 0, NULL));
    CHECK(zl_exporter_trace(e, 2, in, 2, names));
    CHECK_ERROR(ZL_ERROR_STATE, zl_exporter_trace(e, 2, in, 2, turned));
    zl_exporter_free(e);
    zl_imported *f = zl_import(path_of("f"));
    REQUIRE(f);
    CHECK_STR(zl_imported_metadata(f), "m");
    zl_outputs *out = zl_outputs_new();
    zl_array other[] = {zl_from_f32((float[]){1, 2}, ZL_SHAPE(2)), a};
    CHECK(zl_imported_call(f, 2, other, 2, turned, out)); // a is x here
    CHECK_ARRAY(zl_outputs_get(out, 0), ZL_FLOAT32, ZL_SHAPE(2), 4, 5);
    CHECK_EQ_INT(zl_outputs_count(out), 2);
    zl_outputs_free(out);
    out = zl_outputs_new();
    CHECK_ERROR(ZL_ERROR_VALUE, zl_imported_call(f, 2, other, 2, wrong, out));
    CHECK_HAS(test_last_error(), "(x: float32 (2,), z: float32 (2,))");
    CHECK_ERROR(ZL_ERROR_VALUE, zl_imported_call(f, 2, other, 0, NULL, out));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_imported_call(f, 1, &a, 0, NULL, out));
    zl_outputs_free(out);
    zl_imported_free(f);
}

static bool use_constant(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array sum = *(zl_array *)data;
    for (int i = 0; i < count; i++)
        sum = zl_add(sum, in[i]);
    return zl_give(out, sum);
}

TEST(exporter_writes_a_constant_once) {
    zl_array big = zl_zeros(ZL_SHAPE(64, 512), ZL_FLOAT32),
             one[] = {zl_scalar(1), zl_scalar(1), zl_scalar(1)};
    CHECK(zl_eval(big));
    zl_exporter *e = zl_exporter_new(path_of("f"), (zl_fn){use_constant, &big, NULL, NULL}, NULL);
    for (int i = 0; i < 4; i++)
        CHECK(zl_exporter_trace(e, i, one, 0, NULL));
    zl_exporter_free(e);
    size_t bytes = 0;
    memory_free(file_read(path_of("f"), &bytes));
    CHECK(bytes > zl_nbytes(big) && bytes < zl_nbytes(big) + 4096);
}

static zl_array read_it(zl_array x) {
    return zl_item(zl_sum(x)) > 0 ? x : NULL;
}

TEST(export_refuses_functions_that_read) {
    zl_array x = op_test_range(ZL_SHAPE(3), ZL_FLOAT32);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_export(path_of("f"), fn_of(read_it), 1, &x, NULL));
    CHECK_HAS(test_last_error(), "zl_exporter_trace: an input");
    CHECK_ERROR(ZL_ERROR_IO, zl_export(path_of("none/f"), fn_of(trip_its_input), 1, &x, NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_export(NULL, fn_of(trip_its_input), 1, &x, NULL));
    CHECK_ERROR(ZL_ERROR_IO, zl_import(path_of("nothing")));
}

// Other shapes ----------------------------------------------------------------------------------------------

static zl_array shapeless(zl_array x) {
    zl_array w = zl_ones(ZL_SHAPE(4, 2), ZL_FLOAT32), y = zl_matmul(x, w);
    return zl_add(zl_max_axis(y, 1, true),
                  zl_slice(y, ZL_SHAPE(0, 0, 0), ZL_SHAPE(2, 99, 1), ZL_SHAPE(1, 1, 1)));
}

static zl_array follows(zl_array x) {
    return zl_take_along_axis(x, zl_zeros(ZL_SHAPE(2, 1, 1), ZL_INT32), 1);
}

TEST(shapeless_functions_take_other_sizes) {
    zl_array x = op_test_range(ZL_SHAPE(2, 3, 4), ZL_FLOAT32),
             y = op_test_range(ZL_SHAPE(2, 7, 4), ZL_FLOAT32),
             z = op_test_range(ZL_SHAPE(5, 3, 4), ZL_FLOAT32);
    REQUIRE(zl_export(path_of("f"), fn_of(shapeless), 1, &x, &(zl_export_options){.shapeless = true}));
    zl_imported *f = zl_import(path_of("f"));
    REQUIRE(f);
    check_same(call_one(f, 1, &x), shapeless(x));
    check_same(call_one(f, 1, &y), shapeless(y));
    CHECK_ERROR(ZL_ERROR_SHAPE, call_one(f, 1, &z)); // 5 and 2 do not broadcast
    zl_imported_free(f);
    REQUIRE(zl_export(path_of("f"), fn_of(follows), 1, &x, &(zl_export_options){.shapeless = true}));
    f = zl_import(path_of("f"));
    CHECK_ERROR(ZL_ERROR_VALUE, call_one(f, 1, &z)); // indices for two, but five elements
    CHECK_HAS(test_last_error(), "take_along");
    zl_imported_free(f);
}

// Transforms of what was imported ---------------------------------------------------------------------------

static bool call_imported(void *data, int count, const zl_array *in, zl_outputs *out) {
    return zl_imported_call(data, count, in, 0, NULL, out);
}

static zl_array sum_of_squares(zl_array x) {
    return zl_sum(zl_square(x));
}

TEST(imported_functions_have_gradients) {
    zl_array x = op_test_range(ZL_SHAPE(3), ZL_FLOAT32), grad;
    REQUIRE(zl_export(path_of("f"), fn_of(sum_of_squares), 1, &x, NULL));
    zl_imported *f = zl_import(path_of("f"));
    CHECK(zl_value_and_grad((zl_fn){.call = call_imported, .data = f}, 1, &x, 1, (int[]){0}, NULL, &grad));
    CHECK_ARRAY(grad, ZL_FLOAT32, ZL_SHAPE(3), 0, 2, 4);
    zl_imported_free(f);
}
