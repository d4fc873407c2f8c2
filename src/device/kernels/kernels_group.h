// kernels_group.h - calls that become one kernel, while they are found, written and run.

#ifndef KERNELS_GROUP_H
#define KERNELS_GROUP_H

#include "device/kernels/kernels.h"

struct kernel_group {
    struct fuse_group f;
    const struct kernel_place *place; // where it runs
    int inputs;
    zl_array input[KERNEL_OPERANDS];
    zl_dtype dtype[KERNEL_OPERANDS]; // as they are read
    // GROUP_ITSELF; or the dtype of a number, given by value, whose inverse is read
    int inverse_of[KERNEL_OPERANDS];
};

enum { GROUP_ITSELF = -1 };
// Elements of a line from which a kernel of lines pays; how many lines there must be, because fewer leave
// most of a device idle; and elements of a line up to which even one line pays: a group of threads reads it
// in about the time of a launch, and a launch less is saved.
enum { GROUP_LINE_LEAST = 128, GROUP_LINES_LEAST = 32, GROUP_LINE_SHORT = 1 << 14 };

// The recipe of the group, and its inputs; divide: see struct fuse_writer. False: there are too many
// operands.
bool kernel_group_write(struct kernel_group *g, struct fuse_recipe *r,
                        int (*divide)(const struct fuse_writer *w, int index));

bool kernel_group_add_outputs(const struct kernel_place *p, struct kernel_call *k,
                              const struct kernel_group *g);
// Adds the memory of an input, or its value. False and an error.
bool kernel_group_add_input(const struct kernel_place *p, struct kernel_call *k, const struct kernel_group *g,
                            int at);

// Runs the group, or, for a batch, only looks for its kernels. Returns how many calls there were.
int kernel_group_run(struct kernel_group *g, struct binding *b, fuse_body *body,
                     const struct kernel_place *p);

#endif
