// language_talk.c - renders a conversation with the chat template of a model.

#include "language.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fail(struct language_talk *t, const char *why) {
    snprintf(t->error, sizeof t->error, "%s", why);
    return false;
}

static void put_text(FILE *out, const char *text) {
    text_json_write_text(out, text, strlen(text));
}

bool language_talk_new(struct language_talk *t, const struct language *l, const struct invocation *call) {
    const char *path = cli_option(call, "chat-template-file"),
               *kwargs = cli_option(call, "chat-template-kwargs");
    const char *own = text_chat_template(l->tokenizer);
    size_t bytes = own ? strlen(own) : 0;
    *t = (struct language_talk){.language = l};
    char *text = path ? text_read_file(path, &bytes, t->error, sizeof t->error) : NULL;
    if (path && !text)
        return false;
    if (!path && !own)
        return fail(t, "the model has no chat template: give one with --chat-template-file");
    t->template =
        text_template_new(path ? text : own, bytes, path ? path : "chat_template", t->error, sizeof t->error);
    free(text);
    if (!t->template)
        return false;
    t->more =
        kwargs ? text_json_parse(kwargs, strlen(kwargs), "--chat-template-kwargs", t->error, sizeof t->error)
               : NULL;
    return !kwargs || t->more;
}

void language_talk_free(struct language_talk *t) {
    language_talk_forget(t, 0);
    text_template_free(t->template);
    text_json_free(t->more);
    free(t->message);
    *t = (struct language_talk){0};
}

bool language_talk_say(struct language_talk *t, const char *role, const char *content, size_t bytes) {
    struct language_message *more = realloc(t->message, (size_t)(t->messages + 1) * sizeof *more);
    char *copy = malloc(bytes + 1);
    if (more)
        t->message = more;
    if (!more || !copy) {
        free(copy);
        return fail(t, "out of memory");
    }
    memcpy(copy, content, bytes);
    t->message[t->messages++] = (struct language_message){role, copy, bytes};
    return true;
}

void language_talk_forget(struct language_talk *t, int from) {
    while (t->messages > from)
        free(t->message[--t->messages].content);
}

// Returns the variables that transformers gives to a template.
static text_json_value variables(struct language_talk *t) {
    const struct language *l = t->language;
    const char *bos = text_tokenizer_bos(l->tokenizer), *eos = text_tokenizer_eos(l->tokenizer);
    char *data = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&data, &bytes);
    if (!out)
        return NULL;
    fprintf(out, "{\"add_generation_prompt\": true, \"tools\": null, \"documents\": null, \"bos_token\": ");
    put_text(out, bos ? bos : "");
    fprintf(out, ", \"eos_token\": ");
    put_text(out, eos ? eos : "");
    fprintf(out, ", \"messages\": [");
    for (int i = 0; i < t->messages; i++) {
        fprintf(out, "%s{\"role\": ", i ? ", " : "");
        put_text(out, t->message[i].role);
        fprintf(out, ", \"content\": ");
        text_json_write_text(out, t->message[i].content, t->message[i].bytes);
        putc('}', out);
    }
    fprintf(out, "]}");
    text_json_value all =
        fclose(out) ? NULL : text_json_parse(data, bytes, "the conversation", t->error, sizeof t->error);
    free(data);
    return all;
}

char *language_talk_render(struct language_talk *t, size_t *bytes) {
    text_json_value all = variables(t);
    struct text_render_options how = {.variables = {all, t->more}};
    char *text = all ? text_render(t->template, &how, bytes, t->error, sizeof t->error) : NULL;
    text_json_free(all);
    return text;
}
