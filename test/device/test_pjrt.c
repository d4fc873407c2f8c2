// test_pjrt.c - runs segments as StableHLO on a PJRT plugin. The tests are skipped if no plugin is found;
// doc/tpu.md describes how to get one.

#define TEST_LACKS lacks_plugin

static const char *lacks_plugin(void);

#include "random_view.h"
#include "test.h"

#include "device/pjrt/pjrt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *lacks_plugin(void) {
    const char *reason = NULL;
    return pjrt_open(&reason) ? NULL : reason;
}

static int64_t counted(const char *name) {
    return zl_counter(name);
}

// Returns whether two evaluated arrays have the same elements, byte by byte.
static bool is_same(zl_array a, zl_array b) {
    return zl_eval(a) && zl_eval(b) && zl_nbytes(a) == zl_nbytes(b) &&
           !memcmp(zl_data(zl_contiguous(a, false)), zl_data(zl_contiguous(b, false)), zl_nbytes(a));
}

TEST(every_device_of_the_plugin_is_a_unit) {
    int units = pjrt_open(NULL);
    for (int unit = 0; unit < MIN_OF(units, 4); unit++) {
        char name[16];
        snprintf(name, sizeof name, "pjrt:%d", unit);
        REQUIRE(zl_use_device(name));
        CHECK_EQ_F64(zl_item(zl_sum(zl_add(zl_arange(0, 4, 1, ZL_FLOAT32), zl_scalar(1)))), 10);
    }
    CHECK(zl_use_device("tpu"));
}

// One unit computes an array and another reads it, without a copy to the host.
TEST(units_copy_without_the_host) {
    REQUIRE(zl_use_device("pjrt:0"));
    if (pjrt_open(NULL) < 2)
        SKIP("the plugin has one device");
    zl_array x = zl_multiply(zl_arange(0, 1000, 1, ZL_FLOAT32), zl_scalar(2));
    REQUIRE(zl_eval(x) && zl_use_device("pjrt:1"));
    int64_t uploads = counted("uploads"), downloads = counted("downloads");
    zl_array y = zl_add(x, zl_scalar(1));
    REQUIRE(zl_eval(y));
    CHECK_EQ_INT(counted("uploads") - uploads, 0);
    CHECK_EQ_INT(counted("downloads") - downloads, 0);
    CHECK_EQ_F64(zl_data_f32(y)[999], 1999);
}

// Segments of one structure, with other sizes, strides and offsets each time.
TEST(a_program_is_of_its_sizes_strides_and_offsets) {
    zl_array x = zl_arange(0, 60, 1, ZL_FLOAT32);
    REQUIRE(zl_use_device("pjrt") && zl_eval(x));
    for (int n = 2; n < 6; n++)
        for (int at = 0; at < 3; at++) {
            zl_array rows =
                zl_reshape(zl_slice(x, ZL_SHAPE(at), ZL_SHAPE(at + 3 * n), ZL_SHAPE(1)), ZL_SHAPE(3, n));
            zl_array sums = zl_sum_axis(rows, 1, false),
                     columns = zl_sum_axis(zl_transpose(rows, ZL_AXES(1, 0)), 1, false);
            REQUIRE(zl_eval(sums) && zl_eval(columns));
            for (int i = 0; i < 3; i++)
                CHECK_EQ_F64(zl_data_f32(sums)[i], n * (at + i * n) + n * (n - 1) / 2);
            for (int i = 0; i < n; i++)
                CHECK_EQ_F64(zl_data_f32(columns)[i], 3 * (at + i) + 3 * n);
        }
}

// A result with the layout of its transposed input, with an axis of one element in between.
TEST(results_lie_as_they_are_recorded) {
    REQUIRE(zl_use_device("pjrt"));
    zl_array x =
        zl_transpose(zl_reshape(zl_arange(0, 6, 1, ZL_FLOAT32), ZL_SHAPE(3, 1, 2)), ZL_AXES(2, 1, 0));
    zl_array y = zl_add(x, zl_scalar(1));
    REQUIRE(zl_eval(x) && zl_eval(y));
    zl_array flat = zl_contiguous(y, false);
    REQUIRE(zl_eval(flat));
    for (int i = 0; i < 6; i++)
        CHECK_EQ_F64(zl_data_f32(flat)[i], i % 3 * 2 + i / 3 + 1);
}

TEST(numbers_are_arguments) {
    zl_array x = zl_arange(0, 8, 1, ZL_FLOAT32);
    REQUIRE(zl_use_device("pjrt") && zl_eval(x));
    int64_t before = counted("compiles");
    for (int i = 0; i < 100; i++) {
        zl_array y = zl_subtract(x, zl_multiply(zl_scalar(i * 0.5), x));
        REQUIRE(zl_eval(y));
        CHECK_EQ_F64(zl_data_f32(y)[7], 7 - i * 0.5 * 7);
    }
    CHECK(counted("compiles") - before <= 1);
}

// Ops that are composed of others, twice in one program: each uses its own inputs.
TEST(composed_calls_do_not_mix) {
    zl_array y[2][2];
    for (int on = 0; on < 2; on++) {
        REQUIRE(zl_use_device(on ? "pjrt" : "cpu"));
        zl_array x = zl_reshape(zl_arange(0, 48, 1, ZL_FLOAT32), ZL_SHAPE(1, 2, 3, 8));
        for (int k = 0; k < 2; k++)
            y[on][k] =
                zl_fast_rope(zl_multiply(x, zl_scalar(0.1)), 8, k, 10000, 1, zl_scalar_int(5 * k), NULL);
        REQUIRE(zl_eval_all(2, y[on]));
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 48; i++)
            CHECK_NEAR(zl_data_f32(y[0][k])[i], zl_data_f32(y[1][k])[i], 1e-5);
}

// The bits of a number as another dtype, instead of the number converted.
TEST(bits_of_numbers_are_reinterpreted) {
    REQUIRE(zl_use_device("pjrt"));
    zl_array x = zl_add(zl_zeros(ZL_SHAPE(3), ZL_FLOAT32),
                        zl_view(zl_astype(zl_scalar_int(0x40490fdb), ZL_UINT32), ZL_FLOAT32));
    REQUIRE(zl_eval(x));
    CHECK_NEAR(zl_data_f32(x)[2], 3.14159274, 1e-7);
}

static zl_array wave(zl_shape shape, double rate) {
    int64_t size = 1;
    for (int i = 0; i < shape.ndim; i++)
        size *= shape.dim[i];
    return zl_reshape(zl_sin(zl_multiply(zl_arange(0, (double)size, 1, ZL_FLOAT32), zl_scalar(rate))), shape);
}

enum { MODEL_OPS = 9 };

// Records gradients of attention with sinks, and products with a quantised matrix some of whose codes cross
// bytes.
static void record_model(zl_array *out) {
    zl_array q = wave(ZL_SHAPE(1, 4, 3, 8), 0.3), k = wave(ZL_SHAPE(1, 2, 5, 8), 0.7),
             v = wave(ZL_SHAPE(1, 2, 5, 8), 0.9);
    zl_array sinks = wave(ZL_SHAPE(4), 1.1), wrt[] = {q, k, v, sinks}, part[3], floats[3];
    out[0] = zl_fast_scaled_dot_product_attention(q, k, v, 0.4, NULL, sinks, "causal");
    zl_grad(zl_sum(zl_multiply(out[0], wave(ZL_SHAPE(1, 4, 3, 8), 0.2))), 4, wrt, out + 1);
    zl_quantize(wave(ZL_SHAPE(16, 64), 0.5), 32, 5, "affine", NULL, part);
    zl_quantize(wave(ZL_SHAPE(16, 64), 0.5), 32, 4, "mxfp4", NULL, floats);
    zl_array x = wave(ZL_SHAPE(3, 64), 0.1);
    out[5] = zl_quantized_matmul(x, part[0], part[1], part[2], true, 32, 5, "affine");
    out[6] = zl_quantized_matmul(x, floats[0], floats[1], NULL, true, 32, 4, "mxfp4");
    out[7] = zl_dequantize(part[0], part[1], part[2], 32, 5, "affine", NULL, ZL_DTYPE_COUNT);
    zl_array wall = zl_concatenate(
        (zl_array[]){zl_full(ZL_SHAPE(2, 1), zl_scalar(INFINITY), ZL_FLOAT32), wave(ZL_SHAPE(2, 6), 1)}, 2,
        1);
    static const int32_t ends[] = {1, 4, 4, 7};
    out[8] = zl_segmented_mm(wall, wave(ZL_SHAPE(7, 2), 1.3), zl_from_i32(ends, ZL_SHAPE(2, 2)));
}

TEST(ops_of_models_run_on_the_device) {
    zl_array y[2][MODEL_OPS];
    for (int on = 0; on < 2; on++) {
        REQUIRE(zl_use_device(on ? "pjrt" : "cpu"));
        record_model(y[on]);
        int64_t fallbacks = counted("fallbacks"), launches = counted("launches");
        REQUIRE(zl_eval_all(MODEL_OPS, y[on]));
        CHECK_EQ_INT(counted("fallbacks") - fallbacks, 0);
        CHECK_EQ_INT(counted("launches") - launches, on);
    }
    for (int i = 0; i < MODEL_OPS; i++)
        for (int64_t k = 0; k < zl_size(y[0][i]); k++)
            CHECK_NEAR(zl_data_f32(zl_contiguous(y[1][i], false))[k],
                       zl_data_f32(zl_contiguous(y[0][i], false))[k], 2e-5);
}

// All calls of an evaluation are one execution.
TEST(a_segment_is_one_execution) {
    REQUIRE(zl_use_device("pjrt"));
    zl_array x = zl_full(ZL_SHAPE(4, 4), zl_scalar(0.5), ZL_FLOAT32);
    int64_t before = counted("launches");
    zl_array y = zl_softmax(zl_add(zl_matmul(x, zl_transpose(x, ZL_AXES(1, 0))), zl_exp(x)), -1, false);
    REQUIRE(zl_eval(y));
    CHECK_EQ_INT(counted("launches") - before, 1);
    CHECK(zl_data_f32(y)[3] > 0.2499 && zl_data_f32(y)[3] < 0.2501);
}

// Views of arrays in foreign memory, and views of these, have the same bytes as on the CPU. Many of them form
// one program.
TEST(views_are_those_of_the_cpu) {
    enum { ROUNDS = 8, VIEWS = 12 };
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_INT16, ZL_UINT8, ZL_BOOL, ZL_FLOAT64, ZL_COMPLEX64};
    for (int round = 0; round < ROUNDS; round++)
        ZL_SCOPE {
            zl_array here[VIEWS], there[VIEWS];
            struct view v[VIEWS];
            for (int i = 0; i < VIEWS; i++) {
                int64_t dim[VIEW_AXES];
                int ndim = view_shape(200, dim);
                v[i] = view_random(dtypes[i % (int)COUNT(dtypes)], ndim, dim);
            }
            for (int on = 0; on < 2; on++) {
                REQUIRE(zl_use_device(on ? "pjrt" : "cpu"));
                for (int i = 0; i < VIEWS; i++) {
                    zl_array x = v[i].array, y = x->ndim > 1 ? zl_swapaxes(x, 0, -1) : x;
                    y = zl_contiguous(zl_flatten(y, 0, -1), false);
                    (on ? there : here)[i] = zl_concatenate((zl_array[]){y, y}, 2, 0);
                }
                REQUIRE(zl_eval_all(VIEWS, on ? there : here));
            }
            for (int i = 0; i < VIEWS; i++)
                CHECK(is_same(here[i], there[i]));
        }
}

// An error of an array affects the arrays computed from it, and no other of the segment.
TEST(a_failure_is_of_its_own_arrays) {
    REQUIRE(zl_use_device("cpu"));
    zl_array bad = zl_linalg_cholesky(zl_negative(zl_eye(2, 2, 0, ZL_FLOAT32)), false);
    REQUIRE(!zl_eval(bad));
    zl_clear_error();
    REQUIRE(zl_use_device("pjrt"));
    zl_array good = zl_add(zl_ones(ZL_SHAPE(2), ZL_FLOAT32), zl_scalar(1)), lost = zl_add(bad, zl_scalar(1));
    CHECK(!zl_eval_all(2, (zl_array[]){good, lost}));
    zl_clear_error();
    CHECK(zl_eval(good) && zl_data_f32(good)[0] == 2);
}

// Returns a row of them, which the caller releases.
static zl_array even_numbers(int n) {
    zl_array x = NULL;
    ZL_SCOPE
        x = zl_retain(zl_reshape(zl_multiply(zl_arange(0, n, 1, ZL_FLOAT32), zl_scalar(2)), ZL_SHAPE(1, n)));
    return x;
}

// Moves all elements of a row by one place, within the row: what is read is what is overwritten. The row is
// made by the program, or an argument that nothing else reads.
TEST(an_update_may_be_a_part_of_what_it_updates) {
    static const int32_t one[] = {1};
    REQUIRE(zl_use_device("pjrt"));
    for (int i = 0; i < 8; i++)
        ZL_SCOPE {
            int n = i & 1 ? 40 : 3;
            bool is_argument = i & 2, is_dynamic = i & 4;
            zl_array x = even_numbers(n);
            REQUIRE(!is_argument || zl_eval(x));
            zl_array part = zl_slice(x, ZL_SHAPE(0, 0), ZL_SHAPE(1, n - 1), ZL_SHAPE(1, 1));
            zl_array y = is_dynamic
                             ? zl_dynamic_slice_update(x, part, zl_from_i32(one, ZL_SHAPE(1)), ZL_AXES(1))
                             : zl_slice_update(x, part, ZL_SHAPE(0, 1), ZL_SHAPE(1, n), ZL_SHAPE(1, 1));
            zl_release(x);
            REQUIRE(zl_eval(y));
            for (int k = 0; k < n; k++)
                CHECK_EQ_F64(zl_data_f32(y)[k], k ? 2 * (k - 1) : 0);
        }
}

// Chains of views -------------------------------------------------------------------------------------------

static uint64_t drawn; // both devices use the same random numbers

static int64_t draw(int64_t lo, int64_t hi) {
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return lo + (int64_t)((drawn >> 33) % (uint64_t)(hi - lo + 1));
}

static zl_array random_order(zl_array x) {
    int axis[VIEW_AXES + 2];
    for (int i = 0; i < x->ndim; i++)
        axis[i] = i;
    for (int i = x->ndim - 1; i > 0; i--) {
        int other = (int)draw(0, i), held = axis[i];
        axis[i] = axis[other];
        axis[other] = held;
    }
    return zl_transpose(x, (zl_axes){axis, x->ndim});
}

// Takes a part of each axis, also reversed and with steps.
static zl_array random_part(zl_array x) {
    int64_t start[VIEW_AXES + 2], stop[VIEW_AXES + 2], step[VIEW_AXES + 2];
    for (int i = 0; i < x->ndim; i++) {
        int64_t n = x->dim[i], a = draw(0, n - 1), b = draw(0, n - 1);
        bool is_back = draw(0, 2) == 0;
        start[i] = is_back ? MAX_OF(a, b) : MIN_OF(a, b);
        stop[i] = is_back ? MIN_OF(a, b) - 1 : MAX_OF(a, b) + 1;
        step[i] = (is_back ? -1 : 1) * draw(1, 3);
        if (stop[i] < 0)
            stop[i] = -n - 1;
    }
    zl_shape at = {start, x->ndim}, to = {stop, x->ndim}, by = {step, x->ndim};
    return zl_slice(x, at, to, by);
}

static zl_array random_stretch(zl_array x) {
    int64_t dim[VIEW_AXES + 2];
    if (x->ndim > VIEW_AXES || x->size > 300)
        return x;
    dim[0] = draw(1, 3);
    for (int i = 0; i < x->ndim; i++)
        dim[i + 1] = x->dim[i];
    return zl_broadcast_to(x, (zl_shape){dim, x->ndim + 1});
}

static zl_array random_step(zl_array x) {
    switch (draw(0, 5)) {
    case 0: return random_order(x);
    case 1: return random_part(x);
    case 2: return random_stretch(x);
    case 3: return x->ndim > 1 ? zl_flatten(x, 0, 1) : zl_reshape(x, ZL_SHAPE(1, x->size));
    case 4: return x->ndim > VIEW_AXES ? x : zl_expand_dims(x, ZL_AXES((int)draw(0, x->ndim)));
    default: return zl_squeeze(x, (zl_axes){0});
    }
}

static zl_array random_chain(zl_array x) {
    for (int64_t steps = draw(1, 6); steps > 0 && x; steps--)
        x = random_step(x);
    return zl_contiguous(zl_flatten(x, 0, -1), false);
}

// Many chains form one program. They need no gather: only overlapping windows do, which as_strided makes.
TEST(chains_of_views_are_those_of_the_cpu) {
    enum { TOGETHER = 50, DTYPES = 4 };
    static const zl_dtype dtypes[DTYPES] = {ZL_FLOAT32, ZL_INT16, ZL_UINT8, ZL_BOOL};
    int rounds = (test_long() ? 10000 : test_quick() ? 200 : 1000) / TOGETHER;
    for (int round = 0; round < rounds; round++)
        ZL_SCOPE {
            zl_array chain[2][TOGETHER];
            int64_t gathers = counted("gathers");
            uint64_t state = test_random();
            for (int on = 0; on < 2; on++) {
                REQUIRE(zl_use_device(on ? "pjrt" : "cpu"));
                drawn = state;
                for (int i = 0; i < TOGETHER; i++) {
                    int64_t dim[] = {draw(1, 5), draw(1, 6), draw(1, 7)}, size = dim[0] * dim[1] * dim[2];
                    zl_array x =
                        zl_reshape(zl_arange(0, (double)size, 1, ZL_INT32), ZL_SHAPE(dim[0], dim[1], dim[2]));
                    chain[on][i] = random_chain(zl_astype(x, dtypes[i % DTYPES]));
                }
                REQUIRE(zl_eval_all(TOGETHER, chain[on]));
            }
            CHECK_EQ_INT(counted("gathers") - gathers, 0);
            for (int i = 0; i < TOGETHER; i++)
                CHECK(is_same(chain[0][i], chain[1][i]));
        }
}

TEST(windows_that_overlap_are_gathered) {
    REQUIRE(zl_use_device("pjrt"));
    int64_t before = counted("gathers");
    zl_array y =
        zl_as_strided(zl_arange(0, 20, 1, ZL_FLOAT32), ZL_SHAPE(5, 4), (zl_shape){(int64_t[]){3, 2}, 2}, 1);
    zl_array z = zl_contiguous(y, false);
    REQUIRE(zl_eval(z));
    for (int i = 0; i < 20; i++)
        CHECK_EQ_F64(zl_data_f32(z)[i], 1 + i / 4 * 3 + i % 4 * 2);
    CHECK_EQ_INT(counted("gathers") - before, 1);
}
