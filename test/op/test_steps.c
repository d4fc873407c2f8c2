// test_steps.c - functions reported step by step, with MLX's names, and kernels that are only recorded.

#include <stdio.h>
#include <string.h>

#include "op/op_test.h"
#include "op/ops.h"

// The text that a listener wrote: "2 -> 1, 1 constant; Add(); Reduce(2, [0, 1]); ".
struct heard {
    struct text text;
    int left; // steps until it stops listening; -1: never
};

static bool hear_arrays(void *data, int inputs, const zl_array *input, int outputs, const zl_array *output,
                        int constants, const zl_array *constant) {
    (void)input, (void)output, (void)constant;
    text_add(&((struct heard *)data)->text, "%d -> %d, %d constants; ", inputs, outputs, constants);
    return true;
}

static void add_list(struct text *out, const char *ends, zl_shape list) {
    text_add(out, "%c", ends[0]);
    for (int i = 0; i < list.ndim; i++)
        text_add(out, "%s%lld", i ? " " : "", (long long)list.dim[i]);
    text_add(out, "%c", ends[1]);
}

static void add_argument(struct text *out, const zl_argument *a) {
    switch (a->type) {
    case ZL_ARGUMENT_INT: text_add(out, "%lld", (long long)a->integer); break;
    case ZL_ARGUMENT_BOOL: text_add(out, "%s", a->integer ? "true" : "false"); break;
    case ZL_ARGUMENT_DOUBLE: text_add(out, "%.1f", a->number); break;
    case ZL_ARGUMENT_DTYPE: text_add(out, "%s", zl_dtype_name((zl_dtype)a->integer)); break;
    case ZL_ARGUMENT_LIST: add_list(out, "[]", a->list); break;
    case ZL_ARGUMENT_SHAPE: add_list(out, "()", a->list); break;
    case ZL_ARGUMENT_TEXT: text_add(out, "'%s'", a->text); break;
    }
}

static bool hear_step(void *data, const zl_step *step) {
    struct heard *h = data;
    text_add(&h->text, "%s(", step->name);
    for (int i = 0; i < step->arguments; i++) {
        text_add(&h->text, "%s", i ? ", " : "");
        add_argument(&h->text, &step->argument[i]);
    }
    text_add(&h->text, "); ");
    return h->left < 0 || h->left-- > 0;
}

typedef zl_array function_of_one(zl_array x);

static bool call_one(void *data, int count, const zl_array *in, zl_outputs *out) {
    return count == 1 && zl_give(out, (*(function_of_one **)data)(in[0]));
}

static void check_told(const char *file, int line, function_of_one *f, zl_array x, const char *expected) {
    struct heard h = {.left = -1};
    zl_listener listener = {hear_arrays, hear_step, &h};
    bool ok = zl_export_steps((zl_fn){.call = call_one, .data = &f}, 1, &x, false, &listener);
    if (!CHECK(ok && h.text.data && !strcmp(h.text.data, expected)))
        test_note("%s:%d: heard %s", file, line, ok ? h.text.data : zl_error());
    text_free(&h.text);
}

#define TOLD(id, expression, expected)                                                                  \
    static zl_array told_##id(zl_array x) {                                                             \
        return expression;                                                                              \
    }                                                                                                   \
    TEST(steps_of_##id) {                                                                               \
        check_told(__FILE__, __LINE__, told_##id, op_test_range(ZL_SHAPE(2, 3), ZL_FLOAT32), expected); \
    }

TOLD(logs, zl_astype(zl_log(zl_abs(zl_log2(x))), ZL_INT32),
     "1 -> 1, 0 constants; Log(0); Abs(); Log(2); AsType(int32); ")
TOLD(sums, zl_sum_axis(x, 1, false), "1 -> 1, 0 constants; Reduce(2, [1]); Squeeze([1]); ")
TOLD(slices, zl_slice(x, ZL_SHAPE(0, 2), ZL_SHAPE(1, -9), ZL_SHAPE(1, -2)),
     "1 -> 1, 0 constants; Slice((0 2), (1 -4), (1 -2)); ")
TOLD(pads, zl_pad(x, ZL_SHAPE(1, 0), ZL_SHAPE(0, 2), zl_scalar(0)),
     "1 -> 1, 1 constants; Pad([0 1], (1 0), (0 2)); ")
TOLD(shapes, zl_transpose(zl_reshape(x, ZL_SHAPE(3, 2)), ZL_ALL),
     "1 -> 1, 0 constants; Reshape((3 2)); Transpose([1 0]); ")
TOLD(scans, zl_cumprod(x, 1, true, false, ZL_FLOAT32), "1 -> 1, 0 constants; Scan(3, 1, true, false); ")
TOLD(roots, zl_rsqrt(zl_sqrt(x)), "1 -> 1, 0 constants; Sqrt(false); Sqrt(true); ")
TOLD(strides, zl_as_strided(x, ZL_SHAPE(2, 2), ZL_SHAPE(1, 2), 1),
     "1 -> 1, 0 constants; AsStrided((2 2), (1 2), 1); ")
TOLD(what_is_equal, zl_add(zl_exp(x), zl_exp(x)), "1 -> 1, 0 constants; Exp(); Add(); ")
TOLD(its_input, zl_stop_gradient(x), "1 -> 1, 0 constants; ")
TOLD(own_names, zl_take(x, zl_scalar_int(1), 1), "1 -> 1, 1 constants; Take(1); ")

TEST(primitives_are_of_ops_that_exist) {
#define PRIMITIVE(op, ...) #op,
    static const char *const names[] = {
#include "transform/primitive.def"
    };
    for (size_t i = 0; i < COUNT(names); i++)
        if (!CHECK(op_find(names[i], strlen(names[i])) || !strcmp(names[i], "custom")))
            test_note("%s", names[i]);
}

TEST(steps_refuse) {
    struct heard h = {.left = 0};
    zl_listener listener = {hear_arrays, hear_step, &h}, deaf = {0};
    zl_array x = op_test_range(ZL_SHAPE(2, 3), ZL_FLOAT32);
    function_of_one *f = told_logs;
    zl_fn function = {.call = call_one, .data = &f};
    CHECK_ERROR(ZL_ERROR_VALUE, zl_export_steps(function, 1, &x, false, &listener));
    CHECK_HAS(test_last_error(), "the listener ended it");
    CHECK_STR(h.text.data, "1 -> 1, 0 constants; Log(0); ");
    text_free(&h.text);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_export_steps(function, 1, &x, false, &deaf));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_export_steps((zl_fn){0}, 1, &x, false, &listener));
}

// Kernels of other systems ----------------------------------------------------------------------------------

static bool run_kernel(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array y[2];
    return zl_custom_kernel(data, count, in, y) && zl_give(out, zl_negative(y[0])) && zl_give(out, y[1]);
}

TEST(custom_kernels_are_exported) {
    char path[4096];
    snprintf(path, sizeof path, "%s/f", test_folder());
    const zl_shape shape[] = {ZL_SHAPE(2, 2), ZL_SCALAR};
    const zl_dtype dtype[] = {ZL_FLOAT16, ZL_INT32};
    zl_kernel_source source = {"Metal", "out[0] = 1;", {4, 1, 1}, {2, 1, 1}, 2, shape, dtype};
    zl_fn f = {.call = run_kernel, .data = &source};
    zl_array x = op_test_range(ZL_SHAPE(2, 3), ZL_FLOAT32), y[2];
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_custom_kernel(&source, 1, &x, y));
    CHECK_HAS(test_last_error(), "No Metal back-end");
    CHECK_HAS(test_last_error(), "doc/custom-kernels.md");
    REQUIRE(zl_export(path, f, 1, &x, NULL));
    zl_imported *g = zl_import(path);
    zl_outputs *out = zl_outputs_new();
    REQUIRE(g && zl_imported_call(g, 1, &x, 0, NULL, out));
    zl_array first = zl_outputs_get(out, 0), second = zl_outputs_get(out, 1);
    CHECK(zl_dtype_of(first) == ZL_FLOAT16 && zl_dim(first, 1) == 2);
    CHECK(zl_dtype_of(second) == ZL_INT32 && zl_ndim(second) == 0);
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(second));
    zl_outputs_free(out);
    zl_imported_free(g);
    source.outputs = 0;
    CHECK_ERROR(ZL_ERROR_VALUE, zl_custom_kernel(&source, 1, &x, y));
}
