// nccl.c - an engine that uses NCCL, for arrays on NVIDIA's GPUs. The library is opened at run time and runs
// on the stream of the group's lane, without a copy on the host.
//
// The ranks also have a ring of sockets, by which they exchange NCCL's id, split, compare calls, and find out
// which rank is missing: NCCL itself would only wait. NCCL's calls do not block here: a rank polls the
// library, the stream and the ring until its work is done, and gives up with ncclCommAbort.

#include <limits.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "group/ring.h"
#include "schedule/schedule.h"

typedef struct nccl_comm_ *nccl_comm;
struct nccl_id {
    char bytes[128];
};
// ncclConfig_t of NCCL 2.18, which newer releases accept too.
struct nccl_config {
    size_t bytes;
    unsigned magic, version;
    int blocking, cga_cluster, least_blocks, most_blocks;
    const char *network;
    int shares;
};
enum { NCCL_REMOTE_ERROR = 6, NCCL_IN_PROGRESS = 7, NCCL_OF_CONFIG = 21800, NCCL_NOT_SAID = INT_MIN };
static const unsigned magic = 0xcafebeef;
enum { NCCL_SUM = 0, NCCL_MAX = 2, NCCL_MIN = 3, NCCL_U8 = 1, NCCL_F32 = 7 };

static struct {
    int (*GetVersion)(int *version);
    int (*GetUniqueId)(struct nccl_id *id);
    const char *(*GetErrorString)(int code);
    const char *(*GetLastError)(nccl_comm comm);
    int (*CommInitRankConfig)(nccl_comm *comm, int size, struct nccl_id id, int rank,
                              struct nccl_config *config);
    int (*CommGetAsyncError)(nccl_comm comm, int *code);
    int (*CommFinalize)(nccl_comm comm);
    int (*CommDestroy)(nccl_comm comm);
    int (*CommAbort)(nccl_comm comm);
    int (*GroupStart)(void);
    int (*GroupEnd)(void);
    int (*AllReduce)(const void *in, void *out, size_t count, int type, int op, nccl_comm comm, void *stream);
    int (*AllGather)(const void *in, void *out, size_t count, int type, nccl_comm comm, void *stream);
    int (*ReduceScatter)(const void *in, void *out, size_t count, int type, int op, nccl_comm comm,
                         void *stream);
    int (*Broadcast)(const void *in, void *out, size_t count, int type, int root, nccl_comm comm,
                     void *stream);
    int (*Send)(const void *in, size_t count, int type, int to, nccl_comm comm, void *stream);
    int (*Recv)(void *out, size_t count, int type, int from, nccl_comm comm, void *stream);
} nccl;

// The library -----------------------------------------------------------------------------------------------

#define FUNCTION(name) \
    { "nccl" #name, (void **)&nccl.name }
static bool bind(void *library, const char **missing) {
    const struct library_symbol symbols[] = {
        FUNCTION(GetVersion),
        FUNCTION(GetUniqueId),
        FUNCTION(GetErrorString),
        FUNCTION(GetLastError),
        FUNCTION(CommInitRankConfig),
        FUNCTION(CommGetAsyncError),
        FUNCTION(CommFinalize),
        FUNCTION(CommDestroy),
        FUNCTION(CommAbort),
        FUNCTION(GroupStart),
        FUNCTION(GroupEnd),
        FUNCTION(AllReduce),
        FUNCTION(AllGather),
        FUNCTION(ReduceScatter),
        FUNCTION(Broadcast),
        FUNCTION(Send),
        FUNCTION(Recv),
    };
    return library_bind(library, symbols, COUNT(symbols), missing);
}

// Returns this thread's default stream, whose device groups use. Returns NULL, with an error, if NCCL does
// not work on it.
static zl_stream load(void) {
    static bool is_there; // guarded by the lock of group.c
    const char *missing = NULL;
    int version = 0;
    zl_stream s = zl_default_stream();
    if (s && !s->device->library)
        return error_set(ZL_ERROR_STATE,
                         "zl_group_init: the engine nccl connects NVIDIA GPUs, and the default device is %s",
                         s->device->name);
    void *library = s ? s->device->library(s->unit, "nccl", 2) : NULL;
    if (!library)
        return s ? error_set(ZL_ERROR_DEVICE, "zl_group_init: libnccl.so.2 is not here: it is the package "
                                              "nvidia-nccl-cu13 (or -cu12) of PyPI")
                 : NULL;
    if (is_there)
        return s;
    if (!bind(library, &missing))
        return error_set(ZL_ERROR_DEVICE,
                         "zl_group_init: libnccl.so.2 has no %s: NCCL 2.18 or newer is needed", missing);
    if (nccl.GetVersion(&version) || version < NCCL_OF_CONFIG)
        return error_set(ZL_ERROR_DEVICE,
                         "zl_group_init: libnccl.so.2 is release %d.%d: 2.18 or newer is needed",
                         version / 10000, version / 100 % 100);
    is_there = true;
    return s;
}

// Failures --------------------------------------------------------------------------------------------------

struct nccl_group {
    struct zl_group_ base;
    struct ring *ring;       // of the same ranks, over sockets
    struct wire_host *hosts; // of all ranks
    nccl_comm comm;          // NULL: not begun yet, a group of one rank, or aborted
    struct nccl_group *next; // in the list of all groups
    const char *function;    // the function of NCCL that was called last
};
static struct nccl_group *groups;
static unsigned era; // fork_era when the first group was made
static struct lock groups_lock;
ZL_AT_LOAD {
    fork_guard(&groups_lock);
}

static bool give_up(struct nccl_group *g) {
    if (g->comm)
        nccl.CommAbort(g->comm);
    g->comm = NULL;
    return false;
}

// Reports a failure of NCCL. If a rank has ended, NCCL fails too; then this waits for the ring to find out
// which rank that is.
static bool fails(struct nccl_group *g, int code) {
    enum { PATIENCE_NS = 1000000000, PAUSE_NS = 1000000 };
    char text[320];
    snprintf(text, sizeof text, "%s", g->comm ? nccl.GetLastError(g->comm) : "");
    for (int64_t deadline = clock_ns() + PATIENCE_NS; code == NCCL_REMOTE_ERROR && clock_ns() < deadline;) {
        if (!ring_attend(g->ring, 0, true))
            return give_up(g);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    give_up(g);
    return ring_break(g->ring, "rank %d: nccl%s failed: %s%s%.300s", g->base.rank, g->function,
                      nccl.GetErrorString(code), *text ? ": " : "", text);
}

#define CALL(g, name, ...) ((g)->function = #name, nccl.name(__VA_ARGS__))

// Waiting ---------------------------------------------------------------------------------------------------

// Returns the state of the enqueued call, first NCCL's and then the stream's, as the values of `progress` of
// struct op_transfer. Sets *code to NCCL's error.
static int look(struct nccl_group *g, const struct op_transfer *t, int *code) {
    int failed = nccl.CommGetAsyncError(g->comm, code);
    if (failed) {
        *code = failed;
        g->function = "CommGetAsyncError";
    }
    if (*code)
        return *code == NCCL_IN_PROGRESS ? 0 : -1;
    return t ? t->progress(t->queue) : 1;
}

// Polls continuously at first, and later with pauses.
static void pause_for(int64_t waited_ns) {
    enum { SPIN_NS = 200000, SHORT_NS = 20000, LONG_NS = 500000, LONG_AFTER_NS = 20000000 };
    if (waited_ns < SPIN_NS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = waited_ns < LONG_AFTER_NS ? SHORT_NS : LONG_NS}, NULL);
}

static bool wait_for(struct nccl_group *g, const struct op_transfer *t) {
    enum { LOOK_NS = 1000000 };
    int64_t begin = clock_ns(), attended = begin, now;
    int code = 0, done;
    g->ring->said = false;
    while (!(done = look(g, t, &code))) {
        if ((now = clock_ns()) - attended > LOOK_NS) {
            if (!ring_attend(g->ring, now - begin, false))
                return give_up(g);
            attended = clock_ns();
        }
        pause_for(now - begin);
    }
    if (done > 0)
        return true;
    if (code)
        return fails(g, code);
    give_up(g);
    return ring_break(g->ring, "rank %d: its device failed in %s", g->base.rank, g->ring->name);
}

// Collectives -----------------------------------------------------------------------------------------------

// Returns NCCL's number of a dtype that it can combine, or -1. Sets *times to the number of NCCL's elements
// per element.
static int type_of(zl_dtype dtype, int *times) {
    *times = dtype == ZL_COMPLEX64 ? 2 : 1;
    switch (dtype) {
    case ZL_INT8: return 0;
    case ZL_BOOL:
    case ZL_UINT8: return NCCL_U8;
    case ZL_INT32: return 2;
    case ZL_UINT32: return 3;
    case ZL_INT64: return 4;
    case ZL_UINT64: return 5;
    case ZL_FLOAT16: return 6;
    case ZL_COMPLEX64:
    case ZL_FLOAT32: return NCCL_F32;
    case ZL_FLOAT64: return 8;
    case ZL_BFLOAT16: return 9;
    default: return -1;
    }
}

static bool combines(enum collective kind) {
    return kind == COLLECTIVE_ALL_SUM || kind == COLLECTIVE_ALL_MAX || kind == COLLECTIVE_ALL_MIN ||
           kind == COLLECTIVE_SUM_SCATTER || kind == COLLECTIVE_BARRIER;
}

static bool takes(enum collective kind, zl_dtype dtype) {
    int times;
    bool is_extreme = kind == COLLECTIVE_ALL_MAX || kind == COLLECTIVE_ALL_MIN;
    return !combines(kind) || (type_of(dtype, &times) >= 0 && !(is_extreme && dtype == ZL_COMPLEX64));
}

// Returns NCCL's operation. The sum of booleans is their maximum: whether one of them is true.
static int operation(const struct op_transfer *t) {
    return t->kind == COLLECTIVE_ALL_MIN                          ? NCCL_MIN
           : t->kind == COLLECTIVE_ALL_MAX || t->dtype == ZL_BOOL ? NCCL_MAX
                                                                  : NCCL_SUM;
}

static int first_of(int a, int b) {
    return a && a != NCCL_IN_PROGRESS ? a : b;
}

// All-to-all: sends part k of the input to rank k.
static int exchange(struct nccl_group *g, const struct op_transfer *t, size_t bytes) {
    size_t part = bytes / (size_t)g->base.size;
    int code = CALL(g, GroupStart);
    for (int k = 0; !code && k < g->base.size; k++) {
        size_t at = (size_t)k * part;
        code = CALL(g, Send, (const char *)t->in + at, part, NCCL_U8, k, g->comm, t->queue);
        if (!code)
            code = CALL(g, Recv, (char *)t->out + at, part, NCCL_U8, k, g->comm, t->queue);
    }
    return code ? first_of(code, nccl.GroupEnd()) : CALL(g, GroupEnd);
}

// Sends to a rank. The result of a send is the data that it sent; if it has memory of its own, this rank
// sends the data to itself.
static int send_to(struct nccl_group *g, const struct op_transfer *t, size_t bytes) {
    int code = CALL(g, GroupStart);
    if (!code)
        code = CALL(g, Send, t->in, bytes, NCCL_U8, t->peer, g->comm, t->queue);
    if (!code && t->in != t->out)
        code = CALL(g, Send, t->in, bytes, NCCL_U8, g->base.rank, g->comm, t->queue);
    if (!code && t->in != t->out)
        code = CALL(g, Recv, t->out, bytes, NCCL_U8, g->base.rank, g->comm, t->queue);
    return code ? first_of(code, nccl.GroupEnd()) : CALL(g, GroupEnd);
}

static int begin(struct nccl_group *g, const struct op_transfer *t) {
    int times, type = type_of(t->dtype, &times);
    size_t bytes = (size_t)t->in_count * zl_dtype_size(t->dtype),
           count = (size_t)t->out_count * (size_t)times;
    switch (t->kind) {
    case COLLECTIVE_ALL_GATHER: return CALL(g, AllGather, t->in, t->out, bytes, NCCL_U8, g->comm, t->queue);
    case COLLECTIVE_SUM_SCATTER:
        return CALL(g, ReduceScatter, t->in, t->out, count, type, operation(t), g->comm, t->queue);
    case COLLECTIVE_ALL_TO_ALL: return exchange(g, t, bytes);
    case COLLECTIVE_BROADCAST:
        return CALL(g, Broadcast, t->in, t->out, bytes, NCCL_U8, t->peer, g->comm, t->queue);
    case COLLECTIVE_SEND: return send_to(g, t, bytes);
    case COLLECTIVE_RECV:
        return CALL(g, Recv, t->out, (size_t)t->out_count * zl_dtype_size(t->dtype), NCCL_U8, t->peer,
                    g->comm, t->queue);
    default: return CALL(g, AllReduce, t->in, t->out, count, type, operation(t), g->comm, t->queue);
    }
}

static bool run(zl_group base, const struct op_transfer *t) {
    struct nccl_group *g = (struct nccl_group *)base;
    struct ring *r = g->ring;
    bool pairs = group_is_between_ranks(t->kind);
    r->number += !pairs;
    r->name = t->name;
    r->peer = pairs ? t->peer : -1;
    struct group_place at = {base, t->name, r->number};
    if (r->broken)
        return group_fail(&at, "%s", r->broken);
    if (pairs && t->peer == base->rank)
        return group_fail(&at, "a rank cannot send to itself");
    struct group_head own = head_of(base, t, r->number);
    if (!pairs && !ring_check(r, &own))
        return give_up(g);
    int code = begin(g, t);
    return code && code != NCCL_IN_PROGRESS ? fails(g, code) : wait_for(g, t);
}

// Beginning -------------------------------------------------------------------------------------------------

// Runs a collective on bytes in host memory over the ring. It is not counted among the group's own
// collectives, so the ring's number is restored.
static bool by_ring(struct nccl_group *g, const char *name, enum collective kind, const void *in,
                    int64_t in_bytes, void *out, int64_t out_bytes) {
    uint64_t number = g->ring->number;
    bool ok = ring_run(&g->ring->base, &(struct op_transfer){.kind = kind,
                                                             .name = name,
                                                             .dtype = ZL_UINT8,
                                                             .in = in,
                                                             .out = out,
                                                             .in_count = in_bytes,
                                                             .out_count = out_bytes});
    g->ring->number = number; // these calls are not counted
    memset(g->ring->waiting, 0, sizeof *g->ring->waiting * (size_t)g->base.size);
    return ok;
}

// Starts NCCL's communicator. Rank 0 makes the id, which the other ranks get over the ring.
static bool begin_comm(struct nccl_group *g) {
    struct nccl_id id = {{0}};
    struct nccl_config config = {.bytes = offsetof(struct nccl_config, shares) +
                                          sizeof config.shares, // newer releases have more fields after it

                                 .magic = magic,
                                 .version = NCCL_OF_CONFIG,
                                 .cga_cluster = NCCL_NOT_SAID,
                                 .least_blocks = NCCL_NOT_SAID,
                                 .most_blocks = NCCL_NOT_SAID,
                                 .shares = NCCL_NOT_SAID};
    int code = g->base.rank ? 0 : CALL(g, GetUniqueId, &id);
    if (code)
        return fails(g, code);
    if (!by_ring(g, g->ring->name, COLLECTIVE_BROADCAST, &id, sizeof id, &id, sizeof id))
        return false;
    code = CALL(g, CommInitRankConfig, &g->comm, g->base.size, id, g->base.rank, &config);
    return code && code != NCCL_IN_PROGRESS ? fails(g, code) : wait_for(g, NULL);
}

static void free_group(zl_group base) {
    struct nccl_group *g = (struct nccl_group *)base;
    lock_take(&groups_lock);
    for (struct nccl_group **at = &groups; *at; at = &(*at)->next)
        if (*at == g) {
            *at = g->next;
            break;
        }
    lock_give(&groups_lock);
    if (g->comm)
        nccl.CommDestroy(g->comm);
    int size = g->base.size;
    if (g->ring) {
        ring_leave(g->ring);
        ring_close(g->ring);
    }
    wire_free_hosts(g->hosts, size);
    memory_free(g);
}

// Runs at exit: waits for a limited time until other ranks have read this rank's memory, then tells the
// neighbours.
static void leave_all(void) {
    enum { PATIENCE_NS = 2000000000, PAUSE_NS = 200000 };
    int64_t deadline = clock_ns() + PATIENCE_NS;
    for (struct nccl_group *g = era == atomic_load(&fork_era) ? groups : NULL; g; g = g->next) {
        int code = g->comm && !g->ring->broken ? nccl.CommFinalize(g->comm) : 0;
        while (code == NCCL_IN_PROGRESS && clock_ns() < deadline && !nccl.CommGetAsyncError(g->comm, &code))
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        ring_leave(g->ring);
    }
}

static zl_group split(zl_group base, int color, int key);

// Makes a group that takes over the ring and the hosts. Returns NULL, with an error, if that fails.
static zl_group make(struct ring *r, struct wire_host *hosts, int count, const char *name) {
    static bool is_watched; // guarded by the lock of group.c, or by the collective split
    struct nccl_group *g = memory_zero(sizeof *g);
    if (!g || !r) {
        if (r)
            ring_close(r);
        wire_free_hosts(hosts, count);
        memory_free(g);
        return NULL;
    }
    g->base = (struct zl_group_){.rank = r->base.rank,
                                 .size = r->base.size,
                                 .engine = "nccl",
                                 .run = run,
                                 .split = split,
                                 .close = free_group,
                                 .takes = takes};
    atomic_init(&g->base.refs, 1);
    r->base.engine = "nccl"; // for errors
    r->is_beside = true;
    r->name = name;
    g->ring = r;
    g->hosts = hosts;
    if (g->base.size > 1 && !begin_comm(g))
        return free_group(&g->base), NULL;
    if (!is_watched) {
        era = atomic_load(&fork_era);
        atexit(leave_all);
    }
    is_watched = true;
    lock_take(&groups_lock);
    g->next = groups;
    groups = g;
    lock_give(&groups_lock);
    return &g->base;
}

static zl_group open_nccl(void) {
    struct group_invitation i;
    struct wire_host *hosts;
    char device[64];
    int count;
    zl_stream s = load();
    if (!s)
        return NULL;
    bool by_file = !group_is_invited_to_nccl(&i) && ring_has_hostfile();
    if (!by_file && !group_is_invited_to_nccl(&i) && !group_is_invited(&i))
        return error_set(ZL_ERROR_STATE,
                         "zl_group_init: the engine nccl needs the variables of mlx.launch, of "
                         "torchrun or of srun, or MLX_HOSTFILE and MLX_RANK");
    snprintf(device, sizeof device, "%s:%d", s->device->name, s->unit);
    zl_stream own = stream_shared(device);
    struct ring *r = own ? ring_open(by_file ? NULL : &i, &hosts, &count) : NULL;
    zl_group g = own ? make(r, hosts, count, "zl_group_init") : NULL;
    if (g)
        g->stream = own;
    return g;
}

static bool is_available(void) {
    bool had_error = zl_error(), is = load();
    if (!is && !had_error)
        zl_clear_error();
    return is;
}

static bool is_prepared(void) {
    struct group_invitation i;
    return (group_is_invited_to_nccl(&i) || ring_has_hostfile() || group_is_invited(&i)) && is_available();
}

const struct group_engine group_nccl = {"nccl", is_available, is_prepared, open_nccl};

// Splitting -------------------------------------------------------------------------------------------------

// The data that each rank sends to all others before a split. A negative color says that it cannot take part.
struct member {
    int color, key, rank;
    char port[8];
};

static int by_key(const void *a, const void *b) {
    const struct member *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key)
                            : (x->rank > y->rank) - (x->rank < y->rank);
}

// Moves the members with this color to the front, sorted by key, and returns their number. Returns 0, with an
// error, if a rank cannot take part.
static int choose(struct nccl_group *g, struct member *all, int color) {
    int count = 0;
    for (int k = 0; k < g->base.size; k++) {
        if (all[k].color < 0)
            return error_false(ZL_ERROR_IO, "zl_group_split: rank %d cannot listen for others", k);
        if (all[k].color == color)
            all[count++] = all[k];
    }
    qsort(all, (size_t)count, sizeof *all, by_key);
    return count;
}

// Returns the addresses at which the members listen, and sets *own to the index of this rank among them.
static struct wire_host *places(const struct nccl_group *g, struct member *m, int count, int *own) {
    struct wire_host *hosts = memory_zero(sizeof *hosts * (size_t)count);
    for (int k = 0; hosts && k < count; k++) {
        const char *host = g->hosts[m[k].rank].address[0].host;
        char text[300];
        bool is_six = strchr(host, ':');
        m[k].port[sizeof m[k].port - 1] = 0;
        snprintf(text, sizeof text, "%s%s%s:%s", is_six ? "[" : "", host, is_six ? "]" : "", m[k].port);
        if (m[k].rank == g->base.rank)
            *own = k;
        if (!wire_add_address(&hosts[k], text)) {
            wire_free_hosts(hosts, count);
            return NULL;
        }
    }
    return hosts;
}

static zl_group split_with(struct nccl_group *g, struct member *all, int color, int key, int listener) {
    struct member self = {listener < 0 ? -1 : color, key, g->base.rank, ""};
    int own = 0;
    snprintf(self.port, sizeof self.port, "%d", listener < 0 ? 0 : wire_port(listener));
    if (!by_ring(g, "zl_group_split", COLLECTIVE_ALL_GATHER, &self, sizeof self, all,
                 (int64_t)sizeof self * g->base.size))
        return NULL;
    int count = choose(g, all, color);
    struct wire_host *hosts = count ? places(g, all, count, &own) : NULL;
    struct ring *r = hosts ? ring_connect(own, count, hosts, &listener) : NULL;
    return hosts ? make(r, hosts, count, "zl_group_split") : NULL;
}

static zl_group split(zl_group base, int color, int key) {
    struct nccl_group *g = (struct nccl_group *)base;
    zl_stream s = base->stream;
    struct member *all = memory_zero(sizeof *all * (size_t)base->size);
    if (!all ||
        !s->device->library(s->unit, "nccl", 2)) // this may not be the thread that made the group
        return memory_free(all), NULL;
    int listener = wire_listen(&(struct wire_address){"0.0.0.0", "0"});
    zl_group out = split_with(g, all, color, key, listener);
    if (listener >= 0)
        close(listener);
    memory_free(all);
    return out;
}
