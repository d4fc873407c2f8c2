// profile_timeline.c - writes a profile as a file of trace events, for Perfetto and chrome://tracing.
//
// The host is a process with a track per thread. Each unit is a process with a track per lane, and more if
// kernels of a lane overlap. An arrow leads from a launch to its execution on the unit.

#include "device/profile/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOST = 1, UNITS = 10, UNITS_MOST = 16, ROOM = 64 << 10, TRACKS = 16 };

struct timeline {
    const struct profile *p;
    struct file_out file;
    bool has_events, failed;
    int units;
    struct unit {
        const struct device *device;
        int unit, tracks;
        int track_lane[TRACKS];
        int64_t track_end[TRACKS];
    } unit[UNITS_MOST];
    int used;
    char data[ROOM]; // text that is not written to the file yet
};

// Text ------------------------------------------------------------------------------------------------------

// Numbers are formatted here, because printf would take most of the time of writing a timeline.

static void flush(struct timeline *t) {
    t->failed = t->failed || !file_put(&t->file, t->data, (size_t)t->used);
    t->used = 0;
}

static void put_bytes(struct timeline *t, const char *data, size_t bytes) {
    while (bytes) {
        size_t some = MIN_OF(bytes, (size_t)(ROOM - t->used));
        memcpy(t->data + t->used, data, some);
        t->used += (int)some;
        data += some;
        bytes -= some;
        if (t->used == ROOM)
            flush(t);
    }
}

static void put(struct timeline *t, const char *text) {
    put_bytes(t, text, strlen(text));
}

// Appends a number with at least `least` digits.
static void put_number(struct timeline *t, int64_t number, int least) {
    char digit[24];
    int at = (int)sizeof digit;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    for (int i = 0; i < least || rest; i++, rest /= 10)
        digit[--at] = (char)('0' + rest % 10);
    if (number < 0)
        digit[--at] = '-';
    put_bytes(t, digit + at, sizeof digit - (size_t)at);
}

// Appends a time in microseconds, with three decimals.
static void put_time(struct timeline *t, const char *key, int64_t ns) {
    put(t, key);
    if (ns < 0)
        put(t, "-");
    put_number(t, llabs(ns) / 1000, 1);
    put(t, ".");
    put_number(t, llabs(ns) % 1000, 3);
}

// Appends a name inside of quotes. All names are those of kernels, ops, functions and devices, so characters
// that would need escapes are left out.
static void put_name(struct timeline *t, const char *name) {
    while (*name) {
        size_t run = 0;
        while ((unsigned char)name[run] >= ' ' && name[run] != '"' && name[run] != '\\')
            run++;
        put_bytes(t, name, run);
        name += run + (name[run] != 0);
    }
}

static void put_ops(struct timeline *t, const struct profile_record *r) {
    for (int i = 0; i < r->words; i++) {
        if (i)
            put(t, " + ");
        put_name(t, ((const struct op *)profile_words(r)[i])->name);
    }
    if (r->calls > r->words) {
        put(t, " + ");
        put_number(t, r->calls - r->words, 1);
        put(t, " more");
    }
}

// Events ----------------------------------------------------------------------------------------------------

static void open_event(struct timeline *t, const char *phase, int process, int track) {
    put(t, t->has_events ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
    put(t, phase);
    put(t, "\",\"pid\":");
    put_number(t, process, 1);
    put(t, ",\"tid\":");
    put_number(t, track, 1);
    t->has_events = true;
}

static void name_track(struct timeline *t, const char *what, int process, int track, const char *name,
                       int number) {
    open_event(t, "M", process, track);
    put(t, ",\"name\":\"");
    put(t, what);
    put(t, "\",\"args\":{\"name\":\"");
    put_name(t, name);
    if (number >= 0)
        put_number(t, number, 1);
    put(t, "\"}}");
}

static void add_costs(struct timeline *t, const struct profile_span *s) {
    const struct profile_record *step = s->r->kind == PROFILE_OPS ? s->r
                                        : s->step >= 0            ? t->p->span[s->step].r
                                                                  : NULL;
    put(t, ",\"args\":{\"read\":");
    put_number(t, (int64_t)s->read, 1);
    put(t, ",\"written\":");
    put_number(t, (int64_t)s->written, 1);
    put(t, ",\"flops\":");
    put_number(t, (int64_t)s->flops, 1);
    if (step) {
        put(t, ",\"op\":\"");
        put_ops(t, step);
        put(t, "\",\"calls\":");
        put_number(t, step->calls, 1);
        put(t, ",\"dtype\":\"");
        put(t, zl_dtype_name((zl_dtype)step->dtype));
        put(t, step->has_failed ? "\",\"failed\":true" : "\"");
    }
    put(t, "}}");
}

static void add_model(struct timeline *t, const struct profile_record *r) {
    struct profile_model m;
    memcpy(&m, profile_words(r), sizeof m);
    const struct {
        const char *name;
        double value;
    } part[] = {{"modelled_ns", m.us * 1e3},          {"compute_ns", m.compute_us * 1e3},
                {"copy_ns", m.copy_us * 1e3},         {"lanes_percent", m.lanes * 100},
                {"bank_conflicts", m.bank_conflicts}, {"one_at_a_time", m.scalars}};
    for (size_t i = 0; i < COUNT(part); i++) {
        put(t, i ? ",\"" : ",\"args\":{\"");
        put(t, part[i].name);
        put(t, "\":");
        put_number(t, (int64_t)part[i].value, 1);
    }
    put(t, "}}");
}

// Adds an event. If name is NULL, it is named after the ops of the step.
static void add_event(struct timeline *t, int process, int track, const struct profile_record *when,
                      const char *name, const struct profile_span *s, const char *kind) {
    open_event(t, "X", process, track);
    put_time(t, ",\"ts\":", when->begin - t->p->begin);
    put_time(t, ",\"dur\":", MAX_OF(when->end - when->begin, 0));
    put(t, ",\"cat\":\"");
    put(t, kind);
    put(t, "\",\"name\":\"");
    if (name)
        put_name(t, name);
    else
        put_ops(t, s->r);
    put(t, "\"");
    if (s->r->kind == PROFILE_MODELLED)
        add_model(t, s->r);
    else if (s->r->kind == PROFILE_EVAL || s->r->kind == PROFILE_WAIT || s->r->kind == PROFILE_COMPILE)
        put(t, "}"); // these have no costs
    else
        add_costs(t, s);
}

static void add_arrow(struct timeline *t, const char *phase, int process, int track, int64_t at,
                      uint32_t id) {
    open_event(t, phase, process, track);
    put_time(t, ",\"ts\":", at - t->p->begin);
    put(t, ",\"cat\":\"launch\",\"name\":\"launch\",\"id\":");
    put_number(t, id, 1);
    put(t, *phase == 'f' ? ",\"bp\":\"e\"}" : "}");
}

// The host --------------------------------------------------------------------------------------------------

static void add_host(struct timeline *t, const struct profile_span *s) {
    static const char *const kinds[] = {
        [PROFILE_EVAL] = "evaluation", [PROFILE_OPS] = "step",
        [PROFILE_LAUNCH] = "launch",   [PROFILE_COPY] = "copy",
        [PROFILE_WAIT] = "wait",       [PROFILE_KERNEL] = "kernel",
        [PROFILE_COMPILE] = "compile", [PROFILE_MODELLED] = "modelled kernel"};
    const struct profile_record *r = s->r;
    const char *kind = r->is_fallback                                   ? "fallback"
                       : profile_is_kernel(s) && r->kind == PROFILE_OPS ? "kernel"
                                                                        : kinds[r->kind];
    add_event(t, HOST, s->thread + 1, r, r->kind == PROFILE_OPS ? NULL : r->name, s, kind);
    if (s->count)
        add_arrow(t, "s", HOST, s->thread + 1, r->begin, r->id);
}

// Units -----------------------------------------------------------------------------------------------------

// Returns the entry of a unit; NULL if there are too many units.
static struct unit *find_unit(struct timeline *t, const struct device *d, int unit) {
    for (int i = 0; i < t->units; i++)
        if (t->unit[i].device == d && t->unit[i].unit == unit)
            return &t->unit[i];
    if (t->units == UNITS_MOST)
        return NULL;
    struct unit *u = &t->unit[t->units++];
    *u = (struct unit){.device = d, .unit = unit};
    return u;
}

// Returns a track of the lane that is free from `begin` on, and occupies it until `end`.
static int find_track(struct timeline *t, struct unit *u, int lane, int64_t begin, int64_t end) {
    int at = 0;
    while (at < u->tracks && (u->track_lane[at] != lane || u->track_end[at] > begin))
        at++;
    if (at == u->tracks && u->tracks < TRACKS) {
        u->track_lane[u->tracks++] = lane;
        name_track(t, "thread_name", UNITS + (int)(u - t->unit), at + 1, "lane ", lane);
    }
    at = MIN_OF(at, TRACKS - 1);
    u->track_end[at] = end;
    return at + 1;
}

// A launch, and one of its times.
struct worked {
    const struct profile_record *when;
    const struct profile_span *span;
};

static int compare_worked(const void *a, const void *b) {
    const struct worked *x = a, *y = b;
    return (x->when->begin > y->when->begin) - (x->when->begin < y->when->begin);
}

static void add_work(struct timeline *t, const struct worked *w) {
    const struct profile_record *r = w->span->r;
    struct unit *u = find_unit(t, r->device, r->unit);
    if (!u)
        return;
    int process = UNITS + (int)(u - t->unit), track = find_track(t, u, r->lane, w->when->begin, w->when->end);
    add_event(t, process, track, w->when, w->when->name ? w->when->name : r->name, w->span, "kernel");
    if (w->when == t->p->time[w->span->first])
        add_arrow(t, "f", process, track, w->when->begin, r->id);
}

// Adds the work of units in the order in which it began, as find_track needs it.
static void add_units(struct timeline *t) {
    const struct profile *p = t->p;
    struct worked *work = memory_alloc(sizeof *work * (size_t)MAX_OF(p->times, 1));
    int count = 0;
    for (int i = 0; work && i < p->spans; i++)
        for (int k = 0; p->span[i].r->kind == PROFILE_LAUNCH && k < p->span[i].count && count < p->times; k++)
            work[count++] = (struct worked){p->time[p->span[i].first + k], &p->span[i]};
    t->failed |= !work;
    if (count)
        qsort(work, (size_t)count, sizeof *work, compare_worked);
    for (int i = 0; i < count; i++)
        add_work(t, &work[i]);
    memory_free(work);
}

// The file --------------------------------------------------------------------------------------------------

static void name_tracks(struct timeline *t) {
    name_track(t, "process_name", HOST, 0, "host", -1);
    for (int i = 0; i < t->p->threads; i++)
        name_track(t, "thread_name", HOST, i + 1, "thread ", i + 1);
}

static void name_units(struct timeline *t) {
    for (int i = 0; i < t->units; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s ", t->unit[i].device->name);
        name_track(t, "process_name", UNITS + i, 0, name, t->unit[i].unit);
    }
}

static void write(struct timeline *t) {
    put(t, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"dropped\":");
    put_number(t, t->p->dropped, 1);
    put(t, "},\"traceEvents\":[");
    name_tracks(t);
    for (int i = 0; i < t->p->spans && !t->failed; i++)
        add_host(t, &t->p->span[i]);
    add_units(t);
    name_units(t);
    put(t, "\n]}\n");
    flush(t);
}

bool profile_write_timeline(const char *path, const struct profile *p) {
    struct timeline *t = memory_zero(sizeof *t);
    if (!t)
        return false;
    t->p = p;
    bool good = file_begin(&t->file, path);
    if (good)
        write(t);
    good = file_end(&t->file, good && !t->failed);
    memory_free(t);
    return good;
}
