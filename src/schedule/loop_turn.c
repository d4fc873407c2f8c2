// loop_turn.c - runs a turn of a loop: the first turn gives every array its memory, and later ones reuse it.
//
// Arrays that are not read any more leave their memory to later ones, as in any evaluation, but no memory is
// freed: it all stays the loop's, and each array keeps its place. The next state is written over the state if
// the op that computes it can do so and is the last to read it. Otherwise the state alternates between two
// places. So do results, since a result is read while the next turn runs.

#include "device/profile/profile.h"
#include "op/ops.h"
#include "schedule/schedule.h"

#include <string.h>

static struct zl_loop_ *loop_of(const struct binding *b) {
    return ((const struct run *)b)->loop;
}

int loop_root(struct zl_loop_ *l, zl_array a) {
    return (int)(intptr_t)map_get(&l->root_of, &a, sizeof a) - 1;
}

bool loop_is_shared(const struct zl_loop_ *l, int state) {
    bool shared = false;
    for (int k = l->states; k < l->list.count; k++)
        shared |= l->list.item[k] == l->list.item[state];
    return shared;
}

// Places ----------------------------------------------------------------------------------------------------

static struct loop_place *place_of(struct zl_loop_ *l, const struct storage *s) {
    int at = s ? (int)(intptr_t)map_get(&l->place_of, &s, sizeof s) : 0;
    return at ? &l->place[at - 1] : NULL;
}

static struct loop_place *add_place(struct zl_loop_ *l, struct storage *s, size_t bytes) {
    if (!memory_grow(&l->place, &l->place_cap, l->places + 1, sizeof *l->place) ||
        !map_set(&l->place_of, &s, sizeof s, (void *)(intptr_t)(l->places + 1)))
        return NULL;
    l->place[l->places] = (struct loop_place){s, bytes, 0, false};
    return &l->place[l->places++];
}

static struct storage *new_storage(const struct zl_loop_ *l, size_t bytes) {
    zl_stream s = l->stream;
    return device_is_apart(s->device) && bytes ? device_storage(s->device, s->unit, s->lane, bytes)
                                               : storage_new(bytes);
}

// Gives an output memory whose contents will not be read again.
static bool give_place(struct zl_loop_ *l, zl_array out) {
    size_t bytes = (size_t)out->size * array_item(out);
    struct loop_place *p = NULL;
    for (int i = 0; i < l->places && !p; i++)
        if (!l->place[i].live && !l->place[i].stays && l->place[i].bytes == bytes)
            p = &l->place[i];
    if (p) {
        out->storage = storage_retain(p->storage);
    } else if ((out->storage = new_storage(l, bytes)) && !(p = add_place(l, out->storage, bytes))) {
        storage_release(out->storage);
        out->storage = NULL;
    }
    if (!p)
        return false;
    p->live++;
    p->stays |= loop_root(l, out) >= 0;
    return true;
}

static void share_place(struct zl_loop_ *l, zl_array out, zl_array x) {
    struct loop_place *p = place_of(l, x->storage);
    out->storage = storage_retain(x->storage);
    if (p) {
        p->live++;
        p->stays |= loop_root(l, out) >= 0;
    }
}

// Returns whether a kernel may write `out` over x, which is not read afterwards.
static bool fits(struct zl_loop_ *l, zl_array out, zl_array x) {
    const struct loop_place *p = array_is(x, ARRAY_INLINE) ? NULL : place_of(l, x->storage);
    return p && p->live == 1 && array_is(x, ARRAY_CONTIGUOUS) && array_is(out, ARRAY_CONTIGUOUS) &&
           x->offset == 0 && x->size == out->size && array_item(x) == array_item(out);
}

static bool claim(const struct zl_loop_ *l, struct storage *s) {
    zl_stream m = l->stream;
    return !device_is_apart(m->device) || device_claim(m->device, m->unit, m->lane, s);
}

static bool may_take(struct zl_loop_ *l, zl_array out, zl_array x) {
    int root = loop_root(l, out);
    if (!fits(l, out, x))
        return false;
    if (!place_of(l, x->storage)->stays)
        return true;
    return root >= 0 && root < l->states && l->state[root]->storage == x->storage &&
           !loop_is_shared(l, root) && claim(l, x->storage);
}

static bool take_input(struct zl_loop_ *l, const struct call *c, uint64_t from, bool once, zl_array out) {
    for (; from; from &= from - 1) {
        zl_array x = c->in[__builtin_ctzll(from)];
        if ((once && schedule_reads_twice(c, x)) || !may_take(l, out, x))
            continue;
        share_place(l, out, x);
        return true;
    }
    return false;
}

// Gives `out`, a view of an inline scalar x, storage with the value of x.
static bool write_number(zl_array out, zl_array x) {
    out->storage = storage_new(array_item(x));
    if (out->storage)
        scalar_write(x, (zl_dtype)x->dtype, out->storage->data);
    return out->storage;
}

static bool give(struct zl_loop_ *l, const struct run *r, int index, int i, uint64_t in_place) {
    const struct call *c = r->binding.call[index];
    zl_array out = call_output(c, i);
    if (out->storage)
        return true;
    if (c->op->kind == OP_VIEW && array_is(c->in[i], ARRAY_INLINE))
        return write_number(out, c->in[i]);
    if (c->op->kind == OP_VIEW)
        return share_place(l, out, c->in[i]), true;
    return (i == 0 && take_input(l, c, r->dies[index] & in_place, in_place != UINT64_MAX, out)) ||
           give_place(l, out);
}

// A program asks --------------------------------------------------------------------------------------------

// Returns whether a pair keeps the memory of an output, which then has no reference of its own.
static bool is_in_pair(const struct zl_loop_ *l, zl_array out) {
    for (int i = 0; i < l->pairs; i++) {
        const struct loop_pair *p = &l->pair[i];
        for (int k = 0; k < p->writers; k++)
            if (p->writer[k] == out)
                return true;
        for (int k = 0; k < p->readers; k++)
            if (p->reader[k] == out)
                return true;
    }
    return false;
}

static void on_fail(struct binding *b, int index) {
    struct zl_loop_ *l = loop_of(b);
    struct call *c = b->call[index];
    if (array_state(call_first(c)) == ARRAY_FAILED)
        return;
    if (!l->failure) {
        zl_error_kind kind = ZL_ERROR_DEVICE;
        char *message = error_take(&kind);
        l->failure = failure_new(kind, message ? message : "a turn of a loop failed");
        memory_free(message);
    }
    zl_clear_error();
    for (int i = 0; i < c->outputs; i++) {
        zl_array out = call_output(c, i);
        if (out->storage && !is_in_pair(l, out))
            storage_release(out->storage);
        failure_retain(out->failure = l->failure);
        atomic_store(&out->state, ARRAY_FAILED);
    }
}

static bool on_prepare(struct binding *b, int index, uint64_t in_place) {
    struct zl_loop_ *l = loop_of(b);
    bool ok = !l->failure;
    if (LIKELY(l->has_memory && ok))
        return true;
    for (int i = 0; ok && i < b->call[index]->outputs; i++)
        ok = give(l, (struct run *)b, index, i, in_place);
    if (!ok)
        on_fail(b, index);
    return ok;
}

static void on_take(struct binding *b, int begin, int index) {
    struct zl_loop_ *l = loop_of(b);
    zl_array out = call_first(b->call[index]);
    for (int i = begin; !l->has_memory && !l->failure && i <= index && !out->storage; i++)
        take_input(l, b->call[i], ((struct run *)b)->dies[i], false, out);
}

static void on_finish(struct binding *b, int index) {
    struct zl_loop_ *l = loop_of(b);
    const struct call *c = b->call[index];
    for (uint64_t dies = l->has_memory ? 0 : ((struct run *)b)->dies[index]; dies; dies &= dies - 1) {
        zl_array x = c->in[__builtin_ctzll(dies)];
        struct loop_place *p = array_is(x, ARRAY_INLINE) ? NULL : place_of(l, x->storage);
        if (p)
            p->live--;
    }
}

static void run_segment(struct zl_loop_ *l, int first, const struct plan_segment *s) {
    struct run_profile profile;
    struct run r = {.binding = {.calls = s->end - s->begin,
                                .lane = l->stream->lane,
                                .call = l->call + first + s->begin,
                                .prepare = on_prepare,
                                .take = on_take,
                                .finish = on_finish,
                                .fail = on_fail},
                    .stream = l->stream,
                    .segment = s,
                    .dies = l->dies + first + s->begin,
                    .loop = l};
    if (profile_is_on())
        schedule_run_profile_begin(&r, &profile);
    s->device->run(s->unit, s->program, &r.binding);
    if (UNLIKELY(r.profile != NULL))
        schedule_run_profile_end(&r);
}

// Memory that changes ---------------------------------------------------------------------------------------

// Lists all outputs in s, and releases their references to it, since the pair keeps its own.
static bool gather(struct zl_loop_ *l, const struct storage *s, zl_array state, zl_array **list, int *count) {
    int cap = 0;
    if (state) {
        if (!memory_grow(list, &cap, 1, sizeof **list))
            return false;
        (*list)[(*count)++] = state;
    }
    for (int i = 0; i < l->calls; i++)
        for (int k = 0; k < l->call[i]->outputs; k++) {
            zl_array out = call_output(l->call[i], k);
            if (out->storage != s)
                continue;
            if (!memory_grow(list, &cap, *count + 1, sizeof **list))
                return false;
            (*list)[(*count)++] = out;
        }
    for (int i = 0; i < *count; i++)
        storage_release((*list)[i]->storage);
    return true;
}

static bool add_pair(struct zl_loop_ *l, int out, int state) {
    struct loop_pair *p = &l->pair[l->pairs];
    zl_array y = l->list.item[out];
    *p = (struct loop_pair){.out = out, .state = state};
    struct storage *first = storage_retain(y->storage);
    struct storage *second = state >= 0 ? storage_retain(l->state[state]->storage)
                                        : new_storage(l, (size_t)y->size * array_item(y));
    p->storage[0] = first, p->storage[1] = second;
    l->pairs++;
    return second && gather(l, first, NULL, &p->writer, &p->writers) &&
           (state < 0 || gather(l, second, l->state[state], &p->reader, &p->readers));
}

static bool add_pairs(struct zl_loop_ *l) {
    l->pair = memory_zero(sizeof *l->pair * (size_t)l->list.count);
    bool ok = l->pair;
    for (int k = 0; ok && k < l->list.count; k++) {
        zl_array y = l->list.item[k];
        bool is_state = k < l->states, shared = false;
        for (int i = 0; !is_state && i < l->states; i++)
            shared |= l->list.item[i] == y;
        if (!shared && !(is_state && l->state[k]->storage == y->storage))
            ok = add_pair(l, k, is_state ? k : -1);
    }
    return ok;
}

// Makes the arrays of results: one for turns 0, 2, ... and one for the others.
static bool make_results(struct zl_loop_ *l) {
    for (int k = 0; k < l->results; k++) {
        zl_array y = l->list.item[l->states + k];
        const struct loop_pair *p = l->pair;
        while (l->list.item[p->out] != y)
            p++;
        for (int i = 0; i < 2; i++) {
            struct array_spec spec = {.dtype = (zl_dtype)y->dtype, .ndim = y->ndim, .dim = y->dim};
            ZL_SCOPE {
                l->result[i][k] = zl_retain(graph_leaf(&spec, storage_retain(p->storage[i])));
            }
            if (!l->result[i][k])
                return false;
        }
    }
    return true;
}

// Sets the memory of arrays, but for those that failed, which have none.
static void move(zl_array *list, int count, struct storage *to) {
    for (int i = 0; i < count; i++)
        if (array_state(list[i]) != ARRAY_FAILED)
            list[i]->storage = to;
}

static void move_pairs(struct zl_loop_ *l, int64_t turn) {
    for (int i = 0; i < l->pairs; i++) {
        const struct loop_pair *p = &l->pair[i];
        move(p->writer, p->writers, p->storage[turn % 2]);
        move(p->reader, p->readers, p->storage[1 - turn % 2]);
        if (p->storage[turn % 2]->data)
            claim(l, p->storage[turn % 2]); // what the host read of it is stale
    }
}

static void publish(const struct zl_loop_ *l, struct storage *s) {
    if (l->stream->device->record)
        device_publish(l->stream->device, l->stream->unit, l->stream->lane, s);
}

// Turns -----------------------------------------------------------------------------------------------------

static bool open_places(struct zl_loop_ *l) {
    bool ok = true;
    for (int i = 0; ok && i < l->states; i++) {
        struct loop_place *p = add_place(l, l->state[i]->storage, 0);
        ok = p;
        if (p)
            p->live = 1, p->stays = true;
    }
    for (int k = l->list.count - 1; ok && k >= 0; k--)
        ok = map_set(&l->root_of, &l->list.item[k], sizeof(zl_array), (void *)(intptr_t)(k + 1));
    return ok;
}

// After a failure only the places of the state, which come first, are sure to exist.
static void close_places(struct zl_loop_ *l) {
    for (int i = 0; i < (l->failure ? MIN_OF(l->states, l->places) : l->places); i++)
        publish(l, l->place[i].storage);
    map_free(&l->place_of);
    map_free(&l->root_of);
    memory_free(l->place);
    l->place = NULL;
    l->places = l->place_cap = 0;
}

static void keep_error(struct zl_loop_ *l) {
    zl_error_kind kind = ZL_ERROR_MEMORY;
    char *message = error_take(&kind);
    if (!l->failure)
        l->failure = failure_new(kind, message ? message : "a turn of a loop failed");
    memory_free(message);
    zl_clear_error();
}

static void run_plans(struct zl_loop_ *l) {
    for (int i = 0; i < l->plans; i++)
        for (int k = 0; k < l->plan[i]->segments && !l->failure; k++)
            run_segment(l, i * PLAN_LARGEST, &l->plan[i]->segment[k]);
}

// Runs the first turn, which allocates all memory.
static bool run_and_bind(struct zl_loop_ *l) {
    if (!open_places(l))
        return false;
    run_plans(l);
    close_places(l);
    return !l->failure && add_pairs(l) && make_results(l) && (l->has_memory = true);
}

void loop_run(struct zl_loop_ *l) {
    zl_stream s = l->stream;
    bool ok = device_check(s->device);
    if (ok && l->has_memory) {
        move_pairs(l, l->turns - 1);
        counter_add(COUNTER_PLAN_HITS, l->plans);
        run_plans(l);
    } else if (ok) {
        ok = run_and_bind(l);
    }
    counter_add(COUNTER_KERNELS, l->calls);
    for (int i = 0; i < l->pairs; i++) // so that a reader of the turn before waits for that turn only
        publish(l, l->pair[i].storage[(l->turns - 1) % 2]);
    if (ok && !l->failure && s->device->record)
        ok = device_mark(s->device, s->unit, s->lane);
    if (!ok)
        keep_error(l);
    atomic_store(&l->busy, false);
}

// Makes the values of the last turn the state, if the state alternates between two places.
static void close_pair(struct zl_loop_ *l, struct loop_pair *p) {
    move(p->writer, p->writers, NULL);
    move(p->reader, p->readers, NULL);
    for (int k = 0; k < l->states; k++)
        if (l->list.item[k] == l->list.item[p->out])
            l->state[k]->storage = storage_retain(p->storage[(l->turns + 1) % 2]);
    for (int i = 0; i < 2; i++)
        if (p->storage[i])
            storage_release(p->storage[i]);
    memory_free(p->writer);
    memory_free(p->reader);
}

void loop_let_go(struct zl_loop_ *l) {
    for (int i = 0; i < l->states && l->is_bound && l->has_memory; i++)
        publish(l, l->state[i]->storage);
    for (int i = 0; i < l->pairs; i++)
        close_pair(l, &l->pair[i]);
    memory_free(l->pair);
    l->pair = NULL;
    l->pairs = 0;
    for (int i = 0; i < l->calls; i++)
        for (int k = 0; k < l->call[i]->outputs; k++) {
            zl_array out = call_output(l->call[i], k);
            if (array_state(out) == ARRAY_FAILED)
                continue;
            if (out->storage)
                storage_release(out->storage);
            out->storage = NULL;
            atomic_store(&out->state, ARRAY_CONSUMED);
        }
    l->calls = 0;
}
