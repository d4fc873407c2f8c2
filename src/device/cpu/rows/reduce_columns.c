// reduce_columns.c - reductions whose kept elements are close together in memory: rows of accumulators are
// combined with rows of elements.
//
// After some hundred rows the accumulators are added to a second set, which keeps sums accurate. If rows are
// short and contiguous, several rows are combined as one long row, which is folded at the end. If the
// elements of a row are far apart but the reduced elements are contiguous, as for many short rows, several
// rows are transposed at a time. If few elements are kept, the reduced rows are divided into segments, which
// threads share; the division depends on the shape alone.

#include "device/cpu/rows/operands.h"
#include "device/cpu/rows/reduce.h"

#include <string.h>

enum {
    COLUMN_BYTES = 16384, // bytes of a row of accumulators, which stays in L1
    FOLD_MOST = 512,      // elements of the rows that are combined as one, at most
    ROWS = 512,           // rows that are combined before their accumulators are added to the sum
    SHORT = 64,           // elements of a row that is too short for a call of its own
    ACROSS = 16,          // rows that are transposed at once
    SEGMENT = 65536,      // elements of a piece that threads may share
    SEGMENTS = 32,        // pieces at most
};

struct columns {
    _Alignas(64) char sum[COLUMN_BYTES];   // of all rows so far
    _Alignas(64) char block[COLUMN_BYTES]; // of the last ROWS
    _Alignas(64) char tile[COLUMN_BYTES];  // elements of a row that is not contiguous
    _Alignas(64) char wide[COLUMN_BYTES];  // a row of 16-bit floats as floats
    int64_t rows;                          // rows in block
    bool has_sum;
};

static bool is_across(const struct reduction *r) {
    return r->reduced.axis[r->reduced.axes - 1].stride[0] == r->by.item &&
           r->kept.axis[r->column].stride[REDUCE_IN] != r->by.item;
}

static void fold_block(const struct reduction *r, struct columns *c, int64_t width) {
    if (c->has_sum)
        cpu_call_row(r->by.combine, c->sum, c->sum, c->block, NULL, width);
    else
        memcpy(c->sum, c->block, (size_t)(width * r->by.wide));
    c->has_sum = true;
    c->rows = 0;
}

// Adds one contiguous row of `width` elements to the block.
static void add_dense_row(const struct reduction *r, struct columns *c, const char *from, int64_t width) {
    if (c->rows++ == 0) {
        cpu_reduce_load(&r->by, c->block, from, width);
        return;
    }
    if (r->by.widen) {
        cpu_reduce_load(&r->by, c->wide, from, width);
        from = c->wide;
    }
    cpu_call_row(r->by.combine, c->block, c->block, from, NULL, width);
}

static void add_row(const struct reduction *r, struct columns *c, const char *from, int64_t stride,
                    int64_t width) {
    if (stride != r->by.item) {
        cpu_move((size_t)r->by.item, c->tile, (struct stride2){0, r->by.item}, from,
                 (struct stride2){0, stride}, 1, width);
        from = c->tile;
    }
    add_dense_row(r, c, from, width);
}

// Adds n rows which are an element apart; the `count` elements of a row are `stride` bytes apart.
static void add_rows_across(const struct reduction *r, struct columns *c, const char *from, int64_t stride,
                            int64_t count, int64_t n) {
    int64_t pitch = count * r->by.item;
    for (int64_t i = 0, rows; i < n; i += rows) {
        rows = MIN_OF(n - i, ACROSS);
        cpu_transpose((size_t)r->by.item, c->tile, pitch, from + i * r->by.item, stride, rows, count);
        for (int64_t k = 0; k < rows; k++) {
            add_dense_row(r, c, c->tile + k * pitch, count);
            if (c->rows == ROWS)
                fold_block(r, c, count);
        }
    }
}

// Adds the last rows, fewer than are combined as one, to the first of the folded rows.
static void add_rest(const struct reduction *r, struct columns *c, const char *from, int64_t count,
                     int64_t rows) {
    if (c->rows)
        fold_block(r, c, count * r->fold);
    add_row(r, c, from, r->by.item, count * rows);
    cpu_call_row(r->by.combine, c->sum, c->sum, c->block, NULL, count * rows);
    c->rows = 0;
}

// Adds positions [i, end) of the last reduced axis to a row of `count` kept elements.
static void add_rows(const struct reduction *r, struct columns *c, const char *from, int64_t count, int64_t i,
                     int64_t end) {
    int64_t stride = r->kept.axis[r->column].stride[REDUCE_IN];
    int64_t row_stride = r->reduced.axis[r->reduced.axes - 1].stride[0];
    if (is_across(r)) {
        add_rows_across(r, c, from + i * row_stride, stride, count, end - i);
        return;
    }
    for (; i + r->fold <= end; i += r->fold) {
        add_row(r, c, from + i * row_stride, stride, count * r->fold);
        if (c->rows == ROWS)
            fold_block(r, c, count * r->fold);
    }
    if (i < end)
        add_rest(r, c, from + i * row_stride, count, end - i);
}

// Reduces positions [at, end) of the reduced space for `count` kept elements from base on. The result is in
// c->sum.
static void reduce_columns(const struct reduction *r, struct columns *c, const char *base, int64_t count,
                           int64_t at, int64_t end) {
    const struct layout *l = &r->reduced;
    int64_t inner = l->axis[l->axes - 1].dim;
    struct walk w;
    c->rows = 0;
    c->has_sum = false;
    cpu_walk_to(l, &w, at / inner);
    for (int64_t i = at % inner; at < end; i = 0) {
        int64_t run_end = MIN_OF(inner, i + end - at);
        add_rows(r, c, base + (w.data[0] - l->data[0]), count, i, run_end);
        at += run_end - i;
        if (at < end)
            cpu_walk_next(l, &w);
    }
    if (c->rows)
        fold_block(r, c, count * r->fold);
    for (int64_t i = 1; i < r->fold; i++)
        cpu_call_row(r->by.combine, c->sum, c->sum, c->sum + i * count * r->by.wide, NULL, count);
}

static void store_columns(const struct reduction *r, struct columns *c, char *out, int64_t count) {
    int64_t stride = r->kept.axis[r->column].stride[REDUCE_OUT];
    cpu_reduce_store(&r->by, c->block, c->sum, count);
    cpu_move((size_t)r->by.item, out, (struct stride2){0, stride}, c->block, (struct stride2){0, r->by.item},
             1, count);
}

// Reduces tiles of the kept space; each position in [from, to) is a tile and one of its segments.
static void columns_part(const void *context, int64_t from, int64_t to) {
    const struct reduction *r = context;
    struct columns c;
    for (; from < to; from++) {
        struct walk w;
        int64_t tile = from / r->segments, segment = from % r->segments;
        cpu_walk_to(&r->kept, &w, tile);
        int64_t count = cpu_walk_extent(&r->kept, &w, r->column);
        reduce_columns(r, &c, w.data[REDUCE_IN], count, cpu_reduce_segment(r, segment),
                       cpu_reduce_segment(r, segment + 1));
        if (r->partial)
            memcpy(r->partial + from * r->columns * r->by.wide, c.sum, (size_t)(count * r->by.wide));
        else
            store_columns(r, &c, w.data[REDUCE_OUT], count);
    }
}

static void join_columns(const void *context, int64_t from, int64_t to) {
    const struct reduction *r = context;
    struct columns c;
    for (; from < to; from++) {
        struct walk w;
        cpu_walk_to(&r->kept, &w, from);
        int64_t count = cpu_walk_extent(&r->kept, &w, r->column);
        const char *partial = r->partial + from * r->segments * r->columns * r->by.wide;
        memcpy(c.sum, partial, (size_t)(count * r->by.wide));
        for (int64_t i = 1; i < r->segments; i++)
            cpu_call_row(r->by.combine, c.sum, c.sum, partial + i * r->columns * r->by.wide, NULL, count);
        store_columns(r, &c, w.data[REDUCE_OUT], count);
    }
}

// Returns the kept axis along which rows of accumulators go: the last one, unless it is short and another one
// is not.
static int choose_column(const struct layout *kept, int64_t fold) {
    int last = kept->axes - 1, best = last;
    if (kept->axis[last].dim * fold >= SHORT)
        return last;
    for (int j = 0; j < last; j++)
        if (kept->axis[j].dim > kept->axis[best].dim)
            best = j;
    return best;
}

// Returns how many rows are combined as one, if these are contiguous; else 1.
static int64_t choose_fold(const struct reduction *r) {
    const struct layout_axis *kept = &r->kept.axis[r->kept.axes - 1], *reduced = &r->reduced.axis[0];
    if (r->reduced.axes > 1 || kept->stride[REDUCE_IN] != r->by.item ||
        reduced->stride[0] != kept->dim * r->by.item)
        return 1;
    return MAX_OF(MIN_OF(FOLD_MOST / kept->dim, reduced->dim / (4 * SEGMENTS)), 1);
}

bool cpu_reduce_by_columns(struct reduction *r) {
    r->columns = COLUMN_BYTES / r->by.wide;
    r->fold = choose_fold(r);
    r->column = choose_column(&r->kept, r->fold);
    if (r->column != r->kept.axes - 1)
        r->fold = 1;
    r->kept.loops = r->kept.axes;
    r->reduced.loops = r->reduced.axes - 1;
    struct layout_axis *column = &r->kept.axis[r->column];
    column->step = MIN_OF(column->dim, r->columns / (is_across(r) ? ACROSS : r->fold));
    int64_t tiles = r->kept.size / column->dim * ((column->dim + column->step - 1) / column->step);
    int64_t size = r->kept.size * r->reduced.size, most = r->reduced.size / r->fold;
    r->segments = tiles >= 16 ? 1 : MAX_OF(MIN_OF(MIN_OF(size / SEGMENT, SEGMENTS), most), 1);
    if (r->segments > 1 &&
        !(r->partial = memory_alloc((size_t)(tiles * r->segments * r->columns * r->by.wide))))
        return false;
    int64_t grain = CPU_SPLIT / 2 * tiles * r->segments / (size * r->by.item) + 1;
    cpu_split(tiles * r->segments, grain, columns_part, r);
    if (r->partial)
        cpu_split(tiles, 1, join_columns, r);
    memory_free(r->partial);
    return true;
}
