// defer.c - defers ops that depend on sizes, in a function that is traced for replay with other shapes.
//
// A size that an op reads during the trace would become a constant. Instead, a call is recorded that holds a
// function. When the call is replayed with arrays of any sizes, the function runs and records its plain
// graph. Such calls are never evaluated. The transforms supply their op (recorder.deferred), since they know
// its derivatives and batching.

#include "op/ops.h"

bool op_defers(int count, const zl_array *in) {
    if (!recorder.deferred || recorder.exporting)
        return false;
    for (int i = 0; i < count; i++)
        if (in[i] && array_is_tracer(in[i]))
            return true;
    return false;
}

// Holding ---------------------------------------------------------------------------------------------------

// A leaf's storage: it holds the function until the call whose last input it is is released.
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

zl_fn op_deferred_function(const struct call *c) {
    return ((struct held *)c->in[c->inputs - 1]->storage->context)->f;
}

// Recording -------------------------------------------------------------------------------------------------

int op_run_now(zl_fn f, int count, const zl_array *in, int most, zl_array *out) {
    const struct op *outer = recorder.deferred;
    zl_outputs *list = zl_outputs_new();
    recorder.deferred = NULL;
    bool ok = list && f.call(f.data, count, in, list);
    recorder.deferred = outer;
    int results = ok ? zl_outputs_count(list) : -1;
    for (int i = 0; i < results && i < most; i++)
        if (!(out[i] = op_same(zl_outputs_get(list, i))))
            results = -1;
    zl_outputs_free(list);
    return results;
}

static bool record_call(zl_array holder, int count, const zl_array *in, int results, const zl_array *like,
                        zl_array *out) {
    OP_TEMP(zl_array, all, (int64_t)count + 1);
    struct array_spec *spec = all ? memory_zero(sizeof *spec * (size_t)results) : NULL;
    if (!spec)
        return false;
    for (int i = 0; i < count; i++)
        all[i] = in[i];
    all[count] = holder;
    for (int i = 0; i < results; i++)
        spec[i] = (struct array_spec){
            .dtype = (zl_dtype)like[i]->dtype, .ndim = like[i]->ndim, .dim = like[i]->dim};
    zl_array y = graph_call(recorder.deferred, count + 1, all, 0, NULL, results, spec);
    for (int i = 0; y && i < results; i++)
        out[i] = call_output(y->call, i);
    memory_free(spec);
    return y;
}

static bool record_held(zl_fn f, zl_array holder, int count, const zl_array *in, int results, zl_array *out) {
    int got = op_run_now(f, count, in, results, out);
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

bool op_record_deferred(const struct call *c, const zl_array *in, zl_array *out) {
    return record_held(op_deferred_function(c), in[c->inputs - 1], c->inputs - 1, in, c->outputs, out);
}

bool op_give_all(int count, const zl_array *list, zl_outputs *out) {
    for (int i = 0; i < count; i++)
        if (!zl_give(out, list[i]))
            return false;
    return true;
}
