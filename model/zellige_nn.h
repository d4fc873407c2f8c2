// zellige_nn.h - layers, losses, optimisers and checkpoints: what a program needs to train a model.
//
// A model is one function, which reads like its formula: it asks for parameters by name where it uses them.
// The first run makes them, later runs find them again. So a model's parameters are one table of names and
// arrays, in the order of their first use, and optimisers and checkpoints walk along it.
//
//     static zl_array loss(zl_nn nn, int count, const zl_array *in, void *data) {
//         zl_array x = zl_nn_embedding(nn, "words", in[0], 256, 64);
//         x = zl_add(x, zl_nn_swiglu(nn, "mlp", zl_nn_rms_norm(nn, "norm", x), 128));
//         return zl_nn_cross_entropy(zl_nn_logits(nn, "words", x, 256), in[1], NULL);
//     }
//
//     zl_nn nn = zl_nn_new(seed);
//     zl_train_options options = {.optimizer = "adamw", .rate = 0.003};
//     zl_trainer trainer = zl_trainer_new(nn, loss, NULL, &options);
//     while (zl_trainer_step(trainer, 2, (zl_array[]){ids, targets}, &report) && report.step < 1000)
//         …
//
// Errors.  Functions return NULL or false after an error, layers given NULL return NULL, and zl_nn_error() is
// the message. Threads. A table and its trainer belong to one thread at a time.

#ifndef ZELLIGE_NN_H
#define ZELLIGE_NN_H

#include "zellige.h"

#ifdef __cplusplus
extern "C" {
#endif

// Parameters ------------------------------------------------------------------------------------------------

typedef struct zl_nn_ *zl_nn; // a table of parameters, or a place in it: a prefix of names

// Returns an empty table. What parameters start with follows from the seed and their order. NULL: out of
// memory.
ZL_API zl_nn zl_nn_new(int64_t seed);
ZL_API void  zl_nn_free(zl_nn nn); // with all places in it, and after its trainer

// Returns the place "layer.3." of nn for "layer.%d" and 3: names that are asked for there begin with it. It
// lives as long as the table.
ZL_API zl_nn zl_nn_at(zl_nn nn, const char *format, ...) __attribute__((format(printf, 2, 3)));

// What a parameter is used for: optimisers and weight decay tell them apart.
typedef enum {
    ZL_NN_VECTOR, // biases, gains, gates, kernels of convolutions: no weight decay
    ZL_NN_MATRIX, // a matrix, or a stack of matrices, that multiplies: what Muon makes orthogonal
    ZL_NN_TABLE,  // rows that are looked up, or the logits' matrix
} zl_nn_kind;

// How a parameter starts: every element is drawn from mean + deviation * normal, or evenly from mean - spread
// to mean + spread; zero for both gives the mean.
typedef struct {
    double mean, deviation, spread;
    zl_nn_kind kind;
} zl_nn_init;

// Returns the parameter of that name, made by the first call as float32. NULL if it has another shape, or if
// the table is closed, which it is after a trainer's first step or zl_nn_load, and has no such name.
ZL_API zl_array zl_nn_parameter(zl_nn nn, const char *name, zl_shape shape, zl_nn_init init);

// Sets the dtype of new parameters: float32, which is the default, or float64. Returns false, with an error,
// for another dtype, or if there are parameters already.
ZL_API bool zl_nn_set_dtype(zl_nn nn, zl_dtype dtype);

// The table, index by index; the array lives until it is assigned anew. NULL past the last.
ZL_API int         zl_nn_count(zl_nn nn);
ZL_API const char *zl_nn_name(zl_nn nn, int index);
ZL_API zl_array    zl_nn_array(zl_nn nn, int index);
ZL_API zl_nn_kind  zl_nn_kind_of(zl_nn nn, int index);
// of the same shape and dtype; evaluates it
ZL_API bool        zl_nn_assign(zl_nn nn, int index, zl_array value);
ZL_API int64_t     zl_nn_elements(zl_nn nn);                          // of all parameters, on all ranks

// Fills an empty table with the parameters of a checkpoint, and closes it.
ZL_API bool zl_nn_load(zl_nn nn, const char *path);

// Several processes -----------------------------------------------------------------------------------------

// A row of the table that says how a model is divided: which axis of the parameters of this name ("*" stands
// for any text) lies on which axis of the mesh, -1 for none. The first row that fits counts; parameters that
// fit none are whole on every rank. Along fsdp a parameter of one axis is never divided, and shards of an
// axis that does not divide end with zeros. Along tensor the axis must divide.
typedef struct {
    const char *name;
    int fsdp, tensor;
} zl_nn_shard;

// Distributes an empty table over the ranks of a group, which all call it alike. mesh: the sizes of its axes,
// "data=2,fsdp=2,tensor=2", of which each may be left out. Ranks along data and fsdp take different rows of a
// batch, those along tensor the same ones. Ranks along fsdp each keep a shard of what the table divides: a
// step gathers it one bucket ahead of its use, releases it after, and gathers it again in the backward pass.
// Along tensor, layers compute with their part of the parameters. Gradients are sent by buckets of about
// bucket_bytes (0: 1 MiB), during the backward pass. A mesh of one rank changes nothing. A mesh with several
// axes above 1 splits the group, which the engine ring cannot. The rows and the names in them must outlive
// the table. False and an error: the mesh does not fit the group.
ZL_API bool zl_nn_distribute(zl_nn nn, zl_group group, const char *mesh, int rows, const zl_nn_shard *row,
                             int64_t bucket_bytes);
ZL_API int  zl_nn_rank(zl_nn nn);  // of the group; 0 where nothing is distributed
ZL_API int  zl_nn_ranks(zl_nn nn); // in the group

// Which rows of a batch of so many are this rank's: [*first, *first + *count). False and an error: the ranks
// of data and fsdp do not divide it.
ZL_API bool zl_nn_rows(zl_nn nn, int64_t rows, int64_t *first, int64_t *count);
// Returns the mean of x over the ranks that have different rows. All ranks must evaluate it.
ZL_API zl_array zl_nn_mean_of_rows(zl_nn nn, zl_array x);

// The first error of this table, or that of the library; NULL: none.
ZL_API const char *zl_nn_error(zl_nn nn);

// Layers ----------------------------------------------------------------------------------------------------
// x is (..., width) and the last axis is what layers work on; in sequences, (batch, time, width). `name` is
// the place of the layer's parameters, whose names are those of checkpoints on the hub: name.weight,
// name.bias.

// x W^T + b, W (outputs, width)
ZL_API zl_array zl_nn_linear(zl_nn nn, const char *name, zl_array x, int outputs, bool bias);
// x W^T with a matrix (outputs, width) that starts as init says. The layers of this header work with
// parameters that are divided along tensor: if W's outputs are, so are the result's columns; if W's inputs
// are, x's columns must be, and the result is the sum over ranks.
ZL_API zl_array zl_nn_product(zl_nn nn, const char *name, zl_array x, int outputs, zl_nn_init init);
// (..., width)
ZL_API zl_array zl_nn_embedding(zl_nn nn, const char *name, zl_array ids, int count, int width);
// x W^T with a matrix (classes, width) of the kind ZL_NN_TABLE: an embedding's name gives that embedding's
// matrix, which ties both.
ZL_API zl_array zl_nn_logits(zl_nn nn, const char *name, zl_array x, int classes);
ZL_API zl_array zl_nn_rms_norm(zl_nn nn, const char *name, zl_array x);
ZL_API zl_array zl_nn_layer_norm(zl_nn nn, const char *name, zl_array x);

// A convolution of x (batch, sizes, channels) over one to three axes: kernel has a size for each. The weight
// is (outputs, kernel, channels / groups); stride and padding hold for all axes.
ZL_API zl_array zl_nn_conv(zl_nn nn, const char *name, zl_array x, int outputs, zl_shape kernel, int stride,
                           int padding, int groups);
// Every channel's own convolution over the last `width` steps of x (batch, time, channels): y_t = sum_j w_j
// x_(t - width + 1 + j).
ZL_API zl_array zl_nn_causal_conv(zl_nn nn, const char *name, zl_array x, int width);

// down(gelu(up(x))), with biases
ZL_API zl_array zl_nn_mlp(zl_nn nn, const char *name, zl_array x, int hidden);
// down(silu(gate(x)) * up(x))
ZL_API zl_array zl_nn_swiglu(zl_nn nn, const char *name, zl_array x, int hidden);

// A mixture of `experts` SwiGLU layers, of which the `used` likeliest take each token, weighted by their
// probabilities. *balance, if not NULL, is experts * sum_e (share of the choices) * (mean probability): at
// least about 1, which it is when all are used alike; added to a loss it keeps them so.
typedef struct {
    int experts, used, hidden;
} zl_nn_moe_options;
ZL_API zl_array zl_nn_moe(zl_nn nn, const char *name, zl_array x, const zl_nn_moe_options *options,
                          zl_array *balance);

// What lets tokens see those before them: softmax attention, or a rule of zl_fast_delta_rule with its layer.
// That is linear q, k and v, a causal convolution and SiLU; whatever gates the rule needs; an RMS norm for
// each head, times SiLU of a gate; and the output matrix.
typedef struct {
    const char *rule; // "attention", or the name of a delta rule
    int heads;        // 0: 1
    // of k and v in attention, of q and k in delta rules, of which each serves several heads; 0: heads
    int shared_heads;
    int key_dim;      // of a head; 0: width / heads
    int value_dim;    // of a head; 0: key_dim, which it always is in attention
    int conv;         // width of the convolution; 0: 4, and none in attention; negative: none
    int updates;      // of the state by each token, in gated_delta_product; 0: 2
    double rope_base; // of rotary positions in attention; 0: 10000; negative: none
} zl_nn_mixer_options;
ZL_API zl_array zl_nn_mixer(zl_nn nn, const char *name, zl_array x, const zl_nn_mixer_options *options);
ZL_API extern const char zl_nn_mixers[]; // all rules, a space after each but the last
ZL_API bool zl_nn_is_mixer(const char *rule);

// Losses: means over all elements, float32 of one element (cross entropy of float64: float64) ---------------

// targets: integers of the shape of logits without its last axis. mask, if not NULL: what is 0 there does not
// count.
ZL_API zl_array zl_nn_cross_entropy(zl_array logits, zl_array targets, zl_array mask);
ZL_API zl_array zl_nn_binary_cross_entropy(zl_array logits, zl_array targets); // targets from 0 to 1
ZL_API zl_array zl_nn_mean_squares(zl_array y, zl_array targets);

// Training --------------------------------------------------------------------------------------------------

typedef struct zl_trainer_ *zl_trainer;

// The loss of a batch, one float element, made of parameters of nn and of in[0..count). It is called once for
// each kind of batch (dtypes and shapes), to be recorded, and once more at first: it must depend on nothing
// else that changes.
typedef zl_array (*zl_nn_loss)(zl_nn nn, int count, const zl_array *in, void *data);

// Zero stands for a default, where there is one.
typedef struct {
    // "sgd", "adam", "adamw" or "muon"; NULL: "adamw". Muon leaves all but matrices to AdamW
    const char *optimizer;
    double rate;           // learning rate, greater than 0
    double momentum;       // of sgd (0: 0, none) and muon (0: 0.95)
    bool nesterov;         // of sgd; muon always looks ahead
    double beta1, beta2;   // of adam, adamw and muon's AdamW; 0: 0.9 and 0.999
    double eps;            // 0: 1e-8
    // of matrices and tables. sgd and adam add it to the gradient, adamw and muon shrink parameters
    double weight_decay;

    const char *schedule; // of the rate after the warm-up: "constant", "linear" or "cosine"; NULL: "constant"
    int64_t warmup;       // steps in which the rate rises in a line
    int64_t steps;        // at which linear and cosine end,
    double last_share;    // with this share of the rate

    double clip;    // gradients are scaled to a global norm of at most this; 0: they are not
    int accumulate; // batches whose mean gradient is a step; 0: 1
} zl_train_options;

// The learning rate of the step behind `step` steps.
ZL_API double zl_train_rate(const zl_train_options *options, int64_t step);
ZL_API extern const char zl_train_optimizers[]; // all names, a space after each but the last
ZL_API extern const char zl_train_schedules[];

// options are copied, but for data. NULL after an error, which zl_nn_error(nn) tells.
ZL_API zl_trainer zl_trainer_new(zl_nn nn, zl_nn_loss loss, void *data, const zl_train_options *options);
ZL_API void       zl_trainer_free(zl_trainer trainer);

typedef struct {
    double loss;  // of this batch
    double norm;  // of the gradient, before clipping; NaN: nothing is clipped, or the step is not complete
    double rate;  // that the step was made with
    int64_t step; // steps that are complete
    bool stop;    // zl_trainer_stop() was called, on any rank: all ranks are told with the same batch
} zl_train_report;

// Takes one batch; each `accumulate`-th completes a step. Gradients and updates are recorded once and then
// replayed, and parameters are written over: arrays of an earlier step are no longer those of the table.
// report may be NULL. After an error, parameters may be lost: load a checkpoint.
ZL_API bool    zl_trainer_step(zl_trainer trainer, int count, const zl_array *batch, zl_train_report *report);
ZL_API int64_t zl_trainer_steps(zl_trainer trainer); // that are complete
// that were taken in all, from which the next one follows
ZL_API int64_t zl_trainer_batches(zl_trainer trainer);
// has the next report say it; signal handlers may call it
ZL_API void    zl_trainer_stop(zl_trainer trainer);

// Checkpoints: safetensors with the parameters by their names, the optimiser's state, the steps and the seed.
// Files are replaced as a whole. A training that was stopped and loaded goes on to the same bits. `about` is
// any text that tells the model and its data from others: load refuses a file that has another one, or
// another optimiser or seed. Load a checkpoint before the first step. The path ends with .safetensors.
//
// Where a table is distributed, all ranks save: each writes its shards to a file of its own beside `path`, in
// the background, while training goes on with other memory, and rank 0 then replaces `path` by an index of
// these files, and removes those of the index that was there. All ranks must see the same folder. Any
// checkpoint can be loaded on any mesh, and on one rank.
ZL_API bool zl_trainer_save(zl_trainer trainer, const char *path, const char *about);
// until the last checkpoint is written; false and an error: it could not be
ZL_API bool zl_trainer_wait(zl_trainer trainer);
ZL_API bool zl_trainer_load(zl_trainer trainer, const char *path, const char *about);

#ifdef __cplusplus
}
#endif

#endif
