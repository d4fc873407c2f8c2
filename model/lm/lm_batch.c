// lm_batch.c - computes several sequences in one step: their caches are joined to one cache, in which all
// sequences end at the same position.
//
// A sequence that is used by itself, joins or leaves makes the batch give each sequence its own cache again.
// The next step joins the caches once more, which copies them.

#include "lm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct zl_batch_ {
    const struct lm_network *network;
    zl_sequence *member;
    int count, room;
    bool joined;
    // While joined: the cache of all members, and the ids (count) that were drawn and not returned yet.
    struct lm_cache cache;
    zl_array next, next_probability;
    struct lm_sampler **sampler;
    struct lm_decode decode;
};

static bool fail(char *error, size_t error_bytes, const char *function, const char *why) {
    if (error && error_bytes)
        snprintf(error, error_bytes, "%s: %s", function, why && *why ? why : "out of memory");
    return false;
}

zl_batch zl_batch_new(zl_model model) {
    zl_batch b = model ? calloc(1, sizeof *b) : NULL;
    if (b)
        b->network = lm_network_of(model);
    return b;
}

static void forget_joined(zl_batch b) {
    lm_cache_free(&b->cache);
    zl_release(b->next);
    zl_release(b->next_probability);
    b->next = b->next_probability = NULL;
    free(b->sampler);
    b->sampler = NULL;
    b->joined = false;
}

bool lm_batch_apart(zl_batch b) {
    if (!b || !b->joined)
        return true;
    bool apart = lm_decode_end(&b->decode, &b->next, &b->next_probability);
    for (int i = 0; apart && i < b->count; i++) {
        zl_sequence s = b->member[i];
        apart = lm_cache_part(&s->cache, &b->cache, i, s->length);
        ZL_SCOPE {
            s->next = zl_retain(lm_slice(b->next, 0, i, i + 1));
            s->next_probability = zl_retain(lm_slice(b->next_probability, 0, i, i + 1));
        }
        apart = apart && s->next && s->next_probability;
    }
    forget_joined(b);
    for (int i = 0; !apart && i < b->count; i++)
        lm_sequence_start_over(b->member[i]);
    return apart;
}

// Drops what the members computed together, after an error.
static void start_over(zl_batch b) {
    if (b->joined) {
        lm_decode_end(&b->decode, &b->next, &b->next_probability);
        forget_joined(b);
        for (int i = 0; i < b->count; i++)
            lm_sequence_start_over(b->member[i]);
    }
}

// Releases the sequence's own arrays, whose contents are in the joined cache.
static void forget_own(zl_sequence s) {
    lm_cache_clear(&s->cache);
    zl_release(s->next);
    zl_release(s->next_probability);
    s->next = s->next_probability = NULL;
}

static bool join(zl_batch b) {
    const struct lm_cache **cache = calloc((size_t)b->count, sizeof *cache);
    zl_array *next = calloc((size_t)b->count * 2, sizeof *next);
    for (int i = 0; cache && next && i < b->count; i++) {
        zl_sequence s = b->member[i];
        cache[i] = &s->cache, next[i] = s->next, next[b->count + i] = s->next_probability;
    }
    b->sampler = calloc((size_t)b->count, sizeof(struct lm_sampler *));
    for (int i = 0; b->sampler && i < b->count; i++)
        b->sampler[i] = &b->member[i]->sampler;
    b->decode = (struct lm_decode){
        .network = b->network, .cache = &b->cache, .sampler = b->sampler, .count = b->count};
    b->joined = cache && next && b->sampler && lm_cache_join(&b->cache, cache, b->count);
    if (b->joined)
        ZL_SCOPE {
            b->next = zl_retain(zl_concatenate(next, b->count, 0));
            b->next_probability = zl_retain(zl_concatenate(next + b->count, b->count, 0));
        }
    free(cache);
    free(next);
    if (!b->next || !b->next_probability) {
        forget_joined(b);
        return false;
    }
    for (int i = 0; i < b->count; i++)
        forget_own(b->member[i]);
    return true;
}

bool zl_batch_add(zl_batch b, zl_sequence s, char *error, size_t error_bytes) {
    if (!b || !s)
        return fail(error, error_bytes, "zl_batch_add", "batch or sequence is NULL");
    if (s->batch || s->network != b->network)
        return fail(error, error_bytes, "zl_batch_add",
                    s->batch ? "the sequence is in a batch" : "the sequence is of another model");
    if (!lm_batch_apart(b))
        return fail(error, error_bytes, "zl_batch_add", zl_error());
    if (b->count && b->member[0]->cache.bits != s->cache.bits)
        return fail(error, error_bytes, "zl_batch_add", "the sequences differ in kv_bits");
    if (b->count == b->room) {
        int room = b->room * 2 + 8;
        zl_sequence *more = realloc(b->member, (size_t)room * sizeof(zl_sequence));
        if (!more)
            return fail(error, error_bytes, "zl_batch_add", NULL);
        b->member = more, b->room = room;
    }
    b->member[b->count++] = s;
    s->batch = b;
    return true;
}

void zl_batch_remove(zl_batch b, zl_sequence s) {
    if (!b || !s || s->batch != b)
        return;
    lm_batch_apart(b);
    int at = 0;
    while (b->member[at] != s)
        at++;
    memmove(b->member + at, b->member + at + 1, (size_t)(--b->count - at) * sizeof(zl_sequence));
    s->batch = NULL;
}

int zl_batch_count(zl_batch b) {
    return b ? b->count : 0;
}

void zl_batch_close(zl_batch b) {
    while (b && b->count)
        zl_batch_remove(b, b->member[b->count - 1]);
    if (b)
        free(b->member);
    free(b);
}

bool zl_batch_next(zl_batch b, zl_token *tokens, char *error, size_t error_bytes) {
    char why[512] = "";
    if (!b || !b->count || !tokens)
        return fail(error, error_bytes, "zl_batch_next",
                    b && tokens ? "the batch has no sequence" : "batch or tokens is NULL");
    if (error && error_bytes)
        *error = '\0';
    zl_array id = NULL, probability = NULL;
    bool done = true;
    for (int i = 0; done && !b->joined && i < b->count; i++)
        done = lm_sequence_ready(b->member[i], why, sizeof why) && lm_sequence_settle(b->member[i]);
    done = done && (b->joined || join(b)) &&
           lm_decode_step(&b->decode, &b->next, &b->next_probability, &id, &probability);
    const int32_t *ids = done ? zl_data_i32(id) : NULL;
    const float *logarithms = ids ? zl_data_f32(probability) : NULL;
    done = logarithms;
    for (int i = 0; done && i < b->count; i++) {
        tokens[i] = (zl_token){ids[i], logarithms[i]};
        done = lm_sequence_take(b->member[i], tokens[i]);
    }
    zl_release(id);
    zl_release(probability);
    if (done)
        return true;
    fail(error, error_bytes, "zl_batch_next", *why ? why : zl_error());
    start_over(b);
    return false;
}
