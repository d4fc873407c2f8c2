// test_transform.c - vjp, jvp, vmap and gradients of functions: alone, nested, and with wrong arguments.

#include <math.h>
#include <pthread.h>
#include <time.h>

#include "op/op_test.h"

// Calls a function of one array, which is the data.
static bool call_one(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array (*f)(zl_array) = *(zl_array(**)(zl_array))data;
    return count == 1 && zl_give(out, f(in[0]));
}

typedef zl_array one_array(zl_array x);
static zl_fn function_of(one_array **f) {
    return (zl_fn){.call = call_one, .data = f};
}

static zl_array gradient(one_array *f, zl_array x) {
    zl_array g = NULL;
    zl_value_and_grad(function_of(&f), 1, &x, 1, (int[]){0}, NULL, &g);
    return g;
}

static zl_array mapped(one_array *f, zl_array x, int axis) {
    zl_outputs *out = zl_outputs_new();
    zl_array y =
        zl_vmap(function_of(&f), 1, &x, &axis, 0, NULL, out) ? zl_retain(zl_outputs_get(out, 0)) : NULL;
    zl_outputs_free(out);
    zl_array lent = zl_positive(y);
    zl_release(y);
    return lent;
}

static zl_array tangent(one_array *f, zl_array x, zl_array t) {
    zl_outputs *out = zl_outputs_new();
    zl_array y = zl_jvp(function_of(&f), 1, &x, &t, NULL, out) ? zl_positive(zl_outputs_get(out, 0)) : NULL;
    zl_outputs_free(out);
    return y;
}

#define NUMBER(x) zl_scalar(x)
#define VECTOR(...) \
    zl_from_f32((float[]){__VA_ARGS__}, ZL_SHAPE(sizeof((float[]){__VA_ARGS__}) / sizeof(float)))

// Nesting ---------------------------------------------------------------------------------------------------

static zl_array cube(zl_array x) {
    return zl_multiply(x, zl_square(x));
}
static zl_array slope_of_cube(zl_array x) {
    return gradient(cube, x);
}
static zl_array bend_of_cube(zl_array x) {
    return gradient(slope_of_cube, x);
}
static zl_array sum_of_cubes(zl_array x) {
    return zl_sum(cube(x));
}
static zl_array slopes_of_cubes(zl_array x) {
    return mapped(slope_of_cube, x, 0);
}
static zl_array sum_of_slopes(zl_array x) {
    return zl_sum(slopes_of_cubes(x));
}
static zl_array gradient_of_cubes(zl_array x) {
    return gradient(sum_of_cubes, x);
}

TEST(gradients_of_gradients) {
    CHECK_EQ_F64(zl_item(gradient(cube, NUMBER(2))), 12);
    CHECK_EQ_F64(zl_item(gradient(slope_of_cube, NUMBER(2))), 12);
    CHECK_EQ_F64(zl_item(gradient(bend_of_cube, NUMBER(2))), 6);
}

TEST(gradients_and_maps_inside_each_other) {
    zl_array x = VECTOR(1, 2, 3);
    CHECK_ARRAY(slopes_of_cubes(x), ZL_FLOAT32, ZL_SHAPE(3), 3, 12, 27);         // vmap(grad)
    CHECK_ARRAY(gradient(sum_of_slopes, x), ZL_FLOAT32, ZL_SHAPE(3), 6, 12, 18); // grad(vmap(grad))
    zl_array m = op_test_range(ZL_SHAPE(2, 3), ZL_FLOAT32);
    CHECK_ARRAY(mapped(slopes_of_cubes, m, 0), ZL_FLOAT32, ZL_SHAPE(2, 3), 0, 3, 12, 27, 48, 75);
    CHECK_ARRAY(mapped(gradient_of_cubes, m, 1), ZL_FLOAT32, ZL_SHAPE(3, 2), 0, 27, 3, 48, 12, 75);
}

TEST(forward_over_reverse) {
    zl_array x = VECTOR(1, 2, 3), t = VECTOR(1, 0, 2);
    CHECK_ARRAY(tangent(gradient_of_cubes, x, t), ZL_FLOAT32, ZL_SHAPE(3), 6, 0, 36); // the Hessian times t
    CHECK_ARRAY(tangent(slopes_of_cubes, x, t), ZL_FLOAT32, ZL_SHAPE(3), 6, 0, 36);
}

static zl_array fixed_tangent;
static zl_array sum_of_tangent(zl_array x) {
    return zl_sum(tangent(cube, x, fixed_tangent));
}
TEST(reverse_over_forward) {
    fixed_tangent = VECTOR(1, 0, 2);
    CHECK_ARRAY(gradient(sum_of_tangent, VECTOR(1, 2, 3)), ZL_FLOAT32, ZL_SHAPE(3), 6, 0, 36);
}

// Several inputs and results --------------------------------------------------------------------------------

static bool two_of_two(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    return count == 2 && zl_give(out, zl_multiply(in[0], in[1])) && zl_give(out, zl_sin(in[0]));
}

TEST(several_inputs_and_results) {
    zl_array in[] = {NUMBER(2), NUMBER(3)}, w[] = {NUMBER(1), NUMBER(10)}, g[2];
    zl_outputs *y = zl_outputs_new(), *dy = zl_outputs_new();
    zl_fn f = {.call = two_of_two};
    REQUIRE(zl_vjp(f, 2, in, 2, w, y, g));
    CHECK_EQ_INT(zl_outputs_count(y), 2);
    CHECK_EQ_F64(zl_item(zl_outputs_get(y, 0)), 6);
    CHECK_NEAR(zl_item(g[0]), 3 + 10 * cos(2), 1e-5);
    CHECK_EQ_F64(zl_item(g[1]), 2);
    zl_outputs_free(y);
    y = zl_outputs_new();
    REQUIRE(zl_jvp(f, 2, in, (zl_array[]){NULL, NUMBER(1)}, y, dy));
    CHECK_EQ_F64(zl_item(zl_outputs_get(dy, 0)), 2);
    CHECK_EQ_F64(zl_item(zl_outputs_get(dy, 1)), 0);
    zl_outputs_free(y);
    zl_outputs_free(dy);
}

// A number stays weak inside a transform: with float16 arrays the results are float16, as without the
// transform.
TEST(transforms_keep_numbers_weak) {
    zl_array in[] = {NUMBER(2), zl_full(ZL_SCALAR, NUMBER(3), ZL_FLOAT16)}, g[2];
    zl_outputs *y = zl_outputs_new(), *values = zl_outputs_new(), *dy = zl_outputs_new();
    zl_fn f = {.call = two_of_two};
    REQUIRE(zl_eval(in[1]) && zl_value_and_grad(f, 2, in, 2, (int[]){0, 1}, y, g));
    CHECK_ARRAY(zl_outputs_get(y, 0), ZL_FLOAT16, ZL_SCALAR, 6);
    CHECK_ARRAY(g[0], ZL_FLOAT32, ZL_SCALAR, 3);
    CHECK_ARRAY(g[1], ZL_FLOAT16, ZL_SCALAR, 2);
    REQUIRE(zl_jvp(f, 2, in, (zl_array[]){NUMBER(1), NULL}, values, dy));
    CHECK_ARRAY(zl_outputs_get(values, 0), ZL_FLOAT16, ZL_SCALAR, 6);
    CHECK_ARRAY(zl_outputs_get(dy, 0), ZL_FLOAT16, ZL_SCALAR, 3);
    zl_outputs_free(y);
    zl_outputs_free(values);
    zl_outputs_free(dy);
}

// The first result is the loss; the other one is only returned.
TEST(gradients_by_some_arguments) {
    zl_array in[] = {NUMBER(2), NUMBER(3)}, g[2];
    zl_outputs *y = zl_outputs_new();
    zl_fn f = {.call = two_of_two};
    REQUIRE(zl_value_and_grad(f, 2, in, 1, (int[]){1}, y, g));
    CHECK_EQ_F64(zl_item(g[0]), 2);
    CHECK_NEAR(zl_item(zl_outputs_get(y, 1)), sin(2), 1e-6);
    REQUIRE(zl_value_and_grad(f, 2, in, 2, (int[]){1, 0}, NULL, g));
    CHECK_EQ_F64(zl_item(g[0]), 2);
    CHECK_EQ_F64(zl_item(g[1]), 3);
    zl_outputs_free(y);
}

static bool many_results(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    zl_array part[40];
    bool ok = zl_split(in[0], 40, 0, part);
    for (int i = 0; ok && i < 40; i++)
        ok = zl_give(out, zl_square(part[i]));
    return ok;
}

TEST(many_results) {
    zl_array x = zl_arange(0, 40, 1, ZL_FLOAT32), w[40], g;
    for (int i = 0; i < 40; i++)
        w[i] = zl_full(ZL_SHAPE(1), NUMBER(i), ZL_FLOAT32);
    REQUIRE(zl_vjp((zl_fn){.call = many_results}, 1, &x, 40, w, NULL, &g));
    CHECK(zl_item_int(zl_array_equal(g, zl_multiply(NUMBER(2), zl_square(x)), false)));
}

static bool divide(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array pair[2];
    (void)data;
    return count == 2 && zl_divmod(in[0], in[1], pair) && zl_give(out, pair[0]) && zl_give(out, pair[1]);
}

// The derivative by the remainder, a - q * b, reads the other result.
static bool divide_vjp(void *data, int count, const zl_array *in, int results, const zl_array *result,
                       const zl_array *cotangent, zl_outputs *out) {
    (void)data, (void)in;
    return count == 2 && results == 2 && zl_give(out, cotangent[1]) &&
           zl_give(out, zl_negative(zl_multiply(cotangent[1], result[0])));
}

// Records a call with two results, whose derivative needs both.
static bool divide_pair(zl_array a, zl_array b, zl_array *pair) {
    zl_custom_fn f = {.f = {.call = divide}, .vjp = divide_vjp};
    zl_outputs *out = zl_outputs_new();
    bool ok = zl_custom(&f, 2, (zl_array[]){a, b}, out);
    for (int i = 0; ok && i < 2; i++)
        ok = (pair[i] = zl_positive(zl_outputs_get(out, i)));
    zl_outputs_free(out);
    return ok;
}

static bool quotient_and_rest(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array pair[2];
    (void)data;
    return count == 2 && divide_pair(in[0], in[1], pair) && zl_eval(pair[0]) && zl_give(out, pair[1]);
}

TEST(one_of_several_outputs_is_evaluated) {
    zl_array in[] = {VECTOR(7, 8), VECTOR(2, 3)}, one = zl_ones(ZL_SHAPE(2), ZL_FLOAT32), g[2];
    REQUIRE(zl_vjp((zl_fn){.call = quotient_and_rest}, 2, in, 1, &one, NULL, g));
    CHECK_ARRAY(g[0], ZL_FLOAT32, ZL_SHAPE(2), 1, 1);
    CHECK_ARRAY(g[1], ZL_FLOAT32, ZL_SHAPE(2), -3, -2);
}

// Nothing holds the quotient any more when the derivative needs it.
static bool rest_only(void *data, int count, const zl_array *in, zl_outputs *out) {
    bool ok = false;
    zl_scope scope = zl_scope_begin();
    zl_array pair[2];
    if (divide_pair(in[0], in[1], pair) && (!data || zl_eval(pair[1])))
        ok = zl_give(out, pair[1]);
    zl_scope_end(scope);
    return ok && count == 2;
}

TEST(one_of_several_outputs_is_dropped) {
    for (int evaluated = 0; evaluated < 2; evaluated++) {
        zl_array in[] = {VECTOR(7, 8), VECTOR(2, 3)}, one = zl_ones(ZL_SHAPE(2), ZL_FLOAT32), g[2];
        REQUIRE(zl_vjp((zl_fn){.call = rest_only, .data = evaluated ? &one : NULL}, 2, in, 1, &one, NULL, g));
        CHECK_ARRAY(g[0], ZL_FLOAT32, ZL_SHAPE(2), 1, 1);
        CHECK_ARRAY(g[1], ZL_FLOAT32, ZL_SHAPE(2), -3, -2);
    }
}

static bool mixed_axes(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    return count == 2 && zl_give(out, zl_add(in[0], in[1])) && zl_give(out, zl_negative(in[1])) &&
           zl_give(out, in[0]);
}

TEST(axes_of_inputs_and_results) {
    zl_array in[] = {op_test_range(ZL_SHAPE(2, 3), ZL_FLOAT32), VECTOR(10, 20)};
    zl_outputs *out = zl_outputs_new();
    REQUIRE(zl_vmap((zl_fn){.call = mixed_axes}, 2, in, (int[]){1, -1}, 3, (int[]){1, -1, 0}, out));
    CHECK_ARRAY(zl_outputs_get(out, 0), ZL_FLOAT32, ZL_SHAPE(2, 3), 10, 11, 12, 23, 24, 25);
    CHECK_ARRAY(zl_outputs_get(out, 1), ZL_FLOAT32, ZL_SHAPE(2, 3), -10, -10, -10, -20, -20, -20); // repeated
    CHECK_ARRAY(zl_outputs_get(out, 2), ZL_FLOAT32, ZL_SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    zl_outputs_free(out);
}

// Evaluation inside -----------------------------------------------------------------------------------------

static zl_array evaluated_halfway(zl_array x) {
    zl_array y = zl_multiply(x, zl_multiply(NUMBER(3), zl_ones(ZL_SHAPE(2), ZL_FLOAT32)));
    zl_array z = zl_exp(y);
    return zl_eval(z) && zl_eval(y) ? zl_sum(zl_multiply(z, y)) : NULL;
}

TEST(evaluation_inside_keeps_what_derivatives_need) {
    zl_array g = gradient(evaluated_halfway, VECTOR(1, 0));
    CHECK_ARRAY_NEAR(g, ZL_FLOAT32, ZL_SHAPE(2), 1e-5, 12 * exp(3), 3);
    CHECK_ARRAY_NEAR(gradient(evaluated_halfway, VECTOR(1, 0)), ZL_FLOAT32, ZL_SHAPE(2), 1e-5, 12 * exp(3),
                     3);
}

static zl_array outer_x;
static zl_array inner_evaluates(zl_array y) {
    zl_array z = zl_multiply(y, outer_x);
    return zl_eval(z) ? zl_square(z) : NULL;
}
static zl_array outer_evaluates(zl_array x) {
    outer_x = x;
    zl_array g = gradient(inner_evaluates, zl_sin(x)); // 2 x^2 sin x
    return zl_eval(g) ? zl_multiply(g, x) : NULL;
}
TEST(evaluation_inside_two_transforms) {
    double x = 1.3;
    CHECK_NEAR(zl_item(gradient(outer_evaluates, NUMBER(x))), 6 * x * x * sin(x) + 2 * x * x * x * cos(x),
               1e-5);
}

static zl_array reads_data(zl_array x) {
    return zl_item(zl_sum(x)) > 0 ? x : NULL;
}
TEST(mapped_arrays_cannot_be_read) {
    CHECK_ERROR(ZL_ERROR_VALUE, mapped(reads_data, VECTOR(1, 2), 0));
    CHECK_HAS(test_last_error(), "mapped over");
    CHECK_EQ_INT(recorder.trace_depth, 0);
}

static zl_array evaluated_later(zl_array x) {
    zl_array y = zl_exp(x);
    return zl_async_eval(y) ? y : NULL;
}
TEST(nothing_is_evaluated_later_inside) {
    CHECK_ERROR(ZL_ERROR_VALUE, gradient(evaluated_later, NUMBER(1)));
    CHECK_ERROR(ZL_ERROR_VALUE, mapped(evaluated_later, VECTOR(1, 2), 0));
}

TEST(history_ends_with_the_transform) {
    zl_array x = zl_ones(ZL_SHAPE(1000), ZL_FLOAT32);
    REQUIRE(zl_eval(x));
    size_t before = 0;
    for (int i = 0; i < 4; i++) {
        before = i == 1 ? slab_live() : before; // after x was copied to the device
        ZL_SCOPE {
            zl_array g = gradient(sum_of_cubes, x);
            REQUIRE(zl_eval(g));
            CHECK(!g->trace && g->call->detached);
        }
    }
    CHECK_EQ_INT((int64_t)slab_live(), (int64_t)before);
}

// Kinds of numbers ------------------------------------------------------------------------------------------

static zl_array doubled_sum(zl_array x) {
    return zl_sum(zl_multiply(x, NUMBER(2.5)));
}
static zl_array largest_at(zl_array x) {
    return zl_argmax(x);
}
static zl_array stopped(zl_array x) {
    return zl_sum(zl_multiply(x, zl_stop_gradient(x)));
}
static zl_array power_of_nothing(zl_array x) {
    return zl_power(zl_subtract(x, NUMBER(1)), x);
}
static zl_array is_positive(zl_array x) {
    return zl_greater(x, NUMBER(0));
}
TEST(powers_of_zero_and_truth) {
    CHECK_EQ_F64(zl_item(gradient(power_of_nothing, NUMBER(1))), 1);
    CHECK_ARRAY(tangent(is_positive, VECTOR(1, -1), VECTOR(1, 1)), ZL_FLOAT32, ZL_SHAPE(2), 0, 0);
}

TEST(integers_and_constants) {
    zl_array n = zl_from_i32((int32_t[]){1, 2}, ZL_SHAPE(2));
    CHECK_ARRAY(gradient(doubled_sum, n), ZL_INT32, ZL_SHAPE(2), 2, 2);
    CHECK_ARRAY(gradient(largest_at, VECTOR(1, 2)), ZL_FLOAT32, ZL_SHAPE(2), 0, 0);
    CHECK_ARRAY(gradient(stopped, VECTOR(1, 2)), ZL_FLOAT32, ZL_SHAPE(2), 1, 2);
    CHECK_ARRAY(tangent(stopped, VECTOR(1, 2), VECTOR(1, 1)), ZL_FLOAT32, ZL_SCALAR, 3);
}

static zl_array modulus(zl_array z) {
    return zl_sum(zl_abs(z));
}
static zl_array real_of_square(zl_array z) {
    return zl_sum(zl_real(zl_square(z)));
}
static zl_array imaginary_of_square(zl_array z) {
    return zl_sum(zl_imag(zl_square(z)));
}
static zl_array mixed_parts(zl_array z) {
    return zl_sum(zl_imag(zl_multiply(zl_conjugate(z), zl_exp(z))));
}

// Compares both parts of the gradient with differences, and the tangent in a direction with both.
static void check_complex(one_array *f, float re, float im) {
    double h = 1e-3, at[4];
    const float step[4][2] = {{(float)h, 0}, {-(float)h, 0}, {0, (float)h}, {0, -(float)h}};
    for (int i = 0; i < 4; i++)
        at[i] = zl_item(f(zl_from((float[]){re + step[i][0], im + step[i][1]}, ZL_SHAPE(1), ZL_COMPLEX64)));
    zl_array z = zl_from((float[]){re, im}, ZL_SHAPE(1), ZL_COMPLEX64), g = gradient(f, z);
    REQUIRE(zl_eval(g));
    double by_re = (at[0] - at[1]) / (2 * h), by_im = (at[2] - at[3]) / (2 * h);
    CHECK_NEAR(zl_item(zl_real(g)), by_re, 2e-3 * (1 + fabs(by_re)));
    CHECK_NEAR(zl_item(zl_imag(g)), by_im, 2e-3 * (1 + fabs(by_im)));
    zl_array t = zl_from((float[]){0.5f, 2}, ZL_SHAPE(1), ZL_COMPLEX64);
    CHECK_NEAR(zl_item(tangent(f, z, t)), 0.5 * by_re + 2 * by_im, 5e-3 * (1 + fabs(by_re) + fabs(by_im)));
}

TEST(complex_numbers) {
    check_complex(modulus, 1, 1);
    check_complex(real_of_square, 1, 1);
    check_complex(imaginary_of_square, 1, 0.5f);
    check_complex(mixed_parts, 0.3f, -0.7f);
}

// Long graphs -----------------------------------------------------------------------------------------------

enum { LONG = 100000 };

static zl_array long_chain(zl_array x) {
    zl_array y = x;
    for (int i = 0; i < LONG; i++)
        y = zl_add(y, x);
    return y;
}

TEST(a_hundred_thousand_calls) {
    zl_array x = NUMBER(1);
    CHECK_EQ_F64(zl_item(gradient(long_chain, x)), LONG + 1);
    CHECK_EQ_F64(zl_item(tangent(long_chain, x, NUMBER(2))), 2 * (LONG + 1));
    CHECK_ARRAY(mapped(long_chain, VECTOR(1, 2), 0), ZL_FLOAT32, ZL_SHAPE(2), LONG + 1, 2 * (LONG + 1));
}

// Each value is read twice, so that following every path to it would take forever.
static bool diamonds(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array y = in[0];
    for (int i = 0; i < *(int *)data / 6 * 2; i++)
        y = zl_add(y, zl_negative(zl_multiply(y, zl_scalar(i & 1 ? 0.5 : -1))));
    return count == 1 && zl_give(out, y);
}

// Returns the processor time of this thread for the gradient of `calls` calls, evaluated.
static double time_gradient(int calls) {
    struct timespec start, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    ZL_SCOPE {
        zl_array x = NUMBER(1), g = NULL;
        zl_fn f = {.call = diamonds, .data = &calls};
        CHECK(zl_value_and_grad(f, 1, &x, 1, (int[]){0}, NULL, &g));
        CHECK_EQ_F64(zl_item(g), 1); // doubled, then halved
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
}

// Ten times as many calls may take forty times as long, because of caches and other programs, but not a
// hundred times.
static void *differentiate_long_graphs(void *data) {
    double few = INFINITY, many = INFINITY;
    (void)data;
    for (int i = 0; i < 4; i++)
        few = fmin(few, time_gradient(LONG / 10));
    for (int i = 0; i < 4 && (i == 0 || many > 20 * few); i++)
        many = fmin(many, time_gradient(LONG));
    if (!CHECK(many < 40 * few))
        test_note("%d calls: %g s, %d calls: %g s", LONG / 10, few, LONG, many);
    return NULL;
}

TEST(long_graphs_need_linear_time_and_little_stack) {
    pthread_attr_t attributes;
    pthread_t thread;
    REQUIRE(!pthread_attr_init(&attributes) && !pthread_attr_setstacksize(&attributes, 1 << 19));
    REQUIRE(!pthread_create(&thread, &attributes, differentiate_long_graphs, NULL));
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

// Threads ---------------------------------------------------------------------------------------------------

enum { ROUNDS = 50, THREADS = 4 };

// Computes gradients at inputs that all threads share, one of them not computed yet.
static void *differentiate_shared(void *data) {
    zl_array *in = data, one = zl_ones(ZL_SHAPE(2), ZL_FLOAT32), g[2];
    for (int i = 0; i < ROUNDS; i++)
        ZL_SCOPE {
            zl_fn f = {.call = rest_only, .data = i % 2 ? &one : NULL};
            CHECK(zl_vjp(f, 2, in, 1, &one, NULL, g) && zl_eval_all(2, g));
            CHECK_EQ_F64(zl_item(zl_sum(g[1])), -5);
        }
    return NULL;
}

TEST(threads_share_inputs) {
    zl_array in[] = {VECTOR(7, 8), zl_add(VECTOR(1, 2), VECTOR(1, 1))};
    pthread_t thread[THREADS];
    zl_retain(in[1]); // retained, since an evaluation would consume it
    for (int i = 0; i < THREADS; i++)
        REQUIRE(!pthread_create(&thread[i], NULL, differentiate_shared, in));
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    zl_release(in[1]);
}

static void *let_go(void *data) {
    zl_release(data);
    return NULL;
}

// One thread releases an output while another one evaluates the other output of the call.
TEST(siblings_of_several_threads) {
    for (int i = 0; i < ROUNDS; i++)
        ZL_SCOPE {
            zl_array pair[2];
            pthread_t thread;
            zl_scope scope = zl_scope_begin();
            REQUIRE(zl_divmod(VECTOR(7, 8), VECTOR(2, 3), pair));
            zl_retain(pair[0]);
            zl_retain(pair[1]);
            zl_scope_end(scope);
            REQUIRE(!pthread_create(&thread, NULL, let_go, pair[i % 2]));
            CHECK(zl_eval(pair[1 - i % 2]));
            pthread_join(thread, NULL);
            zl_release(pair[1 - i % 2]);
        }
}

// Errors ----------------------------------------------------------------------------------------------------

static bool fails(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count, (void)in, (void)out;
    return false;
}
static bool gives_null(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count, (void)in;
    zl_give(out, NULL);
    return true;
}
static bool gives_nothing(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count, (void)in, (void)out;
    return true;
}
static zl_array wrong_shapes(zl_array x) {
    return zl_add(x, zl_ones(ZL_SHAPE(7), ZL_FLOAT32));
}
static zl_array as_bits(zl_array x) {
    return zl_sum(zl_view(x, ZL_INT32));
}
static zl_array itself(zl_array x) {
    return x;
}

static bool taken(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    zl_array at = zl_multiply(in[1], zl_scalar_int(1)); // still integers, which serve as positions
    return count == 2 && zl_give(out, zl_sum(zl_take(in[0], at, 0)));
}
static bool taken_and_checkpointed(void *data, int count, const zl_array *in, zl_outputs *out) {
    return zl_checkpoint((zl_fn){.call = taken, .data = data}, count, in, out);
}
static zl_array largest(zl_array x) {
    return zl_take(x, zl_argmax(x), 0);
}
static zl_array largest_as_constant(zl_array x) {
    return zl_take(x, zl_stop_gradient(zl_argmax(x)), 0);
}

TEST(positions_have_no_gradient) {
    zl_array in[] = {VECTOR(1, 2, 3), zl_from_i32((int32_t[]){2, 2}, ZL_SHAPE(2))}, one = NUMBER(1), g[2];
    zl_fn f = {.call = taken}, again = {.call = taken_and_checkpointed};
    CHECK_ERROR(ZL_ERROR_VALUE, zl_vjp(f, 2, in, 1, &one, NULL, g));
    CHECK_HAS(test_last_error(), "stop_gradient");
    REQUIRE(zl_value_and_grad(f, 2, in, 1, (int[]){0}, NULL, g));
    CHECK_ARRAY(g[0], ZL_FLOAT32, ZL_SHAPE(3), 0, 0, 2);
    REQUIRE(zl_value_and_grad(again, 2, in, 1, (int[]){0}, NULL, g));
    CHECK_ARRAY(g[0], ZL_FLOAT32, ZL_SHAPE(3), 0, 0, 2);
    CHECK_ERROR(ZL_ERROR_VALUE, gradient(largest, in[0]));
    CHECK_ARRAY(gradient(largest_as_constant, in[0]), ZL_FLOAT32, ZL_SHAPE(3), 0, 0, 1);
}

TEST(positions_have_no_tangent) {
    zl_array in[] = {VECTOR(1, 2, 3), zl_from_i32((int32_t[]){2, 2}, ZL_SHAPE(2))};
    one_array *found = largest, *constant = largest_as_constant;
    zl_outputs *tangents = zl_outputs_new();
    CHECK_ERROR(ZL_ERROR_VALUE, zl_jvp((zl_fn){.call = taken}, 2, in, in, NULL, tangents));
    CHECK_HAS(test_last_error(), "stop_gradient");
    CHECK_ERROR(ZL_ERROR_VALUE, zl_jvp(function_of(&found), 1, in, in, NULL, tangents));
    REQUIRE(zl_jvp(function_of(&constant), 1, in, in, NULL, tangents));
    CHECK_ARRAY(zl_outputs_get(tangents, 0), ZL_FLOAT32, ZL_SCALAR, 3);
    zl_outputs_free(tangents);
}

TEST(errors_of_functions) {
    zl_array x = VECTOR(1, 2), g = NULL;
    one_array *wrong = wrong_shapes;
    CHECK_ERROR(ZL_ERROR_VALUE, zl_vjp((zl_fn){.call = fails}, 1, &x, 1, &x, NULL, &g));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_vjp((zl_fn){.call = gives_null}, 1, &x, 1, &x, NULL, &g));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_vjp(function_of(&wrong), 1, &x, 1, &x, NULL, &g));
    CHECK_HAS(test_last_error(), "zl_add");
    CHECK_ERROR(ZL_ERROR_VALUE, gradient(as_bits, x));
    CHECK_HAS(test_last_error(), "view has no derivative");
    CHECK_ERROR(ZL_ERROR_SHAPE, gradient(itself, x));
    CHECK_ERROR(ZL_ERROR_VALUE,
                zl_value_and_grad((zl_fn){.call = gives_nothing}, 1, &x, 1, (int[]){0}, NULL, &g));
    CHECK(!g);
    CHECK_EQ_INT(recorder.trace_depth, 0);
}

TEST(errors_of_arguments) {
    zl_array x = VECTOR(1, 2), g = NULL, pair[] = {x, x};
    one_array *same = itself;
    zl_fn f = function_of(&same);
    zl_outputs *out = zl_outputs_new();
    CHECK_ERROR(ZL_ERROR_VALUE, zl_vjp((zl_fn){0}, 1, &x, 1, &x, NULL, &g));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_vjp(f, 1, NULL, 1, &x, NULL, &g));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_vjp(f, 1, &x, 0, NULL, NULL, &g));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_vjp(f, 1, &x, 1, (zl_array[]){NUMBER(1)}, NULL, &g));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_jvp(f, 1, &x, (zl_array[]){NUMBER(1)}, NULL, out));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_jvp(f, 1, &x, &x, NULL, NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_value_and_grad(f, 1, &x, 0, NULL, NULL, &g));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_value_and_grad(f, 1, &x, 1, (int[]){1}, NULL, &g));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_value_and_grad(f, 1, &x, 2, (int[]){0, 0}, NULL, &g));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_vmap(f, 1, &x, (int[]){1}, 0, NULL, out));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_vmap(f, 1, &x, (int[]){-1}, 0, NULL, out));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_vmap(f, 1, &x, (int[]){0}, 2, (int[]){0, 0}, out));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_vmap(f, 1, &x, (int[]){0}, 1, (int[]){1}, out));
    pair[1] = zl_ones(ZL_SHAPE(3), ZL_FLOAT32);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_vmap((zl_fn){.call = two_of_two}, 2, pair, (int[]){0, 0}, 0, NULL, out));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_outputs_get(out, 0));
    zl_outputs_free(out);
}

// An earlier error remains the reported one, and does not disturb later calls.
TEST(an_error_from_before) {
    zl_array bad = zl_add(VECTOR(1, 2), zl_ones(ZL_SHAPE(3), ZL_FLOAT32));
    CHECK(!bad && zl_error());
    CHECK_EQ_F64(zl_item(gradient(slope_of_cube, NUMBER(2))), 12);
    CHECK_HAS(zl_error(), "zl_add");
    zl_clear_error();
}
