// text.c - a growing string.

#include "base/base.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static bool reserve(struct text *text, int more) {
    if (text->failed)
        return false;
    if (more < 0 || more > INT_MAX - 1 - text->len) {
        error_set(ZL_ERROR_MEMORY, "out of memory: a text of more than %d bytes", INT_MAX);
        text->failed = true;
    } else if (!memory_grow(&text->data, &text->cap, text->len + more + 1, 1)) {
        text->failed = true;
    }
    return !text->failed;
}

void text_add_list(struct text *text, const char *format, va_list list) {
    if (text->failed)
        return;
    va_list again;
    va_copy(again, list);
    int room = text->cap - text->len;
    char *end = text->data ? text->data + text->len : NULL;
    int len = vsnprintf(end, (size_t)room, format, list);
    if (len < room && len >= 0)
        text->len += len;
    else if (reserve(text, len))
        text->len += vsnprintf(text->data + text->len, (size_t)len + 1, format, again);
    va_end(again);
}

void text_add(struct text *text, const char *format, ...) {
    va_list list;
    va_start(list, format);
    text_add_list(text, format, list);
    va_end(list);
}

void text_bytes(struct text *text, const char *data, int len) {
    if (!reserve(text, len))
        return;
    if (len)
        memcpy(text->data + text->len, data, (size_t)len);
    text->len += len;
    text->data[text->len] = 0;
}

int text_character(const char *at) {
    unsigned char first = (unsigned char)*at;
    int bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    for (int i = 1; i < bytes; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 1;
    return bytes;
}

static void escape(struct text *text, char c) {
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    const char *at = c ? strchr(plain, c) : NULL;
    if (at)
        text_add(text, "\\%c", letter[at - plain]);
    else
        text_add(text, "\\u%04x", (unsigned)(unsigned char)c);
}

void text_json(struct text *text, const char *value) {
    if (!value) {
        text_bytes(text, "null", 4);
        return;
    }
    text_bytes(text, "\"", 1);
    for (const char *at = value; *at;) {
        int run = 0;
        while (at[run] && (unsigned char)at[run] >= 32 && at[run] != '"' && at[run] != '\\')
            run++;
        text_bytes(text, at, run);
        at += run;
        if (*at)
            escape(text, *at++);
    }
    text_bytes(text, "\"", 1);
}

char *text_take(struct text *text) {
    reserve(text, 0);
    char *data = text->failed ? NULL : text->data;
    if (data) {
        data[text->len] = 0; // for a text to which nothing was added
        text->data = NULL;
    }
    text_free(text);
    return data;
}

void text_free(struct text *text) {
    memory_free(text->data);
    *text = (struct text){0};
}
