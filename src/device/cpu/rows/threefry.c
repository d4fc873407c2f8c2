// threefry.c - random bits: words of the counter-based generator in op/threefry.h.
//
// Each key has its own part of the result, as 32-bit words. Counter i yields words i and pairs + i, one in
// each half of the part. Every word depends on its position alone, so the bits are the same for any number of
// threads.

#include "device/cpu/rows/operands.h"
#include "op/ops.h"
#include "op/threefry.h"

#include <string.h>

enum { GRAIN = 8192 }; // pairs: about 30 us

struct drawing {
    const uint32_t *keys;
    char *out;
    int64_t bytes; // of the part of one key
    int64_t pairs; // counters of one key: half of its words, rounded up
    int64_t both;  // counters of which both words are kept
};

// Stores words from position `at` on, up to the end of the part, which may be within a word.
static void store(const struct drawing *d, char *part, int64_t at, const void *words, int64_t count) {
    int64_t bytes = MIN_OF(4 * count, d->bytes - 4 * at);
    if (bytes > 0)
        memcpy(part + 4 * at, words, (size_t)bytes);
}

static void draw_few(const struct drawing *d, const uint32_t *key, char *part, int64_t at, int64_t count) {
    threefry_words x[THREEFRY_VECTORS], y[THREEFRY_VECTORS];
    for (int64_t i = 0; i < THREEFRY_LANES;
         i++) { // the last of an odd number of words has counter (pairs - 1, 0)
        x[i / 4][i % 4] = (uint32_t)(at + i);
        y[i / 4][i % 4] = at + i < d->both ? (uint32_t)(d->pairs + at + i) : 0;
    }
    threefry(key, x, y);
    store(d, part, at, x, count);
    store(d, part, d->pairs + at, y, MIN_OF(count, d->both - at));
}

// Draws THREEFRY_LANES counters of which all words are kept.
static inline void draw_block(const struct drawing *d, const uint32_t *key, char *part, int64_t at) {
    const threefry_words lane = {0, 1, 2, 3};
    threefry_words x[THREEFRY_VECTORS], y[THREEFRY_VECTORS];
    THREEFRY_EACH {
        x[v] = lane + (uint32_t)(at + 4 * v);
        y[v] = lane + (uint32_t)(d->pairs + at + 4 * v);
    }
    threefry(key, x, y);
    memcpy(part + 4 * at, x, sizeof x);
    memcpy(part + 4 * (d->pairs + at), y, sizeof y);
}

// Draws counters [at, end) of one key.
static void draw_pairs(const struct drawing *d, const uint32_t *key, char *part, int64_t at, int64_t end) {
    int64_t whole = MIN_OF(end, d->bytes / 4 - d->pairs);
    for (; at + THREEFRY_LANES <= whole; at += THREEFRY_LANES)
        draw_block(d, key, part, at);
    for (; at < end; at += THREEFRY_LANES)
        draw_few(d, key, part, at, MIN_OF(THREEFRY_LANES, end - at));
}

// Draws counters [from, to), which are numbered over all keys.
static void draw_part(const void *context, int64_t from, int64_t to) {
    const struct drawing *d = context;
    while (from < to) {
        int64_t key = from / d->pairs, at = from % d->pairs, end = MIN_OF(d->pairs, at + to - from);
        draw_pairs(d, d->keys + 2 * key, d->out + key * d->bytes, at, end);
        from += end - at;
    }
}

bool cpu_random_bits(const struct call *c) {
    zl_array keys = c->in[0], out = call_output(c, 0);
    int64_t count = keys->size / 2, bytes = out->size / count * (int64_t)array_item(out),
            words = (bytes + 3) / 4;
    struct drawing d = {.keys = (const uint32_t *)(const void *)cpu_data(keys),
                        .out = cpu_data(out),
                        .bytes = bytes,
                        .pairs = words - words / 2,
                        .both = words / 2};
    cpu_split(count * d.pairs, GRAIN, draw_part, &d);
    return true;
}
