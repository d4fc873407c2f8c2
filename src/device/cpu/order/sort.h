// sort.h - keys, by which elements are sorted, searched and selected.
//
// A key is an unsigned number in the order of the elements: the bits of a dtype, mapped so that NaN is the
// largest. Those of elements of up to 4 bytes are uint32, others uint64.

#ifndef SORT_H
#define SORT_H

#include "device/cpu/cpu.h"

enum { SORT_BLOCK = 256 }; // keys that are made at once, where they are not all kept

struct sort_order {
    void (*load)(const char *from, int64_t n, void *key);
    void (*store)(const void *key, int64_t n, char *to); // NULL: there is no way back
    uint64_t minus_zero; // its key: that of 0 follows it. 0: the dtype has none
    bool is_long;        // keys are uint64
};
// Returns how elements of a dtype are made into keys, and keys into elements.
const struct sort_order *cpu_sort_order(zl_dtype dtype);
// Makes keys as o->load does, but gives -0 the key of 0, so that equal elements have equal keys.
void cpu_sort_load_equal(const struct sort_order *o, const char *from, int64_t n, void *key);

// sort_digits.c: items are sorted by some of their bits; equal ones stay in order.
struct sort_keyed { // a key of 8 bytes and where it was
    uint64_t key, position;
};
enum sort_item { SORT_U32, SORT_U64, SORT_KEYED };
struct sort_job {
    enum sort_item item;
    void *a, *room; // the items, and room for as many
    int64_t n;
    int first;   // bit of the key, and all above it
    bool shared; // on all threads
};
// Sorts the items, and returns where they are then, a or room, or NULL and an error if memory runs out.
void *cpu_sort_items(const struct sort_job *job);

// sort_short.c ----------------------------------------------------------------------------------------------

enum { SORT_LANES = 16, SORT_SHORT = 256 }; // items of a line for which this is quicker
// Sorts SORT_LANES lines of n items each; item i of line k is a[i * SORT_LANES + k]. Not of SORT_KEYED.
void cpu_sort_lanes(enum sort_item item, void *a, int64_t n);

#endif
