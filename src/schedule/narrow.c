// narrow.c - computes only the part of an array that a slice reads.
//
// If a slice takes at most half of an axis of an array that nothing else reads, the calls that compute the
// array are recorded anew for that part. From the end of the tape to its beginning, each call requests from
// its inputs the range that it needs of them. An array stays whole, and is sliced, if others read or hold it,
// if it is computed already, or if no rule says which part of its inputs it needs. The original calls do not
// change, except for the inputs of those that read a narrowed array; the tape is then walked again without
// the replaced calls.
//
// A view that the program holds then refers to another storage. Its sizes and strides stay. Its offset
// changes, which is not possible if a view of it was recorded, since that has read the offset (array_pin).

#include <assert.h>
#include <string.h>

#include "op/ops.h"
#include "schedule/schedule.h"

// Says how a call of the tape is narrowed.
struct part {
    struct range range; // of its output, requested by its readers; if it begins: of its input
    uint32_t requests;  // number of requests
    bool differs;       // readers request different ranges
    bool is_narrowed;   // only that range is computed
    bool begins;        // a slice at which narrowing begins
    zl_array made;      // the new output: the part, or, of a view, its elements as before; NULL: unchanged
};

struct narrowing {
    const struct tape *tape;
    struct part *part;
};

// Requests --------------------------------------------------------------------------------------------------

// Returns how many elements narrowing must save to be worth it.
static int64_t least(void) {
    static atomic_llong known; // 0: not read yet
    int64_t number = atomic_load_explicit(&known, memory_order_relaxed);
    if (LIKELY(number))
        return number;
    number = setting_number(SETTING_NARROW);
    number = number > 0 ? number : INT64_MAX;
    atomic_store_explicit(&known, number, memory_order_relaxed);
    return number;
}

// Returns whether a call may be computed in part.
static bool has_parts(const struct call *c) {
    return c->op->kind == OP_OTHER
               ? c->op == &op_matmul || c->op == &op_addmm || c->op == &op_quantized_matmul
               : c->op->kind != OP_VIEW;
}

bool narrow_begins(const struct call *c) {
    zl_array x = c->in[0];
    struct range r;
    if (x->size <= least() || array_state(x) != ARRAY_LAZY)
        return false;
    const struct call *from = x->call;
    while (from->op->kind == OP_VIEW && from->inputs == 1 && array_state(from->in[0]) == ARRAY_LAZY)
        from = from->in[0]->call;
    return has_parts(from) && range_of_slice(c, &r) && x->size - x->size / r.period * r.count >= least();
}

// Returns whether nothing but the tape reads the output of a call.
static bool is_alone(const struct tape *t, int slot) {
    const struct call *c = t->call[slot];
    uint32_t held = (uint32_t)atomic_load_explicit(&call_first(c)->count, memory_order_relaxed);
    return !t->needed[slot] && c->outputs == 1 && !(t->looks && held > t->uses[slot]);
}

// Returns whether narrowing may begin at this slice: nothing else reads its input.
static bool is_candidate(const struct tape *t, int slot) {
    const struct call *c = t->call[slot];
    int from = c->op == &op_slice ? tape_slot(t, c->in[0]) : -1;
    return from >= 0 && is_alone(t, from) && t->uses[from] == 1 && narrow_begins(c);
}

static bool any_candidate(const struct tape *t) {
    for (int i = 0; i < t->calls; i++)
        if (is_candidate(t, i))
            return true;
    return false;
}

static void request(struct narrowing *n, int reader, zl_array x, const struct range *r) {
    int slot = tape_slot(n->tape, x);
    if (slot < 0 || r->axis < 0 || tape_stream(n->tape, slot) != tape_stream(n->tape, reader))
        return;
    struct part *p = &n->part[slot];
    p->differs = p->differs || (p->requests && !range_is_same(&p->range, r));
    p->range = *r;
    p->requests++;
}

static bool can_narrow(const struct narrowing *n, int slot) {
    const struct part *p = &n->part[slot];
    const struct call *c = n->tape->call[slot];
    struct range r;
    if (!p->requests || p->differs || p->requests != n->tape->uses[slot] || !is_alone(n->tape, slot))
        return false;
    for (int k = 0; k < c->inputs; k++)
        if (!range_of_input(c, k, &p->range, &r))
            return false;
    return c->inputs > 0;
}

static void request_all(struct narrowing *n) {
    for (int slot = n->tape->calls - 1; slot >= 0; slot--) {
        struct part *p = &n->part[slot];
        const struct call *c = n->tape->call[slot];
        struct range r;
        if ((p->is_narrowed = can_narrow(n, slot))) {
            for (int k = 0; k < c->inputs; k++)
                if (range_of_input(c, k, &p->range, &r))
                    request(n, slot, c->in[k], &r);
        } else if ((p->begins = is_candidate(n->tape, slot) && range_of_slice(c, &p->range))) {
            request(n, slot, c->in[0], &p->range);
        }
    }
}

static const struct part *part_of(const struct narrowing *n, zl_array x) {
    int slot = tape_slot(n->tape, x);
    return slot < 0 ? NULL : &n->part[slot];
}

// Leaves a view whole if its input stays whole, since narrowing views alone is not worth it. Returns whether
// a slice remains at which narrowing begins.
static bool keep_views(struct narrowing *n) {
    bool any = false;
    for (int slot = 0; slot < n->tape->calls; slot++) {
        struct part *p = &n->part[slot];
        const struct call *c = n->tape->call[slot];
        const struct part *from = c->inputs ? part_of(n, c->in[0]) : NULL;
        bool has_input = from && from->is_narrowed;
        p->is_narrowed = p->is_narrowed && (c->op->kind != OP_VIEW || has_input);
        p->begins = p->begins && has_input;
        any |= p->begins;
    }
    return any;
}

// Recording -------------------------------------------------------------------------------------------------

// Records a call for a range; where its arguments are sizes, they become those of the range.
static zl_array record_range(const struct call *c, const zl_array *in, const struct range *r) {
    zl_array y = call_first(c), out = NULL;
    bool is_reshape = c->op == &op_reshape || c->op == &op_flatten || c->op == &op_unflatten;
    if (!is_reshape && c->op != &op_broadcast_to)
        return c->op->record(c, in, &out) ? out : NULL;
    OP_TEMP(int64_t, dim, y->ndim);
    for (int i = 0; dim && i < y->ndim; i++)
        dim[i] = range_size(y, i, r);
    return !dim         ? NULL
           : is_reshape ? zl_reshape(in[0], (zl_shape){dim, y->ndim})
                        : zl_broadcast_to(in[0], (zl_shape){dim, y->ndim});
}

static zl_array make_narrowed(struct narrowing *n, const struct call *c, const struct range *r) {
    OP_TEMP(zl_array, in, c->inputs);
    for (int k = 0; in && k < c->inputs; k++) {
        const struct part *from = part_of(n, c->in[k]);
        struct range needed;
        in[k] = from && from->made ? from->made : c->in[k];
        if (range_of_input(c, k, r, &needed) && !(from && from->is_narrowed))
            in[k] = range_slice(in[k], &needed);
        if (!in[k])
            return NULL;
    }
    return in ? record_range(c, in, r) : NULL;
}

// Extends a slice of `ndim` axes to all elements along one of them.
static void widen(int64_t *arg, int ndim, int axis) {
    arg[axis] = 0;
    arg[ndim + axis] = INT64_MAX;
    arg[2 * ndim + axis] = 1;
}

// Records slice c, at which narrowing begins, again on its narrowed input: it takes all of the narrowed axis.
static zl_array make_rest(const struct call *c, zl_array in, int axis) {
    int ndim = in->ndim;
    OP_TEMP(int64_t, arg, c->args);
    if (!arg)
        return NULL;
    memcpy(arg, call_args(c), sizeof *arg * (size_t)c->args);
    widen(arg, ndim, axis);
    return zl_slice(in, (zl_shape){arg, ndim}, (zl_shape){arg + ndim, ndim},
                    (zl_shape){arg + 2 * ndim, ndim});
}

// Records the same view again, of the narrowed input.
static zl_array make_view(const struct call *c, zl_array in) {
    zl_array out = NULL;
    return c->op->record(c, &in, &out) ? out : NULL;
}

static bool reads_made(const struct narrowing *n, const struct call *c) {
    for (int k = 0; k < c->inputs; k++) {
        const struct part *from = part_of(n, c->in[k]);
        if (from && from->made)
            return true;
    }
    return false;
}

// Returns whether `made`, a view of `in`, has the strides of the view y, so that y can become it by a new
// offset alone.
static bool can_move(zl_array y, zl_array made, zl_array in) {
    if (made != in && !(made->call && made->call->op->kind == OP_VIEW && made->call->in[0] == in))
        return false;
    for (int i = 0; i < y->ndim; i++)
        if (y->dim[i] > 1 && array_stride(y)[i] != array_stride(made)[i])
            return false;
    return true;
}

// Makes a narrowed output row-major if the full output was, since readers may rely on that: the part has the
// layout of its operands, which may all be transposed.
static zl_array as_dense(const struct call *c, zl_array made) {
    bool stays = !made || c->op->kind == OP_VIEW || !array_is(call_first(c), ARRAY_CONTIGUOUS);
    return stays ? made : zl_contiguous(made, false);
}

static zl_array make(struct narrowing *n, int slot) {
    const struct call *c = n->tape->call[slot];
    const struct part *p = &n->part[slot];
    recorder.stream = c->stream;
    recorder.compiled = c->compiled;
    if (p->is_narrowed)
        return as_dense(c, make_narrowed(n, c, &p->range));
    zl_array in = part_of(n, c->in[0])->made;
    return p->begins ? make_rest(c, in, p->range.axis) : make_view(c, in);
}

enum outcome { FAILED = -1, NOTHING, NARROWED };

// Records the narrowed calls. Returns NOTHING if the program holds a view that cannot be moved to the
// narrowed array.
static enum outcome make_all(struct narrowing *n) {
    for (int slot = 0; slot < n->tape->calls; slot++) {
        const struct call *c = n->tape->call[slot];
        struct part *p = &n->part[slot];
        bool follows = !p->is_narrowed && c->op->kind == OP_VIEW && reads_made(n, c);
        if (follows && (c->inputs != 1 || c->outputs != 1))
            return NOTHING;
        if ((p->is_narrowed || follows) && !(p->made = make(n, slot)))
            return FAILED;
        assert(!follows || shape_equal(p->made->ndim, p->made->dim, call_first(c)->ndim, call_first(c)->dim));
        if (follows && n->tape->needed[slot] && !can_move(call_first(c), p->made, part_of(n, c->in[0])->made))
            return NOTHING;
    }
    return NARROWED;
}

static bool moves(const struct narrowing *n, int slot) {
    return n->part[slot].made && n->tape->needed[slot];
}

static void end_moves(const struct narrowing *n, int end, bool moved) {
    for (int slot = 0; slot < end; slot++)
        if (moves(n, slot)) {
            zl_array y = call_first(n->tape->call[slot]);
            array_end_move(y, moved ? n->part[slot].made->offset : y->offset);
        }
}

// Moves all views that the program holds to the new arrays. If one of them is pinned, moves none and returns
// false.
static bool move_all(const struct narrowing *n) {
    int slot = 0;
    array_open_moves();
    while (slot < n->tape->calls && (!moves(n, slot) || array_begin_move(call_first(n->tape->call[slot]))))
        slot++;
    bool all = slot == n->tape->calls;
    end_moves(n, slot, all);
    array_close_moves();
    return all;
}

// Makes the calls that stay read the narrowed arrays. The replaced calls are freed with their last reader.
static void replace_inputs(const struct narrowing *n) {
    for (int slot = 0; slot < n->tape->calls; slot++) {
        struct call *c = n->tape->call[slot];
        const struct part *p = &n->part[slot];
        if (p->made && !moves(n, slot))
            continue;
        for (int k = 0; k < c->inputs; k++) {
            const struct part *from = part_of(n, c->in[k]);
            zl_array old = c->in[k];
            if (!from || !from->made)
                continue;
            c->in[k] = zl_retain(from->made);
            zl_release(old);
        }
        if (p->begins)
            widen(call_args(c), c->in[0]->ndim, p->range.axis);
    }
}

static int64_t count_narrowed(const struct narrowing *n) {
    int64_t count = 0;
    for (int slot = 0; slot < n->tape->calls; slot++)
        count += n->part[slot].is_narrowed && n->tape->call[slot]->op->kind != OP_VIEW;
    return count;
}

static enum outcome record_all(struct narrowing *n) {
    const zl_stream stream = recorder.stream;
    const bool compiled = recorder.compiled;
    enum outcome outcome = make_all(n);
    recorder.stream = stream;
    recorder.compiled = compiled;
    if (outcome != NARROWED || !move_all(n))
        return MIN_OF(outcome, NOTHING);
    counter_add_alone(COUNTER_NARROWED, count_narrowed(n));
    replace_inputs(n);
    return NARROWED;
}

bool narrow_tape(const struct tape *tape, bool *changed) {
    *changed = false;
    if (recorder.trace_depth || !any_candidate(tape))
        return true;
    struct narrowing n = {tape, memory_zero(sizeof(struct part) * (size_t)tape->calls)};
    if (!n.part)
        return false;
    enum outcome outcome = NOTHING;
    request_all(&n);
    if (keep_views(&n)) {
        zl_scope scope = zl_scope_begin();
        outcome = record_all(&n);
        zl_scope_end(scope);
    }
    memory_free(n.part);
    *changed = outcome == NARROWED;
    return outcome != FAILED;
}
