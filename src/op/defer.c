// defer.c - what depends on sizes, in a function that is traced to be done again with other shapes.
//
// A size that an op reads while it is traced is a number for ever. Such an op is recorded as a call that holds what is to be
// done: done again, with arrays of any sizes, it gives the plain graph of that. Nothing evaluates it. Its derivatives and
// batches are deferred in the same way.

#include "op/ops.h"

// What is deferred: a function, or a transform of one. Counted references.
struct deferral {
    atomic_int refs;
    zl_fn f;      // retained
    int count;    // inputs of f
    int results;  // that f gives
    bool *given;  // VJP: by result, has a cotangent; JVP: by input, has a tangent
    bool *wanted; // VJP: by input
    int *axis;    // VMAP: by input
};

bool op_defers(int count, const zl_array *in) {
    if (!recorder.shapeless || recorder.exporting)
        return false;
    for (int i = 0; i < count; i++)
        if (in[i] && array_is_tracer(in[i]))
            return true;
    return false;
}

// Holding ----------------------------------------------------------------------------------------------------------

static void retain_deferral(void *data) {
    atomic_fetch_add(&((struct deferral *)data)->refs, 1);
}

static void release_deferral(void *data) {
    struct deferral *d = data;
    if (atomic_fetch_sub(&d->refs, 1) != 1)
        return;
    if (d->f.release)
        d->f.release(d->f.data);
    memory_free(d->given);
    memory_free(d->wanted);
    memory_free(d->axis);
    memory_free(d);
}

static struct deferral *make_deferral(zl_fn f, int count, int results) {
    struct deferral *d = memory_zero(sizeof *d);
    if (!d)
        return NULL;
    atomic_init(&d->refs, 1);
    d->f = f;
    d->count = count;
    d->results = results;
    if (f.retain)
        f.retain(f.data);
    return d;
}

static zl_fn function_of(struct deferral *d,
                         bool (*call)(void *data, int count, const zl_array *in, zl_outputs *out)) {
    return (zl_fn){call, d, retain_deferral, release_deferral};
}

// A leaf that holds the function until the call that has it as its last input goes.
struct held {
    zl_fn f;
};

static void release_held(void *context) {
    struct held *h = context;
    if (h->f.release)
        h->f.release(h->f.data);
    memory_free(h);
}

static zl_array hold(zl_fn f) {
    struct held *h = memory_alloc(sizeof *h);
    struct storage *storage = h ? storage_foreign(NULL, 0, release_held, h) : NULL;
    if (!storage) {
        memory_free(h);
        return NULL;
    }
    h->f = f;
    if (f.retain)
        f.retain(f.data);
    return graph_leaf(&(struct array_spec){.dtype = ZL_UINT8, .ndim = 1, .dim = (int64_t[]){0}}, storage);
}

static zl_fn held_by(const struct call *c) {
    return ((struct held *)c->in[c->inputs - 1]->storage->context)->f;
}

// Recording --------------------------------------------------------------------------------------------------------

// What f gives for these: a graph that has their sizes. At most `most` results; how many, or -1 and an error.
static int run_now(zl_fn f, int count, const zl_array *in, int most, zl_array *out) {
    bool outer = recorder.shapeless;
    zl_outputs *list = zl_outputs_new();
    recorder.shapeless = false;
    bool ok = list && f.call(f.data, count, in, list);
    recorder.shapeless = outer;
    int results = ok ? zl_outputs_count(list) : -1;
    for (int i = 0; i < results && i < most; i++)
        if (!(out[i] = op_same(zl_outputs_get(list, i))))
            results = -1;
    zl_outputs_free(list);
    return results;
}

static bool record_call(zl_array holder, int count, const zl_array *in, int results, const zl_array *like,
                        zl_array *out) {
    OP_ROOM(zl_array, all, (int64_t)count + 1);
    struct array_spec *spec = all ? memory_zero(sizeof *spec * (size_t)results) : NULL;
    if (!spec)
        return false;
    for (int i = 0; i < count; i++)
        all[i] = in[i];
    all[count] = holder;
    for (int i = 0; i < results; i++)
        spec[i] = (struct array_spec){
            .dtype = (zl_dtype)like[i]->dtype, .ndim = like[i]->ndim, .dim = like[i]->dim};
    zl_array y = graph_call(&op_deferred, count + 1, all, 0, NULL, results, spec);
    for (int i = 0; y && i < results; i++)
        out[i] = call_output(y->call, i);
    memory_free(spec);
    return y;
}

static bool record_held(zl_fn f, zl_array holder, int count, const zl_array *in, int results, zl_array *out) {
    int got = run_now(f, count, in, results, out);
    if (got >= 0 && got != results)
        return error_false(
            ZL_ERROR_VALUE,
            "zl_compiled_call: a step of a function that was compiled shapeless gave %d results when it was "
            "traced, and gives %d for arrays of these shapes",
            results, got);
    if (got < 0)
        return false;
    return !op_defers(count, in) || record_call(holder, count, in, results, out, out);
}

bool op_defer(zl_fn f, int count, const zl_array *in, int results, zl_array *out) {
    zl_array holder = hold(f);
    return holder && record_held(f, holder, count, in, results, out);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return record_held(held_by(c), in[c->inputs - 1], c->inputs - 1, in, c->outputs, out);
}

// Derivatives ------------------------------------------------------------------------------------------------------

// f of the wanted inputs alone.
struct partial {
    const struct deferral *d;
    const zl_array *in;
};

static bool call_partial(void *data, int count, const zl_array *in, zl_outputs *out) {
    const struct partial *p = data;
    (void)count;
    OP_ROOM(zl_array, all, p->d->count);
    for (int i = 0, next = 0; all && i < p->d->count; i++)
        all[i] = p->d->wanted[i] ? in[next++] : p->in[i];
    return all && p->d->f.call(p->d->f.data, p->d->count, all, out);
}

// One cotangent for each result; those that are not given are zeros.
static bool all_cotangents(const struct deferral *d, const zl_array *in, zl_array *out) {
    if (run_now(d->f, d->count, in, d->results, out) != d->results)
        return false;
    for (int i = 0, next = d->count; i < d->results; i++)
        if (!(out[i] = d->given[i] ? in[next++] : op_zeros_of(out[i])))
            return false;
    return true;
}

bool op_give_all(int count, const zl_array *list, zl_outputs *out) {
    for (int i = 0; i < count; i++)
        if (!zl_give(out, list[i]))
            return false;
    return true;
}

// Inputs of f, then cotangents; gives those of the wanted inputs.
static bool call_vjp(void *data, int count, const zl_array *in, zl_outputs *out) {
    struct deferral *d = data;
    (void)count;
    OP_ROOM(zl_array, some, 2 * (int64_t)d->count);
    OP_ROOM(zl_array, cotangent, d->results);
    if (!some || !cotangent || !all_cotangents(d, in, cotangent))
        return false;
    int wanted = 0;
    for (int i = 0; i < d->count; i++)
        if (d->wanted[i])
            some[wanted++] = in[i];
    struct partial p = {d, in};
    return zl_vjp((zl_fn){.call = call_partial, .data = &p}, wanted, some, d->results, cotangent, NULL,
                  some + d->count) &&
           op_give_all(wanted, some + d->count, out);
}

// in with the arrays that are there behind it; how many there are.
static int join(int count, const zl_array *in, int more, const zl_array *list, bool *given, zl_array *out) {
    for (int i = 0; i < count; i++)
        out[i] = in[i];
    for (int i = 0; i < more; i++)
        if ((given[i] = list[i] != NULL))
            out[count++] = list[i];
    return count;
}

bool op_defer_vjp(zl_fn f, int count, const zl_array *in, int results, const bool *wanted,
                  const zl_array *cotangent, zl_array *out) {
    struct deferral *d = make_deferral(f, count, results);
    OP_ROOM(zl_array, all, (int64_t)count + results);
    OP_ROOM(zl_array, grads, count);
    bool ok = d && all && grads && (d->given = memory_zero((size_t)results + 1)) &&
              (d->wanted = memory_zero((size_t)count + 1));
    int grown = 0, inputs = ok ? join(count, in, results, cotangent, d->given, all) : 0;
    for (int i = 0; ok && i < count; i++)
        grown += d->wanted[i] = wanted[i];
    ok = ok && op_defer(function_of(d, call_vjp), inputs, all, grown, grads);
    for (int i = 0, next = 0; ok && i < count; i++)
        out[i] = wanted[i] ? grads[next++] : NULL;
    if (d)
        release_deferral(d);
    return ok;
}

// Inputs of f, then tangents; gives those of the results.
static bool call_jvp(void *data, int count, const zl_array *in, zl_outputs *out) {
    struct deferral *d = data;
    (void)count;
    OP_ROOM(zl_array, tangent, d->count);
    for (int i = 0, next = d->count; tangent && i < d->count; i++)
        tangent[i] = d->given[i] ? in[next++] : NULL;
    return tangent && zl_jvp(d->f, d->count, in, tangent, NULL, out);
}

bool op_defer_jvp(zl_fn f, int count, const zl_array *in, int results, const zl_array *tangent,
                  zl_array *out) {
    struct deferral *d = make_deferral(f, count, results);
    OP_ROOM(zl_array, all, 2 * (int64_t)count);
    bool ok = d && all && (d->given = memory_zero((size_t)count + 1));
    int inputs = ok ? join(count, in, count, tangent, d->given, all) : 0;
    ok = ok && op_defer(function_of(d, call_jvp), inputs, all, results, out);
    if (d)
        release_deferral(d);
    return ok;
}

static bool call_vmap(void *data, int count, const zl_array *in, zl_outputs *out) {
    struct deferral *d = data;
    return zl_vmap(d->f, count, in, d->axis, d->results, NULL, out);
}

bool op_defer_vmap(zl_fn f, int count, const zl_array *in, int results, const int *axis, zl_array *out,
                   int *out_axis) {
    struct deferral *d = make_deferral(f, count, results);
    bool ok = d && (d->axis = memory_alloc(sizeof(int) * ((size_t)count + 1)));
    for (int i = 0; ok && i < count; i++)
        d->axis[i] = axis[i];
    ok = ok && op_defer(function_of(d, call_vmap), count, in, results, out);
    for (int i = 0; ok && i < results; i++)
        out_axis[i] = 0;
    if (d)
        release_deferral(d);
    return ok;
}

static bool vjp_all(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out) {
    return op_defer_vjp(held_by(c), c->inputs - 1, c->in, c->outputs, wanted, cotangent, out);
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    return op_defer_jvp(held_by(c), c->inputs - 1, c->in, c->outputs, tangent, out);
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    return op_defer_vmap(held_by(c), c->inputs - 1, in, c->outputs, axis, out, out_axis);
}

const struct op op_deferred = {
    .name = "deferred",
    .kind = OP_OTHER,
    .record = record,
    .vjp_all = vjp_all,
    .jvp = jvp,
    .vmap = vmap,
};
