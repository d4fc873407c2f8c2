// output.c - prints colours on terminals, and JSON for programs.

#include "cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *escape(const char *sequence) {
    static int wanted = -1;
    if (wanted < 0) {
        const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
        wanted =
            isatty(STDOUT_FILENO) && !(no_color && no_color[0]) && terminal && strcmp(terminal, "dumb") != 0;
    }
    return wanted ? sequence : "";
}

const char *cli_bold(void) {
    return escape("\033[1m");
}
const char *cli_green(void) {
    return escape("\033[32m");
}
const char *cli_dim(void) {
    return escape("\033[2m");
}
const char *cli_plain(void) {
    return escape("\033[0m");
}

// Cleaning --------------------------------------------------------------------------------------------------

// Returns the bytes of the UTF-8 character at `at`, and sets *code; 0 if it is not valid.
static int decode(const unsigned char *at, unsigned *code) {
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    int bytes = at[0] < 0x80 ? 1 : at[0] >> 5 == 6 ? 2 : at[0] >> 4 == 14 ? 3 : at[0] >> 3 == 30 ? 4 : 0;
    *code = bytes == 1 ? at[0] : at[0] & (0x7fu >> bytes);
    for (int i = 1; i < bytes; i++) {
        if (at[i] >> 6 != 2)
            return 0;
        *code = *code << 6 | (at[i] & 63u);
    }
    bool is_surrogate = *code >= 0xd800 && *code < 0xe000;
    return bytes && *code >= least[bytes] && *code <= 0x10ffff && !is_surrogate ? bytes : 0;
}

static bool is_control(unsigned code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029;
}

static bool is_reversing(unsigned code) {
    return code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

void cli_clean(char *text, bool lines) {
    unsigned code;
    for (unsigned char *at = (unsigned char *)text; *at;) {
        int bytes = decode(at, &code);
        bool is_space = *at == '\n' || *at == '\t';
        if (is_space && !lines)
            *at = ' ';
        else if (!is_space && (!bytes || is_control(code) || is_reversing(code)))
            memset(at, '?', (size_t)(bytes ? bytes : 1));
        at += bytes ? bytes : 1;
    }
}

// JSON ------------------------------------------------------------------------------------------------------

enum { DEPTH_MOST = 16 };

static struct {
    char closing[DEPTH_MOST];
    bool has_items[DEPTH_MOST];
    int depth;
    FILE *file; // NULL: standard output
    bool one_line;
} json;

void cli_json_to(FILE *out, bool one_line) {
    json.file = out;
    json.one_line = one_line;
}

static FILE *json_file(void) {
    return json.file ? json.file : stdout;
}

__attribute__((format(printf, 1, 2))) static void print(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vfprintf(json_file(), format, list);
    va_end(list);
}

static void put(int letter) {
    putc(letter, json_file());
}

void cli_put_string(FILE *out, const char *text) {
    putc('"', out);
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else if (*at == '\n')
            fputs("\\n", out);
        else if (*at < ' ' || *at == 127)
            fprintf(out, "\\u%04x", *at);
        else
            putc(*at, out);
    }
    putc('"', out);
}

static void write_string(const char *value) {
    cli_put_string(json_file(), value);
}

static void new_line(void) {
    if (!json.one_line)
        print("\n%*s", 2 * json.depth, "");
}

static void start_item(const char *key) {
    if (json.depth > 0) {
        print("%s", json.has_items[json.depth - 1] ? "," : "");
        new_line();
        json.has_items[json.depth - 1] = true;
    }
    if (key) {
        write_string(key);
        print(": ");
    }
}

void cli_json_open(const char *key, char bracket) {
    start_item(key);
    put(bracket);
    if (json.depth == DEPTH_MOST)
        abort(); // the documents of this program have only a few levels
    json.closing[json.depth] = bracket == '{' ? '}' : ']';
    json.has_items[json.depth++] = false;
}

void cli_json_close(void) {
    json.depth--;
    if (json.has_items[json.depth])
        new_line();
    put(json.closing[json.depth]);
    if (json.depth == 0)
        put('\n');
}

void cli_json_text(const char *key, const char *value) {
    start_item(key);
    if (value)
        write_string(value);
    else
        print("null");
}

void cli_json_int(const char *key, int64_t value) {
    start_item(key);
    print("%" PRId64, value);
}

void cli_json_number(const char *key, double value) {
    start_item(key);
    if (isfinite(value))
        print("%.17g", value);
    else
        print("null");
}

void cli_json_bool(const char *key, bool value) {
    start_item(key);
    print("%s", value ? "true" : "false");
}
