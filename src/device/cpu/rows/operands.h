// operands.h - operands of any layout, for row kernels, which take only contiguous runs and scalars.
//
// A struct layout describes operands over one shape. It is divided into tiles on which row kernels can work,
// and a walk visits the tiles, on one thread or several. Copies between layouts are here too.

#ifndef OPERANDS_H
#define OPERANDS_H

#include "device/cpu/cpu.h"

// tiling.c --------------------------------------------------------------------------------------------------

enum {
    LAYOUT_AXES = 60,        // an array has fewer than 2^60 elements, so at most 60 axes are longer than 1
    LAYOUT_OPERANDS = 16,    // outputs first
    LAYOUT_ROOM = 32768,     // bytes of all tiles of a thread, which stay in L1
    LAYOUT_GATHERED = 73728, // bytes of the tiles of blocks and rows, which are partly in L2
    LAYOUT_LINE = 64,        // bytes of a cache line
    // bytes of traffic below which one thread is faster than two (Neoverse-V1, 2026-11)
    CPU_SPLIT = 262144,
    // How many bytes ahead of the computation data is prefetched. Without prefetching, one stream of reads
    // reaches 55 GB/s per core instead of 73; 4 KB and 8 KB are worse (Neoverse-V1, 2026-11).
    CPU_AHEAD = 16384,
};

// Marks functions whose loops GCC vectorises only at -O3.
#if defined(__clang__)
#define CPU_VECTORS
#else
#define CPU_VECTORS __attribute__((optimize("O3")))
#endif

// A row kernel reads its pointers in pairs, just after they were written. A pair that was not written as one
// 16-byte store is delayed by 10 ns or more, because the store cannot be forwarded (Neoverse-V1, 2026-11). So
// lists of pointers are aligned and updated in pairs.
typedef int64_t pointer_pair __attribute__((vector_size(16), may_alias));
#define POINTERS(name, count) _Alignas(64) char *name[count]

// Applies a row kernel to n elements, with the output and up to three inputs; unused ones are NULL.
static inline void cpu_call_row(row_fn *row, const void *to, const void *a, const void *b, const void *c,
                                int64_t n) {
    POINTERS(p, 4) = {(char *)(uintptr_t)to, (char *)(uintptr_t)a, (char *)(uintptr_t)b,
                      (char *)(uintptr_t)c};
    row(p, n, n);
}

// Adds by[k] to to[k] for `count` pointers; if count is odd, for one more: the lists must have space for it.
static inline void cpu_add_pointers(char **to, const int64_t *by, int count) {
    pointer_pair *pair = (pointer_pair *)(void *)to;
    for (int k = 0; k < count; k += 2)
        pair[k / 2] += ((const pointer_pair *)(const void *)by)[k / 2];
}

struct layout_axis {
    int64_t dim, step;               // elements, and how many of them a tile has
    int64_t stride[LAYOUT_OPERANDS]; // bytes
};

enum layout_mode {
    // a tile is a piece of the last axis, which is long; every operand is contiguous or constant along it
    LAYOUT_ROWS,
    LAYOUT_BOX,   // a tile is a box of the last axes, treated as one run
    LAYOUT_BLOCK, // a tile is a rectangle of row_axis and the last axis, because some operand is transposed
};

enum layout_access {
    ACCESS_DIRECT, // row kernels work on the operand in place
    ACCESS_SCALAR, // one element serves for the whole tile
    ACCESS_RUNS,   // each element serves for a run of the tile
    ACCESS_TILE,   // the operand is gathered into a tile before, or scattered from one after
};

// Operands over one shape. Use cpu_layout_start, then cpu_layout_add for each operand, then cpu_layout_plan.
// Owns no memory.
struct layout {
    int axes, operands, outputs;
    int loops;    // the number of leading axes along which the walk steps
    int row_axis; // LAYOUT_BLOCK
    enum layout_mode mode;
    unsigned scalar; // bit k: operand k is ACCESS_SCALAR or ACCESS_RUNS
    unsigned runs;   // bit k: operand k is ACCESS_RUNS
    int64_t run;     // elements for which one element of an ACCESS_RUNS operand serves
    int64_t size;    // elements
    char *data[LAYOUT_OPERANDS];
    uint8_t item[LAYOUT_OPERANDS]; // bytes of an element
    uint8_t access[LAYOUT_OPERANDS];
    int origin[LAYOUT_AXES]; // the original axis, counted from the last
    struct layout_axis axis[LAYOUT_AXES];
};

// Begins a layout over a shape, whose axes of size 1 are left out. The first `outputs` operands are outputs.
void cpu_layout_start(struct layout *l, int ndim, const int64_t *dim, int outputs);
// Adds an operand. Strides are in elements; axes that are missing or of size 1 are broadcast.
void cpu_layout_add(struct layout *l, const void *data, size_t item, int ndim, const int64_t *dim,
                    const int64_t *stride);
// Sorts axes by the strides of the first operand, the innermost last.
void cpu_layout_order(struct layout *l);
// Merges adjacent axes that are one axis in all operands.
void cpu_layout_merge(struct layout *l);
// Merges such axes only among the first `axes` ones.
void cpu_layout_merge_first(struct layout *l, int axes);
// Reduces the layout to a rectangle of the last two axes, which are longer than 1, at one position of the
// axes before them. That position, `before`, is counted in row-major order.
void cpu_layout_crop(struct layout *l, int64_t before, const int64_t from[2], const int64_t size[2]);
// Removes trailing axes that a tile covers completely from the walk.
void cpu_layout_trim(struct layout *l);

// The state of a walk: position and addresses of the tile's first element.
struct walk {
    POINTERS(data, LAYOUT_OPERANDS);             // unused ones are NULL
    _Alignas(64) int64_t next[LAYOUT_OPERANDS]; // bytes to the next tile along the last looped axis
    int64_t at[LAYOUT_AXES];
};
// Sets w to a tile, counted in the order of the walk.
void cpu_walk_to(const struct layout *l, struct walk *w, int64_t tile);
// Moves to the next tile when the last looped axis is at its end.
void cpu_walk_wrap(const struct layout *l, struct walk *w);

// Moves to the next tile.
static inline void cpu_walk_next(const struct layout *l, struct walk *w) {
    int last = l->loops - 1;
    if (UNLIKELY(w->at[last] + l->axis[last].step >= l->axis[last].dim)) {
        cpu_walk_wrap(l, w);
        return;
    }
    w->at[last] += l->axis[last].step;
    cpu_add_pointers(w->data, w->next, l->operands);
}

// Skips tiles, all of them along the last looped axis.
static inline void cpu_walk_skip(const struct layout *l, struct walk *w, int64_t tiles) {
    if (tiles == 0)
        return;
    w->at[l->loops - 1] += tiles * l->axis[l->loops - 1].step;
    for (int k = 0; k < l->operands; k++)
        w->data[k] += w->next[k] * tiles;
}

// Returns the elements of the current tile along an axis.
static inline int64_t cpu_walk_extent(const struct layout *l, const struct walk *w, int axis) {
    int64_t step = l->axis[axis].step, left = l->axis[axis].dim - w->at[axis];
    return MIN_OF(step, left);
}

// Processes `tiles` tiles from w on, and calls cpu_walk_next in between.
typedef void walk_part(const struct layout *l, struct walk *w, int64_t tiles, const void *context);
// Calls part() for all tiles, split over threads if the traffic, in bytes, is worth it.
void cpu_walk(const struct layout *l, double traffic, walk_part *part, const void *context);

// Calls fn(context, from, to) on pieces of [0, count) of at least `grain`, on several threads; on this thread
// if there is one piece.
void cpu_split(int64_t count, int64_t grain, void (*fn)(const void *context, int64_t from, int64_t to),
               const void *context);

// layout.c --------------------------------------------------------------------------------------------------

// Decides how the layout is divided into tiles and how operands are accessed. `vectors`: the operands that
// must not be scalars; `most`: how many elements a body accepts at once (0: any number).
void cpu_layout_plan(struct layout *l, unsigned vectors, int64_t most);

// Does the same for a body that takes whole rows of the last axis, at most `most` elements or one row.
// Operands with one element per row are ACCESS_RUNS, outputs too. Returns false if tiles of such rows do not
// fit.
bool cpu_layout_plan_lines(struct layout *l, unsigned vectors, int64_t most);

// Computes n elements. p[k] is operand k, contiguous, or a single element if bit k of the plan's `scalar` is
// set; p has at least four entries, of which unused ones are NULL. In all inputs `more` elements follow,
// which should be prefetched.
typedef void layout_body(const void *context, char *const *p, int64_t n, int64_t more);
// Calls body for all tiles of a planned layout, split over threads if that is worth it. weight: the cost of
// an element, in units of moving it.
void cpu_layout_run(const struct layout *l, double weight, layout_body *body, const void *context);

// gather.c, transpose.c -------------------------------------------------------------------------------------

struct stride2 { int64_t row, col; };
// Copies rows x cols elements of `item` bytes (1, 2, 4 or 8); strides are in bytes.
void cpu_move(size_t item, char *to, struct stride2 to_stride, const char *from, struct stride2 from_stride,
              int64_t rows, int64_t cols);
// Does the same if rows of `to` and columns of `from` are contiguous.
void cpu_transpose(size_t item, char *to, int64_t to_row, const char *from, int64_t from_col, int64_t rows,
                   int64_t cols);
// Fills `count` elements with one value.
void cpu_fill(size_t item, char *to, const char *value, int64_t count);

// copy.c ----------------------------------------------------------------------------------------------------

// Copies between any two layouts of one shape; strides are in elements.
void cpu_copy(size_t item, int ndim, const int64_t *dim, void *to, const int64_t *to_stride, const void *from,
              const int64_t *from_stride);

// Copies the first input of an op, which changes only a part of it, to the output, unless the output took
// over its memory. Returns the address of the output's element 0.
static inline char *cpu_copy_input(const struct call *c) {
    zl_array x = c->in[0], out = call_first(c);
    union scalar room;
    const char *from = array_data(x, &room);
    char *to = cpu_data(out);
    if (to != from) // else the output took over the memory
        cpu_copy(array_item(out), out->ndim, out->dim, to, array_stride(out), from, array_stride(x));
    return to;
}

#endif
