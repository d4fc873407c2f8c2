// pjrt_plugin.c - a PJRT plugin that has nothing but devices: KIND is what they are called, DEVICES how many there are. Built by
// test/scripts/bench_detect.sh.

#include <stddef.h>
#include <string.h>

enum { INITIALIZE = 3, CREATE = 10, ADDRESSABLE = 16, KIND_OF = 26, DESCRIPTION = 29, FUNCTIONS = 40 };

struct head {
    size_t bytes;
    void *extension;
};
struct create {
    struct head head;
    void *options[6], *client;
};
struct list {
    struct head head;
    void *subject;
    const void *out;
    size_t count;
};

static void *devices[DEVICES];

static void *nothing(void *a) {
    (void)a;
    return NULL;
}
static void *create(void *a) {
    struct create *c = a;
    if (c->head.bytes < sizeof *c)
        return "too small";
    c->client = devices;
    return NULL;
}
static void *list_devices(void *a) {
    struct list *l = a;
    if (l->subject != devices)
        return "not my client";
    l->out = devices;
    l->count = DEVICES;
    return NULL;
}
static void *describe(void *a) {
    struct list *l = a;
    l->out = l->subject;
    return NULL;
}
static void *kind(void *a) {
    struct list *l = a;
    l->out = KIND;
    l->count = strlen(KIND);
    return NULL;
}
static void *message(void *a) {
    struct list *l = a;
    l->out = l->subject;
    l->count = strlen(l->subject);
    return NULL;
}

struct table {
    struct head head;
    struct head version;
    int major, minor;
    void *(*function[FUNCTIONS])(void *);
};

const struct table *GetPjrtApi(void);
const struct table *GetPjrtApi(void) {
    static struct table table = {{sizeof table, NULL},
                                 {24, NULL},
                                 0,
                                 81,
                                 {[1] = message,
                                  [INITIALIZE] = nothing,
                                  [CREATE] = create,
                                  [ADDRESSABLE] = list_devices,
                                  [KIND_OF] = kind,
                                  [DESCRIPTION] = describe}};
    for (size_t i = 0; i < DEVICES; i++)
        devices[i] = &devices[i];
    return &table;
}
