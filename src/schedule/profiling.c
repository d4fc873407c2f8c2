// profiling.c - zl_profile_begin and zl_profile_end, ZL_PROFILE, and the records of the programs that run.
//
// A program does not report its steps; they are inferred from its binding: calls that are prepared and then
// finished before another call is prepared ran together. So devices need no code for profiling, and it costs
// nothing while no profile is recorded.

#include "device/profile/profile.h"
#include "schedule/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Steps -----------------------------------------------------------------------------------------------------

// Returns whether an input was computed by the same step, so that it may never have been in memory. The calls
// of a segment are consecutive on the tape.
static bool is_inner(const struct run_profile *p, const struct binding *b, const struct call *c, zl_array x) {
    return x->call && x->call->epoch == c->epoch && x->call->slot >= b->call[p->first]->slot;
}

static bool was_read(struct run_profile *p, zl_array x) {
    for (int i = 0; i < p->inputs; i++)
        if (p->input[i] == x)
            return true;
    if (p->inputs < (int)COUNT(p->input))
        p->input[p->inputs++] = x;
    return false;
}

// Returns the bytes of an array, at most those of its memory: a view may cover a part of it, or repeat
// elements.
static double bytes_of(zl_array x) {
    size_t bytes = (size_t)x->size * array_item(x);
    return (double)(x->storage ? MIN_OF(bytes, x->storage->bytes) : bytes);
}

static void count(struct run_profile *p, const struct binding *b, int index) {
    const struct call *c = b->call[index];
    for (int i = 0; i < c->inputs; i++) {
        zl_array x = c->in[i];
        if (!array_is(x, ARRAY_INLINE) && !is_inner(p, b, c, x) && !was_read(p, x))
            p->read += i == 0 && op_selects(c->op) ? MIN_OF(bytes_of(x), (double)zl_nbytes(call_first(c)))
                                                   : bytes_of(x);
    }
    for (int i = 0; i < c->outputs; i++)
        if (call_output(c, i)->storage)
            p->written += bytes_of(call_output(c, i));
    p->flops += op_flops(c);
}

static void note(struct run_profile *p, const struct call *c, int index) {
    if (!p->calls)
        p->first = index;
    if (p->calls < (int)COUNT(p->op))
        p->op[p->calls] = (uintptr_t)c->op;
    if (!p->calls || !dtype_is_float((zl_dtype)p->dtype)) // the first float dtype, else the first dtype
        p->dtype = (uint8_t)call_first(c)->dtype;
    p->calls++;
}

static void open_step(struct run_profile *p, int64_t now) {
    p->begin = now;
    p->calls = p->inputs = 0;
    p->read = p->written = p->flops = 0;
    p->has_finished = p->has_failed = false;
}

static void close_step(struct run *r, int64_t now) {
    struct run_profile *p = r->profile;
    const struct plan_segment *s = r->segment;
    if (!p->calls)
        return;
    profile_add(&(struct profile_record){.kind = PROFILE_OPS,
                                         .unit = (uint8_t)s->unit,
                                         .lane = (uint8_t)r->binding.lane,
                                         .dtype = p->dtype,
                                         .is_fallback = s->device != r->stream->device,
                                         .has_failed = p->has_failed,
                                         .words = (uint16_t)MIN_OF(p->calls, (int)COUNT(p->op)),
                                         .calls = (uint32_t)p->calls,
                                         .begin = p->begin,
                                         .end = now,
                                         .device = s->device,
                                         .read = (float)p->read,
                                         .written = (float)p->written,
                                         .flops = (float)p->flops},
                p->op);
}

static bool on_prepare(struct binding *b, int index, uint64_t in_place) {
    struct run *r = (struct run *)b;
    if (r->profile->has_finished) {
        int64_t now = clock_ticks();
        close_step(r, now);
        open_step(r->profile, now);
    }
    return r->profile->prepare(b, index, in_place);
}

// Records the call before it is finished, since finishing releases its inputs.
static void on_finish(struct binding *b, int index) {
    struct run_profile *p = ((struct run *)b)->profile;
    const struct call *c = b->call[index];
    if (c->op->kind != OP_VIEW) {
        note(p, c, index);
        count(p, b, index);
    }
    p->has_finished = true;
    p->finish(b, index);
}

static void on_fail(struct binding *b, int index) {
    struct run_profile *p = ((struct run *)b)->profile;
    note(p, b->call[index], index);
    p->has_finished = p->has_failed = true;
    p->fail(b, index);
}

void schedule_run_profile_begin(struct run *r, struct run_profile *p) {
    struct binding *b = &r->binding;
    p->prepare = b->prepare;
    p->finish = b->finish;
    p->fail = b->fail;
    open_step(p, clock_ticks());
    b->prepare = on_prepare;
    b->finish = on_finish;
    b->fail = on_fail;
    r->profile = p;
}

void schedule_run_profile_end(struct run *r) {
    close_step(r, clock_ticks());
}

// Profiles --------------------------------------------------------------------------------------------------

static struct lock session; // held while a profile begins or ends
static char *path;          // of the timeline; NULL: none is written

// Returns the name with %p replaced by the process id, or NULL, with an error.
static char *expand(const char *name) {
    struct text out = {0};
    for (const char *at = name; *at;) {
        int run = (int)strcspn(at, "%");
        bool is_process = at[run] == '%' && at[run + 1] == 'p';
        text_bytes(&out, at, run + (at[run] && !is_process));
        at += run + (at[run] != 0) + is_process;
        if (is_process)
            text_add(&out, "%ld", (long)getpid());
    }
    return text_take(&out);
}

// Returns whether a file can be written, so that the error is reported at the start and not at the end.
static bool can_write(const char *name) {
    struct file_out out;
    bool can = file_begin(&out, name);
    file_end(&out, false);
    return can;
}

bool zl_profile_begin(const char *name) {
    bool had_error = zl_error();
    char *expanded = name ? expand(name) : NULL;
    bool good = (expanded || !name) && (!expanded || can_write(expanded));
    if (good) {
        lock_take(&session);
        if ((good = profile_start())) {
            memory_free(path);
            path = expanded;
        }
        lock_give(&session);
    }
    if (!good)
        memory_free(expanded);
    if (!good && !had_error)
        error_name("zl_profile_begin");
    return good;
}

static void settle(bool queues) {
    profile_is_ending = true;
    stream_settle_all(queues);
    profile_is_ending = false;
}

// Ends the profile and adds its table, which is empty if nothing was recorded. Returns false, with an error,
// on failure; the table may exist even then.
static bool end(struct text *table) {
    struct profile p;
    for (int i = 0; i < device_count(); i++)
        if (device_at(i)->profile_end)
            device_at(i)->profile_end();
    if (!profile_stop(&p))
        return error_false(ZL_ERROR_STATE,
                           "zl_profile_end: another thread has ended the profile"); // or memory ran out
    bool good = true;
    if (p.spans) {
        profile_table(table, &p);
        good = !path || profile_write_timeline(path, &p);
        if (good && path)
            text_add(table, "timeline: %s\n", path);
    }
    profile_free(&p);
    return good && !table->failed;
}

char *zl_profile_end(void) {
    bool had_error = zl_error();
    struct text table = {0};
    if (!profile_is_on())
        return error_set(ZL_ERROR_STATE,
                         "zl_profile_end: no profile is being recorded: begin one with zl_profile_begin");
    settle(true);
    lock_take(&session);
    bool good = end(&table);
    lock_give(&session);
    if (good && !table.len)
        text_add(&table, "profile: nothing was evaluated\n");
    char *text = good ? text_take(&table) : NULL;
    text_free(&table);
    if (!text && !had_error)
        error_name("zl_profile_end");
    return text;
}

// ZL_PROFILE ------------------------------------------------------------------------------------------------

// Writes no table and no file if the process evaluated nothing, since programs start other processes.
static void end_at_exit(void) {
    struct text table = {0};
    if (!profile_is_on())
        return;
    settle(false);
    lock_take(&session);
    zl_clear_error();
    end(&table);
    lock_give(&session);
    if (table.data)
        fputs(table.data, stderr);
    if (zl_error())
        log_line(ZL_LOG_ERROR, "ZL_PROFILE: %s", zl_error());
    text_free(&table);
}

static void begin_at_load(void) {
    const char *name = setting_text(SETTING_PROFILE);
    if (!*name)
        return;
    if (zl_profile_begin(name)) {
        profile_at_exit(end_at_exit);
    } else {
        log_line(ZL_LOG_ERROR, "ZL_PROFILE: %s", zl_error());
        zl_clear_error();
    }
}

// Runs in the child of a fork, which has no profile of its own.
static void forget(void) {
    memory_free(path);
    path = NULL;
}

ZL_AT_LOAD {
    fork_guard(&session);
    fork_call(forget);
    begin_at_load();
}
