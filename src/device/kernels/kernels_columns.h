// kernels_columns.h - what a kernel of columns computes: its key, and all that its tile IR is built from.

#ifndef KERNELS_COLUMNS_H
#define KERNELS_COLUMNS_H

#include "device/kernels/kernels_group.h"

enum { COLUMN_REDUCTIONS = 6 };

// Forms of inputs besides those of every recipe, of which a vector has an element for each of the group: one
// for a row of it, or for a column.
enum column_form { COLUMN_SAME = FUSE_FORMS, COLUMN_ONCE };

// What a kernel of a group does: all of it; all but what comes after the reductions, for the parts of
// columns; or only that, for which it joins the parts.
enum column_stage { COLUMN_WHOLE, COLUMN_PARTS, COLUMN_JOIN };

struct column_recipe {
    char name[8];          // no other kernel has such a key
    int16_t stage;         // enum column_stage
    int16_t width, lanes;  // elements of a pack; threads that share a pack of columns
    int16_t single, wide;  // rows lie along one axis in all inputs; indices have 64 bits
    int16_t reductions;
    int16_t reduction[COLUMN_REDUCTIONS]; // rows
    struct fuse_recipe f;
};

static inline const struct fuse_op *column_reduction(const struct column_recipe *r, int k) {
    return &r->f.row[r->reduction[k]];
}

// the dtype that a reduction is computed in
static inline zl_dtype column_sum(const struct column_recipe *r, int k) {
    return tile_reduce_gives((zl_dtype)column_reduction(r, k)->from);
}

// kernels_columns_build.c -----------------------------------------------------------------------------------

// Returns whether an input is a parameter of the recipe's stage.
bool column_reads(const struct column_recipe *r, int input);
// Returns whether an output is a parameter of the recipe's stage.
bool column_writes(const struct column_recipe *r, int output);
// Builds the kernel of a struct column_recipe, as a kernel_maker, or returns NULL and an error. Its
// parameters are, of those that its stage has: the parts of each reduction to be joined, the inputs, a table
// of the axes of rows and the strides of inputs, a table of the positions of inputs (vectors: in packs), the
// outputs, and the parts of each reduction. Its symbols are the packs of columns, the rows, the parts, the
// rows per part, `inner` of tile_walk, and the elements of each input that is in memory.
struct tile_kernel *column_build(const void *recipe);

#endif
