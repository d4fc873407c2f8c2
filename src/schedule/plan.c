// plan.c - plans: the segments into which a list of calls is cut, and their programs, found by structure.
//
// The key is exact: ops, dtypes, ranks, links, which outputs are needed and which inputs die. It has no sizes
// and no numbers, with two exceptions: whether a division can become a multiplication, and, for a static
// device, arguments, sizes, strides, and the form in which the unit holds the inputs. Equal keys are compared
// byte by byte, so that a collision cannot run a wrong plan.

#include <string.h>

#include "op/ops.h"
#include "schedule/schedule.h"

enum { PLANS_MOST = 4096 }; // when there are more, all are forgotten

static struct map plans; // guarded by the planning lock, as everything in this file
static struct plan *recent[64]; // by a cheap hash; most evaluations find their plan here
static struct {
    int64_t *word;
    int len, cap;
} key;

static bool reserve(int words) {
    return LIKELY(key.len + words <= key.cap) ||
           memory_grow(&key.word, &key.cap, key.len + words, sizeof *key.word);
}

static int64_t kind_of_array(zl_array a) {
    return a->dtype | (int64_t)(a->flags & (ARRAY_WEAK | ARRAY_INLINE | ARRAY_CONTIGUOUS)) << 8 |
           (int64_t)a->ndim << 16;
}

// Returns the link to an input: its position if it is computed in the same piece, otherwise its kind.
static int64_t link_to(const struct tape *t, zl_array x, int begin) {
    int slot = tape_slot(t, x);
    return slot >= begin ? (int64_t)(slot - begin) << 1 | 1 : kind_of_array(x) << 2 | (slot >= 0) << 1;
}

// Appends the sizes and strides of an array. Its offset is left out: a static program finds it at each run.
static bool add_places(zl_array a) {
    if (!reserve(2 * a->ndim))
        return false;
    for (int i = 0; i < 2 * a->ndim; i++)
        key.word[key.len++] = a->dim[i];
    return true;
}

// Appends the arguments of a call, except those that only say where a slice begins: the effect of views is in
// the strides of their outputs.
static bool add_arguments(const struct call *c) {
    if (c->op->kind == OP_VIEW)
        return true;
    if (!reserve(c->args))
        return false;
    // starts and stops follow the first argument, which says how to update
    int starts = c->op == &op_slice_update ? 2 * call_first(c)->ndim : 0;
    for (int i = 0; i < c->args; i++)
        if (i < 1 || i > starts)
            key.word[key.len++] = call_args(c)[i];
    return true;
}

// Appends the form in which the unit holds the storage of an array from outside. An array that is still being
// computed counts as held in the form that was recorded.
static bool add_form(zl_stream s, zl_array x) {
    zl_dtype dtype = ZL_DTYPE_COUNT;
    struct form_bound bound = {.axis = -1};
    int ndim = 0;
    if (!reserve(x->ndim + 3))
        return false;
    int64_t *to = key.word + key.len;
    if (array_state(x) == ARRAY_READY && x->storage && x->size)
        ndim = device_form(s->device, s->unit, x, &dtype, to + 2, &bound);
    to[0] = (int64_t)dtype | (int64_t)ndim << 8 | (int64_t)(bound.axis + 1) << 16;
    to[1] = bound.axis < 0 ? 0 : bound.size;
    key.len += ndim + 2;
    return true;
}

// Numbers the arrays from outside of a piece, in order of first use. Arrays in the same storage share a
// number, and so do uses of one array that has no storage yet.
static struct {
    struct slot {
        const void *what;
        int number;
    } *slot;
    int cap, count; // cap: a power of two, or 0
} outside;

static bool grow_outside(void) {
    int cap = MAX_OF(64, 2 * outside.cap);
    struct slot *slot = memory_zero(sizeof *slot * (size_t)cap);
    if (!slot)
        return false;
    for (int i = 0; i < outside.cap; i++) {
        const void *x = outside.slot[i].what;
        uint64_t at = x ? hash_bytes(&x, sizeof x, 0) : 0;
        while (x && slot[at % (uint64_t)cap].what)
            at++;
        if (x)
            slot[at % (uint64_t)cap] = outside.slot[i];
    }
    memory_free(outside.slot);
    outside.slot = slot;
    outside.cap = cap;
    return true;
}

static void forget_outside(void) {
    memset(outside.slot, 0, sizeof *outside.slot * (size_t)outside.cap);
    outside.count = 0;
}

// Returns the number of an address, or -1 if memory runs out.
static int number_outside(const void *x) {
    if (2 * outside.count >= outside.cap && !grow_outside())
        return -1;
    uint64_t at = hash_bytes(&x, sizeof x, 0), last = (uint64_t)outside.cap - 1;
    while (outside.slot[at & last].what && outside.slot[at & last].what != x)
        at++;
    if (!outside.slot[at & last].what)
        outside.slot[at & last] = (struct slot){x, outside.count++};
    return outside.slot[at & last].number;
}

static bool add_number(zl_array x) {
    bool is_there = array_state(x) == ARRAY_READY && x->storage;
    int number = reserve(1) ? number_outside(is_there ? (const void *)x->storage : x) : -1;
    if (number >= 0)
        key.word[key.len++] = number;
    return number >= 0;
}

// Appends the sizes, strides and arguments of a call whose program is static.
static bool add_extents(const struct tape *t, const struct call *c, int begin, zl_stream s) {
    if (!add_arguments(c))
        return false;
    for (int k = 0; k < c->outputs; k++)
        if (!add_places(call_output(c, k)))
            return false;
    for (int k = 0; k < c->inputs; k++) {
        zl_array x = c->in[k];
        bool is_inside = tape_slot(t, x) >= begin;
        if (!is_inside && !array_is(x, ARRAY_INLINE) && (!add_places(x) || !add_form(s, x) || !add_number(x)))
            return false;
    }
    return true;
}

// Returns whether a division may become a multiplication, as bits of the key.
static int64_t division_of(const struct call *c) {
    return UNLIKELY(c->op == &op_elementwise[TILE_DIV]) ? op_scales(c) | op_has_inverse(c) << 1 : 0;
}

static bool add_call(const struct tape *t, int slot, int begin, zl_stream *stream) {
    const struct call *c = t->call[slot];
    zl_stream s = tape_stream(t, slot);
    if (!reserve(4 + c->outputs + c->inputs))
        return false;
    int64_t *to = key.word + key.len;
    *to++ = (int64_t)(intptr_t)c->op;
    *to++ = (int64_t)c->inputs | (int64_t)c->outputs << 16 | (int64_t)t->needed[slot] << 32 |
            (int64_t)(s != *stream) << 33 | division_of(c) << 34;
    *to++ = (int64_t)t->dies[slot];
    if (s != *stream) // the stream is part of the key: calls are cut by stream
        *to++ = (int64_t)(intptr_t)(*stream = s);
    for (int i = 0; i < c->outputs; i++)
        *to++ = kind_of_array(call_output(c, i));
    for (int i = 0; i < c->inputs; i++)
        *to++ = link_to(t, c->in[i], begin);
    key.len = (int)(to - key.word);
    return !s->device->is_static || add_extents(t, c, begin, s);
}

// Builds the key of a piece. Positions count from its beginning, so that equal pieces of one long graph share
// their plan.
static bool make_key(const struct tape *t, int begin, int end) {
    zl_stream stream = t->standard;
    key.len = 0;
    if (UNLIKELY(outside.count))
        forget_outside();
    if (!reserve(1))
        return false;
    key.word[key.len++] =
        (int64_t)(intptr_t)(stream ? stream->device : NULL) | (zl_get_compile_mode() == ZL_COMPILE_NO_FUSE);
    for (int i = begin; i < end; i++)
        if (!add_call(t, i, begin, &stream))
            return false;
    return true;
}

// Making ----------------------------------------------------------------------------------------------------

// Returns the device that runs a call: its stream's or, as a fallback, the CPU. Counts the fallback if
// `counts`. Returns NULL, with an error, if fallbacks are forbidden.
static const struct device *place(const struct call *c, zl_stream s, bool counts) {
    int units;
    if (s->device->can(s->unit, c))
        return s->device;
    if (setting_flag(SETTING_NO_FALLBACK))
        return error_set(ZL_ERROR_DEVICE, "%s: the %s device cannot run it, and ZL_NO_FALLBACK is set",
                         c->op->name, s->device->name);
    counter_add(COUNTER_FALLBACKS, counts);
    if (counts)
        log_line(ZL_LOG_INFO, "%s of %s falls back to the CPU: the %s device cannot run it", c->op->name,
                 zl_dtype_name((zl_dtype)(c->inputs ? c->in[0] : call_first(c))->dtype), s->device->name);
    return device_find("cpu", &units);
}

static bool build(const struct tape *t, int begin, struct plan_segment *s) {
    int calls = s->end - s->begin, first = begin + s->begin;
    uint8_t *needed = memory_alloc((size_t)calls);
    if (!needed)
        return false;
    for (int i = 0; i < calls; i++)
        needed[i] = t->needed[first + i] || (int)t->last[first + i] >= begin + s->end;
    s->program = s->device->build(
        s->unit, &(struct segment){.calls = calls, .call = t->call + first, .needed = needed});
    memory_free(needed);
    return s->program != NULL;
}

// Returns whether a call waits for a collective of another stream in [from, slot); collectives before that
// are already waited for.
static bool waits_anew(const struct tape *t, int slot, int begin, int *from) {
    const struct call *c = t->call[slot];
    int last = -1;
    for (int i = 0; i < c->inputs; i++) {
        int maker = tape_slot(t, c->in[i]);
        if (maker >= begin && maker >= *from && op_is_collective(t->call[maker]->op))
            last = MAX_OF(last, maker);
    }
    if (last < 0 || op_is_collective(c->op))
        return false;
    *from = last + 1;
    return true;
}

// Sets the device of each call. With a static device, a view runs where its readers run: on the CPU if all of
// them do. Returns false, with an error, on failure.
static bool place_all(const struct tape *t, int begin, int end, const struct device **on) {
    int units;
    const struct device *cpu = device_find("cpu", &units);
    enum { BY_DEVICE = 1, BY_CPU = 2 };
    int leaves = -1; // whether ZL_SAMPLE leaves the calls to the CPU; -1: not known yet
    uint8_t *reads = cpu ? memory_zero((size_t)(end - begin)) : NULL;
    for (int i = end - 1; reads && i >= begin; i--) {
        const struct call *c = t->call[i];
        zl_stream s = tape_stream(t, i);
        bool is_static = s->device->is_static, is_view = is_static && c->op->kind == OP_VIEW;
        if (is_static && leaves < 0)
            leaves = sample_leaves_out(end - begin, t->call + begin);
        if (is_static && (leaves || (is_view && reads[i - begin] == BY_CPU)))
            on[i - begin] = cpu;
        else if (!(on[i - begin] = place(c, s, true)))
            break;
        for (int k = 0; k < c->inputs; k++) {
            int maker = tape_slot(t, c->in[k]);
            if (maker >= begin)
                reads[maker - begin] |= on[i - begin] == cpu ? BY_CPU : BY_DEVICE;
        }
    }
    bool ok = reads && on[0];
    memory_free(reads);
    return ok;
}

// Orders calls by turns of the two devices, starting with `device`: each turn takes all calls that its device
// can run by then. Returns the number of turns.
static int take_turns(const struct tape *t, int begin, int end, const struct device *const *on,
                      const struct device *device, int32_t *order) {
    int taken = 0, turns = 0, calls = end - begin;
    bool *done = memory_zero((size_t)calls);
    for (bool is_first = true; done && taken < calls; is_first = !is_first) {
        int before = taken;
        for (int i = 0; i < calls; i++) {
            const struct call *c = t->call[begin + i];
            bool is_ready = !done[i] && (on[i] == device) == is_first;
            for (int k = 0; k < c->inputs && is_ready; k++) {
                int maker = tape_slot(t, c->in[k]);
                is_ready = maker < begin || done[maker - begin];
            }
            if (is_ready) {
                done[i] = true;
                order[taken++] = i;
            }
        }
        turns += taken > before;
    }
    bool ok = done;
    memory_free(done);
    return ok ? turns : INT32_MAX;
}

// Returns whether all calls are on one stream of a static device, and sets the number of turns in the present
// order.
static bool may_be_ordered(const struct tape *t, int begin, int end, const struct device *const *on,
                           int *turns) {
    zl_stream stream = tape_stream(t, begin);
    *turns = 1;
    for (int i = begin; i < end; i++) {
        if (tape_stream(t, i) != stream)
            return false;
        *turns += i > begin && on[i - begin] != on[i - begin - 1];
    }
    return stream->device->is_static && !t->collectives && *turns > 2;
}

// Returns an order with fewer segments and reorders the tape by it. Returns NULL if the tape stays as it is,
// also when memory runs out.
static int32_t *find_order(struct tape *t, int begin, int end, const struct device **on) {
    int turns, best, other, units;
    if (!may_be_ordered(t, begin, end, on, &turns))
        return NULL;
    size_t calls = (size_t)(end - begin);
    int32_t *order = memory_alloc(sizeof *order * calls);
    const struct device **was = memory_alloc(sizeof *was * calls), *own = tape_stream(t, begin)->device;
    best = order ? take_turns(t, begin, end, on, own, order) : INT32_MAX;
    other = order ? take_turns(t, begin, end, on, device_find("cpu", &units), order) : INT32_MAX;
    if (order && best <= other)
        take_turns(t, begin, end, on, own, order);
    if (!order || !was || MIN_OF(best, other) >= turns || !tape_reorder(t, begin, end, order)) {
        memory_free(order);
        memory_free(was);
        return NULL;
    }
    memcpy(was, on, sizeof *was * calls);
    for (size_t i = 0; i < calls; i++)
        on[i] = was[order[i]];
    memory_free(was);
    return order;
}

// Cuts calls into segments of one stream and device; a segment also ends where a collective must be waited
// for. Fills `out` unless it is NULL, and returns their number.
static int cut(const struct tape *t, int begin, int end, const struct device *const *on,
               struct plan_segment *out) {
    int count = 0, from = begin;
    zl_stream stream = NULL;
    const struct device *device = NULL;
    for (int i = begin; i < end; i++) {
        zl_stream s = tape_stream(t, i);
        const struct device *d = on[i - begin];
        bool waits = UNLIKELY(t->collectives) && waits_anew(t, i, begin, &from);
        if (s != stream || d != device || waits) {
            if (out)
                out[count] = (struct plan_segment){
                    .begin = i - begin, .device = d, .unit = d == s->device ? s->unit : 0};
            count++;
        }
        if (out)
            out[count - 1].end = i - begin + 1;
        stream = s;
        device = d;
    }
    return count;
}

void plan_release(struct plan *plan) {
    if (!plan || atomic_fetch_sub(&plan->refs, 1) != 1)
        return;
    for (int i = 0; i < plan->segments; i++)
        if (plan->segment[i].program)
            plan->segment[i].device->drop(plan->segment[i].program);
    memory_free(plan->order);
    memory_free(plan);
}

static struct plan *make_on(struct tape *t, int begin, int end, const struct device **on) {
    bool had_error = zl_error();
    int32_t *order = find_order(t, begin, end, on);
    if (!order && !had_error)
        zl_clear_error();
    int segments = cut(t, begin, end, on, NULL);
    size_t key_bytes = sizeof(int64_t) * (size_t)key.len,
           segment_bytes = sizeof(struct plan_segment) * (size_t)segments;
    struct plan *plan = memory_zero(sizeof *plan + segment_bytes + key_bytes);
    if (!plan) {
        memory_free(order);
        return NULL;
    }
    atomic_store(&plan->refs, 1);
    plan->segments = segments;
    plan->order = order;
    plan->words = key.len;
    plan->word = memcpy((char *)(plan + 1) + segment_bytes, key.word, key_bytes);
    cut(t, begin, end, on, plan->segment);
    for (int i = 0; i < segments; i++)
        if (!build(t, begin, &plan->segment[i])) {
            plan_release(plan);
            return NULL;
        }
    counter_add_alone(COUNTER_PLANS, 1);
    return plan;
}

// Makes the plan, and reorders the tape as the plan needs.
static __attribute__((noinline)) struct plan *make(struct tape *t, int begin, int end) {
    const struct device **on = memory_zero(sizeof *on * (size_t)(end - begin));
    struct plan *plan = on && place_all(t, begin, end, on) ? make_on(t, begin, end, on) : NULL;
    memory_free(on);
    return plan;
}

static void forget(const void *k, size_t bytes, void *value, void *data) {
    (void)k, (void)bytes, (void)data;
    ((struct plan *)value)->words = 0; // so that holders of the plan do not find it again
    plan_release(value);
}

void plan_clear(void) {
    memset(recent, 0, sizeof recent);
    map_each(&plans, forget, NULL);
    map_free(&plans);
}

static __attribute__((noinline)) bool keep(struct plan *plan) {
    if (plans.count >= PLANS_MOST)
        plan_clear();
    if (map_set(&plans, key.word, sizeof(int64_t) * (size_t)key.len, plan))
        return atomic_fetch_add(&plan->refs, 1), true;
    zl_clear_error(); // not kept: it is made again when needed
    return false;
}

static bool has_key(const struct plan *plan) {
    return plan && plan->words == key.len && !memcmp(plan->word, key.word, sizeof(int64_t) * (size_t)key.len);
}

static void hold(struct plan **held, struct plan *plan) {
    if (LIKELY(*held == plan))
        return;
    atomic_fetch_add_explicit(&plan->refs, 1, memory_order_relaxed);
    plan_release(*held);
    *held = plan;
}

static bool found(struct tape *tape, int begin, int end, struct plan *plan, struct plan **held) {
    if (UNLIKELY(plan->order != NULL) && !tape_reorder(tape, begin, end, plan->order))
        return false;
    hold(held, plan);
    int hits = atomic_load_explicit(&plan->hits, memory_order_relaxed);
    atomic_store_explicit(&plan->hits, hits + (hits < INT32_MAX), memory_order_relaxed);
    counter_add_alone(COUNTER_PLAN_HITS, 1);
    return true;
}

HOT bool plan_find(struct tape *tape, int begin, int end, struct plan **held) {
    if (!make_key(tape, begin, end))
        return false;
    if (has_key(*held))
        return found(tape, begin, end, *held, held);
    // The op's address, the number of its inputs and outputs, and the number of words tell most graphs apart.
    uint64_t mix = ((uint64_t)key.word[1] >> 4) + (uint64_t)key.word[2] * 31 + (uint64_t)key.word[4] * 7 +
                   (uint64_t)key.len;
    struct plan **slot = &recent[(mix ^ mix >> 6) % COUNT(recent)];
    if (has_key(*slot))
        return found(tape, begin, end, *slot, held);
    struct plan *plan = map_get(&plans, key.word, sizeof(int64_t) * (size_t)key.len);
    if (plan)
        return found(tape, begin, end, *slot = plan, held);
    plan = make(tape, begin, end);
    if (!plan)
        return false;
    if (keep(plan))
        *slot = plan;
    plan_release(*held);
    *held = plan;
    return true;
}
