// text_open_gguf.c - reads the tokenizer of a GGUF file: tokens, their types, merges, and the name of the
// pattern.

#include "text_inside.h"

#include "zellige.h"

// The pattern and normal form for each name of tokenizer.ggml.pre. llama.cpp does not normalise, but the
// tokenizers that the models were trained with do.
static const struct {
    const char *pre, *pattern;
    enum text_form form;
    bool digits; // every digit is split off before the pattern applies
    bool begins; // a text begins with the token of beginnings, unless the file says that it does not
} families[] = {
    {"qwen2", "qwen2", TEXT_NFC, false},     {"qwen35", "qwen35", TEXT_NFC, false},
    {"gpt-2", "gpt2", TEXT_AS_IS, false},    {"default", "gpt2", TEXT_AS_IS, false},
    {"smollm", "gpt2", TEXT_AS_IS, true},    {"smaug-bpe", "llama3", TEXT_AS_IS, false},
    {"llama-bpe", "llama3", .begins = true}, {"llama3", "llama3", .begins = true},
    {"llama-v3", "llama3", .begins = true},
};
enum { TYPE_CONTROL = 3, TYPE_USER_DEFINED = 4 };

struct reading {
    struct text_tokenizer *t;
    const zl_file *file;
    struct text_map vocabulary;
    bool begins; // of the family
    char *error;
    size_t error_bytes;
};

static bool refuse(const struct reading *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(const struct reading *r, const char *format, ...) {
    char what[400];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    return text_fail(r->error, r->error_bytes, "%.300s: %s", r->t->name, what);
}

static bool find(const struct reading *r, const char *name, zl_metadata *out) {
    for (int i = 0; zl_file_metadata(r->file, i, out); i++)
        if (!strcmp(out->name, name))
            return true;
    return false;
}

static const char *text_of(const struct reading *r, const char *name) {
    zl_metadata note;
    bool there = find(r, name, &note) && note.texts == 1 && !note.is_list;
    return there ? text_arena_copy(&r->t->arena, note.text[0].data, note.text[0].bytes) : NULL;
}

// Returns an integer such as an id, or `otherwise` if there is none.
static int64_t number_of(const struct reading *r, const char *name, int64_t otherwise) {
    zl_metadata note;
    return find(r, name, &note) && note.array && zl_size(note.array) == 1 ? zl_item_int(note.array)
                                                                          : otherwise;
}

static bool add_token(struct reading *r, int id, const zl_text *text, int type) {
    struct text_tokenizer *t = r->t;
    bool added = type == TYPE_CONTROL || type == TYPE_USER_DEFINED;
    char *data = text_arena_copy(&t->arena, text->data, text->bytes);
    size_t used = text->bytes;
    if (!data)
        return refuse(r, "out of memory");
    if (!text_bytes_of_alphabet(text->data, text->bytes, data, &used))
        memcpy(data, text->data, used = text->bytes);
    data[used] = 0;
    if (!text_set_token(t, id, data, used, r->error, r->error_bytes))
        return false;
    t->token[id].special = type == TYPE_CONTROL;
    t->token[id].added = added;
    if (!text_map_put(&r->vocabulary, text->data, text->bytes, (uint32_t)id))
        return refuse(r, "out of memory");
    if (added) {
        const char *copy = text_arena_copy(&t->arena, text->data, text->bytes);
        if (!copy)
            return refuse(r, "out of memory");
        t->added[t->added_count++] = (struct text_added){
            .text = copy, .bytes = (uint32_t)text->bytes, .id = id, .special = type == TYPE_CONTROL};
    } else if (used == 1)
        t->byte_id[(unsigned char)data[0]] = id;
    return true;
}

static bool read_tokens(struct reading *r) {
    zl_metadata tokens, types;
    if (!find(r, "tokenizer.ggml.tokens", &tokens) || !tokens.texts)
        return refuse(r, "tokenizer.ggml.tokens is missing: there is no tokenizer in this file");
    bool has_types = find(r, "tokenizer.ggml.token_type", &types) && types.array;
    const int32_t *type = has_types ? zl_data_i32(types.array) : NULL;
    if (has_types && (!type || zl_size(types.array) != tokens.texts)) {
        zl_clear_error();
        return refuse(r, "tokenizer.ggml.token_type must be %d numbers of int32, one for each token",
                      tokens.texts);
    }
    r->t->added = text_arena_get(&r->t->arena, sizeof *r->t->added * ((size_t)tokens.texts + 1));
    if (!r->t->added || !text_map_reserve(&r->vocabulary, (size_t)tokens.texts))
        return refuse(r, "out of memory");
    for (int i = 0; i < tokens.texts; i++)
        if (!add_token(r, i, &tokens.text[i], type ? type[i] : 1))
            return false;
    return true;
}

static bool read_merges(struct reading *r) {
    zl_metadata merges;
    if (!find(r, "tokenizer.ggml.merges", &merges) || !merges.texts)
        return refuse(r, "tokenizer.ggml.merges is missing: byte-level BPE needs it");
    if (!text_pairs_reserve(r->t, (size_t)merges.texts + 1))
        return refuse(r, "out of memory");
    struct text_buffer joined = {0};
    bool ok = true;
    for (int i = 0; ok && i < merges.texts; i++) {
        const zl_text *m = &merges.text[i];
        const char *space = m->bytes > 1 ? memchr(m->data + 1, ' ', m->bytes - 1) : NULL,
                   *end = m->data + m->bytes;
        joined.bytes = 0;
        if (!space || !text_buffer_add(&joined, m->data, (size_t)(space - m->data)) ||
            !text_buffer_add(&joined, space + 1, (size_t)(end - space - 1))) {
            ok = refuse(r, "tokenizer.ggml.merges[%d] must be two tokens, \"a b\"", i);
            break;
        }
        int64_t left = text_map_get(&r->vocabulary, m->data, (size_t)(space - m->data));
        int64_t right = text_map_get(&r->vocabulary, space + 1, (size_t)(end - space - 1));
        int64_t both = text_map_get(&r->vocabulary, joined.data, joined.bytes);
        if (left < 0 || right < 0 || both < 0)
            ok = refuse(r, "tokenizer.ggml.merges[%d]: '%.60s' joins or makes what is no token", i, m->data);
        else
            text_pairs_put(r->t, (uint32_t)left, (uint32_t)right, (uint32_t)i, (uint32_t)both);
    }
    free(joined.data);
    return ok;
}

static bool read_family(struct reading *r) {
    const char *model = text_of(r, "tokenizer.ggml.model"), *pre = text_of(r, "tokenizer.ggml.pre");
    if (!model || strcmp(model, "gpt2") != 0)
        return refuse(r, "tokenizer.ggml.model is '%.60s': only gpt2, which is byte-level BPE, is known",
                      model ? model : "");
    pre = pre ? pre : "default";
    if (number_of(r, "tokenizer.ggml.add_space_prefix", 0) &&
        !text_add_stage(r->t, &(struct text_stage){0}, r->error, r->error_bytes))
        return false;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!strcmp(families[i].pre, pre)) {
            r->t->form = families[i].form;
            r->begins = families[i].begins;
            r->t->whole_pieces = families[i].pattern[0] == 'l'; // Llama 3's
            return (!families[i].digits ||
                    text_add_stage(r->t, &(struct text_stage){.scan = text_scan_digits}, r->error,
                                   r->error_bytes)) &&
                   text_add_stage(
                       r->t, &(struct text_stage){.scan = text_pattern_find(NULL, families[i].pattern)->scan},
                       r->error, r->error_bytes);
        }
    return refuse(r, "tokenizer.ggml.pre is '%.60s', which is not known", pre);
}

static const char *name_of(const struct reading *r, const char *key) {
    int64_t id = number_of(r, key, -1);
    return id >= 0 && id < r->t->count ? r->t->token[id].data : NULL;
}

static bool read_around(struct reading *r) {
    struct text_tokenizer *t = r->t;
    t->bos = name_of(r, "tokenizer.ggml.bos_token_id");
    t->eos = name_of(r, "tokenizer.ggml.eos_token_id");
    t->pad = name_of(r, "tokenizer.ggml.padding_token_id");
    t->unk = name_of(r, "tokenizer.ggml.unknown_token_id");
    t->chat_template = text_of(r, "tokenizer.chat_template");
    int *around = text_arena_get(&t->arena, 2 * sizeof *around);
    if (!around)
        return refuse(r, "out of memory");
    around[0] = (int)number_of(r, "tokenizer.ggml.bos_token_id", -1);
    around[1] = (int)number_of(r, "tokenizer.ggml.eos_token_id", -1);
    t->prefix = around;
    t->suffix = around + 1;
    t->prefix_count = t->bos && number_of(r, "tokenizer.ggml.add_bos_token", r->begins);
    t->suffix_count = t->eos && number_of(r, "tokenizer.ggml.add_eos_token", 0);
    return true;
}

static bool fill_by_bytes(struct reading *r) {
    bool ok = true;
    for (int id = 0; ok && r->t->whole_pieces && id < r->t->count; id++)
        if (!r->t->token[id].added)
            ok = text_map_put(&r->t->by_bytes, r->t->token[id].data, r->t->token[id].bytes, (uint32_t)id);
    return ok || refuse(r, "out of memory");
}

bool text_open_gguf(struct text_tokenizer *t, const char *path, char *error, size_t error_bytes) {
    zl_file *file = zl_load_file(path, &(zl_load_options){.format = "gguf_metadata"});
    if (!file) {
        text_fail(error, error_bytes, "%s", zl_error());
        zl_clear_error();
        return false;
    }
    struct reading r = {.t = t, .file = file, .error = error, .error_bytes = error_bytes};
    bool ok = read_family(&r) && read_tokens(&r) && read_merges(&r) && read_around(&r) && fill_by_bytes(&r);
    text_map_free(&r.vocabulary);
    zl_file_free(file);
    return ok;
}
