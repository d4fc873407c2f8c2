// ring.h - what the files of the ring share: its connections, and what ranks tell each other when something
// is wrong.

#ifndef RING_H
#define RING_H

#include "group/group.h"

enum { RING_LINKS = 16, RING_LEFT = 0, RING_RIGHT = 1 };

struct ring {
    struct zl_group_ base; // first: the schedule and ops know it as that
    int links;             // connections to each neighbour
    int data[RING_LINKS][2];
    int alarm[2];          // one more each, on which nothing is sent as long as all is well
    uint64_t number;       // of the collective that runs, those between two ranks not counted
    const char *name;      // of the op that runs
    uint64_t *waiting;     // by rank: the number at which it said that it waits; 0: it did not
    bool said;             // that we wait
    bool is_beside;        // another engine moves the data
    bool left[2];          // that neighbour said that it needs the ring no more
    char *broken;          // why nothing can run any more; NULL: all is well
    struct flow flow[RING_LINKS];
    struct flow_span *span; // of all flows
    struct group_head say, hear, *heads;
    char *stage;            // of all links
    char *spare;            // memory for what is passed on
    size_t spare_bytes;
};

// ring.c ----------------------------------------------------------------------------------------------------

bool ring_has_hostfile(void); // MLX_HOSTFILE and MLX_RANK
// The ring of all processes, by a file of hosts, or, if `by` is not NULL, as that invitation says. It gives
// where they are, for wire_free_hosts. Other engines have one beside their own connections. NULL and an
// error.
struct ring *ring_open(const struct group_invitation *by, struct wire_host **hosts, int *count);
// The ring of so many ranks, each of which listens at its addresses. NULL and an error. ring_close frees it.
struct ring *ring_connect(int rank, int size, const struct wire_host *hosts, const int *listener);
void ring_close(struct ring *r);

static inline int ring_neighbour(const struct ring *r, int side) {
    int n = r->base.size;
    return (r->base.rank + (side == RING_RIGHT ? 1 : n - 1)) % n;
}

// ring_alarm.c ----------------------------------------------------------------------------------------------

// Ends the ring for this process with a reason, which the other ranks are told; false and an error, which
// names the op.
bool ring_break(struct ring *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
// For flow_run: looks for what others say, says that we wait when that has lasted, gives up in the end. Does
// not block.
bool ring_idle(void *ring, int64_t still_ns);
// A neighbour's connection ended: waits a little for somebody to say why, else it is that neighbour. False
// and an error.
bool ring_lost(struct ring *r, int side);

// For an engine beside whose connections there is a ring, while it waits: ring_idle, and a neighbour that has
// ended without ring_leave is an error when nothing comes of what it may have done before. is_lost: that
// engine says that nothing comes. False and an error.
bool ring_attend(struct ring *r, int64_t still_ns, bool is_lost);
void ring_leave(struct ring *r); // tells the neighbours that this rank has done its part

// ring_steps.c ----------------------------------------------------------------------------------------------

// Runs a collective, whose flows it makes. False and an error.
bool ring_run(zl_group g, const struct op_transfer *t);
// With ZL_GROUP_CHECK, compares what all ranks are about to call. False and an error that shows two calls
// that differ.
bool ring_check(struct ring *r, const struct group_head *own);

#endif
