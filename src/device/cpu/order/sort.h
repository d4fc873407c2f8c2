// sort.h - keys, by which elements are sorted, searched and selected.
//
// A key is an unsigned number in the order of the elements: the bits of a dtype, mapped so that NaN is the
// largest. Keys of elements of up to 4 bytes are uint32, others are uint64.

#ifndef SORT_H
#define SORT_H

#include "device/cpu/cpu.h"

enum { SORT_BLOCK = 256 }; // keys that are made at once if they are not all stored

struct sort_order {
    void (*load)(const char *from, int64_t n, void *key);
    void (*store)(const void *key, int64_t n, char *to); // NULL: keys cannot be converted back
    uint64_t minus_zero; // the key of -0, which is one less than that of 0. 0: the dtype has no -0
    bool is_long;        // keys are uint64
};
// Returns how elements of a dtype are converted to keys, and keys to elements.
const struct sort_order *cpu_sort_order(zl_dtype dtype);
// Makes keys as o->load does, but gives -0 the key of 0, so that equal elements have equal keys.
void cpu_sort_load_equal(const struct sort_order *o, const char *from, int64_t n, void *key);

// sort_digits.c: sorts items by some of their bits; equal items stay in order.
struct sort_keyed { // a key of 8 bytes and its original position
    uint64_t key, position;
};
enum sort_item { SORT_U32, SORT_U64, SORT_KEYED };
struct sort_job {
    enum sort_item item;
    void *a, *room; // the items, and space for as many
    int64_t n;
    int first;   // lowest bit of the key, which includes all bits above
    bool shared; // by all threads
};
// Sorts the items. Returns where they are afterwards, a or room, or NULL and an error if memory runs out.
void *cpu_sort_items(const struct sort_job *job);

// sort_short.c ----------------------------------------------------------------------------------------------

enum { SORT_LANES = 16, SORT_SHORT = 256 }; // the most items per row for which cpu_sort_lanes is faster
// Sorts SORT_LANES rows of n items each; item i of row k is a[i * SORT_LANES + k]. Does not support
// SORT_KEYED.
void cpu_sort_lanes(enum sort_item item, void *a, int64_t n);

#endif
