// lanes_reduce.c - generates the commands of reductions and scans. A reduction folds a tile in halves along
// an axis by the command of its op for two operands, so that every op can reduce.

#include "pass/lanes.h"

#include <string.h>

static struct tile_type sum_type(const struct tile_stmt *s) {
    struct tile_type type = lanes_type(s->region[1].buffer->type);
    return tile_type_is_half(type) && (s->combine == TILE_ADD || s->combine == TILE_MUL)
               ? (struct tile_type){TILE_FLOAT, 32, 1}
               : type;
}

static struct lane_operand moved(const struct lane_operand *o, int dim, int64_t by) {
    struct lane_operand other = *o;
    other.address = ADD(o->address, MUL(o->stride[dim], lanes_number(by * tile_type_bytes(o->type))));
    return other;
}

static struct lane_points first_of(const struct lane_points *p, int dim, int64_t count) {
    struct lane_points some = *p;
    some.size[dim] = lanes_number(count);
    some.most[dim] = count;
    return some;
}

static bool is_extreme(struct tile_type type, enum tile_op op) {
    return tile_type_is_float(type) && (op == TILE_MAX || op == TILE_MIN);
}

// Sets `to` to -from, by flipping the sign bits; `to` may be `from`.
static bool negate(struct lanes *l, const struct lane_points *p, const struct lane_operand *to,
                   const struct lane_operand *from) {
    struct tile_type bits = {TILE_UINT, from->type.bits, 1};
    struct lane_operand x = *from, y = *to,
                        sign = {.type = bits,
                                .scalar = tile_const_bits(bits, UINT64_C(1) << (bits.bits - 1))};
    x.type = y.type = bits;
    return lanes_binary(l, p, TILE_XOR, &y, &x, &sign);
}

enum {
    PIECE_BYTES = 16384
}; // per lane: the most that temporary tiles of a step take, as far as pieces along one axis can limit it

// Sets `to` to the minimum of `to` and b, or of `to` and -b. The commands that keep NaN need temporary tiles,
// so they run on pieces along a dimension.
static bool take_smaller(struct lanes *l, const struct lane_points *p, int dim, const struct lane_operand *to,
                         const struct lane_operand *b, bool is_negated) {
    int64_t size = p->most[dim], groups = (p->most[LANE_C] + 63) / 64;
    int64_t bytes = tile_type_bytes(to->type) * p->most[LANE_N] * groups * p->most[LANE_H] * p->most[LANE_W];
    int64_t piece = dim == LANE_C ? size : MAX_OF(size / ((bytes + PIECE_BYTES - 1) / PIECE_BYTES), 1);
    bool good = true;
    for (int64_t at = 0; good && at < size; at += piece) {
        struct lane_points some = first_of(p, dim, MIN_OF(piece, size - at));
        struct lane_operand part = moved(to, dim, at), x = moved(b, dim, at), opposite;
        good = !is_negated ||
               (lanes_temporary(l, &some, x.type, NULL, &opposite) && negate(l, &some, &opposite, &x));
        good = good && lanes_extreme(l, &some, TILE_MIN, &part, &part, is_negated ? &opposite : &x);
    }
    return good;
}

static int64_t power_below(int64_t size) { // the largest power of two below size, or 1
    int64_t power = 1;
    while (power * 2 < size)
        power *= 2;
    return power;
}

// Combines `to` with b. A maximum of floats is computed as the negative of the minimum of negatives, which
// `to` has.
static bool take(struct lanes *l, const struct lane_points *p, enum tile_op op, int dim,
                 const struct lane_operand *to, const struct lane_operand *b, bool is_negated) {
    return is_extreme(to->type, op) ? take_smaller(l, p, dim, to, b, is_negated)
                                    : lanes_binary(l, p, op, to, to, b);
}

// Reduces a tile along a dimension to its first point; `out` is a new tile.
static bool fold(struct lanes *l, const struct lane_points *p, const struct tile_stmt *s, int dim,
                 const struct lane_operand *from, struct lane_operand *out) {
    int64_t size = p->most[dim], half = size > 1 ? power_below(size) : 1;
    bool negates = is_extreme(sum_type(s), s->combine) && s->combine == TILE_MAX;
    struct lane_points some = first_of(p, dim, half), one = first_of(p, dim, 1);
    bool is_negated = negates && tile_type_equal(from->type, sum_type(s)); // while it is copied
    if (!lanes_temporary(l, &some, sum_type(s), NULL, out) ||
        !(is_negated ? negate(l, &some, out, from) : lanes_move(l, &some, out, from)) ||
        (negates && !is_negated && !negate(l, &some, out, out)))
        return false;
    if (size > half) {
        struct lane_points rest = first_of(p, dim, size - half);
        struct lane_operand second = moved(from, dim, half), same = second;
        if (!tile_type_equal(second.type, out->type) &&
            (!lanes_temporary(l, &rest, out->type, NULL, &same) || !lanes_move(l, &rest, &same, &second)))
            return false;
        if (!take(l, &rest, s->combine, dim, out, &same, negates))
            return false;
    }
    for (half /= 2; half; half /= 2) {
        struct lane_points now = first_of(p, dim, half);
        struct lane_operand second = moved(out, dim, half);
        if (!take(l, &now, s->combine, dim, out, &second, false))
            return false;
    }
    return !negates || negate(l, &one, out, out);
}

static int axis_of(const struct box *b, const struct tile_region *r, int axis) {
    return b->axes - r->buffer->ndim + axis;
}

// Writes the indices of a result, from the points of the other axes.
static void result_index(const struct tile_stmt *s, const expr *point, expr *index) {
    const struct tile_region *to = &s->region[1];
    int from_ndim = s->region[0].buffer->ndim, at = 0;
    bool keeps = to->buffer->ndim == from_ndim;
    for (int i = 0; i < to->buffer->ndim; i++) {
        bool is_axis = keeps && i == s->axis;
        at += !keeps && at == s->axis;
        expr origin = box_origin(to, i);
        index[i] = is_axis ? origin : to->origin ? ADD(origin, point[keeps ? i : at]) : point[keeps ? i : at];
        at += !keeps;
    }
}

static int dim_of_value(const struct lane_points *p, expr value) {
    for (int v = 0; v < p->names; v++)
        if (value->op == TILE_INDEX && p->name[v] == value->name)
            return v;
    return -1;
}

// Stores results, which have the layout of the folded tile, where they belong, with a change of lanes if
// necessary.
static bool put_result(struct lanes *l, const struct tile_stmt *s, const struct lane_space *space,
                       const struct lane_points *p, int variable, const struct lane_operand *sum) {
    const struct tile_buffer *result = s->region[1].buffer;
    expr to_index[TILE_DIMS];
    bool has[TILE_DIMS];
    struct lane_points points;
    struct lane_operand from, to, old;
    for (int v = 0; v < p->names; v++)
        has[v] = v != variable;
    result_index(s, space->value, to_index);
    if (!lanes_relayout(l, p, has, sum, result, to_index, &points, &from) ||
        !lanes_place(l, &points, result, to_index, &to))
        return false;
    if (s->clear)
        return lanes_move(l, &points, &to, &from);
    if (!lanes_temporary(l, &points, from.type, NULL, &old) || !lanes_move(l, &points, &old, &to))
        return false;
    bool good = is_extreme(from.type, s->combine) ? lanes_extreme(l, &points, s->combine, &old, &old, &from)
                                                  : lanes_binary(l, &points, s->combine, &old, &old, &from);
    return good && lanes_move(l, &points, &to, &old);
}

static bool reduce_in(struct lanes *l, const struct tile_stmt *s, const struct lane_space *space,
                      const struct box *b) {
    struct lane_points p = space->points, transposed;
    struct lane_operand from, sum;
    expr index[TILE_DIMS];
    box_place(&s->region[0], b, space->value, index);
    if (!lanes_near(l, &p, s->region[0].buffer, index, false, &from))
        return false;
    int variable = dim_of_value(&p, space->value[axis_of(b, &s->region[0], s->axis)]);
    if (variable < 0)
        return lanes_fail(l, "reduces at most 65535 elements of an axis in each lane, and '%s' has %lld",
                          s->region[0].buffer->text,
                          (long long)pass_number(b->size[axis_of(b, &s->region[0], s->axis)]));
    if (p.dim[variable] == LANE_C) { // no command adds across lanes
        if (!lanes_transposed(l, &p, &from, &transposed, &from))
            return false;
        p = transposed;
    }
    if (!fold(l, &p, s, p.dim[variable], &from, &sum))
        return false;
    return put_result(l, s, space, &p, variable, &sum);
}

static int lane_of_source(struct lanes *l, const struct tile_stmt *s, const struct box *b) {
    struct lane_tile tile;
    const struct tile_buffer *from = s->region[0].buffer;
    if (!lanes_is_local(from))
        return b->axes - 2;
    return lanes_tile(l, from, &tile) && tile.lane >= 0 ? axis_of(b, &s->region[0], tile.lane) : -1;
}

// Writes the variables of the other axes and their sizes. Returns their number.
static int other_axes(const struct box *b, int axis, const struct tile_name **name, expr *extent) {
    int names = 0;
    for (int i = 0; i < b->axes; i++)
        if (i != axis) {
            name[names] = b->name[i];
            extent[names++] = b->size[i];
        }
    return names;
}

// Reduces along an axis whose size is not known: a loop combines the result with the elements at one index
// after the other.
static bool reduce_by_turns(struct lanes *l, const struct tile_stmt *s, const struct box *b) {
    const struct tile_region *from = &s->region[0], *to = &s->region[1];
    int axis = axis_of(b, from, s->axis);
    const struct tile_name *name[TILE_DIMS];
    expr extent[TILE_DIMS], index[TILE_DIMS], to_index[TILE_DIMS] = {NULL};
    struct tile_type type = to->buffer->type;
    box_place(from, b, b->point, index);
    int names = other_axes(b, axis, name, extent);
    result_index(s, b->point, to_index);
    expr old = tile_load(to->buffer, to->buffer->ndim, to_index, NULL, NULL),
         x = tile_load(from->buffer, from->buffer->ndim, index, NULL, NULL);
    struct tile_stmt start = {.kind = TILE_STORE,
                              .place = s->place,
                              .buffer = to->buffer,
                              .indices = to->buffer->ndim,
                              .index = to_index,
                              .value = tile_identity_value(s->combine, type)};
    struct tile_stmt step = start;
    expr step_index[TILE_DIMS]; // a copy, because lanes_map changes a map in place
    memcpy(step_index, to_index, sizeof step_index);
    step.index = step_index;
    step.value = old && x ? tile_binary(s->combine, old, tile_cast(type, x)) : NULL;
    struct tile_stmt map = {.kind = TILE_MAP,
                            .place = s->place,
                            .indices = names,
                            .name = name,
                            .extent = extent,
                            .body = &start};
    if (s->clear && !lanes_map(l, &map))
        return false;
    map.body = &step;
    tile_open_for(b->name[axis], NULL, b->size[axis], NULL, TILE_SERIAL);
    bool good = step.value && lanes_map(l, &map);
    tile_close();
    return good;
}

// Generates a statement along an axis: opens its points, with the axis in one piece, and calls `whole`, or
// calls `by_turns` if the size of the axis is not known.
static bool along_axis(struct lanes *l, const struct tile_stmt *s,
                       bool (*whole)(struct lanes *l, const struct tile_stmt *s,
                                     const struct lane_space *space, const struct box *b),
                       bool (*by_turns)(struct lanes *l, const struct tile_stmt *s, const struct box *b)) {
    struct box b = box_of_stmt(s);
    int axis = axis_of(&b, &s->region[0], s->axis);
    struct lane_space space;
    if (pass_number(b.size[axis]) < 1)
        return by_turns(l, s, &b);
    l->whole = b.name[axis];
    bool is_open = lanes_open(l, b.axes, b.name, b.size, lane_of_source(l, s, &b), &space);
    l->whole = NULL;
    if (!is_open)
        return false;
    bool good = whole(l, s, &space, &b);
    lanes_close(&space);
    return good;
}

bool lanes_reduce(struct lanes *l, const struct tile_stmt *s) {
    return along_axis(l, s, reduce_in, reduce_by_turns);
}

// Scans -----------------------------------------------------------------------------------------------------

// Scans a tile along a dimension: each step combines elements that are `by` apart, a distance that doubles
// (Hillis and Steele).
static bool run_scan(struct lanes *l, const struct lane_points *p, const struct tile_stmt *s, int dim,
                     struct lane_operand *tile) {
    int64_t size = p->most[dim];
    for (int64_t by = 1; by < size; by *= 2) {
        struct lane_points rest = first_of(p, dim, size - by), kept = first_of(p, dim, by);
        struct lane_operand next;
        if (!lanes_temporary(l, p, tile->type, NULL, &next))
            return false;
        struct lane_operand early = *tile, late = moved(tile, dim, by), to = moved(&next, dim, by),
                            first = *tile, first_to = next;
        if (s->reverse) {
            to = next;
            first = moved(tile, dim, size - by);
            first_to = moved(&next, dim, size - by);
        }
        bool good = is_extreme(tile->type, s->combine)
                        ? lanes_extreme(l, &rest, s->combine, &to, &early, &late)
                        : lanes_binary(l, &rest, s->combine, &to, &early, &late);
        if (!good || !lanes_move(l, &kept, &first_to, &first))
            return false;
        *tile = next;
    }
    return true;
}

// Makes a scan exclusive: moves the results by one element, and sets the first to the identity of the op.
static bool make_exclusive(struct lanes *l, const struct lane_points *p, const struct tile_stmt *s, int dim,
                           struct lane_operand *tile) {
    int64_t size = p->most[dim];
    struct lane_points rest = first_of(p, dim, size - 1), one = first_of(p, dim, 1);
    struct lane_operand next;
    if (!lanes_temporary(l, p, tile->type, NULL, &next))
        return false;
    struct lane_operand from = s->reverse ? moved(tile, dim, 1) : *tile,
                        to = s->reverse ? next : moved(&next, dim, 1);
    struct lane_operand empty = s->reverse ? moved(&next, dim, size - 1) : next;
    bool good = (size == 1 || lanes_move(l, &rest, &to, &from)) &&
                lanes_fill(l, &one, &empty, tile_identity_value(s->combine, tile->type));
    *tile = next;
    return good;
}

static bool scan_in(struct lanes *l, const struct tile_stmt *s, const struct lane_space *space,
                    const struct box *b) {
    struct lane_points p = space->points, transposed;
    struct lane_operand from, tile, to;
    expr index[TILE_DIMS], to_index[TILE_DIMS];
    box_place(&s->region[0], b, space->value, index);
    box_place(&s->region[1], b, space->value, to_index);
    if (!lanes_near(l, &p, s->region[0].buffer, index, false, &from))
        return false;
    int variable = dim_of_value(&p, space->value[axis_of(b, &s->region[0], s->axis)]);
    if (variable < 0)
        return lanes_fail(l, "scans at most 65535 elements of an axis in each lane, and '%s' has %lld",
                          s->region[0].buffer->text,
                          (long long)pass_number(b->size[axis_of(b, &s->region[0], s->axis)]));
    bool transposes = p.dim[variable] == LANE_C;
    if (transposes) {
        if (!lanes_transposed(l, &p, &from, &transposed, &from))
            return false;
        p = transposed;
    }
    int dim = p.dim[variable];
    if (!lanes_temporary(l, &p, sum_type(s), NULL, &tile) || !lanes_move(l, &p, &tile, &from) ||
        !run_scan(l, &p, s, dim, &tile) || (s->exclusive && !make_exclusive(l, &p, s, dim, &tile)))
        return false;
    if (transposes) {
        if (!lanes_transposed(l, &p, &tile, &transposed, &tile))
            return false;
        p = transposed;
    }
    return lanes_place(l, &p, s->region[1].buffer, to_index, &to) && lanes_move(l, &p, &to, &tile);
}

// Scans along an axis whose size is not known: a loop computes each element from the one before it.
static bool scan_by_turns(struct lanes *l, const struct tile_stmt *s, const struct box *b) {
    const struct tile_region *from = &s->region[0], *to = &s->region[1];
    int axis = axis_of(b, from, s->axis);
    const struct tile_name *name[TILE_DIMS];
    expr extent[TILE_DIMS], point[TILE_DIMS], index[TILE_DIMS], to_index[TILE_DIMS] = {NULL},
                                                                before[TILE_DIMS];
    struct tile_type type = to->buffer->type;
    expr i = b->point[axis], last = SUB(b->size[axis], box_number(1)), one = box_number(1);
    for (int k = 0; k < b->axes; k++)
        point[k] = b->point[k];
    int names = other_axes(b, axis, name, extent);
    point[axis] = s->reverse ? SUB(last, i) : i;
    box_place(to, b, point, to_index);
    point[axis] = s->reverse ? ADD(SUB(last, i), one) : SUB(i, one);
    box_place(to, b, point, before);
    point[axis] = s->exclusive ? point[axis] : s->reverse ? SUB(last, i) : i;
    box_place(from, b, point, index);
    expr x = tile_load(from->buffer, from->buffer->ndim, index, NULL, NULL),
         old = tile_load(to->buffer, to->buffer->ndim, before, NULL, NULL);
    if (!x || !old)
        return false;
    x = tile_cast(type, x);
    struct tile_stmt first = {.kind = TILE_STORE,
                              .place = s->place,
                              .buffer = to->buffer,
                              .indices = to->buffer->ndim,
                              .index = to_index,
                              .value = s->exclusive ? tile_identity_value(s->combine, type) : x};
    struct tile_stmt later = first;
    expr later_index[TILE_DIMS]; // a copy, because lanes_map changes a map in place
    memcpy(later_index, to_index, sizeof later_index);
    later.index = later_index;
    later.value = tile_binary(s->combine, old, x);
    struct tile_stmt map = {.kind = TILE_MAP,
                            .place = s->place,
                            .indices = names,
                            .name = name,
                            .extent = extent,
                            .body = &first};
    tile_open_for(b->name[axis], NULL, b->size[axis], NULL, TILE_SERIAL);
    tile_open_if(EQ(i, box_number(0)));
    bool good = lanes_map(l, &map);
    tile_else();
    map.body = &later;
    good = good && lanes_map(l, &map);
    tile_close();
    tile_close();
    return good;
}

bool lanes_scan(struct lanes *l, const struct tile_stmt *s) {
    return along_axis(l, s, scan_in, scan_by_turns);
}
