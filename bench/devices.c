// devices.c - what the host's side of a device costs: microseconds of a launch, copies, products one by one,
// an epoch of a small network; and large products. device_kernels.c has the kernels.
//
//   build/bench/devices NAME [--quick|--host]     NAME: of `zellige devices`; --host: no large products

#include "bench.h"

#include "zellige_ops.h"

enum { ROUNDS = 10, CHAIN = 100 };

static zl_array a, b;

static zl_array case_matmul(void) {
    return zl_matmul(a, b);
}

// Seconds of the best of several evaluations, each waited for.
static double best_of(zl_array (*run)(void), int rounds) {
    double best = 1e9;
    for (int i = 0; i < rounds; i++)
        ZL_SCOPE {
            zl_array y = run();
            double begin = bench_now();
            if (!zl_eval(y))
                fprintf(stderr, "%s\n", zl_error()), exit(1);
            double took = bench_now() - begin;
            best = took < best ? took : best;
        }
    return best;
}

static void run_matmul(zl_dtype dtype, int size) {
    a = zl_retain(zl_astype(
        zl_random_uniform(zl_scalar(0), zl_scalar(1), ZL_SHAPE(size, size), ZL_FLOAT32, NULL), dtype));
    b = zl_retain(zl_astype(
        zl_random_uniform(zl_scalar(0), zl_scalar(1), ZL_SHAPE(size, size), ZL_FLOAT32, NULL), dtype));
    zl_eval_all(2, (zl_array[]){a, b});
    best_of(case_matmul, 1);
    double seconds = best_of(case_matmul, 3);
    printf("%-16s %-9s %8.3f ms %9.1f GFLOP/s at %d\n", "matmul", zl_dtype_name(dtype), seconds * 1e3,
           2.0 * size * size * size / seconds * 1e-9, size);
    zl_release(a);
    zl_release(b);
}

// A hundred launches, each reading what the one before it wrote.
static zl_array chain(void) {
    zl_array x = a;
    for (int i = 0; i < CHAIN; i++)
        x = i % 2 ? zl_sin(x) : zl_add(x, zl_scalar(i));
    return x;
}

static void run_launches(void) {
    a = zl_retain(zl_zeros(ZL_SHAPE(64), ZL_FLOAT32));
    zl_eval(a);
    zl_set_compile_mode(ZL_COMPILE_NO_FUSE);
    best_of(chain, 2);
    double seconds = best_of(chain, 5 * ROUNDS) / CHAIN;
    printf("%-16s %-9s %8.2f us each (bar 2.5)\n", "tiny launches", "float32", seconds * 1e6);
    zl_set_compile_mode(ZL_COMPILE_ENABLED);
    zl_release(a);
}

static void run_copies(void) {
    enum { BYTES = 4 << 20 };
    static float data[BYTES / 4], back[BYTES / 4];
    double up = 1e9, down = 1e9;
    for (int i = 0; i < ROUNDS; i++)
        ZL_SCOPE {
            zl_array x = zl_retain(zl_from_f32(data, ZL_SHAPE(BYTES / 4))), y = zl_retain(zl_negative(x));
            double begin = bench_now();
            zl_eval(y);
            double middle = bench_now();
            zl_copy_to(y, back, BYTES);
            double end = bench_now();
            up = middle - begin < up ? middle - begin : up;
            down = end - middle < down ? end - middle : down;
            zl_release(x);
            zl_release(y);
        }
    printf("%-16s %-9s %8.2f GB/s up with a kernel (bar 10), %.2f GB/s down (bar 10)\n", "copies of 4 MB",
           "float32", BYTES / up * 1e-9, BYTES / down * 1e-9);
}

// Products that are asked for one by one, none waited for but the last.
static void run_products(int size, double bar) {
    enum { COUNT = 200 };
    double best = 1e9;
    zl_array kept[COUNT];
    a = zl_retain(
        zl_astype(zl_random_normal(ZL_SHAPE(size, size), ZL_FLOAT32, NULL, NULL, NULL), ZL_BFLOAT16));
    zl_eval(a);
    for (int round = 0; round < ROUNDS; round++) {
        zl_synchronize();
        double begin = bench_now();
        for (int i = 0; i < COUNT; i++)
            ZL_SCOPE {
                kept[i] = zl_retain(zl_matmul(a, a));
                zl_async_eval(kept[i]);
            }
        zl_synchronize();
        double took = (bench_now() - begin) / COUNT;
        best = took < best ? took : best;
        for (int i = 0; i < COUNT; i++)
            zl_release(kept[i]);
    }
    printf("%-16s %-9s %8.2f us each, %.1f TFLOP/s at %d (bar %.1f)\n", "one by one", "bfloat16", best * 1e6,
           2.0 * size * size * size / best * 1e-12, size, bar);
    zl_release(a);
}

// A network of 784-128-10 -----------------------------------------------------------------------------------

enum { PIXELS = 784, HIDDEN = 128, CLASSES = 10, BATCH = 256, PARAMETERS = 4, INPUTS = 2 * PARAMETERS + 2 };

// in: parameters, then x and labels. The mean of -log of the probability that is given to the label.
static zl_array loss_of(const zl_array *in) {
    zl_array x = in[PARAMETERS], label = in[PARAMETERS + 1];
    zl_array hidden = zl_maximum(zl_add(zl_matmul(x, in[0]), in[1]), zl_scalar(0));
    zl_array logits = zl_add(zl_matmul(hidden, in[2]), in[3]);
    zl_array one_hot =
        zl_equal(zl_expand_dims(label, (zl_axes){(const int[]){1}, 1}), zl_arange(0, CLASSES, 1, ZL_INT32));
    zl_array chosen = zl_sum_axis(zl_multiply(zl_astype(one_hot, ZL_FLOAT32), logits), -1, false);
    return zl_mean(zl_subtract(zl_logsumexp_axis(logits, -1, false), chosen));
}

// in: parameters, velocities, x, labels; gives the new ones of both, and the loss. SGD with momentum.
static bool train_step(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array wrt[PARAMETERS + 2], gradient[PARAMETERS];
    (void)data, (void)count;
    for (int i = 0; i < PARAMETERS; i++)
        wrt[i] = in[i];
    wrt[PARAMETERS] = in[INPUTS - 2];
    wrt[PARAMETERS + 1] = in[INPUTS - 1];
    zl_array loss = loss_of(wrt), velocity[PARAMETERS];
    bool done = zl_grad(loss, PARAMETERS, wrt, gradient);
    for (int i = 0; done && i < PARAMETERS; i++) {
        velocity[i] = zl_add(zl_multiply(zl_scalar(0.9), in[PARAMETERS + i]), gradient[i]);
        done = zl_give(out, zl_subtract(in[i], zl_multiply(zl_scalar(0.05), velocity[i])));
    }
    for (int i = 0; done && i < PARAMETERS; i++)
        done = zl_give(out, velocity[i]);
    return done && zl_give(out, loss);
}

static bool step_on(zl_compiled step, zl_array *state, zl_array x, zl_array label, int64_t at) {
    bool done = false;
    ZL_SCOPE {
        zl_array in[INPUTS], next[2 * PARAMETERS + 1];
        zl_outputs *out = zl_outputs_new();
        for (int i = 0; i < 2 * PARAMETERS; i++)
            in[i] = state[i];
        in[INPUTS - 2] = zl_slice(x, ZL_SHAPE(at, 0), ZL_SHAPE(at + BATCH, PIXELS), ZL_SHAPE(1, 1));
        in[INPUTS - 1] = zl_slice(label, ZL_SHAPE(at), ZL_SHAPE(at + BATCH), ZL_SHAPE(1));
        done = zl_compiled_call(step, NULL, 0, INPUTS, in, out);
        for (int i = 0; done && i <= 2 * PARAMETERS; i++)
            next[i] = zl_outputs_get(out, i);
        done = done && zl_async_eval_all(2 * PARAMETERS + 1, next);
        for (int i = 0; done && i <= 2 * PARAMETERS; i++) {
            zl_release(state[i]);
            state[i] = zl_retain(next[i]);
        }
        zl_outputs_free(out);
    }
    return done;
}

static void run_network(int rows) {
    zl_random_seed(1); // so that the loss tells whether two runs computed the same
    zl_array state[2 * PARAMETERS + 1] = {NULL};
    const zl_shape shapes[] = {ZL_SHAPE(PIXELS, HIDDEN), ZL_SHAPE(HIDDEN), ZL_SHAPE(HIDDEN, CLASSES),
                               ZL_SHAPE(CLASSES)};
    zl_compiled step = zl_compile((zl_fn){.call = train_step}, false);
    for (int i = 0; i < PARAMETERS; i++) {
        zl_array w = zl_random_normal(shapes[i], ZL_FLOAT32, NULL, NULL, NULL);
        state[i] = zl_retain(zl_multiply(w, zl_scalar(i % 2 ? 0 : 0.05)));
        state[PARAMETERS + i] = zl_retain(zl_zeros(shapes[i], ZL_FLOAT32));
    }
    zl_array x =
        zl_retain(zl_random_uniform(zl_scalar(0), zl_scalar(1), ZL_SHAPE(rows, PIXELS), ZL_FLOAT32, NULL));
    zl_array label = zl_retain(zl_astype(
        zl_multiply(zl_slice(x, ZL_SHAPE(0, 0), ZL_SHAPE(rows, 1), ZL_SHAPE(1, 1)), zl_scalar(CLASSES)),
        ZL_INT32));
    label = zl_retain(zl_reshape(label, ZL_SHAPE(rows)));
    zl_eval_all(2 * PARAMETERS, state);
    zl_eval_all(2, (zl_array[]){x, label});
    double best = 1e9, loss = 0;
    int64_t launches = 0, graphs = 0;
    for (int epoch = 0; epoch < 5; epoch++) {
        int64_t before = zl_counter("launches"), graphs_before = zl_counter("graphs");
        double begin = bench_now();
        for (int64_t at = 0; at + BATCH <= rows; at += BATCH)
            if (!step_on(step, state, x, label, at))
                fprintf(stderr, "%s\n", zl_error()), exit(1);
        loss = zl_item(state[2 * PARAMETERS]);
        double took = bench_now() - begin;
        best = took < best ? took : best;
        launches = (zl_counter("launches") - before) / (rows / BATCH);
        graphs = (zl_counter("graphs") - graphs_before) / (rows / BATCH);
    }
    printf("%-16s %-9s %8.2f ms an epoch of %d rows (bar 33, goal 15), loss %.3f, %lld launches per step, "
           "%lld graphs\n",
           "784-128-10", "float32", best * 1e3, rows, loss, (long long)launches, (long long)graphs);
    for (int i = 0; i <= 2 * PARAMETERS; i++)
        zl_release(state[i]);
    zl_release(x);
    zl_release(label);
    zl_compiled_release(step);
}

int main(int argc, char **argv) {
    if (argc < 2 || !zl_use_device(argv[1]))
        return fprintf(stderr, "usage: %s DEVICE [--quick|--host]\n%s\n", argv[0],
                       zl_error() ? zl_error() : ""),
               1;
    bool quick = argc > 2 && !strcmp(argv[2], "--quick"), host = argc > 2 && !strcmp(argv[2], "--host");
    if (!host) {
        run_matmul(ZL_FLOAT32, quick ? 256 : 4096);
        run_matmul(ZL_BFLOAT16, quick ? 256 : 4096);
    }
    run_launches();
    run_copies();
    run_products(256, 1.5 * 2.5);
    run_products(512, 1.5 * 19.5);
    run_products(1024, 1.5 * 158);
    run_network(quick ? 60 * BATCH : 60000);
    printf("fallbacks %lld, launches %lld\n", (long long)zl_counter("fallbacks"),
           (long long)zl_counter("launches"));
    return 0;
}
