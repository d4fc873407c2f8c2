// boxes.c - rectangles that tile statements work on: their variables, the elements at a point, and edges.

#include "pass/boxes.h"

#include <stdio.h>

expr box_number(int64_t value) {
    return tile_const_int(tile_index_type(), value);
}

expr box_index(expr e) {
    return e ? tile_cast(tile_index_type(), e) : NULL;
}

expr box_both(expr a, expr b) {
    return !a ? b : !b ? a : AND(a, b);
}

const struct tile_name *box_variable(expr extent) {
    char text[24];
    snprintf(text, sizeof text, "t%d", tile_current() ? tile_current()->names : 0);
    return tile_index(text, extent);
}

const struct tile_name *box_local(const char *prefix, struct tile_type type) {
    char text[24];
    snprintf(text, sizeof text, "%s%d", prefix, tile_current() ? tile_current()->names : 0);
    return tile_name(text, type);
}

expr box_local_value(const struct tile_name *local) {
    return local ? tile_name_value(local, TILE_LOCAL) : NULL;
}

struct tile_buffer *box_alloc(const char *prefix, struct tile_type type, enum tile_memory memory, int ndim,
                              const expr *shape) {
    char text[24];
    snprintf(text, sizeof text, "%s%d", prefix, tile_current() ? tile_current()->buffers : 0);
    return tile_alloc(text, type, memory, ndim, shape);
}

void box_open_if(expr mask) {
    if (mask)
        tile_open_if(mask);
}

void box_close_if(expr mask) {
    if (mask)
        tile_close();
}

expr box_point(const struct tile_name *name) {
    return name ? tile_name_value(name, TILE_INDEX) : NULL;
}

expr box_shuffle_source(const struct tile_stmt *shuffle, expr thread, expr step) {
    expr size = box_number(shuffle->threads), lane = REM(thread, size);
    expr by = REM(step, size), from = by;
    if (shuffle->shuffle == TILE_SHUFFLE_XOR)
        from = XOR(lane, by);
    if (shuffle->shuffle == TILE_SHUFFLE_UP)
        from = SELECT(LT(lane, by), lane, SUB(lane, by));
    return ADD(SUB(thread, lane), from);
}

// Regions ---------------------------------------------------------------------------------------------------

expr box_region_size(const struct tile_region *r, int axis) {
    return box_index(tile_region_size(r, axis));
}

static int axis_in(const struct box *b, const struct tile_region *r, int axis) {
    for (int side = 0; side < 2; side++)
        if (b->paired[side] == r)
            return b->pair[side][axis];
    return b->axes - r->buffer->ndim + axis;
}

void box_name(struct box *b) {
    for (int i = 0; i < b->axes; i++) {
        b->name[i] = box_variable(b->size[i]);
        b->point[i] = box_point(b->name[i]);
    }
}

static void pair_with(struct box *b, const struct tile_region *r, const struct tile_region *other) {
    int sized = tile_region_is_sized(r) ? 0 : 1;
    const struct tile_region *from = sized ? other : r;
    b->paired[0] = r;
    b->paired[1] = other;
    b->axes = tile_pair(r, other, b->pair[0], b->pair[1]);
    for (int i = 0; i < b->axes; i++)
        b->size[i] = box_number(1);
    for (int i = 0; i < from->buffer->ndim; i++)
        if (b->pair[sized][i] >= 0)
            b->size[b->pair[sized][i]] = box_region_size(from, i);
}

struct box box_of(const struct tile_region *r, const struct tile_region *other) {
    struct box b = {.axes = r->buffer->ndim};
    if (other)
        pair_with(&b, r, other);
    else
        for (int i = 0; i < b.axes; i++)
            b.size[i] = box_region_size(r, i);
    box_name(&b);
    return b;
}

struct box box_of_matrix(const struct tile_region *r) {
    struct box b = {.axes = 2};
    for (int i = 0; i < 2; i++)
        b.size[i] = box_region_size(r, r->buffer->ndim - 2 + i);
    return b;
}

struct box box_of_stmt(const struct tile_stmt *s) {
    bool is_line = s->kind == TILE_REDUCE || s->kind == TILE_SCAN;
    return s->kind == TILE_FILL ? box_of(&s->region[1], NULL)
                                : box_of(&s->region[0], is_line ? NULL : &s->region[1]);
}

expr box_origin(const struct tile_region *r, int axis) {
    return r->origin ? box_index(r->origin[axis]) : box_number(0);
}

void box_place(const struct tile_region *r, const struct box *b, const expr *point, expr *index) {
    for (int i = 0; i < r->buffer->ndim; i++) {
        int axis = axis_in(b, r, i);
        expr origin = box_origin(r, i);
        index[i] = axis < 0 || !point[axis] ? origin : !r->origin ? point[axis] : ADD(origin, point[axis]);
    }
}

static bool is_below(expr e, expr limit, int64_t more) {
    struct pass_range a = pass_range(e), b = pass_range(limit);
    return a.high != INT64_MAX && b.low != INT64_MIN && a.high + more <= b.low;
}

expr box_inside(const struct tile_region *r, const struct box *b) {
    expr test = NULL;
    for (int i = 0; r->origin && i < r->buffer->ndim; i++) {
        int axis = axis_in(b, r, i);
        expr origin = box_origin(r, i), size = axis < 0 ? box_number(1) : b->size[axis],
             limit = box_index(r->buffer->shape[i]);
        expr end = ADD(origin, size);
        if (!origin || !end || !limit)
            return NULL;
        if (pass_range(origin).low < 0)
            test = box_both(test, GE(origin, box_number(0)));
        if (!is_below(end, limit, 0))
            test = box_both(test, LE(end, limit));
    }
    if (!r->origin && r->extent) // a region of this size from element 0 on
        for (int i = 0; i < r->buffer->ndim; i++) {
            expr size = box_index(r->extent[i]), limit = box_index(r->buffer->shape[i]);
            if (size && limit && size != limit && !is_below(size, limit, 0))
                test = box_both(test, LE(size, limit));
        }
    return test;
}

expr box_holds(const struct tile_region *r, const expr *index) {
    expr test = NULL;
    for (int i = 0; i < r->buffer->ndim; i++) {
        expr limit = box_index(r->buffer->shape[i]);
        if (!index[i] || !limit)
            return NULL;
        if (pass_range(index[i]).low < 0)
            test = box_both(test, GE(index[i], box_number(0)));
        if (!is_below(index[i], limit, 1))
            test = box_both(test, LT(index[i], limit));
    }
    return test;
}

expr box_read_or(const struct tile_region *r, const struct box *b, const expr *point, bool masked,
                 expr other) {
    expr index[TILE_DIMS];
    box_place(r, b, point, index);
    expr mask = masked ? box_holds(r, index) : NULL;
    return tile_load(r->buffer, r->buffer->ndim, index, mask, mask ? other : NULL);
}

expr box_read(const struct tile_region *r, const struct box *b, const expr *point, bool masked) {
    return box_read_or(r, b, point, masked, NULL);
}

void box_write(const struct tile_region *r, const struct box *b, const expr *point, expr value, bool masked) {
    expr index[TILE_DIMS];
    box_place(r, b, point, index);
    tile_store(r->buffer, r->buffer->ndim, index, value, masked ? box_holds(r, index) : NULL);
}

// Lines -----------------------------------------------------------------------------------------------------

// The destination may have the axis of the reduction with size 1.
void box_write_line(const struct tile_stmt *s, const struct tile_region *to, const struct box *b,
                    expr value) {
    struct box place_in = {0};
    expr point[TILE_DIMS];
    for (int i = 0; i < b->axes; i++)
        if (i != s->axis || to->buffer->ndim >= s->region[0].buffer->ndim)
            point[place_in.axes++] = i == s->axis ? NULL : b->point[i];
    if (!s->clear)
        value = tile_binary(s->combine, box_read(to, &place_in, point, true), value);
    box_write(to, &place_in, point, value, true);
}

expr box_ceil_divide(expr a, int64_t b) {
    return FLOORDIV(ADD(a, box_number(b - 1)), box_number(b));
}
