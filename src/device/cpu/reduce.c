// reduce.c - reductions over any axes of any layout.
//
// By rows: where the reduced elements lie close together, runs of them are reduced to one. By columns: where the kept
// ones do, rows of accumulators are combined with rows of elements. Half floats are accumulated in float32. The pieces
// in which work is cut, and so the order of all operations, follow from shapes and strides alone: the number of threads
// does not change a bit. Pieces are joined as a tree, which also keeps sums accurate.

#include "device/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

enum { OUT, IN };

enum {
    RUN_MOST = 4096,   // elements that one row kernel reduces
    TILE = 1024,       // elements gathered at once
    SLOTS = 64,        // results of runs that wait to be joined
    BLOCK = 256,       // kept elements whose accumulators are stored together
    COLUMNS = 2048,    // accumulators that rows are combined into
    ROWS = 512,        // rows combined before their accumulators are
    SHORT_RUN = 32,    // elements from which a run is worth a call
    SEGMENT = 65536,   // elements of a piece that threads may share
    SEGMENTS = 256,    // pieces at most
    WIDEST = 8,        // bytes of an accumulator
};

struct reduction {
    struct layout kept;    // operands: output, input
    struct layout reduced; // operand: input
    row_fn *row;           // elements to one accumulator
    row_fn *join;          // accumulators to one
    row_fn *combine;       // accumulators, one by one
    row_fn *widen;         // elements to accumulators; NULL: they are the same
    row_fn *narrow;        // and back
    int64_t item, wide;    // bytes of an element, of an accumulator
    int64_t segments;      // pieces that the reduced elements are cut in
    char *partial;         // accumulators: (segments, kept)
    int column;            // kept axis that rows of accumulators lie along
    int64_t fold;          // rows that are combined as one
};

static void call_row(row_fn *row, const void *to, const void *a, const void *b, int64_t n) {
    char *p[3] = {(char *)(uintptr_t)to, (char *)(uintptr_t)a, (char *)(uintptr_t)b};
    row(p, n);
}

// Elements of the segment, as positions in the reduced space.
static int64_t segment_begin(const struct reduction *r, int64_t segment) {
    int64_t size = r->reduced.size, each = size / r->segments, more = size % r->segments;
    return segment * each + MIN_OF(segment, more);
}

static void load(const struct reduction *r, char *accumulators, const char *elements, int64_t n) {
    if (r->widen)
        call_row(r->widen, accumulators, elements, NULL, n);
    else
        memcpy(accumulators, elements, (size_t)(n * r->item));
}

static void store(const struct reduction *r, char *elements, const char *accumulators, int64_t n) {
    if (r->narrow)
        call_row(r->narrow, elements, accumulators, NULL, n);
    else
        memcpy(elements, accumulators, (size_t)(n * r->item));
}

// By rows --------------------------------------------------------------------------------------------------------

struct slots {
    int used;
    _Alignas(64) char value[SLOTS * WIDEST];
    _Alignas(64) char tile[TILE * WIDEST];
};

// Reduces n elements that lie stride bytes apart into the next slot.
static void reduce_run(const struct reduction *r, struct slots *s, const char *from, int64_t stride, int64_t n) {
    if (s->used == SLOTS) {
        char joined[WIDEST];
        call_row(r->join, joined, s->value, NULL, SLOTS);
        memcpy(s->value, joined, (size_t)r->wide);
        s->used = 1;
    }
    if (stride != r->item) {
        cpu_move((size_t)r->item, s->tile, (struct stride2){0, r->item}, from, (struct stride2){0, stride}, 1, n);
        from = s->tile;
    }
    call_row(r->row, s->value + s->used++ * r->wide, from, NULL, n);
}

// Reduces the positions [at, end) of the reduced space, from the kept element at base, into one accumulator.
static void reduce_range(const struct reduction *r, const char *base, int64_t at, int64_t end, char *result) {
    const struct layout *l = &r->reduced;
    const struct layout_axis *inner = &l->axis[l->axes - 1];
    int64_t stride = inner->stride[0], most = stride == r->item ? RUN_MOST : TILE;
    if (end - at <= most && l->axes == 1 && stride == r->item) {
        call_row(r->row, result, base + at * stride, NULL, end - at);
        return;
    }
    struct slots s;
    struct walk w;
    s.used = 0;
    cpu_walk_to(l, &w, at / inner->dim);
    for (int64_t i = at % inner->dim; at < end; i = 0) {
        int64_t run_end = MIN_OF(inner->dim, i + end - at);
        const char *row = base + (w.data[0] - l->data[0]);
        at += run_end - i;
        for (int64_t n; i < run_end; i += n) {
            n = MIN_OF(most, run_end - i);
            reduce_run(r, &s, row + i * stride, stride, n);
        }
        if (at < end)
            cpu_walk_next(l, &w);
    }
    call_row(r->join, result, s.value, NULL, s.used);
}

static void rows_part(const void *context, int64_t from, int64_t to) {
    const struct reduction *r = context;
    struct walk w;
    _Alignas(64) char block[BLOCK * WIDEST];
    cpu_walk_to(&r->kept, &w, from);
    char *out = r->kept.data[OUT] + from * r->item;
    for (int64_t count; from < to; from += count, out += count * r->item) {
        count = MIN_OF(BLOCK, to - from);
        for (int64_t i = 0; i < count; i++) {
            reduce_range(r, w.data[IN], 0, r->reduced.size, block + i * r->wide);
            if (from + i + 1 < to)
                cpu_walk_next(&r->kept, &w);
        }
        store(r, out, block, count);
    }
}

// Few kept elements: their segments are shared.
static void segments_part(const void *context, int64_t from, int64_t to) {
    const struct reduction *r = context;
    for (; from < to; from++) {
        int64_t kept = from / r->segments, segment = from % r->segments;
        struct walk w;
        cpu_walk_to(&r->kept, &w, kept);
        reduce_range(r, w.data[IN], segment_begin(r, segment), segment_begin(r, segment + 1), r->partial + from * r->wide);
    }
}

static void join_segments(const struct reduction *r) {
    for (int64_t i = 0; i < r->kept.size; i++) {
        char joined[WIDEST];
        call_row(r->join, joined, r->partial + i * r->segments * r->wide, NULL, r->segments);
        store(r, r->kept.data[OUT] + i * r->item, joined, 1);
    }
}

static bool reduce_rows(struct reduction *r) {
    int64_t kept = r->kept.size, size = r->reduced.size, grain = CPU_SPLIT / (size * r->item) + 1;
    r->reduced.loops = r->reduced.axes - 1;
    r->kept.loops = r->kept.axes;
    r->segments = kept >= SLOTS ? 1 : MIN_OF(MAX_OF(size / SEGMENT, 1), SEGMENTS);
    if (r->segments == 1) {
        cpu_split(kept, grain, rows_part, r);
        return true;
    }
    _Alignas(64) char room[SEGMENTS * WIDEST];
    r->partial = kept == 1 ? room : memory_alloc((size_t)(kept * r->segments * r->wide));
    if (!r->partial)
        return false;
    cpu_split(kept * r->segments, 1, segments_part, r);
    join_segments(r);
    if (kept != 1)
        memory_free(r->partial);
    return true;
}

// By columns -----------------------------------------------------------------------------------------------------

struct columns {
    _Alignas(64) char sum[COLUMNS * WIDEST];   // of all rows so far
    _Alignas(64) char block[COLUMNS * WIDEST]; // of the last ROWS
    _Alignas(64) char tile[COLUMNS * WIDEST];  // elements of a row that is not contiguous
    _Alignas(64) char wide[COLUMNS * 4];       // a row of half floats as floats
    int64_t rows;                              // in block
    bool has_sum;
};

static void fold_block(const struct reduction *r, struct columns *c, int64_t width) {
    if (c->has_sum)
        call_row(r->combine, c->sum, c->sum, c->block, width);
    else
        memcpy(c->sum, c->block, (size_t)(width * r->wide));
    c->has_sum = true;
    c->rows = 0;
}

// One row of elements, the first width of a block's.
static void add_row(const struct reduction *r, struct columns *c, const char *from, int64_t stride, int64_t width) {
    if (stride != r->item) {
        cpu_move((size_t)r->item, c->tile, (struct stride2){0, r->item}, from, (struct stride2){0, stride}, 1, width);
        from = c->tile;
    }
    if (c->rows++ == 0) {
        load(r, c->block, from, width);
        return;
    }
    if (r->widen) {
        load(r, c->wide, from, width);
        from = c->wide;
    }
    call_row(r->combine, c->block, c->block, from, width);
}

// The last rows, fewer than are combined as one, onto the first of those.
static void add_rest(const struct reduction *r, struct columns *c, const char *from, int64_t count, int64_t rows) {
    if (c->rows)
        fold_block(r, c, count * r->fold);
    add_row(r, c, from, r->item, count * rows);
    call_row(r->combine, c->sum, c->sum, c->block, count * rows);
    c->rows = 0;
}

// Positions [i, end) of the last reduced axis, from a row of count kept elements.
static void add_rows(const struct reduction *r, struct columns *c, const char *from, int64_t count, int64_t i,
                     int64_t end) {
    int64_t stride = r->kept.axis[r->column].stride[IN];
    int64_t row_stride = r->reduced.axis[r->reduced.axes - 1].stride[0];
    for (; i + r->fold <= end; i += r->fold) {
        add_row(r, c, from + i * row_stride, stride, count * r->fold);
        if (c->rows == ROWS)
            fold_block(r, c, count * r->fold);
    }
    if (i < end)
        add_rest(r, c, from + i * row_stride, count, end - i);
}

// Reduces positions [at, end) of the reduced space for count kept elements from base on: the result is in c->sum.
static void reduce_columns(const struct reduction *r, struct columns *c, const char *base, int64_t count, int64_t at,
                           int64_t end) {
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
        call_row(r->combine, c->sum, c->sum, c->sum + i * count * r->wide, count);
}

static void store_columns(const struct reduction *r, struct columns *c, char *out, int64_t count) {
    int64_t stride = r->kept.axis[r->column].stride[OUT];
    store(r, c->block, c->sum, count);
    cpu_move((size_t)r->item, out, (struct stride2){0, stride}, c->block, (struct stride2){0, r->item}, 1, count);
}

// Tiles of the kept space, times segments.
static void columns_part(const void *context, int64_t from, int64_t to) {
    const struct reduction *r = context;
    struct columns c;
    for (; from < to; from++) {
        struct walk w;
        int64_t tile = from / r->segments, segment = from % r->segments;
        cpu_walk_to(&r->kept, &w, tile);
        int64_t count = cpu_walk_extent(&r->kept, &w, r->column);
        reduce_columns(r, &c, w.data[IN], count, segment_begin(r, segment), segment_begin(r, segment + 1));
        if (r->partial)
            memcpy(r->partial + from * COLUMNS * r->wide, c.sum, (size_t)(count * r->wide));
        else
            store_columns(r, &c, w.data[OUT], count);
    }
}

static void join_columns(const void *context, int64_t from, int64_t to) {
    const struct reduction *r = context;
    struct columns c;
    for (; from < to; from++) {
        struct walk w;
        cpu_walk_to(&r->kept, &w, from);
        int64_t count = cpu_walk_extent(&r->kept, &w, r->column);
        const char *partial = r->partial + from * r->segments * COLUMNS * r->wide;
        memcpy(c.sum, partial, (size_t)(count * r->wide));
        for (int64_t i = 1; i < r->segments; i++)
            call_row(r->combine, c.sum, c.sum, partial + i * COLUMNS * r->wide, count);
        store_columns(r, &c, w.data[OUT], count);
    }
}

// The kept axis to lay accumulators along: the last, unless it is short and another is not.
static int choose_column(const struct layout *kept, int64_t fold) {
    int last = kept->axes - 1, best = last;
    if (kept->axis[last].dim * fold >= SLOTS)
        return last;
    for (int j = 0; j < last; j++)
        if (kept->axis[j].dim > kept->axis[best].dim)
            best = j;
    return best;
}

// Rows that are combined as one: those of a short kept axis that lie one behind the other.
static int64_t choose_fold(const struct reduction *r) {
    const struct layout_axis *kept = &r->kept.axis[r->kept.axes - 1], *reduced = &r->reduced.axis[0];
    if (r->reduced.axes > 1 || kept->stride[IN] != r->item || reduced->stride[0] != kept->dim * r->item)
        return 1;
    return MAX_OF(MIN_OF(COLUMNS / 4 / kept->dim, reduced->dim / SEGMENTS), 1);
}

static bool reduce_by_columns(struct reduction *r) {
    r->fold = choose_fold(r);
    r->column = choose_column(&r->kept, r->fold);
    if (r->column != r->kept.axes - 1)
        r->fold = 1;
    r->kept.loops = r->kept.axes;
    r->reduced.loops = r->reduced.axes - 1;
    struct layout_axis *column = &r->kept.axis[r->column];
    column->step = MIN_OF(column->dim, COLUMNS / r->fold);
    int64_t tiles = r->kept.size / column->dim * ((column->dim + column->step - 1) / column->step);
    int64_t size = r->kept.size * r->reduced.size, most = r->reduced.size / r->fold;
    r->segments = tiles >= 16 ? 1 : MAX_OF(MIN_OF(MIN_OF(size / SEGMENT, 32), most), 1);
    if (r->segments > 1 && !(r->partial = memory_alloc((size_t)(tiles * r->segments * COLUMNS * r->wide))))
        return false;
    int64_t grain = CPU_SPLIT * tiles * r->segments / (size * r->item) + 1;
    cpu_split(tiles * r->segments, grain, columns_part, r);
    if (r->partial)
        cpu_split(tiles, 1, join_columns, r);
    memory_free(r->partial);
    return true;
}

// Setting up -----------------------------------------------------------------------------------------------------

static void add_axis(struct layout *l, int64_t dim, int64_t first, int64_t second) {
    struct layout_axis *a = &l->axis[l->axes++];
    a->dim = dim;
    a->step = 1;
    a->stride[0] = first;
    a->stride[1] = second;
    l->size *= dim;
}

static void reverse(struct layout *l) {
    for (int i = 0, j = l->axes - 1; i < j; i++, j--) {
        struct layout_axis a = l->axis[i];
        l->axis[i] = l->axis[j];
        l->axis[j] = a;
    }
}

// Cuts the axes of x into those kept, in order, and those reduced.
static void split_axes(struct reduction *r, const struct call *c, zl_array x) {
    const int64_t *args = call_args(c);
    int at = c->args - 1;
    int64_t out = r->item;
    for (int i = x->ndim - 1; i >= 0; i--) {
        bool is_reduced = at >= 0 && args[at] == i;
        at -= is_reduced;
        if (x->dim[i] == 1)
            continue;
        int64_t stride = array_stride(x)[i] * r->item;
        if (is_reduced) {
            add_axis(&r->reduced, x->dim[i], stride, 0);
        } else {
            add_axis(&r->kept, x->dim[i], out, stride);
            out *= x->dim[i];
        }
    }
    reverse(&r->kept);
    reverse(&r->reduced);
}

// Elements that are repeated go outside, then by falling stride: the order of the reduced elements is free, and this
// one finds the longest runs.
static bool goes_before(const struct layout_axis *a, const struct layout_axis *b) {
    if (a->stride[0] == 0 || b->stride[0] == 0)
        return a->stride[0] == 0 && b->stride[0] != 0;
    return llabs(a->stride[0]) > llabs(b->stride[0]);
}

static void sort_reduced(struct layout *l) {
    for (int i = 0; i < l->axes; i++) {
        struct layout_axis a = l->axis[i];
        if (a.stride[0] < 0) {
            l->data[0] += a.stride[0] * (a.dim - 1);
            a.stride[0] = -a.stride[0];
        }
        int j = i;
        for (; j > 0 && goes_before(&a, &l->axis[j - 1]); j--)
            l->axis[j] = l->axis[j - 1];
        l->axis[j] = a;
    }
}

static bool is_by_rows(const struct reduction *r) {
    if (r->kept.axes == 0)
        return true;
    const struct layout_axis *reduced = &r->reduced.axis[r->reduced.axes - 1];
    int64_t kept = llabs(r->kept.axis[r->kept.axes - 1].stride[IN]);
    return reduced->dim >= SHORT_RUN && reduced->stride[0] && (kept == 0 || reduced->stride[0] < kept);
}

// Of truth values, the largest is their or, the smallest their and.
row_fn *cpu_reduce_row(enum tile_op op, zl_dtype dtype) {
    if (dtype == ZL_BOOL)
        op = op == TILE_MAX ? TILE_OR : op == TILE_MIN ? TILE_AND : op;
    return cpu_level()->rows->reduce[op][dtype];
}

static bool choose_rows(struct reduction *r, enum tile_op op, zl_dtype dtype) {
    const struct row_table *rows = cpu_level()->rows;
    bool half = dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
    zl_dtype wide = half ? ZL_FLOAT32 : dtype;
    r->row = cpu_reduce_row(op, dtype);
    r->join = cpu_reduce_row(op, wide);
    r->combine = rows->op[op][wide][0];
    r->widen = half ? rows->cast[wide][dtype] : NULL;
    r->narrow = half ? rows->cast[dtype][wide] : NULL;
    r->item = (int64_t)zl_dtype_size(dtype);
    r->wide = (int64_t)zl_dtype_size(wide);
    return r->row && r->join && r->combine;
}

bool cpu_reduce(const struct call *c) {
    struct reduction r;
    union scalar room;
    zl_array x = c->in[0], out = call_output(c, 0);
    if (!choose_rows(&r, c->op->row, (zl_dtype)x->dtype))
        return error_false(ZL_ERROR_DEVICE, "the cpu device has no kernel for %s of %s", c->op->name,
                           zl_dtype_name((zl_dtype)x->dtype));
    const char *from = array_data(x, &room);
    r.partial = NULL;
    r.kept.axes = r.reduced.axes = 0;
    r.kept.size = r.reduced.size = 1;
    r.kept.operands = 2;
    r.reduced.operands = 1;
    split_axes(&r, c, x);
    r.kept.data[OUT] = cpu_data(out);
    r.reduced.data[0] = r.kept.data[IN] = (char *)(uintptr_t)from;
    if (r.reduced.axes == 0) {
        cpu_copy((size_t)r.item, x->ndim, x->dim, cpu_data(out), array_stride(out), from, array_stride(x));
        return true;
    }
    sort_reduced(&r.reduced);
    r.kept.data[IN] = r.reduced.data[0]; // the first of what is reduced, also where that goes backwards
    cpu_layout_merge(&r.kept);
    cpu_layout_merge(&r.reduced);
    return is_by_rows(&r) ? reduce_rows(&r) : reduce_by_columns(&r);
}
