// test_custom.c - functions with custom rules, and checkpoints.

#include <math.h>

#include "op/op_test.h"

struct counted {
    int refs, calls, rules;
};

static void retain(void *data) {
    ((struct counted *)data)->refs++;
}
static void release(void *data) {
    ((struct counted *)data)->refs--;
}

// f(x, y) = sin(x) y
static bool sine_times(void *data, int count, const zl_array *in, zl_outputs *out) {
    ((struct counted *)data)->calls++;
    return count == 2 && zl_give(out, zl_multiply(zl_sin(in[0]), in[1]));
}

// Rules with recognisably different results.
static bool own_vjp(void *data, int count, const zl_array *in, int results, const zl_array *result,
                    const zl_array *cotangent, zl_outputs *out) {
    ((struct counted *)data)->rules++;
    return count == 2 && results == 1 && zl_give(out, zl_multiply(cotangent[0], zl_scalar(100))) &&
           zl_give(out, zl_multiply(cotangent[0], zl_add(result[0], in[1])));
}
static bool own_jvp(void *data, int count, const zl_array *in, const zl_array *tangent, zl_outputs *out) {
    ((struct counted *)data)->rules++;
    return count == 2 &&
           zl_give(out, tangent[1] ? zl_add(in[0], tangent[1]) : zl_zeros_like(in[0], ZL_DTYPE_COUNT));
}
static bool own_vmap(void *data, int count, const zl_array *in, const int *axis, int results, zl_outputs *out,
                     int *out_axis) {
    ((struct counted *)data)->rules++;
    out_axis[0] = axis[0];
    return count == 2 && results == 1 && zl_give(out, zl_negative(in[0]));
}

struct asked {
    zl_custom_fn f;
};

static bool call_custom(void *data, int count, const zl_array *in, zl_outputs *out) {
    return zl_custom(&((struct asked *)data)->f, count, in, out);
}

static zl_fn outer(struct asked *a) {
    return (zl_fn){.call = call_custom, .data = a};
}

TEST(own_rules_are_used) {
    struct counted n = {0};
    struct asked a = {
        {.f = {sine_times, &n, retain, release}, .vjp = own_vjp, .jvp = own_jvp, .vmap = own_vmap}};
    zl_array in[] = {zl_scalar(1), zl_scalar(2)}, g[2];
    zl_outputs *out = zl_outputs_new();
    ZL_SCOPE {
        REQUIRE(zl_value_and_grad(outer(&a), 2, in, 2, (int[]){0, 1}, NULL, g));
        CHECK_EQ_F64(zl_item(g[0]), 100);
        CHECK_NEAR(zl_item(g[1]), 2 * sin(1) + 2, 1e-6);
        CHECK_EQ_INT(n.rules, 1); // once for both inputs
        REQUIRE(zl_jvp(outer(&a), 2, in, (zl_array[]){NULL, in[1]}, NULL, out));
        CHECK_EQ_F64(zl_item(zl_outputs_get(out, 0)), 3);
        zl_outputs_free(out);
        out = zl_outputs_new();
        zl_array many[] = {op_test_range(ZL_SHAPE(3), ZL_FLOAT32), in[1]};
        REQUIRE(zl_vmap(outer(&a), 2, many, (int[]){0, -1}, 0, NULL, out));
        CHECK_ARRAY(zl_outputs_get(out, 0), ZL_FLOAT32, ZL_SHAPE(3), 0, -1, -2);
    }
    zl_outputs_free(out);
    CHECK_EQ_INT(n.refs, 0);
}

TEST(rules_follow_from_the_function) {
    struct counted n = {0};
    struct asked a = {{.f = {sine_times, &n, retain, release}}};
    zl_array in[] = {zl_scalar(1), zl_scalar(2)}, g[2], one = zl_scalar(1);
    zl_outputs *out = zl_outputs_new(), *tangents = zl_outputs_new();
    REQUIRE(zl_vjp(outer(&a), 2, in, 1, &one, NULL, g));
    CHECK_NEAR(zl_item(g[0]), 2 * cos(1), 1e-6);
    CHECK_NEAR(zl_item(g[1]), sin(1), 1e-6);
    REQUIRE(zl_jvp(outer(&a), 2, in, (zl_array[]){one, NULL}, out, tangents));
    CHECK_NEAR(zl_item(zl_outputs_get(tangents, 0)), 2 * cos(1), 1e-6);
    CHECK_NEAR(zl_item(zl_outputs_get(out, 0)), 2 * sin(1), 1e-6);
    zl_outputs_free(out);
    zl_outputs_free(tangents);
    out = zl_outputs_new();
    zl_array many[] = {op_test_range(ZL_SHAPE(3), ZL_FLOAT32), one};
    REQUIRE(zl_vmap(outer(&a), 2, many, (int[]){0, -1}, 0, NULL, out));
    CHECK_ARRAY_NEAR(zl_outputs_get(out, 0), ZL_FLOAT32, ZL_SHAPE(3), 1e-6, 0, sin(1), sin(2));
    zl_outputs_free(out);
}

// A result that is the same for the whole batch, and an op on it.
static bool own_vmap_without_axis(void *data, int count, const zl_array *in, const int *axis, int results,
                                  zl_outputs *out, int *out_axis) {
    (void)data, (void)count, (void)axis, (void)results;
    out_axis[0] = -1;
    return zl_give(out, zl_multiply(in[1], zl_scalar(3)));
}

static bool twice_custom(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_outputs *y = zl_outputs_new();
    bool ok =
        call_custom(data, count, in, y) && zl_give(out, zl_add(zl_outputs_get(y, 0), zl_outputs_get(y, 0)));
    zl_outputs_free(y);
    return ok;
}

TEST(a_mapped_result_may_lose_its_axis) {
    struct counted n = {0};
    struct asked a = {{.f = {sine_times, &n, retain, release}, .vmap = own_vmap_without_axis}};
    zl_array in[] = {op_test_range(ZL_SHAPE(3), ZL_FLOAT32), zl_scalar(2)};
    zl_outputs *out = zl_outputs_new();
    REQUIRE(zl_vmap((zl_fn){.call = twice_custom, .data = &a}, 2, in, (int[]){0, -1}, 0, NULL, out));
    CHECK_ARRAY(zl_outputs_get(out, 0), ZL_FLOAT32, ZL_SHAPE(3), 12, 12, 12);
    zl_outputs_free(out);
}

static bool wrong_vjp(void *data, int count, const zl_array *in, int results, const zl_array *result,
                      const zl_array *cotangent, zl_outputs *out) {
    (void)data, (void)count, (void)in, (void)results, (void)result;
    return zl_give(out, cotangent[0]);
}

TEST(wrong_rules_are_refused) {
    struct counted n = {0};
    struct asked a = {{.f = {sine_times, &n, retain, release}, .vjp = wrong_vjp}};
    zl_array in[] = {zl_scalar(1), zl_scalar(2)}, g[2];
    CHECK_ERROR(ZL_ERROR_VALUE, zl_value_and_grad(outer(&a), 2, in, 2, (int[]){0, 1}, NULL, g));
    CHECK_HAS(test_last_error(), "gave 1 arrays: 2 are needed");
    CHECK_ERROR(ZL_ERROR_VALUE, zl_custom(NULL, 0, NULL, NULL));
}

// An array that a custom function captures is a constant.
static zl_array captured;
static bool times_captured(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    return zl_give(out, zl_multiply(in[0], captured));
}
static bool captures(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    captured = in[1];
    zl_custom_fn f = {.f = {.call = times_captured}};
    return zl_custom(&f, 1, in, out);
}

TEST(captured_arrays_are_constants) {
    zl_array in[] = {zl_scalar(2), zl_scalar(3)}, g[2];
    REQUIRE(zl_value_and_grad((zl_fn){.call = captures}, 2, in, 2, (int[]){0, 1}, NULL, g));
    CHECK_EQ_F64(zl_item(g[0]), 3);
    CHECK_EQ_F64(zl_item(g[1]), 0);
}

// Checkpoints -----------------------------------------------------------------------------------------------

enum { STEPS = 12, DEEP = 8, SIZE = 1 << 16 };

static bool layer(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)count;
    if (data)
        ((struct counted *)data)->calls++;
    zl_array y = in[0];
    for (int i = 0; i < DEEP; i++)
        y = zl_sin(zl_multiply(y, y));
    return zl_give(out, y);
}

struct network {
    bool checkpointed;
    struct counted n;
};

static bool network(void *data, int count, const zl_array *in, zl_outputs *out) {
    struct network *net = data;
    zl_fn f = {layer, &net->n, retain, release};
    zl_array x = in[0];
    for (int i = 0; i < STEPS && x; i++) {
        zl_outputs *y = zl_outputs_new();
        bool ok = net->checkpointed ? zl_checkpoint(f, count, &x, y) : layer(NULL, count, &x, y);
        x = ok ? zl_positive(zl_outputs_get(y, 0)) : NULL;
        zl_outputs_free(y);
    }
    return zl_give(out, zl_sum(x));
}

// Returns the peak of memory while a gradient is computed, and sets *sum to its sum.
static size_t peak_of(struct network *net, zl_array x, double *sum) {
    size_t peak = 0;
    ZL_SCOPE {
        zl_array g = NULL;
        if (CHECK(zl_value_and_grad((zl_fn){.call = network, .data = net}, 1, &x, 1, (int[]){0}, NULL, &g))) {
            g = zl_sum(g);
            zl_clear_cache();
            zl_reset_peak_memory();
            *sum = zl_item(g);
            peak = zl_get_peak_memory();
        }
    }
    return peak;
}

TEST(checkpoints_save_memory) {
    if (op_test_is_static())
        SKIP("the calls are one program, and what it keeps between them is its compiler's");
    zl_array x = op_test_random(ZL_SHAPE(256), ZL_FLOAT32, 0.5, 1);
    x = zl_flatten(zl_broadcast_to(x, ZL_SHAPE((test_brief() ? SIZE / 64 : SIZE) / 256, 256)), 0, -1);
    REQUIRE(zl_eval(x));
    struct network plain = {.checkpointed = false}, saving = {.checkpointed = true};
    double a = 0, b = 0;
    size_t full = peak_of(&plain, x, &a), less = peak_of(&saving, x, &b);
    CHECK_NEAR(a, b, 1e-4 * (1 + fabs(a)));
    CHECK_EQ_INT(saving.n.calls, 2 * STEPS);
    CHECK_EQ_INT(saving.n.refs, 0);
    if (!CHECK(less < full / 2))
        test_note("%zu bytes with checkpoints, %zu without", less, full);
}
