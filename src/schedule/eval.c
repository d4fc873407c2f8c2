// eval.c - zl_eval: walk, plan and claim under one lock, then run here or on the streams' workers.

#include <string.h>

#include "device/profile/profile.h"
#include "schedule/schedule.h"

static struct lock planning;
ZL_AT_LOAD {
    fork_guard(&planning);
    fork_call(tape_forget); // after a fork, which waits until no walk is in progress
}

static _Thread_local struct {
    struct tape tape;
    struct plan **plan; // of the last evaluation, retained: the next one often has the same plans
    int plans, plan_cap;
    bool watched;
} scratch;

static void free_scratch(void *data) {
    (void)data;
    tape_free(&scratch.tape);
    for (int i = 0; i < scratch.plans; i++)
        plan_release(scratch.plan[i]);
    memory_free(scratch.plan);
    scratch.plan = NULL;
    scratch.plans = scratch.plan_cap = 0;
    scratch.watched = false;
}

// One evaluation: the tape, cut into pieces of at most PLAN_LARGEST calls, each with its plan.
struct evaluation {
    struct tape *tape;
    int pieces;
    struct plan **plan;
    zl_stream stream; // of all calls; NULL: there are several
    bool alone;       // no thread waits for it
    bool looks;       // it is planned, but not run
};

static bool make_room(int pieces) {
    if (!memory_grow(&scratch.plan, &scratch.plan_cap, pieces, sizeof *scratch.plan))
        return false;
    while (scratch.plans < pieces)
        scratch.plan[scratch.plans++] = NULL;
    return true;
}

static bool find_plans(struct evaluation *e) {
    int pieces = (e->tape->calls + PLAN_LARGEST - 1) / PLAN_LARGEST;
    if (UNLIKELY(scratch.plans < pieces) && !make_room(pieces))
        return false;
    for (int i = 0; i < pieces; i++)
        if (!plan_find(e->tape, i * PLAN_LARGEST, MIN_OF(e->tape->calls, (i + 1) * PLAN_LARGEST),
                       &scratch.plan[i]))
            return false;
    e->plan = scratch.plan;
    e->pieces = pieces;
    return true;
}

// Claims the arrays: from here on, other evaluations wait for them. Sets the stream of each call, on which
// threads wait for its outputs.
static void claim(struct evaluation *e) {
    e->stream = tape_stream(e->tape, 0);
    counter_add_alone(COUNTER_KERNELS, e->tape->calls);
    for (int i = 0; i < e->tape->calls; i++) {
        struct call *c = e->tape->call[i];
        c->stream = tape_stream(e->tape, i);
        c->kept = array_is_tracer(call_first(c));
        if (c->stream != e->stream)
            e->stream = NULL;
        for (int k = 0; k < c->outputs; k++)
            atomic_store_explicit(&call_output(c, k)->state, ARRAY_CLAIMED, memory_order_release);
    }
}

// Running here ----------------------------------------------------------------------------------------------

// Prepares the programs of later segments while the first segments run, so that those of one evaluation
// compile in parallel.
static void prepare_later(struct evaluation *e, int piece) {
    struct plan *plan = e->plan[piece];
    for (int i = piece ? 0 : 1; i < plan->segments; i++) {
        const struct plan_segment *s = &plan->segment[i];
        if (s->device->prepare)
            s->device->prepare(s->unit, s->program,
                               &(struct segment){.calls = s->end - s->begin,
                                                 .call = e->tape->call + piece * PLAN_LARGEST + s->begin});
    }
}

static void run_piece(struct evaluation *e, int piece) {
    struct plan *plan = e->plan[piece];
    for (int i = 0; i < plan->segments; i++) {
        const struct plan_segment *s = &plan->segment[i];
        int first = piece * PLAN_LARGEST + s->begin;
        schedule_run_now(&(struct run){.binding = {.calls = s->end - s->begin, .call = e->tape->call + first},
                                       .stream = e->stream,
                                       .segment = s,
                                       .dies = e->tape->dies + first,
                                       .waits = e->tape->waits});
    }
}

static void run_here(struct evaluation *e) {
    for (int i = 0; i < e->pieces; i++)
        if (UNLIKELY(e->plan[i]->segments > 1 || i > 0))
            prepare_later(e, i);
    for (int i = 0; i < e->pieces; i++)
        run_piece(e, i);
    stream_end(e->stream);
}

// Returns whether all segments run on devices that only enqueue work: a worker would then just alternate with
// this thread.
static bool only_asks(const struct evaluation *e) {
    for (int i = 0; i < e->pieces; i++)
        for (int k = 0; k < e->plan[i]->segments; k++)
            if (!e->plan[i]->segment[k].device->record)
                return false;
    return true;
}

// Running on workers ----------------------------------------------------------------------------------------

static struct run *copy_run(struct evaluation *e, int piece, int segment, int count, const zl_array *arrays) {
    const struct plan_segment *s = &e->plan[piece]->segment[segment];
    int calls = s->end - s->begin, first = piece * PLAN_LARGEST + s->begin;
    size_t words = (size_t)calls * 2 + (size_t)count;
    struct run *run = memory_zero(sizeof *run + words * 8);
    if (!run)
        return NULL;
    struct call **call = (struct call **)(void *)(run + 1);
    uint64_t *dies = (uint64_t *)(void *)(call + calls);
    memcpy(call, e->tape->call + first, sizeof *call * (size_t)calls);
    memcpy(dies, e->tape->dies + first, sizeof *dies * (size_t)calls);
    run->binding.calls = calls;
    run->binding.call = call;
    run->dies = dies;
    run->stream = call[0]->stream;
    run->plan = e->plan[piece];
    atomic_fetch_add(&run->plan->refs, 1);
    run->segment = s;
    run->waits = true;
    run->alone = e->alone;
    run->keep = (zl_array *)(void *)(dies + calls);
    for (run->kept = 0; run->kept < count; run->kept++)
        run->keep[run->kept] = zl_retain(arrays[run->kept]);
    return run;
}

// Fails the calls of a run that could not be enqueued, so that no thread waits for them forever.
static void fail_segment(struct evaluation *e, int first, int calls) {
    zl_error_kind kind = ZL_ERROR_MEMORY;
    char *message = error_take(&kind);
    struct failure *f = failure_new(kind, message ? message : "evaluation: memory is out");
    memory_free(message);
    for (int i = first; i < first + calls; i++)
        schedule_run_fail(e->tape->call[i], f);
    failure_release(f);
}

static void enqueue_all(struct evaluation *e, int count, const zl_array *arrays) {
    for (int i = 0; i < e->pieces; i++)
        for (int k = 0; k < e->plan[i]->segments; k++) {
            const struct plan_segment *s = &e->plan[i]->segment[k];
            struct run *run = copy_run(e, i, k, count, arrays);
            if (run && stream_enqueue(run->stream, run))
                continue;
            fail_segment(e, i * PLAN_LARGEST + s->begin, s->end - s->begin);
            if (run)
                schedule_run_free(run);
        }
}

// Evaluating ------------------------------------------------------------------------------------------------

// Releases the history of arrays that are computed.
static void detach_ready(int count, const zl_array *arrays) {
    for (int i = 0; i < count; i++) {
        zl_array a = arrays[i];
        if (array_state(a) == ARRAY_READY && a->call && !a->call->detached && !array_is_tracer(a))
            graph_detach(a->call);
    }
}

// Walks the graph, and walks it again if narrowing changed it.
static bool walk(struct tape *tape, int count, const zl_array *arrays) {
    bool changed = false;
    if (!tape_walk(tape, count, arrays) || (UNLIKELY(tape->has_slices) && !narrow_tape(tape, &changed)))
        return false;
    return LIKELY(!changed) || tape_walk(tape, count, arrays);
}

static bool plan_all(struct evaluation *e, int count, const zl_array *arrays) {
    if (!scratch.watched) {
        if (!base_thread_at_exit(free_scratch, NULL))
            return false;
        scratch.watched = true;
    }
    e->tape = &scratch.tape;
    e->tape->looks = e->looks;
    return walk(e->tape, count, arrays) && (e->tape->calls == 0 || find_plans(e));
}

// Plans under the planning lock, which it takes and the caller releases. A thread's first evaluation may open
// drivers to find the default device. It does so without the lock: drivers may fork, and a fork waits for all
// locks.
static bool lock_and_plan(struct evaluation *e, int count, const zl_array *arrays) {
    lock_take(&planning);
    if (LIKELY(plan_all(e, count, arrays)))
        return true;
    if (!e->tape || !e->tape->lacks_standard)
        return false;
    lock_give(&planning);
    bool is_chosen = stream_standard();
    lock_take(&planning);
    return is_chosen && plan_all(e, count, arrays);
}

bool eval_look(zl_array a,
               void (*look)(const struct tape *tape, int begin, const struct plan *plan, void *data),
               void *data) {
    struct evaluation e = {.looks = true};
    bool ok = lock_and_plan(&e, 1, &a);
    for (int i = 0; ok && i < e.pieces; i++)
        look(e.tape, i * PLAN_LARGEST, e.plan[i], data);
    lock_give(&planning);
    return ok;
}

bool eval_hold(int count, const zl_array *arrays,
               bool (*hold)(struct tape *tape, int plans, struct plan *const *plan, void *data), void *data) {
    struct evaluation e = {.alone = false};
    bool ok = lock_and_plan(&e, count, arrays) && hold(e.tape, e.pieces, e.plan, data);
    lock_give(&planning);
    return ok;
}

bool eval_begin(zl_stream s) {
    lock_take(&planning);
    bool begun = stream_try_begin(s);
    lock_give(&planning);
    return begun;
}

static bool start(int count, const zl_array *arrays, bool wait) {
    struct evaluation e = {.alone = !wait};
    bool here = false;
    bool ok = lock_and_plan(&e, count, arrays);
    if (ok && e.tape->calls) {
        zl_stream first = tape_stream(e.tape, 0);
        here = (wait || (!e.tape->waits && only_asks(&e))) && stream_try_begin(first);
        claim(&e);
        if (here && !e.stream) {
            stream_end(first);
            here = false;
        }
        if (!here)
            enqueue_all(&e, count, arrays);
    } else if (ok) {
        detach_ready(count, arrays);
    }
    lock_give(&planning);
    if (here)
        run_here(&e);
    if (here && !wait)
        stream_keep_failure(e.stream, count, arrays);
    return ok;
}

static bool report(const char *function, zl_array a) {
    switch (array_state(a)) {
    case ARRAY_FAILED:
        error_put(a->failure->kind, a->failure->message);
        stream_told(a);
        return false;
    case ARRAY_CONSUMED:
        return error_false(ZL_ERROR_STATE,
                           "%s: this array of shape %s was consumed by an evaluation: retain it, or pass "
                           "it to the same eval",
                           function, array_text(a));
    default: return true;
    }
}

static bool has_null(const char *function, int count, const zl_array *arrays) {
    for (int i = 0; i < count; i++)
        if (!arrays[i]) {
            if (!zl_error())
                error_set(ZL_ERROR_VALUE, "%s: array %d of %d is NULL", function, i, count);
            return true;
        }
    return false;
}

// As in MLX, the results of a transform's function may be evaluated inside the transform, but not later.
static bool check_tracers(const char *function, int count, const zl_array *arrays) {
    for (int i = 0; i < count; i++)
        if (array_is_tracer(arrays[i]))
            return error_false(ZL_ERROR_VALUE,
                               "%s: array %d depends on the inputs of a transform that is running: use "
                               "zl_eval there",
                               function, i);
    return true;
}

static bool has_storage(zl_array a) {
    return array_state(a) == ARRAY_READY && !array_is(a, ARRAY_INLINE) && a->storage;
}

// Adds the name of the op that made the array to an error of a device. Returns ok.
static bool report_array(zl_array a, bool ok) {
    if (!ok)
        error_name(a->call ? a->call->op->name : "array");
    return ok;
}

// Waits for the values of a: a device publishes an array as soon as its computation is enqueued.
static bool settle(zl_array a) {
    return LIKELY(!device_has_memory()) || !has_storage(a) || report_array(a, device_settle(a->storage));
}

static bool fetch(zl_array a) {
    return LIKELY(!device_has_memory()) || !has_storage(a) || report_array(a, device_fetch(a->storage));
}

static bool evaluate(const char *function, int count, const zl_array *arrays, bool wait) {
    if (count < 0 || (count && !arrays))
        return error_false(ZL_ERROR_VALUE, "%s: %d arrays, but no list of them", function, count);
    if (has_null(function, count, arrays))
        return false;
    if ((!wait && !check_tracers(function, count, arrays)) || !start(count, arrays, wait))
        return false;
    bool ok = true;
    for (int i = 0; (wait || allocator_is_over_goal()) && i < count; i++) {
        if (!stream_wait(arrays[i]))
            return false;
        ok &= !wait || (report(function, arrays[i]) && settle(arrays[i]));
    }
    return ok;
}

bool eval_arrays(const char *function, int count, const zl_array *arrays, bool wait) {
    if (LIKELY(!profile_is_on()))
        return evaluate(function, count, arrays, wait);
    int64_t begin = clock_ticks();
    bool ok = evaluate(function, count, arrays, wait);
    profile_add(
        &(struct profile_record){
            .kind = PROFILE_EVAL, .name = function, .begin = begin, .end = clock_ticks()},
        NULL);
    return ok;
}

bool eval_read(const char *function, zl_array a) {
    if (!a)
        return has_null(function, 1, &a), false;
    return (LIKELY(array_state(a) == ARRAY_READY) || eval_arrays(function, 1, &a, true)) && fetch(a);
}

bool zl_eval(zl_array a) {
    return eval_arrays("zl_eval", 1, &a, true);
}

bool zl_eval_all(int count, const zl_array *arrays) {
    return eval_arrays("zl_eval_all", count, arrays, true);
}

bool zl_async_eval(zl_array a) {
    return eval_arrays("zl_async_eval", 1, &a, false);
}

bool zl_async_eval_all(int count, const zl_array *arrays) {
    return eval_arrays("zl_async_eval_all", count, arrays, false);
}
