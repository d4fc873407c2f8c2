// tape.c - lists the calls that must run, inputs first, without recursion but through a few elementwise
// calls; and who reads what for the last time.
//
// What an array needs follows the order of its inputs, but for elementwise ones, which come last. Of several
// arrays, those come first that fewer calls one after the other lead to: a step of training computes the
// gradient of its last layer first, and lets go of what that layer kept before it looks at the layer before.
// Collectives run in the order in which they were recorded, as on the other ranks: they come first, each with
// what it needs, and what reads them last, so that other work runs while they do. On devices that make one
// kernel of them, reductions of the same axes follow each other where nothing but elementwise calls is before
// them.

#include "op/ops.h"
#include "schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

enum {
    ORDERED_LEAST = 64, // calls of a tape that is worth a second walk
    ORDERED_MOST = 8,   // inputs of a call that are put in order
    ENDS = 64,          // inputs of the elementwise calls at a root's end that are looked at
    BESIDE_MOST = 32,   // reductions that are looked at for one, and elementwise calls for each of them
    WAITS = 3,          // how much deeper than they are arrays count that wait
};

static uint32_t epoch;  // of the current walk; guarded by the planning lock
static uint32_t forked; // the walk before the fork that made this process; 0: no fork did

void tape_forget(void) {
    forked = epoch;
}

// Whether x is being computed by some other evaluation. In the child of a fork those from before it are left
// behind.
static bool is_under_way(zl_array x) {
    if (array_state(x) != ARRAY_CLAIMED)
        return false;
    if (LIKELY(!forked) || (int32_t)(x->call->epoch - forked) > 0)
        return true;
    schedule_run_lose(x->call);
    return false;
}

static bool grow_calls(struct tape *t, int need) {
    int cap = MAX_OF(need, MAX_OF(256, 2 * t->cap)), same;
    if (need <= t->cap)
        return true;
    return (same = t->cap, memory_grow(&t->call, &same, cap, sizeof *t->call)) &&
           (same = t->cap, memory_grow(&t->needed, &same, cap, sizeof *t->needed)) &&
           (same = t->cap, memory_grow(&t->dies, &same, cap, sizeof *t->dies)) &&
           (same = t->cap, memory_grow(&t->uses, &same, cap, sizeof *t->uses)) &&
           (same = t->cap, memory_grow(&t->last, &same, cap, sizeof *t->last)) && (t->cap = cap);
}

static bool on_tape(zl_array x) {
    return x->call && x->call->epoch == epoch && array_state(x) == ARRAY_LAZY;
}

// The call in a slot reads an output of another. Which of several streams reads it last, nobody knows: then
// it is needed.
static void note_reader(struct tape *t, uint32_t read, int slot) {
    if (t->uses[read]++ && UNLIKELY(tape_stream(t, (int)t->last[read]) != tape_stream(t, slot)))
        t->needed[read] = 1;
    t->last[read] = (uint32_t)slot;
}

// Puts c at the end of the tape.
static bool place(struct tape *t, struct call *c) {
    if (UNLIKELY(!c->stream && !t->standard)) {
        t->lacks_standard = true;
        return false;
    }
    if (UNLIKELY(t->calls == t->cap) && !grow_calls(t, t->calls + 1))
        return false;
    int slot = t->calls++;
    t->call[slot] = c;
    if (UNLIKELY(c->op == &op_slice))
        t->has_slices |= narrow_begins(c);
    t->collectives += op_is_collective(c->op);
    c->epoch = epoch;
    c->slot = (uint32_t)slot & 0x1fffffff;
    t->needed[slot] = 0;
    t->uses[slot] = 0;
    t->last[slot] = (uint32_t)slot;
    return true;
}

// The same, and notes that it reads its inputs.
static bool append(struct tape *t, struct call *c) {
    if (!place(t, c))
        return false;
    for (int i = 0; i < c->inputs; i++)
        if (on_tape(c->in[i]))
            note_reader(t, c->in[i]->call->slot, t->calls - 1);
    return true;
}

static bool push(struct tape *t, int *depth, struct call *c) {
    if (UNLIKELY(*depth == t->stack_cap) &&
        !memory_grow(&t->stack, &t->stack_cap, *depth + 1, sizeof *t->stack))
        return false;
    t->stack[(*depth)++] = c;
    return true;
}

static bool is_light(const struct call *c) {
    enum op_kind kind = c->op->kind;
    return kind == OP_ELEMENTWISE || kind == OP_CAST || kind == OP_VIEW || kind == OP_COPY;
}

// How many calls that no group of elementwise ones can hold lead to a call, one after the other, if an
// earlier walk found that; else whether it, or what it is a view of, is one.
static uint64_t depth_of(const struct tape *t, const struct call *c) {
    if (t->has_depths)
        return c->epoch == t->of_depths ? t->dies[c->slot] : 0;
    while (c->op->kind == OP_VIEW && c->inputs && array_state(c->in[0]) == ARRAY_LAZY)
        c = c->in[0]->call;
    return !is_light(c);
}

// Of what was pushed last, the deepest comes first: elementwise calls then lie beside what reads them.
static void raise_deepest(struct tape *t, int from, int depth) {
    for (int i = from + 1; i < depth; i++) {
        struct call *c = t->stack[i];
        uint64_t own = depth_of(t, c);
        int at = i;
        for (; at > from && depth_of(t, t->stack[at - 1]) > own; at--)
            t->stack[at] = t->stack[at - 1];
        t->stack[at] = c;
    }
}

// Inputs of c that are not on the tape yet go on the stack; true in *ready when there are none.
static bool push_inputs(struct tape *t, int *depth, const struct call *c, bool *ready) {
    const int from = *depth;
    *ready = true;
    for (int i = c->inputs - 1; i >= 0; i--) {
        zl_array x = c->in[i];
        enum array_state state = array_state(x);
        if (LIKELY(state == ARRAY_READY))
            continue;
        if (state == ARRAY_LAZY && x->call->epoch != epoch) {
            *ready = false;
            if (!push(t, depth, x->call))
                return false;
        } else {
            t->waits |= is_under_way(x);
        }
    }
    if (*depth - from > 1 && c->inputs <= ORDERED_MOST)
        raise_deepest(t, from, *depth);
    return true;
}

// Reductions that follow each other -------------------------------------------------------------------------

// A call of several that were sorted, and how many calls that no group of elementwise ones can hold lead to
// it one after the other.
struct tape_root {
    struct call *call;
    uint64_t depth;
    int place;
};

// Reductions of leading axes, on a device that may make one kernel of several: one that has memory of its
// own.
static bool is_gathered(const struct tape *t, const struct call *c) {
    zl_stream s = c->stream ? c->stream : t->standard;
    return c->op->kind == OP_REDUCE && device_is_apart(s->device) && c->args > 0 &&
           c->args < c->in[0]->ndim && call_args(c)[0] == 0;
}

static bool reduces_alike(const struct call *a, const struct call *b) {
    zl_array x = a->in[0], y = b->in[0];
    return a->stream == b->stream && a->args == b->args &&
           !memcmp(call_args(a), call_args(b), sizeof(int64_t) * (size_t)a->args) &&
           shape_equal(x->ndim, x->dim, y->ndim, y->dim);
}

// Whether c needs nothing but what is on the tape and elementwise calls, of which it takes `left` at most.
static bool is_near(const struct call *c, int *left) {
    for (int i = 0; i < c->inputs; i++) {
        zl_array x = c->in[i];
        if (array_state(x) != ARRAY_LAZY || x->call->epoch == epoch)
            continue;
        if (!is_light(x->call) || --*left < 0 || !is_near(x->call, left))
            return false;
    }
    return true;
}

// The first of the sorted reductions that as many calls lead to.
static int first_sum(const struct tape *t, uint64_t depth) {
    int low = 0, high = t->sums;
    while (low < high) {
        int middle = (low + high) / 2;
        if (t->sum[middle].depth < depth)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Pushes the reductions that `of` calls lead to and that can be in one kernel with c, or in the next one.
// Returns how many there were; -1: memory is out.
static int push_sums(struct tape *t, int *depth, const struct call *c, uint64_t of) {
    int begin = first_sum(t, of), end = begin, pushed = 0;
    while (end < t->sums && end - begin < BESIDE_MOST && t->sum[end].depth == of)
        end++;
    for (int i = end - 1; i >= begin; i--) {
        struct call *other = t->sum[i].call;
        int left = BESIDE_MOST;
        if (other->epoch == epoch || !reduces_alike(c, other) || !is_near(other, &left))
            continue;
        if (!push(t, depth, other))
            return -1;
        pushed++;
    }
    return pushed;
}

// After a reduction come those that as many calls lead to, then those that are computed from these by
// elementwise calls: what else is computed from their results waits.
static bool append_with_others(struct tape *t, int *depth, struct call *c) {
    bool gathers = t->sums && c->epoch == t->of_depths && is_gathered(t, c);
    uint64_t own = gathers ? depth_of(t, c) : 0;
    if (!append(t, c))
        return false;
    int pushed = gathers ? push_sums(t, depth, c, own) : 1;
    return pushed > 0 || (pushed == 0 && push_sums(t, depth, c, own + 1) >= 0);
}

static bool visit(struct tape *t, struct call *root) {
    int depth = 0;
    if (root->epoch == epoch)
        return true;
    if (!push(t, &depth, root))
        return false;
    while (depth) {
        struct call *c = t->stack[depth - 1];
        bool ready;
        if (c->epoch == epoch) {
            depth--;
            continue;
        }
        if (!push_inputs(t, &depth, c, &ready))
            return false;
        if (ready && (depth--, !append_with_others(t, &depth, c)))
            return false;
    }
    return true;
}

// Somebody besides the calls of this tape holds an output: a retain, a call that is not evaluated now, a
// transform.
static bool is_needed(const struct tape *t, int slot) {
    const struct call *c = t->call[slot];
    uint32_t references = 0;
    zl_array out = call_output(c, 0);
    if (c->outputs == 1)
        return array_is_tracer(out) || (uint32_t)array_references(out) > t->uses[slot];
    for (int i = 0; i < c->outputs; i++) {
        out = call_output(c, i);
        if (array_is_tracer(out))
            return true;
        references += (uint32_t)array_references(out);
    }
    return references > t->uses[slot];
}

// An input dies with the call that reads it last: one that was computed before, when the call is all that
// holds it.
static bool dies_here(const struct tape *t, zl_array x, int slot) {
    if (on_tape(x))
        return t->last[x->call->slot] == (uint32_t)slot && !t->needed[x->call->slot] && x->call->outputs == 1;
    return array_is_held_once(x);
}

// Inside a transform a call keeps its inputs: derivatives read them.
static bool keeps_inputs(const struct call *c) {
    return array_is_tracer(call_first(c));
}

static void find_needed(struct tape *t) {
    for (int i = 0; i < t->calls; i++) {
        const struct call *c = t->call[i];
        t->needed[i] = t->needed[i] || is_needed(t, i);
        for (int k = 0; keeps_inputs(c) && k < c->inputs; k++)
            if (on_tape(c->in[k]))
                t->needed[c->in[k]->call->slot] = 1;
    }
}

static uint64_t deaths_at(const struct tape *t, int slot) {
    const struct call *c = t->call[slot];
    uint64_t dies = 0;
    for (int k = 0; k < c->inputs && k < 64; k++) {
        bool repeated = false; // x + x: only one of them may be taken over
        for (int j = 0; j < k; j++)
            repeated |= c->in[j] == c->in[k];
        if (!repeated && dies_here(t, c->in[k], slot))
            dies |= 1ull << k;
    }
    return dies;
}

static void find_deaths(struct tape *t) {
    find_needed(t);
    for (int i = 0; i < t->calls; i++)
        t->dies[i] = keeps_inputs(t->call[i]) ? 0 : deaths_at(t, i);
}

// The commonest evaluation: one call on arrays that are there. 1: done, 0: it is not that, -1: memory is out.
static int walk_one(struct tape *t, zl_array a) {
    struct call *c = a->call;
    uint64_t dies = 0;
    if (array_state(a) != ARRAY_LAZY || c->outputs != 1 || c->inputs > 2 || keeps_inputs(c))
        return 0;
    for (int i = 0; i < c->inputs; i++) {
        if (array_state(c->in[i]) != ARRAY_READY)
            return 0;
        if (array_is_held_once(c->in[i]))
            dies |= 1ull << i;
    }
    if (!place(t, c))
        return -1;
    t->needed[0] = 1;
    t->dies[0] = dies;
    return 1;
}

static void begin(struct tape *t) {
    t->calls = t->collectives = 0;
    if (++epoch == 0)
        epoch = 1;
    t->epoch = epoch;
}

static bool is_wanted(zl_array x) {
    return !is_under_way(x) && array_state(x) == ARRAY_LAZY;
}

// Several arrays --------------------------------------------------------------------------------------------

// Into t->dies, which is set when the walk has ended.
static void find_depths(struct tape *t) {
    for (int i = 0; i < t->calls; i++) {
        const struct call *c = t->call[i];
        uint64_t depth = 0;
        for (int k = 0; k < c->inputs; k++)
            if (on_tape(c->in[k]))
                depth = MAX_OF(depth, t->dies[c->in[k]->call->slot]);
        t->dies[i] = depth + !is_light(c);
    }
}

static int compare_roots(const void *a, const void *b) {
    const struct tape_root *x = a, *y = b;
    return x->depth != y->depth ? (x->depth > y->depth) - (x->depth < y->depth)
                                : (x->place > y->place) - (x->place < y->place);
}

// Sorted by depth, those of the same as they came.
static bool list_sums(struct tape *t) {
    t->sums = 0;
    for (int i = 0; i < t->calls; i++) {
        if (!is_gathered(t, t->call[i]))
            continue;
        if (t->sums == t->sum_cap && !memory_grow(&t->sum, &t->sum_cap, t->sums + 1, sizeof *t->sum))
            return false;
        t->sum[t->sums++] = (struct tape_root){t->call[i], t->dies[i], i};
    }
    if (t->sums)
        qsort(t->sum, (size_t)t->sums, sizeof *t->sum, compare_roots);
    return true;
}

// The reduction that c is computed from by elementwise calls, if it is to follow others; NULL: there is none.
static const struct call *sum_below(const struct tape *t, const struct call *c) {
    for (int left = BESIDE_MOST; is_light(c); left--) {
        const struct call *next = NULL;
        for (int k = 0; k < c->inputs; k++)
            if (on_tape(c->in[k]) && t->dies[c->in[k]->call->slot] == t->dies[c->slot])
                next = c->in[k]->call;
        if (!next || !left)
            return NULL;
        c = next;
    }
    return is_gathered(t, c) ? c : NULL;
}

// What is made of a sum alone, such as a step of an optimiser, waits where another reduction is computed from
// that and from its neighbours: it would be between these and what they are for, a product and a gradient
// behind them.
static bool waits(const struct tape *t, const struct call *c) {
    const struct call *sum = t->sums ? sum_below(t, c) : NULL;
    uint64_t after = sum ? t->dies[sum->slot] + 1 : 0;
    for (int i = sum ? first_sum(t, after) : t->sums; i < t->sums && t->sum[i].depth == after; i++)
        if (reduces_alike(sum, t->sum[i].call))
            return true;
    return false;
}

static bool list_roots(struct tape *t, int count, const zl_array *arrays, int *roots, bool *sorted) {
    *roots = 0;
    *sorted = true;
    if (!memory_grow(&t->root, &t->root_cap, count, sizeof *t->root))
        return false;
    for (int i = 0; i < count; i++) {
        if (!on_tape(arrays[i]))
            continue;
        struct call *c = arrays[i]->call;
        t->root[*roots] = (struct tape_root){c, t->dies[c->slot] + (waits(t, c) ? WAITS : 0), i};
        *sorted = *sorted && (*roots == 0 || t->root[*roots - 1].depth <= t->root[*roots].depth);
        ++*roots;
    }
    return true;
}

// What call c is computed from, but not the elementwise calls between. left: calls that may still be looked
// at.
static bool visit_heavy(struct tape *t, struct call *c, int *left) {
    if (!is_light(c))
        return visit(t, c);
    for (int i = 0; i < c->inputs && (*left)-- > 0; i++)
        if (is_wanted(c->in[i]) && c->in[i]->call->epoch != epoch && !visit_heavy(t, c->in[i]->call, left))
            return false;
    return true;
}

// Whether an elementwise end of a root reads an array that was computed before and that others read or hold.
static bool reads_shared(const struct call *c, int *left) {
    for (int i = 0; is_light(c) && i < c->inputs && (*left)-- > 0; i++) {
        zl_array x = c->in[i];
        if (array_state(x) == ARRAY_READY ? !array_is(x, ARRAY_INLINE) && !array_is_held_once(x)
                                          : is_wanted(x) && reads_shared(x->call, left))
            return true;
    }
    return false;
}

static bool visit_roots(struct tape *t, int begin, int end) {
    for (int i = begin; i < end; i++)
        if (!visit(t, t->root[i].call))
            return false;
    return true;
}

static bool visit_heavy_of_roots(struct tape *t, int begin, int end) {
    for (int i = begin, left; i < end; i++)
        if (left = ENDS, !visit_heavy(t, t->root[i].call, &left))
            return false;
    return true;
}

static int end_of_depth(const struct tape *t, int begin, int roots) {
    int end = begin + 1;
    while (end < roots && t->root[end].depth == t->root[begin].depth)
        end++;
    return end;
}

static bool any_reads_shared(const struct tape *t, int begin, int end) {
    bool any = false;
    for (int i = begin, left; i < end && !any; i++)
        any = (left = ENDS, reads_shared(t->root[i].call, &left));
    return any;
}

// Elementwise ends of roots come after the heavy calls of the next two depths, where they read what others
// read too: what an optimiser computes anew can then lie where it was, since the backward pass has read it.
static bool visit_by_depth(struct tape *t, int roots) {
    int open = 0, last = 0,
        end; // roots from `open` on are not visited whole; those from `last` on have the last depth
    for (int begin = 0; begin < roots; begin = end) {
        end = end_of_depth(t, begin, roots);
        bool delays = any_reads_shared(t, begin, end);
        if (!(delays ? visit_heavy_of_roots : visit_roots)(t, begin, end) || !visit_roots(t, open, last))
            return false;
        open = last;
        last = begin;
    }
    return visit_roots(t, open, roots);
}

// Walks again, now that depths are known.
static bool walk_by_depth(struct tape *t, int count, const zl_array *arrays) {
    int roots;
    bool sorted;
    find_depths(t);
    if (!list_sums(t) || !list_roots(t, count, arrays, &roots, &sorted)) {
        t->sums = 0;
        return false;
    }
    if (!sorted)
        qsort(t->root, (size_t)roots, sizeof *t->root, compare_roots);
    t->of_depths = epoch;
    t->has_depths = true;
    begin(t);
    bool ok = visit_by_depth(t, roots);
    t->has_depths = false;
    t->sums = 0;
    return ok;
}

// Collectives -----------------------------------------------------------------------------------------------

// Into t->root, in the order in which they were recorded.
static bool list_collectives(struct tape *t) {
    int count = 0;
    if (!memory_grow(&t->root, &t->root_cap, t->collectives, sizeof *t->root))
        return false;
    for (int i = 0; i < t->calls; i++)
        if (op_is_collective(t->call[i]->op))
            t->root[count++] = (struct tape_root){t->call[i], (uint64_t)op_collective_number(t->call[i]), i};
    qsort(t->root, (size_t)count, sizeof *t->root, compare_roots);
    return true;
}

// For each call, into t->dies, the place in t->root of the last collective that it follows from, counted from
// 1.
static void find_levels(struct tape *t, int collectives) {
    for (int i = 0; i < t->calls; i++)
        t->dies[i] = 0;
    for (int i = 0; i < collectives; i++)
        t->dies[t->root[i].place] = (uint64_t)i + 1;
    for (int i = 0; i < t->calls; i++)
        for (int k = 0; k < t->call[i]->inputs; k++) {
            zl_array x = t->call[i]->in[k];
            if (on_tape(x))
                t->dies[i] = MAX_OF(t->dies[i], t->dies[x->call->slot]);
        }
}

// Walks again: first collectives with what they need, then what follows from none of them, from the first
// one, and so on.
static bool walk_collectives(struct tape *t) {
    int calls = t->calls, collectives = t->collectives;
    struct tape_root *rest = memory_alloc(sizeof *rest * (size_t)calls);
    if (!rest || !list_collectives(t)) {
        memory_free(rest);
        return false;
    }
    find_levels(t, collectives);
    for (int i = 0; i < calls; i++)
        rest[i] = (struct tape_root){t->call[i], t->dies[i], i};
    qsort(rest, (size_t)calls, sizeof *rest, compare_roots);
    begin(t);
    bool ok = visit_roots(t, 0, collectives);
    for (int i = 0; ok && i < calls; i++)
        ok = rest[i].call->epoch == epoch || append(t, rest[i].call);
    memory_free(rest);
    return ok;
}

bool tape_walk(struct tape *tape, int count, const zl_array *arrays) {
    tape->waits = false;
    tape->has_slices = false;
    tape->standard = stream_known();
    tape->lacks_standard = false;
    begin(tape);
    int one = count == 1 ? walk_one(tape, arrays[0]) : 0;
    if (one)
        return one > 0;
    for (int i = 0; i < count; i++)
        if (is_wanted(arrays[i]) && !visit(tape, arrays[i]->call))
            return false;
    if (count > 1 && tape->calls >= ORDERED_LEAST && !walk_by_depth(tape, count, arrays))
        return false;
    if (UNLIKELY(tape->collectives) && !walk_collectives(tape))
        return false;
    for (int i = 0; i < count; i++)
        if (on_tape(arrays[i]))
            tape->needed[arrays[i]->call->slot] = 1;
    find_deaths(tape);
    return true;
}

bool tape_reorder(struct tape *t, int begin, int end, const int32_t *order) {
    size_t calls = (size_t)(end - begin);
    struct call **call = memory_alloc(calls * (sizeof *call + sizeof *t->uses + 1));
    if (!call)
        return false;
    uint32_t *uses = (uint32_t *)(void *)(call + calls);
    uint8_t *needed = (uint8_t *)(uses + calls);
    memcpy(call, t->call + begin, calls * sizeof *call);
    memcpy(uses, t->uses + begin, calls * sizeof *uses);
    memcpy(needed, t->needed + begin, calls);
    for (int i = begin; i < end; i++) {
        int from = order[i - begin];
        t->call[i] = call[from];
        t->uses[i] = uses[from];
        t->needed[i] = needed[from];
        t->call[i]->slot = (uint32_t)i & 0x1fffffff;
    }
    memory_free(call);
    for (int i = 0; i < t->calls; i++) {
        t->last[i] = (uint32_t)i;
        for (int k = 0; k < t->call[i]->inputs; k++)
            if (on_tape(t->call[i]->in[k]))
                t->last[t->call[i]->in[k]->call->slot] = (uint32_t)i;
    }
    for (int i = 0; i < t->calls; i++)
        t->dies[i] = keeps_inputs(t->call[i]) ? 0 : deaths_at(t, i);
    return true;
}

void tape_free(struct tape *tape) {
    memory_free(tape->call);
    memory_free(tape->needed);
    memory_free(tape->dies);
    memory_free(tape->uses);
    memory_free(tape->last);
    memory_free(tape->stack);
    memory_free(tape->root);
    memory_free(tape->sum);
    *tape = (struct tape){0};
}
