// flops.c - the number of arithmetic operations of a call, from its op and the sizes of its arrays.

#include "op/ops.h"

#include <math.h>

static double last_dim(zl_array x) {
    return x->ndim ? (double)x->dim[x->ndim - 1] : 1;
}

// Counts the two products of attention, or the five of its backward pass.
static double flops_of_attention(const struct call *c, double products_of_keys, double products_of_values) {
    zl_array q = c->in[0], v = c->in[2];
    double scores = (double)q->dim[0] * (double)q->dim[1] * (double)q->dim[2] * (double)v->dim[2];
    return 2 * scores * (products_of_keys * last_dim(q) + products_of_values * last_dim(v));
}

// Counts 5 n log2(n) for each transform of n complex numbers, and half of that if one side is real.
static double flops_of_fft(const struct call *c) {
    const int64_t *arg = call_args(c);
    zl_array x = c->in[0];
    double n = (double)arg[2], along = (double)MAX_OF(x->dim[arg[1]], 1);
    double whole = 5 * (double)x->size / along * n * log2(MAX_OF(n, 1));
    return arg[0] == FFT_REAL || arg[0] == FFT_HERMITIAN ? whole / 2 : whole;
}

// Returns `factor` times n^3 for each square matrix of x.
static double flops_of_matrices(zl_array x, double factor) {
    return factor * (double)x->size * last_dim(x);
}

static double flops_of_other(const struct call *c) {
    const struct op *op = c->op;
    zl_array y = call_first(c), x = c->inputs ? c->in[0] : y;
    double size = (double)y->size;
    if (op_is_product(op) || op == &op_matmul_int8 || op == &op_matmul_fp8 || op == &op_gather_mm ||
        op == &op_segmented_mm || op == &op_quantized_matmul)
        return 2 * size * last_dim(x);
    if (op == &op_conv)
        return 2 * size * (double)c->in[1]->size / (double)MAX_OF(c->in[1]->dim[0], 1);
    if (op == &op_attention)
        return flops_of_attention(c, 1, 1);
    if (op == &op_attention_vjp)
        return flops_of_attention(c, 3, 2);
    if (op == &op_delta_rule) // for each token and element of the state: one decay, two reads, and one write
        return 7 * (double)c->in[2]->size * last_dim(c->in[0]);
    if (op == &op_rope) // for each element: two products and their sum
        return 3 * size;
    if (op == &op_cross_entropy || op == &op_cross_entropy_vjp)
        return 4 * (double)x->size;
    if (op == &op_fft)
        return flops_of_fft(c);
    if (op == &op_csr_matmul)
        return 2 * (double)x->size * (c->in[3]->ndim > 1 ? last_dim(c->in[3]) : 1);
    if (op == &op_csr_sample)
        return 2 * size * last_dim(c->in[2]);
    if (op == &op_cholesky)
        return flops_of_matrices(x, 1.0 / 3);
    if (op == &op_lu)
        return flops_of_matrices(x, 2.0 / 3);
    if (op == &op_inverse)
        return flops_of_matrices(x, 2);
    return op == &op_scan ? size : 0;
}

bool op_selects(const struct op *op) {
    return op == &op_take || op == &op_take_along || op == &op_gather || op == &op_dynamic_slice;
}

double op_flops(const struct call *c) {
    switch (c->op->kind) {
    case OP_ELEMENTWISE: return (double)call_first(c)->size;
    case OP_REDUCE: return (double)c->in[0]->size;
    case OP_OTHER: return flops_of_other(c);
    default: return 0;
    }
}
