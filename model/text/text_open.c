// text_open.c - finds the format of a tokenizer's file, opens it, and reads the files next to it: the names
// of special tokens and the chat template.

#include "text_inside.h"

#include <sys/stat.h>

// Tokens ----------------------------------------------------------------------------------------------------

bool text_set_token(struct text_tokenizer *t, int64_t id, const char *data, size_t bytes, char *error,
                    size_t error_bytes) {
    if (id < 0 || id >= TEXT_MOST_TOKENS)
        return text_fail(error, error_bytes, "%.300s: token '%.*s' has the id %lld: 0 to %d are possible",
                         t->name, (int)(bytes < 60 ? bytes : 60), data, (long long)id, TEXT_MOST_TOKENS - 1);
    if (id >= t->count) {
        int count = (int)id + 1;
        if (count > t->room) {
            int room = t->room ? t->room : 1024;
            while (room < count)
                room *= 2;
            struct text_token *bigger = realloc(t->token, (size_t)room * sizeof *bigger);
            if (!bigger)
                return text_fail(error, error_bytes, "%.300s: out of memory", t->name);
            t->token = bigger;
            t->room = room;
        }
        memset(t->token + t->count, 0, (size_t)(count - t->count) * sizeof *t->token);
        t->count = count;
    }
    struct text_token *token = &t->token[id];
    token->data = data;
    token->bytes = (uint32_t)bytes;
    token->there = true;
    return true;
}

// Returns the byte that a character of the byte-level alphabet stands for, or TEXT_NONE. Printable bytes
// stand for themselves, other bytes are the characters from 256 on.
static int byte_of(uint32_t code) {
    bool printable = (code > 32 && code < 127) || (code > 160 && code < 256 && code != 173);
    return printable     ? (int)code
           : code < 256  ? TEXT_NONE
           : code <= 288 ? (int)code - 256
           : code <= 322 ? (int)code - 289 + 127
           : code == 323 ? 173
                         : TEXT_NONE;
}

bool text_bytes_of_alphabet(const char *text, size_t bytes, char *out, size_t *out_bytes) {
    const unsigned char *at = (const unsigned char *)text, *end = at + bytes;
    char *to = out;
    while (at < end) {
        uint32_t code;
        at += text_utf8_get(at, end, &code);
        int byte = byte_of(code);
        if (byte < 0)
            return false;
        *to++ = (char)byte;
    }
    *out_bytes = (size_t)(to - out);
    return true;
}

// Stages ----------------------------------------------------------------------------------------------------

bool text_add_stage(struct text_tokenizer *t, const struct text_stage *stage, char *error,
                    size_t error_bytes) {
    if (t->stages == TEXT_MOST_STAGES)
        return text_fail(error, error_bytes, "%.300s: pre_tokenizer: more than %d steps", t->name,
                         TEXT_MOST_STAGES);
    t->stage[t->stages++] = *stage;
    return true;
}

bool text_add_pattern(struct text_tokenizer *t, const char *regex, char *error, size_t error_bytes) {
    const struct text_pattern *known = text_pattern_find(regex, NULL);
    if (known)
        return text_add_stage(t, &(struct text_stage){.scan = known->scan}, error, error_bytes);
    char why[400];
    struct text_stage stage = {.regex = text_regex_new(regex, why, sizeof why)};
    if (!stage.regex)
        return text_fail(error, error_bytes, "%.300s: pre_tokenizer: %s", t->name, why);
    if (text_add_stage(t, &stage, error, error_bytes))
        return true;
    text_regex_free(stage.regex);
    return false;
}

// What lies beside a tokenizer.json -------------------------------------------------------------------------

static const char *keep(struct text_tokenizer *t, text_json_value value) {
    text_json_value text = text_json_is_object(value) ? text_json_get(value, "content") : value;
    return text_json_text(text) ? text_arena_copy(&t->arena, text_json_text(text), text_json_bytes(text))
                                : NULL;
}

static bool is_file(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

// Returns the default template, if `value` is a list of named templates; otherwise `value`.
static text_json_value default_template(text_json_value value) {
    for (int i = 0; i < text_json_count(value); i++)
        if (!strcmp(text_json_text_of(text_json_at(value, i), "name"), "default"))
            return text_json_get(text_json_at(value, i), "template");
    return value;
}

static bool read_config(struct text_tokenizer *t, const char *folder, char *error, size_t error_bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%stokenizer_config.json", folder);
    if (!is_file(path))
        return true;
    text_json_value config = text_json_load(path, error, error_bytes);
    if (!config)
        return false;
    t->bos = keep(t, text_json_get(config, "bos_token"));
    t->eos = keep(t, text_json_get(config, "eos_token"));
    t->pad = keep(t, text_json_get(config, "pad_token"));
    t->unk = keep(t, text_json_get(config, "unk_token"));
    t->chat_template = keep(t, default_template(text_json_get(config, "chat_template")));
    text_json_free(config);
    return true;
}

static bool read_template(struct text_tokenizer *t, const char *folder, char *error, size_t error_bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%schat_template.jinja", folder);
    if (!is_file(path))
        return true;
    size_t bytes;
    char *text = text_read_file(path, &bytes, error, error_bytes);
    t->chat_template = text ? text_arena_copy(&t->arena, text, bytes) : NULL;
    free(text);
    return text != NULL;
}

// Opening ---------------------------------------------------------------------------------------------------

static bool open_text(struct text_tokenizer *t, const char *path, const char *pattern, char *error,
                      size_t error_bytes) {
    text_json_value root = NULL;
    size_t bytes;
    char *text = text_read_file(path, &bytes, error, error_bytes);
    if (!text)
        return false;
    size_t first = strspn(text, " \t\r\n");
    bool is_json = text[first] == '{';
    bool ok = is_json ? (root = text_json_take(text, bytes, path, error, error_bytes)) != NULL
                      : text_open_ranks(t, text, bytes, pattern, error, error_bytes);
    if (!is_json)
        free(text);
    ok = ok && (!is_json || text_open_json(t, root, error, error_bytes));
    text_json_free(root);
    return ok;
}

static bool begins_with_gguf(const char *path) {
    char magic[4] = "";
    FILE *file = fopen(path, "rb");
    bool is = file && fread(magic, 1, 4, file) == 4 && !memcmp(magic, "GGUF", 4);
    if (file)
        fclose(file);
    return is;
}

static bool open_path(struct text_tokenizer *t, const char *path, const char *pattern, char *error,
                      size_t error_bytes) {
    char folder[3800];
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) + 1 : 0;
    if (len >= sizeof folder)
        return text_fail(error, error_bytes, "%.300s...: the path is too long", path);
    snprintf(folder, sizeof folder, "%.*s", (int)len, path);
    if (begins_with_gguf(path))
        return text_open_gguf(t, path, error, error_bytes) && text_added_index(t, error, error_bytes);
    const char *name = slash ? slash + 1 : path;
    bool beside = !strcmp(name, "tokenizer.json");
    return open_text(t, path, pattern, error, error_bytes) &&
           (!beside ||
            (read_config(t, folder, error, error_bytes) && read_template(t, folder, error, error_bytes))) &&
           text_added_index(t, error, error_bytes);
}

text_tokenizer text_tokenizer_open(const char *path, const struct text_open_options *options, char *error,
                                   size_t error_bytes) {
    char inside[4096];
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        if (snprintf(inside, sizeof inside, "%s/tokenizer.json", path) >= (int)sizeof inside) {
            text_fail(error, error_bytes, "%.300s...: the path is too long", path);
            return NULL;
        }
        path = inside;
    }
    struct text_tokenizer *t = calloc(1, sizeof *t);
    if (t && (t->name = strdup(path))) {
        t->unknown = TEXT_NONE;
        for (int i = 0; i < 256; i++)
            t->byte_id[i] = TEXT_NONE;
        bool ok = open_path(t, path, options ? options->pattern : NULL, error, error_bytes);
        if (ok && !text_bpe_finish(t))
            ok = text_fail(error, error_bytes, "%.300s: out of memory", path);
        if (ok)
            return t;
    } else
        text_fail(error, error_bytes, "%.300s: out of memory", path);
    text_tokenizer_close(t);
    return NULL;
}

void text_tokenizer_close(text_tokenizer tokenizer) {
    struct text_tokenizer *t = (struct text_tokenizer *)(uintptr_t)tokenizer;
    if (!t)
        return;
    for (int i = 0; i < t->stages; i++)
        text_regex_free(t->stage[i].regex);
    text_arena_free(&t->arena);
    text_map_free(&t->by_bytes);
    free(t->token);
    free(t->pair);
    free(t->byte_pair);
    free(t->name);
    free(t);
}
