// profile_timeline.c - a profile as a file of trace events, which Perfetto and chrome://tracing show.
//
// The host is a process with a track per thread; each unit is one with a track per lane, and more where kernels of a lane overlap. An arrow
// leads from a launch to what the unit did.

#include "device/profile.h"

#include <stdlib.h>

enum { HOST = 1, UNITS = 10, UNITS_MOST = 16, FLUSH = 64 << 10, TRACKS = 16 };

struct timeline {
    const struct profile *p;
    struct file_out file;
    struct text text;
    bool has_events, failed;
    int units;
    struct unit {
        const struct device *device;
        int unit, tracks;
        int track_lane[TRACKS];
        int64_t track_end[TRACKS];
    } unit[UNITS_MOST];
};

static void flush(struct timeline *t, int least) {
    if (t->text.len < least || t->failed)
        return;
    t->failed = t->text.failed || !file_put(&t->file, t->text.data, (size_t)t->text.len);
    t->text.len = 0;
}

// Events ---------------------------------------------------------------------------------------------------------

static void open_event(struct timeline *t, char phase, int process, int track) {
    text_add(&t->text, "%s\n{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d", t->has_events ? "," : "", phase, process,
             track);
    t->has_events = true;
}

static void add_time(struct timeline *t, const char *key, int64_t ns) {
    text_add(&t->text, ",\"%s\":%s%lld.%03d", key, ns < 0 ? "-" : "", (long long)llabs(ns) / 1000,
             (int)(llabs(ns) % 1000));
}

static void name_track(struct timeline *t, const char *what, int process, int track, const char *name) {
    open_event(t, 'M', process, track);
    text_add(&t->text, ",\"name\":\"%s\",\"args\":{\"name\":", what);
    text_json(&t->text, name);
    text_add(&t->text, "}}");
}

static void add_ops(struct timeline *t, const struct profile_record *r) {
    struct text ops = {0};
    profile_add_ops(&ops, r);
    t->failed |= ops.failed;
    text_json(&t->text, ops.data ? ops.data : "");
    text_free(&ops);
}

static void add_costs(struct timeline *t, const struct profile_span *s) {
    const struct profile_record *step = s->r->kind == PROFILE_OPS ? s->r
                                        : s->step >= 0            ? t->p->span[s->step].r
                                                                  : NULL;
    text_add(&t->text, ",\"args\":{\"read\":%.0f,\"written\":%.0f,\"flops\":%.0f", s->read, s->written,
             s->flops);
    if (step) {
        text_add(&t->text, ",\"op\":");
        add_ops(t, step);
        text_add(&t->text, ",\"calls\":%u,\"dtype\":\"%s\"", step->calls,
                 zl_dtype_name((zl_dtype)step->dtype));
    }
    if (step && step->has_failed)
        text_add(&t->text, ",\"failed\":true");
    text_add(&t->text, "}");
}

static void add_event(struct timeline *t, int process, int track, const struct profile_record *when,
                      const char *name, const struct profile_span *s, const char *kind) {
    open_event(t, 'X', process, track);
    add_time(t, "ts", when->begin - t->p->begin);
    add_time(t, "dur", MAX_OF(when->end - when->begin, 0));
    text_add(&t->text, ",\"cat\":\"%s\",\"name\":", kind);
    if (name)
        text_json(&t->text, name);
    else
        add_ops(t, s->r);
    add_costs(t, s);
    text_add(&t->text, "}");
    flush(t, FLUSH);
}

static void add_arrow(struct timeline *t, char phase, int process, int track, int64_t at, uint32_t id) {
    open_event(t, phase, process, track);
    add_time(t, "ts", at - t->p->begin);
    text_add(&t->text, ",\"cat\":\"launch\",\"name\":\"launch\",\"id\":%u%s}", id,
             phase == 'f' ? ",\"bp\":\"e\"" : "");
}

// The host -------------------------------------------------------------------------------------------------------

static void add_host(struct timeline *t, const struct profile_span *s) {
    static const char *const kinds[] = {
        [PROFILE_EVAL] = "evaluation", [PROFILE_OPS] = "step",  [PROFILE_LAUNCH] = "launch",
        [PROFILE_COPY] = "copy",       [PROFILE_WAIT] = "wait", [PROFILE_KERNEL] = "kernel",
        [PROFILE_COMPILE] = "compile"};
    const struct profile_record *r = s->r;
    const char *kind = r->is_fallback                                   ? "fallback"
                       : profile_is_kernel(s) && r->kind == PROFILE_OPS ? "kernel"
                                                                        : kinds[r->kind];
    add_event(t, HOST, s->thread + 1, r, r->kind == PROFILE_OPS ? NULL : r->name, s, kind);
    if (s->count)
        add_arrow(t, 's', HOST, s->thread + 1, r->begin, r->id);
}

// Units ----------------------------------------------------------------------------------------------------------

// NULL: there are too many.
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

// A track of the lane on which nothing else runs at that time.
static int find_track(struct timeline *t, struct unit *u, int lane, int64_t begin, int64_t end) {
    int at = 0;
    while (at < u->tracks && (u->track_lane[at] != lane || u->track_end[at] > begin))
        at++;
    if (at == u->tracks && u->tracks < TRACKS) {
        struct text name = {0};
        text_add(&name, "lane %d", lane);
        u->track_lane[u->tracks++] = lane;
        name_track(t, "thread_name", UNITS + (int)(u - t->unit), at + 1, name.data ? name.data : "");
        text_free(&name);
    }
    at = MIN_OF(at, TRACKS - 1);
    u->track_end[at] = end;
    return at + 1;
}

// One time of a launch, and the launch.
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
        add_arrow(t, 'f', process, track, w->when->begin, r->id);
}

// In the order in which they began, so that tracks are found.
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

// The file -------------------------------------------------------------------------------------------------------

static void name_tracks(struct timeline *t) {
    name_track(t, "process_name", HOST, 0, "host");
    for (int i = 0; i < t->p->threads; i++) {
        struct text name = {0};
        text_add(&name, "thread %d", i + 1);
        name_track(t, "thread_name", HOST, i + 1, name.data ? name.data : "");
        text_free(&name);
    }
}

static void name_units(struct timeline *t) {
    for (int i = 0; i < t->units; i++) {
        struct text name = {0};
        text_add(&name, "%s %d", t->unit[i].device->name, t->unit[i].unit);
        name_track(t, "process_name", UNITS + i, 0, name.data ? name.data : "");
        text_free(&name);
    }
}

bool profile_write_timeline(const char *path, const struct profile *p) {
    struct timeline t = {.p = p};
    bool good = file_begin(&t.file, path);
    if (good) {
        text_add(&t.text, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"dropped\":%lld},\"traceEvents\":[",
                 (long long)p->dropped);
        name_tracks(&t);
        for (int i = 0; i < p->spans && !t.failed; i++)
            add_host(&t, &p->span[i]);
        add_units(&t);
        name_units(&t);
        text_add(&t.text, "\n]}\n");
        flush(&t, 0);
    }
    good = good && !t.failed && !t.text.failed;
    text_free(&t.text);
    return file_end(&t.file, good);
}
