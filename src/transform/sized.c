// sized.c - derivative rules of ops that depend on sizes, in a function that is traced for replay with other
// shapes.
//
// A rule would record the sizes of the trace as constants. So the rule is deferred (op/defer.c): a replay
// records the call again on arrays of the actual sizes, and applies the rule to that call.

#include "transform/transform.h"

// A call that is recorded again on other inputs. It is held as replays hold calls, because evaluating it
// elsewhere releases its inputs.
struct repeated {
    atomic_int refs;
    struct call *c;
    zl_array first;
    int inputs;
    zl_array in[];
};

static void retain_repeated(void *data) {
    atomic_fetch_add(&((struct repeated *)data)->refs, 1);
}

static void release_repeated(void *data) {
    struct repeated *r = data;
    if (atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    for (int i = 0; i < r->inputs; i++)
        zl_release(r->in[i]);
    zl_release(r->first);
    memory_free(r);
}

static bool call_repeated(void *data, int count, const zl_array *in, zl_outputs *out) {
    const struct repeated *r = data;
    (void)count;
    OP_TEMP(zl_array, y, r->c->outputs);
    return y && r->c->op->record(r->c, in, y) && op_give_all(r->c->outputs, y, out);
}

static struct repeated *repeat(struct call *c) {
    struct repeated *r = memory_alloc(sizeof *r + sizeof(zl_array) * c->inputs);
    if (!r || (c->outputs > 1 && !graph_lend_sibling(c, 0))) {
        memory_free(r);
        return NULL;
    }
    atomic_init(&r->refs, 1);
    r->c = c;
    r->first = zl_retain(call_first(c));
    r->inputs = c->inputs;
    for (int i = 0; i < c->inputs; i++)
        r->in[i] = zl_retain(c->in[i]);
    return r;
}

static zl_fn function_of(struct repeated *r) {
    return (zl_fn){call_repeated, r, retain_repeated, release_repeated};
}

// The rules of elementwise ops, casts, copies, sums, extremes and the ops of follow.c record no sizes, so
// they are not deferred.
bool sized_is(const struct call *c, const zl_array *in) {
    const struct op *op = c->op;
    bool follows = op->kind == OP_ELEMENTWISE || op->kind == OP_CAST || op->kind == OP_COPY ||
                   (op->kind == OP_REDUCE && op != &op_reduce[REDUCE_PROD]) || op == &op_custom ||
                   op == &op_depends || op == &op_stop_gradient || op == &op_deferred ||
                   op == &op_stretch_with || op == &op_element_count || op_is_product(op);
    return !follows && op_defers(c->inputs, in);
}

bool sized_vjp(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out) {
    struct repeated *r = repeat((struct call *)(uintptr_t)c);
    bool ok = r && deferred_vjp(function_of(r), c->inputs, c->in, c->outputs, wanted, cotangent, out);
    if (r)
        release_repeated(r);
    return ok;
}

bool sized_jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    struct repeated *r = repeat((struct call *)(uintptr_t)c);
    bool ok = r && deferred_jvp(function_of(r), c->inputs, c->in, c->outputs, tangent, out);
    if (r)
        release_repeated(r);
    return ok;
}

bool sized_vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    struct repeated *r = repeat((struct call *)(uintptr_t)c);
    bool ok = r && deferred_vmap(function_of(r), c->inputs, in, c->outputs, axis, out, out_axis);
    if (r)
        release_repeated(r);
    return ok;
}
