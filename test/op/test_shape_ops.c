// test_shape_ops.c - joining, splitting, padding and repeating.

#include <limits.h>

#include "op/op_test.h"

#define RANGE(...) op_test_range(ZL_SHAPE(__VA_ARGS__), ZL_INT32)
#define BOTH(...) \
    (const zl_array[]){__VA_ARGS__}, (int)(sizeof((const zl_array[]){__VA_ARGS__}) / sizeof(zl_array))

TEST(concatenate_joins) {
    zl_array x = RANGE(2, 2), y = zl_astype(RANGE(1, 2), ZL_FLOAT16);
    CHECK_ARRAY(zl_concatenate(BOTH(x, y), 0), ZL_FLOAT16, ZL_SHAPE(3, 2), 0, 1, 2, 3, 0, 1);
    CHECK_ARRAY(zl_concatenate(BOTH(x, zl_transpose(x, ZL_ALL)), -1), ZL_INT32, ZL_SHAPE(2, 4), 0, 1, 0, 2, 2,
                3, 1, 3);
    CHECK_ARRAY(zl_concatenate(BOTH(RANGE(0, 2), x, RANGE(0, 2)), 0), ZL_INT32, ZL_SHAPE(2, 2), 0, 1, 2, 3);
    CHECK_ARRAY(zl_concatenate(BOTH(x), 0), ZL_INT32, ZL_SHAPE(2, 2), 0, 1, 2, 3);
    CHECK_EMPTY(zl_concatenate(BOTH(RANGE(0), RANGE(0)), 0), ZL_INT32, ZL_SHAPE(0));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_concatenate(BOTH(x, RANGE(3)), 0));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_concatenate(BOTH(x, RANGE(2, 3)), 0));
    CHECK_STR(test_last_error(), "zl_concatenate: shapes (2, 2) and (2, 3) differ in more than axis 0");
    CHECK_ERROR(ZL_ERROR_AXIS, zl_concatenate(BOTH(x, x), 2));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_concatenate(NULL, 0, 0));
    CHECK(!zl_concatenate(BOTH(x, NULL), 0) && !zl_error());
    zl_array long_one = zl_broadcast_to(zl_scalar(1), ZL_SHAPE(INT64_MAX / 32));
    CHECK_ERROR(ZL_ERROR_OVERFLOW, zl_concatenate(BOTH(long_one, long_one, long_one), 0));
    CHECK_HAS(test_last_error(), "zl_concatenate: ");
}

TEST(concatenate_many) {
    zl_array list[200];
    double want[200];
    for (int i = 0; i < 200; i++) {
        list[i] = zl_full(ZL_SHAPE(1), zl_scalar_int(i), ZL_INT32);
        want[i] = i;
    }
    CHECK(op_test_array(__FILE__, __LINE__, "many", zl_concatenate(list, 200, 0), ZL_INT32, ZL_SHAPE(200), 0,
                        200, want));
}

TEST(stack_adds_an_axis) {
    zl_array x = RANGE(2);
    CHECK_ARRAY(zl_stack(BOTH(x, x), 0), ZL_INT32, ZL_SHAPE(2, 2), 0, 1, 0, 1);
    CHECK_ARRAY(zl_stack(BOTH(x, x), -1), ZL_INT32, ZL_SHAPE(2, 2), 0, 0, 1, 1);
    zl_array half = zl_sum(zl_ones(ZL_SHAPE(2), ZL_FLOAT16));
    CHECK_ARRAY(zl_stack(BOTH(half, zl_scalar(0.5)), 0), ZL_FLOAT16, ZL_SHAPE(2), 2, 0.5); // a weak number
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_stack(BOTH(x, RANGE(3)), 0));
    CHECK_HAS(test_last_error(), "zl_stack: ");
    CHECK_ERROR(ZL_ERROR_AXIS, zl_stack(BOTH(x, x), 2));
}

TEST(split_cuts) {
    zl_array x = RANGE(2, 4), part[4];
    REQUIRE(zl_split(x, 2, 1, part));
    CHECK_ARRAY(part[0], ZL_INT32, ZL_SHAPE(2, 2), 0, 1, 4, 5);
    CHECK_ARRAY(part[1], ZL_INT32, ZL_SHAPE(2, 2), 2, 3, 6, 7);
    REQUIRE(zl_split(x, 2, 1, part));
    CHECK_IS_VIEW(part[1], x);
    REQUIRE(
        zl_split_at(RANGE(6), ZL_SHAPE(4, 2, -1), 0, part)); // a part may be empty, and start before the part
                                                             // before it
    CHECK_ARRAY(part[0], ZL_INT32, ZL_SHAPE(4), 0, 1, 2, 3);
    CHECK_EMPTY(part[1], ZL_INT32, ZL_SHAPE(0));
    CHECK_ARRAY(part[2], ZL_INT32, ZL_SHAPE(3), 2, 3, 4);
    CHECK_ARRAY(part[3], ZL_INT32, ZL_SHAPE(1), 5);
    REQUIRE(zl_split_at(x, ZL_SCALAR, 0, part));
    CHECK_ARRAY(part[0], ZL_INT32, ZL_SHAPE(2, 4), 0, 1, 2, 3, 4, 5, 6, 7);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_split(x, 3, 1, part));
    CHECK(!part[0] && !part[2]);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_split(x, 0, 1, part));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_split(x, 2, 2, part));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_split(x, 2, 0, NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_split_at(x, (zl_shape){NULL, 2}, 0, part));
    CHECK(!zl_split(NULL, 2, 0, part) && !part[1] && !zl_error());
}

TEST(pad_surrounds) {
    zl_array x = RANGE(2, 2);
    CHECK_ARRAY(zl_pad(x, ZL_SHAPE(1, 0), ZL_SHAPE(0, 2), zl_scalar_int(9)), ZL_INT32, ZL_SHAPE(3, 4), 9, 9,
                9, 9, 0, 1, 9, 9, 2, 3, 9, 9);
    CHECK_ARRAY(zl_pad(RANGE(2), ZL_SHAPE(1), ZL_SHAPE(1), zl_scalar(1.7)), ZL_INT32, ZL_SHAPE(4), 1, 0, 1,
                1);
    CHECK_ARRAY(zl_pad(RANGE(0), ZL_SHAPE(1), ZL_SHAPE(1), zl_scalar_int(5)), ZL_INT32, ZL_SHAPE(2), 5, 5);
    CHECK_ARRAY(zl_pad(zl_scalar(4), ZL_SCALAR, ZL_SCALAR, zl_scalar(1)), ZL_FLOAT32, ZL_SCALAR, 4);
    CHECK_ARRAY(zl_pad(zl_flip(zl_transpose(x, ZL_ALL), ZL_AXES(0)), ZL_SHAPE(0, 1), ZL_SHAPE(0, 0),
                       zl_scalar_int(7)),
                ZL_INT32, ZL_SHAPE(2, 3), 7, 1, 3, 7, 0, 2);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_pad(x, ZL_SHAPE(-1, 0), ZL_SHAPE(0, 0), zl_scalar(0)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_pad(x, ZL_SHAPE(1), ZL_SHAPE(0, 0), zl_scalar(0)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_pad(x, ZL_SHAPE(1, 1), ZL_SHAPE(0, 0), RANGE(2)));
    CHECK_ERROR(ZL_ERROR_OVERFLOW, zl_pad(x, ZL_SHAPE(INT64_MAX, 0), ZL_SHAPE(0, 0), zl_scalar(0)));
    CHECK_HAS(test_last_error(), "zl_pad: axis 0");
}

TEST(repeat_and_tile) {
    zl_array x = RANGE(2, 2);
    CHECK_ARRAY(zl_repeat(x, 2, 0), ZL_INT32, ZL_SHAPE(4, 2), 0, 1, 0, 1, 2, 3, 2, 3);
    CHECK_ARRAY(zl_repeat(x, 2, -1), ZL_INT32, ZL_SHAPE(2, 4), 0, 0, 1, 1, 2, 2, 3, 3);
    CHECK_ARRAY(zl_repeat(x, 2, INT_MIN), ZL_INT32, ZL_SHAPE(8), 0, 0, 1, 1, 2, 2, 3, 3);
    CHECK_EMPTY(zl_repeat(x, 0, 0), ZL_INT32, ZL_SHAPE(0, 2));
    CHECK_ARRAY(zl_tile(RANGE(2), ZL_SHAPE(2, 2)), ZL_INT32, ZL_SHAPE(2, 4), 0, 1, 0, 1, 0, 1, 0, 1);
    CHECK_ARRAY(zl_tile(x, ZL_SHAPE(2)), ZL_INT32, ZL_SHAPE(2, 4), 0, 1, 0, 1, 2, 3, 2, 3);
    CHECK_ARRAY(zl_tile(x, ZL_SCALAR), ZL_INT32, ZL_SHAPE(2, 2), 0, 1, 2, 3);
    CHECK_EMPTY(zl_tile(RANGE(2), ZL_SHAPE(2, 0)), ZL_INT32, ZL_SHAPE(2, 0));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_repeat(x, -1, 0));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_tile(x, ZL_SHAPE(-1)));
    CHECK_ERROR(ZL_ERROR_OVERFLOW, zl_repeat(x, INT64_MAX, 0));
    CHECK_ERROR(ZL_ERROR_OVERFLOW, zl_tile(x, ZL_SHAPE(INT64_MAX / 2, 8)));
    CHECK_HAS(test_last_error(), "zl_tile: ");
    CHECK_ERROR(ZL_ERROR_AXIS, zl_repeat(x, 1, 2));
}

static bool padded_with(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    return count == 2 && zl_give(out, zl_pad(in[0], ZL_SHAPE(1), ZL_SHAPE(0), in[1]));
}

TEST(pad_takes_one_value_for_a_batch) {
    zl_array in[] = {RANGE(2, 2), RANGE(2)};
    zl_outputs *out = zl_outputs_new();
    zl_fn f = {.call = padded_with};
    CHECK_ERROR(ZL_ERROR_VALUE, zl_vmap(f, 2, in, (int[]){0, 0}, 0, NULL, out));
    CHECK_HAS(test_last_error(), "zl_pad: ");
    in[1] = zl_scalar_int(7);
    REQUIRE(zl_vmap(f, 2, in, (int[]){0, -1}, 0, NULL, out));
    CHECK_ARRAY(zl_outputs_get(out, 0), ZL_INT32, ZL_SHAPE(2, 3), 7, 0, 1, 7, 2, 3);
    zl_outputs_free(out);
}

TEST(roll_turns) {
    zl_array x = RANGE(2, 3);
    CHECK_ARRAY(zl_roll(x, ZL_SHAPE(1), ZL_ALL), ZL_INT32, ZL_SHAPE(2, 3), 5, 0, 1, 2, 3, 4);
    CHECK_ARRAY(zl_roll(x, ZL_SHAPE(1, 2), ZL_AXES(0, 1)), ZL_INT32, ZL_SHAPE(2, 3), 4, 5, 3, 1, 2, 0);
    CHECK_ARRAY(zl_roll(x, ZL_SHAPE(-1), ZL_AXES(1)), ZL_INT32, ZL_SHAPE(2, 3), 1, 2, 0, 4, 5, 3);
    CHECK_ARRAY(zl_roll(x, ZL_SHAPE(INT64_MIN), ZL_AXES(-1)), ZL_INT32, ZL_SHAPE(2, 3), 2, 0, 1, 5, 3, 4);
    CHECK_ARRAY(zl_roll(x, ZL_SHAPE(3), ZL_AXES(1)), ZL_INT32, ZL_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    CHECK_EMPTY(zl_roll(RANGE(0), ZL_SHAPE(1), ZL_AXES(0)), ZL_INT32, ZL_SHAPE(0));
    CHECK_ARRAY(zl_roll(x, ZL_SHAPE(1, 1, 5), ZL_AXES(1)), ZL_INT32, ZL_SHAPE(2, 3), 2, 0, 1, 5, 3, 4);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_roll(x, ZL_SHAPE(1, 2), ZL_AXES(0, 1, 0)));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_roll(x, (zl_shape){NULL, -1}, ZL_AXES(0)));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_roll(x, ZL_SHAPE(1), ZL_AXES(2)));
}

static zl_array halves(zl_array x) {
    zl_array part[2];
    return zl_split(x, 2, 1, part) ? zl_multiply(part[0], zl_square(part[1])) : NULL;
}

#define ONES zl_ones(ZL_SHAPE(2, 2), ZL_FLOAT64)

RULES(concatenate, ZL_SHAPE(2, 3), zl_square(zl_concatenate(BOTH(x, zl_exp(x), ONES), 1)))
RULES(stack, ZL_SHAPE(2, 3), zl_square(zl_stack(BOTH(x, zl_exp(x)), 1)))
RULES(split, ZL_SHAPE(2, 4), halves(x))
RULES(pad, ZL_SHAPE(2, 3), zl_square(zl_pad(x, ZL_SHAPE(1, 0), ZL_SHAPE(2, 1), zl_scalar(3))))
DERIVATIVES(pad_value, ZL_SCALAR, zl_square(zl_pad(ONES, ZL_SHAPE(1, 0), ZL_SHAPE(2, 1), x)))
DERIVATIVES(pad_both, ZL_SHAPE(2, 2), zl_pad(x, ZL_SHAPE(1, 0), ZL_SHAPE(2, 1), zl_sum(zl_square(x))))
RULES(repeat, ZL_SHAPE(2, 3), zl_square(zl_repeat(x, 2, 1)))
RULES(tile, ZL_SHAPE(2, 3), zl_square(zl_tile(x, ZL_SHAPE(2, 1, 2))))
RULES(roll, ZL_SHAPE(2, 3), zl_square(zl_roll(x, ZL_SHAPE(1, 2), ZL_AXES(0, 1))))
