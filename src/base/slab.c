// slab.c - small objects from per-thread caches of chunks.
//
// A chunk is 64 KiB, aligned, with objects of one size. Its header names the cache that owns it, so a free
// needs no search. Chunks are cut from regions of 2 MiB that all threads share, and go back with their last
// object. Caches are never destroyed: the cache of a thread that ended waits for a new thread, and meanwhile
// accepts objects that other threads free.

#include "base/base.h"

#include <stdalign.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FORWARD 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define FORWARD 1
#endif

#ifdef FORWARD

// With a sanitizer each object is an allocation of its own: the sanitizer then checks each object, and fault
// injection can fail each one.
static atomic_long live;

void *slab_alloc(size_t bytes) {
    void *data = memory_alloc(bytes);
    if (data)
        atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return data;
}

void slab_free(void *data, size_t bytes) {
    (void)bytes;
    if (data)
        atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    memory_free(data);
}

size_t slab_live(void) {
    return (size_t)atomic_load(&live);
}

#else

enum {
    CHUNK_BYTES = 64 << 10,
    REGION_BYTES = 2 << 20,
    REGION_CHUNKS = REGION_BYTES / CHUNK_BYTES,
    CLASS_BYTES = 32,
    CLASSES = SLAB_LARGEST / CLASS_BYTES,
    CARVE_BYTES = 4096, // bytes of new objects that are made at once
    HELD = 1 << 24,     // added to `left` of the current chunk; more than the number of objects in a chunk
};

struct object {
    struct object *next;
};

struct chunk {
    struct cache *owner;
    struct object *free;
    int left;   // frees until care() must be called
    int size;   // bytes of an object
    int unused; // objects from `fresh` on that were never allocated
    bool full;  // no free objects, not current, and not in the list
    char *fresh;
    struct chunk *next, *prev; // in the owner's list of chunks with room

    // fields of the region, used in its first chunk only
    unsigned vacant; // bit i: chunk i of the region is free
    struct chunk *next_region, *prev_region;
};

// The header ends at a multiple of 64, so that objects of 64 bytes do not straddle cache lines.
enum { HEADER_BYTES = (sizeof(struct chunk) + 63) / 64 * 64 };

struct cache {
    struct chunk *current[CLASSES]; // the chunk that objects are taken from; never NULL
    struct chunk *room[CLASSES];    // other chunks with free objects
    atomic_long live; // allocated less freed by this thread, which alone writes it; may be negative
    struct cache *next_cache, *next_idle;
    alignas(64) _Atomic(struct object *) returned; // freed by other threads
};

static struct chunk nothing = {.size = CLASS_BYTES};
static struct cache nobody = {.current = {[0 ... CLASSES - 1] = &nothing}};

#ifdef __GLIBC__ // a pointer fits the thread-local memory of a library opened late, and this saves a call
__attribute__((tls_model("initial-exec")))
#endif
static _Thread_local struct cache *mine = &nobody;

// Guarded by lock.
static struct lock lock;
static struct cache *all_caches, *idle_caches;
static struct chunk *roomy_regions, *empty_region; // an empty region is in the list too

static atomic_long stray; // objects freed, less allocated, by threads without a cache

// Regions ---------------------------------------------------------------------------------------------------

static struct chunk *region_of(struct chunk *chunk) {
    return (struct chunk *)((uintptr_t)chunk & ~(uintptr_t)(REGION_BYTES - 1));
}

static void link_region(struct chunk *region) {
    region->prev_region = NULL;
    region->next_region = roomy_regions;
    if (roomy_regions)
        roomy_regions->prev_region = region;
    roomy_regions = region;
}

static void unlink_region(struct chunk *region) {
    if (region->next_region)
        region->next_region->prev_region = region->prev_region;
    if (region->prev_region)
        region->prev_region->next_region = region->next_region;
    else
        roomy_regions = region->next_region;
}

static bool add_region(void) {
    struct chunk *region = memory_alloc_pages(REGION_BYTES);
    if (!region)
        return false;
    region->vacant = ~0u;
    empty_region = region;
    link_region(region);
    return true;
}

static struct chunk *take_chunk(void) {
    struct chunk *region = roomy_regions;
    int at = __builtin_ctz(region->vacant);
    region->vacant &= ~(1u << at);
    if (!region->vacant)
        unlink_region(region);
    if (region == empty_region)
        empty_region = NULL;
    return (struct chunk *)((char *)region + (size_t)at * CHUNK_BYTES);
}

static int capacity(const struct chunk *chunk) {
    return (CHUNK_BYTES - HEADER_BYTES) / chunk->size;
}

static struct chunk *chunk_open(struct cache *owner, int kind) {
    lock_take(&lock);
    struct chunk *chunk = roomy_regions || add_region() ? take_chunk() : NULL;
    lock_give(&lock);
    if (!chunk)
        return NULL;
    chunk->owner = owner;
    chunk->free = NULL;
    chunk->left = HELD;
    chunk->size = (kind + 1) * CLASS_BYTES;
    chunk->unused = capacity(chunk);
    chunk->full = false;
    chunk->fresh = (char *)chunk + HEADER_BYTES;
    return chunk;
}

// Gives a chunk back to its region. One region without chunks in use is kept: otherwise a program whose use
// varies around its edge would map and unmap it each time.
static void chunk_close(struct chunk *chunk) {
    struct chunk *region = region_of(chunk), *surplus = NULL;
    lock_take(&lock);
    if (!region->vacant)
        link_region(region);
    region->vacant |= 1u << ((char *)chunk - (char *)region) / CHUNK_BYTES;
    if (region->vacant == ~0u && empty_region) {
        unlink_region(region);
        surplus = region;
    } else if (region->vacant == ~0u) {
        empty_region = region;
    }
    lock_give(&lock);
    memory_free_pages(surplus, REGION_BYTES);
}

// Chunks of a cache -----------------------------------------------------------------------------------------

static struct chunk **room_list(struct chunk *chunk) {
    return &chunk->owner->room[chunk->size / CLASS_BYTES - 1];
}

static void link_room(struct chunk *chunk) {
    struct chunk **list = room_list(chunk);
    chunk->prev = NULL;
    chunk->next = *list;
    if (*list)
        (*list)->prev = chunk;
    *list = chunk;
}

static void unlink_room(struct chunk *chunk) {
    if (chunk->next)
        chunk->next->prev = chunk->prev;
    if (chunk->prev)
        chunk->prev->next = chunk->next;
    else
        *room_list(chunk) = chunk->next;
}

// Puts a chunk into its list, or gives it back. `left` is the number of live objects, plus HELD while the
// chunk is the current one; but it is 1 while the chunk is full and in no list. So a single test in slab_free
// finds both the chunks to put into the list and those to give back.
static void care(struct chunk *chunk) {
    if (chunk->full) {
        chunk->full = false;
        chunk->left = capacity(chunk) - 1;
        link_room(chunk);
    } else {
        unlink_room(chunk);
        chunk_close(chunk);
    }
}

static inline void put_back(struct chunk *chunk, struct object *object) {
    object->next = chunk->free;
    chunk->free = object;
    if (UNLIKELY(--chunk->left == 0))
        care(chunk);
}

static inline struct chunk *chunk_of(void *data) {
    return (struct chunk *)((uintptr_t)data & ~(uintptr_t)(CHUNK_BYTES - 1));
}

static void collect(struct cache *cache) {
    if (!atomic_load_explicit(&cache->returned, memory_order_relaxed))
        return;
    struct object *object = atomic_exchange_explicit(&cache->returned, NULL, memory_order_acquire);
    for (struct object *next; object; object = next) {
        next = object->next;
        put_back(chunk_of(object), object);
    }
}

// Makes a few free objects at a time, lowest address first, so that the pages of a chunk are touched only
// when needed.
static bool carve(struct chunk *chunk) {
    int count = MIN_OF(CARVE_BYTES / chunk->size, chunk->unused);
    struct object **link = &chunk->free;
    for (int i = 0; i < count; i++, chunk->fresh += chunk->size) {
        *link = (struct object *)chunk->fresh;
        link = &(*link)->next;
    }
    if (count == 0)
        return false;
    *link = NULL;
    chunk->unused -= count;
    return true;
}

static bool next_chunk(struct cache *cache, int kind) {
    struct chunk *chunk = cache->room[kind], *old = cache->current[kind];
    if (chunk) {
        unlink_room(chunk);
        chunk->left += HELD;
    } else if (!(chunk = chunk_open(cache, kind)) || !carve(chunk)) {
        return false;
    }
    if (old != &nothing) {
        old->full = true;
        old->left = 1;
    }
    cache->current[kind] = chunk;
    return true;
}

// Caches ----------------------------------------------------------------------------------------------------

ZL_AT_LOAD {
    fork_guard(&lock);
}

static void set_idle(struct cache *cache) {
    lock_take(&lock);
    cache->next_idle = idle_caches;
    idle_caches = cache;
    lock_give(&lock);
}

static void cache_leave(void *data) {
    struct cache *cache = data;
    collect(cache);
    for (int kind = 0; kind < CLASSES; kind++) {
        struct chunk *chunk = cache->current[kind];
        if (chunk == &nothing || chunk->left != HELD)
            continue;
        cache->current[kind] = &nothing;
        chunk_close(chunk);
    }
    mine = &nobody;
    set_idle(cache);
}

static struct cache *take_idle(void) {
    lock_take(&lock);
    struct cache *cache = idle_caches;
    if (cache)
        idle_caches = cache->next_idle;
    lock_give(&lock);
    return cache;
}

static struct cache *cache_new(void) {
    struct cache *cache = memory_alloc_pages(sizeof *cache);
    if (!cache)
        return NULL;
    *cache = nobody;
    lock_take(&lock);
    cache->next_cache = all_caches;
    all_caches = cache;
    lock_give(&lock);
    return cache;
}

static struct cache *cache_enter(void) {
    struct cache *cache = take_idle();
    if (!cache && !(cache = cache_new()))
        return NULL;
    if (!base_thread_at_exit(cache_leave, cache)) {
        set_idle(cache);
        return NULL;
    }
    return mine = cache;
}

// Objects ---------------------------------------------------------------------------------------------------

static inline int class_for(size_t bytes) {
    return (int)((bytes - (bytes > 0)) / CLASS_BYTES);
}

static inline void count(struct cache *cache, long change) {
    long live = atomic_load_explicit(&cache->live, memory_order_relaxed);
    atomic_store_explicit(&cache->live, live + change, memory_order_relaxed);
}

static void count_anywhere(long change) {
    if (mine == &nobody)
        atomic_fetch_add_explicit(&stray, change, memory_order_relaxed);
    else
        count(mine, change);
}

static inline void *take(struct cache *cache, struct chunk *chunk) {
    struct object *object = chunk->free;
    chunk->free = object->next;
    chunk->left++;
    count(cache, 1);
    return object;
}

static void *alloc_large(size_t bytes) {
    void *data = memory_alloc(bytes);
    if (data)
        count_anywhere(1);
    return data;
}

static __attribute__((noinline)) void *alloc_slowly(size_t bytes) {
    if (bytes > SLAB_LARGEST)
        return alloc_large(bytes);
    int kind = class_for(bytes);
    struct cache *cache = mine == &nobody ? cache_enter() : mine;
    if (!cache)
        return NULL;
    collect(cache);
    struct chunk *chunk = cache->current[kind];
    if (!chunk->free && !carve(chunk) && !next_chunk(cache, kind))
        return NULL;
    return take(cache, cache->current[kind]);
}

void *slab_alloc(size_t bytes) {
    if (UNLIKELY(bytes > SLAB_LARGEST))
        return alloc_slowly(bytes);
    struct cache *cache = mine;
    struct chunk *chunk = cache->current[class_for(bytes)];
    return LIKELY(chunk->free != NULL) ? take(cache, chunk) : alloc_slowly(bytes);
}

static __attribute__((noinline)) void free_slowly(void *data, size_t bytes) {
    count_anywhere(-1);
    if (bytes > SLAB_LARGEST) {
        memory_free(data);
        return;
    }
    struct object *object = data;
    struct cache *owner = chunk_of(data)->owner;
    struct object *top = atomic_load_explicit(&owner->returned, memory_order_relaxed);
    do {
        object->next = top;
    } while (!atomic_compare_exchange_weak_explicit(&owner->returned, &top, object, memory_order_release,
                                                    memory_order_relaxed));
}

void slab_free(void *data, size_t bytes) {
    if (!data)
        return;
    struct cache *cache = mine;
    if (UNLIKELY(bytes > SLAB_LARGEST || chunk_of(data)->owner != cache)) {
        free_slowly(data, bytes);
        return;
    }
    count(cache, -1);
    put_back(chunk_of(data), data);
}

size_t slab_live(void) {
    lock_take(&lock);
    long live = atomic_load(&stray);
    for (struct cache *cache = all_caches; cache; cache = cache->next_cache)
        live += atomic_load_explicit(&cache->live, memory_order_relaxed);
    lock_give(&lock);
    return (size_t)live;
}

#endif
