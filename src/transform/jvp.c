// jvp.c - forward mode: computes the tangents of results from those of inputs.

#include "transform/transform.h"

// Computes the tangents of a call's outputs, recorded on the stream of the call.
static bool through(const struct call *c, const zl_array *tangent, zl_array *out) {
    zl_stream before = recorder.stream;
    recorder.stream = c->stream;
    bool ok = sized_is(c, c->in) ? sized_jvp(c, tangent, out)
              : c->op->jvp       ? c->op->jvp(c, tangent, out)
              : c->op->composed  ? composed_jvp(c, tangent, out)
                                 : error_false(ZL_ERROR_VALUE, "zl_jvp: %s has no tangent", c->op->name);
    recorder.stream = before;
    return ok;
}

static bool check_positions(const struct walk *w, const struct call *c) {
    for (int i = 0; c->op->positions.first && i < c->inputs; i++)
        if (op_is_position(c, i) && walk_depends(w, c->in[i]))
            return op_refuse_positions(c);
    return true;
}

static bool push(const struct walk *w, const struct call *c, zl_array *tangents) {
    OP_TEMP(zl_array, in, c->inputs + c->outputs);
    if (!in)
        return false;
    zl_array *out = in + c->inputs;
    bool any = false;
    for (int i = 0; i < c->inputs; i++) {
        int number = walk_number(w, c->in[i]);
        any |= (in[i] = number < 0 ? NULL : tangents[number]) != NULL;
    }
    for (int i = 0; i < c->outputs; i++)
        out[i] = NULL;
    if (!check_positions(w, c) || (any && !through(c, in, out)))
        return false;
    for (int i = 0; i < c->outputs; i++)
        tangents[walk_number(w, call_output(c, i))] = out[i];
    return true;
}

// As in MLX, the zero tangent of a bool array is float32, since it is used in arithmetic.
static zl_array zero_tangent(zl_array y) {
    return zl_zeros((zl_shape){y->dim, y->ndim}, y->dtype == ZL_BOOL ? ZL_FLOAT32 : (zl_dtype)y->dtype);
}

static bool push_all(const struct walk *w, zl_array *tangents, const zl_outputs *values, zl_outputs *out) {
    for (int i = 0; i < w->calls; i++)
        if (w->depends[w->first[i]] && !push(w, w->call[i], tangents))
            return false;
    for (int i = 0; i < values->count; i++) {
        int number = walk_number(w, values->item[i]);
        zl_array t = number < 0 ? NULL : tangents[number];
        if (!zl_give(out, t ? t : zero_tangent(values->item[i])))
            return false;
    }
    return true;
}

static bool push_forward(int count, const zl_array *tracer, const zl_array *tangent, const zl_outputs *values,
                         zl_outputs *out) {
    struct walk w = {.kind = WALK_DERIVATIVE};
    zl_array *tangents = NULL;
    bool ok = walk_make(&w, count, tracer, values->count, values->item) &&
              (tangents = memory_zero(sizeof(zl_array) * (size_t)(w.arrays + 1)));
    for (int i = 0; ok && i < count; i++)
        if (tangent[i])
            ok = (tangents[walk_number(&w, tracer[i])] = zl_astype(tangent[i], (zl_dtype)tracer[i]->dtype));
    ok = ok && push_all(&w, tangents, values, out);
    memory_free(tangents);
    walk_free(&w);
    return ok;
}

static bool run(struct trace *t, zl_fn f, int count, const zl_array *in, const zl_array *tangent,
                zl_outputs *values, zl_outputs *tangents) {
    OP_TEMP(zl_array, tracer, count);
    return tracer && trace_inputs(count, in, tracer) && trace_run(t, f, count, tracer, values) &&
           push_forward(count, tracer, tangent, values, tangents);
}

static bool check(int count, const zl_array *in, const zl_array *tangent, zl_outputs *values,
                  zl_outputs *tangents) {
    if (!tangents || tangents->count || (values && values->count) || values == tangents)
        return error_false(ZL_ERROR_VALUE,
                           "zl_jvp: the lists for the results and their tangents must be two empty ones");
    if (count && !tangent)
        return error_false(ZL_ERROR_VALUE, "zl_jvp: %d inputs, but no tangents", count);
    for (int i = 0; i < count; i++)
        if (tangent[i] && !shape_equal(in[i]->ndim, in[i]->dim, tangent[i]->ndim, tangent[i]->dim))
            return error_false(ZL_ERROR_SHAPE,
                               "zl_jvp: input %d has shape %s, but its tangent %s: they must be equal", i,
                               array_text(in[i]), array_text(tangent[i]));
    return true;
}

bool zl_jvp(zl_fn f, int count, const zl_array *primals, const zl_array *tangent, zl_outputs *values,
            zl_outputs *tangents) {
    if (!trace_check("zl_jvp", f, count, primals) || !check(count, primals, tangent, values, tangents))
        return false;
    struct trace t;
    trace_begin(&t, "zl_jvp");
    zl_outputs inner = {0}, *y = values ? values : &inner;
    bool ok = run(&t, f, count, primals, tangent, y, tangents);
    zl_scope_end(t.scope);
    if (!ok) {
        outputs_clear(y);
        outputs_clear(tangents);
    }
    outputs_clear(&inner);
    trace_end(&t);
    return ok;
}
