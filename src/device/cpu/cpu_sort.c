// cpu_sort.c - sort, argsort and searchsorted, on keys.
//
// A key is an unsigned number in the order of the elements: the bits of a dtype, mapped so that NaN is the
// largest. Lines are sorted by the digits of their keys, from the last to the first, each pass keeping the
// order of the one before. For positions an item holds its key and where it was.

#include "device/cpu/cpu.h"

// Keys ------------------------------------------------------------------------------------------------------------

enum { BLOCK = 256 }; // keys that are made at once

typedef void load_fn(const char *from, int64_t n, uint64_t *key);
typedef void store_fn(const uint64_t *key, int64_t n, char *to);

// Elements as bits of an unsigned type, to keys and back.
#define KEYS(name, type, to_key, to_bits)                                 \
    static void load_##name(const char *from, int64_t n, uint64_t *key) { \
        for (int64_t i = 0; i < n; i++) {                                 \
            type bits;                                                    \
            memcpy(&bits, from + i * (int64_t)sizeof bits, sizeof bits);  \
            key[i] = (type)(to_key);                                      \
        }                                                                 \
    }                                                                     \
    static void store_##name(const uint64_t *key, int64_t n, char *to) {  \
        for (int64_t i = 0; i < n; i++) {                                 \
            type bits = (type)key[i];                                     \
            bits = (type)(to_bits);                                       \
            memcpy(to + i * (int64_t)sizeof bits, &bits, sizeof bits);    \
        }                                                                 \
    }

// Of a float: the sign bit of positive numbers is set, negative ones are inverted. All NaN are the largest.
#define ALL_BITS(sign) ((sign) | ((sign)-1))
#define FLOAT_KEY(sign, infinity)                             \
    ((bits & ((sign)-1)) > (infinity) ? ALL_BITS(sign)        \
     : bits & (sign)                  ? bits ^ ALL_BITS(sign) \
                                      : bits | (sign))
#define FLOAT_BITS(sign) (bits & (sign) ? bits ^ (sign) : bits ^ ALL_BITS(sign))

#define SIGN16 0x8000u
#define SIGN32 0x80000000u
#define SIGN64 0x8000000000000000u

KEYS(u8, uint8_t, bits, bits)
KEYS(u16, uint16_t, bits, bits)
KEYS(u32, uint32_t, bits, bits)
KEYS(u64, uint64_t, bits, bits)
KEYS(i8, uint8_t, bits ^ 0x80u, bits ^ 0x80u)
KEYS(i16, uint16_t, bits ^ SIGN16, bits ^ SIGN16)
KEYS(i32, uint32_t, bits ^ SIGN32, bits ^ SIGN32)
KEYS(i64, uint64_t, bits ^ SIGN64, bits ^ SIGN64)
KEYS(f16, uint16_t, FLOAT_KEY(SIGN16, 0x7c00u), FLOAT_BITS(SIGN16))
KEYS(bf16, uint16_t, FLOAT_KEY(SIGN16, 0x7f80u), FLOAT_BITS(SIGN16))
KEYS(f32, uint32_t, FLOAT_KEY(SIGN32, 0x7f800000u), FLOAT_BITS(SIGN32))
KEYS(f64, uint64_t, FLOAT_KEY(SIGN64, 0x7ff0000000000000u), FLOAT_BITS(SIGN64))

// One part of a complex number; both zeros are one.
static uint32_t part_key(uint32_t bits) {
    bits = bits == SIGN32 ? 0 : bits;
    return FLOAT_KEY(SIGN32, 0x7f800000u);
}

// By the real part, then by the imaginary one; NaN if either is. There is no way back.
static void load_c64(const char *from, int64_t n, uint64_t *key) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits[2];
        memcpy(bits, from + i * (int64_t)sizeof bits, sizeof bits);
        uint32_t re = part_key(bits[0]), im = part_key(bits[1]);
        key[i] = re == UINT32_MAX || im == UINT32_MAX ? UINT64_MAX : (uint64_t)re << 32 | im;
    }
}

struct order {
    load_fn *load;
    store_fn *store;
    uint64_t minus_zero; // its key: that of 0 follows it. 0: the dtype has none
};

static const struct order orders[ZL_DTYPE_COUNT] = {
    [ZL_BOOL] = {load_u8, store_u8, 0},
    [ZL_UINT8] = {load_u8, store_u8, 0},
    [ZL_UINT16] = {load_u16, store_u16, 0},
    [ZL_UINT32] = {load_u32, store_u32, 0},
    [ZL_UINT64] = {load_u64, store_u64, 0},
    [ZL_INT8] = {load_i8, store_i8, 0},
    [ZL_INT16] = {load_i16, store_i16, 0},
    [ZL_INT32] = {load_i32, store_i32, 0},
    [ZL_INT64] = {load_i64, store_i64, 0},
    [ZL_FLOAT16] = {load_f16, store_f16, SIGN16 - 1},
    [ZL_BFLOAT16] = {load_bf16, store_bf16, SIGN16 - 1},
    [ZL_FLOAT32] = {load_f32, store_f32, SIGN32 - 1},
    [ZL_FLOAT64] = {load_f64, store_f64, SIGN64 - 1},
    [ZL_COMPLEX64] = {load_c64, NULL, 0},
};

// Keys in which equal elements are equal.
static void load_equal(const struct order *o, const char *from, int64_t n, uint64_t *key) {
    o->load(from, n, key);
    for (int64_t i = 0; o->minus_zero && i < n; i++)
        key[i] += key[i] == o->minus_zero;
}

// Sorting by digits -----------------------------------------------------------------------------------------------

enum { DIGITS = 256, FEW = 32 }; // values of a digit; items that are sorted by insertion

struct keyed { // an element of 8 bytes and where it was
    uint64_t key;
    uint64_t position;
};

// Sorts n items by bytes [first, last) of their keys, with room for as many; the place of the result is
// either.
#define SORT(name, type, KEY)                                                                           \
    static void insert_##name(type *a, int64_t n, int first) {                                          \
        for (int64_t i = 1; i < n; i++) {                                                               \
            type item = a[i];                                                                           \
            int64_t at = i;                                                                             \
            for (; at > 0 && KEY(a[at - 1]) >> 8 * first > KEY(item) >> 8 * first; at--)                \
                a[at] = a[at - 1];                                                                      \
            a[at] = item;                                                                               \
        }                                                                                               \
    }                                                                                                   \
    static void count_##name(const type *a, int64_t n, int first, int last, uint32_t(*count)[DIGITS]) { \
        memset(count, 0, sizeof count[0] * (size_t)(last - first));                                     \
        for (int d = first; d < last; d++)                                                              \
            for (int64_t i = 0; i < n; i++)                                                             \
                count[d - first][KEY(a[i]) >> 8 * d & (DIGITS - 1)]++;                                  \
    }                                                                                                   \
    static type *sort_##name(type *a, type *room, int64_t n, int first, int last) {                     \
        uint32_t count[8][DIGITS];                                                                      \
        if (n <= FEW)                                                                                   \
            return insert_##name(a, n, first), a;                                                       \
        count_##name(a, n, first, last, count);                                                         \
        for (int d = first; d < last; d++) {                                                            \
            uint32_t *start = count[d - first];                                                         \
            if (start[KEY(a[0]) >> 8 * d & (DIGITS - 1)] == n)                                          \
                continue;                                                                               \
            sum_up(start);                                                                              \
            for (int64_t i = 0; i < n; i++)                                                             \
                room[start[KEY(a[i]) >> 8 * d & (DIGITS - 1)]++] = a[i];                                \
            type *sorted = room;                                                                        \
            room = a;                                                                                   \
            a = sorted;                                                                                 \
        }                                                                                               \
        return a;                                                                                       \
    }

// Counts become where each digit begins.
static void sum_up(uint32_t *count) {
    uint32_t before = 0;
    for (int i = 0; i < DIGITS; i++) {
        uint32_t here = count[i];
        count[i] = before;
        before += here;
    }
}

#define ITSELF(item) (item)
#define KEY_OF(item) ((item).key)
SORT(short, uint32_t, ITSELF)
SORT(long, uint64_t, ITSELF)
SORT(keyed, struct keyed, KEY_OF)

// Lines -----------------------------------------------------------------------------------------------------------

struct sorting {
    const struct order *order;
    int64_t item, out_item; // bytes of an element, of a result
    int64_t n, lines;
    const char *from;
    char *to;
    int parts;
    char *room; // of each part: twice the items of a line
    int64_t room_bytes;
    void (*line)(const struct sorting *s, const char *from, char *to, char *room);
};

static void sort_short_line(const struct sorting *s, const char *from, char *to, char *room) {
    uint32_t *a = (uint32_t *)(void *)room;
    uint64_t key[BLOCK];
    for (int64_t i = 0, n; i < s->n; i += n) {
        n = MIN_OF(s->n - i, BLOCK);
        s->order->load(from + i * s->item, n, key);
        for (int64_t k = 0; k < n; k++)
            a[i + k] = (uint32_t)key[k];
    }
    a = sort_short(a, a + s->n, s->n, 0, (int)s->item);
    for (int64_t i = 0, n; i < s->n; i += n) {
        n = MIN_OF(s->n - i, BLOCK);
        for (int64_t k = 0; k < n; k++)
            key[k] = a[i + k];
        s->order->store(key, n, to + i * s->item);
    }
}

static void sort_long_line(const struct sorting *s, const char *from, char *to, char *room) {
    uint64_t *a = (uint64_t *)(void *)room;
    s->order->load(from, s->n, a);
    a = sort_long(a, a + s->n, s->n, 0, 8);
    s->order->store(a, s->n, to);
}

// The key of an element of up to 4 bytes lies above its position, in one number.
static void argsort_short_line(const struct sorting *s, const char *from, char *to, char *room) {
    uint64_t *a = (uint64_t *)(void *)room;
    load_equal(s->order, from, s->n, a);
    for (int64_t i = 0; i < s->n; i++)
        a[i] = a[i] << 32 | (uint64_t)i;
    a = sort_long(a, a + s->n, s->n, 4, 4 + (int)s->item);
    for (int64_t i = 0; i < s->n; i++)
        memcpy(to + 4 * i, &(uint32_t){(uint32_t)a[i]}, 4);
}

static void argsort_long_line(const struct sorting *s, const char *from, char *to, char *room) {
    struct keyed *a = (struct keyed *)(void *)room;
    uint64_t key[BLOCK];
    for (int64_t i = 0, n; i < s->n; i += n) {
        n = MIN_OF(s->n - i, BLOCK);
        load_equal(s->order, from + i * s->item, n, key);
        for (int64_t k = 0; k < n; k++)
            a[i + k] = (struct keyed){key[k], (uint64_t)(i + k)};
    }
    a = sort_keyed(a, a + s->n, s->n, 0, 8);
    for (int64_t i = 0; i < s->n; i++)
        memcpy(to + 4 * i, &(uint32_t){(uint32_t)a[i].position}, 4);
}

static void sort_part(const void *context, int64_t from, int64_t to) {
    const struct sorting *s = context;
    for (int64_t part = from; part < to; part++)
        for (int64_t i = s->lines * part / s->parts; i < s->lines * (part + 1) / s->parts; i++)
            s->line(s, s->from + i * s->n * s->item, s->to + i * s->n * s->out_item,
                    s->room + part * s->room_bytes);
}

// Each part has room of its own, so that threads need not ask for it.
static bool run_sort(struct sorting *s, zl_array x, zl_array out, int64_t item) {
    union scalar room;
    s->order = &orders[x->dtype];
    s->item = (int64_t)array_item(x);
    s->out_item = (int64_t)array_item(out);
    s->n = x->ndim ? x->dim[x->ndim - 1] : 1;
    s->lines = x->size / s->n;
    s->from = array_data(x, &room);
    s->to = cpu_data(out);
    bool splits = x->size * 32 >= CPU_SPLIT;
    s->parts = (int)MIN_OF(s->lines, splits ? pool_threads() : 1);
    s->room_bytes = (2 * s->n * item + 63) / 64 * 64;
    if (!(s->room = memory_alloc((size_t)(s->room_bytes * s->parts))))
        return false;
    cpu_split(s->parts, 1, sort_part, s);
    memory_free(s->room);
    return true;
}

bool cpu_sort(const struct call *c) {
    bool is_long = array_item(c->in[0]) == 8;
    struct sorting s = {.line = is_long ? sort_long_line : sort_short_line};
    return run_sort(&s, c->in[0], call_output(c, 0), is_long ? 8 : 4);
}

bool cpu_argsort(const struct call *c) {
    bool is_long = array_item(c->in[0]) == 8;
    struct sorting s = {.line = is_long ? argsort_long_line : argsort_short_line};
    return run_sort(&s, c->in[0], call_output(c, 0), is_long ? (int64_t)sizeof(struct keyed) : 8);
}

// Searching -------------------------------------------------------------------------------------------------------

struct searching {
    const struct order *order;
    const char *sorted;
    int64_t count, step; // of the sorted elements; bytes
    bool right;
};

static bool comes_before(const struct searching *s, int64_t at, uint64_t key) {
    uint64_t here;
    load_equal(s->order, s->sorted + at * s->step, 1, &here);
    return here < key || (s->right && here == key);
}

// All values are searched step by step together: what one waits for from memory the others do not.
static void search_row(const void *context, char *const *p, int64_t n) {
    const struct searching *s = context;
    uint64_t key[BLOCK];
    int64_t first[BLOCK] = {0}; // of those that may be the place
    load_equal(s->order, p[1], n, key);
    for (int64_t left = s->count, half; left > 1; left -= half) {
        half = left / 2;
        for (int64_t i = 0; i < n; i++)
            first[i] += comes_before(s, first[i] + half - 1, key[i]) ? half : 0;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(p[0] + 4 * i, &(uint32_t){(uint32_t)(first[i] + comes_before(s, first[i], key[i]))}, 4);
}

bool cpu_searchsorted(const struct call *c) {
    union scalar room[2];
    zl_array sorted = c->in[0], values = c->in[1], out = call_output(c, 0);
    struct searching s = {&orders[sorted->dtype], array_data(sorted, &room[0]), sorted->size,
                          array_stride(sorted)[0] * (int64_t)array_item(sorted), call_args(c)[0] != 0};
    struct layout l;
    cpu_layout_start(&l, out->ndim, out->dim, 1);
    cpu_layout_add(&l, cpu_data(out), 4, out->ndim, out->dim, array_stride(out));
    cpu_layout_add(&l, array_data(values, &room[1]), array_item(values), values->ndim, values->dim,
                   array_stride(values));
    cpu_layout_plan(&l, ~0u, BLOCK);
    cpu_layout_run(&l, 16, search_row, &s);
    return true;
}
