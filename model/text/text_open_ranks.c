// text_open_ranks.c - reads rank files in tiktoken's format: per line a token in base 64 and its rank. The
// rank of a token is its id, and neighbours are merged in the order of the rank of the token that they form.

#include "text_inside.h"

static int digit_of(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

// Decodes base 64 up to a blank. Returns false if it is invalid.
static bool decode(const char *at, const char *end, char *out, size_t *bytes) {
    uint32_t bits = 0;
    int held = 0;
    size_t count = 0;
    const char *stop = end;
    while (stop > at && end - stop < 2 && stop[-1] == '=')
        stop--;
    for (; at < stop; at++) {
        int digit = digit_of(*at);
        if (digit < 0)
            return false;
        bits = bits << 6 | (uint32_t)digit;
        if ((held += 6) >= 8) {
            held -= 8;
            out[count++] = (char)(bits >> held);
        }
    }
    *bytes = count;
    return count > 0;
}

static bool read_line(struct text_tokenizer *t, const char *at, const char *end, int line, char *error,
                      size_t error_bytes) {
    const char *blank = memchr(at, ' ', (size_t)(end - at));
    char *data = blank ? text_arena_get(&t->arena, (size_t)(blank - at) + 1) : NULL, *rest = NULL;
    size_t bytes;
    if (!blank || !data || !decode(at, blank, data, &bytes))
        return text_fail(error, error_bytes,
                         "%.300s:%d: a line must be a token in base 64, a blank and its rank", t->name, line);
    data[bytes] = 0;
    long long rank = strtoll(blank + 1, &rest, 10);
    if (rest == blank + 1 || rest != end || rank < 0 || rank >= TEXT_MOST_TOKENS)
        return text_fail(error, error_bytes, "%.300s:%d: the rank must be a whole number from 0 to %d",
                         t->name, line, TEXT_MOST_TOKENS - 1);
    if ((rank < t->count && t->token[rank].there) || text_map_get(&t->by_bytes, data, bytes) >= 0)
        return text_fail(error, error_bytes, "%.300s:%d: the rank %lld, or its token, comes twice", t->name,
                         line, rank);
    if (!text_set_token(t, rank, data, bytes, error, error_bytes))
        return false;
    if (bytes == 1)
        t->byte_id[(unsigned char)data[0]] = (int)rank;
    return text_map_put(&t->by_bytes, data, bytes, (uint32_t)rank) ||
           text_fail(error, error_bytes, "%.300s: out of memory", t->name);
}

static bool add_named_pattern(struct text_tokenizer *t, const char *pattern, char *error,
                              size_t error_bytes) {
    const struct text_pattern *known = pattern ? text_pattern_find(NULL, pattern) : NULL;
    if (known) {
        bool normal = !strncmp(pattern, "qwen", 4); // the tokenizers of both models with such names normalise
                                                    // first
        t->form = normal ? TEXT_NFC : TEXT_AS_IS;
        return text_add_stage(t, &(struct text_stage){.scan = known->scan}, error, error_bytes);
    }
    if (pattern)
        return text_add_pattern(t, pattern, error, error_bytes);
    struct text_buffer names = {0};
    for (int i = 0; text_pattern_name(i); i++)
        if ((i && !text_buffer_text(&names, ", ")) || !text_buffer_text(&names, text_pattern_name(i)))
            break;
    text_fail(
        error, error_bytes,
        "%.300s: a rank file does not say how texts are split: choose one of %s, or a regular expression",
        t->name, names.data ? names.data : "");
    free(names.data);
    return false;
}

bool text_open_ranks(struct text_tokenizer *t, const char *text, size_t bytes, const char *pattern,
                     char *error, size_t error_bytes) {
    const char *end = text + bytes;
    int line = 1;
    for (const char *at = text, *next; at < end; at = next + 1, line++) {
        next = memchr(at, '\n', (size_t)(end - at));
        next = next ? next : end;
        const char *stop = next > at && next[-1] == '\r' ? next - 1 : next;
        if (stop > at && !read_line(t, at, stop, line, error, error_bytes))
            return false;
    }
    if (t->count == 0)
        return text_fail(error, error_bytes,
                         "%.300s: it is neither a tokenizer.json, nor GGUF, nor has it ranks", t->name);
    t->whole_pieces = true;
    for (int byte = 0; byte < 256; byte++)
        if (t->byte_id[byte] < 0)
            return text_fail(error, error_bytes, "%.300s: no rank is that of the byte %d alone", t->name,
                             byte);
    if (!add_named_pattern(t, pattern, error, error_bytes))
        return false;
    return text_bpe_pairs_of_ranks(t) || text_fail(error, error_bytes, "%.300s: out of memory", t->name);
}
