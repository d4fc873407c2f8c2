// test_train.c - optimisers compared with their formulas in double, schedules, clipping, accumulation;
// trainings that learn, that have the same bits after being stopped and resumed, and that allocate no new
// memory.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "zellige_nn.h"

enum { ROWS = 3, COLUMNS = 2, MATRIX = ROWS * COLUMNS, ALL = MATRIX + COLUMNS, STEPS = 4 };

// sum(m * in[0]) + sum(square(m)) / 2 + sum(v * in[1]), for a matrix m and a vector v, whose gradients are
// in[0] + m and in[1].
static zl_array slope(zl_nn nn, int count, const zl_array *in, void *data) {
    (void)data;
    zl_array m =
        zl_nn_parameter(nn, "m", ZL_SHAPE(ROWS, COLUMNS), (zl_nn_init){.deviation = 1, .kind = ZL_NN_MATRIX});
    zl_array v = zl_nn_parameter(nn, "v", ZL_SHAPE(COLUMNS), (zl_nn_init){.mean = 1});
    zl_array of_m = zl_add(zl_sum(zl_multiply(m, in[0])), zl_multiply(zl_scalar(0.5), zl_sum(zl_square(m))));
    return zl_add(of_m, zl_sum(zl_multiply(v, in[count - 1])));
}

// The update of one parameter by an optimiser: p and g have `count` numbers, m and v are its states.
typedef void (*formula)(double *p, double *g, double *m, double *v, int count, double rate, int step);

static void sgd(double *p, double *g, double *m, double *v, int count, double rate, int step) {
    (void)v, (void)step;
    for (int i = 0; i < count; i++) {
        g[i] += count == MATRIX ? 0.1 * p[i] : 0;
        m[i] = 0.9 * m[i] + g[i];
        p[i] -= rate * (g[i] + 0.9 * m[i]);
    }
}

static void adam_by(double *p, const double *g, double *m, double *v, int count, double rate, int step,
                    double decay) {
    for (int i = 0; i < count; i++) {
        m[i] = 0.8 * m[i] + 0.2 * g[i];
        v[i] = 0.95 * v[i] + 0.05 * g[i] * g[i];
        double move = m[i] / (1 - pow(0.8, step)) / (sqrt(v[i] / (1 - pow(0.95, step))) + 1e-6);
        p[i] = p[i] * (1 - rate * decay) - rate * move;
    }
}

static void adam(double *p, double *g, double *m, double *v, int count, double rate, int step) {
    for (int i = 0; i < count; i++)
        g[i] += count == MATRIX ? 0.1 * p[i] : 0;
    adam_by(p, g, m, v, count, rate, step, 0);
}

static void adamw(double *p, double *g, double *m, double *v, int count, double rate, int step) {
    adam_by(p, g, m, v, count, rate, step, count == MATRIX ? 0.1 : 0);
}

// Newton-Schulz steps on the transposed matrix, (COLUMNS, ROWS), which is the wide one.
static void muon(double *p, double *g, double *m, double *v, int count, double rate, int step) {
    double x[COLUMNS][ROWS], size = 0;
    if (count != MATRIX) {
        adamw(p, g, m, v, count, rate, step);
        return;
    }
    for (int i = 0; i < MATRIX; i++) {
        m[i] = 0.9 * m[i] + g[i];
        x[i % COLUMNS][i / COLUMNS] = g[i] + 0.9 * m[i];
        size += (g[i] + 0.9 * m[i]) * (g[i] + 0.9 * m[i]);
    }
    for (int i = 0; i < MATRIX; i++)
        x[i % COLUMNS][i / COLUMNS] /= sqrt(size) + 1e-7;
    for (int round = 0; round < 5; round++) {
        double a[COLUMNS][COLUMNS] = {{0}}, b[COLUMNS][COLUMNS], next[COLUMNS][ROWS];
        for (int i = 0; i < COLUMNS; i++)
            for (int j = 0; j < COLUMNS; j++)
                for (int k = 0; k < ROWS; k++)
                    a[i][j] += x[i][k] * x[j][k];
        for (int i = 0; i < COLUMNS; i++)
            for (int j = 0; j < COLUMNS; j++) {
                b[i][j] = -4.7750 * a[i][j];
                for (int k = 0; k < COLUMNS; k++)
                    b[i][j] += 2.0315 * a[i][k] * a[k][j];
            }
        for (int i = 0; i < COLUMNS; i++)
            for (int k = 0; k < ROWS; k++) {
                next[i][k] = 3.4445 * x[i][k];
                for (int j = 0; j < COLUMNS; j++)
                    next[i][k] += b[i][j] * x[j][k];
            }
        memcpy(x, next, sizeof x);
    }
    for (int i = 0; i < MATRIX; i++)
        p[i] = p[i] * (1 - rate * 0.1) - rate * 0.2 * sqrt(ROWS) * x[i % COLUMNS][i / COLUMNS];
}

static void check_optimizer(const char *name, formula update, double clip, int accumulate) {
    const zl_train_options options = {.optimizer = name,
                                      .rate = 0.1,
                                      .momentum = 0.9,
                                      .nesterov = true,
                                      .beta1 = 0.8,
                                      .beta2 = 0.95,
                                      .eps = 1e-6,
                                      .weight_decay = 0.1,
                                      .schedule = "linear",
                                      .warmup = 2,
                                      .steps = 6,
                                      .clip = clip,
                                      .accumulate = accumulate};
    zl_nn nn = zl_nn_new(test_between(0, 1000));
    char optimizer[16], schedule[] = "linear"; // it need not outlive the call
    snprintf(optimizer, sizeof optimizer, "%s", name);
    zl_train_options given = options;
    given.optimizer = optimizer;
    given.schedule = schedule;
    zl_trainer t = zl_trainer_new(nn, slope, NULL, &given);
    memset(optimizer, '?', sizeof optimizer);
    memset(schedule, '?', sizeof schedule);
    double p[ALL], m[ALL] = {0}, v[ALL] = {0};
    for (int step = 1; step <= STEPS; step++) {
        double g[ALL] = {0}, norm = 0, rate = zl_train_rate(&options, step - 1);
        zl_train_report report;
        for (int batch = 0; batch < accumulate; batch++)
            ZL_SCOPE {
                float x[ALL];
                for (int i = 0; i < ALL; i++)
                    x[i] = (float)test_uniform(-1, 1);
                zl_array in[] = {zl_from_f32(x, ZL_SHAPE(ROWS, COLUMNS)),
                                 zl_from_f32(x + MATRIX, ZL_SHAPE(COLUMNS))};
                if (step == 1 && batch == 0) { // the first run makes the parameters
                    CHECK(slope(nn, 2, in, NULL));
                    for (int i = 0; i < ALL; i++)
                        p[i] = zl_data_f32(zl_nn_array(nn, i >= MATRIX))[i < MATRIX ? i : i - MATRIX];
                }
                for (int i = 0; i < ALL; i++)
                    g[i] += (x[i] + (i < MATRIX ? p[i] : 0)) / accumulate;
                if (!CHECK(zl_trainer_step(t, 2, in, &report)))
                    test_note("%s: %s", name, zl_nn_error(nn));
                CHECK_EQ_INT(report.step, step - (batch + 1 < accumulate));
            }
        for (int i = 0; i < ALL; i++)
            norm += g[i] * g[i];
        norm = sqrt(norm);
        for (int i = 0; clip > 0 && i < ALL; i++)
            g[i] *= fmin(1, clip / (norm + 1e-6));
        CHECK(clip > 0 ? fabs(report.norm - norm) < 1e-5 * norm : isnan(report.norm));
        CHECK_EQ_F64(report.rate, rate);
        update(p, g, m, v, MATRIX, rate, step);
        update(p + MATRIX, g + MATRIX, m + MATRIX, v + MATRIX, COLUMNS, rate, step);
        for (int i = 0; i < ALL; i++)
            if (!CHECK_NEAR(zl_data_f32(zl_nn_array(nn, i >= MATRIX))[i < MATRIX ? i : i - MATRIX], p[i],
                            2e-5))
                test_note("%s, step %d, element %d", name, step, i);
    }
    zl_trainer_free(t);
    zl_nn_free(nn);
}

TEST(optimizers_are_their_formulas) {
    const struct {
        const char *name;
        formula update;
    } each[] = {{"sgd", sgd}, {"adam", adam}, {"adamw", adamw}, {"muon", muon}};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        CHECK_HAS(zl_train_optimizers, each[i].name);
        check_optimizer(each[i].name, each[i].update, 0, 1);
    }
    check_optimizer("adamw", adamw, 0.5, 1);
    check_optimizer("sgd", sgd, 1e9, 3);
    check_optimizer("muon", muon, 0.5, 2);
}

TEST(schedules_are_their_formulas) {
    zl_train_options o = {.rate = 2, .warmup = 4, .steps = 12, .last_share = 0.25};
    CHECK_EQ_F64(zl_train_rate(&o, 0), 0.5);
    CHECK_EQ_F64(zl_train_rate(&o, 3), 2);
    CHECK_EQ_F64(zl_train_rate(&o, 1000), 2);
    o.schedule = "linear";
    CHECK_EQ_F64(zl_train_rate(&o, 1), 1);
    CHECK_EQ_F64(zl_train_rate(&o, 6), 2 * (0.75 + 0.25 * 0.25));
    CHECK_EQ_F64(zl_train_rate(&o, 12), 0.5);
    o.schedule = "cosine";
    CHECK_NEAR(zl_train_rate(&o, 6), 2 * (0.25 + 0.75 * (1 + sqrt(0.5)) / 2), 1e-12);
    CHECK_NEAR(zl_train_rate(&o, 8), 2 * (0.25 + 0.75 / 2), 1e-12);
    CHECK_NEAR(zl_train_rate(&o, 100), 0.5, 1e-12);
}

// A small model ---------------------------------------------------------------------------------------------

enum { BATCH = 4, TIME = 6, WORDS = 5, WIDTH = 16 };

static zl_array small_loss(zl_nn nn, int count, const zl_array *in, void *mixer) {
    zl_array x = zl_nn_embedding(nn, "words", in[0], WORDS, WIDTH);
    x = zl_add(x, zl_nn_mixer(nn, "mixer", zl_nn_rms_norm(nn, "norm", x), mixer));
    x = zl_add(x, zl_nn_moe(nn, "moe", x, &(zl_nn_moe_options){3, 2, 6}, NULL));
    return zl_nn_cross_entropy(zl_nn_logits(nn, "words", x, WORDS), in[count - 1], NULL);
}

// The target is the word before.
static bool small_step(zl_trainer t, int64_t step, double *loss) {
    zl_train_report report = {0};
    bool done = false;
    ZL_SCOPE {
        zl_array text = zl_random_randint(zl_scalar_int(0), zl_scalar_int(WORDS), ZL_SHAPE(BATCH, TIME + 1),
                                          ZL_INT32, zl_random_key(step));
        zl_array in[] = {zl_slice(text, ZL_SHAPE(0, 1), ZL_SHAPE(BATCH, TIME + 1), ZL_SHAPE(1, 1)),
                         zl_slice(text, ZL_SHAPE(0, 0), ZL_SHAPE(BATCH, TIME), ZL_SHAPE(1, 1))};
        done = zl_trainer_step(t, 2, in, &report);
    }
    *loss = report.loss;
    return done;
}

static zl_train_options small_options(const char *optimizer, int accumulate) {
    return (zl_train_options){.optimizer = optimizer,
                              .rate = 0.05,
                              .schedule = "cosine",
                              .warmup = 3,
                              .steps = 60,
                              .clip = 1,
                              .weight_decay = 0.01,
                              .accumulate = accumulate};
}

TEST(losses_fall) {
    static const char *const rules[] = {"gated_delta", "attention", "dplr", "gated_delta_product"};
    for (int i = 0; i < 4; i++) {
        if (!test_samples(2) && i)
            continue;
        zl_nn_mixer_options mixer = {.rule = rules[i], .heads = 2, .conv = 4};
        zl_train_options options = small_options("muon", 1);
        zl_nn nn = zl_nn_new(1);
        zl_trainer t = zl_trainer_new(nn, small_loss, &mixer, &options);
        double first = NAN, last = NAN;
        for (int step = 0; step < 60; step++)
            if (!CHECK(small_step(t, step, step ? &last : &first)))
                break;
        if (!CHECK(first > 1.2 && last < 0.6 * first))
            test_note("%s: from %g to %g; %s", rules[i], first, last, zl_nn_error(nn));
        zl_trainer_free(t);
        zl_nn_free(nn);
    }
}

static void train_on(zl_trainer t, int64_t from, int64_t to) {
    double loss;
    for (int64_t i = from; i < to; i++)
        CHECK(small_step(t, i, &loss));
}

static bool same_parameters(zl_nn a, zl_nn b) {
    bool same = CHECK_EQ_INT(zl_nn_count(a), zl_nn_count(b));
    for (int i = 0; same && i < zl_nn_count(a); i++) {
        zl_array x = zl_nn_array(a, i), y = zl_nn_array(b, i);
        same = CHECK_STR(zl_nn_name(a, i), zl_nn_name(b, i)) &&
               CHECK_EQ_INT((int64_t)zl_nbytes(x), (int64_t)zl_nbytes(y)) &&
               CHECK(!memcmp(zl_data(x), zl_data(y), zl_nbytes(x)));
        if (!same)
            test_note("%s", zl_nn_name(a, i));
    }
    return same;
}

// Stops after five batches at two per step, so in the middle of a step, and loads the checkpoint in another
// trainer.
static void check_resume(const char *optimizer, const char *path) {
    zl_nn_mixer_options mixer = {.rule = "kda", .heads = 2};
    zl_train_options options = small_options(optimizer, 2);
    zl_nn whole = zl_nn_new(9), cut = zl_nn_new(9), rest = zl_nn_new(9);
    zl_trainer a = zl_trainer_new(whole, small_loss, &mixer, &options),
               b = zl_trainer_new(cut, small_loss, &mixer, &options),
               c = zl_trainer_new(rest, small_loss, &mixer, &options);
    train_on(a, 0, 8);
    train_on(b, 0, 5);
    CHECK(zl_trainer_save(b, path, "test"));
    train_on(b, 5, 6); // the file does not change
    if (!CHECK(zl_trainer_load(c, path, "test")))
        test_note("%s", zl_nn_error(rest));
    CHECK_EQ_INT(zl_trainer_steps(c), 2);
    train_on(c, 5, 8);
    CHECK_EQ_INT(zl_trainer_steps(c), 4);
    if (!same_parameters(whole, rest))
        test_note("%s", optimizer);
    zl_trainer_free(a), zl_trainer_free(b), zl_trainer_free(c);
    zl_nn_free(whole), zl_nn_free(cut), zl_nn_free(rest);
}

TEST(stopped_trainings_go_on_to_the_same_bits) {
    char path[600];
    REQUIRE(test_folder());
    snprintf(path, sizeof path, "%s/kept.safetensors", test_folder());
    check_resume("adamw", path);
    check_resume("muon", path);
}

// Saves a checkpoint after one step of a training.
static void save_one(const char *path) {
    zl_nn_mixer_options mixer = {.rule = "delta"};
    zl_train_options options = small_options("adamw", 1);
    zl_nn nn = zl_nn_new(9);
    zl_trainer t = zl_trainer_new(nn, small_loss, &mixer, &options);
    CHECK(!zl_trainer_save(t, path, NULL));
    CHECK_HAS(zl_nn_error(nn), "no step was made yet");
    train_on(t, 0, 1);
    CHECK(!zl_trainer_save(t, "model.npz", NULL));
    CHECK(zl_trainer_save(t, path, "delta"));
    zl_trainer_free(t);
    zl_nn_free(nn);
}

static void check_refused(const char *path, int64_t seed, const char *optimizer, const char *about,
                          const char *rule, const char *reason) {
    zl_nn_mixer_options mixer = {.rule = rule};
    zl_train_options options = small_options(optimizer, 1);
    double loss;
    zl_nn nn = zl_nn_new(seed);
    zl_trainer t = zl_trainer_new(nn, small_loss, &mixer, &options);
    CHECK(!zl_trainer_load(t, path, about) || !small_step(t, 1, &loss));
    CHECK_HAS(zl_nn_error(nn), reason);
    zl_clear_error();
    zl_trainer_free(t);
    zl_nn_free(nn);
}

TEST(checkpoints_of_others_are_refused) {
    char path[600];
    REQUIRE(test_folder());
    snprintf(path, sizeof path, "%s/kept.safetensors", test_folder());
    save_one(path);
    check_refused(path, 9, "adamw", "kda", "delta", "is of about 'delta', and this training of 'kda'");
    check_refused(path, 8, "adamw", "delta", "delta", "is of seed '9', and this training of '8'");
    check_refused(path, 9, "sgd", "delta", "delta", "is of optimizer 'adamw', and this training of 'sgd'");
    check_refused(path, 9, "adamw", "delta", "gated_delta", "no mixer.decay.weight is among the");
    check_refused(path, 9, "adamw", "delta", "attention", "the model does not use the parameter mixer.");
    check_refused("/none/of/this", 9, "adamw", "delta", "delta", "/none/of/this");

    zl_nn nn = zl_nn_new(0); // only the parameters
    zl_nn_mixer_options mixer = {.rule = "delta"};
    zl_array ids = zl_zeros(ZL_SHAPE(1, 2), ZL_INT32);
    CHECK(zl_nn_load(nn, path) && zl_isfinite(small_loss(nn, 2, (zl_array[]){ids, ids}, &mixer)));
    CHECK(!zl_nn_load(nn, path));
    CHECK_HAS(zl_nn_error(nn), "zl_nn_load: ");
    CHECK_HAS(zl_nn_error(nn), "has parameters already");
    zl_nn_free(nn);

    zl_train_options options = small_options("adamw", 1);
    zl_nn used = zl_nn_new(9);
    CHECK(zl_nn_load(used, path));
    zl_trainer t = zl_trainer_new(used, small_loss, &mixer, &options);
    CHECK(!zl_trainer_load(t, path, "delta"));
    CHECK_HAS(zl_nn_error(used), "zl_trainer_load: ");
    CHECK_HAS(zl_nn_error(used), "has parameters already");
    zl_trainer_free(t);
    zl_nn_free(used);
}

// A step reuses the memory that the step before it released.
TEST(steps_take_no_new_memory) {
    zl_nn_mixer_options mixer = {.rule = "gated_delta"};
    zl_train_options options = small_options("adamw", 1);
    zl_nn nn = zl_nn_new(1);
    zl_trainer t = zl_trainer_new(nn, small_loss, &mixer, &options);
    train_on(t, 0, 4);
    size_t active = zl_get_active_memory();
    int64_t donations = zl_counter("donations");
    zl_reset_peak_memory();
    train_on(t, 4, 6);
    size_t peak = zl_get_peak_memory();
    CHECK(zl_counter("donations") - donations >=
          2 * zl_nn_count(nn)); // parameters and states are overwritten
    train_on(t, 6, 9);
    CHECK_EQ_INT((int64_t)zl_get_active_memory(), (int64_t)active);
    CHECK(zl_get_peak_memory() <= peak);
    zl_trainer_free(t);
    zl_nn_free(nn);
}
