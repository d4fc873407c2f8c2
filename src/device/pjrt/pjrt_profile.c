// pjrt_profile.c - when executions ran on a chip, for the profiler: the plugin's own profiler runs beside
// ours, and its XSpace has a plane per unit with a line of the modules that ran, in the order in which they
// were enqueued. A plugin without such a line, as that of CUDA, has lines of kernels instead; these can be
// told apart if all executions are of one program, as in a benchmark.
//
//     first execution: start ── executions, in order ── end of the profile: stop, read the XSpace

#include "device/pjrt/pjrt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PS_PER_NS = 1000 };

struct ran {
    int unit;
    uint32_t id;   // of its launch
    int64_t begin; // when it was enqueued, as of clock_ns()
    const struct pjrt_executable *executable;
};

// What a unit did, in nanoseconds of its own clock.
struct span {
    int64_t begin, end;
};
struct spans {
    struct span *item;
    int count, cap;
};

static struct lock lock; // guards everything below
static unsigned profile; // the number of the profile that was asked for times last
static struct pjrt_profiler *session; // NULL: none runs
static struct ran *ran;
static int ran_count, ran_cap;

// The plugin's profiler -------------------------------------------------------------------------------------

// Returns the functions of the plugin's profiler, or NULL if it has none.
static const struct pjrt_profiler_api *profiler_api(void) {
    const struct pjrt_extension *e = pjrt_api()->extensions;
    while (e && e->type != PJRT_EXTENSION_PROFILER)
        e = e->next;
    if (!e || e->struct_size < offsetof(struct pjrt_profiler_extension, context))
        return NULL;
    const struct pjrt_profiler_api *api = ((const struct pjrt_profiler_extension *)(const void *)e)->api;
    return api && api->struct_size >= sizeof *api ? api : NULL;
}

// Returns true if `error` is NULL; otherwise has the profile's table say why there are no times, and destroys
// the error.
static bool is_good(const struct pjrt_profiler_api *api, struct pjrt_profiler_error *error) {
    if (!error)
        return true;
    struct pjrt_profiler_message m = {.struct_size = sizeof m, .error = error};
    struct pjrt_profiler_error_arguments d = {.struct_size = sizeof d, .error = error};
    char text[400];
    api->error_message(&m);
    snprintf(text, sizeof text, "pjrt: the plugin's profiler fails, so that nothing has a time: %.*s",
             (int)MIN_OF(m.message_size, (size_t)300), m.message_size ? m.message : "");
    api->error_destroy(&d);
    const char *kept = profile_keep(text);
    if (kept)
        profile_say(kept);
    return false;
}

static void end_session(const struct pjrt_profiler_api *api) {
    struct pjrt_profiler_arguments a = {.struct_size = sizeof a, .profiler = session};
    if (session)
        is_good(api, api->destroy(&a));
    session = NULL;
}

// Starts a session that traces devices and not the host. Under the lock.
static void start_session(void) {
    static const char options[] = "\x18\x01\x28\x01"; // ProfileOptions: devices are traced (3), version (5)
    const struct pjrt_profiler_api *api = profiler_api();
    struct pjrt_profiler_create c = {
        .struct_size = sizeof c, .options = options, .options_size = sizeof options - 1};
    if (!api) {
        profile_say("pjrt: the plugin has no profiler: when programs ran is not in the table");
        return;
    }
    if (!is_good(api, api->create(&c)))
        return;
    session = c.profiler;
    struct pjrt_profiler_arguments a = {.struct_size = sizeof a, .profiler = session};
    if (!is_good(api, api->start(&a)))
        end_session(api);
}

static struct profile_record record_of(const struct pjrt_timed *t) {
    return (struct profile_record){.kind = PROFILE_LAUNCH,
                                   .unit = (uint8_t)t->unit,
                                   .lane = (uint8_t)t->lane,
                                   .id = t->id,
                                   .begin = t->begin_ticks,
                                   .device = &device_pjrt,
                                   .name = "XLA program"};
}

bool pjrt_profile_open(struct pjrt_timed *t, int unit, int lane) {
    if (LIKELY(!profile_is_on()))
        return false;
    bool had_error = zl_error();
    lock_take(&lock);
    unsigned now = atomic_load(&profile_now);
    if (now && now != profile) {
        profile = now;
        start_session();
    }
    if (!had_error)
        zl_clear_error();
    if (!session) {
        lock_give(&lock);
        return false;
    }
    *t = (struct pjrt_timed){.unit = unit, .lane = lane, .begin = clock_ns()};
    struct profile_record r = record_of(t);
    t->before = profile_open_launch(&r, false);
    t->id = r.id;
    t->begin_ticks = r.begin;
    return true;
}

void pjrt_profile_close(struct pjrt_timed *t, const struct pjrt_executable *executable, bool is_enqueued) {
    bool had_error = zl_error();
    struct profile_record r = record_of(t);
    profile_close_launch(&r, NULL, t->before);
    if (is_enqueued && memory_grow(&ran, &ran_cap, ran_count + 1, sizeof *ran))
        ran[ran_count++] = (struct ran){t->unit, t->id, t->begin, executable};
    if (!had_error)
        zl_clear_error();
    lock_give(&lock);
}

// XSpace ----------------------------------------------------------------------------------------------------

static bool is_text(struct pjrt_proto p, const char *text) {
    return (size_t)(p.end - p.at) == strlen(text) && !memcmp(p.at, text, strlen(text));
}

static bool begins_with(struct pjrt_proto p, const char *text) {
    return (size_t)(p.end - p.at) >= strlen(text) && !memcmp(p.at, text, strlen(text));
}

// Returns the first field of that number; its kind is -1 if there is none.
static struct pjrt_field find_field(struct pjrt_proto p, int number) {
    struct pjrt_field f;
    while (pjrt_proto_next(&p, &f))
        if (f.number == number)
            return f;
    return (struct pjrt_field){.kind = -1};
}

// Returns the unit that an XPlane is of, or -1: its name (2) is /device:TPU:0 or the like.
static int unit_of_plane(struct pjrt_proto plane) {
    struct pjrt_field name = find_field(plane, 2);
    int unit = 0, digits = 0;
    if (name.kind != PJRT_PROTO_BYTES || !begins_with(name.part, "/device:"))
        return -1;
    const uint8_t *at = name.part.end;
    for (int power = 1; at > name.part.at && at[-1] >= '0' && at[-1] <= '9' && digits < 6; at--, digits++) {
        unit += power * (at[-1] - '0');
        power *= 10;
    }
    return digits && at > name.part.at && at[-1] == ':' ? unit : -1;
}

// Appends the events (4) of an XLine: each has the picoseconds (2) from the line's nanoseconds (3) to its
// begin, and those that it took (3). Returns false, with an error, if memory runs out.
static bool add_line(struct spans *out, struct pjrt_proto line) {
    struct pjrt_field start = find_field(line, 3), f;
    int64_t from = start.kind == PJRT_PROTO_NUMBER ? (int64_t)start.value : 0;
    while (pjrt_proto_next(&line, &f)) {
        if (f.number != 4 || f.kind != PJRT_PROTO_BYTES)
            continue;
        struct pjrt_field offset = find_field(f.part, 2), took = find_field(f.part, 3);
        int64_t begin = from + (offset.kind == PJRT_PROTO_NUMBER ? (int64_t)(offset.value / PS_PER_NS) : 0);
        if (!memory_grow(&out->item, &out->cap, out->count + 1, sizeof *out->item))
            return false;
        int64_t ns = took.kind == PJRT_PROTO_NUMBER ? (int64_t)(took.value / PS_PER_NS) : 0;
        out->item[out->count++] = (struct span){begin, begin + ns};
    }
    return true;
}

static int compare_spans(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

// Lists what a plane's unit did, in order: its modules, or else the kernels of its streams. Returns false,
// with an error, if memory runs out.
static bool list_spans(struct spans *out, struct pjrt_proto plane) {
    static const char *const lines[] = {"XLA Modules", "Stream"};
    for (size_t i = 0; i < COUNT(lines) && !out->count; i++) {
        struct pjrt_proto rest = plane;
        struct pjrt_field f;
        while (pjrt_proto_next(&rest, &f)) {
            if (f.number != 3 || f.kind != PJRT_PROTO_BYTES)
                continue;
            struct pjrt_field name = find_field(f.part, 2);
            bool is_it = name.kind == PJRT_PROTO_BYTES &&
                         (i == 0 ? is_text(name.part, lines[i]) : begins_with(name.part, lines[i]));
            if (is_it && !add_line(out, f.part))
                return false;
        }
    }
    if (out->count)
        qsort(out->item, (size_t)out->count, sizeof *out->item, compare_spans);
    return true;
}

// Reporting -------------------------------------------------------------------------------------------------

// Returns how many spans each execution of a unit has, or 0 if that cannot be known: one, or the same number
// each if all are of one program. Stores the number of executions.
static int spans_of_each(int unit, int spans, int *executions) {
    const struct pjrt_executable *first = NULL;
    bool is_one_program = true;
    *executions = 0;
    for (int i = 0; i < ran_count; i++)
        if (ran[i].unit == unit) {
            is_one_program &= !(*executions)++ || ran[i].executable == first;
            first = ran[i].executable;
        }
    if (!*executions || spans % *executions || (spans != *executions && !is_one_program))
        return 0;
    return spans / *executions;
}

// Reports the spans of a unit as the times of its executions. The clocks of units differ from the host's:
// they are set so that no execution begins before it was enqueued.
static void report(int unit, const struct spans *s) {
    int executions, each = spans_of_each(unit, s->count, &executions);
    int64_t ahead = INT64_MIN;
    if (!each) {
        if (executions)
            profile_say("pjrt: the plugin's profiler shows more or less than was executed: when programs ran "
                        "is not in the table");
        return;
    }
    for (int i = 0, at = 0; i < ran_count; i++)
        if (ran[i].unit == unit) {
            ahead = MAX_OF(ahead, ran[i].begin - s->item[at].begin);
            at += each;
        }
    for (int i = 0, at = 0; i < ran_count; i++)
        for (int k = 0; ran[i].unit == unit && k < each; k++, at++)
            profile_add(&(struct profile_record){.kind = PROFILE_TIME,
                                                 .id = ran[i].id,
                                                 .begin = s->item[at].begin + ahead,
                                                 .end = s->item[at].end + ahead},
                        NULL);
}

// Reports all planes (1) of an XSpace.
static void report_all(struct pjrt_proto space) {
    struct pjrt_field f;
    while (pjrt_proto_next(&space, &f)) {
        int unit = f.number == 1 && f.kind == PJRT_PROTO_BYTES ? unit_of_plane(f.part) : -1;
        struct spans s = {0};
        if (unit >= 0 && list_spans(&s, f.part))
            report(unit, &s);
        memory_free(s.item);
    }
}

// Stops the session and reads what it has. A plugin may give its own buffer at once.
static void collect(const struct pjrt_profiler_api *api) {
    struct pjrt_profiler_arguments a = {.struct_size = sizeof a, .profiler = session};
    struct pjrt_profiler_collect c = {.struct_size = sizeof c, .profiler = session};
    uint8_t *own = NULL;
    if (!is_good(api, api->stop(&a)) || !is_good(api, api->collect(&c)))
        return;
    if (!c.buffer && c.buffer_size && (own = memory_alloc(c.buffer_size))) {
        c.buffer = own;
        if (!is_good(api, api->collect(&c)))
            c.buffer = NULL;
    }
    if (c.buffer)
        report_all((struct pjrt_proto){c.buffer, c.buffer + c.buffer_size});
    memory_free(own);
}

static void forget(void) {
    memory_free(ran);
    ran = NULL;
    ran_count = ran_cap = 0;
    session = NULL;
}

void pjrt_profile_end(void) {
    bool had_error = zl_error();
    lock_take(&lock);
    if (session) {
        const struct pjrt_profiler_api *api = profiler_api();
        collect(api);
        end_session(api);
    }
    forget();
    lock_give(&lock);
    if (!had_error)
        zl_clear_error();
}

ZL_AT_LOAD {
    fork_guard(&lock);
    fork_call(forget);
}
