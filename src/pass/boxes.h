// boxes.h - rectangles that tile statements work on. Shared by files of pass/ only.

#ifndef BOXES_H
#define BOXES_H

#include "pass/pass.h"
#include "tile/notation.h"

// A rectangle with one variable per axis. The axes of a region are the last axes of the box, except for the
// two regions in `paired`: pair[i] has the axis of the box for each axis of paired[i], or -1.
struct box {
    int axes;
    expr size[TILE_DIMS];
    const struct tile_name *name[TILE_DIMS];
    expr point[TILE_DIMS];
    const struct tile_region *paired[2];
    int pair[2][TILE_DIMS];
};

// Functions that return expressions build them in the current kernel and return NULL if that fails or an
// operand is NULL, unless they say otherwise.

// Returns a constant of index type.
expr box_number(int64_t value);
// Returns an expression converted to index type.
expr box_index(expr e);
// Returns a condition for both a and b, each of which may be NULL: no condition.
expr box_both(expr a, expr b);
// Creates a loop variable for 0 .. extent - 1.
const struct tile_name *box_variable(expr extent);
// Returns the value of a loop variable.
expr box_point(const struct tile_name *name);
// Creates a local variable; its name is the prefix and a number.
const struct tile_name *box_local(const char *prefix, struct tile_type type);
// Appends the allocation of a buffer; its name is the prefix and a number.
struct tile_buffer *box_alloc(const char *prefix, struct tile_type type, enum tile_memory memory, int ndim,
                              const expr *shape);
// Returns the value of a local variable.
expr box_local_value(const struct tile_name *local);
// Opens an if; NULL: there is no condition, and it opens nothing.
void box_open_if(expr mask);
// Closes what box_open_if opened for this condition.
void box_close_if(expr mask);
// Returns the number of the thread from which a shuffle gives `thread` a value, where its step is `step`; all
// of index type.
expr box_shuffle_source(const struct tile_stmt *shuffle, expr thread, expr step);

// Returns a region's size along an axis of its buffer, of index type.
expr box_region_size(const struct tile_region *r, int axis);
// Returns a region's origin along an axis, of index type; 0 if it has none.
expr box_origin(const struct tile_region *r, int axis);
// Creates the variables of a box from its sizes, and sets its point to them.
void box_name(struct box *b);
// Returns the box of a region or, where `other` is not NULL, of the two together as tile_pair says; with
// variables.
struct box box_of(const struct tile_region *r, const struct tile_region *other);
// Returns a box of the last two axes of a region, without variables; the axes before them stay at their
// origin.
struct box box_of_matrix(const struct tile_region *r);

// Returns the box of a statement: of a copy; of the source of a reduction or scan; of what a fill writes.
struct box box_of_stmt(const struct tile_stmt *s);

// Appends the store of a row's result at the box's point, in which the axis of the reduction is ignored.
// Unless the statement clears its destination, the result is combined with the old value.
void box_write_line(const struct tile_stmt *s, const struct tile_region *to, const struct box *b, expr value);
// Returns a divided by b, rounded up.
expr box_ceil_divide(expr a, int64_t b);

// Writes the indices in a region's buffer of a point of a box; a coordinate that is NULL is the origin.
void box_place(const struct tile_region *r, const struct box *b, const expr *point, expr *index);
// Returns the test whether all of a box is inside the buffer; NULL if it is known to be.
expr box_inside(const struct tile_region *r, const struct box *b);
// Returns the test whether one element is inside the buffer; NULL if it is known to be.
expr box_holds(const struct tile_region *r, const expr *index);

// Returns the element at a point. If `masked`, elements outside of the buffer read as `other` (NULL: 0).
expr box_read_or(const struct tile_region *r, const struct box *b, const expr *point, bool masked,
                 expr other);
// Returns the element at a point. If `masked`, elements outside of the buffer read as 0.
expr box_read(const struct tile_region *r, const struct box *b, const expr *point, bool masked);
// Appends the store of the element at a point. If `masked`, it writes nothing outside of the buffer.
void box_write(const struct tile_region *r, const struct box *b, const expr *point, expr value, bool masked);

#endif
