// work_bandwidth.c - memory bandwidth: copies an array by an op that does little else (y = -x), by its size
// in bytes.

#include "bench.h"

#include <stdlib.h>

static bool prepare(struct bench_work *w) {
    int64_t size = (int64_t)zl_dtype_size(bench_dtype_of_arrays(w->config->dtype));
    int64_t count = w->config->dims ? w->config->dim[0] / size : 0;
    if (count < 1)
        return bench_fail(w, "bandwidth needs a size in bytes");
    w->bytes = 2.0 * (double)(count * size);
    return bench_random(w, ZL_SHAPE(count));
}

static zl_array record(struct bench_work *w) {
    return zl_negative(w->in[0]);
}

static bool verify(struct bench_work *w) {
    double *x = bench_elements(w->in[0]), *y = bench_elements(record(w));
    int64_t bad = x && y ? 0 : 1;
    for (int64_t i = 0; x && y && i < zl_size(w->in[0]); i++)
        bad += y[i] != -x[i];
    free(x), free(y);
    return !bad || bench_fail(w, "wrong result: %lld elements are not the negative ones", (long long)bad);
}

const struct bench_work_kind bench_work_bandwidth = {
    .name = "bandwidth",
    .unit = "B",
    .summary = "memory, read and written, by size in bytes",
    .prepare = prepare,
    .record = record,
    .verify = verify,
};
