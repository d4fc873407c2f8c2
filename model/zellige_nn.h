// zellige_nn.h - layers, losses, optimisers and checkpoints: what a program needs to train a model.
//
// A model is one function, which reads like its formula: it looks parameters up by name where it uses them.
// The first run makes them, later runs find them again. So the parameters of a model are one table of names
// and arrays, in the order of their first use, over which optimisers and checkpoints iterate.
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
//          the message.
// Threads. A table and its trainer belong to one thread at a time.

#ifndef ZELLIGE_NN_H
#define ZELLIGE_NN_H

#include "zellige.h"

#ifdef __cplusplus
extern "C" {
#endif

// Parameters ------------------------------------------------------------------------------------------------

typedef struct zl_nn_ *zl_nn; // a table of parameters, or a place in it: a prefix of names

// Returns an empty table, to be freed with zl_nn_free, or NULL if memory runs out. The initial values of
// parameters follow from the seed and the order in which they are made.
ZL_API zl_nn zl_nn_new(int64_t seed);
// Frees a table and all places in it. Its trainer is freed before. NULL is allowed.
ZL_API void  zl_nn_free(zl_nn nn);

// Returns the place "layer.3." of nn for "layer.%d" and 3: the names of parameters that are looked up there
// begin with it. It lives as long as the table. Returns NULL after an error.
ZL_API zl_nn zl_nn_at(zl_nn nn, const char *format, ...) __attribute__((format(printf, 2, 3)));

// What a parameter is used for: optimisers and weight decay tell them apart.
typedef enum {
    ZL_NN_VECTOR, // biases, gains, gates, kernels of convolutions: no weight decay
    ZL_NN_MATRIX, // a matrix of a product, or a stack of such: Muon orthogonalises its updates
    ZL_NN_TABLE,  // rows that are looked up, or the output matrix
} zl_nn_kind;

// A parameter's initial values: each element is mean + deviation * normal, or uniform from mean - spread to
// mean + spread; zero for both gives the mean.
typedef struct {
    double mean, deviation, spread;
    zl_nn_kind kind;
} zl_nn_init;

// Returns the parameter of that name. The first call makes it, in the table's dtype. Returns NULL, with an
// error, if it has another shape, or if the table is closed, which it is after a trainer's first step or
// zl_nn_load, and has no such name.
ZL_API zl_array zl_nn_parameter(zl_nn nn, const char *name, zl_shape shape, zl_nn_init init);

// Sets the dtype of new parameters: float32, which is the default, or float64. Returns false, with an error,
// for another dtype, or if there are parameters already.
ZL_API bool zl_nn_set_dtype(zl_nn nn, zl_dtype dtype);

// Returns the number of parameters.
ZL_API int         zl_nn_count(zl_nn nn);
// Returns the full name of the index-th parameter; NULL past the last.
ZL_API const char *zl_nn_name(zl_nn nn, int index);
// Returns the array of the index-th parameter, or this rank's shard of it, valid until the parameter is
// assigned or updated; NULL past the last.
ZL_API zl_array    zl_nn_array(zl_nn nn, int index);
// Returns the kind of the index-th parameter; ZL_NN_VECTOR past the last.
ZL_API zl_nn_kind  zl_nn_kind_of(zl_nn nn, int index);
// Evaluates a value of the same shape and dtype and makes it the index-th parameter. Returns false, with an
// error, if that fails.
ZL_API bool        zl_nn_assign(zl_nn nn, int index, zl_array value);
// Returns the number of elements of all parameters, shards of other ranks included.
ZL_API int64_t     zl_nn_elements(zl_nn nn);

// Fills an empty table with the parameters of a checkpoint, and closes it. Returns false, with an error, if
// that fails.
ZL_API bool zl_nn_load(zl_nn nn, const char *path);

// Several processes -----------------------------------------------------------------------------------------

// A rule that says how parameters are divided: which axis of the parameters of this name ("*" stands for any
// text) is divided along the axes fsdp and tensor of the mesh, -1 for none. The first rule that fits a name
// counts; a parameter that fits none is whole on every rank. Along fsdp a parameter of one axis is never
// divided, and if the ranks do not divide the axis evenly, the last shards end with zeros. Along tensor they
// must divide it evenly.
typedef struct {
    const char *name;
    int fsdp, tensor;
} zl_nn_shard;

// Distributes an empty table over the ranks of a group; all ranks make the same call. `mesh` has the sizes
// of its axes, "data=2,fsdp=2,tensor=2"; an axis that is left out has size 1. Ranks along data and fsdp
// take different rows of a batch, those along tensor the same rows. Ranks along fsdp each keep a shard of
// the parameters that the rules divide: a step gathers a parameter one bucket ahead of its use, releases it
// afterwards, and gathers it again in the backward pass. Along tensor, layers compute with their part of
// the parameters. Gradients are sent in buckets of about bucket_bytes (0: 1 MiB) during the backward pass.
// A mesh of one rank changes nothing. A mesh with several axes above 1 splits the group, which the engine
// ring cannot do. The rules and the names in them must outlive the table. Returns false, with an error, if
// the mesh does not fit the group.
ZL_API bool zl_nn_distribute(zl_nn nn, zl_group group, const char *mesh, int rows, const zl_nn_shard *row,
                             int64_t bucket_bytes);
// Returns this process's rank in the group; 0 if the table is not distributed.
ZL_API int  zl_nn_rank(zl_nn nn);
// Returns the number of ranks of the group; 1 if the table is not distributed.
ZL_API int  zl_nn_ranks(zl_nn nn);

// Finds this rank's rows of a batch that has `rows`: [first, first + count). Returns false, with an error,
// if the ranks along data and fsdp do not divide the batch evenly.
ZL_API bool zl_nn_rows(zl_nn nn, int64_t rows, int64_t *first, int64_t *count);
// Returns the mean of x over the ranks that have different rows. All ranks must evaluate it.
ZL_API zl_array zl_nn_mean_of_rows(zl_nn nn, zl_array x);

// Returns the first error of this table, otherwise zl_error(); NULL if there is neither.
ZL_API const char *zl_nn_error(zl_nn nn);

// Layers ----------------------------------------------------------------------------------------------------
// x is (..., width), and layers work on the last axis; sequences are (batch, time, width). `name` is the
// place of the layer's parameters, whose names are those of checkpoints on the hub: name.weight, name.bias.
// Layers return NULL after an error.

// Returns x W^T, where W is (outputs, width), plus b if `bias`.
ZL_API zl_array zl_nn_linear(zl_nn nn, const char *name, zl_array x, int outputs, bool bias);
// Returns x W^T, where W is (outputs, width) and starts as `init` says. Layers also work with parameters
// that are divided along tensor: if W's outputs are divided, so are the result's columns; if W's inputs are
// divided, x's columns must be, and the result is the sum over ranks.
ZL_API zl_array zl_nn_product(zl_nn nn, const char *name, zl_array x, int outputs, zl_nn_init init);
// Returns the rows of a matrix (count, width) that `ids` name: (..., width).
ZL_API zl_array zl_nn_embedding(zl_nn nn, const char *name, zl_array ids, int count, int width);
// Returns x W^T, where W is (classes, width) and of the kind ZL_NN_TABLE. An embedding's name stands for
// that embedding's matrix, which ties both.
ZL_API zl_array zl_nn_logits(zl_nn nn, const char *name, zl_array x, int classes);
// Returns the RMS norm of x, times a weight.
ZL_API zl_array zl_nn_rms_norm(zl_nn nn, const char *name, zl_array x);
// Returns the layer norm of x, times a weight, plus a bias.
ZL_API zl_array zl_nn_layer_norm(zl_nn nn, const char *name, zl_array x);

// Returns a convolution of x (batch, sizes, channels) over one to three axes, plus a bias; `kernel` has a
// size per axis. The weight is (outputs, kernel, channels / groups); stride and padding are the same for
// all axes.
ZL_API zl_array zl_nn_conv(zl_nn nn, const char *name, zl_array x, int outputs, zl_shape kernel, int stride,
                           int padding, int groups);
// Returns a convolution of each channel by itself over the last `width` steps of x (batch, time, channels):
// y_t = sum_j w_j x_(t - width + 1 + j).
ZL_API zl_array zl_nn_causal_conv(zl_nn nn, const char *name, zl_array x, int width);

// Returns down(gelu(up(x))), with biases.
ZL_API zl_array zl_nn_mlp(zl_nn nn, const char *name, zl_array x, int hidden);
// Returns down(silu(gate(x)) * up(x)), without biases.
ZL_API zl_array zl_nn_swiglu(zl_nn nn, const char *name, zl_array x, int hidden);

// A mixture of `experts` SwiGLU layers.
typedef struct {
    int experts, used, hidden; // used: number of experts that take each token
} zl_nn_moe_options;
// Returns the results of the `used` likeliest experts for each token, weighted by their probabilities.
// *balance, if `balance` is not NULL, is experts * sum_e (share of the choices) * (mean probability). It is
// about 1 if all experts are used equally, otherwise larger; added to a loss it keeps their use equal.
ZL_API zl_array zl_nn_moe(zl_nn nn, const char *name, zl_array x, const zl_nn_moe_options *options,
                          zl_array *balance);

// A layer in which tokens see those before them: softmax attention, or a rule of zl_fast_delta_rule with its
// layer. The latter has linear q, k and v, a causal convolution and SiLU; the gates that the rule needs; an
// RMS norm per head, times SiLU of a gate; and the output matrix.
typedef struct {
    const char *rule; // "attention", or the name of a delta rule
    int heads;        // 0: 1
    // heads of k and v in attention, of q and k in delta rules; each serves several heads; 0: heads
    int shared_heads;
    int key_dim;      // of a head; 0: width / heads
    int value_dim;    // of a head; 0: key_dim, which it always is in attention
    int conv;         // width of the convolution; 0: 4, and none in attention; negative: none
    int updates;      // of the state per token, in gated_delta_product; 0: 2
    double rope_base; // of rotary positions in attention; 0: 10000; negative: none
} zl_nn_mixer_options;
// Returns the result of the layer for x (batch, time, width), of the same shape.
ZL_API zl_array zl_nn_mixer(zl_nn nn, const char *name, zl_array x, const zl_nn_mixer_options *options);
ZL_API extern const char zl_nn_mixers[]; // all rules, with spaces between them
// Returns whether there is a rule of that name.
ZL_API bool zl_nn_is_mixer(const char *rule);

// Losses: means over all elements, float32 of one element (cross entropy of float64: float64) ---------------

// Returns the cross entropy of logits (..., classes) and integer targets (...). Where `mask`, if not NULL,
// is 0, elements do not count.
ZL_API zl_array zl_nn_cross_entropy(zl_array logits, zl_array targets, zl_array mask);
// Returns the binary cross entropy of logits and targets, which are from 0 to 1.
ZL_API zl_array zl_nn_binary_cross_entropy(zl_array logits, zl_array targets);
// Returns the mean of the squared differences.
ZL_API zl_array zl_nn_mean_squares(zl_array y, zl_array targets);

// Training --------------------------------------------------------------------------------------------------

typedef struct zl_trainer_ *zl_trainer;

// A function that returns the loss of a batch, one float element, from parameters of nn and in[0..count). It
// is called once for each kind of batch (dtypes and shapes), to be recorded, and once more at first: it must
// not depend on anything else that changes.
typedef zl_array (*zl_nn_loss)(zl_nn nn, int count, const zl_array *in, void *data);

// How a model is trained. Zero selects a default, if there is one.
typedef struct {
    // "sgd", "adam", "adamw" or "muon"; NULL: "adamw". Muon only updates matrices, other parameters are
    // AdamW's
    const char *optimizer;
    double rate;           // learning rate, greater than 0
    double momentum;       // for sgd (0: none) and muon (0: 0.95)
    bool nesterov;         // for sgd; muon always uses Nesterov's variant
    double beta1, beta2;   // for adam, adamw and muon's AdamW; 0: 0.9 and 0.999
    double eps;            // 0: 1e-8
    // for matrices and tables. sgd and adam add it to the gradient, adamw and muon shrink parameters
    double weight_decay;

    const char *schedule; // of the rate after the warm-up: "constant", "linear" or "cosine"; NULL: "constant"
    int64_t warmup;       // steps in which the rate rises linearly
    int64_t steps;        // step at which linear and cosine end
    double last_share;    // rate at that step, as a fraction of `rate`

    double clip;    // gradients are scaled to a global norm of at most this; 0: they are not
    int accumulate; // batches per step, whose gradients are averaged; 0: 1
} zl_train_options;

// Returns the learning rate of the step that follows `step` steps.
ZL_API double zl_train_rate(const zl_train_options *options, int64_t step);
ZL_API extern const char zl_train_optimizers[]; // all names, with spaces between them
ZL_API extern const char zl_train_schedules[];

// Returns a trainer, to be freed with zl_trainer_free, or NULL and an error of nn. `loss` is called with
// `data`. The table and `data` must outlive the trainer; the options are copied.
ZL_API zl_trainer zl_trainer_new(zl_nn nn, zl_nn_loss loss, void *data, const zl_train_options *options);
// Waits for a checkpoint that is being written, and frees a trainer. NULL is allowed.
ZL_API void       zl_trainer_free(zl_trainer trainer);

typedef struct {
    double loss;  // of this batch
    double norm;  // of the gradient, before clipping; NaN: nothing is clipped, or the step is not complete
    double rate;  // learning rate of the step
    int64_t step; // steps that are complete
    bool stop;    // zl_trainer_stop() was called on any rank; set on all ranks with the same batch
} zl_train_report;

// Takes one batch; each `accumulate`-th completes a step. Waits for the result. Gradients and updates are
// recorded once and then replayed, and parameters are overwritten: arrays of an earlier step are no longer
// those of the table. `report` may be NULL. Returns false, with an error, if that fails; parameters may
// then be lost: load a checkpoint.
ZL_API bool    zl_trainer_step(zl_trainer trainer, int count, const zl_array *batch, zl_train_report *report);
// Returns the number of complete steps.
ZL_API int64_t zl_trainer_steps(zl_trainer trainer);
// Returns the number of batches taken in all, also before a checkpoint was loaded: the index of the next one.
ZL_API int64_t zl_trainer_batches(zl_trainer trainer);
// Sets `stop` in the reports of the batches that follow. Signal handlers may call it.
ZL_API void    zl_trainer_stop(zl_trainer trainer);

// A checkpoint is a safetensors file with the parameters by their names, the optimiser's state, the steps and
// the seed. Files are replaced as a whole. Training that is stopped and resumed from a checkpoint gives the
// same bits as training that is not. `about` is any text that identifies the model and its data.
//
// If a table is distributed, all ranks save: each writes its shards to a file of its own next to `path`, in
// the background, while training continues in other memory. Rank 0 then replaces `path` with an index of
// these files, and removes the files of the old index. All ranks must see the same folder. Any checkpoint
// can be loaded on any mesh, and on one rank.

// Writes a checkpoint. The path ends with .safetensors. Returns false, with an error, if that fails or
// there was no step yet.
ZL_API bool zl_trainer_save(zl_trainer trainer, const char *path, const char *about);
// Waits until the last checkpoint is written. Returns false, with an error, if it could not be written.
ZL_API bool zl_trainer_wait(zl_trainer trainer);
// Loads a checkpoint, before the first step. Returns false, with an error, if that fails or the file has
// another `about`, optimiser or seed.
ZL_API bool zl_trainer_load(zl_trainer trainer, const char *path, const char *about);

#ifdef __cplusplus
}
#endif

#endif
