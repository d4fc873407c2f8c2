// custom.c - functions with rules of their own, and checkpoints, whose rule is to run the function again.
//
// The function runs at once. A call of op_custom then passes on its results, so that transforms find it
// there. That call keeps the rules alive as the storage of one more input, a leaf without elements: they are
// released with the call's inputs.

#include "transform/transform.h"

// The inputs of a call of op_custom, by what they are.
struct parts {
    const zl_custom_fn *rules;
    int results, count;
    const zl_array *result, *in;
};

static struct parts parts_of(const struct call *c) {
    return (struct parts){.rules = c->in[c->inputs - 1]->storage->context,
                          .results = c->outputs,
                          .count = c->inputs - c->outputs - 1,
                          .result = c->in,
                          .in = c->in + c->outputs};
}

bool custom_has_vmap(const struct call *c) {
    return parts_of(c).rules->vmap != NULL;
}

// Rules -----------------------------------------------------------------------------------------------------

static bool check_rule(const char *rule, bool ok, const zl_outputs *out, int expected) {
    if (zl_error())
        return false;
    if (!ok || out->failed)
        return error_false(ZL_ERROR_VALUE, "zl_custom: the function's %s failed without saying why", rule);
    return out->count == expected ||
           error_false(ZL_ERROR_VALUE, "zl_custom: the function's %s gave %d arrays: %d are needed", rule,
                       out->count, expected);
}

// Converts a cotangent or tangent that a rule returned to that of x: it must have the shape of x, and is cast
// to its dtype.
static zl_array fit(const char *rule, zl_array a, zl_array x) {
    if (!shape_equal(a->ndim, a->dim, x->ndim, x->dim))
        return error_set(ZL_ERROR_SHAPE,
                         "zl_custom: the function's %s gave shape %s for an array of shape %s", rule,
                         array_text(a), array_text(x));
    return zl_astype(a, (zl_dtype)x->dtype);
}

static bool run_vjp(const struct parts *p, const struct call *c, const zl_array *cotangent, zl_outputs *out) {
    if (!p->rules->vjp)
        return vjp_give("zl_custom", p->rules->f, p->count, p->in, p->results, cotangent, out);
    OP_TEMP(zl_array, full, 2 * p->results);
    if (!full)
        return false;
    zl_array *result = full + p->results;
    for (int i = 0; i < p->results; i++) {
        result[i] = call_output(c, i);
        if (!(full[i] = cotangent[i] ? cotangent[i] : zl_zeros_like(result[i], ZL_DTYPE_COUNT)))
            return false;
    }
    bool ok = p->rules->vjp(p->rules->f.data, p->count, p->in, p->results, result, full, out);
    return check_rule("vjp", ok, out, p->count);
}

static bool vjp_all(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out) {
    struct parts p = parts_of(c);
    zl_outputs grads = {0};
    bool ok = run_vjp(&p, c, cotangent, &grads);
    for (int i = 0; ok && i < p.count; i++) // from here on, the current scope keeps the results
        if (wanted[p.results + i])
            ok = (out[p.results + i] = op_same(fit("vjp", grads.item[i], p.in[i])));
    outputs_clear(&grads);
    return ok;
}

static bool run_jvp(const struct parts *p, const zl_array *tangent, zl_outputs *out) {
    if (!p->rules->jvp)
        return zl_jvp(p->rules->f, p->count, p->in, tangent, NULL, out);
    return check_rule("jvp", p->rules->jvp(p->rules->f.data, p->count, p->in, tangent, out), out, p->results);
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    struct parts p = parts_of(c);
    zl_outputs tangents = {0};
    bool ok = run_jvp(&p, tangent + p.results, &tangents);
    for (int i = 0; ok && i < p.results; i++)
        ok = (out[i] = op_same(fit("jvp", tangents.item[i], p.result[i])));
    outputs_clear(&tangents);
    return ok;
}

// Without a rule, the calls that the function recorded have been mapped already: the results are passed on.
static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    struct parts p = parts_of(c);
    zl_outputs many = {0};
    if (p.rules->vmap) {
        bool ok = p.rules->vmap(p.rules->f.data, p.count, in + p.results, axis + p.results, p.results, &many,
                                out_axis);
        if (!check_rule("vmap", ok, &many, p.results))
            return outputs_clear(&many), false;
    }
    bool ok = true;
    for (int i = 0; ok && i < p.results; i++) {
        ok = (out[i] = op_same(p.rules->vmap ? many.item[i] : in[i]));
        if (!p.rules->vmap)
            out_axis[i] = axis[i];
    }
    outputs_clear(&many);
    return ok;
}

// Recording -------------------------------------------------------------------------------------------------

static bool record_call(int results, int inputs, const zl_array *in, zl_array *out) {
    struct array_spec *spec = memory_alloc(sizeof *spec * (size_t)results);
    for (int i = 0; spec && i < results; i++)
        spec[i] = (struct array_spec){.dtype = (zl_dtype)in[i]->dtype,
                                      .ndim = in[i]->ndim,
                                      .dim = in[i]->dim,
                                      .stride = array_stride(in[i]),
                                      .offset = op_offset(in[i])};
    zl_array y = spec ? graph_call(&op_custom, inputs, in, 0, NULL, results, spec) : NULL;
    for (int i = 0; y && i < results; i++)
        out[i] = call_output(y->call, i);
    memory_free(spec);
    return y;
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return record_call(c->outputs, c->inputs, in, out);
}

const struct op op_custom = {
    .name = "custom",
    .kind = OP_VIEW,
    .record = record,
    .vjp_all = vjp_all,
    .jvp = jvp,
    .vmap = vmap,
};

static void release_rules(void *context) {
    zl_custom_fn *rules = context;
    if (rules->f.release)
        rules->f.release(rules->f.data);
    memory_free(rules);
}

// Returns a leaf that holds the rules.
static zl_array hold(const zl_custom_fn *f) {
    zl_custom_fn *rules = memory_alloc(sizeof *rules);
    struct storage *storage = rules ? storage_foreign(NULL, 0, release_rules, rules) : NULL;
    if (!storage) {
        memory_free(rules);
        return NULL;
    }
    *rules = *f;
    if (f->f.retain)
        f->f.retain(f->f.data);
    return graph_leaf(&(struct array_spec){.dtype = ZL_UINT8, .ndim = 1, .dim = (int64_t[]){0}}, storage);
}

static bool record_custom(const zl_custom_fn *f, int count, const zl_array *in, const zl_outputs *results,
                          zl_outputs *out) {
    int inputs = results->count + count + 1;
    OP_TEMP(zl_array, all, inputs + results->count);
    if (!all || !(all[inputs - 1] = hold(f)))
        return false;
    for (int i = 0; i < results->count; i++)
        all[i] = results->item[i];
    for (int i = 0; i < count; i++)
        all[results->count + i] = in[i];
    bool ok = record_call(results->count, inputs, all, all + inputs);
    for (int i = 0; ok && i < results->count; i++)
        ok = zl_give(out, all[inputs + i]);
    return ok;
}

static bool call_custom(const char *function, const zl_custom_fn *f, int count, const zl_array *in,
                        zl_outputs *out) {
    if (!trace_check(function, f->f, count, in))
        return false;
    if (!out || out->count)
        return error_false(ZL_ERROR_VALUE, "%s: no empty list for the results", function);
    struct trace t;
    trace_begin(&t, function);
    zl_outputs results = {0};
    bool ok = trace_call(function, f->f, count, in, &results) &&
              (!results.count || record_custom(f, count, in, &results, out));
    zl_scope_end(t.scope);
    outputs_clear(&results);
    if (!ok)
        outputs_clear(out);
    trace_end(&t);
    return ok;
}

bool zl_custom(const zl_custom_fn *f, int count, const zl_array *in, zl_outputs *out) {
    return f ? call_custom("zl_custom", f, count, in, out)
             : error_false(ZL_ERROR_VALUE, "zl_custom: no function to call");
}

// Checkpoints -----------------------------------------------------------------------------------------------

// A function that is run again when its gradients are computed.
struct checkpoint {
    zl_fn f;
    atomic_int refs;
};

static bool call_again(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_fn f = ((struct checkpoint *)data)->f;
    return f.call(f.data, count, in, out);
}

// Makes the inputs depend on the cotangents, so that the second run does not start before the backward pass
// reaches it.
static bool delay(int count, const zl_array *in, int results, const zl_array *cotangent, zl_array *out) {
    for (int i = 0; i < count; i++)
        if (!(out[i] = zl_depends(in[i], cotangent, results)))
            return false;
    return true;
}

static bool vjp_again(void *data, int count, const zl_array *in, int results, const zl_array *result,
                      const zl_array *cotangent, zl_outputs *out) {
    (void)result;
    OP_TEMP(zl_array, late, count);
    return late && delay(count, in, results, cotangent, late) &&
           vjp_give("zl_checkpoint", ((struct checkpoint *)data)->f, count, late, results, cotangent, out);
}

static void retain_checkpoint(void *data) {
    struct checkpoint *c = data;
    atomic_fetch_add(&c->refs, 1);
}

static void release_checkpoint(void *data) {
    struct checkpoint *c = data;
    if (atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    if (c->f.release)
        c->f.release(c->f.data);
    memory_free(c);
}

bool zl_checkpoint(zl_fn f, int count, const zl_array *in, zl_outputs *out) {
    if (!f.call)
        return error_false(ZL_ERROR_VALUE, "zl_checkpoint: no function to call");
    struct checkpoint *c = memory_alloc(sizeof *c);
    if (!c)
        return false;
    c->f = f;
    atomic_init(&c->refs, 1);
    if (f.retain)
        f.retain(f.data);
    zl_custom_fn rules = {.f = {call_again, c, retain_checkpoint, release_checkpoint}, .vjp = vjp_again};
    bool ok = call_custom("zl_checkpoint", &rules, count, in, out);
    release_checkpoint(c);
    return ok;
}
