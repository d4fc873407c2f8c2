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

// Layers of linear attention by the gated delta rule: none; their projections in two matrices, rows grouped
// by key heads; each its own matrix. With them norms are zero-centred: the weight is added to 1.
enum lm_delta_kind { LM_DELTA_NONE, LM_DELTA_FUSED, LM_DELTA_PARTED };

// What the configurations of a model_type leave unsaid. A related architecture is one more row.
struct lm_family {
    const char *type;   // model_type of config.json
    bool qkv_bias;      // q, k and v have a bias
    bool qk_norm;       // q and k are normalised per head before their rotation
    bool experts;       // MLPs are mixtures of experts, where the configuration does not except a layer
    bool renormalise;   // the chosen experts' weights add up to 1
    bool shared_expert; // one more expert, behind a sigmoid gate, takes every token
    int router_bits;    // that routers keep when all is quantised to fewer; 0: they are matrices like others
    enum lm_delta_kind delta;
};

enum lm_rope_kind { LM_ROPE_DEFAULT, LM_ROPE_LINEAR, LM_ROPE_LLAMA3, LM_ROPE_YARN };

// Rotary positions. Fields after `theta` are of the kinds that scale them.
struct lm_rope {
    enum lm_rope_kind kind;
    int dims; // features of a head that are rotated, from the first
    double theta, factor;
    double low_frequency, high_frequency; // llama3
    double beta_fast, beta_slow;          // YaRN
    double magnitude;                     // YaRN: what q and k are multiplied by
    int64_t original;                     // positions that the model was trained on
};

struct lm_config {
    const struct lm_family *family;
    int hidden, layers, heads, kv_heads, head_dim, ffn, vocabulary;
    double eps;
    int64_t positions; // that the model was made for
    bool tied;         // the matrix of the logits is the embedding
    bool qkv_bias, output_bias, mlp_bias;
    bool output_gate; // q has as many features more, whose sigmoid multiplies what the heads give
    struct lm_rope rope;
    int64_t window; // keys that a query of a sliding layer sees; 0: all
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
    text_json_value root;         // the whole file, which quantisation is looked up in
    text_json_value quantization; // of MLX's checkpoints; NULL: none
};

// Reads folder/config.json, of the hub's or transformers 5's dialect, and the end tokens of
// generation_config.json. Fields that are unknown and set are refused: they could change what the model
// computes.
bool lm_config_read(struct lm_config *config, const char *folder, struct lm_error *error);
// The same of a parsed config.json alone, which it takes over; errors begin with `path`.
bool lm_config_of(struct lm_config *config, text_json_value root, const char *path, struct lm_error *error);
void lm_config_free(struct lm_config *config);

// lm_weights.c ----------------------------------------------------------------------------------------------

// The tensors of a checkpoint: model.safetensors, or the parts that model.safetensors.index.json names. They
// are mapped.
struct lm_weights;
struct lm_weights *lm_weights_open(const char *folder, struct lm_error *error); // NULL after an error
// The same from tensors that are added one by one; lm_weights_finish comes last. label: what errors begin
// with. Names are copied.
struct lm_weights *lm_weights_new(const char *label); // NULL: out of memory
bool     lm_weights_add(struct lm_weights *weights, const char *name, zl_array a);
void     lm_weights_finish(struct lm_weights *weights, zl_dtype dtype);
// Weights that are drawn when they are taken, floats of a dtype or words of quantised matrices. NULL: out of
// memory.
struct lm_weights *lm_weights_random(int64_t seed, zl_dtype dtype, bool quantized);
void     lm_weights_free(struct lm_weights *weights);
// that the model is computed in; ZL_DTYPE_COUNT: of its embedding
zl_dtype lm_weights_dtype(const struct lm_weights *weights);
bool     lm_weights_has(const struct lm_weights *weights, const char *name);
// of name.part; 0: it is not there
int64_t  lm_weights_columns(const struct lm_weights *weights, const char *name, const char *part);
// whether name.part is of that
bool     lm_weights_is(const struct lm_weights *weights, const char *name, const char *part, zl_dtype dtype);
// Returns a tensor and marks it as used; NULL and an error if it is not there or has another shape, in which
// -1 fits all.
zl_array lm_weights_take(struct lm_weights *weights, const char *name, zl_shape shape,
                         struct lm_error *error);
// Fails if a tensor was not taken that no architecture leaves out: the model would not be what its file says.
bool     lm_weights_all_used(const struct lm_weights *weights, bool tied, struct lm_error *error);
// in the list of those taken; retains it
void     lm_weights_replace(struct lm_weights *weights, zl_array tensor, zl_array by);
// of those taken; NULL past the last
zl_array lm_weights_at(const struct lm_weights *weights, int index, const char **name);
size_t   lm_weights_bytes(const struct lm_weights *weights); // of the tensors that were taken

// lm_gguf.c -------------------------------------------------------------------------------------------------

bool lm_is_gguf(const char *path); // whether it is a file that begins as one
// Reads configuration and tensors of a file. False after an error, with what is in *config and *weights to be
// freed.
bool lm_gguf_open(const char *path, struct lm_config *config, struct lm_weights **weights,
                  struct lm_error *error);

// lm_linear.c -----------------------------------------------------------------------------------------------

// x W^T + bias, of a float matrix (outputs, inputs) or one that MLX quantised. A stack of experts has one
// axis more.
struct lm_linear {
    zl_array weight, scales, biases, bias; // scales: NULL for floats; bias: NULL for none
    int group_size, bits;
    const char *mode;
    zl_dtype rows; // of what lm_linear_rows gives; ZL_DTYPE_COUNT: that of the matrix or its scales
};

// Loads name.weight, and what quantisation added; experts 0: a matrix, else a stack of so many.
bool lm_linear_load(struct lm_linear *linear, struct lm_weights *weights, const struct lm_config *config,
                    const char *name, int experts, int outputs, int inputs, bool bias,
                    struct lm_error *error);
// Loads `part` of all experts of an MLP as one stack, which MLX's files have; those of the hub have them one
// by one.
bool lm_linear_load_experts(struct lm_linear *linear, struct lm_weights *weights,
                            const struct lm_config *config, const char *mlp, const char *part, int outputs,
                            int inputs, struct lm_error *error);
// Joins mlp.experts.E.part.weight of all experts, retained; outputs and inputs -1: of any size.
zl_array lm_linear_stack(struct lm_weights *weights, const char *mlp, const char *part, int experts,
                         int outputs, int inputs, struct lm_error *error);
void lm_linear_free(struct lm_linear *linear);
enum { LM_JOIN_MOST = 3 };
// Makes one matrix of `count` that multiply the same, if they lie alike: the rows of the first come first,
// and each becomes a view of its rows, also among the weights. They are joined when they are first used.
// False after an error; *all is empty where they cannot be joined.
bool lm_linear_join(struct lm_linear *all, struct lm_linear *const *each, int count,
                    struct lm_weights *weights);
zl_array lm_linear_apply(const struct lm_linear *linear, zl_array x);
// x (N, 1, 1, inputs) times the matrices that `chosen` (N, k) names: (N, k, 1, outputs).
zl_array lm_linear_apply_chosen(const struct lm_linear *linear, zl_array x, zl_array chosen);
zl_array lm_linear_rows(const struct lm_linear *linear, zl_array ids); // rows of the matrix: an embedding

// lm_cache.c ------------------------------------------------------------------------------------------------

enum { LM_CACHE_PAGE = 256 }; // positions by which a cache grows

// Keys or values (batch, kv_heads, capacity, head_dim), or their codes with scales and biases, as zl_quantize
// gives them.
typedef zl_array lm_heads[3];

// What one layer keeps of a sequence: keys and values of attention; of linear attention what lm_delta_apply
// gives. NULL: nothing yet.
struct lm_kept {
    lm_heads keys, values;
    zl_array recent, state;
};

// What a sequence has seen, or sequences of one batch.
struct lm_cache {
    int layers;
    struct lm_kept *layer;
    int64_t length; // in positions, of all layers
    int bits;       // of the codes of keys and values; 0: they are as they were computed
    int group_size; // of codes
    // int32 (batch): how many of the positions come before each sequence, and are not seen; NULL: none
    zl_array skip;
    // int32 (1): where the next position goes, of all there is room for, not `length`; NULL: behind `length`.
    // Not retained.
    zl_array at;
};
enum { LM_CACHE_ARRAYS = 6 }; // of a layer at most
bool lm_cache_new(struct lm_cache *cache, int layers);
// The same with codes of so many bits, 4 or 8, of heads of head_dim features; bits 0: none. False after an
// error.
bool lm_cache_quantized(struct lm_cache *cache, int layers, int bits, int head_dim, struct lm_error *error);
void lm_cache_free(struct lm_cache *cache);
// Appends k[0] and v[0] (batch, kv_heads, T, head_dim) of one layer and sets them to all there are, views of
// the cache's arrays. The cache's length stays until lm_cache_advance.
bool lm_cache_append(struct lm_cache *cache, int layer, lm_heads k, lm_heads v);
// Returns for how many positions there is room: INT64_MAX where nothing is kept by position. lm_cache_reserve
// makes room for `length` before, and returns 0 after an error.
int64_t lm_cache_room(struct lm_cache *cache);
int64_t lm_cache_reserve(struct lm_cache *cache, int64_t length);
// Makes a cache that has arrays where `like` has some: those of the list, in the order of lm_cache_arrays,
// retained.
bool lm_cache_like(struct lm_cache *cache, const struct lm_cache *like, const zl_array *list);
// Puts the list in the place of the arrays, in the same order. What was there is not released, what is there
// then not retained.
void lm_cache_swap(struct lm_cache *cache, const zl_array *list);
bool lm_cache_keep(struct lm_cache *cache, int layer, zl_array recent, zl_array state); // of linear attention
void lm_cache_advance(struct lm_cache *cache, int64_t count);
// Whether layers keep a state that does not say what it was earlier: such a cache cannot be trimmed.
bool lm_cache_is_recurrent(const struct lm_cache *cache);
// Forgets the positions from `length` on. `past`, what a recurrent cache was at that length, gives its
// states; NULL of others.
void lm_cache_trim(struct lm_cache *cache, int64_t length, const struct lm_cache *past);
// Makes a new cache that shares the arrays of `from`; states_only: only what trimming needs of it.
bool lm_cache_copy(struct lm_cache *to, const struct lm_cache *from, bool states_only);
// Makes one cache of those of `count` sequences, whose ends come to lie side by side.
bool lm_cache_join(struct lm_cache *all, const struct lm_cache *const *one, int count);
// Makes the cache of the row-th sequence of a batch, which has `length` positions.
bool lm_cache_part(struct lm_cache *one, const struct lm_cache *all, int row, int64_t length);
// Writes the arrays of the cache to `list`, at most LM_CACHE_ARRAYS for each layer, to be evaluated together
// with a result.
int  lm_cache_arrays(const struct lm_cache *cache, zl_array *list);

// lm_delta.c ------------------------------------------------------------------------------------------------

// Linear attention by the gated delta rule, behind a short convolution.
struct lm_delta {
    struct lm_linear in[4];  // qkvz and ba of fused projections; qkv, z, b and a of others
    struct lm_linear output;
    zl_array convolution;    // (width, channels)
    zl_array norm;           // of each head's result
    zl_array rate, bias;     // A_log and dt_bias: how fast the state decays
};
// Loads the tensors of "LAYER.linear_attn".
bool lm_delta_load(struct lm_delta *delta, struct lm_weights *weights, const struct lm_config *config,
                   const char *layer, struct lm_error *error);
void lm_delta_free(struct lm_delta *delta);
// x (batch, T, hidden). state is what the layer kept of the tokens before, and becomes what it keeps now: the
// last inputs of its convolution (batch, width - 1, channels) and the state of the rule (batch, value_heads,
// key_dim, value_dim); NULL at the start.
zl_array lm_delta_apply(const struct lm_delta *delta, const struct lm_config *config, zl_array x,
                        zl_array state[2]);

// lm_network.c ----------------------------------------------------------------------------------------------

struct lm_mlp {
    struct lm_linear gate, up, down;
    struct lm_linear gate_up; // both as one matrix, of which they are rows; empty where they are not joined
};

struct lm_layer {
    zl_array attention_norm, mlp_norm;
    struct lm_linear q, k, v, output;
    struct lm_linear qkv; // as gate_up of an MLP
    zl_array q_norm, k_norm; // NULL: none
    struct lm_delta delta;   // instead of these, of a layer of linear attention
    struct lm_mlp mlp;       // of a sparse layer, a stack of experts
    struct lm_linear router, shared_gate;
    struct lm_mlp shared; // its matrices are NULL where there is none
};

struct lm_network {
    struct lm_config config;
    struct lm_weights *weights;
    struct lm_linear embedding, head; // head is empty where it is tied to the embedding
    zl_array norm, frequencies;       // frequencies: NULL where theta says them
    struct lm_layer *layer;
    struct {
        // what the names of tensors begin with: of the layers, and of the matrix of the logits
        const char *text, *head;
    } prefix;
    bool centred; // the file's norms are less 1
};

bool lm_network_open(struct lm_network *network, const char *folder, struct lm_error *error);
// The same with random weights; path: of a config.json or its folder.
bool lm_network_random(struct lm_network *network, const char *path, int64_t seed, struct lm_error *error);
void lm_network_free(struct lm_network *network);

// The input of layer `layers` from ids (batch, T) of int32: (batch, T, hidden). All layers give what the last
// norm takes. With a cache the ids follow what it holds, and it advances.
zl_array lm_hidden(const struct lm_network *network, zl_array ids, int layers, struct lm_cache *cache);
zl_array lm_logits(const struct lm_network *network, zl_array hidden); // (..., vocabulary)

// lm_view.c -------------------------------------------------------------------------------------------------

// of an axis counted from the first; all of the others
zl_array lm_slice(zl_array a, int axis, int64_t start, int64_t stop);

// lm_model.c ------------------------------------------------------------------------------------------------

const struct lm_network *lm_network_of(zl_model model);

// lm_rope.c -------------------------------------------------------------------------------------------------

// The wave lengths of scaled rotary positions, float32 (dims / 2), retained; NULL where theta and factor say
// all.
zl_array lm_rope_frequencies(const struct lm_rope *rope);
// The plain ones, each times a factor (dims / 2); retained.
zl_array lm_rope_stretched(const struct lm_rope *rope, zl_array factors);

// lm_sampler.c ----------------------------------------------------------------------------------------------

// What drawing the next id depends on, kept on the device.
struct lm_sampler {
    zl_sampling options;
    zl_array key;     // of the next random number
    // ids that penalties count, int32 (penalty_window), -1 where there is none yet; NULL: there are no
    // penalties
    zl_array history;
    zl_array bias;    // float32 (vocabulary); NULL: none
};
bool lm_sampler_new(struct lm_sampler *sampler, const zl_sampling *options, int vocabulary,
                    struct lm_error *error);
void lm_sampler_free(struct lm_sampler *sampler);
void lm_sampler_copy(struct lm_sampler *to, const struct lm_sampler *from);
void lm_sampler_forget(struct lm_sampler *sampler);            // all ids that it saw
void lm_sampler_see(struct lm_sampler *sampler, zl_array ids); // ids int32 (count), for penalties
// The arrays that drawing changes, at most LM_SAMPLER_ARRAYS, into the list; and others in their place, which
// are retained.
enum { LM_SAMPLER_ARRAYS = 2 };
int  lm_sampler_arrays(const struct lm_sampler *sampler, zl_array *list);
int  lm_sampler_put(struct lm_sampler *sampler, const zl_array *list);
bool lm_sampler_is_plain(const struct lm_sampler *sampler); // takes the most likely id, whatever came before
// The most likely ids, int32 (count), of logits (count, vocabulary); *log_probability (count), retained, what
// they have.
zl_array lm_sample_plain(zl_array logits, zl_array *log_probability);
// The next id, int32 (1), drawn from logits (vocabulary); *log_probability (1), retained, its logarithm,
// before sampling changed anything.
zl_array lm_sample(struct lm_sampler *sampler, zl_array logits, zl_array *log_probability);

// lm_decode.c -----------------------------------------------------------------------------------------------

// Steps of one token for each of `count` sequences that share a cache, as turns of a loop (zl_loop): the ids
// that were drawn go into the model, the next are drawn. While the loop runs it has the arrays of the cache
// and of the samplers.
struct lm_decode {
    const struct lm_network *network;
    struct lm_cache *cache;
    struct lm_sampler *const *sampler; // of each sequence
    int count;
    zl_loop loop; // NULL: none runs
    int64_t turns, room; // turns that were started; positions that there is room for
};
// Draws from logits (count, vocabulary): int32 (count), lent; *log_probability (count), retained. NULL after
// an error.
zl_array lm_decode_draw(struct lm_sampler *const *sampler, int count, zl_array logits,
                        zl_array *log_probability);
// Starts a step. *next and *probability are what was drawn, (count), or NULL while a loop runs. *id and
// *log_probability, which are then the caller's, become what was drawn before this step. False after an
// error.
bool lm_decode_step(struct lm_decode *decode, zl_array *next, zl_array *probability, zl_array *id,
                    zl_array *log_probability);
// Ends the loop, if one runs: the cache and the samplers have their arrays again, *next and *probability are
// what was drawn.
bool lm_decode_end(struct lm_decode *decode, zl_array *next, zl_array *probability);

// lm_sequence.c ---------------------------------------------------------------------------------------------

enum { LM_PAST_MOST = 4 };

struct zl_sequence_ {
    const struct lm_network *network;
    struct lm_cache cache; // empty while the sequence is joined with others in its batch
    struct lm_sampler sampler;
    int chunk;
    int32_t *ids;                       // of the prompt, and those that were returned
    int64_t length, room;               // of ids
    struct lm_cache past[LM_PAST_MOST]; // states at earlier lengths, in their order; of recurrent caches
    int pasts;
    // (1), drawn and not returned yet; NULL: none, or in the joined batch, or in the loop
    zl_array next, next_probability;
    struct lm_sampler *own_sampler[1];
    struct lm_decode decode;
    zl_array *list;                  // room for what is evaluated together
    zl_batch batch;                  // NULL: none
};

// Computes the prompt, if need be, until there is an id that was drawn. False after an error.
bool lm_sequence_ready(zl_sequence s, char *error, size_t error_bytes);
bool lm_sequence_settle(zl_sequence s); // ends the loop, if one runs
bool lm_sequence_take(zl_sequence s, zl_token token); // appends an id that was drawn; false: out of memory

// lm_batch.c ------------------------------------------------------------------------------------------------

// gives each sequence its own cache again; NULL: nothing to do. False after an error
bool lm_batch_apart(zl_batch batch);

#endif
