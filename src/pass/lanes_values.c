// lanes_values.c - computes formulas at the points of a map: loads, loop variables, and ops on them.
//
// Indices of arrays are computed in 32 bits.

#include "pass/lanes.h"

static const struct tile_type i32 = {TILE_INT, 32, 1}, u8 = {TILE_UINT, 8, 1};

// Leaves ----------------------------------------------------------------------------------------------------

// Makes a tile of 0, 1, 2, ... along the dimension of a variable, which may be across the lanes.
static bool sequence(struct lane_work *w, int variable, struct lane_operand *out) {
    int dim = w->p->dim[variable];
    bool along[LANE_DIMS] = {false, true, false, false};
    struct lane_points one = *w->p;
    struct lane_call c = {0};
    for (int d = 0; d < LANE_DIMS; d++)
        if (d != LANE_C) {
            one.size[d] = lanes_number(1);
            one.most[d] = 1;
        }
    if (dim == LANE_C) {
        if (!lanes_temporary(w->l, &one, i32, along, out))
            return false;
        lanes_add(&c, out->address);
        lanes_add(&c, lanes_code(0));
        lanes_add(&c, lanes_code(1));
        lanes_add(&c, w->p->size[LANE_C]);
        lanes_call(&c, "tpu_bdc_arithmetic_sequence_distribute_aligned");
        for (int d = 0; d < LANE_DIMS; d++)
            out->stride[d] = d == LANE_C ? out->stride[d] : lanes_number(0);
        return true;
    }
    one.most[LANE_C] = MIN_OF(w->p->most[LANE_C], 64);
    one.size[LANE_W] = w->p->size[dim];
    one.most[LANE_W] = w->p->most[dim];
    if (!lanes_temporary(w->l, &one, i32, NULL, out))
        return false;
    lanes_add(&c, out->address);
    lanes_add(&c, lanes_number(one.most[LANE_C]));
    lanes_add(&c, lanes_code(0));
    lanes_add(&c, lanes_code(1));
    lanes_add(&c, one.size[LANE_W]);
    lanes_call(&c, "tpu_bdc_arithmetic_sequence_bcast");
    for (int d = 0; d < LANE_DIMS; d++)
        out->stride[d] = lanes_number(d == dim);
    return true;
}

int lanes_variable(const struct lane_work *w, const struct tile_name *name) {
    for (int i = 0; i < w->l->variables; i++)
        if (w->l->variable[i] == name)
            return i;
    return -1;
}

static bool load(struct lane_work *w, expr e, struct lane_operand *out) {
    struct lane_operand mask, other, found;
    bool clips = e->args || w->mask; // where a mask is false, indices may be outside
    struct lane_operand *to = e->args ? &found : out;
    int axis = lanes_gather_axis(w->l, w->p, e);
    if (!(axis >= 0 ? lanes_gather(w, e, axis, clips, to)
                    : lanes_near(w->l, w->p, e->buffer, e->index, clips, to)))
        return false;
    if (!e->args)
        return true;
    return lanes_evaluate(w, e->arg[0], NULL, &mask) && lanes_evaluate(w, e->arg[1], NULL, &other) &&
           lanes_select(w, mask, found, other, e->type, out);
}
// Values ----------------------------------------------------------------------------------------------------
// Compares integers of 64 bits that depend on loop variables: computes the part that varies over the points
// in 32 bits, and compares it with the rest, which the control program has. Sets *is_done to whether e is
// such a comparison.
static bool compare_places(struct lane_work *w, expr e, struct lane_operand *to, bool *is_done) {
    expr coefficient[2][TILE_DIMS], rest[2], sum = NULL;
    struct lane_operand tile, number = {.type = i32};
    *is_done = false;
    if (!lanes_is_comparison(e->op) || e->arg[0]->type.kind != TILE_INT || e->arg[0]->type.bits != 64)
        return true;
    for (int i = 0; i < 2; i++)
        if (!lanes_affine(w->l, w->p, e->arg[i], coefficient[i], &rest[i]))
            return true;
    for (int v = 0; v < w->p->names; v++) {
        expr a = coefficient[0][v], b = coefficient[1][v], by = !b ? a : SUB(a ? a : lanes_number(0), b);
        if (!by)
            continue;
        expr term = MUL(tile_cast(i32, tile_name_value(w->p->name[v], TILE_INDEX)), tile_cast(i32, by));
        sum = sum ? ADD(sum, term) : term;
    }
    if (!sum)
        return true;
    *is_done = true;
    expr limit = MAX(MIN(SUB(rest[1], rest[0]), lanes_number(INT32_MAX)), lanes_number(INT32_MIN));
    number.scalar = tile_cast(i32, limit);
    return lanes_evaluate(w, sum, NULL, &tile) && lanes_temporary(w->l, w->p, u8, NULL, to) &&
           lanes_compare_integers(w->l, w->p, e->op, to, tile, number);
}
// Returns whether an expression converts a loaded integer to at most 32 bits. A load of 64 bits then loads
// only the lower half.
static bool is_lower_half(expr e) {
    return e->op == TILE_CAST && tile_type_is_integer(e->type) && e->type.bits <= 32 &&
           e->arg[0]->op == TILE_LOAD;
}
static bool compute_node(struct lane_work *w, expr e, const struct lane_operand *wanted,
                         struct lane_operand *out) {
    struct lane_operand x[3];
    bool is_done;
    if (!compare_places(w, e, out, &is_done) || is_done)
        return is_done && out->address;
    for (int i = 0; i < e->args; i++)
        if (!(is_lower_half(e) ? load(w, e->arg[0], &x[0]) : lanes_evaluate(w, e->arg[i], NULL, &x[i])))
            return false;
    if (e->op == TILE_CAST && tile_type_equal(x[0].type, lanes_type(e->type))) {
        *out = x[0];
        return true;
    }
    if (!lanes_compute_apart(w, e, x, out, &is_done) || is_done)
        return is_done && out->address;
    struct tile_type type = lanes_type(e->type);
    if (wanted && tile_type_equal(wanted->type, type))
        *out = *wanted;
    else if (!lanes_temporary(w->l, w->p, type, NULL, out))
        return false;
    return e->op == TILE_CAST ? lanes_move(w->l, w->p, out, &x[0]) : lanes_compute(w, e, x, out);
}

// Returns whether a node may have any value of 64 bits, unlike indices of arrays, which are computed in 32
// bits.
static bool is_no_place(expr e, const void *data) {
    (void)data;
    bool is_any = e->op == TILE_LOCAL && e->name->high == INT64_MAX; // others count points
    return e->op == TILE_LOAD || is_any || e->op == TILE_SCALAR || e->op == TILE_SHL || e->op == TILE_BITCAST;
}

static bool fits(expr e) {
    struct pass_range r = pass_certain_range(e);
    return !tile_type_is_integer(e->type) || e->type.bits < 64 || !pass_any(e, is_no_place, NULL) ||
           (r.low >= INT32_MIN && r.high <= INT32_MAX);
}

static bool is_uniform(const struct lane_work *w, expr e) {
    return lanes_is_uniform(w->l, w->p, e);
}

static bool reads(expr e, const void *data) {
    (void)data;
    return e->op == TILE_LOAD;
}

// Counts down the number of nodes that may still be visited. Returns whether there are more.
static bool counts_down(expr e, const void *data) {
    (void)e;
    return --*(int *)(uintptr_t)data < 0;
}

// Returns whether a formula has too many nodes for the control program to compute it from elements that it
// reads.
static bool is_long(expr e) {
    enum { LONG = 60 };
    int left = LONG;
    return pass_any(e, counts_down, &left);
}

bool lanes_evaluate(struct lane_work *w, expr e, const struct lane_operand *wanted,
                    struct lane_operand *out) {
    *out = (struct lane_operand){.type = lanes_type(e->type)};
    bool is_place = tile_type_is_bool(e->type) || (tile_type_is_integer(e->type) && e->type.bits == 64);
    if (is_uniform(w, e) && ((is_place && !is_long(e)) || !pass_any(e, reads, NULL))) {
        out->scalar = lanes_control(w->l, e);
        return out->scalar;
    }
    for (int i = 0; i < w->values; i++)
        if (w->node[i] == e) {
            *out = w->value[i];
            return true;
        }
    bool good = false;
    if (!fits(e))
        return lanes_fail(w->l, "computes with 32 bits, and %s of %s may need more", tile_op_name(e->op),
                          tile_type_name(e->type));
    if (e->op == TILE_INDEX) {
        for (int i = 0; i < w->p->names; i++)
            if (w->p->name[i] == e->name)
                good = sequence(w, i, out);
    } else if (e->op == TILE_LOCAL) {
        *out = w->variable[lanes_variable(w, e->name)];
        return true;
    } else if (e->op == TILE_LOAD) {
        good = load(w, e, out);
    } else {
        good = compute_node(w, e, wanted, out);
    }
    if (good && w->values == LANE_VALUES)
        return lanes_fail(w->l, "takes formulas of at most %d steps", LANE_VALUES);
    if (good) {
        w->node[w->values] = e;
        w->value[w->values++] = *out;
    }
    return good;
}
