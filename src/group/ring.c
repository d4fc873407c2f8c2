// ring.c - an engine that uses sockets: each rank is connected to the next one, in a ring, as in MLX.
//
// MLX_HOSTFILE names a JSON file with a list of "address:port" for each rank, and MLX_RANK is the rank of
// this process. torchrun and srun give the address of rank 0 instead. Groups cannot be split, and ranks send
// only to their neighbours.

#include "group/ring.h"

#include <string.h>
#include <unistd.h>

bool ring_has_hostfile(void) {
    return group_variable("MLX_HOSTFILE") && group_variable("MLX_RANK");
}

static bool is_available(void) {
    return true;
}

static bool is_prepared(void) {
    struct group_invitation i;
    return ring_has_hostfile() || (!group_is_under_mpi() && group_is_invited(&i));
}

static zl_group refuse_split(zl_group g, int color, int key) {
    (void)g, (void)color, (void)key;
    return error_set(ZL_ERROR_STATE, "zl_group_split: the engine ring cannot split groups: mpi and nccl can");
}

void ring_close(struct ring *r) {
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < r->links; i++)
            if (r->data[i][side] >= 0)
                close(r->data[i][side]);
        if (r->alarm[side] >= 0)
            close(r->alarm[side]);
    }
    if (r->spare)
        memory_free_pages(r->spare, r->spare_bytes);
    memory_free(r->waiting);
    memory_free(r->span);
    memory_free(r->stage);
    memory_free(r->heads);
    memory_free(r->broken);
    memory_free(r);
}

static void close_group(zl_group g) {
    ring_close((struct ring *)g);
}

static struct ring *make(int rank, int size, int links) {
    struct ring *r = memory_zero(sizeof *r);
    if (!r)
        return NULL;
    r->base = (struct zl_group_){.rank = rank,
                                 .size = size,
                                 .engine = "ring",
                                 .run = ring_run,
                                 .split = refuse_split,
                                 .close = close_group};
    atomic_init(&r->base.refs, 1);
    r->links = links;
    r->name = "zl_group_init";
    r->peer = -1;
    memset(r->data, -1, sizeof r->data);
    memset(r->alarm, -1, sizeof r->alarm);
    r->waiting = memory_zero(sizeof *r->waiting * (size_t)size);
    r->span = memory_zero(sizeof *r->span * 4 * (size_t)size * (size_t)links);
    r->stage = memory_alloc((size_t)FLOW_STAGE * (size_t)links);
    r->heads = memory_zero(sizeof *r->heads * (size_t)size);
    if (r->waiting && r->span && r->stage && r->heads)
        return r;
    ring_close(r);
    return NULL;
}

// Connecting: everybody listens, then connects to the right without waiting for an answer, then accepts from 

// Returns where the socket of a link is stored. The last link is for alarms; it uses the first address.
static int *socket_of(struct ring *r, int link, int side) {
    return link < r->links ? &r->data[link][side] : &r->alarm[side];
}

static bool reach_right(struct ring *r, const struct wire_host *right, char (*nonce)[16], int64_t deadline) {
    for (int link = 0; link <= r->links; link++) {
        struct wire_name self = {(uint32_t)r->base.rank, (uint32_t)r->base.size, (uint32_t)link};
        int s = wire_connect(&right->address[link % r->links], deadline);
        *socket_of(r, link, RING_RIGHT) = s;
        if (s < 0 || !wire_say_hello(s, &self, nonce[link], deadline))
            return false;
    }
    return true;
}

static bool accept_left(struct ring *r, const int *listener, int64_t deadline) {
    for (int link = 0; link <= r->links;) {
        struct wire_name who;
        int s = wire_accept(listener[link % r->links], (uint32_t)r->base.size, &who, deadline);
        if (s < 0)
            return false;
        // Links to the same address may connect in any order.
        bool fits = (int)who.rank == ring_neighbour(r, RING_LEFT) && who.link <= (uint32_t)r->links &&
                    *socket_of(r, (int)who.link, RING_LEFT) < 0;
        if (!fits) {
            close(s);
            continue;
        }
        *socket_of(r, (int)who.link, RING_LEFT) = s;
        link++;
    }
    return true;
}

static bool connect_all(struct ring *r, const struct wire_host *hosts, const int *listener) {
    char nonce[RING_LINKS + 1][16];
    int64_t deadline = clock_ns() + group_timeout_ns();
    if (!reach_right(r, &hosts[ring_neighbour(r, RING_RIGHT)], nonce, deadline) ||
        !accept_left(r, listener, deadline))
        return false;
    for (int link = 0; link <= r->links; link++)
        if (!wire_hear_answer(*socket_of(r, link, RING_RIGHT), nonce[link], deadline))
            return false;
    return true;
}

struct ring *ring_connect(int rank, int size, const struct wire_host *hosts, const int *listener) {
    struct ring *r = make(rank, size, hosts[0].addresses);
    if (r && size > 1 && !connect_all(r, hosts, listener)) {
        ring_close(r);
        r = NULL;
    }
    return r;
}

static struct ring *open_hostfile(struct wire_host **hosts, int *count) {
    int rank, listener[RING_LINKS], opened = 0;
    struct ring *r = NULL;
    if (!group_read_number("MLX_RANK", &rank))
        return error_set(ZL_ERROR_VALUE, "zl_group_init: MLX_RANK is '%s': a rank is a number from 0",
                         group_variable("MLX_RANK"));
    if (!wire_read_hosts(group_variable("MLX_HOSTFILE"), hosts, count))
        return NULL;
    const struct wire_host *all = *hosts;
    bool ok =
        rank < *count || error_false(ZL_ERROR_VALUE, "zl_group_init: MLX_RANK is %d, and %s has %d ranks",
                                     rank, group_variable("MLX_HOSTFILE"), *count);
    ok = ok && (all[0].addresses <= RING_LINKS ||
                error_false(ZL_ERROR_VALUE, "zl_group_init: a rank has %d addresses: %d are possible",
                            all[0].addresses, RING_LINKS));
    for (; ok && *count > 1 && opened < all[rank].addresses; opened += ok)
        ok = (listener[opened] = wire_listen(&all[rank].address[opened])) >= 0;
    r = ok ? ring_connect(rank, *count, all, listener) : NULL;
    while (opened > 0)
        close(listener[--opened]);
    return r;
}

struct ring *ring_open(const struct group_invitation *by, struct wire_host **hosts, int *count) {
    int listener;
    *hosts = NULL;
    *count = 0;
    if (!by)
        return open_hostfile(hosts, count);
    if (!meeting_hold(by, hosts, &listener))
        return NULL;
    *count = by->size;
    struct ring *r = ring_connect(by->rank, by->size, *hosts, &listener);
    close(listener);
    return r;
}

static zl_group open_ring(void) {
    struct group_invitation i;
    struct wire_host *hosts;
    int count;
    if (!ring_has_hostfile() && !group_is_invited(&i))
        return error_set(ZL_ERROR_STATE, "zl_group_init: the engine ring needs MLX_HOSTFILE and MLX_RANK, or "
                                         "the variables of torchrun or srun");
    struct ring *r = ring_open(ring_has_hostfile() ? NULL : &i, &hosts, &count);
    wire_free_hosts(hosts, count);
    return r ? &r->base : NULL;
}

const struct group_engine group_ring = {"ring", is_available, is_prepared, open_ring};
