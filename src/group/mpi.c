// mpi.c - an engine that uses Open MPI, opened at run time: releases 4.1 and 5, whose handles are addresses
// of its variables.
//
// Elements are sent as unsigned integers of their size, and one operation of our own combines them with the
// row kernels of the device, so that f16, bf16 and NaN behave as everywhere else. MPI's calls cannot be
// interrupted: if one takes longer than the timeout, a watching thread ends the job. Threads take turns, by a
// lock, in calling MPI.

#include "group/group.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef void *mpi_handle;
typedef void mpi_function(void *in, void *inout, int *count, mpi_handle *type);
enum { MPI_SERIALIZED = 2, VERSION_LONGEST = 256, ERROR_LONGEST = 256 };
static void *const in_place = (void *)1;
static const int64_t most = 1 << 30; // the most elements that one call of MPI moves

static struct {
    int (*Get_library_version)(char *text, int *len);
    int (*Initialized)(int *flag);
    int (*Finalized)(int *flag);
    int (*Init_thread)(int *argc, char ***argv, int wanted, int *given);
    int (*Finalize)(void);
    int (*Abort)(mpi_handle comm, int code);
    int (*Error_string)(int code, char *text, int *len);
    int (*Comm_rank)(mpi_handle comm, int *rank);
    int (*Comm_size)(mpi_handle comm, int *size);
    int (*Comm_dup)(mpi_handle comm, mpi_handle *out);
    int (*Comm_split)(mpi_handle comm, int color, int key, mpi_handle *out);
    int (*Comm_free)(mpi_handle *comm);
    int (*Comm_set_errhandler)(mpi_handle comm, mpi_handle handler);
    int (*Op_create)(mpi_function *f, int commutes, mpi_handle *op);
    int (*Allreduce)(const void *in, void *out, int count, mpi_handle type, mpi_handle op, mpi_handle comm);
    int (*Reduce)(const void *in, void *out, int count, mpi_handle type, mpi_handle op, int root,
                  mpi_handle comm);
    int (*Reduce_scatter_block)(const void *in, void *out, int count, mpi_handle type, mpi_handle op,
                                mpi_handle comm);
    int (*Allgather)(const void *in, int count, mpi_handle type, void *out, int out_count,
                     mpi_handle out_type, mpi_handle comm);
    int (*Alltoall)(const void *in, int count, mpi_handle type, void *out, int out_count, mpi_handle out_type,
                    mpi_handle comm);
    int (*Bcast)(void *data, int count, mpi_handle type, int root, mpi_handle comm);
    int (*Send)(const void *data, int count, mpi_handle type, int to, int tag, mpi_handle comm);
    int (*Recv)(void *data, int count, mpi_handle type, int from, int tag, mpi_handle comm, void *status);
    int (*Sendrecv)(const void *out, int count, mpi_handle type, int to, int tag, void *in, int in_count,
                    mpi_handle in_type, int from, int in_tag, mpi_handle comm, void *status);
    mpi_handle world, errors_return, item[4]; // item: unsigned integers of 1, 2, 4 and 8 bytes
    mpi_handle combine;
    char version[VERSION_LONGEST];
} mpi;

// The library -----------------------------------------------------------------------------------------------

#define FUNCTION(name) \
    { "MPI_" #name, (void **)&mpi.name }
static bool bind(void *library, const char **missing) {
    const struct library_symbol symbols[] = {
        FUNCTION(Initialized),
        FUNCTION(Finalized),
        FUNCTION(Init_thread),
        FUNCTION(Finalize),
        FUNCTION(Abort),
        FUNCTION(Error_string),
        FUNCTION(Comm_rank),
        FUNCTION(Comm_size),
        FUNCTION(Comm_dup),
        FUNCTION(Comm_split),
        FUNCTION(Comm_free),
        FUNCTION(Comm_set_errhandler),
        FUNCTION(Op_create),
        FUNCTION(Allreduce),
        FUNCTION(Reduce),
        FUNCTION(Reduce_scatter_block),
        FUNCTION(Allgather),
        FUNCTION(Alltoall),
        FUNCTION(Bcast),
        FUNCTION(Send),
        FUNCTION(Recv),
        FUNCTION(Sendrecv),
        {"ompi_mpi_comm_world", &mpi.world},
        {"ompi_mpi_errors_return", &mpi.errors_return},
        {"ompi_mpi_uint8_t", &mpi.item[0]},
        {"ompi_mpi_uint16_t", &mpi.item[1]},
        {"ompi_mpi_uint32_t", &mpi.item[2]},
        {"ompi_mpi_uint64_t", &mpi.item[3]},
    };
    return library_bind(library, symbols, COUNT(symbols), missing);
}

// Checks the version by a function that every MPI has, before anything else is known of its handles.
static bool is_supported(void *library) {
    int len = 0;
    if (!library_bind(library, &(struct library_symbol)FUNCTION(Get_library_version), 1, NULL))
        return error_false(
            ZL_ERROR_DEVICE,
            "zl_group_init: libmpi has no MPI_Get_library_version: Open MPI 4.1 or 5 is needed");
    mpi.Get_library_version(mpi.version, &len);
    mpi.version[strcspn(mpi.version, ",\n")] = 0;
    return !strncmp(mpi.version, "Open MPI v4.1", 13) || !strncmp(mpi.version, "Open MPI v5.", 12) ||
           error_false(ZL_ERROR_DEVICE,
                       "zl_group_init: the MPI library is '%s': Open MPI 4.1 or 5 is needed (ZL_MPI names "
                       "its libmpi.so)",
                       mpi.version);
}

static bool load(void) {
    static int state; // 1: loaded; guarded by the lock of group.c
    const char *own = setting_text(SETTING_MPI), *missing = NULL;
    if (state)
        return true;
    const char *const names[] = {*own ? own : "libmpi.so.40", *own ? NULL : "libmpi.so",
                                 *own ? NULL : "libmpi.so.12", NULL};
    void *library = library_open(names);
    if (!library)
        return error_false(ZL_ERROR_DEVICE,
                           "zl_group_init: %s cannot be opened: the engine mpi needs Open MPI 4.1 or 5",
                           names[0]);
    if (!is_supported(library))
        return false;
    if (!bind(library, &missing))
        return error_false(ZL_ERROR_DEVICE, "zl_group_init: %s has no %s", mpi.version, missing);
    state = 1;
    return true;
}

// What a call takes too long --------------------------------------------------------------------------------

static struct {
    atomic_llong begin; // ns; 0: no call runs
    atomic_ullong number;
    const char *_Atomic name;
    int rank;
} call;

static void *watch(void *unused) {
    (void)unused;
    int64_t timeout = group_timeout_ns();
    for (;;) {
        int64_t pause = MIN_OF(timeout / 4, 1000000000);
        nanosleep(&(struct timespec){pause / 1000000000, pause % 1000000000}, NULL);
        int64_t begin = atomic_load(&call.begin);
        if (!begin || clock_ns() - begin < timeout)
            continue;
        log_line(ZL_LOG_ERROR,
                 "%s number %llu (mpi), rank %d: some rank did not come in %.3g s (ZL_GROUP_TIMEOUT): the "
                 "job is ended",
                 atomic_load(&call.name), atomic_load(&call.number), call.rank, (double)timeout * 1e-9);
        mpi.Abort(mpi.world, 1);
        _exit(1);
    }
    return NULL;
}

static void watch_begin(const char *name, uint64_t number) {
    atomic_store_explicit(&call.name, name, memory_order_relaxed);
    atomic_store_explicit(&call.number, number, memory_order_relaxed);
    atomic_store_explicit(&call.begin, clock_ns(), memory_order_release);
}

static void watch_end(void) {
    atomic_store_explicit(&call.begin, 0, memory_order_release);
}

// Groups ----------------------------------------------------------------------------------------------------

struct mpi_group {
    struct zl_group_ base;
    mpi_handle comm;
    uint64_t number;
    bool is_broken;
    struct mpi_group *next; // in the list of closed groups
};

static struct lock turn, closed_lock; // turn: held during calls of MPI
static struct mpi_group *closed;      // groups whose communicators are to be freed
static unsigned era;                  // fork_era when MPI was started
ZL_AT_LOAD {
    fork_guard(&closed_lock); // not `turn`: a fork does not wait for other ranks
}

static const struct op_transfer *current; // the running call, since MPI passes no context to its operation
static bool any_broken;

static void combine(void *in, void *inout, int *count, mpi_handle *type) {
    (void)type;
    current->combine(current, inout, in, inout, *count);
}

static mpi_handle item_of(zl_dtype dtype) {
    return mpi.item[__builtin_ctzll(zl_dtype_size(dtype))];
}

static bool is_fine(struct mpi_group *g, int code) {
    char text[ERROR_LONGEST] = "";
    int len = 0;
    if (!code)
        return true;
    mpi.Error_string(code, text, &len);
    g->is_broken = any_broken = true;
    return group_fail(&(struct group_place){&g->base, current->name, g->number},
                      "%s: ranks may call different things (ZL_GROUP_CHECK=1 shows it)", text);
}

// Pieces of calls that are too long for one. ----------------------------------------------------------------

static const char *element(const void *data, int64_t at, zl_dtype dtype) {
    return (const char *)data + at * (int64_t)zl_dtype_size(dtype);
}

static int reduce_all(struct mpi_group *g, const struct op_transfer *t) {
    int code = 0;
    for (int64_t at = 0, n; !code && at < t->in_count; at += n) {
        n = MIN_OF(t->in_count - at, most);
        void *out = (void *)(uintptr_t)element(t->out, at, t->dtype);
        code = mpi.Allreduce(t->in == t->out ? in_place : element(t->in, at, t->dtype), out, (int)n,
                             item_of(t->dtype), mpi.combine, g->comm);
    }
    return code;
}

static int share(struct mpi_group *g, void *data, int64_t count, zl_dtype dtype, int root) {
    int code = 0;
    for (int64_t at = 0, n; !code && at < count; at += n) {
        n = MIN_OF(count - at, most);
        code = mpi.Bcast((void *)(uintptr_t)element(data, at, dtype), (int)n, item_of(dtype), root, g->comm);
    }
    return code;
}

static void copy(void *to, const void *from, int64_t count, zl_dtype dtype) {
    if (count && to != from)
        memcpy(to, from, (size_t)count * zl_dtype_size(dtype));
}

static int gather_all(struct mpi_group *g, const struct op_transfer *t) {
    mpi_handle type = item_of(t->dtype);
    int code = 0;
    if (t->out_count <= most)
        return mpi.Allgather(t->in, (int)t->in_count, type, t->out, (int)t->in_count, type, g->comm);
    for (int k = 0; !code && k < g->base.size; k++) {
        void *part = (void *)(uintptr_t)element(t->out, k * t->in_count, t->dtype);
        if (k == g->base.rank)
            copy(part, t->in, t->in_count, t->dtype);
        code = share(g, part, t->in_count, t->dtype, k);
    }
    return code;
}

static int scatter_sum(struct mpi_group *g, const struct op_transfer *t) {
    mpi_handle type = item_of(t->dtype);
    int code = 0;
    if (t->in_count <= most)
        return mpi.Reduce_scatter_block(t->in, t->out, (int)t->out_count, type, mpi.combine, g->comm);
    for (int k = 0; !code && k < g->base.size; k++)
        for (int64_t at = 0, n; !code && at < t->out_count; at += n) {
            n = MIN_OF(t->out_count - at, most);
            void *out = (void *)(uintptr_t)element(t->out, at, t->dtype);
            code = mpi.Reduce(element(t->in, k * t->out_count + at, t->dtype), out, (int)n, type, mpi.combine,
                              k, g->comm);
        }
    return code;
}

static int exchange(struct mpi_group *g, const struct op_transfer *t) {
    mpi_handle type = item_of(t->dtype);
    int64_t part = t->in_count / g->base.size;
    int code = 0;
    if (t->in_count <= most)
        return mpi.Alltoall(t->in, (int)part, type, t->out, (int)part, type, g->comm);
    for (int k = 0; !code && k < g->base.size; k++) {
        int to = (g->base.rank + k) % g->base.size, from = (g->base.rank + g->base.size - k) % g->base.size;
        for (int64_t at = 0, n; !code && at < part; at += n) {
            n = MIN_OF(part - at, most);
            code = mpi.Sendrecv(element(t->in, to * part + at, t->dtype), (int)n, type, to, 0,
                                (void *)(uintptr_t)element(t->out, from * part + at, t->dtype), (int)n, type,
                                from, 0, g->comm, NULL);
        }
    }
    return code;
}

static int between(struct mpi_group *g, const struct op_transfer *t) {
    bool sends = t->kind == COLLECTIVE_SEND;
    int code = 0;
    for (int64_t at = 0, n; !code && (at < t->out_count || at == 0); at += n) {
        n = MIN_OF(t->out_count - at, most);
        code = sends ? mpi.Send(element(t->in, at, t->dtype), (int)n, item_of(t->dtype), t->peer, 0, g->comm)
                     : mpi.Recv((void *)(uintptr_t)element(t->out, at, t->dtype), (int)n, item_of(t->dtype),
                                t->peer, 0, g->comm, NULL);
        if (!t->out_count)
            break;
    }
    if (sends)
        copy(t->out, t->in, t->out_count, t->dtype);
    return code;
}

static int run_call(struct mpi_group *g, const struct op_transfer *t) {
    switch (t->kind) {
    case COLLECTIVE_ALL_GATHER: return gather_all(g, t);
    case COLLECTIVE_SUM_SCATTER: return scatter_sum(g, t);
    case COLLECTIVE_ALL_TO_ALL: return exchange(g, t);
    case COLLECTIVE_BROADCAST:
        if (g->base.rank == t->peer)
            copy(t->out, t->in, t->in_count, t->dtype);
        return share(g, t->out, t->out_count, t->dtype, t->peer);
    case COLLECTIVE_SEND:
    case COLLECTIVE_RECV: return between(g, t);
    default: return reduce_all(g, t);
    }
}

// Compares, if ZL_GROUP_CHECK is set, the calls that all ranks are about to make.
static bool check(struct mpi_group *g, const struct op_transfer *t) {
    char text[400];
    if (!setting_flag(SETTING_GROUP_CHECK) || group_is_between_ranks(t->kind))
        return true;
    struct group_head own = head_of(&g->base, t, g->number);
    struct group_head *all = memory_alloc(sizeof *all * (size_t)g->base.size);
    bool ok = all &&
              is_fine(g, mpi.Allgather(&own, sizeof own, mpi.item[0], all, sizeof own, mpi.item[0], g->comm));
    for (int k = 1; ok && k < g->base.size; k++)
        if (!head_is_same(&all[0], &all[k])) {
            head_difference(&all[0], &all[k], text, sizeof text);
            g->is_broken = any_broken = true;
            ok = group_fail(&(struct group_place){&g->base, t->name, g->number}, "%s", text);
        }
    memory_free(all);
    return ok;
}

// Frees closed groups. Needs the turn.
static void free_closed(void) {
    int ended = 0;
    lock_take(&closed_lock);
    struct mpi_group *g = closed;
    closed = NULL;
    lock_give(&closed_lock);
    if (g)
        mpi.Finalized(&ended);
    for (struct mpi_group *next; g; g = next) {
        next = g->next;
        if (!ended && !any_broken && era == atomic_load(&fork_era))
            mpi.Comm_free(&g->comm);
        memory_free(g);
    }
}

static bool run(zl_group base, const struct op_transfer *t) {
    struct mpi_group *g = (struct mpi_group *)base;
    g->number += !group_is_between_ranks(t->kind);
    if (g->is_broken)
        return group_fail(&(struct group_place){base, t->name, g->number},
                          "an earlier collective of this group failed");
    lock_take(&turn);
    current = t;
    watch_begin(t->name, g->number);
    bool ok = check(g, t) && is_fine(g, run_call(g, t));
    watch_end();
    free_closed();
    lock_give(&turn);
    return ok;
}

// If another thread is calling MPI, that thread frees the communicator.
static void close_group(zl_group base) {
    struct mpi_group *g = (struct mpi_group *)base;
    lock_take(&closed_lock);
    g->next = closed;
    closed = g;
    lock_give(&closed_lock);
    if (lock_try(&turn)) {
        free_closed();
        lock_give(&turn);
    }
}

static zl_group split(zl_group base, int color, int key);

static zl_group wrap(mpi_handle comm) {
    struct mpi_group *g = memory_zero(sizeof *g);
    if (!g)
        return NULL;
    g->base = (struct zl_group_){.engine = "mpi", .run = run, .split = split, .close = close_group};
    atomic_init(&g->base.refs, 1);
    g->comm = comm;
    mpi.Comm_set_errhandler(comm, mpi.errors_return);
    mpi.Comm_rank(comm, &g->base.rank);
    mpi.Comm_size(comm, &g->base.size);
    return &g->base;
}

static zl_group split(zl_group base, int color, int key) {
    struct mpi_group *g = (struct mpi_group *)base;
    mpi_handle comm;
    lock_take(&turn);
    watch_begin("zl_group_split", g->number);
    int code = mpi.Comm_split(g->comm, color, key, &comm);
    zl_group out = code ? NULL : wrap(comm);
    watch_end();
    lock_give(&turn);
    return code ? error_set(ZL_ERROR_DEVICE, "zl_group_split: MPI_Comm_split failed with code %d", code)
                : out;
}

// Finalizes MPI at exit, since a rank that exits without it ends the whole job with an error. Does not do so
// after a failure: other ranks may have ended, and it would wait for them. Nor does the child of a fork: MPI
// is its parent's.
static void finish(void) {
    int ended = 0;
    if (era != atomic_load(&fork_era))
        return;
    mpi.Finalized(&ended);
    if (!ended && !any_broken)
        mpi.Finalize();
}

static bool start(void) {
    int begun = 0, given = 0;
    mpi.Initialized(&begun);
    if (!begun && mpi.Init_thread(NULL, NULL, MPI_SERIALIZED, &given))
        return error_false(ZL_ERROR_DEVICE, "zl_group_init: MPI_Init_thread failed");
    if (!begun && given < MPI_SERIALIZED)
        return error_false(ZL_ERROR_DEVICE, "zl_group_init: %s does not let several threads take turns",
                           mpi.version);
    era = atomic_load(&fork_era);
    if (!begun)
        atexit(finish);
    return !mpi.Op_create(combine, 1, &mpi.combine) ||
           error_false(ZL_ERROR_DEVICE, "zl_group_init: MPI_Op_create failed");
}

static zl_group open_mpi(void) {
    pthread_t thread;
    mpi_handle comm;
    if (!load() || !start())
        return NULL;
    mpi.Comm_rank(mpi.world, &call.rank);
    if (mpi.Comm_dup(mpi.world, &comm))
        return error_set(ZL_ERROR_DEVICE, "zl_group_init: MPI_Comm_dup failed");
    if (pthread_create(&thread, NULL, watch, NULL))
        return error_set(ZL_ERROR_MEMORY, "zl_group_init: no thread could be started");
    pthread_detach(thread);
    return wrap(comm);
}

static bool is_available(void) {
    bool had_error = zl_error(), is = load();
    if (!is && !had_error)
        zl_clear_error();
    return is;
}

static bool is_prepared(void) {
    return group_is_under_mpi() && is_available();
}

const struct group_engine group_mpi = {"mpi", is_available, is_prepared, open_mpi};
