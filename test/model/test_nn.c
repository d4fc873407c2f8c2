// test_nn.c - layers and losses compared with their formulas in double, every mixer, and tables of
// parameters.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "zellige_nn.h"

// The names of src/op/delta.def, each of which must be a mixer.
static const char *const rules[] = {
#define DELTA(name, ...) #name,
#include "op/delta.def"
};
enum { RULES = sizeof rules / sizeof *rules };

static zl_array random_array(zl_shape shape) {
    return zl_random_normal(shape, ZL_FLOAT32, NULL, NULL, zl_random_key((int64_t)(test_random() >> 2)));
}

// Returns a parameter of the table as numbers; NULL and a failed check if there is none of that name.
static const float *find(zl_nn nn, const char *name) {
    for (int i = 0; i < zl_nn_count(nn); i++)
        if (!strcmp(zl_nn_name(nn, i), name))
            return zl_data_f32(zl_nn_array(nn, i));
    CHECK_STR(name, "a parameter of the table");
    return NULL;
}

// Changes all parameters from their initial values.
static void stir(zl_nn nn) {
    for (int i = 0; i < zl_nn_count(nn); i++)
        ZL_SCOPE {
            zl_array a = zl_nn_array(nn, i);
            CHECK(zl_nn_assign(nn, i, zl_add(a, zl_multiply(zl_scalar(0.3), random_array(zl_shape_of(a))))));
        }
}

static void check_near(zl_array y, const double *wanted, int64_t count, const char *what) {
    if (!CHECK(y) || !CHECK_EQ_INT(zl_size(y), count))
        return;
    const float *is = zl_data_f32(zl_contiguous(y, false));
    for (int64_t i = 0; is && i < count; i++)
        if (!CHECK_NEAR(is[i], wanted[i], 2e-5 * (1 + fabs(wanted[i])))) {
            test_note("%s, element %d", what, (int)i);
            return;
        }
}

enum { ROWS = 6, WIDTH = 5, OUT = 4 };

static void linear_rows(const float *x, const float *w, const float *b, int in, int out, int rows,
                        double *y) {
    for (int r = 0; r < rows; r++)
        for (int o = 0; o < out; o++) {
            y[r * out + o] = b ? b[o] : 0;
            for (int i = 0; i < in; i++)
                y[r * out + o] += (double)w[o * in + i] * x[r * in + i];
        }
}

TEST(linear_embedding_and_logits_are_their_formulas) {
    zl_nn nn = zl_nn_new(7);
    zl_array x = random_array(ZL_SHAPE(2, ROWS / 2, WIDTH));
    const int32_t ids[ROWS] = {3, 0, 2, 2, 1, 3};
    double y[ROWS * WIDTH];
    for (int round = 0; round < 2; round++) {
        zl_array out = zl_nn_linear(nn, "f", x, OUT, true);
        if (!round) {
            CHECK_EQ_INT(zl_nn_count(nn), 2);
            stir(nn);
            continue;
        }
        linear_rows(zl_data_f32(x), find(nn, "f.weight"), find(nn, "f.bias"), WIDTH, OUT, ROWS, y);
        check_near(out, y, ROWS * OUT, "linear");
    }
    zl_array rows = zl_nn_embedding(nn, "words", zl_from_i32(ids, ZL_SHAPE(ROWS)), 4, WIDTH);
    const float *table = find(nn, "words.weight");
    for (int i = 0; i < ROWS * WIDTH; i++)
        y[i] = table[ids[i / WIDTH] * WIDTH + i % WIDTH];
    check_near(rows, y, ROWS * WIDTH, "embedding");
    linear_rows(zl_data_f32(x), table, NULL, WIDTH, 4, ROWS, y);
    check_near(zl_nn_logits(nn, "words", x, 4), y, ROWS * 4, "tied logits");
    CHECK_EQ_INT(zl_nn_count(nn), 3);
    CHECK_EQ_INT(zl_nn_elements(nn), OUT * WIDTH + OUT + 4 * WIDTH);
    CHECK_EQ_INT(zl_nn_kind_of(nn, 0), ZL_NN_MATRIX);
    CHECK_EQ_INT(zl_nn_kind_of(nn, 1), ZL_NN_VECTOR);
    CHECK_EQ_INT(zl_nn_kind_of(nn, 2), ZL_NN_TABLE);
    zl_nn_free(nn);
}

TEST(norms_are_their_formulas) {
    zl_nn nn = zl_nn_new(7);
    zl_array x = random_array(ZL_SHAPE(ROWS, WIDTH));
    CHECK(zl_nn_rms_norm(nn, "rms", x) && zl_nn_layer_norm(nn, "layer", x));
    stir(nn);
    const float *in = zl_data_f32(x), *w = find(nn, "rms.weight"), *g = find(nn, "layer.weight"),
                *b = find(nn, "layer.bias");
    double rms[ROWS * WIDTH], layer[ROWS * WIDTH];
    for (int r = 0; r < ROWS; r++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < WIDTH; i++)
            sum += in[r * WIDTH + i], squares += (double)in[r * WIDTH + i] * in[r * WIDTH + i];
        double mean = sum / WIDTH, variance = squares / WIDTH - mean * mean;
        for (int i = 0; i < WIDTH; i++) {
            rms[r * WIDTH + i] = in[r * WIDTH + i] / sqrt(squares / WIDTH + 1e-6) * w[i];
            layer[r * WIDTH + i] = (in[r * WIDTH + i] - mean) / sqrt(variance + 1e-6) * g[i] + b[i];
        }
    }
    check_near(zl_nn_rms_norm(nn, "rms", x), rms, ROWS * WIDTH, "rms_norm");
    check_near(zl_nn_layer_norm(nn, "layer", x), layer, ROWS * WIDTH, "layer_norm");
    zl_nn_free(nn);
}

TEST(convolutions_are_their_formulas) {
    enum { BATCH = 2, TIME = 6, TAPS = 3 };
    zl_nn nn = zl_nn_new(7);
    zl_array x = random_array(ZL_SHAPE(BATCH, TIME, WIDTH));
    CHECK(zl_nn_causal_conv(nn, "causal", x, TAPS) &&
          zl_nn_conv(nn, "conv", x, OUT, ZL_SHAPE(TAPS), 1, 1, 1));
    stir(nn);
    const float *in = zl_data_f32(x), *w = find(nn, "causal.weight"), *k = find(nn, "conv.weight"),
                *b = find(nn, "conv.bias");
    double causal[BATCH * TIME * WIDTH] = {0}, conv[BATCH * TIME * OUT];
    for (int n = 0; n < BATCH; n++)
        for (int t = 0; t < TIME; t++) {
            for (int c = 0; c < WIDTH; c++)
                for (int j = 0; j < TAPS; j++)
                    if (t - TAPS + 1 + j >= 0)
                        causal[(n * TIME + t) * WIDTH + c] +=
                            (double)w[j * WIDTH + c] * in[(n * TIME + t - TAPS + 1 + j) * WIDTH + c];
            for (int o = 0; o < OUT; o++) {
                double sum = b[o];
                for (int j = 0; j < TAPS; j++)
                    for (int c = 0; c < WIDTH && t + j >= 1 && t + j <= TIME; c++)
                        sum += (double)k[(o * TAPS + j) * WIDTH + c] * in[(n * TIME + t + j - 1) * WIDTH + c];
                conv[(n * TIME + t) * OUT + o] = sum;
            }
        }
    check_near(zl_nn_causal_conv(nn, "causal", x, TAPS), causal, BATCH * TIME * WIDTH, "causal_conv");
    check_near(zl_nn_conv(nn, "conv", x, OUT, ZL_SHAPE(TAPS), 1, 1, 1), conv, BATCH * TIME * OUT, "conv");
    zl_nn_free(nn);
}

static double silu(double x) {
    return x / (1 + exp(-x));
}

// Computes down(silu(gate(x)) * up(x)) with the matrices of one expert.
static void swiglu_rows(const float *x, const float *gate, const float *up, const float *down, int hidden,
                        int rows, double *y) {
    double g[16], u[16];
    for (int r = 0; r < rows; r++) {
        linear_rows(x + r * WIDTH, gate, NULL, WIDTH, hidden, 1, g);
        linear_rows(x + r * WIDTH, up, NULL, WIDTH, hidden, 1, u);
        for (int o = 0; o < WIDTH; o++) {
            y[r * WIDTH + o] = 0;
            for (int h = 0; h < hidden; h++)
                y[r * WIDTH + o] += down[o * hidden + h] * silu(g[h]) * u[h];
        }
    }
}

TEST(mlps_are_their_formulas) {
    enum { HIDDEN = 7 };
    zl_nn nn = zl_nn_new(7);
    zl_array x = random_array(ZL_SHAPE(ROWS, WIDTH));
    CHECK(zl_nn_swiglu(nn, "s", x, HIDDEN) && zl_nn_mlp(nn, "m", x, HIDDEN));
    stir(nn);
    double y[ROWS * WIDTH], up[ROWS * HIDDEN];
    const float *in = zl_data_f32(x), *down = find(nn, "m.down.weight"), *bias = find(nn, "m.down.bias");
    swiglu_rows(in, find(nn, "s.gate.weight"), find(nn, "s.up.weight"), find(nn, "s.down.weight"), HIDDEN,
                ROWS, y);
    check_near(zl_nn_swiglu(nn, "s", x, HIDDEN), y, ROWS * WIDTH, "swiglu");
    linear_rows(in, find(nn, "m.up.weight"), find(nn, "m.up.bias"), WIDTH, HIDDEN, ROWS, up);
    for (int i = 0; i < ROWS * WIDTH; i++) {
        y[i] = bias[i % WIDTH];
        for (int h = 0; h < HIDDEN; h++) {
            double u = up[i / WIDTH * HIDDEN + h];
            y[i] += down[i % WIDTH * HIDDEN + h] * u * (1 + erf(u / sqrt(2))) / 2;
        }
    }
    check_near(zl_nn_mlp(nn, "m", x, HIDDEN), y, ROWS * WIDTH, "mlp");
    zl_nn_free(nn);
}

TEST(a_mixture_is_the_sum_of_its_likeliest_experts) {
    enum { HIDDEN = 3, EXPERTS = 4, USED = 2 };
    const zl_nn_moe_options options = {EXPERTS, USED, HIDDEN};
    zl_nn nn = zl_nn_new(7);
    zl_array x = random_array(ZL_SHAPE(2, ROWS / 2, WIDTH)), balance = NULL;
    CHECK(zl_nn_moe(nn, "moe", x, &options, NULL));
    stir(nn);
    zl_array is = zl_nn_moe(nn, "moe", x, &options, &balance);
    double y[ROWS * WIDTH] = {0}, logit[ROWS * EXPERTS], part[WIDTH], share[EXPERTS] = {0},
                    mean[EXPERTS] = {0}, sum = 0;
    const float *in = zl_data_f32(x), *gate = find(nn, "moe.gate.weight"), *up = find(nn, "moe.up.weight"),
                *down = find(nn, "moe.down.weight");
    linear_rows(in, find(nn, "moe.router.weight"), NULL, WIDTH, EXPERTS, ROWS, logit);
    for (int r = 0; r < ROWS; r++) {
        double p[EXPERTS], all = 0, used = 0;
        int taken[EXPERTS] = {0};
        for (int e = 0; e < EXPERTS; e++)
            all += p[e] = exp(logit[r * EXPERTS + e]);
        for (int i = 0; i < USED; i++) {
            int best = -1;
            for (int e = 0; e < EXPERTS; e++)
                if (!taken[e] && (best < 0 || p[e] > p[best]))
                    best = e;
            taken[best] = 1, used += p[best];
        }
        for (int e = 0; e < EXPERTS; e++) {
            mean[e] += p[e] / all / ROWS, share[e] += (double)taken[e] / USED / ROWS;
            swiglu_rows(in + r * WIDTH, gate + e * HIDDEN * WIDTH, up + e * HIDDEN * WIDTH,
                        down + e * HIDDEN * WIDTH, HIDDEN, 1, part);
            for (int i = 0; taken[e] && i < WIDTH; i++)
                y[r * WIDTH + i] += p[e] / used * part[i];
        }
    }
    for (int e = 0; e < EXPERTS; e++)
        sum += EXPERTS * share[e] * mean[e];
    check_near(is, y, ROWS * WIDTH, "moe");
    CHECK_NEAR(zl_item(zl_divide(balance, zl_scalar(EXPERTS))) * EXPERTS, sum * USED / USED, 1e-5);
    zl_nn_free(nn);
}

TEST(losses_are_their_formulas) {
    enum { CLASSES = 3 };
    zl_array logits = random_array(ZL_SHAPE(ROWS, CLASSES));
    const int32_t target[ROWS] = {0, 2, 1, 1, 0, 2};
    const bool counts[ROWS] = {true, false, true, true, false, true};
    const float *l = zl_data_f32(logits), likely[CLASSES] = {1, 0, 0.25f};
    double all = 0, some = 0, two = 0, squares = 0;
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int c = 0; c < CLASSES; c++) {
            double x = l[r * CLASSES + c];
            sum += exp(x);
            two += (log(1 + exp(x)) - likely[c] * x) / (ROWS * CLASSES);
            squares += (x - likely[c]) * (x - likely[c]) / (ROWS * CLASSES);
        }
        double loss = log(sum) - l[r * CLASSES + target[r]];
        all += loss / ROWS, some += counts[r] ? loss / 4 : 0;
    }
    zl_array targets = zl_from_i32(target, ZL_SHAPE(ROWS)), shares = zl_from_f32(likely, ZL_SHAPE(CLASSES));
    CHECK_NEAR(zl_item(zl_nn_cross_entropy(logits, targets, NULL)), all, 1e-6);
    CHECK_NEAR(zl_item(zl_nn_cross_entropy(logits, targets, zl_from_bool(counts, ZL_SHAPE(ROWS)))), some,
               1e-6);
    CHECK_NEAR(zl_item(zl_nn_binary_cross_entropy(logits, shares)), two, 1e-6);
    CHECK_NEAR(zl_item(zl_nn_mean_squares(logits, shares)), squares, 1e-6);
}

// Mixers ----------------------------------------------------------------------------------------------------

// Runs the first `time` of 7 steps through a mixer whose later steps differ: no step may depend on later
// ones.
static void check_mixer(const char *rule) {
    enum { TIME = 7, HEADS = 2, MIXED = 8 };
    const zl_nn_mixer_options options = {
        .rule = rule, .heads = HEADS, .value_dim = strcmp(rule, "attention") ? 6 : 0};
    zl_nn nn = zl_nn_new(3);
    zl_array x = random_array(ZL_SHAPE(2, TIME, MIXED)), other = random_array(ZL_SHAPE(2, TIME, MIXED));
    zl_array early = zl_less(zl_arange_int(0, TIME, 1, ZL_INT32), zl_scalar_int(4));
    zl_array same = zl_where(zl_reshape(early, ZL_SHAPE(1, TIME, 1)), x, other);
    zl_array y = zl_nn_mixer(nn, "m", x, &options), z = zl_nn_mixer(nn, "m", same, &options);
    if (!CHECK(y && z)) {
        test_note("%s: %s", rule, zl_nn_error(nn));
    } else {
        zl_array apart = zl_abs(zl_subtract(y, z));
        zl_array before = zl_slice(apart, ZL_SHAPE(0, 0, 0), ZL_SHAPE(2, 4, MIXED), ZL_SHAPE(1, 1, 1));
        zl_array after = zl_slice(apart, ZL_SHAPE(0, 4, 0), ZL_SHAPE(2, TIME, MIXED), ZL_SHAPE(1, 1, 1));
        if (!CHECK(zl_item(zl_max(before)) < 1e-6) ||
            !CHECK(zl_item(zl_min(zl_max_axis(after, -1, false))) > 1e-6))
            test_note("%s", rule);
    }
    zl_clear_error();
    zl_nn_free(nn);
}

TEST(every_delta_rule_is_a_mixer_and_none_sees_the_future) {
    char all[512] = "attention";
    check_mixer("attention");
    for (int i = 0; i < RULES; i++) {
        snprintf(all + strlen(all), sizeof all - strlen(all), " %s", rules[i]);
        CHECK(zl_nn_is_mixer(rules[i]));
        if (test_samples(4))
            check_mixer(rules[i]);
    }
    CHECK_STR(zl_nn_mixers, all);
}

TEST(attention_is_its_formula) {
    enum { TIME = 4, DIM = 4 };
    const zl_nn_mixer_options options = {.rule = "attention", .rope_base = -1};
    zl_nn nn = zl_nn_new(3);
    zl_array x = random_array(ZL_SHAPE(1, TIME, DIM));
    zl_array y = zl_nn_mixer(nn, "m", x, &options);
    double q[TIME * DIM], k[TIME * DIM], v[TIME * DIM], out[TIME * DIM];
    float mixed[TIME * DIM];
    const float *in = zl_data_f32(x);
    linear_rows(in, find(nn, "m.q.weight"), NULL, DIM, DIM, TIME, q);
    linear_rows(in, find(nn, "m.k.weight"), NULL, DIM, DIM, TIME, k);
    linear_rows(in, find(nn, "m.v.weight"), NULL, DIM, DIM, TIME, v);
    for (int t = 0; t < TIME; t++) {
        double weight[TIME], sum = 0;
        for (int s = 0; s <= t; s++) {
            double dot = 0;
            for (int i = 0; i < DIM; i++)
                dot += q[t * DIM + i] * k[s * DIM + i];
            sum += weight[s] = exp(dot / sqrt(DIM));
        }
        for (int i = 0; i < DIM; i++) {
            double value = 0;
            for (int s = 0; s <= t; s++)
                value += weight[s] / sum * v[s * DIM + i];
            mixed[t * DIM + i] = (float)value;
        }
    }
    linear_rows(mixed, find(nn, "m.o.weight"), NULL, DIM, DIM, TIME, out);
    check_near(y, out, TIME * DIM, "attention");
    zl_nn_free(nn);
}

// Tables ----------------------------------------------------------------------------------------------------

TEST(parameters_follow_from_the_seed) {
    zl_nn a = zl_nn_new(5), b = zl_nn_new(5), c = zl_nn_new(6);
    zl_nn all[] = {a, b, c};
    for (int i = 0; i < 3; i++)
        CHECK(zl_nn_linear(zl_nn_at(all[i], "layer.%d", 2), "f", zl_ones(ZL_SHAPE(1, WIDTH), ZL_FLOAT32), OUT,
                           false));
    CHECK_STR(zl_nn_name(a, 0), "layer.2.f.weight");
    CHECK(zl_nn_at(a, "layer.%d", 2) == zl_nn_at(a, "layer.2"));
    size_t bytes = zl_nbytes(zl_nn_array(a, 0));
    CHECK(!memcmp(zl_data(zl_nn_array(a, 0)), zl_data(zl_nn_array(b, 0)), bytes));
    CHECK(memcmp(zl_data(zl_nn_array(a, 0)), zl_data(zl_nn_array(c, 0)), bytes) != 0);
    CHECK(!zl_nn_name(a, 1) && !zl_nn_array(a, -1));
    for (int i = 0; i < 3; i++)
        zl_nn_free(all[i]);
}

// The call must fail, and the table's error must contain a text.
#define CHECK_SAYS(part, call)                               \
    do {                                                     \
        zl_nn nn = zl_nn_new(1);                             \
        zl_array x = zl_ones(ZL_SHAPE(2, 3, 4), ZL_FLOAT32); \
        CHECK(x && !(call));                                 \
        CHECK_HAS(zl_nn_error(nn), part);                    \
        zl_clear_error();                                    \
        zl_nn_free(nn);                                      \
    } while (0)

TEST(mistakes_are_said) {
    const zl_train_options none = {.rate = 0}, odd = {.rate = 1, .optimizer = "best"},
                           ends = {.rate = 1, .schedule = "linear"};
    CHECK_SAYS("no rule 'best': there are attention",
               zl_nn_mixer(nn, "m", x, &(zl_nn_mixer_options){.rule = "best"}));
    CHECK_SAYS(
        "3 heads, 2 of them shared",
        zl_nn_mixer(nn, "m", x, &(zl_nn_mixer_options){.rule = "delta", .heads = 3, .shared_heads = 2}));
    CHECK_SAYS("f.weight is (2, 4), and (3, 4) is asked for",
               zl_nn_linear(nn, "f", x, 2, false) && zl_nn_linear(nn, "f", x, 3, false));
    CHECK_SAYS("3 of 2 experts of 4", zl_nn_moe(nn, "m", x, &(zl_nn_moe_options){2, 3, 4}, NULL));
    CHECK_SAYS("rate 0", zl_trainer_new(nn, NULL, NULL, &none));
    CHECK_SAYS("no optimizer 'best': there are sgd adam adamw muon", zl_trainer_new(nn, NULL, NULL, &odd));
    CHECK_SAYS("linear ends after 0 steps", zl_trainer_new(nn, NULL, NULL, &ends));
    CHECK_SAYS("No such file", zl_nn_load(nn, "/none/of/this"));
    CHECK_SAYS("bytes; at most 255", zl_nn_at(nn, "%0300d", 1));
    CHECK(!zl_nn_linear(NULL, "f", NULL, 1, true) && !zl_nn_swiglu(NULL, "s", NULL, 1));
}
