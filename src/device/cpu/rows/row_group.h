// row_group.h - calls that run as one pass over memory: what is known of them while they are found, bound and
// run.
//
// The calls of a group compute elements of one shape. Once one of them reduces the last axis, the group works
// on lines: some calls compute one element for each line, which later ones read again for all its elements. A
// matrix product may come first: the others then run on each part of it, on the thread that made it.

#ifndef ROW_GROUP_H
#define ROW_GROUP_H

#include "device/cpu/gemm/product.h"
#include "device/cpu/rows/operands.h"
#include "device/cpu/rows/reduce.h"

enum {
    GROUP_LEAST = 8192, // elements from which it pays
    // results at once that nothing but the group reads; as many again with one element a line
    GROUP_TEMPS = 16,
    ROW_OPERANDS = 4,   // output and inputs
};

struct row {
    bool has_runs; // an operand has one element for a run of the others
    // Where it finds its operands: operand of the layout, or temporary -1 - at; those of lines are the later
    // ones.
    int8_t at[ROW_OPERANDS];
    row_fn *fn;
    struct reduce_rows by; // ROW_REDUCE
};

// Rows of elements without another kind between them, as one compiled kernel.
enum { STRETCH_OPERANDS = FUSE_OPERANDS };
struct stretch {
    int begin, end; // calls
    row_fn *fn;
    bool has_runs;
    int operands;
    int8_t at[STRETCH_OPERANDS]; // as struct row's: outputs, then inputs
    bool reduces;                     // the last row is a reduction: the kernel computes one line
    int32_t next[STRETCH_OPERANDS];   // then, bytes from line to line
};

struct group {
    struct fuse_group f;
    const struct program *p;
    struct binding *b;
    struct row row[FUSE_CALLS];
    int temps, line_temps;
    struct {
        int until; // call that reads it last
        uint8_t item;
    } temp[2 * GROUP_TEMPS];
    int temp_item; // bytes of the largest element of temps
    struct product_parts parts; // of the product
    struct layout l;
    zl_array external[LAYOUT_OPERANDS]; // by operand; NULL: an output
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

// Returns how many of its calls run in compiled kernels.
static inline int group_compiled(const struct group *g) {
    int calls = 0;
    for (int i = 0; i < g->stretches; i++)
        calls += g->stretch[i].end - g->stretch[i].begin;
    return calls;
}

// row_group.c -----------------------------------------------------------------------------------------------

// Prepares a group that begins at a call of a program.
void row_group_begin(struct group *g, const struct program *p, struct binding *b, int index);
// Finds its end, rows, what is stored and where temporaries lie. Returns false if no group pays. Appends to
// *why, unless why is NULL, what ended or prevented it.
bool row_group_find(struct group *g, struct text *why);

// row_program.c ---------------------------------------------------------------------------------------------

// Plans how a bound group runs. Returns the body that computes a tile of it, for cpu_layout_run().
layout_body *row_group_plan(struct group *g);

// row_product.c ---------------------------------------------------------------------------------------------

// Runs a bound group that has a product. Returns false, with an error, if memory runs out.
bool row_group_run_product(struct group *g, double weight);

// row_kernel.c ----------------------------------------------------------------------------------------------

// Finds the stretches of a bound and planned group for which there is a compiled kernel, and has those
// compiled that have run often enough. Returns whether one of them is the whole group.
bool row_group_find_kernels(struct group *g);

#endif
