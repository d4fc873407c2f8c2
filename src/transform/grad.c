// grad.c - zl_grad: gradients of a graph that was recorded without a transform and is not evaluated yet.

#include "transform/transform.h"

// Returns whether the loss has a graph to differentiate. A loss that is itself one of the arrays needs none.
static bool has_history(zl_array loss, int count, const zl_array *wrt) {
    bool is_given = false;
    for (int i = 0; !is_given && i < count; i++)
        is_given = wrt[i] == loss;
    return is_given || (loss->call && !loss->call->detached);
}

static bool check(zl_array loss, int count, const zl_array *wrt, zl_array *grads) {
    if (count < 0 || (count && (!wrt || !grads)))
        return error_false(ZL_ERROR_VALUE, "zl_grad: %d arrays, but no list of them or of their gradients",
                           count);
    for (int i = 0; i < count; i++) {
        if (!wrt[i])
            return zl_error() ? false
                              : error_false(ZL_ERROR_VALUE, "zl_grad: array %d of %d is NULL", i, count);
        if (!dtype_is_inexact((zl_dtype)wrt[i]->dtype))
            return error_false(ZL_ERROR_DTYPE,
                               "zl_grad: array %d is %s: only floating point arrays have gradients", i,
                               zl_dtype_name((zl_dtype)wrt[i]->dtype));
    }
    if (loss->size != 1 || !dtype_is_inexact((zl_dtype)loss->dtype))
        return error_false(ZL_ERROR_SHAPE,
                           "zl_grad: the loss is %s of shape %s: one floating point number is needed",
                           zl_dtype_name((zl_dtype)loss->dtype), array_text(loss));
    if (!has_history(loss, count, wrt))
        return error_false(ZL_ERROR_STATE,
                           "zl_grad: the loss has no history: take the gradient before evaluating");
    return true;
}

static bool differentiate(zl_array loss, int count, const zl_array *wrt, zl_array *grads) {
    struct walk w = {.kind = WALK_HISTORY};
    zl_array one = zl_ones_like(loss, ZL_DTYPE_COUNT);
    bool ok = one && walk_make(&w, count, wrt, 1, &loss) &&
              backward("zl_grad", &w, 1, &loss, &one, count, wrt, grads);
    for (int i = 0; ok && i < count; i++)
        ok = grads[i] || (grads[i] = zl_zeros_like(wrt[i], ZL_DTYPE_COUNT));
    walk_free(&w);
    return ok;
}

bool zl_grad(zl_array loss, int count, const zl_array *wrt, zl_array *grads) {
    if (!loss || !check(loss, count, wrt, grads))
        return false;
    struct trace t;
    trace_begin(&t, "zl_grad");
    bool ok = differentiate(loss, count, wrt, grads);
    ok = outputs_leave(t.scope, ok, count, grads);
    trace_end(&t);
    return ok;
}
