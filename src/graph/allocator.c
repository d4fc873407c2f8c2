// allocator.c - host memory for array data: counted exactly, cached when freed, held to limits.
//
// Sizes are rounded up to classes, eight to a doubling, so that a freed block serves whatever comes next in its
// class. Freed blocks are kept, up to the cache limit: fresh pages cost more than most kernels that fill them.

#include <unistd.h>

#include "graph/graph.h"

enum { CLASS_LOW = 512, CLASSES = 8 * 56 };

struct block { // a free block links to the next of its class
    struct block *next;
};

static struct lock lock; // guards bins
static struct block *bins[CLASSES];
static atomic_llong active, cached, peak;
static atomic_llong memory_limit, cache_limit; // 0: not read yet

static int64_t physical_memory(void) {
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

static int64_t limit_of(atomic_llong *limit, enum setting setting, double share) {
    int64_t value = atomic_load_explicit(limit, memory_order_relaxed);
    if (LIKELY(value))
        return value;
    value = *setting_text(setting) ? setting_number(setting) : (int64_t)(share * (double)physical_memory());
    atomic_store_explicit(limit, value, memory_order_relaxed);
    return value;
}

static int64_t most_active(void) {
    return limit_of(&memory_limit, SETTING_MEMORY_LIMIT, 0.95);
}

static int64_t most_cached(void) {
    return limit_of(&cache_limit, SETTING_CACHE_LIMIT, 0.25);
}

// The class of a size and what its blocks hold.
static int class_of(size_t bytes, size_t *capacity) {
    if (bytes <= CLASS_LOW) {
        *capacity = CLASS_LOW;
        return 0;
    }
    int log = 63 - __builtin_clzll((unsigned long long)bytes - 1); // 2^log < bytes <= 2^(log + 1)
    size_t step = (size_t)1 << (log - 3);
    size_t steps = (bytes - ((size_t)1 << log) + step - 1) / step;
    *capacity = ((size_t)1 << log) + steps * step;
    return (log - 9) * 8 + (int)steps;
}

size_t allocator_capacity(size_t bytes) {
    size_t capacity;
    class_of(bytes, &capacity);
    return capacity;
}

static void raise_peak(long long now) {
    long long seen = atomic_load_explicit(&peak, memory_order_relaxed);
    while (now > seen && !atomic_compare_exchange_weak_explicit(&peak, &seen, now, memory_order_relaxed,
                                                                memory_order_relaxed))
        ;
}

bool allocator_count(int64_t bytes) {
    long long now = atomic_fetch_add_explicit(&active, bytes, memory_order_relaxed) + bytes;
    if (bytes <= 0)
        return true;
    if (UNLIKELY(now > most_active())) {
        atomic_fetch_sub_explicit(&active, bytes, memory_order_relaxed);
        return error_false(ZL_ERROR_MEMORY, "memory limit: %lld bytes more than the %lld in use would pass %lld; see zl_set_memory_limit",
                           (long long)bytes, now - (long long)bytes, (long long)most_active());
    }
    raise_peak(now);
    return true;
}

static struct block *take(int class, size_t capacity) {
    lock_take(&lock);
    struct block *b = bins[class];
    if (b) {
        bins[class] = b->next;
        atomic_fetch_sub_explicit(&cached, (long long)capacity, memory_order_relaxed);
    }
    lock_give(&lock);
    return b;
}

void *allocator_get(size_t bytes, size_t *capacity) {
    int class = class_of(bytes, capacity);
    if (!allocator_count((int64_t)*capacity))
        return NULL;
    void *data = take(class, *capacity);
    if (data)
        return data;
    if (atomic_load(&active) + atomic_load(&cached) > most_active())
        zl_clear_cache();
    data = memory_alloc_pages(*capacity);
    if (!data)
        allocator_count(-(int64_t)*capacity);
    return data;
}

void allocator_put(void *data, size_t capacity) {
    size_t same;
    int class = class_of(capacity, &same);
    allocator_count(-(int64_t)capacity);
    lock_take(&lock);
    bool keep = atomic_load_explicit(&cached, memory_order_relaxed) + (long long)capacity <= most_cached();
    if (keep) {
        ((struct block *)data)->next = bins[class];
        bins[class] = data;
        atomic_fetch_add_explicit(&cached, (long long)capacity, memory_order_relaxed);
    }
    lock_give(&lock);
    if (!keep)
        memory_free_pages(data, capacity);
}

bool allocator_keep(int64_t bytes) {
    if (atomic_fetch_add_explicit(&cached, bytes, memory_order_relaxed) + bytes <= most_cached() || bytes < 0)
        return true;
    atomic_fetch_sub_explicit(&cached, bytes, memory_order_relaxed);
    return false;
}

static void (*_Atomic clear_more)(void); // what others keep

void allocator_on_clear(void (*clear)(void)) {
    atomic_store(&clear_more, clear);
}

// The public counters and limits ----------------------------------------------------------------------------------

size_t zl_get_active_memory(void) {
    return (size_t)atomic_load(&active);
}

size_t zl_get_cache_memory(void) {
    return (size_t)atomic_load(&cached);
}

size_t zl_get_peak_memory(void) {
    return (size_t)atomic_load(&peak);
}

void zl_reset_peak_memory(void) {
    atomic_store(&peak, atomic_load(&active));
}

static int64_t clamp_limit(size_t bytes) {
    return bytes > INT64_MAX ? INT64_MAX : bytes ? (int64_t)bytes : 1;
}

size_t zl_set_memory_limit(size_t bytes) {
    int64_t old = most_active();
    atomic_store(&memory_limit, clamp_limit(bytes));
    return (size_t)old;
}

size_t zl_set_cache_limit(size_t bytes) {
    int64_t old = most_cached();
    atomic_store(&cache_limit, clamp_limit(bytes));
    if (atomic_load(&cached) > most_cached())
        zl_clear_cache();
    return (size_t)old;
}

static size_t capacity_of_class(int class) {
    size_t base = (size_t)512 << (class / 8);
    return base + (size_t)(class % 8) * (base / 8);
}

void zl_clear_cache(void) {
    void (*more)(void) = atomic_load(&clear_more);
    if (more)
        more();
    for (int class = 0; class < CLASSES; class++) {
        size_t capacity = capacity_of_class(class);
        lock_take(&lock);
        struct block *list = bins[class];
        bins[class] = NULL;
        for (struct block *b = list; b; b = b->next)
            atomic_fetch_sub_explicit(&cached, (long long)capacity, memory_order_relaxed);
        lock_give(&lock);
        while (list) {
            struct block *next = list->next;
            memory_free_pages(list, capacity);
            list = next;
        }
    }
}
