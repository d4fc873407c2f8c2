// deferred.c - the op of deferred calls (op/defer.c). Its rules defer a transform of the function that the
// call holds, so derivatives and batches are deferred too.

#include "transform/transform.h"

// The function that a deferred call holds, or the transform of it. References are counted.
struct deferral {
    atomic_int refs;
    zl_fn f;      // retained
    int count;    // inputs of f
    int results;  // number of results of f
    bool *given;  // VJP: by result, whether it has a cotangent; JVP: by input, whether it has a tangent
    bool *wanted; // VJP: by input
    int *axis;    // VMAP: by input
};

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

// Writes one cotangent for each result; those that are not given are zeros.
static bool all_cotangents(const struct deferral *d, const zl_array *in, zl_array *out) {
    if (op_run_now(d->f, d->count, in, d->results, out) != d->results)
        return false;
    for (int i = 0, next = d->count; i < d->results; i++)
        if (!(out[i] = d->given[i] ? in[next++] : op_zeros_of(out[i])))
            return false;
    return true;
}

// Takes the inputs of f, then the cotangents that are given; gives the cotangents of the wanted inputs.
static bool call_vjp(void *data, int count, const zl_array *in, zl_outputs *out) {
    struct deferral *d = data;
    (void)count;
    OP_TEMP(zl_array, grads, d->count);
    OP_TEMP(zl_array, cotangent, d->results);
    bool ok = grads && cotangent && all_cotangents(d, in, cotangent) &&
              vjp_wanted(d->f, d->count, in, d->wanted, d->results, cotangent, grads);
    for (int i = 0; ok && i < d->count; i++)
        ok = !d->wanted[i] || zl_give(out, grads[i]);
    return ok;
}

// Writes the inputs, then those arrays of the list that are not NULL, to `out`. Returns their number.
static int join(int count, const zl_array *in, int more, const zl_array *list, bool *given, zl_array *out) {
    for (int i = 0; i < count; i++)
        out[i] = in[i];
    for (int i = 0; i < more; i++)
        if ((given[i] = list[i] != NULL))
            out[count++] = list[i];
    return count;
}

bool deferred_vjp(zl_fn f, int count, const zl_array *in, int results, const bool *wanted,
                  const zl_array *cotangent, zl_array *out) {
    struct deferral *d = make_deferral(f, count, results);
    OP_TEMP(zl_array, all, (int64_t)count + results);
    OP_TEMP(zl_array, grads, count);
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

// Takes the inputs of f, then the tangents that are given; gives the tangents of the results.
static bool call_jvp(void *data, int count, const zl_array *in, zl_outputs *out) {
    struct deferral *d = data;
    (void)count;
    OP_TEMP(zl_array, tangent, d->count);
    for (int i = 0, next = d->count; tangent && i < d->count; i++)
        tangent[i] = d->given[i] ? in[next++] : NULL;
    return tangent && zl_jvp(d->f, d->count, in, tangent, NULL, out);
}

bool deferred_jvp(zl_fn f, int count, const zl_array *in, int results, const zl_array *tangent,
                  zl_array *out) {
    struct deferral *d = make_deferral(f, count, results);
    OP_TEMP(zl_array, all, 2 * (int64_t)count);
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

bool deferred_vmap(zl_fn f, int count, const zl_array *in, int results, const int *axis, zl_array *out,
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
    return deferred_vjp(op_deferred_function(c), c->inputs - 1, c->in, c->outputs, wanted, cotangent, out);
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    return deferred_jvp(op_deferred_function(c), c->inputs - 1, c->in, c->outputs, tangent, out);
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    return deferred_vmap(op_deferred_function(c), c->inputs - 1, in, c->outputs, axis, out, out_axis);
}

const struct op op_deferred = {
    .name = "deferred",
    .kind = OP_OTHER,
    .record = op_record_deferred,
    .vjp_all = vjp_all,
    .jvp = jvp,
    .vmap = vmap,
};
