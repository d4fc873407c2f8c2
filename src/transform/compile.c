// compile.c - compiled functions. They run once for each signature of the inputs; later calls with that
// signature replay what was recorded.

#include <string.h>

#include "transform/transform.h"

struct zl_compiled_ {
    atomic_int refs;
    zl_fn f;
    bool shapeless;
    struct map replays; // recordings by signature; retained
};

// Locks for the replays, chosen by the address of the function. They are registered for fork(), so that the
// replays are consistent in the child.
static struct lock locks[16];

static struct lock *lock_of(zl_compiled c) {
    return &locks[(uintptr_t)c / 64 % COUNT(locks)];
}

ZL_AT_LOAD {
    for (size_t i = 0; i < COUNT(locks); i++)
        fork_guard(&locks[i]);
}

// Life ------------------------------------------------------------------------------------------------------

zl_compiled zl_compile(zl_fn f, bool shapeless) {
    if (!f.call)
        return error_set(ZL_ERROR_VALUE, "zl_compile: no function to call");
    zl_compiled c = memory_zero(sizeof *c);
    if (!c)
        return NULL;
    atomic_init(&c->refs, 1);
    c->f = f;
    c->shapeless = shapeless;
    if (f.retain)
        f.retain(f.data);
    return c;
}

zl_compiled zl_compiled_retain(zl_compiled c) {
    if (c)
        atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

static void release_replay(const void *key, size_t bytes, void *value, void *data) {
    (void)key, (void)bytes, (void)data;
    replay_release(value);
}

void zl_compiled_release(zl_compiled c) {
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    map_each(&c->replays, release_replay, NULL);
    map_free(&c->replays);
    if (c->f.release)
        c->f.release(c->f.data);
    memory_free(c);
}

// Signatures ------------------------------------------------------------------------------------------------

// The key of a recorded call: dtypes and shapes of the input arrays, the values of numbers, and the caller's
// own key.
struct signature {
    int64_t *word;
    size_t bytes;
};

static int64_t words_of(const struct zl_compiled_ *c, int count, const zl_array *in, size_t key_bytes) {
    int64_t words = 2 + (int64_t)(key_bytes / 8 + 1);
    for (int i = 0; i < count; i++)
        words += 2 + (c->shapeless ? 0 : in[i]->ndim);
    return words;
}

static void sign(struct signature *s, const struct zl_compiled_ *c, int count, const zl_array *in,
                 const void *key, size_t key_bytes) {
    int64_t *word = s->word;
    *word++ = count;
    for (int i = 0; i < count; i++) {
        zl_array x = in[i];
        bool weak = array_is(x, ARRAY_WEAK);
        *word++ = x->dtype | weak << 8 | (int64_t)x->ndim << 16;
        if (weak)
            *word++ = array_value(x)->i;
        for (int k = 0; !c->shapeless && k < x->ndim; k++)
            *word++ = x->dim[k];
    }
    if (key_bytes)
        memcpy(word, key, key_bytes);
    s->bytes = (size_t)((char *)word - (char *)s->word) + key_bytes;
}

static struct replay *find(zl_compiled c, const struct signature *s) {
    lock_take(lock_of(c));
    struct replay *r = map_get(&c->replays, s->word, s->bytes);
    r = r && replay_lasts(r) ? replay_retain(r) : NULL;
    lock_give(lock_of(c));
    return r;
}

// Keeps a replay for later calls, replacing one that is no longer usable. Returns false if the replay cannot
// be used later or memory runs out.
static bool remember(zl_compiled c, const struct signature *s, struct replay *r) {
    if (!replay_lasts(r))
        return false;
    lock_take(lock_of(c));
    struct replay *old = map_get(&c->replays, s->word, s->bytes);
    bool ok = map_set(&c->replays, s->word, s->bytes, r);
    lock_give(lock_of(c));
    if (ok) {
        replay_retain(r);
        replay_release(old);
    }
    return ok;
}

// Calling ---------------------------------------------------------------------------------------------------

static const char no_data[] = "zl_compile: an array of a function that is being compiled has no data: what "
                              "the function does is recorded "
                              "once, for all calls, so it cannot be evaluated or read";

// Returns a tracer for a number that was passed in. Its value is part of the signature. Still, it differs
// from an equal constant, since results depend on the number that this call was given.
static zl_array trace_number(zl_array x) {
    zl_array a = graph_inline((zl_dtype)x->dtype, *array_value(x), ARRAY_WEAK);
    if (a)
        trace_mark(a);
    return a;
}

static bool make_tracers(int count, const zl_array *in, zl_array *tracer) {
    for (int i = 0; i < count; i++) {
        zl_array x = in[i];
        tracer[i] = array_is(x, ARRAY_WEAK) ? trace_number(x)
                                            : trace_placeholder((zl_dtype)x->dtype, x->ndim, x->dim, no_data);
        if (!tracer[i])
            return false;
    }
    return true;
}

static struct replay *record(struct trace *t, zl_compiled c, int count, const zl_array *in) {
    zl_outputs results = {0};
    struct replay *r = NULL;
    OP_TEMP(zl_array, tracer, count);
    const struct op *outer = recorder.deferred;
    recorder.deferred = c->shapeless ? &op_deferred : NULL;
    if (tracer && make_tracers(count, in, tracer) && trace_run(t, c->f, count, tracer, &results))
        r = replay_make(t->function, count, in, tracer, &results,
                        zl_get_compile_mode() == ZL_COMPILE_NO_SIMPLIFY);
    if (r && zl_get_compile_mode() == ZL_COMPILE_ENABLED && !replay_recompute(r)) {
        replay_release(r);
        r = NULL;
    }
    recorder.deferred = outer;
    outputs_clear(&results);
    return r;
}

static bool run(struct trace *t, zl_compiled c, const void *key, size_t key_bytes, int count,
                const zl_array *in, zl_outputs *out) {
    OP_TEMP(int64_t, word, words_of(c, count, in, key_bytes));
    if (!word)
        return false;
    struct signature s = {.word = word};
    sign(&s, c, count, in, key, key_bytes);
    struct replay *r = find(c, &s);
    bool found = r;
    if (!found && !(r = record(t, c, count, in)))
        return false;
    bool later = found || remember(c, &s, r);
    bool ok = !zl_error() && replay_run(r, in, out);
    if (!later)
        out->tag = 0;
    replay_release(r);
    return ok;
}

// Returns whether to call the function itself instead of a replay: when compilation is disabled, or when an
// input is a tracer of an enclosing transform.
static bool is_plain(int count, const zl_array *in) {
    bool plain = zl_get_compile_mode() == ZL_COMPILE_DISABLED;
    for (int i = 0; !plain && recorder.trace_depth && i < count; i++)
        plain = array_is_tracer(in[i]);
    return plain;
}

static bool run_plain(zl_compiled c, int count, const zl_array *in, zl_outputs *out) {
    bool ok = trace_call("zl_compiled_call", c->f, count, in, out);
    out->tag = 0;
    return ok;
}

bool zl_compiled_call(zl_compiled c, const void *key, size_t key_bytes, int count, const zl_array *in,
                      zl_outputs *out) {
    static const char function[] = "zl_compiled_call";
    if (!c)
        return zl_error() ? false : error_false(ZL_ERROR_VALUE, "%s: no compiled function", function);
    if (!trace_check(function, c->f, count, in))
        return false;
    if (!out || out->count || (key_bytes && !key))
        return error_false(ZL_ERROR_VALUE, "%s: %s", function,
                           key_bytes && !key ? "the key is NULL" : "no empty list for the results");
    struct trace t;
    trace_begin(&t, function);
    bool ok = is_plain(count, in) ? run_plain(c, count, in, out) : run(&t, c, key, key_bytes, count, in, out);
    zl_scope_end(t.scope);
    if (!ok)
        outputs_clear(out);
    trace_end(&t);
    return ok;
}
