// test_kernels_models.c - ops that models are trained with, on every device that runs kernels, compared with
// the CPU.

#include <string.h>

#include "on_devices.h"

struct losses {
    int64_t lines, classes;
    zl_dtype dtype;
};

// The targets are transposed; some are past the last class, and some count from the end.
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

struct rule {
    int64_t keys;
    bool by_column, masked;
    zl_dtype dtype;
};

// Returns both results, concatenated.
static zl_array rule(void *data) {
    const struct rule *r = data;
    enum { B = 2, T = 5, H = 2, N = 4, E = 3 };
    zl_array mask = r->masked ? zl_greater(values(ZL_SHAPE(B, T), ZL_FLOAT32, 9), zl_scalar(0)) : NULL,
             out[2];
    zl_array small = zl_scalar(0.05);
    zl_array q = zl_multiply(values(ZL_SHAPE(B, T, H, r->keys), r->dtype, 1), small);
    zl_array k = zl_multiply(values(ZL_SHAPE(B, T, H, r->keys), r->dtype, 2), small);
    zl_array gate = zl_sigmoid(r->by_column ? values(ZL_SHAPE(B, T, N, r->keys), r->dtype, 4)
                                            : values(ZL_SHAPE(B, T, N), r->dtype, 4));
    bool done = zl_fast_gated_delta_update(q, k, values(ZL_SHAPE(B, T, N, E), r->dtype, 3), gate,
                                           zl_sigmoid(values(ZL_SHAPE(B, T, N), r->dtype, 5)),
                                           values(ZL_SHAPE(B, N, E, r->keys), r->dtype, 6), mask, out);
    return done ? zl_concatenate((zl_array[]){zl_flatten(out[0], 0, -1), zl_flatten(out[1], 0, -1)}, 2, 0)
                : NULL;
}

static void check_rules(void) {
    static const struct rule cases[] = {{64, false, false, ZL_FLOAT32},
                                        {33, true, true, ZL_FLOAT32},
                                        {530, false, true, ZL_FLOAT32},
                                        {7, true, false, ZL_FLOAT64}};
    int64_t fallbacks = zl_counter("fallbacks");
    for (size_t i = 0; i < COUNT(cases); i++)
        agree("gated_delta", rule, (void *)(uintptr_t)&cases[i], 2e-5);
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

TEST(the_gated_delta_rule) {
    on_devices(check_rules);
}

struct member {
    const char *rule;
    int64_t keys;
    zl_dtype dtype;
    bool packed;
};

// Applies a rule of delta.def to sequences of 0, 3 and 4 tokens, or to two of 7.
static zl_array member(void *data) {
    const struct member *m = data;
    enum { T = 7, H = 2, N = 4, V = 3 };
    int64_t batch = m->packed ? 1 : 2, states = m->packed ? 3 : 2;
    zl_array small = zl_scalar(0.05), out[2], offsets = NULL, g = NULL, beta = NULL, a = NULL, b = NULL;
    zl_array key[3];
    for (int i = 0; i < 3; i++)
        key[i] = zl_multiply(values(ZL_SHAPE(batch, T, H, m->keys), m->dtype, 1 + i), small);
    bool low_rank = !strcmp(m->rule, "dplr"), erases = low_rank || !strcmp(m->rule, "comba");
    if (low_rank || !strcmp(m->rule, "kda") || !strcmp(m->rule, "gla"))
        g = values(ZL_SHAPE(batch, T, N, m->keys), m->dtype, 4);
    else if (strcmp(m->rule, "linear") != 0)
        g = values(ZL_SHAPE(batch, T, N), m->dtype, 4);
    if (!low_rank && strcmp(m->rule, "gla") != 0 && strcmp(m->rule, "linear") != 0)
        beta = zl_sigmoid(values(ZL_SHAPE(batch, T, N), m->dtype, 5));
    if (erases)
        a = key[2];
    if (low_rank)
        b = zl_negative(key[2]);
    if (m->packed)
        offsets = zl_from_i32((int32_t[]){0, 0, 3, T}, ZL_SHAPE(4));
    zl_array state = values(ZL_SHAPE(states, N, m->keys, V), m->dtype, 6);
    g = g ? zl_negative(zl_abs(g)) : NULL;
    bool done = zl_fast_delta_rule(m->rule, key[0], key[1], values(ZL_SHAPE(batch, T, N, V), m->dtype, 3), g,
                                   beta, a, b, state, NULL, offsets, NULL, NULL, 1, false, false, out);
    return done ? zl_concatenate((zl_array[]){zl_flatten(out[0], 0, -1), zl_flatten(out[1], 0, -1)}, 2, 0)
                : NULL;
}

static void check_members(void) {
    static const struct member cases[] = {
        {"gated_delta", 64, ZL_FLOAT32, true}, {"kda", 33, ZL_FLOAT32, true},
        {"comba", 300, ZL_FLOAT32, false},     {"dplr", 5, ZL_FLOAT64, true},
        {"gla", 260, ZL_FLOAT32, true},        {"linear", 16, ZL_FLOAT16, false}};
    int64_t fallbacks = zl_counter("fallbacks");
    for (size_t i = 0; i < COUNT(cases); i++)
        agree(cases[i].rule, member, (void *)(uintptr_t)&cases[i],
              cases[i].dtype == ZL_FLOAT16 ? 2e-3 : 2e-5);
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

TEST(the_delta_family) {
    on_devices(check_members);
}

// Products of matrices chosen by indices: one counts from the end, one is out of range. b is transposed.
static zl_array chosen(void *data) {
    zl_dtype dtype = *(zl_dtype *)data;
    zl_array left = zl_from_i32((int32_t[]){2, 0, 1, -1}, ZL_SHAPE(2, 2)),
             right = zl_from_i32((int32_t[]){3, 1, 1, 99}, ZL_SHAPE(2, 2));
    zl_array b = zl_swapaxes(values(ZL_SHAPE(4, 30, 70), dtype, 2), 1, 2);
    return zl_gather_mm(values(ZL_SHAPE(3, 5, 70), dtype, 1), b, left, right, false);
}

// Products of parts of the inner axis, of which one is empty, and one ends past the axis.
static zl_array in_parts(void *data) {
    zl_dtype dtype = *(zl_dtype *)data;
    static const uint32_t ends[] = {0, 17, 17, 40, 9, 3, 35, 90};
    zl_array parts = zl_from(ends, ZL_SHAPE(4, 2), ZL_UINT32);
    return zl_segmented_mm(values(ZL_SHAPE(70, 40), dtype, 1), values(ZL_SHAPE(40, 6), dtype, 2), parts);
}

static void check_chosen(void) {
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT16, ZL_BFLOAT16};
    static const double bounds[] = {1e-5, 2e-3, 1.6e-2};
    int64_t fallbacks = zl_counter("fallbacks");
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        agree("gather_mm", chosen, (void *)(uintptr_t)&dtypes[i], bounds[i]);
        agree("segmented_mm", in_parts, (void *)(uintptr_t)&dtypes[i], bounds[i]);
    }
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

TEST(products_of_chosen_matrices) {
    on_devices(check_chosen);
}

// Returns both results, concatenated, for operands that are transposed and broadcast.
static zl_array divided(void *data) {
    zl_dtype dtype = *(zl_dtype *)data;
    zl_array out[2],
        a = zl_matrix_transpose(zl_multiply(values(ZL_SHAPE(30, 20), ZL_FLOAT32, 1), zl_scalar(9)));
    zl_array b = zl_add(values(ZL_SHAPE(20, 1), ZL_FLOAT32, 2), zl_scalar(3));
    return zl_divmod(zl_astype(a, dtype), zl_astype(b, dtype), out) ? zl_concatenate(out, 2, 0) : NULL;
}

static void check_divided(void) {
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_INT32, ZL_INT8, ZL_FLOAT16, ZL_FLOAT64};
    int64_t fallbacks = zl_counter("fallbacks");
    for (size_t i = 0; i < COUNT(dtypes); i++)
        agree("divmod", divided, (void *)(uintptr_t)&dtypes[i], 0);
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

TEST(quotients_and_remainders) {
    on_devices(check_divided);
}

static zl_array whole(zl_shape shape, uint64_t seed) {
    return zl_round(values(shape, ZL_FLOAT32, seed), 0);
}

// Returns the gradient with respect to the kernel of a convolution in groups, which reads the input in its
// own layout. Sums of small integers are exact in any order.
static zl_array kernel_slopes(void *data) {
    int groups = *(int *)data;
    zl_array x = whole(ZL_SHAPE(2, 9, 8, 8), 1), w = whole(ZL_SHAPE(8, 3, 2, 8 / groups), 2), grad;
    zl_array y = zl_conv2d(x, w, ZL_SHAPE(2, 1), ZL_SHAPE(1), ZL_SHAPE(1), groups);
    zl_array g = whole(ZL_SHAPE(2, 5, 9, 8), 3);
    return zl_grad(zl_sum(zl_multiply(y, g)), 1, &w, &grad) ? grad : NULL;
}

static int64_t launches_of(int groups) {
    int64_t launches = zl_counter("launches");
    CHECK(zl_eval(kernel_slopes(&groups)));
    return zl_counter("launches") - launches;
}

static void check_kernel_slopes(void) {
    int64_t fallbacks = zl_counter("fallbacks");
    static const int groups[] = {1, 2, 8};
    for (size_t i = 0; i < COUNT(groups); i++) {
        agree("the slope of kernels", kernel_slopes, (void *)(uintptr_t)&groups[i], 0);
        CHECK(launches_of(groups[i]) <= launches_of(1));
    }
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

TEST(kernels_of_convolutions_in_groups) {
    on_devices(check_kernel_slopes);
}
