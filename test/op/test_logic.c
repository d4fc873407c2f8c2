// test_logic.c - booleans, tests of numbers, small formulas, divmod.

#include <float.h>
#include <math.h>

#include "op/op_test.h"

static zl_array odd_numbers(zl_dtype dtype) {
    return zl_astype(zl_from_f32((float[]){0, -1.5f, NAN, INFINITY, -INFINITY}, ZL_SHAPE(5)), dtype);
}

TEST(truth_tables) {
    zl_array a = zl_from_f32((float[]){0, 0, 0.5f, NAN}, ZL_SHAPE(4)),
             b = zl_from_i32((int32_t[]){0, 3, 0, 1}, ZL_SHAPE(4));
    CHECK_ARRAY(zl_logical_and(a, b), ZL_BOOL, ZL_SHAPE(4), 0, 0, 0, 1);
    CHECK_ARRAY(zl_logical_or(a, b), ZL_BOOL, ZL_SHAPE(4), 0, 1, 1, 1);
    CHECK_ARRAY(zl_logical_xor(a, b), ZL_BOOL, ZL_SHAPE(4), 0, 1, 1, 0);
    CHECK_ARRAY(zl_logical_not(a), ZL_BOOL, ZL_SHAPE(4), 1, 1, 0, 0);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_logical_and(a, zl_zeros(ZL_SHAPE(3), ZL_BOOL)));
    CHECK_HAS(test_last_error(), "zl_logical_and: shapes (4,) and (3,)");
    CHECK(!zl_logical_or(NULL, a) && !zl_logical_not(NULL) && !zl_error());
}

TEST(tests_of_numbers) {
    static const zl_dtype floats[] = {ZL_FLOAT16, ZL_BFLOAT16, ZL_FLOAT32, ZL_FLOAT64, ZL_COMPLEX64};
    for (size_t i = 0; i < COUNT(floats); i++) {
        zl_array x = odd_numbers(floats[i]);
        REQUIRE(zl_eval(x));
        CHECK_ARRAY(zl_isnan(x), ZL_BOOL, ZL_SHAPE(5), 0, 0, 1, 0, 0);
        CHECK_ARRAY(zl_isinf(x), ZL_BOOL, ZL_SHAPE(5), 0, 0, 0, 1, 1);
        CHECK_ARRAY(zl_isfinite(x), ZL_BOOL, ZL_SHAPE(5), 1, 1, 0, 0, 0);
        CHECK_ARRAY(zl_isposinf(x), ZL_BOOL, ZL_SHAPE(5), 0, 0, 0, 1, 0);
        CHECK_ARRAY(zl_isneginf(x), ZL_BOOL, ZL_SHAPE(5), 0, 0, 0, 0, 1);
    }
    zl_array n = op_test_range(ZL_SHAPE(2), ZL_UINT8);
    CHECK_ARRAY(zl_isnan(n), ZL_BOOL, ZL_SHAPE(2), 0, 0);
    CHECK_ARRAY(zl_isinf(n), ZL_BOOL, ZL_SHAPE(2), 0, 0);
    CHECK_ARRAY(zl_isfinite(n), ZL_BOOL, ZL_SHAPE(2), 1, 1);
    CHECK_ARRAY(zl_isposinf(n), ZL_BOOL, ZL_SHAPE(2), 0, 0);
    CHECK_ARRAY(zl_isneginf(n), ZL_BOOL, ZL_SHAPE(2), 0, 0);
}

TEST(numbers_for_what_is_none) {
    CHECK_ARRAY(zl_nan_to_num(odd_numbers(ZL_FLOAT32), 7, NAN, NAN), ZL_FLOAT32, ZL_SHAPE(5), 0, -1.5, 7,
                FLT_MAX, -FLT_MAX);
    CHECK_ARRAY(zl_nan_to_num(odd_numbers(ZL_FLOAT16), 0, NAN, NAN), ZL_FLOAT16, ZL_SHAPE(5), 0, -1.5, 0,
                65504, -65504);
    CHECK_ARRAY(zl_nan_to_num(odd_numbers(ZL_BFLOAT16), 0, NAN, -9), ZL_BFLOAT16, ZL_SHAPE(5), 0, -1.5, 0,
                0x1.fep127, -9);
    CHECK_ARRAY(zl_nan_to_num(odd_numbers(ZL_FLOAT64), NAN, 1, 2), ZL_FLOAT64, ZL_SHAPE(5), 0, -1.5, NAN, 1,
                2);
    zl_array n = op_test_range(ZL_SHAPE(2), ZL_INT32);
    CHECK_ARRAY(zl_nan_to_num(n, 5, 6, 7), ZL_INT32, ZL_SHAPE(2), 0, 1);
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_nan_to_num(odd_numbers(ZL_COMPLEX64), 0, 0, 0));
}

TEST(clip_bounds) {
    zl_array x = op_test_range(ZL_SHAPE(5), ZL_INT32);
    CHECK_ARRAY(zl_clip(x, zl_scalar_int(1), zl_scalar_int(3)), ZL_INT32, ZL_SHAPE(5), 1, 1, 2, 3, 3);
    CHECK_ARRAY(zl_clip(x, zl_scalar_int(2), zl_scalar(3.5)), ZL_FLOAT32, ZL_SHAPE(5), 2, 2, 2, 3, 3.5);
    CHECK_ARRAY(zl_clip(zl_scalar(1), x, x), ZL_FLOAT32, ZL_SHAPE(5), 0, 1, 2, 3, 4);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_clip(x, zl_zeros(ZL_SHAPE(2), ZL_INT32), zl_scalar(1)));
    CHECK_HAS(test_last_error(), "zl_clip: ");
    CHECK_ARRAY(zl_clip(x, zl_scalar_int(2), NULL), ZL_INT32, ZL_SHAPE(5), 2, 2, 2, 3, 4);
    CHECK_ARRAY(zl_clip(x, NULL, zl_scalar_int(2)), ZL_INT32, ZL_SHAPE(5), 0, 1, 2, 2, 2);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_clip(x, NULL, NULL));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_clip(x, zl_flip(x, ZL_AXES(3)), zl_scalar_int(2))); // an invalid argument
                                                                                      // is an error, not an
                                                                                      // absent one
    CHECK(!zl_clip(NULL, x, x) && !zl_error());
}

TEST(round_to_decimals) {
    zl_array x = zl_from_f32((float[]){1.25f, 2.5f, -0.125f, 3.5f}, ZL_SHAPE(4));
    CHECK_ARRAY(zl_round(x, 0), ZL_FLOAT32, ZL_SHAPE(4), 1, 2, -0.0, 4);
    CHECK_ARRAY_NEAR(zl_round(x, 1), ZL_FLOAT32, ZL_SHAPE(4), 1e-6, 1.2, 2.5, -0.1, 3.5);
    CHECK_ARRAY(zl_round(zl_from_i32((int32_t[]){123, 15}, ZL_SHAPE(2)), -1), ZL_INT32, ZL_SHAPE(2), 120, 20);
    CHECK_ARRAY(zl_round(zl_from_bool((bool[]){true}, ZL_SHAPE(1)), 0), ZL_BOOL, ZL_SHAPE(1), 1);
}

TEST(angles) {
    CHECK_ARRAY_NEAR(zl_degrees(zl_from_f64((double[]){M_PI}, ZL_SHAPE(1))), ZL_FLOAT64, ZL_SHAPE(1), 1e-12,
                     180);
    CHECK_ARRAY_NEAR(zl_radians(zl_from_i32((int32_t[]){180}, ZL_SHAPE(1))), ZL_FLOAT32, ZL_SHAPE(1), 1e-6,
                     M_PI);
    CHECK(zl_positive(NULL) == NULL && !zl_degrees(NULL) && !zl_error());
}

TEST(divmod_gives_both) {
    zl_array a = zl_from_i32((int32_t[]){-7, 7, -7}, ZL_SHAPE(3)),
             b = zl_from_i32((int32_t[]){2, -2, -2}, ZL_SHAPE(3)), out[2];
    REQUIRE(zl_divmod(a, b, out) && zl_eval_all(2, out));
    CHECK_ARRAY(out[0], ZL_INT32, ZL_SHAPE(3), -4, -4, 3);
    CHECK_ARRAY(out[1], ZL_INT32, ZL_SHAPE(3), 1, -1, -1);
    REQUIRE(zl_divmod(zl_scalar(7), zl_astype(b, ZL_FLOAT16), out) && zl_eval_all(2, out));
    CHECK_ARRAY(out[0], ZL_FLOAT16, ZL_SHAPE(3), 3, -4, -4);
    CHECK_ARRAY(out[1], ZL_FLOAT16, ZL_SHAPE(3), 1, -1, -1);
    REQUIRE(zl_divmod(a, zl_scalar_int(2), out));
    CHECK_ARRAY(out[1], ZL_INT32, ZL_SHAPE(3), 1, 1, 1); // the other output is not used
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_divmod(odd_numbers(ZL_COMPLEX64), a, out));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_divmod(a, zl_zeros(ZL_SHAPE(2), ZL_INT32), out));
    CHECK(!out[0] && !out[1]);
    CHECK(!zl_divmod(NULL, a, out) && !zl_error());
}

static bool parts_of(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    zl_array part[2];
    return count == 2 && zl_divmod(in[0], in[1], part) && zl_give(out, part[0]) && zl_give(out, part[1]);
}

TEST(divmod_is_constant_to_gradients) {
    zl_array in[] = {zl_from_f32((float[]){7, -7}, ZL_SHAPE(2)), zl_from_f32((float[]){3, 3}, ZL_SHAPE(2))},
             g[2];
    zl_array ones = zl_ones(ZL_SHAPE(2), ZL_FLOAT32), both[] = {ones, ones};
    zl_outputs *tangents = zl_outputs_new();
    REQUIRE(zl_vjp((zl_fn){.call = parts_of}, 2, in, 2, both, NULL, g));
    REQUIRE(zl_jvp((zl_fn){.call = parts_of}, 2, in, both, NULL, tangents));
    for (int i = 0; i < 2; i++) {
        CHECK_ARRAY(g[i], ZL_FLOAT32, ZL_SHAPE(2), 0, 0);
        CHECK_ARRAY(zl_outputs_get(tangents, i), ZL_FLOAT32, ZL_SHAPE(2), 0, 0);
    }
    zl_outputs_free(tangents);
}

static zl_array both_parts(zl_array x) {
    zl_array out[2];
    zl_array b = zl_full(ZL_SHAPE(3), zl_scalar(0.75), ZL_FLOAT64);
    if (!zl_divmod(zl_multiply(x, zl_scalar(3)), zl_multiply(b, x), out))
        return NULL;
    return zl_add(out[0], zl_square(out[1]));
}

static zl_array remainder_of(zl_array x) {
    zl_array out[2];
    return zl_divmod(zl_square(x), zl_sum_axis(x, 0, false), out) ? out[1] : NULL;
}

BATCHING(divmod, ZL_SHAPE(3), both_parts(x))
BATCHING(remainder_of, ZL_SHAPE(2, 3), remainder_of(x))
RULES(clip, ZL_SHAPE(2, 3), zl_clip(x, zl_scalar(0.7), zl_scalar(1.6)))
RULES(degrees, ZL_SHAPE(2, 3), zl_degrees(x))
RULES(nan_to_num, ZL_SHAPE(2, 3), zl_square(zl_nan_to_num(x, 0, 0, 0)))
