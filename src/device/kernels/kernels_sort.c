// kernels_sort.c - sort, argsort, partition and argpartition, by src/kernel/sort.tile, merge.tile and
// radix.tile; searchsorted, by search.tile.
//
// Keys are sorted together with the positions of their elements. Tiles of lines are sorted first, then runs
// are merged in pairs; long lines of short keys need fewer passes of a radix sort. A partition sorts twice:
// the second time by how elements compare to the one that the first sort found in the requested place.

#include "device/kernels/kernels.h"
#include "op/ops.h"

enum { TILE_LEAST = 16, TILE_MOST = 1024 }; // elements of a tile of sort.tile, a power of 4
enum { RADIX_TILE = 2048, RADIX_BITS = 5, RADIX_SHARED = 33 << 10 }; // bytes of shared memory

struct sorting {
    const struct kernel_place *place;
    zl_dtype dtype;                      // of elements
    int item, key, bits;                 // bytes of an element and of its key; bits of a key
    int tile;                            // elements of a tile of sort.tile
    bool positions, grouped, wide;       // POSITIONS and GROUPED of sort.tile; indices have 64 bits
    int64_t lines, n, first, count, kth; // the result has `count` elements of a sorted line, from the first
                                         // on
    int64_t elements, offset;            // the number of elements of x, and its offset
    void *from, *to, *order; // to: NULL if only keys are sorted; order: of the first sort of a partition
};

// The clauses of all kernels, and their values.
#define OF_ALL   "ITEM=u%d,KEY=u%d,RESULT=u%d,POSITIONS=%d,%i"
#define GIVEN(s) 8 * (s)->item, 8 * (s)->key, (s)->positions ? 32 : 8 * (s)->item, (s)->positions

// Sorts tiles, or only makes their keys. If `last`, writes the result.
static bool sort_tiles(const struct sorting *s, const struct kernel_items *to, bool last, bool only_keys) {
    static const int mantissa[ZL_DTYPE_COUNT] = {
        [ZL_FLOAT16] = 10, [ZL_BFLOAT16] = 7, [ZL_FLOAT32] = 23, [ZL_COMPLEX64] = 23, [ZL_FLOAT64] = 52};
    int64_t all = s->lines * s->n, tiles = (s->n + s->tile - 1) / s->tile;
    bool is_complex = s->dtype == ZL_COMPLEX64;
    int kind = mantissa[s->dtype] ? 2 : tile_type_of(s->dtype).kind == TILE_INT;
    struct kernel_work w;
    work_open(&w, s->place, "sort");
    WORK_SIZES(&w, s->lines, s->n, tiles, s->first, s->count, s->kth, s->elements, s->offset,
               s->order ? all : 0, last ? 0 : all);
    work_memory(&w, s->from);
    work_memory(&w, s->order ? s->order : s->from);
    work_memory(&w, last ? s->to : to->key.memory);
    work_memory(&w, last ? s->to : to->key.memory);
    work_memory(&w, last ? s->to : to->at.memory);
    w.wide = s->wide; // the same in all launches
    return WORK_FILE(
        &w, "sort",
        OF_ALL ",LAST=%d,TILE=%d,LOG=%d,GROUPED=%d,KIND=%d,WIDTH=%d,MANTISSA=%d,PART=u%d,PARTS=%d,ZEROS=%d",
        GIVEN(s), last, s->tile, only_keys ? 0 : __builtin_ctz((unsigned)s->tile), s->grouped, kind,
        is_complex ? 32 : 8 * s->item, mantissa[s->dtype], is_complex ? 32 : 8 * s->key, 1 + is_complex,
        is_complex || s->positions || s->grouped);
}

// Merges pairs of runs of so many keys or, if `run` is 0, sorts by the digit that begins at bit `shift`.
static bool pass(const struct sorting *s, const struct kernel_items *to, const struct kernel_items *from,
                 int64_t run, int shift) {
    struct kernel_work w;
    bool last = s->to && (run ? 2 * run >= s->n : shift + RADIX_BITS >= s->bits);
    int64_t far = shift;
    work_open(&w, s->place, "sort");
    WORK_SIZES(&w, s->lines, s->n, run ? run : (s->n + RADIX_TILE - 1) / RADIX_TILE, s->first,
               last ? s->count : 0, s->elements, s->offset);
    work_memory(&w, s->from);
    work_memory(&w, from->key.memory);
    work_memory(&w, from->at.memory);
    if (!run)
        work_value(&w, s->key == 8 ? (const void *)&far : &shift, (size_t)s->key);
    work_memory(&w, last ? s->to : to->key.memory);
    work_memory(&w, to->key.memory);
    work_memory(&w, to->at.memory);
    w.wide = s->wide;
    return WORK_FILE(&w, run ? "merge" : "radix", OF_ALL, GIVEN(s));
}

// Sorts lines. Keys go back and forth between two rooms, and the last pass writes the result if s->to is set.
// The keys may be in room[0] already. Returns the room that the last pass wrote, or -1 and an error.
static int sort_lines(struct sorting *s, struct kernel_items room[2]) {
    int merges = 0, now = 0;
    while ((int64_t)TILE_MOST << merges < s->n)
        merges++;
    bool by_radix = merges * RADIX_BITS >= s->bits && s->place->record->group->most_shared >= RADIX_SHARED;
    bool good = true;
    if (!by_radix)
        good = sort_tiles(s, &room[now = 1], false, false);
    else if (s->from != room[0].key.memory)
        good = sort_tiles(s, &room[0], false, true);
    int passes = by_radix ? (s->bits + RADIX_BITS - 1) / RADIX_BITS : merges;
    for (int i = 0; good && i < passes; i++, now = !now)
        good = pass(s, &room[!now], &room[now], by_radix ? 0 : (int64_t)TILE_MOST << i, i * RADIX_BITS);
    return good ? now : -1;
}

void kernel_close_items(const struct kernel_place *p, struct kernel_items *t) {
    kernel_scratch_close(p, &t->at);
    kernel_scratch_close(p, &t->key);
}

bool kernel_open_items(const struct kernel_place *p, struct kernel_items *t, int64_t count,
                       size_t key_bytes) {
    return kernel_scratch_open(p, &t->key, (size_t)count * key_bytes) &&
           kernel_scratch_open(p, &t->at, (size_t)count * 4);
}

static void choose_tile(struct sorting *s) {
    for (s->tile = TILE_LEAST; s->tile < TILE_MOST && s->tile < s->n;)
        s->tile *= 4;
    s->wide = s->lines * s->n > INT32_MAX / 4 || s->elements > KERNEL_NARROW;
}

static bool run(struct sorting *s) {
    struct kernel_items room[2] = {{{0}}};
    choose_tile(s);
    if (s->n <= s->tile)
        return sort_tiles(s, NULL, true, false);
    bool done = kernel_open_items(s->place, &room[0], s->lines * s->n, (size_t)s->key) &&
                kernel_open_items(s->place, &room[1], s->lines * s->n, (size_t)s->key) &&
                sort_lines(s, room) >= 0;
    kernel_close_items(s->place, &room[1]);
    kernel_close_items(s->place, &room[0]);
    return done;
}

static struct sorting sorting_by(const struct kernel_place *p, zl_dtype dtype, bool positions) {
    int item = (int)zl_dtype_size(dtype);
    return (struct sorting){.place = p,
                            .dtype = dtype,
                            .item = item,
                            .key = MAX_OF(item, 4),
                            .bits = 8 * item,
                            .positions = positions};
}

int kernel_sort_places(const struct kernel_place *p, struct kernel_items room[2], bool wide, int64_t lines,
                       int64_t n, int64_t end) {
    struct sorting s = sorting_by(p, wide ? ZL_UINT64 : ZL_UINT32, true);
    s.from = room[0].key.memory;
    s.lines = lines;
    s.n = n;
    s.elements = lines * n;
    for (s.bits = 1; s.bits < 63 && end >> s.bits;)
        s.bits++;
    choose_tile(&s);
    return sort_lines(&s, room);
}

bool kernel_can_sort(const struct call *c) {
    zl_array x = c->in[0];
    return !array_is(x, ARRAY_INLINE) && x->ndim && x->dim[x->ndim - 1] < UINT32_MAX;
}

static struct sorting sorting_of(const struct kernel_place *p, const struct call *c, bool positions) {
    zl_array x = c->in[0], y = call_first(c);
    struct sorting s = sorting_by(p, (zl_dtype)x->dtype, positions);
    s.n = x->dim[x->ndim - 1];
    s.lines = x->size / s.n;
    s.count = y->dim[y->ndim - 1];
    s.elements = kernel_elements(x);
    s.offset = x->offset;
    s.to = kernel_reach(p, y);
    s.from = kernel_reach(p, x);
    return s;
}

bool kernel_order_places(const struct kernel_place *p, void *order, void *places, int64_t n) {
    struct sorting s = sorting_by(p, ZL_INT64, true);
    s.lines = 1;
    s.n = s.count = s.elements = n;
    s.to = order;
    s.from = places;
    return run(&s);
}

bool kernel_sort(const struct kernel_place *p, const struct call *c) {
    struct sorting s = sorting_of(p, c, c->op == &op_argsort);
    return s.to && s.from && run(&s);
}

bool kernel_partition(const struct kernel_place *p, const struct call *c) {
    struct sorting groups = sorting_of(p, c, c->op == &op_argpartition), all = groups;
    struct kernel_scratch order = {0};
    struct op_window w;
    if (!groups.to || !groups.from || !op_partition_window(call_args(c), groups.n, &w) ||
        !kernel_scratch_open(p, &order, (size_t)(groups.lines * groups.n) * 4))
        return false;
    all.positions = true;
    all.to = groups.order = order.memory;
    all.count = all.n;
    groups.grouped = true;
    groups.bits = 2;
    groups.kth = w.kth;
    groups.first = w.first;
    bool done = run(&all) && run(&groups);
    kernel_scratch_close(p, &order);
    return done;
}

// Searching -------------------------------------------------------------------------------------------------

// A thread searches for several elements once there are enough threads to keep a GPU busy.
enum { SEARCH_THREADS = 1 << 18, SEARCH_MOST = 16, TABLE_MOST = 4096, TABLE_BYTES = 16 << 10 };

bool kernel_search(const struct kernel_place *p, const struct call *c) {
    zl_array line = c->in[0], x = c->in[1];
    struct kernel_layout l;
    struct kernel_work w;
    int table = MIN_OF(TABLE_MOST, TABLE_BYTES / (int)array_item(line));
    if (p->record->group->is_serial)
        table = 1; // a CPU has no cache lines that threads share
    kernel_layout_begin(&l, 1);
    for (int i = 0; i < x->ndim; i++)
        kernel_layout_push(&l, x->dim[i], &array_stride(x)[i]);
    work_open(&w, p, c->op->name);
    WORK_SIZES(&w, l.size, layout_inner(&l));
    work_array(&w, x);
    work_array(&w, line);
    WORK_SIZES(&w, line->dim[0], MAX_OF(1, MIN_OF(SEARCH_MOST, l.size / SEARCH_THREADS)));
    work_table(&w, &l);
    work_int(&w, array_stride(line)[0]);
    work_result(&w, call_first(c));
    return WORK_FILE(&w, "search", "ITEM=%t,RIGHT=%d,TABLE=%d,%i", x->dtype, call_args(c)[0] != 0, table);
}
