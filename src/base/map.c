// map.c - hash map from byte strings to pointers: open addressing, linear probing, no tombstones.

#include "base/base.h"

#include <limits.h>
#include <string.h>

struct map_entry {
    uint64_t hash;
    void *key; // a copy
    size_t bytes;
    void *value; // NULL: the entry is vacant
};

static bool is_key(const struct map_entry *entry, uint64_t hash, const void *key, size_t bytes) {
    return entry->hash == hash && entry->bytes == bytes && (!bytes || !memcmp(entry->key, key, bytes));
}

// Returns the entry that holds the key, or the vacant entry where it belongs. There is always a vacant one.
static struct map_entry *find(const struct map *map, uint64_t hash, const void *key, size_t bytes) {
    size_t mask = (size_t)map->cap - 1, at = hash & mask;
    while (map->entry[at].value && !is_key(&map->entry[at], hash, key, bytes))
        at = (at + 1) & mask;
    return &map->entry[at];
}

void *map_get(const struct map *map, const void *key, size_t bytes) {
    return map->cap ? find(map, hash_bytes(key, bytes, map->seed), key, bytes)->value : NULL;
}

static bool make_room(struct map *map) {
    if (map->count < map->cap / 4 * 3)
        return true;
    if (map->cap > INT_MAX / 2)
        return error_false(ZL_ERROR_MEMORY, "out of memory: a map of %d keys", map->count);
    struct map wider = {.cap = map->cap ? map->cap * 2 : 16, .count = map->count, .seed = map->seed};
    wider.entry = memory_zero((size_t)wider.cap * sizeof *wider.entry);
    if (!wider.entry)
        return false;
    for (int i = 0; i < map->cap; i++)
        if (map->entry[i].value)
            *find(&wider, map->entry[i].hash, map->entry[i].key, map->entry[i].bytes) = map->entry[i];
    memory_free(map->entry);
    *map = wider;
    return true;
}

// Removes an entry, and moves later entries of its run into the hole, since their search would stop there.
static void remove_entry(struct map *map, struct map_entry *entry) {
    size_t mask = (size_t)map->cap - 1, hole = (size_t)(entry - map->entry);
    memory_free(entry->key);
    for (size_t at = (hole + 1) & mask; map->entry[at].value; at = (at + 1) & mask) {
        size_t from_home = (at - map->entry[at].hash) & mask, from_hole = (at - hole) & mask;
        if (from_home < from_hole)
            continue;
        map->entry[hole] = map->entry[at];
        hole = at;
    }
    map->entry[hole] = (struct map_entry){0};
    map->count--;
}

static bool add_entry(struct map *map, uint64_t hash, const void *key, size_t bytes, void *value) {
    if (!make_room(map))
        return false;
    void *copy = memory_alloc(bytes);
    if (!copy)
        return false;
    if (bytes)
        memcpy(copy, key, bytes);
    *find(map, hash, key, bytes) = (struct map_entry){hash, copy, bytes, value};
    map->count++;
    return true;
}

bool map_set(struct map *map, const void *key, size_t bytes, void *value) {
    uint64_t hash = hash_bytes(key, bytes, map->seed);
    struct map_entry *entry = map->cap ? find(map, hash, key, bytes) : NULL;
    bool present = entry && entry->value;
    if (present && value)
        entry->value = value;
    else if (present)
        remove_entry(map, entry);
    else if (value)
        return add_entry(map, hash, key, bytes, value);
    return true;
}

void map_each(const struct map *map, void (*visit)(const void *key, size_t bytes, void *value, void *data),
              void *data) {
    for (int i = 0; i < map->cap; i++)
        if (map->entry[i].value)
            visit(map->entry[i].key, map->entry[i].bytes, map->entry[i].value, data);
}

void map_free(struct map *map) {
    for (int i = 0; i < map->cap; i++)
        memory_free(map->entry[i].key);
    memory_free(map->entry);
    *map = (struct map){0};
}
