// zellige_model.h - language models: open a checkpoint, compute its logits, generate text.
//
//     zl_model model = zl_model_open("Qwen3-0.6B", error, sizeof error);
//     zl_sequence s = zl_sequence_start(model, ids, count, NULL, error, sizeof error);
//     zl_token next;
//     while (zl_sequence_next(s, &next, error, sizeof error))
//         …
//
// A model may be shared by threads; a sequence belongs to one. Functions that may fail return NULL or false
// and leave a message in `error`, which names the file, the field or the tensor where one is at fault.

#ifndef ZELLIGE_MODEL_H
#define ZELLIGE_MODEL_H

#include "zellige.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zl_model_ *zl_model;
typedef struct zl_sequence_ *zl_sequence;
typedef struct zl_batch_ *zl_batch;

// Opens a folder with config.json and safetensors, as Hugging Face's transformers or mlx-lm write it, or a
// GGUF file. The weights are mapped, keep their dtype or quantisation, and are on the default device of the
// thread that first uses them. Returns NULL after an error; otherwise the model is closed with
// zl_model_close.
ZL_API zl_model zl_model_open(const char *folder, char *error, size_t error_bytes);
// Returns a model with random weights, the same for the same seed, from a config.json or a folder with one,
// to measure what its shapes cost. Returns NULL after an error.
ZL_API zl_model zl_model_random(const char *config, int64_t seed, char *error, size_t error_bytes);
// Closes a model, after its sequences. NULL is allowed.
ZL_API void     zl_model_close(zl_model model);

typedef struct {
    const char *type;        // "qwen3"
    int layers, hidden, vocabulary;
    int heads, kv_heads, head_dim;
    int64_t positions;       // number of positions that the model was made for
    int64_t parameters;      // elements of its weights, counted before quantisation
    size_t bytes;            // of the weights
    int bos;                 // -1: none
    const int *eos;          // any of these ends a text
    int eos_count;
    // parameters in the matrices that one token is multiplied by: only chosen experts, no embedding rows
    int64_t active_parameters;
    size_t active_bytes;       // of active_parameters
    size_t position_bytes;     // of a cache, per position
    zl_dtype dtype;            // in which the model is computed
} zl_model_info;
// Returns facts about a model, whose pointers are valid as long as the model.
ZL_API zl_model_info zl_model_about(zl_model model);

// Returns the logits (batch, T, vocabulary) of integer ids (batch, T) that begin a text. They are lazy.
// Returns NULL after an error, which zl_error() tells.
ZL_API zl_array zl_model_logits(zl_model model, zl_array ids);
// Returns the logits with keys and values quantised to kv_bits bits, as those of a sequence may be, to
// measure how much that changes. Returns NULL after an error.
ZL_API zl_array zl_model_logits_rounded(zl_model model, zl_array ids, int kv_bits, char *error,
                                        size_t error_bytes);
// Returns the input of layer `layer` for such ids, (batch, T, hidden): the embeddings for layer 0, the
// input of the last norm if `layer` is the number of layers. Returns NULL after an error, such as that
// there is no such layer.
ZL_API zl_array zl_model_hidden(zl_model model, zl_array ids, int layer, char *error, size_t error_bytes);

// Returns the index-th tensor of the checkpoint that the model uses, and sets *name to its name in the
// file; the model owns both. Returns NULL past the last.
ZL_API zl_array zl_model_parameter(zl_model model, int index, const char **name);

// How a checkpoint is quantised. Zero-initialised, or NULL: affine, 4 bits in groups of 64.
typedef struct {
    const char *mode;  // "affine", "mxfp4", "mxfp8", "nvfp4"; NULL: affine
    int bits;          // in affine mode 2, 3, 4, 5, 6 or 8; 0: the mode's default
    int group_size;    // in affine mode 32, 64 or 128; 0: the mode's default
    // a rule that gives some matrices more bits: "mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6"; NULL:
    // none
    const char *mixed;
    // called with bytes of the checkpoint; returns false to cancel; NULL: none
    bool (*progress)(void *context, int64_t done, int64_t all);
    void *context;
} zl_quantize_options;
// Quantises the matrices of a checkpoint into a new folder, as mlx-lm does: its config.json says how, and
// the files of the tokenizer are copied. `out` must not exist, or be empty; it appears under its name when
// it is complete. Returns false after an error.
ZL_API bool zl_model_quantize(const char *folder, const char *out, const zl_quantize_options *options,
                              char *error, size_t error_bytes);

// How ids are drawn. Zero-initialised: the most likely id each time.
typedef struct {
    double temperature;        // 0, or less than 1e-6: the most likely id
    int top_k;                 // only the k most likely; 0: all
    double top_p;              // only the most likely that together have this probability; 0 or 1: all
    double min_p;              // only ids at least this fraction as likely as the most likely one; 0: all
    double xtc_probability;    // probability of dropping all likely ids except the least likely of them
    double xtc_threshold;      // probability from which an id counts as likely
    // logits of ids in the history are divided by it, or multiplied if they are negative; 0 or 1: none
    double repetition_penalty;
    double presence_penalty;   // subtracted once from the logits of ids in the history
    double frequency_penalty;  // subtracted for each occurrence in the history
    int penalty_window;        // length of the history, which includes the prompt; 0: 64
    const int *bias_id;        // ids to whose logits a bias is added
    const double *bias;        // the bias of each of these ids
    int biases;
    int64_t seed;              // the same seed gives the same ids; negative: seeded by the clock
} zl_sampling;

// How a sequence is computed. Zero-initialised, or NULL, for defaults.
typedef struct {
    const zl_sampling *sampling; // copied; NULL: the most likely ids
    int chunk;                   // ids of the prompt that are computed at once; 0: 2048
    // keys and values are quantised to 4 or 8 bits, in groups of 64 or 32; 0: as they were computed
    int kv_bits;
} zl_sequence_options;
// Starts a sequence with a prompt of at least one id, of which nothing is computed yet. Returns NULL after
// an error; otherwise the sequence is closed with zl_sequence_close, before its model.
ZL_API zl_sequence zl_sequence_start(zl_model model, const int32_t *ids, int64_t count,
                                     const zl_sequence_options *options, char *error, size_t error_bytes);
// Removes a sequence from its batch, waits for its work, and frees it. NULL is allowed.
ZL_API void        zl_sequence_close(zl_sequence sequence);

// Computes the next chunk of the prompt and sets *done to how many ids are computed by now. The last id of
// the prompt is left to zl_sequence_next. Returns false if there is nothing left to compute, and then
// `error` is empty, or after an error.
ZL_API bool zl_sequence_prefill(zl_sequence sequence, int64_t *done, char *error, size_t error_bytes);

typedef struct {
    int32_t id;
    float log_probability; // of the model itself, before sampling options changed it
} zl_token;
// Draws the next id, after computing what is left of the prompt. When it returns, the step after it is
// already running on the device. Returns false after an error; what was computed is then dropped, and the
// next call computes it again.
ZL_API bool zl_sequence_next(zl_sequence sequence, zl_token *token, char *error, size_t error_bytes);
// Appends ids to the sequence, such as the next question of a conversation. The id that was drawn ahead is
// dropped. Returns false after an error.
ZL_API bool zl_sequence_append(zl_sequence sequence, const int32_t *ids, int64_t count, char *error,
                               size_t error_bytes);
// Drops the ids after the first `length`, which is at least 1. The cache of the others stays, except in
// models with layers of linear attention, whose states cannot be trimmed: these go back to the last of a
// few states that are kept, from where ids were appended and where prompts ended, and the ids after that
// are computed again. Returns false after an error.
ZL_API bool zl_sequence_trim(zl_sequence sequence, int64_t length, char *error, size_t error_bytes);
// Returns the number of ids: those of the prompt, appended and drawn.
ZL_API int64_t zl_sequence_length(zl_sequence sequence);
// Returns a copy of a sequence, which then continues independently. It shares all arrays; an array that is
// written later is copied once. Returns NULL after an error.
ZL_API zl_sequence zl_sequence_copy(zl_sequence sequence, char *error, size_t error_bytes);

// A batch computes sequences of any lengths together, in one step of the model; each has its own sampling
// options. Sequences may join and leave at any time, and be used on their own in between, which costs a copy
// of all their caches.

// Returns an empty batch, to be closed with zl_batch_close, or NULL if memory runs out.
ZL_API zl_batch zl_batch_new(zl_model model);
// Adds a sequence, which must be of the batch's model, in no batch, and have the same kv_bits as the
// others. Returns false after an error.
ZL_API bool     zl_batch_add(zl_batch batch, zl_sequence sequence, char *error, size_t error_bytes);
// Removes a sequence, which stays open. Closing a sequence also removes it.
ZL_API void     zl_batch_remove(zl_batch batch, zl_sequence sequence);
// Returns the number of sequences.
ZL_API int      zl_batch_count(zl_batch batch);
// Closes a batch. Its sequences stay open. NULL is allowed.
ZL_API void     zl_batch_close(zl_batch batch);
// Draws the next id of each sequence and writes it to `tokens`, in the order in which the sequences were
// added. Prompts that are not computed yet are computed first, one at a time. Returns false after an error.
ZL_API bool zl_batch_next(zl_batch batch, zl_token *tokens, char *error, size_t error_bytes);

// Text ------------------------------------------------------------------------------------------------------
//
// What is allocated here is freed with free(). Text is UTF-8 and may have NULs inside. Threads may share a
// tokenizer.

typedef struct zl_tokenizer_ *zl_tokenizer;
typedef struct zl_reader_ *zl_reader;

// Opens the tokenizer of a model's folder or GGUF file, a tokenizer.json or a rank file. Returns NULL after
// an error.
ZL_API zl_tokenizer zl_tokenizer_open(const char *path, char *error, size_t error_bytes);
// Closes a tokenizer, after its readers. NULL is allowed.
ZL_API void         zl_tokenizer_close(zl_tokenizer tokenizer);
// Returns a number that all ids are below.
ZL_API int          zl_tokenizer_count(zl_tokenizer tokenizer);
// Returns the ids of a text and sets *count to how many there are. If `special`, the tokens that the
// tokenizer puts around a text, such as <|begin_of_text|>, are included. Returns NULL after an error.
ZL_API int32_t *zl_tokenizer_encode(zl_tokenizer tokenizer, const char *text, size_t bytes, bool special,
                                    int64_t *count, char *error, size_t error_bytes);
// Returns a conversation as the model's chat template writes it. `json` is an object with "messages", a
// list of objects with "role" and "content", and other variables of the template such as "tools" or
// "enable_thinking". Returns NULL after an error, for example if the template cannot be parsed.
ZL_API char *zl_tokenizer_chat(zl_tokenizer tokenizer, const char *json, size_t json_bytes, size_t *bytes,
                               char *error, size_t error_bytes);

// Returns a reader, which decodes ids to text one by one, whole characters at a time, or NULL if memory
// runs out. If `special`, special tokens are decoded too, otherwise left out. It is freed with
// zl_reader_free.
ZL_API zl_reader   zl_reader_new(zl_tokenizer tokenizer, bool special);
// Frees a reader. NULL is allowed.
ZL_API void        zl_reader_free(zl_reader reader);
// Returns the text that is complete with this id, "" if there is none yet, and sets *bytes. It is valid
// until the next call. Returns NULL after an error.
ZL_API const char *zl_reader_read(zl_reader reader, int32_t id, size_t *bytes, char *error,
                                  size_t error_bytes);
// Returns the text that is left at the end, otherwise like zl_reader_read.
ZL_API const char *zl_reader_end(zl_reader reader, size_t *bytes, char *error, size_t error_bytes);

#ifdef __cplusplus
}
#endif

#endif
