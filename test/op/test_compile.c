// test_compile.c - compiled functions: when they run, what they keep, what they refuse, and what is left out
// when they are replayed. That every op can be replayed is tested by test_transform_table.c.

#include <pthread.h>
#include <string.h>

#include "op/op_test.h"
#include "transform/transform.h"

// A function of arrays that counts its calls.
struct counted {
    zl_array (*body)(const zl_array *in);
    atomic_int runs;
    int64_t tag;
};

static bool call_counted(void *data, int count, const zl_array *in, zl_outputs *out) {
    struct counted *f = data;
    (void)count;
    atomic_fetch_add(&f->runs, 1);
    if (f->tag)
        zl_outputs_set_tag(out, f->tag);
    return zl_give(out, f->body(in));
}

static zl_compiled compiled(struct counted *f, bool shapeless) {
    zl_compiled c = zl_compile((zl_fn){.call = call_counted, .data = f}, shapeless);
    CHECK(c);
    return c;
}

// Returns the only result, lent; NULL after an error.
static zl_array call(zl_compiled c, int count, const zl_array *in) {
    zl_outputs *out = zl_outputs_new();
    zl_array y = zl_compiled_call(c, NULL, 0, count, in, out) ? op_same(zl_outputs_get(out, 0)) : NULL;
    zl_outputs_free(out);
    return y;
}

static zl_array call1(zl_compiled c, zl_array x) {
    return call(c, 1, &x);
}

static zl_array range(int64_t count) {
    return zl_arange(1, (double)count + 1, 1, ZL_FLOAT32);
}

// Counts the calls that evaluating y would run. Converting a number to another dtype is not one, because its
// value is known when it is recorded.
static int count_calls(zl_array y) {
    struct walk w = {.kind = WALK_ALL};
    int calls = 0;
    CHECK(walk_make(&w, 0, NULL, 1, &y));
    for (int i = 0; i < w.calls; i++)
        calls += array_is_pending(call_first(w.call[i]));
    walk_free(&w);
    return calls;
}

// When it runs ----------------------------------------------------------------------------------------------

static zl_array double_plus_one(const zl_array *in) {
    return zl_add(zl_multiply(in[0], zl_scalar_int(2)), zl_scalar_int(1));
}

TEST(compile_runs_once_for_a_kind_of_inputs) {
    struct counted f = {double_plus_one};
    zl_compiled c = compiled(&f, false);
    ZL_SCOPE {
        for (int i = 0; i < 3; i++)
            CHECK_EQ_F64(zl_item(call1(c, zl_astype(zl_scalar(i), ZL_FLOAT32))), 2 * i + 1);
        CHECK_EQ_INT(atomic_load(&f.runs), 1);
        CHECK_EQ_F64(zl_item(zl_sum(call1(c, range(3)))), 15);
        CHECK_EQ_F64(zl_item(zl_sum(call1(c, range(4)))), 24);
        CHECK_EQ_INT(atomic_load(&f.runs), 3);
        CHECK_EQ_INT(zl_dtype_of(call1(c, zl_astype(range(3), ZL_INT32))), ZL_INT32);
        CHECK_EQ_INT(atomic_load(&f.runs), 4);
    }
    zl_compiled_release(c);
}

TEST(compile_tells_calls_apart_by_their_key) {
    struct counted f = {double_plus_one, .tag = 5};
    zl_compiled c = zl_compiled_retain(compiled(&f, false));
    zl_compiled_release(c);
    ZL_SCOPE {
        zl_array x = range(2);
        const char *keys[] = {"", "a", "ab", "a", ""};
        for (size_t i = 0; i < COUNT(keys); i++) {
            zl_outputs *out = zl_outputs_new();
            CHECK(zl_compiled_call(c, keys[i], strlen(keys[i]), 1, &x, out));
            CHECK_EQ_INT(zl_outputs_tag(out), 5);
            zl_outputs_free(out);
        }
        CHECK_EQ_INT(atomic_load(&f.runs), 3);
    }
    zl_compiled_release(c);
}

// A number has no dtype of its own: the dtype that it takes is part of the recording, so it is a constant.
TEST(compile_takes_weak_numbers_as_constants) {
    struct counted f = {double_plus_one};
    zl_compiled c = compiled(&f, false);
    ZL_SCOPE {
        CHECK_EQ_F64(zl_item(call1(c, zl_scalar(3))), 7);
        CHECK_EQ_F64(zl_item(call1(c, zl_scalar(4))), 9);
        CHECK_EQ_F64(zl_item(call1(c, zl_scalar(3))), 7);
        CHECK_EQ_INT(atomic_load(&f.runs), 2);
    }
    zl_compiled_release(c);
}

static zl_array three_times(const zl_array *in) {
    return zl_multiply(in[0], zl_scalar(3));
}

// A number that equals a constant of the function, or the number of the call before, is still an argument of
// this call.
TEST(compiled_functions_have_gradients_by_numbers) {
    struct counted f = {three_times};
    zl_compiled c = compiled(&f, false);
    for (int i = 0; i < 3; i++)
        ZL_SCOPE {
            zl_array w = zl_scalar(3), g = NULL;
            CHECK(zl_grad(call1(c, w), 1, &w, &g));
            CHECK_EQ_F64(zl_item(g), 3);
        }
    CHECK_EQ_INT(atomic_load(&f.runs), 1);
    zl_compiled_release(c);
}

static zl_array first_minus_second(const zl_array *in) {
    return zl_subtract(zl_square(in[0]), in[1]);
}

TEST(compiled_functions_tell_equal_numbers_apart) {
    struct counted f = {first_minus_second};
    zl_compiled c = compiled(&f, false);
    for (int i = 0; i < 2; i++)
        ZL_SCOPE {
            zl_array w = zl_scalar(3), in[] = {w, i ? zl_scalar(3) : w}, g[2] = {NULL, NULL};
            CHECK(zl_grad(call(c, 2, in), 1 + i, in, g));
            CHECK_EQ_F64(zl_item(g[0]), i ? 6 : 5);
            if (i)
                CHECK_EQ_F64(zl_item(g[1]), -1);
        }
    CHECK_EQ_INT(atomic_load(&f.runs), 1);
    zl_compiled_release(c);
}

static zl_array captured_number;
static zl_array by_captured_number(const zl_array *in) {
    return zl_multiply(in[0], captured_number);
}

// A captured number may also be an argument: calls with another number are then of another kind.
TEST(compile_captures_numbers) {
    struct counted f = {by_captured_number};
    zl_compiled c = compiled(&f, false);
    ZL_SCOPE {
        captured_number = zl_scalar(4);
        for (int i = 0; i < 2; i++)
            CHECK_EQ_F64(zl_item(call1(c, captured_number)), 16);
        CHECK_EQ_F64(zl_item(call1(c, zl_scalar(5))), 20);
        CHECK_EQ_INT(atomic_load(&f.runs), 2);
    }
    zl_compiled_release(c);
}

TEST(compile_modes) {
    struct counted f = {double_plus_one};
    zl_compiled c = compiled(&f, false);
    zl_compile_mode before = zl_get_compile_mode();
    ZL_SCOPE {
        CHECK(zl_set_compile_mode(ZL_COMPILE_DISABLED));
        for (int i = 0; i < 2; i++)
            CHECK_EQ_F64(zl_item(zl_sum(call1(c, range(3)))), 15);
        CHECK_EQ_INT(atomic_load(&f.runs), 2);
        CHECK(zl_set_compile_mode(ZL_COMPILE_NO_FUSE));
        for (int i = 0; i < 2; i++)
            CHECK_EQ_F64(zl_item(zl_sum(call1(c, range(3)))), 15);
        CHECK_EQ_INT(atomic_load(&f.runs), 3);
        CHECK_ERROR(ZL_ERROR_VALUE, zl_set_compile_mode((zl_compile_mode)9));
    }
    zl_set_compile_mode(before);
    zl_compiled_release(c);
}

// What is left out ------------------------------------------------------------------------------------------

static zl_array with_repetitions(const zl_array *in) {
    zl_array a = zl_add(in[0], zl_scalar(1)), b = zl_add(zl_stop_gradient(in[0]), zl_scalar(1));
    zl_array unused = zl_exp(in[0]);
    (void)unused;
    return zl_add(a, zl_multiply(b, zl_add(zl_scalar(2), zl_scalar(3))));
}

TEST(compile_leaves_out_what_is_superfluous) {
    struct counted f = {with_repetitions};
    zl_compiled c = compiled(&f, false), all = compiled(&f, false);
    zl_compile_mode before = zl_get_compile_mode();
    ZL_SCOPE {
        zl_array x = range(3), y, plain;
        zl_eval(x);
        y = call1(c, x);
        zl_set_compile_mode(ZL_COMPILE_NO_SIMPLIFY);
        plain = call1(all, x);
        zl_set_compile_mode(before);
        CHECK_EQ_INT(count_calls(y), 4); // x + 1, times the value of 2 + 3, plus; and 2 + 3 itself until it
                                         // is computed
        CHECK_EQ_INT(count_calls(plain), 6);
        CHECK_EQ_F64(zl_item(zl_sum(y)), 54);
        CHECK_EQ_F64(zl_item(zl_sum(plain)), 54);
        CHECK_EQ_INT(count_calls(call1(c, x)), 3);
    }
    zl_compiled_release(c);
    zl_compiled_release(all);
}

static zl_array captured;
static zl_array add_captured(const zl_array *in) {
    return zl_add(in[0], captured);
}

TEST(compile_keeps_what_it_captured) {
    struct counted f = {add_captured};
    zl_compiled c = compiled(&f, false);
    ZL_SCOPE {
        captured = zl_multiply(range(3), zl_scalar(10));
        CHECK_EQ_F64(zl_item(zl_sum(call1(c, range(3)))), 66);
    }
    ZL_SCOPE {
        captured = zl_zeros(ZL_SHAPE(3), ZL_FLOAT32);
        CHECK_EQ_F64(zl_item(zl_sum(call1(c, range(3)))), 66);
        CHECK_EQ_INT(atomic_load(&f.runs), 1);
    }
    zl_compiled_release(c);
}

static zl_array add_large(const zl_array *in) {
    return zl_add(in[0], zl_add(zl_ones(ZL_SHAPE(5000), ZL_FLOAT32), zl_scalar(1)));
}

TEST(compile_makes_large_constants_again) {
    struct counted f = {add_large};
    zl_compiled c = compiled(&f, false);
    size_t before = zl_get_active_memory();
    for (int i = 0; i < 2; i++)
        ZL_SCOPE
            CHECK_EQ_F64(zl_item(zl_sum(call1(c, zl_zeros(ZL_SHAPE(5000), ZL_FLOAT32)))), 10000);
    CHECK(zl_get_active_memory() < before + 5000);
    zl_compiled_release(c);
}

static zl_array add_remainder(const zl_array *in) {
    zl_array pair[2];
    zl_scope scope = zl_scope_begin();
    bool ok = zl_divmod(zl_full(ZL_SHAPE(5000), zl_scalar(7), ZL_FLOAT32), zl_scalar(4), pair);
    return zl_add(in[0], zl_scope_leave(scope, ok ? pair[1] : NULL)); // nothing refers to the quotient
}

TEST(compile_makes_one_of_several_outputs_again) {
    struct counted f = {add_remainder};
    zl_compiled c = compiled(&f, false);
    for (int i = 0; i < 2; i++)
        ZL_SCOPE
            CHECK_EQ_F64(zl_item(zl_sum(call1(c, zl_zeros(ZL_SHAPE(5000), ZL_FLOAT32)))), 15000);
    zl_compiled_release(c);
}

static zl_array same(const zl_array *in) {
    return in[0];
}

TEST(compile_gives_an_input_as_it_is) {
    struct counted f = {same};
    zl_compiled c = compiled(&f, false);
    ZL_SCOPE {
        zl_array x = range(3);
        CHECK(call1(c, x) == x);
    }
    zl_compiled_release(c);
}

// What is refused -------------------------------------------------------------------------------------------

static zl_array evaluate(const zl_array *in) {
    zl_array y = zl_exp(in[0]);
    return zl_eval(y) ? y : NULL;
}

static zl_array fail(const zl_array *in) {
    return zl_add(in[0], range(7));
}

TEST(compile_refuses) {
    struct counted f = {evaluate}, g = {fail}, h = {add_captured};
    zl_compiled c = compiled(&f, false), d = compiled(&g, false), e = compiled(&h, false);
    ZL_SCOPE {
        zl_array x = range(3);
        CHECK_ERROR(ZL_ERROR_VALUE, call1(c, x));
        CHECK_HAS(test_last_error(), "cannot be evaluated or read");
        CHECK_ERROR(ZL_ERROR_SHAPE, call1(d, x));
        CHECK_EQ_F64(zl_item(zl_sum(call1(d, range(7)))), 56);
        captured = x;
        CHECK_ERROR(ZL_ERROR_VALUE, call1(e, x));
        CHECK_HAS(test_last_error(), "captured");
        captured = zl_add(x, zl_scalar(1)); // computed from it
        CHECK_ERROR(ZL_ERROR_VALUE, call1(e, x));
        CHECK_ERROR(ZL_ERROR_VALUE, zl_compile((zl_fn){0}, false));
        zl_outputs *out = zl_outputs_new();
        CHECK_ERROR(ZL_ERROR_VALUE, zl_compiled_call(c, NULL, 3, 1, &x, out));
        zl_outputs_free(out);
        CHECK_ERROR(ZL_ERROR_VALUE, zl_compiled_call(c, NULL, 0, 1, &x, NULL));
    }
    zl_compiled_release(c);
    zl_compiled_release(d);
    zl_compiled_release(e);
}

// Other shapes ----------------------------------------------------------------------------------------------

static zl_array center(const zl_array *in) {
    zl_array mean = zl_mean_axis(in[0], 1, true), spread = zl_std_axis(in[0], 1, true, 1);
    return zl_add(zl_divide(zl_subtract(in[0], mean), zl_add(spread, zl_ones_like(spread, ZL_DTYPE_COUNT))),
                  zl_zeros_like(in[0], ZL_DTYPE_COUNT));
}

static zl_array multiply_sum(const zl_array *in) {
    return zl_sum_axis(zl_matmul(in[0], in[1]), 0, false);
}

static zl_array fixed_shape(const zl_array *in) {
    return zl_reshape(in[0], ZL_SHAPE(2, -1));
}

static void check_same(zl_array a, zl_array b) {
    CHECK(shape_equal(a->ndim, a->dim, b->ndim, b->dim));
    CHECK_EQ_INT(zl_item_int(zl_array_equal(a, b, true)), 1);
}

TEST(compile_shapeless_infers_shapes_again) {
    struct counted f = {center}, g = {multiply_sum};
    zl_compiled c = compiled(&f, true), d = compiled(&g, true);
    for (int64_t n = 1; n < 6; n++)
        ZL_SCOPE {
            zl_array x = op_test_random(ZL_SHAPE(n, 2 * n), ZL_FLOAT32, -1, 1);
            check_same(call1(c, x), center(&x));
            zl_array in[] = {op_test_random(ZL_SHAPE(n, 1, 3, n + 1), ZL_FLOAT32, -1, 1),
                             op_test_random(ZL_SHAPE(7 - n, n + 1, 2), ZL_FLOAT32, -1, 1)};
            check_same(call(d, 2, in), multiply_sum(in));
        }
    CHECK_EQ_INT(atomic_load(&f.runs), 1);
    CHECK_EQ_INT(atomic_load(&g.runs), 1);
    zl_compiled_release(c);
    zl_compiled_release(d);
}

TEST(compile_shapeless_refuses_what_has_fixed_sizes) {
    struct counted f = {fixed_shape};
    zl_compiled c = compiled(&f, true);
    ZL_SCOPE {
        CHECK_EQ_INT(zl_dim(call1(c, range(6)), 1), 3);
        CHECK_EQ_INT(zl_dim(call1(c, range(8)), 1), 4);
        CHECK_ERROR(ZL_ERROR_SHAPE, call1(c, range(7)));
        CHECK_EQ_INT(atomic_load(&f.runs), 1);
    }
    zl_compiled_release(c);
}

// Other transforms ------------------------------------------------------------------------------------------

static zl_array cube_sum(const zl_array *in) {
    return zl_sum(zl_multiply(zl_square(in[0]), in[0]));
}

static bool call_inner(void *data, int count, const zl_array *in, zl_outputs *out) {
    return zl_compiled_call(data, NULL, 0, count, in, out);
}

static bool call_gradient(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array grad;
    const int first = 0;
    return zl_value_and_grad((zl_fn){.call = call_inner, .data = data}, count, in, 1, &first, NULL, &grad) &&
           zl_give(out, grad);
}

TEST(compile_inside_and_outside_of_gradients) {
    struct counted f = {cube_sum};
    zl_compiled inner = compiled(&f, false);
    zl_compiled outer = zl_compile((zl_fn){.call = call_gradient, .data = inner}, false);
    ZL_SCOPE
        for (int i = 0; i < 3; i++) {
            zl_array g = call1(outer, zl_multiply(range(3), zl_scalar(i)));
            CHECK_EQ_F64(zl_item(zl_sum(g)), 42 * i * i);
        }
    CHECK_EQ_INT(atomic_load(&f.runs), 1);
    zl_compiled_release(inner);
    zl_compiled_release(outer);
}

TEST(compile_can_be_mapped) {
    struct counted f = {cube_sum};
    zl_compiled c = compiled(&f, false);
    ZL_SCOPE {
        zl_array x = zl_reshape(range(6), ZL_SHAPE(2, 3));
        zl_outputs *out = zl_outputs_new();
        CHECK(zl_vmap((zl_fn){.call = call_inner, .data = c}, 1, &x, (int[]){0}, 1, NULL, out));
        CHECK_EQ_F64(zl_item(zl_sum(zl_outputs_get(out, 0))), 441);
        zl_outputs_free(out);
    }
    zl_compiled_release(c);
}

// An array that the function captures from a transform around it is not a constant: such a recording is used
// only once.
static bool call_capturing(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)count;
    zl_array one = zl_ones(ZL_SHAPE(3), ZL_FLOAT32);
    captured = in[0];
    zl_array y = call1(data, one);
    return zl_give(out, zl_sum(zl_square(y)));
}

TEST(compile_that_captures_a_tracer) {
    struct counted f = {add_captured};
    zl_compiled c = compiled(&f, false);
    const int first = 0;
    ZL_SCOPE
        for (int i = 1; i < 3; i++) {
            zl_array x = zl_multiply(range(3), zl_scalar(i)), grad = NULL;
            CHECK(
                zl_value_and_grad((zl_fn){.call = call_capturing, .data = c}, 1, &x, 1, &first, NULL, &grad));
            CHECK_EQ_F64(zl_item(zl_sum(grad)), 2 * (6 * i + 3));
            CHECK_EQ_INT(atomic_load(&f.runs), i);
        }
    zl_compiled_release(c);
}

static zl_array draw(const zl_array *in) {
    (void)in;
    return zl_random_uniform(zl_scalar(0), zl_scalar(1), ZL_SHAPE(4), ZL_FLOAT32, NULL);
}

static bool draw_from_state(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    return zl_random_state_set(in[0]) && zl_give(out, draw(NULL)) && zl_give(out, zl_random_state_get());
}

// The state of random numbers becomes one more input and output.
TEST(compile_with_a_random_state) {
    zl_compiled c = zl_compile((zl_fn){.call = draw_from_state}, false);
    ZL_SCOPE {
        zl_random_seed(7);
        zl_array plain[] = {draw(NULL), draw(NULL)}, key = zl_random_key(7);
        for (int i = 0; i < 2; i++) {
            zl_outputs *out = zl_outputs_new();
            CHECK(zl_compiled_call(c, NULL, 0, 1, &key, out));
            check_same(zl_outputs_get(out, 0), plain[i]);
            key = op_same(zl_outputs_get(out, 1));
            zl_outputs_free(out);
        }
        zl_random_seed(1);
    }
    zl_compiled_release(c);
}

// Threads ---------------------------------------------------------------------------------------------------

static void *call_many(void *data) {
    for (int i = 0; i < 200; i++)
        ZL_SCOPE
            CHECK_EQ_F64(zl_item(zl_sum(call1(data, range(1 + i % 5)))),
                         (1 + i % 5) * (2 + i % 5) + 1 + i % 5);
    return NULL;
}

TEST(compile_is_called_by_many_threads) {
    struct counted f = {double_plus_one};
    zl_compiled c = compiled(&f, false);
    pthread_t thread[4];
    for (size_t i = 0; i < COUNT(thread); i++)
        CHECK(!pthread_create(&thread[i], NULL, call_many, c));
    for (size_t i = 0; i < COUNT(thread); i++)
        pthread_join(thread[i], NULL);
    CHECK(atomic_load(&f.runs) >= 5 && atomic_load(&f.runs) <= 20);
    zl_compiled_release(c);
}
