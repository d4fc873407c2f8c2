// work_view.c - the cost of views, which copy nothing: making a transposed view, and querying an array's
// layout. Items are calls. Ops: transpose, is_contiguous, is_transposed.

#include "bench.h"

#include <string.h>

static volatile int asked; // keeps the compiler from dropping the queries

static bool prepare(struct bench_work *w) {
    const char *op = w->config->op;
    int64_t side = w->config->dims ? w->config->dim[0] : 1024;
    w->items = 1;
    if (strcmp(op, "transpose") && strcmp(op, "is_contiguous") && strcmp(op, "is_transposed"))
        return bench_fail(w, "view has no op '%s': there are transpose, is_contiguous and is_transposed", op);
    return bench_random(w, ZL_SHAPE(side, side));
}

static bool run(struct bench_work *w, int count) {
    const char *op = w->config->op;
    bool transposes = !strcmp(op, "transpose"), contiguous = !strcmp(op, "is_contiguous");
    enum { SCOPE = 256 }; // views lent to one scope
    for (int i = 0; i < count; i += SCOPE)
        ZL_SCOPE {
            int more = count - i < SCOPE ? count - i : SCOPE;
            for (int j = 0; j < more && transposes; j++)
                if (!zl_swapaxes(w->in[0], 0, 1))
                    return false;
            for (int j = 0; j < more && !transposes; j++)
                asked += contiguous ? zl_is_contiguous(w->in[0]) : zl_is_transposed(w->in[0]);
        }
    return true;
}

static bool verify(struct bench_work *w) {
    zl_array view = zl_swapaxes(w->in[0], 0, 1);
    bool right = view && zl_is_transposed(view) && !zl_is_transposed(w->in[0]) &&
                 zl_is_contiguous(w->in[0]) && zl_strides_of(view).dim[0] == 1;
    return right || bench_fail(w, "wrong result: the view does not lie as a transposed one does");
}

const struct bench_work_kind bench_work_view = {
    .name = "view",
    .unit = "calls",
    .summary = "views that copy nothing, and asking how an array lies",
    .prepare = prepare,
    .run = run,
    .verify = verify,
};
