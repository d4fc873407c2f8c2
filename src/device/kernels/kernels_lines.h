// kernels_lines.h - the recipe of a kernel of lines: its key, from which its tile IR is built.

#ifndef KERNELS_LINES_H
#define KERNELS_LINES_H

#include "device/kernels/kernels_group.h"

enum { LINE_REDUCTIONS = 6 };
// The most threads of a workgroup; the fewest of a workgroup in a cluster; the threads of all clusters on a
// multiprocessor, whose registers hold 32 elements and temporaries for each.
enum { LINE_THREADS = 1024, LINE_CLUSTER_LEAST = 256, LINE_CLUSTERS = 1280 };

// Packs of a piece per thread, for stages that read one input and for those that read several: so many loads
// are in flight at once.
enum { LINE_DEEP = 4, LINE_SHALLOW = 2 };

// how an input varies along a line; SAME: not at all
enum line_form { LINE_FLAT = FUSE_FORMS, LINE_STRIDED, LINE_SAME, LINE_VALUE };

struct line_recipe {
    char name[8];                       // sets its key apart from those of other kernels
    int16_t reductions, wide;           // wide: indices have 64 bits
    int16_t rough;                      // all inputs that vary along a line have 16 bits, and all results
    // elements of a pack; packs that a thread holds, or 0 for lines in pieces
    int16_t width, packs;
    int16_t threads, groups;            // threads per workgroup; workgroups per line, which form a cluster
    // lines have exactly as many elements as all threads hold; of lines in pieces: as whole pieces
    int16_t full;
    int16_t reduction[LINE_REDUCTIONS]; // rows of the recipe that reduce
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
// Stages follow each other. The first goes along the line for the reductions that depend on no others, the
// next for those that depend on these, and the last for the results. Values that are expensive and used again
// are kept; the rest is computed again.

// The values that a stage computes, as references, and those that it reads, as bits.
struct line_function {
    int count;
    int16_t wanted[FUSE_CALLS];
    uint32_t inputs, rows; // rows: of one element per line, computed before
    uint32_t inverses;     // rows of one element per line that are divisors
    uint32_t kept;         // rows of elements, computed by earlier stages
};

struct line_plan {
    int levels;                   // stages before the last
    int8_t level[FUSE_CALLS];   // of rows: the stage that computes it; of rows of one element per line: the
                                // first that may read it
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
