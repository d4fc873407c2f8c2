// lex.c - splits the text form into tokens.

#include "tile/syntax.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_NUMBER = 100 };

static bool is_name_char(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static void advance(struct tile_lexer *l, int chars) {
    for (; chars > 0; chars--, l->at++) {
        bool is_line_end = *l->at == '\n';
        l->place.line += is_line_end;
        l->place.column = is_line_end ? 1 : l->place.column + 1;
    }
}

static void skip_blanks(struct tile_lexer *l) {
    for (;;) {
        int blanks = (int)strspn(l->at, " \t\r\n;");
        if (!blanks && *l->at != '#')
            return;
        advance(l, *l->at == '#' ? (int)strcspn(l->at, "\n") : blanks);
    }
}

static struct tile_token bad(struct tile_token token, const char *why) {
    token.kind = TOKEN_BAD;
    token.text = why;
    return token;
}

static struct tile_token take(struct tile_lexer *l, struct tile_token token, enum tile_token_kind kind,
                              int len) {
    token.kind = kind;
    token.text = arena_text(l->arena, "%.*s", len, l->at);
    advance(l, len);
    return token.text ? token : bad(token, "out of memory");
}

// Numbers ---------------------------------------------------------------------------------------------------

static const char *skip_digits(const char *at, bool hex) {
    while (hex ? isxdigit((unsigned char)*at) : isdigit((unsigned char)*at))
        at++;
    return at;
}

// Returns the end of the digits at `at`, with fraction and exponent. The dots of 1..n are a range, not a
// fraction.
static const char *scan_number(const char *at, struct tile_literal *literal) {
    bool hex = at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    at = skip_digits(hex ? at + 2 : at, hex);
    if (at[0] == '.' && at[1] != '.') {
        literal->is_float = true;
        at = skip_digits(at + 1, hex);
    }
    bool has_exponent = hex ? *at == 'p' || *at == 'P' : *at == 'e' || *at == 'E';
    const char *digits = at + 1 + (has_exponent && (at[1] == '+' || at[1] == '-'));
    if (!has_exponent || !isdigit((unsigned char)*digits))
        return at;
    literal->is_float = true;
    return skip_digits(digits, false);
}

static struct tile_token lex_number(struct tile_lexer *l, struct tile_token token) {
    struct tile_literal *literal = &token.literal;
    const char *end = scan_number(l->at, literal), *rest = end;
    while (is_name_char(*rest))
        rest++;
    if (rest - l->at > LONGEST_NUMBER)
        return bad(token, "a number of more than 100 characters");
    token = take(l, token, TOKEN_NUMBER, (int)(rest - l->at));
    if (token.kind == TOKEN_BAD)
        return token;
    literal = &token.literal;
    literal->text = token.text;
    literal->len = (int)strlen(token.text) - (int)(rest - end);
    literal->has_type = rest > end;
    if (literal->has_type && !tile_type_find(token.text + literal->len, &literal->type))
        return bad(token, "a number with letters that name no type");
    return token;
}

// Reads a word that is a number, such as inf, nan, true, false, inf_f32 or nan_f16(0x7e01).
static struct tile_token lex_number_word(struct tile_lexer *l, struct tile_token token) {
    struct tile_literal *literal = &token.literal;
    const char *suffix = strchr(token.text, '_');
    token.kind = TOKEN_NUMBER;
    *literal = (struct tile_literal){.text = token.text, .is_word = true};
    literal->len = (int)(suffix ? suffix - token.text : (ptrdiff_t)strlen(token.text));
    literal->is_float = token.text[0] == 'i' || token.text[0] == 'n';
    literal->has_type = suffix || !literal->is_float;
    literal->type = (struct tile_type){TILE_BOOL, 1, 1};
    if (suffix)
        tile_type_find(suffix + 1, &literal->type);
    if (token.text[0] != 'n' || *l->at != '(')
        return token;
    char *end;
    literal->payload = strtoull(l->at + 1, &end, 0);
    literal->has_payload = true;
    if (end == l->at + 1 || *end != ')')
        return bad(token, "a nan whose bits do not end in ')'");
    advance(l, (int)(end + 1 - l->at));
    return token;
}

static bool is_number_word(const char *text) {
    size_t len = strcspn(text, "_");
    bool is_truth = !strcmp(text, "true") || !strcmp(text, "false");
    return is_truth ||
           (len == 3 && (!strncmp(text, "inf", 3) || !strncmp(text, "nan", 3)) && tile_is_word(text));
}

// Names, strings, signs -------------------------------------------------------------------------------------

static struct tile_token lex_name(struct tile_lexer *l, struct tile_token token) {
    int len = 1;
    while (is_name_char(l->at[len]))
        len++;
    token = take(l, token, TOKEN_NAME, len);
    return token.kind == TOKEN_NAME && is_number_word(token.text) ? lex_number_word(l, token) : token;
}

static struct tile_token lex_string(struct tile_lexer *l, struct tile_token token) {
    const char *end = l->at + 1;
    while (*end && *end != '"' && *end != '\n')
        end += *end == '\\' && end[1] ? 2 : 1;
    if (*end != '"')
        return bad(token, "a text that does not end on its line");
    char *text = arena_alloc(l->arena, (size_t)(end - l->at)), *out = text;
    if (!text)
        return bad(token, "out of memory");
    for (const char *at = l->at + 1; at < end; at++)
        if (*at == '\\')
            *out++ = *++at == 'n' ? '\n' : *at;
        else
            *out++ = *at;
    token.kind = TOKEN_STRING;
    token.text = text;
    advance(l, (int)(end + 1 - l->at));
    return token;
}

static struct tile_token lex_sign(struct tile_lexer *l, struct tile_token token) {
    static const char *const two[] = {"->", "..", "==", "!=", "<=", "<<", ">=", ">>", "//"};
    for (size_t i = 0; i < COUNT(two); i++)
        if (!strncmp(l->at, two[i], 2))
            return take(l, token, TOKEN_SIGN, 2);
    if (strchr("()[]{},:=<>+-*/%&|^!", *l->at))
        return take(l, token, TOKEN_SIGN, 1);
    return bad(token, "a character that means nothing here");
}

struct tile_token tile_lex(struct tile_lexer *l) {
    skip_blanks(l);
    struct tile_token token = {.kind = TOKEN_END, .place = l->place, .text = "the end"};
    char c = *l->at;
    if (!c)
        return token;
    if (isdigit((unsigned char)c))
        return lex_number(l, token);
    if (isalpha((unsigned char)c) || c == '_')
        return lex_name(l, token);
    return c == '"' ? lex_string(l, token) : lex_sign(l, token);
}
