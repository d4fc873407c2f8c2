// test_kernels.c - every device that runs kernels, compared with the CPU: the same calls on the same arrays,
// with the same bits unless numbers are summed.

#include "device/tile_trial.h"
#include "on_devices.h"

#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Rows ------------------------------------------------------------------------------------------------------

struct row {
    enum tile_op op;
    zl_dtype dtype;
    int64_t n;
};

static zl_array call_row(void *data) {
    const struct row *r = data;
    int arity = tile_op_arity(r->op);
    zl_array in[3];
    for (int k = 0; k < arity; k++)
        in[k] = values(ZL_SHAPE(r->n), r->op == TILE_SELECT && k == 0 ? ZL_BOOL : r->dtype, (uint64_t)k + 1);
    return op_dense(&op_elementwise[r->op], arity, in, 0, NULL, tile_row_gives(r->op, r->dtype), 1, &r->n);
}

static void check_rows(void) {
    int64_t fallbacks = zl_counter("fallbacks");
    int every = test_quick() ? 397 : test_long() ? 1 : 29, at = (int)(test_random() % (unsigned)every);
    for (int op = 0; op < TILE_CONST; op++)
        for (int d = 0; d < ZL_DTYPE_COUNT; d++)
            if (tile_row_takes((enum tile_op)op, (zl_dtype)d) && at++ % every == 0)
                ZL_SCOPE {
                    struct row r = {(enum tile_op)op, (zl_dtype)d, at % 2 ? 4100 : 300};
                    agree(tile_op_name(r.op), call_row, &r, 0);
                }
    zl_device_info info;
    bool all = true;
    for (int i = 0; zl_device(i, &info); i++)
        all &= !strstr(info.detail, "no float64");
    if (all)
        CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

TEST(rows_on_devices) {
    on_devices(check_rows);
}

// All f16 numbers, because devices have shorter formulas for them.
static zl_array of_all_halves(void *data) {
    static uint16_t bits[1 << 16];
    for (int i = 0; i < (int)COUNT(bits); i++)
        bits[i] = (uint16_t)i;
    zl_array x = zl_view(zl_from(bits, ZL_SHAPE(COUNT(bits)), ZL_UINT16), ZL_BFLOAT16);
    return *(bool *)data ? zl_exp(x) : zl_erf(x);
}

static void check_halves(void) {
    agree("exp", of_all_halves, &(bool){true}, 0);
    agree("erf", of_all_halves, &(bool){false}, 0);
}

TEST(every_bfloat16_on_devices) {
    on_devices(check_halves);
}

// Divisors that are passed by value have shorter formulas too: tests all 16-bit floats, and f32 numbers of
// every magnitude.
struct division {
    zl_dtype dtype;
    double by;
    uint64_t seed;
};

static zl_array divide_all(void *data) {
    static uint32_t bits[1 << 16];
    const struct division *d = data;
    bool is_half = d->dtype == ZL_FLOAT16 || d->dtype == ZL_BFLOAT16;
    uint64_t seed = d->seed;
    for (uint32_t i = 0; i < COUNT(bits); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bits[i] = is_half ? i * 2 | (i * 2 + 1) << 16 : i << 16 | (uint32_t)(seed >> 48);
    }
    zl_array all = zl_from(bits, ZL_SHAPE(COUNT(bits) / (is_half ? 2 : 1)), ZL_UINT32);
    zl_array x =
        d->dtype == ZL_FLOAT64 ? zl_astype(zl_view(all, ZL_FLOAT32), ZL_FLOAT64) : zl_view(all, d->dtype);
    return zl_divide(x, zl_astype(zl_scalar(d->by), d->dtype));
}

static void check_divisions(void) {
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_BFLOAT16, ZL_FLOAT16, ZL_FLOAT64};
    static const double by[] = {2,     -0.25,   1.4142135623730951,
                                3,     -7e-5,   1e-17,
                                3e17,  0x1p-60, 0x1p60,
                                1e-30, 1e30,    3e38,
                                1e-39, 0,       65504,
                                6e-8,  NAN,     INFINITY};
    uint64_t seed = test_random();
    for (size_t k = 0; k < COUNT(dtypes); k++)
        for (size_t i = 0; i < COUNT(by); i++)
            ZL_SCOPE {
                agree("divide", divide_all, &(struct division){dtypes[k], by[i], seed}, 0);
            }
}

TEST(divisions_by_numbers_on_devices) {
    on_devices(check_divisions);
}

// For many elements of at most 16 bits, a thread computes two packs: also tests their ends.
static zl_array add_many(void *data) {
    int64_t n = *(int64_t *)data;
    zl_array x = zl_astype(zl_bitwise_and(zl_arange(0, (double)n, 1, ZL_INT32), zl_scalar_int(127)), ZL_INT8);
    return zl_subtract(zl_view(zl_add(x, x), ZL_UINT8), zl_scalar_int(3));
}

static void check_many(void) {
    static const int64_t more[] = {0, 1, 15, 16, 255, 4095, 4096, 4099, 8191};
    for (size_t i = 0; i < COUNT(more); i++)
        ZL_SCOPE
            agree("add", add_many, &(int64_t){(1 << 22) + more[i]}, 0);
}

TEST(many_small_elements_on_devices) {
    on_devices(check_many);
}

struct cast {
    zl_dtype from, to;
};

static zl_array call_cast(void *data) {
    const struct cast *c = data;
    return zl_astype(values(ZL_SHAPE(500), c->from, 7), c->to);
}

static void check_casts(void) {
    int every = test_quick() ? 97 : test_long() ? 1 : 29, at = (int)(test_random() % (unsigned)every);
    for (int from = 0; from < ZL_DTYPE_COUNT; from++)
        for (int to = 0; to < ZL_DTYPE_COUNT; to++)
            if (from != to && at++ % every == 0)
                ZL_SCOPE {
                    struct cast c = {(zl_dtype)from, (zl_dtype)to};
                    agree("cast", call_cast, &c, 0);
                }
}

TEST(casts_on_devices) {
    on_devices(check_casts);
}

// Layouts ---------------------------------------------------------------------------------------------------

static zl_array transposed(void *data) {
    (void)data;
    zl_array x = values(ZL_SHAPE(30, 41), ZL_FLOAT32, 1), y = values(ZL_SHAPE(41, 30), ZL_FLOAT32, 2);
    return zl_add(zl_multiply(zl_matrix_transpose(x), y), zl_scalar(3));
}

// The result has the layout of the input.
static zl_array across(void *data) {
    (void)data;
    return zl_exp(zl_abs(zl_transpose(values(ZL_SHAPE(5, 30, 41), ZL_FLOAT32, 1), ZL_AXES(1, 2, 0))));
}

static zl_array across_and_along(void *data) {
    (void)data;
    zl_array x = zl_matrix_transpose(values(ZL_SHAPE(60, 200), ZL_FLOAT32, 1)), y = zl_exp(x);
    return zl_add(y, zl_sum_axis(zl_multiply(y, values(ZL_SHAPE(200, 60), ZL_FLOAT32, 2)), 1, true));
}

static zl_array stretched(void *data) {
    (void)data;
    zl_array x = values(ZL_SHAPE(7, 1, 33), ZL_FLOAT32, 1), y = values(ZL_SHAPE(5, 1), ZL_FLOAT32, 2);
    return zl_subtract(zl_maximum(x, y), values(ZL_SHAPE(1), ZL_FLOAT32, 3));
}

static zl_array rows_and_columns(void *data) {
    zl_array x = values(ZL_SHAPE(40, 128), *(zl_dtype *)data, 1),
             row = values(ZL_SHAPE(128), *(zl_dtype *)data, 2);
    return zl_add(zl_multiply(x, values(ZL_SHAPE(40, 1), *(zl_dtype *)data, 3)), row);
}

static zl_array rows_off_by_one(void *data) {
    (void)data;
    zl_array x = values(ZL_SHAPE(40, 129), ZL_FLOAT32, 1), y = values(ZL_SHAPE(40, 128), ZL_FLOAT32, 2);
    return zl_add(y, zl_slice(x, ZL_SHAPE(0, 1), ZL_SHAPE(40, 129), ZL_SHAPE(1, 1)));
}

static zl_array backwards(void *data) {
    (void)data;
    zl_array x = values(ZL_SHAPE(100, 21), ZL_INT32, 1);
    zl_array part = zl_slice(x, ZL_SHAPE(90, 20), ZL_SHAPE(3, 0), ZL_SHAPE(-4, -2));
    return zl_add(part, zl_slice(x, ZL_SHAPE(1, 1), ZL_SHAPE(23, 11), ZL_SHAPE(1, 1)));
}

static zl_array many_axes(void *data) {
    (void)data;
    zl_array x = values(ZL_SHAPE(2, 2, 2, 2, 2, 2, 2, 2, 2, 2), ZL_FLOAT32, 1);
    return zl_add(zl_transpose(x, ZL_ALL), x);
}

static zl_array copied(void *data) {
    (void)data;
    return zl_contiguous(zl_matrix_transpose(values(ZL_SHAPE(37, 50), ZL_COMPLEX64, 4)), false);
}

static zl_array copied_in_tiles(void *data) {
    zl_array x = values(ZL_SHAPE(3, 40, 50), *(zl_dtype *)data, 4);
    return zl_contiguous(zl_transpose(x, ZL_AXES(2, 0, 1)), false);
}

static zl_array copied_in_packs(void *data) {
    zl_array x = values(ZL_SHAPE(2, 72, 80), *(zl_dtype *)data, 4);
    return zl_contiguous(zl_transpose(x, ZL_AXES(2, 0, 1)), false);
}

static void check_layouts(void) {
    static const zl_dtype sizes[] = {ZL_UINT8, ZL_BFLOAT16, ZL_FLOAT32, ZL_COMPLEX64};
    for (size_t i = 0; i < COUNT(sizes); i++)
        agree("copied in packs", copied_in_packs, &(zl_dtype){sizes[i]}, 0);
    agree("copied in tiles", copied_in_tiles, &(zl_dtype){ZL_FLOAT32}, 0);
    agree("copied in tiles", copied_in_tiles, &(zl_dtype){ZL_BFLOAT16}, 0);
    agree("transposed", transposed, NULL, 0);
    agree("across", across, NULL, 0);
    agree("across and along", across_and_along, NULL, 1e-5);
    agree("stretched", stretched, NULL, 0);
    agree("rows and columns", rows_and_columns, &(zl_dtype){ZL_FLOAT32}, 0);
    agree("rows and columns", rows_and_columns, &(zl_dtype){ZL_FLOAT16}, 0);
    agree("rows off by one", rows_off_by_one, NULL, 0);
    agree("backwards", backwards, NULL, 0);
    agree("many axes", many_axes, NULL, 0);
    agree("copied", copied, NULL, 0);
}

TEST(layouts_on_devices) {
    on_devices(check_layouts);
}

// Fusion ----------------------------------------------------------------------------------------------------

static zl_array chain(void *data) {
    zl_array x = values(ZL_SHAPE(64, 100), ZL_FLOAT32, 1), b = values(ZL_SHAPE(100), ZL_FLOAT32, 2);
    zl_array y = zl_add(zl_multiply(x, zl_scalar(2)), b);
    zl_array half = zl_astype(zl_tanh(y), *(zl_dtype *)data);
    return zl_where(zl_greater(half, zl_scalar(0)), half, zl_negative(half));
}

static void check_fusion(void) {
    agree("a chain", chain, &(zl_dtype){ZL_FLOAT32}, 0);
    agree("a chain", chain, &(zl_dtype){ZL_BFLOAT16}, 0);
    int64_t launches = zl_counter("launches"), compiles = zl_counter("compiles");
    zl_array y = zl_retain(chain(&(zl_dtype){ZL_FLOAT32}));
    CHECK(zl_eval(y));
    CHECK_EQ_INT(zl_counter("launches") - launches, 1);
    CHECK_EQ_INT(zl_counter("compiles"), compiles); // the numbers differ, the kernel is the same
    zl_release(y);
}

TEST(chains_are_one_kernel_on_devices) {
    on_devices(check_fusion);
}

// Reductions ------------------------------------------------------------------------------------------------

struct reduced {
    enum reduce which;
    zl_dtype dtype;
    int rows, columns, axis; // axis 2: both axes
    bool transposed;
};

static zl_array call_reduce(void *data) {
    const struct reduced *r = data;
    zl_array x = values(ZL_SHAPE(r->rows, r->columns), r->dtype, 5);
    if (r->which == REDUCE_PROD)
        x = zl_astype(zl_add(zl_multiply(x, zl_scalar(0.0001)), zl_scalar(1)), r->dtype);
    if (r->transposed)
        x = zl_matrix_transpose(x);
    zl_axes axes = r->axis == 2 ? ZL_ALL : (zl_axes){(const int[]){r->axis}, 1};
    return op_reduce_axes("test", r->which, x, axes, false);
}

static void check_reductions(void) {
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT16, ZL_BFLOAT16, ZL_INT32,    ZL_INT64,
                                      ZL_UINT8,   ZL_BOOL,    ZL_FLOAT64,  ZL_COMPLEX64};
    static const int shapes[][2] = {{1, 1}, {3, 5000}, {5000, 3}, {130, 90}, {1, 16000}, {40, 1}};
    int every = test_quick() ? 601 : test_long() ? 1 : 97, at = (int)(test_random() % (unsigned)every);
    for (int which = 0; which < REDUCE_COUNT; which++)
        for (size_t d = 0; d < COUNT(dtypes); d++)
            for (size_t s = 0; s < COUNT(shapes); s++)
                for (int axis = 0; axis < 6; axis++)
                    if (at++ % every == 0)
                        ZL_SCOPE {
                            struct reduced r = {(enum reduce)which, dtypes[d], shapes[s][0],
                                                shapes[s][1],       axis % 3,  axis / 3};
                            bool half = dtypes[d] == ZL_FLOAT16 || dtypes[d] == ZL_BFLOAT16;
                            bool exact = which > REDUCE_PROD || !dtype_is_inexact(dtypes[d]);
                            agree("a reduction", call_reduce, &r, exact ? 0 : half ? 2e-2 : 1e-4);
                        }
}

TEST(reductions_on_devices) {
    on_devices(check_reductions);
}

// Reductions over axes whose other elements are adjacent: by packs and by single elements, with one or
// several lanes and parts, over one axis or two.
struct columns {
    zl_dtype dtype;
    int64_t dim[3];
    enum reduce which;
    int axis; // 3: the first two axes
};

static zl_array call_columns(void *data) {
    const struct columns *c = data;
    zl_array x = values((zl_shape){c->dim, 3}, c->dtype, 7);
    if (c->which == REDUCE_PROD)
        x = zl_astype(zl_add(zl_multiply(x, zl_scalar(0.0001)), zl_scalar(1)), c->dtype);
    zl_axes axes = c->axis == 3 ? ZL_AXES(0, 2) : (zl_axes){&c->axis, 1};
    if (c->axis == 3)
        x = zl_swapaxes(x, 1, 2);
    return op_reduce_axes("test", c->which, x, axes, false);
}

static void check_columns(void) {
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_BFLOAT16, ZL_FLOAT16, ZL_FLOAT64, ZL_INT32, ZL_UINT8};
    static const int64_t shapes[][3] = {{1024, 1, 64}, {20000, 1, 3}, {3000, 1, 16}, {1, 257, 90},
                                        {4, 600, 24},  {3, 77, 40},   {2, 2, 9000},  {60, 3, 300}};
    int every = test_quick() ? 211 : test_long() ? 1 : 61, at = (int)(test_random() % (unsigned)every);
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (size_t d = 0; d < COUNT(dtypes); d++)
            for (int which = REDUCE_SUM; which <= REDUCE_MIN; which++)
                for (int axis = 0; axis < 4; axis += axis == 1 ? 2 : 1)
                    if (at++ % every == 0)
                        ZL_SCOPE {
                            struct columns c = {
                                .dtype = dtypes[d], .which = (enum reduce)which, .axis = axis};
                            memcpy(c.dim, shapes[s], sizeof c.dim);
                            bool half = dtypes[d] == ZL_FLOAT16 || dtypes[d] == ZL_BFLOAT16;
                            bool exact = which > REDUCE_PROD || !dtype_is_inexact(dtypes[d]);
                            agree("a reduction of columns", call_columns, &c, exact ? 0 : half ? 2e-2 : 1e-4);
                        }
}

TEST(columns_on_devices) {
    on_devices(check_columns);
}

// Several threads share a column, so that a few hundred rows need no parts, which a second launch would have
// to combine.
static void check_short_columns(void) {
    struct columns c = {.dtype = ZL_FLOAT32, .dim = {1, 400, 96}, .which = REDUCE_SUM, .axis = 1};
    agree("a sum of short columns", call_columns, &c, 1e-4);
    int64_t launches = zl_counter("launches");
    zl_array y = zl_retain(call_columns(&c));
    CHECK(zl_eval(y));
    CHECK_EQ_INT(zl_counter("launches") - launches, 1);
    zl_release(y);
}

TEST(short_columns_are_one_launch_on_devices) {
    on_devices(check_short_columns);
}

// Lines -----------------------------------------------------------------------------------------------------

static zl_array softmax(void *data) {
    return zl_softmax(values(ZL_SHAPE(50, 300), *(zl_dtype *)data, 1), -1, false);
}

static zl_array layer_norm(void *data) {
    zl_array w = values(ZL_SHAPE(300), *(zl_dtype *)data, 2),
             x = values(ZL_SHAPE(300, 5, 10), *(zl_dtype *)data, 1);
    return zl_fast_layer_norm(zl_transpose(x, ZL_AXES(1, 2, 0)), w, w, 1e-5);
}

static zl_array log_softmax(void *data) {
    zl_array x = values(ZL_SHAPE(40, 200), *(zl_dtype *)data, 1);
    return zl_subtract(x, zl_logsumexp_axis(x, -1, true));
}

static zl_array random_lines(int64_t lines, int64_t line, zl_dtype dtype) {
    return zl_astype(
        zl_random_uniform(zl_scalar(-4), zl_scalar(4), ZL_SHAPE(lines, line), ZL_FLOAT32, zl_random_key(3)),
        dtype);
}

struct softmax_case {
    int64_t length;
    zl_dtype dtype;
    bool masked; // half of every 8192 elements, except in the first row; all of the second row
};

// Rows that few threads or many threads hold, or that are too long to be held. The input is divided by the
// length, so that its elements are small.
static zl_array softmax_of_length(void *data) {
    const struct softmax_case *c = data;
    zl_array x = random_lines(33, c->length, ZL_FLOAT32);
    if (c->masked) {
        zl_array at = zl_arange(0, (double)c->length, 1, ZL_FLOAT32),
                 line = zl_reshape(zl_arange(0, 33, 1, ZL_FLOAT32), ZL_SHAPE(33, 1));
        zl_array hidden = zl_less(zl_remainder(at, zl_scalar(8192)),
                                  zl_multiply(zl_scalar(4096), zl_less(zl_scalar(0), line)));
        x = zl_where(zl_logical_or(hidden, zl_equal(line, zl_scalar(1))), zl_scalar(-INFINITY), x);
    }
    x = zl_astype(x, c->dtype);
    zl_array y = zl_eval(x) ? zl_softmax(x, -1, false) : NULL;
    return y && zl_eval(y) ? zl_multiply(y, zl_astype(zl_scalar((double)c->length), c->dtype)) : NULL;
}

static zl_array norm_of_length(void *data) {
    return zl_fast_rms_norm(random_lines(33, *(int64_t *)data, ZL_FLOAT32), NULL, 1e-5);
}

// Masked elements are 0, and rows are divided by tiny numbers, huge ones, 0 and NaN.
static zl_array seldom_lines(void *data) {
    (void)data;
    static const float special[] = {1e-40f, 3e38f, 0, NAN, INFINITY, -1e-30f, 1e20f, 7};
    zl_array x = random_lines(32, 256, ZL_FLOAT32), scale = zl_from_f32(special, ZL_SHAPE(8, 1));
    zl_array masked = zl_where(zl_less(x, zl_scalar(0)), zl_scalar(-INFINITY), x);
    zl_array most = zl_max_axis(zl_abs(x), 1, true);
    scale = zl_concatenate((zl_array[]){scale, scale, scale, scale}, 4, 0);
    zl_array parts = zl_divide(x, zl_multiply(zl_divide(most, most), scale));
    return zl_add(zl_softmax(masked, -1, false), zl_minimum(zl_maximum(parts, zl_scalar(-9)), zl_scalar(9)));
}

// Softmax of a product: the softmax kernel does not begin with the product.
static zl_array softmax_of_product(void *data) {
    zl_dtype dtype = *(zl_dtype *)data;
    zl_array a = random_lines(40, 16, dtype), b = zl_swapaxes(random_lines(200, 16, dtype), 0, 1);
    return zl_softmax(zl_matmul(a, b), -1, false);
}

static void check_lengths(void) {
    static const int64_t lengths[] = {128, 1003, 6000, 16384, 36000, 65536};
    uint64_t drawn = test_random();
    for (size_t i = 0; i < COUNT(lengths); i++)
        if (!test_quick() || i == drawn % COUNT(lengths))
            ZL_SCOPE {
                for (int k = 0; k < 3; k++)
                    agree("softmax", softmax_of_length,
                          &(struct softmax_case){lengths[i], k ? ZL_FLOAT32 : ZL_BFLOAT16, k == 2},
                          k ? 1e-5 : 2e-2);
                agree("rms_norm", norm_of_length, (void *)(uintptr_t)&lengths[i], 1e-5);
            }
    agree("seldom", seldom_lines, NULL, 1e-5);
    agree("softmax of a product", softmax_of_product, &(zl_dtype){ZL_FLOAT32}, 1e-5);
    agree("softmax of a product", softmax_of_product, &(zl_dtype){ZL_FLOAT64}, 1e-12);
}

TEST(lines_of_any_length_on_devices) {
    on_devices(check_lengths);
}

static void check_lines(void) {
    static const struct {
        zl_array (*run)(void *data);
        const char *name;
    } cases[] = {{softmax, "softmax"}, {layer_norm, "layer_norm"}, {log_softmax, "log_softmax"}};
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_BFLOAT16};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t d = 0; d < (test_quick() ? 1 : COUNT(dtypes)); d++)
            ZL_SCOPE
                agree(cases[i].name, cases[i].run, &(zl_dtype){dtypes[d]},
                      dtypes[d] == ZL_FLOAT32 ? 2e-6 : 2e-2);
    zl_array x = values(ZL_SHAPE(50, 300), ZL_FLOAT32, 1);
    REQUIRE(zl_eval(zl_retain(x)));
    int64_t launches = zl_counter("launches");
    CHECK(zl_eval(zl_softmax(x, -1, false)));
    CHECK_EQ_INT(zl_counter("launches") - launches, 1);
    zl_array line = zl_retain(zl_sum_axis(zl_square(x), 1, true)), all = zl_retain(zl_divide(x, line));
    launches = zl_counter("launches");
    CHECK(zl_eval_all(2, (zl_array[]){line, all})); // both arrays are stored
    CHECK_EQ_INT(zl_counter("launches") - launches, 1);
    CHECK_NEAR(zl_item(zl_sum(zl_multiply(zl_multiply(all, line), zl_scalar(1)))), zl_item(zl_sum(x)), 1e-1);
    zl_release(line);
    zl_release(all);
    zl_release(x);
}

TEST(lines_are_one_kernel_on_devices) {
    on_devices(check_lines);
}

struct few_lines {
    int64_t lines, line;
};

// As in decoding: the sum of a token's vector and a layer's result is normalised, and read again later.
static void sum_and_norm(const struct few_lines *c, zl_array out[2]) {
    zl_array x = random_lines(c->lines, c->line, ZL_BFLOAT16), added = zl_negative(zl_square(x));
    zl_array weight = zl_reshape(random_lines(1, c->line, ZL_BFLOAT16), ZL_SHAPE(c->line));
    CHECK(zl_eval_all(3, (zl_array[]){x, added, weight}));
    out[0] = zl_add(x, added);
    out[1] = zl_fast_rms_norm(out[0], weight, 1e-5);
}

static zl_array product_of_both(void *data) {
    zl_array both[2];
    sum_and_norm(data, both);
    return zl_multiply(both[0], both[1]);
}

static int64_t launches_of(int count, const zl_array *out) {
    int64_t launches = zl_counter("launches");
    CHECK(zl_eval_all(count, out));
    return zl_counter("launches") - launches;
}

static int64_t launches_of_softmax(const struct few_lines *c) {
    zl_array x = random_lines(c->lines, c->line, ZL_BFLOAT16);
    CHECK(zl_eval(x));
    return launches_of(1, (zl_array[]){zl_softmax(x, -1, true)});
}

// In a kernel with a block per row, a few long rows would leave most of a device idle.
static void check_few_lines(void) {
    static const struct few_lines shorts[] = {{1, 1024}, {16, 128}, {3, 16384}};
    for (size_t i = 0; i < (test_quick() ? 1 : COUNT(shorts)); i++)
        ZL_SCOPE {
            zl_array both[2];
            sum_and_norm(&shorts[i], both);
            CHECK_EQ_INT(launches_of(2, both), 1);
            agree("a norm of few lines", product_of_both, (void *)(uintptr_t)&shorts[i], 2e-2);
        }
    CHECK_EQ_INT(launches_of_softmax(&shorts[0]), 1);
    CHECK(launches_of_softmax(&(struct few_lines){2, 40000}) > 1);
}

TEST(few_short_lines_are_one_kernel_on_devices) {
    on_devices(check_few_lines);
}

// Products --------------------------------------------------------------------------------------------------

struct product {
    zl_dtype dtype;
    int m, k, n;
    int transposed; // bit 0: a, bit 1: b
};

// uint8 is fp8, here small integers, whose sums are exact even in matrix units that add with 13 bits.
// op/test_matmul_fp8.c tests the error of other sums.
static zl_array factor(zl_shape shape, zl_dtype dtype, uint64_t seed) {
    return dtype == ZL_UINT8 ? zl_to_fp8(zl_round(values(shape, ZL_FLOAT32, seed), 0))
                             : values(shape, dtype, seed);
}

static zl_array call_matmul(void *data) {
    const struct product *p = data;
    zl_array a = factor(p->transposed & 1 ? ZL_SHAPE(3, p->k, p->m) : ZL_SHAPE(3, p->m, p->k), p->dtype, 1);
    zl_array b = factor(p->transposed & 2 ? ZL_SHAPE(p->n, p->k) : ZL_SHAPE(p->k, p->n), p->dtype, 2);
    a = p->transposed & 1 ? zl_swapaxes(a, 1, 2) : a;
    b = p->transposed & 2 ? zl_matrix_transpose(b) : b;
    return p->dtype == ZL_INT8    ? zl_matmul_int8(a, b)
           : p->dtype == ZL_UINT8 ? zl_matmul_fp8(a, b, 0.75, 2, p->transposed ? ZL_FLOAT32 : ZL_FLOAT16)
                                  : zl_matmul(a, b);
}

// Adds a row, a column or a matrix to the product.
static zl_array call_addmm(void *data) {
    const struct product *p = data;
    zl_array c = values(p->transposed == 1   ? ZL_SHAPE(p->n)
                        : p->transposed == 2 ? ZL_SHAPE(p->m, 1)
                                             : ZL_SHAPE(3, p->m, p->n),
                        p->dtype, 3);
    return zl_addmm(c, factor(ZL_SHAPE(3, p->m, p->k), p->dtype, 1),
                    factor(ZL_SHAPE(p->k, p->n), p->dtype, 2), 0.5, p->transposed ? 2 : 1);
}

static void check_sums_of_products(void) {
    static const zl_dtype dtypes[] = {ZL_FLOAT16, ZL_BFLOAT16};
    for (size_t d = 0; d < COUNT(dtypes); d++)
        for (int t = 0; t < 4; t++)
            ZL_SCOPE {
                struct product p = {dtypes[d], 70, 33, 65, t};
                agree("addmm", call_addmm, &p, dtypes[d] == ZL_BFLOAT16 ? 2e-2 : 2e-3);
            }
}

TEST(sums_of_products_on_devices) {
    on_devices(check_sums_of_products);
}

static void check_products(void) {
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_INT8, ZL_UINT8, ZL_BFLOAT16, ZL_FLOAT16, ZL_FLOAT64};
    static const int shapes[][3] = {{1, 1, 1}, {70, 33, 65}, {1, 200, 5}, {5, 17, 1}, {64, 64, 64}};
    for (size_t d = 0; d < (test_quick() ? 3 : COUNT(dtypes)); d++)
        for (size_t s = 0; s < COUNT(shapes); s++)
            for (int t = 0; t < 4; t++)
                ZL_SCOPE {
                    struct product p = {dtypes[d], shapes[s][0], shapes[s][1], shapes[s][2], t};
                    agree("a product", call_matmul, &p,
                          dtypes[d] == ZL_BFLOAT16  ? 2e-2
                          : dtypes[d] == ZL_FLOAT16 ? 2e-3
                          : dtypes[d] == ZL_UINT8   ? 0
                                                    : 1e-5);
                }
    zl_array zeros = zl_matmul(zl_zeros(ZL_SHAPE(2, 0), ZL_FLOAT32), zl_zeros(ZL_SHAPE(0, 3), ZL_FLOAT32));
    CHECK_EQ_F64(zl_item(zl_sum(zl_abs(zeros))), 0);
}

TEST(products_on_devices) {
    on_devices(check_products);
}

// Products of few rows with contiguous columns of a matrix: rows that are part of a matrix, and rows of which
// each is a matrix of a batch.
struct few_rows {
    zl_dtype dtype;
    int m, n, k;
    bool apart, adds; // each row is a matrix of a batch
};

static zl_array call_few(void *data) {
    const struct few_rows *p = data;
    const int64_t pad = 16;
    zl_array all = values(p->apart ? ZL_SHAPE(p->m, 1, p->k + pad) : ZL_SHAPE(p->m, p->k + pad), p->dtype, 1);
    zl_array part[2];
    if (!zl_split_at(all, ZL_SHAPE(pad), -1, part))
        return NULL;
    zl_array b = zl_matrix_transpose(values(ZL_SHAPE(p->n, p->k), p->dtype, 2));
    zl_array c = values(p->n % 2 ? ZL_SHAPE(p->n) : ZL_SHAPE(p->m, 1, p->n), p->dtype, 3);
    return p->adds ? zl_addmm(p->apart ? c : zl_reshape(c, p->n % 2 ? ZL_SHAPE(p->n) : ZL_SHAPE(p->m, p->n)),
                              part[1], b, 0.5, 2)
                   : zl_matmul(part[1], b);
}

// Each combination has a kernel that takes time to compile, so of all dtypes but the first, only one number
// of rows is tested.
static bool is_tried(size_t dtype, int m, bool adds) {
    return dtype == 0 || test_long() || (m == (int)dtype + 1 && adds == (dtype % 2 == 1));
}

static void check_few_rows(void) {
    static const zl_dtype dtypes[] = {ZL_BFLOAT16, ZL_FLOAT32, ZL_FLOAT16, ZL_FLOAT64};
    static const int sizes[][2] = {{1, 256}, {7, 1048}, {36, 1280}};
    for (size_t d = 0; d < (test_quick() ? 2 : COUNT(dtypes)); d++)
        for (size_t s = 0; s < COUNT(sizes); s++)
            for (int m = 1; m <= 5; m++)
                for (int way = is_tried(d, m, false) ? 0 : 2; way < (is_tried(d, m, true) ? 4 : 2); way++)
                    ZL_SCOPE {
                        struct few_rows p = {dtypes[d], m, sizes[s][0], sizes[s][1], way & 1, way >> 1};
                        agree("few rows", call_few, &p,
                              dtypes[d] == ZL_BFLOAT16  ? 2e-2
                              : dtypes[d] == ZL_FLOAT16 ? 2e-3
                                                        : 1e-5);
                    }
}

TEST(few_rows_on_devices) {
    on_devices(check_few_rows);
}

// Elements that are moved, chosen and made ------------------------------------------------------------------

static zl_array joined(void *data) {
    (void)data;
    zl_array x = values(ZL_SHAPE(5, 7), ZL_FLOAT16, 1),
             y = zl_matrix_transpose(values(ZL_SHAPE(7, 3), ZL_FLOAT16, 2));
    return zl_concatenate((zl_array[]){x, y}, 2, 0);
}

static zl_array padded(void *data) {
    return zl_pad(values(ZL_SHAPE(5, 7), *(zl_dtype *)data, 1), ZL_SHAPE(1, 0), ZL_SHAPE(2, 3), zl_scalar(2));
}

static zl_array updated(void *data) {
    (void)data;
    zl_array x = values(ZL_SHAPE(9, 8), ZL_INT32, 1);
    return zl_slice_update(x, values(ZL_SHAPE(3, 8), ZL_INT32, 2), ZL_SHAPE(7, 0), ZL_SHAPE(1, 8),
                           ZL_SHAPE(-2, 1));
}

static zl_array added(void *data) {
    zl_array x = values(ZL_SHAPE(9, 8), ZL_BFLOAT16, 1);
    const int64_t args[] = {UPDATE_ADD, 1, 0, 9, 8, 3, 1};
    (void)data;
    return op_dense(&op_slice_update, 2, (zl_array[]){x, values(ZL_SHAPE(3, 8), ZL_BFLOAT16, 2)}, 7, args,
                    ZL_BFLOAT16, 2, (const int64_t[]){9, 8});
}

// Copies of transposed arrays, in packs and, where one side is not aligned to a pack, by elements.
static zl_array joined_across(void *data) {
    zl_dtype dtype = *(zl_dtype *)data;
    zl_array x = values(ZL_SHAPE(2, 48, 80), dtype, 1), y = values(ZL_SHAPE(2, 33, 80), dtype, 2);
    x = zl_transpose(x, ZL_AXES(0, 2, 1));
    y = zl_transpose(y, ZL_AXES(0, 2, 1));
    return zl_concatenate((zl_array[]){x, x, y, x}, 4, 2);
}

static zl_array updated_across(void *data) {
    zl_array x = values(ZL_SHAPE(3, 120, 64), *(zl_dtype *)data, 1);
    zl_array part = zl_transpose(values(ZL_SHAPE(64, 40, 2), *(zl_dtype *)data, 2), ZL_AXES(2, 1, 0));
    return zl_slice_update(x, part, ZL_SHAPE(0, 119, 0), ZL_SHAPE(3, -121, 64), ZL_SHAPE(2, -3, 1));
}

static zl_array padded_across(void *data) {
    zl_array x = zl_matrix_transpose(values(ZL_SHAPE(70, 50), *(zl_dtype *)data, 1));
    return zl_pad(x, ZL_SHAPE(3, 5), ZL_SHAPE(1, 2), zl_scalar(1));
}

static void check_moves_across(void) {
    static const zl_dtype sizes[] = {ZL_UINT8, ZL_BFLOAT16, ZL_FLOAT32, ZL_COMPLEX64};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        agree("concatenate across", joined_across, &(zl_dtype){sizes[i]}, 0);
        agree("slice_update across", updated_across, &(zl_dtype){sizes[i]}, 0);
        agree("pad across", padded_across, &(zl_dtype){sizes[i]}, 0);
    }
}

TEST(moves_across_on_devices) {
    on_devices(check_moves_across);
}

// Parts whose adjacent elements are copied 16, 8 or 4 bytes at a time, or one by one, depending on lengths
// and alignment.
static zl_array joined_in_runs(void *data) {
    static const int64_t cut[] = {0, 16, 32, 40, 44, 46, 47, 64};
    zl_array x = values(ZL_SHAPE(3, 5, 64), *(zl_dtype *)data, 1), part[COUNT(cut) - 1];
    for (size_t i = 0; i + 1 < COUNT(cut); i++)
        part[i] = zl_slice(x, ZL_SHAPE(0, 1, cut[i]), ZL_SHAPE(3, 4, cut[i + 1]), ZL_SHAPE(1, 1, 1));
    zl_array turned = zl_transpose(zl_concatenate(part, COUNT(part), 2), ZL_AXES(1, 0, 2));
    return zl_concatenate((zl_array[]){turned, zl_zeros(ZL_SHAPE(3, 3, 32), *(zl_dtype *)data)}, 2, 2);
}

static zl_array padded_in_runs(void *data) {
    zl_array x = values(ZL_SHAPE(5, 32), *(zl_dtype *)data, 1);
    return zl_pad(x, ZL_SHAPE(1, 16), ZL_SHAPE(2, 16), zl_scalar(3));
}

static void check_moves_in_runs(void) {
    static const zl_dtype sizes[] = {ZL_UINT8, ZL_BFLOAT16, ZL_FLOAT32, ZL_COMPLEX64};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        agree("concatenate in runs", joined_in_runs, &(zl_dtype){sizes[i]}, 0);
        agree("pad in runs", padded_in_runs, &(zl_dtype){sizes[i]}, 0);
    }
}

TEST(moves_in_runs_on_devices) {
    on_devices(check_moves_in_runs);
}

TEST(runs_are_moved_by_vectors) {
    static const char *const files[] = {"move", "fill"};
    for (size_t i = 0; i < COUNT(files); i++) {
        struct tile_kernel *kernel = kernel_built_in(files[i], "ITEM=u16,WIDTH=8");
        char *source = kernel ? tile_rendered(kernel, "cuda_tiles") : NULL;
        CHECK_HAS(source, "(zl_16 *)(b");
        memory_free(source);
        tile_free(kernel);
    }
}

static zl_array positions(zl_dtype dtype, int64_t most) {
    zl_array x = zl_remainder(
        zl_astype(zl_abs(zl_multiply(values(ZL_SHAPE(4, 6), ZL_FLOAT32, 3), zl_scalar(100))), dtype),
        zl_scalar_int(most));
    return zl_contiguous(x, false);
}

static zl_array taken(void *data) {
    zl_array x = zl_matrix_transpose(values(ZL_SHAPE(11, 5), ZL_FLOAT32, 1));
    return zl_take(x, positions(*(zl_dtype *)data, 11), 1);
}

static zl_array taken_along(void *data) {
    zl_array x = values(ZL_SHAPE(4, 20), ZL_INT16, 1);
    return zl_take_along_axis(x, zl_subtract(positions(*(zl_dtype *)data, 20), zl_scalar_int(5)), 1);
}

static zl_array counted(void *data) {
    return zl_arange(-3, 300.5, 0.75, *(zl_dtype *)data);
}

static zl_array counted_in_ints(void *data) {
    return zl_arange(5, 3000, 7, *(zl_dtype *)data);
}

static zl_array drawn(void *data) {
    return zl_random_bits(ZL_SHAPE(3, 333), *(int *)data, zl_random_key(42));
}

static void check_moves(void) {
    agree("concatenate", joined, NULL, 0);
    agree("slice_update", updated, NULL, 0);
    agree("slice_update", added, NULL, 0);
    agree("take", taken, &(zl_dtype){ZL_UINT32}, 0);
    agree("take_along", taken_along, &(zl_dtype){ZL_INT64}, 0);
    agree("pad", padded, &(zl_dtype){ZL_BOOL}, 0);
    if (test_quick())
        return;
    agree("pad", padded, &(zl_dtype){ZL_COMPLEX64}, 0);
    agree("take", taken, &(zl_dtype){ZL_UINT64}, 0);
    agree("take", taken, &(zl_dtype){ZL_INT8}, 0);
    agree("arange", counted, &(zl_dtype){ZL_FLOAT32}, 0);
    agree("arange", counted_in_ints, &(zl_dtype){ZL_INT32}, 0);
    agree("bits", drawn, &(int){4}, 0);
    agree("bits", drawn, &(int){2}, 0);
    agree("bits", drawn, &(int){1}, 0);
}

TEST(moves_on_devices) {
    on_devices(check_moves);
}

// What goes wrong -------------------------------------------------------------------------------------------

static void check_errors(void) {
    zl_array x = values(ZL_SHAPE(100), ZL_FLOAT32, 1);
    zl_array failed = zl_retain(zl_linalg_inv(zl_zeros(ZL_SHAPE(3, 3), ZL_FLOAT32)));
    zl_array after = zl_retain(zl_add(failed, zl_sum(x)));
    int64_t fallbacks = zl_counter("fallbacks");
    bool inverse = zl_eval(after); // fails without LAPACK, and for a matrix without an inverse
    if (!inverse) {
        zl_clear_error();
        CHECK(!zl_eval(after));
        zl_clear_error();
    }
    bool falls_back = zl_counter("fallbacks") > fallbacks;
    CHECK(falls_back || !strcmp(zl_default_stream()->device->name, "cuda")); // cuda computes them by cuSOLVER
    test_setenv("ZL_NO_FALLBACK", "1");
    if (falls_back) {
        CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(zl_linalg_inv(zl_eye(3, 3, 0, ZL_FLOAT32))));
        CHECK_HAS(test_last_error(), zl_default_stream()->device->name);
    } else {
        CHECK(zl_eval(zl_linalg_inv(zl_eye(3, 3, 0, ZL_FLOAT32))));
    }
    test_setenv("ZL_NO_FALLBACK", NULL);
    CHECK(zl_eval(zl_exp(x)));
    zl_release(failed);
    zl_release(after);
}

TEST(errors_on_devices) {
    on_devices(check_errors);
}

static void check_faults(void) {
    zl_array x = zl_retain(values(ZL_SHAPE(50), ZL_FLOAT32, 1));
    REQUIRE(zl_eval(x));
    ZL_SCOPE
        CHECK(zl_eval(zl_exp(zl_add(x, x)))); // compiles the kernel
    for (long at = 1; at < 200; at++) {
        zl_scope scope = zl_scope_begin();
        memory_fail_at(at);
        zl_array y = zl_exp(zl_add(x, x));
        bool ok = y && zl_eval(y);
        long made = memory_allocations();
        memory_fail_at(0);
        CHECK(ok || zl_error());
        zl_clear_error();
        zl_scope_end(scope);
        if (made < at)
            break;
    }
    CHECK(zl_eval(zl_add(x, x)));
    zl_release(x);
}

TEST(memory_runs_out_on_devices) {
    on_devices(check_faults);
}
