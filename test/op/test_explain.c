// test_explain.c - zl_explain and zl_to_dot: their texts about graphs.

#include <string.h>

#include "op/op_test.h"

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        count++;
    return count;
}

// Uses the CPU whatever the default device is, since which calls form one kernel depends on the device.
static zl_scope on_cpu(void) {
    return zl_scope_begin_on(zl_new_stream("cpu"));
}

TEST(explain_says_what_is_fused) {
    zl_scope scope = on_cpu();
    zl_array x = zl_ones(ZL_SHAPE(100, 100), ZL_FLOAT32), y = zl_exp(zl_negative(zl_add(x, zl_scalar(1))));
    CHECK(zl_eval(x));
    char *text = zl_explain(zl_sum_axis(zl_transpose(y, ZL_ALL), 0, false));
    REQUIRE(text);
    CHECK_HAS(text, "add + negative + exp of float32 (100, 100): reads 40 kB, writes 40 kB, 30 kflop");
    CHECK_HAS(text, "no more is fused: what follows has its elements in another order");
    CHECK_HAS(text, "transpose is a view");
    CHECK_HAS(text, "sum of float32 (1, 100): reads 40 kB, writes 400 B, 10 kflop");
    CHECK_HAS(text, "on cpu 0");
    zl_free(text);
    zl_scope_end(scope);
}

TEST(explain_shows_lines) {
    zl_scope scope = on_cpu();
    zl_array x = zl_ones(ZL_SHAPE(100, 100), ZL_FLOAT32);
    CHECK(zl_eval(x));
    char *text = zl_explain(zl_softmax(x, -1, false)), *other = zl_explain(zl_softmax(x, 0, false));
    REQUIRE(text && other);
    CHECK_HAS(text, "1 kernels, 80 kB moved");
    CHECK_HAS(text, "max + stop_gradient + subtract + exp + sum + divide of float32 (100, 100): reads 40 kB, "
                    "writes 40 kB");
    CHECK_HAS(other, "what follows reduces other axes");
    zl_free(text), zl_free(other);
    zl_scope_end(scope);
}

TEST(explain_shows_epilogues) {
    zl_scope scope = on_cpu();
    zl_array x = zl_ones(ZL_SHAPE(100, 100), ZL_FLOAT32), bias = zl_ones(ZL_SHAPE(100), ZL_FLOAT32);
    CHECK(zl_eval(x) && zl_eval(bias));
    char *text = zl_explain(zl_maximum(zl_add(zl_matmul(x, x), bias), zl_scalar(0)));
    REQUIRE(text);
    CHECK_HAS(text, "1 kernels, 80.4 kB moved");
    CHECK_HAS(text, "matmul + add + maximum of float32 (100, 100)");
    zl_free(text);
    zl_scope_end(scope);
}

TEST(explain_says_why_not) {
    zl_scope scope = on_cpu();
    zl_array x = zl_from_f32((float[]){1, 2}, ZL_SHAPE(2)), w = zl_ones(ZL_SHAPE(2, 3), ZL_FLOAT32);
    CHECK(zl_eval(w));
    char *text = zl_explain(zl_exp(zl_negative(x))), *product = zl_explain(zl_matmul(x, w)),
         *there = zl_explain(x);
    CHECK_HAS(text, "2 calls, 0 views, 2 kernels");
    CHECK_HAS(text, "not fused: fewer than 8192 elements");
    CHECK_HAS(product, "matmul of float32 (1, 3): reads 32 B, writes 12 B, 12 flop");
    CHECK_HAS(there, "nothing to do");
    zl_free(text), zl_free(product), zl_free(there);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_explain(NULL));
    zl_scope_end(scope);
}

// Explains elementwise calls on `inputs` inputs, and a reduction of rows of 20 elements, on a stream of a
// device.
static char *explain_many(const char *device, int inputs) {
    zl_scope scope = zl_scope_begin_on(zl_new_stream(device));
    zl_array x[24], y = NULL;
    for (int i = 0; i < inputs; i++) {
        x[i] = zl_ones(ZL_SHAPE(1000, 20), ZL_FLOAT32);
        CHECK(zl_eval(x[i]));
        y = i ? zl_add(y, zl_exp(x[i])) : zl_negative(x[0]);
    }
    char *text = zl_explain(zl_sum_axis(y, 1, true));
    zl_scope_end(scope);
    return text;
}

// The words are the same on all devices, the numbers differ.
TEST(explain_names_the_limits_of_the_device) {
    static const struct {
        const char *device, *operands, *reduction;
    } cases[] = {
        {"cpu", "16 operands", "lines of fewer than 32 elements or more than 65536"},
        {"opencl", "16 operands",
         "lines of fewer than 128 elements, or fewer than 32 lines of more than 16384"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (!zl_new_stream(cases[i].device)) {
            zl_clear_error(); // this machine has no such device
            continue;
        }
        char *many = explain_many(cases[i].device, 24), *few = explain_many(cases[i].device, 3);
        REQUIRE(many && few);
        CHECK_HAS(many, cases[i].operands);
        CHECK_HAS(few, "no more is fused: what follows reduces other axes, or ");
        CHECK_HAS(few, cases[i].reduction);
        zl_free(many), zl_free(few);
    }
}

TEST(explain_evaluates_nothing) {
    zl_array y = zl_exp(op_test_range(ZL_SHAPE(9), ZL_FLOAT32));
    char *text = zl_explain(y);
    CHECK(!zl_is_available(y));
    CHECK(zl_eval(y));
    zl_free(text);
}

// Computes x + y z, and the sum of the broadcast y.
static bool stretched_product(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    zl_array y = zl_broadcast_to(in[1], zl_shape_of(in[2]));
    return count == 3 && zl_give(out, zl_add(in[0], zl_multiply(y, in[2]))) && zl_give(out, zl_sum(y));
}

TEST(to_dot_draws_compiled_calls_as_one) {
    zl_array x = op_test_range(ZL_SHAPE(2, 3), ZL_FLOAT32), y = zl_from_f32((float[]){2}, ZL_SHAPE(1)),
             in[] = {x, y, x};
    zl_compiled f = zl_compile((zl_fn){.call = stretched_product}, false);
    for (int mode = ZL_COMPILE_NO_FUSE; mode <= ZL_COMPILE_ENABLED; mode++) {
        zl_outputs *out = zl_outputs_new();
        zl_compile_mode old = zl_get_compile_mode();
        zl_set_compile_mode((zl_compile_mode)mode);
        REQUIRE(zl_compiled_call(f, NULL, 0, 3, in, out));
        zl_array y_all[] = {zl_outputs_get(out, 0), zl_outputs_get(out, 1)};
        char *text = zl_to_dot(2, y_all, NULL);
        REQUIRE(text);
        CHECK_EQ_INT(count_of(text, "CompiledBroadcastMultiplyAdd"), mode == ZL_COMPILE_ENABLED);
        CHECK_EQ_INT(count_of(text, "\"Broadcast\""), 1); // for the sum
        CHECK_EQ_INT(count_of(text, "\"Multiply\""), mode == ZL_COMPILE_NO_FUSE);
        zl_free(text);
        zl_outputs_free(out);
        zl_set_compile_mode(old);
    }
    zl_compiled_release(f);
}

TEST(to_dot_draws_graphs) {
    zl_array a = zl_from_f32((float[]){1, 2}, ZL_SHAPE(2)), pair[2];
    REQUIRE(zl_divmod(a, zl_from_f32((float[]){3, 3}, ZL_SHAPE(2)), pair));
    zl_array list[] = {zl_add(pair[0], pair[1]), a};
    char *text = zl_to_dot(2, list, (const char *const[]){NULL, "the \"a\""});
    REQUIRE(text);
    CHECK_EQ_INT(count_of(text, "[label"), 2);
    CHECK_EQ_INT(count_of(text, "rank=source"), 2);
    CHECK_EQ_INT(count_of(text, "rank=sink"), 1);
    CHECK_HAS(text, "\"the \\\"a\\\"\" -> 0");
    CHECK_HAS(text, "label =\"DivMod\"");
    zl_free(text);
    text = zl_to_dot(1, &a, NULL);
    CHECK_STR(text, "digraph {\n{ rank=source; \"A\"; }\n}\n");
    zl_free(text);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_to_dot(1, (zl_array[]){NULL}, NULL));
}
