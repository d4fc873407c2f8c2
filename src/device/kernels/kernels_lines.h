// kernels_lines.h - what a kernel of lines computes: its key, and all that its tile IR is built from.

#ifndef KERNELS_LINES_H
#define KERNELS_LINES_H

#include "device/kernels/kernels_group.h"

enum { LINE_REDUCTIONS = 6 };
// Threads of a group, at most; of a group of a cluster, at least; of clusters that a multiprocessor has at
// once: registers for 32 numbers and the rest each.
enum { LINE_THREADS = 1024, LINE_CLUSTER_LEAST = 256, LINE_CLUSTERS = 1280 };

// Packs of a piece that a thread has, where one input is read and where several are: so many are under way at
// once.
enum { LINE_DEEP = 4, LINE_SHALLOW = 2 };

// along a line; SAME: one element
enum line_form { LINE_FLAT = FUSE_FORMS, LINE_STRIDED, LINE_SAME, LINE_VALUE };

struct line_recipe {
    char name[8];                       // no other kernel has such a key
    int16_t reductions, wide;           // wide: indices have 64 bits
    int16_t rough;                      // all that varies along a line has 16 bits, as have results
    // elements of a pack; packs that a thread holds, 0: it goes along the line
    int16_t width, packs;
    int16_t threads, groups;            // of a line: in each group, and groups, which are a cluster
    // lines are as long as what all threads hold; of lines in pieces: they are whole pieces
    int16_t full;
    int16_t reduction[LINE_REDUCTIONS]; // rows
    struct fuse_recipe f;
};

static inline const struct fuse_op *line_row(const struct line_recipe *r, int row) {
    return &r->f.row[row];
}

static inline zl_dtype line_dtype(const struct line_recipe *r, int row) {
    return (zl_dtype)line_row(r, row)->dtype;
}

static inline bool line_input_varies(const struct line_recipe *r, int input) { // along a line
    return fuse_form(&r->f, input) <= LINE_STRIDED;
}

// kernels_lines_plan.c --------------------------------------------------------------------------------------
//
// Stages follow each other: one goes along the line for the reductions that need none before them, the next
// for those that need these, the last for the results. What costs much and is used again is kept; the rest is
// computed anew.

// What a stage computes, as references, and what it takes, as bits.
struct line_function {
    int count;
    int16_t wanted[FUSE_CALLS];
    uint32_t inputs, rows; // rows: of lines, computed before
    uint32_t inverses;     // rows of one element a line that are divided by
    uint32_t kept;         // rows of elements, computed in earlier stages
};

struct line_plan {
    int levels;                   // stages before the last
    int8_t level[FUSE_CALLS];   // of rows: the stage that computes it, or after whose predecessor it is known
    uint32_t kept, rows, inverse; // of all stages
    struct line_function stage[LINE_REDUCTIONS + 1];
};

// Decides which stage computes what.
void line_plan(const struct line_recipe *r, struct line_plan *out);
// Returns the index in r->reduction of the reduction that a row is, or -1 if it is none.
int line_reduction(const struct line_recipe *r, int row);
// Returns whether a row is an f32 division by one number per line, which is a multiplication by its inverse
// with a correction.
bool line_divides(const struct line_recipe *r, int row);
// Returns whether its reductions are those of a softmax in f32: the maximum, and the sum of the exponentials
// of the differences from it.
bool line_is_softmax(const struct line_recipe *r);

// kernels_lines_build.c: what a kernel of lines is built from.
struct line_maker {
    const struct line_recipe *r;
    const struct target *target;
};
// Builds the kernel of a struct line_maker, as a kernel_maker, or returns NULL and an error.
struct tile_kernel *line_build(const void *maker);

#endif
