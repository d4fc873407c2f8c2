// kernels_positions.h - places in an array that several arrays of indices give.

#ifndef KERNELS_POSITIONS_H
#define KERNELS_POSITIONS_H

#include "device/kernels/kernels.h"

enum { KERNEL_INDICES = 6 }; // arrays of indices, at most

struct index_list {
    int count;
    zl_array index[KERNEL_INDICES];
    int64_t dim[KERNEL_INDICES], last[KERNEL_INDICES]; // of the axis; the last position that lies inside
    int64_t step[KERNEL_INDICES];                      // of the axis, in elements
    int64_t offset[KERNEL_INDICES];                    // where the indices begin
};

struct index_key { // part of a kernel's key
    int32_t count, dtype[KERNEL_INDICES];
};

bool kernel_indices_lie(const struct call *c, int first, int count); // in memory, and are not too many
struct index_key kernel_index_key(const struct index_list *list);
// struct zl_axes of an array and the indices; INDICES, parameters with a comma behind; PLACE(number), which declares i64 place,
// and bool inside: no index was out of range, else the nearest position is taken.
void kernel_write_places(struct text *out, const struct index_key *key);
// Each element of starts as the index of an axis: that of x along which a slice of so many elements begins.
struct index_list kernel_list_starts(zl_array x, zl_array starts, const int64_t *axes, const int64_t *size);
bool kernel_add_indices(const struct kernel_place *p, struct kernel_call *k, const struct index_list *list);

#endif
