// kernels_sort.c - sort, argsort and partitions: sorts by whether an element is less than, equal to or more than that which another
// sort finds in its place.
//
// What is sorted is a key (kernels_keys.c) with the position of its element, so that no two are equal. A group of threads sorts a
// tile of a line in local memory; then runs are merged by two and two: each element finds its place in the other run.

#include "device/kernels/kernels.h"
#include "op/ops.h"

enum { TILE_LEAST = 64, TILE_MOST = 1024 }; // items of a tile

struct recipe {
    int32_t dtype, positions; // positions are the result
    int32_t tile;             // 0: merges two runs
    int32_t last, wide;       // the result is written, else items
    int32_t grouped;          // the key is how an element compares to one of its line
    char name[8];             // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

// Text -------------------------------------------------------------------------------------------------------------

static const char narrow_items[] = "typedef u64 entry;\n"
                                   "FN entry entry_of(u32 key, u32 at) { return (u64)key << 32 | at; }\n"
                                   "#define NONE (entry)0xffffffffffffffffu\n"
                                   "#define LESS(a, b) ((a) < (b))\n"
                                   "#define POSITION(a) (u32)(a)\n";
static const char wide_items[] =
    "typedef struct { u64 key, at; } entry;\n"
    "FN entry entry_of(u64 key, u32 at) { entry y; y.key = key; y.at = at; return y; }\n"
    "FN entry entry_none(void) { entry y; y.key = y.at = 0xffffffffffffffffu; return y; }\n"
    "#define NONE entry_none()\n"
    "#define LESS(a, b) ((a).key < (b).key || ((a).key == (b).key && (a).at < (b).at))\n"
    "#define POSITION(a) (u32)(a).at\n";

static const char plain_keys[] = "#define ENTRY(i) entry_of(key_of(x[i]), (u32)(i))\n";
static const char group_keys[] =
    "#define PIVOT key_of(x[order[(i64)line * n + kth]])\n"
    "#define ENTRY(i) entry_of((key_of(x[i]) > PIVOT) + (key_of(x[i]) >= PIVOT), (u32)(i))\n";

static const char put[] = "#define PUT(place, value) \\\n"
                          "    if (LAST) { \\\n"
                          "        if ((place) >= first && (place) < first + count) \\\n"
                          "            y[(i64)line * count + (place) - first] = RESULT_OF(value); \\\n"
                          "    } else \\\n"
                          "        to[(i64)line * n + (place)] = value;\n";

static const char tile[] =
    "KERNEL zl_kernel(GLOBAL RESULT *y, GLOBAL const ITEM *x, i64 x_at, GLOBAL entry *to, GLOBAL const entry "
    "*from, "
    "idx n, idx run, idx tiles, idx first, idx count, GLOBAL const u32 *order, idx kth) {\n"
    "    LOCAL entry room[TILE];\n"
    "    idx line = GROUP / tiles, begin = GROUP % tiles * TILE;\n"
    "    x += x_at + (i64)line * n;\n"
    "    for (i32 i = THREAD; i < TILE; i += THREADS)\n"
    "        room[i] = begin + i < n ? ENTRY(begin + i) : NONE;\n"
    "    BARRIER;\n"
    "    for (i32 size = 2; size <= TILE; size *= 2)\n"
    "        for (i32 span = size / 2; span > 0; span /= 2) {\n"
    "            for (i32 k = THREAD; k < TILE / 2; k += THREADS) {\n"
    "                i32 i = k / span * 2 * span + k % span, j = i + span;\n"
    "                bool up = (i & size) == 0;\n"
    "                entry a = room[i], b = room[j];\n"
    "                if (up ? LESS(b, a) : LESS(a, b)) {\n"
    "                    room[i] = b;\n"
    "                    room[j] = a;\n"
    "                }\n"
    "            }\n"
    "            BARRIER;\n"
    "        }\n"
    "    for (i32 i = THREAD; i < TILE; i += THREADS)\n"
    "        if (begin + i < n) {\n"
    "            entry a = room[i];\n"
    "            PUT(begin + i, a)\n"
    "        }\n"
    "}\n";

static const char merge[] =
    "KERNEL zl_kernel(GLOBAL RESULT *y, GLOBAL const ITEM *x, i64 x_at, GLOBAL entry *to, GLOBAL const entry "
    "*from, "
    "idx n, idx run, idx tiles, idx first, idx count, GLOBAL const u32 *order, idx kth) {\n"
    "    idx line = GROUP / tiles, i = GROUP % tiles * THREADS + THREAD;\n"
    "    if (i >= n)\n"
    "        return;\n"
    "    x += x_at + (i64)line * n;\n"
    "    from += (i64)line * n;\n"
    "    entry a = from[i];\n"
    "    idx pair = i / (2 * run) * (2 * run), middle = pair + run < n ? pair + run : n;\n"
    "    bool is_left = i < middle;\n"
    "    idx low = is_left ? middle : pair, begin = low, end = is_left ? (pair + 2 * run < n ? pair + 2 * "
    "run : n) : middle;\n"
    "    while (low < end) {\n"
    "        idx half_way = low + (end - low) / 2;\n"
    "        entry b = from[half_way];\n"
    "        if (LESS(b, a))\n"
    "            low = half_way + 1;\n"
    "        else\n"
    "            end = half_way;\n"
    "    }\n"
    "    idx place = pair + (i - (is_left ? pair : middle)) + (low - begin);\n"
    "    PUT(place, a)\n"
    "}\n";

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    const struct recipe *r = w->r;
    kernel_begin(out, w->dialect, r->wide);
    kernel_write_key(out, (zl_dtype)r->dtype, r->positions || r->grouped);
    text_add(out, "%s#define TILE %d\n#define LAST %d\n",
             kernel_key_bytes((zl_dtype)r->dtype) == 4 ? narrow_items : wide_items, r->tile, r->last);
    text_add(out, r->positions ? "#define RESULT u32\n#define RESULT_OF(a) POSITION(a)\n"
                               : "#define RESULT ITEM\n#define RESULT_OF(a) x[POSITION(a)]\n");
    text_add(out, "%s%s%s", r->grouped ? group_keys : plain_keys, put, r->tile ? tile : merge);
    return true;
}

// Running ----------------------------------------------------------------------------------------------------------

struct sorting {
    const struct kernel_place *place;
    struct recipe r;
    int64_t lines, n, run, first, count;
    int64_t offset, kth;
    void *to, *from, *order; // order: of all elements, for groups
};

static bool launch(struct sorting *s, void *items_to, void *items_from) {
    struct kernel_call k;
    kernel_begin_call(&k);
    int64_t each = s->r.tile ? s->r.tile : KERNEL_THREADS, tiles = (s->n + each - 1) / each;
    void *kernel = kernel_find(s->place, &s->r, sizeof s->r, write_text,
                               &(struct writer){&s->r, s->place->target->dialect});
    kernel_add_memory(&k, s->to);
    kernel_add_memory(&k, s->from);
    kernel_add_int(&k, s->offset, true);
    kernel_add_memory(&k, items_to);
    kernel_add_memory(&k, items_from);
    kernel_add_int(&k, s->n, s->r.wide);
    kernel_add_int(&k, s->run, s->r.wide);
    kernel_add_int(&k, tiles, s->r.wide);
    kernel_add_int(&k, s->first, s->r.wide);
    kernel_add_int(&k, s->count, s->r.wide);
    kernel_add_memory(&k, s->order ? s->order : s->to);
    kernel_add_int(&k, s->kth, s->r.wide);
    return kernel && kernel_launch(s->place, kernel, s->lines * tiles, &k);
}

// Runs go to and fro between two rooms; the last merge writes the result.
static bool merge_runs(struct sorting *s, void *a, void *b) {
    bool done = launch(s, a, b);
    s->r.tile = 0;
    for (; done && s->run < s->n; s->run *= 2) {
        s->r.last = 2 * s->run >= s->n;
        done = launch(s, b, a);
        void *next = b;
        b = a;
        a = next;
    }
    return done;
}

static bool run(struct sorting *s) {
    const struct device *d = s->place->target->device;
    size_t item = kernel_key_bytes((zl_dtype)s->r.dtype) == 4 ? 8 : 16,
           bytes = (size_t)(s->lines * s->n) * item;
    size_t capacity[2] = {0};
    for (s->r.tile = TILE_LEAST; s->r.tile < TILE_MOST && s->r.tile < s->n;)
        s->r.tile *= 2;
    s->run = s->r.tile;
    s->r.wide = s->lines * s->n > INT32_MAX / 4;
    s->r.last = s->n <= s->r.tile;
    if (s->r.last)
        return launch(s, s->to, s->to);
    void *a = device_alloc(d, s->place->unit, s->place->lane, bytes, &capacity[0]),
         *b = a ? device_alloc(d, s->place->unit, s->place->lane, bytes, &capacity[1]) : NULL;
    bool done = b && merge_runs(s, a, b);
    if (b)
        device_free(d, s->place->unit, s->place->lane, b,
                    capacity[1]); // who gets it comes later in the lane's order
    if (a)
        device_free(d, s->place->unit, s->place->lane, a, capacity[0]);
    return done;
}

bool kernel_can_sort(const struct call *c) {
    zl_array x = c->in[0];
    return !array_is(x, ARRAY_INLINE) && x->ndim && x->dim[x->ndim - 1] < UINT32_MAX;
}

static struct sorting sorting_of(const struct kernel_place *p, const struct call *c, bool positions) {
    zl_array x = c->in[0], y = call_first(c);
    int64_t n = x->dim[x->ndim - 1];
    return (struct sorting){.place = p,
                            .r = {.dtype = x->dtype, .positions = positions, .name = "sort"},
                            .lines = x->size / n,
                            .n = n,
                            .count = y->dim[y->ndim - 1],
                            .offset = x->offset,
                            .to = kernel_reach(p, y),
                            .from = kernel_reach(p, x)};
}

static bool sort(const struct kernel_place *p, const struct call *c, bool positions) {
    struct sorting s = sorting_of(p, c, positions);
    return s.to && s.from && run(&s);
}

bool kernel_order_places(const struct kernel_place *p, void *order, void *places, int64_t n) {
    struct sorting s = {.place = p,
                        .r = {.dtype = ZL_INT64, .positions = true, .name = "sort"},
                        .lines = 1,
                        .n = n,
                        .count = n,
                        .to = order,
                        .from = places};
    return run(&s);
}

bool kernel_sort(const struct kernel_place *p, const struct call *c) {
    return sort(p, c, false);
}

bool kernel_argsort(const struct kernel_place *p, const struct call *c) {
    return sort(p, c, true);
}

bool kernel_partition(const struct kernel_place *p, const struct call *c) {
    const struct device *d = p->target->device;
    struct sorting groups = sorting_of(p, c, c->op == &op_argpartition), all = groups;
    struct op_window w;
    size_t capacity;
    if (!groups.to || !groups.from || !op_partition_window(call_args(c), groups.n, &w))
        return false;
    void *order = device_alloc(d, p->unit, p->lane, (size_t)(groups.lines * groups.n) * 4, &capacity);
    if (!order)
        return false;
    all.r.positions = true;
    all.to = order;
    all.count = all.n;
    groups.r.grouped = true;
    groups.order = order;
    groups.kth = w.kth;
    groups.first = w.first;
    bool done = run(&all) && run(&groups);
    device_free(d, p->unit, p->lane, order, capacity); // who gets it comes later in the lane's order
    return done;
}

// Searching --------------------------------------------------------------------------------------------------------

struct search_recipe {
    int32_t dtype, wide, right;
    char name[12]; // no other kernel has such a key
};

struct search_writer {
    const struct search_recipe *r;
    const char *dialect;
};

static const char search[] =
    "struct zl_axes { idx dim[8]; idx stride[1][8]; };\n"
    "KERNEL zl_kernel(GLOBAL u32 *y, GLOBAL const ITEM *among, i64 among_at, i64 step, i64 count, GLOBAL "
    "const ITEM *x, "
    "i64 x_at, idx n, AXES s, i32 axes) {\n"
    "    idx i = GROUP * THREADS + THREAD, rest = i, at = 0;\n"
    "    if (i >= n)\n"
    "        return;\n"
    "    for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
    "        idx next = rest / s.dim[axis];\n"
    "        at += (rest - next * s.dim[axis]) * s.stride[0][axis];\n"
    "        rest = next;\n"
    "    }\n"
    "    among += among_at;\n"
    "    i64 low = 0, end = count;\n"
    "    while (low < end) {\n"
    "        i64 half_way = low + (end - low) / 2;\n"
    "        bool before = RIGHT ? key_of(among[half_way * step]) <= key_of(x[x_at + at])\n"
    "                            : key_of(among[half_way * step]) < key_of(x[x_at + at]);\n"
    "        if (before)\n"
    "            low = half_way + 1;\n"
    "        else\n"
    "            end = half_way;\n"
    "    }\n"
    "    y[i] = (u32)low;\n"
    "}\n";

static bool write_search(struct text *out, const void *data) {
    const struct search_writer *w = data;
    kernel_begin(out, w->dialect, w->r->wide);
    kernel_write_key(out, (zl_dtype)w->r->dtype, true);
    text_add(out, "#define RIGHT %d\n%s", w->r->right, search);
    return true;
}

bool kernel_can_search(const struct call *c) {
    return !array_is(c->in[0], ARRAY_INLINE) && !array_is(c->in[1], ARRAY_INLINE);
}

bool kernel_search(const struct kernel_place *p, const struct call *c) {
    zl_array among = c->in[0], x = c->in[1], y = call_first(c);
    struct kernel_layout l;
    struct kernel_call k;
    kernel_begin_call(&k);
    layout_begin(&l, 1);
    for (int i = 0; i < x->ndim; i++)
        layout_push(&l, x->dim[i], &array_stride(x)[i]);
    if (l.axes > KERNEL_AXES)
        return error_false(ZL_ERROR_DEVICE,
                           "%s: more than %d axes of shape %s that cannot be joined: use zl_contiguous first",
                           c->op->name, KERNEL_AXES, array_text(x));
    struct search_recipe r = {x->dtype, layout_is_wide(&l), call_args(c)[0] != 0, "search"};
    void *kernel =
        kernel_find(p, &r, sizeof r, write_search, &(struct search_writer){&r, p->target->dialect});
    void *to = kernel_reach(p, y), *sorted = kernel_reach(p, among), *from = kernel_reach(p, x);
    kernel_add_memory(&k, to);
    kernel_add_memory(&k, sorted);
    kernel_add_int(&k, among->offset, true);
    kernel_add_int(&k, array_stride(among)[0], true);
    kernel_add_int(&k, among->dim[0], true);
    kernel_add_memory(&k, from);
    kernel_add_int(&k, x->offset, true);
    kernel_add_int(&k, l.size, r.wide);
    kernel_add_axes(&k, &l, 1, r.wide);
    kernel_add_int(&k, l.axes, false);
    return kernel && to && sorted && from &&
           kernel_launch(p, kernel, (l.size + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}
