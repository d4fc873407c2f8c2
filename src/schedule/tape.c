// tape.c - lists the calls that an evaluation must run, inputs first, and finds the last reader of each
// array.
//
// The walk is depth-first. The inputs of a call are visited in their order, but elementwise ones last, so
// that they are next to their reader. If several arrays are evaluated, those with fewer heavy calls on the
// path to them come first: a training step computes the gradient of the last layer first, and releases what
// that layer kept before it continues with the layer before. Collectives run in the order in which they were
// recorded, as on the other ranks. They come first, each with the calls it needs, and their readers come
// last, so that other work runs in the meantime. On devices that fuse them into one kernel, reductions of the
// same axes are made adjacent if only elementwise calls would be between them.

#include "op/ops.h"
#include "schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

enum {
    ORDERED_LEAST = 64, // least calls of a tape that is walked again by depth
    ORDERED_MOST = 8,   // most inputs of a call that are sorted by depth
    ENDS = 64,          // inputs examined in the elementwise calls at the end of a root
    BESIDE_MOST = 32,   // reductions tried as neighbours of one, and elementwise calls examined for each
    WAITS = 3,          // by how much the depth of a root that has to wait is raised
};

static uint32_t epoch;  // of the current walk; guarded by the planning lock
static uint32_t forked; // the last walk before the fork that made this process; 0: there was no fork

void tape_forget(void) {
    forked = epoch;
}

// Returns whether another evaluation is computing x. In the child of a fork, arrays that were being computed
// at the fork are marked as failed.
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

// Notes that the call in `slot` reads an output of call `read`. If several streams read it, the last reader
// is not known, so the output counts as needed.
static void note_reader(struct tape *t, uint32_t read, int slot) {
    if (t->uses[read]++ && UNLIKELY(tape_stream(t, (int)t->last[read]) != tape_stream(t, slot)))
        t->needed[read] = 1;
    t->last[read] = (uint32_t)slot;
}

// Appends c to the tape.
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

// Appends c, and notes that it reads its inputs.
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

// Returns the depth of a call (struct tape_root) if an earlier walk found it. Otherwise returns 1 if the
// call, or the call whose output it is a view of, is heavy, and 0 if not.
static uint64_t depth_of(const struct tape *t, const struct call *c) {
    if (t->has_depths)
        return c->epoch == t->of_depths ? t->dies[c->slot] : 0;
    while (c->op->kind == OP_VIEW && c->inputs && array_state(c->in[0]) == ARRAY_LAZY)
        c = c->in[0]->call;
    return !is_light(c);
}

// Sorts the pushed inputs so that the deepest is visited first; elementwise calls are then next to their
// reader.
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

// Pushes the inputs of c that are not on the tape yet. Sets *ready if there are none.
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

// A call to be sorted. Its depth is the largest number of heavy calls on a path that ends with it. Calls are
// heavy unless they are light (is_light), so that an elementwise group can contain them.
struct tape_root {
    struct call *call;
    uint64_t depth;
    int place;
};

// Returns whether c reduces leading axes on a device that may fuse several reductions into one kernel: a
// device with memory of its own.
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

// Returns whether all that c needs is on the tape, except at most *left elementwise calls.
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

// Returns the position of the first sorted reduction that has at least this depth.
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

// Pushes the reductions of depth `of` that can share a kernel with c or with the kernel after it. Returns
// their number, or -1 if memory runs out.
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

// Appends c. If it is such a reduction, pushes the similar reductions of its depth or, if there are none,
// those of the next depth, which elementwise calls compute from them. Other readers of their results come
// later.
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

// Returns whether anything besides the calls of this tape refers to an output: a retained reference, a call
// that is not evaluated now, or a transform.
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

// Returns whether the call in `slot` is the last reader of x. An array that was computed earlier dies if only
// this call holds it.
static bool dies_here(const struct tape *t, zl_array x, int slot) {
    if (on_tape(x))
        return t->last[x->call->slot] == (uint32_t)slot && !t->needed[x->call->slot] && x->call->outputs == 1;
    return array_is_held_once(x);
}

// Returns whether a call keeps its inputs after it is computed: inside a transform, derivatives read them.
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
        bool repeated = false; // x + x: only one of them may give its memory
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

// Walks the commonest case, one call whose inputs are all computed. Returns 1 if it did, 0 if the evaluation
// is not of that kind, and -1 if memory runs out.
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

// Writes the depth of each call into t->dies, which holds nothing else until the walk has ended.
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

// Lists the reductions that may be made adjacent, sorted by depth and then by position.
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

// Returns the reduction from which elementwise calls compute c, if is_gathered; otherwise NULL.
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

// Returns whether root c should be visited later. It should if it is computed by elementwise calls from one
// reduction, as an optimiser's step is, and a similar reduction follows at the next depth: c would come
// between these reductions and the products and gradients that read them.
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

// Visits the calls from which c is computed, but not the elementwise calls at its end. *left: inputs that may
// still be examined.
static bool visit_heavy(struct tape *t, struct call *c, int *left) {
    if (!is_light(c))
        return visit(t, c);
    for (int i = 0; i < c->inputs && (*left)-- > 0; i++)
        if (is_wanted(c->in[i]) && c->in[i]->call->epoch != epoch && !visit_heavy(t, c->in[i]->call, left))
            return false;
    return true;
}

// Returns whether the elementwise calls at the end of a root read a computed array that others read or hold
// too.
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

// Visits roots by depth. Where the elementwise end of a root reads an array that others read too, it comes
// after the heavy calls of the next two depths: an optimiser can then write a new parameter into the memory
// of the old one, which the backward pass has read by then.
static bool visit_by_depth(struct tape *t, int roots) {
    int open = 0, last = 0,
        end; // roots from `open` on are not complete; those from `last` on have the last depth
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

// Walks again, with the depths that the first walk found.
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

// Lists the collectives in t->root, in the order in which they were recorded.
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

// Sets t->dies of each call to the position in t->root, counted from 1, of the last collective that it
// depends on; 0: it depends on none.
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

// Walks again: first all collectives with the calls they need, then the calls that depend on none, then those
// that depend on the first one, and so on.
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
