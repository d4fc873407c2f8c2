// lm_batch.c - several sequences in one step: their caches are joined to one, in which the ends of the sequences lie side by side.
//
// A sequence that is used by itself, or joins or leaves, takes the caches apart again; the next step joins them anew, which copies them
// once.

#include "lm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct zl_batch_ {
    const struct lm_network *network;
    zl_sequence *member;
    int count, room;
    bool joined;
    struct lm_cache cache; // of all members, while joined
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

bool lm_batch_apart(zl_batch b) {
    if (!b || !b->joined)
        return true;
    for (int i = 0; i < b->count; i++) {
        struct lm_cache own;
        if (!lm_cache_part(&own, &b->cache, i, b->member[i]->length)) {
            lm_cache_free(&own);
            return false;
        }
        lm_cache_free(&b->member[i]->cache);
        b->member[i]->cache = own;
    }
    lm_cache_free(&b->cache);
    b->joined = false;
    return true;
}

static bool join(zl_batch b) {
    const struct lm_cache **one = calloc((size_t)b->count, sizeof *one);
    for (int i = 0; one && i < b->count; i++)
        one[i] = &b->member[i]->cache;
    b->joined = one && lm_cache_join(&b->cache, one, b->count);
    free(one);
    if (!b->joined)
        lm_cache_free(&b->cache);
    for (int i = 0; b->joined && i < b->count; i++) // the joined cache has it all
        lm_cache_free(&b->member[i]->cache);
    return b->joined;
}

bool zl_batch_add(zl_batch b, zl_sequence s, char *error, size_t error_bytes) {
    if (!b || !s)
        return fail(error, error_bytes, "zl_batch_add", "batch or sequence is NULL");
    if (s->batch || s->network != b->network)
        return fail(error, error_bytes, "zl_batch_add",
                    s->batch ? "the sequence is in a batch" : "the sequence is of another model");
    if (!lm_batch_apart(b))
        return fail(error, error_bytes, "zl_batch_add", zl_error());
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

// What goes into the model, (count, 1), and then belongs to the caller with its probabilities.
static zl_array take_ids(zl_batch b, zl_array *id, zl_array *probability) {
    for (int i = 0; i < b->count; i++) {
        zl_sequence s = b->member[i];
        id[i] = s->next, probability[i] = s->next_probability;
        s->next = s->next_probability = NULL;
        lm_sampler_see(&s->sampler, id[i]);
    }
    return zl_reshape(zl_concatenate(id, b->count, 0), ZL_SHAPE(b->count, 1));
}

// Computes the step after ids that were drawn, and draws the next ones.
static bool step(zl_batch b, zl_array *id, zl_array *probability) {
    int layers = b->network->config.layers, arrays = 0;
    zl_array *list = calloc((size_t)layers * 2 + (size_t)b->count * 2, sizeof *list);
    bool drawn = list;
    ZL_SCOPE {
        zl_array ids = take_ids(b, id, probability);
        zl_array hidden = drawn ? lm_hidden(b->network, ids, layers, &b->cache) : NULL;
        zl_array logits = hidden ? lm_logits(b->network, hidden) : NULL;
        for (int i = 0; drawn && i < b->count; i++)
            drawn = logits &&
                    lm_sequence_draw(b->member[i], zl_reshape(lm_slice(logits, 0, i, i + 1), ZL_SHAPE(-1)));
        arrays = drawn ? lm_cache_arrays(&b->cache, list) : 0;
        for (int i = 0; drawn && i < b->count; i++)
            list[arrays++] = b->member[i]->next, list[arrays++] = b->member[i]->next_probability;
        drawn = drawn && zl_async_eval_all(arrays, list);
    }
    free(list);
    return drawn;
}

bool zl_batch_next(zl_batch b, zl_token *tokens, char *error, size_t error_bytes) {
    char why[512] = "";
    if (!b || !b->count || !tokens)
        return fail(error, error_bytes, "zl_batch_next",
                    b && tokens ? "the batch has no sequence" : "batch or tokens is NULL");
    if (error && error_bytes)
        *error = '\0';
    zl_array *id = calloc((size_t)b->count * 2, sizeof *id), *probability = id ? id + b->count : NULL;
    bool done = id;
    for (int i = 0; done && i < b->count; i++)
        done = lm_sequence_ready(b->member[i], why, sizeof why);
    done = done && (b->joined || join(b)) && step(b, id, probability);
    for (int i = 0; done && i < b->count; i++)
        done = lm_sequence_take(b->member[i], id[i], probability[i], &tokens[i]);
    for (int i = 0; id && i < 2 * b->count; i++)
        zl_release(id[i]);
    free(id);
    return done || fail(error, error_bytes, "zl_batch_next", *why ? why : zl_error());
}
