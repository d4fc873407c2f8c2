// test_unique.c - unique elements compared with a search for each: how many, where, how often; sizes, invalid
// input.

#include <math.h>
#include <string.h>

#include "op/op_test.h"

OP_RULES_HERE(zl_unique);

enum { VALUES, INDEX, INVERSE, COUNTS, OUTPUTS };

static bool all_of(zl_array a, int64_t size, zl_array fill, zl_array *out) {
    return zl_unique(a, size, true, true, true, fill, out) && zl_eval_all(OUTPUTS, out);
}

// Checks that every element of a is found where the outputs say, and that unique elements are ascending.
static void check_elements(zl_array a, zl_array *out) {
    int64_t count = out[VALUES]->size;
    double value[4096];
    memcpy(value, op_test_values(out[VALUES]), sizeof *value * (size_t)count);
    const double *x = op_test_values(a), *index = op_test_values(out[INDEX]);
    const double *inverse = op_test_values(out[INVERSE]), *counts = op_test_values(out[COUNTS]);
    for (int64_t i = 0; i < count; i++) {
        int64_t first = -1, times = 0;
        for (int64_t k = a->size - 1; k >= 0; k--)
            if (x[k] == value[i])
                first = k, times++;
        CHECK_EQ_F64(index[i], (double)first);
        CHECK_EQ_F64(counts[i], (double)times);
        CHECK(i == 0 || value[i - 1] < value[i]);
    }
    for (int64_t k = 0; k < a->size; k++)
        CHECK_EQ_F64(value[(int64_t)inverse[k]], x[k]);
}

TEST(unique_finds_every_element_once) {
    static const zl_dtype dtypes[] = {ZL_BOOL,    ZL_INT8,     ZL_UINT16,  ZL_INT64,
                                      ZL_FLOAT16, ZL_BFLOAT16, ZL_FLOAT32, ZL_FLOAT64};
    static const int64_t sizes[][2] = {{1, 1}, {5, 7}, {40, 50}};
    for (size_t i = 0; i < 3 * sizeof dtypes / sizeof *dtypes; i++)
        if (test_samples(6))
            ZL_SCOPE {
                zl_array a = op_test_random(ZL_SHAPE(sizes[i % 3][0], sizes[i % 3][1]), dtypes[i / 3], 0, 30),
                         out[OUTPUTS], alone;
                a = zl_transpose(a, ZL_ALL);
                REQUIRE(zl_eval(a) && all_of(a, INT64_MIN, NULL, out));
                CHECK_EQ_INT(out[VALUES]->dtype, a->dtype);
                CHECK(out[INDEX]->dtype == ZL_UINT32 && out[INVERSE]->dtype == ZL_UINT32 &&
                      out[COUNTS]->dtype == ZL_INT32);
                CHECK(shape_equal(2, out[INVERSE]->dim, 2, a->dim));
                check_elements(a, out);
                REQUIRE(zl_unique(a, INT64_MIN, false, false, false, NULL, &alone));
                CHECK_EQ_INT(zl_item_int(zl_array_equal(alone, out[VALUES], false)), 1);
            }
}

TEST(unique_of_a_size) {
    zl_array a = zl_from_i32((int32_t[]){2, 1, 2, 3, 1}, ZL_SHAPE(5)), out[OUTPUTS];
    REQUIRE(zl_unique(a, 4, true, true, true, zl_scalar_int(9), out));
    CHECK(!zl_is_available(out[VALUES]));
    CHECK_ARRAY(out[VALUES], ZL_INT32, ZL_SHAPE(4), 1, 2, 3, 9);
    REQUIRE(all_of(a, 4, NULL, out));
    CHECK_ARRAY(out[VALUES], ZL_INT32, ZL_SHAPE(4), 1, 2, 3, 1);
    CHECK_ARRAY(out[INDEX], ZL_UINT32, ZL_SHAPE(4), 1, 0, 3, 1);
    CHECK_ARRAY(out[INVERSE], ZL_UINT32, ZL_SHAPE(5), 1, 0, 1, 2, 0);
    CHECK_ARRAY(out[COUNTS], ZL_INT32, ZL_SHAPE(4), 2, 2, 1, 0);
    REQUIRE(all_of(a, 2, NULL, out));
    CHECK_ARRAY(out[VALUES], ZL_INT32, ZL_SHAPE(2), 1, 2);
    CHECK_ARRAY(out[INVERSE], ZL_UINT32, ZL_SHAPE(5), 1, 0, 1, 1, 0);
    CHECK_ARRAY(out[COUNTS], ZL_INT32, ZL_SHAPE(2), 2, 2);
    REQUIRE(all_of(a, 0, NULL, out));
    CHECK_EMPTY(out[VALUES], ZL_INT32, ZL_SHAPE(0));
    CHECK_ARRAY(out[INVERSE], ZL_UINT32, ZL_SHAPE(5), 0, 0, 0, 0, 0);
}

TEST(unique_gives_what_is_asked_for) {
    zl_array a = zl_from_f32((float[]){NAN, 1, NAN, -0.0f, 0}, ZL_SHAPE(5)), out[2];
    REQUIRE(zl_unique(a, INT64_MIN, false, false, true, NULL, out) && zl_eval_all(2, out));
    CHECK_ARRAY(out[0], ZL_FLOAT32, ZL_SHAPE(4), 0, 1, NAN, NAN);
    CHECK_ARRAY(out[1], ZL_INT32, ZL_SHAPE(4), 2, 1, 1, 1);
    REQUIRE(zl_unique(a, INT64_MIN, true, false, false, NULL, out) && zl_eval_all(2, out));
    CHECK_ARRAY(out[1], ZL_UINT32, ZL_SHAPE(4), 3, 1, 0, 2);
    zl_array one = zl_scalar_int(7);
    REQUIRE(zl_unique(one, INT64_MIN, false, true, false, NULL, out) && zl_eval_all(2, out));
    CHECK_ARRAY(out[0], ZL_INT32, ZL_SHAPE(1), 7);
    CHECK_ARRAY(out[1], ZL_UINT32, ZL_SCALAR, 0);
}

TEST(unique_of_nothing) {
    zl_array a = zl_zeros(ZL_SHAPE(0, 3), ZL_FLOAT32), out[OUTPUTS];
    REQUIRE(all_of(a, INT64_MIN, NULL, out));
    CHECK_EMPTY(out[VALUES], ZL_FLOAT32, ZL_SHAPE(0));
    CHECK_EMPTY(out[INVERSE], ZL_UINT32, ZL_SHAPE(0, 3));
    REQUIRE(all_of(a, 2, zl_scalar(5), out));
    CHECK_ARRAY(out[VALUES], ZL_FLOAT32, ZL_SHAPE(2), 5, 5);
    CHECK_ARRAY(out[COUNTS], ZL_INT32, ZL_SHAPE(2), 0, 0);
}

// An array that is not retained can still be used: it was evaluated, not consumed.
TEST(unique_leaves_its_array) {
    zl_array a = zl_add(zl_arange_int(0, 4, 1, ZL_INT32), zl_scalar_int(1)), out;
    REQUIRE(zl_unique(a, INT64_MIN, false, false, false, NULL, &out));
    CHECK_EQ_F64(zl_item(zl_sum(a)), 10);
}

// Rules -----------------------------------------------------------------------------------------------------

static zl_array three_of(zl_array x) {
    zl_array out;
    return zl_unique(x, 3, false, false, false, NULL, &out) ? out : NULL;
}
RULES(unique, ZL_SHAPE(2, 3), three_of(x))

static zl_array three_with_index(zl_array x) {
    zl_array out[2];
    return zl_unique(x, 8, true, false, false, zl_scalar(4), out) ? out[0] : NULL;
}
RULES(unique_with_index, ZL_SHAPE(5), three_with_index(x))

static zl_array counts_of(zl_array x) {
    zl_array out[OUTPUTS];
    return zl_unique(zl_round(x, 0), 4, true, true, true, NULL, out)
               ? zl_add(out[INDEX], zl_astype(out[COUNTS], ZL_UINT32))
               : NULL;
}
BATCHING(unique_counts, ZL_SHAPE(2, 4), counts_of(x))

static bool unsized(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array y;
    (void)data, (void)count;
    return zl_unique(in[0], INT64_MIN, false, false, false, NULL, &y) && zl_give(out, y);
}

TEST(unique_needs_a_size_where_values_are_not) {
    zl_array a = zl_from_f32((float[]){2, 1, 2, 5}, ZL_SHAPE(1, 4)), grad,
             w = zl_from_f32((float[]){1, 2, 3}, ZL_SHAPE(3));
    zl_outputs *out = zl_outputs_new();
    zl_fn f = {.call = unsized};
    CHECK_ERROR(ZL_ERROR_VALUE, zl_vmap(f, 1, &a, (int[]){0}, 1, NULL, out));
    CHECK_HAS(test_last_error(), "zl_unique: how much it gives was not said, and depends on values: zl_vmap");
    zl_compiled compiled = zl_compile(f, false);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_compiled_call(compiled, NULL, 0, 1, &a, out));
    CHECK_HAS(test_last_error(),
              "zl_unique: how much it gives was not said, and depends on values: zl_compile");
    zl_compiled_release(compiled);
    REQUIRE(zl_vjp(f, 1, &a, 1, &w, NULL, &grad)); // the values are known
    CHECK_ARRAY(grad, ZL_FLOAT32, ZL_SHAPE(1, 4), 2, 1, 0, 3);
    zl_outputs_free(out);
}

TEST(unique_refuses_what_makes_no_sense) {
    zl_array a = zl_arange_int(0, 4, 1, ZL_INT32), out[OUTPUTS];
    CHECK_ERROR(ZL_ERROR_VALUE, zl_unique(a, -1, false, false, false, NULL, out));
    CHECK_STR(test_last_error(), "zl_unique: a size of -1: not less than 0 is possible");
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_unique(a, 2, false, false, false, a, out));
    CHECK_ERROR(ZL_ERROR_OVERFLOW, zl_unique(a, INT64_MAX, false, false, false, NULL, out));
    CHECK_ERROR(ZL_ERROR_VALUE,
                zl_unique(zl_zeros(ZL_SHAPE(0), ZL_FLOAT32), 2, false, false, false, NULL, out));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_unique(a, 2, false, false, false, NULL, NULL));
    CHECK(!zl_unique(NULL, 2, false, false, false, NULL, out));
}
