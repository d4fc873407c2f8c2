// text_chat_lex.c - splits the source of a template into tokens. Blanks are treated as by Jinja with
// trim_blocks and lstrip_blocks, which transformers sets: the end of line after a block or a comment is
// removed, and so are blanks between the start of a line and a block or a comment.

#include "text_chat.h"

#include <errno.h>

bool text_chat_fail(const struct text_template *t, size_t at, char *error, size_t error_bytes,
                    const char *format, va_list list) {
    char what[600];
    int line = 1, column = 1;
    for (size_t i = 0; i < at && i < t->bytes; i++) {
        column = t->source[i] == '\n' ? 1 : column + ((t->source[i] & 0xc0) != 0x80);
        line += t->source[i] == '\n';
    }
    vsnprintf(what, sizeof what, format, list);
    return text_fail(error, error_bytes, "%.300s:%d:%d: %s", t->name, line, column, what);
}

bool text_chat_wrong(struct text_template *t, size_t at, const char *format, ...) {
    va_list list;
    va_start(list, format);
    text_chat_fail(t, at, t->error, t->error_bytes, format, list);
    va_end(list);
    return false;
}

static bool push(struct text_template *t, struct token token) {
    struct token_list *l = &t->tokens;
    if (l->count == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 256;
        struct token *bigger = realloc(l->item, cap * sizeof *bigger);
        if (!bigger)
            return text_chat_wrong(t, token.at, "out of memory");
        l->item = bigger;
        l->cap = cap;
    }
    l->item[l->count++] = token;
    return true;
}

// Data between tags -----------------------------------------------------------------------------------------

static bool is_space_at(const struct text_template *t, size_t at, int *bytes) {
    int class;
    const unsigned char *data = (const unsigned char *)t->source;
    *bytes = text_next(data + at, data + t->bytes, &class);
    unsigned char c = data[at];
    return class & TEXT_SPACE || (c >= 0x1c && c <= 0x1f); // the separators that Python also counts as blanks
}

static size_t skip_spaces(const struct text_template *t, size_t at) {
    for (int bytes; at < t->bytes && is_space_at(t, at, &bytes); at += (size_t)bytes)
        ;
    return at;
}

static size_t strip_end(const struct text_template *t, size_t from, size_t to) {
    while (to > from) {
        size_t last = to - 1;
        int bytes;
        while (last > from && (t->source[last] & 0xc0) == 0x80)
            last--;
        if (!is_space_at(t, last, &bytes))
            break;
        to = last;
    }
    return to;
}

// Returns where data ends before a tag with this sign. line_start: the data begin a line.
static size_t end_of_data(const struct text_template *t, size_t from, size_t to, char sign, bool is_output,
                          bool line_start) {
    if (sign == '-')
        return strip_end(t, from, to);
    if (sign == '+' || is_output)
        return to;
    size_t at = to;
    while (at > from && (t->source[at - 1] == ' ' || t->source[at - 1] == '\t'))
        at--;
    bool begins = at > from ? t->source[at - 1] == '\n' : line_start;
    return begins ? at : to;
}

static bool push_data(struct text_template *t, size_t from, size_t to) {
    return to == from ||
           push(t,
                (struct token){.kind = TOKEN_DATA, .text = t->source + from, .bytes = to - from, .at = from});
}

// Tokens in tags --------------------------------------------------------------------------------------------

static bool is_name(unsigned char c) {
    return text_is_letter(c) || c == '_' || c >= 0x80;
}

static int hex(const char *at, const char *end, int digits, uint32_t *code) {
    *code = 0;
    for (int i = 0; i < digits; i++) {
        int c = at + i < end ? (unsigned char)at[i] | 32 : 0;
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return 0;
        *code = *code * 16 + (uint32_t)digit;
    }
    return digits;
}

// Decodes one escape sequence, after its backslash, and advances *to. Returns the bytes it takes. An unknown
// sequence stays, with its backslash.
static int unescape(const char *at, const char *end, char **to) {
    static const char from[] = "\\'\"abfnrtv", into[] = "\\'\"\a\b\f\n\r\t\v";
    const char *which = *at ? strchr(from, *at) : NULL;
    uint32_t code = 0;
    if (which) {
        *(*to)++ = into[which - from];
        return 1;
    }
    if (*at == '\n')
        return 1;
    int digits = *at == 'x' ? 2 : *at == 'u' ? 4 : *at == 'U' ? 8 : 0;
    if (digits && hex(at + 1, end, digits, &code) && code < 0x110000 && (code < 0xd800 || code >= 0xe000)) {
        *to += text_utf8_put(*to, code);
        return 1 + digits;
    }
    int octal = 0;
    while (octal < 3 && at + octal < end && at[octal] >= '0' && at[octal] <= '7')
        code = code * 8 + (uint32_t)(at[octal++] - '0');
    if (octal && *at >= '0' && *at <= '7') {
        *to += text_utf8_put(*to, code);
        return octal;
    }
    *(*to)++ = '\\';
    return 0;
}

static bool read_string(struct text_template *t, size_t *at) {
    const char *start = t->source + *at, *p = start + 1, *end = t->source + t->bytes;
    while (p < end && *p != *start)
        p += *p == '\\' && p + 1 < end ? 2 : 1;
    if (p >= end)
        return text_chat_wrong(t, *at, "a text has no end");
    char *text = text_arena_get(&t->arena, (size_t)(p - start) + 8), *to = text;
    if (!text)
        return text_chat_wrong(t, *at, "out of memory");
    for (const char *q = start + 1; q < p;)
        if (*q == '\\')
            q += 1 + unescape(q + 1, p, &to);
        else
            *to++ = *q++;
    *to = 0;
    struct token token = {.kind = TOKEN_TEXT, .text = text, .bytes = (size_t)(to - text), .at = *at};
    *at = (size_t)(p + 1 - t->source);
    return push(t, token);
}

static bool read_number(struct text_template *t, size_t *at) {
    char digits[64];
    size_t used = 0, from = *at;
    bool real = false;
    const char *s = t->source;
    int base = s[from] == '0' && (s[from + 1] | 32) == 'x'   ? 16
               : s[from] == '0' && (s[from + 1] | 32) == 'o' ? 8
               : s[from] == '0' && (s[from + 1] | 32) == 'b' ? 2
                                                             : 10;
    *at += base != 10 ? 2 : 0;
    for (;; ++*at) {
        unsigned char c = (unsigned char)s[*at], next = c ? (unsigned char)s[*at + 1] : 0;
        bool is_digit = text_is_digit(c) || (base == 16 && (c | 32) >= 'a' && (c | 32) <= 'f');
        bool is_point = base == 10 && c == '.' && !real && text_is_digit(next);
        bool is_exponent =
            base == 10 && (c | 32) == 'e' && used &&
            (text_is_digit(next) || ((next == '-' || next == '+') && text_is_digit(s[*at + 2])));
        if (c == '_' && text_is_digit(next))
            continue;
        if (!is_digit && !is_point && !is_exponent)
            break;
        real = real || is_point || is_exponent;
        if (used + 3 > sizeof digits)
            return text_chat_wrong(t, from, "a number is too long");
        digits[used++] = (char)c;
        if (is_exponent && !text_is_digit(next))
            digits[used++] = s[++*at];
        if (is_exponent)
            base = 11; // neither an exponent nor a point may follow
    }
    digits[used] = 0;
    errno = 0;
    struct token token = {.kind = real ? TOKEN_REAL : TOKEN_INTEGER, .at = from};
    if (real)
        token.real = strtod(digits, NULL);
    else
        token.integer = strtoll(digits, NULL, base > 10 && base != 16 ? 10 : base);
    if (!used || (!real && errno))
        return text_chat_wrong(t, from, "a number is not complete, or too large");
    return push(t, token);
}

static bool read_operator(struct text_template *t, size_t *at, int *open) {
    static const char *const known[] = {"==", "!=", "<=", ">=", "//", "**", "+", "-", "*", "/", "%", "~", "<",
                                        ">",  "=",  ".",  ",",  ":",  "|",  "(", ")", "[", "]", "{", "}"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t len = strlen(known[i]);
        if (strncmp(t->source + *at, known[i], len) != 0)
            continue;
        *open += strchr("([{", *known[i]) ? 1 : strchr(")]}", *known[i]) ? -1 : 0;
        if (*open < 0)
            return text_chat_wrong(t, *at, "'%s' closes nothing", known[i]);
        struct token token = {.kind = TOKEN_OPERATOR, .text = known[i], .bytes = len, .at = *at};
        *at += len;
        return push(t, token);
    }
    return text_chat_wrong(
        t, *at, "unexpected character '%.*s'",
        text_utf8_length((const unsigned char *)t->source + *at, (const unsigned char *)t->source + t->bytes),
        t->source + *at);
}

// Reads the inside of a tag, and moves *at past its end.
static bool read_tag(struct text_template *t, size_t *at, bool is_output) {
    const char *closing = is_output ? "}}" : "%}", *s = t->source;
    size_t begin = *at;
    int open = 0;
    for (;;) {
        *at = skip_spaces(t, *at);
        if (*at >= t->bytes)
            return text_chat_wrong(t, begin, "a tag has no end: %s is missing", closing);
        bool minus = s[*at] == '-', plus = !is_output && s[*at] == '+';
        if (!open && !strncmp(s + *at + (minus || plus), closing, 2)) {
            struct token token = {.kind = is_output ? TOKEN_OUTPUT_END : TOKEN_BLOCK_END, .at = *at};
            *at += 2 + (size_t)(minus || plus);
            if (minus)
                *at = skip_spaces(t, *at);
            else if (!is_output && !plus && s[*at] == '\n')
                ++*at;
            return push(t, token);
        }
        unsigned char c = (unsigned char)s[*at];
        bool ok;
        if (is_name(c)) {
            size_t from = *at;
            while (is_name((unsigned char)s[*at]) || text_is_digit(s[*at]))
                ++*at;
            char *name = text_arena_copy(&t->arena, s + from, *at - from);
            ok = name
                     ? push(t,
                            (struct token){.kind = TOKEN_NAME, .text = name, .bytes = *at - from, .at = from})
                     : text_chat_wrong(t, from, "out of memory");
        } else
            ok = c == '"' || c == '\'' ? read_string(t, at)
                 : text_is_digit(c)    ? read_number(t, at)
                                       : read_operator(t, at, &open);
        if (!ok)
            return false;
    }
}

// Returns whether the block at `at`, after {% and its sign, is this one word. Sets *end to the position after
// its %}.
static bool is_word_block(const struct text_template *t, size_t at, const char *word, size_t *end,
                          char *sign) {
    size_t len = strlen(word);
    at = skip_spaces(t, at);
    if (strncmp(t->source + at, word, len) != 0)
        return false;
    at = skip_spaces(t, at + len);
    *sign = t->source[at] == '-' || t->source[at] == '+' ? t->source[at] : 0;
    at += *sign != 0;
    *end = at + 2;
    return !strncmp(t->source + at, "%}", 2);
}

// Reads {% raw %}: everything up to {% endraw %} is data.
static bool read_raw(struct text_template *t, size_t begin, size_t *at, char sign) {
    size_t from = sign == '-' ? skip_spaces(t, *at) : *at;
    for (size_t p = from; p + 1 < t->bytes; p++) {
        if (strncmp(t->source + p, "{%", 2) != 0)
            continue;
        char before = t->source[p + 2] == '-' || t->source[p + 2] == '+' ? t->source[p + 2] : 0, after;
        size_t end;
        if (!is_word_block(t, p + 2 + (before != 0), "endraw", &end, &after))
            continue;
        size_t data_end = end_of_data(t, from, p, before, false, from > 0 && t->source[from - 1] == '\n');
        *at = after == '-' ? skip_spaces(t, end) : after != '+' && t->source[end] == '\n' ? end + 1 : end;
        return push_data(t, from, data_end);
    }
    return text_chat_wrong(t, begin, "{%% raw %%} has no {%% endraw %%}");
}

static bool read_comment(struct text_template *t, size_t begin, size_t *at) {
    const char *end = *at < t->bytes ? strstr(t->source + *at, "#}") : NULL;
    if (!end)
        return text_chat_wrong(t, begin, "a comment has no end: #} is missing");
    size_t stop = (size_t)(end - t->source);
    char sign = stop > *at ? t->source[stop - 1] : 0;
    *at = stop + 2;
    *at = sign == '-' ? skip_spaces(t, *at) : sign != '+' && t->source[*at] == '\n' ? *at + 1 : *at;
    return true;
}

bool text_chat_lex(struct text_template *t) {
    size_t at = 0, data = 0;
    bool line_start = true;
    while (at < t->bytes) {
        char second = t->source[at] == '{' ? t->source[at + 1] : 0;
        if (second != '{' && second != '%' && second != '#') {
            at++;
            continue;
        }
        size_t begin = at, end;
        char sign = t->source[at + 2], after;
        sign = sign == '-' || sign == '+' ? sign : 0;
        if (second == '{' && sign == '+')
            sign = 0; // an output has no such sign: this is an operator
        if (!push_data(t, data, end_of_data(t, data, at, sign, second == '{', line_start)))
            return false;
        at += 2 + (sign != 0);
        bool ok = true;
        if (second == '#')
            ok = read_comment(t, begin, &at);
        else if (second == '%' && is_word_block(t, at, "raw", &end, &after) && after != '+') {
            at = end;
            ok = read_raw(t, begin, &at, after);
        } else
            ok = push(t, (struct token){.kind = second == '{' ? TOKEN_OUTPUT : TOKEN_BLOCK, .at = begin}) &&
                 read_tag(t, &at, second == '{');
        if (!ok)
            return false;
        data = at;
        line_start = t->source[at - 1] == '\n';
    }
    return push_data(t, data, t->bytes) && push(t, (struct token){.kind = TOKEN_END, .at = t->bytes});
}
