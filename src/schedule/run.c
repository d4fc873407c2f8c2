// run.c - runs a program on arrays: gives outputs their storage, publishes them, and releases inputs that are
// not read again.

#include "schedule/schedule.h"

#include "device/profile/profile.h"

enum {
    SLACK = 16384, // bytes by which reused memory may be larger than needed
    SOURCES = 64,  // inputs that are examined for memory that a result may reuse
};

// Returns the state of an array that the run reads or computes. A relaxed load is enough: the walk or the
// wait before it has already synchronised with the thread that set the state.
static enum array_state known_state(zl_array a) {
    return (enum array_state)(atomic_load_explicit(&a->state, memory_order_relaxed) & ARRAY_STATES);
}

static void set_failure(zl_array a, struct failure *f) {
    failure_retain(f);
    a->failure = f;
    atomic_store_explicit(&a->state, ARRAY_FAILED, memory_order_release);
}

static void let_go(struct call *c) {
    if (!c->kept)
        graph_detach(c);
}

// Sets the states last, since another thread that sees one may free the call.
void schedule_run_fail(struct call *c, struct failure *f) {
    failure_retain(f); // the input that is released may hold the only reference
    let_go(c);
    for (int i = 0; i < c->outputs; i++)
        set_failure(call_output(c, i), f);
    failure_release(f);
}

void schedule_run_lose(struct call *c) {
    struct failure *f = failure_new(
        ZL_ERROR_STATE,
        "evaluation: an array was being computed by another thread when the process forked, and that thread "
        "is not in the child: evaluate it before the fork, or compute it again in the child");
    c->detached = 1;
    for (int i = 0; i < c->outputs; i++)
        if (array_state(call_output(c, i)) == ARRAY_CLAIMED)
            set_failure(call_output(c, i), f);
    failure_release(f);
}

// Returns whether the storage of x was given to the first output of the call.
static bool was_taken(const struct call *c, zl_array x) {
    return c->op->kind != OP_VIEW && x->storage && x->storage == call_first(c)->storage &&
           !array_is(x, ARRAY_INLINE);
}

static bool any_taken(const struct run *r, int index) {
    struct call *c = r->binding.call[index];
    for (uint64_t dies = r->dies[index]; dies; dies &= dies - 1)
        if (was_taken(c, c->in[__builtin_ctzll(dies)]))
            return true;
    return false;
}

static void drop_outputs(const struct run *r, int index) {
    struct call *c = r->binding.call[index];
    for (int i = any_taken(r, index); i < c->outputs; i++) // the input still owns memory that was taken
        if (call_output(c, i)->storage)
            storage_release(call_output(c, i)->storage);
}

static void on_fail(struct binding *b, int index) {
    struct call *c = b->call[index];
    if (known_state(call_first(c)) == ARRAY_FAILED)
        return; // on_prepare has failed the call already
    drop_outputs((struct run *)b, index);
    zl_error_kind kind = ZL_ERROR_DEVICE;
    char *message = error_take(&kind);
    struct failure *f = failure_new(kind, message ? message : "evaluation failed");
    memory_free(message);
    schedule_run_fail(c, f);
    failure_release(f);
}

// Returns whether all inputs are computed. An input that failed, or whose data is gone, fails the call.
static bool inputs_ready(struct binding *b, int index) {
    struct call *c = b->call[index];
    for (int i = 0; i < c->inputs; i++) {
        zl_array x = c->in[i];
        enum array_state state = known_state(x);
        if (LIKELY(state == ARRAY_READY) ||
            state == ARRAY_CLAIMED) // claimed: computed inside the same program
            continue;
        if (state == ARRAY_FAILED) {
            schedule_run_fail(c, x->failure);
        } else {
            error_set(ZL_ERROR_STATE,
                      "%s: its input of shape %s was consumed by an earlier evaluation: retain it, or "
                      "pass it to the same eval",
                      c->op->name, array_text(x));
            on_fail(b, index);
        }
        return false;
    }
    return true;
}

// Storage ---------------------------------------------------------------------------------------------------

static bool share_input(zl_array out, zl_array x) {
    if (!array_is(x, ARRAY_INLINE)) {
        out->storage = x->storage ? storage_retain(x->storage) : NULL;
        return true;
    }
    struct storage *s = storage_new(array_item(x));
    if (s)
        scalar_write(x, (zl_dtype)x->dtype, s->data);
    return (out->storage = s) != NULL;
}

// Returns whether x and out have the same layout, so that equal positions are at equal offsets.
static bool lie_alike(zl_array out, zl_array x) {
    if (array_is(x, ARRAY_CONTIGUOUS))
        return array_is(out, ARRAY_CONTIGUOUS) && x->size == out->size;
    return shape_equal(x->ndim, x->dim, out->ndim, out->dim) &&
           shape_same_layout(x->ndim, x->dim, array_stride(x), array_stride(out));
}

// Returns whether `out` may take the memory of x: the kernel then writes each element where it has read one.
static bool can_take(zl_array out, zl_array x) {
    if (array_is(x, ARRAY_INLINE) || !x->storage || array_borrows(x) || array_item(x) != array_item(out) ||
        x->offset != 0 || !lie_alike(out, x))
        return false;
    size_t bytes = (size_t)out->size * array_item(out);
    size_t most = MAX_OF(bytes + SLACK, allocator_capacity(bytes));
    return storage_is_unique(x->storage) && x->storage->bytes >= bytes && x->storage->bytes <= most;
}

// Tells other devices that the storage is overwritten on this one, which makes their copies stale.
static bool claim(const struct run *r, struct storage *s) {
    const struct device *d = r->segment->device;
    return LIKELY(!device_is_apart(d) && !device_has_memory()) ||
           device_claim(d, r->segment->unit, r->binding.lane, s);
}

static bool take_over(struct run *r, int index, zl_array out, uint64_t in_place) {
    struct call *c = r->binding.call[index];
    for (uint64_t dies = r->dies[index] & in_place; dies; dies &= dies - 1) {
        zl_array x = c->in[__builtin_ctzll(dies)];
        if (!can_take(out, x) || (in_place != UINT64_MAX && schedule_reads_twice(c, x)) ||
            !claim(r, x->storage))
            continue;
        out->storage = x->storage; // x keeps it until the call is finished, so that the kernel can read it
        r->donations++;
        return true;
    }
    return false;
}

static bool dies_at(const struct run *r, int index, int k) {
    return k < 64 && r->dies[index] >> k & 1;
}

// Returns whether the call is now the last reader of an array that was computed earlier and had several
// readers.
static bool is_last_reader(const struct call *c, zl_array x) {
    return array_is_held_once(x) && !c->kept && known_state(x) == ARRAY_READY &&
           (!x->call || x->call->detached);
}

// Gives `out` the memory of x, which keeps its own reference until its call is finished.
static bool share_memory(struct run *r, zl_array out, zl_array x) {
    if (!can_take(out, x) || !claim(r, x->storage))
        return false;
    out->storage = storage_retain(x->storage);
    r->donations++;
    return true;
}

// Gives `out`, the result of a later call in the same kernel, the memory of input k of call `index`, if
// nothing else reads that input.
static bool take_input(struct run *r, int index, int k, zl_array out) {
    const struct call *c = r->binding.call[index];
    zl_array x = c->in[k];
    return (dies_at(r, index, k) || is_last_reader(c, x)) && !was_taken(c, x) && share_memory(r, out, x);
}

// Gives `out` the memory of an input in_place that had other readers when the plan was made. take_over
// handles those that the plan says die here.
static bool take_last(struct run *r, int index, zl_array out, uint64_t in_place) {
    const struct call *c = r->binding.call[index];
    uint64_t inputs = c->inputs < 64 ? (1ull << c->inputs) - 1 : UINT64_MAX;
    for (uint64_t others = in_place & ~r->dies[index] & inputs; others; others &= others - 1) {
        zl_array x = c->in[__builtin_ctzll(others)];
        if (is_last_reader(c, x) && share_memory(r, out, x))
            return true;
    }
    return false;
}

// Returns the call of [begin, end) that computes x, or -1.
static int find_maker(const struct run *r, int begin, int end, zl_array x) {
    int i = x->call ? end - 1 : -1;
    while (i >= begin && r->binding.call[i] != x->call)
        i--;
    return i >= begin ? i : -1;
}

// Gives the result of call `index` the memory of the first suitable input, in the order of operands, that
// call `at` and the calls of the group before it read. So a state that each step computes anew stays in its
// place, whatever else dies there, and a program that runs again finds all memory as it was. *left: how many
// inputs may still be examined.
static bool take_source(struct run *r, int begin, int index, int at, int *left) {
    const struct call *c = r->binding.call[at];
    zl_array out = call_first(r->binding.call[index]);
    for (int k = 0; k < c->inputs && (*left)-- > 0; k++) {
        int maker = find_maker(r, begin, at, c->in[k]);
        if (maker >= 0 && take_source(r, begin, index, maker, left))
            return true;
        if (maker >= 0)
            continue;
        // An input of the call itself that dies here is taken over when the call is prepared.
        if (at == index && dies_at(r, index, k) ? can_take(out, c->in[k]) : take_input(r, at, k, out))
            return true;
    }
    return false;
}

static void on_take(struct binding *b, int begin, int index) {
    struct run *r = (struct run *)b;
    int left = SOURCES;
    if (take_source(r, begin, index, index, &left))
        return;
    for (int i = begin; i < index; i++)
        for (int k = 0; k < b->call[i]->inputs; k++)
            if (take_input(r, i, k, call_first(b->call[index])))
                return;
}

// Returns storage for an output. Empty arrays get no device memory: nothing is computed for them, so they
// never reach a device.
static struct storage *new_storage(const struct run *r, size_t bytes) {
    const struct plan_segment *s = r->segment;
    return LIKELY(!device_is_apart(s->device)) || !bytes
               ? storage_new(bytes)
               : device_storage(s->device, s->unit, r->binding.lane, bytes);
}

static bool give_output(struct run *r, int index, int i, uint64_t in_place) {
    struct call *c = r->binding.call[index];
    zl_array out = call_output(c, i);
    if (c->op->kind == OP_VIEW)
        return share_input(out, c->in[i]);
    if (out->storage) // taken
        return true;
    if (i == 0 && in_place && (take_over(r, index, out, in_place) || take_last(r, index, out, in_place)))
        return true;
    return (out->storage = new_storage(r, (size_t)out->size * array_item(out)));
}

static bool give_storage(struct run *r, int index, uint64_t in_place) {
    for (int i = 0; i < r->binding.call[index]->outputs; i++)
        if (!give_output(r, index, i, in_place))
            return false;
    return true;
}

static bool on_prepare(struct binding *b, int index, uint64_t in_place) {
    struct run *r = (struct run *)b;
    if (!inputs_ready(b, index))
        return false;
    if (!interrupt_between_calls(call_first(b->call[index])->size) && give_storage(r, index, in_place))
        return true;
    on_fail(b, index);
    return false;
}

// Finishing -------------------------------------------------------------------------------------------------

static void consume(zl_array a, bool taken) {
    struct storage *s = array_borrows(a) ? NULL : a->storage;
    a->storage = NULL;
    atomic_store_explicit(&a->state, ARRAY_CONSUMED, memory_order_release);
    if (s && !taken)
        storage_release(s);
}

// Ends the inputs that nothing reads after this call. An input that was computed before is held by the call
// alone and is freed with it.
static void end_inputs(const struct run *r, int index) {
    struct call *c = r->binding.call[index];
    for (uint64_t dies = r->dies[index]; dies; dies &= dies - 1) {
        zl_array x = c->in[__builtin_ctzll(dies)];
        bool taken = was_taken(c, x);
        if (taken || (x->call && known_state(x) == ARRAY_READY && !array_is(x, ARRAY_INLINE)))
            consume(x, taken);
    }
}

static void publish(const struct run *r, struct storage *s) {
    const struct plan_segment *segment = r->segment;
    if (UNLIKELY(segment->device->record != NULL) && s)
        device_publish(segment->device, segment->unit, r->binding.lane, s);
}

// Sets the states last, since another thread that sees one may free the call.
static void on_finish(struct binding *b, int index) {
    struct call *c = b->call[index];
    if (known_state(call_first(c)) == ARRAY_FAILED)
        return; // its inputs were released when it failed
    end_inputs((struct run *)b, index);
    let_go(c);
    for (int i = 0; i < c->outputs; i++) {
        zl_array out = call_output(c, i);
        if (!c->kept && array_is_forgotten(out)) {
            consume(out, false);
            continue;
        }
        if (c->op->kind != OP_VIEW) // the memory of a view was published when it was written
            publish((struct run *)b, out->storage);
        // An output without storage was an intermediate result inside a row program.
        atomic_store_explicit(&out->state, out->storage ? ARRAY_READY : ARRAY_CONSUMED, memory_order_release);
    }
}

// Running ---------------------------------------------------------------------------------------------------

// Waits for inputs that other streams compute. What this stream computes is in order anyway.
static void wait_for_inputs(const struct run *run) {
    for (int i = 0; i < run->binding.calls; i++) {
        const struct call *c = run->binding.call[i];
        for (int k = 0; k < c->inputs; k++)
            if (array_state(c->in[k]) == ARRAY_CLAIMED && c->in[k]->call->stream != run->stream)
                stream_wait(c->in[k]);
    }
}

static bool is_elsewhere(zl_array x) {
    return array_state(x) == ARRAY_READY && !array_is(x, ARRAY_INLINE) && x->storage && !x->storage->data;
}

// Copies to the host the inputs that only devices hold, for a program that runs on the host.
static bool fetch_inputs(const struct run *run) {
    for (int i = 0; i < run->binding.calls; i++) {
        const struct call *c = run->binding.call[i];
        for (int k = 0; k < c->inputs; k++)
            if (is_elsewhere(c->in[k]) && !device_fetch(c->in[k]->storage))
                return false;
    }
    return true;
}

static void fail_all(struct run *run) {
    zl_error_kind kind = ZL_ERROR_DEVICE;
    char *message = error_take(&kind);
    struct failure *f = failure_new(kind, message ? message : "evaluation failed");
    memory_free(message);
    for (int i = 0; i < run->binding.calls; i++)
        schedule_run_fail(run->binding.call[i], f);
    failure_release(f);
}

// Records a mark. If that fails, a thread that waits for it tries again and gets the error.
static void mark(const struct plan_segment *s, int lane) {
    bool had_error = zl_error();
    if (!device_mark(s->device, s->unit, lane) && !had_error)
        zl_clear_error();
}

void schedule_run_now(struct run *run) {
    if (run->waits)
        wait_for_inputs(run);
    if (!device_check(run->segment->device)) {
        fail_all(run);
        return;
    }
    if (UNLIKELY(device_has_memory()) && !device_is_apart(run->segment->device)) {
        if (run->segment->device != run->stream->device)
            counter_add(COUNTER_FALLBACK_RUNS, run->segment->end - run->segment->begin);
        if (!fetch_inputs(run)) {
            fail_all(run);
            return;
        }
    }
    run->binding.prepare = on_prepare;
    run->binding.take = on_take;
    run->binding.finish = on_finish;
    run->binding.fail = on_fail;
    const struct plan_segment *s = run->segment;
    run->binding.lane = s->device == run->stream->device ? run->stream->lane : 0;
    struct run_profile profile;
    if (profile_is_on())
        schedule_run_profile_begin(run, &profile);
    s->device->run(s->unit, s->program, &run->binding);
    if (run->donations)
        counter_add(COUNTER_DONATIONS, run->donations);
    if (UNLIKELY(run->profile != NULL))
        schedule_run_profile_end(run);
    if (UNLIKELY(s->device->record != NULL))
        mark(s, run->binding.lane);
}

void schedule_run_free(struct run *run) {
    for (int i = 0; i < run->kept; i++)
        zl_release(run->keep[i]);
    plan_release(run->plan);
    memory_free(run);
}
