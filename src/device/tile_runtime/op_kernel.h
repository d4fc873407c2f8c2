// op_kernel.h - calls of ops that have a kernel in src/kernel/ (op->kernel), as devices launch them.

#ifndef OP_KERNEL_H
#define OP_KERNEL_H

#include "op/op.h"

struct op_launch {
    struct op_key { // what the kernel depends on; padded with zeros
        char file[32], clauses[256];
        int64_t bits; // of indices
    } key;
    int inputs, values;
    zl_array in[OP_KERNEL_INPUTS];
    struct op_kernel_value value[OP_KERNEL_VALUES];
    int symbols;
    int64_t symbol[OP_KERNEL_SIZES + 2 * OP_KERNEL_INPUTS];
};
void op_launch_open(struct op_launch *l, const struct call *c);
// The kernel of a key (struct op_key). The caller owns it; NULL and an error.
struct tile_kernel *op_launch_kernel(const void *key);

// Kernels whose indices have 32 bits take arrays of so many elements at most: threads past the end count on.
enum { KERNEL_NARROW = INT32_MAX - (1 << 20) };
// How many elements the memory of an array has, which its indices are below: the size of a kernel's buffer. 0
// while there is none.
int64_t kernel_elements(zl_array x);

#endif
