// cpu_partition.c - partition and argpartition. The kth key (sort.h) of a row is found by radix selection, or
// by sorting the keys if rows are short. Then elements are stored in three groups: those before the kth key,
// those equal to it, and those after it.

#include "device/cpu/order/sort.h"
#include "device/cpu/rows/operands.h"
#include "op/ops.h"

enum {
    FEW = 48,    // keys up to which the kth one is found by sorting them
    SHORT = 128, // keys of a row that is sorted side by side with others
    DIGIT = 8,   // bits
    DIGIT_OF_MANY = 11,
    MANY = 4096, // keys
};

// The result of the search: the kth key, how many keys are less than it, and how many equal it.
struct pivot {
    uint64_t key;
    int64_t less, equal;
};

typedef void find_fn(const void *keys, int64_t n, int64_t kth, void *room, struct pivot *p);
typedef void find_sorted_fn(const void *keys, int64_t step, int64_t n, int64_t kth, struct pivot *p);
typedef void write_fn(const void *keys, int64_t n, const struct pivot *p, const struct op_window *w,
                      const char *from, char *to);

// Finding ---------------------------------------------------------------------------------------------------

// Finds the kth key by radix selection: counts the next digit of all candidates, and keeps those whose digit
// is that of the kth key. `room` has space for all keys.
#define FIND(type)                                                                                    \
    /* Keys in order, step apart. */                                                                  \
    static void find_sorted_##type(const void *keys, int64_t step, int64_t n, int64_t kth,            \
                                   struct pivot *p) {                                                 \
        const type *a = keys, key = a[kth * step];                                                    \
        int64_t begin = kth, end = kth + 1;                                                           \
        while (begin > 0 && a[(begin - 1) * step] == key)                                             \
            begin--;                                                                                  \
        while (end < n && a[end * step] == key)                                                       \
            end++;                                                                                    \
        p->key = key;                                                                                 \
        p->less += begin;                                                                             \
        p->equal = end - begin;                                                                       \
    }                                                                                                 \
    static void find_among_few_##type(const type *from, int64_t n, int64_t kth, struct pivot *p) {    \
        type a[FEW];                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                             \
            int64_t at = i;                                                                           \
            for (; at > 0 && a[at - 1] > from[i]; at--)                                               \
                a[at] = a[at - 1];                                                                    \
            a[at] = from[i];                                                                          \
        }                                                                                             \
        find_sorted_##type(a, 1, n, kth, p);                                                          \
    }                                                                                                 \
    static int64_t keep_##type(const type *from, int64_t n, int shift, uint32_t mask, uint32_t digit, \
                               type *to) {                                                            \
        int64_t kept = 0;                                                                             \
        for (int64_t i = 0; i < n; i++) {                                                             \
            type key = from[i];                                                                       \
            to[kept] = key;                                                                           \
            kept += (key >> shift & mask) == digit;                                                   \
        }                                                                                             \
        return kept;                                                                                  \
    }                                                                                                 \
    static void find_##type(const void *keys, int64_t n, int64_t kth, void *room, struct pivot *p) {  \
        const type *from = keys;                                                                      \
        uint32_t count[1 << DIGIT_OF_MANY];                                                           \
        p->less = 0;                                                                                  \
        while (n > FEW) {                                                                             \
            type differ = 0;                                                                          \
            for (int64_t i = 1; i < n; i++)                                                           \
                differ |= from[i] ^ from[0];                                                          \
            if (!differ)                                                                              \
                break;                                                                                \
            int bits = n < MANY ? DIGIT : DIGIT_OF_MANY, top = 64 - __builtin_clzll(differ);          \
            int shift = top > bits ? top - bits : 0;                                                  \
            uint32_t mask = (1u << bits) - 1, digit = 0;                                              \
            memset(count, 0, sizeof count[0] << bits);                                                \
            for (int64_t i = 0; i < n; i++)                                                           \
                count[from[i] >> shift & mask]++;                                                     \
            for (; kth >= count[digit]; digit++) {                                                    \
                kth -= count[digit];                                                                  \
                p->less += count[digit];                                                              \
            }                                                                                         \
            n = keep_##type(from, n, shift, mask, digit, room);                                       \
            from = room;                                                                              \
        }                                                                                             \
        if (n <= FEW) {                                                                               \
            find_among_few_##type(from, n, kth, p);                                                   \
            return;                                                                                   \
        }                                                                                             \
        p->key = from[0];                                                                             \
        p->equal = n;                                                                                 \
    }
FIND(uint32_t)
FIND(uint64_t)

// Writing ---------------------------------------------------------------------------------------------------

// Stores the elements in three groups, whose keys are less than the pivot, equal to it, and greater; each
// group is in its original order. An element outside of the window is stored too, but in a variable that is
// never read, which saves a branch. If the window is small, keys of groups that it does not include are
// skipped.
#define WRITE(name, key_type, type, VALUE)                                                                  \
    static void write_##name(const void *keys, int64_t n, const struct pivot *p, const struct op_window *w, \
                             const char *from, char *to) {                                                  \
        const key_type *key = keys, pivot = (key_type)p->key;                                               \
        const int64_t count = w->count;                                                                     \
        int64_t less = -w->first, equal = less + p->less, more = equal + p->equal;                          \
        const bool few = count < n / 8;                                                                     \
        const key_type least = few && equal <= 0 ? pivot : 0;                                               \
        const key_type range = (key_type)((few && more >= count ? pivot : (key_type)-1) - least);           \
        type value, other;                                                                                  \
        (void)from;                                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                                   \
            if ((key_type)(key[i] - least) > range)                                                         \
                continue;                                                                                   \
            bool is_less = key[i] < pivot, is_equal = key[i] == pivot;                                      \
            int64_t at = is_less ? less : is_equal ? equal : more;                                          \
            less += is_less;                                                                                \
            equal += is_equal;                                                                              \
            more += !is_less & !is_equal;                                                                   \
            VALUE                                                                                           \
            memcpy(at >= 0 && at < count ? to + at * (int64_t)sizeof value : (char *)&other, &value,        \
                   sizeof value);                                                                           \
        }                                                                                                   \
    }
#define ELEMENT  memcpy(&value, from + i * (int64_t)sizeof value, sizeof value);
#define POSITION value = (uint32_t)i;
WRITE(1, uint32_t, uint8_t, ELEMENT)
WRITE(2, uint32_t, uint16_t, ELEMENT)
WRITE(4, uint32_t, uint32_t, ELEMENT)
WRITE(8, uint64_t, uint64_t, ELEMENT)
WRITE(position, uint32_t, uint32_t, POSITION)
WRITE(long_position, uint64_t, uint32_t, POSITION)

static write_fn *writer(bool positions, int64_t item) {
    if (positions)
        return item == 8 ? write_long_position : write_position;
    return item == 1 ? write_1 : item == 2 ? write_2 : item == 4 ? write_4 : write_8;
}

// Lines -----------------------------------------------------------------------------------------------------

struct partitioning {
    const struct sort_order *order;
    struct op_window window;
    const char *from;
    char *to;
    int64_t item, out_item; // bytes
    int64_t n, lines;
    find_fn *find;
    find_sorted_fn *find_sorted;
    write_fn *write;
    int64_t parts;
    char *room; // per part: space for two keys per element
    int64_t room_bytes;
};

static void write_line(const struct partitioning *t, int64_t line, const void *keys, const struct pivot *p) {
    t->write(keys, t->n, p, &t->window, t->from + line * t->n * t->item,
             t->to + line * t->window.count * t->out_item);
}

static void partition_line(const struct partitioning *t, int64_t line, char *keys) {
    struct pivot p;
    cpu_sort_load_equal(t->order, t->from + line * t->n * t->item, t->n, keys);
    t->find(keys, t->n, t->window.kth, keys + t->room_bytes / 2, &p);
    write_line(t, line, keys, &p);
}

// Partitions SORT_LANES short rows at once, each in one lane of the vectors.
static void partition_short_lines(const struct partitioning *t, int64_t first) {
    _Alignas(64) char lines[SORT_LANES * SHORT * sizeof(uint64_t)], across[sizeof lines];
    const bool is_long = t->item == 8;
    const int64_t size = is_long ? 8 : 4, bytes = t->n * size;
    for (int64_t k = 0; k < SORT_LANES; k++)
        cpu_sort_load_equal(t->order, t->from + (first + k) * t->n * t->item, t->n, lines + k * bytes);
    cpu_transpose((size_t)size, across, SORT_LANES * size, lines, bytes, t->n, SORT_LANES);
    cpu_sort_lanes(is_long ? SORT_U64 : SORT_U32, across, t->n);
    for (int64_t k = 0; k < SORT_LANES; k++) {
        struct pivot p = {.less = 0};
        t->find_sorted(across + k * size, SORT_LANES, t->n, t->window.kth, &p);
        write_line(t, first + k, lines + k * bytes, &p);
    }
}

static void partition_parts(const void *context, int64_t part, int64_t end) {
    const struct partitioning *t = context;
    for (; part < end; part++) {
        int64_t line = t->lines * part / t->parts, last = t->lines * (part + 1) / t->parts;
        for (; t->n <= SHORT && line + SORT_LANES <= last; line += SORT_LANES)
            partition_short_lines(t, line);
        for (; line < last; line++)
            partition_line(t, line, t->room + part * t->room_bytes);
    }
}

bool cpu_partition(const struct call *c) {
    union scalar room;
    zl_array x = c->in[0], out = call_output(c, 0);
    bool is_long = array_item(x) == 8;
    struct partitioning t = {.order = cpu_sort_order((zl_dtype)x->dtype),
                             .from = array_data(x, &room),
                             .to = cpu_data(out),
                             .item = (int64_t)array_item(x),
                             .out_item = (int64_t)array_item(out),
                             .n = x->dim[x->ndim - 1],
                             .find = is_long ? find_uint64_t : find_uint32_t,
                             .find_sorted = is_long ? find_sorted_uint64_t : find_sorted_uint32_t};
    op_partition_window(call_args(c), t.n, &t.window);
    t.write = writer(c->op == &op_argpartition, t.item);
    t.lines = x->size / t.n;
    t.parts = x->size * 16 < CPU_SPLIT ? 1 : MIN_OF(t.lines, 4 * pool_threads());
    t.room_bytes = (t.n * (is_long ? 8 : 4) + 63) / 64 * 128;
    if (!(t.room = memory_alloc((size_t)(t.room_bytes * t.parts))))
        return false;
    cpu_split(t.parts, 1, partition_parts, &t);
    memory_free(t.room);
    return true;
}
