// arena.c - memory that is freed all at once.

#include "base/base.h"

#include <stdio.h>

enum { ALIGN = 16, FIRST_BYTES = 4096, LARGEST_STEP = 1 << 20 };

struct arena_block {
    struct arena_block *next;
    size_t bytes; // of data
    _Alignas(ALIGN) char data[];
};

// Block sizes double, so that n bytes take O(log n) allocations. Blocks are zeroed and never reused.
static bool add_block(struct arena *arena, size_t bytes) {
    size_t usual = FIRST_BYTES - sizeof(struct arena_block);
    if (arena->block)
        usual = MIN_OF(arena->block->bytes * 2, LARGEST_STEP);
    size_t room = MAX_OF(bytes, usual);
    struct arena_block *block = memory_zero(sizeof *block + room);
    if (!block)
        return false;
    *block = (struct arena_block){.next = arena->block, .bytes = room};
    arena->block = block;
    arena->used = 0;
    return true;
}

void *arena_alloc(struct arena *arena, size_t bytes) {
    if (bytes > SIZE_MAX / 4)
        return error_set(ZL_ERROR_MEMORY, "out of memory: %zu bytes asked for", bytes);
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if ((!arena->block || bytes > arena->block->bytes - arena->used) && !add_block(arena, bytes))
        return NULL;
    void *data = arena->block->data + arena->used;
    arena->used += bytes;
    return data;
}

char *arena_text(struct arena *arena, const char *format, ...) {
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    int len = vsnprintf(NULL, 0, format, list);
    char *text = len < 0 ? NULL : arena_alloc(arena, (size_t)len + 1);
    if (text)
        vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    va_end(list);
    return text;
}

void arena_free(struct arena *arena) {
    for (struct arena_block *block = arena->block, *next; block; block = next) {
        next = block->next;
        memory_free(block);
    }
    *arena = (struct arena){0};
}
