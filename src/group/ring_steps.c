// ring_steps.c - collectives as steps around the ring: what each rank sends and receives, in which order.
//
// Sums are a reduce-scatter followed by an all-gather (ring all-reduce): part k of the data starts at rank k
// + 1 and is complete at rank k, so that its sum is formed in the same order for all ranks; then it goes
// around once more. Small data is instead gathered from all ranks, in half as many steps, and combined in the
// order of ranks.

#include "group/ring.h"

#include <string.h>

enum { SMALL = 4096 };

static bool make_spare(struct ring *r, size_t bytes) {
    if (bytes <= r->spare_bytes)
        return true;
    void *spare = memory_alloc_pages(bytes);
    if (!spare)
        return false;
    if (r->spare)
        memory_free_pages(r->spare, r->spare_bytes);
    r->spare = spare;
    r->spare_bytes = bytes;
    return true;
}

// memcpy must not be called for empty arrays, whose pointers may be NULL.
static void copy(void *to, const void *from, size_t bytes) {
    if (bytes && to != from)
        memcpy(to, from, bytes);
}

// Flows -----------------------------------------------------------------------------------------------------

// Returns where part k of `parts` begins in a span of `count` elements, in bytes.
static size_t cut_at(int64_t count, size_t item, int64_t k, int64_t parts) {
    return (size_t)(count / parts * k + MIN_OF(k, count % parts)) * item;
}

static struct flow *open_flow(struct ring *r, int link, bool says, bool hears) {
    struct flow *f = &r->flow[link];
    int most = 2 * r->base.size;
    *f = (struct flow){.in = r->data[link][RING_LEFT],
                       .out = r->data[link][RING_RIGHT],
                       .send = r->span + (size_t)link * 2 * (size_t)most,
                       .get = r->span + ((size_t)link * 2 + 1) * (size_t)most,
                       .stage = r->stage + (size_t)link * FLOW_STAGE};
    if (link == 0) {
        f->say = says ? &r->say : NULL;
        f->hear = hears ? &r->hear : NULL;
    }
    return f;
}

static void add_send(struct flow *f, const void *at, size_t bytes) {
    f->send[f->sends++] = (struct flow_span){.at = (char *)(uintptr_t)at, .bytes = bytes};
}

static void add_get(struct flow *f, void *at, const void *with, size_t bytes) {
    f->get[f->gets++] = (struct flow_span){at, with, bytes};
}

static bool refuse(struct ring *r, const struct group_head *a, const struct group_head *b) {
    char text[400];
    head_difference(a, b, text, sizeof text);
    return ring_break(r, "%s", text);
}

static bool heard(void *context, const struct flow *f) {
    struct ring *r = context;
    return head_is_same(&r->say, f->hear) || refuse(r, &r->say, f->hear);
}

static bool run_flows(struct ring *r, int count, const struct op_transfer *t) {
    struct flow_watch watch = {.idle = ring_idle,
                               .heard = heard,
                               .context = r,
                               .socket = r->alarm,
                               .pause_ns = group_timeout_ns() / 8};
    int which = 0;
    r->said = false;
    switch (flow_run(r->flow, count, t, &watch, &which)) {
    case FLOW_DONE: return true;
    case FLOW_LOST_IN:
        return ring_lost(r, r->flow[which].in == r->data[which][RING_LEFT] ? RING_LEFT : RING_RIGHT);
    case FLOW_LOST_OUT:
        return ring_lost(r, r->flow[which].out == r->data[which][RING_RIGHT] ? RING_RIGHT : RING_LEFT);
    default: return false; // the error is set already
    }
}

// Collectives -----------------------------------------------------------------------------------------------

static int part_of(const struct ring *r, int steps_back) {
    int n = r->base.size;
    return ((r->base.rank - steps_back) % n + n) % n;
}

// The bytes of part k that one link moves: their start and their number.
struct stripe {
    size_t at, bytes;
};
static struct stripe stripe_of(const struct ring *r, int link, int64_t count, size_t item, int part) {
    int n = r->base.size;
    size_t begin = cut_at(count, item, part, n), end = cut_at(count, item, part + 1, n);
    int64_t own = (int64_t)((end - begin) / item);
    size_t from = cut_at(own, item, link, r->links), to = cut_at(own, item, link + 1, r->links);
    return (struct stripe){begin + from, to - from};
}

// Adds the steps of a reduce-scatter around the ring. This rank's part is summed into `to`, which is to_begin
// bytes after the beginning of the data; the partial sums of other parts pass through `way`. Part `part_of(r,
// 1)` is sent first.
static void add_reduction(struct ring *r, struct flow *f, int link, const struct op_transfer *t, size_t item,
                          char *to, size_t to_begin, char *way) {
    const char *in = t->in;
    struct stripe s = stripe_of(r, link, t->in_count, item, part_of(r, 1));
    add_send(f, in + s.at, s.bytes);
    f->lead = s.bytes;
    for (int k = 2; k <= r->base.size; k++) {
        s = stripe_of(r, link, t->in_count, item, part_of(r, k));
        bool is_last = k == r->base.size;
        char *at = is_last ? to + (s.at - to_begin) : way + s.at;
        add_get(f, at, in + s.at, s.bytes);
        if (!is_last)
            add_send(f, at, s.bytes);
    }
}

// Adds the steps of an all-gather: the part of every rank goes around the ring. leads: this rank's part is
// complete from the beginning.
static void add_round(struct ring *r, struct flow *f, int link, int64_t count, size_t item, char *all,
                      bool leads) {
    for (int k = 0; k < r->base.size; k++) {
        struct stripe s = stripe_of(r, link, count, item, part_of(r, k));
        if (k)
            add_get(f, all + s.at, NULL, s.bytes);
        if (k < r->base.size - 1)
            add_send(f, all + s.at, s.bytes);
        if (!k && leads)
            f->lead = s.bytes;
    }
}

static bool reduce_all(struct ring *r, const struct op_transfer *t) {
    size_t item = zl_dtype_size(t->dtype);
    for (int link = 0; link < r->links; link++) {
        struct flow *f = open_flow(r, link, true, true);
        add_reduction(r, f, link, t, item, t->out, 0, t->out);
        add_round(r, f, link, t->in_count, item, t->out, false);
    }
    return run_flows(r, r->links, t);
}

// Gathers blocks of `bytes` bytes from all ranks into `all`.
static bool gather_into(struct ring *r, const struct op_transfer *t, const void *own, size_t bytes,
                        char *all) {
    int n = r->base.size;
    copy(all + (size_t)r->base.rank * bytes, own, bytes);
    for (int link = 0; link < r->links; link++)
        add_round(r, open_flow(r, link, true, true), link, (int64_t)bytes * n, 1, all, true);
    return run_flows(r, r->links, t);
}

static bool reduce_small(struct ring *r, const struct op_transfer *t, size_t bytes) {
    if (!make_spare(r, bytes * (size_t)r->base.size) || !gather_into(r, t, t->in, bytes, r->spare))
        return false;
    const char *sum = r->spare;
    for (int k = 1; k < r->base.size; k++) {
        t->combine(t, t->out, sum, r->spare + (size_t)k * bytes, t->in_count);
        sum = t->out;
    }
    return true;
}

static bool scatter_sum(struct ring *r, const struct op_transfer *t) {
    size_t item = zl_dtype_size(t->dtype);
    if (!make_spare(r, (size_t)t->in_count * item))
        return false;
    for (int link = 0; link < r->links; link++) {
        size_t begin = cut_at(t->in_count, item, r->base.rank, r->base.size);
        add_reduction(r, open_flow(r, link, true, true), link, t, item, t->out, begin, r->spare);
    }
    return run_flows(r, r->links, t);
}

static bool broadcast(struct ring *r, const struct op_transfer *t) {
    int64_t bytes = t->out_count * (int64_t)zl_dtype_size(t->dtype);
    bool is_root = r->base.rank == t->peer, is_last = ring_neighbour(r, RING_RIGHT) == t->peer;
    for (int link = 0; link < r->links; link++) {
        struct flow *f = open_flow(r, link, !is_last, !is_root);
        size_t from = cut_at(bytes, 1, link, r->links), part = cut_at(bytes, 1, link + 1, r->links) - from;
        if (is_root)
            f->lead = part;
        else
            add_get(f, (char *)t->out + from, NULL, part);
        if (!is_last)
            add_send(f, (const char *)(is_root ? t->in : t->out) + from, part);
    }
    bool ok = run_flows(r, r->links, t);
    if (ok && is_root)
        copy(t->out, t->in, (size_t)bytes);
    return ok;
}

// Does step s of an all-to-all: size - s blocks go to the right, the first for the neighbour and the others
// for ranks beyond it.
static bool exchange_step(struct ring *r, const struct op_transfer *t, int s, size_t block, const char *from,
                          char *to) {
    int blocks = r->base.size - s, source = part_of(r, s);
    for (int link = 0; link < r->links; link++) {
        struct flow *f = open_flow(r, link, true, true);
        size_t at = cut_at((int64_t)block, 1, link, r->links),
               part = cut_at((int64_t)block, 1, link + 1, r->links) - at;
        f->lead = part * (size_t)blocks;
        for (int k = 0; k < blocks; k++) {
            add_send(f, from + (size_t)k * block + at, part);
            add_get(f, (k ? to + (size_t)(k - 1) * block : (char *)t->out + (size_t)source * block) + at,
                    NULL, part);
        }
    }
    return run_flows(r, r->links, t);
}

static bool exchange(struct ring *r, const struct op_transfer *t) {
    int n = r->base.size;
    size_t block = (size_t)t->in_count / (size_t)n * zl_dtype_size(t->dtype);
    if (!make_spare(r, 2 * block * (size_t)n))
        return false;
    char *from = r->spare, *to = from + block * (size_t)n;
    for (int k = 1; k < n; k++)
        copy(from + (size_t)(k - 1) * block, (const char *)t->in + (size_t)((r->base.rank + k) % n) * block,
             block);
    copy((char *)t->out + (size_t)r->base.rank * block, (const char *)t->in + (size_t)r->base.rank * block,
         block);
    for (int s = 1; s < n; s++) {
        if (!exchange_step(r, t, s, block, from, to))
            return false;
        char *swap = from;
        from = to;
        to = swap;
    }
    return true;
}

// Sends to a neighbour or receives from it. With two ranks, each is both the left and the right neighbour of
// the other: data sent to the right arrives from the left.
static bool between(struct ring *r, const struct op_transfer *t) {
    bool sends = t->kind == COLLECTIVE_SEND;
    int right = ring_neighbour(r, RING_RIGHT), left = ring_neighbour(r, RING_LEFT);
    if (t->peer != left && t->peer != right)
        return group_fail(&(struct group_place){&r->base, t->name, r->number},
                          "rank %d is no neighbour: in a ring, ranks send to and receive from %d and %d",
                          t->peer, left, right);
    int side =
        sends ? (t->peer == right ? RING_RIGHT : RING_LEFT) : (t->peer == left ? RING_LEFT : RING_RIGHT);
    int64_t bytes = t->out_count * (int64_t)zl_dtype_size(t->dtype);
    for (int link = 0; link < r->links; link++) {
        struct flow *f = open_flow(r, link, sends, !sends);
        size_t from = cut_at(bytes, 1, link, r->links), part = cut_at(bytes, 1, link + 1, r->links) - from;
        f->in = sends ? -1 : r->data[link][side];
        f->out = sends ? r->data[link][side] : -1;
        if (sends) {
            add_send(f, (const char *)t->in + from, part);
            f->lead = part;
        } else {
            add_get(f, (char *)t->out + from, NULL, part);
        }
    }
    bool ok = run_flows(r, r->links, t);
    if (ok && sends)
        copy(t->out, t->in, (size_t)bytes);
    return ok;
}

// Checking --------------------------------------------------------------------------------------------------

bool ring_check(struct ring *r, const struct group_head *own) {
    if (!setting_flag(SETTING_GROUP_CHECK))
        return true;
    struct op_transfer t = {.kind = COLLECTIVE_COUNT, .dtype = ZL_UINT8};
    r->say = head_of(&r->base, &t, 0);
    if (!gather_into(r, &t, own, sizeof *own, (char *)r->heads))
        return false;
    for (int k = 0; k < r->base.size; k++)
        if (!head_is_same(&r->heads[k], &r->heads[0]))
            return refuse(r, &r->heads[0], &r->heads[k]);
    return true;
}

static bool run(struct ring *r, const struct op_transfer *t) {
    size_t bytes = (size_t)t->in_count * zl_dtype_size(t->dtype);
    switch (t->kind) {
    case COLLECTIVE_ALL_GATHER: return gather_into(r, t, t->in, bytes, t->out);
    case COLLECTIVE_SUM_SCATTER: return scatter_sum(r, t);
    case COLLECTIVE_ALL_TO_ALL: return exchange(r, t);
    case COLLECTIVE_BROADCAST: return broadcast(r, t);
    case COLLECTIVE_SEND:
    case COLLECTIVE_RECV: return between(r, t);
    default: return bytes <= SMALL ? reduce_small(r, t, bytes) : reduce_all(r, t);
    }
}

bool ring_run(zl_group g, const struct op_transfer *t) {
    struct ring *r = (struct ring *)g;
    bool pairs = group_is_between_ranks(t->kind);
    r->number += !pairs;
    r->name = t->name;
    r->peer = pairs ? t->peer : -1;
    if (r->broken)
        return group_fail(&(struct group_place){g, t->name, r->number}, "%s", r->broken);
    struct group_head own = head_of(g, t, r->number);
    if (!pairs && !ring_check(r, &own))
        return false;
    r->say = own;
    return run(r, t);
}
