// tree.h - more of tree.c: what only the transforms need.

#ifndef TREE_H
#define TREE_H

#include "ext.h"

// The tree with its arrays replaced by what replace gives (a new reference): lists and dicts are changed in
// place, tuples made anew, and random.state sets the key of this thread. A new reference to the tree, or to
// what stands for it.
PyObject *tree_update(PyObject *tree, PyObject *(*replace)(PyObject *array, void *context), void *context);

// Visits every leaf of a tree together with what stands at its place in a prefix of that tree.
bool tree_visit_pair(PyObject *tree, PyObject *prefix,
                     bool (*visit)(PyObject *leaf, PyObject *other, void *context), void *context);

// Arrays of a tree. Both the cells and the values that they had are kept.
struct tree_arrays {
    zl_array *value;
    PyObject **cell;
    int count, cap;
};
// Adds the arrays of a tree. Another leaf is passed over or, if strict, an error.
bool tree_gather(struct tree_arrays *a, PyObject *tree, bool strict);
void tree_release(struct tree_arrays *a);

// The same tree with its arrays replaced by new ones, taken in order from *next on.
PyObject *tree_with(PyObject *tree, const zl_array *values, int count, int *next);

// A tree whose arrays are replaced by one object that stands for an array, and the way back. The arrays are
// gathered.
PyObject *tree_structure(PyObject *tree, struct tree_arrays *a, bool strict);
PyObject *tree_from_structure(PyObject *structure, const zl_array *values, int count);

#endif
