// lm_sequence.c - generating: the prompt in chunks, then one id after the other, each computed while the one before it is read.
//
// The id that was drawn last never visits the host on its way into the next step. So when zl_sequence_next returns an id, the cache
// holds that id too, and the one after it is under way.

#include "lm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct zl_sequence_ {
    const struct lm_network *network;
    struct lm_cache cache;
    struct lm_sampler sampler;
    int chunk;
    int32_t *ids; // of the prompt that are not computed yet
    int64_t count, done;
    int64_t length;                  // of the prompt and what was returned
    zl_array next, next_probability; // drawn, not returned yet; NULL: none
    zl_array *list;                  // room for what is evaluated together
};

static bool fail(char *error, size_t error_bytes, const char *function, const char *why) {
    if (error && error_bytes)
        snprintf(error, error_bytes, "%s: %s", function, why ? why : "out of memory");
    return false;
}

static void clear(char *error, size_t error_bytes) {
    if (error && error_bytes)
        *error = '\0';
}

static bool queue(zl_sequence s, const int32_t *ids, int64_t count) {
    int64_t left = s->count - s->done;
    int32_t *all = malloc((size_t)(left + count) * sizeof *all);
    if (!all)
        return false;
    if (left)
        memcpy(all, s->ids + s->done, (size_t)left * sizeof *all);
    memcpy(all + left, ids, (size_t)count * sizeof *all);
    free(s->ids);
    s->ids = all, s->count = left + count, s->done = 0;
    s->length += count;
    ZL_SCOPE {
        lm_sampler_see(&s->sampler, zl_from_i32(ids, ZL_SHAPE(count)));
    }
    return true;
}

// Ids that the model does not know would read behind its embedding.
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
    zl_sequence s = calloc(1, sizeof *s);
    if (s) {
        s->network = network;
        s->chunk = options && options->chunk > 0 ? options->chunk : 2048;
        s->list = calloc((size_t)network->config.layers * 2 + 2, sizeof *s->list);
    }
    if (s && s->list && lm_cache_new(&s->cache, network->config.layers) &&
        lm_sampler_new(&s->sampler, options ? options->sampling : NULL, network->config.vocabulary, &why) &&
        queue(s, ids, count))
        return s;
    fail(error, error_bytes, "zl_sequence_start", *why.text ? why.text : NULL);
    zl_sequence_close(s);
    return NULL;
}

void zl_sequence_close(zl_sequence s) {
    if (!s)
        return;
    if (s->next) // what is under way still reads the cache, and is the model's work: nothing of it outlives the sequence
        zl_eval_all(2, (zl_array[]){s->next, s->next_probability});
    lm_cache_free(&s->cache);
    lm_sampler_free(&s->sampler);
    zl_release(s->next);
    zl_release(s->next_probability);
    free(s->ids);
    free(s->list);
    free(s);
}

// Hidden states of the next `count` ids of the prompt.
static zl_array prompt_hidden(zl_sequence s, int64_t count) {
    zl_array ids = zl_from_i32(s->ids + s->done, ZL_SHAPE(1, count));
    s->done += count;
    return lm_hidden(s->network, ids, s->network->config.layers, &s->cache);
}

bool zl_sequence_prefill(zl_sequence s, int64_t *done, char *error, size_t error_bytes) {
    clear(error, error_bytes);
    if (!s)
        return fail(error, error_bytes, "zl_sequence_prefill", "sequence is NULL");
    int64_t left = s->count - s->done - 1, count = left < s->chunk ? left : s->chunk;
    bool computed = false;
    if (left <= 0)
        return false;
    ZL_SCOPE {
        computed = prompt_hidden(s, count) && zl_eval_all(lm_cache_arrays(&s->cache, s->list), s->list);
    }
    if (done)
        *done = s->done;
    return computed || fail(error, error_bytes, "zl_sequence_prefill", zl_error());
}

// Draws the id after the last one of hidden (1, T, hidden), and starts computing it.
static bool draw(zl_sequence s, zl_array hidden) {
    if (!hidden)
        return false;
    int64_t count = zl_dim(hidden, 1);
    zl_array last = lm_slice(hidden, 1, count - 1, count);
    zl_array logits = zl_reshape(lm_logits(s->network, last), ZL_SHAPE(-1)), probability = NULL;
    zl_array id = zl_retain(logits ? lm_sample(&s->sampler, logits, &probability) : NULL);
    if (!id) {
        zl_release(probability);
        return false;
    }
    zl_release(s->next);
    zl_release(s->next_probability);
    s->next = id, s->next_probability = probability;
    int arrays = lm_cache_arrays(&s->cache, s->list);
    s->list[arrays++] = id, s->list[arrays++] = probability;
    return zl_async_eval_all(arrays, s->list);
}

// What was drawn goes into the model; *id and *probability, which are then the caller's, are what it was.
static bool step(zl_sequence s, zl_array *id, zl_array *probability) {
    *id = s->next, *probability = s->next_probability;
    s->next = s->next_probability = NULL;
    bool drawn = false;
    ZL_SCOPE {
        lm_sampler_see(&s->sampler, *id);
        drawn = draw(
            s, lm_hidden(s->network, zl_reshape(*id, ZL_SHAPE(1, 1)), s->network->config.layers, &s->cache));
    }
    return drawn;
}

bool zl_sequence_next(zl_sequence s, zl_token *token, char *error, size_t error_bytes) {
    clear(error, error_bytes);
    if (!s || !token)
        return fail(error, error_bytes, "zl_sequence_next", "sequence or token is NULL");
    char why[512] = "";
    while (zl_sequence_prefill(s, NULL, why, sizeof why))
        ;
    bool ready = !*why;
    if (ready && s->done < s->count)
        ZL_SCOPE {
            ready = draw(s, prompt_hidden(s, s->count - s->done));
        }
    zl_array id = NULL, probability = NULL;
    ready = ready && step(s, &id, &probability);
    int64_t drawn = ready ? zl_item_int(id) : -1;
    float logarithm = ready ? (float)zl_item(probability) : 0;
    zl_release(id);
    zl_release(probability);
    if (!ready || zl_error())
        return fail(error, error_bytes, "zl_sequence_next", *why ? why : zl_error());
    *token = (zl_token){(int32_t)drawn, logarithm};
    s->length++;
    return true;
}

bool zl_sequence_append(zl_sequence s, const int32_t *ids, int64_t count, char *error, size_t error_bytes) {
    clear(error, error_bytes);
    if (!s)
        return fail(error, error_bytes, "zl_sequence_append", "sequence is NULL");
    if (!check_ids(&s->network->config, ids, count, "zl_sequence_append", error, error_bytes))
        return false;
    zl_release(s->next);
    zl_release(s->next_probability);
    s->next = s->next_probability = NULL;
    return queue(s, ids, count) || fail(error, error_bytes, "zl_sequence_append", NULL);
}

bool zl_sequence_trim(zl_sequence s, int64_t length, char *error, size_t error_bytes) {
    clear(error, error_bytes);
    if (!s || length < 1 || length > s->length)
        return fail(error, error_bytes, "zl_sequence_trim",
                    s ? "wanted a length from 1 to that of the sequence" : "sequence is NULL");
    int64_t queued = s->count - s->done, kept = s->cache.length < length ? s->cache.length : length;
    zl_release(s->next);
    zl_release(s->next_probability);
    s->next = s->next_probability = NULL;
    lm_cache_trim(&s->cache, kept);
    s->count = s->done + (length - kept < queued ? length - kept : queued);
    s->length = length;
    return true;
}

int64_t zl_sequence_length(zl_sequence s) {
    return s ? s->length : 0;
}
