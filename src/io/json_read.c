// json_read.c - reads JSON piece by piece, for callers that know its structure.

#include "io/io.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 };

// Returns the next byte, or -1 at the end.
static int peek(const struct json *j) {
    return j->in.at < j->end ? j->in.blob->data[j->in.at] : -1;
}

static void skip_blanks(struct json *j) {
    for (int c = peek(j); c == ' ' || c == '\n' || c == '\r' || c == '\t'; c = peek(j))
        j->in.at++;
}

static bool wrong(const struct json *j, const char *needed) {
    return blob_false(j->in.blob, "its JSON has no %s at byte %zu", needed, j->in.at);
}

bool json_is(struct json *j, char c) {
    skip_blanks(j);
    if (peek(j) != (unsigned char)c)
        return false;
    j->in.at++;
    return true;
}

bool json_char(struct json *j, char c) {
    return json_is(j, c) || wrong(j, (char[]){'\'', c, '\'', 0});
}

static bool read_hex(struct json *j, unsigned *out) {
    *out = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek(j), digit = c >= '0' && c <= '9'                 ? c - '0'
                                 : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                                      : -1;
        if (digit < 0)
            return wrong(j, "hexadecimal digit");
        *out = *out << 4 | (unsigned)digit;
        j->in.at++;
    }
    return true;
}

static void add_utf8(struct text *out, unsigned c) {
    char s[4];
    int bytes = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = bytes - 1; i > 0; i--, c >>= 6)
        s[i] = (char)(0x80 | (c & 0x3f));
    s[0] = (char)(bytes == 1 ? c : (0xf00u >> bytes & 0xff) | c);
    text_bytes(out, s, bytes);
}

// Reads a character written as \u1234, or as a surrogate pair of two such escapes.
static bool read_unicode(struct json *j, struct text *out) {
    unsigned c, low;
    if (!read_hex(j, &c))
        return false;
    if (c >= 0xd800 && c < 0xdc00) {
        if (!json_char(j, '\\') || !json_char(j, 'u') || !read_hex(j, &low) || low < 0xdc00 || low > 0xdfff)
            return wrong(j, "second half of a character");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c >= 0xdc00 && c < 0xe000) {
        return wrong(j, "first half of a character");
    }
    add_utf8(out, c);
    return true;
}

static bool read_escape(struct json *j, struct text *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek(j);
    j->in.at++;
    if (c == 'u')
        return read_unicode(j, out);
    const char *found = c > 0 ? memchr(from, c, sizeof from - 1) : NULL;
    if (!found)
        return wrong(j, "known escape");
    text_bytes(out, to + (found - from), 1);
    return true;
}

bool json_text(struct json *j, struct text *out) {
    out->len = 0;
    text_bytes(out, "", 0);
    if (!json_char(j, '"'))
        return false;
    for (int c = peek(j); c != '"'; c = peek(j)) {
        if (c < 0x20)
            return wrong(j, "end of a text");
        j->in.at++;
        if (c != '\\')
            text_bytes(out, &(char){(char)c}, 1);
        else if (!read_escape(j, out))
            return false;
    }
    j->in.at++;
    return !out->failed;
}

bool json_size(struct json *j, uint64_t *out) {
    skip_blanks(j);
    *out = 0;
    size_t start = j->in.at;
    for (int c = peek(j); c >= '0' && c <= '9'; c = peek(j)) {
        if (*out > (INT64_MAX - 9) / 10)
            return wrong(j, "number that fits 63 bits");
        *out = *out * 10 + (uint64_t)(c - '0');
        j->in.at++;
    }
    return j->in.at > start || wrong(j, "whole number");
}

static bool is_word(struct json *j, const char *word) {
    size_t len = strlen(word);
    skip_blanks(j);
    if (j->end - j->in.at < len || memcmp(j->in.blob->data + j->in.at, word, len))
        return false;
    j->in.at += len;
    return true;
}

bool json_is_null(struct json *j) {
    return is_word(j, "null");
}

bool json_at_end(struct json *j) {
    skip_blanks(j);
    return peek(j) < 0;
}

bool json_flag(struct json *j, bool *out) {
    *out = is_word(j, "true");
    return *out || is_word(j, "false") || wrong(j, "true or false");
}

bool json_number(struct json *j, double *out) {
    char word[64];
    int len = 0;
    *out = (double)NAN;
    if (json_is_null(j))
        return true;
    for (int c = peek(j); len < (int)sizeof word - 1 && c > 0 && strchr("+-.0123456789eE", c); c = peek(j)) {
        word[len++] = (char)c;
        j->in.at++;
    }
    word[len] = 0;
    char *end;
    *out = strtod(word, &end);
    return (len && !*end) || wrong(j, "number");
}

bool json_object(struct json *j, bool (*member)(struct json *, const char *, int, void *), void *context) {
    struct text name = {0};
    bool ok = json_char(j, '{'), more = ok && !json_is(j, '}');
    while (ok && more) {
        ok = json_text(j, &name) && json_char(j, ':') && member(j, name.data, name.len, context);
        more = ok && json_is(j, ',');
        ok = ok && (more || json_char(j, '}'));
    }
    text_free(&name);
    return ok;
}

static bool skip_member(struct json *j, const char *name, int len, void *context) {
    (void)name, (void)len, (void)context;
    return json_skip(j);
}

bool json_list(struct json *j, bool (*item)(struct json *, void *), void *context) {
    if (!json_char(j, '['))
        return false;
    if (json_is(j, ']'))
        return true;
    do
        if (!item(j, context))
            return false;
    while (json_is(j, ','));
    return json_char(j, ']');
}

static bool skip_item(struct json *j, void *context) {
    (void)context;
    return json_skip(j);
}

// Skips a number, true, false or null, without checking its spelling.
static bool skip_word(struct json *j) {
    size_t start = j->in.at;
    for (int c = peek(j);
         c > 0 && (strchr("+-.", c) || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'));
         c = peek(j))
        j->in.at++;
    return j->in.at > start || wrong(j, "value");
}

static bool skip_any(struct json *j) {
    struct text text = {0};
    skip_blanks(j);
    if (peek(j) == '{')
        return json_object(j, skip_member, NULL);
    if (peek(j) == '[')
        return json_list(j, skip_item, NULL);
    if (peek(j) != '"')
        return skip_word(j);
    bool ok = json_text(j, &text);
    text_free(&text);
    return ok;
}

bool json_skip(struct json *j) {
    if (j->depth == DEEPEST)
        return blob_false(j->in.blob, "its JSON is more than %d levels deep", DEEPEST);
    j->depth++;
    bool ok = skip_any(j);
    j->depth--;
    return ok;
}
