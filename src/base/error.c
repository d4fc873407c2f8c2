// error.c - keeps the first error of each thread.
//
// Short messages are kept in thread-local storage, so that "out of memory" can be reported without
// allocating. That buffer is small: libraries opened at run time share a few hundred bytes of such storage.

#include "base/base.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct {
    zl_error_kind kind;
    bool freed_at_exit;
    char *longer; // the message, if `text` is too small for it
    char text[112];
} first;

const char *zl_error(void) {
    if (first.kind == ZL_ERROR_NONE)
        return NULL;
    return first.longer ? first.longer : first.text;
}

zl_error_kind zl_error_which(void) {
    return first.kind;
}

void zl_clear_error(void) {
    memory_free(first.longer);
    first.longer = NULL;
    first.kind = ZL_ERROR_NONE;
}

static void forget(void *data) {
    (void)data;
    first.freed_at_exit = false;
    zl_clear_error();
}

// Keeps a message that does not fit first.text. If this fails, the truncated message there remains.
static void keep_longer(int len, const char *format, va_list list) {
    if (!first.freed_at_exit && !(first.freed_at_exit = base_thread_at_exit(forget, NULL)))
        return;
    first.longer = memory_alloc((size_t)len + 1);
    if (first.longer)
        vsnprintf(first.longer, (size_t)len + 1, format, list);
}

void *error_set_list(zl_error_kind kind, const char *format, va_list list) {
    if (first.kind != ZL_ERROR_NONE)
        return NULL;
    int code = errno; // for %m
    va_list again;
    va_copy(again, list);
    int len = vsnprintf(first.text, sizeof first.text, format, list);
    first.kind = kind; // from here on, a failure in keep_longer is a later error and dropped
    if (len >= (int)sizeof first.text) {
        errno = code;
        keep_longer(len, format, again);
    }
    va_end(again);
    return NULL;
}

void *error_set(zl_error_kind kind, const char *format, ...) {
    va_list list;
    va_start(list, format);
    error_set_list(kind, format, list);
    va_end(list);
    return NULL;
}

// Returns whether a message begins with a public function's name, as "zl_take: ..." does.
static bool names_function(const char *message) {
    size_t word = strspn(message, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return !strncmp(message, "zl_", 3) && message[word] == ':';
}

void error_name(const char *function) {
    zl_error_kind kind;
    if (first.kind == ZL_ERROR_NONE || names_function(zl_error()))
        return;
    char *message = error_take(&kind);
    error_set(kind, "%s: %s", function, message ? message : "out of memory");
    memory_free(message);
}

char *error_take(zl_error_kind *kind) {
    *kind = first.kind;
    if (first.kind == ZL_ERROR_NONE)
        return NULL;
    char *message = first.longer ? first.longer : memory_copy_text(first.text);
    if (!message)
        *kind = ZL_ERROR_MEMORY;
    first.longer = NULL;
    zl_clear_error();
    return message;
}

void error_put(zl_error_kind kind, const char *message) {
    if (kind != ZL_ERROR_NONE)
        error_set(kind, "%s", message ? message : "out of memory");
}
