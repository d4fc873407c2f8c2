// test_attention.c - the kernels of attention compared with other ops, of which float64 attention is
// composed: results, derivatives and batches, for all kinds of masks, and sizes that fill blocks or not.

#include <math.h>

#include "op/op_test.h"

enum mask { NO_MASK, CAUSAL, BOOLS, NUMBERS, MASKS };

struct attended {
    int64_t batch, heads, matrices, queries, keys, dim, width;
    enum mask mask;
    bool sinks;
};

enum { INPUTS = 6 }; // q, k, v, mask, sinks, and factors of the results

// Records the call of a case, in which mask and sinks may not be used.
static zl_array attend(const struct attended *c, const zl_array *in) {
    zl_array mask = c->mask == BOOLS ? zl_greater(in[3], zl_scalar(-0.3)) : c->mask == NUMBERS ? in[3] : NULL;
    zl_array y = zl_fast_scaled_dot_product_attention(in[0], in[1], in[2], 0.6, mask, c->sinks ? in[4] : NULL,
                                                      c->mask == CAUSAL ? "causal" : NULL);
    return zl_multiply(y, in[5]);
}

static bool value(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)count;
    return zl_give(out, attend(data, in));
}

static bool gradient(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array grads[INPUTS], one = zl_ones(zl_shape_of(in[5]), zl_dtype_of(in[5]));
    bool ok = zl_vjp((zl_fn){.call = value, .data = data}, count, in, 1, &one, NULL, grads);
    for (int i = 0; ok && i < count; i++)
        ok = zl_give(out, grads[i]);
    return ok;
}

// Makes tangents or cotangents that differ from each other, from the inputs.
static void turn(int count, const zl_array *in, zl_array *out) {
    for (int i = 0; i < count; i++)
        out[i] = zl_sin(zl_add(in[i], zl_scalar(i)));
}

static bool tangent(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array t[INPUTS];
    turn(count, in, t);
    return zl_jvp((zl_fn){.call = value, .data = data}, count, in, t, NULL, out);
}

static bool gradient_tangent(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array t[INPUTS];
    turn(count, in, t);
    return zl_jvp((zl_fn){.call = gradient, .data = data}, count, in, t, NULL, out);
}

static bool second_gradient(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array t[INPUTS], grads[INPUTS];
    turn(count, in, t);
    bool ok = zl_vjp((zl_fn){.call = gradient, .data = data}, count, in, count, t, NULL, grads);
    for (int i = 0; ok && i < count; i++)
        ok = zl_give(out, grads[i]);
    return ok;
}

// Maps over one more axis, which all inputs but one have.
static bool batched(zl_fn f, int results, int count, const zl_array *in, zl_outputs *out) {
    zl_array many[INPUTS];
    int axis[INPUTS], out_axis[INPUTS] = {0};
    for (int i = 0; i < count; i++) {
        zl_array pair[] = {in[i], zl_cos(in[i]), zl_sin(in[i])};
        axis[i] = i == 1 ? -1 : 0;
        many[i] = i == 1 ? in[i] : zl_stack(pair, 3, 0);
    }
    return zl_vmap(f, count, many, axis, results, out_axis, out);
}

static bool value_batched(void *data, int count, const zl_array *in, zl_outputs *out) {
    return batched((zl_fn){.call = value, .data = data}, 1, count, in, out);
}

static bool gradient_batched(void *data, int count, const zl_array *in, zl_outputs *out) {
    return batched((zl_fn){.call = gradient, .data = data}, count, count, in, out);
}

typedef bool function(void *data, int count, const zl_array *in, zl_outputs *out);

static void compare(function *f, const char *what, const struct attended *c, const zl_array *in,
                    zl_dtype dtype, double bound) {
    zl_outputs *exact = zl_outputs_new(), *out = zl_outputs_new();
    zl_array narrow[INPUTS], wide[INPUTS];
    for (int i = 0; i < INPUTS; i++) {
        narrow[i] = zl_astype(in[i], dtype);
        wide[i] = zl_astype(narrow[i], ZL_FLOAT64);
    }
    bool ok = CHECK(f((void *)(uintptr_t)c, INPUTS, wide, exact)) &&
              CHECK(f((void *)(uintptr_t)c, INPUTS, narrow, out));
    for (int i = 0; ok && i < zl_outputs_count(exact); i++) {
        zl_array a = zl_astype(zl_outputs_get(out, i), ZL_FLOAT64), b = zl_outputs_get(exact, i);
        if (!CHECK(zl_eval_all(2, (zl_array[]){a, b})) ||
            !CHECK(zl_item_int(zl_allclose(a, b, bound, bound, true)) == 1))
            test_note("%s, output %d: by %g of %g", what, i, zl_item(zl_max(zl_abs(zl_subtract(a, b)))),
                      zl_item(zl_max(zl_abs(b))));
    }
    zl_outputs_free(exact);
    zl_outputs_free(out);
}

static void make_inputs(const struct attended *c, zl_array *in) {
    in[0] = op_test_random(ZL_SHAPE(c->batch, c->heads, c->queries, c->dim), ZL_FLOAT64, -1, 1);
    in[1] = op_test_random(ZL_SHAPE(c->batch, c->matrices, c->keys, c->dim), ZL_FLOAT64, -1, 1);
    in[2] = op_test_random(ZL_SHAPE(c->batch, c->matrices, c->keys, c->width), ZL_FLOAT64, -1, 1);
    in[3] = op_test_random(ZL_SHAPE(c->heads, 1, c->keys), ZL_FLOAT64, -1, 1);
    in[4] = op_test_random(ZL_SHAPE(c->heads), ZL_FLOAT64, -1, 1);
    in[5] = op_test_random(ZL_SHAPE(c->batch, c->heads, c->queries, c->width), ZL_FLOAT64, -1, 1);
}

static void check_case(const struct attended *c, bool all) {
    zl_array in[INPUTS];
    make_inputs(c, in);
    compare(value, "value", c, in, ZL_FLOAT32, 1e-5);
    compare(value, "value of float16", c, in, ZL_FLOAT16, 4e-3);
    compare(value, "value of bfloat16", c, in, ZL_BFLOAT16, 3e-2);
    compare(gradient, "gradient", c, in, ZL_FLOAT32, 2e-4);
    if (!all)
        return;
    compare(gradient, "gradient of float16", c, in, ZL_FLOAT16, 3e-2);
    compare(tangent, "tangent", c, in, ZL_FLOAT32, 2e-4);
    compare(gradient_tangent, "tangent of the gradient", c, in, ZL_FLOAT32, 5e-4);
    compare(second_gradient, "second gradient", c, in, ZL_FLOAT32, 5e-4);
    compare(value_batched, "batched", c, in, ZL_FLOAT32, 1e-5);
    compare(gradient_batched, "batched gradient", c, in, ZL_FLOAT32, 2e-4);
}

// Batch, heads, matrices of keys, queries, keys, and columns of keys and of values.
static const struct attended sizes[] = {
    {1, 2, 2, 1, 1, 1, 1},    {2, 4, 2, 3, 5, 7, 2},    {1, 6, 1, 1, 70, 5, 20},    {1, 1, 1, 1, 130, 12, 30},
    {1, 4, 2, 9, 66, 3, 5},   {1, 2, 1, 70, 9, 8, 8},   {1, 1, 1, 150, 131, 4, 9},  {2, 2, 1, 20, 20, 16, 4},
    {1, 2, 1, 20, 530, 5, 3}, {1, 5, 1, 101, 33, 8, 4}, {1, 2, 1, 9, 20, 200, 136},
};

TEST(attention_by_blocks) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int mask = NO_MASK; mask < MASKS; mask++)
            for (int sinks = 0; sinks < 2; sinks++)
                if (test_samples(40))
                    ZL_SCOPE {
                        struct attended c = sizes[i];
                        c.mask = (enum mask)mask;
                        c.sinks = sinks;
                        check_case(&c, i == 1 || i == 4 || (i == 7 && !test_quick()));
                    }
}

// One block of queries and two of keys: small enough for kernels that an interpreter runs.
TEST(attention_of_few_keys) {
    for (int mask = NO_MASK; mask < MASKS; mask++)
        for (int sinks = 0; sinks < 2; sinks++)
            if (test_samples(5))
                ZL_SCOPE {
                    struct attended c = {1, 2, 1, 3, 35, 5, 34, (enum mask)mask, sinks};
                    zl_array in[INPUTS];
                    make_inputs(&c, in);
                    compare(gradient, "gradient", &c, in, ZL_FLOAT32, 2e-4);
                    compare(value, "value of bfloat16", &c, in, ZL_BFLOAT16, 3e-2);
                }
}

// Sizes for which devices use matrix instructions: f16 and bf16, and heads of a multiple of 16 elements.
TEST(attention_of_whole_heads) {
    static const struct attended all[] = {{1, 2, 1, 17, 70, 16, 32, .mask = CAUSAL},
                                          {2, 1, 1, 20, 21, 32, 16}};
    for (size_t i = 0; i < COUNT(all); i++)
        ZL_SCOPE {
            zl_array in[INPUTS];
            make_inputs(&all[i], in);
            compare(value, "value of bfloat16", &all[i], in, ZL_BFLOAT16, 3e-2);
            compare(gradient, "gradient of float16", &all[i], in, ZL_FLOAT16, 3e-2);
        }
}

// A query that sees no key has the mean of all values as its result; one whose scores are all minus infinity
// has NaN.
static void check_nothing_seen(int64_t queries, zl_dtype dtype, double bound) {
    zl_array q = op_test_random(ZL_SHAPE(1, 1, queries, 4), dtype, -1, 1);
    zl_array k = op_test_random(ZL_SHAPE(1, 1, 70, 4), dtype, -1, 1);
    zl_array v = op_test_random(ZL_SHAPE(1, 1, 70, 4), dtype, -1, 1);
    zl_array none = zl_zeros(ZL_SHAPE(queries, 70), ZL_BOOL),
             low = zl_full(ZL_SHAPE(70), zl_scalar(-INFINITY), dtype);
    zl_array y = zl_fast_scaled_dot_product_attention(q, k, v, 1, none, NULL, NULL);
    CHECK(zl_item_int(zl_allclose(y, zl_mean_axis(v, 2, true), bound, bound, false)) == 1);
    y = zl_fast_scaled_dot_product_attention(q, k, v, 1, low, NULL, NULL);
    CHECK(zl_item_int(zl_all(zl_isnan(y))) == 1);
    zl_array half = zl_where(zl_less(zl_arange_int(0, 70, 1, ZL_INT32), zl_scalar_int(65)),
                             zl_scalar(-INFINITY), zl_scalar(0));
    y = zl_fast_scaled_dot_product_attention(q, k, v, 1, zl_astype(half, dtype), NULL, NULL);
    CHECK(zl_item_int(zl_all(zl_isfinite(y))) == 1);
}

TEST(attention_that_sees_nothing) {
    for (int64_t queries = 3; queries < 30; queries += 20) {
        check_nothing_seen(queries, ZL_FLOAT32, 1e-5);
        check_nothing_seen(queries, ZL_BFLOAT16, 2e-2);
    }
}

// Scores from small ones, which need no subtraction of the maximum, to large ones, which do; and tiny values.
static void check_scale(double scale, double size, const char *mask, zl_array q, zl_array k, zl_array v) {
    zl_array small = zl_multiply(v, zl_scalar(size)), wide[] = {q, k, small};
    for (int i = 0; i < 3; i++)
        wide[i] = zl_astype(wide[i], ZL_FLOAT64);
    zl_array y = zl_fast_scaled_dot_product_attention(q, k, small, scale, NULL, NULL, mask);
    zl_array z = zl_fast_scaled_dot_product_attention(wide[0], wide[1], wide[2], scale, NULL, NULL, mask);
    if (!CHECK(zl_item_int(zl_allclose(zl_astype(y, ZL_FLOAT64), z, 2e-5, 2e-5 * size, false)) == 1))
        test_note("scale %g, values of %g, mask %s", scale, size, mask ? mask : "none");
}

TEST(attention_of_small_and_large_scores) {
    static const double scales[] = {1e-6, 0.3, 2, 2.9, 3.5, 6, 20}, magnitudes[] = {1, 1e-15, 1e15};
    zl_array q = op_test_random(ZL_SHAPE(1, 1, 130, 8), ZL_FLOAT32, -1, 1);
    zl_array k = op_test_random(ZL_SHAPE(1, 1, 131, 8), ZL_FLOAT32, -1, 1);
    zl_array v = op_test_random(ZL_SHAPE(1, 1, 131, 9), ZL_FLOAT32, -1, 1);
    zl_array fewer = zl_slice(v, ZL_SHAPE(0, 0, 0, 0), ZL_SHAPE(1, 1, 130, 9), ZL_SHAPE(1, 1, 1, 1));
    for (size_t i = 0; i < COUNT(scales); i++)
        for (size_t j = 0; j < COUNT(magnitudes); j++)
            if (test_samples(10))
                ZL_SCOPE {
                    check_scale(scales[i], magnitudes[j], NULL, q, k, v);
                    check_scale(scales[i], magnitudes[j], "causal", q, k, v);
                    check_scale(scales[i], magnitudes[j], "causal", k, q, fewer); // the first query sees none
                }
}

// A NaN in a key makes the results of all queries that see it NaN, and of no others.
TEST(attention_of_nan) {
    for (int i = 0; i < 2; i++) {
        zl_dtype dtype = i ? ZL_BFLOAT16 : ZL_FLOAT32;
        zl_array at = zl_reshape(zl_arange_int(0, 30, 1, ZL_INT32), ZL_SHAPE(1, 1, 30, 1));
        zl_array x = op_test_random(ZL_SHAPE(1, 1, 30, 8), dtype, -1, 1);
        zl_array k = zl_astype(zl_where(zl_equal(at, zl_scalar_int(17)), zl_scalar(NAN), x), dtype);
        zl_array y = zl_fast_scaled_dot_product_attention(x, k, x, 1, NULL, NULL, "causal");
        zl_array spoilt = zl_broadcast_to(zl_greater_equal(at, zl_scalar_int(17)), ZL_SHAPE(1, 1, 30, 8));
        CHECK(zl_item_int(zl_array_equal(zl_isnan(y), spoilt, false)) == 1);
    }
}

// Scores that differ so much that all weight is on one key, and scales that reverse their order or make all
// equal.
TEST(attention_of_extreme_scales) {
    static const double scales[] = {-1, 0, 1e4, -1e4};
    zl_array x = op_test_random(ZL_SHAPE(1, 2, 30, 8), ZL_FLOAT32, -1, 1);
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        zl_array wide = zl_astype(x, ZL_FLOAT64);
        zl_array y = zl_fast_scaled_dot_product_attention(x, x, x, scales[i], NULL, NULL, NULL);
        zl_array z = zl_fast_scaled_dot_product_attention(wide, wide, wide, scales[i], NULL, NULL, NULL);
        CHECK(zl_item_int(zl_allclose(zl_astype(y, ZL_FLOAT64), z, 2e-3, 2e-3, false)) == 1);
    }
}

// A few queries, with heads that share keys: devices with matrix instructions divide the keys. Gradients read
// the state that the forward pass keeps.
TEST(attention_of_few_queries) {
    static const struct attended cases[] = {
        {1, 4, 2, 1, 70, 16, 16, NO_MASK, false},  {2, 3, 1, 3, 67, 16, 16, CAUSAL, true},
        {1, 2, 2, 16, 65, 16, 16, BOOLS, false},   {1, 4, 1, 2, 120, 16, 32, NUMBERS, true},
        {1, 1, 1, 1, 1, 16, 16, CAUSAL, false},    {1, 4, 1, 12, 100, 32, 16, CAUSAL, true},
        {1, 4, 2, 16, 80, 16, 16, NUMBERS, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        if (test_samples(3))
            ZL_SCOPE {
                zl_array in[INPUTS];
                make_inputs(&cases[i], in);
                compare(value, "value", &cases[i], in, ZL_FLOAT32, 1e-5);
                compare(value, "value of float16", &cases[i], in, ZL_FLOAT16, 4e-3);
                compare(value, "value of bfloat16", &cases[i], in, ZL_BFLOAT16, 3e-2);
                compare(gradient, "gradient", &cases[i], in, ZL_FLOAT32, 2e-4);
            }
}

// Keys and values that are a part of a larger array, at its beginning or later, give the same bits as copies
// of them.
TEST(attention_of_few_queries_over_parts) {
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_BFLOAT16};
    for (int i = 0; i < 6; i++)
        ZL_SCOPE {
            int64_t from = i / 2 * 4, keys = 40 + i;
            zl_array q = op_test_random(ZL_SHAPE(1, 4, 1, 16), dtypes[i % 2], -1, 1), part[2], same[2];
            for (int k = 0; k < 2; k++) {
                zl_array all = op_test_random(ZL_SHAPE(1, 2, 64, 16), dtypes[i % 2], -1, 1);
                part[k] = zl_slice(all, ZL_SHAPE(0, 0, from, 0), ZL_SHAPE(1, 2, from + keys, 16),
                                   ZL_SHAPE(1, 1, 1, 1));
                same[k] = zl_contiguous(part[k], false);
            }
            zl_array y = zl_fast_scaled_dot_product_attention(q, part[0], part[1], 0.25, NULL, NULL, NULL);
            zl_array z = zl_fast_scaled_dot_product_attention(q, same[0], same[1], 0.25, NULL, NULL, NULL);
            CHECK(zl_item_int(zl_array_equal(y, z, false)) == 1);
        }
}

// Neither pass stores a matrix of all scores, for any mask.
TEST(attention_keeps_no_scores) {
    const int64_t count = test_brief() ? 400 : 1500;
    for (int mask = NO_MASK; mask < MASKS; mask++)
        if (test_samples(3))
            ZL_SCOPE {
                zl_array in[] = {op_test_random(ZL_SHAPE(1, 2, count, 1), ZL_FLOAT32, -1, 1),
                                 op_test_random(ZL_SHAPE(1, 1, count, 1), ZL_FLOAT32, -1, 1),
                                 op_test_random(ZL_SHAPE(1, 1, count, 2), ZL_FLOAT32, -1, 1),
                                 op_test_random(ZL_SHAPE(2, 1, count), ZL_FLOAT32, -1, 1),
                                 NULL,
                                 zl_scalar(1)};
                zl_array grads[3];
                size_t before = zl_get_active_memory();
                zl_reset_peak_memory();
                zl_array sum = zl_sum(attend(&(struct attended){.mask = (enum mask)mask}, in));
                REQUIRE(zl_grad(sum, 3, in, grads) && zl_eval_all(3, grads));
                CHECK(zl_get_peak_memory() - before < (size_t)(count * count));
            }
}

// Queries, keys and values that are transposed or broadcast are read in place.
TEST(attention_of_views) {
    zl_array x = op_test_random(ZL_SHAPE(2, 10, 3, 8), ZL_FLOAT32, -1, 1),
             odd = zl_contiguous(zl_swapaxes(x, 2, 3), false);
    zl_array q = zl_swapaxes(x, 1, 2), k = zl_swapaxes(zl_swapaxes(odd, 2, 3), 1, 2);
    zl_array one = zl_slice(q, ZL_SHAPE(0, 0, 0, 0), ZL_SHAPE(2, 3, 1, 8), ZL_SHAPE(1, 1, 1, 1));
    zl_array v = zl_broadcast_to(one, ZL_SHAPE(2, 3, 10, 8));
    zl_array same[] = {zl_contiguous(q, false), zl_contiguous(k, false), zl_contiguous(v, false)};
    zl_array y = zl_fast_scaled_dot_product_attention(q, k, v, 1, NULL, NULL, "causal");
    zl_array z = zl_fast_scaled_dot_product_attention(same[0], same[1], same[2], 1, NULL, NULL, "causal");
    CHECK(zl_item_int(zl_array_equal(y, z, false)) == 1);
}

// Results have the layout of the inputs: if the heads of a row are adjacent, merging them into one axis is a
// view. The bits are those of row-major results.
static void check_layout(zl_dtype dtype, const char *mode, int64_t shared) {
    zl_array x = zl_random_normal(ZL_SHAPE(2, 50, 4 * shared + 8, 16), dtype, NULL, NULL, zl_random_key(1)),
             part[3], same[3], got[4], want[4];
    const int64_t heads[] = {0, 4 * shared, 4 * shared + 4, 4 * shared + 8};
    for (int i = 0; i < 3; i++) {
        zl_array from =
            zl_slice(x, ZL_SHAPE(0, 0, heads[i], 0), ZL_SHAPE(2, 50, heads[i + 1], 16), ZL_SHAPE(1, 1, 1, 1));
        part[i] = zl_swapaxes(from, 1, 2);
        same[i] = zl_contiguous(part[i], false);
    }
    got[3] = zl_fast_scaled_dot_product_attention(part[0], part[1], part[2], 0.3, NULL, NULL, mode);
    want[3] = zl_fast_scaled_dot_product_attention(same[0], same[1], same[2], 0.3, NULL, NULL, mode);
    REQUIRE(zl_grad(zl_sum(zl_square(got[3])), 3, part, got) &&
            zl_grad(zl_sum(zl_square(want[3])), 3, same, want));
    for (int i = 0; i < 4; i++) {
        zl_array flat = zl_flatten(zl_swapaxes(got[i], 1, 2), 2, 3);
        CHECK(flat->call && shape_is_row_major(3, flat->dim, array_stride(flat)) &&
              shape_is_row_major(4, want[i]->dim, array_stride(want[i])));
        REQUIRE(zl_eval_all(2, (zl_array[]){flat, got[i]}));
        CHECK(flat->storage == got[i]->storage);
        if (!CHECK(zl_item_int(zl_array_equal(got[i], want[i], false)) == 1))
            test_note("result %d of %s", i, zl_dtype_name(dtype));
    }
}

TEST(attention_lies_as_its_inputs) {
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT16, ZL_BFLOAT16};
    for (int i = 0; i < 6; i++)
        if (test_samples(6))
            ZL_SCOPE
                check_layout(dtypes[i % 3], i % 2 ? "causal" : NULL, 1 + i / 3);
}

// Contiguous elements at an offset in their memory.
TEST(attention_of_parts) {
    zl_array x = op_test_random(ZL_SHAPE(1 + 2 * 20 * 16), ZL_FLOAT16, -1, 1), part[3], same[3];
    for (int i = 0; i < 3; i++) {
        zl_array from = zl_slice(x, ZL_SHAPE(1), ZL_SHAPE(1 + 2 * 20 * 16), ZL_SHAPE(1));
        part[i] = zl_reshape(from, ZL_SHAPE(1, 2, 20, 16));
        same[i] = zl_contiguous(zl_add(part[i], zl_astype(zl_scalar(0), ZL_FLOAT16)), false);
    }
    zl_array y = zl_fast_scaled_dot_product_attention(part[0], part[1], part[2], 1, NULL, NULL, NULL);
    zl_array z = zl_fast_scaled_dot_product_attention(same[0], same[1], same[2], 1, NULL, NULL, NULL);
    CHECK(zl_item_int(zl_array_equal(y, z, false)) == 1);
}
