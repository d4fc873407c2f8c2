// test_matmul_fp8.c - products of fp8 numbers compared with those in float64, for every layout, size and
// dtype of results.

#include <math.h>
#include <string.h>

#include "device/device.h"
#include "op/op_test.h"
#include "fuzz/call_op.h"

OP_RULES_HERE(zl_matmul_fp8);
OP_FITTING(zl_matmul_fp8, a, ZL_UINT8, 2, 3);
OP_FITTING(zl_matmul_fp8, b, ZL_UINT8, 3, 4);

static const zl_dtype results[] = {ZL_BFLOAT16, ZL_FLOAT16, ZL_FLOAT32};

// Evaluates x, which is read more than once.
static zl_array ready(zl_array x) {
    CHECK(zl_eval(x));
    return x;
}

static zl_array between(zl_shape shape, double low, double high) {
    zl_array key = zl_random_key(test_between(0, 1 << 20));
    return zl_random_uniform(zl_scalar(low), zl_scalar(high), shape, ZL_FLOAT32, key);
}

static zl_array codes(zl_shape shape) {
    return ready(zl_to_fp8(between(shape, -3, 3)));
}

static zl_array wide(zl_array x) {
    return zl_from_fp8(x, ZL_FLOAT64);
}

// Returns the error that sums of a device may have, relative to the sum of magnitudes: matrix units of GPUs
// add with 13 bits.
static double sums_bound(void) {
    const char *device = setting_text(SETTING_DEVICE);
    return strcmp(device, "cpu") ? 0x1p-12 : 0x1p-20;
}

static double rounding(zl_dtype dtype) {
    return dtype == ZL_BFLOAT16 ? 0x1p-8 : dtype == ZL_FLOAT16 ? 0x1p-11 : 0x1p-24;
}

// Checks that y is a times b times scale, rounded once, after sums with a small error.
static void check_product(zl_array y, zl_array a, zl_array b, double scale) {
    zl_array factor = zl_scalar(scale), exact = zl_multiply(zl_matmul(wide(a), wide(b)), factor);
    zl_array size = zl_abs(zl_multiply(zl_matmul(zl_abs(wide(a)), zl_abs(wide(b))), factor));
    zl_dtype dtype = zl_dtype_of(y);
    zl_array allowed = zl_add(zl_multiply(zl_abs(exact), zl_scalar(rounding(dtype))),
                              zl_multiply(size, zl_scalar(sums_bound())));
    zl_array off = zl_abs(zl_subtract(zl_astype(y, ZL_FLOAT64), exact));
    double worst = zl_item(zl_max(zl_subtract(off, allowed)));
    if (!CHECK(worst <= 0x1p-23))
        test_note("%s, %s times %s: off by %g too much", zl_dtype_name(dtype), array_text(a), array_text(b),
                  worst);
}

TEST(fp8_products) {
    static const int64_t sizes[][3] = {{1, 1, 1},      {64, 64, 64},  {33, 70, 65}, {5, 200, 1},
                                       {1, 300, 7},    {16, 32, 48},  {1, 64, 256}, {257, 31, 130},
                                       {100, 520, 50}, {48, 1000, 96}};
    for (size_t i = 0; i < COUNT(sizes) * 4; i++)
        if (test_samples(5))
            ZL_SCOPE {
                const int64_t *s = sizes[i / 4];
                zl_array a = i & 1 ? ready(zl_matrix_transpose(codes(ZL_SHAPE(s[1], s[0]))))
                                   : codes(ZL_SHAPE(s[0], s[1]));
                zl_array b = i & 2 ? ready(zl_matrix_transpose(codes(ZL_SHAPE(s[2], s[1]))))
                                   : codes(ZL_SHAPE(s[1], s[2]));
                zl_dtype dtype = results[i % COUNT(results)];
                zl_array y = ready(zl_matmul_fp8(a, b, 1, 1, dtype));
                CHECK_EQ_INT(zl_dtype_of(y), dtype);
                check_product(y, a, b, 1);
                check_product(zl_matmul_fp8(a, b, 0.3, -1.5, dtype), a, b, (float)(0.3 * -1.5));
            }
}

// Integers whose sums are exact in any order, so every element is exact.
TEST(fp8_products_of_whole_numbers) {
    static const int64_t sizes[][3] = {{64, 256, 96}, {130, 32, 33}, {17, 500, 40}};
    for (size_t i = 0; i < COUNT(sizes); i++)
        ZL_SCOPE {
            const int64_t *s = sizes[i];
            zl_array a = ready(zl_to_fp8(zl_floor(between(ZL_SHAPE(s[0], s[1]), -1, 2))));
            zl_array b = ready(zl_to_fp8(zl_floor(between(ZL_SHAPE(s[2], s[1]), -1, 2))));
            b = ready(zl_matrix_transpose(b));
            zl_array exact = ready(zl_matmul(wide(a), wide(b)));
            for (size_t k = 0; k < COUNT(results); k++) {
                zl_array y = zl_matmul_fp8(a, b, 1, 1, results[k]);
                CHECK_EQ_INT(zl_item_int(zl_array_equal(y, zl_astype(exact, results[k]), false)), 1);
            }
        }
}

TEST(fp8_products_of_every_code) {
    uint8_t all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (uint8_t)i;
    zl_array x = zl_from(all, ZL_SHAPE(256, 1), ZL_UINT8),
             one = ready(zl_to_fp8(zl_ones(ZL_SHAPE(1, 1), ZL_FLOAT32)));
    for (size_t k = 0; k < COUNT(results); k++) {
        zl_array y = zl_matmul_fp8(x, one, 1, 1, results[k]);
        CHECK_EQ_INT(zl_item_int(zl_array_equal(y, zl_from_fp8(x, results[k]), true)), 1);
    }
    // Infinite beyond the range of the dtype; 0 if the scale is 0.
    CHECK_ARRAY(zl_matmul_fp8(zl_slice(x, ZL_SHAPE(126, 0), ZL_SHAPE(128, 1), ZL_SHAPE(1, 1)), one, 1000, 1,
                              ZL_FLOAT16),
                ZL_FLOAT16, ZL_SHAPE(2, 1), INFINITY, NAN);
    CHECK_ARRAY(zl_matmul_fp8(one, one, 0, 1, ZL_FLOAT32), ZL_FLOAT32, ZL_SHAPE(1, 1), 0);
}

TEST(fp8_products_of_batches) {
    zl_array a = codes(ZL_SHAPE(2, 1, 3, 16)), b = codes(ZL_SHAPE(4, 7, 16));
    b = ready(zl_matrix_transpose(b));
    zl_array y = ready(zl_matmul_fp8(a, b, 2, 1, ZL_FLOAT32));
    CHECK(zl_ndim(y) == 4 && zl_dim(y, 0) == 2 && zl_dim(y, 1) == 4);
    check_product(y, a, b, 2);
    zl_array crossed = ready(zl_swapaxes(a, 0, 1)), many = ready(zl_expand_dims(b, ZL_AXES(1)));
    check_product(zl_matmul_fp8(crossed, many, 1, 1, ZL_BFLOAT16), crossed, many, 1);
    zl_array one = codes(ZL_SHAPE(16, 5));
    zl_array part = ready(zl_slice(one, ZL_SHAPE(0, 1), ZL_SHAPE(16, 5), ZL_SHAPE(1, 2)));
    check_product(zl_matmul_fp8(a, one, 1, 1, ZL_FLOAT32), a, one, 1);
    check_product(zl_matmul_fp8(a, part, 1, 1, ZL_FLOAT32), a, part, 1);
}

TEST(fp8_products_of_vectors) {
    zl_array a = codes(ZL_SHAPE(3, 40)), v = codes(ZL_SHAPE(40)), u = codes(ZL_SHAPE(3));
    zl_array y = ready(zl_matmul_fp8(a, v, 1, 1, ZL_FLOAT32)),
             z = ready(zl_matmul_fp8(u, a, 1, 1, ZL_FLOAT32));
    CHECK(zl_ndim(y) == 1 && zl_dim(y, 0) == 3 && zl_ndim(z) == 1 && zl_dim(z, 0) == 40);
    check_product(y, a, v, 1);
    check_product(z, u, a, 1);
    check_product(zl_matmul_fp8(v, v, 1, 1, ZL_FLOAT32), v, v, 1);
    CHECK_EMPTY(zl_matmul_fp8(zl_zeros(ZL_SHAPE(0, 3), ZL_UINT8), a, 1, 1, ZL_FLOAT16), ZL_FLOAT16,
                ZL_SHAPE(0, 40));
    CHECK_ARRAY(zl_matmul_fp8(zl_zeros(ZL_SHAPE(1, 0), ZL_UINT8), zl_zeros(ZL_SHAPE(0, 2), ZL_UINT8), 1, 1,
                              ZL_BFLOAT16),
                ZL_BFLOAT16, ZL_SHAPE(1, 2), 0, 0);
}

TEST(fp8_products_refuse) {
    zl_array a = codes(ZL_SHAPE(3, 4)), b = codes(ZL_SHAPE(4, 2)),
             x = op_test_random(ZL_SHAPE(3, 4), ZL_FLOAT32, -1, 1), g;
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_matmul_fp8(x, b, 1, 1, ZL_BFLOAT16));
    CHECK_HAS(test_last_error(), "float32 times uint8");
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_matmul_fp8(a, b, 1, 1, ZL_FLOAT64));
    CHECK_HAS(test_last_error(), "bfloat16, float16 and float32");
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_matmul_fp8(a, a, 1, 1, ZL_BFLOAT16));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_matmul_fp8(a, zl_take(a, zl_scalar_int(0), -1), 1, 1, ZL_BFLOAT16));
    CHECK_ERROR(ZL_ERROR_SHAPE,
                zl_matmul_fp8(zl_full(ZL_SHAPE(2, 3, 4), zl_scalar_int(1), ZL_UINT8),
                              zl_full(ZL_SHAPE(3, 4, 2), zl_scalar_int(1), ZL_UINT8), 1, 1, ZL_BFLOAT16));
    CHECK(!zl_matmul_fp8(NULL, b, 1, 1, ZL_BFLOAT16) && !zl_error());
    zl_array y = zl_sum(zl_matmul_fp8(zl_astype(x, ZL_UINT8), b, 1, 1, ZL_FLOAT32));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_grad(y, 1, &x, &g));
    CHECK_HAS(test_last_error(), "zl_matmul_fp8: there is no gradient by codes");
    zl_array still = zl_stop_gradient(zl_astype(x, ZL_UINT8));
    CHECK(zl_grad(zl_sum(zl_multiply(x, zl_sum(zl_matmul_fp8(still, b, 1, 1, ZL_FLOAT32)))), 1, &x, &g));
}

// Functions of fp8 products, which are batched, and replayed with other sizes.
static zl_array by_both(zl_array x) {
    return zl_matmul_fp8(zl_to_fp8(x), zl_to_fp8(zl_matrix_transpose(x)), 0.5, 1, ZL_FLOAT32);
}

static zl_array by_first(zl_array x) {
    return zl_matmul_fp8(zl_to_fp8(x), zl_full(ZL_SHAPE(5, 4), zl_scalar_int(60), ZL_UINT8), 1, 1,
                         ZL_FLOAT32);
}

TEST(fp8_products_batched) {
    op_test_batching(by_both, ZL_SHAPE(3, 5), -2, 2);
    op_test_batching(by_first, ZL_SHAPE(3, 5), -2, 2);
}

static bool call_both(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    return zl_give(out, zl_matmul_fp8(in[0], in[1], 0.5, 1, ZL_FLOAT32));
}

TEST(fp8_products_of_other_sizes) {
    zl_compiled c = zl_compile((zl_fn){.call = call_both}, true);
    for (int64_t n = 1; n < 5; n++)
        ZL_SCOPE {
            zl_array in[] = {codes(ZL_SHAPE(n, 1, 3, 4 - n)), codes(ZL_SHAPE(7 - n, 4 - n, 2))};
            zl_outputs *out = zl_outputs_new();
            if (CHECK(zl_compiled_call(c, NULL, 0, 2, in, out)))
                check_product(ready(zl_outputs_get(out, 0)), in[0], in[1], 0.5);
            zl_outputs_free(out);
        }
    zl_compiled_release(c);
}
