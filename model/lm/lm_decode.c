// lm_decode.c - decodes one token per step, as turns of a loop, which is recorded and planned once for all
// positions that the cache has room for.
//
// The state of the loop: the ids drawn last (count), their position in the cache (1), the arrays of the
// samplers, and those of the cache. Its results: the ids that a turn draws, which are also part of the next
// state, and the logarithms of their probabilities.

#include "lm.h"

#include <stdlib.h>

// Drawing ---------------------------------------------------------------------------------------------------

static bool all_are_plain(struct lm_sampler *const *sampler, int count) {
    bool plain = true;
    for (int i = 0; i < count; i++)
        plain = plain && lm_sampler_is_plain(sampler[i]);
    return plain;
}

// Draws from each row with its own sampler.
static zl_array draw_each(struct lm_sampler *const *sampler, int count, zl_array logits,
                          zl_array *log_probability) {
    zl_array *each = calloc((size_t)count * 2, sizeof *each), id = NULL;
    bool drawn = each;
    *log_probability = NULL;
    for (int i = 0; drawn && i < count; i++) {
        zl_array row = zl_reshape(lm_slice(logits, 0, i, i + 1), ZL_SHAPE(-1));
        drawn = row && (each[i] = lm_sample(sampler[i], row, &each[count + i]));
    }
    if (drawn) {
        id = zl_concatenate(each, count, 0);
        *log_probability = zl_retain(zl_concatenate(each + count, count, 0));
    }
    for (int i = 0; each && i < count; i++)
        zl_release(each[count + i]);
    free(each);
    return *log_probability ? id : NULL;
}

zl_array lm_decode_draw(struct lm_sampler *const *sampler, int count, zl_array logits,
                        zl_array *log_probability) {
    if (!logits)
        return NULL;
    return all_are_plain(sampler, count) ? lm_sample_plain(logits, log_probability)
                                         : draw_each(sampler, count, logits, log_probability);
}

// A turn ----------------------------------------------------------------------------------------------------

enum { IDS, AT, FIRST }; // indices in the state

// Lists the arrays of the samplers at their places in the state. Returns the index at which those of the
// cache begin.
static int list_samplers(const struct lm_decode *d, zl_array *list) {
    int count = FIRST;
    for (int i = 0; i < d->count; i++)
        count += lm_sampler_arrays(d->sampler[i], list + count);
    return count;
}

// Copies the samplers, with arrays of the state instead of their own. Returns how many arrays of the state
// were used.
static int copy_samplers(const struct lm_decode *d, const zl_array *in, struct lm_sampler *copy,
                         struct lm_sampler **each) {
    int taken = 0;
    for (int i = 0; i < d->count; i++) {
        copy[i] = (struct lm_sampler){0};
        lm_sampler_copy(&copy[i], d->sampler[i]);
        taken += lm_sampler_put(&copy[i], in + taken);
        each[i] = &copy[i];
    }
    return taken;
}

static void see(struct lm_sampler *const *sampler, int count, zl_array ids) {
    for (int i = 0; i < count; i++)
        if (!lm_sampler_is_plain(sampler[i]))
            lm_sampler_see(sampler[i], lm_slice(ids, 0, i, i + 1));
}

static zl_array logits_of(const struct lm_network *n, zl_array ids, struct lm_cache *cache) {
    zl_array hidden = lm_hidden(n, zl_expand_dims(ids, ZL_AXES(1)), n->config.layers, cache);
    return hidden ? lm_logits(n, zl_squeeze(hidden, ZL_AXES(1))) : NULL;
}

static bool give_all(int count, const zl_array *list, zl_outputs *out) {
    bool given = true;
    for (int i = 0; i < count; i++)
        given = given && zl_give(out, list[i]);
    return given;
}

static bool turn(void *data, int count, const zl_array *in, zl_outputs *out) {
    const struct lm_decode *d = data;
    struct lm_sampler *copy = calloc((size_t)d->count, sizeof *copy),
                      **each = calloc((size_t)d->count, sizeof *each);
    zl_array *list = calloc((size_t)count, sizeof *list), probability = NULL, next = NULL;
    struct lm_cache cache = {0};
    bool given = false;
    if (copy && each && list) {
        int taken = copy_samplers(d, in + FIRST, copy, each);
        if (lm_cache_like(&cache, d->cache, in + FIRST + taken)) {
            cache.at = in[AT];
            see(each, d->count, in[IDS]);
            next = lm_decode_draw(each, d->count, logits_of(d->network, in[IDS], &cache), &probability);
        }
    }
    if (next) {
        struct lm_decode after = *d;
        after.sampler = each;
        lm_cache_arrays(&cache, list + list_samplers(&after, list));
        // The position changes only after all kernels that read it, so that it is updated in place and
        // kernels keep their arguments.
        list[IDS] = next, list[AT] = zl_add(zl_depends(in[AT], &next, 1), zl_scalar_int(1));
        given = give_all(count, list, out) && zl_give(out, next) && zl_give(out, probability);
    }
    for (int i = 0; copy && i < d->count; i++)
        lm_sampler_free(&copy[i]);
    lm_cache_free(&cache);
    zl_release(probability);
    free(copy);
    free(each);
    free(list);
    return given;
}

// Loops -----------------------------------------------------------------------------------------------------

// Returns an array with room for the state of a loop.
static zl_array *new_list(const struct lm_decode *d) {
    return calloc(FIRST + (size_t)d->count * LM_SAMPLER_ARRAYS + (size_t)d->cache->layers * LM_CACHE_ARRAYS,
                  sizeof(zl_array));
}

// Begins a loop. It takes over the arrays of the cache; those of the samplers are retained for it.
static bool begin(struct lm_decode *d, zl_array next) {
    zl_array *list = new_list(d);
    const int32_t length = (int32_t)d->cache->length;
    d->turns = 0;
    d->room = list ? lm_cache_reserve(d->cache, d->cache->length + 1) : 0;
    if (d->room)
        ZL_SCOPE {
            int own = list_samplers(d, list), count = own + lm_cache_arrays(d->cache, list + own);
            list[IDS] = next, list[AT] = zl_from_i32(&length, ZL_SHAPE(1));
            for (int i = 0; i < own; i++)
                zl_retain(list[i]);
            d->loop = list[AT] ? zl_loop_new((zl_fn){turn, d, NULL, NULL}, count, list) : NULL;
            for (int i = 0; i < own && !d->loop; i++)
                zl_release(list[i]);
        }
    free(list);
    return d->loop;
}

// Ends the loop and gives its arrays back to the cache and the samplers. If the loop failed, the cache is
// left without arrays.
static bool take_back(struct lm_decode *d) {
    zl_array *list = new_list(d);
    bool ended = zl_loop_end(d->loop, list);
    int at = FIRST;
    d->loop = NULL;
    for (int i = 0; list && ended && i < d->count; i++)
        at += lm_sampler_put(d->sampler[i], list + at);
    lm_cache_swap(d->cache, list ? list + at : NULL);
    for (int i = 0; list && i < at; i++)
        zl_release(list[i]);
    lm_cache_advance(d->cache, ended ? d->turns : 0);
    free(list);
    return ended && list;
}

bool lm_decode_end(struct lm_decode *d, zl_array *next, zl_array *probability) {
    if (!d->loop)
        return true;
    zl_array id = d->turns ? zl_retain(zl_loop_result(d->loop, 0, 0)) : NULL;
    zl_array own = d->turns ? zl_retain(zl_loop_result(d->loop, 1, 0)) : NULL;
    bool ended = take_back(d);
    if (d->turns)
        *next = id, *probability = own;
    return ended && *next && *probability;
}

// After its first turn the loop owns all ids that were drawn, and *next and *probability are NULL.
bool lm_decode_step(struct lm_decode *d, zl_array *next, zl_array *probability, zl_array *id,
                    zl_array *log_probability) {
    if (d->loop && d->cache->length + d->turns == d->room && !lm_decode_end(d, next, probability))
        return false;
    if (!d->loop && !begin(d, *next))
        return false;
    if (!zl_loop_start(d->loop))
        return false;
    if (d->turns++) {
        *id = zl_retain(zl_loop_result(d->loop, 0, 1));
        *log_probability = zl_retain(zl_loop_result(d->loop, 1, 1));
    } else {
        *id = *next, *log_probability = *probability;
        *next = *probability = NULL;
    }
    return *id && *log_probability;
}
