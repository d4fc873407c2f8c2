// sample.c - which evaluations are kept from a device whose programs take long to compile: all but one of so many, by ZL_SAMPLE.

#include "schedule/schedule.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct { uint64_t of, seed; } sample;

static void read_setting(void) {
    const char *text = setting_text(SETTING_SAMPLE);
    char *end;
    sample.of = strtoull(text, &end, 10);
    sample.seed = *end == ':' ? strtoull(end + 1, NULL, 10) : 1;
}

static uint64_t add_array(uint64_t hash, zl_array x) {
    hash = hash_bytes(&x->dtype, sizeof x->dtype, hash);
    return hash_bytes(x->dim, sizeof *x->dim * (size_t)x->ndim, hash);
}

// By what they are, not where they lie: the same seed takes the same ones in every process.
bool sample_leaves_out(int count, struct call *const *calls) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_setting);
    if (LIKELY(sample.of <= 1))
        return false;
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
