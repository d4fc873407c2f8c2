// language.h - functions that `zellige generate`, `chat` and `perplexity` share: opening a model with its
// tokenizer, and options.

#ifndef LANGUAGE_H
#define LANGUAGE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli.h"
#include "text/text.h"
#include "zellige.h"
#include "zellige_model.h"

// Returns the seconds of a monotonic clock.
double language_now(void);

// A checkpoint that is open for a command.
struct language {
    zl_model model;
    zl_model_info info;
    text_tokenizer tokenizer;
    struct text_encoder *encoder;
    double open_seconds;
    int kv_bits; // bits to which perplexity rounds keys and values; 0: none
    int end;     // token that ends an answer, by the tokenizer, if the model names none; -1: none
    char error[512];
};

// Opens the model that --model or the first operand names, on the device of --device, and reports it on
// standard error. Returns CLI_OK, after which the caller closes it with language_close, or another exit code
// after a message.
int  language_open(struct language *l, const struct invocation *call);
// Closes the model and its tokenizer.
void language_close(struct language *l);
// Returns whether a token ends an answer of the model.
bool language_is_end(const struct language *l, int32_t id);
// Appends the ids of a text, with the special tokens that the model adds if it is a document. Returns false,
// with a message in l->error, if that fails.
bool language_encode(struct language *l, const char *text, size_t bytes, bool is_document,
                     struct text_ids *ids);

// Rows of options that several commands have.
#define LANGUAGE_OPTIONS                                                        \
    {"model", 'm', "FOLDER", NULL, "the checkpoint: a folder, or a GGUF file"}, \
    {"device", 0, "NAME", NULL, "device to run on"}

#define LANGUAGE_SAMPLING                                                                                \
    {"temp", 0, "X", NULL, "temperature (default 0: the most likely token each time)", "temperature"},   \
    {"top-k", 0, "N", NULL, "draw from the N most likely tokens only"},                                  \
    {"top-p", 0, "X", NULL, "draw from the most likely tokens that together have this probability"},     \
    {"min-p", 0, "X", NULL,                                                                              \
     "draw from tokens that are at least this share as likely as the most likely one"},                  \
    {"xtc-probability", 0, "X", NULL, "how often all likely tokens but the least likely are left out"},  \
    {"xtc-threshold", 0, "X", NULL, "what makes a token likely for that (default 0.1)"},                 \
    {"repeat-penalty", 0, "X", NULL, "divide the logits of recent tokens by this", "repetition-penalty"},\
    {"presence-penalty", 0, "X", NULL, "subtract this from the logits of recent tokens"},                \
    {"frequency-penalty", 0, "X", NULL, "and this for each time that they occur"},                       \
    {"repeat-last-n", 0, "N", NULL, "how many tokens are recent (default 64)", "repetition-context-size"},\
    {"logit-bias", 0, "LIST", NULL, "add to logits: ID+X or ID-X, with commas between"},                 \
    {"seed", 's', "N", NULL, "the same seed draws the same tokens (default: from the clock)"}

#define LANGUAGE_STOP \
    {"stop", 'r', "TEXT", NULL, "end before this text; may be given several times", "reverse-prompt"}

#define LANGUAGE_KV_BITS \
    {"kv-bits", 0, "N", NULL, "keep keys and values in 4 or 8 bits (default: as they are computed)"}

enum { LANGUAGE_BIASES_MOST = 256, LANGUAGE_STOPS_MOST = 64 };

struct language_sampling {
    zl_sampling sampling;
    int bias_id[LANGUAGE_BIASES_MOST];
    double bias[LANGUAGE_BIASES_MOST];
};
// Fills out from the options. Returns false after a message of wrong usage.
bool language_sampling(const struct invocation *call, struct language_sampling *out);
// Fills stop with the texts that end an answer and returns how many; -1 after a message of wrong usage.
int language_stops(const struct invocation *call, const char *stop[static LANGUAGE_STOPS_MOST]);

#define LANGUAGE_TEMPLATE                                                                    \
    {"chat-template-file", 0, "FILE", "*", "use this chat template, not that of the model"}, \
    {"chat-template-kwargs", 0, "JSON", NULL, "variables for the template: {\"enable_thinking\": false}"}

// language_talk.c: a conversation, as a chat template writes it ---------------------------------------------

struct language_message {
    const char *role; // "system", "user", "assistant"
    char *content;
    size_t bytes;
};

struct language_talk {
    const struct language *language;
    struct text_template *template;
    text_json_value more; // variables from the command line; NULL: none
    struct language_message *message;
    int messages;
    char error[512];
};
// Begins a conversation with the template that the options name, or the model's. Returns false, with a
// message in t->error, if that fails. The caller calls language_talk_free in any case, and keeps l until
// then.
bool language_talk_new(struct language_talk *t, const struct language *l, const struct invocation *call);
// Frees the template and the messages.
void language_talk_free(struct language_talk *t);
// Appends a message: content, which may have NULs inside, is copied, role is not. Returns false, with a
// message in t->error, if memory runs out.
bool language_talk_say(struct language_talk *t, const char *role, const char *content, size_t bytes);
// Removes the messages from that index on.
void language_talk_forget(struct language_talk *t, int from);
// Returns the conversation as the text of a prompt, which the caller frees. Returns NULL, with a message in
// t->error, if that fails.
char *language_talk_render(struct language_talk *t, size_t *bytes);

// A generation: its settings and its results.
struct language_run {
    struct language *language;
    zl_sequence sequence;
    int64_t most;             // largest number of tokens to draw
    bool ignore_end;          // end tokens do not end it
    const char *const *stop;  // texts that end it, and are not part of the answer
    int stops;
    // receives the text, in whole characters; returns false to end the generation
    bool (*give)(void *context, const char *text, size_t bytes);
    void *context;
    const volatile sig_atomic_t *stopped; // ends the generation when it is set; NULL: only an interrupt does
    // Results.
    int64_t prompt, drawn;
    int32_t *ids; // the ids that were drawn; freed by the caller
    double prompt_seconds, draw_seconds;
    const char *why; // "end", "length", "stop", "interrupt"
};
// Computes the prompt, with progress on standard error, and draws until something ends it. Returns false,
// with a message in language->error, if that fails.
bool language_generate(struct language_run *run);
// Prints speeds and memory on standard error, unless --json or -q is given.
void language_report(const struct invocation *call, const struct language_run *run);

#endif
