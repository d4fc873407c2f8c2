// sample.c - ZL_SAMPLE keeps all but one in so many evaluations off devices whose programs compile slowly.

#include "schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

struct sample {
    uint64_t of, seed; // of = 0: the device runs none
};

static struct sample read_setting(void) {
    char *end;
    uint64_t of = strtoull(setting_text(SETTING_SAMPLE), &end, 10);
    return (struct sample){of, *end == ':' ? strtoull(end + 1, NULL, 10) : 1};
}

static uint64_t add_array(uint64_t hash, zl_array x) {
    hash = hash_bytes(&x->dtype, sizeof x->dtype, hash);
    return hash_bytes(x->dim, sizeof *x->dim * (size_t)x->ndim, hash);
}

// The hash is of ops, dtypes and shapes, not of addresses, so that a seed selects the same evaluations in
// every process.
bool sample_leaves_out(int count, struct call *const *calls) {
    struct sample sample = read_setting();
    if (LIKELY(sample.of <= 1))
        return sample.of == 0;
    uint64_t hash = sample.seed;
    for (int i = 0; i < count; i++) {
        const struct call *c = calls[i];
        hash = hash_bytes(c->op->name, strlen(c->op->name), hash);
        for (int k = 0; k < c->inputs; k++)
            hash = add_array(hash, c->in[k]);
        for (int k = 0; k < c->outputs; k++)
            hash = add_array(hash, call_output(c, k));
    }
    return hash % sample.of;
}
