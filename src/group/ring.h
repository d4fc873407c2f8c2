// ring.h - shared by the files of the ring: its connections, and the messages by which ranks report trouble.

#ifndef RING_H
#define RING_H

#include "group/group.h"

enum { RING_LINKS = 16, RING_LEFT = 0, RING_RIGHT = 1 };

struct ring {
    struct zl_group_ base; // the first member, since the schedule and ops use its address
    int links;             // connections to each neighbour
    int data[RING_LINKS][2];
    int alarm[2];          // one more each, for messages about trouble
    uint64_t number;       // of the collective that runs; sends and receives are not counted
    const char *name;      // of the op that runs
    int peer;              // the other rank of a send or recv that runs; -1: all ranks take part
    uint64_t *waiting;     // by rank: the number at which it reported that it waits; 0: it did not
    bool said;             // this rank has reported that it waits
    bool is_beside;        // another engine moves the data, and uses the ring besides
    bool left[2];          // that neighbour has reported that it does not need the ring any more
    char *broken;          // why no more collectives can run; NULL: there was no failure
    struct flow flow[RING_LINKS];
    struct flow_span *span; // of all flows
    struct group_head say, hear, *heads;
    char *stage;            // of all links
    char *spare;            // memory for data that is passed on
    size_t spare_bytes;
};

// ring.c ----------------------------------------------------------------------------------------------------

// Returns whether MLX_HOSTFILE and MLX_RANK are set.
bool ring_has_hostfile(void);
// Returns the ring of all processes, by the file of hosts or, if `by` is not NULL, by that invitation.
// Returns NULL, with an error, if that fails. Also sets the list of hosts, which the caller frees with
// wire_free_hosts in both cases. Other engines use a ring besides their own connections.
struct ring *ring_open(const struct group_invitation *by, struct wire_host **hosts, int *count);
// Returns the ring of `size` ranks, each of which listens at its addresses, or NULL and an error. The caller
// frees it with ring_close, and closes the listeners.
struct ring *ring_connect(int rank, int size, const struct wire_host *hosts, const int *listener);
// Closes the connections and frees the ring.
void ring_close(struct ring *r);

static inline int ring_neighbour(const struct ring *r, int side) {
    int n = r->base.size;
    return (r->base.rank + (side == RING_RIGHT ? 1 : n - 1)) % n;
}

// ring_alarm.c ----------------------------------------------------------------------------------------------

// Ends the ring for this process, and sends the reason to the other ranks. Returns false, with an error that
// names the op.
bool ring_break(struct ring *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Reads the messages of other ranks, for flow_run. After half of the timeout, tells the others that this rank
// waits; after the timeout, ends the ring. Returns false, with an error, if the ring has ended. Does not
// block.
bool ring_idle(void *ring, int64_t still_ns);
// Waits up to 1 s, after the connection to a neighbour ended, for a message that says why, and then ends the
// ring with that reason, or because the neighbour has ended. Returns false, with an error.
bool ring_lost(struct ring *r, int side);

// Does what ring_idle does, for an engine that uses a ring besides its own connections, while it waits. Also
// ends the ring if a neighbour has ended without ring_leave and nothing came for 2 s, or if is_lost, that is,
// the engine knows that nothing will come. Returns false, with an error, if the ring has ended.
bool ring_attend(struct ring *r, int64_t still_ns, bool is_lost);
// Tells the neighbours that this rank does not need the ring any more.
void ring_leave(struct ring *r);

// ring_steps.c ----------------------------------------------------------------------------------------------

// Runs a collective, and waits until it is done. Returns false, with an error, if that fails.
bool ring_run(zl_group g, const struct op_transfer *t);
// Compares, if ZL_GROUP_CHECK is set, the calls that all ranks are about to make. Returns false, with an
// error that shows two calls that differ, or if that fails.
bool ring_check(struct ring *r, const struct group_head *own);

#endif
