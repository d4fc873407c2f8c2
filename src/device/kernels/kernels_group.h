// kernels_group.h - groups of calls that become one kernel, while they are found, written and run.

#ifndef KERNELS_GROUP_H
#define KERNELS_GROUP_H

#include "device/kernels/kernels.h"

struct kernel_group {
    struct fuse_group f;
    const struct kernel_place *place; // where it runs
    int inputs;
    zl_array input[KERNEL_OPERANDS];
    zl_dtype dtype[KERNEL_OPERANDS]; // the dtypes that they are read as
    // GROUP_ITSELF or, of a scalar whose inverse is read, its dtype
    int inverse_of[KERNEL_OPERANDS];
};

enum { GROUP_ITSELF = -1 };
// The least elements of a line for which a kernel of lines pays; the least number of lines, because fewer
// leave most of a device idle; and the most elements for which even one line pays: a workgroup reads it in
// about the time of a launch, and one launch is saved.
enum { GROUP_LINE_LEAST = 128, GROUP_LINES_LEAST = 32, GROUP_LINE_SHORT = 1 << 14 };

// Writes the recipe of the group to *r and finds its inputs; `divide` is that of struct fuse_writer. Returns
// false, without an error, if there are too many operands.
bool kernel_group_write(struct kernel_group *g, struct fuse_recipe *r,
                        int (*divide)(const struct fuse_writer *w, int index));

// Appends the memory of the group's outputs. Returns false, with an error, if that fails.
bool kernel_group_add_outputs(const struct kernel_place *p, struct kernel_call *k,
                              const struct kernel_group *g);
// Appends the memory of an input, or its value if it is an inline scalar. Returns false, with an error, if
// that fails.
bool kernel_group_add_input(const struct kernel_place *p, struct kernel_call *k, const struct kernel_group *g,
                            int at);

// Runs the group by body, or only calls body if kernels are collected. Returns how many calls the group has.
int kernel_group_run(struct kernel_group *g, struct binding *b, fuse_body *body,
                     const struct kernel_place *p);

#endif
