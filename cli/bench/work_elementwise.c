// work_elementwise.c - ops over many elements, measured by bytes read and written: elementwise ops,
// reductions, ops on rows.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { ROW = 1024 }; // length of rows, for ops that work on rows

static zl_array add(zl_array x, zl_array y) {
    return zl_add(x, y);
}
static zl_array multiply_add(zl_array x, zl_array y) {
    return zl_add(zl_multiply(x, y), y);
}
static zl_array exponential(zl_array x, zl_array y) {
    (void)y;
    return zl_exp(x);
}
static zl_array gelu(zl_array x, zl_array y) {
    (void)y;
    return zl_multiply(zl_multiply(x, zl_scalar(0.5)),
                       zl_add(zl_erf(zl_multiply(x, zl_scalar(0.70710678118654752))), zl_scalar(1)));
}
static zl_array tangent(zl_array x, zl_array y) {
    (void)y;
    return zl_tanh(x);
}
static zl_array sum(zl_array x, zl_array y) {
    (void)y;
    return zl_sum(x);
}
static zl_array sum_rows(zl_array x, zl_array y) {
    (void)y;
    return zl_sum_axis(x, -1, false);
}
static zl_array argmax_rows(zl_array x, zl_array y) {
    (void)y;
    return zl_argmax_axis(x, -1, false);
}
static zl_array softmax(zl_array x, zl_array y) {
    (void)y;
    return zl_softmax(x, -1, true);
}
static zl_array layer_norm(zl_array x, zl_array y) {
    (void)y;
    return zl_fast_layer_norm(x, NULL, NULL, 1e-5);
}

// References: element `at` of the result, in double. x and y have `count` elements, in rows of ROW.
static double ref_add(const double *x, const double *y, int64_t count, int64_t at) {
    (void)count;
    return x[at] + y[at];
}
static double ref_multiply_add(const double *x, const double *y, int64_t count, int64_t at) {
    (void)count;
    return x[at] * y[at] + y[at];
}
static double ref_exp(const double *x, const double *y, int64_t count, int64_t at) {
    (void)y, (void)count;
    return exp(x[at]);
}
static double ref_gelu(const double *x, const double *y, int64_t count, int64_t at) {
    (void)y, (void)count;
    return 0.5 * x[at] * (1 + erf(x[at] * 0.70710678118654752));
}
static double ref_tanh(const double *x, const double *y, int64_t count, int64_t at) {
    (void)y, (void)count;
    return tanh(x[at]);
}
static double ref_sum(const double *x, const double *y, int64_t count, int64_t at) {
    double total = 0;
    (void)y, (void)at;
    for (int64_t i = 0; i < count; i++)
        total += x[i];
    return total;
}
static double ref_sum_rows(const double *x, const double *y, int64_t count, int64_t at) {
    (void)count;
    return ref_sum(x + at * ROW, y, ROW, 0);
}
static double ref_argmax_rows(const double *x, const double *y, int64_t count, int64_t at) {
    int64_t best = 0;
    (void)y, (void)count;
    for (int64_t i = 1; i < ROW; i++)
        best = x[at * ROW + i] > x[at * ROW + best] ? i : best;
    return (double)best;
}
static double ref_softmax(const double *x, const double *y, int64_t count, int64_t at) {
    const double *row = x + at / ROW * ROW;
    double total = 0;
    (void)y, (void)count;
    for (int i = 0; i < ROW; i++)
        total += exp(row[i]);
    return exp(x[at]) / total;
}
static double ref_layer_norm(const double *x, const double *y, int64_t count, int64_t at) {
    const double *row = x + at / ROW * ROW;
    double mean = ref_sum(row, y, ROW, 0) / ROW, variance = 0;
    (void)count;
    for (int i = 0; i < ROW; i++)
        variance += (row[i] - mean) * (row[i] - mean) / ROW;
    return (x[at] - mean) / sqrt(variance + 1e-5);
}

enum result { SAME, ONE, ROWS }; // elements of the result: the same number, one, or one per row

static const struct elementwise {
    const char *name;
    zl_array (*op)(zl_array x, zl_array y);
    double (*reference)(const double *x, const double *y, int64_t count, int64_t at);
    enum result result;
    bool binary, composed; // composed: made of several ops, each of which rounds
} ops[] = {
    {"add", add, ref_add, SAME, true},
    {"multiply_add", multiply_add, ref_multiply_add, SAME, true, true},
    {"exp", exponential, ref_exp, SAME, false},
    {"tanh", tangent, ref_tanh, SAME, false},
    {"gelu", gelu, ref_gelu, SAME, false, true},
    {"sum", sum, ref_sum, ONE, false},
    {"sum_rows", sum_rows, ref_sum_rows, ROWS, false},
    {"argmax_rows", argmax_rows, ref_argmax_rows, ROWS, false},
    {"softmax", softmax, ref_softmax, SAME, false},
    {"layer_norm", layer_norm, ref_layer_norm, SAME, false},
};

static const struct elementwise *find_op(const char *name) {
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(ops[i].name, name))
            return &ops[i];
    return NULL;
}

static bool prepare(struct bench_work *w) {
    const struct elementwise *op = find_op(w->config->op);
    if (!op)
        return bench_fail(w, "elementwise has no op '%s'", w->config->op);
    int64_t rows = w->config->dims ? w->config->dim[0] / ROW : 0;
    if (rows < 1)
        return bench_fail(w, "elementwise needs a number of elements, %d or more", ROW);
    double size = (double)zl_dtype_size(bench_dtype_of_arrays(w->config->dtype)), count = (double)rows * ROW;
    w->bytes = size * count * ((op->binary ? 2 : 1) + (op->result == SAME ? 1 : 0));
    return bench_random(w, ZL_SHAPE(rows, ROW)) && (!op->binary || bench_random(w, ZL_SHAPE(rows, ROW)));
}

static zl_array record(struct bench_work *w) {
    return find_op(w->config->op)->op(w->in[0], w->inputs > 1 ? w->in[1] : NULL);
}

// Returns the error that the dtype allows for a result; sums and composed ops have larger ones.
static double allowed(const struct elementwise *op, enum bench_dtype dtype, double right, double x,
                      int64_t count) {
    double epsilon = bench_dtype_epsilon(dtype);
    double terms = op->result == ONE ? (double)count : op->result == ROWS ? ROW : 1;
    if (op->op == argmax_rows)
        return 0;
    return 8 * epsilon * (fabs(right) + (op->composed ? fabs(x) : 0)) + 16 * fmin(epsilon, 0x1p-23) * terms;
}

static bool verify(struct bench_work *w) {
    const struct elementwise *op = find_op(w->config->op);
    double *x = bench_elements(w->in[0]), *y = w->inputs > 1 ? bench_elements(w->in[1]) : NULL;
    zl_array result = record(w);
    double *got = result ? bench_elements(result) : NULL;
    int64_t count = zl_size(w->in[0]), results = result ? zl_size(result) : 0;
    bool right = x && got;
    for (int i = 0; right && i < 64; i++) {
        int64_t at = (int64_t)((uint64_t)i * 2654435761u % (uint64_t)results);
        double wanted = op->reference(x, y, count, at);
        if (!(fabs(got[at] - wanted) <=
              allowed(op, w->config->dtype, wanted, x[op->result == SAME ? at : 0], count)))
            right =
                bench_fail(w, "wrong result: element %lld is %.9g, not %.9g", (long long)at, got[at], wanted);
    }
    free(x), free(y), free(got);
    return right;
}

const struct bench_work_kind bench_work_elementwise = {
    .name = "elementwise",
    .unit = "B",
    .summary = "ops over many elements, reductions, rows",
    .prepare = prepare,
    .record = record,
    .verify = verify,
};
