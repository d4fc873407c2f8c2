// allocator.c - host memory for array data: counted exactly, cached when freed, kept within limits. The
// memory of units is counted here too.
//
// Sizes are rounded up to classes, eight per power of two, so that a freed block serves any later request of
// its class. Freed blocks are kept, up to the cache limit: fresh pages cost more than most kernels that fill
// them.
//
// A limit that the program sets applies to all memory. Without one, the host's memory is limited to a share
// of the machine's, and a unit's by its own driver.

#include <unistd.h>

#include "graph/graph.h"

enum { CLASS_LOW = 512, CLASSES = 8 * 56 };

struct block { // a free block links to the next one of its class
    struct block *next;
};

enum { UNREAD = 0, NOT_SET = -1 }; // values of a limit that is not read yet, and of one that is not set

static struct lock lock; // guards bins
ZL_AT_LOAD {
    fork_guard(&lock);
}

static struct block *bins[CLASSES];
static atomic_ulong active;
static atomic_llong cached, peak;
static atomic_llong active_elsewhere, cached_elsewhere; // the parts of these that are memory of units
static atomic_llong memory_limit, cache_limit;
static atomic_llong memory_goal = INT64_MAX;

// Returns a share of the machine's memory. *known: the result of an earlier call, or 0.
static int64_t share_of_machine(atomic_llong *known, double share) {
    int64_t bytes = atomic_load_explicit(known, memory_order_relaxed);
    if (UNLIKELY(!bytes)) {
        bytes = (int64_t)(share * (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE));
        atomic_store_explicit(known, bytes, memory_order_relaxed);
    }
    return bytes;
}

static int64_t most_of_host(void) {
    static atomic_llong known;
    return share_of_machine(&known, 0.95);
}

static int64_t most_kept_of_host(void) {
    static atomic_llong known;
    return share_of_machine(&known, 0.25);
}

// Returns the limit that was set, or NOT_SET.
static int64_t read_limit(atomic_llong *limit, enum setting setting) {
    int64_t value = atomic_load_explicit(limit, memory_order_relaxed);
    if (LIKELY(value != UNREAD))
        return value;
    value = setting_number_or(setting, NOT_SET);
    value = value == NOT_SET ? NOT_SET : MAX_OF(value, 1);
    atomic_store_explicit(limit, value, memory_order_relaxed);
    return value;
}

// Returns by how much `bytes`, of which `elsewhere` are memory of units, exceed the limit; 0 or less if they
// do not.
static int64_t over_limit(int64_t bytes, int64_t elsewhere) {
    int64_t set = read_limit(&memory_limit, SETTING_MEMORY_LIMIT);
    return set == NOT_SET ? bytes - elsewhere - most_of_host() : bytes - set;
}

static bool may_keep(int64_t bytes, int64_t elsewhere) {
    int64_t set = read_limit(&cache_limit, SETTING_CACHE_LIMIT);
    return set == NOT_SET ? bytes - elsewhere <= most_kept_of_host() : bytes <= set;
}

// Returns the class of a size, and sets *capacity to the size of its blocks.
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

static bool check_limit(int64_t bytes, int64_t now) {
    int64_t over = over_limit(now, atomic_load_explicit(&active_elsewhere, memory_order_relaxed));
    if (LIKELY(over <= 0)) {
        raise_peak(now);
        return true;
    }
    word_add(&active, -(unsigned long)bytes);
    return error_false(
        ZL_ERROR_MEMORY,
        "memory limit: %lld bytes more than the %lld in use would pass %lld; see zl_set_memory_limit",
        (long long)bytes, (long long)(now - bytes), (long long)(now - over));
}

bool allocator_count(int64_t bytes, bool elsewhere) {
    if (elsewhere)
        atomic_fetch_add_explicit(&active_elsewhere, bytes, memory_order_relaxed);
    if (bytes <= 0) {
        word_add(&active, (unsigned long)bytes);
        return true;
    }
    unsigned long before = atomic_fetch_add_explicit(&active, (unsigned long)bytes, memory_order_relaxed);
    if (check_limit(bytes, (int64_t)before + bytes))
        return true;
    if (elsewhere)
        atomic_fetch_sub_explicit(&active_elsewhere, bytes, memory_order_relaxed);
    return false;
}

size_t allocator_available(void) {
    int64_t over = over_limit((int64_t)atomic_load(&active), atomic_load(&active_elsewhere));
    return over < 0 ? (size_t)-over : 0;
}

bool allocator_is_over_goal(void) {
    return (int64_t)atomic_load_explicit(&active, memory_order_relaxed) >
           atomic_load_explicit(&memory_goal, memory_order_relaxed);
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

// Returns whether cached blocks should be freed before more is allocated, because memory in use and cached
// memory together exceed a limit or the goal.
static bool is_crowded(void) {
    int64_t held = (int64_t)atomic_load(&active) + atomic_load(&cached);
    return held > atomic_load(&memory_goal) ||
           over_limit(held, atomic_load(&active_elsewhere) + atomic_load(&cached_elsewhere)) > 0;
}

void *allocator_get(size_t bytes, size_t *capacity) {
    int class = class_of(bytes, capacity);
    if (!allocator_count((int64_t)*capacity, false))
        return NULL;
    void *data = take(class, *capacity);
    if (data)
        return data;
    if (is_crowded())
        zl_clear_cache();
    data = memory_alloc_pages(*capacity);
    if (!data)
        allocator_count(-(int64_t)*capacity, false);
    return data;
}

bool allocator_keep(int64_t bytes, bool elsewhere) {
    if (elsewhere)
        atomic_fetch_add_explicit(&cached_elsewhere, bytes, memory_order_relaxed);
    int64_t all = atomic_fetch_add_explicit(&cached, bytes, memory_order_relaxed) + bytes;
    int64_t goal = atomic_load_explicit(&memory_goal, memory_order_relaxed);
    bool fits_goal = all <= goal - (int64_t)atomic_load_explicit(&active, memory_order_relaxed);
    if (bytes < 0 ||
        (fits_goal && may_keep(all, atomic_load_explicit(&cached_elsewhere, memory_order_relaxed))))
        return true;
    if (elsewhere)
        atomic_fetch_sub_explicit(&cached_elsewhere, bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&cached, bytes, memory_order_relaxed);
    return false;
}

void allocator_put(void *data, size_t capacity) {
    size_t same;
    int class = class_of(capacity, &same);
    allocator_count(-(int64_t)capacity, false);
    lock_take(&lock);
    bool keep = allocator_keep((int64_t)capacity, false);
    if (keep) {
        ((struct block *)data)->next = bins[class];
        bins[class] = data;
    }
    lock_give(&lock);
    if (!keep)
        memory_free_pages(data, capacity);
}

static void (*_Atomic clear_more)(void); // clears other caches

void allocator_on_clear(void (*clear)(void)) {
    atomic_store(&clear_more, clear);
}

// The public counters and limits ----------------------------------------------------------------------------

size_t zl_get_active_memory(void) {
    return atomic_load(&active);
}

size_t zl_get_cache_memory(void) {
    return (size_t)atomic_load(&cached);
}

size_t zl_get_peak_memory(void) {
    return (size_t)atomic_load(&peak);
}

void zl_reset_peak_memory(void) {
    atomic_store(&peak, (long long)atomic_load(&active));
}

static int64_t clamp_limit(size_t bytes) {
    return bytes > INT64_MAX ? INT64_MAX : bytes ? (int64_t)bytes : 1;
}

// Sets a limit and returns the previous one. The value `without`, which means no limit, is stored as NOT_SET.
static size_t set_limit(atomic_llong *limit, enum setting setting, size_t bytes, int64_t without) {
    int64_t old = read_limit(limit, setting), new = clamp_limit(bytes);
    atomic_store(limit, new == without ? NOT_SET : new);
    return (size_t)(old == NOT_SET ? without : old);
}

size_t zl_set_memory_limit(size_t bytes) {
    return set_limit(&memory_limit, SETTING_MEMORY_LIMIT, bytes, most_of_host());
}

size_t zl_set_memory_goal(size_t bytes) {
    size_t old = (size_t)atomic_exchange(&memory_goal, clamp_limit(bytes));
    if (is_crowded())
        zl_clear_cache();
    return old;
}

size_t zl_get_memory_goal(void) {
    return (size_t)atomic_load(&memory_goal);
}

size_t zl_set_cache_limit(size_t bytes) {
    size_t old = set_limit(&cache_limit, SETTING_CACHE_LIMIT, bytes, most_kept_of_host());
    if (!may_keep(atomic_load(&cached), atomic_load(&cached_elsewhere)))
        zl_clear_cache();
    return old;
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
