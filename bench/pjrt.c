// pjrt.c - the device pjrt's side of bench/pjrt.py: reads a case per line, prints how many seconds one call
// of it took.
//
//     gemm bfloat16 M K N | tiny | mlp | up | down

#include "zellige.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "pjrt: %s: %s\n", what, zl_error() ? zl_error() : "it failed");
    exit(1);
}

static void replace(zl_array *owned, zl_array by) {
    zl_array old = *owned;
    *owned = zl_retain(by);
    zl_release(old);
}

static zl_array normal(zl_shape shape, zl_dtype dtype, double scale) {
    zl_array x = zl_random_normal(shape, dtype, zl_scalar(0), zl_scalar(scale), NULL);
    if (!x || !zl_eval(x))
        fail("random numbers");
    return zl_retain(x);
}

// Products --------------------------------------------------------------------------------------------------

static double products(zl_array a, zl_array b, int calls) {
    double begin = now();
    zl_array last = NULL;
    for (int i = 0; i < calls; i++)
        ZL_SCOPE {
            zl_array y = zl_matmul(a, b);
            if (!zl_async_eval(y))
                fail("matmul");
            replace(&last, y);
        }
    if (!zl_eval(last))
        fail("matmul");
    zl_release(last);
    return (now() - begin) / calls;
}

static double gemm(const char *line) {
    char name[32];
    long m, k, n;
    if (sscanf(line, "%31s %ld %ld %ld", name, &m, &k, &n) != 4)
        fail("gemm DTYPE M K N is expected");
    zl_dtype dtype = !strcmp(name, "bfloat16") ? ZL_BFLOAT16 : ZL_FLOAT32;
    zl_array a = normal(ZL_SHAPE(m, k), dtype, 1), b = normal(ZL_SHAPE(k, n), dtype, 1);
    products(a, b, 3);
    double one = products(a, b, 5), best = products(a, b, (int)fmin(2000, fmax(5, 0.1 / one)));
    zl_release(a);
    zl_release(b);
    return best;
}

// A compiled function, of its own result --------------------------------------------------------------------

static bool step_of_tiny(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data, (void)count;
    return zl_give(out, zl_add(zl_multiply(in[0], zl_scalar(0.5)), zl_scalar(1)));
}

static double tiny(void) {
    enum { CALLS = 3000 };
    zl_compiled c = zl_compile((zl_fn){.call = step_of_tiny}, false);
    zl_array x = normal(ZL_SHAPE(16), ZL_FLOAT32, 1);
    double begin = 0;
    for (int i = -300; i < CALLS; i++)
        ZL_SCOPE {
            if (i == 0) {
                zl_eval(x);
                begin = now();
            }
            zl_outputs *out = zl_outputs_new();
            if (!zl_compiled_call(c, NULL, 0, 1, &x, out) || !zl_async_eval(zl_outputs_get(out, 0)))
                fail("a compiled function");
            replace(&x, zl_outputs_get(out, 0));
            zl_outputs_free(out);
        }
    if (!zl_eval(x))
        fail("a compiled function");
    double took = (now() - begin) / CALLS;
    zl_compiled_release(c);
    zl_release(x);
    return took;
}

// Training --------------------------------------------------------------------------------------------------

enum { LAYERS = 3, PARAMETERS = 2 * LAYERS, BATCH = 128, STEPS = 468 };

static zl_array forward(zl_array x, const zl_array *parameter) {
    for (int i = 0; i < LAYERS; i++) {
        x = zl_add(zl_matmul(x, parameter[2 * i]), parameter[2 * i + 1]);
        x = i < LAYERS - 1 ? zl_tanh(x) : x;
    }
    return x;
}

static void train(zl_array x, zl_array y, zl_array *parameter, zl_array *loss) {
    zl_array gradient[PARAMETERS], error = zl_subtract(forward(x, parameter), y);
    zl_array mean = zl_mean(zl_square(error));
    if (!zl_grad(mean, PARAMETERS, parameter, gradient))
        fail("a gradient");
    for (int i = 0; i < PARAMETERS; i++)
        replace(&parameter[i], zl_subtract(parameter[i], zl_multiply(zl_scalar(0.01), gradient[i])));
    replace(loss, mean);
}

static double mlp(void) {
    static const int width[LAYERS + 1] = {784, 256, 256, 10};
    zl_array parameter[PARAMETERS], loss = NULL, x = normal(ZL_SHAPE((STEPS * BATCH), 784), ZL_FLOAT32, 1),
                                    y = normal(ZL_SHAPE((STEPS * BATCH), 10), ZL_FLOAT32, 1);
    for (int i = 0; i < PARAMETERS; i++)
        parameter[i] = i % 2 ? normal(ZL_SHAPE(width[i / 2 + 1]), ZL_FLOAT32, 0.01)
                             : normal(ZL_SHAPE(width[i / 2], width[i / 2 + 1]), ZL_FLOAT32, 0.05);
    double begin = 0;
    for (int epoch = 0; epoch < 2; epoch++) {
        begin = now();
        for (int i = 0; i < STEPS; i++) {
            zl_array all[PARAMETERS + 1];
            ZL_SCOPE {
                int64_t from = (int64_t)i * BATCH, to = from + BATCH;
                train(zl_slice(x, ZL_SHAPE(from, 0), ZL_SHAPE(to, 784), ZL_SHAPE(1, 1)),
                      zl_slice(y, ZL_SHAPE(from, 0), ZL_SHAPE(to, 10), ZL_SHAPE(1, 1)), parameter, &loss);
            }
            memcpy(all, parameter, sizeof parameter);
            all[PARAMETERS] = loss;
            if (!zl_async_eval_all(PARAMETERS + 1, all))
                fail("a step");
        }
        if (!isfinite(zl_item(loss)))
            fail("the loss is not finite");
    }
    double took = now() - begin;
    for (int i = 0; i < PARAMETERS; i++)
        zl_release(parameter[i]);
    zl_release(loss);
    zl_release(x);
    zl_release(y);
    return took;
}

// Transfers -------------------------------------------------------------------------------------------------

enum { FLOATS = 16 << 20, TRANSFERS = 8 };

static double up(void) {
    float *data = malloc(sizeof *data * FLOATS);
    double took = 0;
    for (int i = 0; data && i < FLOATS; i++)
        data[i] = (float)i;
    for (int i = -2; i < TRANSFERS; i++)
        ZL_SCOPE {
            double begin = now();
            zl_array x = zl_from_foreign(data, ZL_SHAPE(FLOATS), ZL_FLOAT32, NULL);
            zl_array one = zl_add(zl_slice(x, ZL_SHAPE(5), ZL_SHAPE(6), ZL_SHAPE(1)), zl_scalar(1));
            if (!zl_eval(one))
                fail("a copy to the device");
            took += i < 0 ? 0 : now() - begin;
        }
    free(data);
    return took / TRANSFERS;
}

static double down(void) {
    double took = 0;
    for (int i = -2; i < TRANSFERS; i++)
        ZL_SCOPE {
            zl_array x = zl_add(zl_zeros(ZL_SHAPE(FLOATS), ZL_FLOAT32), zl_scalar(i));
            if (!zl_eval(x))
                fail("numbers");
            double begin = now();
            const float *data = zl_data_f32(x);
            if (!data || data[FLOATS - 1] != (float)i)
                fail("a copy to the host");
            took += i < 0 ? 0 : now() - begin;
        }
    return took / TRANSFERS;
}

int main(void) {
    char line[128];
    if (!zl_use_device("pjrt"))
        fail("the device pjrt");
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        double took = !strncmp(line, "gemm ", 5) ? gemm(line + 5)
                      : !strcmp(line, "tiny")    ? tiny()
                      : !strcmp(line, "mlp")     ? mlp()
                      : !strcmp(line, "up")      ? up()
                      : !strcmp(line, "down")    ? down()
                                                 : -1;
        printf("%.9f\n", took);
        fflush(stdout);
    }
    return 0;
}
