// loop.c - zl_loop: a function that computes its own next inputs, planned once and run many times in the same
// memory.
//
// The function is called once, on arrays that stand for the state. The graph that it recorded is kept, with
// its plan: a turn (loop_turn.c) runs the same programs on the same calls. Arrays that do not depend on the
// state are computed before the first turn.

#include "schedule/schedule.h"

#include "op/ops.h"
#include "zellige_loop.h"

#include <string.h>

static const char no_data[] = "zl_loop_new: the state has no data while the function is recorded, which is "
                              "once, for all turns: it cannot be evaluated or read there";

// The state -------------------------------------------------------------------------------------------------

static bool check_state(int count, const zl_array *state) {
    if (count < 1 || !state)
        return error_false(ZL_ERROR_VALUE, "zl_loop_new: %d arrays of state: wanted at least one", count);
    for (int i = 0; i < count; i++) {
        if (!state[i])
            return zl_error() ? false : error_false(ZL_ERROR_VALUE, "zl_loop_new: state %d is NULL", i);
        if (array_is(state[i], ARRAY_INLINE) || array_is_tracer(state[i]))
            return error_false(ZL_ERROR_VALUE,
                               "zl_loop_new: state %d is a number or depends on a transform: "
                               "wanted an array with data",
                               i);
    }
    return true;
}

// Returns whether nothing else refers to the array or to its memory, and the array takes up all of that
// memory.
static bool is_alone(zl_array a) {
    return array_is_held_once(a) && array_is(a, ARRAY_CONTIGUOUS) && a->offset == 0 && a->storage &&
           !array_borrows(a) && storage_is_unique(a->storage);
}

static zl_array copy_of(zl_array a) {
    return op_dense(&op_copy, 1, &a, 0, NULL, (zl_dtype)a->dtype, a->ndim, a->dim);
}

static zl_array leaf_of(zl_array like, struct storage *s) {
    return zl_retain(
        graph_leaf(&(struct array_spec){.dtype = (zl_dtype)like->dtype, .ndim = like->ndim, .dim = like->dim},
                   storage_retain(s)));
}

static zl_array own_state(zl_array a) {
    zl_array x = is_alone(a) ? a : copy_of(a);
    return x && zl_eval(x) ? leaf_of(x, x->storage) : NULL;
}

static bool own_all(zl_loop l, const zl_array *state) {
    bool ok = zl_eval_all(l->states, state);
    for (int i = 0; ok && i < l->states; i++)
        ZL_SCOPE {
            ok = (l->state[i] = own_state(state[i]));
        }
    return ok;
}

// Recording -------------------------------------------------------------------------------------------------

// Marks the arrays of the state as failed with f, so that their values cannot be read. Saves their storages
// in kept.
static void hide_state(zl_loop l, struct failure *f, struct storage **kept) {
    for (int i = 0; i < l->states; i++) {
        kept[i] = l->state[i]->storage;
        failure_retain(l->state[i]->failure = f);
        atomic_store(&l->state[i]->state, ARRAY_FAILED);
    }
}

static void show_state(zl_loop l, struct storage *const *kept) {
    for (int i = 0; i < l->states; i++) {
        failure_release(l->state[i]->failure);
        l->state[i]->storage = kept[i];
        atomic_store(&l->state[i]->state, ARRAY_READY);
    }
}

static bool call_function(zl_loop l, zl_outputs *out) {
    bool ok = l->f.call(l->f.data, l->states, l->state, out) && !out->failed;
    return ok || (zl_error() ? false
                             : error_false(ZL_ERROR_VALUE, "zl_loop: the function failed without an error"));
}

static bool check_results(zl_loop l, const zl_outputs *out) {
    if (out->count < l->states)
        return error_false(ZL_ERROR_VALUE,
                           "zl_loop: the function gave %d arrays, fewer than the %d of the state", out->count,
                           l->states);
    for (int i = 0; i < l->states; i++) {
        zl_array x = l->state[i], y = out->item[i];
        if (x->dtype != y->dtype || !shape_equal(x->ndim, x->dim, y->ndim, y->dim))
            return error_false(ZL_ERROR_SHAPE,
                               "zl_loop: state %d is %s of shape %s, and the next one %s of shape %s", i,
                               zl_dtype_name((zl_dtype)x->dtype), array_text(x),
                               zl_dtype_name((zl_dtype)y->dtype), array_text(y));
    }
    return true;
}

static int state_of(const struct zl_loop_ *l, zl_array a) {
    int i = 0;
    while (i < l->states && l->state[i] != a)
        i++;
    return i < l->states ? i : -1;
}

// Returns whether result k must be copied because it came earlier in the list. A next state may also be one
// result, in the same memory.
static bool comes_twice(const struct zl_loop_ *l, int k) {
    int before = 0, first = -1;
    for (int i = 0; i < k; i++)
        if (l->list.item[i] == l->list.item[k]) {
            first = before++ ? first : i;
        }
    return before > 1 || (before == 1 && (k < l->states || first >= l->states));
}

// Returns whether a call of its own computes result k, into memory of its own.
static bool has_memory(const struct zl_loop_ *l, int k) {
    zl_array a = l->list.item[k];
    int state = state_of(l, a);
    if (state >= 0)
        return state == k;
    return array_state(a) == ARRAY_LAZY && a->call->op->kind != OP_VIEW && array_is(a, ARRAY_CONTIGUOUS) &&
           !array_is(a, ARRAY_INLINE) && a->offset == 0 && !comes_twice(l, k);
}

static bool give_memory(zl_loop l) {
    for (int k = 0; k < l->list.count; k++) {
        zl_array own = has_memory(l, k) ? l->list.item[k] : copy_of(l->list.item[k]);
        if (!own)
            return false;
        zl_retain(own);
        zl_release(l->list.item[k]);
        l->list.item[k] = own;
    }
    return true;
}

static bool record(zl_loop l) {
    struct failure *f = failure_new(ZL_ERROR_STATE, no_data);
    OP_TEMP(struct storage *, kept, l->states);
    bool ok = kept;
    if (ok)
        ZL_SCOPE {
            hide_state(l, f, kept);
            ok = call_function(l, &l->list);
            show_state(l, kept);
            ok = ok && check_results(l, &l->list) && give_memory(l);
        }
    failure_release(f);
    l->results = l->list.count - l->states;
    return ok;
}

// Planning --------------------------------------------------------------------------------------------------

// Returns why a plan cannot run again, or NULL if it can.
static const char *why_not(const struct zl_loop_ *l, const struct tape *t, int plans,
                           struct plan *const *plan, const bool *follows) {
    zl_stream s = tape_stream(t, 0);
    for (int i = 0; i < l->list.count; i++) {
        int slot = tape_slot(t, l->list.item[i]);
        if (slot < 0 ? state_of(l, l->list.item[i]) < 0 : !follows[slot])
            return "a result does not follow from the state";
    }
    for (int i = 0; i < t->calls; i++)
        if (tape_stream(t, i) != s)
            return "it runs on several streams";
    for (int i = 0; i < plans; i++)
        for (int k = 0; k < plan[i]->segments; k++)
            if (plan[i]->segment[k].device != s->device || s->device->is_static)
                return "not all of it runs on one device that takes single calls";
    return t->collectives ? "it has collectives" : NULL;
}

// Finds the calls that depend on the state, and lists as constants the other arrays of the tape that these
// read. Returns false if memory runs out.
static bool find_constants(const struct zl_loop_ *l, const struct tape *t, bool *follows,
                           zl_outputs *constants) {
    for (int i = 0; i < t->calls; i++)
        for (int k = 0; k < t->call[i]->inputs; k++) {
            zl_array x = t->call[i]->in[k];
            int slot = tape_slot(t, x);
            follows[i] |= slot >= 0 ? follows[slot] : state_of(l, x) >= 0;
        }
    bool ok = true;
    for (int i = 0; i < t->calls; i++)
        for (int k = 0; follows[i] && k < t->call[i]->inputs; k++) {
            int slot = tape_slot(t, t->call[i]->in[k]);
            if (slot >= 0 && !follows[slot])
                ok = ok && zl_give(constants, t->call[i]->in[k]);
        }
    return ok;
}

// Releases each state at the call that reads it last.
static void end_states(zl_loop l) {
    bool *seen = memory_zero((size_t)l->states);
    for (int i = l->calls - 1; seen && i >= 0; i--)
        for (int k = 0; k < l->call[i]->inputs && k < 64; k++) {
            int state = state_of(l, l->call[i]->in[k]);
            if (state < 0 || seen[state])
                continue;
            seen[state] = true;
            l->dies[i] |= 1ull << k;
        }
    memory_free(seen);
}

static bool take(zl_loop l, const struct tape *t, int plans, struct plan *const *plan) {
    l->call = memory_alloc(sizeof *l->call * (size_t)t->calls);
    l->dies = memory_alloc(sizeof *l->dies * (size_t)t->calls);
    l->plan = memory_alloc(sizeof *l->plan * (size_t)plans);
    if (!l->call || !l->dies || !l->plan)
        return false;
    memcpy(l->call, t->call, sizeof *l->call * (size_t)t->calls);
    memcpy(l->dies, t->dies, sizeof *l->dies * (size_t)t->calls);
    l->calls = t->calls;
    l->stream = tape_stream(t, 0);
    for (; l->plans < plans; l->plans++) {
        l->plan[l->plans] = plan[l->plans];
        atomic_fetch_add(&plan[l->plans]->refs, 1);
    }
    for (int i = 0; i < l->calls; i++) {
        l->call[i]->stream = l->stream;
        for (int k = 0; k < l->call[i]->outputs; k++)
            atomic_store(&call_output(l->call[i], k)->state, ARRAY_CLAIMED);
    }
    end_states(l);
    return l->is_bound = true;
}

struct planning {
    zl_loop loop;
    zl_outputs constants;
    const char *why; // why the plan cannot be run again; NULL: it can
};

static bool hold(struct tape *t, int plans, struct plan *const *plan, void *data) {
    struct planning *p = data;
    p->why = t->calls ? NULL : "nothing is computed";
    bool *follows = t->calls ? memory_zero((size_t)t->calls) : NULL;
    bool ok = !t->calls || (follows && find_constants(p->loop, t, follows, &p->constants));
    if (ok && t->calls && !p->constants.count && !(p->why = why_not(p->loop, t, plans, plan, follows)))
        ok = take(p->loop, t, plans, plan);
    memory_free(follows);
    return ok;
}

// Plans the loop. If the plan reads computed arrays that do not depend on the state, evaluates these first
// and plans again, with them as constants.
static bool plan(zl_loop l) {
    struct planning p = {.loop = l};
    bool ok = eval_hold(l->list.count, l->list.item, hold, &p);
    if (ok && p.constants.count) {
        ok = zl_eval_all(p.constants.count, p.constants.item);
        outputs_clear(&p.constants);
        ok = ok && eval_hold(l->list.count, l->list.item, hold, &p);
    }
    outputs_clear(&p.constants);
    if (ok && p.why)
        log_line(ZL_LOG_INFO, "zl_loop: turns are recorded one by one: %s", p.why);
    if (!l->is_bound)
        outputs_clear(&l->list);
    return ok;
}

// Life ------------------------------------------------------------------------------------------------------

static void release_all(int count, zl_array *list) {
    for (int i = 0; list && i < count; i++)
        zl_release(list[i]);
    memory_free(list);
}

static void free_loop(zl_loop l) {
    loop_let_go(l);
    outputs_clear(&l->list);
    release_all(l->states, l->state);
    for (int i = 0; i < 2; i++)
        release_all(l->results, l->result[i]);
    for (int i = 0; i < l->plans; i++)
        plan_release(l->plan[i]);
    if (l->failure)
        failure_release(l->failure);
    if (l->f.release)
        l->f.release(l->f.data);
    memory_free(l->call);
    memory_free(l->dies);
    memory_free(l->plan);
    memory_free(l);
}

zl_loop zl_loop_new(zl_fn f, int count, const zl_array *state) {
    if (!f.call)
        return error_set(ZL_ERROR_VALUE, "zl_loop_new: no function to call");
    if (!check_state(count, state))
        return NULL;
    zl_loop l = memory_zero(sizeof *l);
    if (!l)
        return NULL;
    if (f.retain)
        f.retain(f.data);
    l->f = f, l->states = count, l->whole.loop = l;
    l->state = memory_zero(sizeof *l->state * (size_t)count);
    bool ok = l->state && own_all(l, state) && record(l);
    for (int i = 0; ok && i < 2; i++)
        ok = (l->result[i] = memory_zero(sizeof(zl_array) * (size_t)MAX_OF(l->results, 1)));
    if (!ok || !plan(l)) {
        free_loop(l);
        return NULL;
    }
    for (int i = 0; i < count; i++)
        zl_release(state[i]);
    return l;
}

// Turns -----------------------------------------------------------------------------------------------------

static void wait_for_turn(zl_loop l) {
    if (l->stream)
        stream_wait_while(l->stream, &l->busy);
}

static bool has_failed(const struct zl_loop_ *l) {
    if (l->failure)
        error_put(l->failure->kind, l->failure->message);
    return l->failure;
}

static void replace(zl_array *kept, zl_array next) {
    zl_retain(next);
    zl_release(*kept);
    *kept = next;
}

// Runs a turn by calling the function again, if its plan cannot be run again.
static bool call_again(zl_loop l) {
    zl_outputs out = {0};
    bool ok = false;
    ZL_SCOPE {
        OP_TEMP(zl_array, list, l->states + l->results);
        ok = list && call_function(l, &out) && check_results(l, &out) && out.count == l->states + l->results;
        for (int i = 0; ok && i < out.count; i++)
            replace(i < l->states ? &l->state[i] : &l->result[l->turns % 2][i - l->states],
                    list[i] = out.item[i]);
        outputs_clear(&out);
        ok = ok && zl_async_eval_all(l->states + l->results, list);
    }
    l->turns += ok;
    return ok || (zl_error() ? false
                             : error_false(ZL_ERROR_VALUE, "zl_loop_start: the function gave another number "
                                                           "of results than before"));
}

bool zl_loop_start(zl_loop l) {
    if (!l)
        return zl_error() ? false : error_false(ZL_ERROR_VALUE, "zl_loop_start: the loop is NULL");
    wait_for_turn(l);
    if (has_failed(l))
        return false;
    if (!l->is_bound)
        return call_again(l);
    l->turns++;
    if (l->stream->device->record && eval_begin(l->stream)) {
        loop_run(l);
        stream_end(l->stream);
        return !has_failed(l);
    }
    atomic_store(&l->busy, true);
    if (stream_enqueue(l->stream, &l->whole))
        return true;
    atomic_store(&l->busy, false);
    l->turns--;
    return false;
}

zl_array zl_loop_result(zl_loop l, int index, int turn) {
    if (!l)
        return zl_error() ? NULL : error_set(ZL_ERROR_VALUE, "zl_loop_result: the loop is NULL");
    if (index < 0 || index >= l->results || turn < 0 || turn > 1 || turn >= l->turns)
        return error_set(ZL_ERROR_VALUE,
                         "zl_loop_result: result %d of turn %d: there are %d results, of %lld turns", index,
                         turn, l->results, (long long)MIN_OF(l->turns, 2));
    if (turn == 0 || !l->turns)
        wait_for_turn(l);
    // The first turn allocates the memory of its results while it runs.
    if (l->is_bound && l->turns == 1)
        wait_for_turn(l);
    return has_failed(l) ? NULL : l->result[(l->turns - 1 - turn) % 2][index];
}

bool zl_loop_end(zl_loop l, zl_array *state) {
    if (!l)
        return zl_error() ? false : error_false(ZL_ERROR_VALUE, "zl_loop_end: the loop is NULL");
    wait_for_turn(l);
    bool ok = !has_failed(l);
    loop_let_go(l); // after this, the arrays of the state have their last values
    for (int i = 0; ok && state && i < l->states; i++)
        state[i] = zl_retain(l->state[i]);
    free_loop(l);
    return ok;
}
