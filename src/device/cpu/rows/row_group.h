// row_group.h - groups of calls that run as one pass over memory: the data with which they are found, bound
// and run.
//
// The calls of a group compute elements of one shape. Once one of them reduces the last axis, the group works
// on rows: some calls compute one element per row, which later calls read for all elements of the row. A
// matrix product may come first: the other calls then run on each part of it, on the thread that computed the
// part.

#ifndef ROW_GROUP_H
#define ROW_GROUP_H

#include "device/cpu/gemm/product.h"
#include "device/cpu/rows/operands.h"
#include "device/cpu/rows/reduce.h"

enum {
    GROUP_LEAST = 8192, // elements from which on a group pays
    // temporaries for results that only the group reads; as many again for results with one element per row
    GROUP_TEMPS = 16,
    ROW_OPERANDS = 4,   // output and inputs
};

struct row {
    bool has_runs; // some operand has one element per run of the others
    // Where the operands are: operand `at` of the layout, or temporary -1 - at; the temporaries with one
    // element per row come last.
    int8_t at[ROW_OPERANDS];
    row_fn *fn;
    struct reduce_rows by; // ROW_REDUCE
};

// Consecutive elementwise rows that run as one compiled kernel.
enum { STRETCH_OPERANDS = FUSE_OPERANDS };
struct stretch {
    int begin, end; // calls
    row_fn *fn;
    bool has_runs;
    int operands;
    int8_t at[STRETCH_OPERANDS]; // as in struct row: outputs, then inputs
    bool reduces;                     // the last row is a reduction: the kernel computes one row per call
    int32_t next[STRETCH_OPERANDS];   // if it does, bytes from row to row
};

struct group {
    struct fuse_group f;
    const struct program *p;
    struct binding *b;
    struct row row[FUSE_CALLS];
    int temps, line_temps;
    struct {
        int until; // last call that reads it
        uint8_t item;
    } temp[2 * GROUP_TEMPS];
    int temp_item; // bytes of the largest element of the temporaries
    struct product_parts parts; // of the product
    struct layout l;
    zl_array external[LAYOUT_OPERANDS]; // by operand of the layout; NULL: an output
    union scalar room[LAYOUT_OPERANDS];
    int64_t tile; // elements
    struct stretch stretch[FUSE_CALLS / 2];
    int stretches;
};

// Returns the row of a call, by its index in the program.
static inline struct row *group_row(struct group *g, int index) {
    return &g->row[index - g->f.begin];
}

// Returns whether the group begins with a matrix product.
static inline bool group_has_product(const struct group *g) {
    return g->f.row[0].kind == ROW_PRODUCT;
}

// Returns how many calls of the group run in compiled kernels.
static inline int group_compiled(const struct group *g) {
    int calls = 0;
    for (int i = 0; i < g->stretches; i++)
        calls += g->stretch[i].end - g->stretch[i].begin;
    return calls;
}

// row_group.c -----------------------------------------------------------------------------------------------

// Prepares a group that begins at a call of a program.
void row_group_begin(struct group *g, const struct program *p, struct binding *b, int index);
// Finds the end of the group, its rows, which results are stored, and the temporaries. Returns false if a
// group does not pay. If why is not NULL, appends what ended or prevented the group.
bool row_group_find(struct group *g, struct text *why);

// row_program.c ---------------------------------------------------------------------------------------------

// Plans how a bound group runs. Returns the body that computes a tile of it, for cpu_layout_run().
layout_body *row_group_plan(struct group *g);

// row_product.c ---------------------------------------------------------------------------------------------

// Runs a bound group that begins with a matrix product. Returns false, with an error, if memory runs out.
bool row_group_run_product(struct group *g, double weight);

// row_kernel.c ----------------------------------------------------------------------------------------------

// Finds the stretches of a bound and planned group that have a compiled kernel, and queues those for
// compilation that have run often enough. Returns whether one stretch is the whole group.
bool row_group_find_kernels(struct group *g);

#endif
