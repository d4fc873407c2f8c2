// test_delta_wy.c - the delta rule computed in chunks, and its gradient, on every device that runs kernels,
// compared with the recurrence in float64.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "on_devices.h"

struct chunks {
    const char *rule;
    int64_t batch, time, heads, more, keys, values; // more: heads of v per head of q and k
    zl_dtype dtype;
    bool packed;
};
enum { Q, K, V, GATE, STATE, BETA, INPUTS };

// Returns numbers from -2 to 2.
static zl_array numbers(zl_shape shape, uint64_t seed) {
    int64_t size = 1;
    for (int i = 0; i < shape.ndim; i++)
        size *= shape.dim[i];
    float *x = malloc((size_t)size * sizeof *x);
    for (int64_t i = 0; x && i < size; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((double)(seed >> 40) * 0x1p-22 - 2);
    }
    zl_array a = x ? zl_from_f32(x, shape) : NULL;
    free(x);
    return a;
}

static zl_array unit(zl_array x) {
    return zl_multiply(x, zl_rsqrt(zl_add(zl_sum_axes(zl_square(x), ZL_AXES(-1), true), zl_scalar(1e-6))));
}

// Rounds vectors to the dtype before anything is computed from them, so that all devices get the same ones.
static zl_array rounded(zl_array x, zl_dtype dtype) {
    return zl_astype(zl_astype(x, dtype), ZL_FLOAT32);
}

static void inputs_of(const struct chunks *c, zl_array *in) {
    int64_t n = c->heads * c->more, sequences = c->packed ? 4 : c->batch;
    in[Q] = rounded(unit(numbers(ZL_SHAPE(c->batch, c->time, c->heads, c->keys), 1)), c->dtype);
    in[K] = rounded(unit(numbers(ZL_SHAPE(c->batch, c->time, c->heads, c->keys), 2)), c->dtype);
    in[V] = rounded(numbers(ZL_SHAPE(c->batch, c->time, n, c->values), 3), c->dtype);
    in[GATE] = zl_negative(zl_abs(numbers(ZL_SHAPE(c->batch, c->time, n), 4)));
    in[BETA] = zl_sigmoid(numbers(ZL_SHAPE(c->batch, c->time, n), 5));
    in[STATE] = numbers(ZL_SHAPE(sequences, n, c->keys, c->values), 6);
}

// Computes both results, then the gradients of a number made from them, NULL where there is none. Returns
// false if the call failed.
enum { RESULTS = 2, FOUND = RESULTS + INPUTS };
static bool compute(const struct chunks *c, zl_dtype dtype, zl_dtype wide, zl_array *found) {
    zl_array in[INPUTS], out[RESULTS], grad[INPUTS], offsets = NULL;
    bool has_beta = strcmp(c->rule, "simple_gla") != 0, has_a = !strcmp(c->rule, "comba");
    inputs_of(c, in);
    for (int i = 0; i < INPUTS; i++)
        in[i] = zl_astype(in[i], i <= V ? dtype : wide);
    if (c->packed)
        offsets = zl_from_i32((int32_t[]){0, 5, 5, 38, (int32_t)c->time}, ZL_SHAPE(5));
    if (!zl_fast_delta_rule(c->rule, in[Q], in[K], in[V], in[GATE], has_beta ? in[BETA] : NULL,
                            has_a ? zl_astype(in[Q], dtype) : NULL, NULL, in[STATE], NULL, offsets, NULL,
                            NULL, 0.3, false, false, out))
        return false;
    zl_array slope = rounded(numbers((zl_shape){out[0]->dim, 4}, 7), c->dtype);
    zl_array loss =
        zl_add(zl_sum(zl_multiply(zl_astype(out[0], wide), zl_astype(slope, wide))),
               zl_sum(zl_multiply(out[1], zl_astype(numbers((zl_shape){out[1]->dim, 4}, 8), wide))));
    zl_array wrt[INPUTS] = {in[Q], in[K], in[V], in[GATE], in[STATE], in[BETA]};
    if (!zl_grad(loss, INPUTS - !has_beta, wrt, grad))
        return false;
    for (int i = 0; i < FOUND; i++) {
        bool is_there = i < FOUND - !has_beta;
        zl_array x = !is_there ? NULL : i < RESULTS ? out[i] : grad[i - RESULTS];
        found[i] = is_there ? zl_retain(zl_contiguous(zl_astype(x, ZL_FLOAT64), false)) : NULL;
        if (is_there && !zl_eval(found[i]))
            return false;
    }
    return true;
}

static bool compute_on(zl_stream stream, const struct chunks *c, zl_dtype dtype, zl_dtype wide,
                       zl_array *found) {
    zl_scope scope = stream ? zl_scope_begin_on(stream) : zl_scope_begin();
    bool ok = compute(c, dtype, wide, found);
    zl_scope_end(scope);
    return ok;
}

// Returns the root of the mean square of the difference, relative to that of the expected values.
static double error_of(zl_array got, zl_array want) {
    const double *a = zl_data_f64(got), *b = zl_data_f64(want);
    double off = 0, all = 1e-300;
    for (int64_t i = 0; a && b && i < zl_size(want); i++) {
        off += (a[i] - b[i]) * (a[i] - b[i]);
        all += b[i] * b[i];
    }
    return a && b ? sqrt(off / all) : 1;
}

// Returns the bounds: for bf16 those of FLA's tests, for results and states, for gradients of vectors and
// states, and for those of gates.
static double bound_of(zl_dtype dtype, int which) {
    if (dtype == ZL_FLOAT32)
        return 2e-5;
    return which < RESULTS ? 0.005 : which == RESULTS + GATE || which == RESULTS + BETA ? 0.02 : 0.008;
}

static void check_case(const struct chunks *c) {
    zl_array want[FOUND] = {0}, got[FOUND] = {0}, again[FOUND] = {0};
    int64_t fallbacks = zl_counter("fallbacks");
    bool ok = compute_on(zl_new_stream("cpu"), c, ZL_FLOAT64, ZL_FLOAT64, want) &&
              compute_on(NULL, c, c->dtype, ZL_FLOAT32, got) &&
              compute_on(NULL, c, c->dtype, ZL_FLOAT32, again);
    CHECK(ok);
    for (int i = 0; ok && i < FOUND; i++) {
        if (!want[i])
            continue;
        double error = error_of(got[i], want[i]);
        if (!(error < bound_of(c->dtype, i)))
            printf("%s, %s: number %d is off by %g\n", c->rule, zl_dtype_name(c->dtype), i, error);
        CHECK(error < bound_of(c->dtype, i));
        CHECK(!memcmp(zl_data_f64(got[i]), zl_data_f64(again[i]), (size_t)zl_size(got[i]) * sizeof(double)));
    }
    for (int i = 0; i < FOUND; i++) {
        zl_release(want[i]);
        zl_release(got[i]);
        zl_release(again[i]);
    }
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

static void check_chunks(void) {
    static const struct chunks cases[] = {{"gated_delta", 1, 75, 1, 2, 20, 24, ZL_FLOAT32, true},
                                          {"simple_gla", 1, 40, 2, 1, 16, 16, ZL_FLOAT32, false},
                                          {"gated_delta", 1, 63, 1, 2, 60, 72, ZL_BFLOAT16, false},
                                          {"comba", 2, 33, 1, 2, 32, 17, ZL_FLOAT32, false},
                                          {"gated_delta", 1, 150, 2, 2, 128, 128, ZL_BFLOAT16, true},
                                          {"gated_delta", 2, 200, 1, 2, 100, 128, ZL_FLOAT16, false}};
    for (size_t i = 0; i < (test_long() ? COUNT(cases) : test_quick() ? 1 : 2); i++)
        check_case(&cases[i]);
}

TEST(the_delta_rule_by_chunks) {
    on_devices(check_chunks);
}

static bool all_finite(zl_array x) {
    return zl_item_int(zl_astype(zl_all(zl_isfinite(x)), ZL_INT32)) == 1;
}

// Keys and queries of the last of several packed sequences are NaN, which must not affect the others.
static void check_apart(void) {
    enum { BEGIN = 38, TIME = 75 };
    const struct chunks c = {"gated_delta", 1, TIME, 1, 2, 20, 24, ZL_FLOAT32, true};
    zl_array in[INPUTS], out[RESULTS], grad[V + 1], first = zl_arange(0, BEGIN, 1, ZL_INT32);
    inputs_of(&c, in);
    zl_array late = zl_greater_equal(zl_reshape(zl_arange(0, TIME, 1, ZL_INT32), ZL_SHAPE(1, TIME, 1, 1)),
                                     zl_scalar_int(BEGIN));
    for (int i = Q; i <= K; i++)
        in[i] = zl_where(late, zl_scalar(NAN), in[i]);
    zl_array offsets = zl_from_i32((int32_t[]){0, 5, 5, BEGIN, TIME}, ZL_SHAPE(5));
    CHECK(zl_fast_delta_rule(c.rule, in[Q], in[K], in[V], in[GATE], in[BETA], NULL, NULL, in[STATE], NULL,
                             offsets, NULL, NULL, 0.3, false, false, out));
    zl_array y = zl_take(out[0], first, 1), next = zl_take(out[1], zl_arange(0, 3, 1, ZL_INT32), 0);
    REQUIRE(zl_grad(zl_add(zl_sum(zl_square(y)), zl_sum(zl_square(next))), V + 1, in, grad));
    CHECK(all_finite(y) && all_finite(next));
    for (int i = Q; i <= V; i++)
        CHECK(all_finite(zl_take(grad[i], first, 1)));
}

TEST(packed_sequences_keep_their_nan_by_chunks) {
    on_devices(check_apart);
}
