// test_kernels_models.c - what models are trained with, on every device that runs kernels, against the CPU.

#include "on_devices.h"

struct losses {
    int64_t lines, classes;
    zl_dtype dtype;
};

// Targets lie turned, some of them behind the last class and some counted from there.
static zl_array losses(void *data) {
    const struct losses *l = data;
    zl_array at = zl_astype(
        zl_multiply(values(ZL_SHAPE(3, l->lines), ZL_FLOAT32, 5), zl_scalar((double)l->classes / 3)),
        ZL_INT32);
    zl_array x = values(ZL_SHAPE(l->lines, 3, l->classes), l->dtype, 1);
    return zl_fast_cross_entropy(x, zl_matrix_transpose(at));
}

static zl_array slopes(void *data) {
    zl_array x = zl_astype(values(ZL_SHAPE(7, 40), ZL_FLOAT32, 1), ZL_FLOAT32), grad;
    zl_array at = zl_arange_int(0, 7, 1, ZL_INT32);
    (void)data;
    return zl_grad(zl_sum(zl_fast_cross_entropy(x, at)), 1, &x, &grad) ? grad : NULL;
}

static void check_losses(void) {
    int64_t fallbacks = zl_counter("fallbacks");
    static const struct losses cases[] = {{50, 10, ZL_FLOAT32},
                                          {3, 1500, ZL_BFLOAT16},
                                          {2, 513, ZL_FLOAT16},
                                          {4, 33, ZL_FLOAT64},
                                          {1, 1, ZL_FLOAT32}};
    for (size_t i = 0; i < COUNT(cases); i++)
        agree("cross_entropy", losses, (void *)(uintptr_t)&cases[i], 2e-6);
    agree("the slope of cross_entropy", slopes, NULL, 1e-6);
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

TEST(losses_of_classifiers) {
    on_devices(check_losses);
}
