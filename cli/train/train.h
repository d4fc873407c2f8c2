// train.h - the commands `zellige train …`: their data and models, and functions that they share, based on
// model/zellige_nn.h.

#ifndef TRAIN_H
#define TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli.h"
#include "zellige_nn.h"

// dataset.c -------------------------------------------------------------------------------------------------

enum { TRAIN_PIXELS = 784, TRAIN_CLASSES = 10 };

struct train_dataset {
    int count;
    unsigned char *image; // (count, TRAIN_PIXELS), bytes as in the file; owned
    unsigned char *label; // (count); owned
};
// Reads one part of the dataset, kind "train" or "t10k", from files in the folder, uncompressed or compressed
// by gzip. Returns false, with a message in `error`, if that fails; otherwise the caller frees *out with
// train_free_dataset.
bool train_read_dataset(struct train_dataset *out, const char *folder, const char *kind, char *error,
                        size_t error_bytes);
// Frees the images and labels and clears the dataset.
void train_free_dataset(struct train_dataset *dataset);
// Returns images as float32 from 0 to 1, of the shape (count, TRAIN_PIXELS).
zl_array train_images(const unsigned char *image, int count);
// Returns labels as int32, of the shape (count).
zl_array train_labels(const unsigned char *label, int count);

// train_run.c -----------------------------------------------------------------------------------------------

#define TRAIN_CHECKPOINT_OPTIONS                                                                \
    {"seed", 0, "N", NULL, "of the first parameters and of the order of the data (default 1)"}, \
    {"checkpoint", 0, "FILE", NULL, "written whenever the model is tested: safetensors"},       \
    {"resume", 0, NULL, NULL, "go on from the checkpoint, if it is there"},                     \
    {"device", 0, "NAME", NULL, "device to train on"}

#define TRAIN_MESH_OPTIONS                                                                                \
    {"mesh", 0, "AXES", NULL,                                                                             \
     "ranks by axis, such as data=2,fsdp=2,tensor=2 (default: this process alone)"},                      \
    {"bucket", 0, "BYTES", NULL, "gradients that are sent at once (default 1048576)"},                    \
    {"dtype", 0, "NAME", "f32 f64", "of parameters (default f32)"}

#define TRAIN_STEP_OPTIONS                                                                                \
    {"steps", 0, "N", NULL, "steps in all (default 1000)"},                                               \
    {"batch", 0, "N", NULL, "sequences per batch (default 16)"},                                          \
    {"accumulate", 0, "N", NULL, "batches per step (default 1)"},                                         \
    {"optimizer", 0, "NAME", zl_train_optimizers, "sgd, adam, adamw (the default) or muon"},              \
    {"rate", 0, "X", NULL, "learning rate (default 0.003)"},                                              \
    {"schedule", 0, "NAME", zl_train_schedules, "of the rate: constant, linear or cosine (the default)"}, \
    {"warmup", 0, "N", NULL, "steps in which the rate rises (default: a twentieth of all)"},              \
    {"decay", 0, "X", NULL, "weight decay of matrices (default 0.01)"},                                   \
    {"clip", 0, "X", NULL, "largest norm of the gradient (default 1; 0: any)"},                           \
    {"every", 0, "N", NULL, "steps from one test to the next (default: a tenth of all)"}

// A training: its parameters, and the checkpoint.
struct train_run {
    const struct invocation *call;
    zl_nn nn;
    zl_trainer trainer;
    const char *checkpoint; // NULL: none
    char about[512];
    int64_t seed;
    zl_group group; // NULL: there is only this process
    bool speaks;    // prints: only the first of several ranks does
};

enum { TRAIN_STOPPED = 75 }; // exit code: start the job again (EX_TEMPFAIL)

// Reads and checks the options that all commands have, before data are read. Call train_close in any case.
// Returns an exit code.
int  train_begin(struct train_run *run, const struct invocation *call);
// Makes the table and the trainer. With --resume, loads the checkpoint, which must describe the same
// training. Returns an exit code. rows: of the table by which --mesh divides the model.
int train_open(struct train_run *run, zl_nn_loss loss, void *data, const zl_train_options *options, int rows,
               const zl_nn_shard *row);
// Makes SIGTERM and SIGUSR1 end the training after a step, with a checkpoint, and Ctrl-C at once.
void train_catch_signals(void);
// Trains on one batch, a step of the trainer. Sets *stops to whether training should end after it. Returns
// false after an error or Ctrl-C.
bool train_step(struct train_run *run, int count, const zl_array *in, zl_train_report *report, bool *stops);
// Saves the checkpoint, if a path was given. Returns false, with an error, if that fails.
bool train_save(struct train_run *run);
// Saves a training that a signal ended, in the middle of an epoch or between tests. Returns an exit code.
int  train_stopped(struct train_run *run);
// Frees the trainer, the parameters and the group.
void train_close(struct train_run *run);
// Reports zl_nn_error as cli_fail does. Returns the exit code.
int  train_failed(const struct train_run *run);

// Returns the seconds of a monotonic clock.
double   train_now(void);
// Returns a pseudorandom number that depends only on the three arguments.
uint64_t train_random(uint64_t seed, uint64_t a, uint64_t b);
// Replaces the progress line on standard error, if that is a terminal; "" removes it.
void     train_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum { TRAIN_INPUTS_MOST = 3 };

// A training on sequences, with a test every few steps.
struct train_task {
    void *data;
    int inputs;
    // Fills in[0..inputs) with rows [first, first + count) of the index-th batch.
    void (*batch)(const struct train_task *task, int64_t seed, int64_t index, int64_t first, int64_t count,
                  zl_array *in);
    // Measures the model on data that it is not trained on. Returns false after an error or Ctrl-C. *accuracy
    // stays NaN if it is not defined.
    bool (*test)(const struct train_task *task, const struct train_run *run, double *loss, double *accuracy);
    zl_train_options options;
    int64_t every, sequences, tokens; // steps per test; sequences per batch, and tokens per batch
};

// Reads TRAIN_STEP_OPTIONS into task->options, every and sequences. Returns false after a message.
bool train_read_steps(const struct invocation *call, struct train_task *task);
// Trains from the step of the checkpoint on, with a line per test. Returns an exit code.
int  train_sequences(struct train_run *run, const struct train_task *task);

// train_model.c ---------------------------------------------------------------------------------------------

#define TRAIN_MODEL_OPTIONS                                                                               \
    {"mixer", 0, "NAME", zl_nn_mixers, "attention or a delta rule (default gated_delta)"},                \
    {"layers", 0, "N", NULL, "blocks of a mixer and an MLP"},                                             \
    {"width", 0, "N", NULL, "numbers per token"},                                                         \
    {"heads", 0, "N", NULL, "heads of the mixer"},                                                        \
    {"key-dim", 0, "N", NULL, "keys per head (default: width / heads)"},                                  \
    {"value-dim", 0, "N", NULL, "values per head (default: as many as keys)"},                            \
    {"conv", 0, "N", NULL, "width of the mixer's convolution (default 4, of attention 0; -1: none)"},      \
    {"ffn", 0, "N", NULL, "width inside the MLP (default: 3 times the width; 0: no MLP)"}

// A small language model: residual blocks of a mixer and a SwiGLU layer, with a norm before each.
struct train_model {
    zl_nn_mixer_options mixer;
    int vocabulary, layers, width, ffn;
};
// Reads TRAIN_MODEL_OPTIONS; what they do not set keeps its default. Returns false after a message.
bool     train_read_model(const struct invocation *call, struct train_model *model);
// Sets the description of the training: the formatted text, the model, and those options of its steps that a
// resumed training must have too.
void train_describe(struct train_run *run, const struct train_task *task, const struct train_model *model,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
extern const zl_nn_shard train_shards[]; // how the model is divided
extern const int train_shard_rows;
// Returns the model's logits, of the shape (batch, time, vocabulary), for ids of the shape (batch, time).
zl_array train_logits(zl_nn nn, const struct train_model *model, zl_array ids);

#endif
