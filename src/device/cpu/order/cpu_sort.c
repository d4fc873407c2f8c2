// cpu_sort.c - sort and argsort. Rows of keys (sort.h) are sorted by radix sort; short rows side by side, by
// a sorting network. For argsort, an item has a key and a position.

#include "device/cpu/order/sort.h"
#include "device/cpu/rows/operands.h"

struct sorting {
    const struct sort_order *order;
    int64_t item, out_item; // bytes of an element, and of a result
    int64_t n, lines;
    const char *from;
    char *to;
    bool positions;      // the results are positions
    enum sort_item kind; // of the items
    int first;           // lowest bit of the key in an item
    bool shared;         // one row is sorted by all threads
    int64_t parts;
    char *room; // per part: space for twice the items of a row
    int64_t room_bytes;
};

static const int64_t sizes[] = {
    [SORT_U32] = sizeof(uint32_t), [SORT_U64] = sizeof(uint64_t), [SORT_KEYED] = sizeof(struct sort_keyed)};

// Items -----------------------------------------------------------------------------------------------------

// The elements of a row, its result, and its items.
struct line {
    const struct sorting *s;
    const char *from;
    char *to;
    void *items;
};

static void load_positions(const struct line *l, int64_t at, int64_t end) {
    const struct sorting *s = l->s;
    union {
        uint32_t narrow[SORT_BLOCK];
        uint64_t wide[SORT_BLOCK];
    } key;
    for (int64_t n; at < end; at += n) {
        n = MIN_OF(end - at, SORT_BLOCK);
        cpu_sort_load_equal(s->order, l->from + at * s->item, n, &key);
        for (int64_t k = 0; s->kind == SORT_U64 && k < n; k++) // the key is in the upper half
            ((uint64_t *)l->items)[at + k] = (uint64_t)key.narrow[k] << 32 | (uint64_t)(at + k);
        for (int64_t k = 0; s->kind == SORT_KEYED && k < n; k++)
            ((struct sort_keyed *)l->items)[at + k] = (struct sort_keyed){key.wide[k], (uint64_t)(at + k)};
    }
}

static void store_positions(const struct line *l, int64_t at, int64_t end) {
    const uint64_t *items = l->items;
    const struct sort_keyed *keyed = l->items;
    for (; at < end; at++) {
        uint32_t position = (uint32_t)(l->s->kind == SORT_U64 ? items[at] : keyed[at].position);
        memcpy(l->to + 4 * at, &position, 4);
    }
}

static void load_part(const void *context, int64_t at, int64_t end) {
    const struct line *l = context;
    if (l->s->positions)
        load_positions(l, at, end);
    else
        l->s->order->load(l->from + at * l->s->item, end - at, (char *)l->items + at * sizes[l->s->kind]);
}

static void store_part(const void *context, int64_t at, int64_t end) {
    const struct line *l = context;
    if (l->s->positions)
        store_positions(l, at, end);
    else
        l->s->order->store((char *)l->items + at * sizes[l->s->kind], end - at, l->to + at * l->s->item);
}

static struct line line_at(const struct sorting *s, int64_t line, void *items) {
    return (struct line){s, s->from + line * s->n * s->item, s->to + line * s->n * s->out_item, items};
}

// Lines -----------------------------------------------------------------------------------------------------

static bool sort_line(const struct sorting *s, int64_t line, char *room) {
    struct line l = line_at(s, line, room);
    struct sort_job job = {s->kind, room, room + s->n * sizes[s->kind], s->n, s->first, s->shared};
    int64_t grain = s->shared ? CPU_SPLIT / 8 : s->n;
    cpu_split(s->n, grain, load_part, &l);
    if (!(l.items = cpu_sort_items(&job)))
        return false;
    cpu_split(s->n, grain, store_part, &l);
    return true;
}

// Sorts SORT_LANES short rows at once. They are transposed for that, so that each is one lane of the vectors.
static void sort_short_lines(const struct sorting *s, int64_t first) {
    _Alignas(64) char lines[SORT_LANES * SORT_SHORT * sizeof(uint64_t)], across[sizeof lines];
    int64_t size = sizes[s->kind], bytes = s->n * size;
    for (int64_t k = 0; k < SORT_LANES; k++) {
        struct line l = line_at(s, first + k, lines + k * bytes);
        load_part(&l, 0, s->n);
    }
    cpu_transpose((size_t)size, across, SORT_LANES * size, lines, bytes, s->n, SORT_LANES);
    cpu_sort_lanes(s->kind, across, s->n);
    cpu_transpose((size_t)size, lines, bytes, across, SORT_LANES * size, SORT_LANES, s->n);
    for (int64_t k = 0; k < SORT_LANES; k++) {
        struct line l = line_at(s, first + k, lines + k * bytes);
        store_part(&l, 0, s->n);
    }
}

// Sorting a row on one thread allocates no memory, so it cannot fail.
static void sort_parts(const void *context, int64_t from, int64_t to) {
    const struct sorting *s = context;
    bool are_short = s->n <= SORT_SHORT && s->kind != SORT_KEYED;
    for (int64_t part = from; part < to; part++) {
        int64_t line = s->lines * part / s->parts, end = s->lines * (part + 1) / s->parts;
        for (; are_short && line + SORT_LANES <= end; line += SORT_LANES)
            sort_short_lines(s, line);
        for (; line < end; line++)
            sort_line(s, line, s->room + part * s->room_bytes);
    }
}

// Sorts all rows. Each part has its own memory, so that its thread need not allocate any.
static bool run_sort(struct sorting *s, zl_array x, zl_array out) {
    union scalar room;
    bool ok = true;
    s->order = cpu_sort_order((zl_dtype)x->dtype);
    s->item = (int64_t)array_item(x);
    s->out_item = (int64_t)array_item(out);
    s->n = x->ndim ? x->dim[x->ndim - 1] : 1;
    s->lines = x->size / s->n;
    s->from = array_data(x, &room);
    s->to = cpu_data(out);
    s->shared = s->lines < pool_threads() && s->n * 32 >= CPU_SPLIT;
    s->parts = s->shared || x->size * 32 < CPU_SPLIT ? 1 : pool_threads();
    s->room_bytes = (2 * s->n * sizes[s->kind] + 63) / 64 * 64;
    if (!(s->room = memory_alloc((size_t)(s->room_bytes * s->parts))))
        return false;
    for (int64_t line = 0; s->shared && ok && line < s->lines; line++)
        ok = sort_line(s, line, s->room);
    if (!s->shared)
        cpu_split(s->parts, 1, sort_parts, s);
    memory_free(s->room);
    return ok;
}

bool cpu_sort(const struct call *c) {
    struct sorting s = {.kind = array_item(c->in[0]) == 8 ? SORT_U64 : SORT_U32};
    return run_sort(&s, c->in[0], call_output(c, 0));
}

bool cpu_argsort(const struct call *c) {
    bool is_long = array_item(c->in[0]) == 8;
    struct sorting s = {
        .positions = true, .kind = is_long ? SORT_KEYED : SORT_U64, .first = is_long ? 0 : 32};
    return run_sort(&s, c->in[0], call_output(c, 0));
}
