// tiles.c - replaces tile statements by loops over elements: copy, fill, reduce, scan, and gemm if the target
// has no unit for it.
//
// If a rectangle may leave its buffer, one test before the loop chooses between a loop without tests and one
// that masks every element. Asynchronous statements become synchronous; waits for them are removed.

#include "pass/boxes.h"

enum { LANE_BYTES = 128 }; // of a reduction: see doc/tile.md

// Emits a body once if no element can be outside of its buffer (`test` is NULL); else twice, without masks
// where the test holds and with masks where it does not.
static void with_edges(expr test, void (*emit)(const struct tile_stmt *s, bool masked),
                       const struct tile_stmt *s) {
    if (!test) {
        emit(s, false);
        return;
    }
    tile_open_if(test);
    emit(s, false);
    tile_else();
    emit(s, true);
    tile_close();
}

// Copy and fill ---------------------------------------------------------------------------------------------

static void open_box(const struct box *b) {
    tile_open_map(b->axes, b->name, b->size);
}

static void emit_copy(const struct tile_stmt *s, bool masked) {
    const struct tile_region *from = &s->region[0], *to = &s->region[1];
    struct box b = box_of(from, to);
    open_box(&b);
    expr value = box_read_or(from, &b, b.point, masked, s->value);
    box_write(to, &b, b.point, value ? tile_cast(to->buffer->type, value) : NULL, masked);
    tile_close();
}

static void copy(const struct tile_stmt *s) {
    struct box b = box_of_stmt(s);
    with_edges(box_both(box_inside(&s->region[0], &b), box_inside(&s->region[1], &b)), emit_copy, s);
}

static void emit_fill(const struct tile_stmt *s, bool masked) {
    struct box b = box_of(&s->region[1], NULL);
    open_box(&b);
    box_write(&s->region[1], &b, b.point, s->value, masked);
    tile_close();
}

static void fill(const struct tile_stmt *s) {
    struct box b = box_of(&s->region[1], NULL);
    with_edges(box_inside(&s->region[1], &b), emit_fill, s);
}

// Reduce and scan -------------------------------------------------------------------------------------------

// Returns the box without one axis, whose variable gets a loop of its own.
static struct box lines_of(const struct box *b, int axis) {
    struct box lines = {0};
    for (int i = 0; i < b->axes; i++)
        if (i != axis) {
            lines.size[lines.axes] = b->size[i];
            lines.name[lines.axes] = b->name[i];
            lines.point[lines.axes++] = b->point[i];
        }
    return lines;
}

static void open_lines(const struct box *lines) {
    if (lines->axes)
        tile_open_map(lines->axes, lines->name, lines->size);
    else
        tile_open_if(tile_const_int((struct tile_type){TILE_BOOL, 1, 1}, 1));
}

static void for_lanes(int count, void (*emit)(const struct tile_buffer *lane, expr j, const void *data),
                      const struct tile_buffer *lane, const void *data) {
    const struct tile_name *j = box_variable(box_number(count));
    expr end = box_number(count);
    tile_open_map(1, &j, &end);
    emit(lane, box_point(j), data);
    tile_close();
}

static void start_lane(const struct tile_buffer *lane, expr j, const void *data) {
    tile_store(lane, 1, &j, *(const expr *)data, NULL);
}

struct halving {
    enum tile_op combine;
    int half;
};

static void halve_lane(const struct tile_buffer *lane, expr j, const void *data) {
    const struct halving *h = data;
    expr other = j ? ADD(j, box_number(h->half)) : NULL;
    if (other)
        tile_store(lane, 1, &j,
                   tile_binary(h->combine, tile_load(lane, 1, &j, NULL, NULL),
                               tile_load(lane, 1, &other, NULL, NULL)),
                   NULL);
}

// The state of reducing one row.
struct line {
    const struct tile_stmt *s;
    const struct box *b;
    const struct tile_buffer *lane;
    int lanes;
    bool masked;
};

// Combines lane[j] with element i of the row.
static void take(const struct line *l, expr i, expr j) {
    expr point[TILE_DIMS];
    for (int k = 0; k < l->b->axes; k++)
        point[k] = k == l->s->axis ? i : l->b->point[k];
    expr x = box_read(&l->s->region[0], l->b, point, l->masked);
    expr old = j ? tile_load(l->lane, 1, &j, NULL, NULL) : NULL;
    if (x && old)
        tile_store(l->lane, 1, &j, tile_binary(l->s->combine, old, tile_cast(l->lane->type, x)), NULL);
}

// Combines the lanes with the elements of a row: each lane takes an element in turn as long as there are
// enough for all lanes; then some lanes take one more.
static void take_line(const struct line *l, expr size) {
    struct pass_range known = pass_range(size);
    bool even = known.low == known.high && known.low % l->lanes == 0;
    expr lanes = box_number(l->lanes), whole = MUL(FLOORDIV(size, lanes), lanes);
    const struct tile_name *from = box_variable(size), *j = box_variable(lanes);
    tile_open_for(from, box_number(0), whole, lanes, TILE_SERIAL);
    tile_open_map(1, &j, &lanes);
    take(l, ADD(box_point(from), box_point(j)), box_point(j));
    tile_close();
    tile_close();
    if (even)
        return;
    const struct tile_name *k = box_variable(lanes);
    tile_open_for(k, box_number(0), SUB(size, whole), NULL, TILE_SERIAL);
    take(l, ADD(whole, box_point(k)), box_point(k));
    tile_close();
}

static void put_result(const struct line *l) {
    expr zero[TILE_DIMS];
    for (int i = 0; i < l->lane->ndim; i++)
        zero[i] = box_number(0);
    box_write_line(l->s, &l->s->region[1], l->b, tile_load(l->lane, l->lane->ndim, zero, NULL, NULL));
}

// Returns whether the target has a function that reduces such a row, with contiguous elements. The caller
// knows that all of them are in the buffer.
static bool has_line_unit(const struct target *target, const struct tile_stmt *s) {
    const struct tile_buffer *from = s->region[0].buffer, *to = s->region[1].buffer;
    bool dense = !from->stride || pass_range(from->stride[from->ndim - 1]).high == 1;
    return dense && s->axis == from->ndim - 1 && target->reduces &&
           target->reduces(s->combine, tile_dtype_of(from->type), tile_dtype_of(to->type));
}

static void reduce_by_unit(const struct tile_stmt *s) {
    const struct tile_region *from = &s->region[0];
    struct box b = box_of(from, NULL), lines = lines_of(&b, s->axis);
    expr one[TILE_DIMS], origin[TILE_DIMS], extent[TILE_DIMS];
    for (int i = 0; i < b.axes; i++)
        one[i] = extent[i] = box_number(1);
    open_lines(&lines);
    struct line l = {
        .s = s, .b = &b, .lane = box_alloc("lane", s->region[1].buffer->type, TILE_REGISTER, b.axes, one)};
    b.point[s->axis] = NULL;
    box_place(from, &b, b.point, origin);
    if (!from->origin)
        origin[s->axis] = box_number(0);
    extent[s->axis] = b.size[s->axis];
    if (l.lane) {
        tile_append((struct tile_stmt){.kind = TILE_REDUCE,
                                       .place = s->place,
                                       .region = {{from->buffer, origin, extent}, {.buffer = l.lane}},
                                       .combine = s->combine,
                                       .axis = s->axis,
                                       .clear = true});
        put_result(&l);
    }
    tile_close();
}

static void emit_reduce(const struct tile_stmt *s, bool masked) {
    struct tile_type type = s->region[1].buffer->type;
    struct box b = box_of(&s->region[0], NULL), lines = lines_of(&b, s->axis);
    struct line l = {.s = s, .b = &b, .lanes = LANE_BYTES / tile_type_bytes(type), .masked = masked};
    expr lanes = box_number(l.lanes), identity = tile_identity_value(s->combine, type);
    open_lines(&lines);
    l.lane = box_alloc("lane", type, TILE_REGISTER, 1, &lanes);
    if (l.lane) {
        for_lanes(l.lanes, start_lane, l.lane, &identity);
        take_line(&l, b.size[s->axis]);
        for (int half = l.lanes / 2; half; half /= 2)
            for_lanes(half, halve_lane, l.lane, &(struct halving){s->combine, half});
        put_result(&l);
    }
    tile_close();
}

static void reduce(const struct target *target, const struct tile_stmt *s) {
    struct box b = box_of(&s->region[0], NULL);
    expr test = box_inside(&s->region[0], &b);
    if (!test && has_line_unit(target, s))
        reduce_by_unit(s);
    else
        with_edges(test, emit_reduce, s);
}

static void emit_scan(const struct tile_stmt *s, bool masked) {
    struct tile_type type = s->region[1].buffer->type;
    struct box b = box_of(&s->region[0], NULL), lines = lines_of(&b, s->axis);
    const struct tile_name *sum = box_local("sum", type), *next = box_local("next", type),
                           *i = box_variable(b.size[s->axis]);
    expr last = SUB(b.size[s->axis], box_number(1));
    open_lines(&lines);
    tile_assign(sum, tile_identity_value(s->combine, type));
    tile_open_for(i, box_number(0), b.size[s->axis], NULL, TILE_SERIAL);
    b.point[s->axis] = s->reverse ? SUB(last, box_point(i)) : box_point(i);
    expr x = box_read(&s->region[0], &b, b.point, masked);
    tile_assign(next, x ? tile_binary(s->combine, box_local_value(sum), tile_cast(type, x)) : NULL);
    box_write(&s->region[1], &b, b.point, box_local_value(s->exclusive ? sum : next), true);
    tile_assign(sum, box_local_value(next));
    tile_close();
    tile_close();
}

static void scan(const struct tile_stmt *s) {
    struct box b = box_of(&s->region[0], NULL);
    with_edges(box_inside(&s->region[0], &b), emit_scan, s);
}

// Gemm ------------------------------------------------------------------------------------------------------

static struct tile_type sum_type(struct tile_type type) {
    return tile_type_is_half(type) ? (struct tile_type){TILE_FLOAT, 32, 1} : type;
}

static void gemm(const struct tile_stmt *s) {
    const struct tile_region *a = &s->region[0], *b = &s->region[1], *c = &s->region[2];
    struct tile_type type = sum_type(c->buffer->type);
    struct box of_a = box_of_matrix(a), of_b = box_of_matrix(b), of_c = {.axes = 2};
    of_c.size[0] = of_a.size[s->transpose[0]];
    of_c.size[1] = of_b.size[!s->transpose[1]];
    box_name(&of_c);
    const struct tile_name *sum = box_local("sum", type), *k = box_variable(of_a.size[!s->transpose[0]]);
    expr row = of_c.point[0], col = of_c.point[1], inner = box_point(k);
    expr at_a[2] = {s->transpose[0] ? inner : row, s->transpose[0] ? row : inner};
    expr at_b[2] = {s->transpose[1] ? col : inner, s->transpose[1] ? inner : col};
    open_box(&of_c);
    expr before = s->clear ? tile_const(type, 0) : box_read(c, &of_c, of_c.point, true);
    tile_assign(sum, before ? tile_cast(type, before) : NULL);
    tile_open_for(k, box_number(0), of_a.size[!s->transpose[0]], NULL, TILE_SERIAL);
    expr x = box_read(a, &of_a, at_a, true), y = box_read(b, &of_b, at_b, true);
    if (x && y)
        tile_assign(sum, ADD(box_local_value(sum), MUL(tile_cast(type, x), tile_cast(type, y))));
    tile_close();
    box_write(c, &of_c, of_c.point, tile_cast(c->buffer->type, box_local_value(sum)), true);
    tile_close();
}

// Returns whether a region is in memory of the block, with all its elements in the buffer.
static bool is_block(const struct tile_region *r) {
    struct box b = box_of_matrix(r);
    bool inside = !box_inside(r, &b);
    for (int i = 0; i < r->buffer->ndim - 2; i++)
        inside &= !r->origin || pass_range(r->origin[i]).low >= 0;
    return inside && !r->buffer->stride && r->buffer->memory != TILE_GLOBAL &&
           r->buffer->memory != TILE_CONSTANT && r->buffer->memory != TILE_TABLE;
}

// Returns whether the target has a unit that multiplies such tiles.
static bool has_unit(const struct target *target, const struct tile_stmt *s) {
    for (int i = 0; i < 3; i++) {
        bool is_read = i < 2 && target->packs && s->region[i].buffer->memory == TILE_GLOBAL;
        if (!is_read && !is_block(&s->region[i]))
            return false;
    }
    zl_dtype a = tile_dtype_of(s->region[0].buffer->type), b = tile_dtype_of(s->region[1].buffer->type);
    return target->multiplies && target->multiplies(a, b, tile_dtype_of(s->region[2].buffer->type));
}

// -----------------------------------------------------------------------------------------------------------

// Replaces a statement by loops, except a copy or fill of one access, and what the target has a unit for.
static bool emit(void *data, const struct tile_stmt *s) {
    const struct target *target = data;
    bool is_access = s->loop == TILE_VECTOR;
    if (s->kind == TILE_COPY && !is_access)
        copy(s);
    else if (s->kind == TILE_FILL && !is_access)
        fill(s);
    else if (s->kind == TILE_REDUCE)
        reduce(target, s);
    else if (s->kind == TILE_SCAN)
        scan(s);
    else if (s->kind == TILE_GEMM && !(target->group ? s->threads : has_unit(target, s)))
        gemm(s);
    else
        return s->kind == TILE_WAIT && !target->group;
    return true;
}

bool pass_tiles(struct tile_kernel *kernel, const struct target *target) {
    return !target->is_program || target->lanes || pass_emit_kernel(kernel, emit, (void *)target);
}
