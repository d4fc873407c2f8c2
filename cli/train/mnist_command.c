// mnist_command.c - `zellige train mnist`: epochs with their loss, test accuracy and images a second; checkpoints after
// each epoch.

#include "train.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

static const struct option options[] = {
    {"hidden", 0, "LIST", NULL, "widths of the hidden layers (default 128): 256,256"},
    {"epochs", 0, "N", NULL, "how often all images are seen (default 10)"},
    {"batch", 0, "N", NULL, "images a step (default 256)"},
    {"optimizer", 0, "NAME", "adam sgd", "adam (the default) or sgd, with momentum"},
    {"rate", 0, "X", NULL, "first learning rate (default 0.002 for adam, 0.1 for sgd); it falls to zero"},
    {"seed", 0, "N", NULL, "of the first parameters and of the order of images (default 1)"},
    {"checkpoint", 0, "FILE", NULL, "written after each epoch: safetensors"},
    {"resume", 0, NULL, NULL, "go on from the checkpoint"},
    {"data", 0, "FOLDER", NULL, "the dataset (default /usr/share/datasets/fashion-mnist)"},
    {"device", 0, "NAME", NULL, "device to train on"},
    {0},
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct plan {
    int epochs, batch;
    int64_t seed;
    const char *checkpoint;
};

// An order of the images that only the seed and the epoch decide, so that a resumed training sees the same.
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

static void show_progress(int epoch, int done, int all) {
    if (isatty(STDERR_FILENO))
        fprintf(stderr, done < all ? "\r\033[Kepoch %d: %d of %d images" : "\r\033[K", epoch, done, all);
}

// One epoch: whole batches in the drawn order. False after an error, or Ctrl-C.
static bool train_epoch(struct train_network *n, const struct plan *plan, const struct train_dataset *data,
                        int *order, unsigned char *images, unsigned char *labels, double *loss) {
    int steps = data->count / plan->batch;
    shuffle(order, data->count, (uint64_t)plan->seed * 1000 + (uint64_t)n->epoch);
    *loss = 0;
    for (int s = 0; s < steps; s++) {
        for (int i = 0; i < plan->batch; i++) {
            int from = order[s * plan->batch + i];
            memcpy(images + (size_t)i * TRAIN_PIXELS, data->image + (size_t)from * TRAIN_PIXELS,
                   TRAIN_PIXELS);
            labels[i] = data->label[from];
        }
        double step_loss = 0;
        bool done = false;
        ZL_SCOPE {
            done = train_step(n, train_images(images, plan->batch), train_labels(labels, plan->batch),
                              &step_loss);
        }
        if (!done || cli_interrupted()) {
            show_progress(n->epoch + 1, data->count, data->count);
            return false;
        }
        *loss += step_loss / steps;
        if (s % 16 == 0)
            show_progress(n->epoch + 1, s * plan->batch, data->count);
    }
    show_progress(n->epoch + 1, data->count, data->count);
    n->epoch++;
    return true;
}

static void report_epoch(const struct invocation *call, const struct train_network *n, double loss,
                         double accuracy, double seconds, int images) {
    if (call->json) {
        cli_json_open(NULL, '{');
        cli_json_int("epoch", n->epoch);
        cli_json_number("loss", loss);
        cli_json_number("test_accuracy", accuracy);
        cli_json_number("seconds", seconds);
        cli_json_number("images_per_second", images / seconds);
        cli_json_close();
    } else {
        printf("epoch %2d  loss %.4f  test accuracy %.2f %%  %.2f s, %.0f images/s\n", n->epoch, loss,
               100 * accuracy, seconds, images / seconds);
    }
    fflush(stdout);
}

// kept: epochs that the checkpoint has.
static int say_interrupted(const struct invocation *call, const struct plan *plan, int kept) {
    if (!plan->checkpoint)
        return cli_fail(call, "interrupted: nothing is kept without --checkpoint FILE");
    if (!kept)
        return cli_fail(call, "interrupted in the first epoch: there is no checkpoint yet");
    return cli_fail(call, "interrupted: %s has %d of %d epochs, with --resume it goes on", plan->checkpoint,
                    kept, plan->epochs);
}

static int train(const struct invocation *call, struct train_network *n, const struct plan *plan,
                 const struct train_dataset *data, const struct train_dataset *test) {
    int *order = malloc((size_t)data->count * sizeof *order);
    unsigned char *images = malloc((size_t)plan->batch * TRAIN_PIXELS);
    unsigned char *labels = malloc((size_t)plan->batch);
    bool done = order && images && labels;
    int kept = n->epoch;
    n->steps = plan->epochs * (data->count / plan->batch);
    cli_catch_interrupts();
    cli_json_to(NULL, true); // a line an epoch
    while (done && n->epoch < plan->epochs) {
        double loss, start = now();
        done = train_epoch(n, plan, data, order, images, labels, &loss);
        double seconds = now() - start;
        done = done && (!plan->checkpoint || train_save(n, plan->checkpoint));
        kept = done ? n->epoch : kept;
        double accuracy = done ? train_accuracy(n, test) : NAN;
        done = !isnan(accuracy);
        if (done)
            report_epoch(call, n, loss, accuracy, seconds, data->count / plan->batch * plan->batch);
    }
    int code = done                ? CLI_OK
               : cli_interrupted() ? say_interrupted(call, plan, kept)
                                   : cli_library_failed(call);
    cli_json_to(NULL, false);
    free(order), free(images), free(labels);
    return code;
}

// Said before the first epoch, not after it.
static int check_checkpoint(const struct invocation *call, const char *path) {
    char folder[4096];
    const char *slash = path ? strrchr(path, '/') : NULL;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    return !path || !access(folder, W_OK) ? CLI_OK
                                          : cli_fail(call, "cannot write %s: %s", path, strerror(errno));
}

static int open_network(const struct invocation *call, struct train_network *n, const struct plan *plan) {
    const char *hidden = cli_option(call, "hidden"), *optimizer = cli_option(call, "optimizer");
    bool adam = !optimizer || !strcmp(optimizer, "adam"), resume = cli_option(call, "resume");
    if (!adam && strcmp(optimizer, "sgd") != 0)
        return cli_usage(call, "no optimizer '%s': there are adam and sgd", optimizer);
    if (resume && !plan->checkpoint)
        return cli_usage(call, "--resume needs --checkpoint FILE");
    if (check_checkpoint(call, plan->checkpoint) != CLI_OK)
        return CLI_FAILED;
    double rate = adam ? 0.002 : 0.1;
    if (!cli_number(call, "rate", 0, INFINITY, &rate))
        return CLI_USAGE;
    if (!train_new(n, hidden ? hidden : "128", adam, rate, plan->seed))
        return zl_error() ? cli_library_failed(call)
                          : cli_usage(call, "--hidden %s: wanted widths such as 256,256", hidden);
    if (resume && !train_load(n, plan->checkpoint))
        return cli_fail(call, "%s is no checkpoint of this network%s%s", plan->checkpoint,
                        zl_error() ? ": " : "", zl_error() ? zl_error() : "");
    return CLI_OK;
}

static int run(const struct invocation *call) {
    const char *folder = cli_option(call, "data"), *device = cli_option(call, "device");
    int64_t epochs = 10, batch = 256, seed = 1;
    struct train_dataset data = {0}, test = {0};
    struct train_network n = {0};
    char error[512];
    if (!cli_integer(call, "epochs", 0, 10000, &epochs) || !cli_integer(call, "batch", 1, 1 << 24, &batch) ||
        !cli_integer(call, "seed", 0, INT64_C(1) << 50, &seed))
        return CLI_USAGE;
    struct plan plan = {(int)epochs, (int)batch, seed, cli_option(call, "checkpoint")};
    if (device && !zl_use_device(device))
        return cli_library_failed(call);
    int code = open_network(call, &n, &plan);
    double start = now();
    folder = folder ? folder : "/usr/share/datasets/fashion-mnist";
    if (code == CLI_OK && (!train_read_dataset(&data, folder, "train", error, sizeof error) ||
                           !train_read_dataset(&test, folder, "t10k", error, sizeof error)))
        code = cli_fail(call, "%s", error);
    if (code == CLI_OK && plan.batch > data.count)
        code = cli_usage(call, "--batch %d is more than the %d images", plan.batch, data.count);
    if (code == CLI_OK && !call->json && call->verbosity >= 0)
        printf("%d images to learn, %d to test, read in %.2f s\n", data.count, test.count, now() - start);
    if (code == CLI_OK)
        code = train(call, &n, &plan, &data, &test);
    train_free(&n);
    train_free_dataset(&data);
    train_free_dataset(&test);
    return code;
}

const struct command cli_train_mnist = {
    .name = "train mnist",
    .summary = "Train a perceptron on Fashion-MNIST",
    .details = "The dataset is Debian's package dataset-fashion-mnist. A resumed training goes on as if it "
               "had never\n"
               "been interrupted.\n"
               "  zellige train mnist --hidden 256,256 --checkpoint mnist.safetensors",
    .options = options,
    .run = run,
};
