// kernels_positions.h - positions in an array that are given by several arrays of indices.

#ifndef KERNELS_POSITIONS_H
#define KERNELS_POSITIONS_H

#include "device/kernels/kernels.h"

enum { KERNEL_INDICES = 6 }; // the most arrays of indices

// The numbers that a kernel receives for an array of indices: its offset, and, of the axis that it indexes,
// the size, the last valid position, and the stride.
enum { INDEX_OFFSET, INDEX_DIM, INDEX_LAST, INDEX_STEP, INDEX_ROWS };
struct index_list {
    int count;
    zl_array index[KERNEL_INDICES];
    int64_t of[INDEX_ROWS][KERNEL_INDICES];
};

struct index_key { // part of a kernel's key
    int32_t count, dtype[KERNEL_INDICES];
};

// Returns the part of a kernel's key that a list of indices is.
struct index_key kernel_index_key(const struct index_list *list);

// The key of a kernel that computes the position which each entry of the indices gives, as u32 or, if it is
// wide, as u64. If an index is out of range, all bits of the position are set, unless the kernel `moves`,
// that is, clamps indices into their axis. A kernel that `gathers` reads an array at the positions. A kernel
// that `puts` writes a row-major array to these positions of its result, the number of whose elements is its
// last size. Its parameters are that array, if there is one, those of kernel_add_indices, and the result. Its
// sizes are the number of entries, the elements and the offset of the array, and those of kernel_add_indices.
struct place_recipe {
    char name[8]; // sets its key apart from those of other kernels
    int32_t wide, moves;
    int32_t gathers, puts, word; // word: kernel_word of the array
    struct index_key key;
};
// Builds the kernel of a struct place_recipe, as a kernel_maker, or returns NULL and an error.
struct tile_kernel *kernel_make_places(const void *recipe);
// Returns whether the indices, or positions in the layout, need more than 31 bits.
bool kernel_indices_are_wide(const struct kernel_layout *l, const struct index_list *list);
// Appends an array of indices, from `offset` on, for an axis of x along which slices of so many elements
// begin.
void kernel_list_index(struct index_list *list, zl_array x, int64_t axis, int64_t size, zl_array index,
                       int64_t offset);
// Returns the list of indices for these axes of x, along which slices of size[axis] elements begin, and sets
// l to the axes that all indices have; its operands are x, without strides, then the indices.
struct index_list kernel_list_indices(zl_array x, int count, const zl_array *index, const int64_t *axes,
                                      const int64_t *size, struct kernel_layout *l);
// Returns a list in which each element of `starts` is the index for one of these axes of x, along which a
// slice of size[axis] elements begins.
struct index_list kernel_list_starts(zl_array x, zl_array starts, const int64_t *axes, const int64_t *size);
// Appends arguments and sizes for indices, whose axes are those of the layout; its operands are the array,
// then the indices.
void kernel_add_indices(struct kernel_work *w, const struct kernel_layout *l, const struct index_list *list);
// Writes x, which is row-major, over the part of the call's result that begins at the indices. Returns false,
// with an error, if that fails.
bool kernel_put_slice(const struct kernel_place *p, const struct call *c, zl_array x,
                      const struct index_list *list);

#endif
