// memory.c - allocation that reports its failures, and fails on demand for tests.

#include "base/base.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    LINE_BYTES = 64,
    HUGE_BYTES = 2 << 20,
    MAP_BYTES = 64 << 10, // a multiple of every page size in use: 4, 16 and 64 KiB
};

static atomic_long fail_at; // 0: neither fail nor count, so that threads share no written cache line
static atomic_long allocations;

void memory_fail_at(long at) {
    atomic_store(&allocations, 0);
    atomic_store(&fail_at, at);
}

long memory_allocations(void) {
    return atomic_load(&allocations);
}

static bool must_fail(void) {
    long at = atomic_load_explicit(&fail_at, memory_order_relaxed);
    return UNLIKELY(at != 0) && atomic_fetch_add(&allocations, 1) + 1 == at;
}

static void *checked(void *data, size_t bytes) {
    if (LIKELY(data != NULL))
        return data;
    return error_set(ZL_ERROR_MEMORY, "out of memory: %zu bytes asked for", bytes);
}

void *memory_alloc(size_t bytes) {
    return checked(must_fail() ? NULL : malloc(bytes ? bytes : 1), bytes);
}

void *memory_zero(size_t bytes) {
    return checked(must_fail() ? NULL : calloc(1, bytes ? bytes : 1), bytes);
}

void *memory_resize(void *old, size_t bytes) {
    return checked(must_fail() ? NULL : realloc(old, bytes ? bytes : 1), bytes);
}

void memory_free(void *data) {
    free(data);
}

void zl_free(void *text) {
    memory_free(text);
}

char *memory_copy_text(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = memory_alloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

static size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

// Maps more than needed and unmaps both ends: only a block that starts at a multiple of the huge page size
// gets huge pages.
static void *map_huge(size_t bytes) {
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t needed = round_up(bytes, MAP_BYTES), mapped = needed + HUGE_BYTES;
    char *start = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)start & (HUGE_BYTES - 1), after = mapped - before - needed;
    char *data = start + before;
    if (before)
        munmap(start, before);
    if (after)
        munmap(data + needed, after);
#ifdef MADV_HUGEPAGE
    madvise(data, needed, MADV_HUGEPAGE);
#endif
    return data;
}

static void *alloc_lines(size_t bytes) {
    void *data = NULL;
    return posix_memalign(&data, LINE_BYTES, round_up(bytes ? bytes : 1, LINE_BYTES)) ? NULL : data;
}

void *memory_alloc_pages(size_t bytes) {
    if (must_fail())
        return checked(NULL, bytes);
    return checked(bytes >= HUGE_BYTES ? map_huge(bytes) : alloc_lines(bytes), bytes);
}

void memory_free_pages(void *data, size_t bytes) {
    if (bytes < HUGE_BYTES)
        free(data);
    else if (data)
        munmap(data, round_up(bytes, MAP_BYTES));
}

bool memory_grow(void *items_pointer, int *cap, int need, size_t size) {
    if (need <= *cap)
        return true;
    int64_t wider = MIN_OF(MAX_OF(MAX_OF((int64_t)*cap * 2, need), 16), INT_MAX);
    size_t bytes;
    if (__builtin_mul_overflow((size_t)wider, size, &bytes))
        return error_false(ZL_ERROR_MEMORY, "out of memory: %d items of %zu bytes asked for", need, size);
    void *items; // items_pointer is a T ** of an unknown T, so it is copied as bytes, not read as a void **
    memcpy(&items, items_pointer, sizeof items);
    items = memory_resize(items, bytes);
    if (!items)
        return false;
    memcpy(items_pointer, &items, sizeof items);
    *cap = (int)wider;
    return true;
}
