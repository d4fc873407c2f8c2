// replay.c - keeps the calls that a function recorded as a list of steps, and replays them with other inputs.
//
// Values have slots: the inputs, the kept arrays, then the outputs of each step. A step repeats a call of the
// recorded graph with op->record, which infers dtypes, shapes and strides again. The graph is held for this
// purpose, but never evaluated.

#include <string.h>

#include "transform/replay.h"

enum { SMALL = 1024 }; // the most elements of a constant that is kept instead of recomputed

// Building --------------------------------------------------------------------------------------------------

struct build {
    struct replay *r;
    struct walk w;
    const char *function;
    bool simple;
    zl_stream stream; // of the caller
    int first, last;  // numbers of the original inputs, which the function must not use directly
    int *slot;        // by number: the slot; -1: none yet
    bool *made;       // by call: it depends on constants of one element only
    struct map known; // maps keys of kept arrays and steps to their slot plus one
    int64_t *word;    // the words of the current key
    int words, word_cap;
};

static bool add_word(struct build *b, int64_t word) {
    if (!memory_grow(&b->word, &b->word_cap, b->words + 1, sizeof *b->word))
        return false;
    b->word[b->words++] = word;
    return true;
}

// Returns the slot for the current key, or -1.
static int find_known(const struct build *b) {
    return (int)(intptr_t)map_get(&b->known, b->word, sizeof *b->word * (size_t)b->words) - 1;
}

static bool set_known(struct build *b, int slot) {
    return map_set(&b->known, b->word, sizeof *b->word * (size_t)b->words, (void *)(intptr_t)(slot + 1));
}

// Makes the key of a kept array: the value of a number, the address of another array.
static bool name_kept(struct build *b, zl_array x) {
    b->words = 0;
    if (!array_is(x, ARRAY_INLINE))
        return add_word(b, (int64_t)(intptr_t)x);
    return add_word(b, -1 - x->dtype) && add_word(b, x->flags) && add_word(b, array_value(x)->i);
}

static int keep(struct build *b, zl_array x) {
    struct replay *r = b->r;
    if (!name_kept(b, x))
        return -1;
    int slot = find_known(b);
    if (slot >= 0)
        return slot;
    if (!memory_grow(&r->kept, &r->kept_cap, r->kept_count + 1, sizeof *r->kept) || !set_known(b, r->slots))
        return -1;
    r->foreign |= array_is_tracer(x);
    r->kept[r->kept_count++] = (struct kept){zl_retain(x), r->slots};
    return r->slots++;
}

// Returns the slot of an array of the graph, or -1 and an error.
static int slot_of(struct build *b, zl_array x) {
    int number = walk_number(&b->w, x);
    return number >= 0 && b->slot[number] >= 0 ? b->slot[number] : keep(b, x);
}

// Returns whether a call returns its inputs unchanged, and need not be a step. zl_depends with several inputs
// stays, since it imposes an order.
static bool passes_on(const struct call *c) {
    return c->op == &op_custom || c->op == &op_stop_gradient || (c->op == &op_depends && c->inputs == 1);
}

static bool pass_on(struct build *b, int at) {
    const struct call *c = b->w.call[at];
    for (int i = 0; i < c->outputs; i++)
        if ((b->slot[b->w.first[at] + i] = slot_of(b, c->in[i])) < 0)
            return false;
    return true;
}

// Makes the key of a step; steps with equal keys have equal results. It includes the outputs, because some
// calls are not determined by their arguments alone.
static bool name_step(struct build *b, const struct call *c, const int *in) {
    b->words = 0;
    bool ok = add_word(b, (int64_t)(intptr_t)c->op) && add_word(b, (int64_t)(intptr_t)c->stream);
    for (int i = 0; ok && i < c->inputs; i++)
        ok = add_word(b, in[i]);
    ok = ok && add_word(b, INT64_MIN);
    for (int i = 0; ok && i < c->args; i++)
        ok = add_word(b, call_args(c)[i]);
    for (int i = 0; ok && i < c->outputs; i++) {
        zl_array y = call_output(c, i);
        ok = add_word(b, y->dtype) && add_word(b, y->ndim);
        for (int k = 0; ok && k < y->ndim; k++)
            ok = add_word(b, y->dim[k]);
    }
    return ok;
}

bool replay_hold(struct call *c) {
    if (c->outputs > 1 && !graph_lend_sibling(c, 0))
        return false;
    zl_retain(call_first(c));
    for (int i = 0; i < c->inputs; i++)
        zl_retain(c->in[i]);
    return true;
}

void replay_let_go(struct call *c) {
    for (int i = 0; i < c->inputs; i++)
        zl_release(c->in[i]);
    zl_release(call_first(c));
}

// Appends the slots of the call's inputs to r->in, where the next step expects them.
static bool add_inputs(struct build *b, const struct call *c) {
    struct replay *r = b->r;
    if (!memory_grow(&r->in, &r->in_cap, r->ins + c->inputs + 1, sizeof *r->in))
        return false;
    for (int i = 0; i < c->inputs; i++)
        if ((r->in[r->ins + i] = slot_of(b, c->in[i])) < 0)
            return false;
    return true;
}

static int append(struct build *b, struct call *c) {
    struct replay *r = b->r;
    if (!memory_grow(&r->step, &r->step_cap, r->steps + 1, sizeof *r->step) || !set_known(b, r->slots) ||
        !replay_hold(c))
        return -1;
    r->step[r->steps++] = (struct step){c, c->stream == b->stream, r->ins, r->slots};
    r->thread = c->stream == b->stream || op_is_collective(c->op) ? r->thread : &recorder;
    if (op_is_collective(c->op)) {
        int64_t number = op_collective_number(c);
        r->first = r->first ? MIN_OF(r->first, number) : number;
        r->last = MAX_OF(r->last, number);
    }
    r->ins += c->inputs;
    r->widest = MAX_OF(r->widest, c->inputs);
    r->slots += c->outputs;
    return r->slots - c->outputs;
}

static bool add_step(struct build *b, int at) {
    struct call *c = b->w.call[at];
    if (!add_inputs(b, c) || !name_step(b, c, b->r->in + b->r->ins) || (b->simple && !add_word(b, at)))
        return false;
    int slot = find_known(b);
    if (slot < 0 && (slot = append(b, c)) < 0)
        return false;
    for (int i = 0; i < c->outputs; i++)
        b->slot[b->w.first[at] + i] = slot + i;
    return true;
}

// Returns whether a call computes from constants of one element only. If its result is large (zeros, masks,
// positions), each replay computes it again instead of keeping it.
static bool is_made(const struct build *b, const struct call *c) {
    for (int i = 0; i < c->inputs; i++) {
        int call = walk_call(&b->w, c->in[i]);
        if (call >= 0 ? !b->made[call] : c->in[i]->size > 1 || array_state(c->in[i]) != ARRAY_READY)
            return false;
    }
    return c->op != &op_custom;
}

static bool is_large(const struct call *c) {
    for (int i = 0; i < c->outputs; i++)
        if (call_output(c, i)->size > SMALL)
            return true;
    return false;
}

static bool check_captured(const struct build *b, zl_array x) {
    int number = walk_number(&b->w, x);
    return number < b->first || number >= b->last ||
           error_false(
               ZL_ERROR_VALUE,
               "%s: the function uses an array of shape %s that it is also given: use the argument, as a "
               "captured array is a constant",
               b->function, array_text(x));
}

static bool add_call(struct build *b, int at) {
    struct call *c = b->w.call[at];
    bool depends = b->w.depends[b->w.first[at]];
    for (int i = 0; i < c->inputs; i++)
        if (!check_captured(b, c->in[i]))
            return false;
    b->made[at] = !depends && is_made(b, c);
    if (depends && !b->simple && passes_on(c))
        return pass_on(b, at);
    return (!depends && !(b->made[at] && is_large(c))) || add_step(b, at);
}

static bool add_results(struct build *b, const zl_outputs *results) {
    struct replay *r = b->r;
    r->tag = results->tag;
    if (!(r->result = memory_alloc(sizeof *r->result * (size_t)(results->count + 1))))
        return false;
    for (; r->results < results->count; r->results++) {
        zl_array y = results->item[r->results];
        if (!check_captured(b, y) || (r->result[r->results] = slot_of(b, y)) < 0)
            return false;
    }
    return true;
}

static bool is_live(const struct step *s, const bool *live) {
    return memchr(live + s->out, true, s->call->outputs);
}

static void find_live(const struct replay *r, bool *live) {
    for (int i = 0; i < r->results; i++)
        live[r->result[i]] = true;
    for (int i = r->steps - 1; i >= 0; i--) {
        const struct step *s = &r->step[i];
        for (int k = 0; is_live(s, live) && k < s->call->inputs; k++)
            live[r->in[s->in + k]] = true;
    }
}

static void drop_steps(struct replay *r, const bool *live) {
    int count = 0;
    for (int i = 0; i < r->steps; i++) {
        struct step s = r->step[i];
        if (is_live(&s, live))
            r->step[count++] = s;
        else
            replay_let_go(s.call);
    }
    r->steps = count;
}

static void drop_kept(struct replay *r, const bool *live) {
    int count = 0;
    for (int i = 0; i < r->kept_count; i++) {
        struct kept k = r->kept[i];
        if (live[k.slot])
            r->kept[count++] = k;
        else
            zl_release(k.array);
    }
    r->kept_count = count;
}

bool replay_drop_dead(struct replay *r) {
    bool *live = memory_zero((size_t)r->slots + 1);
    if (!live)
        return false;
    find_live(r, live);
    drop_steps(r, live);
    drop_kept(r, live);
    memory_free(live);
    return true;
}

// Lists the calls between tracers and results. The sources are the tracers, then the arrays that they stand
// for, which the function must not use directly. A number whose tracer holds its value is not among these:
// the recording is for this value only, so the function may also use the number itself.
static bool list_calls(struct build *b, int count, const zl_array *in, const zl_array *tracer,
                       const zl_outputs *results) {
    OP_TEMP(zl_array, source, 2 * (int64_t)count);
    int sources = 0;
    if (!source)
        return false;
    for (int i = 0; i < count; i++)
        source[sources++] = tracer[i];
    b->first = sources;
    for (int i = 0; i < count; i++)
        if (!array_is(tracer[i], ARRAY_INLINE))
            source[sources++] = in[i];
    if (!walk_make(&b->w, sources, source, results->count, results->item))
        return false;
    b->last = b->w.calls ? b->w.first[0] : b->w.arrays;
    return true;
}

static bool start(struct build *b, int count, const zl_array *tracer) {
    b->slot = memory_alloc(sizeof *b->slot * (size_t)(b->w.arrays + 1));
    b->made = memory_zero(sizeof *b->made * (size_t)(b->w.calls + 1));
    if (!b->slot || !b->made)
        return false;
    memset(b->slot, -1, sizeof *b->slot * (size_t)(b->w.arrays + 1));
    for (int i = 0; i < count; i++) {
        int number = walk_number(&b->w, tracer[i]);
        if (number >= 0)
            b->slot[number] = i;
    }
    b->r->inputs = b->r->slots = count;
    return true;
}

static void end(struct build *b) {
    walk_free(&b->w);
    map_free(&b->known);
    memory_free(b->slot);
    memory_free(b->made);
    memory_free(b->word);
}

struct replay *replay_make(const char *function, int count, const zl_array *in, const zl_array *tracer,
                           const zl_outputs *results, bool simple) {
    struct replay *r = memory_zero(sizeof *r);
    struct build b = {
        .r = r, .w = {.kind = WALK_ALL}, .function = function, .simple = simple, .stream = recorder.stream};
    if (!r)
        return NULL;
    atomic_init(&r->refs, 1);
    bool ok = list_calls(&b, count, in, tracer, results) && start(&b, count, tracer);
    for (int i = 0; ok && i < b.w.calls; i++)
        ok = add_call(&b, i);
    ok = ok && add_results(&b, results) && replay_drop_dead(r);
    end(&b);
    if (!ok)
        replay_release(r);
    return ok ? r : NULL;
}

// Life ------------------------------------------------------------------------------------------------------

struct replay *replay_retain(struct replay *r) {
    atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    return r;
}

void replay_release(struct replay *r) {
    if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (int i = 0; i < r->steps; i++)
        replay_let_go(r->step[i].call);
    for (int i = 0; i < r->kept_count; i++)
        zl_release(r->kept[i].array);
    memory_free(r->step);
    memory_free(r->in);
    memory_free(r->kept);
    memory_free(r->result);
    memory_free(r);
}

bool replay_lasts(const struct replay *r) {
    for (int i = 0; i < r->kept_count; i++)
        if (array_state(r->kept[i].array) == ARRAY_FAILED)
            return false;
    return !r->foreign && (!r->thread || r->thread == &recorder);
}

// Running ---------------------------------------------------------------------------------------------------

static bool run_steps(const struct replay *r, zl_array *value, zl_array *in) {
    zl_stream stream = recorder.stream;
    bool ok = true, outer = recorder.compiled;
    recorder.compiled = zl_get_compile_mode() == ZL_COMPILE_ENABLED;
    if (r->last)
        op_collective_again(r->first, r->last);
    for (int i = 0; ok && i < r->steps; i++) {
        const struct step *s = &r->step[i];
        for (int k = 0; k < s->call->inputs; k++)
            in[k] = value[r->in[s->in + k]];
        recorder.stream = s->inherits ? stream : s->call->stream;
        ok = s->call->op->record(s->call, in, value + s->out);
    }
    recorder.stream = stream;
    recorder.compiled = outer;
    if (r->last)
        op_collective_again(0, 0);
    return ok;
}

bool replay_run(const struct replay *r, const zl_array *in, zl_outputs *out) {
    OP_TEMP(zl_array, value, (int64_t)r->slots + r->widest);
    if (!value)
        return false;
    for (int i = 0; i < r->inputs; i++)
        value[i] = in[i];
    for (int i = 0; i < r->kept_count; i++)
        value[r->kept[i].slot] = r->kept[i].array;
    if (!run_steps(r, value, value + r->slots))
        return false;
    for (int i = 0; i < r->results; i++)
        if (!zl_give(out, value[r->result[i]]))
            return false;
    out->tag = r->tag;
    return true;
}
