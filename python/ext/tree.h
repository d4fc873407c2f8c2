// tree.h - the functions of tree.c that only the transforms need.

#ifndef TREE_H
#define TREE_H

#include "ext.h"

// Replaces the arrays of a tree by the results of `replace` (new references): lists and dicts are changed in
// place, tuples are made anew, and random.state sets this thread's key. Returns a new reference to the tree,
// or to the tuple in its place.
PyObject *tree_update(PyObject *tree, PyObject *(*replace)(PyObject *array, void *context), void *context);

// Visits every leaf of a tree together with the object at its place in a prefix of that tree.
bool tree_visit_pair(PyObject *tree, PyObject *prefix,
                     bool (*visit)(PyObject *leaf, PyObject *other, void *context), void *context);

// Arrays of a tree, with the values that they had. Both the cells and the values are retained.
struct tree_arrays {
    zl_array *value;
    PyObject **cell;
    int count, cap;
};
// Adds the arrays of a tree. Other leaves are skipped or, if strict, an error.
bool tree_gather(struct tree_arrays *a, PyObject *tree, bool strict);
void tree_release(struct tree_arrays *a);

// Returns the same tree with its arrays replaced by new ones, taken in order from *next on.
PyObject *tree_with(PyObject *tree, const zl_array *values, int count, int *next);

// Returns a tree in which a placeholder object replaces each array, and gathers the arrays.
// tree_from_structure does the reverse.
PyObject *tree_structure(PyObject *tree, struct tree_arrays *a, bool strict);
PyObject *tree_from_structure(PyObject *structure, const zl_array *values, int count);

#endif
