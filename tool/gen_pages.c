// gen_pages.c - reference pages: one for each hand-written header of include/ and model/, one for each family
// of ops, one for the settings.
//
// A header is read as paragraphs. The comment of a paragraph becomes prose, and its declarations a block of
// code, so that the contract is written only in the header.

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "op/op.h"
#include "tool/gen.h"

static bool starts(const char *line, const char *with) {
    return !strncmp(line, with, strlen(with));
}

// Returns a line of the text without its end, and moves *at past it.
static const char *next_line(char **at) {
    char *line = *at, *end = strchrnul(line, '\n');
    *at = *end ? end + 1 : end;
    *end = 0;
    return line;
}

// Returns the length of a section's title, as in "// Errors -----", or 0.
static int title_length(const char *line) {
    const char *dashes = strstr(line, " ---");
    return starts(line, "// ") && dashes ? (int)(dashes - line) - 3 : 0;
}

static bool is_machinery(const char *line) {
    return starts(line, "#if") || starts(line, "#e") || starts(line, "#include") ||
           starts(line, "extern \"C\"") ||
           (starts(line, "#define ZELLIGE") || starts(line, "#define ZL_API"));
}

struct paragraph {
    struct text prose, code;
    bool machinery; // include guards and similar lines for the preprocessor only
};

static void flush(struct text *out, struct paragraph *p) {
    if (p->prose.len)
        text_add(out, "%s\n", p->prose.data);
    if (p->code.len && !p->machinery)
        text_add(out, "```c\n%s```\n\n", p->code.data);
    text_free(&p->prose);
    text_free(&p->code);
    p->machinery = false;
}

// Appends a line of a comment. Lines with more indentation remain indented, as samples.
static void add_prose(struct text *prose, const char *line) {
    const char *words = line + (line[2] == ' ' ? 3 : 2);
    text_add(prose, "%s\n", words);
}

static void add_line(struct text *out, struct paragraph *p, const char *line) {
    int title = title_length(line);
    if (title) {
        flush(out, p);
        text_add(out, "## %.*s\n\n", title, line + 3);
    } else if (!*line) {
        flush(out, p);
    } else if (starts(line, "//") && !p->code.len) {
        add_prose(&p->prose, line);
    } else {
        p->machinery |= is_machinery(line);
        text_add(&p->code, "%s\n", starts(line, "ZL_API ") ? line + 7 : line);
    }
}

static bool write_page(const char *path, struct text *out) {
    bool ok = !out->failed && file_write(path, out->data, (size_t)out->len);
    text_free(out);
    return ok;
}

static bool header_page(const char *folder, const char *from, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.h", from, name);
    char *text = file_read(path, NULL), *at = text;
    if (!text)
        return false;
    struct text out = {0};
    struct paragraph p = {0};
    text_add(&out, "# %s.h\n\nMade from `%s` by `make generate`; do not edit.\n\n", name, path);
    while (*at)
        add_line(&out, &p, next_line(&at));
    flush(&out, &p);
    memory_free(text);
    snprintf(path, sizeof path, "%s/%s.md", folder, name);
    return write_page(path, &out);
}

static bool settings_page(const char *folder) {
    char path[4096];
    struct text out = {0};
    int count;
    const struct setting_row *row = setting_rows(&count);
    text_add(&out, "# Environment variables\n\nEvery variable that the library reads. Made from "
                   "`src/base/settings.def` by `make "
                   "generate`; do not edit.\n\n| variable | default | what it does |\n| --- | --- | --- |\n");
    for (int i = 0; i < count; i++)
        text_add(&out, "| `%s` | %s%s%s | %s |\n", row[i].name, *row[i].fallback ? "`" : "", row[i].fallback,
                 *row[i].fallback ? "`" : "", row[i].doc);
    snprintf(path, sizeof path, "%s/environment.md", folder);
    return write_page(path, &out);
}

bool gen_pages(const char *folder) {
    char api[4096];
    snprintf(api, sizeof api, "%s/api", folder);
    mkdir(api, 0777);
    return settings_page(folder) && header_page(api, "include", "zellige") &&
           header_page(api, "include", "zellige_tile") && header_page(api, "include", "zellige_bench") &&
           header_page(api, "include", "zellige_ahead") && header_page(api, "include", "zellige_loop") &&
           header_page(api, "model", "zellige_model") && header_page(api, "model", "zellige_nn") &&
           op_write_docs(api);
}
