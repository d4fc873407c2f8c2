// test_rope.c - rotary positions: compared with cosines and sines, and bit by bit with the same computation
// composed of other ops; rules, invalid input.

#include <limits.h>
#include <math.h>

#include "op/op_test.h"
#include "op/ops.h"

TEST(kernels_are_named_by_their_clauses) {
    struct op_kernel k = {.inputs = 0};
    op_kernel_set(&k, "rope", "ITEM=%s,WIDE=%s,LEAST=%d,MOST=%d,NONE=%d,SOME=%d", "bf16", "f32", INT_MIN,
                  INT_MAX, 0, -7);
    CHECK_STR(k.file, "rope");
    CHECK_STR(k.clauses, "ITEM=bf16,WIDE=f32,LEAST=-2147483648,MOST=2147483647,NONE=0,SOME=-7");
    op_kernel_set(&k, "softmax", "A=%d", 1);
    CHECK_STR(k.file, "softmax");
    CHECK_STR(k.clauses, "A=1");
}

TEST(rope_turns_pairs) {
    zl_array x = op_test_ready(zl_reshape(zl_arange(1, 13, 1, ZL_FLOAT32), ZL_SHAPE(1, 2, 6))),
             zero = zl_scalar_int(0);
    zl_array y = op_test_ready(zl_fast_rope(x, 4, true, 100, 1, zero, NULL));
    const float *v = zl_data_f32(y);
    REQUIRE(v);
    for (int i = 0; i < 6; i++)
        CHECK_EQ_F64(v[i], i + 1); // at position 0
    CHECK_NEAR(v[6], 7 * cos(1) - 8 * sin(1), 1e-5);
    CHECK_NEAR(v[7], 7 * sin(1) + 8 * cos(1), 1e-5);
    CHECK_NEAR(v[8], 9 * cos(0.1) - 10 * sin(0.1), 1e-5);
    CHECK_EQ_F64(v[10], 11);
    v = zl_data_f32(op_test_ready(zl_fast_rope(x, 4, false, 100, 1, zl_scalar_int(1), NULL)));
    CHECK_NEAR(v[0], 1 * cos(1) - 3 * sin(1), 1e-5);
    CHECK_NEAR(v[2], 1 * sin(1) + 3 * cos(1), 1e-5);
    zl_array freqs = zl_from_f32((float[]){1, 10}, ZL_SHAPE(2));
    CHECK(op_test_near(zl_fast_rope(x, 4, true, NAN, 1, zero, freqs), y));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_fast_rope(x, 4, true, 100, 1, zero, freqs));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_fast_rope(x, 4, true, NAN, 1, zero, NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_fast_rope(x, 3, true, 100, 1, zero, NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_fast_rope(x, 8, true, 100, 1, zero, NULL));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_fast_rope(x, 4, true, 100, 1, zl_scalar(1), NULL));
    CHECK_ERROR(ZL_ERROR_SHAPE,
                zl_fast_rope(x, 4, true, 100, 1, zl_from_i32((int32_t[]){1, 2}, ZL_SHAPE(2)), NULL));
}

// Returns y's call composed of other ops, on the same inputs.
static zl_array composed(zl_array y) {
    zl_array z = NULL;
    return y && y->call->op == &op_rope && op_rope.composed(y->call, y->call->in, &z) ? z : NULL;
}

static void check_bits(zl_array x, int dims, bool traditional, double scale, zl_array offset,
                       zl_array freqs) {
    zl_array y = zl_fast_rope(x, dims, traditional, freqs ? NAN : 10000, scale, offset, freqs),
             z = composed(y);
    REQUIRE(z);
    CHECK_EQ_INT(y->dtype, x->dtype);
    CHECK_EQ_INT(zl_item_int(zl_array_equal(y, z, false)), 1);
}

static const zl_dtype dtypes[] = {ZL_FLOAT16, ZL_BFLOAT16, ZL_FLOAT32, ZL_FLOAT64};

static void check_kinds(zl_array x, int dims) {
    zl_array one = zl_from_i32((int32_t[]){1000}, ZL_SHAPE(1)),
             each = zl_from_i64((int64_t[]){3, 70000}, ZL_SHAPE(2));
    zl_array freqs = op_test_random(ZL_SHAPE(dims / 2), ZL_FLOAT32, 1, 1000);
    REQUIRE(zl_eval_all(4, (zl_array[]){x, one, each, freqs}));
    check_bits(x, dims, false, 1, zl_scalar_int(7), NULL);
    check_bits(x, dims, true, 0.3, one, NULL);
    check_bits(x, dims, false, 2, each, freqs);
}

TEST(rope_has_the_bits_of_its_formula) {
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        ZL_SCOPE {
            zl_array x = op_test_random(ZL_SHAPE(2, 3, 17, 24), dtypes[i], -2, 2);
            check_kinds(x, 24);
            check_kinds(x, 10);
        }
}

static zl_array waves(zl_shape shape, zl_dtype dtype) {
    int64_t size = 1;
    for (int i = 0; i < shape.ndim; i++)
        size *= shape.dim[i];
    return op_test_ready(
        zl_reshape(zl_astype(zl_sin(zl_arange(0, (double)size, 1, ZL_FLOAT32)), dtype), shape));
}

// Rows and pairs of more than a tile, and heads that a thread computes together.
TEST(rope_of_large_arrays) {
    check_bits(waves(ZL_SHAPE(1, 2, 3, 2100), ZL_FLOAT32), 2100, false, 1, zl_scalar_int(9), NULL);
    check_bits(waves(ZL_SHAPE(1, 2, 3, 2100), ZL_BFLOAT16), 2060, true, 1, zl_scalar_int(9), NULL);
    check_bits(waves(ZL_SHAPE(2, 8, 600, 128), ZL_BFLOAT16), 128, false, 1, zl_scalar_int(5), NULL);
}

// Arrays with heads and positions exchanged are read in place; arrays whose features are not contiguous are
// copied.
TEST(rope_of_views) {
    zl_array x = op_test_ready(op_test_random(ZL_SHAPE(2, 17, 3, 24), ZL_FLOAT32, -2, 2));
    zl_array turned = zl_transpose(x, ZL_AXES(0, 2, 1, 3));
    zl_array part = zl_slice(turned, ZL_SHAPE(0, 1, 2, 4), ZL_SHAPE(2, 3, 17, 24), ZL_SHAPE(1, 1, 3, 1));
    CHECK(zl_fast_rope(part, 20, false, 10, 1, zl_scalar_int(1), NULL)->call->in[0] == part);
    check_kinds(turned, 24);
    check_kinds(part, 20);
    check_kinds(part, 8);
    check_kinds(zl_flip(turned, ZL_AXES(2)), 24);
    check_kinds(zl_transpose(x, ZL_AXES(0, 3, 2, 1)), 16);
    check_kinds(
        zl_broadcast_to(zl_slice(x, ZL_SHAPE(0, 0, 0, 0), ZL_SHAPE(2, 17, 1, 24), ZL_SHAPE(1, 1, 1, 1)),
                        ZL_SHAPE(2, 17, 3, 24)),
        24);
}

TEST(rope_of_other_ranks) {
    zl_array x = op_test_ready(op_test_random(ZL_SHAPE(2, 3, 4, 5, 8), ZL_FLOAT32, -2, 2)),
             at = zl_scalar_int(2);
    zl_array y = op_test_ready(zl_fast_rope(x, 8, false, 100, 1, at, NULL));
    CHECK(op_test_near(zl_flatten(y, 1, 2), zl_fast_rope(zl_flatten(x, 1, 2), 8, false, 100, 1, at, NULL)));
    zl_array z = zl_take(zl_take(x, zl_scalar_int(1), 2), zl_scalar_int(1), 1);
    CHECK(op_test_near(zl_take(zl_take(y, zl_scalar_int(1), 2), zl_scalar_int(1), 1),
                       zl_fast_rope(z, 8, false, 100, 1, at, NULL)));
    CHECK_EMPTY(zl_fast_rope(zl_zeros(ZL_SHAPE(2, 0, 8), ZL_FLOAT32), 8, false, 100, 1, at, NULL), ZL_FLOAT32,
                ZL_SHAPE(2, 0, 8));
}

// Rules -----------------------------------------------------------------------------------------------------

#define OFFSETS zl_from_i32((int32_t[]){1, 5}, ZL_SHAPE(2))
#define LAST(x) zl_add(zl_sum_axes(zl_square(x), ZL_AXES(0, 1), false), zl_scalar(1))

RULES(rope, ZL_SHAPE(2, 2, 4), zl_square(zl_fast_rope(x, 2, false, 10, 1, zl_scalar_int(3), NULL)))
RULES(rope_of_neighbours, ZL_SHAPE(2, 2, 4),
      zl_square(zl_fast_rope(x, 4, true, 10, 1, zl_scalar_int(3), NULL)))
RULES(rope_of_wave_lengths, ZL_SHAPE(2, 2, 4),
      zl_fast_rope(zl_concatenate((zl_array[]){x, x}, 2, -1), 8, false, NAN, 0.1, OFFSETS, LAST(x)))

static bool each_of(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    return zl_give(out,
                   zl_fast_rope(in[0], 4, true, count > 2 ? NAN : 10, 1, in[1], count > 2 ? in[2] : NULL));
}

// An offset and wave lengths for each element of the batch.
TEST(rope_of_batches) {
    zl_array in[] = {op_test_ready(op_test_random(ZL_SHAPE(2, 2, 3, 6), ZL_FLOAT32, -2, 2)),
                     op_test_ready(zl_from_i32((int32_t[]){1, 2, 30, 4, 5, 60}, ZL_SHAPE(3, 2))),
                     op_test_ready(op_test_random(ZL_SHAPE(3, 2), ZL_FLOAT32, 1, 9))};
    op_test_together();
    for (int count = 2; count <= 3; count++)
        ZL_SCOPE {
            zl_outputs *out = zl_outputs_new();
            REQUIRE(zl_vmap((zl_fn){.call = each_of}, count, in, (int[]){-1, 0, 0}, 1, NULL, out));
            for (int i = 0; i < 3; i++) {
                zl_array at = zl_scalar_int(i);
                zl_array freqs = count > 2 ? zl_take(in[2], at, 0) : NULL;
                zl_array y = zl_fast_rope(in[0], 4, true, freqs ? NAN : 10, 1, zl_take(in[1], at, 0), freqs);
                CHECK_EQ_INT(zl_item_int(zl_array_equal(zl_take(zl_outputs_get(out, 0), at, 0), y, false)),
                             1);
            }
            zl_outputs_free(out);
        }
    op_test_apart();
}
