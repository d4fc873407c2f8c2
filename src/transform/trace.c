// trace.c - runs a function on tracers, so that its calls are recorded.

#include "transform/transform.h"

bool trace_check(const char *function, zl_fn f, int count, const zl_array *in) {
    if (!f.call)
        return error_false(ZL_ERROR_VALUE, "%s: no function to call", function);
    return trace_check_list(function, count, in);
}

bool trace_check_list(const char *function, int count, const zl_array *in) {
    if (count < 0 || (count && !in))
        return error_false(ZL_ERROR_VALUE, "%s: %d arrays, but no list of them", function, count);
    for (int i = 0; i < count; i++)
        if (!in[i])
            return zl_error() ? false
                              : error_false(ZL_ERROR_VALUE, "%s: array %d of %d is NULL", function, i, count);
    return true;
}

void trace_begin(struct trace *t, const char *function) {
    *t = (struct trace){.function = function};
    if (zl_error())
        t->message = error_take(&t->kind);
    t->scope = zl_scope_begin();
}

void trace_end(struct trace *t) {
    if (t->kind == ZL_ERROR_NONE)
        return;
    zl_clear_error();
    error_put(t->kind, t->message);
    memory_free(t->message);
}

void trace_mark(zl_array a) {
    if (!array_is_tracer(a)) // else an enclosing transform already keeps its history, and for longer
        a->trace = (uint8_t)(recorder.trace_depth + 1);
}

// Returns the array that a stale tracer stands for, else x. If a function keeps tracers and passes them in
// again, they would otherwise form a chain that grows with every call.
static zl_array without_tracer(zl_array x) {
    bool stale = x->call && x->call->op == &op_depends && x->call->inputs == 1 && !x->call->detached &&
                 !array_is_tracer(x);
    return stale ? x->call->in[0] : x;
}

// Returns a tracer of x. A number stays weak, so that results have the same dtypes as without the transform.
static zl_array tracer_of(zl_array x) {
    if (array_is(x, ARRAY_WEAK))
        return graph_inline_from(&op_depends, x, (zl_dtype)x->dtype, *array_value(x), ARRAY_WEAK);
    return op_view(&op_depends, x, 0, NULL, x->ndim, x->dim, array_stride(x), op_offset(x));
}

bool trace_inputs(int count, const zl_array *in, zl_array *tracer) {
    for (int i = 0; i < count; i++) {
        if (!(tracer[i] = tracer_of(without_tracer(in[i]))))
            return false;
        trace_mark(tracer[i]);
    }
    return true;
}

zl_array trace_placeholder(zl_dtype dtype, int ndim, const int64_t *dim, const char *message) {
    zl_array a = graph_leaf(&(struct array_spec){.dtype = dtype, .ndim = ndim, .dim = dim}, NULL);
    if (!a)
        return NULL;
    trace_mark(a);
    a->failure = failure_new(ZL_ERROR_VALUE, message);
    atomic_store_explicit(&a->state, ARRAY_FAILED, memory_order_release);
    return a->failure->kind == ZL_ERROR_VALUE ? a : NULL; // else memory has run out
}

bool trace_call(const char *function, zl_fn f, int count, const zl_array *in, zl_outputs *out) {
    bool ok = f.call(f.data, count, in, out);
    if (zl_error())
        return false;
    return (ok && !out->failed) || error_false(ZL_ERROR_VALUE, "%s: the function %s", function,
                                               ok ? "gave NULL as a result" : "failed without saying why");
}

// The depth is per thread, and the function runs on this thread: other threads see the recorded arrays as
// ordinary ones.
bool trace_run(struct trace *t, zl_fn f, int count, const zl_array *tracer, zl_outputs *out) {
    if (recorder.trace_depth >= TRACE_DEEPEST)
        return error_false(ZL_ERROR_VALUE, "%s: transforms inside each other %d deep are too many",
                           t->function, recorder.trace_depth);
    recorder.trace_depth++;
    bool ok = trace_call(t->function, f, count, tracer, out);
    recorder.trace_depth--;
    return ok;
}
