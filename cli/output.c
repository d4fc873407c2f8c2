// output.c - colours for terminals, JSON for programs.

#include "cli.h"

#include <inttypes.h>
#include <math.h>
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

enum { DEPTH_MOST = 16 };

static struct {
    char closing[DEPTH_MOST];
    bool has_items[DEPTH_MOST];
    int depth;
} json;

static void write_string(const char *value) {
    putchar('"');
    for (const unsigned char *at = (const unsigned char *)value; *at; at++) {
        if (*at == '"' || *at == '\\')
            printf("\\%c", *at);
        else if (*at == '\n')
            printf("\\n");
        else if (*at < ' ' || *at == 127)
            printf("\\u%04x", *at);
        else
            putchar(*at);
    }
    putchar('"');
}

static void start_item(const char *key) {
    if (json.depth > 0) {
        printf("%s\n%*s", json.has_items[json.depth - 1] ? "," : "", 2 * json.depth, "");
        json.has_items[json.depth - 1] = true;
    }
    if (key) {
        write_string(key);
        printf(": ");
    }
}

void cli_json_open(const char *key, char bracket) {
    start_item(key);
    putchar(bracket);
    if (json.depth == DEPTH_MOST)
        abort(); // our own documents are a few levels deep
    json.closing[json.depth] = bracket == '{' ? '}' : ']';
    json.has_items[json.depth++] = false;
}

void cli_json_close(void) {
    json.depth--;
    if (json.has_items[json.depth])
        printf("\n%*s", 2 * json.depth, "");
    putchar(json.closing[json.depth]);
    if (json.depth == 0)
        putchar('\n');
}

void cli_json_text(const char *key, const char *value) {
    start_item(key);
    if (value)
        write_string(value);
    else
        printf("null");
}

void cli_json_int(const char *key, int64_t value) {
    start_item(key);
    printf("%" PRId64, value);
}

void cli_json_number(const char *key, double value) {
    start_item(key);
    if (isfinite(value))
        printf("%.17g", value);
    else
        printf("null");
}

void cli_json_bool(const char *key, bool value) {
    start_item(key);
    printf(value ? "true" : "false");
}
