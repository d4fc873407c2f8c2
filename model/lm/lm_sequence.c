// lm_sequence.c - generates ids: computes the prompt in chunks, then one id after the other. While the caller
// reads an id, the next one is already computed.
//
// The id drawn last goes into the next step on the device, without a copy to the host. So when
// zl_sequence_next returns an id, the cache includes that id too, and the id after it is being computed.
// Otherwise the ids [cache.length, length) are still to be computed.

#include "lm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fail(char *error, size_t error_bytes, const char *function, const char *why) {
    if (error && error_bytes)
        snprintf(error, error_bytes, "%s: %s", function, why ? why : "out of memory");
    return false;
}

static void clear(char *error, size_t error_bytes) {
    if (error && error_bytes)
        *error = '\0';
}

bool lm_sequence_settle(zl_sequence s) {
    if (lm_decode_end(&s->decode, &s->next, &s->next_probability))
        return true;
    lm_sequence_start_over(s);
    return false;
}

// Gives the sequence its own cache again and ends its loop. Returns false after an error.
static bool is_settled(zl_sequence s) {
    return lm_batch_apart(s->batch) && lm_sequence_settle(s);
}

static void forget_next(zl_sequence s) {
    zl_release(s->next);
    zl_release(s->next_probability);
    s->next = s->next_probability = NULL;
}

// Saves the state of recurrent layers at the present length, so that the sequence can be trimmed back to it:
// these layers keep no history. The oldest saved state is dropped for it.
static bool remember(zl_sequence s) {
    if (!lm_cache_is_recurrent(&s->cache) || (s->pasts && s->past[s->pasts - 1].length == s->cache.length))
        return true;
    if (s->pasts == LM_PAST_MOST) {
        lm_cache_free(&s->past[0]);
        memmove(s->past, s->past + 1, (LM_PAST_MOST - 1) * sizeof *s->past);
        s->pasts--;
    }
    return lm_cache_copy(&s->past[s->pasts++], &s->cache, true);
}

// Trims the cache to `length` positions, or if layers are recurrent, to the last saved state at or before
// that.
static void rewind_cache(zl_sequence s, int64_t length) {
    if (length >= s->cache.length)
        return;
    while (s->pasts && s->past[s->pasts - 1].length > length)
        lm_cache_free(&s->past[--s->pasts]);
    const struct lm_cache *past = s->pasts ? &s->past[s->pasts - 1] : NULL;
    if (lm_cache_is_recurrent(&s->cache))
        lm_cache_trim(&s->cache, past ? past->length : 0, past);
    else
        lm_cache_trim(&s->cache, length, NULL);
}

// Makes the history of penalties that of all ids.
static void see_all(zl_sequence s) {
    lm_sampler_forget(&s->sampler);
    ZL_SCOPE {
        lm_sampler_see(&s->sampler, zl_from_i32(s->ids, ZL_SHAPE(s->length)));
    }
}

static bool grow(zl_sequence s, int64_t length) {
    if (length <= s->room)
        return true;
    int64_t room = length + length / 2 + 256;
    int32_t *ids = realloc(s->ids, (size_t)room * sizeof *ids);
    if (!ids)
        return false;
    s->ids = ids, s->room = room;
    return true;
}

static bool queue(zl_sequence s, const int32_t *ids, int64_t count) {
    if (!grow(s, s->length + count) || !remember(s))
        return false;
    memcpy(s->ids + s->length, ids, (size_t)count * sizeof *ids);
    s->length += count;
    ZL_SCOPE {
        lm_sampler_see(&s->sampler, zl_from_i32(ids, ZL_SHAPE(count)));
    }
    return true;
}

void lm_sequence_start_over(zl_sequence s) {
    zl_array next = NULL, probability = NULL;
    lm_decode_end(&s->decode, &next, &probability);
    zl_release(next);
    zl_release(probability);
    forget_next(s);
    lm_cache_clear(&s->cache);
    while (s->pasts)
        lm_cache_free(&s->past[--s->pasts]);
    see_all(s);
}

// Checks ids against the vocabulary: a larger one would read past the end of the embedding.
static bool check_ids(const struct lm_config *c, const int32_t *ids, int64_t count, const char *function,
                      char *error, size_t error_bytes) {
    char why[128];
    if (!ids || count < 1)
        return fail(error, error_bytes, function, "wanted at least one id");
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= c->vocabulary) {
            snprintf(why, sizeof why, "id %d at position %lld: the model has ids from 0 to %d", ids[i],
                     (long long)i, c->vocabulary - 1);
            return fail(error, error_bytes, function, why);
        }
    return true;
}

static zl_sequence new_sequence(const struct lm_network *network, int chunk) {
    zl_sequence s = calloc(1, sizeof *s);
    if (s) {
        s->network = network;
        s->chunk = chunk > 0 ? chunk : 2048;
        s->own_sampler[0] = &s->sampler;
        s->decode = (struct lm_decode){
            .network = network, .cache = &s->cache, .sampler = s->own_sampler, .count = 1};
        s->list = calloc((size_t)network->config.layers * LM_CACHE_ARRAYS + 2, sizeof *s->list);
    }
    return s;
}

zl_sequence zl_sequence_start(zl_model model, const int32_t *ids, int64_t count,
                              const zl_sequence_options *options, char *error, size_t error_bytes) {
    struct lm_error why = {""};
    if (!model) {
        fail(error, error_bytes, "zl_sequence_start", "model is NULL");
        return NULL;
    }
    const struct lm_network *network = lm_network_of(model);
    if (!check_ids(&network->config, ids, count, "zl_sequence_start", error, error_bytes))
        return NULL;
    zl_sequence s = new_sequence(network, options ? options->chunk : 0);
    if (s && s->list &&
        lm_cache_quantized(&s->cache, network->config.layers, options ? options->kv_bits : 0,
                           network->config.head_dim, &why) &&
        lm_sampler_new(&s->sampler, options ? options->sampling : NULL, network->config.vocabulary, &why) &&
        queue(s, ids, count))
        return s;
    fail(error, error_bytes, "zl_sequence_start", *why.text ? why.text : NULL);
    zl_sequence_close(s);
    return NULL;
}

zl_sequence zl_sequence_copy(zl_sequence from, char *error, size_t error_bytes) {
    zl_sequence s = from ? new_sequence(from->network, from->chunk) : NULL;
    bool copied = s && s->list && is_settled(from) && grow(s, from->length) &&
                  lm_cache_copy(&s->cache, &from->cache, false);
    for (int i = 0; copied && i < from->pasts; i++)
        copied = lm_cache_copy(&s->past[s->pasts++], &from->past[i], true);
    if (copied) {
        memcpy(s->ids, from->ids, (size_t)from->length * sizeof *s->ids);
        s->length = from->length;
        s->next = zl_retain(from->next), s->next_probability = zl_retain(from->next_probability);
        lm_sampler_copy(&s->sampler, &from->sampler);
        return s;
    }
    fail(error, error_bytes, "zl_sequence_copy", from ? zl_error() : "sequence is NULL");
    zl_sequence_close(s);
    return NULL;
}

void zl_sequence_close(zl_sequence s) {
    if (!s)
        return;
    zl_batch_remove(s->batch, s);
    lm_sequence_settle(s);
    // Work that is still running reads the cache and the weights: wait for it before they are freed.
    if (s->next)
        zl_eval_all(2, (zl_array[]){s->next, s->next_probability});
    lm_cache_free(&s->cache);
    while (s->pasts)
        lm_cache_free(&s->past[--s->pasts]);
    lm_sampler_free(&s->sampler);
    forget_next(s);
    free(s->ids);
    free(s->list);
    free(s);
}

// Returns the hidden states of the next `count` ids that are not computed yet.
static zl_array prompt_hidden(zl_sequence s, int64_t count) {
    zl_array ids = zl_from_i32(s->ids + s->cache.length, ZL_SHAPE(1, count));
    return lm_hidden(s->network, ids, s->network->config.layers, &s->cache);
}

bool zl_sequence_prefill(zl_sequence s, int64_t *done, char *error, size_t error_bytes) {
    clear(error, error_bytes);
    if (!s)
        return fail(error, error_bytes, "zl_sequence_prefill", "sequence is NULL");
    if (!is_settled(s))
        return fail(error, error_bytes, "zl_sequence_prefill", zl_error());
    int64_t left = s->next ? 0 : s->length - s->cache.length - 1, count = left < s->chunk ? left : s->chunk;
    bool computed = false;
    if (left <= 0)
        return false;
    ZL_SCOPE {
        computed = prompt_hidden(s, count) && zl_eval_all(lm_cache_arrays(&s->cache, s->list), s->list) &&
                   (count < left || remember(s));
    }
    if (done)
        *done = s->cache.length;
    if (computed)
        return true;
    fail(error, error_bytes, "zl_sequence_prefill", zl_error());
    lm_sequence_start_over(s);
    return false;
}

// Draws the id after the last position of `hidden` (1, T, hidden), and starts computing it.
static bool draw(zl_sequence s, zl_array hidden) {
    if (!hidden)
        return false;
    int64_t count = zl_dim(hidden, 1);
    zl_array last = zl_squeeze(lm_slice(hidden, 1, count - 1, count), ZL_AXES(1)), probability = NULL;
    zl_array id = zl_retain(lm_decode_draw(s->own_sampler, 1, lm_logits(s->network, last), &probability));
    if (!id) {
        zl_release(probability);
        return false;
    }
    forget_next(s);
    s->next = id, s->next_probability = probability;
    int arrays = lm_cache_arrays(&s->cache, s->list);
    s->list[arrays++] = s->next, s->list[arrays++] = s->next_probability;
    return zl_async_eval_all(arrays, s->list);
}

bool lm_sequence_ready(zl_sequence s, char *error, size_t error_bytes) {
    bool drawn = s->next || s->decode.loop;
    clear(error, error_bytes);
    if (drawn)
        return true;
    if (!is_settled(s))
        return false;
    rewind_cache(s, s->length - 1); // the last id is computed again, because its hidden state is needed
    while (zl_sequence_prefill(s, NULL, error, error_bytes))
        ;
    if (!*error)
        ZL_SCOPE {
            drawn = draw(s, prompt_hidden(s, 1));
        }
    if (!drawn)
        lm_sequence_start_over(s);
    return drawn;
}

bool lm_sequence_take(zl_sequence s, zl_token token) {
    if (!grow(s, s->length + 1))
        return false;
    s->ids[s->length++] = token.id;
    return true;
}

bool zl_sequence_next(zl_sequence s, zl_token *token, char *error, size_t error_bytes) {
    clear(error, error_bytes);
    if (!s || !token)
        return fail(error, error_bytes, "zl_sequence_next", "sequence or token is NULL");
    char why[512] = "";
    zl_array id = NULL, probability = NULL;
    bool taken =
        lm_batch_apart(s->batch) && lm_sequence_ready(s, why, sizeof why) &&
        lm_decode_step(&s->decode, &s->next, &s->next_probability, &id, &probability);
    if (taken)
        *token = (zl_token){(int32_t)zl_item_int(id), (float)zl_item(probability)};
    taken = taken && !zl_error() && lm_sequence_take(s, *token);
    zl_release(id);
    zl_release(probability);
    if (taken)
        return true;
    fail(error, error_bytes, "zl_sequence_next", *why ? why : zl_error());
    lm_sequence_start_over(s);
    return false;
}

bool zl_sequence_append(zl_sequence s, const int32_t *ids, int64_t count, char *error, size_t error_bytes) {
    clear(error, error_bytes);
    if (!s)
        return fail(error, error_bytes, "zl_sequence_append", "sequence is NULL");
    if (!check_ids(&s->network->config, ids, count, "zl_sequence_append", error, error_bytes))
        return false;
    if (!is_settled(s))
        return fail(error, error_bytes, "zl_sequence_append", zl_error());
    forget_next(s);
    return queue(s, ids, count) || fail(error, error_bytes, "zl_sequence_append", NULL);
}

bool zl_sequence_trim(zl_sequence s, int64_t length, char *error, size_t error_bytes) {
    clear(error, error_bytes);
    if (!s || length < 1 || length > s->length)
        return fail(error, error_bytes, "zl_sequence_trim",
                    s ? "wanted a length from 1 to that of the sequence" : "sequence is NULL");
    if (!is_settled(s))
        return fail(error, error_bytes, "zl_sequence_trim", zl_error());
    forget_next(s);
    rewind_cache(s, length);
    s->length = length;
    see_all(s);
    return true;
}

int64_t zl_sequence_length(zl_sequence s) {
    return s ? s->length : 0;
}
