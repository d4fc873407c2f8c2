// null.c - a device that computes nothing, for timing and testing everything above the devices.
//
// Outputs get memory but keep whatever was in it.

#include "device/device.h"

struct program {
    int calls;
};

static int open_null(const char **reason) {
    (void)reason;
    return 1;
}

static bool describe(int unit, zl_device_info *out) {
    (void)unit;
    out->model = "nothing";
    out->detail = "computes nothing: results are undefined";
    out->cores = 1;
    return true;
}

static bool can(int unit, const struct call *c) {
    (void)unit, (void)c;
    return true;
}

static struct program *build(int unit, const struct segment *s) {
    (void)unit;
    struct program *p = memory_alloc(sizeof *p);
    if (p)
        p->calls = s->calls;
    return p;
}

static void drop(struct program *p) {
    memory_free(p);
}

static void run(int unit, struct program *p, struct binding *b) {
    (void)unit, (void)p;
    for (int i = 0; i < b->calls; i++) {
        if (b->prepare(b, i, true))
            b->finish(b, i);
        else
            b->fail(b, i);
    }
}

const struct device device_null = {
    .name = "null",
    .open = open_null,
    .describe = describe,
    .can = can,
    .build = build,
    .drop = drop,
    .run = run,
};
