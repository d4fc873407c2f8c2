// kernels_columns.h - the recipe of a kernel of columns: its key, from which its tile IR is built.

#ifndef KERNELS_COLUMNS_H
#define KERNELS_COLUMNS_H

#include "device/kernels/kernels_group.h"

enum { COLUMN_REDUCTIONS = 6 };

// Forms of inputs besides those of every recipe (a vector has one element per element of the group): one
// element per row, or one per column.
enum column_form { COLUMN_SAME = FUSE_FORMS, COLUMN_ONCE };

// What a kernel computes of a group: all of it; for parts of columns, all except the ops after the
// reductions; or only those ops, after joining the parts.
enum column_stage { COLUMN_WHOLE, COLUMN_PARTS, COLUMN_JOIN };

struct column_recipe {
    char name[8];          // sets its key apart from those of other kernels
    int16_t stage;         // enum column_stage
    int16_t width, lanes;  // elements of a pack; threads that share a pack of columns
    int16_t single, wide;  // rows lie along one axis in all inputs; indices have 64 bits
    int16_t reductions;
    int16_t reduction[COLUMN_REDUCTIONS]; // rows of the recipe that reduce
    struct fuse_recipe f;
};

static inline const struct fuse_op *column_reduction(const struct column_recipe *r, int k) {
    return &r->f.row[r->reduction[k]];
}

// Returns the dtype that a reduction is computed in.
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
