// vulkan_memory.c - memory of a device: arrays are parts of blocks, each of which is one VkBuffer.
//
// Drivers limit the number of allocations, and each is slow. Freed memory is cached above this
// (unit_memory.c), so parts are rarely taken or freed here. That is why a block simply keeps a list of its
// gaps, by address, and takes the first gap that is large enough.

#include "device/vulkan/vulkan.h"

#include <string.h>

enum {
    BLOCKS = 4096,
    SMALL_BLOCK = 64 << 20, // bytes of a block; an array of more than half of that has a block of its own
    LARGE_BLOCK = 256 << 20,
    NUMBER_SHIFT = 40, // position of a block's number in an address
};
static const uint64_t much = (uint64_t)16 << 30; // least memory of a device that has large blocks

struct gap {
    uint64_t begin, end;
};

struct block {
    struct vulkan_buffer buffer;
    uint64_t bytes, used;
    bool is_shared; // has several parts
    int gaps, cap;
    struct gap *gap;
    struct map parts; // offset -> bytes, as a pointer
};

static struct heap {
    struct lock lock;
    int blocks; // entries of `block` in use; some of them may be NULL
    struct block *_Atomic block[BLOCKS];
    atomic_llong made;
} heaps[VULKAN_DEVICES];

static struct heap *heap_of(const struct vulkan_device *d) {
    return &heaps[vulkan_unit(d)];
}

// Buffers ---------------------------------------------------------------------------------------------------

void vulkan_buffer_close(struct vulkan_device *d, struct vulkan_buffer *b) {
    d->api.vkDestroyBuffer(d->device, b->buffer, NULL);
    d->api.vkFreeMemory(d->device, b->memory, NULL);
    *b = (struct vulkan_buffer){0};
}

static bool give_memory(struct vulkan_device *d, struct vulkan_buffer *b, int type) {
    struct vk_needs needs;
    d->api.vkGetBufferMemoryRequirements(d->device, b->buffer, &needs);
    if (!(needs.types >> type & 1))
        return error_false(ZL_ERROR_DEVICE, "vulkan: buffers of %s cannot lie in memory of type %d", d->name,
                           type);
    struct vk_memory_flags flagged = {.record = VK_RECORD_MEMORY_FLAGS, .flags = VK_MEMORY_HAS_ADDRESS};
    struct vk_make_memory make = {.record = VK_RECORD_MEMORY,
                                  .next = d->has_addresses ? &flagged : NULL,
                                  .bytes = needs.bytes,
                                  .type = (uint32_t)type};
    void *mapped = NULL;
    if (!VULKAN_CALL(d, vkAllocateMemory, d->device, &make, NULL, &b->memory) ||
        !VULKAN_CALL(d, vkBindBufferMemory, d->device, b->buffer, b->memory, 0))
        return false;
    if (d->has_addresses)
        b->address = d->api.vkGetBufferDeviceAddress(
            d->device, &(struct vk_address){.record = VK_RECORD_ADDRESS, .buffer = b->buffer});
    uint32_t flags = d->types.type[type].flags;
    if (flags & VK_VISIBLE && flags & VK_COHERENT &&
        !VULKAN_CALL(d, vkMapMemory, d->device, b->memory, 0, needs.bytes, 0, &mapped))
        return false;
    b->mapped = mapped;
    return true;
}

bool vulkan_buffer_open(struct vulkan_device *d, struct vulkan_buffer *b, int type, uint64_t bytes) {
    uint32_t use = VK_USE_STORAGE | VK_USE_COPY_FROM | VK_USE_COPY_TO;
    struct vk_make_buffer make = {
        .record = VK_RECORD_BUFFER, .bytes = bytes, .use = use | (d->has_addresses ? VK_USE_ADDRESS : 0)};
    *b = (struct vulkan_buffer){0};
    bool made = VULKAN_CALL(d, vkCreateBuffer, d->device, &make, NULL, &b->buffer) && give_memory(d, b, type);
    if (!made)
        vulkan_buffer_close(d, b);
    return made;
}

// Blocks ----------------------------------------------------------------------------------------------------

static void block_free(struct vulkan_device *d, struct block *b) {
    if (b->buffer.buffer)
        vulkan_buffer_close(d, &b->buffer);
    map_free(&b->parts);
    memory_free(b->gap);
    memory_free(b);
}

// Returns a free entry for another block, or -1 and an error. Under the lock.
static int find_place(struct heap *h) {
    for (int i = 0; i < h->blocks; i++)
        if (!atomic_load(&h->block[i]))
            return i;
    if (h->blocks == BLOCKS) {
        error_set(ZL_ERROR_MEMORY, "vulkan: there are %d blocks of memory already", BLOCKS);
        return -1;
    }
    return h->blocks++;
}

// Adds a block. Returns its entry, or -1 and an error. Under the lock.
static int add_block(struct vulkan_device *d, struct heap *h, uint64_t bytes, bool is_shared) {
    int place = find_place(h);
    struct block *b = place < 0 ? NULL : memory_zero(sizeof *b);
    if (!b)
        return -1;
    b->bytes = bytes;
    b->is_shared = is_shared;
    if (!memory_grow(&b->gap, &b->cap, 1, sizeof *b->gap) ||
        !vulkan_buffer_open(d, &b->buffer, d->local_type, bytes)) {
        block_free(d, b);
        return -1;
    }
    b->gap[b->gaps++] = (struct gap){0, bytes};
    atomic_store(&h->block[place], b);
    atomic_fetch_add(&h->made, 1);
    return place;
}

// Parts -----------------------------------------------------------------------------------------------------

// Takes a part of a block. Returns its offset, or -1 if no gap is large enough or memory runs out. Under the
// lock.
static int64_t take_part(struct block *b, uint64_t bytes) {
    for (int i = 0; i < b->gaps; i++) {
        struct gap *g = &b->gap[i];
        if (g->end - g->begin < bytes)
            continue;
        uint64_t at = g->begin;
        if (!map_set(&b->parts, &at, sizeof at, (void *)(uintptr_t)bytes))
            return -1;
        g->begin += bytes;
        if (g->begin == g->end)
            memmove(g, g + 1, sizeof *g * (size_t)(--b->gaps - i));
        b->used += bytes;
        return (int64_t)at;
    }
    return -1;
}

// Returns a part to the gaps of a block. If there is no memory to describe the gap, it is lost until the
// block is freed. Under the lock.
static void give_part(struct block *b, uint64_t at) {
    uint64_t bytes = (uintptr_t)map_get(&b->parts, &at, sizeof at), end = at + bytes;
    int i = 0;
    map_set(&b->parts, &at, sizeof at, NULL);
    b->used -= bytes;
    while (i < b->gaps && b->gap[i].begin < at)
        i++;
    bool joins_before = i && b->gap[i - 1].end == at, joins_after = i < b->gaps && b->gap[i].begin == end;
    if (joins_before && joins_after) {
        b->gap[i - 1].end = b->gap[i].end;
        memmove(&b->gap[i], &b->gap[i + 1], sizeof *b->gap * (size_t)(--b->gaps - i));
    } else if (joins_before) {
        b->gap[i - 1].end = end;
    } else if (joins_after) {
        b->gap[i].begin = at;
    } else if (memory_grow(&b->gap, &b->cap, b->gaps + 1, sizeof *b->gap)) {
        memmove(&b->gap[i + 1], &b->gap[i], sizeof *b->gap * (size_t)(b->gaps++ - i));
        b->gap[i] = (struct gap){at, end};
    }
}

static void *address_of(int place, uint64_t at) {
    return (void *)(uintptr_t)((uint64_t)(place + 1) << NUMBER_SHIFT | at);
}

static int place_of(const void *memory) {
    return (int)((uint64_t)(uintptr_t)memory >> NUMBER_SHIFT) - 1;
}

static uint64_t offset_of(const void *memory) {
    return (uint64_t)(uintptr_t)memory & (((uint64_t)1 << NUMBER_SHIFT) - 1);
}

// Takes a part of a shared block or a new block. Under the lock.
static void *take(struct vulkan_device *d, struct heap *h, uint64_t bytes) {
    uint64_t block = d->memory > much ? LARGE_BLOCK : SMALL_BLOCK;
    bool is_shared = bytes <= block / 2;
    for (int i = 0; is_shared && i < h->blocks; i++) {
        struct block *b = atomic_load(&h->block[i]);
        int64_t at = b && b->is_shared ? take_part(b, bytes) : -1;
        if (at >= 0)
            return address_of(i, (uint64_t)at);
    }
    int place = add_block(d, h, is_shared ? block : bytes, is_shared);
    int64_t at = place < 0 ? -1 : take_part(atomic_load(&h->block[place]), bytes);
    return at < 0 ? NULL : address_of(place, (uint64_t)at);
}

void *vulkan_alloc(struct vulkan_device *d, size_t bytes) {
    struct heap *h = heap_of(d);
    if (bytes > d->memory)
        return error_set(ZL_ERROR_MEMORY, "vulkan: %zu bytes are more than %s has, %llu", bytes, d->name,
                         (unsigned long long)d->memory);
    lock_take(&h->lock);
    void *memory =
        take(d, h, (MAX_OF(bytes, (size_t)1) + VULKAN_ALIGNMENT - 1) & ~(uint64_t)(VULKAN_ALIGNMENT - 1));
    lock_give(&h->lock);
    return memory;
}

// Returns whether this is the only shared block: it is kept for the next array even if it is unused. Under
// the lock.
static bool is_last(const struct heap *h, const struct block *b) {
    for (int i = 0; i < h->blocks; i++) {
        struct block *other = atomic_load(&h->block[i]);
        if (other && other != b && other->is_shared)
            return false;
    }
    return b->is_shared;
}

void vulkan_free(struct vulkan_device *d, void *memory) {
    struct heap *h = heap_of(d);
    if (!memory)
        return;
    lock_take(&h->lock);
    int place = place_of(memory);
    struct block *b = atomic_load(&h->block[place]);
    give_part(b, offset_of(memory));
    bool goes = !b->used && !is_last(h, b);
    if (goes)
        atomic_store(&h->block[place], NULL);
    lock_give(&h->lock);
    if (goes)
        block_free(d, b);
}

// Returns where memory is. The caller holds a part of the block, so the block cannot go meanwhile.
struct vulkan_place vulkan_place(const struct vulkan_device *d, const void *memory) {
    const struct block *b = atomic_load_explicit(&heap_of(d)->block[place_of(memory)], memory_order_acquire);
    uint64_t offset = offset_of(memory);
    return (struct vulkan_place){b->buffer.buffer, offset, b->buffer.address + offset,
                                 b->buffer.mapped ? b->buffer.mapped + offset : NULL};
}

bool vulkan_is_cached(const struct vulkan_device *d) {
    return d->types.type[d->local_type].flags & VK_CACHED;
}

int64_t vulkan_blocks_made(int unit) {
    return atomic_load(&heaps[unit].made);
}
