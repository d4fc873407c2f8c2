// render_cases.c - renders many templates in one process, for oracles in Python: on standard input pairs of a
// template and its variables in JSON, each ended by a NUL; for each on standard output "+", the text and a
// NUL, or "-", the error and a NUL.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/text.h"

static void render(const char *source, const char *json) {
    char error[1024] = "";
    size_t bytes = 0;
    char *text = NULL;
    text_json_value variables = text_json_parse(json, strlen(json), "variables", error, sizeof error);
    struct text_template *t =
        variables ? text_template_new(source, strlen(source), "template", error, sizeof error) : NULL;
    struct text_render_options how = {.variables = {variables}, .most_steps = 1000000};
    if (t)
        text = text_render(t, &how, &bytes, error, sizeof error);
    putchar(text ? '+' : '-');
    if (text)
        fwrite(text, 1, bytes, stdout);
    else
        fputs(error, stdout);
    putchar(0);
    free(text);
    text_template_free(t);
    text_json_free(variables);
}

int main(void) {
    char error[256];
    size_t bytes;
    char *all = text_read_file("-", &bytes, error, sizeof error);
    if (!all) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    for (char *at = all; at < all + bytes;) {
        char *json = at + strlen(at) + 1;
        if (json >= all + bytes)
            break;
        render(at, json);
        at = json + strlen(json) + 1;
    }
    free(all);
    return 0;
}
