// test_recompute.c - values that a compiled training step recomputes instead of keeping, and the order in
// which several results are computed.

#include "op/op_test.h"
#include "transform/transform.h"

enum { ROWS = 512, WIDTH = 128, LAYERS = 4, INPUTS = 1 + LAYERS };

static bool is_deep; // elementwise functions of more than one array

// A function whose derivative reads three arrays of the size of x: two that are computed from x, and x.
static zl_array bend(zl_array x) {
    zl_array half = zl_multiply(x, zl_scalar(0.5)), one = zl_add(zl_square(half), zl_scalar(1));
    return zl_multiply(is_deep ? zl_multiply(x, half) : x, zl_multiply(one, zl_abs(half)));
}

static bool loss(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array x = in[0];
    (void)data;
    for (int i = 1; i < count; i++)
        x = bend(zl_matmul(x, in[i]));
    return zl_give(out, zl_sum(zl_square(x)));
}

static bool gradients(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array grads[INPUTS];
    zl_outputs *values = zl_outputs_new();
    int at[INPUTS];
    for (int i = 0; i < count; i++)
        at[i] = i;
    bool ok =
        values && zl_value_and_grad((zl_fn){.call = loss, .data = data}, count, in, count, at, values, grads);
    for (int i = 0; ok && i < count; i++)
        ok = zl_give(out, grads[i]);
    zl_outputs_free(values);
    return ok;
}

static void inputs(zl_array *in) {
    zl_array key = zl_random_key(7);
    in[0] = zl_random_normal(ZL_SHAPE(ROWS, WIDTH), ZL_FLOAT32, zl_scalar(0), zl_scalar(1), key);
    for (int i = 1; i < INPUTS; i++)
        in[i] = zl_random_normal(ZL_SHAPE(WIDTH, WIDTH), ZL_FLOAT32, zl_scalar(0), zl_scalar(0.05), key);
    CHECK(zl_eval_all(INPUTS, in));
}

// Evaluates the gradients together. Returns the peak of memory.
static size_t run(zl_compile_mode mode, zl_array *in, zl_array *grads) {
    zl_compiled c = zl_compile((zl_fn){.call = gradients}, false);
    zl_outputs *out = zl_outputs_new();
    zl_compile_mode before = zl_get_compile_mode();
    zl_set_compile_mode(mode);
    size_t held = zl_get_active_memory();
    zl_reset_peak_memory();
    bool ok = CHECK(zl_compiled_call(c, NULL, 0, INPUTS, in, out));
    for (int i = 0; i < INPUTS; i++)
        grads[i] = ok ? op_same(zl_outputs_get(out, i)) : NULL;
    CHECK(ok && zl_eval_all(INPUTS, grads));
    zl_set_compile_mode(before);
    zl_outputs_free(out);
    zl_compiled_release(c);
    return zl_get_peak_memory() - held;
}

static void check_bits(const zl_array *a, const zl_array *b) {
    for (int i = 0; i < INPUTS; i++)
        CHECK_EQ_F64(zl_item(zl_array_equal(a[i], b[i], false)), 1);
}

TEST(slopes_are_computed_again) {
    if (op_test_is_static())
        SKIP("the calls are one program, and what it keeps between them is its compiler's");
    ZL_SCOPE {
        zl_array in[INPUTS], kept[INPUTS], again[INPUTS];
        inputs(in);
        size_t most = run(ZL_COMPILE_NO_FUSE, in, kept), least = run(ZL_COMPILE_ENABLED, in, again);
        check_bits(kept, again);
        const size_t array = (size_t)ROWS * WIDTH * sizeof(float);
        if (!CHECK(least + (LAYERS - 1) * array <= most))
            test_note("%zu bytes, and %zu with all results kept", least, most);
    }
}

TEST(slopes_of_two_arrays_are_equal_too) {
    ZL_SCOPE {
        zl_array in[INPUTS], kept[INPUTS], again[INPUTS];
        is_deep = true;
        inputs(in);
        run(ZL_COMPILE_NO_FUSE, in, kept);
        run(ZL_COMPILE_ENABLED, in, again);
        check_bits(kept, again);
        is_deep = false;
    }
}
