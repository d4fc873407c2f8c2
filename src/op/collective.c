// collective.c - collectives as ops: communication among the processes of a group.
//
// Each call has a ticket, a leaf of its own that holds the group and a number. Numbers grow in the order of
// recording. The number is not an argument of the call, because a plan is reused for all evaluations with the
// same structure.
//
// Derivatives follow MLX: a result that is equal on all ranks has equal cotangents on all of them, so the
// cotangent of a sum over ranks is the cotangent of each rank's input. That of a maximum is shared equally by
// the ranks whose element is the maximum, as zl_max shares it.

#include "op/ops.h"

struct ticket {
    int64_t number;
    zl_group group;
};

static atomic_llong numbers;
static _Thread_local int64_t shift; // while a recording is replayed: added to recorded numbers; 0: no replay

// Groups: who holds them. The other functions of theirs are in src/group/. ----------------------------------

zl_group zl_group_retain(zl_group g) {
    if (g)
        atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    return g;
}

void zl_group_release(zl_group g) {
    if (g && atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) == 1)
        g->close(g);
}

// Tickets ---------------------------------------------------------------------------------------------------

static void release_ticket(void *context) {
    struct ticket *t = context;
    zl_group_release(t->group);
    memory_free(t);
}

static zl_array make_ticket(zl_group group, int64_t number) {
    struct ticket *t = memory_alloc(sizeof *t);
    if (!t)
        return NULL;
    *t = (struct ticket){number, zl_group_retain(group)};
    struct storage *s = storage_foreign(t, sizeof *t, release_ticket, t);
    if (!s) {
        release_ticket(t);
        return NULL;
    }
    return graph_leaf(&(struct array_spec){.dtype = ZL_UINT8, .ndim = 1, .dim = (int64_t[]){sizeof *t}}, s);
}

static const struct ticket *ticket_of(const struct call *c) {
    return c->in[c->inputs - 1]->storage->data;
}

int64_t op_collective_number(const struct call *c) {
    return ticket_of(c)->number;
}

void op_collective_again(int64_t first, int64_t last) {
    shift = first || last ? atomic_fetch_add(&numbers, last - first + 1) + 1 - first : 0;
}

// Recording -------------------------------------------------------------------------------------------------

static zl_array record_call(enum collective kind, zl_group group, int64_t number, zl_array x, int peer,
                            zl_dtype dtype, int ndim, const int64_t *dim) {
    zl_array in[2] = {x ? zl_contiguous(x, false) : NULL, make_ticket(group, number)};
    if ((x && !in[0]) || !in[1])
        return NULL;
    zl_stream caller = recorder.stream;
    recorder.stream = group->stream;
    zl_array y =
        op_dense(&op_collectives[kind], x ? 2 : 1, x ? in : in + 1, 1, (int64_t[]){peer}, dtype, ndim, dim);
    recorder.stream = caller;
    return y;
}

zl_array op_collective(enum collective kind, zl_group group, zl_array x, int peer, zl_dtype dtype, int ndim,
                       const int64_t *dim) {
    return record_call(kind, group, atomic_fetch_add(&numbers, 1) + 1, x, peer, dtype, ndim, dim);
}

static enum collective kind_of(const struct call *c) {
    return (enum collective)(c->op - op_collectives);
}

// Returns the size of the first axis of a result, given that of the input.
static int64_t first_of(enum collective kind, zl_group g, int64_t n) {
    return kind == COLLECTIVE_ALL_GATHER ? n * g->size : kind == COLLECTIVE_SUM_SCATTER ? n / g->size : n;
}

// Records the same collective as c for another x.
static zl_array like(const struct call *c, enum collective kind, zl_array x) {
    const struct ticket *t = ticket_of(c);
    int64_t number = shift ? t->number + shift : atomic_fetch_add(&numbers, 1) + 1;
    int peer = (int)call_args(c)[0];
    if (!x) {
        zl_array y = call_first(c);
        return record_call(kind, t->group, number, NULL, peer, (zl_dtype)y->dtype, y->ndim, y->dim);
    }
    OP_TEMP(int64_t, dim, x->ndim + 1);
    if (!dim)
        return NULL;
    dim[0] = 1; // a gathered scalar gets an axis of size 1
    for (int i = 0; i < x->ndim; i++)
        dim[i] = x->dim[i];
    bool gains_axis = x->ndim == 0 && kind == COLLECTIVE_ALL_GATHER;
    if (x->ndim || gains_axis)
        dim[0] = first_of(kind, t->group, dim[0]);
    return record_call(kind, t->group, number, x, peer, (zl_dtype)x->dtype, x->ndim + gains_axis, dim);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = like(c, kind_of(c), c->inputs > 1 ? in[0] : NULL));
}

// Derivatives -----------------------------------------------------------------------------------------------

// Returns this rank's rows of a gathered array.
static zl_array own_rows(const struct call *c, zl_array g) {
    zl_array x = c->in[0];
    const struct ticket *t = ticket_of(c);
    int64_t rows = x->ndim ? x->dim[0] : 1;
    OP_TEMP(int64_t, start, 3 * (int64_t)g->ndim);
    if (!start)
        return NULL;
    int64_t *stop = start + g->ndim, *step = stop + g->ndim;
    for (int i = 0; i < g->ndim; i++) {
        start[i] = i ? 0 : t->group->rank * rows;
        stop[i] = i ? g->dim[i] : start[0] + rows;
        step[i] = 1;
    }
    zl_array part =
        zl_slice(g, (zl_shape){start, g->ndim}, (zl_shape){stop, g->ndim}, (zl_shape){step, g->ndim});
    return x->ndim ? part : zl_squeeze(part, ZL_AXES(0));
}

// Returns which elements of this rank are the maximum or minimum, and sets *ranks to the number of ranks that
// have it, in this dtype.
static zl_array winners(const struct call *c, zl_dtype dtype, zl_array *ranks) {
    zl_array is = zl_equal(call_first(c), c->in[0]), ones = zl_astype(is, dtype);
    *ranks = ones ? like(c, COLLECTIVE_ALL_SUM, ones) : NULL;
    return is;
}

static zl_array vjp_of_extreme(const struct call *c, zl_array g) {
    zl_array ranks, is = winners(c, (zl_dtype)g->dtype, &ranks);
    return zl_where(is, zl_divide(g, ranks), op_number((zl_dtype)g->dtype, 0));
}

static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    zl_array g = cotangent[0];
    if (!g || input != 0 || c->inputs < 2)
        return NULL;
    switch (kind_of(c)) {
    case COLLECTIVE_ALL_MAX:
    case COLLECTIVE_ALL_MIN: return vjp_of_extreme(c, g);
    case COLLECTIVE_ALL_GATHER: return own_rows(c, g);
    case COLLECTIVE_SUM_SCATTER: return like(c, COLLECTIVE_ALL_GATHER, g);
    case COLLECTIVE_ALL_TO_ALL: return like(c, COLLECTIVE_ALL_TO_ALL, g);
    case COLLECTIVE_BROADCAST: return ticket_of(c)->group->rank == (int)call_args(c)[0] ? g : op_zeros_of(g);
    default: return g;
    }
}

// Returns the tangent of a maximum or minimum: the mean of the tangents of all inputs equal to it.
static zl_array tangent_of_extreme(const struct call *c, zl_array tangent) {
    zl_dtype dtype = (zl_dtype)tangent->dtype;
    zl_array ranks, is = winners(c, dtype, &ranks), own = zl_where(is, tangent, op_number(dtype, 0));
    return own ? zl_divide(like(c, COLLECTIVE_ALL_SUM, own), ranks) : NULL;
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    enum collective kind = kind_of(c);
    out[0] = NULL;
    if (c->inputs < 2 || !tangent[0])
        return true;
    bool is_extreme = kind == COLLECTIVE_ALL_MAX || kind == COLLECTIVE_ALL_MIN;
    out[0] = kind == COLLECTIVE_SEND ? tangent[0]
             : is_extreme            ? tangent_of_extreme(c, tangent[0])
                                     : like(c, kind, tangent[0]);
    return out[0];
}

// Batching --------------------------------------------------------------------------------------------------

// For collectives that divide or extend the first axis, the batch axis is moved to the end.
static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    enum collective kind = kind_of(c);
    bool by_rows =
        kind == COLLECTIVE_ALL_GATHER || kind == COLLECTIVE_SUM_SCATTER || kind == COLLECTIVE_ALL_TO_ALL;
    zl_array x = in[0];
    out_axis[0] = axis[0];
    if (c->inputs < 2 || axis[0] < 0)
        return record(c, in, out);
    if (by_rows) {
        x = zl_moveaxis(x, axis[0], -1);
        if (x && x->ndim == 1)
            x = zl_expand_dims(x, ZL_AXES(0));
        out_axis[0] = x ? x->ndim - 1 : 0;
    }
    return x && (out[0] = like(c, kind, x));
}

static const struct op_field peer_field[] = {{"peer", FIELD_INT}};

const struct op op_collectives[COLLECTIVE_COUNT] = {
#define COLLECTIVE(NAME, text, in_place_)       \
    [COLLECTIVE_##NAME] = {.name = text,        \
                           .kind = OP_OTHER,    \
                           .fields = 1,         \
                           .field = peer_field, \
                           .record = record,    \
                           .vjp = vjp,          \
                           .jvp = jvp,          \
                           .vmap = vmap,        \
                           .in_place = in_place_},
#include "op/collective.def"
};

// Running ---------------------------------------------------------------------------------------------------

bool op_collective_run(const struct call *c, struct op_transfer *t) {
    zl_array y = call_first(c), x = c->inputs > 1 ? c->in[0] : NULL;
    zl_group g = ticket_of(c)->group;
    t->kind = kind_of(c);
    t->name = c->op->name;
    t->dtype = (zl_dtype)y->dtype;
    t->peer = (int)call_args(c)[0];
    t->in_count = x ? x->size : 0;
    t->out_count = y->size;
    return g->run(g, t);
}
