// text_open_json.c - reads tokenizer.json of Hugging Face's tokenizers: byte-level BPE. A field that would
// change the ids and is not known here is refused by its name. Padding and truncation are left to the caller.

#include "text_inside.h"

struct reading {
    struct text_tokenizer *t;
    struct text_map vocabulary; // tokens as the file writes them
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

static bool absent(text_json_value value) {
    return !value || text_json_is_null(value);
}

// Returns whether a flag is set; `otherwise` if it is absent.
static bool flag(text_json_value object, const char *key, bool otherwise) {
    text_json_value value = text_json_get(object, key);
    return text_json_is_bool(value) ? text_json_true(value) : otherwise;
}

// The model -------------------------------------------------------------------------------------------------

static bool read_vocabulary(struct reading *r, text_json_value vocabulary) {
    int count = text_json_count(vocabulary);
    if (!text_json_is_object(vocabulary) || count == 0)
        return refuse(r, "model.vocab must be an object with a token or more");
    if (!text_map_reserve(&r->vocabulary, (size_t)count))
        return refuse(r, "out of memory");
    for (int i = 0; i < count; i++) {
        const char *key;
        text_json_value value = text_json_member(vocabulary, i, &key);
        size_t bytes = text_json_key_bytes(value);
        if (!text_json_is_integer(value))
            return refuse(r, "model.vocab['%.60s'] must be a whole number", key);
        char *data = text_arena_get(&r->t->arena, bytes + 1);
        if (!data)
            return refuse(r, "out of memory");
        size_t used = bytes;
        bool of_bytes = text_bytes_of_alphabet(key, bytes, data, &used);
        if (!of_bytes)
            memcpy(data, key, used = bytes);
        data[used] = 0;
        int64_t id = text_json_integer(value);
        if (id >= 0 && id < r->t->count && r->t->token[id].there)
            return refuse(r, "model.vocab['%.60s']: the id %lld is taken by another token", key,
                          (long long)id);
        if (!text_set_token(r->t, id, data, used, r->error, r->error_bytes))
            return false;
        if (!text_map_put(&r->vocabulary, key, bytes, (uint32_t)id))
            return refuse(r, "out of memory");
        if (of_bytes && used == 1)
            r->t->byte_id[(unsigned char)data[0]] = (int)id;
    }
    return true;
}

// Reads the two tokens of a merge, written "a b" or ["a", "b"].
static bool read_halves(text_json_value merge, const char *half[2], size_t bytes[2]) {
    if (text_json_is_list(merge)) {
        for (int k = 0; k < 2; k++) {
            half[k] = text_json_text(text_json_at(merge, k));
            bytes[k] = text_json_bytes(text_json_at(merge, k));
        }
        return text_json_count(merge) == 2 && half[0] && half[1];
    }
    const char *text = text_json_text(merge), *end = text ? text + text_json_bytes(merge) : NULL;
    const char *space = text ? memchr(text, ' ', (size_t)(end - text)) : NULL;
    if (!space || memchr(space + 1, ' ', (size_t)(end - space - 1)))
        return false;
    half[0] = text;
    half[1] = space + 1;
    bytes[0] = (size_t)(space - text);
    bytes[1] = (size_t)(end - space - 1);
    return true;
}

static bool read_merges(struct reading *r, text_json_value merges) {
    int count = text_json_count(merges);
    if (!text_json_is_list(merges))
        return refuse(r, "model.merges must be a list");
    if (!text_pairs_reserve(r->t, (size_t)count + 1))
        return refuse(r, "out of memory");
    struct text_buffer joined = {0};
    bool ok = true;
    for (int i = 0; ok && i < count; i++) {
        const char *half[2];
        size_t bytes[2];
        if (!read_halves(text_json_at(merges, i), half, bytes)) {
            ok = refuse(r, "model.merges[%d] must be two tokens: [\"a\", \"b\"], or \"a b\"", i);
            break;
        }
        joined.bytes = 0;
        ok = text_buffer_add(&joined, half[0], bytes[0]) && text_buffer_add(&joined, half[1], bytes[1]);
        int64_t left = text_map_get(&r->vocabulary, half[0], bytes[0]),
                right = text_map_get(&r->vocabulary, half[1], bytes[1]);
        int64_t both = ok ? text_map_get(&r->vocabulary, joined.data, joined.bytes) : TEXT_NONE;
        if (!ok)
            refuse(r, "out of memory");
        else if (left < 0 || right < 0 || both < 0)
            ok = refuse(r, "model.merges[%d]: '%.60s' is not in model.vocab", i,
                        left < 0    ? half[0]
                        : right < 0 ? half[1]
                                    : joined.data);
        else
            text_pairs_put(r->t, (uint32_t)left, (uint32_t)right, (uint32_t)i, (uint32_t)both);
    }
    free(joined.data);
    return ok;
}

static bool read_unknown(struct reading *r, text_json_value model) {
    text_json_value unknown = text_json_get(model, "unk_token");
    if (absent(unknown))
        return true;
    int64_t id =
        text_map_get(&r->vocabulary, text_json_text_of(model, "unk_token"), text_json_bytes(unknown));
    if (!text_json_text(unknown) || id < 0)
        return refuse(r, "model.unk_token must be a token of model.vocab");
    r->t->unknown = (int)id;
    r->t->fuse_unknown = flag(model, "fuse_unk", false);
    return true;
}

static bool read_model(struct reading *r, text_json_value model) {
    static const char *const known[] = {"type",
                                        "dropout",
                                        "unk_token",
                                        "continuing_subword_prefix",
                                        "end_of_word_suffix",
                                        "fuse_unk",
                                        "byte_fallback",
                                        "ignore_merges",
                                        "vocab",
                                        "merges"};
    const char *type = text_json_text_of(model, "type"), *key;
    if (!text_json_is_object(model) || (type[0] && strcmp(type, "BPE") != 0))
        return refuse(r, "model.type is '%.60s': only BPE is known", type);
    for (int i = 0; text_json_member(model, i, &key); i++) {
        size_t k = 0;
        while (k < sizeof known / sizeof *known && strcmp(known[k], key) != 0)
            k++;
        if (k == sizeof known / sizeof *known)
            return refuse(r, "model.%.60s is not known", key);
    }
    double dropout = text_json_number_of(model, "dropout");
    if (dropout > 0)
        return refuse(r, "model.dropout is %g: only tokenizers that always give the same ids are known",
                      dropout);
    if (text_json_text_of(model, "continuing_subword_prefix")[0] ||
        text_json_text_of(model, "end_of_word_suffix")[0])
        return refuse(r, "model.continuing_subword_prefix and end_of_word_suffix must be empty: this is no "
                         "byte-level BPE");
    if (flag(model, "byte_fallback", false))
        return refuse(r, "model.byte_fallback is true: this is no byte-level BPE");
    if (!read_vocabulary(r, text_json_get(model, "vocab")) ||
        !read_merges(r, text_json_get(model, "merges")) || !read_unknown(r, model))
        return false;
    r->t->whole_pieces = flag(model, "ignore_merges", false);
    return true;
}

// Added tokens ----------------------------------------------------------------------------------------------

static bool read_added(struct reading *r, text_json_value list) {
    int count = text_json_count(list);
    struct text_tokenizer *t = r->t;
    t->added = text_arena_get(&t->arena, sizeof *t->added * (size_t)(count + 1));
    if (!t->added)
        return refuse(r, "out of memory");
    for (int i = 0; i < count; i++) {
        text_json_value item = text_json_at(list, i), content = text_json_get(item, "content"),
                        id = text_json_get(item, "id");
        const char *text = text_json_text(content);
        size_t bytes = text_json_bytes(content);
        if (!text || !text_json_is_integer(id))
            return refuse(
                r, "added_tokens[%d] needs a content, which is a text, and an id, which is a whole number",
                i);
        int64_t number = text_json_integer(id), in_vocabulary = text_map_get(&r->vocabulary, text, bytes);
        bool taken = number >= 0 && number < t->count && t->token[number].there && in_vocabulary != number;
        if ((in_vocabulary >= 0 && in_vocabulary != number) || taken)
            return refuse(
                r,
                "added_tokens[%d]: '%.60s' has the id %lld, which model.vocab gives to another token, or it "
                "has another id there",
                i, text, (long long)number);
        bool special = flag(item, "special", false);
        char *copy = text_arena_copy(&t->arena, text, bytes),
             *decoded = text_arena_copy(&t->arena, text, bytes);
        if (!copy || !decoded)
            return refuse(r, "out of memory");
        size_t used = bytes;
        if (!text_bytes_of_alphabet(text, bytes, decoded, &used))
            memcpy(decoded, text, used = bytes);
        decoded[used] = 0;
        if (!text_set_token(t, number, decoded, used, r->error, r->error_bytes))
            return false;
        t->token[number].special = special;
        t->token[number].added = true;
        t->added[t->added_count++] = (struct text_added){copy,
                                                         (uint32_t)bytes,
                                                         (int)number,
                                                         flag(item, "single_word", false),
                                                         flag(item, "lstrip", false),
                                                         flag(item, "rstrip", false),
                                                         flag(item, "normalized", !special),
                                                         special};
    }
    return true;
}

// Steps before and after ------------------------------------------------------------------------------------

static bool read_normalizer(struct reading *r, text_json_value n) {
    static const char *const forms[] = {
        [TEXT_NFC] = "NFC", [TEXT_NFD] = "NFD", [TEXT_NFKC] = "NFKC", [TEXT_NFKD] = "NFKD"};
    if (absent(n))
        return true;
    const char *type = text_json_text_of(n, "type");
    if (!strcmp(type, "Sequence")) {
        text_json_value list = text_json_get(n, "normalizers");
        for (int i = 0; i < text_json_count(list); i++)
            if (!read_normalizer(r, text_json_at(list, i)))
                return false;
        return true;
    }
    for (int form = TEXT_NFC; form <= TEXT_NFKD; form++)
        if (!strcmp(forms[form], type)) {
            if (r->t->form != TEXT_AS_IS)
                return refuse(r, "normalizer: more than one normal form");
            r->t->form = (enum text_form)form;
            return true;
        }
    return refuse(r, "normalizer.type is '%.60s': NFC, NFD, NFKC, NFKD and Sequence are known", type);
}

static bool read_behavior(struct reading *r, text_json_value step, enum text_behavior *out) {
    static const char *const names[] = {[TEXT_ISOLATED] = "Isolated",
                                        [TEXT_REMOVED] = "Removed",
                                        [TEXT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
                                        [TEXT_MERGED_WITH_NEXT] = "MergedWithNext",
                                        [TEXT_CONTIGUOUS] = "Contiguous"};
    const char *name = text_json_text_of(step, "behavior");
    for (int i = TEXT_ISOLATED; i <= TEXT_CONTIGUOUS; i++)
        if (!strcmp(names[i], name)) {
            *out = (enum text_behavior)i;
            return true;
        }
    return refuse(r, "pre_tokenizer: behavior '%.60s' is not known", name);
}

static bool read_split(struct reading *r, text_json_value step) {
    struct text_stage stage = {.invert = flag(step, "invert", false)};
    text_json_value pattern = text_json_get(step, "pattern");
    const char *regex = text_json_text(text_json_get(pattern, "Regex"));
    text_json_value literal = text_json_get(pattern, "String");
    if (!read_behavior(r, step, &stage.behavior))
        return false;
    if (regex) {
        bool everything =
            stage.behavior == TEXT_ISOLATED; // then a hand-coded pattern may be used: it leaves nothing
                                             // between matches
        if (!everything && text_pattern_find(regex, NULL)) {
            stage.regex = text_regex_new(regex, r->error, r->error_bytes);
            if (!stage.regex || !text_add_stage(r->t, &stage, r->error, r->error_bytes)) {
                text_regex_free(stage.regex);
                return false;
            }
            return true;
        }
        if (!text_add_pattern(r->t, regex, r->error, r->error_bytes))
            return false;
        r->t->stage[r->t->stages - 1].behavior = stage.behavior;
        r->t->stage[r->t->stages - 1].invert = stage.invert;
        return true;
    }
    if (!text_json_bytes(literal))
        return refuse(r, "pre_tokenizer: a Split needs a pattern, {\"Regex\": ...} or {\"String\": ...}");
    stage.literal = text_arena_copy(&r->t->arena, text_json_text(literal), text_json_bytes(literal));
    stage.literal_bytes = text_json_bytes(literal);
    return stage.literal ? text_add_stage(r->t, &stage, r->error, r->error_bytes)
                         : refuse(r, "out of memory");
}

static bool read_byte_level(struct reading *r, text_json_value step) {
    if (flag(step, "add_prefix_space", true) &&
        !text_add_stage(r->t, &(struct text_stage){0}, r->error, r->error_bytes))
        return false;
    return !flag(step, "use_regex", true) ||
           text_add_stage(r->t, &(struct text_stage){.scan = text_pattern_find(NULL, "gpt2")->scan}, r->error,
                          r->error_bytes);
}

static bool read_steps(struct reading *r, text_json_value step, int *byte_levels) {
    const char *type = text_json_text_of(step, "type");
    if (*byte_levels > 0)
        return refuse(r, "pre_tokenizer: ByteLevel must be the last step");
    if (!strcmp(type, "Sequence")) {
        text_json_value list = text_json_get(step, "pretokenizers");
        for (int i = 0; i < text_json_count(list); i++)
            if (!read_steps(r, text_json_at(list, i), byte_levels))
                return false;
        return true;
    }
    if (!strcmp(type, "Split"))
        return read_split(r, step);
    if (!strcmp(type, "Digits")) {
        struct text_stage stage = {.scan = flag(step, "individual_digits", false) ? text_scan_digits
                                                                                  : text_scan_digit_runs};
        return text_add_stage(r->t, &stage, r->error, r->error_bytes);
    }
    if (strcmp(type, "ByteLevel") != 0)
        return refuse(r, "pre_tokenizer.type is '%.60s': Split, Digits, ByteLevel and Sequence are known",
                      type);
    ++*byte_levels;
    return read_byte_level(r, step);
}

static bool read_pre_tokenizer(struct reading *r, text_json_value step) {
    int byte_levels = 0;
    if (absent(step))
        return refuse(r, "pre_tokenizer is missing: a byte-level tokenizer has a ByteLevel there");
    return read_steps(r, step, &byte_levels) &&
           (byte_levels > 0 ||
            refuse(r, "pre_tokenizer has no ByteLevel: only byte-level tokenizers are known"));
}

// Appends the ids of a special token that a template names.
static bool read_special(struct reading *r, text_json_value tokens, const char *name, int *ids, int *count,
                         int most) {
    text_json_value list = text_json_get(text_json_get(tokens, name), "ids");
    if (text_json_count(list) == 0)
        return refuse(r, "post_processor.special_tokens['%.60s'] has no ids", name);
    for (int i = 0; i < text_json_count(list); i++) {
        int64_t id = text_json_integer(text_json_at(list, i));
        if (*count == most || id < 0 || id >= r->t->count || !r->t->token[id].there)
            return refuse(r, "post_processor.special_tokens['%.60s'].ids[%d]: no such token, or too many",
                          name, i);
        ids[(*count)++] = (int)id;
    }
    return true;
}

static bool read_template(struct reading *r, text_json_value step) {
    enum { MOST = 16 };
    text_json_value single = text_json_get(step, "single"), tokens = text_json_get(step, "special_tokens");
    struct text_tokenizer *t = r->t;
    bool is_suffix = false;
    t->prefix = text_arena_get(&t->arena, sizeof *t->prefix * MOST);
    t->suffix = text_arena_get(&t->arena, sizeof *t->suffix * MOST);
    if (!t->prefix || !t->suffix)
        return refuse(r, "out of memory");
    for (int i = 0; i < text_json_count(single); i++) {
        text_json_value item = text_json_at(single, i), special = text_json_get(item, "SpecialToken");
        if (special) {
            if (!read_special(r, tokens, text_json_text_of(special, "id"), is_suffix ? t->suffix : t->prefix,
                              is_suffix ? &t->suffix_count : &t->prefix_count, MOST))
                return false;
        } else if (is_suffix || strcmp(text_json_text_of(text_json_get(item, "Sequence"), "id"), "A") != 0)
            return refuse(r, "post_processor.single[%d] must be a SpecialToken, or the one Sequence A", i);
        else
            is_suffix = true;
    }
    return is_suffix || refuse(r, "post_processor.single has no Sequence A");
}

static bool read_post_processor(struct reading *r, text_json_value step) {
    const char *type = text_json_text_of(step, "type");
    if (absent(step) || !strcmp(type, "ByteLevel")) // ByteLevel only changes offsets
        return true;
    if (!strcmp(type, "TemplateProcessing"))
        return r->t->prefix ? refuse(r, "post_processor: more than one TemplateProcessing")
                            : read_template(r, step);
    text_json_value list = text_json_get(step, "processors");
    if (strcmp(type, "Sequence") != 0)
        return refuse(
            r, "post_processor.type is '%.60s': ByteLevel, TemplateProcessing and Sequence are known", type);
    for (int i = 0; i < text_json_count(list); i++)
        if (!read_post_processor(r, text_json_at(list, i)))
            return false;
    return true;
}

static bool read_decoder(struct reading *r, text_json_value step) {
    const char *type = text_json_text_of(step, "type");
    return !strcmp(type, "ByteLevel") || refuse(r, "decoder.type is '%.60s': only ByteLevel is known", type);
}

static bool fill_by_bytes(struct reading *r) {
    if (!r->t->whole_pieces)
        return true;
    bool ok = text_map_reserve(&r->t->by_bytes, r->vocabulary.count);
    for (size_t i = 0; ok && i < r->vocabulary.count; i++) {
        const struct text_token *token = &r->t->token[r->vocabulary.entry[i].value];
        ok = text_map_put(&r->t->by_bytes, token->data, token->bytes, r->vocabulary.entry[i].value);
    }
    return ok || refuse(r, "out of memory");
}

bool text_open_json(struct text_tokenizer *t, text_json_value root, char *error, size_t error_bytes) {
    struct reading r = {.t = t, .error = error, .error_bytes = error_bytes};
    bool ok = read_model(&r, text_json_get(root, "model")) &&
              read_added(&r, text_json_get(root, "added_tokens")) &&
              read_normalizer(&r, text_json_get(root, "normalizer")) &&
              read_pre_tokenizer(&r, text_json_get(root, "pre_tokenizer")) &&
              read_post_processor(&r, text_json_get(root, "post_processor")) &&
              read_decoder(&r, text_json_get(root, "decoder")) && fill_by_bytes(&r);
    text_map_free(&r.vocabulary);
    return ok;
}
