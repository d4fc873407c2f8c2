// mnist_command.c - `zellige train mnist`: trains a perceptron, relu(x W^T + b) in each layer; prints the
// loss, the test accuracy and images per second of each epoch, and saves a checkpoint after each.

#include "train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MOST = 8, TEST_BATCH = 2000 };

static const struct option options[] = {
    {"hidden", 0, "LIST", NULL, "widths of the hidden layers (default 128): 256,256"},
    {"epochs", 0, "N", NULL, "how often all images are seen (default 10)"},
    {"batch", 0, "N", NULL, "images per step (default 256)"},
    {"optimizer", 0, "NAME", zl_train_optimizers, "adam (the default), adamw, muon, or sgd with momentum"},
    {"rate", 0, "X", NULL, "first learning rate (default 0.002, of sgd 0.1); it falls to zero"},
    {"data", 0, "FOLDER", NULL, "the dataset (default /usr/share/datasets/fashion-mnist)"},
    TRAIN_CHECKPOINT_OPTIONS,
    TRAIN_MESH_OPTIONS,
    {0},
};

struct perceptron {
    int layers, width[LAYERS_MOST]; // outputs of each layer
    char name[LAYERS_MOST][24], weight[LAYERS_MOST][32], bias[LAYERS_MOST][32];
    zl_nn_shard row[2 * LAYERS_MOST];
};

static bool read_widths(struct perceptron *p, const char *hidden) {
    char *end;
    for (p->layers = 0; p->layers < LAYERS_MOST - 1; hidden = end + 1) {
        long width = strtol(hidden, &end, 10);
        if (end == hidden || width < 1 || width > 1 << 16 || (*end && *end != ','))
            return false;
        p->width[p->layers++] = (int)width;
        if (!*end)
            break;
    }
    p->width[p->layers++] = TRAIN_CLASSES;
    return !*end;
}

// Weights start with a deviation of sqrt(2 / inputs), which suits relu (He).
static zl_array logits(zl_nn nn, const struct perceptron *p, zl_array x) {
    int64_t inputs = TRAIN_PIXELS;
    for (int i = 0; x && i < p->layers; inputs = p->width[i++]) {
        zl_nn layer = zl_nn_at(nn, "layer.%d", i);
        zl_nn_init wide = {.deviation = sqrt(2.0 / (double)inputs), .kind = ZL_NN_MATRIX};
        x = zl_nn_product(nn, p->name[i], x, p->width[i], wide);
        x = x ? zl_add(x, zl_nn_parameter(layer, "bias", ZL_SHAPE(p->width[i]), (zl_nn_init){0})) : NULL;
        if (i + 1 < p->layers)
            x = zl_maximum(x, zl_scalar(0));
    }
    return x;
}

// Makes the rules that divide the layers. Along tensor, layers form pairs: the outputs of the first, and so
// the inputs of the second, are divided. A last layer without a partner is not divided along tensor.
static int divide(struct perceptron *p) {
    int rows = 0;
    for (int i = 0; i < p->layers; i++) {
        int tensor = i % 2 ? 1 : i + 1 < p->layers ? 0 : -1;
        snprintf(p->name[i], sizeof p->name[i], "layer.%d", i);
        snprintf(p->weight[i], sizeof p->weight[i], "layer.%d.weight", i);
        snprintf(p->bias[i], sizeof p->bias[i], "layer.%d.bias", i);
        p->row[rows++] = (zl_nn_shard){p->weight[i], .fsdp = 0, .tensor = tensor};
        p->row[rows++] = (zl_nn_shard){p->bias[i], .fsdp = -1, .tensor = tensor == 0 ? 0 : -1};
    }
    return rows;
}

static zl_array loss_of(zl_nn nn, int count, const zl_array *in, void *data) {
    return zl_nn_cross_entropy(logits(nn, data, in[0]), in[count - 1], NULL);
}

struct plan {
    struct perceptron perceptron;
    struct train_dataset images, test;
    int epochs, batch;
    int *order;                  // order of the images in an epoch
    unsigned char *data, *label; // of a batch
};

// Draws an order of the images that depends only on the seed and the epoch, so that a resumed training has
// the same one.
static void shuffle(int *order, int count, uint64_t seed) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < count; i++)
        order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int other = (int)((state >> 33) % (uint64_t)(i + 1)), swap = order[i];
        order[i] = order[other];
        order[other] = swap;
    }
}

static int steps_of(const struct plan *plan) {
    return plan->images.count / plan->batch;
}

static int epoch_of(const struct train_run *run, const struct plan *plan) {
    return (int)(zl_trainer_steps(run->trainer) / steps_of(plan));
}

// Copies this rank's rows of the step-th batch of an epoch, in the drawn order.
static void take_rows(struct plan *plan, int step, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int from = plan->order[step * plan->batch + first + i];
        memcpy(plan->data + (size_t)i * TRAIN_PIXELS, plan->images.image + (size_t)from * TRAIN_PIXELS,
               TRAIN_PIXELS);
        plan->label[i] = plan->images.label[from];
    }
}

// Trains the rest of an epoch, in whole batches. Sets *loss to their mean. Returns false after an error or
// Ctrl-C.
static bool train_epoch(struct train_run *run, struct plan *plan, double *loss, bool *stops) {
    int steps = steps_of(plan), epoch = epoch_of(run, plan),
        begun = (int)(zl_trainer_steps(run->trainer) % steps);
    int64_t first, count;
    if (!zl_nn_rows(run->nn, plan->batch, &first, &count))
        return false;
    shuffle(plan->order, plan->images.count, (uint64_t)run->seed * 1000 + (uint64_t)epoch);
    *loss = 0;
    for (int s = begun; s < steps && !*stops; s++) {
        take_rows(plan, s, first, count);
        zl_train_report report = {0};
        bool done = false;
        ZL_SCOPE {
            zl_array in[] = {train_images(plan->data, (int)count), train_labels(plan->label, (int)count)};
            done = train_step(run, 2, in, &report, stops);
        }
        if (!done)
            return false;
        *loss += report.loss / (steps - begun);
        if (s % 16 == 0 && run->speaks)
            train_progress("epoch %d: %d of %d images", epoch + 1, s * plan->batch, plan->images.count);
    }
    return true;
}

// Returns the number of correct answers among `count` test images from `at` on, or NULL after an error. The
// ranks share a batch if their number divides it.
static zl_array hits_of(const struct train_run *run, const struct plan *plan, int at, int count) {
    int64_t first = 0, own = count;
    if (count == TEST_BATCH && TEST_BATCH % zl_nn_ranks(run->nn) == 0 &&
        !zl_nn_rows(run->nn, count, &first, &own))
        return NULL;
    zl_array x = train_images(plan->test.image + (size_t)(at + first) * TRAIN_PIXELS, (int)own),
             best = zl_astype(zl_argmax_axis(logits(run->nn, &plan->perceptron, x), -1, false), ZL_INT32),
             right = zl_equal(best, train_labels(plan->test.label + at + first, (int)own));
    zl_array own_hits = zl_sum(zl_astype(right, ZL_FLOAT32));
    return zl_multiply(zl_nn_mean_of_rows(run->nn, own_hits), zl_scalar((double)(count / own)));
}

// Returns the accuracy on the test images; NaN after an error.
static double accuracy_of(const struct train_run *run, const struct plan *plan) {
    double right = 0;
    for (int at = 0; at < plan->test.count; at += TEST_BATCH)
        ZL_SCOPE {
            int count = plan->test.count - at < TEST_BATCH ? plan->test.count - at : TEST_BATCH;
            zl_array hits = hits_of(run, plan, at, count);
            right += hits ? zl_item(hits) : (double)NAN;
        }
    return right / plan->test.count;
}

static void report_epoch(const struct train_run *run, int epoch, double loss, double accuracy, double seconds,
                         int images) {
    if (!run->speaks)
        return;
    if (run->call->json) {
        cli_json_open(NULL, '{');
        cli_json_int("epoch", epoch);
        cli_json_number("loss", loss);
        cli_json_number("test_accuracy", accuracy);
        cli_json_number("seconds", seconds);
        cli_json_number("images_per_second", images / seconds);
        cli_json_close();
    } else {
        printf("epoch %2d  loss %.4f  test accuracy %.2f %%  %.2f s, %.0f images/s\n", epoch, loss,
               100 * accuracy, seconds, images / seconds);
    }
    fflush(stdout);
}

// Reports the interruption. kept: the number of epochs in the checkpoint.
static int say_interrupted(const struct train_run *run, const struct plan *plan, int kept) {
    if (!run->checkpoint)
        return cli_fail(run->call, "interrupted: nothing is kept without --checkpoint FILE");
    if (!kept)
        return cli_fail(run->call, "interrupted in the first epoch: there is no checkpoint yet");
    return cli_fail(run->call, "interrupted: %s has %d of %d epochs, with --resume it goes on",
                    run->checkpoint, kept, plan->epochs);
}

static int train(struct train_run *run, struct plan *plan) {
    plan->order = malloc((size_t)plan->images.count * sizeof *plan->order);
    plan->data = malloc((size_t)plan->batch * TRAIN_PIXELS);
    plan->label = malloc((size_t)plan->batch);
    bool done = plan->order && plan->data && plan->label;
    bool stops = false;
    int kept = epoch_of(run, plan);
    train_catch_signals();
    cli_json_to(NULL, true); // one line per epoch
    while (done && epoch_of(run, plan) < plan->epochs) {
        double loss, start = train_now();
        done = train_epoch(run, plan, &loss, &stops);
        if (done && stops)
            break;
        double seconds = train_now() - start;
        train_progress("%s", "");
        done = done && train_save(run);
        kept = done ? epoch_of(run, plan) : kept;
        double accuracy = done ? accuracy_of(run, plan) : NAN;
        done = !isnan(accuracy);
        if (done)
            report_epoch(run, kept, loss, accuracy, seconds, steps_of(plan) * plan->batch);
    }
    train_progress("%s", "");
    done = done && (stops || zl_trainer_wait(run->trainer));
    int code = done && stops       ? train_stopped(run)
               : done              ? CLI_OK
               : cli_interrupted() ? say_interrupted(run, plan, kept)
                                   : train_failed(run);
    cli_json_to(NULL, false);
    free(plan->order), free(plan->data), free(plan->label);
    return code;
}

// Reads the images, before the trainer is made: its schedule depends on their number.
static int read_images(const struct invocation *call, struct plan *plan, bool speaks) {
    const char *folder = cli_option(call, "data");
    char error[512];
    double start = train_now();
    folder = folder ? folder : "/usr/share/datasets/fashion-mnist";
    if (!train_read_dataset(&plan->images, folder, "train", error, sizeof error) ||
        !train_read_dataset(&plan->test, folder, "t10k", error, sizeof error))
        return cli_fail(call, "%s", error);
    if (plan->batch > plan->images.count)
        return cli_usage(call, "--batch %d is more than the %d images", plan->batch, plan->images.count);
    if (!call->json && call->verbosity >= 0 && speaks)
        printf("%d images to learn, %d to test, read in %.2f s\n", plan->images.count, plan->test.count,
               train_now() - start);
    return CLI_OK;
}

static int open_run(const struct invocation *call, struct train_run *run, struct plan *plan) {
    const char *optimizer = cli_option(call, "optimizer");
    bool sgd = optimizer && !strcmp(optimizer, "sgd");
    double rate = sgd ? 0.1 : 0.002;
    if (!cli_number(call, "rate", 1e-12, 1e6, &rate))
        return CLI_USAGE;
    int64_t steps = (int64_t)plan->epochs * steps_of(plan);
    const zl_train_options how = {.optimizer = optimizer ? optimizer : "adam",
                                  .rate = rate,
                                  .momentum = sgd ? 0.9 : 0,
                                  .schedule = "linear",
                                  .steps = steps ? steps : 1};
    const char *hidden = cli_option(call, "hidden");
    int rows = divide(&plan->perceptron);
    snprintf(run->about, sizeof run->about, "train mnist --hidden %s --batch %d", hidden ? hidden : "128",
             plan->batch);
    return train_open(run, loss_of, &plan->perceptron, &how, rows, plan->perceptron.row);
}

static int run(const struct invocation *call) {
    const char *hidden = cli_option(call, "hidden");
    int64_t epochs = 10, batch = 256;
    struct plan plan = {0};
    struct train_run training = {0};
    if (!cli_integer(call, "epochs", 0, 10000, &epochs) || !cli_integer(call, "batch", 1, 1 << 24, &batch))
        return CLI_USAGE;
    if (!read_widths(&plan.perceptron, hidden ? hidden : "128"))
        return cli_usage(call, "--hidden %s: wanted widths such as 256,256", hidden);
    plan.epochs = (int)epochs, plan.batch = (int)batch;
    int code = train_begin(&training, call);
    if (code == CLI_OK)
        code = read_images(call, &plan, training.speaks);
    if (code == CLI_OK)
        code = open_run(call, &training, &plan);
    if (code == CLI_OK)
        code = train(&training, &plan);
    train_close(&training);
    train_free_dataset(&plan.images);
    train_free_dataset(&plan.test);
    return code;
}

const struct command cli_train_mnist = {
    .name = "train mnist",
    .summary = "Train a perceptron on Fashion-MNIST",
    .details = "The dataset is Debian's package dataset-fashion-mnist. A resumed training goes on as if it "
               "had never\n"
               "been interrupted.\n"
               "With --mesh, ranks that a launcher started train together. SIGTERM and SIGUSR1 save and end "
               "with code 75.\n"
               "  zellige train mnist --hidden 256,256 --checkpoint mnist.safetensors\n"
               "  zellige launch --backend mpi -n 8 -- zellige train mnist --mesh data=2,fsdp=2,tensor=2",
    .options = options,
    .run = run,
};
