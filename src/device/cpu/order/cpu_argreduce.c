// cpu_argreduce.c - argmin and argmax.
//
// Each block is reduced to its extreme; at the end, the best extreme is searched for in its block. The first
// of equal elements wins, and the first NaN wins over all others.

#include "device/cpu/order/argreduce.h"
#include "device/cpu/rows/operands.h"
#include "device/cpu/rows/reduce.h"

#include <string.h>

enum { OUT, IN };

enum {
    BLOCK = 1024, // elements of a block
    TILE = 16384, // bytes of a tile: rows x elements, gathered across the axis
    PARTS = 64,   // parts into which a single search is divided
    ITEM_MOST = 8,
};

struct search {
    struct layout kept;     // operands: output, input
    int64_t length, stride; // of the axis: elements, bytes
    int64_t item;
    bool is_max;
    row_fn *extreme; // reduces elements to their extreme, which is float32 for 16-bit floats
    row_fn *narrow;  // converts an extreme to an element; NULL: it is one
    struct element_search by;
    struct column_search columns;
    bool has_columns;
    struct found *part; // of a single search: the results of its parts
    int64_t parts;
};

struct found {
    bool any, is_nan;
    int64_t at;
    _Alignas(8) char value[ITEM_MOST]; // an extreme
};

static bool is_better(const struct search *s, const char *value, bool is_nan, const struct found *best) {
    if (!best->any)
        return true;
    return !best->is_nan &&
           (is_nan || (s->is_max ? s->by.less(best->value, value) : s->by.less(value, best->value)));
}

// Returns whether any of n contiguous elements is better than *best, and then updates its value; the caller
// has still to find its index.
static bool has_better(const struct search *s, const char *from, int64_t n, struct found *best) {
    _Alignas(8) char value[ITEM_MOST];
    cpu_call_row(s->extreme, value, from, NULL, NULL, n);
    bool is_nan = s->by.is_nan(value);
    if (!is_better(s, value, is_nan, best))
        return false;
    best->any = true;
    best->is_nan = is_nan;
    memcpy(best->value, value, sizeof value);
    return true;
}

// Returns the index of the best value among n elements that contain it.
static int64_t find(const struct search *s, const char *from, int64_t n, const struct found *best) {
    _Alignas(8) char value[ITEM_MOST];
    if (s->narrow)
        cpu_call_row(s->narrow, value, best->value, NULL, NULL, 1);
    int64_t at = s->by.find(from, n, s->narrow ? value : best->value);
    return at < n ? at : 0;
}

// Returns n consecutive elements of the axis as a contiguous array: in place, or copied to room.
static const char *read_block(const struct search *s, const char *from, int64_t n, char *room) {
    if (s->stride == s->item)
        return from;
    cpu_move((size_t)s->item, room, (struct stride2){0, s->item}, from, (struct stride2){0, s->stride}, 1, n);
    return room;
}

// Searches positions [at, end) of the axis, whose first element is at base.
static struct found look_along(const struct search *s, const char *base, int64_t at, int64_t end) {
    struct found best = {.any = false, .at = at};
    _Alignas(64) char room[BLOCK * ITEM_MOST];
    for (int64_t n; at < end && !best.is_nan; at += n) {
        n = MIN_OF(BLOCK, end - at);
        if (has_better(s, read_block(s, base + at * s->stride, n, room), n, &best))
            best.at = at;
    }
    int64_t n = MIN_OF(BLOCK, end - best.at);
    best.at += find(s, read_block(s, base + best.at * s->stride, n, room), n, &best);
    return best;
}

static void put(char *to, int64_t at) {
    uint32_t position = (uint32_t)at;
    memcpy(to, &position, sizeof position);
}

static void each_part(const void *context, int64_t from, int64_t to) {
    const struct search *s = context;
    struct walk w;
    cpu_walk_to(&s->kept, &w, from);
    for (;; cpu_walk_next(&s->kept, &w)) {
        put(w.data[OUT], look_along(s, w.data[IN], 0, s->length).at);
        if (++from == to)
            return;
    }
}

// One search, divided into parts for several threads --------------------------------------------------------

static void shared_part(const void *context, int64_t from, int64_t to) {
    const struct search *s = context;
    for (; from < to; from++)
        s->part[from] =
            look_along(s, s->kept.data[IN], s->length * from / s->parts, s->length * (from + 1) / s->parts);
}

static void search_once(struct search *s) {
    struct found part[PARTS], best = {.any = false};
    s->part = part;
    s->parts = MIN_OF(MAX_OF(s->length * s->item / (CPU_SPLIT / 2), 1), PARTS);
    cpu_split(s->parts, 1, shared_part, s);
    for (int64_t i = 0; i < s->parts; i++)
        if (is_better(s, part[i].value, part[i].is_nan, &best))
            best = part[i];
    put(s->kept.data[OUT], best.at);
}

// Several searches side by side, where kept elements are closer together than those along the axis ----------

enum { LANES = 64, COLUMNS_LEAST = 16 };

// Searches several rows of any strides at once, through a tile into which they are gathered.
static void look_across(const struct search *s, const struct walk *w, int64_t lanes, int64_t lane_stride) {
    struct found best[LANES];
    _Alignas(64) char tile[TILE];
    int64_t most = TILE / (lanes * s->item);
    for (int64_t k = 0; k < lanes; k++)
        best[k].any = best[k].is_nan = false;
    for (int64_t at = 0, n; at < s->length; at += n) {
        n = MIN_OF(MIN_OF(most, BLOCK), s->length - at);
        cpu_move((size_t)s->item, tile, (struct stride2){s->item, n * s->item}, w->data[IN] + at * s->stride,
                 (struct stride2){s->stride, lane_stride}, n, lanes);
        for (int64_t k = 0; k < lanes; k++)
            if (has_better(s, tile + k * n * s->item, n, &best[k]))
                best[k].at = at + find(s, tile + k * n * s->item, n, &best[k]);
    }
    for (int64_t k = 0; k < lanes; k++)
        put(w->data[OUT] + k * 4, best[k].at);
}

static bool has_wide_lanes(const struct search *s) {
    const struct layout_axis *last = &s->kept.axis[s->kept.axes - 1];
    return s->has_columns && last->stride[IN] == s->item && last->dim >= COLUMNS_LEAST;
}

static void across_part(const void *context, int64_t from, int64_t to) {
    const struct search *s = context;
    int last = s->kept.axes - 1;
    struct walk w;
    cpu_walk_to(&s->kept, &w, from);
    for (;; cpu_walk_next(&s->kept, &w)) {
        int64_t lanes = cpu_walk_extent(&s->kept, &w, last);
        if (has_wide_lanes(s))
            cpu_argreduce_rows(&s->columns, w.data[IN], s->stride, s->length, lanes, w.data[OUT]);
        else
            look_across(s, &w, lanes, s->kept.axis[last].stride[IN]);
        if (++from == to)
            return;
    }
}

static bool goes_across(const struct search *s) {
    if (s->kept.axes == 0)
        return false;
    const struct layout_axis *last = &s->kept.axis[s->kept.axes - 1];
    return last->dim >= 4 && s->stride > last->stride[IN] && last->stride[IN] > 0;
}

static void search_across(struct search *s) {
    struct layout_axis *last = &s->kept.axis[s->kept.axes - 1];
    last->step = MIN_OF(last->dim, has_wide_lanes(s) ? COLUMNS_MOST : LANES);
    int64_t tiles = s->kept.size / last->dim * ((last->dim + last->step - 1) / last->step);
    cpu_split(tiles, CPU_SPLIT / 2 / (last->step * s->length * s->item) + 1, across_part, s);
}

// Setting up ------------------------------------------------------------------------------------------------

static void set_axes(struct search *s, zl_array x, zl_array out, int axis, const char *data) {
    struct layout *l = &s->kept;
    cpu_layout_start(l, out->ndim, out->dim, 1); // the axis has size 1 in the output, so it is left out
    cpu_layout_add(l, cpu_data(out), 4, out->ndim, out->dim, array_stride(out));
    cpu_layout_add(l, data, (size_t)s->item, out->ndim, out->dim, array_stride(x));
    cpu_layout_merge(l);
    l->loops = l->axes;
    for (int j = 0; j < l->axes; j++)
        l->axis[j].step = 1;
    s->length = x->dim[axis];
    s->stride = s->length > 1 ? array_stride(x)[axis] * s->item : s->item;
}

static bool choose_rows(struct search *s, zl_dtype dtype, bool is_max) {
    const struct row_table *rows = cpu_level()->rows;
    bool half = dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
    s->item = (int64_t)zl_dtype_size(dtype);
    s->extreme = cpu_reduce_row(is_max ? TILE_MAX : TILE_MIN, dtype);
    s->narrow = half ? rows->cast[dtype][ZL_FLOAT32] : NULL;
    s->is_max = is_max;
    s->by = cpu_element_search(dtype);
    s->has_columns = cpu_argreduce_columns(dtype, is_max, &s->columns);
    return s->extreme != NULL;
}

bool cpu_argreduce(const struct call *c) {
    struct search s;
    union scalar room;
    zl_array x = c->in[0], out = call_output(c, 0);
    int axis = (int)call_args(c)[1];
    if (!choose_rows(&s, (zl_dtype)x->dtype, call_args(c)[0] != 0))
        return error_false(ZL_ERROR_DEVICE, "the cpu device has no kernel for %s of %s", c->op->name,
                           zl_dtype_name((zl_dtype)x->dtype));
    set_axes(&s, x, out, axis, array_data(x, &room));
    if (s.kept.size == 1)
        search_once(&s);
    else if (goes_across(&s))
        search_across(&s);
    else
        cpu_split(s.kept.size, CPU_SPLIT / 2 / (s.length * s.item) + 1, each_part, &s);
    return true;
}
