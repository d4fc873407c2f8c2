// test_addmm.c - products of 16-bit floats with an addend: rounded once, in any layout; rules, other shapes.
//
// Numbers are small integers, so that sums in float32 are exact on every device, in any order, and all bits
// of the results are known.

#include <math.h>
#include <stdio.h>

#include "op/op_test.h"

#define CHECK_SAME(x, y) CHECK(zl_item(zl_array_equal((x), (y), true)) == 1)

static const zl_dtype halves[] = {ZL_FLOAT16, ZL_BFLOAT16};

// Evaluates x, so that it can be read more than once.
static zl_array known(zl_array x) {
    return CHECK(zl_eval(x)) ? x : NULL;
}

// Returns integers from -5 to 5.
static zl_array whole(zl_shape shape, zl_dtype dtype, int seed) {
    zl_array key = zl_random_key(seed);
    return known(
        zl_astype(zl_random_randint(zl_scalar_int(-5), zl_scalar_int(6), shape, ZL_INT32, key), dtype));
}

static zl_array wide_product(zl_array a, zl_array b) {
    return zl_matmul(zl_astype(a, ZL_FLOAT32), zl_astype(b, ZL_FLOAT32));
}

// Computes the expected result from the float32 product, rounding only at the end.
static zl_array wanted(zl_array c, zl_array product, double alpha, double beta, zl_dtype dtype) {
    zl_array scaled = zl_multiply(zl_scalar(alpha), product);
    return zl_astype(zl_add(scaled, zl_multiply(zl_scalar(beta), zl_astype(c, ZL_FLOAT32))), dtype);
}

static void check_sum(zl_array c, zl_array a, zl_array b, zl_array product) {
    REQUIRE(known(c) && product);
    static const double factors[][2] = {{1, 1}, {0.5, 2}, {-0.25, 1}, {2, 0}};
    for (size_t i = 0; i < COUNT(factors); i++) {
        if (!test_samples(40))
            continue;
        zl_array y = zl_addmm(c, a, b, factors[i][0], factors[i][1]);
        zl_array want = wanted(c, product, factors[i][0], factors[i][1], zl_dtype_of(a));
        if (!CHECK(zl_item(zl_array_equal(y, want, false)) == 1 && zl_dtype_of(y) == zl_dtype_of(a)))
            test_note("alpha %g, beta %g, %s", factors[i][0], factors[i][1], zl_dtype_name(zl_dtype_of(a)));
    }
}

static void check_shapes(zl_dtype dtype, zl_shape first, zl_shape second, int count, const zl_shape *added) {
    zl_array a = whole(first, dtype, 1), b = whole(second, dtype, 2);
    zl_array product = known(wide_product(a, b));
    for (int i = 0; i < count; i++)
        ZL_SCOPE
            check_sum(whole(added[i], dtype, 3 + i), a, b, product);
}

#define CHECK_SHAPES(first, second, ...)                                                      \
    for (size_t d = 0; d < COUNT(halves); d++)                                                \
        ZL_SCOPE                                                                              \
    check_shapes(halves[d], (first), (second), (int)COUNT(((const zl_shape[]){__VA_ARGS__})), \
                 (const zl_shape[]){__VA_ARGS__})

TEST(addmm_of_halves_is_rounded_once) {
    CHECK_SHAPES(ZL_SHAPE(5, 7), ZL_SHAPE(7, 3), ZL_SHAPE(3), ZL_SHAPE(1), ZL_SCALAR, ZL_SHAPE(5, 3),
                 ZL_SHAPE(5, 1), ZL_SHAPE(1, 3));
    CHECK_SHAPES(ZL_SHAPE(70, 600), ZL_SHAPE(600, 90), ZL_SHAPE(90), ZL_SHAPE(70, 90), ZL_SHAPE(70, 1),
                 ZL_SCALAR);
    CHECK_SHAPES(ZL_SHAPE(300, 600), ZL_SHAPE(600, 280), ZL_SHAPE(280), ZL_SHAPE(300, 280), ZL_SHAPE(300, 1));
    CHECK_SHAPES(ZL_SHAPE(17, 1000), ZL_SHAPE(1000, 17), ZL_SHAPE(17), ZL_SHAPE(17, 1)); // divided into parts
                                                                                         // on GPUs
    CHECK_SHAPES(ZL_SHAPE(16, 600), ZL_SHAPE(600, 8), ZL_SHAPE(8), ZL_SHAPE(16, 1));
    CHECK_SHAPES(ZL_SHAPE(300, 2000), ZL_SHAPE(2000, 2), ZL_SHAPE(2), ZL_SHAPE(300, 1), ZL_SHAPE(300, 2));
    CHECK_SHAPES(ZL_SHAPE(4, 512), ZL_SHAPE(512, 250), ZL_SHAPE(250), ZL_SHAPE(4, 250));
    CHECK_SHAPES(ZL_SHAPE(1, 600), ZL_SHAPE(600, 300), ZL_SHAPE(300), ZL_SHAPE(1, 300), ZL_SHAPE(1));
    CHECK_SHAPES(ZL_SHAPE(300, 600), ZL_SHAPE(600, 1), ZL_SHAPE(1), ZL_SHAPE(300, 1));
    CHECK_SHAPES(ZL_SHAPE(1, 8192), ZL_SHAPE(8192, 1024), ZL_SHAPE(1024)); // divided among all threads
    CHECK_SHAPES(ZL_SHAPE(6, 0), ZL_SHAPE(0, 3), ZL_SHAPE(3), ZL_SHAPE(6, 3));
}

TEST(addmm_of_vectors_and_batches) {
    CHECK_SHAPES(ZL_SHAPE(600), ZL_SHAPE(600, 30), ZL_SHAPE(30), ZL_SHAPE(1));
    CHECK_SHAPES(ZL_SHAPE(30, 600), ZL_SHAPE(600), ZL_SHAPE(30), ZL_SHAPE(1));
    CHECK_SHAPES(ZL_SHAPE(600), ZL_SHAPE(600), ZL_SCALAR);
    CHECK_SHAPES(ZL_SHAPE(600), ZL_SHAPE(2, 600, 30), ZL_SHAPE(30), ZL_SHAPE(2, 30), ZL_SHAPE(2, 1));
    CHECK_SHAPES(ZL_SHAPE(3, 4, 600), ZL_SHAPE(600, 8), ZL_SHAPE(8), ZL_SHAPE(4, 8), ZL_SHAPE(3, 1, 8),
                 ZL_SHAPE(1, 4, 8), ZL_SHAPE(3, 4, 8), ZL_SHAPE(1, 1, 8));
    CHECK_SHAPES(ZL_SHAPE(3, 4, 16), ZL_SHAPE(3, 16, 8), ZL_SHAPE(8), ZL_SHAPE(4, 8), ZL_SHAPE(3, 1, 8),
                 ZL_SHAPE(3, 4, 8));
    CHECK_SHAPES(ZL_SHAPE(2, 1, 4, 16), ZL_SHAPE(3, 16, 8), ZL_SHAPE(8), ZL_SHAPE(3, 1, 1),
                 ZL_SHAPE(2, 3, 4, 8));
}

TEST(addmm_of_what_lies_otherwise) {
    for (size_t d = 0; d < COUNT(halves); d++) {
        zl_array a = known(zl_transpose(whole(ZL_SHAPE(600, 40), halves[d], 1), ZL_ALL));
        zl_array b = known(zl_transpose(whole(ZL_SHAPE(90, 600), halves[d], 2), ZL_ALL));
        zl_array product = known(wide_product(a, b));
        check_sum(zl_transpose(whole(ZL_SHAPE(90, 40), halves[d], 3), ZL_ALL), a, b, product);
        check_sum(zl_slice(whole(ZL_SHAPE(40, 180), halves[d], 4), ZL_SHAPE(0, 0), ZL_SHAPE(40, 180),
                           ZL_SHAPE(1, 2)),
                  a, b, product);
        check_sum(zl_slice(whole(ZL_SHAPE(91), halves[d], 5), ZL_SHAPE(1), ZL_SHAPE(91), ZL_SHAPE(1)), a, b,
                  product);
        check_sum(zl_astype(zl_scalar(3), halves[d]), a, b, product);
    }
}

// Calls that use the result get it rounded.
TEST(what_follows_addmm_gets_its_result) {
    zl_array a = whole(ZL_SHAPE(300, 600), ZL_FLOAT16, 1), b = whole(ZL_SHAPE(600, 280), ZL_FLOAT16, 2);
    zl_array c = whole(ZL_SHAPE(280), ZL_FLOAT16, 3);
    zl_array want = known(wanted(c, wide_product(a, b), 0.5, 1, ZL_FLOAT16));
    zl_array z = zl_maximum(zl_negative(zl_addmm(c, a, b, 0.5, 1)), zl_scalar(0));
    CHECK_SAME(z, zl_maximum(zl_negative(want), zl_scalar(0)));
    CHECK_SAME(zl_max_axis(zl_addmm(c, a, b, 0.5, 1), 1, false), zl_max_axis(want, 1, false));
}

TEST(addmm_leaves_out_what_it_is_told_to) {
    zl_array a = known(zl_full(ZL_SHAPE(4, 512), zl_scalar(2), ZL_FLOAT16));
    zl_array b = known(zl_full(ZL_SHAPE(512, 250), zl_scalar(100), ZL_FLOAT16));
    zl_array nan = zl_full(ZL_SHAPE(250), zl_scalar(NAN), ZL_FLOAT16);
    zl_array y = known(zl_addmm(nan, a, b, 0.125, 0)); // the product overflows in float16
    CHECK_EQ_F64(zl_item(zl_min(y)), 12800);
    CHECK_EQ_F64(zl_item(zl_max(y)), 12800);
    zl_array one = zl_ones(ZL_SHAPE(4, 250), ZL_FLOAT16);
    CHECK_EQ_F64(zl_item(zl_max(zl_addmm(one, zl_ones(ZL_SHAPE(4, 3), ZL_FLOAT16),
                                         zl_ones(ZL_SHAPE(3, 250), ZL_FLOAT16), 1e-60, 2))),
                 2);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_addmm(zl_zeros(ZL_SHAPE(3), ZL_FLOAT16), a, b, 1, 1));
    CHECK_HAS(test_last_error(), "zl_addmm: ");
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_addmm(zl_zeros(ZL_SHAPE(2, 4, 250), ZL_FLOAT16), a, b, 1, 1));
}

// Rules -----------------------------------------------------------------------------------------------------

static bool add(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    return zl_give(out, zl_addmm(in[2], in[0], in[1], 0.5, 2));
}

// With float32 it consists of separate ops: its results are the same as with f16 if nothing is rounded.
static void check_rules(zl_shape first, zl_shape second, zl_shape third) {
    zl_array half[] = {whole(first, ZL_FLOAT16, 1), whole(second, ZL_FLOAT16, 2),
                       whole(third, ZL_FLOAT16, 3)};
    zl_array full[3], tangent[2][3], grad[2][3];
    zl_outputs *values[2], *tangents[2];
    for (int i = 0; i < 3; i++) {
        full[i] = known(zl_astype(half[i], ZL_FLOAT32));
        tangent[0][i] = whole(zl_shape_of(half[i]), ZL_FLOAT16, 4 + i);
        tangent[1][i] = known(zl_astype(tangent[0][i], ZL_FLOAT32));
    }
    for (int i = 0; i < 2; i++) {
        const zl_array *in = i ? full : half;
        zl_array y = zl_addmm(in[2], in[0], in[1], 0.5, 2);
        zl_array weight = whole(zl_shape_of(y), zl_dtype_of(y), 9);
        REQUIRE(zl_vjp((zl_fn){.call = add}, 3, in, 1, &weight, NULL, grad[i]));
        values[i] = zl_outputs_new();
        tangents[i] = zl_outputs_new();
        REQUIRE(zl_jvp((zl_fn){.call = add}, 3, in, tangent[i], values[i], tangents[i]));
    }
    for (int i = 0; i < 3; i++)
        CHECK_SAME(zl_astype(grad[0][i], ZL_FLOAT32), grad[1][i]);
    CHECK_SAME(zl_astype(zl_outputs_get(tangents[0], 0), ZL_FLOAT32), zl_outputs_get(tangents[1], 0));
    for (int i = 0; i < 3; i++) { // the tangent of one input only
        zl_array one[2][3] = {{NULL}};
        zl_outputs *each[2] = {zl_outputs_new(), zl_outputs_new()},
                   *ignored[2] = {zl_outputs_new(), zl_outputs_new()};
        one[0][i] = tangent[0][i];
        one[1][i] = tangent[1][i];
        CHECK(zl_jvp((zl_fn){.call = add}, 3, half, one[0], ignored[0], each[0]) &&
              zl_jvp((zl_fn){.call = add}, 3, full, one[1], ignored[1], each[1]));
        CHECK_SAME(zl_astype(zl_outputs_get(each[0], 0), ZL_FLOAT32), zl_outputs_get(each[1], 0));
        for (int k = 0; k < 2; k++) {
            zl_outputs_free(each[k]);
            zl_outputs_free(ignored[k]);
        }
    }
    for (int i = 0; i < 2; i++) {
        zl_outputs_free(values[i]);
        zl_outputs_free(tangents[i]);
    }
}

TEST(derivatives_of_addmm_of_halves) {
    check_rules(ZL_SHAPE(3, 4), ZL_SHAPE(4, 5), ZL_SHAPE(3, 5));
    check_rules(ZL_SHAPE(3, 4), ZL_SHAPE(4, 5), ZL_SHAPE(5));
    check_rules(ZL_SHAPE(2, 3, 4), ZL_SHAPE(4, 5), ZL_SHAPE(3, 1));
    check_rules(ZL_SHAPE(2, 3, 4), ZL_SHAPE(4, 5), ZL_SHAPE(2, 3, 5));
    check_rules(ZL_SHAPE(3, 4), ZL_SHAPE(2, 4, 5), ZL_SHAPE(2, 1, 5));
    check_rules(ZL_SHAPE(4), ZL_SHAPE(4, 5), ZL_SHAPE(5));
    check_rules(ZL_SHAPE(3, 4), ZL_SHAPE(4), ZL_SHAPE(1));
}

static void check_map(const int *axis, zl_shape third, bool has_batch) {
    const int64_t batch = 2;
    zl_array in[] = {
        axis[0] < 0 ? whole(ZL_SHAPE(3, 4), ZL_FLOAT16, 1) : whole(ZL_SHAPE(2, 3, 4), ZL_FLOAT16, 1),
        axis[1] < 0 ? whole(ZL_SHAPE(4, 5), ZL_FLOAT16, 2) : whole(ZL_SHAPE(2, 4, 5), ZL_FLOAT16, 2),
        whole(third, ZL_FLOAT16, 3)};
    zl_outputs *out = zl_outputs_new();
    REQUIRE(zl_vmap((zl_fn){.call = add}, 3, in, axis, 1, NULL, out));
    zl_array y = zl_outputs_get(out, 0), each[2];
    for (int64_t i = 0; i < batch; i++) {
        zl_array one[3];
        for (int k = 0; k < 3; k++)
            one[k] = axis[k] < 0 ? in[k] : zl_take(in[k], zl_scalar_int(i), axis[k]);
        each[i] = zl_addmm(one[2], one[0], one[1], 0.5, 2);
    }
    CHECK_SAME(y, has_batch ? zl_stack(each, 2, 0) : each[0]);
    zl_outputs_free(out);
}

TEST(addmm_of_halves_is_mapped) {
    check_map((const int[]){0, 0, 0}, ZL_SHAPE(2, 5), true);
    check_map((const int[]){0, -1, -1}, ZL_SHAPE(5), true);
    check_map((const int[]){-1, 0, -1}, ZL_SHAPE(3, 5), true);
    check_map((const int[]){-1, -1, 0}, ZL_SHAPE(2, 5), true);
    check_map((const int[]){-1, -1, 1}, ZL_SHAPE(3, 2, 5), true);
    check_map((const int[]){0, -1, 1}, ZL_SHAPE(5, 2), true);
}

// Other sizes -----------------------------------------------------------------------------------------------

static bool layer(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    zl_array y = zl_addmm(in[2], in[0], in[1], 0.5, 2);
    return zl_give(out, zl_add(y, zl_scalar(1)));
}

static zl_array expected(const zl_array *in) {
    return zl_add(wanted(in[2], wide_product(in[0], in[1]), 0.5, 2, zl_dtype_of(in[0])), zl_scalar(1));
}

// Inputs with the same number of axes and other sizes.
static void make_inputs(zl_array *in, int64_t batch, int64_t rows, bool whole_matrix) {
    in[0] = whole(ZL_SHAPE(batch, rows, 600), ZL_FLOAT16, 1);
    in[1] = whole(ZL_SHAPE(600, 8), ZL_FLOAT16, 2);
    in[2] = whole_matrix ? whole(ZL_SHAPE(batch, rows, 8), ZL_FLOAT16, 3) : whole(ZL_SHAPE(8), ZL_FLOAT16, 3);
}

TEST(shapeless_addmm_of_halves) {
    for (int i = 0; i < 2; i++) {
        zl_array first[3], other[3];
        char path[4096];
        make_inputs(first, 2, 3, i);
        make_inputs(other, 5, 7, i);
        snprintf(path, sizeof path, "%s/f", test_folder());
        REQUIRE(zl_export(path, (zl_fn){.call = layer}, 3, first, &(zl_export_options){.shapeless = true}));
        zl_imported *f = zl_import(path);
        zl_compiled g = zl_compile((zl_fn){.call = layer}, true);
        REQUIRE(f && g);
        for (int k = 0; k < 2; k++) {
            zl_outputs *out[] = {zl_outputs_new(), zl_outputs_new()};
            const zl_array *in = k ? other : first;
            CHECK(zl_imported_call(f, 3, in, 0, NULL, out[0]) && zl_compiled_call(g, NULL, 0, 3, in, out[1]));
            CHECK_SAME(zl_outputs_get(out[0], 0), expected(in));
            CHECK_SAME(zl_outputs_get(out[1], 0), expected(in));
            zl_outputs_free(out[0]);
            zl_outputs_free(out[1]);
        }
        zl_imported_free(f);
        zl_compiled_release(g);
    }
}
