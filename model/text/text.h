// text.h - text that models read and write: JSON, Unicode, tokenizers, chat templates. Uses the public
// headers only.
//
// Functions that may fail return NULL or false and leave a message in `error`, which names the file and the
// field. Tokenizers and templates are not changed by use: any number of threads may share them, each with an
// encoder or a decoder of its own.

#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// text_json.c: the one reader of JSON outside src/ ----------------------------------------------------

// A value; NULL stands for an absent one, and every function accepts it.
typedef const struct text_json_ *text_json_value;

// Parses a strict JSON document in UTF-8, which the caller frees with text_json_free. Errors begin with
// `name`. Returns NULL after an error.
text_json_value text_json_parse(const char *text, size_t bytes, const char *name, char *error,
                                size_t error_bytes);
// Loads the document in a file; "-" is standard input. Otherwise like text_json_parse.
text_json_value text_json_load(const char *path, char *error, size_t error_bytes);
// Frees a document with all values in it. NULL is allowed.
void      text_json_free(text_json_value root);

// Returns the last member of that name; NULL if there is none.
text_json_value   text_json_get(text_json_value object, const char *key);
// Returns the index-th member of an object and sets *key to its name; both are NULL past the last.
text_json_value   text_json_member(text_json_value object, int index, const char **key);
// Returns the number of values in a list or an object; 0 for others.
int         text_json_count(text_json_value value);
// Returns the index-th value of a list; NULL past the last.
text_json_value   text_json_at(text_json_value list, int index);
// Return whether a value is a list; an object; true or false; the word null, which an absent value is not.
bool        text_json_is_list(text_json_value value);
bool        text_json_is_object(text_json_value value);
bool        text_json_is_bool(text_json_value value);
bool        text_json_is_null(text_json_value value);
// Returns whether the value is true.
bool        text_json_true(text_json_value value);
// Returns whether the value is a number without a fraction and an exponent that fits into 64 bits.
bool        text_json_is_integer(text_json_value value);
// Returns the number as an integer; 0 if the value is not a number or is too large.
int64_t     text_json_integer(text_json_value value);
// Returns the number; NaN if the value is not a number.
double      text_json_number(text_json_value value);
// Returns the text, valid as long as the document; NULL if the value is not a text.
const char *text_json_text(text_json_value value);
// Returns the bytes of the text, which may have NULs inside.
size_t      text_json_bytes(text_json_value value);
// Returns the bytes of a member's name.
size_t      text_json_key_bytes(text_json_value member);
// Returns the text of the member `key`; "" if there is none.
const char *text_json_text_of(text_json_value object, const char *key);
// Returns the number of the member `key`; NaN if there is none.
double      text_json_number_of(text_json_value object, const char *key);
// Returns the line of the document in which the value begins, from 1; 0 for NULL.
int         text_json_line(text_json_value value);
// Writes a value as JSON. Its members are indented by `indent` + 1 steps of four spaces.
void        text_json_write(FILE *out, text_json_value value, int indent);
// Writes a text as JSON, in quotes. Bytes that are not UTF-8 become U+FFFD.
void        text_json_write_text(FILE *out, const char *text, size_t bytes);

// Reads a whole file, with a NUL after it, which the caller frees with free. "-" is standard input. Returns
// NULL after an error.
char *text_read_file(const char *path, size_t *bytes, char *error, size_t error_bytes);

// text_tokenizer.c: byte-level BPE --------------------------------------------------------------------------

typedef const struct text_tokenizer *text_tokenizer;

// How a tokenizer is opened; zero-initialised, or NULL, for defaults.
struct text_open_options {
    const char *pattern; // for rank files, which have none: a name such as "qwen2", or a regular expression
};
// Opens a tokenizer.json, a GGUF file, a rank file (tiktoken), or a folder that holds a tokenizer.json;
// next to a tokenizer.json, tokenizer_config.json and chat_template.jinja are read too. Unknown fields that
// would change the ids are refused. Returns NULL after an error.
text_tokenizer text_tokenizer_open(const char *path, const struct text_open_options *options, char *error,
                                   size_t error_bytes);
// Closes a tokenizer. NULL is allowed.
void        text_tokenizer_close(text_tokenizer t);
// Returns a number that all ids are below.
int         text_token_count(text_tokenizer t);
// Returns the id of the token that decodes to the text, or -1 if there is none.
int         text_token_id(text_tokenizer t, const char *text);
// Returns the bytes that a token decodes to, which may be part of a character, and their number; NULL if
// there is no such token.
const char *text_token_text(text_tokenizer t, int id, size_t *bytes);
// Returns whether a token is special, such as <|begin_of_text|>.
bool        text_token_is_special(text_tokenizer t, int id);
// Return the text of the token that begins a text; of the one that ends a text. NULL: there is none.
const char *text_tokenizer_bos(text_tokenizer t);
const char *text_tokenizer_eos(text_tokenizer t);
// Returns the chat template; NULL if there is none.
const char *text_chat_template(text_tokenizer t);
// Returns the name of the index-th pattern for rank files; NULL past the last.
const char *text_pattern_name(int index);

// A list of ids that grows. Zero-initialised it is empty; the caller frees `id` with free.
struct text_ids {
    int32_t *id;
    size_t count, cap;
};

// An encoder of one thread, which caches pieces that it has seen.
struct text_encoder;
// Returns an encoder, to be freed with text_encoder_free before the tokenizer is closed, or NULL and an
// error.
struct text_encoder *text_encoder_new(text_tokenizer t, char *error, size_t error_bytes);
// Frees an encoder. NULL is allowed.
void text_encoder_free(struct text_encoder *e);

struct text_encode_options {
    bool add_special;   // add the tokens that the file puts around a text, such as <|begin_of_text|>
    bool plain_special; // encode special tokens inside the text as text
    // called from time to time, with bytes; returns false to cancel; NULL: none
    bool (*progress)(void *context, size_t done, size_t all);
    void *context;
};
// Appends the ids of the text, which may have NULs inside. Bytes that are not UTF-8 are encoded as they
// are. Returns false after an error.
bool text_encode(struct text_encoder *e, const char *text, size_t bytes,
                 const struct text_encode_options *options, struct text_ids *out, char *error,
                 size_t error_bytes);

// text_decode.c ---------------------------------------------------------------------------------------------

// Decodes tokens one by one to whole characters. Zero-initialised, except for the first two fields.
struct text_decoder {
    text_tokenizer tokenizer;
    bool skip_special;
    unsigned char held[4]; // of a character that is not complete
    int held_bytes;
};
// Appends the text that is complete with this token. Bytes that are not UTF-8 become U+FFFD. *out grows by
// realloc. Returns false after an error.
bool text_decode(struct text_decoder *d, int id, char **out, size_t *out_bytes, size_t *out_cap, char *error,
                 size_t error_bytes);
// Ends a text: an incomplete character becomes U+FFFD. Otherwise like text_decode.
bool text_decode_end(struct text_decoder *d, char **out, size_t *out_bytes, size_t *out_cap, char *error,
                     size_t error_bytes);

// text_template.c: chat templates ---------------------------------------------------------------------------

// A template in the part of Jinja that chat templates use, with the settings of transformers (doc/text.md
// lists it).
struct text_template;
// Parses a template. Returns NULL after an error, which has NAME:LINE:COLUMN.
struct text_template *text_template_new(const char *source, size_t bytes, const char *name, char *error,
                                        size_t error_bytes);
// Frees a template. NULL is allowed.
void text_template_free(struct text_template *t);

struct text_render_options {
    text_json_value variables[4]; // objects whose members become variables; later ones win; NULL: none
    int64_t most_steps;     // of the interpreter, before it stops with an error; 0: ten million
};
// Returns the text that a template makes, to be freed with free, or NULL and an error. Several threads may
// render with one template.
char *text_render(const struct text_template *t, const struct text_render_options *options, size_t *bytes,
                  char *error, size_t error_bytes);

#endif
