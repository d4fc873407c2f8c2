// sort_digits.c - radix sort: items are sorted by each digit of their keys, from the lowest to the highest,
// and each pass keeps the order of the one before. In a pass the digits of every part of the items are
// counted separately, so that each thread knows where to store its items. Digits are taken from the bits in
// which the keys differ: so there are fewer of them.

#include "device/cpu/order/sort.h"
#include "device/cpu/rows/operands.h"

enum {
    FEW = 32,           // items that are sorted by insertion
    DIGIT = 9,          // bits, at most
    DIGIT_OF_MANY = 11, // with many items, for which counting costs little
    MANY = 1 << 15,     // items
    BINS = 1 << DIGIT_OF_MANY,
    PARTS = 16, // parts at most, one per thread
};

typedef void count_fn(const void *items, int64_t n, int shift, uint32_t mask, uint32_t *count);
typedef void move_fn(const void *items, int64_t n, int shift, uint32_t mask, uint32_t *start, void *to);
typedef void insert_fn(void *items, int64_t n, int first);
typedef uint64_t differ_fn(const void *items, int64_t n); // bits in which keys differ

#define ITEMS(name, type, KEY)                                                                          \
    static void count_##name(const void *items, int64_t n, int shift, uint32_t mask, uint32_t *count) { \
        const type *a = items;                                                                          \
        for (int64_t i = 0; i < n; i++)                                                                 \
            count[(KEY(a[i]) >> shift) & mask]++;                                                       \
    }                                                                                                   \
    static void move_##name(const void *items, int64_t n, int shift, uint32_t mask, uint32_t *start,    \
                            void *room) {                                                               \
        const type *a = items;                                                                          \
        type *to = room;                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                               \
            type item = a[i];                                                                           \
            to[start[(KEY(item) >> shift) & mask]++] = item;                                            \
        }                                                                                               \
    }                                                                                                   \
    static void insert_##name(void *items, int64_t n, int first) {                                      \
        type *a = items;                                                                                \
        for (int64_t i = 1; i < n; i++) {                                                               \
            type item = a[i];                                                                           \
            int64_t at = i;                                                                             \
            for (; at > 0 && KEY(a[at - 1]) >> first > KEY(item) >> first; at--)                        \
                a[at] = a[at - 1];                                                                      \
            a[at] = item;                                                                               \
        }                                                                                               \
    }                                                                                                   \
    static uint64_t differ_##name(const void *items, int64_t n) {                                       \
        const type *a = items;                                                                          \
        const uint64_t first = KEY(a[0]);                                                               \
        uint64_t bits = 0;                                                                              \
        for (int64_t i = 0; i < n; i++)                                                                 \
            bits |= KEY(a[i]) ^ first;                                                                  \
        return bits;                                                                                    \
    }
#define ITSELF(item) (item)
#define KEY_OF(item) ((item).key)
ITEMS(u32, uint32_t, ITSELF)
ITEMS(u64, uint64_t, ITSELF)
ITEMS(keyed, struct sort_keyed, KEY_OF)

static const struct item_ops {
    int64_t size;
    count_fn *count;
    move_fn *move;
    insert_fn *insert;
    differ_fn *differ;
} item_ops[] = {
    [SORT_U32] = {sizeof(uint32_t), count_u32, move_u32, insert_u32, differ_u32},
    [SORT_U64] = {sizeof(uint64_t), count_u64, move_u64, insert_u64, differ_u64},
    [SORT_KEYED] = {sizeof(struct sort_keyed), count_keyed, move_keyed, insert_keyed, differ_keyed},
};

struct pass {
    const struct item_ops *ops;
    const char *from;
    char *to;
    int64_t n, parts;
    int shift;
    uint32_t mask;
    uint32_t (*count)[BINS]; // of each part: the number of items per digit, then where they begin
};

static int64_t part_begin(const struct pass *p, int64_t part) {
    return p->n * part / p->parts;
}

static void count_parts(const void *context, int64_t part, int64_t end) {
    const struct pass *p = context;
    for (; part < end; part++) {
        int64_t from = part_begin(p, part), to = part_begin(p, part + 1);
        memset(p->count[part], 0, sizeof(uint32_t) * (p->mask + 1));
        p->ops->count(p->from + from * p->ops->size, to - from, p->shift, p->mask, p->count[part]);
    }
}

static void move_parts(const void *context, int64_t part, int64_t end) {
    const struct pass *p = context;
    for (; part < end; part++) {
        int64_t from = part_begin(p, part), to = part_begin(p, part + 1);
        p->ops->move(p->from + from * p->ops->size, to - from, p->shift, p->mask, p->count[part], p->to);
    }
}

// Replaces the counts by the positions at which the items of each digit of each part begin.
static void sum_up(const struct pass *p) {
    uint32_t before = 0, *count = p->count[0];
    for (uint32_t bin = 0; p->parts == 1 && bin <= p->mask; bin++) {
        uint32_t here = count[bin];
        count[bin] = before;
        before += here;
    }
    for (uint32_t bin = 0; p->parts > 1 && bin <= p->mask; bin++)
        for (int64_t part = 0; part < p->parts; part++) {
            uint32_t here = p->count[part][bin];
            p->count[part][bin] = before;
            before += here;
        }
}

static void *run_passes(struct pass *p, const struct sort_job *job) {
    uint64_t differ = p->ops->differ(p->from, p->n) >> job->first;
    if (!differ)
        return job->a;
    int first = job->first + __builtin_ctzll(differ), last = job->first + 64 - __builtin_clzll(differ);
    int most = p->n < MANY ? DIGIT : DIGIT_OF_MANY, passes = (last - first + most - 1) / most;
    int bits = (last - first + passes - 1) / passes;
    p->mask = (1u << bits) - 1;
    for (p->shift = first; p->shift < last; p->shift += bits) {
        cpu_split(p->parts, 1, count_parts, p);
        sum_up(p);
        cpu_split(p->parts, 1, move_parts, p);
        char *sorted = p->to;
        p->to = (char *)(uintptr_t)p->from;
        p->from = sorted;
    }
    return (char *)(uintptr_t)p->from;
}

void *cpu_sort_items(const struct sort_job *job) {
    struct pass p = {.ops = &item_ops[job->item], .from = job->a, .to = job->room, .n = job->n, .parts = 1};
    if (job->n <= FEW) {
        p.ops->insert(job->a, job->n, job->first);
        return job->a;
    }
    if (job->shared && job->n >= MANY)
        p.parts = MIN_OF(pool_threads(), PARTS);
    if (p.parts == 1) {
        uint32_t count[1][BINS];
        p.count = count;
        return run_passes(&p, job);
    }
    if (!(p.count = memory_alloc(sizeof *p.count * (size_t)p.parts)))
        return NULL;
    void *sorted = run_passes(&p, job);
    memory_free(p.count);
    return sorted;
}
