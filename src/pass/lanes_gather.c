// lanes_gather.c - generates the commands of loads whose indices are in tiles.
//
//     map i in 64, j in 100 { t[i, j] = x[which[i], j] }
//
// is one command, tpu_gdma_h_gather_S2L, if x is in device memory. The command takes one index per lane and
// position along h, and copies one row for each; rows outside of x are 0. Where indices differ along w, each
// row has one element. If x is in the lanes, tpu_bdc_batch_bcast_w_gather takes columns of a tile, of which
// each lane has a row of its own, or all lanes have the same row.

#include "pass/lanes.h"

static const struct tile_type i32 = {TILE_INT, 32, 1};

enum { MOST_ROWS = 65535 }; // of a table: the most that a command takes

// Whether it may be done ------------------------------------------------------------------------------------

// Returns the dimensions of the variables that an index depends on, as bits.
static int dims_in(int names, const struct tile_name *const *name, const int *dim, expr index) {
    int found = 0;
    for (int i = 0; i < names; i++)
        if (dim[i] < LANE_DIMS && pass_depends(index, name[i]))
            found |= 1 << dim[i];
    return found;
}

static bool assigns(const struct tile_stmt *s, const void *name) {
    return (s->kind == TILE_ASSIGN && s->name[0] == name) || s->old == name;
}

// Returns whether a node is a variable that the points of a map assign. Other variables belong to the control
// program and are the same at all points.
static bool is_of_points(expr e, const void *body) {
    return e->op == TILE_LOCAL && pass_find(body, assigns, e->name);
}

// Returns whether a node is a variable of 64 bits, which tiles cannot hold.
static bool is_wide_name(expr e, const void *data) {
    (void)data;
    return e->op == TILE_LOCAL && e->type.bits == 64;
}

// Returns whether an axis is the last one of a tile of at most two axes: columns are all that a command
// gathers there.
static bool is_of_columns(expr load, int axis) {
    int ndim = load->buffer->ndim;
    return axis == ndim - 1 && ndim <= 2 && pass_number(load->buffer->shape[axis]) <= MOST_ROWS;
}

bool lanes_can_gather(const struct tile_stmt *map, int lane, expr load, int axis) {
    int dim[TILE_DIMS], others = 0, lines = 0;
    bool is_local = lanes_is_local(load->buffer), is_wide = pass_any(load->index[axis], is_wide_name, NULL);
    lanes_dims(map->indices, map->extent, lane, dim);
    if (load->buffer->type.bits == 64 || is_wide || (is_local && !is_of_columns(load, axis)))
        return false;
    for (int i = 0; i < map->indices; i++) {
        if (dim[i] < 0 || dim[i] == LANE_N)
            return false;
        lines |= dim[i] == LANE_H;
    }
    for (int i = 0; i < load->indices; i++) {
        if (i != axis && pass_range(load->index[i]).low < 0)
            return false;
        others |= i == axis ? 0 : dims_in(map->indices, map->name, dim, load->index[i]);
    }
    bool by_element = (dims_in(map->indices, map->name, dim, load->index[axis]) & 1 << LANE_W) ||
                      pass_any(load->index[axis], is_of_points, map->body);
    if (is_local)
        return !lines && !(others & ~(1 << LANE_C));
    return by_element ? !lines && !(others & 1 << LANE_W) : !(others & 1 << LANE_H);
}

int lanes_gather_axis(const struct lanes *l, const struct lane_points *p, expr load) {
    for (int i = 0; i < load->indices; i++)
        if (!lanes_has_strides(l, p, load->index[i]))
            return i;
    return -1;
}

// Indices ---------------------------------------------------------------------------------------------------

// Returns an index computed in 32 bits, which suffice for an index inside of the table.
static expr narrow(const struct lane_work *w, expr e) {
    if (!tile_type_is_integer(e->type) || e->type.bits < 64 || lanes_is_uniform(w->l, w->p, e))
        return tile_cast(i32, e);
    bool is_sum = e->op == TILE_ADD || e->op == TILE_SUB || e->op == TILE_MUL || e->op == TILE_MIN ||
                  e->op == TILE_MAX || e->op == TILE_FLOORDIV || e->op == TILE_REM || e->op == TILE_AND;
    if (is_sum)
        return tile_binary(e->op, narrow(w, e->arg[0]), narrow(w, e->arg[1]));
    if (e->op == TILE_SELECT)
        return tile_ternary(e->op, e->arg[0], narrow(w, e->arg[1]), narrow(w, e->arg[2]));
    return e->op == TILE_CAST && tile_type_is_integer(e->arg[0]->type) ? narrow(w, e->arg[0])
                                                                       : tile_cast(i32, e);
}

// Makes an aligned tile of the indices along the dimensions that `along` marks.
static bool find_indices(struct lane_work *w, expr index, const bool *along, struct lane_operand *out) {
    struct lane_operand found;
    struct lane_points some = *w->p;
    for (int d = 0; d < LANE_DIMS; d++)
        if (!along[d]) {
            some.size[d] = lanes_number(1);
            some.most[d] = 1;
        }
    return lanes_evaluate(w, narrow(w, index), NULL, &found) &&
           lanes_temporary(w->l, w->p, i32, along, out) && lanes_move(w->l, &some, out, &found);
}

// Of device memory ------------------------------------------------------------------------------------------

struct gather {
    struct lane_operand out, table, index;
    bool by_element;
    expr row;             // elements from one row of the table to the next
    expr size[LANE_DIMS]; // of the result
};

static void take_rows(const struct gather *g, const struct lane_operand *out, expr index, expr table,
                      expr rows) {
    expr one = lanes_number(1), none = lanes_number(0);
    struct lane_call c = {0};
    lanes_add(&c, out->address);
    lanes_add(&c, table);
    lanes_add(&c, index);
    lanes_add(&c, lanes_code(1)); // the index is in the lanes
    lanes_add(&c, tile_const(out->type, 0));
    lanes_add_four(&c, g->by_element ? (expr[]){one, g->size[LANE_C], g->size[LANE_W], one}
                                     : (expr[]){one, g->size[LANE_C], g->size[LANE_H], g->size[LANE_W]});
    lanes_add(&c, rows);
    lanes_add_four(&c, (expr[]){none, out->stride[LANE_C], g->by_element ? one : out->stride[LANE_H], one});
    lanes_add_four(&c, (expr[]){none, g->table.stride[LANE_C], g->row,
                                pass_number(g->table.stride[LANE_W]) == 0 ? one : g->table.stride[LANE_W]});
    lanes_add_four(&c, (expr[]){none, g->index.stride[LANE_C], one, one});
    lanes_add_dtype(&c, out->type);
    lanes_call(&c, "tpu_gdma_h_gather_S2L");
}

// Gathers from a table with more rows than a command accepts, one part of it at a time: indices outside a
// part give 0, and the results of all parts are combined bit by bit.
static bool take_parts(struct lanes *l, const struct lane_points *p, const bool *along,
                       const struct gather *g, expr rows) {
    struct tile_type bits = {TILE_UINT, g->out.type.bits, 1};
    struct lane_operand part, own, out = g->out, later, base = {.type = i32};
    expr most = lanes_number(MOST_ROWS);
    int64_t bytes = tile_type_bytes(g->out.type);
    take_rows(g, &g->out, g->index.address, g->table.address, MIN(rows, most));
    if (pass_range(rows).high <= MOST_ROWS)
        return true;
    const struct tile_name *first = box_variable(rows);
    tile_open_for(first, tile_cast(tile_index_type(), most), tile_cast(tile_index_type(), rows),
                  tile_cast(tile_index_type(), most), TILE_SERIAL);
    expr from = tile_cast((struct tile_type){TILE_INT, 64, 1}, box_point(first));
    base.scalar = tile_cast(i32, from);
    bool good = lanes_temporary(l, p, g->out.type, along, &part) &&
                lanes_temporary(l, p, i32, NULL, &later) &&
                lanes_binary(l, p, TILE_SUB, &later, &g->index, &base);
    for (int d = 0; good && d < LANE_DIMS; d++)
        later.stride[d] = g->index.stride[d];
    if (good)
        take_rows(g, &part, later.address, ADD(g->table.address, MUL(MUL(from, g->row), lanes_number(bytes))),
                  MIN(SUB(rows, from), most));
    own = part;
    own.type = out.type = bits;
    good = good && lanes_binary(l, p, TILE_OR, &out, &out, &own);
    tile_close();
    return good;
}

// Restricts a gather to where the indices along the other axes are inside of the table. Returns the condition
// for there being any such point, or NULL if there always is.
static expr clip(const struct lane_part *in, struct gather *g) {
    expr some = in->test;
    for (int d = 0; d < LANE_DIMS; d++)
        if (in->end[d]) {
            const struct tile_name *count = box_local("count", lanes_number(0)->type);
            tile_assign(count, in->end[d]);
            g->size[d] = box_local_value(count);
            some = box_both(some, GT(g->size[d], lanes_number(0)));
        }
    return some;
}

static bool is_variable(expr e, const void *work) {
    return e->op == TILE_LOCAL && lanes_variable(work, e->name) >= 0;
}

static bool gather_far(struct lane_work *w, expr load, int axis, bool clips, struct lane_operand *out) {
    const struct lane_points *p = w->p;
    const struct tile_buffer *b = load->buffer;
    int own = dims_in(p->names, p->name, p->dim, load->index[axis]), others = 0;
    struct gather g = {.by_element = (own & 1 << LANE_W) || pass_any(load->index[axis], is_variable, w)};
    bool of_index[LANE_DIMS] = {false, true, own & 1 << LANE_H, g.by_element}, along[LANE_DIMS];
    expr index[TILE_DIMS];
    struct lane_part in = {.test = NULL};
    struct lane_points some = *p;
    for (int i = 0; i < b->ndim; i++) {
        index[i] = i == axis ? tile_const_int(load->index[i]->type, 0) : load->index[i];
        others |= i == axis ? 0 : dims_in(p->names, p->name, p->dim, load->index[i]);
    }
    for (int d = 0; d < LANE_DIMS; d++) {
        along[d] = of_index[d] || (others & 1 << d);
        g.size[d] = along[d] ? p->size[d] : lanes_number(1);
        some.size[d] = g.size[d];
        some.most[d] = along[d] ? p->most[d] : 1;
    }
    g.row = lanes_far_stride(b, axis);
    if (!find_indices(w, load->index[axis], of_index, &g.index) ||
        !lanes_place(w->l, p, b, index, &g.table) || !lanes_temporary(w->l, p, g.table.type, along, &g.out) ||
        (clips && !lanes_inside(w->l, p, b, index, &in)))
        return false;
    w->l->is_mixed = true;
    expr inside = clip(&in, &g), rows = tile_cast(lanes_number(0)->type, b->shape[axis]);
    if (inside && !lanes_fill(w->l, &some, &g.out, tile_const(g.out.type, 0)))
        return false;
    box_open_if(inside);
    bool good = take_parts(w->l, &some, along, &g, rows);
    box_close_if(inside);
    *out = g.out;
    return good;
}

// Of a tile -------------------------------------------------------------------------------------------------

// Sets *out to the row of the tile that each lane needs, or to the one row that all lanes need.
static bool find_table(struct lane_work *w, expr load, int axis, bool is_repeated, struct lane_operand *out) {
    struct lane_points table = {.names = 0};
    expr index[TILE_DIMS], width = load->buffer->shape[axis];
    const struct tile_name *column = box_variable(width);
    for (int d = 0; d < LANE_DIMS; d++) {
        table.size[d] = d == LANE_C ? w->p->size[d] : lanes_number(d == LANE_W ? pass_number(width) : 1);
        table.most[d] = d == LANE_C ? w->p->most[d] : pass_number(table.size[d]);
    }
    for (int v = 0; v < w->p->names; v++)
        if (w->p->dim[v] == LANE_C) {
            table.name[table.names] = w->p->name[v];
            table.dim[table.names++] = LANE_C;
        }
    table.name[table.names] = column;
    table.dim[table.names++] = LANE_W;
    for (int i = 0; i < load->indices; i++)
        index[i] = i == axis ? box_point(column) : load->index[i];
    return lanes_near(w->l, &table, load->buffer, index, false, out) &&
           (is_repeated || lanes_aligned(w->l, &table, out));
}

// Makes a tile of the indices as the command takes them: in 16 bits and, with `clips`, limited to the table.
static bool find_columns(struct lane_work *w, expr load, int axis, bool clips, struct lane_operand *out) {
    const struct tile_type u16 = {TILE_UINT, 16, 1};
    struct lane_operand wide,
        low = {.type = i32, .scalar = tile_const_int(i32, 0)},
        high = {.type = i32, .scalar = tile_const_int(i32, pass_number(load->buffer->shape[axis]) - 1)};
    return find_indices(w, load->index[axis], (bool[]){true, true, true, true}, &wide) &&
           (!clips || (lanes_binary(w->l, w->p, TILE_MAX, &wide, &wide, &low) &&
                       lanes_binary(w->l, w->p, TILE_MIN, &wide, &wide, &high))) &&
           lanes_temporary(w->l, w->p, u16, NULL, out) && lanes_move(w->l, w->p, out, &wide);
}

static bool gather_near(struct lane_work *w, expr load, int axis, bool clips, struct lane_operand *out) {
    struct lane_operand table, index;
    bool is_repeated = !axis || !dims_in(w->p->names, w->p->name, w->p->dim, load->index[0]);
    if (!find_table(w, load, axis, is_repeated, &table) || !find_columns(w, load, axis, clips, &index) ||
        !lanes_temporary(w->l, w->p, table.type, NULL, out))
        return false;
    struct lane_call c = {0};
    lanes_add(&c, out->address);
    lanes_add(&c, table.address);
    lanes_add(&c, index.address);
    lanes_add_four(&c, w->p->size);
    lanes_add(&c, lanes_number(pass_number(load->buffer->shape[axis])));
    lanes_add_dtype(&c, table.type);
    lanes_add_dtype(&c, index.type);
    lanes_add(&c, lanes_code(is_repeated));
    lanes_call(&c, "tpu_bdc_batch_bcast_w_gather");
    return true;
}

bool lanes_gather(struct lane_work *w, expr load, int axis, bool clips, struct lane_operand *out) {
    return lanes_is_local(load->buffer) ? gather_near(w, load, axis, clips, out)
                                        : gather_far(w, load, axis, clips, out);
}
