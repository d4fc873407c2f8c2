// test_gated_delta.c - the gated delta rule compared with loops by its definition, its gradients, batches,
// invalid input.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/op_test.h"
#include "fuzz/call_op.h"

OP_RULES_HERE(zl_fast_gated_delta_update);
OP_FITTING(zl_fast_gated_delta_update, q, ZL_FLOAT32, 2, 3, 1, 4);
OP_FITTING(zl_fast_gated_delta_update, k, ZL_FLOAT32, 2, 3, 1, 4);
OP_FITTING(zl_fast_gated_delta_update, v, ZL_FLOAT32, 2, 3, 2, 5);
OP_FITTING(zl_fast_gated_delta_update, gamma, ZL_FLOAT32, 2, 3, 2);
OP_FITTING(zl_fast_gated_delta_update, beta, ZL_FLOAT32, 2, 3, 2);
OP_FITTING(zl_fast_gated_delta_update, initial_state, ZL_FLOAT32, 2, 2, 5, 4);
OP_FITTING(zl_fast_gated_delta_update, mask, ZL_BOOL, 2, 3);

// Batch, steps, heads of q and k, their size, heads of v, their size.
struct sizes {
    int64_t b, t, h, d, n, e;
};

enum { Q, K, V, GATE, BETA, STATE, MASK, INPUTS };

static void make(const struct sizes *s, bool by_column, zl_dtype dtype, zl_array *in) {
    in[Q] = op_test_random(ZL_SHAPE(s->b, s->t, s->h, s->d), dtype, -1, 1);
    in[K] = op_test_random(ZL_SHAPE(s->b, s->t, s->h, s->d), dtype, -0.5, 0.5);
    in[V] = op_test_random(ZL_SHAPE(s->b, s->t, s->n, s->e), dtype, -1, 1);
    in[GATE] = by_column ? op_test_random(ZL_SHAPE(s->b, s->t, s->n, s->d), dtype, 0.5, 1)
                         : op_test_random(ZL_SHAPE(s->b, s->t, s->n), dtype, 0.5, 1);
    in[BETA] = op_test_random(ZL_SHAPE(s->b, s->t, s->n), dtype, 0, 1);
    in[STATE] = op_test_random(ZL_SHAPE(s->b, s->n, s->e, s->d), dtype, -1, 1);
    in[MASK] = zl_greater(op_test_random(ZL_SHAPE(s->b, s->t), ZL_FLOAT32, -1, 2), zl_scalar(0));
    CHECK(zl_eval(in[MASK]));
}

static bool update(const zl_array *in, zl_array *out) {
    return zl_fast_gated_delta_update(in[Q], in[K], in[V], in[GATE], in[BETA], in[STATE], in[MASK], out);
}

// The definition --------------------------------------------------------------------------------------------

// Updates the state (e, d) of a head by one step, and writes its output to y.
static void reference_step(const struct sizes *s, double *state, const double *q, const double *k,
                           const double *v, const double *gate, int64_t gate_step, double beta, double *y) {
    for (int64_t row = 0; row < s->e; row++, state += s->d) {
        double held = 0;
        y[row] = 0;
        for (int64_t i = 0; i < s->d; i++) {
            state[i] *= gate[i * gate_step];
            held += state[i] * k[i];
        }
        for (int64_t i = 0; i < s->d; i++) {
            state[i] += (v[row] - held) * beta * k[i];
            y[row] += state[i] * q[i];
        }
    }
}

// Computes one head of one batch element. y: its first output; the next ones follow at a distance of n * e.
static void reference_head(const struct sizes *s, const double **in, bool by_column, int64_t b, int64_t head,
                           double *state, double *y) {
    for (int64_t t = 0; t < s->t; t++) {
        int64_t step = b * s->t + t, at = step * s->n + head,
                key = (step * s->h + head / (s->n / s->h)) * s->d;
        double *to = y + t * s->n * s->e;
        if (in[MASK] && !in[MASK][step])
            memset(to, 0, sizeof *to * (size_t)s->e);
        else
            reference_step(s, state, in[Q] + key, in[K] + key, in[V] + at * s->e,
                           in[GATE] + at * (by_column ? s->d : 1), by_column, in[BETA][at], to);
    }
}

static double farthest(zl_array x, const double *want) {
    const double *got = op_test_values(x);
    double worst = 0;
    for (int64_t i = 0; i < x->size; i++)
        worst = fmax(worst, fabs(got[i] - want[i]));
    return worst;
}

static double *copy_of(zl_array x) {
    double *to = malloc(sizeof *to * (size_t)x->size);
    memcpy(to, op_test_values(x), sizeof *to * (size_t)x->size);
    return to;
}

static void check_sizes(const struct sizes *s, bool by_column, zl_dtype dtype, bool with_state,
                        bool with_mask, double bound) {
    zl_array in[INPUTS], out[2];
    double *data[INPUTS] = {0};
    make(s, by_column, dtype, in);
    double *state = with_state ? copy_of(in[STATE]) : calloc((size_t)in[STATE]->size, sizeof *state);
    in[STATE] = with_state ? in[STATE] : NULL;
    in[MASK] = with_mask ? in[MASK] : NULL;
    for (int i = 0; i < INPUTS; i++)
        data[i] = in[i] ? copy_of(in[i]) : NULL;
    double *y = calloc((size_t)in[V]->size, sizeof *y);
    for (int64_t i = 0; i < s->b * s->n; i++)
        reference_head(s, (const double **)data, by_column, i / s->n, i % s->n, state + i * s->e * s->d,
                       y + (i / s->n * s->t * s->n + i % s->n) * s->e);
    if (CHECK(update(in, out) && zl_eval_all(2, out))) {
        CHECK_EQ_INT(out[0]->dtype, dtype);
        CHECK_EQ_INT(out[1]->dtype, dtype == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32);
        CHECK_NEAR(farthest(out[0], y), 0, bound);
        CHECK_NEAR(farthest(out[1], state), 0, dtype == ZL_FLOAT64 ? 1e-12 : 1e-5);
    }
    for (int i = 0; i < INPUTS; i++)
        free(data[i]);
    free(state);
    free(y);
}

TEST(gated_delta_is_its_definition) {
    static const struct sizes sizes[] = {
        {1, 1, 1, 1, 1, 1}, {2, 5, 2, 19, 4, 3}, {1, 7, 1, 32, 3, 2}, {3, 2, 3, 5, 3, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int way = 0; way < 8; way++)
            ZL_SCOPE {
                check_sizes(&sizes[i], way & 1, ZL_FLOAT64, way & 2, way & 4, 1e-12);
                check_sizes(&sizes[i], way & 1, ZL_FLOAT32, way & 2, way & 4, 1e-5);
                check_sizes(&sizes[i], way & 1, ZL_BFLOAT16, way & 2, way & 4, 0.05);
            }
}

// Computing the second half from the state after the first half gives the same as the whole.
TEST(gated_delta_goes_on) {
    static const struct sizes s = {2, 6, 1, 8, 2, 4};
    zl_array in[INPUTS], whole[2], part[2], half[INPUTS];
    make(&s, false, ZL_FLOAT64, in);
    REQUIRE(update(in, whole) && zl_eval_all(2, whole));
    zl_array state = in[STATE];
    for (int h = 0; h < 2; h++) {
        for (int i = 0; i < INPUTS; i++)
            half[i] = i == STATE ? state : zl_take(in[i], zl_arange_int(3 * h, 3 * h + 3, 1, ZL_INT32), 1);
        REQUIRE(update(half, part) && zl_eval_all(2, part));
        state = part[1];
    }
    CHECK_EQ_INT(zl_item_int(zl_array_equal(state, whole[1], false)), 1);
    zl_array none = zl_take(in[Q], zl_arange_int(0, 0, 1, ZL_INT32), 1),
             v = zl_zeros(ZL_SHAPE(2, 0, 2, 4), ZL_FLOAT64);
    zl_array gates = zl_zeros(ZL_SHAPE(2, 0, 2), ZL_FLOAT64);
    REQUIRE(zl_fast_gated_delta_update(none, none, v, gates, gates, in[STATE], NULL, part));
    CHECK_EQ_INT(zl_size(part[0]), 0);
    CHECK_EQ_INT(zl_item_int(zl_array_equal(part[1], in[STATE], false)), 1);
}

// Rules -----------------------------------------------------------------------------------------------------

// Returns the elements of x from *at on in a shape, and advances *at.
static zl_array part_of(zl_array x, int64_t *at, zl_shape shape) {
    int64_t size, from = *at;
    if (!shape_size(shape.ndim, shape.dim, &size))
        return NULL;
    *at += size;
    return zl_reshape(zl_slice(x, ZL_SHAPE(from), ZL_SHAPE(from + size), ZL_SHAPE(1)), shape);
}

// Returns both results in one row, for inputs that are all in one row.
static zl_array of_line(zl_array x, bool by_column, bool masked) {
    int64_t at = 0;
    zl_array q = part_of(x, &at, ZL_SHAPE(1, 2, 1, 3)), k = part_of(x, &at, ZL_SHAPE(1, 2, 1, 3));
    zl_array v = part_of(x, &at, ZL_SHAPE(1, 2, 2, 2)), beta = part_of(x, &at, ZL_SHAPE(1, 2, 2)), out[2];
    zl_array state = part_of(x, &at, ZL_SHAPE(1, 2, 2, 3));
    zl_array gate = by_column ? part_of(x, &at, ZL_SHAPE(1, 2, 2, 3)) : part_of(x, &at, ZL_SHAPE(1, 2, 2));
    zl_array mask = masked ? zl_from_bool((bool[]){false, true}, ZL_SHAPE(1, 2)) : NULL;
    if (!zl_fast_gated_delta_update(q, k, v, gate, beta, state, mask, out))
        return NULL;
    return zl_concatenate((zl_array[]){zl_flatten(out[0], 0, -1), zl_flatten(out[1], 0, -1)}, 2, 0);
}
RULES(gated_delta, ZL_SHAPE(40), of_line(x, false, false))
RULES(gated_delta_by_column, ZL_SHAPE(48), of_line(x, true, false))
RULES(gated_delta_masked, ZL_SHAPE(40), of_line(x, false, true))

// Uses only one of the results.
static zl_array last_state(zl_array x) {
    zl_array out[2], k = zl_reshape(x, ZL_SHAPE(1, 2, 1, 3)), v = zl_ones(ZL_SHAPE(1, 2, 1, 2), ZL_FLOAT64);
    zl_array half = zl_full(ZL_SHAPE(1, 2, 1), zl_scalar(0.5), ZL_FLOAT64);
    return zl_fast_gated_delta_update(k, k, v, half, half, NULL, NULL, out) ? out[1] : NULL;
}
RULES(gated_delta_state, ZL_SHAPE(6), last_state(x))

// Bad input -------------------------------------------------------------------------------------------------

TEST(gated_delta_refuses_what_does_not_fit) {
    static const struct sizes s = {2, 3, 2, 4, 4, 5};
    zl_array in[INPUTS], bad[INPUTS], out[2];
    make(&s, false, ZL_FLOAT32, in);
    for (int i = 0; i < INPUTS; i++) {
        memcpy(bad, in, sizeof bad);
        bad[i] = zl_expand_dims(in[i], ZL_AXES(0));
        CHECK_ERROR(ZL_ERROR_SHAPE, update(bad, out));
        bad[i] = NULL;
        CHECK(i >= STATE || !update(bad, out));
        bad[i] = zl_astype(in[i], ZL_INT32);
        if (i != MASK)
            CHECK_ERROR(ZL_ERROR_DTYPE, update(bad, out));
    }
    memcpy(bad, in, sizeof bad);
    bad[V] = zl_zeros(ZL_SHAPE(2, 3, 3, 5), ZL_FLOAT32);
    CHECK_ERROR(ZL_ERROR_SHAPE, update(bad, out));
    CHECK_HAS(test_last_error(),
              "zl_fast_gated_delta_update: q (2, 3, 2, 4), k (2, 3, 2, 4) and v (2, 3, 3, 5)");
    CHECK_ERROR(ZL_ERROR_VALUE, update(in, NULL));
}
