// lanes_move.c - copies between lanes and device memory: clipped at edges, from one lane to all lanes, and
// with lanes and columns exchanged.

#include "pass/lanes.h"

static const struct tile_type i64 = {TILE_INT, 64, 1};

// Moves -----------------------------------------------------------------------------------------------------

bool lanes_fill(struct lanes *l, const struct lane_points *p, const struct lane_operand *to, expr value) {
    struct lane_call c = {0};
    bool by_dma = to->is_shifted || l->is_ahead;
    l->is_mixed |= (to->is_far || to->is_shifted) && !l->is_ahead;
    lanes_add(&c, to->address);
    lanes_add(&c, lanes_scalar(to->type, value));
    lanes_add_four(&c, p->size);
    lanes_add_four(&c, to->stride);
    lanes_add_dtype(&c, to->type);
    lanes_call(&c, to->is_far ? "tpu_gdma_set_C_system" : by_dma ? "tpu_gdma_set_C_local" : "tpu_bdc_set_C");
    return true;
}

static bool is_narrower(struct tile_type to, struct tile_type from) {
    return tile_type_is_integer(to) && tile_type_is_integer(from) && to.bits < from.bits;
}

static void cast(const struct lane_points *p, const struct lane_operand *to,
                 const struct lane_operand *from) {
    struct lane_call c = {0};
    bool is_narrow = is_narrower(to->type, from->type),
         is_whole = tile_type_is_integer(to->type) && tile_type_is_integer(from->type);
    // The command takes types of the same signedness. A wrapped integer has the same bits either way.
    struct tile_type type = is_whole ? (struct tile_type){from->type.kind, to->type.bits, 1} : to->type;
    lanes_add(&c, to->address);
    lanes_add(&c, from->address);
    if (is_narrow)
        lanes_add(&c, tile_const_int(from->type, 0));
    lanes_add_four(&c, p->size);
    lanes_add_four(&c, to->stride);
    lanes_add_four(&c, from->stride);
    lanes_add_dtype(&c, type);
    lanes_add_dtype(&c, from->type);
    if (is_narrow) {
        lanes_add_dtype(&c, from->type);
        for (int i = 0; i < 3; i++) // no shift, no rounding, no saturation
            lanes_add(&c, lanes_code(0));
        lanes_call(&c, "tpu_bdc_int_add_C");
        return;
    }
    lanes_add(&c, lanes_code(tile_type_is_integer(to->type) && tile_type_is_float(from->type) ? 2 : 0));
    lanes_call(&c, "tpu_bdc_cast");
}

// Converts an operand. Floats are rounded to the nearest float, but toward zero to an integer; integers wrap
// around.
static bool convert(struct lanes *l, const struct lane_points *p, const struct lane_operand *to,
                    const struct lane_operand *from) {
    l->is_mixed |= l->is_ahead;
    cast(p, to, from);
    return !tile_type_is_half(to->type) || !tile_type_is_float(from->type) || from->type.bits != 32 ||
           lanes_overflow(l, p, to, from);
}

static void copy(struct lanes *l, const struct lane_points *p, const struct lane_operand *to,
                 const struct lane_operand *from) {
    static const char *const by_dma[2][2] = {{"tpu_gdma_cpy_L2L", "tpu_gdma_cpy_S2L"},
                                             {"tpu_gdma_cpy_L2S", "tpu_gdma_cpy_S2S"}};
    bool moves = to->is_far || from->is_far || to->is_shifted || from->is_shifted;
    l->is_mixed |= moves != l->is_ahead;
    struct lane_call c = {0};
    lanes_add(&c, to->address);
    lanes_add(&c, from->address);
    lanes_add_four(&c, p->size);
    lanes_add_four(&c, to->stride);
    lanes_add_four(&c, from->stride);
    lanes_add_dtype(&c, to->type);
    lanes_call(&c, moves ? by_dma[to->is_far][from->is_far] : "tpu_bdc_cpy");
}

// Returns whether values of two types have the same bits, as signed and unsigned integers of one size do.
static bool have_same_bits(struct tile_type a, struct tile_type b) {
    return tile_type_equal(a, b) || (tile_type_is_integer(a) && tile_type_is_integer(b) && a.bits == b.bits);
}

bool lanes_move(struct lanes *l, const struct lane_points *p, const struct lane_operand *to,
                const struct lane_operand *from) {
    if (from->scalar && !to->is_far)
        return lanes_fill(l, p, to, from->scalar);
    if (!from->scalar && have_same_bits(to->type, from->type)) {
        copy(l, p, to, from);
        return true;
    }
    struct lane_operand middle = *from;
    if (from->scalar || from->is_far || from->is_shifted) { // first to a tile that begins in lane 0
        if (!lanes_temporary(l, p, from->scalar ? to->type : from->type, NULL, &middle) ||
            !lanes_move(l, p, &middle, from))
            return false;
        return lanes_move(l, p, to, &middle);
    }
    if (!to->is_far && !to->is_shifted)
        return convert(l, p, to, from);
    return lanes_temporary(l, p, to->type, NULL, &middle) && convert(l, p, &middle, from) &&
           lanes_move(l, p, to, &middle);
}

// Alignment -------------------------------------------------------------------------------------------------

static bool is_aligned_address(expr e) {
    if (e->op == TILE_ADD)
        return is_aligned_address(e->arg[0]) && is_aligned_address(e->arg[1]);
    return e->op == TILE_ADDRESS || pass_number(e) == 0 || pass_divisor(e) % 64 == 0;
}

static bool is_aligned(const struct lane_points *p, const struct lane_operand *o) {
    int64_t stride[LANE_DIMS];
    lanes_strides(p->most, tile_type_bytes(o->type), stride);
    for (int d = 0; d < LANE_DIMS; d++)
        if (p->most[d] > (d == LANE_C ? 64 : 1) && pass_number(o->stride[d]) != stride[d])
            return false;
    return is_aligned_address(o->address) && !o->is_shifted;
}

bool lanes_aligned(struct lanes *l, const struct lane_points *p, struct lane_operand *o) {
    struct lane_operand to;
    if (o->scalar || is_aligned(p, o))
        return true;
    if (!lanes_temporary(l, p, o->type, NULL, &to) || !lanes_move(l, p, &to, o))
        return false;
    *o = to;
    return true;
}

bool lanes_transposed(struct lanes *l, const struct lane_points *p, const struct lane_operand *from,
                      struct lane_points *transposed, struct lane_operand *out) {
    struct lane_operand source = *from;
    *transposed = *p;
    for (int i = 0; i < p->names; i++)
        transposed->dim[i] = p->dim[i] == LANE_C ? LANE_W : p->dim[i] == LANE_W ? LANE_C : p->dim[i];
    transposed->size[LANE_C] = p->size[LANE_W];
    transposed->size[LANE_W] = p->size[LANE_C];
    transposed->most[LANE_C] = p->most[LANE_W];
    transposed->most[LANE_W] = p->most[LANE_C];
    if (!lanes_aligned(l, p, &source) || !lanes_temporary(l, transposed, source.type, NULL, out))
        return false;
    struct lane_call c = {0};
    lanes_add(&c, out->address);
    lanes_add(&c, source.address);
    lanes_add_four(&c, transposed->size);
    lanes_add_dtype(&c, out->type);
    lanes_call(&c, "tpu_bdc_wc_trans");
    return true;
}

// Edges -----------------------------------------------------------------------------------------------------

static bool is_below(expr e, int64_t more, expr limit) {
    struct pass_range a = pass_range(e), b = pass_range(limit);
    return a.high != INT64_MAX && b.low != INT64_MIN && a.high + more <= b.low;
}

static bool clip_axis(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b,
                      const expr *index, int axis, struct lane_part *in) {
    expr coefficient[TILE_DIMS], rest, limit = tile_cast(i64, b->shape[axis]);
    int variable = -1, variables = 0;
    if (!lanes_affine(l, p, index[axis], coefficient, &rest))
        return true; // lanes_place reports it
    for (int v = 0; v < p->names; v++)
        if (coefficient[v]) {
            variable = v;
            variables++;
        }
    bool is_low = pass_range(rest).low >= 0;
    if (!variables) {
        in->test = is_low ? in->test : box_both(in->test, GE(rest, lanes_number(0)));
        in->test = is_below(rest, 1, limit) ? in->test : box_both(in->test, LT(rest, limit));
        return true;
    }
    int dim = p->dim[variable];
    int64_t by = pass_number(coefficient[variable]), reach = by > 0 ? (p->most[dim] - 1) * by + 1 : 0;
    if (variables > 1 || by < 1) {
        for (int v = 0; v < p->names && variables > 1; v++)
            reach += coefficient[v] ? (p->most[p->dim[v]] - 1) * MAX_OF(pass_number(coefficient[v]), 0) : 0;
        if (variables > 1 && is_low && is_below(rest, reach + 1, limit))
            return true;
        return lanes_fail(l, "cannot clip '%s' along axis %d, whose index is not one variable and an offset",
                          b->text, axis);
    }
    expr low = SUB(lanes_number(0), rest), high = SUB(limit, rest);
    if (by > 1) { // rounded up
        expr more = lanes_number(by - 1), step = lanes_number(by);
        low = FLOORDIV(ADD(low, more), step);
        high = FLOORDIV(ADD(high, more), step);
    }
    if (!is_low)
        in->from[dim] = in->from[dim] ? MAX(in->from[dim], low) : MAX(lanes_number(0), low);
    if (!is_below(rest, reach, limit))
        in->end[dim] = in->end[dim] ? MIN(in->end[dim], high) : MIN(p->size[dim], high);
    return true;
}

// Restricts a part by a comparison of integers. Returns false if that does not bound one variable: the
// difference of the sides has several variables, or one with a factor other than 1 and -1.
static bool bound_by(struct lanes *l, const struct lane_points *p, enum tile_op op, expr a, expr b,
                     struct lane_part *in) {
    expr coefficient[2][TILE_DIMS], rest[2];
    int variable = -1, sign = 0;
    if (!tile_type_is_integer(a->type) || !lanes_affine(l, p, a, coefficient[0], &rest[0]) ||
        !lanes_affine(l, p, b, coefficient[1], &rest[1]))
        return false;
    for (int v = 0; v < p->names; v++) {
        expr x = coefficient[0][v], y = coefficient[1][v];
        int64_t by = x && y ? 2 : x ? pass_number(x) : y ? (pass_number(y) == 1 ? -1 : 2) : 0;
        if (!by)
            continue;
        if (variable >= 0 || (by != 1 && by != -1))
            return false;
        variable = v;
        sign = (int)by;
    }
    expr limit = SUB(rest[1], rest[0]), one = lanes_number(1), none = lanes_number(0);
    if (variable < 0) {
        in->test = box_both(in->test, tile_binary(op, rest[0], rest[1]));
        return true;
    }
    int dim = p->dim[variable];
    if (sign < 0)
        limit = SUB(none, limit);
    bool is_below = (op == TILE_LT || op == TILE_LE) == (sign > 0),
         is_strict = op == TILE_LT || op == TILE_GT;
    if (is_below) {
        expr end = is_strict ? limit : ADD(limit, one);
        in->end[dim] = in->end[dim] ? MIN(in->end[dim], end) : MIN(p->size[dim], end);
    } else {
        expr from = is_strict ? ADD(limit, one) : limit;
        in->from[dim] = in->from[dim] ? MAX(in->from[dim], from) : MAX(none, from);
    }
    return true;
}

bool lanes_bounds(struct lanes *l, const struct lane_points *p, expr mask, bool is_not,
                  struct lane_part *in) {
    static const struct {
        enum tile_op op, opposite;
    } comparisons[] = {{TILE_LT, TILE_GE}, {TILE_GE, TILE_LT}, {TILE_GT, TILE_LE}, {TILE_LE, TILE_GT}};
    if (mask->op == TILE_NOT)
        return lanes_bounds(l, p, mask->arg[0], !is_not, in);
    if (mask->op == (is_not ? TILE_OR : TILE_AND))
        return lanes_bounds(l, p, mask->arg[0], is_not, in) && lanes_bounds(l, p, mask->arg[1], is_not, in);
    for (size_t i = 0; i < COUNT(comparisons); i++)
        if (mask->op == comparisons[i].op)
            return bound_by(l, p, is_not ? comparisons[i].opposite : mask->op, mask->arg[0], mask->arg[1],
                            in);
    if (!lanes_is_uniform(l, p, mask))
        return false;
    in->test = box_both(in->test, lanes_control(l, is_not ? NOT(mask) : mask));
    return true;
}

bool lanes_inside(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b,
                  const expr *index, struct lane_part *in) {
    for (int i = 0; i < b->ndim; i++)
        if (!clip_axis(l, p, b, index, i, in))
            return false;
    return true;
}

static bool is_clipped(const struct lane_part *in) {
    bool is = in->test;
    for (int d = 0; d < LANE_DIMS; d++)
        is |= in->from[d] || in->end[d];
    return is;
}

// Returns the bytes by which the address of an operand advances over `by` points along a dimension.
static expr advance(const struct lane_operand *o, int dim, expr by) {
    expr bytes = lanes_number(tile_type_bytes(o->type));
    if (dim != LANE_C || o->is_far)
        return MUL(MUL(by, o->stride[dim]), bytes);
    expr lanes = lanes_number(64);
    return ADD(MUL(REM(by, lanes), lanes_number(256 << 10)),
               MUL(MUL(FLOORDIV(by, lanes), o->stride[dim]), bytes));
}

static const struct tile_name *variable(const char *prefix, expr value) {
    const struct tile_name *name = box_local(prefix, i64);
    tile_assign(name, value);
    return name;
}

bool lanes_move_part(struct lanes *l, const struct lane_points *p, struct lane_operand to,
                     struct lane_operand from, const struct lane_part *in) {
    struct lane_points part = *p;
    expr some = in->test;
    for (int d = 0; d < LANE_DIMS; d++) {
        if (!in->from[d] && !in->end[d])
            continue;
        expr end = in->end[d] ? in->end[d] : p->size[d];
        if (in->from[d]) {
            expr first = box_local_value(variable("first", in->from[d]));
            to.address = ADD(to.address, advance(&to, d, first));
            from.address = ADD(from.address, advance(&from, d, first));
            to.is_shifted |= d == LANE_C;
            from.is_shifted |= d == LANE_C;
            end = SUB(end, first);
        }
        part.size[d] = box_local_value(variable("count", end));
        some = box_both(some, GT(part.size[d], lanes_number(0)));
    }
    box_open_if(some);
    bool good = lanes_move(l, &part, &to, &from);
    box_close_if(some);
    return good;
}

// Loads -----------------------------------------------------------------------------------------------------

// Which variables occur in the indices of a buffer, and which of them in the index of the axis across the
// lanes.
struct uses {
    bool has[TILE_DIMS];
    int lane;       // the variable in the index of that axis; -1: none
    bool elsewhere; // the points' variable across the lanes occurs in the index of another axis
    bool is_odd;    // the index of that axis has several variables, or a scaled one
};

static bool find_uses(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b,
                      const struct lane_tile *tile, const expr *index, struct uses *out) {
    *out = (struct uses){.lane = -1};
    for (int i = 0; i < b->ndim; i++) {
        expr coefficient[TILE_DIMS], rest;
        if (!lanes_index(l, p, b, index, i, coefficient, &rest))
            return false;
        for (int v = 0; v < p->names; v++) {
            if (!coefficient[v])
                continue;
            out->has[v] = true;
            out->elsewhere |= i != tile->lane && p->dim[v] == LANE_C;
            if (i == tile->lane) {
                out->is_odd |= out->lane >= 0 || pass_number(coefficient[v]) != 1;
                out->lane = v;
            }
        }
    }
    return true;
}

static int lane_variable(const struct lane_points *p) {
    for (int v = 0; v < p->names; v++)
        if (p->dim[v] == LANE_C)
            return v;
    return -1;
}

bool lanes_some_points(const struct lane_points *p, const bool *has, int lane, int column,
                       struct lane_points *out) {
    int next = LANE_H;
    *out = (struct lane_points){.names = p->names};
    for (int d = 0; d < LANE_DIMS; d++) {
        out->size[d] = lanes_number(1);
        out->most[d] = 1;
    }
    for (int v = p->names - 1; v >= 0; v--) {
        out->name[v] = p->name[v];
        out->dim[v] = -1;
        if (!has[v])
            continue;
        int dim = v == lane ? LANE_C : v == column ? LANE_W : next;
        if (dim < 0)
            return false;
        next = dim != next ? next : next == LANE_H ? LANE_N : -1;
        out->dim[v] = dim;
        out->size[dim] = p->size[p->dim[v]];
        out->most[dim] = p->most[p->dim[v]];
    }
    return true;
}

// Extends an operand of some points to all points, with stride 0 along the other dimensions.
static void widen(const struct lane_points *p, const struct lane_points *some, struct lane_operand *o) {
    expr stride[LANE_DIMS];
    for (int d = 0; d < LANE_DIMS; d++)
        stride[d] = lanes_number(0);
    for (int v = 0; v < p->names; v++)
        if (some->dim[v] >= 0)
            stride[p->dim[v]] = o->stride[some->dim[v]];
    for (int d = 0; d < LANE_DIMS; d++)
        o->stride[d] = stride[d];
}

// Copies an operand that is in one lane to all lanes of the points.
static bool to_all_lanes(struct lanes *l, const struct lane_points *p, const struct lane_points *some,
                         struct lane_operand *o) {
    struct lane_points all = *some;
    struct lane_operand to, from = *o;
    int64_t lanes = MIN_OF(p->most[LANE_C], 64);
    bool shifted = from.is_shifted;
    from.is_shifted = false; // the broadcast reads from any lane
    if (!is_aligned(some, &from)) {
        from.is_shifted = shifted;
        if (!lanes_temporary(l, some, from.type, NULL, &to) || !lanes_move(l, some, &to, &from))
            return false;
        from = to;
    }
    all.most[LANE_C] = lanes;
    all.size[LANE_C] = p->most[LANE_C] > 64 ? lanes_number(64) : p->size[LANE_C];
    if (!lanes_temporary(l, &all, from.type, NULL, &to))
        return false;
    struct lane_call c = {0};
    lanes_add(&c, to.address);
    lanes_add(&c, from.address);
    lanes_add_four(&c, all.size);
    lanes_add_dtype(&c, to.type);
    lanes_call(&c, "tpu_bdc_npu_bcast");
    *o = to;
    return true;
}

static int last_of(const struct lane_points *p, const bool *has, int but) {
    for (int v = p->names - 1; v >= 0; v--)
        if (has[v] && v != but)
            return v;
    return -1;
}

// Copies a tile, in which another variable than that of the points is across the lanes, to the layout of the
// points: exchanges lanes and columns, and broadcasts to all lanes, where necessary.
static bool near_by_lanes(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b,
                          const expr *index, const struct uses *u, struct lane_operand *out) {
    int mine = lane_variable(p);
    bool transposes = u->lane != mine && (u->lane >= 0 || u->elsewhere);
    int column = transposes ? (u->elsewhere ? mine : -1) : last_of(p, u->has, u->lane);
    struct lane_points some, transposed;
    struct lane_operand from;
    if (u->is_odd || !lanes_some_points(p, u->has, u->lane, column, &some) ||
        !lanes_place(l, &some, b, index, &from))
        return u->is_odd || !zl_error()
                   ? lanes_fail(l,
                                "cannot read '%s' so: the axis across the lanes has an index that is not one "
                                "loop variable and an offset",
                                b->text)
                   : false;
    if (transposes) {
        if (!lanes_transposed(l, &some, &from, &transposed, &from))
            return false;
        some = transposed;
    }
    bool is_everywhere = mine < 0 || (u->has[mine] && some.dim[mine] == LANE_C);
    if (!is_everywhere && !to_all_lanes(l, p, &some, &from))
        return false;
    if (mine < 0 && from.is_shifted) { // move it to lane 0
        struct lane_operand to;
        if (!lanes_temporary(l, &some, from.type, NULL, &to) || !lanes_move(l, &some, &to, &from))
            return false;
        from = to;
    }
    *out = from;
    widen(p, &some, out);
    return true;
}

static bool fetch(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b,
                  const expr *index, bool clips, struct lane_operand *out) {
    bool along[LANE_DIMS] = {false, true, false, false};
    struct lane_tile none = {.lane = -1};
    struct uses u;
    struct lane_operand from;
    struct lane_part in = {.test = NULL};
    struct lane_points part = *p;
    if (!find_uses(l, p, b, &none, index, &u) || !lanes_place(l, p, b, index, &from))
        return false;
    for (int v = 0; v < p->names; v++)
        along[p->dim[v]] |= u.has[v];
    for (int d = 0; d < LANE_DIMS; d++)
        if (!along[d]) {
            part.size[d] = lanes_number(1);
            part.most[d] = 1;
        }
    if (!lanes_temporary(l, p, from.type, along, out))
        return false;
    for (int i = 0; clips && i < b->ndim; i++)
        if (!clip_axis(l, p, b, index, i, &in))
            return false;
    if (!is_clipped(&in))
        return lanes_move(l, &part, out, &from);
    return lanes_fill(l, &part, out, tile_const(from.type, 0)) && lanes_move_part(l, &part, *out, from, &in);
}

bool lanes_fits(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b, const expr *index,
                bool *fits) {
    struct lane_tile tile;
    struct uses u;
    *fits = !lanes_is_local(b);
    if (*fits)
        return true;
    if (!lanes_tile(l, b, &tile) || !find_uses(l, p, b, &tile, index, &u))
        return false;
    *fits = u.lane == lane_variable(p) && !u.elsewhere && !u.is_odd;
    return true;
}

bool lanes_relayout(struct lanes *l, const struct lane_points *p, const bool *has,
                    const struct lane_operand *from, const struct tile_buffer *b, const expr *to_index,
                    struct lane_points *points, struct lane_operand *out) {
    expr index[LANE_DIMS];
    int lane = -1, column = -1;
    struct lane_tile tile = {.lane = -1};
    if (lanes_is_local(b) && !lanes_tile(l, b, &tile))
        return false;
    for (int d = 0; d < LANE_DIMS; d++)
        index[d] = box_number(0);
    for (int v = 0; v < p->names; v++) {
        if (!has[v])
            continue;
        index[p->dim[v]] = box_point(p->name[v]);
        bool is_lane = lanes_is_local(b) ? tile.lane >= 0 && pass_depends(to_index[tile.lane], p->name[v])
                                         : p->dim[v] == LANE_C;
        lane = is_lane ? v : lane;
    }
    for (int v = 0; v < p->names; v++)
        column = has[v] && v != lane ? v : column;
    if (!lanes_some_points(p, has, lane, column, points))
        return lanes_fail(l, "takes tiles of at most 4 axes");
    return lanes_near(l, points, from->address->buffer, index, false, out);
}

bool lanes_near(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b, const expr *index,
                bool clips, struct lane_operand *out) {
    struct lane_tile tile;
    struct uses u;
    if (!lanes_is_local(b))
        return fetch(l, p, b, index, clips, out);
    if (!lanes_tile(l, b, &tile) || !find_uses(l, p, b, &tile, index, &u))
        return false;
    bool fits = u.lane == lane_variable(p) && !u.elsewhere && !u.is_odd;
    if (fits && lanes_place(l, p, b, index, out) && !out->is_shifted)
        return true;
    if (fits && out->address) { // move it to lane 0
        struct lane_operand from = *out;
        return lanes_temporary(l, p, from.type, NULL, out) && lanes_move(l, p, out, &from);
    }
    return near_by_lanes(l, p, b, index, &u, out);
}

// Statements ------------------------------------------------------------------------------------------------

// Returns which of a box's variables is across the lanes in a tile; -1: none.
static int lane_of(struct lanes *l, const struct box *b, const struct tile_region *r, const expr *index) {
    struct lane_tile tile;
    if (!lanes_is_local(r->buffer) || !lanes_tile(l, r->buffer, &tile) || tile.lane < 0)
        return -1;
    for (int i = 0; i < b->axes; i++)
        if (pass_depends(index[tile.lane], b->name[i]))
            return i;
    return -1;
}

static bool copy_in_space(struct lanes *l, const struct tile_stmt *s, const struct lane_space *space,
                          const struct box *b) {
    const struct tile_region *from = &s->region[0], *to = &s->region[1];
    const struct lane_points *p = &space->points;
    expr from_index[TILE_DIMS], to_index[TILE_DIMS];
    struct lane_operand source, target;
    struct lane_part in = {.test = NULL};
    box_place(from, b, space->value, from_index);
    box_place(to, b, space->value, to_index);
    bool is_near = lanes_is_local(from->buffer);
    if (is_near ? !lanes_near(l, p, from->buffer, from_index, false, &source)
                : !lanes_place(l, p, from->buffer, from_index, &source))
        return false;
    if (!lanes_place(l, p, to->buffer, to_index, &target))
        return false;
    for (int i = 0; i < from->buffer->ndim; i++)
        if (!clip_axis(l, p, from->buffer, from_index, i, &in))
            return false;
    if (is_clipped(&in) && !lanes_is_local(to->buffer)) { // through a tile, in which elements outside are 0
        if (s->value)
            return lanes_fail(l, "cannot copy from beyond the edges of '%s' to '%s': copy it to a tile first",
                              from->buffer->text, to->buffer->text);
        in = (struct lane_part){.test = NULL};
        if (!lanes_near(l, p, from->buffer, from_index, true, &source))
            return false;
    }
    expr outside = s->value ? s->value : tile_const(target.type, 0);
    if (is_clipped(&in) && !lanes_fill(l, p, &target, outside))
        return false;
    for (int i = 0; i < to->buffer->ndim; i++)
        if (!clip_axis(l, p, to->buffer, to_index, i, &in))
            return false;
    return is_clipped(&in) ? lanes_move_part(l, p, target, source, &in) : lanes_move(l, p, &target, &source);
}

bool lanes_copy(struct lanes *l, const struct tile_stmt *s) {
    struct box b = box_of_stmt(s);
    expr index[TILE_DIMS];
    struct lane_space space;
    box_place(&s->region[1], &b, b.point, index);
    int lane = lane_of(l, &b, &s->region[1], index);
    if (lane < 0) {
        box_place(&s->region[0], &b, b.point, index);
        lane = lanes_is_local(s->region[1].buffer) ? -1 : lane_of(l, &b, &s->region[0], index);
    }
    bool is_far = !lanes_is_local(s->region[0].buffer) && !lanes_is_local(s->region[1].buffer);
    if (is_far && b.axes > 1 && !tile_type_equal(s->region[0].buffer->type, s->region[1].buffer->type))
        lane = b.axes - 2; // all lanes convert
    if (!lanes_open(l, b.axes, b.name, b.size, lane, &space))
        return false;
    l->is_ahead = s->is_async;
    bool good = copy_in_space(l, s, &space, &b);
    l->is_ahead = false;
    lanes_close(&space);
    return good;
}

bool lanes_fill_region(struct lanes *l, const struct tile_stmt *s) {
    struct box b = box_of_stmt(s);
    expr index[TILE_DIMS];
    struct lane_space space;
    struct lane_operand to;
    box_place(&s->region[1], &b, b.point, index);
    if (!lanes_open(l, b.axes, b.name, b.size, lane_of(l, &b, &s->region[1], index), &space))
        return false;
    box_place(&s->region[1], &b, space.value, index);
    if (!lanes_is_uniform(l, &space.points, s->value))
        return lanes_fail(l, "fills with a number that the control program has");
    bool good = lanes_place(l, &space.points, s->region[1].buffer, index, &to) &&
                lanes_fill(l, &space.points, &to, lanes_control(l, s->value));
    lanes_close(&space);
    return good;
}
