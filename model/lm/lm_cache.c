// lm_cache.c - the cache of a sequence: keys and values, in arrays that grow by pages and are written in
// place, and recurrent states.

#include "lm.h"

#include <stdlib.h>

enum { PARTS = 8, PARTS_BY_POSITION = 6 };

// Lists the arrays of a layer, so that loops can treat them all alike: first those with an axis of positions.
static void parts_of(struct lm_kept *kept, zl_array *part[static PARTS]) {
    for (int i = 0; i < 3; i++)
        part[i] = &kept->keys[i], part[3 + i] = &kept->values[i];
    part[6] = &kept->recent, part[7] = &kept->state;
}

bool lm_cache_new(struct lm_cache *cache, int layers) {
    *cache = (struct lm_cache){.layers = layers};
    cache->layer = calloc((size_t)layers, sizeof *cache->layer);
    return cache->layer;
}

bool lm_cache_quantized(struct lm_cache *cache, int layers, int bits, int head_dim, struct lm_error *error) {
    int group = head_dim % 64 ? 32 : 64;
    if (bits && bits != 4 && bits != 8)
        return lm_fail(error, "kv_bits %d: wanted 0, 4 or 8", bits);
    if (bits && head_dim % group)
        return lm_fail(error, "kv_bits %d: heads of %d features cannot be cut in groups of 32", bits,
                       head_dim);
    if (!lm_cache_new(cache, layers))
        return lm_fail(error, "out of memory");
    cache->bits = bits, cache->group_size = group;
    return true;
}

void lm_cache_clear(struct lm_cache *cache) {
    zl_array *part[PARTS];
    for (int i = 0; cache->layer && i < cache->layers; i++) {
        parts_of(&cache->layer[i], part);
        for (int j = 0; j < PARTS; j++) {
            zl_release(*part[j]);
            *part[j] = NULL;
        }
    }
    zl_release(cache->skip);
    cache->skip = NULL;
    cache->length = 0;
}

void lm_cache_free(struct lm_cache *cache) {
    lm_cache_clear(cache);
    free(cache->layer);
    *cache = (struct lm_cache){0};
}

// Replaces *kept by `next`, which it retains. Returns false if `next` is NULL.
static bool replace(zl_array *kept, zl_array next) {
    if (!zl_retain(next))
        return false;
    zl_release(*kept);
    *kept = next;
    return true;
}

// Returns an array with room for `length` positions: the old contents, then zeros. A long array grows by a
// sixteenth of its length, so that copying it stays a small part of the work.
static zl_array grown(zl_array old, zl_array like, int64_t length) {
    int64_t least = length + (old ? length / 16 : 0);
    int64_t capacity = (least + LM_CACHE_PAGE - 1) / LM_CACHE_PAGE * LM_CACHE_PAGE;
    if (old && zl_dim(old, 2) >= length)
        return old;
    int64_t more = capacity - (old ? zl_dim(old, 2) : 0);
    zl_array room =
        zl_zeros(ZL_SHAPE(zl_dim(like, 0), zl_dim(like, 1), more, zl_dim(like, 3)), zl_dtype_of(like));
    return old ? zl_concatenate((zl_array[]){old, room}, 2, 2) : room;
}

// Appends the new positions to *kept, and sets *fresh to all positions. Evaluation writes in place, because
// nothing but the result holds the old array then.
static bool append(zl_array *kept, zl_array *fresh, int64_t length) {
    zl_array like = *fresh;
    if (!like)
        return false;
    int64_t all = length + zl_dim(like, 2), heads = zl_dim(like, 1), width = zl_dim(like, 3),
            batch = zl_dim(like, 0);
    zl_array whole = zl_slice_update(grown(*kept, like, all), like, ZL_SHAPE(0, 0, length, 0),
                                     ZL_SHAPE(batch, heads, all, width), ZL_SHAPE(1, 1, 1, 1));
    if (!replace(kept, whole))
        return false;
    *fresh = lm_slice(whole, 2, 0, all);
    return *fresh;
}

// Writes one position at index `at` of the array. Sets *fresh to the whole array.
static bool put(zl_array *kept, zl_array *fresh, zl_array at) {
    *fresh = zl_dynamic_slice_update(*kept, *fresh, at, ZL_AXES(2));
    return replace(kept, *fresh);
}

static bool append_part(const struct lm_cache *cache, zl_array *kept, zl_array *fresh) {
    return cache->at ? put(kept, fresh, cache->at) : append(kept, fresh, cache->length);
}

static bool append_heads(const struct lm_cache *cache, lm_heads kept, lm_heads fresh) {
    if (!cache->bits)
        return append_part(cache, &kept[0], &fresh[0]);
    zl_array x = fresh[0];
    bool appended = zl_quantize(x, cache->group_size, cache->bits, "affine", NULL, fresh);
    for (int i = 0; appended && i < 3; i++)
        appended = append_part(cache, &kept[i], &fresh[i]);
    return appended;
}

int64_t lm_cache_room(struct lm_cache *cache) {
    zl_array *part[PARTS];
    for (int i = 0; i < cache->layers; i++) {
        parts_of(&cache->layer[i], part);
        for (int j = 0; j < PARTS_BY_POSITION; j++)
            if (*part[j])
                return zl_dim(*part[j], 2);
    }
    return INT64_MAX;
}

int64_t lm_cache_reserve(struct lm_cache *cache, int64_t length) {
    zl_array *part[PARTS];
    bool ok = true;
    for (int i = 0; i < cache->layers; i++) {
        parts_of(&cache->layer[i], part);
        for (int j = 0; j < PARTS_BY_POSITION; j++)
            if (*part[j])
                ZL_SCOPE {
                    ok = ok && replace(part[j], grown(*part[j], *part[j], length));
                }
    }
    return ok ? lm_cache_room(cache) : 0;
}

bool lm_cache_like(struct lm_cache *cache, const struct lm_cache *like, const zl_array *list) {
    zl_array *part[PARTS], *there[PARTS];
    int at = 0;
    if (!lm_cache_new(cache, like->layers))
        return false;
    cache->length = like->length;
    cache->bits = like->bits, cache->group_size = like->group_size;
    cache->skip = zl_retain(like->skip);
    for (int i = 0; i < cache->layers; i++) {
        parts_of(&cache->layer[i], part);
        parts_of(&like->layer[i], there);
        for (int j = 0; j < PARTS; j++)
            *part[j] = *there[j] ? zl_retain(list[at++]) : NULL;
    }
    return true;
}

void lm_cache_swap(struct lm_cache *cache, const zl_array *list) {
    zl_array *part[PARTS];
    for (int i = 0, at = 0; i < cache->layers; i++) {
        parts_of(&cache->layer[i], part);
        for (int j = 0; j < PARTS; j++)
            if (*part[j])
                *part[j] = list ? list[at++] : NULL;
    }
}

bool lm_cache_append(struct lm_cache *cache, int layer, lm_heads k, lm_heads v) {
    struct lm_kept *kept = &cache->layer[layer];
    return append_heads(cache, kept->keys, k) && append_heads(cache, kept->values, v);
}

bool lm_cache_keep(struct lm_cache *cache, int layer, zl_array recent, zl_array state) {
    return replace(&cache->layer[layer].recent, recent) && replace(&cache->layer[layer].state, state);
}

void lm_cache_advance(struct lm_cache *cache, int64_t count) {
    cache->length += count;
}

bool lm_cache_is_recurrent(const struct lm_cache *cache) {
    for (int i = 0; i < cache->layers; i++)
        if (cache->layer[i].state)
            return true;
    return false;
}

void lm_cache_trim(struct lm_cache *cache, int64_t length, const struct lm_cache *past) {
    if (length >= cache->length)
        return;
    cache->length = length;
    for (int i = 0; i < cache->layers; i++) {
        struct lm_kept *kept = &cache->layer[i];
        const struct lm_kept *was = past ? &past->layer[i] : &(struct lm_kept){0};
        zl_retain(was->recent), zl_retain(was->state);
        zl_release(kept->recent), zl_release(kept->state);
        kept->recent = was->recent, kept->state = was->state;
    }
}

bool lm_cache_copy(struct lm_cache *to, const struct lm_cache *from, bool states_only) {
    zl_array *part[PARTS];
    if (!lm_cache_new(to, from->layers))
        return false;
    to->length = from->length;
    to->bits = from->bits, to->group_size = from->group_size;
    to->skip = zl_retain(from->skip);
    for (int i = 0; i < from->layers; i++) {
        to->layer[i] = from->layer[i];
        parts_of(&to->layer[i], part);
        for (int j = 0; j < PARTS; j++)
            if (states_only && j < PARTS_BY_POSITION)
                *part[j] = NULL;
            else
                zl_retain(*part[j]);
    }
    return true;
}

// Returns the first `own` positions of the keys or values of one sequence, with zeros before them, so that
// there are `length`.
static zl_array shifted(zl_array kept, int64_t own, int64_t length) {
    zl_array seen = lm_slice(kept, 2, 0, own);
    return own == length ? seen
                         : zl_pad(seen, ZL_SHAPE(0, 0, length - own, 0), ZL_SHAPE(0, 0, 0, 0), zl_scalar(0));
}

bool lm_cache_join(struct lm_cache *all, const struct lm_cache *const *one, int count) {
    zl_array *list = calloc((size_t)count, sizeof *list), *part[PARTS], *from[PARTS];
    int32_t *skip = calloc((size_t)count, sizeof *skip);
    bool joined = list && skip && lm_cache_new(all, one[0]->layers);
    all->bits = one[0]->bits, all->group_size = one[0]->group_size;
    for (int i = 0; joined && i < count; i++)
        if (one[i]->length > all->length)
            all->length = one[i]->length;
    for (int layer = 0; joined && layer < all->layers; layer++)
        for (int j = 0; joined && j < PARTS; j++)
            ZL_SCOPE {
                int there = 0;
                for (int i = 0; i < count; i++) {
                    parts_of(&one[i]->layer[layer], from);
                    if (*from[j])
                        list[there++] =
                            j < PARTS_BY_POSITION ? shifted(*from[j], one[i]->length, all->length) : *from[j];
                }
                parts_of(&all->layer[layer], part);
                joined = !there || (there == count && replace(part[j], zl_concatenate(list, count, 0)));
            }
    for (int i = 0; joined && i < count; i++)
        skip[i] = (int32_t)(all->length - one[i]->length);
    bool ragged = false;
    for (int i = 0; i < count && joined; i++)
        ragged = ragged || skip[i];
    if (ragged)
        ZL_SCOPE {
            joined = replace(&all->skip, zl_from_i32(skip, ZL_SHAPE(count)));
        }
    free(list);
    free(skip);
    return joined;
}

bool lm_cache_part(struct lm_cache *one, const struct lm_cache *all, int row, int64_t length) {
    zl_array *part[PARTS], *from[PARTS];
    bool parted = true;
    one->length = length;
    for (int layer = 0; parted && layer < all->layers; layer++) {
        parts_of(&all->layer[layer], from);
        parts_of(&one->layer[layer], part);
        for (int j = 0; parted && j < PARTS; j++)
            if (*from[j])
                ZL_SCOPE {
                    zl_array own = lm_slice(*from[j], 0, row, row + 1);
                    parted = replace(part[j], j < PARTS_BY_POSITION
                                                  ? lm_slice(own, 2, all->length - length, all->length)
                                                  : own);
                }
    }
    return parted;
}

int lm_cache_arrays(const struct lm_cache *cache, zl_array *list) {
    zl_array *part[PARTS];
    int count = 0;
    for (int i = 0; i < cache->layers; i++) {
        parts_of(&cache->layer[i], part);
        for (int j = 0; j < PARTS; j++)
            if (*part[j])
                list[count++] = *part[j];
    }
    return count;
}
