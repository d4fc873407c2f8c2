// vjp.c - reverse mode of functions: zl_vjp, and gradients of a loss by zl_value_and_grad.

#include "transform/transform.h"

// A request: a function, its inputs, and the inputs whose cotangents are wanted.
struct request {
    zl_fn f;
    int count; // number of inputs
    const zl_array *in;
    int wanted;
    const int *at; // positions of the wanted inputs; NULL: all, in order
    int cotangents;
    const zl_array *cotangent; // of the results; NULL: 1 for the first result, which must be a scalar
    bool skips;                // results of zl_stop_gradient() have no cotangent
};

static bool is_constant(zl_array y) {
    return y->call && y->call->op == &op_stop_gradient;
}

static bool check_cotangent(const char *function, int index, zl_array y, zl_array g) {
    if (shape_equal(y->ndim, y->dim, g->ndim, g->dim))
        return true;
    return error_false(ZL_ERROR_SHAPE, "%s: result %d has shape %s, but its cotangent %s: they must be equal",
                       function, index, array_text(y), array_text(g));
}

// Writes the cotangent of each result, cast to the dtype of the result.
static bool match_cotangents(const char *function, const struct request *r, const zl_outputs *y,
                             zl_array *out) {
    int next = 0;
    for (int i = 0; i < y->count; i++) {
        out[i] = NULL;
        if (r->skips && is_constant(y->item[i]))
            continue;
        if (next == r->cotangents)
            return error_false(ZL_ERROR_VALUE, "%s: %d results, but %d cotangents: each result needs one",
                               function, y->count, r->cotangents);
        zl_array g = r->cotangent[next++];
        if (g && (!check_cotangent(function, i, y->item[i], g) ||
                  !(out[i] = zl_astype(g, (zl_dtype)y->item[i]->dtype))))
            return false;
    }
    return true;
}

// Writes the cotangent 1 for the first result, the loss, and none for the others.
static bool start_from_loss(const char *function, const zl_outputs *y, zl_array *out) {
    if (y->count == 0)
        return error_false(ZL_ERROR_VALUE, "%s: the function gave no results: the first must be the loss",
                           function);
    for (int i = 1; i < y->count; i++)
        out[i] = NULL;
    zl_array loss = y->item[0];
    if (loss->ndim)
        return error_false(ZL_ERROR_SHAPE, "%s: the loss has shape %s: the function must give a scalar first",
                           function, array_text(loss));
    return (out[0] = zl_ones_like(loss, ZL_DTYPE_COUNT));
}

static bool pull_back(const struct request *r, const char *function, const zl_array *tracer,
                      const zl_outputs *y, zl_array *grads) {
    OP_TEMP(zl_array, source, r->wanted);
    OP_TEMP(zl_array, cotangent, y->count);
    if (!source || !cotangent)
        return false;
    for (int i = 0; i < r->wanted; i++)
        source[i] = tracer[r->at ? r->at[i] : i];
    struct walk w = {.kind = WALK_DERIVATIVE};
    bool ok = (r->cotangent ? match_cotangents(function, r, y, cotangent)
                            : start_from_loss(function, y, cotangent)) &&
              walk_make(&w, r->wanted, source, y->count, y->item) &&
              backward(function, &w, y->count, y->item, cotangent, r->wanted, source, grads);
    for (int i = 0; ok && i < r->wanted; i++)
        ok = grads[i] || (grads[i] = zl_zeros_like(source[i], ZL_DTYPE_COUNT));
    walk_free(&w);
    return ok;
}

static bool run(struct trace *t, const struct request *r, zl_outputs *values, zl_array *grads) {
    OP_TEMP(zl_array, tracer, r->count);
    return tracer && trace_inputs(r->count, r->in, tracer) && trace_run(t, r->f, r->count, tracer, values) &&
           pull_back(r, t->function, tracer, values, grads);
}

// As in MLX, results other than the loss are constants to an enclosing transform.
static bool stop_others(zl_outputs *values) {
    for (int i = 1; recorder.trace_depth && i < values->count; i++) {
        zl_array y = zl_stop_gradient(values->item[i]);
        if (!y)
            return false;
        zl_release(values->item[i]);
        values->item[i] = zl_retain(y);
    }
    return true;
}

static bool reverse(const char *function, const struct request *r, zl_outputs *values, zl_array *grads) {
    struct trace t;
    trace_begin(&t, function);
    zl_outputs inner = {0}, *y = values ? values : &inner;
    bool ok = run(&t, r, y, grads) && (r->cotangent || stop_others(y));
    ok = outputs_leave(t.scope, ok, r->wanted, grads);
    if (!ok)
        outputs_clear(y);
    outputs_clear(&inner);
    trace_end(&t);
    return ok;
}

static bool check_empty(const char *function, const zl_outputs *values) {
    return !values || !values->count ||
           error_false(ZL_ERROR_VALUE, "%s: the list for the results has %d arrays already: it must be empty",
                       function, values->count);
}

static bool check_room(const char *function, int count, zl_array *grads) {
    return grads || !count || error_false(ZL_ERROR_VALUE, "%s: no room for %d gradients", function, count);
}

bool zl_vjp(zl_fn f, int count, const zl_array *primals, int cotangents, const zl_array *cotangent,
            zl_outputs *values, zl_array *grads) {
    static const char function[] = "zl_vjp";
    const zl_array none = NULL;
    if (!trace_check(function, f, count, primals) || !trace_check(function, f, cotangents, cotangent) ||
        !check_empty(function, values) || !check_room(function, count, grads))
        return false;
    struct request r = {f, count, primals, count, NULL, cotangents, cotangents ? cotangent : &none, true};
    return reverse(function, &r, values, grads);
}

bool vjp_give(const char *function, zl_fn f, int count, const zl_array *in, int results,
              const zl_array *cotangent, zl_outputs *out) {
    OP_TEMP(zl_array, grads, count);
    OP_TEMP(int, at, count);
    int wanted = 0, next = 0;
    for (int i = 0; at && i < count; i++)
        if (dtype_is_inexact((zl_dtype)in[i]->dtype))
            at[wanted++] = i;
    struct request r = {f, count, in, wanted, at, results, cotangent, false};
    bool ok = grads && at && reverse(function, &r, NULL, grads);
    for (int i = 0; ok && i < count; i++)
        ok = zl_give(out,
                     next < wanted && at[next] == i ? grads[next++] : zl_zeros_like(in[i], ZL_DTYPE_COUNT));
    return ok;
}

bool vjp_wanted(zl_fn f, int count, const zl_array *in, const bool *wanted, int results,
                const zl_array *cotangent, zl_array *out) {
    OP_TEMP(zl_array, grads, count);
    OP_TEMP(int, at, count);
    int some = 0;
    for (int i = 0; at && i < count; i++)
        if (wanted[i])
            at[some++] = i;
    struct request r = {f, count, in, some, at, results, cotangent, false};
    bool ok = grads && at && reverse("zl_vjp", &r, NULL, grads);
    for (int i = 0, next = 0; ok && i < count; i++)
        out[i] = wanted[i] ? grads[next++] : NULL;
    return ok;
}

static bool check_argnums(const char *function, int count, int argnums, const int *argnum) {
    if (argnums < 1 || !argnum)
        return error_false(ZL_ERROR_VALUE, "%s: %d arguments to differentiate by: at least one is needed",
                           function, argnum ? argnums : 0);
    for (int i = 0; i < argnums; i++) {
        if (argnum[i] < 0 || argnum[i] >= count)
            return error_false(ZL_ERROR_VALUE, "%s: no argument %d: there are %d", function, argnum[i],
                               count);
        for (int k = 0; k < i; k++)
            if (argnum[k] == argnum[i])
                return error_false(ZL_ERROR_VALUE, "%s: argument %d is given twice", function, argnum[i]);
    }
    return true;
}

bool zl_value_and_grad(zl_fn f, int count, const zl_array *in, int argnums, const int *argnum,
                       zl_outputs *values, zl_array *grads) {
    static const char function[] = "zl_value_and_grad";
    if (!trace_check(function, f, count, in) || !check_argnums(function, count, argnums, argnum) ||
        !check_empty(function, values) || !check_room(function, argnums, grads))
        return false;
    struct request r = {.f = f, .count = count, .in = in, .wanted = argnums, .at = argnum};
    return reverse(function, &r, values, grads);
}
