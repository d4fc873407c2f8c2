// lm_cache.c - keys and values of a sequence, in arrays that grow by pages and are written in place.

#include "lm.h"

#include <stdlib.h>

bool lm_cache_new(struct lm_cache *cache, int layers) {
    *cache = (struct lm_cache){.layers = layers};
    cache->keys = calloc((size_t)layers, sizeof *cache->keys);
    cache->values = calloc((size_t)layers, sizeof *cache->values);
    return cache->keys && cache->values;
}

void lm_cache_free(struct lm_cache *cache) {
    for (int i = 0; i < cache->layers; i++) {
        if (cache->keys)
            zl_release(cache->keys[i]);
        if (cache->values)
            zl_release(cache->values[i]);
    }
    free(cache->keys);
    free(cache->values);
    *cache = (struct lm_cache){0};
}

// Room for `length` positions: the old contents, and zeros behind them.
static zl_array grown(zl_array old, zl_array like, int64_t length) {
    int64_t capacity = (length + LM_CACHE_PAGE - 1) / LM_CACHE_PAGE * LM_CACHE_PAGE;
    if (old && zl_dim(old, 2) >= length)
        return old;
    int64_t more = capacity - (old ? zl_dim(old, 2) : 0);
    zl_array room =
        zl_zeros(ZL_SHAPE(zl_dim(like, 0), zl_dim(like, 1), more, zl_dim(like, 3)), zl_dtype_of(like));
    return old ? zl_concatenate((zl_array[]){old, room}, 2, 2) : room;
}

// *kept is written in place when it is evaluated: nothing but the result holds it then.
static bool append(zl_array *kept, zl_array *fresh, int64_t length) {
    zl_array like = *fresh;
    if (!like)
        return false;
    int64_t all = length + zl_dim(like, 2), heads = zl_dim(like, 1), width = zl_dim(like, 3),
            batch = zl_dim(like, 0);
    zl_array whole = zl_slice_update(grown(*kept, like, all), like, ZL_SHAPE(0, 0, length, 0),
                                     ZL_SHAPE(batch, heads, all, width), ZL_SHAPE(1, 1, 1, 1));
    if (!zl_retain(whole))
        return false;
    zl_release(*kept);
    *kept = whole;
    *fresh = lm_slice(whole, 2, 0, all);
    return *fresh;
}

bool lm_cache_append(struct lm_cache *cache, int layer, zl_array *k, zl_array *v) {
    return append(&cache->keys[layer], k, cache->length) && append(&cache->values[layer], v, cache->length);
}

void lm_cache_advance(struct lm_cache *cache, int64_t count) {
    cache->length += count;
}

void lm_cache_trim(struct lm_cache *cache, int64_t length) {
    if (length < cache->length)
        cache->length = length;
}

int lm_cache_arrays(const struct lm_cache *cache, zl_array *list) {
    int count = 0;
    for (int i = 0; i < cache->layers; i++)
        if (cache->keys[i])
            list[count++] = cache->keys[i], list[count++] = cache->values[i];
    return count;
}
