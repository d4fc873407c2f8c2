// unit_memory.c - memory of units that have their own, replicas of storages on them, and the order of their
// work.
//
// A lane of a unit runs its work in the order of submission. So its memory may be reused on the same lane as
// soon as the host has released it: the next user comes later in that order. Freed memory is cached by lane
// and capacity, and given back to the device when the device runs out. Another lane gets it once all work
// that used it is done.
//
// Points number positions in that order. The next point stands for all work submitted so far; it is marked
// when a run ends, or when a thread waits for it. If the device later rejects work, the work's point is
// marked as failed, and so is everything that reads its results. A lane that reads what another lane wrote
// follows that lane's point: the device waits, not the host.

#include "device/profile/profile.h"

#include <stdio.h>
#include <string.h>

enum {
    POINTS = 64,     // marks that a lane keeps; a wait for an older point waits for the later one in its slot
    MARK_NS = 20000, // least time between marks that no thread waits for: a mark costs a third of a launch
    FAILURES = 8,    // failed points that are remembered; all points up to the last forgotten one count as
                     // failed
    LANES = DEVICE_LANES,
};

// A free block: a node in the pairing heap of its lane and capacity, ordered by address.
struct block {
    struct block *below, *next; // the first child, and the next sibling
    void *memory;
    unsigned lanes;       // the lanes that used it, by bit
    uint64_t used[LANES]; // for each of these lanes, the point after its last use
};

// A lane. Its points are LANES apart: point modulo LANES is the lane's index.
struct lane {
    struct map blocks;            // heaps of free blocks, by capacity
    atomic_ullong point;          // the next point
    atomic_ullong follows[LANES]; // for each other lane, the last of its points that this lane waits for
    atomic_ullong done;           // the latest point that is known to be done
    int64_t marked;               // when the last mark was recorded, clock_ns()
    int failures;
    uint64_t failed[FAILURES], failed_until; // failed points; all points up to failed_until count as failed
    char why[256];                           // the message of the last failure
};

struct unit {
    struct unit *next;
    const struct device *device;
    int index;
    bool is_host;        // its memory is the host's
    struct lock lock;    // guards blocks and marks
    atomic_int streams;  // the number of streams that device_lane assigned
    struct block *spare; // descriptions without memory, for reuse
    struct lane lane[LANES];
};

static struct lock lock; // guards additions to `units`, and copies between replicas
static struct unit *_Atomic units;
static atomic_bool any_failed; // whether any point of any unit has failed
atomic_bool device_memory;

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
    lock_take(&lock);
    if (!(u = look(d, index)) && (u = memory_zero(sizeof *u))) {
        u->device = d;
        u->index = index;
        u->is_host = !device_is_gpu(d, index);
        for (int i = 0; i < LANES; i++)
            atomic_store(&u->lane[i].point, (uint64_t)(LANES + i));
        u->next = atomic_load(&units);
        atomic_store_explicit(&units, u, memory_order_release);
        atomic_store_explicit(&device_memory, true, memory_order_release);
        allocator_on_clear(clear_cache);
    }
    lock_give(&lock);
    return u;
}

int device_lane(const struct device *d, int unit) {
    int lanes = (int)MIN_OF(d->lanes, MAX_OF(setting_number(SETTING_LANES), 1));
    struct unit *u = lanes > 1 ? find(d, unit) : NULL;
    return u ? atomic_fetch_add(&u->streams, 1) % lanes : 0;
}

// The order of work -----------------------------------------------------------------------------------------

static int lane_of(uint64_t point) {
    return (int)(point % LANES);
}

static int place_of(uint64_t point) {
    return (int)(point / LANES % POINTS);
}

static uint64_t next_point(struct unit *u, int lane) {
    return atomic_load(&u->lane[lane].point);
}

uint64_t device_point(const struct device *d, int unit, int lane) {
    struct unit *u = d->record ? find(d, unit) : NULL;
    return u ? next_point(u, lane) : 0;
}

static void fail_point(struct lane *l, uint64_t point) {
    uint64_t *place = &l->failed[l->failures++ % FAILURES];
    l->failed_until = MAX_OF(l->failed_until, *place);
    *place = point;
}

// Marks the lane's next point as failed and moves on to a new one, so that work enqueued later is not
// affected. Under the unit's lock.
static bool note_failure(struct lane *l) {
    uint64_t point = atomic_load(&l->point);
    fail_point(l, point);
    snprintf(l->why, sizeof l->why, "%s", zl_error() ? zl_error() : "the device failed");
    atomic_store(&l->point, point + LANES);
    atomic_store(&any_failed, true);
    return false;
}

// Returns whether the device accepted the lane's work so far; else notes the failure. Under the unit's lock.
static bool is_good(struct unit *u, int lane) {
    return !u->device->good || u->device->good(u->index, lane) || note_failure(&u->lane[lane]);
}

// Records a mark at the lane's next point, which also submits all work that the device has held back. The
// point is advanced first, because work that other threads enqueue meanwhile may come after the mark. A
// failure found here may belong to either point, so both are marked as failed. Under the unit's lock.
static bool mark(struct unit *u, int lane) {
    struct lane *l = &u->lane[lane];
    uint64_t point = atomic_load(&l->point);
    atomic_store(&l->point, point + LANES);
    if (!u->device->record(u->index, lane, place_of(point))) {
        atomic_store(&l->point, point);
        return false;
    }
    l->marked = clock_ns();
    if (is_good(u, lane))
        return true;
    fail_point(l, point);
    return false;
}

bool device_mark(const struct device *d, int unit, int lane) {
    struct unit *u = d->record && device_check(d) ? find(d, unit) : NULL;
    if (!u)
        return !d->record;
    lock_take(&u->lock);
    bool ok = clock_ns() - u->lane[lane].marked < MARK_NS ? is_good(u, lane) : mark(u, lane);
    lock_give(&u->lock);
    return ok;
}

// Returns whether a point is known or assumed to have failed. Under the unit's lock.
static bool has_failed(const struct lane *l, uint64_t point) {
    bool failed = point && point <= l->failed_until;
    for (int i = 0; i < FAILURES; i++)
        failed |= point && l->failed[i] == point;
    return failed;
}

// Returns whether a point has not failed. Sets the error if it has.
static bool is_sound(const struct device *d, int unit, uint64_t point) {
    struct unit *u = atomic_load_explicit(&any_failed, memory_order_acquire) ? look(d, unit) : NULL;
    if (LIKELY(!u))
        return true;
    const struct lane *l = &u->lane[lane_of(point)];
    lock_take(&u->lock);
    bool sound = !has_failed(l, point) || error_false(ZL_ERROR_DEVICE, "%s", l->why);
    lock_give(&u->lock);
    return sound;
}

// Waits for a mark, and adds a record of it to the profile if one is on.
static bool wait_for(const struct device *d, int unit, int lane, int place) {
    if (!profile_is_on() || profile_is_ending)
        return d->wait(unit, lane, place);
    int64_t begin = clock_ticks();
    bool ok = d->wait(unit, lane, place);
    profile_add(&(struct profile_record){.kind = PROFILE_WAIT,
                                         .unit = (uint8_t)unit,
                                         .lane = (uint8_t)lane,
                                         .begin = begin,
                                         .end = clock_ticks(),
                                         .device = d,
                                         .name = "wait"},
                NULL);
    return ok;
}

static bool is_known_done(struct unit *u, uint64_t point) {
    return point <= atomic_load_explicit(&u->lane[lane_of(point)].done, memory_order_acquire);
}

static void note_done(struct unit *u, uint64_t point) {
    atomic_ullong *done = &u->lane[lane_of(point)].done;
    unsigned long long before = atomic_load(done);
    while (before < point && !atomic_compare_exchange_weak(done, &before, point))
        ;
}

bool device_wait(const struct device *d, int unit, uint64_t point) {
    struct unit *u = d->record && device_check(d) ? find(d, unit) : NULL;
    if (!u)
        return !d->record;
    int lane = lane_of(point);
    if (is_known_done(u, point))
        return is_sound(d, unit, point);
    lock_take(&u->lock);
    bool ok = next_point(u, lane) > point || mark(u, lane);
    lock_give(&u->lock);
    if (!ok || !is_sound(d, unit, point) || !wait_for(d, unit, lane, place_of(point)))
        return false;
    note_done(u, point);
    return true;
}

// Between lanes ---------------------------------------------------------------------------------------------

// Ensures that a point is marked. A failure of the work before the mark is not reported here, but to whoever
// reads its results. Returns false, with an error, if the mark cannot be recorded. Under the unit's lock.
static bool set_mark(struct unit *u, uint64_t point) {
    int lane = lane_of(point);
    bool had_error = zl_error();
    if (next_point(u, lane) > point || mark(u, lane))
        return true;
    if (next_point(u, lane) <= point)
        return false;
    if (!had_error)
        zl_clear_error();
    return true;
}

static bool follows(struct unit *u, int lane, uint64_t point) {
    return lane == lane_of(point) ||
           atomic_load_explicit(&u->lane[lane].follows[lane_of(point)], memory_order_acquire) >= point;
}

// Makes later work of the lane wait for a point of another lane. Returns false, with an error, if that fails.
// Under the unit's lock.
static bool follow(struct unit *u, int lane, uint64_t point) {
    int other = lane_of(point);
    if (follows(u, lane, point))
        return true;
    if (!set_mark(u, point) || !u->device->follow(u->index, lane, other, place_of(point)))
        return false;
    atomic_store_explicit(&u->lane[lane].follows[other], point, memory_order_release);
    return true;
}

static bool follow_point(struct unit *u, int lane, uint64_t point) {
    if (LIKELY(follows(u, lane, point)))
        return true;
    lock_take(&u->lock);
    bool ok = follow(u, lane, point);
    lock_give(&u->lock);
    return ok;
}

// Makes later work of a lane wait for all work enqueued so far on other lanes (bits).
static bool follow_lanes(struct unit *u, int lane, unsigned lanes) {
    while (lanes && follow_point(u, lane, next_point(u, __builtin_ctz(lanes))))
        lanes &= lanes - 1;
    return !lanes;
}

// Returns whether a point is known to be done, without blocking. Under the unit's lock.
static bool is_done(struct unit *u, uint64_t point) {
    if (!is_known_done(u, point) && set_mark(u, point) &&
        u->device->done(u->index, lane_of(point), place_of(point)))
        note_done(u, point);
    return is_known_done(u, point);
}

// Memory ----------------------------------------------------------------------------------------------------

static struct block *meld(struct block *a, struct block *b) {
    if (!a || !b)
        return a ? a : b;
    struct block *first = a->memory < b->memory ? a : b, *other = first == a ? b : a;
    other->next = first->below;
    first->below = other;
    return first;
}

// Returns the heap without its first node: its children are melded in pairs, then all together.
static struct block *without_first(struct block *first) {
    struct block *pairs = NULL, *left = NULL;
    for (struct block *b = first->below, *rest; b; b = rest) {
        struct block *beside = b->next;
        rest = beside ? beside->next : NULL;
        b = meld(b, beside);
        b->next = pairs;
        pairs = b;
    }
    for (struct block *rest; pairs; pairs = rest) {
        rest = pairs->next;
        left = meld(left, pairs);
    }
    return left;
}

// Takes a free block of the lane's own heap, and makes the lane wait for other lanes that still use it.
// Returns NULL if there is none, or, with an error, if the lane cannot wait. Under the unit's lock.
static struct block *take_own(struct unit *u, int lane, size_t capacity) {
    struct lane *l = &u->lane[lane];
    struct block *b = map_get(&l->blocks, &capacity, sizeof capacity);
    for (unsigned left = b ? b->lanes & ~(1u << lane) : 0; left; left &= left - 1)
        if (!follow(u, lane, b->used[__builtin_ctz(left)]))
            return NULL;
    if (b)
        map_set(&l->blocks, &capacity, sizeof capacity, without_first(b));
    return b;
}

static bool is_unused(struct unit *u, const struct block *b) {
    unsigned left = b->lanes;
    while (left && is_done(u, b->used[__builtin_ctz(left)]))
        left &= left - 1;
    return !left;
}

// Takes a free block from another lane's heap, if all work on it is done. Under the unit's lock.
static struct block *take_other(struct unit *u, int lane, size_t capacity) {
    for (int i = 0; i < u->device->lanes; i++) {
        struct block *b = i == lane ? NULL : map_get(&u->lane[i].blocks, &capacity, sizeof capacity);
        if (!b || !is_unused(u, b))
            continue;
        map_set(&u->lane[i].blocks, &capacity, sizeof capacity, without_first(b));
        return b;
    }
    return NULL;
}

// Returns the memory of a block, and keeps its description for reuse. Under the unit's lock.
static void *empty(struct unit *u, struct block *b) {
    void *memory = b->memory;
    b->next = u->spare;
    u->spare = b;
    return memory;
}

static void *take_block(struct unit *u, int lane, size_t capacity) {
    lock_take(&u->lock);
    struct block *b = take_own(u, lane, capacity);
    if (!b)
        b = take_other(u, lane, capacity);
    void *memory = b ? empty(u, b) : NULL;
    lock_give(&u->lock);
    if (memory)
        allocator_keep(-(int64_t)capacity, !u->is_host);
    return memory;
}

// Adds a free block to its heap. The block of the lowest address is taken first, so that a program that runs
// again gets the same memory, and what was prepared for that memory, such as graphs, can be reused.
static bool insert(struct lane *l, struct block *b, size_t capacity) {
    b->below = b->next = NULL;
    return map_set(&l->blocks, &capacity, sizeof capacity,
                   meld(map_get(&l->blocks, &capacity, sizeof capacity), b));
}

// Caches freed memory of a lane that these lanes (bits) have used. Returns false if there is no memory for
// its description. Under the unit's lock.
static bool add_block(struct unit *u, int lane, unsigned lanes, void *memory, size_t capacity) {
    struct block *b = u->spare ? u->spare : memory_zero(sizeof *b);
    if (!b)
        return false;
    u->spare = b->next;
    b->memory = memory;
    b->lanes = lanes;
    for (unsigned left = lanes; left; left &= left - 1)
        b->used[__builtin_ctz(left)] = next_point(u, __builtin_ctz(left));
    if (insert(&u->lane[lane], b, capacity))
        return true;
    empty(u, b);
    return false;
}

static bool keep_block(struct unit *u, int lane, unsigned lanes, void *memory, size_t capacity) {
    if (!allocator_keep((int64_t)capacity, !u->is_host))
        return false;
    lock_take(&u->lock);
    bool kept = add_block(u, lane, lanes, memory, capacity);
    lock_give(&u->lock);
    if (!kept)
        allocator_keep(-(int64_t)capacity, !u->is_host);
    return kept;
}

static void free_list(const void *key, size_t bytes, void *value, void *data) {
    const struct unit *u = data;
    size_t capacity;
    struct block *left;
    __builtin_memcpy(&capacity, key, bytes);
    for (struct block *b = value; b; b = left) {
        left = without_first(b);
        u->device->free(u->index, b->memory);
        allocator_keep(-(int64_t)capacity, !u->is_host);
        memory_free(b);
    }
}

static void free_blocks(struct unit *u) {
    for (int i = 0; i < LANES; i++) {
        lock_take(&u->lock);
        struct map blocks = u->lane[i].blocks;
        u->lane[i].blocks = (struct map){0};
        lock_give(&u->lock);
        map_each(&blocks, free_list, u);
        map_free(&blocks);
    }
}

static void clear_cache(void) {
    device_pinned_clear();
    for (struct unit *u = atomic_load_explicit(&units, memory_order_acquire); u; u = u->next)
        if (!device_is_lost(u->device))
            free_blocks(u);
}

// Takes cached memory or allocates it. If the device refuses, gives all cached memory back to it and tries
// again.
static void *get_memory(struct unit *u, int lane, size_t capacity) {
    bool had_error = zl_error();
    void *memory = take_block(u, lane, capacity);
    if (memory)
        return memory;
    if (!had_error)
        zl_clear_error(); // of a lane that could not wait
    if ((memory = u->device->alloc(u->index, capacity)))
        return memory;
    if (!had_error)
        zl_clear_error();
    free_blocks(u);
    return u->device->alloc(u->index, capacity);
}

void *device_alloc(const struct device *d, int unit, int lane, size_t bytes, size_t *capacity) {
    struct unit *u = device_check(d) ? find(d, unit) : NULL;
    *capacity = allocator_capacity(bytes);
    if (!u || !allocator_count((int64_t)*capacity, !u->is_host))
        return NULL;
    void *memory = get_memory(u, lane, *capacity);
    if (memory)
        return memory;
    allocator_count(-(int64_t)*capacity, !u->is_host);
    if (!zl_error())
        error_set(ZL_ERROR_MEMORY, "the %s device has no memory for %zu bytes", d->name, bytes);
    return NULL;
}

static void release(const struct device *d, int unit, int lane, unsigned lanes, void *memory,
                    size_t capacity) {
    struct unit *u = find(d, unit); // exists, because the memory belongs to it
    allocator_count(-(int64_t)capacity, !u->is_host);
    if (!device_is_lost(d) && !keep_block(u, lane, lanes, memory, capacity))
        d->free(unit, memory);
}

void device_free(const struct device *d, int unit, int lane, void *memory, size_t capacity) {
    release(d, unit, lane, 1u << lane, memory, capacity);
}

// Replicas --------------------------------------------------------------------------------------------------

static void release_replica(struct replica *r) {
    release(r->device, r->unit, r->lane, atomic_load(&r->lanes), r->memory, r->bytes);
    slab_free(r, sizeof *r);
}

static struct replica *new_replica(const struct device *d, int unit, int lane, size_t bytes) {
    struct replica *r = slab_alloc(sizeof *r);
    if (!r)
        return NULL;
    *r = (struct replica){.device = d,
                          .unit = unit,
                          .lane = (uint8_t)lane,
                          .lanes = (uint8_t)(1u << lane),
                          .is_given = true,
                          .release = release_replica};
    r->memory = device_alloc(d, unit, lane, bytes, &r->bytes);
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

static uint64_t point_of(const struct replica *r) {
    return atomic_load_explicit(&r->ready, memory_order_relaxed);
}

static bool replica_is_sound(const struct replica *r) {
    return r->is_given || is_sound(r->device, r->unit, point_of(r));
}

// Makes later work of the lane wait until the replica has its values. Returns false, with an error, if that
// fails.
static bool admit(struct replica *r, int lane) {
    if (LIKELY(lane == lane_of(point_of(r)) &&
               atomic_load_explicit(&r->lanes, memory_order_relaxed) >> lane & 1))
        return true;
    struct unit *u = find(r->device, r->unit);
    atomic_fetch_or(&r->lanes, (uint8_t)(1u << lane));
    return u && (!point_of(r) || follow_point(u, lane, point_of(r)));
}

// Frees a typed buffer. Unlike plain memory, it is not cached here: the device caches buffers itself.
static void release_buffer(struct replica *r) {
    struct unit *u = find(r->device, r->unit);
    allocator_count(-(int64_t)buffer_form_bytes(r->form), !u->is_host);
    if (!device_is_lost(r->device))
        r->device->free(r->unit, r->memory);
    memory_free(r->form);
    slab_free(r, sizeof *r);
}

// Makes a replica of a typed buffer, which it takes over. Returns NULL, with an error, if that fails, and
// frees the buffer.
static struct replica *new_buffer(const struct device *d, int unit, int lane, const struct buffer_form *form,
                                  void *buffer) {
    struct unit *u = find(d, unit);
    struct replica *r = slab_alloc(sizeof *r);
    struct buffer_form *own =
        r ? buffer_form_new((zl_dtype)form->dtype, form->ndim, form->dim, form->bound) : NULL;
    size_t bytes = (size_t)buffer_form_size(form) * zl_dtype_size((zl_dtype)form->dtype);
    if (u && own && allocator_count((int64_t)buffer_form_bytes(form), !u->is_host)) {
        *r = (struct replica){.device = d,
                              .unit = unit,
                              .lane = (uint8_t)lane,
                              .lanes = (uint8_t)(1u << lane),
                              .is_given = true,
                              .memory = buffer,
                              .form = own,
                              .bytes = bytes,
                              .release = release_buffer};
        return r;
    }
    memory_free(own);
    if (r)
        slab_free(r, sizeof *r);
    d->free(unit, buffer);
    return NULL;
}

struct storage *device_adopt(const struct device *d, int unit, int lane, const struct buffer_form *form,
                             void *buffer) {
    struct replica *r = new_buffer(d, unit, lane, form, buffer);
    return r ? storage_elsewhere(r->bytes, r) : NULL;
}

struct storage *device_storage(const struct device *d, int unit, int lane, size_t bytes) {
    struct replica *r = new_replica(d, unit, lane, bytes);
    return r ? storage_elsewhere(bytes, r) : NULL;
}

// The direction of a copy; TO_PINNED: to pages that the device pinned.
enum way { TO_UNIT, TO_HOST, TO_PINNED };

static bool copy_on_lane(const struct device *d, int unit, int lane, void *to, const void *from, size_t bytes,
                         enum way way) {
    return way == TO_PINNED ? d->receive(unit, lane, to, from, bytes)
                            : d->copy(unit, lane, to, from, bytes, way == TO_HOST);
}

// Copies, and adds a record of the copy to the profile if one is on.
static bool copy_bytes(const struct device *d, int unit, int lane, void *to, const void *from, size_t bytes,
                       enum way way) {
    bool to_host = way != TO_UNIT;
    if (!profile_is_on())
        return copy_on_lane(d, unit, lane, to, from, bytes, way);
    int64_t begin = clock_ticks();
    bool ok = copy_on_lane(d, unit, lane, to, from, bytes, way);
    profile_add(&(struct profile_record){.kind = PROFILE_COPY,
                                         .unit = (uint8_t)unit,
                                         .lane = (uint8_t)lane,
                                         .begin = begin,
                                         .end = clock_ticks(),
                                         .device = d,
                                         .name = to_host ? "copy to the host" : "copy to the device",
                                         .read = to_host ? 0 : (float)bytes,
                                         .written = to_host ? (float)bytes : 0},
                NULL);
    return ok;
}

// Chooses the lane that copies a replica to the host. A device may have a separate lane for such copies. That
// lane waits for the work that made the replica, but not for later work on the replica's lane. Returns false,
// with an error, if it cannot wait.
static bool lane_to_read(const struct replica *r, int *lane) {
    uint64_t point = point_of(r);
    *lane = lane_of(point);
    struct unit *u = r->device->reads_aside && point ? find(r->device, r->unit) : NULL;
    if (!u)
        return true;
    bool ok = is_known_done(u, point);
    if (!ok) {
        lock_take(&u->lock);
        ok = set_mark(u, point) && r->device->follow(r->unit, LANES, *lane, place_of(point));
        lock_give(&u->lock);
    }
    *lane = LANES;
    return ok;
}

// Copies a replica to the host. A typed buffer is always copied whole, so `to` must have room for all of it.
static bool copy_down(const struct replica *r, void *to, size_t bytes, enum way way) {
    int lane;
    if (r->form)
        return r->device->get(r->unit, r->memory, r->form, to);
    return lane_to_read(r, &lane) && copy_bytes(r->device, r->unit, lane, to, r->memory, bytes, way);
}

static void *host_of(const struct storage *s) {
    return __atomic_load_n(&s->data, __ATOMIC_ACQUIRE);
}

// Returns memory for the host's copy of s, a replica of which is on a unit, or NULL and an error.
static void *host_memory_for(struct storage *s, const struct replica *r, enum way *way) {
    struct pinned_block *block = device_pinned_take(r->device, r->unit, s->bytes);
    *way = block ? TO_PINNED : TO_HOST;
    if (!block)
        return storage_host_memory(s);
    storage_lend_host(s, device_pinned_give, block);
    return device_pinned_address(block);
}

// Copies a storage to the host from its first replica: all replicas hold the same values. Under `lock`.
static bool copy_to_host(struct storage *s) {
    struct replica *r = atomic_load_explicit(&s->replica, memory_order_acquire);
    if (host_of(s) || !r)
        return true;
    if (!device_check(r->device))
        return false;
    enum way way;
    void *data = replica_is_sound(r) ? host_memory_for(s, r, &way) : NULL;
    if (!data)
        return false;
    bool ok = copy_down(r, data, MIN_OF(s->bytes, r->bytes), way);
    counter_add(COUNTER_DOWNLOADS, 1);
    __atomic_store_n(&s->data, data, __ATOMIC_RELEASE);
    if (!ok)
        storage_drop_host(s);
    return ok;
}

bool device_fetch(struct storage *s) {
    if (LIKELY(host_of(s) != NULL))
        return true;
    lock_take(&lock);
    bool ok = copy_to_host(s);
    lock_give(&lock);
    return ok;
}

bool device_download(struct storage *s, void *out, size_t bytes) {
    struct replica *r = atomic_load_explicit(&s->replica, memory_order_acquire);
    if (r->form && r->bytes > bytes) { // the whole buffer would not fit
        if (!device_fetch(s))
            return false;
        memcpy(out, s->data, bytes);
        return true;
    }
    counter_add(COUNTER_DOWNLOADS, 1);
    return device_check(r->device) && replica_is_sound(r) && copy_down(r, out, bytes, TO_HOST);
}

// Returns the unit's replica of s, and makes it from the host's copy if there is none. Under `lock`.
static struct replica *copy_to_unit(const struct device *d, int unit, int lane, struct storage *s) {
    struct replica *r = replica_on(d, unit, s);
    if (r || !copy_to_host(s) || !(r = new_replica(d, unit, lane, s->bytes)))
        return r;
    if (!copy_bytes(d, unit, lane, r->memory, s->data, s->bytes, TO_UNIT))
        return release_replica(r), NULL;
    counter_add(COUNTER_UPLOADS, 1);
    atomic_store_explicit(&r->ready, device_point(d, unit, lane), memory_order_relaxed);
    r->next = atomic_load_explicit(&s->replica, memory_order_relaxed);
    atomic_store_explicit(&s->replica, r, memory_order_release);
    return r;
}

void *device_reach(const struct device *d, int unit, int lane, struct storage *s) {
    struct replica *r = device_check(d) ? replica_on(d, unit, s) : NULL;
    if (UNLIKELY(!r)) {
        if (device_is_lost(d) || !find(d, unit)) // find takes `lock` when it adds the unit, so it is called
                                                 // before
            return NULL;
        lock_take(&lock);
        r = copy_to_unit(d, unit, lane, s);
        lock_give(&lock);
    }
    return r && admit(r, lane) && replica_is_sound(r) ? r->memory : NULL;
}

// Typed memory ----------------------------------------------------------------------------------------------

static struct replica *replica_of_form(const struct device *d, int unit, const struct storage *s,
                                       const struct buffer_form *form) {
    struct replica *r = atomic_load_explicit(&s->replica, memory_order_acquire);
    while (r && (r->device != d || r->unit != unit || !buffer_form_is_equal(r->form, form)))
        r = r->next;
    return r;
}

// Returns a sound buffer of this form on any unit of the device, for a storage that the host has no copy of,
// or NULL if there is none.
static const struct replica *replica_beside(const struct device *d, const struct storage *s,
                                            const struct buffer_form *form) {
    const struct replica *r =
        d->carry && !host_of(s) ? atomic_load_explicit(&s->replica, memory_order_acquire) : NULL;
    while (r && (r->device != d || !r->form || !buffer_form_is_equal(r->form, form)))
        r = r->next;
    return r && replica_is_sound(r) ? r : NULL;
}

// Returns a copy of the buffer from another unit if possible, else from the host; NULL and an error if that
// fails.
static void *new_copy(const struct device *d, int unit, struct storage *s, const struct buffer_form *form) {
    const struct replica *from = replica_beside(d, s, form);
    if (from)
        return d->carry(unit, from->memory);
    void *buffer = copy_to_host(s) ? d->put(unit, form, s->data) : NULL;
    counter_add(COUNTER_UPLOADS, buffer != NULL);
    return buffer;
}

// Returns the unit's buffer of this form, and makes it if there is none. A form may have fewer elements than
// the storage, never more. Under `lock`.
static struct replica *put_form(const struct device *d, int unit, struct storage *s,
                                const struct buffer_form *form) {
    struct replica *r = replica_of_form(d, unit, s, form);
    void *buffer = r ? NULL : new_copy(d, unit, s, form);
    if (!buffer || !(r = new_buffer(d, unit, 0, form, buffer)))
        return r;
    r->next = atomic_load_explicit(&s->replica, memory_order_relaxed);
    atomic_store_explicit(&s->replica, r, memory_order_release);
    return r;
}

void *device_reach_form(const struct device *d, int unit, struct storage *s, const struct buffer_form *form) {
    struct replica *r = device_check(d) ? replica_of_form(d, unit, s, form) : NULL;
    if (UNLIKELY(!r)) {
        if (device_is_lost(d) || !find(d, unit)) // find takes `lock` when it adds the unit, so it is called
                                                 // before
            return NULL;
        lock_take(&lock);
        r = put_form(d, unit, s, form);
        lock_give(&lock);
    }
    return r && replica_is_sound(r) ? r->memory : NULL;
}

// Returns a replica on the unit that holds all elements of a view, preferably one of the view's dtype; NULL
// if there is none. A replica with spare room along an axis qualifies only if it has at most `axes` axes.
static const struct replica *replica_reaching(const struct device *d, int unit, const struct storage *s,
                                              zl_dtype dtype, int64_t bytes, int axes) {
    const struct replica *found = NULL;
    for (const struct replica *r = atomic_load_explicit(&s->replica, memory_order_acquire); r; r = r->next)
        if (r->device == d && r->unit == unit && r->form && (int64_t)r->bytes >= bytes &&
            (r->form->bound.axis < 0 || r->form->ndim <= axes) &&
            (r->form->dtype == dtype || (!found && !host_of(s))))
            found = r;
    return found;
}

int device_form(const struct device *d, int unit, zl_array x, zl_dtype *dtype, int64_t *dim,
                struct form_bound *bound) {
    const struct storage *s = x->storage;
    int64_t item = (int64_t)array_item(x), first, last, elements = (int64_t)s->bytes / item;
    shape_span(x->ndim, x->dim, array_stride(x), x->offset, &first, &last);
    const struct replica *r =
        replica_reaching(d, unit, s, (zl_dtype)x->dtype, (last + 1) * item, x->ndim + 1);
    *bound = r ? r->form->bound : (struct form_bound){.axis = -1};
    *dtype = r ? (zl_dtype)r->form->dtype : (zl_dtype)x->dtype;
    if (r && r->form->ndim <= x->ndim + 1) {
        memcpy(dim, r->form->dim, sizeof *dim * (size_t)r->form->ndim);
        return r->form->ndim;
    }
    if (r) // The form has more axes than the caller has room for: it is read as one axis.
        return dim[0] = buffer_form_size(r->form), 1;
    bool is_whole = first == 0 && last + 1 == x->size && shape_is_dense(x->ndim, x->dim, array_stride(x)) &&
                    allocator_capacity((size_t)(x->size * item)) >= s->bytes;
    // the array's own shape is used, so that results of this shape have the same form
    if (is_whole && shape_is_row_major(x->ndim, x->dim, array_stride(x))) {
        memcpy(dim, x->dim, sizeof *dim * (size_t)x->ndim);
        return x->ndim;
    }
    return shape_base(x->ndim, x->dim, array_stride(x), x->offset, is_whole ? x->size : elements, dim);
}

bool device_claim(const struct device *d, int unit, int lane, struct storage *s) {
    if (!device_is_apart(d)) {
        storage_drop_replicas(s, NULL);
        return true;
    }
    if (!device_reach(d, unit, lane, s))
        return false;
    struct replica *r = replica_on(d, unit, s);
    unsigned others = atomic_load(&r->lanes) & ~(1u << lane);
    bool had_error = zl_error();
    if (UNLIKELY(others) && !follow_lanes(find(d, unit), lane, others)) {
        if (!had_error)
            zl_clear_error(); // the caller writes the result to other memory
        return false;
    }
    atomic_store(&r->lanes, (uint8_t)(1u << lane));
    r->lane = (uint8_t)lane;
    storage_drop_replicas(s, r);
    storage_drop_host(s);
    return true;
}

void device_publish(const struct device *d, int unit, int lane, struct storage *s) {
    struct replica *r = replica_on(d, unit, s);
    if (!r)
        return;
    atomic_store_explicit(&r->ready, device_point(d, unit, lane), memory_order_relaxed);
    atomic_store_explicit(&r->finding, 0, memory_order_relaxed);
    r->is_given = false;
}

_Atomic uint64_t *device_finding(const struct device *d, int unit, int lane, struct storage *s) {
    return device_reach(d, unit, lane, s) ? &replica_on(d, unit, s)->finding : NULL;
}

const struct device *device_home(const struct storage *s) {
    const struct replica *r = host_of(s) ? NULL : atomic_load_explicit(&s->replica, memory_order_acquire);
    return r ? r->device : NULL;
}

bool device_settle(struct storage *s) {
    if (host_of(s))
        return true;
    struct replica *r = atomic_load_explicit(&s->replica, memory_order_acquire);
    return !r || device_wait(r->device, r->unit, point_of(r));
}
