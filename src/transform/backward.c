// backward.c - reverse mode: computes the cotangents of arrays from those of the results computed from them.

#include "transform/transform.h"

// The state of one backward walk. Cotangents are indexed by the number of their array.
struct back {
    const char *function;
    const struct walk *w;
    struct cotangent *cotangent;
};

static struct cotangent *cotangent_of(const struct back *b, zl_array x) {
    return &b->cotangent[walk_number(b->w, x)];
}

static bool through_each(const struct back *b, const struct call *c, const bool *wanted,
                         const zl_array *cotangent, zl_array *out) {
    for (int i = 0; i < c->inputs; i++) {
        if (!wanted[i])
            continue;
        if (!c->op->vjp)
            return error_false(ZL_ERROR_VALUE, "%s: %s has no derivative", b->function, c->op->name);
        out[i] = c->op->vjp(c, i, cotangent);
        if (!out[i] && zl_error())
            return false;
    }
    return true;
}

// Computes the cotangents of wanted inputs for which the rules of the op returned none, by differentiating
// the ops that it is composed of.
static bool through_composed(const struct call *c, const bool *wanted, const zl_array *cotangent,
                             zl_array *out) {
    OP_TEMP(zl_array, more, c->inputs);
    OP_TEMP(bool, rest, c->inputs);
    bool any = false, ok = more && rest;
    for (int i = 0; ok && i < c->inputs; i++)
        any |= rest[i] = wanted[i] && !out[i];
    if (!any || !(ok = composed_vjp(c, rest, cotangent, more)))
        return ok;
    for (int i = 0; i < c->inputs; i++)
        if (rest[i])
            out[i] = more[i];
    return true;
}

static bool through_rules(const struct back *b, const struct call *c, const bool *wanted,
                          const zl_array *cotangent, zl_array *out) {
    bool ok = (c->op->composed && !c->op->vjp) || through_each(b, c, wanted, cotangent, out);
    return ok && (!c->op->composed || through_composed(c, wanted, cotangent, out));
}

static bool check_positions(const struct call *c, const bool *wanted) {
    for (int i = 0; c->op->positions.first && i < c->inputs; i++)
        if (wanted[i] && op_is_position(c, i))
            return op_refuse_positions(c);
    return true;
}

// Computes the cotangents of a call's inputs, recorded on the stream of the call.
static bool through(const struct back *b, const struct call *c, const bool *wanted, const zl_array *cotangent,
                    zl_array *out) {
    zl_stream before = recorder.stream;
    recorder.stream = c->stream;
    bool ok = sized_is(c, c->in) ? sized_vjp(c, wanted, cotangent, out)
              : c->op->vjp_all   ? c->op->vjp_all(c, wanted, cotangent, out) &&
                                     (!c->op->composed || through_composed(c, wanted, cotangent, out))
                                 : through_rules(b, c, wanted, cotangent, out);
    for (int i = 0; ok && i < c->inputs; i++)
        ok = !out[i] || cotangent_add(cotangent_of(b, c->in[i]), out[i]);
    recorder.stream = before;
    return ok;
}

static bool pass(const struct back *b, const struct call *c) {
    if (cotangent_is_part(c))
        return cotangent_add_part(cotangent_of(b, c->in[0]), c, cotangent_of(b, call_first(c)));
    OP_TEMP(zl_array, list, c->inputs + c->outputs);
    OP_TEMP(bool, wanted, c->inputs);
    if (!list || !wanted)
        return false;
    zl_array *cotangent = list + c->inputs;
    bool any = false;
    for (int i = 0; i < c->outputs; i++) {
        struct cotangent *t = cotangent_of(b, call_output(c, i));
        if (!cotangent_join(t))
            return false;
        any |= (cotangent[i] = t->sum) != NULL;
    }
    for (int i = 0; i < c->inputs; i++) {
        list[i] = NULL;
        wanted[i] = i >= walk_from(b->w, c) && walk_depends(b->w, c->in[i]);
    }
    return !any || (check_positions(c, wanted) && through(b, c, wanted, cotangent, list));
}

static bool pass_all(const struct back *b, int results, const zl_array *result, const zl_array *cotangent) {
    for (int i = 0; i < results; i++)
        if (cotangent[i] && walk_depends(b->w, result[i]) &&
            !cotangent_add(cotangent_of(b, result[i]), cotangent[i]))
            return false;
    for (int i = b->w->calls - 1; i >= 0; i--)
        if (b->w->depends[b->w->first[i]] && !pass(b, b->w->call[i]))
            return false;
    return true;
}

bool backward(const char *function, struct walk *w, int results, const zl_array *result,
              const zl_array *cotangent, int sources, const zl_array *source, zl_array *out) {
    struct back b = {function, w, memory_zero(sizeof(struct cotangent) * (size_t)(w->arrays + 1))};
    bool ok = b.cotangent && pass_all(&b, results, result, cotangent);
    for (int i = 0; ok && i < sources; i++) {
        struct cotangent *t = cotangent_of(&b, source[i]);
        ok = cotangent_join(t);
        out[i] = t->sum;
    }
    cotangent_free(b.cotangent, w->arrays);
    return ok;
}
