// work_spmv.c - a sparse matrix (CSR) times a vector, sizes (rows, entries per row). Ops: random columns, or
// a band around the diagonal.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

// Returns the column of an entry, the same in every run.
static int32_t column_of(bool banded, int64_t rows, int64_t each, int64_t row, int64_t entry) {
    if (banded) {
        int64_t first = row - each / 2;
        first = first < 0 ? 0 : first + each > rows ? rows - each : first;
        return (int32_t)(first + entry);
    }
    uint64_t mixed = ((uint64_t)row * 0x9e3779b97f4a7c15u) ^ ((uint64_t)entry * 0xd1b54a32d192ed03u);
    return (int32_t)((mixed >> 17) % (uint64_t)rows);
}

static bool make_structure(struct bench_work *w, bool banded, int64_t rows, int64_t each) {
    int32_t *column = malloc((size_t)(rows * each) * sizeof *column),
            *start = malloc((size_t)(rows + 1) * sizeof *start);
    bool done = column && start;
    for (int64_t r = 0; done && r <= rows; r++)
        start[r] = (int32_t)(r * each);
    for (int64_t r = 0; done && r < rows; r++)
        for (int64_t e = 0; e < each; e++)
            column[r * each + e] = column_of(banded, rows, each, r, e);
    done = done && bench_hold(w, zl_from_i32(column, ZL_SHAPE(rows * each))) &&
           bench_hold(w, zl_from_i32(start, ZL_SHAPE(rows + 1)));
    free(column), free(start);
    return done;
}

static bool prepare(struct bench_work *w) {
    const struct bench_config *c = w->config;
    bool banded = !strcmp(c->op, "banded");
    if (c->dims != 2 || (!banded && strcmp(c->op, "random")) || c->dim[1] > c->dim[0] ||
        c->dim[0] * c->dim[1] > INT32_MAX)
        return bench_fail(w, "spmv takes rows and entries a row, and the op random or banded");
    double entries = (double)(c->dim[0] * c->dim[1]),
           size = (double)zl_dtype_size(bench_dtype_of_arrays(c->dtype));
    w->flops = 2 * entries;
    w->bytes = entries * (size + 4) + (double)c->dim[0] * (2 * size + 4);
    return bench_random(w, ZL_SHAPE(c->dim[0] * c->dim[1])) &&
           make_structure(w, banded, c->dim[0], c->dim[1]) && bench_random(w, ZL_SHAPE(c->dim[0]));
}

static zl_array record(struct bench_work *w) {
    return zl_csr_matvec(w->in[0], w->in[1], w->in[2], w->in[3]);
}

static bool verify(struct bench_work *w) {
    int64_t rows = w->config->dim[0], each = w->config->dim[1];
    bool banded = !strcmp(w->config->op, "banded");
    double *value = bench_elements(w->in[0]), *x = bench_elements(w->in[3]), *y = bench_elements(record(w)),
           worst = 0;
    bool here = value && x && y;
    for (int64_t i = 0; here && i < 64; i++) {
        int64_t r = i * (rows - 1) / 63;
        double sum = 0, size = 1e-300;
        for (int64_t e = 0; e < each; e++) {
            double term = value[r * each + e] * x[column_of(banded, rows, each, r, e)];
            sum += term;
            size += fabs(term);
        }
        worst = fmax(worst, fabs(y[r] - sum) / size);
    }
    free(value), free(x), free(y);
    double allowed = 4 * bench_dtype_epsilon(w->config->dtype);
    return (here && worst <= allowed) ||
           bench_fail(w, "wrong result: off by %.3g, allowed is %.3g", worst, allowed);
}

const struct bench_work_kind bench_work_spmv = {
    .name = "spmv",
    .unit = "FLOP",
    .summary = "a sparse matrix times a vector",
    .prepare = prepare,
    .record = record,
    .verify = verify,
};
