// grad.c - reverse mode: from the cotangent of a loss back to the arrays that it was made from.
//
// Input: a graph that was not evaluated yet. Output: a graph that computes the gradients.

#include "op/op.h"
#include "transform/transform.h"

// One walk back. Maps are keyed by addresses.
struct backward {
    struct call **order; // inputs first
    int calls, order_cap;
    struct call **stack;
    int stack_cap;
    struct map seen;    // call: 1 met, 2 leads to one of wrt
    struct map targets; // arrays to differentiate by
    struct map grads;   // array: its cotangent
};

enum { MET = 1, LEADS = 2 };

static void *mark_of(const struct map *map, const void *address) {
    return map_get(map, &address, sizeof address);
}

static bool set_mark(struct map *map, const void *address, intptr_t value) {
    return map_set(map, &address, sizeof address, (void *)value);
}

static bool has_history(zl_array a) {
    return a->call && !a->call->detached;
}

static bool leads_to_target(const struct backward *b, zl_array a) {
    return mark_of(&b->targets, a) || (has_history(a) && (intptr_t)mark_of(&b->seen, a->call) == LEADS);
}

static bool append(struct backward *b, struct call *c) {
    intptr_t mark = MET;
    for (int i = 0; i < c->inputs; i++)
        if (leads_to_target(b, c->in[i]))
            mark = LEADS;
    if (!set_mark(&b->seen, c, mark) || !memory_grow(&b->order, &b->order_cap, b->calls + 1, sizeof *b->order))
        return false;
    b->order[b->calls++] = c;
    return true;
}

static bool push(struct backward *b, int *depth, struct call *c) {
    if (!memory_grow(&b->stack, &b->stack_cap, *depth + 1, sizeof *b->stack))
        return false;
    b->stack[(*depth)++] = c;
    return true;
}

static bool push_inputs(struct backward *b, int *depth, const struct call *c, bool *ready) {
    *ready = true;
    for (int i = 0; i < c->inputs; i++) {
        zl_array x = c->in[i];
        if (!has_history(x) || mark_of(&b->seen, x->call))
            continue;
        *ready = false;
        if (!push(b, depth, x->call))
            return false;
    }
    return true;
}

static bool list_calls(struct backward *b, struct call *root) {
    int depth = 0;
    if (!push(b, &depth, root))
        return false;
    while (depth) {
        struct call *c = b->stack[depth - 1];
        bool ready;
        if (mark_of(&b->seen, c)) {
            depth--;
            continue;
        }
        if (!push_inputs(b, &depth, c, &ready) || (ready && (depth--, !append(b, c))))
            return false;
    }
    return true;
}

static bool accumulate(struct backward *b, zl_array x, zl_array g) {
    zl_array old = mark_of(&b->grads, x);
    zl_array sum = old ? zl_add(old, g) : g;
    return sum && set_mark(&b->grads, x, (intptr_t)sum);
}

static bool go_back(struct backward *b, struct call *c) {
    zl_array cotangent[16];
    bool any = false;
    if (c->outputs > 16)
        return error_false(ZL_ERROR_VALUE, "zl_grad: %s has %d outputs: at most 16 can be differentiated", c->op->name, c->outputs);
    for (int i = 0; i < c->outputs; i++)
        any |= (cotangent[i] = mark_of(&b->grads, call_output(c, i))) != NULL;
    for (int i = 0; any && i < c->inputs; i++) {
        zl_array x = c->in[i];
        if (!leads_to_target(b, x) || !dtype_is_inexact((zl_dtype)x->dtype))
            continue;
        if (!c->op->vjp)
            return error_false(ZL_ERROR_VALUE, "zl_grad: %s has no derivative", c->op->name);
        zl_array g = c->op->vjp(c, i, cotangent);
        if (g ? !accumulate(b, x, g) : zl_error() != NULL)
            return false;
    }
    return true;
}

static bool all_back(struct backward *b, zl_array loss) {
    zl_array one = zl_ones_like(loss);
    if (!one || !set_mark(&b->grads, loss, (intptr_t)one))
        return false;
    for (int i = b->calls - 1; i >= 0; i--)
        if ((intptr_t)mark_of(&b->seen, b->order[i]) == LEADS && !go_back(b, b->order[i]))
            return false;
    return true;
}

static bool check(zl_array loss, int count, const zl_array *wrt, zl_array *grads) {
    if (count < 0 || (count && (!wrt || !grads)))
        return error_false(ZL_ERROR_VALUE, "zl_grad: %d arrays, but no list of them or of their gradients", count);
    for (int i = 0; i < count; i++) {
        if (!wrt[i])
            return zl_error() ? false : error_false(ZL_ERROR_VALUE, "zl_grad: array %d of %d is NULL", i, count);
        if (!dtype_is_inexact((zl_dtype)wrt[i]->dtype))
            return error_false(ZL_ERROR_DTYPE, "zl_grad: array %d is %s: only floating point arrays have gradients", i,
                               zl_dtype_name((zl_dtype)wrt[i]->dtype));
    }
    if (loss->size != 1 || !dtype_is_inexact((zl_dtype)loss->dtype))
        return error_false(ZL_ERROR_SHAPE, "zl_grad: the loss is %s of shape %s: one floating point number is needed",
                           zl_dtype_name((zl_dtype)loss->dtype), array_text(loss));
    if (!has_history(loss))
        return error_false(ZL_ERROR_STATE, "zl_grad: the loss has no history: take the gradient before evaluating");
    return true;
}

static bool differentiate(struct backward *b, zl_array loss, int count, const zl_array *wrt, zl_array *grads) {
    for (int i = 0; i < count; i++)
        if (!set_mark(&b->targets, wrt[i], MET))
            return false;
    if (!list_calls(b, loss->call) || !all_back(b, loss))
        return false;
    for (int i = 0; i < count; i++) {
        zl_array g = mark_of(&b->grads, wrt[i]);
        if (!(grads[i] = g ? g : zl_zeros_like(wrt[i])))
            return false;
    }
    return true;
}

bool zl_grad(zl_array loss, int count, const zl_array *wrt, zl_array *grads) {
    if (!loss)
        return false;
    if (!check(loss, count, wrt, grads))
        return false;
    struct backward b = {0};
    zl_scope scope = zl_scope_begin();
    bool ok = differentiate(&b, loss, count, wrt, grads);
    for (int i = 0; ok && i < count; i++)
        graph_lend_again(grads[i]);
    zl_scope_end(scope);
    for (int i = 0; ok && i < count; i++)
        ok = graph_lend(grads[i]) != NULL;
    for (int i = 0; !ok && i < count; i++)
        grads[i] = NULL;
    memory_free(b.order);
    memory_free(b.stack);
    map_free(&b.seen);
    map_free(&b.targets);
    map_free(&b.grads);
    return ok;
}
