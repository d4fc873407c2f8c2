// cpu_search.c - searchsorted: finds where values belong among sorted elements, by their keys (sort.h).

#include "device/cpu/order/sort.h"
#include "device/cpu/rows/operands.h"

typedef void search_fn(const void *sorted, int64_t count, bool right, const void *keys, int64_t n, char *to);

struct searching {
    const struct sort_order *order;
    const char *sorted;
    int64_t count, step; // number of the sorted elements; bytes between them
    int64_t item;        // bytes of an element
    bool right;
    const void *keys; // of all sorted elements; NULL: keys are made as needed
    search_fn *search;
};

// Searches for all values together, step by step, so that waiting for memory for one value does not delay the
// others.
#define SEARCH(type)                                                                                      \
    static void search_##type(const void *sorted, int64_t count, bool right, const void *keys, int64_t n, \
                              char *to) {                                                                 \
        const type *among = sorted, *key = keys;                                                          \
        uint32_t first[SORT_BLOCK] = {0}; /* of those that may be the place */                            \
        for (int64_t left = count, half; left > 1; left -= half) {                                        \
            half = left / 2;                                                                              \
            for (int64_t i = 0; i < n; i++) {                                                             \
                type here = among[first[i] + half - 1];                                                   \
                first[i] += (here < key[i]) | (right & (here == key[i])) ? (uint32_t)half : 0;            \
            }                                                                                             \
        }                                                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                                 \
            type here = among[first[i]];                                                                  \
            first[i] += (here < key[i]) | (right & (here == key[i]));                                     \
        }                                                                                                 \
        memcpy(to, first, sizeof first[0] * (size_t)n);                                                   \
    }
SEARCH(uint32_t)
SEARCH(uint64_t)

// Returns the key of one element, of either width.
static uint64_t key_at(const struct searching *s, const char *at) {
    union {
        uint32_t narrow;
        uint64_t wide;
    } key;
    cpu_sort_load_equal(s->order, at, 1, &key);
    return s->order->is_long ? key.wide : key.narrow;
}

static uint32_t search_one(const struct searching *s, const char *value) {
    uint64_t key = key_at(s, value);
    int64_t first = 0;
    for (int64_t left = s->count, half; left > 0; left -= half) {
        half = (left + 1) / 2;
        uint64_t here = key_at(s, s->sorted + (first + half - 1) * s->step);
        first += here < key || (s->right && here == key) ? half : 0;
    }
    return (uint32_t)first;
}

static void search_row(const void *context, char *const *p, int64_t n, int64_t more) {
    (void)more;
    const struct searching *s = context;
    uint64_t key[SORT_BLOCK];
    if (s->keys) {
        cpu_sort_load_equal(s->order, p[1], n, key);
        s->search(s->keys, s->count, s->right, key, n, p[0]);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint32_t place = search_one(s, p[1] + i * s->item);
        memcpy(p[0] + 4 * i, &place, 4);
    }
}

static void run_search(const struct searching *s, zl_array values, zl_array out) {
    union scalar room;
    struct layout l;
    cpu_layout_start(&l, out->ndim, out->dim, 1);
    cpu_layout_add(&l, cpu_data(out), 4, out->ndim, out->dim, array_stride(out));
    cpu_layout_add(&l, array_data(values, &room), (size_t)s->item, values->ndim, values->dim,
                   array_stride(values));
    cpu_layout_plan(&l, ~0u, SORT_BLOCK);
    cpu_layout_run(&l, 16, search_row, s);
}

static void load_keys(const struct searching *s, void *keys) {
    int64_t width = s->order->is_long ? 8 : 4;
    if (s->step == s->item)
        cpu_sort_load_equal(s->order, s->sorted, s->count, keys);
    else
        for (int64_t i = 0; i < s->count; i++)
            cpu_sort_load_equal(s->order, s->sorted + i * s->step, 1, (char *)keys + i * width);
}

// If there are many values, the keys of all sorted elements are made first.
bool cpu_searchsorted(const struct call *c) {
    union scalar room;
    zl_array sorted = c->in[0], values = c->in[1];
    int64_t item = (int64_t)array_item(sorted);
    struct searching s = {.order = cpu_sort_order((zl_dtype)sorted->dtype),
                          .sorted = array_data(sorted, &room),
                          .count = sorted->size,
                          .step = array_stride(sorted)[0] * item,
                          .item = item,
                          .right = call_args(c)[0] != 0};
    void *keys = NULL;
    if (values->size >= sorted->size / 16) {
        if (!(keys = memory_alloc((size_t)sorted->size * (s.order->is_long ? 8 : 4))))
            return false;
        load_keys(&s, keys);
        s.keys = keys;
        s.search = s.order->is_long ? search_uint64_t : search_uint32_t;
    }
    run_search(&s, values, call_output(c, 0));
    memory_free(keys);
    return true;
}
