// test_scan_layouts.c - scans of arrays with any order of axes in memory, compared with loops. The results
// have the same layout.

#include "op/op_test.h"
#include "op/ops.h"

#include <math.h>

enum { SIDE = 9, SIZE = SIDE * SIDE * SIDE, ORDERS = 6 };

static const int orders[ORDERS][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

struct form {
    enum scan which;
    int axis;
    bool reverse, inclusive;
};

static zl_array scan(const struct form *f, zl_array x) {
    switch (f->which) {
    case SCAN_SUM: return zl_cumsum(x, f->axis, f->reverse, f->inclusive, ZL_DTYPE_COUNT);
    case SCAN_PROD: return zl_cumprod(x, f->axis, f->reverse, f->inclusive, ZL_DTYPE_COUNT);
    case SCAN_MAX: return zl_cummax(x, f->axis, f->reverse, f->inclusive);
    case SCAN_MIN: return zl_cummin(x, f->axis, f->reverse, f->inclusive);
    default: return zl_logcumsumexp(x, f->axis, f->reverse, f->inclusive);
    }
}

static bool call_scan(void *data, int count, const zl_array *in, zl_outputs *out) {
    return count == 1 && zl_give(out, scan(data, in[0]));
}

static zl_fn function(const struct form *f) {
    return (zl_fn){.call = call_scan, .data = (void *)(uintptr_t)f};
}

static double combine(enum scan which, double a, double b) {
    switch (which) {
    case SCAN_SUM: return a + b;
    case SCAN_PROD: return a * b;
    case SCAN_MAX: return fmax(a, b);
    case SCAN_MIN: return fmin(a, b);
    default: return log(exp(a) + exp(b));
    }
}

static void reference(const struct form *f, const double *from, double *to) {
    static const double none[] = {0, 1, -INFINITY, INFINITY, -INFINITY};
    int step = f->axis == 0 ? SIDE * SIDE : f->axis == 1 ? SIDE : 1;
    for (int start = 0; start < SIZE; start++) {
        if (start / step % SIDE)
            continue; // a row begins where the position along its axis is 0
        double kept = none[f->which];
        for (int i = 0; i < SIDE; i++) {
            int at = start + (f->reverse ? SIDE - 1 - i : i) * step;
            double next = combine(f->which, kept, from[at]);
            to[at] = f->inclusive ? next : kept;
            kept = next;
        }
    }
}

// Returns an array with its axes in the given order in memory.
static zl_array in_order(const int *order, uint64_t seed) {
    zl_array x = zl_random_uniform(zl_scalar(0.5), zl_scalar(1.5), ZL_SHAPE(SIDE, SIDE, SIDE), ZL_FLOAT32,
                                   zl_random_key(seed));
    return zl_transpose(x, ZL_AXES(order[0], order[1], order[2]));
}

static bool equal(zl_array a, zl_array b) {
    return zl_item_int(zl_allclose(a, b, 1e-5, 1e-5, true));
}

static void check_values(const struct form *f, zl_array x, zl_array y) {
    double expected[SIZE];
    const double *got = op_test_values(y), *from = op_test_values(x);
    REQUIRE(got && from);
    reference(f, from, expected);
    for (int i = 0; i < SIZE; i++)
        if (got[i] != expected[i] && !CHECK_NEAR(got[i], expected[i], 1e-5 * fmax(1, fabs(expected[i]))))
            return;
}

typedef void check_form(const struct form *f);

static void for_all_forms(check_form *check) {
    for (enum scan which = SCAN_SUM; which <= SCAN_LOGADDEXP; which++)
        for (int axis = 0; axis < 3; axis++)
            for (int how = 0; how < 4; how++) {
                struct form f = {which, axis, how & 1, how & 2};
                if (test_quick() && test_between(0, 3))
                    continue;
                ZL_SCOPE
                    check(&f);
            }
}

static void check_layouts(const struct form *f) {
    for (int k = 0; k < ORDERS; k++) {
        zl_array x = in_order(orders[k], 1), y = scan(f, x);
        REQUIRE(zl_eval_all(2, (zl_array[]){x, y}));
        CHECK(shape_same_layout(3, x->dim, array_stride(x), array_stride(y)));
        check_values(f, x, y);
    }
}

TEST(scans_lie_as_their_input) {
    for_all_forms(check_layouts);
}

// The result is row-major if the input has gaps or is broadcast.
TEST(scans_of_gaps_are_row_major) {
    struct form f = {SCAN_SUM, 0, false, true};
    zl_array x = zl_slice(in_order(orders[5], 2), ZL_SHAPE(0, 0, 0), ZL_SHAPE(SIDE, SIDE, SIDE),
                          ZL_SHAPE(1, 2, 1)),
             wide = zl_broadcast_to(zl_arange(0, SIDE, 1, ZL_FLOAT32), ZL_SHAPE(SIDE, SIDE, SIDE));
    REQUIRE(zl_eval_all(2, (zl_array[]){x, wide}));
    zl_array y[] = {scan(&f, x), scan(&f, wide)};
    REQUIRE(zl_eval_all(2, y));
    CHECK(array_is(y[0], ARRAY_CONTIGUOUS) && array_is(y[1], ARRAY_CONTIGUOUS));
    CHECK(equal(y[0], scan(&f, zl_contiguous(x, false))));
    check_values(&f, wide, y[1]);
}

// Transforms ------------------------------------------------------------------------------------------------

// Returns the only result of a list, lent, and frees the list.
static zl_array only(bool ok, zl_outputs *out) {
    zl_array y = CHECK(ok) ? op_same(zl_outputs_get(out, 0)) : NULL;
    zl_outputs_free(out);
    return y;
}

// One compiled function serves all layouts, since their shapes are equal.
static void check_compiled(const struct form *f) {
    zl_compiled c = zl_compile(function(f), false);
    REQUIRE(c);
    for (int k = 0; k < ORDERS; k++) {
        zl_array x = in_order(orders[k], 3);
        zl_outputs *out = zl_outputs_new();
        REQUIRE(zl_eval(x));
        check_values(f, x, only(zl_compiled_call(c, NULL, 0, 1, &x, out), out));
    }
    zl_compiled_release(c);
}

TEST(compiled_scans_of_any_layout) {
    for_all_forms(check_compiled);
}

static void check_batches(const struct form *f) {
    struct form inner = {f->which, f->axis % 2, f->reverse, f->inclusive};
    for (int k = 0; k < ORDERS; k++)
        for (int batch = 0; batch < 3; batch++) {
            zl_array x = in_order(orders[k], 4);
            zl_outputs *out = zl_outputs_new();
            struct form whole = inner;
            whole.axis += batch <= inner.axis; // the batch axis comes before it
            REQUIRE(zl_eval(x));
            check_values(&whole, x, only(zl_vmap(function(&inner), 1, &x, &batch, 1, &batch, out), out));
        }
}

TEST(batched_scans_of_any_layout) {
    for_all_forms(check_batches);
}

static zl_array gradient(const struct form *f, zl_array x, zl_array w) {
    zl_array g = NULL;
    CHECK(zl_vjp(function(f), 1, &x, 1, &w, NULL, &g));
    return g;
}

static zl_array tangent(const struct form *f, zl_array x, zl_array w) {
    zl_outputs *out = zl_outputs_new();
    return only(zl_jvp(function(f), 1, &x, &w, NULL, out), out);
}

// Derivatives do not depend on the layout of x or of the cotangent. Those of row-major arrays are compared
// with differences.
static void check_derivatives(const struct form *f) {
    for (int k = 0; k < ORDERS; k++) {
        zl_array x = in_order(orders[k], 5), w = in_order(orders[ORDERS - 1 - k], 6);
        zl_array plain = zl_contiguous(x, false), weights = zl_contiguous(w, false);
        REQUIRE(zl_eval_all(4, (zl_array[]){x, w, plain, weights}));
        CHECK(equal(gradient(f, x, w), gradient(f, plain, weights)));
        CHECK(equal(tangent(f, x, w), tangent(f, plain, weights)));
    }
}

TEST(derivatives_of_scans_of_any_layout) {
    for_all_forms(check_derivatives);
}
