// group.c - the public functions of groups: choose an engine, and record its collectives.

#include "group/group.h"

#include <stdio.h>
#include <string.h>

#include "schedule/schedule.h"

static const struct group_engine *const engines[] = {
#define ENGINE(name) &group_##name,
#include "group/engines.def"
};

// The groups of all processes: one per engine, then the one that the name "any" chose. They are never freed.
static zl_group known[COUNT(engines) + 1];
static struct lock lock;
static zl_stream stream;
static unsigned era; // fork_era when the first group was opened
ZL_AT_LOAD {
    fork_guard(&lock);
}

// Groups of one ---------------------------------------------------------------------------------------------

static zl_group refuse_split(zl_group g, int color, int key) {
    (void)color, (void)key;
    return error_set(ZL_ERROR_STATE, "zl_group_split: a group of one process (%s) cannot be split",
                     g->engine);
}

static void close_alone(zl_group g) {
    memory_free(g);
}

static zl_group make_alone(void) {
    zl_group g = memory_zero(sizeof *g);
    if (!g)
        return NULL;
    *g = (struct zl_group_){.size = 1, .engine = "none", .split = refuse_split, .close = close_alone};
    atomic_init(&g->refs, 1);
    return g;
}

// Groups ----------------------------------------------------------------------------------------------------

bool group_is_between_ranks(enum collective kind) {
    return kind == COLLECTIVE_SEND || kind == COLLECTIVE_RECV;
}

bool group_fail(const struct group_place *at, const char *format, ...) {
    char why[640];
    va_list list;
    va_start(list, format);
    vsnprintf(why, sizeof why, format, list);
    va_end(list);
    return error_false(ZL_ERROR_DEVICE, "%s number %llu in a group of %d (%s), rank %d: %s", at->name,
                       (unsigned long long)at->number, at->group->size, at->group->engine, at->group->rank,
                       why);
}

int64_t group_timeout_ns(void) {
    int64_t seconds = setting_number(SETTING_GROUP_TIMEOUT);
    return (seconds > 0 && seconds < 1000000 ? seconds : 300) * 1000000000;
}

static int find_engine(const char *name) {
    for (size_t i = 0; i < COUNT(engines); i++)
        if (!strcmp(engines[i]->name, name))
            return (int)i;
    return -1;
}

// Accepts the names of MLX's engines too; jaccl is never available here.
static bool check_name(const char *function, const char *name) {
    if (name && (!strcmp(name, "any") || !strcmp(name, "jaccl") || find_engine(name) >= 0))
        return true;
    return error_false(ZL_ERROR_VALUE, "%s: the engine is any, ring, mpi, nccl or jaccl, not '%s'", function,
                       name ? name : "NULL");
}

bool zl_group_available(const char *engine) {
    if (!check_name("zl_group_available", engine))
        return false;
    bool any = !strcmp(engine, "any"), found = false;
    lock_take(&lock);
    for (size_t i = 0; i < COUNT(engines); i++)
        found = found || ((any || !strcmp(engine, engines[i]->name)) && engines[i]->is_available());
    lock_give(&lock);
    return found;
}

static zl_group open_engine(int which) {
    if (!stream && !(stream = stream_shared("cpu")))
        return NULL;
    zl_group g = known[which] ? known[which] : engines[which]->open();
    if (!g)
        return NULL;
    g->stream = g->stream ? g->stream : stream;
    known[which] = g;
    if (!known[COUNT(engines)])
        known[COUNT(engines)] = g;
    era = atomic_load(&fork_era);
    return g;
}

// Returns the group of all processes of an engine, or, for "any", of the first one that a launcher prepared.
// Needs the lock.
static zl_group find_group(bool strict, const char *name) {
    bool any = !strcmp(name, "any");
    int which = any ? -1 : find_engine(name);
    if (any && known[COUNT(engines)])
        return known[COUNT(engines)];
    for (size_t i = 0; which < 0 && any && i < COUNT(engines); i++)
        which = engines[i]->is_prepared() ? (int)i : -1;
    if (which >= 0 && (strict || known[which] || engines[which]->is_prepared()))
        return open_engine(which); // if it is not prepared, the error says what is missing
    if (!strict)
        return make_alone();
    return error_set(ZL_ERROR_STATE,
                     "zl_group_init: %s%s%s: start the program with `zellige launch`, mlx.launch, mpirun, "
                     "srun or torchrun",
                     any ? "no launcher prepared an engine" : "the engine '", any ? "" : name,
                     any ? "" : "' is not available here");
}

zl_group zl_group_init(bool strict, const char *engine) {
    if (!check_name("zl_group_init", engine ? engine : "any"))
        return NULL;
    lock_take(&lock);
    zl_group g = find_group(strict, engine ? engine : "any");
    for (size_t i = 0; g && i < COUNT(known); i++)
        if (g == known[i]) { // the table holds one reference
            zl_group_retain(g);
            break;
        }
    lock_give(&lock);
    return g;
}

int zl_group_rank(zl_group g) {
    return g ? g->rank : -1;
}

int zl_group_size(zl_group g) {
    return g ? g->size : -1;
}

const char *zl_group_engine(zl_group g) {
    return g ? g->engine : NULL;
}

// Returns false, with an error, if the process is the child of a fork, whose parent has the connections.
static bool may_use(zl_group g) {
    return g->size == 1 || era == atomic_load(&fork_era) ||
           error_false(ZL_ERROR_STATE, "a group of processes cannot be used in the child of a fork: the "
                                       "parent has its connections");
}

zl_group zl_group_split(zl_group group, int color, int key) {
    if (!group)
        return NULL;
    if (color < 0)
        return error_set(ZL_ERROR_VALUE, "zl_group_split: the color is %d: it must not be negative", color);
    if (!may_use(group))
        return NULL;
    // Collectives that were enqueued before must finish first, so that all ranks are at the same point.
    if (group->stream && !zl_stream_synchronize(group->stream))
        return NULL;
    zl_group g = group->split(group, color, key < 0 ? group->rank : key);
    if (g)
        g->stream = group->stream;
    return g;
}

// Collectives -----------------------------------------------------------------------------------------------

// Returns the group to use, retained: g or, if it is NULL, that of all processes. Returns NULL, with an
// error, if there is none or the process is the child of a fork.
static zl_group meant(zl_group g) {
    g = g ? zl_group_retain(g) : zl_group_init(false, "any");
    if (!g || may_use(g))
        return g;
    zl_group_release(g);
    return NULL;
}

// Computes what the engine cannot: 16-bit integers as wider ones, and extremes of other dtypes from all
// gathered values.
static zl_array make_of_others(enum collective kind, zl_array x, zl_group g) {
    zl_dtype dtype = (zl_dtype)x->dtype;
    bool is_least = kind == COLLECTIVE_ALL_MIN;
    if (dtype == ZL_INT16 || dtype == ZL_UINT16) {
        zl_array wide = zl_astype(x, ZL_INT32);
        zl_array y = kind == COLLECTIVE_SUM_SCATTER ? zl_sum_scatter(wide, g)
                     : is_least                     ? zl_all_min(wide, g)
                     : kind == COLLECTIVE_ALL_MAX   ? zl_all_max(wide, g)
                                                    : zl_all_sum(wide, g);
        return zl_astype(y, dtype);
    }
    zl_array all = zl_all_gather(zl_expand_dims(x, ZL_AXES(0)), g);
    return is_least ? zl_min_axis(all, 0, false) : zl_max_axis(all, 0, false);
}

static zl_array collect(const char *function, enum collective kind, zl_array x, zl_group group, int peer) {
    zl_group g = x ? meant(group) : NULL;
    zl_array y = NULL;
    if (!g)
        return NULL;
    zl_scope s = zl_scope_begin();
    OP_TEMP(int64_t, dim, x->ndim + 1);
    if (dim) {
        for (int i = 0; i < x->ndim; i++)
            dim[i] = x->dim[i];
        bool gathers = kind == COLLECTIVE_ALL_GATHER,
             divides = kind == COLLECTIVE_SUM_SCATTER || kind == COLLECTIVE_ALL_TO_ALL;
        int ndim = x->ndim + (gathers && !x->ndim);
        if (gathers)
            dim[0] = (x->ndim ? dim[0] : 1) * g->size;
        if (divides && g->size > 1 && (!ndim || dim[0] % g->size))
            error_set(ZL_ERROR_SHAPE,
                      "%s: the first axis of an array of shape %s must be divisible by the %d processes of "
                      "the group",
                      function, array_text(x), g->size);
        else if ((kind == COLLECTIVE_BROADCAST || kind == COLLECTIVE_SEND) && (peer < 0 || peer >= g->size))
            error_set(ZL_ERROR_VALUE, "%s: there is no rank %d in a group of %d", function, peer, g->size);
        else if (kind == COLLECTIVE_SEND && g->size == 1)
            error_set(ZL_ERROR_VALUE, "%s: a group of one process has nobody to send to", function);
        else if (g->size == 1)
            y = op_same(x);
        else if (g->takes && !g->takes(kind, (zl_dtype)x->dtype))
            y = make_of_others(kind, x, g);
        else {
            if (kind == COLLECTIVE_SUM_SCATTER)
                dim[0] /= g->size;
            if (op_check_size(function, ndim, dim))
                y = op_collective(kind, g, x, peer, (zl_dtype)x->dtype, ndim, dim);
        }
    }
    y = zl_scope_leave(s, y);
    zl_group_release(g);
    return y;
}

zl_array zl_all_sum(zl_array x, zl_group group) {
    return collect("zl_all_sum", COLLECTIVE_ALL_SUM, x, group, 0);
}

zl_array zl_all_max(zl_array x, zl_group group) {
    return collect("zl_all_max", COLLECTIVE_ALL_MAX, x, group, 0);
}

zl_array zl_all_min(zl_array x, zl_group group) {
    return collect("zl_all_min", COLLECTIVE_ALL_MIN, x, group, 0);
}

zl_array zl_all_gather(zl_array x, zl_group group) {
    return collect("zl_all_gather", COLLECTIVE_ALL_GATHER, x, group, 0);
}

zl_array zl_sum_scatter(zl_array x, zl_group group) {
    return collect("zl_sum_scatter", COLLECTIVE_SUM_SCATTER, x, group, 0);
}

zl_array zl_all_to_all(zl_array x, zl_group group) {
    return collect("zl_all_to_all", COLLECTIVE_ALL_TO_ALL, x, group, 0);
}

zl_array zl_broadcast(zl_array x, int root, zl_group group) {
    return collect("zl_broadcast", COLLECTIVE_BROADCAST, x, group, root);
}

zl_array zl_send(zl_array x, int to, zl_group group) {
    return collect("zl_send", COLLECTIVE_SEND, x, group, to);
}

zl_array zl_recv(zl_shape shape, zl_dtype dtype, int from, zl_group group) {
    zl_array y = NULL;
    if (!op_check_shape("zl_recv", shape) || !op_check_dtype("zl_recv", dtype))
        return NULL;
    zl_group g = meant(group);
    if (g && g->size == 1)
        error_set(ZL_ERROR_VALUE, "zl_recv: a group of one process has nobody to receive from");
    else if (g && (from < 0 || from >= g->size))
        error_set(ZL_ERROR_VALUE, "zl_recv: there is no rank %d in a group of %d", from, g->size);
    else if (g) {
        zl_scope s = zl_scope_begin();
        y = zl_scope_leave(s, op_collective(COLLECTIVE_RECV, g, NULL, from, dtype, shape.ndim, shape.dim));
    }
    zl_group_release(g);
    return y;
}

bool zl_group_barrier(zl_group group) {
    zl_scope s = zl_scope_begin();
    zl_array y =
        collect("zl_group_barrier", COLLECTIVE_BARRIER, zl_from_i32((int32_t[]){1}, ZL_SHAPE(1)), group, 0);
    bool ok = zl_eval(y);
    zl_scope_end(s);
    return ok;
}
