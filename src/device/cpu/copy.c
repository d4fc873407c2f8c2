// copy.c - copies between any two layouts of one shape.
//
// Nothing is computed, so strided data goes to its place without a tile in between; only transpositions pass through
// one, because lines of the result are written whole that way.

#include "device/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

enum { TO, FROM };

enum {
    COPY_ROWS = 64,   // elements of a block along the lines of the source
    COPY_COLS = 256,  // and of the result
    COPY_RUN = 65536, // bytes that one memcpy takes
    COPY_BOX = 4096,  // elements of a strided piece
    LINE = 64,
};

// Pieces of the last axis ------------------------------------------------------------------------------------------

static void copy_runs(const struct layout *l, struct walk *w, int64_t tiles, const void *context) {
    (void)context;
    for (;;) {
        memcpy(w->data[TO], w->data[FROM], (size_t)cpu_walk_extent(l, w, l->axes - 1) * l->item[TO]);
        if (--tiles == 0)
            return;
        cpu_walk_next(l, w);
    }
}

// Rectangles of the last two axes.
static void copy_boxes(const struct layout *l, struct walk *w, int64_t tiles, const void *context) {
    (void)context;
    const struct layout_axis *a = &l->axis[l->axes - 2], *b = &l->axis[l->axes - 1];
    struct stride2 to = {a->stride[TO], b->stride[TO]}, from = {a->stride[FROM], b->stride[FROM]};
    for (;;) {
        cpu_move(l->item[TO], w->data[TO], to, w->data[FROM], from, cpu_walk_extent(l, w, l->axes - 2),
                 cpu_walk_extent(l, w, l->axes - 1));
        if (--tiles == 0)
            return;
        cpu_walk_next(l, w);
    }
}

// Rectangles of which the source's lines lie along row_axis. The tile's rows are a line apart from powers of two, which
// would share their places in the cache.
static void copy_blocks(const struct layout *l, struct walk *w, int64_t tiles, const void *context) {
    (void)context;
    _Alignas(64) char tile[COPY_ROWS * (COPY_COLS * 4 + LINE)];
    const struct layout_axis *row = &l->axis[l->row_axis], *col = &l->axis[l->axes - 1];
    const int64_t item = l->item[TO], pitch = col->step * item + LINE;
    for (;;) {
        int64_t rows = cpu_walk_extent(l, w, l->row_axis), cols = cpu_walk_extent(l, w, l->axes - 1);
        cpu_transpose((size_t)item, tile, pitch, w->data[FROM], col->stride[FROM], rows, cols);
        for (int64_t r = 0; r < rows; r++)
            memcpy(w->data[TO] + r * row->stride[TO], tile + r * pitch, (size_t)(cols * item));
        if (--tiles == 0)
            return;
        cpu_walk_next(l, w);
    }
}

// Choosing ---------------------------------------------------------------------------------------------------------

// The axis along which the source is dense, when the result is along the last; -1: none.
static int transposed_axis(const struct layout *l) {
    const struct layout_axis *inner = &l->axis[l->axes - 1];
    if (inner->stride[TO] != l->item[TO] || llabs(inner->stride[FROM]) < LINE || inner->dim < 4)
        return -1;
    for (int j = 0; j < l->axes - 1; j++)
        if (l->axis[j].stride[FROM] == l->item[FROM] && l->axis[j].dim >= 4)
            return j;
    return -1;
}

static void add_unit_axis(struct layout *l) {
    l->axis[1] = l->axis[0];
    l->axis[0] = (struct layout_axis){.dim = 1, .step = 1, .stride = {l->item[TO], l->item[FROM]}};
    l->axes++;
}

static walk_part *choose(struct layout *l) {
    struct layout_axis *inner = &l->axis[l->axes - 1];
    int64_t item = l->item[TO];
    l->loops = l->axes;
    for (int j = 0; j < l->axes; j++)
        l->axis[j].step = 1;
    bool dense = inner->stride[TO] == item && inner->stride[FROM] == item;
    if (dense && (l->axes == 1 || inner->dim * item >= 1024)) {
        inner->step = MIN_OF(inner->dim, COPY_RUN / item);
        return copy_runs;
    }
    l->row_axis = transposed_axis(l);
    if (l->row_axis >= 0) {
        l->axis[l->row_axis].step = MIN_OF(l->axis[l->row_axis].dim, COPY_ROWS);
        inner->step = MIN_OF(inner->dim, item > 4 ? COPY_COLS / 2 : COPY_COLS);
        return copy_blocks;
    }
    if (l->axes == 1)
        add_unit_axis(l);
    l->loops = l->axes;
    inner = &l->axis[l->axes - 1];
    inner->step = MIN_OF(inner->dim, COPY_BOX);
    struct layout_axis *outer = inner - 1;
    outer->step = MAX_OF(MIN_OF(outer->dim, COPY_BOX / inner->step), 1);
    return copy_boxes;
}

void cpu_copy(size_t item, int ndim, const int64_t *dim, void *to, const int64_t *to_stride, const void *from,
              const int64_t *from_stride) {
    struct layout l;
    cpu_layout_start(&l, ndim, dim, 1);
    if (l.size == 0)
        return;
    cpu_layout_add(&l, to, item, ndim, dim, to_stride);
    cpu_layout_add(&l, from, item, ndim, dim, from_stride);
    cpu_layout_merge(&l);
    if (l.axes == 0)
        add_unit_axis(&l);
    walk_part *part = choose(&l);
    cpu_walk(&l, 2.0 * (double)l.size * (double)item, part, NULL);
}
