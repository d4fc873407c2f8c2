// boxes.h - rectangles that tile statements work on. Between the files of pass/ only.

#ifndef BOXES_H
#define BOXES_H

#include "pass/pass.h"
#include "tile/notation.h"

// A rectangle with one variable an axis. The axes of a region are its last, but for the two that `pair` says:
// which of them each axis is, or -1.
struct box {
    int axes;
    expr size[TILE_DIMS];
    const struct tile_name *name[TILE_DIMS];
    expr point[TILE_DIMS];
    const struct tile_region *paired[2];
    int pair[2][TILE_DIMS];
};

expr box_number(int64_t value); // of index type
expr box_index(expr e);         // as index type; NULL flows
expr box_both(expr a, expr b);  // a and b, each of which may be NULL: nothing asked
const struct tile_name *box_variable(expr extent); // a new loop variable
expr box_point(const struct tile_name *name);
// A new local variable, and new memory: their names are the prefix and a number.
const struct tile_name *box_local(const char *prefix, struct tile_type type);
struct tile_buffer *box_alloc(const char *prefix, struct tile_type type, enum tile_memory memory, int ndim,
                              const expr *shape);
expr box_local_value(const struct tile_name *local);
// Opens an if, and closes it; NULL: nothing is asked, and nothing is opened.
void box_open_if(expr mask);
void box_close_if(expr mask);
// The number of the thread from which a shuffle gives `thread` a value, where its step is `step`; all of
// index type.
expr box_shuffle_source(const struct tile_stmt *shuffle, expr thread, expr step);

expr box_region_size(const struct tile_region *r, int axis);
expr box_origin(const struct tile_region *r, int axis);
void box_name(struct box *b); // a variable for each axis
// The axes of a region or, where other is not NULL, of the two together as tile_pair says; named.
struct box box_of(const struct tile_region *r, const struct tile_region *other);

// of a copy, fill, reduction or scan: what it reads, or fills
struct box box_of_stmt(const struct tile_stmt *s);

// Writes the result of a line at the box's point, combined with what is there unless that is cleared.
void box_write_line(const struct tile_stmt *s, const struct tile_region *to, const struct box *b, expr value);
expr box_ceil_divide(expr a, int64_t b); // a // b, rounded up

// Where a point of a box is in a region's buffer.
void box_place(const struct tile_region *r, const struct box *b, const expr *point, expr *index);
// Whether all of a box is in the buffer, and whether one element is: NULL if that is known, else the test.
expr box_inside(const struct tile_region *r, const struct box *b);
expr box_holds(const struct tile_region *r, const expr *index);

// The element at a point: where `masked`, the other value (NULL: 0) outside of the buffer, and nothing is
// written there.
expr box_read_or(const struct tile_region *r, const struct box *b, const expr *point, bool masked,
                 expr other);
expr box_read(const struct tile_region *r, const struct box *b, const expr *point, bool masked);
void box_write(const struct tile_region *r, const struct box *b, const expr *point, expr value, bool masked);

#endif
