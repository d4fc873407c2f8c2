// lanes.c - generates commands from tile statements, for chips whose memory is divided into lanes: layouts of
// tiles, indices, and the statements of a block.

#include "pass/lanes.h"

#include "bm1690/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct tile_type i64 = {TILE_INT, 64, 1};

bool lanes_fail(struct lanes *l, const char *format, ...) {
    char why[400];
    va_list list;
    va_start(list, format);
    vsnprintf(why, sizeof why, format, list);
    va_end(list);
    tile_current()->failed = true;
    return error_false(ZL_ERROR_COMPILE, "kernel %s, line %d: %s: target %s %s", tile_current()->name,
                       l->at ? l->at->place.line : 0, l->at ? tile_stmt_name(l->at->kind) : "kernel",
                       target_called(l->target), why);
}

expr lanes_number(int64_t value) {
    return tile_const_int((struct tile_type){TILE_INT, 64, 1}, value);
}

expr lanes_code(int value) {
    return tile_const_int((struct tile_type){TILE_INT, 32, 1}, value);
}

expr lanes_scalar(struct tile_type type, expr e) {
    if (!e || tile_type_equal(e->type, type))
        return e;
    if (tile_type_is_bool(e->type))
        return tile_ternary(TILE_SELECT, e, tile_const_int(type, 1), tile_const_int(type, 0));
    if (e->op == TILE_CONST)
        return tile_cast(type, e);
    struct tile_type f32 = {TILE_FLOAT, 32, 1}, wide = {TILE_INT, 64, 1};
    if (tile_type_is_half(e->type) || tile_type_is_half(type))
        e = tile_cast(f32, e);
    if (tile_type_is_integer(type) && tile_type_is_float(e->type) && type.bits < 32)
        e = tile_cast((struct tile_type){TILE_INT, 32, 1}, e);
    else if (tile_type_is_float(type) && tile_type_is_integer(e->type) && e->type.bits < 32)
        e = tile_cast(wide, e);
    return tile_cast(type, e);
}

int64_t lanes_round(int64_t value, int64_t by) {
    return (value + by - 1) / by * by;
}

struct tile_type lanes_type(struct tile_type type) {
    if (tile_type_is_bool(type))
        return (struct tile_type){TILE_UINT, 8, 1};
    if (tile_type_is_integer(type) && type.bits == 64)
        return (struct tile_type){type.kind, 32, 1};
    return type;
}

int lanes_dtype(struct tile_type type) {
    static const int codes[][2] = {
        {ZL_FLOAT32, BM1690_FP32},  {ZL_FLOAT16, BM1690_FP16},  {ZL_BFLOAT16, BM1690_BFP16},
        {ZL_INT32, BM1690_INT32},   {ZL_UINT32, BM1690_UINT32}, {ZL_INT16, BM1690_INT16},
        {ZL_UINT16, BM1690_UINT16}, {ZL_INT8, BM1690_INT8},     {ZL_UINT8, BM1690_UINT8}};
    zl_dtype dtype = tile_dtype_of(lanes_type(type));
    for (size_t i = 0; i < COUNT(codes); i++)
        if (codes[i][0] == (int)dtype)
            return codes[i][1];
    return -1;
}

bool lanes_is_local(const struct tile_buffer *b) {
    enum tile_memory memory = tile_memory_of(b)->memory;
    return b->parameter < 0 && memory != TILE_GLOBAL && memory != TILE_CONSTANT && memory != TILE_TABLE;
}

static bool lacks_type(struct lanes *l, struct tile_type type) {
    return lanes_fail(l, "has no commands for %s: they take real numbers of at most 32 bits",
                      tile_type_name(type));
}

// How tiles lie ---------------------------------------------------------------------------------------------

void lanes_strides(const int64_t *size, int bytes, int64_t *stride) {
    int vector = 64 / bytes;
    stride[LANE_W] = 1;
    stride[LANE_H] = size[LANE_W];
    stride[LANE_C] = lanes_round(size[LANE_H] * size[LANE_W], vector);
    stride[LANE_N] = (size[LANE_C] + 63) / 64 * stride[LANE_C];
}

static int64_t size_of_lane(const struct tile_buffer *b, int axis) {
    return pass_number(b->shape[axis]);
}

// Returns the bytes of the axes of a tile after axis `from`; -1: they are not known.
static int64_t bytes_after(const struct tile_buffer *b, int from) {
    int64_t count = pass_product(b->ndim - 1 - from, b->shape + from + 1);
    return count < 0 ? -1 : count * tile_type_bytes(lanes_type(b->type));
}

int lanes_view_axis(const struct tile_buffer *view, int lane) {
    const struct tile_buffer *base = view->base;
    int64_t bytes = bytes_after(base, lane), size = size_of_lane(base, lane);
    for (int i = view->ndim - 1; i >= 0; i--)
        if (size >= 0 && bytes >= 0 && bytes_after(view, i) == bytes && size_of_lane(view, i) == size)
            return i;
    return -1;
}

// Sets *out to the layout of a view, which is that of its base. The axis across the lanes has to be an axis
// of the view too.
static bool tile_of_view(struct lanes *l, const struct tile_buffer *b, struct lane_tile *out) {
    const struct tile_buffer *base = b->base;
    struct lane_tile under;
    if (!lanes_tile(l, base, &under))
        return false;
    *out = under;
    out->lane = under.lane < 0 ? -1 : lanes_view_axis(b, under.lane);
    int64_t bytes = tile_type_bytes(lanes_type(b->type)),
            bytes_under = tile_type_bytes(lanes_type(base->type));
    int64_t inner = 1, rest = under.lane < 0 ? 0 : bytes_after(base, under.lane) / bytes;
    for (int i = b->ndim - 1; i >= 0; i--) {
        int64_t size = size_of_lane(b, i);
        if (size < 1)
            return lanes_fail(l, "needs to know the size of '%s' along axis %d when a kernel is compiled",
                              b->text, i);
        out->step[i] = i == out->lane    ? under.step[under.lane] * bytes_under / bytes
                       : i > out->lane   ? inner
                       : under.lane == 0 ? 0
                                         : inner / (rest * size_of_lane(base, under.lane)) *
                                               under.step[under.lane - 1] * bytes_under / bytes;
        inner *= size;
    }
    if (under.lane >= 0 && out->lane < 0)
        return lanes_fail(l, "has no layout for '%s', a view of '%s' that cuts across its lanes", b->text,
                          base->text);
    return true;
}

// The dimension of each axis, by the number of axes. A single axis is w, or c if is_column is set.
static const int order[5][4] = {
    {0}, {LANE_W}, {LANE_C, LANE_W}, {LANE_N, LANE_C, LANE_W}, {LANE_N, LANE_C, LANE_H, LANE_W}};

int lanes_axis(int ndim) {
    for (int i = 0; i < ndim && ndim <= 4; i++)
        if (order[ndim][i] == LANE_C)
            return i;
    return -1;
}

bool lanes_tile(struct lanes *l, const struct tile_buffer *b, struct lane_tile *out) {
    *out = (struct lane_tile){.lane = -1, .size = {1, 1, 1, 1}};
    if (lanes_dtype(b->type) < 0 || b->type.bits == 64)
        return lacks_type(l, b->type);
    if (b->base)
        return tile_of_view(l, b, out);
    if (b->stride || b->ndim > 4)
        return lanes_fail(l, "has no layout for '%s', which is %s", b->text,
                          b->ndim > 4 ? "a tile of more than 4 axes" : "a tile with strides");
    for (int i = 0; i < b->ndim; i++) {
        out->dim[i] = b->ndim == 1 && b->id < l->buffers && l->is_column[b->id] ? LANE_C : order[b->ndim][i];
        int64_t size = pass_number(b->shape[i]);
        if (size < 1)
            return lanes_fail(l, "needs to know the size of '%s' along axis %d when a kernel is compiled",
                              b->text, i);
        out->size[out->dim[i]] = size;
        out->lane = out->dim[i] == LANE_C ? i : out->lane;
    }
    int bytes = tile_type_bytes(lanes_type(b->type));
    lanes_strides(out->size, bytes, out->stride);
    for (int i = 0; i < b->ndim; i++)
        out->step[i] = out->stride[out->dim[i]];
    out->bytes = lanes_round(out->size[LANE_N] * out->stride[LANE_N] * bytes, 64);
    return true;
}

// Points ----------------------------------------------------------------------------------------------------

enum { CHUNK = 1024, MOST_POINTS = 65535 }; // points per piece along w; per dimension of a command

// Adds a variable to the points, along a dimension. If it has too many points, opens a loop over pieces of
// it.
static bool open_axis(struct lanes *l, struct lane_space *s, const struct tile_name *name, expr extent,
                      int dim, expr *value) {
    struct lane_points *p = &s->points;
    int64_t most = pass_range(extent).high, chunk = dim == LANE_C ? 64 : CHUNK;
    *value = tile_name_value(name, TILE_INDEX);
    bool is_known = pass_number(extent) >= 0, is_even = is_known && most % chunk == 0;
    if (most > MOST_POINTS || (name != l->whole && (is_known ? is_even && most > 2 * chunk : most > chunk))) {
        struct tile_name *base = (struct tile_name *)name; // lanes_place tests its divisor
        base->divisor = chunk;
        base->high = is_even ? most - chunk : base->high;
        expr step = tile_const_int(name->type, chunk);
        const struct tile_name *inner = box_variable(box_number(chunk));
        tile_open_for(name, NULL, extent, step, TILE_SERIAL);
        s->loops++;
        expr first = *value;
        *value = inner ? ADD(first, tile_cast(name->type, box_point(inner))) : NULL;
        extent = is_even ? step : MIN(step, SUB(extent, first));
        name = inner;
        most = chunk;
    }
    p->name[p->names] = name;
    p->dim[p->names++] = dim;
    p->size[dim] = tile_cast((struct tile_type){TILE_INT, 64, 1}, extent);
    p->most[dim] = most;
    return name && p->size[dim];
}

// Returns whether a variable becomes a loop of the control program: there is no dimension left for it, or it
// has more points along n or h than a command takes.
static bool is_loop(int64_t most, int dim) {
    return dim < 0 || (most > MOST_POINTS && (dim == LANE_N || dim == LANE_H));
}

void lanes_dims(int names, const expr *extent, int lane, int *dim) {
    int next = LANE_W;
    for (int i = names - 1; i >= 0; i--) {
        bool is_one = pass_number(extent[i]) == 1;
        dim[i] = is_one ? LANE_DIMS : i == lane ? LANE_C : next;
        if (!is_one && i != lane)
            next = next == LANE_W ? LANE_H : next == LANE_H ? LANE_N : -1;
    }
}

bool lanes_open(struct lanes *l, int names, const struct tile_name *const *name, const expr *extent, int lane,
                struct lane_space *out) {
    int dim[TILE_DIMS];
    *out = (struct lane_space){0};
    lanes_dims(names, extent, lane, dim);
    for (int d = 0; d < LANE_DIMS; d++) {
        out->points.size[d] = lanes_number(1);
        out->points.most[d] = 1;
    }
    for (int i = 0; i < names; i++) {
        out->value[i] = tile_name_value(name[i], TILE_INDEX);
        if (dim[i] == LANE_DIMS)
            out->value[i] = tile_const_int(name[i]->type, 0);
        else if (is_loop(pass_range(extent[i]).high, dim[i])) {
            tile_open_for(name[i], NULL, extent[i], NULL, TILE_SERIAL);
            out->loops++;
        } else if (!open_axis(l, out, name[i], extent[i], dim[i], &out->value[i]))
            return lanes_fail(l, "cannot count its points");
    }
    return true;
}

// Sets the points of one variable to `rows` rows across the lanes, each of `width` points along w. The first
// point has the value `base` (NULL: 0).
static bool open_rows(struct lane_space *s, expr rows, int64_t most_rows, expr width, int64_t most_width,
                      expr base, struct tile_type type) {
    struct lane_points *p = &s->points;
    const struct tile_name *row = box_variable(box_number(most_rows)),
                           *column = box_variable(box_number(most_width));
    if (!row || !column)
        return false;
    p->names = 2;
    p->name[0] = row;
    p->name[1] = column;
    p->dim[0] = LANE_C;
    p->dim[1] = LANE_W;
    p->size[LANE_C] = rows;
    p->size[LANE_W] = width;
    p->most[LANE_C] = most_rows;
    p->most[LANE_W] = most_width;
    expr at = ADD(MUL(tile_cast(i64, box_point(row)), width), tile_cast(i64, box_point(column)));
    s->value[0] = tile_cast(type, base ? ADD(base, at) : at);
    return s->value[0];
}

// Assigns a value that is within a range to a new variable of the control program, and returns the variable.
static expr computed(const char *prefix, expr value, int64_t low, int64_t high) {
    struct tile_name *name = (struct tile_name *)box_local(prefix, i64);
    if (!name)
        return NULL;
    name->low = low;
    name->high = high;
    tile_assign(name, value);
    return box_local_value(name);
}

bool lanes_open_flat(const struct tile_name *name, expr extent, struct lane_space *out, bool *is_flat) {
    int64_t known = pass_number(extent), most = pass_range(extent).high, rows = 64;
    *out = (struct lane_space){0};
    for (int d = 0; d < LANE_DIMS; d++) {
        out->points.size[d] = lanes_number(1);
        out->points.most[d] = 1;
    }
    *is_flat = most > 1 && most <= 64 * CHUNK;
    if (!*is_flat)
        return true;
    while (known > 0 && known % rows)
        rows--;
    if (known > 0 && rows >= 32)
        return open_rows(out, lanes_number(rows), rows, lanes_number(known / rows), known / rows, NULL,
                         name->type);
    int64_t widest = (most + 63) / 64;
    expr count = tile_cast(i64, extent), none = lanes_number(0), one = lanes_number(1);
    expr width =
        computed("width", MAX(one, FLOORDIV(ADD(count, lanes_number(63)), lanes_number(64))), 1, widest);
    expr whole = computed("rows", FLOORDIV(count, width), 0, 64);
    const struct tile_name *part = box_variable(box_number(2));
    tile_open_for(part, NULL, box_number(2), NULL, TILE_SERIAL);
    expr is_first = EQ(tile_cast(i64, box_point(part)), none), before = MUL(whole, width);
    expr now = computed("lanes", SELECT(is_first, whole, one), 0, 64);
    expr along = computed("columns", SELECT(is_first, width, SUB(count, before)), 0, widest);
    expr base = computed("from", SELECT(is_first, none, before), 0, most);
    tile_open_if(AND(GT(now, none), GT(along, none)));
    out->loops = 2;
    return open_rows(out, now, 64, along, widest, base, name->type);
}

void lanes_close(const struct lane_space *space) {
    for (int i = 0; i < space->loops; i++)
        tile_close();
}

struct varies {
    const struct lanes *l;
    const struct lane_points *p;
};

static bool is_of_points(expr e, const void *data) {
    const struct varies *v = data;
    for (int i = 0; e->op == TILE_INDEX && i < v->p->names; i++)
        if (e->name == v->p->name[i])
            return true;
    for (int i = 0; e->op == TILE_LOCAL && i < v->l->variables; i++)
        if (e->name == v->l->variable[i])
            return true;
    return false;
}

bool lanes_is_uniform(const struct lanes *l, const struct lane_points *p, expr e) {
    return !pass_any(e, is_of_points, &(struct varies){l, p});
}

bool lanes_temporary(struct lanes *l, const struct lane_points *p, struct tile_type type, const bool *along,
                     struct lane_operand *out) {
    expr shape[LANE_DIMS];
    int64_t size[LANE_DIMS], stride[LANE_DIMS];
    type = lanes_type(type);
    if (lanes_dtype(type) < 0)
        return lacks_type(l, type);
    for (int d = 0; d < LANE_DIMS; d++) {
        size[d] = !along || along[d] ? p->most[d] : 1;
        shape[d] = box_number(size[d]);
    }
    lanes_strides(size, tile_type_bytes(type), stride);
    *out = (struct lane_operand){
        .type = type, .address = tile_address_of(box_alloc("t", type, TILE_SHARED, LANE_DIMS, shape))};
    for (int d = 0; d < LANE_DIMS; d++)
        out->stride[d] = lanes_number(!along || along[d] ? stride[d] : 0);
    return out->address;
}

// Indices ---------------------------------------------------------------------------------------------------

static expr plus(expr a, expr b) {
    return !a ? b : !b ? a : ADD(a, b);
}

static bool affine(struct lanes *l, const struct lane_points *p, expr e, expr *coefficient, expr *rest) {
    if (lanes_is_uniform(l, p, e)) {
        *rest = lanes_control(l, tile_cast(i64, e));
        return *rest;
    }
    expr other[TILE_DIMS] = {NULL}, other_rest = NULL;
    *rest = NULL;
    switch (e->op) {
    case TILE_INDEX:
        for (int i = 0; i < p->names; i++)
            coefficient[i] = e->name == p->name[i] ? lanes_number(1) : NULL;
        return true;
    case TILE_CAST:
        return tile_type_is_integer(e->arg[0]->type) && affine(l, p, e->arg[0], coefficient, rest);
    case TILE_ADD:
    case TILE_SUB:
        if (!affine(l, p, e->arg[0], coefficient, rest) || !affine(l, p, e->arg[1], other, &other_rest))
            return false;
        for (int i = -1; i < p->names; i++) {
            expr *mine = i < 0 ? rest : &coefficient[i], its = i < 0 ? other_rest : other[i];
            *mine = !its                ? *mine
                    : e->op == TILE_ADD ? plus(*mine, its)
                                        : SUB(*mine ? *mine : lanes_number(0), its);
        }
        return true;
    case TILE_MUL: {
        int factor = lanes_is_uniform(l, p, e->arg[1]) ? 1 : 0;
        if (!lanes_is_uniform(l, p, e->arg[factor]) || !affine(l, p, e->arg[!factor], coefficient, rest))
            return false;
        expr by = lanes_control(l, tile_cast(i64, e->arg[factor]));
        for (int i = -1; i < p->names; i++) {
            expr *mine = i < 0 ? rest : &coefficient[i];
            *mine = *mine ? MUL(*mine, by) : NULL;
        }
        return true;
    }
    default: return false;
    }
}

static bool is_factor(const struct lanes *l, const struct lane_points *p, expr e) {
    bool is_counted = e->op == TILE_LOCAL && e->name->low >= 0; // a number of points
    return lanes_is_uniform(l, p, e) && (is_counted || pass_range(e).low >= 0);
}

bool lanes_has_strides(const struct lanes *l, const struct lane_points *p, expr e) {
    bool is_scaled = e->op == TILE_MUL && (is_factor(l, p, e->arg[0]) || is_factor(l, p, e->arg[1]));
    if (lanes_is_uniform(l, p, e) || e->op == TILE_INDEX)
        return true;
    if (e->op == TILE_CAST)
        return tile_type_is_integer(e->arg[0]->type) && lanes_has_strides(l, p, e->arg[0]);
    if (e->op == TILE_SUB && !lanes_is_uniform(l, p, e->arg[1]))
        return false;
    return (e->op == TILE_ADD || e->op == TILE_SUB || is_scaled) && lanes_has_strides(l, p, e->arg[0]) &&
           lanes_has_strides(l, p, e->arg[1]);
}

bool lanes_affine(struct lanes *l, const struct lane_points *p, expr index, expr *coefficient, expr *rest) {
    for (int i = 0; i < p->names; i++)
        coefficient[i] = NULL;
    if (!affine(l, p, index, coefficient, rest))
        return false;
    for (int i = 0; i < p->names; i++)
        if (coefficient[i] && coefficient[i]->op == TILE_CONST && !coefficient[i]->bits)
            coefficient[i] = NULL;
    if (!*rest)
        *rest = lanes_number(0);
    return true;
}

bool lanes_index(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b, const expr *index,
                 int axis, expr *coefficient, expr *rest) {
    return lanes_affine(l, p, index[axis], coefficient, rest) ||
           lanes_fail(l, "has no gather for '%s', whose index along axis %d is no sum of loop variables",
                      b->text, axis);
}

expr lanes_far_stride(const struct tile_buffer *b, int axis) {
    if (b->stride)
        return tile_cast(i64, b->stride[axis]);
    expr stride = lanes_number(1);
    for (int i = axis + 1; i < b->ndim; i++)
        stride = MUL(stride, tile_cast(i64, b->shape[i]));
    return stride;
}

// Returns the address of element `at` along the axis across the lanes: which lane it is in, and its offset in
// that lane. Addresses of adjacent lanes are 256 KiB apart.
static expr lane_address(expr at, int64_t stride, struct tile_type type) {
    int64_t known = pass_number(at);
    if (known >= 0)
        return lanes_number(known % 64 * (256 << 10) + known / 64 * stride * tile_type_bytes(type));
    expr lanes = lanes_number(64);
    return ADD(MUL(REM(at, lanes), lanes_number(256 << 10)),
               MUL(FLOORDIV(at, lanes), lanes_number(stride * tile_type_bytes(type))));
}

bool lanes_place(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b, const expr *index,
                 struct lane_operand *out) {
    struct lane_tile tile = {.lane = -1};
    expr at = tile_address_of(tile_memory_of(b));
    *out = (struct lane_operand){.type = lanes_type(b->type), .is_far = !lanes_is_local(b)};
    out->is_wide = out->is_far && b->type.bits == 64;
    if (!out->is_far && !lanes_tile(l, b, &tile))
        return false;
    for (int d = 0; d < LANE_DIMS; d++)
        out->stride[d] = lanes_number(0);
    for (int i = 0; i < b->ndim; i++) {
        expr coefficient[TILE_DIMS], rest;
        if (!lanes_index(l, p, b, index, i, coefficient, &rest))
            return false;
        expr stride = out->is_far ? lanes_far_stride(b, i) : lanes_number(tile.step[i]);
        bool is_lane = i == tile.lane;
        for (int v = 0; v < p->names; v++) {
            if (!coefficient[v])
                continue;
            if (is_lane != (p->dim[v] == LANE_C && !out->is_far) ||
                (is_lane && pass_number(coefficient[v]) != 1))
                return lanes_fail(l,
                                  "cannot read '%s' so: '%s' goes along axis %d of it, which is %s the lanes",
                                  b->text, p->name[v]->text, i, is_lane ? "across" : "not across");
            expr *sum = &out->stride[p->dim[v]];
            *sum = is_lane ? stride : ADD(*sum, MUL(coefficient[v], stride));
        }
        if (is_lane) {
            at = ADD(at, lane_address(rest, tile.step[i], out->type));
            out->is_shifted = pass_divisor(rest) % 64 != 0 && pass_number(rest) != 0;
        } else {
            at = ADD(
                at, MUL(MUL(rest, stride), lanes_number(tile_type_bytes(out->is_far ? b->type : out->type))));
        }
    }
    for (int d = 0; out->is_wide && d < LANE_DIMS; d++)
        out->stride[d] = MUL(out->stride[d], lanes_number(2));
    out->address = at;
    return at;
}

// Control ---------------------------------------------------------------------------------------------------

// Reads an element of a buffer into a variable of the control program. Returns NULL if that fails.
static expr read_element(struct lanes *l, expr e) {
    struct lane_points none = {.names = 0};
    struct lane_operand at;
    for (int d = 0; d < LANE_DIMS; d++) {
        none.size[d] = lanes_number(1);
        none.most[d] = 1;
    }
    const struct tile_name *name = box_local("read", e->type);
    tile_assign(name, e->args ? e->arg[1] : tile_const_int(e->type, 0));
    box_open_if(e->args ? e->arg[0] : NULL);
    if (!lanes_place(l, &none, e->buffer, e->index, &at))
        return NULL;
    struct tile_stmt *s =
        tile_command(at.is_far ? "tpu_global_mem_addr" : "tpu_local_mem_addr_unified", 1, &at.address);
    if (s)
        s->old = name;
    box_close_if(e->args ? e->arg[0] : NULL);
    return box_local_value(name);
}

static bool is_load(expr e, const void *data) {
    (void)data;
    return e->op == TILE_LOAD;
}

// Reads an element for the control program, once per statement and block.
static expr read_once(struct lanes *l, expr e) {
    const struct tile_frame *block = tile_current()->open;
    for (int i = 0; i < l->reads; i++)
        if (l->read[i].element == e && l->read[i].block == block)
            return l->read[i].value;
    expr value = read_element(l, e);
    if (l->reads < LANE_READS)
        l->read[l->reads++] = (struct lane_read){e, value, block};
    return value;
}

// The state of replacing the loads in an expression by variables that the control program reads, each node
// once.
struct reading {
    struct lanes *lanes;
    expr *made; // by id: their replacements
    int cap;
};

static expr with_reads(void *data, expr e) {
    struct reading *r = data;
    if (e->id < r->cap && r->made[e->id])
        return r->made[e->id];
    expr made = pass_rebuild(e, with_reads, r);
    if (made && made->op == TILE_LOAD)
        made = read_once(r->lanes, made);
    if (e->id < r->cap)
        r->made[e->id] = made;
    return made;
}

expr lanes_control(struct lanes *l, expr e) {
    if (!e || !pass_any(e, is_load, NULL))
        return e;
    struct reading r = {.lanes = l, .cap = e->id + 1};
    if (!(r.made = memory_zero(sizeof *r.made * (size_t)r.cap)))
        return NULL;
    expr made = with_reads(&r, e);
    memory_free(r.made);
    return made;
}

// Commands --------------------------------------------------------------------------------------------------

void lanes_add(struct lane_call *c, expr e) {
    if (c->count < TILE_COMMAND_ARGUMENTS)
        c->argument[c->count] = e;
    c->count++;
}

void lanes_add_four(struct lane_call *c, const expr *four) {
    for (int i = 0; i < LANE_DIMS; i++)
        lanes_add(c, four[i]);
}

void lanes_add_dtype(struct lane_call *c, struct tile_type type) {
    lanes_add(c, lanes_code(lanes_dtype(type)));
}

void lanes_call(struct lane_call *c, const char *function) {
    tile_command(function, c->count, c->argument);
}

// Which vectors are across the lanes ------------------------------------------------------------------------

static void want_column(struct lanes *l, const struct tile_buffer *b) {
    if (b && b->ndim == 1 && lanes_is_local(b) && b->id < l->buffers)
        l->is_column[b->id] = true;
}

struct search {
    struct lanes *l;
    const struct tile_stmt *map;
    const struct tile_name *lane;
};

static bool find_vectors(expr e, const void *data) {
    const struct search *s = data;
    if (e->op == TILE_LOAD && e->buffer->ndim == 1 && pass_depends(e->index[0], s->lane))
        want_column(s->l, e->buffer);
    return false;
}

static void search_map(struct lanes *l, const struct tile_stmt *map, const struct tile_stmt *body,
                       bool in_branch) {
    const struct tile_name *lane = map->indices > 1 ? map->name[map->indices - 2] : NULL;
    struct search search = {l, map, lane};
    for (const struct tile_stmt *s = body; s; s = s->next) {
        expr list[TILE_STMT_EXPRS];
        int count = lane ? tile_stmt_exprs(s, list) : 0;
        for (int i = 0; i < count; i++)
            pass_any(list[i], find_vectors, &search);
        if (s->kind == TILE_STORE && s->buffer->ndim == 1 && lane && pass_depends(s->index[0], lane))
            want_column(l, s->buffer);
        if (s->kind == TILE_STORE && (in_branch || s->mask))
            l->is_partly[tile_memory_of(s->buffer)->id] = true;
        search_map(l, map, s->body, in_branch || s->kind == TILE_IF);
        search_map(l, map, s->other, true);
    }
}

// Marks the vectors with one element per row of a tile as spread across the lanes, because the rows are:
// results of reductions, and vectors that maps of tiles read or store by row.
static void search_block(struct lanes *l, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        const struct tile_buffer *from = s->region[0].buffer, *to = s->region[1].buffer;
        if (s->kind == TILE_MAP)
            search_map(l, s, s->body, false);
        else if (s->kind == TILE_REDUCE && from->ndim == 2 && s->axis == 1)
            want_column(l, to);
        search_block(l, s->body);
        search_block(l, s->other);
    }
}

// Returns whether a node loads a vector that is spread across the lanes.
static bool is_mixed(expr e, const void *data) {
    const struct lanes *l = data;
    return e->op == TILE_LOAD && e->buffer->ndim == 1 && lanes_is_local(e->buffer) &&
           e->buffer->id < l->buffers && l->is_column[e->buffer->id];
}

static bool spread(expr e, const void *data) {
    if (e->op == TILE_LOAD)
        want_column((struct lanes *)data, e->buffer);
    return false;
}

// Gives vectors that a copy or a map of one axis uses together the same layout. Returns whether that changed
// any.
static bool join_block(struct lanes *l, const struct tile_stmt *body) {
    bool changed = false;
    for (const struct tile_stmt *s = body; s; s = s->next) {
        if (s->kind == TILE_MAP && s->indices == 1)
            for (const struct tile_stmt *t = s->body; t; t = t->next) {
                if (t->kind != TILE_STORE)
                    continue;
                bool is_column = t->buffer->ndim == 1 && lanes_is_local(t->buffer) &&
                                 t->buffer->id < l->buffers && l->is_column[t->buffer->id];
                bool other = pass_any(t->value, is_mixed, l);
                if (is_column && !other)
                    pass_any(t->value, spread, l);
                if (other && !is_column)
                    want_column(l, t->buffer);
                changed |= other && !is_column && t->buffer->ndim == 1 && lanes_is_local(t->buffer);
            }
        const struct tile_buffer *from = s->region[0].buffer, *to = s->region[1].buffer;
        if (s->kind == TILE_COPY && from->ndim == 1 && to->ndim == 1 && lanes_is_local(from) &&
            lanes_is_local(to) && l->is_column[from->id] != l->is_column[to->id]) {
            l->is_column[from->id] = l->is_column[to->id] = true;
            changed = true;
        }
        changed |= join_block(l, s->body) || join_block(l, s->other);
    }
    return changed;
}

// Statements ------------------------------------------------------------------------------------------------

static bool uses_op(expr e, const void *op) {
    return e->op == *(const enum tile_op *)op;
}

static bool stmt_uses(const struct tile_stmt *s, const void *op) {
    expr list[TILE_STMT_EXPRS];
    int count = tile_stmt_exprs(s, list);
    for (int i = 0; i < count; i++)
        if (pass_any(list[i], uses_op, op))
            return true;
    return false;
}

// Loads the coefficients of a series, 64 bytes in each lane, if a statement uses `op`. exp2 uses those of
// exp.
static struct tile_buffer *load_constants(const struct tile_stmt *body, enum tile_op op,
                                          const char *function) {
    struct tile_type f32 = {TILE_FLOAT, 32, 1};
    enum tile_op other = op == TILE_EXP ? TILE_EXP2 : op;
    if (!pass_find(body, stmt_uses, &op) && !pass_find(body, stmt_uses, &other))
        return NULL;
    struct tile_buffer *b = box_alloc("constants", f32, TILE_SHARED, 4,
                                      (expr[]){box_number(1), box_number(64), box_number(1), box_number(16)});
    struct lane_call c = {0};
    lanes_add(&c, tile_address_of(b));
    lanes_add_dtype(&c, f32);
    lanes_call(&c, function);
    return b;
}

static void find_constants(struct lanes *l, const struct tile_stmt *body) {
    l->exponents = load_constants(body, TILE_EXP, "tpu_bdc_load_fp_exp_coeff");
}

static void emit_block(void *data, const struct tile_stmt *body);

static void region(const char *function) {
    lanes_call(&(struct lane_call){0}, function);
}

// Returns whether copies of a loop run ahead. Such a loop begins with a wait, and its iterations are parallel
// regions, in which copies and commands overlap.
static bool runs_ahead(const struct tile_stmt *s) {
    return s->kind == TILE_FOR && s->body && s->body->kind == TILE_WAIT;
}

// Generates an iteration of such a loop. It becomes no region if both engines may touch one tile.
static void emit_region(struct lanes *l, const struct tile_stmt *body) {
    struct tile_stmt **begin = tile_current()->tail;
    bool was_mixed = l->is_mixed;
    l->is_mixed = false;
    region("tpu_parallel_start");
    emit_block(l, body);
    if (!l->is_mixed)
        region("tpu_parallel_end");
    else if (*begin && (*begin)->next)
        *begin = (*begin)->next;
    l->is_mixed = was_mixed;
}

// Returns whether the first statement after an allocation that touches the tile sets all of it: a fill, or a
// copy of the tile's size.
static bool is_set_first(const struct tile_stmt *allocation) {
    const struct tile_stmt *s = allocation->next;
    while (s && !pass_touches(s, allocation->buffer))
        s = s->next;
    if (!s || (s->kind != TILE_COPY && s->kind != TILE_FILL))
        return false;
    const struct tile_region *from = &s->region[0], *to = &s->region[1];
    bool is_whole = to->buffer == allocation->buffer && !to->origin && !to->extent;
    return is_whole &&
           (s->kind == TILE_FILL || (from->buffer != to->buffer && from->origin && !from->extent));
}

// Allocates a tile. If a statement stores only a part of it, fills it with 0 first, because such a store
// reads the old elements.
static void allocate(struct lanes *l, const struct tile_stmt *s) {
    tile_append(*s);
    if (lanes_is_local(s->buffer) && !s->buffer->base && l->is_partly[s->buffer->id] && !is_set_first(s))
        lanes_fill_region(l, &(struct tile_stmt){.kind = TILE_FILL,
                                                 .place = s->place,
                                                 .region = {{NULL}, {.buffer = s->buffer}},
                                                 .value = tile_const_int(s->buffer->type, 0)});
}

// Emits a loop that tests the condition inside, so that whatever the condition reads is read again in each
// iteration.
static void emit_while(struct lanes *l, const struct tile_stmt *s) {
    expr always = tile_const_int((struct tile_type){TILE_BOOL, 1, 1}, 1);
    tile_open((struct tile_stmt){.kind = TILE_WHILE, .place = s->place, .mask = always});
    tile_open_if(NOT(lanes_control(l, s->mask)));
    tile_append((struct tile_stmt){.kind = TILE_BREAK, .place = s->place});
    tile_close();
    emit_block(l, s->body);
    tile_close();
}

// Gives commands the source position of the statement that they come from.
static void set_place(struct tile_stmt *list, struct tile_place place) {
    for (struct tile_stmt *s = list; s; s = s->next) {
        s->place = s->place.line ? s->place : place;
        set_place(s->body, place);
        set_place(s->other, place);
    }
}

static void emit_one(struct lanes *l, const struct tile_stmt *s) {
    l->at = s;
    l->reads = 0;
    switch (s->kind) {
    case TILE_MAP: lanes_map(l, s); return;
    case TILE_COPY: lanes_copy(l, s); return;
    case TILE_FILL: lanes_fill_region(l, s); return;
    case TILE_REDUCE: lanes_reduce(l, s); return;
    case TILE_SCAN: lanes_scan(l, s); return;
    case TILE_GEMM: lanes_gemm(l, s); return;
    case TILE_ALLOC: allocate(l, s); return;
    case TILE_WAIT:
    case TILE_BARRIER: return; // commands run in order; a region ends when all its commands have
    case TILE_STORE:
    case TILE_ATOMIC: lanes_store(l, s); return;
    case TILE_SHUFFLE:
    case TILE_IM2COL: lanes_fail(l, "has no command for it"); return;
    default: break;
    }
    bool opens = s->kind == TILE_FOR || s->kind == TILE_IF || s->kind == TILE_WHILE || s->kind == TILE_GRID;
    struct tile_stmt copy = *s;
    expr end = s->kind == TILE_FOR ? lanes_control(l, s->extent[0]) : NULL;
    copy.loop = TILE_SERIAL;
    copy.extent = end ? &end : s->extent;
    copy.cluster = copy.resident = 0; // there are no workgroups
    copy.begin = lanes_control(l, s->begin);
    copy.step = lanes_control(l, s->step);
    copy.value = lanes_control(l, s->value);
    if (s->kind == TILE_WHILE) {
        emit_while(l, s);
        return;
    }
    copy.mask = lanes_control(l, s->mask);
    if (!opens) {
        tile_append(copy);
        return;
    }
    struct tile_stmt *opened = tile_open(copy);
    if (s->kind == TILE_GRID)
        l->is_alone = pass_find_kind(s->body, TILE_ATOMIC);
    if (s->kind == TILE_GRID)
        find_constants(l, s->body);
    if (runs_ahead(s))
        emit_region(l, s->body);
    else
        emit_block(l, s->body);
    if (s->other) {
        tile_else();
        emit_block(l, s->other);
    }
    tile_close();
    if (s->kind == TILE_GRID && opened) // the number of cores that share its blocks
        opened->threads = l->is_alone ? 1 : l->target->lanes->cores;
}

static void emit_stmt(struct lanes *l, const struct tile_stmt *s) {
    struct tile_stmt **begin = tile_current()->tail;
    emit_one(l, s);
    set_place(*begin, s->place);
}

// Generates a map outside of grids as a grid over pieces of one variable, so that all cores share it. Returns
// false for a map that is too small.
static bool emit_as_grid(struct lanes *l, const struct tile_stmt *s) {
    enum { ROWS = 64, POINTS = 64 * 256 };
    const struct tile_name *name[TILE_DIMS];
    expr extent[TILE_DIMS], value[TILE_DIMS];
    int which = MAX_OF(s->indices - 2, 0);
    int64_t chunk = s->indices > 1 ? ROWS : POINTS, known = pass_number(s->extent[which]);
    if (known >= 0 && known <= chunk)
        return false;
    expr size = tile_const_int(s->extent[which]->type, chunk);
    expr blocks = box_ceil_divide(box_index(s->extent[which]), chunk);
    struct tile_stmt map = *s;
    for (int i = 0; i < s->indices; i++) {
        name[i] = s->name[i];
        extent[i] = s->extent[i];
        value[i] = tile_name_value(name[i], TILE_INDEX);
    }
    const struct tile_name *block = box_variable(blocks);
    name[which] = box_variable(size);
    struct tile_stmt *grid = tile_open((struct tile_stmt){
        .kind = TILE_GRID, .place = s->place, .indices = 1, .name = &block, .extent = &blocks});
    expr first = MUL(tile_cast(size->type, box_point(block)), size);
    value[which] = ADD(first, tile_cast(size->type, box_point(name[which])));
    extent[which] = MIN(size, SUB(s->extent[which], first));
    map.name = name;
    map.extent = extent;
    struct pass_swap swap = {.names = s->indices, .name = s->name, .value = value};
    l->is_alone = pass_find_kind(s->body, TILE_ATOMIC);
    find_constants(l, s->body);
    if (grid && pass_swap_in(&swap, s->body))
        lanes_map(l, &map);
    tile_close();
    if (grid)
        grid->threads = l->is_alone ? 1 : l->target->lanes->cores;
    return true;
}

// Generates the statements of a kernel. A statement outside of grids is a block of its own.
static void emit_kernel(struct lanes *l, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s && !tile_current()->failed; s = s->next) {
        l->at = s;
        if (s->kind == TILE_MAP && emit_as_grid(l, s))
            continue;
        struct tile_stmt alone = *s;
        alone.next = NULL;
        if (s->kind != TILE_GRID)
            find_constants(l, &alone);
        emit_stmt(l, s);
    }
}

static void emit_block(void *data, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s && !tile_current()->failed; s = s->next)
        emit_stmt(data, s);
}

bool pass_lanes(struct tile_kernel *kernel, const struct target *target) {
    if (!target->lanes)
        return true;
    size_t flags = (size_t)kernel->buffers + 1;
    struct lanes l = {.target = target, .buffers = kernel->buffers, .is_column = memory_zero(2 * flags)};
    if (!l.is_column || !pass_simplify(kernel, target)) {
        memory_free(l.is_column);
        return false;
    }
    l.is_partly = l.is_column + flags;
    for (int i = 0; i < kernel->parameters; i++)
        if (!kernel->parameter[i].is_scalar) // tables too are in device memory
            kernel->parameter[i].buffer->memory = TILE_GLOBAL;
    pass_learn(kernel->body);
    search_block(&l, kernel->body);
    while (join_block(&l, kernel->body))
        ;
    tile_resume(kernel);
    emit_kernel(&l, tile_take_body());
    tile_suspend();
    bool good = !kernel->failed;
    if (good)
        pass_dump_kernel(kernel, "commands");
    good = good && lanes_assign(&l, kernel);
    memory_free(l.is_column);
    return good;
}
