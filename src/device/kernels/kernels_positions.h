// kernels_positions.h - places in an array that several arrays of indices give.

#ifndef KERNELS_POSITIONS_H
#define KERNELS_POSITIONS_H

#include "device/kernels/kernels.h"

enum { KERNEL_INDICES = 6 }; // arrays of indices, at most

// What kernels know of an array of indices: where it begins; of its axis the size, the last position that
// lies inside, and the step, in elements.
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

// A kernel of places computes the place that each entry of the indices gives, as u32 or, if it is wide, as
// u64: all ones where an index is out of range, unless it moves, that is, clamps indices into their axis. One
// that gathers reads an array there. One that puts writes an array, row-major, to these places of its result,
// whose number of elements is its last size. Its parameters are that array, if there is one, those of
// kernel_add_indices, and the result; its sizes are the number of entries, the elements of the array and the
// position of the first, and those of kernel_add_indices.
struct place_recipe {
    char name[8]; // no other kernel has such a key
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
