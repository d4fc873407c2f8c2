// log.c - sends lines for the user to the program's callback, or to stderr.

#include "base/base.h"

#include <stdio.h>
#include <strings.h>

struct sink {
    void (*callback)(zl_log_level level, const char *line, void *context);
    void *context;
    struct sink *older; // kept, since another thread may be calling it
};

static const char *const level_names[] = {"none", "error", "warn", "info", "debug"};

static atomic_int level_now = -1; // -1: ZL_LOG is not read yet
static _Atomic(struct sink *) sink_now;

static int level_of_setting(void) {
    const char *text = setting_text(SETTING_LOG);
    for (int level = 0; level < (int)COUNT(level_names); level++)
        if (!strcasecmp(text, level_names[level]))
            return level;
    return -1;
}

static int current_level(void) {
    int level = atomic_load_explicit(&level_now, memory_order_relaxed);
    if (UNLIKELY(level < 0)) {
        int set = level_of_setting(), first = set < 0 ? ZL_LOG_WARN : set;
        if (atomic_compare_exchange_strong(&level_now, &level, first)) // else zl_set_log_level was faster
            level = first;
        if (set < 0)
            setting_refuse(SETTING_LOG, "none, error, warn, info or debug");
    }
    return level;
}

void zl_set_log_level(zl_log_level level) {
    int index = (int)level;
    atomic_store(&level_now, MAX_OF(ZL_LOG_NONE, MIN_OF(index, ZL_LOG_DEBUG)));
}

void zl_set_log(void (*callback)(zl_log_level level, const char *line, void *context), void *context) {
    struct sink *sink = memory_alloc(sizeof *sink);
    if (!sink)
        return;
    *sink = (struct sink){callback, context, atomic_load(&sink_now)};
    while (!atomic_compare_exchange_weak(&sink_now, &sink->older, sink)) {
    }
}

void log_line(zl_log_level level, const char *format, ...) {
    if ((int)level > current_level() || level <= ZL_LOG_NONE || level > ZL_LOG_DEBUG)
        return;
    char line[4096]; // longer lines are cut: without an allocation, a lack of memory can be logged
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    struct sink *sink = atomic_load_explicit(&sink_now, memory_order_acquire);
    if (sink && sink->callback)
        sink->callback(level, line, sink->context);
    else
        fprintf(stderr, "zellige: %s: %s\n", level_names[level], line);
}
