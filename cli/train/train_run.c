// train_run.c - functions that all trainings share: options, checkpoints, steps with tests between them, and
// output.

#include "train.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double train_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t train_random(uint64_t seed, uint64_t a, uint64_t b) {
    uint64_t x = (seed * 0x9e3779b97f4a7c15u + a) * 0xd1342543de82ef95u + b;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void train_progress(const char *format, ...) {
    if (!isatty(STDERR_FILENO))
        return;
    va_list args;
    va_start(args, format);
    fputs("\r\033[K", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
}

// Checks the path before the first step, so that a mistake in it does not waste the training.
static int check_checkpoint(const struct invocation *call, const char *path) {
    char folder[4096];
    const char *end = path ? strrchr(path, '.') : NULL;
    if (path && (!end || strcmp(end, ".safetensors") != 0))
        return cli_usage(call, "--checkpoint %s: the name must end with .safetensors", path);
    const char *slash = path ? strrchr(path, '/') : NULL;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    return !path || !access(folder, W_OK) ? CLI_OK
                                          : cli_fail(call, "cannot write %s: %s", path, strerror(errno));
}

int train_failed(const struct train_run *run) {
    const char *error = zl_nn_error(run->nn);
    return cli_fail(run->call, "%s", error ? error : "out of memory");
}

int train_begin(struct train_run *run, const struct invocation *call) {
    const char *device = cli_option(call, "device");
    run->call = call;
    run->speaks = true;
    run->checkpoint = cli_option(call, "checkpoint");
    run->seed = 1;
    if (!cli_integer(call, "seed", 0, INT64_C(1) << 50, &run->seed))
        return CLI_USAGE;
    if (cli_option(call, "resume") && !run->checkpoint)
        return cli_usage(call, "--resume needs --checkpoint FILE");
    int code = check_checkpoint(call, run->checkpoint);
    if (code != CLI_OK)
        return code;
    if (device && !zl_use_device(device))
        return cli_library_failed(call);
    if (!cli_option(call, "mesh"))
        return CLI_OK;
    if (!(run->group = zl_group_init(false, NULL)))
        return cli_library_failed(call);
    run->speaks = zl_group_rank(run->group) == 0;
    return CLI_OK;
}

static bool is_wide(const struct train_run *run) {
    const char *dtype = cli_option(run->call, "dtype");
    return dtype && !strcmp(dtype, "f64");
}

static bool distribute(struct train_run *run, int rows, const zl_nn_shard *row) {
    const char *mesh = cli_option(run->call, "mesh");
    int64_t bucket = 0;
    return cli_integer(run->call, "bucket", 1, INT64_C(1) << 40, &bucket) &&
           (!is_wide(run) || zl_nn_set_dtype(run->nn, ZL_FLOAT64)) &&
           (!mesh || zl_nn_distribute(run->nn, run->group, mesh, rows, row, bucket));
}

int train_open(struct train_run *run, zl_nn_loss loss, void *data, const zl_train_options *options, int rows,
               const zl_nn_shard *row) {
    run->nn = zl_nn_new(run->seed);
    if (!run->nn || !distribute(run, rows, row))
        return train_failed(run);
    size_t at = strlen(run->about);
    if (is_wide(run))
        snprintf(run->about + at, sizeof run->about - at, " --dtype f64");
    run->trainer = zl_trainer_new(run->nn, loss, data, options);
    // A job that is restarted has the same command as at first, when there was no checkpoint yet.
    bool resume = cli_option(run->call, "resume") && !access(run->checkpoint, F_OK);
    return run->trainer && (!resume || zl_trainer_load(run->trainer, run->checkpoint, run->about))
               ? CLI_OK
               : train_failed(run);
}

void train_close(struct train_run *run) {
    zl_trainer_free(run->trainer);
    zl_nn_free(run->nn);
    zl_group_release(run->group);
}

// Signals ---------------------------------------------------------------------------------------------------

static volatile sig_atomic_t stop_requested; // a signal has requested to stop

static void request_stop(int signal_number) {
    (void)signal_number;
    stop_requested = 1;
}

void train_catch_signals(void) {
    cli_catch_interrupts();
    signal(SIGTERM, request_stop);
    signal(SIGUSR1, request_stop);
}

bool train_step(struct train_run *run, int count, const zl_array *in, zl_train_report *report, bool *stops) {
    if (stop_requested)
        zl_trainer_stop(run->trainer);
    bool done = zl_trainer_step(run->trainer, count, in, report) && !cli_interrupted();
    *stops = done && report->stop;
    return done;
}

bool train_save(struct train_run *run) {
    return !run->checkpoint || zl_trainer_save(run->trainer, run->checkpoint, run->about);
}

int train_stopped(struct train_run *run) {
    long long step = (long long)zl_trainer_steps(run->trainer);
    if (!run->checkpoint)
        return run->speaks ? cli_fail(run->call,
                                      "stopped by a signal after %lld steps: nothing is kept without "
                                      "--checkpoint FILE",
                                      step)
                           : CLI_FAILED;
    if (!train_save(run) || !zl_trainer_wait(run->trainer))
        return train_failed(run);
    if (run->speaks)
        cli_fail(run->call, "stopped by a signal: %s has %lld steps, with --resume it goes on",
                 run->checkpoint, step);
    return TRAIN_STOPPED;
}

// Sequences -------------------------------------------------------------------------------------------------

bool train_read_steps(const struct invocation *call, struct train_task *task) {
    int64_t steps = 1000, batch = 16, accumulate = 1, warmup = -1, every = 0;
    double rate = 0.003, decay = 0.01, clip = 1;
    const char *optimizer = cli_option(call, "optimizer"), *schedule = cli_option(call, "schedule");
    if (!cli_integer(call, "steps", 1, INT64_C(1) << 40, &steps) ||
        !cli_integer(call, "batch", 1, 1 << 20, &batch) ||
        !cli_integer(call, "accumulate", 1, 1 << 20, &accumulate) ||
        !cli_integer(call, "warmup", 0, steps - 1, &warmup) ||
        !cli_integer(call, "every", 1, INT64_C(1) << 40, &every) ||
        !cli_number(call, "rate", 1e-12, 1e6, &rate) || !cli_number(call, "decay", 0, 1e6, &decay) ||
        !cli_number(call, "clip", 0, 1e12, &clip))
        return false;
    task->options = (zl_train_options){.optimizer = optimizer,
                                       .rate = rate,
                                       .weight_decay = decay,
                                       .schedule = schedule ? schedule : "cosine",
                                       .warmup = warmup < 0 ? steps / 20 : warmup,
                                       .steps = steps,
                                       .clip = clip,
                                       .accumulate = (int)accumulate};
    task->every = every ? every : (steps + 9) / 10;
    task->sequences = batch;
    return true;
}

static void report(const struct train_run *run, const struct train_task *task, const zl_train_report *last,
                   double loss, double tested, double accuracy, double seconds, int64_t steps) {
    if (!run->speaks)
        return;
    double pace = (double)(steps * task->tokens * task->options.accumulate) / seconds;
    if (run->call->json) {
        cli_json_open(NULL, '{');
        cli_json_int("step", last->step);
        cli_json_number("loss", loss);
        cli_json_number("held_out_loss", tested);
        if (!isnan(accuracy))
            cli_json_number("accuracy", accuracy);
        cli_json_number("rate", last->rate);
        cli_json_int("parameters", zl_nn_elements(run->nn));
        cli_json_number("seconds", seconds);
        cli_json_number("tokens_per_second", pace);
        cli_json_close();
    } else {
        printf("step %6lld  loss %.4f  held out %.4f", (long long)last->step, loss, tested);
        if (!isnan(accuracy))
            printf("  recalled %.2f %%", 100 * accuracy);
        printf("  %.1f s, %.0f tokens/s\n", seconds, pace);
    }
    fflush(stdout);
}

// Trains up to the next test. Sets *loss to the mean of the steps. *stops: a signal ended them earlier.
// Returns false after an error or Ctrl-C.
static bool some_steps(struct train_run *run, const struct train_task *task, int64_t until, double *loss,
                       zl_train_report *last, bool *stops) {
    int64_t batches = 0, first, count;
    double sum = 0;
    if (!zl_nn_rows(run->nn, task->sequences, &first, &count))
        return false;
    while (zl_trainer_steps(run->trainer) < until && !*stops) {
        bool done = false;
        ZL_SCOPE {
            zl_array in[TRAIN_INPUTS_MOST];
            task->batch(task, run->seed, zl_trainer_batches(run->trainer), first, count, in);
            done = train_step(run, task->inputs, in, last, stops);
        }
        if (!done)
            return false;
        sum += last->loss, batches++;
        if (run->speaks)
            train_progress("step %lld of %lld, loss %.4f", (long long)last->step,
                           (long long)task->options.steps, last->loss);
    }
    *loss = sum / (double)batches;
    return true;
}

static int interrupted(const struct train_run *run, const struct train_task *task, int64_t kept) {
    if (!run->checkpoint)
        return cli_fail(run->call, "interrupted: nothing is kept without --checkpoint FILE");
    if (!kept)
        return cli_fail(run->call, "interrupted before the first test: there is no checkpoint yet");
    return cli_fail(run->call, "interrupted: %s has %lld of %lld steps, with --resume it goes on",
                    run->checkpoint, (long long)kept, (long long)task->options.steps);
}

int train_sequences(struct train_run *run, const struct train_task *task) {
    int64_t kept = zl_trainer_steps(run->trainer), all = task->options.steps;
    bool done = true, stops = false;
    train_catch_signals();
    cli_json_to(NULL, true); // one line per test
    while (done && kept < all && !stops) {
        int64_t next = (kept / task->every + 1) * task->every, until = next < all ? next : all;
        double loss = 0, tested = NAN, accuracy = NAN, start = train_now();
        zl_train_report last = {0};
        done = some_steps(run, task, until, &loss, &last, &stops);
        if (done && stops)
            break;
        double seconds = train_now() - start;
        done = done && task->test(task, run, &tested, &accuracy);
        train_progress("%s", "");
        done = done && train_save(run);
        if (done) {
            report(run, task, &last, loss, tested, accuracy, seconds, until - kept);
            kept = until;
        }
    }
    train_progress("%s", "");
    cli_json_to(NULL, false);
    if (done && stops)
        return train_stopped(run);
    done = done && zl_trainer_wait(run->trainer);
    return done ? CLI_OK : cli_interrupted() ? interrupted(run, task, kept) : train_failed(run);
}
