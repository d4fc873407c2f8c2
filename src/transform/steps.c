// steps.c - zl_export_steps: reports the calls that a function records to a listener.

#include "transform/replay.h"

static const char function[] = "zl_export_steps";
static const char no_data[] =
    "zl_export_steps: an input of a function that is being exported has no data: what the "
    "function does with it is told for any, so it cannot be read";

// The state of one report: the arrays by their slots in the replay.
struct telling {
    const struct replay *r;
    const zl_listener *listener;
    zl_array *array;
    struct primitive_step memory;
};

static void place(struct telling *t, const zl_array *tracer) {
    const struct replay *r = t->r;
    for (int i = 0; i < r->inputs; i++)
        t->array[i] = tracer[i];
    for (int i = 0; i < r->kept_count; i++)
        t->array[r->kept[i].slot] = r->kept[i].array;
    for (int i = 0; i < r->steps; i++)
        for (int k = 0; k < r->step[i].call->outputs; k++)
            t->array[r->step[i].out + k] = call_output(r->step[i].call, k);
}

// Passes on the listener's answer; if it stopped without setting an error, sets one.
static bool heard(bool ok) {
    return ok || (zl_error() ? false : error_false(ZL_ERROR_VALUE, "%s: the listener ended it", function));
}

static bool tell_arrays(const struct telling *t) {
    const struct replay *r = t->r;
    OP_TEMP(zl_array, list, (int64_t)r->results + r->kept_count);
    if (!list)
        return false;
    for (int i = 0; i < r->results; i++)
        list[i] = t->array[r->result[i]];
    for (int i = 0; i < r->kept_count; i++)
        list[r->results + i] = r->kept[i].array;
    return heard(t->listener->begin(t->listener->data, r->inputs, t->array, r->results, list, r->kept_count,
                                    list + r->results));
}

static bool tell_step(struct telling *t, const struct step *s) {
    zl_step step;
    OP_TEMP(zl_array, input, s->call->inputs);
    if (!input || !primitive_show(s->call, &t->memory, &step))
        return false;
    for (int i = 0; i < s->call->inputs; i++)
        input[i] = t->array[t->r->in[s->in + i]];
    step.inputs = s->call->inputs;
    step.input = input;
    step.outputs = s->call->outputs;
    step.output = t->array + s->out;
    return heard(t->listener->step(t->listener->data, &step));
}

static bool tell(const struct replay *r, const zl_listener *listener, const zl_array *tracer) {
    struct telling t = {
        .r = r, .listener = listener, .array = memory_zero(sizeof(zl_array) * ((size_t)r->slots + 1))};
    bool ok = t.array;
    if (ok) {
        place(&t, tracer);
        ok = tell_arrays(&t);
    }
    for (int i = 0; ok && i < r->steps; i++)
        ok = tell_step(&t, &r->step[i]);
    memory_free(t.array);
    primitive_step_free(&t.memory);
    return ok;
}

static bool trace_and_tell(struct trace *t, zl_fn f, int count, const zl_array *in,
                           const zl_listener *listener) {
    OP_TEMP(zl_array, tracer, count);
    zl_outputs results = {0};
    bool ok = tracer;
    for (int i = 0; ok && i < count; i++)
        ok = (tracer[i] = trace_placeholder((zl_dtype)in[i]->dtype, in[i]->ndim, in[i]->dim, no_data));
    struct replay *r = ok && trace_run(t, f, count, tracer, &results)
                           ? replay_make(function, count, in, tracer, &results, false)
                           : NULL;
    ok = r && tell(r, listener, tracer);
    replay_release(r);
    outputs_clear(&results);
    return ok;
}

bool zl_export_steps(zl_fn f, int count, const zl_array *in, bool shapeless, const zl_listener *listener) {
    if (!trace_check(function, f, count, in))
        return false;
    if (!listener || !listener->begin || !listener->step)
        return error_false(ZL_ERROR_VALUE, "%s: no listener, or one without functions", function);
    struct trace t;
    struct recorder outer = recorder;
    trace_begin(&t, function);
    recorder.deferred = shapeless ? &op_deferred : NULL;
    recorder.exporting = true;
    bool ok = trace_and_tell(&t, f, count, in, listener);
    recorder.deferred = outer.deferred;
    recorder.exporting = outer.exporting;
    zl_scope_end(t.scope);
    trace_end(&t);
    return ok;
}
