// copy.c - copies between any two layouts of one shape.
//
// Nothing is computed, so strided data goes to its place without a tile in between; only transpositions pass
// through one, because lines of the result are written whole that way.

#include "device/cpu/rows/operands.h"

#include <stdlib.h>
#include <string.h>

enum { TO, FROM };

enum {
    BLOCK_LINE = 256, // bytes of a block along the lines of the source
    BLOCK_RUN = 256,  // elements of a block along those of the result
    COPY_RUN = 65536, // bytes that one memcpy takes
    COPY_BOX = 4096,  // elements of a strided piece
    LINE = 64,
    TILE_BYTES = BLOCK_LINE * (BLOCK_RUN + 2 * LINE), // for the smallest elements, which have the most rows
};

// Pieces of the last axis -----------------------------------------------------------------------------------

// Rows, or pieces of one. Nothing else is written in between: see run_along in layout.c.
static void copy_runs(const struct layout *l, struct walk *w, int64_t tiles, const void *context) {
    (void)context;
    const int last = l->loops - 1, inner = l->axes - 1;
    for (;;) {
        int64_t run = last < 0 || last == inner ? 1 : MIN_OF(l->axis[last].dim - w->at[last], tiles);
        size_t bytes = (size_t)cpu_walk_extent(l, w, inner) * l->item[TO];
        for (int64_t i = 0; i < run; i++)
            memcpy(w->data[TO] + i * w->next[TO], w->data[FROM] + i * w->next[FROM], bytes);
        if ((tiles -= run) == 0)
            return;
        cpu_walk_skip(l, w, run - 1);
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

// Rectangles of which the source's lines lie along row_axis. Rows of the tile are a line longer than they
// need to be: powers of two would share their places in the cache. Rows of the result whose lines do not
// begin with a block are written from the line that begins before it, so that each line is written at once;
// for that a block takes some columns of the one before it too. Measured (Neoverse-V1, 2026-11): 0.40 of
// memcpy, 0.31 where lines do not fit; 0.26 without.
static void copy_block(const struct layout *l, const struct walk *w, char *tile, int64_t before) {
    const struct layout_axis *row = &l->axis[l->row_axis], *col = &l->axis[l->axes - 1];
    const int64_t item = l->item[TO], rows = cpu_walk_extent(l, w, l->row_axis),
                  cols = cpu_walk_extent(l, w, l->axes - 1);
    const int64_t pitch = (col->step + LINE / item) * item + LINE, start = w->at[l->axes - 1] ? before : 0;
    const bool last = w->at[l->axes - 1] + cols == col->dim;
    cpu_transpose((size_t)item, tile, pitch, w->data[FROM] - start * col->stride[FROM], col->stride[FROM],
                  rows, cols + start);
    for (int64_t r = 0; r < rows; r++) {
        char *to = w->data[TO] + r * row->stride[TO], *end = to + cols * item;
        const char *from = tile + r * pitch + start * item;
        int64_t early = start ? (intptr_t)to & (LINE - 1) : 0,
                late = before && !last ? (intptr_t)end & (LINE - 1) : 0;
        memcpy(to - early, from - early, (size_t)(cols * item + early - late));
    }
}

static void copy_blocks(const struct layout *l, struct walk *w, int64_t tiles, const void *context) {
    _Alignas(64) char tile[TILE_BYTES];
    const int64_t *before = context; // columns
    for (;;) {
        copy_block(l, w, tile, *before);
        if (--tiles == 0)
            return;
        cpu_walk_next(l, w);
    }
}

// Lines of the result begin elsewhere than its rows.
static bool is_out_of_line(const struct layout *l) {
    intptr_t bits = (intptr_t)l->data[TO];
    for (int j = 0; j < l->axes - 1; j++)
        bits |= l->axis[j].stride[TO];
    return bits & (LINE - 1);
}

// Choosing --------------------------------------------------------------------------------------------------

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
        l->axis[l->row_axis].step = MIN_OF(l->axis[l->row_axis].dim, BLOCK_LINE / item);
        inner->step = MIN_OF(inner->dim, BLOCK_RUN);
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
    cpu_layout_trim(&l);
    int64_t before = is_out_of_line(&l) ? LINE / (int64_t)item : 0;
    cpu_walk(&l, 2.0 * (double)l.size * (double)item, part, &before);
}
