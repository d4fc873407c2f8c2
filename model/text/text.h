// text.h - text that models read and write: JSON, Unicode, tokenizers, chat templates. Uses the public
// headers only.
//
// Functions that may fail give NULL or false and leave a message in `error`, which names the file and the
// field. What is opened is not changed by use: any number of threads may share it, each with an encoder or a
// decoder of its own.

#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// text_json.c: the one reader of JSON outside src/ ----------------------------------------------------

// a value; NULL: nothing there, and every function takes that
typedef const struct text_json_ *text_json_value;

// Reads a strict document of UTF-8; `name` is what errors begin with. NULL and an error. Free it with
// text_json_free.
text_json_value text_json_parse(const char *text, size_t bytes, const char *name, char *error,
                                size_t error_bytes);
text_json_value text_json_load(const char *path, char *error, size_t error_bytes);
void      text_json_free(text_json_value root); // of what parse or load gave; the values inside go with it

// the last of that name
text_json_value   text_json_get(text_json_value object, const char *key);
text_json_value   text_json_member(text_json_value object, int index, const char **key); // NULL past the last
// of a list or an object; 0 for others
int         text_json_count(text_json_value value);
text_json_value   text_json_at(text_json_value list, int index);
bool        text_json_is_list(text_json_value value);
bool        text_json_is_object(text_json_value value);
bool        text_json_is_bool(text_json_value value);
bool        text_json_is_null(text_json_value value); // the word null, not an absent value
bool        text_json_true(text_json_value value);
// written without a fraction or an exponent, and fits
bool        text_json_is_integer(text_json_value value);
int64_t     text_json_integer(text_json_value value);    // 0: it is no number, or too large
double      text_json_number(text_json_value value);     // NaN: it is no number
const char *text_json_text(text_json_value value);       // NULL: it is no text
size_t      text_json_bytes(text_json_value value);      // of a text, which may have NULs inside
size_t      text_json_key_bytes(text_json_value member);
const char *text_json_text_of(text_json_value object, const char *key); // "": none
double      text_json_number_of(text_json_value object, const char *key);
int         text_json_line(text_json_value value); // where it begins
// Writes a value; `indent`: steps of four spaces that its members are indented by, less one.
void        text_json_write(FILE *out, text_json_value value, int indent);

// The whole file, NUL-terminated, to be freed. NULL and an error. "-" is standard input.
char *text_read_file(const char *path, size_t *bytes, char *error, size_t error_bytes);

// text_tokenizer.c: byte-level BPE --------------------------------------------------------------------------

typedef const struct text_tokenizer *text_tokenizer;

// How a tokenizer is opened; zero-initialised, or NULL, for defaults.
struct text_open_options {
    const char *pattern; // of rank files, which have none: a name such as "qwen2", or a regular expression
};
// Opens a tokenizer.json, a GGUF file, a rank file (tiktoken), or a folder that holds a tokenizer.json; next
// to a tokenizer.json, tokenizer_config.json and chat_template.jinja are read too. NULL and an error. What
// would change the ids and is not known is refused.
text_tokenizer text_tokenizer_open(const char *path, const struct text_open_options *options, char *error,
                                   size_t error_bytes);
void        text_tokenizer_close(text_tokenizer t);
int         text_token_count(text_tokenizer t);            // ids are below it
int         text_token_id(text_tokenizer t, const char *text); // of the token that decodes to it; -1: none
// what it decodes to, perhaps parts of characters; NULL: none
const char *text_token_text(text_tokenizer t, int id, size_t *bytes);
bool        text_token_is_special(text_tokenizer t, int id);
const char *text_tokenizer_bos(text_tokenizer t); // NULL: none
const char *text_tokenizer_eos(text_tokenizer t);
const char *text_chat_template(text_tokenizer t); // NULL: none
const char *text_pattern_name(int index);         // that rank files may have; NULL past the last

// Ids that grow; free id.
struct text_ids {
    int32_t *id;
    size_t count, cap;
};

// What one thread encodes with: it remembers pieces that it has seen.
struct text_encoder;
// as long as the tokenizer lives
struct text_encoder *text_encoder_new(text_tokenizer t, char *error, size_t error_bytes);
void text_encoder_free(struct text_encoder *e);

struct text_encode_options {
    bool add_special;   // the tokens that the file puts around a text, such as <|begin_of_text|>
    bool plain_special; // special tokens inside the text are text
    // now and then, in bytes; false gives up; NULL: none
    bool (*progress)(void *context, size_t done, size_t all);
    void *context;
};
// Appends the ids of the text, which may have NULs inside. Bytes that are not UTF-8 are encoded as they are.
bool text_encode(struct text_encoder *e, const char *text, size_t bytes,
                 const struct text_encode_options *options, struct text_ids *out, char *error,
                 size_t error_bytes);

// text_decode.c ---------------------------------------------------------------------------------------------

// Decodes tokens one by one: only whole characters come out. Zero-initialised but for the first two.
struct text_decoder {
    text_tokenizer tokenizer;
    bool skip_special;
    unsigned char held[4]; // of a character that is not complete
    int held_bytes;
};
// Appends what is complete with this token. What is no UTF-8 becomes U+FFFD.
bool text_decode(struct text_decoder *d, int id, char **out, size_t *out_bytes, size_t *out_cap, char *error,
                 size_t error_bytes);
bool text_decode_end(struct text_decoder *d, char **out, size_t *out_bytes, size_t *out_cap, char *error,
                     size_t error_bytes);

// text_template.c: chat templates ---------------------------------------------------------------------------

// A template in the part of Jinja that chat templates use, with the settings of transformers (doc/text.md
// lists it). NULL and an error, which has NAME:LINE:COLUMN.
struct text_template;
struct text_template *text_template_new(const char *source, size_t bytes, const char *name, char *error,
                                        size_t error_bytes);
void text_template_free(struct text_template *t);

struct text_render_options {
    text_json_value variables[4]; // objects whose members become variables, later ones last; NULL: none
    int64_t most_steps;     // 0: ten million
};
// Returns the text, to be freed. Several threads may render with one template. NULL and an error.
char *text_render(const struct text_template *t, const struct text_render_options *options, size_t *bytes,
                  char *error, size_t error_bytes);

#endif
