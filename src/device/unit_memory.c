// unit_memory.c - memory of units that have their own, copies of storages on them, and the order of their work.
//
// A unit does what it is asked for in order. So memory may be used again as soon as the host has let go of it: who gets it
// comes later in that order. What was freed is kept by capacity; when the device has no more, all of it goes back.
//
// Points number places in that order. The next one stands for everything asked for so far; it is marked when a run
// ends, or when somebody waits for it. What a unit did not take after all fails its point, and whoever reads what belongs to it.

#include "device/device.h"

#include <pthread.h>
#include <stdio.h>

enum {
    POINTS = 64,  // marks that a unit keeps at once; an older one is as far as the one that took its place
    ORDERED = 32, // free blocks of one capacity that are kept in order
    MARK_NS = 20000, // between marks that nobody waits for yet: each costs as much as a third of a launch
    FAILURES = 8,    // points that are known to have failed; if there are more, so have all before them
};

struct block {
    struct block *next;
    void *memory;
};

struct unit {
    struct unit *next;
    const struct device *device;
    int index;
    pthread_mutex_t lock; // guards blocks and marks
    struct map blocks;    // free ones, by capacity
    atomic_ullong point;  // the next
    int64_t marked;       // when the last was, clock_ns()
    int failures;
    uint64_t failed[FAILURES], failed_until; // points; up to the second all
    char why[256];                           // of the last
};

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; // guards additions to units, and copies between replicas
static struct unit *_Atomic units;
static atomic_bool any_failed; // of the points of all units

static void clear_cache(void);

static struct unit *look(const struct device *d, int index) {
    struct unit *u = atomic_load_explicit(&units, memory_order_acquire);
    while (u && (u->device != d || u->index != index))
        u = u->next;
    return u;
}

static struct unit *find(const struct device *d, int index) {
    struct unit *u = look(d, index);
    if (LIKELY(u != NULL))
        return u;
    pthread_mutex_lock(&lock);
    if (!(u = look(d, index)) && (u = memory_zero(sizeof *u))) {
        u->device = d;
        u->index = index;
        pthread_mutex_init(&u->lock, NULL);
        atomic_store(&u->point, 1);
        u->next = atomic_load(&units);
        atomic_store_explicit(&units, u, memory_order_release);
        allocator_on_clear(clear_cache);
    }
    pthread_mutex_unlock(&lock);
    return u;
}

bool device_has_memory(void) {
    return atomic_load_explicit(&units, memory_order_acquire) != NULL;
}

// The order of work ----------------------------------------------------------------------------------------------

uint64_t device_point(const struct device *d, int unit) {
    struct unit *u = d->record ? find(d, unit) : NULL;
    return u ? atomic_load(&u->point) : 0;
}

// Under the unit's lock. What belongs to the next point failed: what comes then is another one's.
static bool note_failure(struct unit *u) {
    uint64_t *place = &u->failed[u->failures++ % FAILURES];
    u->failed_until = MAX_OF(u->failed_until, *place);
    *place = atomic_load(&u->point);
    snprintf(u->why, sizeof u->why, "%s", zl_error() ? zl_error() : "the device failed");
    atomic_store(&u->point, *place + 1);
    atomic_store(&any_failed, true);
    return false;
}

// Under the unit's lock.
static bool is_good(struct unit *u) {
    return !u->device->good || u->device->good(u->index) || note_failure(u);
}

// Under the unit's lock. What was written down is given to the unit by this, at the latest.
static bool mark(struct unit *u) {
    uint64_t point = atomic_load(&u->point);
    if (!u->device->record(u->index, (int)(point % POINTS)) || !is_good(u))
        return false;
    u->marked = clock_ns();
    atomic_store(&u->point, point + 1);
    return true;
}

bool device_mark(const struct device *d, int unit) {
    struct unit *u = d->record ? find(d, unit) : NULL;
    if (!u)
        return !d->record;
    pthread_mutex_lock(&u->lock);
    bool ok = clock_ns() - u->marked < MARK_NS ? is_good(u) : mark(u);
    pthread_mutex_unlock(&u->lock);
    return ok;
}

// Under the unit's lock.
static bool has_failed(const struct unit *u, uint64_t point) {
    bool failed = point && point <= u->failed_until;
    for (int i = 0; i < FAILURES; i++)
        failed |= point && u->failed[i] == point;
    return failed;
}

// Whether a point has not failed; false and an error.
static bool is_sound(const struct device *d, int unit, uint64_t point) {
    struct unit *u = atomic_load_explicit(&any_failed, memory_order_acquire) ? look(d, unit) : NULL;
    if (LIKELY(!u))
        return true;
    pthread_mutex_lock(&u->lock);
    bool sound = !has_failed(u, point) || error_false(ZL_ERROR_DEVICE, "%s", u->why);
    pthread_mutex_unlock(&u->lock);
    return sound;
}

bool device_wait(const struct device *d, int unit, uint64_t point) {
    struct unit *u = d->record ? find(d, unit) : NULL;
    if (!u)
        return !d->record;
    pthread_mutex_lock(&u->lock);
    bool ok = atomic_load(&u->point) > point || mark(u);
    pthread_mutex_unlock(&u->lock);
    return ok && is_sound(d, unit, point) && d->wait(unit, (int)(point % POINTS));
}

// Memory ---------------------------------------------------------------------------------------------------------

static void *take_block(struct unit *u, size_t capacity) {
    pthread_mutex_lock(&u->lock);
    struct block *b = map_get(&u->blocks, &capacity, sizeof capacity);
    if (b)
        map_set(&u->blocks, &capacity, sizeof capacity, b->next);
    pthread_mutex_unlock(&u->lock);
    if (!b)
        return NULL;
    void *memory = b->memory;
    slab_free(b, sizeof *b);
    allocator_keep(-(int64_t)capacity);
    return memory;
}

// The lowest address first, as far as that is soon found: a program that runs again then gets the same memory, and what is
// prepared for that can be used again.
static bool insert(struct unit *u, struct block *b, void *memory, size_t capacity) {
    struct block *first = map_get(&u->blocks, &capacity, sizeof capacity), *before = NULL, *at = first;
    for (int i = 0; i < ORDERED && at && at->memory < memory; i++) {
        before = at;
        at = at->next;
    }
    *b = (struct block){at, memory};
    if (!before)
        return map_set(&u->blocks, &capacity, sizeof capacity, b);
    before->next = b;
    return true;
}

static bool keep_block(struct unit *u, void *memory, size_t capacity) {
    struct block *b = slab_alloc(sizeof *b);
    if (!b)
        return false;
    if (!allocator_keep((int64_t)capacity)) {
        slab_free(b, sizeof *b);
        return false;
    }
    pthread_mutex_lock(&u->lock);
    bool kept = insert(u, b, memory, capacity);
    pthread_mutex_unlock(&u->lock);
    if (!kept) {
        allocator_keep(-(int64_t)capacity);
        slab_free(b, sizeof *b);
    }
    return kept;
}

static void free_list(const void *key, size_t bytes, void *value, void *data) {
    const struct unit *u = data;
    size_t capacity;
    __builtin_memcpy(&capacity, key, bytes);
    for (struct block *b = value, *next; b; b = next) {
        next = b->next;
        u->device->free(u->index, b->memory);
        allocator_keep(-(int64_t)capacity);
        slab_free(b, sizeof *b);
    }
}

static void free_blocks(struct unit *u) {
    pthread_mutex_lock(&u->lock);
    struct map blocks = u->blocks;
    u->blocks = (struct map){0};
    pthread_mutex_unlock(&u->lock);
    map_each(&blocks, free_list, u);
    map_free(&blocks);
}

static void clear_cache(void) {
    for (struct unit *u = atomic_load_explicit(&units, memory_order_acquire); u; u = u->next)
        free_blocks(u);
}

// What the device refuses may be what it kept for us.
static void *get_memory(struct unit *u, size_t capacity) {
    bool had_error = zl_error();
    void *memory = take_block(u, capacity);
    if (memory || (memory = u->device->alloc(u->index, capacity)))
        return memory;
    if (!had_error)
        zl_clear_error();
    free_blocks(u);
    return u->device->alloc(u->index, capacity);
}

void *device_alloc(const struct device *d, int unit, size_t bytes, size_t *capacity) {
    struct unit *u = find(d, unit);
    *capacity = allocator_capacity(bytes);
    if (!u || !allocator_count((int64_t)*capacity))
        return NULL;
    void *memory = get_memory(u, *capacity);
    if (memory)
        return memory;
    allocator_count(-(int64_t)*capacity);
    if (!zl_error())
        error_set(ZL_ERROR_MEMORY, "the %s device has no memory for %zu bytes", d->name, bytes);
    return NULL;
}

void device_free(const struct device *d, int unit, void *memory, size_t capacity) {
    struct unit *u = find(d, unit);
    allocator_count(-(int64_t)capacity);
    if (!u || !keep_block(u, memory, capacity))
        d->free(unit, memory);
}

// Replicas -------------------------------------------------------------------------------------------------------

static void release_replica(struct replica *r) {
    device_free(r->device, r->unit, r->memory, r->bytes);
    slab_free(r, sizeof *r);
}

static struct replica *new_replica(const struct device *d, int unit, size_t bytes) {
    struct replica *r = slab_alloc(sizeof *r);
    if (!r)
        return NULL;
    *r = (struct replica){.device = d, .unit = unit, .release = release_replica};
    r->memory = device_alloc(d, unit, bytes, &r->bytes);
    if (r->memory)
        return r;
    slab_free(r, sizeof *r);
    return NULL;
}

static struct replica *replica_on(const struct device *d, int unit, const struct storage *s) {
    struct replica *r = atomic_load_explicit(&s->replica, memory_order_acquire);
    while (r && (r->device != d || r->unit != unit))
        r = r->next;
    return r;
}

static bool replica_is_sound(const struct replica *r) {
    return is_sound(r->device, r->unit, atomic_load_explicit(&r->ready, memory_order_relaxed));
}

struct storage *device_storage(const struct device *d, int unit, size_t bytes) {
    struct replica *r = new_replica(d, unit, bytes);
    return r ? storage_elsewhere(bytes, r) : NULL;
}

static void *host_of(const struct storage *s) {
    return __atomic_load_n(&s->data, __ATOMIC_ACQUIRE);
}

// Under the lock. Any replica has the values; the first is as good as another.
static bool copy_to_host(struct storage *s) {
    struct replica *r = atomic_load_explicit(&s->replica, memory_order_acquire);
    if (host_of(s) || !r)
        return true;
    void *data = replica_is_sound(r) ? storage_host_room(s) : NULL;
    if (!data)
        return false;
    bool ok = r->device->copy(r->unit, data, r->memory, MIN_OF(s->bytes, r->bytes), true);
    counter_add(COUNTER_DOWNLOADS, 1);
    __atomic_store_n(&s->data, data, __ATOMIC_RELEASE);
    if (!ok)
        storage_drop_host(s);
    return ok;
}

bool device_fetch(struct storage *s) {
    if (LIKELY(host_of(s) != NULL))
        return true;
    pthread_mutex_lock(&lock);
    bool ok = copy_to_host(s);
    pthread_mutex_unlock(&lock);
    return ok;
}

bool device_download(struct storage *s, void *out, size_t bytes) {
    struct replica *r = atomic_load_explicit(&s->replica, memory_order_acquire);
    counter_add(COUNTER_DOWNLOADS, 1);
    return replica_is_sound(r) && r->device->copy(r->unit, out, r->memory, bytes, true);
}

// Under the lock.
static struct replica *copy_to_unit(const struct device *d, int unit, struct storage *s) {
    struct replica *r = replica_on(d, unit, s);
    if (r || !copy_to_host(s) || !(r = new_replica(d, unit, s->bytes)))
        return r;
    if (!d->copy(unit, r->memory, s->data, s->bytes, false))
        return release_replica(r), NULL;
    counter_add(COUNTER_UPLOADS, 1);
    r->next = atomic_load_explicit(&s->replica, memory_order_relaxed);
    atomic_store_explicit(&s->replica, r, memory_order_release);
    return r;
}

void *device_reach(const struct device *d, int unit, struct storage *s) {
    struct replica *r = replica_on(d, unit, s);
    if (LIKELY(r != NULL))
        return replica_is_sound(r) ? r->memory : NULL;
    if (!find(d, unit)) // takes the lock too, once
        return NULL;
    pthread_mutex_lock(&lock);
    r = copy_to_unit(d, unit, s);
    pthread_mutex_unlock(&lock);
    return r ? r->memory : NULL;
}

bool device_claim(const struct device *d, int unit, struct storage *s) {
    if (!d->alloc) {
        storage_drop_replicas(s, NULL);
        return true;
    }
    if (!device_reach(d, unit, s))
        return false;
    storage_drop_replicas(s, replica_on(d, unit, s));
    storage_drop_host(s);
    return true;
}

void device_publish(const struct device *d, int unit, struct storage *s) {
    struct replica *r = replica_on(d, unit, s);
    if (!r)
        return;
    atomic_store_explicit(&r->ready, device_point(d, unit), memory_order_relaxed);
    atomic_store_explicit(&r->finding, 0, memory_order_relaxed);
}

_Atomic uint64_t *device_finding(const struct device *d, int unit, struct storage *s) {
    return device_reach(d, unit, s) ? &replica_on(d, unit, s)->finding : NULL;
}

bool device_settle(struct storage *s) {
    if (host_of(s))
        return true;
    struct replica *r = atomic_load_explicit(&s->replica, memory_order_acquire);
    return !r || device_wait(r->device, r->unit, atomic_load_explicit(&r->ready, memory_order_relaxed));
}
