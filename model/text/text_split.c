// text_split.c - hand-coded regular expressions of known tokenizers, which split texts into pieces.
//
// Each function finds the first piece of a text that is not empty. The alternatives of an expression are
// tried in their order; where one backtracks, the code has a comment on the result.

#include "text_inside.h"

enum { LINE_END = 64 }; // a class of this file: \r or \n

static int next(const unsigned char *at, const unsigned char *end, int *class) {
    int bytes = text_next(at, end, class);
    if (*at == '\r' || *at == '\n')
        *class |= LINE_END;
    return bytes;
}

// Returns the end of at most `most` characters of the given classes.
static const unsigned char *run(const unsigned char *at, const unsigned char *end, int classes, int most) {
    for (int class; at < end && most-- > 0;) {
        int bytes = text_next(at, end, &class);
        if (!(class & classes))
            break;
        at += bytes;
    }
    return at;
}

static const unsigned char *run_without(const unsigned char *at, const unsigned char *end, int classes) {
    for (int class; at < end;) {
        int bytes = text_next(at, end, &class);
        if (class & classes)
            break;
        at += bytes;
    }
    return at;
}

// Returns the length of \s+(?!\S)|\s+ at a space: of all spaces if the text ends with them, otherwise of all
// but the last of consecutive spaces.
static size_t spaces(const unsigned char *at, const unsigned char *end) {
    const unsigned char *last = at, *p = at;
    for (int class; p < end;) {
        int bytes = text_next(p, end, &class);
        if (!(class & TEXT_SPACE))
            return (size_t)((last > at ? last : p) - at);
        last = p;
        p += bytes;
    }
    return (size_t)(p - at);
}

// Returns the length of the contraction 's, 't, 're, 've, 'm, 'll or 'd whose apostrophe is at `at`, or 0 if
// there is none. any_case also accepts capitals, and U+017F (long s), whose capital is S.
static size_t contraction(const unsigned char *at, const unsigned char *end, bool any_case) {
    unsigned char fold = any_case ? 32 : 0;
    unsigned char a = end - at > 1 ? at[1] | fold : 0, b = end - at > 2 ? at[2] | fold : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l'))
        return 3;
    return any_case && end - at > 2 && at[1] == 0xc5 && at[2] == 0xbf ? 3 : 0;
}

// Returns the length of the first piece by this expression, in which `letters` and `digits` are arguments:
//     (?i:'s|…)|[^\r\n\p{L}\p{N}]?[letters]+|\p{N}{1,digits}|
//      ?[^\s letters \p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// Where `letters` includes marks, a mark counts as a letter even where it could be the optional first
// character.
static inline size_t scan_lines(const unsigned char *at, const unsigned char *end, int letters, int digits) {
    size_t short_word = *at == '\'' ? contraction(at, end, true) : 0;
    if (short_word)
        return short_word;
    int class, second = 0;
    const unsigned char *p = at + next(at, end, &class);
    if (class & letters)
        return (size_t)(run(p, end, letters, INT32_MAX) - at);
    if (class & TEXT_NUMBER)
        return (size_t)(run(p, end, TEXT_NUMBER, digits - 1) - at);
    int second_bytes = p < end ? text_next(p, end, &second) : 0;
    if (!(class & LINE_END) && second & letters)
        return (size_t)(run(p + second_bytes, end, letters, INT32_MAX) - at);
    int not_other = TEXT_SPACE | letters | TEXT_NUMBER;
    if (!(class & TEXT_SPACE) || (*at == ' ' && p < end && !(second & not_other))) {
        p = run_without(p, end, not_other);
        while (p < end && (*p == '\r' || *p == '\n'))
            p++;
        return (size_t)(p - at);
    }
    // \s*[\r\n]+ takes consecutive spaces up to the last end of line among them.
    const unsigned char *after_line = class & LINE_END ? p : NULL;
    for (; p < end;) {
        int bytes = next(p, end, &class);
        if (!(class & TEXT_SPACE))
            break;
        p += bytes;
        after_line = class & LINE_END ? p : after_line;
    }
    return after_line ? (size_t)(after_line - at) : spaces(at, end);
}

static size_t scan_qwen2(const unsigned char *at, const unsigned char *end) {
    return scan_lines(at, end, TEXT_LETTER, 1);
}

static size_t scan_qwen35(const unsigned char *at, const unsigned char *end) {
    return scan_lines(at, end, TEXT_LETTER | TEXT_MARK, 1);
}

static size_t scan_llama3(const unsigned char *at, const unsigned char *end) {
    return scan_lines(at, end, TEXT_LETTER, 3);
}

static size_t scan_gpt2(const unsigned char *at, const unsigned char *end) {
    size_t short_word = *at == '\'' ? contraction(at, end, false) : 0;
    if (short_word)
        return short_word;
    int class;
    const unsigned char *p = at + text_next(at, end, &class);
    if (*at == ' ' && p < end) {
        int second;
        int bytes = text_next(p, end, &second);
        if (!(second & TEXT_SPACE)) {
            class = second;
            p += bytes;
        }
    }
    if (class & TEXT_SPACE)
        return spaces(at, end);
    int same = class & (TEXT_LETTER | TEXT_NUMBER);
    p = same ? run(p, end, same, INT32_MAX) : run_without(p, end, TEXT_SPACE | TEXT_LETTER | TEXT_NUMBER);
    return (size_t)(p - at);
}

static size_t scan_until_digit(const unsigned char *at, const unsigned char *end, int most) {
    const unsigned char *p = run(at, end, TEXT_NUMBER, most);
    return (size_t)((p > at ? p : run_without(at, end, TEXT_NUMBER)) - at);
}

size_t text_scan_digits(const unsigned char *at, const unsigned char *end) {
    return scan_until_digit(at, end, 1);
}

size_t text_scan_digit_runs(const unsigned char *at, const unsigned char *end) {
    return scan_until_digit(at, end, INT32_MAX);
}

#define LINES(letters, others, digits)                                                                \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?" letters "+|\\p{N}" digits "| ?[^\\s" others \
    "\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct text_pattern patterns[] = {
    {"qwen2", LINES("\\p{L}", "\\p{L}", ""), scan_qwen2},
    {"qwen35", LINES("[\\p{L}\\p{M}]", "\\p{L}\\p{M}", ""), scan_qwen35},
    {"llama3", LINES("\\p{L}", "\\p{L}", "{1,3}"), scan_llama3},
    {"gpt2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", scan_gpt2},
};

const struct text_pattern *text_pattern_find(const char *regex, const char *name) {
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if ((regex && !strcmp(patterns[i].regex, regex)) || (name && !strcmp(patterns[i].name, name)))
            return &patterns[i];
    return NULL;
}

const char *text_pattern_name(int index) {
    return index >= 0 && (size_t)index < sizeof patterns / sizeof *patterns ? patterns[index].name : NULL;
}
