// text_memory.c - memory that is freed as a whole, buffers that grow, and hash tables from byte strings to
// numbers.

#include "text_inside.h"

enum { BLOCK_BYTES = 1 << 16, ALIGNMENT = 16 };

struct text_arena_block {
    struct text_arena_block *next;
    char *end;
    char data[];
};

bool text_fail(char *error, size_t error_bytes, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(error, error_bytes, format, list);
    va_end(list);
    return false;
}

// Arenas ----------------------------------------------------------------------------------------------------

void *text_arena_get(struct text_arena *a, size_t bytes) {
    if (bytes > SIZE_MAX / 4)
        return NULL;
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!a->blocks || bytes > a->left) {
        size_t room = bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES;
        struct text_arena_block *block = malloc(sizeof *block + ALIGNMENT + room);
        if (!block)
            return NULL;
        char *start = block->data + (ALIGNMENT - (uintptr_t)block->data % ALIGNMENT) % ALIGNMENT;
        block->end = start + room;
        if (a->blocks && room == bytes) { // the newest block stays first, since it has free room
            block->next = a->blocks->next;
            a->blocks->next = block;
            return start;
        }
        block->next = a->blocks;
        a->blocks = block;
        a->left = room;
    }
    void *got = a->blocks->end - a->left;
    a->left -= bytes;
    return got;
}

char *text_arena_copy(struct text_arena *a, const void *data, size_t bytes) {
    char *copy = text_arena_get(a, bytes + 1);
    if (!copy)
        return NULL;
    if (bytes)
        memcpy(copy, data, bytes);
    copy[bytes] = 0;
    return copy;
}

void text_arena_free(struct text_arena *a) {
    for (struct text_arena_block *block = a->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    *a = (struct text_arena){0};
}

// Bytes that grow -------------------------------------------------------------------------------------------

bool text_buffer_room(struct text_buffer *b, size_t bytes) {
    if (bytes > SIZE_MAX / 4 || b->bytes > SIZE_MAX / 4)
        return false;
    if (b->bytes + bytes < b->cap)
        return true;
    size_t cap = 2 * (b->bytes + bytes) + 64;
    char *bigger = realloc(b->data, cap);
    if (!bigger)
        return false;
    b->data = bigger;
    b->cap = cap;
    return true;
}

bool text_buffer_add(struct text_buffer *b, const void *data, size_t bytes) {
    if (!text_buffer_room(b, bytes))
        return false;
    if (bytes)
        memcpy(b->data + b->bytes, data, bytes);
    b->bytes += bytes;
    b->data[b->bytes] = 0;
    return true;
}

bool text_buffer_text(struct text_buffer *b, const char *text) {
    return text_buffer_add(b, text, strlen(text));
}

// Tables ----------------------------------------------------------------------------------------------------

uint64_t text_hash(const void *data, size_t bytes) {
    const unsigned char *at = data;
    uint64_t hash = 0x9e3779b97f4a7c15u ^ bytes, word;
    for (; bytes >= 8; bytes -= 8, at += 8) {
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    word = 0;
    for (size_t i = 0; i < bytes; i++)
        word |= (uint64_t)at[i] << (8 * i);
    hash = (hash ^ word) * 0xc4ceb9fe1a85ec53u;
    return hash ^ hash >> 29;
}

static size_t find_slot(const struct text_map *m, const void *key, size_t bytes) {
    size_t slot = (size_t)text_hash(key, bytes) & (m->slots - 1);
    for (; m->slot[slot]; slot = (slot + 1) & (m->slots - 1)) {
        const struct text_map_entry *e = &m->entry[m->slot[slot] - 1];
        if (e->bytes == bytes && !memcmp(e->key, key, bytes))
            break;
    }
    return slot;
}

bool text_map_reserve(struct text_map *m, size_t count) {
    if (count > UINT32_MAX / 4)
        return false;
    if (count > m->cap) {
        struct text_map_entry *bigger = realloc(m->entry, count * sizeof *bigger);
        if (!bigger)
            return false;
        m->entry = bigger;
        m->cap = count;
    }
    size_t slots = 64;
    while (slots < 2 * count)
        slots *= 2;
    if (slots <= m->slots)
        return true;
    uint32_t *table = calloc(slots, sizeof *table);
    if (!table)
        return false;
    free(m->slot);
    m->slot = table;
    m->slots = slots;
    for (size_t i = 0; i < m->count; i++)
        m->slot[find_slot(m, m->entry[i].key, m->entry[i].bytes)] = (uint32_t)i + 1;
    return true;
}

bool text_map_put(struct text_map *m, const void *key, size_t bytes, uint32_t value) {
    if (m->count == m->cap && !text_map_reserve(m, m->cap ? 2 * m->cap : 64))
        return false;
    size_t slot = find_slot(m, key, bytes);
    if (!m->slot[slot]) {
        m->entry[m->count] = (struct text_map_entry){key, (uint32_t)bytes, value};
        m->slot[slot] = (uint32_t)++m->count;
    }
    m->entry[m->slot[slot] - 1].value = value;
    return true;
}

int64_t text_map_get(const struct text_map *m, const void *key, size_t bytes) {
    size_t slot = m->slots ? find_slot(m, key, bytes) : 0;
    return m->slots && m->slot[slot] ? (int64_t)m->entry[m->slot[slot] - 1].value : TEXT_NONE;
}

void text_map_free(struct text_map *m) {
    free(m->entry);
    free(m->slot);
    *m = (struct text_map){0};
}
