// boxes.c - rectangles that tile statements work on: their variables, the elements under a point, and edges.

#include "pass/boxes.h"

#include <stdio.h>

expr box_number(int64_t value) {
    return tile_const_int(tile_index_type(), value);
}

expr box_index(expr e) {
    return e ? tile_cast(tile_index_type(), e) : NULL;
}

expr box_both(expr a, expr b) {
    return !a ? b : !b ? a : tile_binary(TILE_AND, a, b);
}

const struct tile_name *box_variable(expr extent) {
    char text[24];
    snprintf(text, sizeof text, "t%d", tile_current() ? tile_current()->names : 0);
    return tile_index(text, extent);
}

expr box_point(const struct tile_name *name) {
    return name ? tile_name_value(name, TILE_INDEX) : NULL;
}

// Regions ---------------------------------------------------------------------------------------------------------

expr box_region_size(const struct tile_region *r, int axis) {
    return box_index(r->extent ? r->extent[axis] : r->buffer->shape[axis]);
}

static bool is_sized(const struct tile_region *r) {
    return r->extent || !r->origin;
}

void box_name(struct box *b) {
    for (int i = 0; i < b->axes; i++) {
        b->name[i] = box_variable(b->size[i]);
        b->point[i] = box_point(b->name[i]);
    }
}

// The axes of a region, paired from the last with those of the other.
struct box box_of(const struct tile_region *r, const struct tile_region *other) {
    const struct tile_region *sized = is_sized(r) || !other ? r : other;
    struct box b = {.axes = MAX_OF(r->buffer->ndim, other ? other->buffer->ndim : 0)};
    for (int i = 0; i < b.axes; i++) {
        int axis = i - b.axes + sized->buffer->ndim;
        b.size[i] = axis < 0 ? box_number(1) : box_region_size(sized, axis);
    }
    box_name(&b);
    return b;
}

expr box_origin(const struct tile_region *r, int axis) {
    return r->origin ? box_index(r->origin[axis]) : box_number(0);
}

// Where a point of a box is in a region's buffer.
void box_place(const struct tile_region *r, const struct box *b, const expr *point, expr *index) {
    for (int i = 0; i < r->buffer->ndim; i++) {
        int axis = b->axes - r->buffer->ndim + i;
        expr origin = box_origin(r, i);
        index[i] = axis < 0 || !point[axis] ? origin
                   : !r->origin             ? point[axis]
                                            : tile_binary(TILE_ADD, origin, point[axis]);
    }
}

static bool is_below(expr e, expr limit, int64_t more) {
    struct pass_range a = pass_range(e), b = pass_range(limit);
    return a.high != INT64_MAX && b.low != INT64_MIN && a.high + more <= b.low;
}

// Whether all of a box is in the buffer: NULL if that is known, else the test. size: elements along the axes.
expr box_inside(const struct tile_region *r, const struct box *b) {
    expr test = NULL;
    for (int i = 0; r->origin && i < r->buffer->ndim; i++) {
        int axis = b->axes - r->buffer->ndim + i;
        expr origin = box_origin(r, i), size = axis < 0 ? box_number(1) : b->size[axis],
             limit = box_index(r->buffer->shape[i]);
        expr end = tile_binary(TILE_ADD, origin, size);
        if (!origin || !end || !limit)
            return NULL;
        if (pass_range(origin).low < 0)
            test = box_both(test, tile_binary(TILE_GE, origin, box_number(0)));
        if (!is_below(end, limit, 0))
            test = box_both(test, tile_binary(TILE_LE, end, limit));
    }
    if (!r->origin && r->extent) // of the beginning
        for (int i = 0; i < r->buffer->ndim; i++) {
            expr size = box_index(r->extent[i]), limit = box_index(r->buffer->shape[i]);
            if (size && limit && size != limit && !is_below(size, limit, 0))
                test = box_both(test, tile_binary(TILE_LE, size, limit));
        }
    return test;
}

// Whether one element is.
expr box_holds(const struct tile_region *r, const expr *index) {
    expr test = NULL;
    for (int i = 0; i < r->buffer->ndim; i++) {
        expr limit = box_index(r->buffer->shape[i]);
        if (!index[i] || !limit)
            return NULL;
        if (pass_range(index[i]).low < 0)
            test = box_both(test, tile_binary(TILE_GE, index[i], box_number(0)));
        if (!is_below(index[i], limit, 1))
            test = box_both(test, tile_binary(TILE_LT, index[i], limit));
    }
    return test;
}

// The element at a point; 0 outside of the buffer, where `masked`.
expr box_read(const struct tile_region *r, const struct box *b, const expr *point, bool masked) {
    expr index[TILE_DIMS];
    box_place(r, b, point, index);
    expr mask = masked ? box_holds(r, index) : NULL;
    return tile_load(r->buffer, r->buffer->ndim, index, mask, NULL);
}

void box_write(const struct tile_region *r, const struct box *b, const expr *point, expr value,
                  bool masked) {
    expr index[TILE_DIMS];
    box_place(r, b, point, index);
    tile_store(r->buffer, r->buffer->ndim, index, value, masked ? box_holds(r, index) : NULL);
}
