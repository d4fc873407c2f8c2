// op_test.c - compares arrays with lists of numbers, derivatives with differences, and batches with loops.

#include "op/op_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/op.h"
#include "harness.h"
#include "schedule/schedule.h"

enum { MOST = 4096 };

// Uses four buffers in turn, so that several lists are valid at the same time.
const double *op_test_values(zl_array x) {
    static _Thread_local double ring[4][MOST];
    static _Thread_local char raw[MOST * 8];
    static _Thread_local int turn;
    double *out = ring[turn++ % 4];
    if (!x || x->size > MOST || !zl_copy_to(x, raw, zl_nbytes(x)))
        return NULL;
    zl_dtype dtype = zl_dtype_of(x);
    for (int64_t i = 0; i < x->size; i++) // the real part of complex numbers
        dtype_convert(&out[i], ZL_FLOAT64, raw + (size_t)i * zl_dtype_size(dtype), dtype, 1);
    return out;
}

static bool same(double a, double b, double bound) {
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= bound * fmax(1, fabs(b));
}

static bool compare(zl_array x, zl_dtype dtype, zl_shape shape, double bound, int count,
                    const double *expected) {
    if (!x) {
        test_note("it is NULL: %s", zl_error() ? zl_error() : "no error");
        return false;
    }
    if (zl_dtype_of(x) != dtype || !shape_equal(x->ndim, x->dim, shape.ndim, shape.dim)) {
        test_note("it is %s of shape %s, not %s of %s", zl_dtype_name(zl_dtype_of(x)), array_text(x),
                  zl_dtype_name(dtype), shape_text(shape.ndim, shape.dim));
        return false;
    }
    const double *value = op_test_values(x);
    if (!value || x->size != count) {
        test_note("it has %lld elements: %s", (long long)x->size, zl_error() ? zl_error() : "no error");
        return false;
    }
    for (int i = 0; i < count; i++)
        if (!same(value[i], expected[i], bound)) {
            test_note("element %d is %.17g, not %.17g", i, value[i], expected[i]);
            return false;
        }
    return true;
}

bool op_test_array(const char *file, int line, const char *what, zl_array x, zl_dtype dtype, zl_shape shape,
                   double bound, int count, const double *expected) {
    return test_check(file, line, compare(x, dtype, shape, bound, count, expected), what);
}

bool op_test_is_view(zl_array x, zl_array y) {
    return zl_eval_all(2, (zl_array[]){x, y}) && x->storage == y->storage;
}

static zl_array from_doubles(const double *data, zl_shape shape, zl_dtype dtype) {
    return zl_astype(zl_from_f64(data, shape), dtype);
}

zl_array op_test_range(zl_shape shape, zl_dtype dtype) {
    static _Thread_local double data[MOST];
    int64_t size;
    if (!shape_size(shape.ndim, shape.dim, &size) || size > MOST)
        return NULL;
    for (int64_t i = 0; i < size; i++)
        data[i] = (double)i;
    zl_array x = from_doubles(data, shape, dtype);
    return zl_eval(x) ? x : NULL;
}

zl_array op_test_random(zl_shape shape, zl_dtype dtype, double lo, double hi) {
    static _Thread_local double data[MOST];
    int64_t size;
    if (!shape_size(shape.ndim, shape.dim, &size) || size > MOST)
        return NULL;
    for (int64_t i = 0; i < size; i++)
        data[i] = test_uniform(lo, hi);
    zl_array x = from_doubles(data, shape, dtype);
    return zl_eval(x) ? x : NULL;
}

// Derivatives -----------------------------------------------------------------------------------------------

static zl_array dot(zl_array a, zl_array b) {
    return zl_sum(zl_multiply(a, b));
}

// Calls f as a function of arrays.
static bool call_function(void *data, int count, const zl_array *in, zl_outputs *out) {
    return count == 1 && zl_give(out, (*(op_test_function **)data)(in[0]));
}

// Returns the tangent of f(x) if that of x is t.
static zl_array tangent_of(op_test_function *f, zl_array x, zl_array t) {
    zl_outputs *out = zl_outputs_new();
    bool ok = zl_jvp((zl_fn){.call = call_function, .data = &f}, 1, &x, &t, NULL, out);
    zl_array dy = ok ? zl_positive(zl_outputs_get(out, 0)) : NULL;
    zl_outputs_free(out);
    return dy;
}

// Returns sum(w * f(x)) after x[at] was moved by step.
static double loss_at(op_test_function *f, const double *data, zl_array x, zl_array w, int64_t at,
                      double step) {
    double moved[MOST];
    memcpy(moved, data, sizeof(double) * (size_t)x->size);
    moved[at] += step;
    return zl_item(dot(f(zl_from_f64(moved, zl_shape_of(x))), w));
}

static void check_gradient(op_test_function *f, zl_array x, zl_array w, const double *gradient) {
    double data[MOST];
    memcpy(data, op_test_values(x), sizeof(double) * (size_t)x->size);
    for (int64_t i = 0; i < x->size; i++) {
        double step = 1e-5,
               slope = (loss_at(f, data, x, w, i, step) - loss_at(f, data, x, w, i, -step)) / (2 * step);
        if (!CHECK(same(gradient[i], slope, 1e-6)))
            test_note("gradient %lld is %.12g, the slope %.12g", (long long)i, gradient[i], slope);
    }
}

static void check_derivatives(op_test_function *f, zl_array x) {
    zl_array y = f(x), g = NULL;
    REQUIRE(y);
    zl_array w = op_test_random(zl_shape_of(y), ZL_FLOAT64, -1, 1),
             t = op_test_random(zl_shape_of(x), ZL_FLOAT64, -1, 1);
    if (!CHECK(zl_grad(dot(y, w), 1, &x, &g)))
        test_note("%s", zl_error());
    REQUIRE(g);
    zl_array forward = dot(tangent_of(f, x, t), w), back = dot(g, t);
    REQUIRE(zl_eval_all(3, (zl_array[]){forward, back, g}));
    CHECK_NEAR(zl_item(forward), zl_item(back), 1e-9 * (1 + fabs(zl_item(back))));
    REQUIRE(shape_equal(g->ndim, g->dim, x->ndim, x->dim));
    double gradient[MOST];
    memcpy(gradient, op_test_values(g), sizeof(double) * (size_t)g->size);
    check_gradient(f, x, w, gradient);
}

// Devices ---------------------------------------------------------------------------------------------------

static char *sample; // the original setting, while op_test_together replaces it; NULL: it does not

void op_test_together(void) {
    const char *text = setting_text(SETTING_SAMPLE);
    uint64_t of = strtoull(text, NULL, 10);
    if (of <= 1 || sample || !(sample = memory_copy_text(text)))
        return;
    plan_clear(); // plans depend on the devices for which they were made
    bool runs =
        hash_bytes(test_state.name, strlen(test_state.name), hash_bytes(text, strlen(text), 0)) % of == 0;
    test_setenv("ZL_SAMPLE", runs ? "1" : "0");
}

void op_test_apart(void) {
    if (!sample)
        return;
    plan_clear();
    test_setenv("ZL_SAMPLE", sample);
    memory_free(sample);
    sample = NULL;
}

bool op_test_is_static(void) {
    zl_stream s = stream_standard();
    return s && s->device->is_static;
}

// Batching --------------------------------------------------------------------------------------------------

enum { BATCH = 3 };

// Maps f over an axis; the axis of the results is the first one.
static zl_array batch_of(op_test_function *f, zl_array many, int axis) {
    zl_outputs *out = zl_outputs_new();
    bool ok = zl_vmap((zl_fn){.call = call_function, .data = &f}, 1, &many, &axis, 0, NULL, out);
    zl_array y = ok ? zl_positive(zl_outputs_get(out, 0)) : NULL;
    zl_outputs_free(out);
    return y;
}

// Returns the array at one index of an axis.
static zl_array pick(zl_array x, int axis, int at) {
    return zl_take(x, zl_scalar_int(at), axis);
}

static void check_batch(op_test_function *f, zl_shape shape, double lo, double hi, int axis) {
    int64_t dim[16];
    for (int i = 0; i <= shape.ndim; i++)
        dim[i] = i == axis ? BATCH : shape.dim[i - (i > axis)];
    zl_array many = op_test_random((zl_shape){dim, shape.ndim + 1}, ZL_FLOAT64, lo, hi), batch;
    REQUIRE(many);
    if (!CHECK(batch = batch_of(f, many, axis)))
        test_note("%s", zl_error());
    REQUIRE(batch && zl_eval(batch));
    CHECK_EQ_INT(zl_dim(batch, 0), BATCH);
    for (int i = 0; i < BATCH; i++) {
        zl_array one = f(zl_contiguous(pick(many, axis, i), false));
        zl_array part = pick(batch, 0, i);
        REQUIRE(one && part);
        if (!CHECK(shape_equal(one->ndim, one->dim, part->ndim, part->dim)))
            test_note("shape %s instead of %s", array_text(part), array_text(one));
        CHECK_EQ_INT(zl_item_int(zl_allclose(part, one, 1e-12, 1e-12, true)), 1);
    }
}

void op_test_batching(op_test_function *f, zl_shape shape, double lo, double hi) {
    op_test_together();
    check_batch(f, shape, lo, hi, 0);
    check_batch(f, shape, lo, hi, shape.ndim);
    op_test_apart();
}

void op_test_derivatives(op_test_function *f, zl_shape shape, double lo, double hi) {
    zl_array x = op_test_random(shape, ZL_FLOAT64, lo, hi);
    REQUIRE(x);
    check_derivatives(f, x);
}

void op_test_rules(op_test_function *f, zl_shape shape, double lo, double hi) {
    op_test_derivatives(f, shape, lo, hi);
    op_test_batching(f, shape, lo, hi);
}

zl_array op_test_ready(zl_array x) {
    CHECK(zl_eval(x));
    return x;
}

bool op_test_near(zl_array a, zl_array b) {
    return a && b && zl_item_int(zl_allclose(a, b, 1e-6, 1e-6, true)) == 1;
}
