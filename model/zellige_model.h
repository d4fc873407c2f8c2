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
// thread that first uses them. NULL after an error.
ZL_API zl_model zl_model_open(const char *folder, char *error, size_t error_bytes);
// A model of random weights, the same for the same seed, of a config.json or a folder with one: to measure
// what its shapes cost.
ZL_API zl_model zl_model_random(const char *config, int64_t seed, char *error, size_t error_bytes);
ZL_API void     zl_model_close(zl_model model); // after its sequences

typedef struct {
    const char *type;        // "qwen3"
    int layers, hidden, vocabulary;
    int heads, kv_heads, head_dim;
    int64_t positions;       // that the model was made for
    int64_t parameters;      // elements of its weights; of quantised ones, those that they stand for
    size_t bytes;            // of its weights
    int bos;                 // -1: none
    const int *eos;          // any of these ends a text
    int eos_count;
    // that a token is multiplied by: of experts those that are chosen, and rows of an embedding are not
    int64_t active_parameters;
    size_t active_bytes;       // of these
    size_t position_bytes;     // that a cache holds for each position
    zl_dtype dtype;            // that it is computed in
} zl_model_info;
ZL_API zl_model_info zl_model_about(zl_model model); // valid as long as the model

// Logits of ids (batch, T), integers with nothing before them: (batch, T, vocabulary), lazy. NULL after an
// error: zl_error().
ZL_API zl_array zl_model_logits(zl_model model, zl_array ids);
// The same with keys and values as codes of kv_bits bits, as those of a sequence may be: how much that
// changes.
ZL_API zl_array zl_model_logits_rounded(zl_model model, zl_array ids, int kv_bits, char *error,
                                        size_t error_bytes);
// Returns the input of layer `layer` for such ids, (batch, T, hidden): the embeddings for layer 0, the input
// of the last norm if `layer` is the number of layers.
ZL_API zl_array zl_model_hidden(zl_model model, zl_array ids, int layer);

// The index-th tensor of the checkpoint that the model uses, with its name in the file; both are the model's.
// NULL past the last.
ZL_API zl_array zl_model_parameter(zl_model model, int index, const char **name);

// How a checkpoint is quantised; zero-initialised, or NULL: affine, 4 bits in groups of 64.
typedef struct {
    const char *mode;  // "affine", "mxfp4", "mxfp8", "nvfp4"; NULL: affine
    int bits;          // of affine numbers: 2, 3, 4, 5, 6 or 8; 0: what the mode has
    int group_size;    // of affine numbers: 32, 64 or 128; 0: what the mode has
    // a rule that gives some matrices more bits: "mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6"; NULL:
    // none
    const char *mixed;
    // bytes of the checkpoint; false gives up; NULL: none
    bool (*progress)(void *context, int64_t done, int64_t all);
    void *context;
} zl_quantize_options;
// Quantises the matrices of a folder into a folder of its own, as mlx-lm converts them: config.json says how,
// and the files of the tokenizer are copied. `out` must not be there, or be empty; it gets its name when it
// is complete. False after an error.
ZL_API bool zl_model_quantize(const char *folder, const char *out, const zl_quantize_options *options,
                              char *error, size_t error_bytes);

// How ids are drawn. Of a zero structure: the most likely id each time.
typedef struct {
    double temperature;        // 0: the most likely id
    int top_k;                 // only the k most likely; 0: all
    double top_p;              // only the most likely that together have this probability; 0 or 1: all
    double min_p;              // only those at least this share as likely as the most likely; 0: all
    double xtc_probability;    // how often all likely ids but the least likely one are left out,
    double xtc_threshold;      // of those that are at least this likely
    // logits of ids in the history are divided by it, or multiplied if negative; 0 or 1: none
    double repetition_penalty;
    double presence_penalty;   // subtracted once from logits of ids in the history,
    double frequency_penalty;  // and for each time that they are there
    int penalty_window;        // ids of the history, the prompt's included; 0: 64
    const int *bias_id;        // ids whose logits have something added,
    const double *bias;        // and what
    int biases;
    int64_t seed;              // the same seed gives the same ids; negative: from the clock
} zl_sampling;

// Starts a sequence behind a prompt of at least one id. NULL options: the most likely ids. chunk: ids of the
// prompt that are computed at once (0: 2048). NULL after an error. Nothing of the prompt is computed yet.
typedef struct {
    const zl_sampling *sampling; // copied
    int chunk;
    // keys and values are kept as codes of 4 or 8 bits, in groups of 64 or 32; 0: as they were computed
    int kv_bits;
} zl_sequence_options;
ZL_API zl_sequence zl_sequence_start(zl_model model, const int32_t *ids, int64_t count,
                                     const zl_sequence_options *options, char *error, size_t error_bytes);
ZL_API void        zl_sequence_close(zl_sequence sequence);

// Computes the next chunk of the prompt and sets *done to how many of its ids are computed: all but the last
// one, which zl_sequence_next computes. Returns false when there is nothing more to do, and after an error,
// which `error` then holds; it is empty otherwise.
ZL_API bool zl_sequence_prefill(zl_sequence sequence, int64_t *done, char *error, size_t error_bytes);

typedef struct {
    int32_t id;
    float log_probability; // of the model itself, before sampling options changed anything
} zl_token;
// Draws the next id, computing first what is left of the prompt. The step after it is already under way when
// it returns. False after an error.
ZL_API bool zl_sequence_next(zl_sequence sequence, zl_token *token, char *error, size_t error_bytes);
// Appends ids that follow what was drawn, such as the next question of a talk. The id that was drawn ahead is
// forgotten.
ZL_API bool zl_sequence_append(zl_sequence sequence, const int32_t *ids, int64_t count, char *error,
                               size_t error_bytes);
// Forgets the ids from `length`, which is at least 1, on. What the model computed of those before stays,
// unless it has layers of linear attention, whose states do not say what they were: those go back to the last
// of a few that were kept, where ids were appended and where prompts ended, and the ids behind it are
// computed again.
ZL_API bool zl_sequence_trim(zl_sequence sequence, int64_t length, char *error, size_t error_bytes);
ZL_API int64_t zl_sequence_length(zl_sequence sequence); // ids of the prompt and those drawn
// Returns another sequence that has seen and drawn the same, and goes on by itself: a snapshot. It shares all
// arrays; one that is then written is copied once. NULL after an error.
ZL_API zl_sequence zl_sequence_copy(zl_sequence sequence, char *error, size_t error_bytes);

// Sequences of any lengths that are computed together, in one step of the model, each with its own options of
// sampling. They may join and leave at any time, and be used by themselves in between, which costs a copy of
// what is kept of all of them.
ZL_API zl_batch zl_batch_new(zl_model model); // NULL: out of memory
ZL_API bool     zl_batch_add(zl_batch batch, zl_sequence sequence, char *error, size_t error_bytes);
ZL_API void     zl_batch_remove(zl_batch batch, zl_sequence sequence); // closing a sequence also removes it
ZL_API int      zl_batch_count(zl_batch batch);
ZL_API void     zl_batch_close(zl_batch batch); // its sequences stay open
// Draws the next id of each sequence: tokens[i] is that of the i-th of those that were added and are still
// there. Prompts that are not computed yet are computed first, one after the other. False after an error.
ZL_API bool zl_batch_next(zl_batch batch, zl_token *tokens, char *error, size_t error_bytes);

// Text ------------------------------------------------------------------------------------------------------
//
// What is allocated here is freed with free(). Text is UTF-8 and may have NULs inside. Threads may share a
// tokenizer.

typedef struct zl_tokenizer_ *zl_tokenizer;
typedef struct zl_reader_ *zl_reader;

// Opens the tokenizer of a model's folder or GGUF file, a tokenizer.json or a rank file. NULL after an error.
ZL_API zl_tokenizer zl_tokenizer_open(const char *path, char *error, size_t error_bytes);
ZL_API void         zl_tokenizer_close(zl_tokenizer tokenizer); // after its readers
ZL_API int          zl_tokenizer_count(zl_tokenizer tokenizer); // ids are below it
// Returns the ids of a text; special: with those that the tokenizer puts around one, such as
// <|begin_of_text|>. NULL after an error.
ZL_API int32_t *zl_tokenizer_encode(zl_tokenizer tokenizer, const char *text, size_t bytes, bool special,
                                    int64_t *count, char *error, size_t error_bytes);
// Returns a conversation as the model's chat template writes it. json: an object with "messages", a list of
// objects with "role" and "content", and other variables of the template such as "tools" or
// "enable_thinking". NULL after an error.
ZL_API char *zl_tokenizer_chat(zl_tokenizer tokenizer, const char *json, size_t json_bytes, size_t *bytes,
                               char *error, size_t error_bytes);

// Reads ids one by one as text, whole characters at a time; special: special tokens too. NULL: out of memory.
ZL_API zl_reader   zl_reader_new(zl_tokenizer tokenizer, bool special);
ZL_API void        zl_reader_free(zl_reader reader);
// Returns what is complete with this id, and, at the end, what is left: "" for nothing yet. It is valid until
// the next call.
ZL_API const char *zl_reader_read(zl_reader reader, int32_t id, size_t *bytes, char *error,
                                  size_t error_bytes);
ZL_API const char *zl_reader_end(zl_reader reader, size_t *bytes, char *error, size_t error_bytes);

#ifdef __cplusplus
}
#endif

#endif
