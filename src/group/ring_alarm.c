// ring_alarm.c - the messages by which ranks of a ring report trouble, so that each can name the ranks that
// are missing.
//
// The messages go in both directions, on connections of their own. A rank that has received nothing for half
// of the timeout sends "I wait at number N"; one that gives up sends "it is over, because ...". Waiting ranks
// pass both on. At the timeout, the ranks that did not report that they wait are missing. A third message, "I
// have done my part", is for neighbours under an engine that uses a ring in addition to its own connections.

#include "group/ring.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "schedule/schedule.h"

enum { PATIENCE_MS = 1000 };
static const int64_t NEEDLESS_NS = 2000000000; // by then, all data of a rank that has ended has arrived

enum alarm_kind { ALARM_WAITS = 1, ALARM_OVER, ALARM_LEAVES };
struct alarm {
    uint32_t kind, rank;
    uint64_t number;
    char text[496];
};

static void tell(const struct ring *r, const struct alarm *a, int side) {
    if (r->alarm[side] >= 0)
        send(r->alarm[side], a, sizeof *a, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void tell_both(const struct ring *r, const struct alarm *a) {
    tell(r, a, RING_LEFT);
    tell(r, a, RING_RIGHT);
}

// Closes the data connections, so that the neighbours notice that this rank has ended. They can still read
// messages sent to them before.
static void hang_up(struct ring *r) {
    for (int i = 0; i < r->links; i++)
        for (int side = 0; side < 2; side++)
            shutdown(r->data[i][side], SHUT_RDWR);
    for (int side = 0; side < 2; side++)
        if (r->alarm[side] >= 0)
            shutdown(r->alarm[side], SHUT_WR);
}

static bool fail(const struct ring *r) {
    return group_fail(&(struct group_place){(zl_group)(uintptr_t)&r->base, r->name, r->number}, "%s",
                      r->broken);
}

static bool end(struct ring *r, const char *why) {
    if (!r->broken) {
        r->broken = memory_copy_text(why);
        hang_up(r);
    }
    return r->broken && fail(r);
}

bool ring_break(struct ring *r, const char *format, ...) {
    struct alarm a = {.kind = ALARM_OVER, .rank = (uint32_t)r->base.rank, .number = r->number};
    va_list list;
    va_start(list, format);
    vsnprintf(a.text, sizeof a.text, format, list);
    va_end(list);
    if (!r->broken)
        tell_both(r, &a);
    return end(r, a.text);
}

// Handles a message. Returns false if it says that the collective is over.
static bool hear(struct ring *r, struct alarm *a, int side) {
    a->text[sizeof a->text - 1] = 0;
    if (a->kind == ALARM_OVER) {
        tell(r, a, 1 - side);
        return end(r, a->text);
    }
    r->left[side] |= a->kind == ALARM_LEAVES;
    if (a->kind == ALARM_WAITS && a->rank < (uint32_t)r->base.size && r->waiting[a->rank] < a->number) {
        r->waiting[a->rank] = a->number;
        tell(r, a, 1 - side);
    }
    return true;
}

// Reads a message if one has arrived. If a neighbour has closed its end, its program may have ended normally,
// with all its data on the way: a rank finds out only when it needs more than that.
static bool look(struct ring *r, int side, struct alarm *a) {
    ssize_t n = r->alarm[side] < 0 ? 0 : recv(r->alarm[side], a, sizeof *a, MSG_DONTWAIT | MSG_PEEK);
    if (n == (ssize_t)sizeof *a)
        return recv(r->alarm[side], a, sizeof *a, MSG_DONTWAIT) == n;
    if (r->alarm[side] >= 0 && n <= 0 && (n == 0 || (errno != EAGAIN && errno != EINTR))) {
        close(r->alarm[side]);
        r->alarm[side] = -1;
    }
    return false;
}

static bool hear_all(struct ring *r) {
    struct alarm a;
    for (int side = 0; side < 2; side++)
        while (look(r, side, &a))
            if (!hear(r, &a, side))
                return false;
    return true;
}

// Appends the ranks that did not report that they wait at this number, as in "2, 3", and returns their
// number.
static int list_missing(const struct ring *r, struct text *out) {
    int missing = 0;
    for (int i = 0; i < r->base.size; i++)
        if (i != r->base.rank && r->waiting[i] < r->number)
            text_add(out, "%s%d", missing++ ? ", " : "", i);
    return missing;
}

static bool give_up(struct ring *r, int64_t still_ns) {
    struct text list = {0};
    int missing = r->peer < 0 ? list_missing(r, &list) : 0;
    double seconds = (double)still_ns * 1e-9;
    if (r->peer >= 0)
        ring_break(r, "rank %d did not come to %s in %.3g s (ZL_GROUP_TIMEOUT)", r->peer, r->name, seconds);
    else if (missing)
        ring_break(r, "rank%s %s did not come to %s number %llu in %.3g s (ZL_GROUP_TIMEOUT)",
                   missing > 1 ? "s" : "", list.data ? list.data : "?", r->name,
                   (unsigned long long)r->number, seconds);
    else if (r->is_beside)
        ring_break(
            r,
            "all ranks wait in %s number %llu, and it was not done in %.3g s (ZL_GROUP_TIMEOUT): they may "
            "call different things (ZL_GROUP_CHECK=1 shows it)",
            r->name, (unsigned long long)r->number, seconds);
    else
        ring_break(
            r, "all ranks wait in %s number %llu, but nothing came from rank %d in %.3g s (ZL_GROUP_TIMEOUT)",
            r->name, (unsigned long long)r->number, ring_neighbour(r, RING_LEFT), seconds);
    text_free(&list);
    return false;
}

bool ring_idle(void *context, int64_t still_ns) {
    struct ring *r = context;
    int64_t timeout = group_timeout_ns();
    if (!hear_all(r))
        return false;
    if (still_ns > timeout)
        return give_up(r, still_ns);
    if (still_ns > timeout / 2 && !r->said) {
        struct alarm a = {.kind = ALARM_WAITS, .rank = (uint32_t)r->base.rank, .number = r->number};
        r->said = true;
        tell_both(r, &a);
    }
    if (interrupt_wanted()) {
        zl_clear_error();
        return ring_break(r, "rank %d was interrupted", r->base.rank);
    }
    return true;
}

// A rank that gives up sends a message before it closes its connections. So if a neighbour closed them
// without a message, it has ended.
bool ring_lost(struct ring *r, int side) {
    for (int64_t deadline = clock_ns() + (int64_t)PATIENCE_MS * 1000000; clock_ns() < deadline;) {
        struct pollfd p[2] = {{r->alarm[0], POLLIN, 0}, {r->alarm[1], POLLIN, 0}};
        if (!hear_all(r))
            return false;
        if (r->alarm[side] < 0)
            break;
        poll(p, 2, PATIENCE_MS / 4);
    }
    return ring_break(r, "rank %d has ended: its connection to rank %d was closed", ring_neighbour(r, side),
                      r->base.rank);
}

bool ring_attend(struct ring *r, int64_t still_ns, bool is_lost) {
    if (!ring_idle(r, still_ns))
        return false;
    for (int side = 0; side < 2 && (is_lost || still_ns > NEEDLESS_NS); side++)
        if (r->alarm[side] < 0 && !r->left[side])
            return ring_lost(r, side);
    return true;
}

void ring_leave(struct ring *r) {
    tell_both(r, &(struct alarm){.kind = ALARM_LEAVES, .rank = (uint32_t)r->base.rank});
}
