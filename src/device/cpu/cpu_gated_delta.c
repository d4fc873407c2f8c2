// cpu_gated_delta.c - the gated delta rule: each thread takes heads through all steps, with their state in its cache.

#include "device/cpu/cpu.h"
#include "op/ops.h"

// Everything is row-major; shapes are those of ops.h.
struct delta_rule {
    int64_t time, groups, keys, heads, values; // T, H, D, N, E
    bool by_column;                            // a gate for each column of the state
    const void *q, *k, *v, *gate, *beta, *state;
    const bool *mask; // NULL: none
    void *out, *next;
};

enum { DELTA_LANES = 16 }; // sums side by side

#define DELTA(name) name##_f32
#define DELTA_TYPE  float
#include "device/cpu/delta_rule.h"
#define DELTA(name) name##_f64
#define DELTA_TYPE  double
#include "device/cpu/delta_rule.h"

bool cpu_gated_delta(const struct call *c) {
    enum { Q, K, V, GATE, BETA, STATE, MASK, INPUTS };
    union scalar room[INPUTS];
    const void *data[INPUTS] = {0};
    for (int i = 0; i < c->inputs; i++)
        data[i] = array_data(c->in[i], &room[i]);
    const int64_t *q = c->in[Q]->dim, *v = c->in[V]->dim;
    struct delta_rule r = {.time = q[1],
                           .groups = q[2],
                           .keys = q[3],
                           .heads = v[2],
                           .values = v[3],
                           .by_column = c->in[GATE]->ndim == 4,
                           .q = data[Q],
                           .k = data[K],
                           .v = data[V],
                           .gate = data[GATE],
                           .beta = data[BETA],
                           .state = data[STATE],
                           .mask = data[MASK],
                           .out = cpu_data(call_output(c, 0)),
                           .next = cpu_data(call_output(c, 1))};
    int64_t work = r.time * r.keys * r.values * (int64_t)array_item(c->in[V]);
    cpu_split(q[0] * r.heads, CPU_SPLIT / 2 / work + 1, c->in[V]->dtype == ZL_FLOAT32 ? heads_f32 : heads_f64,
              &r);
    return true;
}
