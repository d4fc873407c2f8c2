// text_tokenizer.c - encodes a text to ids: finds added tokens, normalises, splits into pieces, and merges.

#include "text_inside.h"

enum { PROGRESS_BYTES = 1 << 20 };

struct text_encoder {
    text_tokenizer t;
    struct text_bpe_memory *memory;
    void *regex_memory[TEXT_MOST_STAGES];
    struct text_buffer normal;
    // Of the call that runs:
    const struct text_encode_options *options;
    struct text_ids *out;
    size_t done, all, reported;
    char *error;
    size_t error_bytes;
};

struct text_encoder *text_encoder_new(text_tokenizer t, char *error, size_t error_bytes) {
    struct text_encoder *e = calloc(1, sizeof *e);
    if (e && (e->memory = text_bpe_memory_new())) {
        e->t = t;
        return e;
    }
    free(e);
    text_fail(error, error_bytes, "out of memory");
    return NULL;
}

void text_encoder_free(struct text_encoder *e) {
    if (!e)
        return;
    text_bpe_memory_free(e->memory);
    for (int i = 0; i < TEXT_MOST_STAGES; i++)
        text_regex_free_memory(e->regex_memory[i]);
    free(e->normal.data);
    free(e);
}

static bool out_of_memory(struct text_encoder *e) {
    return text_fail(e->error, e->error_bytes, "out of memory");
}

// Splitting -------------------------------------------------------------------------------------------------

static bool run_stage(struct text_encoder *e, int stage, const char *data, size_t bytes);

static bool merge_piece(struct text_encoder *e, const char *data, size_t bytes) {
    if (!text_bpe(e->t, e->memory, (const unsigned char *)data, bytes, e->out))
        return out_of_memory(e);
    e->done += bytes;
    if (e->options->progress && e->done - e->reported >= PROGRESS_BYTES) {
        e->reported = e->done;
        if (!e->options->progress(e->options->context, e->done < e->all ? e->done : e->all, e->all))
            return text_fail(e->error, e->error_bytes, "given up after %zu of %zu bytes", e->done, e->all);
    }
    return true;
}

static bool scan(struct text_encoder *e, int stage, const char *data, size_t bytes) {
    const unsigned char *at = (const unsigned char *)data, *end = at + bytes;
    text_scan first = e->t->stage[stage].scan;
    bool is_last = stage + 1 == e->t->stages;
    while (at < end) {
        size_t piece = first(at, end);
        bool ok = is_last ? merge_piece(e, (const char *)at, piece)
                          : run_stage(e, stage + 1, (const char *)at, piece);
        if (!ok)
            return false;
        at += piece;
    }
    return true;
}

// Finds the next match at or after `from`, with the results of text_regex_find; empty matches are skipped.
static int find_match(struct text_encoder *e, int stage, const char *data, size_t bytes, size_t from,
                      size_t *start, size_t *end) {
    const struct text_stage *s = &e->t->stage[stage];
    if (s->regex) {
        for (;; from++) {
            while (from < bytes && ((unsigned char)data[from] & 0xc0) == 0x80)
                from++;
            int found = text_regex_find(s->regex, &e->regex_memory[stage], data, bytes, from, start, end,
                                        e->error, e->error_bytes);
            if (found <= 0 || *end > *start)
                return found;
            from = *start;
            if (from >= bytes)
                return 0;
        }
    }
    const char *at = from < bytes ? memmem(data + from, bytes - from, s->literal, s->literal_bytes) : NULL;
    if (!at)
        return 0;
    *start = (size_t)(at - data);
    *end = *start + s->literal_bytes;
    return 1;
}

// A piece that may be joined with the next one; its bytes in the text are [from, to).
struct joiner {
    size_t from, to;
    bool is_match, there;
};

static bool pass_on(struct text_encoder *e, int stage, const char *data, struct joiner *j) {
    bool there = j->there && j->to > j->from;
    j->there = false;
    return !there || run_stage(e, stage + 1, data + j->from, j->to - j->from);
}

// Takes a match, or the text between two matches, in the order of the text.
static bool take(struct text_encoder *e, int stage, const char *data, struct joiner *j, size_t from,
                 size_t to, bool is_match) {
    enum text_behavior behavior = e->t->stage[stage].behavior;
    if (from == to)
        return true;
    bool joins = j->there && (behavior == TEXT_CONTIGUOUS             ? j->is_match == is_match
                              : behavior == TEXT_MERGED_WITH_PREVIOUS ? is_match && !j->is_match
                              : behavior == TEXT_MERGED_WITH_NEXT     ? j->is_match && !is_match
                                                                      : false);
    if (joins) {
        j->to = to;
        j->is_match = behavior == TEXT_CONTIGUOUS ? is_match : behavior == TEXT_MERGED_WITH_PREVIOUS;
        return true;
    }
    if (!pass_on(e, stage, data, j))
        return false;
    if (behavior != TEXT_REMOVED || !is_match)
        *j = (struct joiner){from, to, is_match, true};
    return true;
}

// Takes the matches in [from, to) and what is between them.
static bool split_stretch(struct text_encoder *e, int stage, const char *data, size_t from, size_t to,
                          struct joiner *j) {
    bool invert = e->t->stage[stage].invert;
    size_t at = from, start, end;
    for (;;) {
        int found = find_match(e, stage, data + from, to - from, at - from, &start, &end);
        if (found < 0)
            return false;
        if (!found)
            break;
        start += from, end += from;
        if (!take(e, stage, data, j, at, start, invert) || !take(e, stage, data, j, start, end, !invert))
            return false;
        at = end;
    }
    return take(e, stage, data, j, at, to, invert);
}

// Expressions match within stretches of UTF-8. A byte between these is part of no match.
static bool split(struct text_encoder *e, int stage, const char *data, size_t bytes) {
    struct joiner j = {0};
    const struct text_stage *s = &e->t->stage[stage];
    for (size_t at = 0, to; at < bytes; at = to) {
        to = at + (s->regex ? text_utf8_stretch(data + at, bytes - at) : bytes - at);
        bool ok = to > at ? split_stretch(e, stage, data, at, to, &j)
                          : take(e, stage, data, &j, at, ++to, s->invert);
        if (!ok)
            return false;
    }
    return pass_on(e, stage, data, &j);
}

static bool put_space(struct text_encoder *e, int stage, const char *data, size_t bytes) {
    if (bytes == 0 || *data == ' ')
        return run_stage(e, stage + 1, data, bytes);
    struct text_buffer spaced = {0}; // stages nest
    bool ok = text_buffer_add(&spaced, " ", 1) && text_buffer_add(&spaced, data, bytes);
    ok = ok ? run_stage(e, stage + 1, spaced.data, spaced.bytes) : out_of_memory(e);
    free(spaced.data);
    return ok;
}

static bool run_stage(struct text_encoder *e, int stage, const char *data, size_t bytes) {
    if (stage == e->t->stages)
        return merge_piece(e, data, bytes);
    const struct text_stage *s = &e->t->stage[stage];
    return s->scan                        ? scan(e, stage, data, bytes)
           : s->regex || s->literal_bytes ? split(e, stage, data, bytes)
                                          : put_space(e, stage, data, bytes);
}

// Added tokens ----------------------------------------------------------------------------------------------

static bool add_token(void *context, int id) {
    struct text_encoder *e = context;
    if (!text_ids_room(e->out, 1))
        return out_of_memory(e);
    e->out->id[e->out->count++] = id;
    return true;
}

static bool add_normal(void *context, const char *data, size_t bytes) {
    return bytes == 0 || run_stage(context, 0, data, bytes);
}

static bool add_plain(void *context, const char *data, size_t bytes) {
    struct text_encoder *e = context;
    struct text_added_visitor visitor = {add_normal, add_token, e, e->options->plain_special};
    if (!text_is_normal(e->t->form, data, bytes)) {
        e->normal.bytes = 0;
        if (!text_normalize(e->t->form, data, bytes, &e->normal, e->error, e->error_bytes))
            return false;
        data = e->normal.data;
        bytes = e->normal.bytes;
    }
    return text_added_split(&e->t->normal, data, bytes, &visitor);
}

static bool add_ids(struct text_encoder *e, const int *id, int count) {
    for (int i = 0; i < count; i++)
        if (!add_token(e, id[i]))
            return false;
    return true;
}

bool text_encode(struct text_encoder *e, const char *text, size_t bytes,
                 const struct text_encode_options *options, struct text_ids *out, char *error,
                 size_t error_bytes) {
    static const struct text_encode_options defaults = {0};
    e->options = options ? options : &defaults;
    e->out = out;
    e->done = e->reported = 0;
    e->all = bytes;
    e->error = error;
    e->error_bytes = error_bytes;
    struct text_added_visitor visitor = {add_plain, add_token, e, e->options->plain_special};
    bool special = e->options->add_special;
    return (!special || add_ids(e, e->t->prefix, e->t->prefix_count)) &&
           text_added_split(&e->t->raw, text, bytes, &visitor) &&
           (!special || add_ids(e, e->t->suffix, e->t->suffix_count));
}

// Tokens ----------------------------------------------------------------------------------------------------

int text_token_count(text_tokenizer t) {
    return t->count;
}

int text_token_id(text_tokenizer t, const char *text) {
    size_t bytes = strlen(text);
    for (int i = 0; i < t->added_count; i++)
        if (t->added[i].bytes == bytes && !memcmp(t->added[i].text, text, bytes))
            return t->added[i].id;
    for (int id = 0; id < t->count; id++)
        if (t->token[id].there && t->token[id].bytes == bytes && !memcmp(t->token[id].data, text, bytes))
            return id;
    return -1;
}

const char *text_token_text(text_tokenizer t, int id, size_t *bytes) {
    bool there = id >= 0 && id < t->count && t->token[id].there;
    *bytes = there ? t->token[id].bytes : 0;
    return there ? t->token[id].data : NULL;
}

bool text_token_is_special(text_tokenizer t, int id) {
    return id >= 0 && id < t->count && t->token[id].special;
}

const char *text_tokenizer_bos(text_tokenizer t) {
    return t->bos;
}

const char *text_tokenizer_eos(text_tokenizer t) {
    return t->eos;
}

const char *text_chat_template(text_tokenizer t) {
    return t->chat_template;
}
