// recompute.c - lets a compiled function recompute cheap results instead of keeping them until they are read.
//
// In a training step the backward pass reads results of the forward pass: of gelu(x), for example, x divided
// by a constant, and its erf. If kept, each of them is written, read, and occupies memory while all layers in
// between run. Computing it again from x costs a few instructions in a kernel that reads x anyway. So if
// elementwise steps compute a result, and elementwise steps far later read it, the readers get copies of the
// steps that compute it. The copies start from one array that is kept anyway or is smaller than the result.
//
// A reader is far if more non-elementwise steps, mostly products, lead to it than to the result. Then no
// kernel can contain both.

#include <string.h>

#include "transform/replay.h"

enum {
    LEAST = 1 << 16, // the fewest bytes of a result for which recomputing pays
    SMALL = 16,      // arrays of at most 1/16 of its bytes may be kept at no cost
    DEEPEST = 12,    // the most steps that are copied for one reader
};

// A copy of a step, and the step of the replay that it is inserted before.
struct copy {
    struct step step;
    int before, next; // next: the next copy before the same step
};

struct work {
    struct replay *r;
    bool cheap_only; // leave out functions that take long, such as exp: on a CPU
    int *in;         // the slots of inputs before any change
    int *maker;      // by slot: the step that computes it; -1: an input, or a kept array
    int *until;      // by slot: the last step that reads it; r->steps: it is a result
    int *stage;      // by step: how many non-elementwise steps lead to it
    // reader: by slot, the first place in r->in that reads it; next: by place, the next one that reads the
    // same slot; owner: by place, the step whose input it is
    int *reader, *next, *owner;
    struct copy *copy;
    int copies, copy_cap;
    int *first, *last; // by step: the list of copies inserted before it
    struct map known;  // maps a slot and a stage to the number of the copy, plus one
};

// Kinds -----------------------------------------------------------------------------------------------------

static bool is_map(const struct call *c) {
    return (c->op->kind == OP_ELEMENTWISE || c->op->kind == OP_CAST) && c->outputs == 1;
}

static bool is_copied(const struct call *c) {
    return is_map(c) || (c->op->kind == OP_VIEW && c->outputs == 1);
}

static bool is_light(const struct call *c) {
    return is_map(c) || c->op->kind == OP_VIEW || c->op->kind == OP_COPY || c->op->kind == OP_REDUCE;
}

// Returns whether a call costs only a few instructions per element, on any processor.
static bool is_cheap(const struct call *c) {
    if (c->op->kind != OP_ELEMENTWISE)
        return true;
    switch (c->op->row) {
    case TILE_ADD:
    case TILE_SUB:
    case TILE_MUL:
    case TILE_DIV:
    case TILE_NEG:
    case TILE_ABS:
    case TILE_SQUARE:
    case TILE_MAX:
    case TILE_MIN:
    case TILE_SELECT: return true;
    default: return false;
    }
}

static int64_t bytes_of(zl_array x) {
    return x->size * (int64_t)array_item(x);
}

// Facts -----------------------------------------------------------------------------------------------------

static bool make_room(struct work *w) {
    const struct replay *r = w->r;
    size_t slots = (size_t)r->slots + 1, steps = (size_t)r->steps + 1, places = (size_t)r->ins + 1;
    size_t all = 3 * slots + 3 * steps + 3 * places;
    if (!(w->maker = memory_alloc(sizeof(int) * all)))
        return false;
    memset(w->maker, -1, sizeof(int) * all);
    w->until = w->maker + slots;
    w->reader = w->until + slots;
    w->stage = w->reader + slots;
    w->first = w->stage + steps;
    w->last = w->first + steps;
    w->next = w->last + steps;
    w->owner = w->next + places;
    w->in = w->owner + places;
    for (int i = 0; i < r->ins; i++)
        w->in[i] = r->in[i];
    return true;
}

static void find_facts(struct work *w) {
    const struct replay *r = w->r;
    for (int i = 0; i < r->steps; i++) {
        const struct step *s = &r->step[i];
        int stage = 0;
        for (int k = 0; k < s->call->inputs; k++) {
            int place = s->in + k, slot = r->in[place];
            stage = MAX_OF(stage, w->maker[slot] < 0 ? 0 : w->stage[w->maker[slot]]);
            w->until[slot] = i;
            w->owner[place] = i;
            w->next[place] = w->reader[slot];
            w->reader[slot] = place;
        }
        w->stage[i] = stage + !is_light(s->call);
        for (int k = 0; k < s->call->outputs; k++)
            w->maker[s->out + k] = i;
    }
    for (int i = 0; i < r->results; i++)
        w->until[r->result[i]] = r->steps;
}

// Asking ----------------------------------------------------------------------------------------------------

// The reader of a result for which copies are planned, and what they need.
struct want {
    int reader;
    int64_t bytes; // size of the result
    int leaf, steps;
};

static bool can_make(const struct work *w, struct want *q, int slot);

// Returns whether the slot is kept until the reader runs anyway, or is read at about the same time.
static bool is_there(const struct work *w, const struct want *q, int slot) {
    int until = w->until[slot];
    return w->maker[slot] < 0 || until >= q->reader || (until >= 0 && w->stage[until] >= w->stage[q->reader]);
}

static bool can_read(const struct work *w, struct want *q, int slot, zl_array x) {
    if (bytes_of(x) <= q->bytes / SMALL || slot == q->leaf || (!is_there(w, q, slot) && can_make(w, q, slot)))
        return true;
    if (q->leaf >= 0 || (!is_there(w, q, slot) && bytes_of(x) >= q->bytes))
        return false;
    q->leaf = slot;
    return true;
}

// Returns whether the step that computes the slot, and the steps before it as far as needed, can be copied
// for the reader. If not, *q is unchanged.
static bool can_make(const struct work *w, struct want *q, int slot) {
    const struct step *s = &w->r->step[w->maker[slot]];
    const struct want before = *q;
    bool can = is_copied(s->call) && ++q->steps <= DEEPEST && (!w->cheap_only || is_cheap(s->call)) &&
               s->call->stream == w->r->step[q->reader].call->stream;
    for (int k = 0; can && k < s->call->inputs; k++)
        can = can_read(w, q, w->in[s->in + k], s->call->in[k]);
    if (!can)
        *q = before;
    return can;
}

static bool is_far(const struct work *w, int step, int place) {
    return w->stage[w->owner[place]] > w->stage[step];
}

// Returns whether all far readers of a result are elementwise and can have copies of its steps.
static bool is_worth_it(const struct work *w, int step) {
    const struct step *s = &w->r->step[step];
    bool any = false;
    if (!is_map(s->call) || bytes_of(call_first(s->call)) < LEAST || w->until[s->out] == w->r->steps)
        return false;
    for (int place = w->reader[s->out]; place >= 0; place = w->next[place]) {
        if (!is_far(w, step, place))
            continue;
        struct want q = {.reader = w->owner[place], .bytes = bytes_of(call_first(s->call)), .leaf = -1};
        if (!is_map(w->r->step[q.reader].call) || !can_make(w, &q, s->out) || q.leaf < 0)
            return false;
        any = true;
    }
    return any;
}

// Copying ---------------------------------------------------------------------------------------------------

static int make(struct work *w, struct want *q, int slot);

// Returns the slot that a copy reads in place of `slot`, which may be one of a further copy. Returns -1, with
// an error, if that fails.
static int read(struct work *w, struct want *q, int slot, zl_array x) {
    struct want trial = *q;
    bool is_small = bytes_of(x) <= q->bytes / SMALL;
    if (!is_small && slot != q->leaf && !is_there(w, q, slot) && can_make(w, &trial, slot))
        return make(w, q, slot);
    if (!is_small)
        q->leaf = slot;
    w->until[slot] = MAX_OF(w->until[slot], q->reader);
    return slot;
}

static void put_before(struct work *w, int copy, int step) {
    w->copy[copy].before = step;
    w->copy[copy].next = -1;
    if (w->last[step] < 0)
        w->first[step] = copy;
    else
        w->copy[w->last[step]].next = copy;
    w->last[step] = copy;
}

// Copies the step that computes a slot, for a reader, and returns the slot of the copy. Readers of the same
// stage share a copy if it precedes them. Copies of cheap steps are not shared, because a result shared by
// two kernels would have to be stored in memory.
static int make(struct work *w, struct want *q, int slot) {
    struct replay *r = w->r;
    const int key[] = {slot, w->stage[q->reader]};
    int known =
        is_cheap(r->step[w->maker[slot]].call) ? -1 : (int)(intptr_t)map_get(&w->known, key, sizeof key) - 1;
    if (known >= 0 && w->copy[known].before <= q->reader)
        return w->copy[known].step.out;
    struct step s = r->step[w->maker[slot]];
    OP_TEMP(int, in, s.call->inputs);
    for (int k = 0; in && k < s.call->inputs; k++)
        if ((in[k] = read(w, q, w->in[s.in + k], s.call->in[k])) < 0)
            return -1;
    if (!in || !memory_grow(&r->in, &r->in_cap, r->ins + s.call->inputs + 1, sizeof *r->in) ||
        !memory_grow(&w->copy, &w->copy_cap, w->copies + 1, sizeof *w->copy) ||
        !map_set(&w->known, key, sizeof key, (void *)(intptr_t)(w->copies + 1)) || !replay_hold(s.call))
        return -1;
    memcpy(r->in + r->ins, in, sizeof *in * (size_t)s.call->inputs);
    s.in = r->ins;
    s.out = r->slots++;
    r->ins += s.call->inputs;
    w->copy[w->copies] = (struct copy){.step = s};
    put_before(w, w->copies++, q->reader);
    return s.out;
}

static bool replace(struct work *w, int step) {
    const struct step s = w->r->step[step];
    w->until[s.out] = -1;
    for (int place = w->reader[s.out]; place >= 0; place = w->next[place]) {
        if (!is_far(w, step, place)) {
            w->until[s.out] = MAX_OF(w->until[s.out], w->owner[place]);
            continue;
        }
        struct want q = {.reader = w->owner[place], .bytes = bytes_of(call_first(s.call)), .leaf = -1};
        int slot = make(w, &q, s.out);
        if (slot < 0)
            return false;
        w->r->in[place] = slot;
    }
    return true;
}

// Inserts the copies before the steps that read them.
static bool insert(struct work *w) {
    struct replay *r = w->r;
    struct step *all = memory_alloc(sizeof *all * (size_t)(r->steps + w->copies + 1));
    int count = 0;
    if (!all)
        return false;
    for (int i = 0; i < r->steps; i++) {
        for (int at = w->first[i]; at >= 0; at = w->copy[at].next)
            all[count++] = w->copy[at].step;
        all[count++] = r->step[i];
    }
    memory_free(r->step);
    r->step = all;
    r->steps = r->step_cap = count;
    return true;
}

static bool is_on_cpu(void) {
    int unit;
    const char *name = zl_stream_device(recorder.stream ? recorder.stream : zl_default_stream(), &unit);
    return !name || !strcmp(name, "cpu");
}

static bool replace_all(struct work *w) {
    bool any = false;
    for (int i = 0; i < w->r->steps; i++) {
        if (!is_worth_it(w, i))
            continue;
        if (!any)
            w->cheap_only = is_on_cpu();
        any = true;
        if (is_worth_it(w, i) && !replace(w, i))
            return false;
    }
    return true;
}

bool replay_recompute(struct replay *r) {
    struct work w = {.r = r};
    bool ok = make_room(&w);
    if (ok)
        find_facts(&w);
    ok = ok && replace_all(&w) && (!w.copies || insert(&w));
    for (int i = 0; !ok && i < w.copies; i++)
        replay_let_go(w.copy[i].step.call);
    map_free(&w.known);
    memory_free(w.copy);
    memory_free(w.maker);
    return ok && replay_drop_dead(r);
}
