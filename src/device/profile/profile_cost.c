// profile_cost.c - computes what the steps and launches of a profile read, write and compute.
//
// For a tile kernel these follow from its IR (tile_cost), for the sizes of the launch. A library call has no
// IR: it is assigned the rest of its step, whose operations the scheduler counted from the shapes of the
// arrays.

#include "device/profile/profile.h"

#include <string.h>

// Caches: kernels by their texts, each of which is parsed once, and costs by text and sizes.
struct costs {
    struct map kernels; // address of the text -> struct tile_kernel
    struct map known;   // text and sizes -> struct tile_cost
};

static void free_kernel(const void *key, size_t bytes, void *value, void *data) {
    (void)key, (void)bytes, (void)data;
    tile_free(value);
}

static void free_cost(const void *key, size_t bytes, void *value, void *data) {
    (void)key, (void)bytes, (void)data;
    memory_free(value);
}

static const struct tile_kernel *kernel_of(struct costs *c, const char *text) {
    struct tile_kernel *kernel = map_get(&c->kernels, &text, sizeof text);
    if (kernel)
        return kernel;
    kernel = tile_parse(text, "profile");
    if (kernel && map_set(&c->kernels, &text, sizeof text, kernel))
        return kernel;
    tile_free(kernel);
    return NULL;
}

// Returns the costs of a kernel launch, cached. NULL if memory is out.
static const struct tile_cost *cost_of(struct costs *c, const struct profile_record *r) {
    const uintptr_t *word = profile_words(r);
    size_t bytes = sizeof *word * r->words;
    struct tile_cost *cost = map_get(&c->known, word, bytes);
    if (cost)
        return cost;
    const struct tile_kernel *kernel = kernel_of(c, (const char *)word[0]);
    if (!kernel || !(cost = memory_alloc(sizeof *cost)))
        return NULL;
    int64_t symbol[UINT8_MAX] = {0};
    for (int i = 0; i + 1 < r->words && i < (int)COUNT(symbol); i++)
        symbol[i] = (int64_t)word[i + 1];
    *cost = tile_cost(kernel, symbol);
    if (map_set(&c->known, word, bytes, cost))
        return cost;
    memory_free(cost);
    return NULL;
}

// Sets the operations and bytes of a launch. The IR tells how much memory a kernel moves, not in which
// direction, so its bytes are divided in the proportion of the arguments' bytes.
static bool set_launch(struct costs *c, struct profile_span *s) {
    s->read = (double)s->r->read;
    s->written = (double)s->r->written;
    if (!s->r->words)
        return true;
    const struct tile_cost *cost = cost_of(c, s->r);
    if (!cost)
        return false;
    double all = s->read + s->written, share = all > 0 ? MIN_OF(cost->bytes / all, 1) : 1;
    s->flops = cost->flops;
    s->read *= share;
    s->written *= share;
    return true;
}

// Returns whether a launch gets a part of the rest of its step, that is, of the operations that no kernel's
// IR accounts for. Library calls share it; without any, kernels whose loops end at values from data.
static bool takes_rest(const struct profile_span *s, bool of_libraries) {
    return s->r->kind == PROFILE_LAUNCH && s->step >= 0 && !s->r->is_part &&
           (of_libraries ? !s->r->words : s->flops == 0);
}

// Per step: the operations that are not assigned to a launch yet, and among how many launches they are
// divided.
struct rest {
    double flops;
    int shares;
};

static void divide_rest(struct profile *p, struct rest *rest, bool of_libraries) {
    for (int i = 0; i < p->spans; i++)
        rest[i].shares = 0;
    for (int i = 0; i < p->spans; i++)
        if (takes_rest(&p->span[i], of_libraries))
            rest[p->span[i].step].shares++;
    for (int i = 0; i < p->spans; i++) {
        struct profile_span *s = &p->span[i];
        struct rest *of = s->step >= 0 ? &rest[s->step] : NULL;
        if (of && of->flops > 0 && takes_rest(s, of_libraries))
            s->flops = of->flops / of->shares;
    }
    for (int i = 0; i < p->spans; i++)
        if (rest[i].shares)
            rest[i].flops = 0;
}

static bool set_rest(struct profile *p) {
    struct rest *rest = memory_zero(sizeof *rest * (size_t)MAX_OF(p->spans, 1));
    if (!rest)
        return false;
    for (int i = 0; i < p->spans; i++)
        rest[i].flops += p->span[i].r->kind == PROFILE_OPS ? p->span[i].flops : 0;
    for (int i = 0; i < p->spans; i++)
        if (p->span[i].r->kind == PROFILE_LAUNCH && p->span[i].step >= 0)
            rest[p->span[i].step].flops -= p->span[i].flops;
    divide_rest(p, rest, true);
    divide_rest(p, rest, false);
    memory_free(rest);
    return true;
}

bool profile_set_costs(struct profile *p) {
    struct costs c = {.known = {.count = 0}};
    bool good = true;
    for (int i = 0; good && i < p->spans; i++) {
        struct profile_span *s = &p->span[i];
        if (s->r->kind == PROFILE_LAUNCH || s->r->kind == PROFILE_KERNEL) {
            good = set_launch(&c, s);
        } else {
            s->read = (double)s->r->read;
            s->written = (double)s->r->written;
            s->flops = (double)s->r->flops;
        }
    }
    good = good && set_rest(p);
    map_each(&c.kernels, free_kernel, NULL);
    map_each(&c.known, free_cost, NULL);
    map_free(&c.kernels);
    map_free(&c.known);
    return good;
}
