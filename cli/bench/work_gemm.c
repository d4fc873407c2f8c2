// work_gemm.c - matrix products of (m, k) and (k, n). Without an op it is the plain product; nt, tn and tt
// take transposed views; chain is eight products in a row; backward is a product and the gradients of both
// factors.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { CHAIN = 8, SAMPLED = 8 };

struct gemm {
    int64_t m, n, k;
    bool a_transposed, b_transposed, chain, backward;
};

static bool read_op(struct bench_work *w, struct gemm *g) {
    const char *op = w->config->op;
    g->a_transposed = !strcmp(op, "tn") || !strcmp(op, "tt");
    g->b_transposed = !strcmp(op, "nt") || !strcmp(op, "tt");
    g->chain = !strcmp(op, "chain");
    g->backward = !strcmp(op, "backward");
    if (op[0] && !g->a_transposed && !g->b_transposed && !g->chain && !g->backward)
        return bench_fail(w, "gemm has no op '%s': there are nt, tn, tt, chain and backward", op);
    bool is_int8 = w->config->dtype == BENCH_INT8, is_fp8 = w->config->dtype == BENCH_FP8;
    if ((is_int8 || is_fp8) && (g->chain || g->backward))
        return bench_fail(w, "products of %s are %s: no %s", is_int8 ? "int8" : "fp8",
                          is_int8 ? "int32" : "bf16", op);
    return true;
}

static bool prepare(struct bench_work *w) {
    const struct bench_config *c = w->config;
    struct gemm *g = w->data = calloc(1, sizeof *g);
    if (!g || !read_op(w, g))
        return false;
    bool cube = c->dims == 1;
    if (!cube && c->dims != 3)
        return bench_fail(w, "gemm takes one size or three: m, n, k");
    g->m = c->dim[0], g->n = c->dim[cube ? 0 : 1], g->k = c->dim[cube ? 0 : 2];
    if (g->chain && (g->m != g->k || g->n != g->k))
        return bench_fail(w, "a chain is of square matrices");
    zl_array a =
        g->a_transposed ? bench_random(w, ZL_SHAPE(g->k, g->m)) : bench_random(w, ZL_SHAPE(g->m, g->k));
    zl_array b =
        g->b_transposed ? bench_random(w, ZL_SHAPE(g->n, g->k)) : bench_random(w, ZL_SHAPE(g->k, g->n));
    double size = (double)zl_dtype_size(bench_dtype_of_arrays(c->dtype));
    double out_size = c->dtype == BENCH_INT8 ? 4 : c->dtype == BENCH_FP8 ? 2 : size;
    double products = g->chain ? CHAIN : g->backward ? 3 : 1;
    w->flops = products * 2.0 * (double)g->m * (double)g->n * (double)g->k;
    w->bytes = products * (size * ((double)g->m * (double)g->k + (double)g->k * (double)g->n) +
                           out_size * (double)g->m * (double)g->n);
    return a && b;
}

static zl_array product(struct bench_work *w) {
    const struct gemm *g = w->data;
    zl_array a = g->a_transposed ? zl_swapaxes(w->in[0], -1, -2) : w->in[0];
    zl_array b = g->b_transposed ? zl_swapaxes(w->in[1], -1, -2) : w->in[1];
    switch (w->config->dtype) {
    case BENCH_INT8: return zl_matmul_int8(a, b);
    case BENCH_FP8: return zl_matmul_fp8(a, b, 1, 1, ZL_BFLOAT16);
    default: return zl_matmul(a, b);
    }
}

// Returns the gradients of a sum over the product's elements, as one array.
static zl_array backward(struct bench_work *w) {
    zl_array grads[2];
    zl_array loss = zl_sum(zl_astype(zl_square(product(w)), ZL_FLOAT32));
    if (!loss || !zl_grad(loss, 2, w->in, grads))
        return NULL;
    return zl_add(zl_sum(zl_astype(grads[0], ZL_FLOAT32)), zl_sum(zl_astype(grads[1], ZL_FLOAT32)));
}

// Divides each product by the root of k, so that the size of the numbers stays the same.
static zl_array chain(struct bench_work *w) {
    const struct gemm *g = w->data;
    zl_array y = w->in[0];
    for (int i = 0; i < CHAIN; i++)
        y = zl_multiply(zl_matmul(y, w->in[1]), zl_scalar(1 / sqrt((double)g->k)));
    return y;
}

static zl_array record(struct bench_work *w) {
    const struct gemm *g = w->data;
    return g->backward ? backward(w) : g->chain ? chain(w) : product(w);
}

// Verification: rows and columns that are drawn, multiplied in double ---------------------------------------

static zl_array drawn(int64_t count, int64_t *at) {
    int32_t index[SAMPLED];
    for (int i = 0; i < SAMPLED; i++)
        index[i] = (int32_t)(at[i] = (int64_t)(2654435761u * (unsigned)(i + 1) % (uint64_t)count));
    return zl_from_i32(index, ZL_SHAPE(SAMPLED));
}

// Returns the largest error of a block of sampled elements, relative to what rounding allows. a is (SAMPLED,
// k), b is (k, SAMPLED).
static double worst_error(const double *a, const double *b, const double *y, int64_t k,
                          enum bench_dtype dtype) {
    double worst = 0, epsilon = bench_dtype_epsilon(dtype),
           sums = dtype == BENCH_F64    ? 0x1p-52
                  : dtype == BENCH_TF32 ? 0x1p-10 // rounding of the factors
                  : dtype == BENCH_FP8  ? 0x1p-14 // rounding of sums in matrix units of GPUs
                                        : 0x1p-23;
    for (int i = 0; i < SAMPLED; i++)
        for (int j = 0; j < SAMPLED; j++) {
            double sum = 0, size = 0;
            for (int64_t p = 0; p < k; p++) {
                sum += a[i * k + p] * b[p * SAMPLED + j];
                size += fabs(a[i * k + p] * b[p * SAMPLED + j]);
            }
            double allowed =
                2 * epsilon * fabs(sum) + 4 * sums * sqrt((double)k) * size / sqrt((double)k) + 1e-300;
            if (dtype == BENCH_INT8)
                allowed = 0.5;
            worst = fmax(worst, fabs(y[i * SAMPLED + j] - sum) / allowed);
        }
    return worst;
}

// Returns the rows or columns of an input that were sampled, as doubles.
static double *drawn_elements(struct bench_work *w, int input, zl_array at, int axis) {
    zl_array x = zl_take(w->in[input], at, axis);
    return bench_elements(w->config->dtype == BENCH_FP8 ? zl_from_fp8(x, ZL_FLOAT32) : x);
}

static bool verify_product(struct bench_work *w) {
    const struct gemm *g = w->data;
    int64_t at[SAMPLED];
    zl_array row = drawn(g->m, at), column = drawn(g->n, at);
    double *a = drawn_elements(w, 0, row, g->a_transposed ? 1 : 0);
    double *b = drawn_elements(w, 1, column, g->b_transposed ? 0 : 1);
    double *y = bench_elements(zl_take(zl_take(product(w), row, 0), column, 1));
    double *left = malloc((size_t)(SAMPLED * g->k) * sizeof *left),
           *right = malloc((size_t)(SAMPLED * g->k) * sizeof *right);
    double worst = INFINITY;
    if (a && b && y && left && right) {
        for (int64_t p = 0; p < g->k; p++)
            for (int i = 0; i < SAMPLED; i++) {
                left[i * g->k + p] = g->a_transposed ? a[p * SAMPLED + i] : a[i * g->k + p];
                right[p * SAMPLED + i] = g->b_transposed ? b[i * g->k + p] : b[p * SAMPLED + i];
            }
        worst = worst_error(left, right, y, g->k, w->config->dtype);
    }
    free(a), free(b), free(y), free(left), free(right);
    return worst <= 1 || bench_fail(w, "wrong result: %.3g times the error that rounding allows", worst);
}

// The other ops consist of products, which the plain op verifies, so their result must only be a number.
static bool verify(struct bench_work *w) {
    const struct gemm *g = w->data;
    if (!g->chain && !g->backward)
        return verify_product(w);
    double sum = zl_item(zl_sum(zl_astype(record(w), ZL_FLOAT32)));
    return (verify_product(w) && isfinite(sum)) ||
           bench_fail(w, "%s", w->why[0] ? w->why : "wrong result: not a number");
}

const struct bench_work_kind bench_work_gemm = {
    .name = "gemm",
    .unit = "FLOP",
    .summary = "products of matrices, plain, of transposed views, in chains, with gradients",
    .prepare = prepare,
    .record = record,
    .verify = verify,
};
