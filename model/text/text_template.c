// text_template.c - parses a template once, and renders it with variables that are JSON.

#include "text_chat.h"

// Copies the source, with all line ends changed to \n and without the last one.
static bool copy_source(struct text_template *t, const char *source, size_t bytes) {
    t->source = malloc(bytes + 4);
    if (!t->source)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        bool both = source[i] == '\r' && i + 1 < bytes && source[i + 1] == '\n';
        if (!both)
            t->source[t->bytes++] = source[i] == '\r' ? '\n' : source[i];
    }
    t->bytes -= t->bytes > 0 && t->source[t->bytes - 1] == '\n';
    memset(t->source + t->bytes, 0, bytes + 4 - t->bytes);
    return true;
}

struct text_template *text_template_new(const char *source, size_t bytes, const char *name, char *error,
                                        size_t error_bytes) {
    struct text_template *t = calloc(1, sizeof *t);
    if (!t || !(t->name = strdup(name)) || !copy_source(t, source, bytes)) {
        text_fail(error, error_bytes, "%.300s: out of memory", name);
        text_template_free(t);
        return NULL;
    }
    t->error = error;
    t->error_bytes = error_bytes;
    bool ok = memchr(t->source, 0, t->bytes)
                  ? text_fail(error, error_bytes, "%.300s: a template has a NUL inside", name)
                  : text_chat_lex(t) && text_chat_parse(t);
    free(t->tokens.item);
    t->tokens = (struct token_list){0};
    if (ok)
        return t;
    text_template_free(t);
    return NULL;
}

void text_template_free(struct text_template *t) {
    if (!t)
        return;
    text_arena_free(&t->arena);
    free(t->tokens.item);
    free(t->source);
    free(t->name);
    free(t);
}

static bool add_variables(struct run *r, text_json_value object) {
    const char *key;
    for (int i = 0; !r->failed && i < text_json_count(object); i++) {
        text_json_value member = text_json_member(object, i, &key);
        text_chat_define(r, key, text_value_of_json(r, member));
    }
    return !r->failed;
}

char *text_render(const struct text_template *t, const struct text_render_options *options, size_t *bytes,
                  char *error, size_t error_bytes) {
    struct text_render_options how = *options;
    how.most_steps = how.most_steps > 0 ? how.most_steps : 10000000;
    struct run r = {.t = t, .options = &how, .error = error, .error_bytes = error_bytes};
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof how.variables / sizeof *how.variables; i++)
        ok = add_variables(&r, how.variables[i]);
    ok = ok && text_chat_run(&r) &&
         (text_buffer_add(&r.out, "", 0) || text_fail(error, error_bytes, "out of memory"));
    free(r.scope.item);
    text_arena_free(&r.arena);
    if (!ok)
        free(r.out.data);
    *bytes = ok ? r.out.bytes : 0;
    return ok ? r.out.data : NULL;
}
