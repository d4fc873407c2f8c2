// work_structs.c - fields of nested C structs, used as arrays without a copy: the energy of `count`
// particles.

#include "bench.h"

#include <stdlib.h>

struct body {
    float mass, charge;
};
struct particle {
    float position[3], velocity[3];
    struct body body;
    int32_t id;
};

static bool prepare(struct bench_work *w) {
    int64_t count = w->config->dims == 1 ? w->config->dim[0] : 0;
    if (count < 1 || w->config->dtype != BENCH_F32)
        return bench_fail(w, "structs takes a number of particles, in f32");
    struct particle *p = w->data = malloc((size_t)count * sizeof *p);
    for (int64_t i = 0; p && i < count; i++)
        p[i] = (struct particle){.velocity = {(float)(i % 7), (float)(i % 5), (float)(i % 3)},
                                 .body = {.mass = 1 + (float)(i % 11)},
                                 .id = (int32_t)i};
    w->bytes = 4.0 * 4 * (double)count; // only the fields that are read
    return p && bench_hold(w, zl_from_records(p, ZL_SHAPE(count), sizeof *p, NULL));
}

// Returns the sum of half the mass times the squared speed.
static zl_array record(struct bench_work *w) {
    zl_array velocity = zl_field(w->in[0], offsetof(struct particle, velocity), ZL_FLOAT32, ZL_SHAPE(3));
    zl_array mass = zl_field(w->in[0], offsetof(struct particle, body.mass), ZL_FLOAT32, ZL_SCALAR);
    zl_array speed = zl_sum_axis(zl_square(velocity), -1, false);
    return zl_multiply(zl_scalar(0.5), zl_sum(zl_multiply(mass, speed)));
}

static bool verify(struct bench_work *w) {
    const struct particle *p = w->data;
    double wanted = 0, got = zl_item(record(w));
    for (int64_t i = 0; i < w->config->dim[0]; i++)
        for (int d = 0; d < 3; d++)
            wanted += 0.5 * (double)p[i].body.mass * (double)p[i].velocity[d] * (double)p[i].velocity[d];
    return fabs(got - wanted) <= 1e-4 * wanted ||
           bench_fail(w, "wrong result: energy %.9g, not %.9g", got, wanted);
}

const struct bench_work_kind bench_work_structs = {
    .name = "structs",
    .unit = "B",
    .summary = "fields of nested C structs, not copied",
    .prepare = prepare,
    .record = record,
    .verify = verify,
};
