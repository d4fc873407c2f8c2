// index.h - keys: the index between brackets, as a list of entries. A key is read once from Python and then
// fitted to an array, after which there is an entry for each of its axes, in order, and one for each new
// axis. Shared by index_get.c and index_set.c.

#ifndef INDEX_H
#define INDEX_H

#include "ext.h"

// Bits, so that several kinds can be combined.
enum entry_kind {
    ENTRY_INT = 1,    // one position; removes the axis
    ENTRY_SLICE = 2,  // start:stop:step
    ENTRY_ARRAY = 4,  // an array of positions, whose axes replace this one
    ENTRY_NEW = 8,    // None: a new axis of size 1
    ENTRY_REST = 16,  // ...: all axes without an entry; not in a fitted key
    ENTRY_MASK = 32,  // booleans; not in a fitted key
    ENTRY_AXES = ENTRY_INT | ENTRY_SLICE | ENTRY_ARRAY, // those that are axes of the array
    ENTRY_KEPT = ENTRY_SLICE | ENTRY_NEW,               // axes of the result, but not those of arrays
};

struct entry {
    enum entry_kind kind;
    // as for zl_slice; of an integer, start is the position, negative if counted from the end
    int64_t start, stop, step;
    zl_array array;            // of ENTRY_ARRAY and ENTRY_MASK: retained
};

enum { KEY_MAX = 64 }; // the most entries of a key, axes of an array and axes of a result

struct key {
    int count;
    int kinds;     // of all entries
    bool is_tuple;
    bool is_whole; // fitted: all slices take their whole axis, in order, and there are no integers
    struct entry entry[KEY_MAX];
};

// Reads a key, which runs Python code: arrays that were borrowed before may have been freed. Returns false
// with an exception set if that fails; key_free must be called in any case.
bool key_read(struct key *k, PyObject *o);
bool key_fit(struct key *k, zl_array a);
void key_free(struct key *k);

// Sets `axis` to the positions of the entries of some kinds, counting only entries of the kinds `counted`
// before them. Returns their number.
int key_axes(const struct key *k, int kinds, int counted, int *axis);
// Lists the arrays among the entries, borrowed. Returns their number.
int key_arrays(const struct key *k, zl_array *index);
// Returns the position of the arrays' axes in the result, counting entries of some kinds: in place of the
// integers and arrays if these are adjacent, otherwise first.
int key_block(const struct key *k, int counted);
// Moves a block of axes so that it begins at another position; the other axes keep their order.
zl_array key_move_block(zl_array x, int from, int to, int length);

struct key_range {
    int64_t start[KEY_MAX], stop[KEY_MAX], step[KEY_MAX];
};
void key_range(const struct key *k, struct key_range *r);
// Returns the part of a that the slices and integers select, a view with as many axes as a.
zl_array key_slice(const struct key *k, zl_array a);
// Returns array[key] for a key without arrays: only views.
zl_array key_view(const struct key *k, zl_array a);
// Lists the positions of new axes, one for each None; `block` axes of the arrays begin at key_block(k,
// ENTRY_KEPT).
int key_new_axes(const struct key *k, int block, int *axis);

bool index_add_at(PyObject *core);       // index_set.c: adds the type ArrayAt
bool index_add_iterator(PyObject *core); // index_get.c: adds the type ArrayIterator

#endif
