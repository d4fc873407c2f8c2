// lm_text.c - the public functions of tokenizers: encode text, decode ids, and write conversations by a chat
// template.

#include "lm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct zl_tokenizer_ {
    text_tokenizer text;
    struct text_template *template; // NULL: the model has none, or one that cannot be parsed
};

struct zl_reader_ {
    struct text_decoder decoder;
    char *text;
    size_t bytes, cap;
};

static bool say(char *error, size_t error_bytes, const char *why) {
    if (error && error_bytes)
        snprintf(error, error_bytes, "%s", why);
    return false;
}

// Parses the model's chat template. Returns NULL after an error, or if there is none.
static struct text_template *parse_template(zl_tokenizer t, char *why, size_t why_bytes) {
    const char *chat = text_chat_template(t->text);
    say(why, why_bytes, "zl_tokenizer_chat: the model has no chat template");
    return chat ? text_template_new(chat, strlen(chat), "chat_template", why, why_bytes) : NULL;
}

zl_tokenizer zl_tokenizer_open(const char *path, char *error, size_t error_bytes) {
    char why[512] = "zl_tokenizer_open: out of memory";
    zl_tokenizer t = calloc(1, sizeof *t);
    if (!path)
        say(why, sizeof why, "zl_tokenizer_open: path is NULL");
    else if (t && (t->text = text_tokenizer_open(path, NULL, why, sizeof why))) {
        t->template = parse_template(t, why, sizeof why);
        return t;
    }
    say(error, error_bytes, why);
    zl_tokenizer_close(t);
    return NULL;
}

void zl_tokenizer_close(zl_tokenizer t) {
    if (!t)
        return;
    text_template_free(t->template);
    text_tokenizer_close(t->text);
    free(t);
}

int zl_tokenizer_count(zl_tokenizer t) {
    return t ? text_token_count(t->text) : 0;
}

int32_t *zl_tokenizer_encode(zl_tokenizer t, const char *text, size_t bytes, bool special, int64_t *count,
                             char *error, size_t error_bytes) {
    char why[512] = "zl_tokenizer_encode: an argument is NULL";
    struct text_ids ids = {0};
    struct text_encode_options how = {.add_special = special};
    struct text_encoder *encoder = t && text && count ? text_encoder_new(t->text, why, sizeof why) : NULL;
    bool done = encoder && text_encode(encoder, text, bytes, &how, &ids, why, sizeof why);
    text_encoder_free(encoder);
    if (done && !ids.id &&
        !(ids.id = malloc(sizeof *ids.id))) // a text without ids also gives a pointer, since NULL means an
                                            // error
        done = say(why, sizeof why, "zl_tokenizer_encode: out of memory");
    if (done) {
        *count = (int64_t)ids.count;
        return ids.id;
    }
    free(ids.id);
    say(error, error_bytes, why);
    return NULL;
}

static void put_member(FILE *out, const char *name, const char *text) {
    fprintf(out, ", \"%s\": ", name);
    text_json_write_text(out, text ? text : "", text ? strlen(text) : 0);
}

// Returns the variables that transformers gives to templates besides those of the caller.
static text_json_value variables_of(zl_tokenizer t, char *why, size_t why_bytes) {
    char *data = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&data, &bytes);
    say(why, why_bytes, "zl_tokenizer_chat: out of memory");
    if (!out)
        return NULL;
    fprintf(out, "{\"add_generation_prompt\": true, \"tools\": null, \"documents\": null");
    put_member(out, "bos_token", text_tokenizer_bos(t->text));
    put_member(out, "eos_token", text_tokenizer_eos(t->text));
    putc('}', out);
    text_json_value all =
        fclose(out) ? NULL : text_json_parse(data, bytes, "zl_tokenizer_chat", why, why_bytes);
    free(data);
    return all;
}

char *zl_tokenizer_chat(zl_tokenizer t, const char *json, size_t json_bytes, size_t *bytes, char *error,
                        size_t error_bytes) {
    char why[512] = "zl_tokenizer_chat: an argument is NULL", *text = NULL;
    if (t && json && bytes && !t->template)
        text_template_free(parse_template(t, why, sizeof why)); // says what is wrong
    text_json_value own = t && json && bytes && t->template
                              ? text_json_parse(json, json_bytes, "zl_tokenizer_chat", why, sizeof why)
                              : NULL;
    text_json_value all = own ? variables_of(t, why, sizeof why) : NULL;
    struct text_render_options how = {.variables = {all, own}};
    if (all)
        text = text_render(t->template, &how, bytes, why, sizeof why);
    text_json_free(all);
    text_json_free(own);
    if (!text)
        say(error, error_bytes, why);
    return text;
}

zl_reader zl_reader_new(zl_tokenizer t, bool special) {
    zl_reader r = t ? calloc(1, sizeof *r) : NULL;
    if (r)
        r->decoder = (struct text_decoder){.tokenizer = t->text, .skip_special = !special};
    return r;
}

void zl_reader_free(zl_reader r) {
    if (r)
        free(r->text);
    free(r);
}

// Returns the text that was read, with a NUL after it that does not count.
static const char *give(zl_reader r, bool done, size_t *bytes, const char *why, char *error,
                        size_t error_bytes) {
    if (done && r->cap == r->bytes) {
        char *more = realloc(r->text, r->bytes + 16);
        done = more || say(error, error_bytes, "zl_reader: out of memory");
        if (more)
            r->text = more, r->cap = r->bytes + 16;
    } else if (!done) {
        say(error, error_bytes, why);
    }
    if (!done)
        return NULL;
    r->text[r->bytes] = '\0';
    *bytes = r->bytes;
    return r->text;
}

const char *zl_reader_read(zl_reader r, int32_t id, size_t *bytes, char *error, size_t error_bytes) {
    char why[512] = "zl_reader_read: an argument is NULL";
    bool there = r && bytes;
    if (there)
        r->bytes = 0;
    return give(r, there && text_decode(&r->decoder, id, &r->text, &r->bytes, &r->cap, why, sizeof why),
                bytes, why, error, error_bytes);
}

const char *zl_reader_end(zl_reader r, size_t *bytes, char *error, size_t error_bytes) {
    char why[512] = "zl_reader_end: an argument is NULL";
    bool there = r && bytes;
    if (there)
        r->bytes = 0;
    return give(r, there && text_decode_end(&r->decoder, &r->text, &r->bytes, &r->cap, why, sizeof why),
                bytes, why, error, error_bytes);
}
