// pinned_memory.c - page-locked host memory for copies of arrays that a unit holds, so that the unit writes
// them by DMA.
//
// Pinning pages costs more than most copies, so a block is kept for reuse after the last array in it is
// freed, by size (rounded up to a power of two). The total size is bounded: to stay below the bound, the
// least recently used idle block is unpinned first. If all blocks are in use, or the driver refuses, the copy
// goes to ordinary memory.
//
// The pages are private to the process: a child of fork() gets a copy of them, as of all memory, so its
// arrays keep their values.

#include "device/device.h"

#include <sys/mman.h>

// Bytes: the least and the most of one block, and the most of all blocks.
enum { LEAST = 64 << 10, MOST = 8 << 20, ALL_MOST = 64 << 20 };

struct pinned_block {
    struct pinned_block *next; // of idle blocks: the one used before it
    const struct device *device;
    int unit; // the unit that pinned it; all units of the device may write to it
    void *memory;
    size_t bytes;
};

static struct lock lock; // guards all variables below
ZL_AT_LOAD {
    fork_guard(&lock);
}

static struct pinned_block *idle;
static size_t held;  // bytes of all blocks
static bool refused; // a driver refused to pin memory: no more is tried until the cache is cleared

// Making and freeing ----------------------------------------------------------------------------------------

static void free_blocks(struct pinned_block *r) {
    for (struct pinned_block *next; r; r = next) {
        next = r->next;
        if (!device_is_lost(r->device))
            r->device->unpin(r->unit, r->memory);
        munmap(r->memory, r->bytes);
        memory_free(r);
    }
}

// Makes a block. Returns NULL, without an error, if the driver refuses or there is no memory.
static struct pinned_block *new_block(const struct device *d, int unit, size_t bytes) {
    bool had_error = zl_error();
    struct pinned_block *r = memory_zero(sizeof *r);
    void *memory =
        r ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (memory != MAP_FAILED && d->pin(unit, memory, bytes)) {
        *r = (struct pinned_block){.device = d, .unit = unit, .memory = memory, .bytes = bytes};
        return r;
    }
    if (memory != MAP_FAILED)
        munmap(memory, bytes);
    memory_free(r);
    if (!had_error)
        zl_clear_error();
    return NULL;
}

// The cache -------------------------------------------------------------------------------------------------

// Returns the link to the most recently used idle block of this device and size, or the NULL link at the end
// of the list if there is none. Under the lock.
static struct pinned_block **find(const struct device *d, size_t bytes) {
    struct pinned_block **link = &idle;
    while (*link && ((*link)->device != d || (*link)->bytes != bytes))
        link = &(*link)->next;
    return link;
}

// Moves the least recently used idle blocks to *gone until `bytes` more fit the bound. Returns false if the
// blocks in use leave too little. Under the lock.
static bool make_way(size_t bytes, struct pinned_block **gone) {
    while (held + bytes > ALL_MOST && idle) {
        struct pinned_block **last = &idle;
        while ((*last)->next)
            last = &(*last)->next;
        held -= (*last)->bytes;
        allocator_keep(-(int64_t)(*last)->bytes, false);
        (*last)->next = *gone;
        *gone = *last;
        *last = NULL;
    }
    return held + bytes <= ALL_MOST;
}

static void note_refusal(size_t bytes) {
    lock_take(&lock);
    held -= bytes;
    refused = true;
    lock_give(&lock);
}

static struct pinned_block *take(const struct device *d, int unit, size_t bytes) {
    struct pinned_block *gone = NULL;
    lock_take(&lock);
    struct pinned_block **link = find(d, bytes), *r = *link;
    bool makes = !r && !refused && make_way(bytes, &gone);
    if (r) {
        *link = r->next;
        allocator_keep(-(int64_t)bytes, false);
    }
    held += makes ? bytes : 0;
    lock_give(&lock);
    free_blocks(gone);
    if (makes && !(r = new_block(d, unit, bytes)))
        note_refusal(bytes);
    return r;
}

struct pinned_block *device_pinned_take(const struct device *d, int unit, size_t bytes) {
    size_t size = LEAST;
    if (!d->pin || bytes < LEAST || bytes > MOST)
        return NULL;
    while (size < bytes)
        size *= 2;
    bool had_error = zl_error();
    if (!allocator_count((int64_t)size, false)) {
        if (!had_error)
            zl_clear_error(); // ordinary memory is not rounded up, so it may still be within the limit
        return NULL;
    }
    struct pinned_block *r = take(d, unit, size);
    if (!r)
        allocator_count(-(int64_t)size, false);
    return r;
}

void *device_pinned_address(const struct pinned_block *r) {
    return r->memory;
}

void device_pinned_give(void *block) {
    struct pinned_block *r = block;
    allocator_count(-(int64_t)r->bytes, false);
    lock_take(&lock);
    bool keeps = allocator_keep((int64_t)r->bytes, false);
    r->next = keeps ? idle : NULL;
    if (keeps)
        idle = r;
    else
        held -= r->bytes;
    lock_give(&lock);
    if (!keeps)
        free_blocks(r);
}

void device_pinned_clear(void) {
    lock_take(&lock);
    struct pinned_block *all = idle;
    for (struct pinned_block *r = all; r; r = r->next) {
        held -= r->bytes;
        allocator_keep(-(int64_t)r->bytes, false);
    }
    idle = NULL;
    refused = false;
    lock_give(&lock);
    free_blocks(all);
}
