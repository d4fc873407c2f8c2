// random_view.h - arrays in foreign memory with random layouts, and functions that read their elements
// without the library, with which the CPU's drivers are compared.

#ifndef RANDOM_VIEW_H
#define RANDOM_VIEW_H

#include "test.h"

enum { VIEW_AXES = 6 };

struct view {
    zl_array array; // lent; it owns the memory
    zl_dtype dtype;
    int ndim;
    int64_t dim[VIEW_AXES], stride[VIEW_AXES];
    const char *first; // element 0
};

// Draws a shape of at most `most` elements: short, odd and long axes. Returns the number of axes.
int view_shape(int64_t most, int64_t *dim);
// Returns a view of that shape: permuted, stepped, reversed, repeated along axes, or plain.
struct view view_random(zl_dtype dtype, int ndim, const int64_t *dim);
// Returns such a view with some axes of size 1, and some of the first axes left out, which broadcasts to the
// shape.
struct view view_broadcast(zl_dtype dtype, int ndim, const int64_t *dim);
// Returns the element at a position of a shape that v broadcasts to; a part of a complex number (0: real, 1:
// imaginary).
double view_at(const struct view *v, int ndim, const int64_t *at, int part);

// Steps to the next position in row-major order. Returns false after the last.
bool next_position(int ndim, const int64_t *dim, int64_t *at);
// Returns element `index` of an evaluated, dense array.
double dense_at(zl_array a, int64_t index, int part);

#endif
