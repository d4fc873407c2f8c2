// layout.c - runs row kernels, which take only contiguous runs and scalars, on operands of any layout.
//
// There are three modes. Rows: if every operand is contiguous or constant along the last axis, and that axis
// is long, row kernels work in place. Box: otherwise a tile spans some of the last axes, which are run as
// one. Operands that are not contiguous over it are gathered into L1, only once if they repeat from tile to
// tile; an element of a column operand serves for a whole run. Block: an operand that is contiguous along
// another axis is transposed in blocks, so that no cache line is fetched for a single element.

#include "device/cpu/rows/operands.h"

#include <stdlib.h>
#include <string.h>

enum {
    RUN_LEAST = 16,     // elements from which on a run is worth a call of its own
    RUN_SCALAR = 32,    // the same if a scalar is read for each run
    RUN_REPEATED = 512, // the same if a box would gather its operands only once
    RUN_MOST = 65536,   // elements per call at most: threads share longer runs,
    RUN_GRAIN = 4096,   // and take no fewer than these
    BOX_MOST = 2048,    // elements of a box
    BLOCK_LINE = 256,   // bytes of a block along the contiguous axis of the transposed operand
    BLOCK_COLS = 256,   // elements of a block along the last axis
    BLOCK_ROOM = LAYOUT_GATHERED,
    LINE = LAYOUT_LINE,
};

// Planning --------------------------------------------------------------------------------------------------

static bool may_be_scalar(const struct layout *l, int k, unsigned vectors) {
    return k >= l->outputs && !(vectors >> k & 1);
}

static void set_access(struct layout *l, int k, enum layout_access access) {
    l->access[k] = (uint8_t)access;
    l->scalar |= (unsigned)(access == ACCESS_SCALAR || access == ACCESS_RUNS) << k;
    l->runs |= (unsigned)(access == ACCESS_RUNS) << k;
}

// Returns how operand k can be accessed along the last axis alone.
static enum layout_access access_inner(const struct layout *l, int k, unsigned vectors) {
    int64_t stride = l->axis[l->axes - 1].stride[k];
    if (stride == l->item[k])
        return ACCESS_DIRECT;
    return stride == 0 && may_be_scalar(l, k, vectors) ? ACCESS_SCALAR : ACCESS_TILE;
}

// Returns how operand k can be accessed if the axes from `first` on are run as one: in place, as a scalar, or
// through a tile.
static enum layout_access access_box(const struct layout *l, int k, int first, unsigned vectors) {
    bool dense = true, constant = may_be_scalar(l, k, vectors);
    int64_t expected = l->item[k];
    for (int j = l->axes - 1; j >= first; j--) {
        dense &= l->axis[j].stride[k] == expected;
        constant &= l->axis[j].stride[k] == 0;
        expected *= l->axis[j].dim;
    }
    return dense ? ACCESS_DIRECT : constant ? ACCESS_SCALAR : ACCESS_TILE;
}

// Returns whether a run is a multiple of the elements that kernels process at once, and so has no remainder
// loop.
static bool is_whole(const struct layout *l, int64_t run) {
    int most = 1, least = 8, bytes = cpu_level()->rows->vec_bytes;
    for (int k = 0; k < l->operands; k++) {
        most = MAX_OF(most, l->item[k]);
        least = MIN_OF(least, l->item[k]);
    }
    return run % MAX_OF(bytes / least, 4 * bytes / most) == 0;
}

// Returns for how many elements of a run over the axes from `first` on one element of operand k serves; 0:
// operand k is not such a column.
static int64_t column_run(const struct layout *l, int k, int first, unsigned vectors) {
    int64_t run = 1, expected = l->item[k];
    int j = l->axes - 1;
    for (; j >= first && l->axis[j].stride[k] == 0; j--)
        run *= l->axis[j].dim;
    if (run == 1 || j < first || !may_be_scalar(l, k, vectors) || !is_whole(l, run))
        return 0;
    for (; j >= first; j--) {
        if (l->axis[j].stride[k] != expected)
            return 0;
        expected *= l->axis[j].dim;
    }
    return run;
}

// Returns whether, from row to row, every operand continues contiguously, repeats, or has one element per
// row: a box gathers it only once then.
static bool repeats(const struct layout *l, unsigned vectors) {
    const struct layout_axis *outer = &l->axis[l->axes - 2], *inner = &l->axis[l->axes - 1];
    for (int k = 0; k < l->operands; k++)
        if (outer->stride[k] != 0 && outer->stride[k] != inner->stride[k] * inner->dim &&
            !column_run(l, k, l->axes - 2, vectors))
            return false;
    return true;
}

static bool has_long_runs(const struct layout *l, unsigned vectors) {
    int64_t least = RUN_LEAST;
    for (int k = 0; k < l->operands; k++) {
        enum layout_access access = access_inner(l, k, vectors);
        if (access == ACCESS_TILE)
            return false;
        if (access == ACCESS_SCALAR)
            least = RUN_SCALAR;
    }
    if (l->axes > 1 && repeats(l, vectors))
        least = RUN_REPEATED;
    return l->axes == 1 || l->axis[l->axes - 1].dim >= least;
}

static bool plan_rows(struct layout *l, unsigned vectors, int64_t most) {
    struct layout_axis *inner = &l->axis[l->axes - 1];
    if (!has_long_runs(l, vectors))
        return false;
    l->mode = LAYOUT_ROWS;
    l->loops = l->axes;
    for (int j = 0; j < l->axes - 1; j++)
        l->axis[j].step = 1;
    int64_t step = RUN_MOST;
    if (inner->dim > RUN_GRAIN && pool_threads() > 1)
        step = MAX_OF(MIN_OF(step, round_up(l->size / (4 * pool_threads()) + 1, 1024)), RUN_GRAIN);
    if (most && most < step)
        step = most;
    inner->step = MIN_OF(step, inner->dim);
    cpu_layout_trim(l);
    for (int k = 0; k < l->operands; k++)
        set_access(l, k, access_inner(l, k, vectors));
    return true;
}

// Returns the axis along which operand k is (nearly) contiguous, if the last axis has a stride of a cache
// line or more; -1: none.
static int line_axis(const struct layout *l, int k) {
    int64_t inner = llabs(l->axis[l->axes - 1].stride[k]), least = inner;
    int found = -1;
    if (inner < LINE)
        return -1;
    for (int j = 0; j < l->axes - 1; j++) {
        int64_t stride = llabs(l->axis[j].stride[k]);
        if (stride && stride < least && stride < LINE && l->axis[j].dim >= 4) {
            least = stride;
            found = j;
        }
    }
    return found;
}

// Returns an earlier input that reads the same elements as input k, as in isnan(x) = (x != x), so that one
// gather serves both; else k.
static int first_like(const struct layout *l, int k) {
    for (int i = l->outputs; i < k; i++) {
        bool same = l->data[i] == l->data[k] && l->item[i] == l->item[k];
        for (int j = 0; same && j < l->axes; j++)
            same = l->axis[j].stride[i] == l->axis[j].stride[k];
        if (same)
            return i;
    }
    return k;
}

static bool plan_block(struct layout *l, unsigned vectors, int64_t most) {
    struct layout_axis *inner = &l->axis[l->axes - 1];
    int row_axis = -1, items = 0, tiled = 0, least = 8;
    for (int k = 0; k < l->operands; k++) {
        int first = first_like(l, k);
        bool shared = first < k && access_inner(l, first, vectors) == ACCESS_TILE;
        if (access_inner(l, k, vectors) == ACCESS_TILE && !shared) {
            items += l->item[k];
            least = MIN_OF(least, l->item[k]);
            tiled++;
        }
        int axis = inner->dim < 4 ? -1 : line_axis(l, k);
        row_axis = axis >= 0 ? axis : row_axis;
    }
    if (row_axis < 0)
        return false;
    l->mode = LAYOUT_BLOCK;
    l->row_axis = row_axis;
    l->loops = l->axes;
    for (int j = 0; j < l->axes - 1; j++)
        l->axis[j].step = 1;
    int64_t rows = MIN_OF(BLOCK_LINE / least, l->axis[row_axis].dim), cols;
    while ((cols = (BLOCK_ROOM / rows - 2 * tiled * LINE) / items / 16 * 16) < 16)
        rows /= 2; // with many operands
    l->axis[row_axis].step = rows;
    inner->step = MIN_OF(MIN_OF(cols, BLOCK_COLS), inner->dim);
    if (most && most < inner->step)
        inner->step = most;
    for (int k = 0; k < l->operands; k++)
        set_access(l, k, access_inner(l, k, vectors));
    return true;
}

static void plan_box(struct layout *l, unsigned vectors, int64_t most) {
    int items = 0;
    for (int k = 0; k < l->operands; k++)
        items += l->item[k];
    int64_t room = MIN_OF(LAYOUT_ROOM / items, BOX_MOST), inner = 1;
    if (most && most < room)
        room = most;
    int first = l->axes - 1;
    while (first > 0 && inner * l->axis[first].dim <= room)
        inner *= l->axis[first--].dim;
    l->mode = LAYOUT_BOX;
    l->loops = first + 1;
    for (int j = 0; j < first; j++)
        l->axis[j].step = 1;
    int64_t step = l->axis[first].step = MAX_OF(MIN_OF(room / inner, l->axis[first].dim), 1);
    first += step == 1;
    for (int k = 0; k < l->operands; k++) {
        enum layout_access access = access_box(l, k, first, vectors);
        int64_t run = access == ACCESS_TILE ? column_run(l, k, first, vectors) : 0;
        if (run && (l->run == 0 || l->run == run)) {
            l->run = run;
            access = ACCESS_RUNS;
        }
        set_access(l, k, access);
    }
}

// Plans a single element as a contiguous run of one, whatever its strides are.
static void plan_one(struct layout *l) {
    l->axes = 1;
    l->axis[0].dim = 1;
    for (int k = 0; k < l->operands; k++)
        l->axis[0].stride[k] = l->item[k];
}

void cpu_layout_plan(struct layout *l, unsigned vectors, int64_t most) {
    l->scalar = l->runs = 0;
    l->run = 0;
    cpu_layout_order(l);
    cpu_layout_merge(l);
    if (l->axes == 0)
        plan_one(l);
    if (!plan_rows(l, vectors, most) && !plan_block(l, vectors, most))
        plan_box(l, vectors, most);
}

// Lines -----------------------------------------------------------------------------------------------------

// Returns how operand k can be accessed in a tile of some rows, which step along the axis before the last.
static enum layout_access access_lines(const struct layout *l, int k, unsigned vectors, bool single) {
    const struct layout_axis *inner = &l->axis[l->axes - 1];
    int64_t outer = l->axes > 1 ? l->axis[l->axes - 2].stride[k] : 0;
    bool same = inner->stride[k] == 0 && !(vectors >> k & 1);
    if (same && (single || outer == l->item[k]))
        return ACCESS_RUNS;
    if (same && outer == 0 && k >= l->outputs)
        return ACCESS_SCALAR;
    bool dense = inner->stride[k] == l->item[k] && (single || outer == inner->dim * l->item[k]);
    return dense ? ACCESS_DIRECT : ACCESS_TILE;
}

bool cpu_layout_plan_lines(struct layout *l, unsigned vectors, int64_t most) {
    cpu_layout_merge_first(l, l->axes - 1);
    int first = MAX_OF(l->axes - 2, 0);
    int64_t line = l->axis[l->axes - 1].dim, bytes = 0;
    int64_t lines = l->axes < 2 ? 1 : MAX_OF(MIN_OF(most / line, l->axis[first].dim), 1);
    l->mode = LAYOUT_BOX;
    l->scalar = l->runs = 0;
    l->run = line;
    l->loops = first + 1;
    for (int j = 0; j < first; j++)
        l->axis[j].step = 1;
    l->axis[first].step = l->axes < 2 ? line : lines;
    for (int k = 0; k < l->operands; k++) {
        set_access(l, k, access_lines(l, k, vectors, lines == 1));
        bytes += l->access[k] == ACCESS_TILE ? lines * line * l->item[k] + LINE : 0;
    }
    return bytes <= BLOCK_ROOM;
}

// Running ---------------------------------------------------------------------------------------------------

struct work {
    layout_body *body;
    const void *context;
    // an input that shows how far the walk is, if all inputs are read sequentially from memory; else -1
    int sequence;
    int64_t ahead; // elements
};

// Returns how many elements after a tile of n are contiguous in all inputs and should be prefetched.
static int64_t count_ahead(const struct layout *l, const struct work *work, char *const *p, int64_t n) {
    const int k = work->sequence;
    return k < 0 ? 0 : MIN_OF(l->size - (p[k] - l->data[k]) / l->item[k] - n, work->ahead);
}

// Calls the body on tiles that are `next` bytes from each other. Only pointers are stored between the calls:
// other stores would make the CPU read the cache lines of the result before it writes them (Neoverse-V1,
// 2026-11: 0.6 of the bandwidth instead of 0.9).
static void run_along(const struct layout *l, const struct work *work, char **p, const int64_t *next,
                      int64_t tiles, int64_t n) {
    for (;;) {
        work->body(work->context, p, n, count_ahead(l, work, p, n));
        if (--tiles == 0)
            return;
        cpu_add_pointers(p, next, l->operands);
    }
}

// Runs tiles that are rows, or pieces of long rows.
static void run_rows(const struct layout *l, struct walk *w, int64_t tiles, const void *context) {
    const int last = l->loops - 1, inner = l->axes - 1;
    for (;;) {
        POINTERS(p, LAYOUT_OPERANDS);
        int64_t run = last < 0 || last == inner ? 1 : MIN_OF(l->axis[last].dim - w->at[last], tiles);
        memcpy(p, w->data, sizeof p);
        run_along(l, context, p, w->next, run, cpu_walk_extent(l, w, inner));
        if ((tiles -= run) == 0)
            return;
        cpu_walk_skip(l, w, run - 1);
        cpu_walk_next(l, w);
    }
}

// The tiles of a thread, which are consecutive in `room`.
struct tiles {
    POINTERS(tile, LAYOUT_OPERANDS);              // NULL: operand k has none
    _Alignas(64) int64_t direct[LAYOUT_OPERANDS]; // all ones: it has none
    const char *from[LAYOUT_OPERANDS];            // the address that a box was gathered from
    int64_t have[LAYOUT_OPERANDS];                // the number of its elements
    bool shared[LAYOUT_OPERANDS];                 // the tile is that of an earlier operand
    _Alignas(64) char room[BLOCK_ROOM + LAYOUT_OPERANDS * LINE];
};

// Assigns each tiled operand a tile of `rows` rows. Rows are one cache line further apart than their length.
static void lay_out_tiles(const struct layout *l, struct tiles *t, int64_t rows, int64_t cols) {
    char *at = t->room;
    for (int k = 0; k < LAYOUT_OPERANDS; k++) {
        bool tiled = k < l->operands && l->access[k] == ACCESS_TILE;
        int first = tiled && k >= l->outputs ? first_like(l, k) : k;
        t->shared[k] = first < k && l->access[first] == ACCESS_TILE;
        t->tile[k] = t->shared[k] ? t->tile[first] : tiled ? at : NULL;
        t->direct[k] = tiled ? 0 : -1;
        t->from[k] = NULL;
        if (tiled && !t->shared[k])
            at += rows * (round_up(cols * l->item[k], LINE) + LINE);
    }
}

// Sets the addresses that row kernels work on: of the data, or of tiles.
static void choose_places(const struct layout *l, const struct walk *w, const struct tiles *t, char **p) {
    const pointer_pair *data = (const pointer_pair *)(const void *)w->data;
    const pointer_pair *tile = (const pointer_pair *)(const void *)t->tile;
    const pointer_pair *direct = (const pointer_pair *)(const void *)t->direct;
    pointer_pair *place = (pointer_pair *)(void *)p;
    for (int k = 0; k < MAX_OF(l->operands, 4); k += 2)
        place[k / 2] = (data[k / 2] & direct[k / 2]) | tile[k / 2];
}

// Copies between a strided box of operand k and its tile, over `count` elements of axis j and all of the axes
// after it. Returns the end of the tile.
static char *move_box(const struct layout *l, int k, int j, int64_t count, char *tile, char *data,
                      bool gather) {
    int64_t item = l->item[k], stride = l->axis[j].stride[k];
    if (j < l->axes - 2) {
        for (int64_t i = 0; i < count; i++)
            tile = move_box(l, k, j + 1, l->axis[j + 1].dim, tile, data + i * stride, gather);
        return tile;
    }
    bool flat = j == l->axes - 1;
    int64_t rows = flat ? 1 : count, cols = flat ? count : l->axis[j + 1].dim;
    struct stride2 dense = {cols * item, item};
    struct stride2 strided = {flat ? 0 : stride, flat ? stride : l->axis[j + 1].stride[k]};
    if (gather)
        cpu_move((size_t)item, tile, dense, data, strided, rows, cols);
    else
        cpu_move((size_t)item, data, strided, tile, dense, rows, cols);
    return tile + rows * cols * item;
}

static void gather_boxes(const struct layout *l, struct walk *w, struct tiles *t, int64_t count) {
    int first = l->loops - 1;
    for (int k = l->outputs; k < l->operands; k++) {
        if (l->access[k] != ACCESS_TILE || t->shared[k])
            continue;
        if (t->from[k] == w->data[k] && t->have[k] >= count)
            continue;
        move_box(l, k, first, count, t->tile[k], w->data[k], true);
        t->from[k] = w->data[k];
        t->have[k] = count;
    }
}

// Returns how many whole tiles, from the current one on, use the same gathered operands, so that they run
// without copies in between; 1 if an output is tiled.
static int64_t count_repeated(const struct layout *l, const struct walk *w, int64_t tiles) {
    const struct layout_axis *a = &l->axis[l->loops - 1];
    for (int k = 0; k < l->operands; k++)
        if (l->access[k] == ACCESS_TILE && (k < l->outputs || w->next[k]))
            return 1;
    return MAX_OF(MIN_OF((a->dim - w->at[l->loops - 1]) / a->step, tiles), 1);
}

static void run_boxes(const struct layout *l, struct walk *w, int64_t tiles, const void *context) {
    struct tiles t;
    POINTERS(p, LAYOUT_OPERANDS);
    int first = l->loops - 1;
    int64_t inner = 1;
    for (int j = first + 1; j < l->axes; j++)
        inner *= l->axis[j].dim;
    lay_out_tiles(l, &t, 1, inner * l->axis[first].step);
    for (;;) {
        int64_t count = cpu_walk_extent(l, w, first), run = count_repeated(l, w, tiles);
        choose_places(l, w, &t, p);
        gather_boxes(l, w, &t, count);
        run_along(l, context, p, w->next, run, count * inner);
        for (int k = 0; k < l->outputs; k++)
            if (l->access[k] == ACCESS_TILE)
                move_box(l, k, first, count, p[k], w->data[k], false);
        if ((tiles -= run) == 0)
            return;
        cpu_walk_skip(l, w, run - 1);
        cpu_walk_next(l, w);
    }
}

// Copies between a block of operand k and its tile. The source is read along its contiguous axis.
static void move_block(const struct layout *l, int k, char *tile, int64_t pitch, char *data, int64_t rows,
                       int64_t cols, bool gather) {
    struct stride2 dense = {l->item[k], pitch};
    struct stride2 strided = {l->axis[l->axes - 1].stride[k], l->axis[l->row_axis].stride[k]};
    if (!gather)
        cpu_move(l->item[k], data, strided, tile, dense, cols, rows);
    else if (strided.col == l->item[k])
        cpu_transpose(l->item[k], tile, pitch, data, strided.row, rows, cols);
    else
        cpu_move(l->item[k], tile, dense, data, strided, cols, rows);
}

static void run_block_rows(const struct layout *l, const struct work *work, char **p, const int64_t *pitch,
                           int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        work->body(work->context, p, cols, 0);
        cpu_add_pointers(p, pitch, l->operands);
    }
}

static void run_blocks(const struct layout *l, struct walk *w, int64_t tiles, const void *context) {
    struct tiles t;
    POINTERS(p, LAYOUT_OPERANDS);
    _Alignas(64) int64_t pitch[LAYOUT_OPERANDS] = {0};
    int inner = l->axes - 1;
    lay_out_tiles(l, &t, l->axis[l->row_axis].step, l->axis[inner].step);
    for (;;) {
        int64_t rows = cpu_walk_extent(l, w, l->row_axis), cols = cpu_walk_extent(l, w, inner);
        choose_places(l, w, &t, p);
        for (int k = 0; k < l->operands; k++) {
            bool tiled = l->access[k] == ACCESS_TILE;
            pitch[k] = tiled ? round_up(cols * l->item[k], LINE) + LINE : l->axis[l->row_axis].stride[k];
            if (tiled && k >= l->outputs && !t.shared[k])
                move_block(l, k, p[k], pitch[k], w->data[k], rows, cols, true);
        }
        run_block_rows(l, context, p, pitch, rows, cols);
        for (int k = 0; k < l->outputs; k++)
            if (l->access[k] == ACCESS_TILE)
                move_block(l, k, t.tile[k], pitch[k], w->data[k], rows, cols, false);
        if (--tiles == 0)
            return;
        cpu_walk_next(l, w);
    }
}

// Returns whether operand k has the elements of the layout contiguously, in order.
static bool is_sequential(const struct layout *l, int k) {
    int64_t expected = l->item[k];
    for (int j = l->axes - 1; j >= 0; j--) {
        if (l->axis[j].stride[k] != expected)
            return false;
        expected *= l->axis[j].dim;
    }
    return true;
}

static int find_sequence(const struct layout *l, int items) {
    int found = -1;
    if (l->mode != LAYOUT_ROWS || l->size * items <= cpu_cache_bytes(3))
        return -1;
    for (int k = l->outputs; k < l->operands; k++) {
        if (l->access[k] == ACCESS_SCALAR)
            continue;
        if (!is_sequential(l, k))
            return -1;
        found = k;
    }
    return found;
}

void cpu_layout_run(const struct layout *l, double weight, layout_body *body, const void *context) {
    static walk_part *const parts[] = {run_rows, run_boxes, run_blocks};
    int items = 0;
    for (int k = 0; k < l->operands; k++)
        items += l->scalar >> k & 1 ? 0 : l->item[k];
    struct work work = {body, context, find_sequence(l, items), CPU_AHEAD / MAX_OF(items, 1)};
    cpu_walk(l, (double)l->size * items * weight, parts[l->mode], &work);
}
