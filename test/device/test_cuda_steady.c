// test_cuda_steady.c - a program that repeats itself makes the same calls of the driver each time: nothing is
// created or set again. It runs under the driver of test/fake, which counts its calls.

static const char *lacks_fake(void);
#define TEST_LACKS lacks_fake

#include "test.h"

#include "base/base.h"
#include "zellige_ops.h"

static int64_t (*fake_calls)(const char *function);

static const char *lacks_fake(void) {
    static const char *const names[] = {"libcuda.so.1", NULL};
    void *library = library_open(names);
    const struct library_symbol symbol = {"fake_calls", (void **)(void *)&fake_calls};
    return library && library_bind(library, &symbol, 1, NULL)
               ? NULL
               : "its driver is that of test/fake: device/test_cuda:host_side runs it so";
}

// More layers than a list of launches holds, all of the same size, so that blocks of memory that are kept all
// fit.
enum { LAYERS = 50, ROWS = 2, WIDE = 4, STATES = 3 * LAYERS };

struct model {
    zl_array x, state[STATES]; // weights, then first and second moments
};

static void make_model(struct model *m) {
    ZL_SCOPE {
        m->x = zl_retain(zl_reshape(zl_sin(zl_arange(0, ROWS * WIDE, 1, ZL_FLOAT32)), ZL_SHAPE(ROWS, WIDE)));
        for (int i = 0; i < STATES; i++)
            m->state[i] =
                zl_retain(i < LAYERS ? zl_multiply(zl_identity(WIDE, ZL_FLOAT32), zl_scalar(0.9 + i * 0.001))
                                     : zl_zeros(ZL_SHAPE(WIDE, WIDE), ZL_FLOAT32));
        CHECK(zl_eval(m->x) && zl_eval_all(STATES, m->state));
    }
}

static zl_array decay(zl_array old, zl_array fresh, double kept) {
    return zl_add(zl_multiply(zl_scalar(kept), old), zl_multiply(zl_scalar(1 - kept), fresh));
}

// The forward pass, the backward pass and its own update read each weight.
static void step(struct model *m) {
    ZL_SCOPE {
        zl_array y = m->x, gradient[LAYERS], next[STATES];
        for (int i = 0; i < LAYERS; i++)
            y = zl_tanh(zl_matmul(y, zl_transpose(m->state[i], ZL_AXES(1, 0))));
        CHECK(zl_grad(zl_sum(zl_square(y)), LAYERS, m->state, gradient));
        for (int i = 0; i < LAYERS; i++) {
            zl_array *w = &next[i], *first = &next[LAYERS + i], *second = &next[2 * LAYERS + i];
            *first = decay(m->state[LAYERS + i], gradient[i], 0.9);
            *second = decay(m->state[2 * LAYERS + i], zl_square(gradient[i]), 0.99);
            zl_array change = zl_divide(*first, zl_add(zl_sqrt(*second), zl_scalar(1e-3)));
            *w = zl_subtract(m->state[i], zl_multiply(zl_scalar(1e-3), change));
        }
        for (int i = 0; i < STATES; i++) {
            zl_retain(next[i]);
            zl_release(m->state[i]);
            m->state[i] = next[i];
        }
        CHECK(zl_eval_all(STATES, m->state));
    }
}

static void free_model(struct model *m) {
    zl_release(m->x);
    for (int i = 0; i < STATES; i++)
        zl_release(m->state[i]);
}

static int64_t calls_that_make(void) {
    static const char *const names[] = {"cuMemAlloc_v2", "cuModuleLoadData", "cuGraphInstantiateWithFlags",
                                        "cuGraphExecKernelNodeSetParams_v2", "cuLaunchKernel"};
    int64_t calls = 0;
    for (int i = 0; i < (int)COUNT(names); i++)
        calls += fake_calls(names[i]);
    return calls;
}

TEST(a_step_that_repeats_itself_makes_nothing) {
    enum { WARM = 12, STEPS = 10 };
    test_setenv("ZL_CACHE_DIR", test_folder());
    zl_scope scope = zl_scope_begin_on(zl_new_stream("cuda"));
    struct model m;
    make_model(&m);
    for (int i = 0; i < WARM; i++)
        step(&m);
    int64_t made = calls_that_make(), graphs = zl_counter("graphs"), plans = zl_counter("plans");
    for (int i = 0; i < STEPS; i++)
        step(&m);
    CHECK_EQ_INT(calls_that_make() - made, 0);
    CHECK_EQ_INT(zl_counter("plans") - plans, 0);
    CHECK(zl_counter("graphs") - graphs >= 3 * STEPS);
    int64_t queries = fake_calls("cuEventQuery");
    CHECK(zl_eval_all(STATES, m.state));
    CHECK(fake_calls("cuEventQuery") - queries <= 1); // not one per array: all are known to be done
    free_model(&m);
    zl_scope_end(scope);
    test_setenv("ZL_CACHE_DIR", NULL);
}
