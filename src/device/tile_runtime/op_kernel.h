// op_kernel.h - calls of ops that have a kernel in src/kernel/ (op->kernel), as devices launch them.

#ifndef OP_KERNEL_H
#define OP_KERNEL_H

#include "op/op.h"
#include "pass/pass.h"

struct op_launch {
    struct op_key { // facts that the kernel depends on; padded with zeros
        char file[32], clauses[256], smaller[32];
        int64_t bits; // of indices
    } key;
    int inputs, values;
    zl_array in[OP_KERNEL_INPUTS];
    struct op_kernel_value value[OP_KERNEL_VALUES];
    int symbols;
    int64_t symbol[OP_KERNEL_SIZES + 2 * OP_KERNEL_INPUTS];
};
// Describes the launch of a call whose op has a kernel.
void device_op_launch_open(struct op_launch *l, const struct call *c);
// Returns the kernel of a key (struct op_key), which the caller owns, or NULL and an error.
struct tile_kernel *device_op_launch_kernel(const void *key);

// A kernel for workgroups: its key, and the record of the unit that it is for.
struct op_choice {
    const struct op_key *key;
    const struct target *target;
};
// Returns the kernel of a struct op_choice, with the smaller clauses if it does not fit the unit otherwise,
// or NULL and an error. The caller owns it.
struct tile_kernel *device_op_choice_kernel(const void *choice);

// The most elements of arrays for kernels with 32-bit indices: threads past the end count beyond it.
enum { KERNEL_NARROW = INT32_MAX - (1 << 20) };
// Returns how many elements the memory of an array has, that is, the size of a kernel's buffer: 1 for an
// inline scalar, 0 as long as there is no memory.
int64_t kernel_elements(zl_array x);

#endif
