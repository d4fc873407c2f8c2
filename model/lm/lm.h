// lm.h - language models: configuration, weights, layers, caches, sampling. Uses the public headers and
// text.h only.
//
//     config.json ─▶ lm_config ─▶ lm_weights finds the tensors ─▶ lm_network: layers of arrays
//     ids ─▶ lm_hidden (with a cache, or without) ─▶ lm_logits ─▶ lm_sample ─▶ ids
//
// Functions that read files return false and leave a message in struct lm_error, which names the file and the
// field or the tensor. Functions that record ops return NULL after an error, which zl_error() tells. Arrays
// in structures are retained.

#ifndef LM_H
#define LM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/text.h"
#include "zellige.h"
#include "zellige_loop.h"
#include "zellige_model.h"

struct lm_error {
    char text[512];
};
// Formats the message; returns false, for `return lm_fail(…)`.
bool lm_fail(struct lm_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

// lm_config.c -----------------------------------------------------------------------------------------------

enum { LM_EOS_MOST = 16 };

// How layers of linear attention by the gated delta rule store their projections: there are no such layers;
// in two matrices, with rows grouped by key heads; each as its own matrix. In models with such layers norms
// are zero-centred: 1 is added to the weight.
enum lm_delta_kind { LM_DELTA_NONE, LM_DELTA_FUSED, LM_DELTA_PARTED };

// What a model_type implies that its configurations do not contain. A related architecture is one more row.
struct lm_family {
    const char *type;   // model_type of config.json
    bool qkv_bias;      // q, k and v have a bias
    bool qk_norm;       // q and k are normalised per head before their rotation
    bool experts;       // MLPs are mixtures of experts, unless the configuration makes a layer dense
    bool renormalise;   // the weights of the chosen experts are scaled to add up to 1
    bool shared_expert; // one more expert, multiplied by a sigmoid gate, takes every token
    int router_bits;    // bits that routers keep if the model is quantised to fewer; 0: as other matrices
    enum lm_delta_kind delta;
};

enum lm_rope_kind { LM_ROPE_DEFAULT, LM_ROPE_LINEAR, LM_ROPE_LLAMA3, LM_ROPE_YARN };

// Rotary positions. The fields after `theta` belong to the kinds that scale positions.
struct lm_rope {
    enum lm_rope_kind kind;
    int dims; // features of a head that are rotated, beginning with the first
    double theta, factor;
    double low_frequency, high_frequency; // llama3
    double beta_fast, beta_slow;          // YaRN
    bool whole_pairs;                     // YaRN: stretching begins and ends at whole pairs of features
    double magnitude;                     // YaRN: factor of the features of q and k that are rotated
    int64_t original;                     // number of positions in training
};

struct lm_config {
    const struct lm_family *family;
    int hidden, layers, heads, kv_heads, head_dim, ffn, vocabulary;
    double eps;
    int64_t positions; // number of positions that the model was made for
    bool tied;         // the matrix of the logits is the embedding
    bool qkv_bias, output_bias, mlp_bias;
    bool output_gate; // q has twice as many features; the sigmoid of the additional ones multiplies the
                      // heads' results
    struct lm_rope rope;
    int64_t window; // number of keys that a query in a sliding layer sees; 0: all
    bool *slides;   // per layer
    bool *sparse;   // per layer: its MLP is a mixture of experts
    bool *linear;   // per layer: its attention is linear
    struct {
        int key_heads, value_heads, key_dim, value_dim;
        int width; // of the convolution
    } delta;       // of layers of linear attention
    int experts, experts_used, expert_ffn, shared_ffn;
    bool renormalise;
    int bos, eos[LM_EOS_MOST], eos_count; // bos -1: none
    text_json_value root;         // the whole file, in which the quantisation of matrices is looked up
    text_json_value quantization; // in MLX's checkpoints; NULL: none
};

// Reads folder/config.json, in the format of the hub or of transformers 5, and the end tokens of
// generation_config.json. Unknown fields that are set are refused, since they could change what the model
// computes. *config is freed with lm_config_free, also after an error.
bool lm_config_read(struct lm_config *config, const char *folder, struct lm_error *error);
// Reads a parsed config.json alone, which it takes over. Errors begin with `path`. *config is freed with
// lm_config_free, also after an error.
bool lm_config_of(struct lm_config *config, text_json_value root, const char *path, struct lm_error *error);
// Frees what a configuration owns, and clears it.
void lm_config_free(struct lm_config *config);

// lm_weights.c ----------------------------------------------------------------------------------------------

// The tensors of a checkpoint: model.safetensors, or the parts that model.safetensors.index.json names. They
// are mapped.
struct lm_weights;
// Opens the tensors of a folder. Returns NULL after an error.
struct lm_weights *lm_weights_open(const char *folder, struct lm_error *error);
// Returns a list without tensors, to which lm_weights_add adds some, before lm_weights_finish; NULL if
// memory runs out. Errors begin with `label`.
struct lm_weights *lm_weights_new(const char *label);
// Adds a tensor, which is retained; its name is copied. Returns false if it is NULL or memory runs out.
bool     lm_weights_add(struct lm_weights *weights, const char *name, zl_array a);
// Sorts the tensors that were added, and sets the dtype in which the model is computed.
void     lm_weights_finish(struct lm_weights *weights, zl_dtype dtype);
// Returns weights that are drawn when they are taken, as floats of a dtype or as words of quantised
// matrices; NULL if memory runs out.
struct lm_weights *lm_weights_random(int64_t seed, zl_dtype dtype, bool quantized);
// Frees the list and releases its tensors. NULL is allowed.
void     lm_weights_free(struct lm_weights *weights);
// Returns the dtype in which the model is computed, or ZL_DTYPE_COUNT for that of its embedding.
zl_dtype lm_weights_dtype(const struct lm_weights *weights);
// Returns whether there is a tensor of that name.
bool     lm_weights_has(const struct lm_weights *weights, const char *name);
// Returns the size of the last axis of the tensor NAME.PART, or 0 if there is none.
int64_t  lm_weights_columns(const struct lm_weights *weights, const char *name, const char *part);
// Returns whether there is a tensor NAME.PART of that dtype.
bool     lm_weights_is(const struct lm_weights *weights, const char *name, const char *part, zl_dtype dtype);
// Returns a tensor and marks it as used; NULL, with an error, if it is not there or has another shape. A
// size of -1 in `shape` fits all.
zl_array lm_weights_take(struct lm_weights *weights, const char *name, zl_shape shape,
                         struct lm_error *error);
// Returns false, with an error, if a tensor was not taken that no architecture leaves out: the model would
// not be what its file says.
bool     lm_weights_all_used(const struct lm_weights *weights, bool tied, struct lm_error *error);
// Returns false, with an error, if a tensor that was taken has no floats, though it is not quantised. Floats
// of 8 bits are such: they are loaded as bytes.
bool     lm_weights_are_floats(const struct lm_weights *weights, struct lm_error *error);
// Replaces a tensor of the list by another one, which is retained, and releases the old one.
void     lm_weights_replace(struct lm_weights *weights, zl_array tensor, zl_array by);
// Returns the index-th of the tensors that were taken, and sets *name; NULL past the last.
zl_array lm_weights_at(const struct lm_weights *weights, int index, const char **name);
// Returns the bytes of the tensors that were taken.
size_t   lm_weights_bytes(const struct lm_weights *weights);

// lm_gguf.c -------------------------------------------------------------------------------------------------

// Returns whether the file begins like a GGUF file.
bool lm_is_gguf(const char *path);
// Reads the configuration and the tensors of a file. Returns false after an error; the caller frees *config
// and *weights in either case.
bool lm_gguf_open(const char *path, struct lm_config *config, struct lm_weights **weights,
                  struct lm_error *error);

// lm_linear.c -----------------------------------------------------------------------------------------------

// A product x W^T + bias with a float matrix W (outputs, inputs) or one that MLX quantised. A stack of
// experts has one axis more.
struct lm_linear {
    zl_array weight, scales, biases, bias; // scales: NULL for floats; bias: NULL for none
    int group_size, bits;
    const char *mode;
    zl_dtype rows; // dtype of the results of lm_linear_rows; ZL_DTYPE_COUNT: that of the matrix or its scales
};

// Loads NAME.weight, its scales and biases if it is quantised, and NAME.bias if `bias`: a matrix if
// `experts` is 0, otherwise a stack of that many.
bool lm_linear_load(struct lm_linear *linear, struct lm_weights *weights, const struct lm_config *config,
                    const char *name, int experts, int outputs, int inputs, bool bias,
                    struct lm_error *error);
// Loads `part` of all experts of an MLP as one stack. MLX's files have it as a stack, those of the hub have
// the experts one by one.
bool lm_linear_load_experts(struct lm_linear *linear, struct lm_weights *weights,
                            const struct lm_config *config, const char *mlp, const char *part, int outputs,
                            int inputs, struct lm_error *error);
// Returns MLP.experts.E.PART.weight of all experts as one stack, retained, or NULL after an error. Outputs
// and inputs of -1 fit any size.
zl_array lm_linear_stack(struct lm_weights *weights, const char *mlp, const char *part, int experts,
                         int outputs, int inputs, struct lm_error *error);
// Releases the arrays, and clears the structure.
void lm_linear_free(struct lm_linear *linear);
enum { LM_JOIN_MOST = 3 };
// Joins `count` matrices that multiply the same x to one, if their layouts agree: the rows of the first
// come first, and each matrix becomes a view of its rows, also among the weights. They are joined when they
// are first used. Returns false after an error. *all is empty if they cannot be joined.
bool lm_linear_join(struct lm_linear *all, struct lm_linear *const *each, int count,
                    struct lm_weights *weights);
// Returns x W^T + bias.
zl_array lm_linear_apply(const struct lm_linear *linear, zl_array x);
// Returns x (N, 1, 1, inputs) times the matrices that `chosen` (N, k) names: (N, k, 1, outputs).
zl_array lm_linear_apply_chosen(const struct lm_linear *linear, zl_array x, zl_array chosen);
// Returns the rows of the matrix that `ids` name, as an embedding does.
zl_array lm_linear_rows(const struct lm_linear *linear, zl_array ids);

// lm_cache.c ------------------------------------------------------------------------------------------------

enum { LM_CACHE_PAGE = 256 }; // number of positions by which a cache grows

// Keys or values (batch, kv_heads, capacity, head_dim), or their codes with scales and biases, as zl_quantize
// returns them.
typedef zl_array lm_heads[3];

// The cache of one layer: keys and values of attention, or the state of lm_delta_apply in linear attention.
// NULL: nothing yet.
struct lm_kept {
    lm_heads keys, values;
    zl_array recent, state;
};

// The cache of a sequence, or of all sequences of a batch.
struct lm_cache {
    int layers;
    struct lm_kept *layer;
    int64_t length; // in positions, of all layers
    int bits;       // of quantised keys and values; 0: not quantised
    int group_size; // of quantised keys and values
    // int32 (batch): the number of unused positions before each sequence; NULL: none
    zl_array skip;
    // int32 (1): index of the next position in arrays that have their final size, used instead of `length`;
    // NULL: positions are appended after `length`. Not retained.
    zl_array at;
};
enum { LM_CACHE_ARRAYS = 6 }; // per layer, at most
// Makes an empty cache. Returns false if memory runs out.
bool lm_cache_new(struct lm_cache *cache, int layers);
// Makes an empty cache that quantises keys and values, of heads of head_dim features, to 4 or 8 bits; 0
// bits: it does not. Returns false after an error.
bool lm_cache_quantized(struct lm_cache *cache, int layers, int bits, int head_dim, struct lm_error *error);
// Releases the arrays of a cache, which is as a new one then.
void lm_cache_clear(struct lm_cache *cache);
// Releases the arrays of a cache, and clears the structure.
void lm_cache_free(struct lm_cache *cache);
// Appends k[0] and v[0] (batch, kv_heads, T, head_dim) of one layer and sets k and v to all positions, as
// views of the cache's arrays. The cache's length stays until lm_cache_advance. Returns false after an
// error.
bool lm_cache_append(struct lm_cache *cache, int layer, lm_heads k, lm_heads v);
// Returns the number of positions for which there is room: INT64_MAX if nothing is kept by position.
int64_t lm_cache_room(struct lm_cache *cache);
// Makes room for at least `length` positions, and returns lm_cache_room; 0 after an error.
int64_t lm_cache_reserve(struct lm_cache *cache, int64_t length);
// Makes a cache like `like`, with the arrays of the list, in the order of lm_cache_arrays, retained,
// instead of its own. Returns false if memory runs out.
bool lm_cache_like(struct lm_cache *cache, const struct lm_cache *like, const zl_array *list);
// Replaces the arrays by those of the list, in the same order, or by none if it is NULL. Neither releases the
// old arrays nor retains the new ones.
void lm_cache_swap(struct lm_cache *cache, const zl_array *list);
// Replaces the state of a layer of linear attention. Returns false if an array is NULL, after an error.
bool lm_cache_keep(struct lm_cache *cache, int layer, zl_array recent, zl_array state);
// Increases the length by `count` positions.
void lm_cache_advance(struct lm_cache *cache, int64_t count);
// Returns whether layers keep a recurrent state, which cannot be trimmed to an earlier position.
bool lm_cache_is_recurrent(const struct lm_cache *cache);
// Drops the positions from `length` on. A recurrent cache takes its states from `past`, a copy made at that
// length; NULL stands for empty states, and for no states in other caches.
void lm_cache_trim(struct lm_cache *cache, int64_t length, const struct lm_cache *past);
// Makes a new cache that shares the arrays of `from`, or if `states_only` only the states, which trimming
// needs. Returns false if memory runs out.
bool lm_cache_copy(struct lm_cache *to, const struct lm_cache *from, bool states_only);
// Joins the caches of `count` sequences to one, in which all sequences end at the same position. Returns
// false after an error.
bool lm_cache_join(struct lm_cache *all, const struct lm_cache *const *one, int count);
// Fills an empty cache, of as many layers and bits, with that of the row-th sequence of a batch, which has
// `length` positions. Returns false after an error.
bool lm_cache_part(struct lm_cache *one, const struct lm_cache *all, int row, int64_t length);
// Writes the arrays of the cache to `list`, at most LM_CACHE_ARRAYS per layer, and returns how many there
// are. They are not retained.
int  lm_cache_arrays(const struct lm_cache *cache, zl_array *list);

// lm_delta.c ------------------------------------------------------------------------------------------------

// A layer of linear attention by the gated delta rule, with a short convolution before it.
struct lm_delta {
    struct lm_linear in[4];  // qkvz and ba if projections are fused, otherwise qkv, z, b and a
    struct lm_linear output;
    zl_array convolution;    // (width, channels)
    zl_array norm;           // of the result of each head
    zl_array rate, bias;     // A_log and dt_bias, which determine the decay of the state
};
// Loads the tensors of "LAYER.linear_attn". Returns false after an error.
bool lm_delta_load(struct lm_delta *delta, struct lm_weights *weights, const struct lm_config *config,
                   const char *layer, struct lm_error *error);
// Releases the arrays, and clears the structure.
void lm_delta_free(struct lm_delta *delta);
// Returns the result of the layer for x (batch, T, hidden), and replaces its state by that after these
// tokens: the last inputs of the convolution (batch, width - 1, channels) and the state of the rule (batch,
// value_heads, key_dim, value_dim); both are NULL at the start.
zl_array lm_delta_apply(const struct lm_delta *delta, const struct lm_config *config, zl_array x,
                        zl_array state[2]);

// lm_network.c ----------------------------------------------------------------------------------------------

struct lm_mlp {
    struct lm_linear gate, up, down;
    struct lm_linear gate_up; // one matrix with the rows of gate and up; empty if they are not joined
};

struct lm_layer {
    zl_array attention_norm, mlp_norm;
    struct lm_linear q, k, v, output;
    struct lm_linear qkv; // like gate_up of an MLP
    zl_array q_norm, k_norm; // NULL: none
    struct lm_delta delta;   // in a layer of linear attention, instead of q, k, v and output
    struct lm_mlp mlp;       // in a sparse layer, a stack of experts
    struct lm_linear router, shared_gate;
    struct lm_mlp shared; // its matrices are NULL if there is none
};

struct lm_network {
    struct lm_config config;
    struct lm_weights *weights;
    struct lm_linear embedding, head; // head is empty if it is tied to the embedding
    zl_array norm, frequencies;       // frequencies: NULL if theta determines them
    struct lm_layer *layer;
    struct {
        // prefixes of the names of tensors: of the layers, and of the output matrix
        const char *text, *head;
    } prefix;
    bool centred; // the norms in the file are stored less 1
};

// Opens a folder or a GGUF file. Returns false, with an error and an empty network, if that fails. The
// caller frees the network with lm_network_free.
bool lm_network_open(struct lm_network *network, const char *folder, struct lm_error *error);
// Makes a network with random weights from a config.json or a folder with one, otherwise like
// lm_network_open.
bool lm_network_random(struct lm_network *network, const char *path, int64_t seed, struct lm_error *error);
// Frees a network with its configuration and weights, and clears it.
void lm_network_free(struct lm_network *network);

// Returns the result of the first `layers` layers for ids (batch, T): (batch, T, hidden). If that is all
// layers, it is the input of the last norm. With a cache, which may be NULL, the ids follow those it holds,
// and it advances.
zl_array lm_hidden(const struct lm_network *network, zl_array ids, int layers, struct lm_cache *cache);
// Returns the logits (..., vocabulary) of a result of all layers.
zl_array lm_logits(const struct lm_network *network, zl_array hidden);

// lm_view.c -------------------------------------------------------------------------------------------------

// Returns [start, stop) of one axis, counted from the first, and all of the other axes.
zl_array lm_slice(zl_array a, int axis, int64_t start, int64_t stop);

// lm_model.c ------------------------------------------------------------------------------------------------

// Returns the network of a model, which the model owns.
const struct lm_network *lm_network_of(zl_model model);

// lm_rope.c -------------------------------------------------------------------------------------------------

// Returns the wave lengths of scaled rotary positions, float32 (dims / 2), retained; NULL if theta and
// factor alone determine them.
zl_array lm_rope_frequencies(const struct lm_rope *rope);
// Returns the unscaled wave lengths, each times one of the factors (dims / 2), retained.
zl_array lm_rope_stretched(const struct lm_rope *rope, zl_array factors);

// lm_sampler.c ----------------------------------------------------------------------------------------------

// The state of drawing ids, on the device.
struct lm_sampler {
    zl_sampling options;
    zl_array key;     // for the next random numbers
    // int32 (penalty_window): ids that penalties count, -1 for empty places; NULL: there are no penalties
    zl_array history;
    zl_array bias;    // float32 (vocabulary); NULL: none
};
// Makes a sampler. Copies the options; NULL stands for always taking the most likely id. Returns false after
// an error, for example if options are out of range.
bool lm_sampler_new(struct lm_sampler *sampler, const zl_sampling *options, int vocabulary,
                    struct lm_error *error);
// Releases the arrays of a sampler, and clears it.
void lm_sampler_free(struct lm_sampler *sampler);
// Copies a sampler; both share the arrays.
void lm_sampler_copy(struct lm_sampler *to, const struct lm_sampler *from);
// Clears the history of ids.
void lm_sampler_forget(struct lm_sampler *sampler);
// Appends ids, int32 (count), to the history that penalties count.
void lm_sampler_see(struct lm_sampler *sampler, zl_array ids);
enum { LM_SAMPLER_ARRAYS = 2 };
// Writes the arrays that drawing changes, at most LM_SAMPLER_ARRAYS, to the list, and returns how many.
int  lm_sampler_arrays(const struct lm_sampler *sampler, zl_array *list);
// Replaces these arrays by those of the list, which are retained, and returns how many.
int  lm_sampler_put(struct lm_sampler *sampler, const zl_array *list);
// Returns whether the sampler always takes the most likely id, without penalties or biases.
bool lm_sampler_is_plain(const struct lm_sampler *sampler);
// Returns the most likely ids, int32 (count), of logits (count, vocabulary), and sets *log_probability to
// the logarithms of their probabilities (count), retained. Returns NULL after an error.
zl_array lm_sample_plain(zl_array logits, zl_array *log_probability);
// Returns the next id, int32 (1), drawn from logits (vocabulary), and sets *log_probability (1), retained,
// to the logarithm of its probability before sampling options changed anything. Returns NULL after an
// error.
zl_array lm_sample(struct lm_sampler *sampler, zl_array logits, zl_array *log_probability);

// lm_decode.c -----------------------------------------------------------------------------------------------

// Decodes one token per step for each of `count` sequences that share a cache, as turns of a loop
// (zl_loop): the ids drawn last are the model's input, and the next ids are drawn. While the loop runs it
// owns the arrays of the cache and of the samplers.
struct lm_decode {
    const struct lm_network *network;
    struct lm_cache *cache;
    struct lm_sampler *const *sampler; // one per sequence
    int count;
    zl_loop loop; // NULL: no loop runs
    int64_t turns, room; // turns that were started; positions for which there is room
};
// Draws an id from each row of logits (count, vocabulary). Returns them, int32 (count), lent, and sets
// *log_probability (count), retained; NULL after an error.
zl_array lm_decode_draw(struct lm_sampler *const *sampler, int count, zl_array logits,
                        zl_array *log_probability);
// Starts a step. *next and *probability are the ids drawn last and their logarithms, (count), or NULL while
// a loop runs. Sets *id and *log_probability to those drawn before this step, which the caller then owns.
// Returns false after an error.
bool lm_decode_step(struct lm_decode *decode, zl_array *next, zl_array *probability, zl_array *id,
                    zl_array *log_probability);
// Ends the loop, if one runs: returns the arrays to the cache and the samplers, and sets *next and
// *probability to those drawn last. Returns false after an error; the cache has no arrays if a step failed.
bool lm_decode_end(struct lm_decode *decode, zl_array *next, zl_array *probability);

// lm_sequence.c ---------------------------------------------------------------------------------------------

enum { LM_PAST_MOST = 4 };

struct zl_sequence_ {
    const struct lm_network *network;
    struct lm_cache cache; // without arrays while the sequence is joined with others in its batch
    struct lm_sampler sampler;
    int chunk;
    int32_t *ids;                       // of the prompt, and those returned so far
    int64_t length, room;               // both in ids
    struct lm_cache past[LM_PAST_MOST]; // states at earlier lengths, ascending; for recurrent caches
    int pasts;
    // (1): drawn and not returned yet; NULL: none, or in the joined cache of a batch, or in the loop
    zl_array next, next_probability;
    struct lm_sampler *own_sampler[1];
    struct lm_decode decode;
    zl_array *list;                  // room for arrays that are evaluated together
    zl_batch batch;                  // NULL: in no batch
};

// Computes the prompt, if need be, and draws the first id after it. Returns false after an error.
bool lm_sequence_ready(zl_sequence s, char *error, size_t error_bytes);
// Ends the sequence's loop, if one runs. Returns false after an error.
bool lm_sequence_settle(zl_sequence s);
// Drops all that was computed, after an error, so that it is computed again from the ids.
void lm_sequence_start_over(zl_sequence s);
// Appends an id that was drawn. Returns false if memory runs out.
bool lm_sequence_take(zl_sequence s, zl_token token);

// lm_batch.c ------------------------------------------------------------------------------------------------

// Gives each sequence its own cache again. A NULL batch is allowed. Returns false after an error.
bool lm_batch_apart(zl_batch batch);

#endif
