// work_attention.c - scaled dot-product attention of (batch, heads, length, width): with a causal mask if the
// op is `causal`, otherwise without.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { QUERIES = 4 }; // number of queries that are verified

static bool prepare(struct bench_work *w) {
    const struct bench_config *c = w->config;
    bool causal = !strcmp(c->op, "causal");
    if (c->dims != 4 || (c->op[0] && !causal))
        return bench_fail(
            w, "attention takes four sizes: batch, heads, length, width; and the op causal, or none");
    double batch = (double)(c->dim[0] * c->dim[1]), length = (double)c->dim[2], width = (double)c->dim[3];
    double size = (double)zl_dtype_size(bench_dtype_of_arrays(c->dtype));
    w->flops = 4 * batch * length * length * width * (causal ? 0.5 : 1);
    w->bytes = 4 * batch * length * width * size;
    for (int i = 0; i < 3; i++)
        if (!bench_random(w, (zl_shape){c->dim, 4}))
            return false;
    return true;
}

static double scale_of(const struct bench_work *w) {
    return 1 / sqrt((double)w->config->dim[3]);
}

static zl_array record(struct bench_work *w) {
    return zl_fast_scaled_dot_product_attention(w->in[0], w->in[1], w->in[2], scale_of(w), NULL, NULL,
                                                w->config->op[0] ? "causal" : "");
}

// Computes attention of one query of the first head in double. q has (width), k and v (length, width).
static void attend(const double *q, const double *k, const double *v, int64_t length, int64_t width,
                   double scale, double *out) {
    double total = 0;
    memset(out, 0, (size_t)width * sizeof *out);
    for (int64_t j = 0; j < length; j++) {
        double score = 0;
        for (int64_t d = 0; d < width; d++)
            score += q[d] * k[j * width + d];
        double weight = exp(score * scale);
        total += weight;
        for (int64_t d = 0; d < width; d++)
            out[d] += weight * v[j * width + d];
    }
    for (int64_t d = 0; d < width; d++)
        out[d] /= total;
}

static bool verify(struct bench_work *w) {
    int64_t length = w->config->dim[2], width = w->config->dim[3];
    double *q = bench_elements(w->in[0]), *k = bench_elements(w->in[1]), *v = bench_elements(w->in[2]);
    double *y = bench_elements(record(w)), *wanted = malloc((size_t)width * sizeof *wanted), worst = 0;
    bool here = q && k && v && y && wanted;
    for (int i = 0; here && i < QUERIES; i++) {
        int64_t at = (length - 1) * i / (QUERIES - 1), reach = w->config->op[0] ? at + 1 : length;
        attend(q + at * width, k, v, reach, width, scale_of(w), wanted);
        for (int64_t d = 0; d < width; d++)
            worst = fmax(worst, fabs(y[at * width + d] - wanted[d]));
    }
    free(q), free(k), free(v), free(y), free(wanted);
    double allowed = 8 * fmax(bench_dtype_epsilon(w->config->dtype), 0x1p-20);
    return (here && worst <= allowed) ||
           bench_fail(w, "wrong result: off by %.3g, allowed is %.3g", worst, allowed);
}

const struct bench_work_kind bench_work_attention = {
    .name = "attention",
    .unit = "FLOP",
    .summary = "scaled dot-product attention",
    .prepare = prepare,
    .record = record,
    .verify = verify,
};
