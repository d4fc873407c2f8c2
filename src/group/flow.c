// flow.c - sends bytes to the right neighbour and receives from the left one at the same time, and combines
// the received bytes as they arrive.
//
// Received bytes are passed on: each byte may be sent as soon as it has been combined, so that all steps of a
// collective overlap and both directions of each rank are busy throughout.

#include "group/group.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum { LONGEST_PAUSE_MS = 1000 };

enum moved { MOVED_NOTHING, MOVED_SOME, MOVED_LOST };

static enum moved judge(ssize_t n) {
    if (n > 0)
        return MOVED_SOME;
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? MOVED_NOTHING : MOVED_LOST;
}

static bool has_head_to_send(const struct flow *f) {
    return f->say && f->said < sizeof *f->say;
}

static void skip_empty(struct flow *f) {
    for (; f->send_at < f->sends && f->send_done == f->send[f->send_at].bytes; f->send_at++)
        f->send_done = 0;
    for (; f->get_at < f->gets && f->get_done == f->get[f->get_at].bytes; f->get_at++)
        f->get_done = 0;
}

static bool wants_to_send(const struct flow *f) {
    return f->out >= 0 && (has_head_to_send(f) || (f->send_at < f->sends && f->sent < f->lead + f->came));
}

static bool wants_to_get(const struct flow *f) {
    return f->in >= 0 && ((f->hear && f->heard < sizeof *f->hear) || f->get_at < f->gets);
}

static bool is_done(const struct flow *f) {
    return !wants_to_get(f) && !has_head_to_send(f) && f->send_at == f->sends;
}

static enum moved send_some(struct flow *f) {
    enum moved moved = MOVED_NOTHING;
    while (wants_to_send(f)) {
        bool is_head = has_head_to_send(f);
        const struct flow_span *s = is_head ? NULL : &f->send[f->send_at];
        const char *from = is_head ? (const char *)f->say + f->said : s->at + f->send_done;
        size_t most =
            is_head ? sizeof *f->say - f->said : MIN_OF(s->bytes - f->send_done, f->lead + f->came - f->sent);
        bool more = is_head && f->send_at < f->sends && f->lead;
        ssize_t n = send(f->out, from, most, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0));
        enum moved now = judge(n);
        if (now != MOVED_SOME)
            return now == MOVED_LOST ? now : moved;
        moved = now;
        if (is_head) {
            f->said += (size_t)n;
        } else {
            f->send_done += (size_t)n;
            f->sent += (size_t)n;
        }
        skip_empty(f);
    }
    return moved;
}

static void advance(struct flow *f, size_t bytes) {
    f->get_done += bytes;
    f->came += bytes;
    skip_empty(f);
}

// Combines the complete elements that were staged. The bytes of an incomplete element stay.
static void combine(struct flow *f, const struct op_transfer *t) {
    const struct flow_span *s = &f->get[f->get_at];
    size_t item = zl_dtype_size(t->dtype), whole = f->staged - f->staged % item;
    if (!whole)
        return;
    t->combine(t, s->at + f->get_done, f->stage, s->with + f->get_done, (int64_t)(whole / item));
    f->staged -= whole;
    memmove(f->stage, f->stage + whole, f->staged);
    advance(f, whole);
}

static enum moved get_data(struct flow *f, const struct op_transfer *t) {
    const struct flow_span *s = &f->get[f->get_at];
    size_t left = s->bytes - f->get_done;
    if (!s->with) {
        ssize_t n = recv(f->in, s->at + f->get_done, left, MSG_DONTWAIT);
        enum moved now = judge(n);
        if (now == MOVED_SOME)
            advance(f, (size_t)n);
        return now;
    }
    ssize_t n = recv(f->in, f->stage + f->staged, MIN_OF((size_t)FLOW_STAGE, left) - f->staged, MSG_DONTWAIT);
    enum moved now = judge(n);
    if (now == MOVED_SOME) {
        f->staged += (size_t)n;
        combine(f, t);
    }
    return now;
}

// Receives one piece, so that it can be passed on soon.
static enum moved get_some(struct flow *f, const struct op_transfer *t, const struct flow_watch *w,
                           bool *refused) {
    if (!wants_to_get(f))
        return MOVED_NOTHING;
    if (!f->hear || f->heard == sizeof *f->hear)
        return get_data(f, t);
    ssize_t n = recv(f->in, (char *)f->hear + f->heard, sizeof *f->hear - f->heard, MSG_DONTWAIT);
    enum moved now = judge(n);
    if (now == MOVED_SOME && (f->heard += (size_t)n) == sizeof *f->hear)
        *refused = !w->heard(w->context, f);
    return now;
}

// Sleeps until a socket can be read or written as the flows need, or until the pause ends.
static void sleep_on(const struct flow *f, int count, const struct flow_watch *w) {
    struct pollfd p[2 + 2 * 16];
    int n = 0;
    for (int i = 0; i < 2; i++)
        if (w->socket[i] >= 0)
            p[n++] = (struct pollfd){w->socket[i], POLLIN, 0};
    for (int i = 0; i < count; i++) {
        if (wants_to_get(&f[i]))
            p[n++] = (struct pollfd){f[i].in, POLLIN, 0};
        if (wants_to_send(&f[i]))
            p[n++] = (struct pollfd){f[i].out, POLLOUT, 0};
    }
    poll(p, (nfds_t)n, (int)MIN_OF(w->pause_ns / 1000000 + 1, LONGEST_PAUSE_MS));
}

static enum flow_end step(struct flow *f, const struct op_transfer *t, const struct flow_watch *w,
                          bool *moved) {
    bool refused = false;
    enum moved out = send_some(f), in = out == MOVED_LOST ? MOVED_NOTHING : get_some(f, t, w, &refused);
    *moved |= out == MOVED_SOME || in == MOVED_SOME;
    return refused             ? FLOW_OTHER
           : out == MOVED_LOST ? FLOW_LOST_OUT
           : in == MOVED_LOST  ? FLOW_LOST_IN
                               : FLOW_DONE;
}

enum flow_end flow_run(struct flow *f, int count, const struct op_transfer *t, const struct flow_watch *w,
                       int *which) {
    int64_t moved_at = 0;
    for (int i = 0; i < count; i++)
        skip_empty(&f[i]);
    for (;;) {
        bool moved = false, done = true;
        for (int i = 0; i < count; i++) {
            if (is_done(&f[i]))
                continue;
            enum flow_end end = step(&f[i], t, w, &moved);
            *which = i;
            if (end != FLOW_DONE)
                return end;
            done &= is_done(&f[i]);
        }
        if (done)
            return FLOW_DONE;
        if (moved) {
            moved_at = 0;
            continue;
        }
        sleep_on(f, count, w);
        int64_t now = clock_ns();
        moved_at = moved_at ? moved_at : now;
        if (!w->idle(w->context, now - moved_at))
            return FLOW_OTHER;
    }
}
