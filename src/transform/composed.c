// composed.c - derivatives of ops that are defined by other ops (op->composed): those other ops are
// differentiated.

#include "transform/transform.h"

// A call, as the data of a function of its inputs.
struct composition {
    const struct call *c;
    bool *is_constant; // by output: it has no derivative
};

static bool call_composed(void *data, int count, const zl_array *in, zl_outputs *out) {
    const struct composition *p = data;
    const struct call *c = p->c;
    (void)count;
    OP_TEMP(zl_array, y, c->outputs);
    for (int i = 0; y && i < c->outputs; i++)
        y[i] = NULL;
    if (!y || !c->op->composed(c, in, y))
        return false;
    for (int i = 0; i < c->outputs; i++) {
        p->is_constant[i] = !y[i];
        if (!zl_give(out, y[i] ? y[i] : op_zeros_of(call_output(c, i))))
            return false;
    }
    return true;
}

static bool has_derivative(zl_array x) {
    return x->dtype != ZL_BOOL;
}

bool composed_vjp(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out) {
    OP_TEMP(zl_array, full, c->outputs);
    OP_TEMP(bool, flags, c->inputs + c->outputs);
    if (!full || !flags)
        return false;
    struct composition p = {c, flags + c->inputs};
    for (int i = 0; i < c->outputs; i++)
        if (!(full[i] = cotangent[i] ? cotangent[i] : op_zeros_of(call_output(c, i))))
            return false;
    for (int i = 0; i < c->inputs; i++)
        flags[i] = wanted[i] && has_derivative(c->in[i]);
    return vjp_wanted((zl_fn){.call = call_composed, .data = &p}, c->inputs, c->in, flags, c->outputs, full,
                      out);
}

ZL_AT_LOAD {
    op_composed_vjp = composed_vjp;
}

bool composed_jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    OP_TEMP(zl_array, some, c->inputs);
    OP_TEMP(bool, is_constant, c->outputs);
    zl_outputs *tangents = zl_outputs_new();
    struct composition p = {c, is_constant};
    for (int i = 0; some && i < c->inputs; i++)
        some[i] = has_derivative(c->in[i]) ? tangent[i] : NULL;
    bool ok = some && is_constant && tangents &&
              zl_jvp((zl_fn){.call = call_composed, .data = &p}, c->inputs, c->in, some, NULL, tangents);
    for (int i = 0; ok && i < c->outputs; i++)
        ok = is_constant[i] || (out[i] = op_same(zl_outputs_get(tangents, i)));
    zl_outputs_free(tangents);
    return ok;
}
