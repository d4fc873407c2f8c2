// work_latency.c - the cost of starting: one tiny op per evaluation (op launch), or a thousand dependent ones
// in one evaluation (op chain).

#include "bench.h"

#include <string.h>

enum { CHAIN = 1000 };

static bool prepare(struct bench_work *w) {
    bool chain = !strcmp(w->config->op, "chain");
    if (!chain && strcmp(w->config->op, "launch"))
        return bench_fail(w, "latency has no op '%s': there are launch and chain", w->config->op);
    w->items = chain ? CHAIN : 1;
    return bench_random(w, ZL_SHAPE(16));
}

static zl_array record(struct bench_work *w) {
    zl_array y = w->in[0];
    for (int i = 0; i < (int)w->items; i++)
        y = zl_add(y, w->in[0]);
    return y;
}

static bool verify(struct bench_work *w) {
    double x = zl_item(zl_sum(w->in[0])), y = zl_item(zl_sum(record(w)));
    bool right = fabs(y - (w->items + 1) * x) <= 0.01 * fabs((w->items + 1) * x) + 1e-3 * w->items;
    return right || bench_fail(w, "wrong result: %g additions of %g give %g", w->items, x, y);
}

// Evaluates one by one and waits, also on an asynchronous device, since that latency is what is measured.
static bool run(struct bench_work *w, int count) {
    bool done = true;
    for (int i = 0; i < count && done; i++)
        ZL_SCOPE {
            done = zl_eval(record(w));
        }
    return done && zl_synchronize();
}

const struct bench_work_kind bench_work_latency = {
    .name = "latency",
    .unit = "calls",
    .summary = "one tiny op, or a thousand in one evaluation",
    .prepare = prepare,
    .run = run,
    .verify = verify,
};
