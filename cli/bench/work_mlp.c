// work_mlp.c - one training step of a perceptron 784-width-10 on a batch, sizes (batch, width), measured in
// images per second: forward, cross entropy, gradients, SGD.

#include "bench.h"

enum { PIXELS = 784, CLASSES = 10, PARAMETERS = 4 };
enum { X = 0, LABELS = 1, FIRST = 2 }; // indices of inputs: x, labels, then w1, b1, w2, b2

static bool prepare(struct bench_work *w) {
    const struct bench_config *c = w->config;
    if (c->dims != 2 || c->dtype == BENCH_INT8)
        return bench_fail(w, "mlp takes a batch and a width, of floats");
    int64_t batch = c->dim[0], width = c->dim[1];
    double size = (double)zl_dtype_size(bench_dtype_of_arrays(c->dtype));
    w->items = (double)batch;
    w->flops = 2.0 * (double)batch * ((double)PIXELS * (double)width * 2 + (double)width * CLASSES * 3);
    w->bytes = size * ((double)batch * PIXELS + 3.0 * (double)width * (PIXELS + CLASSES));
    bool done =
        bench_random(w, ZL_SHAPE(batch, PIXELS)) &&
        bench_hold(w, zl_random_randint(zl_scalar(0), zl_scalar(CLASSES), ZL_SHAPE(batch), ZL_INT32, NULL)) &&
        bench_random(w, ZL_SHAPE(PIXELS, width)) && bench_random(w, ZL_SHAPE(width)) &&
        bench_random(w, ZL_SHAPE(width, CLASSES)) && bench_random(w, ZL_SHAPE(CLASSES));
    return done;
}

static zl_array loss_of(struct bench_work *w, const zl_array *parameter) {
    zl_array scaled = zl_multiply(parameter[0], zl_scalar(1.0 / 28));
    zl_array hidden = zl_maximum(zl_add(zl_matmul(w->in[X], scaled), parameter[1]), zl_scalar(0));
    zl_array logits = zl_add(zl_matmul(hidden, parameter[2]), parameter[3]);
    return zl_mean(zl_fast_cross_entropy(logits, w->in[LABELS]));
}

// Computes new parameters from the old ones.
static bool step(struct bench_work *w, zl_array *next, zl_array *loss) {
    zl_array grads[PARAMETERS];
    *loss = loss_of(w, w->in + FIRST);
    if (!*loss || !zl_grad(*loss, PARAMETERS, w->in + FIRST, grads))
        return false;
    for (int i = 0; i < PARAMETERS; i++)
        next[i] = zl_subtract(w->in[FIRST + i], zl_multiply(zl_scalar(0.01), grads[i]));
    return true;
}

static bool run(struct bench_work *w, int count) {
    bool done = true;
    for (int i = 0; i < count && done; i++)
        ZL_SCOPE {
            zl_array next[PARAMETERS], loss;
            done = step(w, next, &loss) && (w->is_async ? zl_async_eval_all : zl_eval_all)(PARAMETERS, next);
        }
    return (!w->is_async || zl_synchronize()) && done;
}

// Verifies that a step reduces the loss.
static bool verify(struct bench_work *w) {
    zl_array next[PARAMETERS], loss;
    if (!step(w, next, &loss))
        return false;
    for (int i = 0; i < PARAMETERS; i++)
        if (!zl_eval(next[i] ? zl_retain(next[i]) : NULL))
            return false;
    double before = zl_item(loss_of(w, w->in + FIRST)), after = zl_item(loss_of(w, next));
    for (int i = 0; i < PARAMETERS; i++)
        zl_release(next[i]);
    return after < before || w->zeros ||
           bench_fail(w, "wrong result: a step takes the loss from %g to %g", before, after);
}

const struct bench_work_kind bench_work_mlp = {
    .name = "mlp",
    .unit = "images",
    .summary = "a step of training a perceptron",
    .prepare = prepare,
    .run = run,
    .verify = verify,
};
