// index.h - keys: what stands between brackets, as entries. Read once from Python, then fitted to an array,
// after which there is an entry for each of its axes, in order, and one for each new axis. Shared by
// index_get.c and index_set.c.

#ifndef INDEX_H
#define INDEX_H

#include "ext.h"

// Bits, so that several can be named at once.
enum entry_kind {
    ENTRY_INT = 1,    // one position: the axis goes away
    ENTRY_SLICE = 2,  // start:stop:step
    ENTRY_ARRAY = 4,  // an array of positions: its axes come in place of this one
    ENTRY_NEW = 8,    // None: a new axis of size 1
    ENTRY_REST = 16,  // ...: the axes that no other entry names; not in a fitted key
    ENTRY_MASK = 32,  // booleans; not in a fitted key
    ENTRY_AXES = ENTRY_INT | ENTRY_SLICE | ENTRY_ARRAY, // the axes of the array
    ENTRY_KEPT = ENTRY_SLICE | ENTRY_NEW,               // those axes of the result that are not from arrays
};

struct entry {
    enum entry_kind kind;
    // as zl_slice takes them; of an integer, start is the position, negative from the end
    int64_t start, stop, step;
    zl_array array;            // of ENTRY_ARRAY and ENTRY_MASK: retained
};

enum { KEY_MAX = 64 }; // entries, axes of an array and axes of a result that a key can have

struct key {
    int count;
    int kinds;     // all that occur
    bool is_tuple;
    bool is_whole; // fitted: all slices take all of their axes, in order, and there are no integers
    struct entry entry[KEY_MAX];
};

// Runs Python code: arrays that were borrowed before may be gone. False with an exception set; either way
// key_free is due.
bool key_read(struct key *k, PyObject *o);
bool key_fit(struct key *k, zl_array a);
void key_free(struct key *k);

// Where the entries of some kinds are, counting the entries of others before them; how many.
int key_axes(const struct key *k, int kinds, int counted, int *axis);
// The arrays among the entries, borrowed; how many.
int key_arrays(const struct key *k, zl_array *index);
// Where the axes of the arrays go in the result, counting entries of some kinds: in place of the integers and
// arrays if these stand side by side, else first.
int key_block(const struct key *k, int counted);
// Moves a block of axes so that it begins at another axis; the others keep their order.
zl_array key_move_block(zl_array x, int from, int to, int length);

struct key_range {
    int64_t start[KEY_MAX], stop[KEY_MAX], step[KEY_MAX];
};
void key_range(const struct key *k, struct key_range *r);
// The part of a that the slices and integers leave: a view with as many axes.
zl_array key_slice(const struct key *k, zl_array a);
// array[key] without arrays: only views.
zl_array key_view(const struct key *k, zl_array a);
// New axes where None stands; block axes of the arrays begin at key_block(k, ENTRY_KEPT).
int key_new_axes(const struct key *k, int block, int *axis);

bool index_add_at(PyObject *core);       // index_set.c: the type ArrayAt
bool index_add_iterator(PyObject *core); // index_get.c: the type ArrayIterator

#endif
